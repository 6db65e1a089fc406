//! What keeps frees from being used again: walks that hold blocks, and readers of older roots; and groups that wait for them.
//!
//! **The problem.** A group takes new places for the trees it changes, the catalog, the space maps and the root, and gives the
//! old ones back two groups later. While a walk holds what an older group named, nothing comes back, and each group takes some more: also
//! one without any change, for which somebody asked who waits for room. 32 KiB at a time they took all of a reserve
//! while a walk looked at 64 MiB, and the next group had nowhere to go: the pool was suspended for want of room (rules F19).
//!
//! **The idea.** Where little is left of the reserve and something is held back, a group does not begin before that is let go
//! ([`Pool::lock_for_group`]). It waits without the lock under which groups are synced, which a walk takes, too; and the walk, which
//! hurries, lets go as soon as it has looked at what it has met by then ([`Held::are_awaited`]). What is let go may be used again at once, and not
//! only behind a group for which there may be no room.
//!
//! ```text
//!   free ≥ a quarter of the reserve, and what all groups were admitted with ──────▶ a group begins
//!   else: frees that nobody holds may be used ──▶ is anything held still? ── no ──▶ a group begins, as without a walk
//!                      ▲                                                  └─ yes ─▶ wait ─┐
//!                      └──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! **What it costs.** A pool that is full to the brim stands still until a walk's step is over. What never lets go, since its
//! disk hangs, keeps each group for [`WAIT_MAX`], and no longer: some twenty-five groups later the rest of the least reserve is used up,
//! which are four minutes, and a leg that hangs was left long before. Whoever holds blocks himself and asks for a group waits for
//! nobody (docs/design/0059).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tally_base::{Txg, blocking};

use super::{Pool, Syncing};

/// A group waits no longer for those who hold frees back.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// It looks so often whether a reader of an older root is through, who tells nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// What it counts to be woken sooner: about what a walk's step takes that reads nothing.
const WOKEN: Duration = Duration::from_micros(100);

/// So many groups what a walk has met may be held back from others; then it waits for no turn until it has looked at it. Each
/// group takes new places for what it changes, and nobody is asked for those: a walk that waited beside busy clients filled
/// the pool with what nobody used any more.
const GROUPS_MAX: u64 = 1;

/// This part of the reserve is left for a group that finds nothing held: far more than one takes that was asked for by nobody.
const RESERVE_PART: u64 = 4;

/// Those who hold blocks ([`Pool::hold_blocks`]).
#[derive(Default)]
pub(super) struct Held {
    /// What the newest group named when they asked, and they.
    list: Mutex<Vec<(Txg, Weak<Holding>)>>,
    let_go: Arc<Condvar>,
    waiting: AtomicUsize,
}

/// Holds blocks while it lives.
pub(super) struct Holding {
    thread: ThreadId,
    lasts: Lasts,
    let_go: Arc<Condvar>,
}

/// For how long a walk means to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lasts {
    /// A step: whoever holds longer than a group goes on without waiting for turns.
    Step,
    /// As long as it takes to look at what is above all datasets, which is little, and waits for its turns.
    Look,
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.let_go.notify_all();
    }
}

impl Held {
    /// What `newest` gives under the lock of the list.
    fn hold(&self, lasts: Lasts, newest: impl FnOnce() -> Txg) -> Arc<Holding> {
        let holding = Arc::new(Holding { thread: thread::current().id(), lasts, let_go: Arc::clone(&self.let_go) });
        let mut list = self.list.lock();
        list.push((newest(), Arc::downgrade(&holding)));
        holding
    }

    /// The oldest group of those that are held.
    pub(super) fn oldest(&self) -> Option<Txg> {
        let mut list = self.list.lock();
        list.retain(|(_, holding)| holding.strong_count() > 0);
        list.iter().map(|(of, _)| *of).min()
    }

    /// The oldest group of which a step holds something.
    fn oldest_step(&self) -> Option<Txg> {
        let is_step = |holding: &Weak<Holding>| holding.upgrade().is_some_and(|holding| holding.lasts == Lasts::Step);
        self.list.lock().iter().filter(|(_, holding)| is_step(holding)).map(|(of, _)| *of).min()
    }

    /// Whether a group waits: a walk gathers no more than it has.
    pub(super) fn are_awaited(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    fn is_held_here(&self) -> bool {
        let me = thread::current().id();
        self.list.lock().iter().any(|(_, holding)| holding.upgrade().is_some_and(|holding| holding.thread == me))
    }

    /// Until somebody lets go, or [`LOOK_AGAIN`] is over. Gives how long that counts: who is woken counts little and not
    /// nothing, so that who waits for one that never lets go ends, though others let go all the time.
    fn wait(&self) -> Duration {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let ended = blocking(|| self.let_go.wait_for(&mut self.list.lock(), LOOK_AGAIN));
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        if ended.timed_out() { LOOK_AGAIN } else { WOKEN }
    }
}

impl Pool {
    /// While what this gives is alive, nothing that the newest group names is given to another, be it freed, and be its dataset
    /// destroyed. Roots are asked for afterwards.
    pub(super) fn hold_blocks(&self, lasts: Lasts) -> Arc<Holding> {
        // Under the lock: no group beyond the next one has released anything without a look at this.
        self.held.hold(lasts, || self.txgs.last_synced())
    }

    /// Has walks wait for their turns, or not: where room is short, or a step has held something for longer than a group. Behind
    /// each group, and when a step has let go of what it held.
    pub(super) fn pace_walks(&self) {
        let newest = self.txgs.last_synced();
        let is_held_long = self.held.oldest_step().is_some_and(|of| newest.0 > of.0.saturating_add(GROUPS_MAX));
        self.roster.hurry_walks(is_held_long || self.held.are_awaited() || self.room_for_old_roots().1);
    }

    /// The lock under which a group is synced, when there is room for one that nobody was admitted for. See the module's head.
    pub(super) fn lock_for_group(&self) -> MutexGuard<'_, Syncing> {
        let mut waited = Duration::ZERO;
        loop {
            let mut syncing = self.syncing.lock();
            let may_begin = !self.is_reserve_short() || self.check_syncing(&syncing).is_err();
            if may_begin || !self.release_frees(&mut syncing) || !self.is_reserve_short() {
                return syncing;
            }
            if waited >= WAIT_MAX || self.held.is_held_here() {
                tracing::warn!(
                    "a group is synced out of the pool's reserve, as what was freed is held by a scrub or a copy, or is being read"
                );
                return syncing;
            }
            self.roster.hurry_walks(true);
            drop(syncing);
            waited += self.held.wait();
        }
    }

    fn is_reserve_short(&self) -> bool {
        let space = self.io.allocator().space();
        let admitted = self.txgs.fold_bytes().saturating_add(self.remembered_fold_bytes());
        space.free < (Self::reserve_bytes(&space) / RESERVE_PART).saturating_add(admitted)
    }

    /// What groups have freed may be used again, as the newest durable uberblock has it, but for what somebody holds. Whether anything is.
    pub(super) fn release_frees(&self, syncing: &mut Syncing) -> bool {
        // Whoever still reads an old root must not find its blocks reused: hold back what was freed after it.
        syncing.old_roots.retain(|(_, root)| root.strong_count() > 0);
        let read = syncing.old_roots.iter().map(|(of, _)| *of);
        let oldest = read.chain(self.held.oldest()).min().map(Txg::next);
        let reusable = syncing.window.reusable_before();
        let before = oldest.map_or(reusable, |oldest| oldest.min(reusable));
        let alloc = self.io.allocator();
        alloc.released_before(syncing.uberblock.txg, before);
        let last = |before: Txg| Txg(before.0.saturating_sub(1));
        alloc.waiting_sectors(last(before), last(reusable)) > 0
    }
}
