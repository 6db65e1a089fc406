//! `tally pool upgrade`: its grammar, and the list of pools that lack something, in the words of `zpool upgrade`.

use clap::Args;
use tally_members::label::{FIRST_RELEASE, Feature, KNOWN_FEATURES};

use super::completion::Names;
use crate::control::message::Request;
use crate::control::report::PoolReport;

/// Words of `pool upgrade`.
#[derive(Debug, Args)]
pub struct UpgradeArgs {
    /// All pools
    #[arg(short, conflicts_with = "names")]
    all: bool,
    /// Only say what would be done
    #[arg(short = 'n')]
    dry_run: bool,
    /// Show the features that this program knows
    #[arg(short, conflicts_with_all = ["all", "names"])]
    pub(super) verbose: bool,
    /// Pools; without one, and without -a, nothing is changed
    #[arg(add = Names::Pool)]
    names: Vec<String>,
}

impl UpgradeArgs {
    /// Whether nothing is to be done. Without a pool nothing is in any case.
    pub(super) const fn is_dry_run(&self) -> bool {
        self.dry_run && self.is_about_pools()
    }

    const fn is_about_pools(&self) -> bool {
        self.all || !self.names.is_empty()
    }

    /// What to ask the daemon.
    pub(super) fn request(&self) -> Request {
        if self.is_about_pools() {
            Request::PoolUpgrade { names: self.names.clone() }
        } else {
            Request::PoolStatus { names: Vec::new() }
        }
    }
}

const HEAD: &str = "This system supports tally pool feature flags.\n\nAll pools are formatted using feature flags.\n\n";
const NOTHING: &str = "Every feature flags pool has all supported and requested features enabled.\n";
const SOME: &str = "\
Some supported features are not enabled on the following pools. Once a
feature is enabled the pool may become incompatible with software
that does not support the feature: `tally pool get feature@all` shows
which are, and compatibility=VERSION keeps a pool from the others.

POOL  FEATURE
---------------
";

/// Which pools lack what.
pub(super) fn lacking(pools: &[PoolReport]) -> String {
    let of_pool = |pool: &PoolReport| {
        let names: Vec<&str> = pool
            .features
            .iter()
            .filter(|feature| feature.lacking)
            .filter_map(|feature| feature.property.strip_prefix("feature@"))
            .collect();
        if names.is_empty() { String::new() } else { format!("{}\n      {}\n", pool.name, names.join("\n      ")) }
    };
    let lines: String = pools.iter().map(of_pool).collect();
    if lines.is_empty() { format!("{HEAD}{NOTHING}") } else { format!("{HEAD}{SOME}{lines}") }
}

/// What this program knows, whatever pools there are.
pub(super) fn known() -> String {
    features(KNOWN_FEATURES)
}

fn features(known: &[Feature]) -> String {
    let line = |feature: &Feature| format!("{:<30}  {}\n", feature.name, feature.since);
    let lines: String = known.iter().map(line).collect();
    let lines = if lines.is_empty() {
        format!("none: what pools of tally {FIRST_RELEASE} have is no feature, and there is nothing beyond it\n")
    } else {
        format!("{:<30}  SINCE TALLY\n{}\n{lines}", "FEATURE", "-".repeat(43))
    };
    format!("This system supports tally pool feature flags.\n\nThe following features are supported:\n\n{lines}")
}

#[cfg(test)]
mod tests {
    use tally_members::label::FeatureSet;

    use super::*;

    #[test]
    fn features_are_told_with_the_version_that_brought_them() {
        let feature = Feature { set: FeatureSet::Compat, bit: 0, name: "one", since: "0.4".parse().unwrap() };
        assert!(features(&[feature]).ends_with(&format!("{:<30}  0.4\n", "one")));
        assert!(features(&[]).ends_with("beyond it\n"));
    }
    use crate::control::report::FeatureReport;

    #[test]
    fn pools_that_lack_something_are_listed() {
        let feature = |name: &str, lacking| FeatureReport {
            property: format!("feature@{name}"),
            state: "disabled".into(),
            since: "0.4".into(),
            lacking,
        };
        let pool = |name: &str, features| PoolReport { name: name.into(), features, ..PoolReport::default() };
        let whole = pool("tank", vec![feature("kept_back", false)]);
        assert_eq!(lacking(std::slice::from_ref(&whole)), format!("{HEAD}{NOTHING}"));
        let old = pool("dozer", vec![feature("one", true), feature("two", true), feature("three", false)]);
        assert_eq!(lacking(&[whole, old]), format!("{HEAD}{SOME}dozer\n      one\n      two\n"));
    }
}
