//! Why files for a pool could not be made.

use std::io;
use std::path::PathBuf;

use tally_base::Size;

/// Why files cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum NewFileError {
    /// There is no room for all of them.
    #[error(
        "{} has {} free, and files of {} are to be made there: name a smaller --file-size, or another directory",
        dir.display(), Size(*free), Size(*needed)
    )]
    NoRoom {
        /// Where.
        dir: PathBuf,
        /// Bytes free there.
        free: u64,
        /// Bytes of all files there.
        needed: u64,
    },
    /// One could not be made.
    #[error("cannot make {}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The daemon ends.
    #[error("the daemon is shutting down: {} was not made", path.display())]
    Stopped {
        /// Which file.
        path: PathBuf,
    },
}
