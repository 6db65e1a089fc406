//! Waiting for the watermark: the promise of a lane (I1), and the queue of those who wait.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use tally_base::{Fate, Lsn, Promise};

use crate::lane::Lane;

/// What is called when the outcome is known.
pub(crate) type Then = Box<dyn FnOnce(Fate) + Send>;

/// The promise that a record, and all before it in its lane, will be durable.
pub(crate) struct LanePromise {
    lane: Arc<Lane>,
    lsn: Lsn,
    /// Bytes of records that the one who waits has appended himself.
    record_bytes: u64,
}

impl LanePromise {
    pub(crate) fn new(lane: Arc<Lane>, lsn: Lsn, record_bytes: u64) -> Self {
        Self { lane, lsn, record_bytes }
    }
}

impl Promise for LanePromise {
    fn poll(&self) -> Option<Fate> {
        self.lane.outcome(self.lsn).map(|outcome| outcome.map(|()| self.lane.kept_before(self.record_bytes)))
    }

    fn drive(&self) -> Option<Fate> {
        self.lane.drive_for(self.lsn, self.record_bytes)
    }

    fn then(self: Box<Self>, then: Then) {
        self.lane.call_when_durable(self.lsn, self.record_bytes, then);
    }
}

/// Those who wait, by LSN, and among equals in the order in which they came.
#[derive(Default)]
pub(crate) struct Waiters {
    heap: BinaryHeap<Reverse<Waiter>>,
    arrivals: u64,
    /// Whether somebody is calling them: one at a time, so that they are called in order.
    pub(crate) releasing: bool,
}

/// Somebody who waits.
pub(crate) struct Waiter {
    /// When every record up to this one is durable, he is called.
    pub(crate) lsn: Lsn,
    /// Bytes of records that he has appended himself.
    pub(crate) record_bytes: u64,
    /// To be called.
    pub(crate) then: Then,
    arrival: u64,
}

impl Waiters {
    pub(crate) fn push(&mut self, lsn: Lsn, record_bytes: u64, then: Then) {
        self.arrivals += 1;
        self.heap.push(Reverse(Waiter { lsn, record_bytes, then, arrival: self.arrivals }));
    }

    /// Takes the first one, if it waits for no more than `durable`.
    pub(crate) fn pop(&mut self, durable: Lsn) -> Option<Waiter> {
        if !self.is_due(durable) {
            return None;
        }
        self.heap.pop().map(|Reverse(first)| first)
    }

    /// Nobody waits for a record that was not appended, and each has come once. That the first of them is in front is the heap's to
    /// keep.
    pub(crate) fn invariant(&self, next_lsn: Lsn) {
        let first = self.heap.peek().map(|Reverse(first)| first);
        debug_assert!(first.is_none_or(|first| first.lsn < next_lsn), "the first one waits for what there is");
        debug_assert!(self.heap.len() as u64 <= self.arrivals, "more wait than have come");
    }

    /// Whether somebody waits for no more than `durable`.
    pub(crate) fn is_due(&self, durable: Lsn) -> bool {
        self.heap.peek().is_some_and(|Reverse(first)| first.lsn <= durable)
    }
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Self) -> bool {
        (self.lsn, self.arrival) == (other.lsn, other.arrival)
    }
}

impl Eq for Waiter {}

impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiter {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.lsn, self.arrival).cmp(&(other.lsn, other.arrival))
    }
}
