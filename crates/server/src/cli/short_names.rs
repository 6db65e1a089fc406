//! Short names of properties: what ZFS heads a column with is taken for the property wherever one is named, and scripts do that.

use crate::daemon::{zfs_space, zfs_words};

const OF_DATASETS: [(&str, &str); 17] = [
    ("avail", "available"),
    ("compress", "compression"),
    ("lrefer", "logicalreferenced"),
    ("lused", "logicalused"),
    ("ratio", "compressratio"),
    ("rdonly", "readonly"),
    ("recsize", "recordsize"),
    ("refer", "referenced"),
    ("refratio", "refcompressratio"),
    ("refreserv", "refreservation"),
    ("reserv", "reservation"),
    ("usedchild", "usedbychildren"),
    ("usedds", "usedbydataset"),
    ("usedrefreserv", "usedbyrefreservation"),
    ("usedsnap", "usedbysnapshots"),
    ("sscount", "snapshot_count"),
    ("fscount", "filesystem_count"),
];

const OF_POOLS: [(&str, &str); 7] = [
    ("alloc", "allocated"),
    ("cap", "capacity"),
    ("ckpoint", "checkpoint"),
    ("dedup", "dedupratio"),
    ("expandsz", "expandsize"),
    ("frag", "fragmentation"),
    ("rdonly", "readonly"),
];

/// The whole name of a dataset's property.
pub(super) fn of_dataset(name: &str) -> &str {
    whole(&OF_DATASETS, name)
}

/// Whether the daemon has an answer for a column of this name, of which nothing can be set.
pub(super) fn is_column(name: &str) -> bool {
    zfs_words::of_datasets(name).is_some() || zfs_space::is_of_datasets(name)
}

/// The whole name of a pool's property.
pub(super) fn of_pool(name: &str) -> &str {
    whole(&OF_POOLS, name)
}

/// What `zfs list -o space` stands for.
pub(super) const SPACE: &str = "name,avail,used,usedsnap,usedds,usedrefreserv,usedchild";

fn whole<'a>(names: &[(&str, &'static str)], name: &'a str) -> &'a str {
    names.iter().find(|(short, _)| *short == name).map_or(name, |(_, whole)| whole)
}
