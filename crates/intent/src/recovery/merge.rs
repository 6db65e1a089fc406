//! Puts the records of all lanes into the order of each dataset.
//!
//! Lanes know nothing of each other, so only the dseq orders (rules F2): per dataset it is dense, and a record that
//! was written twice (a failed lane, continued on another) has the same one. What a dataset gets is a prefix of its
//! history: up to its end, or up to its first gap. A gap with a witnessed record behind it is loss; a gap
//! with nothing witnessed behind it is where a tail was cut.
//!
//! A record is skipped iff its txg ≤ `log_txg` or its dseq ≤ `replay_dseq` of the dataset's root (rules F1). Skipped
//! records still count as present.

use std::collections::BTreeMap;

use tally_base::{DatasetId, Dseq, LaneId, Lsn, Txg};

use super::scan::{LaneScan, RecoveredRecord, Verdict};

/// What a dataset's root says of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Records of transaction groups up to here are in the trees.
    pub log_txg: Txg,
    /// Records up to here are in the trees, from an unfinished replay.
    pub replay_dseq: Dseq,
    /// The lowest dseq that may be live, where the pool knows it: the first record must not be above it. `None`: the
    /// history begins wherever the lanes' tails are.
    pub next_dseq: Option<Dseq>,
}

/// How one dataset's history ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatasetVerdict {
    /// Each record follows the one before, from the cursor on.
    Whole,
    /// Ends at a gap behind which nothing was acknowledged.
    Cut {
        /// The last record before the gap.
        after: Dseq,
        /// Records behind it, dropped.
        dropped: u64,
    },
    /// Acknowledged records are gone, or lie behind such.
    Lost {
        /// The first missing record.
        first: Dseq,
        /// The last one before the next that is there.
        last: Dseq,
        /// Records behind the gap, withheld.
        withheld: u64,
    },
    /// No gap to be seen, but a lane with its records has lost some, and nothing says whose they were (rules F26).
    Suspect {
        /// The lane.
        lane: LaneId,
    },
    /// The pool knows no such dataset. Its records are withheld.
    Unknown {
        /// Records of it, none of which is replayed.
        withheld: u64,
    },
}

/// One dataset's share of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetReplay {
    /// What is to be replayed, in order.
    pub records: Vec<RecoveredRecord>,
    /// Records that the trees contain already.
    pub skipped: u64,
    /// Records that were there twice.
    pub duplicates: u64,
    /// Whether records of it are missing, and what of those that are there is withheld for that.
    pub verdict: DatasetVerdict,
}

/// All lanes together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// What each dataset has in the log.
    pub datasets: BTreeMap<DatasetId, DatasetReplay>,
    /// How each lane ended. Datasets at home on a lane that is lost or missing are suspect even if no record of
    /// theirs was found; only the pool knows which they are.
    pub lanes: Vec<(LaneId, Verdict)>,
}

/// One place in a dataset's history with two contents. Nothing may be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "dataset {dataset}: record {dseq} stands in lane {} as {} and in lane {} as {}, with different content; \
     the log was written by two servers or by faulty software",
    .lanes[0].0, .lanes[0].1, .lanes[1].0, .lanes[1].1
)]
pub struct MergeError {
    /// The dataset that the record belongs to.
    pub dataset: DatasetId,
    /// Its number in the dataset, which only one record may have.
    pub dseq: Dseq,
    /// Where the two stand.
    pub lanes: [(LaneId, Lsn); 2],
}

/// Merges the scans of all lanes. `cursor` gives a dataset's cursor; `None`: the pool knows no such dataset.
pub fn merge(scans: Vec<LaneScan>, cursor: &dyn Fn(DatasetId) -> Option<Cursor>) -> Result<Merged, MergeError> {
    let mut histories: BTreeMap<DatasetId, Vec<RecoveredRecord>> = BTreeMap::new();
    let mut lanes = Vec::with_capacity(scans.len());
    for scan in scans {
        for record in scan.records {
            histories.entry(record.head.dataset).or_default().push(record);
        }
        lanes.push((scan.lane, scan.verdict));
    }
    let mut datasets = BTreeMap::new();
    for (dataset, mut records) in histories {
        records.sort_by_key(|record| record.head.dseq);
        let duplicates = drop_duplicates(&mut records)?;
        let mut replay = match cursor(dataset) {
            Some(cursor) => order(records, &cursor, &lanes),
            None => withhold(records.len()),
        };
        replay.duplicates = duplicates;
        datasets.insert(dataset, replay);
    }
    Ok(Merged { datasets, lanes })
}

fn drop_duplicates(records: &mut Vec<RecoveredRecord>) -> Result<u64, MergeError> {
    let count = records.len();
    let mut unequal = None;
    records.dedup_by(|later, kept| {
        if later.head.dseq != kept.head.dseq {
            return false;
        }
        if later.head != kept.head || later.body != kept.body {
            unequal = Some(MergeError {
                dataset: kept.head.dataset,
                dseq: kept.head.dseq,
                lanes: [(kept.lane, kept.lsn), (later.lane, later.lsn)],
            });
        }
        kept.witnessed |= later.witnessed;
        true
    });
    match unequal {
        Some(error) => Err(error),
        None => Ok((count - records.len()) as u64),
    }
}

fn withhold(count: usize) -> DatasetReplay {
    let verdict = DatasetVerdict::Unknown { withheld: count as u64 };
    DatasetReplay { records: Vec::new(), skipped: 0, duplicates: 0, verdict }
}

/// Cuts a sorted history at its first gap above the cursor, and takes out what the trees contain.
fn order(mut records: Vec<RecoveredRecord>, cursor: &Cursor, lanes: &[(LaneId, Verdict)]) -> DatasetReplay {
    let suspect = suspect(&records, cursor, lanes);
    let mut verdict = suspect.map_or(DatasetVerdict::Whole, |lane| DatasetVerdict::Suspect { lane });
    if let Some((at, missing)) = first_gap(&records, cursor) {
        let behind = records.split_off(at);
        let count = behind.len() as u64;
        let next = behind.first().map_or(missing, |record| record.head.dseq);
        verdict = if behind.iter().any(|record| record.witnessed) {
            DatasetVerdict::Lost { first: missing, last: Dseq(next.0.saturating_sub(1)), withheld: count }
        } else {
            DatasetVerdict::Cut { after: Dseq(missing.0.saturating_sub(1)), dropped: count }
        };
    }
    let present = records.len();
    records.retain(|record| record.head.txg > cursor.log_txg && record.head.dseq > cursor.replay_dseq);
    let skipped = (present - records.len()) as u64;
    DatasetReplay { records, skipped, duplicates: 0, verdict }
}

/// Index of the first record behind a gap, and the first dseq that is missing.
fn first_gap(records: &[RecoveredRecord], cursor: &Cursor) -> Option<(usize, Dseq)> {
    let mut expected = cursor.next_dseq.map(|next| next.0.max(cursor.replay_dseq.0.saturating_add(1)));
    for (index, record) in records.iter().enumerate() {
        let dseq = record.head.dseq;
        if let Some(missing) = expected.filter(|expected| dseq.0 > *expected && dseq > cursor.replay_dseq) {
            return Some((index, Dseq(missing)));
        }
        let behind = dseq.0.saturating_add(1);
        expected = Some(expected.map_or(behind, |expected| expected.max(behind)));
    }
    None
}

/// The first lane that lost records which may have been this dataset's: it has records there, but not on both
/// sides of the loss, so that a missing dseq would not show.
fn suspect(records: &[RecoveredRecord], cursor: &Cursor, lanes: &[(LaneId, Verdict)]) -> Option<LaneId> {
    for (lane, verdict) in lanes {
        let Verdict::Lost { ranges } = verdict else { continue };
        let (Some((first, _)), Some((_, last))) = (ranges.first(), ranges.last()) else { continue };
        let mut here = records.iter().filter(|record| record.lane == *lane).peekable();
        if here.peek().is_none() {
            continue;
        }
        let lsns: Vec<Lsn> = here.map(|record| record.lsn).collect();
        let has_before = cursor.next_dseq.is_some() || lsns.iter().any(|lsn| lsn < first);
        let has_behind = lsns.iter().any(|lsn| lsn > last);
        if !has_before || !has_behind {
            return Some(*lane);
        }
    }
    None
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
