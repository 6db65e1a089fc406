//! How long things took. Plain atomics, written without locks and read at any time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A distribution of durations, from 1 ns to centuries, with `STEPS` steps, a power of two, in each doubling: what is
/// read is at most a `STEPS`th too large. Steps of one nanosecond come first, then those of each doubling up to 2^64
/// ns.
#[derive(Debug)]
pub struct Histogram<const STEPS: u64 = 16> {
    steps: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
}

impl<const STEPS: u64> Default for Histogram<STEPS> {
    fn default() -> Self {
        Self { steps: (0..step_count(STEPS)).map(|_| AtomicU64::new(0)).collect(), sum_ns: AtomicU64::new(0) }
    }
}

impl<const STEPS: u64> Histogram<STEPS> {
    /// Counts one that took so long; from any thread, without a lock.
    pub fn record(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.steps[step_of(STEPS, ns)].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(ns, Relaxed);
    }

    /// Adds all that another one has recorded.
    pub fn absorb(&self, other: &Self) {
        for (mine, other) in self.steps.iter().zip(&other.steps) {
            let count = other.load(Relaxed);
            if count > 0 {
                mine.fetch_add(count, Relaxed);
            }
        }
        self.sum_ns.fetch_add(other.sum_ns.load(Relaxed), Relaxed);
    }

    /// How many were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.steps.iter().map(|step| step.load(Relaxed)).sum()
    }

    /// How long all of them took together.
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns.load(Relaxed))
    }

    /// The upper end of the step in which the given part of them lies (0.5: the median); zero if there are none.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        let counts: Vec<u64> = self.steps.iter().map(|step| step.load(Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let rank = (total as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (at, count) in counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return Duration::from_nanos(upper_end(STEPS, at));
            }
        }
        Duration::ZERO
    }

    /// Counts by upper end, empty steps left out.
    #[must_use]
    pub fn steps(&self) -> Vec<(Duration, u64)> {
        let counts = self.steps.iter().enumerate().map(|(at, step)| (at, step.load(Relaxed)));
        counts
            .filter(|(_, count)| *count > 0)
            .map(|(at, count)| (Duration::from_nanos(upper_end(STEPS, at)), count))
            .collect()
    }
}

const fn step_count(steps: u64) -> usize {
    ((65 - steps.ilog2() as u64) * steps) as usize
}

const fn step_of(steps: u64, ns: u64) -> usize {
    if ns < steps {
        return ns as usize;
    }
    let doubling = (ns.ilog2() - steps.ilog2()) as u64;
    ((doubling + 1) * steps + ((ns >> doubling) & (steps - 1))) as usize
}

const fn upper_end(steps: u64, step: usize) -> u64 {
    let step = step as u64;
    if step < steps {
        return step;
    }
    let doubling = step / steps - 1;
    ((steps + step % steps) << doubling) + ((1 << doubling) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_holds_what_lies_at_its_upper_end() {
        for steps in [8, 16] {
            for ns in (0..2000).chain([4096, 90_000, 6_000_000, 1 << 40, u64::MAX / 3, u64::MAX]) {
                let end = upper_end(steps, step_of(steps, ns));
                assert!(ns <= end && end - ns <= ns / steps, "{ns} fell into the step up to {end}");
                assert!(ns == 0 || step_of(steps, ns) - step_of(steps, ns - 1) <= 1);
            }
            assert_eq!(step_of(steps, u64::MAX), step_count(steps) - 1);
        }
    }

    #[test]
    fn quantiles_of_a_device_that_is_slow_once_in_fifty() {
        let histogram: Histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), Duration::ZERO);
        for sample in 0..1000 {
            histogram.record(Duration::from_micros(if sample % 50 == 0 { 8_000 } else { 90 }));
        }
        let near = |quantile: Duration, micros: f64| (quantile.as_secs_f64() / (micros * 1e-6) - 1.0).abs() < 0.07;
        assert!(near(histogram.quantile(0.5), 90.0) && near(histogram.quantile(0.99), 8_000.0));
        assert_eq!(histogram.count(), 1000);
        assert_eq!(histogram.sum(), Duration::from_micros(20 * 8_000 + 980 * 90));
        assert_eq!(histogram.steps().iter().map(|(_, count)| count).sum::<u64>(), 1000);
        let both: Histogram = Histogram::default();
        both.record(Duration::from_micros(90));
        both.absorb(&histogram);
        assert_eq!((both.count(), both.sum()), (1001, histogram.sum() + Duration::from_micros(90)));
    }
}
