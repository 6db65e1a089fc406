//! What an export hands over to the import of the pool behind it, in the same process: what clients have open, locked and delegated (rules V37).
//!
//! An administrator exports a pool and takes it back, to look at its disks or to bring them to another controller, and its clients only wait. What they have claimed is in memory, and known by
//! the number of its mount. So the mounts stay, each with its number and its table, and the datasets are mounted by them again: nothing is copied, and before anybody is answered all of it keeps others out as
//! it did. Whoever gives something up meanwhile does so here ([`Handover::retained`]).
//!
//! *Only as it was.* Somebody else who has had the pool in service since has let others have what is claimed here. The claim on its labels tells ([`Suspended`]); disks that have gone back, and a pool
//! that was not exported cleanly, are not what clients know either. Then the datasets are mounted as any, and nobody has anything of them.
//!
//! *Not handed over* is what clients have of a pool that is only read: what is opened there stands in no list ([`super::clients`]), so that nobody could claim it behind the next crash.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use tally_base::{DatasetId, Txg};
use tally_claims::Account;
use tally_members::label::PoolConfig;
use tally_vfs::Retained;

use super::{Filer, Suspended};
use crate::mount::Mount;

/// What clients have of a pool that is put away.
pub struct Handover {
    pub(super) account: Arc<Account>,
    mounts: BTreeMap<DatasetId, Arc<Mount>>,
    /// How the pool was left, once it is.
    left: OnceLock<Suspended>,
}

impl Handover {
    /// The pool was exported.
    pub fn left_by(&self, filer: &Filer) {
        // Once, as a pool is.
        let _first = self.left.set(filer.as_suspended());
    }

    /// What clients have of a dataset.
    #[must_use]
    pub fn retained(&self, dataset: DatasetId) -> Option<Arc<dyn Retained>> {
        Some(Arc::clone(self.mounts.get(&dataset)?) as _)
    }

    /// Whether the pool is found as it was left.
    pub(super) fn fits(&self, found: &PoolConfig, newest: Txg) -> bool {
        self.left.get().is_some_and(|left| left.is_found(found, newest).is_ok())
    }

    /// By which a dataset goes on.
    pub(super) fn mount(&self, dataset: DatasetId) -> Option<Arc<Mount>> {
        self.mounts.get(&dataset).cloned()
    }
}

impl Filer {
    /// What clients have of this pool, which is about to be exported, for the import behind it.
    #[must_use]
    pub fn hand_over(&self) -> Option<Arc<Handover>> {
        if self.pool.read_only() {
            return None;
        }
        let mounts = self.mounted.read().iter().map(|(id, filesystem)| (*id, Arc::clone(&filesystem.claims))).collect();
        Some(Arc::new(Handover { account: Arc::clone(&self.account), mounts, left: OnceLock::new() }))
    }
}
