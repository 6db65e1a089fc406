//! The copy to a disk that joins: every block, by its pointer, and what only older groups name; and how it goes on behind a cut.
//!
//! A block is read from a leg that counts, verified, and written ([`tally_members::vdev::Vdev::bring`]). No pointer leads to what was given back and waits, as an older
//! group names it: that is copied as it is, and so is all that is in use where something could not be read that may name more. If a
//! disk is to leave, the new one is read again before it counts: a disk may lose what it was given and say nothing.
//!
//! How far it is stands in the catalog ([`JoinJob`]), and since when the disk lacks what is written in the labels. So who goes on
//! lets the disk have every write again, gives it the groups in which it was away, and copies the rest.

use std::fmt::Display;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tally_base::{Txg, VdevGuid};
use tally_members::label::{MissedGroups, TxgRange, VdevClass};
use tally_members::vdev::{LegState, VdevLeg};

use super::{Copied, CopyEnded, Member, MembershipError, Onlooker, Stage};
use crate::pool::joining::JoinJob;
use crate::pool::spares::state_of;
use crate::pool::{LostBlock, Pool, SecureError, SecureReport};

impl Pool {
    /// From here on a cut leaves a disk that joins and of which somebody knows, or none.
    pub(super) fn begin_join(
        &self,
        leg: VdevGuid,
        replaces: Option<VdevGuid>,
        onlooker: &mut dyn Onlooker,
    ) -> Result<JoinJob, MembershipError> {
        let job = JoinJob::new(leg, replaces, self.platform.clock.now());
        self.note_join(&job);
        onlooker.sync(self).inspect_err(|_| self.forget_join(leg))?;
        Ok(job)
    }

    /// Whether a disk was to join and has not got so far that it counts. One that has counted, and whose job is still there, lacks what was
    /// written since and not all groups from the first one on.
    pub(in crate::pool) fn is_joining(&self, leg: VdevGuid) -> bool {
        let config = self.roster.config();
        let Some((vdev, line)) = config.leg(leg) else { return false };
        let has_counted = vdev.class == VdevClass::Data && !line.missed.is_empty() && !line.missed.is_of_new();
        self.join_job(leg).is_some_and(|job| !job.returns) && !has_counted && !self.counts(leg)
    }

    /// Whether a disk is to leave, as the one that replaces it has counted, and lacked nothing then.
    pub(in crate::pool) fn is_leaving(&self, leg: VdevGuid) -> bool {
        let has_all = |leg| !self.is_joining(leg) && !self.roster.missed(leg).begins_with_the_first();
        self.joins().iter().any(|job| job.replaces == Some(leg) && has_all(job.leg))
    }

    /// How a disk stands; none: it is none of the pool.
    #[must_use]
    pub fn state_of(&self, leg: VdevGuid) -> Option<LegState> {
        state_of(&self.roster, leg)
    }

    fn counts(&self, leg: VdevGuid) -> bool {
        self.state_of(leg) == Some(LegState::Online)
    }

    /// Whether a copy, or the end of a replace, goes on without a command: nobody but somebody takes up a disk that was put away, or has failed;
    /// or one that has counted and is missing, for which a spare may be taken instead.
    #[must_use]
    pub fn goes_on_by_itself(&self, leg: VdevGuid) -> bool {
        match self.state_of(leg) {
            Some(LegState::Stale | LegState::Resilvering | LegState::Online) => true,
            Some(LegState::Missing) => self.is_joining(leg),
            _ => false,
        }
    }

    /// Whether a disk that was away is on its way back, in this import or one before.
    #[must_use]
    pub fn returns(&self, leg: VdevGuid) -> bool {
        self.join_job(leg).is_some_and(|job| job.returns)
    }

    /// A disk counts, and the one that it replaces leaves if the new one has everything. Where it cannot for now the job stays, and whoever goes on
    /// with the disk sees to it; where somebody has to do something about it he is told, and nothing is done behind his back later.
    pub(super) fn finish_join(
        &self,
        leg: VdevGuid,
        is_whole: bool,
        onlooker: &mut dyn Onlooker,
    ) -> Result<(), MembershipError> {
        let Some(job) = self.join_job(leg) else { return Ok(()) };
        let old = job.replaces.filter(|_| is_whole).and_then(|old| self.member(old));
        let left = old.map_or(Ok(()), |old| self.let_leave(&old, leg, onlooker));
        if !matches!(left, Err(MembershipError::NotLeftYet { .. })) {
            self.forget_join(leg);
            self.want_kept();
        }
        left
    }

    fn let_leave(&self, old: &Member, new: VdevGuid, onlooker: &mut dyn Onlooker) -> Result<(), MembershipError> {
        let path = self.member(new).map(|new| new.path()).unwrap_or_default();
        let handed_on = self.hand_spares_on(old.leg, new).map_err(MembershipError::from);
        if handed_on.is_ok() && !self.counts(new) {
            return Err(MembershipError::NotLeftYet {
                path,
                old: old.path(),
                why: "the new one failed meanwhile".into(),
            });
        }
        let Err(error) = handed_on.and_then(|()| self.leave(old, onlooker)) else { return Ok(()) };
        let may_pass = !self.counts(new) || self.is_suspended();
        let (old, why) = (old.path(), error.to_string());
        Err(match may_pass {
            true => MembershipError::NotLeftYet { path, old, why },
            false => MembershipError::OldStays { pool: self.roster.config().name, path, old, why },
        })
    }

    /// What was left to do behind a cut of a disk that counts. Its list says whether its copy lacked something: then the old one stays.
    fn finish_counted(&self, place: &Member, onlooker: &mut dyn Onlooker) -> Result<(), MembershipError> {
        let is_whole = self.roster.missed(place.leg).is_empty();
        let stays = self.replaced_by(place.leg).filter(|_| !is_whole);
        self.finish_join(place.leg, is_whole, onlooker)?;
        let Some(old) = stays else { return Ok(()) };
        let (pool, path, old) = (self.roster.config().name, place.path(), old.path());
        let why = format!("something could not be read when {} was copied", path.display());
        Err(MembershipError::OldStays { pool, path, old, why })
    }

    /// Goes on with a disk whose copy was cut off, or whose old one has not left yet: what nobody has asked for anew. Gives what came of the copy,
    /// if there was one left to do.
    pub fn go_on_joining(
        &self,
        place: &Member,
        onlooker: &mut dyn Onlooker,
    ) -> Result<Option<Copied>, MembershipError> {
        match self.state_of(place.leg) {
            Some(LegState::Online) => self.finish_counted(place, onlooker).map(|()| None),
            // The copy was interrupted, and the pool has not gone after all.
            Some(LegState::Resilvering) => self.catch_up(place, onlooker).map(Some),
            Some(LegState::Offline) | None => Err(MembershipError::NotDue { path: place.path() }),
            _ => self.take_back(place, onlooker).map(Some),
        }
    }

    /// Brings a leg that gets every write what was there before; what its job has of that is done.
    pub(super) fn copy_to(
        &self,
        place: &Member,
        job: JoinJob,
        onlooker: &mut dyn Onlooker,
    ) -> Result<Copied, CopyEnded> {
        let leg = job.leg;
        let copied = self.copy_and_check(place, job, onlooker);
        self.end_reaching(leg, copied.is_ok());
        copied
    }

    fn copy_and_check(
        &self,
        place: &Member,
        mut job: JoinJob,
        onlooker: &mut dyn Onlooker,
    ) -> Result<Copied, CopyEnded> {
        let failed = |cause: &dyn Display| CopyEnded::Failed(cause.to_string());
        if job.settled.is_none() {
            if let Some(settled) = self.settle(&place.vdev, onlooker)? {
                // If it is cut off, the groups behind this one are all that it lacks beside the rest of the copy.
                self.roster.close_missed(job.leg, settled).map_err(|error| failed(&error))?;
                job.settled = Some(settled);
                self.keep_join(&job);
            } else {
                // A group may name it behind the walk.
                let unborn = self.io.allocator().unborn(place.vdev.index());
                self.copy_sectors(place, &mut job, &mut unborn.ranges(), onlooker)?;
                // What was settled since the last group is named by the open one.
                let to = self.txgs.open();
                while self.txgs.last_synced() < to {
                    onlooker.sync(self).map_err(|error| failed(&error))?;
                }
            }
        }
        let mut lost = Vec::new();
        if !job.is_brought {
            lost = self.bring_all(place, &mut job, onlooker)?;
        }
        if job.is_brought {
            onlooker.sync(self).map_err(|error| failed(&error))?;
            lost = self.look_at_all(place, &mut job, onlooker)?;
        }
        let secured = SecureReport { lost, ..job.secured };
        Ok(Copied { report: job.report, secured, is_partial: false })
    }

    /// Brings every block, and what older groups alone name. What is lost of it is given apart.
    fn bring_all(
        &self,
        place: &Member,
        job: &mut JoinJob,
        onlooker: &mut dyn Onlooker,
    ) -> Result<Vec<LostBlock>, CopyEnded> {
        let walk = |job: &JoinJob, onlooker: &mut dyn Onlooker| {
            let before = job.report.copied_bytes;
            let mut progress = |done| onlooker.on_progress(Stage::Copying, before + done);
            self.secure_joining(&place.vdev, job.clone(), None, &mut progress).map_err(of_secure)
        };
        let mut secured = walk(job, onlooker)?;
        let (allocator, index) = (self.io.allocator(), place.vdev.index());
        if (secured.unread_count > 0 || secured.hides) && !job.is_copied {
            // What a device refuses may be read another day, and of a node that has rotted an older group may have another version: they hide
            // what they name. The walk is the last word again.
            *job = JoinJob { settled: job.settled, ..job.clone().begun_anew() };
            let mut occupied = allocator.occupied(index).into_iter().flatten();
            self.copy_sectors(place, job, &mut occupied, onlooker)?;
            // The disk was flushed, so a cut does not cost that again.
            job.is_copied = true;
            self.reach_part(job);
            secured = walk(job, onlooker)?;
        }
        let lost = std::mem::take(&mut secured.lost);
        job.secured = secured;
        self.copy_what_waits(place, job, onlooker)?;
        job.report.copied_bytes += job.secured.checked_bytes;
        if job.replaces.and_then(|old| self.member(old)).is_some() {
            job.begin_look();
            self.reach_part(job);
        }
        Ok(lost)
    }

    /// A part of the copy is over, and another one begins: the walk, which keeps its own account, has told for how long it has been running.
    fn reach_part(&self, job: &mut JoinJob) {
        job.ran = self.join_job(job.leg).map_or(job.ran, |kept| kept.ran);
        self.reach_join(job);
    }

    /// What was freed lately only older groups name, to which an import may go back (rules S55): no pointer of the newest leads there.
    fn copy_what_waits(&self, place: &Member, job: &mut JoinJob, onlooker: &mut dyn Onlooker) -> Result<(), CopyEnded> {
        let mut waiting = self.io.allocator().waiting_on(place.vdev.index()).into_iter();
        self.copy_sectors(place, job, &mut waiting, onlooker)
    }

    /// On the strength of the new disk another one leaves, which may be the last one that has something. So all is read again there, and what it has
    /// lost it is given once more; but if it has lost something then, too, nothing rests on it.
    fn look_at_all(
        &self,
        place: &Member,
        job: &mut JoinJob,
        onlooker: &mut dyn Onlooker,
    ) -> Result<Vec<LostBlock>, CopyEnded> {
        let mut look = |job: &mut JoinJob| {
            let before = job.secured.repaired_count;
            let mut progress = |done| onlooker.on_progress(Stage::CheckingCopy, done);
            job.secured = self.secure_joining(&place.vdev, job.clone(), None, &mut progress).map_err(of_secure)?;
            Ok(job.secured.repaired_count - before)
        };
        if look(job)? > 0 {
            job.begin_look();
            let lost_again = look(job)?;
            if lost_again > 0 {
                let why = format!(
                    "it does not keep what it is given: {lost_again} blocks were wrong on it, were given to it, and \
                    it had some wrong again; put another disk in its place"
                );
                return Err(CopyEnded::Failed(why));
            }
        }
        Ok(std::mem::take(&mut job.secured.lost))
    }

    /// Copies what is in these ranges as it is.
    fn copy_sectors(
        &self,
        place: &Member,
        job: &mut JoinJob,
        ranges: &mut dyn Iterator<Item = Range<u64>>,
        onlooker: &mut dyn Onlooker,
    ) -> Result<(), CopyEnded> {
        let ((stage, before), mut is_stopped) = (stage_of(job), false);
        let copied = place.vdev.resilver(job.leg, ranges, &mut |bytes| {
            is_stopped = !onlooker.on_progress(stage, before + bytes);
            !is_stopped
        });
        if is_stopped {
            return Err(CopyEnded::Stopped);
        }
        job.report = job.report.followed_by(&copied.map_err(|error| CopyEnded::Failed(error.to_string()))?);
        Ok(())
    }

    /// Goes on with the copy to a leg that gets every write again (rules S9): gives it what was written since the cut, and then the rest; or begins
    /// anew where nobody knows what that is.
    pub(super) fn go_on(
        &self,
        place: &Member,
        mut job: JoinJob,
        onlooker: &mut dyn Onlooker,
    ) -> Result<Copied, CopyEnded> {
        let anew = |job: JoinJob| self.anew(job);
        let lacks = self.roster.missed(job.leg);
        // What could not be read then may be read now, and the job has no room for all the places where that was.
        let is_known = !lacks.is_empty() && job.lacks_nothing();
        let Some(settled) = job.settled.filter(|_| is_known) else {
            return self.copy_to(place, anew(job), onlooker);
        };
        onlooker.goes_on(job.copied_bytes(), job.checked_bytes(), job.ran);
        let missed = self.close_missed(&place.vdev, job.leg, onlooker)?;
        // A strike that found the labels full has made room by forgetting what this one lacks.
        if missed.is_empty() {
            return self.copy_to(place, anew(job), onlooker);
        }
        let brought = self.bring_later(place, &job, &later_than(&missed, settled), onlooker)?;
        // Below what is hidden the walk may have been already.
        if brought.hides || brought.unread_count > 0 {
            return self.copy_to(place, anew(job), onlooker);
        }
        // Else the copy is still to come to its end, and does that there.
        if job.is_brought {
            self.copy_what_waits(place, &mut job, onlooker)?;
        }
        Ok(self.copy_to(place, job, onlooker)?.with_losses_of(brought))
    }

    /// What was done for a job is worth nothing.
    pub(super) fn anew(&self, job: JoinJob) -> JoinJob {
        let job = job.begun_anew();
        self.keep_join(&job);
        job
    }

    /// Gives a leg what was written while its copy was interrupted: it may lie before the place where that goes on.
    pub(super) fn bring_later(
        &self,
        place: &Member,
        job: &JoinJob,
        missed: &MissedGroups,
        onlooker: &mut dyn Onlooker,
    ) -> Result<SecureReport, CopyEnded> {
        if missed.is_empty() {
            return Ok(SecureReport::default());
        }
        let (stage, done) = match stage_of(job) {
            (Stage::Copying, done) if job.returns => (Stage::Bringing, done),
            other => other,
        };
        let brought = self.bring_up(&place.vdev, job.leg, missed, &mut |_| onlooker.on_progress(stage, done));
        brought.map_err(of_secure)
    }

    /// A disk that has never counted is forgotten, unless the copy is to go on.
    pub(super) fn take_out(
        &self,
        place: &Member,
        guid: VdevGuid,
        path: &Path,
        ended: CopyEnded,
        onlooker: &mut dyn Onlooker,
    ) -> MembershipError {
        let path = path.to_owned();
        if self.goes_on_later(onlooker) {
            return MembershipError::Interrupted { path };
        }
        let ended = seen_at(place, guid, ended);
        let taken_out = self.roster.detach(&place.vdev, guid).map(|leg| self.has_left(leg, onlooker));
        match (taken_out, ended) {
            (Ok(()), CopyEnded::Stopped) => MembershipError::Stopped { path },
            (Ok(()), CopyEnded::Failed(cause)) => MembershipError::Copy { path, cause },
            (Err(why), CopyEnded::Stopped) => {
                MembershipError::NotTakenOut { path, cause: "it was stopped".into(), why }
            }
            (Err(why), CopyEnded::Failed(cause)) => MembershipError::NotTakenOut { path, cause, why },
        }
    }

    /// Whether a copy that ended goes on by itself: on a suspended pool nothing can be written down, and it is taken up as behind a cut.
    pub(super) fn goes_on_later(&self, onlooker: &dyn Onlooker) -> bool {
        onlooker.is_interrupted() || self.is_suspended()
    }

    fn is_suspended(&self) -> bool {
        self.suspend_if_closed();
        self.fault().is_some()
    }
}

/// Where a copy is, for whoever hears how far.
fn stage_of(job: &JoinJob) -> (Stage, u64) {
    match job.is_brought {
        true => (Stage::CheckingCopy, job.checked_bytes()),
        false => (Stage::Copying, job.copied_bytes()),
    }
}

/// Those of the groups that are later than this one.
pub(super) fn later_than(missed: &MissedGroups, settled: Txg) -> MissedGroups {
    among(missed, TxgRange { from: settled.next(), to: Txg(u64::MAX) })
}

/// Those of the groups that are in this range.
pub(super) fn among(missed: &MissedGroups, range: TxgRange) -> MissedGroups {
    let mut groups = MissedGroups::default();
    groups.note(range);
    missed.in_common(&groups)
}

/// What ended a copy, if the disk itself did not: then what whoever copied has met is that there is none.
pub(super) fn seen_at(place: &Member, leg: VdevGuid, ended: CopyEnded) -> CopyEnded {
    let has_failed = |leg: &Arc<VdevLeg>| matches!(leg.state(), LegState::Failing | LegState::Faulted);
    match ended {
        CopyEnded::Failed(_) if place.vdev.leg(leg).as_ref().is_some_and(has_failed) => {
            CopyEnded::Failed("the disk itself failed meanwhile".into())
        }
        ended => ended,
    }
}

pub(super) fn of_secure(error: SecureError) -> CopyEnded {
    match error {
        SecureError::Stopped => CopyEnded::Stopped,
        error => CopyEnded::Failed(error.to_string()),
    }
}
