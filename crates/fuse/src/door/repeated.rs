//! Requests that the kernel asks again, as whoever had read them has not answered.
//!
//! Each that changes something, but for a write, has a key, under which the file system remembers for a while that it was carried out (rules F12): the mount, and the number of the request. Of one that comes again
//! the first answer is told, made of what is there now. What is not remembered was refused, or is lost with all that came of it, and is carried out (rules V45).

use tally_vfs::{Cred, FsError, ObjectRef, ReplyKey, Right};

use super::make::O_TRUNC;
use super::{Asked, Door, Step, With, changes_something, waits};
use crate::journal::Entry;
use crate::opens::Way;
use crate::wire::{self, Header, Op, RESENT, Reply, Request};

/// In the place of a procedure's number, which none of NFS has.
const PROCEDURE: u32 = 0x0f05_e000;

impl Door {
    /// Under which key it is remembered that a request was carried out.
    pub(super) fn key(&self, request: &Request<'_>) -> Option<ReplyKey> {
        let id = self.journal.as_ref()?.id();
        let is_remembered = changes_something(&request.op) && !matches!(request.op, Op::Write { .. });
        is_remembered.then(|| {
            let unique = (request.header.unique & !RESENT).to_be_bytes();
            let mut key = [0; 40];
            let parts = [&id[..], &unique[4..], &PROCEDURE.to_be_bytes(), &unique];
            key.iter_mut().zip(parts.concat()).for_each(|(to, from)| *to = from);
            ReplyKey(key)
        })
    }

    /// The open that was given to a request before, if it comes again.
    pub(crate) fn opened_for(&self, unique: u64) -> Option<(u64, ObjectRef)> {
        if unique & RESENT == 0 {
            return None;
        }
        self.opened_before.get(&(unique & !RESENT)).copied()
    }

    /// Whether a RELEASE comes again that was carried out.
    pub(super) fn has_closed(&self, header: &Header, fh: u64) -> bool {
        let before = self.before.as_ref().filter(|_| header.unique & RESENT != 0);
        before.is_some_and(|before| fh < before.next && !before.opens.contains_key(&fh))
    }
}

impl Asked<'_> {
    /// Whether it comes again, and was carried out.
    pub(super) fn was_done(&self) -> bool {
        self.header.unique & RESENT != 0 && self.reply.is_some_and(|key| self.vfs.remembered(&key).is_some())
    }

    /// What is told of a request that comes again, where that is known.
    pub(super) fn repeated(&self, op: &Op<'_>) -> Result<Option<Step>, FsError> {
        if self.header.unique & RESENT == 0 {
            return Ok(None);
        }
        if let Some((fh, object)) = self.door.opened_for(self.header.unique) {
            let opened = wire::opened(fh);
            match op {
                // The cut is gone, with what the file system does not remember: it is opened and cut anew.
                Op::Open { flags, .. } if flags & O_TRUNC != 0 && !self.was_done() => {
                    self.door.release(object.id, fh);
                    return Ok(None);
                }
                Op::Open { .. } => return Ok(Some(opened.into())),
                Op::Create { .. } => return Ok(Some(self.entry(&self.vfs.getattr(object)?).and(opened).into())),
                _ => {}
            }
        }
        // Of an open the file system knows whether it has cut the file.
        let key = self.reply.filter(|_| !matches!(op, Op::Open { .. }));
        let Some(before) = key.and_then(|key| self.vfs.remembered(&key)) else { return Ok(None) };
        let attr = || before.object.ok_or(FsError::Stale).and_then(|object| self.vfs.getattr(object));
        Ok(Some(match *op {
            Op::Create { flags, .. } => {
                let (attr, way, cred) = (attr()?, Way::making(flags & !O_TRUNC), self.cred());
                let object = attr.object;
                self.door.opens.open(self.vfs, &cred, object, way)?;
                let fh = self.door.opens.number(way);
                waits(tally_base::Wait::Ready, self.entry(&attr).and(wire::opened(fh)), With::Opened(object, fh))
            }
            Op::Symlink { .. } | Op::MkNod { .. } | Op::MkDir { .. } | Op::Link { .. } => self.entry(&attr()?).into(),
            Op::SetAttr(_) => wire::attr(&self.vfs.getattr(self.node()?)?).into(),
            _ => Reply::done().into(),
        }))
    }

    /// Where a write is appended. One that comes again and lies where it was put is put there again, whoever has appended since.
    pub(super) fn end_of(&self, object: ObjectRef, data: &[u8]) -> Result<u64, FsError> {
        let unique = self.header.unique & !RESENT;
        if let Some(before) = self.door.before.as_ref().filter(|_| self.header.unique & RESENT != 0)
            && let Some((_, offset)) = before.appends.iter().rev().find(|(request, _)| *request == unique)
            && self.has(object, *offset, data)?
        {
            return Ok(*offset);
        }
        let offset = self.known(object)?.size;
        self.door.note(&Entry::Appends { unique, offset });
        Ok(offset)
    }

    /// Whether that is what a file has there.
    fn has(&self, object: ObjectRef, offset: u64, data: &[u8]) -> Result<bool, FsError> {
        let cred = Cred::checked(0, 0);
        let there = self.vfs.read_by(self.ctx(&cred, Right::Mode), object, offset, data.len() as u32)?.data;
        Ok(there.iter().flatten().eq(data))
    }
}
