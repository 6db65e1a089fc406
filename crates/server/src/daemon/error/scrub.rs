//! Why a scrub could not be begun or stopped, or did not come to its end.

use super::disk::DiskError;

/// Why no scrub was begun or stopped, or why one did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum ScrubError {
    /// Nothing can be repaired.
    #[error("pool '{pool}' is imported read-only, and a scrub repairs what it finds: import it without --readonly")]
    ReadOnly {
        /// Which pool.
        pool: String,
    },
    /// It is paused already.
    #[error("the scrub of pool '{pool}' is paused already; `tally pool scrub {pool}` goes on with it")]
    Paused {
        /// Which pool.
        pool: String,
    },
    /// There is none.
    #[error("no scrub of pool '{pool}' is under way; `tally pool status` shows the last one")]
    NoScrub {
        /// Which pool.
        pool: String,
    },
    /// Another command keeps it from beginning.
    #[error(transparent)]
    Kept(#[from] DiskError),
    /// The system has no thread for it.
    #[error("the scrub cannot run: {0}; try again when the machine has less to do")]
    NoThread(std::io::Error),
    /// It has ended early.
    #[error("{0}")]
    Ended(String),
}
