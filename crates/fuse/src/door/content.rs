//! What is in files: read, written, and made durable.
//!
//! *What is durable when* (docs/mount.md). A WRITE promises nothing, unless its file is open with `O_SYNC` or `O_DSYNC`: the kernel sends an FSYNC behind such a one, too, which then finds nothing due, but the write
//! itself must not be answered before. FLUSH comes with each close(2) of a file, and a file that was open for writing is durable behind it, with all that names it.

use bytes::Bytes;
use rustix::io::Errno;
use smallvec::SmallVec;
use tally_base::Wait;
use tally_vfs::{FsError, ObjectRef, Outcome, Right, SetAttr, Sought, Stability};

use super::{Asked, Step, With, part_of};
use crate::opens::Way;
use crate::wire::Reply;

const O_DSYNC: u32 = 0o10_000;
const O_SYNC: u32 = 0o4_010_000;
const O_APPEND: u32 = 0o2_000;
/// Of WRITE: it comes from pages of the kernel's, and goes where they are.
const WRITE_CACHE: u32 = 1;
/// Of WRITE: set-id bits go with what was there.
const KILL_SUIDGID: u32 = 1 << 2;
/// Of fallocate(2).
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
/// Of lseek(2).
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

impl Asked<'_> {
    fn way(fh: u64) -> Result<Way, FsError> {
        Way::numbered(fh).ok_or(FsError::NotOpened)
    }

    /// Does something by an open, which is made again where the file system has lost it.
    pub(super) fn by_open<T>(&self, object: ObjectRef, way: Way, act: impl Fn(Right) -> Outcome<T>) -> Outcome<T> {
        if self.door.opens.is_gone(object.id) {
            return looked(Err(FsError::Io));
        }
        let right = Right::Open(self.door.opens.holder(way));
        let outcome = act(right);
        if !matches!(outcome.result, Err(FsError::NotOpened)) {
            return outcome;
        }
        let claim = || self.door.opens.claim_again(self.vfs, object, way);
        let why_not = |claimed: &Option<Outcome<_>>| claimed.as_ref().and_then(Outcome::error);
        match self.past_late(claim, |claimed| self.who_denies(object, way, why_not(claimed))).0 {
            None => outcome,
            Some(Outcome { result: Ok(_), .. }) => act(right),
            // It is open, and cannot be opened here for now.
            Some(Outcome { result: Err(error), changes, wait }) => Outcome { result: Err(error), changes, wait },
        }
    }

    pub(super) fn read(&self, fh: u64, offset: u64, size: u32) -> Result<Step, FsError> {
        let (object, way, cred) = (self.node()?, Self::way(fh)?, self.cred());
        let outcome =
            self.by_open(object, way, |right| looked(self.vfs.read_by(self.ctx(&cred, right), object, offset, size)));
        Ok(self.ends(outcome, |read| Reply::data(read.data)))
    }

    pub(super) fn write(
        &self,
        (fh, offset): (u64, u64),
        (write_flags, flags): (u32, u32),
        data: &[u8],
    ) -> Result<Step, FsError> {
        let (object, way) = (self.node()?, Self::way(fh)?);
        let cred = self.changer(write_flags & KILL_SUIDGID != 0);
        let stability = match flags & O_SYNC {
            O_SYNC => Stability::FileSync,
            O_DSYNC => Stability::DataSync,
            _ => Stability::Unstable,
        };
        let data: Bytes = part_of(&self.job.message, data);
        // The kernel has the end of the file where it was when somebody of this machine looked at it last; a client may have written there since, or cut it.
        let is_appended = flags & O_APPEND != 0 && write_flags & WRITE_CACHE == 0;
        let offset = if is_appended { self.end_of(object, &data)? } else { offset };
        let outcome = self.by_open(object, way, |right| {
            self.vfs.write(self.ctx(&cred, right), object, offset, data.clone(), stability)
        });
        if let Ok(written) = &outcome.result
            && written.stability == Stability::Unstable
        {
            self.door.opens.note_written(object.id, written.verifier);
        }
        Ok(self.ends(outcome, |written| Reply::written(written.count)))
    }

    pub(super) fn flush(&self, fh: u64, lock_owner: u64) -> Result<Step, FsError> {
        self.unlock_closed(lock_owner)?;
        let way = Self::way(fh)?;
        if way.writes() { self.commit(way) } else { Ok(Reply::done().into()) }
    }

    pub(super) fn fsync(&self, fh: u64) -> Result<Step, FsError> {
        self.commit(Self::way(fh)?)
    }

    /// All of the file. Who has it open may ask for that, whatever he has it open for.
    fn commit(&self, way: Way) -> Result<Step, FsError> {
        let (object, cred) = (self.node()?, self.cred());
        let right = Right::Open(self.door.opens.holder(way));
        let writes = self.door.opens.writes(object.id);
        let outcome = self.vfs.commit(self.ctx(&cred, right), object, 0, 0);
        let verifier = match outcome.result {
            Ok(verifier) if self.door.opens.is_kept(object.id, verifier) => Some(verifier),
            Ok(_) => return Ok(Errno::IO.into()),
            // Where nothing may be changed nothing is due, but of what was written before that was so.
            Err(FsError::ReadOnly) if self.door.opens.is_due(object.id) => return Ok(Errno::IO.into()),
            Err(_) => None,
        };
        let settled = verifier.map_or(With::Nothing, |_| With::Settled(object.id, writes));
        Ok(match self.synced(outcome) {
            Step::Reply(reply, _) => Step::Reply(reply, settled),
            Step::Wait(promise, reply, _) => Step::Wait(promise, reply, settled),
            step => step,
        })
    }

    /// What was seen of the directory, and so each change of it that was answered.
    pub(super) fn fsync_directory(&self) -> Result<Step, FsError> {
        let (dir, cred) = (self.node()?, self.cred());
        Ok(self.synced(self.vfs.setattr(self.ctx(&cred, Right::Mode), dir, &SetAttr::default(), None)))
    }

    fn synced<T>(&self, outcome: Outcome<T>) -> Step {
        match outcome.result {
            // Where nothing may be changed nothing is due.
            Err(FsError::ReadOnly) => Reply::done().into(),
            _ => self.ends(outcome, |_| Reply::done()),
        }
    }

    pub(super) fn allocate(&self, fh: u64, offset: u64, length: u64, mode: u32) -> Result<Step, FsError> {
        let (object, way, cred) = (self.node()?, Self::way(fh)?, self.changer(true));
        let (is_taken, is_given) = (mode == KEEP_SIZE | PUNCH_HOLE, mode == 0);
        if !is_taken && !is_given {
            // Programs go another way where they are told so.
            return Ok(Errno::OPNOTSUPP.into());
        }
        let outcome = self.by_open(object, way, |right| {
            let ctx = self.ctx(&cred, right);
            if is_given {
                self.vfs.allocate(ctx, object, offset, length)
            } else {
                self.vfs.deallocate(ctx, object, offset, length)
            }
        });
        Ok(self.ends(outcome, |()| Reply::done()))
    }

    pub(super) fn seek(&self, fh: u64, offset: u64, whence: u32) -> Result<Step, FsError> {
        let (object, way, cred) = (self.node()?, Self::way(fh)?, self.cred());
        let sought = match whence {
            SEEK_DATA => Sought::Data,
            SEEK_HOLE => Sought::Hole,
            _ => return Err(FsError::Invalid),
        };
        let outcome =
            self.by_open(object, way, |right| looked(self.vfs.seek(self.ctx(&cred, right), object, offset, sought)));
        Ok(self.ends(outcome, |found| match sought {
            Sought::Data if found.is_end => Errno::NXIO.into(),
            _ => Reply::offset(found.offset),
        }))
    }
}

/// A look, of which nothing is to be waited for.
fn looked<T>(result: Result<T, FsError>) -> Outcome<T> {
    Outcome { result, changes: SmallVec::new(), wait: Wait::Ready }
}
