//! The server under attack: the real binary with small caches, so that memory is what strangers made it hold.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tally_bench::wire::{Connection, Target};
use tempfile::TempDir;

use tally_lab::cargo;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const HTTP_TIMEOUT: Duration = Duration::from_secs(5);
/// More than all attacks together open, and what the tests themselves need.
const OPEN_FILES: u64 = 16_384;

/// Of a log so many lines, its last, are told.
const LOG_LINES_TOLD: usize = 100;

/// Lets this process have enough connections.
pub(crate) fn raise_open_files() -> Result<()> {
    let now = getrlimit(Resource::Nofile);
    if now.current.is_some_and(|current| current < OPEN_FILES) {
        let wanted = Rlimit { current: Some(OPEN_FILES), maximum: now.maximum };
        setrlimit(Resource::Nofile, wanted).context("the attacks need 16,384 open files: raise the hard limit")?;
    }
    Ok(())
}

/// A server with a new pool.
pub(crate) struct Server {
    child: Child,
    binary: PathBuf,
    folder: TempDir,
    http: SocketAddr,
    pub(crate) target: Target,
}

impl Server {
    pub(crate) fn start(binary: Option<&Path>) -> Result<Self> {
        let binary = match binary {
            Some(binary) => binary.canonicalize()?,
            None => {
                cargo::run(&["build", "--release", "--package", "tally-server", "--bin", "tally"])?;
                cargo::target_folder().join("release/tally")
            }
        };
        let folder = tempfile::tempdir()?;
        let [nfs, http] = [free_address()?, free_address()?];
        let config = format!(
            "data_dir = \"data\"\nlisten = [\"127.0.0.1\"]\nport = {}\nnfs4 = true\ncache = \"32M\"\ndirty_data_max = \"32M\"\n\
             [http]\nlisten = \"{http}\"\n\
             [[export]]\ndataset = \"tank\"\nrules = \"127.0.0.0/8(rw,no_root_squash,insecure)\"\n",
            nfs.port()
        );
        std::fs::write(folder.path().join("config.toml"), config)?;
        let log = std::fs::File::create(folder.path().join("log"))?;
        let mut command = Command::new(&binary);
        command.args(["serve", "--config", "config.toml", "--size", "4G"]).current_dir(folder.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
        let target = Target { nfs, mount: nfs, export: "/tank".into() };
        let mut server = Self { child, binary, folder, http, target };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < START_TIMEOUT {
            if Connection::mount(&self.target).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}: {}", std::fs::read_to_string(self.folder.path().join("log"))?);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the server does not answer")
    }

    /// Whether it runs, and what it logged: on a bad end it would be gone with the folder.
    pub(crate) fn last_words(&mut self) -> Result<String> {
        let state = self.child.try_wait()?.map_or_else(|| "runs".into(), |status| format!("ended with {status}"));
        let log = std::fs::read_to_string(self.folder.path().join("log"))?;
        let skipped = log.lines().count().saturating_sub(LOG_LINES_TOLD);
        let told: Vec<_> = log.lines().skip(skipped).collect();
        Ok(format!("the server {state}; its log, less {skipped} lines:\n{}", told.join("\n")))
    }

    /// What the process has in memory.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.split_whitespace().next().context("no number")?.parse::<u64>()? << 10)
    }

    /// What it says that requests and replies hold.
    pub(crate) fn account_bytes(&self) -> Result<u64> {
        let metrics = self.scrape()?;
        let held = metrics.lines().filter_map(|line| line.strip_prefix("tally_nfs_held_bytes{")?.split_once("} "));
        held.map(|(_, bytes)| Ok(bytes.trim().parse::<f64>()? as u64)).sum()
    }

    fn scrape(&self) -> Result<String> {
        let mut stream = TcpStream::connect(self.http)?;
        stream.set_read_timeout(Some(HTTP_TIMEOUT))?;
        stream.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", self.http).as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 200 "), "no metrics: {answer}");
        Ok(answer)
    }

    /// How many of 20 scrapes are answered while 48 connections have sent a byte each, and come again.
    pub(crate) fn scrapes_beside_slow_sockets(&self) -> Result<usize> {
        let mut slow = Vec::new();
        let mut answered = 0;
        for _ in 0..20 {
            slow.clear();
            for _ in 0..48 {
                let mut stream = TcpStream::connect(self.http)?;
                // It may have been hung up on already.
                let _ = stream.write_all(b"G");
                slow.push(stream);
            }
            answered += usize::from(self.scrape().is_ok());
        }
        Ok(answered)
    }

    /// How many of 20 commands are carried out while twice as many connections as there are places say nothing.
    pub(crate) fn commands_beside_idle_watchers(&self) -> Result<usize> {
        let socket = self.folder.path().join("data/tally.sock");
        let _idle = (0..128).map(|_| Ok(UnixStream::connect(&socket)?)).collect::<Result<Vec<_>>>()?;
        let mut carried_out = 0;
        for _ in 0..20 {
            let mut command = Command::new(&self.binary);
            command.args(["pool", "status", "--socket", "data/tally.sock"]).current_dir(self.folder.path());
            carried_out += usize::from(command.stdout(Stdio::null()).status()?.success());
        }
        Ok(carried_out)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
