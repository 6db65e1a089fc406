//! Samba's own suites over a dataset and over a directory of this machine's own file system, by the same section of smb.conf: what differs is ours.
//!
//! smbtorture has thousands of tests, and many fail on a plain configuration everywhere, or with one version of Samba. So none of them is right or wrong by itself here: a test that passes over the
//! directory and not over the dataset is a failure, and one that passes over both, or over the dataset alone, has passed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::tally::Tally;
use crate::{cargo, packages, port};

/// Those that docs/smb.md names.
pub const SUITES: [&str; 28] = [
    "smb2.connect",
    "smb2.rw",
    "smb2.read",
    "smb2.create",
    "smb2.lock",
    "smb2.oplock",
    "smb2.lease",
    "smb2.durable-open",
    "smb2.durable-v2-open",
    "smb2.sharemode",
    "smb2.deny",
    "smb2.delete-on-close-perms",
    "smb2.dir",
    "smb2.mkdir",
    "smb2.rename",
    "smb2.streams",
    "smb2.ea",
    "smb2.getinfo",
    "smb2.setinfo",
    "smb2.timestamps",
    "smb2.fileid",
    "smb2.compound",
    "smb2.compound_find",
    "smb2.notify",
    "smb2.ioctl",
    "smb2.maxfid",
    "smb2.acls",
    "vfs.fruit",
];

/// Shares: by whom each is used, as sharesmb says it.
const SHARES: [(&str, &str); 2] = [("alone", "exclusive=on"), ("mixed", "exclusive=off")];
/// Who asks: no superuser, to whom nothing would be refused.
const USER: &str = "daemon";
const PASSWORD: &str = "secret";
/// What a suite may take: the longest ones wait for leases to break, and make ten thousand files, of which each is durable here before the next one begins.
const SUITE_LIMIT: Duration = Duration::from_secs(900);
/// What a server may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

/// What the task takes.
#[derive(Args)]
pub struct Options {
    /// Only this suite, or these
    #[arg(long)]
    suite: Vec<String>,
    /// A program that is built already, instead of a release build
    #[arg(long)]
    program: Option<PathBuf>,
    /// Where the directory is made to which the dataset is compared: of a file system such as ext4
    #[arg(long, default_value = "/var/tmp")]
    beside: PathBuf,
}

/// Runs them, and prints what differs.
pub fn run(options: &Options) -> Result<Tally> {
    let packages = [&packages::SAMBA[..], &packages::SMBTORTURE].concat();
    if !rustix::process::geteuid().is_root() || !packages::ensure_unstarted(&packages)? {
        eprintln!(
            "Samba's suites are run by root, with samba, samba-vfs-modules and samba-testsuite; they are skipped."
        );
        return Ok(Tally::SKIPPED);
    }
    let program = options.program.clone().map_or_else(cargo::build_tally, Ok)?;
    let lab = Lab::start(&program, &options.beside)?;
    let suites = if options.suite.is_empty() { SUITES.map(str::to_owned).to_vec() } else { options.suite.clone() };
    let mut total = Tally::default();
    for (share, _) in SHARES {
        for suite in &suites {
            let [control, ours] = [format!("{share}-beside"), share.to_owned()].map(|share| lab.suite(&share, suite));
            total += compare(share, suite, &control?, &ours?);
        }
    }
    Ok(total)
}

/// Outcomes by test: `success`, `failure`, `error` or `skip`.
type Outcomes = BTreeMap<String, String>;

fn compare(share: &str, suite: &str, control: &Outcomes, ours: &Outcomes) -> Tally {
    let passed = |outcomes: &Outcomes| outcomes.values().filter(|outcome| *outcome == "success").count();
    println!(
        "{share} {suite}: {} of {} here, {} of {} beside",
        passed(ours),
        ours.len(),
        passed(control),
        control.len()
    );
    let mut tally = Tally::default();
    let names = control.keys().chain(ours.keys().filter(|name| !control.contains_key(*name)));
    for name in names {
        let word = |outcomes: &Outcomes| outcomes.get(name).cloned().unwrap_or_else(|| "not reached".to_owned());
        let (theirs, mine) = (word(control), word(ours));
        if theirs != mine {
            println!("  {name}: {mine} here, {theirs} beside");
        }
        tally += match (&*theirs, &*mine) {
            (_, "success") => Tally::PASSED,
            ("success", _) => Tally::FAILED,
            _ => Tally::SKIPPED,
        };
    }
    tally
}

/// A daemon with a dataset for each share that is mounted, directories beside them, and Samba over all.
struct Lab {
    folder: tempfile::TempDir,
    beside: tempfile::TempDir,
    port: u16,
    daemon: Child,
    smbd: Option<Child>,
    program: PathBuf,
}

impl Lab {
    fn start(program: &Path, beside: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("tally-smb").tempdir_in("/var/tmp")?;
        let beside = tempfile::Builder::new().prefix("tally-beside").tempdir_in(beside)?;
        // Who asks goes through both.
        for dir in [folder.path(), beside.path()] {
            fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        }
        let mut daemon = Command::new(program);
        daemon.arg("serve").arg("--data-dir").arg(folder.path()).args([
            "--http",
            "off",
            "--rpcbind",
            "off",
            "--size",
            "4G",
        ]);
        daemon.args(["--listen", "127.0.0.1", "--port", &port::free_port()?.to_string()]);
        let daemon = daemon
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log"))?)
            .spawn()?;
        let port = port::free_port()?;
        let mut lab = Self { folder, beside, port, daemon, smbd: None, program: program.to_owned() };
        until("the daemon", || {
            lab.says(&["pool", "list", "-H", "-o", "health"]).is_ok_and(|told| told.trim() == "ONLINE")
        })?;
        for (share, exclusive) in SHARES {
            let dataset = format!("tank/{share}");
            let dir = lab.at(share);
            fs::create_dir(&dir)?;
            lab.says(&["dataset", "create", "-o", &format!("sharesmb=name={share},{exclusive}"), &dataset])?;
            lab.says(&["mount", &dataset, &dir.display().to_string()])?;
            let control = lab.beside.path().join(share);
            fs::create_dir(&control)?;
            for dir in [dir, control] {
                let given = Command::new("chown").arg(USER).arg(&dir).status()?;
                ensure!(given.success(), "chown {USER} {}", dir.display());
            }
        }
        lab.share()?;
        Ok(lab)
    }

    /// Samba with what the daemon has written, and the same sections for the directories beside.
    fn share(&mut self) -> Result<()> {
        let written = self.at("smb.conf.new");
        let complete =
            || fs::read_to_string(&written).is_ok_and(|text| text.matches("available = yes").count() == SHARES.len());
        until("the daemon's file of shares", complete)?;
        let text = fs::read_to_string(&written)?;
        let mut beside = text.clone();
        for (share, _) in SHARES {
            beside = beside.replace(&format!("[{share}]"), &format!("[{share}-beside]"));
            let [ours, theirs] =
                [self.at(share), self.beside.path().join(share)].map(|dir| format!("path = {}\n", dir.display()));
            ensure!(beside.contains(&ours), "the share {share} is not in {}", written.display());
            beside = beside.replace(&ours, &theirs);
        }
        let mut global = format!(
            "[global]\nserver role = standalone server\nsmb ports = {}\ninterfaces = lo\nbind interfaces only = yes\ndisable netbios = yes\n\
             load printers = no\nprintcap name = /dev/null\ndisable spoolss = yes\npassdb backend = tdbsam:{}\nlog file = {}\n",
            self.port,
            self.at("passdb.tdb").display(),
            self.at("smbd.log").display(),
        );
        for word in
            ["private dir", "lock directory", "state directory", "cache directory", "pid directory", "ncalrpc dir"]
        {
            let dir = self.at(word);
            fs::create_dir_all(&dir)?;
            global.push_str(&format!("{word} = {}\n", dir.display()));
        }
        let conf = self.at("samba.conf");
        fs::write(&conf, format!("{global}{text}{beside}"))?;
        let mut password =
            Command::new("smbpasswd").arg("-c").arg(&conf).args(["-s", "-a", USER]).stdin(Stdio::piped()).spawn()?;
        password.stdin.take().context("a pipe")?.write_all(format!("{PASSWORD}\n{PASSWORD}\n").as_bytes())?;
        ensure!(password.wait()?.success(), "smbpasswd gives no password");
        let mut smbd = Command::new("/usr/sbin/smbd");
        self.smbd = Some(smbd.arg("-F").arg("-s").arg(&conf).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?);
        until("smbd", || {
            let mut client = Command::new("smbclient");
            client.arg(format!("//127.0.0.1/{}", SHARES[0].0)).args([
                "-p",
                &self.port.to_string(),
                "-U",
                &who(),
                "-c",
                "ls",
            ]);
            client.arg("-s").arg(&conf).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            client.status().is_ok_and(|status| status.success())
        })
    }

    /// What a suite says of each of its tests in a share. What it leaves there is taken away.
    fn suite(&self, share: &str, suite: &str) -> Result<Outcomes> {
        let told = self.at("told");
        let mut torture = Command::new("smbtorture");
        torture.arg(format!("//127.0.0.1/{share}")).args(["-p", &self.port.to_string(), "-U", &who(), suite]);
        torture.arg("-s").arg(self.at("samba.conf")).current_dir(self.folder.path());
        let out = File::create(&told)?;
        let mut torture = torture.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out).spawn()?;
        let given_up = Instant::now() + SUITE_LIMIT;
        while torture.try_wait()?.is_none() {
            if Instant::now() > given_up {
                eprintln!("{share} {suite}: it does not end, and is ended");
                torture.kill()?;
                torture.wait()?;
            }
            thread::sleep(LOOK);
        }
        let said = String::from_utf8_lossy(&fs::read(&told)?).into_owned();
        let name = share.strip_suffix("-beside");
        let dir = name.map_or_else(|| self.at(share), |name| self.beside.path().join(name));
        for left in fs::read_dir(dir)? {
            let left = left?.path();
            let _ = if left.is_dir() { fs::remove_dir_all(&left) } else { fs::remove_file(&left) };
        }
        Ok(outcomes(&said))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn says(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        let output = command.args(words).arg("--socket").arg(self.at("tally.sock")).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "tally {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for child in self.smbd.iter_mut() {
            // It ends those that it has made for connections.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
            let _ = child.wait();
        }
        for (share, _) in SHARES {
            let _ = rustix::mount::unmount(self.at(share), UnmountFlags::DETACH);
        }
        let _ = kill_process(Pid::from_child(&self.daemon), Signal::TERM);
        let _ = self.daemon.wait();
    }
}

fn who() -> String {
    format!("{USER}%{PASSWORD}")
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let given_up = Instant::now() + START_LIMIT;
    while !is_so() {
        if Instant::now() > given_up {
            bail!("{what} does not come in {} s", START_LIMIT.as_secs());
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Lines `success: NAME`, and the others, some with `[` behind the name. The last word on a test counts.
fn outcomes(said: &str) -> Outcomes {
    let outcome = |line: &str| {
        let (word, name) = line.split_once(": ")?;
        let is_it = ["success", "failure", "error", "skip"].contains(&word);
        is_it.then(|| (name.trim_end_matches('[').trim().to_owned(), word.to_owned()))
    };
    said.lines().filter_map(outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_beside_and_not_here_is_a_failure_and_nothing_else_is() {
        let said = "test: a\nsuccess: a\ntest: b\nfailure: b [\nsmb2.c:1: success: x is wrong\n]\nskip: c [\nno\n]\nerror: d [\n]\n";
        let told = outcomes(said);
        assert_eq!(
            told.iter().map(|(name, word)| format!("{name} {word}")).collect::<Vec<_>>(),
            ["a success", "b failure", "c skip", "d error"]
        );
        let of = |words: &[(&str, &str)]| {
            words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned())).collect::<Outcomes>()
        };
        assert_eq!(compare("x", "s", &told, &told), Tally { passed: 1, failed: 0, skipped: 3 });
        assert_eq!(
            compare("x", "s", &told, &of(&[("a", "error"), ("b", "success")])),
            Tally { passed: 1, failed: 1, skipped: 2 }
        );
        assert_eq!(compare("x", "s", &told, &of(&[])), Tally { passed: 0, failed: 1, skipped: 3 });
    }

    #[test]
    fn the_suites_are_those_of_the_page() {
        let page = include_str!("../../../docs/smb.md");
        let behind = page.split_once("Chosen before the first run:").expect("the list").1;
        let list = behind.trim_start().split("\n\n").next().expect("the list");
        let named: Vec<_> = list.split('`').skip(1).step_by(2).collect();
        assert_eq!(named, SUITES);
    }
}
