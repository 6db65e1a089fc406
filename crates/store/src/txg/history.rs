//! The newest transaction groups: when each was open, and how long it took to become durable. What `txgs` of OpenZFS's
//! kstats shows.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tally_base::Txg;

/// Groups that are remembered.
pub const HISTORY_MAX: usize = 64;

/// A group that was synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxgRecord {
    /// Which group it was.
    pub txg: Txg,
    /// When it was opened, on the monotonic clock; the first after an import counts from its close.
    pub opened: Duration,
    /// For how long it took changes.
    pub open: Duration,
    /// Until the last of its changes was complete.
    pub quiescing: Duration,
    /// Until its uberblock was durable.
    pub syncing: Duration,
    /// Bytes that were dirty in it.
    pub dirty_bytes: u64,
}

/// The newest [`HISTORY_MAX`], oldest first.
#[derive(Debug, Default)]
pub struct TxgHistory {
    records: Mutex<VecDeque<TxgRecord>>,
}

impl TxgHistory {
    /// The newest [`HISTORY_MAX`] groups at most, oldest first.
    #[must_use]
    pub fn records(&self) -> Vec<TxgRecord> {
        self.records.lock().iter().copied().collect()
    }

    /// One more, which was closed at `closing`, quiet at `quiet`, and is durable at `synced`.
    pub(crate) fn note(&self, txg: Txg, dirty_bytes: u64, [closing, quiet, synced]: [Duration; 3]) {
        let mut records = self.records.lock();
        // The next group opens when the one before closes.
        let opened = records.back().map_or(closing, |before| before.opened + before.open);
        if records.len() == HISTORY_MAX {
            records.pop_front();
        }
        records.push_back(TxgRecord {
            txg,
            opened,
            open: closing.saturating_sub(opened),
            quiescing: quiet.saturating_sub(closing),
            syncing: synced.saturating_sub(quiet),
            dirty_bytes,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_open_from_the_close_of_the_one_before() {
        let history = TxgHistory::default();
        let ms = Duration::from_millis;
        history.note(Txg(5), 10, [ms(100), ms(101), ms(110)]);
        history.note(Txg(6), 4096, [ms(5100), ms(5103), ms(5150)]);
        let second = TxgRecord {
            txg: Txg(6),
            opened: ms(100),
            open: ms(5000),
            quiescing: ms(3),
            syncing: ms(47),
            dirty_bytes: 4096,
        };
        assert_eq!(history.records()[1], second);
        for txg in 7..200 {
            history.note(Txg(txg), 0, [ms(txg * 1000); 3]);
        }
        let records = history.records();
        assert_eq!((records.len(), records[0].txg, records[63].txg), (HISTORY_MAX, Txg(136), Txg(199)));
    }
}
