//! Disks of an imported pool: attach, detach and replace.
//!
//! A disk that joins gets every write from the first moment on, while all that is older is copied to it; then every block
//! is made sure of ([`Pool::secure`]), and only then do the labels say that it counts. In a vdev with a ring of the intent
//! log it joins the lane as well: it counts there once every live frame is on it, which two transaction groups see to. A
//! lane that has no disk any more begins anew on it.
//!
//! **A disk leaves only when nothing is lost with it.** After a copy that could not read all of its source, the old disk
//! stays beside the new one, and whoever asked is told so with the places. `detach` reads every block from the disks that
//! stay before it lets one go, and gives them what that one alone has right. Only `detach -f` does without.
//!
//! Both take as long as disks take: they run in threads of their own, and [`super::copies`] keeps them apart.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tally_base::VdevGuid;
use tally_intent::Lane;
use tally_store::create::{CreateError, new_leg};
use tally_store::label::{LABEL_BYTES, LaneConfigLine, PoolConfig, VdevClass, VdevConfig};
use tally_store::pool::{OpenError, Pool, SecureError, SecureReport, SyncError};
use tally_store::roster::{Roster, RosterError};
use tally_store::vdev::{LegState, ResilverReport, Vdev, VdevLeg};

use super::copies::{Copy, Phase, Purpose, Running, outcome_words};
use super::pool_report::{space_of, vdev_name};
use super::pools::{OnProgress, Pools, PoolsError, ServedPool};
use crate::control::message::Progress;

/// Syncs after which every live frame must be on a leg that joined: two trim what is older, one is open meanwhile.
const JOIN_SYNCS_MAX: u32 = 8;

/// Why a disk could not join or leave.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// No such disk in the pool.
    #[error("pool '{pool}' has no disk '{device}'; `tally pool status` shows their names")]
    NoDevice {
        /// Which pool.
        pool: String,
        /// As asked for.
        device: String,
    },
    /// The new disk cannot be used.
    #[error(transparent)]
    New(Box<CreateError>),
    /// The labels could not be changed.
    #[error(transparent)]
    Labels(#[from] RosterError),
    /// Something that runs for long stands in the way.
    #[error("{other}; wait for it (`tally pool status` shows how far it is), or detach that disk to stop it")]
    Busy {
        /// What it is.
        other: String,
    },
    /// The pool is being exported or destroyed.
    #[error("the pool is being let go")]
    LettingGo,
    /// Somebody wanted the copy to end.
    #[error("the copy to {} was stopped; the disk was taken out again, and the pool is as it was before", path.display())]
    Stopped {
        /// The disk that was joining.
        path: PathBuf,
    },
    /// Somebody wanted a disk's blocks not to be checked any more.
    #[error("{} stays: its blocks were still being checked when that was stopped", path.display())]
    StaysUnchecked {
        /// The disk that was leaving.
        path: PathBuf,
    },
    /// A copy failed, and the pool could not even forget the disk.
    #[error("{error}\nOr rather it was not: {why}. `tally pool status` shows it; detach it when the pool is well")]
    NotTakenOut {
        /// What became of the copy.
        error: String,
        /// Why the disk is still there.
        why: RosterError,
    },
    /// Part of the source could not be read.
    #[error("{0}")]
    Unread(String),
    /// It may have what nobody else has.
    #[error(
        "{count} blocks are right on no disk that stays, and {} could not be read there, so it stays too: it may be read \
         again some day.\nThe first of them: {first}.\n`tally pool detach -f` takes it out all the same",
        path.display()
    )]
    MayHaveMore {
        /// The disk that was leaving.
        path: PathBuf,
        /// Blocks.
        count: u64,
        /// One of them.
        first: String,
    },
    /// Not every block could be looked at.
    #[error("{} stays: its blocks could not be checked: {cause}", path.display())]
    NotChecked {
        /// The disk that was leaving.
        path: PathBuf,
        /// What went wrong.
        cause: SecureError,
    },
    /// The copy failed.
    #[error("the copy to {} failed: {cause}; the disk was taken out again", path.display())]
    Copy {
        /// The new disk.
        path: PathBuf,
        /// What went wrong.
        cause: String,
    },
    /// A transaction group failed.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// The new ring could not be opened.
    #[error("the intent log cannot go on there: {0}")]
    Renew(#[from] OpenError),
    /// The lane goes on without the new leg.
    #[error("{} does not take part in the log: it failed while it joined", path.display())]
    Join {
        /// The new disk.
        path: PathBuf,
    },
}

impl From<CreateError> for DiskError {
    fn from(error: CreateError) -> Self {
        Self::New(Box::new(error))
    }
}

/// What came of a copy.
#[derive(Default)]
struct Copied {
    report: ResilverReport,
    secured: SecureReport,
}

impl Copied {
    /// Whether the new disk has everything that the old ones had, as far as that can be known.
    fn is_whole(&self) -> bool {
        self.report.unreadable_bytes == 0 && self.secured.unread_count == 0
    }

    /// Lines for whoever asked, beside the one that says that it is done.
    fn remarks(&self) -> Vec<String> {
        remarks_of(&self.secured)
    }
}

/// What a look at every block has to say.
fn remarks_of(secured: &SecureReport) -> Vec<String> {
    let mut remarks = Vec::new();
    if secured.repaired_count > 0 {
        remarks.push(format!(
            "note: {} blocks were damaged on a disk and right on another; they were repaired from there",
            secured.repaired_count
        ));
    }
    if let Some(first) = secured.lost.first() {
        remarks.push(format!(
            "note: {} blocks are right on no disk, and were not before; the first of them: {first}. What they held has to \
             come from a backup",
            secured.lost_count
        ));
    }
    remarks
}

/// A disk of a pool: its vdev, in memory and in the configuration, and itself.
struct Place {
    vdev: Arc<Vdev>,
    config: VdevConfig,
    leg: VdevGuid,
}

impl Place {
    /// Where the disk is, or was last seen.
    fn path(&self) -> PathBuf {
        let leg = self.config.legs.iter().find(|leg| leg.guid == self.leg);
        leg.map(|leg| leg.path.clone()).unwrap_or_default()
    }

    /// Bytes on its vdev that are in use, its ring aside.
    fn allocated(&self, pool: &Pool) -> u64 {
        space_of(pool, &self.config).map_or(0, |space| space.allocated)
    }

    /// Whether this disk is the one at `path` and is open, but neither read nor written any more.
    fn useless_at(&self, path: &Path) -> bool {
        let idle = |leg: Arc<VdevLeg>| matches!(leg.state(), LegState::Stale | LegState::Faulted);
        let here = self.config.legs.iter().any(|leg| leg.guid == self.leg && leg.path == path);
        here && self.vdev.leg(self.leg).is_some_and(idle)
    }
}

/// A disk by its path or guid, or by the last part of its path where no other disk has the same.
fn find(pool: &Pool, device: &str) -> Result<Place, DiskError> {
    let config = pool.roster.config();
    let legs: Vec<_> = config.vdevs_present().flat_map(|vdev| &vdev.legs).collect();
    let exact = legs.iter().find(|leg| leg.path == Path::new(device) || leg.guid.to_string() == device);
    let mut short = legs.iter().filter(|leg| leg.path.file_name() == Some(OsStr::new(device)));
    let found = exact.or_else(|| short.next().filter(|_| short.next().is_none())).map(|leg| leg.guid);
    find_by(pool, device, |vdev| vdev.legs.iter().map(|leg| leg.guid).find(|guid| Some(*guid) == found))
}

/// A disk, or any of the mirror that is named: where something is added, a mirror is as good a name.
fn find_or_mirror(pool: &Pool, device: &str) -> Result<Place, DiskError> {
    let any_leg = |vdev: &VdevConfig| vdev.legs.first().filter(|_| vdev_name(vdev) == device).map(|leg| leg.guid);
    find(pool, device).or_else(|_| find_by(pool, device, any_leg))
}

fn find_by(pool: &Pool, device: &str, leg_of: impl Fn(&VdevConfig) -> Option<VdevGuid>) -> Result<Place, DiskError> {
    let config = pool.roster.config();
    let missing = || DiskError::NoDevice { pool: config.name.clone(), device: device.into() };
    let (vdev, leg) = config.vdevs_present().find_map(|vdev| Some((vdev, leg_of(vdev)?))).ok_or_else(missing)?;
    let found = pool.roster.vdevs().iter().find(|found| found.guid() == vdev.guid).ok_or_else(missing)?;
    Ok(Place { vdev: Arc::clone(found), config: vdev.clone(), leg })
}

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
        let running = served.copies.begin(place.vdev.guid(), Purpose::Join, path)?;
        let copied = join(&served, &place, path, force, &running, progress)?;
        self.remember(&served)?;
        keep_outcome(&served, &place, path, &running, &copied)?;
        Ok(copied.remarks())
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
        // If the copy came to its end before it heard, the disk is one like any other.
        if served.copies.stop_join(place.vdev.guid(), &place.path()) && find(pool, device).is_err() {
            return Ok(vec!["note: the copy to it was stopped".into()]);
        }
        let running = served.copies.begin(place.vdev.guid(), Purpose::Leave, &place.path())?;
        let secured = if force { SecureReport::default() } else { make_sure(&served, &place, &running, progress)? };
        leave(pool, &place)?;
        running.ended(format!("{} left the mirror", place.path().display()), None);
        self.remember(&served)?;
        Ok(remarks_of(&secured))
    }

    /// Attaches the new disk (by default what is at the same path now), and takes the old one out, if the new one has
    /// everything. A disk that missed changes or failed can replace itself: it is open already and holds nothing that
    /// counts, so it leaves first. Gives remarks.
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
        let path = path.unwrap_or(Path::new(device));
        let running = served.copies.begin(place.vdev.guid(), Purpose::Join, path)?;
        let (source, copied) = if place.useless_at(path) {
            leave(pool, &place)?;
            let beside = find_by(pool, device, |vdev| {
                vdev.legs.first().filter(|_| vdev.guid == place.config.guid).map(|leg| leg.guid)
            })?;
            let copied = join(&served, &beside, path, force, &running, progress)?;
            (beside, copied)
        } else {
            let copied = join(&served, &place, path, force, &running, progress)?;
            if copied.is_whole() {
                leave(pool, &place)?;
            }
            (place, copied)
        };
        self.remember(&served)?;
        keep_outcome(&served, &source, path, &running, &copied)?;
        Ok(copied.remarks())
    }
}

/// Keeps for `status` what came of a copy. An error if it lacks something: then every disk has stayed.
fn keep_outcome(
    served: &ServedPool,
    place: &Place,
    path: &Path,
    running: &Running<'_>,
    copied: &Copied,
) -> Result<(), DiskError> {
    let Copied { report, secured } = copied;
    let elapsed = running.copy.elapsed();
    let outcome = outcome_words(path, report.copied_bytes, elapsed, secured.repaired_count, secured.lost_count);
    if copied.is_whole() {
        running.ended(outcome, None);
        return Ok(());
    }
    let notice = unread_words(&served.filer.name(), place, path, copied);
    running.ended(outcome, Some(notice.clone()));
    Err(DiskError::Unread(notice))
}

/// What could not be read, where, what follows from it, and what to do.
fn unread_words(pool: &str, place: &Place, path: &Path, copied: &Copied) -> String {
    let (old, new) = (place.path(), path.display());
    let sources: Vec<_> = place.config.legs.iter().map(|leg| leg.path.display().to_string()).collect();
    let mut words = String::new();
    let Copied { report, secured } = copied;
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
    words
        + &format!(
            "All disks stay in the pool, and none was erased; {new} has everything else.\n\
             `tally pool detach {pool} {}` takes the old disk out once every block is found on another; with -f also if not.",
            old.display()
        )
}

/// Ranges that a message names.
const RANGES_SHOWN_MAX: usize = 8;

/// Copies everything to a new disk of a vdev, and makes it count.
fn join(
    served: &ServedPool,
    place: &Place,
    path: &Path,
    force: bool,
    running: &Running<'_>,
    progress: OnProgress<'_>,
) -> Result<Copied, PoolsError> {
    let pool = served.filer.pool();
    let roster = &pool.roster;
    let leg = new_leg(&served.filer.pool().platform, &place.config, path, force).map_err(DiskError::from)?;
    let guid = leg.guid();
    roster.add_leg(&place.vdev, leg).map_err(DiskError::from)?;
    // A ring is not copied but brought along by its lane.
    let mut copied = Copied::default();
    if place.config.class == VdevClass::Data {
        copied = match copy(pool, place, guid, path, &running.copy, progress) {
            Ok(copied) => copied,
            // It never counted.
            Err(error) => {
                return Err(match roster.detach(&place.vdev, guid) {
                    Ok(()) => error.into(),
                    Err(why) => DiskError::NotTakenOut { error: error.to_string(), why }.into(),
                });
            }
        };
    }
    roster.finish_resilver(&place.vdev, guid).map_err(DiskError::from)?;
    for line in lanes_on(&roster.config(), &place.config) {
        match pool.lane(line.lane).filter(|lane| !lane.has_ended()) {
            Some(lane) => {
                let joined = join_lane(pool, &lane, guid, path);
                joined.inspect_err(|error| strike_off(roster, &place.vdev, guid, error))?;
            }
            // All its disks are gone or have failed: it begins a new life on this one.
            None => served.run_lane(pool.renew_lane(line.lane, guid).map_err(DiskError::from)?)?,
        }
    }
    Ok(copied)
}

/// First every sector, then every block.
fn copy(
    pool: &Pool,
    place: &Place,
    leg: VdevGuid,
    path: &Path,
    copy: &Copy,
    progress: OnProgress<'_>,
) -> Result<Copied, DiskError> {
    let stopped_or = |cause: String| match copy.is_stopped() {
        true => DiskError::Stopped { path: path.into() },
        false => DiskError::Copy { path: path.into(), cause },
    };
    let (area, blocks) = (place.config.data_bytes, place.allocated(pool));
    copy.expect(area, blocks);
    let what = format!("copying to {}", path.display());
    let report = place.vdev.resilver(leg, &mut |done| {
        progress(Progress { what: what.clone(), done, total: area });
        copy.note(Phase::Copying, done)
    });
    let report = report.map_err(|error| stopped_or(error.to_string()))?;
    let what = format!("checking {}", path.display());
    let secured = pool.secure(&place.vdev, &[leg], &mut |done| {
        progress(Progress { what: what.clone(), done, total: blocks });
        copy.note(Phase::Checking, done)
    });
    Ok(Copied { report, secured: secured.map_err(|error| stopped_or(error.to_string()))? })
}

/// Gives the disks that stay whatever the leaving one alone has right. One that is not read from any more has nothing to
/// give, and where no other has everything the roster says so.
fn make_sure(
    served: &ServedPool,
    place: &Place,
    running: &Running<'_>,
    progress: OnProgress<'_>,
) -> Result<SecureReport, DiskError> {
    let path = place.path();
    let is_online = |leg: &Arc<VdevLeg>| leg.state() == LegState::Online;
    let (leaving, staying): (Vec<_>, Vec<_>) =
        place.vdev.legs().into_iter().filter(is_online).map(|leg| leg.guid()).partition(|guid| *guid == place.leg);
    if place.config.class != VdevClass::Data || leaving.is_empty() || staying.is_empty() {
        return Ok(SecureReport::default());
    }
    let pool = served.filer.pool();
    let total = place.allocated(pool);
    running.copy.expect(0, total);
    let secured = pool.secure(&place.vdev, &staying, &mut |done| {
        progress(Progress { what: format!("checking what stays without {}", path.display()), done, total });
        running.copy.note(Phase::Checking, done)
    });
    match secured {
        Ok(secured) if secured.unread_count == 0 => Ok(secured),
        Ok(SecureReport { unread_count: count, lost, .. }) => {
            let first = lost.first().map_or_else(String::new, ToString::to_string);
            Err(DiskError::MayHaveMore { path, count, first })
        }
        Err(SecureError::Stopped) => Err(DiskError::StaysUnchecked { path }),
        Err(cause) => Err(DiskError::NotChecked { path, cause }),
    }
}

/// The lanes whose ring lies on a vdev.
fn lanes_on(config: &PoolConfig, vdev: &VdevConfig) -> Vec<LaneConfigLine> {
    config.lanes.iter().filter(|line| line.vdev == vdev.index).cloned().collect()
}

fn join_lane(pool: &Arc<Pool>, lane: &Arc<Lane>, guid: VdevGuid, path: &Path) -> Result<(), DiskError> {
    let roster = &pool.roster;
    let config = roster.config();
    let failed = || DiskError::Join { path: path.into() };
    let line = config.lanes.iter().find(|line| line.lane == lane.id()).ok_or_else(failed)?;
    let mut wider = line.clone();
    wider.legset.push(guid);
    let leg = roster.lane_config(&wider).legs.into_iter().find(|leg| leg.guid == guid).ok_or_else(failed)?;
    lane.join_leg(leg);
    for _ in 0..JOIN_SYNCS_MAX {
        pool.sync()?;
        if lane.admit_leg(guid) {
            roster.admit_lane_leg(lane.id(), guid)?;
            return Ok(());
        }
    }
    Err(failed())
}

/// A disk that could not join the log is no leg of it, whatever else it has: `status` must not call it online, and the lane
/// must not go on writing to it. Only where nothing else has what is in the pool it stays, as it is.
fn strike_off(roster: &Roster, vdev: &Vdev, guid: VdevGuid, cause: &DiskError) {
    let has_other = vdev.legs().iter().any(|other| other.guid() != guid && other.state() == LegState::Online);
    if has_other && let Err(error) = roster.drop_leg(guid, &io::Error::other(cause.to_string())) {
        tracing::error!(leg = %guid, %error, "a disk that could not join the log could not be struck off");
    }
}

fn leave(pool: &Pool, place: &Place) -> Result<(), DiskError> {
    Ok(pool.roster.detach(&place.vdev, place.leg)?)
}
