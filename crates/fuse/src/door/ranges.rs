//! Ranges of bytes that programs lock: `fcntl` with `F_SETLK`, `F_SETLKW`, `F_GETLK`, and the same with `F_OFD_`.
//!
//! Whether a file is open for what a program locks it for the kernel has asked. `flock` it keeps to itself. Who is refused and would wait asks once more behind his place (rules V44).

use rustix::io::Errno;
use tally_base::{ObjectId, Wait};
use tally_vfs::locks::{Kind, Lock, NotLocked, Range};
use tally_vfs::{ClientNumber, FsError, ObjectRef};

use super::{Asked, Step, Until};
use crate::locked::Locker;
use crate::opens::Way;
use crate::wire::{LkIn, LkOut, Reply};

/// Kinds of locks.
const RDLCK: u32 = 0;
const WRLCK: u32 = 1;
const UNLCK: u32 = 2;
/// It is of flock(2), for which this has not asked.
const LK_FLOCK: u32 = 1;
/// The last byte of a range up to the end of the file.
const TO_THE_END: u64 = i64::MAX as u64;

/// The range that is asked for, and what for; no kind is to unlock it.
fn asked_for(asked: &LkIn) -> Option<(Range, Option<Kind>)> {
    let last = if asked.last == TO_THE_END { u64::MAX } else { asked.last };
    let kind = match asked.kind {
        RDLCK => Some(Kind::Read),
        WRLCK => Some(Kind::Write),
        UNLCK => None,
        _ => return None,
    };
    Some((Range::between(asked.first, last)?, kind))
}

/// Whose range keeps somebody from having one.
fn who_has_it(told: &Result<(), NotLocked>) -> Vec<ClientNumber> {
    if let Err(NotLocked::Held(held)) = told { vec![held.holder.client] } else { Vec::new() }
}

impl Asked<'_> {
    pub(super) fn get_lock(&self, asked: &LkIn) -> Result<Step, FsError> {
        let Some((range, Some(kind))) = asked_for(asked) else { return Ok(Errno::INVAL.into()) };
        let object = self.node()?;
        if self.door.source.is_in_grace(self.vfs) {
            // What nobody has locked may be what somebody claims again.
            return Ok(Step::Again(Until::Grace));
        }
        let holder = self.door.locked.holder(asked.owner);
        let test = || self.vfs.test_range(object, Lock { holder, range, kind });
        Ok(match self.past_late(test, who_has_it).0 {
            Ok(()) => Reply::lock(LkOut { kind: UNLCK, ..LkOut::default() }).into(),
            Err(NotLocked::Held(held)) => Reply::lock(self.shown(object, held)).into(),
            Err(NotLocked::Failed(error)) => self.not_locked(error),
        })
    }

    /// What another one has. A client elsewhere has no process here.
    fn shown(&self, object: ObjectRef, held: Lock) -> LkOut {
        LkOut {
            first: held.range.first().min(TO_THE_END),
            last: held.range.last().min(TO_THE_END),
            kind: if held.kind == Kind::Read { RDLCK } else { WRLCK },
            pid: self.door.locked.pid(object.id, held.holder),
        }
    }

    pub(super) fn set_lock(&self, asked: &LkIn, waits: bool) -> Result<Step, FsError> {
        if asked.lk_flags & LK_FLOCK != 0 {
            return Ok(Errno::NOSYS.into());
        }
        match asked_for(asked) {
            Some((range, Some(kind))) => self.lock(asked, (range, kind), waits),
            Some((range, None)) => Ok(self.unlock(asked.owner, range)),
            None => Ok(Errno::INVAL.into()),
        }
    }

    fn lock(&self, asked: &LkIn, (range, kind): (Range, Kind), waits: bool) -> Result<Step, FsError> {
        let (object, way) = (self.node()?, Way::numbered(asked.fh).ok_or(FsError::NotOpened)?);
        if !self.door.opens.is_open(object.id, way) {
            return Err(FsError::NotOpened);
        }
        if self.door.opens.is_gone(object.id) {
            return Err(FsError::Io);
        }
        if self.door.source.is_in_grace(self.vfs) {
            // He may have locked it by now, where the grace has begun anew.
            let has_some = self.vfs.has_ranges(object, self.door.locked.holder(asked.owner));
            return Ok(Step::Again(if has_some { Until::Moment } else { Until::Grace }));
        }
        let by = Locker { owner: asked.owner, fh: asked.fh, pid: asked.pid };
        let ask = || self.door.locked.lock(self.vfs, object, by, (range, kind));
        let lock = || self.past_late(ask, who_has_it).0;
        let mut locked = lock();
        if waits && matches!(locked, Err(NotLocked::Held(_))) {
            if !self.listens(object.id, range) {
                return Ok(Errno::NOLCK.into());
            }
            // It may have been freed before that was listened for.
            locked = lock();
        }
        Ok(match locked {
            Ok(()) => {
                if kind == Kind::Read {
                    // Where it was locked for writing others may read now.
                    self.door.source.freed(self.vfs, object);
                }
                match self.door.source.given(self.vfs) {
                    Ok(Wait::Ready) => Reply::done().into(),
                    // He has it from here on, and is told when nobody claims it any more: when he has asked for it again, which changes nothing.
                    Ok(Wait::On(promise)) | Err(Wait::On(promise)) => Step::Again(Until::Kept(promise)),
                    Err(Wait::Ready) => Step::Again(Until::Moment),
                }
            }
            Err(NotLocked::Held(_)) if waits => Step::Again(Until::Freed),
            Err(NotLocked::Held(_)) => Errno::AGAIN.into(),
            Err(NotLocked::Failed(error)) => self.not_locked(error),
        })
    }

    fn unlock(&self, owner: u64, range: Range) -> Step {
        match self.door.locked.unlock(self.vfs, ObjectId(self.header.node), owner, range) {
            Ok(freed) => {
                freed.into_iter().for_each(|object| self.door.source.freed(self.vfs, object));
                Reply::done().into()
            }
            Err(FsError::Unavailable) => Step::Again(Until::Moment),
            // For two ranges in the place of one.
            Err(_) => Errno::NOLCK.into(),
        }
    }

    /// What a process has locked goes when it closes the file.
    pub(super) fn unlock_closed(&self, owner: u64) -> Result<(), FsError> {
        match self.door.locked.flush(self.vfs, ObjectId(self.header.node), owner) {
            Ok(freed) => freed.into_iter().for_each(|object| self.door.source.freed(self.vfs, object)),
            Err(FsError::Unavailable) => return Err(FsError::Unavailable),
            // The file is closed, whatever there is to say of that.
            Err(_) => {}
        }
        Ok(())
    }

    fn not_locked(&self, error: FsError) -> Step {
        match error {
            FsError::TooManyClaims => Errno::NOLCK.into(),
            error => self.refused(error, Wait::Ready),
        }
    }
}
