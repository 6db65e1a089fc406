//! Whose a mount is: pools that somebody else has made, datasets of two pools in one directory, mounts that no way leads to any more, and directories that are a name.

use std::sync::Arc;
use std::time::Instant;

use tally_fakes::{MemDisk, MemOpener};

use super::super::PATIENCE;
use super::super::running::{Running, story};
use super::*;

impl Machine {
    /// Another pool, in a file.
    fn makes(&self, pool: &str, mountpoint: &Path) -> PathBuf {
        let (disk, mountpoint) = (self.place(&format!("{pool}.disk")), mountpoint.display().to_string());
        let disk_word = disk.display().to_string();
        self.well(&["pool", "create", "--file-size", "64M", "-m", &mountpoint, pool, &disk_word]);
        disk
    }

    fn health(&self, check: &str) -> String {
        let told = self.says(&["doctor"]).1;
        told.lines().filter(|line| line.split_whitespace().nth(1) == Some(check)).collect::<Vec<_>>().join("\n")
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// It said where it is mounted and what it shares, and behind the next start that was so: in directories that root's programs read, and under the names of shares.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn a_pool_of_somebody_else_is_not_mounted_or_shared_by_itself() {
    let (theirs, mut ours) = (Machine::start(), Machine::start());
    let _alone = DEAD.lock();
    let place = ours.place("srv/alien");
    theirs.makes("alien", &place);
    theirs.well(&["dataset", "create", "-o", "sharesmb=name=Docs", "alien/docs"]);
    theirs.well(&["dataset", "create", "-o", "canmount=off", "alien/off"]);
    theirs.well(&["pool", "export", "alien"]);
    ours.well(&["dataset", "create", "tank/docs"]);
    let dir = theirs.path().canonicalize().unwrap();
    let told = ours.well(&["pool", "import", "-d", &text(&dir), "alien"]);
    let (at, docs) = (text(&place), text(&place.join("docs")));
    let brings = format!("mountpoints: alien on {at}, alien/docs on {docs}; shares: Docs of alien/docs on {docs}. ");
    assert!(told.contains(&brings) && told.contains("`tally pool set mountpoints=accept alien`"), "{told}");
    // Neither now, nor by the command that asks for one of them, nor behind a restart.
    for is_restarted in [false, true] {
        if is_restarted {
            ours.kill();
            ours.start_daemon();
        }
        for words in [&["mount", "-a"][..], &["mount", "alien/docs"]] {
            let told = ours.refuses(words);
            assert!(told.contains("this machine has not accepted where 'alien' is mounted"), "{words:?}: {told}");
            assert!(told.contains(&format!("alien/docs on {docs}")) && told.contains("mountpoints=accept"), "{told}");
        }
        assert!(!ours.place("srv").exists(), "nothing is made");
        assert_eq!(ours.well(&["pool", "get", "-H", "-o", "value", "mountpoints"]), "ignore\naccept\n");
        let told = ours.health("mount");
        assert!(told.contains("WARN  mount      this machine has not accepted where 'alien' is mounted"), "{told}");
        let told = ours.well(&["smb"]);
        assert!(told.contains("not shared: this machine has not accepted what 'alien' shares"), "{told}");
        assert!(ours.health("smb").contains("alien/docs is not shared: this machine has not accepted"));
    }
    // On a directory that root names it is mounted, and not shared for that; its shares have no name.
    let by_hand = ours.place("by hand");
    ours.well(&["mount", "alien/docs", &text(&by_hand)]);
    ours.well(&["dataset", "set", "sharesmb=name=Docs", "tank/docs"]);
    let told = ours.well(&["dataset", "set", "sharesmb=name=Others", "alien/docs"]);
    assert!(told.contains("sharesmb does nothing by itself"), "{told}");
    let shares = ours.path().join("smb.conf.new");
    let has_ours = || fs::read_to_string(&shares).is_ok_and(|text| text.contains("[Docs]"));
    let given_up = Instant::now() + PATIENCE;
    while !has_ours() {
        assert!(Instant::now() < given_up, "tank/docs is shared");
        std::thread::yield_now();
    }
    let told = fs::read_to_string(&shares).unwrap();
    assert!(!told.contains("alien") && !told.contains("[Others]") && !told.contains(&text(&by_hand)), "{told}");
    ours.well(&["unmount", &text(&by_hand)]);

    // Once it is accepted it is as one of our own, also when it comes again.
    let told = ours.well(&["pool", "set", "mountpoints=accept", "alien"]);
    assert!(told.contains(&format!("note: of 'alien' hold from now on: mountpoints: alien on {at}")), "{told}");
    let both = [place.clone(), place.join("docs")];
    for is_imported in [false, true] {
        if is_imported {
            ours.well(&["pool", "export", "alien"]);
            let told = ours.well(&["pool", "import", "-d", &text(&dir), "alien"]);
            assert!(!told.contains("accepted"), "{told}");
            ours.kill();
            ours.well(&["unmount", "-a"]);
            ours.start_daemon();
        }
        ours.well(&["mount", "-a"]);
        assert_eq!(mounted_below(&ours.place("srv")), both);
    }
    assert!(ours.well(&["smb"]).contains("Others"));
    ours.well(&["pool", "export", "alien"]);
    ours.well(&["pool", "import", "-d", &text(&dir), "alien"]);
    ours.well(&["pool", "set", "mountpoints=ignore", "alien"]);
    ours.refuses(&["mount", "-a"]);
    ours.well(&["pool", "export", "alien"]);
    let told = ours.well(&["pool", "import", "--accept-mountpoints", "-d", &text(&dir), "alien"]);
    assert!(told.contains("hold from now on"), "{told}");
    ours.well(&["mount", "-a"]);
    assert_eq!(mounted_below(&ours.place("srv")), both);
    ours.well(&["unmount", "-a"]);
}

/// What was on the path was looked at, and not whose it was: the other pool's dataset was unmounted.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn of_two_datasets_in_one_directory_each_is_its_own_pools() {
    let machine = Machine::start();
    let _alone = DEAD.lock();
    let dir = machine.place("srv");
    machine.makes("dozer", &dir);
    machine.well(&["dataset", "create", "tank/home"]);
    machine.well(&["mount", "tank/home", &text(&dir)]);
    machine.well(&["mount", "-O", "dozer", &text(&dir)]);
    fs::write(dir.join("file"), "of dozer").unwrap();
    for words in [&["pool", "export", "tank"][..], &["dataset", "destroy", "tank/home"], &["pool", "destroy", "tank"]] {
        let told = machine.refuses(words);
        assert!(told.contains(&format!("dozer is mounted over what is mounted of it on {}", text(&dir))), "{told}");
        assert_eq!(fs::read(dir.join("file")).unwrap(), b"of dozer", "{words:?}");
    }
    let told = machine.well(&["pool", "export", "dozer"]);
    assert_eq!(told.matches("unmounted ").count(), 1, "{told}");
    fs::write(dir.join("file"), "of tank").unwrap();
    // Whatever the directories above it are called by now.
    let (old, new) = (machine.place("old"), machine.place("new"));
    machine.well(&["mount", "tank", &text(&old.join("there"))]);
    fs::rename(&old, &new).unwrap();
    let told = machine.well(&["dataset", "destroy", "tank/home"]);
    assert!(told.is_empty() || told.contains("unmounted"), "{told}");
    let told = machine.well(&["pool", "export", "tank"]);
    assert!(told.contains(&format!("unmounted {}", text(&new.join("there")))), "{told}");
    assert_eq!(mounted_below(machine.path()), Vec::<PathBuf>::new());
}

/// It was taken for mounted, so that nothing mounted it anew, and what lay beneath was shared.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn what_was_detached_is_not_mounted_though_it_is_used() {
    let machine = Machine::with_homes();
    let _alone = DEAD.lock();
    let (all, home) = (machine.place("srv/all"), machine.place("srv/all/home"));
    machine.well(&["dataset", "set", "sharesmb=name=Docs", "tank/home"]);
    machine.well(&["mount", "-a"]);
    fs::write(home.join("file"), "kept").unwrap();
    let shares = machine.path().join("smb.conf.new");
    let is_available = |word: &str| {
        let of_docs = |text: &str| text.split("\n[").find(|section| section.starts_with("Docs]")).map(str::to_owned);
        fs::read_to_string(&shares).ok().and_then(|text| of_docs(&text)).is_some_and(|docs| docs.contains(word))
    };
    let soon = |word: &str| {
        let given_up = Instant::now() + PATIENCE;
        while !is_available(word) {
            assert!(Instant::now() < given_up, "{word}: {:?}", fs::read_to_string(&shares));
            std::thread::yield_now();
        }
    };
    soon("available = yes");
    let mut program = Command::new("cat").stdin(Stdio::piped()).current_dir(&home).spawn().unwrap();
    machine.well(&["unmount", &text(&home.join("ann"))]);
    machine.well(&["dataset", "set", "readonly=on", "tank/home"]);
    soon("read only = yes");
    rustix::mount::unmount(&home, UnmountFlags::DETACH).unwrap();
    let mounted = |machine: &Machine| machine.well(&["dataset", "get", "-H", "-o", "value", "mounted", "tank/home"]);
    assert_eq!(mounted(&machine), "no\n");
    let told = machine.health("mount");
    assert!(told.contains(&format!("tank/home has mountpoint={}, and is not mounted", text(&home))), "{told}");
    // Nobody has to change anything for that.
    soon("available = no");
    let told = machine.refuses(&["pool", "export", "tank"]);
    assert!(told.contains(&format!("{} (cat) is in it", program.id())), "{told}");
    assert!(all.join("home").exists() && mounted_below(machine.path()).contains(&all), "it stays as it is: {told}");
    machine.well(&["mount", "-a"]);
    assert_eq!((mounted(&machine), fs::read(home.join("file")).unwrap()), ("yes\n".into(), b"kept".to_vec()));
    soon("available = yes");
    drop(program.stdin.take());
    program.wait().unwrap();
    machine.well(&["unmount", "-a"]);
    machine.well(&["pool", "export", "tank"]);
}

/// The directory went with the name, and the kernel took the mount away from there, with those in it.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn a_dataset_that_is_mounted_on_its_own_name_keeps_it() {
    let machine = Machine::with_homes();
    let _alone = DEAD.lock();
    let home = machine.place("srv/all/home");
    machine.well(&["mount", "-a"]);
    fs::write(home.join("ann/file"), "of ann").unwrap();
    let before = mounted_below(machine.path());
    let told = machine.refuses(&["dataset", "rename", "tank/home", "tank/people"]);
    assert!(told.contains(&format!("`tally unmount {}` first", text(&home))), "{told}");
    assert_eq!((mounted_below(machine.path()), fs::read(home.join("ann/file")).unwrap()), (before, b"of ann".to_vec()));
    machine.well(&["unmount", &text(&home.join("ann"))]);
    machine.well(&["unmount", &text(&home)]);
    machine.well(&["dataset", "rename", "tank/home", "tank/people"]);
    machine.well(&["mount", "-a"]);
    assert_eq!(fs::read(machine.place("srv/all/people/ann/file")).unwrap(), b"of ann");
    // One that is mounted elsewhere has its name for itself.
    machine.well(&["unmount", &text(&machine.place("srv/all/people/ann"))]);
    let elsewhere = machine.place("elsewhere");
    machine.well(&["mount", "tank/people/ann", &text(&elsewhere)]);
    machine.well(&["dataset", "rename", "tank/people/ann", "tank/people/bob"]);
    assert_eq!(fs::read(elsewhere.join("file")).unwrap(), b"of ann");
    machine.well(&["unmount", "-a"]);
}

/// Whoever looks into the log finds why something is not where its pool says.
#[test]
fn a_start_says_what_it_does_not_mount() {
    let (theirs, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let opener = Arc::new(MemOpener::default());
    opener.put("/disks/a", Arc::new(MemDisk::new(32 << 20)));
    let first = Running::start(theirs.path(), &opener);
    let made = ["pool", "create", "-m", "/srv/alien", "alien", "/disks/a"];
    story(theirs.path(), &[(&made, true, &[]), (&["pool", "export", "alien"], true, &[])]);
    first.stop();
    let second = Running::start(ours.path(), &opener);
    let told = "this machine has not accepted where 'alien' is mounted";
    story(ours.path(), &[(&["pool", "import", "-d", "/disks", "alien"], true, &[told, "alien on /srv/alien"])]);
    second.stop();
    let third = Running::start(ours.path(), &opener);
    assert!(third.said.iter().any(|line| line.contains(told)), "{:?}", third.said);
    story(
        ours.path(),
        &[
            (&["mount", "-a"], false, &[told]),
            (&["pool", "set", "mountpoints=perhaps", "alien"], false, &["mountpoints=accept|ignore"]),
            (&["pool", "set", "mountpoints=accept", "alien"], true, &["hold from now on: mountpoints: alien on"]),
            (&["pool", "history", "alien"], true, &["pool set mountpoints=accept alien"]),
        ],
    );
    third.stop();
    let fourth = Running::start(ours.path(), &opener);
    assert!(!fourth.said.iter().any(|line| line.contains("accepted")), "{:?}", fourth.said);
    fourth.stop();
}
