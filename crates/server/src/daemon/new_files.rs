//! Files that are made for a pool: looked at before the first byte is written, and taken back if there is no pool after all.
//!
//! Files of many gigabytes are written out for as long as disks take. That is done in a thread of its own, beside other
//! commands, and the end of the daemon ends it; the pool is then made of them by the daemon's own thread, like any other.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tally_disk::{Access, Disk, Opener};

use super::error::NewFileError;

/// A file that was made for a pool. Dropped before somebody keeps it, it goes again. Until it is let go of nobody else can
/// use it: what another pool had in it would go with it, also when that pool was exported and holds no lock.
pub struct NewFile {
    path: PathBuf,
    opener: Arc<dyn Opener>,
    held: Option<Arc<dyn Disk>>,
    is_kept: bool,
}

impl NewFile {
    /// Makes it, and writes it out if it is to be `prewritten`. `progress` hears of bytes, and says whether to go on.
    pub fn make(
        opener: &Arc<dyn Opener>,
        path: &Path,
        bytes: u64,
        prewritten: bool,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Self, NewFileError> {
        opener.create(path, bytes, prewritten, progress).map_err(|source| match source.kind() {
            io::ErrorKind::Interrupted => NewFileError::Stopped { path: path.into() },
            _ => NewFileError::Io { path: path.into(), source },
        })?;
        // Whoever has it by now has found a use for it: it is his, and stays.
        let failed = |source| NewFileError::Io { path: path.into(), source };
        let held = Some(opener.open(path, Access::Exclusive).map_err(failed)?);
        Ok(Self { path: path.into(), opener: Arc::clone(opener), held, is_kept: false })
    }

    /// Lets the pool have it that is made of it right behind this.
    pub(super) fn let_go(&mut self) {
        self.held = None;
    }

    /// It is part of a pool.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // Once it is let go of somebody may have found a use for it: then it is his.
        let ours = self.held.take().map_or_else(|| self.opener.open(&self.path, Access::Exclusive), Ok);
        if let Err(error) = ours.and_then(|_held| fs::remove_file(&self.path)) {
            tracing::warn!(path = %self.path.display(), %error, "a file that was made for a pool is not taken back");
        }
    }
}
