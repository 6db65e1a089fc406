//! What long WRITEs have brought, until it is first read: the newest of it stays, in an eighth of the cache and in what the
//! other parts leave free.
//!
//! It goes in the order in which it came, so that the blocks of one request leave together, and its buffer with them. In the
//! order of the main part, which keeps what it has against what is new, the first that came stayed for ever, and what was
//! just written went at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::queue::Queue;
use super::{BROUGHT_SHARE, CacheKey, Cached, Holdings};

pub(super) struct Brought {
    queue: Mutex<Queue>,
    holdings: Arc<Holdings>,
    /// What the queue holds, for those who only look.
    bytes: AtomicU64,
    /// What the whole cache may hold now.
    cache_bytes: AtomicU64,
}

impl Brought {
    pub(super) fn new(cache_bytes: u64, holdings: &Arc<Holdings>) -> Self {
        let (queue, holdings) = (Mutex::new(Queue::new(holdings)), Arc::clone(holdings));
        Self { queue, holdings, bytes: AtomicU64::new(0), cache_bytes: AtomicU64::new(cache_bytes) }
    }

    pub(super) fn holds(&self, key: &CacheKey) -> bool {
        self.queue.lock().get(key).is_some()
    }

    pub(super) fn peek(&self, key: &CacheKey) -> Option<Cached> {
        self.queue.lock().get(key).cloned()
    }

    pub(super) fn insert(&self, key: CacheKey, value: Cached) {
        self.change(|queue| queue.push(key, value));
        self.make_room();
    }

    pub(super) fn remove(&self, key: &CacheKey) -> Option<Cached> {
        self.change(|queue| queue.remove(key))
    }

    pub(super) fn rename(&self, from: &CacheKey, to: CacheKey) {
        self.change(|queue| queue.rename(from, to));
    }

    /// Gives back what others have come for: all that is above its own share.
    pub(super) fn make_room(&self) {
        let cache_bytes = self.cache_bytes.load(Ordering::Relaxed);
        let is_too_much = |bytes| bytes > cache_bytes / BROUGHT_SHARE && self.holdings.sum() > cache_bytes;
        if is_too_much(self.bytes()) {
            self.change(|queue| while is_too_much(queue.bytes()) && queue.pop().is_some() {});
        }
    }

    /// The whole cache holds at most `bytes` from now on, and the other parts have heard of it.
    pub(super) fn limit(&self, bytes: u64) {
        self.cache_bytes.store(bytes, Ordering::Relaxed);
        self.make_room();
    }

    pub(super) fn clear(&self) {
        self.change(|queue| while queue.pop().is_some() {});
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self) -> usize {
        self.queue.lock().len()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Queue) -> T) -> T {
        let mut queue = self.queue.lock();
        let result = change(&mut queue);
        self.bytes.store(queue.bytes(), Ordering::Relaxed);
        result
    }
}
