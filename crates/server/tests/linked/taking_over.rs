//! The daemon ends under a mount, and another one goes on with it: by the real kernel, and with what stands in for systemd's store of descriptors.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;

use command_fds::{CommandFdExt as _, FdMapping};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::local_locks::{Program, RANGE, SETLK, SETLKW, UNLOCK, WRITE, until_waiting};
use super::mounting::Machine;
use super::*;

/// Keeps what a daemon gives it, by names, for the next one (sd_notify(3)).
struct Store {
    _dir: tempfile::TempDir,
    socket: UnixDatagram,
    path: PathBuf,
    kept: Vec<(String, OwnedFd)>,
}

impl Store {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { _dir: dir, socket, path, kept: Vec::new() }
    }

    /// Takes all that was said until now.
    fn hears(&mut self) {
        loop {
            let mut words = [0; 4096];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut pieces = [IoSliceMut::new(&mut words)];
            let Ok(heard) = recvmsg(&self.socket, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC) else { return };
            let given = control.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(given) => Some(given),
                _ => None,
            });
            let given: Vec<OwnedFd> = given.flatten().collect();
            let words = String::from_utf8(words[..heard.bytes].to_vec()).unwrap();
            let name = words.lines().find_map(|line| line.strip_prefix("FDNAME=")).unwrap_or_default().to_owned();
            if words.lines().any(|line| line == "FDSTORE=1") {
                assert!(!given.is_empty() && !name.is_empty(), "{words}");
                self.kept.extend(given.into_iter().map(|one| (name.clone(), one)));
            } else if words.lines().any(|line| line == "FDSTOREREMOVE=1") {
                self.kept.retain(|(kept, _)| *kept != name);
            }
        }
    }

    /// A daemon that is given all of it.
    fn program(&mut self) -> Command {
        self.hears();
        let mut command = Command::new("sh");
        command.args(["-c", "export LISTEN_PID=$$; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tally")]);
        command.env("NOTIFY_SOCKET", &self.path);
        command.env("LISTEN_FDS", self.kept.len().to_string());
        command.env("LISTEN_FDNAMES", self.kept.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(":"));
        let mappings = self.kept.iter().enumerate().map(|(place, (_, kept))| FdMapping {
            parent_fd: kept.try_clone().unwrap(),
            child_fd: 3 + i32::try_from(place).unwrap(),
        });
        command.fd_mappings(mappings.collect()).unwrap();
        command
    }
}

/// How a daemon ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Killed,
    Stopped,
}

/// A machine whose daemon is started anew. No file of its mount may be open here: whoever starts a daemon would close it in that one's place, and wait for it.
struct Kept {
    store: Store,
    machine: Machine,
}

impl Kept {
    fn start() -> Self {
        let mut store = Store::new();
        let machine = Machine::start_by(store.program(), &[]);
        machine.mount();
        Self { store, machine }
    }

    fn is_started_anew(&mut self, end: End) {
        match end {
            End::Killed => self.machine.kill(),
            End::Stopped => {
                let mut daemon = self.machine.daemon.take().unwrap();
                let id = rustix::process::Pid::from_child(&daemon);
                rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
                assert!(daemon.wait().unwrap().success());
            }
        }
        let program = self.store.program();
        self.machine.start_daemon_by(program);
    }
}

impl Drop for Kept {
    /// Also where a test has failed no program waits for ever.
    fn drop(&mut self) {
        self.store.kept.clear();
        self.machine.daemon.take().into_iter().for_each(|mut daemon| {
            let _ = daemon.kill();
            let _ = daemon.wait();
        });
    }
}

/// Makes, writes what is durable at once, and renames, until its input ends; and says how often, or what went wrong.
const MAKER: &str = r#"
use Fcntl;
my ($dir, $maker) = @ARGV;
fcntl(STDIN, F_SETFL, O_NONBLOCK);
sysopen(my $log, "$dir/log $maker", O_WRONLY | O_CREAT | O_APPEND | 0x1000) or die "open: $!";
for (my $count = 0;; $count++) {
    mkdir("$dir/$maker $count") or die "mkdir: $!";
    syswrite($log, "$count\n") or die "write: $!";
    rename("$dir/$maker $count", "$dir/$maker-$count") or die "rename: $!";
    my $told = sysread(STDIN, my $word, 1);
    if (defined($told) && $told == 0) { print $count + 1, "\n"; exit }
}
"#;

/// Has a file open, and one that has no name any more. For each line that it reads it writes that to both, has it made durable, and says what is in both or what went wrong.
const HOLDER: &str = r#"
use IO::Handle;
$| = 1;
my ($dir, @names) = @ARGV;
my @files = map { open(my $file, "+>", "$dir/$_") or die "open: $!"; $file } @names;
while (my $line = <STDIN>) {
    chomp($line);
    my @told = map {
        my ($file, $all) = ($_, "");
        if ($line =~ s/^unlink //) { unlink("$dir/$names[1]") or die "unlink: $!" }
        seek($file, 0, 2);
        my $is_well = $line =~ /^write / ? defined(syswrite($file, substr($line, 6))) : $file->sync;
        my $errno = $! + 0;
        seek($file, 0, 0);
        sysread($file, $all, 4096);
        $is_well ? $all : "errno $errno";
    } @files;
    print join("|", @told), "\n";
}
"#;

fn script(script: &str, machine: &Machine, words: &[&str]) -> Program {
    let mut command = Command::new("perl");
    command.args(["-e", script]).arg(machine.at("")).args(words);
    Program::running(command)
}

/// Files, their content, locks, who waits for one, and names that are gone: programs see nothing of it.
fn programs_keep_what_they_have(end: End) {
    let mut programs: Vec<Program> = Vec::new();
    let mut kept = Kept::start();
    std::fs::write(kept.machine.at("f"), "content").unwrap();
    let mut holder = script(HOLDER, &kept.machine, &["file", "unlinked"]);
    assert_eq!(holder.does("write before"), "before|before");
    assert_eq!(holder.does("unlink sync"), "before|before");
    programs.push(holder);
    programs.extend((0..3).map(|_| Program::start(&kept.machine.at("f"))));
    let [holder, one, two, three] = &mut programs[..] else { unreachable!() };
    assert!(one.is_locked(RANGE) && two.is_locked((20, 5)));
    two.begins(&format!("{SETLKW} {WRITE} {} {}", RANGE.0, RANGE.1));
    until_waiting(&kept.machine, 1);

    // Others make names and write what is durable at once, all the time.
    let mut makers: Vec<_> = (0..3).map(|maker| script(MAKER, &kept.machine, &[&maker.to_string()])).collect();
    let dir = kept.machine.at("");
    let goes_on = |round: usize| {
        let given_up = Instant::now() + PATIENCE;
        let made = || std::fs::read_dir(&dir).unwrap().count();
        let before = made();
        while made() < before + 10 {
            assert!(Instant::now() < given_up, "nothing goes on in round {round}");
            thread::yield_now();
        }
    };
    for round in 0..5 {
        goes_on(round);
        kept.is_started_anew(end);
    }
    goes_on(5);
    for (maker, program) in makers.iter_mut().enumerate() {
        let count: usize = program.ends_with().parse().unwrap();
        let log = std::fs::read_to_string(dir.join(format!("log {maker}"))).unwrap();
        assert_eq!(log, (0..count).map(|line| format!("{line}\n")).collect::<String>(), "each line is there once");
        assert!((0..count).all(|number| dir.join(format!("{maker}-{number}")).is_dir()));
    }

    // What was locked is, for all.
    assert!(!three.is_locked(RANGE) && !three.is_locked((20, 5)) && three.is_locked((30, 5)));
    assert_eq!(one.lock(SETLK, UNLOCK, (0, 0)), "done");
    assert_eq!(two.says(), "done", "who waited has it");
    assert!(!three.is_locked(RANGE));
    assert_eq!(two.ends_with(), "");
    assert!(three.is_locked(RANGE), "what was locked by who is gone is free");
    assert_eq!(holder.does("write , and behind"), "before, and behind|before, and behind");
    assert_eq!(holder.does("sync"), "before, and behind|before, and behind");
    drop((programs, makers));
    kept.machine.unmount();
    kept.store.hears();
    assert!(kept.store.kept.is_empty(), "nothing is kept of what is mounted no more");
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn nobody_sees_that_a_daemon_is_stopped() {
    programs_keep_what_they_have(End::Stopped);
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn nobody_sees_that_a_daemon_is_killed() {
    programs_keep_what_they_have(End::Killed);
}

/// What was written and not committed is lost with the daemon's memory, and whoever has the file open is told so by what would have committed it; of a file that was committed nobody is.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn what_a_killed_daemon_has_lost_is_told() {
    let mut programs: Vec<Program> = Vec::new();
    let mut kept = Kept::start();
    programs.extend([["a", "b"], ["c", "d"]].map(|names| script(HOLDER, &kept.machine, &names)));
    let [lost, whole] = &mut programs[..] else { unreachable!() };
    assert_eq!(whole.does("write content"), "content|content");
    assert_eq!(whole.does("sync"), "content|content");
    assert_eq!(lost.does("write content"), "content|content");
    kept.is_started_anew(End::Killed);
    assert_eq!(lost.does("sync"), "errno 5|errno 5");
    assert_eq!(whole.does("sync"), "content|content");
    assert_eq!(whole.does("write , more"), "content, more|content, more");
    assert_eq!(whole.does("sync"), "content, more|content, more");
    // Where it is stopped nothing is lost.
    assert_eq!(whole.does("write , last"), "content, more, last|content, more, last");
    kept.is_started_anew(End::Stopped);
    assert_eq!(whole.does("sync"), "content, more, last|content, more, last");
    drop(programs);
    kept.machine.unmount();
}
