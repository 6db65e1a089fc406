//! How long a device, or a whole procedure, takes for so many bytes: a time that each request costs whatever it brings,
//! and a rate.
//!
//! Measured from the newest requests, short and long ones apart, since one kind says nothing of the other: short ones
//! give the time, long ones what each byte adds. Were both in one row, a hundred short requests would push out the long
//! ones that come now and then; and a line of least squares through short ones alone gives a rate that is noise. Both
//! are medians, so that one request that hung decides nothing.

use std::collections::VecDeque;
use std::time::Duration;

/// Requests of each kind that are remembered.
const NEWEST_MAX: usize = 50;

/// The newest requests of one sort.
#[derive(Debug)]
pub struct Timing {
    long_from_bytes: u64,
    short: VecDeque<Sample>,
    long: VecDeque<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    bytes: u64,
    ns: u64,
}

/// What a request costs here, in the two parts of which its time is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// For each request, whatever it brings.
    pub fixed: Duration,
    /// Beyond that; `None` while there was no long request.
    pub bytes_per_second: Option<u64>,
}

impl Timing {
    /// Requests of so many bytes are long.
    #[must_use]
    pub fn new(long_from_bytes: u64) -> Self {
        Self { long_from_bytes, short: VecDeque::new(), long: VecDeque::new() }
    }

    /// A request was carried out; the oldest of its sort is forgotten for it.
    pub fn note(&mut self, bytes: u64, took: Duration) {
        let newest = if bytes < self.long_from_bytes { &mut self.short } else { &mut self.long };
        if newest.len() == NEWEST_MAX {
            newest.pop_front();
        }
        newest.push_back(Sample { bytes, ns: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) });
    }

    /// What they say; `None` before the first.
    #[must_use]
    pub fn speed(&self) -> Option<Speed> {
        // Without short ones the quickest long one bounds what each of them costs.
        let fixed_ns =
            median(self.short.iter().map(|short| short.ns)).or_else(|| self.long.iter().map(|long| long.ns).min())?;
        // And then no part of their time is known to be that.
        let known_ns = if self.short.is_empty() { 0 } else { fixed_ns };
        let rate = |long: &Sample| {
            let ns = u128::from(long.ns.saturating_sub(known_ns).max(1));
            u64::try_from(u128::from(long.bytes) * 1_000_000_000 / ns).unwrap_or(u64::MAX)
        };
        let bytes_per_second = median(self.long.iter().map(rate));
        Some(Speed { fixed: Duration::from_nanos(fixed_ns), bytes_per_second })
    }
}

impl Speed {
    /// How many bytes one request may bring if it is to take so long.
    #[must_use]
    pub fn bytes_in(&self, time: Duration) -> u64 {
        let Some(rate) = self.bytes_per_second else { return u64::MAX };
        let bytes = time.saturating_sub(self.fixed).as_nanos() * u128::from(rate) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    /// A device of 80 µs a request and 500 MB/s.
    fn took(bytes: u64) -> Duration {
        US(80) + Duration::from_nanos(bytes * 2)
    }

    #[test]
    fn short_requests_give_the_time_and_long_ones_the_rate() {
        let mut timing = Timing::new(64 << 10);
        assert_eq!(timing.speed(), None);
        timing.note(0, took(0));
        assert_eq!(timing.speed(), Some(Speed { fixed: US(80), bytes_per_second: None }));
        assert_eq!(timing.speed().map(|speed| speed.bytes_in(US(90))), Some(u64::MAX), "nobody knows yet");
        timing.note(1_000_000, took(1_000_000));
        let speed = timing.speed().expect("two requests");
        assert_eq!(speed, Speed { fixed: US(80), bytes_per_second: Some(500_000_000) });
        assert_eq!((speed.bytes_in(US(1080)), speed.bytes_in(US(50))), (500_000, 0));
    }

    #[test]
    fn neither_a_request_that_hung_nor_many_short_ones_change_what_long_ones_said() {
        let mut timing = Timing::new(64 << 10);
        for at in 0..9 {
            timing.note(1_000_000, took(1_000_000));
            timing.note(0, if at % 3 == 0 { Duration::from_secs(30) } else { US(80) });
        }
        timing.note(2_000_000, Duration::from_secs(30));
        (0..1000).for_each(|_| timing.note(4096, US(80)));
        assert_eq!(timing.speed(), Some(Speed { fixed: US(80), bytes_per_second: Some(500_000_000) }));
    }

    #[test]
    fn long_requests_alone_bound_the_time() {
        let mut timing = Timing::new(1);
        timing.note(1000, Duration::from_micros(2000));
        timing.note(5000, Duration::from_micros(1000));
        let speed = timing.speed().expect("two requests");
        assert_eq!(speed.fixed, US(1000));
        // Not more than what they have shown as a whole.
        assert_eq!(speed.bytes_per_second, Some(5_000_000));
    }
}
