//! LOOKUP, LOOKUPP, SECINFO, READLINK.

use tally_vfs::{FileKind, NAME_MAX};

use super::super::compound::Compound;
use super::super::pseudo::{Node, Tree};
use super::super::status::Status;
use crate::entry::{Closed, Target, may_be_child};
use crate::xdr::{Decoder, Encoder};

/// The credentials that are accepted: AUTH_SYS.
const AUTH_SYS: u32 = 1;

pub(in super::super) fn lookup(compound: &mut Compound<'_>, words: &mut Decoder<'_>) -> Result<(), Status> {
    compound.current = Ok(find(compound, words)?);
    Ok(())
}

/// How a name may be asked for. The name has to be there.
pub(in super::super) fn security(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<(), Status> {
    // A link is nothing that a client would follow here: what is no directory is that alone (RFC 7530 §13.2, RFC 8881 §15.2).
    find(compound, words).map_err(|status| if status == Status::Symlink { Status::NotDir } else { status })?;
    tell_security(compound, out);
    Ok(())
}

/// The same of the current handle, or of what is above it.
pub(in super::super) fn security_without_name(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<(), Status> {
    match words.u32()? {
        0 => drop(compound.current()?),
        1 => lookup_parent(compound)?,
        _ => return Err(Status::BadXdr),
    }
    tell_security(compound, out);
    Ok(())
}

/// Since minor version 1 it takes the handle away (RFC 8881 §2.6.3.1.1.8).
fn tell_security(compound: &mut Compound<'_>, out: &mut Encoder) {
    out.u32(1).u32(AUTH_SYS);
    if compound.minor() > 0 {
        compound.current = Err(Status::NoFileHandle.into());
    }
}

fn find(compound: &Compound<'_>, words: &mut Decoder<'_>) -> Result<Node, Status> {
    let name = words.opaque(usize::MAX)?;
    let node = compound.current()?;
    check_name(name)?;
    let tree = compound.tree();
    match node {
        Node::Object(target) => in_directory(&tree, target, name),
        Node::Way(..) | Node::Root => tree.below(node, name),
    }
}

fn in_directory(tree: &Tree<'_>, target: &Target, name: &[u8]) -> Result<Node, Status> {
    let (found, dir) = target.vfs.look(&target.cred, target.object, name);
    let attr = found.map_err(|error| match (Status::from(error), &dir) {
        (Status::NotDir, _) => not_directory(target),
        (status, _) => status,
    })?;
    if may_be_child(attr.kind)
        && let Some(child) = tree.entry.child(target, name)
    {
        return match child {
            Ok(child) => Ok(Node::Object(child)),
            // What is below may be open where the dataset itself is not.
            Err(Closed::Out) => tree.way_to_child(target, name).ok_or(Status::Access),
            Err(closed) => {
                let child = target.pool.child(target.vfs.dataset(), target.object, name);
                let dataset = (target.vfs.pool(), child.unwrap_or_else(|| target.vfs.dataset()));
                Err(tree.entry.told(closed, dataset).into())
            }
        };
    }
    Ok(Node::Object(Target { object: attr.object, ..target.clone() }))
}

/// What is no directory: a link has a status of its own, by which clients know that they have to follow it (RFC 7530 §16.13.5).
fn not_directory(target: &Target) -> Status {
    match target.vfs.getattr(target.object) {
        Ok(attr) if attr.kind == FileKind::Symlink => Status::Symlink,
        Ok(_) => Status::NotDir,
        Err(error) => error.into(),
    }
}

/// Names are bytes here: no encoding is asked of them (RFC 7530 §12.7).
pub(super) fn check_name(name: &[u8]) -> Result<(), Status> {
    match name {
        [] => Err(Status::Inval),
        _ if name.len() > NAME_MAX => Err(Status::NameTooLong),
        b"." | b".." => Err(Status::BadName),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Status::BadName),
        _ => Ok(()),
    }
}

pub(in super::super) fn lookup_parent(compound: &mut Compound<'_>) -> Result<(), Status> {
    let tree = compound.tree();
    let parent = match compound.current()? {
        Node::Root => return Err(Status::NoEnt),
        Node::Way(pool, dataset) => tree.above(pool, *dataset)?,
        Node::Object(target) if target.is_root() => tree.above(&target.pool, target.vfs.dataset())?,
        Node::Object(target) => {
            let (found, _) = target.vfs.look(&target.cred, target.object, b"..");
            let object = found.map_err(|error| match Status::from(error) {
                Status::NotDir => not_directory(target),
                status => status,
            })?;
            Node::Object(Target { object: object.object, ..target.clone() })
        }
    };
    compound.current = Ok(parent);
    Ok(())
}

pub(in super::super) fn read_link(compound: &Compound<'_>, out: &mut Encoder) -> Result<(), Status> {
    let target = compound.current()?.target().ok_or(Status::Inval)?;
    let (path, _) = target.vfs.readlink(target.object)?;
    out.opaque(&path);
    Ok(())
}
