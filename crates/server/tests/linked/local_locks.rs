//! Ranges that programs of this machine lock below a mount, by the real kernel: among each other, and with a client of NFSv4.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tally_wire::nfs4::Nfsstat4::{Nfs4ErrDenied, Nfs4Ok};
use tally_wire::nfs4::{Close4Args, NfsArgop4};

use super::evicting::Client;
use super::mounting::Machine;
use super::*;

/// Has the file open, does one fcntl(2) for each line that it reads, and says what came of it. `many` locks every second byte until it is refused; `again` opens and closes the file once more.
const PROGRAM: &str = r#"
$| = 1;
open(my $file, "+<", $ARGV[0]) or die "$ARGV[0]: $!";
print "open\n";
while (<STDIN>) {
    my ($command, $kind, $start, $length) = split;
    if ($command eq "again") { open(my $other, "<", $ARGV[0]); close($other); print "done\n"; next }
    if ($command eq "flock") { print(flock($file, 6) ? "done\n" : "errno " . ($! + 0) . "\n"); next }
    if ($command eq "many") {
        my $count = 0;
        $count++ while fcntl($file, 6, pack("s s x4 q q l x4", 1, 0, 2 * $count, 1, 0));
        print "$count, errno ", $! + 0, "\n";
        next;
    }
    my $lock = pack("s s x4 q q l x4", $kind, 0, $start, $length, 0);
    print "errno ", $! + 0, "\n" and next unless fcntl($file, $command, $lock);
    my ($found, undef, $first, $bytes, $process) = unpack("s s x4 q q l", $lock);
    print $command == 5 ? "$found $first $bytes $process\n" : "done\n";
}
"#;

const GETLK: u32 = 5;
pub(super) const SETLK: u32 = 6;
pub(super) const SETLKW: u32 = 7;
const OFD_SETLK: u32 = 37;
pub(super) const WRITE: u32 = 1;
pub(super) const UNLOCK: u32 = 2;

/// A process with a file open.
pub(super) struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    pub(super) fn start(file: &Path) -> Self {
        let mut command = Command::new("perl");
        command.args(["-e", PROGRAM]).arg(file);
        let mut program = Self::running(command);
        assert_eq!(program.says(), "open");
        program
    }

    pub(super) fn running(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    pub(super) fn says(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Tells it to do something, and does not wait for what comes of it.
    pub(super) fn begins(&mut self, words: &str) {
        writeln!(self.input.as_mut().unwrap(), "{words}").unwrap();
    }

    pub(super) fn does(&mut self, words: &str) -> String {
        self.begins(words);
        self.says()
    }

    pub(super) fn lock(&mut self, command: u32, kind: u32, (start, length): (u64, u64)) -> String {
        self.does(&format!("{command} {kind} {start} {length}"))
    }

    pub(super) fn is_locked(&mut self, range: (u64, u64)) -> bool {
        let told = self.lock(SETLK, WRITE, range);
        assert!(told == "done" || told == "errno 11", "{told}");
        told == "done"
    }

    /// It is told to end, and is gone; gives its last word.
    pub(super) fn ends_with(&mut self) -> String {
        self.input = None;
        let word = self.says();
        assert!(self.child.wait().unwrap().success());
        word
    }

    /// It is gone, and has closed all that it had.
    pub(super) fn ends(mut self) {
        self.input = None;
        assert!(self.child.wait().unwrap().success());
    }

    fn is_killed(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Somebody waits in the mount.
pub(super) fn until_waiting(machine: &Machine, count: usize) {
    let given_up = Instant::now() + PATIENCE;
    let waiting = || machine.well(&["mount", "-H"]).trim_end().rsplit('\t').next().unwrap().parse::<usize>().unwrap();
    while waiting() != count {
        assert!(Instant::now() < given_up, "{count} do not wait");
        thread::sleep(Duration::from_millis(5));
    }
}

pub(super) const RANGE: (u64, u64) = (10, 10);

#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn programs_keep_each_other_out_and_wait() {
    let machine = Machine::start();
    machine.mount();
    let file = machine.at("f");
    std::fs::write(&file, "content").unwrap();
    let [mut one, mut two] = [(); 2].map(|()| Program::start(&file));
    assert!(one.is_locked(RANGE) && !two.is_locked((19, 1)) && two.is_locked((20, 0)));
    let process = one.child.id();
    assert_eq!(two.lock(GETLK, WRITE, (0, 100)), format!("{WRITE} 10 10 {process}"));
    assert_eq!(one.lock(GETLK, WRITE, (25, 1)), format!("{WRITE} 20 0 {}", two.child.id()));
    // Who waits has it when the other one unlocks, closes, or is killed.
    two.begins(&format!("{SETLKW} {WRITE} 10 10"));
    until_waiting(&machine, 1);
    assert_eq!(one.lock(SETLK, UNLOCK, (0, 0)), "done");
    assert_eq!(two.says(), "done");
    one.begins(&format!("{SETLKW} {WRITE} 10 10"));
    until_waiting(&machine, 1);
    two.ends();
    assert_eq!(one.says(), "done");
    let mut three = Program::start(&file);
    three.begins(&format!("{SETLKW} {WRITE} 0 0"));
    until_waiting(&machine, 1);
    one.is_killed();
    assert_eq!(three.says(), "done");
    // Who is killed while he waits is gone at once, and has nothing.
    let mut four = Program::start(&file);
    four.begins(&format!("{SETLKW} {WRITE} 0 0"));
    until_waiting(&machine, 1);
    four.is_killed();
    until_waiting(&machine, 0);
    let mut five = Program::start(&file);
    assert!(!five.is_locked(RANGE));
    // A process loses what it has with any descriptor of the file.
    assert_eq!(three.does("again"), "done");
    assert!(five.is_locked(RANGE));
    // What an open description has is its own.
    assert_eq!(three.lock(OFD_SETLK, WRITE, (50, 10)), "done");
    assert_eq!(three.does("again"), "done");
    assert!(!five.is_locked((55, 1)));
    three.ends();
    five.begins(&format!("{SETLKW} {WRITE} 55 1"));
    assert_eq!(five.says(), "done");
    // Whole files are something else.
    let mut six = Program::start(&file);
    assert_eq!((six.does("flock"), five.does("flock")), ("done".into(), "errno 11".into()));
    drop((five, six));
    machine.unmount();
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn programs_and_clients_keep_each_other_out() {
    let machine = Machine::start();
    machine.mount();
    let file = machine.at("f");
    std::fs::write(&file, "content").unwrap();
    let mut one = Program::start(&file);
    assert!(one.is_locked((19, 5)));
    let mut client = Client::new(SocketAddr::from(([127, 0, 0, 1], machine.port)), "one of version 4").claims_nothing();
    let opened = client.open("f").unwrap();
    // It locks ten bytes from 10 on.
    assert_eq!(client.lock("f", &opened), Nfs4ErrDenied);
    assert_eq!(one.lock(SETLK, UNLOCK, (0, 0)), "done");
    assert_eq!(client.lock("f", &opened), Nfs4Ok);
    assert!(!one.is_locked((19, 5)) && one.is_locked((20, 5)));
    assert_eq!(one.lock(GETLK, WRITE, (0, 100)), format!("{WRITE} 10 10 0"), "it is no process of this machine");
    one.begins(&format!("{SETLKW} {WRITE} 0 0"));
    until_waiting(&machine, 1);
    let close = NfsArgop4::OpClose(Close4Args { seqid: 0, open_stateid: opened });
    let look = NfsArgop4::OpLookup(tally_wire::nfs4::Lookup4Args { objname: b"f".into() });
    assert_eq!(client.run(vec![look, close]).status, Nfs4Ok);
    assert_eq!(one.says(), "done");
    // And one that is gone.
    assert_eq!(one.lock(SETLK, UNLOCK, (0, 0)), "done");
    let opened = client.open("f").unwrap();
    assert_eq!(client.lock("f", &opened), Nfs4Ok);
    one.begins(&format!("{SETLKW} {WRITE} 0 0"));
    until_waiting(&machine, 1);
    machine.well(&["client", "evict", "-y", "127.0.0.1"]);
    assert_eq!(one.says(), "done");
    drop(one);
    machine.unmount();
}

/// A client whose lease is over is kept for up to a day, if nobody wants what it has.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn who_is_late_gives_way_to_programs() {
    let machine = Machine::start_with(&["--lease-time", "5"]);
    machine.mount();
    let file = machine.at("f");
    std::fs::write(&file, "content").unwrap();
    let mut program = Program::start(&file);
    let mut client = Client::new(SocketAddr::from(([127, 0, 0, 1], machine.port)), "one of version 4").claims_nothing();
    let opened = client.open("f").unwrap();
    assert_eq!(client.lock("f", &opened), Nfs4Ok);
    assert!(!program.is_locked(RANGE));
    program.begins(&format!("{SETLKW} {WRITE} 0 0"));
    until_waiting(&machine, 1);
    // It says nothing more, and is connected still.
    until_waiting(&machine, 0);
    assert_eq!(program.says(), "done");
    drop((program, client));
    machine.unmount();
}

/// 16,384 of a file, and 65,536 of all programs of a mount.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn locks_have_bounds_that_are_told() {
    let machine = Machine::start();
    machine.mount();
    let files: [_; 5] = std::array::from_fn(|nth| machine.at(&format!("f{nth}")));
    files.iter().for_each(|file| std::fs::write(file, "content").unwrap());
    let no_locks = rustix::io::Errno::NOLCK.raw_os_error();
    let mut greedy: Vec<_> = files.iter().map(|file| Program::start(file)).collect();
    for program in &mut greedy[..4] {
        assert_eq!(program.does("many"), format!("16384, errno {no_locks}"));
    }
    assert_eq!(greedy[4].does("many"), format!("0, errno {no_locks}"));
    // A client has room of its own, and programs go on with what is no lock.
    let mut client = Client::new(SocketAddr::from(([127, 0, 0, 1], machine.port)), "one of version 4").claims_nothing();
    let opened = client.open("f4").unwrap();
    assert_eq!(client.lock("f4", &opened), Nfs4Ok);
    std::fs::write(&files[4], "more").unwrap();
    greedy.remove(0).ends();
    assert_eq!(greedy[3].lock(SETLK, WRITE, (50, 1)), "done");
    drop(greedy);
    machine.unmount();
}
