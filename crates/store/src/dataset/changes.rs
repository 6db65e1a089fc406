//! Which datasets have changed in groups that are not synced yet.
//!
//! A group folds and tells of its end those that have, and a pool may have ten thousand of which a group changes three: to
//! ask each of them would cost every group, and every command that waits for one, milliseconds.
//!
//! Whoever changes a dataset in a group notes it under his hold on that group, and the group is closed only when all
//! holds are released: so what is taken then is all. Notes of nothing in particular (a new name, an object that was
//! looked at and has to be let go) may come at any time, for a group that is closed already; they are taken with the next
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tally_base::{DatasetId, Txg};

/// Those of a pool.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    noted: Mutex<BTreeMap<Txg, Vec<DatasetId>>>,
}

impl Changes {
    /// Notes a dataset for `txg`; `newest` is the last group for which it is noted, so that others need not do it again.
    pub(super) fn note(&self, id: DatasetId, txg: Txg, newest: &AtomicU64) {
        let mut noted = self.noted.lock();
        noted.entry(txg).or_default().push(id);
        // Under the lock: who sees this need not note anything, and whoever takes the notes finds this one.
        newest.fetch_max(txg.0, Ordering::Relaxed);
    }

    /// Notes a dataset that is gone.
    pub(crate) fn note_gone(&self, id: DatasetId, txg: Txg) {
        self.noted.lock().entry(txg).or_default().push(id);
    }

    /// What was noted for groups up to `txg`, each once.
    pub(crate) fn take(&self, txg: Txg) -> BTreeSet<DatasetId> {
        let mut noted = self.noted.lock();
        let later = noted.split_off(&txg.next());
        std::mem::replace(&mut *noted, later).into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_takes_what_was_noted_for_it_or_too_late_for_an_older_one() {
        let (changes, newest) = (Changes::default(), AtomicU64::new(0));
        changes.note(DatasetId(7), Txg(5), &newest);
        changes.note(DatasetId(8), Txg(6), &newest);
        changes.note(DatasetId(7), Txg(5), &newest);
        let ids = |txg| changes.take(Txg(txg)).into_iter().map(|id| id.0).collect::<Vec<_>>();
        assert_eq!((ids(5), newest.load(Ordering::Relaxed)), (vec![7], 6));
        changes.note_gone(DatasetId(3), Txg(5));
        assert_eq!((ids(6), ids(7)), (vec![3, 8], vec![]));
    }
}
