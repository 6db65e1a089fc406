//! What was fetched ahead of a reader, until he comes: the newest of it stays, and all of it together, with what is under
//! way, takes at most its share of the cache.
//!
//! It stands apart from the main part for three reasons. Whoever finds his blocks there pays nothing for it. A block that
//! comes ahead and is then read once must count as read once, or every stream would look to the main part like something
//! hot. And what no reader has come for goes before anything that somebody has asked for: in the order in which it came.
//!
//! The main part lends the room for what is here or under way, in steps. It has back what was not needed during a *round*:
//! while as many bytes went into the main part as the longest window has. Not sooner: a part that has just grown takes
//! whatever comes for hot, so room that goes to and fro with a stream's window would fill it with what the stream has read,
//! and each time it shrinks it would look through what is truly hot for something to throw out. And not by the clock: room
//! that nothing wants to go into is of no use to the main part either.
//!
//! Lock order: `row`, then what the main part locks.

use std::sync::Arc;

use parking_lot::Mutex;

use super::queue::Queue;
use super::{BROUGHT_SHARE, CacheKey, Cached, FETCHED_SHARE, Holdings, Shelf};

/// The main part lends in this many steps: each time one goes to and fro it looks through all of its own parts.
const STEPS: u64 = 8;

/// And no more at a time: what it gives up is thrown out at once, while everybody waits who looks for a block.
const STEP_BYTES_MAX: u64 = 32 << 20;

pub(super) struct Fetched {
    row: Mutex<Row>,
}

struct Row {
    queue: Queue,
    /// Room for what is under way.
    reserved_bytes: u64,
    /// What the whole cache may hold now.
    cache_bytes: u64,
    lent_bytes: u64,
    /// The most that was here or under way in this round.
    needed_bytes_max: u64,
    /// Of what has gone before a reader came.
    unread_bytes: u64,
}

impl Fetched {
    pub(super) fn new(cache_bytes: u64, holdings: &Arc<Holdings>) -> Self {
        let row = Row {
            queue: Queue::new(holdings),
            reserved_bytes: 0,
            cache_bytes,
            lent_bytes: 0,
            needed_bytes_max: 0,
            unread_bytes: 0,
        };
        Self { row: Mutex::new(row) }
    }

    pub(super) fn holds(&self, key: &CacheKey) -> bool {
        self.row.lock().queue.get(key).is_some()
    }

    /// Takes room for what is going to be fetched, if there is any that nothing under way has taken.
    pub(super) fn reserve(&self, bytes: u64, lender: &Shelf) -> bool {
        let mut row = self.row.lock();
        let fits = row.reserved_bytes + bytes <= row.bytes_max();
        if fits {
            row.reserved_bytes += bytes;
            row.fit(lender);
        }
        fits
    }

    /// Gives back what is left of it.
    pub(super) fn release(&self, bytes: u64, lender: &Shelf) {
        let mut row = self.row.lock();
        assert!(row.reserved_bytes >= bytes, "no more room is given back than was taken");
        row.reserved_bytes -= bytes;
        row.fit(lender);
    }

    /// A block for which room was taken: that is its own now.
    pub(super) fn insert(&self, key: CacheKey, value: Cached) {
        let mut row = self.row.lock();
        let weight = value.weight();
        assert!(row.reserved_bytes >= weight, "a block comes where there is room for it");
        row.reserved_bytes -= weight;
        row.queue.push(key, value);
    }

    pub(super) fn take(&self, key: &CacheKey, lender: &Shelf) -> Option<Cached> {
        let mut row = self.row.lock();
        let value = row.queue.remove(key)?;
        row.fit(lender);
        Some(value)
    }

    /// Nobody will come for it.
    pub(super) fn forget(&self, key: &CacheKey) {
        self.row.lock().lose(key);
    }

    pub(super) fn clear(&self) {
        let mut row = self.row.lock();
        while row.lose_first() {}
    }

    /// A round is over.
    pub(super) fn end_round(&self, lender: &Shelf) {
        self.row.lock().give_back(lender);
    }

    /// The whole cache holds at most `bytes` from now on.
    pub(super) fn limit(&self, bytes: u64, lender: &Shelf) {
        let mut row = self.row.lock();
        row.cache_bytes = bytes;
        row.make_room();
        // Also if the room that is reserved is more than the share is now: what comes finds its way out again.
        row.lent_bytes = row.lent_bytes.min(row.bytes_max());
        lender.limit(row.lender_bytes());
    }

    pub(super) fn bytes(&self) -> u64 {
        self.row.lock().queue.bytes()
    }

    pub(super) fn count(&self) -> usize {
        self.row.lock().queue.len()
    }

    pub(super) fn unread_bytes(&self) -> u64 {
        self.row.lock().unread_bytes
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.row.lock().bytes_max()
    }
}

impl Row {
    fn bytes_max(&self) -> u64 {
        self.cache_bytes / FETCHED_SHARE
    }

    /// What the main part may hold beside it.
    fn lender_bytes(&self) -> u64 {
        self.cache_bytes - self.cache_bytes / BROUGHT_SHARE - self.lent_bytes
    }

    fn lose(&mut self, key: &CacheKey) {
        let lost = self.queue.remove(key);
        self.unread_bytes += lost.map_or(0, |value| value.bytes.len() as u64);
    }

    /// What came first goes first. `false`: there is nothing.
    fn lose_first(&mut self) -> bool {
        let lost = self.queue.pop();
        self.unread_bytes += lost.as_ref().map_or(0, |value| value.bytes.len() as u64);
        lost.is_some()
    }

    fn make_room(&mut self) {
        while self.needed_bytes() > self.bytes_max() && self.lose_first() {}
    }

    fn fit(&mut self, lender: &Shelf) {
        self.make_room();
        let needed = self.needed_bytes();
        self.needed_bytes_max = self.needed_bytes_max.max(needed);
        if needed > self.lent_bytes {
            self.lend(needed, lender);
        }
    }

    fn give_back(&mut self, lender: &Shelf) {
        let now = self.needed_bytes();
        let needed = std::mem::replace(&mut self.needed_bytes_max, now);
        if needed.next_multiple_of(self.step()) < self.lent_bytes {
            self.lend(needed, lender);
        }
    }

    fn lend(&mut self, needed: u64, lender: &Shelf) {
        self.lent_bytes = needed.next_multiple_of(self.step()).min(self.bytes_max());
        lender.limit(self.lender_bytes());
    }

    fn needed_bytes(&self) -> u64 {
        self.queue.bytes() + self.reserved_bytes
    }

    fn step(&self) -> u64 {
        (self.bytes_max() / STEPS).clamp(1, STEP_BYTES_MAX)
    }
}
