//! Version 4's one procedure. A compound is carried out operation by operation, and its reply waits for all of them at once (rules V1 to V3).

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::job::Pending;
use super::{Job, Service, Step};
use crate::repeats::Repeats;
use crate::rpc::{AcceptError, Reply};
use crate::stats::{Kind, count};
use crate::v3;
use crate::v4::{Attempt, Halt, House, Progress, Scene, Status, VERSION, refusal as refused};
use crate::xdr::{Encoder, Garbage};

/// The procedure that is not NULL.
const COMPOUND: u32 = 1;

impl Service {
    pub(super) fn compound(&self, job: &mut Job, house: &House) -> Step {
        let error = |error| {
            count(&self.stats.refused);
            Step::Reply(Reply::accept_error(job.call.xid, error))
        };
        let progress = match job.call.procedure {
            0 => return Step::Reply(Reply::success(job.call.xid, Encoder::default())),
            COMPOUND => job.compound.take().map_or_else(|| Progress::new(&job.call).map(Box::new), Ok),
            _ => return error(AcceptError::ProcedureUnavailable),
        };
        match progress {
            Ok(progress) => self.carry_out(job, progress, house),
            Err(Garbage) => error(AcceptError::GarbageArguments),
        }
    }

    fn carry_out(&self, job: &mut Job, mut progress: Box<Progress>, house: &House) -> Step {
        let begin = |user| self.begin(job, true, user);
        let repeats = Repeats::new(&begin, &self.senders, &job.link);
        let (exports, link, call, stats) = (&*self.exports, &*job.link, &job.call, &*self.stats);
        let scene = Scene { exports, link, call, house, repeats: &repeats, stats };
        let attempt = catch_unwind(AssertUnwindSafe(|| progress.go_on(&job.call, &scene)));
        job.keep |= progress.is_remembered();
        job.counted = Some(Kind::compound(progress.changes()));
        job.about.data_bytes = progress.data_bytes();
        if !job.link.is_open() {
            // It may have bound its connection behind the moment in which that was closed.
            house.disconnected(job.link.id());
        }
        let Ok(Attempt { halt, dataset, too_weak }) = attempt else {
            self.note_panic(job);
            job.about.dataset = job.about.dataset.or(progress.abort(&job.call));
            return self.ended(job, *progress);
        };
        job.about.dataset = job.about.dataset.or(dataset);
        if let Some((pool, dataset)) = too_weak {
            self.tell_of_stranger(job, pool, dataset);
        }
        match halt {
            None => self.ended(job, *progress),
            Some(Halt::Waits(promise)) => {
                count(&self.stats.throttled);
                job.compound = Some(progress);
                Step::Again(promise)
            }
            Some(Halt::Parked(promise)) => {
                job.compound = Some(progress);
                Step::Again(promise)
            }
            Some(Halt::Repeated(repeated)) => self.repeat(job, repeated),
            Some(Halt::Told(results)) => {
                job.counted = None;
                count(&self.stats.retransmissions);
                let mut words = Encoder::with_capacity(results.len());
                words.raw(&results);
                Step::Reply(Reply::success(job.call.xid, words))
            }
        }
    }

    fn ended(&self, job: &mut Job, mut progress: Progress) -> Step {
        job.told = Some(progress.told(job.in_doubt.is_some()));
        if job.in_doubt.is_some() && job.is_told_to_come_again() {
            // It stays in doubt.
            progress.leave_last();
        }
        let (ended, wait) = progress.end();
        job.has_waited = wait.is_some();
        match wait {
            None => Step::Reply(Reply::success(job.call.xid, ended.kept())),
            Some(promise) => {
                job.pending = Some(Pending::Compound(Box::new(ended)));
                Step::Wait(promise)
            }
        }
    }
}

/// What is told of a compound that nobody will carry to its end; nothing, if nothing of it was done.
pub(super) fn given_up(job: &mut Job) -> Option<Encoder> {
    match (job.compound.take(), job.pending.take()) {
        (Some(progress), _) => Some(progress.give_up(&job.call)),
        // Which of its promises were kept nobody can say any more.
        (None, Some(Pending::Compound(ended))) => Some(ended.broken()),
        _ => None,
    }
}

/// An error for a compound as a whole; nothing, if it is none, or empty.
pub(super) fn refusal(job: &Job, status: Status) -> Option<Encoder> {
    let call = &job.call;
    let is_compound = (call.program, call.version, call.procedure) == (v3::PROGRAM, VERSION, COMPOUND);
    is_compound.then(|| refused(call, status)).flatten()
}
