//! The tour of the README, up to the first file: an ordinary user's server, and clients of libnfs-utils that are his too.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Whom root plays.
const NOBODY: u32 = 65_534;
/// Only against hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// A user, his folder with the binary in it, and the server that he has started there.
struct Tour {
    folder: tempfile::TempDir,
    server: Option<Child>,
    port: u16,
}

impl Tour {
    fn begin() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The binary may lie where nobody but its maker gets.
        fs::copy(env!("CARGO_BIN_EXE_tally"), folder.path().join("tally")).unwrap();
        if fs::metadata(folder.path()).unwrap().uid() == 0 {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut tour = Self { folder, server: None, port };
        let mut serve = tour.command(&tour.path("tally").display().to_string());
        serve.args(["serve", "--size", "64M", "--http", "off", "--port", &port.to_string()]);
        tour.server = Some(serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let began = Instant::now();
        while TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).is_err() {
            assert!(began.elapsed() < PATIENCE, "the server does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        tour
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The user's, in his folder.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        let owner = fs::metadata(self.folder.path()).unwrap();
        if rustix::process::geteuid().is_root() {
            command.gid(owner.gid()).uid(owner.uid());
        }
        command
    }

    fn url(&self, path: &str) -> String {
        format!("nfs://127.0.0.1/tank{path}?nfsport={}&mountport={}", self.port, self.port)
    }

    /// What a program of libnfs-utils prints.
    fn says(&self, program: &str, words: &[&str]) -> String {
        let Output { status, stdout, stderr } = self
            .command(program)
            .args(words)
            .output()
            .unwrap_or_else(|error| panic!("{program} of the Debian package libnfs-utils is needed here: {error}"));
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(status.success(), "{program} {words:?}: {status}, {stdout}{stderr}");
        stdout + &stderr
    }
}

impl Drop for Tour {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

#[test]
#[ignore = "needs libnfs-utils; `cargo xtask test` runs it"]
fn an_ordinary_user_gets_as_far_as_the_readme_says() {
    let tour = Tour::begin();
    let owner = fs::metadata(tour.folder.path()).unwrap().uid();
    let hello = "hello, as in the README: 29 b";
    fs::write(tour.path("hello.txt"), hello).unwrap();
    let copied = tour.says("nfs-cp", &["hello.txt", &tour.url("/hello.txt")]);
    assert!(copied.contains("copied 29 bytes"), "{copied}");
    let listed = tour.says("nfs-ls", &[&tour.url("")]);
    let line: Vec<&str> = listed.lines().find(|line| line.ends_with("hello.txt")).unwrap().split_whitespace().collect();
    assert_eq!(line[2..5], [&owner.to_string(), line[3], "29"], "{listed}");
    assert_eq!(tour.says("nfs-cat", &[&tour.url("/hello.txt")]), hello);
    // By version 4 nobody had to ask for anything, either.
    let by_version_4 = tour.says("nfs-ls", &[&(tour.url("") + "&version=4")]);
    assert_eq!(by_version_4, listed, "{by_version_4}");
    assert_eq!(tour.says("nfs-cat", &[&(tour.url("/hello.txt") + "&version=4")]), hello);
    // He is who he is, and not the root whom he could call himself.
    fs::write(tour.path("other.txt"), "root's?").unwrap();
    let as_root = tour.url("/other.txt") + "&uid=0&gid=0";
    let _ = tour.command("nfs-cp").args(["other.txt", &as_root]).output().unwrap();
    let listed = tour.says("nfs-ls", &[&tour.url("")]);
    let others = listed.lines().filter(|line| line.ends_with("other.txt"));
    let owners: Vec<_> = others.map(|line| line.split_whitespace().nth(2).unwrap().to_owned()).collect();
    assert!(owners.iter().all(|uid| *uid == owner.to_string()), "{listed}");
}
