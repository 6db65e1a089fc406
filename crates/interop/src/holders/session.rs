//! One session of one slot, over one connection after the other.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tally_bench::wire::Connection;
use tally_wire::ask::{self, PERSISTENT, Slot};
use tally_wire::nfs4::{Compound4Args, CreateSession4Res, ExchangeId4Res, NfsArgop4, NfsResop4, Nfsstat4, Sessionid4};
use tally_wire::{Told, encode};

use super::{Result, Trouble, owners, violation};

/// Minor version that is spoken.
const MINOR: u32 = 1;
/// How long to wait before a request is sent again to who said "later".
pub(super) const LATER: Duration = Duration::from_millis(10);

/// A session.
pub(super) struct Session {
    connection: Connection,
    id: Sessionid4,
    sequence: u32,
}

/// A request that was under way when the connection broke, in a slot of a session that may be over.
pub(super) struct UnderWay {
    pub(super) request: Vec<u8>,
    /// By which it is known where there are no slots.
    pub(super) xid: Option<u32>,
}

impl Session {
    /// Makes one for a client of this name.
    pub(super) fn open(mut connection: Connection, name: &str) -> Result<Self> {
        let known = match outside(&mut connection, MINOR, ask::exchange_id(name))? {
            NfsResop4::OpExchangeId(ExchangeId4Res::Nfs4Ok(known)) => known,
            other => return violation(format!("EXCHANGE_ID: {other:?}")),
        };
        let made = ask::create_session(known.eir_clientid, known.eir_sequenceid, PERSISTENT);
        let made = match outside(&mut connection, MINOR, made)? {
            NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(made)) => made,
            other => return violation(format!("CREATE_SESSION: {other:?}")),
        };
        if made.csr_flags & PERSISTENT == 0 {
            return violation("a session that is not persistent");
        }
        Ok(Self { connection, id: made.csr_sessionid, sequence: 1 })
    }

    /// Carries out these in the slot. Where the connection breaks what was under way is left in `under_way`.
    pub(super) fn ask(&mut self, ops: &[NfsArgop4], under_way: &mut Option<UnderWay>) -> Result<Told> {
        let sequence = ask::sequence(Slot { session: self.id, sequence: self.sequence });
        let request = compound(MINOR, [sequence].into_iter().chain(ops.iter().cloned()).collect());
        let told = in_slot(&mut self.connection, &request);
        match told {
            Err(Trouble::Broken) => *under_way = Some(UnderWay { request, xid: None }),
            _ => self.sequence += 1,
        }
        told
    }
}

impl UnderWay {
    /// Sends it again, as it was, over another connection.
    pub(super) fn again(&self, connection: &mut Connection) -> Result<Told> {
        match self.xid {
            Some(xid) => owners::again(connection, &self.request, xid),
            None => in_slot(connection, &self.request),
        }
    }
}

/// Sends a request until it is let into its slot: who is told DELAY by SEQUENCE has not used it.
fn in_slot(connection: &mut Connection, request: &[u8]) -> Result<Told> {
    loop {
        let told = send(connection, request)?;
        match told.status {
            Nfsstat4::Nfs4ErrDelay if told.is_refused_at_first() => std::thread::sleep(LATER),
            // Said by SEQUENCE, or in a session of a life before, by the first operation that was not carried out.
            Nfsstat4::Nfs4ErrBadsession | Nfsstat4::Nfs4ErrDeadsession => return Err(Trouble::SessionOver),
            status if told.is_refused_at_first() => return violation(format!("SEQUENCE is told {status:?}")),
            _ => return Ok(told),
        }
    }
}

/// An operation outside of any session.
pub(super) fn outside(connection: &mut Connection, minor: u32, op: NfsArgop4) -> Result<NfsResop4> {
    let request = compound(minor, vec![op]);
    loop {
        let mut told = send(connection, &request)?;
        match told.status {
            Nfsstat4::Nfs4ErrDelay => std::thread::sleep(LATER),
            _ => return told.results.pop().map_or_else(|| violation("a compound without results"), Ok),
        }
    }
}

pub(super) fn compound(minorversion: u32, ops: Vec<NfsArgop4>) -> Vec<u8> {
    encode(&Compound4Args { tag: Vec::new().into(), minorversion, argarray: ops.into() })
}

pub(super) fn send(connection: &mut Connection, request: &[u8]) -> Result<Told> {
    let results = connection.compound(request).map_err(|error| trouble(&error))?;
    Told::of(results).or_else(|error| violation(format!("results that cannot be decoded: {error:?}")))
}

/// Connects from there, if the server takes connections.
pub(super) fn connect(server: SocketAddr, from: IpAddr) -> Option<Connection> {
    Connection::open_from(server, from).ok()
}

/// A server that says nothing has not gone.
fn trouble(error: &anyhow::Error) -> Trouble {
    let silent = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
    match error.downcast_ref::<io::Error>() {
        Some(io) if !silent.contains(&io.kind()) => Trouble::Broken,
        _ => Trouble::Violation(format!("{error:#}")),
    }
}
