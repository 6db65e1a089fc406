//! The dirty ranges of a file as the oracle knows them: where an unstable write lies that no record carries, and whether it
//! went to the pool ahead of its group.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that do not overlap, by start: (end, placed).
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, (u64, bool)>);

impl Ranges {
    pub(super) fn remove(&mut self, range: Range<u64>) {
        let hit: Vec<(u64, (u64, bool))> = self
            .0
            .range(..range.end)
            .filter(|(_, (end, _))| *end > range.start)
            .map(|(start, rest)| (*start, *rest))
            .collect();
        for (start, (end, placed)) in hit {
            self.0.remove(&start);
            if start < range.start {
                self.0.insert(start, (range.start, placed));
            }
            if end > range.end {
                self.0.insert(range.end, (end, placed));
            }
        }
    }

    pub(super) fn insert(&mut self, range: Range<u64>, placed: bool) {
        if range.is_empty() {
            return;
        }
        self.remove(range.clone());
        self.0.insert(range.start, (range.end, placed));
    }

    /// Bytes that are not in the pool.
    pub(super) fn bytes_in_memory(&self) -> u64 {
        self.0.iter().filter(|(_, (_, placed))| !placed).map(|(start, (end, _))| end - start).sum()
    }

    /// What lies in `range`, cut to it.
    pub(super) fn within(&self, range: Range<u64>) -> Vec<(Range<u64>, bool)> {
        self.0
            .iter()
            .map(|(start, (end, placed))| ((*start).max(range.start)..(*end).min(range.end), *placed))
            .filter(|(part, _)| part.start < part.end)
            .collect()
    }
}
