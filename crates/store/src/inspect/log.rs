//! The intent log: every lane's ring, frame by frame, and what recovery would make of it.

use std::collections::BTreeMap;

use tally_base::codec::DecodeError;
use tally_base::{DatasetId, LaneId, Lsn, SECTOR, VdevGuid};
use tally_intent::recovery::{
    self, DatasetVerdict, FrameInfo, LaneScan, RecordInfo, RingVisit, Verdict, merge, visit_ring,
};
use tally_intent::{Checkpoint, LaneConfig};
use tally_members::label::LaneConfigLine;

use super::fact::{Fact, Part, Source};
use super::labels::checkpoint_fields;
use super::trees::Root;
use super::view::PoolView;
use super::{Detail, Report, Words};
use crate::pool::cursor_of;

/// One lane while it is looked at.
struct Lane<'a> {
    view: &'a PoolView<'a>,
    line: &'a LaneConfigLine,
    config: LaneConfig,
    checkpoint: Option<Checkpoint>,
    root: Option<&'a Root>,
    words: &'a dyn Words,
    /// Records up to here were durable.
    witness: Lsn,
}

/// What was seen on one leg's ring.
#[derive(Default)]
struct Tally {
    live_frames: u64,
    old_frames: u64,
    records: u64,
    to_replay: u64,
}

/// Every lane, and then every dataset's share of them.
pub(super) fn say_log(report: &mut Report<'_>, view: &PoolView<'_>, root: Option<&Root>, words: &dyn Words) {
    let Some((_, config)) = &view.config else { return };
    let mut scans = Vec::new();
    for line in &config.lanes {
        let Some(config) = view.lane(line) else { continue };
        let checkpoint = checkpoint_of(view, root, line.lane);
        let scan = checkpoint.as_ref().map(|checkpoint| recovery::scan(&config, checkpoint, &mut |_| {}));
        let mut lane = Lane { view, line, config, checkpoint, root, words, witness: Lsn(0) };
        say_lane(report, &lane);
        match scan {
            Some(Ok(scan)) => {
                lane.witness = scan.witness;
                say_ring(report, &lane);
                say_scan(report, &lane, &scan);
                scans.push(scan);
            }
            Some(Err(why)) => {
                say_ring(report, &lane);
                report.say(Detail::Summary, &lane.fact("lane").damaged(why));
            }
            None => {
                say_ring(report, &lane);
                let fact = lane.fact("lane");
                let fact = if view.uberblocks.is_empty() {
                    fact.damaged("no uberblock tells where its live part begins")
                } else {
                    fact.note(
                        "the uberblock does not name it: its device was missing or failed, and nothing in it is needed",
                    )
                };
                report.say(Detail::Summary, &fact);
            }
        }
    }
    if let Some(root) = root {
        say_histories(report, view, root, scans);
    }
}

/// The lane's line in the uberblock whose root could be read, else in the newest one.
fn checkpoint_of(view: &PoolView<'_>, root: Option<&Root>, lane: LaneId) -> Option<Checkpoint> {
    let newest = || view.uberblocks.first().map(|(_, newest)| *newest);
    let uberblock = root.map(|root| &root.uberblock).or_else(newest)?;
    uberblock.lanes.iter().find(|(id, _)| *id == lane).map(|(_, checkpoint)| *checkpoint)
}

impl Lane<'_> {
    fn fact(&self, what: &'static str) -> Fact {
        let source = self.view.ring_source(self.line, None, 0);
        Fact::new(Part::Log, what).at(source).with("lane", self.line.lane)
    }

    fn source(&self, leg: VdevGuid, offset: u64) -> Option<Source> {
        self.view.ring_source(self.line, Some(leg), offset)
    }
}

fn say_lane(report: &mut Report<'_>, lane: &Lane<'_>) {
    let fact = lane.fact("lane").with("bytes", lane.line.size).with("legs", lane.config.legs.len());
    let fact = fact.with("legset_gen", lane.line.legset_gen);
    let fact = match &lane.checkpoint {
        Some(checkpoint) => checkpoint_fields(fact, checkpoint),
        None => fact,
    };
    report.say(Detail::Summary, &fact);
}

fn say_ring(report: &mut Report<'_>, lane: &Lane<'_>) {
    let mut tallies: BTreeMap<VdevGuid, Tally> = BTreeMap::new();
    // A device that has failed altogether would otherwise fill the screen, sector by sector.
    let mut unreadable: BTreeMap<VdevGuid, (u64, u64)> = BTreeMap::new();
    visit_ring(&lane.config, lane.checkpoint.as_ref(), &mut |visit| match visit {
        RingVisit::Frame(frame) => say_frame(report, lane, tallies.entry(frame.leg).or_default(), frame),
        RingVisit::Unreadable { leg, offset } => unreadable.entry(leg).or_insert((offset, 0)).1 += 1,
    });
    for (leg, (offset, count)) in unreadable {
        let fact = Fact::new(Part::Log, "ring").at(lane.source(leg, offset)).with("lane", lane.line.lane);
        let bytes = count * SECTOR as u64;
        report.say(Detail::Summary, &fact.with("bytes", bytes).damaged("the device does not give these sectors"));
    }
    for leg in &lane.config.legs {
        let tally = tallies.remove(&leg.guid).unwrap_or_default();
        let fact = Fact::new(Part::Log, "ring")
            .at(lane.source(leg.guid, 0))
            .with("lane", lane.line.lane)
            .with("live_frames", tally.live_frames)
            .with("old_frames", tally.old_frames)
            .with("records", tally.records)
            .with_some("to_replay", lane.root.map(|_| tally.to_replay));
        report.say(Detail::Summary, &fact);
    }
}

fn say_frame(report: &mut Report<'_>, lane: &Lane<'_>, tally: &mut Tally, frame: &FrameInfo) {
    let header = &frame.header;
    let fact = Fact::new(Part::Log, if header.is_seal() { "seal" } else { "frame" })
        .at(lane.source(frame.leg, frame.offset))
        .with("lane", header.lane)
        .with("live", frame.is_live)
        .with("pos", header.pos)
        .with("seq", header.seq)
        .with("bytes", header.frame_bytes())
        .with("records", header.record_count)
        .with("first_lsn", header.first_lsn)
        .with("durable_lsn", header.durable_lsn)
        .with("synced_txg", header.synced_txg)
        .with("txg_max", header.txg_max)
        .with("legset_gen", header.legset_gen);
    if !frame.is_live {
        tally.old_frames += 1;
        return report.say(Detail::Verbose, &fact.with("epoch", format!("{:032x}", header.epoch)));
    }
    tally.live_frames += 1;
    if frame.is_sound {
        report.say(Detail::Lines, &fact);
    } else if header.first_lsn <= lane.witness {
        report.say(Detail::Summary, &fact.damaged("its records do not have the checksum that its header tells"));
    } else {
        report.say(Detail::Summary, &fact.note("torn: its records did not arrive, and nobody was promised them"));
    }
    for record in &frame.records {
        tally.records += 1;
        say_record(report, lane, tally, frame, record);
    }
}

fn say_record(report: &mut Report<'_>, lane: &Lane<'_>, tally: &mut Tally, frame: &FrameInfo, record: &RecordInfo) {
    let head = &record.head;
    let replayed = lane.root.map(|root| {
        let cursor = cursor_of(&root.top, head.dataset);
        cursor.is_none_or(|cursor| head.txg > cursor.log_txg && head.dseq > cursor.replay_dseq)
    });
    tally.to_replay += u64::from(replayed == Some(true));
    let source = lane.source(frame.leg, record.offset);
    let words = lane.words.record(head, &record.body);
    if words.is_ok() && !report.shows(Part::Log, Detail::Lines) {
        return;
    }
    let fact = Fact::new(Part::Log, "record")
        .at(source.clone())
        .with("lsn", record.lsn)
        .with("dataset", head.dataset)
        .with("dseq", head.dseq)
        .with("txg", head.txg)
        .with_some("replay", replayed)
        .with_some("form", (head.shape.form != 0).then_some(head.shape.form))
        .with("bytes", record.body.len());
    if let Some(what) = lane.words.newer(head) {
        let fact = fact.with("kind", head.kind).with("flags", head.shape.flags);
        report.say(Detail::Lines, &fact.note(format!("{what}, which only a newer program knows")));
        return;
    }
    match words {
        Ok(words) => {
            report.say(Detail::Lines, &fact.with_all(words.fields));
            for (what, fields) in words.parts {
                report.say(Detail::Verbose, &Fact::new(Part::Log, what).at(source.clone()).with_all(fields));
            }
        }
        Err(why @ DecodeError::Newer(_)) => report.say(Detail::Lines, &fact.with("kind", head.kind).note(why)),
        Err(why @ DecodeError::Malformed(_)) => report.say(Detail::Lines, &fact.with("kind", head.kind).damaged(why)),
    }
}

fn say_scan(report: &mut Report<'_>, lane: &Lane<'_>, scan: &LaneScan) {
    for remark in &scan.anomalies {
        report.say(Detail::Summary, &lane.fact("lane").note(remark));
    }
    for fault in &scan.leg_faults {
        let fact = Fact::new(Part::Log, "ring").at(lane.source(fault.leg, 0)).with("lane", scan.lane);
        let fact = fact.with("frames", fault.frame_count);
        report.say(
            Detail::Summary,
            &fact.damaged("acknowledged frames are missing or damaged here; another leg has them"),
        );
    }
    let chosen = lane.root.map(|root| root.uberblock.txg);
    if chosen.is_some_and(|txg| scan.max_synced_txg > txg) {
        let fact = lane.fact("lane").with("synced_txg", scan.max_synced_txg);
        report
            .say(Detail::Summary, &fact.damaged("a frame tells of a newer uberblock than the one that could be used"));
    }
    let fact = lane.fact("lane content").with("frames", scan.frames).with("bytes", scan.bytes);
    let fact = fact.with("records", scan.records.len()).with("witness", scan.witness);
    match &scan.verdict {
        Verdict::Empty => report.say(Detail::Summary, &fact.with("verdict", "empty")),
        Verdict::Cut { last, dropped_frames } => {
            let fact = fact.with("verdict", "whole").with("last_lsn", *last).with("dropped_frames", *dropped_frames);
            report.say(Detail::Summary, &fact);
        }
        Verdict::Missing => report.say(Detail::Summary, &fact.damaged("no device of this lane is given")),
        Verdict::Lost { ranges } => {
            report.say(Detail::Summary, &fact.with("verdict", "lost"));
            for (first, last) in ranges {
                let fact = lane.fact("lane").with("first_lsn", *first).with("last_lsn", *last);
                let is_unread = scan.unread_behind.is_some_and(|behind| *first > behind);
                let why = if is_unread { "what is here cannot be read" } else { "acknowledged records are gone" };
                report.say(Detail::Summary, &fact.damaged(why));
            }
        }
    }
}

/// What each dataset would get from all lanes.
fn say_histories(report: &mut Report<'_>, view: &PoolView<'_>, root: &Root, scans: Vec<LaneScan>) {
    let source = view.config.as_ref().map(|(source, _)| source.clone());
    let merged = match merge(scans, &|id| cursor_of(&root.top, id)) {
        Ok(merged) => merged,
        Err(why) => return report.say(Detail::Summary, &Fact::new(Part::Log, "log").at(source).damaged(why)),
    };
    for (id, replay) in &merged.datasets {
        let fact = Fact::new(Part::Log, "dataset's log")
            .at(root.source.clone())
            .with("dataset", *id)
            .with_some("name", root.name_of(*id))
            .with("to_replay", replay.records.len())
            .with("in_the_tree", replay.skipped)
            .with("duplicates", replay.duplicates);
        report.say(Detail::Summary, &judged(fact, &replay.verdict, *id));
    }
}

fn judged(fact: Fact, verdict: &DatasetVerdict, id: DatasetId) -> Fact {
    match verdict {
        DatasetVerdict::Whole => fact.with("verdict", "whole"),
        DatasetVerdict::Cut { after, dropped } => {
            fact.with("verdict", "cut").with("after_dseq", *after).with("dropped", *dropped)
        }
        DatasetVerdict::Suspect { lane } => {
            fact.with("verdict", "suspect").note(format!("lane {lane} has lost records, and nothing tells whose"))
        }
        DatasetVerdict::Lost { first, last, withheld } => fact
            .with("first_dseq", *first)
            .with("last_dseq", *last)
            .with("withheld", *withheld)
            .damaged("acknowledged changes are gone"),
        DatasetVerdict::Unknown { withheld } => {
            fact.with("withheld", *withheld).damaged(format!("the pool root knows no dataset {id}"))
        }
    }
}
