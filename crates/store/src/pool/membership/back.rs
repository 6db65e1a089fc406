//! A disk that was away comes back, and is given what it has missed.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tally_base::{Txg, VdevGuid};
use tally_members::label::{MissedGroups, TxgRange, VdevClass};
use tally_members::roster::{ReturnError, RosterError};
use tally_members::vdev::{Vdev, VdevLeg};

use super::copy::{among, later_than, of_secure, seen_at};
use super::{Copied, CopyEnded, Member, MembershipError, Onlooker, Stage};
use crate::pool::joining::JoinJob;
use crate::pool::{Pool, SecureReport};

/// Syncs after which every block that was placed before a leg joined must be settled: one does, but for operations that are
/// under way for that long.
const SETTLING_SYNCS_MAX: u32 = 16;

impl Pool {
    /// Takes back a disk that was away, and gives it what it has missed; all that there is, if nobody knows what that is. If that is cut off it
    /// goes on by itself: a group with its job is synced before the first block is given.
    pub fn take_back(&self, place: &Member, onlooker: &mut dyn Onlooker) -> Result<Copied, MembershipError> {
        self.check_its_lane(place)?;
        let leg = self.reopen(place, onlooker).inspect_err(|error| {
            // Of one that is in use already, or held for a moment, the job is still to be done.
            let goes_on =
                matches!(error, MembershipError::Return(ReturnError::Held { .. } | ReturnError::NotAway { .. }));
            if !goes_on {
                self.forget_return(place.leg);
            }
        })?;
        if place.config.class == VdevClass::Data {
            self.note_return(place.leg);
        }
        self.roster.add_leg(&place.vdev, leg).inspect_err(|_| self.end_return(place.leg, onlooker))?;
        self.catch_up(place, onlooker)
    }

    /// Gives a disk that gets every write by now what it lacks, and makes it count.
    pub(super) fn catch_up(&self, place: &Member, onlooker: &mut dyn Onlooker) -> Result<Copied, MembershipError> {
        let (guid, path) = (place.leg, place.path());
        let copy = match self.join_job(guid) {
            _ if place.config.class != VdevClass::Data => Ok(Copied::default()),
            Some(job) if !job.returns => self.go_on(place, job, onlooker),
            job => {
                let job = job.unwrap_or_else(|| JoinJob::of_return(guid, self.platform.clock.now()));
                self.bring(place, job, onlooker)
            }
        };
        let copied = copy.map_err(|ended| self.stays_away(guid, &path, seen_at(place, guid, ended), onlooker))?;
        let counts = self.let_count(place, guid, &path, &copied, onlooker);
        counts.inspect_err(|_| self.end_return(guid, onlooker))?;
        self.finish_join(guid, copied.is_whole(), onlooker)?;
        Ok(copied)
    }

    /// Opens the disk that is back. One that joins and lacks more than the labels know is an older copy of it, and its job says of another disk how
    /// far the copy is. Once the labels say what this one lacks nobody could tell the two apart, so until it was looked at the job that is
    /// durable begins anew (rules S9).
    fn reopen(&self, place: &Member, onlooker: &mut dyn Onlooker) -> Result<Arc<VdevLeg>, MembershipError> {
        let known = self.roster.missed(place.leg);
        let job = self.join_job(place.leg).filter(|job| job.settled.is_some());
        if let Some(job) = &job {
            self.note_join(&job.clone().begun_anew());
            if let Err(error) = onlooker.sync(self) {
                self.note_join(job);
                return Err(error.into());
            }
        }
        let reopened = self.roster.reopen(&self.platform, &place.vdev, place.leg);
        if let Some(job) = job.filter(|_| self.roster.missed(place.leg) == known) {
            self.note_join(&job);
        }
        Ok(reopened?)
    }

    /// Whether a disk could be taken back, as far as that can be told without changing anything; and what it lacks, nothing if
    /// that is not known.
    pub fn check_take_back(&self, place: &Member) -> Result<MissedGroups, MembershipError> {
        self.check_its_lane(place)?;
        Ok(self.roster.check_reopen(&self.platform, &place.vdev, place.leg)?)
    }

    fn check_its_lane(&self, place: &Member) -> Result<(), MembershipError> {
        self.roster.check_changeable()?;
        // Its lane has ended with it, and nobody else has those frames.
        if self.roster.config().lanes.iter().any(|line| line.legset == [place.leg]) {
            let why = "is the only one of its intent log, which has ended with it; give that another disk with `tally pool \
                       replace`, or export the pool and import it again";
            return Err(place.told_of(RosterError::Leg { leg: place.leg, why }));
        }
        Ok(())
    }

    /// What was not finished is missed still (rules S9).
    fn stays_away(
        &self,
        guid: VdevGuid,
        path: &Path,
        ended: CopyEnded,
        onlooker: &mut dyn Onlooker,
    ) -> MembershipError {
        if (self.is_joining(guid) || self.returns(guid)) && self.goes_on_later(onlooker) {
            return MembershipError::Interrupted { path: path.to_owned() };
        }
        let cause = match ended {
            CopyEnded::Stopped => "it was stopped".to_owned(),
            CopyEnded::Failed(cause) => cause,
        };
        if let Err(error) = self.roster.drop_leg(guid, &io::Error::other(cause.clone())) {
            tracing::error!(leg = %guid, %error, "a disk that is not up to date could not be struck off");
        }
        self.end_return(guid, onlooker);
        MembershipError::StaysAway { path: path.to_owned(), cause }
    }

    /// Gives a leg that gets every write by now what it has missed.
    fn bring(&self, place: &Member, job: JoinJob, onlooker: &mut dyn Onlooker) -> Result<Copied, CopyEnded> {
        let leg = job.leg;
        let missed = self.roster.missed(leg);
        // Nobody knows of a cut since when it lacks what.
        if missed.is_empty() || missed.begins_with_the_first() {
            return self.copy_to(place, self.anew(job), onlooker);
        }
        let missed = self.close_missed(&place.vdev, leg, onlooker)?;
        // A strike that found the labels full has made room by forgetting what this one lacks.
        if missed.is_empty() {
            return self.copy_to(place, self.anew(job), onlooker);
        }
        let (job, missed, later) = self.go_on_bringing(place, job, missed, onlooker)?;
        onlooker.expect(Stage::Bringing, self.missed_bytes(place.vdev.index(), &missed));
        let mut progress = |done| onlooker.on_progress(Stage::Bringing, done);
        let brought = self.secure_joining(&place.vdev, job, Some(&missed), &mut progress).map_err(of_secure);
        self.end_reaching(leg, brought.is_ok());
        Ok(Copied { secured: brought?, is_partial: true, ..Copied::default() }.with_losses_of(later))
    }

    /// Where the walk of the `missed` groups goes on, which of them that is about, and what came of those since the cut, which are brought here. It
    /// begins anew where something could not be read (rules S9).
    fn go_on_bringing(
        &self,
        place: &Member,
        job: JoinJob,
        missed: MissedGroups,
        onlooker: &mut dyn Onlooker,
    ) -> Result<(JoinJob, MissedGroups, SecureReport), CopyEnded> {
        if let Some(settled) = job.settled.filter(|_| job.lacks_nothing()) {
            onlooker.goes_on(job.copied_bytes(), 0, job.ran);
            let later = self.bring_later(place, &job, &later_than(&missed, settled), onlooker)?;
            if !later.hides && later.unread_count == 0 {
                return Ok((job, among(&missed, TxgRange { from: Txg(0), to: settled }), later));
            }
        }
        let settled = missed.ranges().last().map(|range| range.to);
        let job = JoinJob { settled, ..job.begun_anew() };
        self.keep_join(&job);
        Ok((job, missed, SecureReport::default()))
    }

    /// What a leg has missed that gets every write by now ends with the group that was open when the last block was settled
    /// that was placed before (rules S7). All that it lacks is in the newest trees when this returns.
    pub(super) fn close_missed(
        &self,
        vdev: &Vdev,
        leg: VdevGuid,
        onlooker: &mut dyn Onlooker,
    ) -> Result<MissedGroups, CopyEnded> {
        let Some(to) = self.settle(vdev, onlooker)? else {
            let why = "what was written when it came back is still under way; try again";
            return Err(CopyEnded::Failed(why.to_owned()));
        };
        self.roster.close_missed(leg, to).map_err(|error| CopyEnded::Failed(error.to_string()))
    }

    /// Waits until all that was placed ahead of any group belongs to one, or was given back. Gives the group to which, or to one before,
    /// it belongs, durable; none if something of it is under way for too long.
    pub(super) fn settle(&self, vdev: &Vdev, onlooker: &mut dyn Onlooker) -> Result<Option<Txg>, CopyEnded> {
        let mut sync = || onlooker.sync(self).map_err(|error| CopyEnded::Failed(error.to_string()));
        let mut unborn = self.io.allocator().unborn(vdev.index());
        for _ in 0..SETTLING_SYNCS_MAX {
            if unborn.is_over() {
                break;
            }
            sync()?;
            unborn = unborn.still_among(&self.io.allocator().unborn(vdev.index()));
        }
        if !unborn.is_over() {
            return Ok(None);
        }
        let to = self.txgs.open();
        while self.txgs.last_synced() < to {
            sync()?;
        }
        Ok(Some(to))
    }
}
