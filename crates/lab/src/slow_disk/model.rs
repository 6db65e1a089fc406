//! What a request costs, given what lies in the disk's cache.

use std::time::Duration;

use crate::nbd::Action;

/// The costs, and whether the cache holds anything that a power cut would lose.
pub(super) struct Model {
    write: Duration,
    durable: Duration,
    dirty: bool,
}

/// What the disk was asked, and how often it had to make something durable.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) writes: u64,
    pub(super) flushes: u64,
    pub(super) durable: u64,
}

impl Model {
    pub(super) fn new(write: Duration, durable: Duration) -> Self {
        Self { write, durable, dirty: false }
    }

    /// The time that the request takes on this disk.
    pub(super) fn cost(&mut self, action: &Action, counts: &mut Counts) -> Duration {
        match action {
            Action::Read { .. } | Action::Other => Duration::ZERO,
            Action::Write { through: false, .. } => {
                counts.writes += 1;
                self.dirty = true;
                self.write
            }
            // The cache keeps what it holds of other writes.
            Action::Write { through: true, .. } => {
                counts.writes += 1;
                self.turn(counts)
            }
            Action::Flush => {
                counts.flushes += 1;
                if std::mem::take(&mut self.dirty) { self.turn(counts) } else { Duration::ZERO }
            }
        }
    }

    fn turn(&self, counts: &mut Counts) -> Duration {
        counts.durable += 1;
        self.durable
    }
}

impl Counts {
    /// One line of constant length, so that a reader never sees the rest of a longer one.
    pub(super) fn line(&self) -> String {
        format!("writes {:010} flushes {:010} durable {:010}\n", self.writes, self.flushes, self.durable)
    }
}
