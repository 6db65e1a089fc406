//! What a lane has done, and how fast its device answers.

/// Counters and latencies since the lane was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneStats {
    /// Frames with records that became durable: one durable device write each, on every leg.
    pub frame_count: u64,
    /// The same by size.
    pub frames_by_size: BySize,
    /// Frames without records (rules F27), counted apart.
    pub seal_count: u64,
    /// Records in those frames.
    pub record_count: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Bytes written to each leg, headers, padding and seals included.
    pub frame_bytes: u64,
    /// Legs that were dropped.
    pub leg_failure_count: u64,
    /// Records that wait for a frame now.
    pub pending_count: u64,
    /// Frames on their way now.
    pub in_flight: u32,
    /// Median of the device write.
    pub write_ns_p50: u64,
    /// 99th percentile of the device write.
    pub write_ns_p99: u64,
}

/// Writes in three classes of size, those of `zilstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BySize {
    /// Up to 4 KiB.
    pub small: u64,
    /// Above, below 32 KiB.
    pub medium: u64,
    /// 32 KiB and more.
    pub large: u64,
}

impl BySize {
    /// One more of so many bytes.
    pub fn count(&mut self, bytes: u64) {
        *match bytes {
            0..=4_096 => &mut self.small,
            4_097..32_768 => &mut self.medium,
            _ => &mut self.large,
        } += 1;
    }
}

impl LaneStats {
    /// Mean number of records in a frame.
    #[must_use]
    pub fn records_per_frame(&self) -> f64 {
        if self.frame_count == 0 { 0.0 } else { self.record_count as f64 / self.frame_count as f64 }
    }
}
