//! A pool on memory disks that can lose its power: what the tests of this crate stand on.

#![allow(dead_code)] // Each test binary uses its part.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

use bytes::Bytes;
use tally_base::{Clock, LaneId, SECTOR, SystemClock, SystemRng, Wait};
use tally_disk::{Disk, Durability, Fanout, Geometry, Helpers, Host, Platform, SerialFanout, ThreadFanout};
use tally_fakes::{MemDisk, MemOpener};
use tally_fs::filer::{CreateOptions, Filer, FilerError, Handover, ImportOptions, ImportReport, Suspended};
use tally_intent::Lane;
use tally_members::assemble::{self, PoolSelect};
use tally_members::create::new_leg;
use tally_members::discover::ImportSource;
use tally_members::grammar::parse_vdev_args;
use tally_members::label::PoolConfig;
use tally_members::uberblock::{self, Uberblock};
use tally_members::vdev::{LegState, VdevLeg};
use tally_store::bp::BlockPtr;
use tally_store::pool::membership::{Member, Onlooker, Stage};
use tally_store::pool::{LoadOptions, Pool, RewindOrder, SyncError};
use tally_store::tuning::Tuning;
use tally_vfs::{Cred, FsError, ObjectRef, OpCtx, Outcome, SetAttr, Vfs};

/// A disk whose writes a cut holds up, so that all disks are cut at one moment, between two writes.
struct Gated {
    disk: Arc<MemDisk>,
    gate: Arc<RwLock<()>>,
    /// Writes that still reach a disk of the world.
    writes_left: Arc<AtomicU64>,
    faults: Arc<Faults>,
    path: String,
    journal: Arc<Mutex<Option<Vec<Event>>>>,
}

/// What a disk was told to do, and did.
#[derive(Clone)]
pub(crate) enum Event {
    /// These bytes are at this place; only a durable write is more than cached.
    Write { disk: String, offset: u64, bytes: Vec<u8>, durability: Durability },
    /// What was cached is stable.
    Flush { disk: String },
}

/// What a disk refuses, all nothing at first.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) reads: AtomicBool,
    pub(crate) writes: AtomicBool,
    /// Writes that are refused are read all the same, until [`World::lose_refused`].
    pub(crate) refused_is_read: AtomicBool,
    /// What stood where those were to go, the oldest first.
    refused: Mutex<Vec<(u64, Vec<u8>)>>,
    pub(crate) durable_writes: AtomicBool,
    /// So many durable writes are taken, and then no more.
    pub(crate) durable_writes_left: Mutex<Option<u64>>,
    pub(crate) flushes: AtomicBool,
    /// So many reads are refused, and then no more.
    pub(crate) reads_refused: AtomicU64,
    /// While somebody has it for writing, reads take their time.
    pub(crate) reads_held: RwLock<()>,
    /// Reads that came while it was held.
    pub(crate) reads_waited: AtomicU64,
    /// While somebody has it for writing, writes take their time.
    pub(crate) writes_held: RwLock<()>,
    /// Writes that came while it was held.
    pub(crate) writes_waited: AtomicU64,
    /// While somebody has it for writing, flushes take their time.
    pub(crate) flushes_held: RwLock<()>,
    /// What cannot be read.
    pub(crate) unreadable: Mutex<Vec<Range<u64>>>,
    /// Reads that met it.
    pub(crate) unreadable_met: AtomicU64,
}

impl Faults {
    /// The cable is out.
    pub(crate) fn all(&self, on: bool) {
        for fault in [&self.reads, &self.writes, &self.durable_writes, &self.flushes] {
            fault.store(on, Ordering::SeqCst);
        }
    }

    fn check(fault: &AtomicBool, what: &str) -> io::Result<()> {
        if fault.load(Ordering::SeqCst) {
            Err(io::Error::other(format!("a {what} that fails on request")))
        } else {
            Ok(())
        }
    }

    fn count_durable_write(&self) -> io::Result<()> {
        let mut left = self.durable_writes_left.lock().unwrap();
        let Some(left) = &mut *left else { return Ok(()) };
        *left =
            left.checked_sub(1).ok_or_else(|| io::Error::other("a durable write behind the last one that is taken"))?;
        Ok(())
    }

    fn check_read(&self, offset: u64, length: usize) -> io::Result<()> {
        Self::check(&self.reads, "read")?;
        let refused = self.reads_refused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if refused.is_ok() {
            return Err(io::Error::other("a read that fails this once"));
        }
        let end = offset + length as u64;
        match self.unreadable.lock().unwrap().iter().find(|bad| bad.start < end && offset < bad.end) {
            Some(bad) => {
                self.unreadable_met.fetch_add(1, Ordering::SeqCst);
                Err(io::Error::other(format!("{bad:?} cannot be read")))
            }
            None => Ok(()),
        }
    }
}

impl Disk for Gated {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if self.faults.reads_held.try_read().is_err() {
            self.faults.reads_waited.fetch_add(1, Ordering::SeqCst);
            drop(self.faults.reads_held.read().unwrap());
        }
        self.faults.check_read(offset, buf.len())?;
        self.disk.read(offset, buf)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        if self.faults.writes_held.try_read().is_err() {
            self.faults.writes_waited.fetch_add(1, Ordering::SeqCst);
            drop(self.faults.writes_held.read().unwrap());
        }
        let _passes = self.gate.read().unwrap();
        let left = self.writes_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map_err(|_| io::Error::other("the power is gone"))?;
        match durability {
            Durability::Durable => {
                Faults::check(&self.faults.durable_writes, "durable write")?;
                self.faults.count_durable_write()?;
            }
            Durability::Cached => Faults::check(&self.faults.writes, "write").inspect_err(|_| {
                if self.faults.refused_is_read.load(Ordering::SeqCst) {
                    let mut before = vec![0; buf.len()];
                    self.disk.read(offset, &mut before).unwrap();
                    self.faults.refused.lock().unwrap().push((offset, before));
                    self.disk.write(offset, buf, durability).unwrap();
                }
            })?,
        }
        // What is taken is no longer what was refused.
        let end = offset + buf.len() as u64;
        self.faults.refused.lock().unwrap().retain(|(at, before)| *at < offset || at + before.len() as u64 > end);
        self.note(|disk| Event::Write { disk, offset, bytes: buf.to_vec(), durability });
        self.disk.write(offset, buf, durability)
    }

    fn flush(&self) -> io::Result<()> {
        drop(self.faults.flushes_held.read().unwrap());
        Faults::check(&self.faults.flushes, "flush")?;
        self.note(|disk| Event::Flush { disk });
        self.disk.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.disk.discard(offset, length)
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
}

impl Gated {
    fn note(&self, event: impl FnOnce(String) -> Event) {
        if let Some(events) = &mut *self.journal.lock().unwrap() {
            events.push(event(self.path.clone()));
        }
    }
}

/// A pool's disks, by path.
pub(crate) struct World {
    gate: Arc<RwLock<()>>,
    writes_left: Arc<AtomicU64>,
    faults: RwLock<BTreeMap<String, Arc<Faults>>>,
    /// What the disks were told since somebody asked.
    journal: Arc<Mutex<Option<Vec<Event>>>>,
    disks: Vec<(String, Arc<MemDisk>)>,
    vdevs: Vec<String>,
    clock: Arc<dyn Clock>,
    fanout: Arc<dyn Fanout>,
    helpers: Helpers,
}

impl World {
    /// One data disk and one log disk of these sizes.
    pub(crate) fn new(data_bytes: u64, log_bytes: u64) -> Self {
        Self::of(&[("/disks/data", data_bytes), ("/disks/slog", log_bytes)], "/disks/data log /disks/slog")
    }

    /// Without a log disk: the log lies in the pool.
    pub(crate) fn without_log(data_bytes: u64) -> Self {
        Self::of(&[("/disks/data", data_bytes)], "/disks/data")
    }

    /// Disks of these names and sizes, in a pool of `vdevs`: the words of `tally pool create`.
    pub(crate) fn of(disks: &[(&str, u64)], vdevs: &str) -> Self {
        let disks = disks.iter().map(|(path, bytes)| ((*path).to_owned(), Arc::new(MemDisk::new(*bytes))));
        let vdevs = vdevs.split(' ').map(str::to_owned).collect();
        Self::over(disks.collect(), vdevs, Arc::new(SystemClock::default()))
    }

    fn over(disks: Vec<(String, Arc<MemDisk>)>, vdevs: Vec<String>, clock: Arc<dyn Clock>) -> Self {
        Self {
            gate: Arc::default(),
            writes_left: unlimited(),
            faults: RwLock::default(),
            journal: Arc::default(),
            disks,
            vdevs,
            clock,
            fanout: Arc::new(SerialFanout),
            helpers: Helpers::Threads,
        }
    }

    /// The same disks, several of them asked at once, and left where they hang.
    pub(crate) fn with_helpers(self) -> Self {
        Self { fanout: Arc::new(ThreadFanout::default()), ..self }
    }

    /// The same disks, and a pool that does one thing after the other.
    pub(crate) fn without_helpers(self) -> Self {
        Self { helpers: Helpers::Serial, ..self }
    }

    /// The same disks with another clock.
    pub(crate) fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Takes disks away; what holds them open does not notice. Gives them to whoever may want to bring them back.
    pub(crate) fn take(&mut self, paths: &[&str]) -> Vec<(String, Arc<MemDisk>)> {
        self.disks.extract_if(.., |(path, _)| paths.contains(&path.as_str())).collect()
    }

    /// The power goes: what a disk has refused, and could be read, is not there.
    pub(crate) fn lose_refused(&self, path: &str) {
        for (offset, before) in self.faults(path).refused.lock().unwrap().drain(..).rev() {
            self.poke(path, offset, &before);
        }
    }

    /// What a disk of this world refuses; a cut world begins without faults.
    pub(crate) fn faults(&self, path: &str) -> Arc<Faults> {
        Arc::clone(self.faults.write().unwrap().entry(path.to_owned()).or_default())
    }

    /// All disks refuse writes after so many more: then cut.
    pub(crate) fn lose_power_after(&self, writes: u64) {
        self.writes_left.store(writes, Ordering::SeqCst);
    }

    pub(crate) fn disk(bytes: u64) -> Arc<MemDisk> {
        Arc::new(MemDisk::new(bytes))
    }

    pub(crate) fn copy(disk: &MemDisk) -> Arc<MemDisk> {
        Arc::new(disk.fork())
    }

    /// Whether the disks of another world hold the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.disks.iter().zip(&other.disks).all(|((_, a), (_, b))| a.content() == b.content())
    }

    pub(crate) fn put(&mut self, disks: Vec<(String, Arc<MemDisk>)>) {
        self.disks.extend(disks);
    }

    pub(crate) fn platform(&self) -> Platform {
        let opener = MemOpener::default();
        for (path, disk) in &self.disks {
            let (gate, writes_left) = (Arc::clone(&self.gate), Arc::clone(&self.writes_left));
            let (faults, journal) = (self.faults(path), Arc::clone(&self.journal));
            let gated = Gated { disk: Arc::clone(disk), gate, writes_left, faults, path: path.clone(), journal };
            opener.put(path, Arc::new(gated) as _);
        }
        Platform {
            clock: Arc::clone(&self.clock),
            rng: Arc::new(SystemRng),
            opener: Arc::new(opener),
            fanout: Arc::clone(&self.fanout),
            helpers: self.helpers,
            host: Host { id: 1, name: "test".into() },
        }
    }

    pub(crate) fn create(&self) -> Arc<Filer> {
        self.create_with(&CreateOptions::default())
    }

    pub(crate) fn create_with(&self, options: &CreateOptions) -> Arc<Filer> {
        let filer = self.create_without_threads(options);
        drive(&filer);
        filer
    }

    /// A pool in which nothing happens by itself: no group is synced but by the test.
    pub(crate) fn create_without_threads(&self, options: &CreateOptions) -> Arc<Filer> {
        let specs = parse_vdev_args(&self.vdevs).unwrap();
        Filer::create(&self.platform(), &Tuning::default(), "tank", &specs, options).unwrap()
    }

    /// A pool whose threads the caller joins.
    pub(crate) fn create_by_hand(&self) -> (Arc<Filer>, Vec<JoinHandle<()>>) {
        let specs = parse_vdev_args(&self.vdevs).unwrap();
        let options = CreateOptions::default();
        let filer = Filer::create(&self.platform(), &Tuning::default(), "tank", &specs, &options).unwrap();
        let threads = filer.background().into_iter().map(|(_, body)| std::thread::spawn(body)).collect();
        (filer, threads)
    }

    pub(crate) fn import(&self) -> (Arc<Filer>, ImportReport) {
        self.try_import(&ImportOptions::default()).unwrap()
    }

    pub(crate) fn try_import(&self, options: &ImportOptions) -> Result<(Arc<Filer>, ImportReport), FilerError> {
        self.try_import_with(&Tuning::default(), options)
    }

    pub(crate) fn try_import_with(
        &self,
        tuning: &Tuning,
        options: &ImportOptions,
    ) -> Result<(Arc<Filer>, ImportReport), FilerError> {
        let (filer, report) = self.try_import_without_threads(tuning, options)?;
        drive(&filer);
        Ok((filer, report))
    }

    /// An import after which nothing happens by itself.
    pub(crate) fn try_import_without_threads(
        &self,
        tuning: &Tuning,
        options: &ImportOptions,
    ) -> Result<(Arc<Filer>, ImportReport), FilerError> {
        let source =
            ImportSource { paths: self.disks.iter().map(|(path, _)| Path::new(path).into()).collect(), dirs: vec![] };
        let select = PoolSelect::Name("tank".into());
        Filer::import(&self.platform(), tuning, &source, &select, options, &mut |_| {})
    }

    /// An import behind an export in this process, which has left this.
    pub(crate) fn try_to_take_over(
        &self,
        options: &ImportOptions,
        left: &Arc<Handover>,
    ) -> Result<(Arc<Filer>, ImportReport), FilerError> {
        let paths = self.disks.iter().map(|(path, _)| Path::new(path).into()).collect();
        let (source, select) = (ImportSource { paths, dirs: vec![] }, PoolSelect::Name("tank".into()));
        let handed_over = |_: &PoolConfig| Some(Arc::clone(left));
        let (platform, tuning) = (self.platform(), Tuning::default());
        let taken = Filer::take_over(&platform, &tuning, &source, &select, options, &handed_over, &mut |_| {})?;
        drive(&taken.0);
        Ok(taken)
    }

    /// An import that goes back to an older group, after which nothing happens by itself.
    pub(crate) fn try_to_go_back(
        &self,
        options: &ImportOptions,
        order: RewindOrder,
    ) -> Result<(Arc<Filer>, ImportReport), FilerError> {
        let paths = self.disks.iter().map(|(path, _)| Path::new(path).into()).collect();
        let (source, select) = (ImportSource { paths, dirs: vec![] }, PoolSelect::Name("tank".into()));
        let tuning = Tuning::default();
        Filer::go_back(&self.platform(), &tuning, &source, &select, options, (order, &|_| {}), &mut |_| {})
    }

    /// The pool as an import has it before it replays anything.
    pub(crate) fn load(&self) -> Arc<Pool> {
        let paths = self.disks.iter().map(|(path, _)| Path::new(path).into()).collect();
        let (source, select) = (ImportSource { paths, dirs: vec![] }, PoolSelect::Name("tank".into()));
        let platform = self.platform();
        let (assembled, chosen) = assemble::import(&platform, &source, &select, &Default::default()).unwrap();
        let (tuning, options) = (Tuning::default(), LoadOptions::default());
        Pool::load(&platform, &tuning, &assembled.roster, &chosen, options, &tally_fs::Files, &mut |_| {}).unwrap().0
    }

    /// What `tally pool clear` does with a pool that was suspended.
    pub(crate) fn try_to_resume(&self, suspended: &Suspended) -> Result<(Arc<Filer>, ImportReport), FilerError> {
        let paths = self.disks.iter().map(|(path, _)| Path::new(path).into()).collect();
        let (source, select) = (ImportSource { paths, dirs: vec![] }, PoolSelect::Name("tank".into()));
        Filer::resume(&self.platform(), &Tuning::default(), &source, &select, suspended, &mut |_| {})
    }

    /// What `tally pool replace` does with a log device that is gone.
    pub(crate) fn replace_log(&mut self, filer: &Filer, lane: LaneId, path: &str) {
        let pool = filer.pool();
        self.put(vec![(path.to_owned(), Self::disk(2 << 20))]);
        let config = pool.roster.config();
        let line = config.lanes.iter().find(|line| line.lane == lane).unwrap();
        let vdev_config = config.vdev(line.vdev).unwrap();
        let vdev = pool.roster.vdevs().iter().find(|vdev| vdev.index() == line.vdev).unwrap();
        let leg = new_leg(&self.platform(), vdev_config, Path::new(path), false).unwrap();
        let guid = leg.guid();
        pool.roster.add_leg(vdev, leg).unwrap();
        pool.roster.finish_resilver(vdev, guid, true).unwrap();
        let lane = pool.renew_lane(lane, guid).unwrap();
        std::thread::spawn(move || lane.run());
        for old in &vdev_config.legs {
            pool.roster.detach(vdev, old.guid).unwrap();
        }
        assert!(vdev.legs().iter().all(|leg| leg.state() == LegState::Online));
    }

    /// The disks as they are now, as another world: what a power cut at this moment leaves if every completed write
    /// stays.
    pub(crate) fn cut(&self) -> Self {
        let _held_up = self.gate.write().unwrap();
        let disks = self.disks.iter().map(|(path, disk)| (path.clone(), Arc::new(disk.fork()))).collect();
        Self { helpers: self.helpers, ..Self::over(disks, self.vdevs.clone(), Arc::clone(&self.clock)) }
    }

    /// From now on what the disks are told is written down.
    pub(crate) fn start_journal(&self) {
        *self.journal.lock().unwrap() = Some(Vec::new());
    }

    /// What the disks were told since then.
    pub(crate) fn end_journal(&self) -> Vec<Event> {
        self.journal.lock().unwrap().take().unwrap()
    }

    /// Pulls a disk, which loses what it was told since its last flush. It had this content `before` the journal. Gives how many bytes that was.
    pub(crate) fn pull(&self, path: &str, before: Vec<u8>, events: &[Event]) -> usize {
        let (mut there, mut cached) = (before, Vec::new());
        let mut keep = |offset: u64, bytes: &[u8]| there[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        for event in events {
            match event {
                Event::Write { disk, offset, bytes, durability: Durability::Durable } if disk == path => {
                    keep(*offset, bytes);
                }
                Event::Write { disk, offset, bytes, .. } if disk == path => cached.push((*offset, bytes)),
                Event::Flush { disk } if disk == path => {
                    cached.drain(..).for_each(|(offset, bytes)| keep(offset, bytes));
                }
                _ => {}
            }
        }
        self.poke(path, 0, &there);
        cached.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// All copies of an uberblock are written at once. Where the newest one is not in all of its places its write has never
    /// returned, and every copy may be torn: then it is. Says whether.
    pub(crate) fn tear_uberblock(&self) -> bool {
        let slots = self.disks.iter().flat_map(|(_, disk)| uberblock::read_all(disk.as_ref()));
        let found: Vec<_> = slots.filter_map(|slot| slot.content.ok()?).collect();
        let newest = found.iter().max_by_key(|uberblock| uberblock.rank()).expect("there is a pool");
        if found.iter().filter(|uberblock| *uberblock == newest).count() == 2 * self.disks.len() {
            return false;
        }
        for (path, disk) in &self.disks {
            let places = uberblock::slot_offsets(disk.geometry().size, newest.txg).expect("it has labels");
            places.iter().for_each(|place| self.poke(path, place + 64, &[0x5a; 64]));
        }
        true
    }

    /// The pool's root, as the newest uberblock names it.
    pub(crate) fn root_block(&self) -> BlockPtr {
        let slots = self.disks.iter().flat_map(|(_, disk)| uberblock::read_all(disk.as_ref()));
        let newest = slots.filter_map(|slot| slot.content.ok()?).max_by_key(Uberblock::rank).expect("there is a pool");
        BlockPtr::decode(newest.root.first_chunk().unwrap()).unwrap()
    }

    pub(crate) fn at(&self, path: &str) -> &MemDisk {
        &self.disks.iter().find(|(other, _)| other == path).unwrap().1
    }

    /// All of a disk's bytes.
    pub(crate) fn content_of(&self, path: &str) -> Vec<u8> {
        self.at(path).content()
    }

    /// Puts bytes on a disk behind everybody's back, also parts of sectors.
    pub(crate) fn poke(&self, path: &str, offset: u64, bytes: &[u8]) {
        let start = offset - offset % SECTOR as u64;
        let end = (offset + bytes.len() as u64).next_multiple_of(SECTOR as u64);
        let mut sectors = vec![0; (end - start) as usize];
        self.at(path).read(start, &mut sectors).unwrap();
        sectors[(offset - start) as usize..][..bytes.len()].copy_from_slice(bytes);
        self.at(path).write(start, &sectors, Durability::Durable).unwrap();
    }
}

fn unlimited() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(u64::MAX))
}

/// Starts the filer's threads; they end with its export, or with the test.
fn drive(filer: &Arc<Filer>) {
    for (_, body) in filer.background() {
        std::thread::spawn(body);
    }
}

pub(crate) fn vfs(filer: &Filer) -> Arc<dyn Vfs> {
    filer.by_name("tank").unwrap()
}

pub(crate) fn root_cred() -> Cred {
    Cred::root()
}

/// Waits for the outcome, and gives the result: what an acknowledged operation returns.
pub(crate) fn done<T>(outcome: Outcome<T>) -> Result<T, FsError> {
    outcome.wait.block().expect("the log works");
    outcome.result
}

/// Marsaglia's xorshift: enough to spread, and the seed, which is not 0, says all.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// How often a client is told to wait before a test gives up.
const TRIES_MAX: usize = 1000;

/// What an operation comes to when its client is patient: the server runs it again when the wait is over.
pub(crate) fn patient<T>(mut attempt: impl FnMut() -> Outcome<T>) -> Result<T, FsError> {
    for _ in 0..TRIES_MAX {
        match done(attempt()) {
            Err(FsError::Throttled) => {}
            result => return result,
        }
    }
    panic!("a client was told to wait {TRIES_MAX} times");
}

/// The same in a pool in which no group is synced but by the test: whoever is told to wait has one synced.
pub(crate) fn patient_by_hand<T>(filer: &Filer, mut attempt: impl FnMut() -> Outcome<T>) -> Result<T, FsError> {
    for _ in 0..TRIES_MAX {
        let outcome = attempt();
        if !matches!(outcome.result, Err(FsError::Throttled)) {
            return done(outcome);
        }
        // If that fails, the next attempt is told what is the matter.
        let _synced = filer.sync();
    }
    panic!("a client was told to wait {TRIES_MAX} times");
}

pub(crate) fn ctx(cred: &Cred) -> OpCtx<'_> {
    OpCtx::of(cred)
}

pub(crate) fn mode(mode: u32) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

/// Bytes that cannot be compressed, the same ones for a seed.
pub(crate) fn noise(length: usize, seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..length.div_ceil(8)).flat_map(|_| next()).take(length).collect::<Vec<u8>>().into()
}

/// The whole content of a file.
pub(crate) fn content(vfs: &dyn Vfs, object: ObjectRef) -> Vec<u8> {
    let size = vfs.getattr(object).unwrap().size;
    let mut content = Vec::new();
    while (content.len() as u64) < size {
        let part = vfs.read(&Cred::root(), object, content.len() as u64, 1 << 20).unwrap();
        let bytes: usize = part.data.iter().map(|piece| piece.len()).sum();
        assert!(bytes > 0, "a read within the file gives something");
        part.data.iter().for_each(|piece| content.extend_from_slice(piece));
    }
    content
}

pub(crate) fn is_ready(wait: &Wait) -> bool {
    matches!(wait, Wait::Ready)
}

/// A disk of the pool.
pub(crate) fn member(filer: &Filer, path: &str) -> Member {
    let roster = &filer.pool().roster;
    let has_it = |leg: &Arc<VdevLeg>| leg.path() == Path::new(path);
    let found = roster.vdevs().iter().find_map(|vdev| Some((vdev, vdev.legs().into_iter().find(has_it)?)));
    let (vdev, leg) = found.unwrap();
    let config = roster.config().vdevs[vdev.index().place()].clone();
    Member { vdev: Arc::clone(vdev), config, leg: leg.guid() }
}

/// Somebody who lets everything happen.
pub(crate) struct Patient;

impl Onlooker for Patient {
    fn on_progress(&mut self, _: Stage, _: u64) -> bool {
        true
    }

    fn keep_paths(&mut self, _: &Pool) -> std::io::Result<()> {
        Ok(())
    }

    fn run_lane(&mut self, lane: Arc<Lane>) -> std::io::Result<()> {
        std::thread::spawn(move || lane.run());
        Ok(())
    }

    fn let_go(&mut self, leg: Arc<VdevLeg>) {
        // A disk that refused a write refuses this too.
        let _ = leg.erase_label();
    }
}

/// What a test does while disks come and go: at each step of a stage, and where a group is to be synced.
pub(crate) trait Watch {
    /// `false` ends the stage.
    fn on_progress(&mut self, _: Stage, _: u64) -> bool {
        true
    }

    fn sync(&mut self, pool: &Pool) -> Result<(), SyncError> {
        pool.sync().map(|_| ())
    }
}

/// Somebody who watches, and lets everything happen besides.
pub(crate) struct Watching<'a, W>(pub(crate) &'a mut W);

impl<W: Watch> Onlooker for Watching<'_, W> {
    fn on_progress(&mut self, stage: Stage, done: u64) -> bool {
        self.0.on_progress(stage, done)
    }

    fn sync(&mut self, pool: &Pool) -> Result<(), SyncError> {
        self.0.sync(pool)
    }

    fn keep_paths(&mut self, pool: &Pool) -> io::Result<()> {
        Patient.keep_paths(pool)
    }

    fn run_lane(&mut self, lane: Arc<Lane>) -> io::Result<()> {
        Patient.run_lane(lane)
    }

    fn let_go(&mut self, leg: Arc<VdevLeg>) {
        Patient.let_go(leg);
    }
}
