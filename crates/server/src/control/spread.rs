//! Durations as a distribution that can be subtracted: how two reports make an interval.

use serde::{Deserialize, Serialize};
use tally_base::Histogram;

/// Counts by the upper end of their step, nanoseconds, in ascending order; steps without any are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Spread(pub Vec<(u64, u64)>);

/// How long something took, nanoseconds, from a histogram with steps of a fifth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// How often it happened.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

/// Bounds of the coarse steps that graphs and metrics have: powers of two from 8 µs, below which no disk answers, to
/// 8.6 s, after which clients ask again.
pub const DOUBLINGS: std::ops::RangeInclusive<u32> = 13..=33;
/// Coarse steps: one up to each bound, and one above the last.
pub const DOUBLING_COUNT: usize = (*DOUBLINGS.end() - *DOUBLINGS.start()) as usize + 2;

/// The bounds of the coarse steps but the last one, which has none, nanoseconds.
pub fn doubling_bounds() -> impl Iterator<Item = u64> {
    DOUBLINGS.map(|power| 1 << power)
}

impl<const STEPS: u64> From<&Histogram<STEPS>> for Spread {
    fn from(histogram: &Histogram<STEPS>) -> Self {
        histogram.steps().into()
    }
}

impl From<Vec<(std::time::Duration, u64)>> for Spread {
    fn from(steps: Vec<(std::time::Duration, u64)>) -> Self {
        let ns = |end: std::time::Duration| u64::try_from(end.as_nanos()).unwrap_or(u64::MAX);
        Self(steps.into_iter().map(|(end, count)| (ns(end), count)).collect())
    }
}

impl Spread {
    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// What has come since `before`, a report of the same steps.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let old = |end: u64| {
            let found = before.0.binary_search_by_key(&end, |(end, _)| *end);
            found.ok().and_then(|at| before.0.get(at)).map_or(0, |(_, count)| *count)
        };
        let steps = self.0.iter().map(|&(end, count)| (end, count.saturating_sub(old(end))));
        Self(steps.filter(|(_, count)| *count > 0).collect())
    }

    /// Both together.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let mut steps = self.0.clone();
        steps.extend(&other.0);
        steps.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(steps.len());
        for (end, count) in steps {
            match merged.last_mut() {
                Some((last, sum)) if *last == end => *sum += count,
                _ => merged.push((end, count)),
            }
        }
        Self(merged)
    }

    /// Their mean, taken from the steps' upper ends; `None` if there are none.
    #[must_use]
    pub fn mean(&self) -> Option<u64> {
        let mean = self.sum().checked_div(u128::from(self.count()))?;
        Some(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The upper end of the step in which the given part of them lies; 0 if there are none.
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let rank = (self.count() as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (end, count) in &self.0 {
            seen += count;
            if seen >= rank {
                return *end;
            }
        }
        0
    }

    /// Counts by [`doubling_bounds`]. A fine step never crosses a bound, so this is exact.
    #[must_use]
    pub fn doublings(&self) -> [u64; DOUBLING_COUNT] {
        let mut counts = [0; DOUBLING_COUNT];
        for (end, count) in &self.0 {
            let power = end.checked_sub(1).map_or(0, |below| u64::BITS - below.leading_zeros());
            let step = power.saturating_sub(*DOUBLINGS.start()) as usize;
            counts[step.min(DOUBLING_COUNT - 1)] += count;
        }
        counts
    }

    /// Their sum, taken from the steps' upper ends, nanoseconds.
    #[must_use]
    pub fn sum(&self) -> u128 {
        self.0.iter().map(|(end, count)| u128::from(*end) * u128::from(*count)).sum()
    }

    /// Median, 99th percentile and longest.
    #[must_use]
    pub fn quantiles(&self) -> Quantiles {
        Quantiles {
            count: self.count(),
            p50_ns: self.quantile(0.5),
            p99_ns: self.quantile(0.99),
            max_ns: self.0.last().map_or(0, |(end, _)| *end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_the_difference_of_two_reports() {
        let before = Spread(vec![(90, 10), (8_000, 1)]);
        let now = Spread(vec![(90, 10), (100, 99), (8_000, 2)]);
        let interval = now.since(&before);
        assert_eq!(interval, Spread(vec![(100, 99), (8_000, 1)]));
        assert_eq!(interval.quantiles(), Quantiles { count: 100, p50_ns: 100, p99_ns: 100, max_ns: 8_000 });
        assert_eq!(interval.with(&before), now);
        assert_eq!(Spread::default().quantiles(), Quantiles::default());
    }

    #[test]
    fn coarse_steps_end_at_powers_of_two() {
        let times = [0, 8_192, 8_193, 16_384, 90_000, 1 << 33, (1 << 33) + 1, u64::MAX];
        let counts = Spread(times.map(|ns| (ns, 1)).into()).doublings();
        let expected = [(0, 2), (1, 2), (4, 1), (20, 1), (21, 2)];
        let found: Vec<_> = counts.iter().enumerate().filter(|(_, count)| **count > 0).collect();
        assert_eq!(found, expected.iter().map(|(step, count)| (*step, count)).collect::<Vec<_>>());
        assert_eq!(doubling_bounds().nth(4), Some(1 << 17), "90 us lie below it");
    }
}
