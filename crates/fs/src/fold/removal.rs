//! Objects that go: their extents are freed in this group, or, where they are many, by the reaper in the groups behind
//! (rules F11).

use bytes::Bytes;
use tally_base::{ObjectId, SECTOR};
use tally_store::block::BlockError;
use tally_store::dataset::OBJECT_CHARGE;
use tally_store::key::{Class, Key};
use tally_store::tree::Change;
use tally_vfs::FileKind;

use super::Fold;
use super::stored::{Stored, decode_extent};
use crate::damage::Part;
use crate::filesystem::Filesystem;
use crate::inode::{Inode, Layout};

/// Extents of removed files that one transaction group frees; the others are left to the reaper, which goes on in the
/// groups behind (rules F11).
pub(super) const REAP_EXTENTS_MAX: usize = 32 << 10;

/// A removed file with more bytes on disk than this is left to the reaper, to keep the group short; so are those with
/// which the files that one group removes would have too many extents together.
const REAP_FROM_BYTES: u64 = 1 << 30;

impl Fold<'_> {
    /// Without an old inode nobody knows how much it was; all that is found of it goes.
    pub(super) fn removed(&mut self, id: ObjectId, old: Option<&Inode>) -> Result<(), BlockError> {
        self.used.push((id, 0));
        let is_much = |old: &&Inode| old.used > REAP_FROM_BYTES || extents_at_most(old) > self.reap_extents_left as u64;
        if let Some(old) = old.filter(|old| old.kind == FileKind::File).filter(is_much) {
            let mut orphan = old.clone();
            orphan.nlink = 0;
            self.put_inode(id, &orphan);
            self.changes.push((Key::new(Class::Orphan, id.0, 0, 0), Change::Put(Bytes::from_static(&[1]))));
            self.orphan_count = self.orphan_count.saturating_add(1);
            return Ok(());
        }
        let freed = self.drop_extents(id, 0, usize::MAX)?;
        self.reap_extents_left = self.reap_extents_left.saturating_sub(freed);
        if old.is_none_or(|old| old.layout == Layout::Small) {
            self.changes.push((Key::new(Class::Small, id.0, 0, 0), Change::Delete));
        }
        self.drop_inode(id, old.map_or(0, |old| old.used));
        Ok(())
    }

    /// Frees a bounded number of extents of removed files. Where it stops the next group goes on: what is freed is
    /// gone from the tree, so the tree is the cursor.
    pub(super) fn reap(&mut self) -> Result<(), BlockError> {
        if self.old.orphan_count == 0 {
            return Ok(());
        }
        let (from, to) = (Key::new(Class::Orphan, 0, 0, 0), Key::new(Class::Orphan, u64::MAX, 0, 0));
        let (tree, fs) = (&self.old.tree, self.fs);
        for orphan in tree.range(&fs.pool.io, &from, &to).around_damage() {
            // Orphans that cannot be found keep what they have.
            let root = fs.root_ref().id;
            let Stored::Known((key, _)) = self.unless_damaged(root, Part::Space, orphan)? else { continue };
            let id = ObjectId(key.object);
            let freed = self.drop_extents(id, 0, self.reap_extents_left)?;
            self.reap_extents_left -= freed;
            if self.reap_extents_left == 0 {
                return Ok(());
            }
            let inode = match self.stored_inode(id)? {
                Stored::Known(inode) => inode,
                Stored::Unknown => None,
            };
            self.drop_inode(id, inode.map_or(0, |inode| inode.used));
            self.changes.push((key, Change::Delete));
        }
        // Whatever the root has claimed: these were all.
        self.orphan_count = 0;
        Ok(())
    }

    fn drop_inode(&mut self, id: ObjectId, used: u64) {
        self.changes.push((Key::new(Class::Inode, id.0, 0, 0), Change::Delete));
        self.object_count = self.object_count.saturating_sub(1);
        self.used_bytes = self.used_bytes.saturating_sub(OBJECT_CHARGE.saturating_add(used));
    }

    /// Deletes the stored extents from offset `from` on, at most `max`, and frees their blocks. Gives their number.
    /// Those in a leaf that cannot be read stay where they are: their object's id is never used again, so nobody comes
    /// by them.
    fn drop_extents(&mut self, id: ObjectId, from: u64, max: usize) -> Result<usize, BlockError> {
        let (first, end) = (Key::new(Class::Extent, id.0, from, 0), Key::new(Class::Extent, id.0, u64::MAX, 0));
        let (old, fs) = (self.old, self.fs);
        let mut count = 0;
        for extent in old.tree.range(&fs.pool.io, &first, &end).around_damage() {
            if count == max {
                break;
            }
            let Stored::Known((key, value)) = self.unless_damaged(id, Part::Space, extent)? else { continue };
            if let Stored::Known(block) = self.unless_damaged(id, Part::Space, decode_extent(old, &value))? {
                self.free(&block);
            }
            self.changes.push((key, Change::Delete));
            count += 1;
        }
        Ok(count)
    }
}

/// How many extents a file can have: one for each record up to its end, of a sector at least.
fn extents_at_most(inode: &Inode) -> u64 {
    match inode.layout {
        Layout::Small => 0,
        Layout::Extents => inode.size.div_ceil(inode.record_size()).min(inode.used / SECTOR as u64),
    }
}

impl Filesystem {
    /// Whether removed files still wait for the reaper, so that another group is worth syncing.
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        self.dataset.root().orphan_count > 0
    }
}
