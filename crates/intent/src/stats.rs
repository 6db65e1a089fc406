//! What a lane has done, and how fast its device answers.

use std::time::Duration;

/// Counters and latencies since the lane was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneStats {
    /// Frames with records that became durable: one durable device write each, on every leg.
    pub frame_count: u64,
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
    /// Frames on their way now.
    pub in_flight: u32,
    /// Median of the device write.
    pub write_ns_p50: u64,
    /// 99th percentile of the device write.
    pub write_ns_p99: u64,
    /// The slowest device write.
    pub write_ns_max: u64,
    /// Exponentially weighted mean of the device write, over about eight.
    pub write_ns_ewma: u64,
}

impl LaneStats {
    /// Mean number of records in a frame.
    #[must_use]
    pub fn records_per_frame(&self) -> f64 {
        if self.frame_count == 0 { 0.0 } else { self.record_count as f64 / self.frame_count as f64 }
    }
}

/// Weight of the newest sample in the mean.
const EWMA_SHIFT: u32 = 3;

/// Buckets: four per power of two, so that a percentile is off by at most a quarter.
const BUCKETS: usize = 64 * 4;

/// Distribution of the device's write latencies.
pub(crate) struct Latency {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    max_ns: u64,
    ewma_ns: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), count: 0, max_ns: 0, ewma_ns: 0 }
    }
}

impl Latency {
    /// Takes one sample in.
    pub(crate) fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)] += 1;
        self.ewma_ns = match self.count {
            0 => ns,
            _ => self.ewma_ns - (self.ewma_ns >> EWMA_SHIFT) + (ns >> EWMA_SHIFT),
        };
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Fills in the latency fields.
    pub(crate) fn report(&self, stats: &mut LaneStats) {
        stats.write_ns_p50 = self.percentile(50);
        stats.write_ns_p99 = self.percentile(99);
        stats.write_ns_max = self.max_ns;
        stats.write_ns_ewma = self.ewma_ns;
    }

    fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank && seen > 0 {
                return bucket_top(index).min(self.max_ns);
            }
        }
        0
    }
}

fn bucket(ns: u64) -> usize {
    if ns < 4 {
        return ns as usize;
    }
    let power = 63 - ns.leading_zeros();
    let quarter = (ns >> (power - 2)) & 3;
    (power as usize - 1) * 4 + quarter as usize
}

fn bucket_top(index: usize) -> u64 {
    if index < 4 {
        return index as u64;
    }
    let power = index / 4 + 1;
    let quarter = (index % 4) as u64;
    let width = 1_u64 << (power - 2);
    (4 + quarter) * width + (width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_lies_at_its_top() {
        for ns in (0..200).chain([1_000, 90_000, 6_000_000, 1 << 40, u64::MAX]) {
            let top = bucket_top(bucket(ns));
            assert!(ns <= top && top - ns <= ns / 4, "{ns} fell into the bucket up to {top}");
        }
    }

    #[test]
    fn percentiles_of_a_device_that_is_slow_once_in_fifty() {
        let mut latency = Latency::default();
        for sample in 0..1000_u64 {
            latency.record(Duration::from_micros(if sample % 50 == 0 { 8_000 } else { 90 }));
        }
        let mut stats = LaneStats::default();
        latency.report(&mut stats);
        assert!((90_000..115_000).contains(&stats.write_ns_p50), "{stats:?}");
        assert!(stats.write_ns_p99 >= 8_000_000, "{stats:?}");
        assert_eq!(stats.write_ns_max, 8_000_000);
    }
}
