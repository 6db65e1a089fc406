//! A world that is the same in every execution: its time stands nearly still, its randomness is a number.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tally_base::{Clock, Rng, Time};

/// A clock that goes on by a microsecond whenever somebody looks at it.
pub(crate) struct Ticks(AtomicU64);

/// Behind the moment at which the golden image was made.
const START_SECONDS: u64 = 1_795_000_000;

impl Ticks {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Clock for Ticks {
    fn now(&self) -> Time {
        Time(Time::new(START_SECONDS, 0).0 + self.0.fetch_add(1000, Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.0.fetch_add(1000, Ordering::Relaxed))
    }
}

/// Counts: numbers that differ, and are the same in every execution.
pub(crate) struct Counted(AtomicU64);

impl Counted {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Rng for Counted {
    fn fill(&self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            // Spread over all bits, so that a shard or a bucket is not always the first.
            let number = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            part.copy_from_slice(&number.to_le_bytes()[..part.len()]);
        }
    }
}

/// Always the same number, so that an input can name what it has made: every object has this generation.
pub(crate) struct Fixed(pub(crate) u64);

impl Rng for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.0.to_le_bytes()[..part.len()]);
        }
    }
}

/// A moment that does not pass.
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Time {
        Time::new(START_SECONDS, 0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}
