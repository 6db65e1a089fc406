//! Who wakes whom.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tally_base::{Broken, Lsn};

use super::{Lane, State};
use crate::promise::Then;

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

    /// Calls `then` when the outcome for `lsn` is known, and sees to it that somebody works on that.
    pub(crate) fn call_when_durable(&self, lsn: Lsn, then: Then) {
        let mut state = self.state.lock();
        if let Some(outcome) = state.outcome(lsn) {
            drop(state);
            then(outcome);
            return;
        }
        assert!(lsn < state.next_lsn, "nobody waits for a record that was not appended");
        state.waiters.push(lsn, then);
        let is_work = self.may_begin(&state);
        drop(state);
        if is_work {
            self.wake.notify_one();
        }
    }

    /// Wakes the lane thread if there is something that it could write.
    pub(super) fn nudge(&self) {
        if self.may_begin(&self.state.lock()) {
            self.wake.notify_one();
        }
    }

    /// Calls everybody whose outcome is known, in the order of their records, outside the lock. One thread does
    /// it at a time; others leave it to that one, which looks again before it stops.
    pub(super) fn release_waiters(&self) {
        let mut state = self.state.lock();
        if state.releasing {
            return;
        }
        state.releasing = true;
        let mut releaser = Releaser { lane: self, batch: SmallVec::new(), is_done: false };
        loop {
            state.pop_due(&mut releaser.batch);
            if releaser.batch.is_empty() {
                state.releasing = false;
                releaser.is_done = true;
                return;
            }
            drop(state);
            while let Some((_, then, outcome)) = releaser.batch.pop() {
                then(outcome);
            }
            state = self.state.lock();
        }
    }
}

impl State {
    /// Takes some waiters whose outcome is known; the last of the batch comes first.
    fn pop_due(&mut self, batch: &mut Batch) {
        let limit = if self.is_open() { self.durable_lsn } else { Lsn(u64::MAX) };
        while batch.len() < BATCH_COUNT_MAX
            && let Some((lsn, then)) = self.waiters.pop(limit)
        {
            let outcome = self.outcome(lsn).expect("a waiter is due when its outcome is known");
            batch.push((lsn, then, outcome));
        }
        batch.reverse();
    }
}

type Batch = SmallVec<[(Lsn, Then, Result<(), Broken>); BATCH_COUNT_MAX]>;

/// Holds the right to call waiters. If one of them panics, the others are queued again and the lane thread is
/// woken to call them.
struct Releaser<'a> {
    lane: &'a Lane,
    batch: Batch,
    is_done: bool,
}

impl Drop for Releaser<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut state = self.lane.state.lock();
        while let Some((lsn, then, _)) = self.batch.pop() {
            state.waiters.push(lsn, then);
        }
        state.releasing = false;
        drop(state);
        self.lane.wake.notify_one();
    }
}
