//! What the server itself costs a lone client: SETATTRs one at a time against memory, whose promises are kept
//! at once. Run it with `--release`; the device is not part of it.
//!
//! `lone_client [3|4.1 [ROUNDS]]`: by which version, and how often. Under callgrind the instructions of one are the difference of two runs by that
//! of their rounds; the client is in it, which does the same for both.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use tally_base::{DatasetId, PoolGuid};
use tally_nfs::exports::{Exports, Place, PoolExports, Resolved, Rule, parse_sharenfs};
use tally_nfs::handle::Handle;
use tally_nfs::serve::{ServeOptions, Server};
use tally_nfs::service::Service;
use tally_nfs::xdr::Encoder;
use tally_vfs::model::Model;
use tally_vfs::{Identity, ObjectRef};
use tally_wire::ask::{self, Slot};
use tally_wire::nfs4::{
    Compound4Args, Compound4Res, CreateSession4Res, ExchangeId4Res, Fattr4, Fattr4Value, NfsArgop4, NfsResop4,
    Sessionid4, Setattr4Args, Stateid4,
};
use tally_wire::{decode, encode};

const ROUNDS: u32 = 100_000;
const KEY: [u8; 32] = [7; 32];

struct OnePool(Arc<Model>, Rule);

struct OneModel(Arc<OnePool>);

impl Exports for OneModel {
    fn resolve(&self, _: &str) -> Option<Resolved> {
        None
    }
    fn pool(&self, _: PoolGuid) -> Option<Arc<dyn PoolExports>> {
        Some(self.0.clone())
    }
    fn pools(&self) -> Vec<Arc<dyn PoolExports>> {
        vec![self.0.clone()]
    }
    fn list(&self) -> Vec<(String, Vec<String>)> {
        Vec::new()
    }
}

impl PoolExports for OnePool {
    fn guid(&self) -> PoolGuid {
        self.0.pool()
    }

    fn pool_name(&self) -> &str {
        "tank"
    }

    fn root(&self) -> Option<DatasetId> {
        Some(self.0.dataset())
    }

    fn place(&self, _: DatasetId) -> Place {
        Place::Here(self.0.clone())
    }
    fn rule(&self, _: DatasetId, _: IpAddr) -> Option<Rule> {
        Some(self.1.clone())
    }
    fn child(&self, _: DatasetId, _: ObjectRef, _: &[u8]) -> Option<DatasetId> {
        None
    }
    fn handle_key(&self) -> &[u8; 32] {
        &KEY
    }
}

/// A request that is sent often, with its record mark.
struct Request {
    record: Vec<u8>,
    xid: u32,
    /// Where the sequence of its slot is.
    sequence_at: Option<usize>,
    sequence: u32,
}

impl Request {
    fn new(version: u32, procedure: u32, arguments: &[u8], xid: u32) -> Self {
        let mut cred = Encoder::new();
        cred.u32(0).opaque(b"lone").u32(0).u32(0).u32(0);
        let mut words = Encoder::new();
        words.u32(xid).u32(0).u32(2).u32(100_003).u32(version).u32(procedure).u32(1).opaque(&cred.into_vec()).u64(0);
        words.raw(arguments);
        let body = words.into_vec();
        let mark = u32::try_from(body.len()).unwrap_or_default() | 1 << 31;
        Self { record: [&mark.to_be_bytes(), &body[..]].concat(), xid, sequence_at: None, sequence: 0 }
    }

    /// Of version 4.1.
    fn compound(ops: &[NfsArgop4], xid: u32) -> Self {
        let arguments = Compound4Args { tag: Vec::new().into(), minorversion: 1, argarray: ops.to_vec().into() };
        Self::new(4, 1, &encode(&arguments), xid)
    }

    /// SETATTR of a mode, by version 3.
    fn setattr(handle: &[u8], xid: u32) -> Self {
        let mut words = Encoder::new();
        words.opaque(handle).bool(true).u32(0o755).bool(false).bool(false).bool(false).u32(0).u32(0).bool(false);
        Self::new(3, 2, &words.into_vec(), xid)
    }

    /// The same in a session.
    fn setattr_in(session: Sessionid4, handle: &[u8], xid: u32) -> Self {
        let (stateid, mode) = (Stateid4 { seqid: 0, other: [0; 12] }, Fattr4::of(&[Fattr4Value::Fattr4Mode(0o755)]));
        let setattr = NfsArgop4::OpSetattr(Setattr4Args { stateid, obj_attributes: mode });
        let sequence = ask::sequence(Slot { session, sequence: 1 });
        let mut request = Self::compound(&[sequence, ask::put(handle), setattr], xid);
        // Behind the session, which stands there once.
        let at = request.record.windows(session.len()).position(|bytes| *bytes == session);
        request.sequence_at = at.map(|at| at + session.len());
        request
    }

    /// Asks again, and gives the reply.
    fn ask(&mut self, stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
        self.record[4..8].copy_from_slice(&self.xid.to_be_bytes());
        self.xid = self.xid.wrapping_add(1);
        if let Some(at) = self.sequence_at {
            self.sequence += 1;
            self.record[at..at + 4].copy_from_slice(&self.sequence.to_be_bytes());
        }
        stream.write_all(&self.record)?;
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        let mut reply = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        stream.read_exact(&mut reply)?;
        Ok(reply)
    }
}

/// A session.
fn session(stream: &mut TcpStream, xid: u32) -> Result<Sessionid4, Box<dyn std::error::Error>> {
    let mut run = |op| -> Result<NfsResop4, Box<dyn std::error::Error>> {
        let reply = Request::compound(&[op], xid).ask(stream)?;
        // Behind the header of an accepted reply.
        let told =
            decode::<Compound4Res>(reply.get(24..).ok_or("no results")?).map_err(|error| format!("{error:?}"))?;
        Ok(told.resarray.0.into_iter().next().ok_or("no results")?)
    };
    let NfsResop4::OpExchangeId(ExchangeId4Res::Nfs4Ok(known)) = run(ask::exchange_id("lone"))? else {
        return Err("the server does not let a client in".into());
    };
    let asked = ask::create_session(known.eir_clientid, known.eir_sequenceid, 0);
    let NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(created)) = run(asked)? else {
        return Err("the server makes no session".into());
    };
    Ok(created.csr_sessionid)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let version = arguments.next().unwrap_or_else(|| "3".to_owned());
    let rounds: u32 = arguments.next().map_or(Ok(ROUNDS), |rounds| rounds.parse())?;
    let model = Arc::new(Model::default());
    let handle = Handle { pool: model.pool(), dataset: model.dataset(), object: model.root() }.seal(&KEY);
    let rule = parse_sharenfs("rw,no_root_squash,insecure")?.rule([127, 0, 0, 1].into()).ok_or("no rule")?;
    let service = Service::new(Arc::new(OneModel(Arc::new(OnePool(model, rule)))));
    let service = Arc::new(if version == "3" { service } else { service.speaking_4() });
    let server = Server::start(service, &["127.0.0.1:0".parse()?], &ServeOptions::default())?;
    let mut stream = TcpStream::connect(*server.addresses().first().ok_or("no address")?)?;
    stream.set_nodelay(true)?;
    let first_xid = u32::from_be_bytes(*handle.last_chunk().ok_or("no handle")?);
    let mut request = match version.as_str() {
        "3" => Request::setattr(&handle, first_xid),
        "4.1" => Request::setattr_in(session(&mut stream, first_xid)?, &handle, first_xid),
        other => return Err(format!("{other} is neither 3 nor 4.1").into()),
    };
    let start = Instant::now();
    for _ in 0..rounds {
        let reply = request.ask(&mut stream)?;
        if reply.get(24..28) != Some(&[0; 4]) {
            return Err(format!("a SETATTR is answered with {reply:x?}").into());
        }
    }
    let stats = server.stats();
    println!("{:?} a round trip, as the client sees it", start.elapsed() / rounds.max(1));
    println!(
        "last byte read to reply handed over: p50 {:?}, p99 {:?}",
        stats.own.quantile(0.5),
        stats.own.quantile(0.99)
    );
    println!("unfinished: {}", server.stop());
    Ok(())
}
