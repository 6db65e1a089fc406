//! What chance decides about one power cut: when, and what of the caches survives. The run's seed and the cut's
//! number repeat it.

use tally_bench::random::Random;

/// One power cut's chances.
pub(super) struct Draw {
    random: Random,
    /// Of eight sectors that are drawn one by one, so many survive on average.
    kept_of_eight: usize,
}

impl Draw {
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let mut random = Random::new(seed, number);
        let kept_of_eight = 1 + random.below(7);
        Self { random, kept_of_eight }
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    /// Which of a write's sectors survive. Disks that write in order lose the end of a write, others lose anything;
    /// and nothing is as likely to be missed by either as a whole write.
    pub(super) fn kept(&mut self, sectors: usize) -> Vec<bool> {
        match self.below(4) {
            0 => vec![false; sectors],
            1 => vec![true; sectors],
            2 => {
                let first = self.below(sectors + 1);
                (0..sectors).map(|sector| sector < first).collect()
            }
            _ => (0..sectors).map(|_| self.below(8) < self.kept_of_eight).collect(),
        }
    }
}
