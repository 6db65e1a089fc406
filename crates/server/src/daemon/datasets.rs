//! Commands on datasets: names and properties between the words of the control socket and the pools.
//!
//! A pool may have ten thousand datasets, and whoever watches asks for all of them every few seconds. So nothing here does
//! for one of them what takes a look at all: a list goes once over the pool's table of names, in which a dataset is
//! followed by what is below it ([`Names`]).

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tally_base::Size;
use tally_fs::Filesystem;
use tally_fs::filer::{DatasetError, Filer, Names, is_or_holds};
use tally_nfs::exports::plain_sharenfs;
use tally_smb::parse_sharesmb;
use tally_store::pool::ancestors;
use tally_store::properties::{
    Property, PropertySet, Sourced, SourcedUser, UserProperty, Value, check_user_name, is_user_name, parse, sources,
    user_sources,
};

use super::error::PoolsError;
use super::patience;
use super::pools::Pools;
use super::{zfs_space, zfs_words};
use crate::config::ExportRule;
use crate::control::message::Assignment;
use crate::control::mounts::MountReport;
use crate::control::report::{DatasetReport, PropertyLine};
use crate::exports::mount_path;
use crate::{dates, process};

/// Reads `property=value`s, the rules of sharenfs included.
pub(super) fn property_set(assignments: &[Assignment]) -> Result<PropertySet, PoolsError> {
    let mut set = PropertySet::new();
    for assignment in assignments {
        match setting(assignment)? {
            Setting::Known(value) => drop(set.set(value)),
            Setting::User(property) => set.set_user(property)?,
            Setting::IsSo => {}
        }
    }
    Ok(set)
}

/// What is to be set.
enum Setting {
    Known(Value),
    User(UserProperty),
    /// Nothing is to be set for that.
    IsSo,
}

fn setting(assignment: &Assignment) -> Result<Setting, PoolsError> {
    let Assignment { property, value } = assignment;
    if is_user_name(property) {
        return Ok(Setting::User(UserProperty::new(property, value)?));
    }
    if let Some(foreign) = zfs_words::of_datasets(property) {
        return foreign.check(assignment).map(|()| Setting::IsSo);
    }
    let property = Property::from_str(property)?;
    let value = parse(property, value)?;
    let plain = match &value {
        Value::ShareNfs(rules) => plain_sharenfs(rules)?,
        Value::ShareSmb(share) => Some(parse_sharesmb(share)?.map_or_else(|| "off".into(), |share| share.to_string())),
        _ => None,
    };
    Ok(Setting::Known(plain.map_or(Ok(value), |plain| parse(property, &plain))?))
}

/// Facts about a dataset that `get` shows beside its properties.
const FACTS: [&str; 9] =
    ["creation", "used", "available", "referenced", "exportpath", "mounted", "createtxg", "guid", "held"];

impl Pools {
    /// Makes a dataset, and with `parents` its missing ancestors.
    pub fn create_dataset(&self, name: &str, parents: bool, set: &[Assignment]) -> Result<(), PoolsError> {
        let pool = self.pool(pool_of(name))?;
        let set = property_set(set)?;
        self.check_sharing(name, &set.iter().cloned().collect::<Vec<_>>())?;
        if parents {
            pool.filer.check_new(name)?;
            for (end, _) in name.match_indices('/') {
                if pool.filer.by_name(&name[..end]).is_none() {
                    let made = pool.filer.create_dataset(&name[..end], PropertySet::new(), process::owner())?;
                    self.export_also(&pool, &made);
                }
            }
        }
        let made = pool.filer.create_dataset(name, set, process::owner())?;
        self.export_also(&pool, &made);
        Ok(())
    }

    /// Destroys a dataset, with `recursive` and all below it.
    pub fn destroy_dataset(&self, name: &str, recursive: bool) -> Result<(), PoolsError> {
        self.check_unmounted(name)?;
        let destroyed = self.pool(pool_of(name))?.filer.destroy_dataset(name, recursive);
        if destroyed.is_ok() {
            self.rules_end(name);
        }
        self.refresh_exports();
        Ok(destroyed?)
    }

    /// Renames a dataset and what is below it.
    pub fn rename_dataset(&self, from: &str, to: &str) -> Result<(), PoolsError> {
        let pool = self.pool(pool_of(from))?;
        if pool.filer.by_name(from).is_none() || pool.filer.by_name(to).is_some() {
            return Ok(pool.filer.rename_dataset(from, to)?);
        }
        self.check_directory_stays(from)?;
        let before = self.rules_follow(from, to)?;
        let renamed = pool.filer.rename_dataset(from, to);
        // Behind a group that failed it may have either name once the pool is back: a table that holds for both closes what it is to close.
        if matches!(&renamed, Err(error) if !matches!(error, DatasetError::Sync(_))) {
            self.rules_go_back(&before);
        }
        self.refresh_exports();
        Ok(renamed?)
    }

    /// Whether nothing is mounted on the directory that a dataset has in the one above it: with its name that goes, and the kernel would take the mount away in the middle of what programs do there, with all that is mounted in it.
    fn check_directory_stays(&self, name: &str) -> Result<(), PoolsError> {
        let (Some((above, last)), attached) = (name.rsplit_once('/'), self.attached()) else { return Ok(()) };
        let is_its_directory = |mount: &&MountReport| {
            let is_around = |around: &MountReport| around.dataset == above && around.dir.join(last) == mount.dir;
            mount.dataset == name && attached.iter().any(is_around)
        };
        match attached.iter().find(is_its_directory) {
            Some(mount) => {
                let (name, above, dir) = (name.into(), above.into(), mount.dir.clone());
                Err(PoolsError::DirectoryMounted { name, above, dir })
            }
            None => Ok(()),
        }
    }

    /// Sets properties; all of them are understood before the first one is set.
    pub fn set_properties(&self, name: &str, assignments: &[Assignment]) -> Result<(), PoolsError> {
        let pool = self.pool(pool_of(name))?;
        let settings = assignments.iter().map(setting).collect::<Result<Vec<_>, _>>()?;
        let is_share = |set: &Setting| matches!(set, Setting::Known(value) if value.property() == Property::ShareNfs);
        if pool.filer.pool().read_only() && settings.iter().any(is_share) {
            return Err(PoolsError::ReadOnlyShare { pool: pool.filer.name(), dataset: name.to_owned() });
        }
        let known = settings.iter().filter_map(|set| match set {
            Setting::Known(value) => Some(value.clone()),
            _ => None,
        });
        self.check_sharing(name, &known.collect::<Vec<_>>())?;
        let set = settings.into_iter().try_for_each(|set| match set {
            Setting::Known(value) => pool.filer.set_property(name, value),
            Setting::User(property) => pool.filer.set_user_property(name, property),
            Setting::IsSo => Ok(()),
        });
        self.refresh_exports();
        Ok(set?)
    }

    /// Forgets what was set, so that the parent's value holds.
    pub fn inherit_property(&self, name: &str, property: &str) -> Result<(), PoolsError> {
        let pool = self.pool(pool_of(name))?;
        if is_user_name(property) {
            check_user_name(property)?;
            return Ok(pool.filer.inherit_user_property(name, property)?);
        }
        let inherited = pool.filer.inherit_property(name, Property::from_str(property)?);
        self.refresh_exports();
        Ok(inherited?)
    }

    /// The named datasets, or all; with `recursive`, also what is below. With the values of these user properties.
    pub fn list_datasets(
        &self,
        names: &[String],
        recursive: bool,
        users: &[String],
    ) -> Result<Vec<DatasetReport>, PoolsError> {
        users.iter().try_for_each(|name| check_user_name(name))?;
        let (mut reports, mut held, mounted) = (Vec::new(), Vec::new(), self.mounted_names());
        for chosen in self.select(names, recursive)? {
            for place in &chosen.places {
                let Some(mut report) = chosen.all.report(*place) else { continue };
                // It takes a look at all above, which is not for those who ask every second.
                if !users.is_empty() {
                    let held = chosen.all.users(&report.name).into_iter().filter(|held| users.contains(&held.name));
                    report.user = held.map(|held| (held.name, held.value)).collect();
                }
                held.push(chosen.all.filesystem(*place));
                report.mounted = mounted.contains(&report.name);
                reports.push(report);
            }
        }
        for (report, held) in reports.iter_mut().zip(held_of(&held)) {
            report.held = held;
        }
        Ok(reports)
    }

    /// Properties of datasets; no property names mean all.
    pub fn dataset_properties(
        &self,
        names: &[String],
        recursive: bool,
        properties: &[String],
    ) -> Result<Vec<PropertyLine>, PoolsError> {
        let foreign = |name: &String| zfs_words::of_datasets(name).filter(|_| !FACTS.contains(&name.as_str()));
        let is_ours = |name: &&String| {
            !FACTS.contains(&name.as_str()) && !zfs_space::is_of_datasets(name) && foreign(name).is_none()
        };
        for name in properties.iter().filter(is_ours) {
            if is_user_name(name) { check_user_name(name)? } else { Property::from_str(name).map(drop)? }
        }
        let wanted_users = || properties.iter().filter(|name| is_user_name(name));
        let wanted = |name: &str| properties.is_empty() || properties.iter().any(|wanted| wanted == name);
        let (mut lines, selected) = (Vec::new(), self.select(names, recursive)?);
        let of_chosen =
            |chosen: &Chosen| chosen.places.iter().map(|place| chosen.all.filesystem(*place)).collect::<Vec<_>>();
        let mut held = match wanted("held") {
            true => held_of(&selected.iter().flat_map(of_chosen).collect::<Vec<_>>()),
            false => Vec::new(),
        }
        .into_iter();
        let mounted = self.mounted_names();
        for chosen in &selected {
            for place in &chosen.places {
                let held = held.next().flatten();
                let Some(report) = chosen.all.report(*place) else { continue };
                let report = DatasetReport { held, mounted: mounted.contains(&report.name), ..report };
                lines.extend(facts(&report).into_iter().filter(|line| wanted(&line.property)));
                lines.extend(properties.iter().filter_map(|name| zfs_space::of_dataset(&report, name)));
                let chain = chosen.all.chain(&report.name);
                let chain: Vec<_> = chain.iter().map(|(name, local)| (name.as_str(), local)).collect();
                let sourced = sources(&chain).into_iter().filter(|line| wanted(line.value.property().name()));
                lines.extend(sourced.map(|line| self.line_in_force(&report.name, &line)));
                lines.extend(properties.iter().filter_map(|name| Some(foreign(name)?.line(&report.name, name))));
                let held = user_sources(&chain);
                // One that is set nowhere is none, as `zfs` has it: only who asks for it is told so.
                let is_set = |name: &String| held.iter().any(|held| held.name == *name);
                let unset =
                    wanted_users().filter(|name| !is_set(name)).map(|name| user_line(&report.name, name, "-", "-"));
                let set = held.iter().filter(|held| wanted(&held.name));
                lines.extend(
                    set.map(|held| user_line(&report.name, &held.name, &held.value, &held.source.to_string()))
                        .chain(unset),
                );
            }
        }
        Ok(lines)
    }

    /// A property as it holds: the configuration stands above `sharenfs`.
    fn line_in_force(&self, name: &str, line: &Sourced) -> PropertyLine {
        let plain = property_line(name, line);
        match self.rules_above(name).filter(|_| line.value.property() == Property::ShareNfs) {
            None => plain,
            Some(ExportRule { dataset, rules }) => {
                PropertyLine { value: rules.clone(), exact: rules, source: format!("[[export]] of {dataset}"), ..plain }
            }
        }
    }

    /// The names of those that this machine has mounted.
    fn mounted_names(&self) -> BTreeSet<String> {
        self.attached().into_iter().map(|mount| mount.dataset).collect()
    }

    /// What there is to say of mounts behind a change of these properties: it moves none.
    pub(super) fn mounts_stay(&self, name: &str, changed: &[&str]) -> Option<String> {
        changed.contains(&Property::Mountpoint.name()).then_some(())?;
        let mounts = self.mounted_below(name);
        let mount = mounts.first()?;
        let others = if mounts.len() > 1 { format!(" (and {} more)", mounts.len() - 1) } else { String::new() };
        let dir = mount.dir.display();
        Some(format!(
            "note: what is mounted stays where it is: {} on {dir}{others}. `tally unmount {dir}`, and then `tally mount -a`, takes it to where it belongs now",
            mount.dataset
        ))
    }

    /// Datasets by name, those of each pool together.
    fn select(&self, names: &[String], recursive: bool) -> Result<Vec<Chosen>, PoolsError> {
        let pools: Vec<Catalogue> = self.all().iter().map(|pool| Catalogue::of(&pool.filer)).collect();
        let missing = |name: &&String| pools.iter().all(|all| all.names.find(name).is_none());
        if let Some(missing) = names.iter().find(missing) {
            return Err(PoolsError::NoDataset { name: missing.clone() });
        }
        let choose = |all: Catalogue| {
            let places = |name: &String| {
                let places = all.names.places(name);
                if recursive { places } else { places.start..places.end.min(places.start + 1) }
            };
            let mut places: Vec<usize> = if names.is_empty() {
                (0..all.names.count()).collect()
            } else {
                names.iter().flat_map(places).collect()
            };
            places.sort_unstable();
            places.dedup();
            Chosen { all, places }
        };
        Ok(pools.into_iter().map(choose).collect())
    }
}

/// Some datasets of a pool.
struct Chosen {
    all: Catalogue,
    places: Vec<usize>,
}

/// The datasets of a pool, and what they use.
pub(super) struct Catalogue {
    pub(super) names: Arc<Names>,
    /// What each uses with those below it, by its place among the names.
    pub(super) used_bytes: Vec<u64>,
}

impl Catalogue {
    pub(super) fn of(filer: &Filer) -> Self {
        let names = filer.names();
        let own: Vec<u64> = names.iter().map(|named| named.filesystem.used_bytes()).collect();
        let used_bytes = sums_with_below(names.iter().map(|named| &*named.name), &own);
        Self { names, used_bytes }
    }

    /// The dataset at a place, as lists have it.
    pub(super) fn report(&self, place: usize) -> Option<DatasetReport> {
        let info = self.names.at(place)?.filesystem.info();
        Some(DatasetReport {
            id: info.id.0,
            used: *self.used_bytes.get(place)?,
            available: info.available_bytes,
            referenced: info.used_bytes,
            mountpoint: info.effective.mountpoint.of(&info.name).to_string(),
            mounted: false,
            exportpath: mount_path(&info.name),
            created: info.created.seconds(),
            created_txg: info.created_txg.0,
            guid: info.guid,
            name: info.name,
            held: None,
            user: BTreeMap::new(),
        })
    }

    fn filesystem(&self, place: usize) -> Option<Arc<Filesystem>> {
        self.names.at(place).map(|named| Arc::clone(&named.filesystem))
    }

    /// The user properties that hold for a dataset.
    fn users(&self, name: &str) -> Vec<SourcedUser> {
        let chain = self.chain(name);
        user_sources(&chain.iter().map(|(name, local)| (name.as_str(), local)).collect::<Vec<_>>())
    }

    /// A dataset and its ancestors, root first, with what was set on each.
    fn chain(&self, name: &str) -> Vec<(String, PropertySet)> {
        let above = ancestors(name).filter_map(|name| self.names.find(name));
        above.map(|filesystem| filesystem.info()).map(|info| (info.name, info.local)).collect()
    }
}

/// How long it may take to look how many files are held: one may stand on a disk that hangs.
const LOOK_MAX: Duration = Duration::from_secs(3);

/// How many files of each are held open without a name, of those that were looked at in time. It may take a look at a disk, so it is for who asks once.
fn held_of(all: &[Option<Arc<Filesystem>>]) -> Vec<Option<u64>> {
    let places: BTreeSet<_> = (0..all.len()).collect();
    let found = {
        let all = all.to_vec();
        patience::found_within(LOOK_MAX, places, move |place| all[place].as_ref().map(|one| one.held_count()))
    };
    (0..all.len()).map(|place| found.get(&place).copied().flatten()).collect()
}

/// What each has together with all below it, of names of which each is followed by those below it.
fn sums_with_below<'a>(names: impl Iterator<Item = &'a str>, own: &[u64]) -> Vec<u64> {
    let mut sums = own.to_vec();
    // Those above the one that is looked at, with their places.
    let mut above: Vec<(&str, usize)> = Vec::new();
    for ((name, place), own) in names.zip(0..).zip(own) {
        while above.last().is_some_and(|(last, _)| !is_or_holds(last, name)) {
            above.pop();
        }
        above.iter().for_each(|(_, place)| sums[*place] += own);
        above.push((name, place));
    }
    sums
}

/// The pool's name in a dataset's.
pub(super) fn pool_of(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

fn facts(dataset: &DatasetReport) -> Vec<PropertyLine> {
    let size = |bytes: u64| (Size(bytes).to_string(), bytes.to_string());
    let same = |text: String| (text.clone(), text);
    let values = [
        (dates::utc_as_zfs(dataset.created), dataset.created.to_string()),
        size(dataset.used),
        size(dataset.available),
        size(dataset.referenced),
        same(dataset.exportpath.clone()),
        same(if dataset.mounted { "yes" } else { "no" }.into()),
        same(dataset.created_txg.to_string()),
        same(dataset.guid.to_string()),
        same(dataset.held.map_or_else(|| "-".into(), |held| held.to_string())),
    ];
    let line = |(property, (value, exact)): (&str, (String, String))| PropertyLine {
        name: dataset.name.clone(),
        property: property.into(),
        value,
        exact,
        source: "-".into(),
    };
    FACTS.into_iter().zip(values).map(line).collect()
}

fn user_line(name: &str, property: &str, value: &str, source: &str) -> PropertyLine {
    PropertyLine {
        name: name.into(),
        property: property.into(),
        value: value.into(),
        exact: value.into(),
        source: source.into(),
    }
}

fn property_line(name: &str, line: &Sourced) -> PropertyLine {
    PropertyLine {
        name: name.into(),
        property: line.value.property().name().into(),
        value: line.value.to_string(),
        exact: line.value.exact(),
        source: line.source.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataset_uses_what_those_below_it_use() {
        let names = ["t", "t/a", "t/a/b", "t/a/b/c", "t/a-b", "t/d", "t/d/e"];
        let sums = sums_with_below(names.into_iter(), &[1, 10, 100, 1000, 10_000, 100_000, 1_000_000]);
        assert_eq!(sums, [1_111_111, 1110, 1100, 1000, 10_000, 1_100_000, 1_000_000]);
    }
}
