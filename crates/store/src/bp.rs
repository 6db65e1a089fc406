//! The block pointer: where a block lies, how large it is in each of its three sizes, how it was compressed,
//! what its bytes hash to and which txg wrote it. Nothing in the pool is read but through one of these, and
//! the checksum stands in the pointer, never in the block, so that a block that was not written, or was written
//! elsewhere, cannot vouch for itself.
//!
//! ```text
//!   0                   10                  20       24       28   29   30   31   32       40       48         64
//!   +-------------------+-------------------+--------+--------+----+----+----+----+--------+--------+----------+
//!   | place 1           | place 2           | lsize  | psize  |code|kind|sum |flag| birth  |written | checksum |
//!   +-------------------+-------------------+--------+--------+----+----+----+----+--------+--------+----------+
//!   place: vdev u16 · sectors u16 · first sector u48
//! ```
//!
//! The vdev is named by its index in the pool's configuration, and is 0xffff, with zeroes behind, where there is no second
//! place. A pointer of 64 zeroes is "no block". The checksum is taken over the `psize` bytes as they stand on disk; `sum`
//! says which one that is, 1 for XXH3-128. Flags: 1 where place 1 is that of a map of pieces; what another bit says nobody
//! knows yet, and a pointer that has one is refused. `birth` is the group in which this tree got the block, `written` the one
//! that wrote its bytes: they will differ where trees share blocks.

use std::fmt;

use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{BlockChecksum, SECTOR, Txg, VdevIndex};

/// Encoded size of a [`BlockPtr`].
pub const BLOCK_PTR_BYTES: usize = 64;

/// The largest block, before and after compression. Bounds what a damaged pointer can make a reader allocate.
pub const BLOCK_BYTES_MAX: u32 = 16 << 20;

/// Encoded size of a place.
pub(crate) const PLACE_BYTES: usize = 10;

/// No second place.
const NO_PLACE: [u8; PLACE_BYTES] = {
    let [low, high] = VdevIndex::NONE.0.to_le_bytes();
    [low, high, 0, 0, 0, 0, 0, 0, 0, 0]
};

/// The only checksum: XXH3-128.
const XXH3: u8 = 1;

/// Flag: place 1 is that of a map of pieces.
const IN_PIECES: u8 = 1;

/// The lower half of the checksum of a block that was given up. A block in 2^64 has it by chance, and cannot be read then.
const GIVEN_UP: BlockChecksum = u64::from_le_bytes(*b"GIVEN UP") as BlockChecksum;

const WHAT: &str = "block pointer";
const NEWER: &str = "block pointer that a program of this version can read";

/// A range of sectors on one top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dva {
    /// Its place in the configuration, which is its own for ever.
    pub vdev: VdevIndex,
    /// Byte offset in its data area, a whole sector.
    pub offset: u64,
    /// Length in sectors of 4 KiB; 0 only where there is no place.
    pub sectors: u32,
}

impl Dva {
    /// Length in bytes: the block's `asize`.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.sectors as u64 * SECTOR as u64
    }

    /// Whether they have a sector in common.
    #[must_use]
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.vdev.0 == other.vdev.0 && self.offset < other.end() && other.offset < self.end()
    }

    /// First byte behind the range, saturating: a damaged range is found by whoever compares it with a device.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes())
    }

    /// As it stands in a pointer.
    pub(crate) fn encode(&self) -> [u8; PLACE_BYTES] {
        let mut bytes = [0; PLACE_BYTES];
        let sectors = u16::try_from(self.sectors).expect("a block has at most 4096 sectors");
        bytes[0..2].copy_from_slice(&self.vdev.0.to_le_bytes());
        bytes[2..4].copy_from_slice(&sectors.to_le_bytes());
        bytes[4..].copy_from_slice(&(self.offset / SECTOR as u64).to_le_bytes()[..6]);
        bytes
    }

    /// A second place, or [`NO_PLACE`].
    pub(crate) fn encode_option(copy: Option<&Self>) -> [u8; PLACE_BYTES] {
        copy.map_or(NO_PLACE, Self::encode)
    }

    /// The mirror image of [`Self::encode_option`].
    pub(crate) fn decode_option(reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        let copy = reader.array::<PLACE_BYTES>()?;
        (copy != NO_PLACE).then(|| Self::decode(&mut Reader::new(&copy, WHAT))).transpose()
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (vdev, sectors) = (VdevIndex(reader.u16()?), reader.u16()?);
        let mut start = [0; 8];
        start[..6].copy_from_slice(&reader.array::<6>()?);
        Ok(Self { vdev, offset: u64::from_le_bytes(start) * SECTOR as u64, sectors: sectors.into() })
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
    /// Lines of space maps, or pointers to further such blocks.
    SpaceIndex = 6,
    /// Freed ranges that may not be used again yet.
    Deferred = 7,
    /// Part of the reply cache.
    Replies = 8,
}

impl BlockKind {
    /// Its place in [`Self::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize - 1
    }

    /// All of them, by their numbers.
    pub(crate) const ALL: [Self; 8] = [
        Self::TreeNode,
        Self::Leaf,
        Self::Data,
        Self::Root,
        Self::SpaceMap,
        Self::SpaceIndex,
        Self::Deferred,
        Self::Replies,
    ];

    fn decode(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// How a block is to be compressed when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// Stored as it is.
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
    /// `lsize` bytes as they are.
    Raw = 0,
    /// One LZ4 block, which expands to `lsize` bytes.
    Lz4 = 1,
    /// One Zstandard frame, which expands to `lsize` bytes.
    Zstd = 2,
}

/// Names, sizes and vouches for one block.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockPtr {
    /// Where it lies; or where the map of its pieces does ([`crate::block::scatter`]).
    pub dva: Dva,
    /// Where a second copy lies, if there is one; as many sectors as the first.
    pub copy: Option<Dva>,
    /// Whether it is in pieces.
    pub in_pieces: bool,
    /// Bytes before compression.
    pub lsize: u32,
    /// Bytes on disk after compression; the rest of the last sector is zero.
    pub psize: u32,
    /// How they are compressed.
    pub coding: Coding,
    /// What the block holds.
    pub kind: BlockKind,
    /// The txg in which the tree that has this pointer got it.
    pub birth: Txg,
    /// The txg that wrote its bytes.
    pub written: Txg,
    /// Checksum of the `psize` bytes on disk.
    pub checksum: BlockChecksum,
}

impl BlockPtr {
    /// Allocated bytes, over all copies.
    #[must_use]
    pub fn asize(&self) -> u64 {
        let pieces = if self.in_pieces { self.stored_bytes() } else { 0 };
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
        let mut bytes = [0; BLOCK_PTR_BYTES];
        bytes[0..10].copy_from_slice(&self.dva.encode());
        bytes[10..20].copy_from_slice(&Dva::encode_option(self.copy.as_ref()));
        bytes[20..24].copy_from_slice(&self.lsize.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.psize.to_le_bytes());
        bytes[28..32].copy_from_slice(&[
            self.coding as u8,
            self.kind as u8,
            XXH3,
            if self.in_pieces { IN_PIECES } else { 0 },
        ]);
        bytes[32..40].copy_from_slice(&self.birth.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.written.0.to_le_bytes());
        bytes[48..64].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// The pointer of an encoding. What can be checked without the devices is checked here, so that a pointer
    /// in memory is always of a sensible size.
    pub fn decode(bytes: &[u8; BLOCK_PTR_BYTES]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, WHAT);
        let dva = Dva::decode(&mut reader)?;
        let copy = Dva::decode_option(&mut reader)?;
        let (lsize, psize) = (reader.u32()?, reader.u32()?);
        let coding = match reader.u8()? {
            0 => Coding::Raw,
            1 => Coding::Lz4,
            2 => Coding::Zstd,
            _ => return Err(Malformed(WHAT)),
        };
        let kind = BlockKind::decode(reader.u8()?).ok_or(Malformed(WHAT))?;
        let (sum, flags) = (reader.u8()?, reader.u8()?);
        if sum != XXH3 || flags & !IN_PIECES != 0 {
            return Err(Malformed(NEWER));
        }
        let in_pieces = flags & IN_PIECES != 0;
        let (birth, written) = (Txg(reader.u64()?), Txg(reader.u64()?));
        let checksum = reader.u128()?;
        let pointer = Self { dva, copy, in_pieces, lsize, psize, coding, kind, birth, written, checksum };
        if pointer.is_sensible() { Ok(pointer) } else { Err(Malformed(WHAT)) }
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
        let stored = self.stored_bytes();
        let is_somewhere = |dva: &Dva| {
            dva.vdev != VdevIndex::NONE
                && dva.offset.is_multiple_of(SECTOR as u64)
                && dva.offset.checked_add(stored).is_some()
        };
        let holds_it = |dva: &Dva| is_somewhere(dva) && dva.bytes() == stored;
        // A map is never as long as what it maps.
        let holds_map = |dva: &Dva| is_somewhere(dva) && dva.bytes() < stored && self.copy.is_none();
        self.lsize > 0
            && self.lsize <= BLOCK_BYTES_MAX
            && self.psize > 0
            && self.psize <= self.lsize
            && (self.coding != Coding::Raw || self.psize == self.lsize)
            && self.written <= self.birth
            && self.dva.sectors > 0
            && (if self.in_pieces { holds_map(&self.dva) } else { holds_it(&self.dva) })
            && self.copy.as_ref().is_none_or(holds_it)
    }
}

impl fmt::Display for BlockPtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pieces = if self.in_pieces { " (in pieces)" } else { "" };
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
