//! Requests that come again, as from a client that has seen no answer.

use std::sync::Arc;

use nfs3_types::nfs3::nfsstat3;
use tally_nfs::service::Step;

use super::{ATTACHED_MAX, Attempt, Fate, Past, REMEMBERED_NS};
use crate::chance::Chance;
use crate::client::{bytes_of, told};
use crate::history::{Checked, State, Trouble};
use crate::op::Op;

impl State {
    /// Sends a past request again, as a client does that has seen no answer.
    pub(in crate::history) fn repeat(&mut self, chance: &mut Chance) -> Checked<Option<Attempt>> {
        let now_ns = self.time_on_ns();
        self.past.retain(|past| now_ns - past.sent_at_ns < REMEMBERED_NS);
        let may = |past: &&mut Past| past.reply.is_some() || past.fate != Fate::Here || past.attached < ATTACHED_MAX;
        let mut candidates: Vec<&mut Past> = self.past.iter_mut().filter(may).collect();
        if candidates.is_empty() {
            return Ok(None);
        }
        let at = chance.below(candidates.len() as u64) as usize;
        let dropped = candidates.iter().rposition(|past| past.fate == Fate::Dropped);
        let id = candidates.swap_remove(dropped.unwrap_or(at)).id;
        let past = self.past.iter().find(|past| past.id == id).expect("it was just found");
        self.totals.repetitions += 1;
        self.note(format!("again #{} {:?} ({:?})", past.number, past.op, past.fate));
        let attempt = self.open(past.op.clone(), (past.client, past.cred.clone()), past.record.clone(), Some(id))?;
        match past.fate {
            _ if past.op.is_newer() => self.repeat_newer(attempt, id),
            Fate::Here => self.repeat_here(attempt, id).map(|()| None),
            Fate::Survived => self.repeat_later(attempt, id).map(|()| None),
            // What was refused, or has found everything as it was to be, has left nothing that a repetition could be
            // answered from: it is a request like any other.
            Fate::Dropped if !past.has_effect => Ok(Some(attempt)),
            Fate::Lost => Ok(Some(attempt)),
            Fate::Dropped => self.repeat_dropped(attempt, id).map(|()| None),
        }
    }

    /// Where disks refuse requests, who is refused may not know what became of it: that is enough.
    pub(super) fn may_drop(&self) -> bool {
        !self.is_beside() && self.plan.trouble != Trouble::Refusals
    }

    /// A client's connection ends, and with it what was not answered on it.
    pub(in crate::history) fn drop_jobs(&mut self, client: usize) -> Checked<()> {
        let server = Arc::clone(self.machine.server());
        let is_of_client =
            |past: &Past| past.client == client && !matches!(past.op, Op::Write { .. }) && !past.op.is_newer();
        for mut sent in std::mem::take(&mut self.sent) {
            let mut past = self.past.iter_mut().filter(|past| is_of_client(past));
            let Some(past) = past.find(|past| Some(past.id) == sent.taken.past) else {
                self.sent.push(sent);
                continue;
            };
            past.fate = Fate::Dropped;
            let attached = std::mem::take(&mut past.attached);
            let told =
                server.service.abandon(&mut sent.attempt.job).ok_or("a job that was not answered owes nothing")?;
            if told.1.len() != attached {
                return Err(format!("{} connections are told of a dropped job, not {attached}", told.1.len()));
            }
            self.totals.dropped += 1;
            self.note(format!("#{} is dropped", sent.taken.number));
        }
        Ok(())
    }

    /// A dropped request that has changed something and is sent again is answered, as it was carried out, and never
    /// waits for the one that is gone.
    fn repeat_dropped(&mut self, mut attempt: Attempt, id: u64) -> Checked<()> {
        let server = Arc::clone(self.machine.server());
        let number = self.past.iter().find(|past| past.id == id).map_or(0, |past| past.number);
        let (reply, has_waited) = match server.service.run(&mut attempt.job) {
            Step::Attached => return Err(format!("a repetition of #{number}, which was dropped, is swallowed")),
            Step::Reply(reply) => (reply, false),
            Step::Wait(promise) => match promise.drive().or_else(|| promise.poll()) {
                Some(kept) => (server.service.reply_after_wait(&mut attempt.job, kept), true),
                None => {
                    server.service.abandon(&mut attempt.job);
                    return Ok(());
                }
            },
            Step::Again(_) => {
                server.service.abandon(&mut attempt.job);
                return Ok(());
            }
        };
        server.service.finish(&mut attempt.job, &reply);
        let bytes = bytes_of(&reply);
        let told = attempt.op.told(&bytes)?;
        let past = self.past.iter_mut().find(|past| past.id == id).expect("the caller has found it");
        if self.machine.power().is_off() || self.troubles.struck {
            return Ok(());
        }
        if told.status != nfsstat3::NFS3_OK {
            return Err(format!("a repetition of #{number}, which was dropped, is answered with {}", told.status));
        }
        (past.reply, past.has_waited, past.fate) = (Some(bytes), has_waited, Fate::Here);
        Ok(())
    }

    fn repeat_here(&mut self, mut attempt: Attempt, id: u64) -> Checked<()> {
        let server = Arc::clone(self.machine.server());
        let step = server.service.run(&mut attempt.job);
        let past = self.past.iter_mut().find(|past| past.id == id).expect("the caller has found it");
        match (step, &past.reply) {
            (Step::Attached, None) => past.attached += 1,
            (Step::Reply(reply), Some(first)) if bytes_of(&reply) == *first => {
                server.service.finish(&mut attempt.job, &reply);
            }
            (Step::Reply(reply), first) => {
                let (now, first) = (bytes_of(&reply), first.as_ref().map(Vec::len));
                return Err(format!(
                    "a repetition of #{} is answered with {now:?}, the first answer has {first:?} bytes",
                    past.number
                ));
            }
            (Step::Attached, Some(_)) => {
                return Err(format!("a repetition of #{} waits, though it was answered", past.number));
            }
            (Step::Wait(_) | Step::Again(_), _) => {
                return Err(format!("a repetition of #{} is carried out", past.number));
            }
        }
        Ok(())
    }

    /// Across a crash: what was done is not done again.
    pub(in crate::history) fn repeat_later(&mut self, mut attempt: Attempt, id: u64) -> Checked<()> {
        let server = Arc::clone(self.machine.server());
        let step = server.service.run(&mut attempt.job);
        let at = self.past.iter().position(|past| past.id == id).expect("the caller has found it");
        let number = self.past[at].number;
        let Step::Reply(reply) = step else { return Err(format!("a repetition of #{number} is carried out again")) };
        let links = server.service.finish(&mut attempt.job, &reply);
        attempt.check_attached(links.len())?;
        let bytes = bytes_of(&reply);
        let procedure = attempt.op.call().procedure;
        let now = told(procedure, &bytes)?;
        if self.is_in_trouble() && now.status != nfsstat3::NFS3_OK {
            return Ok(());
        }
        let first = self.past[at].reply.as_ref().map(|reply| told(procedure, reply)).transpose()?;
        if now.status != nfsstat3::NFS3_OK {
            return Err(format!("a repetition of #{number} after a crash is answered with {}", now.status));
        }
        if let Some(first) = first
            && first.handle != now.handle
        {
            return Err(format!("a repetition of #{number} after a crash gives another handle"));
        }
        self.totals.remembered += 1;
        if let (Some(handle), Some(made), true) = (&now.handle, self.past[at].made.clone(), attempt.op.makes()) {
            self.meet(attempt.op.dataset(), handle.clone(), &made)?;
        }
        let past = &mut self.past[at];
        (past.reply, past.has_waited, past.fate) = (Some(bytes), false, Fate::Here);
        Ok(())
    }
}
