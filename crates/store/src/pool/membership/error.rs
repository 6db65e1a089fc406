//! Why a disk could not join or leave.

use std::io;
use std::path::PathBuf;

use tally_members::create::CreateError;
use tally_members::roster::{ReturnError, RosterError, SpareError};

use super::super::{OpenError, SecureError, SyncError};

/// Why a disk could not join or leave.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum MembershipError {
    /// The new disk cannot be used.
    #[error(transparent)]
    New(Box<CreateError>),
    /// The labels could not be changed.
    #[error(transparent)]
    Labels(#[from] RosterError),
    /// The disk is needed, or is not what was taken for granted.
    #[error("{} {why}", path.display())]
    Refused {
        path: PathBuf,
        /// What is the matter, and what to do.
        why: &'static str,
    },
    /// Somebody wanted the copy to end.
    #[error("the copy to {} was stopped, and the disk was taken out again", path.display())]
    Stopped {
        /// The disk that was joining.
        path: PathBuf,
    },
    /// The copy goes on later.
    #[error("the copy to {} was interrupted; it goes on by itself as soon as the pool serves: after an import, or after `tally pool clear`", path.display())]
    Interrupted {
        /// The disk that joins.
        path: PathBuf,
    },
    /// The new disk counts, and the one that it was to replace stays until somebody takes it out.
    #[error(
        "{} has joined its mirror, and {} stays beside it: {why}.\n`tally pool detach {pool} {}` takes it out once every block is \
         found on another disk; with -f also if not",
        path.display(),
        old.display(),
        old.display()
    )]
    OldStays {
        pool: String,
        path: PathBuf,
        old: PathBuf,
        /// What is in the way.
        why: String,
    },
    /// The new disk has everything, and the one that it replaces leaves later.
    #[error(
        "{} has everything, and {} has not left its mirror yet: {why}.\nThat is made up for as soon as {} counts and the pool takes \
         changes: `tally pool status` shows how they stand",
        path.display(),
        old.display(),
        path.display()
    )]
    NotLeftYet {
        path: PathBuf,
        old: PathBuf,
        /// What is in the way.
        why: String,
    },
    /// Nobody goes on by himself with a disk that was put away.
    #[error("{} was taken out of use; `tally pool online` goes on with its copy", path.display())]
    NotDue {
        /// The disk that joins.
        path: PathBuf,
    },
    /// The copy failed.
    #[error(
        "the copy to {} failed: {cause}; the disk was taken out again. `tally pool status` shows which disk is not well: once it is, \
         do this again, or name another one",
        path.display()
    )]
    Copy { path: PathBuf, cause: String },
    /// The spare cannot be used.
    #[error(transparent)]
    Spare(#[from] SpareError),
    /// It cannot be taken back.
    #[error(transparent)]
    Return(#[from] ReturnError),
    /// What it lacks could not be given to it.
    #[error(
        "{} is not up to date, and stays as it was: {cause}; once all disks are well `tally pool online` gives it what it lacks",
        path.display()
    )]
    StaysAway { path: PathBuf, cause: String },
    /// A copy failed, and the pool could not even forget the disk.
    #[error(
        "the copy to {} failed: {cause}; and the disk could not be taken out again: {why}.\n`tally pool status` shows it; \
         detach it when the pool is well",
        path.display()
    )]
    NotTakenOut {
        path: PathBuf,
        /// What became of the copy.
        cause: String,
        /// Why the disk is still there.
        why: RosterError,
    },
    /// A disk that was to replace itself had to leave first, and could not come back.
    #[error(
        "{cause}.\n{} had to leave the pool to begin anew, and is no part of it now; it was of no use before. \
         `tally pool attach -f {pool} {} {}` takes it in again",
        path.display(),
        beside.display(),
        path.display()
    )]
    NotBack {
        pool: String,
        path: PathBuf,
        /// One that has everything.
        beside: PathBuf,
        cause: Box<Self>,
    },
    /// Somebody wanted a disk's blocks not to be checked any more.
    #[error("{} stays: its blocks were still being checked when that was stopped; do this again to begin anew", path.display())]
    StaysUnchecked {
        /// The disk that was leaving.
        path: PathBuf,
    },
    /// Of the disks that were to have all of it not all are left.
    #[error(
        "{} stays: a disk that was to stay without it has failed while blocks were checked. `tally pool status` shows which: do this \
         again when that one is well, or has left",
        path.display()
    )]
    StaysNeeded {
        /// The disk that was leaving.
        path: PathBuf,
    },
    /// It may have what nobody else has, or what nobody can find for now.
    #[error(
        "{count} blocks are right on no disk that stays, and could not be read everywhere, or a disk that stays refuses \
         them (see the log), so {} stays too: they may be read again some day.\nThe first of them: {first}.\n`tally pool detach -f` takes it out all the same",
        path.display()
    )]
    MayHaveMore {
        /// The disk that was leaving.
        path: PathBuf,
        count: u64,
        first: String,
    },
    /// Not every block could be looked at.
    #[error(
        "{} stays: its blocks could not be checked: {cause}. `tally pool status` shows which disk is not well: do this again once it is",
        path.display()
    )]
    NotChecked {
        /// The disk that was leaving.
        path: PathBuf,
        cause: SecureError,
    },
    /// A transaction group failed.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// The new ring could not be opened.
    #[error("the intent log cannot go on there: {0}")]
    Renew(#[from] OpenError),
    /// The lane goes on without the new leg.
    #[error(
        "{} does not take part in the log: it failed while it joined; `tally pool online` takes it in once it is well",
        path.display()
    )]
    Join { path: PathBuf },
    /// A lane's new life has nobody who writes it.
    #[error("the intent log cannot go on there: {0}")]
    NoThread(io::Error),
}

impl From<CreateError> for MembershipError {
    fn from(error: CreateError) -> Self {
        Self::New(Box::new(error))
    }
}
