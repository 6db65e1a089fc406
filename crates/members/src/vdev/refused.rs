//! What the last leg of a vdev refused of a repair: it stays, as the pool would end with it, and may read there what it refused, out of
//! some cache, until the power goes. So it does not have such a place until it has taken a write there (rules S57).
//!
//! Where it refused more than is remembered it has nothing for sure, and is given everything at each look until the pool is imported anew.
//! In memory alone, and of this object: who imports the pool, be it by `clear`, or takes the leg back believes what is read. By which groups a leg
//! that is struck off lacks it is told by [`super::given`].

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tally_base::SECTOR;

/// Of damaged blocks of 128 KiB these are two thousand.
const SECTORS_MAX: usize = 1 << 16;

/// See the module's head.
#[derive(Default)]
pub(super) struct Refused {
    /// For each write, which would have to wait for the others else.
    any: AtomicBool,
    sectors: Mutex<Sectors>,
}

#[derive(Default)]
struct Sectors {
    refused: BTreeSet<u64>,
    is_beyond: bool,
}

impl Refused {
    /// A repair of these bytes was refused.
    pub(super) fn note(&self, offset: u64, length: usize) {
        let mut sectors = self.sectors.lock();
        sectors.refused.extend(of(offset, length));
        if sectors.refused.len() > SECTORS_MAX {
            *sectors = Sectors { refused: BTreeSet::new(), is_beyond: true };
        }
        self.any.store(true, Ordering::Release);
    }

    /// These bytes were written.
    pub(super) fn taken(&self, offset: u64, length: usize) {
        if self.is_any() {
            let mut sectors = self.sectors.lock();
            of(offset, length).for_each(|sector| {
                sectors.refused.remove(&sector);
            });
            self.any.store(sectors.is_beyond || !sectors.refused.is_empty(), Ordering::Release);
        }
    }

    /// Whether anything was, and not written since.
    pub(super) fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether something of these bytes was refused, and not written since.
    pub(super) fn has(&self, offset: u64, length: usize) -> bool {
        self.is_any() && {
            let sectors = self.sectors.lock();
            sectors.is_beyond || of(offset, length).any(|sector| sectors.refused.contains(&sector))
        }
    }
}

fn of(offset: u64, length: usize) -> impl Iterator<Item = u64> {
    (offset..offset + length as u64).step_by(SECTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_refused_until_it_is_written() {
        let refused = Refused::default();
        refused.note(8192, 12288);
        assert!(refused.has(0, 12288) && !refused.has(0, 8192) && !refused.has(20480, 4096));
        refused.taken(8192, 8192);
        assert!(!refused.has(8192, 8192) && refused.has(16384, 4096));
        refused.taken(16384, 4096);
        assert!(!refused.has(0, 1 << 20) && !refused.is_any());
    }

    #[test]
    fn who_refused_too_much_is_believed_nowhere() {
        let refused = Refused::default();
        refused.note(0, (SECTORS_MAX + 1) * SECTOR);
        refused.taken(0, 4096);
        assert!(refused.has(0, 4096) && refused.has(1 << 40, 4096));
    }
}
