//! More data than the disks take: it was let in until ring or memory was full, in groups of any size, and then everybody
//! stood still for as long as such a group takes. Here no group is synced but by the test, and no time is looked at.

mod world;

use std::ops::Range;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tally_base::{Fate, Kept, Txg, Wait};
use tally_fs::Filer;
use tally_fs::filer::{CreateOptions, ImportOptions};
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tuning::Tuning;
use tally_store::txg::{Destination, RingUse};
use tally_vfs::{CreateHow, Cred, FsError, ObjectRef, Outcome, SetAttr, Stability, Vfs};
use world::{World, content, ctx, mode, noise, patient, vfs};

const MIB: u64 = 1 << 20;
/// A group may have a third of it, and bulk seven eighths of that.
const LOG: u64 = 24 * MIB;
const BULK_MAX: u64 = 7 * MIB;
/// The same of a fourth, for what a COMMIT may log a group later.
const UNSTABLE_MAX: u64 = BULK_MAX / 4 * 3;
/// Long enough that only who waits for ever is caught.
const PATIENCE: Duration = Duration::from_secs(60);

struct Slope {
    filer: Arc<Filer>,
    fs: Arc<dyn Vfs>,
    cred: Cred,
    file: ObjectRef,
}

impl Slope {
    fn over(world: &World) -> Self {
        // What goes to the log is to be the same however fast it seems.
        Self::with(world, "latency")
    }

    fn with(world: &World, bias: &str) -> Self {
        let properties = PropertySet::from_iter([parse(Property::LogBias, bias).unwrap()]);
        let filer = world.create_without_threads(&CreateOptions { properties, ..CreateOptions::default() });
        let slope = Self { fs: vfs(&filer), file: vfs(&filer).root(), filer, cred: Cred::root() };
        let file = slope.create("bulk").expect("an empty pool");
        slope.filer.sync().unwrap();
        Self { file, ..slope }
    }

    fn create(&self, name: &str) -> Result<ObjectRef, FsError> {
        let how = CreateHow::Guarded(mode(0o644));
        self.fs.create(ctx(&self.cred), self.fs.root(), name.as_bytes(), &how).result.map(|attr| attr.object)
    }

    /// The pool of a world as it is imported now, with the same file.
    fn again(self, world: &World) -> Self {
        let options = ImportOptions::default();
        let (filer, _) = world.try_import_without_threads(&Tuning::default(), &options).expect("an import");
        Self { fs: vfs(&filer), filer, ..self }
    }

    /// A mebibyte, stable, at this place.
    fn write(&self, place: u64) -> Result<(), Wait> {
        let data = noise(MIB as usize, place);
        self.ask(|| self.fs.write(ctx(&self.cred), self.file, place * MIB, data.clone(), Stability::FileSync))
    }

    /// COMMIT, part by part; the log is its promise, since nobody syncs a group.
    fn commit(&self, file: ObjectRef) {
        loop {
            let Outcome { result, wait, .. } = self.fs.commit(ctx(&self.cred), file, 0, 0);
            let kept = match wait {
                Wait::Ready => Ok(Kept::default()),
                Wait::On(wait) => wait.drive().expect("the log has room, and no group is waited for"),
            };
            assert!(kept.is_ok());
            match result {
                Err(FsError::Throttled) => {}
                result => return assert!(result.is_ok(), "{:?}", result.err()),
            }
        }
    }

    fn ask<T>(&self, ask: impl Fn() -> Outcome<T>) -> Result<(), Wait> {
        let Outcome { result, wait, .. } = ask();
        match result {
            Err(FsError::Throttled) => Err(wait),
            result => {
                assert!(result.is_ok(), "{:?}", result.err());
                assert!(wait.block().is_ok(), "the log takes it");
                Ok(())
            }
        }
    }

    /// Writes on until somebody has to wait; gives how far it came, and the wait.
    fn write_until_refused(&self, from: u64) -> (u64, Wait) {
        (from..from + 100)
            .find_map(|place| self.write(place).err().map(|wait| (place, wait)))
            .expect("there is a bound")
    }

    /// The same, and so many more behind who has to wait: how far it came, and their waits.
    fn crowd(&self, count: u64) -> (u64, Vec<Wait>) {
        let (first, wait) = self.write_until_refused(0);
        let others = (first + 1..first + count).map(|place| self.write(place).expect_err("it is the next one's turn"));
        let waits: Vec<_> = std::iter::once(wait).chain(others).collect();
        assert_eq!(self.waiting() as u64, count);
        (first, waits)
    }

    fn waiting(&self) -> usize {
        self.filer.pool().txgs.ahead_waiting()
    }

    /// The mebibytes at these places are what was written there.
    fn check(&self, places: Range<u64>) {
        let content = content(&*self.fs, self.file);
        for place in places {
            let at = (place * MIB) as usize;
            assert!(content[at..at + MIB as usize] == noise(MIB as usize, place), "place {place}");
        }
    }

    fn ahead_bytes(&self) -> u64 {
        self.filer.pool().txgs.ahead_bytes()
    }

    fn synced(&self) -> Txg {
        self.filer.pool().txgs.last_synced()
    }
}

#[test]
fn writers_are_paced_by_the_fold_and_small_files_are_not() {
    let slope = Arc::new(Slope::over(&World::new(256 * MIB, LOG)));
    let (first, wait) = slope.write_until_refused(0);
    assert!((BULK_MAX - MIB..=BULK_MAX).contains(&(first * MIB)), "{first} MiB in the first group");
    let mut waits = vec![wait];
    waits.extend((first + 1..first + 4).map(|place| slope.write(place).expect_err("it is the next one's turn")));
    // Who brings little is let in beside them.
    let small = slope.create("small").expect("a CREATE waits for nobody");
    let data = Bytes::from_static(&[7; 4096]);
    let written = slope.ask(|| slope.fs.write(ctx(&slope.cred), small, 0, data.clone(), Stability::FileSync));
    assert!(written.is_ok());
    let waiting = waits.len() as u64;
    let woken = Arc::new(Mutex::new(Vec::new()));
    for (place, wait) in (first..).zip(waits) {
        let Wait::On(wait) = wait else { panic!("it waits") };
        assert!(wait.poll().is_none());
        let (woken, slope) = (Arc::clone(&woken), Arc::clone(&slope));
        wait.then(Box::new(move |fate| {
            assert!(fate.is_ok());
            woken.lock().unwrap().push((place, slope.synced()));
        }));
    }
    let before = slope.synced();
    slope.filer.sync().unwrap();
    // In their order, each when the fold had written as much, and not with the end of the group.
    let expected: Vec<_> = (first..first + waiting).map(|place| (place, before)).collect();
    assert_eq!(*woken.lock().unwrap(), expected);
    for place in first..first + waiting {
        assert!(slope.write(place).is_ok(), "its room is kept");
    }
    slope.filer.sync().unwrap();
    assert_eq!(slope.ahead_bytes(), 0);
    slope.check(0..first + waiting);
}

/// What is written over in its group is written by nobody.
#[test]
fn the_same_place_over_and_over_is_ahead_once() {
    let slope = Slope::over(&World::new(256 * MIB, LOG));
    for _ in 0..12 {
        assert!(slope.write(3).is_ok());
    }
    assert_eq!(slope.ahead_bytes(), MIB);
}

/// Counts who is told, and what.
fn listen(waits: Vec<Wait>) -> Receiver<Fate> {
    let (sender, told) = channel();
    for wait in waits {
        let Wait::On(wait) = wait else { panic!("it waits") };
        let sender = sender.clone();
        wait.then(Box::new(move |fate| drop(sender.send(fate))));
    }
    told
}

#[test]
fn who_waits_is_woken_by_a_failure_too_and_goes_on_when_the_pool_is_back() {
    let world = World::new(256 * MIB, LOG);
    let slope = Slope::over(&world);
    let (first, waits) = slope.crowd(16);
    let told = listen(waits);
    world.faults("/disks/data").all(true);
    assert!(slope.filer.sync().is_err());
    assert_eq!(told.try_iter().filter(Result::is_err).count(), 16, "the pool is suspended");
    assert_eq!(slope.waiting(), 0);
    for place in first..first + 16 {
        let data = noise(MIB as usize, place);
        let again = slope.fs.write(ctx(&slope.cred), slope.file, place * MIB, data, Stability::FileSync);
        assert_eq!(again.result.err(), Some(FsError::Unavailable));
    }
    slope.filer.export().unwrap_err();
    world.faults("/disks/data").all(false);
    let slope = slope.again(&world);
    slope.check(0..first);
    for place in first..first + 16 {
        while slope.write(place).is_err() {
            slope.filer.sync().expect("the disk is back");
        }
    }
    slope.check(0..first + 16);
}

#[test]
fn who_waits_is_woken_by_an_export_and_goes_on_after_the_import() {
    let world = World::new(256 * MIB, LOG);
    let slope = Slope::over(&world);
    let (first, waits) = slope.crowd(16);
    let told = listen(waits);
    slope.filer.export().unwrap();
    assert_eq!(told.try_iter().count(), 16);
    assert_eq!(slope.waiting(), 0);
    for place in first..first + 16 {
        let data = noise(MIB as usize, place);
        let again = slope.fs.write(ctx(&slope.cred), slope.file, place * MIB, data, Stability::FileSync);
        assert_eq!(again.result.err(), Some(FsError::Unavailable));
    }
    let slope = slope.again(&world);
    for place in first..first + 16 {
        while slope.write(place).is_err() {
            slope.filer.sync().expect("there is room");
        }
    }
    slope.check(0..first + 16);
}

/// Some hang up while they wait, and some when they are woken; neither keeps anybody else waiting, nor room for ever.
#[test]
fn clients_that_hang_up_leave_their_room_to_others() {
    let slope = Slope::over(&World::new(256 * MIB, LOG));
    let (first, mut waits) = slope.crowd(16);
    // Six have gone, six will be: the last four have all of them in front.
    let stay = waits.split_off(12);
    let woken = listen(waits.split_off(6));
    drop(waits);
    assert_eq!(slope.waiting(), 10);
    let told = listen(stay);
    let mut groups = 0;
    while told.try_iter().count() == 0 {
        slope.filer.sync().unwrap();
        groups += 1;
        assert!(groups < 4, "they wait for those who have gone");
    }
    assert_eq!((woken.try_iter().count(), slope.waiting()), (6, 0));
    for place in first + 12..first + 16 {
        assert!(slope.write(place).is_ok(), "its room is kept");
    }
    for _ in 0..3 {
        slope.filer.sync().unwrap();
    }
    assert_eq!(slope.ahead_bytes(), 0, "room is kept for nobody");
}

/// Its client would wait for nothing, and learn it late.
#[test]
fn who_is_refused_anyway_is_refused_at_once() {
    let slope = Slope::over(&World::new(256 * MIB, LOG));
    let set = |property, value| PropertySet::from_iter([parse(property, value).unwrap()]);
    let small = slope.filer.create_dataset("tank/small", set(Property::RefQuota, "512K"), (0, 0)).unwrap();
    let fixed = slope.filer.create_dataset("tank/fixed", PropertySet::new(), (0, 0)).unwrap();
    let how = CreateHow::Guarded(mode(0o600));
    let file_in = |fs: &dyn Vfs| fs.create(ctx(&slope.cred), fs.root(), b"file", &how).result.unwrap().object;
    let (in_small, in_fixed) = (file_in(&*small), file_in(&*fixed));
    slope.filer.set_property("tank/fixed", parse(Property::ReadOnly, "on").unwrap()).unwrap();
    let gone = slope.create("gone").unwrap();
    let removed = slope.fs.remove(ctx(&slope.cred), slope.fs.root(), b"gone");
    assert!(removed.result.is_ok());
    let (place, _wait) = slope.write_until_refused(0);
    let stranger = Cred { uid: 1000, gid: 1000, ..Cred::root() };
    let write = |fs: &dyn Vfs, cred: &Cred, file| {
        let data = noise(MIB as usize, 1);
        fs.write(ctx(cred), file, 0, data, Stability::FileSync).result.map(drop)
    };
    assert_eq!(write(&*slope.fs, &slope.cred, slope.file), Err(FsError::Throttled));
    for (what, answer, expected) in [
        ("removed", write(&*slope.fs, &slope.cred, gone), FsError::Stale),
        ("a directory", write(&*slope.fs, &slope.cred, slope.fs.root()), FsError::IsDirectory),
        ("somebody else's", write(&*slope.fs, &stranger, slope.file), FsError::Access),
        ("over the quota", write(&*small, &slope.cred, in_small), FsError::Quota),
        ("read-only", write(&*fixed, &slope.cred, in_fixed), FsError::ReadOnly),
    ] {
        assert_eq!(answer, Err(expected), "{what}");
    }
    slope.filer.sync().unwrap();
    assert!(slope.write(place).is_ok(), "they have taken no room");
}

/// A little data asks nobody until much is ahead; what has none never does.
#[test]
fn a_small_promise_beside_nobody_is_not_counted() {
    let slope = Slope::over(&World::new(256 * MIB, LOG));
    let txgs = &slope.filer.pool().txgs;
    let passes_freely =
        |bytes| txgs.pass(Destination([0; 3]), bytes, RingUse::Logged(LOG)).is_ok_and(|pass| pass.is_none());
    assert!(passes_freely(4096) && passes_freely(0));
    let much = txgs.pass(Destination([1; 3]), LOG, RingUse::Logged(LOG)).expect("nobody else is there");
    assert!(much.is_some() && slope.ahead_bytes() == LOG);
    assert!(!passes_freely(4096), "it waits");
    assert!(passes_freely(0));
    drop(much);
    assert!(passes_freely(4096));
}

/// Less memory than any server has: requests of a mebibyte, and COMMITs of four, from more clients than have room at
/// once. Everybody comes to his end.
#[test]
fn with_little_memory_everybody_comes_to_his_end() {
    const CLIENTS: u64 = 6;
    const FILES: u64 = 6;
    let world = World::new(512 * MIB, 64 * MIB);
    world.create().export().unwrap();
    let tuning = Tuning { dirty_bytes_max: 8 * MIB, ..Tuning::default() };
    let (filer, _) = world.try_import_with(&tuning, &ImportOptions::default()).expect("an import");
    let (sender, ends) = channel();
    for client in 0..CLIENTS {
        let (filer, sender) = (Arc::clone(&filer), sender.clone());
        std::thread::spawn(move || {
            let (fs, cred) = (vfs(&filer), Cred::root());
            for number in 0..FILES {
                let how = CreateHow::Guarded(mode(0o644));
                let name = format!("{client}-{number}");
                let file = patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).unwrap().object;
                let stability = if client % 2 == 0 { Stability::FileSync } else { Stability::Unstable };
                for place in 0..4 {
                    let data = noise(MIB as usize, client * 1000 + number * 10 + place);
                    patient(|| fs.write(ctx(&cred), file, place * MIB, data.clone(), stability)).unwrap();
                }
                patient(|| fs.commit(ctx(&cred), file, 0, 0)).unwrap();
                let data = Bytes::from_static(&[7; 4096]);
                patient(|| fs.write(ctx(&cred), file, 4 * MIB, data.clone(), Stability::FileSync)).unwrap();
            }
            sender.send(client).expect("somebody waits for it");
        });
    }
    drop(sender);
    let mut ended: Vec<u64> = (0..CLIENTS).map_while(|_| ends.recv_timeout(PATIENCE).ok()).collect();
    ended.sort_unstable();
    assert_eq!(ended, (0..CLIENTS).collect::<Vec<_>>(), "who is not here waits for ever");
    let fs = vfs(&filer);
    for (client, number) in (0..CLIENTS).flat_map(|client| (0..FILES).map(move |number| (client, number))) {
        let name = format!("{client}-{number}");
        let file = fs.lookup(&Cred::root(), fs.root(), name.as_bytes()).unwrap().0.object;
        let content = content(&*fs, file);
        assert_eq!(content.len() as u64, 4 * MIB + 4096);
        for place in 0..4 {
            let expected = noise(MIB as usize, client * 1000 + number * 10 + place);
            assert!(content[(place * MIB) as usize..][..MIB as usize] == expected, "{name}: {place}");
        }
    }
    assert_eq!(filer.pool().txgs.ahead_waiting(), 0);
}

/// What is placed as it comes has no fold before it.
#[test]
fn what_was_placed_is_not_ahead() {
    let slope = Slope::over(&World::new(256 * MIB, LOG));
    for place in 0..64 {
        let data = noise(MIB as usize, place);
        let write = || slope.fs.write(ctx(&slope.cred), slope.file, place * MIB, data.clone(), Stability::Unstable);
        assert!(slope.ask(write).is_ok());
    }
    assert!(slope.ahead_bytes() <= LOG / 8, "{}", slope.ahead_bytes());
    let cut = SetAttr { size: Some(0), ..SetAttr::default() };
    assert!(slope.ask(|| slope.fs.setattr(ctx(&slope.cred), slope.file, &cut, None)).is_ok());
}

/// WRITEs of 128 KiB that each begin in the middle of the one before.
#[test]
fn what_is_half_written_over_is_paced_as_well() {
    let slope = Slope::over(&World::new(256 * MIB, LOG));
    let step = MIB / 16;
    let write = |place| {
        let data = noise(2 * step as usize, place);
        slope.ask(|| slope.fs.write(ctx(&slope.cred), slope.file, place * step, data.clone(), Stability::FileSync))
    };
    let refused = (0..1000).find(|place| write(*place).is_err());
    assert!(slope.ahead_bytes() <= BULK_MAX, "{} KiB are ahead", slope.ahead_bytes() >> 10);
    assert!(refused.is_some_and(|place| place * step > BULK_MAX / 2), "{refused:?}");
}

/// What need not be stable is paced as its COMMIT will need it, and a promise for a little waits for none of it.
#[test]
fn what_a_commit_will_log_finds_its_place_in_the_ring() {
    let slope = Slope::over(&World::new(512 * MIB, LOG));
    let files: Vec<_> = (0..60).map(|number| slope.create(&format!("{number}")).expect("there is room")).collect();
    let mut brought = 0;
    // Three groups have their records in the ring, and memory is far from full.
    for group in 0..3 {
        let let_in: Vec<_> = files[brought..]
            .iter()
            .zip(brought as u64..)
            .take_while(|(file, number)| {
                let data = noise(MIB as usize, *number);
                slope.ask(|| slope.fs.write(ctx(&slope.cred), **file, 0, data.clone(), Stability::Unstable)).is_ok()
            })
            .collect();
        let new = let_in.len();
        let is_full = (UNSTABLE_MAX - 2 * MIB..=UNSTABLE_MAX).contains(&(new as u64 * MIB));
        assert!(is_full, "{new} MiB in group {group}");
        let small = slope.create(&format!("small-{group}")).expect("a CREATE waits for nobody");
        let data = Bytes::from_static(&[7; 4096]);
        let written = slope.ask(|| slope.fs.write(ctx(&slope.cred), small, 0, data.clone(), Stability::FileSync));
        assert!(written.is_ok(), "it waits behind what nobody was promised");
        for file in &files[brought..brought + new] {
            slope.commit(*file);
        }
        brought += new;
        slope.filer.sync().expect("there is room");
    }
}

/// What only its group will make durable takes nothing of the ring: half records, which cannot be placed ahead, and are more
/// than `throughput` has the log take. Who has a promise to get for a little waits for none of it.
#[test]
fn a_small_promise_does_not_wait_for_what_others_have_in_memory_only() {
    let slope = Slope::with(&World::new(512 * MIB, LOG), "throughput");
    let data = noise(64 << 10, 1);
    for place in 0..16 * 60 {
        let at = place * (128 << 10);
        let write = || slope.fs.write(ctx(&slope.cred), slope.file, at, data.clone(), Stability::Unstable);
        if slope.ask(write).is_err() {
            break;
        }
    }
    let ahead_bytes = slope.ahead_bytes();
    assert!(ahead_bytes > BULK_MAX + MIB, "{} KiB are in memory", ahead_bytes >> 10);
    let small = slope.create("small").expect("a CREATE waits for nobody");
    let data = Bytes::from_static(&[7; 4096]);
    let written = slope.ask(|| slope.fs.write(ctx(&slope.cred), small, 0, data.clone(), Stability::FileSync));
    assert!(written.is_ok(), "it waits behind {} KiB that are in no ring", ahead_bytes >> 10);
}
