//! `-n`: what a command on the disks of a pool would do, and what would refuse it. Nothing is changed.
//!
//! It asks the functions that the command itself asks before it writes anything, in the same order. What only the command can find
//! out, it does not foresee: blocks that are right on the leaving disk alone, a disk that fails in the middle.

use std::path::Path;

use tally_base::Size;
use tally_store::pool::membership::Member;

use super::by_name::{check_no_spare, check_stands_for_nobody, find, find_or_mirror, waiting_spare};
use super::copies::{About, Purpose};
use super::disk_error::{DiskError, of_spare};
use super::pool_report::space_of;
use super::pools::{Pools, PoolsError, ServedPool};
use crate::control::message::Request;

impl Pools {
    /// What this request would do, in words.
    pub fn would(&self, request: &Request) -> Result<Vec<String>, PoolsError> {
        Ok(vec![match request {
            Request::PoolAdd { name, vdevs, force } => {
                let added = self.check_add(name, vdevs, *force)?;
                format!("would take in as spares of '{name}', and erase whatever label they have: {}", added.join(", "))
            }
            Request::PoolRemove { name, device } => {
                let path = self.check_remove(name, device)?;
                format!("would take the spare {} out of '{name}', and erase its label", path.display())
            }
            Request::PoolAttach { name, device, new_device, force } => {
                let served = self.pool(name)?;
                let place = find_or_mirror(served.filer.pool(), device)?;
                check_no_spare(&served, new_device)?;
                check_join(&served, &place, (new_device, None), *force)?;
                format!(
                    "would erase {new}, and copy {} to it, so that it becomes a further copy of {}",
                    of_copy(&place),
                    place.path().display(),
                    new = new_device.display()
                )
            }
            Request::PoolReplace { name, device, new_device, force } => {
                let served = self.pool(name)?;
                let place = find(served.filer.pool(), device)?;
                would_replace(&served, &place, new_device.as_deref().unwrap_or(&place.path()), *force)?
            }
            Request::PoolDetach { name, device, force } => {
                let served = self.pool(name)?;
                let place = find(served.filer.pool(), device)?;
                would_detach(&served, &place, *force)?
            }
            Request::PoolOffline { name, device, temporary } => {
                let served = self.pool(name)?;
                let place = find(served.filer.pool(), device)?;
                if served.copies.is_joining(place.vdev.guid(), &place.path()) {
                    return Ok(vec![format!(
                        "would stop the copy to {}, and take it out of use",
                        place.path().display()
                    )]);
                }
                served.copies.check(place.vdev.guid())?;
                served.filer.pool().check_offline(&place).map_err(DiskError::from)?;
                let until = if *temporary {
                    "until `tally pool online`, or the next import, which finds it as one that has missed changes"
                } else {
                    "until `tally pool online`"
                };
                format!("would take {} out of use {until}", place.path().display())
            }
            _ => return Err(PoolsError::NotTried),
        }])
    }
}

fn check_join(
    served: &ServedPool,
    place: &Member,
    (path, leaves): (&Path, Option<&Path>),
    force: bool,
) -> Result<(), PoolsError> {
    let vdev = Some(place.vdev.guid());
    served.copies.check_beside(About { vdev, purpose: Purpose::Join, path, leaves })?;
    Ok(served.filer.pool().check_join(place, path, force).map_err(DiskError::from)?)
}

fn would_replace(served: &ServedPool, place: &Member, path: &Path, force: bool) -> Result<String, PoolsError> {
    let (old, new, bytes) = (place.path(), path.display(), of_copy(place));
    if let Some(spare) = waiting_spare(served, path) {
        let vdev = Some(place.vdev.guid());
        served.copies.check_beside(About { vdev, purpose: Purpose::Join, path, leaves: None })?;
        let pool = served.filer.pool();
        pool.check_take_spare(place, spare).map_err(DiskError::from)?;
        pool.roster.check_spare(&pool.platform, spare).map_err(of_spare)?;
        return Ok(format!("would copy {bytes} to the spare {new}, which stands in for {} then", old.display()));
    }
    check_stands_for_nobody(served, place)?;
    check_join(served, place, (path, Some(&old)), force)?;
    Ok(if old == path {
        format!("would take {new} out of its mirror, erase it, and copy {bytes} to it anew")
    } else {
        format!("would erase {new}, copy {bytes} to it, and then take {} out of its mirror", old.display())
    })
}

fn would_detach(served: &ServedPool, place: &Member, force: bool) -> Result<String, PoolsError> {
    let pool = served.filer.pool();
    if served.copies.is_joining(place.vdev.guid(), &place.path()) {
        return Ok(format!("would stop the copy to {}", place.path().display()));
    }
    served.copies.check(place.vdev.guid())?;
    pool.check_leave(place).map_err(DiskError::from)?;
    let path = place.path();
    let first = if force {
        "without a look at its blocks".to_owned()
    } else {
        let allocated = space_of(pool, &place.config).map_or(0, |space| space.allocated);
        format!("once all {} of blocks are found on the disks that stay", Size(allocated))
    };
    let then = if pool.roster.config().spare(place.leg).is_some() { "; it waits as a spare again" } else { "" };
    Ok(format!("would take {} out of its mirror, {first}{then}", path.display()))
}

/// What a copy to a disk of this vdev is.
const fn of_copy(place: &Member) -> Size {
    Size(place.config.data_bytes)
}
