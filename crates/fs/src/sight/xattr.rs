//! An object's extended attributes as a reader sees them: in what is dirty over what is stored.

use bytes::Bytes;
use tally_store::key::{Class, Key};
use tally_vfs::{FsError, XattrName};

use super::Sight;
use crate::damage::Part;
use crate::inode::Inode;
use crate::xattr::{First, KEYS_MAX, PARTS_MAX, key};

/// One that was found under the hash of a name, which may be another one's.
pub(crate) struct Found {
    pub(crate) first: First,
    pub(crate) value: Bytes,
}

impl Sight<'_> {
    /// What stands under the hash of a name.
    pub(crate) fn xattr(&self, inode: &Inode, name: &[u8]) -> Result<Option<Found>, FsError> {
        if inode.xattrs.is_empty() {
            return Ok(None);
        }
        let from = key(self.fs.dataset.birth.name_key, self.id, name, 0);
        let found = self.range(from, Key { b: u64::MAX, ..from }, PARTS_MAX as usize + 1)?;
        let Some(((first_key, first), behind)) = found.split_first() else { return Ok(None) };
        let is_in_order = first_key.b == 0 && behind.iter().zip(1..).all(|((key, _), part)| key.b == part);
        let behind: Vec<Bytes> = behind.iter().map(|(_, value)| value.clone()).collect();
        let decoded = First::decode(first).filter(|_| is_in_order);
        let whole = decoded.and_then(|first| Some((first.whole(&behind)?, first)));
        let (value, first) = whole.ok_or_else(|| self.damaged_xattr())?;
        Ok(Some(Found { first, value }))
    }

    /// All names from a hash on, in the order of their hashes.
    pub(crate) fn xattr_names(&self, inode: &Inode, from: u64) -> Result<Vec<XattrName>, FsError> {
        if inode.xattrs.is_empty() {
            return Ok(Vec::new());
        }
        let (from, to) =
            (Key::new(Class::Xattr, self.id.0, from, 0), Key::new(Class::Xattr, self.id.0, u64::MAX, u64::MAX));
        let found = self.range(from, to, KEYS_MAX + 1)?;
        if found.len() > KEYS_MAX {
            return Err(self.damaged_xattr());
        }
        let firsts = found.iter().filter(|(key, _)| key.b == 0);
        let name = |(key, value): &(Key, Bytes)| {
            First::decode(value).map(|first| XattrName { cookie: key.a, name: first.name })
        };
        firsts.map(|found| name(found).ok_or_else(|| self.damaged_xattr())).collect()
    }

    /// Whether some of them cannot be read, or is none.
    pub(crate) fn are_xattrs_damaged(&self, inode: &Inode) -> bool {
        let Ok(names) = self.xattr_names(inode, 0) else { return true };
        names.iter().any(|found| self.xattr(inode, &found.name).is_err())
    }

    fn damaged_xattr(&self) -> FsError {
        self.damaged(Part::Xattrs, &"damaged extended attribute")
    }
}
