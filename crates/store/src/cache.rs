//! The one cache of the pool: blocks as they were before compression, verified. Weighted by bytes.
//!
//! A block is known by its place, its birth and half of its checksum: a place that is used again within one txg
//! holds another block, and must not be answered with the old one. Blocks that were freed are not looked for
//! and dropped: readers of the previous txg's trees still use them, and afterwards they age out.
//!
//! What a stream has written ahead of its group has a part of its own until it is first read: most of it never is,
//! and a stream through the whole cache would throw out what others need and touch fresh memory all the way. There the
//! blocks of one request share its buffer, which is freed with the last of them; they get there and age out together. One
//! that is read goes on by itself, as a copy.

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::bp::BlockPtr;

/// What an entry costs beside its bytes.
const ENTRY_BYTES: u64 = 160;

/// For sizing the cache's table: a typical block. A wrong guess costs a rehash.
const TYPICAL_BLOCK_BYTES: u64 = 16 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    vdev: u32,
    birth: u64,
    offset: u64,
    checksum: u64,
}

impl CacheKey {
    pub(crate) fn of(bp: &BlockPtr) -> Self {
        Self { vdev: bp.dva.vdev, birth: bp.birth.0, offset: bp.dva.offset, checksum: bp.checksum as u64 }
    }
}

/// A verified block; `checked` once its structure has been checked as well.
#[derive(Clone)]
pub(crate) struct Cached {
    pub(crate) bytes: Bytes,
    pub(crate) checked: bool,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<CacheKey, Cached> for ByBytes {
    fn weight(&self, _: &CacheKey, value: &Cached) -> u64 {
        value.bytes.len() as u64 + ENTRY_BYTES
    }
}

/// Written ahead and not read since: this part of the cache.
const AHEAD_SHARE: u64 = 8;

type Shelf = Cache<CacheKey, Cached, ByBytes>;

/// See the module's head. Bound: the bytes it was made with.
pub(crate) struct BlockCache {
    /// What was read, and what groups have written.
    main: Shelf,
    /// What was written ahead, until it is read.
    ahead: Shelf,
}

impl BlockCache {
    pub(crate) fn new(bytes: u64) -> Self {
        let items = |bytes: u64| usize::try_from(bytes / TYPICAL_BLOCK_BYTES).unwrap_or(usize::MAX).max(16);
        let shelf = |bytes: u64| Shelf::with_weighter(items(bytes), bytes, ByBytes);
        let ahead = bytes / AHEAD_SHARE;
        Self { main: shelf(bytes - ahead), ahead: shelf(ahead) }
    }

    #[inline]
    pub(crate) fn find(&self, key: &CacheKey) -> Option<Cached> {
        self.main.get(key).or_else(|| self.find_ahead(key))
    }

    #[cold]
    fn find_ahead(&self, key: &CacheKey) -> Option<Cached> {
        let (key, value) = self.ahead.remove(key)?;
        let alone = Cached { bytes: Bytes::copy_from_slice(&value.bytes), ..value };
        self.main.insert(key, alone.clone());
        Some(alone)
    }

    pub(crate) fn holds(&self, key: &CacheKey) -> bool {
        self.main.contains_key(key) || self.ahead.contains_key(key)
    }

    pub(crate) fn insert(&self, key: CacheKey, value: Cached) {
        self.main.insert(key, value);
    }

    /// A block that no group names yet.
    pub(crate) fn insert_ahead(&self, key: CacheKey, value: Cached) {
        self.ahead.insert(key, value);
    }

    /// The entry of a block that was written ahead is found under `to` from now on.
    pub(crate) fn rename(&self, from: &CacheKey, to: CacheKey) {
        for shelf in [&self.ahead, &self.main] {
            if let Some((_, value)) = shelf.remove(from) {
                shelf.insert(to, value);
            }
        }
    }

    pub(crate) fn remove(&self, key: &CacheKey) {
        self.main.remove(key);
        self.ahead.remove(key);
    }

    pub(crate) fn clear(&self) {
        self.main.clear();
        self.ahead.clear();
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.main.weight() + self.ahead.weight()
    }

    pub(crate) fn count(&self) -> u64 {
        (self.main.len() + self.ahead.len()) as u64
    }
}
