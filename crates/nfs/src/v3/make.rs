//! CREATE, MKDIR, SYMLINK, MKNOD, LINK.

use tally_vfs::{Attr, Change, CreateHow, NodeKind, ObjectRef, Outcome, RememberedReply, SetAttr};

use super::Procedure;
use super::request::{Done, Request, check_name};
use super::status::Status;
use super::wire::{self, Put};
use crate::entry::Target;
use crate::exports::Place;
use crate::xdr::{Decoder, Encoder, Garbage};

pub(super) fn create(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, name) = wire::handle_and_name(words)?;
    let how = match words.u32()? {
        0 => CreateHow::Unchecked(wire::settable(words)?),
        1 => CreateHow::Guarded(wire::settable(words)?),
        2 => CreateHow::Exclusive(words.u64()?),
        _ => return Err(Garbage),
    };
    Ok(make(request, Procedure::Create, handle, name, |target| {
        target.vfs.create(target.ctx(request), target.object, name, &how)
    }))
}

pub(super) fn mkdir(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, name) = wire::handle_and_name(words)?;
    let set = wire::settable(words)?;
    Ok(make(request, Procedure::MkDir, handle, name, |target| {
        target.vfs.mkdir(target.ctx(request), target.object, name, &set)
    }))
}

pub(super) fn symlink(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, name) = wire::handle_and_name(words)?;
    let (set, path) = (wire::settable(words)?, words.opaque(usize::MAX)?);
    Ok(make(request, Procedure::SymLink, handle, name, |target| {
        target.vfs.symlink(target.ctx(request), target.object, name, path, &set)
    }))
}

pub(super) fn mknod(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let (handle, name) = wire::handle_and_name(words)?;
    let Some((node, set)) = node(words)? else { return Ok(Done::failure(Procedure::MkNod, Status::BadType)) };
    Ok(make(request, Procedure::MkNod, handle, name, |target| {
        target.vfs.mknod(target.ctx(request), target.object, name, node, &set)
    }))
}

/// `mknoddata3`; `None` for a kind that MKNOD does not make.
fn node(words: &mut Decoder<'_>) -> Result<Option<(NodeKind, SetAttr)>, Garbage> {
    let kind = words.u32()?;
    if !matches!(kind, 3 | 4 | 6 | 7) {
        return Ok(None);
    }
    let set = wire::settable(words)?;
    let node = match kind {
        3 => NodeKind::BlockDevice(words.u32()?, words.u32()?),
        4 => NodeKind::CharDevice(words.u32()?, words.u32()?),
        6 => NodeKind::Socket,
        _ => NodeKind::Fifo,
    };
    Ok(Some((node, set)))
}

/// A directory in which something may be made under a name: not where a dataset comes, which would be made on it.
fn place(request: &Request<'_>, handle: &[u8], name: &[u8]) -> Result<Target, Status> {
    let target = request.target_to_change(handle)?;
    check_name(name)?;
    match target.child(name) {
        None | Some(Place::Here(_)) => Ok(target),
        Some(Place::Away | Place::Going | Place::Unknown) => Err(Status::JukeBox),
    }
}

fn make(
    request: &Request<'_>,
    procedure: Procedure,
    handle: &[u8],
    name: &[u8],
    run: impl FnOnce(&Target) -> Outcome<Attr>,
) -> Done {
    let target = match place(request, handle, name) {
        Ok(target) => target,
        Err(status) => return Done::failure(procedure, status),
    };
    if let Some(done) = request.repeated() {
        return done;
    }
    if let Some(first) = request.remembered(&target) {
        return made_before(&target, first);
    }
    Done::modified(run(&target), |out, made, changes| {
        if let Some(attr) = made {
            made_words(out, &target, Some(attr.object), Some(&attr));
        }
        out.wcc(changes.first(), target.fsid);
    })
}

fn made_words(out: &mut Encoder, target: &Target, object: Option<ObjectRef>, attr: Option<&Attr>) {
    out.post_handle(object.map(|object| target.seal(object)).as_ref()).post_attr(attr, target.fsid);
}

/// The first answer again: its handle, with today's attributes. What was made may be gone by now.
fn made_before(target: &Target, first: RememberedReply) -> Done {
    let attr = first.object.and_then(|object| target.vfs.getattr(object).ok());
    let mut out = Encoder::new();
    out.status(Status::Ok);
    made_words(&mut out, target, first.object, attr.as_ref());
    out.wcc(Some(&target.unchanged(target.object)), target.fsid);
    Done::now(Status::Ok, out)
}

pub(super) fn link(request: &Request<'_>, words: &mut Decoder<'_>) -> Result<Done, Garbage> {
    let handle = wire::handle(words)?;
    let (dir_handle, name) = wire::handle_and_name(words)?;
    let targets = request.target_to_change(handle).and_then(|file| {
        let dir = place(request, dir_handle, name)?;
        if file.shares_dataset(&dir) { Ok((file, dir)) } else { Err(Status::XDev) }
    });
    let (file, dir) = match targets {
        Ok(targets) => targets,
        Err(status) => return Ok(Done::failure(Procedure::Link, status)),
    };
    let words_of = |out: &mut Encoder, attr: Option<&Attr>, change: Option<&Change>| {
        out.post_attr(attr, file.fsid).wcc(change, dir.fsid);
    };
    if let Some(done) = request.repeated() {
        return Ok(done);
    }
    if request.remembered(&dir).is_some() {
        let mut out = Encoder::new();
        out.status(Status::Ok);
        words_of(&mut out, file.vfs.getattr(file.object).ok().as_ref(), Some(&dir.unchanged(dir.object)));
        return Ok(Done::now(Status::Ok, out));
    }
    let outcome = dir.vfs.link(dir.ctx(request), file.object, dir.object, name);
    Ok(Done::modified(outcome, |out, linked, changes| {
        let attr = linked.or_else(|| file.vfs.getattr(file.object).ok());
        words_of(out, attr.as_ref(), changes.first());
    }))
}
