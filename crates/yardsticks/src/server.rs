//! Servers under test as child processes on loopback, each in a folder of its own that goes away with it.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tally_bench::wire::{Connection, Target};
use tally_lab::port::free_port;
use tempfile::TempDir;

/// How long a server may take until it answers; the first start writes its log out in full.
pub const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A child process that serves NFSv3.
pub struct Server {
    child: Child,
    /// Ganesha does not start without a port mapper; where none runs, one goes with it.
    _port_mapper: Option<PortMapper>,
    folder: TempDir,
    target: Target,
}

impl Server {
    /// `tally serve` with a new pool in `folder`.
    pub fn tally(binary: &Path, folder: &Path, size: &str) -> Result<Self> {
        Self::tally_with(binary, folder, size, &[])
    }

    /// The same with more arguments.
    pub fn tally_with(binary: &Path, folder: &Path, size: &str, more: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("tally-").tempdir_in(folder)?;
        let port = free_port()?;
        let mut command = Command::new(binary);
        command.args(["serve", "--size", size, "--port", &port.to_string()]).args(more);
        Self::spawn(command, folder, (port, port), "/tank")
    }

    /// Debian's NFS-Ganesha over a folder of the host's file system.
    pub fn ganesha(folder: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("ganesha-").tempdir_in(folder)?;
        let (nfs, mount) = (free_port()?, free_port()?);
        let served = folder.path().join("served");
        std::fs::create_dir(&served)?;
        let configuration = folder.path().join("ganesha.conf");
        std::fs::write(&configuration, ganesha_configuration(&served, nfs, mount))?;
        let mut command = Command::new("ganesha.nfsd");
        command.arg("-F").arg("-f").arg(configuration);
        command.arg("-p").arg(folder.path().join("pid")).args(["-L", "/dev/stderr", "-N", "NIV_EVENT"]);
        let port_mapper = port_mapper()?;
        // Version 3 mounts what is exported, not its name in the pseudo file system.
        let mut server = Self::spawn(command, folder, (nfs, mount), &served.to_string_lossy())?;
        server._port_mapper = port_mapper;
        Ok(server)
    }

    fn spawn(mut command: Command, folder: TempDir, ports: (u16, u16), export: &str) -> Result<Self> {
        let log_path = folder.path().join("log");
        let log = File::create(&log_path)?;
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let target = Target { nfs: address(ports.0), mount: address(ports.1), export: export.to_owned() };
        let mut server = Self { child, _port_mapper: None, folder, target };
        server.wait_until_it_answers(&log_path)?;
        Ok(server)
    }

    fn wait_until_it_answers(&mut self, log: &Path) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < START_TIMEOUT {
            // A connection alone proves little: some servers listen before they can answer.
            if TcpStream::connect(self.target.nfs).is_ok() && Connection::mount(&self.target).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}:\n{}", std::fs::read_to_string(log).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("no answer in {START_TIMEOUT:?}:\n{}", std::fs::read_to_string(log).unwrap_or_default())
    }

    /// How a client reaches it.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Where it keeps its data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The folder is about to be removed, so the server need not end cleanly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An rpcbind; it ends when it is dropped, also where the server that needed it did not start.
struct PortMapper(Child);

impl Drop for PortMapper {
    fn drop(&mut self) {
        // It keeps nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn port_mapper() -> Result<Option<PortMapper>> {
    let address = SocketAddr::from(([127, 0, 0, 1], 111));
    if TcpStream::connect(address).is_ok() {
        return Ok(None);
    }
    let mut command = Command::new("rpcbind");
    // It binds 127.0.0.1 of its own accord, and gives up when that is asked for besides.
    let child = command
        .args(["-f", "-w", "-h", "127.0.0.2"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start rpcbind")?;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(5) && TcpStream::connect(address).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(Some(PortMapper(child)))
}

/// Its configuration: version 3 alone, everything else as it comes.
pub fn ganesha_configuration(served: &Path, nfs: u16, mount: u16) -> String {
    format!(
        "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {nfs}; MNT_Port = {mount}; Bind_addr = 127.0.0.1;\n  \
         Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}\n\
         EXPORT {{ Export_Id = 1; Path = {path}; Pseudo = /served; Access_Type = RW; Squash = No_Root_Squash;\n  \
         SecType = sys; Protocols = 3; Transports = TCP; FSAL {{ Name = VFS; }} }}\n\
         EXPORT_DEFAULTS {{ PrivilegedPort = false; }}\n",
        path = served.display()
    )
}
