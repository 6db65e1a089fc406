//! What a dataset takes of the pool: found while others work, and freed in the group in which it is destroyed. Why so is
//! told in docs/design/0010-destroying-a-dataset.md.

use std::sync::atomic::Ordering;

use tally_base::Txg;
use tally_store::block::BlockError;
use tally_store::bp::Dva;
use tally_store::dataset::{DatasetRoot, Schema};
use tally_store::tree::{Tree, Visit};

use crate::filesystem::Filesystem;
use crate::schema::Files;

/// What a dataset takes of the pool.
pub(super) struct Belongings {
    /// As of this tree.
    tree: Tree,
    /// `None`: too many.
    ranges: Option<Vec<Dva>>,
    /// Blocks that name others and cannot be read: those others are leaked.
    unreadable_count: u64,
}

/// Ranges that are kept in memory while a dataset is destroyed: 24 MiB of them, 128 GiB of content in blocks of 128 KiB.
const BELONGINGS_MAX: usize = 1 << 20;

impl Filesystem {
    /// Every range of the pool that the newest tree takes; none if they are too many to be kept in memory.
    pub(super) fn belongings(&self) -> Belongings {
        let root = self.dataset.root();
        let mut ranges = Some(Vec::new());
        let unreadable_count = self.visit_ranges(&root, &mut |range| {
            ranges = ranges.take().filter(|ranges| ranges.len() < BELONGINGS_MAX).map(|mut ranges| {
                ranges.push(range);
                ranges
            });
        });
        Belongings { tree: root.tree.clone(), ranges, unreadable_count }
    }

    /// A node that cannot be read is given back like any other, but not what it names. Gives the number of those.
    fn visit_ranges(&self, root: &DatasetRoot, visit: &mut dyn FnMut(Dva)) -> u64 {
        let io = &self.pool.io;
        let mut unreadable_count = 0;
        root.tree.visit_class(io, Files.blocks(), &mut |seen| match seen {
            Visit::Block { bp, .. } => io.ranges(bp).for_each(&mut *visit),
            Visit::Entry { key, value } => {
                if let Some(block) = Files.block(&key, value) {
                    io.ranges(&block).for_each(&mut *visit);
                }
            }
            Visit::Damage { bp, error, .. } if is_in_its_place(error) => {
                unreadable_count += 1;
                io.ranges(bp).for_each(&mut *visit);
            }
            Visit::Damage { error, .. } => {
                tracing::error!("a node of a destroyed dataset is not given back: {error}");
                unreadable_count += 1;
            }
        });
        unreadable_count
    }

    /// Frees every block of a dataset that is no longer in the pool: those of its tree, and those that were placed ahead
    /// for a group that nobody will fold any more.
    pub(super) fn free_everything(&self, txg: Txg, belongings: Belongings) {
        let io = &self.pool.io;
        // Operations that are still under way see this under their hold, and leave nothing behind.
        self.gone.store(true, Ordering::Release);
        for object in self.objects.all() {
            // Whoever had the lock before the mark has settled its blocks when it lets go.
            for layer in &object.write().layers {
                layer.data.placed().iter().for_each(|block| io.free(block, txg));
            }
        }
        let root = self.dataset.root();
        let unreadable_count = match belongings.ranges.filter(|_| belongings.tree == root.tree) {
            Some(ranges) => {
                ranges.into_iter().for_each(|range| io.allocator().free(range, txg));
                belongings.unreadable_count
            }
            // The tree has changed since, or is very large: now nobody changes it, and its nodes are in the cache.
            None => self.visit_ranges(&root, &mut |range| io.allocator().free(range, txg)),
        };
        if unreadable_count > 0 {
            let name = self.name();
            tracing::error!(unreadable_count, "blocks of {name} could not be read: what they name stays allocated");
            (0..unreadable_count).for_each(|_| io.note_leak());
        }
    }
}

/// Whether a node is this tree's own although it could not be read: one that was read and says what it must not may be
/// named elsewhere, too.
fn is_in_its_place(error: &BlockError) -> bool {
    matches!(error, BlockError::Unreadable { .. } | BlockError::GivenUp { .. })
}
