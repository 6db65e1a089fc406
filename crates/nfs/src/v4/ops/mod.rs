//! What each operation does.

pub(super) mod attrs;
pub(super) mod clients;
pub(super) mod close;
pub(super) mod copy;
pub(super) mod data;
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

use tally_vfs::Change;

use super::state::Stateid;
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
