//! The operations that change nothing. They wait for nothing either: what a read reveals may vanish in a crash if
//! its author was never answered (rules F9).

use bytes::Bytes;
use tally_base::ObjectId;
use tally_claims::Act;
use tally_store::key::{Class, Key};
use tally_vfs::permission::{self, EXECUTE, READ};
use tally_vfs::{
    Attr, Cred, DirEntry, DirPage, FIRST_ID, FileKind, FoundAt, FsError, FsStat, ObjectRef, OpCtx, ReadOut, Sought,
    XattrName, check_xattr_name,
};

use crate::entry::decode_entry;
use crate::filesystem::Filesystem;
use crate::inode::Inode;
use crate::ops::check_name;
use crate::sight::Sight;

/// The cookies of `.` and `..`; real entries have ids from [`FIRST_ID`] on (rules F21).
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

impl Filesystem {
    pub(crate) fn getattr(&self, object: ObjectRef) -> Result<Attr, FsError> {
        self.see(object.id, |sight| sight.live(object).map(|inode| inode.attr(object.id)))
    }

    pub(crate) fn attr_of(&self, id: ObjectId) -> Result<Attr, FsError> {
        self.see(id, |sight| sight.inode()?.map(|inode| inode.attr(id)).ok_or(FsError::Stale))
    }

    /// Finds a name. No lock spans the directory and the object that it names, so a rename may come in between and take
    /// the object away: then the directory is asked again, as it alone can say that a name is not there.
    pub(crate) fn look(&self, cred: &Cred, dir: ObjectRef, name: &[u8]) -> (Result<Attr, FsError>, Option<Attr>) {
        let mut gone = None;
        loop {
            let (id, dir_attr) = match self.name_in(cred, dir, name) {
                Ok((Ok(id), dir_attr)) => (id, dir_attr),
                Ok((Err(error), dir_attr)) => return (Err(error), Some(dir_attr)),
                Err(error) => return (Err(error), None),
            };
            match self.attr_of(id) {
                // Whoever is overtaken here is overtaken by a rename that succeeded: somebody always gets on.
                Err(FsError::Stale) if gone != Some(id) => gone = Some(id),
                // An entry goes together with its object, so this one was written by faulty software.
                Err(FsError::Stale) => {
                    let error = self.broken(&format!("directory {} names {id}, which is gone", dir.id));
                    return (Err(error), Some(dir_attr));
                }
                attr => return (attr, Some(dir_attr)),
            }
        }
    }

    /// The object that a directory has under a name, or why none, and the directory's attributes.
    pub(crate) fn name_in(
        &self,
        cred: &Cred,
        dir: ObjectRef,
        name: &[u8],
    ) -> Result<(Result<ObjectId, FsError>, Attr), FsError> {
        self.see(dir.id, |sight| {
            let inode = sight.live_directory(dir)?;
            let attr = inode.attr(dir.id);
            let find = || {
                if !permission::may(&attr, cred, EXECUTE) {
                    return Err(FsError::Access);
                }
                check_name(name)?;
                match name {
                    b"." => Ok(dir.id),
                    b".." => Ok(inode.parent),
                    _ => sight.find(name)?.map(|entry| entry.object).ok_or(FsError::NotFound),
                }
            };
            Ok((find(), attr))
        })
    }

    pub(crate) fn readlink(&self, object: ObjectRef) -> Result<(Bytes, Attr), FsError> {
        self.see(object.id, |sight| {
            let inode = sight.live(object)?;
            if inode.kind != FileKind::Symlink {
                return Err(FsError::BadType);
            }
            let attr = inode.attr(object.id);
            Ok((inode.target, attr))
        })
    }

    pub(crate) fn read_by(
        &self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        offset: u64,
        count: u32,
    ) -> Result<ReadOut, FsError> {
        let read = self.see(object.id, |sight| {
            let (inode, attr) = self.readable(sight, ctx, object)?;
            let end = offset.saturating_add(u64::from(count)).min(inode.size);
            let data = if offset < end { sight.content(offset..end)? } else { Default::default() };
            Ok(ReadOut { data, eof: end >= inode.size || offset >= inode.size, attr })
        })?;
        self.note_access(&read.attr);
        Ok(read)
    }

    pub(crate) fn seek(
        &self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        offset: u64,
        what: Sought,
    ) -> Result<FoundAt, FsError> {
        self.see(object.id, |sight| {
            let (inode, _) = self.readable(sight, ctx, object)?;
            if offset >= inode.size {
                return Err(FsError::BehindEnd);
            }
            let offset = sight.seek(inode.size, offset, what)?.unwrap_or(inode.size);
            Ok(FoundAt { offset, is_end: offset >= inode.size })
        })
    }

    pub(crate) fn xattr(&self, cred: &Cred, object: ObjectRef, name: &[u8]) -> Result<Bytes, FsError> {
        self.see(object.id, |sight| {
            let inode = sight.live(object)?;
            permission::may_xattr(&inode.attr(object.id), cred, READ)?;
            check_xattr_name(name)?;
            let found = sight.xattr(&inode, name)?.filter(|found| found.first.name == name);
            found.map(|found| found.value).ok_or(FsError::NoXattr)
        })
    }

    pub(crate) fn list_xattrs(&self, cred: &Cred, object: ObjectRef, cookie: u64) -> Result<Vec<XattrName>, FsError> {
        self.see(object.id, |sight| {
            let inode = sight.live(object)?;
            if !permission::has_xattrs(inode.kind) {
                return Ok(Vec::new());
            }
            permission::may_xattr(&inode.attr(object.id), cred, READ)?;
            sight.xattr_names(&inode, cookie)
        })
    }

    /// A file, for who may read it.
    fn readable(&self, sight: &Sight<'_>, ctx: OpCtx<'_>, object: ObjectRef) -> Result<(Inode, Attr), FsError> {
        let inode = sight.live(object)?;
        let attr = inode.attr(object.id);
        match inode.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(FsError::IsDirectory),
            _ => return Err(FsError::BadType),
        }
        self.check_may_read(ctx, &attr)?;
        self.gate(object, ctx.actor(), Act::Reads)?;
        Ok((inode, attr))
    }

    pub(crate) fn readdir(
        &self,
        cred: &Cred,
        dir: ObjectRef,
        cookie: u64,
        entries_max: usize,
        plus: bool,
    ) -> Result<DirPage, FsError> {
        let (mut entries, eof, attr) = self.see(dir.id, |sight| {
            let inode = sight.live_directory(dir)?;
            let attr = inode.attr(dir.id);
            if !permission::may(&attr, cred, READ) {
                return Err(FsError::Access);
            }
            let mut entries = Vec::new();
            for (dot, name, object) in [(DOT, &b"."[..], dir.id), (DOT_DOT, &b".."[..], inode.parent)] {
                if cookie < dot && entries.len() < entries_max {
                    entries.push(DirEntry { cookie: dot, name: Bytes::from_static(name), object, attr: None });
                }
            }
            let room = entries_max - entries.len();
            let from = Key::new(Class::DirEntry, dir.id.0, cookie.saturating_add(1).max(FIRST_ID), 0);
            let to = Key::new(Class::DirEntry, dir.id.0, u64::MAX, 0);
            // One more than fits tells whether this is the end.
            let found = if from < to { sight.range(from, to, room + 1)? } else { Vec::new() };
            let eof = found.len() <= room && cookie.max(entries.last().map_or(0, |entry| entry.cookie)) >= DOT_DOT;
            for (key, value) in found.into_iter().take(room) {
                let (object, name) = decode_entry(&value).ok_or_else(|| self.broken(&"damaged directory entry"))?;
                entries.push(DirEntry { cookie: key.a, name, object, attr: None });
            }
            Ok((entries, eof, attr))
        })?;
        if plus && permission::may(&attr, cred, EXECUTE) {
            // The directory's lock is free again: children are locked by themselves, or the lock order would break.
            for entry in &mut entries {
                entry.attr = self.attr_of(entry.object).ok();
            }
        }
        self.note_access(&attr);
        Ok(DirPage { entries, eof, attr })
    }

    pub(crate) fn statfs(&self) -> FsStat {
        let pool = self.pool.free_bytes();
        let root = self.dataset.root();
        let used = root.used_bytes.saturating_add(root.reserved_bytes).saturating_add(self.pending_growth_bytes());
        let synced = self.pool.txgs.last_synced();
        // Of quotas above that others use up, too, only what they leave is here.
        let free = self.standing.chain().iter().filter_map(|sum| sum.room(synced)).fold(pool, u64::min);
        let (total, free) = match self.dataset.effective().refquota {
            Some(quota) => (quota, quota.saturating_sub(used).min(free)),
            None => (used + free, free),
        };
        // An object takes at least its charge, so this many could still be made.
        let free_files = free / tally_store::dataset::OBJECT_CHARGE;
        FsStat {
            total_bytes: total,
            free_bytes: free,
            available_bytes: free,
            total_files: root.object_count + free_files,
            free_files,
        }
    }
}
