//! Where a file was punched in one transaction group: ranges that neither overlap nor touch each other, however the punches did.
//! What was written there since is a piece of the layer and no hole (rules V42).

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of a file in bytes, by where they begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Punched(BTreeMap<u64, u64>);

impl Punched {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// All of them, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(from, to)| *from..*to)
    }

    /// Adds one; what it overlaps or touches becomes one with it.
    pub(super) fn insert(&mut self, mut range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((from, to)) = self.0.range(..=range.end).next_back().map(|(from, to)| (*from, *to)) {
            if to < range.start {
                break;
            }
            self.0.remove(&from);
            range = range.start.min(from)..range.end.max(to);
        }
        self.0.insert(range.start, range.end);
    }

    /// Nothing is left of them from `size` on.
    pub(super) fn truncate(&mut self, size: u64) {
        self.0.split_off(&size);
        if let Some(mut last) = self.0.last_entry() {
            let end = (*last.get()).min(size);
            last.insert(end);
        }
    }

    /// Whether one begins or ends between the borders of `range`.
    pub(super) fn has_border_within(&self, range: &Range<u64>) -> bool {
        let reaches_in = |(from, to): (&u64, &u64)| *from > range.start || (range.start < *to && *to < range.end);
        self.0.range(..range.end).next_back().is_some_and(reaches_in)
    }

    /// `range` in parts, each with whether it is punched.
    pub(super) fn split(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, bool)> {
        let before = self.0.range(..range.start).next_back();
        let mut next = before.into_iter().chain(self.0.range(range.clone())).peekable();
        let mut at = range.start;
        std::iter::from_fn(move || {
            while next.next_if(|(_, to)| **to <= at).is_some() {}
            if at >= range.end {
                return None;
            }
            let (end, is_punched) = match next.peek() {
                Some((from, to)) if **from <= at => (**to, true),
                Some((from, _)) => (**from, false),
                None => (range.end, false),
            };
            let part = at..end.min(range.end);
            at = part.end;
            Some((part, is_punched))
        })
    }
}
