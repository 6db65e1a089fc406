//! What datasets say of where they are mounted: the properties `mountpoint` and `canmount`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{failed, mounts, place_of};
use crate::cli::console::{Console, Failure, Session, ask};
use crate::control::message::{Reply, Request};
use crate::control::mounts::MountReport;
use crate::control::report::{PoolReport, PropertyLine};
use crate::mount_table::Table;

/// A dataset that is to be mounted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wanted {
    /// First, as what lies in another one comes behind it.
    pub(super) dir: PathBuf,
    pub(super) dataset: String,
}

impl Wanted {
    fn in_words(&self) -> String {
        format!("{} on {}", self.dataset, self.dir.display())
    }
}

/// What a dataset says.
#[derive(Default)]
pub(super) struct Said {
    mountpoint: String,
    canmount: String,
}

impl Said {
    /// Where the dataset of this name is mounted by itself, if it is.
    pub(super) fn by_itself(self, dataset: String) -> Option<Wanted> {
        let is_wanted = self.canmount == "on" && Path::new(&self.mountpoint).is_absolute();
        is_wanted.then(|| Wanted { dir: self.mountpoint.into(), dataset })
    }
}

/// Those of a pool that somebody else has made, and whose mountpoints this machine has not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Ignored {
    pool: String,
    wanted: Vec<Wanted>,
}

impl Ignored {
    /// What is so.
    pub(in crate::cli) fn found(&self) -> String {
        let places: Vec<_> = self.wanted.iter().take(NAMED_MAX).map(Wanted::in_words).collect();
        let more = self.wanted.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        format!(
            "this machine has not accepted where '{}' is mounted, and does not mount by itself: {}{more}",
            self.pool,
            places.join(", ")
        )
    }

    /// What to do.
    pub(in crate::cli) fn todo(&self) -> String {
        format!("`tally pool set mountpoints=accept {}` accepts that", self.pool)
    }
}

/// So many of a pool are named; the others are counted.
const NAMED_MAX: usize = 8;

/// All that are mounted by themselves, and are not mounted; and those that are not accepted.
pub(super) fn by_itself(
    session: Session<'_>,
    console: &mut Console<'_>,
) -> Result<(BTreeSet<Wanted>, Vec<Ignored>), Failure> {
    let all = said(session, Vec::new(), console)?;
    let mounted = here(session, console)?;
    let wanted = all.into_iter().filter_map(|(name, said)| said.by_itself(name));
    let wanted = wanted.filter(|wanted| mounted.iter().all(|mount| mount.dataset != wanted.dataset)).collect();
    Ok(apart(wanted, &of_pools(session, console)?))
}

/// What is served, and mounted where this process sees it.
fn here(session: Session<'_>, console: &mut Console<'_>) -> Result<Vec<MountReport>, Failure> {
    let (served, table) = (mounts(session, console)?, Table::read()?);
    Ok(served.into_iter().filter(|mount| place_of(mount, &table).is_some()).collect())
}

/// Takes those apart that are not accepted, by what is said of their pools.
pub(super) fn apart(mut wanted: BTreeSet<Wanted>, of_pools: &[PropertyLine]) -> (BTreeSet<Wanted>, Vec<Ignored>) {
    let is_ignored = |line: &&PropertyLine| line.value == PoolReport::MOUNTPOINTS_IGNORED;
    let ignored = of_pools.iter().filter(is_ignored).map(|line| {
        let is_its = |wanted: &&Wanted| wanted.dataset.split('/').next() == Some(&*line.name);
        Ignored { pool: line.name.clone(), wanted: wanted.iter().filter(is_its).cloned().collect() }
    });
    let ignored: Vec<_> = ignored.filter(|ignored| !ignored.wanted.is_empty()).collect();
    wanted.retain(|wanted| !ignored.iter().any(|ignored| ignored.wanted.contains(wanted)));
    (wanted, ignored)
}

fn of_pools(session: Session<'_>, console: &mut Console<'_>) -> Result<Vec<PropertyLine>, Failure> {
    match ask(session, &request_of_pools(), console)? {
        Reply::Properties(lines) => Ok(lines),
        _ => Err(Failure::Mismatch),
    }
}

/// The question whether mountpoints of pools are accepted.
pub(in crate::cli) fn request_of_pools() -> Request {
    Request::PoolGet { names: Vec::new(), properties: vec!["mountpoints".into()] }
}

/// Where somebody who names no directory has it mounted.
pub(super) fn mountpoint_of(
    session: Session<'_>,
    dataset: &str,
    console: &mut Console<'_>,
) -> Result<PathBuf, Failure> {
    let said = said(session, vec![dataset.into()], console)?.remove(dataset).unwrap_or_default();
    if let Some(mount) = here(session, console)?.into_iter().find(|mount| mount.dataset == dataset) {
        let dir = mount.dir.display();
        return Err(failed(format!(
            "{dataset} is mounted on {dir} already; `tally mount {dataset} DIR` mounts it elsewhere, too"
        )));
    }
    match (&*said.mountpoint, &*said.canmount) {
        (_, "off") => Err(failed(format!(
            "{dataset} has canmount=off: it is mounted on a directory that you name, and not by itself"
        ))),
        ("legacy", _) => Err(failed(format!(
            "{dataset} has mountpoint=legacy: /etc/fstab says where it is mounted, or you do (tally mount {dataset} DIR)"
        ))),
        (path, _) if Path::new(path).is_absolute() => {
            let wanted = BTreeSet::from([Wanted { dir: path.into(), dataset: dataset.into() }]);
            match apart(wanted, &of_pools(session, console)?).1.first() {
                Some(ignored) => Err(failed(format!(
                    "{}; {}, and `tally mount {dataset} DIR` mounts it on a directory that you name",
                    ignored.found(),
                    ignored.todo()
                ))),
                None => Ok(path.into()),
            }
        }
        _ => Err(failed(format!(
            "{dataset} has no mountpoint: name a directory (tally mount {dataset} DIR), or set one (tally dataset set mountpoint=DIR {dataset})"
        ))),
    }
}

fn said(
    session: Session<'_>,
    names: Vec<String>,
    console: &mut Console<'_>,
) -> Result<BTreeMap<String, Said>, Failure> {
    match ask(session, &request(names), console)? {
        Reply::Properties(lines) => Ok(all_said(lines)),
        _ => Err(Failure::Mismatch),
    }
}

/// The question what these datasets say, or all.
pub(in crate::cli) fn request(names: Vec<String>) -> Request {
    Request::DatasetGet { names, recursive: false, properties: vec!["mountpoint".into(), "canmount".into()] }
}

/// What the answer says of each.
pub(super) fn all_said(lines: Vec<PropertyLine>) -> BTreeMap<String, Said> {
    let mut all: BTreeMap<String, Said> = BTreeMap::new();
    for line in lines {
        let said = all.entry(line.name).or_default();
        match &*line.property {
            "mountpoint" => said.mountpoint = line.value,
            _ => said.canmount = line.value,
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_that_are_not_accepted_are_told_of_one_by_one() {
        let wanted = |dataset: &str| Wanted { dir: format!("/srv/{dataset}").into(), dataset: dataset.into() };
        let line = |name: &str, value: &str| PropertyLine {
            name: name.into(),
            property: "mountpoints".into(),
            value: value.into(),
            exact: value.into(),
            source: "-".into(),
        };
        let all: BTreeSet<_> = ["alien", "alien/a", "aliens/b", "tank"].map(wanted).into();
        let of_pools = [line("alien", "ignore"), line("aliens", "accept"), line("tank", "-"), line("void", "ignore")];
        let (accepted, ignored) = apart(all.clone(), &of_pools);
        assert_eq!(accepted, ["aliens/b", "tank"].map(wanted).into());
        let [told] = &ignored[..] else { panic!("{ignored:?}") };
        assert!(told.found().ends_with(": alien on /srv/alien, alien/a on /srv/alien/a"), "{}", told.found());
        assert_eq!(apart(all.clone(), &[]), (all, Vec::new()), "a daemon of before knows no such property");
        let many = (0..20).map(|nth| wanted(&format!("alien/{nth}"))).collect();
        assert!(apart(many, &of_pools).1[0].found().ends_with(", and 12 more"));
    }
}
