//! SETATTR: mode, owner, times, and size.

use smallvec::smallvec;
use tally_base::Time;
use tally_store::pool::SpaceClass;

use super::{after, change, failed, remember, unchanged};
use crate::filesystem::{Ask, Filesystem};
use crate::inode::Inode;
use crate::permission::{self, WRITE};
use crate::record::{Record, RecordKind, SizeRule};
use crate::vfs::{Cred, FILE_SIZE_MAX, FileKind, FsError, ObjectRef, OpCtx, Outcome, SetAttr, SetTime};

/// The time a SETATTR asks for.
pub(super) fn chosen_time(time: SetTime, now: Time) -> Time {
    match time {
        SetTime::Server => now,
        SetTime::Client(time) => time,
    }
}

/// Gives the object to another user or group, as far as `cred` may: the superuser anything, an owner one of its groups.
pub(super) fn set_owner(inode: &mut Inode, set: &SetAttr, cred: &Cred) -> Result<(), FsError> {
    if let Some(uid) = set.uid {
        if cred.uid != 0 && (uid != inode.uid || cred.uid != inode.uid) {
            return Err(FsError::NotOwner);
        }
        inode.uid = uid;
    }
    if let Some(gid) = set.gid {
        let owner_may = cred.uid == inode.uid && (gid == inode.gid || cred.in_group(gid));
        if cred.uid != 0 && !owner_may {
            return Err(FsError::NotOwner);
        }
        inode.gid = gid;
    }
    Ok(())
}

impl Filesystem {
    pub(crate) fn change_attr(
        &self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        set: &SetAttr,
        guard: Option<Time>,
    ) -> Outcome<()> {
        // Cutting a file frees space, so it draws on the reserve that removing does.
        let admitted = match self.admit(&Ask::metadata(SpaceClass::Remove)) {
            Ok(admitted) => admitted,
            Err(refusal) => return refusal.outcome(),
        };
        let mut locked = match self.lock(&[object.id]) {
            Ok(locked) => locked,
            Err(error) => return failed(error),
        };
        let before = match self.sight(object.id, locked.state(object.id)).live(object) {
            Ok(inode) => inode,
            Err(error) => return self.refused(&locked, smallvec![], error),
        };
        let now = self.now();
        let planned = if guard.is_some_and(|ctime| ctime != before.ctime) {
            Err(FsError::NotSync)
        } else {
            attr_after(&before, object, set, ctx.cred, now)
        };
        let inode = match planned {
            Ok(inode) => inode,
            Err(error) => return self.refused(&locked, smallvec![unchanged(object.id, &before)], error),
        };
        if *set == SetAttr::default() {
            let wait = self.wait_for_seen(&locked);
            return Outcome { result: Ok(()), changes: smallvec![unchanged(object.id, &before)], wait };
        }
        let mut record = Record::default();
        let (kind, rule) = match set.size {
            Some(size) => {
                record.truncate = Some((object.id, size));
                (RecordKind::Truncate, SizeRule::Exact)
            }
            None if inode.kind == FileKind::File => (RecordKind::SetAttr, SizeRule::Keep),
            None => (RecordKind::SetAttr, SizeRule::Exact),
        };
        record.inodes.push(after(object.id, &inode, rule));
        remember(&mut record, ctx, Some(object));
        let wait = self.carry_out(admitted, &mut locked, kind, record);
        Outcome { result: Ok(()), changes: smallvec![change(object.id, &before, &inode)], wait }
    }
}

/// The inode after a SETATTR, if `cred` may do all of it.
fn attr_after(before: &Inode, object: ObjectRef, set: &SetAttr, cred: &Cred, now: Time) -> Result<Inode, FsError> {
    let mut inode = before.clone();
    let attr = before.attr(object.id);
    let owns = permission::owns(&attr, cred);
    let may_write = permission::may(&attr, cred, WRITE);
    if let Some(mode) = set.mode {
        if !owns {
            return Err(FsError::NotOwner);
        }
        inode.mode = mode & 0o7777;
        if cred.uid != 0 && inode.kind != FileKind::Directory && !cred.in_group(before.gid) {
            inode.mode &= !0o2000;
        }
    }
    if set.uid.is_some() || set.gid.is_some() {
        set_owner(&mut inode, set, cred)?;
        if inode.kind != FileKind::Directory {
            // A program must not keep its owner's rights under another owner.
            inode.mode &= !0o6000;
        }
    }
    for (time, field) in [(set.atime, &mut inode.atime), (set.mtime, &mut inode.mtime)] {
        let Some(time) = time else { continue };
        match time {
            SetTime::Server if owns || may_write => {}
            SetTime::Server => return Err(FsError::Access),
            SetTime::Client(_) if owns => {}
            SetTime::Client(_) => return Err(FsError::NotOwner),
        }
        *field = chosen_time(time, now);
    }
    if let Some(size) = set.size {
        resize(&mut inode, size, owns || may_write, set.mtime.is_none(), now)?;
    }
    inode.create_verifier = None;
    inode.touch(now);
    Ok(inode)
}

fn resize(inode: &mut Inode, size: u64, may: bool, touches_mtime: bool, now: Time) -> Result<(), FsError> {
    match inode.kind {
        FileKind::File => {}
        FileKind::Directory => return Err(FsError::IsDirectory),
        _ => return Err(FsError::Invalid),
    }
    if !may {
        return Err(FsError::Access);
    }
    if size > FILE_SIZE_MAX {
        return Err(FsError::TooBig);
    }
    inode.size = size;
    if touches_mtime {
        inode.mtime = now;
    }
    Ok(())
}
