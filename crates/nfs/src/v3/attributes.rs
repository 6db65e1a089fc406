//! GETATTR, SETATTR, ACCESS.

use tally_vfs::Attr;

use super::Procedure;
use super::request::{Done, Request};
use super::status::Status;
use super::wire::{self, Put};
use crate::xdr::{Decoder, Encoder, Garbage};

pub(super) fn getattr(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let handle = wire::handle(words)?;
    let found = request.target(handle).and_then(|target| {
        if target.is_written() {
            return Ok(Done::Asks(target.object, target.fsid));
        }
        Ok(Done::now(Status::Ok, told(&target.vfs.getattr(target.object)?, target.fsid)))
    });
    Ok(found.unwrap_or_else(|status| Done::failure(Procedure::GetAttr, status)))
}

/// What GETATTR tells of an object.
pub(crate) fn told(attr: &Attr, fsid: u64) -> Encoder {
    let mut out = Encoder::new();
    out.status(Status::Ok).attr(attr, fsid);
    out
}

pub(super) fn setattr(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, set) = (wire::handle(words)?, wire::settable(words)?);
    let guard = if words.bool()? { Some(wire::time(words)?) } else { None };
    let target = match request.target_to_change(handle) {
        Ok(target) => target,
        Err(status) => return Ok(Done::failure(Procedure::SetAttr, status)),
    };
    if let Some(done) = request.repeated() {
        return Ok(done);
    }
    if request.remembered(&target).is_some() {
        let mut out = Encoder::new();
        out.status(Status::Ok).wcc(Some(&target.unchanged(target.object)), target.fsid);
        return Ok(Done::now(Status::Ok, out));
    }
    let outcome = target.vfs.setattr(target.ctx(request), target.object, &set, guard);
    Ok(Done::modified(outcome, |out, _, changes| {
        out.wcc(changes.first(), target.fsid);
    }))
}

pub(super) fn access(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, wanted) = (wire::handle(words)?, words.u32()?);
    let found = request.target(handle).and_then(|target| Ok((target.vfs.getattr(target.object)?, target)));
    Ok(match found {
        Err(status) => Done::failure(Procedure::Access, status),
        Ok((attr, target)) => {
            let mut out = Encoder::new();
            let shown = Some(&attr).filter(|_| !target.is_written());
            out.status(Status::Ok).post_attr(shown, target.fsid).u32(wanted & target.access(&attr));
            Done::now(Status::Ok, out)
        }
    })
}
