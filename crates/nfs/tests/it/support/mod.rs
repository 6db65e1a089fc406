//! A server over models in memory, and a client that sends whatever it is told to.

#![allow(unreachable_pub, missing_docs)]

pub mod called;
pub mod client;
pub mod compound;
pub mod delegates;
pub mod desk;
pub mod directory;
pub mod gated;
pub mod host;
pub mod keeper;
pub mod opener;
pub mod owner;
pub mod scene;
pub mod session;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::Mutex;
use tally_base::{DatasetId, PoolGuid, Time};
use tally_nfs::exports::{Exports, Place, PoolExports, Resolved, Rule, ShareRules, parse_sharenfs};
use tally_nfs::serve::{ServeOptions, Server};
use tally_nfs::service::Service;
use tally_vfs::locks::{Lock, Range};
use tally_vfs::model::{Model, ModelOptions};
use tally_vfs::{
    ClientNumber, Cred, Delegations, Holder, Identity, Locks, MountNumber, Names, ObjectRef, OpCtx, Opens, Retained,
    SetAttr, Vfs,
};

use client::Client;
use gated::Gated;

pub const POOL: PoolGuid = PoolGuid(0xabcd);
pub const AWAY_POOL: PoolGuid = PoolGuid(0xef01);
pub const KEY: [u8; 32] = [9; 32];

/// `/tank`, a dataset, and `/tank/child`, another one mounted in its root.
pub struct TestExports {
    pub tank: Arc<Gated>,
    pub child: Arc<Gated>,
    pub tank_rule: Mutex<String>,
    pub child_rule: Mutex<String>,
    pub away: Mutex<bool>,
    /// While it is away, what clients have of it is kept.
    pub retains: AtomicBool,
    pub changed: Mutex<Time>,
    /// It is another one at each look.
    pub is_restless: AtomicBool,
    /// It goes away behind so many looks.
    pub looks: Mutex<usize>,
    pub child_is: Mutex<Child>,
    /// Where the pool keeps what has to be known of clients.
    pub clients: Mutex<Option<Arc<Gated>>>,
    /// The tank, since it was mounted anew.
    pub anew: Mutex<Option<Arc<Gated>>>,
}

fn dataset(number: u64) -> Arc<Gated> {
    let options = ModelOptions { pool: POOL, dataset: DatasetId(number), root_mode: 0o777, ..ModelOptions::default() };
    Arc::new(Gated::new(Arc::new(Model::new(&options))))
}

impl TestExports {
    pub fn new() -> Arc<Self> {
        let exports = Self {
            tank: dataset(1),
            child: dataset(2),
            // One process plays all users here.
            tank_rule: Mutex::new("*(rw,no_root_squash,insecure)".into()),
            child_rule: Mutex::new("*(rw,no_root_squash,insecure)".into()),
            away: Mutex::new(false),
            retains: AtomicBool::new(false),
            changed: Mutex::new(Time(7)),
            is_restless: AtomicBool::new(false),
            looks: Mutex::new(usize::MAX),
            child_is: Mutex::new(Child::There),
            clients: Mutex::default(),
            anew: Mutex::default(),
        };
        let (root, set) = (Cred::root(), SetAttr { mode: Some(0o755), ..SetAttr::default() });
        let ctx = OpCtx::of(&root);
        exports.tank.mkdir(ctx, exports.tank.root(), b"child", &set).result.unwrap();
        Arc::new(exports)
    }

    /// The pool has a place for what has to be known of clients.
    pub fn keep_clients(&self) -> Arc<Gated> {
        self.clients.lock().get_or_insert_with(|| dataset(99)).clone()
    }

    /// The pool is exported, and what clients have of it is kept; or not, or not any more.
    pub fn export(&self, retains: bool) {
        self.retains.store(retains, SeqCst);
        *self.away.lock() = true;
        self.changed.lock().0 += 1;
    }

    /// It is back. With what clients had, if it has not been mounted anew meanwhile.
    pub fn import(&self) {
        *self.away.lock() = false;
        self.changed.lock().0 += 1;
    }

    /// The tank's pool goes, and comes with all that was in it: of what was open it knows nothing.
    pub fn mount_anew(&self) {
        *self.anew.lock() = Some(Arc::new(Gated::new(Arc::new(self.tank.model.mounted_anew()))));
        self.changed.lock().0 += 1;
    }

    pub fn start(self: &Arc<Self>) -> Server {
        self.start_with(&ServeOptions::default())
    }

    pub fn start_with(self: &Arc<Self>, options: &ServeOptions) -> Server {
        let service = Arc::new(Service::new(self.clone()));
        Server::start(service, &["127.0.0.1:0".parse().unwrap()], options).unwrap()
    }
}

impl Exports for TestExports {
    fn resolve(&self, path: &str) -> Option<Resolved> {
        let found = |vfs: &Arc<Gated>, below: &str| Resolved {
            pool: Arc::new(self.at(POOL)),
            vfs: vfs.clone(),
            below: below.trim_start_matches('/').to_owned(),
        };
        let below = path.strip_prefix("/tank").filter(|below| below.is_empty() || below.starts_with('/'))?;
        match below.strip_prefix("/child") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => Some(found(&self.child, rest)),
            _ => Some(found(&self.tank, below)),
        }
    }

    fn pool(&self, pool: PoolGuid) -> Option<Arc<dyn PoolExports>> {
        let mut looks = self.looks.lock();
        *self.away.lock() |= *looks == 0;
        *looks = looks.saturating_sub(1);
        [POOL, AWAY_POOL].contains(&pool).then(|| Arc::new(self.at(pool)) as _)
    }

    fn pools(&self) -> Vec<Arc<dyn PoolExports>> {
        vec![Arc::new(self.at(POOL))]
    }

    fn changed(&self) -> Time {
        let mut changed = self.changed.lock();
        changed.0 += u64::from(self.is_restless.load(SeqCst));
        *changed
    }

    fn list(&self) -> Vec<(String, Vec<String>)> {
        vec![("/tank".into(), vec!["*".into()]), ("/tank/child".into(), vec!["*".into()])]
    }
}

/// How far the child dataset is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// It is there.
    There,
    /// It has no rule yet.
    New,
    /// Its directory is covered, and it is not there yet.
    Coming,
    /// It is being destroyed.
    Going,
}

/// A pool at a moment.
struct Moment {
    guid: PoolGuid,
    away: bool,
    retains: bool,
    child: Child,
    clients: Option<Arc<Gated>>,
    served: [Arc<Gated>; 2],
    rules: [ShareRules; 2],
}

impl TestExports {
    fn at(&self, pool: PoolGuid) -> Moment {
        let rules = [&self.tank_rule, &self.child_rule].map(|text| parse_sharenfs(&text.lock()).unwrap());
        let away = pool == AWAY_POOL || *self.away.lock();
        Moment {
            guid: pool,
            away,
            retains: self.retains.load(SeqCst),
            child: *self.child_is.lock(),
            clients: self.clients.lock().clone(),
            served: [self.anew.lock().clone().unwrap_or_else(|| self.tank.clone()), self.child.clone()],
            rules,
        }
    }
}

impl PoolExports for Moment {
    fn place(&self, dataset: DatasetId) -> Place {
        match dataset.0 {
            _ if self.away => Place::Away,
            2 if self.child == Child::New => Place::Away,
            2 if self.child == Child::Coming => Place::Unknown,
            2 if self.child == Child::Going => Place::Going,
            number @ (1 | 2) => Place::Here(self.served[number as usize - 1].clone()),
            _ => Place::Unknown,
        }
    }

    fn retained(&self, dataset: DatasetId) -> Option<Arc<dyn Retained>> {
        let of = self.served.get((dataset.0 as usize).checked_sub(1)?)?;
        (self.away && self.retains).then(|| Arc::new(Put(of.clone())) as _)
    }

    fn is_retained(&self) -> bool {
        self.away && self.retains
    }

    fn guid(&self) -> PoolGuid {
        self.guid
    }

    fn pool_name(&self) -> &str {
        "tank"
    }

    fn root(&self) -> Option<DatasetId> {
        (!self.away).then_some(DatasetId(1))
    }

    fn name(&self, dataset: DatasetId) -> Option<String> {
        Some(if dataset.0 == 1 { "tank" } else { "tank/child" }.into())
    }

    fn parent(&self, dataset: DatasetId) -> Option<DatasetId> {
        (dataset.0 == 2).then_some(DatasetId(1))
    }

    fn children(&self, dataset: DatasetId) -> Vec<(String, DatasetId)> {
        if dataset.0 == 1 { vec![("child".into(), DatasetId(2))] } else { Vec::new() }
    }

    fn leads(&self, dataset: DatasetId, client: IpAddr) -> bool {
        (dataset.0..=2).any(|below| self.rule(DatasetId(below), client).is_some())
    }

    fn rule(&self, dataset: DatasetId, client: IpAddr) -> Option<Rule> {
        if self.away {
            return None;
        }
        self.rules[usize::from(dataset.0 != 1)].rule(client)
    }

    fn child(&self, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<DatasetId> {
        ((dataset.0, dir) == (1, self.served[0].root()) && name == b"child").then_some(DatasetId(2))
    }

    fn clients(&self) -> Option<Arc<dyn Vfs>> {
        Some(self.clients.clone().filter(|_| !self.away)?)
    }

    fn handle_key(&self) -> &[u8; 32] {
        &KEY
    }
}

/// What clients have of a dataset whose pool is away.
struct Put(Arc<Gated>);

impl Retained for Put {
    fn mount(&self) -> MountNumber {
        Identity::mount(&*self.0)
    }

    fn close(&self, object: ObjectRef, holder: Holder) {
        Opens::close(&*self.0, object, holder);
    }

    fn ranges(&self, object: ObjectRef, holder: Holder, most: usize) -> Vec<Lock> {
        Locks::ranges(&*self.0, object, holder, most)
    }

    fn has_ranges(&self, object: ObjectRef, holder: Holder) -> bool {
        Locks::has_ranges(&*self.0, object, holder)
    }

    fn unlock_range(&self, object: ObjectRef, holder: Holder, range: Range) -> bool {
        Locks::unlock_range(&*self.0, object, holder, range).is_ok()
    }

    fn give_back(&self, object: ObjectRef, client: ClientNumber) {
        Delegations::give_back(&*self.0, object, client);
    }
}

/// A server, and where it is.
pub struct House {
    pub exports: Arc<TestExports>,
    pub server: Server,
    pub address: SocketAddr,
}

impl House {
    pub fn new() -> Self {
        Self::with(&ServeOptions::default())
    }

    pub fn with(options: &ServeOptions) -> Self {
        let exports = TestExports::new();
        let server = exports.start_with(options);
        let address = server.addresses()[0];
        Self { exports, server, address }
    }

    /// One that speaks version 4, too.
    pub fn speaking_4() -> Self {
        let exports = TestExports::new();
        let service = Arc::new(Service::new(exports.clone()).speaking_4());
        let server = Server::start(service, &["127.0.0.1:0".parse().unwrap()], &ServeOptions::default()).unwrap();
        let address = server.addresses()[0];
        Self { exports, server, address }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }
}
