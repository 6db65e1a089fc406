//! Where a data disk is slow and the log is fast, 27 kinds of promises were measured, and 25 took what the log takes.
//! UNSTABLE data of a whole record or more waited for a transaction group of some sixty milliseconds at its COMMIT: its
//! blocks had been placed ahead, however few they were. Now what a file has written stays in memory up to a bound, and
//! the log takes it.

mod world;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use bytes::Bytes;
use tally_base::Wait;
use tally_fs::filer::{CreateOptions, Filer, ImportOptions};
use tally_store::pool::SpaceClass;
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, ObjectRef, SetAttr, Stability, Vfs};
use world::{World, content, ctx, done, mode, noise, vfs};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const RECORD: u64 = 128 * KIB;
/// An eighth of the ring on it is a mebibyte, and a little more.
const LOG: u64 = 9 * MIB;

/// A pool in which no group is synced but by the test, and a file.
struct House {
    world: World,
    filer: Arc<Filer>,
    fs: Arc<dyn Vfs>,
    cred: Cred,
    file: ObjectRef,
}

impl House {
    fn new(bias: &str, ring: u64) -> Self {
        Self::with(256 * MIB, ring, &[(Property::LogBias, bias)])
    }

    fn with(data: u64, ring: u64, properties: &[(Property, &str)]) -> Self {
        let world = World::new(data, ring);
        let properties = properties.iter().map(|(property, value)| parse(*property, value).unwrap());
        let properties = PropertySet::from_iter(properties);
        let filer = world.create_without_threads(&CreateOptions { properties, ..CreateOptions::default() });
        let (fs, cred) = (vfs(&filer), Cred::root());
        let made = fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o644)));
        let file = done(made).expect("an empty pool").object;
        Self { world, filer, fs, cred, file }
    }

    /// Behind a power cut and an import.
    fn again(self) -> Self {
        let world = self.world.cut();
        let (filer, _) =
            world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).expect("the pool is there");
        Self { fs: vfs(&filer), world, filer, ..self }
    }

    fn write(&self, at: u64, length: u64) {
        let written = self.fs.write(ctx(&self.cred), self.file, at, noise(length as usize, at), Stability::Unstable);
        done(written).expect("there is room");
    }

    /// COMMITs the file, with one group more if it takes one. Gives whether it did.
    fn commit(&self) -> bool {
        loop {
            let outcome = self.fs.commit(ctx(&self.cred), self.file, 0, 0);
            let waits_for_group = match &outcome.wait {
                Wait::Ready => false,
                Wait::On(promise) => promise.drive().or_else(|| promise.poll()).is_none(),
            };
            if waits_for_group {
                self.filer.sync().expect("there is room");
                outcome.wait.block().expect("the group is durable");
            }
            match outcome.result {
                Err(FsError::Throttled) => assert!(!waits_for_group, "a part goes to the log"),
                result => {
                    result.expect("a commit");
                    return waits_for_group;
                }
            }
        }
    }

    fn blocks_placed(&self) -> u64 {
        self.filer.pool().io.stats().blocks_written
    }

    fn logged(&self) -> u64 {
        self.filer.pool().lanes()[0].stats().body_bytes
    }

    /// What is there after a power cut.
    fn found(self) -> Bytes {
        let after = self.world.cut();
        let (filer, report) = after.import();
        assert_eq!(report.losses, Vec::<String>::new());
        let fs = vfs(&filer);
        content(&*fs, self.file).into()
    }
}

/// The content of [`House::write`] in this order.
fn written(parts: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, length) in parts {
        bytes.resize(bytes.len().max((at + length) as usize), 0);
        bytes[*at as usize..(at + length) as usize].copy_from_slice(&noise(*length as usize, *at));
    }
    bytes
}

#[test]
fn up_to_the_bound_a_commit_goes_to_the_log_and_beyond_to_its_group() {
    // Eight records are a mebibyte. By `auto` the bound is that too, as long as nobody has seen what the log takes.
    for (bias, count, by_group) in [
        ("latency", 1, false),
        ("latency", 8, false),
        ("latency", 9, true),
        ("auto", 8, false),
        ("auto", 9, true),
        ("throughput", 1, true),
    ] {
        let house = House::new(bias, LOG);
        let (placed, logged) = (house.blocks_placed(), house.logged());
        let parts: Vec<_> = (0..count).map(|at| (at * RECORD, RECORD)).collect();
        parts.iter().for_each(|(at, length)| house.write(*at, *length));
        assert_eq!(house.logged(), logged, "{bias}, {count}: nothing is logged where nobody waits");
        assert_eq!(house.blocks_placed() > placed, by_group, "{bias}, {count}");
        let txg = house.filer.pool().txgs.open();
        assert_eq!(house.commit(), by_group, "{bias}, {count}");
        assert_eq!(house.filer.pool().txgs.open() > txg, by_group, "{bias}, {count}");
        let logged = house.logged() - logged;
        assert_eq!(logged >= count * RECORD, !by_group, "{bias}, {count}: {logged} bytes in the log");
        assert_eq!(house.found(), written(&parts), "{bias}, {count}: it was promised");
    }
}

/// Once a COMMIT has logged what was there, as much again may be gathered: the bound is of what the log does not have.
#[test]
fn files_of_any_length_are_logged_with_a_commit_now_and_then() {
    let house = House::new("latency", 64 * MIB);
    let placed = house.blocks_placed();
    let parts: Vec<_> = (0..24).map(|at| (at * 512 * KIB, 512 * KIB)).collect();
    for chunk in parts.chunks(8) {
        chunk.iter().for_each(|(at, length)| house.write(*at, *length));
        assert!(!house.commit(), "it waits for no group");
    }
    assert_eq!(house.blocks_placed(), placed);
    assert_eq!(house.found(), written(&parts));
}

/// From the bound on a file is a placed one, and stays that for as long as a group has blocks of it that are not synced.
#[test]
fn from_the_bound_on_a_file_is_placed_ahead_until_its_group_is_synced() {
    let house = House::new("latency", LOG);
    (0..8).for_each(|at| house.write(at * RECORD, RECORD));
    let placed = house.blocks_placed();
    (8..16).for_each(|at| house.write(at * RECORD, RECORD));
    assert_eq!(house.blocks_placed() - placed, 16, "each block behind the bound is placed, and one before it follows");
    assert!(house.commit());
    let placed = house.blocks_placed();
    house.write(0, RECORD);
    assert_eq!(house.blocks_placed(), placed, "it is in memory again once its group is synced");
}

/// A COMMIT of many mebibytes was one row of frames, and whoever made a file meanwhile stood behind all of them.
#[test]
fn others_come_between_the_parts_of_a_commit() {
    let house = House::new("latency", 64 * MIB);
    let parts: Vec<_> = (0..4).map(|at| (at * MIB, MIB)).collect();
    parts.iter().for_each(|(at, length)| house.write(*at, *length));
    let before = house.logged();
    let first = house.fs.commit(ctx(&house.cred), house.file, 0, 0);
    assert_eq!(first.result.as_ref().err(), Some(&FsError::Throttled), "one part of four");
    let made = house.fs.create(ctx(&house.cred), house.fs.root(), b"other", &CreateHow::Guarded(mode(0o644)));
    let Wait::On(promise) = &made.wait else { panic!("a CREATE waits for its record") };
    promise.drive().or_else(|| promise.poll()).expect("it is in the first frames").expect("the disk works");
    let logged = house.logged() - before;
    assert!((MIB..MIB + 64 * KIB).contains(&logged), "{logged} bytes before a CREATE is durable");
    // What comes into a part that is not logged yet is logged with it, and what comes into one that is, too.
    house.write(0, 10);
    house.write(3 * MIB, 10);
    assert!(!house.commit());
    let cut = SetAttr { size: Some(3 * MIB + 5), ..SetAttr::default() };
    done(house.fs.setattr(ctx(&house.cred), house.file, &cut, None)).expect("a cut");
    let mut expected = written(&[(0, MIB), (MIB, MIB), (2 * MIB, MIB), (3 * MIB, MIB), (0, 10), (3 * MIB, 10)]);
    expected.truncate(3 * MIB as usize + 5);
    assert_eq!(house.found(), expected);
}

/// Each part was looked for anew, from the file's begin: with somebody who writes over it as fast as the log takes it a
/// COMMIT had no end.
#[test]
fn a_commit_ends_though_others_write_over_each_of_its_parts() {
    let house = House::new("latency", 64 * MIB);
    let mut ways = Vec::new();
    for _ in 0..2 {
        // An eighth of the ring is eight of its parts.
        let last = (0..10).find_map(|_| {
            house.write(0, MIB);
            house.write(MIB, MIB);
            let outcome = house.fs.commit(ctx(&house.cred), house.file, 0, 0);
            if outcome.result == Err(FsError::Throttled) {
                outcome.wait.block().expect("the log takes a part");
                return None;
            }
            outcome.result.as_ref().expect("a commit");
            Some(outcome.wait)
        });
        let Some(Wait::On(promise)) = last else { panic!("it comes to an end, and waits for what it found") };
        ways.push(promise.drive().or_else(|| promise.poll()).is_none());
        house.filer.sync().expect("there is room");
        // Whoever comes then is not told to wait for a group because of that.
        house.write(0, 2 * MIB);
        assert!(!house.commit());
    }
    assert_eq!(ways, [true, true], "the group is its promise");
    assert_eq!(house.found(), written(&[(0, 2 * MIB)]), "it was promised");
}

/// Between the look at the bound and the lock others write the same file: all of them would find room, and a COMMIT more
/// than the log takes. Whoever finds under the lock that there is none left places its blocks after all.
#[test]
fn many_writers_of_one_file_do_not_pass_its_bound() {
    const WRITERS: u64 = 8;
    const LENGTH: u64 = 3 * RECORD;
    let house = House::new("latency", 2 * LOG);
    house.filer.sync().expect("there is room");
    // Behind an import nothing of the file is in memory: who has looked at the bound waits for its inode.
    let house = house.again();
    let bound = house.filer.pool().lanes()[0].share_bytes();
    assert!((LENGTH..WRITERS * LENGTH).contains(&bound), "some of them find room, and not all: {bound}");
    let placed = house.blocks_placed();
    let data = house.world.faults("/disks/data");
    let held = data.reads_held.write().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let house = &house;
            scope.spawn(move || house.write(writer * LENGTH, LENGTH));
        }
        while data.reads_waited.load(SeqCst) < WRITERS {
            std::thread::yield_now();
        }
        drop(held);
    });
    let in_memory = WRITERS * LENGTH - (house.blocks_placed() - placed) * RECORD;
    assert!(in_memory <= bound, "{in_memory} bytes in memory, of {bound}");
    assert!(house.commit());
}

/// The group had the first part of a placed file to write by itself, while its COMMIT waited.
#[test]
fn what_stayed_in_memory_follows_when_its_file_is_placed() {
    let house = House::new("latency", LOG);
    // One block is written in three parts, and one only in part.
    let parts = [
        (0, RECORD),
        (RECORD, 1000),
        (RECORD + 1000, RECORD),
        (2 * RECORD + 1000, 3 * RECORD),
        (5 * RECORD + 1000, 10),
    ];
    parts.iter().for_each(|(at, length)| house.write(*at, *length));
    let placed_by = |at, length| {
        let placed = house.blocks_placed();
        house.write(at, length);
        house.blocks_placed() - placed
    };
    assert_eq!(placed_by(8 * RECORD, 2 * RECORD), 0, "the bound is not reached");
    assert_eq!(placed_by(10 * RECORD, 2 * RECORD), 4, "as many follow as it places itself");
    assert_eq!(
        placed_by(2 * RECORD, 2 * RECORD),
        4,
        "what is written over does not follow, but the next two blocks do"
    );
    assert_eq!(placed_by(12 * RECORD, 4 * RECORD), 5, "one is left");
    assert_eq!(placed_by(16 * RECORD, RECORD), 1, "nothing is left but a part of a block");
    let expected = written(
        &[
            &parts[..],
            &[(8 * RECORD, 2 * RECORD), (10 * RECORD, 2 * RECORD), (2 * RECORD, 2 * RECORD)],
            &[(12 * RECORD, 4 * RECORD), (16 * RECORD, RECORD)],
        ]
        .concat(),
    );
    assert!(content(&*house.fs, house.file) == expected, "as it is read before its group is synced");
    assert!(house.commit());
    assert!(house.found() == expected, "after a power cut");
}

/// Whole blocks of what is in memory are placed with nothing held: who comes between that and the lock is not undone.
#[test]
fn what_follows_is_what_is_there_when_its_blocks_are() {
    const FIRST: u64 = 8 * RECORD;
    /// What it is, what comes between, and what that makes of the content.
    type Case = (&'static str, fn(&House), fn(&mut Vec<u8>));
    let cases: [Case; 5] = [
        ("nothing", |_| {}, |_| {}),
        ("a byte is written over", |house| house.write(10, 1), |bytes| bytes[10] = noise(1, 10)[0]),
        (
            "it is cut within, and written on behind that",
            |house| {
                let cut = SetAttr { size: Some(RECORD + 5), ..SetAttr::default() };
                done(house.fs.setattr(ctx(&house.cred), house.file, &cut, None)).expect("a cut");
            },
            |bytes| bytes[RECORD as usize + 5..FIRST as usize].fill(0),
        ),
        ("the log has it by a COMMIT", |house| assert!(!house.commit()), |_| {}),
        (
            "its group is closed",
            |house| {
                let txgs = &house.filer.pool().txgs;
                let txg = txgs.open();
                let filer = Arc::clone(&house.filer);
                std::thread::spawn(move || filer.sync());
                while txgs.open() == txg {
                    std::thread::yield_now();
                }
            },
            |_| {},
        ),
    ];
    for (title, meanwhile, change) in cases {
        let house = House::new("latency", 64 * MIB);
        let allocated = || house.filer.pool().io.allocator().space().allocated;
        let (bound, before) = (house.filer.pool().lanes()[0].share_bytes(), allocated());
        house.write(0, FIRST);
        house.write(FIRST, bound - FIRST);
        let data = house.world.faults("/disks/data");
        let held = data.writes_held.write().unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| house.write(bound, FIRST));
            while data.writes_waited.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            meanwhile(&house);
            drop(held);
            writer.join().expect("it does not panic");
        });
        let mut expected = written(&[(0, FIRST), (FIRST, bound - FIRST)]);
        change(&mut expected);
        expected.truncate(if title.contains("cut") { FIRST as usize } else { expected.len() });
        expected.resize(bound as usize, 0);
        expected.extend_from_slice(&noise(FIRST as usize, bound));
        assert!(content(&*house.fs, house.file) == expected, "{title}: read at once");
        assert!(house.commit(), "{title}");
        for _ in 0..3 {
            house.filer.sync().expect("there is room");
        }
        let more = allocated() - before;
        assert!(more < expected.len() as u64 + FIRST / 2, "{title}: what did not count is given back, of {more} bytes");
        assert!(house.found() == expected, "{title}: after a power cut");
    }
}

/// Each WRITE looked through all that its file has in memory for what could follow: with many small pieces all over a file
/// each one was slower than the one before.
#[test]
fn many_pieces_that_cannot_follow_make_no_write_slow() {
    const BLOCK: u64 = 4 * KIB;
    let took = |pieces: u64| {
        let house = House::with(1024 * MIB, LOG, &[(Property::LogBias, "latency"), (Property::RecordSize, "4K")]);
        // Of each block a part, and more of them than the log takes.
        (0..pieces).for_each(|at| house.write(at * BLOCK, 3 * KIB));
        let placed = house.blocks_placed();
        let turn = |turn: u64| {
            let began = Instant::now();
            (0..32).for_each(|at| house.write((pieces + 32 * turn + at) * BLOCK, BLOCK));
            began.elapsed()
        };
        let took = (0..4).map(turn).min();
        assert_eq!(house.blocks_placed() - placed, 4 * 32, "none but those");
        took.expect("four turns")
    };
    let (few, many) = (took(500), took(8000));
    assert!(many < few * 4, "{few:?} beside 500 pieces, {many:?} beside 8,000");
}

/// What followed is written. It counted as ahead of the disks until its group was synced, and so kept others waiting; and a
/// group that had little to write by itself was taken for a fast one.
#[test]
fn what_followed_is_not_ahead_of_the_disks_any_more() {
    let house = House::new("latency", LOG);
    let ahead = || house.filer.pool().txgs.ahead_bytes();
    house.write(0, 8 * RECORD);
    assert_eq!(ahead(), 8 * RECORD);
    house.write(8 * RECORD, 4 * RECORD);
    assert_eq!(ahead(), 4 * RECORD, "half of it followed");
    // The same again in small parts, over what followed: that the fold has to write, once.
    for _ in 0..3 {
        (0..4).for_each(|at| house.write(at * RECORD / 2, RECORD / 2));
        house.write(8 * RECORD, 8 * RECORD);
    }
    // The last look has ended at the end of the file: the next one begins at its begin.
    house.write(8 * RECORD, 8 * RECORD);
    assert_eq!(ahead(), 0);
    assert!(house.commit());
    assert_eq!(ahead(), 0);
    let mut expected = written(&[(0, 8 * RECORD), (8 * RECORD, 8 * RECORD)]);
    (0..4).for_each(|at| {
        let part = (at * RECORD / 2) as usize..((at + 1) * RECORD / 2) as usize;
        expected[part].copy_from_slice(&noise(RECORD as usize / 2, at * RECORD / 2));
    });
    assert!(house.found() == expected, "after a power cut");
}

/// What is acknowledged must be foldable. What followed was placed into room that was promised to the folds of others, which
/// in a full pool is all that there is.
#[test]
fn in_a_full_pool_nothing_follows() {
    const LENGTH: u64 = 4 * RECORD;
    // Of so small a pool.
    const RESERVE: u64 = 4 * MIB;
    let house = House::with(48 * MIB, LOG, &[(Property::LogBias, "latency")]);
    let pool = house.filer.pool();
    let free = || pool.io.allocator().space().free;
    house.write(0, 8 * RECORD);
    // Others are promised so much that the WRITE below finds room, and what would follow it does not.
    let promised = free() - RESERVE - pool.txgs.fold_bytes() - LENGTH - 256 * KIB;
    let others = pool.admit(SpaceClass::Write, 0, promised).expect("there is room");
    let data = house.world.faults("/disks/data");
    let held = data.writes_held.write().unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| house.write(8 * RECORD, LENGTH));
        while data.writes_waited.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        // No fold has to place that again.
        let spare = free() + LENGTH - pool.txgs.fold_bytes();
        drop(held);
        writer.join().expect("it does not panic");
        assert!(spare >= RESERVE, "{spare} bytes beside what the folds may take");
    });
    drop(others);
    assert!(house.commit());
    assert!(house.found() == written(&[(0, 8 * RECORD), (8 * RECORD, LENGTH)]));
}

/// The log gets no room for the second part: the group is the promise, and what the first one has logged is no loss.
#[test]
fn a_commit_that_fills_the_log_waits_for_its_group() {
    let house = House::new("latency", LOG);
    let length = house.filer.pool().lanes()[0].share_bytes();
    house.write(0, length);
    let first = house.fs.commit(ctx(&house.cred), house.file, 0, 0);
    assert_eq!(done(first).err(), Some(FsError::Throttled), "a part is shorter than that");
    let fill = house.fs.create(ctx(&house.cred), house.fs.root(), b"fill", &CreateHow::Guarded(mode(0o644)));
    let fill = done(fill).expect("there is room").object;
    let mut record = Bytes::from(vec![7; 512 * KIB as usize]);
    while record.len() >= 4096 {
        let outcome = house.fs.write(ctx(&house.cred), fill, 0, record.clone(), Stability::FileSync);
        match outcome.result {
            Ok(_) => drop(outcome.wait.block().expect("the log takes it")),
            Err(FsError::Throttled) => record = record.slice(..record.len() / 2),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(house.commit(), "there is no room in the log");
    assert_eq!(house.found(), written(&[(0, length)]));
}

/// What a COMMIT logs is in memory already. It counted as dirty once more, so that six files of eight mebibytes filled a
/// group of twice that, and their COMMITs waited for it.
#[test]
fn a_commit_makes_nothing_dirty_that_its_group_has() {
    let house = House::new("latency", 64 * MIB);
    let txgs = &house.filer.pool().txgs;
    house.write(0, MIB);
    let before = txgs.dirty_bytes_of(txgs.open());
    assert!(!house.commit());
    let after = txgs.dirty_bytes_of(txgs.open());
    assert!(before >= MIB && after - before < RECORD, "{before} bytes, and {after} behind it");
}

/// A COMMIT of a part leaves the rest to the next one.
#[test]
fn a_commit_of_a_part_makes_that_part_durable_and_no_promise_for_the_rest() {
    let house = House::new("latency", 64 * MIB);
    house.write(0, MIB);
    house.write(MIB, MIB);
    let logged = house.logged();
    let part = house.fs.commit(ctx(&house.cred), house.file, MIB / 2, RECORD as u32);
    done(part).expect("there is room");
    assert!((RECORD..2 * RECORD).contains(&(house.logged() - logged)), "so much was asked for");
    assert!(!house.commit());
    assert!((2 * MIB..2 * MIB + RECORD).contains(&(house.logged() - logged)), "each byte once");
    assert_eq!(house.found(), written(&[(0, MIB), (MIB, MIB)]));
}

/// A COMMIT put what an older group had into the open one as well, and both wrote it: a gigabyte that six clients brought,
/// with a COMMIT after each eight mebibytes, came to the disk twice over.
#[test]
fn what_the_group_under_way_has_is_logged_and_written_once() {
    let house = House::new("latency", 64 * MIB);
    house.write(0, MIB);
    let txgs = &house.filer.pool().txgs;
    let txg = txgs.open();
    let written_bytes = || house.filer.pool().io.stats().written_bytes;
    let before = written_bytes();
    let data = house.world.faults("/disks/data");
    let held = data.writes_held.write().unwrap();
    let after = std::thread::scope(|scope| {
        let sync = scope.spawn(|| house.filer.sync().expect("there is room"));
        while txgs.open() == txg {
            std::thread::yield_now();
        }
        house.write(MIB, 512 * KIB);
        assert!(!house.commit(), "the log takes it");
        // Nothing is due any more, wherever it lies.
        let logged = house.logged();
        assert!(!house.commit());
        assert_eq!(house.logged(), logged);
        assert_eq!(txgs.last_synced().next(), txg, "it is held up");
        assert!(txgs.dirty_bytes_of(txgs.open()) < 512 * KIB + RECORD, "what the other group has is not counted again");
        let cut = house.world.cut();
        drop(held);
        sync.join().expect("it does not panic");
        cut
    });
    house.filer.sync().expect("there is room");
    let bytes = written_bytes() - before;
    assert!(bytes < 2 * MIB, "{bytes} bytes for 1.5 MiB");
    let (filer, report) = after.import();
    assert_eq!(report.losses, Vec::<String>::new());
    let expected = written(&[(0, MIB), (MIB, 512 * KIB)]);
    assert_eq!(content(&*vfs(&filer), house.file), expected, "after a cut before either group was synced");
    assert_eq!(house.found(), expected);
}
