//! The operations that change something, one file a family. Each validates under its locks, writes down the result as
//! a [`Record`](crate::record::Record), and lets [`crate::filesystem`] carry it out.

mod access;
mod ancestry;
mod bounds;
mod commit;
mod delegation;
mod follow;
mod link;
mod lock;
mod make;
mod open;
mod punch;
mod remove;
mod rename;
mod reserve;
mod setattr;
mod write;
mod xattr;

pub(crate) use ancestry::Ancestry;
pub use bounds::LogBounds;
pub(crate) use follow::Following;
pub(crate) use remove::Removal;
pub(crate) use rename::IfThere;

use smallvec::{SmallVec, smallvec};
use tally_base::{ObjectId, Wait, name_hash};
use tally_store::key::{Class, Key};
use tally_vfs::permission::{self, EXECUTE, WRITE};
use tally_vfs::{Change, Cred, FileKind, FsError, NAME_MAX, ObjectRef, OpCtx, Outcome, PreAttr, RememberedReply};

use crate::entry::encode_entry;
use crate::filesystem::Filesystem;
use crate::inode::Inode;
use crate::object::Locked;
use crate::record::{InodeAfter, Record, SizeRule};
use crate::sight::Found;

/// Checks the bytes of a name.
pub(crate) fn check_name(name: &[u8]) -> Result<(), FsError> {
    if name.len() > NAME_MAX {
        return Err(FsError::NameTooLong);
    }
    if name.is_empty() || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(FsError::Access);
    }
    Ok(())
}

/// Whether a name is `.` or `..`.
pub(crate) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// The attributes around an operation.
pub(crate) fn change(id: ObjectId, before: &Inode, after: &Inode) -> Change {
    Change { before: Some(PreAttr::from(&before.attr(id))), after: Some(after.attr(id)) }
}

/// The attributes of an object that was looked at and not changed.
pub(crate) fn unchanged(id: ObjectId, inode: &Inode) -> Change {
    change(id, inode, inode)
}

/// The failure of an operation that held no lock yet.
pub(crate) fn failed<T>(error: FsError) -> Outcome<T> {
    Outcome { result: Err(error), changes: SmallVec::new(), wait: Wait::Ready }
}

/// An inode as a record carries it.
pub(crate) fn after(object: ObjectId, inode: &Inode, size: SizeRule) -> InodeAfter {
    InodeAfter { object, inode: Some(inode.clone()), size }
}

/// Remembers the answer in the record, if the request has a key, or stands in a slot.
pub(crate) fn remember(record: &mut Record, ctx: OpCtx<'_>, object: Option<ObjectRef>) {
    record.reply = ctx.reply.map(|key| (key, RememberedReply { object }));
    record.mark = ctx.mark.map(|mark| (mark, RememberedReply { object }));
}

impl Filesystem {
    /// The keys of a new directory entry.
    pub(crate) fn put_entry(
        &self,
        record: &mut Record,
        dir: ObjectId,
        entry: ObjectId,
        name: &[u8],
        object: ObjectId,
        kind: FileKind,
    ) {
        let hash = name_hash(self.dataset.birth.name_key, name);
        record.keys.push((Key::new(Class::DirEntry, dir.0, entry.0, 0), Some(encode_entry(object, kind, name))));
        record
            .keys
            .push((Key::new(Class::DirHash, dir.0, hash, entry.0), Some(object.0.to_le_bytes().to_vec().into())));
    }

    /// The keys of a directory entry that goes.
    pub(crate) fn drop_entry(&self, record: &mut Record, dir: ObjectId, entry: ObjectId, name: &[u8]) {
        let hash = name_hash(self.dataset.birth.name_key, name);
        record.keys.push((Key::new(Class::DirEntry, dir.0, entry.0, 0), None));
        record.keys.push((Key::new(Class::DirHash, dir.0, hash, entry.0), None));
    }

    /// Looks a name up without keeping a lock, to learn which objects to lock.
    pub(crate) fn peek(&self, dir: ObjectRef, name: &[u8]) -> Result<Option<Found>, FsError> {
        self.see(dir.id, |sight| {
            sight.live_directory(dir)?;
            sight.find(name)
        })
    }

    /// A locked directory in which `cred` may make and remove entries.
    pub(crate) fn writable_directory(
        &self,
        locked: &Locked,
        dir: ObjectRef,
        cred: &Cred,
    ) -> Result<Inode, (FsError, Option<Inode>)> {
        let inode = self.sight(dir.id, locked.state(dir.id)).live_directory(dir).map_err(|error| (error, None))?;
        if permission::may(&inode.attr(dir.id), cred, WRITE | EXECUTE) {
            Ok(inode)
        } else {
            Err((FsError::Access, Some(inode)))
        }
    }

    /// The failure of an operation that looked at `ids` without their locks: it waits for what they rest on (rules F9), unless
    /// it tells of a disk and of nothing else.
    pub(crate) fn failed_after_look<T>(&self, ids: &[ObjectId], error: FsError) -> Outcome<T> {
        if error == FsError::Io {
            return failed(error);
        }
        match self.lock(ids) {
            Ok(locked) => self.refused(&locked, SmallVec::new(), error),
            Err(error) => failed(error),
        }
    }

    /// The failure of an operation on a locked directory.
    pub(crate) fn refused_in<T>(
        &self,
        locked: &Locked,
        dir: ObjectRef,
        inode: Option<&Inode>,
        error: FsError,
    ) -> Outcome<T> {
        let changes = smallvec![inode.map_or_else(Change::default, |inode| unchanged(dir.id, inode))];
        self.refused(locked, changes, error)
    }
}
