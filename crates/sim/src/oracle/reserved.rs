//! What clients were promised room for, by what they were told (docs/design/0075): an account of the oracle's own, of blocks.
//!
//! ALLOCATE promises each block that its range touches; a punch takes the whole blocks in it away, a cut what begins behind
//! it. Nothing else does, and with the file all of it is gone.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use tally_base::ObjectId;

/// Ranges of a file that a server can note apart from each other. Where a punch would make more it promises more than it was
/// asked for.
const RANGES_MAX: usize = 32;
/// What is kept for a block beside its content: a place in a leaf, and a map where it may be in pieces.
const PLACE_BYTES: u64 = 128;
const MAP_BYTES: u64 = 4096;
/// What is kept for a file that has any.
const FILE_BYTES: u64 = 4096;
/// Blocks end with a sector.
const SECTOR_BYTES: u64 = 4096;

/// What of one file is promised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Blocks {
    record_size: u64,
    /// Ascending, of whole blocks, and none touches the next.
    ranges: Vec<Range<u64>>,
}

/// Files of which something is promised.
#[derive(Clone, Debug, Default)]
pub struct Reserved(Arc<HashMap<ObjectId, Blocks>>);

/// What is kept for what is promised.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// The content of the blocks: it is kept, or has taken its place.
    pub bytes_min: u64,
    /// If nothing of it is there yet.
    pub bytes_max: u64,
}

impl Reserved {
    /// Each block that a range touches is promised.
    pub(super) fn add(&mut self, file: ObjectId, range: &Range<u64>, record_size: u64) {
        let blocks = Arc::make_mut(&mut self.0).entry(file).or_default();
        blocks.record_size = record_size;
        let mut new = range.start / record_size * record_size..range.end.next_multiple_of(record_size);
        blocks.ranges.retain(|old| {
            let is_apart = old.end < new.start || new.end < old.start;
            if !is_apart {
                new = new.start.min(old.start)..new.end.max(old.end);
            }
            is_apart
        });
        let at = blocks.ranges.partition_point(|old| old.start < new.start);
        blocks.ranges.insert(at, new);
    }

    /// The whole blocks in a range are not promised any more.
    pub(super) fn remove(&mut self, file: ObjectId, range: &Range<u64>) {
        let Some(record_size) = self.0.get(&file).map(|blocks| blocks.record_size) else { return };
        let gone = range.start.next_multiple_of(record_size)..range.end / record_size * record_size;
        if gone.is_empty() {
            return;
        }
        let all = Arc::make_mut(&mut self.0);
        let blocks = all.get_mut(&file).expect("it was just found");
        let parts = |old: &Range<u64>| [old.start..old.end.min(gone.start), old.start.max(gone.end)..old.end];
        blocks.ranges = blocks.ranges.iter().flat_map(parts).filter(|part| !part.is_empty()).collect();
        if blocks.ranges.is_empty() {
            all.remove(&file);
        }
    }

    /// Whether all of a range is promised.
    #[must_use]
    pub fn covers(&self, file: ObjectId, range: &Range<u64>) -> bool {
        self.ranges(file).iter().any(|promised| promised.start <= range.start && range.end <= promised.end)
    }

    /// What of a file is promised.
    #[must_use]
    pub fn ranges(&self, file: ObjectId) -> &[Range<u64>] {
        self.0.get(&file).map_or(&[], |blocks| &blocks.ranges)
    }

    /// Whether a file may have no range more.
    #[must_use]
    pub fn is_at_bound(&self, file: ObjectId) -> bool {
        self.ranges(file).len() >= RANGES_MAX
    }

    /// The files, and the size of their blocks.
    pub fn files(&self) -> impl Iterator<Item = (ObjectId, u64)> {
        self.0.iter().map(|(file, blocks)| (*file, blocks.record_size))
    }

    /// What is kept for a file of that size.
    #[must_use]
    pub fn kept(&self, file: ObjectId, size: u64) -> Kept {
        let Some(Blocks { record_size, ranges }) = self.0.get(&file) else { return Kept::default() };
        let up_to = |end: u64| ranges.iter().map(|range| range.end.min(end).saturating_sub(range.start)).sum::<u64>();
        let blocks = up_to(size.next_multiple_of(*record_size)) / record_size;
        let content = up_to(size.next_multiple_of(SECTOR_BYTES));
        Kept { bytes_min: content, bytes_max: content + blocks * (PLACE_BYTES + MAP_BYTES) + FILE_BYTES }
    }
}
