//! Datasets by SMB: what may be set, what Samba is told of it, and Samba itself over a mount.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;

use super::mounting::Machine;
use super::smb2::Smb2;
use super::*;

/// Waits until the file that the daemon writes for Samba has all of these lines and none of those.
fn told(file: &Path, lines: &[&str], absent: &[&str]) -> String {
    let given_up = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        let has = |line: &&str| text.lines().any(|told| told.trim() == *line);
        if lines.iter().all(has) && !absent.iter().any(has) {
            return text;
        }
        assert!(Instant::now() < given_up, "{lines:?} and not {absent:?}:\n{text}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_shared_is_written_down_for_samba() {
    let dir = tempfile::tempdir().unwrap();
    let (data_dir, opener) = (dir.path(), Arc::new(MemOpener::default()));
    let file = data_dir.join("smb.conf.new");
    let daemon = Running::start(data_dir, &opener);
    let names = |expected: &[&str]| {
        let (well, text) = tally(data_dir, &["smb", "-H"]);
        let names: Vec<_> =
            text.lines().filter_map(|line| line.split('\t').next()).filter(|name| !name.contains(':')).collect();
        assert!(well && names == expected, "{text}");
    };
    story(
        data_dir,
        &[
            (&["smb"], true, &["nothing is shared by SMB"]),
            (&["dataset", "create", "-p", "tank/docs/old"], true, &[]),
            (&["dataset", "create", "tank/music"], true, &[]),
        ],
    );
    assert!(!file.exists(), "who shares nothing has no file");
    let value = "sharesmb=users=@staff:ann,name=Docs,guest=no";
    story(
        data_dir,
        &[
            (
                &["dataset", "set", value, "tank/docs"],
                true,
                &["nobody finds the share of tank/docs yet: it is not mounted"],
            ),
            (
                &["dataset", "get", "-H", "-o", "value,source", "sharesmb", "tank/docs"],
                true,
                &["name=Docs,users=@staff:ann\tlocal"],
            ),
            (
                &["dataset", "get", "-H", "-o", "value", "sharesmb", "tank/docs/old"],
                true,
                &["name=Docs,users=@staff:ann"],
            ),
            (&["dataset", "set", "sharesmb=on", "tank/music"], true, &["not mounted"]),
        ],
    );
    told(
        &file,
        &["[Docs]", "[Docs_old]", "[tank_music]", "available = no", "valid users = @staff ann"],
        &["available = yes"],
    );
    names(&["Docs", "Docs_old", "tank_music"]);
    // What changes is written again, and what is the same is not.
    story(data_dir, &[(&["dataset", "set", "readonly=on", "tank/music"], true, &[])]);
    told(&file, &["[tank_music]", "read only = yes"], &[]);
    story(data_dir, &[(&["dataset", "rename", "tank/music", "tank/sound"], true, &[])]);
    // Where it is to be it says itself, and is told how it comes there.
    story(data_dir, &[(&["dataset", "set", "mountpoint=/srv/sound", "tank/sound"], true, &[])]);
    told(&file, &["path = /srv/sound"], &["available = yes"]);
    story(
        data_dir,
        &[(&["smb"], true, &["it is not mounted; `tally mount tank/sound` mounts it", "`tally mount tank/docs DIR`"])],
    );
    told(&file, &["[tank_sound]"], &["[tank_music]"]);
    story(data_dir, &[(&["dataset", "set", "sharenfs=10.0.0.0/8(rw)", "tank/sound"], true, &[])]);
    told(&file, &["posix locking = yes"], &[]);
    story(data_dir, &[(&["dataset", "set", "sharenfs=127.0.0.1(rw)", "tank/sound"], true, &[])]);
    told(&file, &[], &["posix locking = yes"]);
    story(
        data_dir,
        &[
            (&["dataset", "inherit", "sharesmb", "tank/docs"], true, &[]),
            (&["dataset", "create", "-o", "sharesmb=on", "tank/new"], true, &["not mounted"]),
            (&["dataset", "destroy", "tank/sound"], true, &[]),
        ],
    );
    told(&file, &["[tank_new]"], &["[Docs]", "[Docs_old]", "[tank_sound]"]);
    // A daemon that is gone serves nothing.
    daemon.stop();
    told(&file, &["[global]"], &["[tank_new]"]);
    let daemon = Running::start(data_dir, &opener);
    told(&file, &["[tank_new]"], &[]);
    daemon.stop();
}

#[test]
fn shares_that_cannot_be_are_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (data_dir, opener) = (dir.path(), Arc::new(MemOpener::default()));
    opener.put("/disks/z", Arc::new(MemDisk::new(32 << 20)));
    let daemon = Running::start(data_dir, &opener);
    let set = |value, dataset| ["dataset", "set", value, dataset];
    story(
        data_dir,
        &[
            (&["dataset", "create", "-p", "tank/a/b"], true, &[]),
            (&["dataset", "create", "tank/c"], true, &[]),
            (&set("sharesmb=name=Docs", "tank/a"), true, &[]),
            (
                &set("sharesmb=name=docs", "tank/c"),
                false,
                &["'tank/c' would be called docs, as that of 'tank/a' is", "name=NAME"],
            ),
            (&set("sharesmb=name=Docs_b", "tank/c"), false, &["as that of 'tank/a/b' is"]),
            (&["dataset", "create", "-o", "sharesmb=name=D ocs", "tank/d"], false, &["would be called D ocs"]),
            (&set("sharesmb=name=tank_c", "tank/a"), true, &[]),
            (&set("sharesmb=on", "tank/c"), false, &["would be called tank_c, as that of 'tank/a' is"]),
            (&set("sharesmb=name=x\n[global]", "tank/c"), false, &["is no value of sharesmb"]),
            (&set("sharesmb=name=x]", "tank/c"), false, &["no share can be called \"x]\""]),
            (&set("sharesmb=name=homes", "tank/c"), false, &["for itself"]),
            (&set("sharesmb=path=/etc", "tank/c"), false, &["`path=/etc` is no option"]),
            (&["dataset", "create", "-o", "sharesmb=users=a b", "tank/d"], false, &["is no user or group"]),
            (&["dataset", "get", "-H", "-o", "value", "sharesmb", "tank/c"], true, &["off"]),
            // Backups of Macs, and others that would change them.
            (&set("sharesmb=off", "tank/a"), true, &[]),
            (&set("sharesmb=timemachine=500G", "tank/c"), true, &[]),
            (
                &set("sharenfs=10.0.0.0/8(rw)", "tank/c"),
                false,
                &["'tank/c' would be for backups of Macs", "sharenfs=off"],
            ),
            (&set("sharenfs=10.0.0.0/8(rw)", "tank"), false, &["'tank/c' would be for backups of Macs"]),
            (&set("sharenfs=127.0.0.1(rw)", "tank/c"), true, &[]),
            (&set("sharenfs=10.0.0.0/8(rw)", "tank"), true, &[]),
            (&set("sharesmb=timemachine=500G", "tank/a"), false, &["'tank/a' would be for backups of Macs"]),
            (
                &["dataset", "create", "-o", "sharesmb=timemachine=1T", "tank/d"],
                false,
                &["'tank/d' would be for backups"],
            ),
            (&["dataset", "create", "-o", "sharesmb=timemachine=1T", "-o", "sharenfs=off", "tank/d"], true, &[]),
            // Names are one over all pools, and what is renamed keeps the name of no other.
            (&["pool", "create", "zoo", "/disks/z"], true, &[]),
            (&set("sharesmb=name=Docs", "zoo"), true, &[]),
            (&set("sharesmb=name=DOCS", "tank/a"), false, &["'tank/a' would be called DOCS, as that of 'zoo' is"]),
            (&set("sharesmb=name=tank_e", "zoo"), true, &[]),
            (&set("sharesmb=on", "tank/a"), true, &[]),
            (&["dataset", "rename", "tank/a", "tank/e"], true, &[]),
            (&["smb"], true, &["the share of tank/e has the same name"]),
            (&set("casesensitivity=sensitive", "tank/c"), true, &[]),
            (&set("casesensitivity=insensitive", "tank/c"), false, &["names are bytes"]),
        ],
    );
    daemon.stop();
}

/// Samba of this machine in a directory of its own, at a port of loopback.
struct Samba {
    dir: tempfile::TempDir,
    port: u16,
    smbd: Child,
}

impl Samba {
    /// With this file included, and a user of the machine with a password.
    fn start(include: &Path, user: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let mut text = format!(
            "[global]\nserver role = standalone server\nmap to guest = Bad User\nsmb ports = {port}\ninterfaces = lo\nbind interfaces only = yes\n\
             disable netbios = yes\nload printers = no\nprintcap name = /dev/null\ndisable spoolss = yes\npassdb backend = tdbsam:{}\nlog file = {}\n",
            at("passdb.tdb"),
            at("log"),
        );
        for word in
            ["private dir", "lock directory", "state directory", "cache directory", "pid directory", "ncalrpc dir"]
        {
            fs::create_dir_all(at(word)).unwrap();
            text.push_str(&format!("{word} = {}\n", at(word)));
        }
        text.push_str(&format!("include = {}\n", include.display()));
        fs::write(at("smb.conf"), text).unwrap();
        let mut password = Command::new("smbpasswd")
            .args(["-c", &at("smb.conf"), "-s", "-a", user])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        password.stdin.take().unwrap().write_all(b"secret\nsecret\n").unwrap();
        assert!(password.wait().unwrap().success());
        let mut smbd = Command::new("/usr/sbin/smbd");
        smbd.args(["-F", "-s", &at("smb.conf")]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let smbd = smbd.spawn().unwrap();
        Self { dir, port, smbd }
    }

    /// What smbclient says to commands in a share.
    fn client(&self, share: &str, who: &str, commands: &str) -> (bool, String) {
        let mut client = Command::new("smbclient");
        client.arg(format!("//127.0.0.1/{share}")).args(["-p", &self.port.to_string(), "-U", who, "-c", commands]);
        client.arg("-s").arg(self.dir.path().join("smb.conf")).stdin(Stdio::null());
        let Output { status, stdout, stderr } = client.output().unwrap();
        (status.success(), String::from_utf8([stdout, stderr].concat()).unwrap())
    }

    /// The same, which goes well once smbd has begun, or has read its configuration.
    fn soon(&self, share: &str, commands: &str) -> String {
        let given_up = Instant::now() + PATIENCE;
        loop {
            match self.client(share, "root%secret", commands) {
                (true, text) => return text,
                (false, text) => assert!(Instant::now() < given_up, "{share}: {commands}: {text}"),
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn reload(&self) {
        let smbd = rustix::process::Pid::from_child(&self.smbd);
        rustix::process::kill_process(smbd, Signal::HUP).unwrap();
    }
}

impl Drop for Samba {
    fn drop(&mut self) {
        // It ends those that it has made for connections.
        let smbd = rustix::process::Pid::from_child(&self.smbd);
        let _ = rustix::process::kill_process(smbd, Signal::TERM);
        let _ = self.smbd.wait();
    }
}

/// Samba takes what the daemon has written, also behind a change.
fn apply(machine: &Machine, lines: &[&str]) -> PathBuf {
    let file = machine.path().join("smb.conf");
    told(&file.with_extension("conf.new"), lines, &[]);
    machine.well(&["smb", "apply", &file.display().to_string()]);
    told(&file, lines, &[]);
    file
}

#[test]
#[ignore = "needs root and Samba; `cargo xtask test` runs it"]
fn samba_serves_a_mount_and_a_flush_is_a_promise() {
    let mut machine = Machine::start();
    machine.well(&["dataset", "set", "sharesmb=name=Docs,users=root", "tank"]);
    let include = apply(&machine, &["[Docs]", "available = no"]);
    let samba = Samba::start(&include, "root");
    // The directory beneath is nobody's to write to.
    let given_up = Instant::now() + PATIENCE;
    loop {
        let (well, text) = samba.client("Docs", "root%secret", "ls");
        assert!(!well && Instant::now() < given_up, "{text}");
        if text.contains("NT_STATUS_BAD_NETWORK_NAME") {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    machine.mount();
    apply(&machine, &["[Docs]", "available = yes"]);
    samba.reload();
    let local = machine.path().join("local");
    fs::write(&local, vec![7; 3 << 20]).unwrap();
    let put = format!(
        "put {} \"a file\"; mkdir made; put {} made/gone; rename \"a file\" kept; rm made/gone; ls",
        local.display(),
        local.display()
    );
    let listed = samba.soon("Docs", &put);
    assert!(listed.contains("kept") && listed.contains("3145728") && !listed.contains("  a file"), "{listed}");
    // What smbclient has put is there for programs and clients, and back by SMB.
    assert!(fs::read(machine.at("kept")).unwrap() == vec![7; 3 << 20] && !machine.at("made/gone").exists());
    let (mut client, root) = machine.client();
    let handle = client.lookup(&root, "kept").unwrap();
    assert_eq!(client.read(&handle, 0, 4).unwrap(), [7; 4]);
    let back = machine.path().join("back");
    samba.soon("Docs", &format!("get kept {}", back.display()));
    assert!(fs::read(&back).unwrap() == vec![7; 3 << 20]);
    // Others have no business there.
    let (well, text) = samba.client("Docs", "%", "ls");
    assert!(!well && text.contains("NT_STATUS_ACCESS_DENIED"), "{text}");

    machine.well(&["dataset", "set", "sharesmb=name=Docs,guest=yes", "tank"]);
    fs::set_permissions(machine.at(""), fs::Permissions::from_mode(0o777)).unwrap();
    apply(&machine, &["[Docs]", "guest ok = yes"]);
    samba.reload();
    samba.soon("Docs", "ls");
    let given_up = Instant::now() + PATIENCE;
    while !matches!(samba.client("Docs", "%", "ls"), (true, _)) {
        assert!(Instant::now() < given_up, "nobody is let in");
        thread::sleep(Duration::from_millis(50));
    }
    for round in 0..3 {
        let closed = format!("closed{round}");
        samba.soon("Docs", &format!("put {} {closed}", local.display()));
        // It stays open, and nothing but the flush says that it is to be kept.
        let mut open = Smb2::connect(SocketAddr::from(([127, 0, 0, 1], samba.port)), "Docs");
        let name = format!("flushed{round}");
        let file = open.create(&name);
        let content = vec![round + 1; 30_000 * (usize::from(round) + 1) / 2];
        open.write(&file, &content);
        open.flush(&file);
        machine.kill();
        drop(open);
        machine.unmount();
        machine.start_daemon();
        machine.mount();
        assert!(fs::read(machine.at(&name)).unwrap() == content, "round {round}: it was flushed");
        assert!(fs::read(machine.at(&closed)).unwrap() == vec![7; 3 << 20], "round {round}: it was closed");
        apply(&machine, &["[Docs]", "available = yes"]);
        samba.reload();
        samba.soon("Docs", "get kept /dev/null");
    }

    // What Samba's own program refuses is not taken, and what it had stays.
    fs::write(include.with_extension("conf.new"), "[Docs]\n\tguest ok = perhaps\n").unwrap();
    let (well, text) = machine.says(&["smb", "apply", &include.display().to_string()]);
    assert!(!well && text.contains("testparm refuses the shares") && text.contains("perhaps"), "{text}");
    told(&include, &["available = yes"], &[]);
    assert!(include.with_extension("conf.refused").exists());
    drop(samba);
    machine.unmount();
}
