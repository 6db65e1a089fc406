//! The blocks above all datasets, which have no keys to go by.

use std::sync::Arc;

use super::{Holding, LOOKS_MAX, Lasts};
use crate::alloc::{SectorError, SpaceVisit};
use crate::block::BlockError;
use crate::bp::BlockPtr;
use crate::io::BlockIo;
use crate::pool::catalog::{self, Damage};
use crate::pool::{Pool, PoolRoot};

/// See [`Pool::top_blocks`].
pub(super) struct TopBlocks {
    pub(super) blocks: Vec<BlockPtr>,
    /// The others: a device refuses them for now, and hides what they name.
    pub(super) hiding: Vec<BlockPtr>,
    /// Some of `blocks`: they were read, if they could be, and are not what belongs there.
    pub(super) foreign: Vec<BlockPtr>,
    pub(super) _held: Arc<Holding>,
}

impl Pool {
    /// What is neither in a dataset's tree nor content: the pool root, the reply cache, the catalog, and the allocator's own, as
    /// the newest uberblock names them. None of it is freed for good while what this gives is held.
    pub(super) fn top_blocks(&self) -> TopBlocks {
        // Under the lock the newest group is the one that the newest uberblock is of.
        let syncing = self.syncing.lock();
        let held = self.hold_blocks(Lasts::Look);
        let replies = syncing.reply_blocks.iter().flatten();
        let top: Vec<_> = syncing.root.iter().chain(replies).copied().collect();
        let (root, catalog) = (syncing.root, syncing.catalog.tree().clone());
        drop(syncing);
        // A root that cannot be read is named with the lost ones; the next group writes another.
        let read = |root: &BlockPtr| BlockIo::read_root(&self.io.devs, root);
        let read_or_heal = |root: BlockPtr| match read(&root) {
            Err(_) if self.heals(&root) => read(&root),
            outcome => outcome,
        };
        let root_read = root.map(read_or_heal).transpose();
        let root_hiding = root.filter(|_| root_read.as_ref().is_err_and(BlockError::is_of_device));
        let alloc = root_read.ok().flatten().and_then(|root| PoolRoot::decode(&root).ok()).map(|(_, alloc)| alloc);
        let (mut blocks, mut hiding, mut damaged_before) = (top.clone(), Vec::new(), Vec::new());
        for _ in 0..LOOKS_MAX {
            let mut damaged = Vec::new();
            hiding.clear();
            blocks.clone_from(&top);
            for (bp, damage) in catalog::blocks_of(&catalog, &self.io) {
                blocks.push(bp);
                damaged.extend(Some(bp).filter(|_| damage.is_some()));
                hiding.extend(Some(bp).filter(|_| damage == Some(Damage::Refused)));
            }
            if let Some(alloc) = &alloc {
                alloc.inspect(&self.io.devs, &mut |visit| {
                    blocks.extend(visit.block());
                    if let SpaceVisit::Damage { bp, error, .. } = visit {
                        damaged.push(*bp);
                        let is_refused = matches!(error, SectorError::Block(error) if error.is_of_device());
                        hiding.extend(Some(*bp).filter(|_| is_refused));
                    }
                });
            }
            let is_as_before = damaged == damaged_before;
            damaged_before = damaged;
            if is_as_before || !damaged_before.iter().map(|bp| self.heals(bp)).fold(false, |any, one| any | one) {
                break;
            }
        }
        hiding.extend(root_hiding);
        blocks.retain(|bp| !hiding.contains(bp));
        damaged_before.retain(|bp| !hiding.contains(bp));
        TopBlocks { blocks, hiding, foreign: damaged_before, _held: held }
    }
}
