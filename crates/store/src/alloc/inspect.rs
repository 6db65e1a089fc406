//! Looking at the allocator of an unimported pool: every sector of it is visited, changes nothing, and damage is
//! reported and walked around.

use tally_base::codec::Malformed;
use tally_base::{Txg, VdevIndex};
use tally_members::blockdev::BlockDevs;

use super::AllocRoot;
use super::bitmap::{Bitmap, REGION_SECTORS};
use super::deferred::{DeferredHead, decode_sector};
use super::load::{SectorError, read_sector};
use super::root::VdevRoot;
use super::space_index::{FANOUT, SpaceIndex};
use super::space_line::{LINE_BYTES, SpaceLine};
use crate::bp::{BlockKind, BlockPtr, Dva};

/// What an inspection has come to.
pub enum SpaceVisit<'a> {
    /// A vdev; its index and maps follow.
    Vdev {
        /// Index of the vdev.
        vdev: VdevIndex,
        /// So many sectors it has.
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
        /// Its line in the index.
        line: &'a SpaceLine,
        /// Sectors in use, excluded and deferred ones among them.
        used_sectors: u32,
    },
    /// A sector of a deferred-free list.
    Deferred {
        /// Who freed the ranges.
        txg: Txg,
        /// Whether they may be used, and may be free in the maps already.
        is_ripe: bool,
        /// Its pointer.
        bp: &'a BlockPtr,
        /// The ranges.
        ranges: &'a [Dva],
    },
    /// A sector that cannot be read, or is not what it should be. What hangs from it is not visited.
    Damage {
        /// Its pointer.
        bp: &'a BlockPtr,
        /// Of a space map: its region's number.
        region: Option<usize>,
        /// What is wrong.
        error: &'a SectorError,
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
            let outcome = read_sector(devs, &bp, BlockKind::SpaceIndex).and_then(|bytes| {
                if level > 0 {
                    index.restore(level, at, &bytes)?;
                }
                visit(SpaceVisit::Index { vdev, level: level + 1, at, bp: &bp });
                if level == 0 {
                    for (region, line) in (at * FANOUT..region_count).zip(bytes.as_chunks::<LINE_BYTES>().0) {
                        let Some(line) = SpaceLine::decode(line)? else { continue };
                        let sectors = (sectors - region as u64 * u64::from(REGION_SECTORS)).min(REGION_SECTORS.into());
                        inspect_map(devs, (vdev, region, sectors as u32), &line, visit);
                    }
                }
                Ok(())
            });
            if let Err(error) = outcome {
                visit(SpaceVisit::Damage { bp: &bp, region: None, error: &error });
            }
        }
    }
}

fn inspect_map(
    devs: &BlockDevs,
    (vdev, region, sectors): (VdevIndex, usize, u32),
    line: &SpaceLine,
    visit: &mut Visitor<'_>,
) {
    let bp = line.pointer();
    let outcome = read_sector(devs, &bp, BlockKind::SpaceMap).and_then(|bytes| {
        let bitmap = Bitmap::decode(&bytes).ok_or(Malformed("space map"))?;
        visit(SpaceVisit::Map { vdev, region, bp: &bp, line, used_sectors: bitmap.count(sectors) });
        let found = bitmap.figures(sectors);
        if found == line.figures {
            return Ok(());
        }
        Err(SectorError::Figures { said: line.figures, found })
    });
    if let Err(error) = outcome {
        visit(SpaceVisit::Damage { bp: &bp, region: Some(region), error: &error });
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
                visit(SpaceVisit::Deferred { txg: head.txg, is_ripe: head.is_ripe, bp: &bp, ranges: &ranges });
                next.filter(|_| !ranges.is_empty())
            }
            Err(error) => {
                visit(SpaceVisit::Damage { bp: &bp, region: None, error: &error });
                None
            }
        };
        count += ranges.len() as u64;
    }
}
