//! The release binary over one set of images: a daemon of its own for each, which imports the pool by command as a
//! person would on another machine, is asked over NFS for everything that is there, and is killed.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use tally_bench::wire::{Connection, Handle, Stable, Status, Target};

use super::expected::{Object, Tree};
use crate::port::free_port;

const POOL: &str = "tank";
/// Where the images are, below the folder.
const IMAGES: &str = "images";
/// Longest time until a daemon without pools takes connections.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of one READ; the files are smaller.
const READ_BYTES: u32 = 1 << 16;
const FILE: u32 = 1;
const FOLDER: u32 = 2;

/// A place where images are made and served, one set after the other.
pub(super) struct Filer {
    binary: PathBuf,
    folder: PathBuf,
    port: u16,
}

impl Filer {
    pub(super) fn new(binary: &Path, folder: &Path) -> Result<Self> {
        std::fs::create_dir(folder.join(IMAGES))?;
        std::fs::write(folder.join("config.toml"), "first_pool = false\n")?;
        Ok(Self { binary: binary.to_owned(), folder: folder.to_owned(), port: free_port()? })
    }

    /// Where the images have to be.
    pub(super) fn images(&self) -> PathBuf {
        self.folder.join(IMAGES)
    }

    /// Imports what the images hold, and gives all that a client finds there. Whatever goes wrong is a fault of the
    /// pool or of the server.
    pub(super) fn tree(&self) -> Result<Tree> {
        // Left from the last images.
        let _ = std::fs::remove_dir_all(self.folder.join("tally-data"));
        let log = File::create(self.folder.join("server.log"))?;
        let mut command = Command::new(&self.binary);
        command.args(["serve", "--config", "config.toml", "--port", &self.port.to_string()]);
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut daemon = Daemon(command.spawn().with_context(|| format!("cannot start {}", self.binary.display()))?);
        self.look(&mut daemon).map_err(|error| anyhow!("{error:#}\nthe server said:\n{}", self.messages()))
    }

    fn look(&self, daemon: &mut Daemon) -> Result<Tree> {
        self.wait_until_it_listens(daemon)?;
        // It was in use on another machine, the guest.
        self.command(&["pool", "import", "-f", "-d", IMAGES, POOL])?;
        self.check_status()?;
        let target = Target { nfs: self.address(), mount: self.address(), export: format!("/{POOL}") };
        let root = Connection::mount(&target)?;
        let mut connection = Connection::open(target.nfs)?;
        let mut tree = Tree::new();
        add(&mut tree, &mut connection, &root, "")?;
        // A pool that can only be read is not recovered.
        let file = connection.create(&root, "written after the import")?;
        connection.write(&file, 0, b"durable", Stable::FileSync)?;
        Ok(tree)
    }

    fn check_status(&self) -> Result<()> {
        #[derive(Deserialize)]
        struct Pool {
            state: String,
            messages: Vec<String>,
            losses: Vec<String>,
        }
        let pools: Vec<Pool> = serde_json::from_str(&self.command(&["pool", "status", "--json", POOL])?)?;
        let [pool] = &pools[..] else { bail!("{} pools instead of one", pools.len()) };
        ensure!(pool.state == "ONLINE", "the pool is {}: {:?}", pool.state, pool.messages);
        ensure!(pool.losses.is_empty(), "acknowledged changes are lost: {:?}", pool.losses);
        Ok(())
    }

    fn wait_until_it_listens(&self, daemon: &mut Daemon) -> Result<()> {
        let started = Instant::now();
        while TcpStream::connect(self.address()).is_err() {
            ensure!(started.elapsed() < START_TIMEOUT, "no connection in {START_TIMEOUT:?}");
            if let Some(status) = daemon.0.try_wait()? {
                bail!("the server ended with {status}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn command(&self, words: &[&str]) -> Result<String> {
        let output = Command::new(&self.binary).args(words).current_dir(&self.folder).output()?;
        let message = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "tally {}: {message}", words.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    fn messages(&self) -> String {
        std::fs::read_to_string(self.folder.join("server.log")).unwrap_or_default()
    }
}

/// Its end is a power cut as well.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself; then somebody has said so already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Adds everything below a folder.
fn add(tree: &mut Tree, connection: &mut Connection, folder: &Handle, prefix: &str) -> Result<()> {
    let mut entries = Vec::new();
    connection.entries(folder, |entry| {
        if !matches!(entry.name, b"." | b"..") {
            let path = format!("{prefix}{}", String::from_utf8_lossy(entry.name));
            entries.push((path, entry.status, entry.handle.clone()));
        }
        Ok(())
    })?;
    for (path, status, handle) in entries {
        let handle = handle.with_context(|| format!("{path} comes without a handle"))?;
        let status = status.with_context(|| format!("{path} comes without attributes"))?;
        let content = match status.kind {
            FOLDER => {
                add(tree, connection, &handle, &format!("{path}/"))?;
                None
            }
            FILE => Some(content(connection, &handle, status).with_context(|| path.clone())?),
            kind => bail!("{path} is of type {kind}"),
        };
        let object = Object { content, mode: status.mode & 0o7777, owner: status.owner, mtime: status.mtime };
        ensure!(tree.insert(path.clone(), object).is_none(), "{path} is there twice");
    }
    Ok(())
}

fn content(connection: &mut Connection, file: &Handle, status: Status) -> Result<Vec<u8>> {
    let content = connection.read(file, 0, READ_BYTES)?;
    ensure!(content.len() as u64 == status.size, "READ gives {} bytes of {}", content.len(), status.size);
    Ok(content)
}
