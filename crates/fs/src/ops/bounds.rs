//! How much goes to the log, and how much of a file stays in memory for that.
//!
//! | bound | of what | what is beyond |
//! |---|---|---|
//! | [`Filesystem::inline_max`] | one request that is to be stable; all that a COMMIT finds due | waits for the group |
//! | [`Filesystem::gather_max`] | what a file has in memory and in no record, in the open group | full blocks are placed ahead: it is a placed file |
//! | [`Filesystem::part_max`] | one part of a COMMIT | follows once that part is durable |
//!
//! The first two go by `logbias`. They change from one request to the next, with the property, the measurements of
//! [`Pool::break_even_bytes`](tally_store::pool::Pool::break_even_bytes) or the end of a lane: whoever goes by one looks
//! at it once and may be wrong about what others did, never about what is promised.

use tally_intent::Lane;
use tally_store::properties::{Effective, LogBias};
use tally_vfs::ObjectRef;

use crate::filesystem::Filesystem;
use crate::object::ObjectState;
use crate::record::RECORD_OVERHEAD_MAX;

/// With `logbias=throughput`, more than this of one request goes to the pool and waits for its transaction group.
const THROUGHPUT_INLINE_MAX: u64 = 32 << 10;

/// Of dirty memory, the part that one file may fill while it waits for its COMMIT: beyond, a group would be closed by
/// what was not written yet, and have all of it to write at once (rules F5).
const GATHERED_SHARE: u64 = 8;

/// As much as the longest WRITE brings: whoever stands behind a part of a COMMIT waits no longer than behind that, or,
/// where a turn of the log's disk is longer, for two turns.
const PART_BYTES: u64 = tally_vfs::WRITE_BYTES_MAX as u64;

/// Longest record while the log has no disk: nothing but memory holds it.
const UNLOGGED_RECORD_MAX: usize = 1 << 20;

/// The bounds in force, for whoever checks what goes by them.
#[derive(Clone, Copy, Debug)]
pub struct LogBounds {
    /// Bytes that one request, or all of a COMMIT, may put into the log.
    pub request_bytes: u64,
    /// Bytes of a file that stay in memory for its COMMIT, in one group.
    pub gathered_bytes: u64,
    /// Bytes of a part of a COMMIT.
    pub part_bytes: u64,
}

impl Filesystem {
    /// The bounds, as they are now.
    #[must_use]
    pub fn log_bounds(&self) -> LogBounds {
        LogBounds {
            request_bytes: self.inline_max(),
            gathered_bytes: self.gather_max(),
            part_bytes: self.part_max() as u64,
        }
    }

    /// The bounds for a COMMIT of this file, as they are now: what was logged of it in parts is part of the whole.
    #[must_use]
    pub fn log_bounds_of_commit(&self, object: ObjectRef) -> LogBounds {
        let parts_bytes = self.objects.look(object.id, |state| state.parts_bytes);
        let bounds = self.log_bounds();
        LogBounds { request_bytes: bounds.request_bytes.saturating_sub(parts_bytes), ..bounds }
    }

    /// Bytes of data that one request, or one file at a COMMIT, may put into the log (rules F5), by `logbias`; nothing
    /// while the log has no disk.
    pub(super) fn inline_max(&self) -> u64 {
        let lane = self.lane().filter(|lane| !lane.has_ended());
        lane.map_or(0, |lane| self.inline_max_of(&lane, &self.dataset.effective()))
    }

    /// The same for whoever has the lane and the properties.
    pub(super) fn inline_max_of(&self, lane: &Lane, effective: &Effective) -> u64 {
        let share = lane.share_bytes();
        match effective.logbias {
            LogBias::Latency => share,
            LogBias::Throughput => share.min(THROUGHPUT_INLINE_MAX),
            LogBias::Auto => self.pool.break_even_bytes(lane).max(u64::from(effective.recordsize)).min(share),
        }
    }

    /// Most bytes of a file that stay in memory for a COMMIT to log, in one group.
    fn gather_max(&self) -> u64 {
        if self.logs_now() { self.gather_max_of(self.inline_max()) } else { 0 }
    }

    /// The same for whoever has looked at what goes to the log.
    pub(super) fn gather_max_of(&self, inline_max: u64) -> u64 {
        inline_max.min(self.pool.txgs.dirty_bytes_max() / GATHERED_SHARE)
    }

    /// Whether so many more bytes of a file, which need not be stable, stay in memory.
    pub(super) fn may_gather(&self, state: &ObjectState, length: u64) -> bool {
        self.gathers(state, length, self.gather_max())
    }

    /// Whether they do where no more than `gather_max` does.
    pub(super) fn gathers(&self, state: &ObjectState, length: u64, gather_max: u64) -> bool {
        let gathered = state.unlogged_bytes(self.pool.txgs.open());
        !state.is_placed() && gathered.saturating_add(length) <= gather_max
    }

    /// Bytes of a COMMIT that go to the log before others come: each part costs a turn of the log's disk. No more than a
    /// record, so that it is one frame.
    pub(super) fn part_max(&self) -> usize {
        let turn_bytes = self.lane().map_or(0, |lane| self.pool.turn_bytes(&lane));
        self.record_data_max().min(usize::try_from(turn_bytes.max(PART_BYTES)).unwrap_or(usize::MAX))
    }

    /// Data bytes that fit in one record.
    pub(crate) fn record_data_max(&self) -> usize {
        let lane = self.lane();
        lane.map_or(UNLOGGED_RECORD_MAX - RECORD_OVERHEAD_MAX, |lane| record_data_max_of(&lane))
    }
}

/// Data bytes that fit in one record of this lane.
pub(super) fn record_data_max_of(lane: &Lane) -> usize {
    lane.geometry().record_bytes_max().saturating_sub(RECORD_OVERHEAD_MAX)
}
