//! Calls to clients (RFC 8881 §20): from an errand of ours to what is to be sent, and from what is answered to what came of the errand.
//!
//! ```text
//!  errand ─▶ a session of the client: slot, connection ─▶ Calling ─▶ outbox ─▶ whoever looks next: the connection's output
//!                                                            └─▶ due in 10 s
//!  answer ─▶ CB_COMPOUND's results ─▶ Verdict ─▶ the slot ─▶ the errand: done, or not
//!  no answer, no connection ───────────────────▶ the slot ─▶ the errand: not done
//! ```
//!
//! Nothing here sends: what is to be sent lies in the outbox until a worker takes it, between two requests, so nobody waits for a client, and no lock is held. A client that takes
//! or answers nothing costs its slots.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;

use super::house::House;
use super::recalls::looks::{self, CB_GETATTR};
use super::state::bounds::{CALLS_MAX, CALLS_OF_ADDRESS_MAX, CALLS_OF_CLIENT_MAX, TAG_BYTES_MAX};
use super::state::{
    Answer, Attributes, CallId, Callback, Calling, ClientId, Errand, Lost, Referred, SessionId, Verdict,
};
use super::status::Status;
use crate::exports::Exports;
use crate::rpc::{Outgoing, Returned};
use crate::xdr::{Decoder, Encoder, Garbage};

/// How long a client may take to answer.
const ANSWERED_IN: Duration = Duration::from_secs(10);
/// The version of the callback program (RFC 8881, its XDR), whatever the minor version.
const VERSION: u32 = 1;
const CB_COMPOUND: u32 = 1;
const CB_SEQUENCE: u32 = 11;
/// Most results of an answer: of two operations.
const RESULTS_MAX: u32 = 2;

/// What came of an errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Done,
    /// With this status.
    Refused(u32),
    /// Its client has not begun with it, or nobody knows.
    Unknown,
    /// It was never sent: its client's connections take nothing.
    NotTaken,
}

impl Came {
    /// What that is to a recall.
    fn to_recall(self) -> Answer {
        const DELAY: u32 = Status::Delay as u32;
        const BAD_STATEID: u32 = Status::BadStateid as u32;
        const BAD_HANDLE: u32 = Status::BadHandle as u32;
        match self {
            Self::Done => Answer::Taken,
            Self::Refused(DELAY) => Answer::Later,
            Self::Refused(BAD_STATEID | BAD_HANDLE) => Answer::HasNone,
            Self::Refused(_) | Self::Unknown => Answer::Nothing,
            Self::NotTaken => Answer::NotTaken,
        }
    }
}

/// Calls that are to be made, and those that are made.
#[derive(Default)]
pub(super) struct Callbacks {
    outbox: Mutex<VecDeque<Calling>>,
    /// How many lie in it.
    waiting: AtomicUsize,
    /// Those that have to be answered.
    due: Mutex<HashMap<CallId, Due>>,
}

/// Until when, and from where its client has come, if that was there still.
#[derive(Clone, Copy, Debug)]
struct Due {
    until: Duration,
    address: Option<IpAddr>,
}

impl Callbacks {
    /// A client has its own bound, also with sessions that it has destroyed meanwhile, and so have those of one address together, so that nobody else waits for what it does not answer (rules V35).
    fn has_room_for(&self, client: ClientId, address: Option<IpAddr>) -> bool {
        let due = self.due.lock();
        let of_client = due.keys().filter(|id| id.place().0.client() == client);
        let of_address = || due.values().filter(|due| due.address == address).count();
        // As long as all together have no more than that nobody is counted.
        let has_address_room = due.len() < CALLS_OF_ADDRESS_MAX || of_address() < CALLS_OF_ADDRESS_MAX;
        due.len() < CALLS_MAX && of_client.count() < CALLS_OF_CLIENT_MAX && has_address_room
    }
}

impl House {
    /// Calls a client over this session of it, if one is named, or over another one. None, where it cannot be called for now: the errand was not begun.
    pub(super) fn call(&self, first: Option<SessionId>, errand: &Errand, callback: &Callback) -> Option<()> {
        let address = self.clients().address_of(errand.client());
        if !self.callbacks.has_room_for(errand.client(), address) {
            return None;
        }
        let over = |id| self.sessions().find(id)?.call(errand.clone(), callback.clone());
        let calling = first.and_then(over).or_else(|| {
            let others = self.clients().sessions_of(errand.client());
            others.into_iter().filter(|id| Some(*id) != first).find_map(over)
        })?;
        self.post(calling, address);
        Some(())
    }

    /// Whether a client has a connection to be called over, and answers calls. It may be that there is no slot for now, or no room.
    pub(super) fn can_call(&self, client: ClientId) -> bool {
        let sessions = self.clients().sessions_of(client);
        sessions.into_iter().any(|id| self.sessions().find(id).is_some_and(|session| session.can_call()))
    }

    fn post(&self, calling: Calling, address: Option<IpAddr>) {
        let (callbacks, until) = (&self.callbacks, self.now() + ANSWERED_IN);
        callbacks.due.lock().insert(calling.id, Due { until, address });
        callbacks.outbox.lock().push_back(calling);
        callbacks.waiting.fetch_add(1, SeqCst);
    }

    /// The next call that is to be made: over which connection.
    pub(crate) fn next_call(&self) -> Option<(u64, CallId, Outgoing)> {
        if self.callbacks.waiting.load(SeqCst) == 0 {
            return None;
        }
        let calling = self.callbacks.outbox.lock().pop_front()?;
        self.callbacks.waiting.fetch_sub(1, SeqCst);
        Some((calling.connection, calling.id, outgoing(&calling)?))
    }

    /// A call was answered.
    pub(crate) fn call_returned(&self, exports: &dyn Exports, id: &CallId, returned: &Returned) {
        self.callbacks.due.lock().remove(id);
        let (session, ..) = id.place();
        let (verdict, status, behind) = judge(id, returned);
        let Some(errand) = self.sessions().find(session).and_then(|session| session.returned(id, verdict)) else {
            return;
        };
        match errand {
            Errand::Look(_, number) => {
                let behind = behind.filter(|_| verdict == Verdict::Done);
                self.looked(number, behind.and_then(|mut words| attributes(&mut words).ok()));
            }
            _ => self.came_of(&errand, came(verdict, status)),
        }
        // There is a slot for others. Who was not told is told at the next look, and not at the pace at which he refuses it.
        match errand {
            Errand::NotifyLock(_, file) if verdict != Verdict::NotBegun => self.freed(exports, &file, None),
            Errand::NotifyLock(..) | Errand::RecallAny(_) => {}
            Errand::Recall(client, _) | Errand::Look(client, _) => self.call_for_delegations(client),
        }
    }

    /// The connection of a call is closed, or did not take it. Whoever closes it may be in the midst of anything, so no file system is asked who is next.
    pub(crate) fn call_lost(&self, id: &CallId, is_sent: bool) {
        let address = self.callbacks.due.lock().remove(id).and_then(|due| due.address);
        let (session, ..) = id.place();
        match self.sessions().find(session).map_or(Lost::Known, |session| session.lost(id, is_sent)) {
            Lost::Again(calling) => self.post(calling, address),
            Lost::Gone(errand) => self.came_of(&errand, Came::Unknown),
            Lost::Unsent(errand) => self.came_of(&errand, Came::NotTaken),
            Lost::Known => {}
        }
    }

    /// Whether answers are waited for.
    pub(super) fn has_calls(&self) -> bool {
        !self.callbacks.due.lock().is_empty()
    }

    /// Ends the wait for answers whose time is over.
    pub(super) fn end_overdue_calls(&self) {
        let now = self.now();
        let overdue: Vec<_> = self.callbacks.due.lock().extract_if(|_, due| due.until <= now).collect();
        for (id, _) in overdue {
            let (session, ..) = id.place();
            if let Some(errand) = self.sessions().find(session).and_then(|session| session.overdue(&id)) {
                self.came_of(&errand, Came::Unknown);
            }
        }
    }

    /// Who was called may come still. Who does not know that he may, or says no, is in nobody's way; but what he waits for by now may be another thing.
    fn came_of(&self, errand: &Errand, came: Came) {
        match (errand, came) {
            (Errand::Recall(_, number), came) => self.delegations().answered(*number, came.to_recall(), self.now()),
            // Of an answer more is to be known than that.
            (Errand::Look(_, number), _) => self.looked(*number, None),
            // Who gives nothing back is asked again, as long as he has so many.
            (Errand::RecallAny(_), _) | (Errand::NotifyLock(..), Came::Done) => {}
            (Errand::NotifyLock(owner, file), Came::Refused(_)) => self.waiters.leave_if_told(owner, file),
            (Errand::NotifyLock(owner, file), Came::Unknown | Came::NotTaken) => self.waiters.go_behind(owner, file),
        }
    }
}

/// `CB_COMPOUND4args`: CB_SEQUENCE, of which nothing is to be kept and that names the request whose answer may be under way (rules V41), and the operation.
fn outgoing(calling: &Calling) -> Option<Outgoing> {
    let (session, slot, sequence) = calling.id.place();
    let mut words = Encoder::new();
    words.opaque(b"").u32(calling.terms.minor).u32(0).u32(2);
    words.u32(CB_SEQUENCE).raw(&session.0).u32(sequence).u32(slot).u32(calling.highest).bool(false);
    match &calling.callback.refers_to {
        None => words.u32(0),
        Some(Referred { session, slot, sequence }) => words.u32(1).raw(&session.0).u32(1).u32(*sequence).u32(*slot),
    };
    words.raw(&calling.callback.operation);
    let (program, caller) = (calling.terms.program, calling.terms.caller.clone()?);
    Some(Outgoing { program, version: VERSION, procedure: CB_COMPOUND, caller, arguments: words.into_vec().into() })
}

fn came(verdict: Verdict, status: u32) -> Came {
    match verdict {
        Verdict::Done if status == Status::Ok as u32 || status == Status::RetryUncachedRep as u32 => Came::Done,
        Verdict::Done => Came::Refused(status),
        Verdict::NotBegun | Verdict::OutOfStep => Came::Unknown,
    }
}

/// What an answer says of its slot, and of the operation behind CB_SEQUENCE; and what stands there, if anything was answered.
fn judge<'a>(id: &CallId, returned: &'a Returned) -> (Verdict, u32, Option<Decoder<'a>>) {
    match returned {
        Returned::Results(results) => {
            let mut words = Decoder::new(results, 0);
            let (verdict, status) = read(id, &mut words).unwrap_or((Verdict::OutOfStep, Status::BadXdr as u32));
            (verdict, status, Some(words))
        }
        Returned::Refused => (Verdict::NotBegun, Status::ServerFault as u32, None),
        Returned::Garbage => (Verdict::OutOfStep, Status::BadXdr as u32, None),
    }
}

/// The same of an answer that came: read up to what stands behind CB_SEQUENCE.
fn read(id: &CallId, words: &mut Decoder<'_>) -> Result<(Verdict, u32), Garbage> {
    let (whole, _tag, count) = (words.u32()?, words.opaque(TAG_BYTES_MAX)?, words.u32()?);
    if count == 0 && whole != Status::Ok as u32 {
        return Ok((Verdict::NotBegun, whole));
    }
    if count > RESULTS_MAX || words.u32()? != CB_SEQUENCE {
        return Err(Garbage);
    }
    let sequence = words.u32()?;
    if sequence == Status::Delay as u32 {
        return Ok((Verdict::NotBegun, sequence));
    }
    // It was carried out over the connection that is lost, and what came of it is not known any more.
    if sequence == Status::RetryUncachedRep as u32 {
        return Ok((Verdict::Done, sequence));
    }
    if sequence != Status::Ok as u32 {
        return Ok((Verdict::OutOfStep, sequence));
    }
    let (session, told, slot) = (SessionId(words.array()?), words.u32()?, words.u32()?);
    let (_highest, _target) = (words.u32()?, words.u32()?);
    let is_its = (session, slot, told) == id.place();
    Ok((if is_its { Verdict::Done } else { Verdict::OutOfStep }, whole))
}

/// What was answered to CB_GETATTR, if that is to be believed.
fn attributes(words: &mut Decoder<'_>) -> Result<Attributes, Garbage> {
    let (number, status) = (words.u32()?, words.u32()?);
    if (number, status) != (CB_GETATTR, Status::Ok as u32) {
        return Err(Garbage);
    }
    looks::attributes(words)
}

#[cfg(test)]
mod tests;
