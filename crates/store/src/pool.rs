//! An imported pool: everything that its datasets share.
//!
//! The pool owns the one commit point of the whole system. [`Pool::sync`] turns the open transaction group into
//! blocks, and only the last of its steps makes them true:
//!
//! ```text
//!  1 close the group           operations go on in the next one
//!  2 fold every dataset that has changed, and the catalog of them                ┐
//!  3 write the reply cache, the pool root and the space maps                     │ a crash here leaves the
//!  4 flush every data vdev     what the uberblock will name is durable (I2)      │ previous group, and the log
//!  5 write the uberblock       durably, to all labels  ◀── the commit point      ┘
//!  6 trim the lanes            one uberblock behind (rules F8)
//!  7 publish                   new roots are read, layers go, waiters are told
//! ```
//!
//! | field | guarded by |
//! |---|---|
//! | `syncing` | its mutex: held over a whole sync, an export, a change of the configuration |
//! | `datasets` | its lock, briefly; what hangs below has its own |
//! | `lanes` | read by all; replaced under `syncing` |
//! | `kept` | a mutex of its own, for a few instructions |
//! | `held`, `alarms` | a mutex each, for a few instructions |
//! | `time` | atomics, and a mutex of its own that is held for a few instructions |
//! | `fault` | set once; from then on nothing is believed (I7) |
//!
//! Lock order: `syncing`, then `datasets`, then what is below.

mod admit;
mod break_even;
mod catalog;
mod chronicle;
mod damage;
mod held;
mod job;
mod joining;
mod kept;
mod lanes;
mod life;
mod log;
pub mod membership;
mod open;
mod rewind;
mod room;
mod root;
mod schedule;
mod secure;
mod server_time;
pub mod spares;
mod sync;
mod window;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use tally_base::{Broken, DatasetId, LaneId, PoolGuid, Time, Txg, Wait};
use tally_disk::Platform;
use tally_intent::{Checkpoint, Lane};
use tally_members::roster::Roster;
use tally_members::uberblock::Uberblock;

use crate::bp::BlockPtr;
use crate::dataset::{Changes, Dataset, DatasetIo, Schema};
use crate::io::BlockIo;
use crate::key::Key;
use crate::marks::Marks;
use crate::replies::{BUCKETS, ReplyCache};
use crate::tuning::Tuning;
use crate::txg::{Cause, TxgHistory, Txgs};
use break_even::BreakEven;
use bytes::Bytes;
use catalog::{Catalog, Entries};
use held::Held;
use joining::Reached;
use kept::Kept;
use server_time::ServerTime;
use window::Window;

pub use admit::{NotServing, SpaceClass};
pub(crate) use catalog::{Top, entry_of, names_of};
pub use chronicle::{COMMANDS_MAX, Command, EVENTS_MAX, Event};
pub use damage::{DamageList, MetBlock, MetBy, MetDamage, Spot};
pub(crate) use damage::{Line, line_of};
pub(crate) use job::job_of;
pub use job::{Cursor, JobState, ScrubJob};
pub use joining::JoinJob;
pub(crate) use joining::join_of;
pub use kept::DAMAGE_PLACES_MAX;
pub use life::Life;
pub use log::LogContent;
pub(crate) use log::cursor_of;
pub use open::{LoadOptions, OpenError, ancestors};
pub use rewind::{GoneBack, RewindError, RewindOrder, RewindTo};
pub use room::{DRAWN_ROOM_END, TIME_ROOM_END};
pub(crate) use root::PoolRoot;
pub use schedule::ScrubEvery;
pub(crate) use schedule::schedule_of;
pub use secure::{LostBlock, Owner, SecureError, SecureReport, SpaceAlarm, SpaceFound};
pub use server_time::{ClockFault, PROBATION};
pub use sync::{SuspendsOnPanic, SyncError};
pub use window::DEPTH_MAX;
pub(crate) use window::RootArea;

/// A pool that was imported, until it is exported or dropped.
pub struct Pool {
    /// The world around it.
    pub platform: Platform,
    /// Memory and time that it may use.
    pub tuning: Tuning,
    /// Its disks and their configuration.
    pub roster: Arc<Roster>,
    /// Verified blocks, with their cache, over the allocator.
    pub io: Arc<BlockIo>,
    /// The group that is open, and those on their way to disk.
    pub txgs: Arc<Txgs>,
    /// Those that were synced since the import.
    pub history: TxgHistory,
    /// Answers that are remembered for requests that are sent again.
    pub replies: ReplyCache,
    /// What requests of sessions have changed.
    pub marks: Marks,
    guid: PoolGuid,
    /// Those with a disk; changed under `syncing` only.
    lanes: ArcSwap<Vec<Arc<Lane>>>,
    /// The lanes that were open when the pool began to serve: where datasets are at home.
    homes: OnceLock<Vec<LaneId>>,
    datasets: RwLock<BTreeMap<DatasetId, Arc<Dataset>>>,
    /// Those that groups have changed which are not synced yet.
    changes: Arc<Changes>,
    /// What their keys mean.
    schema: &'static dyn Schema,
    /// What else the catalog says.
    kept: Kept,
    /// What it says of copies when their disks were flushed.
    reached: Reached,
    /// Datasets that were destroyed, until the log has forgotten them (rules F18).
    tombstones: Mutex<BTreeMap<DatasetId, Txg>>,
    next_dataset: AtomicU64,
    /// What this import shows; its floor apart.
    life: Life,
    /// No file shows an older change. Rises once, when the replay of what was not exported is done.
    change_floor: AtomicU64,
    time: ServerTime,
    break_even: BreakEven,
    syncing: Mutex<Syncing>,
    /// Those who hold blocks.
    held: Held,
    /// When the pool was opened, by the clock that nobody sets.
    opened: Duration,
    /// What scrubs have found ([`SpaceAlarm`]).
    alarms: Mutex<Vec<SpaceAlarm>>,
    fault: OnceLock<Broken>,
    /// Exported or being exported: nothing is admitted any more.
    closed: AtomicBool,
    read_only: bool,
}

/// What only a sync, an import and an export touch.
struct Syncing {
    /// The newest durable uberblock, of this import's generation.
    uberblock: Uberblock,
    /// Its hash as it stands on the disks.
    previous: u64,
    /// The roots that are whole.
    window: Window,
    /// The pool root block that it names.
    root: Option<BlockPtr>,
    /// The datasets below it.
    catalog: Catalog,
    /// Up to which group the log's records are in the trees, as it says (rules F1).
    log_txg: Txg,
    reply_blocks: [Option<BlockPtr>; BUCKETS],
    /// What holds a root that was replaced and may still be read, by the group that it belongs to.
    old_roots: Vec<(Txg, Weak<dyn Any + Send + Sync>)>,
    /// While records are unreplayed: the lanes as import found them. Trees move on, the log does not (rules F1).
    unreplayed: Option<Vec<(LaneId, Checkpoint)>>,
    /// What datasets promise room for, bytes each; none that promises nothing.
    promised: BTreeMap<DatasetId, u64>,
    /// Lanes that open as soon as a durable uberblock names them.
    opening: Vec<(LaneId, Checkpoint)>,
    /// Exported or destroyed: the labels say so, and nothing is written any more.
    put_away: bool,
}

impl Pool {
    /// Its name for ever.
    #[must_use]
    pub fn guid(&self) -> PoolGuid {
        self.guid
    }

    /// What this import shows of every dataset.
    #[must_use]
    pub fn life(&self) -> Life {
        Life { change_floor: Time(self.change_floor.load(Ordering::Relaxed)), ..self.life }
    }

    /// Whether it was imported for reading only.
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// Server time for a change whose record the log gets: never the same twice, never going back, not even over a crash
    /// (rules F14).
    #[must_use]
    pub fn issue_time(&self) -> Time {
        self.time.issue()
    }

    /// The same for a change that only its transaction group tells. `None` if its time could come again after a crash: a
    /// logged change has passed the lease since [`Self::renewed_lease`] was asked.
    #[must_use]
    pub fn issue_unlogged_time(&self) -> Option<Time> {
        self.time.issue_leased()
    }

    /// What a change that only its transaction group tells waits for before it begins, if its time could come again after a
    /// crash: no group was synced for long, or a time was issued since that only the log tells, and perhaps does not. Else,
    /// where something is dirty, a sync is near and times wait for it.
    #[must_use]
    pub fn renewed_lease(&self) -> Option<Wait> {
        let is_due = self.time.is_past_lease() || (self.time.is_lease_over() && self.txgs.dirty_bytes() == 0);
        is_due.then(|| self.txgs.next_sync())
    }

    /// A record of the log was issued this time: from now on only later ones are.
    pub fn learn_time(&self, time: Time) {
        self.time.learn(time);
    }

    /// The clock of day, as far as it is believed.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(self.time.now())
    }

    /// How far the machine's clock and the pool's times are apart, if that is more than can be.
    #[must_use]
    pub fn clock_fault(&self) -> Option<ClockFault> {
        self.time.fault()
    }

    /// An administrator says that the machine's clock is right: times go on from there, though it be back.
    pub fn accept_clock(&self) -> Result<(), SyncError> {
        let mut syncing = self.lock_for_group();
        // A replay would learn the times of what is in the log: that is taken in before, and the new ones count from the
        // group behind it.
        self.sync_locked(&mut syncing, false)?;
        if !self.time.accept_clock() {
            return Err(SyncError::Clock);
        }
        self.sync_locked(&mut syncing, false)?;
        Ok(())
    }

    /// Writes a command down that has changed the pool, with the next group that is synced, for which it asks.
    pub fn note_command(&self, command: &Command) {
        if self.read_only || self.closed.load(Ordering::Acquire) {
            return;
        }
        self.kept.note_command(command);
        self.txgs.want(Cause::Chore);
    }

    /// The commands that changed the pool, the oldest first.
    #[must_use]
    pub fn commands(&self) -> Vec<Command> {
        self.kept.commands()
    }

    /// Writes down what happened to the pool, with the next group that is synced; `soon` asks for one. A pool that may not be
    /// written forgets it.
    pub fn note_event(&self, event: &Event, soon: bool) {
        if self.read_only || self.closed.load(Ordering::Acquire) {
            return;
        }
        self.kept.note_event(event);
        if soon {
            self.txgs.want(Cause::Chore);
        }
    }

    /// What happened to the pool, the oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.kept.events()
    }

    /// The time by which remembered answers age: it stands still while the pool is away, and nobody sets it (rules F12).
    #[must_use]
    pub fn time_in_service(&self) -> Time {
        self.replies.time(self.platform.clock.monotonic().saturating_sub(self.opened))
    }

    /// Bytes on disk of what is neither a dataset's nor the allocator's own: the pool root, the catalog and the reply cache,
    /// as of the newest durable group. For checks that account for every allocated sector.
    #[must_use]
    pub fn top_bytes(&self) -> u64 {
        let syncing = self.syncing.lock();
        let catalog = catalog::blocks_of(syncing.catalog.tree(), &self.io);
        let alone = syncing.root.iter().chain(syncing.reply_blocks.iter().flatten());
        alone.chain(catalog.iter().map(|(bp, _)| bp)).map(BlockPtr::asize).sum()
    }

    /// Whether the catalog on disk is what memory knows of all datasets, while nothing is dirty. For checks.
    pub fn check_catalog(&self) -> Result<(), String> {
        let syncing = self.syncing.lock();
        let found = catalog::entries_of(syncing.catalog.tree(), &self.io).map_err(|error| error.to_string())?;
        let pending: BTreeSet<_> = self.kept.pending().into_iter().chain(self.marks.pending()).collect();
        let marks = self.marks.all(Txg(u64::MAX));
        let is_settled = |(key, _): &(Key, Bytes)| !pending.contains(key);
        let known: Entries =
            self.entries(&[]).into_iter().chain(self.kept.all()).chain(marks).filter(is_settled).collect();
        let found: Entries = found.into_iter().filter(is_settled).collect();
        let differs = found.iter().find(|(key, entry)| known.get(key) != Some(entry));
        match differs {
            Some((key, _)) => Err(format!("the catalog says something else of {key:?} than memory")),
            None if found.len() != known.len() => Err("the catalog has fewer entries than memory".to_owned()),
            None => Ok(()),
        }
    }

    /// All datasets, by id.
    #[must_use]
    pub fn datasets(&self) -> Vec<Arc<Dataset>> {
        self.datasets.read().values().cloned().collect()
    }

    /// The dataset with this id, unless it is not there any more.
    #[must_use]
    pub fn dataset(&self, id: DatasetId) -> Option<Arc<Dataset>> {
        self.datasets.read().get(&id).cloned()
    }

    /// An id for a new dataset; never used before in this pool.
    #[must_use]
    pub fn draw_dataset_id(&self) -> DatasetId {
        DatasetId(self.next_dataset.fetch_add(1, Ordering::Relaxed))
    }

    /// Changes the pool by command: `change` runs under a hold on the open group, which is durable when this returns
    /// (rules F18).
    pub fn administer<R>(&self, change: impl FnOnce(&Self, Txg) -> R) -> Result<R, SyncError> {
        let mut syncing = self.lock_for_group();
        self.check_syncing(&syncing)?;
        let hold = self.txgs.hold(None);
        let result = change(self, hold.txg());
        drop(hold);
        self.sync_locked(&mut syncing, false)?;
        Ok(result)
    }

    /// Whether commands can be carried out: for what cannot be taken back if [`Self::administer`] refuses.
    pub fn check_administrable(&self) -> Result<(), SyncError> {
        self.check_syncing(&self.syncing.lock())
    }

    /// Adds a dataset, within [`Self::administer`].
    pub fn add_dataset(&self, dataset: Arc<Dataset>) {
        dataset.join(&self.changes, DatasetIo::new(&self.io, self.schema));
        dataset.note_change(self.txgs.open());
        let added = self.datasets.write().insert(dataset.birth.id, dataset);
        assert!(added.is_none(), "dataset ids are never reused");
    }

    /// Takes a dataset out, within [`Self::administer`], in group `txg`. Its blocks are the caller's to free; its records
    /// mean nothing from that group on.
    pub fn remove_dataset(&self, id: DatasetId, txg: Txg) -> Option<Arc<Dataset>> {
        let removed = self.datasets.write().remove(&id)?;
        self.changes.note_gone(id, txg);
        self.tombstones.lock().insert(id, txg);
        self.replies.purge(id);
        self.marks.purge(id);
        self.forget_damage_of(id);
        Some(removed)
    }

    /// While what this gives is alive, a panic suspends the pool: for steps of which none may be left out. `why` is told.
    #[must_use]
    pub fn suspends_on_panic(&self, why: &'static str) -> SuspendsOnPanic<'_> {
        SuspendsOnPanic { pool: self, why }
    }

    /// Why the pool is suspended, if it is.
    #[must_use]
    pub fn fault(&self) -> Option<&Broken> {
        self.fault.get()
    }

    /// Suspends the pool if a command has found that its labels take no change any more. The next group would find that, too; until
    /// there is one the pool would be called well, and nobody could go on with it.
    pub fn suspend_if_closed(&self) {
        let is_ours = !self.read_only && !self.closed.load(Ordering::Acquire);
        if let Some(why) = is_ours.then(|| self.roster.closed()).flatten() {
            self.suspend(&why);
        }
    }

    /// Suspends the pool: a promise could not be kept, and nothing above believes it any more (I7).
    pub fn suspend(&self, why: &str) {
        let fault = Broken(why.to_owned());
        if self.fault.set(fault.clone()).is_ok() {
            tracing::error!(pool = %self.guid, "suspended: {why}; see `tally pool status`");
            self.txgs.fail(fault);
        }
    }
}
