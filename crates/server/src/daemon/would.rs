//! `-n`: what a command on the disks of a pool would do, and what would refuse it. Nothing is changed.
//!
//! It asks the functions that the command itself asks before it writes anything, in the same order. What only the command can find
//! out, it does not foresee: blocks that are right on the leaving disk alone, a disk that fails in the middle.

use std::path::{Path, PathBuf};

use tally_base::Size;
use tally_members::label::{MissedGroups, VdevClass};
use tally_store::pool::membership::Member;

use super::by_name::{check_no_spare, check_stands_for_nobody, find, find_or_mirror, waiting_spare};
use super::copies::{About, Purpose};
use super::datasets::pool_of;
use super::error::{DiskError, PoolsError, of_spare};
use super::new_pool::create_options;
use super::pool_report::space_of;
use super::pools::Pools;
use super::served::ServedPool;
use crate::control::message::Request;
use crate::control::mounts::{MountReport, WOULD_UNMOUNT};

impl Pools {
    /// What this request would do, in words.
    pub fn would(&self, request: &Request) -> Result<Vec<String>, PoolsError> {
        self.looks.look(|| self.foresee(request))
    }

    fn foresee(&self, request: &Request) -> Result<Vec<String>, PoolsError> {
        Ok(vec![match request {
            Request::PoolCreate { name, vdevs, force, file_bytes, properties, pool_properties } => {
                let options = create_options(*force, properties, pool_properties)?;
                let (new, bytes) = self.check_create(name, vdevs, &options, *file_bytes)?;
                would_create(name, vdevs, &new, bytes)
            }
            Request::PoolDestroy { name } => {
                let told = would_destroy(self.check_destroy(name)?.as_ref());
                return Ok(self.would_unmount(name).chain([told]).collect());
            }
            Request::PoolUpgrade { names } => return self.would_upgrade(names),
            Request::DatasetDestroy { name, recursive } => {
                let doomed = self.pool(pool_of(name))?.filer.check_destroy_dataset(name, *recursive)?;
                let doomed = doomed.into_iter().map(|name| format!("would destroy {name}"));
                return Ok(self.would_unmount(name).chain(doomed).collect());
            }
            Request::PoolOnline { name, device } => {
                let served = self.pool(name)?;
                let place = find(served.filer.pool(), device)?;
                let (vdev, path, old) = (
                    Some(place.vdev.guid()),
                    place.path(),
                    served.filer.pool().replaced_by(place.leg).map(|old| old.path()),
                );
                let leaves = old.as_deref();
                served.copies.check_beside(About { vdev, purpose: Purpose::Return, path: &path, leaves })?;
                let lacks = served.filer.pool().check_take_back(&place).map_err(DiskError::from)?;
                would_take_back(&served, &place, &lacks)
            }
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

    /// What `tally` does before it asks for the end of a dataset: the daemon itself does not mount.
    fn would_unmount(&self, name: &str) -> impl Iterator<Item = String> {
        let told = |mount: MountReport| format!("{WOULD_UNMOUNT}{}, if nothing uses it", mount.dir.display());
        self.mounted_below(name).into_iter().map(told)
    }
}

/// A disk that was there may hold something else.
fn would_create(name: &str, vdevs: &[String], new: &[PathBuf], bytes: u64) -> String {
    let files = match new {
        [] => String::new(),
        new => format!("make {} of {} each, ", listed(new.iter()), Size(bytes)),
    };
    let is_there = |word: &&String| Path::new(word).is_absolute() && !new.iter().any(|path| path == Path::new(*word));
    let there: Vec<PathBuf> = vdevs.iter().filter(is_there).map(PathBuf::from).collect();
    let erased = match &there[..] {
        [] => String::new(),
        there => format!("erase {}, ", listed(there.iter())),
    };
    format!("would {files}{erased}and make pool '{name}' of: {}", vdevs.join(" "))
}

fn listed<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> String {
    paths.map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ")
}

fn would_destroy(served: &ServedPool) -> String {
    let pool = served.filer.pool();
    let (datasets, space) = (served.filer.names().count(), pool.io.allocator().space());
    let name = served.filer.name();
    let datasets = if datasets == 1 { "1 dataset".to_owned() } else { format!("{datasets} datasets") };
    format!(
        "would destroy '{name}': {datasets} with {} in use. Until its disks are used for something else, `tally pool import -D \
         {name}` brings it back",
        Size(space.allocated)
    )
}

fn would_take_back(served: &ServedPool, place: &Member, lacks: &MissedGroups) -> String {
    let pool = served.filer.pool();
    let path = place.path();
    let path = path.display();
    if pool.join_job(place.leg).is_some_and(|job| !job.returns) {
        let old = pool.replaced_by(place.leg).map(|old| old.path());
        let then = old.map_or(String::new(), |old| format!(", and then take {} out of its mirror", old.display()));
        return format!("would go on with the copy to {path}{then}");
    }
    match (place.config.class, lacks.is_empty() || lacks.begins_with_the_first()) {
        (VdevClass::Log, _) => format!("would take {path} back, which gets what the log has from then on"),
        (VdevClass::Data, false) => format!("would take {path} back, and give it what was written while it was away"),
        (VdevClass::Data, true) => {
            format!("would take {path} back, and copy {} to it, as nobody knows what it lacks", of_copy(place))
        }
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
        pool.check_room_for(place, path, None).map_err(DiskError::from)?;
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

#[cfg(test)]
mod tests;
