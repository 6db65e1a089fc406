//! The two structures of the format, as bytes.

use anyhow::{Context, Result, ensure};

pub(super) const FLUSH: u64 = 1;
pub(super) const FUA: u64 = 2;
pub(super) const DISCARD: u64 = 4;
pub(super) const MARK: u64 = 8;
pub(super) const METADATA: u64 = 16;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
/// Bytes of an entry without its mark.
pub(super) const ENTRY_BYTES: usize = 32;
/// Bytes of a sector in recordings of our own.
pub(super) const SECTOR: usize = 512;

/// What stands at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) entries: u64,
    pub(super) sector_bytes: usize,
}

/// One thing that a disk was told, or a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) sector: u64,
    pub(super) sectors: u64,
    pub(super) flags: u64,
    pub(super) mark_bytes: u64,
}

impl Head {
    /// One sector, filled up with zeroes.
    pub(super) fn encode(self) -> Vec<u8> {
        let mut bytes = words([MAGIC, VERSION, self.entries]);
        bytes.extend(u32::try_from(self.sector_bytes).expect("a sector has a few thousand bytes").to_le_bytes());
        bytes.resize(self.sector_bytes, 0);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let (magic, version, entries) = (word(bytes, 0)?, word(bytes, 8)?, word(bytes, 16)?);
        ensure!(magic == MAGIC, "this is no recording: its magic number is {magic:x}");
        ensure!(version == VERSION, "a recording of version {version}; {VERSION} is known");
        let sector_bytes = word(bytes, 24)? & 0xffff_ffff;
        ensure!(matches!(sector_bytes, 512 | 4096), "sectors of {sector_bytes} bytes");
        Ok(Self { entries, sector_bytes: sector_bytes as usize })
    }
}

impl Entry {
    /// Without what fills its sector.
    pub(super) fn encode(self) -> Vec<u8> {
        words([self.sector, self.sectors, self.flags, self.mark_bytes])
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let (sector, sectors) = (word(bytes, 0)?, word(bytes, 8)?);
        Ok(Self { sector, sectors, flags: word(bytes, 16)?, mark_bytes: word(bytes, 24)? })
    }
}

fn words<const N: usize>(words: [u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn word(bytes: &[u8], offset: usize) -> Result<u64> {
    let word = bytes.get(offset..offset + 8).context("the recording ends within an entry")?;
    Ok(u64::from_le_bytes(word.try_into()?))
}
