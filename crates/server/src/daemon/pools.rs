//! The pools of this process: which are imported, and every change of that.
//!
//! Pools are created, imported and exported by one thread, the daemon's own; copies to disks have threads of their own
//! ([`super::copies`]). All of it takes as long as disks take, and no request may wait for it: readers see the registry
//! through one short lock that is never held over a call into a pool, and the protocol server sees the export table,
//! which is replaced when all is done.
//!
//! ```text
//!   unknown ──create, import──▶ imported ──export──▶ away ──import──▶ imported
//!                                  │                  │ ▲
//!                                  └──destroy──▶ unknown ◀──forget──┘ └── a start that could not import, a failed export
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
use tally_base::{DatasetId, PoolGuid};
use tally_fs::Filesystem;
use tally_fs::filer::{CreateOptions, DatasetError, Filer, FilerError, ImportOptions, ImportReport, Named};
use tally_fs::vfs::{ObjectRef, Vfs};
use tally_intent::Lane;
use tally_store::assemble::{ImportError, PoolSelect};
use tally_store::discover::ImportSource;
use tally_store::grammar::{GrammarError, parse_vdev_args};
use tally_store::label::FailMode;
use tally_store::platform::{Platform, Tuning};
use tally_store::properties::PropertyError;

use super::absent::Absent;
use super::config::ExportRule;
use super::copies::Copies;
use super::disks::DiskError;
use super::new_files::{NewFile, NewFileError};
use super::silence;
use super::state::{KnownPool, State};
use crate::control::message::{Assignment, Progress};
use crate::exports::{DatasetExport, ExportTable, KnownExports, LiveExports, Mounted};

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
    /// A command was carried out, and the list of pools could not be written behind it.
    #[error("{}\nBut {trouble}", done.join("\n"))]
    Unlisted {
        /// What was done.
        done: Vec<String>,
        /// What is wrong with the list, and what that means for the next start.
        trouble: String,
    },
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
    /// Something of the end of a pool failed, and it is not served any more.
    #[error(
        "pool '{name}' was not {end}: {source}\n\
         It is not served any more: its clients wait, and `tally pool status` shows it as UNAVAIL. Once its disks are well, \
         `tally pool import {name}` takes it up again and replays its log."
    )]
    NotPutAway {
        /// Which pool.
        name: String,
        /// `exported` or `destroyed`.
        end: &'static str,
        /// What failed.
        source: Box<FilerError>,
    },
    /// An imported pool cannot be forgotten.
    #[error("pool '{name}' is imported; only a pool that is away can be forgotten. `tally pool export` lets go of it")]
    ForgetImported {
        /// Which pool.
        name: String,
    },
    /// Several pools have the name.
    #[error("several pools are called '{name}'; forget one that is away by its guid: {}", guids.join(", "))]
    ForgetWhich {
        /// The name.
        name: String,
        /// Of those that are away.
        guids: Vec<String>,
    },
    /// Who may mount the dataset would be forgotten.
    #[error(
        "'{from}' was not renamed: an [[export]] of the configuration is for it, and that this one is for '{to}', too, could not \
         be written down: {why}\n\
         Write an [[export]] for '{to}' into the configuration, have it read again (SIGHUP), and rename then."
    )]
    RulesCannotFollow {
        /// Which dataset.
        from: String,
        /// Its new name.
        to: String,
        /// What failed.
        why: String,
    },
    /// Nobody waits for such a pool.
    #[error("no pool '{name}' is away; `tally pool status` shows those that are, as UNAVAIL")]
    NotAway {
        /// As asked for.
        name: String,
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
    /// Rules are kept in the pool.
    #[error(
        "pool '{pool}' is imported read-only, and rules of sharenfs are kept in it. Until it is exported an [[export]] of the \
         configuration stands above them: write dataset = \"{dataset}\" and rules = \"off\" there, or other rules, and send \
         the daemon SIGHUP"
    )]
    ReadOnlyShare {
        /// Which pool.
        pool: String,
        /// For which dataset.
        dataset: String,
    },
    /// Files for a pool could not be made.
    #[error(transparent)]
    NewFile(#[from] NewFileError),
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
    #[error("cannot start a thread: {0}")]
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
    /// What is wrong with the list of pools, for `status`.
    pub(super) list_trouble: Mutex<Option<String>>,
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
        let (left, looking, list_trouble) = (silence::Left::default(), Mutex::default(), Mutex::default());
        Ok(Arc::new(Self { filer, since, remarks, copies, left, looking, list_trouble, read_only, threads }))
    }

    /// Its guid.
    #[must_use]
    pub fn guid(&self) -> PoolGuid {
        self.filer.pool().guid()
    }

    pub(super) fn handle_key(&self) -> [u8; 32] {
        self.filer.pool().roster.config().handle_key
    }

    /// What to remember for the next start.
    pub(super) fn known(&self) -> KnownPool {
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
    pub(super) fn join(&self) {
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
    pub(super) live: Arc<LiveExports>,
    pub(super) served: RwLock<Vec<Arc<ServedPool>>>,
    /// Being let go: they are not served any more, and their disks are still open.
    pub(super) going: Mutex<Vec<Arc<ServedPool>>>,
    /// When the daemon's own thread last began something, ended it, or said how far it was.
    pub(super) came_on: Mutex<Instant>,
    /// Those whose clients wait.
    pub absent: Absent,
    pub(super) state: Mutex<State>,
    /// Rules that stand above those of datasets.
    pub(super) above: Mutex<Vec<ExportRule>>,
    /// Those of them that the configuration file has.
    pub(super) file_rules: Mutex<Vec<ExportRule>>,
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
            above: Mutex::default(),
            state: Mutex::new(state),
            file_rules: Mutex::new(above),
        };
        pools.rules_hold();
        pools.refresh_exports();
        pools
    }

    /// What the protocol server sees.
    #[must_use]
    pub fn exports(&self) -> Arc<LiveExports> {
        Arc::clone(&self.live)
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

    /// Makes a pool of the words behind its name. Of its disks, `files` were made for it; they go again if there is no
    /// pool.
    pub fn create(
        &self,
        name: &str,
        words: &[String],
        options: &CreateOptions,
        mut files: Vec<NewFile>,
    ) -> Result<Arc<ServedPool>, PoolsError> {
        let specs = parse_vdev_args(words)?;
        self.check_not_imported(name)?;
        files.iter_mut().for_each(NewFile::let_go);
        let filer = Filer::create(&self.platform, &self.tuning, name, &specs, options)?;
        files.into_iter().for_each(NewFile::keep);
        self.take_up(filer, Vec::new(), false)
    }

    pub(super) fn check_not_imported(&self, name: &str) -> Result<(), PoolsError> {
        if self.pool(name).is_ok() { Err(PoolsError::Imported { name: name.into() }) } else { Ok(()) }
    }

    /// Imports a pool and replays its log.
    pub fn import(
        &self,
        order: &ImportOrder,
        progress: OnProgress<'_>,
    ) -> Result<(Arc<ServedPool>, ImportReport), PoolsError> {
        let source = ImportSource { paths: order.paths.clone(), dirs: order.dirs.clone() };
        let select = select(&order.pool);
        self.name_is_free(&select, &source)?;
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
        let (filer, report) = Filer::import(&self.platform, &self.tuning, &source, &select, &options, &mut tell)?;
        let lost = if order.read_only { "missing" } else { "given up at the import" };
        let losses = report.losses.iter().map(|loss| format!("{lost}: {loss}"));
        let remarks = report.remarks.iter().cloned().chain(losses).collect();
        let pool = self.take_up(filer, remarks, order.read_only)?;
        Ok((pool, report))
    }

    /// Two imported pools cannot have one name: commands and paths go by it.
    fn name_is_free(&self, pool: &PoolSelect, source: &ImportSource) -> Result<(), PoolsError> {
        let imported = self.all();
        let is_it = |served: &&Arc<ServedPool>| match pool {
            PoolSelect::Name(name) => served.filer.name() == *name,
            PoolSelect::Guid(guid) => served.guid() == *guid,
        };
        if let Some(served) = imported.iter().find(is_it) {
            return Err(PoolsError::Imported { name: served.filer.name() });
        }
        let PoolSelect::Guid(guid) = pool else { return Ok(()) };
        if imported.is_empty() {
            return Ok(());
        }
        // Whatever is wrong there the import itself tells.
        let (found, _) = self.look(source).unwrap_or_default();
        match found.into_iter().find(|found| found.guid == guid.to_string() && self.pool(&found.name).is_ok()) {
            Some(found) => Err(PoolsError::Imported { name: found.name }),
            None => Ok(()),
        }
    }

    /// Starts a pool's threads, serves it, and writes it down for the next start.
    fn take_up(&self, filer: Arc<Filer>, remarks: Vec<String>, read_only: bool) -> Result<Arc<ServedPool>, PoolsError> {
        let pool = ServedPool::start(filer, remarks, read_only)?;
        self.served.write().push(Arc::clone(&pool));
        self.absent.forget(pool.guid());
        self.refresh_exports();
        // It serves, whatever becomes of the list: whoever asked for it is told.
        let _told_later = self.remember(&pool);
        Ok(pool)
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
