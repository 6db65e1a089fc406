//! This workspace's server with a pool made to measure: configured, asked for its counters, killed and started
//! again. Everything goes through the doors that a user has: the binary, its configuration file, the commands
//! and their JSON.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal};
use serde::Deserialize;
use tally_bench::wire::{Connection, Target};
use tally_disk::{Opener, SystemOpener};
use tally_lab::port::free_port;
use tempfile::TempDir;

use crate::server::START_TIMEOUT;

/// Name of the pool.
pub(crate) const POOL: &str = "tank";
/// Names of its files.
pub(crate) const POOL_FILE: &str = "pool.img";
pub(crate) const LOG_FILE: &str = "log.img";
/// How long the pool must have read and written nothing until it counts as quiet: longer than the time between two
/// groups. A group that changes much at random reads for seconds before it writes anything.
const QUIET: Duration = Duration::from_secs(6);
const QUIET_TIMEOUT: Duration = Duration::from_secs(120);

/// The binaries, built now.
pub(crate) struct Binaries {
    pub tally: PathBuf,
    /// The same server over disks that are made slow.
    pub slow: PathBuf,
}

impl Binaries {
    /// Another build of `tally`, and of the server over slow disks, which lies beside it.
    pub(crate) fn other(tally: &Path) -> Result<Self> {
        let tally = tally.canonicalize().with_context(|| format!("no {}", tally.display()))?;
        Ok(Self { slow: tally.with_file_name("tally-slow"), tally })
    }

    /// Builds both.
    pub(crate) fn build() -> Result<Self> {
        let packages = ["--package", "tally-server", "--package", "tally-interop"];
        tally_lab::cargo::run(
            &[&["build", "--release"], &packages[..], &["--bin", "tally", "--bin", "tally-slow"]].concat(),
        )?;
        let release = tally_lab::cargo::target_folder().join("release");
        Ok(Self { tally: release.join("tally"), slow: release.join("tally-slow") })
    }
}

/// How a server and its pool are made.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Lines of the configuration file.
    pub configuration: String,
    /// Arguments of the server over slow disks; without any, the ordinary one runs.
    pub slowness: Vec<OsString>,
    /// The pool's one data file.
    pub pool_bytes: u64,
    /// Whether that file is only a size, and its blocks come as they are written.
    pub sparse: bool,
    /// The log file; with 0 there is none, and the log is in the pool.
    pub log_bytes: u64,
    /// Where the log is, if not beside the pool.
    pub log_folder: Option<PathBuf>,
}

impl Default for Setup {
    /// The sizes of the pool that `tally serve` makes by itself.
    fn default() -> Self {
        Self {
            configuration: String::new(),
            slowness: Vec::new(),
            pool_bytes: 8 << 30,
            sparse: false,
            log_bytes: 256 << 20,
            log_folder: None,
        }
    }
}

/// Arguments of the server over slow disks: what `rule` does to one file (`tally_interop::slow`).
pub(crate) fn slowness(rule: &str, file: &str, value: impl std::fmt::Display) -> Vec<OsString> {
    vec![rule.into(), format!("{file}={value}").into()]
}

/// The server, running or not, in a folder that goes away with it.
pub(crate) struct Filer {
    tally: PathBuf,
    slow: PathBuf,
    slowness: Vec<OsString>,
    port: u16,
    child: Option<Child>,
    folder: TempDir,
    _log_folder: Option<TempDir>,
}

/// What `tally pool status --json` tells, as far as benchmarks care.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Status {
    pub txg: u64,
    pub txg_open: u64,
    /// Bytes of the data vdevs, and those of them in use.
    #[serde(default)]
    pub size: u64,
    #[serde(default)]
    pub allocated: u64,
    #[serde(default)]
    pub txg_causes: BTreeMap<String, u64>,
    pub io: Io,
    pub vdevs: Vec<Vdev>,
    pub lanes: Vec<Lane>,
    #[serde(default)]
    pub copies: Vec<Copying>,
}

/// A copy to a disk that joins, or a scrub.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Copying {
    pub what: String,
    pub bytes_per_second: f64,
}

/// A disk, of data or of the log.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Vdev {
    pub io: Io,
}

/// Work of the pool's data disks.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Io {
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub write_ops: u64,
    pub durable_writes: u64,
    pub flushes: u64,
}

/// Work of one ring of the log.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Lane {
    pub used: u64,
    pub frames: u64,
    pub records: u64,
    pub bytes: u64,
    pub write_ns_p50: u64,
    pub write_ns_p99: u64,
}

impl Status {
    /// A sum over the lanes.
    pub(crate) fn lanes(&self, field: impl Fn(&Lane) -> u64) -> u64 {
        self.lanes.iter().map(field).sum()
    }

    /// Bytes written to all disks, the log's among them.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.vdevs.iter().map(|vdev| vdev.io.write_bytes).sum()
    }

    /// How quick the copies are that run now, in bytes that were copied or looked at a second; 0 if there are none.
    pub(crate) fn copy_rate(&self) -> f64 {
        self.copies.iter().filter(|copy| copy.what == "resilver").map(|copy| copy.bytes_per_second).sum()
    }

    /// How often the data disks had to make something durable.
    pub(crate) fn turns(&self) -> u64 {
        self.io.durable_writes + self.io.flushes
    }
}

/// A start that was watched.
pub(crate) struct Start {
    /// Until the first MNT was answered.
    pub ready: Duration,
    /// What the server said of its progress, as systemd would hear it.
    pub progress: Vec<String>,
}

impl Filer {
    /// Makes the files, the pool `tank`, exported to loopback, and serves it.
    pub(crate) fn make(binaries: &Binaries, setup: Setup, folder: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("tally-").tempdir_in(folder)?;
        let log_folder = setup.log_folder.map(|place| tempfile::Builder::new().prefix("tally-").tempdir_in(place));
        let log_folder = log_folder.transpose()?;
        let pool = folder.path().join(POOL_FILE);
        if setup.sparse {
            File::create(&pool)?.set_len(setup.pool_bytes)?;
        } else {
            SystemOpener.create(&pool, setup.pool_bytes, false, &mut |_| true)?;
        }
        let log = log_folder.as_ref().unwrap_or(&folder).path().join(LOG_FILE);
        if setup.log_bytes > 0 {
            SystemOpener.create(&log, setup.log_bytes, true, &mut |_| true)?;
        }
        write_configuration(folder.path(), &setup.configuration)?;
        let (tally, slow) = (binaries.tally.clone(), binaries.slow.clone());
        let mut filer = Self {
            tally,
            slow,
            slowness: setup.slowness,
            port: free_port()?,
            child: None,
            folder,
            _log_folder: log_folder,
        };
        filer.spawn(None)?;
        filer.wait_until(|filer| TcpStream::connect(filer.address()).is_ok())?;
        let share = "sharenfs=127.0.0.1(rw,no_root_squash)";
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let (pool, log_path) = (path(&pool), path(&log));
        let log: &[&str] = if setup.log_bytes > 0 { &["log", &log_path] } else { &[] };
        filer.command(&[&["pool", "create", "-O", share, POOL, &pool], log].concat())?;
        Ok(filer)
    }

    /// How a client reaches a dataset: `tank`, or one below it.
    pub(crate) fn target(&self, dataset: &str) -> Target {
        Target { nfs: self.address(), mount: self.address(), export: format!("/{dataset}") }
    }

    /// Carries out `tally WORDS` and gives what it prints.
    pub(crate) fn command(&self, words: &[&str]) -> Result<String> {
        let output = Command::new(&self.tally).args(words).current_dir(self.folder.path()).output()?;
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "tally {}: {message}\n{}", words.join(" "), self.messages());
        Ok(String::from_utf8(output.stdout)?)
    }

    /// What `tally pool status` tells of the pool.
    pub(crate) fn status(&self) -> Result<Status> {
        let text = self.command(&["pool", "status", "--json", POOL])?;
        let pools: Vec<Status> = serde_json::from_str(&text).context("`pool status --json` prints something else")?;
        pools.into_iter().next().context("the pool is not imported")
    }

    /// Waits until transaction groups have nothing more to write, and gives the counters then.
    pub(crate) fn quiet(&self) -> Result<Status> {
        let started = Instant::now();
        let mut status = self.status()?;
        let mut since = Instant::now();
        while since.elapsed() < QUIET && started.elapsed() < QUIET_TIMEOUT {
            std::thread::sleep(Duration::from_millis(500));
            let now = self.status()?;
            if (now.io.write_ops, now.io.read_bytes) != (status.io.write_ops, status.io.read_bytes) {
                (status, since) = (now, Instant::now());
            }
        }
        Ok(status)
    }

    /// Has a group write whatever has changed, without waiting for its time, and gives the counters then.
    pub(crate) fn write_all_out(&self) -> Result<Status> {
        let (open, started) = (self.status()?.txg_open, Instant::now());
        // A property's answer waits for its group, also where it stays as it was.
        self.command(&["dataset", "set", "atime=on", POOL])?;
        loop {
            let status = self.status()?;
            if status.txg >= open {
                return Ok(status);
            }
            ensure!(started.elapsed() < QUIET_TIMEOUT, "group {open} is not written in {QUIET_TIMEOUT:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it as SIGTERM does: the pool is exported.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let mut child = self.child.take().context("there is nothing to stop")?;
        rustix::process::kill_process(Pid::from_child(&child), Signal::TERM)?;
        let status = child.wait()?;
        ensure!(status.success(), "the server ends with {status}:\n{}", self.messages());
        Ok(())
    }

    /// Ends it as SIGKILL does.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("there is nothing to kill")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Ends it, and keeps a copy of its disks as they are now, to go back to.
    pub(crate) fn keep_disks(&mut self) -> Result<()> {
        self.stop()?;
        self.copy_disks("", ".kept")
    }

    /// Starts it with its disks as they were kept.
    pub(crate) fn go_back(&mut self) -> Result<()> {
        if self.child.is_some() {
            self.stop()?;
        }
        self.copy_disks(".kept", "")?;
        self.start().map(drop)
    }

    /// Copies each disk's file to another name; holes stay holes.
    fn copy_disks(&self, from: &str, to: &str) -> Result<()> {
        for file in [POOL_FILE, LOG_FILE] {
            let [from, to] = [from, to].map(|suffix| self.folder.path().join(format!("{file}{suffix}")));
            let status = Command::new("cp").arg("--sparse=always").args([&from, &to]).status()?;
            ensure!(status.success(), "cp {} ends with {status}", from.display());
        }
        Ok(())
    }

    /// From the next start on the ordinary server runs, over disks as they are, with its defaults.
    pub(crate) fn become_ordinary(&mut self) -> Result<()> {
        self.slowness.clear();
        write_configuration(self.folder.path(), "")
    }

    /// Starts it again, and waits until it answers MNT.
    pub(crate) fn start(&mut self) -> Result<Start> {
        let path = self.folder.path().join("notify.sock");
        // Left from the start before.
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path)?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let (stop, started) = (AtomicBool::new(false), Instant::now());
        let (waited, ready, progress) = std::thread::scope(|scope| {
            // It must be heard all the time: the server waits when nobody takes what it says.
            let hearing = scope.spawn(|| statuses(&socket, &stop));
            let waited = self
                .spawn(Some(&path))
                .and_then(|()| self.wait_until(|filer| Connection::mount(&filer.target(POOL)).is_ok()));
            let ready = started.elapsed();
            stop.store(true, Ordering::Relaxed);
            (waited, ready, hearing.join().unwrap_or_default())
        });
        waited?;
        Ok(Start { ready, progress })
    }

    /// The line in which the last start says what it replayed.
    pub(crate) fn replay_line(&self) -> Option<String> {
        self.messages().lines().rev().find(|line| line.contains("imported pool")).map(str::to_owned)
    }

    /// Highest resident memory since the last call or the start, bytes.
    pub(crate) fn take_memory_peak(&self) -> Result<u64> {
        let peak = self.memory("VmHWM:")?;
        let id = self.child.as_ref().context("no server runs")?.id();
        // 5 sets the high-water mark to what is resident now.
        std::fs::write(format!("/proc/{id}/clear_refs"), "5")?;
        Ok(peak)
    }

    /// Resident memory now, bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// Files and sockets that it has open.
    pub(crate) fn descriptors(&self) -> Result<usize> {
        let id = self.child.as_ref().context("no server runs")?.id();
        Ok(std::fs::read_dir(format!("/proc/{id}/fd"))?.count())
    }

    fn memory(&self, what: &str) -> Result<u64> {
        let id = self.child.as_ref().context("no server runs")?.id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(what));
        let kibibytes = line.with_context(|| format!("the kernel tells no {what}"))?;
        Ok(kibibytes.trim().trim_end_matches(" kB").trim().parse::<u64>()? << 10)
    }

    /// How often threads of the server have given their processor up because they had to wait (proc(5), `status`).
    pub(crate) fn waits(&self) -> Result<u64> {
        let id = self.child.as_ref().context("no server runs")?.id();
        let mut waits = 0;
        for thread in std::fs::read_dir(format!("/proc/{id}/task"))? {
            let status = std::fs::read_to_string(thread?.path().join("status"))?;
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            waits += line.context("the kernel counts switches")?.trim().parse::<u64>()?;
        }
        Ok(waits)
    }

    /// Processor time of all its threads so far.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        let id = self.child.as_ref().context("no server runs")?.id();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        // The name may contain anything, in parentheses; user and system time are the fields 14 and 15, counted from 1.
        let (_, fields) = stat.rsplit_once(')').context("the kernel tells no times")?;
        let ticks: Vec<u64> = fields.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        let per_second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_millis(ticks.iter().sum::<u64>() * 1000 / per_second))
    }

    /// Where it keeps its pool.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    fn messages(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn spawn(&mut self, notify: Option<&Path>) -> Result<()> {
        let program = if self.slowness.is_empty() { &self.tally } else { &self.slow };
        let log = OpenOptions::new().create(true).append(true).open(self.log_path())?;
        let mut command = Command::new(program);
        command.args(&self.slowness).args(["serve", "--config", "config.toml", "--port", &self.port.to_string()]);
        command.current_dir(self.folder.path()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        if let Some(path) = notify {
            command.env("NOTIFY_SOCKET", path);
        }
        self.child = Some(command.spawn().with_context(|| format!("cannot start {}", program.display()))?);
        Ok(())
    }

    fn wait_until(&mut self, mut ready: impl FnMut(&Self) -> bool) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < START_TIMEOUT {
            if ready(self) {
                return Ok(());
            }
            if let Some(status) = self.child.as_mut().context("no server runs")?.try_wait()? {
                bail!("the server ended with {status}:\n{}", self.messages());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("no answer in {START_TIMEOUT:?}:\n{}", self.messages())
    }
}

impl Drop for Filer {
    fn drop(&mut self) {
        if self.child.is_some() {
            // Its folder is about to be removed, so it need not end cleanly.
            let _ = self.kill();
        }
    }
}

fn write_configuration(folder: &Path, lines: &str) -> Result<()> {
    // The pools are made by command, with files of our own.
    Ok(std::fs::write(folder.join("config.toml"), format!("first_pool = false\n{lines}"))?)
}

/// What the server tells the service manager, until it is stopped.
fn statuses(socket: &UnixDatagram, stop: &AtomicBool) -> Vec<String> {
    let mut buffer = [0; 4096];
    let mut statuses = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        // Mostly a timeout, after which it is time to look whether this is the end.
        let Ok(length) = socket.recv(&mut buffer) else { continue };
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        statuses.extend(text.lines().filter_map(|line| line.strip_prefix("STATUS=")).map(str::to_owned));
    }
    statuses
}
