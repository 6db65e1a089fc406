//! Extended attributes, by name.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::state::State;
use crate::permission::{READ, WRITE, has_xattrs, may_xattr};
use crate::xattrs::{XATTR_VALUE_MAX, XATTRS_BYTES_MAX, XATTRS_MAX, check_xattr_name, xattr_charge};
use crate::{Cred, FsError, ObjectRef, OpCtx, SetXattr, XattrName};

/// Cookie and value, by name.
pub(super) type Xattrs = BTreeMap<Vec<u8>, (u64, Bytes)>;

impl State {
    pub(super) fn xattr(&self, cred: &Cred, object: ObjectRef, name: &[u8]) -> Result<Bytes, FsError> {
        let inode = self.inode(object)?;
        may_xattr(&inode.attr, cred, READ)?;
        check_xattr_name(name)?;
        inode.xattrs.get(name).map(|(_, value)| value.clone()).ok_or(FsError::NoXattr)
    }

    pub(super) fn list_xattrs(&self, cred: &Cred, object: ObjectRef, cookie: u64) -> Result<Vec<XattrName>, FsError> {
        let inode = self.inode(object)?;
        if !has_xattrs(inode.attr.kind) {
            return Ok(Vec::new());
        }
        may_xattr(&inode.attr, cred, READ)?;
        let named = |(name, (cookie, _)): (&Vec<u8>, &(u64, Bytes))| XattrName {
            cookie: *cookie,
            name: Bytes::copy_from_slice(name),
        };
        let mut names: Vec<_> = inode.xattrs.iter().map(named).filter(|name| name.cookie >= cookie).collect();
        names.sort_by_key(|name| name.cookie);
        Ok(names)
    }

    pub(super) fn set_xattr(
        &mut self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        (name, value): (&[u8], &[u8]),
        how: SetXattr,
    ) -> Result<(), FsError> {
        let inode = self.inode(object)?;
        may_xattr(&inode.attr, ctx.cred, WRITE)?;
        check_xattr_name(name)?;
        if value.len() > XATTR_VALUE_MAX {
            return Err(FsError::XattrTooBig);
        }
        how.check(inode.xattrs.contains_key(name))?;
        let others = inode.xattrs.iter().filter(|(other, _)| *other != name);
        let (count, bytes) = others.fold((1, xattr_charge(name, value.len())), |(count, bytes), (name, (_, value))| {
            (count + 1, bytes + xattr_charge(name, value.len()))
        });
        if count > XATTRS_MAX || bytes > XATTRS_BYTES_MAX {
            return Err(FsError::NoSpace);
        }
        self.gate(object, ctx.actor(), true)?;
        let cookie = inode.xattrs.get(name).map(|(cookie, _)| *cookie);
        let cookie = cookie.unwrap_or_else(|| self.draw_id());
        let value = (cookie, Bytes::copy_from_slice(value));
        self.named(object.id).xattrs.insert(name.to_vec(), value);
        let now = self.issue_time();
        self.touch(object.id, now);
        Ok(())
    }

    pub(super) fn remove_xattr(&mut self, ctx: OpCtx<'_>, object: ObjectRef, name: &[u8]) -> Result<(), FsError> {
        let inode = self.inode(object)?;
        may_xattr(&inode.attr, ctx.cred, WRITE)?;
        check_xattr_name(name)?;
        if !inode.xattrs.contains_key(name) {
            return Err(FsError::NoXattr);
        }
        self.gate(object, ctx.actor(), true)?;
        self.named(object.id).xattrs.remove(name);
        let now = self.issue_time();
        self.touch(object.id, now);
        Ok(())
    }
}
