//! Disks of an imported pool: attach, detach and replace.
//!
//! A disk that joins gets every write from the first moment on, while all that is older is copied to it; only then
//! do the labels say that it counts. In a vdev with a ring of the intent log it joins the lane as well: it
//! counts there once every live frame is on it, which two transaction groups see to. A lane that has no disk any more
//! begins anew on it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tally_base::VdevGuid;
use tally_intent::Lane;
use tally_store::create::{CreateError, new_leg};
use tally_store::label::{LaneConfigLine, PoolConfig, VdevClass, VdevConfig};
use tally_store::pool::{OpenError, Pool, SyncError};
use tally_store::roster::{Roster, RosterError};
use tally_store::vdev::{LegState, Vdev, VdevLeg};

use super::pool_report::vdev_name;
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

/// A disk of a pool: its vdev, in memory and in the configuration, and itself.
struct Place {
    vdev: Arc<Vdev>,
    config: VdevConfig,
    leg: VdevGuid,
}

impl Place {
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
    /// Makes the vdev of `device` a mirror, or a wider one, with the disk at `path`.
    pub fn attach(
        &self,
        name: &str,
        device: &str,
        path: &Path,
        force: bool,
        progress: OnProgress<'_>,
    ) -> Result<(), PoolsError> {
        let served = self.pool(name)?;
        let place = find_or_mirror(served.filer.pool(), device)?;
        self.join(&served, &place, path, force, progress)?;
        self.remember(&served)
    }

    /// Takes a disk out of its mirror.
    pub fn detach(&self, name: &str, device: &str) -> Result<(), PoolsError> {
        let served = self.pool(name)?;
        let place = find(served.filer.pool(), device)?;
        leave(served.filer.pool(), &place)?;
        self.remember(&served)
    }

    /// Attaches the new disk (by default what is at the same path now), and takes the old one out. A disk that missed
    /// changes or failed can replace itself: it is open already and holds nothing that counts, so it leaves first.
    pub fn replace(
        &self,
        name: &str,
        device: &str,
        path: Option<&Path>,
        force: bool,
        progress: OnProgress<'_>,
    ) -> Result<(), PoolsError> {
        let served = self.pool(name)?;
        let pool = served.filer.pool();
        let place = find(pool, device)?;
        let path = path.unwrap_or(Path::new(device));
        if place.useless_at(path) {
            leave(pool, &place)?;
            let beside = find_by(pool, device, |vdev| {
                vdev.legs.first().filter(|_| vdev.guid == place.config.guid).map(|leg| leg.guid)
            })?;
            self.join(&served, &beside, path, force, progress)?;
        } else {
            self.join(&served, &place, path, force, progress)?;
            leave(pool, &place)?;
        }
        self.remember(&served)
    }

    fn join(
        &self,
        served: &ServedPool,
        place: &Place,
        path: &Path,
        force: bool,
        progress: OnProgress<'_>,
    ) -> Result<(), PoolsError> {
        let pool = served.filer.pool();
        let roster = &pool.roster;
        let leg = new_leg(&self.platform, &place.config, path, force).map_err(DiskError::from)?;
        let guid = leg.guid();
        roster.add_leg(&place.vdev, leg).map_err(DiskError::from)?;
        let what = format!("copying to {}", path.display());
        let total = place.config.data_bytes;
        // A ring is not copied but brought along by its lane.
        if place.config.class == VdevClass::Data {
            let copied = place.vdev.resilver(guid, &mut |done| {
                progress(Progress { what: what.clone(), done, total });
                true
            });
            if let Err(cause) = copied {
                // It never counted; if this fails too, status shows it.
                let _ = roster.detach(&place.vdev, guid);
                return Err(DiskError::Copy { path: path.into(), cause: cause.to_string() }.into());
            }
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
        Ok(())
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
