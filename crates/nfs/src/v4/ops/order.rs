//! What owners of minor version 0 ask for, in their order (RFC 7530 §9.1.7 to §9.1.11; rules V17 and V18; table D1 of [`super::super::state`]).
//!
//! The order of what is asked: the arguments; the current handle; whose it is, by its client's id or the stateid (D6, as far as that says); the seqid (D1);
//! then all the rest, and what that comes to is the owner's.

use super::super::compound::Compound;
use super::super::pseudo::{Node, Shut};
use super::super::state::{Asking, Brought, Came, FileId, Mounted, OwnerKey, Stateid, Told};
use super::super::status::Status;
use crate::handle::Handle;
use crate::rpc::Identity;
use crate::v4::below::close_below;
use crate::xdr::Encoder;

/// What an operation brought, and its arguments.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) brought: Brought,
    pub(super) seqid: u32,
    pub(super) arguments: &'a [u8],
}

/// Whose turn it is.
pub(super) enum Turn {
    /// That owner's, who is confirmed or not.
    Of(OwnerKey, bool),
    /// It was before.
    Told(Told),
}

impl Turn {
    /// What it was told, if it was.
    pub(super) fn told(self) -> Option<Told> {
        match self {
            Self::Of(..) => None,
            Self::Told(told) => Some(told),
        }
    }
}

/// An operation of an owner comes.
pub(super) fn take(compound: &mut Compound<'_>, owner: OwnerKey, asked: Arrival<'_>) -> Result<Turn, Status> {
    let fingerprint = fingerprint(compound, asked)?;
    let (house, exports) = (compound.scene.house, compound.scene.exports);
    let (turns, nth) = compound.turns();
    let asking = Asking { owner, brought: asked.brought, seqid: asked.seqid, fingerprint, nth };
    let has_any = |owner: &OwnerKey| house.opens().has_owner(owner) || house.locks().has_owner(owner);
    match turns.begin(house.orders(), asking, &has_any)? {
        Came::Before(told) => Ok(Turn::Told(told)),
        Came::Now { is_confirmed, is_anew } => {
            // Whoever goes from here on takes the owner with him; who has gone before would have it kept for nobody.
            compound.hear(owner.client)?;
            if is_anew {
                close_below(exports, &house.opens().forget_owner(&owner));
            }
            Ok(Turn::Of(owner, is_confirmed))
        }
    }
}

/// The same of one that names an owner of locks by its stateid.
pub(super) fn take_by_lock(compound: &mut Compound<'_>, stateid: &Stateid, asked: Arrival<'_>) -> Result<Turn, Status> {
    let owner = compound.scene.house.locks().owner_of(stateid)?;
    compound.hear(owner.client).map_err(|_| Status::Expired)?;
    take(compound, owner, asked)
}

/// The same of one that names its owner by the stateid of an open.
pub(super) fn take_by(compound: &mut Compound<'_>, stateid: &Stateid, asked: Arrival<'_>) -> Result<Turn, Status> {
    let house = compound.scene.house;
    let owner = house.opens().owner_of(stateid).or_else(|refused| match refused {
        // What was closed last may be closed once more.
        Status::BadStateid => house.orders().who_closed(&stateid.other).ok_or(refused),
        _ => Err(refused),
    })?;
    compound.hear(owner.client).map_err(|_| Status::Expired)?;
    take(compound, owner, asked)
}

/// Tells what was told, and leads where that led.
pub(super) fn tell(compound: &mut Compound<'_>, told: &Told, out: &mut Encoder) -> Result<Status, Status> {
    // Of a LOCK that was denied more is told than that.
    if !matches!(told.status, Status::Ok | Status::Denied) {
        return Err(told.status);
    }
    out.raw(&told.results);
    if let Some(file) = told.file {
        compound.current = node_of(compound, file).map_err(Shut::from);
    }
    Ok(told.status)
}

/// A file under the rules of now (rules V36).
fn node_of(compound: &Compound<'_>, FileId { of, object }: FileId) -> Result<Node, Status> {
    let Mounted { pool, dataset, .. } = of;
    let exports = compound.scene.exports.pool(pool).ok_or(Status::Stale)?;
    compound.tree().node(&Handle { pool, dataset, object }.seal(exports.handle_key()))
}

/// By which the same is told from another: what was asked, where, and by whom.
fn fingerprint(compound: &Compound<'_>, asked: Arrival<'_>) -> Result<u64, Status> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[asked.brought as u8]);
    match &compound.scene.call.identity {
        Identity::Nobody => hasher.update(&[0]),
        Identity::Unix(cred) => hasher.update(&[1]).update(&cred.uid.to_be_bytes()),
    };
    // Also of a dataset that the client may not see any more (rules V36).
    let [current, _] = compound.held();
    hasher.update(&current?).update(asked.arguments);
    Ok(u64::from_be_bytes(*hasher.finalize().as_bytes().first_chunk().expect("a hash is longer")))
}
