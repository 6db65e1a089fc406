//! READ, WRITE, COMMIT.

use bytes::Bytes;
use tally_vfs::{FsError, ReadOut, Stability};

use super::Procedure;
use super::request::{Done, Request};
use super::space::READ_BYTES_MAX;
use super::status::Status;
use super::wire::{self, Put};
use crate::xdr::{Decoder, Encoder, Garbage};

pub(super) fn read(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, offset, count) = (wire::handle(words)?, words.u64()?, words.u32()?);
    let target = match request.target(handle) {
        Ok(target) => target,
        Err(status) => return Ok(Done::failure(Procedure::Read, status)),
    };
    Ok(match target.vfs.read(&target.cred, target.object, offset, count.min(READ_BYTES_MAX)) {
        Ok(found) => {
            request.note_data(found.data.iter().map(Bytes::len).sum(), Stability::Unstable);
            Done::now(Status::Ok, read_body(found, target.fsid))
        }
        Err(FsError::Delegated(object)) => Done::KeptOut(object),
        Err(error) => {
            let status = Status::from(error);
            let mut out = Encoder::new();
            out.status(status).post_attr(target.vfs.getattr(target.object).ok().as_ref(), target.fsid);
            Done::now(status, out)
        }
    })
}

fn read_body(found: ReadOut, fsid: u64) -> Encoder {
    let ReadOut { data, eof, attr } = found;
    let count = data.iter().map(Bytes::len).sum::<usize>();
    let count = u32::try_from(count).expect("no more than was asked for");
    let mut words = Encoder::new();
    words.status(Status::Ok).post_attr(Some(&attr), fsid).u32(count).bool(eof).opaque_shared(data);
    words
}

pub(super) fn write(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, offset, count) = (wire::handle(words)?, words.u64()?, words.u32()?);
    let stability = match words.u32()? {
        0 => Stability::Unstable,
        1 => Stability::DataSync,
        2 => Stability::FileSync,
        _ => return Err(Garbage),
    };
    let data = words.opaque_shared(usize::MAX)?;
    request.note_data(data.len(), stability);
    let target = match request.target_to_change(handle) {
        Ok(target) => target,
        Err(status) => return Ok(Done::failure(Procedure::Write, status)),
    };
    if data.len() != count as usize {
        return Ok(Done::failure(Procedure::Write, Status::Inval));
    }
    if let Some(done) = request.repeated() {
        return Ok(done);
    }
    // Rules P5.
    let data = words.own(data);
    let outcome = target.vfs.write(target.ctx(request), target.object, offset, data, stability);
    Ok(Done::modified(outcome, |out, written, changes| {
        out.wcc(changes.first(), target.fsid);
        if let Some(written) = written {
            out.u32(written.count).u32(written.stability as u32).u64(written.verifier);
        }
    }))
}

pub(super) fn commit(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, offset, count) = (wire::handle(words)?, words.u64()?, words.u32()?);
    let target = match request.target_to_change(handle) {
        Ok(target) => target,
        Err(status) => return Ok(Done::failure(Procedure::Commit, status)),
    };
    let outcome = target.vfs.commit(target.ctx(request), target.object, offset, count);
    Ok(Done::modified(outcome, |out, verifier, changes| {
        out.wcc(changes.first(), target.fsid);
        if let Some(verifier) = verifier {
            out.u64(verifier);
        }
    }))
}
