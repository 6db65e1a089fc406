//! What datasets say of where they are mounted: the properties `mountpoint` and `canmount`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::failed;
use super::mounts;
use crate::cli::console::{Console, Failure, Session, ask};
use crate::control::message::{Reply, Request};
use crate::control::report::PropertyLine;

/// A dataset that is to be mounted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wanted {
    /// First, as what lies in another one comes behind it.
    pub(super) dir: PathBuf,
    pub(super) dataset: String,
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

/// All that are mounted by themselves, and are not mounted.
pub(super) fn by_itself(session: Session<'_>, console: &mut Console<'_>) -> Result<BTreeSet<Wanted>, Failure> {
    let all = said(session, Vec::new(), console)?;
    let mounted: BTreeSet<String> = mounts(session, console)?.into_iter().map(|mount| mount.dataset).collect();
    let wanted = all.into_iter().filter_map(|(name, said)| said.by_itself(name));
    Ok(wanted.filter(|wanted| !mounted.contains(&wanted.dataset)).collect())
}

/// Where somebody who names no directory has it mounted.
pub(super) fn mountpoint_of(
    session: Session<'_>,
    dataset: &str,
    console: &mut Console<'_>,
) -> Result<PathBuf, Failure> {
    let said = said(session, vec![dataset.into()], console)?.remove(dataset).unwrap_or_default();
    if let Some(mount) = mounts(session, console)?.into_iter().find(|mount| mount.dataset == dataset) {
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
        (path, _) if Path::new(path).is_absolute() => Ok(path.into()),
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
