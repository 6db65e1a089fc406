//! A pool's life: what an import that was not clean changes for every dataset at once.
//!
//! **The problem.** After a power cut each dataset needs another write verifier (rules F16), its ids go on behind those that
//! were drawn and lost (F15), and no file may show a change that is older than one it has shown. Written into each entry
//! that would be all of the catalog with the first group of an import; kept in memory it is forgotten with the next
//! export, and a client that has slept meanwhile finds the verifier of a life whose data was lost.
//!
//! **The idea.** The pool's root has a number that goes up with each such import, random bits drawn with it, and a time.
//! What a dataset shows follows from these and from its entry, whenever that was written (rules S55):
//!
//! | what | from |
//! |---|---|
//! | write verifier | hash of the dataset's own and the life |
//! | first id to draw | the entry's `next_object`, and [`LOST_IDS_MAX`] for each life between the entry's and this one |
//! | change | the inode's, but no less than the dataset's floor and the life's |
//!
//! All groups of an import say its life, those of an unfinished replay too: nobody was served in one that ends before its
//! replay is durable, so what is told under a life, is told after a root that names it. The random bits are for roots
//! that are given up: the life behind an older one has a number that was there before.
//!
//! The floor is issued in the group that ends the replay: then all times that the log tells are known.

use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{ObjectId, Rng, Time, name_hash};

use super::TIME_ROOM_END;
use crate::dataset::{DRAWN_END, DatasetRoot};

/// More ids than any transaction group draws: so many are passed over after a crash.
const LOST_IDS_MAX: u64 = 1 << 32;

/// See the module's head.
///
/// ```text
///  0  number u64      8  random u64     16  change floor u64     24
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Of the life: the first is 1.
    pub number: u64,
    /// Drawn with the number.
    pub random: u64,
    /// No file shows an older change.
    pub change_floor: Time,
}

impl Life {
    pub(super) fn first(rng: &dyn Rng) -> Self {
        Self { number: 1, random: rng.next_u64(), change_floor: Time(0) }
    }

    /// The one that an import begins which finds that the pool was not exported: the next one. It is more than one ahead where
    /// others have begun behind this one and were given up, as what they have shown must not come again.
    pub(super) fn after(self, lives: u64, rng: &dyn Rng) -> Self {
        Self { number: self.number + lives, random: rng.next_u64(), ..self }
    }

    /// What a dataset's WRITEs and COMMITs answer.
    #[must_use]
    pub fn verifier_of(&self, root: &DatasetRoot) -> u64 {
        let parts = [root.verifier, self.number, self.random].map(u64::to_le_bytes);
        name_hash(0, parts.as_flattened())
    }

    /// From where on a dataset draws ids: those that were drawn in lives since its entry was written may be known to clients,
    /// as handles and as cookies (rules F15).
    #[must_use]
    pub fn first_object(&self, root: &DatasetRoot) -> ObjectId {
        let lost = self.number.saturating_sub(root.life).saturating_mul(LOST_IDS_MAX);
        ObjectId(root.next_object.0.saturating_add(lost))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.number);
        out.put_u64(self.random);
        out.put_u64(self.change_floor.0);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let life = Self { number: reader.u64()?, random: reader.u64()?, change_floor: Time(reader.u64()?) };
        let is_possible = (1..DRAWN_END).contains(&life.number) && life.change_floor < TIME_ROOM_END;
        if is_possible { Ok(life) } else { Err(reader.malformed()) }
    }
}
