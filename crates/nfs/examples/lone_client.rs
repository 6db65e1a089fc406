//! What the server itself costs a lone client: SETATTRs one at a time against memory, whose promises are kept
//! at once. Run it with `--release`; the device is not part of it.

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

fn setattr(handle: &[u8], xid: u32) -> Vec<u8> {
    let mut cred = Encoder::new();
    cred.u32(0).opaque(b"lone").u32(0).u32(0).u32(0);
    let mut words = Encoder::new();
    words.u32(xid).u32(0).u32(2).u32(100_003).u32(3).u32(2).u32(1).opaque(&cred.into_vec()).u64(0);
    words.opaque(handle).bool(true).u32(0o755).bool(false).bool(false).bool(false).u32(0).u32(0).bool(false);
    let record = words.into_vec();
    let mark = u32::try_from(record.len()).unwrap_or_default() | 1 << 31;
    [&mark.to_be_bytes(), &record[..]].concat()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Arc::new(Model::default());
    let handle = Handle { pool: model.pool(), dataset: model.dataset(), object: model.root() }.seal(&KEY);
    let rule = parse_sharenfs("rw,no_root_squash,insecure")?.rule([127, 0, 0, 1].into()).ok_or("no rule")?;
    let service = Arc::new(Service::new(Arc::new(OneModel(Arc::new(OnePool(model, rule))))));
    let server = Server::start(service, &["127.0.0.1:0".parse()?], &ServeOptions::default())?;
    let mut stream = TcpStream::connect(*server.addresses().first().ok_or("no address")?)?;
    stream.set_nodelay(true)?;
    let first_xid = u32::from_be_bytes(*handle.last_chunk().ok_or("no handle")?);
    let start = Instant::now();
    for round in 0..ROUNDS {
        stream.write_all(&setattr(&handle, first_xid.wrapping_add(round)))?;
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        let mut reply = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        stream.read_exact(&mut reply)?;
    }
    let stats = server.stats();
    println!("{:?} a round trip, as the client sees it", start.elapsed() / ROUNDS);
    println!(
        "last byte read to reply handed over: p50 {:?}, p99 {:?}",
        stats.own.quantile(0.5),
        stats.own.quantile(0.99)
    );
    println!("unfinished: {}", server.stop());
    Ok(())
}
