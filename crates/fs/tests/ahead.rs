//! What is fetched before its reader asks for it: how much, by how few reads of the disk, and what becomes of it when it is
//! freed, rotten, or wanted by nobody. Nothing happens by itself here: the test says when something is fetched.

mod world;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::RwLock;
use tally_base::{Clock, Seat, SystemClock, Time, seat_this_thread};
use tally_fs::Filer;
use tally_fs::filer::{CreateOptions, ImportOptions};
use tally_store::bp::BlockKind;
use tally_store::io::PrefetchStats;
use tally_store::key::{Class, Key};
use tally_store::properties::{Property, parse};
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, ObjectRef, Stability, Vfs};
use world::{World, content, ctx, mode, noise, vfs};

const MIB: u64 = 1 << 20;
const RECORD: u64 = 128 << 10;

/// A pool that was just imported: nothing of its files is cached.
struct Cold {
    record: u64,
    filer: Arc<Filer>,
    fs: Arc<dyn Vfs>,
    cred: Cred,
}

impl Cold {
    fn new(world: &World, files: &[(&str, u64)], cache_bytes: u64) -> Self {
        Self::with_record(world, files, cache_bytes, RECORD)
    }

    fn with_record(world: &World, files: &[(&str, u64)], cache_bytes: u64, record: u64) -> Self {
        let size = record.to_string();
        let properties = [(Property::Compression, "off"), (Property::RecordSize, size.as_str())];
        let properties = properties.map(|(property, value)| parse(property, value).unwrap()).into_iter().collect();
        let filer = world.create_without_threads(&CreateOptions { properties, ..CreateOptions::default() });
        let warm = Self { record, fs: vfs(&filer), filer, cred: Cred::root() };
        for (seed, (name, blocks)) in (1..).zip(files) {
            warm.write(name, seed, *blocks);
        }
        warm.filer.export().expect("a clean export");
        Self::import(world, cache_bytes, record)
    }

    fn import(world: &World, cache_bytes: u64, record: u64) -> Self {
        let tuning = Tuning { cache_bytes, ..Tuning::default() };
        let (filer, _) = world.try_import_without_threads(&tuning, &ImportOptions::default()).expect("an import");
        Self { record, fs: vfs(&filer), filer, cred: Cred::root() }
    }

    /// A file of so many blocks of noise.
    fn write(&self, name: &str, seed: u64, blocks: u64) {
        let how = CreateHow::Guarded(mode(0o644));
        let file = self.fs.create(ctx(&self.cred), self.fs.root(), name.as_bytes(), &how);
        let file = file.result.expect("a new name").object;
        for block in 0..blocks {
            let data = noise(self.record as usize, seed * 100_000 + block);
            let write = || self.fs.write(ctx(&self.cred), file, block * self.record, data.clone(), Stability::Unstable);
            while write().result == Err(FsError::Throttled) {
                self.filer.sync().expect("there is room");
            }
        }
        self.filer.sync().expect("there is room");
    }

    fn file(&self, name: &str) -> ObjectRef {
        self.fs.lookup(&self.cred, self.fs.root(), name.as_bytes()).expect("it was made").0.object
    }

    fn read(&self, file: ObjectRef, block: u64) -> Result<Bytes, FsError> {
        let read = self.fs.read(&self.cred, file, block * self.record, self.record as u32)?;
        Ok(read.data.concat().into())
    }

    /// Reads blocks in this order, with everything fetched that was asked for in between.
    fn read_all(&self, file: ObjectRef, seed: u64, blocks: impl IntoIterator<Item = u64>) {
        for block in blocks {
            assert_eq!(
                self.read(file, block),
                Ok(noise(self.record as usize, seed * 100_000 + block)),
                "block {block}"
            );
            self.work();
        }
    }

    fn work(&self) {
        while self.filer.read_ahead_once() {}
    }

    fn stats(&self) -> PrefetchStats {
        self.filer.pool().io.prefetch_stats()
    }

    /// Reads that the data disks were asked for, and their bytes.
    fn disk_reads(&self) -> (u64, u64) {
        let counts = self.filer.pool().roster.data_legs().map(|leg| leg.counts());
        counts.fold((0, 0), |(reads, bytes), of| (reads + of.reads, bytes + of.read_bytes))
    }

    fn checksum_errors(&self) -> u64 {
        self.filer.pool().roster.data_legs().map(|leg| leg.errors().checksum).sum()
    }

    /// Where a block of a file lies on its disk, behind the label.
    fn place(&self, file: ObjectRef, block: u64) -> u64 {
        let (pool, root) = (self.filer.pool(), self.filer.pool().datasets()[0].root());
        let key = Key::new(Class::Extent, file.id.0, block * self.record, 0);
        let value = root.tree.get(&pool.io, &key).expect("a sound tree").expect("it is there");
        let bp = tally_store::bp::BlockPtr::decode(value[..].try_into().expect("a pointer")).expect("a pointer");
        bp.dva.offset
    }
}

#[test]
fn a_stream_costs_few_reads_of_the_disk_and_reads_nothing_twice() {
    const BLOCKS: u64 = 256;
    let world = World::new(128 * MIB, 16 * MIB).without_helpers();
    let cold = Cold::new(&world, &[("file", BLOCKS)], 64 * MIB);
    let ways: [(&str, Vec<u64>); 3] = [
        ("in order", (0..BLOCKS).collect()),
        ("backwards", (0..BLOCKS).rev().collect()),
        ("out of order", (0..BLOCKS / 4).flat_map(|at| [2, 0, 3, 1].map(|of| at * 4 + of)).collect()),
    ];
    for (name, blocks) in ways {
        let cold = {
            drop(cold.filer.export());
            Cold::import(&world, 64 * MIB, RECORD)
        };
        let file = cold.file("file");
        let (reads_before, bytes_before) = cold.disk_reads();
        cold.read_all(file, 1, blocks);
        let (reads, bytes) = cold.disk_reads();
        let (reads, bytes, stats) = (reads - reads_before, bytes - bytes_before, cold.stats());
        assert!(reads < BLOCKS / 2, "{name}: {reads} reads of the disk for {BLOCKS} blocks, {stats:?}");
        assert!(bytes < (BLOCKS + 4) * RECORD, "{name}: {bytes} bytes");
        assert!(stats.hits > BLOCKS - 16 && stats.hits + stats.misses == BLOCKS, "{name}: {stats:?}");
        assert_eq!(stats.unread_bytes, 0, "{name}");
        cold.filer.export().expect("a clean export");
    }
}

#[test]
fn who_reads_at_random_has_nothing_fetched_and_neither_has_who_reads_what_is_cached() {
    const RECORD: u64 = 4096;
    const BLOCKS: u64 = 8192;
    let world = World::new(128 * MIB, 16 * MIB).without_helpers();
    let cold = Cold::with_record(&world, &[("file", BLOCKS)], 64 * MIB, RECORD);
    let file = cold.file("file");
    let mut state = 1_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % BLOCKS
    };
    let (reads_before, _) = cold.disk_reads();
    let mut dealt = Vec::new();
    while dealt.len() < 500 {
        let block = draw();
        if !dealt.contains(&block) {
            dealt.push(block);
        }
    }
    for block in &dealt {
        assert!(cold.read(file, *block).is_ok());
        cold.work();
    }
    let (reads, _) = cold.disk_reads();
    assert_eq!(cold.stats().bytes, 0, "{:?}", cold.stats());
    // Each block once, and the leaves that name them.
    assert!(reads - reads_before <= dealt.len() as u64 + 80, "{} reads", reads - reads_before);
    // Everything once in order, and again: the second time nobody asks for anything.
    cold.read_all(file, 1, 0..BLOCKS);
    let (stats, reads) = (cold.stats(), cold.disk_reads());
    cold.read_all(file, 1, 0..BLOCKS);
    assert_eq!((cold.stats(), cold.disk_reads()), (stats, reads));
}

/// A reader who comes before the flight has begun carries it out, and waits for no thread.
#[test]
fn a_reader_does_not_wait_for_threads() {
    let world = World::new(64 * MIB, 16 * MIB).without_helpers();
    let cold = Cold::new(&world, &[("file", 64)], 64 * MIB);
    let file = cold.file("file");
    for block in 0..64 {
        assert_eq!(cold.read(file, block), Ok(noise(RECORD as usize, 100_000 + block)));
        // One thing for each READ: what else it has left behind is left to the reader.
        cold.filer.read_ahead_once();
    }
    let stats = cold.stats();
    assert!(stats.hits > 32 && stats.hits + stats.misses == 64, "{stats:?}");
}

/// Waits for its disk until the gate is opened.
struct Stuck(Arc<RwLock<()>>, Sender<()>);

impl Seat for Stuck {
    fn sits_down(&self) {
        self.1.send(()).expect("somebody listens");
        drop(self.0.read());
    }

    fn stands_up(&self) {}
}

/// Streams give way to READs of none. But sixteen readers who began at once had nothing fetched for their second READ, as the
/// first ones of the others counted as such: each came once more for a single block. A READ that is all of its file begins
/// none, and there are a great many of those.
#[test]
fn streams_give_way_to_others_but_not_to_who_begins_one() {
    const BLOCKS: u64 = 64;
    let files = ["one", "another", "third", "fourth", "fifth"];
    let world = World::new(128 * MIB, 16 * MIB).without_helpers();
    let whole = ["a", "b", "c"];
    let lengths = files.map(|name| (name, BLOCKS)).into_iter().chain(whole.map(|name| (name, 1)));
    let cold = Cold::new(&world, &lengths.collect::<Vec<_>>(), 64 * MIB);
    let files = files.map(|name| cold.file(name));
    // The nodes of the tree come into the cache.
    files.iter().for_each(|file| assert!(cold.read(*file, BLOCKS - 1).is_ok()));
    let gate = Arc::new(RwLock::new(()));
    let stuck_at = |file: ObjectRef, block: u64| {
        let (fs, (waits, comes)) = (Arc::clone(&cold.fs), channel());
        let stuck = Stuck(Arc::clone(&gate), waits);
        let reader = std::thread::spawn(move || {
            seat_this_thread(Rc::new(stuck));
            fs.read(&Cred::root(), file, block * RECORD, RECORD as u32).is_ok()
        });
        comes.recv().expect("it waits for its disk");
        reader
    };
    let second_read_brings = |file: ObjectRef| {
        assert!(cold.read(file, 0).is_ok());
        let (_, before) = cold.disk_reads();
        assert!(cold.read(file, 1).is_ok());
        cold.work();
        (cold.disk_reads().1 - before) / RECORD
    };
    let closed = gate.write();
    let who_begin = [2, 3, 4].map(|of| stuck_at(files[of], 0));
    assert!(second_read_brings(files[0]) >= 4, "{:?}", cold.stats());
    let small = whole.map(|name| stuck_at(cold.file(name), 0));
    assert_eq!(second_read_brings(files[1]), 1, "{:?}", cold.stats());
    let others = [7, 24, 50].map(|block| stuck_at(files[2], block));
    assert_eq!(second_read_brings(files[4]), 1, "{:?}", cold.stats());
    drop(closed);
    assert!(who_begin.into_iter().chain(small).chain(others).all(|reader| reader.join().is_ok_and(|is_read| is_read)));
    cold.filer.export().expect("a clean export");
}

/// What streams bring takes its share and no more, and what others read again and again stays.
#[test]
fn streams_take_their_share_and_a_hot_set_stays() {
    const CACHE: u64 = 16 * MIB;
    const RECORD: u64 = 16 << 10;
    const HOT: u64 = CACHE / 2 / RECORD;
    let world = World::new(256 * MIB, 16 * MIB).without_helpers();
    let names = ["hot", "cold", "left"];
    let files = [(names[0], HOT), (names[1], 10 * CACHE / RECORD), (names[2], 200)];
    let cold = Cold::with_record(&world, &files, CACHE, RECORD);
    let (hot, stream, left) = (cold.file("hot"), cold.file("cold"), cold.file("left"));
    (0..3).for_each(|_| cold.read_all(hot, 1, 0..HOT));
    let io = &cold.filer.pool().io;
    let data = || io.cache_stats().into_iter().find(|stats| stats.kind == BlockKind::Data).expect("files were read");
    let before = data();
    let mut hot_reads = 0;
    for block in 0..10 * CACHE / RECORD {
        cold.read_all(stream, 2, [block]);
        if block % 4 == 0 {
            cold.read_all(hot, 1, [block / 4 % HOT]);
            hot_reads += 1;
        }
        assert!(io.stats().cache_bytes <= CACHE, "{} bytes", io.stats().cache_bytes);
    }
    let missed = data().misses - before.misses;
    assert!(missed <= 16 + hot_reads / 20, "{missed} misses beside {hot_reads} reads of the hot set");
    // Streams that end in the middle leave something that nobody reads; it goes before anything else does.
    for at in 0..8 {
        cold.read_all(left, 3, at * 25..at * 25 + 3);
    }
    let hot_misses = data().misses;
    cold.read_all(hot, 1, 0..HOT);
    assert!(data().misses - hot_misses <= HOT / 10, "{} of {HOT}", data().misses - hot_misses);
    // Memory is short: the share shrinks with the cache, and what is left over goes.
    io.limit_cache(CACHE / 16);
    assert!(io.stats().cache_bytes <= CACHE / 16 && cold.stats().unread_bytes > 0, "{:?}", cold.stats());
    cold.read_all(left, 3, 0..25);
    assert!(io.stats().cache_bytes <= CACHE / 16, "{}", io.stats().cache_bytes);
}

/// The place of a block is used again while it is on its way, or while it lies there and waits for its reader.
#[test]
fn a_block_that_was_freed_and_whose_place_is_used_again_is_never_seen() {
    /// So small that a block that is written where others were stands exactly where one of them was.
    const RECORD: u64 = 4096;
    const BLOCKS: u64 = 6400;
    /// Nearly all that is free.
    const NEW_BLOCKS: u64 = 8000;
    const READS: u64 = 40;
    for lands_before in [false, true] {
        let world = World::new(64 * MIB, 16 * MIB).without_helpers();
        let cold = Cold::with_record(&world, &[("old", BLOCKS), ("other", BLOCKS)], 16 * MIB, RECORD);
        let old = cold.file("old");
        let places: Vec<_> = (0..BLOCKS).map(|block| cold.place(old, block)).collect();
        // Nobody carries out what is planned, but the reader where he comes to it.
        for block in 0..READS {
            assert!(cold.read(old, block).is_ok());
        }
        let fetched_bytes = cold.stats().bytes;
        cold.fs.remove(ctx(&cold.cred), cold.fs.root(), b"old").result.expect("it is there");
        cold.filer.sync().expect("there is room");
        if lands_before {
            // It is freed and published; nobody has used its place yet.
            cold.work();
            assert!(cold.stats().bytes > fetched_bytes, "it was on its way");
        }
        (0..3).for_each(|_| assert!(cold.filer.sync().is_ok()));
        cold.write("new", 5, NEW_BLOCKS);
        let new = cold.file("new");
        cold.work();
        // Those that stand where something was on its way, first: of what was written ahead most is not cached any more, and
        // what is fetched now takes the room of what was fetched before.
        let is_in_doubt = |block: &u64| places[READS as usize..1000].contains(&cold.place(new, *block));
        let (in_doubt, others): (Vec<u64>, Vec<u64>) = (0..NEW_BLOCKS).partition(is_in_doubt);
        assert!(in_doubt.len() > 300, "{} stand where others were", in_doubt.len());
        for block in in_doubt.into_iter().rev().chain(others) {
            assert_eq!(cold.read(new, block), Ok(noise(RECORD as usize, 500_000 + block)), "block {block}");
        }
        assert_eq!((cold.checksum_errors(), cold.filer.pool().io.unrepaired_count()), (0, 0));
    }
}

/// It is told to whoever reads it, and to nobody else, and counts once.
#[test]
fn a_damaged_block_that_was_fetched_ahead_is_its_readers_and_counts_once() {
    const BLOCKS: u64 = 64;
    let world = World::new(64 * MIB, 16 * MIB).without_helpers();
    let cold = Cold::new(&world, &[("file", BLOCKS)], 64 * MIB);
    let file = cold.file("file");
    let label_bytes = tally_members::label::LABEL_BYTES;
    world.poke("/disks/data", label_bytes + cold.place(file, 40) + 5000, b"rotten");
    cold.read_all(file, 1, 0..40);
    assert!(cold.stats().bytes > 40 * RECORD, "it was fetched ahead: {:?}", cold.stats());
    assert_eq!((cold.checksum_errors(), cold.filer.pool().io.unrepaired_count()), (0, 0), "nobody has read it");
    assert_eq!(cold.read(file, 40), Err(FsError::Io));
    assert_eq!((cold.checksum_errors(), cold.filer.pool().io.unrepaired_count()), (1, 1));
    cold.read_all(file, 1, 41..BLOCKS);
    assert_eq!((cold.checksum_errors(), cold.filer.pool().io.unrepaired_count()), (1, 1));
}

/// A mirror repairs it when it is read, and both legs bring what is fetched ahead.
#[test]
fn a_mirror_repairs_what_was_fetched_ahead_when_it_is_read() {
    let disks = [("/disks/a", 64 * MIB), ("/disks/b", 64 * MIB), ("/disks/slog", 16 * MIB)];
    let world = World::of(&disks, "mirror /disks/a /disks/b log /disks/slog").without_helpers();
    let cold = Cold::new(&world, &[("file", 64)], 64 * MIB);
    let file = cold.file("file");
    for leg in ["/disks/a", "/disks/b"] {
        let place = tally_members::label::LABEL_BYTES + cold.place(file, if leg == "/disks/a" { 30 } else { 50 });
        world.poke(leg, place + 5000, b"rotten");
    }
    cold.read_all(file, 1, 0..64);
    assert!(cold.checksum_errors() <= 2 && cold.filer.pool().io.unrepaired_count() == 0);
}

/// Whoever is destroyed, exported or refused by his disks leaves flights behind that land nowhere.
#[test]
fn what_is_on_its_way_stops_nothing() {
    let world = World::new(64 * MIB, 16 * MIB).without_helpers();
    let cold = Cold::new(&world, &[], 64 * MIB);
    cold.filer.create_dataset("tank/child", Default::default(), (0, 0)).expect("a name");
    let child = cold.filer.by_name("tank/child").expect("it was made");
    let inside = Cold { record: RECORD, fs: child, filer: Arc::clone(&cold.filer), cred: Cred::root() };
    inside.write("file", 1, 64);
    cold.filer.pool().io.drop_cache();
    let file = inside.file("file");
    // The disk refuses what is fetched ahead: the reader reads by himself.
    let faults = world.faults("/disks/data");
    for block in 0..8 {
        assert!(inside.read(file, block).is_ok());
        faults.reads.store(true, std::sync::atomic::Ordering::SeqCst);
        inside.work();
        faults.reads.store(false, std::sync::atomic::Ordering::SeqCst);
    }
    let read_errors = || -> u64 { cold.filer.pool().roster.data_legs().map(|leg| leg.errors().read).sum() };
    assert_eq!((read_errors(), inside.checksum_errors()), (0, 0), "nobody is told");
    // Two go to the disk before there is a stream, others since what was fetched for them did not come.
    let stats = inside.stats();
    assert!(stats.misses > 2 && stats.hits + stats.misses == 8, "{stats:?}");
    cold.filer.read_ahead_once();
    cold.filer.destroy_dataset("tank/child", false).expect("nobody is there");
    cold.work();
    cold.filer.export().expect("a clean export");
    cold.work();
}

/// With the pool's own threads: everything is read right by many readers at once, and the threads end with the export.
#[test]
fn threads_fetch_what_many_readers_want_and_end_with_the_pool() {
    const BLOCKS: u64 = 128;
    let world = World::new(256 * MIB, 16 * MIB).without_helpers();
    let files = [("a", BLOCKS), ("b", BLOCKS), ("c", BLOCKS), ("d", BLOCKS)];
    let cold = Cold::new(&world, &files, 32 * MIB);
    let threads: Vec<_> = cold.filer.background().into_iter().map(|(_, body)| std::thread::spawn(body)).collect();
    std::thread::scope(|scope| {
        for (seed, (name, _)) in (1..).zip(files) {
            let cold = &cold;
            for first in [0, 50] {
                scope.spawn(move || {
                    let file = cold.file(name);
                    for block in first..BLOCKS {
                        assert_eq!(cold.read(file, block), Ok(noise(RECORD as usize, seed * 100_000 + block)));
                    }
                });
            }
        }
    });
    assert!(cold.stats().hits > 0, "{:?}", cold.stats());
    assert_eq!(content(&*cold.fs, cold.file("a")).len() as u64, BLOCKS * RECORD);
    cold.filer.export().expect("a clean export");
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
}

/// Small databases, more than the cache holds, read at random: of the last READs of a small file some always touch each
/// other, and a stream took every READ of such a file for its own. Each brought fourteen times what it asked for, and
/// next to nothing of that was ever read.
#[test]
fn who_reads_small_files_at_random_reads_little_more_than_he_asks_for() {
    const RECORD: u64 = 16 << 10;
    const READS: u64 = 3000;
    for (file_count, blocks) in [(40, 64), (10, 256), (3, 1024)] {
        let names: Vec<_> = (0..file_count).map(|at| format!("file {at}")).collect();
        let world = World::new(128 * MIB, 16 * MIB).without_helpers();
        let files: Vec<_> = names.iter().map(|name| (&**name, blocks)).collect();
        let cold = Cold::with_record(&world, &files, 8 * MIB, RECORD);
        let files: Vec<_> = names.iter().map(|name| cold.file(name)).collect();
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (_, before) = cold.disk_reads();
        for _ in 0..READS {
            let (file, block) = (draw(file_count), draw(blocks));
            assert!(cold.read(files[file as usize], block).is_ok());
            cold.work();
        }
        let read = (cold.disk_reads().1 - before) / RECORD;
        assert!(read < READS * 3 / 2, "{blocks}: {read} of {READS} blocks, {:?}", cold.stats());
    }
}

/// Where a file goes on is looked up beside its reader, on a disk that may take its time or never answer. As long as a
/// tree's root is held nothing that was freed since is used again: a pool that is nearly full would wait for that disk.
#[test]
fn who_goes_ahead_holds_no_tree_while_a_disk_takes_its_time() {
    let world = World::new(64 * MIB, 16 * MIB).without_helpers();
    let cold = Cold::with_record(&world, &[("file", 2000)], 64 * MIB, 4096);
    let (file, faults) = (cold.file("file"), world.faults("/disks/data"));
    let leaves = || cold.filer.pool().io.cache_stats().iter().find(|of| of.kind == BlockKind::Leaf).map(|of| of.bytes);
    let mut leaf_count = 0;
    for block in 0..1000 {
        assert!(cold.read(file, block).is_ok());
        let leaves_before = leaves();
        loop {
            let held = faults.reads_held.write().unwrap();
            let waited = faults.reads_waited.load(SeqCst);
            let filer = Arc::clone(&cold.filer);
            let task = std::thread::spawn(move || filer.read_ahead_once());
            while !task.is_finished() && faults.reads_waited.load(SeqCst) == waited {
                std::thread::yield_now();
            }
            let root = cold.filer.pool().datasets()[0].root();
            assert_eq!(Arc::strong_count(&root), 2, "the data set's and this one");
            drop(held);
            if !task.join().expect("it does not panic") {
                break;
            }
        }
        leaf_count += u64::from(leaves() > leaves_before);
    }
    assert!(leaf_count > 2, "leaves were read ahead");
}

/// A disk takes half a minute to find out that it cannot read a sector. Each READ before that sector asked for it
/// again, with what it fetched behind itself.
#[test]
fn a_sector_that_cannot_be_read_is_not_asked_for_again_and_again() {
    const BLOCKS: u64 = 128;
    let world = World::new(64 * MIB, 16 * MIB).without_helpers();
    let cold = Cold::new(&world, &[("file", BLOCKS)], 64 * MIB);
    let (file, faults) = (cold.file("file"), world.faults("/disks/data"));
    let bad = tally_members::label::LABEL_BYTES + cold.place(file, 60) + 8192;
    faults.unreadable.lock().unwrap().push(bad..bad + 512);
    for block in 0..BLOCKS {
        if matches!(block, 40 | 42) {
            // It has to wait, and has more fetched from then on.
            cold.filer.pool().io.drop_cache();
        }
        let expected = if block == 60 { Err(FsError::Io) } else { Ok(noise(RECORD as usize, 100_000 + block)) };
        assert_eq!(cold.read(file, block), expected, "block {block}");
        cold.work();
    }
    assert!(cold.stats().hits > BLOCKS / 2, "{:?}", cold.stats());
    let met = faults.unreadable_met.load(SeqCst);
    assert!(met <= 2, "it was asked for {met} times");
}

/// The threads of a pool may all be at one disk that hangs, or have died. What is on its way is carried out by whoever
/// comes for it, but stayed in their queue: when that was full of what had landed long ago nobody got a plan.
#[test]
fn flights_that_have_landed_leave_the_queue_to_others() {
    const FILES: usize = 400;
    let names: Vec<_> = (0..FILES).map(|at| format!("file {at}")).collect();
    let world = World::new(64 * MIB, 16 * MIB).without_helpers();
    let cold = Cold::with_record(&world, &names.iter().map(|name| (&**name, 8)).collect::<Vec<_>>(), 64 * MIB, 4096);
    for (at, name) in names.iter().enumerate() {
        let (file, hits) = (cold.file(name), cold.stats().hits);
        for block in 0..8 {
            assert!(cold.read(file, block).is_ok());
        }
        assert!(cold.stats().hits > hits, "file {at}: {:?}", cold.stats());
    }
}

/// A clock that is so many seconds ahead.
#[derive(Default)]
struct Ahead(AtomicU64, SystemClock);

impl Clock for Ahead {
    fn now(&self) -> Time {
        self.1.now()
    }

    fn monotonic(&self) -> Duration {
        self.1.monotonic() + Duration::from_secs(self.0.load(SeqCst))
    }
}

/// Where all threads are at a disk that hangs nobody carries out what streams have left behind that do not go on. It
/// held the room for what is fetched ahead, all of it, for as long as the disk liked.
#[test]
fn what_nobody_carries_out_gives_its_room_back() {
    let names: Vec<_> = (0..16).map(|at| format!("file {at}")).collect();
    let clock = Arc::new(Ahead::default());
    let world = World::new(128 * MIB, 16 * MIB).without_helpers().with_clock(clock.clone());
    let cold = Cold::new(&world, &names.iter().map(|name| (&**name, 32)).collect::<Vec<_>>(), 8 * MIB);
    for name in &names[1..] {
        let file = cold.file(name);
        (0..4).for_each(|block| assert!(cold.read(file, block).is_ok()));
    }
    clock.0.store(11, SeqCst);
    let (file, hits) = (cold.file(&names[0]), cold.stats().hits);
    (0..32).for_each(|block| assert!(cold.read(file, block).is_ok()));
    assert!(cold.stats().hits >= hits + 24, "{hits} hits, then {:?}", cold.stats());
}

/// Data that is read to be written again has no reader.
#[test]
fn what_a_fold_reads_counts_as_nobodys_miss() {
    let world = World::new(64 * MIB, 16 * MIB).without_helpers();
    let cold = Cold::new(&world, &[("file", 64)], 64 * MIB);
    let file = cold.file("file");
    for block in [3, 17, 40] {
        let write = cold.fs.write(ctx(&cold.cred), file, block * RECORD + 100, noise(50, 9), Stability::Unstable);
        assert!(write.result.is_ok());
    }
    cold.filer.sync().expect("there is room");
    assert_eq!(cold.stats(), PrefetchStats::default());
    assert!(cold.read(file, 3).is_ok() && cold.read(file, 20).is_ok());
    assert_eq!(cold.stats().misses, 1);
}
