//! The server as a child process: started, waited for, killed without warning, started again.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal};

/// How long a start may take; the first one writes the log device out in full.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The clients come from addresses of their own within this network.
const CONFIGURATION: &str = "[[export]]\ndataset = \"tank\"\nrules = \"127.0.0.0/8(rw,no_root_squash,insecure)\"\n";

/// What is started.
#[derive(Clone, Debug)]
pub struct Program {
    /// The binary.
    pub path: PathBuf,
    /// Arguments ahead of `serve` and its own, from the second start on: the first one makes the pool, and a pool
    /// that lying disks never held would prove nothing about promises.
    pub arguments: Vec<OsString>,
    /// Size of the pool that the first start makes.
    pub pool_size: String,
    /// How long a lease of NFSv4 is, if not the usual time.
    pub lease_seconds: Option<u32>,
}

/// A server in a folder of its own.
pub struct Server {
    program: Program,
    folder: PathBuf,
    address: SocketAddr,
    child: Option<Child>,
    /// Whether the pool is there.
    made: bool,
}

impl Server {
    /// Prepares a folder and a port; nothing runs yet.
    pub fn new(program: Program, folder: &Path) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        std::fs::write(folder.join("config.toml"), CONFIGURATION)?;
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Ok(Self { program, folder: folder.to_owned(), address, child: None, made: false })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its messages so far: the last lines.
    #[must_use]
    pub fn messages(&self) -> String {
        let text = std::fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }

    /// Starts it and waits until it takes connections. Gives the time that took.
    pub fn start(&mut self) -> Result<Duration> {
        let started = Instant::now();
        let log = OpenOptions::new().create(true).append(true).open(self.log())?;
        self.child = Some(self.spawn(log)?);
        while started.elapsed() < START_TIMEOUT {
            if TcpStream::connect(self.address).is_ok() {
                return Ok(started.elapsed());
            }
            if !self.runs()? {
                bail!("the server does not start:\n{}", self.messages());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("the server takes no connection in {START_TIMEOUT:?}:\n{}", self.messages())
    }

    /// Whether it has not ended by itself.
    pub fn runs(&mut self) -> Result<bool> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?.is_none()),
            None => Ok(false),
        }
    }

    /// A clean end. The first one ends the start that made the pool. The server must have answered something
    /// before: it listens earlier than it minds signals.
    pub fn stop(&mut self) -> Result<()> {
        self.made = true;
        let mut child = self.child.take().context("there is nothing to stop")?;
        rustix::process::kill_process(Pid::from_child(&child), Signal::TERM)?;
        let status = child.wait()?;
        ensure!(status.success(), "the server ends with {status} when it is asked to stop:\n{}", self.messages());
        Ok(())
    }

    /// SIGKILL: no destructor runs, no buffer is written.
    pub fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("there is nothing to kill")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    fn spawn(&self, log: File) -> Result<Child> {
        let mut command = Command::new(&self.program.path);
        command.args(self.program.arguments.iter().filter(|_| self.made));
        command.args(["serve", "--config", "config.toml"]);
        command.args(["--size", &self.program.pool_size, "--port", &self.address.port().to_string()]);
        if let Some(seconds) = self.program.lease_seconds {
            command.args(["--lease-time", &seconds.to_string()]);
        }
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().with_context(|| format!("cannot start {}", self.program.path.display()))
    }

    fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some() {
            // The run is over, and so is the server's folder.
            let _ = self.kill();
        }
    }
}
