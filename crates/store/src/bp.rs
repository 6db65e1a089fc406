//! The block pointer: where a block lies, how large it is in each of its three sizes, how it was compressed,
//! what its bytes hash to and which txg wrote it. Nothing in the pool is read but through one of these, and
//! the checksum stands in the pointer, never in the block, so that a block that was not written, or was written
//! elsewhere, cannot vouch for itself.
//!
//! ```text
//!   0        8        16       20       24       28       32       36   37   38     40       48              64
//!   +--------+--------+--------+--------+--------+--------+--------+----+----+------+--------+---------------+
//!   |offset 1|offset 2| vdev 1 | vdev 2 |sectors | lsize  | psize  |comp|kind| zero | birth  |   checksum    |
//!   +--------+--------+--------+--------+--------+--------+--------+----+----+------+--------+---------------+
//! ```
//!
//! `vdev 2` is 0xffff_ffff where there is no second copy; both copies have the same number of sectors. A pointer
//! of 64 zeroes is "no block". The checksum is taken over the `psize` bytes as they stand on disk.

use std::fmt;

use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{BlockChecksum, SECTOR, Txg};

/// Encoded size of a [`BlockPtr`].
pub const BLOCK_PTR_BYTES: usize = 64;

/// The largest block, before and after compression. Bounds what a damaged pointer can make a reader allocate.
pub const BLOCK_BYTES_MAX: u32 = 16 << 20;

/// What `vdev 2` holds where there is no second copy.
const NO_VDEV: u32 = u32::MAX;

/// The lower half of the checksum of a block that was given up. A block in 2^64 has it by chance, and cannot be read then.
const GIVEN_UP: BlockChecksum = u64::from_le_bytes(*b"GIVEN UP") as BlockChecksum;

const WHAT: &str = "block pointer";

/// A range of sectors on one top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dva {
    /// Index of the vdev.
    pub vdev: u32,
    /// Byte offset in its data area, a whole sector.
    pub offset: u64,
    /// Length in sectors.
    pub sectors: u32,
}

impl Dva {
    /// Length in bytes: the block's `asize`.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.sectors as u64 * SECTOR as u64
    }

    /// First byte behind the range, saturating: a damaged range is found by whoever compares it with a device.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes())
    }
}

impl fmt::Display for Dva {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:#x}+{:#x}", self.vdev, self.offset, self.bytes())
    }
}

/// What a block holds. It stands in the pointer, so that a block cannot be taken for another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockKind {
    /// An inner node of a tree.
    TreeNode = 1,
    /// A leaf of a tree.
    Leaf = 2,
    /// File content.
    Data = 3,
    /// The pool's root.
    Root = 4,
    /// One region's bitmap.
    SpaceMap = 5,
    /// Pointers to space maps, or to further such blocks.
    SpaceIndex = 6,
    /// Freed ranges that may not be used again yet.
    Deferred = 7,
    /// Part of the reply cache.
    Replies = 8,
    /// A table that hangs from the pool's root, such as the list of datasets.
    Table = 9,
}

impl BlockKind {
    /// Its place in [`Self::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize - 1
    }

    /// All of them, by their numbers.
    pub(crate) const ALL: [Self; 9] = [
        Self::TreeNode,
        Self::Leaf,
        Self::Data,
        Self::Root,
        Self::SpaceMap,
        Self::SpaceIndex,
        Self::Deferred,
        Self::Replies,
        Self::Table,
    ];

    fn decode(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// How a block is to be compressed when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    Off,
    /// LZ4: faster than the devices that we know.
    #[default]
    Lz4,
    /// Zstandard at a level.
    Zstd(i8),
}

/// How the bytes of a block stand on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Coding {
    /// As they are.
    Raw = 0,
    /// One LZ4 block.
    Lz4 = 1,
    /// One Zstandard frame.
    Zstd = 2,
}

/// Names, sizes and vouches for one block.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockPtr {
    /// Where it lies.
    pub dva: Dva,
    /// Where a second copy lies, if there is one; as many sectors as the first.
    pub copy: Option<Dva>,
    /// Logical bytes.
    pub lsize: u32,
    /// Bytes on disk after compression; the rest of the last sector is zero.
    pub psize: u32,
    /// How they are compressed.
    pub coding: Coding,
    /// What the block holds.
    pub kind: BlockKind,
    /// The txg that wrote it.
    pub birth: Txg,
    /// Checksum of the `psize` bytes on disk.
    pub checksum: BlockChecksum,
}

impl BlockPtr {
    /// Allocated bytes, over all copies.
    #[must_use]
    pub fn asize(&self) -> u64 {
        let pieces = if self.is_scattered() { self.stored_bytes() } else { 0 };
        self.dva.bytes() + self.copy.map_or(0, |copy| copy.bytes()) + pieces
    }

    /// The same place under a mark instead of its checksum: whoever reads it is told that it cannot be read, for ever, whatever
    /// the device gives. Half of the checksum stays, for whoever wants to save what is there.
    #[must_use]
    pub fn given_up(&self) -> Self {
        if self.is_given_up() {
            return *self;
        }
        Self { checksum: self.checksum << 64 | GIVEN_UP, ..*self }
    }

    /// Whether [`Self::given_up`] has made it. A program that does not know the mark finds that the checksum is wrong.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.checksum & u128::from(u64::MAX) == GIVEN_UP
    }

    /// Whether the block has, or had before it was given up, this checksum.
    pub(crate) fn had_checksum(&self, checksum: BlockChecksum) -> bool {
        self.checksum == checksum || self.is_given_up() && self.checksum == checksum << 64 | GIVEN_UP
    }

    /// Whether the pointer names a map of pieces ([`crate::block::scatter`]) and not the block itself: then it has fewer
    /// sectors than the block needs.
    #[must_use]
    pub fn is_scattered(&self) -> bool {
        self.dva.bytes() < self.stored_bytes()
    }

    /// `psize` in whole sectors.
    fn stored_bytes(&self) -> u64 {
        tally_base::round_to_sector(u64::from(self.psize))
    }

    /// The ranges that it names: one, or two. Those of a block in pieces stand in its map.
    pub fn dvas(&self) -> impl Iterator<Item = Dva> {
        std::iter::once(self.dva).chain(self.copy)
    }

    /// The 64 bytes of the drawing above.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_PTR_BYTES] {
        debug_assert!(self.copy.is_none_or(|copy| copy.sectors == self.dva.sectors), "copies are of one size");
        let mut bytes = [0; BLOCK_PTR_BYTES];
        let copy = self.copy.unwrap_or(Dva { vdev: NO_VDEV, offset: 0, sectors: 0 });
        bytes[0..8].copy_from_slice(&self.dva.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&copy.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.dva.vdev.to_le_bytes());
        bytes[20..24].copy_from_slice(&copy.vdev.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.dva.sectors.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.lsize.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.psize.to_le_bytes());
        bytes[36] = self.coding as u8;
        bytes[37] = self.kind as u8;
        bytes[40..48].copy_from_slice(&self.birth.0.to_le_bytes());
        bytes[48..64].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// The pointer of an encoding. What can be checked without the devices is checked here, so that a pointer
    /// in memory is always of a sensible size.
    pub fn decode(bytes: &[u8; BLOCK_PTR_BYTES]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, WHAT);
        let (offset, copy_offset) = (reader.u64()?, reader.u64()?);
        let (vdev, copy_vdev) = (reader.u32()?, reader.u32()?);
        let (sectors, lsize, psize) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let coding = match reader.u8()? {
            0 => Coding::Raw,
            1 => Coding::Lz4,
            2 => Coding::Zstd,
            _ => return Err(Malformed(WHAT)),
        };
        let kind = BlockKind::decode(reader.u8()?).ok_or(Malformed(WHAT))?;
        let zero = reader.u16()?;
        let birth = Txg(reader.u64()?);
        let checksum = reader.u128()?;
        let copy = (copy_vdev != NO_VDEV).then_some(Dva { vdev: copy_vdev, offset: copy_offset, sectors });
        let pointer = Self { dva: Dva { vdev, offset, sectors }, copy, lsize, psize, coding, kind, birth, checksum };
        if zero == 0 && pointer.is_sensible() { Ok(pointer) } else { Err(Malformed(WHAT)) }
    }

    /// An optional pointer: 64 zeroes are `None`.
    #[must_use]
    pub fn encode_option(pointer: Option<&Self>) -> [u8; BLOCK_PTR_BYTES] {
        pointer.map_or([0; BLOCK_PTR_BYTES], Self::encode)
    }

    /// The mirror image of [`Self::encode_option`].
    pub fn decode_option(bytes: &[u8; BLOCK_PTR_BYTES]) -> Result<Option<Self>, Malformed> {
        if bytes.iter().all(|byte| *byte == 0) { Ok(None) } else { Self::decode(bytes).map(Some) }
    }

    /// Appends the encoding to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put(&self.encode());
    }

    /// Whether the sizes fit together and the ranges are whole sectors. The devices' sizes are not known here.
    #[must_use]
    pub fn is_sensible(&self) -> bool {
        let asize = self.dva.bytes();
        let whole = |dva: &Dva| dva.offset.is_multiple_of(SECTOR as u64) && dva.offset.checked_add(asize).is_some();
        self.lsize > 0
            && self.lsize <= BLOCK_BYTES_MAX
            && self.psize > 0
            && self.psize <= self.lsize
            && (self.coding != Coding::Raw || self.psize == self.lsize)
            && self.dva.sectors > 0
            && (asize == self.stored_bytes() || self.is_scattered() && self.copy.is_none())
            && whole(&self.dva)
            && self.copy.as_ref().is_none_or(whole)
    }
}

impl fmt::Display for BlockPtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pieces = if self.is_scattered() { " (in pieces)" } else { "" };
        let Self { kind, dva, lsize, psize, birth, .. } = self;
        write!(f, "{kind:?} {dva}{pieces} lsize {lsize} psize {psize} birth {birth}")
    }
}

impl fmt::Debug for BlockPtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockPtr({self} {:032x})", self.checksum)
    }
}

#[cfg(test)]
mod tests;
