//! LOOKUP and READLINK.

use tally_vfs::Attr;

use super::Procedure;
use super::request::{Done, Request, check_name};
use super::status::Status;
use super::wire::{self, Put};
use crate::entry::{Target, may_be_child};
use crate::handle::HandleBytes;
use crate::xdr::{Decoder, Encoder, Garbage};

pub(super) fn lookup(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, name) = wire::handle_and_name(words)?;
    let target = match request.target(handle) {
        Ok(target) => target,
        Err(status) => return Ok(Done::failure(Procedure::Lookup, status)),
    };
    let mut out = Encoder::new();
    let status = match find(request, &target, name) {
        Ok(Found { handle, attr, fsid, dir }) => {
            // Who looks at it alone is told what it is like.
            let shown = Some(&attr).filter(|attr| fsid != target.fsid || !target.has_written(attr.object));
            out.status(Status::Ok).opaque(&handle).post_attr(shown, fsid).post_attr(Some(&dir), target.fsid);
            Status::Ok
        }
        Err(NotFound { status, dir }) => {
            // Where nothing was looked at they say nothing of any name.
            let dir = dir.or_else(|| target.vfs.getattr(target.object).ok());
            out.status(status).post_attr(dir.as_ref(), target.fsid);
            status
        }
    };
    Ok(Done::now(status, out))
}

struct NotFound {
    status: Status,
    /// The directory as it was looked at.
    dir: Option<Attr>,
}

struct Found {
    handle: HandleBytes,
    attr: Attr,
    fsid: u64,
    dir: Attr,
}

/// What a name stands for: the object, or the root of the dataset that is mounted on it.
fn find(request: &Request<'_>, target: &Target, name: &[u8]) -> Result<Found, NotFound> {
    check_name(name).map_err(|status| NotFound { status, dir: None })?;
    let (found, dir) = target.vfs.look(&target.cred, target.object, name);
    let (attr, dir) = match (found, dir) {
        (Ok(attr), Some(dir)) => (attr, dir),
        (Ok(_), None) => return Err(NotFound { status: Status::Stale, dir: None }),
        (Err(error), dir) => return Err(NotFound { status: error.into(), dir }),
    };
    let child =
        if may_be_child(attr.kind) && name != b"." && name != b".." { request.child(target, name) } else { None };
    match child {
        None => Ok(Found { handle: target.seal(attr.object), attr, fsid: target.fsid, dir }),
        Some(child) => {
            let not_found = |status| NotFound { status, dir: Some(dir.clone()) };
            let child = child.map_err(not_found)?;
            let attr = child.vfs.getattr(child.object).map_err(|error| not_found(error.into()))?;
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
