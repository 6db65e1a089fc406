//! How long the longest free run of each region may be: a tree of maxima above all regions, by which the next region
//! that can hold a run is found in a dozen steps instead of one for each region.
//!
//! ```text
//!                 [256]                1: the largest below
//!            ┌──────┴──────┐
//!          [ 9 ]         [256]         2, 3
//!         ┌──┴──┐       ┌──┴──┐
//!        [4]   [9]    [256]  [0]       a leaf for each region, then zeroes up to a power of two
//! ```
//!
//! A leaf is an upper bound: taking the longest run of a region leaves its leaf as it was, until somebody looks for
//! such a run there in vain. So each run that is taken sends at most one later search astray, and nobody counts anew.

/// Sectors of the longest free run, at most. As large as a region may be.
pub(super) type Sectors = u16;

/// See the module's head.
pub(super) struct LongestRuns {
    /// Node `n` is above `2 n` and `2 n + 1`; node 0 is not used.
    nodes: Vec<Sectors>,
    leaves: usize,
}

impl LongestRuns {
    pub(super) fn new(longest: impl ExactSizeIterator<Item = Sectors>) -> Self {
        let leaves = longest.len().next_power_of_two();
        let mut nodes = vec![0; 2 * leaves];
        for (leaf, longest) in nodes[leaves..].iter_mut().zip(longest) {
            *leaf = longest;
        }
        let mut runs = Self { nodes, leaves };
        (1..leaves).rev().for_each(|node| runs.refresh(node));
        runs
    }

    fn refresh(&mut self, node: usize) {
        self.nodes[node] = self.nodes[2 * node].max(self.nodes[2 * node + 1]);
    }

    /// No region has a longer run.
    pub(super) fn longest(&self) -> Sectors {
        self.nodes[1]
    }

    pub(super) fn set(&mut self, region: usize, longest: Sectors) {
        let mut node = self.leaves + region;
        self.nodes[node] = longest;
        while node > 1 {
            node /= 2;
            let before = self.nodes[node];
            self.refresh(node);
            if self.nodes[node] == before {
                return;
            }
        }
    }

    /// The first region from `from` on that may have a run of `want` sectors.
    pub(super) fn next(&self, from: usize, want: Sectors) -> Option<usize> {
        if from >= self.leaves {
            return None;
        }
        let mut node = self.leaves + from;
        // Up, until something to the right may have one; then down, to the leftmost leaf.
        while self.nodes[node] < want {
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
        while node < self.leaves {
            node *= 2;
            node += usize::from(self.nodes[node] < want);
        }
        Some(node - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_look_at_every_region_finds(
            first in prop::collection::vec(0_u16..6, 1..40),
            changes in prop::collection::vec((any::<usize>(), 0_u16..6), 0..40),
        ) {
            let mut plain = first;
            let mut runs = LongestRuns::new(plain.iter().copied());
            for (at, longest) in std::iter::once((0, plain[0])).chain(changes) {
                let at = at % plain.len();
                plain[at] = longest;
                runs.set(at, longest);
                prop_assert_eq!(runs.longest(), *plain.iter().max().unwrap());
                for want in 1..7 {
                    for from in 0..plain.len() + 2 {
                        let found = (from..plain.len()).find(|region| plain[*region] >= want);
                        prop_assert_eq!(runs.next(from, want), found);
                    }
                }
            }
        }
    }
}
