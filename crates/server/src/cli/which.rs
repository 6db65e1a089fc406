//! Which datasets a command is about, as `zfs list` and `zfs get` choose them.

use clap::{Args, ValueEnum};
use tally_fs::filer::is_or_holds;

use super::completion::Names;

/// The words for that.
#[derive(Clone, Debug, Default, Args)]
pub struct Which {
    /// Datasets; all when none is named
    #[arg(add = Names::Dataset)]
    pub(super) names: Vec<String>,
    /// Also what is below them
    #[arg(short)]
    recursive: bool,
    /// Also what is below them, so many levels deep
    #[arg(short = 'd', value_name = "DEPTH")]
    depth: Option<usize>,
    /// Of these types alone, separated by commas
    #[arg(short = 't', value_name = "TYPE,...", value_delimiter = ',')]
    types: Vec<Kind>,
}

/// Types of ZFS. There are file systems alone, so a list of others is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// All there are
    All,
    /// File systems
    #[value(alias = "fs")]
    Filesystem,
    /// There are none yet
    #[value(alias = "snap")]
    Snapshot,
    /// There are none
    #[value(alias = "vol")]
    Volume,
    /// There are none yet
    Bookmark,
}

impl Which {
    /// Whether the daemon is to be asked for what is below, too.
    pub(super) const fn is_recursive(&self) -> bool {
        self.recursive || self.depth.is_some()
    }

    /// Whether one that the daemon told is meant.
    pub(super) fn is_meant(&self, dataset: &str) -> bool {
        let is_of_type =
            self.types.is_empty() || self.types.iter().any(|kind| matches!(kind, Kind::All | Kind::Filesystem));
        let levels = |name: &str| name.matches('/').count();
        let is_near = |depth: usize| match self.names.is_empty() {
            true => levels(dataset) <= depth,
            false => {
                self.names.iter().any(|name| is_or_holds(name, dataset) && levels(dataset) <= levels(name) + depth)
            }
        };
        is_of_type && self.depth.is_none_or(is_near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_from_what_is_named() {
        let which = |names: &[&str], depth| Which {
            names: names.iter().map(|&name| name.into()).collect(),
            depth: Some(depth),
            ..Which::default()
        };
        let all = ["tank", "tank/a", "tank/a/b", "tank/ab"];
        let meant = |which: &Which| all.into_iter().filter(|name| which.is_meant(name)).collect::<Vec<_>>();
        assert_eq!(meant(&which(&[], 0)), ["tank"]);
        assert_eq!(meant(&which(&[], 1)), ["tank", "tank/a", "tank/ab"]);
        assert_eq!(meant(&which(&["tank/a"], 1)), ["tank/a", "tank/a/b"]);
    }

    #[test]
    fn of_what_there_is_not_the_list_is_empty() {
        let of = |types: &[Kind]| Which { types: types.into(), ..Which::default() };
        assert!(!of(&[Kind::Snapshot]).is_meant("tank") && of(&[Kind::Snapshot, Kind::All]).is_meant("tank"));
    }
}
