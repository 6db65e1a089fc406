//! What a file takes of what is reserved of it: as much as goes out of the account that a WRITE draws from (rules V42).
//!
//! Where ranges stay as they are, each block that is put into them or goes from them says it. Where they change, extents are counted, up to a bound; behind that fewer
//! are believed to be there than may be, and so more room is kept than is needed.

use std::ops::Range;

use tally_base::ObjectId;
use tally_store::block::BlockError;
use tally_store::bp::BlockPtr;
use tally_store::key::{Class, Key};

use super::stored::decode_extent;
use super::{Fold, extents_at_most};
use crate::cuts::Cuts;
use crate::inode::{Inode, Layout};
use crate::reserved::{EXTENT_BYTES, FILE_CHARGE, Reserved};

/// See the module's head.
pub(super) struct Weighing {
    reserved: Reserved,
    /// What was cut before this group, of which nothing is counted.
    cuts: Option<Box<Cuts>>,
    /// What its blocks take; of fewer than there are it may come to be less than none.
    taken_bytes: i64,
}

impl Weighing {
    /// The block at `start` is another one, or one less or more.
    pub(super) fn replaced(&mut self, start: u64, old: Option<&BlockPtr>, new: Option<&BlockPtr>) {
        if !self.reserved.has(start) {
            return;
        }
        let is_cut = |block: &&BlockPtr| self.cuts.as_ref().is_some_and(|cuts| cuts.has(start, block.birth));
        self.taken_bytes -= old.filter(|block| !is_cut(block)).map_or(0, taken);
        self.taken_bytes += new.map_or(0, taken);
    }

    /// What is left is the inode's.
    pub(super) fn settle(self, inode: &mut Inode) {
        let taken_bytes = match inode.layout {
            // All that it has is in one place.
            Layout::Small if self.reserved.has(0) => inode.used + EXTENT_BYTES,
            Layout::Small => 0,
            Layout::Extents => self.taken_bytes.max(0) as u64,
        };
        let room_bytes = self.reserved.room_bytes(inode.size, inode.record_size());
        if let Some(reserved) = &mut inode.reserved {
            reserved.bytes = room_bytes.saturating_sub(taken_bytes).saturating_add(FILE_CHARGE);
        }
    }
}

/// What a block takes, with its place in a leaf.
fn taken(block: &BlockPtr) -> i64 {
    (block.asize() + EXTENT_BYTES) as i64
}

impl Fold<'_> {
    /// What is taken of what is reserved of a file, before its content changes.
    pub(super) fn weigh(
        &self,
        id: ObjectId,
        inode: &Inode,
        old: Option<&Inode>,
    ) -> Result<Option<Weighing>, BlockError> {
        let Some(reserved) = inode.reserved.as_deref() else { return Ok(None) };
        let taken_bytes = match old.filter(|old| old.layout == Layout::Extents) {
            None => 0,
            Some(old) => self.taken_of(id, reserved, old)?,
        };
        let cuts = old.and_then(|old| old.cuts.clone());
        let taken_bytes = i64::try_from(taken_bytes).unwrap_or(i64::MAX / 2);
        Ok(Some(Weighing { reserved: reserved.clone(), cuts, taken_bytes }))
    }

    /// What the blocks that are stored take of `reserved`, or less.
    fn taken_of(&self, id: ObjectId, reserved: &Reserved, old: &Inode) -> Result<u64, BlockError> {
        let left = |had: &Reserved| had.bytes.saturating_sub(FILE_CHARGE);
        let taken_of_old = |had: &Reserved| had.room_bytes(old.size, old.record_size()).saturating_sub(left(had));
        if let Some(had) = old.reserved.as_deref().filter(|had| had.is_as(reserved)) {
            return Ok(taken_of_old(had));
        }
        let end = old.extents_end();
        let stored = || reserved.ranges().iter().map(|range| range.start..range.end.min(end));
        let extents_max: u64 = stored().map(|range| extents_at_most(old, range)).sum();
        if extents_max <= self.fs.pool.tuning.reap_extents_max as u64 {
            return stored().filter(|range| !range.is_empty()).map(|range| self.extents_in(id, old, range)).sum();
        }
        // Whatever is stored outside takes no more than it could.
        let whole = old.size.next_multiple_of(old.record_size());
        let outside = whole.saturating_sub(reserved.content_bytes(whole));
        let of_all = if old.cuts.is_none() { old.used.saturating_sub(outside) } else { 0 };
        let contains = |had: &&Reserved| had.ranges().iter().all(|range| reserved.covers(range));
        Ok(of_all.max(old.reserved.as_deref().filter(contains).map_or(0, taken_of_old)))
    }

    /// What stored blocks in a range take. What cannot be read is not known to be there.
    fn extents_in(&self, id: ObjectId, old: &Inode, range: Range<u64>) -> Result<u64, BlockError> {
        let [first, end] = [range.start, range.end].map(|offset| Key::new(Class::Extent, id.0, offset, 0));
        let mut taken_bytes = 0;
        for extent in self.fs.io().range(&self.old.tree, &first, &end).around_damage() {
            let block = extent.and_then(|(key, value)| Ok((key, decode_extent(self.old, &value)?)));
            match block {
                Ok((key, block)) if key.b == 0 && !old.has_cut(key.a, block.birth) => {
                    taken_bytes += taken(&block) as u64;
                }
                Ok(_) => {}
                Err(error) => {
                    self.fs.io().check_damage(error)?;
                }
            }
        }
        Ok(taken_bytes)
    }
}
