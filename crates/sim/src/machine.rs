//! A machine: disks, and the server's engine and protocol on them, switched on and off.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tally_base::{DatasetId, PoolGuid, Rng};
use tally_disk::{Helpers, Host, Platform};
use tally_fakes::MemOpener;
use tally_fs::filer::{CreateOptions, Filer, FilerError, Handover, ImportOptions, ImportReport, Suspended};
use tally_fs::record::RECORD_OVERHEAD_MAX;
use tally_intent::Lane;
use tally_members::assemble::PoolSelect;
use tally_members::discover::{self, ImportSource};
use tally_members::grammar::parse_vdev_args;
use tally_members::label::{PoolConfig, VdevClass};
use tally_nfs::exports::{Exports, Place, PoolExports, Resolved, Rule, Squash};
use tally_nfs::service::Service;
use tally_store::pool::RewindOrder;
use tally_store::properties::PropertySet;
use tally_store::tuning::Tuning;
use tally_vfs::{Identity, ObjectRef};

use crate::chance::{Chance, Stream};
use crate::clock::Ticks;
use crate::disk::{AtOnce, Kept, Pages, Power, PowerDisk};
use crate::oracle::Limits;

/// The pool's name, and its root dataset's.
pub const POOL: &str = "tank";

/// A seeded [`Rng`] for guids, generations and verifiers.
struct SeededRng(Mutex<Chance>);

impl Rng for SeededRng {
    fn fill(&self, bytes: &mut [u8]) {
        let mut chance = self.0.lock();
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&chance.next().to_le_bytes()[..part.len()]);
        }
    }
}

/// What a machine is built of.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The words of `tally pool create`; paths begin with `/`.
    pub vdevs: Vec<String>,
    /// Bytes of each disk of data.
    pub data_bytes: u64,
    /// Bytes of each log device: disks with `slog` in their path.
    pub log_bytes: u64,
    /// Memory of the server.
    pub tuning: Tuning,
}

/// Disks and what runs on them.
pub struct Machine {
    shape: Shape,
    clock: Arc<Ticks>,
    rng: Arc<SeededRng>,
    disks: Vec<(String, Arc<PowerDisk>)>,
    power: Arc<Power>,
    server: Option<Arc<Server>>,
    /// The process, which goes on while its pool is away.
    process: Option<Process>,
    /// Where the running server finds its disks.
    opener: Arc<MemOpener>,
}

/// The server while it runs.
pub struct Server {
    /// The pool with its datasets, imported.
    pub filer: Arc<Filer>,
    /// What answers the bytes of clients.
    pub service: Arc<Service>,
}

/// What a process has of its clients, whether or not its pool is there.
struct Process {
    service: Arc<Service>,
    shares: Arc<Shares>,
}

impl Server {
    /// The handle of a dataset's root, which a client gets by MOUNT.
    ///
    /// # Panics
    ///
    /// If there is no such dataset.
    #[must_use]
    pub fn root_handle(&self, dataset: &str) -> Vec<u8> {
        self.handle(dataset, self.filer.by_name(dataset).expect("datasets stay").root())
    }

    /// The handle of an object, as every client gets it.
    ///
    /// # Panics
    ///
    /// If there is no such dataset.
    #[must_use]
    pub fn handle(&self, dataset: &str, object: ObjectRef) -> Vec<u8> {
        let fs = self.filer.by_name(dataset).expect("datasets stay");
        let key = self.filer.pool().roster.config().handle_key;
        tally_nfs::handle::Handle { pool: fs.pool(), dataset: fs.dataset(), object }.seal(&key).to_vec()
    }

    /// What its log takes at once of requests to a dataset.
    ///
    /// # Panics
    ///
    /// If there is no such dataset.
    #[must_use]
    pub fn limits(&self, dataset: &str) -> Limits {
        let lanes = self.filer.pool().lanes();
        let of_lane = |lane: &Arc<Lane>| (lane.geometry().record_bytes_max() - RECORD_OVERHEAD_MAX) as u64;
        let record_bytes_max = lanes.first().map_or(u64::MAX, of_lane);
        let bounds = self.filer.by_name(dataset).expect("datasets stay").log_bounds();
        Limits {
            inline_bytes_max: bounds.request_bytes,
            gathered_bytes_max: bounds.gathered_bytes,
            part_bytes_max: bounds.part_bytes,
            record_bytes_max,
            is_whole: self.is_whole(),
        }
    }

    /// Whether there are lanes, and none has ended.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let lanes = self.filer.pool().lanes();
        !lanes.is_empty() && lanes.iter().all(|lane| !lane.has_ended())
    }
}

impl Machine {
    /// Empty disks, switched on.
    #[must_use]
    pub fn new(shape: Shape, seed: u64) -> Self {
        let clock = Arc::<Ticks>::default();
        let power = Arc::new(Power::beside(&clock));
        let disk = |path: &String| {
            let bytes = if path.contains("slog") { shape.log_bytes } else { shape.data_bytes };
            (path.clone(), Arc::new(PowerDisk::new(&power, bytes)))
        };
        let disks = shape.vdevs.iter().filter(|word| word.starts_with('/')).map(disk).collect();
        let rng = Arc::new(SeededRng(Mutex::new(Chance::of(seed, Stream::Server, 0))));
        Self { shape, clock, rng, disks, power, server: None, process: None, opener: Arc::default() }
    }

    /// Disks with this content, in the order of the shape, switched on and not serving.
    ///
    /// # Panics
    ///
    /// If the shape has another number of disks.
    #[must_use]
    pub fn holding(shape: Shape, seed: u64, content: &[Pages]) -> Self {
        let mut machine = Self::new(shape, seed);
        assert_eq!(machine.disks.len(), content.len(), "one content for each disk");
        let power = Arc::new(Power::beside(&machine.clock));
        for ((_, disk), content) in machine.disks.iter_mut().zip(content) {
            *disk = Arc::new(PowerDisk::holding(&power, disk.size(), content));
        }
        machine.power = power;
        machine
    }

    /// Its power line. Another one after every cut.
    #[must_use]
    pub fn power(&self) -> &Arc<Power> {
        &self.power
    }

    /// Its clocks.
    #[must_use]
    pub fn clock(&self) -> &Arc<Ticks> {
        &self.clock
    }

    /// Its disks by path.
    #[must_use]
    pub fn disks(&self) -> &[(String, Arc<PowerDisk>)] {
        &self.disks
    }

    /// What it is built of.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The server, which must run.
    #[must_use]
    pub fn server(&self) -> &Arc<Server> {
        self.server.as_ref().expect("the machine is on")
    }

    /// The server, if it runs.
    #[must_use]
    pub fn running(&self) -> Option<&Arc<Server>> {
        self.server.as_ref()
    }

    /// Makes the pool and serves it.
    pub fn create(&mut self, properties: PropertySet) -> Result<(), FilerError> {
        self.create_with(&CreateOptions { properties, ..CreateOptions::default() })
    }

    /// The same, as somebody wants it.
    pub fn create_with(&mut self, options: &CreateOptions) -> Result<(), FilerError> {
        let specs = parse_vdev_args(&self.shape.vdevs).expect("a shape is made of words that fit");
        let filer = Filer::create(&self.platform(), &self.shape.tuning, POOL, &specs, options)?;
        self.start(filer);
        Ok(())
    }

    /// Imports the pool from these disks and serves it.
    pub fn import(&mut self, options: &ImportOptions) -> Result<ImportReport, FilerError> {
        let tuning = self.shape.tuning.clone();
        self.import_with(options, &tuning)
    }

    /// The same, with other memory than it was built with.
    pub fn import_with(&mut self, options: &ImportOptions, tuning: &Tuning) -> Result<ImportReport, FilerError> {
        let (source, select) = (self.source(), PoolSelect::Name(POOL.into()));
        let (filer, report) = Filer::import(&self.platform(), tuning, &source, &select, options, &mut |_| {})?;
        self.start(filer);
        Ok(report)
    }

    /// Imports the pool behind an export of this process, which has left this.
    pub fn take_over(&mut self, left: &Arc<Handover>) -> Result<ImportReport, FilerError> {
        let (source, select, options) = (self.source(), PoolSelect::Name(POOL.into()), ImportOptions::default());
        let platform = self.platform();
        let (tuning, handed_over) = (&self.shape.tuning, |_: &PoolConfig| Some(Arc::clone(left)));
        let taken = Filer::take_over(&platform, tuning, &source, &select, &options, &handed_over, &mut |_| {});
        let (filer, report) = taken?;
        self.start(filer);
        Ok(report)
    }

    /// Goes back to an older group and serves what it had.
    pub fn import_going_back(&mut self, order: RewindOrder, tuning: &Tuning) -> Result<ImportReport, FilerError> {
        let (filer, report) = self.take_back(&ImportOptions::default(), order, tuning)?;
        self.start(filer);
        Ok(report)
    }

    /// The same, or a look at it, and nobody is served.
    pub fn go_back(
        &mut self,
        options: &ImportOptions,
        order: RewindOrder,
    ) -> Result<(Arc<Filer>, ImportReport), FilerError> {
        let tuning = self.shape.tuning.clone();
        self.take_back(options, order, &tuning)
    }

    fn take_back(
        &mut self,
        options: &ImportOptions,
        order: RewindOrder,
        tuning: &Tuning,
    ) -> Result<(Arc<Filer>, ImportReport), FilerError> {
        let (source, select) = (self.source(), PoolSelect::Name(POOL.into()));
        Filer::go_back(&self.platform(), tuning, &source, &select, options, (order, &|_| {}), &mut |_| {})
    }

    fn start(&mut self, filer: Arc<Filer>) {
        let config = filer.pool().roster.config();
        let filer_there = RwLock::new(Some(Arc::clone(&filer)));
        let shares = Arc::new(Shares { filer: filer_there, pool: config.pool, handle_key: config.handle_key });
        // Ids of connections have 40 bits here (`Client::new`): no number comes again in another life.
        let service = Arc::new(Service::numbering_from(Arc::clone(&shares) as _, config.open_gen << 40).speaking_4());
        self.process = Some(Process { service: Arc::clone(&service), shares });
        self.server = Some(Arc::new(Server { filer, service }));
    }

    // ---- a pool that is away from a process that goes on ----

    /// Whether each part of the pool has a disk that says what it is: `tally pool clear` asks before it lets go of a pool.
    #[must_use]
    pub fn disks_are_there(&self) -> bool {
        let config = self.server().filer.pool().roster.config();
        let Ok(scan) = discover::scan(&*self.opener, &self.source()) else { return false };
        let Some(found) = scan.pools.iter().find(|pool| pool.pool == config.pool) else { return false };
        let mut data = config.vdevs_present().filter(|vdev| vdev.class == VdevClass::Data);
        data.all(|vdev| {
            let mut legs = vdev.legs.iter().filter(|leg| leg.stale_since.is_none());
            legs.any(|leg| found.legs.iter().any(|it| it.label.leg == leg.guid))
        })
    }

    /// Lets go of a pool that is suspended. Its clients wait. Gives how it was, if it says that not all is well with it.
    pub fn put_away(&mut self) -> Option<Suspended> {
        let server = self.server.take()?;
        *self.process.as_ref()?.shares.filer.write() = None;
        let suspended = server.filer.as_suspended();
        server.filer.export().is_err().then_some(suspended)
    }

    /// Takes a pool up that was put away by this process, only as it was.
    pub fn resume(&mut self, suspended: &Suspended) -> Result<ImportReport, FilerError> {
        let (platform, source) = (self.platform_of(&self.opener), self.source());
        let select = PoolSelect::Name(POOL.into());
        let taken = Filer::resume(&platform, &self.shape.tuning, &source, &select, suspended, &mut |_| {});
        if let Some(process) = &self.process {
            process.service.forget_unwaited_replies(process.shares.pool);
        }
        taken.map(|(filer, report)| self.serve_again(filer, report))
    }

    /// Takes a pool up that is away from this process, as it is by now. What clients had under way is let go of.
    ///
    /// # Panics
    ///
    /// If no process runs.
    pub fn import_again(&mut self) -> Result<ImportReport, FilerError> {
        let (platform, source) = (self.platform_of(&self.opener), self.source());
        let (select, options) = (PoolSelect::Name(POOL.into()), ImportOptions::default());
        let (filer, report) = Filer::import(&platform, &self.shape.tuning, &source, &select, &options, &mut |_| {})?;
        let process = self.process.as_ref().expect("a process has a pool that is away");
        process.service.leave_doubts(process.shares.pool);
        // It was suspended, and nobody resumed it.
        process.service.forget_unwaited_replies(process.shares.pool);
        Ok(self.serve_again(filer, report))
    }

    fn serve_again(&mut self, filer: Arc<Filer>, report: ImportReport) -> ImportReport {
        let process = self.process.as_ref().expect("it has put the pool away");
        *process.shares.filer.write() = Some(Arc::clone(&filer));
        self.server = Some(Arc::new(Server { filer, service: Arc::clone(&process.service) }));
        report
    }

    /// The power goes, if it has not, and comes back: chance decides what of the last writes is there.
    pub fn lose_power(&mut self, chance: &mut Chance) {
        self.lose_power_by(|disk, power| disk.survivor(power, chance));
    }

    /// The same, with so much of the last writes.
    pub fn lose_power_keeping(&mut self, kept: Kept, chance: &mut Chance) {
        self.lose_power_by(|disk, power| disk.survivor_with(power, kept, chance));
    }

    fn lose_power_by(&mut self, mut survivor: impl FnMut(&PowerDisk, &Arc<Power>) -> PowerDisk) {
        self.power.cut();
        (self.server, self.process) = (None, None);
        let power = Arc::new(Power::beside(&self.clock));
        for (_, disk) in &mut self.disks {
            *disk = Arc::new(survivor(disk, &power));
        }
        self.power = power;
    }

    /// Another machine with the same disks, as they are now, switched on and not serving.
    #[must_use]
    pub fn copy(&self) -> Self {
        let power = Arc::new(Power::beside(&self.clock));
        let disks = self.disks.iter().map(|(path, disk)| (path.clone(), Arc::new(disk.copy(&power)))).collect();
        let (clock, rng) = (Arc::clone(&self.clock), Arc::clone(&self.rng));
        let (server, process, opener) = (None, None, Arc::default());
        Self { shape: self.shape.clone(), clock, rng, disks, power, server, process, opener }
    }

    /// Takes a disk out, or changes it for another.
    pub fn swap(&mut self, path: &str, with: Option<Arc<PowerDisk>>) -> Option<Arc<PowerDisk>> {
        let at = self.disks.iter().position(|(of, _)| of == path)?;
        match with {
            Some(disk) => Some(std::mem::replace(&mut self.disks[at].1, disk)),
            None => Some(self.disks.remove(at).1),
        }
    }

    /// Puts a disk in. Whoever runs may find it.
    pub fn plug(&mut self, path: &str, disk: Arc<PowerDisk>) {
        self.opener.put(path, Arc::clone(&disk) as _);
        self.disks.push((path.to_owned(), disk));
    }

    fn platform(&mut self) -> Platform {
        let opener = Arc::<MemOpener>::default();
        for (path, disk) in &self.disks {
            // What a process has left comes home before the next one finds the disk's lock free.
            disk.come_home();
            opener.put(path, Arc::clone(disk) as _);
        }
        self.opener = opener;
        self.platform_of(&self.opener)
    }

    fn source(&self) -> ImportSource {
        ImportSource { paths: self.disks.iter().map(|(path, _)| Path::new(path).into()).collect(), dirs: vec![] }
    }

    /// With this opener, under which a disk that somebody has open still is in use.
    fn platform_of(&self, opener: &Arc<MemOpener>) -> Platform {
        Platform {
            clock: Arc::clone(&self.clock) as _,
            rng: Arc::clone(&self.rng) as _,
            opener: Arc::clone(opener) as _,
            fanout: Arc::new(AtOnce::new(&self.power)),
            helpers: Helpers::Serial,
            host: Host { id: 1, name: "sim".into() },
        }
    }
}

/// Everything is exported to everybody.
struct Shares {
    /// While the pool is there.
    filer: RwLock<Option<Arc<Filer>>>,
    pool: PoolGuid,
    handle_key: [u8; 32],
}

impl Shares {
    fn now(&self) -> Moment {
        Moment { guid: self.pool, filer: self.filer.read().clone(), handle_key: self.handle_key }
    }
}

impl Exports for Shares {
    fn resolve(&self, path: &str) -> Option<Resolved> {
        let now = self.now();
        let vfs = now.filer.as_ref()?.by_name(path.trim_matches('/'))?;
        Some(Resolved { vfs, pool: Arc::new(now), below: String::new() })
    }

    fn pool(&self, pool: PoolGuid) -> Option<Arc<dyn PoolExports>> {
        (pool == self.pool).then(|| Arc::new(self.now()) as _)
    }

    fn pools(&self) -> Vec<Arc<dyn PoolExports>> {
        vec![Arc::new(self.now())]
    }

    fn list(&self) -> Vec<(String, Vec<String>)> {
        Vec::new()
    }
}

/// The pool at a moment.
struct Moment {
    guid: PoolGuid,
    filer: Option<Arc<Filer>>,
    handle_key: [u8; 32],
}

impl PoolExports for Moment {
    fn guid(&self) -> PoolGuid {
        self.guid
    }

    fn pool_name(&self) -> &str {
        "tank"
    }

    fn root(&self) -> Option<DatasetId> {
        self.filer.as_ref()?.names().iter().next().map(|named| named.filesystem.dataset())
    }

    fn place(&self, dataset: DatasetId) -> Place {
        let Some(filer) = &self.filer else { return Place::Away };
        match filer.filesystem(dataset) {
            Some(fs) => Place::Here(fs as _),
            None if filer.is_going(dataset) => Place::Going,
            None => Place::Unknown,
        }
    }

    fn rule(&self, _: DatasetId, _: IpAddr) -> Option<Rule> {
        Some(Rule { read_only: false, squash: Squash::None, anon_uid: 65534, anon_gid: 65534, secure: true })
    }

    fn child(&self, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<DatasetId> {
        self.filer.as_ref()?.child(dataset, dir, name)
    }

    fn handle_key(&self) -> &[u8; 32] {
        &self.handle_key
    }
}
