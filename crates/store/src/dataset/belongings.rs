//! What a dataset takes of the pool: found while others work, and released in the group in which it is destroyed. Why so is
//! told in docs/design/0010-destroying-a-dataset.md.

use tally_base::Txg;

use super::DatasetIo;
use crate::block::BlockError;
use crate::bp::{BlockPtr, Dva};
use crate::tree::{Tree, Visit};

/// What a dataset takes of the pool.
pub struct Belongings {
    /// As of this tree.
    tree: Tree,
    /// `None`: too many.
    ranges: Option<Vec<Dva>>,
    /// Blocks that name others and cannot be read: those others are leaked.
    unreadable_count: u64,
}

/// Ranges that are kept in memory while a dataset is destroyed: 24 MiB of them, 128 GiB of content in blocks of 128 KiB.
const BELONGINGS_MAX: usize = 1 << 20;

impl DatasetIo {
    /// Every range of the pool that would go with a tree; none if they are too many to be kept in memory.
    #[must_use]
    pub fn belongings(&self, tree: &Tree) -> Belongings {
        let mut ranges = Some(Vec::new());
        let unreadable_count = self.visit_ranges(tree, &mut |range| {
            ranges = ranges.take().filter(|ranges| ranges.len() < BELONGINGS_MAX).map(|mut ranges| {
                ranges.push(range);
                ranges
            });
        });
        Belongings { tree: tree.clone(), ranges, unreadable_count }
    }

    /// Releases every block of a tree that nobody will change any more, in group `txg`. `belongings` were found before, and
    /// count if it is still the same. Gives how many of its blocks could not be read, so that what they name is leaked.
    pub fn release_all(&self, tree: &Tree, belongings: Belongings, txg: Txg) -> u64 {
        let mut free = |range| {
            self.io.note_gone(range);
            self.io.allocator().free(range, txg);
        };
        let unreadable_count = match belongings.ranges.filter(|_| belongings.tree == *tree) {
            Some(ranges) => {
                ranges.into_iter().for_each(free);
                belongings.unreadable_count
            }
            // The tree has changed since, or is very large: now nobody changes it, and its nodes are in the cache.
            None => self.visit_ranges(tree, &mut free),
        };
        (0..unreadable_count).for_each(|_| self.note_leak());
        unreadable_count
    }

    /// A node that cannot be read is given back like any other, but not what it names. Gives the number of those.
    fn visit_ranges(&self, tree: &Tree, visit: &mut dyn FnMut(Dva)) -> u64 {
        let mut let_go = |bp: &BlockPtr| self.let_go(bp, |io, bp| io.ranges(bp).for_each(&mut *visit));
        let mut unreadable_count = 0;
        tree.visit_class(&self.io, self.schema.blocks(), &mut |seen| match seen {
            Visit::Block { bp, .. } => let_go(bp),
            Visit::Entry { key, value } => self.schema.block(&key, value).iter().for_each(&mut let_go),
            Visit::Damage { bp, error, .. } if is_in_its_place(error) => {
                unreadable_count += 1;
                let_go(bp);
            }
            Visit::Damage { error, .. } => {
                tracing::error!("a node of a destroyed dataset is not given back: {error}");
                unreadable_count += 1;
            }
        });
        unreadable_count
    }
}

/// Whether a node is this tree's own although it could not be read: one that was read and says what it must not may be
/// named elsewhere, too.
fn is_in_its_place(error: &BlockError) -> bool {
    matches!(error, BlockError::Unreadable { .. } | BlockError::GivenUp { .. })
}
