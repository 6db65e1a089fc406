//! A compound under way: all that outlives an attempt to carry it out.
//!
//! Where an operation finds no room its request waits, and goes on with that operation: what was done is not done again, whatever becomes of the
//! connection (rules V2). Meanwhile rules may change and datasets go, so only handles are kept, and entered anew (rules V36).

use tally_base::{DatasetId, PoolGuid, Promise};

use super::compound::{Compound, Halt, Head, Scene};
use super::op::{self, Meaning};
use super::pseudo::Handle;
use super::results::{Ended, ILLEGAL, Owed, Results};
use super::state::bounds::{OPS_OUTSIDE_MAX, TAG_BYTES_MAX};
use super::status::Status;
use crate::repeats::Told;
use crate::rpc::Call;
use crate::xdr::{Encoder, Garbage};

/// A compound, and how far it has come.
pub struct Progress {
    head: Head,
    /// Where in its record the next operation begins.
    at: usize,
    results: Results,
    owed: Owed,
    current: HeldHandle,
    saved: HeldHandle,
}

/// A handle, or what is said to who asks for it.
pub(super) type HeldHandle = Result<Handle, Status>;

/// What came of an attempt.
pub struct Attempt {
    /// Why it is not at its end.
    pub halt: Option<Halt>,
    /// The dataset that it is about.
    pub dataset: Option<(PoolGuid, DatasetId)>,
    /// The dataset whose rule asks for more than the connection can show: its client is told that it may not, and the reason is in the log.
    pub too_weak: Option<(PoolGuid, DatasetId)>,
}

impl Progress {
    /// Reads what stands before the operations.
    pub fn new(call: &Call) -> Result<Self, Garbage> {
        let mut words = call.arguments();
        let mut results = Results::new(words.opaque(TAG_BYTES_MAX)?);
        let head = Head { minor: words.u32()?, count: words.u32()?, next: None };
        if head.minor > op::MINOR_MAX {
            results.refuse(Status::MinorVersMismatch);
        } else if head.minor == 0 && head.count > OPS_OUTSIDE_MAX {
            // In a session it is the session that bounds them.
            results.refuse(Status::Resource);
        }
        // RESTOREFH has an error of its own in minor version 0 alone (RFC 8881 §15.1.16.4).
        let unsaved = if head.minor == 0 { Status::RestoreFh } else { Status::NoFileHandle };
        let (current, saved) = (Err(Status::NoFileHandle), Err(unsaved));
        Ok(Self { head, at: words.position(), results, owed: Owed::default(), current, saved })
    }

    /// Carries out what is left of it.
    pub fn go_on(&mut self, call: &Call, scene: &Scene<'_>) -> Attempt {
        let mut compound = Compound::new(scene, self.head, &mut self.owed, [&self.current, &self.saved]);
        let mut words = call.arguments_from(self.at);
        let mut halt = None;
        while halt.is_none() && self.results.count() < self.head.count && self.results.status() == Status::Ok {
            match compound.step(&mut words, &mut self.results) {
                Ok(()) => self.at = words.position(),
                Err(why) => halt = Some(why),
            }
        }
        let (entered, too_weak) = (compound.entry.dataset(), compound.entry.too_weak());
        let held = compound.held();
        if matches!(halt, Some(Halt::Waits(_) | Halt::Parked(_))) {
            [self.current, self.saved] = held;
        }
        Attempt { halt, dataset: self.owed.dataset.or(entered), too_weak }
    }

    /// What was being carried out broke: what was done before it is told. Gives the dataset that it is about.
    pub fn abort(&mut self, call: &Call) -> Option<(PoolGuid, DatasetId)> {
        self.owed.turns.end(self.results.count(), Status::ServerFault, &[], None);
        self.results.end_with(self.next(call), Status::ServerFault);
        self.owed.dataset
    }

    /// Nobody will carry out what is left. What was done is told, as far as it is durable by now; the next operation is to come again. Where all of it is, the slot keeps that for who comes again
    /// over another connection (rules V2), but of a request that is in doubt, which stays so.
    #[must_use]
    pub fn give_up(mut self, call: &Call) -> Encoder {
        let mut turns = std::mem::take(&mut self.owed.turns);
        let mut kept = Owed::default();
        match self.owed.first_open() {
            Some(mark) => {
                self.results.cut(mark, Status::Io);
                turns.settle_broken(mark.operation());
            }
            None => {
                turns.end(self.results.count(), Status::Delay, &[], None);
                self.results.end_with(self.next(call), Status::Delay);
                turns.settle();
                kept.guard = self.owed.guard.take_if(|_| self.owed.again.is_none());
            }
        }
        Ended::new(self.results, kept).0.kept()
    }

    /// The number of the next operation's results.
    fn next(&self, call: &Call) -> u32 {
        number_of(self.head.minor, call.arguments_from(self.at).u32().ok())
    }

    /// Whether its answer is to be remembered: it was to change something.
    #[must_use]
    pub fn is_remembered(&self) -> bool {
        self.owed.is_remembered()
    }

    /// Whether it was to change something.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.owed.changes > 0
    }

    /// Bytes of files that it has read and written.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.owed.data_bytes
    }

    /// What its client will be told. Of one that is in doubt (`is_run_again`) nobody knows what was done before.
    #[must_use]
    pub fn told(&self, is_run_again: bool) -> Told {
        match self.results.status() {
            Status::Ok => Told::Ok,
            Status::Delay if is_run_again || !self.owed.has_changed => Told::ComeAgain,
            Status::ServerFault => Told::Fault,
            _ => Told::Failed,
        }
    }

    /// Its last operation is to come again, and nobody is told.
    pub fn leave_last(&mut self) {
        self.owed.turns.leave(self.results.count().saturating_sub(1));
    }

    /// Its results, and what they wait for.
    #[must_use]
    pub fn end(self) -> (Ended, Option<Box<dyn Promise>>) {
        Ended::new(self.results, self.owed)
    }
}

/// The answer to a compound of which nothing is told but this, as the status of its first operation. Nothing, where it has none.
#[must_use]
pub fn refusal(call: &Call, status: Status) -> Option<Encoder> {
    let Progress { at, mut results, head: Head { count: 1.., minor, .. }, .. } = Progress::new(call).ok()? else {
        return None;
    };
    results.end_with(number_of(minor, call.arguments_from(at).u32().ok()), status);
    Some(Ended::new(results, Owed::default()).0.kept())
}

/// With which number the results of an operation begin.
pub(super) fn number_of(minor: u32, number: Option<u32>) -> u32 {
    number.filter(|number| op::asked(minor, *number) != Meaning::Illegal).unwrap_or(ILLEGAL)
}
