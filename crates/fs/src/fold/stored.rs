//! What the old tree says of an object, and what is taken for it where that cannot be read.
//!
//! What the fold needs of it goes through [`Fold::unless_damaged`]: damage is noted and becomes [`Stored::Unknown`],
//! which the caller cannot mistake for "there is nothing"; what must suspend the pool stays an error.

use std::collections::HashMap;

use bytes::Bytes;
use tally_base::ObjectId;
use tally_base::codec::{DecodeError, Reader};
use tally_store::block::BlockError;
use tally_store::bp::BlockPtr;
use tally_store::dataset::{DatasetIo, DatasetRoot};
use tally_store::key::{Absence, Class, Key};
use tally_vfs::FILE_SIZE_MAX;

use super::Fold;
use super::removal::OrphanKind;
use crate::cuts::Cuts;
use crate::damage::Part;
use crate::inode::{Inode, Layout};
use crate::reserved::Reserved;
use crate::schema::decode_pointer;

/// What the old tree says of something.
#[derive(Clone, Copy)]
pub(super) enum Stored<T> {
    Known(T),
    /// It cannot be read.
    Unknown,
}

impl Fold<'_> {
    pub(super) fn stored_inode(&self, id: ObjectId) -> Result<Stored<Option<Inode>>, BlockError> {
        if id.0 >= self.first_new {
            return Ok(Stored::Known(None));
        }
        let value = self.fs.io().get(&self.old.tree, &Key::new(Class::Inode, id.0, 0, 0));
        let inode = value.and_then(|value| match value.map(|value| decode_inode(&value)).transpose() {
            Ok(inode) => Ok(Stored::Known(inode)),
            Err(DecodeError::Malformed(_)) => Err(malformed(self.old, "inode")),
            // No operation gets as far as that. The reaper may, and asks [`Fold::is_of_newer`] before.
            Err(DecodeError::Newer(_)) => Ok(Stored::Unknown),
        });
        Ok(match self.unless_damaged(id, Part::Attributes, inode)? {
            Stored::Known(inode) => inode,
            Stored::Unknown => Stored::Unknown,
        })
    }

    /// Whether a newer program's inode is there: what it has is let be, until that program comes (docs/design/0043).
    pub(super) fn is_of_newer(&self, id: ObjectId) -> Result<bool, BlockError> {
        let value = self.fs.io().get(&self.old.tree, &Key::new(Class::Inode, id.0, 0, 0));
        Ok(match self.unless_damaged(id, Part::Attributes, value)? {
            Stored::Known(Some(value)) => matches!(decode_inode(&value), Err(DecodeError::Newer(_))),
            Stored::Known(None) | Stored::Unknown => false,
        })
    }

    /// In place of an inode that cannot be read: what the fold asks of the old one, at the most. Whether a file was
    /// laid out in extents its extents tell.
    pub(super) fn presumed_inode(&self, id: ObjectId, inode: &Inode) -> Result<Inode, BlockError> {
        let (first, end) = (Key::new(Class::Extent, id.0, 0, 0), Key::new(Class::Extent, id.0, u64::MAX, 0));
        let extent = self.fs.io().range(&self.old.tree, &first, &end).next().transpose();
        let layout = match self.unless_damaged(id, Part::Attributes, extent)? {
            Stored::Known(None) => Layout::Small,
            Stored::Known(Some(_)) | Stored::Unknown => Layout::Extents,
        };
        let cuts = self.fs.io().get(&self.old.tree, &OrphanKind::Cut.key(id));
        let cuts = match self.unless_damaged(id, Part::Attributes, cuts)? {
            Stored::Known(cuts) => cuts.and_then(|cuts| Cuts::decode(&cuts).ok()).map(Box::new),
            Stored::Unknown => None,
        };
        // How much of its dataset's sum was this file's nobody knows: less is other files' promise, so all of it stays.
        let reserved = inode.reserved.as_ref().map(|_| Box::new(Reserved::unknown()));
        Ok(Inode { layout, size: FILE_SIZE_MAX, cuts, reserved, ..inode.clone() })
    }

    /// What is stored of a small file. Of one that was empty nothing is.
    pub(super) fn stored_small(&self, id: ObjectId, old: Option<&Inode>) -> Result<Stored<Bytes>, BlockError> {
        if old.is_none_or(|old| old.size == 0) {
            return Ok(Stored::Known(Bytes::new()));
        }
        let value = self.fs.io().get(&self.old.tree, &Key::new(Class::Small, id.0, 0, 0));
        self.unless_damaged(id, Part::Content(0), value.map(Option::unwrap_or_default))
    }

    pub(super) fn stored_extent(&self, id: ObjectId, start: u64) -> Result<Stored<Option<BlockPtr>>, BlockError> {
        let value = self.fs.io().get(&self.old.tree, &Key::new(Class::Extent, id.0, start, 0));
        let block = value.and_then(|value| value.map(|value| decode_extent(self.old, &value)).transpose());
        self.unless_damaged(id, Part::Content(start), block)
    }

    /// What was read, if it was; an error only where the pool cannot go on.
    pub(super) fn unless_damaged<T>(
        &self,
        id: ObjectId,
        part: Part,
        read: Result<T, BlockError>,
    ) -> Result<Stored<T>, BlockError> {
        match read {
            Ok(read) => Ok(Stored::Known(read)),
            Err(error) => {
                let what = error.to_string();
                self.fs.io().check_damage(error)?;
                self.fs.damaged(id, part, &what);
                if part == Part::Space {
                    self.fs.io().note_leak();
                }
                Ok(Stored::Unknown)
            }
        }
    }

    /// Whether readers will find that the tree does not hold the key, once it does not: above a leaf that cannot be
    /// read they would not.
    pub(super) fn can_be_absent(&self, key: &Key) -> Result<bool, BlockError> {
        match self.fs.io().read_neighbours(&self.old.tree, key) {
            Ok(()) => Ok(true),
            Err(error) => self.fs.io().check_damage(error).map(|_| false),
        }
    }
}

/// From where on the new tree has no other key of the same class and object than those that are put, if the old inode
/// can be read and says so, or the file was cut.
pub(super) fn absence(io: &DatasetIo, old: &DatasetRoot, cuts: &HashMap<ObjectId, u64>, key: &Key) -> Option<Absence> {
    let absent_from = |from, is_new| Absence { from: Key::new(key.class, key.object, from, 0), is_new };
    let cut = cuts.get(&ObjectId(key.object)).copied().filter(|_| key.class == Class::Extent);
    let cut_away = cut.map(|from| absent_from(from, false));
    let Ok(value) = io.get(&old.tree, &Key::new(Class::Inode, key.object, 0, 0)) else { return cut_away };
    let Ok(inode) = value.map(|value| decode_inode(&value)).transpose() else { return cut_away };
    // What was cut away before, and is not freed yet, does not exist either; but it is there.
    let (never_from, is_new) = match (key.class, inode) {
        (Class::DirEntry | Class::DirHash, inode) if inode.as_ref().is_none_or(Inode::is_empty_directory) => (0, true),
        (Class::Xattr, inode) if inode.as_ref().is_none_or(|inode| inode.xattrs.is_empty()) => (0, true),
        (Class::Extent, None) => (0, true),
        (Class::Extent, Some(inode)) => (inode.blocks_end(), inode.extents_end() == inode.blocks_end()),
        _ => return None,
    };
    match cut {
        Some(cut) if cut < never_from => cut_away,
        _ => Some(absent_from(never_from, is_new)),
    }
}

fn decode_inode(value: &Bytes) -> Result<Inode, DecodeError> {
    Inode::decode(&mut Reader::new(value, "inode"))
}

pub(super) fn decode_extent(root: &DatasetRoot, value: &Bytes) -> Result<BlockPtr, BlockError> {
    decode_pointer(value).ok_or_else(|| malformed(root, "extent"))
}

fn malformed(root: &DatasetRoot, what: &'static str) -> BlockError {
    BlockError::Malformed { bp: *root.tree.root().expect("a value came out of this tree"), what }
}
