//! Requests on their way: sent, and waited for; `answers` takes in what comes of them, and `repetitions` sends them again.

mod answers;
mod repetitions;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use nfs3_types::nfs3::nfsstat3;
use tally_base::Promise;
use tally_nfs::service::{Job, Step};
use tally_vfs::{Attr, Cred, FsError, ObjectRef};

use super::rot::Nearness;
use super::times::Above;
use super::waits::Patience;
use super::{Checked, State};
use crate::chance::{Chance, Stream};
use crate::client::{Told, bytes_of, told};
use crate::newer::InSlot;
use crate::op::{Answer, Expected, Object, Op};
use crate::oracle::{Before, Limits, Promised};

/// Requests that may be sent again, at most: fewer than a server must remember of one client.
const PAST_MAX: usize = 48;
/// Repetitions that may wait for one answer.
const ATTACHED_MAX: usize = 3;
/// How long a server must remember an answer, with some room: time while it is off does not count.
const REMEMBERED_NS: u64 = 100_000_000_000;
/// A pool that a history may fill.
const SMALL_POOL_BYTES: u64 = 16 << 20;
/// Handles that are kept.
const OBJECTS_MAX: usize = 60;

/// A request that was sent and not carried out yet.
pub(super) struct Attempt {
    pub(super) op: Op,
    pub(super) client: usize,
    pub(super) cred: Cred,
    pub(super) record: Bytes,
    pub(super) job: Job,
    /// Where it stands in its session, in version 4.2.
    pub(super) slot: Option<InSlot>,
    /// The past request that it repeats, if it is one.
    pub(super) repeats: Option<u64>,
    /// Repetitions that wait for its answer already.
    pub(super) attached: usize,
}

/// A request that was carried out, and not answered yet.
pub(super) struct Sent {
    pub(super) attempt: Attempt,
    pub(super) promise: Box<dyn Promise>,
    patience: Patience,
    pub(super) taken: Taken,
}

/// What the model has made of a request.
pub(super) struct Taken {
    pub(super) number: usize,
    /// `None`: nobody can know.
    expected: Option<Expected>,
    promised: Promised,
    pub(super) past: Option<u64>,
    /// If it changes what its reply tells of.
    above: Option<Above>,
    /// Where it stands to what has rotted.
    rot: Nearness,
}

/// What became of a past request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was carried out in this life.
    Here,
    /// It was carried out in an earlier life, and its effect is there.
    Survived,
    /// It was sent in an earlier life, and has left nothing.
    Lost,
    /// It was carried out in this life, and dropped with its connection before it was answered.
    Dropped,
}

/// A request that may be sent again.
pub(super) struct Past {
    pub(super) id: u64,
    client: usize,
    cred: Cred,
    record: Bytes,
    pub(super) op: Op,
    pub(super) number: usize,
    pub(super) reply: Option<Vec<u8>>,
    /// Whether the answer waited until it was durable. Else it is forgotten when its pool is taken up as after a crash (rules F12).
    pub(super) has_waited: bool,
    pub(super) attached: usize,
    /// What it made, in the model.
    made: Option<Attr>,
    pub(super) succeeded: bool,
    pub(super) has_effect: bool,
    pub(super) fate: Fate,
    /// In a life of this process that has ended: whether its effect stayed. The process answers it again as before, and nobody
    /// else does if not.
    pub(super) has_stayed: Option<bool>,
    /// Where it stood in its session, in version 4.2.
    slot: Option<usize>,
    /// When it was sent, in time that the machine was on.
    sent_at_ns: u64,
}

impl Past {
    /// Whether it stood in this slot, or any, of a session of this life.
    pub(super) fn is_in_slot(&self, client: usize, slot: Option<usize>) -> bool {
        let is_there = self.slot.is_some_and(|of| slot.is_none_or(|slot| slot == of));
        is_there && self.client == client && self.fate == Fate::Here
    }
}

/// How an attempt goes on.
pub(super) enum Next {
    Done,
    /// It was not admitted: again after a sync.
    AfterSync(Box<Attempt>),
    AnswerAll,
    /// A part of it is on its way to the log: again behind that.
    Part(Box<Attempt>, Box<dyn Promise>),
}

impl Attempt {
    /// What it is about, or the first of that.
    pub(super) fn object(&self) -> &Object {
        self.op.objects()[0]
    }

    /// Who waits for its answer besides, is answered.
    fn check_attached(&self, links: usize) -> Checked<()> {
        if links == self.attached {
            return Ok(());
        }
        Err(format!("{links} connections get the answer to {:?}, not {}", self.op, self.attached))
    }
}

impl State {
    /// A new request of some client.
    pub(super) fn attempt(&mut self, op: &Op, chance: &mut Chance) -> Checked<Attempt> {
        let client = chance.below(self.clients.len() as u64) as usize;
        self.attempt_by(client, op)
    }

    /// A new request of this client.
    pub(super) fn attempt_by(&mut self, client: usize, op: &Op) -> Checked<Attempt> {
        if let Some(user) = self.another_user(client) {
            self.clients[client].act_as(user);
        }
        if op.is_newer() {
            if let Some(attempt) = self.newer_attempt(client, op)? {
                return Ok(attempt);
            }
            return self.attempt_by(client, &Op::Commit { object: Arc::clone(op.objects()[0]), offset: 0, count: 0 });
        }
        let (cred, record) = (self.clients[client].cred(), self.clients[client].record(&op.call()));
        self.open(op.clone(), (client, cred), record, None)
    }

    pub(super) fn open(
        &self,
        op: Op,
        (client, cred): (usize, Cred),
        record: Bytes,
        repeats: Option<u64>,
    ) -> Checked<Attempt> {
        let job = self
            .machine
            .server()
            .service
            .open(record.clone(), self.clients[client].link(), Instant::now())
            .map_err(|refusal| format!("{op:?} is refused: {refusal:?}"))?;
        Ok(Attempt { op, client, cred, record, job, slot: None, repeats, attached: 0 })
    }

    /// Runs a request until its answer waits for a device, or is there.
    pub(super) fn carry_out(&mut self, mut attempt: Attempt, chance: &mut Chance) -> Checked<Next> {
        let server = Arc::clone(self.machine.server());
        let limits = self.limits_of(&attempt.op)?;
        let before = self.parts[attempt.op.dataset()].oracle.before(&attempt.op, limits);
        match server.service.run(&mut attempt.job) {
            Step::Again(promise) if matches!(attempt.op, Op::Commit { .. }) && !self.is_off() => {
                self.take_part(&attempt, &before, limits)?;
                Ok(Next::Part(Box::new(attempt), promise))
            }
            Step::Again(_) => {
                self.totals.throttled += 1;
                self.note(format!("{:?} throttled", attempt.op));
                if self.is_off() {
                    self.give_up(attempt);
                    return Ok(Next::Done);
                }
                Ok(Next::AfterSync(Box::new(attempt)))
            }
            Step::Attached => Err(format!("{:?} is taken for a repetition", attempt.op)),
            Step::Reply(reply) => {
                let links = server.service.finish(&mut attempt.job, &reply);
                attempt.check_attached(links.len())?;
                let bytes = bytes_of(&reply);
                let told = attempt.op.told(&bytes)?;
                if self.check_slot(&attempt, told.is_of_slot || told.is_over)? {
                    return Ok(Next::Done);
                }
                self.check_full(&attempt.op, &before, told.status)?;
                self.check_suspended(&attempt.op, told.status)?;
                let is_of_rot = told.status == nfsstat3::NFS3ERR_IO && self.nearness(&attempt.op, &before).may_fail();
                if self.is_no_effect(&told) || is_of_rot {
                    self.note(format!("{:?}: {}", attempt.op, told.status));
                    // Sent once more it would get this answer, and not one that the model knows.
                    self.past.retain(|past| Some(past.id) != attempt.repeats);
                    return Ok(Next::Done);
                }
                let taken = self.take(&attempt, &before, limits)?;
                self.note(format!("#{} {:?}: {}", taken.number, attempt.op, told.status));
                self.answered(&attempt.op, taken, (&told, bytes))?;
                Ok(Next::Done)
            }
            Step::Wait(promise) if self.nearness(&attempt.op, &before).may_fail() => {
                self.at_once(attempt, promise, &before, limits)
            }
            Step::Wait(promise) => {
                let taken = self.take(&attempt, &before, limits)?;
                self.note(format!("#{} {:?}", taken.number, attempt.op));
                let is_dropped =
                    self.may_drop() && Chance::of(self.plan.seed, Stream::Drop, taken.number as u64).one_in(20);
                let client = attempt.client;
                self.sent.push(Sent { attempt, promise, patience: Patience::default(), taken });
                if is_dropped {
                    self.clients[client].reconnect();
                    self.drop_jobs(client)?;
                }
                Ok(if chance.one_in(3) { Next::Done } else { Next::AnswerAll })
            }
        }
    }

    /// Nobody waits any more until a request is admitted: its next repetition is carried out.
    pub(super) fn give_up(&self, mut attempt: Attempt) {
        if let Some(server) = self.machine.running() {
            server.service.abandon(&mut attempt.job);
        }
    }

    /// A request that may be refused because something has rotted: what became of it must be known before the model
    /// follows.
    fn at_once(
        &mut self,
        mut attempt: Attempt,
        promise: Box<dyn Promise>,
        before: &Before,
        limits: Limits,
    ) -> Checked<Next> {
        let server = Arc::clone(self.machine.server());
        let Some(kept) = promise.drive().or_else(|| promise.poll()) else {
            let taken = self.take(&attempt, before, limits)?;
            self.note(format!("#{} {:?}", taken.number, attempt.op));
            self.sent.push(Sent { attempt, promise, patience: Patience::default(), taken });
            return Ok(Next::AnswerAll);
        };
        if self.is_off() {
            let _unanswered = self.take(&attempt, before, limits)?;
            return Ok(Next::Done);
        }
        let reply = server.service.reply_after_wait(&mut attempt.job, kept);
        server.service.finish(&mut attempt.job, &reply);
        let bytes = bytes_of(&reply);
        let told = attempt.op.told(&bytes)?;
        self.note(format!("{:?}: {}", attempt.op, told.status));
        if told.status != nfsstat3::NFS3ERR_IO {
            let taken = self.take(&attempt, before, limits)?;
            if let Some(past) = self.past.iter_mut().find(|past| Some(past.id) == taken.past) {
                past.has_waited = true;
            }
            self.answered(&attempt.op, taken, (&told, bytes))?;
        }
        Ok(Next::Done)
    }

    /// What makes room must not be refused because there is none.
    fn check_full(&mut self, op: &Op, before: &Before, status: nfsstat3) -> Checked<()> {
        match status {
            // Without its disks the server cannot tell where there is room, and nobody gets the answer.
            nfsstat3::NFS3ERR_NOSPC if self.is_off() => return Ok(()),
            nfsstat3::NFS3ERR_NOSPC => {}
            nfsstat3::NFS3ERR_DQUOT => return self.check_over_quota(op, before),
            _ => return Ok(()),
        }
        if matches!(op, Op::Remove { .. } | Op::Rmdir { .. } | Op::Commit { .. } | Op::Deallocate { .. }) {
            return Err(format!("{op:?} is refused because the pool is full"));
        }
        if self.parts[op.dataset()].oracle.is_promised_to(op) {
            let pool = self.machine.server().filer.pool();
            let (space, promised) = (pool.io.allocator().space(), pool.txgs.promised());
            let folding = pool.txgs.fold_bytes();
            return Err(format!(
                "{op:?} is refused, and room was promised: {space:?}, {folding} folding, {promised:?}"
            ));
        }
        if let Op::Allocate { object, .. } = op {
            self.totals.reservations_refused += 1;
            if self.parts[object.dataset].oracle.reserved.is_at_bound(object.model.id) {
                return Ok(());
            }
        }
        if self.machine.shape().data_bytes > SMALL_POOL_BYTES {
            let pool = self.machine.server().filer.pool();
            let (space, folding) = (pool.io.allocator().space(), pool.txgs.fold_bytes());
            return Err(format!(
                "{op:?} is refused because the pool is full, and it is not: {space:?}, {folding} folding, {:?}",
                pool.io.allocator().fenced()
            ));
        }
        self.totals.full += u64::from(!self.is_full);
        self.is_full = true;
        Ok(())
    }

    /// Refused for a reason that the model knows nothing of, and without effect.
    fn is_no_effect(&self, told: &Told) -> bool {
        let is_full = matches!(told.status, nfsstat3::NFS3ERR_NOSPC | nfsstat3::NFS3ERR_DQUOT);
        is_full || (self.is_in_trouble() && matches!(told.status, nfsstat3::NFS3ERR_IO | nfsstat3::NFS3ERR_JUKEBOX))
    }

    /// The model does what the server has just done.
    fn take(&mut self, attempt: &Attempt, before: &Before, limits: Limits) -> Checked<Taken> {
        let op = &attempt.op;
        self.op += 1;
        self.totals.operations += 1;
        let number = self.op;
        if let Some(repeated) = attempt.repeats {
            self.past.retain(|past| past.id != repeated);
        }
        let rot = self.nearness(op, before);
        let unknown = Taken { number, expected: None, promised: Promised::Nothing, past: None, above: None, rot };
        if op.is_across() {
            let expected = Expected { result: Err(FsError::Unavailable), attr: None };
            return Ok(Taken { expected: Some(expected), ..unknown });
        }
        let cred = attempt.cred.clone();
        let part = &mut self.parts[op.dataset()];
        if part.oracle.cannot_know(op, before) {
            return Ok(unknown);
        }
        let growth = part.oracle.growth(op, before);
        let is_promised = part.oracle.is_promised_to(op);
        let expected = op.run_on(&part.oracle.live, &cred);
        let has_effect = expected.result.is_ok() && part.oracle.has_effect(op, before, limits);
        let promised = match expected.result {
            Ok(_) => part.oracle.take((op, &cred), number, before, limits),
            Err(error) => part.oracle.refused(op, error),
        };
        let above = if has_effect { part.seen.changes(op, &expected, before, number) } else { None };
        if let (Ok(Answer::Made(attr)), true) = (&expected.result, op.makes() && before.existing.is_none()) {
            self.note_record_size(op.dataset(), attr.object);
        }
        if has_effect {
            self.meanwhile.follow(op);
            self.count_reserved(op, is_promised);
        }
        if growth > 0 && has_effect {
            self.check_within_quota(op)?;
        }
        let past = self.remember(attempt, number, &expected, has_effect);
        Ok(Taken { number, expected: Some(expected), promised, past, above, rot })
    }

    /// A long COMMIT has put its first part into the log.
    fn take_part(&mut self, attempt: &Attempt, before: &Before, limits: Limits) -> Checked<()> {
        self.op += 1;
        self.totals.parts += 1;
        self.note(format!("#{} {:?}, a part", self.op, attempt.op));
        if self.is_beside() {
            // Which of it the other thread's groups have by now is not known here.
            return Ok(());
        }
        let part = &mut self.parts[attempt.op.dataset()];
        part.oracle.take_part((&attempt.op, &attempt.cred), self.op, before, limits)
    }

    /// A file keeps the size of its blocks for ever: what the property says when it is made.
    fn note_record_size(&mut self, dataset: usize, object: ObjectRef) {
        let part = &mut self.parts[dataset];
        let info = self.machine.server().filer.datasets().into_iter().find(|info| info.name == part.name);
        let record_size = u64::from(info.expect("datasets stay").effective.recordsize);
        part.record_sizes.insert(object, record_size);
    }

    fn remember(&mut self, attempt: &Attempt, number: usize, expected: &Expected, has_effect: bool) -> Option<u64> {
        if matches!(attempt.op, Op::Commit { .. }) {
            return None;
        }
        let id = self.next_past;
        self.next_past += 1;
        let made = match &expected.result {
            Ok(Answer::Made(attr)) => Some(attr.clone()),
            _ => None,
        };
        self.past.push_back(Past {
            id,
            client: attempt.client,
            cred: attempt.cred.clone(),
            record: attempt.record.clone(),
            op: attempt.op.clone(),
            number,
            reply: None,
            has_waited: false,
            attached: attempt.attached,
            made,
            succeeded: expected.result.is_ok(),
            has_effect,
            fate: Fate::Here,
            has_stayed: None,
            slot: attempt.slot.as_ref().map(|slot| slot.slot),
            sent_at_ns: self.time_on_ns(),
        });
        if self.past.len() > PAST_MAX {
            self.past.pop_front();
        }
        Some(id)
    }

    pub(super) fn is_beside(&self) -> bool {
        self.plan.syncs == super::Syncs::Beside
    }

    /// Sends a read, which waits for nothing.
    pub(super) fn read_told(&mut self, call: &crate::client::Call) -> Checked<Told> {
        self.read_by(0, call)
    }

    /// The same, by some client.
    pub(super) fn read_by(&mut self, client: usize, call: &crate::client::Call) -> Checked<Told> {
        let record = self.clients[client].record(call);
        let server = Arc::clone(self.machine.server());
        let mut job = server
            .service
            .open(record, self.clients[client].link(), Instant::now())
            .map_err(|refusal| format!("{} is refused: {refusal:?}", call.procedure))?;
        let Step::Reply(reply) = server.service.run(&mut job) else { return Err(format!("{} waits", call.procedure)) };
        server.service.finish(&mut job, &reply);
        told(call.procedure, &bytes_of(&reply))
    }
}

#[cfg(test)]
mod tests;
