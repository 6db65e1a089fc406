//! Who wakes whom.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tally_base::{Broken, Fate, Keeper, Kept, LaneId, Lsn};

use super::{Lane, State};
use crate::promise::{Then, Waiter};

/// How many waiters are called between two looks at the state.
const BATCH_COUNT_MAX: usize = 16;

impl Lane {
    /// What somebody who waits for `lsn` is told by now.
    pub(crate) fn outcome(&self, lsn: Lsn) -> Option<Result<(), Broken>> {
        if lsn <= self.durable_lsn() {
            return Some(Ok(()));
        }
        if !self.ended.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().outcome(lsn)
    }

    /// What is known of a promise that was kept before anybody waited for it.
    pub(crate) fn kept_before(&self, record_bytes: u64) -> Kept {
        Kept { by: Keeper::Log(self.id), record_bytes, frame_bytes: record_bytes, ..Kept::default() }
    }

    /// Calls `then` when the outcome for `lsn` is known, and sees to it that somebody works on that.
    pub(crate) fn call_when_durable(&self, lsn: Lsn, record_bytes: u64, then: Then) {
        let mut state = self.state.lock();
        if let Some(outcome) = state.outcome(lsn) {
            drop(state);
            then(outcome.map(|()| self.kept_before(record_bytes)));
            return;
        }
        assert!(lsn < state.gathering.next_lsn(), "nobody waits for a record that was not appended");
        state.waiters.push(lsn, record_bytes, then);
        let is_work = self.wants_drive(&mut state);
        drop(state);
        if is_work {
            self.wake.notify_one();
        }
    }

    /// Wakes the lane thread if there is something that it could write.
    pub(super) fn nudge(&self) {
        let is_work = self.wants_drive(&mut self.state.lock());
        if is_work {
            self.wake.notify_one();
        }
    }

    /// Calls everybody whose outcome is known, in the order of their records, outside the lock. One thread does
    /// it at a time; others leave it to that one, which looks again before it stops.
    pub(super) fn release_waiters(&self) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.waiters.releasing, true) {
            return;
        }
        let mut batch = Batch::new();
        loop {
            state.pop_due(self.id, &mut batch);
            if batch.is_empty() {
                state.waiters.releasing = false;
                return;
            }
            drop(state);
            for (then, fate) in batch.drain(..) {
                // A waiter that panics is somebody else's bug. It must not take with it those who wait behind it, nor
                // the lane thread, without which nobody would be answered any more.
                if catch_unwind(AssertUnwindSafe(|| then(fate))).is_err() {
                    tracing::error!(lane = %self.id, "somebody who waited for the log panicked when called");
                }
            }
            state = self.state.lock();
        }
    }
}

impl State {
    /// Takes some waiters whose outcome is known.
    fn pop_due(&mut self, lane: LaneId, batch: &mut Batch) {
        let limit = if self.is_open() { self.flights.durable_lsn() } else { Lsn(u64::MAX) };
        while batch.len() < BATCH_COUNT_MAX
            && let Some(Waiter { lsn, record_bytes, then, .. }) = self.waiters.pop(limit)
        {
            let outcome = self.outcome(lsn).expect("a waiter is due when its outcome is known");
            batch.push((then, outcome.map(|()| self.books.cost_of(lsn).kept(lane, record_bytes))));
        }
    }
}

type Batch = SmallVec<[(Then, Fate); BATCH_COUNT_MAX]>;
