//! `cargo xtask versions OLD`: the programs of two versions over the same pools, up, down and up again, as somebody goes who takes a package back.
//!
//! OLD is a commit, and is built from a worktree of git's below `target/versions`; the new one is this tree. Each has its turns over one data
//! folder with a pool that its start imports, and with a pool that is imported and exported by hand: it finds all that the others have written, and writes
//! something itself. Turns end by a stop, or by SIGKILL, so that the log of one version is replayed by the other.
//!
//! `pool upgrade` needs a feature that one of them lacks. As long as no version has brought any, a third program stands for the next one: HEAD with
//! `versions/next.patch`, which knows a feature and uses it with `pool upgrade`. Until then all three take turns, also with a pool that the next one has
//! made. Behind it the two that do not know the feature must say its name and who does, and leave the disks as they are.

mod daemon;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tally_lab::tally::Tally;
use tally_lab::{cargo, packages};

use crate::sim::lend;
use daemon::Daemon;

/// What the task takes.
#[derive(Args)]
pub(crate) struct Versions {
    /// The commit of the older version
    old: String,
}

/// The pool that the first start makes, and every later one imports.
const LISTED: &str = "tank";
/// The one that each turn imports and exports.
const CARRIED: &str = "dozer";
/// Another one such, which the next version makes: it may use there what it knows, and has not yet.
const NEWEST: &str = "pond";
/// Sizes of the files that a turn writes: in the log, placed, and over several records.
const SIZES: [u32; 4] = [0, 700, 9000, 3 << 20];
/// A property of users. A version that has none refuses it, and keeps it.
const NOTE: &str = "org.example:turn";
/// In the data folder only disks are so large.
const DISK_BYTES_MIN: u64 = 1 << 20;
/// The version that versions/next.patch makes.
const NEXT: &str = "next";
/// What it knows.
const FEATURE: &str = "feature@tomorrow, of tally 0.2";
const WHO_KNOWS: &str = "use tally 0.2 or a newer one";

/// A version's program.
struct Program {
    name: &'static str,
    path: PathBuf,
}

/// How a turn ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Stop,
    Kill,
}

impl Versions {
    /// Gives a count of turns and refusals.
    pub(crate) fn run(&self) -> Result<Tally> {
        if !packages::ensure(&packages::TESTS)? {
            return Ok(Tally::SKIPPED);
        }
        fs::create_dir_all(folder())?;
        cargo::run(&BUILD)?;
        let new = Program { name: "new", path: cargo::target_folder().join("debug/tally") };
        let old = Program { name: "old", path: built("old", &self.old, None)? };
        let patch = cargo::workspace().join("xtask/src/versions/next.patch");
        let next = Program { name: NEXT, path: built(NEXT, "HEAD", Some(&patch))? };

        let folder = tempfile::tempdir_in(folder())?;
        let mut house = House::new(folder.path())?;
        let turns = [
            (&old, End::Stop),
            (&new, End::Stop),
            (&old, End::Stop),
            (&new, End::Kill),
            (&old, End::Kill),
            (&new, End::Stop),
            (&next, End::Kill),
            (&old, End::Kill),
            (&next, End::Stop),
            (&new, End::Stop),
        ];
        for (program, end) in turns {
            house.turn(program, end)?;
        }
        house.upgrade(&next)?;
        for program in [&old, &new] {
            house.is_refused(program).with_context(|| format!("what the {} version does not know", program.name))?;
        }
        house.turn(&next, End::Stop)?;
        Ok(Tally { passed: turns.len() as u64 + 4, ..Tally::default() })
    }
}

/// Where all of it happens.
fn folder() -> PathBuf {
    cargo::target_folder().join("versions")
}

/// The program of a commit, with a patch.
fn built(name: &str, commit: &str, patch: Option<&Path>) -> Result<PathBuf> {
    let (source, build) = (folder().join(name), folder().join(format!("{name}-build")));
    let git = |at: &Path, words: &[&str]| {
        let mut git = Command::new("git");
        git.args(words).current_dir(at);
        git
    };
    // HEAD means this tree's, and not the worktree's.
    let named =
        git(&cargo::workspace(), &["rev-parse", "--verify", "--quiet", &format!("{commit}^{{commit}}")]).output()?;
    ensure!(named.status.success(), "there is no commit {commit}");
    let commit = String::from_utf8(named.stdout)?;
    if !source.exists() {
        let add = ["worktree", "add", "--quiet", "--force", "--detach"];
        cargo::step(git(&cargo::workspace(), &add).arg(&source).arg(commit.trim()))?;
    }
    let stands_at = git(&source, &["rev-parse", "HEAD"]).output()?.stdout;
    let is_patched = |patch: &Path| git(&source, &["apply", "--reverse", "--check"]).arg(patch).output();
    // What is as it should be keeps its times, so that it is not built again.
    let is_there = stands_at == commit.as_bytes()
        && match patch {
            Some(patch) => is_patched(patch)?.status.success(),
            None => true,
        };
    if !is_there {
        cargo::step(&mut git(&source, &["checkout", "--quiet", "--force", "--detach", commit.trim()]))?;
        if let Some(patch) = patch {
            cargo::step(git(&source, &["apply"]).arg(patch))
                .with_context(|| format!("bring {} up to date with the code that it changes", patch.display()))?;
        }
    }
    if !build.exists() {
        // What is missing is built.
        let _quicker = lend(&cargo::target_folder().join("debug"), &build.join("debug"));
    }
    cargo::step(cargo::command(&BUILD).current_dir(&source).env("CARGO_TARGET_DIR", &build))?;
    Ok(build.join("debug/tally"))
}

/// As tests are built, with all that is checked there.
const BUILD: [&str; 5] = ["build", "--package", "tally-server", "--bin", "tally"];

/// One data folder, and what must be in its pools.
struct House<'a> {
    folder: &'a Path,
    port: u16,
    /// Pools that no version finds by itself.
    carried: Vec<&'static str>,
    /// Content by path.
    files: BTreeMap<String, Vec<u8>>,
    turns: u32,
    /// What the property was last set to.
    note: Option<String>,
}

impl<'a> House<'a> {
    fn new(folder: &'a Path) -> Result<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        fs::create_dir(folder.join("disks"))?;
        Ok(Self { folder, port, carried: Vec::new(), files: BTreeMap::new(), turns: 0, note: None })
    }

    /// A version has the pools for a while.
    fn turn(&mut self, program: &Program, end: End) -> Result<()> {
        self.turns += 1;
        println!("turn {}: {}, and then {end:?}", self.turns, program.name);
        self.play(program, end, &[]).with_context(|| format!("in turn {}, of the {} version", self.turns, program.name))
    }

    fn play(&mut self, program: &Program, end: End, command: &[&str]) -> Result<()> {
        let daemon = self.start(program)?;
        self.take_in(&daemon, program)?;
        for pool in self.pools() {
            self.find_all(&daemon, pool)?;
        }
        if !command.is_empty() {
            let said = daemon.tally(command)?;
            ensure!(said.contains("tomorrow"), "`tally {}` says {said}", command.join(" "));
        }
        for pool in self.pools() {
            self.write(&daemon, pool)?;
            self.find_all(&daemon, pool)?;
        }
        self.note(&daemon)?;
        for pool in &self.carried {
            daemon.tally(&["pool", "export", pool])?;
        }
        match end {
            End::Stop => daemon.stop(),
            End::Kill => daemon.kill(),
        }
    }

    fn pools(&self) -> Vec<&'static str> {
        [&[LISTED][..], &self.carried].concat()
    }

    fn start(&self, program: &Program) -> Result<Daemon> {
        Daemon::start(&program.path, self.folder, self.port)
    }

    fn disk_folder(&self) -> String {
        self.folder.join("disks").display().to_string()
    }

    /// Imports the pools that are carried about, and makes those that are to come.
    fn take_in(&mut self, daemon: &Daemon, program: &Program) -> Result<()> {
        for pool in &self.carried {
            daemon.tally(&["pool", "import", "-d", &self.disk_folder(), pool])?;
        }
        let comes = match self.carried[..] {
            [] => CARRIED,
            [_] if program.name == NEXT => NEWEST,
            _ => return Ok(()),
        };
        let disk = self.folder.join("disks").join(comes).display().to_string();
        daemon.tally(&["pool", "create", "--file-size", "96M", comes, &disk])?;
        self.carried.push(comes);
        for pool in self.pools() {
            daemon.tally(&["dataset", "set", "sharenfs=127.0.0.0/8(rw,no_root_squash,insecure)", pool])?;
        }
        Ok(())
    }

    /// Reads everything that was ever written to a pool.
    fn find_all(&self, daemon: &Daemon, pool: &str) -> Result<()> {
        for (path, content) in self.files.iter().filter(|(path, _)| path.split('/').nth(1) == Some(pool)) {
            ensure!(daemon.read(path)? == *content, "{path} is not as it was written");
        }
        let status = daemon.tally(&["pool", "status", "-v", pool])?;
        ensure!(status.contains("errors: No known data errors"), "{pool} has errors:\n{status}");
        Ok(())
    }

    /// Writes files into a pool and into a new dataset of it, renames that of the turn before, and destroys the one before that.
    fn write(&mut self, daemon: &Daemon, pool: &str) -> Result<()> {
        let turn = self.turns;
        let (new, last, renamed) =
            (format!("{pool}/of-{turn}"), format!("{pool}/of-{}", turn - 1), format!("{pool}/was-{}", turn - 1));
        let gone = format!("{pool}/was-{}", turn.saturating_sub(2));
        daemon.tally(&["dataset", "create", &new])?;
        if let Some(content) = self.files.remove(&in_dataset(&last)) {
            daemon.tally(&["dataset", "rename", &last, &renamed])?;
            self.files.insert(in_dataset(&renamed), content);
        }
        if self.files.remove(&in_dataset(&gone)).is_some() {
            daemon.tally(&["dataset", "destroy", &gone])?;
        }
        let files = SIZES.iter().map(|size| (format!("/{pool}/{turn}-{size}"), *size));
        for (path, size) in files.chain([(in_dataset(&new), 5000 * turn)]) {
            let content: Vec<u8> = (0..size).map(|at| at.wrapping_mul(turn + 7).to_le_bytes()[1]).collect();
            daemon.write(&path, &content)?;
            self.files.insert(path, content);
        }
        Ok(())
    }

    /// Looks at the property, and sets it, where the version has such.
    fn note(&mut self, daemon: &Daemon) -> Result<()> {
        let shown = daemon.ask(&["dataset", "get", "-H", "-o", "value", NOTE, LISTED])?;
        if let Some(note) = self.note.as_ref().filter(|_| shown.succeeded) {
            ensure!(shown.said.trim() == note, "{NOTE} is {:?}, and was set to {note:?}", shown.said);
        }
        let note = self.turns.to_string();
        if daemon.ask(&["dataset", "set", &format!("{NOTE}={note}"), LISTED])?.succeeded {
            self.note = Some(note);
        }
        Ok(())
    }

    /// The step that cannot be taken back.
    fn upgrade(&mut self, next: &Program) -> Result<()> {
        println!("pool upgrade, by the next version");
        self.turns += 1;
        self.play(next, End::Stop, &["pool", "upgrade", "-a"]).context("in the turn with `pool upgrade`")
    }

    /// All bytes of the disks of pools that were upgraded.
    fn disks(&self) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let mut disks = vec![self.folder.join("disks").join(CARRIED)];
        for entry in fs::read_dir(self.folder)? {
            let entry = entry?;
            disks.extend((entry.metadata()?.len() >= DISK_BYTES_MIN).then(|| entry.path()));
        }
        ensure!(disks.len() >= 2, "the disks of {LISTED} are not in {}", self.folder.display());
        disks.sort();
        disks.into_iter().map(|path| Ok((path.clone(), fs::read(&path)?))).collect()
    }

    /// A version that does not know what pools use says so, and touches nothing. The pool that uses nothing new it has.
    fn is_refused(&self, program: &Program) -> Result<()> {
        println!("{} is to refuse", program.name);
        let before = self.disks()?;
        let daemon = self.start(program)?;
        let carried = daemon.ask(&["pool", "import", "-d", &self.disk_folder(), CARRIED])?;
        ensure!(!carried.succeeded, "it has imported {CARRIED}: {}", carried.said);
        let listed = daemon.ask(&["pool", "status", LISTED])?;
        for told in [&carried, &listed] {
            let words = told.said.split_whitespace().collect::<Vec<_>>().join(" ");
            ensure!(words.contains(FEATURE) && words.contains(WHO_KNOWS), "who knows the pool is not told: {words}");
            println!("  {words}");
        }
        daemon.tally(&["pool", "import", "-d", &self.disk_folder(), NEWEST])?;
        self.find_all(&daemon, NEWEST)?;
        daemon.tally(&["pool", "export", NEWEST])?;
        daemon.stop()?;
        ensure!(self.disks()? == before, "it has written to disks of what it refused");
        Ok(())
    }
}

/// The file of a dataset that a turn has made.
fn in_dataset(dataset: &str) -> String {
    format!("/{dataset}/file")
}
