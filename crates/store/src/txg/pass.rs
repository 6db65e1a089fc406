//! Passing the [slope](super::slope): what somebody holds who may bring data, and what he waits for who may not yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::MutexGuard;
use tally_base::{Fate, Kept, Promise, Txg, Wait};

use super::slope::{self, Destination, Load, RingUse, Then};
use super::{Cause, State, Txgs, answer};

/// Leave to bring data, kept while it is brought.
#[must_use]
pub struct Pass {
    txgs: Arc<Txgs>,
    load: Load,
}

impl Txgs {
    /// Lets somebody bring so many bytes of data; or says when he may come again. Never blocks. What is light takes nothing
    /// with it.
    pub fn pass(self: &Arc<Self>, destination: Destination, bytes: u64, ring: RingUse) -> Result<Option<Pass>, Wait> {
        let group_bytes_max = self.ahead_bytes_max(RingUse::None);
        let ring_group_bytes_max = ring.group_bytes_max(bytes);
        let load = Load { destination, bytes, group_bytes_max, ring_group_bytes_max };
        let of = |mirror: &AtomicU64| mirror.load(Ordering::Relaxed);
        if load.is_light(of(&self.ahead_bytes), of(&self.ring_bytes)) {
            return Ok(None);
        }
        let mut state = self.state.lock();
        // Who comes too late is told so by others.
        if state.stopped || state.failure.is_some() {
            return Ok(None);
        }
        let asked = state.slope.ask(load);
        self.note_ahead(&state);
        match asked {
            Ok(()) => Ok(Some(Pass { txgs: Arc::clone(self), load })),
            Err(number) => {
                self.want_open(&mut state, Cause::Slope);
                Err(Wait::On(Box::new(Turn { txgs: Arc::clone(self), ticket: Some(number) })))
            }
        }
    }

    /// The fold of `txg` has written so many bytes of blocks: as much may be brought.
    pub fn wrote(&self, txg: Txg, bytes: u64) {
        let mut state = self.state.lock();
        state.slope.wrote(txg, bytes);
        self.go_on(state);
    }

    /// Bytes of data that are ahead of the disks.
    #[must_use]
    pub fn ahead_bytes(&self) -> u64 {
        self.state.lock().slope.ahead_bytes()
    }

    /// Bytes ahead of the disks near which those who bring more wait.
    #[must_use]
    pub fn ahead_bytes_max(&self, ring: RingUse) -> u64 {
        let of_memory = slope::group_bytes_max(self.dirty_bytes_max);
        of_memory
            .min(ring.group_bytes_max(u64::MAX).unwrap_or(u64::MAX))
            .min(self.paced_bytes_max.load(Ordering::Relaxed))
    }

    /// Requests that wait until what is ahead of the disks is less.
    #[must_use]
    pub fn ahead_waiting(&self) -> usize {
        self.state.lock().slope.waiting()
    }

    /// Something went, and others may pass. They are called without the lock.
    pub(super) fn go_on(&self, mut state: MutexGuard<'_, State>) {
        let synced = state.synced;
        let woken = state.slope.advance(synced);
        self.note_ahead(&state);
        // While a group is wanted it is looked at again when that one is synced. Else what it would bring may never come:
        // the group that a ticket has asked for may be over, and what is ahead now be of a later one.
        if state.wanted <= state.synced && state.slope.waits_for_a_group() {
            self.want_open(&mut state, Cause::Slope);
        }
        drop(state);
        answer(woken, &Ok(Kept::default()));
    }

    pub(super) fn note_ahead(&self, state: &State) {
        // Who was woken is light, too, once the fold has gone on. He must not pass by the room that is kept for him.
        let ahead_bytes = if state.slope.keeps_room_for_small() { u64::MAX } else { state.slope.ahead_bytes() };
        self.ahead_bytes.store(ahead_bytes, Ordering::Relaxed);
        self.ring_bytes.store(state.slope.ring_bytes(), Ordering::Relaxed);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.txgs.state.lock();
        state.slope.give_back(&self.load);
        self.txgs.go_on(state);
    }
}

/// Kept when its turn has come, and room is kept for it.
struct Turn {
    txgs: Arc<Txgs>,
    /// Until somebody else is told.
    ticket: Option<u64>,
}

impl Promise for Turn {
    fn poll(&self) -> Option<Fate> {
        let state = self.txgs.state.lock();
        let waits = self.ticket.is_some_and(|number| state.slope.is_waiting(number));
        if waits { None } else { Some(outcome(&state)) }
    }

    fn drive(&self) -> Option<Fate> {
        self.poll()
    }

    fn then(mut self: Box<Self>, then: Then) {
        let Some(number) = self.ticket.take() else { return };
        let mut state = self.txgs.state.lock();
        if let Some(then) = state.slope.tell(number, then) {
            let outcome = outcome(&state);
            drop(state);
            then(outcome);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(number) = self.ticket else { return };
        let mut state = self.txgs.state.lock();
        state.slope.forget(number);
        self.txgs.go_on(state);
    }
}

fn outcome(state: &State) -> Fate {
    state.failure.clone().map_or(Ok(Kept::default()), Err)
}

#[cfg(test)]
mod tests;
