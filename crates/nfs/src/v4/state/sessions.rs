//! Sessions (RFC 8881 §2.10): what a client of minor version 1 sends its requests in.
//!
//! ```text
//!  SEQUENCE ─▶ Sessions: by id, in shards ─▶ Session ─▶ its lock: slot (table D2), connection ─▶ Guard: until the compound is done
//!                 ▲ opened and closed                     └─▶ Presence of its client: the lease, one store
//!  the register of clients, under its lock
//! ```
//!
//! *Locks.* The register's, then a shard's, or a session's and then that of the connections. None is held over a call to anything else. SEQUENCE takes
//! none that all clients share, but a shard's to read, and the connections' at the first request of one.
//!
//! *Callbacks.* In slots of the server's own ([`super::backchannel`]), over what is bound for them ([`calling`]).
//!
//! *Connections.* Each request binds the connection it comes on, if there is room; callbacks go only where BIND_CONN_TO_SESSION or CREATE_SESSION said
//! so. What is bound, and what is asked for:
//!
//! ```text
//!            │ FORE  │ BACK  │ FORE_OR_BOTH │ BACK_OR_BOTH
//!  ──────────┼───────┼───────┼──────────────┼─────────────
//!  nothing   │ FORE  │ BACK  │ BOTH         │ BOTH
//!  FORE      │ FORE  │ INVAL │ BOTH         │ INVAL
//!  BACK      │ INVAL │ BACK  │ INVAL        │ BOTH
//!  BOTH      │ INVAL │ INVAL │ BOTH         │ BOTH
//! ```
//!
//! *Invariants.* S1: a session that can be found belongs to a confirmed client, which lists it. S2: of a closed session no request begins. S3: what is
//! charged is what the sessions that live were granted ([`memory`], [`lasting`]).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foldhash::HashMap;
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use tally_base::SlotMark;

use super::ClientId;
use super::backchannel::{BackChannel, Terms};
use super::bounds::CONNECTIONS_MAX;
use super::presence::Presence;
use super::slots::{Ended, Guard, Row, Slot};
use super::stateid::Mounted;
use crate::v4::status::Status;

mod calling;
mod lasting;
mod memory;

use lasting::{Lasting, LastingCharge};
use memory::{Account, Charge, Grant};

const SHARD_COUNT: usize = 16;

/// `sessionid4`: the client's id, then a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    /// Whose it is.
    #[must_use]
    pub fn client(self) -> ClientId {
        ClientId(u64::from_be_bytes(*self.0.first_chunk().expect("eight of sixteen")))
    }
}

/// `channel_attrs4`, as far as it means something here: nothing is padded, and there is no RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Channel {
    pub request_bytes: u32,
    pub reply_bytes: u32,
    pub cached_bytes: u32,
    pub operations: u32,
    pub slots: u32,
}

/// What SEQUENCE says.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// Of which session.
    pub session: SessionId,
    /// On which slot.
    pub slot: u32,
    /// The last one's of the slot, plus one, unless it is a retry.
    pub sequence: u32,
    /// The highest slot that the client uses at the time.
    pub highest: u32,
    /// Whether it wants the reply to be kept.
    pub cache_this: bool,
    /// Of what follows SEQUENCE, and of who sends it.
    pub fingerprint: u64,
    /// The connection it comes on.
    pub connection: u64,
}

impl Sequence {
    /// As which the pools know it.
    #[must_use]
    pub fn mark(&self) -> SlotMark {
        let Self { session, slot, sequence, fingerprint, .. } = *self;
        SlotMark { session: session.0, slot, operation: 0, sequence, fingerprint }
    }
}

/// What a request is that its session knows of.
#[derive(Debug)]
pub enum Begun {
    /// It is to be carried out, and the guard finished then.
    New(Guard, Shown),
    /// It was carried out, with these results.
    Retry(Bytes),
    /// It is being carried out.
    InProgress,
    /// It was carried out, and its results were too long to keep: what follows SEQUENCE is RETRY_UNCACHED_REP.
    Uncached(Shown),
    /// It was broken off, in a persistent session where it was to change something on this mount: what follows SEQUENCE is SERVERFAULT, unless what it did is known.
    Faulted(Shown, Option<Mounted>),
}

/// What SEQUENCE answers of the session, where it is OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The highest slot that may be used.
    pub highest: u32,
    /// The highest one that should be.
    pub target: u32,
    /// `SEQ4_STATUS_*`.
    pub flags: u32,
}

/// Callbacks were to go over this session or another one of the client, and there is no connection for them any more in any. Cleared by a connection
/// that is bound for them.
pub const CB_PATH_DOWN: u32 = 0x001;
/// The same of this session alone.
pub const CB_PATH_DOWN_SESSION: u32 = 0x200;

/// `SEQ4_STATUS_RESTART_RECLAIM_NEEDED`: the session is of a life of the server before this one, and answers what was done in it.
pub const RESTART_RECLAIM_NEEDED: u32 = 0x100;
/// What was called of this session is not known to have been carried out, in so many slots that none is left. Cleared by an answer that comes late; else the client
/// makes another session.
pub const BACKCHANNEL_FAULT: u32 = 0x400;

/// `channel_dir_from_client4`: what BIND_CONN_TO_SESSION asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Direction {
    Fore,
    Back,
    ForeOrBoth,
    BackOrBoth,
}

/// `CDFS4_FORE`: requests come over the connection.
pub const FORE: u32 = 1;
/// `CDFS4_BACK`: callbacks go over it.
pub const BACK: u32 = 2;
/// `CDFS4_BOTH`.
pub const BOTH: u32 = FORE | BACK;

impl Direction {
    /// What a connection is bound to that was bound to `before` (0 for nothing); none if that is INVAL.
    fn on(self, before: u32) -> Option<u32> {
        let (least, most) = match self {
            Self::Fore => (FORE, FORE),
            Self::Back => (BACK, BACK),
            Self::ForeOrBoth => (FORE, BOTH),
            Self::BackOrBoth => (BACK, BOTH),
        };
        (before == 0 || before & most == before && before & least == least).then_some(most)
    }
}

/// A session.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    fore: Channel,
    kept_bytes_max: usize,
    presence: Arc<Presence>,
    inner: Mutex<Inner>,
    /// Of one that is persistent: what its requests change is remembered behind a crash.
    lasting: Option<LastingCharge>,
    /// Held for as long as there is anything of the session.
    _charge: Charge,
}

#[derive(Debug)]
struct Inner {
    /// As many as were used.
    slots: Vec<Slot>,
    back: BackChannel,
    connections: SmallVec<[(u64, u32); 2]>,
    /// A connection was bound for callbacks once.
    is_called_back: bool,
    is_closed: bool,
}

impl Inner {
    fn new(back: BackChannel) -> Self {
        let (slots, connections) = Default::default();
        Self { slots, back, connections, is_called_back: false, is_closed: false }
    }

    fn is_reachable(&self) -> bool {
        self.connections.iter().any(|(_, ways)| ways & BACK != 0)
    }
}

impl Session {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Whose it is.
    #[must_use]
    pub fn presence(&self) -> &Presence {
        &self.presence
    }

    /// What was granted for requests.
    #[must_use]
    pub fn fore(&self) -> &Channel {
        &self.fore
    }

    /// Whether what its requests change is remembered behind a crash.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.lasting.is_some()
    }

    /// Whether a slot has had a request behind the one with this sequence.
    #[must_use]
    pub fn is_past(&self, slot: u32, sequence: u32) -> bool {
        self.inner.lock().slots.get(slot as usize).is_some_and(|slot| slot.is_past(sequence))
    }

    /// How many requests are being carried out.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.inner.lock().slots.iter().filter(|slot| slot.is_in_use()).count()
    }

    /// How many connections are bound to it, and how many of these for callbacks.
    #[must_use]
    pub fn connection_counts(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.connections.len(), inner.connections.iter().filter(|(_, ways)| ways & BACK != 0).count())
    }

    pub(super) fn is_bound(&self, connection: u64) -> bool {
        self.inner.lock().connections.iter().any(|(known, _)| *known == connection)
    }

    fn begin(self: &Arc<Self>, asked: &Sequence, bound: &Bound, now: Duration) -> Result<Begun, Status> {
        if asked.slot >= self.fore.slots {
            return Err(Status::BadSlot);
        }
        if asked.highest >= self.fore.slots {
            return Err(Status::BadHighSlot);
        }
        let mut inner = self.inner.lock();
        if inner.is_closed {
            return Err(Status::BadSession);
        }
        let slot = slot_at(&mut inner.slots, asked.slot);
        let row = slot.look(asked.sequence, asked.fingerprint);
        match row {
            Row::New => slot.begin(asked.sequence, asked.fingerprint),
            Row::InProgress => return Ok(Begun::InProgress),
            Row::FalseRetry => return Err(Status::SeqFalseRetry),
            Row::Misordered => return Err(Status::SeqMisordered),
            Row::Retry | Row::Uncached | Row::Faulted => {}
        }
        self.presence.hear(now);
        self.add(&mut inner, asked.connection, FORE, bound);
        let shown = self.shown(&inner);
        Ok(match row {
            Row::Retry => Begun::Retry(Bytes::copy_from_slice(inner.slots[asked.slot as usize].kept())),
            Row::Uncached => Begun::Uncached(shown),
            Row::Faulted => Begun::Faulted(shown, inner.slots[asked.slot as usize].broken_off()),
            _ => Begun::New(Guard::new(self.clone(), asked), shown),
        })
    }

    /// What a request of a slot did is known that was broken off on that mount: whoever gets the guard tells it. Nobody, where another one is at it.
    pub fn take_up(self: &Arc<Self>, asked: &Sequence, on: Mounted) -> Option<Guard> {
        let mut inner = self.inner.lock();
        let is_taken =
            !inner.is_closed && slot_at(&mut inner.slots, asked.slot).take_up(asked.sequence, asked.fingerprint);
        is_taken.then(|| {
            let mut guard = Guard::new(self.clone(), asked);
            guard.note_change(on);
            guard
        })
    }

    /// A guard is done with its slot.
    pub(super) fn end(&self, slot: u32, ended: Ended<'_>) {
        let mut inner = self.inner.lock();
        inner.slots[slot as usize].end(ended, self.kept_bytes_max);
    }

    fn shown(&self, inner: &Inner) -> Shown {
        let flags = match inner.is_called_back && !inner.is_reachable() {
            true if self.presence.is_reachable() => CB_PATH_DOWN_SESSION,
            true => CB_PATH_DOWN_SESSION | CB_PATH_DOWN,
            false => 0,
        };
        let flags = if inner.back.is_out_of_step() { flags | BACKCHANNEL_FAULT } else { flags };
        Shown { highest: self.fore.slots - 1, target: self.fore.slots - 1, flags }
    }

    /// Binds a connection that is not bound, if there is room.
    fn add(&self, inner: &mut Inner, connection: u64, ways: u32, bound: &Bound) -> bool {
        let is_known = inner.connections.iter().any(|(known, _)| *known == connection);
        if is_known || inner.connections.len() >= CONNECTIONS_MAX {
            return false;
        }
        self.change(inner, |inner| inner.connections.push((connection, ways)));
        bound.lock().entry(connection).or_default().push(self.id);
        true
    }

    fn bind(&self, connection: u64, asked: Direction, bound: &Bound) -> Result<u32, Status> {
        let mut inner = self.inner.lock();
        if inner.is_closed {
            return Err(Status::BadSession);
        }
        let at = inner.connections.iter().position(|(known, _)| *known == connection);
        let ways = asked.on(at.map_or(0, |at| inner.connections[at].1)).ok_or(Status::Inval)?;
        match at {
            Some(at) => self.change(&mut inner, |inner| inner.connections[at].1 = ways),
            None if self.add(&mut inner, connection, ways, bound) => {}
            None => return Err(Status::Delay),
        }
        Ok(ways)
    }

    fn unbind(&self, connection: u64) {
        let mut inner = self.inner.lock();
        self.change(&mut inner, |inner| inner.connections.retain(|(known, _)| *known != connection));
    }

    /// No request begins any more; those that have begun go on.
    fn close(&self, bound: &Bound) {
        let mut inner = self.inner.lock();
        inner.is_closed = true;
        let connections = self.change(&mut inner, |inner| std::mem::take(&mut inner.connections));
        let mut bound = bound.lock();
        for (connection, _) in connections {
            let Some(sessions) = bound.get_mut(&connection) else { continue };
            sessions.retain(|known| *known != self.id);
            if sessions.is_empty() {
                bound.remove(&connection);
            }
        }
    }

    /// Changes its connections.
    fn change<T>(&self, inner: &mut Inner, step: impl FnOnce(&mut Inner) -> T) -> T {
        let before = inner.is_reachable();
        let done = step(inner);
        let after = inner.is_reachable();
        inner.is_called_back |= after;
        self.presence.note_reachable(before, after);
        done
    }
}

fn slot_at(slots: &mut Vec<Slot>, slot: u32) -> &mut Slot {
    let count = slot as usize + 1;
    if slots.len() < count {
        slots.reserve_exact(count - slots.len());
        slots.resize_with(count, Slot::default);
    }
    &mut slots[slot as usize]
}

/// Of each bound connection its sessions.
type Bound = Mutex<HashMap<u64, SmallVec<[SessionId; 1]>>>;

/// All sessions, by id.
#[derive(Debug, Default)]
pub struct Sessions {
    shards: [RwLock<HashMap<SessionId, Arc<Session>>>; SHARD_COUNT],
    bound: Bound,
    memory: Account,
    lasting: Lasting,
}

impl Sessions {
    /// SEQUENCE at `now`. What is an error here has changed nothing, and renews no lease.
    pub fn begin(&self, asked: &Sequence, now: Duration) -> Result<Begun, Status> {
        self.find(asked.session).ok_or(Status::BadSession)?.begin(asked, &self.bound, now)
    }

    /// BIND_CONN_TO_SESSION: gives what the connection is bound to ([`FORE`], [`BACK`] or both).
    pub fn bind(&self, session: SessionId, connection: u64, asked: Direction) -> Result<u32, Status> {
        self.find(session).ok_or(Status::BadSession)?.bind(connection, asked, &self.bound)
    }

    /// A connection is closed: no session is bound to it. A request that was under way may bind it once more, so this is said again behind that.
    pub fn disconnect(&self, connection: u64) {
        let sessions = self.bound.lock().remove(&connection).unwrap_or_default();
        sessions.into_iter().filter_map(|id| self.find(id)).for_each(|session| session.unbind(connection));
    }

    /// The session with this id.
    #[must_use]
    pub fn find(&self, id: SessionId) -> Option<Arc<Session>> {
        self.shard(id).read().get(&id).cloned()
    }

    /// How many there are, and what they are charged for, bytes.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.shards.iter().map(|shard| shard.read().len()).sum(), self.memory.charged())
    }

    /// A session with `fore`, but for its slots and what is kept, as memory allows, and with `back`; bound to `connection` by `ways`. One that would be
    /// persistent, for a client from that address, is if there is room. The register's lock is held.
    pub(super) fn open(
        &self,
        id: SessionId,
        (fore, back): (Channel, Channel),
        terms: Terms,
        presence: Arc<Presence>,
        (connection, ways): (u64, u32),
        persists_for: Option<IpAddr>,
    ) -> Option<(Channel, bool)> {
        let (Grant { slots, kept_bytes_max }, charge) = self.memory.charge(fore.slots)?;
        let lasting = persists_for.and_then(|address| self.lasting.charge(id, address, slots));
        let (slots, lasting) = lasting.map_or((slots, None), |(slots, lasting)| (slots, Some(lasting)));
        let (cached_bytes, is_persistent) = (fore.cached_bytes.min(kept_bytes_max as u32), lasting.is_some());
        let session = Session {
            id,
            fore: Channel { slots, cached_bytes, ..fore },
            kept_bytes_max,
            presence,
            inner: Mutex::new(Inner::new(BackChannel::new(id, terms, back))),
            lasting,
            _charge: charge,
        };
        session.add(&mut session.inner.lock(), connection, ways, &self.bound);
        let granted = session.fore;
        self.shard(id).write().insert(id, Arc::new(session));
        Some((granted, is_persistent))
    }

    /// Takes a session out. The register's lock is held.
    pub(super) fn close(&self, id: SessionId) {
        let taken = self.shard(id).write().remove(&id);
        taken.into_iter().for_each(|session| session.close(&self.bound));
    }

    /// Those that are persistent.
    #[must_use]
    pub fn persistent(&self) -> Vec<SessionId> {
        let of = |shard: &RwLock<HashMap<SessionId, Arc<Session>>>| -> Vec<_> {
            let shard = shard.read();
            shard.values().filter(|session| session.is_persistent()).map(|session| session.id()).collect()
        };
        self.shards.iter().flat_map(of).collect()
    }

    /// The persistent ones that were closed and have ended their last request since this was asked last: nobody asks again for what they have changed.
    pub fn take_over(&self) -> Vec<SessionId> {
        self.lasting.take_over()
    }

    fn shard(&self, id: SessionId) -> &RwLock<HashMap<SessionId, Arc<Session>>> {
        &self.shards[usize::from(id.0[15]) % SHARD_COUNT]
    }
}

#[cfg(test)]
mod tests;
