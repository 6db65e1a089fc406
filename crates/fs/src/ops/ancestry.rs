//! A directory must not come to stand below itself.
//!
//! Two renames, each sound, make a circle together (rules F22). So while one directory changes its parent no other does:
//! whoever is about to holds the [`Standing`] tree. But to find out whether a directory is among the parents of another is
//! a walk, as long as a client likes to nest. A lock that is held for a walk stops everybody who needs it, and with them the
//! threads that serve everybody else: one tree of 40,000 levels did, for whoever knew its lowest handle.
//!
//! ```text
//!  look ──▶ walk, without any lock ──▶ take the lock ──▶ did one of those that were come by move meanwhile?
//!    ▲                                                     │ yes                 │ no
//!    └─────────────────────────────────────────────────────┘                     ▼ what was found is true, and stays so
//! ```
//!
//! What moved lately is kept for that ([`MOVES_KEPT`]), and a walk ends after [`RENAME_PARENTS_MAX`] parents: deeper than that
//! only a directory moves that has no directories in it, and so stands above nothing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tally_base::{ObjectId, blocking};
use tally_vfs::{FsError, ObjectRef, RENAME_PARENTS_MAX};

use crate::filesystem::Filesystem;
use crate::object::RestsOn;

/// Moves that are kept. A walk lasts milliseconds at most and a move a good part of one: should there have been more in the
/// meantime, it begins anew.
const MOVES_KEPT: usize = 64;

/// Links of a directory in which no other one is.
const LINKS_OF_LEAF: u32 = 2;

/// Which directories have changed their parents.
#[derive(Default)]
pub(crate) struct Ancestry {
    moved: Mutex<Moved>,
    parents_seen: AtomicU64,
}

/// A tree in which nobody but its holder gives a directory another parent.
pub(super) type Standing<'a> = MutexGuard<'a, Moved>;

#[derive(Default)]
pub(super) struct Moved {
    count: u64,
    /// The newest last.
    last: VecDeque<ObjectId>,
}

impl Moved {
    /// This directory gets another parent before the tree is let go.
    pub(super) fn note(&mut self, dir: ObjectId) {
        self.count += 1;
        if self.last.len() == MOVES_KEPT {
            self.last.pop_front();
        }
        self.last.push_back(dir);
    }

    /// Whether none of these (in order) has moved since there were `count` moves.
    fn has_spared(&self, count: u64, chain: &[ObjectId]) -> bool {
        let Ok(since) = usize::try_from(self.count - count) else { return false };
        since <= self.last.len() && self.last.iter().rev().take(since).all(|dir| chain.binary_search(dir).is_err())
    }
}

impl Ancestry {
    fn stand(&self) -> Standing<'_> {
        self.moved.try_lock().unwrap_or_else(|| blocking(|| self.moved.lock()))
    }
}

/// What a walk found, if the tree was as it saw it.
struct Walk {
    /// Every directory that it came by, but for the root, which never moves.
    chain: SmallVec<[ObjectId; 32]>,
    seen: RestsOn,
    result: Result<(), FsError>,
}

impl Filesystem {
    /// Parents that were looked at since the import, to keep directories from moving below themselves.
    #[must_use]
    pub fn parents_seen(&self) -> u64 {
        self.ancestry.parents_seen.load(Ordering::Relaxed)
    }

    /// The tree, standing still, in which `to_dir` is not below the directory `source`. `None`: it moved under the walk. A
    /// refusal comes with what it rests on: `seen`, and every parent that was looked at.
    pub(super) fn stand_above(
        &self,
        source: ObjectId,
        to_dir: ObjectRef,
        seen: RestsOn,
    ) -> Result<Option<Standing<'_>>, (FsError, RestsOn)> {
        if source == to_dir.id {
            return Err((FsError::Invalid, seen));
        }
        let count = self.ancestry.stand().count;
        let mut walk = self.walk_up(source, to_dir.id, seen);
        walk.chain.sort_unstable();
        let standing = self.ancestry.stand();
        if !standing.has_spared(count, &walk.chain) {
            return Ok(None);
        }
        match walk.result {
            Ok(()) => Ok(Some(standing)),
            // Faulty software may have written parents in a circle.
            Err(FsError::NameTooLong) if walk.chain.windows(2).any(|pair| pair[0] == pair[1]) => {
                drop(standing);
                Err((self.broken(&format!("the parents of directory {} run in a circle", to_dir.id)), walk.seen))
            }
            Err(FsError::NameTooLong) if self.is_leaf(source) => Ok(Some(standing)),
            Err(error) => Err((error, walk.seen)),
        }
    }

    fn is_leaf(&self, dir: ObjectId) -> bool {
        let inode = self.see(dir, |sight| sight.inode());
        inode.is_ok_and(|inode| inode.is_some_and(|inode| inode.nlink == LINKS_OF_LEAF))
    }

    /// From a directory up to the root, unless that is too far.
    fn walk_up(&self, source: ObjectId, from: ObjectId, seen: RestsOn) -> Walk {
        let root = self.dataset.birth.root_object;
        let mut walk = Walk { chain: SmallVec::new(), seen, result: Ok(()) };
        let mut at = from;
        while at != root && walk.result.is_ok() {
            if walk.chain.len() == RENAME_PARENTS_MAX {
                walk.result = Err(FsError::NameTooLong);
                break;
            }
            walk.chain.push(at);
            let (inode, of_parent) = self.see(at, |sight| (sight.inode(), sight.rests_on()));
            walk.seen = walk.seen.and(of_parent);
            // Only the lowest one can have been removed.
            match inode.and_then(|inode| inode.ok_or(FsError::Stale)) {
                Ok(inode) if inode.parent == source => walk.result = Err(FsError::Invalid),
                Ok(inode) => at = inode.parent,
                Err(error) => walk.result = Err(error),
            }
        }
        self.ancestry.parents_seen.fetch_add(walk.chain.len() as u64, Ordering::Relaxed);
        walk
    }
}

#[cfg(test)]
mod tests;
