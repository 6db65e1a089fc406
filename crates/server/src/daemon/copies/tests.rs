use std::thread;

use super::*;

const MIRROR: VdevGuid = VdevGuid(7);

/// Ends as soon as somebody wants it, as whoever carries it out does.
fn until_stopped(running: Running) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        while !running.copy.is_stopped() {
            thread::sleep(Duration::from_millis(1));
        }
        running.ended("scrub stopped".into(), None);
    })
}

/// One scrub at a time, and copies beside it. A copy keeps the pool from being let go, and then the scrub goes on.
#[test]
fn a_scrub_runs_beside_a_copy_and_ends_with_the_pool() {
    let copies = Arc::<Copies>::default();
    let scrub = copies.begin_scrub().unwrap();
    assert!(matches!(copies.begin_scrub(), Err(DiskError::Scrubbing { .. })));
    let join = copies.begin(MIRROR, Purpose::Join, Path::new("/disks/b")).unwrap();
    assert!(matches!(copies.begin(MIRROR, Purpose::Leave, Path::new("/disks/a")), Err(DiskError::Busy { .. })));
    assert_eq!(copies.running().iter().map(|copy| &copy.what[..]).collect::<Vec<_>>(), ["scrub", "resilver"]);
    assert!(matches!(copies.close(), Err(DiskError::Busy { .. })) && !scrub.copy.is_stopped());
    drop(join);
    let carrying_out = until_stopped(scrub);
    copies.close().unwrap();
    assert!(copies.running().is_empty() && copies.outcomes() == ["scrub stopped"]);
    assert!(matches!(copies.begin_scrub(), Err(DiskError::LettingGo)));
    carrying_out.join().unwrap();
}

#[test]
fn a_scrub_that_is_stopped_leaves_copies_alone() {
    let copies = Arc::<Copies>::default();
    assert!(!copies.stop_scrub());
    let join = copies.begin(MIRROR, Purpose::Join, Path::new("/disks/b")).unwrap();
    let carrying_out = until_stopped(copies.begin_scrub().unwrap());
    assert!(copies.stop_scrub() && !join.copy.is_stopped());
    carrying_out.join().unwrap();
    assert!(copies.begin_scrub().is_ok());
}
