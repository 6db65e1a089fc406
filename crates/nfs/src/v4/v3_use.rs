//! Which datasets are used by who is no client: by NFSv3, whose looks at a file that somebody has for writing wait for an answer of that one. There `auto` gives none for writing
//! ([`Gives::AmongClients`](tally_vfs::Gives)).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::RwLock;
use tally_base::{DatasetId, PoolGuid};
use tally_vfs::Vfs;

use super::house::House;

/// For so long a dataset is taken for one that is used so: as long as a client may be off over night.
const USED: Duration = Duration::from_secs(24 * 60 * 60);
/// Not noted more often than that.
const PACE: Duration = Duration::from_secs(10);
/// Most datasets of which it is remembered; past it all are taken for used.
const DATASETS_MAX: usize = 4096;

/// When each was used last, by the clock of leases.
#[derive(Debug, Default)]
pub(super) struct V3Use {
    used: RwLock<HashMap<(PoolGuid, DatasetId), AtomicU64>>,
}

impl V3Use {
    /// Somebody has.
    pub(super) fn note(&self, of: (PoolGuid, DatasetId), now: Duration) {
        let (now_ns, pace) = (now.as_nanos() as u64, PACE.as_nanos() as u64);
        if let Some(last) = self.used.read().get(&of) {
            if last.load(Relaxed) + pace <= now_ns {
                last.store(now_ns, Relaxed);
            }
            return;
        }
        let mut used = self.used.write();
        used.retain(|_, last| is_used(last, now));
        if used.len() < DATASETS_MAX {
            used.entry(of).or_default().store(now_ns, Relaxed);
        }
    }

    /// Whether it is used so.
    pub(super) fn uses(&self, of: (PoolGuid, DatasetId), now: Duration) -> bool {
        let used = self.used.read();
        used.get(&of).map_or(used.len() >= DATASETS_MAX, |last| is_used(last, now))
    }
}

impl House {
    /// A dataset is used by NFSv3.
    pub(crate) fn note_v3_use(&self, of: (PoolGuid, DatasetId)) {
        self.v3_use.note(of, self.now());
    }

    /// Whether it was within a day.
    pub(super) fn is_used_by_v3(&self, vfs: &dyn Vfs) -> bool {
        self.v3_use.uses((vfs.pool(), vfs.dataset()), self.now())
    }
}

fn is_used(last: &AtomicU64, now: Duration) -> bool {
    Duration::from_nanos(last.load(Relaxed)) + USED > now
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: PoolGuid = PoolGuid(1);

    #[test]
    fn it_is_for_a_day_and_within_bounds() {
        let (v3_use, at) = (V3Use::default(), |hours: u64| Duration::from_secs(hours * 3600));
        let of = |number| (POOL, DatasetId(number));
        assert!(!v3_use.uses(of(1), at(0)));
        v3_use.note(of(1), at(0));
        v3_use.note(of(1), at(10));
        assert!(v3_use.uses(of(1), at(33)) && !v3_use.uses(of(1), at(34)) && !v3_use.uses(of(2), at(10)));
        for number in 0..2 * DATASETS_MAX as u64 {
            v3_use.note(of(number), at(40));
        }
        assert_eq!(v3_use.used.read().len(), DATASETS_MAX);
        assert!(v3_use.uses(of(u64::MAX), at(40)), "nobody knows");
        v3_use.note(of(u64::MAX), at(65));
        assert_eq!(v3_use.used.read().len(), 1, "those that are over go when somebody comes");
    }
}
