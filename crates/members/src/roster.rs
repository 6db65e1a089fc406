//! The roster: which legs belong to the pool, and the one place from which labels and uberblocks are written.
//!
//! The problem (rules F6): when a leg drops out, the legs that stay go on without it, and an import that finds
//! only the dropped one must be able to tell. So the smaller set has to be durable on the survivors before
//! anything rests on it, and that cannot wait for a transaction group.
//!
//! The idea: one configuration with a sequence number, kept here under one lock and written to every leg that
//! answers. A change counts once it stands on at least one leg of every data vdev. A leg that refuses its label while
//! another change is written drops out itself, with a further change, until all that are left agree. The last leg of
//! a data vdev never drops out. A change that cannot be made durable closes the roster: from then on nothing is
//! written and nobody believes the pool until it is opened again (I7), because the disks may hold either state.
//!
//! **Claim.** An assembled pool has written nothing. [`Roster::claim`] raises the open generation on all present
//! legs and marks those that are absent; before it no uberblock is taken.
//!
//! **Legs** come and go in [`legs`], and are away for a while in [`away`]; what the labels say of the intent log's
//! lanes, and how those hear of it, is in [`lanes`]. What of all that is damaged on a disk, a scrub finds through
//! [`look`]. Disks that wait for one to go away are in [`spares`].
//!
//! **Locks.** `uberblocks`, then `state`, which is held while labels are written; under it the vdevs' leg lists are
//! read, and what a leg was given (`vdev/given`), and no vdev's I/O lock is taken. `leaving`, under which one leg at a time goes on the
//! strength of others, comes behind `state`. Lanes are called without `state`.

mod away;
mod features;
#[cfg(test)]
mod full_labels;
mod lanes;
mod legs;
mod look;
mod spares;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tally_base::{Clock, Rng, SECTOR, Time, Txg, VdevGuid};
use tally_disk::{Disk, Durability, Fanout, Helpers, Host, Platform, Work};
use tally_intent::Lane;

pub use self::away::ReturnError;
pub use self::look::{DamagedSlot, SecuredSlots};
pub use self::spares::{SpareError, spare_label};

use self::lanes::lanes_agree;
use self::legs::mark_stale;
use crate::label::{
    self, FailMode, HangLimit, LabelError, MissedGroups, Need, PoolConfig, PoolState, REWINDS_MAX, Rewind, VdevClass,
};
use crate::uberblock::{Uberblock, slot_offsets};
use crate::vdev::{LegState, Membership, Vdev, VdevLeg};

/// How long a change of the labels waits for an uberblock that is on its way. That takes a few turns of a disk, and whoever
/// waits for a strike must not wait for one that hangs (rules P1).
const TURN_WAIT: Duration = Duration::from_secs(1);

/// Why the roster could not be changed, or an uberblock not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // Their messages say it.
pub enum RosterError {
    /// Too few legs took the new configuration.
    #[error(
        "only {written} of {total} data vdevs took the pool's new configuration; the pool is suspended until its disks are back"
    )]
    NoMajority {
        /// Data vdevs with a leg that took it.
        written: usize,
        total: usize,
    },
    /// The configuration cannot be written at all.
    #[error("{0}")]
    Label(String),
    /// A disk that joins, or comes back, refuses what it is to have first.
    #[error("cannot write to {}: {cause}; see to that disk, and do this again", path.display())]
    Joining { path: PathBuf, cause: String },
    /// An earlier change could not be made durable.
    #[error("the pool is suspended: an earlier change of its configuration could not be made durable ({0})")]
    Closed(String),
    /// Nothing may be written before [`Roster::claim`], with which every import begins but one that only reads.
    #[error("the pool is imported read-only and takes no change; export it, and import it without --readonly")]
    NotClaimed,
    /// A vdev has no leg left with the newest uberblock.
    #[error("vdev {0} has no leg left to write an uberblock to; the pool is suspended until its disks are back")]
    VdevLost(VdevGuid),
    /// The change makes the configuration longer than its labels can hold, or something in it cannot be said there.
    #[error("{0}")]
    NoRoom(String),
    /// Something would need a feature that nobody has allowed.
    #[error("that needs feature@{name}, which is disabled; `tally pool upgrade` enables what this tally knows")]
    FeatureDisabled {
        /// What stands behind `feature@`.
        name: &'static str,
    },
    /// A leg that the operation names is unknown, or is needed.
    #[error("leg {leg} {why}")]
    Leg {
        leg: VdevGuid,
        /// What is the matter.
        why: &'static str,
    },
}

/// Which legs belong to the pool.
pub struct Roster {
    vdevs: Vec<Arc<Vdev>>,
    fanout: Arc<dyn Fanout>,
    helpers: Helpers,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// The configuration of `state`, for those who only look: while a disk hangs in a label's write that is locked.
    published: ArcSwap<PoolConfig>,
    /// Claimed and not closed: what the vdevs ask before they write.
    writable: AtomicBool,
    /// Whether a suspended pool tells its clients so. Apart from the state: with a disk that hangs that stays locked.
    fails_openly: AtomicBool,
    /// See [`Roster::hurry_walks`].
    walks_hurry: AtomicBool,
    /// After how long a leg that hangs is struck off. Apart from the state, too: a limit is set because that is locked.
    hang_limit: Mutex<HangLimit>,
    /// Held while an uberblock is written, and while a leg joins, as it gets every uberblock from a certain one on. A change
    /// of the labels, with which a leg may be struck off, takes it too, but waits no longer than [`TURN_WAIT`].
    uberblocks: Mutex<()>,
    /// Held while it is decided whether a leg that hangs is left: of two that hang together one has to stay.
    leaving: Mutex<()>,
    /// Newest group whose uberblock is durable, as far as this has heard.
    durable: AtomicU64,
    /// Where spares were found that wait. The labels say so from the claim on, with a number of their own: one that
    /// another label has as well tells of two imports.
    spares_found: Mutex<Vec<(VdevGuid, PathBuf)>>,
    /// The open lanes, to be told who has left their sets.
    lanes: Mutex<Vec<Weak<Lane>>>,
    me: Weak<Self>,
}

struct State {
    config: PoolConfig,
    claimed: bool,
    /// Why nothing is written any more.
    closed: Option<String>,
}

impl Roster {
    /// The roster of an assembled pool; `vdevs` holds those of both classes, in the order of the configuration.
    #[must_use]
    pub fn new(config: PoolConfig, vdevs: Vec<Arc<Vdev>>, platform: &Platform) -> Arc<Self> {
        let roster = Arc::new_cyclic(|me: &Weak<Self>| Self {
            vdevs,
            fanout: Arc::clone(&platform.fanout),
            helpers: platform.helpers,
            clock: Arc::clone(&platform.clock),
            walks_hurry: AtomicBool::new(false),
            fails_openly: AtomicBool::new(config.supplement.failmode == FailMode::Continue),
            published: ArcSwap::from_pointee(config.clone()),
            hang_limit: Mutex::new(config.hang_limit),
            state: Mutex::new(State { config, claimed: false, closed: None }),
            writable: AtomicBool::new(false),
            uberblocks: Mutex::new(()),
            leaving: Mutex::new(()),
            durable: AtomicU64::new(0),
            spares_found: Mutex::default(),
            lanes: Mutex::default(),
            me: me.clone(),
        });
        for vdev in &roster.vdevs {
            vdev.set_membership(Arc::downgrade(&roster) as Weak<dyn Membership>);
        }
        roster
    }

    /// Whether walks over disks go on without a turn (rules P4): what they have met is held until it is looked at, and the pool
    /// would be full of what nobody uses any more.
    pub fn hurry_walks(&self, they_do: bool) {
        self.walks_hurry.store(they_do, Ordering::Release);
    }

    /// Before the claim: where spares are now.
    pub(crate) fn found_spares(&self, found: Vec<(VdevGuid, PathBuf)>) {
        *self.spares_found.lock() = found;
    }

    /// All vdevs, data and log.
    #[must_use]
    pub fn vdevs(&self) -> &[Arc<Vdev>] {
        &self.vdevs
    }

    /// The data vdevs, in the order of their indexes.
    pub fn data_vdevs(&self) -> impl Iterator<Item = &Arc<Vdev>> {
        self.vdevs.iter().filter(|vdev| vdev.class() == VdevClass::Data)
    }

    /// The legs of the data vdevs.
    pub fn data_legs(&self) -> impl Iterator<Item = Arc<VdevLeg>> {
        self.data_vdevs().flat_map(|vdev| vdev.legs())
    }

    /// The configuration as it stands in the labels. Waits for nobody.
    #[must_use]
    pub fn config(&self) -> PoolConfig {
        (**self.published.load()).clone()
    }

    /// What a suspended pool answers.
    #[must_use]
    pub fn failmode(&self) -> FailMode {
        if self.fails_openly.load(Ordering::Acquire) { FailMode::Continue } else { FailMode::Wait }
    }

    /// Why the roster takes no more changes, if it does not. As long as it does, this waits for nobody.
    #[must_use]
    pub fn closed(&self) -> Option<String> {
        if self.writable.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().closed.clone()
    }

    /// Takes the pool for writing: open generation, host and state are durable on all present legs when this returns,
    /// and legs that are missing or stale are marked so (rules F8). A leg that was struck off and has every frame of
    /// its lane all the same stays as it is, label and all, until [`Self::rejoin_lanes`]: a power cut before that
    /// leaves it as it was found. Returns the new open generation, which is above that of the configuration that holds,
    /// and above `open_gen`, that of the chosen uberblock: it would stand in the way of the next ones for ever.
    pub fn claim(&self, host: &Host, rng: &dyn Rng, open_gen: u64) -> Result<u64, RosterError> {
        self.claim_and(host, rng, open_gen, |_| {})
    }

    /// The same for an import that goes back: with the claim what it gives up is none any more ([`Rewind`]).
    pub fn claim_going_back(
        &self,
        host: &Host,
        rng: &dyn Rng,
        open_gen: u64,
        rewind: Rewind,
    ) -> Result<u64, RosterError> {
        self.claim_and(host, rng, open_gen, |config| {
            config.rewinds.push(Rewind { open_gen: config.open_gen, ..rewind });
            // What only the group that is gone back to names, others may not have been given: of a disk that is not looked at now nobody knows.
            let data = config.vdevs.iter_mut().filter(|vdev| vdev.class == VdevClass::Data);
            let stale = data.flat_map(|vdev| &mut vdev.legs).filter(|leg| leg.stale_since.is_some());
            // Of one that has never counted nothing is known anyway, and its list says which those are.
            stale.filter(|leg| !leg.missed.is_of_new()).for_each(|leg| leg.missed = MissedGroups::all());
            let surplus = config.rewinds.len().saturating_sub(REWINDS_MAX);
            config.rewinds.drain(..surplus);
        })
    }

    fn claim_and(
        &self,
        host: &Host,
        rng: &dyn Rng,
        open_gen: u64,
        and: impl FnOnce(&mut PoolConfig),
    ) -> Result<u64, RosterError> {
        let mut state = self.state.lock();
        self.catch_up(&state.config).map_err(|error| RosterError::Label(error.to_string()))?;
        let legs: Vec<_> = self.legs().map(|leg| (leg.guid(), leg.state())).collect();
        let misses = self.misses_from_now(None);
        self.change(&mut state, Need::Must, |config| {
            config.open_gen = config.open_gen.max(open_gen) + 1;
            config.open_id = rng.next_u64();
            config.host = host.clone();
            config.state = PoolState::Active;
            for (guid, _) in legs.iter().filter(|(_, found)| *found != LegState::Online) {
                mark_stale(config, *guid, &misses);
            }
            for (guid, path) in self.spares_found.lock().drain(..) {
                config
                    .spares
                    .iter_mut()
                    .filter(|spare| spare.guid == guid)
                    .for_each(|spare| spare.path.clone_from(&path));
            }
            and(config);
        })?;
        state.claimed = true;
        self.writable.store(true, Ordering::Release);
        Ok(state.config.open_gen)
    }

    /// Gives the newest configuration to every leg that takes writes, but for one that is returning: one may be a change behind, because power was
    /// cut between two labels. Without this a second cut at the same place would leave them two behind, and the next import would take them for
    /// older copies. A leg that refuses is none to go on with: if it is the last of its vdev nothing more is written, so that it
    /// stays at most one change behind however often this is tried, and else the claim strikes it off.
    ///
    /// Nobody is asked whether he has it (rules S57), so where all have it it is written over itself: label 1 has it while label 0 is torn,
    /// and the other way round.
    fn catch_up(&self, newest: &PoolConfig) -> Result<(), LabelError> {
        let legs = self.legs().filter(|leg| leg.takes_writes() && !is_returning(leg, newest)).collect();
        for leg in self.write_labels_of(legs, newest)? {
            leg.pass(LegState::Online, LegState::Failing);
        }
        Ok(())
    }

    /// Changes the configuration and makes the change durable. The sequence number is raised here. A leg that refuses it is
    /// struck off, which waits for an uberblock that is on its way as [`Self::drop_leg`] does.
    pub fn update(&self, change: impl FnOnce(&mut PoolConfig)) -> Result<PoolConfig, RosterError> {
        self.update_for(Need::Wish, change)
    }

    fn update_for(&self, need: Need, change: impl FnOnce(&mut PoolConfig)) -> Result<PoolConfig, RosterError> {
        let _in_turn = self.uberblocks.try_lock_for(TURN_WAIT);
        self.update_in_turn(need, change)
    }

    /// [`Self::update`], for whoever has waited for the uberblock.
    fn update_in_turn(&self, need: Need, change: impl FnOnce(&mut PoolConfig)) -> Result<PoolConfig, RosterError> {
        let mut state = self.state.lock();
        if !state.claimed {
            return Err(RosterError::NotClaimed);
        }
        self.change(&mut state, need, change)?;
        let config = state.config.clone();
        drop(state);
        self.tell_lanes(&config);
        Ok(config)
    }

    /// Whether the configuration can be changed: for whoever writes something else first.
    pub fn check_changeable(&self) -> Result<(), RosterError> {
        let state = self.state.lock();
        match &state.closed {
            Some(why) => Err(RosterError::Closed(why.clone())),
            None if state.claimed => Ok(()),
            None => Err(RosterError::NotClaimed),
        }
    }

    /// Whether [`Self::update`] would write this, as far as that can be told without writing it.
    pub(crate) fn check_update(&self, change: impl FnOnce(&mut PoolConfig)) -> Result<(), RosterError> {
        let state = self.state.lock();
        if !state.claimed {
            return Err(RosterError::NotClaimed);
        }
        next_of(&state, Need::Wish, change)?;
        self.check_vdevs()
    }

    /// What a suspended pool answers, durable in the labels.
    pub fn set_failmode(&self, failmode: FailMode) -> Result<(), RosterError> {
        self.update(|config| config.supplement.failmode = failmode)?;
        Ok(())
    }

    /// After how long a leg that hangs is struck off, durable in the labels. It holds at once, also for what waits already:
    /// the labels may wait for that very leg.
    pub fn set_hang_limit(&self, limit: HangLimit) -> Result<(), RosterError> {
        *self.hang_limit.lock() = limit;
        self.update(|config| config.hang_limit = limit).map(drop).inspect_err(|_| {
            *self.hang_limit.lock() = self.published.load().hang_limit;
        })
    }

    /// Writes down that acknowledged changes were given up (rules F26).
    pub fn note_loss(&self, time: Time, txg: Txg, losses: &[String]) -> Result<(), RosterError> {
        self.update(|config| config.supplement.note_loss(time, txg, losses))?;
        Ok(())
    }

    /// Says in the labels that the pool was put away; nothing can be written afterwards.
    pub fn export(&self, synced: Txg) -> Result<(), RosterError> {
        self.retire(PoolState::Exported, synced)
    }

    /// Says in the labels that the pool was given up; nothing can be written afterwards.
    pub fn destroy(&self, synced: Txg) -> Result<(), RosterError> {
        self.retire(PoolState::Destroyed, synced)
    }

    fn retire(&self, retired: PoolState, synced: Txg) -> Result<(), RosterError> {
        self.update_for(Need::Must, |config| {
            config.state = retired;
            config.synced_txg = config.synced_txg.max(synced);
        })?;
        self.close(&mut self.state.lock(), "it was exported or destroyed".to_owned());
        Ok(())
    }

    fn close(&self, state: &mut State, why: String) {
        self.writable.store(false, Ordering::Release);
        state.closed = Some(why);
    }

    /// This group is durable on every leg in use: what an import has chosen.
    pub(crate) fn note_durable(&self, txg: Txg) {
        self.durable.fetch_max(txg.0, Ordering::AcqRel);
    }

    /// The group from which on a leg that leaves now has missed what is written (rules S7). It may have all of one whose
    /// uberblock is on its way.
    fn first_missed(&self) -> Txg {
        Txg(self.durable.load(Ordering::Acquire) + 1)
    }

    /// What a leg misses that leaves now: what is written from here on, and what it was given and may have lost. Nobody gives it anything
    /// any more.
    fn misses_from_now(&self, leg: Option<&VdevLeg>) -> MissedGroups {
        let mut misses = leg.map(|leg| leg.given.lacking()).unwrap_or_default();
        misses.open(self.first_missed());
        misses
    }

    fn legs(&self) -> impl Iterator<Item = Arc<VdevLeg>> {
        self.vdevs.iter().flat_map(|vdev| vdev.legs())
    }

    fn change(&self, state: &mut State, need: Need, change: impl FnOnce(&mut PoolConfig)) -> Result<(), RosterError> {
        let next = next_of(state, need, change)?;
        self.take_over(state, next)
    }

    /// Writes a configuration, and as many more as legs drop out meanwhile.
    fn take_over(&self, state: &mut State, mut next: PoolConfig) -> Result<(), RosterError> {
        loop {
            self.every_vdev_is_there(state)?;
            let refused =
                self.write_labels(&state.config, &next).map_err(|error| RosterError::Label(error.to_string()))?;
            if refused.is_empty() {
                break;
            }
            // Each round takes at least one leg out, so this ends.
            next.sequence += 1;
            for leg in &refused {
                leg.set_state(LegState::Failing);
                mark_stale(&mut next, leg.guid(), &self.misses_from_now(Some(leg)));
            }
            next.make_fit(&state.config, Need::Must).map_err(|error| RosterError::Label(error.to_string()))?;
        }
        for leg in self.legs().filter(|leg| leg.state() == LegState::Failing) {
            let is_marked = next.leg(leg.guid()).is_none_or(|(_, config)| config.stale_since.is_some());
            if is_marked {
                leg.set_state(LegState::Faulted);
            }
        }
        self.fails_openly.store(next.supplement.failmode == FailMode::Continue, Ordering::Release);
        assert!(next.sequence > state.config.sequence, "a change of the configuration has a number of its own");
        // What a label has said may be anything: only that it does not become so is sure.
        assert!(is_covered(&next) || !is_covered(&state.config), "the last leg of a data vdev was struck off");
        assert!(lanes_agree(&next) || !lanes_agree(&state.config), "a lane's set names a struck-off leg beside others");
        self.published.store(Arc::new(next.clone()));
        state.config = next;
        Ok(())
    }

    /// Writes every leg that takes writes, all at once (rules S14); returns those that refused. A leg that `before` has struck off
    /// comes first: if the power is cut behind it, the others are one change behind, while it may be many.
    fn write_labels(&self, before: &PoolConfig, config: &PoolConfig) -> Result<Vec<Arc<VdevLeg>>, LabelError> {
        let legs = self.legs().filter(|leg| leg.takes_writes() && !is_returning(leg, config));
        let (returning, others) = legs.partition(|leg| is_returning(leg, before));
        let mut refused = self.write_labels_of(returning, config)?;
        refused.extend(self.write_labels_of(others, config)?);
        Ok(refused)
    }

    fn write_labels_of(
        &self,
        mut legs: Vec<Arc<VdevLeg>>,
        config: &PoolConfig,
    ) -> Result<Vec<Arc<VdevLeg>>, LabelError> {
        legs.retain(|leg| leg.patient().is_some());
        let mut work: Vec<Work> = Vec::new();
        for (leg, disk) in legs.iter().filter_map(|leg| Some((leg, leg.patient()?))) {
            let (sequence, bytes) = (config.sequence, label::encode(leg.guid(), config)?);
            work.push(disk.work(move |disk| label::write_encoded(disk, sequence, &bytes)));
        }
        let mut outcomes = self.fanout.each(work).into_iter();
        legs.retain(|leg| {
            let outcome = outcomes.next().unwrap_or_else(|| Err(io::Error::other("the label was not written")));
            let refused = leg.note_write(outcome).err();
            if let Some(error) = &refused {
                tracing::warn!(leg = %leg.guid(), path = %leg.path().display(), %error, "a label was refused");
            }
            refused.is_some()
        });
        Ok(legs)
    }

    /// A data vdev without a leg ends the roster before a label says so: no group is synced without that vdev, so its
    /// last leg has everything that there is. Struck off in the labels of the other vdevs it would be an older copy for
    /// ever, and the pool lost with it when all it needs is its disk back.
    fn every_vdev_is_there(&self, state: &mut State) -> Result<(), RosterError> {
        self.check_vdevs().inspect_err(|error| self.close(state, error.to_string()))
    }

    fn check_vdevs(&self) -> Result<(), RosterError> {
        let data = || self.data_vdevs();
        let Some(lost) = data().find(|vdev| !vdev.is_usable()) else { return Ok(()) };
        let total = data().count();
        let written = data().filter(|vdev| vdev.is_usable()).count();
        Err(if 2 * written > total {
            RosterError::VdevLost(lost.guid())
        } else {
            RosterError::NoMajority { written, total }
        })
    }

    /// Makes a transaction group the newest: durable in both labels of every leg in use when this returns. All of its
    /// blocks must have been flushed (I2). A leg that refuses drops out first; a data vdev without a leg is an error.
    pub fn write_uberblock(&self, uberblock: &Uberblock) -> Result<(), RosterError> {
        {
            let state = self.state.lock();
            if let Some(why) = &state.closed {
                return Err(RosterError::Closed(why.clone()));
            }
            if !state.claimed || state.config.open_gen != uberblock.open_gen {
                return Err(RosterError::NotClaimed);
            }
        }
        let _in_turn = self.uberblocks.lock();
        self.write_copies(uberblock.txg, &uberblock.encode())?;
        if let Some(lost) = self.data_vdevs().find(|vdev| !vdev.is_usable()) {
            return Err(RosterError::VdevLost(lost.guid()));
        }
        self.note_durable(uberblock.txg);
        Ok(())
    }

    /// The legs that vote come first. One that joins only witnesses: if it told of this txg and the power were cut before
    /// the others do, the import would look in vain for what was committed (rules F8).
    fn write_copies(&self, txg: Txg, sector: &[u8]) -> Result<(), RosterError> {
        let legs = self.legs().filter(|leg| leg.takes_writes());
        let (joining, voting): (Vec<_>, Vec<_>) = legs.partition(|leg| leg.state() == LegState::Resilvering);
        for legs in [voting, joining] {
            self.write_copies_of(legs, txg, sector)?;
            // A leg that is failing in another thread must be struck off before this txg may count.
            for leg in self.legs().filter(|leg| leg.state() == LegState::Failing) {
                self.drop_leg_in_turn(leg.guid(), &io::Error::other("it failed in another request"))?;
            }
        }
        Ok(())
    }

    /// Both copies, on all of these, at once: if the power is cut the ones before are in other slots, and an uberblock that
    /// is torn in every copy is one that was never written (rules F8).
    fn write_copies_of(&self, legs: Vec<Arc<VdevLeg>>, txg: Txg, sector: &[u8]) -> Result<(), RosterError> {
        debug_assert_eq!(sector.len(), SECTOR);
        let (mut written, mut copies) = (Vec::new(), [Vec::new(), Vec::new()]);
        for leg in legs {
            let Some(disk) = leg.patient() else { continue };
            let Some(offsets) = slot_offsets(disk.geometry().size, txg) else { continue };
            for (copy, offset) in copies.iter_mut().zip(offsets) {
                copy.push((Arc::clone(disk) as Arc<dyn Disk>, offset));
            }
            written.push(leg);
        }
        let mut firsts = self.fanout.write(&copies.concat(), sector, Durability::Durable);
        let seconds = firsts.split_off(written.len());
        for ((leg, first), second) in written.iter().zip(firsts).zip(seconds) {
            if let Err(error) = leg.note_write(first.and(second)) {
                self.drop_leg_in_turn(leg.guid(), &error)?;
            }
        }
        Ok(())
    }
}

impl Membership for Roster {
    fn may_write(&self) -> bool {
        self.writable.load(Ordering::Acquire)
    }

    fn fanout(&self) -> Arc<dyn Fanout> {
        Arc::clone(&self.fanout)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    fn walks_hurry(&self) -> bool {
        self.walks_hurry.load(Ordering::Acquire)
    }

    fn hang_limit(&self) -> HangLimit {
        *self.hang_limit.lock()
    }

    fn may_leave(&self, leg: &VdevLeg) -> bool {
        let _one_at_a_time = self.leaving.lock();
        self.others_stand_in_for(leg)
            && (leg.state() != LegState::Online || leg.pass(LegState::Online, LegState::Failing))
    }

    fn leg_failed(&self, leg: VdevGuid, cause: &io::Error) -> Result<(), String> {
        self.drop_leg(leg, cause).map_err(|error| error.to_string())
    }
}

/// What a change makes of the configuration: nothing is written yet.
fn next_of(state: &State, need: Need, change: impl FnOnce(&mut PoolConfig)) -> Result<PoolConfig, RosterError> {
    if let Some(why) = &state.closed {
        return Err(RosterError::Closed(why.clone()));
    }
    changed(&state.config, need, change)
}

/// The next configuration behind this one, if the labels have room for it.
fn changed(before: &PoolConfig, need: Need, change: impl FnOnce(&mut PoolConfig)) -> Result<PoolConfig, RosterError> {
    let mut next = before.clone();
    next.sequence += 1;
    change(&mut next);
    next.make_fit(before, need).map_err(|error| RosterError::NoRoom(error.to_string()))?;
    Ok(next)
}

/// Whether labels in which `before` stands would have room for what somebody wants.
fn check_room(before: &PoolConfig, change: impl FnOnce(&mut PoolConfig)) -> Result<(), RosterError> {
    changed(before, Need::Wish, change).map(drop)
}

/// Whether a leg is in use again that this configuration has struck off: the last one of a log lane, which has every
/// frame.
fn is_returning(leg: &VdevLeg, config: &PoolConfig) -> bool {
    let is_struck_off = || config.leg(leg.guid()).is_some_and(|(_, leg)| leg.stale_since.is_some());
    leg.state() == LegState::Online && is_struck_off()
}

/// Whether every data vdev has a leg with everything.
fn is_covered(config: &PoolConfig) -> bool {
    let mut data = config.vdevs_present().filter(|vdev| vdev.class == VdevClass::Data);
    data.all(|vdev| vdev.legs.iter().any(|leg| leg.stale_since.is_none()))
}

#[cfg(test)]
pub(crate) mod tests;
