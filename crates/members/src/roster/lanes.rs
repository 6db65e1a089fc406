//! What the labels say of the intent log: on which legs a lane's frames are to be found.
//!
//! Whatever changes that, a frame that failed or an uberblock, a label or a block that was refused, or a command, the
//! open lanes are told before the change returns ([`Lane::follow`]): lane and labels never name different legs for
//! longer than that, and meanwhile the lane writes to the larger set (rules F6). A frame that missed the last leg of
//! its set ends the lane.

use std::io;
use std::sync::{Arc, Weak};

use tally_base::{LaneId, VdevGuid};
use tally_disk::Disk;
use tally_intent::{Lane, LaneConfig, LaneFailed, Leg, LegSet, StaleLeg};

use super::{Roster, RosterError};
use crate::label::{LABEL_BYTES, LaneConfigLine, Need, PoolConfig, VdevClass};
use crate::vdev::LegState;

impl Roster {
    /// From now on this lane hears which legs the labels name for it.
    pub fn watch_lane(&self, lane: &Arc<Lane>) {
        {
            let mut lanes = self.lanes.lock();
            lanes.retain(|known| known.upgrade().is_some_and(|known| !known.has_ended()));
            lanes.push(Arc::downgrade(lane));
        }
        // What changed since it was given its legs.
        self.tell_lanes(&self.config());
    }

    /// Tells the open lanes what the labels say of their legs. The calls of two threads may arrive in any order: a lane
    /// knows by the generation which is newer.
    pub(super) fn tell_lanes(&self, config: &PoolConfig) {
        let lanes: Vec<_> = self.lanes.lock().iter().filter_map(Weak::upgrade).collect();
        for lane in lanes {
            let Some(line) = config.lanes.iter().find(|line| line.lane == lane.id()) else { continue };
            let is_outside = |guid| config.leg(guid).is_none_or(|(_, leg)| leg.stale_since.is_some());
            lane.follow(&leg_set(line), &is_outside);
        }
    }

    /// Strikes a leg out of a lane and returns the leg set as the labels have it then: what a lane calls when a frame's
    /// write failed on a leg. An error if the set still names that leg, as its last: no frame may be believed without
    /// it.
    pub(super) fn drop_lane_leg(&self, lane: LaneId, guid: VdevGuid, cause: &io::Error) -> Result<LegSet, RosterError> {
        self.drop_leg(guid, cause)?;
        let state = self.state.lock();
        let line = state.config.lanes.iter().find(|line| line.lane == lane);
        let set = leg_set(line.ok_or(RosterError::Leg { leg: guid, why: "is in no such lane" })?);
        if set.legs.contains(&guid) {
            let why = "missed a frame and is the last one that the labels name for its lane";
            return Err(RosterError::Leg { leg: guid, why });
        }
        Ok(set)
    }

    /// A leg that joined a lane has every live frame: takes it into the lane's leg set, and tells the lane. An error if
    /// the leg was struck off meanwhile.
    pub fn take_in_lane_leg(&self, lane: LaneId, guid: VdevGuid) -> Result<LegSet, RosterError> {
        let config = self.update(|config| {
            if config.leg(guid).is_none_or(|(_, leg)| leg.stale_since.is_some()) {
                return;
            }
            let legs = config.vdevs.iter().flat_map(|vdev| &vdev.legs);
            let stale: Vec<_> = legs.filter(|leg| leg.stale_since.is_some()).map(|leg| leg.guid).collect();
            for line in config.lanes.iter_mut().filter(|line| line.lane == lane && !line.legset.contains(&guid)) {
                // One that was struck off and stayed as the last is the last no more.
                let (gone, mut kept): (Vec<_>, Vec<_>) = line.legset.drain(..).partition(|leg| stale.contains(leg));
                line.left.extend(gone.into_iter().map(|leg| (leg, line.legset_gen)));
                kept.push(guid);
                line.legset = kept;
                line.left.retain(|(left, _)| *left != guid);
                line.legset_gen += 1;
            }
        })?;
        let line = config.lanes.iter().find(|line| line.lane == lane && line.legset.contains(&guid));
        line.map(leg_set).ok_or(RosterError::Leg { leg: guid, why: "could not be taken into the lane" })
    }

    /// After a replay, with all rings empty: each lane's leg set becomes all legs that have everything. A stale log leg
    /// has everything then, too. Call it behind the uberblock that names the lanes' new epochs: until then a crash
    /// still replays the old ones, which only the smaller set has. A lane without a disk keeps its set, for the day on
    /// which the disk comes back.
    pub fn rejoin_lanes(&self) -> Result<PoolConfig, RosterError> {
        self.take_log_legs_back()?;
        self.update_for(Need::Must, |config| {
            // Under the lock: one that is struck off meanwhile is not taken in again.
            let online: Vec<_> =
                self.legs().filter(|leg| leg.state() == LegState::Online).map(|leg| leg.guid()).collect();
            let vdevs = config.vdevs.clone();
            for line in &mut config.lanes {
                let vdev = vdevs.get(line.vdev.place());
                let legs = vdev.into_iter().flat_map(|vdev| &vdev.legs).map(|leg| leg.guid);
                let legset: Vec<_> = legs.filter(|guid| online.contains(guid)).collect();
                if legset.is_empty() {
                    continue;
                }
                if legset != line.legset {
                    line.legset = legset;
                    line.legset_gen += 1;
                }
                line.left.clear();
            }
        })
    }

    /// Every log leg that was struck off and is there counts again, one after the other: a leg whose label is not
    /// written yet is still what it was. One that refuses its label is struck off once more, and in no set.
    fn take_log_legs_back(&self) -> Result<(), RosterError> {
        for vdev in self.vdevs.iter().filter(|vdev| vdev.class() == VdevClass::Log) {
            for leg in vdev.legs().iter().filter(|leg| leg.state() == LegState::Stale) {
                leg.set_state(LegState::Online);
            }
            for leg in vdev.legs().iter().filter(|leg| leg.state() == LegState::Online) {
                let guid = leg.guid();
                let is_struck_off = self.config().leg(guid).is_some_and(|(_, leg)| leg.stale_since.is_some());
                if is_struck_off {
                    self.update_for(Need::Must, |config| {
                        config.leg_mut(guid).into_iter().for_each(|leg| leg.stale_since = None);
                    })?;
                }
            }
        }
        Ok(())
    }

    /// A lane whose disks are gone goes on with a new ring on `leg` alone. Nothing in an older one is needed any more.
    pub fn renew_lane(&self, lane: LaneId, leg: VdevGuid) -> Result<(), RosterError> {
        let config = self.update(|config| {
            for line in config.lanes.iter_mut().filter(|line| line.lane == lane) {
                line.legset = vec![leg];
                line.legset_gen += 1;
                line.left.clear();
            }
        })?;
        let is_renewed = config.lanes.iter().any(|line| line.lane == lane && line.legset == [leg]);
        if is_renewed { Ok(()) } else { Err(RosterError::Leg { leg, why: "is in no such lane" }) }
    }

    /// What the intent log needs to open or scan a lane.
    #[must_use]
    pub fn lane_config(&self, line: &LaneConfigLine) -> LaneConfig {
        let config = self.config();
        let ring = config.vdevs.get(line.vdev.place()).and_then(|vdev| vdev.ring);
        let start = LABEL_BYTES + ring.map_or(0, |ring| ring.start);
        let leg_of = |guid: VdevGuid| {
            let leg = self.legs().find(|leg| leg.guid() == guid)?;
            Some((leg.has_frames(), Leg { guid, disk: Arc::clone(leg.patient()?) as Arc<dyn Disk>, start }))
        };
        let in_set = |guid: &VdevGuid| leg_of(*guid).filter(|(has_frames, _)| *has_frames);
        let stale = |(guid, last): &(VdevGuid, u64)| Some(StaleLeg { leg: leg_of(*guid)?.1, legset_gen_last: *last });
        let (me, lane) = (self.me.clone(), line.lane);
        LaneConfig {
            pool: config.pool,
            lane,
            geometry: line.geometry(),
            legset_gen: line.legset_gen,
            legs: line.legset.iter().filter_map(in_set).map(|(_, leg)| leg).collect(),
            stale_legs: line.left.iter().filter_map(stale).collect(),
            fanout: Arc::clone(&self.fanout),
            helpers: self.helpers,
            leg_failed: Arc::new(move |guid, error| {
                let roster = me.upgrade().ok_or(LaneFailed::Closed { lane })?;
                let dropped = roster.drop_lane_leg(lane, guid, error);
                dropped.map_err(|error| LaneFailed::LegSet { lane, cause: error.to_string() })
            }),
        }
    }
}

/// Whether no lane's set names a leg that was struck off, but as its last.
pub(super) fn lanes_agree(config: &PoolConfig) -> bool {
    let is_struck_off = |guid: &VdevGuid| config.leg(*guid).is_some_and(|(_, leg)| leg.stale_since.is_some());
    config.lanes.iter().all(|line| line.legset.len() < 2 || !line.legset.iter().any(is_struck_off))
}

fn leg_set(line: &LaneConfigLine) -> LegSet {
    LegSet { generation: line.legset_gen, legs: line.legset.clone() }
}
