//! Programs that wait in a mount and get signals, by the real kernel, which tells of the first one and not which it was.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tally_wire::nfs4::Nfsstat4::Nfs4Ok;
use tally_wire::nfs4::{Delegreturn4Args, Lookup4Args, NfsArgop4, OpenDelegation4, Stateid4};

use super::evicting::Client;
use super::local_locks::until_waiting;
use super::mounting::Machine;
use super::*;

/// Opens a file to write it, and hears of SIGUSR1. perl would call open(2) again by itself.
const PROGRAM: &str = r#"
use Fcntl;
$| = 1;
$SIG{USR1} = sub { };
print "here\n";
print sysopen(my $file, $ARGV[0], O_RDWR) ? "open\n" : "errno " . ($! + 0) . "\n";
"#;

struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// One that waits for what a client was given to keep.
    fn waiting(machine: &Machine, file: &Path) -> Self {
        let mut child =
            Command::new("perl").args(["-e", PROGRAM]).arg(file).stdout(Stdio::piped()).spawn().expect("perl is there");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut program = Self { child, output };
        assert_eq!(program.says(), "here");
        until_waiting(machine, 1);
        program
    }

    fn says(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn gets(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// It has had a signal, waits on, and the kernel has told of it: from then on it is in a sleep that only the end of the program ends, and what is asked behind that is read behind that.
    fn waits_on(&self, machine: &Machine, dir: &Path) {
        let stat = format!("/proc/{}/stat", self.child.id());
        let is_so = || std::fs::read_to_string(&stat).unwrap().rsplit(") ").next().unwrap().starts_with('D');
        let given_up = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < given_up, "it does not wait");
            thread::yield_now();
        }
        (0..50).for_each(|_| _ = std::fs::metadata(dir).unwrap());
        until_waiting(machine, 1);
    }

    fn ends(mut self) {
        let given_up = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < given_up, "it is not to be killed");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// A new file, which a client was given to keep.
fn kept(client: &mut Client, name: &str) -> Stateid4 {
    client.open_for(name, 2).expect("it is made");
    match client.open_for(name, 1).expect("it is there").delegation {
        OpenDelegation4::OpenDelegateRead(given) => given.stateid,
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn who_waits_hears_of_no_signal_and_can_be_killed() {
    let machine = Machine::start();
    machine.mount();
    let dir = machine.at("");
    let mut client = Client::called(SocketAddr::from(([127, 0, 0, 1], machine.port)), "one").claims_nothing();
    let deleg_stateid = kept(&mut client, "f");
    let start = || Program::waiting(&machine, &machine.at("f"));

    // By itself, as the end of a program that has no handler, and behind a signal of which it was told.
    for signal in [Signal::KILL, Signal::TERM] {
        let program = start();
        program.gets(signal);
        program.ends();
        until_waiting(&machine, 0);
    }
    let program = start();
    program.gets(Signal::USR1);
    program.waits_on(&machine, &dir);
    program.gets(Signal::KILL);
    program.ends();
    until_waiting(&machine, 0);

    let mut program = start();
    program.gets(Signal::USR1);
    program.waits_on(&machine, &dir);
    let look = NfsArgop4::OpLookup(Lookup4Args { objname: b"f".into() });
    let give_back = NfsArgop4::OpDelegreturn(Delegreturn4Args { deleg_stateid });
    assert_eq!(client.run(vec![look, give_back]).status, Nfs4Ok);
    assert_eq!(program.says(), "open", "it hears of no signal");
    drop(program);
    machine.unmount();
}
