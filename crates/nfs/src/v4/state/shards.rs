//! What clients have, in shards: a client's state is in one, which its stateids tell. What is counted of all stands beside them.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::RwLock;

use super::ClientId;
use super::places::SHARD_COUNT;

/// One lock for each.
#[derive(Debug)]
pub(super) struct Shards<S>([RwLock<S>; SHARD_COUNT]);

impl<S> Shards<S> {
    /// Each is told its number, which is the low bits of the indices of its places.
    pub(super) fn new(make: impl Fn(u32) -> S) -> Self {
        Self(std::array::from_fn(|number| RwLock::new(make(number as u32))))
    }

    /// Where a client's state is: the ids of one start count up.
    pub(super) fn of(&self, client: ClientId) -> &RwLock<S> {
        self.at(client.0 as u32)
    }

    /// The one with that place.
    pub(super) fn at(&self, index: u32) -> &RwLock<S> {
        &self.0[index as usize % SHARD_COUNT]
    }

    /// That of a client, or all.
    pub(super) fn of_each(&self, client: Option<ClientId>) -> &[RwLock<S>] {
        client.map_or(&self.0, |client| std::slice::from_ref(self.of(client)))
    }
}

/// How much of something there is in all shards.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicUsize);

impl Count {
    pub(super) fn now(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// So much more, if that is within a bound.
    pub(super) fn take(&self, more: usize, most: usize) -> bool {
        let taken = |count: usize| Some(count + more).filter(|count| *count <= most);
        self.0.fetch_update(Relaxed, Relaxed, taken).is_ok()
    }

    /// Of what was taken.
    pub(super) fn give(&self, less: usize) {
        self.0.fetch_sub(less, Relaxed);
    }

    /// One more, without a bound of its own. Gives how many there are with it.
    pub(super) fn next(&self) -> usize {
        self.0.fetch_add(1, Relaxed) + 1
    }
}

/// What time it is, by the clock of leases.
#[derive(Debug, Default)]
pub(super) struct Second(AtomicU32);

impl Second {
    pub(super) fn now(&self) -> u32 {
        self.0.load(Relaxed)
    }

    pub(super) fn look_at_clock(&self, now: Duration) {
        self.0.store(now.as_secs() as u32, Relaxed);
    }
}
