//! How much of a kind of work one group may have: what the disks do in a given time, by the newest syncs. A bound in
//! bytes alone would be a tenth of a second of one pool and half a minute of another.
//!
//! - **Patches**, in a seventh of a second. Whoever waits for a group waits for the one that is being synced and for his
//!   own. With 150 ms for each there is room for the flushes, and for whatever else the groups bring, within the second
//!   that nobody should have to wait longer for. A rotational disk reads a block of 128 KiB at random in 10 ms.
//! - **Data**, in two seconds. Bursts of that length are taken at the log's pace; behind them comes
//!   [the slope](super::slope), on which nobody passes while a group's leaves are made and its uberblock is written. That
//!   is a tenth of its time where small files come along, and who waits for whole groups waits for two of them.

use std::time::Duration;

/// The bound of patches before any sync was measured.
pub const PATCH_BYTES_START: u64 = 32 << 20;
/// That bound where syncs are slow: 64 blocks of the usual size, below which a group has little to merge.
pub const PATCH_BYTES_MIN: u64 = 8 << 20;
/// The bound where they are fast: beyond, a longer group merges hardly more.
pub const PATCH_BYTES_MAX: u64 = 256 << 20;

const _: () = assert!(PATCH_BYTES_MIN <= PATCH_BYTES_START && PATCH_BYTES_START <= PATCH_BYTES_MAX);

/// A kind of work.
#[derive(Debug)]
struct Kind {
    /// How long the sync of a group should take for it.
    time: Duration,
    /// The bound before any sync was measured, where syncs are slow, and where they are fast.
    start: u64,
    min: u64,
    max: u64,
    /// A group that has less of it tells nothing.
    telling: u64,
}

static PATCHES: Kind = Kind {
    time: Duration::from_millis(150),
    start: PATCH_BYTES_START,
    min: PATCH_BYTES_MIN,
    max: PATCH_BYTES_MAX,
    telling: PATCH_BYTES_MIN / 2,
};

/// The least is some requests of the usual size at once; the most, what no pool has as memory for one group.
static DATA: Kind =
    Kind { time: Duration::from_secs(2), start: 128 << 20, min: 16 << 20, max: 1 << 40, telling: 8 << 20 };

/// See the module's head.
#[derive(Debug)]
pub(super) struct Pace {
    kind: &'static Kind,
    bytes_max: u64,
}

impl Pace {
    pub(super) fn of_patches() -> Self {
        Self { kind: &PATCHES, bytes_max: PATCHES.start }
    }

    pub(super) fn of_data() -> Self {
        Self { kind: &DATA, bytes_max: DATA.start }
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// A group was synced that had `bytes` of this kind, and wrote `done_bytes` in all. It goes half of the way to what
    /// that one would have allowed, so that one slow flush does not decide. A sync in no time at all tells nothing.
    pub(super) fn note(&mut self, bytes: u64, done_bytes: u64, took: Duration) {
        if bytes < self.kind.telling || took.is_zero() {
            return;
        }
        let allowed = u128::from(done_bytes) * self.kind.time.as_nanos() / took.as_nanos();
        let allowed = u64::try_from(allowed).unwrap_or(u64::MAX).clamp(self.kind.min, self.kind.max);
        self.bytes_max = self.bytes_max.midpoint(allowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_bound_follows_the_disks() {
        let mut pace = Pace::of_patches();
        for (patched_mib, took_ms, bound_mib) in [
            (32, 0, 32),
            (1, 5000, 32),
            (32, 150, 32),
            (32, 1000, 20),
            (20, 10_000, 14),
            (14, 10_000, 11),
            (64, 1, 133),
            (64, 1, 194),
        ] {
            pace.note(patched_mib * MIB, patched_mib * MIB, Duration::from_millis(took_ms));
            assert_eq!(pace.bytes_max() / MIB, bound_mib, "{patched_mib} MiB in {took_ms} ms");
        }
        for _ in 0..100 {
            pace.note(64 * MIB, 64 * MIB, Duration::from_secs(60));
        }
        assert_eq!(pace.bytes_max() / MIB, PATCH_BYTES_MIN / MIB);
    }

    #[test]
    fn a_group_of_data_takes_two_seconds_to_write() {
        let mut pace = Pace::of_data();
        for _ in 0..20 {
            let group = pace.bytes_max();
            // 125 MiB a second, and a tenth of a second beside.
            let took = Duration::from_millis(group / MIB * 8 + 100);
            pace.note(group, group, took);
        }
        assert_eq!(pace.bytes_max() / MIB, 238);
        // A group with little data is all flushes.
        pace.note(MIB, MIB, Duration::from_secs(1));
        assert_eq!(pace.bytes_max() / MIB, 238);
    }
}
