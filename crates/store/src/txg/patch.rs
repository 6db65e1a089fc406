//! How much one group may have to patch: what the disks do in a seventh of a second, by the newest syncs.
//!
//! Whoever waits for a group waits for the one that is being synced and for his own. With 150 ms for
//! each there is room for the flushes, and for whatever else the groups bring, within the second that nobody should have
//! to wait longer for. A bound in bytes alone would be a tenth of a second of one pool and half a minute of another: a
//! rotational disk reads a block of 128 KiB at random in 10 ms.

use std::time::Duration;

/// The bound before any sync was measured.
pub const PATCH_BYTES_START: u64 = 32 << 20;
/// The bound where syncs are slow: 64 blocks of the usual size, below which a group has little to merge.
pub const PATCH_BYTES_MIN: u64 = 8 << 20;
/// The bound where they are fast: beyond, a longer group merges hardly more.
pub const PATCH_BYTES_MAX: u64 = 256 << 20;

const _: () = assert!(PATCH_BYTES_MIN <= PATCH_BYTES_START && PATCH_BYTES_START <= PATCH_BYTES_MAX);

/// How long the sync of a group should take for what it patches.
const SYNC_TIME: Duration = Duration::from_millis(150);
/// A group that patches less tells nothing.
const TELLING_BYTES: u64 = PATCH_BYTES_MIN / 2;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Pace {
    patch_bytes_max: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { patch_bytes_max: PATCH_BYTES_START }
    }
}

impl Pace {
    pub(super) fn patch_bytes_max(&self) -> u64 {
        self.patch_bytes_max
    }

    /// A group was synced. It goes half of the way to what that one would have allowed, so that one slow flush does not
    /// decide. A sync in no time at all tells nothing.
    pub(super) fn note(&mut self, patch_bytes: u64, dirty_bytes: u64, took: Duration) {
        if patch_bytes < TELLING_BYTES || took.is_zero() {
            return;
        }
        let done = u128::from(patch_bytes.saturating_add(dirty_bytes));
        let allowed = done * SYNC_TIME.as_nanos() / took.as_nanos();
        let allowed = u64::try_from(allowed).unwrap_or(u64::MAX).clamp(PATCH_BYTES_MIN, PATCH_BYTES_MAX);
        self.patch_bytes_max = self.patch_bytes_max.midpoint(allowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_bound_follows_the_disks() {
        let mut pace = Pace::default();
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
            pace.note(patched_mib * MIB, 0, Duration::from_millis(took_ms));
            assert_eq!(pace.patch_bytes_max() / MIB, bound_mib, "{patched_mib} MiB in {took_ms} ms");
        }
        for _ in 0..100 {
            pace.note(64 * MIB, 0, Duration::from_secs(60));
        }
        assert_eq!(pace.patch_bytes_max() / MIB, PATCH_BYTES_MIN / MIB);
    }
}
