//! Ctrl-C at the binary, before a daemon that has begun, has not, or does not say; and a benchmark whose terminal goes.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything takes: a test that waits for ever tells nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `pool destroy`, and the daemon's side of its connection, on which the request has come: signals are listened to.
fn asked(listener: &UnixListener) -> (Child, BufReader<UnixStream>) {
    asked_by(&mut heedful(), listener)
}

/// The binary, which hears signals that whoever runs the tests may ignore, as `nohup` and shells in the background do.
fn heedful() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_tally")]);
    command
}

fn asked_by(command: &mut Command, listener: &UnixListener) -> (Child, BufReader<UnixStream>) {
    let path = listener.local_addr().unwrap().as_pathname().unwrap().to_owned();
    command.arg("--socket").arg(path).args(["pool", "destroy", "tank"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // First it asks what would have to be unmounted: nothing.
    let mut mounts = hears(listener);
    mounts.get_mut().write_all(b"{\"done\":{\"kind\":\"mounts\",\"data\":[]}}\n").unwrap();
    (child, hears(listener))
}

/// The daemon's side of the next connection, behind its request.
fn hears(listener: &UnixListener) -> BufReader<UnixStream> {
    let mut daemon = BufReader::new(listener.accept().unwrap().0);
    daemon.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    daemon.read_line(&mut String::new()).unwrap();
    daemon
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_person_is_told_what_becomes_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("tally.sock")).unwrap();
    // What the daemon says before the signal, which one it is, what it says then, exit status, and what the person hears.
    let cases = [
        ("", Signal::INT, "\"withdrawn\"\n", 130, "nothing was done"),
        ("", Signal::TERM, "\"withdrawn\"\n", 143, "nothing was done"),
        ("", Signal::INT, "\"begun\"\n", 130, "carries it out; `tally pool list` shows"),
        ("\"begun\"\n{\"progress\":{\"what\":\"x\",\"done\":1,\"total\":2}}\n", Signal::INT, "", 130, "carries it out"),
        ("", Signal::INT, "{\"done\":{\"kind\":\"done\",\"data\":[\"destroyed\"]}}\n", 0, "destroyed"),
        ("", Signal::INT, "{\"refused\":{\"message\":\"it is busy\"}}\n", 1, "it is busy"),
        ("", Signal::INT, "", 130, "is not known"),
    ];
    for (before, which, then, status, words) in cases {
        let (child, mut daemon) = asked(&listener);
        daemon.get_mut().write_all(before.as_bytes()).unwrap();
        signal(&child, which);
        if !before.contains("begun") {
            // Its side is closed: the request is taken back.
            assert_eq!(daemon.read(&mut [0]).unwrap(), 0);
        }
        daemon.get_mut().write_all(then.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{before:?} {then:?}: {output:?}");
        assert!(said(&output).contains(words), "{before:?} {then:?}: {output:?}");
    }
}

/// Who has no patience for the daemon's answer presses it twice.
#[test]
fn a_second_one_ends_the_wait() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("tally.sock")).unwrap();
    let (child, mut daemon) = asked(&listener);
    signal(&child, Signal::INT);
    assert_eq!(daemon.read(&mut [0]).unwrap(), 0);
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.status.signal()), (Some(130), None));
    assert_eq!(said(&output), "", "it did not wait for what becomes of it");
}

/// A script that had said that it is not to be interrupted, or a shell that does not let what it runs in the background be, saw
/// its command taken back.
#[test]
fn who_ignores_interrupts_is_not_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("tally.sock")).unwrap();
    let cases = [("INT", Signal::INT), ("TERM", Signal::TERM), ("INT,TERM", Signal::INT), ("INT,TERM", Signal::TERM)];
    for (ignored, which) in cases {
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,TERM", &format!("--ignore-signal={ignored}")]);
        command.arg(env!("CARGO_BIN_EXE_tally"));
        let (child, mut daemon) = asked_by(&mut command, &listener);
        signal(&child, which);
        // Whoever takes a request back closes his side.
        daemon.get_mut().set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let heard = daemon.read(&mut [0]).map_err(|error| error.kind());
        daemon.get_mut().write_all(b"{\"done\":{\"kind\":\"done\",\"data\":[\"destroyed\"]}}\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (heard, output.status.code()),
            (Err(std::io::ErrorKind::WouldBlock), Some(0)),
            "{ignored}: {output:?}"
        );
    }
}

/// SIGHUP was no signal that `bench` had heard of, and a folder stayed that nobody was told of.
#[test]
fn a_benchmark_takes_its_folder_along_whatever_ends_it() {
    for end in [Signal::INT, Signal::TERM, Signal::HUP] {
        let dir = tempfile::tempdir().unwrap();
        let folders = || std::fs::read_dir(dir.path()).unwrap().count();
        let mut command = heedful();
        command.args(["bench", "create", "--runs", "20", "--quiet", "0", "--dir"]).arg(dir.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        while folders() == 0 {
            assert_eq!(child.try_wait().unwrap(), None, "it ended before it made a folder");
            std::thread::sleep(Duration::from_millis(1));
        }
        signal(&child, end);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.code().is_some_and(|code| code != 0), "{end:?}: {output:?}");
        assert!(said(&output).contains("tally-bench-") && folders() == 0, "{end:?}: {output:?}");
    }
}
