//! Which dataset a client may see: [`tally_nfs::exports::Exports`] over the pools of this process.
//!
//! Each request asks here, from every worker. So the answer is a table that never changes and
//! is replaced as a whole, whenever a pool comes or goes, a dataset is made, renamed or destroyed, or a rule
//! changes: a reader pays one atomic load, and never waits for a command. The other way, asking the pools
//! themselves, would put a lock that commands hold for seconds on the path of a request.
//!
//! A pool that is known but not imported stays in the table with its key alone. Its handles are genuine,
//! so their clients are told to come back later instead of that their files are gone.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tally_base::{Clock, DatasetId, PoolGuid, SystemClock, Time};
use tally_fs::filer::Handover;
use tally_nfs::exports::{Exports, Place, PoolExports, Resolved, Rule, ShareRules, parse_sharenfs};
use tally_vfs::{ObjectRef, Retained, Vfs};

use crate::config::{ExportRule, Moved};

/// The file systems of one imported pool.
pub trait Mounted: Send + Sync {
    /// The dataset's file system.
    fn vfs(&self, dataset: DatasetId) -> Option<Arc<dyn Vfs>>;
    /// Whether a dataset that had no file system a moment ago is not gone yet.
    fn is_going(&self, dataset: DatasetId) -> bool;
    /// The dataset mounted on entry `name` of directory `dir`.
    fn child(&self, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<DatasetId>;
    /// Where the pool keeps what has to be known of clients.
    fn clients(&self) -> Option<Arc<dyn Vfs>> {
        None
    }
}

/// What the table is made of: a pool that is known.
pub struct KnownExports {
    /// By which handles name it.
    pub guid: PoolGuid,
    /// Its name.
    pub name: String,
    /// Authenticates its handles.
    pub handle_key: [u8; 32],
    /// Its file systems; `None` while it is not imported.
    pub mounted: Option<Arc<dyn Mounted>>,
    /// Its datasets; none while it is not imported.
    pub datasets: Vec<DatasetExport>,
    /// What clients have of it, while it is not imported and may come back to that.
    pub handover: Option<Arc<Handover>>,
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
    pools: BTreeMap<PoolGuid, Arc<PoolEntry>>,
    /// Since when it is in force.
    since: Time,
}

/// A request has that of its own pool alone while it is carried out, so it keeps the disks of no other one open.
#[derive(Clone)]
struct PoolEntry {
    guid: PoolGuid,
    name: Arc<str>,
    handle_key: [u8; 32],
    mounted: Option<Arc<dyn Mounted>>,
    handover: Option<Arc<Handover>>,
    datasets: BTreeMap<DatasetId, DatasetEntry>,
    /// By mount path. What is below a dataset stands together, as all of it begins with its path and a slash.
    paths: BTreeMap<Arc<str>, DatasetId>,
}

#[derive(Clone)]
struct DatasetEntry {
    path: Arc<str>,
    rules: Arc<ShareRules>,
}

impl ExportTable {
    /// Builds the table. Rules of the configuration stand above `sharenfs`, the nearest one first. A rule that
    /// cannot be understood exports nothing, and is told to the log: nobody gets in by a mistake.
    #[must_use]
    pub fn new(pools: Vec<KnownExports>, above: &[ExportRule]) -> Self {
        let entry = |KnownExports { guid, name, handle_key, mounted, datasets, handover }: KnownExports| {
            let mut entry = PoolEntry { handover, ..PoolEntry::new(guid, name.into(), handle_key, mounted) };
            let mut parsed: HashMap<&str, Arc<ShareRules>> = HashMap::new();
            for dataset in &datasets {
                let text = text_in_force(above, dataset);
                let rules = Arc::clone(parsed.entry(text).or_insert_with(|| rules_of(dataset, text)));
                entry.add(dataset, rules);
            }
            (guid, Arc::new(entry))
        };
        Self { pools: pools.into_iter().map(entry).collect(), since: Time(0) }
    }

    /// The same table with one dataset more of a pool that is in it.
    #[must_use]
    pub fn with(&self, pool: PoolGuid, dataset: &DatasetExport, above: &[ExportRule]) -> Self {
        let mut table = self.clone();
        let entry = table.pools.get_mut(&pool);
        debug_assert!(entry.is_some(), "a dataset was made in a pool that is not there");
        if let Some(entry) = entry {
            Arc::make_mut(entry).add(dataset, rules_of(dataset, text_in_force(above, dataset)));
        }
        table
    }

    /// Exported paths with their rules, in order.
    pub fn exported(&self) -> impl Iterator<Item = (&str, &ShareRules)> {
        let entries =
            self.in_order().into_iter().flat_map(|pool| pool.paths.values().filter_map(|id| pool.datasets.get(id)));
        entries.filter(|entry| !entry.rules.is_off()).map(|entry| (&*entry.path, &*entry.rules))
    }

    /// Whether there is a dataset of this name.
    #[must_use]
    pub fn has(&self, dataset: &str) -> bool {
        let path = mount_path(dataset);
        self.pools.values().any(|pool| pool.paths.contains_key(path.as_str()))
    }

    fn in_order(&self) -> Vec<&Arc<PoolEntry>> {
        let mut pools: Vec<_> = self.pools.values().collect();
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        pools
    }
}

impl PoolEntry {
    fn new(guid: PoolGuid, name: Arc<str>, handle_key: [u8; 32], mounted: Option<Arc<dyn Mounted>>) -> Self {
        Self { guid, name, handle_key, mounted, handover: None, datasets: BTreeMap::new(), paths: BTreeMap::new() }
    }

    fn add(&mut self, dataset: &DatasetExport, rules: Arc<ShareRules>) {
        let path: Arc<str> = mount_path(&dataset.name).into();
        self.paths.insert(Arc::clone(&path), dataset.id);
        self.datasets.insert(dataset.id, DatasetEntry { path, rules });
    }

    /// The dataset whose path is the longest prefix of these names, and of how many.
    fn longest_prefix(&self, names: &[&str]) -> Option<(DatasetId, usize)> {
        // From the whole path upwards: the first hit is the longest.
        (1..=names.len()).rev().find_map(|length| {
            let path = format!("/{}", names[..length].join("/"));
            Some((*self.paths.get(path.as_str())?, length))
        })
    }

    /// Datasets below a path, in order.
    fn below<'a>(&'a self, path: &str) -> impl Iterator<Item = (&'a str, DatasetId)> + use<'a> {
        let from = format!("{path}/");
        let all = self.paths.range::<str, _>((Bound::Excluded(from.as_str()), Bound::Unbounded));
        all.take_while(move |(path, _)| path.starts_with(&from)).map(|(path, id)| (&**path, *id))
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
    /// Puts another table in force, for every request that starts from now on: by the time of day, and later than the one before, wherever
    /// the clock has gone.
    pub fn replace(&self, table: &ExportTable) {
        let now = SystemClock::default().now();
        self.table.rcu(|before| ExportTable { since: now.max(Time(before.since.0 + 1)), ..table.clone() });
    }

    /// The table in force.
    #[must_use]
    pub fn table(&self) -> Arc<ExportTable> {
        self.table.load_full()
    }
}

impl Exports for LiveExports {
    fn resolve(&self, path: &str) -> Option<Resolved> {
        let table = self.table.load();
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        table.pools.values().find_map(|pool| {
            let (dataset, length) = pool.longest_prefix(&names)?;
            let vfs = pool.mounted.as_ref()?.vfs(dataset)?;
            Some(Resolved { pool: Arc::clone(pool) as _, vfs, below: names[length..].join("/") })
        })
    }

    fn pool(&self, guid: PoolGuid) -> Option<Arc<dyn PoolExports>> {
        self.table.load().pools.get(&guid).map(|entry| Arc::clone(entry) as _)
    }

    fn pools(&self) -> Vec<Arc<dyn PoolExports>> {
        self.table.load().in_order().into_iter().map(|entry| Arc::clone(entry) as _).collect()
    }

    fn changed(&self) -> Time {
        self.table.load().since
    }

    fn list(&self) -> Vec<(String, Vec<String>)> {
        let table = self.table.load();
        table.exported().map(|(path, rules)| (path.to_owned(), rules.networks())).collect()
    }
}

impl PoolExports for PoolEntry {
    fn guid(&self) -> PoolGuid {
        self.guid
    }

    fn pool_name(&self) -> &str {
        &self.name
    }

    fn root(&self) -> Option<DatasetId> {
        self.paths.first_key_value().map(|(_, dataset)| *dataset)
    }

    fn parent(&self, dataset: DatasetId) -> Option<DatasetId> {
        let (parent, _) = self.datasets.get(&dataset)?.path.rsplit_once('/')?;
        self.paths.get(parent).copied()
    }

    fn children(&self, dataset: DatasetId) -> Vec<(String, DatasetId)> {
        let Some(DatasetEntry { path, .. }) = self.datasets.get(&dataset) else { return Vec::new() };
        let last = |(below, id): (&str, DatasetId)| Some((below.get(path.len() + 1..)?.to_owned(), id));
        self.below(path).filter_map(last).filter(|(name, _)| !name.contains('/')).collect()
    }

    fn child_named(&self, dataset: DatasetId, name: &str) -> Option<DatasetId> {
        let DatasetEntry { path, .. } = self.datasets.get(&dataset)?;
        if name.contains('/') { None } else { self.paths.get(format!("{path}/{name}").as_str()).copied() }
    }

    fn leads(&self, dataset: DatasetId, client: IpAddr) -> bool {
        let Some(DatasetEntry { path, rules }) = self.datasets.get(&dataset) else { return false };
        // Ten thousand datasets mostly have one rule.
        let mut refused = rules;
        rules.rule(client).is_some()
            || self.below(path).filter_map(|(_, id)| self.datasets.get(&id)).any(|entry| {
                !Arc::ptr_eq(refused, &entry.rules) && {
                    refused = &entry.rules;
                    refused.rule(client).is_some()
                }
            })
    }

    fn place(&self, dataset: DatasetId) -> Place {
        let Some(mounted) = &self.mounted else { return Place::Away };
        match mounted.vfs(dataset) {
            Some(vfs) if self.datasets.contains_key(&dataset) => Place::Here(vfs),
            // It was made a moment ago: its rule comes with the next table.
            Some(_) => Place::Away,
            None if mounted.is_going(dataset) => Place::Going,
            None => Place::Unknown,
        }
    }

    fn retained(&self, dataset: DatasetId) -> Option<Arc<dyn Retained>> {
        self.handover.as_ref()?.retained(dataset)
    }

    fn is_retained(&self) -> bool {
        self.handover.is_some()
    }

    fn rule(&self, dataset: DatasetId, client: IpAddr) -> Option<Rule> {
        self.datasets.get(&dataset)?.rules.rule(client)
    }

    fn name(&self, dataset: DatasetId) -> Option<String> {
        Some(self.datasets.get(&dataset)?.path.trim_start_matches('/').to_owned())
    }

    fn child(&self, dataset: DatasetId, dir: ObjectRef, name: &[u8]) -> Option<DatasetId> {
        self.mounted.as_ref()?.child(dataset, dir, name)
    }

    fn clients(&self) -> Option<Arc<dyn Vfs>> {
        self.mounted.as_ref()?.clients()
    }

    fn handle_key(&self) -> &[u8; 32] {
        &self.handle_key
    }
}

#[cfg(test)]
mod tests;
