//! COPY within the server (RFC 7862 §15.2): the client is spared the bytes.
//!
//! They are read and written as READ and WRITE would, step by step, so that rules, opens, quotas and the log are asked as ever, and nothing is shared
//! between the files. It is over when it is answered: what was written needs a COMMIT, which Linux sends in the same compound. It may be short: at a
//! bound ([`COPY_BYTES_MAX`](super::super::state::bounds::COPY_BYTES_MAX)), where there is no room for the next step, or where that fails. Then the client goes
//! on from there, and is told why it cannot.

use bytes::{Bytes, BytesMut};
use tally_vfs::{Access, FileKind, FsError, Outcome, Right, Stability, Written};

use super::super::compound::{Compound, Stop};
use super::super::state::Stateid;
use super::super::status::Status;
use super::stateid;
use crate::entry::Target;
use crate::xdr::{Decoder, Encoder, Garbage};

/// What is read and written at once: as much as a WRITE brings.
const STEP_BYTES: u64 = tally_vfs::WRITE_BYTES_MAX as u64;

/// `COPY4args`.
struct Asked {
    from: Stateid,
    to: Stateid,
    from_offset: u64,
    to_offset: u64,
    /// Nothing stands for all up to the end.
    count: u64,
    /// From another server.
    is_from_elsewhere: bool,
}

impl Asked {
    fn decode(words: &mut Decoder<'_>) -> Result<Self, Garbage> {
        let (from, to) = (stateid(words)?, stateid(words)?);
        let (from_offset, to_offset, count) = (words.u64()?, words.u64()?, words.u64()?);
        // Neither asks for more than is done here.
        let (_is_consecutive, _is_synchronous) = (words.bool()?, words.bool()?);
        let is_from_elsewhere = words.u32()? > 0;
        Ok(Self { from, to, from_offset, to_offset, count, is_from_elsewhere })
    }

    /// How many bytes that is, of a file of this size.
    fn bytes_of(&self, size: u64) -> Result<u64, Status> {
        let there = size.checked_sub(self.from_offset).ok_or(Status::Inval)?;
        match self.count {
            0 => Ok(there),
            count if count <= there => Ok(count),
            _ => Err(Status::Inval),
        }
    }

    /// Whether some of so many bytes of a file would be taken to where others are taken from.
    fn overlaps(&self, bytes: u64) -> bool {
        self.from_offset.abs_diff(self.to_offset) < bytes
    }
}

/// From where to where, and by what rights.
struct Way {
    from: Target,
    to: Target,
    may_read: Right,
    may_write: Right,
    from_offset: u64,
    to_offset: u64,
}

pub(in super::super) fn copy(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let asked = Asked::decode(words)?;
    let to = compound.to_change(compound.current())?;
    let from = compound.saved()?.target().ok_or(Status::WrongType)?.clone();
    if asked.is_from_elsewhere {
        return Err(Status::NotSupp.into());
    }
    let may_read = compound.right_to_read_saved(asked.from, &from)?;
    let may_write = compound.right(asked.to, &to)?;
    let (size, _) = (size_of(&from)?, size_of(&to)?);
    let bytes = asked.bytes_of(size)?;
    if from.shares_dataset(&to) && from.object == to.object && asked.overlaps(bytes) {
        return Err(Status::Inval.into());
    }
    let bytes = compound.to_copy(bytes)?;
    compound.begin(&to)?;
    let way = Way { from, to, may_read, may_write, from_offset: asked.from_offset, to_offset: asked.to_offset };
    let (copied, last) = carry_out(compound, &way, bytes)?;
    compound.note_copied(copied);
    compound.note_data(copied as usize);
    // Nobody will be called back: it was consecutive, and is over.
    out.u32(0).u64(copied).u32(last.stability as u32).u64(last.verifier).bool(true).bool(true);
    Ok(Status::Ok)
}

/// Of what is no file nothing is copied, nor to it.
fn size_of(target: &Target) -> Result<u64, Status> {
    let attr = target.vfs.getattr(target.object)?;
    if attr.kind == FileKind::File { Ok(attr.size) } else { Err(Status::WrongType) }
}

/// Copies so many bytes, or as many as can be for now, and gives what has become of all of them. Only the first step fails or waits.
fn carry_out(compound: &mut Compound<'_>, way: &Way, bytes: u64) -> Result<(u64, Written), Stop> {
    let first = way.read(compound, 0, bytes.min(STEP_BYTES));
    let first = compound.found(&way.from, first).inspect_err(|stop| {
        if matches!(stop, Stop::Halted(_)) {
            compound.has_not_begun();
        }
    })?;
    let (mut all, _) = compound.changed(way.write(compound, 0, &first))?;
    let mut copied = first.len() as u64;
    // Where a step is shorter than it was to be the file has ended meanwhile.
    while copied < bytes && copied.is_multiple_of(STEP_BYTES) {
        let Ok(data) = way.read(compound, copied, (bytes - copied).min(STEP_BYTES)) else { break };
        if data.is_empty() {
            break;
        }
        let outcome = way.write(compound, copied, &data);
        // With another verifier what was written before may be lost, which a COMMIT tells to whom is told the one of before.
        if !outcome.result.as_ref().is_ok_and(|written| written.verifier == all.verifier) {
            break;
        }
        let (written, _) = compound.changed(outcome)?;
        all.stability = all.stability.min(written.stability);
        copied += data.len() as u64;
    }
    Ok((copied, all))
}

impl Way {
    fn read(&self, compound: &Compound<'_>, at: u64, count: u64) -> Result<Bytes, FsError> {
        let from = &self.from;
        let ctx = compound.plain_ctx(from, self.may_read);
        let read = || from.vfs.read_by(ctx, from.object, self.from_offset + at, count as u32);
        let found = compound.past_the_late(from, Access::READ, read)?;
        // A buffer of its own: blocks of the source are kept by nobody who writes (rules P5).
        let mut data = BytesMut::with_capacity(count as usize);
        found.data.iter().for_each(|piece| data.extend_from_slice(piece));
        Ok(data.freeze())
    }

    fn write(&self, compound: &Compound<'_>, at: u64, data: &Bytes) -> Outcome<Written> {
        let to = &self.to;
        let ctx = compound.plain_ctx(to, self.may_write);
        let offset = self.to_offset.saturating_add(at);
        let write = || to.vfs.write(ctx, to.object, offset, data.clone(), Stability::Unstable);
        compound.past_the_late(to, Access::WRITE, write)
    }
}
