//! ACCESS, GETATTR, SETATTR, VERIFY, NVERIFY.

use tally_vfs::{Access, Attr, OpCtx, Right};

use super::super::attr::{self, AttrSet, Subject};
use super::super::compound::{Compound, Stop};
use super::super::recalls::looks::may_be_newer;
use super::super::status::Status;
use super::{stateid, xattr};
use crate::entry::Target;
use crate::numbers::{ACCESS_LOOKUP, ACCESS_READ, meaningful_access};
use crate::xdr::{Decoder, Encoder};

pub(in super::super) fn access(
    compound: &Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<(), Status> {
    let wanted = words.u32()?;
    let node = compound.current()?;
    let attr = compound.tree().attr(node)?;
    let (granted, of_xattrs) = match node.target() {
        Some(target) => (target.access(&attr) | xattr::access(target, &attr), xattr::meaningful_access(attr.kind)),
        None => (ACCESS_READ | ACCESS_LOOKUP, 0),
    };
    // Bits of extended attributes are of minor version 2 (RFC 8276 §8.5).
    let of_xattrs = if compound.minor() < 2 { 0 } else { of_xattrs };
    let supported = wanted & (meaningful_access(attr.kind) | of_xattrs);
    out.u32(supported).u32(supported & granted);
    Ok(())
}

pub(in super::super) fn get(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let wanted = AttrSet::decode(words, compound.minor())?;
    compound.current()?;
    attr::check_readable(&wanted)?;
    let attr = look(compound, &wanted)?;
    let (node, tree) = (compound.current()?, compound.tree());
    attr::encode(&wanted, &Subject::new(node, attr, &tree), out)?;
    let asked = tree.names.asked();
    compound.wait_for_names(asked)?;
    Ok(Status::Ok)
}

/// The attributes of the current handle's object, of which these are wanted.
fn look(compound: &mut Compound<'_>, wanted: &AttrSet) -> Result<Attr, Stop> {
    let who = compound.actor();
    let is_newer = |target: &&Target| wanted.needs_writer() && may_be_newer(&*target.vfs, target.object, who);
    match compound.current()?.target().filter(is_newer).cloned() {
        Some(target) => compound.look(&target),
        None => Ok(compound.tree().attr(compound.current()?)?),
    }
}

/// VERIFY goes on where these are the attributes, NVERIFY where they are not.
pub(in super::super) fn verify(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    are_to_be: bool,
) -> Result<Status, Stop> {
    let (wanted, values) = (AttrSet::decode(words, compound.minor())?, words.opaque(attr::VALUES_BYTES_MAX)?);
    compound.current()?;
    attr::check_comparable(&wanted)?;
    let attr = look(compound, &wanted)?;
    let (node, tree) = (compound.current()?, compound.tree());
    let are_same = attr::are_values(&wanted, &Subject::new(node, attr, &tree), values)?;
    let (is_in_doubt, asked) = (tree.names.is_in_doubt(), tree.names.asked());
    if are_same && is_in_doubt {
        compound.wait_for_names(asked)?;
        return Err(Status::Delay.into());
    }
    match (are_same, are_to_be) {
        (true, true) | (false, false) => Ok(Status::Ok),
        (true, false) => Err(Status::Same.into()),
        (false, true) => Err(Status::NotSame.into()),
    }
}

pub(in super::super) fn set(
    compound: &mut Compound<'_>,
    words: &mut Decoder<'_>,
    out: &mut Encoder,
) -> Result<Status, Stop> {
    let stateid = stateid(words)?;
    let (settable, set, called) = attr::settable(words, compound.dialect())?;
    let target = compound.to_change(compound.current())?;
    // For anything but a size, or times that are kept, the stateid says nothing (RFC 7530 §16.32.4).
    let by_stateid = set.size.is_some() || set.has_kept_time();
    let right = if by_stateid && !compound.is_again() { compound.right(stateid, &target)? } else { Right::Unopened };
    if set.has_kept_time() && !compound.is_again() {
        let stateid = compound.present(stateid)?;
        let keeps_times = stateid.is_of_delegation() && compound.delegated(stateid, &target)?.keeps.times;
        if !keeps_times {
            return Err(Status::Inval.into());
        }
    }
    if set.size.is_some() {
        // Of a link SETATTR has no word of its own (RFC 8881 §15.2).
        super::data::check_file(&target, compound.minor()).map_err(|status| match status {
            Status::Symlink => Status::WrongType,
            status => status,
        })?;
    }
    compound.begin(&target)?;
    if compound.has_written() || compound.remembered(&target).is_none() {
        let set = compound.owners_set(&target, set, &called)?;
        compound.past_claims(&target, right)?;
        let cut = || target.vfs.setattr(OpCtx { right, ..compound.ctx(&target) }, target.object, &set, None);
        let outcome = compound.past_the_late(&target, Access::WRITE, cut);
        compound.changed(outcome)?;
    }
    settable.encode(out);
    Ok(Status::Ok)
}
