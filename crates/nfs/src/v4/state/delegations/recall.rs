//! A recall: when the client is called, and when it is waited for no longer (RFC 8881 §10.4.5; rules V41).
//!
//! ```text
//!                    it was sent          OK; DELAY for 5 s
//!  recalled ─▶ Due ─────────────▶ Called ───────────────────▶ Told ── one lease since it was recalled ──▶ over
//!               ▲                   │ │ BAD_STATEID or BADHANDLE for 5 s
//!               │  DELAY, BAD_…     │ └──────────────────────────────────────────────────────────────────▶ over
//!               └── half a second ──┤
//!               └── a second ───────┘ no answer; it could not be sent; its session is gone, and nobody tells
//! ```
//!
//! *Why not at once.* A client that knows nothing of a delegation may have its grant on the way: the OPEN's answer and the call come over two connections. So what it says counts
//! once it has said so for as long as no answer is under way ([`REPEATED`]). Who says DELAY has the call; whether he comes is seen by the lease.
//!
//! *Why one lease.* It is what the text gives a client at least, and as long as one that cannot be reached may believe in what it has.

use std::time::Duration;

/// For so long what a client says against a recall does not count.
const REPEATED: Duration = Duration::from_secs(5);
/// Between two calls of one that says so.
const REFUSED_PACE: Duration = Duration::from_millis(500);
/// Between two calls of one that is not heard.
const UNHEARD_PACE: Duration = Duration::from_secs(1);

/// Behind that nobody tells any more what came of a call: its session was destroyed meanwhile.
const TOLD_IN: Duration = Duration::from_secs(15);

/// What a client says to a recall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It gives it back.
    Taken,
    /// DELAY.
    Later,
    /// It has none: BAD_STATEID, BADHANDLE.
    HasNone,
    /// Something else, or nothing; or it could not be called.
    Nothing,
}

/// What is to be done about a recall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, for now.
    Wait,
    /// The client is to be called.
    Call,
    /// It is over: what was recalled is taken.
    Revoke,
}

/// A delegation is recalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recall {
    until: Duration,
    call: Call,
    /// As of when the client says no.
    refused: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Due(Duration),
    Called(Duration),
    Told,
    HasNone,
}

impl Recall {
    /// As of now, by the clock of leases, which are so long.
    #[must_use]
    pub(super) fn begun(now: Duration, lease: Duration) -> Self {
        Self { until: now + lease, call: Call::Due(now), refused: None }
    }

    /// One of which the client was told with its grant.
    #[must_use]
    pub(super) fn told(now: Duration, lease: Duration) -> Self {
        Self { call: Call::Told, ..Self::begun(now, lease) }
    }

    /// What is to be done.
    #[must_use]
    pub(super) fn next(&self, now: Duration) -> Next {
        match self.call {
            _ if self.until < now => Next::Revoke,
            Call::HasNone => Next::Revoke,
            Call::Due(at) if at <= now => Next::Call,
            Call::Called(at) if at + TOLD_IN <= now => Next::Call,
            Call::Due(_) | Call::Called(_) | Call::Told => Next::Wait,
        }
    }

    /// Whether the client has said for long enough that it has none.
    #[must_use]
    pub(super) fn is_denied(&self) -> bool {
        self.call == Call::HasNone
    }

    /// The client is about to be called.
    pub(super) fn call(&mut self, now: Duration) {
        self.call = Call::Called(now);
    }

    /// What came of that.
    pub(super) fn answered(&mut self, answer: Answer, now: Duration) {
        if !matches!(self.call, Call::Called(_)) {
            return;
        }
        let is_refusal = matches!(answer, Answer::Later | Answer::HasNone);
        let counts = is_refusal && *self.refused.get_or_insert(now) + REPEATED <= now;
        self.call = match answer {
            Answer::Taken => Call::Told,
            Answer::Later if counts => Call::Told,
            Answer::HasNone if counts => Call::HasNone,
            Answer::Later | Answer::HasNone => Call::Due(now + REFUSED_PACE),
            Answer::Nothing => Call::Due(now + UNHEARD_PACE),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v4::state::LEASE_DEFAULT as LEASE;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// One that was recalled at 10 s, and answered so at 11 s and as often as it was called since.
    fn answered(answer: Answer, until: Duration) -> (u32, Next) {
        let (mut recall, mut now, mut calls) = (Recall::begun(at(10_000), LEASE), at(10_000), 0);
        while now < until {
            if recall.next(now) == Next::Call {
                recall.call(now);
                assert_eq!(recall.next(now), Next::Wait, "one call at a time");
                recall.answered(answer, now);
                calls += 1;
            }
            now += at(100);
        }
        (calls, recall.next(now))
    }

    #[test]
    fn what_a_client_says_counts_when_it_has_said_so_for_five_seconds() {
        let lease = 10_000 + LEASE.as_millis() as u64;
        let cases = [
            (Answer::Taken, 10_100, (1, Next::Wait)),
            (Answer::Taken, lease, (1, Next::Wait)),
            (Answer::Taken, lease + 100, (1, Next::Revoke)),
            (Answer::HasNone, 10_400, (1, Next::Wait)),
            (Answer::HasNone, 10_500, (1, Next::Call)),
            (Answer::HasNone, 15_000, (10, Next::Call)),
            (Answer::HasNone, 15_100, (11, Next::Revoke)),
            (Answer::Later, 15_000, (10, Next::Call)),
            (Answer::Later, lease, (11, Next::Wait)),
            (Answer::Later, lease + 100, (11, Next::Revoke)),
            (Answer::Nothing, 20_000, (10, Next::Call)),
            (Answer::Nothing, lease + 100, (91, Next::Revoke)),
        ];
        for (answer, until, expected) in cases {
            assert_eq!(answered(answer, at(until)), expected, "{answer:?} until {until} ms");
        }
    }

    #[test]
    fn what_nobody_tells_of_is_called_again() {
        let mut recall = Recall::begun(at(0), LEASE);
        recall.call(at(0));
        assert_eq!((recall.next(at(14_999)), recall.next(at(15_000))), (Next::Wait, Next::Call));
    }

    #[test]
    fn an_answer_to_no_call_is_none() {
        let mut recall = Recall::begun(at(0), LEASE);
        recall.answered(Answer::Taken, at(0));
        assert_eq!(recall.next(at(0)), Next::Call);
        let mut told = Recall::told(at(0), LEASE);
        told.answered(Answer::HasNone, at(10_000));
        assert_eq!((told.next(at(10_000)), told.next(LEASE + at(1))), (Next::Wait, Next::Revoke));
    }
}
