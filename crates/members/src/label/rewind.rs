//! Groups that were given up: the pool went back to one before them.
//!
//! The problem: going back writes a new group on top of an old one, and the groups between stay on the disks, in
//! uberblocks and in the frames of the log, each of them sound. Whoever looks for the newest group, or listens to
//! witnesses, finds them.
//!
//! The idea (rules S55): what is dropped is noted in the labels before anything else is written, with the claim of the import that goes
//! back. That note is the point at which the pool has gone back: from then on the dropped uberblocks are none, a
//! frame that tells of a dropped group is no witness, and the log has nothing to replay, until there is a group of a
//! generation that is as new as the note.

use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{Time, Txg};

/// Notes that are kept. One is of use while slots hold uberblocks that it drops: until sixteen groups later.
pub(crate) const REWINDS_MAX: usize = 4;
/// Numbers from here on are in no label.
const NUMBER_END: u64 = 1 << 62;

/// The pool went back. See the head of this module.
///
/// ```text
///  0  kept txg 8 · kept open_gen 8 · dropped txg 8 · open_gen 8 · time 8 · depth 2     42
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewind {
    /// The group that it went back to.
    pub kept: Txg,
    /// Open generation of that group's uberblock.
    pub kept_gen: u64,
    /// No group up to this one is a witness, or is used again.
    pub dropped: Txg,
    /// Generation of the import that went back: older uberblocks behind the one that was kept are dropped.
    pub open_gen: u64,
    /// When the pool went back.
    pub time: Time,
    /// Roots before the kept one that are still whole.
    pub depth: u16,
}

impl Rewind {
    /// Whether the uberblock of this rank, open generation and group, is of what was given up.
    #[must_use]
    pub fn drops(&self, rank: (u64, Txg)) -> bool {
        rank.0 < self.open_gen && rank > (self.kept_gen, self.kept)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.kept.0);
        out.put_u64(self.kept_gen);
        out.put_u64(self.dropped.0);
        out.put_u64(self.open_gen);
        out.put_u64(self.time.0);
        out.put_u16(self.depth);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (kept, kept_gen) = (Txg(reader.u64()?), reader.u64()?);
        let (dropped, open_gen) = (Txg(reader.u64()?), reader.u64()?);
        let found = Self { kept, kept_gen, dropped, open_gen, time: Time(reader.u64()?), depth: reader.u16()? };
        let is_possible = kept <= dropped && kept_gen < open_gen && dropped.0 < NUMBER_END && open_gen < NUMBER_END;
        if is_possible { Ok(found) } else { Err(reader.malformed()) }
    }
}
