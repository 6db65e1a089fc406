//! Commands whose askers do not want them any more.

use std::io::{BufRead, BufReader};
use std::thread::JoinHandle;

use clap::Parser;
use tally_server::cli::{self, Cli, Console, Interrupts};

use super::*;

/// A connection on which a request was written as `tally` does.
fn request(data_dir: &Path, line: &str) -> BufReader<UnixStream> {
    let mut stream = UnixStream::connect(data_dir.join("tally.sock")).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    stream.write_all(b"\n").unwrap();
    BufReader::new(stream)
}

fn next_line(answers: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// A command at which Ctrl-C is pressed when something is written to the socket: its exit status, and what was said.
fn interruptible(data_dir: &Path, words: &'static [&'static str]) -> (JoinHandle<(u8, String)>, UnixStream) {
    let (keyboard, interrupts) = UnixStream::pair().unwrap();
    let data_dir = data_dir.to_owned();
    let thread = thread::spawn(move || {
        let mut cli = Cli::try_parse_from(["tally"].iter().chain(words)).unwrap();
        cli.socket = Some(data_dir.join("tally.sock"));
        let interrupts = Interrupts::From(interrupts);
        let mut console = Console { out: &mut Vec::new(), err: &mut Vec::new(), interrupts };
        match cli::run(&cli, &data_dir, &mut console) {
            Ok(()) => (0, String::new()),
            Err(failure) => (failure.exit_status(), failure.to_string()),
        }
    });
    (thread, keyboard)
}

/// While `pool create` ran, somebody gave up `dataset destroy tank/precious` within a second. It was still there, and
/// seconds later it was destroyed.
#[test]
fn what_was_given_up_before_its_turn_is_not_done() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let disk = Arc::new(Hanging { disk: MemDisk::new(32 << 20), hangs: Mutex::new(false), goes_on: Condvar::new() });
    opener.put(data_dir.join("a"), Arc::clone(&disk) as Arc<dyn Disk>);
    let daemon = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "create", "dozer", "a"], true, &[])]);
    for name in ["tank/precious", "tank/dear"] {
        story(data_dir, &[(&["dataset", "create", name], true, &[])]);
    }
    disk.set(true);
    let mut first = request(
        data_dir,
        r#"{"op":"pool-set","name":"dozer","assignments":[{"property":"failmode","value":"continue"}]}"#,
    );
    assert_eq!(next_line(&mut first), r#""begun""#);

    // One hangs up, as a process that was killed; the other presses Ctrl-C, and is told at once.
    drop(request(data_dir, r#"{"op":"dataset-destroy","name":"tank/precious","recursive":false}"#));
    let (destroy, mut keyboard) = interruptible(data_dir, &["dataset", "destroy", "tank/dear"]);
    keyboard.write_all(b"^C").unwrap();
    let (status, said) = destroy.join().unwrap();
    assert!(status == 130 && said.contains("nothing was done") && !said.contains("shows how"), "{status}: {said}");

    disk.set(false);
    let mut rest = String::new();
    first.read_line(&mut rest).unwrap();
    story(
        data_dir,
        &[
            (&["dataset", "create", "tank/behind-them"], true, &[]),
            (&["dataset", "list"], true, &["tank/behind-them", "tank/precious", "tank/dear"]),
        ],
    );
    daemon.stop();
}

/// What has been begun is done, whoever gives it up; and he is told so, and where to see it.
#[test]
fn what_was_begun_goes_on_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    opener.put(data_dir.join("b"), Failing::new(32 << 20) as Arc<dyn Disk>);
    let (daemon, disk, target) = serving(data_dir, &opener, &[]);
    fill(&target, 8);
    disk.let_through(Some(3));
    let (attach, mut keyboard) = interruptible(data_dir, &["pool", "attach", "dozer", "a", "b"]);
    wait_for(data_dir, &["pool", "status", "dozer"], "copying");
    keyboard.write_all(b"^C").unwrap();
    let (status, said) = attach.join().unwrap();
    assert!(status == 130 && said.contains("carries it out; `tally pool status dozer`"), "{status}: {said}");
    disk.let_through(None);
    wait_for(data_dir, &["pool", "status", "dozer"], "scan: resilvered");
    daemon.stop();
}

/// `advise` was interrupted, and for as long as it would have recorded, up to an hour, nobody else could.
#[test]
fn a_recording_ends_with_whoever_asked_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let daemon = Running::start(data_dir, &Arc::new(MemOpener::default()));
    let record = |seconds: &str| request(data_dir, &format!(r#"{{"op":"record","seconds":{seconds}}}"#));
    let until = |expected: &str| {
        let given_up = Instant::now() + PATIENCE;
        loop {
            let answer = next_line(&mut record("0"));
            if answer.contains(expected) {
                return;
            }
            assert!(Instant::now() < given_up, "{answer}");
        }
    };
    let long = record("3600");
    until("records the load already");
    drop(long);
    until(r#""done""#);
    daemon.stop();
}
