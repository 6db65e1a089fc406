//! How what is mounted stands: what is served, what nobody serves any more, and what should be mounted and is not.

use std::path::{Path, PathBuf};

use super::table::Table;
use super::unmount::outermost_dead;
use super::wanted::{Wanted, all_said};
use crate::control::mounts::MountReport;
use crate::control::report::PropertyLine;

/// What is told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Standing {
    /// How many are served.
    pub(in crate::cli) served: usize,
    /// Datasets and directories of those that are dead, but for what lies in another such one.
    pub(in crate::cli) dead: Vec<(String, PathBuf)>,
    /// The same of those that are mounted by themselves, and are not there.
    pub(in crate::cli) missing: Vec<(String, PathBuf)>,
}

impl Standing {
    /// By what a daemon says, and the kernel. Only what that daemon does not serve is looked at: it may take as long as a disk.
    pub(in crate::cli) fn of(served: &[MountReport], properties: Vec<PropertyLine>) -> Self {
        let is_served = |dir: &Path| served.iter().any(|mount| mount.dir == dir);
        let table = Table::read().ok();
        let named = |table: &Table| {
            let named = |dir: &Path| Some((table.at(dir)?.source.clone(), dir.to_owned()));
            outermost_dead(table, is_served).into_iter().filter_map(named).collect()
        };
        let dead = table.as_ref().map_or_else(Vec::new, named);
        let missing = all_said(properties).into_iter().filter_map(|(name, said)| said.by_itself(name));
        let is_mounted = |wanted: &Wanted| served.iter().any(|mount| mount.dataset == wanted.dataset);
        let missing = missing.filter(|wanted| !is_mounted(wanted)).map(|Wanted { dir, dataset }| (dataset, dir));
        Self { served: served.len(), dead, missing: missing.collect() }
    }

    /// A line for each that is dead, with what mends it.
    pub(in crate::cli) fn dead_lines(&self) -> impl Iterator<Item = String> {
        self.dead.iter().map(|(dataset, dir)| {
            let dir = dir.display();
            format!(
                "{dataset} on {dir} is dead, as the daemon that served it has ended: `tally unmount {dir}` takes it away, and `tally mount {dataset} {dir}` mounts it anew"
            )
        })
    }
}
