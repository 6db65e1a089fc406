//! Disks of an imported pool: attach, detach, replace, offline and online.
//!
//! How a disk joins and leaves, step by step, is the store's ([`tally_store::pool::membership`]); here is who asks for
//! it, and what they are told. It takes as long as disks take: each command runs in a thread of its own, and
//! [`super::copies`] keeps them apart.
//!
//! **A disk leaves only when nothing is lost with it.** After a copy that could not read all of its source, the old
//! disk stays beside the new one, and whoever asked is told so with the places. `detach` reads every block from the
//! disks that stay before it lets one go, and gives them what that one alone has right. Only `detach -f` does without.
//!
//! A disk that has left still has a label, which is erased as a courtesy. It may be the disk that hangs. So that is
//! done behind everything else, when nothing is held any more, in a thread that nobody waits for longer than
//! [`ERASING_MAX`].

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use tally_base::VdevGuid;
use tally_intent::Lane;
use tally_members::label::LABEL_BYTES;
use tally_members::roster::{ReturnError, Roster};
use tally_members::vdev::{LegState, VdevLeg};
use tally_store::pool::membership::{Copied, Member, MembershipError, Onlooker, Stage};
use tally_store::pool::{Pool, SecureReport};

use super::by_name::{check_no_spare, check_stands_for_nobody, find, find_or_mirror, waiting_spare};
use super::copies::{About, Purpose, Running, outcome_words, remarks_of};
use super::error::{DiskError, PoolsError};
use super::pool_report::space_of;
use super::pools::Pools;
use super::served::ServedPool;
use crate::control::message::{OnProgress, Progress};

/// How long a command waits for the labels of disks that have left. A disk that does not hang takes some milliseconds,
/// and whoever detaches one may want to use it next.
const ERASING_MAX: Duration = Duration::from_secs(2);

/// How long a disk that is to be taken back may be open still, and how often that is looked at.
const HELD_MAX: Duration = Duration::from_secs(2);
/// See [`HELD_MAX`].
const HELD_PAUSE: Duration = Duration::from_millis(20);

impl Pools {
    /// Makes the vdev of `device` a mirror, or a wider one, with the disk at `path`. Gives remarks.
    pub fn attach(
        &self,
        name: &str,
        device: &str,
        path: &Path,
        force: bool,
        progress: OnProgress<'_>,
    ) -> Result<Vec<String>, PoolsError> {
        let served = self.pool(name)?;
        let place = find_or_mirror(served.filer.pool(), device)?;
        check_no_spare(&served, path)?;
        self.with_asker(&served, &place, (Purpose::Join, path), progress, |asker| {
            let copied = served.filer.pool().join(&place, path, force, asker).map_err(DiskError::from)?;
            keep_outcome(&served, &place, (None, path), asker.running, &copied)?;
            Ok(remarks_of(&copied.secured))
        })
    }

    /// Takes a disk out of its mirror; one that is being copied to is stopped. Gives remarks.
    pub fn detach(
        &self,
        name: &str,
        device: &str,
        force: bool,
        progress: OnProgress<'_>,
    ) -> Result<Vec<String>, PoolsError> {
        let served = self.pool(name)?;
        let pool = served.filer.pool();
        let place = find(pool, device)?;
        let stood_for = pool.roster.config().spare(place.leg).and_then(|spare| spare.stands_for);
        // If the copy came to its end before it heard, the disk is one like any other.
        if served.copies.stop_join(place.vdev.guid(), &place.path()) && find(pool, device).is_err() {
            stood_for.into_iter().for_each(|leg| served.decline_spare(leg));
            return Ok(vec!["note: the copy to it was stopped".into()]);
        }
        let path = place.path();
        let remarks = self.with_asker(&served, &place, (Purpose::Leave, &path), progress, |asker| {
            // What is known at once nobody reads a whole pool for.
            pool.check_leave(&place).map_err(DiskError::from)?;
            let secured = if force { Ok(SecureReport::default()) } else { pool.make_sure(&place, asker) };
            let secured = secured.map_err(DiskError::from)?;
            pool.leave(&place, asker).map_err(DiskError::from)?;
            // While this still runs, or the next look takes another spare in its place.
            stood_for.into_iter().for_each(|leg| served.decline_spare(leg));
            asker.running.ended(format!("{} left the mirror", path.display()), None);
            Ok(remarks_of(&secured))
        })?;
        Ok(remarks.into_iter().chain(served.keep_spares(place.vdev.guid())).collect())
    }

    /// Takes a disk out of use; a copy to it ends. Gives remarks.
    pub fn offline(
        &self,
        name: &str,
        device: &str,
        for_good: bool,
        progress: OnProgress<'_>,
    ) -> Result<Vec<String>, PoolsError> {
        let served = self.pool(name)?;
        let pool = served.filer.pool();
        let place = find(pool, device)?;
        let path = place.path();
        if served.copies.stop_join(place.vdev.guid(), &path) && find(pool, device).is_err() {
            return Ok(vec!["note: the copy to it was stopped, and it is no part of the pool any more".into()]);
        }
        self.with_asker(&served, &place, (Purpose::Offline, &path), progress, |asker| {
            pool.take_offline(&place, for_good, asker).map_err(DiskError::from)?;
            Ok(Vec::new())
        })
    }

    /// Takes a disk back that was away, and gives it what it has missed. Gives remarks.
    pub fn online(&self, name: &str, device: &str, progress: OnProgress<'_>) -> Result<Vec<String>, PoolsError> {
        let served = self.pool(name)?;
        let pool = served.filer.pool();
        let place = find(pool, device)?;
        let (path, old) = (place.path(), pool.replaced_by(place.leg).map(|old| old.path()));
        let purpose = purpose_of(pool, place.leg);
        let vdev = Some(place.vdev.guid());
        let about = About { vdev, purpose, path: &path, leaves: old.as_deref() };
        self.with_asker_about(&served, &place, about, progress, |asker| {
            let copied = patiently(|| pool.take_back(&place, asker)).map_err(DiskError::from)?;
            keep_outcome(&served, &place, (old.clone(), &path), asker.running, &copied)?;
            Ok(remarks_of(&copied.secured))
        })
    }

    /// Takes back every disk that failed, was missing or has missed changes. Gives what became of each.
    pub fn reopen(&self, name: &str, progress: OnProgress<'_>) -> Result<Vec<String>, PoolsError> {
        let served = self.pool(name)?;
        let pool = served.filer.pool();
        if pool.fault().is_some() {
            return Err(DiskError::Suspended { pool: name.into() }.into());
        }
        let is_away =
            |state| matches!(state, LegState::Stale | LegState::Missing | LegState::Failing | LegState::Faulted);
        let legs = pool.roster.vdevs().iter().flat_map(|vdev| vdev.legs()).filter(|leg| is_away(leg.state()));
        let legs: Vec<_> = legs.map(|leg| (leg.guid(), leg.path().display().to_string())).collect();
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for (leg, path) in &legs {
            match self.online(name, path, progress) {
                Ok(remarks) => done.extend([format!("{path} is online")].into_iter().chain(remarks)),
                // While another one had its turn it went on by itself, and does.
                Err(error) if is_under_way(&error) => match pool.state_of(*leg) {
                    Some(LegState::Online) => done.push(format!("{path} is online")),
                    Some(LegState::Resilvering) => done.push(format!("{path} is being brought up to date")),
                    _ => failed.push(error.to_string()),
                },
                Err(error) => failed.push(error.to_string()),
            }
        }
        if !failed.is_empty() {
            return Err(DiskError::NotReopened { done, failed }.into());
        }
        if done.is_empty() {
            done.push(format!("no disk of '{name}' is away but those that were taken out of use"));
        }
        Ok(done)
    }

    /// Attaches the new disk (by default what is at the same path now), and takes the old one out, if the new one has
    /// everything. With a spare of the pool the old one stays what it is, and the spare stands in for it. Gives what was done.
    pub fn replace(
        &self,
        name: &str,
        device: &str,
        path: Option<&Path>,
        force: bool,
        progress: OnProgress<'_>,
    ) -> Result<Vec<String>, PoolsError> {
        let served = self.pool(name)?;
        let pool = served.filer.pool();
        let place = find(pool, device)?;
        // What was named may be a guid, or the last part of the path.
        let own = place.path();
        let path = path.unwrap_or(&own);
        if let Some(spare) = waiting_spare(&served, path) {
            let words = format!("{} stands in for {}", path.display(), place.path().display());
            let remarks = self.take_spare(&served, (spare, place.leg), progress)?;
            return Ok([words].into_iter().chain(remarks).collect());
        }
        check_stands_for_nobody(&served, &place)?;
        let vdev = Some(place.vdev.guid());
        let about = About { vdev, purpose: Purpose::Join, path, leaves: Some(&own) };
        let remarks = self.with_asker_about(&served, &place, about, progress, |asker| {
            let (source, copied) = pool.replace(&place, path, force, asker).map_err(DiskError::from)?;
            // A disk that replaced itself has no old one beside it.
            let old = (source.leg == place.leg).then(|| place.path());
            keep_outcome(&served, &source, (old, path), asker.running, &copied)?;
            Ok(remarks_of(&copied.secured))
        })?;
        Ok([format!("{device} was replaced")].into_iter().chain(remarks).collect())
    }

    /// Lets a spare stand in for the disk at `place`. Gives remarks.
    pub(super) fn take_spare(
        &self,
        served: &ServedPool,
        (spare, away): (VdevGuid, VdevGuid),
        progress: OnProgress<'_>,
    ) -> Result<Vec<String>, PoolsError> {
        let pool = served.filer.pool();
        let gone = |guid: VdevGuid| DiskError::NoDevice { pool: served.filer.name(), device: guid.to_string() };
        let place = pool.member(away).ok_or_else(|| gone(away))?;
        let path = pool.roster.config().spare(spare).ok_or_else(|| gone(spare))?.path.clone();
        self.with_asker(served, &place, (Purpose::Join, &path), progress, |asker| {
            let copied = pool.take_spare(&place, spare, asker).map_err(DiskError::from)?;
            keep_outcome(served, &place, (None, &path), asker.running, &copied)?;
            Ok(remarks_of(&copied.secured))
        })
    }

    /// Goes on with a disk that somebody has let join, or with a spare in use, whose copy was cut off. Gives remarks.
    pub(super) fn go_on_joining(&self, served: &ServedPool, leg: VdevGuid) -> Result<Vec<String>, PoolsError> {
        let pool = served.filer.pool();
        let gone = || DiskError::NoDevice { pool: served.filer.name(), device: leg.to_string() };
        let place = pool.member(leg).ok_or_else(gone)?;
        let (path, old) = (place.path(), pool.replaced_by(leg).map(|old| old.path()));
        let purpose = purpose_of(pool, leg);
        let about = About { vdev: Some(place.vdev.guid()), purpose, path: &path, leaves: old.as_deref() };
        self.with_asker_about(served, &place, about, &mut |_| {}, |asker| {
            let copied = patiently(|| pool.go_on_joining(&place, asker)).map_err(DiskError::from)?;
            let Some(copied) = copied else {
                asker.running.ended_well();
                return Ok(Vec::new());
            };
            keep_outcome(served, &place, (old.clone(), &path), asker.running, &copied)?;
            Ok(remarks_of(&copied.secured))
        })
    }

    /// Gives a spare back whose disk is there again. Gives remarks.
    pub(super) fn give_back_spare(&self, served: &ServedPool, spare: VdevGuid) -> Result<Vec<String>, PoolsError> {
        let pool = served.filer.pool();
        let gone = || DiskError::NoDevice { pool: served.filer.name(), device: spare.to_string() };
        let place = pool.member(spare).ok_or_else(gone)?;
        let path = place.path();
        self.with_asker(served, &place, (Purpose::GiveBack, &path), &mut |_| {}, |asker| {
            let secured = pool.give_back_spare(&place, asker).map_err(DiskError::from)?;
            asker.running.ended(format!("{} is a spare again", path.display()), None);
            Ok(remarks_of(&secured))
        })
    }

    /// Carries out a command that only others that let disks join may run beside on the same vdev, if it does, too. The labels of disks that left are
    /// erased when others may run again.
    fn with_asker(
        &self,
        served: &ServedPool,
        place: &Member,
        (purpose, path): (Purpose, &Path),
        progress: OnProgress<'_>,
        work: impl FnOnce(&mut Asker<'_>) -> Result<Vec<String>, PoolsError>,
    ) -> Result<Vec<String>, PoolsError> {
        let about = About { vdev: Some(place.vdev.guid()), purpose, path, leaves: None };
        self.with_asker_about(served, place, about, progress, work)
    }

    fn with_asker_about(
        &self,
        served: &ServedPool,
        place: &Member,
        about: About<'_>,
        progress: OnProgress<'_>,
        work: impl FnOnce(&mut Asker<'_>) -> Result<Vec<String>, PoolsError>,
    ) -> Result<Vec<String>, PoolsError> {
        let (running, path) = (served.copies.begin(about)?, about.path);
        let mut asker = Asker {
            pools: self,
            served,
            place,
            path,
            running: &running,
            progress,
            stage: None,
            total: 0,
            gone: Vec::new(),
        };
        let outcome = work(&mut asker).inspect_err(|error| keep_what_is_left(&running, path, error));
        let gone = std::mem::take(&mut asker.gone);
        drop(asker);
        drop(running);
        let still_there = erase_labels(&served.filer.pool().roster, gone);
        match outcome {
            Ok(remarks) => Ok(remarks.into_iter().chain(still_there).collect()),
            Err(error) if still_there.is_empty() => Err(error),
            Err(error) => Err(PoolsError::WithRemarks { source: Box::new(error), remarks: still_there }),
        }
    }
}

/// Keeps for `status` why an old disk is still there beside the one that was to replace it.
fn keep_what_is_left(running: &Running, path: &Path, error: &PoolsError) {
    let PoolsError::Disk(error) = error else { return };
    if let DiskError::Membership(why @ (MembershipError::OldStays { .. } | MembershipError::NotLeftYet { .. })) =
        &**error
    {
        running.ended(format!("resilvered {}", path.display()), Some(why.to_string()));
    }
}

/// What it is for a disk that it is taken back.
fn purpose_of(pool: &Pool, leg: VdevGuid) -> Purpose {
    if pool.join_job(leg).is_none_or(|job| job.returns) { Purpose::Return } else { Purpose::Join }
}

/// Whoever only looks at a disk that was away has it open for a moment.
fn patiently<T>(mut take_back: impl FnMut() -> Result<T, MembershipError>) -> Result<T, MembershipError> {
    let began = Instant::now();
    loop {
        match take_back() {
            Err(MembershipError::Return(ReturnError::Held { .. })) if began.elapsed() < HELD_MAX => {
                thread::sleep(HELD_PAUSE);
            }
            outcome => return outcome,
        }
    }
}

/// The command of somebody who waits at the socket.
struct Asker<'a> {
    pools: &'a Pools,
    served: &'a ServedPool,
    place: &'a Member,
    /// The disk that joins, or leaves.
    path: &'a Path,
    running: &'a Running,
    progress: OnProgress<'a>,
    stage: Option<Stage>,
    /// Bytes of the stage.
    total: u64,
    /// Disks that have left.
    gone: Vec<Arc<VdevLeg>>,
}

/// Erases the labels of disks that have left, or says in them that these are spares again, and gives a remark for each that this could not be done with, or not yet.
fn erase_labels(roster: &Arc<Roster>, legs: Vec<Arc<VdevLeg>>) -> Vec<String> {
    legs.into_iter()
        .filter_map(|leg| erase_soon(roster, &leg).err().map(|error| not_erased_words(&leg, &error)))
        .collect()
}

fn erase_soon(roster: &Arc<Roster>, leg: &Arc<VdevLeg>) -> io::Result<()> {
    let (done, is_done) = channel();
    let (roster, leg) = (Arc::clone(roster), Arc::clone(leg));
    thread::Builder::new().name("erase label".into()).spawn(move || {
        let erased = roster.release_label(&leg);
        // Its lock goes with it: whoever waits may want to open the disk again.
        drop(leg);
        let _ = done.send(erased);
    })?;
    let silence = |_| io::Error::other("it does not answer");
    is_done.recv_timeout(ERASING_MAX).map_err(silence)?
}

fn not_erased_words(leg: &VdevLeg, error: &io::Error) -> String {
    let path = leg.path().display();
    tracing::warn!(%path, %error, "the label of a disk that has left is not erased");
    format!(
        "note: {path} is no part of the pool any more, but its label is not erased: {error}. Whoever uses the disk again \
         has to say -f"
    )
}

impl Asker<'_> {
    /// Says how much there will be to do.
    fn enter(&mut self, stage: Stage) {
        self.stage = Some(stage);
        let allocated = self.allocated();
        self.total = allocated;
        match stage {
            Stage::Copying => self.running.copy.expect(allocated, if self.replaces() { allocated } else { 0 }),
            Stage::CheckingRest => self.running.copy.expect(0, allocated),
            Stage::CheckingCopy | Stage::Bringing => {}
        }
    }

    fn allocated(&self) -> u64 {
        space_of(self.served.filer.pool(), &self.place.config).map_or(0, |space| space.allocated)
    }

    /// Whether a disk is to leave for the new one, which is looked at again before that.
    fn replaces(&self) -> bool {
        let pool = self.served.filer.pool();
        let config = pool.roster.config();
        let is_here = |leg: VdevGuid| config.leg(leg).is_some_and(|(_, leg)| leg.path == self.path);
        pool.joins().iter().any(|job| is_here(job.leg) && pool.replaced_by(job.leg).is_some())
    }
}

impl Onlooker for Asker<'_> {
    fn on_progress(&mut self, stage: Stage, done: u64) -> bool {
        if self.stage != Some(stage) {
            self.enter(stage);
        }
        let what = match stage {
            Stage::Copying => format!("copying to {}", self.path.display()),
            Stage::Bringing => format!("bringing {} up to date", self.path.display()),
            Stage::CheckingCopy => format!("checking {}", self.path.display()),
            Stage::CheckingRest => format!("checking what stays without {}", self.place.path().display()),
        };
        (self.progress)(Progress { what, done, total: self.total });
        // On a suspended pool no step that follows can be written down.
        self.running.copy.note(stage, done) && self.served.filer.pool().fault().is_none()
    }

    fn expect(&mut self, stage: Stage, bytes: u64) {
        (self.stage, self.total) = (Some(stage), bytes);
        self.running.copy.expect(bytes, 0);
    }

    fn goes_on(&mut self, copied: u64, checked: u64, ran: Duration) {
        let allocated = self.allocated();
        (self.stage, self.total) = (Some(if checked > 0 { Stage::CheckingCopy } else { Stage::Copying }), allocated);
        self.running.copy.expect(allocated, if self.replaces() { allocated } else { 0 });
        self.running.copy.goes_on(copied, checked, ran);
    }

    fn is_interrupted(&self) -> bool {
        self.running.copy.is_interrupted()
    }

    fn keep_paths(&mut self, _: &Pool) -> io::Result<()> {
        self.pools.remember_disks(self.served).map_err(io::Error::other)
    }

    fn run_lane(&mut self, lane: Arc<Lane>) -> io::Result<()> {
        self.served.run_lane(lane)
    }

    fn let_go(&mut self, leg: Arc<VdevLeg>) {
        self.served.left.note(&leg);
        self.gone.push(leg);
    }
}

/// Keeps for `status` what came of a copy. An error if it lacks something: then the old disk, if there was to be a new
/// one for it, has stayed.
fn keep_outcome(
    served: &ServedPool,
    place: &Member,
    (old, path): (Option<PathBuf>, &Path),
    running: &Running,
    copied: &Copied,
) -> Result<(), DiskError> {
    let Copied { report, secured, .. } = copied;
    let elapsed = running.copy.elapsed();
    let given = if copied.is_partial { secured.checked_bytes } else { report.copied_bytes };
    let outcome = outcome_words(path, given, elapsed, secured.repaired_count, secured.lost_count);
    if copied.is_whole() {
        running.ended(outcome, None);
        return Ok(());
    }
    let notice = unread_words(&served.filer.name(), place, (old, path), copied);
    running.ended(outcome, Some(notice.clone()));
    Err(DiskError::Unread(notice))
}

/// What could not be read, where, what follows from it, and what to do.
fn unread_words(pool: &str, place: &Member, (old, path): (Option<PathBuf>, &Path), copied: &Copied) -> String {
    let new = path.display();
    let sources: Vec<_> = place.config.legs.iter().map(|leg| leg.path.display().to_string()).collect();
    let mut words = String::new();
    let Copied { report, secured, .. } = copied;
    if report.unreadable_bytes > 0 {
        // As whoever looks at the disk itself counts.
        let range = |range: &Range<u64>| format!("{}-{}", LABEL_BYTES + range.start, LABEL_BYTES + range.end - 1);
        let shown: Vec<_> = report.unread.iter().take(RANGES_SHOWN_MAX).map(range).collect();
        let more = if report.unread.len() > RANGES_SHOWN_MAX { ", ..." } else { "" };
        words += &format!(
            "{} bytes of {} could not be read when {new} was copied: at bytes {}{more}.\n",
            report.unreadable_bytes,
            sources.join(", "),
            shown.join(", ")
        );
    }
    if let Some(first) = secured.lost.first() {
        let count = secured.lost_count;
        words += &format!("{count} blocks could be read from no disk; the first of them: {first}.\n");
    }
    words += &format!("{new} is part of the pool, and has everything else.");
    if let Some(old) = old {
        let old = old.display();
        words += &format!(
            " {old} stays, and was not erased.\n`tally pool detach {pool} {old}` takes it out once every block is found on \
             another disk; with -f also if not."
        );
    }
    words
}

/// Ranges that a message names.
const RANGES_SHOWN_MAX: usize = 8;

/// Whether somebody else has taken the disk back, or is about it.
fn is_under_way(error: &PoolsError) -> bool {
    let PoolsError::Disk(error) = error else { return false };
    matches!(
        **error,
        DiskError::Busy { .. } | DiskError::Membership(MembershipError::Return(ReturnError::NotAway { .. }))
    )
}
