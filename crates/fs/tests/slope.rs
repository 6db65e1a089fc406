//! More data than the disks take: it was let in until ring or memory was full, in groups of any size, and then everybody
//! stood still for as long as such a group takes. Here no group is synced but by the test, and no time is looked at.

mod world;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tally_base::{Txg, Wait};
use tally_fs::Filer;
use tally_fs::filer::CreateOptions;
use tally_fs::vfs::{CreateHow, Cred, FsError, ObjectRef, Outcome, SetAttr, Stability, Vfs};
use world::{World, content, ctx, mode, noise, vfs};

const MIB: u64 = 1 << 20;
/// A group may have a third of it, and bulk seven eighths of that.
const LOG: u64 = 24 * MIB;
const BULK_MAX: u64 = 7 * MIB;

struct Slope {
    filer: Arc<Filer>,
    fs: Arc<dyn Vfs>,
    cred: Cred,
    file: ObjectRef,
}

impl Slope {
    fn over(world: &World) -> Self {
        let filer = world.create_without_threads(&CreateOptions::default());
        let slope = Self { fs: vfs(&filer), file: vfs(&filer).root(), filer, cred: Cred::root() };
        let file = slope.create("bulk").expect("an empty pool");
        slope.filer.sync().unwrap();
        Self { file, ..slope }
    }

    fn create(&self, name: &str) -> Result<ObjectRef, FsError> {
        let how = CreateHow::Guarded(mode(0o644));
        self.fs.create(ctx(&self.cred), self.fs.root(), name.as_bytes(), &how).result.map(|attr| attr.object)
    }

    /// A mebibyte, stable, at this place.
    fn write(&self, place: u64) -> Result<(), Wait> {
        let data = noise(MIB as usize, place);
        self.ask(|| self.fs.write(ctx(&self.cred), self.file, place * MIB, data.clone(), Stability::FileSync))
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
    for (place, bytes) in content(&*slope.fs, slope.file).chunks(MIB as usize).enumerate() {
        assert!(*bytes == noise(MIB as usize, place as u64), "place {place}");
    }
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

#[test]
fn who_waits_is_woken_by_a_failure_too() {
    let world = World::new(256 * MIB, LOG);
    let slope = Slope::over(&world);
    let (place, wait) = slope.write_until_refused(0);
    world.faults("/disks/data").all(true);
    assert!(slope.filer.sync().is_err());
    assert!(wait.block().is_err(), "the pool is suspended");
    let again = slope.fs.write(ctx(&slope.cred), slope.file, place * MIB, noise(MIB as usize, 0), Stability::FileSync);
    assert_eq!(again.result.err(), Some(FsError::Unavailable));
}

#[test]
fn who_waits_is_woken_by_an_export() {
    let slope = Slope::over(&World::new(256 * MIB, LOG));
    let (place, wait) = slope.write_until_refused(0);
    slope.filer.export().unwrap();
    let _over = wait.block();
    let again = slope.fs.write(ctx(&slope.cred), slope.file, place * MIB, noise(MIB as usize, 0), Stability::FileSync);
    assert_eq!(again.result.err(), Some(FsError::Unavailable));
}

/// What streams to its place has no fold before it.
#[test]
fn what_was_placed_is_not_ahead() {
    let slope = Slope::over(&World::new(256 * MIB, LOG));
    for place in 0..64 {
        let data = noise(MIB as usize, place);
        let stream = || slope.fs.write(ctx(&slope.cred), slope.file, place * MIB, data.clone(), Stability::Unstable);
        assert!(slope.ask(stream).is_ok());
    }
    assert!(slope.ahead_bytes() <= LOG / 8, "{}", slope.ahead_bytes());
    let cut = SetAttr { size: Some(0), ..SetAttr::default() };
    assert!(slope.ask(|| slope.fs.setattr(ctx(&slope.cred), slope.file, &cut, None)).is_ok());
}
