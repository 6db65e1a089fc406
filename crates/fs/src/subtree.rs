//! What a dataset and all below it take together, and may take (`quota`). What is reserved and not taken yet counts as well.
//!
//! Each dataset has a sum of its own, and holds on to those of the datasets above it. A group that changes what a dataset
//! takes adds the difference to all of them, so that nobody ever looks at all datasets (rules S2). The same sums tell whether
//! anything below is still being freed.
//!
//! What groups bring that are not synced yet is counted beside a sum, and only where there is a quota. Groups from before it
//! was set are not in that: by as much as was dirty then a quota may be passed, once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tally_base::{Txg, Wait};
use tally_store::dataset::DatasetRoot;
use tally_vfs::FsError;

use crate::admission::Refusal;
use crate::group::Pending;

/// The sums of a dataset and all below it. They add up what the accounts say, which only inform: forged ones may make them
/// pass the end of their range, and then they mean nothing.
#[derive(Default)]
pub(crate) struct Subtree {
    used_bytes: AtomicU64,
    orphan_count: AtomicU64,
    /// 0 is none.
    quota: AtomicU64,
    pending: Mutex<BTreeMap<Txg, Pending>>,
}

/// More groups than are ever under way: where nobody asks, since nothing grows, the oldest are let go of here.
const UNSYNCED_MAX: usize = 8;

/// What one dataset has added to sums.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    used_bytes: u64,
    orphan_count: u64,
}

impl Share {
    fn of(root: &DatasetRoot) -> Self {
        Self { used_bytes: root.used_bytes.saturating_add(root.reserved_bytes), orphan_count: root.orphan_count }
    }
}

impl Subtree {
    fn exchange(&self, before: Share, after: Share) {
        self.used_bytes.fetch_add(after.used_bytes.wrapping_sub(before.used_bytes), Ordering::Relaxed);
        self.orphan_count.fetch_add(after.orphan_count.wrapping_sub(before.orphan_count), Ordering::Relaxed);
    }

    /// Bytes, as of the newest group.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Whether something of it is still being freed.
    fn has_orphans(&self) -> bool {
        self.orphan_count.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn quota(&self) -> Option<u64> {
        Some(self.quota.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    pub(crate) fn set_quota(&self, quota: Option<u64>) {
        self.quota.store(quota.unwrap_or(0), Ordering::Relaxed);
    }

    /// What is on its way in groups behind `synced`. It is to be asked for before what is used: who is no longer in the one is in
    /// the other.
    fn pending(&self, synced: Txg) -> Coming {
        let mut pending = self.pending.lock();
        *pending = pending.split_off(&synced.next());
        Coming::of(pending.values())
    }

    /// Counts what comes with group `txg`.
    pub(crate) fn note(&self, txg: Txg, growth_bytes: u64, shrink_bytes: u64) {
        let mut pending = self.pending.lock();
        if pending.len() > UNSYNCED_MAX {
            pending.pop_first();
        }
        let of_group = pending.entry(txg).or_default();
        of_group.growth_bytes = of_group.growth_bytes.saturating_add(growth_bytes);
        of_group.shrink_bytes = of_group.shrink_bytes.saturating_add(shrink_bytes);
    }

    /// How many bytes the quota still lets in, if there is one.
    pub(crate) fn room(&self, synced: Txg) -> Option<u64> {
        let quota = self.quota()?;
        let growing = self.pending(synced).growth_bytes;
        Some(quota.saturating_sub(self.used_bytes().saturating_add(growing)))
    }

    /// Whether it may grow by so much.
    pub(crate) fn check(&self, growth_bytes: u64, synced: Txg, next_sync: impl Fn() -> Wait) -> Result<(), Refusal> {
        let Some(quota) = self.quota() else { return Ok(()) };
        let coming = self.pending(synced);
        coming.check(quota, self.used_bytes(), self.has_orphans(), growth_bytes, next_sync)
    }
}

/// By how much groups that are not synced yet may change what is used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Coming {
    growth_bytes: u64,
    shrink_bytes: u64,
}

impl Coming {
    pub(crate) fn of<'a>(pending: impl Iterator<Item = &'a Pending>) -> Self {
        pending.fold(Self::default(), |sum, pending| Self {
            growth_bytes: sum.growth_bytes.saturating_add(pending.growth_bytes),
            shrink_bytes: sum.shrink_bytes.saturating_add(pending.shrink_bytes),
        })
    }

    /// Whether `growth_bytes` more are within a quota of which so much is used.
    pub(crate) fn check(
        self,
        quota: u64,
        used_bytes: u64,
        has_orphans: bool,
        growth_bytes: u64,
        next_sync: impl Fn() -> Wait,
    ) -> Result<(), Refusal> {
        let grown = used_bytes.saturating_add(growth_bytes);
        if grown.saturating_add(self.growth_bytes) <= quota {
            return Ok(());
        }
        // The fold knows better than the charges, and brings the room of what was removed: let it speak before giving
        // up.
        if grown.saturating_sub(self.shrink_bytes) <= quota || has_orphans {
            return Err(Refusal::until(next_sync()));
        }
        Err(Refusal::now(FsError::Quota))
    }
}

/// The sums in which a dataset counts: its own, and those of the datasets above it, upwards.
pub(crate) type Chain = SmallVec<[Arc<Subtree>; 4]>;

/// Where a dataset stands among the others.
pub(crate) struct Standing {
    chain: ArcSwap<Chain>,
    /// What it has added to each of the chain. Locked while that changes, or the chain does.
    counted: Mutex<Share>,
}

impl Standing {
    /// Of a dataset with none above it.
    pub(crate) fn new(root: &DatasetRoot, quota: Option<u64>) -> Self {
        let own = Subtree::default();
        own.set_quota(quota);
        own.exchange(Share::default(), Share::of(root));
        let chain = ArcSwap::from_pointee(Chain::from_iter([Arc::new(own)]));
        Self { chain, counted: Mutex::new(Share::of(root)) }
    }

    /// The sums in which it counts, its own first.
    pub(crate) fn chain(&self) -> arc_swap::Guard<Arc<Chain>> {
        self.chain.load()
    }

    pub(crate) fn own(&self) -> Arc<Subtree> {
        Arc::clone(&self.chain.load()[0])
    }

    /// From now on it stands below `parent`, or below nobody.
    pub(crate) fn stand_below(&self, parent: Option<&Self>) {
        let above = parent.map(|parent| parent.chain.load_full());
        let chain =
            Chain::from_iter([self.own()].into_iter().chain(above.iter().flat_map(|above| above.iter().cloned())));
        let counted = self.counted.lock();
        let before = self.chain.swap(Arc::new(chain));
        before.iter().skip(1).for_each(|sum| sum.exchange(*counted, Share::default()));
        self.chain.load().iter().skip(1).for_each(|sum| sum.exchange(Share::default(), *counted));
    }

    /// A group has left this root.
    pub(crate) fn count(&self, root: &DatasetRoot) {
        let mut counted = self.counted.lock();
        let after = Share::of(root);
        self.chain.load().iter().for_each(|sum| sum.exchange(*counted, after));
        *counted = after;
    }

    /// Whether there is a quota that what the dataset takes counts against.
    pub(crate) fn has_quota(&self) -> bool {
        self.chain.load().iter().any(|sum| sum.quota().is_some())
    }

    /// Whether anything in the pool is still being freed: at the top of each chain is the pool's own dataset.
    pub(crate) fn pool_has_orphans(&self) -> bool {
        self.chain.load().last().is_some_and(|top| top.has_orphans())
    }

    /// Counts what comes with group `txg` wherever there is a quota.
    pub(crate) fn note(&self, txg: Txg, growth_bytes: u64, shrink_bytes: u64) {
        for sum in self.chain.load().iter().filter(|sum| sum.quota().is_some()) {
            sum.note(txg, growth_bytes, shrink_bytes);
        }
    }
}
