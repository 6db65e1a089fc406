//! A leg that hangs neither answers nor fails, and every change waited for it, for ever. After the pool's limit it is struck
//! off as if it had refused a write: nobody is told of a success that rests on less than the labels of the others say, and
//! what it was given before can land at any time without harm.

mod world;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tally_disk::Disk;
use tally_fs::Filer;
use tally_members::label::{self, FailMode, HangLimit};
use tally_members::vdev::LegState;
use tally_vfs::{CreateHow, Cred, Stability};
use world::{Patient, World, content, ctx, member, mode, noise, patient, vfs};

const MIB: u64 = 1 << 20;
const A: &str = "/disks/a";
const B: &str = "/disks/b";
const L: &str = "/disks/l";
const M: &str = "/disks/m";
/// Long enough that only who waits for ever is caught.
const PATIENCE: Duration = Duration::from_secs(60);
const LIMIT: HangLimit = HangLimit::Seconds(1);
/// Well beyond that.
const BEYOND: Duration = Duration::from_millis(2500);

fn mirror() -> (World, Arc<Filer>) {
    of(&[(A, 48 * MIB), (B, 48 * MIB)], "mirror /disks/a /disks/b")
}

fn of(disks: &[(&str, u64)], vdevs: &str) -> (World, Arc<Filer>) {
    let world = World::of(disks, vdevs).with_helpers();
    let filer = world.create();
    filer.pool().roster.set_hang_limit(LIMIT).unwrap();
    put(&filer, "before", 300_000, 1);
    filer.pool().sync().unwrap();
    (world, filer)
}

fn put(filer: &Filer, name: &str, length: usize, seed: u64) {
    let (fs, cred) = (vfs(filer), Cred::root());
    let how = CreateHow::Unchecked(mode(0o600));
    let file = patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).unwrap().object;
    let data = noise(length, seed);
    patient(|| fs.write(ctx(&cred), file, 0, data.clone(), Stability::FileSync)).unwrap();
}

fn check(filer: &Filer, name: &str, length: usize, seed: u64) {
    let fs = vfs(filer);
    let (attr, _) = fs.lookup(&Cred::root(), fs.root(), name.as_bytes()).unwrap();
    assert!(content(&*fs, attr.object) == noise(length, seed), "{name}");
}

fn in_a_thread<T: Send + 'static>(
    filer: &Arc<Filer>,
    work: impl FnOnce(&Arc<Filer>) -> T + Send + 'static,
) -> Receiver<T> {
    let (answer, answered) = channel();
    let filer = Arc::clone(filer);
    std::thread::spawn(move || answer.send(work(&filer)));
    answered
}

fn state(filer: &Filer, path: &str) -> LegState {
    let place = member(filer, path);
    place.vdev.leg(place.leg).unwrap().state()
}

/// Whether the label of one disk says that another was left behind. Looks at what the disk has, and nothing in memory.
fn says_struck_off(world: &World, of: &str, other: &str) -> bool {
    let disk = tally_fakes::MemDisk::from_bytes(&world.content_of(of));
    let label = label::read(&disk as &dyn Disk).unwrap();
    let legs = label.config.vdevs.iter().flat_map(|vdev| &vdev.legs);
    legs.filter(|leg| leg.path == Path::new(other)).any(|leg| leg.stale_since.is_some())
}

fn wait_for(is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "it does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A frame of the log on the data's own mirror, and on a log device of two.
#[test]
fn a_change_is_answered_once_the_labels_of_the_others_say_that_a_leg_that_hangs_was_left() {
    let own = (&[(A, 48 * MIB), (B, 48 * MIB)][..], "mirror /disks/a /disks/b", A, B);
    let device = (&[(A, 48 * MIB), (L, 16 * MIB), (M, 16 * MIB)][..], "/disks/a log mirror /disks/l /disks/m", L, M);
    for (disks, vdevs, stays, hangs) in [own, device] {
        let (world, filer) = of(disks, vdevs);
        let faults = world.faults(hangs);
        let held = faults.writes_held.write().unwrap();
        let created = in_a_thread(&filer, |filer| put(filer, "during", 300, 2));
        wait_for(|| faults.writes_waited.load(SeqCst) > 0);
        assert!(!says_struck_off(&world, stays, hangs));
        created.recv_timeout(PATIENCE).expect("the change is answered without the disk that hangs");
        assert!(says_struck_off(&world, stays, hangs), "{vdevs}: a reply rested on labels that are not there");
        assert_eq!((state(&filer, hangs), state(&filer, stays)), (LegState::Faulted, LegState::Online));
        let leg = member(&filer, hangs);
        assert!(leg.vdev.leg(leg.leg).unwrap().left_after().is_some_and(|after| after.as_secs() >= 1));
        // Everything goes on: groups, labels, uberblocks, and the limit is no matter any more.
        put(&filer, "behind", 300_000, 3);
        filer.pool().sync().unwrap();
        let refused = filer.pool().take_back(&member(&filer, hangs), &mut Patient).unwrap_err().to_string();
        assert!(refused.contains("still has a request of before to answer"), "{refused}");
        drop(held);
        let path = hangs.to_owned();
        wait_for(|| filer.pool().take_back(&member(&filer, &path), &mut Patient).is_ok());
        filer.export().unwrap();
        drop(filer);
        let (filer, _) = world.import();
        check(&filer, "during", 300, 2);
        check(&filer, "behind", 300_000, 3);
    }
}

/// Whatever it is that hangs: blocks, flushes, labels.
#[test]
fn a_group_and_a_label_do_not_wait_for_a_leg_that_hangs() {
    type Hold = fn(&world::Faults) -> &std::sync::RwLock<()>;
    let holds: [(&str, Hold); 2] =
        [("writes", |faults| &faults.writes_held), ("flushes", |faults| &faults.flushes_held)];
    for (what, hold) in holds {
        let (world, filer) = mirror();
        put(&filer, "waiting", 300_000, 2);
        let faults = world.faults(B);
        let held = hold(&faults).write().unwrap();
        let synced = in_a_thread(&filer, |filer| filer.pool().sync().is_ok());
        assert_eq!(synced.recv_timeout(PATIENCE), Ok(true), "{what}");
        assert_eq!(state(&filer, B), LegState::Faulted, "{what}");
        assert!(says_struck_off(&world, A, B), "{what}");
        drop(held);
        check(&filer, "waiting", 300_000, 2);
    }
    let (world, filer) = mirror();
    let faults = world.faults(B);
    let held = faults.writes_held.write().unwrap();
    let set = in_a_thread(&filer, |filer| filer.pool().roster.set_hang_limit(HangLimit::Seconds(2)).is_ok());
    assert_eq!(set.recv_timeout(PATIENCE), Ok(true));
    assert!(says_struck_off(&world, A, B));
    assert_eq!(filer.pool().roster.config().hang_limit, HangLimit::Seconds(2));
    drop(held);
}

#[test]
fn of_two_legs_that_hang_one_is_waited_for() {
    let (world, filer) = mirror();
    let (a, b) = (world.faults(A), world.faults(B));
    let (held, other) = (a.writes_held.write().unwrap(), b.writes_held.write().unwrap());
    let created = in_a_thread(&filer, |filer| put(filer, "during", 300, 2));
    assert!(created.recv_timeout(BEYOND).is_err(), "a change was answered that no disk has");
    let standing = [A, B].map(|path| state(&filer, path));
    assert_eq!(standing.iter().filter(|state| **state == LegState::Online).count(), 1, "{standing:?}");
    drop(held);
    drop(other);
    created.recv_timeout(PATIENCE).expect("the disks answer");
    assert_eq!([A, B].map(|path| state(&filer, path)).iter().filter(|state| **state == LegState::Online).count(), 1);
    filer.pool().sync().unwrap();
    check(&filer, "during", 300, 2);
}

#[test]
fn without_a_limit_or_another_leg_a_disk_is_waited_for() {
    let (world, filer) = mirror();
    filer.pool().roster.set_hang_limit(HangLimit::Off).unwrap();
    let faults = world.faults(B);
    let held = faults.writes_held.write().unwrap();
    let created = in_a_thread(&filer, |filer| put(filer, "during", 300, 2));
    assert!(created.recv_timeout(BEYOND).is_err());
    drop(held);
    created.recv_timeout(PATIENCE).expect("the disk answers");
    assert_eq!(state(&filer, B), LegState::Online);
    // A lane may not lose the only leg that its set has, nor a vdev the only disk.
    let (world, filer) = of(&[(A, 48 * MIB), (L, 16 * MIB)], "/disks/a log /disks/l");
    for (disk, name) in [(L, "one"), (A, "two")] {
        let faults = world.faults(disk);
        let held = faults.writes_held.write().unwrap();
        let done = in_a_thread(&filer, move |filer| {
            put(filer, name, 300, 2);
            filer.pool().sync().unwrap();
        });
        assert!(done.recv_timeout(BEYOND).is_err());
        drop(held);
        done.recv_timeout(PATIENCE).expect("the disk answers");
        assert_eq!(state(&filer, disk), LegState::Online);
    }
}

/// Whoever had said that disks are waited for, and waits, could set what limit he liked: the labels that say so waited for the
/// very disk, and what waited already had no limit for good.
#[test]
fn a_limit_that_is_set_while_a_leg_hangs_holds_for_what_waits() {
    let (world, filer) = mirror();
    filer.pool().roster.set_hang_limit(HangLimit::Off).unwrap();
    let faults = world.faults(B);
    let _held = faults.writes_held.write().unwrap();
    let created = in_a_thread(&filer, |filer| put(filer, "during", 300, 2));
    let labels = in_a_thread(&filer, |filer| filer.pool().roster.set_failmode(FailMode::Continue));
    wait_for(|| faults.writes_waited.load(SeqCst) > 0);
    assert!(created.recv_timeout(BEYOND).is_err() && labels.try_recv().is_err());
    let set = in_a_thread(&filer, |filer| filer.pool().roster.set_hang_limit(LIMIT));
    set.recv_timeout(PATIENCE).expect("it is written without the disk that hangs").unwrap();
    created.recv_timeout(PATIENCE).expect("the change is answered");
    labels.recv_timeout(PATIENCE).expect("the command before is done").unwrap();
    assert!(says_struck_off(&world, A, B));
    assert_eq!((state(&filer, A), state(&filer, B)), (LegState::Online, LegState::Faulted));
    assert_eq!(filer.pool().roster.config().hang_limit, LIMIT);
}

/// The leg would have been struck off, its block freed and the place given to another; then the disk wrote what it had been
/// given before, over the block of today.
#[test]
fn a_write_that_lands_late_does_no_harm_to_a_block_of_today() {
    let (mut world, filer) = mirror();
    let faults = world.faults(B);
    let held = faults.writes_held.write().unwrap();
    // Its blocks are placed while the disk hangs.
    let written = in_a_thread(&filer, |filer| put(filer, "late", 6 << 20, 2));
    written.recv_timeout(PATIENCE).expect("the change is answered");
    filer.pool().sync().unwrap();
    assert!(faults.writes_waited.load(SeqCst) > 0);
    // They are freed, and the places are given to others: everywhere, so that they are met.
    let (fs, cred) = (vfs(&filer), Cred::root());
    patient(|| fs.remove(ctx(&cred), fs.root(), b"late")).unwrap();
    for _ in 0..4 {
        filer.pool().sync().unwrap();
    }
    for seed in 10..13 {
        put(&filer, &format!("today {seed}"), 8 << 20, seed);
    }
    filer.pool().sync().unwrap();
    let refused = filer.pool().take_back(&member(&filer, B), &mut Patient).unwrap_err().to_string();
    assert!(refused.contains("still has a request of before to answer"), "{refused}");
    drop(held);
    wait_for(|| filer.pool().take_back(&member(&filer, B), &mut Patient).is_ok());
    let place = member(&filer, B);
    let report = filer.pool().secure(&place.vdev, &[place.leg], &mut |_| true).unwrap();
    assert_eq!((report.repaired_count, report.lost_count), (0, 0), "it lacked something: {report:?}");
    filer.export().unwrap();
    drop(filer);
    world.take(&[A]);
    let (filer, _) = world.import();
    check(&filer, "before", 300_000, 1);
    (10..13).for_each(|seed| check(&filer, &format!("today {seed}"), 8 << 20, seed));
}

/// Reads of a mirror are not kept by a leg that hangs, neither those that have asked it nor those that come behind.
#[test]
fn a_read_that_a_leg_keeps_is_answered_by_the_other() {
    let (world, filer) = mirror();
    put(&filer, "cold", 8 << 20, 5);
    filer.export().unwrap();
    drop(filer);
    let (filer, _) = world.import();
    let faults = world.faults(B);
    let held = faults.reads_held.write().unwrap();
    let read = in_a_thread(&filer, |filer| check(filer, "cold", 8 << 20, 5));
    read.recv_timeout(PATIENCE).expect("the other leg has it");
    assert!(faults.reads_waited.load(SeqCst) > 0, "it was never the turn of the leg that hangs");
    assert!(faults.reads_waited.load(SeqCst) < 40, "each read asks the leg that hangs");
    assert_eq!(state(&filer, B), LegState::Online, "it has refused nothing");
    drop(held);
    filer.export().unwrap();
}
