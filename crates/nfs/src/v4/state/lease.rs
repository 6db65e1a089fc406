//! The time by which leases run (rules V21): it counts while the server could answer, and no other.
//!
//! ```text
//!  of the day   ──┬───┬───┬─── … nothing looks for 100 s … ───┬───┬───┬── one lease ──┬───┬───┬──▶
//!  looks          │   │   │                                   │   │   │               │   │   │
//!  of leases    ──┴───┴───┤ stands still                                              ├───┴───┴──▶
//! ```
//!
//! Somebody looks at least every [`LOOK_MAX`], as long as requests are carried out. Where more is between two looks, the process or its machine was stopped, or no request was
//! taken up: nobody could renew anything. So that counts for nobody, and then the clock stands for one lease more, as clients that waited meanwhile ask at their own pace. It never
//! goes back, so a lease that has begun is as long as any.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;

use super::LEASE_DEFAULT;

/// Most that is between two looks of a server that answers.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// The clock of leases. Whoever has a clock tells it what time it is.
#[derive(Debug)]
pub struct LeaseClock {
    lease: Duration,
    now_ns: AtomicU64,
    looks: Mutex<Looks>,
}

#[derive(Debug, Default)]
struct Looks {
    last: Option<Duration>,
    still_until: Duration,
}

impl LeaseClock {
    /// That of leases of this length, as it begins.
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        let (now_ns, looks) = Default::default();
        Self { lease, now_ns, looks }
    }

    /// How long one is.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// As of the last look.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns.load(Relaxed))
    }

    /// When something counts as said that is said now: as of the next look at the latest, so that nobody's lease is over early.
    #[must_use]
    pub fn heard(&self) -> Duration {
        self.now() + LOOK_MAX
    }

    /// It is `at` by a clock that does not go back, and requests are carried out.
    pub fn look(&self, at: Duration) {
        let mut looks = self.looks.lock();
        let Some(last) = looks.last.replace(at) else { return };
        if at.saturating_sub(last) > LOOK_MAX {
            looks.still_until = at + self.lease.min(LEASE_DEFAULT);
        }
        let counted = at.saturating_sub(last.max(looks.still_until));
        self.now_ns.fetch_add(counted.as_nanos() as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests;
