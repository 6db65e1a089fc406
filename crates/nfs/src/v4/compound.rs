//! COMPOUND (RFC 7530 §15.2): operations one after another, up to the first that is not OK.
//!
//! ```text
//!  arguments   tag │ minor version │ count │ number, arguments │ number, arguments │ …
//!  results     status │ tag │ count │ number, status, results │ … │ number, status      the last one's status is the compound's
//! ```
//!
//! An operation decodes its arguments when its turn comes and appends its results: there is no tree of all arguments, and one that cannot be decoded
//! fails alone. What follows an operation that failed is not looked at.
//!
//! Here is the step from one operation to the next. What operations ask of their compound has rooms of its own: [`handles`] (what they name), [`right`] (by which
//! stateid they read and write), [`changes`] (what they change, and whether it was here before), [`given`] (what their client could claim again), [`delegated`] (as whom
//! they act beside what others were given to keep), [`owners`] (whom they mean by a name), [`speaking`] (who their client is). [`performing`] has the table of all operations.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tally_base::Promise;
use tally_vfs::RememberedReply;

use super::house::House;
use super::naming::Teller;
use super::op::{self, Meaning, Op};
use super::progress::{HeldHandle, number_of};
use super::pseudo::{Node, Shut, Tree};
use super::results::{Mark, Owed, Results};
use super::state::bounds::{self, COPY_BYTES_MAX};
use super::state::{Guard, Presence};
use super::status::Status;
use crate::entry::Entry;
use crate::exports::Exports;
use crate::link::Link;
use crate::repeats::{Repeated, Repeats};
use crate::rpc::Call;
use crate::stats::{Done, Operation, Stats};
use crate::xdr::{Decoder, Encoder, Garbage};

mod changes;
mod delegated;
mod given;
mod handles;
mod owners;
mod performing;
mod right;
mod speaking;

/// Longest results: as in a session.
const REPLY_BYTES_MAX: usize = bounds::REPLY_BYTES_MAX as usize;
/// What an operation writes around data, and what a short one behind it may take.
const END_BYTES: usize = 1024;
/// What an operation that changes something answers with at most, and the handle behind it.
const CHANGE_BYTES: usize = 256;
/// Longest results of a compound that changes something outside of sessions: its reply is remembered, in a place that all share.
const REMEMBERED_BYTES_MAX: usize = 16 << 10;
/// Most operations that change something in one compound: the pool remembers so many of a client, and others of it as well.
const CHANGES_MAX: usize = 8;
/// What stands before results: the header of RPC, without the record's mark.
const HEAD_BYTES: usize = 24;

/// Who asks for a compound, and whom it may ask.
pub struct Scene<'a> {
    /// What there is to see.
    pub exports: &'a dyn Exports,
    /// Where it came from.
    pub link: &'a Link,
    /// What was asked, and whom it names.
    pub call: &'a Call,
    /// What all compounds share.
    pub house: &'a House,
    /// Whether it was here before.
    pub repeats: &'a Repeats<'a>,
    /// Where its operations count.
    pub stats: &'a Stats,
}

/// A compound that is carried out.
pub(super) struct Compound<'a> {
    pub(super) entry: Entry<'a>,
    pub(super) scene: &'a Scene<'a>,
    /// What the current handle names, or what is said to who asks for it.
    pub(super) current: Result<Node, Shut>,
    pub(super) saved: Result<Node, Shut>,
    owed: &'a mut Owed,
    head: Head,
    /// The operation that is carried out.
    mark: Option<Mark>,
    /// What it did in a life before, where it is carried out once more.
    performed: Option<RememberedReply>,
    speaker: Option<Arc<Presence>>,
    /// When the next operation began, and how many bytes of files were read or written before.
    counted: (Instant, u64),
}

/// What stands before the operations, and what the first of them has found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) minor: u32,
    pub(super) count: u32,
    /// Whatever follows SEQUENCE is answered so.
    pub(super) next: Option<Status>,
}

/// Why an operation goes no further.
pub(super) enum Stop {
    /// It failed.
    Failed(Status),
    /// Its whole compound stops.
    Halted(Halt),
}

/// Why a compound goes no further in an attempt, and is not at its end.
pub enum Halt {
    /// An operation found no room: it goes on with that one once this is over.
    Waits(Box<dyn Promise>),
    /// The same without a worker, for a moment: for what another client keeps, or for the name of an owner.
    Parked(Box<dyn Promise>),
    /// It was here before.
    Repeated(Repeated),
    /// It was carried out in its slot, with these results.
    Told(Bytes),
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Self::Halted(halt)
    }
}

impl From<Status> for Stop {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

impl From<Garbage> for Stop {
    fn from(garbage: Garbage) -> Self {
        Self::Failed(garbage.into())
    }
}

impl<'a> Compound<'a> {
    /// With these handles, entered under today's rules.
    pub(super) fn new(
        scene: &'a Scene<'a>,
        head: Head,
        owed: &'a mut Owed,
        [current, saved]: [&HeldHandle; 2],
    ) -> Self {
        let entry = Entry::new(scene.exports, scene.link, &scene.call.identity);
        let (client, minor, lease) = (scene.link.peer().ip(), head.minor, scene.house.lease());
        let names = Teller::new(&scene.house.naming);
        let tree = Tree { exports: scene.exports, entry: &entry, client, minor, lease, names };
        let [current, saved] =
            [current, saved].map(|held| tree.of_handle(held.as_ref().map_err(|status| Shut::from(*status))?));
        let counted = (Instant::now(), owed.data_bytes);
        Self { entry, scene, current, saved, owed, head, mark: None, performed: None, speaker: None, counted }
    }

    /// Its handles.
    pub(super) fn held(&self) -> [HeldHandle; 2] {
        [&self.current, &self.saved].map(|node| match node {
            Ok(node) => Ok(node.handle()),
            Err(Shut { unseen: Some((handle, ..)), .. }) => Ok(handle.clone()),
            Err(shut) => Err(shut.told),
        })
    }

    /// The next operation. What it wrote before it failed goes.
    pub(super) fn step(&mut self, words: &mut Decoder<'_>, results: &mut Results) -> Result<(), Halt> {
        let number = words.u32();
        let asked = number.map_or(Meaning::Illegal, |number| op::asked(self.head.minor, number));
        let mark = results.open(number_of(self.head.minor, number.ok()));
        self.mark = Some(mark);
        let outcome = match asked {
            Meaning::For(op) => match self.check_place(op, mark, &results.out) {
                Ok(()) => self.perform_counted(op, words, &mut results.out),
                Err(status) => Err(status.into()),
            },
            Meaning::NotSupported if self.is_outside(mark) => Err(Status::OpNotInSession.into()),
            Meaning::NotSupported => Err(Status::NotSupp.into()),
            Meaning::Illegal if number.is_err() => Err(Status::BadXdr.into()),
            Meaning::Illegal => Err(Status::OpIllegal.into()),
        };
        let outcome = outcome.and_then(|status| Ok(self.was_here().map(|()| status)?));
        match outcome {
            // What all operations together may answer (rules V35): this one alone would have had room.
            Ok(status) if results.out.len() <= self.reply_bytes_max() => results.close(mark, status),
            Ok(_) => results.cut(mark, self.too_big()),
            Err(Stop::Failed(status)) => results.cut(mark, status),
            Err(Stop::Halted(halt)) => {
                results.take_back(mark);
                return Err(halt);
            }
        }
        if self.is_again() && results.status() == Status::Delay {
            // Of SEQUENCE, or the client would take its slot for used, and what was done is told to nobody (rules V6).
            results.cut_to_first(Status::Delay);
            self.owed.guard = None;
        }
        self.note_told(mark, results);
        self.count(number.map_or(Operation::ILLEGAL, |number| op::counted(self.head.minor, number)), results.status());
        Ok(())
    }

    /// An operation was told this.
    fn count(&mut self, operation: Operation, status: Status) {
        let (began, before) = std::mem::replace(&mut self.counted, (Instant::now(), self.owed.data_bytes));
        let (ended, bytes) = self.counted;
        let done = Done { ok: status == Status::Ok, data_bytes: bytes - before, work: ended - began };
        self.scene.stats.enter_operation(operation, done);
    }

    /// Whether an operation may stand where it does (RFC 8881 §2.10.6 and §18.46), and whether its answer will fit, which is asked before
    /// something is changed (rules V16).
    fn check_place(&self, op: Op, mark: Mark, out: &Encoder) -> Result<(), Status> {
        let is_first = mark.operation() == 0;
        if self.head.minor > 0 {
            match op {
                Op::Sequence if !is_first => return Err(Status::SequencePos),
                Op::Sequence => {}
                _ if self.is_outside(mark) && !op.stands_alone() => return Err(Status::OpNotInSession),
                _ if self.is_outside(mark) && self.head.count > 1 => return Err(Status::NotOnlyOp),
                _ => {}
            }
        }
        if let Some(status) = self.head.next {
            return Err(status);
        }
        if let Some((_, not_done)) = self.owed.again.filter(|_| !op.only_looks() && !op.leaves_mark()) {
            return Err(not_done);
        }
        if !op.changes() && !op.ends_state() {
            return Ok(());
        }
        let most = if self.head.minor == 0 && op.changes() { REMEMBERED_BYTES_MAX } else { self.reply_bytes_max() };
        if out.len() + CHANGE_BYTES > most {
            return Err(self.too_big());
        }
        if op.changes() && self.head.minor == 0 && self.owed.changes >= CHANGES_MAX {
            return Err(Status::Resource);
        }
        // An OPEN says by itself whether it makes something.
        if op.leaves_mark() && op != Op::Open { self.check_marks() } else { Ok(()) }
    }

    /// Whether the operation is the first one, where there has to be a session.
    fn is_outside(&self, mark: Mark) -> bool {
        self.head.minor > 0 && mark.operation() == 0
    }

    /// How long the results may become.
    fn reply_bytes_max(&self) -> usize {
        match &self.owed.guard {
            Some(guard) => REPLY_BYTES_MAX.min((guard.reply_bytes_max() as usize).saturating_sub(HEAD_BYTES)),
            None if self.owed.changes > 0 => REMEMBERED_BYTES_MAX,
            None => REPLY_BYTES_MAX,
        }
    }

    /// What is said of results that are longer.
    pub(super) fn too_big(&self) -> Status {
        match &self.owed.guard {
            None => Status::Resource,
            Some(guard) if guard.must_keep() => Status::RepTooBigToCache,
            Some(_) => Status::RepTooBig,
        }
    }

    /// Of RFC 7530, or of RFC 8881 and RFC 7862.
    pub(super) fn minor(&self) -> u32 {
        self.head.minor
    }

    /// How many operations it has.
    pub(super) fn operations(&self) -> u32 {
        self.head.count
    }

    /// Whether nothing follows the operation that is carried out.
    pub(super) fn is_at_last(&self) -> bool {
        self.mark.is_none_or(|mark| mark.operation() + 1 == self.head.count)
    }

    /// The slot that it is carried out in.
    pub(super) fn guard(&self) -> Option<&Guard> {
        self.owed.guard.as_ref()
    }

    /// It is carried out in this slot from now on.
    pub(super) fn hold(&mut self, guard: Guard) {
        self.owed.guard = Some(guard);
    }

    /// Whatever follows is answered so.
    pub(super) fn next_fails_with(&mut self, status: Option<Status>) {
        self.head.next = status;
    }

    /// How much an operation may answer with, bytes, if it is one that takes what it gets.
    pub(super) fn room(&self, out: &Encoder) -> u32 {
        u32::try_from(self.reply_bytes_max().saturating_sub(out.len() + END_BYTES)).expect("replies are short")
    }

    /// Bytes of a file were read or written.
    pub(super) fn note_data(&mut self, bytes: usize) {
        self.owed.data_bytes += bytes as u64;
    }

    /// A WRITE was carried out.
    pub(super) fn note_written(&mut self) {
        self.owed.has_written = true;
    }

    /// Whether one was: it may have come again, and then what was set behind it the first time has to be set again.
    pub(super) fn has_written(&self) -> bool {
        self.owed.has_written
    }

    /// How much of so many bytes a COPY may take over: what all of a compound may together, so that it ends soon. Those behind come again.
    pub(super) fn to_copy(&self, wanted: u64) -> Result<u64, Status> {
        let left = COPY_BYTES_MAX - self.owed.copied_bytes;
        if left == 0 { Err(Status::Delay) } else { Ok(wanted.min(left)) }
    }

    /// So much more was.
    pub(super) fn note_copied(&mut self, bytes: u64) {
        self.owed.copied_bytes += bytes;
    }
}
