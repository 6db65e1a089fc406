//! Objects that go, and what was cut from those that stay: their extents are freed in this group, or, where they are many,
//! by the reaper in the groups behind (rules F11).

use std::collections::HashSet;
use std::ops::Range;

use bytes::Bytes;
use tally_base::{ObjectId, SECTOR};
use tally_store::block::BlockError;
use tally_store::bp::BlockPtr;
use tally_store::dataset::OBJECT_CHARGE;
use tally_store::key::{Class, Key};
use tally_store::tree::Change;
use tally_vfs::FileKind;

use super::Fold;
use super::stored::{Stored, decode_extent};
use crate::cuts::Cuts;
use crate::damage::Part;
use crate::filesystem::Filesystem;
use crate::group::Folded;
use crate::inode::{Inode, Layout};
use crate::xattr::part_as_extents;

/// A removed file with more bytes on disk than this is left to the reaper, to keep the group short; so are those with
/// which the files that one group removes would have too many extents together.
const REAP_FROM_BYTES: u64 = 1 << 30;

/// Why an object is on the reaper's list: the second part of its key there. 1 is for files that are open without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrphanKind {
    /// It has no name any more. The value is one byte.
    Removed = 0,
    /// Its inode has [`Cuts`]; the value has them as well, should the inode not be readable.
    Cut = 2,
}

impl OrphanKind {
    pub(crate) fn of(number: u64) -> Option<Self> {
        [Self::Removed, Self::Cut].into_iter().find(|kind| *kind as u64 == number)
    }

    pub(super) fn key(self, id: ObjectId) -> Key {
        Key::new(Class::Orphan, id.0, self as u64, 0)
    }
}

/// What of an object was freed: extents, and bytes of its account.
#[derive(Default)]
struct Freed {
    count: usize,
    bytes: u64,
}

/// How far the reaper has come.
struct Reaped {
    at: u64,
    /// Up to here it has met nothing that it could not read.
    whole: u64,
    /// Leaves that it could not read, each with a key in it.
    unreadable: Vec<(BlockPtr, Key)>,
}

impl Fold<'_> {
    /// Without an old inode nobody knows how much it was; all that is found of it goes.
    pub(super) fn removed(&mut self, id: ObjectId, old: Option<&Inode>) -> Result<(), BlockError> {
        self.folded.push(Folded { id, used: 0, cuts: None, reserved_bytes: 0 });
        self.reserved_bytes = self.reserved_bytes.saturating_sub(old.map_or(0, Inode::reserved_bytes));
        let is_much = |old: &&Inode| {
            let is_file = old.kind == FileKind::File;
            let extents = if is_file { extents_at_most(old, 0..old.extents_end()) } else { 0 };
            is_file && old.used > REAP_FROM_BYTES
                || extents.saturating_add(old.xattrs.as_extents()) > self.reap_extents_left as u64
        };
        if let Some(old) = old.filter(is_much) {
            // Its name is gone, and what was cut from it goes with it.
            let (parent, entry) = (ObjectId(0), ObjectId(0));
            let orphan = Inode { nlink: 0, parent, entry, cuts: None, reserved: None, ..old.clone() };
            self.put_inode(id, &orphan);
            self.note_cuts(id, Some(old), &orphan);
            self.changes.push((OrphanKind::Removed.key(id), Change::Put(Bytes::from_static(&[1]))));
            self.orphan_count = self.orphan_count.saturating_add(1);
            return Ok(());
        }
        let freed = self.drop_extents(id, 0, usize::MAX)?;
        self.reap_extents_left = self.reap_extents_left.saturating_sub(freed.count);
        if old.is_none_or(|old| !old.xattrs.is_empty()) {
            self.drop_xattrs(id, None)?;
        }
        if old.is_none_or(|old| old.layout == Layout::Small) {
            self.changes.push((Key::new(Class::Small, id.0, 0, 0), Change::Delete));
        }
        if let Some(old) = old {
            self.note_cuts(id, Some(old), &Inode { cuts: None, ..old.clone() });
        }
        self.drop_inode(id, old.map_or(0, Inode::charged));
        Ok(())
    }

    /// Frees a bounded number of extents of what was removed or cut. Where it stops the next group goes on: of what was
    /// removed the tree is the cursor, and cuts have one. Files that change in this group are left to their own fold.
    pub(super) fn reap(&mut self, dirty: &[ObjectId]) -> Result<(), BlockError> {
        if self.old.orphan_count == 0 {
            return Ok(());
        }
        let (from, to) = (Key::new(Class::Orphan, 0, 0, 0), Key::new(Class::Orphan, u64::MAX, 0, 0));
        let (tree, fs) = (&self.old.tree, self.fs);
        let (mut left, mut last, mut has_passed_over) = (0, None, false);
        for orphan in fs.io().range(tree, &from, &to).around_damage() {
            // Orphans that cannot be found keep what they have.
            let root = fs.root().id;
            let Stored::Known((key, value)) = self.unless_damaged(root, Part::Space, orphan)? else { continue };
            let id = ObjectId(key.object);
            let Some(kind) = OrphanKind::of(key.a) else { continue };
            // Faulty software may have put it there twice, but nothing is freed twice.
            if last.replace(id) == Some(id) {
                self.changes.push((key, Change::Delete));
                continue;
            }
            let is_dirty = dirty.binary_search(&id).is_ok();
            let may_go_on = match kind {
                // Nobody changes what has no name: this one has.
                OrphanKind::Removed if is_dirty => true,
                // It stays listed for the program that knows it, and no group comes for its sake.
                OrphanKind::Removed if self.is_of_newer(id)? => {
                    has_passed_over = true;
                    true
                }
                OrphanKind::Removed => self.reap_removed(key, id)?,
                // Of which all is passed that can be is on the list for when it is cut again, and waits for nothing.
                OrphanKind::Cut if is_dirty => {
                    left += u64::from(Cuts::decode(&value).is_ok_and(|cuts| cuts.is_waiting()));
                    true
                }
                OrphanKind::Cut => self.reap_file_at_rest(key, id)?,
            };
            if !may_go_on {
                // What was listed and not counted may have been taken from the count: the next group goes on all the same.
                if has_passed_over {
                    self.orphan_count = self.orphan_count.max(1);
                }
                return Ok(());
            }
        }
        // Whatever the root has claimed: these were all.
        self.orphan_count = left;
        Ok(())
    }

    /// Frees what an object has left that was removed. False: this group may free no more, and the next one goes on with it.
    fn reap_removed(&mut self, listed: Key, id: ObjectId) -> Result<bool, BlockError> {
        let inode = match self.stored_inode(id)? {
            Stored::Known(inode) => inode,
            Stored::Unknown => None,
        };
        if inode.as_ref().is_some_and(|inode| inode.nlink > 0) {
            self.changes.push((listed, Change::Delete));
            return Ok(true);
        }
        let freed = self.drop_extents(id, 0, self.reap_extents_left)?;
        self.reap_extents_left -= freed.count;
        if inode.as_ref().is_none_or(|inode| !inode.xattrs.is_empty()) {
            self.drop_xattrs(id, Some(self.reap_extents_left))?;
        }
        if self.reap_extents_left == 0 {
            if let Some(inode) = inode {
                let used = inode.used.saturating_sub(freed.bytes);
                self.used_bytes = self.used_bytes.saturating_sub(inode.used - used);
                self.put_inode(id, &Inode { used, ..inode });
            }
            return Ok(false);
        }
        self.drop_inode(id, inode.as_ref().map_or(0, Inode::charged));
        self.changes.push((listed, Change::Delete));
        self.orphan_count = self.orphan_count.saturating_sub(1);
        Ok(true)
    }

    /// Frees what was cut from a file that does not change in this group. False: this group may free no more.
    fn reap_file_at_rest(&mut self, listed: Key, id: ObjectId) -> Result<bool, BlockError> {
        // Whose inode cannot be read keeps the list of its cuts here.
        let Stored::Known(old) = self.stored_inode(id)? else { return Ok(true) };
        let Some(old) = old.filter(|old| old.cuts.is_some()) else {
            self.changes.push((listed, Change::Delete));
            return Ok(true);
        };
        let mut inode = old.clone();
        self.weighing = self.weigh(id, &inode, Some(&old))?;
        self.reap_cut(id, &mut inode, self.changes.len())?;
        if let Some(weighing) = self.weighing.take() {
            weighing.settle(&mut inode);
        }
        if inode != old {
            self.put_inode(id, &inode);
            self.note_cuts(id, Some(&old), &inode);
            self.used_bytes = self.used_bytes.saturating_sub(old.used.saturating_sub(inode.used));
            let reserved_bytes = inode.reserved_bytes();
            self.account_reserved(old.reserved_bytes(), reserved_bytes);
            self.folded.push(Folded { id, used: inode.used, cuts: inode.cuts.clone(), reserved_bytes });
        }
        Ok(self.reap_extents_left > 0)
    }

    /// Frees a bounded number of the extents that were cut or punched from a file, but for those that the changes from
    /// `first_change` on replace anyway. A leaf that cannot be read may have some: they still do not exist, should it come back.
    pub(super) fn reap_cut(&mut self, id: ObjectId, inode: &mut Inode, first_change: usize) -> Result<(), BlockError> {
        let Some(mut cuts) = inode.cuts.take_if(|cuts| cuts.is_waiting()) else { return Ok(()) };
        let is_extent = |key: &Key| key.class == Class::Extent && key.object == id.0;
        let changed = self.changes[first_change..].iter().map(|(key, _)| *key).filter(is_extent);
        let mut changed: HashSet<u64> = changed.map(|key| key.a).collect();
        while let Some(range) = cuts.punch_ahead() {
            let reaped = self.reap_range(id, inode, &cuts, range.clone(), &mut changed)?;
            // A punch that stayed for the sake of a leaf would stay for ever, as nothing covers it: so the leaf is given up.
            self.lost.extend(reaped.unreadable.iter().map(|(node, _)| *node));
            self.lost_keys.extend(reaped.unreadable.iter().map(|(_, key)| *key));
            let Some(left) = cuts.punch_reaped(reaped.at) else { return Ok(()) };
            *cuts = left;
            if reaped.at < range.end {
                inode.cuts = Some(cuts);
                return Ok(());
            }
        }
        let ahead = cuts.ahead();
        if !ahead.is_empty() {
            let Reaped { at, whole, .. } = self.reap_range(id, inode, &cuts, ahead, &mut changed)?;
            inode.cuts = cuts.reaped(at, whole.min(at)).map(Box::new);
        } else {
            // What was cut and had to be passed over stays noted.
            inode.cuts = Some(cuts);
        }
        Ok(())
    }

    /// Frees what of `range` does not exist by `cuts`, as far as this group may, but for what is `changed` already: cuts and punches
    /// overlap, and nothing is freed twice.
    fn reap_range(
        &mut self,
        id: ObjectId,
        inode: &mut Inode,
        cuts: &Cuts,
        range: Range<u64>,
        changed: &mut HashSet<u64>,
    ) -> Result<Reaped, BlockError> {
        let key = |offset| Key::new(Class::Extent, id.0, offset, 0);
        let mut reaped = Reaped { at: range.end, whole: range.end, unreadable: Vec::new() };
        let (old, fs) = (self.old, self.fs);
        let mut extents = fs.io().range(&old.tree, &key(range.start), &key(range.end)).around_damage();
        while let Some(extent) = extents.next() {
            let offset = extent.as_ref().map_or_else(|_| extents.failed_at().a, |(key, _)| key.a).max(range.start);
            if self.reap_extents_left == 0 {
                reaped.at = offset;
                break;
            }
            self.reap_extents_left -= 1;
            let node = extent.as_ref().err().and_then(|error| error.unreadable().copied());
            let Stored::Known((key, value)) = self.unless_damaged(id, Part::Space, extent)? else {
                reaped.whole = reaped.whole.min(offset);
                reaped.unreadable.extend(node.map(|node| (node, extents.failed_at())));
                continue;
            };
            // No extent has more in its key than the offset, but for faulty software's.
            if key.b != 0 || changed.contains(&offset) {
                continue;
            }
            if let Stored::Known(block) = self.unless_damaged(id, Part::Space, decode_extent(old, &value))?
                && cuts.has(offset, block.birth)
            {
                self.replace_extent(id, inode, offset, Some(&block), None);
                changed.insert(offset);
            }
        }
        Ok(reaped)
    }

    /// Keeps the reaper's list to what the inode's cuts are now.
    pub(super) fn note_cuts(&mut self, id: ObjectId, old: Option<&Inode>, inode: &Inode) {
        let (old, new) = (old.and_then(|old| old.cuts.as_deref()), inode.cuts.as_deref());
        if old == new {
            return;
        }
        let waiting = |cuts: Option<&Cuts>| u64::from(cuts.is_some_and(Cuts::is_waiting));
        let count = self.orphan_count.saturating_add(waiting(new)).saturating_sub(waiting(old));
        // The old ones were not counted if the reaper could not read what it had to know of them.
        self.orphan_count = count.max(waiting(new));
        let value = new.map(|cuts| {
            let mut value = Vec::new();
            cuts.encode(&mut value);
            Bytes::from(value)
        });
        self.changes.push((OrphanKind::Cut.key(id), value.map_or(Change::Delete, Change::Put)));
    }

    fn drop_inode(&mut self, id: ObjectId, used: u64) {
        self.changes.push((Key::new(Class::Inode, id.0, 0, 0), Change::Delete));
        self.object_count = self.object_count.saturating_sub(1);
        self.used_bytes = self.used_bytes.saturating_sub(OBJECT_CHARGE.saturating_add(used));
    }

    /// Deletes the stored extents from offset `from` on, at most `max`, and frees their blocks.
    /// Those in a leaf that cannot be read stay where they are: their object's id is never used again, so nobody comes
    /// by them.
    fn drop_extents(&mut self, id: ObjectId, from: u64, max: usize) -> Result<Freed, BlockError> {
        let (first, end) = (Key::new(Class::Extent, id.0, from, 0), Key::new(Class::Extent, id.0, u64::MAX, 0));
        let (old, fs) = (self.old, self.fs);
        let mut freed = Freed::default();
        for extent in fs.io().range(&old.tree, &first, &end).around_damage() {
            if freed.count == max {
                break;
            }
            let Stored::Known((key, value)) = self.unless_damaged(id, Part::Space, extent)? else { continue };
            if let Stored::Known(block) = self.unless_damaged(id, Part::Space, decode_extent(old, &value))? {
                self.free(&block);
                freed.bytes = freed.bytes.saturating_add(block.asize());
            }
            self.changes.push((key, Change::Delete));
            freed.count += 1;
        }
        Ok(freed)
    }
}

impl Fold<'_> {
    /// Deletes the stored extended attributes of what goes, at most about as many as so many extents. Those in a leaf that cannot be read stay there,
    /// as extents do.
    fn drop_xattrs(&mut self, id: ObjectId, most: Option<usize>) -> Result<(), BlockError> {
        let (first, end) = (Key::new(Class::Xattr, id.0, 0, 0), Key::new(Class::Xattr, id.0, u64::MAX, u64::MAX));
        let (old, fs) = (self.old, self.fs);
        let mut left = most.unwrap_or(usize::MAX);
        for part in fs.io().range(&old.tree, &first, &end).around_damage() {
            if left == 0 {
                break;
            }
            let Stored::Known((key, value)) = self.unless_damaged(id, Part::Xattrs, part)? else { continue };
            self.changes.push((key, Change::Delete));
            let taken = part_as_extents(&value).min(left);
            left -= taken;
            self.reap_extents_left = self.reap_extents_left.saturating_sub(taken);
        }
        Ok(())
    }
}

/// How many extents a file can have in a range: one for each record, of a sector at least.
pub(crate) fn extents_at_most(inode: &Inode, range: Range<u64>) -> u64 {
    match inode.layout {
        Layout::Small => 0,
        Layout::Extents => {
            let records = range.end.saturating_sub(range.start).div_ceil(inode.record_size());
            records.min(inode.used / SECTOR as u64)
        }
    }
}

impl Filesystem {
    /// Whether something that was removed or cut still waits for the reaper, so that another group is worth syncing.
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        self.dataset.root().orphan_count > 0
    }
}
