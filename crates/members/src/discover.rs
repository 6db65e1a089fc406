//! Finding pools: opening paths for reading, and sorting what their labels say by pool.
//!
//! Nothing is locked here and nothing decided: a pool may be in use while we look. `assemble` locks what it
//! takes and reads all labels again.
//!
//! One thing is sorted out here. A leg on a partition that ends where its disk ends (behind the last one of a DOS label there
//! is nothing) has its end label where the disk would have its own, so that the disk speaks as the leg while everything else
//! lies elsewhere on it. That its front says nothing does not tell, since a leg's front may be damaged; nor does its size,
//! since legs may be larger than they must be. So [`is_around_leg`] looks for the leg itself: where its front label should be,
//! and among what else was found.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tally_base::PoolGuid;
use tally_disk::{Access, Disk, Opener};

use crate::label::{self, Label, PoolConfig, Unreadable, data_bytes_of};

/// Where legs are looked for: all of these places.
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
    /// Where it was found, which need not be where its label says.
    pub path: PathBuf,
    /// What it says.
    pub label: Label,
}

/// The legs of one pool that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPool {
    /// Which pool.
    pub pool: PoolGuid,
    /// Its legs, in order of path; at least one.
    pub legs: Vec<FoundLeg>,
    /// Its disks that wait as spares: they have nothing of it, and what they say of it may be old.
    pub spares: Vec<FoundLeg>,
}

/// What a look brought.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Pools, in order of guid.
    pub pools: Vec<FoundPool>,
    /// Paths that hold something of ours that cannot be used, or that could not be read.
    pub refused: Vec<Refused>,
}

/// A path of which no pool is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where it is.
    pub path: PathBuf,
    /// Why not.
    pub why: Refusal,
}

/// Why no pool is made of what is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It was not looked at: a device without a medium, or a file of somebody else's.
    #[error("{0}")]
    Unopened(String),
    /// Its label cannot be used.
    #[error("{0}")]
    Label(#[from] Unreadable),
    /// It has nothing of its pool but the name.
    #[error("it is a spare of pool {name}, of which nothing else is here: name the places of its disks as well")]
    LoneSpare {
        /// Its pool.
        pool: PoolGuid,
        /// Its pool's name.
        name: String,
    },
    /// It is larger than the disk as which it speaks.
    #[error(
        "it is no disk of pool {name}, but ends with one, which begins at byte {start}: that should be a partition; let the kernel read \
         the partition table again (partprobe)"
    )]
    AroundLeg {
        /// That disk's pool.
        pool: PoolGuid,
        /// That pool's name.
        name: String,
        /// Where that disk begins.
        start: u64,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
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
    let mut pools: BTreeMap<PoolGuid, Vec<Shown>> = BTreeMap::new();
    let mut refused = Vec::new();
    for path in paths {
        match look(opener, &path) {
            Ok((disk, Ok(label))) => {
                let leg = FoundLeg { path, label };
                pools.entry(leg.label.config.pool).or_default().push(Shown { leg, disk });
            }
            Ok((_, Err(Unreadable::NoLabel))) => {}
            Ok((_, Err(unreadable))) => refused.push(Refused { path, why: unreadable.into() }),
            Err(error) => refused.push(Refused { path, why: Refusal::Unopened(error.to_string()) }),
        }
    }
    let mut found = Vec::new();
    for (pool, shown) in pools {
        let (spares, legs): (Vec<_>, Vec<_>) =
            themselves(&shown, &mut refused).into_iter().partition(|leg| leg.label.is_spare());
        if legs.is_empty() {
            let lone =
                |FoundLeg { path, label }| Refused { path, why: Refusal::LoneSpare { pool, name: label.config.name } };
            refused.extend(spares.into_iter().map(lone));
        } else {
            found.push(FoundPool { pool, legs, spares });
        }
    }
    Ok(Scan { pools: found, refused })
}

/// What speaks as a leg, and the disk that it is read from.
struct Shown {
    leg: FoundLeg,
    disk: Arc<dyn Disk>,
}

fn look(opener: &dyn Opener, path: &Path) -> io::Result<(Arc<dyn Disk>, Result<Label, Unreadable>)> {
    let disk = opener.open(path, Access::ReadOnly)?;
    let label = label::read(disk.as_ref());
    Ok((disk, label))
}

/// Those that are legs themselves. A disk around a leg that was not found is told of: somebody has to find its partition.
fn themselves(shown: &[Shown], refused: &mut Vec<Refused>) -> Vec<FoundLeg> {
    let is_around = |Shown { leg, disk }: &Shown| {
        let others = shown.iter().map(|other| (other.disk.as_ref(), &other.leg.label));
        is_around_leg(disk.as_ref(), &leg.label, others)
    };
    let (around, legs): (Vec<_>, Vec<_>) = shown.iter().partition(|shown| is_around(shown));
    for Shown { leg, disk } in around {
        let is_found = legs.iter().any(|found| found.leg.label.leg == leg.label.leg);
        if let Some(start) = leg_inside(disk.as_ref(), &leg.label).filter(|_| !is_found) {
            let (pool, name) = (leg.label.config.pool, leg.label.config.name.clone());
            refused.push(Refused { path: leg.path.clone(), why: Refusal::AroundLeg { pool, name, start } });
        }
    }
    legs.into_iter().map(|shown| shown.leg.clone()).collect()
}

/// Whether a disk's label is that of a leg with which it ends: the leg is found inside it, or is one of `others`.
#[must_use]
pub fn is_around_leg<'a>(
    disk: &dyn Disk,
    label: &Label,
    others: impl Iterator<Item = (&'a dyn Disk, &'a Label)>,
) -> bool {
    let Some(excess) = excess(disk, label) else { return false };
    // In whole sectors, in which the labels are looked for.
    let Some(size) = data_bytes_of(disk.geometry().size) else { return false };
    let is_its_end = |other: &dyn Disk| {
        data_bytes_of(other.geometry().size).is_some_and(|other| (size - excess..size).contains(&other))
            && label::end_bytes(disk).is_some_and(|end| label::end_bytes(other).as_deref() == Some(&*end))
    };
    let mut others = others.filter(|(_, own)| own.leg == label.leg);
    leg_inside(disk, label).is_some() || others.any(|(other, _)| is_its_end(other))
}

/// Where the leg begins with which a disk ends, if that tells itself.
#[must_use]
pub fn leg_inside(disk: &dyn Disk, label: &Label) -> Option<u64> {
    excess(disk, label).filter(|start| label::begins_at(disk, *start, label.leg))
}

/// By how much a disk that speaks by its end alone is larger than its leg must be: also where the leg begins, if it is no
/// larger than it must be.
fn excess(disk: &dyn Disk, label: &Label) -> Option<u64> {
    let as_leg = label.config.leg(label.leg).map(|(vdev, _)| vdev.data_bytes);
    // A spare that waits is as large as it was when it came.
    let known = as_leg.or_else(|| label.config.spare(label.leg).and_then(|spare| data_bytes_of(spare.size)))?;
    let excess = data_bytes_of(disk.geometry().size)?.checked_sub(known)?;
    (excess > 0 && !label::begins_at(disk, 0, label.leg)).then_some(excess)
}

#[cfg(test)]
mod tests;
