//! Where datasets say that they are mounted, by the real program and the real kernel: all of them by one command, by mount(8)'s names, and what is left of a daemon that is gone.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process};

use super::mounting::{DEAD, Machine, mounted_below, raw};

#[path = "mountpoints/whose.rs"]
mod whose;

impl Machine {
    /// A directory of its own, that is not there yet.
    fn place(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// Datasets that say where they are.
    fn with_homes() -> Self {
        let machine = Self::start();
        let at = |name: &str| format!("mountpoint={}", machine.place(name).display());
        machine.well(&["dataset", "set", &at("srv/all"), "tank"]);
        machine.well(&["dataset", "create", "-p", "tank/home/ann"]);
        machine
    }

    fn refuses(&self, words: &[&str]) -> String {
        let (well, text) = self.says(words);
        assert!(!well, "{words:?}: {text}");
        text
    }

    /// The program by another name, as mount(8) and umount(8) call it.
    fn by_name(&self, name: &str, words: &[&str]) -> Output {
        let link = self.dir.path().join(name);
        if !link.exists() {
            symlink(env!("CARGO_BIN_EXE_tally"), &link).unwrap();
        }
        let mut command = Command::new(link);
        command.args(words).env("TALLY_SOCKET", self.dir.path().join("tally.sock")).stdin(Stdio::null());
        command.output().unwrap()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn datasets_are_mounted_where_they_say() {
    let machine = Machine::with_homes();
    let _alone = DEAD.lock();
    let (all, text) = (machine.place("srv/all"), |path: &Path| path.display().to_string());
    let at = |name: &str| format!("mountpoint={}", text(&machine.place(name)));
    machine.well(&["dataset", "create", "-o", "canmount=off", "-o", &at("off"), "tank/off"]);
    machine.well(&["dataset", "create", "tank/off/below"]);
    machine.well(&["dataset", "create", "-o", "canmount=noauto", "tank/later"]);
    machine.well(&["dataset", "create", "-o", "mountpoint=legacy", "tank/legacy"]);
    machine.well(&["dataset", "create", "-o", "mountpoint=none", "tank/none"]);
    // One that cannot be, and one in it.
    machine.well(&["dataset", "create", "-o", &at("full"), "tank/full"]);
    machine.well(&["dataset", "create", "tank/full/below"]);
    fs::create_dir(machine.place("full")).unwrap();
    fs::write(machine.place("full/file"), "in sight").unwrap();
    // One that would be in another one, where there is no such directory.
    machine.well(&["dataset", "create", "-o", &at("srv/all/inside"), "tank/elsewhere"]);

    let told = machine.refuses(&["mount", "-a"]);
    let (full, inside) = (text(&machine.place("full")), text(&all.join("inside")));
    for expected in [
        format!("{full} is not empty"),
        format!("tank/full/below is not mounted on {full}/below, which is in tank/full on {full}"),
        format!("there is no {inside}, which would be in tank on {}", text(&all)),
    ] {
        assert!(told.contains(&expected), "{expected}: {told}");
    }
    let expected = [machine.place("off/below"), all.clone(), all.join("home"), all.join("home/ann")];
    assert_eq!(mounted_below(machine.dir.path()), expected);
    // Each is its own, and its file is there by each name of it.
    fs::write(all.join("home/ann/file"), "of ann").unwrap();
    let shown = machine.well(&["dataset", "get", "-H", "-o", "name,value", "mounted", "tank/home", "tank/later"]);
    assert_eq!(shown, "tank/home\tyes\ntank/later\tno\n");
    let shown = machine.well(&["dataset", "list", "-H", "-o", "mountpoint", "tank/home/ann", "tank/none"]);
    assert_eq!(shown, format!("{}\n-\n", text(&all.join("home/ann"))));

    // What is mounted is so already; what was in the way is covered, or made.
    fs::create_dir(all.join("inside")).unwrap();
    machine.well(&["mount", "-a", "-O"]);
    machine.well(&["mount", "-a"]);
    assert_eq!(mounted_below(machine.dir.path()).len(), expected.len() + 3);
    assert!(!machine.place("full/file").exists(), "it is covered");
    // One by one.
    assert!(machine.refuses(&["mount", "tank/home"]).contains("is mounted on"));
    assert!(machine.refuses(&["mount", "tank/off"]).contains("canmount=off"));
    assert!(machine.refuses(&["mount", "tank/legacy"]).contains("/etc/fstab"));
    assert!(machine.refuses(&["mount", "tank/none"]).contains("has no mountpoint"));
    assert!(machine.refuses(&["mount", "tank/none", &text(&all)]).contains("tank is mounted on"));
    machine.well(&["mount", "tank/later"]);
    assert!(mounted_below(machine.dir.path()).contains(&all.join("later")));
    machine.well(&["unmount", "tank/later"]);
    assert!(!mounted_below(machine.dir.path()).contains(&all.join("later")));
    // Another place is one for the next time.
    let told = machine.well(&["dataset", "set", &at("new"), "tank/home"]);
    assert!(told.contains(&format!("tank/home on {} (and 1 more)", text(&all.join("home")))), "{told}");

    // What is in use stays, and all else goes.
    let open = File::open(all.join("home/ann/file")).unwrap();
    let told = machine.refuses(&["unmount", "-a"]);
    assert!(told.contains(&format!("{} (", std::process::id())), "{told}");
    assert_eq!(mounted_below(machine.dir.path()), expected[1..]);
    drop(open);
    machine.well(&["unmount", "-a"]);
    assert_eq!(mounted_below(machine.dir.path()), Vec::<PathBuf>::new());
    // What was made beneath is nobody's to write to.
    assert_eq!((mode(&all), mode(&machine.place("srv"))), (0o555, 0o755));
    assert_eq!(fs::read_dir(&all).unwrap().count(), 0, "what was made is in the dataset");
    machine.refuses(&["mount", "-a"]);
    assert_eq!(fs::read(machine.place("new/ann/file")).unwrap(), b"of ann");
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn what_is_left_of_a_daemon_is_told_and_mended() {
    let mut machine = Machine::with_homes();
    let _alone = DEAD.lock();
    let by_hand = machine.place("by hand");
    machine.well(&["mount", "-a"]);
    machine.well(&["dataset", "create", "-o", "mountpoint=none", "tank/hand"]);
    machine.well(&["mount", "tank/hand", &by_hand.display().to_string()]);
    fs::write(machine.place("srv/all/home/file"), "closed").unwrap();
    machine.kill();
    machine.start_daemon();
    let error = fs::metadata(machine.place("srv/all/home/file")).unwrap_err();
    assert_eq!(raw(&error), Some(Errno::NOTCONN), "{error}");
    let mends = format!("`tally mount tank/hand {}` mounts it anew", by_hand.display());
    let told = machine.well(&["pool", "status"]);
    assert!(told.contains("note: tank/hand on ") && told.contains(&mends), "{told}");
    let (_, told) = machine.says(&["doctor"]);
    assert!(told.contains("FAIL  mount      tank/hand on ") && told.contains(&mends), "{told}");
    assert!(told.contains("WARN  mount      tank/home has mountpoint="), "{told}");
    // Those that say where they are, and no others.
    let told = machine.well(&["mount", "-a"]);
    assert!(told.contains("no daemon served it any more") && !told.contains("tank/hand"), "{told}");
    assert_eq!(fs::read(machine.place("srv/all/home/file")).unwrap(), b"closed");
    let (_, told) = machine.says(&["doctor"]);
    assert!(!told.contains("tank/home has mountpoint=") && told.contains("tank/hand"), "{told}");
    machine.kill();
    // Without a daemon all of it goes.
    let told = machine.well(&["unmount", "-a"]);
    assert!(told.contains("no daemon served"), "{told}");
    assert_eq!(mounted_below(machine.dir.path()), Vec::<PathBuf>::new());
}

/// A daemon that does not answer is what the word is there for: nothing is asked of it.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn what_hangs_is_taken_away_at_once() {
    let machine = Machine::with_homes();
    let all = machine.place("srv/all");
    machine.well(&["mount", "-a"]);
    // Of another process: each one that is begun from here would close it as well, which is said to the daemon.
    let open = File::create(all.join("home/open")).unwrap();
    let mut program = Command::new("cat").stdin(Stdio::piped()).stdout(open).spawn().unwrap();
    let daemon = Pid::from_raw(machine.daemon.as_ref().unwrap().id().try_into().unwrap()).unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_tally"), "--socket"]).arg(machine.dir.path().join("tally.sock"));
    let status = command.args(["unmount", "-l"]).arg(&all).status().unwrap();
    kill_process(daemon, Signal::CONT).unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(mounted_below(machine.dir.path()), Vec::<PathBuf>::new(), "what was in it has gone along");
    // Who has it open has it still.
    program.stdin.take().unwrap().write_all(b"behind that").unwrap();
    assert!(program.wait().unwrap().success());
    machine.well(&["mount", "-a"]);
    assert_eq!(fs::read(all.join("home/open")).unwrap(), b"behind that");
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn mount_and_umount_call_it_by_their_names() {
    let mut machine = Machine::start();
    machine.well(&["dataset", "create", "-o", "sync=disabled", "tank/home"]);
    let dir = machine.place("mnt").display().to_string();
    let file = machine.place("mnt").join("file");
    let mounts = |machine: &Machine, options: &str| {
        machine.by_name("mount.tally", &["tank/home", &dir, "-n", "-o", options, "-t", "tally"])
    };
    let systemd = "rw,noexec,_netdev,nofail,x-systemd.requires=tally.service";
    let output = mounts(&machine, systemd);
    assert!(output.status.success(), "{output:?}");
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table.lines().find(|line| line.starts_with(&format!("tank/home {dir} "))).unwrap();
    assert!(line.contains(" fuse.tally rw,nosuid,nodev,noexec,"), "{line}");
    // Nothing here was waited for: what brings it to the disks is the unmount.
    fs::write(&file, "kept").unwrap();
    let output = machine.by_name("umount.fuse.tally", &[&dir, "-n"]);
    assert!(output.status.success() && mounted_below(machine.dir.path()).is_empty(), "{output:?}");
    machine.kill();
    machine.start_daemon();
    // To read alone, and again to write.
    let output = mounts(&machine, "ro");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read(&file).unwrap(), b"kept");
    assert_eq!(raw(&fs::write(&file, "lost").unwrap_err()), Some(Errno::ROFS));
    let output = mounts(&machine, "remount,rw");
    assert!(output.status.success(), "{output:?}");
    fs::write(&file, "changed").unwrap();
    // What is in use is not unmounted, but at once; what is not there is said.
    let open = File::open(&file).unwrap();
    let output = machine.by_name("umount.fuse.tally", &[&dir]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("has a file of it open"), "{output:?}");
    let output = machine.by_name("umount.fuse.tally", &[&dir, "-l"]);
    assert!(output.status.success() && mounted_below(machine.dir.path()).is_empty(), "{output:?}");
    drop(open);
    for (words, expected) in [
        (&["tank/none", &*dir][..], "tank/none"),
        (&["tank/home", "/nowhere/at/all"], "cannot mount on /nowhere/at/all"),
        (&["tank/home", &*dir, "-o", "colour=red"], "colour=red"),
    ] {
        let output = machine.by_name("mount.tally", words);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(expected), "{told}");
    }
    assert!(!Path::new("/nowhere").exists(), "mount(8) makes nothing, and nor does this");
    // Over what is there, as any other file system.
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&file, "beneath").unwrap();
    let output = mounts(&machine, "defaults");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read(&file).unwrap(), b"changed");
}

/// As a container has one that was begun while something was mounted.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn a_copy_of_a_mount_is_told_of() {
    let machine = Machine::with_homes();
    machine.well(&["mount", "-a"]);
    let (ann, copy) = (machine.place("srv/all/home/ann"), machine.place("copy"));
    fs::create_dir(&copy).unwrap();
    rustix::mount::mount_bind(&ann, &copy).unwrap();
    let dir = ann.display().to_string();
    let told = machine.well(&["unmount", &dir]);
    assert!(told.contains(&format!("{dir} is unmounted here, and still served")), "{told}");
    assert!(machine.well(&["mount", "-H"]).contains("tank/home/ann\t"), "it is in the list");
    rustix::mount::unmount(&copy, UnmountFlags::empty()).unwrap();
    let told = machine.well(&["unmount", &machine.place("srv/all/home").display().to_string()]);
    assert!(!told.contains("still served"), "{told}");
}

/// Who may rename a directory above a mountpoint, or put a link there, would have his files wherever he likes; and what somebody has mounted over one of ours is his.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn what_others_decide_is_not_mounted_on() {
    const NOBODY: u32 = 65534;
    let machine = Machine::start();
    let _alone = DEAD.lock();
    let (theirs, shared) = (machine.place("theirs"), machine.place("shared"));
    for dir in [&theirs, &shared] {
        fs::create_dir(dir).unwrap();
    }
    std::os::unix::fs::chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    symlink(machine.place("ours"), shared.join("link")).unwrap();
    std::os::unix::fs::lchown(shared.join("link"), Some(NOBODY), Some(NOBODY)).unwrap();
    symlink(machine.place("ours"), machine.place("link")).unwrap();
    let set = |place: &Path| machine.well(&["dataset", "set", &format!("mountpoint={}", place.display()), "tank"]);
    for refused in [theirs.join("docs"), theirs.join("there/docs"), shared.join("link/docs"), shared.join("link")] {
        set(&refused);
        for words in [&["mount", "-a"][..], &["mount", "tank"]] {
            let told = machine.refuses(words);
            assert!(told.contains("others than root decide"), "{}: {told}", refused.display());
        }
        assert_eq!(mounted_below(machine.dir.path()), Vec::<PathBuf>::new());
    }
    // A link of root's is as good as what it leads to, and who names a directory himself has it.
    fs::create_dir(machine.place("ours")).unwrap();
    set(&machine.place("link/docs"));
    machine.well(&["mount", "-a"]);
    let docs = machine.place("ours/docs");
    assert_eq!((mounted_below(machine.dir.path()), mode(&docs)), (vec![docs.clone()], 0o755));

    rustix::mount::mount("none", &docs, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
    fs::write(docs.join("his"), "his").unwrap();
    let told = machine.refuses(&["unmount", "-a"]);
    assert!(told.contains("is mounted over it"), "{told}");
    assert_eq!(fs::read(docs.join("his")).unwrap(), b"his");
    rustix::mount::unmount(&docs, UnmountFlags::empty()).unwrap();
    machine.well(&["unmount", "-a"]);
    assert_eq!(mode(&docs), 0o555, "nobody writes beneath");
    let by_hand = theirs.join("docs").display().to_string();
    machine.well(&["mount", "tank", &by_hand]);
    machine.well(&["unmount", &by_hand]);
}
