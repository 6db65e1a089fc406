//! What the server counts: calls, errors and where the time of each procedure goes. Plain atomics, written
//! without locks and read at any time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::v3::{PROCEDURE_COUNT, Procedure};

/// Steps of a histogram: four in each doubling, from 1 ns to centuries.
const BUCKET_COUNT: usize = 256;

/// How long something took, in steps of a fifth or less.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: (0..BUCKET_COUNT).map(|_| AtomicU64::new(0)).collect(), sum_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// One more.
    pub fn record(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket_of(ns)) {
            bucket.fetch_add(1, Relaxed);
        }
        self.sum_ns.fetch_add(ns, Relaxed);
    }

    /// How many were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns.load(Relaxed))
    }

    /// The upper end of the step in which the given part of them lies (0.5: the median); zero if there are none.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let rank = (total as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (at, count) in counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return Duration::from_nanos(upper_end(at));
            }
        }
        Duration::ZERO
    }

    /// Counts by upper end, empty steps left out.
    #[must_use]
    pub fn steps(&self) -> Vec<(Duration, u64)> {
        let counts = self.buckets.iter().enumerate().map(|(at, bucket)| (at, bucket.load(Relaxed)));
        counts.filter(|(_, count)| *count > 0).map(|(at, count)| (Duration::from_nanos(upper_end(at)), count)).collect()
    }
}

fn bucket_of(ns: u64) -> usize {
    let ns = ns.max(1);
    let doubling = ns.ilog2();
    let quarter = if doubling >= 2 { (ns >> (doubling - 2)) & 3 } else { (ns << (2 - doubling)) & 3 };
    (doubling as usize) * 4 + quarter as usize
}

fn upper_end(bucket: usize) -> u64 {
    let (doubling, quarter) = (bucket / 4, bucket as u64 % 4);
    let base = 1_u128 << doubling;
    u64::try_from(base + (base * u128::from(quarter + 1)).div_ceil(4) - 1).unwrap_or(u64::MAX).max(1)
}

/// One procedure.
#[derive(Debug, Default)]
pub struct ProcedureStats {
    /// Calls that were carried out.
    pub calls: AtomicU64,
    /// Those that did not answer OK.
    pub errors: AtomicU64,
    /// From the start of the work to its outcome, without waiting.
    pub execute: Histogram,
    /// Until what the reply rests on was durable.
    pub wait: Histogram,
    /// From there until the socket had the reply.
    pub send: Histogram,
}

/// The whole server.
#[derive(Debug)]
pub struct Stats {
    procedures: Box<[ProcedureStats]>,
    /// MOUNT, all procedures together.
    pub mount: ProcedureStats,
    /// Modifying requests, from their last byte read to the reply handed to the socket, less the time that the
    /// working thread itself spent in the device.
    pub own: Histogram,
    /// The same with the device.
    pub whole: Histogram,
    /// Calls of programs, versions and procedures that we lack, garbage, and bad credentials.
    pub refused: AtomicU64,
    /// Retransmissions that were answered from memory or attached.
    pub retransmissions: AtomicU64,
    /// Requests run again after the file system refused admission.
    pub throttled: AtomicU64,
    /// Operations that panicked.
    pub panics: AtomicU64,
    /// Connections that are open.
    pub connections: AtomicU64,
    /// Connections refused because there were too many.
    pub connections_refused: AtomicU64,
    /// Replies that waited in the thread that did the work.
    pub driven: AtomicU64,
    /// Replies that were sent by a callback.
    pub handed_over: AtomicU64,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            procedures: (0..PROCEDURE_COUNT).map(|_| ProcedureStats::default()).collect(),
            mount: ProcedureStats::default(),
            own: Histogram::default(),
            whole: Histogram::default(),
            refused: AtomicU64::default(),
            retransmissions: AtomicU64::default(),
            throttled: AtomicU64::default(),
            panics: AtomicU64::default(),
            connections: AtomicU64::default(),
            connections_refused: AtomicU64::default(),
            driven: AtomicU64::default(),
            handed_over: AtomicU64::default(),
        }
    }
}

impl Stats {
    /// One procedure of NFSv3.
    #[must_use]
    pub fn procedure(&self, procedure: Procedure) -> &ProcedureStats {
        &self.procedures[procedure.number() as usize]
    }
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_in_its_step() {
        for shift in 0..64 {
            for ns in [1_u64 << shift, (1 << shift) + 1, (1_u64 << shift).saturating_mul(2) - 1] {
                let bucket = bucket_of(ns);
                assert!(bucket < BUCKET_COUNT);
                assert!(upper_end(bucket) >= ns, "{ns} above step {bucket}");
                assert!(
                    upper_end(bucket) <= ns.saturating_add(ns / 4).saturating_add(1),
                    "{ns} far below step {bucket}"
                );
            }
        }
    }

    #[test]
    fn quantiles_are_near() {
        let histogram = Histogram::default();
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        let median = histogram.quantile(0.5).as_micros();
        assert!((500..=625).contains(&median), "{median}");
        assert_eq!(histogram.count(), 1000);
        assert_eq!(Histogram::default().quantile(0.5), Duration::ZERO);
    }
}
