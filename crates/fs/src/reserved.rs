//! What of a file is reserved: ranges in which each WRITE finds room, whatever others take (ALLOCATE, rules V42).
//!
//! Ranges are of whole blocks. For each block in them its file has, in the account of its dataset and in what its pool promises, what the block may take at the
//! most, and what goes around it, less what it takes: so a block that is written, be it the first time or anew, takes as much from the account as
//! it takes of the pool. Ranges stay until they are punched, cut or removed with their file. What they are, records say; what is still to be taken of them, only the
//! fold knows ([docs/design/0075](../../../docs/design/0075-room-that-is-promised.md)).
//!
//! ```text
//! section 4 of an inode: from u64, to u64 of each range, ascending; what is still to be taken stands in the inode
//! ```

use std::ops::Range;

use smallvec::SmallVec;
use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{SECTOR, round_to_sector};
use tally_vfs::FILE_SIZE_MAX;

/// Most ranges of a file that are reserved apart from each other.
pub(crate) const RANGES_MAX: usize = 32;
/// Most bytes of them in an inode.
pub(crate) const RESERVED_BYTES_MAX: usize = RANGES_MAX * 16;

/// An extent in its leaf, and half as much around it.
pub(crate) const EXTENT_BYTES: u64 = 128;

/// What a file has reserved beside its blocks, as long as it has any range: so an account of which nothing is left has no range either.
pub(crate) const FILE_CHARGE: u64 = SECTOR as u64;

/// What blocks in ranges of whole blocks can take in a file of that size, with what goes around them: a place in a leaf, and a map where a block is in pieces.
pub(crate) fn room_of(ranges: &[Range<u64>], size: u64, record_size: u64) -> u64 {
    let around = EXTENT_BYTES + if record_size > SECTOR as u64 { SECTOR as u64 } else { 0 };
    let (content_end, blocks_end) = (round_to_sector(size), size.next_multiple_of(record_size));
    let up_to = |end: u64| -> u64 { ranges.iter().map(|range| range.end.min(end).saturating_sub(range.start)).sum() };
    let blocks = up_to(blocks_end) / record_size;
    up_to(content_end).saturating_add(blocks.saturating_mul(around))
}

/// See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// Ascending, of whole blocks, and none touches the next.
    ranges: SmallVec<[Range<u64>; 1]>,
    /// Bytes that may still be taken, and [`FILE_CHARGE`], as of the last fold.
    pub(crate) bytes: u64,
}

impl Reserved {
    /// With one range more; `None`: there would be too many.
    #[must_use]
    pub(crate) fn with(reserved: Option<&Self>, range: Range<u64>, record_size: u64) -> Option<Self> {
        Some(Self::and(reserved, range, record_size)).filter(|it| it.ranges.len() <= RANGES_MAX)
    }

    /// With one range more, and where there would be too many, with what lies between the two that are nearest to each other.
    #[must_use]
    pub(crate) fn closed(reserved: Option<&Self>, range: Range<u64>, record_size: u64) -> Self {
        let mut closed = Self::and(reserved, range, record_size);
        while closed.ranges.len() > RANGES_MAX {
            let gap = |at: &usize| closed.ranges[at + 1].start - closed.ranges[*at].end;
            let Some(at) = (0..closed.ranges.len() - 1).min_by_key(gap) else { break };
            closed.ranges[at].end = closed.ranges[at + 1].end;
            closed.ranges.remove(at + 1);
        }
        closed
    }

    fn and(reserved: Option<&Self>, range: Range<u64>, record_size: u64) -> Self {
        let mut new = range.start / record_size * record_size..range.end.next_multiple_of(record_size);
        let had = reserved.cloned().unwrap_or_default();
        let mut ranges: SmallVec<[Range<u64>; 1]> = SmallVec::new();
        let mut behind: SmallVec<[Range<u64>; 1]> = SmallVec::new();
        for old in had.ranges {
            if old.end < new.start {
                ranges.push(old);
            } else if old.start > new.end {
                behind.push(old);
            } else {
                new = new.start.min(old.start)..new.end.max(old.end);
            }
        }
        ranges.push(new);
        ranges.extend(behind);
        Self { ranges, bytes: had.bytes }
    }

    /// What is left without a range, of which only the whole blocks go. A range that would become two where there is no room for one more stays as it is:
    /// it promises more than it has to.
    #[must_use]
    pub(crate) fn without(&self, range: &Range<u64>, record_size: u64) -> Option<Self> {
        let gone = range.start.next_multiple_of(record_size)..range.end / record_size * record_size;
        let mut left = Self { ranges: SmallVec::new(), bytes: self.bytes };
        let mut room = RANGES_MAX - self.ranges.len();
        for old in &self.ranges {
            let parts = [old.start..old.end.min(gone.start), old.start.max(gone.end)..old.end];
            let both = parts.iter().all(|part| !part.is_empty());
            if gone.is_empty() || (both && room == 0) {
                left.ranges.push(old.clone());
                continue;
            }
            room -= usize::from(both);
            left.ranges.extend(parts.into_iter().filter(|part| !part.is_empty()));
        }
        (!left.ranges.is_empty()).then_some(left)
    }

    /// Whether each block of a range is reserved.
    #[must_use]
    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        self.ranges.iter().any(|reserved| reserved.start <= range.start && range.end <= reserved.end)
    }

    /// Whether the block that begins there is.
    #[must_use]
    pub(crate) fn has(&self, start: u64) -> bool {
        self.ranges.iter().any(|reserved| reserved.contains(&start))
    }

    /// All of them.
    #[must_use]
    pub(crate) fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// What of them is not in `other`.
    #[must_use]
    pub(crate) fn beside(&self, other: Option<&Self>) -> SmallVec<[Range<u64>; 1]> {
        let mut left = self.ranges.clone();
        for gone in other.iter().flat_map(|other| &other.ranges) {
            let parts =
                |range: Range<u64>| [range.start..range.end.min(gone.start), range.start.max(gone.end)..range.end];
            left = left.into_iter().flat_map(parts).filter(|part| !part.is_empty()).collect();
        }
        left
    }

    /// What its blocks can take in a file of that size, with what goes around them.
    #[must_use]
    pub(crate) fn room_bytes(&self, size: u64, record_size: u64) -> u64 {
        room_of(&self.ranges, size, record_size)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for range in &self.ranges {
            out.put_u64(range.start);
            out.put_u64(range.end);
        }
    }

    pub(crate) fn decode(bytes: &[u8], left_bytes: u64, record_size: u64) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, "reserved ranges");
        let mut ranges: SmallVec<[Range<u64>; 1]> = SmallVec::new();
        while !reader.rest().is_empty() {
            let range = reader.u64()?..reader.u64()?;
            let follows = ranges.last().is_none_or(|last| last.end < range.start);
            let is_whole = range.start.is_multiple_of(record_size) && range.end.is_multiple_of(record_size);
            if !follows || !is_whole || range.is_empty() || range.end > FILE_SIZE_MAX.next_multiple_of(record_size) {
                return Err(reader.malformed());
            }
            ranges.push(range);
        }
        let is_possible = (1..=RANGES_MAX).contains(&ranges.len()) && left_bytes > 0;
        if is_possible { Ok(Self { ranges, bytes: left_bytes }) } else { Err(reader.malformed()) }
    }

    /// For people.
    pub(crate) fn shown(&self) -> String {
        let shown: Vec<_> = self.ranges.iter().map(|range| format!("{}-{}", range.start, range.end)).collect();
        shown.join(",")
    }

    /// Of which nothing is known: neither what nor how much.
    pub(crate) fn unknown() -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests;
