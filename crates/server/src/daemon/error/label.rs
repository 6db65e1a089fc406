//! Why a label could not be erased.

use std::io;
use std::path::PathBuf;

/// Why a label was not erased.
#[derive(Debug, thiserror::Error)]
pub enum LabelClearError {
    /// It is in use here.
    #[error(
        "{} is a disk of pool '{pool}', which is imported; take it out with `tally pool detach {pool} {}`, or export the pool first",
        path.display(), path.display()
    )]
    Imported {
        /// The disk.
        path: PathBuf,
        /// Its pool.
        pool: String,
    },
    /// Somebody may want its pool.
    #[error(
        "{} is a disk of pool '{pool}' ({guid}), which {how}: it can be imported, and will lack this disk. \
         If nobody wants it, -f erases the label all the same",
        path.display()
    )]
    Importable {
        /// The disk.
        path: PathBuf,
        /// Its pool.
        pool: String,
        /// Its pool's guid.
        guid: String,
        /// What is known of the pool.
        how: String,
    },
    /// It has one of its partitions', at its end.
    #[error(
        "{} ends with a disk of a pool, and is larger: that is a partition of it, or what was made of one. Name that, and not the whole \
         disk",
        path.display()
    )]
    Around {
        /// The disk.
        path: PathBuf,
    },
    /// There is none.
    #[error("{} has no label that could be erased", path.display())]
    None {
        /// The disk.
        path: PathBuf,
    },
    /// It is somebody's that this program does not know.
    #[error("{}: {why}; -f erases the label all the same", path.display())]
    Unknown {
        /// The disk.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Somebody took it meanwhile, or has it open.
    #[error("{} is in use by another process: whoever has it open must let go of it first", path.display())]
    InUse {
        /// The disk.
        path: PathBuf,
    },
    /// The disk refuses.
    #[error("{}: {error}. See to it and do this again: part of the label may be erased", path.display())]
    Io {
        /// The disk.
        path: PathBuf,
        /// How.
        error: io::Error,
    },
}
