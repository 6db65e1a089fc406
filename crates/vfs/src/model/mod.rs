//! A file system in memory: the oracle that the real one and the protocol are held against.
//!
//! Everything is a `BTreeMap` under one mutex, every operation runs from its checks to its end under that
//! mutex, nothing waits, nothing is lost. It is slow and obviously right; where it and the real file system
//! differ, one of them has a bug, and `suite` is the list of what both must do.
//!
//! Promises are kept at once, since there is nothing that could lose the data but the end of the process; a test may have others given ([`Model::promise`]).

mod content;
mod delegations;
mod locks;
mod make;
mod names;
mod opens;
mod remove;
mod setattr;
mod state;
mod xattrs;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tally_base::{
    Clock, DatasetId, Known, ObjectId, PoolGuid, Rng, SessionBytes, SlotMark, SystemClock, SystemRng, Time, Wait,
};

use crate::locks::{Kind, Lock, NotLocked, Range, Watch};
use crate::{
    Attr, Attributes, Change, ClientNumber, Content, CreateHow, Cred, Delegation, Delegations, DirPage, FoundAt,
    FsError, FsStat, Gives, Holder, Identity, Locks, MountNumber, Names, NodeKind, ObjectRef, OpCtx, Opened, Opening,
    Opens, Outcome, ReadOut, RememberedReply, Replies, ReplyKey, SetAttr, SetXattr, Share, Sought, Stability, ToOpen,
    Written, XattrName, Xattrs,
};
use state::State;

/// What a [`Model`] is made of.
pub struct ModelOptions {
    /// The pool it claims to be in.
    pub pool: PoolGuid,
    /// The dataset it claims to be.
    pub dataset: DatasetId,
    /// Owner of the root directory.
    pub root_owner: (u32, u32),
    /// Mode of the root directory.
    pub root_mode: u32,
    /// Most bytes of file content.
    pub quota_bytes: Option<u64>,
    /// Whether every change answers [`FsError::ReadOnly`].
    pub read_only: bool,
    /// Where times come from.
    pub clock: Arc<dyn Clock>,
    /// Where generations and the verifier come from.
    pub rng: Arc<dyn Rng>,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            pool: PoolGuid(1),
            dataset: DatasetId(1),
            root_owner: (0, 0),
            root_mode: 0o755,
            quota_bytes: None,
            read_only: false,
            clock: Arc::new(SystemClock::default()),
            rng: Arc::new(SystemRng),
        }
    }
}

/// Answers by what equal requests have in common, each with its sender's number; the last one last.
type Remembered = BTreeMap<[u8; ReplyKey::COMMON_BYTES], Vec<(u64, RememberedReply)>>;

/// An in-memory [`Vfs`](crate::Vfs).
pub struct Model {
    pool: PoolGuid,
    dataset: DatasetId,
    mount: MountNumber,
    root: ObjectRef,
    state: Mutex<State>,
    remembered: Mutex<Remembered>,
    performed: Mutex<BTreeMap<SlotMark, RememberedReply>>,
    watchers: Mutex<Vec<Weak<dyn Watch>>>,
    promises: Mutex<Option<Promises>>,
    before_watch: Mutex<Option<Meanwhile>>,
    before_look: Mutex<Option<Meanwhile>>,
}

/// What happens where somebody else is quicker.
type Meanwhile = Box<dyn FnOnce(&Model) + Send>;

/// What changes wait for.
type Promises = Box<dyn Fn() -> Wait + Send>;

impl Default for Model {
    fn default() -> Self {
        Self::new(&ModelOptions::default())
    }
}

impl Model {
    /// An empty file system.
    #[must_use]
    pub fn new(options: &ModelOptions) -> Self {
        let (state, root) = State::new(options);
        Self {
            pool: options.pool,
            dataset: options.dataset,
            mount: MountNumber::draw(),
            root,
            state: Mutex::new(state),
            remembered: Mutex::default(),
            performed: Mutex::default(),
            watchers: Mutex::default(),
            promises: Mutex::default(),
            before_watch: Mutex::default(),
            before_look: Mutex::default(),
        }
    }

    /// Another model in the same state; from here on they know nothing of each other.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            pool: self.pool,
            dataset: self.dataset,
            mount: MountNumber::draw(),
            root: self.root,
            state: Mutex::new(self.state().clone()),
            remembered: Mutex::new(self.remembered.lock().clone()),
            performed: Mutex::new(self.performed.lock().clone()),
            watchers: Mutex::default(),
            promises: Mutex::default(),
            before_watch: Mutex::default(),
            before_look: Mutex::default(),
        }
    }

    /// The same, of which nobody has anything open: it is mounted anew.
    #[must_use]
    pub fn mounted_anew(&self) -> Self {
        let anew = self.fork();
        anew.state().forget_opens();
        anew
    }

    /// Takes away write access, or gives it back.
    pub fn set_read_only(&self, read_only: bool) {
        self.state().read_only = read_only;
    }

    /// What each change waits for from now on.
    pub fn promise(&self, promises: impl Fn() -> Wait + Send + 'static) {
        *self.promises.lock() = Some(Box::new(promises));
    }

    /// Something happens just before the next who wants to be told of what is freed is told of anything.
    pub fn before_watch(&self, meanwhile: impl FnOnce(&Self) + Send + 'static) {
        *self.before_watch.lock() = Some(Box::new(meanwhile));
    }

    /// Something happens just before the next look at an object, or the next open of one: of a disk that hangs.
    pub fn before_look(&self, meanwhile: impl FnOnce(&Self) + Send + 'static) {
        *self.before_look.lock() = Some(Box::new(meanwhile));
    }

    fn looks(&self) {
        let meanwhile = self.before_look.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile(self);
        }
    }

    /// Has room for so many bytes from now on.
    pub fn set_quota(&self, bytes: Option<u64>) {
        self.state().quota_bytes = bytes;
    }

    /// Gives clients no delegations from now on, or does.
    pub fn set_giving(&self, gives: bool) {
        self.set_gives(if gives { Gives::Yes } else { Gives::No });
    }

    /// The same, of all kinds.
    pub fn set_gives(&self, gives: Gives) {
        self.state().gives = gives;
    }

    /// Something may be free there.
    fn freed(&self, object: ObjectRef, range: Range) {
        let watchers = self.watchers.lock().clone();
        watchers.iter().filter_map(Weak::upgrade).for_each(|watch| watch.freed(object.id, range));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Runs `op` under the mutex and takes the attributes of `around` before and after it.
    fn change<T>(
        &self,
        ctx: OpCtx<'_>,
        around: &[ObjectRef],
        made: impl FnOnce(&T) -> Option<ObjectRef>,
        op: impl FnOnce(&mut State, &Cred) -> Result<T, FsError>,
    ) -> Outcome<T> {
        let mut state = self.state();
        let before: SmallVec<[_; 2]> = around.iter().map(|object| state.attr(*object).ok()).collect();
        let result = if state.read_only { Err(FsError::ReadOnly) } else { op(&mut state, ctx.cred) };
        let changes = around
            .iter()
            .zip(before)
            .map(|(object, before)| Change { before: before.as_ref().map(Into::into), after: state.attr(*object).ok() })
            .collect();
        if let Ok(value) = &result {
            let reply = RememberedReply { object: made(value) };
            if let Some(key) = ctx.reply {
                self.remembered.lock().entry(key.common()).or_default().push((key.number(), reply));
            }
            if let Some(mark) = ctx.mark {
                self.performed.lock().insert(mark, reply);
            }
        }
        let wait = self.promises.lock().as_ref().map_or(Wait::Ready, |promise| promise());
        Outcome { result, changes, wait }
    }
}

impl Identity for Model {
    fn pool(&self) -> PoolGuid {
        self.pool
    }

    fn dataset(&self) -> DatasetId {
        self.dataset
    }

    fn mount(&self) -> MountNumber {
        self.mount
    }

    fn root(&self) -> ObjectRef {
        self.root
    }

    fn is_read_only(&self) -> bool {
        self.state().read_only
    }
}

impl Attributes for Model {
    fn numbered(&self, id: ObjectId) -> Result<ObjectRef, FsError> {
        self.state().numbered(id)
    }

    fn getattr(&self, object: ObjectRef) -> Result<Attr, FsError> {
        self.looks();
        self.state().attr(object)
    }

    fn setattr(&self, ctx: OpCtx<'_>, object: ObjectRef, set: &SetAttr, guard: Option<Time>) -> Outcome<()> {
        self.change(ctx, &[object], |()| Some(object), |state, _| state.setattr(ctx, object, set, guard))
    }

    fn statfs(&self) -> Result<FsStat, FsError> {
        Ok(self.state().statfs())
    }
}

impl Names for Model {
    fn look(&self, cred: &Cred, dir: ObjectRef, name: &[u8]) -> (Result<Attr, FsError>, Option<Attr>) {
        self.state().look(cred, dir, name)
    }

    fn readdir(
        &self,
        cred: &Cred,
        dir: ObjectRef,
        cookie: u64,
        entries_max: usize,
        plus: bool,
    ) -> Result<DirPage, FsError> {
        self.state().readdir(cred, dir, cookie, entries_max, plus)
    }

    fn create(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], how: &CreateHow) -> Outcome<Attr> {
        self.change(ctx, &[dir], |attr: &Attr| Some(attr.object), |state, _| state.create(ctx, dir, name, how))
    }

    fn mkdir(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], set: &SetAttr) -> Outcome<Attr> {
        self.change(ctx, &[dir], |attr: &Attr| Some(attr.object), |state, cred| state.mkdir(cred, dir, name, set))
    }

    fn symlink(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], target: &[u8], set: &SetAttr) -> Outcome<Attr> {
        self.change(
            ctx,
            &[dir],
            |attr: &Attr| Some(attr.object),
            |state, cred| state.symlink(cred, dir, name, target, set),
        )
    }

    fn mknod(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], node: NodeKind, set: &SetAttr) -> Outcome<Attr> {
        self.change(ctx, &[dir], |attr: &Attr| Some(attr.object), |state, cred| state.mknod(cred, dir, name, node, set))
    }

    fn remove(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8]) -> Outcome<()> {
        self.change(ctx, &[dir], |()| None, |state, _| state.remove(ctx, dir, name))
    }

    fn rmdir(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8]) -> Outcome<()> {
        self.change(ctx, &[dir], |()| None, |state, cred| state.rmdir(cred, dir, name))
    }

    fn rename(&self, ctx: OpCtx<'_>, from_dir: ObjectRef, from: &[u8], to_dir: ObjectRef, to: &[u8]) -> Outcome<()> {
        let around = [from_dir, to_dir];
        self.change(ctx, &around, |()| None, |state, _| state.rename(ctx, from_dir, from, to_dir, to, true))
    }

    fn rename_to_new(
        &self,
        ctx: OpCtx<'_>,
        from_dir: ObjectRef,
        from: &[u8],
        to_dir: ObjectRef,
        to: &[u8],
    ) -> Outcome<()> {
        let around = [from_dir, to_dir];
        self.change(ctx, &around, |()| None, |state, _| state.rename(ctx, from_dir, from, to_dir, to, false))
    }

    fn link(&self, ctx: OpCtx<'_>, object: ObjectRef, dir: ObjectRef, name: &[u8]) -> Outcome<Attr> {
        self.change(ctx, &[dir], |attr: &Attr| Some(attr.object), |state, _| state.link(ctx, object, dir, name))
    }
}

impl Model {
    /// The server starts anew: nobody has anything open.
    pub fn forget_opens(&self) {
        self.state().forget_opens();
    }

    /// The same as behind a crash: what was written and not committed may be lost, which the verifier says.
    pub fn crash(&self) {
        let mut state = self.state();
        state.forget_opens();
        state.verifier = state.verifier.wrapping_add(1);
    }
}

impl Opens for Model {
    fn open(&self, ctx: OpCtx<'_>, what: ToOpen<'_>, opening: Opening<'_>) -> Outcome<Opened> {
        match what {
            ToOpen::Made(dir, name, how) => {
                let made = |opened: &Opened| Some(opened.attr.object);
                self.change(ctx, &[dir], made, |state, cred| state.make_open(cred, (dir, name, how), opening))
            }
            ToOpen::Itself(object) | ToOpen::Again(object) => {
                self.looks();
                let is_again = matches!(what, ToOpen::Again(_));
                let result = self.state().open((ctx.cred, is_again), object, opening);
                Outcome { result, changes: SmallVec::new(), wait: Wait::Ready }
            }
        }
    }

    fn downgrade(&self, object: ObjectRef, holder: Holder, left: Share) -> Result<(), FsError> {
        self.state().downgrade(object, holder, left)
    }

    fn in_the_way(&self, object: ObjectRef, who: Option<Holder>, share: Share) -> Vec<ClientNumber> {
        self.state().in_the_way(object, who, share)
    }

    fn close(&self, object: ObjectRef, holder: Holder) {
        self.state().close(object, holder);
        self.freed(object, Range::ALL);
    }
}

impl Delegations for Model {
    fn gives(&self, _: Delegation) -> Gives {
        self.state().gives
    }

    fn delegated(&self, object: ObjectRef) -> SmallVec<[(ClientNumber, Delegation); 1]> {
        self.state().delegated(object)
    }

    fn give_back(&self, object: ObjectRef, client: ClientNumber) {
        self.state().give_back(object, client);
        self.freed(object, Range::ALL);
    }
}

impl Locks for Model {
    fn lock_range(&self, object: ObjectRef, below: Holder, wanted: Lock) -> Result<(), NotLocked> {
        self.state().lock_range(object, below, wanted)?;
        self.locked(object, wanted);
        Ok(())
    }

    fn lock_unopened(&self, object: ObjectRef, wanted: Lock) -> Result<(), NotLocked> {
        self.state().lock_unopened(object, wanted)?;
        self.locked(object, wanted);
        Ok(())
    }

    fn unlock_range(&self, object: ObjectRef, holder: Holder, range: Range) -> Result<(), FsError> {
        self.state().unlock_range(object, holder, range);
        self.freed(object, range);
        Ok(())
    }

    fn test_range(&self, object: ObjectRef, wanted: Lock) -> Result<(), NotLocked> {
        self.state().test_range(object, wanted)
    }

    fn ranges(&self, object: ObjectRef, holder: Holder, most: usize) -> Vec<Lock> {
        self.state().ranges(object, holder, most)
    }

    fn has_ranges(&self, object: ObjectRef, holder: Holder) -> bool {
        self.state().has_ranges(object, holder)
    }

    fn watch(&self, watch: &Weak<dyn Watch>) {
        let meanwhile = self.before_watch.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile(self);
        }
        let mut watchers = self.watchers.lock();
        if !watchers.iter().any(|known| known.ptr_eq(watch)) {
            watchers.push(Weak::clone(watch));
        }
    }
}

impl Model {
    /// Where somebody had it for writing others may read now.
    fn locked(&self, object: ObjectRef, lock: Lock) {
        if lock.kind == Kind::Read {
            self.freed(object, lock.range);
        }
    }
}

impl Content for Model {
    fn readlink(&self, object: ObjectRef) -> Result<(Bytes, Attr), FsError> {
        self.state().readlink(object)
    }

    fn read_by(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, count: u32) -> Result<ReadOut, FsError> {
        self.state().read(ctx, object, offset, count)
    }

    fn seek(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, what: Sought) -> Result<FoundAt, FsError> {
        self.state().seek(ctx, object, offset, what)
    }

    fn write(
        &self,
        ctx: OpCtx<'_>,
        object: ObjectRef,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Outcome<Written> {
        self.change(ctx, &[object], |_| Some(object), |state, _| state.write(ctx, object, offset, &data, stability))
    }

    fn deallocate(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, length: u64) -> Outcome<()> {
        self.change(ctx, &[object], |()| Some(object), |state, _| state.deallocate(ctx, object, offset, length))
    }

    fn allocate(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, length: u64) -> Outcome<()> {
        self.change(ctx, &[object], |()| Some(object), |state, _| state.allocate(ctx, object, offset, length))
    }

    fn commit(&self, ctx: OpCtx<'_>, object: ObjectRef, _offset: u64, _count: u32) -> Outcome<u64> {
        self.change(ctx, &[object], |_| Some(object), |state, _| state.commit(ctx, object))
    }
}

impl Xattrs for Model {
    fn xattr(&self, cred: &Cred, object: ObjectRef, name: &[u8]) -> Result<Bytes, FsError> {
        self.state().xattr(cred, object, name)
    }

    fn list_xattrs(&self, cred: &Cred, object: ObjectRef, cookie: u64) -> Result<Vec<XattrName>, FsError> {
        self.state().list_xattrs(cred, object, cookie)
    }

    fn set_xattr(&self, ctx: OpCtx<'_>, object: ObjectRef, name: &[u8], value: &[u8], how: SetXattr) -> Outcome<()> {
        self.change(ctx, &[object], |()| Some(object), |state, _| state.set_xattr(ctx, object, (name, value), how))
    }

    fn remove_xattr(&self, ctx: OpCtx<'_>, object: ObjectRef, name: &[u8]) -> Outcome<()> {
        self.change(ctx, &[object], |()| Some(object), |state, _| state.remove_xattr(ctx, object, name))
    }
}

impl Replies for Model {
    fn remembered_of(&self, key: &ReplyKey, is_his: &dyn Fn(u64) -> bool) -> Option<RememberedReply> {
        let remembered = self.remembered.lock();
        let equal = remembered.get(&key.common())?;
        equal.iter().rev().find(|(number, _)| is_his(*number)).map(|(_, reply)| *reply)
    }

    fn performed(&self, mark: &SlotMark) -> Option<RememberedReply> {
        self.performed.lock().get(mark).copied()
    }

    fn known(&self, mark: &SlotMark) -> Known {
        let of = |known: &SlotMark| match known.session == mark.session {
            true if SlotMark { operation: mark.operation, ..*known } == *mark => Known::Request,
            true => Known::Session,
            false => Known::Nothing,
        };
        self.performed.lock().keys().map(of).max().unwrap_or_default()
    }

    fn forget_session(&self, session: &SessionBytes) {
        self.performed.lock().retain(|mark, _| mark.session != *session);
    }

    // Nothing of them ages here.
    fn keep_sessions(&self, _living: &[SessionBytes]) {}
}

#[cfg(test)]
mod tests;
