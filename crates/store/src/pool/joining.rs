//! How far the copy to a disk that joins is, in the catalog: a restart goes on with it, and does not begin anew.
//!
//! **What stands where.** The labels say who belongs to the pool: a leg that joins is there, stale, and lacks all groups from the first
//! one on, so that whoever knows nothing of this job copies all of it. The job says what the labels have no room for: in whose place the leg
//! comes, and how far it is. It is durable *before* the labels name the leg, and goes behind the last label that they are about; so
//! there is no cut from which nobody goes on. A job whose leg no label names is of a disk that never came, and the next import drops it.
//!
//! ```text
//!   job ─▶ labels: there, and stale ─▶ what was placed before is settled: `settled` ─▶ brought: `cursor`
//!       ─▶ does one leave: looked at: `cursor` ─▶ labels: it counts ─▶ labels: the one that it replaces is gone ─▶ no job
//! ```
//!
//! **What a cursor says.** Every block before it was written to the leg, or was verified there,
//! and the leg was flushed before the group that has taken the job along was folded ([`Pool::keep_reached`]). The flush before its uberblock (I2)
//! comes too late: a leg that fails, or is put away, in between is not waited for, and what it had in its cache may be lost under a cursor that is
//! durable. What was written later the leg has got as well, until the power went, or its disk: from then on its list of missed groups goes on
//! ([`super::membership`]). So who goes on gives it the groups behind `settled` that it has missed, and then the rest of the copy.
//!
//! **When it is not believed** (rules S9): where the disk does not know a group that the list takes for known, it is an older copy of the leg; where the
//! list was forgotten, nobody knows since when the leg was away. Then the copy begins anew, and so does one in which a device refused something:
//! perhaps it does not now.
//!
//! **A disk that comes back** has such a job as well, from when somebody takes it back until it counts: labels do not tell one that is
//! brought up to date from one that waits for somebody. What it lacks is its list, so the cursor is of a walk of the groups up to `settled`.
//!
//! ```text
//!   0  form u8 = 1    1  flags u8: bit 0, all was brought; bit 1, something hides more; bit 2, it returns; bit 3, all was copied as it is
//!   2  zero (6)                                                             8  replaces, guid u64, 0 for none
//!  16  settled, group u64, 0 for not yet     24  began, time u64     32  ran, ns u64
//!  40  zero (8)      48  copied bytes u64    56  unreadable bytes u64
//!  64  first place that could not be read u64, 72  its end u64, 0 for none
//!  80  bytes checked u64     88  repaired u64    96  repaired bytes u64
//! 104  lost u64    112  unread u64    120  given up u64
//! 128  cursor: dataset u64, 0 for none    136  key (25)    161  zero (7)    168
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{DatasetId, Time, Txg, VdevGuid};
use tally_members::vdev::ResilverReport;

use super::Pool;
use super::job::Cursor;
use super::secure::SecureReport;
use crate::key::{Class, KEY_BYTES, Key};

const FORM: u8 = 1;
const WHAT: &str = "copy in the catalog";

/// Disks that join, among the kinds of jobs; the second number of the key is the leg.
const JOIN: u64 = 3;

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinJob {
    /// The leg that joins.
    pub leg: VdevGuid,
    /// It was away, and is given what it has missed: it has counted before.
    pub returns: bool,
    /// The one in whose place it comes, which leaves when the new one has everything.
    pub replaces: Option<VdevGuid>,
    /// Whatever was placed before it joined belongs to this group or to one before. None: that was not waited for yet.
    pub settled: Option<Txg>,
    /// When it was asked for.
    pub began: Time,
    /// For how long it has been running.
    pub ran: Duration,
    /// The leg was brought every block, and is looked at.
    pub is_brought: bool,
    /// All that is in use was copied as it is, since something is lost that may name more.
    pub is_copied: bool,
    /// What came of bringing and copying. Of what could not be read it names the first range.
    pub report: ResilverReport,
    /// What came of it, block by block.
    pub secured: SecureReport,
    /// Blocks before are brought, or looked at. None: no block is yet.
    pub cursor: Option<Cursor>,
}

impl JoinJob {
    /// A pool that nobody changes is asked for a group so often while a copy runs, to write down how far it is: so much is done
    /// once more behind a power cut. As often as groups come by themselves.
    pub(super) const AGE_MAX: Duration = Duration::from_secs(5);

    pub(super) fn new(leg: VdevGuid, replaces: Option<VdevGuid>, began: Time) -> Self {
        Self {
            leg,
            returns: false,
            replaces,
            settled: None,
            began,
            ran: Duration::ZERO,
            is_brought: false,
            is_copied: false,
            report: ResilverReport::default(),
            secured: SecureReport::default(),
            cursor: None,
        }
    }

    /// One of a leg that was away.
    pub(super) fn of_return(leg: VdevGuid, began: Time) -> Self {
        Self { returns: true, ..Self::new(leg, None, began) }
    }

    /// The same, of a leg of which nobody knows what it has.
    pub(super) fn begun_anew(self) -> Self {
        Self { ran: self.ran, returns: self.returns, ..Self::new(self.leg, self.replaces, self.began) }
    }

    /// All was brought: the look counts anew, but for what was wrong.
    pub(super) fn begin_look(&mut self) {
        let SecureReport { repaired_count, repaired_bytes, .. } = self.secured;
        self.secured = SecureReport { repaired_count, repaired_bytes, ..SecureReport::default() };
        (self.is_brought, self.cursor) = (true, None);
    }

    /// Whether no device has refused anything so far. What has rotted, and hides more, stays so: all is copied as it is for that, once.
    pub(super) fn lacks_nothing(&self) -> bool {
        self.report.unreadable_bytes == 0 && self.secured.unread_count == 0
    }

    /// Bytes that were brought, or could not be.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        let of_blocks = if self.is_brought { 0 } else { self.secured.checked_bytes };
        self.report.copied_bytes.saturating_add(self.report.unreadable_bytes).saturating_add(of_blocks)
    }

    /// Bytes of the new disk that were looked at.
    #[must_use]
    pub fn checked_bytes(&self) -> u64 {
        if self.is_brought { self.secured.checked_bytes } else { 0 }
    }

    fn encode(&self) -> Bytes {
        let flags = [self.is_brought, self.secured.hides, self.returns, self.is_copied];
        let flags = flags.iter().rev().fold(0, |flags, flag| flags << 1 | u8::from(*flag));
        let mut out = vec![FORM, flags];
        out.resize(8, 0);
        let ran_ns = u64::try_from(self.ran.as_nanos()).unwrap_or(u64::MAX);
        let settled = self.settled.map_or(0, |txg| txg.0);
        let unread = self.report.unread.first().cloned().unwrap_or_default();
        let (report, secured) = (&self.report, &self.secured);
        for number in [self.replaces.map_or(0, |leg| leg.0), settled, self.began.0, ran_ns] {
            out.put_u64(number);
        }
        for number in [0, report.copied_bytes, report.unreadable_bytes, unread.start, unread.end] {
            out.put_u64(number);
        }
        for number in [secured.checked_bytes, secured.repaired_count, secured.repaired_bytes] {
            out.put_u64(number);
        }
        for number in [secured.lost_count, secured.unread_count, secured.given_up_count] {
            out.put_u64(number);
        }
        out.put_u64(self.cursor.map_or(0, |cursor| cursor.dataset.0));
        out.put(&self.cursor.map_or([0; KEY_BYTES], |cursor| cursor.key.encode()));
        out.resize(168, 0);
        out.into()
    }

    fn decode(leg: VdevGuid, value: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(value, WHAT);
        let [form, flags] = reader.array()?;
        let zero = reader.array::<6>()?;
        let (replaces, settled) = (VdevGuid(reader.u64()?), Txg(reader.u64()?));
        let (began, ran) = (Time(reader.u64()?), Duration::from_nanos(reader.u64()?));
        let (reserved, copied_bytes, unreadable_bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let unread: Range<u64> = reader.u64()?..reader.u64()?;
        let secured = SecureReport {
            checked_bytes: reader.u64()?,
            repaired_count: reader.u64()?,
            repaired_bytes: reader.u64()?,
            lost_count: reader.u64()?,
            unread_count: reader.u64()?,
            given_up_count: reader.u64()?,
            hides: flags & 2 > 0,
            ..SecureReport::default()
        };
        let (dataset, key) = (DatasetId(reader.u64()?), reader.array()?);
        let zeroes = reader.array::<7>()?;
        reader.end()?;
        let malformed = || Malformed(WHAT);
        let is_range = unread.end == 0 && unread.start == 0 || unread.start < unread.end;
        if form != FORM || flags > 15 || reserved != 0 || zero != [0; 6] || zeroes != [0; 7] || !is_range {
            return Err(malformed());
        }
        let cursor = match dataset.0 {
            0 => None,
            _ => Some(Cursor { dataset, key: Key::decode(&key).ok_or_else(malformed)? }),
        };
        let unread = Some(unread).filter(|range| range.end > 0).into_iter().collect();
        Ok(Self {
            leg,
            returns: flags & 4 > 0,
            replaces: Some(replaces).filter(|leg| leg.0 != 0),
            settled: Some(settled).filter(|txg| txg.0 != 0),
            began,
            ran,
            is_brought: flags & 1 > 0,
            is_copied: flags & 8 > 0,
            report: ResilverReport { copied_bytes, unreadable_bytes, unread },
            secured,
            cursor,
        })
    }
}

/// How far copies are that run, beyond what the catalog says: their disks may have that in their caches.
pub(super) type Reached = Mutex<BTreeMap<VdevGuid, JoinJob>>;

const fn key(leg: VdevGuid) -> Key {
    Key::new(Class::Job, JOIN, leg.0, 0)
}

/// The copy of an entry of the catalog; none: the entry is another kind of job.
pub(crate) fn join_of(of: &Key, value: &[u8]) -> Option<Result<JoinJob, Malformed>> {
    let leg = VdevGuid(of.a);
    (*of == key(leg)).then(|| JoinJob::decode(leg, value))
}

impl Pool {
    /// Disks that join and whose copy is not over, or was cut off, as far as the labels still name them. One in a form that this
    /// program does not know is none.
    #[must_use]
    pub fn joins(&self) -> Vec<JoinJob> {
        let config = self.roster.config();
        let mut jobs = self.all_joins();
        jobs.retain(|job| config.leg(job.leg).is_some());
        jobs
    }

    /// The job of one of them.
    #[must_use]
    pub fn join_job(&self, leg: VdevGuid) -> Option<JoinJob> {
        JoinJob::decode(leg, &self.kept.value(&key(leg))?).ok()
    }

    fn all_joins(&self) -> Vec<JoinJob> {
        let jobs = self.kept.values_of(Class::Job, JOIN);
        jobs.iter().filter_map(|(key, value)| join_of(key, value)?.ok()).collect()
    }

    /// What it says is durable with the next group.
    pub(super) fn note_join(&self, job: &JoinJob) {
        self.kept.note(key(job.leg), Some(job.encode()));
    }

    /// The same for a job that is there; somebody may have taken the disk out, or it is none of which anything is kept.
    pub(super) fn keep_join(&self, job: &JoinJob) {
        if self.kept.value(&key(job.leg)).is_some() {
            self.note_join(job);
        }
    }

    /// A copy has come so far. Whoever goes on with it later hears of that when its disk was flushed.
    pub(super) fn reach_join(&self, job: &JoinJob) {
        if self.kept.value(&key(job.leg)).is_some() {
            self.reached.lock().insert(job.leg, job.clone());
        }
    }

    /// Before a group is folded: flushes the disks of copies that have come on, so that it takes along how far they are (rules S9).
    pub(super) fn keep_reached(&self) {
        let reached: Vec<_> = self.reached.lock().values().cloned().collect();
        for job in reached.into_iter().filter(|job| self.flush_joining(job.leg)) {
            let mut reached = self.reached.lock();
            let Some(newest) = reached.get(&job.leg) else { continue };
            self.keep_join(&job);
            if *newest == job {
                reached.remove(&job.leg);
            }
        }
    }

    /// A copy has ended: the last steps count as well if its disk was flushed behind them, or is now.
    pub(super) fn end_reaching(&self, leg: VdevGuid, is_flushed: bool) {
        let reached = self.reached.lock().remove(&leg);
        if let Some(job) = reached.filter(|_| is_flushed || self.flush_joining(leg)) {
            self.keep_join(&job);
        }
    }

    fn flush_joining(&self, leg: VdevGuid) -> bool {
        self.roster.data_vdevs().any(|vdev| vdev.flush_joining(leg))
    }

    pub(super) fn forget_join(&self, leg: VdevGuid) {
        self.kept.note(key(leg), None);
    }

    /// A disk that was away is to come back: somebody knows of that from the next group on.
    pub(super) fn note_return(&self, leg: VdevGuid) {
        if self.kept.value(&key(leg)).is_none() {
            self.note_join(&JoinJob::of_return(leg, self.platform.clock.now()));
        }
    }

    /// It has not come back, or was put away: from here on somebody has to want it again.
    /// Whether it was wanted.
    pub(super) fn forget_return(&self, leg: VdevGuid) -> bool {
        let returns = self.returns(leg);
        if returns {
            self.forget_join(leg);
            self.want_kept();
        }
        returns
    }

    /// At the import, before anybody lets a disk join: those that were to come and never came.
    pub(super) fn forget_lost_joins(&self) {
        let config = self.roster.config();
        let lost = self.all_joins().into_iter().filter(|job| config.leg(job.leg).is_none());
        lost.for_each(|job| self.forget_join(job.leg));
    }
}

#[cfg(test)]
mod tests;
