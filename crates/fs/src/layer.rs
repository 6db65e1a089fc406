//! What one transaction group changed in one object: the overlay above the immutable tree.
//!
//! An object carries at most three layers: of the open, the quiescing and the syncing group. A reader looks
//! from the newest down, and then into the tree (rules F11). Overwrites within a group collapse here.
//!
//! A file's dirty content is an interval map. A *piece* is either bytes in memory, or part of a block that was
//! written to its final place ahead of the sync, since its file has much of it (rules F5). Pieces never overlap.
//! `cut` is the smallest size the file was truncated to in this group: below it older content shines
//! through the gaps between pieces, from it on the gaps are zeroes. They are as well where it was *punched*, which takes no
//! memory however long that is. No WRITE ever reads old data: the fold does.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use tally_base::{SECTOR, Txg};
use tally_store::bp::BlockPtr;
use tally_store::key::Key;

pub use self::punched::Punched;
use crate::inode::Inode;

mod punched;

/// Dirty bytes of a file.
#[derive(Clone, Debug)]
pub enum Piece {
    /// In memory.
    Memory {
        /// All of the piece.
        bytes: Bytes,
        /// Whether a log record carries it. Whether that record is durable is the object's `last_lsn`'s business.
        logged: bool,
    },
    /// Already in the pool, in a block that only this layer names.
    Placed {
        /// By which it is read: it may hold more than the piece.
        block: BlockPtr,
        /// Where in the block the piece starts, bytes.
        skip: u64,
        /// Bytes of the piece.
        length: u64,
    },
}

impl Piece {
    /// Bytes of the file that it covers.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Memory { bytes, .. } => bytes.len() as u64,
            Self::Placed { length, .. } => *length,
        }
    }

    /// Bytes of it that nobody but its group would make durable, and a record could.
    fn unlogged_bytes(&self) -> u64 {
        match self {
            Self::Memory { bytes, logged: false } => bytes.len() as u64,
            Self::Memory { logged: true, .. } | Self::Placed { .. } => 0,
        }
    }

    /// The part of it in `range`, which is relative to its start.
    #[must_use]
    pub fn part(&self, range: Range<u64>) -> Self {
        assert!(range.start < range.end && range.end <= self.length(), "a part lies within its piece");
        match self {
            Self::Memory { bytes, logged } => {
                Self::Memory { bytes: bytes.slice(range.start as usize..range.end as usize), logged: *logged }
            }
            Self::Placed { block, skip, .. } => {
                Self::Placed { block: *block, skip: skip + range.start, length: range.end - range.start }
            }
        }
    }
}

/// Bytes that follow each other, as they lie in memory.
pub(crate) type Fragments = SmallVec<[Bytes; 1]>;

/// A whole block that is in memory and in no record of the log.
pub(crate) struct Unlogged {
    pub(crate) offset: u64,
    pub(crate) content: Fragments,
    /// The length of the piece in which it begins, bytes.
    pub(crate) piece_bytes: u64,
}

/// A stretch of a file as one layer sees it.
#[derive(Debug)]
pub enum Seen {
    /// Dirty here.
    Piece(Piece),
    /// Zeroes: behind a truncation of this layer, or punched in it.
    Zero,
    /// Whatever is below.
    Below,
}

/// Dirty content of one file in one transaction group.
#[derive(Clone, Debug, Default)]
pub struct DataLayer {
    cut: Option<u64>,
    /// Below the cut.
    punched: Punched,
    pieces: BTreeMap<u64, Piece>,
    /// Bytes of those that are in memory and in no record.
    unlogged_bytes: u64,
    placed: Vec<BlockPtr>,
    /// Up to where [`Self::unlogged_blocks`] has looked.
    looked_to: u64,
}

impl DataLayer {
    /// Whether nothing was written, cut or punched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cut.is_none() && self.punched.is_empty() && self.pieces.is_empty() && self.placed.is_empty()
    }

    /// The smallest size the file was truncated to.
    #[must_use]
    pub fn cut(&self) -> Option<u64> {
        self.cut
    }

    /// Where nothing shines through that was there before, whatever was written there since.
    #[must_use]
    pub fn punched(&self) -> &Punched {
        &self.punched
    }

    /// Every block that was placed in this layer, also those overwritten since: the fold frees what it does not use.
    #[must_use]
    pub fn placed(&self) -> &[BlockPtr] {
        &self.placed
    }

    /// The pieces, by offset.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &Piece)> {
        self.pieces.iter().map(|(offset, piece)| (*offset, piece))
    }

    /// Bytes in memory that no record carries.
    #[must_use]
    pub fn unlogged_bytes(&self) -> u64 {
        self.unlogged_bytes
    }

    /// What is in memory and in no record of the log, as whole blocks of `record_size` bytes, in order: at most
    /// `bytes_max` of them together, and none that `but` touches. It goes on where the last look has ended, and looks at
    /// a piece for each sector of `bytes_max`, as there may be very many that are no whole block. Gives where the next is
    /// to go on, too.
    pub(crate) fn unlogged_blocks(&self, record_size: u64, bytes_max: u64, but: &Range<u64>) -> (Vec<Unlogged>, u64) {
        let (mut blocks, mut at, mut left) = (Vec::new(), self.looked_to, bytes_max.min(self.unlogged_bytes));
        let mut pieces = self.pieces.range(at..);
        for (offset, piece) in pieces.by_ref().take(bytes_max.div_ceil(SECTOR as u64) as usize) {
            at = at.max(offset / record_size * record_size);
            while left >= record_size && piece.unlogged_bytes() > 0 && at < offset + piece.length() {
                let range = at..at + record_size;
                let is_beside = range.end <= but.start || range.start >= but.end;
                if is_beside && let Some(content) = self.unlogged(range) {
                    blocks.push(Unlogged { offset: at, content, piece_bytes: piece.length() });
                    left -= record_size;
                }
                at += record_size;
            }
            if left < record_size {
                return (blocks, at);
            }
        }
        (blocks, pieces.next().map_or(0, |(offset, _)| *offset))
    }

    /// The next look goes on from here.
    pub(crate) fn note_looked(&mut self, to: u64) {
        self.looked_to = to;
    }

    /// All of `range`, where it is in memory and no record carries any of it.
    pub(crate) fn unlogged(&self, range: Range<u64>) -> Option<Fragments> {
        let fragment = |(_, seen)| match seen {
            Seen::Piece(Piece::Memory { bytes, logged: false }) => Some(bytes),
            _ => None,
        };
        self.view(range).into_iter().map(fragment).collect()
    }

    /// The content of `range`, where it is part of one piece in memory that is so long.
    pub(crate) fn of_long_piece(&self, range: &Range<u64>, bytes_min: u64) -> Option<Bytes> {
        match self.pieces.range(..=range.start).next_back()? {
            (offset, Piece::Memory { bytes, .. })
                if bytes.len() as u64 >= bytes_min && offset + bytes.len() as u64 >= range.end =>
            {
                Some(bytes.slice((range.start - offset) as usize..(range.end - offset) as usize))
            }
            _ => None,
        }
    }

    /// How many pieces and punched parts there are in `range`, counted up to `most`.
    pub(crate) fn piece_count(&self, range: Range<u64>, most: usize) -> usize {
        let pieces = self.overlapping(range.clone()).take(most).count();
        pieces + self.punched.split(range).filter(|(_, is_punched)| *is_punched).take(most - pieces).count()
    }

    /// Whether any of `range` is dirty, or punched in part.
    pub(crate) fn has_any(&self, range: Range<u64>) -> bool {
        self.overlapping(range.clone()).next().is_some() || self.punched.has_border_within(&range)
    }

    /// Whether any of `range` is dirty in memory.
    pub(crate) fn has_memory(&self, range: Range<u64>) -> bool {
        self.overlapping(range).any(|(_, piece)| matches!(piece, Piece::Memory { .. }))
    }

    /// Bytes of `range` that are dirty in memory.
    pub(crate) fn memory_bytes(&self, range: Range<u64>) -> u64 {
        let in_memory = self.overlapping(range.clone()).filter(|(_, piece)| matches!(piece, Piece::Memory { .. }));
        let part = |(offset, piece): (u64, &Piece)| {
            (offset + piece.length()).min(range.end).saturating_sub(offset.max(range.start))
        };
        in_memory.map(part).sum()
    }

    /// Puts `piece` at `offset`, over whatever was there.
    pub fn insert(&mut self, offset: u64, piece: Piece) {
        if piece.length() == 0 {
            return;
        }
        self.carve(offset..offset + piece.length());
        if let Piece::Placed { block, .. } = &piece {
            self.placed.push(*block);
        }
        self.put(offset, piece);
    }

    fn put(&mut self, offset: u64, piece: Piece) {
        self.unlogged_bytes += piece.unlogged_bytes();
        let replaced = self.pieces.insert(offset, piece);
        debug_assert!(replaced.is_none(), "pieces never overlap");
    }

    /// Cuts the file to `size`.
    pub fn truncate(&mut self, size: u64) {
        self.cut = Some(self.cut.map_or(size, |cut| cut.min(size)));
        self.punched.truncate(size);
        self.carve(size..u64::MAX);
    }

    /// Takes `range` away from what is shown, here and below.
    pub fn punch(&mut self, range: Range<u64>) {
        let end = range.end.min(self.cut.unwrap_or(u64::MAX));
        self.punched.insert(range.start..end);
        self.carve(range);
    }

    /// Drops everything; what was placed is still known for the fold to free.
    pub fn discard(&mut self) {
        self.truncate(0);
    }

    /// Splits `range` into what this layer knows of it, in order.
    #[must_use]
    pub fn view(&self, range: Range<u64>) -> Vec<(Range<u64>, Seen)> {
        let mut seen = Vec::new();
        let mut at = range.start;
        for (offset, piece) in self.overlapping(range.clone()) {
            let from = offset.max(range.start);
            let to = (offset + piece.length()).min(range.end);
            self.gap(at..from, &mut seen);
            seen.push((from..to, Seen::Piece(piece.part(from - offset..to - offset))));
            at = to;
        }
        self.gap(at..range.end, &mut seen);
        seen
    }

    fn gap(&self, range: Range<u64>, seen: &mut Vec<(Range<u64>, Seen)>) {
        let cut = self.cut.unwrap_or(u64::MAX).clamp(range.start, range.end.max(range.start));
        for (part, is_punched) in self.punched.split(range.start..cut) {
            seen.push((part, if is_punched { Seen::Zero } else { Seen::Below }));
        }
        if cut < range.end {
            seen.push((cut..range.end, Seen::Zero));
        }
    }

    fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &Piece)> {
        let first = self
            .pieces
            .range(..=range.start)
            .next_back()
            .filter(|(offset, piece)| *offset + piece.length() > range.start)
            .map_or(range.start, |(offset, _)| *offset);
        self.pieces.range(first..range.end.max(first)).map(|(offset, piece)| (*offset, piece))
    }

    /// Removes everything in `range`; pieces that reach across its borders keep their outer parts.
    fn carve(&mut self, range: Range<u64>) {
        let hit: Vec<u64> = self.overlapping(range.clone()).map(|(offset, _)| offset).collect();
        for offset in hit {
            let piece = self.pieces.remove(&offset).expect("it was just listed");
            self.unlogged_bytes -= piece.unlogged_bytes();
            let end = offset + piece.length();
            if offset < range.start {
                self.put(offset, piece.part(0..range.start - offset));
            }
            if end > range.end {
                self.put(range.end, piece.part(range.end - offset..end - offset));
            }
        }
    }
}

/// Everything one transaction group changed in one object.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The group whose changes these are.
    pub txg: Txg,
    /// The inode at its end; `None` if the object is gone.
    pub inode: Option<Inode>,
    /// Tree keys that belong to the object (its directory entries); `None` is gone.
    pub keys: BTreeMap<Key, Option<Bytes>>,
    /// What was written of the content, or cut.
    pub data: DataLayer,
}

impl Layer {
    /// An empty layer over the current inode.
    #[must_use]
    pub fn new(txg: Txg, inode: Option<Inode>) -> Self {
        Self { txg, inode, keys: BTreeMap::new(), data: DataLayer::default() }
    }
}

/// A stretch of a file, and by which layer it is seen so.
pub(crate) type SeenBy = (usize, Range<u64>, Seen);

/// A file's `range` as its `layers` (oldest first) have it together, in order: older ones only where no newer one covers
/// them. What is [`Seen::Below`] all of them is the tree's.
pub(crate) fn see_through(layers: &[Arc<Layer>], range: Range<u64>) -> SmallVec<[SeenBy; 1]> {
    let mut seen = SmallVec::new();
    look_down(layers, range, &mut seen);
    seen
}

fn look_down(layers: &[Arc<Layer>], range: Range<u64>, out: &mut SmallVec<[SeenBy; 1]>) {
    if range.is_empty() {
        return;
    }
    let Some((newest, older)) = layers.split_last() else {
        out.push((0, range, Seen::Below));
        return;
    };
    for (part, seen) in newest.data.view(range) {
        match seen {
            Seen::Below => look_down(older, part, out),
            seen => out.push((older.len(), part, seen)),
        }
    }
}

#[cfg(test)]
mod tests;
