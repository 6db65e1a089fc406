//! What the server is told is exported: all that is there, to everybody.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tally_base::{DatasetId, PoolGuid, Time};
use tally_fs::filer::{Filer, Handover};
use tally_nfs::exports::{Exports, Place, PoolExports, Resolved, Rule, Squash};
use tally_vfs::{Identity, ObjectRef, Retained, Vfs};

use super::world::POOLS;
use crate::machine::POOL;

/// The pools that are served.
pub(super) struct Shares {
    pub(super) known: [Known; POOLS],
    pub(super) filers: Mutex<[Option<Arc<Filer>>; POOLS]>,
    /// What clients have of one that comes back at once.
    pub(super) handed_over: Mutex<[Option<Arc<Handover>>; POOLS]>,
    pub(super) changed: AtomicU64,
}

/// What does not change of a pool.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) guid: PoolGuid,
    pub(super) handle_key: [u8; 32],
}

impl Shares {
    fn at(&self, pool: usize) -> Arc<Moment> {
        let (filer, handover) = (self.filers.lock()[pool].clone(), self.handed_over.lock()[pool].clone());
        Arc::new(Moment { known: self.known[pool], filer, handover })
    }
}

impl Exports for Shares {
    fn resolve(&self, _: &str) -> Option<Resolved> {
        None
    }

    fn pool(&self, guid: PoolGuid) -> Option<Arc<dyn PoolExports>> {
        let pool = self.known.iter().position(|known| known.guid == guid)?;
        Some(self.at(pool))
    }

    fn pools(&self) -> Vec<Arc<dyn PoolExports>> {
        (0..POOLS).map(|pool| self.at(pool) as _).collect()
    }

    fn changed(&self) -> Time {
        Time(self.changed.load(Relaxed))
    }

    fn list(&self) -> Vec<(String, Vec<String>)> {
        Vec::new()
    }
}

/// A pool at a moment.
struct Moment {
    known: Known,
    filer: Option<Arc<Filer>>,
    handover: Option<Arc<Handover>>,
}

impl PoolExports for Moment {
    fn guid(&self) -> PoolGuid {
        self.known.guid
    }

    fn pool_name(&self) -> &str {
        POOL
    }

    fn root(&self) -> Option<DatasetId> {
        Some(self.filer.as_ref()?.by_name(POOL)?.dataset())
    }

    fn place(&self, dataset: DatasetId) -> Place {
        let Some(filer) = &self.filer else { return Place::Away };
        filer.filesystem(dataset).map_or(Place::Unknown, |fs| Place::Here(fs as _))
    }

    fn retained(&self, dataset: DatasetId) -> Option<Arc<dyn Retained>> {
        self.handover.as_ref()?.retained(dataset)
    }

    fn is_retained(&self) -> bool {
        self.handover.is_some()
    }

    fn rule(&self, _: DatasetId, _: IpAddr) -> Option<Rule> {
        Some(Rule { read_only: false, squash: Squash::None, anon_uid: 65534, anon_gid: 65534, secure: false })
    }

    fn child(&self, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<DatasetId> {
        self.filer.as_ref()?.child(dataset, dir, name)
    }

    fn clients(&self) -> Option<Arc<dyn Vfs>> {
        Some(self.filer.as_ref()?.clients()? as _)
    }

    fn handle_key(&self) -> &[u8; 32] {
        &self.known.handle_key
    }
}
