//! The table of flights: which blocks are on their way, and who brings them.
//!
//! A flight stands in the table under each of its blocks from the moment it is planned. Any thread may begin it, and whoever does
//! first is the only one.
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
//! | under way | yes, unless somebody has waited for too long | for what has not come yet | waits until his block has come or all has landed |
//! | landed | no | none | looks into the cache, and reads for himself |
//!
//! The lock of the table and that of a stage are never held together.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::{self, ThreadId};

use parking_lot::{Condvar, Mutex};

use crate::bp::BlockPtr;
use crate::cache::CacheKey;

/// Most bytes of one flight: on a disk that takes 8 ms to begin, so many make half a gigabyte a second.
pub const FLIGHT_BYTES_MAX: u64 = 4 << 20;

/// Most blocks of which is known that they have not come. What is forgotten is asked for once more.
const NOT_COME_MAX: usize = 4 << 10;

/// Blocks that will be fetched by one read.
pub struct Flight {
    pub(super) stage: Mutex<Stage>,
    /// It has, or some of its blocks have.
    pub(super) landed: Condvar,
    pub(super) keys: Vec<CacheKey>,
}

pub(super) enum Stage {
    /// Nobody has begun it: what is to be fetched, and the room in the cache that was taken for it.
    Planned(Vec<ToFetch>, u64),
    /// This thread carries it out.
    UnderWay(ThreadId),
    Landed,
}

/// A block to fetch.
#[derive(Clone, Copy, Debug)]
pub struct ToFetch {
    /// Where it is.
    pub bp: BlockPtr,
    /// A reader has come for it already, and waits: it comes for him, and with it what lies behind it.
    pub is_asked_for: bool,
}

/// The flights that have not landed, and what came of the others.
#[derive(Default)]
pub(super) struct Flights {
    pub(super) by_key: Mutex<HashMap<CacheKey, Arc<Flight>>>,
    /// What a flight was to bring and has not. A disk may take half a minute to find out that it cannot read a sector: it is not
    /// asked for that again before a reader asks for it.
    pub(super) not_come: Mutex<HashSet<CacheKey>>,
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Flights {
    pub(super) fn of(&self, key: &CacheKey) -> Option<Arc<Flight>> {
        self.by_key.lock().get(key).cloned()
    }

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

    /// Takes note of a node that this thread is about to read, until what this gives is dropped. `None`: somebody else is at it.
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

/// A node that somebody reads from its device. Whoever comes for it meanwhile waits for him: sixteen streams have sixteen
/// readers, and as many who go ahead of them, through the same nodes.
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

impl Flight {
    fn under_way(key: CacheKey) -> Self {
        let stage = Mutex::new(Stage::UnderWay(thread::current().id()));
        Self { stage, landed: Condvar::new(), keys: vec![key] }
    }

    /// Whether nobody has begun it.
    pub fn is_planned(&self) -> bool {
        matches!(*self.stage.lock(), Stage::Planned(..))
    }

    pub(super) fn is_of_this_thread(&self) -> bool {
        matches!(*self.stage.lock(), Stage::UnderWay(carrier) if carrier == thread::current().id())
    }

    pub(super) fn land(&self) {
        *self.stage.lock() = Stage::Landed;
        self.landed.notify_all();
    }
}
