use super::*;
use bytes::Bytes;

use crate::frame::RecordHead;

const DATASET: DatasetId = DatasetId(1);

/// A record's LSN, dseq and transaction group.
type Numbers = (u64, u64, u64);

/// A lane's scan, witnessed up to `witness`.
fn lane(id: u64, witness: u64, records: &[Numbers]) -> LaneScan {
    let record = |&(lsn, dseq, txg): &Numbers| RecoveredRecord {
        lane: LaneId(id),
        lsn: Lsn(lsn),
        head: RecordHead { dataset: DATASET, dseq: Dseq(dseq), txg: Txg(txg), kind: 1, shape: Default::default() },
        body: Bytes::from(format!("record {dseq}")),
        witnessed: lsn <= witness,
    };
    LaneScan {
        lane: LaneId(id),
        records: records.iter().map(record).collect(),
        max_txg: Txg(0),
        max_synced_txg: Txg(0),
        witness: Lsn(witness),
        verdict: Verdict::Cut { last: Lsn(0), dropped_frames: 0 },
        leg_faults: Vec::new(),
        disowned: None,
        unread_behind: None,
        contradiction: None,
        anomalies: Vec::new(),
        frames: 0,
        bytes: 0,
    }
}

fn cursor(log_txg: u64, replay_dseq: u64, next_dseq: Option<u64>) -> Cursor {
    Cursor { log_txg: Txg(log_txg), replay_dseq: Dseq(replay_dseq), next_dseq: next_dseq.map(Dseq) }
}

/// Merges, and gives the dseqs to replay, what was skipped, and the verdict.
fn merged(scans: Vec<LaneScan>, cursor: Cursor) -> (Vec<u64>, u64, DatasetVerdict) {
    let mut merged = merge(scans, &|_| Some(cursor)).expect("no contradiction");
    let replay = merged.datasets.remove(&DATASET).expect("the dataset has records");
    (replay.records.iter().map(|record| record.head.dseq.0).collect(), replay.skipped, replay.verdict)
}

#[test]
fn verdict_whole_lanes_are_merged_by_dseq() {
    let scans = vec![lane(0, 9, &[(1, 10, 5), (2, 12, 5)]), lane(1, 9, &[(1, 11, 5), (2, 13, 6)])];
    assert_eq!(merged(scans, cursor(4, 0, None)), (vec![10, 11, 12, 13], 0, DatasetVerdict::Whole));
}

#[test]
fn verdict_whole_what_the_trees_contain_is_skipped_and_still_counts_as_present() {
    let records = [(1, 10, 5), (2, 11, 4), (3, 12, 5), (4, 13, 6)];
    assert_eq!(
        merged(vec![lane(0, 4, &records)], cursor(4, 10, Some(10))),
        (vec![12, 13], 2, DatasetVerdict::Whole),
        "10 by its dseq, 11 by its txg"
    );
}

#[test]
fn verdict_cut_a_gap_with_nothing_witnessed_behind_it() {
    let scans = vec![lane(0, 1, &[(1, 10, 5), (2, 12, 5), (3, 13, 5)])];
    let verdict = DatasetVerdict::Cut { after: Dseq(10), dropped: 2 };
    assert_eq!(merged(scans, cursor(4, 0, None)), (vec![10], 0, verdict));
}

#[test]
fn verdict_lost_a_gap_with_a_witnessed_record_behind_it() {
    let scans = vec![lane(0, 3, &[(1, 10, 5), (2, 13, 5), (3, 14, 5)])];
    let verdict = DatasetVerdict::Lost { first: Dseq(11), last: Dseq(12), withheld: 2 };
    assert_eq!(merged(scans, cursor(4, 0, None)), (vec![10], 0, verdict));
}

#[test]
fn verdict_lost_a_history_that_begins_too_late() {
    let scans = vec![lane(0, 3, &[(1, 10, 5)])];
    let verdict = DatasetVerdict::Lost { first: Dseq(8), last: Dseq(9), withheld: 1 };
    assert_eq!(merged(scans, cursor(4, 0, Some(8))), (vec![], 0, verdict));
}

#[test]
fn verdict_whole_a_gap_below_the_replay_cursor_is_none() {
    for next in [Some(9), None] {
        let scans = vec![lane(0, 3, &[(1, 10, 5), (2, 12, 5), (3, 13, 5)])];
        assert_eq!(merged(scans, cursor(4, 12, next)), (vec![13], 2, DatasetVerdict::Whole), "{next:?}");
    }
}

#[test]
fn case_o_equal_duplicates_are_one_and_unequal_ones_stop_the_import() {
    let twice = || vec![lane(0, 2, &[(1, 10, 5), (2, 11, 5)]), lane(1, 2, &[(1, 11, 5), (2, 12, 5)])];
    assert_eq!(merged(twice(), cursor(4, 0, None)).0, [10, 11, 12]);
    let mut unequal = twice();
    unequal[1].records[0].body = Bytes::from_static(b"something else");
    let error = merge(unequal, &|_| Some(cursor(4, 0, None))).unwrap_err();
    assert_eq!((error.dataset, error.dseq), (DATASET, Dseq(11)));
    assert!(error.to_string().contains("lane 0 as 2 and in lane 1 as 1"), "{error}");
}

#[test]
fn verdict_unknown_its_records_are_withheld() {
    let merged = merge(vec![lane(0, 2, &[(1, 10, 5)])], &|_| None).expect("no contradiction");
    let replay = &merged.datasets[&DATASET];
    assert_eq!((replay.records.len(), &replay.verdict), (0, &DatasetVerdict::Unknown { withheld: 1 }));
}

#[test]
fn verdict_suspect_a_loss_that_may_have_been_anybodys_unless_the_history_goes_on_behind_it() {
    let cases: [(&[Numbers], Option<u64>, DatasetVerdict); 4] = [
        (&[(1, 10, 5), (4, 11, 5)], None, DatasetVerdict::Whole),
        (&[(1, 10, 5)], None, DatasetVerdict::Suspect { lane: LaneId(0) }),
        (&[(4, 11, 5)], None, DatasetVerdict::Suspect { lane: LaneId(0) }),
        (&[(4, 11, 5)], Some(11), DatasetVerdict::Whole),
    ];
    for (records, next, expected) in cases {
        let mut scan = lane(0, 3, records);
        scan.verdict = Verdict::Lost { ranges: vec![(Lsn(2), Lsn(3))] };
        assert_eq!(merged(vec![scan], cursor(4, 0, next)).2, expected, "{records:?}, {next:?}");
    }
}
