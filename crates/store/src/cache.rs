//! The one cache of the pool (rules P7): blocks as they were before compression, verified. Weighted by bytes.
//!
//! A block is known by its place, its birth and half of its checksum: a place that is used again within one txg
//! holds another block, and must not be answered with the old one. A block that a group frees is needed by readers of
//! the tree before; it goes when the group's own tree is published ([`crate::io::BlockIo::forget_freed`]).
//!
//! **What it counts is what it holds.** An entry in the main part is alone in its buffer, and the buffer is hardly
//! larger than the entry ([`alone`](crate::block::alone)): a slice of one byte would keep all the sectors that were read
//! for it.
//!
//! What a long WRITE has brought has a part of its own until it is first read, see [`brought`]: most of it never is, and a
//! long file through the whole cache would throw out what others need and touch fresh memory all the way. There the blocks
//! of one request share its buffer, which is freed with the last of them; they get there and age out together. One that is
//! read goes on by itself, as a copy; what it was copied from stays where it is, or its neighbours would keep the whole
//! buffer for less and less.
//!
//! What was fetched ahead of a reader ([`crate::io`]) is in a third part until he comes, see [`fetched`]. That part takes
//! its room from the main one, as long as anything comes into it.

mod brought;
mod fetched;
mod queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use brought::Brought;
use bytes::Bytes;
use fetched::Fetched;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, Weighter};
use tally_base::VdevIndex;

use crate::bp::{BlockKind, BlockPtr};

/// What an entry costs beside its bytes.
const ENTRY_BYTES: u64 = 160;

/// For sizing the cache's table: a typical block. A wrong guess costs a rehash.
const TYPICAL_BLOCK_BYTES: u64 = 16 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    vdev: VdevIndex,
    written: u64,
    offset: u64,
    checksum: u64,
}

impl CacheKey {
    pub(crate) fn of(bp: &BlockPtr) -> Self {
        Self { vdev: bp.dva.vdev, written: bp.written.0, offset: bp.dva.offset, checksum: bp.checksum as u64 }
    }
}

/// A verified block; `checked` once its structure has been checked as well.
#[derive(Clone)]
pub(crate) struct Cached {
    pub(crate) bytes: Bytes,
    pub(crate) checked: bool,
    pub(crate) kind: BlockKind,
}

impl Cached {
    fn weight(&self) -> u64 {
        self.bytes.len() as u64 + ENTRY_BYTES
    }
}

/// Bytes in the cache by kind of block, what entries cost included.
#[derive(Default)]
struct Holdings([AtomicU64; BlockKind::ALL.len()]);

impl Holdings {
    fn of(&self, kind: BlockKind) -> &AtomicU64 {
        &self.0[kind.index()]
    }

    fn gain(&self, value: &Cached) {
        self.of(value.kind).fetch_add(value.weight(), Ordering::Relaxed);
    }

    fn lose(&self, value: &Cached) {
        self.of(value.kind).fetch_sub(value.weight(), Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.0.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }
}

/// Hears of what is evicted.
#[derive(Clone)]
struct Ledger(Arc<Holdings>);

impl Lifecycle<CacheKey, Cached> for Ledger {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), _: CacheKey, value: Cached) {
        self.0.lose(&value);
    }
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<CacheKey, Cached> for ByBytes {
    fn weight(&self, _: &CacheKey, value: &Cached) -> u64 {
        value.weight()
    }
}

/// Brought by long WRITEs and not read since: this part of the cache at least.
const BROUGHT_SHARE: u64 = 8;

/// Fetched ahead of a reader and not read since, or about to be: this part of the cache at most. Sixteen streams on
/// a disk with long turns need as much of a usual cache for reads that are long enough.
const FETCHED_SHARE: u64 = 4;

/// So much of the cache goes into the main part during a round, see [`fetched`]: as much as the longest window takes.
const ROUND_SHARE: u64 = 2 * FETCHED_SHARE;

/// In a cache from this size on the blocks of a long WRITE share its buffer. A request is up to a mebibyte, and
/// some are always half gone: of a smaller cache they would be a large part.
const SHARING_BYTES_MIN: u64 = 128 << 20;

/// Insertions that may be under way at once. Two of one key must not be, or it would be counted twice.
const INSERT_LOCKS: usize = 64;

/// A part of the cache.
struct Shelf {
    /// Each of its parts has the same share of the room, so the hash has to spread blocks that lie in a row and have one
    /// content.
    entries: Cache<CacheKey, Cached, ByBytes, foldhash::quality::RandomState, Ledger>,
    inserting: [Mutex<()>; INSERT_LOCKS],
    holdings: Arc<Holdings>,
}

impl Shelf {
    fn new(bytes: u64, holdings: &Arc<Holdings>) -> Self {
        let items = usize::try_from(bytes / TYPICAL_BLOCK_BYTES).unwrap_or(usize::MAX).max(16);
        let (ledger, hasher) = (Ledger(Arc::clone(holdings)), foldhash::quality::RandomState::default());
        Self {
            entries: Cache::with(items, bytes, ByBytes, hasher, ledger),
            inserting: std::array::from_fn(|_| Mutex::default()),
            holdings: Arc::clone(holdings),
        }
    }

    fn insert(&self, key: CacheKey, value: Cached) {
        let _alone = self.inserting[key.checksum as usize % INSERT_LOCKS].lock();
        // Whatever it replaces is heard of as evicted.
        self.holdings.gain(&value);
        if let Err((key, value)) = self.entries.replace(key, value, true) {
            self.entries.insert(key, value);
        }
    }

    fn remove(&self, key: &CacheKey) -> Option<Cached> {
        let (_, value) = self.entries.remove(key)?;
        self.holdings.lose(&value);
        Some(value)
    }

    fn limit(&self, bytes: u64) {
        self.entries.set_capacity(bytes);
    }

    fn clear(&self) {
        self.entries.drain().for_each(|(_, value)| self.holdings.lose(&value));
    }
}

/// See the module's head. Bound: the bytes it was made with, or fewer while the machine is short of memory.
pub(crate) struct BlockCache {
    /// What was read, and what groups have written.
    main: Shelf,
    /// What long WRITEs have brought, until it is read.
    brought: Brought,
    /// What was fetched ahead of a reader, until he comes.
    fetched: Fetched,
    /// What went into the main part in this round, see [`fetched`].
    round_bytes: AtomicU64,
    holdings: Arc<Holdings>,
    bytes_max: u64,
}

impl BlockCache {
    pub(crate) fn new(bytes: u64) -> Self {
        let holdings = Arc::default();
        let main = Shelf::new(bytes - bytes / BROUGHT_SHARE, &holdings);
        let (brought, fetched) = (Brought::new(bytes, &holdings), Fetched::new(bytes, &holdings));
        Self { main, brought, fetched, round_bytes: AtomicU64::new(0), holdings, bytes_max: bytes }
    }

    #[inline]
    pub(crate) fn find(&self, key: &CacheKey) -> Option<Cached> {
        self.main.entries.get(key).or_else(|| self.find_brought(key))
    }

    #[cold]
    fn find_brought(&self, key: &CacheKey) -> Option<Cached> {
        let alone = if self.shares() {
            let value = self.brought.peek(key)?;
            Cached { bytes: Bytes::copy_from_slice(&value.bytes), ..value }
        } else {
            self.brought.remove(key)?
        };
        self.insert(*key, alone.clone());
        Some(alone)
    }

    /// Whether the blocks of one WRITE share its buffer.
    fn shares(&self) -> bool {
        self.bytes_max >= SHARING_BYTES_MIN
    }

    pub(crate) fn holds(&self, key: &CacheKey) -> bool {
        self.holds_asked_for(key) || self.fetched.holds(key)
    }

    /// Whether it is there because somebody has read or written it.
    pub(crate) fn holds_asked_for(&self, key: &CacheKey) -> bool {
        self.main.entries.contains_key(key) || self.brought.holds(key)
    }

    /// A reader comes for what was fetched ahead of him: from now on it is as if he had read it from its device.
    pub(crate) fn take_fetched(&self, key: &CacheKey) -> Option<Cached> {
        let value = self.fetched.take(key, &self.main)?;
        self.insert(*key, value.clone());
        Some(value)
    }

    /// What room a block takes that is fetched ahead.
    pub(crate) fn room_of(bp: &BlockPtr) -> u64 {
        u64::from(bp.lsize) + ENTRY_BYTES
    }

    /// Takes room for blocks that will be fetched ahead; what was fetched first and not read goes for it. `false`: there
    /// is none.
    pub(crate) fn reserve_fetched(&self, bytes: u64) -> bool {
        self.fetched.reserve(bytes, &self.main)
    }

    /// The room is not needed any more.
    pub(crate) fn release_fetched(&self, bytes: u64) {
        self.fetched.release(bytes, &self.main);
    }

    /// A block for which there is room. Gives the room that it has taken.
    pub(crate) fn insert_fetched(&self, key: CacheKey, value: Cached) -> u64 {
        if self.holds_asked_for(&key) {
            return 0;
        }
        let weight = value.weight();
        self.fetched.insert(key, value);
        self.brought.make_room();
        weight
    }

    /// Bytes that were fetched ahead and that nobody has come for before they went.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.fetched.unread_bytes()
    }

    /// The most that may be fetched ahead at a time.
    pub(crate) fn fetched_bytes_max(&self) -> u64 {
        self.fetched.bytes_max()
    }

    pub(crate) fn insert(&self, key: CacheKey, value: Cached) {
        let weight = value.weight();
        self.main.insert(key, value);
        self.brought.make_room();
        if self.round_bytes.fetch_add(weight, Ordering::Relaxed) + weight >= self.bytes_max / ROUND_SHARE {
            self.round_bytes.store(0, Ordering::Relaxed);
            self.fetched.end_round(&self.main);
        }
    }

    /// A block of a long WRITE.
    pub(crate) fn insert_brought(&self, key: CacheKey, value: Cached) {
        let bytes = if self.shares() { value.bytes } else { Bytes::copy_from_slice(&value.bytes) };
        self.brought.insert(key, Cached { bytes, ..value });
    }

    /// The entry of a block that was placed is found under `to` from now on.
    pub(crate) fn rename(&self, from: &CacheKey, to: CacheKey) {
        self.brought.rename(from, to);
        if let Some(value) = self.main.remove(from) {
            self.main.insert(to, value);
        }
    }

    pub(crate) fn remove(&self, key: &CacheKey) {
        self.main.remove(key);
        self.brought.remove(key);
        self.fetched.forget(key);
    }

    /// Nobody will ask for the block again. What a long WRITE has brought stays until it ages out with its neighbours, where
    /// its buffer is theirs.
    pub(crate) fn remove_read(&self, key: &CacheKey) {
        self.main.remove(key);
        self.fetched.forget(key);
        if !self.shares() {
            self.brought.remove(key);
        }
    }

    pub(crate) fn clear(&self) {
        self.main.clear();
        self.brought.clear();
        self.fetched.clear();
    }

    /// Holds at most `bytes` from now on, and never more than it was made for. What is too much goes at once.
    pub(crate) fn limit(&self, bytes: u64) {
        let bytes = bytes.min(self.bytes_max);
        self.fetched.limit(bytes, &self.main);
        self.brought.limit(bytes);
    }

    /// The most it may hold: what it was made for.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.main.entries.weight() + self.brought.bytes() + self.fetched.bytes()
    }

    pub(crate) fn bytes_of(&self, kind: BlockKind) -> u64 {
        self.holdings.of(kind).load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self) -> u64 {
        (self.main.entries.len() + self.brought.count() + self.fetched.count()) as u64
    }
}

#[cfg(test)]
mod tests;
