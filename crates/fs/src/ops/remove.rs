//! REMOVE and RMDIR: a name goes, and with the last name the object, unless somebody has it open (rules V28).

use smallvec::smallvec;
use tally_base::ObjectId;
use tally_store::pool::SpaceClass;
use tally_vfs::{FileKind, FsError, ObjectRef, OpCtx, Outcome, permission};

use super::{after, change, check_name, failed, is_dots, remember};
use crate::admission::Ask;
use crate::filesystem::Filesystem;
use crate::inode::{HELD, Inode};
use crate::object::Locked;
use crate::record::{InodeAfter, Record, RecordKind, SizeRule};
use crate::sight::Found;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// REMOVE: anything but a directory.
    Name,
    /// RMDIR: an empty directory.
    Directory,
}

/// An object with one name less.
pub(super) fn unlinked(dir: ObjectId, found: Found, inode: &Inode, now: tally_base::Time) -> InodeAfter {
    let mut less = inode.clone();
    less.touch(now);
    less.lose_name(dir, found.entry);
    less.nlink = less.nlink.saturating_sub(1);
    let gone = less.nlink == 0 || inode.kind == FileKind::Directory;
    let rule = if inode.kind == FileKind::File { SizeRule::Keep } else { SizeRule::Exact };
    InodeAfter { object: found.object, inode: (!gone).then_some(less), size: rule }
}

impl Filesystem {
    pub(crate) fn remove_name(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], removal: Removal) -> Outcome<()> {
        if let Err(error) = check_name(name) {
            return failed(error);
        }
        if is_dots(name) {
            return failed(if name == b"." || removal == Removal::Name { FsError::Invalid } else { FsError::NotEmpty });
        }
        loop {
            let admitted = match self.admit(&Ask::metadata(SpaceClass::Remove)) {
                Ok(admitted) => admitted,
                Err(refusal) => return refusal.outcome(),
            };
            let seen = match self.peek(dir, name) {
                Ok(seen) => seen,
                Err(error) => return self.failed_after_look(&[dir.id], error),
            };
            let object = seen.map_or(dir.id, |found| found.object);
            let is_open = self.may_be_open(object);
            if is_open && let Err(refusal) = self.make_room_to_hold() {
                return refusal.outcome();
            }
            let mut locked = match self.lock(&[dir.id, object, if is_open { HELD } else { dir.id }]) {
                Ok(locked) => locked,
                Err(error) => return failed(error),
            };
            let parent = match self.writable_directory(&locked, dir, ctx.cred) {
                Ok(parent) => parent,
                Err((error, parent)) => return self.refused_in(&locked, dir, parent.as_ref(), error),
            };
            match self.sight(dir.id, locked.state(dir.id)).find(name) {
                Ok(found) if found == seen => {}
                Ok(_) => continue,
                Err(error) => return self.refused_in(&locked, dir, Some(&parent), error),
            }
            let Some(found) = seen else {
                return self.refused_in(&locked, dir, Some(&parent), FsError::NotFound);
            };
            let removable = self.removable(ctx, &locked, (dir, &parent), found.object, removal);
            let inode = match removable.and_then(|inode| self.gate_to_unlink(found.object, inode, ctx)) {
                Ok(inode) => inode,
                Err(error) => return self.refused_in(&locked, dir, Some(&parent), error),
            };
            if self.may_be_open(found.object) && !is_open {
                continue;
            }
            let now = self.now();
            let mut parent_after = parent.clone();
            parent_after.modify(now);
            parent_after.lose_entry(name, removal == Removal::Directory);
            let mut record = Record::default();
            self.drop_entry(&mut record, dir.id, found.entry, name);
            record.inodes = smallvec![after(dir.id, &parent_after, SizeRule::Exact)];
            if is_open && self.note_to_be_held(found.object, &inode) {
                if let Err(error) = self.hold(&locked, &mut record, found.object, &inode) {
                    return self.refused_in(&locked, dir, Some(&parent), error);
                }
            } else {
                let gone = unlinked(dir.id, found, &inode, now);
                self.note_unlinked(&gone);
                record.inodes.push(gone);
            }
            remember(&mut record, ctx, None);
            let kind = if removal == Removal::Directory { RecordKind::Rmdir } else { RecordKind::Remove };
            let wait = self.carry_out(admitted, &mut locked, kind, record);
            return Outcome { result: Ok(()), changes: smallvec![change(dir.id, &parent, &parent_after)], wait };
        }
    }

    fn removable(
        &self,
        ctx: OpCtx<'_>,
        locked: &Locked,
        (dir, parent): (ObjectRef, &Inode),
        id: ObjectId,
        removal: Removal,
    ) -> Result<Inode, FsError> {
        let inode = locked.state(id).inode.clone().ok_or_else(|| self.broken(&"an entry without its object"))?;
        if permission::sticky_forbids(&parent.attr(dir.id), &inode.attr(id), ctx.cred) {
            return Err(FsError::Access);
        }
        match (removal, inode.kind) {
            (Removal::Name, FileKind::Directory) => Err(FsError::IsDirectory),
            (Removal::Name, _) => Ok(inode),
            (Removal::Directory, FileKind::Directory) if self.is_mountpoint(id) => Err(FsError::Access),
            (Removal::Directory, FileKind::Directory) => {
                if self.sight(id, locked.state(id)).is_empty_directory()? {
                    Ok(inode)
                } else {
                    Err(FsError::NotEmpty)
                }
            }
            (Removal::Directory, _) => Err(FsError::NotDirectory),
        }
    }
}
