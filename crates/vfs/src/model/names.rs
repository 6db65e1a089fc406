//! Finding and listing names.

use super::state::{Directory, State, check_bytes};
use crate::permission::{self, EXECUTE, READ};
use crate::{Attr, Cred, DirEntry, DirPage, FsError, ObjectRef};
use bytes::Bytes;
use tally_base::ObjectId;

impl State {
    pub(super) fn look(&self, cred: &Cred, dir: ObjectRef, name: &[u8]) -> (Result<Attr, FsError>, Option<Attr>) {
        match self.directory(dir) {
            Ok((attr, directory)) => (self.look_in(cred, dir, attr, directory, name), Some(attr.clone())),
            Err(error) => (Err(error), None),
        }
    }

    fn look_in(
        &self,
        cred: &Cred,
        dir: ObjectRef,
        attr: &Attr,
        directory: &Directory,
        name: &[u8],
    ) -> Result<Attr, FsError> {
        if !permission::may(attr, cred, EXECUTE) {
            return Err(FsError::Access);
        }
        check_bytes(name)?;
        let id = match name {
            b"." => dir.id,
            b".." => directory.parent,
            _ => directory.find(name).ok_or(FsError::NotFound)?,
        };
        self.by_id(id)
    }

    pub(super) fn readdir(
        &self,
        cred: &Cred,
        dir: ObjectRef,
        cookie: u64,
        entries_max: usize,
        plus: bool,
    ) -> Result<DirPage, FsError> {
        let (attr, directory) = self.directory(dir)?;
        if !permission::may(attr, cred, READ) {
            return Err(FsError::Access);
        }
        let plus = plus && permission::may(attr, cred, EXECUTE);
        let dots = [(1, &b"."[..], dir.id), (2, b"..", directory.parent)].into_iter();
        let named = directory.entries.iter().map(|(entry, (name, object))| (*entry, &name[..], *object));
        let mut behind = dots.chain(named).filter(|(entry, ..)| *entry > cookie);
        let entries = behind
            .by_ref()
            .take(entries_max)
            .map(|(cookie, name, object)| DirEntry {
                cookie,
                name: Bytes::copy_from_slice(name),
                object,
                attr: if plus { self.by_id(object).ok() } else { None },
            })
            .collect();
        Ok(DirPage { entries, eof: behind.next().is_none(), attr: attr.clone() })
    }

    fn by_id(&self, id: ObjectId) -> Result<Attr, FsError> {
        self.inodes.get(&id).map(|inode| inode.attr.clone()).ok_or(FsError::Stale)
    }
}
