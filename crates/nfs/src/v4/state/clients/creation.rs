//! CREATE_SESSION (RFC 8881 §18.36; table D14), and how sessions and clients go.
//!
//! A client's id has a slot of its own for CREATE_SESSION: one sequence, and the answer to the last one. That is kept as what was granted, from which
//! the same bytes are written again.
//!
//! ```text
//!  CREATE_SESSION: the record with this id       │ the sequence │ what comes of it
//!  ──────────────────────────────────────────────┼──────────────┼───────────────────────────────────────────────────────────────
//!  a  none                                       │ any          │ STALE_CLIENTID
//!     is confirmed, and of another one for whom  │ any          │ CLID_INUSE; nothing changes
//!     this one does not speak ([`Sender`])       │              │
//!  b  waits, or is confirmed                     │ the last one │ the last answer; before the first, SEQ_MISORDERED
//!  c  waits, or is confirmed                     │ none of both │ SEQ_MISORDERED; nothing changes
//!  d  waits, and is another one's                │ the next one │ CLID_INUSE; nothing changes
//!  e  waits, and another one that has the name   │ the next one │ CLID_INUSE; nothing changes
//!     confirmed is not to go (D3, row 3)         │              │
//!  f  either                                     │ the next one │ messages too short for anything: TOOSMALL; nothing changes
//!  g  has as many sessions as it may             │ the next one │ NOSPC, kept as the answer
//!  h  either                                     │ the next one │ no memory is left, or no place of a client whose lease is over
//!                                                │              │ or that holds nothing: DELAY; nothing changes
//!  i  waits                                      │ the next one │ confirmed, with a session; the one that has the name confirmed
//!                                                │              │ goes, and all it holds
//!  j  is confirmed                               │ the next one │ a session, by whatever principal
//! ```
//!
//! Ids can be guessed. A session of a client's is all that it has: who has one reads and writes what is open, and says that nothing is claimed again.
//!
//! In d to j the sequence is that of the last, plus one. In d, e, f and h it stays (others than the client may have come, or the client comes again with
//! it), so that nobody can make a client miss its turn.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tally_base::Rng;

use super::{CONFIRMED, ClientId, Clients, Full, Of, Record, Sender, WAITING};
use crate::v4::state::backchannel::{self, Terms};
use crate::v4::state::bounds::{MESSAGE_BYTES_MIN, OPS_MAX, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, SESSIONS_MAX};
use crate::v4::state::presence::Presence;
use crate::v4::state::sessions::{BOTH, Channel, FORE, SessionId};
use crate::v4::status::Status;

/// What CREATE_SESSION asks for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// For which client.
    pub client: ClientId,
    /// Of the client's id.
    pub sequence: u32,
    /// For requests.
    pub fore: Channel,
    /// For callbacks.
    pub back: Channel,
    /// Whether callbacks may go over this connection (CREATE_SESSION4_FLAG_CONN_BACK_CHAN).
    pub calls_back: bool,
    /// Whether what its requests change is to be remembered behind a crash.
    pub persists: bool,
    /// As what they would come.
    pub terms: Terms,
    /// Who asks.
    pub sender: Sender,
    /// The connection it comes on.
    pub connection: u64,
}

/// What CREATE_SESSION answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// The session.
    pub session: SessionId,
    /// What was asked with.
    pub sequence: u32,
    /// Whether callbacks go over this connection. There is no RDMA.
    pub calls_back: bool,
    /// Whether it is persistent.
    pub persists: bool,
    /// For requests.
    pub fore: Channel,
    /// For callbacks.
    pub back: Channel,
}

/// The slot of a client's id, and the sessions that came of it.
#[derive(Debug)]
pub(super) struct Slot {
    sequence: u32,
    answer: Result<Created, Status>,
    sessions: SmallVec<[SessionId; 1]>,
}

impl Default for Slot {
    fn default() -> Self {
        Self { sequence: 0, answer: Err(Status::SeqMisordered), sessions: SmallVec::new() }
    }
}

impl Slot {
    /// The sequence of the next CREATE_SESSION.
    pub(super) fn next(&self) -> u32 {
        self.sequence.wrapping_add(1)
    }

    pub(super) fn sessions(&self) -> &[SessionId] {
        &self.sessions
    }
}

impl Clients {
    /// CREATE_SESSION at `now`. Gives, too, the client whose place this one takes: it has started anew, and holds nothing any more.
    pub fn create_session(
        &mut self,
        wanted: &Wanted,
        holds: &dyn Fn(ClientId) -> bool,
        rng: &dyn Rng,
        now: Duration,
    ) -> Result<(Created, Option<ClientId>), Status> {
        self.forget_late(now);
        if let Some(created) = self.answered(wanted)? {
            return Ok((created, None));
        }
        let waits = self.waiting.contains_key(&wanted.client);
        let (record, slot) = self.with_slot(wanted.client).expect("it was looked at");
        // Row d, and row e.
        let is_own = || wanted.sender.is(&record.sender());
        if waits && !(is_own() && self.may_take_in(wanted.client, holds, now)) {
            return Err(Status::ClidInUse);
        }
        // Row h.
        let way = if waits { self.way_for(wanted.client, holds, now).map_err(|Full| Status::Delay)? } else { None };
        let answer = self.open_session(record, slot, wanted, rng);
        if let Err(Status::Delay | Status::TooSmall) = answer {
            return answer.map(|created| (created, None));
        }
        let slot = self.slot_mut(wanted.client).expect("it was looked at");
        (slot.sequence, slot.answer) = (wanted.sequence, answer);
        let created = answer?;
        slot.sessions.push(created.session);
        let gone = if waits { self.take_in(wanted.client, way, now) } else { None };
        Ok((created, gone))
    }

    /// Rows a to c: what was answered already, if it is not a new one.
    fn answered(&self, wanted: &Wanted) -> Result<Option<Created>, Status> {
        let (record, slot) = self.with_slot(wanted.client).ok_or(Status::StaleClientId)?;
        if self.confirmed.contains_key(&wanted.client) && !wanted.sender.speaks_for(&record.sender()) {
            return Err(Status::ClidInUse);
        }
        if wanted.sequence == slot.sequence {
            return slot.answer.map(Some);
        }
        if wanted.sequence != slot.next() {
            return Err(Status::SeqMisordered);
        }
        Ok(None)
    }

    /// DESTROY_SESSION, on a connection that has to be bound to it. Requests of it that have begun go on.
    pub fn destroy_session(&mut self, id: SessionId, connection: u64) -> Result<(), Status> {
        let session = self.sessions.find(id).ok_or(Status::BadSession)?;
        if !session.is_bound(connection) {
            return Err(Status::ConnNotBoundToSession);
        }
        self.sessions.close(id);
        let slot = self.slot_mut(session.presence().client()).expect("C3");
        slot.sessions.retain(|known| *known != id);
        self.check();
        Ok(())
    }

    /// DESTROY_CLIENTID: a client that has no session, and holds nothing. For who does not speak for it there is none.
    pub fn destroy_client(
        &mut self,
        id: ClientId,
        sender: &Sender,
        holds: &dyn Fn(ClientId) -> bool,
    ) -> Result<(), Status> {
        let known = self.with_slot(id).filter(|(record, _)| sender.speaks_for(&record.sender()));
        let (_, slot) = known.ok_or(Status::StaleClientId)?;
        if !slot.sessions.is_empty() || holds(id) {
            return Err(Status::ClientIdBusy);
        }
        [CONFIRMED, WAITING].into_iter().for_each(|which| self.forget(id, which));
        self.check();
        Ok(())
    }

    /// Of a client that is confirmed, what each of its requests asks for.
    #[must_use]
    pub fn presence_of(&self, id: ClientId) -> Option<Arc<Presence>> {
        self.confirmed.get(&id).map(|record| record.presence.clone())
    }

    /// The sessions of a client.
    #[must_use]
    pub fn sessions_of(&self, id: ClientId) -> SmallVec<[SessionId; 1]> {
        self.confirmed.get(&id).map_or_else(SmallVec::new, |record| record.sessions().into())
    }

    /// The record with this id, if it is of a client with sessions.
    pub(super) fn with_slot(&self, id: ClientId) -> Option<(&Record, &Slot)> {
        let record = self.confirmed.get(&id).or_else(|| self.waiting.get(&id))?;
        match &record.of {
            Of::Minor1(slot) => Some((record, slot)),
            Of::Minor0 { .. } => None,
        }
    }

    fn slot_mut(&mut self, id: ClientId) -> Option<&mut Slot> {
        let record = self.confirmed.get_mut(&id).or_else(|| self.waiting.get_mut(&id))?;
        match &mut record.of {
            Of::Minor1(slot) => Some(slot),
            Of::Minor0 { .. } => None,
        }
    }

    /// Rows f to j.
    fn open_session(&self, record: &Record, slot: &Slot, wanted: &Wanted, rng: &dyn Rng) -> Result<Created, Status> {
        let is_short = |channel: &Channel| channel.request_bytes.min(channel.reply_bytes) < MESSAGE_BYTES_MIN;
        if is_short(&wanted.fore) || is_short(&wanted.back) {
            return Err(Status::TooSmall);
        }
        if slot.sessions.len() >= SESSIONS_MAX {
            return Err(Status::NoSpc);
        }
        let mut id = [0; 16];
        id[..8].copy_from_slice(&record.id.0.to_be_bytes());
        rng.fill(&mut id[8..]);
        let back = backchannel::granted(wanted.back);
        let calls_back = wanted.calls_back && backchannel::can_call(&wanted.terms, &back);
        let (id, ways) = (SessionId(id), if calls_back { BOTH } else { FORE });
        let fore = Channel {
            request_bytes: wanted.fore.request_bytes.min(REQUEST_BYTES_MAX),
            reply_bytes: wanted.fore.reply_bytes.min(REPLY_BYTES_MAX),
            operations: wanted.fore.operations.min(OPS_MAX),
            ..wanted.fore
        };
        let persists_for = wanted.persists.then_some(record.address());
        let (terms, presence) = (wanted.terms.clone(), record.presence.clone());
        let opened = self.sessions.open(id, (fore, back), terms, presence, (wanted.connection, ways), persists_for);
        let (fore, persists) = opened.ok_or(Status::Delay)?;
        Ok(Created { session: id, sequence: wanted.sequence, calls_back, persists, fore, back })
    }
}

#[cfg(test)]
mod tests;
