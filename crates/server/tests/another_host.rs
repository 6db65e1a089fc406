//! Another host, as the real binary sees it: two network namespaces with a cable between them, a server in one, and
//! clients of libnfs-utils in both, whose kernels say nothing of each other.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Addresses for documentation (RFC 5737): nobody has them.
const SERVER: &str = "192.0.2.1";
const OTHER: &str = "192.0.2.2";
/// An ordinary user of both hosts: what he connects from is a port of 1024 or above.
const USER: u32 = 4321;
/// Only against hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// A network of its own, for as long as a process sleeps in it.
struct Host(Child);

impl Host {
    fn begin() -> Self {
        let host = Self(Command::new("unshare").args(["--net", "sleep", "600"]).spawn().unwrap());
        let ours = fs::read_link("/proc/self/ns/net").unwrap();
        until("a network namespace", || fs::read_link(host.network()).is_ok_and(|theirs| theirs != ours));
        host.ip("link set lo up");
        host
    }

    fn network(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.0.id()).into()
    }

    /// A program of this host's, by a user.
    fn command(&self, uid: u32, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.network().display()));
        command.args(["setpriv", &format!("--reuid={uid}"), &format!("--regid={uid}"), "--clear-groups", program]);
        command.stdin(Stdio::null());
        command
    }

    fn ip(&self, words: &str) {
        let done = self.command(0, "ip").args(words.split(' ')).status().unwrap();
        assert!(done.success(), "ip {words}: {done}");
    }

    /// Whether a user of this host who says that he is root gets a file made, and lists it.
    fn makes(&self, uid: u32, server: &Server, name: &str) -> bool {
        let content = server.folder.path().join("content");
        let copied = self.command(uid, "nfs-cp").arg(&content).arg(server.url(name)).output().unwrap();
        let listed = server.host.command(0, "nfs-ls").arg(server.url("")).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let is_there = listed.lines().any(|line| line.ends_with(name));
        assert_eq!(copied.status.success(), is_there, "{copied:?} {listed}");
        is_there
    }

    fn lists(&self, uid: u32, server: &Server) -> bool {
        self.command(uid, "nfs-ls").arg(server.url("")).output().unwrap().status.success()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

struct Server {
    host: Host,
    process: Child,
    folder: tempfile::TempDir,
}

impl Server {
    fn begin(host: Host) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("content"), "a few bytes").unwrap();
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut serve = host.command(0, env!("CARGO_BIN_EXE_tally"));
        serve.current_dir(folder.path()).args(["serve", "--size", "64M", "--http", "off", "--port", "2049"]);
        serve.args(["--listen", SERVER, "--listen", "127.0.0.1"]);
        let process = serve.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let server = Self { host, process, folder };
        until("control socket", || server.folder.path().join("tally-data/tally.sock").exists());
        server
    }

    fn url(&self, path: &str) -> String {
        format!("nfs://{SERVER}/tank/{path}?nfsport=2049&mountport=2049&uid=0&gid=0")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn share(&self, rule: &str) {
        let mut set = Command::new(env!("CARGO_BIN_EXE_tally"));
        set.current_dir(self.folder.path()).args(["dataset", "set", &format!("sharenfs={rule}"), "tank"]);
        let set = set.output().unwrap();
        assert!(set.status.success(), "{set:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "there is no {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
#[ignore = "needs root, iproute2 and libnfs-utils; `cargo xtask test` runs it"]
fn who_is_believed_from_where() {
    let (ours, other) = (Host::begin(), Host::begin());
    ours.ip(&format!("link add cable type veth peer name cable netns {}", other.0.id()));
    for (host, address) in [(&ours, SERVER), (&other, OTHER)] {
        host.ip(&format!("address add {address}/24 dev cable"));
        host.ip("link set cable up");
    }
    let server = Server::begin(ours);
    server.share(&format!("{SERVER}(rw,no_root_squash)"));
    assert!(!other.makes(0, &server, "unnamed-root"), "no rule names that host");
    assert!(!other.lists(USER, &server), "no rule names that host");
    assert!(!server.log().contains("AUTH_TOOWEAK"), "{}", server.log());
    assert!(server.host.makes(0, &server, "own-root"));

    server.share("192.0.2.0/24(rw,no_root_squash)");
    assert!(other.makes(0, &server, "secure-root"), "root's port speaks for him");
    assert!(!other.makes(USER, &server, "secure-user"), "an ordinary port speaks for nobody");
    assert!(!other.lists(USER, &server), "nor does it look");
    let refused = format!("peer={OTHER}");
    let said = server.log();
    let said: Vec<_> = said.lines().filter(|line| line.contains("AUTH_TOOWEAK")).collect();
    assert_eq!(said.len(), 1, "one line, and silence for a minute: {said:?}");
    assert!(said[0].contains(&refused) && said[0].contains("insecure"), "{said:?}");
    // By the server's own address, and not by loopback.
    assert!(server.host.lists(USER, &server), "a user of the server's machine is served");
    assert!(!server.host.makes(USER, &server, "own-user"), "as who he is, and not as root");

    server.share("192.0.2.0/24(rw,no_root_squash,insecure)");
    assert!(other.makes(USER, &server, "insecure-user"), "he is whom he says");
}

/// There is no rpcbind in these networks. A client that names no port asks at 111, and so does libnfs: the server answers there. A second
/// server of the machine takes that one for an rpcbind that knows another server, and says so.
#[test]
#[ignore = "needs root, iproute2 and libnfs-utils; `cargo xtask test` runs it"]
fn the_port_is_found_and_another_owner_of_it_named() {
    let (ours, other) = (Host::begin(), Host::begin());
    ours.ip(&format!("link add cable type veth peer name cable netns {}", other.0.id()));
    for (host, address) in [(&ours, SERVER), (&other, OTHER)] {
        host.ip(&format!("address add {address}/24 dev cable"));
        host.ip("link set cable up");
    }
    let server = Server::begin(ours);
    server.share("192.0.2.0/24(rw,insecure)");
    let without_port = format!("nfs://{SERVER}/tank");
    let listed = other.command(USER, "nfs-ls").arg(&without_port).output().unwrap();
    assert!(listed.status.success(), "{listed:?} {}", server.log());
    let status = |folder: &std::path::Path| {
        let mut status = Command::new(env!("CARGO_BIN_EXE_tally"));
        let output = status.current_dir(folder).args(["pool", "status"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    assert!(!status(server.folder.path()).contains("note:"), "{}", status(server.folder.path()));

    let folder = tempfile::tempdir().unwrap();
    let mut serve = server.host.command(0, env!("CARGO_BIN_EXE_tally"));
    serve.current_dir(folder.path()).args(["serve", "--size", "64M", "--http", "off", "--port", "2050"]);
    // Where nobody but this machine could come, nobody is told.
    serve.args(["--listen", SERVER, "--listen", "127.0.0.1"]);
    let mut second = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_named = || {
        let said = folder.path().join("tally-data/tally.sock").exists().then(|| status(folder.path()));
        said.is_some_and(|said| said.contains("port 2049: another NFS server") && said.contains("mountport=2050"))
    };
    until("word of the other server, with a mount line that does not need it", is_named);
    end(&mut second);
    // The first one keeps its place.
    assert!(other.command(USER, "nfs-ls").arg(&without_port).status().unwrap().success());
}
