//! Ranges of bytes of a file that somebody has locked. They are advice, as POSIX has them: they keep others from locking, and nobody from reading or writing.
//!
//! A lock is held below an open and goes with it at the latest, so that nothing stays locked that nobody can unlock any more. Who has no opens, as clients of NFSv3, holds it until he
//! unlocks, and his protocol sees to it that he does not keep it when he is gone. On disk there is nothing of it.
//!
//! A door that keeps somebody waiting for a range watches ([`Watch`]), and is told when something is given up at another one.

pub use tally_claims::{Kind, Lock, Range, Watch};

use crate::outcome::FsError;

/// Why a range is not locked. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLocked {
    /// Somebody else holds a part of it: this is what, and there may be more.
    Held(Lock),
    /// It cannot be, whoever holds what.
    Failed(FsError),
}

impl From<FsError> for NotLocked {
    fn from(error: FsError) -> Self {
        Self::Failed(error)
    }
}
