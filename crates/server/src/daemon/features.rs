//! Features of pools between the words of the control socket and the labels: what is allowed, what is in use, and
//! `pool upgrade`.
//!
//! A program enables what it knows and nothing of its own accord, but in a pool that it makes: with the first structure
//! of a feature older programs are shut out, and that is for a person to choose.

use tally_members::label::{
    FIRST_RELEASE, Feature, FeatureSet, KNOWN_FEATURES, PoolConfig, Release, reserved, this_release,
};
use tally_members::roster::{Roster, RosterError};

use super::disk_error::DiskError;
use super::pools::{Pools, PoolsError};
use crate::control::report::FeatureReport;

/// What stands before a feature's name in the name of its property.
const FEATURE: &str = "feature@";
/// The same of one that this program does not know.
const UNSUPPORTED: &str = "unsupported@";
/// Asks for all of them.
pub(super) const ALL: &str = "feature@all";
/// `compatibility` without a limit.
const OFF: &str = "off";

/// The features of a pool as a program that knows `known` shows them.
pub(super) fn reports(config: &PoolConfig, known: &[Feature]) -> Vec<FeatureReport> {
    let lacking = config.features_lacking(known);
    let of_known = known.iter().map(|feature| FeatureReport {
        property: format!("{FEATURE}{}", feature.name),
        state: config.feature_state(feature).word().into(),
        since: feature.since.to_string(),
        lacking: lacking.contains(feature),
    });
    let of_unknown = config.features_unknown(known).into_iter().map(|(line, is_active)| FeatureReport {
        property: match line.name.as_str() {
            "" => format!("{UNSUPPORTED}{}-bit-{}", line.set.word(), line.bit),
            name => format!("{UNSUPPORTED}{name}"),
        },
        // A pool with an active one of the third set is not imported.
        state: match line.set {
            _ if !is_active => "inactive",
            FeatureSet::Compat => "compatible",
            FeatureSet::RoCompat | FeatureSet::Incompat => "readonly",
        }
        .into(),
        since: line.since,
        lacking: false,
    });
    of_known.chain(of_unknown).collect()
}

/// A pool's limit, as `pool get` shows it.
pub(super) fn compatibility(config: &PoolConfig) -> String {
    let limit = &config.feature_notes.compatibility;
    if limit.is_empty() { OFF.into() } else { limit.clone() }
}

/// Reads a limit; none for `off`.
pub(super) fn parse_compatibility(word: &str) -> Result<Option<Release>, PoolsError> {
    if word == OFF {
        return Ok(None);
    }
    let limit = word.parse().ok().filter(|limit| (FIRST_RELEASE..=this_release()).contains(limit));
    limit.map(Some).ok_or_else(|| PoolsError::BadCompatibility { value: word.into() })
}

/// Whether a word is a name under which a feature might be asked for or set.
pub(super) fn is_feature(property: &str) -> bool {
    property.starts_with(FEATURE) || property.starts_with(UNSUPPORTED)
}

/// Whether somebody who asked for `wanted` means this property.
pub(super) fn is_meant(wanted: &str, property: &str) -> bool {
    wanted == property || wanted == ALL && is_feature(property)
}

/// The feature of a property that is to be set.
pub(super) fn find(property: &str) -> Result<Feature, PoolsError> {
    let known = KNOWN_FEATURES.iter().find(|feature| property.strip_prefix(FEATURE) == Some(feature.name));
    known.copied().ok_or_else(|| unknown(property))
}

/// Why there is no such feature.
pub(super) fn unknown(property: &str) -> PoolsError {
    let name = property.split_once('@').map_or(property, |(_, name)| name);
    PoolsError::NoFeature { name: name.into(), reserved: reserved(name) }
}

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
