//! How one vdev's space maps hang together on disk: a tree of sectors with a fixed shape. Its lowest level has a line for
//! each region ([`super::space_line`]), and every sector above holds 64 block pointers to the level below.
//!
//! ```text
//!   top (named by the allocator's root)
//!    └─ 64 pointers ── 64 lines ─┬─ bitmap of region 0      128 MiB of the vdev
//!                                ├─ bitmap of region 1
//!                                └─ …                       a line of zeroes: all free
//! ```
//!
//! The lines stand with the regions in memory, so that whoever needs a map finds it; here are the pointers to the sectors.
//!
//! A commit rewrites the touched regions' maps and the sectors above them, in new places, and nothing else. Every
//! block of it is one sector, so a fragmented pool can always place it, and how many sectors a commit needs is
//! counted before anything is written.

use std::collections::BTreeSet;

use tally_base::codec::{Malformed, Reader};
use tally_base::{SECTOR, Txg, block_checksum};

use super::commit::Twofold;
use super::space_line::LINE_BYTES;
use crate::bp::{BLOCK_PTR_BYTES, BlockKind, BlockPtr, Coding, Dva};

/// Lines, or pointers, in one sector.
pub(super) const FANOUT: usize = SECTOR / BLOCK_PTR_BYTES;
const _: () = assert!(LINE_BYTES == BLOCK_PTR_BYTES);

/// Pointers to every sector of the tree; `levels[0]` are those with the regions' lines, the last level has one.
pub(super) struct SpaceIndex {
    pub(super) levels: Vec<Vec<Option<BlockPtr>>>,
    /// Sectors with lines that are to be written although no region of theirs was touched.
    pub(super) stale: BTreeSet<usize>,
}

impl SpaceIndex {
    pub(super) fn new(region_count: usize) -> Self {
        let mut count = region_count.div_ceil(FANOUT);
        let mut levels = vec![vec![None; count]];
        while count > 1 {
            count = count.div_ceil(FANOUT);
            levels.push(vec![None; count]);
        }
        Self { levels, stale: BTreeSet::new() }
    }

    pub(super) fn top(&self) -> Option<BlockPtr> {
        self.levels.last().and_then(|level| level.first().copied().flatten())
    }

    /// Where its sectors lie.
    pub(super) fn places(&self) -> impl Iterator<Item = Dva> {
        self.levels.iter().flatten().flatten().flat_map(BlockPtr::dvas)
    }

    /// What must be written, level by level, when these regions are touched.
    pub(super) fn plan(&self, touched: &[usize]) -> Vec<Vec<usize>> {
        let mut lowest: BTreeSet<usize> = touched.iter().map(|region| region / FANOUT).collect();
        lowest.extend(&self.stale);
        let mut plan: Vec<Vec<usize>> = vec![lowest.into_iter().collect()];
        for _ in 1..self.levels.len() {
            let below = plan.last().expect("the plan starts with the lines");
            let mut level: Vec<usize> = below.iter().map(|at| at / FANOUT).collect();
            level.dedup();
            plan.push(level);
        }
        plan
    }

    /// The sectors that a plan replaces.
    pub(super) fn replaced<'a>(&'a self, plan: &'a [Vec<usize>]) -> impl Iterator<Item = Dva> + 'a {
        let levels = self.levels.iter().zip(plan);
        levels.flat_map(|(level, touched)| touched.iter().filter_map(|at| level[*at].as_ref()).flat_map(BlockPtr::dvas))
    }

    /// The pointers that the sector `at` of `level` (1 or higher) holds.
    pub(super) fn encode(&self, level: usize, at: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.levels[level - 1]
            .iter()
            .skip(at * FANOUT)
            .take(FANOUT)
            .flat_map(|pointer| BlockPtr::encode_option(pointer.as_ref()))
            .collect();
        bytes.resize(SECTOR, 0);
        bytes
    }

    /// Fills in the pointers that the sector `at` of `level` (1 or higher) was found to hold.
    pub(super) fn restore(&mut self, level: usize, at: usize, bytes: &[u8]) -> Result<(), Malformed> {
        let mut reader = Reader::new(bytes, "space index");
        for pointer in self.levels[level - 1].iter_mut().skip(at * FANOUT).take(FANOUT) {
            *pointer = BlockPtr::decode_option(&reader.array()?)?;
        }
        Ok(())
    }
}

/// The pointer to one of the allocator's own sectors.
pub(super) fn sector_pointer(place: Twofold, kind: BlockKind, birth: Txg, bytes: &[u8]) -> BlockPtr {
    let Twofold { dva, copy } = place;
    debug_assert!(bytes.len() == SECTOR && dva.sectors == 1, "the allocator's blocks are single sectors");
    BlockPtr {
        dva,
        copy,
        in_pieces: false,
        lsize: SECTOR as u32,
        psize: SECTOR as u32,
        coding: Coding::Raw,
        kind,
        birth,
        written: birth,
        checksum: block_checksum(bytes),
    }
}
