//! Looking at the allocator of an unimported pool: every sector of it is visited, changes nothing, and damage is
//! reported and walked around.

use tally_base::{Txg, VdevIndex};
use tally_members::blockdev::BlockDevs;

use super::AllocRoot;
use super::bitmap::{Bitmap, REGION_SECTORS};
use super::deferred::{DeferredHead, decode_sector};
use super::load::{LoadError, read_sector};
use super::root::VdevRoot;
use super::space_index::SpaceIndex;
use crate::bp::{BlockKind, BlockPtr, Dva};

/// What an inspection has come to.
pub enum SpaceVisit<'a> {
    /// A vdev; its index and maps follow.
    Vdev {
        /// Index of the vdev.
        vdev: VdevIndex,
        /// Its sectors.
        sectors: u64,
        /// Those of them that are never allocated.
        excluded: u64,
    },
    /// A sector of pointers.
    Index {
        /// Index of the vdev.
        vdev: VdevIndex,
        /// 1 above the space maps.
        level: usize,
        /// Its number in the level.
        at: usize,
        /// Its pointer.
        bp: &'a BlockPtr,
    },
    /// The space map of a region. Regions without one are free.
    Map {
        /// Index of the vdev.
        vdev: VdevIndex,
        /// The region's number.
        region: usize,
        /// Its pointer.
        bp: &'a BlockPtr,
        /// Sectors in use, excluded and deferred ones among them.
        used_sectors: u32,
    },
    /// A sector of a deferred-free list.
    Deferred {
        /// Who freed the ranges.
        txg: Txg,
        /// Its pointer.
        bp: &'a BlockPtr,
        /// The ranges.
        ranges: &'a [Dva],
    },
    /// A sector that cannot be read, or is not what it should be. What hangs from it is not visited.
    Damage {
        /// Its pointer.
        bp: &'a BlockPtr,
        /// What is wrong.
        error: &'a LoadError,
    },
}

impl SpaceVisit<'_> {
    /// The pointer to the sector that it is about.
    pub(crate) fn block(&self) -> Option<&BlockPtr> {
        match self {
            Self::Vdev { .. } => None,
            Self::Index { bp, .. } | Self::Map { bp, .. } | Self::Deferred { bp, .. } | Self::Damage { bp, .. } => {
                Some(bp)
            }
        }
    }
}

type Visitor<'a> = dyn FnMut(SpaceVisit<'_>) + 'a;

impl AllocRoot {
    /// Visits every sector of the allocator.
    pub fn inspect(&self, devs: &BlockDevs, visit: &mut Visitor<'_>) {
        for line in &self.vdevs {
            visit(SpaceVisit::Vdev { vdev: line.index, sectors: line.sectors, excluded: line.excluded });
            inspect_vdev(devs, line, visit);
        }
        for head in &self.deferred {
            inspect_list(devs, head, visit);
        }
    }
}

fn inspect_vdev(devs: &BlockDevs, line: &VdevRoot, visit: &mut Visitor<'_>) {
    let vdev = line.index;
    let Some(dev) = devs.get(&vdev) else { return };
    // A damaged root may claim any size; the device's is what can be looked at.
    let sectors = line.sectors.min(dev.data_bytes() / tally_base::SECTOR as u64);
    let region_count = usize::try_from(sectors.div_ceil(u64::from(REGION_SECTORS))).unwrap_or(0);
    let mut index = SpaceIndex::new(region_count);
    if let Some(place) = index.levels.last_mut().and_then(|level| level.first_mut()) {
        *place = line.top;
    }
    for level in (0..index.levels.len()).rev() {
        for at in 0..index.levels[level].len() {
            let Some(bp) = index.levels[level][at] else { continue };
            let kind = if level == 0 { BlockKind::SpaceMap } else { BlockKind::SpaceIndex };
            let outcome = read_sector(devs, &bp, kind).and_then(|bytes| {
                if level > 0 {
                    index.restore(level, at, &bytes)?;
                    visit(SpaceVisit::Index { vdev, level, at, bp: &bp });
                } else if let Some(bitmap) = Bitmap::decode(&bytes) {
                    let used_sectors = bitmap.count(REGION_SECTORS);
                    visit(SpaceVisit::Map { vdev, region: at, bp: &bp, used_sectors });
                }
                Ok(())
            });
            if let Err(error) = outcome {
                visit(SpaceVisit::Damage { bp: &bp, error: &error });
            }
        }
    }
}

fn inspect_list(devs: &BlockDevs, head: &DeferredHead, visit: &mut Visitor<'_>) {
    let mut next = Some(head.head);
    let mut count = 0;
    // The head's count bounds the chain, so that one that runs in a circle ends.
    while let Some(bp) = next.filter(|_| count <= head.ranges) {
        let mut ranges = Vec::new();
        let decoded =
            read_sector(devs, &bp, BlockKind::Deferred).and_then(|bytes| Ok(decode_sector(&bytes, &mut ranges)?));
        next = match decoded {
            Ok(next) => {
                visit(SpaceVisit::Deferred { txg: head.txg, bp: &bp, ranges: &ranges });
                next.filter(|_| !ranges.is_empty())
            }
            Err(error) => {
                visit(SpaceVisit::Damage { bp: &bp, error: &error });
                None
            }
        };
        count += ranges.len() as u64;
    }
}
