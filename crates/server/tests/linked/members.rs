//! Disks that fail, are copied, replaced, and leave, while the daemon runs.

use super::*;

/// Disks of 32 MiB at paths of these names.
fn failing<const N: usize>(data_dir: &Path, opener: &MemOpener, names: [&str; N]) -> [Arc<Failing>; N] {
    names.map(|name| {
        let disk = Failing::new(32 << 20);
        opener.put(data_dir.join(name), Arc::clone(&disk) as Arc<dyn Disk>);
        disk
    })
}

/// A disk is taken out of use and back, and one that failed comes back: both get what they have missed.
#[test]
fn disks_that_are_away_for_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let here = data_dir.display().to_string();
    let opener = Arc::new(MemOpener::default());
    let disks = failing(data_dir, &opener, ["a", "b"]);
    let daemon = Running::start(data_dir, &opener);
    let import = ["pool", "import", "-d", &here, "dozer"];
    story(
        data_dir,
        &[
            (&["pool", "create", "dozer", "mirror", "a", "b"], true, &[]),
            (&["pool", "online", "dozer", "b"], false, &["in use already"]),
            (&["pool", "offline", "dozer", "b"], true, &["b of 'dozer' is offline", "tally pool online"]),
            // By the path that was given, and with what to do.
            (
                &["pool", "offline", "dozer", "a"],
                false,
                &["a is the only one of its vdev that has everything", "`tally pool online`"],
            ),
            (&["dataset", "create", "dozer/x"], true, &[]),
            (&["pool", "status", "dozer"], true, &["state: DEGRADED", "OFFLINE", "was taken out of use"]),
            (&["pool", "export", "dozer"], true, &[]),
            (&import, true, &[]),
            (&["pool", "status", "dozer"], true, &["OFFLINE"]),
            (&["pool", "online", "dozer", "b"], true, &["b of 'dozer' is online"]),
            (&["pool", "status", "dozer"], true, &["state: ONLINE", "  scan: resilvered"]),
            (&["pool", "offline", "-t", "dozer", "b"], true, &[]),
            (&["pool", "export", "dozer"], true, &[]),
            (&import, true, &[]),
            (&["pool", "status", "dozer"], true, &["STALE", "has missed changes", "tally pool online"]),
            (&["pool", "online", "dozer", "b"], true, &["is online"]),
        ],
    );
    disks[1].fails.store(true, Ordering::SeqCst);
    story(
        data_dir,
        &[
            (&["dataset", "create", "dozer/y"], true, &[]),
            (&["pool", "status", "dozer"], true, &["FAULTED"]),
            (&["pool", "online", "dozer", "b"], false, &["cannot"]),
        ],
    );
    disks[1].fails.store(false, Ordering::SeqCst);
    story(
        data_dir,
        &[
            (&["pool", "online", "dozer", "b"], true, &["is online"]),
            (&["pool", "scrub", "-w", "dozer"], true, &["scrub repaired 0 blocks", "with 0 errors"]),
            (&["pool", "export", "dozer"], true, &[]),
        ],
    );
    opener.remove(&data_dir.join("a")).unwrap();
    story(data_dir, &[(&import, true, &[]), (&["dataset", "list"], true, &["dozer/x", "dozer/y"])]);
    daemon.stop();
}

#[test]
fn disks_that_fail_while_the_daemon_runs() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let here = data_dir.display().to_string();
    let opener = Arc::new(MemOpener::default());
    let disks = failing(data_dir, &opener, ["a", "l", "m"]);
    let fail = |index: usize, on: bool| disks[index].fails.store(on, Ordering::SeqCst);

    let daemon = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "create", "dozer", "a", "log", "l"], true, &[])]);
    // The log device first: the pool goes on, and takes another one.
    fail(1, true);
    story(
        data_dir,
        &[
            (&["dataset", "create", "dozer/x"], true, &[]),
            (&["pool", "status", "dozer"], true, &["state: DEGRADED", "FAULTED"]),
            // The old one refuses to be erased, and whoever wants to use it again has to know.
            (
                &["pool", "replace", "dozer", "l", "m"],
                true,
                &["was replaced", "label is not erased", "an earlier", "-f"],
            ),
            (&["pool", "status", "dozer"], true, &["state: ONLINE"]),
        ],
    );
    // Then the only data disk: it is suspended, can be let go, and is well when the disk is.
    fail(0, true);
    let import = ["pool", "import", "-d", &here, "dozer"];
    story(
        data_dir,
        &[
            (&["dataset", "create", "dozer/y"], false, &[]),
            (&["pool", "status", "dozer"], true, &["state: SUSPENDED", "tally pool clear dozer"]),
            (&["pool", "set", "failmode=continue", "dozer"], false, &["suspended"]),
            (&["pool", "export", "dozer"], false, &[]),
            (&import, false, &["no usable leg", "MISSING"]),
        ],
    );
    fail(0, false);
    story(
        data_dir,
        &[
            (&import, true, &["imported pool 'dozer'"]),
            (&["dataset", "create", "dozer/z"], true, &[]),
            (&["pool", "status", "dozer"], true, &["state: ONLINE"]),
        ],
    );
    daemon.stop();
}

/// A disk began to fail, and its owner did the right thing: he replaced it. The copy skipped a MiB around each sector
/// that could not be read, `replace` said that all was well, and erased the disk that could still be read but for that
/// sector.
#[test]
fn a_disk_with_a_bad_sector_stays_until_its_owner_says_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let here = data_dir.display().to_string();
    let opener = Arc::new(MemOpener::default());
    opener.put(data_dir.join("b"), Failing::new(32 << 20) as Arc<dyn Disk>);
    let (daemon, disk, target) = serving(data_dir, &opener, &[]);
    let noise = fill(&target, 4);
    story(data_dir, &[(&["dataset", "create", "dozer/x"], true, &[])]);
    // In free space, far from everything, it is asked by nobody.
    disk.bad_sectors.lock().unwrap().insert((24 << 20) + 40960);
    let bad = disk.spoil(&noise[..4096]);
    let (place, old) = (format!("{bad}"), data_dir.join("a").display().to_string());
    story(
        data_dir,
        &[
            (&["pool", "replace", "dozer", "a", "b"], false, &["4096", &place, &old, "stay", "pool detach"]),
            (&["pool", "status", "dozer"], true, &["mirror-0", &old, "could not be read", &place]),
            (&["pool", "export", "dozer"], true, &[]),
            (&["pool", "import", "-d", &here, "dozer"], true, &["imported"]),
            (&["pool", "status", "dozer"], true, &["state: ONLINE", "mirror-0", &old]),
            (&["pool", "detach", "dozer", "a"], false, &["right on no disk that stays", "pool detach -f"]),
        ],
    );
    // It is read after all: every block is on the other disk, and this one may go.
    disk.bad_sectors.lock().unwrap().remove(&bad);
    story(
        data_dir,
        &[(&["pool", "detach", "dozer", "a"], true, &["no longer part"]), (&["pool", "export", "dozer"], true, &[])],
    );
    opener.remove(&data_dir.join("a"));
    story(
        data_dir,
        &[
            (&["pool", "import", "-d", &here, "dozer"], true, &["imported"]),
            (&["dataset", "list"], true, &["dozer/x"]),
            (&["pool", "status", "dozer"], true, &["state: ONLINE"]),
        ],
    );
    daemon.stop();
}

/// A scrub finds what has rotted where nobody reads, repairs it from the other disk, and says so; where there is no other
/// it names the file. It keeps nobody from an export, and is refused where it can do nothing.
#[test]
fn a_scrub_repairs_what_it_can_and_names_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let here = data_dir.display().to_string();
    let opener = Arc::new(MemOpener::default());
    let disks = failing(data_dir, &opener, ["a", "b", "c"]);
    let daemon = Running::start(data_dir, &opener);
    let import = ["pool", "import", "-d", &here, "dozer"];
    story(
        data_dir,
        &[
            (&["pool", "create", "dozer", "mirror", "a", "b"], true, &[]),
            (&["pool", "create", "lone", "c"], true, &[]),
            (&["dataset", "create", "dozer/x"], true, &[]),
            (&["pool", "export", "dozer"], true, &[]),
        ],
    );
    disks[0].used_sectors().into_iter().for_each(|at| disks[0].rot(at));
    story(
        data_dir,
        &[
            (&import, true, &[]),
            (&["pool", "scrub", "-s", "dozer"], false, &["no scrub of pool 'dozer' is under way"]),
            (&["pool", "scrub", "-w", "dozer"], true, &["scrub repaired", "with 0 errors on"]),
            (&["pool", "status", "dozer"], true, &["  scan: scrub repaired", "repaired from other disks"]),
            (&["pool", "scrub", "-w", "dozer"], true, &["scrub repaired 0 blocks", "with 0 errors"]),
            (&["pool", "scrub", "tonk"], false, &["no pool 'tonk'"]),
            (&["pool", "scrub", "dozer"], true, &["has begun", "tally pool status dozer"]),
        ],
    );
    wait_for(data_dir, &["pool", "status", "dozer"], "scrub repaired 0 blocks");
    story(
        data_dir,
        &[
            (&["pool", "export", "dozer"], true, &[]),
            (&["pool", "import", "--readonly", "-d", &here, "dozer"], true, &[]),
            (&["pool", "scrub", "dozer"], false, &["read-only"]),
            (&["pool", "export", "dozer"], true, &[]),
        ],
    );
    // Its whole tree is gone, as far as disks know.
    disks[2].used_sectors().into_iter().for_each(|at| disks[2].rot(at));
    let (well, text) = tally(data_dir, &["pool", "scrub", "-w", "lone"]);
    assert!(well && text.contains("scrub repaired 0 blocks") && !text.contains("with 0 errors"), "{text}");
    assert!(text.contains("right on no disk") && text.contains("backup"), "{text}");
    story(
        data_dir,
        &[(&["pool", "status", "lone"], true, &["  scan: scrub repaired 0 blocks", "damaged on every disk"])],
    );
    daemon.stop();
}

/// An export waited for a scrub that waited for a disk, and all other commands, also those of other pools, for the export.
#[test]
fn a_scrub_that_hangs_keeps_no_command_but_the_export_of_its_pool() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let disk = Failing::new(32 << 20);
    opener.put(data_dir.join("a"), Arc::clone(&disk) as Arc<dyn Disk>);
    let daemon = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "create", "dozer", "a"], true, &[])]);
    disk.long.store(1, Ordering::SeqCst);
    disk.let_through(Some(3));
    story(
        data_dir,
        &[
            (&["pool", "scrub", "dozer"], true, &["has begun"]),
            (&["pool", "scrub", "dozer"], false, &["a scrub is under way", "scrub -s"]),
            (&["pool", "export", "dozer"], false, &["told to stop"]),
            (&["dataset", "create", "tank/meanwhile"], true, &[]),
        ],
    );
    disk.let_through(None);
    wait_for(data_dir, &["pool", "status", "dozer"], "was interrupted");
    let here = data_dir.display().to_string();
    story(
        data_dir,
        &[(&["pool", "export", "dozer"], true, &[]), (&["pool", "import", "-d", &here, "dozer"], true, &[])],
    );
    // Nobody has stopped it, so it goes on by itself.
    wait_for(data_dir, &["pool", "status", "dozer"], "scrub repaired 0 blocks");
    daemon.stop();
}

/// A scrub that is paused stays so over an import, goes on when it is asked for, and is remembered when it is over.
#[test]
fn a_scrub_is_paused_until_somebody_asks_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let here = data_dir.display().to_string();
    let opener = Arc::new(MemOpener::default());
    let disk = Failing::new(32 << 20);
    opener.put(data_dir.join("a"), Arc::clone(&disk) as Arc<dyn Disk>);
    let daemon = Running::start(data_dir, &opener);
    let import = ["pool", "import", "-d", &here, "dozer"];
    let again = || story(data_dir, &[(&["pool", "export", "dozer"], true, &[]), (&import, true, &["imported"])]);
    let status = ["pool", "status", "dozer"];
    story(
        data_dir,
        &[
            (&["pool", "create", "dozer", "a"], true, &[]),
            (&["pool", "scrub", "-p", "dozer"], false, &["no scrub of pool 'dozer' is under way"]),
        ],
    );
    disk.long.store(1, Ordering::SeqCst);
    disk.let_through(Some(3));
    story(data_dir, &[(&["pool", "scrub", "dozer"], true, &["has begun"])]);
    std::thread::scope(|scope| {
        let pause = scope.spawn(|| tally(data_dir, &["pool", "scrub", "-p", "dozer"]));
        wait_for(data_dir, &status, "stopping");
        disk.let_through(None);
        let (well, text) = pause.join().unwrap();
        assert!(well && text.contains("is paused") && text.contains("goes on with it"), "{text}");
    });
    story(
        data_dir,
        &[
            (&status, true, &["  scan: scrub paused since", "% done", "0 repaired, 0 errors"]),
            (&["pool", "scrub", "-p", "dozer"], false, &["paused already"]),
        ],
    );
    again();
    story(
        data_dir,
        &[
            (&status, true, &["scrub paused since"]),
            (&["--json", "pool", "status", "dozer"], true, &["\"state\": \"paused\""]),
            (&["pool", "scrub", "-w", "dozer"], true, &["scrub repaired 0 blocks", "with 0 errors"]),
            (&["pool", "scrub", "-s", "dozer"], false, &["no scrub of pool"]),
        ],
    );
    again();
    story(data_dir, &[(&status, true, &["  scan: scrub repaired 0 blocks"])]);
    daemon.stop();
}

/// Disks of a mirror, of which b was away while the pool changed, in a daemon that serves it.
fn with_a_stale_disk(data_dir: &Path, opener: &Arc<MemOpener>) -> (Running, [Arc<Failing>; 2]) {
    let disks = failing(data_dir, opener, ["a", "b"]);
    let daemon = Running::start(data_dir, opener);
    story(data_dir, &[(&["pool", "create", "dozer", "mirror", "a", "b"], true, &[])]);
    make_stale(data_dir, opener);
    (daemon, disks)
}

fn make_stale(data_dir: &Path, opener: &MemOpener) {
    let here = data_dir.display().to_string();
    let import: &[&str] = &["pool", "import", "-d", &here, "dozer"];
    story(data_dir, &[(&["pool", "export", "dozer"], true, &[])]);
    let b = opener.remove(&data_dir.join("b")).unwrap();
    story(data_dir, &[(import, true, &[]), (&["dataset", "create", "dozer/x"], true, &[])]);
    story(data_dir, &[(&["pool", "export", "dozer"], true, &[])]);
    opener.put(data_dir.join("b"), b);
    story(data_dir, &[(import, true, &[]), (&["pool", "status", "dozer"], true, &["b has missed"])]);
}

/// A disk that replaces itself has to leave first. When it could not come back, the command said that "the pool is as
/// it was before", with one disk less.
#[test]
fn a_disk_that_left_to_replace_itself_and_cannot_come_back_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let (daemon, disks) = with_a_stale_disk(data_dir, &opener);
    let [a, b] = ["a", "b"].map(|name| data_dir.join(name).display().to_string());
    disks[1].fails.store(true, Ordering::SeqCst);
    let again = format!("`tally pool attach -f dozer {a} {b}`");
    story(data_dir, &[(&["pool", "replace", "dozer", &b], false, &["cable", "no part of it now", &again])]);
    disks[1].fails.store(false, Ordering::SeqCst);
    story(
        data_dir,
        &[
            (&["pool", "attach", "-f", "dozer", &a, &b], true, &[]),
            (&["pool", "status", "dozer"], true, &["state: ONLINE", "mirror-0", &b]),
        ],
    );
    daemon.stop();
}

/// After a copy that could not read everything, whoever had brought a disk back was told to take "the old disk" out,
/// which was the only one that had everything.
#[test]
fn nobody_is_told_to_take_out_the_disk_that_has_more() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    opener.put(data_dir.join("b"), Failing::new(32 << 20) as Arc<dyn Disk>);
    let (daemon, disk, target) = serving(data_dir, &opener, &[]);
    story(data_dir, &[(&["pool", "attach", "dozer", "a", "b"], true, &[])]);
    make_stale(data_dir, &opener);
    // The other disk never had it.
    disk.spoil(&fill(&target, 4)[..4096]);
    let b = data_dir.join("b").display().to_string();
    let (well, text) = tally(data_dir, &["pool", "replace", "dozer", &b]);
    assert!(!well && text.contains("4096 bytes") && text.contains("is part of the pool"), "{text}");
    assert!(!text.contains("detach"), "{text}");
    story(data_dir, &[(&["pool", "status", "dozer"], true, &["mirror-0", "could not be read"])]);
    daemon.stop();
}

/// Where a pool's disks are was written down when the old one had left and its label was erased. A daemon that ended in
/// between knew the old disk alone at its next start, and the pool was not there.
#[test]
fn a_new_disk_is_known_to_the_next_start_before_the_old_one_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    for name in ["a", "b"] {
        opener.put(data_dir.join(name), Failing::new(32 << 20) as Arc<dyn Disk>);
    }
    let daemon = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "create", "dozer", "a"], true, &[]), (&["dataset", "create", "dozer/x"], true, &[])]);
    let in_the_way = data_dir.join("pools.toml.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let [a, b] = ["a", "b"].map(|name| data_dir.join(name).display().to_string());
    story(
        data_dir,
        &[
            (&["pool", "replace", "dozer", "a", "b"], false, &["written down for the next start", "taken out"]),
            (&["pool", "status", "dozer"], true, &["state: ONLINE", &a]),
        ],
    );
    daemon.stop();
    std::fs::remove_dir(&in_the_way).unwrap();
    let daemon = Running::start(data_dir, &opener);
    story(
        data_dir,
        &[
            (&["dataset", "list"], true, &["dozer/x"]),
            (&["pool", "replace", "dozer", "a", "b"], true, &["was replaced"]),
            (&["pool", "status", "dozer"], true, &["state: ONLINE", &b]),
        ],
    );
    daemon.stop();
}

/// In a mirror of a and b, a had rotten and b was sound. `replace b c` copied what the disk gave whose turn it was, so
/// c got the rot of a, and b left with the last good copies.
#[test]
fn what_one_disk_alone_has_right_is_not_lost_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let here = data_dir.display().to_string();
    let opener = Arc::new(MemOpener::default());
    let disks = failing(data_dir, &opener, ["a", "b", "c"]);
    let daemon = Running::start(data_dir, &opener);
    story(data_dir, &[(&["pool", "create", "dozer", "mirror", "a", "b"], true, &[])]);
    for name in ["dozer/x", "dozer/y", "dozer/z"] {
        story(data_dir, &[(&["dataset", "create", name], true, &[])]);
    }
    disks[0].used_sectors().into_iter().for_each(|offset| disks[0].rot(offset));
    story(
        data_dir,
        &[(
            &["pool", "replace", "dozer", "b", "c"],
            true,
            &["was replaced", "were damaged on a disk and right on another"],
        )],
    );
    story(data_dir, &[(&["pool", "export", "dozer"], true, &[])]);
    opener.remove(&data_dir.join("a"));
    opener.remove(&data_dir.join("b"));
    story(
        data_dir,
        &[
            (&["pool", "import", "-d", &here, "dozer"], true, &["imported"]),
            (&["dataset", "list"], true, &["dozer/x", "dozer/y", "dozer/z"]),
        ],
    );
    daemon.stop();
}

/// The daemon's only thread for commands ran the copy: no other command was carried out until it was over, and SIGTERM
/// was not heard.
#[test]
fn a_copy_runs_beside_other_commands_and_goes_on_behind_the_end_of_the_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().to_owned();
    let here = data_dir.display().to_string();
    let opener = Arc::new(MemOpener::default());
    for name in ["b", "c", "d"] {
        opener.put(data_dir.join(name), Failing::new(32 << 20) as Arc<dyn Disk>);
    }
    let (daemon, disk, target) = serving(&data_dir, &opener, &[]);
    fill(&target, 8);
    story(&data_dir, &[(&["dataset", "create", "dozer/x"], true, &[])]);
    let copy = |words: &'static [&'static str]| {
        disk.let_through(Some(3));
        let data_dir = data_dir.clone();
        let thread = thread::spawn(move || tally(&data_dir, words));
        (thread, wait_for(dir.path(), &["pool", "status", "dozer"], "copying"))
    };

    let (replace, status) = copy(&["pool", "replace", "dozer", "a", "b"]);
    for part in ["scan: resilver of", "/b in progress", "copying", "% done", "to go", "RESILVERING"] {
        assert!(status.contains(part), "{part}: {status}");
    }
    let (_, json) = tally(&data_dir, &["--json", "pool", "status", "dozer"]);
    assert!(json.contains("\"phase\": \"copying\"") && json.contains("\"done_bytes\": "), "{json}");
    story(
        &data_dir,
        &[
            (&["dataset", "create", "tank/made-meanwhile"], true, &[]),
            (&["pool", "create", "other", "c"], true, &[]),
            (&["pool", "attach", "dozer", "a", "b"], false, &["the copy to", "/b is still running", "pool status"]),
            (&["pool", "replace", "dozer", "a", "d"], false, &["the copy to", "/b is still running"]),
            (&["pool", "detach", "dozer", "a"], false, &["is still running"]),
            (&["pool", "destroy", "dozer"], false, &["is still running", "detach that disk to stop it"]),
        ],
    );
    // Another disk joins beside it.
    let in_thread = |words: &'static [&'static str]| {
        let data_dir = data_dir.clone();
        thread::spawn(move || tally(&data_dir, words))
    };
    let attach = in_thread(&["pool", "attach", "dozer", "a", "d"]);
    let status = wait_for(&data_dir, &["pool", "status", "dozer"], "/d in progress");
    assert!(status.contains("/b in progress"), "{status}");
    let detach = in_thread(&["pool", "detach", "dozer", "b"]);
    // Where the copy waits for its turn beside the other one, and not for the disk, it has stopped before anybody sees it stopping.
    while !detach.is_finished() && !tally(&data_dir, &["pool", "status", "dozer"]).1.contains("stopping") {
        thread::sleep(Duration::from_millis(5));
    }
    disk.let_through(None);
    let (well, text) = detach.join().unwrap();
    assert!(well && text.contains("the copy to it was stopped"), "{text}");
    let (well, text) = replace.join().unwrap();
    assert!(!well && text.contains("was stopped, and the disk was taken out again"), "{text}");
    let (well, text) = attach.join().unwrap();
    assert!(well, "{text}");
    story(
        &data_dir,
        &[
            (&["pool", "status", "dozer"], true, &["mirror-0", "scan: resilvered"]),
            (&["pool", "detach", "dozer", "d"], true, &[]),
        ],
    );
    let (_, status) = tally(&data_dir, &["pool", "status", "dozer"]);
    assert!(status.contains("state: ONLINE") && !status.contains("mirror-0") && !status.contains("/b"), "{status}");

    // And the same disk again, until the daemon is told to end. The next one goes on with it by itself.
    let (replace, _) = copy(&["pool", "replace", "dozer", "a", "b"]);
    daemon.stopper.stop();
    // As above: it may have stopped, and the pool be gone, before anybody sees it stopping.
    let is_stopping = || {
        let (well, text) = tally(&data_dir, &["pool", "status", "dozer"]);
        !well || text.contains("stopping")
    };
    while !is_stopping() {
        thread::sleep(Duration::from_millis(5));
    }
    disk.let_through(None);
    daemon.stop();
    let (well, text) = replace.join().unwrap();
    assert!(!well && text.contains("was interrupted; it goes on by itself"), "{text}");
    let second = Running::start(&data_dir, &opener);
    story(
        &data_dir,
        &[
            (&["dataset", "list"], true, &["dozer/x", "tank/made-meanwhile"]),
            (&["pool", "import", "-d", &here], true, &[]),
        ],
    );
    let status = wait_for(&data_dir, &["pool", "status", "dozer"], "scan: resilvered");
    assert!(status.contains("state: ONLINE") && !status.contains("mirror-0") && !status.contains("/a\n"), "{status}");
    let (_, status) = tally(&data_dir, &["pool", "status", "dozer"]);
    assert!(status.contains("/b") && !status.contains("/a "), "the old disk has left: {status}");
    story(&data_dir, &[(&["pool", "export", "dozer"], true, &[])]);
    second.stop();
}

/// What somebody sees of spares who gives commands: `status`, its `--json`, and the history.
#[test]
fn spares_are_added_shown_taken_and_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path();
    let opener = Arc::new(MemOpener::default());
    let _disks = failing(data_dir, &opener, ["a", "b"]);
    for name in ["s", "t"] {
        opener.put(data_dir.join(name), Arc::new(MemDisk::new(64 << 20)));
    }
    let daemon = Running::start(data_dir, &opener);
    let s = data_dir.join("s").display().to_string();
    story(
        data_dir,
        &[
            (&["pool", "create", "dozer", "mirror", "a", "b"], true, &[]),
            (&["pool", "add", "dozer", "s"], false, &["tally pool add POOL spare DEVICE"]),
            (&["pool", "add", "dozer", "spare", "s", "t"], true, &["now waiting as spare of 'dozer'"]),
            (&["pool", "status", "dozer"], true, &["state: ONLINE", "\tspares\n\t  ", "AVAIL\n"]),
            (&["pool", "add", "dozer", "spare", "s"], false, &["is part of the pool already"]),
            (&["pool", "remove", "dozer", "t"], true, &["is no spare of 'dozer' any more"]),
            (&["pool", "remove", "dozer", "a"], false, &["`tally pool detach`"]),
            (&["pool", "offline", "dozer", "b"], true, &[]),
            (&["pool", "replace", "dozer", "b", "s"], true, &["stands in for "]),
            (&["pool", "status", "dozer"], true, &["state: DEGRADED", "INUSE     for "]),
            (&["pool", "status", "--json", "dozer"], true, &["\"state\": \"INUSE\""]),
            (&["pool", "remove", "dozer", "s"], false, &["`tally pool detach` gives it back first"]),
            (&["pool", "online", "dozer", "b"], true, &[]),
            (&["pool", "detach", "dozer", "s"], true, &[]),
            (&["pool", "status", "dozer"], true, &["state: ONLINE", "AVAIL\n"]),
            (&["pool", "history", "dozer"], true, &["tally pool add dozer spare ", "tally pool remove dozer "]),
        ],
    );
    daemon.stop();
    let daemon = Running::start(data_dir, &opener);
    story(
        data_dir,
        &[
            (&["pool", "status", "dozer"], true, &[&s, "AVAIL\n"]),
            (&["pool", "export", "dozer"], true, &[]),
            (&["pool", "import", "-d", &data_dir.display().to_string()], true, &["state: ONLINE"]),
        ],
    );
    daemon.stop();
}
