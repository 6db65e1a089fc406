//! Disks and spares of a pool by the names that people give them: a path, its last part, or a guid; and what a name of the wrong
//! sort is answered with.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use tally_base::VdevGuid;
use tally_members::label::{PoolConfig, Spare, VdevConfig};
use tally_store::pool::Pool;
use tally_store::pool::membership::Member;

use super::error::DiskError;
use super::pool_report::vdev_name;
use super::served::ServedPool;

/// A disk by its path or guid, or by the last part of its path where no other disk has the same.
pub(super) fn find(pool: &Pool, device: &str) -> Result<Member, DiskError> {
    let config = pool.roster.config();
    let legs: Vec<_> = config.vdevs_present().flat_map(|vdev| &vdev.legs).collect();
    let exact = legs.iter().find(|leg| leg.path == Path::new(device) || leg.guid.to_string() == device);
    let mut short = legs.iter().filter(|leg| leg.path.file_name() == Some(OsStr::new(device)));
    let found = exact.or_else(|| short.next().filter(|_| short.next().is_none())).map(|leg| leg.guid);
    find_by(pool, device, |vdev| vdev.legs.iter().map(|leg| leg.guid).find(|guid| Some(*guid) == found))
}

/// A disk, or any of the mirror that is named: where something is added, a mirror is as good a name.
pub(super) fn find_or_mirror(pool: &Pool, device: &str) -> Result<Member, DiskError> {
    let any_leg = |vdev: &VdevConfig| vdev.legs.first().filter(|_| vdev_name(vdev) == device).map(|leg| leg.guid);
    find(pool, device).or_else(|_| find_by(pool, device, any_leg))
}

/// A spare that waits is attached to nothing.
pub(super) fn check_no_spare(served: &ServedPool, path: &Path) -> Result<(), DiskError> {
    let why = "waits as a spare; `tally pool remove` takes it out first, and then it can be attached";
    let refused = || DiskError::Spare { path: path.into(), why };
    waiting_spare(served, path).map_or(Ok(()), |_| Err(refused()))
}

/// A spare in use is not replaced: nobody would know for whom the new disk stands.
pub(super) fn check_stands_for_nobody(served: &ServedPool, place: &Member) -> Result<(), DiskError> {
    let why = "stands in for another disk; replace that one, or give the spare back with `tally pool detach` first";
    let is_spare = served.filer.pool().roster.config().spare(place.leg).is_some();
    if is_spare { Err(DiskError::Spare { path: place.path(), why }) } else { Ok(()) }
}

/// The spare at this path, if it waits.
pub(super) fn waiting_spare(served: &ServedPool, path: &Path) -> Option<VdevGuid> {
    let config = served.filer.pool().roster.config();
    config.spares_available().find(|spare| spare.path == path).map(|spare| spare.guid)
}

fn find_by(pool: &Pool, device: &str, leg_of: impl Fn(&VdevConfig) -> Option<VdevGuid>) -> Result<Member, DiskError> {
    let config = pool.roster.config();
    let missing = || match find_spare(&config, device) {
        Some(spare) => {
            let why = "waits as a spare, and is in no mirror; `tally pool remove` takes it out of the pool";
            DiskError::Spare { path: spare.path.clone(), why }
        }
        None => DiskError::NoDevice { pool: config.name.clone(), device: device.into() },
    };
    let (vdev, leg) = config.vdevs_present().find_map(|vdev| Some((vdev, leg_of(vdev)?))).ok_or_else(missing)?;
    let found = pool.roster.vdevs().iter().find(|found| found.guid() == vdev.guid).ok_or_else(missing)?;
    Ok(Member { vdev: Arc::clone(found), config: vdev.clone(), leg })
}

pub(super) fn spare_or_refusal(served: &ServedPool, device: &str) -> Result<Spare, DiskError> {
    if let Some(spare) = find_spare(&served.filer.pool().roster.config(), device) {
        return Ok(spare.clone());
    }
    find(served.filer.pool(), device)?;
    Err(DiskError::NoSpare { device: device.into() })
}

/// A spare by its path or guid, or by the last part of its path.
pub(super) fn find_spare<'a>(config: &'a PoolConfig, device: &str) -> Option<&'a Spare> {
    let is_it = |spare: &&Spare| spare.path == Path::new(device) || spare.guid.to_string() == device;
    let exact = config.spares.iter().find(is_it);
    let mut short = config.spares.iter().filter(|spare| spare.path.file_name() == Some(device.as_ref()));
    exact.or_else(|| short.next().filter(|_| short.next().is_none()))
}
