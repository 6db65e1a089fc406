//! A pool that is suspended, and goes on by `tally pool clear` (docs/design/0049).
//!
//! ```text
//!   the disks of a vdev refuse ─▶ a sync fails ─▶ suspended ──clear: no disk answers──▶ suspended
//!                                                    │
//!                               the power goes ◀─────┤ clear: let go of, and taken up as it was
//!                                                    ▼
//!                               goes on ◀────────── away ──cannot be taken up──▶ away ──import──▶ goes on
//! ```
//!
//! The process goes on all the while: its answers are given again, and who waited for his is answered when the pool serves, be it
//! from what the log had or as if the request came now. What must hold: what was answered is there; what was refused is not;
//! changes are told to come again, and never that they failed; a request that was under way is carried out once; the verifier is
//! another one. Where a pool that was away is imported by command, requests that were under way are let go of without an answer.

use std::sync::Arc;
use std::time::Duration;

use nfs3_types::nfs3::nfsstat3;
use parking_lot::Mutex;
use tally_base::{Broken, Fate};
use tally_fs::filer::ImportReport;

use super::requests::{self, Attempt, Sent};
use super::run::History;
use super::{Checked, Plan, State, Syncs, Trouble};
use crate::chance::{Chance, Stream};
use crate::disk::{Fault, Left};
use crate::op::Op;
use crate::sound::sound;

/// Before one step in so many all disks of a vdev go away.
pub(super) const OUTAGE_ONE_IN: u64 = 40;
/// Requests between that and a sync, at most; and while the pool is suspended.
const REQUESTS_MAX: u64 = 6;
/// Longest write meanwhile: nothing of it is written ahead of its group, which the disks would refuse.
const WRITE_MAX: u64 = 3000;
/// Tries to go on while disks refuse, at most.
const TRIES_MAX: u64 = 3;
/// Of suspended pools, one in so many loses its power meanwhile.
const POWER_GOES_ONE_IN: u64 = 8;
/// Writes of an import behind which the power goes, at most, where it does.
const CUT_WRITES_MAX: u64 = 60;

impl Plan {
    /// Whether pools are suspended, and go on. Where legs are pulled out, the one that has what was acknowledged may be; and all
    /// other seeds do what they did.
    pub(super) fn suspends(&self) -> bool {
        let may = match self.trouble {
            Trouble::None => matches!(self.seed % 64, 2 | 18 | 56),
            Trouble::Refusals => matches!(self.seed % 32, 13 | 21),
            Trouble::Turns => self.seed % 32 == 27,
            _ => false,
        };
        may && self.syncs != Syncs::Beside
    }

    /// Whether disks go away together. Where one leg of a mirror is in trouble, and cannot be read everywhere, the other one is not
    /// to be struck off for it.
    pub(super) fn has_outages(&self) -> bool {
        self.suspends() && self.trouble != Trouble::Turns
    }

    /// Whether legs are struck off while the pool runs.
    pub(super) fn strikes_off(&self) -> bool {
        self.trouble.strikes_off() || self.suspends()
    }
}

impl History {
    /// All disks of a vdev refuse requests until a group fails, or is synced all the same.
    pub(super) fn outage(&self, chance: &mut Chance) -> Checked<()> {
        self.0.lock().disks_go_away(chance);
        for _ in 0..chance.below(REQUESTS_MAX) {
            let attempt = {
                let mut state = self.0.lock();
                if state.is_off() {
                    break;
                }
                let op = state.small_op(chance);
                state.attempt(&op, chance)?
            };
            self.carry_out(attempt, chance)?;
        }
        if !self.0.lock().is_off() {
            self.sync_group()?;
        }
        let mut state = self.0.lock();
        if !state.is_off() {
            state.note("not suspended");
            state.disks_come_back();
        }
        Ok(())
    }

    /// If the pool is suspended, it goes on, or the power goes. Gives whether it goes on.
    pub(super) fn go_on(&self) -> Checked<bool> {
        let mut state = self.0.lock();
        if !state.stands_still || state.machine.power().is_off() {
            return Ok(false);
        }
        let chance = &mut Chance::of(state.plan.seed, Stream::Standstill, state.totals.lives);
        state.machine.power().plan_cut(None);
        state.all_are_in_doubt()?;
        state.ask_in_vain(chance)?;
        if chance.one_in(POWER_GOES_ONE_IN) || !state.clear(chance)? {
            state.totals.cuts_while_suspended += 1;
            return Ok(false);
        }
        drop(state);
        self.answer_doubts(chance)?;
        Ok(true)
    }

    /// Requests that were under way are run again, and answered.
    fn answer_doubts(&self, chance: &mut Chance) -> Checked<()> {
        let doubts = std::mem::take(&mut self.0.lock().in_doubt);
        for mut attempt in doubts {
            let mut state = self.0.lock();
            let past = state.past.iter().find(|past| Some(past.id) == attempt.repeats);
            let past = past.map(|past| (past.id, past.fate, past.attached));
            let server = Arc::clone(state.machine.server());
            // Nobody knows what became of a request that the history has forgotten, but for a COMMIT, which is the same once more.
            let is_known = past.is_some() || matches!(attempt.op, Op::Commit { .. });
            if server.service.is_left(&attempt.job) || !is_known {
                server.service.leave(&mut attempt.job);
                continue;
            }
            if !server.service.may_go_on(&attempt.job) {
                return Err(format!("the pool serves, and {:?} waits for it", attempt.op));
            }
            attempt.attached = past.map_or(0, |(_, _, attached)| attached);
            state.note(format!("{:?} was in doubt: {past:?}", attempt.op));
            match past {
                Some((id, requests::Fate::Survived, _)) => {
                    state.totals.doubts_answered += 1;
                    state.repeat_later(attempt, id)?;
                }
                Some((_, requests::Fate::Here | requests::Fate::Dropped, _)) => {
                    return Err(format!("{:?} waits, and is answered or dropped", attempt.op));
                }
                Some((_, requests::Fate::Lost, _)) | None => {
                    state.totals.doubts_carried_out += 1;
                    drop(state);
                    self.carry_out(attempt, chance)?;
                }
            }
        }
        Ok(())
    }
}

impl State {
    /// A sync has failed. Whether the pool is suspended, and the history goes on with that.
    pub(super) fn comes_to_a_standstill(&mut self) -> bool {
        let is_suspended = self.machine.running().is_some_and(|server| server.filer.pool().fault().is_some());
        let mut chance = Chance::of(self.plan.seed, Stream::Halt, self.totals.syncs);
        self.stands_still |= self.plan.suspends() && is_suspended && !chance.one_in(4);
        self.stands_still
    }

    /// Whether a request whose promise was broken waits until its pool goes on.
    pub(super) fn stays_in_doubt(&self, attempt: &mut Attempt, broken: &Broken) -> bool {
        let service = &self.machine.server().service;
        self.plan.suspends() && service.stays_in_doubt(&mut attempt.job, Some(&Err(broken.clone())))
    }

    /// While a pool is suspended its clients are told to come again.
    pub(super) fn check_suspended(&mut self, op: &Op, status: nfsstat3) -> Checked<()> {
        if !self.stands_still || self.machine.power().is_off() {
            return Ok(());
        }
        self.totals.refused_meanwhile += u64::from(status == nfsstat3::NFS3ERR_JUKEBOX);
        if status == nfsstat3::NFS3ERR_IO {
            return Err(format!("{op:?} is told that it failed, and only has to wait for a suspended pool"));
        }
        Ok(())
    }

    fn disks_go_away(&mut self, chance: &mut Chance) {
        let vdevs = self.machine.server().filer.pool().roster.vdevs();
        let legs = chance.pick(vdevs).legs();
        let paths: Vec<String> = legs.iter().map(|leg| leg.path().to_string_lossy().into_owned()).collect();
        let refused: &[Fault] = match chance.below(6) {
            0 | 1 => &Fault::ALL,
            2 => &[Fault::Write, Fault::DurableWrite],
            3 => &[Fault::Flush],
            4 => &[Fault::CacheWithDurableWrite, Fault::Flush],
            _ => &[Fault::DurableWrite],
        };
        for disk in paths.iter().filter_map(|path| self.disk(path)) {
            refused.iter().for_each(|fault| disk.faults().set(*fault, u32::MAX));
        }
        self.note(format!("{} refuse {refused:?}", paths.join(" and ")));
        (self.troubles.struck, self.troubles.is_outage) = (true, true);
    }

    /// What refused writes of this life leave on the disks: it can be read, or is not there.
    pub(super) fn draw_what_is_left(&self) {
        let mut chance = Chance::of(self.plan.seed, Stream::LeftOfRefused, self.totals.lives);
        for (_, disk) in self.machine.disks() {
            disk.faults().leave(chance.pick(&[Left::Read, Left::Nothing]));
        }
    }

    fn disks_come_back(&mut self) {
        self.machine.disks().iter().for_each(|(_, disk)| disk.faults().clear());
        self.troubles.is_outage = false;
    }

    /// An operation of which nothing is written ahead of its group.
    fn small_op(&self, chance: &mut Chance) -> Op {
        let mut op = self.choose_op(chance);
        if let Op::Write { length, .. } = &mut op {
            *length %= WRITE_MAX;
        }
        op
    }

    /// What clients and time do while the pool is suspended.
    fn ask_in_vain(&mut self, chance: &mut Chance) -> Checked<()> {
        let away = Duration::from_secs(chance.pick(&[0, 1, 60, 200, 7200]));
        self.machine.clock().pass(away);
        self.time_off_ns += away.as_nanos() as u64;
        self.note(format!("suspended for {away:?}; {} wait", self.in_doubt.len()));
        for _ in 0..chance.below(REQUESTS_MAX) {
            match chance.below(4) {
                0 => self.read(chance)?,
                1 => {
                    if let Some(attempt) = self.repeat(chance)? {
                        self.carry_out(attempt, chance)?;
                    }
                }
                _ => {
                    let op = self.small_op(chance);
                    let attempt = self.attempt(&op, chance)?;
                    self.carry_out(attempt, chance)?;
                }
            }
        }
        if self.sent.is_empty() { Ok(()) } else { Err("a suspended pool has carried something out".into()) }
    }

    /// `tally pool clear`, until the pool goes on, or the power goes. Gives whether it goes on.
    fn clear(&mut self, chance: &mut Chance) -> Checked<bool> {
        // With a disk that owes an answer it is refused from the start.
        self.machine.disks().iter().for_each(|(_, disk)| disk.come_home());
        let mut suspended = None;
        for number in 0.. {
            let is_back = number >= TRIES_MAX || chance.one_in(2);
            if is_back {
                self.disks_come_back();
            }
            let cut = chance.one_in(4).then(|| 1 + chance.below(CUT_WRITES_MAX));
            self.machine.power().plan_cut(cut);
            self.note(format!(
                "clear, disks {}; cut after {cut:?} writes",
                if is_back { "are back" } else { "refuse" }
            ));
            if suspended.is_none() && !self.machine.disks_are_there() {
                if is_back {
                    return Err("disks answer again, and are not found".into());
                }
                self.totals.clears_refused += 1;
                continue;
            }
            let outcome = if suspended.is_none() {
                let how = self.machine.put_away().ok_or("a suspended pool is put away as if all were well with it")?;
                self.machine.resume(suspended.insert(how))
            } else {
                self.machine.import_again()
            };
            if self.machine.power().is_off() {
                return Ok(false);
            }
            self.machine.power().plan_cut(None);
            match outcome {
                Ok(report) => return self.take_up(&report).map(|()| true),
                Err(error) if is_back => return Err(format!("a suspended pool does not go on: {error}")),
                Err(error) => self.note(format!("not taken up: {error}")),
            }
            self.totals.resumes_failed += 1;
        }
        unreachable!("at last the disks are back")
    }

    /// Nobody is kept waiting for what does not come: whoever waits for a suspended pool hears of it, and is in doubt.
    fn all_are_in_doubt(&mut self) -> Checked<()> {
        self.drive_sent()?;
        for sent in std::mem::take(&mut self.sent) {
            let Sent { mut attempt, promise, taken, .. } = sent;
            let told = Arc::<Mutex<Option<Fate>>>::default();
            let teller = Arc::clone(&told);
            promise.then(Box::new(move |fate| *teller.lock() = Some(fate)));
            match told.lock().take() {
                Some(Err(broken)) if self.stays_in_doubt(&mut attempt, &broken) => self.doubt(attempt, taken.past),
                fate => return Err(format!("#{} waits for a suspended pool and hears {fate:?}", taken.number)),
            }
        }
        Ok(())
    }

    /// A request waits until its pool goes on.
    pub(super) fn doubt(&mut self, mut attempt: Attempt, past: Option<u64>) {
        attempt.repeats = past;
        self.in_doubt.push(attempt);
    }

    /// The pool is there again: in a state that the oracles know, and another life.
    fn take_up(&mut self, report: &ImportReport) -> Checked<()> {
        self.meanwhile.end();
        (self.stands_still, self.troubles.struck) = (false, false);
        (self.is_full, self.may_be_back) = (false, None);
        self.note(format!("goes on; {} records replayed {:?}", report.records_replayed, report.remarks));
        if report.was_clean || !report.losses.is_empty() {
            return Err(format!("a suspended pool goes on with {report:?}"));
        }
        self.totals.went_on += 1;
        self.totals.replayed += report.records_replayed;
        self.adopt(false, false, true)?;
        self.keep_imported_group();
        sound(&self.machine.server().filer).map_err(|what| format!("after it has gone on: {what}"))
    }
}
