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
//!
//! What is done to pools stands in rooms of its own: `opening` is what a start imports, `new_files` makes files for a new
//! one, `finding` looks for those that are not imported, `letting_go` ends them, `resuming` goes on with suspended ones, `absent` knows those that are away,
//! `listing` keeps the list for the next start, `disks` and `datasets` have the commands on what is in them, and
//! `rules_above` the rules of the configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use tally_base::PoolGuid;
use tally_disk::Platform;
use tally_fs::Filesystem;
use tally_fs::filer::{CreateOptions, Filer, FilerError, ImportOptions, ImportReport, Named, Suspended};
use tally_members::assemble::PoolSelect;
use tally_members::discover::ImportSource;
use tally_members::grammar::parse_vdev_args;
use tally_members::label::{FailMode, Feature, HangLimit, Release};
use tally_store::pool::{RewindOrder, ScrubEvery};
use tally_store::tuning::Tuning;
use tally_vfs::Identity;

use super::absent::Absent;
use super::error::{DiskError, PoolsError};
use super::events::Events;
use super::features;
use super::looks::{BesideLooks, Looks};
use super::new_files::NewFile;
use super::scrub;
use super::served::ServedPool;
use super::state::State;
use crate::config::ExportRule;
use crate::control::message::{Assignment, OnProgress, Progress};
use crate::exports::{DatasetExport, ExportTable, KnownExports, LiveExports};

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
    /// It was suspended here, and is to be as it was.
    pub resumes: Option<Suspended>,
    /// As it was in an older group.
    pub rewind: Option<RewindOrder>,
}

/// What `tally pool set` can change.
enum PoolChange {
    FailMode(FailMode),
    ScrubEvery(ScrubEvery),
    /// After how long a leg that hangs is struck off.
    HangLimit(HangLimit),
    /// Which features may be enabled.
    Compatibility(Option<Release>),
    Enable(Feature),
    /// The machine's clock is right, although it is far from the pool's times.
    AcceptClock,
}

impl PoolChange {
    fn parse(set: &Assignment) -> Result<Self, PoolsError> {
        let bad = || PoolsError::BadPoolProperty { name: set.property.clone(), value: set.value.clone() };
        match (set.property.as_str(), set.value.as_str()) {
            ("failmode", word) => FailMode::of_word(word).map(Self::FailMode).ok_or_else(bad),
            ("scrub", word) => ScrubEvery::of_word(word).map(Self::ScrubEvery).ok_or_else(bad),
            ("hang_limit", word) => HangLimit::of_word(word).map(Self::HangLimit).ok_or_else(bad),
            ("clock", "accept") => Ok(Self::AcceptClock),
            ("compatibility", word) => features::parse_compatibility(word).map(Self::Compatibility),
            (feature, "enabled") if features::is_feature(feature) => features::find(feature).map(Self::Enable),
            _ => Err(bad()),
        }
    }
}

/// All pools of the process.
pub struct Pools {
    /// The world around them; who opens a disk there waits for `looks`.
    pub platform: Platform,
    pub(super) looks: Arc<Looks>,
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
    /// What has happened to them.
    pub(super) events: Events,
    /// Rules that stand above those of datasets.
    pub(super) above: Mutex<Vec<ExportRule>>,
    /// Those of them that the configuration file has.
    pub(super) file_rules: Mutex<Vec<ExportRule>>,
}

impl Pools {
    /// None is imported; those of the list are away.
    #[must_use]
    pub fn new(platform: Platform, tuning: Tuning, state: State, above: Vec<ExportRule>) -> Self {
        let looks = Arc::<Looks>::default();
        let opener = Arc::new(BesideLooks { opener: platform.opener, looks: Arc::clone(&looks) });
        let pools = Self {
            platform: Platform { opener, ..platform },
            looks,
            tuning,
            live: Arc::default(),
            served: RwLock::default(),
            going: Mutex::default(),
            came_on: Mutex::new(Instant::now()),
            absent: Absent::new(state.pools()),
            events: Events::default(),
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
        let filer =
            Filer::create(&self.platform, &self.tuning, name, &specs, options).map_err(|error| match error {
                FilerError::Create(_) => error.into(),
                source => PoolsError::NotMade { name: name.into(), source: Box::new(source) },
            })?;
        files.into_iter().for_each(NewFile::keep);
        self.take_up(filer, Vec::new(), false)
    }

    /// Remembers what has happened to a pool, and has the pool remember it if it is imported.
    pub(super) fn tell(&self, name: &str, class: &str, text: String) {
        self.events.tell(name, self.pool(name).ok().as_deref(), class, text);
    }

    /// Tells what is new of all pools since the last look.
    pub(super) fn look_for_events(&self) {
        self.events.look(|| self.all());
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
        self.import_after(order, progress, &|_| {})
    }

    /// The same; `before` hears which pool it is, before anybody is served.
    pub fn import_after(
        &self,
        order: &ImportOrder,
        progress: OnProgress<'_>,
        before: &dyn Fn(PoolGuid),
    ) -> Result<(Arc<ServedPool>, ImportReport), PoolsError> {
        let source = ImportSource { paths: order.paths.clone(), dirs: order.dirs.clone() };
        let select = select(&order.pool);
        self.name_is_free(&select, &source)?;
        let mut tell = |state: tally_fs::filer::Progress| {
            self.comes_on();
            progress(words(state));
        };
        let read_in = self.read_in(&source, &select, &order.options(), order, &mut tell);
        let (filer, report) = read_in.map_err(|error| order.not_imported(error))?;
        let lost = if order.read_only { "missing" } else { "given up at the import" };
        let losses = report.losses.iter().map(|loss| format!("{lost}: {loss}"));
        let remarks = report.remarks.iter().cloned().chain(losses).collect();
        before(filer.pool().guid());
        let pool = self.take_up(filer, remarks, order.read_only)?;
        scrub::resume(&pool);
        Ok((pool, report))
    }

    /// The import itself.
    pub(super) fn read_in(
        &self,
        source: &ImportSource,
        select: &PoolSelect,
        options: &ImportOptions,
        order: &ImportOrder,
        tell: &mut dyn FnMut(tally_fs::filer::Progress),
    ) -> Result<(Arc<Filer>, ImportReport), FilerError> {
        let (platform, tuning) = (&self.platform, &self.tuning);
        match (order.rewind, &order.resumes) {
            (Some(rewind), _) => Filer::go_back(platform, tuning, source, select, options, rewind, tell),
            (None, Some(suspended)) => Filer::resume(platform, tuning, source, select, suspended, tell),
            (None, None) => Filer::import(platform, tuning, source, select, options, tell),
        }
    }

    /// Two imported pools cannot have one name: commands and paths go by it.
    pub(super) fn name_is_free(&self, pool: &PoolSelect, source: &ImportSource) -> Result<(), PoolsError> {
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
        let pool = ServedPool::start(filer, remarks, read_only).map_err(PoolsError::Thread)?;
        self.served.write().push(Arc::clone(&pool));
        self.absent.forget(pool.guid());
        self.refresh_exports();
        let name = pool.filer.name();
        self.events.recall(&name, pool.filer.pool().events());
        self.tell(&name, "pool_import", "it is imported".into());
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
                PoolChange::ScrubEvery(every) => {
                    pool.filer.pool().set_scrub_every(every);
                    pool.filer.sync()?;
                }
                PoolChange::HangLimit(limit) => {
                    pool.filer.pool().roster.set_hang_limit(limit).map_err(DiskError::from)?;
                }
                PoolChange::Compatibility(limit) => {
                    let limit = limit.map_or_else(String::new, |limit| limit.to_string());
                    pool.filer.pool().roster.set_compatibility(&limit).map_err(DiskError::from)?;
                }
                PoolChange::Enable(feature) => {
                    pool.filer.pool().roster.enable_features(&[feature]).map_err(DiskError::from)?;
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
pub(super) fn select(word: &str) -> PoolSelect {
    let guid = (word.len() == 16).then(|| u64::from_str_radix(word, 16).ok()).flatten();
    guid.map_or_else(|| PoolSelect::Name(word.into()), |guid| PoolSelect::Guid(PoolGuid(guid)))
}

pub(super) fn words(state: tally_fs::filer::Progress) -> Progress {
    match state {
        tally_fs::filer::Progress::Scanned(done) => Progress { what: "reading the log".into(), done, total: 0 },
        tally_fs::filer::Progress::Replayed(done, total) => Progress { what: "replaying".into(), done, total },
    }
}

#[cfg(test)]
mod tests;
