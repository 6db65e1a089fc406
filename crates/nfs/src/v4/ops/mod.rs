//! What each operation does.

pub(super) mod attrs;
pub(super) mod clients;
pub(super) mod data;
pub(super) mod handle;
pub(super) mod listing;
pub(super) mod names;
