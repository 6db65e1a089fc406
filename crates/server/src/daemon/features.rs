//! Features of pools between the words of the control socket and the labels: what is allowed, and what is
//! in use.
//!
//! A program enables what it knows and nothing of its own accord, but in a pool that it makes: with the first structure
//! of a feature older programs are shut out, and that is for a person to choose.

use tally_members::label::{
    FIRST_RELEASE, Feature, FeatureSet, KNOWN_FEATURES, PoolConfig, Release, reserved, this_release,
};

use super::error::PoolsError;
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
        property: property(feature),
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

/// The name of a feature's property.
pub(super) fn property(feature: &Feature) -> String {
    format!("{FEATURE}{}", feature.name)
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

#[cfg(test)]
mod tests;
