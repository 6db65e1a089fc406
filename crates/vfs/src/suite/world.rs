//! A file system under test, with short words for its operations.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::{
    Attr, Change, CreateHow, Cred, FoundAt, FsError, NodeKind, ObjectRef, OpCtx, Outcome, SetAttr, Sought, Stability,
    Vfs,
};

/// An ordinary user, and another one.
pub(super) const ALICE: u32 = 1000;
pub(super) const BOB: u32 = 1001;
/// Admission may be refused this often before a case gives up.
const ADMISSION_TRIES: usize = 100;

pub(super) struct World {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) root: ObjectRef,
}

/// A credential; the primary group has the user's number.
pub(super) fn user(uid: u32, groups: &[u32]) -> Cred {
    Cred { uid, gid: uid, groups: SmallVec::from_slice(groups), checked: false }
}

pub(super) fn mode(mode: u32) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

pub(super) fn guarded(bits: u32) -> CreateHow {
    CreateHow::Guarded(mode(bits))
}

impl World {
    pub(super) fn new(vfs: Arc<dyn Vfs>) -> Self {
        Self { root: vfs.root(), vfs }
    }

    /// Runs a modifying operation to its end: admission is asked for again, the promise is waited for.
    pub(super) fn run<T>(
        &self,
        cred: &Cred,
        op: impl Fn(OpCtx<'_>) -> Outcome<T>,
    ) -> (Result<T, FsError>, Vec<Change>) {
        for _ in 0..ADMISSION_TRIES {
            let outcome = op(OpCtx::of(cred));
            outcome.wait.block().expect("the promise is kept");
            if !matches!(outcome.result, Err(FsError::Throttled)) {
                return (outcome.result, outcome.changes.to_vec());
            }
        }
        panic!("admission was refused {ADMISSION_TRIES} times");
    }

    /// The same with a context of the caller's, of which the result alone is asked.
    pub(super) fn run_in<T>(&self, ctx: OpCtx<'_>, op: impl Fn(OpCtx<'_>) -> Outcome<T>) -> Result<T, FsError> {
        self.run(ctx.cred, |_| op(ctx)).0
    }

    pub(super) fn create_as(&self, cred: &Cred, dir: ObjectRef, name: &str, how: &CreateHow) -> Result<Attr, FsError> {
        self.run(cred, |ctx| self.vfs.create(ctx, dir, name.as_bytes(), how)).0
    }

    pub(super) fn mkdir_as(&self, cred: &Cred, dir: ObjectRef, name: &str, bits: u32) -> Result<Attr, FsError> {
        self.run(cred, |ctx| self.vfs.mkdir(ctx, dir, name.as_bytes(), &mode(bits))).0
    }

    pub(super) fn setattr_as(&self, cred: &Cred, object: ObjectRef, set: &SetAttr) -> Result<(), FsError> {
        self.run(cred, |ctx| self.vfs.setattr(ctx, object, set, None)).0
    }

    pub(super) fn write_as(&self, cred: &Cred, file: ObjectRef, offset: u64, data: &[u8]) -> Result<(), FsError> {
        let data = Bytes::copy_from_slice(data);
        self.run(cred, |ctx| self.vfs.write(ctx, file, offset, data.clone(), Stability::FileSync)).0.map(|_| ())
    }

    pub(super) fn remove_as(&self, cred: &Cred, dir: ObjectRef, name: &str) -> Result<(), FsError> {
        self.run(cred, |ctx| self.vfs.remove(ctx, dir, name.as_bytes())).0
    }

    pub(super) fn rmdir_as(&self, cred: &Cred, dir: ObjectRef, name: &str) -> Result<(), FsError> {
        self.run(cred, |ctx| self.vfs.rmdir(ctx, dir, name.as_bytes())).0
    }

    pub(super) fn rename_as(
        &self,
        cred: &Cred,
        (from_dir, from): (ObjectRef, &str),
        (to_dir, to): (ObjectRef, &str),
    ) -> Result<(), FsError> {
        self.run(cred, |ctx| self.vfs.rename(ctx, from_dir, from.as_bytes(), to_dir, to.as_bytes())).0
    }

    pub(super) fn link_as(&self, cred: &Cred, object: ObjectRef, dir: ObjectRef, name: &str) -> Result<Attr, FsError> {
        self.run(cred, |ctx| self.vfs.link(ctx, object, dir, name.as_bytes())).0
    }

    pub(super) fn symlink(&self, dir: ObjectRef, name: &str, target: &[u8]) -> Result<Attr, FsError> {
        self.run(&Cred::root(), |ctx| self.vfs.symlink(ctx, dir, name.as_bytes(), target, &SetAttr::default())).0
    }

    pub(super) fn mknod_as(&self, cred: &Cred, name: &str, node: NodeKind) -> Result<Attr, FsError> {
        self.run(cred, |ctx| self.vfs.mknod(ctx, self.root, name.as_bytes(), node, &mode(0o644))).0
    }

    /// A file made by the superuser.
    pub(super) fn file(&self, dir: ObjectRef, name: &str) -> ObjectRef {
        self.create_as(&Cred::root(), dir, name, &guarded(0o644)).expect("a fresh name").object
    }

    /// A directory made by the superuser.
    pub(super) fn dir(&self, dir: ObjectRef, name: &str) -> ObjectRef {
        self.mkdir_as(&Cred::root(), dir, name, 0o755).expect("a fresh name").object
    }

    /// A directory in which everybody may write.
    pub(super) fn open_dir(&self, name: &str, bits: u32) -> ObjectRef {
        self.mkdir_as(&Cred::root(), self.root, name, bits).expect("a fresh name").object
    }

    pub(super) fn attr(&self, object: ObjectRef) -> Attr {
        self.vfs.getattr(object).expect("the object is there")
    }

    pub(super) fn find(&self, dir: ObjectRef, name: &str) -> Result<ObjectRef, FsError> {
        self.vfs.lookup(&Cred::root(), dir, name.as_bytes()).map(|(attr, _)| attr.object)
    }

    pub(super) fn read(&self, file: ObjectRef, offset: u64, count: u32) -> (Vec<u8>, bool) {
        let found = self.vfs.read(&Cred::root(), file, offset, count).expect("a readable file");
        (found.data.concat(), found.eof)
    }

    pub(super) fn seek(&self, file: ObjectRef, offset: u64, what: Sought) -> Result<FoundAt, FsError> {
        self.vfs.seek(OpCtx::of(&Cred::root()), file, offset, what)
    }

    /// Names of a directory without the dots, in the order of the listing.
    pub(super) fn names(&self, dir: ObjectRef) -> Vec<String> {
        let page = self.vfs.readdir(&Cred::root(), dir, 0, 10_000, false).expect("a directory");
        assert!(page.eof, "ten thousand entries are enough for these tests");
        let names = page.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned());
        names.filter(|name| name != "." && name != "..").collect()
    }
}
