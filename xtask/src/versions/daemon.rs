//! A version's daemon in the data folder, its commands, and clients of it.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// A start writes the log of a new pool out in full.
const START_TIME_MAX: Duration = Duration::from_secs(120);

/// The process. Dropped, it is killed.
pub(super) struct Daemon {
    program: PathBuf,
    folder: PathBuf,
    port: u16,
    child: Child,
}

/// What a command has said, and whether it did what it was to do.
pub(super) struct Told {
    pub(super) succeeded: bool,
    pub(super) said: String,
}

impl Daemon {
    /// Starts it and waits until it takes commands.
    pub(super) fn start(program: &Path, folder: &Path, port: u16) -> Result<Self> {
        let log = File::options().create(true).append(true).open(folder.join("log"))?;
        let mut command = Command::new(program);
        command.args(["serve", "--size", "96M", "--listen", "127.0.0.1", "--http", "off", "--port", &port.to_string()]);
        command.arg("--data-dir").arg(folder).current_dir(folder);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut daemon = Self { program: program.into(), folder: folder.into(), port, child };
        let until = Instant::now() + START_TIME_MAX;
        while TcpStream::connect(("127.0.0.1", port)).is_err() || !daemon.ask(&["pool", "list"])?.succeeded {
            if let Some(status) = daemon.child.try_wait()? {
                bail!("it ends with {status} at its start: {}", daemon.log());
            }
            ensure!(Instant::now() < until, "it does not start: {}", daemon.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(daemon)
    }

    /// The end of what all of them have said.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Runs a command of the same version.
    pub(super) fn ask(&self, words: &[&str]) -> Result<Told> {
        let mut command = Command::new(&self.program);
        command.arg("--socket").arg(self.folder.join("tally.sock")).args(words).current_dir(&self.folder);
        let output = command.stdin(Stdio::null()).output()?;
        Ok(Told { succeeded: output.status.success(), said: said(&output) })
    }

    /// Runs one that must succeed, and gives what it says.
    pub(super) fn tally(&self, words: &[&str]) -> Result<String> {
        let told = self.ask(words)?;
        ensure!(told.succeeded, "`tally {}` says {}", words.join(" "), told.said);
        Ok(told.said)
    }

    /// A client reads a file.
    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>> {
        let output = Command::new("nfs-cat").arg(self.url(path)).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "nfs-cat {path} says {}\n{}", said(&output), self.log());
        Ok(output.stdout)
    }

    /// A client writes one.
    pub(super) fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        let source = self.folder.join("content");
        fs::write(&source, content)?;
        let output = Command::new("nfs-cp").arg(&source).arg(self.url(path)).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "nfs-cp {path} says {}\n{}", said(&output), self.log());
        Ok(fs::remove_file(source)?)
    }

    fn url(&self, path: &str) -> String {
        format!("nfs://127.0.0.1{path}?nfsport={0}&mountport={0}", self.port)
    }

    /// As systemd ends it.
    pub(super) fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "it ends with {status}: {}", self.log());
        Ok(())
    }

    /// SIGKILL.
    pub(super) fn kill(self) -> Result<()> {
        drop(self);
        Ok(())
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
