//! Where the claims of a file are, that clients have open, locked or delegated: in its dataset, as it was mounted when it was opened, or in what is retained of that while its pool is away (rules V37).

use std::sync::Arc;

use tally_vfs::locks::{Lock, Range};
use tally_vfs::{ClientNumber, Holder, ObjectRef, Retained, Vfs};

use super::state::{Closing, FileId, Mounted};
use crate::exports::{Exports, Place, PoolExports};

/// Closes what is open no more.
pub(super) fn close_below(exports: &dyn Exports, closing: &[Closing]) {
    for closing in closing {
        // With its mount it was closed before.
        if let Some(below) = below(exports, &closing.file) {
            below.close(closing.file.object, closing.holder());
        }
    }
}

/// Where what clients have of a file can be given up: in its dataset, or in what is kept of that while its pool is away.
pub(super) enum Below {
    Here(Arc<dyn Vfs>),
    Retained(Arc<dyn Retained>),
}

impl Below {
    pub(super) fn close(&self, object: ObjectRef, holder: Holder) {
        match self {
            Self::Here(vfs) => vfs.close(object, holder),
            Self::Retained(of) => of.close(object, holder),
        }
    }

    pub(super) fn ranges(&self, object: ObjectRef, holder: Holder, most: usize) -> Vec<Lock> {
        match self {
            Self::Here(vfs) => vfs.ranges(object, holder, most),
            Self::Retained(of) => of.ranges(object, holder, most),
        }
    }

    pub(super) fn has_ranges(&self, object: ObjectRef, holder: Holder) -> bool {
        match self {
            Self::Here(vfs) => vfs.has_ranges(object, holder),
            Self::Retained(of) => of.has_ranges(object, holder),
        }
    }

    pub(super) fn unlock_range(&self, object: ObjectRef, holder: Holder, range: Range) -> bool {
        match self {
            Self::Here(vfs) => vfs.unlock_range(object, holder, range).is_ok(),
            Self::Retained(of) => of.unlock_range(object, holder, range),
        }
    }

    pub(super) fn give_back(&self, object: ObjectRef, client: ClientNumber) {
        match self {
            Self::Here(vfs) => vfs.give_back(object, client),
            Self::Retained(of) => of.give_back(object, client),
        }
    }
}

/// The same of a file, by the mount of which it was opened.
pub(super) fn below(exports: &dyn Exports, file: &FileId) -> Option<Below> {
    let pool = exports.pool(file.of.pool)?;
    match pool.place(file.of.dataset) {
        Place::Here(vfs) => Some(vfs).filter(|vfs| Mounted::of(&**vfs) == file.of).map(Below::Here),
        Place::Away => retained_of(&*pool, &file.of).map(Below::Retained),
        Place::Going | Place::Unknown => None,
    }
}

/// What is kept of a mount.
fn retained_of(pool: &dyn PoolExports, of: &Mounted) -> Option<Arc<dyn Retained>> {
    pool.retained(of.dataset).filter(|it| it.mount() == of.mount)
}

/// Whether its pool is away, and may come back to it.
pub(super) fn is_retained(exports: &dyn Exports, of: &Mounted) -> bool {
    let Some(pool) = exports.pool(of.pool) else { return false };
    matches!(pool.place(of.dataset), Place::Away) && retained_of(&*pool, of).is_some()
}

/// Where a file is, if that is served, and mounted as it was when it was opened.
pub(super) fn file_system(exports: &dyn Exports, file: &FileId) -> Option<Arc<dyn Vfs>> {
    match below(exports, file)? {
        Below::Here(vfs) => Some(vfs),
        Below::Retained(_) => None,
    }
}

/// Whether a mount is over. One of a dataset that is being destroyed may be there again, as it was.
pub(super) fn is_over(exports: &dyn Exports, of: &Mounted) -> bool {
    let Some(pool) = exports.pool(of.pool) else { return true };
    match pool.place(of.dataset) {
        Place::Here(vfs) => Mounted::of(&*vfs) != *of,
        Place::Unknown => true,
        // The pool is not imported, and may be on its way back; else its dataset was made a moment ago.
        Place::Away => pool.root().is_none() && retained_of(&*pool, of).is_none(),
        Place::Going => false,
    }
}
