//! Extended attributes, of those that users set. What others stand for (access control lists, capabilities of programs) the file system has none of.

use bytes::BytesMut;
use rustix::io::Errno;
use tally_vfs::{FsError, Right, SetXattr, USER_PREFIX};

use super::{Asked, Step};
use crate::wire::Reply;

const CREATE: u32 = 1;
const REPLACE: u32 = 2;

impl Asked<'_> {
    pub(super) fn xattr(&self, name: &[u8], room: u32) -> Result<Step, FsError> {
        if !is_users(name) {
            return Ok(Errno::OPNOTSUPP.into());
        }
        let value = self.vfs.xattr(&self.cred(), self.node()?, name)?;
        Ok(sized(value.len(), room, || Reply::bytes(value)))
    }

    pub(super) fn xattrs(&self, room: u32) -> Result<Step, FsError> {
        let names = self.vfs.list_xattrs(&self.cred(), self.node()?, 0)?;
        let mut all = BytesMut::new();
        for one in &names {
            all.extend_from_slice(&one.name);
            all.extend_from_slice(&[0]);
        }
        Ok(sized(all.len(), room, || Reply::bytes(all.freeze())))
    }

    pub(super) fn set_xattr(&self, name: &[u8], value: &[u8], flags: u32) -> Result<Step, FsError> {
        if !is_users(name) {
            return Ok(Errno::OPNOTSUPP.into());
        }
        let how = match flags {
            0 => SetXattr::Either,
            CREATE => SetXattr::Create,
            REPLACE => SetXattr::Replace,
            _ => return Err(FsError::Invalid),
        };
        let (object, cred) = (self.node()?, self.cred());
        let outcome = self.vfs.set_xattr(self.ctx(&cred, Right::Mode), object, name, value, how);
        Ok(self.ends(outcome, |()| Reply::done()))
    }

    pub(super) fn remove_xattr(&self, name: &[u8]) -> Result<Step, FsError> {
        if !is_users(name) {
            return Ok(Errno::OPNOTSUPP.into());
        }
        self.change(|ctx, object| self.vfs.remove_xattr(ctx, object, name))
    }
}

fn is_users(name: &[u8]) -> bool {
    name.starts_with(USER_PREFIX)
}

/// Without room only the size is asked for.
fn sized(bytes: usize, room: u32, all: impl FnOnce() -> Reply) -> Step {
    match (u32::try_from(bytes), room) {
        (Ok(bytes), 0) => Reply::size(bytes).into(),
        (Ok(bytes), room) if bytes <= room => all().into(),
        _ => Errno::RANGE.into(),
    }
}
