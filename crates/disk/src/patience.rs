//! Until when a request of a disk is waited for, and whose word that is: see [`PatientDisk`](crate::PatientDisk), and
//! [`Fanout`](crate::Fanout), where one is waited for beside others.

use std::io;
use std::time::Duration;

/// For how long a disk is waited for.
pub trait Patience: Send + Sync {
    /// How long whoever waits does so before he asks whether he may leave, as things stand now.
    fn limit(&self) -> Limit;

    /// Whether he may, after so long. A `true` is a decision: nothing may be told that rests on this disk from then on.
    fn may_leave(&self, waited: Duration) -> bool;

    /// Whether somebody has been told so. It is not waited for any more.
    fn has_left(&self) -> bool;
}

/// For how long a request of a disk is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Until it answers: nobody can stand in for the disk. A request that begins so is the caller's own and is never left.
    Alone,
    /// Until it answers, as long as nobody sets a limit: the request has an owner, and a limit holds for it at once.
    None,
    /// After so long whoever waits asks whether he may leave.
    After(Duration),
}

impl Limit {
    /// Whether a request has an owner of its own.
    #[must_use]
    pub const fn has_owner(self) -> bool {
        !matches!(self, Self::Alone)
    }

    /// Whether a request that has waited so long may ask.
    #[must_use]
    pub fn is_over(self, waited: Duration) -> bool {
        matches!(self, Self::After(limit) if waited >= limit)
    }
}

/// What a request is answered with that was left after so long.
pub(crate) fn not_answered(waited: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("has not answered for {} s", waited.as_secs()))
}
