//! The ranges of a block on its vdevs, each with the way to tell whether it is right: for whoever looks at every copy of
//! a block and not only for one that is good.

use tally_base::{SECTOR, block_checksum, blocking};
use tally_disk::AlignedBuf;
use tally_members::blockdev::BlockDevs;

use super::{BlockError, scatter};
use crate::bp::{BlockPtr, Dva};

/// One range of a block.
pub(crate) struct Part {
    pub(crate) dva: Dva,
    right: Right,
}

/// How the bytes of a range must be.
enum Right {
    /// The block itself.
    Whole(BlockPtr),
    /// The map of a block in pieces.
    Map(BlockPtr),
    /// One of the pieces, with this checksum.
    Piece(u64),
}

impl Part {
    /// Whether these are its bytes.
    pub(crate) fn is_right(&self, bytes: &[u8]) -> bool {
        match &self.right {
            Right::Whole(bp) => {
                bytes.get(..bp.psize as usize).is_some_and(|bytes| block_checksum(bytes) == bp.checksum)
            }
            Right::Map(bp) => scatter::is_map_of(bytes, bp),
            Right::Piece(sum) => scatter::sum(bytes) == *sum,
        }
    }

    /// What `other` should hold, if this is another copy of it and right.
    pub(crate) fn read_for(&self, other: &Self, devs: &BlockDevs) -> Option<AlignedBuf> {
        let is_whole = |part: &Self| matches!(part.right, Right::Whole(_));
        if self.dva == other.dva || !is_whole(self) || !is_whole(other) {
            return None;
        }
        let (dev, length) = (devs.get(&self.dva.vdev)?, usize::try_from(self.dva.bytes()).ok()?);
        blocking(|| dev.read(self.dva.offset, length, &|bytes| self.is_right(bytes))).ok()
    }

    /// Whether it can lie there: what a map says was never compared with the devices.
    fn is_inside(&self, devs: &BlockDevs) -> bool {
        let whole = self.dva.sectors > 0 && self.dva.offset.is_multiple_of(SECTOR as u64);
        whole && devs.get(&self.dva.vdev).is_some_and(|dev| self.dva.end() <= dev.data_bytes())
    }
}

/// All ranges of a block. An error if it cannot be where its pointer says, or the map of its pieces is gone.
pub(crate) fn parts(devs: &BlockDevs, bp: &BlockPtr) -> Result<Vec<Part>, BlockError> {
    if !bp.is_sensible() {
        return Err(BlockError::Pointer { bp: *bp, what: "its sizes contradict each other" });
    }
    let parts: Vec<_> = if bp.in_pieces {
        let pieces = scatter::map_of(devs, bp)?.into_iter();
        let map = Part { dva: bp.dva, right: Right::Map(*bp) };
        std::iter::once(map).chain(pieces.map(|(dva, sum)| Part { dva, right: Right::Piece(sum) })).collect()
    } else {
        bp.dvas().map(|dva| Part { dva, right: Right::Whole(*bp) }).collect()
    };
    if parts.iter().all(|part| part.is_inside(devs)) {
        Ok(parts)
    } else {
        Err(BlockError::Pointer { bp: *bp, what: "it, or its map, points to where the pool has nothing" })
    }
}
