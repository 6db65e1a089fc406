//! Locked ranges of bytes (rules V31). Who has locked what stands in [`tally_claims`]; here is asked whether there is such a file, under its lock as OPEN does, and whether
//! the open below which it is locked may do that. Nothing is changed that is kept, so nothing is waited for.

use tally_claims::{Claim, Kind, Lock, Range, Refused};
use tally_vfs::locks::NotLocked;
use tally_vfs::{Access, FsError, Holder, ObjectRef};

use super::open::check_is_file;
use crate::filesystem::Filesystem;

impl Filesystem {
    pub(crate) fn lock_range(&self, object: ObjectRef, below: Holder, wanted: Lock) -> Result<(), NotLocked> {
        let locked = self.lock(&[object.id]).map_err(NotLocked::Failed)?;
        check_is_file(&self.sight(object.id, locked.state(object.id)).live(object)?.attr(object.id))?;
        let claims = self.claims.get().ok_or(FsError::NotOpened)?;
        let share = claims.share_of(object.id, below).ok_or(FsError::NotOpened)?;
        let needed = if wanted.kind == Kind::Read { Access::READ } else { Access::WRITE };
        if !share.access.has(needed) {
            return Err(FsError::OpenMode.into());
        }
        claims.lock(object.id, Some(below), wanted).map_err(|refused| refusal(refused, object))
    }

    /// The same by who has nothing open: whether he may was asked above.
    pub(crate) fn lock_unopened(&self, object: ObjectRef, wanted: Lock) -> Result<(), NotLocked> {
        let locked = self.lock(&[object.id]).map_err(NotLocked::Failed)?;
        check_is_file(&self.sight(object.id, locked.state(object.id)).live(object)?.attr(object.id))?;
        self.claims.get_or_init().lock(object.id, None, wanted).map_err(|refused| refusal(refused, object))
    }

    pub(crate) fn unlock_range(&self, object: ObjectRef, holder: Holder, range: Range) -> Result<(), FsError> {
        let Some(claims) = self.claims.get() else { return Ok(()) };
        claims.unlock(object.id, holder, range).map_err(|_| FsError::TooManyClaims)
    }

    pub(crate) fn test_range(&self, object: ObjectRef, wanted: Lock) -> Result<(), NotLocked> {
        check_is_file(&self.getattr(object)?)?;
        self.claims
            .get()
            .map_or(Ok(()), |claims| claims.test(object.id, wanted).map_err(|refused| refusal(refused, object)))
    }

    pub(crate) fn ranges(&self, object: ObjectRef, holder: Holder, most: usize) -> Vec<Lock> {
        self.claims.get().map_or_else(Vec::new, |claims| claims.ranges(object.id, holder, most))
    }

    pub(crate) fn has_ranges(&self, object: ObjectRef, holder: Holder) -> bool {
        self.claims.get().is_some_and(|claims| claims.has_ranges(object.id, holder))
    }
}

/// What is said of a range that is not locked.
fn refusal(refused: Refused, object: ObjectRef) -> NotLocked {
    match refused {
        Refused::Conflict { with: Claim::Delegation { .. } } => FsError::Delegated(object).into(),
        Refused::Conflict { with: Claim::Lock(held) } => NotLocked::Held(held),
        Refused::TooMany { .. } => FsError::TooManyClaims.into(),
        Refused::Conflict { .. } | Refused::NotOpened | Refused::Invalid => FsError::NotOpened.into(),
    }
}
