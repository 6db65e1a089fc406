//! What a table of exports becomes: which dataset stands for which path, and the commands that make it so.

use std::collections::{BTreeMap, BTreeSet};

use tally_fs::filer::check_name;
use tally_nfs::exports::TableExport;
use tally_store::properties::{Property, parse};

use crate::control::message::{Assignment, Request};

/// What is there already, and where the rest is to be made.
#[derive(Debug, Default)]
pub(super) struct There {
    /// All datasets.
    pub(super) datasets: BTreeSet<String>,
    /// Those whose rules are not their own: whose they are, if anybody's.
    pub(super) heirs: BTreeMap<String, Option<String>>,
    /// Below which dataset paths come that are in no pool.
    pub(super) under: Option<String>,
}

/// One command.
#[derive(Debug, PartialEq)]
pub(super) struct Step {
    /// What clients called it, and the line of the table.
    pub(super) path: String,
    pub(super) line: usize,
    /// What they call it from now on.
    pub(super) dataset: String,
    /// Whether the dataset has to be made.
    pub(super) is_new: bool,
    pub(super) sharenfs: String,
}

impl There {
    /// The command for a path; nothing, where nobody may mount it. What is wrong with it is told.
    pub(super) fn step(&self, export: &TableExport) -> Result<Option<Step>, String> {
        let Some(sharenfs) = &export.sharenfs else { return Ok(None) };
        let dataset = self.dataset(&export.path)?;
        check_name(&dataset).map_err(|error| {
            format!("{}: {error}; make one with another name, and set sharenfs='{sharenfs}' on it", export.path)
        })?;
        parse(Property::ShareNfs, sharenfs).map_err(|error| format!("{}: {error}", export.path))?;
        let is_new = !self.datasets.contains(&dataset);
        Ok(Some(Step { path: export.path.clone(), line: export.line, dataset, is_new, sharenfs: sharenfs.clone() }))
    }

    /// What a step would export besides: a dataset below it that would have its rules, and that no step names. A table means the file system of a path, and not those below.
    pub(super) fn widened(&self, step: &Step, steps: &[Step]) -> Option<&str> {
        let below = format!("{}/", step.dataset);
        let would_inherit = |(name, from): &(&String, &Option<String>)| {
            let is_from_between = from.as_ref().is_some_and(|from| from.starts_with(&below));
            name.starts_with(&below) && !is_from_between && !steps.iter().any(|other| other.dataset == **name)
        };
        self.heirs.iter().find(would_inherit).map(|(name, _)| name.as_str())
    }

    /// `/tank/home` is the dataset of that name if there is such a pool; all else comes below one.
    fn dataset(&self, path: &str) -> Result<String, String> {
        let name = path.trim_start_matches('/');
        let pool = name.split('/').next().unwrap_or(name);
        if self.datasets.contains(pool) {
            return Ok(name.to_owned());
        }
        let pools: Vec<_> = self.datasets.iter().filter(|name| !name.contains('/')).collect();
        let under = match (&self.under, pools.as_slice()) {
            (Some(under), _) => under,
            (None, [pool]) => *pool,
            (None, []) => return Err(format!("{path}: no pool is imported; make one, or import it")),
            (None, _) => return Err(format!("{path}: in which pool? Say below which dataset with --under DATASET")),
        };
        Ok(if name.is_empty() { under.clone() } else { format!("{under}/{name}") })
    }
}

impl Step {
    /// As it is typed.
    pub(super) fn words(&self) -> String {
        // Nothing in rules or names is more to a shell than a bracket, a blank or an asterisk.
        let Self { dataset, sharenfs, .. } = self;
        match self.is_new {
            true => format!("tally dataset create -p -o sharenfs='{sharenfs}' {dataset}"),
            false => format!("tally dataset set sharenfs='{sharenfs}' {dataset}"),
        }
    }

    /// As the daemon is asked.
    pub(super) fn request(&self) -> Request {
        let share = Assignment { property: "sharenfs".into(), value: self.sharenfs.clone() };
        match self.is_new {
            true => Request::DatasetCreate { name: self.dataset.clone(), parents: true, properties: vec![share] },
            false => Request::DatasetSet { name: self.dataset.clone(), assignments: vec![share] },
        }
    }
}

/// Puts them into the order in which they can be carried out, and nothing is exported to more than it says meanwhile: those that are there from below, and those that are made from above.
pub(super) fn in_order(steps: Vec<Step>) -> Vec<Step> {
    let (mut made, mut there): (Vec<_>, Vec<_>) = steps.into_iter().partition(|step| step.is_new);
    there.sort_by(|a, b| b.dataset.cmp(&a.dataset));
    made.sort_by(|a, b| a.dataset.cmp(&b.dataset));
    there.into_iter().chain(made).collect()
}

/// Two paths that would be one dataset.
pub(super) fn twice(steps: &[Step]) -> Option<String> {
    let pair = steps.windows(2).find(|pair| pair[0].dataset == pair[1].dataset)?;
    Some(format!("{} and {} would both be {}; take one of them out", pair[0].path, pair[1].path, pair[0].dataset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(datasets: &[&str], under: Option<&str>) -> There {
        let datasets = datasets.iter().map(|name| (*name).to_owned()).collect();
        There { datasets, heirs: BTreeMap::new(), under: under.map(str::to_owned) }
    }

    fn export(path: &str) -> TableExport {
        TableExport { path: path.into(), line: 3, sharenfs: Some("10.0.0.0/8(rw)".into()) }
    }

    #[test]
    fn a_path_becomes_a_dataset() {
        let cases = [
            (&["tank", "tank/home"][..], None, "/tank/home", "tally dataset set sharenfs='10.0.0.0/8(rw)' tank/home"),
            (&["tank"], None, "/tank/new/x", "tally dataset create -p -o sharenfs='10.0.0.0/8(rw)' tank/new/x"),
            (&["tank"], None, "/srv/nfs", "tally dataset create -p -o sharenfs='10.0.0.0/8(rw)' tank/srv/nfs"),
            (&["tank"], None, "/", "tally dataset set sharenfs='10.0.0.0/8(rw)' tank"),
            (
                &["a", "b", "b/old"],
                Some("b/old"),
                "/srv",
                "tally dataset create -p -o sharenfs='10.0.0.0/8(rw)' b/old/srv",
            ),
            (&["a", "b"], Some("b"), "/a/x", "tally dataset create -p -o sharenfs='10.0.0.0/8(rw)' a/x"),
        ];
        for (datasets, under, path, words) in cases {
            let step = there(datasets, under).step(&export(path)).expect(path).expect("somebody may");
            assert_eq!(step.words(), words, "{path}");
        }
    }

    #[test]
    fn what_cannot_be_one_is_told() {
        for (datasets, path, told) in [
            (&["a", "b"][..], "/srv", "--under DATASET"),
            (&[], "/srv", "no pool is imported"),
            (&["tank"], "/srv/my files", "'tank/srv/my files' is no dataset name"),
            (&["tank"], "/srv/it's", "is no dataset name"),
        ] {
            let error = there(datasets, None).step(&export(path)).expect_err(path);
            assert!(error.contains(told), "{path}: {error}");
        }
        // The daemon would refuse it when others of the table are there already.
        let long = format!("/srv/{}", "long".repeat(100));
        there(&["tank"], None).step(&export(&long)).expect_err("such a name there cannot be");
        let nobody = TableExport { sharenfs: None, ..export("/srv") };
        assert_eq!(there(&["tank"], None).step(&nobody), Ok(None));
    }

    /// Rules are inherited, and those of a table are not: nothing below a path is exported by its line.
    #[test]
    fn what_lies_below_is_not_exported_with_it() {
        let heirs = [("tank/home", None), ("tank/home/ann", Some("tank/home")), ("tank/own/x", Some("tank/own"))];
        let heirs = heirs.map(|(name, from)| (name.to_owned(), from.map(str::to_owned))).into();
        let there = There { heirs, ..there(&["tank", "tank/home", "tank/home/ann", "tank/own", "tank/own/x"], None) };
        let step = |path: &str| there.step(&export(path)).expect("a step").expect("a rule");
        let (tank, home, ann) = (step("/tank"), step("/tank/home"), step("/tank/home/ann"));
        assert_eq!(there.widened(&tank, &[]), Some("tank/home"));
        assert_eq!(there.widened(&home, &[]), Some("tank/home/ann"));
        let all = in_order(vec![tank, home, ann]);
        assert_eq!(
            all.iter().map(|step| step.dataset.as_str()).collect::<Vec<_>>(),
            ["tank/home/ann", "tank/home", "tank"]
        );
        assert!(all.iter().all(|step| there.widened(step, &all).is_none()), "each has a line of its own");
    }

    #[test]
    fn a_dataset_comes_before_those_below_it_and_once() {
        let there = there(&["tank"], None);
        let step = |path: &str| there.step(&export(path)).expect("a step").expect("a rule");
        let steps = in_order(vec![step("/srv/a/b"), step("/srv"), step("/tank/x")]);
        assert_eq!(
            steps.iter().map(|step| step.dataset.as_str()).collect::<Vec<_>>(),
            ["tank/srv", "tank/srv/a/b", "tank/x"]
        );
        assert_eq!(twice(&steps), None);
        let steps = in_order(vec![step("/tank/srv"), step("/srv")]);
        assert!(twice(&steps).is_some_and(|told| told.contains("would both be tank/srv")));
    }
}
