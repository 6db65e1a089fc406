//! The pools of this process: which are imported, and every change of that.
//!
//! Pools are created, imported and exported by one thread, the daemon's own; copies to disks have threads of their own
//! ([`super::copies`]). All of it takes as long as disks take, and no request may wait for it: readers see the registry
//! through one short lock that is never held over a call into a pool, and the protocol server sees the export table,
//! which is replaced when all is done.
//!
//! ```text
//!   unknown ──create, import──▶ imported ──export──▶ away ──import──▶ imported
//!                                  │                  ▲
//!                                  └──destroy──▶ unknown       a start that could not import ──▶ away
//! ```
//!
//! *Away* pools are those whose clients should wait: we know their handle key. After a restart only those pools
//! are away that `pools.toml` still lists, that is, that nobody exported.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use tally_base::{DatasetId, PoolGuid, Size};
use tally_fs::Filesystem;
use tally_fs::filer::{CreateOptions, DatasetError, Filer, FilerError, ImportOptions, ImportReport, Named};
use tally_fs::vfs::{ObjectRef, Vfs};
use tally_intent::Lane;
use tally_store::assemble::{ImportError, PoolSelect};
use tally_store::discover::ImportSource;
use tally_store::grammar::{GrammarError, VdevSpec, parse_vdev_args};
use tally_store::label::FailMode;
use tally_store::platform::{Platform, Tuning};
use tally_store::properties::PropertyError;

use super::absent::Absent;
use super::config::ExportRule;
use super::copies::Copies;
use super::disks::DiskError;
use super::silence;
use super::state::{KnownPool, State, StateError};
use crate::control::message::{Assignment, Progress};
use crate::exports::{DatasetExport, ExportTable, KnownExports, LiveExports, Mounted, follow, rule_above};

/// Why a command on pools or datasets was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum PoolsError {
    /// The pool itself refused.
    #[error(transparent)]
    Filer(Box<FilerError>),
    /// A command on a dataset was refused.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// A command on a disk was refused.
    #[error(transparent)]
    Disk(Box<DiskError>),
    /// The words behind a pool's name make no sense.
    #[error(transparent)]
    Grammar(#[from] GrammarError),
    /// A property was not understood.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// A rule of sharenfs was not understood.
    #[error(transparent)]
    Share(#[from] tally_nfs::exports::ShareError),
    /// The list of pools could not be written.
    #[error("{0}\nThe pool itself is well; it is only not imported by itself at the next start.")]
    State(#[from] StateError),
    /// No such pool.
    #[error("no pool '{name}' is imported; `tally pool list` shows those that are")]
    NoPool {
        /// As asked for.
        name: String,
    },
    /// What is on its way to a disk may still be written after an export, and nobody would be left to know.
    #[error(
        "{} has owed an answer for {seconds} s, and may still write what it was given: '{name}' stays imported.\n\
         Do this again when the disk answers, or take it out of its mirror with `tally pool detach`, if it is in one.\n\
         The server itself can be stopped all the same: its next start replays what the log has.",
        path.display()
    )]
    Silent {
        /// Which pool.
        name: String,
        /// Which disk.
        path: PathBuf,
        /// How long.
        seconds: u64,
    },
    /// Detaching a disk does not free whoever had asked it for something before.
    #[error(
        "{} is no part of '{name}' any more, but somebody still waits for its answer, for {seconds} s by now: '{name}' \
         stays imported.\n\
         Do this again when the disk answers. The server itself can be stopped all the same: its next start replays \
         what the log has.",
        path.display()
    )]
    Owed {
        /// Which pool.
        name: String,
        /// Which disk.
        path: PathBuf,
        /// How long.
        seconds: u64,
    },
    /// One at a time.
    #[error("somebody else records the load already; ask again when that is over")]
    Recording,
    /// No such dataset.
    #[error("there is no dataset '{name}'; `tally dataset list` shows those that are")]
    NoDataset {
        /// As asked for.
        name: String,
    },
    /// A name is in use.
    #[error("a pool '{name}' is imported already; export it first, or choose another name")]
    Imported {
        /// Whose.
        name: String,
    },
    /// A file for a vdev could not be made.
    #[error("cannot make {}: {source}", path.display())]
    MakeFile {
        /// Which file.
        path: PathBuf,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// Not a property of pools.
    #[error("pools have no property '{name}'; `tally pool get all` shows those that they have")]
    NoPoolProperty {
        /// As asked for.
        name: String,
    },
    /// A property of pools that cannot be set so.
    #[error(
        "'{name}={value}' cannot be set: a pool has failmode=wait|continue and clock=accept, and nothing else that can be changed"
    )]
    BadPoolProperty {
        /// Which property.
        name: String,
        /// As asked for.
        value: String,
    },
    /// Directories to look in cannot be read.
    #[error("cannot look for pools: {0}")]
    Look(#[source] std::io::Error),
    /// A thread could not be started.
    #[error("cannot start a thread of the pool: {0}")]
    Thread(#[source] std::io::Error),
}

impl PoolsError {
    /// Whether the pool was not imported because it was destroyed.
    #[must_use]
    pub fn is_destroyed(&self) -> bool {
        let Self::Filer(error) = self else { return false };
        matches!(&**error, FilerError::Import(ImportError::Destroyed { .. }))
    }
}

// Boxed, as they are large and rare.
impl From<FilerError> for PoolsError {
    fn from(error: FilerError) -> Self {
        Self::Filer(Box::new(error))
    }
}

impl From<DiskError> for PoolsError {
    fn from(error: DiskError) -> Self {
        Self::Disk(Box::new(error))
    }
}

/// An imported pool with its threads.
pub struct ServedPool {
    /// The pool.
    pub filer: Arc<Filer>,
    /// When it was imported.
    pub since: Instant,
    /// What the import found, for `status`.
    pub remarks: Vec<String>,
    /// Copies to and checks of its disks.
    pub copies: Copies,
    /// Its disks that have left it.
    pub(super) left: silence::Left,
    /// Somebody looks for the paths of what is damaged, which may take as long as a disk hangs: one at a time.
    pub(super) looking: Mutex<()>,
    read_only: bool,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ServedPool {
    fn start(filer: Arc<Filer>, remarks: Vec<String>, read_only: bool) -> Result<Arc<Self>, PoolsError> {
        let mut threads = Vec::new();
        for (name, body) in filer.background() {
            threads.push(thread::Builder::new().name(name).spawn(body).map_err(PoolsError::Thread)?);
        }
        let (since, copies, threads) = (Instant::now(), Copies::default(), Mutex::new(threads));
        let (left, looking) = (silence::Left::default(), Mutex::default());
        Ok(Arc::new(Self { filer, since, remarks, copies, left, looking, read_only, threads }))
    }

    /// Its guid.
    #[must_use]
    pub fn guid(&self) -> PoolGuid {
        self.filer.pool().guid()
    }

    fn handle_key(&self) -> [u8; 32] {
        self.filer.pool().roster.config().handle_key
    }

    /// What to remember for the next start.
    fn known(&self) -> KnownPool {
        let config = self.filer.pool().roster.config();
        let paths = config.vdevs_present().flat_map(|vdev| &vdev.legs).map(|leg| leg.path.clone()).collect();
        let (name, guid, handle_key) = (config.name.clone(), config.pool, config.handle_key);
        KnownPool { name, guid, paths, read_only: self.read_only, handle_key }
    }

    /// Gives a lane that has got another disk its thread.
    pub(super) fn run_lane(&self, lane: Arc<Lane>) -> io::Result<()> {
        let name = format!("lane {}", lane.id());
        let thread = thread::Builder::new().name(name).spawn(move || lane.run())?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Waits for the threads, which an export or a destruction has told to end.
    fn join(&self) {
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the pool had panicked");
            }
        }
    }
}

impl Mounted for ServedPool {
    fn vfs(&self, dataset: DatasetId) -> Option<Arc<dyn Vfs>> {
        Some(self.filer.filesystem(dataset)?)
    }

    fn child(&self, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<DatasetId> {
        self.filer.child(dataset, dir, name)
    }
}

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct ImportOrder {
    /// Name or guid.
    pub pool: String,
    /// Files and disks to look at.
    pub paths: Vec<PathBuf>,
    /// Directories to look in.
    pub dirs: Vec<PathBuf>,
    /// Although it seems to be in use elsewhere.
    pub force: bool,
    /// Without writing.
    pub read_only: bool,
    /// Although acknowledged changes are lost.
    pub accept_loss: bool,
    /// Although it was destroyed.
    pub destroyed: bool,
}

/// What `tally pool set` can change.
enum PoolChange {
    FailMode(FailMode),
    /// The machine's clock is right, although it is far from the pool's times.
    AcceptClock,
}

impl PoolChange {
    fn parse(set: &Assignment) -> Result<Self, PoolsError> {
        let bad = || PoolsError::BadPoolProperty { name: set.property.clone(), value: set.value.clone() };
        match (set.property.as_str(), set.value.as_str()) {
            ("failmode", word) => FailMode::of_word(word).map(Self::FailMode).ok_or_else(bad),
            ("clock", "accept") => Ok(Self::AcceptClock),
            _ => Err(bad()),
        }
    }
}

/// Hears how far something is.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress);

/// All pools of the process.
pub struct Pools {
    /// The world around them.
    pub platform: Platform,
    tuning: Tuning,
    live: Arc<LiveExports>,
    served: RwLock<Vec<Arc<ServedPool>>>,
    /// Being let go: they are not served any more, and their disks are still open.
    going: Mutex<Vec<Arc<ServedPool>>>,
    /// When the daemon's own thread last began something, ended it, or said how far it was.
    came_on: Mutex<Instant>,
    /// Those whose clients wait.
    pub absent: Absent,
    state: Mutex<State>,
    above: Mutex<Vec<ExportRule>>,
    /// Datasets that got other names since the start: the file that is read again may still have the old ones.
    renamed: Mutex<Vec<(String, String)>>,
}

impl Pools {
    /// None is imported; those of the list are away.
    #[must_use]
    pub fn new(platform: Platform, tuning: Tuning, state: State, above: Vec<ExportRule>) -> Self {
        let pools = Self {
            platform,
            tuning,
            live: Arc::default(),
            served: RwLock::default(),
            going: Mutex::default(),
            came_on: Mutex::new(Instant::now()),
            absent: Absent::new(state.pools()),
            state: Mutex::new(state),
            above: Mutex::new(above),
            renamed: Mutex::default(),
        };
        pools.refresh_exports();
        pools
    }

    /// What the protocol server sees.
    #[must_use]
    pub fn exports(&self) -> Arc<LiveExports> {
        Arc::clone(&self.live)
    }

    /// The pools of the list, to import at the start.
    #[must_use]
    pub fn listed(&self) -> Vec<KnownPool> {
        self.state.lock().pools().to_vec()
    }

    /// Whether no daemon has ever served from this data directory.
    #[must_use]
    pub fn is_first_start(&self) -> bool {
        self.state.lock().is_new()
    }

    /// Writes the port down for the next start.
    pub(super) fn remember_port(&self, port: u16) -> Result<(), StateError> {
        self.state.lock().remember_port(port)
    }

    /// All imported pools, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<ServedPool>> {
        let mut pools = self.served.read().clone();
        pools.sort_by_key(|pool| pool.filer.name());
        pools
    }

    /// An imported pool.
    pub fn pool(&self, name: &str) -> Result<Arc<ServedPool>, PoolsError> {
        let found = self.served.read().iter().find(|pool| pool.filer.name() == name).cloned();
        found.ok_or_else(|| PoolsError::NoPool { name: name.into() })
    }

    /// Makes a pool of the words behind its name. With `file_bytes`, files that are not there are made that large.
    pub fn create(
        &self,
        name: &str,
        words: &[String],
        options: &CreateOptions,
        file_bytes: Option<u64>,
        progress: OnProgress<'_>,
    ) -> Result<Arc<ServedPool>, PoolsError> {
        let specs = parse_vdev_args(words)?;
        if self.pool(name).is_ok() {
            return Err(PoolsError::Imported { name: name.into() });
        }
        if let Some(bytes) = file_bytes {
            self.make_files(&specs, bytes, progress)?;
        }
        let filer = Filer::create(&self.platform, &self.tuning, name, &specs, options)?;
        self.take_up(filer, Vec::new(), false)
    }

    fn make_files(&self, specs: &[VdevSpec], bytes: u64, progress: OnProgress<'_>) -> Result<(), PoolsError> {
        let bytes = tally_base::round_to_sector(bytes);
        for path in specs.iter().flat_map(|spec| &spec.paths).filter(|path| !path.exists()) {
            // All of it is written out: whether it will hold a log is not known before the pool is made.
            let what = format!("making {}", path.display());
            let mut tell = |done| {
                self.comes_on();
                progress(Progress { what: what.clone(), done, total: bytes });
            };
            let made = self.platform.opener.create(path, bytes, true, &mut tell);
            made.map_err(|source| PoolsError::MakeFile { path: path.clone(), source })?;
        }
        Ok(())
    }

    /// Imports a pool and replays its log.
    pub fn import(
        &self,
        order: &ImportOrder,
        progress: OnProgress<'_>,
    ) -> Result<(Arc<ServedPool>, ImportReport), PoolsError> {
        if self.pool(&order.pool).is_ok() {
            return Err(PoolsError::Imported { name: order.pool.clone() });
        }
        let source = ImportSource { paths: order.paths.clone(), dirs: order.dirs.clone() };
        let options = ImportOptions {
            force: order.force,
            read_only: order.read_only,
            accept_loss: order.accept_loss,
            destroyed: order.destroyed,
        };
        let mut tell = |state: tally_fs::filer::Progress| {
            self.comes_on();
            progress(words(state));
        };
        let (filer, report) =
            Filer::import(&self.platform, &self.tuning, &source, &select(&order.pool), &options, &mut tell)?;
        let lost = if order.read_only { "missing" } else { "given up at the import" };
        let losses = report.losses.iter().map(|loss| format!("{lost}: {loss}"));
        let remarks = report.remarks.iter().cloned().chain(losses).collect();
        let pool = self.take_up(filer, remarks, order.read_only)?;
        Ok((pool, report))
    }

    /// Starts a pool's threads, serves it, and writes it down for the next start.
    fn take_up(&self, filer: Arc<Filer>, remarks: Vec<String>, read_only: bool) -> Result<Arc<ServedPool>, PoolsError> {
        let pool = ServedPool::start(filer, remarks, read_only)?;
        self.served.write().push(Arc::clone(&pool));
        self.absent.forget(pool.guid());
        self.refresh_exports();
        self.remember(&pool)?;
        Ok(pool)
    }

    /// Writes a pool down as it is now, for the next start.
    pub(super) fn remember(&self, pool: &ServedPool) -> Result<(), PoolsError> {
        Ok(self.state.lock().remember(pool.known())?)
    }

    /// Sets properties of a pool.
    pub fn set_pool_properties(&self, name: &str, assignments: &[Assignment]) -> Result<(), PoolsError> {
        let pool = self.pool(name)?;
        // All of them are understood before the first is set.
        for change in assignments.iter().map(PoolChange::parse).collect::<Result<Vec<_>, _>>()? {
            match change {
                PoolChange::FailMode(failmode) => {
                    pool.filer.pool().roster.set_failmode(failmode).map_err(DiskError::from)?;
                }
                PoolChange::AcceptClock => pool.filer.pool().accept_clock().map_err(FilerError::from)?,
            }
        }
        Ok(())
    }

    /// What a start after the sudden end of this process will have to do.
    #[must_use]
    pub fn last_words(&self) -> String {
        let lanes = |pool: &Arc<ServedPool>| pool.filer.pool().lanes().iter().map(|lane| lane.fill().used).sum::<u64>();
        let line = |pool: &Arc<ServedPool>| {
            let lost = match pool.filer.exposure().0 {
                0 => String::new(),
                bytes => format!(" {} acknowledged with sync=disabled are lost.", Size(bytes)),
            };
            let (name, log) = (pool.filer.name(), Size(lanes(pool)));
            format!("Pool '{name}' was not exported: the next start replays up to {log} of its log.{lost}")
        };
        self.held().iter().map(line).collect::<Vec<_>>().join(" ")
    }

    /// The daemon's own thread says that it is not stuck.
    pub(super) fn comes_on(&self) {
        *self.came_on.lock() = Instant::now();
    }

    /// When it last did.
    pub(super) fn came_on(&self) -> Instant {
        *self.came_on.lock()
    }

    /// The pool that the daemon's own thread is letting go of, if it is at that: by a command, or at the end.
    pub(super) fn going(&self) -> Vec<Arc<ServedPool>> {
        self.going.lock().clone()
    }

    /// All pools whose disks are open: those that are being let go first, and then those that are served, by name.
    pub(super) fn held(&self) -> Vec<Arc<ServedPool>> {
        let mut held = self.going();
        let mut served = self.all();
        served.retain(|pool| !held.iter().any(|going| Arc::ptr_eq(going, pool)));
        held.append(&mut served);
        held
    }

    /// Writes a pool out and lets go of it. Its clients wait until it is imported again. Refused while a disk is
    /// copied, or hangs.
    pub fn export(&self, name: &str) -> Result<(), PoolsError> {
        let pool = self.pool_to_let_go(name)?;
        self.absent.exported(pool.guid(), pool.filer.name(), pool.handle_key());
        self.put_away(&pool, Filer::export)?;
        Ok(self.state.lock().forget(pool.guid())?)
    }

    /// Destroys a pool. Refused while a disk is copied, or hangs.
    pub fn destroy(&self, name: &str) -> Result<(), PoolsError> {
        let pool = self.pool_to_let_go(name)?;
        self.put_away(&pool, Filer::destroy)?;
        Ok(self.state.lock().forget(pool.guid())?)
    }

    /// A pool of the list was found destroyed: nobody waits for it any more.
    pub(super) fn forget_destroyed(&self, pool: PoolGuid) {
        self.absent.forget(pool);
        self.refresh_exports();
        // What cannot be written is told at the next start again.
        if let Err(error) = self.state.lock().forget(pool) {
            tracing::error!("{error}");
        }
    }

    /// A pool that may be let go: no disk of it hangs, no copy runs on it, and none begins any more. A disk that owes
    /// an answer may write what it was given at any time, also when the pool is long imported elsewhere; and whoever
    /// let go of it would wait for that disk.
    fn pool_to_let_go(&self, name: &str) -> Result<Arc<ServedPool>, PoolsError> {
        let pool = self.pool(name)?;
        if let Some(leg) = silence::silent(std::slice::from_ref(&pool)).pop() {
            let (name, path, seconds) = (name.into(), leg.path, leg.silent_for.as_secs());
            return Err(if leg.has_left {
                PoolsError::Owed { name, path, seconds }
            } else {
                PoolsError::Silent { name, path, seconds }
            });
        }
        pool.copies.close()?;
        Ok(pool)
    }

    /// Lets go of a pool and ends it, by export or for good; until that is over its disks count as open.
    fn put_away(&self, pool: &Arc<ServedPool>, how: fn(&Filer) -> Result<(), FilerError>) -> Result<(), FilerError> {
        self.going.lock().push(Arc::clone(pool));
        self.let_go(pool);
        let result = how(&pool.filer);
        pool.join();
        // Whoever finds that no pool is going any more must find this, too.
        self.comes_on();
        self.going.lock().retain(|going| !Arc::ptr_eq(going, pool));
        result
    }

    /// No new request reaches the pool from here on; those that run keep it alive.
    fn let_go(&self, pool: &Arc<ServedPool>) {
        self.served.write().retain(|served| !Arc::ptr_eq(served, pool));
        self.refresh_exports();
    }

    /// Exports every pool at the end of the process, and keeps the list for the next start. Copies are stopped first:
    /// disks that were joining are taken out again. A pool with a disk that hangs is the last: the others need not wait
    /// for that disk. Nor need they for the end of a copy, which may meet a disk that hangs and is not known yet. Gives
    /// what went wrong.
    pub fn export_all(&self) -> Vec<(String, FilerError)> {
        let mut failures = Vec::new();
        let mut pools = self.all();
        pools.sort_by_key(|pool| {
            (!silence::silent(std::slice::from_ref(pool)).is_empty(), !pool.copies.running().is_empty())
        });
        self.comes_on();
        for pool in pools {
            pool.copies.stop_all();
            if let Err(error) = self.put_away(&pool, Filer::export) {
                failures.push((pool.filer.name(), error));
            }
        }
        failures
    }

    /// Puts other rules of the configuration file in force.
    pub fn set_rules_above(&self, mut above: Vec<ExportRule>) {
        let table = self.live.table();
        for rule in above.iter_mut().filter(|rule| !table.has(&rule.dataset)) {
            for (from, to) in &*self.renamed.lock() {
                follow(std::slice::from_mut(rule), from, to);
            }
        }
        *self.above.lock() = above;
        self.refresh_exports();
        self.warn_of_rules_for_nothing();
    }

    /// Tells of rules of the configuration that are for no dataset there is: what they were to close may be open.
    pub fn warn_of_rules_for_nothing(&self) {
        let table = self.live.table();
        for rule in self.above.lock().iter().filter(|rule| !table.has(&rule.dataset)) {
            tracing::warn!(
                dataset = rule.dataset,
                rules = rule.rules,
                "an [[export]] of the configuration is for no dataset that is there; `tally dataset list` shows those that are"
            );
        }
    }

    /// The rules of the configuration follow a dataset that has got another name.
    pub(super) fn rules_follow(&self, from: &str, to: &str) {
        self.renamed.lock().push((from.to_owned(), to.to_owned()));
        for old in follow(&mut self.above.lock(), from, to) {
            tracing::warn!(
                "the [[export]] for dataset {old} holds for it under {to} now; write that into the configuration, or it is \
                 for nothing at the next start"
            );
        }
    }

    /// Where the rules for a dataset come from, if from the configuration: its table, and the rules.
    pub(super) fn rules_above(&self, dataset: &str) -> Option<ExportRule> {
        rule_above(&self.above.lock(), dataset).cloned()
    }

    /// Adds a dataset that was just made to the export table. Nobody else changes that: the daemon's own thread alone makes
    /// datasets, and copies of disks have none.
    pub(super) fn export_also(&self, pool: &ServedPool, filesystem: &Filesystem) {
        let export = dataset_export(&filesystem.name(), filesystem);
        let table = self.live.table().with(pool.guid(), &export, &self.above.lock());
        self.live.replace(table);
    }

    /// Works the export table out anew: after every change of a pool, a dataset or a rule.
    pub fn refresh_exports(&self) {
        let absent = self.absent.exports();
        let present = self.all().into_iter().map(|pool| KnownExports {
            guid: pool.guid(),
            handle_key: pool.handle_key(),
            datasets: dataset_exports(&pool.filer),
            mounted: Some(pool),
        });
        let table = ExportTable::new(present.chain(absent).collect(), &self.above.lock());
        self.live.replace(table);
    }
}

fn dataset_export(name: &str, filesystem: &Filesystem) -> DatasetExport {
    let (id, sharenfs) = (filesystem.dataset(), filesystem.in_force().sharenfs.clone());
    DatasetExport { id, name: name.to_owned(), sharenfs }
}

fn dataset_exports(filer: &Filer) -> Vec<DatasetExport> {
    filer.names().iter().map(|Named { name, filesystem }| dataset_export(name, filesystem)).collect()
}

/// A word that has the form of a guid is one: names of pools do not begin with a digit, and 16 letters from a to f
/// are no name that anybody has chosen.
fn select(word: &str) -> PoolSelect {
    let guid = (word.len() == 16).then(|| u64::from_str_radix(word, 16).ok()).flatten();
    guid.map_or_else(|| PoolSelect::Name(word.into()), |guid| PoolSelect::Guid(PoolGuid(guid)))
}

fn words(state: tally_fs::filer::Progress) -> Progress {
    match state {
        tally_fs::filer::Progress::Scanned(done) => Progress { what: "reading the log".into(), done, total: 0 },
        tally_fs::filer::Progress::Replayed(done, total) => Progress { what: "replaying".into(), done, total },
    }
}

#[cfg(test)]
mod tests;
