//! GETATTR, SETATTR, ACCESS.

use tally_vfs::permission::{self, EXECUTE, READ, WRITE};
use tally_vfs::{Attr, FileKind};

use super::Procedure;
use super::request::{Done, Request};
use super::status::Status;
use super::wire::{self, Put};
use crate::xdr::{Decoder, Encoder, Garbage};

pub(super) fn getattr(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let handle = wire::handle(words)?;
    let found = request.target(handle).and_then(|target| Ok((target.vfs.getattr(target.object)?, target.fsid)));
    Ok(match found {
        Err(status) => Done::failure(Procedure::GetAttr, status),
        Ok((attr, fsid)) => {
            let mut out = Encoder::new();
            out.status(Status::Ok).attr(&attr, fsid);
            Done::now(Status::Ok, out)
        }
    })
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
            let mut granted = access_bits(&attr, permission::granted(&attr, &target.cred));
            if target.rule.read_only || target.vfs.is_read_only() {
                granted &= !(MODIFY | EXTEND | DELETE);
            }
            let mut out = Encoder::new();
            out.status(Status::Ok).post_attr(Some(&attr), target.fsid).u32(wanted & granted);
            Done::now(Status::Ok, out)
        }
    })
}

/// Bits of ACCESS (RFC 1813 §3.3.4). READ and EXECUTE mean the same here as in mode bits, other numbers.
const ACCESS_READ: u32 = 0x01;
const LOOKUP: u32 = 0x02;
const MODIFY: u32 = 0x04;
const EXTEND: u32 = 0x08;
const DELETE: u32 = 0x10;
const ACCESS_EXECUTE: u32 = 0x20;

/// For directories, changing means adding and removing names, and that needs search as well.
fn access_bits(attr: &Attr, granted: u32) -> u32 {
    let directory = attr.kind == FileKind::Directory;
    let mut bits = 0;
    if granted & READ != 0 {
        bits |= ACCESS_READ;
    }
    if granted & EXECUTE != 0 {
        bits |= if directory { LOOKUP } else { ACCESS_EXECUTE };
    }
    if granted & WRITE != 0 && (!directory || granted & EXECUTE != 0) {
        bits |= MODIFY | EXTEND | if directory { DELETE } else { 0 };
    }
    bits
}
