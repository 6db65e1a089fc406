//! CREATE, LINK.

use tally_vfs::{NodeKind, ObjectRef, Right};

use super::super::attr::{self, AttrSet};
use super::super::compound::{Compound, Stop};
use super::super::pseudo::Node;
use super::super::status::Status;
use super::names::check_name;
use super::{put_change, put_change_of_before};
use crate::entry::Target;
use crate::exports::Place;
use crate::xdr::{Decoder, Encoder, Garbage};

/// `createtype4`: anything but a regular file, which OPEN makes.
enum Made<'a> {
    Directory,
    Link(&'a [u8]),
    Node(NodeKind),
    /// Nothing that CREATE makes.
    Other,
}

impl<'a> Made<'a> {
    fn decode(words: &mut Decoder<'a>) -> Result<Self, Garbage> {
        Ok(match words.u32()? {
            2 => Self::Directory,
            3 => Self::Node(NodeKind::BlockDevice(words.u32()?, words.u32()?)),
            4 => Self::Node(NodeKind::CharDevice(words.u32()?, words.u32()?)),
            5 => Self::Link(words.opaque(usize::MAX)?),
            6 => Self::Node(NodeKind::Socket),
            7 => Self::Node(NodeKind::Fifo),
            _ => Self::Other,
        })
    }
}

pub(in super::super) fn create(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let made = Made::decode(words)?;
    let name = words.opaque(usize::MAX)?;
    let (settable, set, called) = attr::given(words, compound.dialect())?;
    let dir = compound.to_change(compound.current())?;
    check_name(name)?;
    check_place(&dir, name)?;
    if set.size.is_some() {
        return Err(Status::Inval.into());
    }
    if matches!(made, Made::Other) {
        return Err(Status::BadType.into());
    }
    compound.begin(&dir)?;
    if let Some(first) = compound.remembered(&dir) {
        let object = first.object.ok_or(Status::ServerFault)?;
        put_change_of_before(out, compound, &dir);
        return Ok(stands(compound, &dir, object, &settable, out));
    }
    let set = compound.owners_given(&dir, set, &called)?;
    let ctx = compound.ctx(&dir);
    let outcome = match made {
        Made::Directory => dir.vfs.mkdir(ctx, dir.object, name, &set),
        Made::Link(path) => dir.vfs.symlink(ctx, dir.object, name, path, &set),
        Made::Node(node) => dir.vfs.mknod(ctx, dir.object, name, node, &set),
        Made::Other => return Err(Status::BadType.into()),
    };
    let (attr, changes) = compound.changed(outcome)?;
    put_change(out, changes.first());
    Ok(stands(compound, &dir, attr.object, &settable, out))
}

/// It is there, and the current handle is its.
fn stands(
    compound: &mut Compound<'_>,
    dir: &Target,
    object: ObjectRef,
    settable: &AttrSet,
    out: &mut Encoder,
) -> Status {
    settable.encode(out);
    compound.current = Ok(Node::Object(Target { object, ..dir.clone() }));
    Status::Ok
}

/// Whether something may be made under a name: not where a dataset comes, which would be made on it.
fn check_place(dir: &Target, name: &[u8]) -> Result<(), Status> {
    match dir.child(name) {
        None | Some(Place::Here(_)) => Ok(()),
        Some(Place::Away | Place::Going | Place::Unknown) => Err(Status::Delay),
    }
}

pub(in super::super) fn link(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let name = words.opaque(usize::MAX)?;
    let file = compound.to_change(compound.saved())?;
    let dir = compound.to_change(compound.current())?;
    check_name(name)?;
    if !file.shares_dataset(&dir) {
        return Err(Status::XDev.into());
    }
    check_place(&dir, name)?;
    compound.begin(&dir)?;
    if compound.remembered(&dir).is_some() {
        put_change_of_before(out, compound, &dir);
        return Ok(Status::Ok);
    }
    compound.past_claims(&file, Right::Unopened)?;
    let (_, changes) = compound.changed(dir.vfs.link(compound.ctx(&dir), file.object, dir.object, name))?;
    put_change(out, changes.first());
    Ok(Status::Ok)
}
