//! Answers as they come, and what is learned from them.

use std::sync::Arc;

use nfs3_types::nfs3::nfsstat3;
use tally_vfs::{Attr, Attributes};

use super::{OBJECTS_MAX, Taken};
use crate::agree::{agree, is_refused_otherwise};
use crate::client::{Told, bytes_of};
use crate::history::rot::Nearness;
use crate::history::times::told_by;
use crate::history::{Checked, State};
use crate::op::{Answer, Expected, Known, Op};
use crate::oracle::Promised;

impl State {
    /// Drives those who wait; gives whether nobody is left.
    pub(in crate::history) fn drive_sent(&mut self) -> Checked<bool> {
        self.round += 1;
        let server = Arc::clone(self.machine.server());
        let mut left = Vec::new();
        for mut sent in std::mem::take(&mut self.sent) {
            let outcome = sent.promise.drive().or_else(|| sent.promise.poll());
            match outcome {
                None => {
                    let looked = sent.patience.check_again(self.machine.clock());
                    looked.map_err(|what| format!("#{} waits {what}", sent.taken.number))?;
                    left.push(sent);
                }
                Some(Err(_)) if self.machine.power().is_off() => {}
                Some(Err(broken)) if self.stays_in_doubt(&mut sent.attempt, &broken) => {
                    self.doubt(sent.attempt, sent.taken.past);
                }
                // It is told that it failed, and may have left its effect: in memory, or on disk.
                Some(Err(broken)) if self.is_in_trouble() => {
                    let job = &mut sent.attempt.job;
                    let reply = server.service.reply_after_wait(job, Err(broken));
                    server.service.finish(job, &reply);
                    self.past.retain(|past| Some(past.id) != sent.taken.past);
                }
                Some(Err(broken)) => return Err(format!("#{}: {broken}", sent.taken.number)),
                Some(Ok(kept)) => {
                    let reply = server.service.reply_after_wait(&mut sent.attempt.job, Ok(kept));
                    let links = server.service.finish(&mut sent.attempt.job, &reply);
                    if let Some(past) = self.past.iter_mut().find(|past| Some(past.id) == sent.taken.past) {
                        past.has_waited = true;
                        if past.attached != links.len() {
                            return Err(format!(
                                "#{}: {} connections get its answer, not {}",
                                sent.taken.number,
                                links.len(),
                                past.attached
                            ));
                        }
                    }
                    let bytes = bytes_of(&reply);
                    let op = &sent.attempt.op;
                    let told = op.told(&bytes)?;
                    self.note(format!("#{} is answered: {}", sent.taken.number, told.status));
                    self.answered(op, sent.taken, (&told, bytes))?;
                }
            }
        }
        self.sent = left;
        Ok(self.sent.is_empty())
    }

    /// An answer is there: it must agree with the model, and what it promises counts from now on.
    pub(super) fn answered(&mut self, op: &Op, taken: Taken, (told, bytes): (&Told, Vec<u8>)) -> Checked<()> {
        let Taken { number, expected, promised, past, above, rot } = taken;
        if let Some(past) = self.past.iter_mut().find(|of| Some(of.id) == past) {
            past.reply = Some(bytes);
        }
        let Some(expected) = &expected else { return Ok(()) };
        if (self.is_in_trouble() || rot.may_fail())
            && expected.result.is_err()
            && matches!(told.status, nfsstat3::NFS3ERR_IO | nfsstat3::NFS3ERR_JUKEBOX)
        {
            // Refused as it had to be, and for another reason.
            return Ok(());
        }
        if self.troubles.struck && expected.result.is_ok() && told.status == nfsstat3::NFS3ERR_IO {
            // Refused behind a wait, and the model believes that it is done. What is on disk says which; nothing may
            // rest on it.
            self.past.retain(|past| past.number != number);
            self.machine.power().cut();
            return Ok(());
        }
        agree(op, told, expected).map_err(|what| format!("#{number} {op:?} {what}"))?;
        self.totals.above_rot += u64::from(rot == Nearness::Above && told.status == nfsstat3::NFS3_OK);
        self.learn(op, told, expected)?;
        if let (Some(object), Some(attr)) = (told_by(op, expected), &told.attr) {
            let seen = self.parts[op.dataset()].seen.tell(object, attr, number, above);
            seen.map_err(|what| format!("#{number} {op:?} {what}"))?;
        }
        if is_refused_otherwise(told, expected) {
            return Ok(());
        }
        self.kept(op.dataset(), number, promised)
    }

    /// What was waited for is durable.
    pub(super) fn kept(&mut self, part: usize, number: usize, promised: Promised) -> Checked<()> {
        match promised {
            Promised::Nothing => Ok(()),
            Promised::Log(floor) => {
                self.parts[part].oracle.raise_floor(floor, self.round);
                Ok(())
            }
            Promised::Group(wanted) if wanted <= self.synced_op => Ok(()),
            // Which operations a group of the other thread has is not known here.
            Promised::Group(_) if self.is_beside() => Ok(()),
            Promised::Group(wanted) => Err(format!(
                "#{number} was answered, but #{wanted} is in no durable group (the newest ends with #{})",
                self.synced_op
            )),
        }
    }

    /// Takes in what a success has told: new objects, the verifier.
    pub(super) fn learn(&mut self, op: &Op, told: &Told, expected: &Expected) -> Checked<()> {
        if let (Ok(Answer::Made(attr)), Some(handle), true) = (&expected.result, &told.handle, op.makes()) {
            self.meet(op.dataset(), handle.clone(), attr)?;
        }
        if let Some(verifier) = told.verifier {
            let part = &mut self.parts[op.dataset()];
            let first = *part.verifier.get_or_insert(verifier);
            if first != verifier {
                return Err("the verifier changed within a life".into());
            }
            if part.old_verifiers.contains(&verifier) {
                return Err("the verifier is that of a life whose data may be lost".into());
            }
        }
        Ok(())
    }

    /// A handle is seen: of a new object, or the same as before.
    pub(in crate::history) fn meet(&mut self, dataset: usize, handle: Vec<u8>, attr: &Attr) -> Checked<()> {
        let known = self.objects.iter().find(|known| known.dataset == dataset && known.model == attr.object);
        if let Some(known) = known {
            let same = known.handle == handle;
            return if same { Ok(()) } else { Err(format!("{known:?} has another handle than before")) };
        }
        if self.parts[dataset].oracle.live.getattr(attr.object).is_err() {
            return Ok(());
        }
        let record_size = self.parts[dataset].record_sizes.get(&attr.object).copied().unwrap_or(0);
        let known = Known { handle, model: attr.object, kind: attr.kind, dataset, record_size };
        let real = known.real(&self.machine.server().filer.pool().roster.config().handle_key)?;
        // One that is there again, as the pool has gone back behind its removal, is the same.
        if self.parts[dataset].gone_ids.get(&real.id).is_some_and(|gone| *gone != real.generation) {
            return Err(format!("{known:?} has the number {} of an object that is gone", real.id));
        }
        self.objects.push(Arc::new(known));
        if self.objects.len() > OBJECTS_MAX {
            let parts = &self.parts;
            self.objects.retain(|object| parts[object.dataset].oracle.live.getattr(object.model).is_ok());
        }
        Ok(())
    }
}
