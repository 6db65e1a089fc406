//! A dataset is served to the kernel of this machine, over a descriptor that a command brings.
//!
//! The daemon does not mount: its unit has a mount namespace of its own, in which others would see nothing, and no right to. A command of root's mounts, and hands the descriptor over.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;
use serde::{Deserialize, Serialize};
use tally_base::{DatasetId, PoolGuid, Wait};
use tally_fuse::{Keeping, Session, Source};
use tally_nfs::exports::{self, Exports};
use tally_vfs::{ClientNumber, Identity, ObjectRef, Vfs};

use super::datasets::pool_of;
use super::error::PoolsError;
use super::fd_store::{self, Parts};
use super::mounts::{MOUNTS_MAX, Mounts};
use super::service::Desk;
use crate::exports::LiveExports;
use crate::mount_table::Device;

/// The number of /dev/fuse.
const FUSE: (u32, u32) = (10, 229);

impl Desk {
    /// Serves a dataset over this, which the kernel has mounted on a directory.
    pub(super) fn mount(
        &self,
        (dataset, dir): (&str, &Path),
        known_as: Option<Device>,
        device: Option<OwnedFd>,
    ) -> Result<(), PoolsError> {
        let not_mounted = |why: String| PoolsError::NotMounted { dir: dir.into(), why };
        let served = self.pools.pool(pool_of(dataset))?;
        let Some(filesystem) = served.filer.by_name(dataset) else {
            return Err(not_mounted(format!(
                "there is no dataset '{dataset}'; `tally dataset list` shows those there are"
            )));
        };
        let device = device.filter(is_fuse).ok_or_else(|| {
            not_mounted(
                "no descriptor of /dev/fuse came with the request; `tally mount` of this version sends one".into(),
            )
        })?;
        let (pool, id) = (served.guid(), filesystem.dataset());
        let place = Place { pool: pool.0, dataset: id.0, dir: dir.into(), known_as };
        let kept = kept(&place, &device);
        self.serve(&place, device, kept).map_err(not_mounted)?;
        tracing::info!(dataset, dir = %dir.display(), "mounted on this machine");
        Ok(())
    }

    /// Serves the mounts that a daemon before this one has left to the service manager. Their programs have open and locked what they had before anybody else is served (rules V45).
    pub(super) fn take_over_mounts(&self) {
        for (name, stored) in fd_store::take() {
            match self.take_over(stored) {
                Ok(dir) => {
                    tracing::info!(dir = %dir.display(), "mounted on this machine still");
                    if !fd_store::is_asked_again() {
                        fd_store::forget(&name);
                    }
                }
                Err(why) => {
                    tracing::error!("a mount of the daemon before this one has ended: {why}");
                    fd_store::forget(&name);
                }
            }
        }
    }

    fn take_over(&self, stored: fd_store::Stored) -> Result<PathBuf, String> {
        let parts = (<[_; 1]>::try_from(stored.device), <[_; 2]>::try_from(stored.journal));
        let (Ok([device]), Ok(journal)) = parts else {
            return Err("the service manager has kept a part of it only".into());
        };
        if !is_fuse(&device) {
            return Err("the service manager has kept something else by its name".into());
        }
        let keeping = Keeping::resume(journal).map_err(|error| error.to_string())?;
        let place: Place = serde_json::from_slice(keeping.about()).map_err(|error| error.to_string())?;
        self.serve(&place, device, Some(keeping)).map_err(|why| format!("{}: {why}", place.dir.display()))?;
        Ok(place.dir)
    }

    fn serve(&self, place: &Place, device: OwnedFd, kept: Option<Keeping>) -> Result<(), String> {
        let (pool, dataset) = (PoolGuid(place.pool), DatasetId(place.dataset));
        let mounts = &self.pools.mounts;
        let parts = kept.as_ref().and_then(|kept| Parts::of(kept, &device).ok());
        let begun = mounts.begin((pool, dataset), place.dir.clone(), place.known_as, parts);
        let number = begun.ok_or_else(|| {
            format!("{MOUNTS_MAX} datasets are mounted, as many as may be; `tally unmount` one of them")
        })?;
        let (live, nfs, mounts) = (self.pools.exports(), Arc::clone(&self.nfs), Arc::clone(mounts));
        let source = Local { live, nfs, pool, dataset, mounts: Arc::clone(&mounts), number };
        match Session::start(device, Arc::new(source), kept) {
            Ok(session) => {
                mounts.serves(number, session);
                Ok(())
            }
            Err(error) => {
                mounts.end(number);
                Err(format!("it cannot be served: {error}"))
            }
        }
    }
}

/// Which dataset is mounted where, for the daemon behind this one.
#[derive(Deserialize, Serialize)]
struct Place {
    pool: u64,
    dataset: u64,
    dir: PathBuf,
    /// The number that the kernel has given to it.
    known_as: Option<Device>,
}

/// Has the service manager keep a mount, if there is one. A mount that is kept by nobody ends with this daemon.
fn kept(place: &Place, device: &OwnedFd) -> Option<Keeping> {
    if !fd_store::is_there() {
        return None;
    }
    let about = serde_json::to_vec(place).map_err(|error| error.to_string());
    let keeping = about.and_then(|about| Keeping::begin(&about).map_err(|error| error.to_string()));
    let kept = keeping.and_then(|keeping| {
        let parts = Parts::of(&keeping, device);
        match parts.and_then(|parts| if fd_store::is_asked_again() { parts.keep() } else { Ok(()) }) {
            Ok(()) => Ok(keeping),
            Err(error) => {
                fd_store::forget(&keeping.name());
                Err(error.to_string())
            }
        }
    });
    kept.inspect_err(|why| tracing::warn!(dir = %place.dir.display(), "this mount will end with the daemon: {why}"))
        .ok()
}

/// A socket or a file would have threads read it for ever.
fn is_fuse(device: &OwnedFd) -> bool {
    rustix::fs::fstat(device).is_ok_and(|stat| {
        let number = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && number == FUSE
    })
}

/// A dataset of this process, for its mount.
struct Local {
    live: Arc<LiveExports>,
    nfs: Arc<tally_nfs::service::Service>,
    pool: PoolGuid,
    dataset: DatasetId,
    mounts: Arc<Mounts>,
    number: u64,
}

impl Source for Local {
    fn place(&self) -> tally_fuse::Place {
        match self.live.pool(self.pool).map_or(exports::Place::Unknown, |pool| pool.place(self.dataset)) {
            exports::Place::Here(vfs) => tally_fuse::Place::Here(vfs),
            exports::Place::Away | exports::Place::Going => tally_fuse::Place::Away,
            exports::Place::Unknown => tally_fuse::Place::Gone,
        }
    }

    fn awaits_claims(&self, vfs: &dyn Vfs) -> bool {
        self.nfs.is_used_here(vfs)
    }

    fn is_in_grace(&self, vfs: &dyn Vfs) -> bool {
        self.nfs.is_in_grace(vfs.pool())
    }

    fn freed(&self, vfs: &dyn Vfs, object: ObjectRef) {
        self.nfs.freed_here(vfs, object);
    }

    fn make_way(&self, in_the_way: &[ClientNumber]) -> bool {
        self.nfs.make_way_here(in_the_way)
    }

    fn given(&self, vfs: &dyn Vfs) -> Result<Wait, Wait> {
        self.nfs.given_here(vfs.pool())
    }

    fn recall(&self, vfs: &dyn Vfs, object: ObjectRef) {
        self.nfs.recall(vfs, object);
    }

    fn ended(&self) {
        self.mounts.end(self.number);
        tracing::info!("unmounted from this machine");
    }
}
