//! The data directory: whose it is, and that one daemon at a time uses it.
//!
//! The daemon of root believes what stands there, keys of handles included, and writes there by name. In a directory of
//! somebody else, or one that others may write, they would choose what it believes, and where it writes. So such a
//! directory is refused. The lock is a file in the directory itself: the control socket, which may be anywhere, says
//! nothing of who else works here, and two daemons would each write the list of pools without the other's.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

const LOCK_NAME: &str = "tally.lock";
const WRITABLE_BY_OTHERS: u32 = 0o022;
const WRITABLE_BY_ALL: u32 = 0o002;
/// Who may write to a directory may rename only what is his own in it.
const STICKY: u32 = 0o1000;
/// A daemon that was killed has the lock until the kernel has closed its files, and a child until it runs its program.
const TRIES: u32 = 30;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Why a directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// The kernel refused.
    #[error("the data directory {}: {source}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// It is somebody else's.
    #[error(
        "the data directory {} belongs to user {owner}, who could change what this daemon believes and where it writes. \
         Start it as that user, or choose a directory of your own with --data-dir",
        path.display()
    )]
    Foreign {
        /// Which one.
        path: PathBuf,
        /// Whose.
        owner: u32,
    },
    /// Others may write there.
    #[error(
        "others than its owner may write in the data directory {0} (mode {mode:o}), and so change what this daemon \
         believes and where it writes. Look what is in it, then `chmod go-w {0}`; or choose another one with --data-dir",
        path.display()
    )]
    Open {
        /// Which one.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Everybody may put another one in its place.
    #[error(
        "everybody may rename what is in {0} (mode {mode:o}), and so put another directory in the place of the data \
         directory. `chmod o-w {0}`, or `chmod +t {0}` where all have to write there; or choose another one with --data-dir",
        path.display()
    )]
    OpenAbove {
        /// The directory above.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Another daemon is there.
    #[error("another daemon uses the data directory {}; stop it, or choose another --data-dir", path.display())]
    Taken {
        /// Which one.
        path: PathBuf,
    },
}

/// A directory that is ours to believe.
#[derive(Debug)]
pub(super) struct DataDir {
    pub(super) path: PathBuf,
}

/// Nobody else uses it while this is there.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl DataDir {
    /// Makes the directory where it is not there, and looks whose it is.
    pub(super) fn open(path: &Path) -> Result<Self, DataDirError> {
        let io_error = |source| DataDirError::Io { path: path.into(), source };
        make_dirs(path, &sync_dir).map_err(io_error)?;
        let path = fs::canonicalize(path).map_err(io_error)?;
        let metadata = fs::metadata(&path).map_err(io_error)?;
        let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(DataDirError::Foreign { path, owner });
        }
        if mode & WRITABLE_BY_OTHERS != 0 {
            return Err(DataDirError::Open { path, mode });
        }
        // Owners and groups of the directories above are the administrator's choice; everybody is nobody's.
        for above in path.ancestors().skip(1) {
            let mode = fs::metadata(above).map_err(io_error)?.mode() & 0o7777;
            if mode & WRITABLE_BY_ALL != 0 && mode & STICKY == 0 {
                return Err(DataDirError::OpenAbove { path: above.into(), mode });
            }
        }
        Ok(Self { path })
    }

    /// Takes it for this daemon alone.
    pub(super) fn lock(&self) -> Result<Lock, DataDirError> {
        let io_error = |source| DataDirError::Io { path: self.path.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let file = options.custom_flags(no_link).open(self.path.join(LOCK_NAME)).map_err(io_error)?;
        for _ in 0..TRIES {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(Errno::WOULDBLOCK) => thread::sleep(BETWEEN_TRIES),
                Err(error) => return Err(io_error(error.into())),
            }
        }
        Err(DataDirError::Taken { path: self.path.clone() })
    }
}

/// Makes a directory and those above it that are missing, for its owner alone. `sync` makes the content of a directory
/// durable, and hears of each that got a new one: what is written below may be acknowledged, and its place must be
/// there after a power cut.
fn make_dirs(path: &Path, sync: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| !dir.is_dir()).collect();
    for dir in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(dir) {
            // Somebody else has just made it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            other => other?,
        }
        dir.parent().map_or(Ok(()), sync)?;
    }
    Ok(())
}

/// Makes the names in a directory durable.
fn sync_dir(dir: &Path) -> io::Result<()> {
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        // A directory may be for writing only; then this is left to the file system.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
