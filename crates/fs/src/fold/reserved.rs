//! What a file takes of what is reserved of it: as much as goes out of the account that a WRITE draws from (rules V42).
//!
//! A block counts as taken **as long as it is stored**, also where it was cut or punched and waits for the reaper: until then it takes room of the pool. So each block that is put
//! into a range or goes from one says it, whoever puts or frees it.
//!
//! Where ranges change, extents are counted in what they lost and in what they gained, so many in a group as the reaper may look at. Behind that bound whatever
//! they lost was full, and what they gained has only what is nowhere else: more room is kept than is needed, but never more than was kept before, with all that
//! the ranges gained.

use std::ops::Range;

use tally_base::ObjectId;
use tally_store::block::BlockError;
use tally_store::bp::BlockPtr;
use tally_store::dataset::ACCOUNT_MAX;
use tally_store::key::{Class, Key};

use super::Fold;
use super::stored::{Stored, decode_extent};
use crate::inode::{Inode, Layout};
use crate::reserved::{EXTENT_BYTES, FILE_CHARGE, Reserved, room_of};

/// See the module's head.
pub(super) struct Weighing {
    reserved: Reserved,
    /// What its blocks take; of fewer than there are it may come to be less than none.
    taken_bytes: i64,
}

impl Weighing {
    /// The block at `start` is another one, or one less or more.
    pub(super) fn replaced(&mut self, start: u64, old: Option<&BlockPtr>, new: Option<&BlockPtr>) {
        if self.reserved.has(start) {
            self.taken_bytes -= old.map_or(0, taken);
            self.taken_bytes += new.map_or(0, taken);
        }
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

/// What blocks in a range take, as far as it is known.
struct Found {
    least_bytes: u64,
    most_bytes: u64,
}

impl Fold<'_> {
    /// What is taken of what is reserved of a file, before its content changes.
    pub(super) fn weigh(
        &mut self,
        id: ObjectId,
        inode: &Inode,
        old: Option<&Inode>,
    ) -> Result<Option<Weighing>, BlockError> {
        let Some(reserved) = inode.reserved.as_deref() else { return Ok(None) };
        let taken_bytes = match old.filter(|old| old.layout == Layout::Extents) {
            None => 0,
            Some(old) => self.taken_of(id, reserved, old)?,
        };
        let taken_bytes = i64::try_from(taken_bytes).unwrap_or(i64::MAX / 2);
        Ok(Some(Weighing { reserved: reserved.clone(), taken_bytes }))
    }

    /// What is reserved of a file is another number than it was.
    pub(super) fn account_reserved(&mut self, was_bytes: u64, is_bytes: u64) {
        let reserved_bytes = self.reserved_bytes.saturating_sub(was_bytes).saturating_add(is_bytes);
        self.reserved_bytes = reserved_bytes.min(ACCOUNT_MAX);
    }

    /// What the blocks that are stored take of `reserved`, or less.
    fn taken_of(&mut self, id: ObjectId, reserved: &Reserved, old: &Inode) -> Result<u64, BlockError> {
        let had = old.reserved.as_deref();
        let left = |had: &Reserved| had.bytes.saturating_sub(FILE_CHARGE);
        let taken_of = |had: &Reserved| had.room_bytes(old.size, old.record_size()).saturating_sub(left(had));
        let mut taken_bytes = had.map_or(0, taken_of);
        for lost in had.map(|had| had.beside(Some(reserved))).unwrap_or_default() {
            taken_bytes = taken_bytes.saturating_sub(self.extents_in(id, old, lost)?.most_bytes);
        }
        let gained = reserved.beside(had);
        let mut found_bytes: u64 = 0;
        for range in &gained {
            found_bytes = found_bytes.saturating_add(self.extents_in(id, old, range.clone())?.least_bytes);
        }
        Ok(taken_bytes.saturating_add(found_bytes.max(old.surely_taken(&gained))))
    }

    /// What stored blocks in a range of whole ones take. Behind what this group may count, and behind what cannot be read, there may be none, or as many as
    /// there is room for.
    fn extents_in(&mut self, id: ObjectId, old: &Inode, range: Range<u64>) -> Result<Found, BlockError> {
        let end = range.end.min(old.extents_end());
        let mut found = Found { least_bytes: 0, most_bytes: 0 };
        if range.start >= end {
            return Ok(found);
        }
        let [first, last] = [range.start, end].map(|offset| Key::new(Class::Extent, id.0, offset, 0));
        let (root, io) = (self.old, self.fs.io());
        let mut unknown_from = end;
        let mut extents = io.range(&root.tree, &first, &last).around_damage();
        while let Some(extent) = extents.next() {
            let offset = extent.as_ref().map_or_else(|_| extents.failed_at().a, |(key, _)| key.a);
            if self.weigh_extents_left == 0 {
                unknown_from = unknown_from.min(offset);
                break;
            }
            self.weigh_extents_left -= 1;
            match extent.and_then(|(key, value)| Ok((key, decode_extent(root, &value)?))) {
                Ok((key, block)) if key.b == 0 => {
                    let bytes = taken(&block).unsigned_abs();
                    found.least_bytes = found.least_bytes.saturating_add(bytes);
                    found.most_bytes = found.most_bytes.saturating_add(if offset < unknown_from { bytes } else { 0 });
                }
                Ok(_) => {}
                Err(error) => {
                    io.check_damage(error)?;
                    unknown_from = unknown_from.min(offset);
                }
            }
        }
        let record_size = old.record_size();
        let mut unknown = unknown_from.max(range.start) / record_size * record_size..end;
        let tail = old.size / record_size * record_size;
        if unknown.contains(&tail)
            && let Stored::Known(block) = self.stored_extent(id, tail)?
        {
            // Of a last block that the file has in part it has to be known: to believe that it is whole would keep more with each cut.
            found.most_bytes = found.most_bytes.saturating_add(block.map_or(0, |block| taken(&block).unsigned_abs()));
            unknown.end = tail;
        }
        let unknown_bytes = room_of(std::slice::from_ref(&unknown), end, record_size);
        found.most_bytes = found.most_bytes.saturating_add(unknown_bytes);
        Ok(found)
    }
}
