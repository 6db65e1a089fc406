//! A dataset on this machine, by the real program and the real kernel: what it promises, who else sees it, and how it ends.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::fs::{RenameFlags, XattrFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use tally_server::control::client::Client;
use tally_server::control::message::Request;

use super::*;

/// `unmount -a` takes away whatever is dead on this machine: tests that have something of the kind take turns.
pub(super) static DEAD: Mutex<()> = Mutex::new(());

/// A daemon of its own process, with a pool of two files, and a directory to mount on.
pub(super) struct Machine {
    pub(super) dir: tempfile::TempDir,
    pub(super) port: u16,
    pub(super) daemon: Option<Child>,
    flags: &'static [&'static str],
}

impl Machine {
    pub(super) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Its daemon has these flags besides.
    pub(super) fn start_with(flags: &'static [&'static str]) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_tally")), flags)
    }

    /// The same, by a command that runs the program with the words behind it.
    pub(super) fn start_by(program: Command, flags: &'static [&'static str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut machine = Self { dir: tempfile::tempdir().unwrap(), port, daemon: None, flags };
        fs::create_dir(machine.at("")).unwrap();
        machine.start_daemon_by(program);
        let sharenfs = "sharenfs=127.0.0.0/8(rw,no_root_squash,insecure)";
        story(machine.dir.path(), &[(&["dataset", "set", sharenfs, "tank"], true, &[])]);
        machine
    }

    pub(super) fn start_daemon(&mut self) {
        self.start_daemon_by(Command::new(env!("CARGO_BIN_EXE_tally")));
    }

    pub(super) fn start_daemon_by(&mut self, mut command: Command) {
        command.arg("serve").arg("--data-dir").arg(self.dir.path()).args(["--http", "off", "--size", "64M"]);
        command.args(["--listen", "127.0.0.1", "--port", &self.port.to_string()]).args(self.flags);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemon = Some(command.spawn().unwrap());
        let given_up = Instant::now() + PATIENCE;
        let are_there = |told: &str| told.contains("tank\t") && told.lines().all(|line| line.ends_with("\tONLINE"));
        while !matches!(self.says(&["pool", "list", "-H", "-o", "name,health"]), (true, told) if are_there(&told)) {
            assert!(Instant::now() < given_up, "the daemon does not start");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Without a chance to say or write anything more.
    pub(super) fn kill(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    pub(super) fn says(&self, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command.args(words).arg("--socket").arg(self.dir.path().join("tally.sock")).stdin(Stdio::null());
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    }

    pub(super) fn well(&self, words: &[&str]) -> String {
        let (well, text) = self.says(words);
        assert!(well, "{words:?}: {text}");
        text
    }

    pub(super) fn mount(&self) {
        self.well(&["mount", "tank", &self.at("").display().to_string()]);
    }

    pub(super) fn unmount(&self) -> String {
        self.well(&["unmount", &self.at("").display().to_string()])
    }

    /// Where the daemon has its files.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Below what is mounted.
    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join("mnt").join(name)
    }

    pub(super) fn client(&self) -> (Connection, tally_bench::wire::Handle) {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let root = Connection::mount(&Target { nfs: address, mount: address, export: "/tank".into() }).unwrap();
        (Connection::open(address).unwrap(), root)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        // Also where a test has failed.
        // The outermost takes along what is in it, to which no way leads any more.
        while let Some(dir) = mounted_below(self.dir.path()).first() {
            if rustix::mount::unmount(dir, UnmountFlags::DETACH).is_err() {
                break;
            }
        }
    }
}

/// What the kernel has mounted there, whatever lies in another one behind that.
pub(super) fn mounted_below(dir: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let dirs = table.lines().filter_map(|line| line.split(' ').nth(4));
    let dirs = dirs.map(|dir| PathBuf::from(dir.replace("\\040", " ")));
    let mut dirs: Vec<_> = dirs.filter(|at| at.starts_with(dir)).collect();
    dirs.sort();
    dirs
}

pub(super) fn raw(error: &std::io::Error) -> Option<Errno> {
    Errno::from_io_error(error)
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn a_mount_keeps_what_it_promises() {
    let mut machine = Machine::start();
    let _alone = DEAD.lock();
    machine.mount();
    for round in 0..3 {
        let mounted = machine.at("");
        let at = |name: &str| mounted.join(format!("{name}{round}"));
        // None of these is followed by a word of sync.
        fs::create_dir(at("made")).unwrap();
        File::create(at("empty")).unwrap();
        fs::write(at("old name"), "closed").unwrap();
        fs::rename(at("old name"), at("new name")).unwrap();
        fs::write(at("gone"), "x").unwrap();
        fs::remove_file(at("gone")).unwrap();
        symlink("target", at("link")).unwrap();
        fs::hard_link(at("new name"), at("second name")).unwrap();
        fs::set_permissions(at("made"), fs::Permissions::from_mode(0o1751)).unwrap();
        // These stay open.
        let mut synced = File::create(at("synced")).unwrap();
        synced.write_all(&vec![7; 3 << 20]).unwrap();
        synced.sync_all().unwrap();
        let options = |flags| OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).clone();
        let mut at_once = options(rustix::fs::OFlags::DSYNC.bits() as i32).open(at("at once")).unwrap();
        at_once.write_all(b"durable").unwrap();
        machine.kill();

        let error = fs::metadata(at("made")).unwrap_err();
        assert_eq!(raw(&error), Some(Errno::NOTCONN), "{error}");
        drop((synced, at_once));
        let told = machine.unmount();
        assert!(told.contains("no daemon served it"), "{told}");
        machine.start_daemon();
        machine.mount();
        assert_eq!(fs::metadata(at("made")).unwrap().mode() & 0o7777, 0o1751);
        assert_eq!(fs::read(at("empty")).unwrap(), b"");
        assert_eq!(fs::read(at("new name")).unwrap(), b"closed");
        assert_eq!(fs::metadata(at("second name")).unwrap().nlink(), 2);
        assert!(!at("gone").exists() && !at("old name").exists());
        assert_eq!(fs::read_link(at("link")).unwrap(), PathBuf::from("target"));
        assert!(fs::read(at("synced")).unwrap() == vec![7; 3 << 20], "it was synced");
        assert_eq!(fs::read(at("at once")).unwrap(), b"durable");
    }
    machine.unmount();
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn programs_and_clients_see_each_other_at_once() {
    let machine = Machine::start();
    machine.mount();
    let (mut client, root) = machine.client();
    let (name, file) = ("file", machine.at("file"));
    // From here to there: with no word but close.
    fs::write(&file, "from a program").unwrap();
    let handle = client.lookup(&root, name).unwrap();
    assert_eq!(client.read(&handle, 0, 100).unwrap(), b"from a program");
    // And back, into a file that a program has open and has read.
    let mut open = File::open(&file).unwrap();
    let mut seen = String::new();
    open.read_to_string(&mut seen).unwrap();
    for turn in 0..20 {
        let text = format!("from a client, for the {turn}. time");
        client.write(&handle, 0, text.as_bytes(), Stable::FileSync).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().len(), text.len().max(seen.len()) as u64);
        seen.clear();
        open.seek(SeekFrom::Start(0)).unwrap();
        open.read_to_string(&mut seen).unwrap();
        assert!(seen.starts_with(&text), "turn {turn}: {seen}");
        let name = format!("made {turn}");
        client.create(&root, &name).unwrap();
        assert!(machine.at(&name).exists(), "{name}");
        client.remove(&root, &name).unwrap();
        assert!(!machine.at(&name).exists(), "{name}");
    }
    // What a client removes stays for the program that has it open.
    client.remove(&root, name).unwrap();
    assert_eq!(fs::metadata(&file).map_err(|error| raw(&error)).unwrap_err(), Some(Errno::NOENT));
    let mut first = [0; 4];
    open.read_exact_at(&mut first, 0).unwrap();
    assert_eq!((&first, open.metadata().unwrap().nlink()), (b"from", 0));
    drop(open);
    machine.unmount();
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn what_is_mounted_is_not_let_go_of() {
    let machine = Machine::start();
    let dir = machine.at("").canonicalize().unwrap().display().to_string();
    machine.well(&["dataset", "create", "-p", "tank/home/ann"]);
    let (well, text) = machine.says(&["mount", "tank/none", &dir]);
    assert!(!well && text.contains("tank/none"), "{text}");
    assert!(machine.well(&["mount"]).contains("nothing is mounted"));
    machine.well(&["mount", "tank/home/ann", &dir]);
    assert!(machine.well(&["mount", "-H"]).starts_with(&format!("tank/home/ann\t{dir}\t")));
    // The machine's own table of mounts.
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(table.contains(&format!("tank/home/ann {dir} fuse.tally ")), "{table}");
    // What is in use stays, and who uses it is named.
    fs::write(machine.at("file"), "content").unwrap();
    let open = File::open(machine.at("file")).unwrap();
    let me = format!(
        "{} ({}) has a file of it open",
        std::process::id(),
        fs::read_to_string("/proc/self/comm").unwrap().trim()
    );
    for words in [
        &["pool", "export", "tank"][..],
        &["pool", "export", "-a"],
        &["pool", "destroy", "tank"],
        &["dataset", "destroy", "tank/home/ann"],
        &["dataset", "destroy", "-r", "-v", "tank/home"],
        &["unmount", &dir],
    ] {
        let (well, text) = machine.says(words);
        assert!(!well && text.contains(&me), "{words:?}: {text}");
    }
    // A daemon that is asked by something else refuses by itself.
    let mut other = Client::connect(Some(&machine.dir.path().join("tally.sock"))).unwrap();
    let refused = other.ask(&Request::PoolExport { name: "tank".into() }, &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains(&format!("`tally unmount {dir}`")), "{refused}");
    drop(open);
    // So does what is mounted in it.
    fs::create_dir(machine.at("inside")).unwrap();
    rustix::mount::mount("none", machine.at("inside"), "tmpfs", MountFlags::empty(), None).unwrap();
    let (well, text) = machine.says(&["pool", "export", "tank"]);
    assert!(!well && text.contains(&format!("none (tmpfs) is mounted on {dir}/inside in it")), "{text}");
    rustix::mount::unmount(machine.at("inside"), UnmountFlags::empty()).unwrap();
    // What would be refused anyway unmounts nothing.
    let (well, text) = machine.says(&["dataset", "destroy", "tank/home"]);
    assert!(!well && text.contains("has children") && machine.at("file").exists(), "{text}");
    let told = machine.well(&["dataset", "destroy", "-n", "-r", "tank/home"]);
    assert!(told.starts_with(&format!("would unmount {dir}, if nothing uses it\nwould destroy tank/home")), "{told}");
    assert!(machine.at("file").exists(), "it was only told");
    machine.unmount();
    assert!(machine.well(&["mount"]).contains("nothing is mounted"));
    let (well, text) = machine.says(&["unmount", &dir]);
    assert!(!well && text.contains("is no mount of a dataset"), "{text}");
    assert!(!machine.at("file").exists(), "it is unmounted");
    // What nobody uses is unmounted by what takes it away.
    machine.well(&["mount", "tank/home/ann", &dir]);
    let told = machine.well(&["dataset", "destroy", "-r", "-v", "tank/home"]);
    assert_eq!(told, format!("unmounted {dir}\ndestroyed tank/home\ndestroyed tank/home/ann\n"));
    machine.well(&["mount", "tank", &dir]);
    let told = machine.well(&["pool", "export", "tank"]);
    assert!(told.contains(&format!("unmounted {dir}")), "{told}");
    assert_eq!(mounted_below(machine.dir.path()), Vec::<PathBuf>::new());
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn programs_find_what_a_file_system_has() {
    let machine = Machine::start();
    machine.mount();
    // One write of several requests, each of which would find an end of its own if they came beside each other.
    let (source, appended) = (machine.dir.path().join("source"), machine.at("appended"));
    fs::write(&source, (0..8_u32 << 18).flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", source.display())).arg(format!("of={}", appended.display()));
    dd.args(["bs=8M", "iflag=fullblock", "oflag=append,direct", "conv=notrunc", "status=none"]);
    assert!(dd.status().unwrap().success());
    assert!(fs::read(&source).unwrap() == fs::read(&appended).unwrap(), "all of it, in its order");
    fs::remove_file(appended).unwrap();
    let at = |name: &str| machine.at(name);
    // Names that nobody has, and those that somebody has.
    fs::write(at("a"), "a").unwrap();
    fs::write(at("b"), "b").unwrap();
    let rename = |to: &str, flags| rustix::fs::renameat_with(rustix::fs::CWD, at("a"), rustix::fs::CWD, at(to), flags);
    assert_eq!(rename("b", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    assert_eq!(rename("b", RenameFlags::EXCHANGE), Err(Errno::INVAL));
    assert_eq!((rename("c", RenameFlags::NOREPLACE), fs::read(at("c")).unwrap()), (Ok(()), b"a".to_vec()));
    // A file without a name.
    let held = OpenOptions::new().read(true).write(true).open(at("c")).unwrap();
    fs::remove_file(at("c")).unwrap();
    held.write_all_at(b"still here", 0).unwrap();
    let mut back = [0; 10];
    held.read_exact_at(&mut back, 0).unwrap();
    assert_eq!((&back, held.metadata().unwrap().nlink()), (b"still here", 0));
    // More names than one answer has.
    fs::create_dir(at("many")).unwrap();
    (0..3000).for_each(|nth| drop(File::create(at(&format!("many/a rather long name {nth}"))).unwrap()));
    let names: BTreeSet<_> = fs::read_dir(at("many")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3000);
    // Attributes that users set, and no others.
    rustix::fs::setxattr(at("b"), "user.note", b"mine", XattrFlags::CREATE).unwrap();
    let mut value = [0; 16];
    assert_eq!(rustix::fs::getxattr(at("b"), "user.note", &mut value), Ok(4));
    assert_eq!(rustix::fs::setxattr(at("b"), "trusted.x", b"", XattrFlags::empty()), Err(Errno::OPNOTSUPP));
    // Whom the kernel lets, and what goes when somebody else writes.
    fs::set_permissions(at("b"), fs::Permissions::from_mode(0o4777)).unwrap();
    fs::set_permissions(at(""), fs::Permissions::from_mode(0o755)).unwrap();
    let shell = |script: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=1234", "--regid=1234", "--clear-groups", "sh", "-c", script]).current_dir(at(""));
        command.stderr(Stdio::null()).status().unwrap().success()
    };
    fs::set_permissions(machine.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(!shell("touch new") && !shell("chmod 777 b") && shell("echo x >> b"));
    assert_eq!(fs::metadata(at("b")).unwrap().mode() & 0o7777, 0o777);
    // A dataset that others find in this directory is not mounted with it.
    machine.well(&["dataset", "create", "tank/below"]);
    let error = fs::write(at("below/hidden"), "x").unwrap_err();
    assert_eq!(raw(&error), Some(Errno::ROFS), "{error}");
    // Room, as over NFS.
    machine.well(&["dataset", "set", "refquota=16M", "tank"]);
    let room = rustix::fs::statvfs(at("")).unwrap();
    assert_eq!(room.f_blocks * room.f_frsize, 16 << 20);
    let mut noise = vec![0; 32 << 20];
    File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    let error = fs::write(at("large"), noise).unwrap_err();
    assert_eq!(raw(&error), Some(Errno::DQUOT), "{error}");
    // What takes no changes any more has what was changed before.
    let mut written = File::create(at("written")).unwrap();
    written.write_all(b"before").unwrap();
    machine.well(&["dataset", "set", "readonly=on", "tank"]);
    for error in [fs::create_dir(at("new")), written.write_all(b"behind"), fs::remove_file(at("b"))] {
        assert_eq!(raw(&error.unwrap_err()), Some(Errno::ROFS));
    }
    written.sync_all().unwrap();
    drop((held, written));
    machine.unmount();
}
