//! The backchannel of a session: calls of ours to its client, in slots of ours (RFC 8881 §2.10.6 and §20.9; rules V33).
//!
//! As a client's requests are in a session, so are these: each has a slot, and the slot a sequence. Where nobody knows whether the client has carried a call out its slot
//! is out of step with the client's for ever, and is not used again; where none is left the client is told to make another session (BACKCHANNEL_FAULT).
//!
//! ```text
//!             call             it was carried out, or was before (RETRY_UNCACHED_REP)
//!   Free ────────────▶ Called ──────────────────────────────────────────────▶ Free
//!    ▲   sequence + 1   │ │ │ refused before it was looked at; DELAY; never sent
//!    │                  │ │ └──────────────────────────────────────────────▶ Free, sequence - 1
//!    │                  │ │ its connection is closed, and there is another
//!    │                  │ └─▶ Called, over that one, in the same slot and sequence
//!    │                  │ 10 s; its connection is closed, and there is none; an answer that cannot be
//!    │                  └─▶ Unknown
//!    └── its answer comes after all ──┘
//! ```
//!
//! *Not one of four.* One call in one slot would do where little is called, but a client that answers slowly would then keep its own others waiting. More than [`BACK_SLOTS_MAX`]
//! help nobody: what waits for a slot is looked at again with each answer.
//!
//! *Invariants.* K1: a slot that is called has an errand, which its maker gets back exactly once, with what came of it. K2: what a late or strange answer
//! names by slot and attempt is either the call that is under way or nothing.

use bytes::Bytes;
use smallvec::SmallVec;

use super::bounds::BACK_SLOTS_MAX;
use super::delegations::{DelegationNumber, Referred};
use super::sessions::{Channel, SessionId};
use super::waiters::LockOwner;
use super::{ClientId, FileId};
use crate::rpc::Caller;

/// Over so many connections a call is tried at most, one after another.
const ATTEMPTS_MAX: u32 = 4;
/// CB_SEQUENCE, and what is called.
const OPERATIONS_MIN: u32 = 2;

/// As what, and as whom, a client is called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Terms {
    pub minor: u32,
    pub program: u32,
    /// None, where the client takes nobody that we could be.
    pub caller: Option<Caller>,
}

/// What a call is for, as its maker is told what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// CB_NOTIFY_LOCK: what this owner waits for in this file is free.
    NotifyLock(LockOwner, FileId),
    /// CB_RECALL: this client is to give a delegation back.
    Recall(ClientId, DelegationNumber),
    /// CB_GETATTR: what a file is like that it has for writing.
    Look(ClientId, DelegationNumber),
    /// CB_RECALL_ANY: this client is to give back what it does not use.
    RecallAny(ClientId),
}

impl Errand {
    /// Who is called.
    #[must_use]
    pub fn client(&self) -> ClientId {
        match self {
            Self::NotifyLock(owner, _) => owner.client,
            Self::Recall(client, _) | Self::Look(client, _) | Self::RecallAny(client) => *client,
        }
    }
}

/// What is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// The operation behind CB_SEQUENCE.
    pub operation: Bytes,
    /// The request whose answer it is about, which its client may not have read yet (rules V41).
    pub refers_to: Option<Referred>,
}

impl Callback {
    /// One that is about no answer.
    #[must_use]
    pub fn new(operation: Bytes) -> Self {
        Self { operation, refers_to: None }
    }

    /// As CB_SEQUENCE and what is behind it has.
    fn bytes(&self) -> usize {
        self.operation.len() + if self.refers_to.is_some() { REFERRED_BYTES } else { 0 }
    }
}

/// `referring_call_list4` of one call.
const REFERRED_BYTES: usize = 16 + 4 + 8;

/// By what a call is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId {
    pub(in crate::v4) session: SessionId,
    pub(in crate::v4) slot: u32,
    pub(in crate::v4) sequence: u32,
    /// Which in the order of the slot's attempts: a sequence may have several, and is used again behind a call that was none.
    pub(in crate::v4) attempt: u32,
}

impl CallId {
    /// In which session it is made, on which slot, and which in the order of that.
    #[must_use]
    pub fn place(&self) -> (SessionId, u32, u32) {
        (self.session, self.slot, self.sequence)
    }
}

/// A call that is to be made over a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Calling {
    pub connection: u64,
    pub id: CallId,
    /// The highest slot in which a call is under way.
    pub highest: u32,
    pub terms: Terms,
    pub callback: Callback,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was carried out.
    Done,
    /// It was not looked at: its slot is as before.
    NotBegun,
    /// What was answered cannot be.
    OutOfStep,
}

/// What becomes of a call whose connection is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It is made over another one.
    Again(Calling),
    /// Nothing.
    Gone(Errand),
    /// Nothing, and no connection has taken it.
    Unsent(Errand),
    /// It was known already.
    Known,
}

#[derive(Debug)]
pub(super) struct BackChannel {
    session: SessionId,
    terms: Terms,
    request_bytes: usize,
    operations: u32,
    slots: SmallVec<[Slot; 1]>,
    /// How many calls were answered too late, so that the next goes over another connection if there is one.
    turn: usize,
}

#[derive(Debug, Default)]
struct Slot {
    sequence: u32,
    /// The number of the last attempt.
    attempt: u32,
    life: Life,
}

#[derive(Debug, Default)]
enum Life {
    #[default]
    Free,
    Called(Box<Called>),
    Unknown,
}

#[derive(Debug)]
struct Called {
    errand: Errand,
    callback: Callback,
    connection: u64,
    /// Over so many other connections it was tried.
    others: u32,
    is_sent: bool,
}

impl Slot {
    /// The number of a new attempt.
    fn try_once_more(&mut self) {
        self.attempt = self.attempt.wrapping_add(1);
    }

    /// Its last call was none.
    fn take_back(&mut self) {
        self.sequence = self.sequence.wrapping_sub(1);
        self.life = Life::Free;
    }

    fn end(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Done => self.life = Life::Free,
            Verdict::NotBegun => self.take_back(),
            Verdict::OutOfStep => self.life = Life::Unknown,
        }
    }
}

/// What is granted of what a client asks for.
pub(super) fn granted(asked: Channel) -> Channel {
    Channel { slots: asked.slots.min(BACK_SLOTS_MAX), ..asked }
}

/// Whether a client can be called on such terms at all.
pub(super) fn can_call(terms: &Terms, channel: &Channel) -> bool {
    terms.caller.is_some() && channel.slots > 0 && channel.operations >= OPERATIONS_MIN
}

impl BackChannel {
    pub(super) fn new(session: SessionId, terms: Terms, channel: Channel) -> Self {
        let slots = (0..channel.slots.min(BACK_SLOTS_MAX)).map(|_| Slot::default()).collect();
        let (request_bytes, operations) = (channel.request_bytes as usize, channel.operations);
        Self { session, terms, request_bytes, operations, slots, turn: 0 }
    }

    /// BACKCHANNEL_CTL: another program, and another caller if one is named.
    pub(super) fn change(&mut self, program: u32, caller: Option<Caller>) {
        self.terms.program = program;
        self.terms.caller = caller.or(self.terms.caller.take());
    }

    /// Whether no slot is left that may be used.
    pub(super) fn is_out_of_step(&self) -> bool {
        !self.slots.is_empty() && self.slots.iter().all(|slot| matches!(slot.life, Life::Unknown))
    }

    /// A call over one of these connections, if there is one, and a slot.
    pub(super) fn call(&mut self, errand: Errand, callback: Callback, connections: &[u64]) -> Option<Calling> {
        self.terms.caller.as_ref()?;
        if self.operations < OPERATIONS_MIN || callback.bytes() + HEAD_BYTES_MAX > self.request_bytes {
            return None;
        }
        let connection = *connections.get(self.turn % connections.len().max(1))?;
        let at = self.slots.iter().position(|slot| matches!(slot.life, Life::Free))?;
        let slot = &mut self.slots[at];
        slot.sequence = slot.sequence.wrapping_add(1);
        slot.try_once_more();
        slot.life = Life::Called(Box::new(Called { errand, callback, connection, others: 0, is_sent: false }));
        self.calling(at)
    }

    fn calling(&self, at: usize) -> Option<Calling> {
        let Slot { sequence, attempt, life: Life::Called(called) } = &self.slots[at] else { return None };
        let id = CallId { session: self.session, slot: at as u32, sequence: *sequence, attempt: *attempt };
        let is_called = |slot: &Slot| matches!(slot.life, Life::Called(_));
        let highest = self.slots.iter().rposition(is_called).unwrap_or(at) as u32;
        let (terms, callback) = (self.terms.clone(), called.callback.clone());
        Some(Calling { connection: called.connection, id, highest, terms, callback })
    }

    /// The slot of a call, if that was its last attempt.
    fn slot_of(&mut self, id: &CallId) -> Option<&mut Slot> {
        self.slots.get_mut(id.slot as usize).filter(|slot| slot.attempt == id.attempt)
    }

    /// A call was answered. Gives its errand, unless it was told that nothing came of it.
    pub(super) fn returned(&mut self, id: &CallId, verdict: Verdict) -> Option<Errand> {
        let slot = self.slot_of(id)?;
        match std::mem::take(&mut slot.life) {
            Life::Called(called) => {
                // Over the connection before it may have been begun: that it is told to wait says that it was (rules V33).
                let is_in_doubt = called.is_sent && verdict == Verdict::NotBegun;
                slot.end(if is_in_doubt { Verdict::OutOfStep } else { verdict });
                Some(called.errand)
            }
            Life::Unknown => {
                slot.end(verdict);
                None
            }
            Life::Free => None,
        }
    }

    /// The time of a call is over.
    pub(super) fn overdue(&mut self, id: &CallId) -> Option<Errand> {
        let slot = self.slot_of(id)?;
        match std::mem::replace(&mut slot.life, Life::Unknown) {
            Life::Called(called) => {
                self.turn = self.turn.wrapping_add(1);
                Some(called.errand)
            }
            life => {
                slot.life = life;
                None
            }
        }
    }

    /// The connection of a call is closed, or did not take it; these are left.
    pub(super) fn lost(&mut self, id: &CallId, is_sent: bool, connections: &[u64]) -> Lost {
        let at = id.slot as usize;
        let Some(slot) = self.slot_of(id) else { return Lost::Known };
        let Life::Called(called) = &mut slot.life else { return Lost::Known };
        called.is_sent |= is_sent;
        let other = connections.iter().copied().find(|other| *other != called.connection);
        if let Some(other) = other.filter(|_| called.others + 1 < ATTEMPTS_MAX) {
            (called.connection, called.others) = (other, called.others + 1);
            slot.try_once_more();
            return self.calling(at).map_or(Lost::Known, Lost::Again);
        }
        let was_sent = called.is_sent;
        match std::mem::replace(&mut slot.life, Life::Unknown) {
            Life::Called(called) => {
                if was_sent {
                    return Lost::Gone(called.errand);
                }
                slot.take_back();
                Lost::Unsent(called.errand)
            }
            Life::Free | Life::Unknown => Lost::Known,
        }
    }
}

/// What stands before an operation in a call at most: RPC's header with the longest credential, the compound's, and CB_SEQUENCE.
const HEAD_BYTES_MAX: usize = 24 + 8 + 400 + 8 + 16 + 44;

#[cfg(test)]
mod tests;
