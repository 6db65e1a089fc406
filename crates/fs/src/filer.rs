//! A pool with its mounted datasets: what a server starts, stops and commands.
//!
//! The filer makes no threads: [`Filer::background`] hands out what has to run beside the requests, and the caller
//! decides how. Commands ([`datasets`]) are serialised by one lock and are durable when they return (rules F18).

mod belongings;
mod clients;
mod datasets;
mod decode;
mod handover;
mod loss;
mod mount_point;
mod names;
mod relief;
mod rewind;
mod room;
mod scrub;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tally_base::{DatasetId, Dseq, Txg};
use tally_claims::Account;
use tally_disk::{Platform, Within};
use tally_intent::recovery::DatasetReplay;
use tally_members::assemble::{self, ImportError, PoolSelect};
use tally_members::create::{self, CreateError};
use tally_members::discover::ImportSource;
use tally_members::grammar::VdevSpec;
use tally_members::label::PoolConfig;
use tally_store::pool::{LoadOptions, LogContent, OpenError, Pool, RewindOrder, SyncError};
use tally_store::properties::{PropertySet, SyncMode};
use tally_store::tuning::Tuning;
use tally_store::txg::{Cause, Next};

use relief::Relief;
use tally_vfs::ObjectRef;

use crate::ahead::Ahead;
use crate::filesystem::Filesystem;
use crate::mount::Mount;
use crate::record::newer;
use crate::schema::Files;

pub use datasets::{DatasetError, DatasetInfo, check_name};
pub use handover::Handover;
pub use loss::ReplayLoss;
pub use names::{Named, Names, is_or_holds};
pub use rewind::{DroppedRecords, RewindReport};

/// An imported pool and its mounted datasets.
pub struct Filer {
    pool: Arc<Pool>,
    mounted: RwLock<BTreeMap<DatasetId, Arc<Filesystem>>>,
    /// The same by name, behind `mounted` by a moment.
    names: RwLock<Arc<Names>>,
    /// What is kept of clients, which has no name for people.
    hidden: OnceLock<Arc<Filesystem>>,
    /// Those that are being destroyed: not mounted any more, and not gone before that is durable. Locked before `mounted`.
    going: RwLock<HashSet<DatasetId>>,
    /// Child datasets by parent and the name under which they stand in its root directory.
    children: RwLock<HashMap<(DatasetId, Vec<u8>), DatasetId>>,
    /// One command at a time.
    command: Mutex<()>,
    ahead: Arc<Ahead>,
    account: Arc<Account>,
    /// What scrubs of this import have found that must not be, by the names of files.
    space_alarms: Mutex<Vec<String>>,
}

/// What a thread of a pool does, as long as it lives.
pub type Body = Box<dyn FnOnce() + Send>;

/// How to make a pool.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// How to make its disks.
    pub disks: create::CreateOptions,
    /// Owner and group of the root dataset's root directory.
    pub root_owner: (u32, u32),
    /// Local properties of the root dataset.
    pub properties: PropertySet,
}

/// How to import a pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions {
    /// Take it although another machine has it.
    pub force: bool,
    /// Write nothing, to no disk: what the log has is replayed in memory alone.
    pub read_only: bool,
    /// Give up what the log has lost.
    pub accept_loss: bool,
    /// Take it although it was destroyed.
    pub destroyed: bool,
}

/// How a pool was when it was suspended, or exported: what an import of it in the same process has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspended {
    /// Of the claim under which it was in service.
    open_gen: u64,
    /// Drawn with `open_gen`, so that two claims of one number can be told apart.
    open_id: u64,
    /// Of the labels. Whoever was struck off meanwhile has older ones: it may have every group, and lacks frames that were
    /// acknowledged without it.
    sequence: u64,
    /// The newest group that was durable. What older groups and the log have is replayed; a disk that has gone back behind it
    /// would take back what clients were told.
    synced: Txg,
}

/// What an import found and did.
#[derive(Clone, Debug, Default)]
pub struct ImportReport {
    /// Whether the pool had been exported, so that nothing was to be replayed.
    pub was_clean: bool,
    /// Records that were applied.
    pub records_replayed: u64,
    /// Frames of the log that were read, and their bytes.
    pub frames: u64,
    /// Bytes of those frames, headers and padding included.
    pub bytes: u64,
    /// What is not as it should be: missing legs, repaired frames, dropped tails.
    pub remarks: Vec<String>,
    /// Acknowledged changes that were given up.
    pub losses: Vec<String>,
    /// What was given up to go back to an older group.
    pub rewind: Option<RewindReport>,
    /// How long it took.
    pub duration: Duration,
}

/// How far an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Bytes of log read.
    Scanned(u64),
    /// Records replayed, of so many.
    Replayed(u64, u64),
}

/// Why a pool could not be made, imported or put away.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum FilerError {
    #[error("{0}")]
    Create(#[from] CreateError),
    #[error("{0}")]
    Import(#[from] ImportError),
    /// Its root or its log.
    #[error("{0}")]
    Open(#[from] OpenError),
    #[error("{0}")]
    Sync(#[from] SyncError),
    #[error("{0}")]
    Dataset(#[from] DatasetError),
    /// Somebody had it while it was suspended.
    #[error(
        "the pool was imported by {host} while it was suspended here, and is not the one that its clients know: export it \
         there, and import it again"
    )]
    TakenMeanwhile {
        /// The machine that the labels name.
        host: String,
    },
    /// Its disks are only some that had left it.
    #[error(
        "only disks answer that had been struck off before the pool was suspended: they lack what was acknowledged without them. \
         Bring back the others; `tally pool import` takes what these hold"
    )]
    StruckOff,
    /// Its disks are older than what clients were told.
    #[error(
        "the newest transaction group on the disks is {found}, and {expected} was durable before the pool was suspended: \
         these are older copies of its disks. Bring back those that it had; `tally pool import` takes what the copies hold"
    )]
    WentBack {
        /// The newest group that the disks have.
        found: Txg,
        /// The oldest that it may be.
        expected: Txg,
    },
    /// A record of the log is of a newer program.
    #[error(
        "an acknowledged change of dataset {dataset} in the intent log, record {dseq}, has {what}, which only a newer program \
         knows: import the pool with that, and export it. --readonly shows the dataset without that change and those behind it"
    )]
    NewerRecord {
        dataset: String,
        /// The record's number in the dataset's history.
        dseq: Dseq,
        /// What of it is not known.
        what: String,
    },
    /// A record of the log does not fit what is in the pool.
    #[error(
        "acknowledged changes cannot be replayed from the intent log:\n{0}\nimport with --readonly to look at what is \
         there, which changes nothing, or give those changes up with --accept-loss"
    )]
    Replay(#[from] ReplayLoss),
}

impl Suspended {
    /// Whether nobody has written the pool since, and all that was durable is there. Nothing is written before this is asked.
    fn is_found(&self, found: &PoolConfig, newest: Txg) -> Result<(), FilerError> {
        if (found.open_gen, found.open_id) != (self.open_gen, self.open_id) {
            return Err(FilerError::TakenMeanwhile { host: found.host.name.clone() });
        }
        if found.sequence < self.sequence {
            return Err(FilerError::StruckOff);
        }
        if newest < self.synced {
            return Err(FilerError::WentBack { found: newest, expected: self.synced });
        }
        Ok(())
    }
}

/// How a pool is taken in.
struct How<'a> {
    options: &'a ImportOptions,
    /// Only as it was when it was put away in this process.
    suspended: Option<&'a Suspended>,
    /// As it was in an older group.
    rewind: Option<RewindOrder>,
    /// What clients have of it, if it was exported in this process.
    handed_over: HandedOver<'a>,
}

/// What was handed over by whoever exported a pool in this process. It is asked with what the disks say before the import claims them: whose the pool was stands there still.
pub type HandedOver<'a> = &'a dyn Fn(&PoolConfig) -> Option<Arc<Handover>>;

/// By nobody.
const BY_NOBODY: HandedOver<'static> = &|_| None;

impl Filer {
    /// Makes a pool with a root dataset of the same name.
    pub fn create(
        platform: &Platform,
        tuning: &Tuning,
        name: &str,
        vdevs: &[VdevSpec],
        options: &CreateOptions,
    ) -> Result<Arc<Self>, FilerError> {
        let assembled = create::create(platform, name, vdevs, &options.disks)?;
        let pool = Pool::create(platform, tuning, &assembled.roster, &Files)?;
        let filer = Arc::new(Self::new(pool, Arc::default()));
        filer.add_root_dataset(name, options)?;
        Ok(filer)
    }

    /// Imports a pool, replays its log, and opens it for requests.
    pub fn import(
        platform: &Platform,
        tuning: &Tuning,
        source: &ImportSource,
        select: &PoolSelect,
        options: &ImportOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Arc<Self>, ImportReport), FilerError> {
        Self::take_over(platform, tuning, source, select, options, BY_NOBODY, progress)
    }

    /// The same, with what clients have of it since it was exported in this process, if it is as it was then.
    pub fn take_over(
        platform: &Platform,
        tuning: &Tuning,
        source: &ImportSource,
        select: &PoolSelect,
        options: &ImportOptions,
        handed_over: HandedOver<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Arc<Self>, ImportReport), FilerError> {
        let how = How { options, suspended: None, rewind: None, handed_over };
        Self::take(platform, tuning, source, select, how, progress)
    }

    /// Imports a pool that was suspended in this process, and put away; only as it was then.
    pub fn resume(
        platform: &Platform,
        tuning: &Tuning,
        source: &ImportSource,
        select: &PoolSelect,
        suspended: &Suspended,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Arc<Self>, ImportReport), FilerError> {
        let how = How {
            options: &ImportOptions::default(),
            suspended: Some(suspended),
            rewind: None,
            handed_over: BY_NOBODY,
        };
        Self::take(platform, tuning, source, select, how, progress)
    }

    /// The same, of what the pool was in an older group. What is given up is in the report. With `read_only` it is a look at
    /// that group, and nothing is given up. `asked` hears what the disks say before they are claimed; clients have nothing of an older group.
    pub fn go_back(
        platform: &Platform,
        tuning: &Tuning,
        source: &ImportSource,
        select: &PoolSelect,
        options: &ImportOptions,
        (rewind, asked): (RewindOrder, &dyn Fn(&PoolConfig)),
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Arc<Self>, ImportReport), FilerError> {
        let handed_over = &|config: &PoolConfig| {
            asked(config);
            None
        };
        let how = How { options, suspended: None, rewind: Some(rewind), handed_over };
        Self::take(platform, tuning, source, select, how, progress)
    }

    fn take(
        platform: &Platform,
        tuning: &Tuning,
        source: &ImportSource,
        select: &PoolSelect,
        How { options, suspended, rewind, handed_over }: How<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Arc<Self>, ImportReport), FilerError> {
        let started = platform.clock.monotonic();
        let disks = assemble::ImportOptions {
            force: options.force,
            read_only: options.read_only,
            destroyed: options.destroyed,
            goes_back: rewind.is_some(),
        };
        let (assembled, chosen) = assemble::import(platform, source, select, &disks)?;
        if let Some(suspended) = suspended {
            suspended.is_found(&assembled.config, chosen.uberblock.txg)?;
        }
        // Asked before this import claims the pool.
        let left = handed_over(&assembled.config).filter(|it| it.fits(&assembled.config, chosen.uberblock.txg));
        let load = LoadOptions { read_only: options.read_only, accept_loss: options.accept_loss, rewind };
        let scanned = &mut |bytes| progress(Progress::Scanned(bytes));
        let (pool, content) = Pool::load(platform, tuning, &assembled.roster, &chosen, load, &Files, scanned)?;
        let mut report = ImportReport {
            was_clean: pool.was_exported_cleanly(),
            frames: content.frames,
            bytes: content.bytes,
            remarks: assembled.notes,
            ..ImportReport::default()
        };
        report.remarks.extend(content.remarks.iter().cloned());
        report.losses.clone_from(&content.losses);
        let left = left.filter(|_| report.was_clean && report.losses.is_empty() && !options.read_only);
        let account = left.as_ref().map_or_else(Arc::default, |left| Arc::clone(&left.account));
        let filer = Arc::new(Self::new(pool, account));
        filer.mount_all(left.as_deref());
        let records = filer.learn_dropped(&content);
        report.rewind = content.gone_back.clone().map(|groups| RewindReport { groups, records });
        filer.replay(content, options, &mut report, progress)?;
        if !options.read_only {
            filer.agree_on_logging();
            filer.pool.finish_replay(&report.losses)?;
            filer.hold_for_clients();
        }
        filer.find_children();
        report.duration = platform.clock.monotonic().saturating_sub(started);
        Ok((filer, report))
    }

    fn new(pool: Arc<Pool>, account: Arc<Account>) -> Self {
        let (mounted, names, hidden, going, children) = Default::default();
        let ahead = Ahead::new(&pool);
        let space_alarms = Mutex::default();
        Self { pool, mounted, names, hidden, going, children, command: Mutex::new(()), ahead, account, space_alarms }
    }

    /// All datasets, by the mounts that clients know where those were handed over.
    fn mount_all(&self, left: Option<&Handover>) {
        let mut mounted = self.mounted.write();
        for dataset in self.pool.datasets() {
            let id = dataset.birth.id;
            let mount = left.and_then(|left| left.mount(id)).unwrap_or_else(|| Mount::new(&self.account));
            mounted.insert(id, Filesystem::mount(&self.pool, &self.ahead, mount, &dataset));
        }
        *self.names.write() = Arc::new(Names::new(mounted.values().cloned()));
        for filesystem in mounted.values() {
            self.keep_if_hidden(filesystem);
        }
        self.names().iter().for_each(|named| self.find_standing(&named.filesystem));
    }

    /// Applies every dataset's records in their order. Much dirty data is synced meanwhile; the cursor in the dataset's
    /// root then says how far its group came (rules F1).
    fn replay(
        &self,
        content: LogContent,
        options: &ImportOptions,
        report: &mut ImportReport,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), FilerError> {
        // Records that were withheld or dropped keep their numbers, too: none is given out twice.
        let last_of = |(id, replay): (&DatasetId, &DatasetReplay)| {
            Some((self.filesystem(*id)?, replay.records.last()?.head.dseq))
        };
        let ends: Vec<_> = content.datasets.iter().filter_map(last_of).collect();
        self.pool.platform.helpers.within(|helpers| {
            let mut relief = Relief::new(helpers, &self.pool);
            self.replay_all(helpers, content, options, report, progress, &mut relief)?;
            Ok::<_, FilerError>(relief.finish()?)
        })?;
        // Not before: a loss is on record before any group's root goes by it (rules F26).
        for (filesystem, last) in ends {
            self.pool.replay_in(0, |txg| filesystem.resume_log_after(last, txg));
        }
        Ok(())
    }

    fn replay_all<'scope>(
        &self,
        helpers: Within<'scope, '_>,
        content: LogContent,
        options: &ImportOptions,
        report: &mut ImportReport,
        progress: &mut dyn FnMut(Progress),
        relief: &mut Relief<'_, '_>,
    ) -> Result<(), FilerError> {
        let total = content.datasets.values().map(|replay| replay.records.len() as u64).sum();
        if !options.read_only {
            self.refuse_newer(&content)?;
        }
        for (id, replay) in content.datasets {
            let Some(filesystem) = self.filesystem(id) else { continue };
            let count = replay.records.len() as u64;
            let Some(first) = replay.records.first().map(|record| record.head.dseq) else { continue };
            let sound = filesystem.check_ids(first);
            let mut records = decode::decoded(helpers, replay.records);
            let mut left = count;
            while let Some((dseq, record)) = records.next() {
                let replayed = sound.clone().and(record).and_then(|record| filesystem.replay(dseq, record));
                if let Err(source) = replayed {
                    let behind = records.map(|(_, record)| record);
                    let loss = ReplayLoss::new(filesystem.name(), source, left, behind);
                    if !options.accept_loss && !options.read_only {
                        return Err(loss.into());
                    }
                    report.losses.push(loss.to_string());
                    left = 0;
                    break;
                }
                left -= 1;
                report.records_replayed += 1;
                if report.records_replayed.is_multiple_of(1024) {
                    progress(Progress::Replayed(report.records_replayed, total));
                }
                if !options.read_only {
                    relief.relieve()?;
                }
            }
            assert_eq!(left, 0, "whoever decodes the records hands all of them over");
        }
        Ok(())
    }

    /// Before anything is replayed, and whatever is accepted: what is not known is not lost.
    fn refuse_newer(&self, content: &LogContent) -> Result<(), FilerError> {
        for (id, replay) in &content.datasets {
            let Some(filesystem) = self.filesystem(*id) else { continue };
            let newer = replay.records.iter().find_map(|found| Some((found.head.dseq, newer(&found.head)?)));
            if let Some((dseq, what)) = newer {
                return Err(FilerError::NewerRecord { dataset: filesystem.name(), dseq, what });
            }
        }
        Ok(())
    }

    /// The roots say whether their datasets log, the lines say whether they should. A crash between two commands (a rename
    /// below another parent, and what its properties put in force) leaves them at odds; the group that ends the replay
    /// settles it, before anybody is answered.
    fn agree_on_logging(&self) {
        let open = self.pool.txgs.open();
        for filesystem in self.mounted.read().values() {
            filesystem.switch_log(filesystem.dataset.effective().sync != SyncMode::Disabled, open);
        }
    }

    /// What has to run beside the requests, each in its own thread, until [`Self::export`]: name and body.
    #[must_use]
    pub fn background(self: &Arc<Self>) -> Vec<(String, Body)> {
        self.needed().into_iter().chain(self.fetching_ahead()).collect()
    }

    /// Those of [`Self::background`] without which nothing becomes stable.
    #[must_use]
    pub fn needed(self: &Arc<Self>) -> Vec<(String, Body)> {
        let filer = Arc::clone(self);
        let mut bodies: Vec<(String, Body)> = vec![("txg".into(), Box::new(move || filer.run_txgs()))];
        for lane in self.pool.lanes().iter() {
            let lane = Arc::clone(lane);
            bodies.push((format!("lane {}", lane.id()), Box::new(move || lane.run())));
        }
        bodies
    }

    /// The others, which fetch ahead of READs. Each may be at a disk that hangs, as a READ may, and nobody who puts the pool
    /// away is to wait for that.
    #[must_use]
    pub fn fetching_ahead(&self) -> Vec<(String, Body)> {
        let body = |number| -> (String, Body) {
            let ahead = Arc::clone(&self.ahead);
            (format!("ahead {number}"), Box::new(move || ahead.run()))
        };
        (0..self.ahead.thread_count()).map(body).collect()
    }

    /// Does one thing of those that READs have left behind to be fetched ahead of them, if there is any: for a world in which
    /// nobody runs [`Self::fetching_ahead`].
    pub fn read_ahead_once(&self) -> bool {
        self.ahead.work_once()
    }

    fn run_txgs(&self) {
        // The groups of the import are synced by now, and may have left files to the reaper.
        self.call_reaper();
        while self.pool.txgs.wait_for_work(self.pool.tuning.txg_interval) == Next::Sync {
            if self.pool.sync().is_err() {
                return;
            }
            self.call_reaper();
        }
    }

    /// Asks for another group while removed files wait for the reaper, which works in the fold.
    fn call_reaper(&self) {
        if !self.pool.read_only() && self.has_orphans() {
            self.pool.txgs.want(Cause::Chore);
        }
    }

    /// Whether anything in the pool that was removed or cut is still being freed. An idle pool asks this behind each group: the
    /// pool's own dataset, which is above all others, has the sum (rules S2).
    #[must_use]
    pub fn has_orphans(&self) -> bool {
        self.names.read().at(0).is_some_and(|own| own.filesystem.standing.pool_has_orphans())
    }

    /// Frees files without a name that nobody has open, once nobody may claim any of them again. Gives how many stay, as somebody has them open, or
    /// as they cannot be freed for now.
    pub fn let_go_of_held(&self) -> usize {
        let all: Vec<_> = self.mounted.read().values().cloned().collect();
        all.iter().map(|filesystem| filesystem.let_go_of_held()).sum()
    }

    /// Puts the pool away: everything is synced, and the next import has nothing to replay. Also where that fails, it is the
    /// end of this import, and so of what is fetched ahead.
    pub fn export(&self) -> Result<(), FilerError> {
        let _one = self.command.lock();
        self.ahead.end();
        Ok(self.pool.export()?)
    }

    /// How the pool stands, for an import that takes it up where it was suspended.
    #[must_use]
    pub fn as_suspended(&self) -> Suspended {
        let config = self.pool.roster.config();
        let (open_gen, open_id, sequence) = (config.open_gen, config.open_id, config.sequence);
        Suspended { open_gen, open_id, sequence, synced: self.pool.txgs.last_synced() }
    }

    /// Gives the pool up. As with [`Self::export`] there is no way back.
    pub fn destroy(&self) -> Result<(), FilerError> {
        let _one = self.command.lock();
        self.ahead.end();
        Ok(self.pool.destroy()?)
    }

    /// Syncs the open transaction group and waits for it.
    pub fn sync(&self) -> Result<Txg, FilerError> {
        Ok(self.pool.sync()?)
    }

    /// The pool: disks, space, lanes, groups.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The pool's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.pool.roster.config().name
    }

    /// The mounted dataset of this id; `None` if there is none, or no more.
    #[must_use]
    pub fn filesystem(&self, id: DatasetId) -> Option<Arc<Filesystem>> {
        self.mounted.read().get(&id).cloned()
    }

    /// Whether a dataset that had no file system a moment ago is not gone: it is being destroyed, or there again as that failed.
    #[must_use]
    pub fn is_going(&self, dataset: DatasetId) -> bool {
        let going = self.going.read();
        going.contains(&dataset) || self.mounted.read().contains_key(&dataset)
    }

    /// The dataset that is mounted on `name` in directory `dir` of a dataset; one that is not there ([`Self::filesystem`]) where it is being
    /// made, moved or destroyed.
    #[must_use]
    pub fn child(&self, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<DatasetId> {
        if self.filesystem(dataset)?.root() != dir {
            return None;
        }
        self.children.read().get(&(dataset, name.to_vec())).copied()
    }

    /// Bytes that datasets with `sync=disabled` have acknowledged and that are not durable, and for how long.
    #[must_use]
    pub fn exposure(&self) -> (u64, Duration) {
        let now = self.pool.platform.clock.now();
        let mut bytes = 0;
        let mut age = Duration::ZERO;
        for Named { filesystem, .. } in &*self.names() {
            let (exposed, since) = filesystem.exposure();
            bytes += exposed;
            let exposed_for = since.map_or(0, |since| now.0.saturating_sub(since.0));
            age = age.max(Duration::from_nanos(exposed_for));
        }
        (bytes, age)
    }
}
