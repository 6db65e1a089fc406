//! How a pool comes into memory: made new, or imported with what its log holds.
//!
//! An import goes: choose the uberblock (done by [`tally_members::assemble`]), read the root and the catalog below it, scan all
//! lanes, and only then number the first group: above every group that any uberblock or frame has seen (rules F1). The file system
//! replays; [`Pool::finish_replay`] opens the lanes under new epochs, and the sync that follows is the one commit
//! point of the whole recovery. Until then a crash finds the same disks and decides the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use tally_base::codec::Malformed;
use tally_base::{DatasetId, Time, Txg, VdevIndex};
use tally_disk::{Helpers, Platform};
use tally_intent::recovery::{MergeError, ScanError};
use tally_members::blockdev::{BlockDev, BlockDevs};
use tally_members::choose::{ChooseError, Chosen};
use tally_members::label::{PoolConfig, VdevClass};
use tally_members::roster::{Roster, RosterError};
use tally_members::uberblock::{self, Uberblock};

use super::break_even::BreakEven;
use super::catalog::{Catalog, Top};
use super::held::Held;
use super::joining::Reached;
use super::kept::Kept;
use super::life::Life;
use super::log::{LogContent, read_log};
use super::rewind::{self, RewindError, RewindOrder};
use super::room;
use super::root::PoolRoot;
use super::server_time::ServerTime;
use super::sync::SyncError;
use super::window::{RootArea, Window};
use super::{Pool, Syncing};
use crate::alloc::{AllocRoot, Allocator, LoadError};
use crate::block::BlockError;
use crate::bp::BlockPtr;
use crate::dataset::{Dataset, DatasetEntry, DatasetIo, EntryError, Schema};
use crate::io::BlockIo;
use crate::marks::{LostMarks, Marks};
use crate::properties::effective;
use crate::replies::ReplyCache;
use crate::tuning::Tuning;
use crate::txg::{TxgHistory, Txgs};

/// Why a pool could not be opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum OpenError {
    /// The block from which everything hangs could not be read.
    #[error(
        "the pool's root cannot be read: {0}. No import gets by without it, --readonly neither: bring back the disks of \
         its mirror that are missing; `tally inspect` shows what there is, and `tally pool import --rewind -n` which older \
         group the pool can go back to"
    )]
    Block(#[from] BlockError),
    /// The list of all datasets could not be read.
    #[error(
        "the catalog of the pool's datasets cannot be read: {0}. No import gets by without it, --readonly neither: bring back \
         the disks of its mirror that are missing; `tally inspect` shows what there is, and `tally pool import --rewind -n` \
         which older group the pool can go back to"
    )]
    Catalog(#[source] BlockError),
    /// The pool root is not what its checksum says.
    #[error("the pool's root block or its catalog of datasets is damaged ({0}); see `tally inspect`")]
    Root(#[from] Malformed),
    /// Something in the catalog of datasets is of a newer program.
    #[error(
        "the pool has {what}, which tally {version} does not know: {known_by}; nothing was changed",
        version = env!("CARGO_PKG_VERSION")
    )]
    Newer {
        what: &'static str,
        /// Which program to use, as far as the labels say.
        known_by: String,
    },
    /// The space maps could not be loaded.
    #[error("{0}")]
    Space(#[from] LoadError),
    /// The log contradicts itself.
    #[error("{0}")]
    Scan(#[from] ScanError),
    /// Two lanes contradict each other.
    #[error("{0}")]
    Merge(#[from] MergeError),
    /// The log has seen a newer uberblock than the disks have.
    #[error("{0}")]
    Choose(#[from] ChooseError),
    /// The labels could not be written.
    #[error("{0}")]
    Roster(#[from] RosterError),
    /// The first group could not be synced.
    #[error("{0}")]
    Sync(#[from] SyncError),
    /// It cannot go back.
    #[error("{0}")]
    Rewind(#[from] RewindError),
    /// A number has come to the end of its range.
    #[error(
        "the newest {what} of the pool is {number}, and there are none behind it: the pool was written by faulty software; \
         import it with --readonly to save what is there"
    )]
    NoRoom {
        /// What is numbered: a life, an object id, a log record.
        what: &'static str,
        /// The number that has no successor here.
        number: u64,
    },
    /// Acknowledged records are gone.
    #[error(
        "acknowledged changes are missing from the intent log:\n{report}bring the missing log device back, if one is \
         missing, and import again, or give those changes up with --accept-loss; --readonly looks at what is there and \
         changes nothing"
    )]
    LogLost {
        /// Which, one line each.
        report: String,
    },
}

impl From<EntryError> for OpenError {
    fn from(error: EntryError) -> Self {
        match error {
            EntryError::Malformed(malformed) => Self::Root(malformed),
            EntryError::Newer(what) => Self::newer(what),
        }
    }
}

impl OpenError {
    /// Something that this program does not know. Neither its bytes nor, so far, the labels tell who does.
    pub(super) fn newer(what: &'static str) -> Self {
        let known_by = "no feature in its labels says which version does; import it with the one that wrote it".into();
        Self::Newer { what, known_by }
    }

    /// Features that this program does not know say from which version on one does.
    pub(super) fn by_labels(self, config: &PoolConfig) -> Self {
        match (self, config.newer_features()) {
            (Self::Newer { what, .. }, Some(features)) => {
                Self::Newer { what, known_by: format!("its labels have {features}") }
            }
            (error, _) => error,
        }
    }
}

impl Pool {
    /// A new pool on disks that were just put together ([`tally_members::create`]). Its lanes are open; it has no dataset
    /// yet, and can be imported only after its first sync.
    pub fn create(
        platform: &Platform,
        tuning: &Tuning,
        roster: &Arc<Roster>,
        schema: &'static dyn Schema,
    ) -> Result<Arc<Self>, OpenError> {
        let open_gen = roster.claim(&platform.host, platform.rng.as_ref(), 0)?;
        let devs = data_vdevs(roster);
        let alloc = Arc::new(Allocator::create(&devs, &rings_in_pool(roster)));
        let uberblock = Uberblock {
            pool: roster.config().pool,
            open_gen,
            txg: Txg(0),
            previous: 0,
            time: Time(0),
            time_lease: Time(0),
            root: Vec::new(),
            lanes: Vec::new(),
            clean: false,
            config_sequence: 0,
        };
        let root = PoolRoot::new(Life::first(platform.rng.as_ref()));
        let begin =
            Begin { previous: uberblock.hash(), window: Window::default(), open: Txg(1), lives: 1, read_only: false };
        let top = (
            uberblock,
            None,
            Top {
                root,
                datasets: Vec::new(),
                names: Vec::new(),
                kept: BTreeMap::new(),
                marks: BTreeMap::new(),
                lost_marks: LostMarks::default(),
            },
        );
        let pool = Self::assemble(platform, tuning, roster, schema, (devs, alloc), top, begin);
        {
            // Its first uberblock makes the pool, and the lanes with it.
            let mut syncing = pool.syncing.lock();
            syncing.opening = pool.fresh_lanes();
            pool.open_lanes(&mut syncing);
        }
        Ok(pool)
    }

    /// A pool from its chosen uberblock, and what is to be replayed. With `accept_loss` what the log has lost is given
    /// up; otherwise a loss is an error, unless the pool is only read.
    pub fn load(
        platform: &Platform,
        tuning: &Tuning,
        roster: &Arc<Roster>,
        chosen: &Chosen,
        options: LoadOptions,
        schema: &'static dyn Schema,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Arc<Self>, LogContent), OpenError> {
        let devs = data_vdevs(roster);
        let (mut chosen, mut gone_back, mut heard) = (chosen.clone(), None, None);
        if let Some(order) = options.rewind {
            let planned = rewind::plan(platform, &devs, platform.helpers, roster, &chosen, order);
            let (back, report, all) = planned.map_err(|error| error.by_labels(&roster.config()))?;
            (chosen, gone_back, heard) = (back, Some(report), Some(all));
        }
        let chosen = &chosen;
        let uberblock = chosen.uberblock.clone();
        let found = rewind::read_root_and_top(&devs, platform.helpers, &uberblock);
        let (pointer, alloc_root, mut top) = found.map_err(|error| error.by_labels(&roster.config()))?;
        check_lanes(roster, &top)?;
        let (mut content, seen) = match chosen.rewind {
            Some(_) => rewind::drop_log(roster, chosen, heard)?,
            None => read_log(roster, &uberblock, chosen, &top, progress)?,
        };
        content.gone_back = gone_back;
        if !content.losses.is_empty() && !options.read_only && !options.accept_loss {
            return Err(OpenError::LogLost { report: content.losses.join("\n") + "\n" });
        }
        let alloc = Arc::new(load_space(
            roster,
            (&devs, platform.helpers),
            &alloc_root,
            &uberblock,
            options,
            &mut content.remarks,
        )?);
        let mut open = seen.max(chosen.txg_max).max(uberblock.txg).next();
        let mut begin = Begin {
            previous: uberblock.hash(),
            window: Window::found(
                uberblock.txg,
                rewind::depth_of(chosen, &RootArea::decode(&uberblock.root)?),
                chosen.before.iter().map(|before| before.txg),
            ),
            open,
            lives: 1,
            read_only: options.read_only,
        };
        let mut uberblock = uberblock;
        if chosen.rewind.is_some() {
            // What else it has to be like stands in the head of `rewind`.
            while !uberblock::are_apart(open, uberblock.txg) {
                open = open.next();
            }
            begin.open = open;
            let newest_gen = chosen.open_gen_max.max(roster.config().open_gen);
            begin.lives = (newest_gen + 1).saturating_sub(uberblock.open_gen).max(1);
            let number = top.root.life.number.saturating_add(begin.lives);
            if number >= room::DRAWN_ROOM_END {
                return Err(OpenError::NoRoom { what: "life", number });
            }
            uberblock.clean = false;
            uberblock.time_lease = uberblock.time_lease.max(chosen.time_lease_max);
            top.root.next_dataset += rewind::LOST_DATASETS_MAX;
        }
        if !options.read_only {
            // As much room as the pool had that was let in by it: what is replayed must fit again (rules F19). Behind the newest
            // uberblock all of this was free, and nothing is taken before the claim.
            alloc.released_before(uberblock.txg, begin.window.reusable_before());
            room::check(&roster.config(), &uberblock, &top, &content, open)?;
            let (host, rng) = (&platform.host, platform.rng.as_ref());
            let kept_gen = uberblock.open_gen;
            uberblock.open_gen = match chosen.rewind.filter(|_| options.rewind.is_some()) {
                Some(rewind) => roster.claim_going_back(host, rng, chosen.open_gen_max, rewind)?,
                None => roster.claim(host, rng, chosen.open_gen_max)?,
            };
            if chosen.rewind.is_some() {
                begin.lives = uberblock.open_gen - kept_gen;
            }
        }
        let (marks, lost) = (std::mem::take(&mut top.marks), std::mem::take(&mut top.lost_marks));
        let top = (uberblock, Some(pointer), top);
        let pool = Self::assemble(platform, tuning, roster, schema, (devs, alloc), top, begin);
        if !lost.is_empty() {
            pool.syncing.lock().catalog.note_damage();
        }
        if chosen.rewind.is_some() {
            pool.forget_replies();
            pool.marks.forget_all(marks);
            if !options.read_only {
                pool.scrub_by_itself();
            }
        } else {
            pool.load_replies(&mut content.remarks);
            let can_be = |dataset: DatasetId, txg: Txg, time: Time| {
                dataset.0 < room::DRAWN_ROOM_END && txg.0 < room::DRAWN_ROOM_END && time < room::TIME_ROOM_END
            };
            pool.replies.note_loaded(pool.marks.load(marks, lost, &can_be, &mut content.remarks));
        }
        Ok((pool, content))
    }

    fn assemble(
        platform: &Platform,
        tuning: &Tuning,
        roster: &Arc<Roster>,
        schema: &'static dyn Schema,
        (devs, alloc): (BlockDevs, Arc<Allocator>),
        (uberblock, root_block, top): (Uberblock, Option<BlockPtr>, Top),
        begin: Begin,
    ) -> Arc<Self> {
        let Begin { previous, window, open, lives, read_only } = begin;
        alloc.keep_maps(tuning.space_map_bytes);
        let io = BlockIo::new(devs, alloc, tuning.cache_bytes, platform.helpers);
        if rings_in_pool(roster).is_empty() {
            io.has_no_log_beside();
        }
        let unreplayed = root_block.is_some().then(|| uberblock.lanes.clone());
        let (changes, datasets) = (Arc::default(), datasets_of(&top));
        let root = top.root;
        // A pool that was not exported may have lost something, of which nobody knows what it was.
        let is_same_life = root_block.is_none() || uberblock.clean;
        let life = if is_same_life { root.life } else { root.life.after(lives, platform.rng.as_ref()) };
        let mut catalog = Catalog::new(root.catalog);
        for dataset in datasets.values() {
            dataset.join(&changes, DatasetIo::new(&io, schema));
            let root = dataset.root();
            catalog.note_found(dataset.birth.id, || dataset.entry(&root));
            // The reaper of the life before has left something to do.
            if root.orphan_count > 0 {
                dataset.note_change(open);
            }
        }
        let guid = uberblock.pool;
        let time = ServerTime::new(
            Arc::clone(&platform.clock),
            (uberblock.txg > Txg(0)).then_some(uberblock.time),
            uberblock.time_lease,
        );
        let mut syncing = Syncing {
            uberblock,
            previous,
            window,
            root: root_block,
            catalog,
            log_txg: root.log_txg,
            reply_blocks: root.reply_blocks,
            old_roots: Vec::new(),
            unreplayed,
            promised: BTreeMap::new(),
            opening: Vec::new(),
            put_away: false,
        };
        datasets.values().for_each(|dataset| syncing.promise(dataset.birth.id, dataset.root().reserved_bytes));
        let txgs = if tuning.txg_interval.is_zero() {
            Txgs::at_once(open, tuning.dirty_bytes_max)
        } else {
            Txgs::new(open, tuning.dirty_bytes_max)
        };
        txgs.promise_room(syncing.promised_bytes());
        Arc::new(Self {
            platform: platform.clone(),
            tuning: tuning.clone(),
            roster: Arc::clone(roster),
            io,
            txgs,
            history: TxgHistory::default(),
            replies: ReplyCache::default(),
            marks: Marks::default(),
            guid,
            lanes: ArcSwap::default(),
            homes: OnceLock::new(),
            datasets: RwLock::new(datasets),
            changes,
            schema,
            kept: Kept::new(top.kept),
            reached: Reached::default(),
            tombstones: Mutex::new(root.tombstones),
            next_dataset: AtomicU64::new(root.next_dataset),
            life,
            change_floor: AtomicU64::new(life.change_floor.0),
            time,
            break_even: BreakEven::default(),
            syncing: Mutex::new(syncing),
            held: Held::default(),
            opened: platform.clock.monotonic(),
            alarms: Mutex::default(),
            fault: OnceLock::new(),
            closed: AtomicBool::new(false),
            read_only,
        })
    }

    /// Remembered answers are a service to clients that ask twice. One that cannot be read is forgotten: no reason to keep
    /// the pool from everybody (rules S3).
    fn load_replies(&self, remarks: &mut Vec<String>) {
        let blocks = self.syncing.lock().reply_blocks;
        for (bucket, block) in blocks.iter().enumerate() {
            let Some(block) = block else { continue };
            let read = self.io.read(block).map_err(|error| error.to_string());
            let loaded = read.and_then(|bytes| self.replies.load(&bytes).map_err(|error| error.to_string()));
            if let Err(why) = loaded {
                // The damage goes with the first group.
                self.replies.rewrite(bucket);
                remarks.push(format!(
                    "a block of the reply cache is damaged: some clients that send a request from before this import \
                     again will have it carried out again. {why}"
                ));
            }
        }
    }

    /// The pool has gone back: the answers that its root remembers are given up with what was behind them.
    fn forget_replies(&self) {
        let blocks = self.syncing.lock().reply_blocks;
        let there = blocks.iter().enumerate().filter(|(_, block)| block.is_some());
        there.for_each(|(bucket, _)| self.replies.rewrite(bucket));
    }

    /// Whether the chosen uberblock was the last of a clean export.
    #[must_use]
    pub fn was_exported_cleanly(&self) -> bool {
        self.syncing.lock().uberblock.clean
    }

    /// Everything is replayed: makes that durable, and opens the lanes under new epochs. The pool serves from here on.
    ///
    /// Legs that were stale join their lanes' sets only behind the uberblock that names the new epochs. Before it
    /// they have not got what a crash would still replay. What was given up is written down before, so that it is
    /// never gone without a word; after a crash in between, the import decides again.
    pub fn finish_replay(&self, losses: &[String]) -> Result<(), OpenError> {
        let mut syncing = self.syncing.lock();
        if !losses.is_empty() {
            self.roster.note_loss(self.platform.clock.now(), syncing.uberblock.txg, losses)?;
        }
        if !syncing.uberblock.clean {
            // Above all that was told of what is lost: behind the lease, and behind what the replay has learnt.
            self.change_floor.store(self.issue_time().0, Ordering::Relaxed);
        }
        self.bound_marks();
        self.marks.begin_life();
        syncing.unreplayed = None;
        syncing.opening = self.fresh_lanes();
        self.forget_lost_joins();
        self.sync_locked(&mut syncing, false)?;
        self.roster.rejoin_lanes()?;
        self.open_lanes(&mut syncing);
        Ok(())
    }
}

/// How a pool is to be loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Nothing is written, not even what is replayed.
    pub read_only: bool,
    /// Go on without acknowledged changes that the log has lost.
    pub accept_loss: bool,
    /// Go back to an older group.
    pub rewind: Option<RewindOrder>,
}

/// How a pool begins, beside what its uberblock says.
struct Begin {
    /// Hash of that uberblock as it stands on the disks.
    previous: u64,
    window: Window,
    open: Txg,
    /// Lives that this one may have to be behind, if it is another one.
    lives: u64,
    read_only: bool,
}

fn data_vdevs(roster: &Roster) -> BlockDevs {
    roster.data_vdevs().map(|vdev| (vdev.index(), Arc::clone(vdev) as Arc<dyn BlockDev>)).collect()
}

/// The space index. Who only reads needs none: where it is damaged, or does not fit the disks, the pool is full, and that
/// is told; and no map is looked at.
fn load_space(
    roster: &Roster,
    (devs, helpers): (&BlockDevs, Helpers),
    root: &AllocRoot,
    uberblock: &Uberblock,
    options: LoadOptions,
    remarks: &mut Vec<String>,
) -> Result<Allocator, LoadError> {
    let rings = if options.read_only { Vec::new() } else { rings_in_pool(roster) };
    let loaded = Allocator::load(devs, root, uberblock.txg, helpers, remarks)
        .and_then(|alloc| alloc.check_rings(&rings).map(|()| alloc));
    match loaded {
        Err(why) if options.read_only => {
            remarks.push(format!("how much of the pool is free is not known, and all of it counts as in use: {why}"));
            Ok(Allocator::without_maps(devs, uberblock.txg))
        }
        loaded => loaded,
    }
}

/// For the reading of a catalog: the way from its root to a leaf, and leaves that are read together.
const CATALOG_CACHE_BYTES: u64 = 4 << 20;

/// The datasets below a root. Nothing is written, and no space map is needed for it.
pub(super) fn read_top(
    devs: &BlockDevs,
    helpers: Helpers,
    root: PoolRoot,
    uberblock: &Uberblock,
) -> Result<Top, OpenError> {
    // What a root says of the log was true when it was written.
    if root.log_txg > uberblock.txg {
        return Err(Malformed("pool root").into());
    }
    Top::read(root, &BlockIo::for_reading(devs.clone(), CATALOG_CACHE_BYTES, helpers))
}

/// A dataset logs to one of the pool's lanes, whatever its entry says.
fn check_lanes(roster: &Roster, top: &Top) -> Result<(), Malformed> {
    let lanes = roster.config().lanes;
    let known = |entry: &DatasetEntry| lanes.iter().any(|line| line.lane == entry.birth.lane);
    if top.datasets.iter().all(known) { Ok(()) } else { Err(Malformed("lane of a dataset")) }
}

/// The rings that lie on data vdevs: not the allocator's to give.
pub(super) fn rings_in_pool(roster: &Roster) -> Vec<(VdevIndex, u64, u64)> {
    let config = roster.config();
    let data = config.vdevs_present().filter(|vdev| vdev.class == VdevClass::Data);
    data.filter_map(|vdev| vdev.ring.map(|ring| (vdev.index, ring.start, ring.length))).collect()
}

fn datasets_of(top: &Top) -> BTreeMap<DatasetId, Arc<Dataset>> {
    let named = || top.named().filter_map(|(entry, name)| Some((entry, name?)));
    let local: HashMap<&str, _> = named().map(|(entry, name)| (name, &entry.line.local)).collect();
    let make = |(entry, name): (&DatasetEntry, &str)| {
        let chain: Vec<_> = ancestors(name).filter_map(|name| local.get(name).copied()).collect();
        Arc::new(Dataset::new(entry.birth, entry.line.clone(), name, effective(&chain), entry.root.clone()))
    };
    named().map(|(entry, name)| (entry.birth.id, make((entry, name)))).collect()
}

/// The names above a dataset, the topmost first, and its own.
pub fn ancestors(name: &str) -> impl Iterator<Item = &str> {
    let slashes = name.match_indices('/').map(|(at, _)| &name[..at]);
    slashes.chain(std::iter::once(name))
}
