//! Commands on datasets: names and properties between the words of the control socket and the pools.

use std::str::FromStr;

use tally_base::Size;
use tally_fs::filer::DatasetInfo;
use tally_nfs::exports::parse_sharenfs;
use tally_store::properties::{Property, PropertySet, Sourced, Value, parse, sources};

use super::pools::{Pools, PoolsError};
use super::{dates, process};
use crate::control::message::Assignment;
use crate::control::report::{DatasetReport, PropertyLine};
use crate::exports::mount_path;

/// A dataset and its ancestors, root first, with what was set on each.
pub(super) fn chain<'a>(datasets: &'a [DatasetInfo], name: &str) -> impl Iterator<Item = (&'a str, &'a PropertySet)> {
    let mut chain: Vec<&DatasetInfo> = datasets.iter().filter(|other| is_or_holds(&other.name, name)).collect();
    chain.sort_by_key(|dataset| dataset.name.len());
    chain.into_iter().map(|dataset| (dataset.name.as_str(), &dataset.local))
}

/// Whether dataset `ancestor` is `name` or above it.
fn is_or_holds(ancestor: &str, name: &str) -> bool {
    name.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reads `property=value`s, the rules of sharenfs included.
pub(super) fn property_set(assignments: &[Assignment]) -> Result<PropertySet, PoolsError> {
    assignments.iter().map(value).collect()
}

fn value(assignment: &Assignment) -> Result<Value, PoolsError> {
    let value = parse(Property::from_str(&assignment.property)?, &assignment.value)?;
    if let Value::ShareNfs(rules) = &value {
        parse_sharenfs(rules)?;
    }
    Ok(value)
}

/// Facts about a dataset that `get` shows beside its properties.
const FACTS: [&str; 5] = ["creation", "used", "available", "referenced", "mountpoint"];

impl Pools {
    /// Makes a dataset, and with `parents` its missing ancestors.
    pub fn create_dataset(&self, name: &str, parents: bool, set: &[Assignment]) -> Result<(), PoolsError> {
        let pool = self.pool(pool_of(name))?;
        let set = property_set(set)?;
        if parents {
            let known = pool.filer.datasets();
            for (end, _) in name.match_indices('/') {
                if !known.iter().any(|dataset| dataset.name == name[..end]) {
                    pool.filer.create_dataset(&name[..end], PropertySet::new(), process::owner())?;
                }
            }
        }
        let made = pool.filer.create_dataset(name, set, process::owner());
        self.refresh_exports();
        made?;
        Ok(())
    }

    /// Destroys a dataset, with `recursive` and all below it.
    pub fn destroy_dataset(&self, name: &str, recursive: bool) -> Result<(), PoolsError> {
        let destroyed = self.pool(pool_of(name))?.filer.destroy_dataset(name, recursive);
        self.refresh_exports();
        Ok(destroyed?)
    }

    /// Renames a dataset and what is below it.
    pub fn rename_dataset(&self, from: &str, to: &str) -> Result<(), PoolsError> {
        let renamed = self.pool(pool_of(from))?.filer.rename_dataset(from, to);
        self.refresh_exports();
        Ok(renamed?)
    }

    /// Sets properties; all of them are understood before the first one is set.
    pub fn set_properties(&self, name: &str, assignments: &[Assignment]) -> Result<(), PoolsError> {
        let pool = self.pool(pool_of(name))?;
        let values = assignments.iter().map(value).collect::<Result<Vec<_>, _>>()?;
        let set = values.into_iter().try_for_each(|value| pool.filer.set_property(name, value));
        self.refresh_exports();
        Ok(set?)
    }

    /// Forgets what was set, so that the parent's value holds.
    pub fn inherit_property(&self, name: &str, property: &str) -> Result<(), PoolsError> {
        let pool = self.pool(pool_of(name))?;
        let inherited = pool.filer.inherit_property(name, Property::from_str(property)?);
        self.refresh_exports();
        Ok(inherited?)
    }

    /// The named datasets, or all; with `recursive`, also what is below.
    pub fn list_datasets(&self, names: &[String], recursive: bool) -> Result<Vec<DatasetReport>, PoolsError> {
        Ok(self.select(names, recursive)?.iter().map(|(all, dataset)| report(all, dataset)).collect())
    }

    /// Properties of datasets; no property names mean all.
    pub fn dataset_properties(
        &self,
        names: &[String],
        recursive: bool,
        properties: &[String],
    ) -> Result<Vec<PropertyLine>, PoolsError> {
        for name in properties.iter().filter(|name| !FACTS.contains(&name.as_str())) {
            Property::from_str(name)?;
        }
        let wanted = |name: &str| properties.is_empty() || properties.iter().any(|wanted| wanted == name);
        let mut lines = Vec::new();
        for (all, dataset) in self.select(names, recursive)? {
            lines.extend(facts(&report(&all, &dataset)).into_iter().filter(|line| wanted(&line.property)));
            let chain: Vec<_> = chain(&all, &dataset.name).collect();
            let sourced = sources(&chain).into_iter().filter(|line| wanted(line.value.property().name()));
            lines.extend(sourced.map(|line| property_line(&dataset.name, &line)));
        }
        Ok(lines)
    }

    /// Datasets by name, each with all of its pool's.
    fn select(&self, names: &[String], recursive: bool) -> Result<Vec<(Vec<DatasetInfo>, DatasetInfo)>, PoolsError> {
        let mut all: Vec<Vec<DatasetInfo>> = self.all().iter().map(|pool| pool.filer.datasets()).collect();
        for datasets in &mut all {
            datasets.sort_by(|a, b| a.name.split('/').cmp(b.name.split('/')));
        }
        let every = || all.iter().flat_map(|datasets| datasets.iter().map(move |dataset| (datasets, dataset)));
        if let Some(missing) = names.iter().find(|name| !every().any(|(_, dataset)| dataset.name == **name)) {
            return Err(PoolsError::NoDataset { name: missing.clone() });
        }
        let wanted = |dataset: &DatasetInfo| {
            names.is_empty()
                || names
                    .iter()
                    .any(|name| if recursive { is_or_holds(name, &dataset.name) } else { *name == dataset.name })
        };
        let chosen = every().filter(|(_, dataset)| wanted(dataset));
        Ok(chosen.map(|(datasets, dataset)| (datasets.clone(), dataset.clone())).collect())
    }
}

/// The pool's name in a dataset's.
fn pool_of(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

fn report(all: &[DatasetInfo], dataset: &DatasetInfo) -> DatasetReport {
    let below = all.iter().filter(|other| is_or_holds(&dataset.name, &other.name));
    DatasetReport {
        name: dataset.name.clone(),
        id: dataset.id.0,
        used: below.map(|other| other.used_bytes).sum(),
        available: dataset.available_bytes,
        referenced: dataset.used_bytes,
        mountpoint: mount_path(&dataset.name),
        created: dataset.created.seconds(),
    }
}

fn facts(dataset: &DatasetReport) -> Vec<PropertyLine> {
    let size = |bytes: u64| (Size(bytes).to_string(), bytes.to_string());
    let values = [
        (dates::utc(dataset.created), dataset.created.to_string()),
        size(dataset.used),
        size(dataset.available),
        size(dataset.referenced),
        (dataset.mountpoint.clone(), dataset.mountpoint.clone()),
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

fn property_line(name: &str, line: &Sourced) -> PropertyLine {
    PropertyLine {
        name: name.into(),
        property: line.value.property().name().into(),
        value: line.value.to_string(),
        exact: line.value.exact(),
        source: line.source.to_string(),
    }
}
