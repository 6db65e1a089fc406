//! What each operation does.

pub(super) mod attrs;
pub(super) mod clients;
pub(super) mod close;
pub(super) mod copy;
pub(super) mod data;
pub(super) mod delegation;
pub(super) mod handle;
pub(super) mod listing;
pub(super) mod lock;
pub(super) mod make;
pub(super) mod names;
pub(super) mod open;
mod order;
pub(super) mod remove;
pub(super) mod sessions;
pub(super) mod sparse;
pub(super) mod xattr;

use tally_vfs::Change;

use super::compound::Compound;
use super::state::Stateid;
use crate::entry::Target;
use crate::xdr::{Decoder, Encoder, Garbage};

/// `stateid4`.
fn stateid(words: &mut Decoder<'_>) -> Result<Stateid, Garbage> {
    words.array().map(Stateid::from_wire)
}

/// Appends a `change_info4`: what the change attribute of a directory was and is, and whether nobody else can have changed it between (rules V10).
fn put_change(out: &mut Encoder, change: Option<&Change>) {
    let before = change.and_then(|change| Some(change.before?.change.0));
    let after = change.and_then(|change| Some(change.after.as_ref()?.change.0));
    let is_atomic = before.is_some() && after.is_some();
    out.bool(is_atomic).u64(before.or(after).unwrap_or(0)).u64(after.or(before).unwrap_or(0));
}

/// The same of an operation that was carried out before. Behind a restart of the server nobody knows what the directory was, and whoever is told that it is as
/// it was takes what he has made for another's (rules V6): Linux checks the mode of its own new file then.
fn put_change_of_before(out: &mut Encoder, compound: &Compound<'_>, dir: &Target) {
    let change = dir.unchanged(dir.object);
    if !compound.is_again() {
        return put_change(out, Some(&change));
    }
    let after = change.after.map_or(0, |attr| attr.change.0);
    out.bool(false).u64(after.wrapping_sub(1)).u64(after);
}
