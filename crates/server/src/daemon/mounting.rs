//! A dataset is served to the kernel of this machine, over a descriptor that a command brings.
//!
//! The daemon does not mount: its unit has a mount namespace of its own, in which others would see nothing, and no right to. A command of root's mounts, and hands the descriptor over.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;
use tally_base::{DatasetId, PoolGuid};
use tally_fuse::{Place, Session, Source};
use tally_nfs::exports::{self, Exports};
use tally_vfs::{Identity, ObjectRef, Vfs};

use super::datasets::pool_of;
use super::error::PoolsError;
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
        let mounts = &self.pools.mounts;
        let number = mounts.begin(pool, id, dir.into(), known_as).ok_or_else(|| {
            not_mounted(format!("{MOUNTS_MAX} datasets are mounted, as many as may be; `tally unmount` one of them"))
        })?;
        let source = Local {
            live: self.pools.exports(),
            nfs: Arc::clone(&self.nfs),
            pool,
            dataset: id,
            mounts: Arc::clone(mounts),
            number,
        };
        match Session::start(device, Arc::new(source)) {
            Ok(session) => {
                mounts.serves(number, session);
                tracing::info!(dataset, dir = %dir.display(), "mounted on this machine");
                Ok(())
            }
            Err(error) => {
                mounts.end(number);
                Err(not_mounted(format!("no thread can be started for it: {error}")))
            }
        }
    }
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
    fn place(&self) -> Place {
        match self.live.pool(self.pool).map_or(exports::Place::Unknown, |pool| pool.place(self.dataset)) {
            exports::Place::Here(vfs) => Place::Here(vfs),
            exports::Place::Away | exports::Place::Going => Place::Away,
            exports::Place::Unknown => Place::Gone,
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

    fn recall(&self, vfs: &dyn Vfs, object: ObjectRef) {
        self.nfs.recall(vfs, object);
    }

    fn ended(&self) {
        self.mounts.end(self.number);
        tracing::info!("unmounted from this machine");
    }
}
