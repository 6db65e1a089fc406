//! A service over two file systems in memory: `/tank`, and `/tank/child`, which is mounted in its root.
//!
//! One service serves all inputs of version 3, as its statistics alone take half a megabyte; behind one that has brought
//! clients of version 4 it starts anew. Each input finds the file systems as they
//! were at first, comes from an address of its own, so that no input gets another one's remembered answer, and the keys
//! and generations are constants, so that handles in a corpus stay good.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::RwLock;
use tally_base::{DatasetId, Generation, ObjectId, PoolGuid, Promise};
use tally_nfs::exports::{Exports, Place, PoolExports, Resolved, Rule, parse_sharenfs};
use tally_nfs::handle::{HANDLE_BYTES, Handle};
use tally_nfs::link::Link;
use tally_nfs::rpc::{Refusal, Reply};
use tally_nfs::service::{Service, Step};
use tally_vfs::model::{Model, ModelOptions};
use tally_vfs::{Content, CreateHow, Cred, Identity, Names, NodeKind, ObjectRef, OpCtx, SetAttr, Stability, Vfs};

use crate::world::{Fixed, Still};

pub(crate) const POOL: PoolGuid = PoolGuid(0xabcd);
/// A pool that is known, and not here.
pub(crate) const AWAY_POOL: PoolGuid = PoolGuid(0xef01);
pub(crate) const TANK: DatasetId = DatasetId(1);
pub(crate) const CHILD: DatasetId = DatasetId(2);
const KEY: [u8; 32] = [9; 32];
const GENERATION: u64 = 0x67;
/// The largest reply: a READ of 1 MiB and its attributes.
const REPLY_BYTES_MAX: usize = (1 << 20) + (4 << 10);

/// How often a compound that finds somebody in its way goes on at once: that it may once for each of its operations.
const ATTEMPTS_MAX: usize = 256;
/// Where the pool keeps what has to be known of clients.
const CLIENTS: DatasetId = DatasetId(99);
/// What stands before results: the mark, and the header of a reply that was carried out.
const HEAD_BYTES: usize = 28;

/// Object ids of the tank, in the order in which they are made: each takes one for itself and one for its entry.
pub(crate) const TANK_ROOT: u64 = 3;
pub(crate) const CHILD_DIR: u64 = 4;
pub(crate) const DIR: u64 = 6;
pub(crate) const FILE: u64 = 8;
pub(crate) const LINK: u64 = 10;

static HOUSE: LazyLock<House> = LazyLock::new(House::new);

pub(crate) struct House {
    service: RwLock<Arc<Service>>,
    exports: Arc<Places>,
    fresh: [Model; 2],
    inputs: AtomicU64,
    /// Whether somebody may have changed what is served.
    is_used: AtomicBool,
    /// Whether clients may be known.
    has_clients: AtomicBool,
}

struct Places {
    served: RwLock<Served>,
}

/// The tank, its child, and the list of clients.
#[derive(Clone)]
struct Served {
    datasets: [Arc<Model>; 2],
    clients: Arc<Model>,
}

impl Served {
    fn of(fresh: &[Model; 2]) -> Self {
        Self { datasets: fresh.each_ref().map(|model| Arc::new(model.fork())), clients: Arc::new(model(CLIENTS)) }
    }
}

/// One input's connection.
pub(crate) struct Visit {
    house: &'static House,
    link: Arc<Link>,
}

fn model(dataset: DatasetId) -> Model {
    let (clock, rng) = (Arc::new(Still), Arc::new(Fixed(GENERATION)));
    let quota_bytes = Some(4 << 20);
    Model::new(&ModelOptions {
        pool: POOL,
        dataset,
        root_mode: 0o777,
        quota_bytes,
        read_only: false,
        clock,
        rng,
        root_owner: (0, 0),
    })
}

/// Something of each kind.
fn furnish(tank: &Model) {
    let cred = Cred::root();
    let ctx = OpCtx::of(&cred);
    let set = SetAttr { mode: Some(0o755), ..SetAttr::default() };
    let made = |outcome: tally_vfs::Outcome<_>| outcome.result.expect("there is room in a new model");
    made(tank.mkdir(ctx, tank.root(), b"child", &set));
    let dir = made(tank.mkdir(ctx, tank.root(), b"dir", &set)).object;
    let file = made(tank.create(ctx, dir, b"file", &CreateHow::Guarded(set.clone()))).object;
    let content = Bytes::from_static(b"a tally, split\n");
    tank.write(ctx, file, 0, content, Stability::FileSync).result.expect("there is room in a new model");
    made(tank.symlink(ctx, tank.root(), b"link", b"dir/file", &set));
    made(tank.mknod(ctx, dir, b"pipe", NodeKind::Fifo, &set));
    made(tank.create(ctx, tank.root(), b"once", &CreateHow::Exclusive(5)));
    made(tank.mkdir(ctx, tank.root(), b"empty", &set));
}

impl House {
    fn new() -> Self {
        let fresh = [model(TANK), model(CHILD)];
        furnish(&fresh[0]);
        let exports = Arc::new(Places { served: RwLock::new(Served::of(&fresh)) });
        let service = RwLock::new(Arc::new(Service::new(exports.clone()).speaking_4()));
        let (is_used, has_clients) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { service, exports, fresh, inputs: AtomicU64::new(1), is_used, has_clients }
    }

    /// Is there before anything is counted.
    pub(crate) fn open() -> &'static Self {
        &HOUSE
    }

    /// A client comes in; everything is as it was at first. `port` tells whether it is a privileged one.
    pub(crate) fn visit(&'static self, port: u16) -> Visit {
        if self.is_used.swap(false, Ordering::Relaxed) {
            *self.exports.served.write() = Served::of(&self.fresh);
        }
        if self.has_clients.swap(false, Ordering::Relaxed) {
            self.start_anew();
        }
        self.visit_beside(port)
    }

    /// Another one comes in, beside those who are there.
    pub(crate) fn visit_beside(&'static self, port: u16) -> Visit {
        let number = self.inputs.fetch_add(1, Ordering::Relaxed);
        let peer = SocketAddr::new(IpAddr::V6(Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(number))), port);
        Visit { house: self, link: Arc::new(Link::new(number, peer)) }
    }

    /// There is so much room that files may be given to clients for writing: an input that only writes a little takes no memory for it.
    pub(crate) fn give_room(&self) {
        self.is_used.store(true, Ordering::Relaxed);
        self.exports.served.read().datasets.iter().for_each(|model| model.set_quota(Some(1 << 30)));
    }

    /// A server beside that one, which locks for version 3, and knows nobody; everything is as it was at first.
    pub(crate) fn locking_for_3(&'static self) -> Service {
        self.visit(700).leave();
        self.is_used.store(true, Ordering::Relaxed);
        let service = self.service().restarted(self.inputs.load(Ordering::Relaxed) << 20);
        service.locking_for_3(Box::new(|| Ok(5)), &["server"])
    }

    /// The server of now.
    pub(crate) fn service(&self) -> Arc<Service> {
        self.service.read().clone()
    }

    /// It starts anew: nothing is known but what is in the pool.
    pub(crate) fn restart(&self) {
        self.exports.served.read().datasets.iter().for_each(|model| model.forget_opens());
        self.start_anew();
    }

    fn start_anew(&self) {
        let first = self.inputs.load(Ordering::Relaxed) << 20;
        let anew = self.service().restarted(first);
        *self.service.write() = Arc::new(anew);
    }
}

impl Visit {
    /// Carries out one record, and checks the reply. Whether the call was carried out; with `has_status`, with success.
    pub(crate) fn serve(&self, record: Bytes, has_status: bool) -> bool {
        self.carry(record).is_ok_and(|reply| check(&reply, has_status))
    }

    /// Carries out one compound, and gives its results, if it was carried out.
    pub(crate) fn compound(&self, record: Bytes) -> Option<Vec<u8>> {
        self.house.has_clients.store(true, Ordering::Relaxed);
        self.house.is_used.store(true, Ordering::Relaxed);
        let reply = self.carry(record).ok().filter(|reply| check(reply, false))?;
        let mut pieces = Vec::new();
        reply.slices(0, &mut pieces);
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        bytes.get(HEAD_BYTES..).map(<[u8]>::to_vec)
    }

    /// Its connection.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    fn carry(&self, record: Bytes) -> Result<Reply, ()> {
        let service = self.house.service();
        let mut job = match service.open(record, &self.link, Instant::now()) {
            Ok(job) => job,
            Err(Refusal::NotACall) => return Err(()),
            Err(Refusal::Answer(reply)) => {
                check(&reply, false);
                return Err(());
            }
        };
        for _ in 0..ATTEMPTS_MAX {
            let step = service.run(&mut job);
            if job.procedure().is_some_and(|procedure| procedure.modifies()) {
                self.house.is_used.store(true, Ordering::Relaxed);
            }
            assert_eq!(service.stats().panics.load(Ordering::Relaxed), 0, "an operation panicked");
            let reply = match step {
                Step::Reply(reply) => reply,
                Step::Wait(promise) => {
                    let fate = Promise::drive(&*promise).expect("a model keeps its promises at once");
                    service.reply_after_wait(&mut job, fate)
                }
                // Somebody is in its way, and is asked; here nobody waits for him.
                Step::Again(_) => continue,
                Step::Attached => panic!("no request is under way"),
            };
            service.finish(&mut job, &reply);
            return Ok(reply);
        }
        panic!("it does not end")
    }

    /// The client goes.
    pub(crate) fn leave(self) {
        self.link.close();
        let service = self.house.service();
        service.disconnected(&self.link);
        service.mounts().remove_all(self.link.peer().ip());
    }
}

/// A reply is one fragment of a bounded size, and says that it is a reply. Whether the call was carried out.
pub(crate) fn check(reply: &Reply, has_status: bool) -> bool {
    let mut pieces = Vec::new();
    reply.slices(0, &mut pieces);
    let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
    assert_eq!(bytes, reply.wire_bytes(), "the pieces are the reply");
    assert!(bytes <= REPLY_BYTES_MAX, "a reply of {bytes} bytes");
    let head = pieces.first().expect("a reply has a head");
    let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(word(0), 1 << 31 | (bytes - 4) as u32, "the mark tells the length");
    assert_eq!(word(8), 1, "a reply");
    word(12) == 0 && word(24) == 0 && (!has_status || head.len() < 32 || word(28) == 0)
}

/// Sets the MAC right of everything in a record that looks like a handle of ours: a client brings back only what
/// it was given, but whoever knows the key of one pool must not get further than that.
pub(crate) fn sign_handles(record: &mut [u8]) {
    let mut at = 0;
    while let Some(bytes) = record.get_mut(at..at + HANDLE_BYTES) {
        let word = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if bytes[..8] == [1, 0, 0, 0, 0, 0, 0, 0] && [POOL.0, AWAY_POOL.0].contains(&word(8)) {
            let object = ObjectRef { id: ObjectId(word(24)), generation: Generation(word(32)) };
            let handle = Handle { pool: PoolGuid(word(8)), dataset: DatasetId(word(16)), object };
            bytes.copy_from_slice(&handle.seal(&KEY));
        }
        at += 4;
    }
}

/// The handle of an object, signed or not: [`sign_handles`] does that.
pub(crate) fn handle(dataset: DatasetId, id: u64) -> [u8; HANDLE_BYTES] {
    let object = ObjectRef { id: ObjectId(id), generation: Generation(GENERATION) };
    Handle { pool: POOL, dataset, object }.seal(&KEY)
}

impl Exports for Places {
    fn resolve(&self, path: &str) -> Option<Resolved> {
        let below = path.strip_prefix("/tank").filter(|below| below.is_empty() || below.starts_with('/'))?;
        let served = self.served.read();
        let [tank, child] = &served.datasets;
        let (vfs, below) = match below.strip_prefix("/child") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => (child, rest),
            _ => (tank, below),
        };
        let below = below.trim_start_matches('/').to_owned();
        Some(Resolved { pool: Arc::new(Moment(Some(served.clone()))), vfs: vfs.clone(), below })
    }

    fn pool(&self, pool: PoolGuid) -> Option<Arc<dyn PoolExports>> {
        let served = match pool {
            POOL => Some(self.served.read().clone()),
            AWAY_POOL => None,
            _ => return None,
        };
        Some(Arc::new(Moment(served)))
    }

    fn pools(&self) -> Vec<Arc<dyn PoolExports>> {
        vec![Arc::new(Moment(Some(self.served.read().clone()))), Arc::new(Moment(None))]
    }

    fn list(&self) -> Vec<(String, Vec<String>)> {
        vec![("/tank".into(), vec!["*".into()]), ("/tank/child".into(), vec!["*".into()])]
    }
}

/// A pool at a moment; without file systems one that is away.
struct Moment(Option<Served>);

impl Moment {
    fn datasets(&self) -> Option<&[Arc<Model>; 2]> {
        self.0.as_ref().map(|served| &served.datasets)
    }
}

impl PoolExports for Moment {
    fn guid(&self) -> PoolGuid {
        if self.0.is_some() { POOL } else { AWAY_POOL }
    }

    fn pool_name(&self) -> &str {
        "tank"
    }

    fn root(&self) -> Option<DatasetId> {
        self.0.as_ref().map(|_| TANK)
    }

    fn place(&self, dataset: DatasetId) -> Place {
        match (self.datasets(), dataset) {
            (None, _) => Place::Away,
            (Some([tank, _]), TANK) => Place::Here(tank.clone()),
            (Some([_, child]), CHILD) => Place::Here(child.clone()),
            _ => Place::Unknown,
        }
    }

    fn rule(&self, dataset: DatasetId, client: IpAddr) -> Option<Rule> {
        static RULES: LazyLock<[tally_nfs::exports::ShareRules; 2]> = LazyLock::new(|| {
            ["*(rw,no_root_squash,insecure)", "*(rw,secure,root_squash)"]
                .map(|rules| parse_sharenfs(rules).expect("good rules"))
        });
        RULES[usize::from(dataset == CHILD)].rule(client)
    }

    fn children(&self, dataset: DatasetId) -> Vec<(String, DatasetId)> {
        if dataset == TANK { vec![("child".into(), CHILD)] } else { Vec::new() }
    }

    fn parent(&self, dataset: DatasetId) -> Option<DatasetId> {
        (dataset == CHILD).then_some(TANK)
    }

    fn child(&self, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<DatasetId> {
        let [tank, _] = self.datasets()?;
        ((dataset, dir) == (TANK, tank.root()) && name == b"child").then_some(CHILD)
    }

    fn clients(&self) -> Option<Arc<dyn Vfs>> {
        Some(self.0.as_ref()?.clients.clone())
    }

    fn handle_key(&self) -> &[u8; 32] {
        &KEY
    }
}
