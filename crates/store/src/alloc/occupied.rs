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
}
