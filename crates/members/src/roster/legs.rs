//! How a leg comes into the roster, and how it goes: taken up, copied, struck off, taken out.
//!
//! A leg that is taken up gets every write from then on, and is stale in the labels until it was copied. One that fails
//! is struck off: durable in the labels of the others before anybody succeeds without it (rules F6).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tally_base::{Txg, VdevGuid};
use tally_disk::{Disk, Durability};

use super::{Roster, RosterError, TURN_WAIT, check_room};
use crate::label::{self, LegConfig, MissedGroups, Need, PoolConfig, TxgRange, VdevClass, VdevConfig, VdevKind};
use crate::uberblock::{self, slot_offsets};
use crate::vdev::{LegState, Vdev, VdevLeg, write_out_ring};

impl Roster {
    /// Takes up a new leg, or one that was away. It gets every write from now on; the caller copies the rest and then
    /// calls [`Roster::finish_resilver`].
    pub fn add_leg(&self, vdev: &Vdev, leg: Arc<VdevLeg>) -> Result<(), RosterError> {
        let (guid, path) = (leg.guid(), leg.path().to_owned());
        let refused = |cause: String| RosterError::Joining { path: leg.path().to_owned(), cause };
        let config = self.config();
        vdev.limit_patience_with(&leg);
        if let (Some(_), Some(disk)) = (config.leg(guid), leg.patient()) {
            // Its own label may call it whole. From here on it is neither what it was nor what the others are.
            label::write(disk.as_ref(), guid, &config).map_err(|error| refused(error.to_string()))?;
        }
        let ring = config.vdevs.get(vdev.index().place()).and_then(|vdev| vdev.ring);
        if let (Some(ring), Some(disk)) = (ring.filter(|_| !keeps_its_ring(&config, guid)), leg.patient()) {
            write_out_ring(disk.as_ref(), ring).map_err(|error| refused(error.to_string()))?;
        }
        let _in_turn = self.uberblocks.lock();
        let joined_txg = self.copy_uberblocks(vdev, &leg).map_err(|error| refused(error.to_string()))?;
        if let (None, Some(disk)) = (config.leg(guid), leg.patient()) {
            // Before the others name it: cut off in between it would be a disk without a label, which nobody finds again.
            label::write(disk.as_ref(), guid, &self.config()).map_err(|error| refused(error.to_string()))?;
        }
        let size = leg.patient().map_or(0, |disk| disk.geometry().size);
        leg.set_state(LegState::Resilvering);
        let taken_up = Arc::clone(&leg);
        vdev.put_leg(leg);
        let index = vdev.index().place();
        let changed = self.update_in_turn(Need::Wish, |config| {
            take_in(config, index, Joining { guid, path, size, joined_txg });
        });
        match changed {
            Ok(_) => Ok(()),
            Err(error) => {
                // What no label names is nobody's: its disk is free again. Another is left behind as before.
                if self.config().leg(guid).is_none() {
                    vdev.take_leg(guid);
                    // Whoever wants to use it need not force that; if it refuses that as well he has to. A spare says what it said. And
                    // where a label was refused another one may name it: the next import then looks for it.
                    let is_nobodys = config.spare(guid).is_none() && self.check_changeable().is_ok();
                    if let Some(disk) = taken_up.patient().filter(|_| is_nobodys) {
                        let _kept = label::wipe(disk.as_ref());
                    }
                } else {
                    taken_up.pass(LegState::Resilvering, LegState::Stale);
                }
                Err(error)
            }
        }
    }

    /// Whether the labels have room for a leg of this path beside those of a vdev, once the one that `leaves` first is out.
    pub fn check_room_for_leg(&self, vdev: &Vdev, path: &Path, leaves: Option<VdevGuid>) -> Result<(), RosterError> {
        let mut before = self.config();
        for vdev in &mut before.vdevs {
            vdev.legs.retain(|leg| Some(leg.guid) != leaves);
        }
        // Neither number makes the label longer.
        let joining = Joining { guid: VdevGuid(u64::MAX), path: path.to_owned(), size: 0, joined_txg: Txg(0) };
        check_room(&before, |config| {
            // And then it is one more in the set of a lane.
            let lanes = config.lanes.iter_mut().filter(|line| line.vdev == vdev.index());
            lanes.for_each(|line| line.legset.push(joining.guid));
            take_in(config, vdev.index().place(), joining);
        })
    }

    /// A joining leg begins with the uberblocks of a good one, so that it could stand alone once it is copied. Returns the
    /// newest group among them.
    fn copy_uberblocks(&self, vdev: &Vdev, target: &VdevLeg) -> io::Result<Txg> {
        let is_online = |leg: &Arc<VdevLeg>| leg.state() == LegState::Online;
        // A log device may have lost all of its legs; the uberblocks are the same on every disk of the pool.
        let elsewhere = || self.legs().filter(|_| vdev.class() == VdevClass::Log).find(is_online);
        let online = vdev.legs().into_iter().find(is_online).or_else(elsewhere);
        let (Some(source), Some(target)) = (online.as_ref().and_then(|leg| leg.patient()), target.patient()) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no leg to copy from, or none to copy to"));
        };
        let mut newest = Txg(0);
        for uberblock in uberblock::read_all(source.as_ref()).into_iter().filter_map(|slot| slot.content.ok()?) {
            for offset in slot_offsets(target.geometry().size, uberblock.txg).into_iter().flatten() {
                target.write(offset, &uberblock.encode(), Durability::Durable)?;
            }
            newest = newest.max(uberblock.txg);
        }
        Ok(newest)
    }

    /// A leg has been copied: from now on it is as good as the others. Where that is not so in everything (`is_whole`) it
    /// counts, as every read is verified, and its list says in which groups it may lack something (rules S10).
    pub fn finish_resilver(&self, vdev: &Vdev, guid: VdevGuid, is_whole: bool) -> Result<(), RosterError> {
        let why = "is not being copied";
        let leg = vdev.leg(guid).filter(|leg| leg.state() == LegState::Resilvering);
        let leg = leg.ok_or(RosterError::Leg { leg: guid, why })?;
        let durable = Txg(self.first_missed().0 - 1);
        self.update_for(Need::Must, |config| {
            // Under the lock: one that has failed meanwhile is struck off already, as it was never anything else.
            if let Some(config) = config.leg_mut(guid)
                && leg.state() == LegState::Resilvering
            {
                config.stale_since = None;
                if is_whole {
                    config.missed.clear();
                } else if config.missed.is_empty() || config.missed.begins_with_the_first() {
                    config.missed = MissedGroups::up_to(durable);
                }
            }
        })?;
        // It may have refused the very label that praised it, and be struck off again.
        if !leg.pass(LegState::Resilvering, LegState::Online) {
            return Err(RosterError::Leg {
                leg: guid,
                why: "failed at the end of its copy; `tally pool online` takes it back once it is well",
            });
        }
        Ok(())
    }

    /// Strikes a leg off; durable when this returns.
    ///
    /// An uberblock that is on its way comes first. The leg may have all of it and the others not yet: struck off in their
    /// labels it would be a witness of a group that nobody was told of, and where the power is cut then, every import would
    /// look in vain for that (rules F8).
    pub fn drop_leg(&self, guid: VdevGuid, cause: &io::Error) -> Result<(), RosterError> {
        let _in_turn = self.uberblocks.try_lock_for(TURN_WAIT);
        self.drop_leg_in_turn(guid, cause)
    }

    /// [`Self::drop_leg`], for whoever has waited for the uberblock, or has just written it.
    pub(super) fn drop_leg_in_turn(&self, guid: VdevGuid, cause: &io::Error) -> Result<(), RosterError> {
        let mut state = self.state.lock();
        if let Some(why) = &state.closed {
            return Err(RosterError::Closed(why.clone()));
        }
        let object = self.legs().find(|leg| leg.guid() == guid);
        // It was detached meanwhile, or is not in the labels yet: nobody takes it for a copy of anything.
        let Some((_, leg)) = state.config.leg(guid) else {
            object.iter().for_each(|leg| leg.set_state(LegState::Faulted));
            return Ok(());
        };
        // Of one that joins the list has come to an end, though it is marked stale already: whoever fails then misses what follows.
        let is_struck_off = leg.stale_since.is_some() && (leg.missed.is_empty() || leg.missed.goes_on());
        // A leg that is being copied is marked stale already, but what it is now must not be taken for a copy.
        let is_copied = object.as_ref().is_some_and(|leg| leg.state() == LegState::Resilvering);
        if let Some(object) = &object {
            object.set_state(LegState::Failing);
        }
        if is_struck_off && !is_copied {
            if let Some(object) = object {
                object.set_state(LegState::Faulted);
            }
            return Ok(());
        }
        if !state.claimed {
            return Err(RosterError::NotClaimed);
        }
        tracing::warn!(leg = %guid, %cause, "a leg is struck off");
        let misses = self.misses_from_now(object.as_deref());
        self.change(&mut state, Need::Must, |config| mark_stale(config, guid, &misses))?;
        let config = state.config.clone();
        drop(state);
        self.tell_lanes(&config);
        Ok(())
    }

    /// Legs that counted when this began were given a block of the group `written` anew, if it `is_given`. One that counts no more, or fails
    /// before a flush has covered that, or has just refused it, has missed that group, too (rules S7): also where it was put away meanwhile,
    /// and another object stands for it now.
    pub fn note_given(
        &self,
        vdev: &Vdev,
        counted: &[VdevGuid],
        written: Txg,
        is_given: bool,
    ) -> Result<(), RosterError> {
        let legs: Vec<_> = counted.iter().filter_map(|guid| vdev.leg(*guid)).collect();
        if is_given {
            legs.iter().for_each(|leg| leg.given.note(written));
        }
        let away: Vec<_> =
            legs.into_iter().filter(|leg| leg.state() != LegState::Online).map(|leg| leg.guid()).collect();
        if away.is_empty() { Ok(()) } else { self.note_missed(&away, TxgRange { from: written, to: written }) }
    }

    /// Legs that were struck off or put away, or are about to be, have missed these groups as well.
    fn note_missed(&self, away: &[VdevGuid], groups: TxgRange) -> Result<(), RosterError> {
        // Whoever strikes one off may have asked too soon what it was given. Once he is through the labels tell.
        drop(self.state.lock());
        let is_known = |leg: &LegConfig| leg.stale_since.is_some() && !leg.missed.is_empty();
        let lacks_more = |(_, leg): (&VdevConfig, &LegConfig)| is_known(leg) && !leg.missed.has(groups.from);
        let config = self.config();
        if !away.iter().any(|guid| config.leg(*guid).is_some_and(lacks_more)) {
            return Ok(());
        }
        self.update_for(Need::Must, |config| {
            for guid in away {
                if let Some(leg) = config.leg_mut(*guid).filter(|leg| is_known(leg)) {
                    leg.missed.note(groups);
                }
            }
        })
        .map(drop)
    }

    /// Whether a leg may be taken out of its mirror for good; see [`Self::detach`].
    pub fn check_detach(&self, vdev: &Vdev, guid: VdevGuid) -> Result<(), RosterError> {
        self.check_changeable()?;
        may_leave_for_good(&self.config(), vdev, guid).map(drop)
    }

    /// Takes a leg out of its mirror for good. The last one that has everything stays, and so does the only one in
    /// which the labels let a lane's frames be found. Gives the leg: its label still speaks of the pool, until somebody
    /// erases it.
    pub fn detach(&self, vdev: &Vdev, guid: VdevGuid) -> Result<Arc<VdevLeg>, RosterError> {
        let index = vdev.index().place();
        // Another leg may be struck off with it, for refusing the label: see [`Self::drop_leg`].
        let _in_turn = self.uberblocks.try_lock_for(TURN_WAIT);
        let mut state = self.state.lock();
        if !state.claimed {
            return Err(RosterError::NotClaimed);
        }
        let leg = may_leave_for_good(&state.config, vdev, guid)?;
        // Nobody flushes it from here on, and whoever would need that waits for the labels. If those cannot say so it
        // stays a leg that failed, and its errors and its silence are still looked at.
        if leg.takes_writes() {
            leg.set_state(LegState::Failing);
        }
        let misses = self.misses_from_now(Some(&leg));
        self.change(&mut state, Need::Must, |config| {
            mark_stale(config, guid, &misses);
            if let Some(config) = config.vdevs.get_mut(index) {
                config.legs.retain(|leg| leg.guid != guid);
                config.kind = kind_of(&config.legs);
            }
        })?;
        vdev.take_leg(guid);
        let config = state.config.clone();
        drop(state);
        self.tell_lanes(&config);
        Ok(leg)
    }
}

/// A leg that is taken up.
struct Joining {
    guid: VdevGuid,
    path: PathBuf,
    size: u64,
    joined_txg: Txg,
}

/// It is one of the vdev with this index from now on, and stale; if it was away it is what it was, in another place perhaps.
fn take_in(config: &mut PoolConfig, index: usize, Joining { guid, path, size, joined_txg }: Joining) {
    let sequence = config.sequence;
    let Some(vdev) = config.vdevs.get_mut(index) else { return };
    let place = vdev.legs.iter().position(|leg| leg.guid == guid);
    let stale_since = place.map_or(Some(sequence), |place| vdev.legs[place].stale_since);
    let missed = place.map_or_else(|| of_a_new_leg(vdev.class), |place| vdev.legs[place].missed.clone());
    let joining = LegConfig { guid, path, stale_since, is_offline: false, slot: 0, size, joined_txg, missed };
    match place {
        Some(place) => vdev.legs[place] = joining,
        None => vdev.legs.push(joining),
    }
    vdev.kind = kind_of(&vdev.legs);
    // Frames that reach it first while it joins are not lost with the others, and what it has of before is no source any more.
    for line in &mut config.lanes {
        line.left.retain(|(left, _)| *left != guid);
    }
}

/// What a leg has missed that never had anything: all of it. With a list the labels know from when on it is away, should it be
/// cut off while it joins (rules S9). What a log device has missed is in the trees.
fn of_a_new_leg(class: VdevClass) -> MissedGroups {
    let mut missed = MissedGroups::default();
    if class == VdevClass::Data {
        missed.open(Txg(0));
    }
    missed
}

/// Whether what stands in the ring of a leg that comes back can stay (rules F6): it is known which groups it lacks, so this is the
/// disk that left, or an older copy of it. Its frames are the lane's own, and end before the place where it joins; or of an earlier
/// life of the lane, and have another epoch. No recovery looks at either: it begins behind that place before it believes the leg.
fn keeps_its_ring(config: &PoolConfig, guid: VdevGuid) -> bool {
    config.leg(guid).is_some_and(|(_, leg)| !leg.missed.is_empty())
}

/// The leg, if the others can do without it for good.
fn may_leave_for_good(config: &PoolConfig, vdev: &Vdev, guid: VdevGuid) -> Result<Arc<VdevLeg>, RosterError> {
    let refused = |why| RosterError::Leg { leg: guid, why };
    let leg = vdev.leg(guid).ok_or(refused("is not in that vdev"))?;
    let has_other = vdev.legs().iter().any(|other| other.guid() != guid && other.state() == LegState::Online);
    if !has_other {
        return Err(refused("is the last one of its vdev that has everything; attach another disk to it first"));
    }
    check_lane(config, guid)?;
    Ok(leg)
}

/// Whether the frames of every lane are found without this leg.
pub(super) fn check_lane(config: &PoolConfig, guid: VdevGuid) -> Result<(), RosterError> {
    if config.lanes.iter().any(|line| line.legset == [guid]) {
        let why = "is the only one with the frames of its intent log; attach another disk to it first";
        return Err(RosterError::Leg { leg: guid, why });
    }
    Ok(())
}

fn kind_of(legs: &[LegConfig]) -> VdevKind {
    if legs.len() > 1 { VdevKind::Mirror } else { VdevKind::Disk }
}

/// Marks a leg as left behind, and takes it out of every lane's leg set. It lacks what it `misses` from now on, also
/// where its list had come to an end, as it was coming back (rules S9); one of which nothing is known already is none of
/// which anything is known now.
///
/// The last leg of a lane stays in its set: it has every acknowledged frame, and as the lane ends with it there
/// will be none on a smaller set. If the disk comes back, its frames can still be replayed.
pub(super) fn mark_stale(config: &mut PoolConfig, guid: VdevGuid, misses: &MissedGroups) {
    let sequence = config.sequence;
    let is_data = config.leg(guid).is_some_and(|(vdev, _)| vdev.class == VdevClass::Data);
    if let Some(leg) = config.leg_mut(guid) {
        let is_known = leg.stale_since.is_none() || !leg.missed.is_empty();
        // What a log device has missed is in the trees before it comes back.
        if is_known && is_data {
            misses.ranges().iter().for_each(|range| leg.missed.note(*range));
        }
        leg.stale_since.get_or_insert(sequence);
    }
    for line in &mut config.lanes {
        if line.legset.contains(&guid) && line.legset.len() > 1 {
            line.legset.retain(|member| *member != guid);
            line.left.push((guid, line.legset_gen));
            line.legset_gen += 1;
        }
    }
}
