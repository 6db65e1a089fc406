//! Which pools were taken up anew, and when: as many requests as are in the house run on over that.
//!
//! A pool that was suspended goes on in the same process, as after a crash. What a request was told of it before that may be gone,
//! and a promise that breaks then says nothing of the pool that serves by then. So every request notes which number the newest of
//! such moments had when it began to run, and whoever judges it later asks whether its pool had one since. They are numbered over
//! all pools, as a request does not know yet whom it is for.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use parking_lot::Mutex;
use tally_base::PoolGuid;

/// See the module's head.
#[derive(Default)]
pub(super) struct Lives {
    newest: AtomicU64,
    /// Of each pool the newest moment, and the newest of those in which it need not be as it was.
    pools: Mutex<BTreeMap<PoolGuid, (u64, u64)>>,
}

impl Lives {
    /// The number of the newest moment.
    pub(super) fn newest(&self) -> u64 {
        self.newest.load(Acquire)
    }

    /// A pool is taken up, and nobody is served yet. If not `as_it_was`, what was sent to it before is not its own any more.
    pub(super) fn begin(&self, pool: PoolGuid, as_it_was: bool) {
        let mut pools = self.pools.lock();
        let number = self.newest() + 1;
        let (begun, other) = pools.entry(pool).or_default();
        *begun = number;
        if !as_it_was {
            *other = number;
        }
        // Whoever still reads the one before asks the map, or began before.
        self.newest.store(number, Release);
    }

    /// Whether a pool was taken up since.
    pub(super) fn has_begun_since(&self, pool: PoolGuid, since: u64) -> bool {
        since != self.newest() && self.of(pool).0 > since
    }

    /// Whether a pool was taken up since that need not be as it was.
    pub(super) fn is_other_since(&self, pool: PoolGuid, since: u64) -> bool {
        self.of(pool).1 > since
    }

    fn of(&self, pool: PoolGuid) -> (u64, u64) {
        self.pools.lock().get(&pool).copied().unwrap_or_default()
    }
}
