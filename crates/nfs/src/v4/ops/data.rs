//! READ, WRITE, COMMIT (RFC 7530 §16.23, §16.36, §16.3).

use bytes::Bytes;
use tally_vfs::{Access, FileKind, Right, Stability};

use super::super::compound::{Compound, Stop};
use super::super::state::Stateid;
use super::super::status::Status;
use super::stateid;
use crate::entry::Target;
use crate::v3::READ_BYTES_MAX;
use crate::xdr::{Decoder, Encoder};

pub(in super::super) fn read(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let stateid = stateid(words)?;
    let (offset, count) = (words.u64()?, words.u32()?);
    let (target, right) = to_read(compound, stateid)?;
    // Of several in one compound a later one gets what is left; one for which nothing is left may come by itself.
    let room = compound.room(out).min(READ_BYTES_MAX);
    if room == 0 && count > 0 {
        return Err(compound.too_big().into());
    }
    let count = count.min(room);
    let read = || target.vfs.read_by(compound.plain_ctx(&target, right), target.object, offset, count);
    let found = compound.past_the_late(&target, Access::READ, read);
    let found = compound.found(&target, found)?;
    compound.note_data(found.data.iter().map(Bytes::len).sum());
    out.bool(found.eof).opaque_shared(found.data);
    Ok(Status::Ok)
}

/// The file of the current handle, and by what right it is read.
pub(super) fn to_read(compound: &Compound<'_>, stateid: Stateid) -> Result<(Target, Right), Status> {
    let target = compound.current()?.target().ok_or(Status::IsDir)?.clone();
    let right = compound.right_to_read(stateid, &target)?;
    check_file(&target, compound.minor())?;
    Ok((target, right))
}

/// Only files have content. What else it is says minor version 0 of directories alone (RFC 7530 §16.23.4), the later ones of all (RFC 8881 §18.22.3, RFC 7862 §15).
pub(super) fn check_file(target: &Target, minor: u32) -> Result<(), Status> {
    match target.vfs.getattr(target.object)?.kind {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(Status::IsDir),
        _ if minor == 0 => Err(Status::Inval),
        FileKind::Symlink => Err(Status::Symlink),
        _ => Err(Status::WrongType),
    }
}

pub(in super::super) fn write(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let stateid = stateid(words)?;
    let (offset, stability) = (words.u64()?, words.u32()?);
    let stability = match stability {
        0 => Stability::Unstable,
        1 => Stability::DataSync,
        2 => Stability::FileSync,
        _ => return Err(Status::BadXdr.into()),
    };
    let data = words.opaque_shared(usize::MAX)?;
    let target = compound.to_change(compound.current())?;
    let right = compound.right(stateid, &target)?;
    check_file(&target, compound.minor())?;
    compound.begin(&target)?;
    let data = words.own(data);
    // Nobody has to be told the first answer of these: what is written twice is there once, and what is stable stays so.
    let write = || target.vfs.write(compound.plain_ctx(&target, right), target.object, offset, data.clone(), stability);
    let outcome = compound.past_the_late(&target, Access::WRITE, write);
    let (written, _) = compound.changed(outcome)?;
    compound.note_written();
    compound.note_data(written.count as usize);
    out.u32(written.count).u32(written.stability as u32).u64(written.verifier);
    Ok(Status::Ok)
}

pub(in super::super) fn commit(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let (offset, count) = (words.u64()?, words.u32()?);
    let target = compound.to_change(compound.current())?;
    check_file(&target, compound.minor())?;
    compound.begin(&target)?;
    let (verifier, _) = compound.changed(target.vfs.commit(
        compound.plain_ctx(&target, Right::Unopened),
        target.object,
        offset,
        count,
    ))?;
    out.u64(verifier);
    Ok(Status::Ok)
}
