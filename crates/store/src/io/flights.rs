//! The table of flights: which blocks are on their way, and who brings them.
//!
//! A flight stands in the table under each of its blocks from the moment it is planned. Any thread may begin it, and
//! whoever does first is the only one.
//!
//! ```text
//!                               anybody begins                    it ends, however
//!  plan: ──────────▶ planned ────────────────────▶ under way ────────────────────▶ landed
//!  begin_alone: ───────────────────────────────────────▲
//! ```
//!
//! | | in the table | room in the cache | who comes for one of its blocks |
//! |---|---|---|---|
//! | planned | yes | for all that nobody has asked for | begins it |
//! | under way | till somebody waits too long | for what has not come yet | waits for his block, or the landing |
//! | landed | no | none | looks into the cache, and reads for himself |
//!
//! The lock of the table and that of a stage are never held together.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::bp::BlockPtr;
use crate::cache::CacheKey;

/// Most bytes of one flight: on a disk that takes 8 ms to begin, so many make half a gigabyte a second.
pub const FLIGHT_BYTES_MAX: u64 = 4 << 20;

/// Most blocks of which is known that they have not come. What is forgotten is asked for once more.
const NOT_COME_MAX: usize = 4 << 10;

/// Blocks that will be fetched by one read.
pub struct Flight {
    stage: Mutex<Stage>,
    /// It has, or some of its blocks have.
    landed: Condvar,
    keys: Vec<CacheKey>,
}

enum Stage {
    /// Nobody has begun it: what is to be fetched, and the room in the cache that was taken for it.
    Planned(Vec<ToFetch>, u64),
    /// This thread carries it out.
    UnderWay(ThreadId),
    Landed,
}

/// A block to fetch.
#[derive(Clone, Copy, Debug)]
pub struct ToFetch {
    /// The pointer to it: where it lies, and what it must hold.
    pub bp: BlockPtr,
    /// A reader has come for it already, and waits: it comes for him, and with it what lies behind it.
    pub is_asked_for: bool,
}

impl Flight {
    fn new(stage: Stage, keys: Vec<CacheKey>) -> Self {
        Self { stage: Mutex::new(stage), landed: Condvar::new(), keys }
    }

    fn under_way(key: CacheKey) -> Self {
        Self::new(Stage::UnderWay(thread::current().id()), vec![key])
    }

    /// What it is to bring, block by block.
    pub(super) fn keys(&self) -> &[CacheKey] {
        &self.keys
    }

    /// Whether nobody has begun it.
    pub fn is_planned(&self) -> bool {
        matches!(*self.stage.lock(), Stage::Planned(..))
    }

    pub(super) fn is_of_this_thread(&self) -> bool {
        matches!(*self.stage.lock(), Stage::UnderWay(carrier) if carrier == thread::current().id())
    }

    /// From now on this thread carries it out: these blocks, for which so much room was taken. `None` if somebody else
    /// does or has.
    pub(super) fn begin(&self) -> Option<(Vec<ToFetch>, u64)> {
        let mut stage = self.stage.lock();
        let Stage::Planned(blocks, room) = &mut *stage else { return None };
        let begun = (std::mem::take(blocks), *room);
        *stage = Stage::UnderWay(thread::current().id());
        Some(begun)
    }

    /// A block has come. Whoever waits for the first one need not wait for the last.
    pub(super) fn note_arrival(&self) {
        // Under the lock: he has looked by then, or waits.
        drop(self.stage.lock());
        self.landed.notify_all();
    }

    /// Waits until it has landed or a block `has_come`. `false` if nothing has for `idle_max`.
    pub(super) fn wait(&self, idle_max: Duration, has_come: impl Fn() -> bool) -> bool {
        let mut stage = self.stage.lock();
        while !matches!(*stage, Stage::Landed) && !has_come() {
            if self.landed.wait_for(&mut stage, idle_max).timed_out() {
                return false;
            }
        }
        true
    }

    pub(super) fn land(&self) {
        *self.stage.lock() = Stage::Landed;
        self.landed.notify_all();
    }
}

/// The flights that have not landed, and what came of the others.
#[derive(Default)]
pub(super) struct Flights {
    by_key: Mutex<HashMap<CacheKey, Arc<Flight>>>,
    /// What a flight was to bring and has not. A disk may take half a minute to find out that it cannot read a sector:
    /// it is not asked for that again before a reader asks for it.
    not_come: Mutex<HashSet<CacheKey>>,
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Flights {
    pub(super) fn of(&self, key: &CacheKey) -> Option<Arc<Flight>> {
        self.by_key.lock().get(key).cloned()
    }

    /// A flight of blocks for which so much room was taken. `None` if another one has some of them by now.
    pub(super) fn plan(&self, blocks: &[ToFetch], room: u64) -> Option<Arc<Flight>> {
        let keys: Vec<_> = blocks.iter().map(|of| CacheKey::of(&of.bp)).collect();
        let mut by_key = self.by_key.lock();
        if keys.iter().any(|key| by_key.contains_key(key)) {
            return None;
        }
        let flight = Arc::new(Flight::new(Stage::Planned(blocks.to_vec(), room), keys));
        flight.keys.iter().for_each(|key| drop(by_key.insert(*key, Arc::clone(&flight))));
        Some(flight)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.lock().is_empty()
    }

    /// Whether no flight has tried to bring it in vain since a reader has had it.
    pub(super) fn may_come(&self, key: &CacheKey) -> bool {
        !self.not_come.lock().contains(key)
    }

    /// A flight was to bring these, and has landed without them.
    pub(super) fn note_not_come(&self, keys: &HashSet<CacheKey>) {
        if keys.is_empty() {
            return;
        }
        let mut not_come = self.not_come.lock();
        if not_come.len() + keys.len() > NOT_COME_MAX {
            not_come.clear();
        }
        not_come.extend(keys);
    }

    /// A reader has it.
    pub(super) fn note_read(&self, key: &CacheKey) {
        self.not_come.lock().remove(key);
    }

    /// Takes note of a node that this thread is about to read, until what this gives is dropped. `None`: somebody else
    /// is at it.
    pub(super) fn begin_alone(&self, key: CacheKey) -> Option<BeingRead<'_>> {
        let mut by_key = self.by_key.lock();
        let Entry::Vacant(place) = by_key.entry(key) else { return None };
        let flight = Arc::clone(place.insert(Arc::new(Flight::under_way(key))));
        Some(BeingRead { flights: self, flight })
    }

    /// Nobody joins it any more. Where it was forgotten before, another one may stand in its place.
    pub(super) fn forget(&self, flight: &Flight) {
        let mut by_key = self.by_key.lock();
        for key in &flight.keys {
            if by_key.get(key).is_some_and(|of| std::ptr::eq(&raw const **of, flight)) {
                by_key.remove(key);
            }
        }
    }
}

/// A node that somebody reads from its device. Whoever comes for it meanwhile waits for him: sixteen streams have
/// sixteen readers, and as many who go ahead of them, through the same nodes.
pub(super) struct BeingRead<'a> {
    flights: &'a Flights,
    flight: Arc<Flight>,
}

impl Drop for BeingRead<'_> {
    fn drop(&mut self) {
        self.flights.forget(&self.flight);
        self.flight.land();
    }
}
