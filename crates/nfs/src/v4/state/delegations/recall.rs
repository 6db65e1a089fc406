//! A recall: when the client is called, and when it is waited for no longer (RFC 8881 §10.4.5; rules V41).
//!
//! ```text
//!                    it was sent          OK; DELAY for 5 s
//!  recalled ─▶ Due ─────────────▶ Called ───────────────────▶ Told ── one lease since it was called ──▶ over
//!               ▲                   │ │ BAD_STATEID or BADHANDLE for 5 s
//!               │  DELAY, BAD_…     │ └──────────────────────────────────────────────────────────────────▶ over
//!               └── half a second ──┤
//!               └── a second ───────┘ no answer; it could not be sent; its session is gone, and nobody tells
//! ```
//!
//! *Why not at once.* A client that knows nothing of a delegation may have its grant on the way: the OPEN's answer and the call come over two connections. So what it says counts
//! once it has said so for as long as no answer is under way ([`REPEATED`]). Who says DELAY has the call; whether he comes is seen by the lease.
//!
//! *Why one lease.* It is what the text gives a client at least, and as long as one that cannot be reached may believe in what it has. Where it was called it counts from the first call that its connection
//! took, and who can be called and was not yet, for want of a slot or of room, is not robbed of what nobody has asked him for ([`Recall::put_off`]). Neither goes on for longer than [`LEASES_MAX`].

use std::time::Duration;

/// For so long what a client says against a recall does not count.
const REPEATED: Duration = Duration::from_secs(5);
/// Between two calls of one that says so.
const REFUSED_PACE: Duration = Duration::from_millis(500);
/// Between two calls of one that is not heard.
const UNHEARD_PACE: Duration = Duration::from_secs(1);
/// So many leases behind a recall it is over, whenever its client was called: others wait no longer for who can be called and has his calls lie.
const LEASES_MAX: u32 = 2;
/// For so long what nobody has called its client for is kept, and then it is asked again whether that can be called.
const PUT_OFF: Duration = Duration::from_secs(5);

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
    /// Something else, or nothing.
    Nothing,
    /// It was not called: there is no connection, no slot, or no room.
    NotCalled,
    /// Nor was it, as its connections take nothing.
    NotTaken,
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
    begun: Duration,
    lease: Duration,
    /// If its client was not called.
    until: Duration,
    call: Call,
    /// When its client was first called.
    called: Option<Duration>,
    /// When it was to be called last its connections took nothing.
    is_deaf: bool,
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
        let until = now + lease;
        Self { begun: now, lease, until, call: Call::Due(now), called: None, is_deaf: false, refused: None }
    }

    /// One of which the client was told with its grant.
    #[must_use]
    pub(super) fn told(now: Duration, lease: Duration) -> Self {
        Self { call: Call::Told, called: Some(now), ..Self::begun(now, lease) }
    }

    /// What is to be done.
    #[must_use]
    pub(super) fn next(&self, now: Duration) -> Next {
        match self.call {
            _ if self.end() < now => Next::Revoke,
            Call::HasNone => Next::Revoke,
            Call::Due(at) if at <= now => Next::Call,
            Call::Called(at) if at + TOLD_IN <= now => Next::Call,
            Call::Due(_) | Call::Called(_) | Call::Told => Next::Wait,
        }
    }

    /// Behind that it is over, whatever comes of the call.
    fn end(&self) -> Duration {
        let last = self.begun + self.lease * LEASES_MAX;
        self.called.map_or(self.until, |called| called + self.lease).min(last)
    }

    /// Whether nobody has called its client, and not for its own fault.
    #[must_use]
    pub(super) fn is_uncalled(&self) -> bool {
        self.called.is_none() && !self.is_deaf
    }

    /// Its time is over, and its client can be called and was not. Whether it is waited for it still.
    pub(super) fn put_off(&mut self, now: Duration) -> bool {
        if self.is_uncalled() {
            self.until = now + PUT_OFF;
        }
        self.next(now) != Next::Revoke
    }

    /// Nothing can be given back before that: the time for it does not begin until then.
    pub(super) fn begins_at(&mut self, at: Duration) {
        self.begun = self.begun.max(at);
        self.until = self.until.max(at + self.lease);
        self.called = self.called.map(|called| called.max(at));
    }

    /// Whether the client has said for long enough that it has none.
    #[must_use]
    pub(super) fn is_denied(&self) -> bool {
        self.call == Call::HasNone
    }

    /// The client is about to be called.
    pub(super) fn call(&mut self, now: Duration) {
        self.call = Call::Called(now);
        self.called.get_or_insert(now);
        self.is_deaf = false;
    }

    /// What came of that.
    pub(super) fn answered(&mut self, answer: Answer, now: Duration) {
        let Call::Called(at) = self.call else { return };
        if matches!(answer, Answer::NotCalled | Answer::NotTaken) {
            // One that was before it may have been heard.
            self.called = self.called.filter(|called| *called != at);
            self.is_deaf = answer == Answer::NotTaken;
        }
        let is_refusal = matches!(answer, Answer::Later | Answer::HasNone);
        let counts = is_refusal && *self.refused.get_or_insert(now) + REPEATED <= now;
        self.call = match answer {
            Answer::Taken => Call::Told,
            Answer::Later if counts => Call::Told,
            Answer::HasNone if counts => Call::HasNone,
            Answer::Later | Answer::HasNone => Call::Due(now + REFUSED_PACE),
            Answer::Nothing | Answer::NotCalled | Answer::NotTaken => Call::Due(now + UNHEARD_PACE),
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
            (Answer::NotCalled, lease + 100, (91, Next::Revoke)),
            (Answer::NotTaken, lease + 100, (91, Next::Revoke)),
        ];
        for (answer, until, expected) in cases {
            assert_eq!(answered(answer, at(until)), expected, "{answer:?} until {until} ms");
        }
    }

    #[test]
    fn the_lease_counts_from_the_first_call_that_was_one() {
        let (lease, moment) = (LEASE, at(1));
        let mut recall = Recall::begun(at(0), lease);
        for (second, answer) in
            [(1, Answer::NotCalled), (10, Answer::NotTaken), (50, Answer::Nothing), (60, Answer::NotCalled)]
        {
            recall.call(at(second * 1000));
            recall.answered(answer, at(second * 1000));
        }
        let end = at(50_000) + lease;
        recall.call(end - moment * 2);
        assert_eq!((recall.next(end), recall.next(end + moment)), (Next::Wait, Next::Revoke));
        assert!(!recall.put_off(end + moment), "it was called");
    }

    #[test]
    fn who_can_be_called_and_was_not_is_not_robbed_for_two_leases() {
        let (lease, moment) = (LEASE, at(1));
        let mut recall = Recall::begun(at(0), lease);
        assert_eq!(recall.next(lease + moment), Next::Revoke, "as who cannot be called is");
        let mut now = lease + moment;
        while recall.put_off(now) {
            assert_eq!(recall.next(now), Next::Call);
            now += PUT_OFF + moment;
        }
        assert!(now > lease * LEASES_MAX && now < lease * LEASES_MAX + PUT_OFF * 2, "{now:?}");
        // At last he is called.
        let mut late = Recall::begun(at(0), lease);
        assert!(late.put_off(lease + moment));
        late.call(lease + PUT_OFF);
        late.answered(Answer::Taken, lease + PUT_OFF);
        assert_eq!(
            (late.next(lease * 2), late.next(lease * 2 + moment)),
            (Next::Wait, Next::Revoke),
            "and not for ever"
        );
        let mut deaf = Recall::begun(at(0), lease);
        deaf.call(at(1000));
        deaf.answered(Answer::NotTaken, at(1000));
        assert!(!deaf.put_off(lease + moment), "who takes nothing has it from himself");
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
