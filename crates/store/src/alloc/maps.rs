//! Space maps between disk and memory: how they are read when somebody needs one, how many stay, and which cannot be had (rules
//! S51).
//!
//! **The problem.** A map for each 128 MiB is 3 GiB of them for 100 TiB, and as many reads before the first client is served;
//! and a pool that is in use needs a handful at a time.
//!
//! **The idea.** An import reads the index, whose lines tell what an allocation has to know of a region to choose it. A map is
//! read by whoever first takes from its region, or looks into it, under the region's lock, from either of its two places.
//! Those that stand on disk as they are in memory may go again, in the order in which they came, but for those in use.
//!
//! **What cannot be had.** A map that cannot be read in any place, or is not what its line says, fences its region off: nothing
//! is taken from it, what is freed in it waits on its list, and its line stays in the index as it is, for another import or
//! a scrub to do better. The rest of the pool goes on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tally_base::codec::Malformed;
use tally_base::{SECTOR, Txg};
use tally_members::blockdev::BlockDevs;

use super::bitmap::Bitmap;
use super::load::{SectorError, read_sector};
use super::ripe::{Place, Ripe};
use super::space_line::SpaceLine;
use crate::bp::BlockKind;

/// What is told of fenced regions by name; beyond that they are counted.
const TOLD_MAX: usize = 16;

/// Shared by the vdevs of an allocator. Every lock here is taken behind a region's, and none behind another.
pub(super) struct Maps {
    devs: BlockDevs,
    pub(super) ripe: Mutex<Ripe>,
    /// Up to which group what was freed may be used again.
    ripe_through: AtomicU64,
    /// Regions whose map is in memory; who came first is first.
    loaded: Mutex<VecDeque<Place>>,
    loaded_max: AtomicUsize,
    fenced: Mutex<Fenced>,
    bad_frees: AtomicU64,
}

/// Regions that cannot be used.
#[derive(Default)]
struct Fenced {
    count: usize,
    told: Vec<String>,
}

impl Maps {
    pub(super) fn new(devs: &BlockDevs) -> Self {
        Self {
            devs: devs.clone(),
            ripe: Mutex::default(),
            ripe_through: AtomicU64::new(0),
            loaded: Mutex::default(),
            loaded_max: AtomicUsize::new(usize::MAX),
            fenced: Mutex::default(),
            bad_frees: AtomicU64::new(0),
        }
    }

    pub(super) fn keep(&self, bytes: u64) {
        let maps = usize::try_from(bytes / SECTOR as u64).unwrap_or(usize::MAX);
        self.loaded_max.store(maps, Ordering::Relaxed);
    }

    /// The map of a line, from either of its places.
    pub(super) fn read(&self, line: &SpaceLine) -> Result<Bitmap, SectorError> {
        let bytes = read_sector(&self.devs, &line.pointer(), BlockKind::SpaceMap)?;
        Bitmap::decode(&bytes).ok_or(SectorError::Malformed(Malformed("space map")))
    }

    pub(super) fn ripe_through(&self) -> Txg {
        Txg(self.ripe_through.load(Ordering::Acquire))
    }

    /// Lists up to this group's are ripe.
    pub(super) fn set_ripe_through(&self, txg: Txg) {
        self.ripe_through.fetch_max(txg.0, Ordering::AcqRel);
    }

    /// The group whose map has free what became ripe now. None that is still to be committed is below it: whichever comes
    /// next writes these frees, and whoever takes the sectors is as high.
    pub(super) fn applying(&self) -> Txg {
        self.ripe_through().next().next()
    }

    /// A map has come into memory.
    pub(super) fn note_loaded(&self, place: Place) {
        self.loaded.lock().push_back(place);
    }

    /// Lets maps go until there are no more than are to stay, or none may. `unload` says whether it is gone.
    pub(super) fn trim(&self, mut unload: impl FnMut(Place) -> bool) {
        let max = self.loaded_max.load(Ordering::Relaxed);
        // Each is asked twice: the first time it may have been used since the last.
        let (mut over, mut asked) = {
            let loaded = self.loaded.lock();
            (loaded.len().saturating_sub(max), 2 * loaded.len())
        };
        while over > 0 && asked > 0 {
            let Some(place) = self.loaded.lock().pop_front() else { return };
            asked -= 1;
            if unload(place) {
                over -= 1;
            } else {
                self.loaded.lock().push_back(place);
            }
        }
    }

    /// A region's map cannot be had. Gives the sectors of it that count as free although they wait for the map.
    pub(super) fn fence(&self, place: Place, why: &SectorError) -> u64 {
        tracing::error!(vdev = %place.0, region = place.1, %why, "a region is fenced off: its space map cannot be used");
        let mut fenced = self.fenced.lock();
        fenced.count += 1;
        if fenced.told.len() < TOLD_MAX {
            fenced.told.push(format!("region {} of vdev {}: {why}", place.1, place.0));
        }
        drop(fenced);
        self.ripe.lock().fence(place)
    }

    /// How many regions are fenced off.
    pub(super) fn fenced_count(&self) -> usize {
        self.fenced.lock().count
    }

    /// The same, and of the first ones why.
    pub(super) fn fenced(&self) -> (usize, Vec<String>) {
        let fenced = self.fenced.lock();
        (fenced.count, fenced.told.clone())
    }

    pub(super) fn count_bad_frees(&self, count: u64) {
        self.bad_frees.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn bad_free_count(&self) -> u64 {
        self.bad_frees.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
