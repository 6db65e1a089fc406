//! Which groups a leg has missed: a bounded list of ranges.
//!
//! A leg that was away for a minute lacks what was written in that minute, and a copy of that is enough. The list says too
//! much rather than too little: a range more than there is room for makes one of the two that lie closest, with what lies
//! between them, so that some blocks are copied in vain.
//!
//! Of a leg that is left behind an empty list says that nothing is known of what it lacks: it is copied whole. A leg in use
//! has an empty one too, but where its copy lacked something: then the list says in which groups others may not leave on
//! the strength of it.

use tally_base::Txg;
use tally_base::codec::{Malformed, Put, Reader};

/// Ranges that are kept of one leg: of 128 legs they take half of a label.
pub const MISSED_RANGES_MAX: usize = 16;

/// The first group of every pool.
const FIRST: Txg = Txg(1);

/// The end of what goes on.
const END: Txg = Txg(u64::MAX);

/// Groups from one to another, both of them included. What goes on has the largest number as its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxgRange {
    /// The first group, included.
    pub from: Txg,
    /// The last group, included; the largest number while it goes on.
    pub to: Txg,
}

/// See the head of this module. In ascending order, with at least one group between two ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissedGroups(Vec<TxgRange>);

impl MissedGroups {
    /// The ranges, in ascending order.
    #[must_use]
    pub fn ranges(&self) -> &[TxgRange] {
        &self.0
    }

    /// Notes that these groups were missed, too.
    pub fn note(&mut self, missed: TxgRange) {
        if missed.from > missed.to {
            return;
        }
        self.0.push(missed);
        self.0.sort_by_key(|range| range.from);
        let mut joined: Vec<TxgRange> = Vec::with_capacity(self.0.len());
        for range in self.0.drain(..) {
            match joined.last_mut() {
                Some(last) if range.from.0 <= last.to.0.saturating_add(1) => last.to = last.to.max(range.to),
                _ => joined.push(range),
            }
        }
        self.0 = joined;
        while self.0.len() > MISSED_RANGES_MAX && self.join_closest() {}
    }

    /// Notes that all groups from this one on are missed, until [`Self::close`].
    pub fn open(&mut self, from: Txg) {
        self.note(TxgRange { from, to: END });
    }

    /// What went on ends with this group.
    pub fn close(&mut self, to: Txg) {
        self.0.iter_mut().filter(|range| range.to == END).for_each(|range| range.to = to.max(range.from));
    }

    /// Whether groups are missed from now on.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.0.last().is_some_and(|range| range.to == END)
    }

    /// Whether nothing is noted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this group is among them.
    #[must_use]
    pub fn has(&self, txg: Txg) -> bool {
        self.0.iter().any(|range| range.from <= txg && txg <= range.to)
    }

    /// Whether it is that of a leg which has never counted: there is no group 0, and only such a list has it.
    #[must_use]
    pub fn is_of_new(&self) -> bool {
        self.has(Txg(0))
    }

    /// Whether the first group of the pool is among them: nobody knows of any block that the leg has it.
    #[must_use]
    pub fn begins_with_the_first(&self) -> bool {
        self.has(FIRST)
    }

    /// All groups, those to come included.
    #[must_use]
    pub(crate) fn all() -> Self {
        let mut all = Self::default();
        all.open(FIRST);
        all
    }

    /// All up to this group, of a leg that counts and lacks something that nobody knows the group of.
    #[must_use]
    pub(crate) fn up_to(last: Txg) -> Self {
        let mut all = Self::default();
        all.note(TxgRange { from: FIRST, to: last });
        all
    }

    /// What both have missed.
    #[must_use]
    pub fn in_common(&self, other: &Self) -> Self {
        let mut common = Self::default();
        for (one, other) in self.0.iter().flat_map(|one| other.0.iter().map(move |other| (one, other))) {
            common.note(TxgRange { from: one.from.max(other.from), to: one.to.min(other.to) });
        }
        common
    }

    /// Makes one range of the two that lie closest. Whether there were two.
    pub(crate) fn join_closest(&mut self) -> bool {
        let gap = |at: &usize| self.0[at + 1].from.0 - self.0[*at].to.0;
        let Some(closest) = (0..self.0.len().saturating_sub(1)).min_by_key(gap) else { return false };
        self.0[closest].to = self.0.remove(closest + 1).to;
        true
    }

    /// Nothing is known of what the leg lacks.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// How many ranges there are, as a label counts them.
    pub(super) fn count(&self) -> u8 {
        u8::try_from(self.0.len()).expect("at most 16")
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for range in &self.0 {
            out.put_u64(range.from.0);
            out.put_u64(range.to.0);
        }
    }

    /// So many ranges, which must be as [`MissedGroups::note`] leaves them.
    pub(super) fn decode(reader: &mut Reader<'_>, count: u8) -> Result<Self, Malformed> {
        let count = usize::from(count);
        if count > MISSED_RANGES_MAX {
            return Err(Malformed("label: more ranges of missed groups than are kept"));
        }
        let mut ranges: Vec<TxgRange> = Vec::with_capacity(count);
        for _ in 0..count {
            let range = TxgRange { from: Txg(reader.u64()?), to: Txg(reader.u64()?) };
            let is_behind = ranges.last().is_none_or(|last| last.to.0.saturating_add(1) < range.from.0);
            if range.from > range.to || !is_behind {
                return Err(Malformed("label: ranges of missed groups that overlap, or end before they begin"));
            }
            ranges.push(range);
        }
        Ok(Self(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Ranges<'a> = &'a [(u64, u64)];

    fn range(from: u64, to: u64) -> TxgRange {
        TxgRange { from: Txg(from), to: Txg(to) }
    }

    fn of(ranges: Ranges<'_>) -> MissedGroups {
        let mut missed = MissedGroups::default();
        ranges.iter().for_each(|(from, to)| missed.note(range(*from, *to)));
        missed
    }

    /// What was noted, in this order, and what is kept of it.
    #[test]
    fn neighbours_are_joined() {
        const END: u64 = u64::MAX;
        let cases: [(Ranges<'_>, Ranges<'_>); 9] = [
            (&[], &[]),
            (&[(5, 7)], &[(5, 7)]),
            (&[(5, 7), (9, 9)], &[(5, 7), (9, 9)]),
            (&[(9, 9), (5, 7)], &[(5, 7), (9, 9)]),
            (&[(5, 7), (8, 9)], &[(5, 9)]),
            (&[(5, 7), (20, 30), (6, 25)], &[(5, 30)]),
            (&[(5, 9), (6, 7)], &[(5, 9)]),
            (&[(7, 5)], &[]),
            (&[(5, END), (END, END), (1, 2)], &[(1, 2), (5, END)]),
        ];
        for (noted, kept) in cases {
            let kept: Vec<_> = kept.iter().map(|(from, to)| range(*from, *to)).collect();
            assert_eq!(of(noted).ranges(), kept, "{noted:?}");
        }
    }

    /// Whichever place the seventeenth has, no group that was noted is lost, and those that lie closest are joined.
    #[test]
    fn a_seventeenth_range_joins_its_neighbour() {
        let hundreds: Vec<_> = (1..=16).map(|at| (100 * at, 100 * at + 10)).collect();
        for (from, to, expected) in
            [(520, 530, (500, 530)), (580, 590, (580, 610)), (20, 30, (20, 110)), (1620, u64::MAX, (1600, u64::MAX))]
        {
            let mut missed = of(&hundreds);
            missed.note(range(from, to));
            assert_eq!(missed.ranges().len(), MISSED_RANGES_MAX, "{from}");
            assert!(missed.ranges().contains(&range(expected.0, expected.1)), "{from}: {:?}", missed.ranges());
            for (from, to) in hundreds.iter().chain([&(from, to)]) {
                let has = |kept: &TxgRange| kept.from.0 <= *from && kept.to.0 >= *to;
                assert!(missed.ranges().iter().any(has), "{from}..={to} of {:?}", missed.ranges());
            }
        }
    }

    #[test]
    fn what_is_kept_is_read_back_and_nothing_else() {
        let missed = of(&[(1, 1), (5, 7), (9, u64::MAX)]);
        let mut bytes = Vec::new();
        missed.encode(&mut bytes);
        assert_eq!(MissedGroups::decode(&mut Reader::new(&bytes, "test"), missed.count()), Ok(missed));
        let refused: [Ranges<'_>; 5] = [
            &[(7, 5)],
            &[(5, 7), (8, 9)],
            &[(5, 7), (6, 9)],
            &[(9, 9), (5, 7)],
            &[(5, u64::MAX), (u64::MAX, u64::MAX)],
        ];
        for ranges in refused {
            let bytes: Vec<u8> = ranges.iter().flat_map(|(from, to)| [*from, *to]).flat_map(u64::to_le_bytes).collect();
            let count = u8::try_from(ranges.len()).unwrap();
            assert!(MissedGroups::decode(&mut Reader::new(&bytes, "test"), count).is_err(), "{ranges:?}");
        }
        let many: Vec<u8> = (0..17_u64).flat_map(|at| [9 * at, 9 * at]).flat_map(u64::to_le_bytes).collect();
        assert!(MissedGroups::decode(&mut Reader::new(&many, "test"), 17).is_err());
        assert!(MissedGroups::decode(&mut Reader::new(&many, "test"), 16).is_ok());
        assert!(MissedGroups::decode(&mut Reader::new(&many[..255], "test"), 16).is_err(), "too short");
    }
}
