//! What a compound has to say: written while its operations are carried out, and cut where one of them turns out not to have been.
//!
//! ```text
//!  status │ tag │ count │ number, status, results │ number, status, results │ number, status
//!                                 └ a Mark says where this stands
//! ```

use smallvec::SmallVec;
use tally_base::{DatasetId, FirstBroken, PoolGuid, Promise, SlotMark, all_of};

use super::state::bounds::KEPT_BYTES_MAX;
use super::state::{Guard, LookTicket, Stateid, Turns};
use super::status::Status;
use crate::stats::Operation;
use crate::xdr::Encoder;

/// The number of the result of an operation that there is not.
pub(super) const ILLEGAL: u32 = 10_044;

/// The one operation of which more than its status is told wherever it failed: which attributes were set (RFC 7530 §16.32).
const SETATTR: u32 = 34;

/// Where the status of an operation stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    number: u32,
    nth: u32,
    status_at: usize,
}

impl Mark {
    /// Which operation of its compound it is, from 0.
    pub(super) fn operation(self) -> u32 {
        self.nth
    }
}

/// Results so far.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) out: Encoder,
    count_at: usize,
    /// How many operations have a status.
    count: u32,
    status: Status,
    /// The one whose results are being written.
    open: Option<Mark>,
    first: Option<Mark>,
}

impl Results {
    /// None yet, of a compound with this tag.
    pub(super) fn new(tag: &[u8]) -> Self {
        let mut out = Encoder::new();
        out.u32(Status::Ok as u32).opaque(tag);
        let count_at = out.len();
        out.u32(0);
        Self { out, count_at, count: 0, status: Status::Ok, open: None, first: None }
    }

    /// The last one's status.
    pub(super) fn status(&self) -> Status {
        self.status
    }

    /// How many operations have one.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The compound as a whole is refused.
    pub(super) fn refuse(&mut self, status: Status) {
        self.status = status;
    }

    /// The results of another operation follow.
    pub(super) fn open(&mut self, number: u32) -> Mark {
        self.out.u32(number);
        let mark = Mark { number, nth: self.count, status_at: self.out.len() };
        self.out.u32(Status::Ok as u32);
        self.open = Some(mark);
        self.first.get_or_insert(mark);
        mark
    }

    /// They are complete.
    pub(super) fn close(&mut self, mark: Mark, status: Status) {
        self.out.replace_u32(mark.status_at, status as u32);
        (self.open, self.status, self.count) = (None, status, mark.nth + 1);
    }

    /// That operation failed: its status is all that is told of it, and nothing of those behind it.
    pub(super) fn cut(&mut self, mark: Mark, status: Status) {
        self.out.truncate(mark.status_at);
        self.out.u32(status as u32);
        if mark.number == SETATTR {
            // None.
            self.out.u32(0);
        }
        (self.open, self.status, self.count) = (None, status, mark.nth + 1);
    }

    /// The first operation failed: nothing is told of the others.
    pub(super) fn cut_to_first(&mut self, status: Status) {
        self.first.into_iter().for_each(|first| self.cut(first, status));
    }

    /// What was written of that operation behind its status. Nothing of it is shared.
    pub(super) fn behind(&self, mark: Mark) -> &[u8] {
        self.out.since(mark.status_at + 4)
    }

    /// That operation is to be carried out later: its number goes, too.
    pub(super) fn take_back(&mut self, mark: Mark) {
        self.out.truncate(mark.status_at - 4);
        self.open = None;
    }

    /// The operation that is being carried out, or else the next one, whose number this is, goes no further.
    pub(super) fn end_with(&mut self, next: u32, status: Status) {
        let mark = self.open.unwrap_or_else(|| self.open(next));
        self.cut(mark, status);
    }

    fn finish(mut self) -> Encoder {
        self.out.replace_u32(0, self.status as u32).replace_u32(self.count_at, self.count);
        self.out
    }
}

/// What the results rest on, and what the operations have done.
#[derive(Default)]
pub(super) struct Owed {
    /// The slot in which they are kept.
    pub(super) guard: Option<Guard>,
    waits: Vec<(Mark, Box<dyn Promise>)>,
    /// Something was changed.
    pub(super) has_changed: bool,
    /// A WRITE was carried out.
    pub(super) has_written: bool,
    /// Of files into files.
    pub(super) copied_bytes: u64,
    /// The dataset of the first operation that was to change something; of its pool are all others.
    pub(super) dataset: Option<(PoolGuid, DatasetId)>,
    /// How many were.
    pub(super) changes: usize,
    /// How many of them are remembered, in a persistent session.
    pub(super) marks: usize,
    /// The request that goes through once more, and changes nothing (rules V6), and what the first operation is told that was not carried out.
    pub(super) again: Option<(SlotMark, Status)>,
    /// Bytes of files that were read or written, in all.
    pub(super) data_bytes: u64,
    /// The stateid that belongs to the current handle, and that of the saved one, where an operation of this compound has given one.
    pub(super) stateids: [Option<Stateid>; 2],
    /// The operation that has found in its way what another client was given to keep.
    pub(super) kept_out: Option<u32>,
    /// The operation that looks at what another client has for writing, and with what it comes again.
    pub(super) looks: Option<(u32, LookTicket)>,
    /// How often it has waited for names of owners.
    pub(super) name_waits: u32,
    /// Of minor version 0: whose operations it carries out.
    pub(super) turns: Turns,
}

impl Owed {
    /// The results of that operation may not leave before this is kept.
    pub(super) fn add(&mut self, mark: Mark, promise: Box<dyn Promise>) {
        self.turns.wait(mark.operation());
        self.waits.push((mark, promise));
    }

    /// Whether the reply is remembered beside that of the pool: it was to change something, and no slot keeps it.
    pub(super) fn is_remembered(&self) -> bool {
        self.guard.is_none() && self.again.is_none() && self.changes > 0
    }

    /// The first operation whose promise nobody has kept by now.
    pub(super) fn first_open(&self) -> Option<Mark> {
        self.waits.iter().find(|(_, promise)| !matches!(promise.poll(), Some(Ok(_)))).map(|(mark, _)| *mark)
    }
}

/// Results that may leave once what they rest on is durable.
pub struct Ended {
    results: Results,
    marks: SmallVec<[Mark; 4]>,
    broken: FirstBroken,
    guard: Option<Guard>,
    /// They are remembered, so that no bytes of files may be among them.
    are_remembered: bool,
    turns: Turns,
}

impl Ended {
    /// With that, if there is something (rules V1).
    pub(super) fn new(results: Results, owed: Owed) -> (Self, Option<Box<dyn Promise>>) {
        let are_remembered = owed.is_remembered();
        let (marks, promises): (SmallVec<_>, Vec<_>) = owed.waits.into_iter().unzip();
        let (wait, broken) = match promises.is_empty() {
            true => (None, FirstBroken::default()),
            false => {
                let (promise, broken) = all_of(promises);
                (Some(promise), broken)
            }
        };
        (Self { results, marks, broken, guard: owed.guard, are_remembered, turns: owed.turns }, wait)
    }

    /// The operations that it waits for, each once, however many promises it has.
    pub fn waits(&self) -> impl Iterator<Item = Operation> {
        let mut before = None;
        let firsts = self.marks.iter().filter(move |mark| before.replace(mark.nth) != Some(mark.nth));
        firsts.map(|mark| Operation::of(mark.number))
    }

    /// Of one that waited in vain: the operation whose promise was broken, unless it had failed before.
    #[must_use]
    pub fn broken_by(&self) -> Option<Operation> {
        let Results { status, count, .. } = &self.results;
        let had_failed = |mark: &&Mark| *status != Status::Ok && mark.nth + 1 == *count;
        self.marks.get(self.broken.place()).filter(|mark| !had_failed(mark)).map(|mark| Operation::of(mark.number))
    }

    /// All of it is durable.
    #[must_use]
    pub fn kept(self) -> Encoder {
        let results = self.results.finish();
        self.turns.settle();
        if let Some(guard) = self.guard {
            match results.len() {
                ..=KEPT_BYTES_MAX => guard.finish(&results.to_vec()),
                _ => guard.finish_long(),
            }
        }
        if self.are_remembered { results.into_plain() } else { results }
    }

    /// Something is not: what stands before it is, and its operation failed (rules V3).
    #[must_use]
    pub fn broken(mut self) -> Encoder {
        if let Some(mark) = self.marks.get(self.broken.place()).copied() {
            self.results.cut(mark, Status::Io);
            std::mem::take(&mut self.turns).settle_broken(mark.operation());
        }
        self.kept()
    }
}
