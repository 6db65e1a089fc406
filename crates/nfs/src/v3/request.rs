//! One request on its way: whether it was here before, and from the file system's outcome to an answer.

use std::cell::Cell;

use tally_base::{DatasetId, PoolGuid, Time, Wait};
use tally_vfs::{Change, FsError, ObjectRef, OpCtx, Outcome, RememberedReply, Stability};

use super::Procedure;
use super::status::Status;
use super::wire::Put;
use crate::entry::{Closed, Entry, Target};
use crate::exports::Exports;
use crate::link::Link;
use crate::repeats::{Begin, Repeated, Repeats};
use crate::rpc::Call;
use crate::senders::Senders;
use crate::xdr::Encoder;

/// A call to NFSv3, and what it needs.
pub struct Request<'a> {
    /// Header and arguments, as they came.
    pub call: &'a Call,
    /// Where it came from.
    pub link: &'a Link,
    entry: Entry<'a>,
    repeats: Repeats<'a>,
    /// What a READ took or a WRITE brought, bytes of content, and how stable it is to be.
    data: Cell<(u64, Stability)>,
    /// As of which state of the exports it was asked whether its files are anybody's to read or change.
    as_of: Cell<Option<Time>>,
}

/// What a request turned out to be about, for the statistics.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The dataset of its (first) handle, if the client may see it.
    pub dataset: Option<(PoolGuid, DatasetId)>,
    /// What a WRITE asked for.
    pub stability: Stability,
    /// Bytes of file content that it brought or took.
    pub data_bytes: u64,
}

impl Default for About {
    fn default() -> Self {
        Self { dataset: None, stability: Stability::Unstable, data_bytes: 0 }
    }
}

/// What became of a request.
pub enum Done {
    /// It has an answer.
    Answer(Answer),
    /// Admission was refused for now, or a part of it was done: run it again once this is over.
    Again(Wait),
    /// It was here before.
    Repeated(Repeated),
    /// Another client was given this object of its dataset to keep, and is to give it back first.
    KeptOut(ObjectRef),
    /// Another client has this object for writing, and is to be asked what it is like.
    Asks(ObjectRef, u64),
}

/// An answer, and what it waits for.
pub struct Answer {
    /// Its status, for the statistics.
    pub status: Status,
    /// The results, status included.
    pub body: Encoder,
    /// Only after this may it leave.
    pub wait: Wait,
}

impl From<Closed> for Status {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::BadHandle => Self::BadHandle,
            Closed::Stale => Self::Stale,
            Closed::Away => Self::JukeBox,
            Closed::Out | Closed::TooWeak => Self::Acces,
        }
    }
}

impl<'a> Request<'a> {
    /// A call. `begin` tells whether it was here before.
    #[must_use]
    pub fn new(
        call: &'a Call,
        (link, senders): (&'a Link, &'a Senders),
        exports: &'a dyn Exports,
        begin: &'a Begin<'a>,
    ) -> Self {
        let (entry, data) = (Entry::new(exports, link, &call.identity), Cell::new((0, Stability::Unstable)));
        Self { call, link, entry, repeats: Repeats::new(begin, senders, link), data, as_of: Cell::default() }
    }

    /// The dataset for which it is refused as too weak, whatever else was made of it.
    #[must_use]
    pub fn too_weak(&self) -> Option<(PoolGuid, DatasetId)> {
        self.entry.too_weak()
    }

    /// What it turned out to be about.
    #[must_use]
    pub fn about(&self) -> About {
        let (data_bytes, stability) = self.data.get();
        About { dataset: self.entry.dataset(), stability, data_bytes }
    }

    /// From here on what is exported may not become another thing: its pool may have come, and with it who claims what he has written (rules V27).
    pub(crate) fn is_as_of(&self, changed: Time) {
        self.as_of.set(Some(changed));
    }

    /// The object of a handle, if the handle is ours and the client may see the dataset.
    pub(super) fn target(&self, handle: &[u8]) -> Result<Target, Status> {
        let target = self.entry.target(handle)?;
        let is_another = self.as_of.get().is_some_and(|changed| changed != self.entry.changed());
        if is_another { Err(Status::JukeBox) } else { Ok(target) }
    }

    /// The same for a request that changes something.
    pub(super) fn target_to_change(&self, handle: &[u8]) -> Result<Target, Status> {
        let target = self.target(handle)?;
        if target.rule.read_only { Err(Status::RoFs) } else { Ok(target) }
    }

    /// Notes what a READ took or a WRITE brought.
    pub(super) fn note_data(&self, bytes: usize, stability: Stability) {
        self.data.set((bytes as u64, stability));
    }

    /// The root of the dataset that is mounted on `name` in the directory `target`, if there is one.
    pub(super) fn child(&self, target: &Target, name: &[u8]) -> Option<Result<Target, Status>> {
        Some(self.entry.child(target, name)?.map_err(Status::from))
    }

    /// Every request that is remembered asks this once its targets are found, and before anything is done: what to say if
    /// it was here before.
    pub(super) fn repeated(&self) -> Option<Done> {
        self.repeats.begin(self.entry.user()).err().map(Done::Repeated)
    }

    /// Whether it was carried out before: then nothing that is in the way of changes is in its way, as it makes none.
    pub(crate) fn was_carried_out(&self, target: &Target) -> bool {
        self.repeated().is_some() || self.remembered(target).is_some()
    }

    /// The first answer to this very request, given before a crash or a broken connection.
    pub(super) fn remembered(&self, target: &Target) -> Option<RememberedReply> {
        self.repeats.remembered(&*target.vfs, None)
    }
}

impl Target {
    pub(super) fn ctx(&self, request: &Request<'_>) -> OpCtx<'_> {
        OpCtx { reply: request.repeats.key(None), ..OpCtx::of(&self.cred) }
    }
}

impl Done {
    /// A reply that waits for nothing.
    pub(super) fn now(status: Status, body: Encoder) -> Self {
        Self::Answer(Answer { status, body, wait: Wait::Ready })
    }

    /// The reply of NULL.
    pub(super) fn null() -> Self {
        Self::now(Status::Ok, Encoder::default())
    }

    /// A failure of which nothing but the status is known.
    pub(crate) fn failure(procedure: Procedure, status: Status) -> Self {
        Self::now(status, failure_body(procedure, status))
    }

    /// The answer to a modifying operation: `fill` encodes what follows the status.
    pub(super) fn modified<T>(outcome: Outcome<T>, fill: impl FnOnce(&mut Encoder, Option<T>, &[Change])) -> Self {
        let Outcome { result, changes, wait } = outcome;
        let (status, value) = match result {
            Err(FsError::Throttled) if matches!(wait, Wait::On(_)) => return Self::Again(wait),
            Err(FsError::Delegated(object)) => return Self::KeptOut(object),
            Err(error) => (Status::from(error), None),
            Ok(value) => (Status::Ok, Some(value)),
        };
        let mut words = Encoder::new();
        words.status(status);
        fill(&mut words, value, &changes);
        Self::Answer(Answer { status, body: words, wait })
    }
}

/// The results of a procedure that failed before it reached anything.
pub(crate) fn failure_body(procedure: Procedure, status: Status) -> Encoder {
    let mut words = Encoder::new();
    words.status(status);
    for _ in 0..procedure.absent_words() {
        words.bool(false);
    }
    words
}

/// Checks a name before the file system sees it. To no name, and to one with bytes that no name has, the answer is
/// ACCES (RFC 1813 §3.2, general comments on filenames).
pub(super) fn check_name(name: &[u8]) -> Result<(), Status> {
    if name.len() > tally_vfs::NAME_MAX {
        return Err(Status::NameTooLong);
    }
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) { Err(Status::Acces) } else { Ok(()) }
}
