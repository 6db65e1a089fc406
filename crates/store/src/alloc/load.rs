//! Reading the allocator back at import.

use parking_lot::Mutex;
use tally_base::codec::Malformed;
use tally_base::{SECTOR, Txg, VdevIndex};
use tally_members::blockdev::BlockDevs;

use super::bitmap::{Bitmap, REGION_SECTORS};
use super::deferred::{Deferred, DeferredHead, FreeList, decode_sector};
use super::root::VdevRoot;
use super::space_index::SpaceIndex;
use super::{AllocRoot, Allocator, Persisted, VdevSpace};
use crate::block::{self, BlockError};
use crate::bp::{BlockKind, BlockPtr, Dva};

/// Reads in flight while the space maps are loaded.
const READ_DEPTH: usize = 16;

/// Why the allocator could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A block of it could not be read.
    #[error(
        "the space maps cannot be loaded: {0}; nothing can be written without them, but --readonly imports the pool"
    )]
    Block(#[from] BlockError),
    /// A block of it is not what it should be.
    #[error(
        "the space maps cannot be loaded: {0}; nothing can be written without them, but --readonly imports the pool"
    )]
    Malformed(#[from] Malformed),
    /// They would give the log's own sectors away.
    #[error(
        "the space maps say that the log's ring on vdev {vdev} is free: they are damaged, and files would be written over \
         the log; --readonly imports the pool"
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
        /// Sectors now.
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
    /// The allocator of a root, as of `txg`. A vdev that has grown, or is new, brings its free space along. What of it is
    /// damaged and can be done without is told in `remarks`.
    pub fn load(devs: &BlockDevs, root: &AllocRoot, txg: Txg, remarks: &mut Vec<String>) -> Result<Self, LoadError> {
        if let Some(line) = root.vdevs.iter().find(|line| !devs.contains_key(&line.index)) {
            return Err(LoadError::VdevMissing { vdev: line.index });
        }
        let mut vdevs = Vec::with_capacity(devs.len());
        let mut indexes = Vec::with_capacity(devs.len());
        let mut deferred = Deferred::default();
        for (number, dev) in devs {
            let mut vdev = VdevSpace::new(*number, dev.data_bytes());
            let mut index = SpaceIndex::new(vdev.regions.len());
            if let Some(line) = root.vdevs.iter().find(|line| line.index == *number) {
                load_vdev(devs, line, &mut vdev, &mut index, |bp| deferred.retire(bp))?;
            }
            vdevs.push(vdev);
            indexes.push(index);
        }
        let allocator = Self::assemble(devs, vdevs, Persisted { txg, indexes });
        if !root.deferred.is_sorted_by(|one, next| one.txg < next.txg) {
            return Err(Malformed("deferred-free lists").into());
        }
        for head in &root.deferred {
            match allocator.load_list(head) {
                Ok(list) => deferred.restore(head.txg, list),
                // What a group has freed is busy in the maps until its list is worked off. Without the list it stays so,
                // which costs space and harms nobody. A list that contradicts the maps is another thing: they may be wrong.
                Err(LoadError::Block(why)) => remarks.push(format!(
                    "the list of the {} ranges that transaction group {} has freed is damaged, and their space stays in \
                     use: {why}",
                    head.ranges, head.txg
                )),
                Err(why) => return Err(why),
            }
        }
        *allocator.deferred.lock() = deferred;
        allocator.check_own_sectors()?;
        Ok(allocator)
    }

    /// The allocator of a pool that is only read, and whose space maps cannot be: it knows how large the vdevs are, and has
    /// nothing to give.
    #[must_use]
    pub fn without_maps(devs: &BlockDevs, txg: Txg) -> Self {
        let vdevs = devs.iter().map(|(index, dev)| VdevSpace::without_maps(*index, dev.data_bytes()));
        let indexes = devs.iter().map(|_| SpaceIndex::new(0)).collect();
        Self::assemble(devs, vdevs.collect(), Persisted { txg, indexes })
    }

    /// The rings that the configuration has placed on data vdevs (vdev, offset, bytes) are busy, or blocks would be written
    /// over the log: a map that has them free is damaged, however sound its checksum.
    pub fn check_rings(&self, rings: &[(VdevIndex, u64, u64)]) -> Result<(), LoadError> {
        for (vdev, offset, bytes) in rings {
            let sectors = u32::try_from(bytes / SECTOR as u64).unwrap_or(u32::MAX);
            if !self.is_busy(&Dva { vdev: *vdev, offset: *offset, sectors }) {
                return Err(LoadError::RingFree { vdev: *vdev });
            }
        }
        Ok(())
    }

    /// The allocator's own sectors are in use in its own maps. Otherwise the next commit would put sectors on its list that
    /// are not there to be freed, and nobody could load what it wrote.
    fn check_own_sectors(&self) -> Result<(), LoadError> {
        let (persisted, deferred) = (self.persisted.lock(), self.deferred.lock());
        let indexes = persisted.indexes.iter().flat_map(|index| index.levels.iter().flatten().flatten());
        let mut own = indexes.flat_map(BlockPtr::dvas).chain(deferred.own_sectors());
        if own.all(|sector| self.is_busy(&sector)) { Ok(()) } else { Err(Malformed("space map").into()) }
    }

    fn load_list(&self, head: &DeferredHead) -> Result<FreeList, LoadError> {
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
        let sound = |range| self.vdev_of(range).is_some_and(|vdev| vdev.all(range, true));
        let complete = list.ranges.len() as u64 == head.ranges;
        if complete && list.ranges.iter().all(sound) { Ok(list) } else { Err(damaged.into()) }
    }
}

fn load_vdev(
    devs: &BlockDevs,
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
    load_index(devs, line.top, &mut found)?;
    load_maps(devs, &found.levels[0], vdev)?;
    vdev.set_excluded(line.excluded);
    vdev.recount();
    if found.levels.len() == index.levels.len() && found.levels[0].len() == index.levels[0].len() {
        *index = found;
    } else {
        // The vdev has grown: the index gets another shape, and is written anew by the next commit.
        found.levels.iter().skip(1).flatten().flatten().for_each(&mut retire);
        for (at, pointer) in found.levels[0].iter().enumerate() {
            index.levels[0][at] = *pointer;
            vdev.regions[at].get_mut().stale |= pointer.is_some();
        }
    }
    Ok(())
}

fn load_index(devs: &BlockDevs, top: Option<BlockPtr>, index: &mut SpaceIndex) -> Result<(), LoadError> {
    let Some(place) = index.levels.last_mut().and_then(|level| level.first_mut()) else { return Ok(()) };
    *place = top;
    for level in (1..index.levels.len()).rev() {
        let pointers = present(&index.levels[level]);
        let blocks = read_sectors(devs, &pointers, BlockKind::SpaceIndex);
        for ((at, _), bytes) in pointers.iter().zip(blocks) {
            index.restore(level, *at, &bytes?)?;
        }
    }
    Ok(())
}

fn load_maps(devs: &BlockDevs, level: &[Option<BlockPtr>], vdev: &mut VdevSpace) -> Result<(), LoadError> {
    let pointers = present(level);
    let blocks = read_sectors(devs, &pointers, BlockKind::SpaceMap);
    for ((at, _), bytes) in pointers.iter().zip(blocks) {
        let bitmap = Bitmap::decode(&bytes?).ok_or(Malformed("space map"))?;
        vdev.regions[*at].get_mut().restore(bitmap);
    }
    Ok(())
}

fn present(level: &[Option<BlockPtr>]) -> Vec<(usize, BlockPtr)> {
    level.iter().enumerate().filter_map(|(at, pointer)| Some((at, (*pointer)?))).collect()
}

pub(super) fn read_sector(devs: &BlockDevs, bp: &BlockPtr, kind: BlockKind) -> Result<bytes::Bytes, LoadError> {
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
) -> Vec<Result<bytes::Bytes, LoadError>> {
    let results: Vec<_> = pointers.iter().map(|_| Mutex::new(None)).collect();
    block::in_parallel(pointers.len(), READ_DEPTH, &|at| {
        *results[at].lock() = Some(read_sector(devs, &pointers[at].1, kind));
    });
    results.into_iter().map(|result| result.into_inner().expect("every pointer was read")).collect()
}
