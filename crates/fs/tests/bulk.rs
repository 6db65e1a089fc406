//! One client gives the fold far more to do than its bytes: a byte into each of thousands of blocks. Memory was
//! bounded and work was not, so that a group of half a minute came of 32 KiB, and everybody waited for it, because what
//! it might take of the pool, counted once for the WRITE and once more for the COMMIT, was more than there was.

mod world;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tally_base::{Clock, Time};
use tally_fs::Filer;
use tally_fs::filer::CreateOptions;
use tally_store::bp::BlockKind;
use tally_store::properties::{Property, parse};
use tally_store::txg::PATCH_BYTES_START;
use tally_vfs::{CreateHow, Cred, FsError, ObjectRef, SetAttr, Stability, Vfs};
use world::{World, content, ctx, mode, noise, vfs};

const MIB: u64 = 1 << 20;
const RECORD: u64 = 128 << 10;
/// Room for what a group brings here, without a fold.
const LOG: u64 = 256 * MIB;
/// More than may be patched in one group.
const BLOCKS: u64 = 2 * PATCH_BYTES_START / RECORD;

/// Disks that are quicker than the clock can tell: the bound stays where it starts.
#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Time {
        Time(1 << 60)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// A pool in which no group is synced but by the test, and one file in whole blocks, on disk.
struct Bulk {
    filer: Arc<Filer>,
    fs: Arc<dyn Vfs>,
    cred: Cred,
    file: ObjectRef,
}

impl Bulk {
    fn new() -> Self {
        let world = World::new(6 * PATCH_BYTES_START, LOG).with_clock(Arc::new(Stopped));
        let filer = world.create_without_threads(&CreateOptions::default());
        let bulk = Self { fs: vfs(&filer), file: vfs(&filer).root(), filer, cred: Cred::root() };
        let file = bulk.create("bulk").expect("an empty pool");
        for block in 0..BLOCKS {
            while bulk.write(file, block * RECORD, noise(RECORD as usize, block)) == Err(FsError::Throttled) {
                bulk.filer.sync().expect("there is room");
            }
        }
        bulk.filer.sync().expect("there is room");
        Self { file, ..bulk }
    }

    fn create(&self, name: &str) -> Result<ObjectRef, FsError> {
        let how = CreateHow::Guarded(mode(0o644));
        let made = self.fs.create(ctx(&self.cred), self.fs.root(), name.as_bytes(), &how);
        made.result.map(|attr| attr.object)
    }

    fn write(&self, file: ObjectRef, at: u64, data: Bytes) -> Result<(), FsError> {
        self.fs.write(ctx(&self.cred), file, at, data, Stability::Unstable).result.map(drop)
    }

    /// A byte in the middle of a block.
    fn poke(&self, block: u64) -> Result<(), FsError> {
        self.write(self.file, block * RECORD + 1000, Bytes::from_static(b"!"))
    }

    /// A byte into each block from `first` on, until the client is told to wait.
    fn poke_from(&self, first: u64) -> u64 {
        let refused = (first..BLOCKS).find(|block| self.poke(*block) == Err(FsError::Throttled));
        refused.unwrap_or(BLOCKS)
    }

    fn fold_bytes(&self) -> u64 {
        self.filer.pool().txgs.fold_bytes()
    }
}

#[test]
fn who_gives_the_fold_much_to_do_waits_and_others_do_not() {
    let bulk = Bulk::new();
    let mut poked = 0;
    let mut groups = 0;
    while poked < BLOCKS {
        let from = poked;
        poked = bulk.poke_from(from);
        groups += 1;
        let patched = (poked - from) * RECORD;
        assert!(patched > 0 && patched <= PATCH_BYTES_START, "{patched} bytes of blocks in one group");
        assert!(bulk.fold_bytes() < PATCH_BYTES_START + PATCH_BYTES_START / 2, "{}", bulk.fold_bytes());
        // Whoever brings no such work is let in beside it, whatever the other does.
        let another = bulk.create(&format!("another-{groups}")).expect("a CREATE waits for nobody");
        bulk.write(another, 0, noise(RECORD as usize, groups)).expect("nor does a WRITE of whole blocks");
        // As is a block that the group has already.
        bulk.poke(from).expect("it costs the fold nothing more");
        bulk.filer.sync().expect("there is room");
    }
    assert!(groups >= 2, "{groups}");
    let content = content(&*bulk.fs, bulk.file);
    for (block, bytes) in content.chunks(RECORD as usize).enumerate() {
        assert_eq!((bytes[999], bytes[1000]), (noise(RECORD as usize, block as u64)[999], b'!'), "block {block}");
    }
}

#[test]
fn a_commit_counts_no_block_twice() {
    let bulk = Bulk::new();
    (0..100).for_each(|block| bulk.poke(block).expect("the first of its group"));
    let written = bulk.fold_bytes();
    let patched = bulk.filer.pool().txgs.patch_bytes();
    assert!(written >= 100 * RECORD && patched >= 99 * RECORD, "{written}, {patched}");
    bulk.fs.commit(ctx(&bulk.cred), bulk.file, 0, 0).result.expect("a commit");
    assert_eq!(bulk.fold_bytes(), written);
    // Nor does a second WRITE into the same blocks.
    (0..100).for_each(|block| bulk.poke(block).expect("the same block"));
    assert_eq!(bulk.fold_bytes(), written);
    assert!(bulk.filer.pool().txgs.patch_bytes() <= patched);
}

/// Small requests one after the other fill blocks; they are no patches, and make no short groups.
#[test]
fn a_stream_of_small_requests_patches_nothing_in_the_end() {
    let bulk = Bulk::new();
    let file = bulk.create("stream").expect("there is room");
    let half = noise(RECORD as usize, 7).slice(..RECORD as usize / 2);
    for at in (0..BLOCKS * RECORD / 4).step_by(half.len()) {
        bulk.write(file, at, half.clone()).expect("appended");
    }
    for at in (0..BLOCKS * RECORD / 4).step_by(half.len()) {
        bulk.write(bulk.file, at, half.clone()).expect("overwritten");
    }
    assert!(bulk.filer.pool().txgs.patch_bytes() < RECORD, "{}", bulk.filer.pool().txgs.patch_bytes());
}

/// Cutting a file inside a block makes the fold write the rest of the block anew.
#[test]
fn cuts_within_blocks_are_patches() {
    let bulk = Bulk::new();
    for block in (1..BLOCKS).rev().take(20) {
        let cut = SetAttr { size: Some(block * RECORD + 5), ..SetAttr::default() };
        bulk.fs.setattr(ctx(&bulk.cred), bulk.file, &cut, None).result.expect("a cut");
    }
    let patched = bulk.filer.pool().txgs.patch_bytes();
    assert!(patched >= 19 * RECORD, "{patched}");
}

/// Files of less than a gibibyte were freed in the group that removed them, any number of them.
#[test]
fn the_files_that_one_group_removes_are_freed_in_several() {
    const EXTENTS: u64 = 10 << 10;
    let world = World::new(400 * MIB, 64 * MIB).with_clock(Arc::new(Stopped));
    let properties = [(Property::RecordSize, "4K"), (Property::Compression, "off")];
    let properties = properties.map(|(property, value)| parse(property, value).unwrap()).into_iter().collect();
    let filer = world.create_without_threads(&CreateOptions { properties, ..CreateOptions::default() });
    let bulk = Bulk { fs: vfs(&filer), file: vfs(&filer).root(), filer, cred: Cred::root() };
    let chunk = Bytes::from(vec![7; MIB as usize]);
    for name in ["a", "b", "c", "d"] {
        let file = bulk.create(name).expect("there is room");
        for at in (0..EXTENTS * 4096).step_by(chunk.len()) {
            bulk.write(file, at, chunk.clone()).expect("whole blocks");
        }
        bulk.filer.sync().expect("there is room");
    }
    for _ in 0..3 {
        bulk.filer.sync().expect("there is room");
    }
    let space = || bulk.filer.pool().io.allocator().space();
    let orphans = || bulk.filer.pool().datasets()[0].root().orphan_count;
    let full = space().allocated;
    for name in ["a", "b", "c", "d"] {
        bulk.fs.remove(ctx(&bulk.cred), bulk.fs.root(), name.as_bytes()).result.expect("it is there");
    }
    bulk.filer.sync().expect("removing needs little room");
    let freed = (full - space().allocated) / 4096;
    assert!(freed < 3 * EXTENTS + 1000, "{freed} blocks were freed in one group");
    assert_eq!(orphans(), 1, "one was left to the reaper");
    bulk.filer.sync().expect("the reaper goes on");
    assert_eq!(orphans(), 0);
    assert!(full - space().allocated > 4 * EXTENTS * 4096, "all of it is free in the end");
}

/// The call that forgets what a group has freed was lost in a merge, and no test saw it: what the cache did when asked was
/// right, and nobody asked.
#[test]
fn what_a_removed_file_held_leaves_the_cache_with_its_group() {
    const FILE_BLOCKS: u64 = 16;
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create_without_threads(&CreateOptions::default());
    let bulk = Bulk { fs: vfs(&filer), file: vfs(&filer).root(), filer, cred: Cred::root() };
    let file = bulk.create("file").expect("an empty pool");
    (0..FILE_BLOCKS)
        .for_each(|block| bulk.write(file, block * RECORD, noise(RECORD as usize, block)).expect("there is room"));
    bulk.filer.sync().expect("there is room");
    // What was written ahead of its group ages out by itself; what was read is what has to be let go of.
    bulk.filer.pool().io.drop_cache();
    assert_eq!(content(&*bulk.fs, file).len() as u64, FILE_BLOCKS * RECORD);
    let cached = || {
        let stats = bulk.filer.pool().io.cache_stats();
        stats.iter().find(|stats| stats.kind == BlockKind::Data).map_or(0, |stats| stats.bytes)
    };
    assert!(cached() >= FILE_BLOCKS * RECORD, "{} bytes", cached());
    bulk.fs.remove(ctx(&bulk.cred), bulk.fs.root(), b"file").result.expect("it is there");
    bulk.filer.sync().expect("removing needs little room");
    assert!(cached() < RECORD, "{} bytes of a file that is gone", cached());
}
