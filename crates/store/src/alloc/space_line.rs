//! What the index says of one region: where its bitmap lies, and what an allocation has to know of the region before it
//! reads that.
//!
//! ```text
//!   0         10        20      28         44        52     54        56     58      60     64
//!   +---------+---------+-------+----------+---------+------+---------+------+-------+------+
//!   | place 1 | place 2 | birth | checksum | applied | free | longest | runs | flags | zero |
//!   +---------+---------+-------+----------+---------+------+---------+------+-------+------+
//!   place: as in a block pointer, of one sector each
//! ```
//!
//! A line of zeroes is a region without a bitmap: all of it is free. `applied`: what groups up to this one have freed is
//! free in the bitmap; of ripe lists ([`super::ripe`]) later ones are still to be applied. `free` and `longest` are sectors,
//! `runs` the free runs. Flags: 1 will say that the region has blocks with several owners; a line with a bit that nobody
//! knows yet is refused.
//!
//! Of what a block pointer has, all that is the same for every space map is left out: it is one sector, raw, and written in
//! the group of its birth.

use tally_base::codec::{Malformed, Reader};
use tally_base::{BlockChecksum, SECTOR, Txg};

use super::bitmap::Figures;
use crate::bp::{BlockKind, BlockPtr, Coding, Dva};

/// Encoded size of a [`SpaceLine`].
pub(super) const LINE_BYTES: usize = 64;

/// The line of a region that is all free.
pub(super) const NO_LINE: [u8; LINE_BYTES] = [0; LINE_BYTES];

const WHAT: &str = "line of the space index";

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceLine {
    place: Dva,
    copy: Option<Dva>,
    birth: Txg,
    checksum: BlockChecksum,
    /// What groups up to this one have freed is free in the bitmap.
    pub applied: Txg,
    /// Of the bitmap.
    pub figures: Figures,
}

impl SpaceLine {
    /// The line of a bitmap that was given this pointer.
    pub(super) fn of(bp: &BlockPtr, applied: Txg, figures: Figures) -> Self {
        Self { place: bp.dva, copy: bp.copy, birth: bp.birth, checksum: bp.checksum, applied, figures }
    }

    /// The bitmap's pointer.
    #[must_use]
    pub fn pointer(&self) -> BlockPtr {
        BlockPtr {
            dva: self.place,
            copy: self.copy,
            in_pieces: false,
            lsize: SECTOR as u32,
            psize: SECTOR as u32,
            coding: Coding::Raw,
            kind: BlockKind::SpaceMap,
            birth: self.birth,
            written: self.birth,
            checksum: self.checksum,
        }
    }

    /// Where the bitmap lies.
    pub(super) fn places(&self) -> impl Iterator<Item = Dva> + use<> {
        std::iter::once(self.place).chain(self.copy)
    }

    pub(super) fn encode(&self) -> [u8; LINE_BYTES] {
        let mut bytes = NO_LINE;
        bytes[0..10].copy_from_slice(&self.place.encode());
        bytes[10..20].copy_from_slice(&Dva::encode_option(self.copy.as_ref()));
        bytes[20..28].copy_from_slice(&self.birth.0.to_le_bytes());
        bytes[28..44].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[44..52].copy_from_slice(&self.applied.0.to_le_bytes());
        bytes[52..54].copy_from_slice(&self.figures.free.to_le_bytes());
        bytes[54..56].copy_from_slice(&self.figures.longest.to_le_bytes());
        bytes[56..58].copy_from_slice(&self.figures.runs.to_le_bytes());
        bytes
    }

    /// The mirror image of [`Self::encode`]; zeroes are `None`.
    pub fn decode(bytes: &[u8; LINE_BYTES]) -> Result<Option<Self>, Malformed> {
        if *bytes == NO_LINE {
            return Ok(None);
        }
        let mut reader = Reader::new(bytes, WHAT);
        let (place, copy) = (Dva::decode(&mut reader)?, Dva::decode_option(&mut reader)?);
        let (birth, checksum, applied) = (Txg(reader.u64()?), reader.u128()?, Txg(reader.u64()?));
        let figures = Figures { free: reader.u16()?, longest: reader.u16()?, runs: reader.u16()? };
        let (flags, zero) = (reader.u16()?, reader.u32()?);
        let line = Self { place, copy, birth, checksum, applied, figures };
        let is_sensible = (flags, zero) == (0, 0)
            && applied <= birth
            && line.places().all(|place| place.sectors == 1)
            && line.pointer().is_sensible()
            && figures.is_sensible();
        if is_sensible { Ok(Some(line)) } else { Err(Malformed(WHAT)) }
    }
}
