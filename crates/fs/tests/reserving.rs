//! Ranges of files that are reserved: whatever others take, and whatever was written there before, a WRITE into them finds room, in a full pool, under a quota, and
//! behind crashes. Nobody is promised what is not there.

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tally_base::codec::Reader;
use tally_fs::Filer;
use tally_fs::filer::{CreateOptions, ImportOptions};
use tally_fs::inode::Inode;
use tally_store::bp::BlockPtr;
use tally_store::key::Class;
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tree::Visit;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, ObjectRef, SetAttr, Sought, Stability, Vfs};
use world::{Dice, World, content, ctx, done, mode, noise, patient, patient_by_hand, vfs};

const MIB: u64 = 1 << 20;
const RECORD: u64 = 128 << 10;
/// What an extent takes in its leaf.
const EXTENT_BYTES: u64 = 128;

/// A pool in which nothing happens by itself.
struct Reserving {
    world: World,
    filer: Arc<Filer>,
    fs: Arc<dyn Vfs>,
    cred: Cred,
    tuning: Tuning,
}

impl Reserving {
    fn new(properties: &[(Property, &str)]) -> Self {
        let world = World::new(64 << 20, 16 << 20);
        let properties = properties.iter().map(|(property, value)| parse(*property, value).unwrap()).collect();
        let filer = world.create_without_threads(&CreateOptions { properties, ..CreateOptions::default() });
        Self { fs: vfs(&filer), world, filer, cred: Cred::root(), tuning: Tuning::default() }
    }

    /// One in which a group looks at so many extents.
    fn reaping(properties: &[(Property, &str)], reap_extents_max: usize) -> Self {
        let mut pool = Self::new(properties);
        pool.filer.export().expect("nothing is in the way");
        pool.tuning = Tuning { reap_extents_max, ..Tuning::default() };
        pool.import();
        pool
    }

    fn import(&mut self) {
        let imported = self.world.try_import_without_threads(&self.tuning, &ImportOptions::default());
        self.filer = imported.expect("it was a pool").0;
        self.fs = vfs(&self.filer);
    }

    fn file(&self, name: &str) -> ObjectRef {
        self.try_file(name).expect("there is room")
    }

    fn try_file(&self, name: &str) -> Result<ObjectRef, FsError> {
        let how = CreateHow::Guarded(mode(0o644));
        let make = || self.fs.create(ctx(&self.cred), self.fs.root(), name.as_bytes(), &how);
        patient_by_hand(&self.filer, make).map(|made| made.object)
    }

    fn reserve(&self, file: ObjectRef, offset: u64, length: u64) -> Result<(), FsError> {
        patient_by_hand(&self.filer, || self.fs.allocate(ctx(&self.cred), file, offset, length))
    }

    fn write(&self, file: ObjectRef, at: u64, data: &Bytes, how: Stability) -> Result<(), FsError> {
        let write = || {
            let outcome = self.fs.write(ctx(&self.cred), file, at, data.clone(), how);
            // Long ones wait for their group.
            if outcome.result.is_ok() && how == Stability::FileSync && data.len() > 20_000 {
                self.filer.sync().expect("there is room");
            }
            outcome
        };
        patient_by_hand(&self.filer, write).map(drop)
    }

    fn punch(&self, file: ObjectRef, offset: u64, length: u64) {
        let punch = || self.fs.deallocate(ctx(&self.cred), file, offset, length);
        patient_by_hand(&self.filer, punch).expect("it gives room");
    }

    fn resize(&self, file: ObjectRef, size: u64) -> Result<(), FsError> {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        patient_by_hand(&self.filer, || self.fs.setattr(ctx(&self.cred), file, &set, None))
    }

    fn remove(&self, name: &str) {
        let remove = || self.fs.remove(ctx(&self.cred), self.fs.root(), name.as_bytes());
        patient_by_hand(&self.filer, remove).expect("it gives room");
    }

    /// Takes all that there is, and says how much that was.
    fn fill(&self, name: &str) -> (u64, FsError) {
        self.fill_into(self.file(name))
    }

    fn fill_into(&self, file: ObjectRef) -> (u64, FsError) {
        for part in [MIB, RECORD, 4096] {
            let mut at = self.fs.getattr(file).unwrap().size;
            loop {
                match self.write(file, at, &noise(part as usize, at), Stability::Unstable) {
                    Ok(()) => at += part,
                    Err(error) if part == 4096 => return (at, error),
                    Err(_) => break,
                }
            }
        }
        unreachable!("a pool has an end")
    }

    fn settle(&self) {
        for _ in 0..6 {
            self.filer.sync().expect("there is room");
        }
    }

    fn cut_power(&mut self) {
        self.world = self.world.cut();
        self.import();
    }

    /// Until all is free that was removed, cut or punched.
    fn reap_all(&self) {
        self.settle();
        while self.filer.pool().datasets()[0].root().orphan_count > 0 {
            self.filer.sync().expect("there is room");
        }
        self.settle();
    }

    /// What the root says is reserved, and what more than is needed that is.
    fn check(&self) -> (u64, u64) {
        let (all, more, _) = self.look();
        (all, more)
    }

    /// What is reserved and what is taken of it: it rises where something is reserved, or a file grows, and with nothing else.
    fn charged(&self) -> u64 {
        self.look().2
    }

    /// What the root says is reserved, which is what inodes say together: and of each no less than what its blocks may still take, and no more than all of them could.
    /// A block takes its place until it is freed. Gives what more than that is kept, too, and what is reserved together with what is taken of it.
    fn look(&self) -> (u64, u64, u64) {
        self.filer.sync().expect("there is room");
        let pool = self.filer.pool();
        let root = pool.datasets()[0].root();
        let mut inodes: Vec<(u64, Inode)> = Vec::new();
        let mut extents: Vec<(u64, u64, BlockPtr)> = Vec::new();
        let mut take = |visit: Visit<'_>| {
            let Visit::Entry { key, value } = visit else { return };
            match key.class {
                Class::Inode => inodes.push((key.object, Inode::decode(&mut Reader::new(value, "inode")).unwrap())),
                Class::Extent => {
                    extents.push((key.object, key.a, BlockPtr::decode(value.try_into().unwrap()).unwrap()))
                }
                _ => {}
            }
        };
        root.tree.check(&pool.io, &mut take);
        let all: u64 = inodes.iter().map(|(_, inode)| inode.reserved_bytes()).sum();
        assert_eq!(root.reserved_bytes, all, "the root says what its files say");
        let (mut more, mut charged) = (0, all);
        for (id, inode) in inodes.iter().filter(|(_, inode)| inode.reserved.is_some()) {
            let there = extents.iter().filter(|(of, at, _)| of == id && inode.is_reserved(*at));
            let in_blocks: u64 = there.map(|(_, _, block)| block.asize() + EXTENT_BYTES).sum();
            let is_small = inode.is_reserved(0) && inode.layout == tally_fs::inode::Layout::Small;
            let taken = if is_small { inode.used + EXTENT_BYTES } else { in_blocks };
            let needed = inode.reserved_beside(taken);
            assert!(inode.reserved_bytes() >= needed, "{} bytes are kept of {needed}", inode.reserved_bytes());
            assert!(inode.reserved_bytes() <= inode.reserved_beside(0), "{} bytes are kept", inode.reserved_bytes());
            charged += taken;
            // A file is charged for having any, and stops at that.
            more += inode.reserved_bytes() - needed.max(4096);
        }
        (all, more, charged)
    }
}

const PLAIN: &[(Property, &str)] = &[(Property::Compression, "off")];
/// Blocks of a mebibyte.
const LONG: &[(Property, &str)] = &[(Property::Compression, "off"), (Property::RecordSize, "1M")];

/// The promise itself. Others have taken all there is, groups have passed: each block is written for the first time and then twice again, in parts, whole, in long
/// WRITEs and from the end; and none of it was theirs.
#[test]
fn in_a_full_pool_there_is_room_for_what_was_reserved() {
    for properties in [PLAIN, &[], &[(Property::RecordSize, "1M")], &[(Property::RecordSize, "4K")]] {
        let pool = Reserving::new(properties);
        let file = pool.file("f");
        pool.reserve(file, 0, 16 * MIB).expect("an empty pool");
        let (taken, refused) = pool.fill("others");
        assert_eq!(refused, FsError::NoSpace);
        assert!((8 * MIB..45 * MIB).contains(&taken), "{taken}");
        pool.settle();
        for (round, part) in [4096, RECORD, MIB, 60_000].into_iter().enumerate() {
            let starts: Vec<u64> = (0..16 * MIB - part).step_by(part as usize * 3).collect();
            let starts = if round % 2 == 0 { starts } else { starts.into_iter().rev().collect() };
            for at in starts {
                let how = if at % 5 == 0 { Stability::FileSync } else { Stability::Unstable };
                let written = pool.write(file, at, &noise(part as usize, at + round as u64), how);
                written.unwrap_or_else(|error| panic!("{properties:?}, {part} at {at}: {error}"));
            }
            pool.settle();
        }
        for at in (0..16 * MIB).step_by(MIB as usize) {
            pool.write(file, at, &noise(MIB as usize, at), Stability::Unstable).expect("it was promised");
        }
        assert_eq!(pool.write(file, 16 * MIB, &noise(MIB as usize, 1), Stability::Unstable), Err(FsError::NoSpace));
        pool.check();
        assert_eq!(content(&*pool.fs, file)[..MIB as usize], noise(MIB as usize, 0)[..]);
        pool.remove("others");
        pool.settle();
        pool.write(file, 16 * MIB, &noise(MIB as usize, 1), Stability::Unstable).expect("there is room again");
    }
}

#[test]
fn what_there_is_no_room_for_is_refused_as_a_whole() {
    let pool = Reserving::new(PLAIN);
    let (file, other) = (pool.file("f"), pool.file("g"));
    pool.write(file, 0, &noise(100, 1), Stability::FileSync).unwrap();
    let before = pool.fs.getattr(file).unwrap();
    for length in [80 * MIB, 1 << 40, (1 << 63) - 1] {
        assert_eq!(pool.reserve(file, 0, length), Err(FsError::NoSpace), "{length}");
    }
    assert_eq!(pool.reserve(file, 1, (1 << 63) - 1), Err(FsError::TooBig));
    assert_eq!(pool.fs.getattr(file).unwrap(), before);
    assert_eq!(pool.check(), (0, 0));
    pool.reserve(other, 0, 30 * MIB).unwrap();
    let free = pool.fs.statfs().unwrap().available_bytes;
    assert!(free < 30 * MIB, "{free}");
    assert_eq!(pool.reserve(file, 0, 40 * MIB), Err(FsError::NoSpace), "nothing is promised twice");
    assert_eq!(pool.fs.getattr(file).unwrap(), before);
    // In groups that are not synced neither.
    let (mut given, mut at) = (0, 0);
    while pool.fs.allocate(ctx(&pool.cred), file, at, 2 * MIB).result.is_ok() {
        (given, at) = (given + 2 * MIB, at + 2 * MIB);
    }
    assert!(given <= free, "{given} of {free}");
}

/// A crash between the promise and its group: the log has it. In it, and behind the group, too.
/// What groups may bring is not enough: who asks for more is told so, and does not wait as long as anybody writes.
#[test]
fn what_no_group_can_bring_is_refused_at_once() {
    let pool = Reserving::new(&[]);
    let (taken, file) = (pool.file("taken"), pool.file("reserved"));
    (0..30).for_each(|at| pool.write(taken, at * MIB, &noise(MIB as usize, at), Stability::Unstable).unwrap());
    pool.settle();
    // A group that is not synced has something set aside.
    pool.write(taken, 0, &noise(MIB as usize, 99), Stability::Unstable).unwrap();
    let told = pool.fs.allocate(ctx(&pool.cred), file, 0, 60 * MIB).result;
    assert_eq!(told, Err(FsError::NoSpace));
    assert_eq!(pool.reserve(file, 0, 10 * MIB), Ok(()), "there is room for less");
}

#[test]
fn a_promise_is_there_behind_a_crash() {
    for syncs in 0..3 {
        let mut pool = Reserving::new(PLAIN);
        let file = pool.file("f");
        pool.settle();
        pool.reserve(file, 0, 20 * MIB).unwrap();
        (0..syncs).for_each(|_| _ = pool.filer.sync().unwrap());
        pool.write(file, 0, &noise(300_000, 1), Stability::FileSync).unwrap();
        pool.write(file, MIB, &noise(300_000, 1), Stability::Unstable).unwrap();
        if syncs == 1 {
            pool.world.lose_power_after(5);
            let _ = pool.filer.sync();
        }
        pool.cut_power();
        assert_eq!(pool.fs.getattr(file).unwrap().size, 20 * MIB);
        assert!(pool.check().0 > 18 * MIB, "the log says what was promised");
        assert_eq!(pool.fill("others").1, FsError::NoSpace);
        pool.settle();
        pool.check();
        for at in (0..20 * MIB).step_by(MIB as usize) {
            pool.write(file, at, &noise(MIB as usize, at), Stability::FileSync).expect("it was promised");
        }
        pool.cut_power();
        assert_eq!(content(&*pool.fs, file)[..MIB as usize], noise(MIB as usize, 0)[..]);
    }
}

#[test]
fn what_is_punched_cut_and_removed_is_given_back() {
    let pool = Reserving::new(PLAIN);
    let file = pool.file("f");
    pool.reserve(file, 0, 20 * MIB).unwrap();
    let (all, more) = pool.check();
    assert!((20 * MIB..21 * MIB).contains(&all) && more == 0, "{all}");
    assert_eq!(pool.fs.seek(ctx(&pool.cred), file, 0, Sought::Data).unwrap().offset, 20 * MIB, "nothing is there");
    for at in 0..4 {
        pool.write(file, at * MIB, &noise(MIB as usize, at), Stability::FileSync).unwrap();
    }
    let (left, more) = pool.check();
    assert!(left < 17 * MIB && more == 0, "what is written takes its place: {left}");
    pool.punch(file, 2 * MIB, 10 * MIB);
    let (left, more) = pool.check();
    assert!((8 * MIB..9 * MIB).contains(&left) && more == 0, "{left}");
    pool.resize(file, 13 * MIB).unwrap();
    let (left, _) = pool.check();
    assert!((MIB..2 * MIB).contains(&left), "{left}");
    // A file that grows again has nothing more of it.
    pool.resize(file, 30 * MIB).unwrap();
    assert!(pool.check().0 < 2 * MIB);
    pool.reserve(file, 0, 20 * MIB).unwrap();
    assert!(pool.check().0 > 17 * MIB);
    pool.remove("f");
    assert_eq!(pool.check(), (0, 0));
    let child: Arc<dyn Vfs> = pool.filer.create_dataset("tank/child", PropertySet::new(), (0, 0)).unwrap();
    let how = CreateHow::Guarded(mode(0o644));
    let made = done(child.create(ctx(&pool.cred), child.root(), b"f", &how)).unwrap().object;
    done(child.allocate(ctx(&pool.cred), made, 0, 30 * MIB)).unwrap();
    pool.filer.sync().unwrap();
    assert!(pool.filer.pool().txgs.promised().promised_bytes > 30 * MIB);
    pool.filer.destroy_dataset("tank/child", false).unwrap();
    assert_eq!(pool.filer.pool().txgs.promised().promised_bytes, 0);
}

/// Under a quota what is reserved counts as if it were written, and what is written in it no more.
#[test]
fn a_quota_counts_what_is_reserved_once() {
    for property in [Property::RefQuota, Property::Quota] {
        let pool = Reserving::new(PLAIN);
        let file = pool.file("f");
        pool.settle();
        pool.filer.set_property("tank", parse(property, "12M").unwrap()).unwrap();
        assert_eq!(pool.reserve(file, 0, 13 * MIB), Err(FsError::Quota));
        assert_eq!(pool.fs.getattr(file).unwrap().size, 0);
        pool.reserve(file, 0, 8 * MIB).unwrap();
        assert_eq!(pool.reserve(file, 8 * MIB, 5 * MIB), Err(FsError::Quota));
        let (taken, refused) = pool.fill("others");
        assert_eq!(refused, FsError::Quota);
        assert!((2 * MIB..4 * MIB).contains(&taken), "{taken}");
        pool.settle();
        for round in 0..3 {
            for at in (0..8 * MIB).step_by(MIB as usize) {
                pool.write(file, at, &noise(MIB as usize, at + round), Stability::FileSync).expect("it was promised");
            }
        }
        let (left, _) = pool.check();
        let used = pool.filer.datasets()[0].used_bytes;
        assert!(used + left <= 12 * MIB, "{used} and {left}");
        assert_eq!(pool.write(file, 8 * MIB, &noise(MIB as usize, 1), Stability::FileSync), Err(FsError::Quota));
    }
}

/// Where all is written already, there is nothing to ask for; and it need not be asked for twice.
#[test]
fn what_a_file_has_already_is_not_asked_for_again() {
    let pool = Reserving::new(PLAIN);
    let file = pool.file("f");
    for at in 0..20 {
        pool.write(file, at * MIB, &noise(MIB as usize, at), Stability::Unstable).unwrap();
    }
    pool.settle();
    let (_, refused) = pool.fill("others");
    assert_eq!(refused, FsError::NoSpace);
    pool.settle();
    assert_eq!(pool.reserve(file, 20 * MIB, 8 * MIB), Err(FsError::NoSpace), "that nobody has");
    pool.remove("others");
    pool.settle();
    pool.reserve(file, 0, 20 * MIB).unwrap();
    let (left, more) = pool.check();
    assert!(left < 2 * MIB && more == 0, "{left}");
    pool.fill("others");
    pool.settle();
    for at in 0..20 {
        pool.write(file, at * MIB, &noise(MIB as usize, at + 9), Stability::Unstable).expect("anew as well");
    }
}

#[test]
fn of_ranges_there_is_a_bound_and_nothing_is_forgotten_beyond() {
    let pool = Reserving::new(PLAIN);
    let file = pool.file("f");
    for range in 0..32 {
        pool.reserve(file, range * 3 * RECORD, 2 * RECORD).unwrap();
    }
    let before = pool.fs.getattr(file).unwrap();
    assert_eq!(pool.reserve(file, 200 * RECORD, 1), Err(FsError::NoSpace));
    assert_eq!(pool.fs.getattr(file).unwrap(), before);
    let (all, _) = pool.check();
    // What would make two of one stays reserved, and what closes a gap is one less.
    pool.resize(file, 300 * RECORD).unwrap();
    pool.punch(file, 0, RECORD);
    let (left, more) = pool.check();
    assert!(left < all && more == 0);
    pool.reserve(file, 2 * RECORD, RECORD).unwrap();
    pool.reserve(file, 200 * RECORD, 3 * RECORD).unwrap();
    let (all, _) = pool.check();
    pool.punch(file, 201 * RECORD, RECORD);
    assert_eq!(pool.check().0, all);
    pool.punch(file, 0, 300 * RECORD);
    assert_eq!(pool.check(), (0, 0));
}

/// Those who write what was promised come all at once, beside others who take what they get and those who punch and reserve it anew.
#[test]
fn those_who_come_at_once_are_promised_nothing_twice() {
    let world = World::new(64 << 20, 16 << 20);
    let properties = PLAIN.iter().map(|(property, value)| parse(*property, value).unwrap()).collect();
    let filer = world.create_with(&CreateOptions { properties, ..CreateOptions::default() });
    let (fs, cred, how) = (vfs(&filer), Cred::root(), CreateHow::Guarded(mode(0o644)));
    let make = |name: &str| patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).unwrap().object;
    let files: Vec<_> = (0..3).map(|number| make(&format!("f{number}"))).collect();
    for file in &files {
        patient(|| fs.allocate(ctx(&cred), *file, 0, 5 * MIB)).unwrap();
    }
    let (others, over) = ([make("g0"), make("g1")], AtomicBool::new(false));
    std::thread::scope(|scope| {
        for other in others {
            let (fs, cred, over) = (&fs, &cred, &over);
            scope.spawn(move || {
                let mut at = 0;
                while !over.load(Ordering::Relaxed) {
                    let (from, data) = (at % (40 * MIB), noise(RECORD as usize, at));
                    match patient(|| fs.write(ctx(cred), other, from, data.clone(), Stability::Unstable)) {
                        Ok(_) => at += RECORD,
                        Err(FsError::NoSpace) => at = (at / 7) / RECORD * RECORD,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let writers: Vec<_> = files
            .iter()
            .map(|file| {
                let (fs, cred) = (&fs, &cred);
                scope.spawn(move || {
                    for round in 0..4 {
                        for at in (0..5 * MIB).step_by(300_000) {
                            let data = noise(300_000.min((5 * MIB - at) as usize), at + round);
                            let write = || fs.write(ctx(cred), *file, at, data.clone(), Stability::FileSync);
                            if let Err(error) = patient(write) {
                                return Err((round, at, error));
                            }
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let told: Vec<_> = writers.into_iter().map(|writer| writer.join().expect("no panic")).collect();
        over.store(true, Ordering::Relaxed);
        assert!(told.iter().all(Result::is_ok), "{told:?}");
    });
}

/// What blocks in `range` may take with what goes around them.
fn room(range: std::ops::Range<u64>, record_size: u64) -> u64 {
    let blocks = range.end.div_ceil(record_size) - range.start / record_size;
    blocks * (record_size + EXTENT_BYTES + 4096)
}

/// Whatever comes one after the other, what is kept is what may still come: no less, also where a group may look at few extents, and with many no more; and it never
/// rises but with what is reserved and with files that grow. Of files that are gone nothing is left.
#[test]
fn what_is_kept_is_what_may_still_come() {
    const SMALL: &[(Property, &str)] = &[(Property::RecordSize, "4K")];
    let all = Tuning::default().reap_extents_max;
    let pools = [(PLAIN, all), (&[], all), (SMALL, all), (PLAIN, 1), (PLAIN, 5), (&[], 5), (SMALL, 50)];
    for (seed, (properties, reap_extents_max)) in pools.into_iter().enumerate() {
        let (record_size, is_few) = (if properties == SMALL { 4096 } else { RECORD }, reap_extents_max < all);
        let mut pool = Reserving::reaping(properties, reap_extents_max);
        let files = [pool.file("f"), pool.file("g")];
        let mut dice = Dice(seed as u64 + 77);
        let (mut charged, mut may_rise) = (0, 0);
        for round in 0..400 {
            let file = files[dice.below(2) as usize];
            let size = pool.fs.getattr(file).unwrap().size;
            let most = if dice.below(3) == 0 { MIB } else { 20_000 };
            let (at, length) = (dice.below(3 * MIB), 1 + dice.below(most));
            match dice.below(16) {
                0..=3 => {
                    let data = if dice.below(4) == 0 {
                        Bytes::from(vec![7; length as usize])
                    } else {
                        noise(length as usize, at)
                    };
                    pool.write(file, at, &data, Stability::Unstable).unwrap();
                }
                4..=5 => pool.write(file, at, &noise(length as usize, at), Stability::FileSync).unwrap(),
                6..=8 => match pool.reserve(file, at, length) {
                    // What is there and is not counted is kept for once more.
                    Ok(()) => may_rise += room(at..at + length, record_size) * (1 + u64::from(is_few)) + 4096,
                    Err(FsError::NoSpace) => {}
                    Err(error) => panic!("{error}"),
                },
                9..=10 => pool.punch(file, at, length),
                11 => pool.resize(file, at).unwrap(),
                12..=13 => pool.filer.sync().map(drop).unwrap(),
                14 if dice.below(3) == 0 => pool.cut_power(),
                _ => {
                    let more = pool.check().1;
                    assert!(more == 0 || is_few, "seed {seed}, round {round}: {more}");
                    let now = pool.charged();
                    let most = charged + may_rise;
                    assert!(now <= most, "seed {seed}, round {round}: {now} of {most}");
                    (charged, may_rise) = (now, 0);
                }
            }
            if pool.fs.getattr(file).unwrap().size > size {
                may_rise += record_size;
            }
        }
        pool.check();
        for name in ["f", "g"] {
            pool.remove(name);
        }
        pool.reap_all();
        assert_eq!(pool.check(), (0, 0));
    }
}

/// In a full pool: what was freed since has gone to others, who come again for what the reaper frees.
fn writes_find_room(pool: &Reserving, file: ObjectRef, blocks: &[u64]) {
    for round in 0..3 {
        pool.fill(&format!("others {round}"));
        pool.settle();
        for at in blocks {
            let data = noise(RECORD as usize, at + round);
            let written = pool.write(file, at * RECORD, &data, Stability::Unstable);
            written.unwrap_or_else(|error| panic!("round {round}, block {at}: {error}"));
        }
        pool.settle();
        pool.check();
    }
}

/// What was punched was reserved anew in the same group, which could free one extent of it. The others counted as what was taken, went to the reaper, and then to whoever
/// came: the WRITE that was promised room was refused.
#[test]
fn what_the_reaper_frees_of_a_range_is_kept_for_it() {
    for reap_extents_max in [1, 5] {
        let pool = Reserving::reaping(PLAIN, reap_extents_max);
        let file = pool.file("f");
        for at in 0..16 {
            pool.write(file, at * MIB, &noise(MIB as usize, at), Stability::Unstable).unwrap();
        }
        pool.settle();
        pool.punch(file, 0, 16 * MIB);
        pool.reserve(file, 0, 16 * MIB).unwrap();
        pool.check();
        pool.reap_all();
        assert_eq!(pool.check().1, 0);
        writes_find_room(&pool, file, &(0..128).collect::<Vec<_>>());
    }
}

/// The same where a punched range stays reserved, as there would be too many.
#[test]
fn what_stays_reserved_though_it_was_punched_is_kept() {
    let pool = Reserving::reaping(PLAIN, 1);
    let file = pool.file("f");
    for at in 0..16 {
        pool.write(file, at * MIB, &noise(MIB as usize, at), Stability::Unstable).unwrap();
    }
    pool.settle();
    for range in 0..31 {
        pool.reserve(file, range * 2 * RECORD, RECORD).unwrap();
    }
    pool.reserve(file, 64 * RECORD, 64 * RECORD).unwrap();
    pool.settle();
    pool.punch(file, 66 * RECORD, 60 * RECORD);
    pool.check();
    pool.reap_all();
    let blocks: Vec<_> = (0..31).map(|range| range * 2).chain(64..128).collect();
    writes_find_room(&pool, file, &blocks);
}

/// A punch and a cut in a file of more extents than a group may count, and of which far more could be stored than is: what was written in its ranges was
/// reserved for it once more.
#[test]
fn what_is_kept_does_not_rise_with_a_punch_or_a_cut() {
    for reap_extents_max in [1, 5] {
        let pool = Reserving::reaping(PLAIN, reap_extents_max);
        let file = pool.file("f");
        pool.reserve(file, 0, 16 * MIB).unwrap();
        for at in 0..16 {
            pool.write(file, at * MIB, &noise(MIB as usize, at), Stability::Unstable).unwrap();
        }
        pool.resize(file, 60 * MIB).unwrap();
        let mut kept = pool.check().0;
        let mut take_away = |what: &dyn Fn()| {
            what();
            let now = pool.check().0;
            assert!(now <= kept, "{now} of {kept}");
            kept = now;
        };
        take_away(&|| pool.punch(file, 4 * MIB, RECORD));
        take_away(&|| pool.punch(file, 8 * MIB, 3 * MIB));
        take_away(&|| pool.resize(file, 15 * MIB + 1).unwrap());
        take_away(&|| pool.punch(file, 0, RECORD));
        take_away(&|| pool.resize(file, 3 * MIB).unwrap());
        take_away(&|| pool.punch(file, 0, 3 * MIB));
        assert_eq!(kept, 0);
        pool.reap_all();
        assert_eq!(pool.check(), (0, 0));
    }
}

/// Files whose last blocks become longer, which nobody has reserved: each was written anew at full length, out of what was kept for who had asked.
#[test]
fn growth_takes_nothing_that_is_promised() {
    let pool = Reserving::new(LONG);
    let (file, own) = (pool.file("f"), pool.file("own"));
    pool.reserve(file, 0, 16 * MIB).unwrap();
    pool.reserve(own, 0, 5000).unwrap();
    let names: Vec<_> = (0..24).map(|number| format!("g{number}")).collect();
    let short: Vec<_> = names.iter().map(|name| pool.file(name)).collect();
    for (seed, file) in short.iter().enumerate() {
        pool.write(*file, 0, &noise(5000, seed as u64), Stability::Unstable).unwrap();
    }
    pool.write(own, 0, &noise(5000, 1), Stability::Unstable).unwrap();
    pool.fill("others");
    pool.settle();
    let grown = short.iter().filter(|file| pool.resize(**file, MIB).is_ok()).count();
    assert!(grown < 4, "{grown} of them have grown");
    assert_eq!(pool.resize(own, MIB), Err(FsError::NoSpace), "what grows with it is promised, too");
    pool.settle();
    for at in 0..16 {
        pool.write(file, at * MIB, &noise(MIB as usize, at), Stability::FileSync).expect("it was promised");
    }
}

/// Each file of which anything was reserved asked for a block more when it was made longer, though its last block was not reserved, or as long as a block may be: at a full
/// quota it was refused, and took nothing (seed 33 of the simulated world, as drawn on 2026-11-30).
#[test]
fn what_grows_behind_what_is_reserved_asks_for_nothing() {
    let pool = Reserving::new(PLAIN);
    let (file, whole, short) = (pool.file("f"), pool.file("g"), pool.file("h"));
    for file in [file, whole] {
        pool.reserve(file, 0, 4 * RECORD).unwrap();
    }
    pool.reserve(short, 0, 5000).unwrap();
    pool.resize(file, 6 * RECORD).unwrap();
    pool.settle();
    let info = &pool.filer.datasets()[0];
    let full = (info.used_bytes + info.reserved_bytes).to_string();
    pool.filer.set_property("tank", parse(Property::RefQuota, &full).unwrap()).unwrap();
    let kept = pool.check();
    for file in [file, whole] {
        pool.resize(file, 9 * RECORD).expect("nothing more is reserved");
    }
    assert_eq!(pool.resize(short, RECORD), Err(FsError::Quota), "its block is reserved as it grows");
    assert_eq!(pool.check(), kept);
}

/// In a full pool and at a full quota there is nothing to ask for where all is reserved already.
#[test]
fn what_is_reserved_may_be_reserved_again() {
    for is_quota in [false, true] {
        let pool = Reserving::new(LONG);
        let file = pool.file("f");
        if is_quota {
            pool.filer.set_property("tank", parse(Property::RefQuota, "20M").unwrap()).unwrap();
        }
        pool.reserve(file, 0, 8 * MIB + 5).unwrap();
        let short = ["s", "t", "u", "v"].map(|name| pool.file(name));
        for file in short {
            pool.write(file, 0, &noise(5000, 1), Stability::Unstable).unwrap();
        }
        let full = pool.fill("others").1;
        pool.settle();
        // Below what is kept back of those who bring something.
        for file in short {
            pool.resize(file, 200_000).expect("it takes little");
        }
        pool.settle();
        let (kept, before) = (pool.check(), pool.fs.getattr(file).unwrap());
        for (offset, length) in [(0, 8 * MIB + 5), (5, 4096), (8 * MIB + 4, 1)] {
            pool.reserve(file, offset, length).unwrap_or_else(|error| panic!("{length} from {offset}: {error}"));
        }
        assert_eq!(pool.check(), kept);
        let after = pool.fs.getattr(file).unwrap();
        assert!(after.size == before.size && after.mtime > before.mtime);
        assert_eq!(pool.reserve(file, 0, 10 * MIB), Err(full));
        assert_eq!(pool.fs.getattr(file).unwrap(), after);
    }
}

/// Which blocks of a file are promised, by what was said.
#[derive(Clone, Default)]
struct Promised(std::collections::BTreeSet<u64>);

impl Promised {
    fn reserved(&mut self, from: u64, to: u64) {
        self.0.extend(from / RECORD..to.div_ceil(RECORD));
    }

    /// Of the whole blocks in a range; what lies behind the end of the file is whole.
    fn gone(&mut self, from: u64, to: u64, size: u64) {
        let end = if to >= size { u64::MAX } else { to / RECORD };
        self.0.retain(|block| *block < from.div_ceil(RECORD) || *block >= end);
    }
}

/// Others take all there is, time and again; ranges are reserved, punched, cut and removed; quotas come and go; the power goes at any write. Whoever writes where he was promised room
/// has it, and nobody is told to wait for ever.
#[test]
fn whatever_comes_in_between_a_promise_is_kept() {
    let mut kept = 0;
    for seed in 1..=seeds() {
        let properties: &[(Property, &str)] = if seed % 3 == 0 { &[] } else { PLAIN };
        let reap_extents_max = [1, 5, Tuning::default().reap_extents_max][seed as usize / 2 % 3];
        let mut pool = Reserving::reaping(properties, reap_extents_max);
        let names = ["f", "g", "h"];
        let mut files: Vec<_> = names.iter().map(|name| (pool.file(name), Promised::default())).collect();
        let (mut dice, mut is_others, mut quota) = (Dice(seed * 7919 + 11), false, false);
        for round in 0..120 {
            let at_file = dice.below(3) as usize;
            let (file, promised) = &mut files[at_file];
            let size = pool.fs.getattr(*file).unwrap().size;
            let most = if dice.below(2) == 0 { 4 * MIB } else { 200_000 };
            let (at, length) = (dice.below(10 * MIB), 1 + dice.below(most));
            match dice.below(20) {
                0..=3 => match pool.reserve(*file, at, length) {
                    Ok(()) => promised.reserved(at, at + length),
                    Err(FsError::NoSpace | FsError::Quota) => {}
                    Err(error) => panic!("seed {seed}, round {round}: {error}"),
                },
                4..=10 => {
                    let Some(block) = promised.0.iter().nth(dice.below(promised.0.len().max(1) as u64) as usize) else {
                        continue;
                    };
                    let blocks = (*block..).take_while(|block| promised.0.contains(block)).take(8).count() as u64;
                    let (from, to) = (block * RECORD, ((block + blocks) * RECORD).min(size));
                    let start = if dice.below(2) == 0 { from } else { from + dice.below(to - from) };
                    let length = 1 + dice.below((to - start).min(MIB));
                    let how = if dice.below(2) == 0 { Stability::FileSync } else { Stability::Unstable };
                    let written = pool.write(*file, start, &noise(length as usize, start ^ round), how);
                    written.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {length} at {start}: {error}"));
                    kept += 1;
                }
                11 => {
                    pool.punch(*file, at, length);
                    promised.gone(at, at + length, size);
                }
                12 if dice.below(3) == 0 => {
                    if pool.resize(*file, at).is_ok() {
                        promised.gone(at, u64::MAX, at);
                    }
                }
                13 if dice.below(3) == 0 => {
                    pool.remove(names[at_file]);
                    let Ok(made) = pool.try_file(names[at_file]) else { break };
                    files[at_file] = (made, Promised::default());
                }
                14..=15 if !is_others => {
                    // At a full quota not even that is made.
                    let Ok(others) = pool.try_file("others") else { continue };
                    is_others = true;
                    pool.fill_into(others);
                }
                16 if is_others => {
                    pool.remove("others");
                    is_others = false;
                }
                17 if dice.below(2) == 0 => {
                    quota = !quota;
                    let info = &pool.filer.datasets()[0];
                    let bytes = info.used_bytes + info.reserved_bytes + dice.below(4) * MIB;
                    let value = if quota { bytes.to_string() } else { "none".to_owned() };
                    let set = pool.filer.set_property("tank", parse(Property::RefQuota, &value).unwrap());
                    set.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
                }
                18 => {
                    pool.check();
                }
                _ => {
                    if dice.below(2) == 0 {
                        pool.world.lose_power_after(dice.below(40));
                        let _ = pool.filer.sync();
                    }
                    pool.cut_power();
                }
            }
        }
        pool.check();
    }
    assert!(kept > 10 * seeds(), "{kept} WRITEs were promised room");
}

fn seeds() -> u64 {
    std::env::var("SEEDS").map_or(6, |seeds| seeds.parse().expect("a number"))
}
