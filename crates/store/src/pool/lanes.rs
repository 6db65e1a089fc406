//! Which lanes of the intent log are open, and how that changes while the pool is imported.
//!
//! A lane can be without a disk: its log device was missing at the import, or failed since. The pool serves on: what would
//! have gone there waits for its transaction group, which is slow and safe. Two things must then hold.
//!
//! **A lane that nobody writes binds nobody.** The uberblock names a lane only while a record in it may be needed. So a pool
//! that has synced since its log device failed can be imported without that device, and the device, should it come
//! back, has nothing that anybody believes: what counts is whether the uberblock names its epoch.
//!
//! **A lane is named before it is written.** A record of an epoch that no uberblock knows is lost in a crash, so a lane
//! that opens (after a replay, or on a new disk) is in an uberblock, with an empty ring, before anybody can append.
//!
//! ```text
//!            fresh checkpoint             its uberblock is durable           every leg failed
//!  no disk ───────────────────▶ opening ──────────────────────────▶ open ────────────────────▶ ended
//!     ▲                                                              named in every uberblock    │ a group is synced:
//!     └──────────────────────────────────────────────────────────────────────────────────────────┘ not named any more
//! ```
//!
//! A dataset's records go to one lane as long as the pool is imported, its *home*: the lane it was born with, or another
//! of those that were open at the import. Recovery asks for no home: it merges all lanes by dseq (rules F2).

use std::sync::Arc;

use tally_base::{DatasetId, LaneId, Lsn, Txg, VdevGuid, VdevIndex};
use tally_intent::{Checkpoint, Lane};
use tally_members::label::{PoolConfig, VdevClass};
use tally_members::roster::RosterError;
use tally_members::uberblock::Uberblock;
use tally_members::vdev::LegState;

use super::open::OpenError;
use super::{Pool, Syncing};
use crate::dataset::DatasetBirth;
use crate::txg::Cause;

/// Before a lane changes its ring, and after it: the uberblock before the newest must not need the other one, as a torn
/// uberblock may cost nothing (rules F8).
const SYNCS_AROUND_A_NEW_RING: usize = 2;

impl Pool {
    /// A lane of its intent log; `None` while it has no disk.
    #[must_use]
    pub fn lane(&self, id: LaneId) -> Option<Arc<Lane>> {
        self.lanes.load().iter().find(|lane| lane.id() == id).cloned()
    }

    /// All lanes that have a disk, failed ones included; none before [`Self::finish_replay`].
    #[must_use]
    pub fn lanes(&self) -> Arc<Vec<Arc<Lane>>> {
        self.lanes.load_full()
    }

    /// The lane that takes a dataset's records as long as the pool is imported.
    #[must_use]
    pub fn home_of(&self, birth: &DatasetBirth) -> LaneId {
        home_among(self.homes.get().map_or(&[], Vec::as_slice), birth.lane, birth.id)
    }

    /// As many bytes as a lane takes in the time of a group ([`super::break_even`]), and one client may put into it.
    #[must_use]
    pub fn break_even_bytes(&self, lane: &Lane) -> u64 {
        self.break_even.bytes(lane.id()).min(lane.share_bytes())
    }

    /// As many bytes as take a lane as long as beginning a frame does: whoever waits behind them waits for two turns of its
    /// disk.
    #[must_use]
    pub fn turn_bytes(&self, lane: &Lane) -> u64 {
        self.break_even.turn_bytes(lane.id())
    }

    /// The lane for a new dataset.
    #[must_use]
    pub fn draw_home(&self, id: DatasetId) -> LaneId {
        let open = self.homes.get().map_or(&[][..], Vec::as_slice);
        spread(open, id).or_else(|| self.roster.config().lanes.first().map(|line| line.lane)).unwrap_or(LaneId(0))
    }

    /// Opens the lane whose ring lies on the vdev of `leg` anew, on that leg alone: after its disk was missing, or failed.
    /// The caller gives it a thread ([`Lane::run`]).
    pub fn renew_lane(&self, id: LaneId, leg: VdevGuid) -> Result<Arc<Lane>, OpenError> {
        let mut syncing = self.lock_for_group();
        for _ in 0..SYNCS_AROUND_A_NEW_RING {
            self.sync_locked(&mut syncing, false)?;
        }
        let old = self.lane(id);
        assert!(old.as_ref().is_none_or(|lane| lane.has_ended()), "lane {id} is open and needs no other ring");
        // Objects remember the numbers of their last records: in the new life these lie behind it, as they are durable.
        let next_lsn = old.map_or(Lsn(1), |lane| lane.checkpoint(syncing.uberblock.txg).next_lsn);
        self.keep_lanes(|lane| lane.id() != id);
        self.roster.renew_lane(id, leg)?;
        let fresh = Checkpoint::fresh(self.platform.rng.as_ref());
        let fresh = Checkpoint { next_lsn, durable_lsn: Lsn(next_lsn.0 - 1), ..fresh };
        syncing.opening = vec![(id, fresh)];
        for _ in 0..SYNCS_AROUND_A_NEW_RING {
            self.sync_locked(&mut syncing, false)?;
        }
        self.open_lanes(&mut syncing);
        self.lane(id).ok_or(OpenError::Roster(RosterError::Leg { leg, why: "failed when its ring was opened" }))
    }

    /// A fresh life for every lane that has a disk.
    pub(super) fn fresh_lanes(&self) -> Vec<(LaneId, Checkpoint)> {
        let config = self.roster.config();
        let has_disk = |index: VdevIndex| {
            let legs = self.roster.vdevs().iter().find(|vdev| vdev.index() == index).map(|vdev| vdev.legs());
            // A stale leg of a log device has nothing to catch up with once the ring is empty.
            let usable = |state| state == LegState::Online || is_log(&config, index) && state == LegState::Stale;
            legs.into_iter().flatten().any(|leg| usable(leg.state()))
        };
        let lines = config.lanes.iter().filter(|line| has_disk(line.vdev));
        lines.map(|line| (line.lane, Checkpoint::fresh(self.platform.rng.as_ref()))).collect()
    }

    /// Opens the lanes that the newest uberblock names for the first time. They take records from here on.
    pub(super) fn open_lanes(&self, syncing: &mut Syncing) {
        let mut lanes = (*self.lanes()).clone();
        let config = self.roster.config();
        for (id, checkpoint) in std::mem::take(&mut syncing.opening) {
            let line = config.lanes.iter().find(|line| line.lane == id);
            let Some(config) = line.map(|line| self.roster.lane_config(line)).filter(|config| !config.legs.is_empty())
            else {
                tracing::error!("lane {id} of the intent log has lost its disk before it was opened");
                continue;
            };
            let lane = Lane::open(config, &checkpoint, Arc::clone(&self.platform.clock));
            if syncing.root.is_some() {
                lane.release(syncing.uberblock.txg, &checkpoint);
            }
            self.watch_failure(&lane);
            self.roster.watch_lane(&lane);
            lanes.push(lane);
        }
        lanes.sort_by_key(|lane| lane.id());
        // Fixed by the first call: a dataset that changed its lane with records under way would wait for the wrong ones.
        let _fixed = self.homes.set(lanes.iter().map(|lane| lane.id()).collect());
        self.lanes.store(Arc::new(lanes));
    }

    fn watch_failure(&self, lane: &Lane) {
        let txgs = Arc::downgrade(&self.txgs);
        lane.on_failure(Box::new(move |failure| {
            tracing::error!("{failure}; changes wait for transaction groups until it is replaced");
            // What was acknowledged is in memory only from here on: get it to the pool at once (rules F6).
            if let Some(txgs) = txgs.upgrade() {
                txgs.want(Cause::Chore);
            }
        }));
    }

    fn keep_lanes(&self, keep: impl Fn(&Lane) -> bool) {
        let kept = self.lanes().iter().filter(|lane| keep(lane)).cloned().collect();
        self.lanes.store(Arc::new(kept));
    }

    /// The lanes as the uberblock of `txg` names them: those that open with it, and those that may hold a record of a
    /// later group.
    pub(super) fn checkpoints(&self, syncing: &Syncing, txg: Txg, clean: bool) -> Vec<(LaneId, Checkpoint)> {
        if let Some(found) = &syncing.unreplayed {
            return found.clone();
        }
        let lanes = self.lanes();
        let needed = lanes.iter().filter(|lane| !lane.is_spent(txg));
        let open = needed.map(|lane| (lane.id(), Checkpoint { clean, ..lane.checkpoint(txg) }));
        open.chain(syncing.opening.iter().copied()).collect()
    }

    /// The uberblock is durable: what lies before its checkpoints can be overwritten.
    pub(super) fn release_rings(&self, uberblock: &Uberblock) {
        let lanes = self.lanes();
        for (id, checkpoint) in &uberblock.lanes {
            if let Some(lane) = lanes.iter().find(|lane| lane.id() == *id) {
                lane.release(uberblock.txg, checkpoint);
            }
        }
    }
}

fn is_log(config: &PoolConfig, index: VdevIndex) -> bool {
    config.vdev(index).is_some_and(|vdev| vdev.class == VdevClass::Log)
}

/// The lane that a dataset writes to while `open` are: its own if that is one of them, else one of the others. With
/// none open it is its own, which may get a disk again.
pub(super) fn home_among(open: &[LaneId], born: LaneId, id: DatasetId) -> LaneId {
    if open.contains(&born) { born } else { spread(open, id).unwrap_or(born) }
}

/// The lane with the highest hash of lane and dataset (rendezvous), so that datasets spread evenly.
fn spread(lanes: &[LaneId], id: DatasetId) -> Option<LaneId> {
    lanes.iter().copied().max_by_key(|lane| tally_base::name_hash(lane.0, &id.0.to_le_bytes()))
}
