//! What the lane has done, and how long its device took for it. Guarded by the lane's `state`, and nothing rests on it.

use std::collections::VecDeque;

use tally_base::{Histogram, Lsn, Timing};

use super::drive::Cost;
use crate::frame::FrameHeader;
use crate::stats::LaneStats;

/// Frames from here on tell how fast a leg writes, and shorter ones how long it takes for a write of any length.
const LONG_FRAME_BYTES: u64 = 64 << 10;
/// Frames whose cost is remembered: more than can land between two looks for waiters.
const COSTS_MAX: usize = 8;

/// Counters and times.
pub(super) struct Books {
    pub(super) stats: LaneStats,
    pub(super) latency: Histogram,
    pub(super) timing: Timing,
    /// Of the newest frames, oldest first.
    costs: VecDeque<Cost>,
}

impl Books {
    /// Of a lane that has done nothing.
    pub(super) fn new() -> Self {
        Self {
            stats: LaneStats::default(),
            latency: Histogram::default(),
            timing: Timing::new(LONG_FRAME_BYTES),
            costs: VecDeque::with_capacity(COSTS_MAX),
        }
    }

    /// A frame has landed.
    pub(super) fn note(&mut self, header: &FrameHeader, cost: &Cost) {
        self.latency.record(cost.latency);
        self.timing.note(cost.frame_bytes, cost.latency);
        let stats = &mut self.stats;
        if header.is_seal() {
            stats.seal_count += 1;
        } else {
            stats.frame_count += 1;
            stats.frames_by_size.count(cost.frame_bytes);
            if self.costs.len() == COSTS_MAX {
                self.costs.pop_front();
            }
            self.costs.push_back(*cost);
        }
        stats.record_count += u64::from(header.record_count);
        stats.body_bytes += cost.body_bytes;
        stats.frame_bytes += cost.frame_bytes;
        self.invariant();
    }

    /// Every frame that has landed is in each of the counts, and costs are remembered of no more than [`COSTS_MAX`]. Looked at
    /// when one has: appends do not change the books.
    fn invariant(&self) {
        let (stats, by_size) = (&self.stats, &self.stats.frames_by_size);
        debug_assert!(self.latency.count() == stats.frame_count + stats.seal_count, "each frame took its time");
        debug_assert!(by_size.small + by_size.medium + by_size.large == stats.frame_count, "each has one size");
        debug_assert!(stats.body_bytes <= stats.frame_bytes, "bodies lie in frames");
        debug_assert!(self.costs.len() as u64 == stats.frame_count.min(COSTS_MAX as u64), "the newest are remembered");
    }

    /// The counters, with the quantiles of the device's times.
    pub(super) fn stats(&self) -> LaneStats {
        let ns = |quantile| u64::try_from(self.latency.quantile(quantile).as_nanos()).unwrap_or(u64::MAX);
        LaneStats { write_ns_p50: ns(0.5), write_ns_p99: ns(0.99), ..self.stats }
    }

    /// What the frame with record `lsn` took. Waiters are called as soon as it has landed, so it is among the newest;
    /// if somebody was called later than that, the newest stands for it.
    pub(super) fn cost_of(&self, lsn: Lsn) -> Cost {
        let holding = self.costs.iter().filter(|cost| lsn < cost.lsn_end).min_by_key(|cost| cost.lsn_end);
        holding.or(self.costs.back()).copied().unwrap_or_default()
    }
}
