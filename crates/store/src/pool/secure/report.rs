//! What a walk over blocks comes to: what was given back, what is lost, and why it did not reach its end.

use std::fmt;

use tally_base::DatasetId;
use tally_members::blockdev::BlockDevError;
use tally_members::roster::{RosterError, SecuredSlots};

use super::SpaceFound;
use crate::bp::BlockPtr;
use crate::pool::SyncError;

/// Lost blocks that a report names. A person who sees so many will ask `tally inspect`.
const NAMED_MAX: usize = 64;

/// Why not every block could be looked at.
#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    /// The group before it could not be synced.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// The labels could not be written.
    #[error(transparent)]
    Roster(#[from] RosterError),
    /// The legs that were to keep the blocks failed.
    #[error(transparent)]
    Vdev(#[from] BlockDevError),
    /// Whoever heard of the progress did not want more.
    #[error("it was stopped")]
    Stopped,
}

/// A block that no leg has right; or a label or an uberblock that stays damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostBlock {
    /// Its dataset; none: a block of the pool itself.
    pub dataset: Option<DatasetId>,
    /// The file that it is content of; none: a node of the dataset's tree, or a block of the pool itself.
    pub content: Option<(u64, u64)>,
    /// Its pointer, if it is a block of a dataset.
    pub bp: Option<BlockPtr>,
    /// Its pointer in words; or what is wrong where.
    pub block: String,
}

impl LostBlock {
    pub(super) fn of(dataset: DatasetId, content: Option<(u64, u64)>, bp: &BlockPtr) -> Self {
        Self { dataset: Some(dataset), content, bp: Some(*bp), block: bp.to_string() }
    }
}

impl fmt::Display for LostBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.dataset, self.content) {
            (Some(dataset), Some((object, offset))) => {
                write!(f, "dataset {dataset}, object {object} at {offset}: {}", self.block)
            }
            (Some(dataset), None) => write!(f, "dataset {dataset}, a node of its tree: {}", self.block),
            (None, _) => write!(f, "the pool itself: {}", self.block),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecureReport {
    /// Bytes that were looked at, or brought.
    pub checked_bytes: u64,
    /// Ranges that a leg that counts had wrong, or that a joining one had lost, and that every keeper has by now. What a joining leg lacks before it
    /// is brought that is none.
    pub repaired_count: u64,
    /// Bytes of them.
    pub repaired_bytes: u64,
    /// Blocks that no leg has right.
    pub lost_count: u64,
    /// Those of them that a leg which may leave could not be read at: it may be read again some day.
    pub unread_count: u64,
    /// Blocks that were given up before ([`BlockPtr::given_up`]): nothing of them can be lost any more.
    pub given_up_count: u64,
    /// A node, or a block of the pool itself, is among the lost ones: what it names was not met.
    pub hides: bool,
    /// Of a scrub in one piece: what it has found out of space.
    pub space: Option<SpaceFound>,
    /// The first of the lost ones.
    pub lost: Vec<LostBlock>,
}

impl SecureReport {
    /// Adds what became of slots, which are no blocks. `heard` hears of each that is lost.
    pub fn note_slots(&mut self, slots: &SecuredSlots, heard: &mut dyn FnMut(&LostBlock)) {
        self.repaired_count += slots.repaired.len() as u64;
        for slot in &slots.lost {
            self.note_lost(true, LostBlock { dataset: None, content: None, bp: None, block: slot.to_string() }, heard);
        }
    }

    pub(super) fn note_lost(&mut self, unread: bool, lost: LostBlock, heard: &mut dyn FnMut(&LostBlock)) {
        self.lost_count += 1;
        self.unread_count += u64::from(unread);
        tracing::error!("no disk has this right: {lost}");
        heard(&lost);
        if self.lost.len() < NAMED_MAX {
            self.lost.push(lost);
        }
    }
}
