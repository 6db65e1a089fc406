//! A service manager beside the daemon: it hears how far a start and an end are, and that they go on, so that it does not
//! end a long replay or export after a time that was set for short ones.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Only against hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon, and the socket at which its manager listens.
struct Managed {
    child: Child,
    socket: UnixDatagram,
}

impl Managed {
    fn start(dir: &Path) -> Self {
        let path = dir.join("notify");
        if let Err(error) = std::fs::remove_file(&path) {
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command.arg("serve").arg("--data-dir").arg(dir.join("data"));
        command.args(["--http", "off", "--size", "64M", "--listen", "127.0.0.1", "--port", "0"]);
        command.env("NOTIFY_SOCKET", &path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().unwrap(), socket }
    }

    /// All that it says until it says this.
    fn said_until(&self, last: &str) -> String {
        let (mut said, mut message) = (String::new(), [0; 4096]);
        while !said.contains(last) {
            let length = self.socket.recv(&mut message).unwrap_or_else(|error| panic!("no {last:?}: {error}: {said}"));
            said += std::str::from_utf8(&message[..length]).unwrap();
        }
        said
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_manager_hears_that_a_start_and_an_end_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let goes_on = |said: &str, what: &str| {
        let word = format!("STATUS={what}");
        let message = said.split_once(&word).unwrap_or_else(|| panic!("{what:?} is not in {said}")).1;
        let next = message.lines().nth(1).unwrap_or_default();
        assert!(next.starts_with("EXTEND_TIMEOUT_USEC="), "{what}: {said}");
    };
    let first = Managed::start(dir.path());
    goes_on(&first.said_until("READY=1"), "making ");
    // The power goes, and the next start looks for a log to replay.
    drop(first);
    let mut second = Managed::start(dir.path());
    let said = second.said_until("READY=1");
    goes_on(&said, "reading the log");
    kill_process(Pid::from_child(&second.child), Signal::TERM).unwrap();
    let said = second.said_until("EXTEND_TIMEOUT_USEC=");
    assert!(said.contains("STOPPING=1"), "{said}");
    goes_on(&said, "exporting pool 'tank'");
    assert!(second.child.wait().unwrap().success());
}
