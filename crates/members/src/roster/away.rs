//! Legs that are away for a while: taken out of use by command, and taken back with a list of what they have missed.
//!
//! **What a leg lacks.** Who strikes it off notes from which group on (rules S7), and the list stays over imports, in the
//! labels of the others. It is right for the disk that left. What comes back may be an older copy of that, so the disk is
//! asked as well: it lacks what its newest uberblock does not know, and what its own label says that it lacked then. A disk
//! without an uberblock, or one that was left behind before anybody noted such things, has nothing to go by and is copied
//! whole; one that went on without the others is refused.
//!
//! What was found so is written down before the disk is touched: the uberblocks that it gets first would hide it.
//!
//! **Who may go.** A leg that counts may be taken out of use where the others have every group without it. That is
//! asked of what they have missed and not of their states, since a leg whose copy lacked something counts, too (rules S10).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tally_base::{Txg, VdevGuid};
use tally_disk::{Access, Disk, Platform};

use super::legs::{check_lane, mark_stale};
use super::spares::check_own;
use super::{Roster, RosterError, TURN_WAIT};
use crate::label::{self, LegConfig, MissedGroups, Need, PoolConfig, Unreadable, VdevClass, VdevConfig, data_bytes_of};
use crate::uberblock::{self, Uberblock};
use crate::vdev::{LegState, Vdev, VdevLeg};

/// Why a disk could not be taken back.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum ReturnError {
    /// It is not away.
    #[error("{} is in use already", path.display())]
    NotAway { path: PathBuf },
    /// It cannot be opened.
    #[error("cannot open {}: {cause}; do this again when the disk is there", path.display())]
    Open { path: PathBuf, cause: io::Error },
    /// A request of before is under way still, or somebody else has it.
    #[error(
        "{} still has a request of before to answer, or another process has it in use; try again when that is over",
        path.display()
    )]
    Held { path: PathBuf },
    /// It is there, and cannot be read.
    #[error("{} cannot be taken back: {why}; do this again when it is well", path.display())]
    Unread { path: PathBuf, why: Unreadable },
    /// There is no leg on it.
    #[error("{} cannot be taken back: {why}; `tally pool replace` takes it in as a new disk", path.display())]
    NoLabel {
        path: PathBuf,
        /// What is wrong with its label.
        why: Unreadable,
    },
    /// Something else is there.
    #[error("{} is another disk than the one that was there; see where that is now", path.display())]
    Another { path: PathBuf },
    /// It was used without the others.
    #[error(
        "{} went on without the other disks of its mirror; what it has of its own is given up with `tally pool replace`, \
         which copies everything to it",
        path.display()
    )]
    WentOn { path: PathBuf },
    /// The labels could not be changed.
    #[error(transparent)]
    Labels(#[from] RosterError),
}

impl Roster {
    /// Whether a leg may be taken out of use; see [`Self::take_offline`].
    pub fn check_offline(&self, vdev: &Vdev, guid: VdevGuid) -> Result<(), RosterError> {
        self.check_changeable()?;
        may_be_put_away(&self.config(), vdev, guid).map(drop)
    }

    /// Takes a leg out of use, durably, and closes its disk. `for_good`: imports leave it alone, too.
    pub fn take_offline(&self, vdev: &Vdev, guid: VdevGuid, for_good: bool) -> Result<(), RosterError> {
        let _in_turn = self.uberblocks.try_lock_for(TURN_WAIT);
        let mut state = self.state.lock();
        if !state.claimed {
            return Err(RosterError::NotClaimed);
        }
        // One that hangs is not left on the strength of this one meanwhile.
        let one_at_a_time = self.leaving.lock();
        let leg = may_be_put_away(&state.config, vdev, guid)?;
        let before = leg.state();
        if leg.takes_writes() {
            leg.set_state(LegState::Failing);
        }
        drop(one_at_a_time);
        let misses = self.misses_from_now(Some(&leg));
        let is_away = !matches!(before, LegState::Online | LegState::Resilvering);
        self.change(&mut state, Need::Must, |config| {
            // One that was away has missed what it has missed.
            if !is_away || config.leg(guid).is_some_and(|(_, leg)| leg.stale_since.is_none()) {
                mark_stale(config, guid, &misses);
            }
            config.leg_mut(guid).into_iter().for_each(|leg| leg.is_offline = for_good);
        })?;
        vdev.put_leg(Arc::new(VdevLeg::new(guid, leg.path().to_owned(), None, LegState::Offline)));
        let config = state.config.clone();
        drop(state);
        self.tell_lanes(&config);
        Ok(())
    }

    /// Whether [`Self::reopen`] would take a leg, as far as that can be told without changing anything; and what it lacks,
    /// nothing if that is not known. A disk of before that is open still is asked by way of that.
    pub fn check_reopen(&self, platform: &Platform, vdev: &Vdev, guid: VdevGuid) -> Result<MissedGroups, ReturnError> {
        self.check_changeable()?;
        let (config, found) = (self.config(), away(vdev, guid)?);
        let (vdev_config, leg) = config.leg(guid).ok_or_else(|| unknown(guid))?;
        match found.disk() {
            Some(disk) => what_it_lacks(disk.as_ref(), &config, vdev_config, leg),
            None => what_it_lacks(open(platform, &leg.path)?.as_ref(), &config, vdev_config, leg),
        }
    }

    /// Opens the disk of a leg that is away, and notes in the labels of the others what it lacks; [`Roster::add_leg`] takes
    /// it up. The disk of before is let go of first: while a request is under way there it cannot be opened (rules S13).
    pub fn reopen(&self, platform: &Platform, vdev: &Vdev, guid: VdevGuid) -> Result<Arc<VdevLeg>, ReturnError> {
        let (config, found) = (self.config(), away(vdev, guid)?);
        let (vdev_config, leg) = config.leg(guid).ok_or_else(|| unknown(guid))?;
        let path = leg.path.clone();
        let state = if found.state() == LegState::Offline { LegState::Offline } else { LegState::Missing };
        vdev.put_leg(Arc::new(VdevLeg::new(guid, path.clone(), None, state)));
        drop(found);
        let disk = open(platform, &path)?;
        // Where it cannot be taken back it stays what it was: there, and left behind.
        let stays = || {
            if state != LegState::Offline {
                vdev.put_leg(Arc::new(VdevLeg::new(guid, path.clone(), Some(Arc::clone(&disk)), LegState::Stale)));
            }
        };
        let lacks = what_it_lacks(disk.as_ref(), &config, vdev_config, leg).inspect_err(|error| {
            if matches!(error, ReturnError::WentOn { .. }) {
                stays();
            }
        })?;
        if lacks != leg.missed {
            self.update_for(Need::Must, |config| {
                if let Some(leg) = config.leg_mut(guid) {
                    leg.missed = lacks;
                }
            })
            .inspect_err(|_| stays())?;
        }
        let leg = Arc::new(VdevLeg::new(guid, path, Some(disk), LegState::Stale));
        vdev.put_leg(Arc::clone(&leg));
        Ok(leg)
    }

    /// What a leg lacks, as the labels have it; nothing: that is not known.
    #[must_use]
    pub fn missed(&self, guid: VdevGuid) -> MissedGroups {
        self.config().leg(guid).map(|(_, leg)| leg.missed.clone()).unwrap_or_default()
    }

    /// A leg that joins gets every write of the groups behind this one: what it has missed ends here (rules S7). Gives all
    /// that it lacks. Of one that has failed meanwhile the list stays open: it misses what comes now.
    pub fn close_missed(&self, guid: VdevGuid, to: Txg) -> Result<MissedGroups, RosterError> {
        let joins = || {
            let leg = self.vdevs.iter().find_map(|vdev| vdev.leg(guid));
            leg.is_some_and(|leg| leg.state() == LegState::Resilvering)
        };
        let mut is_closed = false;
        self.update_for(Need::Must, |config| {
            // Under the lock under which it would be struck off.
            is_closed = joins();
            config.leg_mut(guid).filter(|_| is_closed).into_iter().for_each(|leg| leg.missed.close(to));
        })?;
        if is_closed { Ok(self.missed(guid)) } else { Err(RosterError::Leg { leg: guid, why: "failed meanwhile" }) }
    }

    /// Every block that is anywhere is on each of these legs, which had missed so much when that was begun to be looked at: they
    /// have missed nothing any more. One that was away meanwhile has another list by now, and keeps it.
    pub fn forget_missed(&self, legs: &[(VdevGuid, MissedGroups)]) -> Result<(), RosterError> {
        let was_looked_at =
            |leg: &LegConfig| legs.iter().any(|(guid, missed)| (*guid, missed) == (leg.guid, &leg.missed));
        let lacks = |leg: &LegConfig| leg.stale_since.is_none() && !leg.missed.is_empty() && was_looked_at(leg);
        let some_lack = |config: &PoolConfig| config.vdevs_present().flat_map(|vdev| &vdev.legs).any(lacks);
        if some_lack(&self.config()) {
            self.update_for(Need::Must, |config| {
                let all = config.vdevs.iter_mut().flat_map(|vdev| &mut vdev.legs);
                all.filter(|leg| lacks(leg)).for_each(|leg| leg.missed.clear());
            })?;
        }
        Ok(())
    }
}

impl Roster {
    /// Whether a leg that counts may be left, as it hangs: the same is asked as for one that is taken out of use. One that
    /// does not count may always.
    pub(super) fn others_stand_in_for(&self, leg: &VdevLeg) -> bool {
        let guid = leg.guid();
        let Some(vdev) = self.vdevs.iter().find(|vdev| vdev.leg(guid).is_some()) else { return true };
        if leg.state() != LegState::Online {
            return true;
        }
        let config = self.published.load();
        let is_online = |other: &VdevGuid| vdev.leg(*other).is_some_and(|leg| leg.state() == LegState::Online);
        let needs_it =
            |set: &[VdevGuid]| set.contains(&guid) && !set.iter().any(|other| *other != guid && is_online(other));
        others_have_all(&config, vdev, guid) && !config.lanes.iter().any(|line| needs_it(&line.legset))
    }
}

/// The leg, if the others have every group without it.
fn may_be_put_away(config: &PoolConfig, vdev: &Vdev, guid: VdevGuid) -> Result<Arc<VdevLeg>, RosterError> {
    let refused = |why| RosterError::Leg { leg: guid, why };
    let leg = vdev.leg(guid).ok_or(refused("is not in that vdev"))?;
    if leg.state() == LegState::Online && !others_have_all(config, vdev, guid) {
        return Err(refused(
            "is the only one of its vdev that has everything: take the others back with `tally pool online`, or attach \
             another disk, and try again",
        ));
    }
    check_lane(config, guid)?;
    Ok(leg)
}

/// Whether the legs in use beside this one have every group between them.
fn others_have_all(config: &PoolConfig, vdev: &Vdev, guid: VdevGuid) -> bool {
    let others = vdev.legs().into_iter().filter(|leg| leg.guid() != guid && leg.state() == LegState::Online);
    let missed = others.map(|leg| config.leg(leg.guid()).map(|(_, leg)| leg.missed.clone()).unwrap_or_default());
    if vdev.class() == VdevClass::Log {
        return missed.count() > 0;
    }
    missed.reduce(|one, other| one.in_common(&other)).is_some_and(|missed| missed.is_empty())
}

const fn unknown(guid: VdevGuid) -> RosterError {
    RosterError::Leg { leg: guid, why: "is not in that vdev" }
}

/// The leg, if it is away and owes no answer.
fn away(vdev: &Vdev, guid: VdevGuid) -> Result<Arc<VdevLeg>, ReturnError> {
    let found = vdev.leg(guid).ok_or_else(|| unknown(guid))?;
    if found.takes_writes() || found.state() == LegState::Failing {
        return Err(ReturnError::NotAway { path: found.path().to_owned() });
    }
    // It stays what it is, and whoever looks is told for how long it has owed an answer.
    if found.left_after().is_some() && found.disk().is_some_and(|disk| disk.silent_for().is_some()) {
        return Err(ReturnError::Held { path: found.path().to_owned() });
    }
    Ok(found)
}

/// Looks at the disk of a leg that is to come back: what it lacks, nothing if that is not known.
fn what_it_lacks(
    disk: &dyn Disk,
    config: &PoolConfig,
    vdev: &VdevConfig,
    leg: &LegConfig,
) -> Result<MissedGroups, ReturnError> {
    let path = leg.path.clone();
    let own = label::read(disk).map_err(|why| match why {
        Unreadable::Io(_) => ReturnError::Unread { path: path.clone(), why },
        why => ReturnError::NoLabel { path: path.clone(), why },
    })?;
    let fits = data_bytes_of(disk.geometry().size).is_some_and(|bytes| bytes >= vdev.data_bytes);
    if check_own(disk, &own, (config.pool, leg.guid)).is_err() || !fits {
        return Err(ReturnError::Another { path });
    }
    if leg.is_ahead_of_its_drop(&own.config) {
        return Err(ReturnError::WentOn { path });
    }
    let uberblocks = uberblock::read_all(disk).into_iter().filter_map(|slot| slot.content.ok()?);
    let newest = uberblocks.filter(|seen| seen.pool == config.pool).max_by_key(Uberblock::rank);
    Ok(lacking(leg, &own.config, newest.map(|seen| seen.txg)))
}

fn open(platform: &Platform, path: &Path) -> Result<Arc<dyn Disk>, ReturnError> {
    let path = path.to_owned();
    platform.opener.open(&path, Access::Exclusive).map_err(|cause| match cause.kind() {
        io::ErrorKind::WouldBlock => ReturnError::Held { path },
        _ => ReturnError::Open { path, cause },
    })
}

/// What a disk lacks that comes back as `leg` with this label and this newest uberblock. See the head of this module.
fn lacking(leg: &LegConfig, own: &PoolConfig, newest: Option<Txg>) -> MissedGroups {
    let nothing_is_known = MissedGroups::default;
    let own = own.leg(leg.guid).map(|(_, own)| own);
    // One that was cut off before its own label called it a leg lacks everything, and its list says so.
    let is_new = own.is_none() && leg.missed.is_of_new();
    let Some(newest) = newest.filter(|_| own.is_some() || is_new) else { return nothing_is_known() };
    let was_away = own.is_some_and(|own| own.stale_since.is_some());
    let own = own.map(|own| own.missed.clone()).unwrap_or_default();
    if leg.missed.is_empty() || was_away && own.is_empty() {
        return nothing_is_known();
    }
    let mut missed = leg.missed.clone();
    own.ranges().iter().for_each(|range| missed.note(*range));
    missed.open(newest.next());
    missed
}
