//! Block I/O: every read of a block goes through here, verified and cached, and every block that is written is
//! put into a run (see [`crate::run`]).
//!
//! A block that a writer has accepted but not written yet is served from `unwritten`, which holds a reference to
//! each of them until its run is on its device; the cache alone could not promise that, since it may evict.

mod ahead;
mod flights;
mod unrepaired;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use tally_base::codec::{Malformed, Reader};
use tally_base::{Txg, VdevIndex};
use tally_disk::{Fanout, Helpers};
use tally_members::blockdev::{BlockDevs, flush_all};

use crate::alloc::Allocator;
use crate::block::{self, BlockError};
use crate::bp::{BlockKind, BlockPtr, Dva};
use crate::cache::{BlockCache, CacheKey, Cached};
use crate::run::RunWriter;
use flights::Flights;
use unrepaired::Unrepaired;

pub use ahead::{Nodes, PrefetchStats, Standing};
pub use flights::{FLIGHT_BYTES_MAX, Flight, ToFetch};

/// Reads in flight while blocks are read together. Enough to keep an SSD or a few disks busy.
const READ_DEPTH: usize = 16;

/// Checks the structure of a block once, when it comes from a device. The caller may rely on it afterwards.
pub type Check = fn(&[u8]) -> Result<(), Malformed>;

/// Reads and writes the blocks of one pool.
pub struct BlockIo {
    pub(crate) devs: BlockDevs,
    pub(crate) alloc: Arc<Allocator>,
    cache: BlockCache,
    unwritten: RwLock<HashMap<CacheKey, Bytes>>,
    /// Cached, and freed by a group that is not published yet.
    freed: Mutex<Vec<CacheKey>>,
    helpers: Helpers,
    write_bytes_max: AtomicUsize,
    flights: Flights,
    pub(crate) counters: Counters,
    unrepaired: Unrepaired,
    leaks: AtomicU64,
    /// The pieces of blocks that were written ahead and belong to no group yet: to settle one must not wait for a device, nor
    /// fail. Bounded by the requests that are under way.
    unborn_pieces: Mutex<HashMap<CacheKey, Vec<Dva>>>,
}

/// Why somebody waits for a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Reading,
    /// To write it anew: it has no reader.
    Rewriting,
}

/// A counter for each kind of block.
type ByKind = [AtomicU64; BlockKind::ALL.len()];

/// Counted for statistics only.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) hits: ByKind,
    pub(crate) misses: ByKind,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) runs_written: AtomicU64,
    pub(crate) blocks_written: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
}

/// What the pool's block I/O has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStats {
    /// Reads that the cache answered.
    pub hits: u64,
    /// Reads that went to a device.
    pub misses: u64,
    /// Allocated bytes of the blocks that were read.
    pub read_bytes: u64,
    /// Device writes of runs.
    pub runs_written: u64,
    /// Blocks in those runs.
    pub blocks_written: u64,
    /// Bytes of those runs; the legs of a mirror count once.
    pub written_bytes: u64,
    /// Bytes in the cache now.
    pub cache_bytes: u64,
    /// Blocks in the cache now.
    pub cache_blocks: u64,
}

/// What the cache holds of one kind of block, and how it was asked for such blocks since the pool was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStats {
    /// The kind that the figures are about.
    pub kind: BlockKind,
    /// Bytes in the cache now, what entries cost included.
    pub bytes: u64,
    /// Reads that the cache answered.
    pub hits: u64,
    /// Reads that went to a device.
    pub misses: u64,
}

/// How long one device write is at most: so long that a disk spends its time writing and not seeking.
const WRITE_BYTES_MAX: usize = 4 << 20;

/// The same where the log lies on such a device, so that a frame does not wait long for its turn (rules P3).
const WRITE_BYTES_MAX_BESIDE_LOG: usize = 1 << 20;

/// Most blocks of one device read.
const STRETCH_BLOCKS_MAX: usize = 8;

/// Freed blocks that are remembered until their group is published.
const FREED_KEYS_MAX: usize = 64 << 10;

/// Whether `right` lies directly behind `left`.
fn are_neighbours(left: &BlockPtr, right: &BlockPtr) -> bool {
    left.dva.vdev == right.dva.vdev && left.dva.end() == right.dva.offset
}

impl BlockIo {
    /// `cache_bytes` bounds the cache.
    #[must_use]
    pub fn new(devs: BlockDevs, alloc: Arc<Allocator>, cache_bytes: u64, helpers: Helpers) -> Arc<Self> {
        Arc::new(Self {
            devs,
            cache: BlockCache::new(cache_bytes),
            unwritten: RwLock::default(),
            freed: Mutex::default(),
            helpers,
            write_bytes_max: AtomicUsize::new(WRITE_BYTES_MAX_BESIDE_LOG),
            flights: Flights::default(),
            counters: Counters::default(),
            unrepaired: Unrepaired::default(),
            leaks: AtomicU64::new(alloc.lost_lists()),
            alloc,
            unborn_pieces: Mutex::default(),
        })
    }

    /// For who only reads: with an allocator that has nothing to give, since the space maps may not be known.
    #[must_use]
    pub fn for_reading(devs: BlockDevs, cache_bytes: u64, helpers: Helpers) -> Arc<Self> {
        Self::new(devs, Arc::new(Allocator::create(&BlockDevs::new(), &[])), cache_bytes, helpers)
    }

    /// Calls `read` for 0..count, as many at a time as are read together.
    pub(crate) fn each(&self, count: usize, read: &(dyn Fn(usize) + Sync)) {
        self.helpers.each(count, READ_DEPTH, read);
    }

    /// No lane of the intent log lies on these devices: nobody waits for a long write to end.
    pub(crate) fn has_no_log_beside(&self) {
        self.write_bytes_max.store(WRITE_BYTES_MAX, Ordering::Relaxed);
    }

    /// Whether a lane of the intent log lies on one of these devices.
    pub(crate) fn has_log_beside(&self) -> bool {
        self.write_bytes_max() <= WRITE_BYTES_MAX_BESIDE_LOG
    }

    /// How long one device write is at most, if no single block is longer; and so how long a run is.
    pub(crate) fn write_bytes_max(&self) -> usize {
        self.write_bytes_max.load(Ordering::Relaxed)
    }

    /// The pool's allocator.
    pub fn allocator(&self) -> &Arc<Allocator> {
        &self.alloc
    }

    /// The block's content, expanded and checked: from the cache, or from whichever copy and leg has it right.
    pub fn read(&self, bp: &BlockPtr) -> Result<Bytes, BlockError> {
        self.read_for(Purpose::Reading, bp)
    }

    /// The content of a block that is about to be written anew. It has no reader, and is nobody's miss.
    pub fn read_to_rewrite(&self, bp: &BlockPtr) -> Result<Bytes, BlockError> {
        self.read_for(Purpose::Rewriting, bp)
    }

    fn read_for(&self, purpose: Purpose, bp: &BlockPtr) -> Result<Bytes, BlockError> {
        let key = CacheKey::of(bp);
        match self.find(&key, bp.kind) {
            Some(cached) => Ok(cached.bytes),
            None => self.read_device(purpose, bp, key, None),
        }
    }

    /// The content of a block of `kind`, whose structure `check` has found sound.
    #[inline]
    pub fn read_checked(&self, bp: &BlockPtr, kind: BlockKind, check: Check) -> Result<Bytes, BlockError> {
        if bp.kind != kind {
            return Err(BlockError::Pointer { bp: *bp, what: "it is of another kind than its place in the pool" });
        }
        let key = CacheKey::of(bp);
        match self.find(&key, bp.kind) {
            Some(Cached { bytes, checked: true, .. }) => Ok(bytes),
            Some(Cached { bytes, checked: false, .. }) => self.put_in_cache(bp, key, bytes, Some(check)),
            None => self.read_device(Purpose::Reading, bp, key, Some(check)),
        }
    }

    #[inline]
    fn find(&self, key: &CacheKey, kind: BlockKind) -> Option<Cached> {
        let found = self.cache.find(key);
        if found.is_some() {
            self.counters.hits[kind.index()].fetch_add(1, Ordering::Relaxed);
            return found;
        }
        if let Some(fetched) = self.cache.take_fetched(key) {
            self.counters.hits[kind.index()].fetch_add(1, Ordering::Relaxed);
            self.flights.hits.fetch_add(1, Ordering::Relaxed);
            return Some(fetched);
        }
        // What was put by us was sound when it was put.
        self.unwritten.read().get(key).map(|bytes| Cached { bytes: bytes.clone(), checked: true, kind })
    }

    #[cold]
    fn read_device(
        &self,
        purpose: Purpose,
        bp: &BlockPtr,
        key: CacheKey,
        check: Option<Check>,
    ) -> Result<Bytes, BlockError> {
        let (came, _under_way) = self.join_or_begin(key, bp.kind);
        match came {
            Some(Cached { bytes, checked, .. }) if checked || check.is_none() => return Ok(bytes),
            Some(Cached { bytes, .. }) => return self.put_in_cache(bp, key, bytes, check),
            None => {}
        }
        let bytes = block::open(&self.devs, bp).inspect_err(|error| self.note_damage(bp, error))?;
        self.unrepaired.clear(bp.dva);
        self.count_read(purpose, bp);
        self.put_in_cache(bp, key, bytes, check)
    }

    /// Counts a block that was read from its device for somebody who waits; where that is a reader it is a miss of what
    /// goes ahead of him.
    fn count_read(&self, purpose: Purpose, bp: &BlockPtr) {
        let is_miss = purpose == Purpose::Reading && bp.kind == BlockKind::Data;
        self.flights.note_read(&CacheKey::of(bp));
        self.counters.misses[bp.kind.index()].fetch_add(1, Ordering::Relaxed);
        self.counters.read_bytes.fetch_add(bp.dva.bytes(), Ordering::Relaxed);
        self.flights.misses.fetch_add(u64::from(is_miss), Ordering::Relaxed);
    }

    #[cold]
    fn note_damage(&self, bp: &BlockPtr, error: &BlockError) {
        if matches!(error, BlockError::Unreadable { .. }) {
            self.note_unrepaired(bp);
        }
    }

    /// No leg has this block right.
    pub(crate) fn note_unrepaired(&self, bp: &BlockPtr) {
        self.unrepaired.note(bp.dva);
    }

    /// Somebody has looked at every copy of this block, and each is right by now.
    pub(crate) fn note_repaired(&self, bp: &BlockPtr) {
        self.unrepaired.clear(bp.dva);
    }

    /// What stood at this place is nobody's any more.
    pub(crate) fn note_gone(&self, place: Dva) {
        self.unrepaired.clear(place);
    }

    /// Blocks of which that was found since the pool was opened, and which are still there.
    pub fn unrepaired_count(&self) -> u64 {
        self.unrepaired.count()
    }

    /// Checks a block where that was asked for, and puts it into the cache.
    fn put_in_cache(
        &self,
        bp: &BlockPtr,
        key: CacheKey,
        bytes: Bytes,
        check: Option<Check>,
    ) -> Result<Bytes, BlockError> {
        if let Some(check) = check {
            check(&bytes).map_err(|malformed| BlockError::Malformed { bp: *bp, what: malformed.0 })?;
        }
        self.cache.insert(key, Cached { bytes: bytes.clone(), checked: check.is_some(), kind: bp.kind });
        Ok(bytes)
    }

    /// Reads many blocks, several at a time; the results are in the order of the pointers.
    pub fn read_many(&self, bps: &[BlockPtr], kind: BlockKind, check: Check) -> Vec<Result<Bytes, BlockError>> {
        let mut results: Vec<_> = bps.iter().map(|bp| self.cached(bp, kind)).collect();
        let missing: Vec<usize> = (0..bps.len()).filter(|at| results[*at].is_none()).collect();
        let read: Vec<_> = missing.iter().map(|_| parking_lot::Mutex::new(None)).collect();
        self.each(missing.len(), &|at| {
            *read[at].lock() = Some(self.read_checked(&bps[missing[at]], kind, check));
        });
        for (at, result) in missing.into_iter().zip(read) {
            results[at] = result.into_inner();
        }
        results.into_iter().map(|result| result.expect("what was missing was read")).collect()
    }

    fn cached(&self, bp: &BlockPtr, kind: BlockKind) -> Option<Result<Bytes, BlockError>> {
        let cached = self.find(&CacheKey::of(bp), kind).filter(|cached| cached.checked && bp.kind == kind)?;
        Some(Ok(cached.bytes))
    }

    /// Reads blocks into the cache: neighbours on disk together, and several such stretches at a time. Errors are left to
    /// whoever reads the block in earnest, and so is what is on its way already.
    pub fn read_together(&self, bps: &[BlockPtr]) {
        let is_missing = |key: &CacheKey| !self.cache.holds(key) && self.flights.of(key).is_none();
        let missing: Vec<_> = bps.iter().filter(|bp| is_missing(&CacheKey::of(bp))).collect();
        let stretches: Vec<&[&BlockPtr]> = missing.chunk_by(|left, right| are_neighbours(left, right)).collect();
        self.each(stretches.len(), &|at| {
            for part in stretches[at].chunks(STRETCH_BLOCKS_MAX) {
                self.read_stretch(part);
            }
        });
    }

    /// One device read for blocks that follow each other; if any of them is not good, each is read by itself.
    fn read_stretch(&self, stretch: &[&BlockPtr]) {
        let Some(blocks) = block::open_stretch(&self.devs, stretch) else {
            for bp in stretch {
                let _ = self.read(bp);
            }
            return;
        };
        for (bp, bytes) in stretch.iter().zip(blocks) {
            self.count_read(Purpose::Reading, bp);
            self.cache.insert(CacheKey::of(bp), Cached { bytes, checked: false, kind: bp.kind });
        }
    }

    /// The block that could not be read, if that is all: a sector that rots must not be the end of the pool, and whoever
    /// meets one goes on around it. But a device that reads nothing at all has not rotted: it may be back tomorrow with
    /// everything, and then nothing must have been given up for it. That, and any other error, is given back.
    pub fn check_damage(&self, error: BlockError) -> Result<BlockPtr, BlockError> {
        let Some(bp) = error.unreadable().copied() else { return Err(error) };
        let is_of_the_device = error.is_of_device();
        // In this order: a device that has come to itself by now has the block as well.
        // Nor has a block rotted that is right when it is read again.
        let is_misread = || matches!(error, BlockError::Unreadable { .. }) && block::open(&self.devs, &bp).is_ok();
        // Either place may be the one that was refused.
        let all_answer = || bp.dvas().all(|dva| self.answers(dva.vdev));
        let is_of_the_block = (!is_of_the_device || all_answer()) && !is_misread();
        if is_of_the_block { Ok(bp) } else { Err(error) }
    }

    /// Whether every copy of a vdev can be read somewhere.
    fn answers(&self, vdev: VdevIndex) -> bool {
        self.devs.get(&vdev).is_some_and(|dev| tally_base::blocking(|| dev.answers()))
    }

    /// Frees a block of an earlier txg, see [`Allocator::free`].
    pub fn free(&self, bp: &BlockPtr, txg: Txg) {
        self.unrepaired.clear(bp.dva);
        let key = CacheKey::of(bp);
        if self.cache.holds(&key) {
            let mut freed = self.freed.lock();
            if freed.len() < FREED_KEYS_MAX {
                freed.push(key);
            } else {
                // One of very many: whoever still reads it goes to its device.
                self.cache.remove_read(&key);
            }
        }
        self.ranges(bp).for_each(|dva| self.alloc.free(dva, txg));
    }

    /// A group is published: what it has freed is not read any more, but by those who began before, and leaves the cache.
    pub fn forget_freed(&self) {
        let freed = std::mem::take(&mut *self.freed.lock());
        freed.iter().for_each(|key| self.cache.remove_read(key));
    }

    /// Holds at most `bytes` in the cache from now on, and never more than it was opened with.
    pub fn limit_cache(&self, bytes: u64) {
        self.cache.limit(bytes);
    }

    /// The most that the cache was opened with.
    pub fn cache_bytes_max(&self) -> u64 {
        self.cache.bytes_max()
    }

    /// What the cache holds and was asked for, by kind of block; kinds that it never met are left out.
    pub fn cache_stats(&self) -> Vec<CacheStats> {
        let of = |counters: &ByKind, kind: BlockKind| counters[kind.index()].load(Ordering::Relaxed);
        let stats = |kind| CacheStats {
            kind,
            bytes: self.cache.bytes_of(kind),
            hits: of(&self.counters.hits, kind),
            misses: of(&self.counters.misses, kind),
        };
        let is_met = |stats: &CacheStats| stats.bytes + stats.hits + stats.misses > 0;
        BlockKind::ALL.into_iter().map(stats).filter(is_met).collect()
    }

    /// Gives back a block that nothing names, see [`Allocator::abandon`].
    pub fn abandon(&self, bp: &BlockPtr) {
        self.cache.remove(&CacheKey::of(bp));
        match self.take_unborn_ranges(bp) {
            Some(ranges) => ranges.for_each(|dva| self.alloc.abandon(dva)),
            None => self.ranges(bp).for_each(|dva| self.alloc.abandon(dva)),
        }
    }

    pub(crate) fn remember_pieces(&self, bp: &BlockPtr, pieces: Vec<Dva>) {
        self.unborn_pieces.lock().insert(CacheKey::of(bp), pieces);
    }

    /// Every range of a block that no group has yet; once for one in pieces. `None` if it is none of those.
    fn take_unborn_ranges(&self, bp: &BlockPtr) -> Option<impl Iterator<Item = Dva> + use<>> {
        let pieces = match bp.in_pieces {
            true => self.unborn_pieces.lock().remove(&CacheKey::of(bp))?,
            false => Vec::new(),
        };
        Some(bp.dvas().collect::<SmallVec<[Dva; 2]>>().into_iter().chain(pieces))
    }

    /// Every range that the block takes, for a later [`Allocator::free`]. Where the map of its pieces is gone they are
    /// leaked, since nothing else knows them.
    pub(crate) fn ranges(&self, bp: &BlockPtr) -> impl Iterator<Item = Dva> + use<> {
        let pieces = bp.in_pieces.then(|| block::scatter::pieces_of(&self.devs, bp));
        let pieces = pieces.transpose().unwrap_or_else(|error| {
            tracing::error!("the pieces of a block cannot be freed: {error}");
            self.note_leak();
            None
        });
        bp.dvas().collect::<SmallVec<[Dva; 2]>>().into_iter().chain(pieces.into_iter().flatten())
    }

    /// A block could not be read when what it names was to be freed: that stays allocated, and nothing names it.
    pub fn note_leak(&self) {
        self.leaks.fetch_add(1, Ordering::Relaxed);
    }

    /// So many of those were given back.
    pub(crate) fn forget_leaks(&self, count: u64) {
        self.leaks.fetch_sub(count, Ordering::Relaxed);
    }

    /// Blocks of which that is true since the pool was opened.
    pub fn leak_count(&self) -> u64 {
        self.leaks.load(Ordering::Relaxed)
    }

    /// A block that was written ahead of any group, under [`UNBORN`](crate::alloc::UNBORN), belongs to `txg` from now on
    /// and is known by the pointer that this gives, in the cache as well. `None` if it was no such block.
    pub fn settle(&self, bp: &BlockPtr, txg: Txg) -> Option<BlockPtr> {
        if !self.take_unborn_ranges(bp)?.all(|dva| self.alloc.settle(dva, txg)) {
            return None;
        }
        let born = BlockPtr { birth: txg, written: txg, ..*bp };
        self.cache.rename(&CacheKey::of(bp), CacheKey::of(&born));
        Some(born)
    }

    /// Collects new blocks of `txg`.
    #[must_use]
    pub fn writer(self: &Arc<Self>, txg: Txg) -> RunWriter {
        RunWriter::new(self.clone(), txg)
    }

    /// Makes everything written durable, on every device, all at once.
    pub fn flush(&self, fanout: &dyn Fanout) -> Result<(), BlockError> {
        flush_all(&self.devs, fanout).map_err(|(vdev, source)| BlockError::Flush { vdev, source })
    }

    /// The content of a pool root, as [`RunWriter::commit`] has stored it.
    pub fn read_root(devs: &BlockDevs, bp: &BlockPtr) -> Result<Bytes, BlockError> {
        let bytes = block::open(devs, bp)?;
        let malformed = BlockError::Malformed { bp: *bp, what: "pool root" };
        let mut reader = Reader::new(&bytes, "pool root");
        match reader.blob() {
            Ok(root) if bp.kind == BlockKind::Root => Ok(bytes.slice_ref(root)),
            _ => Err(malformed),
        }
    }

    /// Forgets every cached block: to measure cold, and to read again after a repair.
    pub fn drop_cache(&self) {
        self.cache.clear();
    }

    /// What was done so far.
    pub fn stats(&self) -> IoStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        IoStats {
            hits: self.counters.hits.iter().map(of).sum(),
            misses: self.counters.misses.iter().map(of).sum(),
            read_bytes: of(&self.counters.read_bytes),
            runs_written: of(&self.counters.runs_written),
            blocks_written: of(&self.counters.blocks_written),
            written_bytes: of(&self.counters.written_bytes),
            cache_bytes: self.cache.bytes(),
            cache_blocks: self.cache.count(),
        }
    }

    /// A new block: readable from now on, although it is written later. `is_brought`: a long WRITE has brought it, so that it
    /// may have a buffer with its neighbours.
    pub(crate) fn accept(&self, bp: &BlockPtr, bytes: Bytes, is_brought: bool) {
        let key = CacheKey::of(bp);
        self.unwritten.write().insert(key, bytes.clone());
        let cached = Cached { bytes, checked: true, kind: bp.kind };
        if is_brought { self.cache.insert_brought(key, cached) } else { self.cache.insert(key, cached) }
    }

    /// These blocks are on their device, or never will be.
    pub(crate) fn forget_unwritten(&self, blocks: &[BlockPtr]) {
        let mut unwritten = self.unwritten.write();
        for bp in blocks {
            unwritten.remove(&CacheKey::of(bp));
        }
    }

    /// Writes what ends a group: as one run, though it may be in places apart.
    pub(crate) fn write_together(&self, parts: Vec<(Dva, &[u8])>) -> Result<(), BlockError> {
        let bytes: usize = parts.iter().map(|(_, bytes)| bytes.len()).sum();
        self.counters.runs_written.fetch_add(1, Ordering::Relaxed);
        self.counters.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        block::write_together(&self.devs, parts, self.write_bytes_max())
    }

    pub(crate) fn write_sectors(&self, place: Dva, buf: &[u8]) -> Result<(), BlockError> {
        self.counters.runs_written.fetch_add(1, Ordering::Relaxed);
        self.counters.written_bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        block::write_sectors(&self.devs, place.vdev, place.offset, buf)
    }
}

#[cfg(test)]
mod tests;
