//! Room for the second copies of blocks that the pool cannot do without: on another vdev, or else so far away on the same
//! one that what takes one of them rarely takes the other (rules S4).
//!
//! **The problem.** On a pool of one disk, one sector that rots in the pool's root, a space map or an upper node of a tree
//! takes everything along that hangs from it, though the disk is well but for that sector.
//!
//! **The idea.** Such blocks are few and small; each is written twice, and a pointer has room for both places.
//!
//! **What it costs.** One more long write for each group. Room for copies is nobody's due: what was promised to clients
//! goes before (rules F19), so whoever writes them asks first whether there is room to spare, and a copy that finds none
//! is left out.

use tally_base::{SECTOR, Txg};

use super::vdev_space::VdevSpace;
use super::{Allocator, sectors_of_run};
use crate::bp::Dva;

impl Allocator {
    /// A run of `want` bytes in one piece, or a shorter one of at least `at_least`, for second copies of what lies at `first`.
    /// `None` if no place is far enough away.
    pub(crate) fn alloc_apart(&self, txg: Txg, first: &Dva, want: u64, at_least: u64) -> Option<Dva> {
        let (want, at_least) = (sectors_of_run(want), sectors_of_run(at_least));
        let others = self.vdevs.iter().filter(|vdev| vdev.index() != first.vdev);
        let emptiest = others.max_by_key(|vdev| vdev.free());
        let elsewhere = emptiest.and_then(|vdev| vdev.take_for_copies(txg, None, want, at_least));
        elsewhere.or_else(|| self.vdev_of(first)?.take_for_copies(txg, Some(first), want, at_least))
    }

    /// Whether two ranges may be copies of each other.
    pub(crate) fn are_apart(&self, one: &Dva, other: &Dva) -> bool {
        let gap = self.vdev(one.vdev).map_or(0, VdevSpace::apart_sectors) * SECTOR as u64;
        let (low, high) = if one.offset < other.offset { (one, other) } else { (other, one) };
        one.vdev != other.vdev || low.end().saturating_add(gap) <= high.offset
    }
}
