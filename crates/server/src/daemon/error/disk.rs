//! Why a disk of an imported pool, or a spare, could not join or leave.

use std::path::PathBuf;

use tally_members::create::NewSpareError;
use tally_members::roster::{RosterError, SpareError};
use tally_store::pool::membership::MembershipError;

/// Why a disk could not join or leave.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// No such disk in the pool.
    #[error("pool '{pool}' has no disk '{device}'; `tally pool status` shows their names")]
    NoDevice {
        /// Which pool.
        pool: String,
        /// As asked for.
        device: String,
    },
    /// Nothing is written any more.
    #[error("pool '{pool}' is suspended; once its disks are well, `tally pool clear {pool}` goes on with it")]
    Suspended {
        /// Which pool.
        pool: String,
    },
    /// Some disks are still away.
    #[error(
        "{}{}\n`tally pool status` shows which disks are away. Do this again when they are there, or replace them",
        done.iter().map(|line| format!("{line}\n")).collect::<String>(),
        failed.join("\n")
    )]
    NotReopened {
        /// What became of the others.
        done: Vec<String>,
        /// Why not.
        failed: Vec<String>,
    },
    /// A step failed.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The labels could not be changed.
    #[error(transparent)]
    Labels(#[from] RosterError),
    /// Something that runs for long stands in the way.
    #[error("{other}; wait for it (`tally pool status` shows how far it is), or detach that disk to stop it")]
    Busy {
        /// What it is.
        other: String,
    },
    /// A scrub runs already.
    #[error("{other}; `tally pool scrub -s` stops it, `-p` pauses it, and `tally pool status` shows how far it is")]
    Scrubbing {
        /// What it is.
        other: String,
    },
    /// A scrub or a copy was to end, and waits for a disk.
    #[error(
        "a scrub or a copy has been told to stop, and still waits for a disk; `tally pool status` shows it, and which disk hangs. Try \
         again when it has stopped"
    )]
    Stopping,
    /// A spare is none of the disks that this command is for.
    #[error("{} {why}", path.display())]
    Spare {
        /// The spare.
        path: PathBuf,
        /// What is the matter, and what to do.
        why: &'static str,
    },
    /// A disk does not become a spare.
    #[error(transparent)]
    NewSpare(#[from] NewSpareError),
    /// Only spares are removed.
    #[error(
        "{device} is no spare; `tally pool detach` takes a disk out of its mirror, once every block is found on another one"
    )]
    NoSpare {
        /// As asked for.
        device: String,
    },
    /// The pool is being exported or destroyed, or the daemon ends.
    #[error("the pool is on its way out: it is being exported or destroyed, or the daemon is ending")]
    LettingGo,
    /// Part of the source could not be read.
    #[error("{0}")]
    Unread(String),
}

pub(in crate::daemon) fn of_spare(error: SpareError) -> DiskError {
    DiskError::Membership(MembershipError::Spare(error))
}
