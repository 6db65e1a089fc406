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
//! **What cannot be had.** A map that was read and is wrong in each place, or is not what its line says, fences its region off:
//! nothing is taken from it, what is freed in it waits on its list, and its line stays in the index as it is, for another
//! import or a scrub to do better. The rest of the pool goes on.
//!
//! A map that a device **refuses** does the same for now: a device that has refused once may give it a moment later. It is asked
//! for again behind the next group, then behind two more, and so on, and by whoever would have to be told that there is no
//! room. If it is refused then, too, that is what is told, and not that the pool is full.

use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tally_base::codec::Malformed;
use tally_base::{SECTOR, Txg};
use tally_members::blockdev::BlockDevs;

use super::bitmap::Bitmap;
use super::load::{SectorError, read_sector};
use super::ripe::{Place, Ripe};
use super::space_line::SpaceLine;
use crate::bp::{BlockKind, Dva};

/// What is told of fenced regions by name; beyond that they are counted.
const TOLD_MAX: usize = 16;

/// Groups that pass at most until a map which a device has refused is asked for again.
const ASKING_GROUPS_MAX: u64 = 256;

/// Refused maps that are asked for again at once: a disk may try for half a minute before it refuses one.
const ASKED_AT_ONCE_MAX: usize = 4;

/// Shared by the vdevs of an allocator. Every lock here but `asking` is taken behind a region's, and none behind another.
pub(super) struct Maps {
    devs: BlockDevs,
    pub(super) ripe: Mutex<Ripe>,
    /// Up to which group what was freed may be used again.
    ripe_through: AtomicU64,
    /// Regions whose map is in memory; who came first is first.
    loaded: Mutex<VecDeque<Place>>,
    loaded_max: AtomicUsize,
    fenced: Mutex<Fenced>,
    refused: Mutex<BTreeMap<Place, Refused>>,
    /// Held by whoever asks for refused maps again.
    pub(super) asking: Mutex<()>,
    /// What no map may have free: the log's rings, once they are known.
    rings: OnceLock<Vec<Dva>>,
    bad_frees: AtomicU64,
}

/// Regions that cannot be used.
#[derive(Default)]
struct Fenced {
    count: usize,
    told: Vec<String>,
}

/// A map that a device refuses.
struct Refused {
    /// Groups that pass until it is asked for again, and the one behind which it is.
    groups: u64,
    due: Txg,
    /// Sectors that are free there.
    free: u64,
    why: String,
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
            refused: Mutex::default(),
            asking: Mutex::default(),
            rings: OnceLock::new(),
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
        self.refused.lock().remove(&place);
        self.ripe.lock().fence(place)
    }

    /// A device refuses a region's map. Gives the sectors that count as free although they wait for it; `free` are those of its
    /// line.
    pub(super) fn refuse(&self, place: Place, why: &SectorError, free: u64) -> u64 {
        tracing::warn!(vdev = %place.0, region = place.1, %why, "a device refuses a space map; it is asked for again");
        let waiting = self.ripe.lock().fence(place);
        let mut refused = self.refused.lock();
        let groups = refused.get(&place).map_or(1, |before| (2 * before.groups).min(ASKING_GROUPS_MAX));
        let due = Txg(self.applying().0.saturating_add(groups));
        let is_told = refused.len() < TOLD_MAX || refused.get(&place).is_some_and(|before| !before.why.is_empty());
        let why = if is_told { format!("region {} of vdev {}: {why}", place.1, place.0) } else { String::new() };
        refused.insert(place, Refused { groups, due, free: free + waiting, why });
        waiting
    }

    /// A map that a device had refused was read. Gives the sectors that wait for it.
    pub(super) fn relent(&self, place: Place) -> u64 {
        tracing::info!(vdev = %place.0, region = place.1, "a space map could be read after all");
        self.refused.lock().remove(&place);
        self.ripe.lock().unfence(place)
    }

    /// Refused maps that are to be asked for again, those first that have waited longest: all of them, or those that are due
    /// behind a group.
    pub(super) fn to_ask(&self, behind: Option<Txg>) -> Vec<Place> {
        let refused = self.refused.lock();
        let mut due: Vec<_> = refused.iter().map(|(place, refused)| (refused.due, *place)).collect();
        due.retain(|(due, _)| behind.is_none_or(|behind| *due <= behind));
        due.sort_unstable();
        due.into_iter().take(ASKED_AT_ONCE_MAX).map(|(_, place)| place).collect()
    }

    /// How many maps a device refuses.
    pub(super) fn refused_count(&self) -> usize {
        self.refused.lock().len()
    }

    /// Free sectors that are not to be had as a device refuses their maps.
    pub(super) fn withheld(&self) -> u64 {
        self.refused.lock().values().map(|refused| refused.free).sum()
    }

    /// How many maps a device refuses, and of the first ones why.
    pub(super) fn refused(&self) -> (usize, Vec<String>) {
        let refused = self.refused.lock();
        let told = refused.values().map(|refused| &refused.why).filter(|why| !why.is_empty());
        (refused.len(), told.take(TOLD_MAX).cloned().collect())
    }

    /// No map that is read from now on may have these free.
    pub(super) fn set_rings(&self, rings: Vec<Dva>) {
        // An import says so once; the first word stays.
        let _ = self.rings.set(rings);
    }

    pub(super) fn rings(&self) -> &[Dva] {
        self.rings.get().map_or(&[], Vec::as_slice)
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
