//! Ranges of whole blocks that were punched, and are not freed yet: in them nothing exists that was born before the group of the punch.

use std::ops::Range;

use tally_base::Txg;
use tally_base::codec::{Malformed, Put, Reader};

/// One more and a punch is carried out at once: all of them are read with each inode of a file that has some.
pub(crate) const PUNCHES_MAX: usize = 64;
/// Of punches that a group could free by itself so many are left to later ones. The others are for those that none could.
pub(crate) const SHORT_PUNCHES_MAX: usize = PUNCHES_MAX / 2;

/// What an encoding begins with, where that of a cut has an offset.
const MARKER: u64 = u64::MAX;
const HEAD_BYTES: usize = 16;
const PUNCH_BYTES: usize = 24;
/// Bytes of an encoding at the most.
pub(super) const PUNCHES_BYTES_MAX: usize = HEAD_BYTES + PUNCHES_MAX * PUNCH_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Punch {
    from: u64,
    to: u64,
    before: Txg,
}

/// In the order in which they are freed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Punches(Vec<Punch>);

impl Punches {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether an extent does not exist.
    pub(super) fn has(&self, start: u64, birth: Txg) -> bool {
        self.0.iter().any(|punch| (punch.from..punch.to).contains(&start) && birth < punch.before)
    }

    /// With one more, which covers those that lie in it: they are older.
    pub(super) fn with(&self, range: Range<u64>, before: Txg) -> Self {
        let is_beside = |punch: &Punch| punch.from < range.start || punch.to > range.end || punch.before > before;
        let mut punches: Vec<_> = self.0.iter().copied().filter(is_beside).collect();
        punches.push(Punch { from: range.start, to: range.end, before });
        Self(punches)
    }

    /// What is left of them before `end`.
    pub(super) fn up_to(&self, end: u64) -> Self {
        let before = self.0.iter().filter(|punch| punch.from < end);
        Self(before.map(|punch| Punch { to: punch.to.min(end), ..*punch }).collect())
    }

    /// What is to be freed first.
    pub(super) fn ahead(&self) -> Option<Range<u64>> {
        self.0.first().map(|punch| punch.from..punch.to)
    }

    /// Of the first nothing is left below `at`.
    pub(super) fn freed_up_to(&mut self, at: u64) {
        let Some(first) = self.0.first_mut() else { return };
        first.from = first.from.max(at);
        if first.from >= first.to {
            self.0.remove(0);
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        if self.0.is_empty() {
            return;
        }
        out.put_u64(MARKER);
        out.put_u64(self.0.len() as u64);
        for punch in &self.0 {
            out.put_u64(punch.from);
            out.put_u64(punch.to);
            out.put_u64(punch.before.0);
        }
    }

    /// None, where something else begins.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        if !reader.rest().starts_with(&MARKER.to_le_bytes()) {
            return Ok(Self::default());
        }
        let (_, count) = (reader.u64()?, reader.u64()?);
        let is_possible = |count: &usize| (1..=PUNCHES_MAX).contains(count);
        let count = usize::try_from(count).ok().filter(is_possible).ok_or(reader.malformed())?;
        let mut punches = Vec::with_capacity(count);
        for _ in 0..count {
            let punch = Punch { from: reader.u64()?, to: reader.u64()?, before: Txg(reader.u64()?) };
            if punch.from >= punch.to {
                return Err(reader.malformed());
            }
            punches.push(punch);
        }
        Ok(Self(punches))
    }

    /// For people: where each begins and ends, and from which group on.
    pub(super) fn shown(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|punch| format!("{}-{}:{}", punch.from, punch.to, punch.before))
    }
}
