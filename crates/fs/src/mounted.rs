//! A mounted dataset behind the door that protocol servers use.
//!
//! What cannot be read is an I/O error. In a pool that is suspended, and whose clients wait for it, that says nothing of what they
//! have asked for: the disk that does not give it may be the one that is awaited. So there, whatever failed for want of a read is to be
//! asked again, as a change is that was not let in; it has done nothing (docs/design/0063).
//!
//! What does the work has the verb's own name, as a method of the file system beside the door's: in here that one comes first.

use std::sync::Weak;

use bytes::Bytes;
use smallvec::SmallVec;
use tally_base::{DatasetId, Known, ObjectId, PoolGuid, SessionBytes, SlotMark, Time};
use tally_store::pool::NotServing;
use tally_store::properties::Delegating;
use tally_vfs::locks::{Lock, NotLocked, Range, Watch};
use tally_vfs::{
    Attr, Attributes, ClientNumber, Content, CreateHow, Cred, Delegation, Delegations, DirPage, FoundAt, FsError,
    FsStat, Gives, Holder, Identity, Locks, MountNumber, Names, NodeKind, ObjectRef, OpCtx, Opened, Opening, Opens,
    Outcome, ReadOut, RememberedReply, Replies, ReplyKey, SetAttr, SetXattr, Share, Sought, Stability, ToOpen, Written,
    XattrName, Xattrs,
};

use crate::filesystem::Filesystem;
use crate::ops::{IfThere, Removal};

impl Identity for Filesystem {
    fn pool(&self) -> PoolGuid {
        self.pool.guid()
    }

    fn dataset(&self) -> DatasetId {
        self.dataset.birth.id
    }

    fn mount(&self) -> MountNumber {
        self.claims.number()
    }

    fn root(&self) -> ObjectRef {
        self.root()
    }

    fn is_read_only(&self) -> bool {
        self.pool.read_only() || self.in_force().readonly
    }

    fn is_waited_for(&self) -> bool {
        self.pool.check_serving() == Err(NotServing::Wait)
    }
}

impl Attributes for Filesystem {
    fn numbered(&self, id: ObjectId) -> Result<ObjectRef, FsError> {
        self.attr_of(id).map(|attr| attr.object).map_err(|error| self.awaited(error))
    }

    fn getattr(&self, object: ObjectRef) -> Result<Attr, FsError> {
        self.getattr(object).map_err(|error| self.awaited(error))
    }

    fn setattr(&self, ctx: OpCtx<'_>, object: ObjectRef, set: &SetAttr, guard: Option<Time>) -> Outcome<()> {
        self.outcome(self.setattr(ctx, object, set, guard))
    }

    fn statfs(&self) -> Result<FsStat, FsError> {
        Ok(self.statfs())
    }
}

impl Names for Filesystem {
    fn look(&self, cred: &Cred, dir: ObjectRef, name: &[u8]) -> (Result<Attr, FsError>, Option<Attr>) {
        let (found, dir) = self.look(cred, dir, name);
        (found.map_err(|error| self.awaited(error)), dir)
    }

    fn readdir(
        &self,
        cred: &Cred,
        dir: ObjectRef,
        cookie: u64,
        entries_max: usize,
        plus: bool,
    ) -> Result<DirPage, FsError> {
        self.readdir(cred, dir, cookie, entries_max, plus).map_err(|error| self.awaited(error))
    }

    fn is_covered(&self, dir: ObjectRef) -> bool {
        self.is_mountpoint(dir.id)
    }

    fn create(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], how: &CreateHow) -> Outcome<Attr> {
        self.outcome(self.create(ctx, dir, name, how))
    }

    fn mkdir(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], set: &SetAttr) -> Outcome<Attr> {
        self.outcome(self.mkdir(ctx, dir, name, set))
    }

    fn symlink(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], target: &[u8], set: &SetAttr) -> Outcome<Attr> {
        self.outcome(self.symlink(ctx, dir, name, target, set))
    }

    fn mknod(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], node: NodeKind, set: &SetAttr) -> Outcome<Attr> {
        self.outcome(self.mknod(ctx, dir, name, node, set))
    }

    fn remove(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8]) -> Outcome<()> {
        self.outcome(self.remove_name(ctx, dir, name, Removal::Name))
    }

    fn rmdir(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8]) -> Outcome<()> {
        self.outcome(self.remove_name(ctx, dir, name, Removal::Directory))
    }

    fn rename(&self, ctx: OpCtx<'_>, from_dir: ObjectRef, from: &[u8], to_dir: ObjectRef, to: &[u8]) -> Outcome<()> {
        self.outcome(self.rename(ctx, (from_dir, from), (to_dir, to), IfThere::Replaced))
    }

    fn rename_to_new(
        &self,
        ctx: OpCtx<'_>,
        from_dir: ObjectRef,
        from: &[u8],
        to_dir: ObjectRef,
        to: &[u8],
    ) -> Outcome<()> {
        self.outcome(self.rename(ctx, (from_dir, from), (to_dir, to), IfThere::Refused))
    }

    fn link(&self, ctx: OpCtx<'_>, object: ObjectRef, dir: ObjectRef, name: &[u8]) -> Outcome<Attr> {
        self.outcome(self.link(ctx, object, dir, name))
    }
}

impl Opens for Filesystem {
    fn open(&self, ctx: OpCtx<'_>, what: ToOpen<'_>, opening: Opening<'_>) -> Outcome<Opened> {
        self.outcome(self.open(ctx, what, opening))
    }

    fn downgrade(&self, object: ObjectRef, holder: Holder, left: Share) -> Result<(), FsError> {
        self.downgrade(object, holder, left)
    }

    fn in_the_way(&self, object: ObjectRef, who: Option<Holder>, share: Share) -> Vec<ClientNumber> {
        self.claims.get().map_or_else(Vec::new, |claims| claims.in_the_way(object.id, who, share))
    }

    fn close(&self, object: ObjectRef, holder: Holder) {
        self.close(object, holder);
    }
}

impl Delegations for Filesystem {
    fn gives(&self, kind: Delegation) -> Gives {
        match (self.in_force().delegations, kind) {
            (Delegating::Off, _) => Gives::No,
            (Delegating::Auto, Delegation::Write) => Gives::AmongClients,
            (Delegating::Auto, Delegation::Read) | (Delegating::On, _) => Gives::Yes,
        }
    }

    fn delegated(&self, object: ObjectRef) -> SmallVec<[(ClientNumber, Delegation); 1]> {
        self.claims.get().map_or_else(SmallVec::new, |claims| claims.delegated(object.id))
    }

    fn give_back(&self, object: ObjectRef, client: ClientNumber) {
        if let Some(claims) = self.claims.get() {
            claims.give_back(object.id, client);
        }
    }
}

impl Locks for Filesystem {
    fn lock_range(&self, object: ObjectRef, below: Holder, wanted: Lock) -> Result<(), NotLocked> {
        self.lock_range(object, below, wanted).map_err(|error| self.awaited_by_lock(error))
    }

    fn lock_unopened(&self, object: ObjectRef, wanted: Lock) -> Result<(), NotLocked> {
        self.lock_unopened(object, wanted).map_err(|error| self.awaited_by_lock(error))
    }

    fn unlock_range(&self, object: ObjectRef, holder: Holder, range: Range) -> Result<(), FsError> {
        self.unlock_range(object, holder, range)
    }

    fn test_range(&self, object: ObjectRef, wanted: Lock) -> Result<(), NotLocked> {
        self.test_range(object, wanted).map_err(|error| self.awaited_by_lock(error))
    }

    fn ranges(&self, object: ObjectRef, holder: Holder, most: usize) -> Vec<Lock> {
        self.ranges(object, holder, most)
    }

    fn has_ranges(&self, object: ObjectRef, holder: Holder) -> bool {
        self.has_ranges(object, holder)
    }

    fn watch(&self, watch: &Weak<dyn Watch>) {
        self.claims.get_or_init().watch(watch);
    }
}

impl Content for Filesystem {
    fn readlink(&self, object: ObjectRef) -> Result<(Bytes, Attr), FsError> {
        self.readlink(object).map_err(|error| self.awaited(error))
    }

    fn read_by(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, count: u32) -> Result<ReadOut, FsError> {
        self.read_by(ctx, object, offset, count).map_err(|error| self.awaited(error))
    }

    fn seek(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, what: Sought) -> Result<FoundAt, FsError> {
        self.seek(ctx, object, offset, what).map_err(|error| self.awaited(error))
    }

    fn write(
        &self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Outcome<Written> {
        self.outcome(self.write(ctx, object, offset, &data, stability))
    }

    fn deallocate(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, length: u64) -> Outcome<()> {
        self.outcome(self.deallocate(ctx, object, offset, length))
    }

    fn allocate(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, length: u64) -> Outcome<()> {
        self.outcome(self.allocate(ctx, object, offset, length))
    }

    fn commit(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, count: u32) -> Outcome<u64> {
        self.outcome(self.commit(ctx, object, offset, count))
    }
}

impl Xattrs for Filesystem {
    fn xattr(&self, cred: &Cred, object: ObjectRef, name: &[u8]) -> Result<Bytes, FsError> {
        self.xattr(cred, object, name).map_err(|error| self.awaited(error))
    }

    fn list_xattrs(&self, cred: &Cred, object: ObjectRef, cookie: u64) -> Result<Vec<XattrName>, FsError> {
        self.list_xattrs(cred, object, cookie).map_err(|error| self.awaited(error))
    }

    fn set_xattr(&self, ctx: OpCtx<'_>, object: ObjectRef, name: &[u8], value: &[u8], how: SetXattr) -> Outcome<()> {
        self.outcome(self.set_xattr(ctx, object, name, value, how))
    }

    fn remove_xattr(&self, ctx: OpCtx<'_>, object: ObjectRef, name: &[u8]) -> Outcome<()> {
        self.outcome(self.remove_xattr(ctx, object, name))
    }
}

impl Filesystem {
    fn outcome<T>(&self, outcome: Outcome<T>) -> Outcome<T> {
        Outcome { result: outcome.result.map_err(|error| self.awaited(error)), ..outcome }
    }

    /// What is told of an error.
    fn awaited(&self, error: FsError) -> FsError {
        if error == FsError::Io && self.is_waited_for() { FsError::Unavailable } else { error }
    }

    fn awaited_by_lock(&self, refused: NotLocked) -> NotLocked {
        match refused {
            NotLocked::Failed(error) => self.awaited(error).into(),
            held => held,
        }
    }
}

impl Replies for Filesystem {
    fn remembered_of(&self, key: &ReplyKey, is_his: &dyn Fn(u64) -> bool) -> Option<RememberedReply> {
        self.remembered_of(key, is_his)
    }

    fn performed(&self, mark: &SlotMark) -> Option<RememberedReply> {
        self.performed(mark)
    }

    fn known(&self, mark: &SlotMark) -> Known {
        self.pool.marks.known(mark)
    }

    fn forget_session(&self, session: &SessionBytes) {
        self.pool.marks.forget(session);
    }

    fn keep_sessions(&self, living: &[SessionBytes]) {
        self.pool.marks.keep(living);
    }
}
