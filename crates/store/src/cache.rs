//! The one cache of the pool: blocks as they were before compression, verified. Weighted by bytes.
//!
//! A block is known by its place, its birth and half of its checksum: a place that is used again within one txg
//! holds another block, and must not be answered with the old one. Blocks that were freed are not looked for
//! and dropped: readers of the previous txg's trees still use them, and afterwards they age out.

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

/// See the module's head. Bound: the bytes it was made with.
pub(crate) struct BlockCache(Cache<CacheKey, Cached, ByBytes>);

impl BlockCache {
    pub(crate) fn new(bytes: u64) -> Self {
        let items = usize::try_from(bytes / TYPICAL_BLOCK_BYTES).unwrap_or(usize::MAX).max(16);
        Self(Cache::with_weighter(items, bytes, ByBytes))
    }

    #[inline]
    pub(crate) fn find(&self, key: &CacheKey) -> Option<Cached> {
        self.0.get(key)
    }

    pub(crate) fn holds(&self, key: &CacheKey) -> bool {
        self.0.contains_key(key)
    }

    pub(crate) fn insert(&self, key: CacheKey, value: Cached) {
        self.0.insert(key, value);
    }

    /// The entry of `from`, if there is one, is found under `to` instead.
    pub(crate) fn rename(&self, from: &CacheKey, to: CacheKey) {
        if let Some((_, value)) = self.0.remove(from) {
            self.0.insert(to, value);
        }
    }

    pub(crate) fn remove(&self, key: &CacheKey) {
        self.0.remove(key);
    }

    pub(crate) fn clear(&self) {
        self.0.clear();
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.weight()
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }
}
