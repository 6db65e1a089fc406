//! Waiting for the watermark: the promise of a lane, and the queue of those who wait.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use tally_base::{Broken, Driven, Lsn, Promise};

use crate::lane::Lane;

/// What is called when the outcome is known.
pub(crate) type Then = Box<dyn FnOnce(Result<(), Broken>) + Send>;

/// The promise that a record, and all before it in its lane, will be durable.
pub(crate) struct LanePromise {
    lane: Arc<Lane>,
    lsn: Lsn,
}

impl LanePromise {
    pub(crate) fn new(lane: Arc<Lane>, lsn: Lsn) -> Self {
        Self { lane, lsn }
    }
}

impl Promise for LanePromise {
    fn poll(&self) -> Option<Result<(), Broken>> {
        self.lane.outcome(self.lsn)
    }

    fn drive(&self) -> Option<Driven> {
        self.lane.drive_for(self.lsn)
    }

    fn then(self: Box<Self>, then: Then) {
        self.lane.call_when_durable(self.lsn, then);
    }
}

/// Those who wait, by LSN, and among equals in the order in which they came.
#[derive(Default)]
pub(crate) struct Waiters {
    heap: BinaryHeap<Reverse<Waiter>>,
    arrivals: u64,
}

struct Waiter {
    lsn: Lsn,
    arrival: u64,
    then: Then,
}

impl Waiters {
    /// Queues one.
    pub(crate) fn push(&mut self, lsn: Lsn, then: Then) {
        self.arrivals += 1;
        self.heap.push(Reverse(Waiter { lsn, arrival: self.arrivals, then }));
    }

    /// Takes the first one, if it waits for no more than `durable`.
    pub(crate) fn pop(&mut self, durable: Lsn) -> Option<(Lsn, Then)> {
        if !self.is_due(durable) {
            return None;
        }
        self.heap.pop().map(|Reverse(first)| (first.lsn, first.then))
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
