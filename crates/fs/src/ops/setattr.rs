//! SETATTR: mode, owner, times, and size.

use smallvec::smallvec;
use tally_base::{ObjectId, Time, round_to_sector};
use tally_claims::Act;
use tally_store::pool::SpaceClass;
use tally_vfs::permission::{self, WRITE};
use tally_vfs::{Cred, FILE_SIZE_MAX, FileKind, FsError, ObjectRef, OpCtx, Outcome, SetAttr, SetTime};

use super::{after, change, failed, remember, unchanged};
use crate::admission::{Ask, Refusal};
use crate::cost::FoldCost;
use crate::filesystem::Filesystem;
use crate::inode::Inode;
use crate::record::{Record, RecordKind, SizeRule};

impl Filesystem {
    pub(crate) fn setattr(&self, ctx: OpCtx<'_>, object: ObjectRef, set: &SetAttr, guard: Option<Time>) -> Outcome<()> {
        // Before anything is looked at: where the pool takes no changes, that is what is told.
        if let Err(refusal) = self.check_takes_changes() {
            return refusal.outcome();
        }
        let end = set.size.map(|size| size.min(FILE_SIZE_MAX));
        let mut growing = Growing::default();
        let resized = |end| {
            self.fold_cost(object, |inode, layer| {
                growing = Growing::of(inode, end);
                FoldCost::of_resize(inode, layer, end)
            })
        };
        let cut = match end.map_or_else(|| Ok(FoldCost::default()), resized) {
            Ok(cut) => cut,
            Err(error) => return failed(error),
        };
        let admitted = match self.admit(&Ask::metadata(growing.class()).growing(growing.bytes).folding(cut)) {
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
        if end.is_some_and(|end| !growing.is_enough_for(&Growing::of(&before, end))) {
            // It was cut or reserved since that look.
            return Refusal::until(self.pool.txgs.next_sync()).outcome();
        }
        let now = self.now();
        let set = &set.without_what_is(&before.attr(object.id), now);
        let gate = || self.gate(object, ctx.actor(), Act::Changes);
        // Who holds the Write may know of a later ctime than is here: which one it is, is asked once it was given back.
        let guarded = guard.map_or(Ok(()), |ctime| {
            gate().and_then(|()| if ctime == before.ctime { Ok(()) } else { Err(FsError::NotSync) })
        });
        let planned = guarded.and_then(|()| self.attr_after(&before, object, set, ctx, now));
        let planned =
            planned.and_then(|inode| if *set == SetAttr::default() { Ok(inode) } else { gate().map(|()| inode) });
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

/// What a new length brings to the last block that was there.
#[derive(Clone, Copy, Default)]
struct Growing {
    is_longer: bool,
    /// By how much more may be reserved, bytes.
    bytes: u64,
}

impl Growing {
    fn of(inode: &Inode, end: u64) -> Self {
        // Of what is no file the size cannot be set, and whoever tries is told that, and not that there is no room.
        let is_longer = inode.kind == FileKind::File && end > inode.size;
        Self { is_longer, bytes: if is_longer { inode.reserved_more_at(end) } else { 0 } }
    }

    /// Cutting a file frees space, so it draws on the reserve that removing does. A longer last block is written anew as such, for which others were promised room: it
    /// does not go as deep; and where it may be reserved itself that is a promise like any other.
    fn class(self) -> SpaceClass {
        match self {
            Self { is_longer: false, .. } => SpaceClass::Remove,
            Self { bytes: 0, .. } => SpaceClass::Rename,
            _ => SpaceClass::Write,
        }
    }

    /// Whether what was asked for is what `needed` takes.
    fn is_enough_for(self, needed: &Self) -> bool {
        (self.is_longer || !needed.is_longer) && self.bytes >= needed.bytes
    }
}

impl Filesystem {
    /// The inode after a SETATTR, if all of it may be done.
    fn attr_after(
        &self,
        before: &Inode,
        object: ObjectRef,
        set: &SetAttr,
        OpCtx { cred, right, .. }: OpCtx<'_>,
        now: Time,
    ) -> Result<Inode, FsError> {
        let attr = before.attr(object.id);
        permission::may_set(&attr, cred, set)?;
        if set.has_kept_time() {
            self.check_may_write(right, &attr, false)?;
        }
        let mut inode = before.clone();
        if let Some(size) = set.size {
            let may = permission::owns(&attr, cred) || permission::may(&attr, cred, WRITE);
            resize(&mut inode, size, self.check_may_write(right, &attr, may), now)?;
            strip_privileges(&mut inode, cred);
        }
        apply_set(&mut inode, object.id, set, cred, now);
        inode.create_verifier = None;
        inode.touch(now);
        Ok(inode)
    }
}

/// Mode, owner, group and times as asked for; whether they may be is the caller's question.
fn apply_set(inode: &mut Inode, id: ObjectId, set: &SetAttr, cred: &Cred, now: Time) {
    inode.mode = permission::mode_after(&inode.attr(id), cred, set);
    inode.uid = set.uid.unwrap_or(inode.uid);
    inode.gid = set.gid.unwrap_or(inode.gid);
    apply_times(inode, set, now);
}

/// Times as asked for.
pub(super) fn apply_times(inode: &mut Inode, set: &SetAttr, now: Time) {
    for (time, field) in [(set.atime, &mut inode.atime), (set.mtime, &mut inode.mtime)] {
        match time {
            Some(SetTime::Server) => *field = now.into(),
            Some(SetTime::Client(time)) => *field = time,
            Some(SetTime::Kept(time)) => *field = time.min(now.into()),
            None => {}
        }
    }
}

/// A change of content by anybody but the superuser takes set-id bits away.
pub(super) fn strip_privileges(inode: &mut Inode, cred: &Cred) {
    if cred.uid != 0 {
        inode.mode = permission::without_set_ids(inode.mode);
    }
}

/// A file of another length, if the caller `may`: the way of SETATTR, and of CREATE over a file that is there.
pub(super) fn resize(inode: &mut Inode, size: u64, may: Result<(), FsError>, now: Time) -> Result<(), FsError> {
    match inode.kind {
        FileKind::File => {}
        FileKind::Directory => return Err(FsError::IsDirectory),
        _ => return Err(FsError::Invalid),
    }
    may?;
    if size > FILE_SIZE_MAX {
        return Err(FsError::TooBig);
    }
    inode.size = size;
    inode.unreserve(&(size..u64::MAX));
    inode.used = inode.used.min(round_to_sector(size));
    inode.mtime = now.into();
    Ok(())
}
