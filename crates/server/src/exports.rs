//! Which dataset a client may see: [`tally_nfs::exports::Exports`] over the pools of this process.
//!
//! Requests ask here several times each, from every worker. So the answer is a table that never changes and
//! is replaced as a whole, whenever a pool comes or goes, a dataset is made, renamed or destroyed, or a rule
//! changes: a reader pays one atomic load, and never waits for a command. The other way, asking the pools
//! themselves, would put a lock that commands hold for seconds on the path of a request.
//!
//! A pool that is known but not imported stays in the table with its key alone. Its handles are genuine,
//! so their clients are told to come back later instead of that their files are gone.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tally_base::{DatasetId, PoolGuid};
use tally_nfs::exports::{Exports, Place, Rule, ShareRules, parse_sharenfs};
use tally_vfs::{ObjectRef, Vfs};

use crate::config::{ExportRule, Moved};

/// The file systems of one imported pool.
pub trait Mounted: Send + Sync {
    /// The dataset's file system.
    fn vfs(&self, dataset: DatasetId) -> Option<Arc<dyn Vfs>>;
    /// The dataset mounted on entry `name` of directory `dir`.
    fn child(&self, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<DatasetId>;
}

/// What the table is made of: a pool that is known.
pub struct KnownExports {
    /// By which handles name it.
    pub guid: PoolGuid,
    /// Authenticates its handles.
    pub handle_key: [u8; 32],
    /// Its file systems; `None` while it is not imported.
    pub mounted: Option<Arc<dyn Mounted>>,
    /// Its datasets; none while it is not imported.
    pub datasets: Vec<DatasetExport>,
}

/// A dataset with the rules in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetExport {
    /// By which handles name it, within its pool.
    pub id: DatasetId,
    /// Its name, with the pool's.
    pub name: String,
    /// Effective value of `sharenfs`.
    pub sharenfs: String,
}

/// The path at which a dataset can be mounted.
#[must_use]
pub fn mount_path(dataset_name: &str) -> String {
    format!("/{dataset_name}")
}

/// One state of all exports. Every request looks its pool and its dataset up, which are few and no client's choice: to
/// compare some numbers costs less than a hash does that withstands chosen ones.
///
/// A pool may have ten thousand datasets, mostly of the same rules: those are parsed once and shared, and for a dataset that
/// is made the table is copied, which takes a tenth of what it takes to ask all datasets again.
#[derive(Clone, Default)]
pub struct ExportTable {
    pools: BTreeMap<PoolGuid, PoolEntry>,
    datasets: BTreeMap<(PoolGuid, DatasetId), Arc<ShareRules>>,
    /// Mount paths, in order, with what is mounted there.
    paths: Vec<(Arc<str>, PoolGuid, DatasetId)>,
}

#[derive(Clone)]
struct PoolEntry {
    handle_key: [u8; 32],
    mounted: Option<Arc<dyn Mounted>>,
}

impl ExportTable {
    /// Builds the table. Rules of the configuration stand above `sharenfs`, the nearest one first. A rule that
    /// cannot be understood exports nothing, and is told to the log: nobody gets in by a mistake.
    #[must_use]
    pub fn new(pools: Vec<KnownExports>, above: &[ExportRule]) -> Self {
        let mut table = Self::default();
        for pool in pools {
            let mut parsed: HashMap<&str, Arc<ShareRules>> = HashMap::new();
            for dataset in &pool.datasets {
                let text = text_in_force(above, dataset);
                let rules = parsed.entry(text).or_insert_with(|| rules_of(dataset, text));
                table.datasets.insert((pool.guid, dataset.id), Arc::clone(rules));
                table.paths.push((mount_path(&dataset.name).into(), pool.guid, dataset.id));
            }
            table.pools.insert(pool.guid, PoolEntry { handle_key: pool.handle_key, mounted: pool.mounted });
        }
        table.paths.sort();
        table
    }

    /// The same table with one dataset more of a pool that is in it.
    #[must_use]
    pub fn with(&self, pool: PoolGuid, dataset: &DatasetExport, above: &[ExportRule]) -> Self {
        let mut table = self.clone();
        let text = text_in_force(above, dataset);
        table.datasets.insert((pool, dataset.id), rules_of(dataset, text));
        let path = (mount_path(&dataset.name).into(), pool, dataset.id);
        if let Err(at) = table.paths.binary_search(&path) {
            table.paths.insert(at, path);
        }
        table
    }

    /// Exported paths with their rules, in order.
    pub fn exported(&self) -> impl Iterator<Item = (&str, &ShareRules)> {
        let with_rules =
            self.paths.iter().filter_map(|(path, pool, dataset)| Some((path, self.datasets.get(&(*pool, *dataset))?)));
        with_rules.filter(|(_, rules)| !rules.is_off()).map(|(path, rules)| (&**path, &**rules))
    }

    /// Whether there is a dataset of this name.
    #[must_use]
    pub fn has(&self, dataset: &str) -> bool {
        let path = mount_path(dataset);
        self.paths.binary_search_by(|(known, ..)| (**known).cmp(path.as_str())).is_ok()
    }

    fn vfs(&self, pool: PoolGuid, dataset: DatasetId) -> Option<Arc<dyn Vfs>> {
        self.pools.get(&pool)?.mounted.as_ref()?.vfs(dataset)
    }
}

/// Rules as somebody wrote them: in the configuration, else in the property.
fn text_in_force<'a>(above: &'a [ExportRule], dataset: &'a DatasetExport) -> &'a str {
    rule_above(above, &dataset.name).map_or(&dataset.sharenfs, |rule| &rule.rules)
}

/// Rules that are understood; of others nobody has access, and somebody is told.
fn rules_of(dataset: &DatasetExport, text: &str) -> Arc<ShareRules> {
    let rules = parse_sharenfs(text).unwrap_or_else(|error| {
        tracing::error!(dataset = dataset.name, rules = text, %error, "not exported");
        ShareRules::default()
    });
    Arc::new(rules)
}

/// The configuration's rule for the nearest of a dataset and its ancestors.
#[must_use]
pub fn rule_above<'a>(above: &'a [ExportRule], dataset: &str) -> Option<&'a ExportRule> {
    above.iter().filter(|rule| rule.covers(dataset)).max_by_key(|rule| rule.dataset.len())
}

/// The rules of the configuration file as they hold: each for the name that it has, and also for those of datasets that had
/// it and were renamed since, if the file has none for them.
#[must_use]
pub fn holding(file: &[ExportRule], moved: &[Moved]) -> Vec<ExportRule> {
    let of_moved = moved.iter().filter(|moved| moved.holds(file)).filter_map(|moved| {
        let rule = file.iter().find(|rule| rule.dataset == moved.table)?;
        Some(ExportRule { dataset: moved.to.clone(), rules: rule.rules.clone() })
    });
    file.iter().cloned().chain(of_moved).collect()
}

/// The exports as they are now.
#[derive(Default)]
pub struct LiveExports {
    table: ArcSwap<ExportTable>,
}

impl LiveExports {
    /// Puts another table in force, for every request that starts from now on.
    pub fn replace(&self, table: ExportTable) {
        self.table.store(Arc::new(table));
    }

    /// The table in force.
    #[must_use]
    pub fn table(&self) -> Arc<ExportTable> {
        self.table.load_full()
    }
}

impl Exports for LiveExports {
    fn resolve(&self, path: &str) -> Option<(Arc<dyn Vfs>, String)> {
        let table = self.table.load();
        let wanted: Vec<&str> = path.split('/').filter(|component| !component.is_empty()).collect();
        // From the whole path upwards: the first hit is the longest prefix.
        (1..=wanted.len()).rev().find_map(|length| {
            let prefix = format!("/{}", wanted[..length].join("/"));
            let found = table.paths.binary_search_by(|(known, ..)| (**known).cmp(prefix.as_str())).ok()?;
            let (_, pool, dataset) = &table.paths[found];
            Some((table.vfs(*pool, *dataset)?, wanted[length..].join("/")))
        })
    }

    fn place(&self, pool: PoolGuid, dataset: DatasetId) -> Place {
        let table = self.table.load();
        match table.pools.get(&pool) {
            None => Place::Unknown,
            Some(PoolEntry { mounted: None, .. }) => Place::Away,
            Some(PoolEntry { mounted: Some(mounted), .. }) => mounted.vfs(dataset).map_or(Place::Unknown, Place::Here),
        }
    }

    fn rule(&self, pool: PoolGuid, dataset: DatasetId, client: IpAddr) -> Option<Rule> {
        self.table.load().datasets.get(&(pool, dataset))?.rule(client)
    }

    fn name(&self, pool: PoolGuid, dataset: DatasetId) -> Option<String> {
        let table = self.table.load();
        let (path, ..) = table.paths.iter().find(|(_, of, id)| (*of, *id) == (pool, dataset))?;
        Some(path.trim_start_matches('/').to_owned())
    }

    fn child(&self, pool: PoolGuid, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<Arc<dyn Vfs>> {
        let table = self.table.load();
        let child = table.pools.get(&pool)?.mounted.as_ref()?.child(dataset, dir, name)?;
        table.vfs(pool, child)
    }

    fn list(&self) -> Vec<(String, Vec<String>)> {
        let table = self.table.load();
        table.exported().map(|(path, rules)| (path.to_owned(), rules.networks())).collect()
    }

    fn handle_key(&self, pool: PoolGuid) -> Option<[u8; 32]> {
        self.table.load().pools.get(&pool).map(|entry| entry.handle_key)
    }
}

#[cfg(test)]
mod tests;
