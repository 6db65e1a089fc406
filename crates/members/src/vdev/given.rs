//! What a leg that counts was given by a repair, and may not keep: nothing has flushed it yet.
//!
//! Nobody waits for a leg that fails, and what was in its cache may be gone. Of what a group writes its list of missed groups knows, as that
//! begins behind the newest durable one (rules S7); a repair is of a block of long ago. So whoever repairs says which group has written
//! the block, and a leg that is struck off before a flush has covered that lacks that group, too. Who reads says it where he knows it: else it lacks all.
//!
//! Two lists, of which a flush drops the older one: what is noted while it is under way must outlive it. They may say too much.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tally_base::Txg;

use crate::label::{MissedGroups, TxgRange};

/// See the module's head.
#[derive(Default)]
pub(crate) struct Given(Mutex<State>);

#[derive(Default)]
struct State {
    newer: MissedGroups,
    older: MissedGroups,
    /// A flush that covers so many writes of the leg has covered what `older` is about.
    border: u64,
}

impl Given {
    /// It was given a block of this group: the write is over, and counted.
    pub(crate) fn note(&self, written: Txg) {
        self.0.lock().newer.note(TxgRange { from: written, to: written });
    }

    /// The same; where nobody knows the group it may be any.
    pub(super) fn note_if_known(&self, written: Option<Txg>) {
        match written {
            Some(written) => self.note(written),
            None => self.0.lock().newer = MissedGroups::all(),
        }
    }

    /// So many writes are durable, of those that the leg has counted.
    pub(super) fn flushed(&self, covered: u64, writes: &AtomicU64) {
        let mut state = self.0.lock();
        if covered >= state.border {
            state.older = std::mem::take(&mut state.newer);
            state.border = writes.load(Ordering::Acquire);
        }
    }

    /// What it lacks if it fails now.
    pub(crate) fn lacking(&self) -> MissedGroups {
        let state = self.0.lock();
        let mut lacking = state.newer.clone();
        state.older.ranges().iter().for_each(|range| lacking.note(*range));
        lacking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(given: &Given) -> Vec<u64> {
        let lacking = given.lacking();
        (1..10).filter(|txg| lacking.has(Txg(*txg))).collect()
    }

    /// A flush that had begun before a block was given does not cover it, and the next one does.
    #[test]
    fn what_no_flush_has_covered_is_lacking() {
        let (given, writes) = (Given::default(), AtomicU64::new(0));
        let give = |written| {
            writes.fetch_add(1, Ordering::Release);
            given.note(Txg(written));
        };
        give(3);
        assert_eq!(lacks(&given), [3]);
        // It began before.
        given.flushed(0, &writes);
        assert_eq!(lacks(&given), [3]);
        give(7);
        given.flushed(0, &writes);
        assert_eq!(lacks(&given), [3, 7]);
        given.flushed(2, &writes);
        assert_eq!(lacks(&given), [7], "it has covered both, and nobody knows that of the second one");
        given.flushed(2, &writes);
        assert_eq!(lacks(&given), []);
    }
}
