//! Blocks that were found damaged and that no leg has right: what `status` must not call repaired.
//!
//! Each is counted once, however often it is read, and forgotten when it can be read again or is freed. Their number is
//! bounded: beyond that many the count is "at least".

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tally_base::VdevIndex;

use crate::bp::Dva;

/// Places that are kept.
const PLACES_MAX: usize = 1 << 16;

/// The places of such blocks.
#[derive(Default)]
pub(crate) struct Unrepaired {
    /// How many there are: most pools have none, and look no further.
    count: AtomicU64,
    places: Mutex<BTreeSet<(VdevIndex, u64)>>,
}

impl Unrepaired {
    pub(crate) fn note(&self, dva: Dva) {
        let mut places = self.places.lock();
        if places.len() < PLACES_MAX {
            places.insert((dva.vdev, dva.offset));
            self.count.store(places.len() as u64, Ordering::Relaxed);
        }
    }

    /// The block there is good after all, or gone.
    pub(crate) fn clear(&self, dva: Dva) {
        if self.count() > 0 {
            let mut places = self.places.lock();
            places.remove(&(dva.vdev, dva.offset));
            self.count.store(places.len() as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
