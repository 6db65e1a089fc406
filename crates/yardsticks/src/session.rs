//! A client of NFSv4.1 with one session of one slot. What it sends often it encodes once: then only the slot's sequence changes, and of the results only the status is
//! looked at, so that it costs as little as the client of version 3 beside which it is measured.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use tally_bench::wire::{Connection, Handle, random_u32};
use tally_wire::ask;
use tally_wire::nfs4::{
    Compound4Args, Compound4Res, CreateSession4Res, ExchangeId4Res, Getfh4Res, NfsArgop4, NfsResop4, Sequence4Args,
    Sessionid4,
};
use tally_wire::{decode, encode};

/// Minor version that is spoken.
const MINOR: u32 = 1;
/// Where a compound that begins with SEQUENCE has its sequence: behind an empty tag, the minor version, the number of operations, the operation, and the session.
const SEQUENCE_AT: usize = 12 + 4 + 16;
/// A client with a session, over a connection.
pub(crate) struct Session {
    connection: Connection,
    id: Sessionid4,
    next: u32,
}

/// A compound in a session, encoded.
pub(crate) struct Request(Vec<u8>);

impl Session {
    /// A new client, that claims nothing again.
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        Self::over(Connection::open(address)?)
    }

    /// One of which nobody was asked: the floor knows no sessions.
    pub(crate) fn unasked(address: SocketAddr) -> Result<Self> {
        Ok(Self { connection: Connection::open(address)?, id: [0; 16], next: 1 })
    }

    /// The same over a connection that is there.
    pub(crate) fn over(mut connection: Connection) -> Result<Self> {
        let name = format!("bench-{:08x}{:08x}", random_u32()?, random_u32()?);
        let introduced = outside(&mut connection, ask::exchange_id(&name))?;
        let NfsResop4::OpExchangeId(ExchangeId4Res::Nfs4Ok(known)) = introduced else {
            bail!("the server does not let a client in: {introduced:?}");
        };
        let made = outside(&mut connection, ask::create_session(known.eir_clientid, known.eir_sequenceid, 0))?;
        let NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(created)) = made else {
            bail!("the server makes no session: {made:?}");
        };
        let mut session = Self { connection, id: created.csr_sessionid, next: 1 };
        session.run(&[ask::complete()])?;
        Ok(session)
    }

    /// The root of an export.
    pub(crate) fn mount(&mut self, export: &str) -> Result<Handle> {
        let names = export.split('/').filter(|name| !name.is_empty());
        let lookups = names.map(ask::look);
        let ops = [NfsArgop4::OpPutrootfh].into_iter().chain(lookups).chain([NfsArgop4::OpGetfh]);
        handle(self.run(&ops.collect::<Vec<_>>())?)
    }

    /// Encodes a compound of these behind SEQUENCE.
    pub(crate) fn request(&self, ops: &[NfsArgop4]) -> Request {
        let sequence = NfsArgop4::OpSequence(Sequence4Args {
            sa_sessionid: self.id,
            sa_sequenceid: 0,
            sa_slotid: 0,
            sa_highest_slotid: 0,
            sa_cachethis: false,
        });
        Request(arguments([sequence].iter().chain(ops).cloned().collect()))
    }

    /// Sends it, and gives what is encoded of its results, all of which are OK.
    pub(crate) fn ask(&mut self, request: &mut Request) -> Result<&[u8]> {
        let results = self.ask_for_any(request)?;
        ensure!(status(results) == Some(0), "a compound is answered with {:?}", decode::<Compound4Res>(results));
        Ok(results)
    }

    /// Sends it, and gives what is encoded of its results, whatever they are but for SEQUENCE's.
    pub(crate) fn ask_for_any(&mut self, request: &mut Request) -> Result<&[u8]> {
        request.0[SEQUENCE_AT..][..4].copy_from_slice(&self.next.to_be_bytes());
        self.next = self.next.wrapping_add(1);
        self.connection.compound(&request.0)
    }

    /// Carries out these behind SEQUENCE, and gives what they are told.
    pub(crate) fn run(&mut self, ops: &[NfsArgop4]) -> Result<Vec<NfsResop4>> {
        let mut request = self.request(ops);
        told(self.ask(&mut request)?)
    }
}

/// Of a compound as a whole.
pub(crate) fn status(results: &[u8]) -> Option<u32> {
    results.first_chunk().map(|word| u32::from_be_bytes(*word))
}

/// What is told behind SEQUENCE.
pub(crate) fn told(encoded: &[u8]) -> Result<Vec<NfsResop4>> {
    Ok(results(encoded)?.into_iter().skip(1).collect())
}

/// PUTFH.
pub(crate) fn put(handle: &Handle) -> NfsArgop4 {
    ask::put(&handle.0)
}

/// What the last operation, a GETFH, gives.
pub(crate) fn handle(told: Vec<NfsResop4>) -> Result<Handle> {
    match told.into_iter().last() {
        Some(NfsResop4::OpGetfh(Getfh4Res::Nfs4Ok(told))) => Ok(Handle(told.object.to_vec())),
        other => bail!("no handle, but {other:?}"),
    }
}

/// Of a compound outside of any session.
pub(crate) fn arguments(ops: Vec<NfsArgop4>) -> Vec<u8> {
    encode(&Compound4Args { tag: Vec::new().into(), minorversion: MINOR, argarray: ops.into() })
}

/// An operation outside of any session.
pub(crate) fn outside(connection: &mut Connection, op: NfsArgop4) -> Result<NfsResop4> {
    let told = results(connection.compound(&arguments(vec![op]))?)?;
    told.into_iter().last().context("a compound without results")
}

fn results(encoded: &[u8]) -> Result<Vec<NfsResop4>> {
    match decode::<Compound4Res>(encoded) {
        Ok(results) => Ok(results.resarray.0),
        Err(error) => bail!("results that cannot be decoded: {error:?}"),
    }
}
