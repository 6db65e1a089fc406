//! A daemon whose words nobody reads: it serves, takes commands, and ends when it is told to.
//!
//! Each thread wrote its own lines to stderr, and a write to a terminal that is stopped (Ctrl-S), or to a pipe that nobody
//! reads, lasts until somebody comes. After some hundred lines no client was answered, and SIGTERM had no effect, nor
//! had a second one: the thread that heard it had something to say first.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tally_bench::wire::Connection;

/// Only against hanging.
const PATIENCE: Duration = Duration::from_secs(60);
/// Each is a line of the log of some 100 bytes: several times what a pipe or a terminal takes.
const REFUSED_COMMANDS: usize = 60;
const LINES: usize = 3000;

/// The binary in a folder of its own.
struct Daemon {
    child: Child,
    address: SocketAddr,
    dir: tempfile::TempDir,
}

impl Daemon {
    fn start(out: Stdio, err: Stdio) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let configuration = dir.path().join("tally.toml");
        let text = format!(
            "data_dir = {:?}\nport = {port}\nfirst_pool = false\n[log]\nlevel = \"debug\"\n",
            dir.path().join("data")
        );
        std::fs::write(&configuration, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command.arg("serve").arg("--config").arg(configuration).args(["--http", "off"]);
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
        let daemon = Self { child, address: ([127, 0, 0, 1], port).into(), dir };
        wait_for("a start", || TcpStream::connect(daemon.address).is_ok().then_some(()));
        daemon
    }

    fn command(&self, words: &[&str]) -> ExitStatus {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command.arg("--socket").arg(self.dir.path().join("data/tally.sock")).args(words);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        ended("a command", &mut child)
    }

    /// Much to say, and then what has to go on all the same.
    fn is_of_use(&mut self) {
        for _ in 0..LINES {
            drop(TcpStream::connect(self.address).unwrap());
        }
        for _ in 0..REFUSED_COMMANDS {
            assert!(!self.command(&["pool", "export", &"unknown".repeat(300)]).success());
        }
        let address = self.address;
        let asked = std::thread::spawn(move || Connection::open(address).and_then(|mut client| client.mnt("/none")));
        wait_for("an answer to MOUNT", || asked.is_finished().then_some(()));
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(done) = done() {
            return done;
        }
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn ended(what: &str, child: &mut Child) -> ExitStatus {
    wait_for(what, || child.try_wait().unwrap())
}

fn ends_well(mut daemon: Daemon) {
    daemon.is_of_use();
    daemon.terminate();
    assert!(ended("the end after SIGTERM", &mut daemon.child).success());
}

fn unread_pipe() -> (OwnedFd, Stdio) {
    let (reader, writer) = std::io::pipe().unwrap();
    (reader.into(), writer.into())
}

#[test]
fn a_pipe_that_nobody_reads() {
    let ((_out, out), (_err, err)) = (unread_pipe(), unread_pipe());
    ends_well(Daemon::start(out, err));
}

#[test]
fn a_terminal_that_is_stopped() {
    let (_person, terminal) = terminal();
    let (out, err) = (terminal.try_clone().unwrap(), terminal);
    ends_well(Daemon::start(out.into(), err.into()));
}

#[test]
fn a_full_disk() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    ends_well(Daemon::start(full().into(), full().into()));
}

/// The end waits for a disk or a command, says so, and is told again to end.
#[test]
fn a_second_signal_while_nobody_reads() {
    let (_out, out) = unread_pipe();
    let (_err, err) = unread_pipe();
    let mut daemon = Daemon::start(out, err);
    daemon.is_of_use();
    // Before the first one is looked at there may be two.
    daemon.terminate();
    daemon.terminate();
    ended("the end after two signals", &mut daemon.child);
}

/// A terminal, and the side at which a person would sit.
fn terminal() -> (OwnedFd, File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let terminal = File::options().read(true).write(true).open(Path::new(name.to_str().unwrap())).unwrap();
    (person, terminal)
}
