//! What an import finds in the log: which records are to be replayed, which are gone, and what is told of both.
//!
//! The lanes are scanned and merged by [`tally_intent::recovery`], which knows numbers alone. Here they get the names of
//! datasets and disks, and become sentences: remarks for what can be lived with, losses for what was acknowledged.

use std::collections::BTreeMap;

use tally_base::{DatasetId, Dseq, LaneId, Lsn, Txg};
use tally_intent::recovery::{
    self, Cursor, DatasetReplay, DatasetVerdict, Disowned, LaneScan, Merged, RecordInfo, Verdict,
};
use tally_members::choose::Chosen;
use tally_members::label::{LaneConfigLine, PoolConfig};
use tally_members::roster::Roster;
use tally_members::uberblock::Uberblock;

use super::catalog::Top;
use super::lanes::home_among;
use super::open::OpenError;
use super::rewind::GoneBack;
use crate::dataset::DatasetEntry;

/// What the log holds at import.
#[derive(Debug, Default)]
pub struct LogContent {
    /// Each dataset's records, in order.
    pub datasets: BTreeMap<DatasetId, DatasetReplay>,
    /// Frames and their bytes.
    pub frames: u64,
    /// Bytes of those frames, headers and padding included.
    pub bytes: u64,
    /// What else was noticed, for the import's report.
    pub remarks: Vec<String>,
    /// Acknowledged changes that are gone, one line each.
    pub losses: Vec<String>,
    /// Where the import went back to, if it did.
    pub gone_back: Option<GoneBack>,
    /// Records that were given up with the groups behind that, and are in the log still.
    pub dropped: BTreeMap<(DatasetId, Dseq), RecordInfo>,
}

/// Scans and merges all lanes. Also gives the newest group that any frame belongs to or has seen.
pub(super) fn read_log(
    roster: &Roster,
    uberblock: &Uberblock,
    chosen: &Chosen,
    top: &Top,
    progress: &mut dyn FnMut(u64),
) -> Result<(LogContent, Txg), OpenError> {
    let mut content = LogContent::default();
    let mut seen = Txg(0);
    let mut scans: Vec<LaneScan> = Vec::new();
    let config = roster.config();
    for line in &config.lanes {
        let lane = roster.lane_config(line);
        let checkpoint =
            uberblock.lanes.iter().find(|(named, _)| *named == line.lane).map(|(_, checkpoint)| checkpoint);
        let who = format!("lane {} of the intent log", line.lane);
        chosen.witness(recovery::synced_at_the_beginning(&lane), &who)?;
        if lane.legs.is_empty() {
            note_missing(&mut content, &config, line, uberblock, checkpoint.map(|_| top));
        }
        // A lane that the uberblock does not name has nothing that could be needed: see `lanes`.
        let Some(checkpoint) = checkpoint.filter(|_| !lane.legs.is_empty()) else { continue };
        let before = content.bytes;
        let mut scan = recovery::scan(&lane, checkpoint, &mut |bytes| progress(before + bytes))?;
        chosen.witness(scan.max_synced_txg, &who)?;
        seen = seen.max(scan.max_txg).max(scan.max_synced_txg);
        content.frames += scan.frames;
        content.bytes += scan.bytes;
        note_lane(&mut content, &config, line.lane, &scan);
        // A dataset is durable before it takes records, so one that is not in the catalog was destroyed by then: a record of
        // it may have waited for company until its tombstone was gone.
        scan.records.retain(|record| record.head.txg > uberblock.txg || is_known(top, record.head.dataset));
        scans.push(scan);
    }
    let merged = recovery::merge(scans, &|id| cursor_of(top, id))?;
    for (id, replay) in &merged.datasets {
        note_dataset(&mut content, top, *id, &replay.verdict);
    }
    note_suspects(&mut content, top, uberblock, &merged);
    content.datasets = merged.datasets;
    Ok((content, seen))
}

/// A lane without a disk (row i of the decision table). It is a loss if the uberblock names it, unless that is the one of
/// an export. Nobody knows then what was in it: every dataset that was at home there is suspect (rules F26).
fn note_missing(
    content: &mut LogContent,
    config: &PoolConfig,
    line: &LaneConfigLine,
    uberblock: &Uberblock,
    named_in: Option<&Top>,
) {
    let vdev = config.vdev(line.vdev);
    // One that has left the set may be there, and is no help.
    let legs = vdev.into_iter().flat_map(|vdev| &vdev.legs).filter(|leg| line.legset.contains(&leg.guid));
    let paths = legs.map(|leg| leg.path.display().to_string());
    let device = paths.collect::<Vec<_>>().join(" and ");
    match named_in.filter(|_| !uberblock.clean) {
        None => content.remarks.push(format!(
            "{device} is missing: nothing is lost, but changes wait for transaction groups until `tally pool replace` gives \
             the intent log another device"
        )),
        Some(top) => {
            let open: Vec<_> = uberblock.lanes.iter().map(|(lane, _)| *lane).collect();
            let is_at_home = |entry: &DatasetEntry| home_among(&open, entry.birth.lane, entry.birth.id) == line.lane;
            let suspect = top.named().filter(|(entry, _)| entry.root.logged && is_at_home(entry));
            let names: Vec<_> = suspect.filter_map(|(_, name)| name).collect();
            content.losses.push(format!(
                "the log device {device} is missing: what was acknowledged after transaction group {} in {} is on no \
                 other disk",
                uberblock.txg,
                if names.is_empty() { "no dataset".to_owned() } else { names.join(", ") }
            ));
        }
    }
}

fn is_known(top: &Top, id: DatasetId) -> bool {
    top.root.tombstones.contains_key(&id) || top.find(id).is_some()
}

/// Which of a dataset's records are still to be replayed (rules F1, F13, F18).
pub(crate) fn cursor_of(top: &Top, id: DatasetId) -> Option<Cursor> {
    let all_skipped = Cursor { log_txg: Txg(u64::MAX), replay_dseq: Dseq(0), next_dseq: None };
    if top.root.tombstones.contains_key(&id) {
        return Some(all_skipped);
    }
    let found = &top.find(id)?.root;
    if !found.logged {
        return Some(all_skipped);
    }
    let before_log = Txg(found.log_from.0.saturating_sub(1));
    Some(Cursor { log_txg: top.root.log_txg.max(before_log), replay_dseq: found.replay_dseq, next_dseq: None })
}

fn note_lane(content: &mut LogContent, config: &PoolConfig, lane: LaneId, scan: &LaneScan) {
    content.remarks.extend(scan.anomalies.iter().map(|remark| format!("lane {lane}: {remark}")));
    for fault in &scan.leg_faults {
        content.remarks.push(format!(
            "lane {lane}: {} frames were repaired from another leg than {}",
            fault.frame_count, fault.leg
        ));
    }
    if let Some(Disowned { leg, first, last }) = scan.disowned {
        let path = config.leg(leg).map_or_else(|| leg.to_string(), |(_, leg)| leg.path.display().to_string());
        content.losses.push(format!(
            "lane {lane}: records {first}-{last} stand on {path} alone, which had been struck off before they were written: \
             they may have been acknowledged, and no disk that counts has them"
        ));
    }
    if let Some(last) = scan.unread_behind {
        content.losses.push(format!(
            "lane {lane}: what follows record {last} cannot be read on any of its devices, and may have been acknowledged: \
             import again when they answer"
        ));
    }
    if let Some(contradiction) = scan.contradiction {
        content.losses.push(format!("lane {lane}: {contradiction}"));
    }
    match &scan.verdict {
        Verdict::Empty | Verdict::Cut { .. } => {}
        Verdict::Lost { ranges } => {
            // What the disks do not show may be there once they answer.
            let is_gone = |(first, _): &&(Lsn, Lsn)| scan.unread_behind.is_none_or(|last| *first <= last);
            let ranges: Vec<_> = ranges.iter().filter(is_gone).map(|(first, last)| format!("{first}-{last}")).collect();
            if !ranges.is_empty() {
                content.losses.push(format!("lane {lane}: records {} are gone", ranges.join(", ")));
            }
        }
        // The caller knows more about it.
        Verdict::Missing => {}
    }
}

/// Datasets that a lane's loss may have cost something, without a gap to tell (rules F26): those with records on one side of it
/// only, and those at home there of which no record is left.
fn note_suspects(content: &mut LogContent, top: &Top, uberblock: &Uberblock, merged: &Merged) {
    let open: Vec<_> = uberblock.lanes.iter().map(|(lane, _)| *lane).collect();
    for (lane, _) in merged.lanes.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Lost { .. })) {
        let is_suspect = |entry: &DatasetEntry| match merged.datasets.get(&entry.birth.id) {
            Some(replay) => replay.verdict == DatasetVerdict::Suspect { lane: *lane },
            None => entry.root.logged && home_among(&open, entry.birth.lane, entry.birth.id) == *lane,
        };
        let suspects = top.named().filter(|(entry, _)| is_suspect(entry));
        let suspects: Vec<_> = suspects.filter_map(|(_, name)| name).collect();
        if !suspects.is_empty() {
            content.losses.push(format!(
                "lane {lane}: nothing tells whose records are gone; they may have been of {}",
                suspects.join(", ")
            ));
        }
    }
}

fn note_dataset(content: &mut LogContent, top: &Top, id: DatasetId, verdict: &DatasetVerdict) {
    let name = top.name_of(id).unwrap_or("(unknown)");
    match verdict {
        DatasetVerdict::Whole | DatasetVerdict::Suspect { .. } => {}
        DatasetVerdict::Cut { after, dropped } => {
            content.remarks.push(format!("{name}: {dropped} unacknowledged records behind {after} were dropped"));
        }
        DatasetVerdict::Lost { first, last, withheld } => {
            content
                .losses
                .push(format!("{name}: changes {first}-{last} are gone, {withheld} behind them are withheld"));
        }
        DatasetVerdict::Unknown { withheld } => {
            content.losses.push(format!("dataset {id}: {withheld} records of a dataset that the pool does not know"));
        }
    }
}
