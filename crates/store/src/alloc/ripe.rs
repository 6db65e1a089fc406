//! Frees that have become usable, and whose region's map is not in memory: they wait until it is (rules S51).
//!
//! **The problem.** Frees are scattered where a pool is old: one group may free something in thousands of regions. To read
//! and write the map of each, for a sector or two, costs more than the group's own blocks.
//!
//! **The idea.** The list on which a free has waited ([`super::deferred`]) is on disk already. It stays there, called *ripe*,
//! until all that it names is in a map. Whoever needs a region reads its map and applies what is ripe for it, and the line of
//! that map says up to which group frees are in it; so an import knows which ranges of a ripe list are still to be applied.
//!
//! **What it costs.** Each range waits in memory as well. There are at most [`RANGES_MAX`]; beyond that the regions with
//! most of them are read, and written with the next group. And at most [`LISTS_MAX`] lists: beyond that the ranges that wait
//! are written as one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tally_base::{SECTOR, Txg, VdevIndex};

use super::bitmap::REGION_SECTORS;
use super::region::Run;
use crate::bp::Dva;

/// Ranges that wait, at most: 6 MiB in memory.
pub(super) const RANGES_MAX: usize = 256 << 10;
/// What is left of them when there were more, so that not each group reads a few maps.
pub(super) const RANGES_LEFT: usize = RANGES_MAX / 8 * 7;
/// Lists that a root names, at most, beside those that wait for an uberblock.
pub(super) const LISTS_MAX: usize = 8;

/// A region: its vdev and its number there.
pub(super) type Place = (VdevIndex, usize);

/// A range that waits: its first sector, with the vdev in front; the group of its list; sectors.
type Waiting = (u64, Txg, u32);

/// See the module's head. Behind the locks of all regions.
#[derive(Default)]
pub(super) struct Ripe {
    /// None goes beyond its region.
    ranges: BTreeSet<Waiting>,
    /// Of each list, how many of its ranges wait.
    outstanding: BTreeMap<Txg, u64>,
    /// Regions whose map cannot be had: what is freed there waits until it can, or for another import.
    fenced: BTreeSet<Place>,
}

/// Sectors of a vdev have 48 bits, as in a pointer.
const SECTOR_BITS: u32 = 48;

fn key((vdev, region): Place, sector: u64) -> u64 {
    u64::from(vdev.0) << SECTOR_BITS | (region as u64 * u64::from(REGION_SECTORS) + sector)
}

fn dva((key, _, sectors): &Waiting) -> Dva {
    let sector = key & !(u64::MAX << SECTOR_BITS);
    Dva { vdev: VdevIndex((key >> SECTOR_BITS) as u16), offset: sector * SECTOR as u64, sectors: *sectors }
}

/// Whatever waits for a region.
fn all_of(place: Place) -> Range<Waiting> {
    let [first, end] = [0, u64::from(REGION_SECTORS)].map(|sector| (key(place, sector), Txg(0), 0));
    first..end
}

fn region_of(range: &Waiting) -> Place {
    let sector = range.0 & !(u64::MAX << SECTOR_BITS);
    (VdevIndex((range.0 >> SECTOR_BITS) as u16), (sector / u64::from(REGION_SECTORS)) as usize)
}

impl Ripe {
    /// A range that `txg` has freed waits for the map of its region. False if some of it waits already: it was freed twice.
    pub(super) fn add(&mut self, place: Place, run: Run, txg: Txg) -> bool {
        let start = key(place, run.0.into());
        let end = start + u64::from(run.1);
        let before = self.ranges.range(..(end, Txg(0), 0)).next_back();
        if before.is_some_and(|(other, _, sectors)| other + u64::from(*sectors) > start) {
            return false;
        }
        self.ranges.insert((start, txg, run.1));
        *self.outstanding.entry(txg).or_default() += 1;
        true
    }

    /// What waits for a region's map, which is in memory now.
    pub(super) fn take(&mut self, place: Place) -> Vec<Run> {
        let found: Vec<_> = self.ranges.range(all_of(place)).copied().collect();
        for range in &found {
            self.ranges.remove(range);
            if let Some(count) = self.outstanding.get_mut(&range.1) {
                *count -= 1;
            }
        }
        found.iter().map(|(key, _, sectors)| ((key % u64::from(REGION_SECTORS)) as u32, *sectors)).collect()
    }

    /// All that waits.
    pub(super) fn all(&self) -> Vec<Dva> {
        self.ranges.iter().map(dva).collect()
    }

    /// Whether anything waits for a region's map.
    pub(super) fn waits_for(&self, place: Place) -> bool {
        self.ranges.range(all_of(place)).next().is_some()
    }

    /// A region's map cannot be read. Gives the sectors that wait for it.
    pub(super) fn fence(&mut self, place: Place) -> u64 {
        self.fenced.insert(place);
        self.sectors_of(place)
    }

    /// A region's map could be read after all. Gives the sectors that wait for it.
    pub(super) fn unfence(&mut self, place: Place) -> u64 {
        self.fenced.remove(&place);
        self.sectors_of(place)
    }

    fn sectors_of(&self, place: Place) -> u64 {
        self.ranges.range(all_of(place)).map(|range| u64::from(range.2)).sum()
    }

    /// Whether ranges of this group's list wait.
    pub(super) fn has_list(&self, txg: Txg) -> bool {
        self.outstanding.get(&txg).is_some_and(|count| *count > 0)
    }

    /// A list that nothing waits on any more.
    pub(super) fn forget_list(&mut self, txg: Txg) {
        self.outstanding.remove(&txg);
    }

    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// A region for whose map something waits that can be read, on a vdev that may be asked.
    pub(super) fn any_region(&self, may_ask: impl Fn(VdevIndex) -> bool) -> Option<Place> {
        self.ranges.iter().map(region_of).find(|place| !self.fenced.contains(place) && may_ask(place.0))
    }

    /// The regions that can be read, those with most ranges first.
    pub(super) fn by_most(&self) -> Vec<(usize, Place)> {
        let mut counts: Vec<(usize, Place)> = Vec::new();
        for place in self.ranges.iter().map(region_of) {
            match counts.last_mut() {
                Some((count, last)) if *last == place => *count += 1,
                _ => counts.push((1, place)),
            }
        }
        counts.retain(|(_, place)| !self.fenced.contains(place));
        counts.sort_unstable_by(|one, other| other.cmp(one));
        counts
    }

    /// All that waits belongs to one list from now on, that of `txg`: gives what it names.
    pub(super) fn join(&mut self, txg: Txg) -> Vec<Dva> {
        let ranges = std::mem::take(&mut self.ranges);
        self.ranges = ranges.into_iter().map(|(key, _, sectors)| (key, txg, sectors)).collect();
        self.outstanding = BTreeMap::from([(txg, self.ranges.len() as u64)]);
        self.ranges.iter().map(dva).collect()
    }
}
