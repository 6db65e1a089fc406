//! What changes in a file's content will cost the fold: known beforehand, since whoever is acknowledged must be foldable
//! (rules F19), and nobody may make a group that is folded for half a minute.
//!
//! The fold writes whole blocks. Where a part of one is changed it reads the rest, so a byte may cost a block twice
//! over. What was counted for a block once is not counted again in the same group, which folds it once: not for the
//! next WRITE into it, and not for the COMMIT of both.

use std::ops::Range;

use tally_base::Txg;
use tally_store::txg::Brought;

use crate::fold::{SMALL_MAX, extents_at_most, whole_blocks};
use crate::inode::{Inode, Layout};
use crate::layer::DataLayer;
use crate::object::Locked;
use crate::record::Record;
use crate::reserved::EXTENT_BYTES;

/// What the fold of a small file's change may write: its leaf and that of its inode.
const SMALL_FOLD_BYTES: u64 = (64 << 10) + (16 << 10);
/// The leaves of a file's extents and of its inode, beside its blocks.
const EXTENTS_FOLD_BYTES: u64 = 2 * (16 << 10);

/// See the module's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FoldCost {
    /// What it may take of the pool, bytes.
    pub(crate) bytes: u64,
    /// The part of `bytes` that the group has counted before.
    pub(crate) known_bytes: u64,
    /// What it reads and writes beyond the bytes that are written; fewer than none if a block is filled up.
    pub(crate) patch_bytes: i64,
}

impl FoldCost {
    /// The cost of changes in these ranges of a file, ascending, in a group that has `layer` of it.
    pub(crate) fn of(
        inode: &Inode,
        layer: Option<&DataLayer>,
        ranges: impl Iterator<Item = Range<u64>> + Clone,
    ) -> Self {
        let size = ranges.clone().map(|range| range.end).fold(inode.size, u64::max);
        let blocks = Blocks::new(inode, layer, size);
        if inode.layout == Layout::Small && size <= SMALL_MAX {
            return blocks.under_one_key();
        }
        let mut cost = blocks.grown_tail(ranges.clone().next().map_or(size, |range| range.start));
        let mut counted = 0;
        for range in ranges {
            let mut start = range.start / blocks.record_size * blocks.record_size;
            while start < range.end {
                cost.add(blocks.touched(start, &range, counted));
                start += blocks.record_size;
                counted = start;
            }
        }
        cost.with_leaves(inode.layout)
    }

    /// The cost of a new size. Only a cut within a block changes content, and that of the block alone.
    pub(crate) fn of_resize(inode: &Inode, layer: Option<&DataLayer>, size: u64) -> Self {
        if size < inode.size && !size.is_multiple_of(inode.record_size()) {
            return Self::of(inode, layer, std::iter::once(size..size + 1));
        }
        let blocks = Blocks::new(inode, layer, size);
        if inode.layout == Layout::Small && size <= SMALL_MAX {
            return blocks.under_one_key();
        }
        blocks.grown_tail(size).with_leaves(inode.layout)
    }

    /// The cost of a punch within the file. Its borders change content, and what of its whole blocks is freed in its group changes
    /// leaves.
    pub(crate) fn of_punch(inode: &Inode, layer: Option<&DataLayer>, range: &Range<u64>, freed_max: u64) -> Self {
        let whole = whole_blocks(inode, range);
        let borders = if whole.is_empty() {
            [range.clone(), range.end..range.end]
        } else {
            [range.start..whole.start, whole.end..range.end]
        };
        let mut cost = Self::of(inode, layer, borders.into_iter().filter(|border| !border.is_empty()));
        cost.bytes = cost.bytes.saturating_add(freed_max.min(extents_at_most(inode, whole)) * EXTENT_BYTES);
        cost
    }

    /// The part of it that is blocks and their places, where content changes and the file does not grow.
    pub(crate) fn block_bytes(&self, inode: &Inode) -> u64 {
        let leaves = match inode.layout {
            Layout::Small if inode.size <= SMALL_MAX => self.bytes,
            Layout::Small => EXTENTS_FOLD_BYTES + SMALL_FOLD_BYTES,
            Layout::Extents => EXTENTS_FOLD_BYTES,
        };
        self.bytes.saturating_sub(leaves)
    }

    /// With the leaves that hold the extents and the inode.
    fn with_leaves(mut self, layout: Layout) -> Self {
        if self.bytes > 0 && self.bytes == self.known_bytes {
            self.known_bytes += EXTENTS_FOLD_BYTES;
        }
        self.bytes += EXTENTS_FOLD_BYTES + if layout == Layout::Small { SMALL_FOLD_BYTES } else { 0 };
        self
    }

    fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.known_bytes = self.known_bytes.saturating_add(other.known_bytes);
        self.patch_bytes = self.patch_bytes.saturating_add(other.patch_bytes);
    }
}

/// A file in blocks, before a change and after it.
struct Blocks<'a> {
    record_size: u64,
    size_before: u64,
    size: u64,
    layer: Option<&'a DataLayer>,
}

impl<'a> Blocks<'a> {
    fn new(inode: &Inode, layer: Option<&'a DataLayer>, size: u64) -> Self {
        let layer = layer.filter(|layer| !layer.is_empty());
        Self { record_size: inode.record_size(), size_before: inode.size, size, layer }
    }

    fn under_one_key(&self) -> FoldCost {
        let known_bytes = if self.layer.is_some() { SMALL_FOLD_BYTES } else { 0 };
        FoldCost { bytes: SMALL_FOLD_BYTES, known_bytes, patch_bytes: 0 }
    }

    /// The block from `start` on, of which a part in `range` is written. It was met before if it lies below `counted`.
    fn touched(&self, start: u64, range: &Range<u64>, counted: u64) -> FoldCost {
        let end = (start + self.record_size).min(self.size).max(start);
        let length = end - start;
        let had = self.size_before.clamp(start, end) - start;
        let written = range.end.min(end).saturating_sub(range.start.max(start));
        let is_dirty = self.layer.is_some_and(|layer| layer.has_any(start..end));
        let is_patched = self.layer.is_some_and(|layer| layer.has_memory(start..end));
        let mut cost = FoldCost::default();
        if counted <= start {
            cost.bytes = length + EXTENT_BYTES;
            cost.known_bytes = if is_dirty { had + EXTENT_BYTES } else { 0 };
        }
        if written < length {
            let more = match (counted > start, is_patched) {
                (true, _) => 0,
                (false, true) => length - had,
                (false, false) => length,
            };
            cost.patch_bytes = more as i64 - written as i64;
        }
        cost
    }

    /// A file that grows takes its last block along, although nothing may be written there: it is filled with zeroes.
    fn grown_tail(&self, first: u64) -> FoldCost {
        let start = self.size_before / self.record_size * self.record_size;
        let end = (start + self.record_size).min(self.size);
        if start == self.size_before || end <= self.size_before || first < end {
            return FoldCost::default();
        }
        let growth = end - self.size_before;
        let is_patched = self.layer.is_some_and(|layer| layer.has_memory(start..end));
        let patch_bytes = if is_patched { growth as i64 } else { 0 };
        FoldCost { bytes: growth, known_bytes: 0, patch_bytes }
    }
}

/// The cost of a record that is about to be applied in group `txg`; `None` where it does not change content.
pub(crate) fn of_record(locked: &Locked, txg: Txg, record: &Record) -> Option<FoldCost> {
    let punched = record.punch.as_ref();
    let cut = record.truncate.map(|(object, _)| object).or(punched.map(|(object, _)| *object));
    let object = cut.or(record.data.as_ref().map(|data| data.object))?;
    let state = locked.state(object);
    let (inode, layer) = (state.inode.as_ref()?, state.layer(txg).map(|layer| &layer.data));
    Some(match (record.truncate, punched, &record.data) {
        (Some((_, size)), _, _) => FoldCost::of_resize(inode, layer, size),
        // What it frees was asked for when it was let in.
        (None, Some((_, range)), _) => FoldCost::of_punch(inode, layer, range, 0),
        (None, None, data) => {
            let pieces = data.iter().flat_map(|data| &data.pieces);
            FoldCost::of(inode, layer, pieces.map(|(offset, bytes)| *offset..*offset + bytes.len() as u64))
        }
    })
}

/// What data a record brings that is about to be applied in group `txg`.
pub(crate) fn brought(locked: &Locked, txg: Txg, record: &Record, takes_ring: bool) -> Brought {
    let Some(data) = &record.data else { return Brought::default() };
    let layer = locked.state(data.object).layer(txg).map(|layer| &layer.data);
    let had = |range| layer.map_or(0, |layer| layer.memory_bytes(range));
    let more = |(offset, bytes): &(u64, bytes::Bytes)| {
        let length = bytes.len() as u64;
        length.saturating_sub(had(*offset..*offset + length))
    };
    let bytes = data.pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    Brought { bytes, more_bytes: data.pieces.iter().map(more).sum(), takes_ring }
}

#[cfg(test)]
mod tests;
