//! What is in use of a vdev, for whoever copies it to a new leg: space maps and no pointers.
//!
//! **The problem.** A disk that joins an empty mirror of 20 TB needs no 20 TB. Pointers tell what is in use as well, but what
//! hangs below a node that cannot be read would be left behind, and what only an older group names, to which an import can
//! go back.
//!
//! **The idea.** Region by region: what is in use at the moment when the copy comes to it. That is what the map in memory says, or
//! else the one on disk, which is read for that and not kept. It is *enough* for a leg that gets every write since before the first
//! region was looked at: what is taken later is written to it as well. It may be *more*: what waits to be free, or is ripe and in
//! no map yet, counts as in use, and so does all of a region whose map cannot be had (docs/design/0060).

use std::ops::Range;

use tally_base::{SECTOR, VdevIndex};
use tally_disk::aside;

use super::Allocator;
use super::bitmap::REGION_SECTORS;

const REGION_BYTES: u64 = REGION_SECTORS as u64 * SECTOR as u64;

impl Allocator {
    /// Ranges of a vdev, in bytes and in order, that are in use or may be. Each region is looked at when the iterator comes to
    /// it. None if it is no data vdev of the pool.
    pub fn occupied(&self, vdev: VdevIndex) -> Option<impl Iterator<Item = Range<u64>> + '_> {
        self.occupied_from(vdev, 0)
    }

    /// The same, of what lies behind a place.
    pub fn occupied_from(&self, vdev: VdevIndex, place: u64) -> Option<impl Iterator<Item = Range<u64>> + '_> {
        let space = self.vdev(vdev)?;
        let first = usize::try_from(place / REGION_BYTES).unwrap_or(usize::MAX).min(space.regions.len());
        // Who copies is no client for whom he would have to wait.
        let runs = (first..space.regions.len()).flat_map(|at| aside(|| space.occupied_in(at)));
        Some(runs.map(move |run| run.start.max(place)..run.end).filter(|run| !run.is_empty()))
    }

    /// Ranges of a vdev, in bytes and in order, that were given back and wait, as an older group names them to which an import may go back.
    pub fn waiting_on(&self, vdev: VdevIndex) -> Vec<Range<u64>> {
        let waiting = self.deferred.lock().waiting(..).filter(|dva| dva.vdev == vdev).collect::<Vec<_>>();
        let mut ranges: Vec<_> = waiting.iter().map(|dva| dva.offset..dva.end()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }
}
