//! How what is mounted stands: what is served, what nobody serves any more, and what should be mounted and is not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use super::wanted::{Ignored, Wanted, all_said, apart};
use super::{place_of, served_at};
use crate::cli::console::soon;
use crate::control::mounts::MountReport;
use crate::control::report::PropertyLine;
use crate::mount_table::{Mounted, Table};

/// How long a directory may take to say that nobody serves it. One that is served may wait for a disk, and is not dead.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// What is told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Standing {
    /// How many are served.
    pub(in crate::cli) served: usize,
    /// Datasets and directories of those that are dead, but for what lies in another such one.
    pub(in crate::cli) dead: Vec<(String, PathBuf)>,
    /// The same of those that are mounted by themselves, and are not there.
    pub(in crate::cli) missing: Vec<(String, PathBuf)>,
    /// Those that would be, had this machine accepted where their pools are mounted.
    pub(in crate::cli) ignored: Vec<Ignored>,
}

impl Standing {
    /// By what a daemon says, and the kernel. Only what that daemon does not serve is looked at: it may take as long as a disk.
    pub(in crate::cli) fn of(served: &[MountReport], properties: Vec<PropertyLine>, of_pools: &[PropertyLine]) -> Self {
        let table = Table::read().ok();
        let named = |table: &Table| {
            let named = |dir: &Path| Some((table.at(dir)?.source.clone(), dir.to_owned()));
            outermost_dead(table, served).into_iter().filter_map(named).collect()
        };
        let dead = table.as_ref().map_or_else(Vec::new, named);
        // Where the table cannot be read, what is served is taken to be there.
        let is_here = |mount: &&MountReport| table.as_ref().is_none_or(|table| place_of(mount, table).is_some());
        let here: BTreeSet<&str> = served.iter().filter(is_here).map(|mount| &*mount.dataset).collect();
        let missing = all_said(properties).into_iter().filter_map(|(name, said)| said.by_itself(name));
        let missing = missing.filter(|wanted| !here.contains(&*wanted.dataset)).collect();
        let (missing, ignored) = apart(missing, of_pools);
        let missing = missing.into_iter().map(|Wanted { dir, dataset }| (dataset, dir)).collect();
        Self { served: served.iter().filter(is_here).count(), dead, missing, ignored }
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

/// Whether nobody serves what is mounted there any more.
pub(super) fn is_dead(there: &Mounted) -> bool {
    let dir = there.dir.clone();
    let looked = soon(LOOK_MAX, move || fs::metadata(dir).map(drop));
    matches!(looked, Some(Err(error)) if Errno::from_io_error(&error) == Some(Errno::NOTCONN))
}

/// What nobody serves any more, but for what lies in another such one: no way leads there, and it goes along with that.
pub(super) fn outermost_dead<'a>(table: &'a Table, served: &[MountReport]) -> BTreeSet<&'a Path> {
    let unserved = table.ours().filter(|there| served_at(there, served).is_none());
    // All at once: while a daemon is away each look takes as long as may be.
    let dead: BTreeSet<&Path> = thread::scope(|scope| {
        let looks: Vec<_> = unserved.map(|there| (there, scope.spawn(|| is_dead(there)))).collect();
        let dead = looks.into_iter().filter_map(|(there, look)| look.join().is_ok_and(|dead| dead).then_some(there));
        dead.map(|there| &*there.dir).collect()
    });
    let is_in_another = |dir: &Path| dir.ancestors().skip(1).any(|above| dead.contains(above));
    dead.iter().copied().filter(|dir| !is_in_another(dir)).collect()
}
