//! Blocks that are fetched before their reader asks for them.
//!
//! **The idea.** A *flight* is a stretch of blocks that lie side by side on one device: one read fetches them. It is
//! made by whoever knows what will be wanted ([`BlockIo::plan_ahead`]) and stands in the [table of
//! flights](super::flights) until it has landed. Any thread may carry it out, and whoever does first is the only one: a
//! thread that the pool was given for that, or a reader who comes for one of the blocks before, so that nobody waits
//! for a queue. A reader who comes while it is under way waits for it instead of reading the block a second time.
//!
//! **Nothing is said and nothing is held.** A flight holds no tree, so what it was made from may be freed, and its
//! places used again, before it lands. What it brings is compared with the checksum in each pointer, and enters the
//! cache under place, birth and checksum, so that another block in the same place is neither taken for it nor found
//! under its name. A block that is not as its pointer says, and a device that refuses, are passed over without a count,
//! a repair or a line in the log: that is for whoever reads it in earnest, once, and for nobody else.
//!
//! **Nodes that several readers lack.** Sixteen readers who begin in a cold tree all need its root. Whoever reads a
//! node from its device, ahead of a reader or in earnest, stands in the table too, and who comes for it meanwhile waits
//! for him. But not on his own thread: an operation that comes there while that one waits for its device would wait for
//! itself.
//!
//! **A disk that hangs** keeps whoever has asked it. Those who wait for him have asked nobody: where nothing has come
//! for [`JOIN_MAX`] they take the flight off the table, and read for themselves. By then the disk may have left its
//! mirror.
//!
//! **Bounds.** Flights that have not landed and what they have brought take at most their share of the cache
//! ([`crate::cache`]); where that is taken, nothing is planned.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tally_base::{LongWork, blocking};

use super::flights::{BeingRead, FLIGHT_BYTES_MAX, Flight, ToFetch};
use super::{BlockIo, Check, Purpose, are_neighbours};
use crate::block;
use crate::bp::{BlockKind, BlockPtr};
use crate::cache::{BlockCache, CacheKey, Cached};

/// How long a reader waits for the next that a flight brings. A disk that answers does so by then, also one with many
/// flights before this one.
const JOIN_MAX: Duration = Duration::from_secs(2);

/// How a block stands for somebody who is about to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In the cache, since somebody has asked for it.
    Cached,
    /// In the cache, since it was fetched ahead.
    Fetched,
    /// On its way.
    UnderWay,
    /// On its device only.
    Stored,
}

/// From where the nodes of a tree may come for somebody who goes ahead of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// The cache: for somebody who must not wait.
    Cached,
    /// Their device, where they are not cached.
    Any,
}

/// What was fetched ahead, and what came of it. `hits` and `misses` are blocks of files that were not cached otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchStats {
    /// Those that a reader found, since they were fetched ahead of him.
    pub hits: u64,
    /// Those that a reader had to read from their device.
    pub misses: u64,
    /// Bytes of content that were fetched ahead. Where blocks are packed, fewer have come from their devices.
    pub bytes: u64,
    /// Of these, what went before a reader came.
    pub unread_bytes: u64,
}

/// A flight that somebody carries out. However that ends, nobody waits for it any longer.
struct Carried<'a> {
    io: &'a BlockIo,
    flight: &'a Flight,
    room: u64,
}

impl Drop for Carried<'_> {
    fn drop(&mut self) {
        self.io.flights.forget(self.flight);
        self.io.cache.release_fetched(self.room);
        self.flight.land();
    }
}

impl BlockIo {
    /// How a block stands.
    pub fn standing(&self, bp: &BlockPtr) -> Standing {
        let key = CacheKey::of(bp);
        if self.cache.holds_asked_for(&key) || self.unwritten.read().contains_key(&key) {
            Standing::Cached
        } else if self.cache.holds(&key) {
            Standing::Fetched
        } else if self.flights.of(&key).is_some() {
            Standing::UnderWay
        } else {
            Standing::Stored
        }
    }

    /// The most that may be fetched ahead at a time, in bytes.
    pub fn fetched_bytes_max(&self) -> u64 {
        self.cache.fetched_bytes_max()
    }

    /// What was fetched ahead so far.
    pub fn prefetch_stats(&self) -> PrefetchStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PrefetchStats {
            hits: of(&self.flights.hits),
            misses: of(&self.flights.misses),
            bytes: of(&self.flights.bytes),
            unread_bytes: self.cache.unread_bytes(),
        }
    }

    /// Plans to fetch blocks of files, in this order; those that are neither cached nor under way, on devices that are
    /// not behind, and as far as there is room. Each flight is to be carried out ([`Self::fetch`]) or given up
    /// ([`Self::give_up`]).
    pub fn plan_ahead(&self, blocks: &[ToFetch]) -> Vec<Arc<Flight>> {
        let wanted: Vec<ToFetch> = blocks.iter().filter(|of| self.is_worth_fetching(&of.bp)).copied().collect();
        let mut flights = Vec::new();
        for stretch in wanted.chunk_by(|left, right| are_neighbours(&left.bp, &right.bp)) {
            let mut rest = stretch;
            while !rest.is_empty() {
                let (first, behind) = rest.split_at(one_flight(rest));
                let ahead = first.iter().filter(|of| !of.is_asked_for);
                let room = ahead.map(|of| BlockCache::room_of(&of.bp)).sum();
                if !self.cache.reserve_fetched(room) {
                    return flights;
                }
                match self.flights.plan(first, room) {
                    Some(flight) => flights.push(flight),
                    None => self.cache.release_fetched(room),
                }
                rest = behind;
            }
        }
        flights
    }

    fn is_worth_fetching(&self, bp: &BlockPtr) -> bool {
        let dev = self.devs.get(&bp.dva.vdev);
        let is_plain = bp.kind == BlockKind::Data && block::is_in_one_piece(bp);
        // A pointer that names no place is for whoever reads it in earnest.
        let is_there = dev.is_some_and(|dev| bp.dva.end() <= dev.data_bytes() && !dev.is_behind());
        let may_come = || self.flights.may_come(&CacheKey::of(bp));
        is_plain && is_there && may_come() && self.standing(bp) == Standing::Stored
    }

    /// Carries a flight out, unless somebody else does or has.
    pub fn fetch(&self, flight: &Flight) {
        let Some((blocks, mut carried)) = self.begin(flight) else { return };
        let mut work = LongWork::default();
        let bps: Vec<BlockPtr> = blocks.iter().map(|of| of.bp).collect();
        let mut not_come: HashSet<CacheKey> = flight.keys().iter().copied().collect();
        for (at, bytes) in block::open_quietly(&self.devs, &bps) {
            work.step();
            not_come.remove(&flight.keys()[at]);
            let ToFetch { bp, is_asked_for } = &blocks[at];
            let (key, value) = (CacheKey::of(bp), Cached { bytes, checked: false, kind: bp.kind });
            if *is_asked_for {
                self.count_read(Purpose::Reading, bp);
                self.cache.insert(key, value);
            } else {
                self.counters.read_bytes.fetch_add(bp.dva.bytes(), Ordering::Relaxed);
                self.flights.bytes.fetch_add(u64::from(bp.lsize), Ordering::Relaxed);
                carried.room -= self.cache.insert_fetched(key, value);
            }
            flight.note_arrival();
        }
        self.flights.note_not_come(&not_come);
    }

    /// Nobody will carry this flight out, unless somebody has begun.
    pub fn give_up(&self, flight: &Flight) {
        drop(self.begin(flight));
    }

    fn begin<'a>(&'a self, flight: &'a Flight) -> Option<(Vec<ToFetch>, Carried<'a>)> {
        let (blocks, room) = flight.begin()?;
        Some((blocks, Carried { io: self, flight, room }))
    }

    /// A reader comes for a block that is on its way, and has it when it is there. `None` if it is not, or did not
    /// come, or if this thread itself brings it: it would wait for ever.
    pub(super) fn join(&self, key: &CacheKey, kind: BlockKind) -> Option<Cached> {
        let flight = self.flights.of(key).filter(|flight| !flight.is_of_this_thread())?;
        self.fetch(&flight);
        if !blocking(|| flight.wait(JOIN_MAX, || self.cache.holds(key))) {
            self.flights.forget(&flight);
        }
        // Whoever has read it for himself has counted it.
        self.cache.find(key).or_else(|| self.find(key, kind))
    }

    /// What somebody else brings of a block that is not cached; where that is nothing, and the block is a node, note is
    /// taken that this thread reads it, until the second is dropped.
    pub(super) fn join_or_begin(&self, key: CacheKey, kind: BlockKind) -> (Option<Cached>, Option<BeingRead<'_>>) {
        let is_node = matches!(kind, BlockKind::TreeNode | BlockKind::Leaf);
        match is_node.then(|| self.flights.begin_alone(key)).flatten() {
            // It may have come since it was not there.
            Some(under_way) => (self.find(&key, kind), Some(under_way)),
            None => (self.join(&key, kind), None),
        }
    }

    /// A node of a tree for somebody who goes ahead of a reader: nothing is said if it cannot be had, see the head.
    pub(crate) fn read_quietly(&self, bp: &BlockPtr, nodes: Nodes, kind: BlockKind, check: Check) -> Option<Bytes> {
        if bp.kind != kind || !block::is_in_one_piece(bp) {
            return None;
        }
        let key = CacheKey::of(bp);
        let sound = |cached: Cached| (cached.checked || check(&cached.bytes).is_ok()).then_some(cached.bytes);
        if let Some(cached) = self.cache.find(&key) {
            return sound(cached);
        }
        if let Some(bytes) = self.unwritten.read().get(&key) {
            return Some(bytes.clone());
        }
        if nodes == Nodes::Cached {
            return None;
        }
        let (came, _under_way) = self.join_or_begin(key, kind);
        if let Some(cached) = came {
            return sound(cached);
        }
        let (_, bytes) = block::open_quietly(&self.devs, std::slice::from_ref(bp)).next()?;
        check(&bytes).ok()?;
        self.counters.read_bytes.fetch_add(bp.dva.bytes(), Ordering::Relaxed);
        self.cache.insert(key, Cached { bytes: bytes.clone(), checked: true, kind });
        Some(bytes)
    }
}

/// How many of these neighbours, one at least, are a flight.
fn one_flight(blocks: &[ToFetch]) -> usize {
    let mut bytes = 0;
    let fits = blocks.iter().take_while(|of| {
        bytes += of.bp.dva.bytes();
        bytes <= FLIGHT_BYTES_MAX
    });
    fits.count().max(1)
}

#[cfg(test)]
mod tests;
