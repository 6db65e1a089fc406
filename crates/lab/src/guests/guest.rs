//! One boot of the guest: disks, shared folder, kernel, time limit, and what its script said.

use std::fmt::Write;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use super::kernel::Kernel;
use super::suites::{LIBRARY, Suite};
use super::{Server, recordings};
use crate::cargo;
use crate::crash_images::Share;
use crate::tally::Tally;

/// How long boot and shutdown may take on top of the suite's own limit.
const BOOT_TIMEOUT: Duration = Duration::from_secs(60);

/// What of a suite's size the environment may set: files, entries, mebibytes, repetitions; and the slow disk's
/// costs in microseconds. How long a load goes on, and what its chance begins with.
const SIZES: [&str; 8] = ["FILES", "ENTRIES", "MIB", "ROUNDS", "DURABLE_US", "WRITE_US", LOAD_SECONDS, "SEED"];
const LOAD_SECONDS: &str = "LOAD_SECONDS";

/// A suite about to be run.
pub(super) struct Guest<'a> {
    pub kernel: &'a Kernel,
    pub root: &'a Path,
    pub suite: &'a Suite,
    pub server: Server,
    pub keep: bool,
    /// How much of the suite's recordings is checked.
    pub share: Share,
    pub luggage: &'a Luggage,
}

/// What a script finds beside itself, where it needs more than the binaries.
#[derive(Default)]
pub struct Luggage {
    /// Variables, in words that need no quotation marks but one pair around them.
    pub variables: Vec<(&'static str, String)>,
    /// Files in its folder: name and content.
    pub files: Vec<(&'static str, String)>,
    /// A folder that it gets a copy of, under its own name.
    pub folder: Option<PathBuf>,
}

impl Guest<'_> {
    /// Boots, runs the suite, and counts its checks. A guest that hangs or dies is one failure.
    pub(super) fn run(&self) -> Result<Tally> {
        self.run_and_look(|share, mut tally| {
            if tally.failed == 0 && self.suite.records && self.server == Server::Tally {
                tally += recordings::check(share, self.share)?;
            }
            Ok(tally)
        })
    }

    /// The same, with a look at the folder that it shared, before that goes away.
    pub(super) fn run_and_look<T>(&self, look: impl FnOnce(&Path, Tally) -> Result<T>) -> Result<T> {
        let folder = cargo::target_folder().join("lab").canonicalize()?;
        let scene = tempfile::Builder::new().prefix("guest-").tempdir_in(folder)?;
        let share = scene.path().join("share");
        self.fill(&share)?;
        let console = File::create(scene.path().join("console"))?;
        let mut kernel = self.boot(scene.path())?;
        // A process group of its own: the kernel is several processes, and all must go at the time limit.
        let child = kernel.process_group(0).stdin(Stdio::null()).stdout(console.try_clone()?).stderr(console).spawn();
        let child = child.context("cannot start the guest's kernel")?;
        let mut listener = Listener::new(&share);
        let ended = wait(child, self.time_limit() + BOOT_TIMEOUT, &mut listener)?;
        let tally = judge(&share, ended);
        if tally.failed > 0 {
            show(&scene.path().join("console"));
        }
        let result = look(&share, tally);
        if self.keep {
            println!("kept: {}", scene.keep().display());
        }
        result
    }

    /// When the suite is given up. What it is asked to take longer comes on top.
    fn time_limit(&self) -> Duration {
        self.suite.time_limit() + Duration::from_secs(size(LOAD_SECONDS).unwrap_or(0))
    }

    fn fill(&self, share: &Path) -> Result<()> {
        std::fs::create_dir(share)?;
        std::fs::write(share.join("library"), LIBRARY)?;
        std::fs::write(share.join("script"), self.suite.script)?;
        let seconds = self.time_limit().as_secs();
        let server = self.server.name();
        let mut environment = format!("LAB_SECONDS={seconds}\nSERVER={server}\nDISKS='ubda ubdb'\n");
        for name in SIZES {
            // A suite's own size stands where none is given; a shell reads this file, so only numbers pass.
            if let Some(count) = size(name) {
                writeln!(environment, "{name}={count}")?;
            }
        }
        for (name, value) in &self.luggage.variables {
            ensure!(!value.contains('\''), "{name}={value} does not fit between quotation marks");
            writeln!(environment, "{name}='{value}'")?;
        }
        std::fs::write(share.join("environment"), environment)?;
        for (name, content) in &self.luggage.files {
            std::fs::write(share.join(name), content)?;
        }
        if let Some(folder) = &self.luggage.folder {
            cargo::step(Command::new("cp").arg("-a").arg(folder).arg(share))?;
        }
        for (name, content) in self.suite.files {
            std::fs::write(share.join(name), content)?;
        }
        // This very program: the slow disk is one of its tasks.
        std::fs::copy(std::env::current_exe()?, share.join("xtask"))?;
        if self.server == Server::Tally {
            std::fs::copy(cargo::target_folder().join("release/tally"), share.join("tally"))?;
        }
        Ok(())
    }

    fn boot(&self, scene: &Path) -> Result<Command> {
        let mut command = self.kernel.command()?;
        // The guest's memory is a file in TMPDIR; on a disk, every page that it touches would be written there.
        command.env("TMPDIR", "/dev/shm");
        command.arg(format!("mem={}M", self.suite.memory_mib));
        command.args(["root=none", "rootfstype=hostfs", "ro", "init=/usr/sbin/lab-init"]);
        command.arg(format!("rootflags={}", self.root.display()));
        command.arg(format!("LAB_SHARE={}", scene.join("share").display()));
        for (index, mib) in self.suite.disks_mib.iter().enumerate() {
            let path = scene.join(format!("disk{index}"));
            File::create(&path)?.set_len(mib << 20)?;
            command.arg(format!("ubd{index}={}", path.display()));
        }
        command.args(["con=null", "con0=null,fd:1", "quiet", "panic=-1"]);
        Ok(command)
    }
}

/// One of [`SIZES`], where the environment sets it.
fn size(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Passes on what the script says. The guest writes it out some seconds late.
pub(super) struct Listener {
    output: PathBuf,
    heard_bytes: usize,
}

impl Listener {
    pub(super) fn new(share: &Path) -> Self {
        Self { output: share.join("output"), heard_bytes: 0 }
    }

    fn listen(&mut self) {
        // Before the script runs there is nothing to hear.
        let output = std::fs::read(&self.output).unwrap_or_default();
        let new = output.get(self.heard_bytes..).unwrap_or_default();
        let whole_lines = new.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        print!("{}", String::from_utf8_lossy(&new[..whole_lines]));
        self.heard_bytes += whole_lines;
    }
}

/// Waits for the end, or makes it. `None` if it had to be made.
pub(super) fn wait(mut child: Child, limit: Duration, listener: &mut Listener) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    while started.elapsed() < limit {
        let ended = child.try_wait()?;
        listener.listen();
        if ended.is_some() {
            return Ok(ended);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let group = Pid::from_child(&child);
    // It may have ended this very moment; then there is nobody to kill.
    let _ = kill_process_group(group, Signal::KILL);
    child.wait()?;
    listener.listen();
    Ok(None)
}

/// Counts the script's checks.
pub(super) fn judge(share: &Path, ended: Option<ExitStatus>) -> Tally {
    let output = std::fs::read_to_string(share.join("output")).unwrap_or_default();
    let status = std::fs::read_to_string(share.join("status")).unwrap_or_default();
    let mut tally = output.lines().next_back().and_then(Tally::parse).unwrap_or_else(|| {
        // The script was cut off: what it had checked counts, and the cut is a failure.
        let count = |prefix: &str| output.lines().filter(|line| line.starts_with(prefix)).count() as u64;
        Tally { passed: count("ok "), failed: count("FAIL "), skipped: 0 }
    });
    match (ended, status.trim()) {
        (None, _) => println!("FAIL the guest was over its time limit and was killed"),
        (_, "0") => return tally,
        (_, "124" | "137") => println!("FAIL the suite was over its time limit"),
        (Some(ended), "") => println!("FAIL the guest ended without a status ({ended})"),
        (_, _) if tally.failed > 0 => return tally,
        (_, other) => println!("FAIL the suite ended with status {other}"),
    }
    tally += Tally::FAILED;
    tally
}

pub(super) fn show(console: &Path) {
    let text = std::fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(20)..] {
        println!("console: {line}");
    }
}
