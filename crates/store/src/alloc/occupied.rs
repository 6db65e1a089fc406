//! What is in use of a vdev, for a copy that cannot go by pointers.
//!
//! **The problem.** A copy goes by the walk. But to what hangs below a node that cannot be read no pointer leads, and it may be read another
//! day; and what was freed a moment ago only an older group names, to which an import can go back.
//!
//! **The idea.** Region by region: what is in use at the moment when the copy comes to it. That is what the map in memory says, or
//! else the one on disk, which is read for that and not kept. It is *enough* for a leg that gets every write since before the first
//! region was looked at: what is taken later is written to it as well. It may be *more*: what waits to be free, or is ripe and in
//! no map yet, counts as in use, and so does all of a region whose map cannot be had (docs/design/0060).

use std::ops::Range;

use tally_base::VdevIndex;
use tally_disk::aside;

use super::Allocator;

impl Allocator {
    /// Ranges of a vdev, in bytes and in order, that are in use or may be. Each region is looked at when the iterator comes to
    /// it. None if it is no data vdev of the pool.
    pub fn occupied(&self, vdev: VdevIndex) -> Option<impl Iterator<Item = Range<u64>> + '_> {
        let space = self.vdev(vdev)?;
        // Who copies is no client for whom he would have to wait.
        Some((0..space.regions.len()).flat_map(|at| aside(|| space.occupied_in(at))))
    }

    /// Ranges of a vdev, in bytes and in order, that were given back and wait, as an older group names them to which an import may go back.
    pub fn waiting_on(&self, vdev: VdevIndex) -> Vec<Range<u64>> {
        let waiting = self.deferred.lock().waiting(..).filter(|dva| dva.vdev == vdev).collect::<Vec<_>>();
        let mut ranges: Vec<_> = waiting.iter().map(|dva| dva.offset..dva.end()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }
}
