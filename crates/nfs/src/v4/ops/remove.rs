//! REMOVE, RENAME.

use tally_vfs::{FsError, Right};

use super::super::compound::{Compound, Stop};
use super::super::status::Status;
use super::names::check_name;
use super::{put_change, put_change_of_before};
use crate::entry::Target;
use crate::xdr::{Decoder, Encoder};

/// A file and an empty directory alike.
pub(in super::super) fn remove(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let name = words.opaque(usize::MAX)?;
    let dir = compound.to_change(compound.current())?;
    check_movable(&dir, name)?;
    compound.begin(&dir)?;
    if compound.remembered(&dir).is_some() {
        put_change_of_before(out, compound, &dir);
        return Ok(Status::Ok);
    }
    compound.past_claims(&dir, Right::Unopened)?;
    let mut outcome = dir.vfs.remove(compound.ctx(&dir), dir.object, name);
    if matches!(outcome.result, Err(FsError::IsDirectory)) {
        outcome = dir.vfs.rmdir(compound.ctx(&dir), dir.object, name);
        if matches!(outcome.result, Err(FsError::NotDirectory)) {
            // Another one took its place between the two.
            return Err(Status::Delay.into());
        }
    }
    let ((), changes) = compound.changed(outcome)?;
    put_change(out, changes.first());
    Ok(Status::Ok)
}

/// Whether a name may be taken away or replaced: not where a dataset is mounted on it.
fn check_movable(dir: &Target, name: &[u8]) -> Result<(), Status> {
    check_name(name)?;
    if dir.child(name).is_some() { Err(Status::Access) } else { Ok(()) }
}

pub(in super::super) fn rename(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let mut name = || words.opaque(usize::MAX);
    let (old, new) = (name()?, name()?);
    let from = compound.to_change(compound.saved())?;
    let to = compound.to_change(compound.current())?;
    check_movable(&from, old)?;
    check_movable(&to, new)?;
    if !from.shares_dataset(&to) {
        return Err(Status::XDev.into());
    }
    compound.begin(&from)?;
    if compound.remembered(&from).is_some() {
        put_change_of_before(out, compound, &from);
        put_change_of_before(out, compound, &to);
        return Ok(Status::Ok);
    }
    compound.past_claims(&from, Right::Unopened)?;
    let outcome = from.vfs.rename(compound.ctx(&from), from.object, old, to.object, new);
    let ((), changes) = compound.changed(outcome)?;
    put_change(out, changes.first());
    put_change(out, changes.get(1));
    Ok(Status::Ok)
}
