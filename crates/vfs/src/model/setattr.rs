//! SETATTR: who may change what.

use super::content::drop_set_ids_on_write;
use super::state::{Body, State};
use crate::permission::{self, WRITE};
use crate::{Access, Attr, Cred, FILE_SIZE_MAX, FileKind, FsError, ObjectRef, OpCtx, Right, SetAttr, SetTime};
use tally_base::{FileTime, Time};

impl State {
    pub(super) fn setattr(
        &mut self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        set: &SetAttr,
        guard: Option<Time>,
    ) -> Result<(), FsError> {
        let OpCtx { cred, right, .. } = ctx;
        let attr = self.attr(object)?;
        if guard.is_some() {
            self.gate(object, ctx.actor(), true)?;
        }
        if guard.is_some_and(|ctime| ctime != attr.ctime) {
            return Err(FsError::NotSync);
        }
        permission::may_set(&attr, cred, set)?;
        self.check_size(right, &attr, cred, set)?;
        if set.has_kept_time() {
            self.check_right(attr.object, right, Access::WRITE, false)?;
        }
        // The clock of the model stands still until it is asked, so that nothing that is there is later.
        if set.without_what_is(&attr, Time(u64::MAX)) == SetAttr::default() {
            return Ok(());
        }
        self.gate(object, ctx.actor(), true)?;
        let now = self.issue_time();
        let inode = self.named(object.id);
        inode.create_verifier = None;
        if let Some(size) = set.size {
            resize(&mut inode.attr, &mut inode.body, size, now);
            drop_set_ids_on_write(&mut inode.attr, cred);
        }
        apply(&mut inode.attr, cred, set, now);
        self.touch(object.id, now);
        Ok(())
    }

    fn check_size(&self, right: Right, attr: &Attr, cred: &Cred, set: &SetAttr) -> Result<(), FsError> {
        let Some(size) = set.size else { return Ok(()) };
        match attr.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(FsError::IsDirectory),
            _ => return Err(FsError::Invalid),
        }
        let may = permission::owns(attr, cred) || permission::may(attr, cred, WRITE);
        self.check_right(attr.object, right, Access::WRITE, may)?;
        if size > FILE_SIZE_MAX { Err(FsError::TooBig) } else { Ok(()) }
    }
}

/// Sets a file's size, now.
fn resize(attr: &mut Attr, body: &mut Body, size: u64, now: Time) {
    if let Body::Content(content) = body {
        content.truncate(size);
        attr.used = content.used_bytes();
    }
    attr.size = size;
    attr.mtime = now.into();
}

fn apply(attr: &mut Attr, cred: &Cred, set: &SetAttr, now: Time) {
    attr.mode = permission::mode_after(attr, cred, set);
    attr.uid = set.uid.unwrap_or(attr.uid);
    attr.gid = set.gid.unwrap_or(attr.gid);
    let time = |set: Option<SetTime>, current: FileTime| match set {
        None => current,
        Some(SetTime::Server) => now.into(),
        Some(SetTime::Client(time)) => time,
        Some(SetTime::Kept(time)) => time.min(now.into()),
    };
    attr.atime = time(set.atime, attr.atime);
    attr.mtime = time(set.mtime, attr.mtime);
}
