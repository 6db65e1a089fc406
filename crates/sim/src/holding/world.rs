//! Two pools on disks of their own, one process that serves them, and the power of both.
//!
//! The process knows what its clients have; a kill takes that and leaves the disks as they are, a cut takes what they had not flushed as well. A pool may be away while the
//! other one is served.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tally_base::{DatasetId, Fate, PoolGuid, Promise, Time};
use tally_fs::filer::{Filer, ImportOptions};
use tally_nfs::exports::{Exports, Place, PoolExports, Resolved, Rule, Squash};
use tally_nfs::link::Link;
use tally_nfs::rpc::Reply;
use tally_nfs::service::{Job, Service, Step};
use tally_store::properties::PropertySet;
use tally_store::tuning::Tuning;
use tally_vfs::{Identity, ObjectRef, Vfs};

use super::Checked;
use crate::chance::Chance;
use crate::disk::Kept;
use crate::machine::{Machine, POOL, Shape};

/// The pools.
pub(super) const POOLS: usize = 2;
/// Their datasets, two of the first pool and one of the second.
pub(super) const FOLDERS: [(usize, &str); 3] = [(0, POOL), (0, "tank/sub"), (1, POOL)];

/// Groups behind which a promise has to be kept.
const GROUPS_MAX: usize = 16;
/// What a kill leaves of the disks: all that was written.
const ALL: Kept = Kept { of_8: 8, tear: None };

/// Disks, and whoever runs on them.
pub(super) struct World {
    machines: [Machine; POOLS],
    exports: Arc<Shares>,
    service: Option<Arc<Service>>,
    /// How many processes there were.
    lives: u64,
    /// Handles of the datasets' roots.
    roots: [Vec<u8>; FOLDERS.len()],
}

/// A request that was carried out, and whose answer waits.
pub(super) struct Waiting {
    job: Box<Job>,
    promise: Box<dyn Promise>,
}

/// What came of a request at first.
pub(super) enum Begun {
    Answered(Reply),
    Waits(Waiting),
    /// The power went.
    Lost,
}

impl World {
    pub(super) fn new(seed: u64) -> Checked<Self> {
        let vdevs = [vec!["/d/a", "log", "/d/slog"], vec!["/d/b"]];
        let mut number = 0;
        let mut machines = vdevs.map(|words| {
            let tuning = Tuning { cache_bytes: 1 << 20, ..Tuning::default() };
            let vdevs = words.iter().map(|word| (*word).to_owned()).collect();
            let shape = Shape { vdevs, data_bytes: 16 << 20, log_bytes: 4 << 20, tuning };
            number += 1;
            Machine::new(shape, seed.wrapping_mul(2).wrapping_add(number))
        });
        for machine in &mut machines {
            machine.create(PropertySet::new()).map_err(|error| format!("a pool is not made: {error}"))?;
        }
        let sub = machines[0].server().filer.create_dataset(FOLDERS[1].1, PropertySet::new(), (0, 0));
        sub.map_err(|error| format!("a dataset is not made: {error}"))?;
        let roots = FOLDERS.map(|(pool, name)| machines[pool].server().root_handle(name));
        let known = machines.each_ref().map(|machine| {
            let config = machine.server().filer.pool().roster.config();
            Known { guid: config.pool, handle_key: config.handle_key }
        });
        let exports = Arc::new(Shares { known, filers: Mutex::default(), changed: AtomicU64::new(1) });
        let mut world = Self { machines, exports, service: None, lives: 0, roots };
        world.begin_life();
        (0..POOLS).try_for_each(|pool| world.take_up(pool))?;
        Ok(world)
    }

    pub(super) fn root(&self, folder: usize) -> &[u8] {
        &self.roots[folder]
    }

    pub(super) fn service(&self) -> &Arc<Service> {
        self.service.as_ref().expect("a process runs")
    }

    pub(super) fn guid(&self, pool: usize) -> PoolGuid {
        self.exports.known[pool].guid
    }

    pub(super) fn is_here(&self, pool: usize) -> bool {
        self.exports.filers.lock()[pool].is_some()
    }

    /// The power goes at the `events`th write or flush of this pool from now on.
    pub(super) fn plan_cut(&self, pool: usize, events: Option<u64>) {
        self.machines[pool].power().plan_cut(events);
    }

    pub(super) fn is_off(&self) -> bool {
        self.machines.iter().any(|machine| machine.power().is_off())
    }

    /// Writes and flushes so far, by which two runs of a seed are compared.
    pub(super) fn events(&self) -> u64 {
        self.machines.iter().map(|machine| machine.power().events()).sum()
    }

    // ---- lives ----

    fn begin_life(&mut self) {
        self.lives += 1;
        let exports = Arc::clone(&self.exports) as _;
        let service = Service::numbering_from(exports, self.lives << 40).speaking_4().known_as(1, b"/sim");
        self.service = Some(Arc::new(service));
    }

    fn end_life(&mut self) {
        self.service = None;
        *self.exports.filers.lock() = Default::default();
    }

    /// The process is killed, or the power goes; and another one starts, which serves nothing yet.
    pub(super) fn crash(&mut self, cuts: bool, chance: &mut Chance) {
        self.end_life();
        for machine in &mut self.machines {
            match cuts {
                true => machine.lose_power(chance),
                false => machine.lose_power_keeping(ALL, chance),
            }
        }
        self.begin_life();
    }

    /// Imports a pool and serves it. False: the power went.
    pub(super) fn import(&mut self, pool: usize) -> Checked<bool> {
        let imported = self.machines[pool].import(&ImportOptions::default());
        match imported {
            Err(_) if self.is_off() => return Ok(false),
            Err(error) => return Err(format!("pool {pool} cannot be imported: {error}")),
            Ok(_) => {}
        }
        self.take_up(pool)?;
        Ok(!self.is_off())
    }

    fn take_up(&mut self, pool: usize) -> Checked<()> {
        let filer = Arc::clone(&self.machines[pool].server().filer);
        match filer.make_clients() {
            Err(_) if self.is_off() => return Ok(()),
            made => drop(made.map_err(|error| format!("pool {pool} has no place for clients: {error}"))?),
        }
        self.exports.filers.lock()[pool] = Some(filer);
        self.exports.changed.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Exports a pool. The process goes on without it. False: the power went.
    pub(super) fn export(&self, pool: usize) -> Checked<bool> {
        let Some(filer) = self.exports.filers.lock()[pool].take() else { return Ok(true) };
        self.exports.changed.fetch_add(1, Relaxed);
        match filer.export() {
            Err(_) if self.is_off() => Ok(false),
            Err(error) => Err(format!("pool {pool} cannot be exported: {error}")),
            Ok(_) => Ok(true),
        }
    }

    pub(super) fn sync(&self) {
        let filers = self.exports.filers.lock().clone();
        // A sync fails where the power goes, and whoever waited is told.
        filers.iter().flatten().for_each(|filer| drop(filer.sync()));
    }

    // ---- requests ----

    pub(super) fn begin(&self, record: Bytes, link: &Arc<Link>) -> Checked<Begun> {
        let service = self.service();
        let opened = service.open(record, link, Instant::now());
        let mut job = Box::new(opened.map_err(|_| "a call is refused before it is looked at".to_owned())?);
        for _ in 0..GROUPS_MAX {
            match service.run(&mut job) {
                Step::Reply(reply) => {
                    service.finish(&mut job, &reply);
                    return Ok(if self.is_off() { Begun::Lost } else { Begun::Answered(reply) });
                }
                Step::Wait(promise) => return Ok(Begun::Waits(Waiting { job, promise })),
                Step::Again(promise) => {
                    if self.fate(&*promise)?.is_none() {
                        service.abandon(&mut job);
                        return Ok(Begun::Lost);
                    }
                }
                Step::Attached => return Err("a request is taken for one that is under way".into()),
            }
        }
        Err(format!("a request is refused for {GROUPS_MAX} groups"))
    }

    /// Waits, and gives the reply; none, if the power went.
    pub(super) fn end(&self, mut waiting: Waiting) -> Checked<Option<Reply>> {
        let service = self.service();
        let Some(fate) = self.fate(&*waiting.promise)? else {
            service.abandon(&mut waiting.job);
            return Ok(None);
        };
        let reply = service.reply_after_wait(&mut waiting.job, fate);
        service.finish(&mut waiting.job, &reply);
        Ok(Some(reply))
    }

    pub(super) fn carry_out(&self, record: Bytes, link: &Arc<Link>) -> Checked<Option<Reply>> {
        match self.begin(record, link)? {
            Begun::Answered(reply) => Ok(Some(reply)),
            Begun::Waits(waiting) => self.end(waiting),
            Begun::Lost => Ok(None),
        }
    }

    fn fate(&self, promise: &dyn Promise) -> Checked<Option<Fate>> {
        for _ in 0..GROUPS_MAX {
            let fate = promise.drive().or_else(|| promise.poll());
            if self.is_off() {
                return Ok(None);
            }
            match fate {
                Some(Ok(kept)) => return Ok(Some(Ok(kept))),
                Some(Err(broken)) => return Err(format!("a promise is broken over sound disks: {broken}")),
                None => self.sync(),
            }
        }
        Err(format!("a promise is not kept behind {GROUPS_MAX} groups"))
    }

    /// Time as the process sees it.
    pub(super) fn look_at_clock(&self, at: Duration) {
        self.service().look_at_clock(at);
    }

    /// What the daemon does once a minute: gives which pools nobody may claim anything of any more.
    pub(super) fn look_after_clients(&self) -> [bool; POOLS] {
        let service = self.service();
        service.look_after_clients();
        let filers = self.exports.filers.lock().clone();
        let mut is_over = [false; POOLS];
        for (pool, filer) in filers.iter().enumerate() {
            if let Some(filer) = filer
                && !service.is_in_grace(self.guid(pool))
            {
                filer.let_go_of_held();
                is_over[pool] = true;
            }
        }
        is_over
    }
}

/// Everything is exported to everybody.
struct Shares {
    known: [Known; POOLS],
    filers: Mutex<[Option<Arc<Filer>>; POOLS]>,
    changed: AtomicU64,
}

/// What does not change of a pool.
#[derive(Clone, Copy)]
struct Known {
    guid: PoolGuid,
    handle_key: [u8; 32],
}

impl Shares {
    fn at(&self, pool: usize) -> Arc<Moment> {
        Arc::new(Moment { known: self.known[pool], filer: self.filers.lock()[pool].clone() })
    }
}

impl Exports for Shares {
    fn resolve(&self, _: &str) -> Option<Resolved> {
        None
    }

    fn pool(&self, guid: PoolGuid) -> Option<Arc<dyn PoolExports>> {
        let pool = self.known.iter().position(|known| known.guid == guid)?;
        Some(self.at(pool))
    }

    fn pools(&self) -> Vec<Arc<dyn PoolExports>> {
        (0..POOLS).map(|pool| self.at(pool) as _).collect()
    }

    fn changed(&self) -> Time {
        Time(self.changed.load(Relaxed))
    }

    fn list(&self) -> Vec<(String, Vec<String>)> {
        Vec::new()
    }
}

/// A pool at a moment.
struct Moment {
    known: Known,
    filer: Option<Arc<Filer>>,
}

impl PoolExports for Moment {
    fn guid(&self) -> PoolGuid {
        self.known.guid
    }

    fn pool_name(&self) -> &str {
        POOL
    }

    fn root(&self) -> Option<DatasetId> {
        Some(self.filer.as_ref()?.by_name(POOL)?.dataset())
    }

    fn place(&self, dataset: DatasetId) -> Place {
        let Some(filer) = &self.filer else { return Place::Away };
        filer.filesystem(dataset).map_or(Place::Unknown, |fs| Place::Here(fs as _))
    }

    fn rule(&self, _: DatasetId, _: IpAddr) -> Option<Rule> {
        Some(Rule { read_only: false, squash: Squash::None, anon_uid: 65534, anon_gid: 65534, secure: false })
    }

    fn child(&self, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<DatasetId> {
        self.filer.as_ref()?.child(dataset, dir, name)
    }

    fn clients(&self) -> Option<Arc<dyn Vfs>> {
        Some(self.filer.as_ref()?.clients()? as _)
    }

    fn handle_key(&self) -> &[u8; 32] {
        &self.known.handle_key
    }
}
