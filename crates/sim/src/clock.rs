//! The machine's clocks: they move when somebody looks, when a disk keeps its caller waiting, while the machine is off,
//! and when somebody sets them wrong.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tally_base::{Clock, Time};

/// What the time of day is in the beginning.
const START_NS: i64 = 1_700_000_000_000_000_000;

/// A clock that moves a little with every look, and much if it is told to.
#[derive(Default)]
pub struct Ticks {
    /// Nanoseconds that have really gone by.
    passed_ns: AtomicU64,
    /// Of these, nanoseconds in which a disk was at work.
    worked_ns: AtomicU64,
    /// By how much the time of day is wrong.
    wrong_ns: AtomicI64,
}

impl Ticks {
    /// So much time goes by.
    pub fn pass(&self, time: Duration) {
        self.passed_ns.fetch_add(u64::try_from(time.as_nanos()).expect("some centuries at most"), Ordering::Relaxed);
    }

    /// So much time goes by because a disk is at work.
    pub fn work(&self, time: Duration) {
        self.pass(time);
        self.worked_ns.fetch_add(u64::try_from(time.as_nanos()).expect("less than a second"), Ordering::Relaxed);
    }

    /// How long disks were at work, in all: neither what they hung counts, nor while the machine was off.
    #[must_use]
    pub fn worked(&self) -> Duration {
        Duration::from_nanos(self.worked_ns.load(Ordering::Relaxed))
    }

    /// From now on the time of day is wrong by so much: it jumps, and nothing has gone by.
    pub fn set_wrong_by(&self, ns: i64) {
        self.wrong_ns.store(ns, Ordering::Relaxed);
    }

    /// Whether the time of day is wrong.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.wrong_ns.load(Ordering::Relaxed) != 0
    }

    /// Nanoseconds that have really gone by.
    #[must_use]
    pub fn passed_ns(&self) -> u64 {
        self.passed_ns.load(Ordering::Relaxed)
    }

    fn tick(&self) -> u64 {
        self.passed_ns.fetch_add(1000, Ordering::Relaxed)
    }
}

impl Clock for Ticks {
    fn now(&self) -> Time {
        let right = START_NS.saturating_add_unsigned(self.tick());
        Time(right.saturating_add(self.wrong_ns.load(Ordering::Relaxed)).max(0) as u64)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.tick())
    }

    fn sleep(&self, time: Duration) {
        self.pass(time);
    }
}
