//! Finding pools: opening paths for reading, and sorting what their labels say by pool.
//!
//! Nothing is locked here and nothing decided: a pool may be in use while we look. `assemble` locks what it
//! takes and reads all labels again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tally_base::PoolGuid;
use tally_disk::{Access, Opener};

use crate::label::{self, Label, PoolConfig, Unreadable};

/// Where to look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportSource {
    /// These files and devices.
    pub paths: Vec<PathBuf>,
    /// All files and devices in these directories.
    pub dirs: Vec<PathBuf>,
}

/// A path with a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLeg {
    /// Where.
    pub path: PathBuf,
    /// What it says.
    pub label: Label,
}

/// The legs of one pool that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPool {
    /// Which pool.
    pub pool: PoolGuid,
    /// Its legs, in order of path.
    pub legs: Vec<FoundLeg>,
}

/// What a look brought.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Pools, in order of guid.
    pub pools: Vec<FoundPool>,
    /// Paths that hold something of ours that cannot be used, or that could not be read, and why.
    pub refused: Vec<(PathBuf, String)>,
}

impl FoundPool {
    /// The newest configuration among these legs.
    #[must_use]
    pub fn newest(&self) -> &PoolConfig {
        let newest = self.legs.iter().map(|leg| &leg.label.config).max_by_key(|config| config.rank());
        newest.expect("a found pool has the leg by which it was found")
    }
}

/// Looks at every path. Paths without a label are passed over; a directory that cannot be read is an error, as the
/// user has named it.
pub fn scan(opener: &dyn Opener, source: &ImportSource) -> io::Result<Scan> {
    let mut paths = source.paths.clone();
    for dir in &source.dirs {
        let listed = opener.list(dir);
        let with_name = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", dir.display()));
        paths.extend(listed.map_err(with_name)?);
    }
    paths.sort();
    paths.dedup();
    let mut pools: BTreeMap<PoolGuid, Vec<FoundLeg>> = BTreeMap::new();
    let mut refused = Vec::new();
    for path in paths {
        match look(opener, &path) {
            Ok(Ok(label)) => pools.entry(label.config.pool).or_default().push(FoundLeg { path, label }),
            Ok(Err(Unreadable::NoLabel)) => {}
            Ok(Err(unreadable)) => refused.push((path, unreadable.to_string())),
            Err(error) => refused.push((path, error.to_string())),
        }
    }
    let pools = pools.into_iter().map(|(pool, legs)| FoundPool { pool, legs }).collect();
    Ok(Scan { pools, refused })
}

fn look(opener: &dyn Opener, path: &Path) -> io::Result<Result<Label, Unreadable>> {
    let disk = opener.open(path, Access::ReadOnly)?;
    Ok(label::read(disk.as_ref()))
}
