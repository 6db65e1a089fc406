//! What is allocated and named by nothing: a survey of space, for as long as a scrub runs (rules S37).
//!
//! **The problem.** What a block that cannot be read has named stays allocated when the block goes, for ever. Whoever walks the
//! whole pool meets everything that is named; but blocks are written, freed and moved all the while, for days.
//!
//! **The idea.** A bit for each sector that was *allocated by a committed group when the survey began*, was never given back since,
//! and was not met: bits only go out. What is taken later has none, so that nobody need tell of it; nor has what was placed
//! ahead. What is given back loses its bits where that happens, under its region's lock
//! ([`super::region`]). What waits for an uberblock, or for a map, is taken out at the beginning and at the end, and the
//! allocator's own sectors and the rings are met at the end. What is left then has been allocated all along, and no tree had it
//! when the walk came by. A tree's block keeps its key until it is freed, so the walk would have come by it.
//!
//! A block that is met and has no bit, although a tree had it before the survey began, is in two places at once, or was
//! free: whoever met it looks into that.
//!
//! **What it costs.** 4 KiB for each region of 128 MiB: 32 MiB a TiB, while it lasts. Maps are read, and not kept.

use std::sync::atomic::Ordering;

use tally_base::{SECTOR, Txg};

use super::Allocator;
use crate::bp::{BlockPtr, Dva};

/// See the module's head. Ends when it goes.
pub(crate) struct Survey<'a> {
    alloc: &'a Allocator,
    /// Blocks that a tree had in this group or before had bits.
    pub(crate) began: Txg,
}

/// What a survey has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unmet {
    /// Sectors that nothing names.
    pub(crate) sectors: u64,
    /// The first ranges of them.
    pub(crate) ranges: Vec<Dva>,
}

impl Allocator {
    /// Begins a survey; none if there is one. `durable` is the newest durable group. What a group has committed that is not
    /// published yet is among what is to be met: whoever asks waits for that before he goes through trees.
    pub(crate) fn begin_survey(&self, durable: Txg) -> Option<Survey<'_>> {
        let is_first = !self.is_surveyed.swap(true, Ordering::AcqRel);
        is_first.then(|| {
            self.vdevs.iter().for_each(super::VdevSpace::begin_survey);
            Survey { alloc: self, began: durable }
        })
    }

    /// Nobody is given anything of a range any more as long as this import lasts, whatever was freed of it, or is: who names it, and
    /// the maps, contradict each other. What of it is free becomes an allocation of `txg`, an open group that the caller holds.
    pub(crate) fn pin(&self, dva: &Dva, txg: Txg) {
        let mut pinned = self.pinned.write();
        if pinned.len() < PINNED_MAX && !pinned.contains(dva) {
            pinned.push(*dva);
        }
        drop(pinned);
        // What is freed from here on stays; what was is taken back.
        if let Some(vdev) = self.vdev_of(dva) {
            vdev.take_back(dva, txg);
        }
    }

    /// Whether any of a range is pinned.
    pub(super) fn is_pinned(&self, dva: &Dva) -> bool {
        self.pinned.read().iter().any(|pinned| pinned.overlaps(dva))
    }

    /// Whether any of a range was freed by a group up to `durable`, and waits.
    pub(crate) fn was_freed(&self, dva: &Dva, durable: Txg) -> bool {
        self.deferred.lock().waiting(..=durable).any(|range| range.overlaps(dva))
    }

    /// Whether the map has any of a range free. It reads the map, and one that cannot be had says no.
    pub(crate) fn has_free(&self, dva: &Dva) -> bool {
        self.vdev_of(dva).is_some_and(|vdev| !vdev.all(dva, true))
    }

    /// The allocator's own sectors, as the newest commit has them, but for those that the next one frees. Nobody commits meanwhile.
    pub(crate) fn visit_own(&self, visit: &mut dyn FnMut(&BlockPtr)) {
        let persisted = self.persisted.lock();
        persisted.indexes.iter().flat_map(|index| index.levels.iter().flatten().flatten()).for_each(&mut *visit);
        for region in self.vdevs.iter().flat_map(|vdev| &vdev.regions) {
            let line = region.lock().line();
            line.iter().for_each(|line| visit(&line.pointer()));
        }
        self.deferred.lock().chains().for_each(visit);
    }
}

impl Survey<'_> {
    /// A tree, or the pool itself, names a range. Whether all of it was still to be met, as far as is known.
    pub(crate) fn meet(&self, dva: &Dva) -> bool {
        self.alloc.vdev_of(dva).is_none_or(|vdev| vdev.meet(dva))
    }

    /// What was freed and waits is named by nothing, and no leak; nor is what is pinned. Nobody syncs a group meanwhile.
    pub(crate) fn pass_over_waiting(&self) {
        let waiting: Vec<_> = self.alloc.deferred.lock().waiting(..).collect();
        let (ripe, pinned) = (self.alloc.maps.ripe.lock().all(), self.alloc.pinned.read().clone());
        for dva in waiting.iter().chain(&ripe).chain(&pinned) {
            self.meet(dva);
        }
    }

    /// Whether what is never allocated is known: as many sectors as these rings have.
    pub(crate) fn is_all_excluded(&self, rings: &[Dva]) -> bool {
        self.alloc.vdevs.iter().all(|vdev| {
            let of_vdev = rings.iter().filter(|ring| ring.vdev == vdev.index());
            vdev.excluded() == of_vdev.map(|ring| u64::from(ring.sectors)).sum::<u64>()
        })
    }

    /// What is left: all of it counted, and so many ranges named.
    pub(crate) fn unmet(&self, ranges_max: usize) -> Unmet {
        let mut unmet = Unmet::default();
        for dva in self.alloc.vdevs.iter().flat_map(super::VdevSpace::unmet) {
            unmet.sectors += u64::from(dva.sectors);
            if unmet.ranges.len() < ranges_max {
                unmet.ranges.push(dva);
            }
        }
        unmet
    }

    /// How many ranges one group gives back: their list is so short that any pool has room for it.
    pub(crate) fn ranges_max(&self) -> usize {
        let free_sectors = self.alloc.space().free / SECTOR as u64;
        let list_sectors = (free_sectors / LIST_SHARE).clamp(1, LIST_SECTORS_MAX);
        list_sectors as usize * super::deferred::RANGES_PER_SECTOR
    }
}

/// Places that are pinned at once: as many as a scrub looks into.
const PINNED_MAX: usize = 1024;

/// The list of what is given back has a sector for so many free ones, and 16 Ki ranges at most.
const LIST_SHARE: u64 = 256;
const LIST_SECTORS_MAX: u64 = 64;

impl Drop for Survey<'_> {
    fn drop(&mut self) {
        self.alloc.vdevs.iter().for_each(super::VdevSpace::end_survey);
        self.alloc.is_surveyed.store(false, Ordering::Release);
    }
}
