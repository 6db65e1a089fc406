//! Two pools on disks of their own, one process that serves them, and the power of both.
//!
//! The process knows what its clients have; a kill takes that and leaves the disks as they are, a cut takes what they had not flushed as well. A pool may be away while the
//! other one is served.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tally_base::{Fate, PoolGuid, Promise};
use tally_fs::filer::ImportOptions;
use tally_nfs::handle::Handle as Sealed;
use tally_nfs::link::Link;
use tally_nfs::rpc::{Outgoing, Reply, Returned};
use tally_nfs::service::{Job, Service, Step};
use tally_nfs::v4::state::CallId;
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tuning::Tuning;
use tally_vfs::{Cred, FsError, OpCtx, Vfs};

use super::Checked;
use super::shares::{Known, Shares};
use crate::chance::{Chance, Stream};
use crate::disk::Kept;
use crate::machine::{Machine, POOL, Shape};

/// The pools.
pub(super) const POOLS: usize = 2;
/// Their datasets, two of the first pool and one of the second.
pub(super) const FOLDERS: [(usize, &str); 3] = [(0, POOL), (0, "tank/sub"), (1, POOL)];

/// So much that who is told how much it may write has room for it.
const DATA_BYTES: u64 = 256 << 20;
/// Groups behind which a promise has to be kept.
const GROUPS_MAX: usize = 16;
/// What a kill leaves of the disks: all that was written.
const ALL: Kept = Kept { of_8: 8, tear: None };

/// What clients are given to keep in a dataset, and who uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// `delegations=on`: all there is.
    On,
    /// `delegations=auto`: nothing for writing within a day of what version 3 did there.
    Auto,
    /// The same, and version 3 never comes there.
    AutoAmongClients,
}

impl Use {
    /// In every other world nothing is given for writing.
    fn drawn(chance: &mut Chance, seed: u64) -> Self {
        if seed % 2 == 1 { Self::Auto } else { chance.pick(&[Self::On, Self::On, Self::Auto, Self::AutoAmongClients]) }
    }

    fn properties(self) -> PropertySet {
        let mut properties = PropertySet::new();
        let said = if self == Self::On { "on" } else { "auto" };
        properties.set(parse(Property::Delegations, said).expect("a value"));
        properties
    }
}

/// Disks, and whoever runs on them.
pub(super) struct World {
    machines: [Machine; POOLS],
    exports: Arc<Shares>,
    service: Option<Arc<Service>>,
    /// How many processes there were.
    lives: u64,
    /// Handles of the datasets' roots.
    roots: [Vec<u8>; FOLDERS.len()],
    uses: [Use; FOLDERS.len()],
    /// The process is killed in the next request that waits: once what it waits for is durable, or before.
    will_be_killed: Cell<Option<bool>>,
    is_killed: Cell<bool>,
}

/// A request that was carried out, and whose answer waits.
pub(super) struct Waiting {
    job: Box<Job>,
    promise: Box<dyn Promise>,
}

/// A request that is kept out by what a client was given to keep, and goes on when that comes back, or some time later.
pub(super) struct Parked {
    job: Box<Job>,
    promise: Box<dyn Promise>,
}

impl Parked {
    /// Whether it was told to go on.
    pub(super) fn is_woken(&self) -> bool {
        self.promise.poll().is_some()
    }
}

/// What came of a request at first.
pub(super) enum Begun {
    Answered(Reply),
    Waits(Waiting),
    Parked(Parked),
    /// The power went.
    Lost,
}

impl World {
    pub(super) fn new(seed: u64) -> Checked<Self> {
        let mut chance = Chance::of(seed, Stream::Holding, 1);
        let uses = FOLDERS.map(|_| Use::drawn(&mut chance, seed));
        let vdevs = [vec!["/d/a", "log", "/d/slog"], vec!["/d/b"]];
        let mut number = 0;
        let mut machines = vdevs.map(|words| {
            let tuning = Tuning { cache_bytes: 1 << 20, ..Tuning::default() };
            let vdevs = words.iter().map(|word| (*word).to_owned()).collect();
            let shape = Shape { vdevs, data_bytes: DATA_BYTES, log_bytes: 4 << 20, tuning };
            number += 1;
            Machine::new(shape, seed.wrapping_mul(2).wrapping_add(number))
        });
        for (machine, of) in machines.iter_mut().zip([uses[0], uses[2]]) {
            machine.create(of.properties()).map_err(|error| format!("a pool is not made: {error}"))?;
        }
        let sub = machines[0].server().filer.create_dataset(FOLDERS[1].1, uses[1].properties(), (0, 0));
        sub.map_err(|error| format!("a dataset is not made: {error}"))?;
        let roots = FOLDERS.map(|(pool, name)| machines[pool].server().root_handle(name));
        let known = machines.each_ref().map(|machine| {
            let config = machine.server().filer.pool().roster.config();
            Known { guid: config.pool, handle_key: config.handle_key }
        });
        let exports = Arc::new(Shares {
            known,
            filers: Mutex::default(),
            handed_over: Mutex::default(),
            changed: AtomicU64::new(1),
        });
        let mut world = Self {
            machines,
            exports,
            service: None,
            lives: 0,
            roots,
            uses,
            will_be_killed: Cell::new(None),
            is_killed: Cell::new(false),
        };
        world.begin_life();
        (0..POOLS).try_for_each(|pool| world.take_up(pool))?;
        Ok(world)
    }

    pub(super) fn root(&self, folder: usize) -> &[u8] {
        &self.roots[folder]
    }

    pub(super) fn use_of(&self, folder: usize) -> Use {
        self.uses[folder]
    }

    // ---- looks past all protocols ----

    fn filesystem(&self, folder: usize) -> Option<Arc<dyn Vfs>> {
        let (pool, name) = FOLDERS[folder];
        let filer = self.exports.filers.lock()[pool].clone();
        Some(filer?.by_name(name)? as _)
    }

    /// What a name stands for, as nobody asks for whom it is.
    pub(super) fn name_is(&self, folder: usize, name: &str) -> Checked<Option<Vec<u8>>> {
        let vfs = self.filesystem(folder).ok_or("a dataset is not there")?;
        match vfs.look(&Cred::root(), vfs.root(), name.as_bytes()).0 {
            Ok(attr) => {
                let handle = Sealed { pool: vfs.pool(), dataset: vfs.dataset(), object: attr.object };
                Ok(Some(handle.seal(&self.exports.known[FOLDERS[folder].0].handle_key).to_vec()))
            }
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(format!("a look at {name} of {folder} fails: {error:?}")),
        }
    }

    /// What is in a file, as whoever has it would read it here; none if it is gone.
    pub(super) fn content_is(&self, folder: usize, file: &[u8], count: u32) -> Checked<Option<Vec<u8>>> {
        let vfs = self.filesystem(folder).ok_or("a dataset is not there")?;
        let key = &self.exports.known[FOLDERS[folder].0].handle_key;
        let object = Sealed::parse(file).and_then(|sealed| sealed.verify(key)).ok_or("a handle is none")?.object;
        let client = vfs.delegated(object).first().map(|(client, _)| *client);
        let cred = Cred::root();
        match vfs.read_by(OpCtx { client, ..OpCtx::of(&cred) }, object, 0, count) {
            Ok(read) => Ok(Some(read.data.concat())),
            Err(FsError::Stale) => Ok(None),
            Err(error) => Err(format!("a look into a file fails: {error:?}")),
        }
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

    /// The process is killed in the next request that waits; `is_durable`: once that is durable.
    pub(super) fn plan_kill(&self, is_durable: bool) {
        self.will_be_killed.set(Some(is_durable));
    }

    /// It was, and the disks go on.
    pub(super) fn is_killed(&self) -> bool {
        self.is_killed.get()
    }

    /// The power goes at the `events`th write or flush of this pool from now on.
    pub(super) fn plan_cut(&self, pool: usize, events: Option<u64>) {
        self.machines[pool].power().plan_cut(events);
    }

    pub(super) fn is_off(&self) -> bool {
        self.is_killed() || self.machines.iter().any(|machine| machine.power().is_off())
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
        *self.exports.handed_over.lock() = Default::default();
    }

    /// The process is killed, or the power goes; and another one starts, which serves nothing yet.
    pub(super) fn crash(&mut self, cuts: bool, chance: &mut Chance) {
        self.end_life();
        (self.will_be_killed, self.is_killed) = Default::default();
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

    /// Exports a pool and imports it, in one process, which looks after its clients between the two. False: the power went.
    pub(super) fn blink(&mut self, pool: usize) -> Checked<bool> {
        let Some(filer) = self.exports.filers.lock()[pool].clone() else { return Ok(true) };
        let handover = filer.hand_over().ok_or("a pool is only read")?;
        self.exports.handed_over.lock()[pool] = Some(Arc::clone(&handover));
        if !self.export(pool)? {
            return Ok(false);
        }
        handover.left_by(&filer);
        drop(filer);
        self.service().look_after_clients();
        match self.machines[pool].take_over(&handover) {
            Err(_) if self.is_off() => return Ok(false),
            Err(error) => return Err(format!("pool {pool} is not taken over: {error}")),
            Ok(_) => {}
        }
        self.take_up(pool)?;
        self.exports.handed_over.lock()[pool] = None;
        Ok(!self.is_off())
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
        self.go_on_with(Box::new(opened.map_err(|_| "a call is refused before it is looked at".to_owned())?))
    }

    /// One that was parked goes on, whether or not what it waits for has come back: its time is over, as it were.
    pub(super) fn go_on(&self, Parked { job, promise }: Parked) -> Checked<Begun> {
        drop(promise);
        self.go_on_with(job)
    }

    /// The connection of one that was parked breaks, and nobody carries out what is left of it.
    pub(super) fn give_up(&self, Parked { mut job, promise }: Parked) {
        drop(promise);
        self.service().abandon(&mut job);
    }

    fn go_on_with(&self, mut job: Box<Job>) -> Checked<Begun> {
        let service = self.service();
        for _ in 0..GROUPS_MAX {
            match service.run(&mut job) {
                Step::Reply(reply) => {
                    service.finish(&mut job, &reply);
                    return Ok(if self.is_off() { Begun::Lost } else { Begun::Answered(reply) });
                }
                Step::Wait(promise) => return Ok(Begun::Waits(Waiting { job, promise })),
                // Nobody else is: what others do meanwhile is never kept out.
                Step::Again(promise) if service.has_parked() => return Ok(Begun::Parked(Parked { job, promise })),
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
        let killed = self.will_be_killed.take();
        let fate = if killed == Some(false) { None } else { self.fate(&*waiting.promise)? };
        self.is_killed.set(killed.is_some() && !self.is_off());
        let Some(fate) = fate.filter(|_| !self.is_off()) else {
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
            Begun::Parked(_) => Err("a request is parked that nothing can be in the way of".into()),
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

    /// The next call that the server makes to a client.
    pub(super) fn next_call(&self) -> Option<(u64, CallId, Outgoing)> {
        self.service().next_call()
    }

    pub(super) fn call_returned(&self, id: &CallId, returned: &Returned) {
        self.service().call_returned(id, returned);
    }

    pub(super) fn call_lost(&self, id: &CallId, is_sent: bool) {
        self.service().call_lost(id, is_sent);
    }

    /// A connection is closed, and with it the calls that were made over it and not answered.
    pub(super) fn disconnected(&self, link: &Link, unanswered: &[CallId]) {
        link.close();
        self.service().disconnected(link);
        unanswered.iter().for_each(|id| self.service().call_lost(id, true));
    }

    /// What a worker does twice a second, if there is somebody to look after.
    pub(super) fn look_after_waiters(&self) -> bool {
        let service = self.service();
        let has_waiters = service.has_waiters();
        if has_waiters {
            service.look_after_waiters();
        }
        has_waiters
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
