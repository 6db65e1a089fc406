//! Pools that lie about: found by their labels, and not imported.

use tally_base::PoolGuid;
use tally_members::discover::{self, ImportSource, Refusal, Refused};
use tally_members::label::{PoolState, Unreadable};

use super::error::PoolsError;
use super::pools::Pools;
use crate::control::report::{Found, FoundPool, RefusedDisk};

impl Pools {
    /// Pools that could be imported from a place: with `destroyed` those that were destroyed, else the others. And disks that
    /// somebody would miss among them, as they say that they are a pool's.
    pub fn find(&self, source: &ImportSource, destroyed: bool) -> Result<Found, PoolsError> {
        let (mut pools, refused) = self.look(source)?;
        pools.retain(|pool| (pool.state == FoundPool::DESTROYED) == destroyed);
        let imported = self.imported();
        let is_missed = |refused: &&Refused| match &refused.why {
            // A drive without a medium is no pool's, and one that reads nothing says of none that it is its disk.
            Refusal::Unopened(_) | Refusal::Label(Unreadable::Io(_)) => false,
            Refusal::Label(_) => true,
            Refusal::LoneSpare { pool, .. } | Refusal::AroundLeg { pool, .. } => !imported.contains(pool),
        };
        let told =
            |Refused { path, why }: &Refused| RefusedDisk { path: path.display().to_string(), reason: why.to_string() };
        Ok(Found { pools, refused: refused.iter().filter(is_missed).map(told).collect() })
    }

    /// All pools in a place that are not imported, and paths of which none is made.
    pub fn look(&self, source: &ImportSource) -> Result<(Vec<FoundPool>, Vec<Refused>), PoolsError> {
        let scan = discover::scan(&*self.platform.opener, source).map_err(PoolsError::Look)?;
        let imported = self.imported();
        let found = scan.pools.iter().filter(|pool| !imported.contains(&pool.pool)).map(|pool| self.found(pool));
        Ok((found.collect(), scan.refused))
    }

    fn imported(&self) -> Vec<PoolGuid> {
        self.all().iter().map(|pool| pool.guid()).collect()
    }

    fn found(&self, pool: &discover::FoundPool) -> FoundPool {
        let config = pool.newest();
        let legs = config.vdevs_present().map(|vdev| vdev.legs.len()).sum::<usize>();
        let mut messages = Vec::new();
        if pool.legs.len() < legs {
            messages.push(format!("{} of its {legs} disks were found.", pool.legs.len()));
        }
        let elsewhere = config.state == PoolState::Active && config.host.id != self.platform.host.id;
        if elsewhere {
            messages.push(format!("It was last in use on {}; import it with -f if it is no more.", config.host.name));
        }
        messages.extend(config.why_only_read().map(|why| format!("It {why}.")));
        let state = match config.state {
            PoolState::Destroyed => FoundPool::DESTROYED,
            _ if pool.legs.len() < legs => "DEGRADED",
            _ => "ONLINE",
        };
        FoundPool {
            name: config.name.clone(),
            guid: pool.pool.to_string(),
            state: state.into(),
            exported: config.state == PoolState::Exported,
            paths: pool.legs.iter().map(|leg| leg.path.display().to_string()).collect(),
            messages,
        }
    }
}
