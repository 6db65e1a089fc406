//! A file system that can be held: reads behind a gate, promises kept by hand, admission refused.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tally_base::{
    Broken, DatasetId, Fate, Kept, Known, ObjectId, PoolGuid, Promise, SessionBytes, SlotMark, Time, Wait, blocking,
};
use tally_vfs::locks::{Lock, NotLocked, Range, Watch};
use tally_vfs::model::Model;
use tally_vfs::*;

type Then = Box<dyn FnOnce(Fate) + Send>;
type Intruder = Box<dyn FnOnce(&Model) + Send>;

#[derive(Default)]
pub struct Gate {
    shut: Mutex<bool>,
    changed: Condvar,
    pub waiting: AtomicUsize,
}

impl Gate {
    pub fn shut(&self) {
        *self.shut.lock() = true;
    }

    pub fn open(&self) {
        *self.shut.lock() = false;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut shut = self.shut.lock();
        self.waiting.fetch_add(1, SeqCst);
        // As the engine does where it reads from a device.
        blocking(|| {
            while *shut {
                self.changed.wait(&mut shut);
            }
        });
        self.waiting.fetch_sub(1, SeqCst);
    }
}

/// What happens to the promises that modifying operations give.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Promises {
    /// None is given: everything is ready.
    Ready,
    /// Kept by whoever drives them.
    Driven,
    /// Kept when the test says so.
    ByHand,
    /// Broken.
    Broken,
    /// A bug in whoever keeps them.
    Panics,
}

pub struct Gated {
    pub model: Arc<Model>,
    pub reads: Gate,
    pub promises: Mutex<Promises>,
    pub held: Arc<Mutex<VecDeque<Then>>>,
    /// Operations that were carried out.
    pub changes: AtomicUsize,
    /// Refuse admission this many times.
    pub throttle: AtomicUsize,
    /// Refuse it once behind so many changes.
    throttle_behind: AtomicUsize,
    pub panic_at_getattr: AtomicBool,
    pub panic_at_open: AtomicBool,
    /// A bug behind a lock that was given.
    pub panic_behind_lock: AtomicBool,
    pub panic_behind_open: AtomicBool,
    /// Its pool is suspended: what changes something waits.
    pub suspended: AtomicBool,
    /// Somebody else comes right behind the next look for a name.
    pub behind_a_look: Mutex<Option<Intruder>>,
    /// Something happens just before the next removal.
    pub before_remove: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Something happens just behind the next lock that is given.
    pub behind_a_lock: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Something happens just before the next range that is unlocked.
    pub before_an_unlock: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Something happens just behind the next file that is opened.
    pub behind_an_open: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// A bound of claims is met.
    pub too_many_claims: AtomicBool,
    /// Directories cannot be read for now.
    pub unlistable: AtomicBool,
    /// How often it was begun to list a directory, and what that waits for.
    pub listings: AtomicUsize,
    pub listing: Mutex<()>,
    /// The sessions that it was told live.
    pub kept_sessions: Mutex<Vec<SessionBytes>>,
}

struct Held {
    kind: Promises,
    held: Arc<Mutex<VecDeque<Then>>>,
}

impl Promise for Held {
    fn poll(&self) -> Option<Fate> {
        None
    }

    fn drive(&self) -> Option<Fate> {
        match self.kind {
            Promises::Driven => Some(Ok(Kept::default())),
            Promises::Broken => Some(Err(Broken("the test says so".into()))),
            Promises::Panics => panic!("a bug, planted by the test"),
            Promises::Ready | Promises::ByHand => None,
        }
    }

    fn then(self: Box<Self>, then: Then) {
        match self.drive() {
            Some(fate) => then(fate),
            None => self.held.lock().push_back(then),
        }
    }
}

impl Gated {
    pub fn new(model: Arc<Model>) -> Self {
        Self {
            model,
            reads: Gate::default(),
            promises: Mutex::new(Promises::Ready),
            held: Arc::default(),
            changes: AtomicUsize::new(0),
            throttle: AtomicUsize::new(0),
            throttle_behind: AtomicUsize::new(usize::MAX),
            panic_at_getattr: AtomicBool::new(false),
            panic_at_open: AtomicBool::new(false),
            panic_behind_lock: AtomicBool::new(false),
            panic_behind_open: AtomicBool::new(false),
            suspended: AtomicBool::new(false),
            behind_a_look: Mutex::default(),
            before_remove: Mutex::default(),
            too_many_claims: AtomicBool::new(false),
            behind_a_lock: Mutex::default(),
            before_an_unlock: Mutex::default(),
            behind_an_open: Mutex::default(),
            unlistable: AtomicBool::new(false),
            listings: AtomicUsize::new(0),
            listing: Mutex::new(()),
            kept_sessions: Mutex::default(),
        }
    }

    /// Admission is refused once, behind so many changes.
    pub fn throttle_behind(&self, changes: usize) {
        self.throttle_behind.store(self.changes.load(SeqCst) + changes, SeqCst);
    }

    /// Keeps the oldest promise that is held by hand.
    pub fn keep_one(&self) {
        let then = self.held.lock().pop_front().expect("a promise is held");
        then(Ok(Kept::default()));
    }

    /// Breaks the oldest promise that is held by hand.
    pub fn break_one(&self) {
        let then = self.held.lock().pop_front().expect("a promise is held");
        then(Err(Broken("the pool is suspended".into())));
    }

    /// Waits, without a clock, until so many promises are held.
    pub fn until_held(&self, count: usize) {
        while self.held.lock().len() < count {
            std::thread::yield_now();
        }
    }

    fn change<T>(&self, op: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        if self.suspended.load(SeqCst) {
            let changes = smallvec::SmallVec::new();
            return Outcome { result: Err(FsError::Unavailable), changes, wait: Wait::Ready };
        }
        if self.throttle_behind.load(SeqCst) == self.changes.load(SeqCst) {
            self.throttle_behind.store(usize::MAX, SeqCst);
            self.throttle.store(1, SeqCst);
        }
        if self.throttle.load(SeqCst) > 0 {
            self.throttle.fetch_sub(1, SeqCst);
            let by_hand = *self.promises.lock() == Promises::ByHand;
            let kind = if by_hand { Promises::ByHand } else { Promises::Driven };
            let wait = Wait::On(Box::new(Held { kind, held: self.held.clone() }));
            return Outcome { result: Err(FsError::Throttled), changes: smallvec::SmallVec::new(), wait };
        }
        self.changes.fetch_add(1, SeqCst);
        let mut outcome = op();
        let kind = *self.promises.lock();
        if kind != Promises::Ready {
            outcome.wait = Wait::On(Box::new(Held { kind, held: self.held.clone() }));
        }
        outcome
    }
}

impl Identity for Gated {
    fn pool(&self) -> PoolGuid {
        self.model.pool()
    }
    fn dataset(&self) -> DatasetId {
        self.model.dataset()
    }
    fn mount(&self) -> MountNumber {
        self.model.mount()
    }
    fn root(&self) -> ObjectRef {
        self.model.root()
    }
    fn is_read_only(&self) -> bool {
        self.model.is_read_only()
    }
    fn is_waited_for(&self) -> bool {
        self.suspended.load(SeqCst)
    }
}

impl Attributes for Gated {
    fn numbered(&self, id: ObjectId) -> Result<ObjectRef, FsError> {
        self.model.numbered(id)
    }
    fn getattr(&self, object: ObjectRef) -> Result<Attr, FsError> {
        assert!(!self.panic_at_getattr.load(SeqCst), "a bug, planted by the test");
        self.model.getattr(object)
    }
    fn setattr(&self, ctx: OpCtx<'_>, object: ObjectRef, set: &SetAttr, guard: Option<Time>) -> Outcome<()> {
        self.change(|| self.model.setattr(ctx, object, set, guard))
    }
    fn statfs(&self) -> Result<FsStat, FsError> {
        self.model.statfs()
    }
}

impl Names for Gated {
    fn look(&self, cred: &Cred, dir: ObjectRef, name: &[u8]) -> (Result<Attr, FsError>, Option<Attr>) {
        let seen = self.model.look(cred, dir, name);
        let then = self.behind_a_look.lock().take();
        if let Some(then) = then {
            then(&self.model);
        }
        seen
    }
    fn readdir(&self, cred: &Cred, dir: ObjectRef, cookie: u64, most: usize, plus: bool) -> Result<DirPage, FsError> {
        if self.unlistable.load(SeqCst) {
            return Err(FsError::Unavailable);
        }
        self.listings.fetch_add(1, SeqCst);
        drop(self.listing.lock());
        self.model.readdir(cred, dir, cookie, most, plus)
    }
    fn create(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], how: &CreateHow) -> Outcome<Attr> {
        self.change(|| self.model.create(ctx, dir, name, how))
    }
    fn mkdir(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], set: &SetAttr) -> Outcome<Attr> {
        self.change(|| self.model.mkdir(ctx, dir, name, set))
    }
    fn symlink(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], target: &[u8], set: &SetAttr) -> Outcome<Attr> {
        self.change(|| self.model.symlink(ctx, dir, name, target, set))
    }
    fn mknod(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8], node: NodeKind, set: &SetAttr) -> Outcome<Attr> {
        self.change(|| self.model.mknod(ctx, dir, name, node, set))
    }
    fn remove(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8]) -> Outcome<()> {
        let before = self.before_remove.lock().take();
        if let Some(before) = before {
            before();
        }
        self.change(|| self.model.remove(ctx, dir, name))
    }
    fn rmdir(&self, ctx: OpCtx<'_>, dir: ObjectRef, name: &[u8]) -> Outcome<()> {
        self.change(|| self.model.rmdir(ctx, dir, name))
    }
    fn rename(&self, ctx: OpCtx<'_>, from_dir: ObjectRef, from: &[u8], to_dir: ObjectRef, to: &[u8]) -> Outcome<()> {
        self.change(|| self.model.rename(ctx, from_dir, from, to_dir, to))
    }
    fn rename_to_new(
        &self,
        ctx: OpCtx<'_>,
        from_dir: ObjectRef,
        from: &[u8],
        to_dir: ObjectRef,
        to: &[u8],
    ) -> Outcome<()> {
        self.change(|| self.model.rename_to_new(ctx, from_dir, from, to_dir, to))
    }
    fn link(&self, ctx: OpCtx<'_>, object: ObjectRef, dir: ObjectRef, name: &[u8]) -> Outcome<Attr> {
        self.change(|| self.model.link(ctx, object, dir, name))
    }
}

impl Opens for Gated {
    fn open(&self, ctx: OpCtx<'_>, what: ToOpen<'_>, opening: Opening<'_>) -> Outcome<Opened> {
        assert!(!self.panic_at_open.swap(false, SeqCst), "a bug, planted by the test");
        if self.too_many_claims.load(SeqCst) {
            let changes = smallvec::SmallVec::new();
            return Outcome { result: Err(FsError::TooManyClaims), changes, wait: Wait::Ready };
        }
        let outcome = self.change(|| self.model.open(ctx, what, opening));
        assert!(!self.panic_behind_open.load(SeqCst), "a bug, planted by the test");
        let behind = self.behind_an_open.lock().take();
        if let Some(behind) = behind {
            behind();
        }
        outcome
    }
    fn downgrade(&self, object: ObjectRef, holder: Holder, left: Share) -> Result<(), FsError> {
        self.model.downgrade(object, holder, left)
    }
    fn in_the_way(&self, object: ObjectRef, who: Option<Holder>, share: Share) -> Vec<ClientNumber> {
        self.model.in_the_way(object, who, share)
    }
    fn close(&self, object: ObjectRef, holder: Holder) {
        self.model.close(object, holder);
    }
}

impl Delegations for Gated {
    fn gives(&self, kind: Delegation) -> Gives {
        self.model.gives(kind)
    }
    fn delegated(&self, object: ObjectRef) -> smallvec::SmallVec<[(ClientNumber, Delegation); 1]> {
        self.model.delegated(object)
    }
    fn give_back(&self, object: ObjectRef, client: ClientNumber) {
        self.model.give_back(object, client);
    }
}

impl Locks for Gated {
    fn lock_unopened(&self, object: ObjectRef, wanted: Lock) -> Result<(), NotLocked> {
        if self.suspended.load(SeqCst) {
            return Err(FsError::Unavailable.into());
        }
        self.model.lock_unopened(object, wanted)?;
        let behind = self.behind_a_lock.lock().take();
        if let Some(behind) = behind {
            behind();
        }
        Ok(())
    }

    fn lock_range(&self, object: ObjectRef, below: Holder, wanted: Lock) -> Result<(), NotLocked> {
        let told = self.model.lock_range(object, below, wanted);
        let behind = self.behind_a_lock.lock().take();
        if let Some(behind) = behind {
            behind();
        }
        assert!(!self.panic_behind_lock.load(SeqCst), "a bug, planted by the test");
        told
    }
    fn unlock_range(&self, object: ObjectRef, holder: Holder, range: Range) -> Result<(), FsError> {
        let before = self.before_an_unlock.lock().take();
        if let Some(before) = before {
            before();
        }
        self.model.unlock_range(object, holder, range)
    }
    fn test_range(&self, object: ObjectRef, wanted: Lock) -> Result<(), NotLocked> {
        self.model.test_range(object, wanted)
    }
    fn ranges(&self, object: ObjectRef, holder: Holder, most: usize) -> Vec<Lock> {
        self.model.ranges(object, holder, most)
    }

    fn has_ranges(&self, object: ObjectRef, holder: Holder) -> bool {
        self.model.has_ranges(object, holder)
    }
    fn watch(&self, watch: &Weak<dyn Watch>) {
        self.model.watch(watch);
    }
}

impl Content for Gated {
    fn readlink(&self, object: ObjectRef) -> Result<(Bytes, Attr), FsError> {
        self.model.readlink(object)
    }
    fn read_by(&self, ctx: OpCtx<'_>, object: ObjectRef, at: u64, count: u32) -> Result<ReadOut, FsError> {
        self.reads.pass();
        self.model.read_by(ctx, object, at, count)
    }
    fn seek(&self, ctx: OpCtx<'_>, object: ObjectRef, at: u64, what: Sought) -> Result<FoundAt, FsError> {
        self.model.seek(ctx, object, at, what)
    }
    fn write(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, data: Bytes, how: Stability) -> Outcome<Written> {
        self.change(|| self.model.write(ctx, object, offset, data, how))
    }
    fn deallocate(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, length: u64) -> Outcome<()> {
        self.change(|| self.model.deallocate(ctx, object, offset, length))
    }

    fn allocate(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, length: u64) -> Outcome<()> {
        self.change(|| self.model.allocate(ctx, object, offset, length))
    }
    fn commit(&self, ctx: OpCtx<'_>, object: ObjectRef, offset: u64, count: u32) -> Outcome<u64> {
        self.change(|| self.model.commit(ctx, object, offset, count))
    }
}

impl Xattrs for Gated {
    fn xattr(&self, cred: &Cred, object: ObjectRef, name: &[u8]) -> Result<Bytes, FsError> {
        self.model.xattr(cred, object, name)
    }
    fn list_xattrs(&self, cred: &Cred, object: ObjectRef, cookie: u64) -> Result<Vec<XattrName>, FsError> {
        self.model.list_xattrs(cred, object, cookie)
    }
    fn set_xattr(&self, ctx: OpCtx<'_>, object: ObjectRef, name: &[u8], value: &[u8], how: SetXattr) -> Outcome<()> {
        self.change(|| self.model.set_xattr(ctx, object, name, value, how))
    }
    fn remove_xattr(&self, ctx: OpCtx<'_>, object: ObjectRef, name: &[u8]) -> Outcome<()> {
        self.change(|| self.model.remove_xattr(ctx, object, name))
    }
}

impl Replies for Gated {
    fn remembered_of(&self, key: &ReplyKey, is_his: &dyn Fn(u64) -> bool) -> Option<RememberedReply> {
        self.model.remembered_of(key, is_his)
    }
    fn performed(&self, mark: &SlotMark) -> Option<RememberedReply> {
        if self.suspended.load(SeqCst) { None } else { self.model.performed(mark) }
    }
    fn known(&self, mark: &SlotMark) -> Known {
        self.model.known(mark)
    }
    fn forget_session(&self, session: &SessionBytes) {
        self.model.forget_session(session);
    }
    fn keep_sessions(&self, living: &[SessionBytes]) {
        *self.kept_sessions.lock() = living.to_vec();
    }
}
