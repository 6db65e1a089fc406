//! Server time: what changes are stamped with (rules F14).
//!
//! **The problem.** Clients keep what they have read for as long as a file's times are the same, so no two changes of
//! the pool may have one time, and no time may come again after a crash in which a change was lost. Times therefore only
//! go up, in memory and on disk. But the clock of day, which they come from, can be wrong: a machine whose battery is
//! empty starts in 1970 or in 2099. What goes up only would keep 2099 for ever.
//!
//! **The idea.** The clock is followed only as far as it can be believed. The newest uberblock tells when the pool last
//! was in use, and a second clock, which nobody sets, tells how long ago that was while we run. A clock of day that stands
//! more than [`JUMP_MAX`] above both together has jumped:
//!
//! ```text
//!                       is at most JUMP_MAX above what is expected
//!            ┌────────────────────────────────────────────────────────────┐
//!            ▼                                                            │
//!        followed ──── is more than JUMP_MAX above what is expected ──▶ held: expected times are issued,
//!   the clock's times                                                     │   status and log tell it
//!            ▲        the administrator says that it is right;            │
//!            │        or it has gone on evenly for PROBATION, and an      │
//!            └─────── outage of so long is possible ──────────────────────┘
//! ```
//!
//! A clock that is behind is not a state: what is issued is a nanosecond above the last, until the clock has come to it.
//! It is told when it is so by more than [`JUMP_MAX`].
//!
//! **The lease.** An uberblock says up to where times may have been issued: an import begins above. The clock may pass the
//! lease between two groups, as an idle pool syncs nothing. A record of the log brings its own time, and the replay
//! learns it. What is not logged must keep below the lease ([`ServerTime::issue_leased`]), and asks for a group first if the
//! lease is over, or if something logged has passed it: that record may be lost, and its time is told by nothing then.
//! So every time that a client is told with an answer is below the lease, or in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tally_base::{Clock, Time};

use super::TIME_ROOM_END;

/// A clock of day this far from what is expected has jumped. Longer than any correction of a running clock, time zones
/// included.
const JUMP_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// A pool that was away for longer than [`JUMP_MAX`] believes its machine's clock after so long: time servers have put
/// a wrong one right by then.
pub const PROBATION: Duration = Duration::from_secs(15 * 60);
/// A clock that is further ahead is only believed if an administrator says so. Clocks that lost their battery are mostly
/// years away, and disks lie in a drawer for months.
const AWAY_MAX: Duration = Duration::from_secs(400 * 24 * 60 * 60);
/// How evenly a clock goes on while it is on probation.
const EVEN: Duration = Duration::from_secs(60);

/// How far server time may run ahead of an uberblock.
const LEASE: Duration = Duration::from_secs(10);
/// The lease where issued times are ahead of the clock: each then goes up by a nanosecond, so that this is enough
/// for a hundred million changes in one transaction group.
const LEASE_AHEAD: Duration = Duration::from_millis(100);
/// So long before its end a lease is renewed by whoever needs it.
const LEASE_MARGIN: Duration = Duration::from_secs(2);

/// The machine's clock and the pool's time do not agree, and this is how far they are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockFault {
    /// It is not followed.
    Ahead {
        /// How far it is above the pool's time.
        by: Duration,
        /// It will be, if it goes on like this for [`PROBATION`].
        on_probation: bool,
    },
    /// Changes get times a nanosecond apart.
    Behind {
        /// How far it is below the newest time that was issued.
        by: Duration,
    },
}

/// See the module's head.
pub(super) struct ServerTime {
    clock: Arc<dyn Clock>,
    /// The newest time that was issued, ns.
    issued: AtomicU64,
    /// The end of the lease that is durable, ns.
    lease: AtomicU64,
    /// Below this the clock of day is believed without a second look, ns.
    believed_to: AtomicU64,
    anchor: Mutex<Anchor>,
}

/// A time of day that was right, and when that was.
struct Anchor {
    day: u64,
    up: Duration,
    held: Option<Held>,
}

/// A clock on probation.
#[derive(Clone, Copy)]
struct Held {
    ahead_ns: u64,
    since: Duration,
}

impl ServerTime {
    /// For a pool that was last in use at `last`, and has issued nothing at or above `lease`. A new pool has no `last`, and
    /// must believe the clock.
    pub(super) fn new(clock: Arc<dyn Clock>, last: Option<Time>, lease: Time) -> Self {
        let day = last.unwrap_or_else(|| clock.now()).0.min(TIME_ROOM_END.0 - 1);
        let anchor = Anchor { day, up: clock.monotonic(), held: None };
        Self {
            clock,
            issued: AtomicU64::new(lease.0),
            lease: AtomicU64::new(lease.0),
            believed_to: AtomicU64::new(believed_to(day)),
            anchor: Mutex::new(anchor),
        }
    }

    /// A time above all that were issued, and the clock's if that is one.
    pub(super) fn issue(&self) -> Time {
        Time(self.issue_if(self.now(), |_| true).expect("it always issues"))
    }

    /// The same for a change that no record of the log tells: below the end of the lease. `None` if no time is left there.
    pub(super) fn issue_leased(&self) -> Option<Time> {
        let end = self.lease.load(Ordering::Relaxed);
        let time = self.issue_if(self.now().min(end.saturating_sub(1)), |time| time < end);
        time.map(Time)
    }

    fn issue_if(&self, now: u64, may_be: impl Fn(u64) -> bool) -> Option<u64> {
        let next = |last: u64| now.max(last + 1);
        let issue = |last: u64| Some(next(last)).filter(|time| may_be(*time));
        self.issued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, issue).ok().map(next)
    }

    /// A record of the log was issued this time. Behind one above the lease there may have been others, a nanosecond apart,
    /// of changes that were not logged.
    pub(super) fn learn(&self, time: Time) {
        let unlogged = if time.0 < self.lease.load(Ordering::Relaxed) { 0 } else { nanoseconds(LEASE_AHEAD) };
        self.issued.fetch_max(time.0.saturating_add(unlogged), Ordering::Relaxed);
    }

    /// Whether an uberblock should come before the next change that is not logged.
    pub(super) fn is_lease_over(&self) -> bool {
        self.now().saturating_add(nanoseconds(LEASE_MARGIN)) >= self.lease.load(Ordering::Relaxed)
    }

    /// Whether no time below the lease is left.
    pub(super) fn is_past_lease(&self) -> bool {
        self.issued.load(Ordering::Relaxed) + 1 >= self.lease.load(Ordering::Relaxed)
    }

    /// The lease of an uberblock that says `issued`. It counts from the clock: counted from the issued time, which starts at
    /// the last lease after a crash, a row of quick crashes would drive server time ahead of the clock by a lease each.
    pub(super) fn lease_from(&self, issued: Time) -> Time {
        Time((self.now() + nanoseconds(LEASE)).max(issued.0 + nanoseconds(LEASE_AHEAD)))
    }

    /// An uberblock with this lease is durable: what it says is behind us for good, and the clock is looked at.
    pub(super) fn set_lease(&self, lease: Time) {
        self.lease.store(lease.0, Ordering::Relaxed);
        let now = self.clock.now().0;
        if now < self.believed_to.load(Ordering::Relaxed) {
            let mut anchor = self.anchor.lock();
            // A clock that went back is no reason to expect less.
            let expected = anchor.expected(self.clock.monotonic());
            if now.saturating_add(nanoseconds(JUMP_MAX)) >= expected {
                self.believe(&mut anchor, now);
            }
        }
    }

    /// The newest time that was issued.
    pub(super) fn issued(&self) -> Time {
        Time(self.issued.load(Ordering::Relaxed))
    }

    /// What is wrong with the clock, if anything is.
    pub(super) fn fault(&self) -> Option<ClockFault> {
        let day = self.clock.now().0;
        let (now, issued) = (self.now(), self.issued().0);
        let (ahead, behind) = (day.saturating_sub(now), issued.saturating_sub(day));
        if ahead > nanoseconds(EVEN) {
            let on_probation = ahead <= nanoseconds(AWAY_MAX) && day < TIME_ROOM_END.0;
            return Some(ClockFault::Ahead { by: Duration::from_nanos(ahead), on_probation });
        }
        (behind > nanoseconds(JUMP_MAX)).then(|| ClockFault::Behind { by: Duration::from_nanos(behind) })
    }

    /// An administrator says that the clock is right. Times go on from there, back as well: the caller sees to it that
    /// nothing in the log is issued later. False if there is no room behind such a time.
    pub(super) fn accept_clock(&self) -> bool {
        let day = self.clock.now().0;
        if day >= TIME_ROOM_END.0 {
            return false;
        }
        let mut anchor = self.anchor.lock();
        self.believe(&mut anchor, day);
        self.issued.store(day, Ordering::Relaxed);
        true
    }

    /// The clock of day as far as it is believed, ns. It may be below what was issued.
    pub(super) fn now(&self) -> u64 {
        let day = self.clock.now().0;
        if day < self.believed_to.load(Ordering::Relaxed) { day } else { self.look(day) }
    }

    /// The clock is above what was believed so far: time has passed, or it has jumped.
    #[cold]
    fn look(&self, day: u64) -> u64 {
        let mut anchor = self.anchor.lock();
        let up = self.clock.monotonic();
        let expected = anchor.expected(up);
        let ahead_ns = day.saturating_sub(expected);
        if day < TIME_ROOM_END.0 && (ahead_ns <= nanoseconds(JUMP_MAX) || anchor.is_proven(ahead_ns, up)) {
            self.believe(&mut anchor, day);
            return day;
        }
        expected
    }

    fn believe(&self, anchor: &mut Anchor, day: u64) {
        if let Some(held) = anchor.held.take() {
            tracing::warn!("the clock is followed again; it was {} s ahead", held.ahead_ns / 1_000_000_000);
        }
        (anchor.day, anchor.up) = (day, self.clock.monotonic());
        self.believed_to.store(believed_to(day), Ordering::Relaxed);
    }
}

impl Anchor {
    /// The time of day by the clock that nobody sets.
    fn expected(&self, up: Duration) -> u64 {
        self.day.saturating_add(nanoseconds(up.saturating_sub(self.up))).min(TIME_ROOM_END.0 - 1)
    }

    /// Whether a clock that is so far ahead has gone on evenly for long enough, and not too far.
    fn is_proven(&mut self, ahead_ns: u64, up: Duration) -> bool {
        match self.held {
            Some(held) if held.ahead_ns.abs_diff(ahead_ns) <= nanoseconds(EVEN) => {
                ahead_ns <= nanoseconds(AWAY_MAX) && up.saturating_sub(held.since) >= PROBATION
            }
            _ => {
                tracing::warn!(
                    "the clock is {} s ahead of the pool's time and not followed; see `tally pool status`",
                    ahead_ns / 1_000_000_000
                );
                self.held = Some(Held { ahead_ns, since: up });
                false
            }
        }
    }
}

fn believed_to(day: u64) -> u64 {
    day.saturating_add(nanoseconds(JUMP_MAX)).min(TIME_ROOM_END.0)
}

const fn nanoseconds(duration: Duration) -> u64 {
    // None here is longer than 584 years.
    duration.as_nanos() as u64
}

#[cfg(test)]
mod tests;
