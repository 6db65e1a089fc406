//! What an operation changes: before, whether it was here already and in which pool; behind it, what the results wait for, and what is remembered of it.

use smallvec::SmallVec;
use tally_base::{Promise, SlotMark, Wait};
use tally_vfs::{Change, FsError, OpCtx, Opened, Outcome, RememberedReply};

use super::{Compound, Halt, Mark, Stop};
use crate::entry::Target;
use crate::v4::state::bounds::MARKS_OF_REQUEST_MAX;
use crate::v4::state::{Guard, Mounted};
use crate::v4::status::Status;

impl Compound<'_> {
    /// Whether the pool remembers one more operation of this request. In a session that is not persistent it is the slot alone that remembers.
    pub(in crate::v4) fn check_marks(&self) -> Result<(), Status> {
        let is_marked = self.guard().is_some_and(|guard| guard.mark().is_some());
        if is_marked && self.owed.marks >= MARKS_OF_REQUEST_MAX { Err(Status::RepTooBigToCache) } else { Ok(()) }
    }

    /// Once the client has entered an export: whether its compound was here before is asked ahead of all that looks, as that may be otherwise by now.
    pub(super) fn was_here(&self) -> Result<(), Halt> {
        // In a session its slot has told that.
        if self.head.minor > 0 || self.entry.dataset().is_none() {
            return Ok(());
        }
        self.scene.repeats.begin(self.entry.user()).map_err(Halt::Repeated)
    }

    /// An operation is about to change something, in the pool in which those before it have: of one that waits for two pools nobody can
    /// say which of them it is in doubt of.
    pub(in crate::v4) fn begin(&mut self, target: &Target) -> Result<(), Stop> {
        // Where it goes on behind a wait nobody has asked in this attempt.
        self.was_here()?;
        let (pool, dataset) = (target.vfs.pool(), target.vfs.dataset());
        let (first, _) = *self.owed.dataset.get_or_insert((pool, dataset));
        if first != pool {
            return Err(if self.head.minor == 0 { Status::Resource } else { Status::NotSupp }.into());
        }
        if let Some(guard) = &mut self.owed.guard {
            guard.note_change(Mounted::of(&*target.vfs));
        }
        if let Some((mark, not_done)) = self.owed.again {
            self.performed = self.of_this_operation(mark).and_then(|mark| target.vfs.performed(&mark));
            if self.performed.is_none() {
                // By now its pool may be suspended, and tells nobody what it knows.
                return Err(if target.vfs.is_waited_for() { Status::Delay } else { not_done }.into());
            }
        }
        self.owed.changes += 1;
        Ok(())
    }

    /// It was not: it will be asked for anew.
    pub(in crate::v4) fn has_not_begun(&mut self) {
        self.owed.changes -= 1;
    }

    /// What this very operation was told before a crash or a broken connection, or in an attempt of its compound before this one.
    pub(in crate::v4) fn remembered(&self, target: &Target) -> Option<RememberedReply> {
        if self.is_again() {
            return self.performed;
        }
        match self.guard().and_then(Guard::mark) {
            Some(mark) => target.vfs.performed(&self.of_this_operation(mark)?),
            None => self.scene.repeats.remembered(&*target.vfs, Some(self.mark?.operation())),
        }
    }

    /// The request goes through once more from here on: what it did is told, and the first operation that was not carried out is told this.
    pub(in crate::v4) fn go_through_again(&mut self, mark: SlotMark, not_done: Status) {
        self.owed.again = Some((mark, not_done));
    }

    /// What an operation is told then that was not carried out.
    pub(in crate::v4) fn not_done(&self) -> Status {
        self.owed.again.map_or(Status::ServerFault, |(_, not_done)| not_done)
    }

    /// Whether it is.
    pub(in crate::v4) fn is_again(&self) -> bool {
        self.owed.again.is_some()
    }

    fn of_this_operation(&self, mark: SlotMark) -> Option<SlotMark> {
        Some(SlotMark { operation: self.mark?.operation(), ..mark })
    }

    /// For an operation whose answer the pool is to remember.
    pub(in crate::v4) fn ctx<'b>(&self, target: &'b Target) -> OpCtx<'b> {
        let reply = self.mark.map(Mark::operation).and_then(|nth| self.scene.repeats.key(Some(nth)));
        let mark = self.guard().and_then(Guard::mark).and_then(|mark| self.of_this_operation(mark));
        OpCtx { reply, mark, client: self.actor(), ..OpCtx::of(&target.cred) }
    }

    /// What came of an OPEN that may have made or cut a file, and what is told of it if it failed.
    pub(in crate::v4) fn opened(
        &mut self,
        outcome: Outcome<Opened>,
        told: Option<Status>,
    ) -> Result<(Opened, Changes), Stop> {
        self.changed(outcome).map_err(|stop| match (stop, told) {
            (Stop::Failed(_), Some(told)) => Stop::Failed(told),
            (stop, _) => stop,
        })
    }

    /// What came of an operation that may have changed something. Failures wait as well (rules F9).
    pub(in crate::v4) fn changed<T>(&mut self, outcome: Outcome<T>) -> Result<(T, Changes), Stop> {
        let Outcome { result, changes, wait } = outcome;
        if let Err(FsError::Delegated(object)) = result {
            return Err(self.changes_kept_out(object));
        }
        let (is_throttled, promise) = (matches!(result, Err(FsError::Throttled)), promise_of(wait));
        match (is_throttled, promise, self.mark) {
            (true, Some(promise), _) => {
                self.has_not_begun();
                return Err(Halt::Waits(promise).into());
            }
            (false, Some(promise), Some(mark)) => self.owed.add(mark, promise),
            _ => {}
        }
        let value = result.map_err(Status::from)?;
        self.owed.has_changed = true;
        Ok((value, changes))
    }
}

/// The attributes around an operation.
type Changes = SmallVec<[Change; 2]>;

fn promise_of(wait: Wait) -> Option<Box<dyn Promise>> {
    match wait {
        Wait::Ready => None,
        Wait::On(promise) => Some(promise),
    }
}
