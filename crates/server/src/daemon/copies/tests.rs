use std::thread;

use super::*;

const MIRROR: VdevGuid = VdevGuid(7);

fn about(purpose: Purpose, path: &str) -> About<'_> {
    About { vdev: Some(MIRROR), purpose, path: Path::new(path), leaves: None }
}

/// Ends as soon as somebody wants it, as whoever carries it out does.
fn until_stopped(running: Running) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        while !running.copy.is_stopped() {
            thread::sleep(Duration::from_millis(1));
        }
        running.ended("scrub stopped".into(), None);
    })
}

/// One scrub at a time, and copies beside it. A disk that leaves keeps the pool from being let go, and then the scrub goes on.
#[test]
fn a_scrub_runs_beside_a_copy_and_ends_with_the_pool() {
    let copies = Arc::<Copies>::default();
    let scrub = copies.begin_scrub().unwrap();
    assert!(matches!(copies.begin_scrub(), Err(DiskError::Scrubbing { .. })));
    let join = copies.begin(about(Purpose::Join, "/disks/b")).unwrap();
    assert!(matches!(copies.begin(about(Purpose::Leave, "/disks/a")), Err(DiskError::Busy { .. })));
    assert_eq!(copies.running().iter().map(|copy| &copy.what[..]).collect::<Vec<_>>(), ["scrub", "resilver"]);
    drop(join);
    for purpose in [Purpose::Leave, Purpose::Offline] {
        let _keeps = copies.begin(about(purpose, "/disks/b")).unwrap();
        assert!(matches!(copies.close(), Err(DiskError::Busy { .. })) && !scrub.copy.is_stopped());
    }
    let carrying_out = until_stopped(scrub);
    copies.close().unwrap();
    assert!(copies.running().is_empty() && copies.outcomes() == ["scrub stopped"]);
    assert!(matches!(copies.begin_scrub(), Err(DiskError::LettingGo)));
    carrying_out.join().unwrap();
}

/// A copy to a disk that joins, or comes back, goes on behind an import; destroyed with its pool it does not.
#[test]
fn a_copy_is_interrupted_where_its_pool_is_let_go() {
    for purpose in [Purpose::Join, Purpose::Return] {
        let copies = Arc::<Copies>::default();
        let join = copies.begin(about(purpose, "/disks/b")).unwrap();
        assert!(matches!(copies.check_destroy(), Err(DiskError::Busy { .. })) && !join.copy.is_stopped());
        let copy = Arc::clone(&join.copy);
        let carrying_out = until_stopped(join);
        copies.close().unwrap();
        carrying_out.join().unwrap();
        assert!(copy.is_interrupted() && copies.running().is_empty());
    }
}

#[test]
fn a_scrub_that_is_stopped_leaves_copies_alone() {
    let copies = Arc::<Copies>::default();
    assert!(!copies.stop_scrub());
    let join = copies.begin(about(Purpose::Join, "/disks/b")).unwrap();
    let carrying_out = until_stopped(copies.begin_scrub().unwrap());
    assert!(copies.stop_scrub() && !join.copy.is_stopped());
    carrying_out.join().unwrap();
    assert!(copies.begin_scrub().is_ok());
}

/// Of two disks that were to join one mirror the second was refused until the first had been copied. Each joins once, for one disk only
/// one, and none leaves meanwhile by itself. What came of each is shown until something else begins there.
#[test]
fn disks_join_one_mirror_side_by_side() {
    let copies = Arc::<Copies>::default();
    let replace = |path, leaves| About { leaves: Some(Path::new(leaves)), ..about(Purpose::Join, path) };
    let first = copies.begin(replace("/disks/x", "/disks/a")).unwrap();
    let second = copies.begin(replace("/disks/y", "/disks/b")).unwrap();
    let third = copies.begin(about(Purpose::Return, "/disks/c")).unwrap();
    for (refused, what) in [
        (about(Purpose::Join, "/disks/x"), "the same again"),
        (replace("/disks/z", "/disks/a"), "a second one for the same disk"),
        (replace("/disks/z", "/disks/x"), "one for a disk that joins"),
        (replace("/disks/a", "/disks/a"), "a disk that is being replaced"),
        (about(Purpose::Return, "/disks/b"), "the same"),
        (about(Purpose::Leave, "/disks/c"), "one that leaves"),
        (about(Purpose::Offline, "/disks/d"), "one that is put away"),
    ] {
        assert!(matches!(copies.begin(refused), Err(DiskError::Busy { .. })), "{what}");
        assert!(copies.check_beside(refused).is_err(), "{what}");
    }
    assert_eq!(copies.running().len(), 3);
    first.ended("first".into(), None);
    drop(first);
    assert!(copies.is_joining(MIRROR, Path::new("/disks/y")) && !copies.is_joining(MIRROR, Path::new("/disks/x")));
    second.ended("second".into(), None);
    drop((second, third));
    assert_eq!(copies.outcomes(), ["first", "second"]);
    let later = copies.begin(about(Purpose::Leave, "/disks/c")).unwrap();
    later.ended("later".into(), None);
    assert_eq!(copies.outcomes(), ["later"]);
}

/// An export waits five seconds for a copy that waits for a disk, and is given again; or the daemon ends meanwhile. The second time the copy was taken
/// for stopped by somebody: it was given up, and its disk left the pool.
#[test]
fn a_copy_that_is_interrupted_twice_is_interrupted() {
    let copies = Arc::<Copies>::default();
    let interrupted = copies.begin(about(Purpose::Join, "/disks/x")).unwrap();
    (0..2).for_each(|_| copies.state.lock().close());
    assert!(interrupted.copy.is_stopped() && interrupted.copy.is_interrupted());
    drop(interrupted);
    // One that somebody has stopped before is none.
    copies.state.lock().closed = false;
    let stopped = copies.begin(about(Purpose::Join, "/disks/x")).unwrap();
    stopped.copy.stop.store(true, Ordering::Release);
    copies.state.lock().close();
    assert!(!stopped.copy.is_interrupted());
}

/// Nobody has asked for it, and the look at every block beside clients takes hours: `export` and `clear` were refused as long.
#[test]
fn a_spare_that_is_given_back_is_stopped_for_whatever_somebody_wants() {
    let copies = Arc::<Copies>::default();
    let spare = Path::new("/disks/s");
    let carrying_out = until_stopped(copies.begin(about(Purpose::GiveBack, "/disks/s")).unwrap());
    assert!(copies.stop_join(MIRROR, spare), "by `detach`, too");
    carrying_out.join().unwrap();
    let carrying_out = until_stopped(copies.begin(about(Purpose::GiveBack, "/disks/s")).unwrap());
    copies.close().unwrap();
    carrying_out.join().unwrap();
    assert!(copies.running().is_empty());
}

/// A copy that went on in its copying counted what had been copied as looked at, too: 85 of 200 in place of 45, and nine times as quick as it was.
#[test]
fn a_copy_that_goes_on_counts_each_pass_once() {
    let copies = Arc::<Copies>::default();
    let running = copies.begin(about(Purpose::Join, "/disks/b")).unwrap();
    let copy = &running.copy;
    copy.expect(100, 100);
    copy.goes_on(40, 0, Duration::from_secs(7));
    assert_eq!(copy.report().done_bytes, 40);
    for (stage, done, in_all) in
        [(Stage::Copying, 45, 45), (Stage::CheckingCopy, 5, 105), (Stage::CheckingCopy, 99, 199)]
    {
        assert!(copy.note(stage, done));
        assert_eq!((copy.report().done_bytes, copy.report().total_bytes), (in_all, 200));
    }
    assert!(copy.report().seconds >= 7.0);
}
