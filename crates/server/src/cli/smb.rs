//! `tally smb`: what Samba is to share, whether it does, and how a new list of shares comes to it.

mod apply;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand, ValueHint};
use tally_smb::{ShareName, has_share, includes, looked_at, refused, unchecked};

use super::console::{Console, Failure, Session, ask, print_reply};
use super::table::{Align, Table, TableArgs};
use crate::control::message::{Reply, Request};
use crate::control::smb::{SmbReport, SmbShare};

/// Words of `smb`.
#[derive(Debug, Args)]
pub struct SmbArgs {
    /// Or have Samba take them.
    #[command(subcommand)]
    what: Option<SmbCommand>,
    /// Samba's own configuration, which is to include the shares
    #[arg(long, value_name = "FILE", default_value = SMB_CONF, value_hint = ValueHint::FilePath)]
    smb_conf: PathBuf,
    /// No header, and a single tab between fields
    #[arg(short = 'H')]
    plain: bool,
}

/// What can be done with shares.
#[derive(Debug, Subcommand)]
enum SmbCommand {
    /// Have Samba take what the daemon has written: what tally-smb.service does
    ///
    /// FILE.new is looked at, by its words and by testparm, takes the place of FILE, and smbd is told. One that is refused is left as FILE.refused, and Samba keeps what it had. Where there is no Samba
    /// the file takes its place, too, for one that is installed later.
    Apply {
        /// The file that smb.conf includes
        #[arg(default_value = "/run/tally/smb.conf", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

/// Where Samba looks.
pub(super) const SMB_CONF: &str = "/etc/samba/smb.conf";
/// Where programs are that administer something, though it is in nobody's path.
const ADMINISTRATORS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// `tally smb`.
pub(super) fn run(session: Session<'_>, args: &SmbArgs, here: &Path, console: &mut Console<'_>) -> Result<(), Failure> {
    if let Some(SmbCommand::Apply { file }) = &args.what {
        return apply::apply(&here.join(file), &program, console);
    }
    let reply = ask(session, &Request::Smb, console)?;
    let Reply::Smb(report) = &reply else { return Err(Failure::Mismatch) };
    let troubles = Samba::look(report, &here.join(&args.smb_conf)).troubles(report);
    let style = TableArgs { plain: args.plain, exact: false };
    print_reply(session.json, reply, console, &|reply| match reply {
        Reply::Smb(report) => Some(lines(&report.shares, style)),
        _ => None,
    })?;
    for (found, todo) in troubles.iter().filter(|_| !session.json) {
        writeln!(console.err, "note: {found}: {todo}")?;
    }
    Ok(())
}

fn lines(shares: &[SmbShare], style: TableArgs) -> String {
    let heads = ["SHARE", "DATASET", "DIRECTORY", "USED BY", "STATE"];
    let mut table = Table::new(&heads.map(|head| (head, Align::Left)));
    for share in shares {
        let dir = share.dir.as_ref().map_or_else(|| "-".into(), |dir| dir.display().to_string());
        let used = if share.is_mixed { "others, too" } else { "SMB alone" };
        let state = share.problem.as_ref().map_or_else(|| "shared".into(), |why| format!("not shared: {why}"));
        table.row(vec![
            share.name.clone().unwrap_or_else(|| "-".into()),
            share.dataset.clone(),
            dir,
            used.into(),
            state,
        ]);
    }
    table.print(style)
}

/// What this machine has of Samba.
#[derive(Clone, Debug, Default)]
pub(super) struct Samba {
    pub(super) is_installed: bool,
    /// Where its configuration is, and what it says, if it can be read.
    pub(super) smb_conf: PathBuf,
    pub(super) text: Option<String>,
    /// A list of shares that it has not taken.
    pub(super) left: Option<Left>,
}

/// Where a list of shares has stopped on its way to Samba.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nobody has looked at it.
    Waiting,
    /// Whoever looks at it has done so for longer than that takes, or was ended.
    LookedAt,
    /// It was refused, and nothing new has come since.
    Refused,
}

/// For so long a list may be looked at: `tally-smb.service` ends it behind a minute.
const LOOK_MAX: Duration = Duration::from_secs(60);

impl Left {
    /// Looks beside the file that smb.conf includes.
    fn beside(include: &Path, now: SystemTime) -> Option<Self> {
        let is_overdue = |meta: fs::Metadata| {
            let since = UNIX_EPOCH + Duration::from_secs(meta.ctime().try_into().unwrap_or_default());
            now.duration_since(since).is_ok_and(|age| age > LOOK_MAX)
        };
        match fs::metadata(looked_at(include)) {
            _ if unchecked(include).exists() => Some(Self::Waiting),
            Ok(meta) => is_overdue(meta).then_some(Self::LookedAt),
            Err(_) => refused(include).exists().then_some(Self::Refused),
        }
    }

    /// What is so, and what to do.
    fn trouble(self, include: &Path) -> (String, String) {
        let file = |file: PathBuf| file.display().to_string();
        let apply = format!("`tally smb apply {}`", include.display());
        match self {
            Self::Waiting => (
                format!("Samba has not taken the newest shares, {}", file(unchecked(include))),
                format!("`systemctl enable --now tally-smb.path` has it take them by itself, and {apply} once"),
            ),
            Self::LookedAt => (
                format!(
                    "Samba has not taken the newest shares: whoever looked at {} has not come back",
                    file(looked_at(include))
                ),
                format!("see whether `testparm -s {}` does, and begin anew with {apply}", file(looked_at(include))),
            ),
            Self::Refused => (
                format!(
                    "the newest shares were refused, and Samba goes on with those before: {}",
                    file(refused(include))
                ),
                format!("`journalctl -u tally-smb` says why, or `testparm -s {}`", file(refused(include))),
            ),
        }
    }
}

impl Samba {
    /// Looks.
    pub(super) fn look(report: &SmbReport, smb_conf: &Path) -> Self {
        Self {
            is_installed: program("smbd").is_some(),
            smb_conf: smb_conf.to_owned(),
            text: fs::read_to_string(smb_conf).ok(),
            left: Left::beside(&report.include, SystemTime::now()),
        }
    }

    /// What keeps Samba from sharing what it is to, and what to do. Where there are no shares, only that it goes on with some that there were.
    pub(super) fn troubles(&self, SmbReport { include, shares }: &SmbReport) -> Vec<(String, String)> {
        let (smb_conf, include) = (self.smb_conf.display(), include.as_path());
        let left = self.left.map(|left| left.trouble(include));
        if shares.is_empty() {
            let is_included = self.text.as_deref().is_some_and(|text| includes(text, include));
            return left.filter(|_| self.is_installed && is_included).into_iter().collect();
        }
        if !self.is_installed {
            return vec![(
                "there is no Samba on this machine".into(),
                "install it (apt-get install samba samba-vfs-modules)".into(),
            )];
        }
        let mut troubles = Vec::new();
        match &self.text {
            None => {
                troubles.push((format!("{smb_conf} cannot be read"), "ask as root, or name it with --smb-conf".into()))
            }
            Some(text) if !includes(text, include) => troubles.push((
                format!("{smb_conf} does not include the shares"),
                format!("add the line `include = {}` at its end", include.display()),
            )),
            Some(text) => troubles.extend(shares.iter().filter_map(|share| {
                let name = ShareName::new(share.name.as_ref()?).ok()?;
                has_share(text, &name.key()).then(|| {
                    let todo = format!("take one of them out, or set sharesmb=name=NAME on {}", share.dataset);
                    (format!("{smb_conf} has a share '{name}' of its own"), todo)
                })
            })),
        }
        troubles.extend(left);
        troubles
    }
}

/// Where a program is.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(ADMINISTRATORS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests;
