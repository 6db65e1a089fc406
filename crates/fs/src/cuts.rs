//! What was cut from a file and is not freed yet.
//!
//! A TRUNCATE of a terabyte leaves eight million extents behind. To look at each of them in the group of the cut would make
//! that group as long as the file; so the fold notes the cut in the inode, and the reaper frees a bounded number of them in
//! each group behind (rules F11). Until then they stand in the tree, and **do not exist**: an extent at or behind `from`
//! that was born before the group of the cut is nobody's. What the file got since is born later, so it may grow
//! again at once and never shows what it had.
//!
//! A file may be cut again meanwhile. A cut further to the front covers those behind it; one further to the back
//! does not cover those before it: so cuts are kept as *stairs*, each further back and younger than the one before.
//!
//! A *punch* is a cut with two ends, and is noted in the same way where it is long: in its whole blocks nothing exists that was born
//! before its group. Of these the reaper raises the beginning as it goes.
//!
//! ```text
//!      where there are punches:
//!   0  2^64 - 1  u64                                   8  count u64, of punches, at most 64
//!  16  each: from u64, to u64, born before u64
//!      then, where there are cuts:
//!   0  at   u64: up to here the reaper has come        8  end  u64: from here on there is nothing
//!  16  the stairs, at most four: from u64, born before u64
//! ```

mod punches;

use std::ops::Range;

use smallvec::SmallVec;
use tally_base::Txg;
use tally_base::codec::{Malformed, Put, Reader};

use self::punches::Punches;
pub(crate) use self::punches::{PUNCHES_MAX, SHORT_PUNCHES_MAX};

/// One more and the cut is carried out at once.
const STAIRS_MAX: usize = 4;

/// Bytes that an encoding takes at the most.
pub(crate) const CUTS_BYTES_MAX: usize = punches::PUNCHES_BYTES_MAX + 16 + STAIRS_MAX * 16;

/// Behind `from` there is nothing that was born before this group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    from: u64,
    before: Txg,
}

/// The cuts and punches of a file whose extents are not all freed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    at: u64,
    end: u64,
    /// The first is the furthest to the front and the oldest. None: there are punches alone.
    stairs: SmallVec<[Cut; 1]>,
    punches: Punches,
}

impl Cuts {
    /// The cuts of a file that had `cuts`, and whose extents in `from..end` are not to exist from group `before` on. `None`:
    /// there is no room to note one more.
    pub(crate) fn with(cuts: Option<&Self>, from: u64, end: u64, before: Txg) -> Option<Self> {
        let new = Cut { from, before };
        let punches = cuts.map(|cuts| cuts.punches.up_to(from)).unwrap_or_default();
        let Some(cuts) = cuts.filter(|cuts| !cuts.stairs.is_empty()) else {
            return Some(Self { at: from, end, stairs: smallvec::smallvec![new], punches });
        };
        // None is younger than this one, but for faulty software's.
        let is_before = |cut: &Cut| cut.from < from && cut.before < before;
        let mut stairs: SmallVec<_> = cuts.stairs.iter().copied().filter(is_before).collect();
        stairs.push(new);
        let noted = Self { at: cuts.at.min(from), end: cuts.end.max(end), stairs, punches };
        (noted.stairs.len() <= STAIRS_MAX).then_some(noted)
    }

    /// The cuts of a file that had `cuts`, and whose extents in `range` are not to exist from group `before` on. `None`: it would
    /// have more than `most` punches.
    pub(crate) fn punched(cuts: Option<&Self>, range: Range<u64>, before: Txg, most: usize) -> Option<Self> {
        let cuts = cuts.cloned().unwrap_or_default();
        let punches = cuts.punches.with(range, before);
        (punches.count() <= most.min(PUNCHES_MAX)).then_some(Self { punches, ..cuts })
    }

    /// What is left of `cuts` where nothing is left from `from` on.
    pub(crate) fn up_to(cuts: Option<&Self>, from: u64) -> Option<Self> {
        let cuts = cuts?;
        let stairs = cuts.stairs.iter().copied().filter(|cut| cut.from < from).collect();
        let end = cuts.end.min(from);
        Self { at: cuts.at.min(end), end, stairs, punches: cuts.punches.up_to(from) }.unless_done()
    }

    /// Whether an extent does not exist.
    pub(crate) fn has(&self, start: u64, birth: Txg) -> bool {
        self.stairs.iter().any(|cut| start >= cut.from && birth < cut.before) || self.punches.has(start, birth)
    }

    /// What the reaper has not come to yet of what was cut: offsets in bytes.
    pub(crate) fn ahead(&self) -> Range<u64> {
        self.at..self.end
    }

    /// The same of the punch that is next.
    pub(crate) fn punch_ahead(&self) -> Option<Range<u64>> {
        self.punches.ahead()
    }

    /// From here on no extent is in the tree because of these cuts, but for punches, which lie where blocks may be.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the reaper has more to do.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.at < self.end || !self.punches.is_empty()
    }

    /// How many punches there are.
    #[must_use]
    pub fn punch_count(&self) -> usize {
        self.punches.count()
    }

    /// The reaper has come up to `at`, and has met nothing that it could not read up to `whole`. What it could not read is
    /// still there, and must not come back: the cut stays. `None` once nothing is left.
    pub(crate) fn reaped(mut self, at: u64, whole: u64) -> Option<Self> {
        let is_behind = |cuts: &Self| cuts.stairs.first().is_some_and(|first| first.from < cuts.at);
        if !is_behind(&self) {
            while self.stairs.get(1).is_some_and(|next| next.from <= whole) {
                self.stairs.remove(0);
            }
            if let Some(first) = self.stairs.first_mut() {
                first.from = first.from.max(whole);
            }
        }
        self.at = at.min(self.end);
        self.unless_done()
    }

    /// The reaper has come up to `at` in the punch that was next. `None` once nothing is left.
    pub(crate) fn punch_reaped(mut self, at: u64) -> Option<Self> {
        self.punches.freed_up_to(at);
        self.unless_done()
    }

    fn unless_done(mut self) -> Option<Self> {
        if self.stairs.first().is_none_or(|first| first.from >= self.end) {
            self = Self { punches: self.punches, ..Self::default() };
        }
        (self != Self::default()).then_some(self)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.punches.encode(out);
        if self.stairs.is_empty() {
            return;
        }
        out.put_u64(self.at);
        out.put_u64(self.end);
        for cut in &self.stairs {
            out.put_u64(cut.from);
            out.put_u64(cut.before.0);
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let malformed = Malformed("cuts of a file");
        let mut reader = Reader::new(bytes, "cuts of a file");
        let punches = Punches::decode(&mut reader)?;
        if reader.rest().is_empty() && !punches.is_empty() {
            return Ok(Self { punches, ..Self::default() });
        }
        let (at, end) = (reader.u64()?, reader.u64()?);
        let mut stairs: SmallVec<[Cut; 1]> = SmallVec::new();
        while !reader.rest().is_empty() {
            let cut = Cut { from: reader.u64()?, before: Txg(reader.u64()?) };
            if stairs.last().is_some_and(|last| last.from >= cut.from || last.before >= cut.before) {
                return Err(malformed);
            }
            stairs.push(cut);
        }
        let is_possible = (1..=STAIRS_MAX).contains(&stairs.len()) && at <= end && stairs[0].from < end;
        if is_possible { Ok(Self { at, end, stairs, punches }) } else { Err(malformed) }
    }

    /// For people: where and from which group on each begins.
    pub(crate) fn shown(&self) -> String {
        let cuts = self.stairs.iter().map(|cut| format!("{}:{}", cut.from, cut.before));
        let shown: Vec<_> = cuts.chain(self.punches.shown()).collect();
        shown.join(",")
    }
}

#[cfg(test)]
mod tests;
