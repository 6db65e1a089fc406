//! `tally init`: from bare disks to a dataset that clients can mount, in one command.
//!
//! It asks what it was not told, says which commands that makes, and runs them if that is agreed to: nothing happens that could not be typed.
//! Disks are looked at first ([`disks`]): one that is mounted or part of something else is refused, and what is known to hold
//! something is used only if somebody has typed its name for that. What belongs to another pool the daemon refuses, before anything
//! is written.

mod disks;

use std::path::{Path, PathBuf};
use std::process::Command;
use tally_fs::filer::check_name;
use tally_store::properties::{Property, parse};

use clap::{Args, Parser as _, ValueHint};
use tally_base::Size;
use tally_nfs::exports::parse_sharenfs;

use super::args::Cli;
use super::console::{Console, Failure, Session};
use super::sandbox::Sandbox;
use super::words;
use crate::control::client::{Client, ClientError};
use crate::control::message::{Reply, Request};
use crate::control::server::ServerReport;
use crate::control::shell::quoted;
use crate::daemon::first_pool::{SHARENFS, free_bytes};
use crate::process::host_name;
use disks::Candidate;

/// Words of `init`.
#[derive(Clone, Debug, Args)]
pub struct InitArgs {
    /// Only print the commands
    #[arg(long)]
    plan: bool,
    /// Ask nothing: what was not said has its default
    #[arg(long, short = 'y')]
    yes: bool,
    /// A disk of the pool, or a file, which is made if it is not there; may be repeated
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    on: Vec<PathBuf>,
    /// So many disks each are a mirror; 1: none is [default: 2, with more than one disk]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=8))]
    mirror: Option<u8>,
    /// A device for the intent log; with two, they are a mirror
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    log: Vec<PathBuf>,
    /// Size of files that are made [default: 4G, or half of what is free]
    #[arg(long)]
    size: Option<Size>,
    /// A network or host that may mount it; may be repeated [default: this machine alone]
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    network: Vec<String>,
    /// Lose what is on the disk of this name, as it was found there; may be repeated
    #[arg(long, value_name = "NAME")]
    erase: Vec<String>,
    /// The pool
    #[arg(long, default_value = "tank")]
    pool: String,
    /// The dataset in it
    #[arg(long, default_value = "share")]
    dataset: String,
}

/// The largest file that is made if nobody says how large.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// Whole mebibytes read well.
const STEP: u64 = 1 << 20;

/// What is done, one behind the other.
#[derive(Debug, PartialEq)]
enum Step {
    /// `wipefs -a`, of a disk whose name was typed.
    Wipe(PathBuf),
    /// A command of ours.
    Tally(Vec<String>),
}

impl Step {
    /// As it is typed.
    fn line(&self) -> String {
        match self {
            Self::Wipe(path) => format!("wipefs --all {}", quoted(&path.to_string_lossy())),
            Self::Tally(words) => {
                let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
                format!("tally {}", words.join(" "))
            }
        }
    }
}

/// `tally init`.
pub(super) fn run(
    session: Session<'_>,
    args: &InitArgs,
    here: &Path,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let mut answers = Answers::of(args, here);
    if args.on.is_empty() {
        if args.yes {
            return Err(Failure::Usage("say where, with --on DISK: nobody is asked because of --yes".into()));
        }
        answers.ask(console)?;
    }
    let chosen = answers.look()?;
    let daemon = Client::connect(session.socket).ok().and_then(|client| client.daemon());
    if let Some(sandbox) = daemon.and_then(Sandbox::of_daemon) {
        for told in chosen.iter().filter_map(|disk| sandbox.objection(&disk.path)) {
            writeln!(console.err, "warning: {}; {}", told.found, told.todo)?;
        }
    }
    let erased = agree_to_erase(&chosen, args, console)?;
    let steps = answers.steps(&chosen, &erased)?;
    check_names(&steps)?;
    for step in &steps {
        writeln!(console.out, "{}", step.line())?;
    }
    console.out.flush()?;
    match would_work(session, &steps, here) {
        // What there is to say against it the daemon says that is to run them.
        Err(Failure::Client(ClientError::NoDaemon { .. })) if args.plan => return Ok(()),
        outcome => outcome?,
    }
    if args.plan {
        return Ok(());
    }
    if !args.yes && !console.agrees("Run these commands?")? {
        return Err(Failure::Init("nothing was done; --plan only prints, and --yes asks nothing".into()));
    }
    for (at, step) in steps.iter().enumerate() {
        if let Err(failure) = carry_out(session, step, here, console) {
            // It may be done all the same, as where somebody was interrupted who waited for it.
            writeln!(console.err, "These were not done, or not all of them; `tally pool status` shows how far it is:")?;
            steps[at..].iter().try_for_each(|step| writeln!(console.err, "  {}", step.line()))?;
            return Err(failure);
        }
    }
    how_to_mount(session, &format!("{}/{}", args.pool, args.dataset), console)
}

/// What the daemon says against the pool, before anything is wiped for it: that a disk is another pool's, for example.
fn would_work(session: Session<'_>, steps: &[Step], here: &Path) -> Result<(), Failure> {
    let create = steps.iter().find_map(|step| match step {
        Step::Tally(words) if words.first().is_some_and(|noun| noun == "pool") => Some(words),
        _ => None,
    });
    let Some(words) = create else { return Ok(()) };
    let words = words.iter().map(String::as_str);
    // What is wiped before is not there any more when the pool is made; of the other disks each is asked for by itself, as -f would excuse those of other pools as well.
    let mut wiped = Vec::new();
    for step in steps {
        if let Step::Wipe(path) = step {
            wiped.push(path.to_string_lossy());
        }
    }
    if !wiped.is_empty() {
        let is_kept = |word: &&str| word.starts_with('/') && !wiped.iter().any(|path| path == word);
        for disk in words.clone().skip(2).filter(is_kept) {
            try_out(session, &["pool", "create", "-n", "--file-size", "64M", "looked-at", disk], here)?;
        }
    }
    let flags = ["-n"].into_iter().chain((!wiped.is_empty()).then_some("-f"));
    try_out(session, &words.clone().take(2).chain(flags).chain(words.skip(2)).collect::<Vec<_>>(), here)
}

/// The daemon says nothing of a dataset whose pool is not there yet.
fn check_names(steps: &[Step]) -> Result<(), Failure> {
    let names = steps.iter().filter_map(|step| match step {
        Step::Tally(words) if words.first().is_some_and(|noun| noun == "dataset") => words.last(),
        _ => None,
    });
    for name in names {
        check_name(name).map_err(|error| Failure::Init(format!("{error}. Nothing was done")))?;
    }
    Ok(())
}

/// Runs a command that only says what it would do.
fn try_out(session: Session<'_>, words: &[&str], here: &Path) -> Result<(), Failure> {
    let cli = parsed(["tally"].into_iter().chain(words.iter().copied()))?;
    let cli = Cli { socket: session.socket.map(Path::to_path_buf), ..cli };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let interrupts = super::Interrupts::Never;
    super::run(&cli, here, &mut Console { out: &mut out, err: &mut err, interrupts })
}

fn parsed<'a>(words: impl Iterator<Item = &'a str>) -> Result<Cli, Failure> {
    Cli::try_parse_from(words).map_err(|error| Failure::Usage(error.to_string()))
}

fn carry_out(session: Session<'_>, step: &Step, here: &Path, console: &mut Console<'_>) -> Result<(), Failure> {
    match step {
        Step::Wipe(path) => {
            let status = Command::new("wipefs").args(["--all", "--quiet", "--"]).arg(path).status();
            match status {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => {
                    Err(Failure::Init(format!("`{}` ended with {status}; nothing was made of it", step.line())))
                }
                Err(error) => Err(Failure::Init(format!("cannot run wipefs, which is of util-linux: {error}"))),
            }
        }
        Step::Tally(words) => {
            let cli = parsed(["tally"].into_iter().chain(words.iter().map(String::as_str)))?;
            let cli = Cli { socket: session.socket.map(Path::to_path_buf), ..cli };
            super::run(&cli, here, console)
        }
    }
}

fn how_to_mount(session: Session<'_>, dataset: &str, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut client = Client::connect(session.socket)?;
    let Reply::Server(ServerReport { port, nfs4, exports_to_others, .. }) =
        client.ask(&Request::Server, &mut |_| {})?
    else {
        return Err(Failure::Mismatch);
    };
    let host = if exports_to_others { host_name() } else { "127.0.0.1".into() };
    let options = if nfs4 {
        let port = if port == 2049 { String::new() } else { format!(",port={port}") };
        format!("vers=4.2{port}")
    } else {
        format!("vers=3,proto=tcp,port={port},mountport={port},mountproto=tcp,nolock")
    };
    writeln!(console.out, "\n/{dataset} is served:\n  sudo mount -t nfs -o {options} {host}:/{dataset} /mnt")?;
    if exports_to_others {
        writeln!(
            console.out,
            "Its folder is root's, and root of another machine is nobody here. To give it to somebody, mount it on this one:\n  \
             sudo mount -t nfs -o {options} 127.0.0.1:/{dataset} /mnt && sudo chown USER /mnt; sudo umount /mnt"
        )?;
    }
    Ok(writeln!(console.out, "`tally doctor` says what is left to do.")?)
}

/// What was said, and what was answered.
struct Answers<'a> {
    args: &'a InitArgs,
    on: Vec<PathBuf>,
    log: Vec<PathBuf>,
    mirror: Option<u8>,
    network: Vec<String>,
}

impl<'a> Answers<'a> {
    fn of(args: &'a InitArgs, here: &Path) -> Self {
        let paths = |paths: &[PathBuf]| paths.iter().map(|path| words::device(&path.to_string_lossy(), here)).collect();
        Self { args, on: paths(&args.on), log: paths(&args.log), mirror: args.mirror, network: args.network.clone() }
    }

    /// Asks for all that was not said.
    fn ask(&mut self, console: &mut Console<'_>) -> Result<(), Failure> {
        let disks = disks::all().map_err(Failure::Init)?;
        writeln!(console.err, "Disks of this machine:")?;
        for (number, disk) in disks.iter().enumerate() {
            writeln!(console.err, "  {}  {}", number + 1, disk.words())?;
        }
        self.on = chosen(
            &disks,
            &console.question("Which of them make the pool? (numbers or paths, with spaces between):")?,
        )?;
        if self.on.is_empty() {
            return Err(Failure::Init("no disk was named, and nothing was done".into()));
        }
        if self.on.len() > 1 && self.mirror.is_none() {
            let answer = console.question("How many disks are one mirror? (2; 1 for none):")?;
            let bad = |_| Failure::Init(format!("'{answer}' is no count of disks"));
            self.mirror = if answer.is_empty() { None } else { Some(answer.parse().map_err(bad)?) };
        }
        if self.log.is_empty() {
            let asked = "Is there flash that keeps what it has at a power cut, for the intent log? (a number or path; nothing: the pool's own disks have it):";
            self.log = chosen(&disks, &console.question(asked)?)?;
        }
        if self.network.is_empty() {
            let asked = "Which network may mount it? (as 192.168.1.0/24; nothing: this machine alone):";
            self.network = console.question(asked)?.split_whitespace().map(str::to_owned).collect();
        }
        Ok(())
    }

    /// All disks, each of which can be used, as far as can be seen.
    fn look(&self) -> Result<Vec<Candidate>, Failure> {
        let disks = self.on.iter().chain(&self.log).map(|path| Candidate::at(path).map_err(Failure::Init));
        let disks: Vec<Candidate> = disks.collect::<Result<_, _>>()?;
        match disks.iter().find_map(Candidate::objection) {
            Some(objection) => Err(Failure::Init(objection)),
            None => Ok(disks),
        }
    }

    /// The commands.
    fn steps(&self, disks: &[Candidate], erased: &[PathBuf]) -> Result<Vec<Step>, Failure> {
        let InitArgs { pool, dataset, .. } = self.args;
        let mut create = vec!["pool".to_owned(), "create".into()];
        if disks.iter().any(|disk| disk.is_to_be_made) {
            create.extend(["--file-size".into(), self.file_size(disks)?.to_string()]);
        }
        create.push(pool.clone());
        let width = usize::from(self.mirror.unwrap_or(if self.on.len() > 1 { 2 } else { 1 }));
        if width == 0 || !self.on.len().is_multiple_of(width) {
            let count = self.on.len();
            return Err(Failure::Init(format!(
                "{count} disks make no mirrors of {width}: say --mirror {count}, or --mirror 1 for none, or name another disk"
            )));
        }
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        for group in self.on.chunks(width) {
            create.extend((width > 1).then(|| "mirror".into()));
            create.extend(group.iter().map(text));
        }
        if !self.log.is_empty() {
            create.push("log".into());
            create.extend((self.log.len() > 1).then(|| "mirror".into()));
            create.extend(self.log.iter().map(text));
        }
        // Root of this machine in any case: others' is nobody, and somebody has to say whose the folder is.
        let rules = self.network.iter().map(|network| format!(" {network}(rw)")).collect::<String>();
        let rules = format!("{SHARENFS}{rules}");
        parse_sharenfs(&rules).map_err(|error| Failure::Init(format!("{error}. Nothing was done")))?;
        parse(Property::ShareNfs, &rules).map_err(|error| Failure::Init(format!("{error}. Nothing was done")))?;
        let mut share = vec!["dataset".to_owned(), "create".into()];
        share.extend(dataset.contains('/').then(|| "-p".into()));
        share.extend(["-o".into(), format!("sharenfs={rules}"), format!("{pool}/{dataset}")]);
        let wipes = erased.iter().cloned().map(Step::Wipe);
        Ok(wipes.chain([Step::Tally(create), Step::Tally(share)]).collect())
    }

    /// Of the files that are made, which all get the same.
    fn file_size(&self, disks: &[Candidate]) -> Result<Size, Failure> {
        if let Some(size) = self.args.size {
            return Ok(size);
        }
        let new: Vec<_> = disks.iter().filter(|disk| disk.is_to_be_made).collect();
        let free = new.iter().filter_map(|disk| free_bytes(disk.path.parent()?).ok()).min().unwrap_or(0);
        // As if all were in one file system, which may be so.
        let each = FILE_BYTES_MAX.min(free / 2 / new.len().max(1) as u64);
        Ok(Size(each / STEP * STEP))
    }
}

/// Disks by their numbers in the list, or by paths.
fn chosen(disks: &[Candidate], answer: &str) -> Result<Vec<PathBuf>, Failure> {
    let one = |word: &str| match word.parse::<usize>() {
        Ok(number) => match number.checked_sub(1).and_then(|at| disks.get(at)) {
            Some(disk) => Ok(disk.path.clone()),
            None => Err(Failure::Init(format!("there is no disk {number} in the list; nothing was done"))),
        },
        Err(_) => Ok(words::device(word, Path::new("/dev"))),
    };
    answer.split_whitespace().map(one).collect()
}

/// Which of these disks are to be wiped: those that are known to hold something, if each one's name was typed.
fn agree_to_erase(disks: &[Candidate], args: &InitArgs, console: &mut Console<'_>) -> Result<Vec<PathBuf>, Failure> {
    let mut erased = Vec::new();
    for disk in disks.iter().filter(|disk| !disk.contents.is_empty()) {
        let (name, holds) = (disk.name(), disk.contents.join(", "));
        // Two files have one name: then it is the path that says which.
        let is_only = disks.iter().filter(|other| other.name() == name).count() == 1;
        let name = if is_only { name } else { disk.path.display().to_string() };
        let is_named = |typed: &str| typed == name || Path::new(typed) == disk.path;
        let mut is_agreed = args.erase.iter().any(|typed| is_named(typed));
        if !is_agreed && !args.yes && !args.plan {
            writeln!(console.err, "{} has {holds} on it, and all of it would be lost.", disk.path.display())?;
            is_agreed =
                is_named(&console.question(&format!("Type its name ({name}) to lose it, or nothing to keep it:"))?);
        }
        if !is_agreed {
            return Err(Failure::Init(format!(
                "{} has {holds} on it, and nothing was done. If that is to be lost, say --erase {name}",
                disk.path.display()
            )));
        }
        erased.push(disk.path.clone());
    }
    Ok(erased)
}

#[cfg(test)]
mod tests;
