//! REMOVE, RMDIR, RENAME.

use tally_vfs::Outcome;

use super::Procedure;
use super::request::{Done, Request, check_name};
use super::status::Status;
use super::wire::{self, Put};
use crate::entry::Target;
use crate::xdr::{Decoder, Encoder, Garbage};

pub(super) fn remove(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, name) = wire::handle_and_name(words)?;
    Ok(take(request, Procedure::Remove, handle, name, |target| {
        target.vfs.remove(target.ctx(request), target.object, name)
    }))
}

pub(super) fn rmdir(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, name) = wire::handle_and_name(words)?;
    Ok(take(request, Procedure::RmDir, handle, name, |target| {
        target.vfs.rmdir(target.ctx(request), target.object, name)
    }))
}

fn take(
    request: &Request<'_>,
    procedure: Procedure,
    handle: &[u8],
    name: &[u8],
    run: impl FnOnce(&Target) -> Outcome<()>,
) -> Done {
    let target = match movable(request, handle, name) {
        Ok(target) => target,
        Err(status) => return Done::failure(procedure, status),
    };
    if let Some(done) = request.repeated() {
        return done;
    }
    if request.remembered(&target).is_some() {
        let mut out = Encoder::new();
        out.status(Status::Ok).wcc(Some(&target.unchanged(target.object)), target.fsid);
        return Done::now(Status::Ok, out);
    }
    Done::modified(run(&target), |out, _, changes| {
        out.wcc(changes.first(), target.fsid);
    })
}

/// A directory in which `name` may be taken away or replaced: not where a dataset is mounted on it.
fn movable(request: &Request<'_>, handle: &[u8], name: &[u8]) -> Result<Target, Status> {
    let target = request.target_to_change(handle)?;
    check_name(name)?;
    if target.child(name).is_some() { Err(Status::Acces) } else { Ok(target) }
}

pub(super) fn rename(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (from_handle, from_name) = wire::handle_and_name(words)?;
    let (to_handle, to_name) = wire::handle_and_name(words)?;
    let targets = movable(request, from_handle, from_name).and_then(|from| {
        let to = movable(request, to_handle, to_name)?;
        if from.shares_dataset(&to) { Ok((from, to)) } else { Err(Status::XDev) }
    });
    let (from, to) = match targets {
        Ok(targets) => targets,
        Err(status) => return Ok(Done::failure(Procedure::Rename, status)),
    };
    if let Some(done) = request.repeated() {
        return Ok(done);
    }
    if request.remembered(&from).is_some() {
        let mut out = Encoder::new();
        out.status(Status::Ok);
        out.wcc(Some(&from.unchanged(from.object)), from.fsid).wcc(Some(&to.unchanged(to.object)), to.fsid);
        return Ok(Done::now(Status::Ok, out));
    }
    let outcome = from.vfs.rename(from.ctx(request), from.object, from_name, to.object, to_name);
    Ok(Done::modified(outcome, |out, _, changes| {
        out.wcc(changes.first(), from.fsid).wcc(changes.get(1), to.fsid);
    }))
}
