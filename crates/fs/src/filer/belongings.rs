//! What a dataset has beside its tree when it is destroyed: blocks that were placed for groups that nobody will fold any more.

use std::sync::atomic::Ordering;

use tally_base::Txg;
use tally_store::dataset::Belongings;

use crate::filesystem::Filesystem;

impl Filesystem {
    /// What the newest tree takes of the pool.
    pub(super) fn belongings(&self) -> Belongings {
        self.io().belongings(&self.dataset.root().tree)
    }

    /// Frees every block of a dataset that is no longer in the pool: those of its tree, and those that were placed ahead
    /// for a group that nobody will fold any more.
    pub(super) fn free_everything(&self, txg: Txg, belongings: Belongings) {
        let io = self.io();
        // Operations that are still under way see this under their hold, and leave nothing behind.
        self.gone.store(true, Ordering::Release);
        for object in self.objects.all() {
            // Whoever had the lock before the mark has settled its blocks when it lets go.
            for layer in &object.write().layers {
                layer.data.placed().iter().for_each(|block| io.release(block, txg));
            }
        }
        let unreadable_count = io.release_all(&self.dataset.root().tree, belongings, txg);
        if unreadable_count > 0 {
            let name = self.name();
            tracing::error!(unreadable_count, "blocks of {name} could not be read: what they name stays allocated");
        }
    }
}
