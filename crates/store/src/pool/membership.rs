//! How a disk joins an imported pool, and how one leaves it: the steps, in their order.
//!
//! **The problem.** Each step is right by itself and worth nothing in another order. A disk that counts before every
//! block was brought to it and verified is a copy of rot; one that is in a lane's set before it has every live frame vouches for
//! what it has not; one that leaves while it alone has a block right takes that block along. And the power may go at
//! any write.
//!
//! ```text
//!   join:   its job is durable ─▶ zeroes in its ring ─▶ uberblocks of another leg ─▶ its own label: whose it is
//!             ─▶ labels: there, and stale ─▶ gets every write ─▶ whoever keeps the disks' paths hears of it
//!             ─▶ every block brought, verified on its way ─▶ does one leave for it: every block looked at there
//!             ─▶ labels: it counts ─▶ lane: every live frame ─▶ labels: in the lane's set
//!             ─▶ the one that it replaces leaves, as below ─▶ no job
//!   back:   its job ─▶ labels of the others: what it lacks ─▶ its own label: it was left behind ─▶ uberblocks
//!             ─▶ labels: it joins ─▶ gets every write ─▶ what was placed before is settled ─▶ labels: what it missed ends
//!             ─▶ blocks of the missed groups are given to it ─▶ labels: it counts ─▶ lane, as above ─▶ no job
//!   leave:  every block made sure of on each leg that stays ─▶ labels of those: it is gone
//!             ─▶ whoever keeps the disks' paths hears of it ─▶ its own label is erased
//! ```
//!
//! A cut before "it counts" leaves a leg that nobody believes and whose copy goes on ([`super::joining`]), and one behind it a leg that has
//! everything but the log.
//! One that comes back and does not get so far goes on in the same way, behind a restart; what stops it otherwise leaves it behind as before.
//! The ring of one that comes back keeps what stands in it (docs/design/0060), but where nothing is known of what it lacks.
//! The erased label is a courtesy to whoever finds the disk: its disk may hang, and nothing waits for it here.
//!
//! Whoever asks is an [`Onlooker`]: hears how far it is, may end it, and lends a hand where a step needs a thread.

mod back;
mod copy;
mod error;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tally_base::VdevGuid;
use tally_intent::Lane;
use tally_members::create::{check_new_leg, new_leg};
use tally_members::label::{LaneConfigLine, VdevClass, VdevConfig};
use tally_members::roster::RosterError;
use tally_members::vdev::{LegState, ResilverReport, Vdev, VdevLeg};

pub use self::error::MembershipError;
use super::{Pool, SecureError, SecureReport, SyncError};

/// Syncs after which every live frame must be on a leg that joined: two trim what is older, one is open meanwhile.
const JOIN_SYNCS_MAX: u32 = 8;

/// A step that takes long, for whoever looks on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Blocks are brought to the new disk.
    Copying,
    /// They are looked at there, as another one leaves.
    CheckingCopy,
    /// The blocks of the disks that stay are looked at.
    CheckingRest,
    /// A disk that was away is given what it missed.
    Bringing,
}

/// Who wants a disk to join or to leave.
pub trait Onlooker {
    /// So many bytes of a stage are done. `false` ends it.
    fn on_progress(&mut self, stage: Stage, done: u64) -> bool;

    /// A stage has so many bytes to do, as far as that is known.
    fn expect(&mut self, _stage: Stage, _bytes: u64) {}

    /// A copy goes on of which so much was done before: bytes that were copied, and that were looked at, and for how long it had
    /// been running by then.
    fn goes_on(&mut self, _copied: u64, _checked: u64, _ran: Duration) {}

    /// Whoever ended a copy wants it to go on with the next import; else the new disk is taken out again.
    fn is_interrupted(&self) -> bool {
        false
    }

    /// The labels name other disks than before. Whoever finds the pool at its next start by paths that are kept
    /// elsewhere keeps the new ones before this returns: what comes next may be that a disk is gone which was the only
    /// known one.
    fn keep_paths(&mut self, pool: &Pool) -> io::Result<()>;

    /// Syncs the open group as whoever owns the pool does.
    fn sync(&mut self, pool: &Pool) -> Result<(), SyncError> {
        pool.sync().map(|_| ())
    }

    /// A lane has begun a new life, and wants a thread.
    fn run_lane(&mut self, lane: Arc<Lane>) -> io::Result<()>;

    /// This leg is out of the pool. Its label is to be erased, or to say that it is a spare again
    /// ([`Roster::release_label`](tally_members::roster::Roster::release_label)), as soon as its disk lets somebody.
    fn let_go(&mut self, leg: Arc<VdevLeg>);
}

/// Labels call a disk by its guid; who asked knows its path.
fn told_of(error: RosterError, guid: VdevGuid, path: &Path) -> MembershipError {
    match error {
        RosterError::Leg { leg, why } if leg == guid => MembershipError::Refused { path: path.to_owned(), why },
        error => error.into(),
    }
}

/// A disk of a pool: its vdev, in memory and in the configuration, and itself.
#[derive(Clone)]
pub struct Member {
    /// The vdev that it is a leg of.
    pub vdev: Arc<Vdev>,
    /// The same, in the labels.
    pub config: VdevConfig,
    /// The leg itself, by its name for ever.
    pub leg: VdevGuid,
}

impl Member {
    /// Where the disk is, or was last seen.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let leg = self.config.legs.iter().find(|leg| leg.guid == self.leg);
        leg.map(|leg| leg.path.clone()).unwrap_or_default()
    }

    fn told_of(&self, error: RosterError) -> MembershipError {
        told_of(error, self.leg, &self.path())
    }

    /// Whether this disk is the one at `path` and is open, but neither read nor written any more; or was put away.
    fn is_useless_at(&self, path: &Path) -> bool {
        let is_idle =
            |leg: Arc<VdevLeg>| matches!(leg.state(), LegState::Stale | LegState::Faulted | LegState::Offline);
        let is_here = self.config.legs.iter().any(|leg| leg.guid == self.leg && leg.path == path);
        is_here && self.vdev.leg(self.leg).is_some_and(is_idle)
    }

    /// The other legs that have everything.
    fn staying(&self) -> Vec<VdevGuid> {
        let online = self.vdev.legs().into_iter().filter(|leg| leg.state() == LegState::Online);
        online.map(|leg| leg.guid()).filter(|guid| *guid != self.leg).collect()
    }
}

/// What came of a copy.
#[derive(Clone, Debug, Default)]
pub struct Copied {
    /// Bytes that were brought or copied, and what of the copied could not be read.
    pub report: ResilverReport,
    /// What came of it, block by block.
    pub secured: SecureReport,
    /// Only what the disk had missed was brought.
    pub is_partial: bool,
}

impl Copied {
    /// The same, with what was lost of blocks that were brought before: the walk may have been over their places by then.
    fn with_losses_of(mut self, before: SecureReport) -> Self {
        self.secured.lost_count += before.lost_count;
        self.secured.lost.extend(before.lost);
        self
    }

    /// Whether the new disk has everything that the old ones had, as far as that can be known.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.report.unreadable_bytes == 0 && self.secured.unread_count == 0
    }
}

/// Why a copy did not come to its end.
enum CopyEnded {
    Stopped,
    /// What went wrong.
    Failed(String),
}

impl Pool {
    /// Finds a disk of the pool.
    #[must_use]
    pub fn member(&self, leg: VdevGuid) -> Option<Member> {
        let config = self.roster.config();
        let (line, _) = config.leg(leg)?;
        let vdev = self.roster.vdevs().iter().find(|vdev| vdev.guid() == line.guid)?;
        Some(Member { vdev: Arc::clone(vdev), config: line.clone(), leg })
    }

    /// The disk that leaves when the copy to this one is over.
    #[must_use]
    pub fn replaced_by(&self, leg: VdevGuid) -> Option<Member> {
        self.member(self.join_job(leg)?.replaces?)
    }

    /// Copies everything to a new disk beside `place`, and makes it count.
    pub fn join(
        &self,
        place: &Member,
        path: &Path,
        force: bool,
        onlooker: &mut dyn Onlooker,
    ) -> Result<Copied, MembershipError> {
        self.join_for(place, path, force, None, onlooker)
    }

    /// The same for a disk that `replaces` another one.
    fn join_for(
        &self,
        place: &Member,
        path: &Path,
        force: bool,
        replaces: Option<VdevGuid>,
        onlooker: &mut dyn Onlooker,
    ) -> Result<Copied, MembershipError> {
        // The disk's label is erased next, and it may have been somebody's.
        self.roster.check_changeable()?;
        self.check_not_ours(place, path)?;
        let leg = new_leg(&self.platform, &place.config, path, force);
        let leg = leg.map_err(|error| error.seen_from(&self.roster.config()))?;
        self.join_with(place, leg, replaces, onlooker)
    }

    /// Whether the disk at `path` could join beside `place`, or replace it; nothing is written.
    pub fn check_join(&self, place: &Member, path: &Path, force: bool) -> Result<(), MembershipError> {
        self.roster.check_changeable()?;
        if place.is_useless_at(path) {
            self.check_leave(place)?;
            return self.check_room_for(place, path, Some(place.leg));
        }
        self.check_not_ours(place, path)?;
        let checked = check_new_leg(&self.platform, &place.config, path, force);
        checked.map_err(|error| error.seen_from(&self.roster.config()))?;
        self.check_room_for(place, path, None)
    }

    /// Whether the labels have room for a disk beside `place`, once the one that `leaves` first is out.
    pub fn check_room_for(&self, place: &Member, path: &Path, leaves: Option<VdevGuid>) -> Result<(), MembershipError> {
        Ok(self.roster.check_room_for_leg(&place.vdev, path, leaves)?)
    }

    /// Whether the disk could leave, as far as that can be told without a look at its blocks.
    pub fn check_leave(&self, place: &Member) -> Result<(), MembershipError> {
        self.roster.check_detach(&place.vdev, place.leg).map_err(|error| place.told_of(error))
    }

    /// Whether the disk could be taken out of use.
    pub fn check_offline(&self, place: &Member) -> Result<(), MembershipError> {
        self.roster.check_offline(&place.vdev, place.leg).map_err(|error| place.told_of(error))
    }

    /// A disk of the pool is no new one. Where one is missing another one may be at its path.
    fn check_not_ours(&self, place: &Member, path: &Path) -> Result<(), MembershipError> {
        let refused = |why| Err(MembershipError::Refused { path: path.to_owned(), why });
        let config = self.roster.config();
        let legs = config.vdevs_present().flat_map(|vdev| &vdev.legs).filter(|leg| leg.path == path);
        for leg in legs.filter_map(|leg| self.roster.vdevs().iter().find_map(|vdev| vdev.leg(leg.guid))) {
            match leg.state() {
                LegState::Missing => {}
                _ if leg.guid() == place.leg && !leg.takes_writes() => {}
                _ if leg.guid() == place.leg => {
                    return refused("is in use as this very disk, and is well; name another disk to put in its place");
                }
                _ if place.vdev.leg(leg.guid()).is_some() => {
                    return refused(
                        "is a disk of this pool already, and of this mirror: name another one, or take out what it was to replace with \
                         `tally pool detach`",
                    );
                }
                _ => {
                    return refused(
                        "is a disk of this pool already; `tally pool status` shows as what, so name another one",
                    );
                }
            }
        }
        Ok(())
    }

    /// [`Self::join`], with a disk that is open.
    pub(super) fn join_with(
        &self,
        place: &Member,
        leg: Arc<VdevLeg>,
        replaces: Option<VdevGuid>,
        onlooker: &mut dyn Onlooker,
    ) -> Result<Copied, MembershipError> {
        let (guid, path) = (leg.guid(), leg.path().to_owned());
        let path = path.as_path();
        let job = self.begin_join(guid, replaces, onlooker)?;
        self.roster.add_leg(&place.vdev, leg).inspect_err(|_| self.forget_join(guid))?;
        // A ring is not copied but brought along by its lane.
        let is_copied = place.config.class == VdevClass::Data;
        let kept = onlooker.keep_paths(self).map_err(|error| {
            CopyEnded::Failed(format!("where it is could not be written down for the next start: {error}"))
        });
        // A disk that replaces itself has left already, and a spare that stands for nobody would stay for good.
        let gone = replaces.filter(|old| self.member(*old).is_none());
        let handed_on = gone.map_or(Ok(()), |old| self.hand_spares_on(old, guid));
        let ready = kept.and_then(|()| handed_on.map_err(|error| CopyEnded::Failed(error.to_string())));
        let copy =
            ready.and_then(|()| if is_copied { self.copy_to(place, job, onlooker) } else { Ok(Copied::default()) });
        // If that failed it has never counted.
        let copied = copy.map_err(|ended| self.take_out(place, guid, path, ended, onlooker))?;
        if let Err(error) = self.make_count(place, guid, path, &copied) {
            let failed = CopyEnded::Failed(error.to_string());
            return Err(self.take_out(place, guid, path, failed, onlooker));
        }
        // From here on the job says what is left to do, whatever goes wrong.
        self.join_lanes(place, guid, path, onlooker)?;
        self.finish_join(guid, copied.is_whole(), onlooker)?;
        Ok(copied)
    }

    /// Takes a disk of the pool out of use; `for_good`: also for imports. Refused where the others lack something.
    pub fn take_offline(
        &self,
        place: &Member,
        for_good: bool,
        onlooker: &mut dyn Onlooker,
    ) -> Result<(), MembershipError> {
        self.roster.take_offline(&place.vdev, place.leg, for_good).map_err(|error| place.told_of(error))?;
        self.end_return(place.leg, onlooker);
        Ok(())
    }

    /// Whoever is told that a disk stays away is told so behind the group that has forgotten its job: else it comes back behind a cut.
    /// Where that cannot be written nothing is lost: a disk that was put away for good has that in its labels, and one that was put away for now comes back
    /// with the next start anyway.
    fn end_return(&self, leg: VdevGuid, onlooker: &mut dyn Onlooker) {
        if self.forget_return(leg)
            && let Err(error) = onlooker.sync(self)
        {
            tracing::warn!(%leg, %error, "behind a cut a disk may come back that was to stay away");
        }
    }

    /// A leg has been copied, or brought up to date: it counts, and takes part in its lane.
    fn let_count(
        &self,
        place: &Member,
        guid: VdevGuid,
        path: &Path,
        copied: &Copied,
        onlooker: &mut dyn Onlooker,
    ) -> Result<(), MembershipError> {
        self.make_count(place, guid, path, copied)?;
        self.join_lanes(place, guid, path, onlooker)
    }

    fn make_count(&self, place: &Member, guid: VdevGuid, path: &Path, copied: &Copied) -> Result<(), MembershipError> {
        let finished = self.roster.finish_resilver(&place.vdev, guid, copied.is_whole());
        finished.map_err(|error| told_of(error, guid, path))
    }

    fn join_lanes(
        &self,
        place: &Member,
        guid: VdevGuid,
        path: &Path,
        onlooker: &mut dyn Onlooker,
    ) -> Result<(), MembershipError> {
        for line in self.roster.config().lanes.iter().filter(|line| line.vdev == place.config.index) {
            match self.lane(line.lane).filter(|lane| !lane.has_ended()) {
                Some(lane) => {
                    let joined = self.join_lane(&lane, line, guid, path, onlooker);
                    joined.inspect_err(|error| self.strike_off(&place.vdev, guid, error))?;
                }
                // All its disks are gone or have failed: it begins a new life on this one.
                None => onlooker.run_lane(self.renew_lane(line.lane, guid)?).map_err(MembershipError::NoThread)?,
            }
        }
        Ok(())
    }

    /// Gives the disks that stay whatever the leaving one alone has right, also if that one was struck off: the
    /// checksums tell (rules S6). Where no other has everything the roster says so.
    pub fn make_sure(&self, place: &Member, onlooker: &mut dyn Onlooker) -> Result<SecureReport, MembershipError> {
        let path = place.path();
        let has_disk = place.vdev.leg(place.leg).is_some_and(|leg| leg.disk().is_some());
        // What it has it was given by the others.
        let never_counted = self.is_joining(place.leg);
        let staying = place.staying();
        if place.config.class != VdevClass::Data || !has_disk || never_counted || staying.is_empty() {
            return Ok(SecureReport::default());
        }
        let missed: Vec<_> = staying.iter().map(|guid| (*guid, self.roster.missed(*guid))).collect();
        let synced = onlooker.sync(self).map_err(SecureError::from);
        let secured = synced.and_then(|()| {
            self.secure(&place.vdev, &staying, &mut |done| onlooker.on_progress(Stage::CheckingRest, done))
        });
        match secured {
            // What one of them has is no use if it was struck off meanwhile.
            Ok(_) if place.staying() != staying => Err(MembershipError::StaysNeeded { path }),
            Ok(secured) if secured.unread_count == 0 => {
                self.roster.forget_missed(&missed)?;
                Ok(secured)
            }
            Ok(SecureReport { unread_count: count, lost, .. }) => {
                let first = lost.first().map_or_else(String::new, ToString::to_string);
                Err(MembershipError::MayHaveMore { path, count, first })
            }
            Err(SecureError::Stopped) => Err(MembershipError::StaysUnchecked { path }),
            Err(cause) => Err(MembershipError::NotChecked { path, cause }),
        }
    }

    /// Takes a disk out of its mirror, whatever it has.
    pub fn leave(&self, place: &Member, onlooker: &mut dyn Onlooker) -> Result<(), MembershipError> {
        let leg = self.roster.detach(&place.vdev, place.leg).map_err(|error| place.told_of(error))?;
        self.has_left(leg, onlooker);
        Ok(())
    }

    fn has_left(&self, leg: Arc<VdevLeg>, onlooker: &mut dyn Onlooker) {
        self.forget_join(leg.guid());
        // A path too many does no harm.
        if let Err(error) = onlooker.keep_paths(self) {
            let path = leg.path().display();
            tracing::warn!(%path, %error, "the next start will look for a disk that has left");
        }
        onlooker.let_go(leg);
    }

    /// Lets the disk at `path` join, and the one at `place` leave if the new one has everything. A disk that missed
    /// changes or failed can replace itself: it is open already, so it leaves first, once nothing is right on it alone.
    /// Gives beside which disk the new one joined.
    pub fn replace(
        &self,
        place: &Member,
        path: &Path,
        force: bool,
        onlooker: &mut dyn Onlooker,
    ) -> Result<(Member, Copied), MembershipError> {
        if place.is_useless_at(path) {
            self.make_sure(place, onlooker)?;
            let leg = self.roster.detach(&place.vdev, place.leg).map_err(|error| place.told_of(error))?;
            // One that refused a write refuses this too, and is asked again when it was opened anew.
            if let Err(error) = leg.erase_label() {
                tracing::info!(path = %path.display(), %error, "a disk that is to begin anew keeps its label for now");
            }
            drop(leg);
            self.forget_join(place.leg);
            let beside = self.beside(place)?;
            // It is this pool's own, whether or not its label could be erased.
            let joined = self.join_for(&beside, path, true, Some(place.leg), onlooker);
            return match joined {
                Ok(copied) => Ok((beside, copied)),
                Err(interrupted @ MembershipError::Interrupted { .. }) => Err(interrupted),
                Err(cause) => Err(MembershipError::NotBack {
                    pool: self.roster.config().name,
                    path: path.into(),
                    beside: beside.path(),
                    cause: Box::new(cause),
                }),
            };
        }
        let copied = self.join_for(place, path, force, Some(place.leg), onlooker)?;
        Ok((place.clone(), copied))
    }

    /// What stood for a disk stands for the `new` one that has replaced it, until somebody sees that this one is whole.
    fn hand_spares_on(&self, replaced: VdevGuid, new: VdevGuid) -> Result<(), RosterError> {
        let config = self.roster.config();
        let standing = config.spares_in_use().filter(|(spare, _)| spare.stands_for == Some(replaced));
        let standing: Vec<_> = standing.map(|(spare, _)| spare.guid).collect();
        self.roster.hand_spares_on(&standing, new)
    }

    /// Another disk of the vdev that this one has left.
    fn beside(&self, left: &Member) -> Result<Member, MembershipError> {
        let config = self.roster.config();
        let line = config.vdevs_present().find(|line| line.guid == left.config.guid);
        let beside = line.and_then(|line| Some((line.clone(), line.legs.first()?.guid)));
        let (config, leg) = beside.ok_or(RosterError::Leg { leg: left.leg, why: "was the last one of its vdev" })?;
        Ok(Member { vdev: Arc::clone(&left.vdev), config, leg })
    }

    fn join_lane(
        &self,
        lane: &Lane,
        line: &LaneConfigLine,
        guid: VdevGuid,
        path: &Path,
        onlooker: &mut dyn Onlooker,
    ) -> Result<(), MembershipError> {
        let failed = || MembershipError::Join { path: path.into() };
        let mut wider = line.clone();
        wider.legset.push(guid);
        let leg = self.roster.lane_config(&wider).legs.into_iter().find(|leg| leg.guid == guid).ok_or_else(failed)?;
        lane.join_leg(leg);
        for _ in 0..JOIN_SYNCS_MAX {
            onlooker.sync(self)?;
            if lane.take_in_leg(guid) {
                let taken_in = self.roster.take_in_lane_leg(lane.id(), guid);
                return taken_in.map(drop).map_err(|error| match error {
                    // It was struck off meanwhile.
                    RosterError::Leg { .. } => failed(),
                    error => error.into(),
                });
            }
        }
        Err(failed())
    }

    /// A disk that could not join the log is no leg of it, whatever else it has: `status` must not call it online, and
    /// the lane must not go on writing to it. Only where nothing else has what is in the pool it stays, as it is.
    fn strike_off(&self, vdev: &Vdev, guid: VdevGuid, cause: &MembershipError) {
        let has_other = vdev.legs().iter().any(|other| other.guid() != guid && other.state() == LegState::Online);
        if has_other && let Err(error) = self.roster.drop_leg(guid, &io::Error::other(cause.to_string())) {
            tracing::error!(leg = %guid, %error, "a disk that could not join the log could not be struck off");
        }
    }
}
