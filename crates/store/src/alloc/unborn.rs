//! Blocks that were placed ahead of any group at one moment, and which of them still are.
//!
//! Who joins a vdev has not got what was placed before; the group that names such a block comes later, so what it has
//! missed ends only when all of them were settled, or given back (rules S7).

use std::ops::Range;

use tally_base::{SECTOR, VdevIndex};

use super::Allocator;

/// Places on one vdev, in sectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unborn(Vec<Range<u64>>);

impl Unborn {
    /// Whether all were settled or given back.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The places, in bytes and in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().map(|place| place.start * SECTOR as u64..place.end * SECTOR as u64)
    }

    /// Those that are among `now`, which was asked for later. A place that was given back and taken again in between counts
    /// for the same, as nobody can tell.
    #[must_use]
    pub fn still_among(&self, now: &Self) -> Self {
        let is_there = |place: &&Range<u64>| {
            let behind = now.0.partition_point(|other| other.end <= place.start);
            now.0.get(behind).is_some_and(|other| other.start < place.end)
        };
        Self(self.0.iter().filter(is_there).cloned().collect())
    }
}

impl Allocator {
    /// What is placed on a vdev under [`super::UNBORN`] now.
    #[must_use]
    pub fn unborn(&self, vdev: VdevIndex) -> Unborn {
        let space = self.vdevs.iter().find(|space| space.index() == vdev);
        let mut places = space.map(|space| space.unborn()).unwrap_or_default();
        places.sort_unstable_by_key(|place| place.start);
        Unborn(places)
    }
}
