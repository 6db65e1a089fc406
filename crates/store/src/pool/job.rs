//! How far a scrub is, in the catalog: it goes on behind a power cut, and one that is paused stays so over imports.
//!
//! ```text
//!                ┌── paused ◀──┐
//!        begin   ▼             │ pause
//!   none ─────▶ running ───────┴──────▶ finished, or stopped: kept for `status` until the next one begins
//!                ▲ │ power cut, export, end of the process
//!                └─┘ the next import finds it running, and whoever runs the pool goes on with it
//! ```
//!
//! **The cursor** is a place in the order in which trees are gone through: a dataset's id, and a key. Content is read in the
//! order of its places, over a stretch of keys; so the cursor moves only when nothing is left of such a stretch: everything
//! before it was verified on every leg, and was repaired or counted. It moves in memory when the repairs were written, and the
//! group that writes it down flushes the legs before its uberblock (I2): so what lies before a durable cursor is durable on each leg that counts. One
//! that fails before has missed the groups of the blocks that it was given as well, as its list says (rules S7).
//! The counts stand beside it and are those of that moment: what was found behind it is found, and counted, again.
//! What was written since the beginning may lie before the cursor and was not looked at: it is verified when it is written, and by the next
//! scrub (rules S8). A dataset that is destroyed meanwhile is not missed (rules S12).
//!
//! ```text
//!   0  form u8 = 2    1  state u8    2  flags u8    3  zero (5)      8  began, time u64     16  began, group u64
//!  24  paused or ended, time u64    32  ran, ns u64     40  bytes in all u64     48  bytes checked u64
//!  56  repaired u64     64  repaired bytes u64     72  lost u64     80  unread u64     88  given up u64
//!  96  cursor: dataset u64, 0 for none     104  key (25)     129  zero (7)    136  leaked bytes u64
//! 144  of them given back u64              152  places with an alarm u64          160
//! ```

use std::time::Duration;

use bytes::Bytes;
use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{DatasetId, Time, Txg};

use super::Pool;
use super::secure::{SecureReport, SpaceFound};
use crate::key::{Class, KEY_BYTES, Key};
use crate::txg::Cause;

const FORM: u8 = 2;
const WHAT: &str = "job in the catalog";

/// The scrub of the whole pool, among the kinds of jobs.
const SCRUB: u64 = 1;

/// How a scrub stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum JobState {
    /// Somebody goes on with it.
    Running = 1,
    /// Nobody does, until it is asked for.
    Paused = 2,
    /// It has come to its end.
    Finished = 3,
    /// Somebody has ended it.
    Stopped = 4,
}

/// Where a walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// In this dataset, or in the first one behind it.
    pub dataset: DatasetId,
    /// From this key on, if it is that dataset.
    pub key: Key,
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubJob {
    /// Whether it goes on, waits, or has ended, and how.
    pub state: JobState,
    /// Server time at which it began.
    pub began: Time,
    /// The newest durable group then.
    pub began_txg: Txg,
    /// When it was paused, or ended; else when it began.
    pub changed: Time,
    /// For how long it has been running.
    pub ran: Duration,
    /// Bytes that were allocated when it began.
    pub total_bytes: u64,
    /// Everything before is verified. None: nothing is yet.
    pub cursor: Option<Cursor>,
    /// It was interrupted, and went on.
    pub in_parts: bool,
    /// Below a node that could not be read nothing was looked at.
    pub has_gaps: bool,
    /// What it had found when it was at the cursor; without names.
    pub report: SecureReport,
}

impl ScrubJob {
    pub(super) fn new(began: Time, began_txg: Txg, total_bytes: u64) -> Self {
        Self {
            state: JobState::Running,
            began,
            began_txg,
            changed: began,
            ran: Duration::ZERO,
            total_bytes,
            cursor: None,
            in_parts: false,
            has_gaps: false,
            report: SecureReport::default(),
        }
    }

    /// Whether there is something left of it to do.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, JobState::Running | JobState::Paused)
    }

    fn encode(&self) -> Bytes {
        let space = self.report.space;
        let flags = [self.in_parts, self.has_gaps, space.is_some(), space.is_some_and(|space| space.hidden)];
        let flags = flags.iter().enumerate().map(|(bit, is_set)| u8::from(*is_set) << bit).sum();
        let mut out = vec![FORM, self.state as u8, flags];
        out.resize(8, 0);
        let report = &self.report;
        let ran_ns = u64::try_from(self.ran.as_nanos()).unwrap_or(u64::MAX);
        for number in [self.began.0, self.began_txg.0, self.changed.0, ran_ns, self.total_bytes, report.checked_bytes] {
            out.put_u64(number);
        }
        for number in [report.repaired_count, report.repaired_bytes, report.lost_count, report.unread_count] {
            out.put_u64(number);
        }
        out.put_u64(report.given_up_count);
        out.put_u64(self.cursor.map_or(0, |cursor| cursor.dataset.0));
        out.put(&self.cursor.map_or([0; KEY_BYTES], |cursor| cursor.key.encode()));
        out.resize(136, 0);
        let space = report.space.unwrap_or_default();
        for number in [space.leaked_bytes, space.given_bytes, space.alarm_count] {
            out.put_u64(number);
        }
        out.into()
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(value, WHAT);
        let [form, state, flags] = reader.array()?;
        let zero = reader.array::<5>()?;
        let (began, began_txg, changed) = (Time(reader.u64()?), Txg(reader.u64()?), Time(reader.u64()?));
        let (ran, total_bytes) = (Duration::from_nanos(reader.u64()?), reader.u64()?);
        let mut report = SecureReport {
            checked_bytes: reader.u64()?,
            repaired_count: reader.u64()?,
            repaired_bytes: reader.u64()?,
            lost_count: reader.u64()?,
            unread_count: reader.u64()?,
            given_up_count: reader.u64()?,
            hides: false,
            space: None,
            lost: Vec::new(),
        };
        let (dataset, key) = (DatasetId(reader.u64()?), reader.array()?);
        let zeroes = reader.array::<7>()?;
        let (leaked_bytes, given_bytes, alarm_count) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let space = SpaceFound { leaked_bytes, hidden: flags & 8 != 0, given_bytes, alarm_count };
        let malformed = || Malformed(WHAT);
        reader.end()?;
        let state = match state {
            1 => JobState::Running,
            2 => JobState::Paused,
            3 => JobState::Finished,
            4 => JobState::Stopped,
            _ => return Err(malformed()),
        };
        if form != FORM
            || zero != [0; 5]
            || zeroes != [0; 7]
            || flags > 15
            || (flags & 4 == 0 && space != SpaceFound::default())
        {
            return Err(malformed());
        }
        let cursor = match dataset.0 {
            0 => None,
            _ => Some(Cursor { dataset, key: Key::decode(&key).ok_or_else(malformed)? }),
        };
        report.space = Some(space).filter(|_| flags & 4 != 0);
        let (in_parts, has_gaps) = (flags & 1 != 0, flags & 2 != 0);
        Ok(Self { state, began, began_txg, changed, ran, total_bytes, cursor, in_parts, has_gaps, report })
    }
}

/// The time of a walk of which it is written down how far it is, by the clock that nobody sets.
pub(super) struct Walking {
    since: Duration,
    /// When a group was asked for to take the cursor along.
    asked: Duration,
}

impl Walking {
    pub(super) fn begin(pool: &Pool) -> Self {
        let since = pool.platform.clock.monotonic();
        Self { since, asked: since }
    }

    /// For how long it has been running since this was asked for last.
    pub(super) fn ran(&mut self, pool: &Pool) -> Duration {
        let now = pool.platform.clock.monotonic();
        now.saturating_sub(std::mem::replace(&mut self.since, now))
    }

    /// Asks for a group, if none was asked for in this time.
    pub(super) fn want_group(&mut self, pool: &Pool, age: Duration) {
        let now = pool.platform.clock.monotonic();
        if now.saturating_sub(self.asked) >= age {
            self.asked = now;
            pool.want_kept();
        }
    }
}

const fn key() -> Key {
    Key::new(Class::Job, SCRUB, 0, 0)
}

/// The job of an entry of the catalog.
pub(crate) fn job_of(of: &Key, value: &[u8]) -> Result<ScrubJob, Malformed> {
    if *of == key() { ScrubJob::decode(value) } else { Err(Malformed(WHAT)) }
}

impl Pool {
    /// The scrub that runs or is paused, or the last one. One in a form that this program does not know is none.
    #[must_use]
    pub fn scrub_job(&self) -> Option<ScrubJob> {
        ScrubJob::decode(&self.kept.value(&key())?).ok()
    }

    /// Asks for a group that takes along what was noted.
    pub(super) fn want_kept(&self) {
        if !self.read_only {
            self.txgs.want(Cause::Chore);
        }
    }

    pub(super) fn note_scrub(&self, job: &ScrubJob) {
        self.kept.note(key(), Some(job.encode()));
    }

    /// What a finished scrub has found in all, with what was looked at beside it.
    pub fn note_found(&self, found: &SecureReport) {
        if let Some(job) = self.scrub_job().filter(|job| job.state == JobState::Finished) {
            let report = SecureReport { lost: Vec::new(), ..found.clone() };
            self.note_scrub(&ScrubJob { report, ..job });
        }
    }

    /// Whoever walked has stopped: from the next group on nobody goes on with it by himself. Whether there was one to be paused.
    pub fn pause_scrub(&self) -> bool {
        self.leave_scrub(JobState::Paused, |state| state == JobState::Running)
    }

    /// The same, for good.
    pub fn stop_scrub(&self) -> bool {
        self.leave_scrub(JobState::Stopped, |_| true)
    }

    fn leave_scrub(&self, state: JobState, may: impl Fn(JobState) -> bool) -> bool {
        let Some(job) = self.scrub_job().filter(|job| job.is_open() && may(job.state)) else { return false };
        self.note_scrub(&ScrubJob { state, changed: self.platform.clock.now(), ..job });
        self.want_kept();
        true
    }
}

#[cfg(test)]
mod tests;
