//! What a client of these histories says in version 4.2: ALLOCATE and DEALLOCATE, for which version 3 has no word.
//!
//! Each client has one session, over the connection that its other requests go over. A slot is taken as long as somebody has
//! an [`InSlot`] of it, so requests that wait stand in slots of their own. With the process that served it a session is
//! over: one that was asked to last is still told what its slots have done.

use std::sync::Arc;

use bytes::Bytes;
use tally_vfs::Cred;
use tally_wire::nfs4::{CreateSession4Res, ExchangeId4Res, NfsResop4, Sessionid4};

use crate::words;

/// Slots of a session: fewer than a server grants.
const SLOTS: usize = 4;
/// The version in which room can be promised.
const MINOR: u32 = 2;

/// A session, and in which sequence each slot is.
#[derive(Debug)]
pub struct Session {
    id: Sessionid4,
    slots: [(Arc<()>, u32); SLOTS],
}

/// A slot that a request stands in.
#[derive(Debug)]
pub struct InSlot {
    /// Which one.
    pub slot: usize,
    _taken: Arc<()>,
}

impl Session {
    /// With nothing asked in it.
    #[must_use]
    pub fn new(id: Sessionid4) -> Self {
        Self { id, slots: std::array::from_fn(|_| (Arc::new(()), 0)) }
    }

    /// A record in a slot that nobody has; none if all are taken.
    pub fn record(&mut self, who: &Cred, xid: u32, asked: &[Vec<u8>]) -> Option<(Bytes, InSlot)> {
        let is_free = |(taken, _): &(Arc<()>, u32)| Arc::strong_count(taken) == 1;
        let free = (0..SLOTS).filter(|slot| is_free(&self.slots[*slot]));
        // The one that was asked for least, so that what was answered can be asked again for a while.
        let slot = free.min_by_key(|slot| self.slots[*slot].1)?;
        let (taken, sequence) = &mut self.slots[slot];
        *sequence += 1;
        let in_slot = words::InSlot { session: self.id, slot: slot as u32, sequence: *sequence };
        let ops = [&[words::sequence(in_slot)], asked].concat();
        Some((words::record_by(who, MINOR, xid, &ops), InSlot { slot, _taken: Arc::clone(taken) }))
    }
}

/// What asks for a client's number.
#[must_use]
pub fn exchange_id(xid: u32, name: &[u8]) -> Bytes {
    words::record(MINOR, xid, &[words::exchange_id(name, 1)])
}

/// The number, and the sequence of what asks for a session.
pub fn client_of(reply: &[u8]) -> Result<(u64, u32), String> {
    match last_of(reply)? {
        NfsResop4::OpExchangeId(ExchangeId4Res::Nfs4Ok(known)) => Ok((known.eir_clientid, known.eir_sequenceid)),
        other => Err(format!("EXCHANGE_ID: {other:?}")),
    }
}

/// What asks for a session, which may be one that outlives the server.
#[must_use]
pub fn create_session(xid: u32, (client, sequence): (u64, u32), lasts: bool) -> Bytes {
    words::record(MINOR, xid, &[words::create_session(client, sequence, lasts)])
}

/// The session.
pub fn session_of(reply: &[u8]) -> Result<Session, String> {
    match last_of(reply)? {
        NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(made)) => Ok(Session::new(made.csr_sessionid)),
        other => Err(format!("CREATE_SESSION: {other:?}")),
    }
}

fn last_of(reply: &[u8]) -> Result<NfsResop4, String> {
    let mut told = words::results(&words::results_in(reply)?, &[Vec::new()])?;
    told.results.pop().ok_or_else(|| format!("{:?}, and no results", told.status))
}
