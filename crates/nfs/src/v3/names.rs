//! LOOKUP and READLINK.

use super::procedure::Procedure;
use super::request::{Done, Request, Target, check_name, may_be_child};
use super::status::Status;
use super::wire::{self, Put};
use crate::handle::HandleBytes;
use crate::xdr::{Decoder, Encoder, Garbage};
use tally_fs::vfs::Attr;

pub(super) fn lookup(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, name) = wire::handle_and_name(words)?;
    let target = match request.target(handle) {
        Ok(target) => target,
        Err(status) => return Ok(Done::failure(Procedure::Lookup, status)),
    };
    let mut out = Encoder::new();
    let status = match find(request, &target, name) {
        Ok(Found { handle, attr, fsid, dir }) => {
            out.status(Status::Ok).opaque(&handle).post_attr(Some(&attr), fsid).post_attr(Some(&dir), target.fsid);
            Status::Ok
        }
        Err(status) => {
            out.status(status).post_attr(target.vfs.getattr(target.object).ok().as_ref(), target.fsid);
            status
        }
    };
    Ok(Done::now(status, out))
}

struct Found {
    handle: HandleBytes,
    attr: Attr,
    fsid: u64,
    dir: Attr,
}

/// What a name stands for: the object, or the root of the dataset that is mounted on it.
fn find(request: &Request<'_>, target: &Target, name: &[u8]) -> Result<Found, Status> {
    check_name(name)?;
    let (attr, dir) = target.vfs.lookup(&target.cred, target.object, name)?;
    let child =
        if may_be_child(attr.kind) && name != b"." && name != b".." { request.child(target, name) } else { None };
    match child {
        None => Ok(Found { handle: target.seal(attr.object), attr, fsid: target.fsid, dir }),
        Some(child) => {
            let child = child?;
            let attr = child.vfs.getattr(child.object)?;
            Ok(Found { handle: child.seal(child.object), attr, fsid: child.fsid, dir })
        }
    }
}

pub(super) fn readlink(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let handle = wire::handle(words)?;
    let target = match request.target(handle) {
        Ok(target) => target,
        Err(status) => return Ok(Done::failure(Procedure::ReadLink, status)),
    };
    let mut out = Encoder::new();
    let status = match target.vfs.readlink(target.object) {
        Ok((path, attr)) => {
            out.status(Status::Ok).post_attr(Some(&attr), target.fsid).opaque(&path);
            Status::Ok
        }
        Err(error) => {
            let status = Status::from(error);
            out.status(status).post_attr(target.vfs.getattr(target.object).ok().as_ref(), target.fsid);
            status
        }
    };
    Ok(Done::now(status, out))
}
