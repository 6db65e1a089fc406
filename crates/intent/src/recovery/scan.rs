//! Walks one lane from its tail to its end, and decides what that end means (see `decide`).
//!
//! At each place every leg of the set is read, one good copy is taken, and the others are compared. Where no
//! leg has the next frame, the window behind it is searched on every leg for later headers: at most K frames
//! were in flight, none longer than Fmax, so whatever could bear witness lies in there. After a loss the walk goes
//! on behind it, because datasets without a gap can still be replayed (rules F26).

use bytes::Bytes;
use tally_base::{LaneId, Lsn, Txg, VdevGuid};

use super::decide::{Damage, Ending, Evidence, Expected, Here, Impossible, Resume, choose, ending};
use super::leg::{AtPlace, Identity, LegReader};
use crate::checkpoint::Checkpoint;
use crate::config::LaneConfig;
use crate::frame::{FrameHeader, RecordHead, decode_records};
use crate::ring::LaneGeometry;

/// How often the caller hears of progress.
const PROGRESS_BYTES: u64 = 4 << 20;
/// Remarks beyond this many are only counted: damage may be everywhere.
const ANOMALIES_MAX: usize = 64;

/// Frames beyond this many on a leg outside the set are not looked at: what stands there is lost in any case.
const DISOWNED_MAX: usize = 1 << 16;

/// A record as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredRecord {
    /// Where it was found.
    pub lane: LaneId,
    /// Its number in that lane.
    pub lsn: Lsn,
    /// Its dataset, its number in that, and its group.
    pub head: RecordHead,
    /// What only the dataset can read.
    pub body: Bytes,
    /// Whether a later frame or the uberblock witnesses that it was durable.
    pub witnessed: bool,
}

/// How a lane ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There was nothing live.
    Empty,
    /// All that was acknowledged is there; behind it is at most a tail that nobody was promised.
    Cut {
        /// The last record that is there; none before it is missing.
        last: Lsn,
        /// Frames behind the cut that had arrived before an earlier one.
        dropped_frames: u64,
    },
    /// Records that were acknowledged are gone.
    Lost {
        /// Ranges of LSNs, both ends included.
        ranges: Vec<(Lsn, Lsn)>,
    },
    /// No leg of the set is present.
    Missing,
}

/// Rot of one leg that another one could make good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegFault {
    /// The one whose frames were made good.
    pub leg: VdevGuid,
    /// Acknowledged frames that it does not have, or has damaged.
    pub frame_count: u64,
}

/// Records that stand on a leg behind the last generation of the set that it belonged to. Such a frame was written by a
/// lane that no longer knew which legs the labels name, and it may have been acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disowned {
    /// The one on which they stand.
    pub leg: VdevGuid,
    /// The first of them that no leg of the set has.
    pub first: Lsn,
    /// The last that was seen.
    pub last: Lsn,
}

/// What a lane contains.
#[derive(Clone, Debug)]
pub struct LaneScan {
    /// Which lane.
    pub lane: LaneId,
    /// Its records in order, those behind a loss included.
    pub records: Vec<RecoveredRecord>,
    /// The newest transaction group of any record seen: no number up to here is used again (rules F1).
    pub max_txg: Txg,
    /// The newest uberblock that any frame has seen. If the chosen one is older, the pool was rolled back and must
    /// not fall back by itself (row n, rules F8).
    pub max_synced_txg: Txg,
    /// W: every record up to here was durable.
    pub witness: Lsn,
    /// Whether all that was acknowledged is there.
    pub verdict: Verdict,
    /// Rot that was made good.
    pub leg_faults: Vec<LegFault>,
    /// A leg outside the set on which the log went on (row v).
    pub disowned: Option<Disowned>,
    /// The record behind which nothing can be read on any leg (row w). What may be there is among the losses.
    pub unread_behind: Option<Lsn>,
    /// The first place at which the ring contradicts itself (rows q, t and u). What was behind it is among the losses.
    pub contradiction: Option<Contradiction>,
    /// Remarks for the import's report.
    pub anomalies: Vec<String>,
    /// Frames taken.
    pub frames: u64,
    /// Bytes of those frames.
    pub bytes: u64,
}

/// What stands in a ring and cannot be, whoever had it: a defect of what wrote it. What it hides is a loss, since
/// nobody else can have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// Row q.
    #[error(
        "the frame at position {pos} continues the log under another epoch; the log was written by faulty software"
    )]
    TwoEpochs {
        /// Its position, which grows over all laps of the ring.
        pos: u64,
    },
    /// Row t: a frame with a sound checksum whose numbers do not fit what stands before it.
    #[error(
        "the numbers of the frame at position {pos} do not continue those before it; the log was written by faulty software"
    )]
    Misnumbered {
        /// Its position, which grows over all laps of the ring.
        pos: u64,
    },
    /// Row u: a frame with a sound checksum whose records do not parse.
    #[error(
        "the frame at position {pos} is sound but its records are malformed; the log was written by faulty software"
    )]
    Malformed {
        /// Its position, which grows over all laps of the ring.
        pos: u64,
    },
}

/// Nothing of the lane may be replayed, and no word of an operator makes it right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// Row g.
    #[error(
        "lane {lane}: two different valid frames at position {pos}; two servers had this log open: import one leg alone"
    )]
    TwoWriters {
        /// Which lane.
        lane: LaneId,
        /// Its position, which grows over all laps of the ring.
        pos: u64,
    },
    /// The configuration cannot be right.
    #[error("lane {lane}: {problem}")]
    Geometry {
        /// Which lane.
        lane: LaneId,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Reads a lane. Changes nothing. `progress` hears of the bytes walked so far.
pub fn scan(
    config: &LaneConfig,
    checkpoint: &Checkpoint,
    progress: &mut dyn FnMut(u64),
) -> Result<LaneScan, ScanError> {
    config.geometry.validate().map_err(|problem| ScanError::Geometry { lane: config.lane, problem })?;
    let mut walk = Walk::new(config, checkpoint);
    if config.legs.is_empty() {
        walk.scan.verdict = Verdict::Missing;
        return Ok(walk.scan);
    }
    let mut reported = 0;
    while walk.step()? {
        if walk.scan.bytes >= reported + PROGRESS_BYTES {
            reported = walk.scan.bytes;
            progress(reported);
        }
    }
    progress(walk.scan.bytes);
    if checkpoint.clean && walk.scan.verdict != Verdict::Empty {
        walk.remark(|| "the pool was exported cleanly, and yet there are frames in the log".to_owned());
    }
    Ok(walk.finish())
}

/// The newest uberblock that the frame at the beginning of the ring has seen, on any leg, stale ones too (row n). Every
/// life of a ring begins there: if the uberblock that began the newest one is gone, the walk looks for an older life
/// and passes the acknowledged frames of the newest by. Of a lane that the chosen uberblock does not name this is all
/// that is heard.
#[must_use]
pub fn synced_at_the_beginning(config: &LaneConfig) -> Txg {
    if config.geometry.validate().is_err() {
        return Txg(0);
    }
    let identity = Identity { pool: config.pool, lane: config.lane, epoch: 0 };
    let legs = config.legs.iter().chain(config.stale_legs.iter().map(|stale| &stale.leg));
    let (geometry, helpers) = (config.geometry, config.helpers);
    let headers = legs.filter_map(|leg| LegReader::new(leg, u64::MAX, geometry, helpers).first_header(&identity));
    headers.map(|header| header.synced_txg).max().unwrap_or(Txg(0))
}

struct Walk<'a> {
    geometry: LaneGeometry,
    identity: Identity,
    legs: Vec<LegReader<'a>>,
    stale: Vec<LegReader<'a>>,
    expected: Expected,
    scan: LaneScan,
    /// For each taken frame that a leg lacks: the leg, and the frame's last LSN.
    missed: Vec<(usize, Lsn)>,
    losses: Vec<(Lsn, Lsn)>,
    /// The pool was exported, and there was nothing in the log.
    is_clean: bool,
    anomalies_unsaid: u64,
}

impl<'a> Walk<'a> {
    fn new(config: &'a LaneConfig, checkpoint: &Checkpoint) -> Self {
        let (geometry, helpers) = (config.geometry, config.helpers);
        let reader = |leg, legset_gen_last| LegReader::new(leg, legset_gen_last, geometry, helpers);
        let stale = &config.stale_legs;
        Self {
            geometry,
            identity: Identity { pool: config.pool, lane: config.lane, epoch: checkpoint.epoch },
            legs: config.legs.iter().map(|leg| reader(leg, u64::MAX)).collect(),
            stale: stale.iter().map(|stale| reader(&stale.leg, stale.legset_gen_last)).collect(),
            expected: Expected {
                pos: geometry.place(checkpoint.tail_pos),
                seq: checkpoint.tail_seq,
                prev: checkpoint.tail_prev,
                lsn: checkpoint.next_lsn,
            },
            scan: LaneScan {
                lane: config.lane,
                records: Vec::new(),
                max_txg: Txg(0),
                max_synced_txg: Txg(0),
                witness: checkpoint.durable_lsn,
                verdict: Verdict::Empty,
                leg_faults: Vec::new(),
                disowned: None,
                unread_behind: None,
                contradiction: None,
                anomalies: Vec::new(),
                frames: 0,
                bytes: 0,
            },
            missed: Vec::new(),
            losses: Vec::new(),
            is_clean: checkpoint.clean,
            anomalies_unsaid: 0,
        }
    }

    /// Judges the next place; `false`: the lane ends here.
    fn step(&mut self) -> Result<bool, ScanError> {
        let expected = self.expected;
        let probes: Vec<AtPlace> = self.legs.iter_mut().map(|leg| leg.look_at(&self.identity, expected.pos)).collect();
        for probe in &probes {
            match probe {
                AtPlace::Sound(header, ..) | AtPlace::PayloadBad(header, _) => self.hear(header),
                // Of another life it may be a newer one.
                AtPlace::OtherEpoch(header) => {
                    self.scan.max_synced_txg = self.scan.max_synced_txg.max(header.synced_txg);
                }
                AtPlace::Absent => {}
            }
        }
        match choose(&probes, &expected) {
            Ok(Here::Frame(index)) => {
                if let Some(AtPlace::Sound(header, hash, payload)) = probes.get(index) {
                    self.note_missed(&probes, header);
                    self.take(header, *hash, payload);
                }
                Ok(true)
            }
            Ok(Here::Damaged(header, hash, damage)) => self.end_or_go_on(Some((header, hash, damage))),
            Ok(Here::Absent) => self.end_or_go_on(None),
            Err(row) => self.contradict(row),
        }
    }

    /// Ends the walk where the ring contradicts itself.
    fn contradict(&mut self, row: Impossible) -> Result<bool, ScanError> {
        let Expected { pos, lsn, .. } = self.expected;
        let contradiction = match row {
            Impossible::TwoWriters => return Err(ScanError::TwoWriters { lane: self.scan.lane, pos }),
            Impossible::TwoEpochs => Contradiction::TwoEpochs { pos },
            Impossible::Misnumbered => Contradiction::Misnumbered { pos },
        };
        self.scan.contradiction.get_or_insert(contradiction);
        // Heard for their numbers: none of them is given out again.
        self.look_ahead();
        self.lose(lsn, self.scan.witness.max(lsn));
        Ok(false)
    }

    /// Takes in what a header says, whatever becomes of its frame.
    fn hear(&mut self, header: &FrameHeader) {
        self.scan.witness = self.scan.witness.max(header.durable_lsn);
        self.scan.max_txg = self.scan.max_txg.max(header.txg_max);
        self.scan.max_synced_txg = self.scan.max_synced_txg.max(header.synced_txg);
    }

    fn note_missed(&mut self, probes: &[AtPlace], header: &FrameHeader) {
        // Nothing witnesses a seal, so nobody knows whether a leg ever had it.
        if header.is_seal() {
            return;
        }
        let last = Lsn(header.lsn_end().0.saturating_sub(1));
        let missed = probes.iter().enumerate().filter(|(_, probe)| !matches!(probe, AtPlace::Sound(..)));
        self.missed.extend(missed.map(|(index, _)| (index, last)));
    }

    /// Takes a frame's records, and expects the next frame behind it.
    fn take(&mut self, header: &FrameHeader, hash: u64, payload: &Bytes) {
        let (lane, records) = (self.scan.lane, &mut self.scan.records);
        let count_before = records.len();
        let decoded = decode_records(header, payload, |lsn, head, body| {
            records.push(RecoveredRecord { lane, lsn, head, body: payload.slice(body), witnessed: false });
        });
        if decoded.is_err() {
            records.truncate(count_before);
            self.scan.contradiction.get_or_insert(Contradiction::Malformed { pos: header.pos });
            self.lose(header.first_lsn, Lsn(header.lsn_end().0.saturating_sub(1)).max(header.first_lsn));
        }
        self.scan.frames += 1;
        self.scan.bytes += header.frame_bytes();
        self.expect_behind(Expected {
            pos: header.pos + header.frame_bytes(),
            seq: header.seq + 1,
            prev: hash,
            lsn: header.lsn_end(),
        });
    }

    fn expect_behind(&mut self, mut expected: Expected) {
        expected.pos = self.geometry.place(expected.pos);
        self.expected = expected;
    }

    fn end_or_go_on(&mut self, damaged: Option<(FrameHeader, u64, Damage)>) -> Result<bool, ScanError> {
        let expected = self.expected;
        let (later, later_count) = self.look_ahead();
        if self.scan.witness >= expected.lsn && self.repair() {
            return Ok(true);
        }
        let evidence = Evidence {
            expected,
            damaged: damaged.map(|(header, hash, _)| (header, hash)),
            later,
            witness: self.scan.witness,
            has_begun: self.scan.frames > 0 || !self.losses.is_empty(),
            is_unread: damaged.is_none() && later.is_none() && !self.is_clean && self.is_unreadable(),
        };
        let ending = match ending(&evidence) {
            Ok(ending) => ending,
            Err(row) => return self.contradict(row),
        };
        match ending {
            Ending::Unread => self.leave_unread(),
            Ending::Empty => self.scan.verdict = Verdict::Empty,
            Ending::Cut => self.cut(damaged.is_some_and(|(.., damage)| damage == Damage::Chain), later_count),
            Ending::Bridge(next) => {
                self.remark(|| format!("frame {} is gone, but it held no record", expected.seq));
                self.expected = next;
                return Ok(true);
            }
            Ending::Lost { first, last, go_on } => {
                self.lose(first, last);
                match go_on {
                    Some(Resume::At(next)) => self.expected = next,
                    Some(Resume::Behind(next)) => self.expect_behind(next),
                    None => return Ok(false),
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The first sound header behind the expected place, on any leg, and how many there are; hears all of them.
    /// Stops early once it is clear that the expected frame was lost: the walk will come by the others.
    fn look_ahead(&mut self) -> (Option<FrameHeader>, u64) {
        self.look_for_disowned();
        let Self { geometry, identity, expected, .. } = *self;
        let (mut first, mut count): (Option<FrameHeader>, u64) = (None, 0);
        let mut distance = 0;
        while distance < geometry.window_bytes() {
            let pos = expected.pos.saturating_add(distance);
            distance += tally_base::SECTOR as u64;
            if geometry.place(pos) != pos {
                continue;
            }
            let legs = self.legs.iter_mut().chain(&mut self.stale);
            let headers: Vec<_> = legs.filter_map(|leg| leg.header(&identity, pos)).collect();
            let headers = headers.iter().filter(|(header, _)| header.epoch == identity.epoch);
            let Some(header) = headers.map(|(header, _)| *header).find(|header| header.seq > expected.seq) else {
                continue;
            };
            self.hear(&header);
            first = first.or(Some(header));
            count += 1;
            if self.scan.witness >= expected.lsn {
                break;
            }
        }
        (first, count)
    }

    /// Row w: whether nothing of the window can be read on any leg of the set. What a cut tears may be unreadable, but that are K
    /// frames, and the window is longer: so it is the disks, and nobody knows what is on them.
    fn is_unreadable(&mut self) -> bool {
        let Self { geometry, expected, .. } = *self;
        let places = (0..geometry.window_bytes()).step_by(tally_base::SECTOR);
        let places = places.map(|distance| expected.pos.saturating_add(distance));
        let mut places = places.filter(|pos| geometry.place(*pos) == *pos);
        let legs = &mut self.legs;
        legs.iter().all(|leg| leg.unreadable_count > 0)
            && places.all(|pos| {
                let is_read = |leg: &mut LegReader<'_>| leg.bytes(geometry.offset(pos), tally_base::SECTOR).is_some();
                !legs.iter_mut().any(is_read)
            })
    }

    fn leave_unread(&mut self) {
        let Expected { lsn, .. } = self.expected;
        self.scan.unread_behind = Some(Lsn(lsn.0 - 1));
        self.losses.push((lsn, self.scan.witness.max(lsn)));
    }

    /// Row v: frames from the expected place on, on a leg that had left the set before they were written.
    fn look_for_disowned(&mut self) {
        let Self { geometry, identity, mut expected, .. } = *self;
        for index in 0..self.stale.len() {
            let Some(stale) = self.stale.get_mut(index) else { return };
            let (leg, gen_last) = (stale.leg.guid, stale.legset_gen_last);
            let mut headers = Vec::new();
            while let Some((header, hash)) = stale.header_of_any_set(&identity, expected.pos)
                && header.epoch == identity.epoch
                && header.seq == expected.seq
                && headers.len() < DISOWNED_MAX
            {
                let pos = geometry.place(header.pos + header.frame_bytes());
                expected = Expected { pos, seq: header.seq + 1, prev: hash, lsn: header.lsn_end() };
                headers.push(header);
            }
            for header in headers.iter().filter(|header| header.legset_gen > gen_last) {
                self.hear(header);
                let (first, last) = (header.first_lsn, Lsn(header.lsn_end().0.saturating_sub(1)));
                let seen = self.scan.disowned.get_or_insert(Disowned { leg, first, last });
                seen.last = seen.last.max(last);
            }
            expected = self.expected;
        }
    }

    /// Row h: a leg that has left the set makes good what was witnessed, in its own generations.
    fn repair(&mut self) -> bool {
        let expected = self.expected;
        for stale in &mut self.stale {
            let probe = stale.look_at(&self.identity, expected.pos);
            let AtPlace::Sound(header, hash, payload) = &probe else { continue };
            if header.seq != expected.seq || header.prev != expected.prev || header.first_lsn != expected.lsn {
                continue;
            }
            let guid = stale.leg.guid;
            self.hear(header);
            self.remark(|| format!("frame {} was taken from leg {guid}, which has left the set", expected.seq));
            self.take(header, *hash, payload);
            return true;
        }
        false
    }

    fn cut(&mut self, is_chain_broken: bool, dropped_frames: u64) {
        let Expected { seq, lsn, .. } = self.expected;
        if is_chain_broken {
            self.remark(|| format!("frame {seq} is sound but does not continue the chain; the log was cut before it"));
        }
        if dropped_frames > 0 {
            self.remark(|| format!("{dropped_frames} frames that had arrived before frame {seq} were dropped"));
        }
        self.scan.verdict = Verdict::Cut { last: Lsn(lsn.0 - 1), dropped_frames };
    }

    fn lose(&mut self, first: Lsn, last: Lsn) {
        let (seq, is_tail) = (self.expected.seq, self.scan.frames == 0 && self.losses.is_empty());
        let hint = if is_tail { "; it is the oldest live frame, which hints at a rolled-back uberblock" } else { "" };
        self.remark(|| format!("frame {seq} with acknowledged records {first}..={last} is lost{hint}"));
        self.losses.push((first, last));
    }

    fn remark(&mut self, text: impl FnOnce() -> String) {
        if self.scan.anomalies.len() < ANOMALIES_MAX {
            self.scan.anomalies.push(text());
        } else {
            self.anomalies_unsaid += 1;
        }
    }

    fn finish(mut self) -> LaneScan {
        for record in &mut self.scan.records {
            record.witnessed = record.lsn <= self.scan.witness;
        }
        for (index, leg) in self.legs.iter().enumerate() {
            let is_rot = |(missed, last): &&(usize, Lsn)| *missed == index && *last <= self.scan.witness;
            let frame_count = self.missed.iter().filter(is_rot).count() as u64;
            if frame_count > 0 {
                self.scan.leg_faults.push(LegFault { leg: leg.leg.guid, frame_count });
            }
            if leg.unreadable_count > 0 {
                let text = format!("leg {}: {} reads failed", leg.leg.guid, leg.unreadable_count);
                self.scan.anomalies.push(text);
            }
        }
        if self.anomalies_unsaid > 0 {
            self.scan.anomalies.push(format!("and {} more", self.anomalies_unsaid));
        }
        if let Some(Disowned { first, last, .. }) = self.scan.disowned
            && !self.losses.iter().any(|(from, to)| *from <= first && last <= *to)
        {
            self.losses.retain(|(from, _)| *from < first);
            self.losses.push((first, last));
        }
        if !self.losses.is_empty() {
            self.scan.verdict = Verdict::Lost { ranges: self.losses };
        }
        self.scan
    }
}
