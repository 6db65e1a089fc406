//! The pool that the first start makes, so that a person has something to mount after one command.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tally_base::Size;
use tally_disk::Opener;

use super::error::NewFileError;
use super::new_files::NewFile;
use crate::control::message::{OnProgress, Progress};

/// Its name.
pub const NAME: &str = "tank";
/// Who may mount it: this machine, with the superuser's rights where the client has them.
pub const SHARENFS: &str = "127.0.0.1(rw,no_root_squash) ::1(rw,no_root_squash)";
/// Its size, unless that is more than half of the free space.
pub const SIZE_BYTES_MAX: u64 = 10 << 30;
/// Below this it would be full before it is of use.
pub const SIZE_BYTES_MIN: u64 = 64 << 20;
/// Its log: a minute of small files at several thousand a second, and written out in a second or two.
pub const LOG_BYTES: u64 = 256 << 20;

const VDEV_NAME: &str = "tank.img";
const LOG_NAME: &str = "log.img";
/// Sizes are whole mebibytes, so that they read well.
const STEP: u64 = 1 << 20;

/// Why there is no first pool.
#[derive(Debug, thiserror::Error)]
pub enum FirstPoolError {
    /// Too little room.
    #[error(
        "{} has {} free, too little for a first pool of at least {} and its log of {}; choose another place with \
         --data-dir, or a size with --size",
        dir.display(), Size(*free), Size(SIZE_BYTES_MIN), Size(LOG_BYTES)
    )]
    NoRoom {
        /// Where.
        dir: PathBuf,
        /// Bytes free there.
        free: u64,
    },
    /// The size that was asked for is out of bounds.
    #[error("--size {} is out of bounds: {} has {} free, of which the log takes {}, and a pool needs {}",
        Size(*size), dir.display(), Size(*free), Size(LOG_BYTES), Size(SIZE_BYTES_MIN))]
    BadSize {
        /// Asked for.
        size: u64,
        /// Where.
        dir: PathBuf,
        /// Bytes free there.
        free: u64,
    },
    /// A file is in the way.
    #[error(
        "{} exists, but is no pool that can be imported: most likely the first start was interrupted. Remove it, or \
         choose another place with --data-dir",
        path.display()
    )]
    Leftover {
        /// Which file.
        path: PathBuf,
    },
    /// A file could not be made.
    #[error(transparent)]
    NewFile(#[from] NewFileError),
}

/// Files of the first pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The pool's disk.
    pub vdev: PathBuf,
    /// Bytes of it.
    pub size: u64,
    /// Its log device.
    pub log: PathBuf,
}

impl Plan {
    /// Decides on the size: the one that was `asked` for, else the smaller of 10 GiB and half of the `free` bytes.
    pub fn new(dir: &Path, asked: Option<u64>, free: u64) -> Result<Self, FirstPoolError> {
        let room = free.saturating_sub(LOG_BYTES);
        let size = match asked {
            Some(size) if (SIZE_BYTES_MIN..=room).contains(&size) => size,
            Some(size) => return Err(FirstPoolError::BadSize { size, dir: dir.into(), free }),
            None => SIZE_BYTES_MAX.min(free / 2).min(room),
        };
        if size < SIZE_BYTES_MIN {
            return Err(FirstPoolError::NoRoom { dir: dir.into(), free });
        }
        Ok(Self { vdev: dir.join(VDEV_NAME), size: size / STEP * STEP, log: dir.join(LOG_NAME) })
    }

    /// Makes the files: the disk allocated, the log written out. They go again if nobody keeps them.
    pub fn make_files(
        &self,
        opener: &Arc<dyn Opener>,
        progress: OnProgress<'_>,
    ) -> Result<Vec<NewFile>, FirstPoolError> {
        let files = [(&self.vdev, self.size, false), (&self.log, LOG_BYTES, true)];
        let make = |(path, size, prewritten): (&PathBuf, _, _)| {
            let what = format!("making {}", path.display());
            NewFile::make(opener, path, size, prewritten, &mut |done| {
                progress(Progress { what: what.clone(), done, total: size });
                true
            })
        };
        Ok(files.into_iter().map(make).collect::<Result<_, _>>()?)
    }

    /// The words of `pool create` for it.
    #[must_use]
    pub fn vdev_words(&self) -> Vec<String> {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        vec![text(&self.vdev), "log".into(), text(&self.log)]
    }
}

/// Those of its files that are there already.
pub fn leftovers(dir: &Path, opener: &dyn Opener) -> io::Result<Vec<PathBuf>> {
    let files = [VDEV_NAME, LOG_NAME].map(|name| dir.join(name));
    Ok(opener.list(dir)?.into_iter().filter(|path| files.contains(path)).collect())
}

/// Bytes that an ordinary user may take of the file system at `dir`.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let statistics = rustix::fs::statvfs(dir)?;
    Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
}

#[cfg(test)]
mod tests;
