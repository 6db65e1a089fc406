//! What a dataset has of the groups that are not synced yet.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use tally_base::{Dseq, ObjectId, Time, Txg};

use crate::cuts::Cuts;

/// What came in with one group, at most, until its fold knows better.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pending {
    /// Bytes that were written.
    pub(crate) bytes: u64,
    /// By how much the dataset may grow: charged against the quota.
    pub(crate) growth_bytes: u64,
    /// By how much the dataset may shrink: who meets the quota waits for that. Nobody counts it without a quota.
    pub(crate) shrink_bytes: u64,
}

/// What the fold alone knows of an object.
pub(crate) struct Folded {
    pub(crate) id: ObjectId,
    /// Bytes that it takes, with what was cut from it and is not freed yet.
    pub(crate) used: u64,
    /// That which is not freed.
    pub(crate) cuts: Option<Box<Cuts>>,
    /// Bytes that are reserved for it and not taken.
    pub(crate) reserved_bytes: u64,
}

/// What a dataset has of one group that is not synced.
#[derive(Default)]
pub(crate) struct OfGroup {
    /// Objects that have a layer of it.
    pub(crate) dirty: foldhash::HashSet<ObjectId>,
    pub(crate) pending: Pending,
    /// When the first of its changes was acknowledged without being durable (`sync=disabled`).
    pub(crate) exposed_since: Option<Time>,
    /// How far the replay had come in it, or after what a new record follows.
    pub(crate) replayed: Option<Dseq>,
    /// What the fold has found of objects, until the group is synced.
    pub(crate) folded: Vec<Folded>,
}

/// All of a dataset.
#[derive(Default)]
pub(crate) struct Groups(Mutex<BTreeMap<Txg, OfGroup>>);

impl Groups {
    /// For whoever looks at several groups, or changes one.
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<Txg, OfGroup>> {
        self.0.lock()
    }

    /// Whether there is something of `txg` to fold, or of an older group to let go of.
    pub(crate) fn hold_changes_of(&self, txg: Txg) -> bool {
        let groups = self.lock();
        groups.get(&txg).is_some_and(|group| !group.dirty.is_empty())
            || groups.range(..=txg).any(|(_, group)| group.pending.bytes > 0)
    }

    /// Objects that the fold of `txg` is about, by id.
    pub(crate) fn take_dirty(&self, txg: Txg) -> Vec<ObjectId> {
        let dirty = self.lock().get_mut(&txg).map(|group| std::mem::take(&mut group.dirty));
        let mut dirty: Vec<ObjectId> = dirty.unwrap_or_default().into_iter().collect();
        dirty.sort_unstable();
        dirty
    }

    /// The highest position in the dataset's history that was replayed up to `txg`; `None`: the one in the newest root. Younger
    /// groups are not in the root of that one (rules F1).
    pub(crate) fn replayed_up_to(&self, txg: Txg) -> Option<Dseq> {
        self.lock().range(..=txg).rev().find_map(|(_, group)| group.replayed)
    }

    /// Groups up to `txg` are synced. An empty map would keep its first node, a kilobyte for each of ten thousand datasets; one
    /// that was never used does not.
    pub(crate) fn forget(&self, txg: Txg) {
        let mut groups = self.lock();
        groups.retain(|group, _| *group > txg);
        if groups.is_empty() {
            *groups = BTreeMap::new();
        }
    }
}
