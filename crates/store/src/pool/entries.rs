//! The entries of all datasets as the pool's root has them, kept from group to group.
//!
//! The root names every dataset, and each group writes it whole; to encode ten thousand entries anew for each takes longer
//! than to write them. So they are kept as bytes, in the order of ids: a group replaces those that it has changed, and
//! writes its number into all, as the group up to which their log records are in their trees.

use tally_base::{DatasetId, Txg};

use crate::dataset::LOG_TXG_FROM_END;

/// All of them.
#[derive(Default)]
pub(super) struct Entries {
    bytes: Vec<u8>,
    /// Whose they are, and where each ends.
    ends: Vec<(DatasetId, usize)>,
}

impl Entries {
    /// As the root has them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Puts an entry in, in place of the dataset's old one if there is one.
    pub(super) fn set(&mut self, id: DatasetId, entry: &[u8]) {
        let at = self.ends.binary_search_by_key(&id, |(id, _)| *id).unwrap_or_else(|at| {
            self.ends.insert(at, (id, self.begin(at)));
            at
        });
        self.replace(at, entry);
    }

    /// Takes a dataset's entry out.
    pub(super) fn remove(&mut self, id: DatasetId) {
        if let Ok(at) = self.ends.binary_search_by_key(&id, |(id, _)| *id) {
            self.replace(at, &[]);
            self.ends.remove(at);
        }
    }

    /// Says in all of them that their log records up to `txg` are in their trees.
    pub(super) fn take_to(&mut self, txg: Txg) {
        for (_, end) in &self.ends {
            let at = end - LOG_TXG_FROM_END;
            self.bytes[at..at + size_of::<u64>()].copy_from_slice(&txg.0.to_le_bytes());
        }
    }

    fn begin(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.ends[before].1)
    }

    fn replace(&mut self, at: usize, entry: &[u8]) {
        let (begin, end) = (self.begin(at), self.ends[at].1);
        if end - begin == entry.len() {
            return self.bytes[begin..end].copy_from_slice(entry);
        }
        self.bytes.splice(begin..end, entry.iter().copied());
        for (_, moved) in &mut self.ends[at..] {
            *moved = *moved - (end - begin) + entry.len();
        }
    }
}
