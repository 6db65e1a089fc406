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

/// Device writes above this are not made in a thread that has other requests to serve (rules P1).
const QUICK_NS_MAX: u64 = 200_000;
/// One sample counts for at most this in the judgement, so that a single outlier does not send everybody through
/// the lane thread, but two in a row do.
const PACE_SAMPLE_NS_MAX: u64 = 4 * QUICK_NS_MAX;
/// Weight of the newest sample in the means.
const EWMA_SHIFT: u32 = 3;
/// Weight of the newest sample in the share of slow writes: about the last 128 count.
const SLOW_SHIFT: u32 = 7;
/// The share of slow writes, in units of 2^-16, above which the 99th percentile of the last hundred or so is slow.
const SLOW_SHARE_MAX: u32 = 65_536 / 50;

/// Buckets: four per power of two, so that a percentile is off by at most a quarter.
const BUCKETS: usize = 64 * 4;

/// Distribution of the device's write latencies.
pub(crate) struct Latency {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    max_ns: u64,
    ewma_ns: u64,
    /// The same mean over clamped samples: what [`Latency::is_quick`] goes by.
    pace_ns: u64,
    slow_share: u32,
}

impl Default for Latency {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), count: 0, max_ns: 0, ewma_ns: 0, pace_ns: 0, slow_share: 0 }
    }
}

impl Latency {
    /// Takes one sample in.
    pub(crate) fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)] += 1;
        let is_first = self.count == 0;
        let mean = |old: u64, new: u64| if is_first { new } else { old - (old >> EWMA_SHIFT) + (new >> EWMA_SHIFT) };
        self.ewma_ns = mean(self.ewma_ns, ns);
        self.pace_ns = mean(self.pace_ns, ns.min(PACE_SAMPLE_NS_MAX));
        let slow = if ns > QUICK_NS_MAX { 65_536 >> SLOW_SHIFT } else { 0 };
        self.slow_share = self.slow_share - (self.slow_share >> SLOW_SHIFT) + slow;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Whether the device has lately been quick enough to write in the thread that waits.
    pub(crate) fn is_quick(&self) -> bool {
        self.pace_ns < QUICK_NS_MAX && self.slow_share <= SLOW_SHARE_MAX
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

    #[test]
    fn a_device_is_quick_until_it_is_slow_and_again_once_it_recovers() {
        let mut latency = Latency::default();
        assert!(latency.is_quick());
        for _ in 0..100 {
            latency.record(Duration::from_micros(90));
        }
        latency.record(Duration::from_millis(8));
        assert!(latency.is_quick(), "one outlier is none of the device's habits");
        for _ in 0..8 {
            latency.record(Duration::from_millis(8));
        }
        assert!(!latency.is_quick());
        for _ in 0..1000 {
            latency.record(Duration::from_micros(90));
        }
        assert!(latency.is_quick());
    }
}
