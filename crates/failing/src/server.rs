//! The binary in a folder of its own, over a folder of bad disks; its commands; and a client.

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fuser::BackgroundSession;
use rustix::process::{Pid, Signal};
use tally_bench::random::Random;
use tally_bench::wire::{Connection, Handle, Stable, Target};

use crate::folder::Folder;

/// How long a start may take.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than any request or command takes on disks that answer.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The pool's name, and what is exported.
const POOL: &str = "p";

/// A place for a case: disks, rules, and the binary.
pub struct Place {
    binary: PathBuf,
    /// Dropped before the folder that they lie in.
    _mounted: Vec<BackgroundSession>,
    folder: tempfile::TempDir,
    address: SocketAddr,
    child: Option<Child>,
}

impl Place {
    /// Mounts the disks, each as a file system of its own: files of one file system have a cache in common, and when
    /// one has lost it the server believes none of them. Nothing runs yet. Groups come `txg_seconds` apart unless
    /// somebody asks for one.
    pub fn new(binary: &Path, disks: &[(&str, u64)], txg_seconds: u32) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        for name in ["below", "bad", "data"] {
            std::fs::create_dir(at(name))?;
        }
        std::fs::write(at("rules"), "")?;
        let mut mounted = Vec::new();
        for (name, size) in disks {
            let (below, bad) = (at("below").join(name), at("bad").join(name));
            std::fs::create_dir(&below)?;
            std::fs::create_dir(&bad)?;
            File::create(below.join(name))?.set_len(*size)?;
            mounted.push(Folder::mount(&below, &at("rules"), &bad)?);
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let config = format!(
            "data_dir = \"data\"\nfirst_pool = false\nlisten = [\"127.0.0.1\"]\nport = {port}\n\
             txg_interval_seconds = {txg_seconds}\n[http]\nlisten = \"off\"\n\
             [[export]]\ndataset = \"{POOL}\"\nrules = \"127.0.0.0/8(rw,no_root_squash,insecure)\"\n"
        );
        std::fs::write(at("config.toml"), config)?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Ok(Self { binary: binary.to_owned(), _mounted: mounted, folder, address, child: None })
    }

    /// The path of a disk, as the server sees it.
    #[must_use]
    pub fn disk(&self, name: &str) -> String {
        self.folder.path().join("bad").join(name).join(name).display().to_string()
    }

    /// The file that stands for a disk.
    #[must_use]
    pub fn below(&self, name: &str) -> PathBuf {
        self.folder.path().join("below").join(name).join(name)
    }

    /// From now on these rules hold.
    pub fn rule(&self, rules: &str) -> Result<()> {
        let new = self.folder.path().join("rules.new");
        std::fs::write(&new, format!("{rules}\n"))?;
        Ok(std::fs::rename(new, self.folder.path().join("rules"))?)
    }

    /// Starts the server and waits until it answers commands.
    pub fn start(&mut self) -> Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.folder.path().join("log"))?;
        let mut command = Command::new(&self.binary);
        command.args(["serve", "--config", "config.toml"]).current_dir(self.folder.path());
        self.child = Some(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?);
        let started = Instant::now();
        while started.elapsed() < START_TIMEOUT {
            if TcpStream::connect(self.address).is_ok() && self.tally(&["pool", "list"])?.status.success() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the server does not start:\n{}", self.log());
    }

    /// SIGKILL. Requests that hang below end as well.
    pub fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("there is nothing to kill")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// A clean end.
    pub fn stop(&mut self) -> Result<()> {
        self.terminate()?;
        let mut child = self.child.take().context("there is nothing to stop")?;
        ensure!(child.wait()?.success(), "the server did not stop well:\n{}", self.log());
        Ok(())
    }

    /// Tells it to end, and does not wait.
    pub fn terminate(&self) -> Result<()> {
        let child = self.child.as_ref().context("there is nothing to stop")?;
        Ok(rustix::process::kill_process(Pid::from_child(child), Signal::TERM)?)
    }

    /// How it has ended, if it does so in time.
    pub fn ended(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let child = self.child.as_mut().context("nothing runs")?;
        let began = Instant::now();
        while began.elapsed() < patience {
            if let Some(status) = child.try_wait()? {
                self.child = None;
                return Ok(Some(status));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(None)
    }

    /// Runs a command of the binary.
    pub fn tally(&self, arguments: &[&str]) -> Result<Output> {
        Ok(self.command(arguments).output()?)
    }

    /// Starts one that may hang.
    pub fn spawn(&self, arguments: &[&str]) -> Result<Child> {
        Ok(self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).arg("--socket").arg("data/tally.sock").current_dir(self.folder.path());
        command.stdin(Stdio::null());
        command
    }

    /// Runs one that must succeed; gives what it says.
    pub fn must(&self, arguments: &[&str]) -> Result<String> {
        let output = self.tally(arguments)?;
        ensure!(output.status.success(), "tally {}: {}", arguments.join(" "), said(&output));
        Ok(said(&output))
    }

    /// What the server has said.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// [`Self::log`] begins anew.
    pub fn forget_log(&self) -> Result<()> {
        Ok(File::create(self.folder.path().join("log")).map(drop)?)
    }

    /// A client at the root of the pool.
    pub fn client(&self) -> Result<Client> {
        self.client_of(POOL)
    }

    /// Makes a further pool, which clients of this machine may use as well.
    pub fn create_another(&self, pool: &str, vdevs: &[&str]) -> Result<()> {
        self.must(&[&["pool", "create", pool], vdevs].concat())?;
        self.must(&["dataset", "set", "sharenfs=127.0.0.0/8(rw,no_root_squash,insecure)", pool]).map(drop)
    }

    /// A client at the root of any pool that is exported.
    pub fn client_of(&self, pool: &str) -> Result<Client> {
        let target = Target { nfs: self.address, mount: self.address, export: format!("/{pool}") };
        let root = Connection::mount(&target)?;
        Ok(Client { connection: Connection::open(self.address)?, root })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nothing may hang any more, or the folder cannot be unmounted.
        let _ = self.rule("");
        if self.child.is_some() {
            let _ = self.kill();
        }
    }
}

/// Both streams of a command.
#[must_use]
pub fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

/// A connection, and the folder that it works in.
pub struct Client {
    /// The connection.
    pub connection: Connection,
    /// The folder.
    pub root: Handle,
}

impl Client {
    /// Makes a file with this content, all of it durable when this returns.
    pub fn put(&mut self, name: &str, data: &[u8]) -> Result<()> {
        let file = self.connection.create(&self.root, name)?;
        for (at, piece) in (0..).step_by(PIECE).zip(data.chunks(PIECE)) {
            self.connection.write(&file, at, piece, Stable::FileSync)?;
        }
        Ok(())
    }

    /// What is in a file; an error if it is not there or cannot be read.
    pub fn get(&mut self, name: &str) -> Result<Vec<u8>> {
        let file = self.connection.lookup(&self.root, name)?;
        let mut all = Vec::new();
        loop {
            let piece = self.connection.read(&file, all.len() as u64, PIECE as u32)?;
            if piece.is_empty() {
                return Ok(all);
            }
            all.extend(piece);
        }
    }
}

/// Bytes of one READ or WRITE.
const PIECE: usize = 64 << 10;

/// Does something beside, which may hang; gives nothing if it has not come back in time.
pub fn within<T: Send + 'static>(patience: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // Whoever asked may be gone.
        let _ = sender.send(work());
    });
    receiver.recv_timeout(patience).ok()
}

/// Bytes that no compression makes shorter, the same for the same number.
#[must_use]
pub fn noise(number: u64, length: usize) -> Vec<u8> {
    Random::new(number, 0).bytes(length)
}
