//! A daemon whose words nobody reads: it serves, takes commands, and ends when it is told to.
//!
//! Each thread wrote its own lines to stderr, and a write to a terminal that is stopped (Ctrl-S), or to a pipe that nobody
//! reads, lasts until somebody comes. After some hundred lines no client was answered, and SIGTERM had no effect, nor
//! had a second one: the thread that heard it had something to say first.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
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
        Self::start_with("off", out, err)
    }

    fn start_with(http: &str, out: Stdio, err: Stdio) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let configuration = dir.path().join("tally.toml");
        let text = format!(
            "data_dir = {:?}\nport = {port}\nfirst_pool = false\n[log]\nlevel = \"debug\"\n",
            dir.path().join("data")
        );
        std::fs::write(&configuration, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command.arg("serve").arg("--config").arg(configuration).args(["--http", http]);
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
        let daemon = Self { child, address: ([127, 0, 0, 1], port).into(), dir };
        wait_for("a start", || TcpStream::connect(daemon.address).is_ok().then_some(()));
        daemon
    }

    fn command(&self, words: &[&str]) -> ExitStatus {
        ended("a command", &mut self.spawn(words))
    }

    fn spawn(&self, words: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command.arg("--socket").arg(self.dir.path().join("data/tally.sock")).args(words);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
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

/// What is missing is counted, where somebody may look meanwhile, and told as soon as somebody reads again.
#[test]
fn what_was_dropped_is_counted_and_told() {
    let (_out, out) = unread_pipe();
    let (log, err) = unread_pipe();
    let http = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut daemon = Daemon::start_with(&http.to_string(), out, err);
    wait_for("a line that was dropped", || {
        daemon.is_of_use();
        (lines_dropped(http) > 0).then_some(())
    });
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(File::from(log)).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    wait_for("a line that tells of it", || {
        // It is told with the next lines that get through.
        assert!(!daemon.command(&["pool", "export", "unknown"]).success());
        lines.try_iter().any(|line| line.contains("lines of the log were dropped")).then_some(())
    });
    daemon.terminate();
    assert!(ended("the end after SIGTERM", &mut daemon.child).success());
}

fn lines_dropped(http: SocketAddr) -> u64 {
    let mut stream = TcpStream::connect(http).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {http}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let count = text.lines().find_map(|line| line.strip_prefix("tally_log_lines_dropped_total "));
    count.unwrap().parse().unwrap()
}

/// The end waits for a command that takes its time, with words that nobody reads. Whoever says again that it should end is
/// heard, whichever signal it is.
#[test]
fn a_second_signal_during_a_slow_end_while_nobody_reads() {
    for (first, second) in [(Signal::TERM, Signal::INT), (Signal::INT, Signal::TERM)] {
        let (_out, out) = unread_pipe();
        let (_err, err) = unread_pipe();
        let mut daemon = Daemon::start(out, err);
        daemon.is_of_use();
        // Half a gigabyte of log has to be written out before there is a pool.
        let disk = daemon.dir.path().join("disk");
        File::create(&disk).unwrap().set_len(32 << 30).unwrap();
        let mut create = daemon.spawn(&["pool", "create", "slow", disk.to_str().unwrap()]);
        wait_for("the first bytes of the log", || (disk.metadata().unwrap().blocks() > 8192).then_some(()));
        for signal in [first, second] {
            kill_process(Pid::from_child(&daemon.child), signal).unwrap();
        }
        let status = ended("the end after two signals", &mut daemon.child);
        assert_eq!(status.code(), Some(1), "it did not leave at once");
        // Its disk may have been faster.
        let _ = ended("the command", &mut create);
    }
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
