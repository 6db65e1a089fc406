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
//! are away that `pools.toml` still lists, that is, that nobody exported. What clients have of an exported one is retained for a lease.
//!
//! What is done to pools stands in rooms of its own: `importing` makes and imports them, `pool_properties` sets what they have; `opening` is what a start imports, `new_files` makes files for a new
//! one, `finding` looks for those that are not imported, `letting_go` ends them, `resuming` goes on with suspended ones, `absent` knows those that are away,
//! `listing` keeps the list for the next start, `disks` and `datasets` have the commands on what is in them, and
//! `rules_above` the rules of the configuration.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tally_disk::Platform;
use tally_fs::Filesystem;
use tally_fs::filer::{Filer, Named};
use tally_store::tuning::Tuning;
use tally_vfs::Identity;

use super::absent::Absent;
use super::bell::Bell;
use super::error::PoolsError;
use super::events::Events;
use super::looks::{BesideLooks, Looks};
use super::mounts::{Mounts, Seen};
use super::served::ServedPool;
use super::state::State;
use crate::config::ExportRule;
use crate::control::mounts::MountReport;
use crate::control::report::EventClass;
use crate::exports::{DatasetExport, ExportTable, KnownExports, LiveExports};
use crate::mount_table::Table;

/// All pools of the process.
pub struct Pools {
    /// The world around them; who opens a disk there waits for `looks`.
    pub platform: Platform,
    pub(super) looks: Arc<Looks>,
    pub(super) tuning: Tuning,
    pub(super) live: Arc<LiveExports>,
    pub(super) served: RwLock<Vec<Arc<ServedPool>>>,
    /// Being let go: they are not served any more, and their disks are still open.
    pub(super) going: Mutex<Vec<Arc<ServedPool>>>,
    /// When the last one was let go of: requests that were under way keep its disks open until they have heard that it is gone.
    pub(super) let_go_at: Mutex<Option<Instant>>,
    /// When the daemon's own thread last began something, ended it, or said how far it was.
    pub(super) came_on: Mutex<Instant>,
    /// Those whose clients wait.
    pub absent: Absent,
    pub(super) state: Mutex<State>,
    /// What this machine has mounted of them.
    pub(super) mounts: Arc<Mounts>,
    /// Rings when something has changed of what is shared.
    pub(super) bell: Arc<Bell>,
    /// What has happened to them.
    pub(super) events: Events,
    /// Rules that stand above those of datasets.
    pub(super) above: Mutex<Vec<ExportRule>>,
    /// Those of them that the configuration file has.
    pub(super) file_rules: Mutex<Vec<ExportRule>>,
    /// How long a client of version 4 may say nothing, where that is spoken: then a pool that comes is to have a place for what has to be known of clients.
    pub(super) lease: Option<Duration>,
}

impl Pools {
    /// The same, each of which keeps what is to be known of clients of version 4 behind a restart, with leases of this length; if that is spoken.
    pub(super) fn keeping_clients(self, lease: Option<Duration>) -> Self {
        Self { lease, ..self }
    }

    /// None is imported; those of the list are away. Which rules hold is worked out by `rules_hold`.
    #[must_use]
    pub(super) fn new(platform: Platform, tuning: Tuning, state: State, above: Vec<ExportRule>) -> Self {
        let looks = Arc::<Looks>::default();
        let opener = Arc::new(BesideLooks { opener: platform.opener, looks: Arc::clone(&looks) });
        let bell = Arc::<Bell>::default();
        let pools = Self {
            platform: Platform { opener, ..platform },
            looks,
            tuning,
            live: Arc::default(),
            served: RwLock::default(),
            going: Mutex::default(),
            let_go_at: Mutex::default(),
            came_on: Mutex::new(Instant::now()),
            absent: Absent::new(state.pools()),
            mounts: Arc::new(Mounts::new(&bell)),
            bell,
            events: Events::default(),
            above: Mutex::new(above.clone()),
            state: Mutex::new(state),
            file_rules: Mutex::new(above),
            lease: None,
        };
        pools.refresh_exports();
        pools
    }

    /// The daemon's own thread says that it is not stuck.
    pub(super) fn comes_on(&self) {
        *self.came_on.lock() = Instant::now();
    }

    /// When it last did.
    pub(super) fn came_on(&self) -> Instant {
        *self.came_on.lock()
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

    /// Remembers what has happened to a pool, and has the pool remember it if it is imported.
    pub(super) fn tell(&self, name: &str, class: EventClass, text: String) {
        self.events.tell(name, self.pool(name).ok().as_deref(), class, text);
    }

    /// Tells what is new of all pools since the last look.
    pub(super) fn look_for_events(&self) {
        self.events.look(|| self.all());
    }

    pub(super) fn check_not_imported(&self, name: &str) -> Result<(), PoolsError> {
        if self.pool(name).is_ok() { Err(PoolsError::Imported { name: name.into() }) } else { Ok(()) }
    }

    /// Whether this machine has nothing mounted of a pool, or of a dataset or one below it.
    pub(super) fn check_unmounted(&self, name: &str) -> Result<(), PoolsError> {
        let served: Vec<_> = self.mounted().into_iter().filter(|mount| mount.is_of(name)).collect();
        let (name, attached) = (name.to_owned(), attached(&served));
        match (attached.into_iter().next(), served.into_iter().next()) {
            (Some(MountReport { dataset, dir, .. }), _) => Err(PoolsError::Mounted { name, dataset, dir }),
            (None, Some(MountReport { dataset, dir, .. })) => Err(PoolsError::Detached { name, dataset, dir }),
            (None, None) => Ok(()),
        }
    }

    /// What this machine has mounted of a pool, or of a dataset and those below it.
    pub(super) fn mounted_below(&self, name: &str) -> Vec<MountReport> {
        attached(&self.mounted()).into_iter().filter(|mount| mount.is_of(name)).collect()
    }

    /// What programs find in a directory of this machine.
    pub(super) fn attached(&self) -> Vec<MountReport> {
        attached(&self.mounted())
    }

    /// What is served to this machine, also where it was detached (`umount -l`) and a program still uses it.
    pub(super) fn mounted(&self) -> Vec<MountReport> {
        let pools = self.all();
        let report = |seen: Seen| {
            let pool = pools.iter().find(|pool| pool.guid() == seen.pool);
            let dataset = pool.and_then(|pool| pool.filer.filesystem(seen.dataset)).map(|dataset| dataset.name());
            MountReport {
                number: seen.number,
                dataset: dataset.unwrap_or_else(|| "-".into()),
                pool: pool.map_or_else(|| "-".into(), |pool| pool.filer.name()),
                dir: seen.dir,
                device: seen.device,
                since_seconds: seen.since.elapsed().as_secs(),
                waiting: seen.waiting as u64,
            }
        };
        self.mounts.all().into_iter().map(report).collect()
    }

    /// Adds a dataset that was just made to the export table. Nobody else changes that: the daemon's own thread alone makes
    /// datasets, and copies of disks have none.
    pub(super) fn export_also(&self, pool: &ServedPool, filesystem: &Filesystem) {
        let export = dataset_export(&filesystem.name(), filesystem);
        let table = self.live.table().with(pool.guid(), &export, &self.above.lock());
        self.live.replace(&table);
        self.bell.ring();
    }

    /// Works the export table out anew: after every change of a pool, a dataset or a rule.
    pub fn refresh_exports(&self) {
        let absent = self.absent.exports();
        let present = self.all().into_iter().map(|pool| KnownExports {
            guid: pool.guid(),
            name: pool.filer.name(),
            handle_key: pool.handle_key(),
            datasets: dataset_exports(&pool.filer),
            mounted: Some(pool),
            handover: None,
        });
        let table = ExportTable::new(present.chain(absent).collect(), &self.above.lock());
        self.live.replace(&table);
        self.bell.ring();
    }
}

/// Those that are mounted where programs of this machine find them, as far as its tables can be read. A service may have a copy of the machine's table alone, of which it is told late or never.
fn attached(served: &[MountReport]) -> Vec<MountReport> {
    let tables: Vec<Table> = match served {
        [] => Vec::new(),
        _ => [Table::of_machine(), Table::read()].into_iter().flatten().collect(),
    };
    let is_attached = |mount: &&MountReport| {
        let there = |device| tables.iter().any(|table| table.of(device, &mount.dir).is_some());
        tables.is_empty() || mount.device.is_none_or(there)
    };
    served.iter().filter(is_attached).cloned().collect()
}

fn dataset_export(name: &str, filesystem: &Filesystem) -> DatasetExport {
    let (id, sharenfs) = (filesystem.dataset(), filesystem.in_force().sharenfs.clone());
    DatasetExport { id, name: name.to_owned(), sharenfs }
}

fn dataset_exports(filer: &Filer) -> Vec<DatasetExport> {
    filer.names().iter().map(|Named { name, filesystem }| dataset_export(name, filesystem)).collect()
}

#[cfg(test)]
mod tests;
