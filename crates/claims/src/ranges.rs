//! Ranges of bytes that are locked, of one object (table D8; RFC 8881 §18.10, §18.12; rules V31).
//!
//! Arithmetic: a range is kept as its first and its last byte, so that one up to the end of all files, which is 2^64 bytes long, is one as all others.
//! Length 0, and an end behind the last byte that can be named, are no range ([`Range::new`]); length 2^64 - 1 is to the end.
//!
//! What becomes of a range that an owner holds when it locks or unlocks another one, as POSIX has it:
//!
//! | row | held | locked in the same kind | locked in the other kind, or unlocked |
//! |---|---|---|---|
//! | a | lies apart | stays | stays |
//! | b | touches it, on either side | is joined with it | stays |
//! | c | begins before it and ends within | is joined | what lies before stays |
//! | d | begins within and ends behind it | is joined | what lies behind stays |
//! | e | lies within | is joined | goes |
//! | f | reaches beyond it on both sides | is joined: nothing changes | is split: what lies before and what lies behind stay |
//!
//! And of one that another holds: row g, it shares no byte: not in the way; row h, both are READ: not in the way; row i, else: it is told who holds what.
//!
//! A change is planned before it is made, as a split may make two of one and there may be no room: a refused change has changed nothing.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::holder::{ClientNumber, Holder};

/// What bytes are locked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Others may lock them for reading, too.
    Read,
    /// Nobody else may lock them.
    Write,
}

impl Kind {
    /// Whether two owners cannot have both on one byte (row i).
    #[must_use]
    pub fn conflicts_with(self, other: Self) -> bool {
        (self, other) != (Self::Read, Self::Read)
    }
}

/// Bytes of an object, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    first: u64,
    last: u64,
}

impl Range {
    /// All bytes.
    pub const ALL: Self = Self { first: 0, last: u64::MAX };

    /// As NFSv4 says it (RFC 8881 §18.10.3): so many bytes from here on, all that follow if the length is 2^64 - 1.
    #[must_use]
    pub const fn new(offset: u64, length: u64) -> Option<Self> {
        match (length, offset.checked_add(length)) {
            (0, _) => None,
            (u64::MAX, _) => Some(Self { first: offset, last: u64::MAX }),
            (_, None) => None,
            (_, Some(end)) => Some(Self { first: offset, last: end - 1 }),
        }
    }

    /// From this byte to that one, both of them in it.
    #[must_use]
    pub const fn between(first: u64, last: u64) -> Option<Self> {
        if first <= last { Some(Self { first, last }) } else { None }
    }

    /// Its first byte.
    #[must_use]
    pub const fn first(self) -> u64 {
        self.first
    }

    /// Its last byte, which is in it.
    #[must_use]
    pub const fn last(self) -> u64 {
        self.last
    }

    /// How long NFSv4 says that it is. All bytes but the very last, which is all that an unlock of that one leaves, cannot be said: they are all bytes.
    #[must_use]
    pub const fn length(self) -> u64 {
        if self.last == u64::MAX { u64::MAX } else { self.last - self.first + 1 }
    }

    /// Whether a byte is in both.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// With the bytes beside it: what touches it overlaps that.
    const fn widened(self) -> Self {
        Self { first: self.first.saturating_sub(1), last: self.last.saturating_add(1) }
    }

    /// Whether it overlaps that one or lies beside it.
    #[must_use]
    pub const fn touches(self, other: Self) -> bool {
        self.widened().overlaps(other)
    }

    /// From the first of both to the last of both.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    /// What lies before a cut, and what behind it.
    #[must_use]
    pub fn without(self, cut: Self) -> [Option<Self>; 2] {
        let before = cut.first.checked_sub(1).and_then(|last| Self::between(self.first, last.min(self.last)));
        let behind = cut.last.checked_add(1).and_then(|first| Self::between(first.max(self.first), self.last));
        [before, behind]
    }
}

/// A range that an owner wants to lock, or has: then it is what another is told that finds it in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Whose it is.
    pub holder: Holder,
    /// Which bytes.
    pub range: Range,
    /// What for.
    pub kind: Kind,
}

/// All that are held of one object.
#[derive(Default)]
pub(crate) struct Ranges {
    /// By owner and first byte: the last one, and what for. Those of one owner share no byte, so they are in the order of their last ones as well.
    held: BTreeMap<(Holder, u64), (u64, Kind)>,
    /// Who holds something, and the open below which he began to. Mostly there is one, for whom a map would be dear.
    owners: SmallVec<[(Holder, Option<Holder>); 1]>,
}

/// What locking or unlocking would do to what an owner holds.
pub(crate) struct Change {
    pub(crate) holder: Holder,
    /// First bytes of those that go.
    gone: SmallVec<[u64; 4]>,
    /// Those that come, what is left of such included.
    come: SmallVec<[(Range, Kind); 3]>,
}

impl Change {
    /// How many ranges more there will be, and how many fewer. One of the two is 0.
    pub(crate) fn growth(&self) -> (usize, usize) {
        let (come, gone) = (self.come.len(), self.gone.len());
        (come.saturating_sub(gone), gone.saturating_sub(come))
    }
}

impl Ranges {
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn has_any_of(&self, holder: Holder) -> bool {
        self.owners.iter().any(|owner| owner.0 == holder)
    }

    /// Whether an owner of another client has locked any.
    pub(crate) fn has_any_but_of(&self, client: ClientNumber) -> bool {
        self.owners.iter().any(|owner| owner.0.client != client)
    }

    /// Whether one of these is locked for writing: all are looked at, which is for who knows that there are some.
    pub(crate) fn has_write_but_of(&self, client: ClientNumber) -> bool {
        self.kinds_but_of(client).any(|kind| kind == Kind::Write)
    }

    /// What for each range of another client is locked.
    pub(crate) fn kinds_but_of(&self, client: ClientNumber) -> impl Iterator<Item = Kind> {
        let of_others = self.held.iter().filter(move |((holder, _), _)| holder.client != client);
        of_others.map(|(_, (_, kind))| *kind)
    }

    /// One of another holder that is in the way (rows g to i).
    pub(crate) fn conflict(&self, wanted: Lock) -> Option<Lock> {
        let others = self.owners.iter().map(|owner| owner.0).filter(|&other| other != wanted.holder);
        let mut shared = others.flat_map(|other| self.overlapping(other, wanted.range));
        shared.find(|held| held.kind.conflicts_with(wanted.kind))
    }

    /// What an owner's ranges become when it locks this one, or unlocks it (rows a to f).
    pub(crate) fn plan(&self, holder: Holder, range: Range, kind: Option<Kind>) -> Change {
        let mut change = Change { holder, gone: SmallVec::new(), come: SmallVec::new() };
        let mut whole = range;
        for held in self.overlapping(holder, range.widened()) {
            if kind == Some(held.kind) {
                whole = whole.joined(held.range);
            } else if held.range.overlaps(range) {
                change.come.extend(held.range.without(range).into_iter().flatten().map(|left| (left, held.kind)));
            } else {
                continue;
            }
            change.gone.push(held.range.first);
        }
        change.come.extend(kind.map(|kind| (whole, kind)));
        change
    }

    /// Makes it so. Who begins to hold something does it below this open.
    pub(crate) fn apply(&mut self, change: Change, below: Option<Holder>) {
        let holder = change.holder;
        for first in change.gone {
            let gone = self.held.remove(&(holder, first));
            assert!(gone.is_some(), "a planned change is of ranges that are there");
        }
        for (range, kind) in change.come {
            let other = self.held.insert((holder, range.first), (range.last, kind));
            assert!(other.is_none(), "two ranges of one owner begin with one byte");
        }
        let has_any = self.of(holder).next().is_some();
        match (self.has_any_of(holder), has_any) {
            (false, true) => self.owners.push((holder, below)),
            (true, false) => self.owners.retain(|owner| owner.0 != holder),
            _ => {}
        }
    }

    /// Frees all that such owners hold, by who they are and the open below which they began, and says how many that were of each.
    pub(crate) fn free(&mut self, goes: impl Fn(Holder, Option<Holder>) -> bool) -> SmallVec<[(Holder, usize); 2]> {
        let mut freed = SmallVec::new();
        self.owners.retain(|&mut (holder, below)| {
            if goes(holder, below) {
                freed.push((holder, self.held.extract_if((holder, 0)..=(holder, u64::MAX), |_, _| true).count()));
            }
            !goes(holder, below)
        });
        freed
    }

    /// Up to so many of those that an owner holds, the last first.
    pub(crate) fn seen(&self, holder: Holder, most: usize) -> Vec<Lock> {
        self.of(holder).take(most).collect()
    }

    fn of(&self, holder: Holder) -> impl Iterator<Item = Lock> {
        self.overlapping(holder, Range::ALL)
    }

    /// Those of an owner that share a byte with this range, the last first.
    fn overlapping(&self, holder: Holder, range: Range) -> impl Iterator<Item = Lock> {
        let up_to = self.held.range((holder, 0)..=(holder, range.last)).rev();
        let held = up_to.map(move |(&(_, first), &(last, kind))| Lock { holder, range: Range { first, last }, kind });
        held.take_while(move |held| held.range.last >= range.first)
    }
}

#[cfg(test)]
mod tests;
