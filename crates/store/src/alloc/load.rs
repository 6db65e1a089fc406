//! Reading the allocator back at import.

use std::sync::Arc;

use parking_lot::Mutex;
use tally_base::codec::Malformed;
use tally_base::{SECTOR, Txg, VdevIndex};
use tally_disk::Helpers;
use tally_members::blockdev::BlockDevs;

use super::bitmap::Figures;
use super::bitmap::REGION_SECTORS;
use super::deferred::{Deferred, DeferredHead, FreeList, RipeList, decode_sector};
use super::maps::Maps;
use super::root::VdevRoot;
use super::space_index::{FANOUT, SpaceIndex};
use super::space_line::{LINE_BYTES, SpaceLine};
use super::{AllocRoot, Allocator, Persisted, VdevSpace};
use crate::block::{self, BlockError};
use crate::bp::{BlockKind, BlockPtr, Dva};

/// Reads in flight while the space index is loaded.
const READ_DEPTH: usize = 16;
/// Sectors that are in memory meanwhile: 4 MiB.
const READ_TOGETHER: usize = 1 << 10;

/// What is wrong with one of the allocator's sectors, or with a chain of them. What follows from it is for whoever reads it to
/// say: without a map a region is fenced off, without the index nothing can be written.
#[derive(Debug, thiserror::Error)]
pub enum SectorError {
    /// It could not be read.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// It is not what it should be.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A map is not the one that the index speaks of.
    #[error("the space map has {found}, and the index says {said}: one of them was written wrong")]
    Figures {
        /// What the index says.
        said: Figures,
        /// What the map has.
        found: Figures,
    },
    /// A map would give its own sector away.
    #[error("the space map says that its own sector is free: it was written wrong")]
    OwnFree,
    /// A map would give the log's sectors away.
    #[error("the space map says that a part of the log's ring is free: it was written wrong")]
    RingFree,
}

/// Why the allocator could not be loaded.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum LoadError {
    /// The index, or a list, cannot be used.
    #[error(
        "what of the pool is in use is not known: {0}; nothing can be written, but `tally pool import --readonly` imports the pool"
    )]
    Sector(#[from] SectorError),
    /// They would give the log's own sectors away.
    #[error(
        "the space maps say that the log's ring on vdev {vdev} is free: they are damaged, and files would be written over \
         the log; `tally pool import --readonly` imports the pool"
    )]
    RingFree {
        /// Index of the vdev.
        vdev: VdevIndex,
    },
    /// A vdev is smaller than it was.
    #[error("vdev {vdev} has {found} sectors where the pool knows {expected}; attach the device it was created on")]
    VdevShrunk {
        /// Index of the vdev.
        vdev: VdevIndex,
        /// Sectors when the space maps were written.
        expected: u64,
        found: u64,
    },
    /// A vdev is missing.
    #[error(
        "vdev {vdev} has blocks of the pool, and no data vdev of its configuration has that index; see `tally inspect`"
    )]
    VdevMissing {
        /// Index of the vdev.
        vdev: VdevIndex,
    },
}

impl Allocator {
    /// The allocator of a root, as of `txg`: reads the index and the lists of frees, and of the maps only those that must be
    /// looked at. A vdev that has grown, or is new, brings its free space along. What of it is damaged and can be done without
    /// is told in `remarks`.
    pub fn load(
        devs: &BlockDevs,
        root: &AllocRoot,
        txg: Txg,
        helpers: Helpers,
        remarks: &mut Vec<String>,
    ) -> Result<Self, LoadError> {
        if let Some(line) = root.vdevs.iter().find(|line| !devs.contains_key(&line.index)) {
            return Err(LoadError::VdevMissing { vdev: line.index });
        }
        let maps = Arc::new(Maps::new(devs));
        let mut vdevs = Vec::with_capacity(devs.len());
        let mut indexes = Vec::with_capacity(devs.len());
        let mut deferred = Deferred::default();
        for (number, dev) in devs {
            let mut vdev = VdevSpace::new(*number, dev.data_bytes(), &maps);
            let mut index = SpaceIndex::new(vdev.regions.len());
            if let Some(line) = root.vdevs.iter().find(|line| line.index == *number) {
                load_vdev((devs, helpers), line, &mut vdev, &mut index, |bp| deferred.retire(bp))?;
            }
            vdevs.push(vdev);
            indexes.push(index);
        }
        let mut allocator = Self::assemble(devs, maps, vdevs, Persisted { txg, indexes });
        if !root.deferred.is_sorted_by(|one, next| one.txg < next.txg)
            || root.deferred.iter().any(|head| head.txg > txg)
        {
            return Err(malformed("deferred-free lists").into());
        }
        let waiting = root.deferred.iter().find(|head| !head.is_ripe);
        allocator.maps.set_ripe_through(waiting.map_or(txg, |head| Txg(head.txg.0.saturating_sub(1))));
        for head in &root.deferred {
            match allocator.load_list(head) {
                Ok(list) if head.is_ripe => {
                    let was_busy = list
                        .ranges
                        .iter()
                        .all(|range| allocator.vdev_of(range).is_some_and(|vdev| vdev.restore_ripe(range, head.txg)));
                    if !was_busy {
                        return Err(malformed("deferred-free list").into());
                    }
                    let list = RipeList { chain: list.chain, range_count: head.ranges, unwritten: Vec::new() };
                    deferred.restore_ripe(head.txg, list);
                }
                Ok(list) => deferred.restore(head.txg, list),
                // What a group has freed is busy in the maps until its list is worked off. Without the list it stays so,
                // which costs space and harms nobody.
                Err(SectorError::Block(why)) => {
                    allocator.lost_lists += 1;
                    remarks.push(format!(
                        "the list of the {} ranges that transaction group {} has freed is damaged, and their space stays \
                         in use: {why}",
                        head.ranges, head.txg
                    ));
                }
                Err(why) => return Err(why.into()),
            }
        }
        *allocator.deferred.lock() = deferred;
        // Each line and each list may be possible by itself, and a list may name a range twice.
        let space = allocator.space();
        if space.free.saturating_add(space.deferred) > space.total {
            return Err(SectorError::from(Malformed("deferred-free lists")).into());
        }
        Ok(allocator)
    }

    /// The allocator of a pool that is only read, and whose space index cannot be: it knows how large the vdevs are, and has
    /// nothing to give.
    #[must_use]
    pub fn without_maps(devs: &BlockDevs, txg: Txg) -> Self {
        let maps = Arc::new(Maps::new(devs));
        let vdevs = devs.iter().map(|(index, dev)| VdevSpace::without_maps(*index, dev.data_bytes(), &maps)).collect();
        let indexes = devs.iter().map(|_| SpaceIndex::new(0)).collect();
        Self::assemble(devs, maps, vdevs, Persisted { txg, indexes })
    }

    /// The rings that the configuration has placed on data vdevs (vdev, offset, bytes) are busy, or blocks would be written
    /// over the log: a map that has them free is damaged, however sound its checksum. One that cannot be read gives nothing
    /// away.
    pub fn check_rings(&self, rings: &[(VdevIndex, u64, u64)]) -> Result<(), LoadError> {
        let place = |(vdev, offset, bytes): &(VdevIndex, u64, u64)| {
            let sectors = u32::try_from(bytes / SECTOR as u64).unwrap_or(u32::MAX);
            Dva { vdev: *vdev, offset: *offset, sectors }
        };
        let rings: Vec<_> = rings.iter().map(place).collect();
        if let Some(ring) = rings.iter().find(|ring| !self.is_busy(ring)) {
            return Err(LoadError::RingFree { vdev: ring.vdev });
        }
        // A map that a device refuses for now is looked at when it is read.
        self.maps.set_rings(rings);
        Ok(())
    }

    fn load_list(&self, head: &DeferredHead) -> Result<FreeList, SectorError> {
        let damaged = Malformed("deferred-free list");
        let mut list = FreeList::default();
        let mut next = Some(head.head);
        while let Some(bp) = next {
            list.chain.push(bp);
            next = decode_sector(&read_sector(&self.devs, &bp, BlockKind::Deferred)?, &mut list.ranges)?;
            // Each sector but the last is full, so a chain that runs in a circle ends here.
            if list.ranges.len() as u64 > head.ranges || list.chain.len() > list.ranges.len() {
                return Err(damaged.into());
            }
        }
        let complete = list.ranges.len() as u64 == head.ranges;
        // Whether they are in use their maps tell when they are read.
        let sound = |range| self.vdev_of(range).is_some_and(|vdev| vdev.may_be_busy(range));
        let may_be_busy = head.is_ripe || list.ranges.iter().all(sound);
        if complete && may_be_busy { Ok(list) } else { Err(damaged.into()) }
    }
}

fn load_vdev(
    from: (&BlockDevs, Helpers),
    line: &VdevRoot,
    vdev: &mut VdevSpace,
    index: &mut SpaceIndex,
    mut retire: impl FnMut(&BlockPtr),
) -> Result<(), LoadError> {
    if line.sectors > vdev.sectors() {
        return Err(LoadError::VdevShrunk { vdev: line.index, expected: line.sectors, found: vdev.sectors() });
    }
    let region_count =
        usize::try_from(line.sectors.div_ceil(u64::from(REGION_SECTORS))).expect("fewer than the device has");
    let mut found = SpaceIndex::new(region_count);
    load_index(from, line.top, &mut found, vdev)?;
    vdev.set_excluded(line.excluded);
    let shape = |index: &SpaceIndex| index.levels.iter().map(Vec::len).collect::<Vec<_>>();
    if shape(&found) == shape(index) {
        *index = found;
    } else {
        // The vdev has grown: the index gets another shape, and is written anew by the next commit.
        found.levels.iter().flatten().flatten().for_each(&mut retire);
        index.stale = present(&found.levels[0]).into_iter().map(|(at, _)| at).collect();
    }
    vdev.recount();
    let rest = (line.sectors % u64::from(REGION_SECTORS)) as u32;
    if line.sectors < vdev.sectors() && rest > 0 {
        vdev.grow_region(region_count - 1, rest);
    }
    Ok(())
}

/// Reads the index from the top down, and gives each region its line.
fn load_index(
    (devs, helpers): (&BlockDevs, Helpers),
    top: Option<BlockPtr>,
    index: &mut SpaceIndex,
    vdev: &mut VdevSpace,
) -> Result<(), SectorError> {
    let Some(place) = index.levels.last_mut().and_then(|level| level.first_mut()) else { return Ok(()) };
    *place = top;
    for level in (0..index.levels.len()).rev() {
        // Some at a time: those of a large pool are more than should be in memory at once.
        for pointers in present(&index.levels[level]).chunks(READ_TOGETHER) {
            let blocks = read_sectors(devs, pointers, BlockKind::SpaceIndex, helpers);
            for ((at, _), bytes) in pointers.iter().zip(blocks) {
                match level {
                    0 => load_lines(vdev, *at, &bytes?)?,
                    level => index.restore(level, *at, &bytes?)?,
                }
            }
        }
    }
    Ok(())
}

fn load_lines(vdev: &mut VdevSpace, at: usize, bytes: &[u8]) -> Result<(), SectorError> {
    let regions = vdev.regions.iter_mut().skip(at * FANOUT);
    for (region, bytes) in regions.zip(bytes.as_chunks::<LINE_BYTES>().0) {
        if let Some(line) = SpaceLine::decode(bytes)?
            && !region.get_mut().restore_line(bytes, &line)
        {
            return Err(malformed("line of the space index"));
        }
    }
    Ok(())
}

fn malformed(what: &'static str) -> SectorError {
    Malformed(what).into()
}

fn present(level: &[Option<BlockPtr>]) -> Vec<(usize, BlockPtr)> {
    level.iter().enumerate().filter_map(|(at, pointer)| Some((at, (*pointer)?))).collect()
}

pub(super) fn read_sector(devs: &BlockDevs, bp: &BlockPtr, kind: BlockKind) -> Result<bytes::Bytes, SectorError> {
    if bp.kind != kind || bp.lsize as usize != SECTOR {
        return Err(BlockError::Pointer { bp: *bp, what: "it is not one of the allocator's" }.into());
    }
    Ok(block::open(devs, bp)?)
}

/// Reads many sectors, several at a time; the results are in the order of the pointers.
fn read_sectors(
    devs: &BlockDevs,
    pointers: &[(usize, BlockPtr)],
    kind: BlockKind,
    helpers: Helpers,
) -> Vec<Result<bytes::Bytes, SectorError>> {
    let results: Vec<_> = pointers.iter().map(|_| Mutex::new(None)).collect();
    helpers.each(pointers.len(), READ_DEPTH, &|at| {
        *results[at].lock() = Some(read_sector(devs, &pointers[at].1, kind));
    });
    results.into_iter().map(|result| result.into_inner().expect("every pointer was read")).collect()
}
