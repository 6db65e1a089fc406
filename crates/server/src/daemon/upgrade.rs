//! `tally pool upgrade`: everything that this program knows and a pool's limit allows is enabled.

use tally_members::label::{Feature, KNOWN_FEATURES};
use tally_members::roster::{Roster, RosterError};

use super::error::{DiskError, PoolsError};
use super::pools::Pools;

impl Pools {
    /// Enables in these pools, or in all, everything that this program knows and the pool's limit allows. Says what it did.
    pub fn upgrade(&self, names: &[String]) -> Result<Vec<String>, PoolsError> {
        self.upgrade_to(names, KNOWN_FEATURES)
    }

    /// What [`Self::upgrade`] would do.
    pub(super) fn would_upgrade(&self, names: &[String]) -> Result<Vec<String>, PoolsError> {
        self.would_upgrade_to(names, KNOWN_FEATURES)
    }

    fn upgrade_to(&self, names: &[String], known: &[Feature]) -> Result<Vec<String>, PoolsError> {
        self.each_lacking(names, known, "Enabled the following features on", |roster, lacking| {
            roster.enable_features(lacking)
        })
    }

    fn would_upgrade_to(&self, names: &[String], known: &[Feature]) -> Result<Vec<String>, PoolsError> {
        let so_far = "would enable the following features on";
        self.each_lacking(names, known, so_far, |roster, lacking| roster.check_features(lacking))
    }

    fn each_lacking(
        &self,
        names: &[String],
        known: &[Feature],
        words: &str,
        change: impl Fn(&Roster, &[Feature]) -> Result<(), RosterError>,
    ) -> Result<Vec<String>, PoolsError> {
        let pools = match names {
            [] => self.all(),
            names => names.iter().map(|name| self.pool(name)).collect::<Result<_, _>>()?,
        };
        let mut done = Vec::new();
        for pool in pools {
            let roster = &pool.filer.pool().roster;
            let (config, name) = (roster.config(), pool.filer.name());
            let lacking = config.features_lacking(known);
            if lacking.is_empty() {
                done.push(format!("Pool '{name}' already has all supported and requested features enabled."));
                continue;
            }
            change(roster, &lacking).map_err(DiskError::from)?;
            done.push(format!("{words} '{name}':"));
            done.extend(lacking.iter().map(|feature| format!("  {}", feature.name)));
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests;
