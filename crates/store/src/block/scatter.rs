//! Blocks in pieces: where a block goes when the pool has room for it, but not in one piece.
//!
//! **The problem.** A pool that has been full for a while has its free space in crumbs. What was accepted must be
//! foldable (rules F19), and admission counts bytes, not runs: no account of runs would hold, since every small block may
//! break the run that a large one was let in for.
//!
//! **The idea.** Such a block is written in as many pieces as it takes, and its pointer names a *map* of them, and says so
//! by a flag. Blocks of one sector never need one, so the last free sectors of a pool can always be used.
//!
//! **What it costs.** A sector for the map, and one more read for each piece. Nothing where there is room.
//!
//! ```text
//!   0        4        8        16              32
//!   +--------+--------+--------+---------------+-- per piece, in order of the content: ------------+-- zeroes --+-----------+
//!   |"TSC2"  | pieces | zero   | checksum of   | vdev u16 | sectors u16 | data sectors u16 | zero u16 |            | checksum  |
//!   |        |        |        | the block     | first sector u64 | checksum u64                    |            | u64       |
//!   +--------+--------+--------+---------------+-----------------------------------------------------+------------+-----------+
//! ```
//!
//! A map vouches for its own bytes, and names the checksum that its pointer has: an older map in the same place is
//! another block's. What it points to is checked piece by piece, so that a mirror's good leg is found, and as a whole.

use bytes::Bytes;
use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{BlockChecksum, SECTOR, VdevIndex, block_checksum, blocking};
use tally_disk::AlignedBuf;
use tally_members::blockdev::{BlockDevError, BlockDevs};

use super::{BlockError, sectors_of, write_sectors};
use crate::bp::{BlockPtr, Dva};

const MAGIC: u32 = u32::from_le_bytes(*b"TSC2");
const HEAD_BYTES: usize = 32;
const PIECE_BYTES: usize = 24;
const TAIL_BYTES: usize = 8;
const WHAT: &str = "map of a block in pieces";

/// Bytes of a map of so many pieces.
pub(crate) const fn map_bytes(pieces: usize) -> usize {
    (HEAD_BYTES + pieces * PIECE_BYTES + TAIL_BYTES).next_multiple_of(SECTOR)
}

/// Where a block is going to be.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In one piece.
    Whole(Dva),
    /// In several, with a map of them.
    Pieces(Dva, Vec<Dva>),
}

impl Place {
    /// Bytes that the block may have.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Whole(dva) => dva.bytes(),
            Self::Pieces(_, pieces) => pieces.iter().map(Dva::bytes).sum(),
        }
    }

    /// Every range that it takes.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Dva> {
        let (first, others) = match self {
            Self::Whole(dva) => (dva, &[][..]),
            Self::Pieces(map, pieces) => (map, &pieces[..]),
        };
        std::iter::once(*first).chain(others.iter().copied())
    }

    /// Writes the block, and its map if it needs one. Gives what its pointer names.
    pub(crate) fn write(&self, devs: &BlockDevs, bytes: &[u8], checksum: BlockChecksum) -> Result<Dva, BlockError> {
        match self {
            Self::Whole(dva) => write_padded(devs, dva, bytes).map(|()| *dva),
            Self::Pieces(map, pieces) => {
                let mut sums = Vec::with_capacity(pieces.len());
                let mut rest = bytes;
                for piece in pieces {
                    let (part, behind) = rest.split_at(rest.len().min(piece.bytes() as usize));
                    sums.push(write_padded_summed(devs, piece, part)?);
                    rest = behind;
                }
                write_padded(devs, map, &encode_map(checksum, pieces, &sums))?;
                Ok(*map)
            }
        }
    }
}

fn padded(dva: &Dva, bytes: &[u8]) -> AlignedBuf {
    let mut buf = AlignedBuf::with_capacity(dva.bytes() as usize);
    buf.extend_from_slice(bytes);
    buf.resize(dva.bytes() as usize);
    buf
}

fn write_padded(devs: &BlockDevs, dva: &Dva, bytes: &[u8]) -> Result<(), BlockError> {
    write_sectors(devs, dva.vdev, dva.offset, &padded(dva, bytes))
}

fn write_padded_summed(devs: &BlockDevs, dva: &Dva, bytes: &[u8]) -> Result<u64, BlockError> {
    let buf = padded(dva, bytes);
    write_sectors(devs, dva.vdev, dva.offset, &buf)?;
    Ok(sum(&buf))
}

/// The checksum of a piece.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    block_checksum(bytes) as u64
}

fn encode_map(checksum: BlockChecksum, pieces: &[Dva], sums: &[u64]) -> Vec<u8> {
    let length = map_bytes(pieces.len());
    let mut bytes = Vec::with_capacity(length);
    bytes.put_u32(MAGIC);
    bytes.put_u32(u32::try_from(pieces.len()).expect("a block has at most 4096 sectors"));
    bytes.put_u64(0);
    bytes.put_u128(checksum);
    for (piece, sum) in pieces.iter().zip(sums) {
        let sectors = u16::try_from(piece.sectors).expect("a block has at most 4096 sectors");
        bytes.put_u16(piece.vdev.0);
        bytes.put_u16(sectors);
        bytes.put_u16(sectors);
        bytes.put_u16(0);
        bytes.put_u64(piece.offset / SECTOR as u64);
        bytes.put_u64(*sum);
    }
    bytes.resize(length - TAIL_BYTES, 0);
    bytes.put_u64(sum(&bytes));
    bytes
}

/// The pieces of the map for `bp`, each with its checksum.
fn decode_map(bytes: &[u8], bp: &BlockPtr) -> Result<Vec<(Dva, u64)>, Malformed> {
    let malformed = Malformed(WHAT);
    let (checked, own) = bytes.split_last_chunk::<TAIL_BYTES>().ok_or(malformed)?;
    let mut reader = Reader::new(checked, WHAT);
    let (magic, count, zero, checksum) = (reader.u32()?, reader.u32()? as usize, reader.u64()?, reader.u128()?);
    // A block that was given up is not read any more, but its pieces must be found to be freed.
    if u64::from_le_bytes(*own) != sum(checked) || (magic, zero) != (MAGIC, 0) || !bp.had_checksum(checksum) {
        return Err(malformed);
    }
    // Bounded by the bytes that are there before anything is allocated.
    let pieces = (0..count.min(checked.len() / PIECE_BYTES)).map(|_| {
        let (vdev, sectors) = (VdevIndex(reader.u16()?), u32::from(reader.u16()?));
        let (data_sectors, zero, start, sum) = (reader.u16()?, reader.u16()?, reader.u64()?, reader.u64()?);
        // Where a vdev has parity a piece will have more sectors than data.
        let offset = start.checked_mul(SECTOR as u64).filter(|_| (u32::from(data_sectors), zero) == (sectors, 0));
        Ok((Dva { vdev, offset: offset.ok_or(malformed)?, sectors }, sum))
    });
    let pieces = pieces.collect::<Result<Vec<_>, Malformed>>()?;
    let sectors: u64 = pieces.iter().map(|(piece, _)| u64::from(piece.sectors)).sum();
    let whole = pieces.len() == count && sectors == u64::from(sectors_of(bp.psize as usize));
    if whole && pieces.iter().all(|(piece, _)| piece.sectors > 0) { Ok(pieces) } else { Err(malformed) }
}

fn read(devs: &BlockDevs, bp: &BlockPtr, dva: &Dva, verify: &dyn Fn(&[u8]) -> bool) -> Result<AlignedBuf, BlockError> {
    let beyond = BlockError::Pointer { bp: *bp, what: "it, or its map, points to where the pool has nothing" };
    let Some(dev) = devs.get(&dva.vdev).filter(|dev| dva.sectors > 0 && dva.end() <= dev.data_bytes()) else {
        return Err(beyond);
    };
    blocking(|| dev.read_written(dva.offset, dva.bytes() as usize, verify, bp.written))
        .map_err(|source| BlockError::Unreadable { bp: *bp, source })
}

/// The pieces of a block, each with its checksum.
pub(super) fn map_of(devs: &BlockDevs, bp: &BlockPtr) -> Result<Vec<(Dva, u64)>, BlockError> {
    let map = read(devs, bp, &bp.dva, &|bytes| decode_map(bytes, bp).is_ok())?;
    decode_map(&map, bp).map_err(|Malformed(what)| BlockError::Malformed { bp: *bp, what })
}

/// Whether these bytes are the map of the pieces of `bp`.
pub(super) fn is_map_of(bytes: &[u8], bp: &BlockPtr) -> bool {
    decode_map(bytes, bp).is_ok()
}

/// The pieces of a block, without their map.
pub(crate) fn pieces_of(devs: &BlockDevs, bp: &BlockPtr) -> Result<Vec<Dva>, BlockError> {
    Ok(map_of(devs, bp)?.into_iter().map(|(piece, _)| piece).collect())
}

/// The `psize` bytes of a block in pieces, verified.
pub(crate) fn open(devs: &BlockDevs, bp: &BlockPtr) -> Result<Bytes, BlockError> {
    let mut stored = Vec::with_capacity(bp.psize as usize + SECTOR);
    for (piece, expected) in map_of(devs, bp)? {
        stored.extend_from_slice(&read(devs, bp, &piece, &|bytes| sum(bytes) == expected)?);
    }
    stored.truncate(bp.psize as usize);
    if stored.len() == bp.psize as usize && block_checksum(&stored) == bp.checksum {
        Ok(stored.into())
    } else {
        Err(BlockError::Unreadable { bp: *bp, source: BlockDevError::NoGoodCopy })
    }
}

#[cfg(test)]
mod tests;
