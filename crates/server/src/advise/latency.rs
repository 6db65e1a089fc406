//! How long a device takes for a durable write, by the write's length.

/// Measured times of one length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// Length of the writes, bytes.
    pub bytes: u64,
    /// Times, nanoseconds, in ascending order.
    pub ns: Vec<u64>,
}

impl Samples {
    /// Puts times in order.
    #[must_use]
    pub fn new(bytes: u64, mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        Self { bytes, ns }
    }

    /// The time below which the given part of the writes stayed; 0 if there are none.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn quantile(&self, part: f64) -> u64 {
        let last = self.ns.len().saturating_sub(1);
        let place = (self.ns.len() as f64 * part) as usize;
        self.ns.get(place.min(last)).copied().unwrap_or(0)
    }
}

/// A device: samples by length, which are drawn from evenly.
///
/// Draws are those of a golden-ratio sequence and not random, so that a prediction repeats, and few draws already have
/// the mean of all.
#[derive(Clone, Debug, Default)]
pub struct Device {
    samples: Vec<Samples>,
    drawn: u64,
}

impl Device {
    /// One with these samples, those without any time left out.
    #[must_use]
    pub fn new(mut samples: Vec<Samples>) -> Self {
        samples.retain(|of_length| !of_length.ns.is_empty());
        samples.sort_by_key(|of_length| of_length.bytes);
        Self { samples, drawn: 0 }
    }

    /// One that takes no time.
    #[must_use]
    pub fn instant() -> Self {
        Self::new(vec![Samples::new(4096, vec![0])])
    }

    /// What was measured.
    #[must_use]
    pub fn samples(&self) -> &[Samples] {
        &self.samples
    }

    /// How long the next write of so many bytes takes, nanoseconds: between two measured lengths in proportion, beyond
    /// the longest at its rate.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn draw(&mut self, bytes: u64) -> u64 {
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        self.drawn += 1;
        let part = (self.drawn as f64 * GOLDEN).fract();
        let longer = self.samples.partition_point(|of_length| of_length.bytes < bytes);
        let (below, above) = match (longer.checked_sub(1), self.samples.get(longer)) {
            (None, None) => return 0,
            (None, Some(shortest)) => return shortest.quantile(part),
            (Some(below), None) => {
                let longest = &self.samples[below];
                return (longest.quantile(part) as f64 * bytes as f64 / longest.bytes.max(1) as f64) as u64;
            }
            (Some(below), Some(above)) => (&self.samples[below], above),
        };
        let share = (bytes - below.bytes) as f64 / (above.bytes - below.bytes) as f64;
        let (low, high) = (below.quantile(part) as f64, above.quantile(part) as f64);
        (low + (high - low) * share).max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_in_between_take_times_in_between() {
        let mut device = Device::new(vec![Samples::new(4096, vec![100; 5]), Samples::new(12_288, vec![200; 5])]);
        assert_eq!([4096, 8192, 12_288, 24_576].map(|bytes| device.draw(bytes)), [100, 150, 200, 400]);
        assert_eq!(device.draw(512), 100);
        assert_eq!(Device::default().draw(4096), 0);
    }

    #[test]
    fn few_draws_have_the_mean_of_all() {
        let mut device = Device::new(vec![Samples::new(4096, (1..=1000).collect())]);
        let mean = (0..100).map(|_| device.draw(4096)).sum::<u64>() / 100;
        assert!((480..=520).contains(&mean), "{mean}");
    }
}
