//! Pools that lie about: found by their labels, and not imported.

use tally_base::PoolGuid;
use tally_members::discover::{self, ImportSource};
use tally_members::label::PoolState;

use super::error::PoolsError;
use super::pools::Pools;
use crate::control::report::FoundPool;

impl Pools {
    /// Pools that could be imported from a place: with `destroyed` those that were destroyed, else the others.
    pub fn find(&self, source: &ImportSource, destroyed: bool) -> Result<Vec<FoundPool>, PoolsError> {
        let (mut found, _) = self.look(source)?;
        found.retain(|pool| (pool.state == FoundPool::DESTROYED) == destroyed);
        Ok(found)
    }

    /// All pools in a place that are not imported, and what could not be read there, each with its path.
    pub fn look(&self, source: &ImportSource) -> Result<(Vec<FoundPool>, Vec<String>), PoolsError> {
        let scan = discover::scan(&*self.platform.opener, source).map_err(PoolsError::Look)?;
        let imported: Vec<PoolGuid> = self.all().iter().map(|pool| pool.guid()).collect();
        let found = scan.pools.iter().filter(|pool| !imported.contains(&pool.pool)).map(|pool| self.found(pool));
        let refused = scan.refused.iter().map(|(path, why)| format!("{}: {why}", path.display()));
        Ok((found.collect(), refused.collect()))
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
