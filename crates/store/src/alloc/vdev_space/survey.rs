//! The survey of a vdev's space ([`crate::alloc::survey`]): each region has its own bits.

use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tally_base::Txg;

use super::VdevSpace;
use crate::alloc::region::Region;
use crate::bp::Dva;

impl VdevSpace {
    /// See [`Region::begin_survey`]: of all regions whose maps can be had. Those that are not in memory are read and not kept.
    pub(in crate::alloc) fn begin_survey(&self) {
        for (at, region) in self.regions.iter().enumerate() {
            let mut region = region.lock();
            match self.busy(at, &region) {
                Some(busy) => region.begin_survey(busy),
                None => region.end_survey(),
            }
        }
    }

    /// See [`Region::end_survey`].
    pub(in crate::alloc) fn end_survey(&self) {
        self.regions.iter().for_each(|region| region.lock().end_survey());
    }

    /// See [`Region::meet`].
    pub(in crate::alloc) fn meet(&self, dva: &Dva) -> bool {
        let parts = self.parts(dva);
        parts.fold(true, |all, (at, run)| self.regions.get(at).is_none_or(|region| region.lock().meet(run)) && all)
    }

    /// Ranges that nothing has named, in order.
    pub(in crate::alloc) fn unmet(&self) -> impl Iterator<Item = Dva> + use<'_> {
        let of_region = move |(at, region): (usize, &Mutex<Region>)| {
            let runs: Vec<_> = region.lock().unmet().collect();
            runs.into_iter().map(move |run| self.dva(at, run))
        };
        self.regions.iter().enumerate().flat_map(of_region)
    }

    /// What of a range is free becomes an allocation of `txg`.
    pub(in crate::alloc) fn take_back(&self, dva: &Dva, txg: Txg) {
        self.each(dva, |at, region, run| {
            if self.load(at, region) {
                self.free.fetch_sub(u64::from(region.take_back(run, txg)), Ordering::Relaxed);
            }
            true
        });
    }
}
