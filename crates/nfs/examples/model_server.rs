//! Serves an in-memory file system over NFSv3, and version 4 as far as that goes, for trying clients out: `model_server [ADDRESS:PORT]`.
//! Everything in it is gone when it ends.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tally_base::{DatasetId, PoolGuid};
use tally_nfs::exports::{Exports, Place, PoolExports, Resolved, Rule, ShareRules, parse_sharenfs};
use tally_nfs::serve::{ServeOptions, Server};
use tally_nfs::service::Service;
use tally_vfs::model::{Model, ModelOptions};
use tally_vfs::{Identity, ObjectRef, Vfs};

#[derive(Clone)]
struct OneModel {
    model: Arc<Model>,
    /// Where it is kept who has what: without it nobody is given anything for writing.
    clients: Arc<Model>,
    rules: Arc<ShareRules>,
}

impl Exports for OneModel {
    fn resolve(&self, path: &str) -> Option<Resolved> {
        let below = path.strip_prefix("/tank")?.trim_start_matches('/').to_owned();
        Some(Resolved { pool: Arc::new(self.clone()), vfs: self.model.clone(), below })
    }

    fn pool(&self, pool: PoolGuid) -> Option<Arc<dyn PoolExports>> {
        (pool == self.model.pool()).then(|| Arc::new(self.clone()) as _)
    }

    fn pools(&self) -> Vec<Arc<dyn PoolExports>> {
        vec![Arc::new(self.clone())]
    }

    fn list(&self) -> Vec<(String, Vec<String>)> {
        vec![("/tank".into(), self.rules.networks())]
    }
}

impl PoolExports for OneModel {
    fn guid(&self) -> PoolGuid {
        self.model.pool()
    }

    fn pool_name(&self) -> &str {
        "tank"
    }

    fn root(&self) -> Option<DatasetId> {
        Some(self.model.dataset())
    }

    fn place(&self, dataset: DatasetId) -> Place {
        if dataset == self.model.dataset() { Place::Here(self.model.clone()) } else { Place::Unknown }
    }

    fn rule(&self, _: DatasetId, client: IpAddr) -> Option<Rule> {
        self.rules.rule(client)
    }

    fn child(&self, _: DatasetId, _: ObjectRef, _: &[u8]) -> Option<DatasetId> {
        None
    }

    fn clients(&self) -> Option<Arc<dyn Vfs>> {
        Some(self.clients.clone())
    }

    fn handle_key(&self) -> &[u8; 32] {
        &[7; 32]
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:12049".into());
    let address: SocketAddr = address.parse()?;
    let model = Arc::new(Model::new(&ModelOptions { root_mode: 0o777, ..ModelOptions::default() }));
    let clients = Arc::new(Model::new(&ModelOptions { dataset: DatasetId(u64::MAX), ..ModelOptions::default() }));
    let rules = parse_sharenfs("127.0.0.1(rw,no_root_squash) ::1(rw,no_root_squash)")?;
    let service = Arc::new(Service::new(Arc::new(OneModel { model, clients, rules: rules.into() })).speaking_4());
    let server = Server::start(service, &[address], &ServeOptions::default())?;
    let port = server.addresses().first().map_or(0, SocketAddr::port);
    println!("serving memory at nfs://127.0.0.1/tank/?version=3&nfsport={port}&mountport={port}; Enter ends");
    std::io::stdin().read_line(&mut String::new())?;
    println!("unfinished at the end: {}", server.stop());
    Ok(())
}
