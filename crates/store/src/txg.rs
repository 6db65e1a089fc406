//! Transaction groups: how a stream of operations becomes a row of consistent states.
//!
//! Every operation that changes something takes a *hold* on the open group, makes its change there, and lets
//! go. A group goes through four states:
//!
//! ```text
//!            close()                    last hold released             synced()
//!   open ───────────────▶ quiescing ────────────────────▶ syncing ────────────────▶ synced
//!   takes holds           takes none; the next            nothing changes it:       its uberblock is
//!                         group is open already           the fold reads it         durable
//! ```
//!
//! | state | who is in it | what a crash leaves |
//! |---|---|---|
//! | open | holders, for microseconds: a hold is taken after all locks and all I/O (rules F3), so it never blocks | nothing; the log has what was promised |
//! | quiescing | holders that were faster than `close` | the same |
//! | syncing | one thread, in [`crate::pool::Pool::sync`] | blocks that no uberblock names |
//! | synced | nobody | all of it |
//!
//! Admission is apart from holding, and comes first: it bounds dirty memory, and it is the only step at which an
//! operation may have to wait, with nothing held.
//!
//! Dirty memory does not bound the work. A byte written into a block has the fold read and write all of the block: 32
//! KiB in as many blocks are 4 GiB. So each group also counts what it has to **patch**, the bytes of such blocks
//! beyond those that are dirty, up to a bound ([`pace`]). Only who would exceed it waits, for the group; whoever
//! brings nothing to patch is let in beside it.
//!
//! These are walls, and who runs against one waits for a whole group. In front of them is the [`slope`], on which data
//! comes no faster than folds write.

mod cause;
mod history;
mod pace;
mod pass;
mod promised;
mod slope;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tally_base::{Broken, Fate, Kept, Promise, Txg, Wait};

pub use cause::{Cause, Causes};
pub use history::{HISTORY_MAX, TxgHistory, TxgRecord};
pub use pace::{PATCH_BYTES_MAX, PATCH_BYTES_MIN, PATCH_BYTES_START};
pub use pass::Pass;
pub use promised::PromisedRoom;
pub use slope::{Brought, Destination, RingUse};

use pace::Pace;
use promised::Promises;
use slope::Slope;

type Waiter = (Txg, Box<dyn FnOnce(Fate) + Send>);

/// The pool's transaction groups.
pub struct Txgs {
    state: Mutex<State>,
    /// Rung when a hold is released in a closed group, when a sync is wanted, and at the stop.
    changed: Condvar,
    dirty_bytes_max: u64,
    dirty_bytes_sync: u64,
    /// Mirror of what is ahead of the disks, for those who only look; more than anything while room is kept for a small
    /// request, so that nobody passes without a closer look.
    ahead_bytes: AtomicU64,
    /// Of what is ahead, what has its place in a ring, or will ask for one.
    ring_bytes: AtomicU64,
    /// Mirror of the most data that one group may have, for the disks' sake.
    paced_bytes_max: AtomicU64,
}

struct State {
    open: Txg,
    synced: Txg,
    /// Holds by group, oldest first; the open group is the last.
    holds: VecDeque<(Txg, usize)>,
    /// Dirty bytes by group.
    dirty_bytes: BTreeMap<Txg, u64>,
    /// What folding each group may take of the pool, bytes: more than is dirty, since the fold writes whole leaves and
    /// whole blocks (rules F19).
    fold_bytes: BTreeMap<Txg, u64>,
    /// What folding each group reads and writes beyond its dirty bytes, for blocks that are written in part.
    patch_bytes: BTreeMap<Txg, u64>,
    /// How much of that one group may have.
    patch_pace: Pace,
    /// How much data it may have.
    data_pace: Pace,
    /// Data that is not written yet, and those who would bring more.
    slope: Slope,
    /// Bytes admitted to operations that do not hold a group yet.
    admitted_bytes: u64,
    /// What folding those may take.
    admitted_fold_bytes: u64,
    /// What is promised to WRITEs to come.
    promises: Promises,
    /// The newest group that somebody wants synced.
    wanted: Txg,
    /// Why the open group is to be closed, once somebody wants that.
    cause: Option<Cause>,
    /// Why others were, since the import.
    causes: Causes,
    waiters: Vec<Waiter>,
    failure: Option<Broken>,
    stopped: bool,
}

/// What the sync loop is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Sync the open group.
    Sync,
    /// End: nothing is synced any more.
    Stop,
}

/// Why an operation is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// The pool has no room for what its fold may take.
    Space,
    /// A limit of what groups may have is reached: wait for the next one to be synced and ask again.
    Dirty,
}

impl Txgs {
    /// Groups from `open` on, with `open − 1` as the last synced one. An operation is admitted while less than
    /// `dirty_bytes_max` are dirty, and a sync starts by itself at a quarter of that, at most 96 MiB: beyond, a longer
    /// group merges hardly more overwrites, and only costs memory (rules P6).
    #[must_use]
    pub fn new(open: Txg, dirty_bytes_max: u64) -> Arc<Self> {
        let synced = Txg(open.0.checked_sub(1).expect("the first group is number 1"));
        Arc::new(Self {
            state: Mutex::new(State {
                open,
                synced,
                holds: VecDeque::from([(open, 0)]),
                dirty_bytes: BTreeMap::new(),
                fold_bytes: BTreeMap::new(),
                patch_bytes: BTreeMap::new(),
                patch_pace: Pace::of_patches(),
                data_pace: Pace::of_data(),
                slope: Slope::default(),
                admitted_bytes: 0,
                admitted_fold_bytes: 0,
                promises: Promises::default(),
                wanted: synced,
                cause: None,
                causes: Causes::default(),
                waiters: Vec::new(),
                failure: None,
                stopped: false,
            }),
            changed: Condvar::new(),
            dirty_bytes_max,
            dirty_bytes_sync: (dirty_bytes_max / 4).min(96 << 20),
            ahead_bytes: AtomicU64::new(0),
            ring_bytes: AtomicU64::new(0),
            paced_bytes_max: AtomicU64::new(Pace::of_data().bytes_max()),
        })
    }

    /// One that wants each group as soon as something is dirty, and looks for that no other way.
    #[must_use]
    pub fn at_once(open: Txg, dirty_bytes_max: u64) -> Arc<Self> {
        let mut txgs = Self::new(open, dirty_bytes_max);
        Arc::get_mut(&mut txgs).expect("nobody else has it yet").dirty_bytes_sync = 1;
        txgs
    }

    /// Admits an operation that will dirty `bytes` of memory, and whose fold may take `fold_bytes` of the pool. Never
    /// blocks.
    pub fn admit(self: &Arc<Self>, bytes: u64, fold_bytes: u64) -> Result<Admission, NotAdmitted> {
        self.admit_within(bytes, fold_bytes, PromisedRoom::default(), |_, _| true)
    }

    /// The same, where the pool has room: `has_room` is told what folding everything may take, this operation included, and what is
    /// promised beside that. It is asked under the lock under which the operation is let in: of many who come at once, each sees those
    /// before it, and no two are promised the same room (rules F19).
    pub fn admit_within(
        self: &Arc<Self>,
        bytes: u64,
        fold_bytes: u64,
        room: PromisedRoom,
        has_room: impl FnOnce(u64, PromisedRoom) -> bool,
    ) -> Result<Admission, NotAdmitted> {
        let mut state = self.state.lock();
        if !has_room(state.fold_in_all().saturating_add(fold_bytes), state.promises.in_all().and(room)) {
            return Err(NotAdmitted::Space);
        }
        let dirty = state.dirty_in_all();
        // A single operation larger than the limit is let in alone, or it would wait for ever. After the stop nobody
        // is: the last group may be synced already.
        if state.stopped || dirty + bytes > self.dirty_bytes_max && dirty > 0 {
            self.want_open(&mut state, Cause::Memory);
            return Err(NotAdmitted::Dirty);
        }
        state.admitted_bytes += bytes;
        state.admitted_fold_bytes += fold_bytes;
        state.promises.admitted = state.promises.admitted.and(room);
        Ok(Admission { txgs: Arc::clone(self), bytes, fold_bytes, room })
    }

    /// Whether the open group may get so much more to patch; if not, a sync is asked for. What is alone is let in, whatever
    /// it brings. Nothing is set aside: those who ask at one moment exceed the bound by a request each.
    pub fn check_patch(&self, patch_bytes: u64) -> Result<(), NotAdmitted> {
        let mut state = self.state.lock();
        let patched = state.patch_bytes.get(&state.open).copied().unwrap_or(0);
        if patched == 0 || patched.saturating_add(patch_bytes) <= state.patch_pace.bytes_max() {
            return Ok(());
        }
        self.want_open(&mut state, Cause::Patches);
        Err(NotAdmitted::Dirty)
    }

    /// What a change under a hold on `txg` has turned out to cost its fold: `patch_bytes` more to patch (or fewer, where a
    /// block is filled up), `known_bytes` less of the pool than it was admitted with, since the group had those blocks
    /// already, and `data` that is in memory now.
    pub fn charge_fold(&self, txg: Txg, patch_bytes: i64, known_bytes: u64, data: Brought) {
        let mut state = self.state.lock();
        if data.more_bytes > 0 {
            state.slope.add(txg, data);
            self.note_ahead(&state);
        }
        let fold = state.fold_bytes.entry(txg).or_default();
        *fold = fold.checked_sub(known_bytes).expect("no more is given back than was admitted");
        let patched = state.patch_bytes.entry(txg).or_default();
        *patched = patched.saturating_add_signed(patch_bytes);
    }

    /// So many bytes that were in memory for group `txg` have been written ahead, under a hold on it. Whoever has waited for
    /// that passes when the WRITE that did it is over.
    pub fn note_placed(&self, txg: Txg, bytes: u64) {
        let mut state = self.state.lock();
        state.slope.placed(txg, bytes);
        self.note_ahead(&state);
    }

    /// A group was synced in `took`: the next may have what takes about as long as one should.
    pub fn keep_pace(&self, txg: Txg, took: Duration) {
        let mut state = self.state.lock();
        let of_group = |bytes: &BTreeMap<Txg, u64>| bytes.get(&txg).copied().unwrap_or(0);
        let (patched, dirty) = (of_group(&state.patch_bytes), of_group(&state.dirty_bytes));
        state.patch_pace.note(patched, patched.saturating_add(dirty), took);
        let data = state.slope.bytes_of(txg);
        state.data_pace.note(data, data, took);
        self.paced_bytes_max.store(state.data_pace.bytes_max(), Ordering::Relaxed);
    }

    /// Takes a hold on the open group, and turns the admission into its dirty bytes. Never blocks.
    #[must_use]
    pub fn hold(self: &Arc<Self>, mut admission: Option<Admission>) -> Hold {
        let mut state = self.state.lock();
        let (open, count) = state.holds.back_mut().expect("there is always an open group");
        *count += 1;
        let txg = *open;
        let (bytes, fold_bytes) =
            admission.as_ref().map_or((0, 0), |admission| (admission.bytes, admission.fold_bytes));
        *state.fold_bytes.entry(txg).or_default() += fold_bytes;
        // What is drawn may at no moment count twice.
        if let Some(admission) = &mut admission {
            state.promises.take_hold(txg, std::mem::take(&mut admission.room));
        }
        let dirty = state.dirty_bytes.entry(txg).or_default();
        *dirty += bytes;
        if *dirty >= self.dirty_bytes_sync {
            self.want_open(&mut state, Cause::Memory);
        }
        drop(state);
        // Its drop takes the bytes off the admitted ones.
        drop(admission);
        Hold { txgs: Arc::clone(self), txg }
    }

    /// Closes the open group, opens the next and waits until nobody holds the closed one, which it returns.
    pub fn close(&self) -> Txg {
        let mut state = self.state.lock();
        let txg = state.open;
        state.open = txg.next();
        let cause = state.cause.take().unwrap_or(Cause::Chore);
        state.causes.count(cause);
        let next = (state.open, 0);
        state.holds.push_back(next);
        while state.holds.front().is_some_and(|(held, count)| *held == txg && *count > 0) {
            self.changed.wait(&mut state);
        }
        let closed = state.holds.pop_front();
        assert_eq!(closed, Some((txg, 0)), "one group is closed at a time, and it was the oldest");
        assert!(state.synced < txg && txg < state.open, "synced < syncing < open");
        txg
    }

    /// So much is promised by what is durable: as the pool is opened.
    pub fn promise_room(&self, bytes: u64) {
        self.state.lock().promises.durable_bytes = bytes;
    }

    /// The uberblock of `txg` is durable, and so much is promised by what it names: with it goes in one step what its group has drawn of that.
    pub fn synced(&self, txg: Txg, promised_bytes: u64) {
        let mut state = self.state.lock();
        assert!(txg > state.synced, "groups are synced in order, once each");
        assert!(txg < state.open, "a group is closed before it is synced");
        assert!(
            state.holds.front().is_some_and(|(held, _)| *held > txg),
            "close() has waited for the last hold of group {txg}, and no group takes holds again"
        );
        state.synced = txg;
        state.dirty_bytes.retain(|dirty, _| *dirty > txg);
        state.fold_bytes.retain(|dirty, _| *dirty > txg);
        state.patch_bytes.retain(|dirty, _| *dirty > txg);
        state.promises.synced(txg, promised_bytes);
        state.slope.synced(txg);
        let waiters = std::mem::take(&mut state.waiters);
        let (due, later): (Vec<_>, _) = waiters.into_iter().partition(|(waiting, _)| *waiting <= txg);
        state.waiters = later;
        self.go_on(state);
        answer(due.into_iter().map(|(_, then)| then), &Ok(Kept::GROUP));
    }

    /// No group will be synced any more: everybody who waits is told, now and from now on.
    pub fn fail(&self, why: Broken) {
        let mut state = self.state.lock();
        let waiters = std::mem::take(&mut state.waiters);
        let queued = state.slope.end();
        state.failure = Some(why.clone());
        self.note_ahead(&state);
        drop(state);
        answer(waiters.into_iter().map(|(_, then)| then).chain(queued), &Err(why));
    }

    /// Asks for the open group to be synced.
    pub fn want(&self, cause: Cause) {
        self.want_open(&mut self.state.lock(), cause);
    }

    fn want_open(&self, state: &mut State, cause: Cause) {
        if state.wanted < state.open {
            state.wanted = state.open;
            state.cause = Some(cause);
            self.changed.notify_all();
        }
    }

    /// Kept when `txg` is synced; asks for that at once.
    #[must_use]
    pub fn promise(self: &Arc<Self>, txg: Txg) -> Wait {
        let mut state = self.state.lock();
        if state.synced >= txg {
            return Wait::Ready;
        }
        // An older one is being synced.
        if txg == state.open {
            self.want_open(&mut state, Cause::Reply);
        }
        drop(state);
        Wait::On(Box::new(TxgPromise { txgs: Arc::clone(self), txg }))
    }

    /// Kept when the next group is synced: for those who were refused admission. Never kept already: whoever is refused and
    /// has nothing to wait for is told to come again in some seconds, and a group may end in between.
    #[must_use]
    pub fn next_sync(self: &Arc<Self>) -> Wait {
        let mut state = self.state.lock();
        let txg = state.synced.next();
        if txg == state.open {
            self.want_open(&mut state, Cause::Refusal);
        }
        drop(state);
        Wait::On(Box::new(TxgPromise { txgs: Arc::clone(self), txg }))
    }

    /// Waits until there is a reason to sync: somebody wants it, or `interval` is over and something is dirty. With no
    /// interval at all it looks at nothing until somebody wants a group ([`Self::at_once`]): a look each time that no time
    /// is over took a processor.
    pub fn wait_for_work(&self, interval: Duration) -> Next {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return Next::Stop;
            }
            if state.wanted > state.synced {
                return Next::Sync;
            }
            if interval.is_zero() {
                self.changed.wait(&mut state);
                continue;
            }
            let timed_out = self.changed.wait_for(&mut state, interval).timed_out();
            if timed_out && !state.stopped && state.dirty_in_all() > 0 {
                state.cause.get_or_insert(Cause::Time);
                return Next::Sync;
            }
        }
    }

    /// Ends [`Self::wait_for_work`], and all admission.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }

    /// The group that changes go to now; it may be closed the moment after.
    #[must_use]
    pub fn open(&self) -> Txg {
        self.state.lock().open
    }

    /// The newest group whose uberblock is durable.
    #[must_use]
    pub fn last_synced(&self) -> Txg {
        self.state.lock().synced
    }

    /// Why groups were closed since the import.
    #[must_use]
    pub fn causes(&self) -> Causes {
        self.state.lock().causes
    }

    /// Bytes that are dirty or admitted.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.state.lock().dirty_in_all()
    }

    /// Bytes that are dirty in one group.
    #[must_use]
    pub fn dirty_bytes_of(&self, txg: Txg) -> u64 {
        self.state.lock().dirty_bytes.get(&txg).copied().unwrap_or(0)
    }

    /// The most bytes that may be dirty or admitted.
    #[must_use]
    pub fn dirty_bytes_max(&self) -> u64 {
        self.dirty_bytes_max
    }

    /// Bytes that the open group has to patch.
    #[must_use]
    pub fn patch_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.patch_bytes.get(&state.open).copied().unwrap_or(0)
    }

    /// The most bytes that one group may have to patch, for now.
    #[must_use]
    pub fn patch_bytes_max(&self) -> u64 {
        self.state.lock().patch_pace.bytes_max()
    }

    /// What folding everything that is dirty or admitted may take of the pool, bytes.
    #[must_use]
    pub fn fold_bytes(&self) -> u64 {
        self.state.lock().fold_in_all()
    }

    /// What is promised to WRITEs that have not come yet, and drawn by those that have.
    #[must_use]
    pub fn promised(&self) -> PromisedRoom {
        self.state.lock().promises.in_all()
    }

    /// A WRITE of group `txg` draws so much less of what is promised than it was admitted with: the group had its blocks already.
    pub fn draw_less(&self, txg: Txg, bytes: u64) {
        self.state.lock().promises.draw_less(txg, bytes);
    }
}

impl State {
    fn fold_in_all(&self) -> u64 {
        self.admitted_fold_bytes + self.fold_bytes.values().sum::<u64>()
    }

    fn dirty_in_all(&self) -> u64 {
        self.admitted_bytes + self.dirty_bytes.values().sum::<u64>()
    }
}

fn answer(waiters: impl IntoIterator<Item = Box<dyn FnOnce(Fate) + Send>>, outcome: &Fate) {
    for then in waiters {
        // A waiter that panics is somebody else's bug. It must not take with it those who are told after it, nor the
        // thread that syncs.
        if catch_unwind(AssertUnwindSafe(|| then(outcome.clone()))).is_err() {
            tracing::error!("somebody who waited for a transaction group panicked when called");
        }
    }
}

/// Room for an operation's dirty bytes; given back when dropped.
pub struct Admission {
    txgs: Arc<Txgs>,
    bytes: u64,
    fold_bytes: u64,
    room: PromisedRoom,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut state = self.txgs.state.lock();
        // Each admission was counted when it was given, and is given back once, here.
        let (bytes, fold_bytes) = (state.admitted_bytes, state.admitted_fold_bytes);
        state.admitted_bytes = bytes.checked_sub(self.bytes).expect("no more is given back than was admitted");
        state.admitted_fold_bytes =
            fold_bytes.checked_sub(self.fold_bytes).expect("no more is given back than was set aside");
        state.promises.admitted.give_back(self.room);
    }
}

/// A hold on a group: while it lives, the group cannot be synced.
pub struct Hold {
    txgs: Arc<Txgs>,
    txg: Txg,
}

impl Hold {
    /// The group that is held: it is not synced before this is dropped.
    #[must_use]
    pub fn txg(&self) -> Txg {
        self.txg
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.txgs.state.lock();
        let open = state.open;
        let (_, count) =
            state.holds.iter_mut().find(|(txg, _)| *txg == self.txg).expect("a held group is not forgotten");
        *count = count.checked_sub(1).expect("a hold is released once, in its own group");
        if *count == 0 && self.txg < open {
            self.txgs.changed.notify_all();
        }
    }
}

struct TxgPromise {
    txgs: Arc<Txgs>,
    txg: Txg,
}

impl Promise for TxgPromise {
    fn poll(&self) -> Option<Fate> {
        let state = self.txgs.state.lock();
        if state.synced >= self.txg { Some(Ok(Kept::GROUP)) } else { state.failure.clone().map(Err) }
    }

    fn drive(&self) -> Option<Fate> {
        // A transaction group is never synced by the thread of one request.
        self.poll()
    }

    fn then(self: Box<Self>, then: Box<dyn FnOnce(Fate) + Send>) {
        let mut state = self.txgs.state.lock();
        let outcome = if state.synced >= self.txg { Some(Ok(Kept::GROUP)) } else { state.failure.clone().map(Err) };
        match outcome {
            Some(outcome) => {
                drop(state);
                then(outcome);
            }
            None => state.waiters.push((self.txg, then)),
        }
    }
}

#[cfg(test)]
mod tests;
