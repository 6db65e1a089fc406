//! Properties that ZFS has and we have not, as scripts and fingers know them: a value that says what is so anyway may be set, and is shown to who asks for it by name; any other is refused,
//! with what to do instead.

use super::error::PoolsError;
use crate::control::message::Assignment;
use crate::control::report::PropertyLine;

/// A property of ZFS.
pub(crate) struct Foreign {
    name: &'static str,
    /// What is so; nothing where there is nothing of the kind. The first is shown.
    so: &'static [&'static str],
    /// What to do instead.
    instead: &'static str,
}

const fn foreign(name: &'static str, so: &'static [&'static str], instead: &'static str) -> Foreign {
    Foreign { name, so, instead }
}

const NO_ALTROOT: &str =
    "a pool is mounted where `mountpoint` says; `tally mount DATASET DIR` mounts a dataset elsewhere";
const NOT_OVER: &str = "a directory with something in it is not mounted on; `tally mount -O` does that once";
const NO_RESERVATIONS: &str =
    "room is not reserved for datasets; `fallocate` reserves it for files, and `quota` bounds the others";
const ONLY_FILES: &str = "there are file systems only: make a file of that size in one";
const NO_ENCRYPTION: &str = "nothing is encrypted: use dm-crypt (LUKS) below the pool";
const NO_USERS_QUOTA: &str = "there are no quotas of users yet: give each a dataset with a quota";
const NOT_COUNTED: &str = "what compression spares is not counted";
const BYTES: &str = "names are bytes, as Linux has them";
const DOES_NOT_GROW: &str = "a pool does not grow with its disks yet: make one of larger disks, and copy to that";
const MOUNT_OPTION: &str = "clients mount with that option where they want it";

const OF_DATASETS: [Foreign; 42] = [
    foreign("aclinherit", &["restricted"], "there are no access control lists yet"),
    foreign("aclmode", &["discard"], "there are no access control lists yet"),
    foreign("acltype", &["off", "noacl"], "there are no access control lists yet; modes and groups are what there is"),
    foreign("casesensitivity", &["sensitive"], BYTES),
    foreign("checksum", &["on"], "every block has its checksum, and there is no other kind"),
    foreign("compressratio", &["-"], NOT_COUNTED),
    foreign("copies", &["1"], "a file's blocks are there once on each disk of a mirror; make the pool of mirrors"),
    foreign("dedup", &["off"], "equal blocks are not looked for"),
    foreign("devices", &["on"], MOUNT_OPTION),
    foreign("dnodesize", &["auto", "legacy"], "inodes are as large as they have to be"),
    foreign("encryption", &["off"], NO_ENCRYPTION),
    foreign("exec", &["on"], MOUNT_OPTION),
    foreign("filesystem_count", &["none"], "datasets are not counted"),
    foreign("filesystem_limit", &["none"], "datasets are not counted"),
    foreign("groupquota@", &["none"], NO_USERS_QUOTA),
    foreign("keyformat", &["none"], NO_ENCRYPTION),
    foreign("logicalreferenced", &["-"], NOT_COUNTED),
    foreign("logicalused", &["-"], NOT_COUNTED),
    foreign("mlslabel", &["none"], "there are no such labels"),
    foreign("nbmand", &["off"], "locks are advisory"),
    foreign("normalization", &["none"], BYTES),
    foreign("origin", &["-"], "there are no clones"),
    foreign("overlay", &["off"], NOT_OVER),
    foreign("primarycache", &["all"], "the cache is of all blocks; `cache` in the configuration bounds it"),
    foreign("redundant_metadata", &["all", "most"], "what names blocks is there twice"),
    foreign("refcompressratio", &["-"], NOT_COUNTED),
    foreign("refreservation", &["none", "0"], NO_RESERVATIONS),
    foreign(
        "relatime",
        &["on"],
        "with atime=on access times are written once a day at most, which is what relatime asks for",
    ),
    foreign("reservation", &["none", "0"], NO_RESERVATIONS),
    foreign("secondarycache", &["all", "none", "metadata"], "there is no second cache"),
    foreign("setuid", &["on"], MOUNT_OPTION),
    foreign("snapdev", &["hidden"], ONLY_FILES),
    foreign("snapdir", &["hidden", "disabled"], "there are no snapshots yet"),
    foreign("snapshot_count", &["none"], "there are no snapshots yet"),
    foreign("snapshot_limit", &["none"], "there are no snapshots yet"),
    foreign("special_small_blocks", &["0"], "there is no class of disks for small blocks"),
    foreign("userquota@", &["none"], NO_USERS_QUOTA),
    foreign("utf8only", &["off"], BYTES),
    foreign("volmode", &["default"], ONLY_FILES),
    foreign("volsize", &[], ONLY_FILES),
    foreign("vscan", &["off"], "no virus scanner is asked"),
    foreign("xattr", &["sa", "on"], "extended attributes stand beside the inode"),
];

const OF_POOLS: [Foreign; 17] = [
    foreign("altroot", &["-"], NO_ALTROOT),
    foreign("ashift", &["12", "0"], "all is written in multiples of 4,096 bytes"),
    foreign("autoexpand", &["off"], DOES_NOT_GROW),
    foreign("autoreplace", &["off"], "give the pool a spare (`pool add POOL spare DISK`): that stands in by itself"),
    foreign("autotrim", &["off"], "disks are not trimmed yet"),
    foreign("bootfs", &["-"], "nothing boots from a pool"),
    foreign("cachefile", &["-", "none"], "the daemon's list of pools is pools.toml in its data directory"),
    foreign("checkpoint", &["-"], "there are no checkpoints"),
    foreign("comment", &["-"], "set a user property on the pool's root dataset: com.example:comment"),
    foreign("dedupditto", &["0"], "equal blocks are not looked for"),
    foreign("dedupratio", &["1.00x"], "equal blocks are not looked for"),
    foreign("delegation", &["off"], "commands are root's"),
    foreign("expandsize", &["-"], DOES_NOT_GROW),
    foreign("fragmentation", &["-"], "it cannot be set"),
    foreign("listsnapshots", &["off"], "there are no snapshots yet"),
    foreign(
        "multihost",
        &["off"],
        "a pool says on its disks which machine has it, and another one takes it with -f alone",
    ),
    foreign("version", &["-"], "pools have features: `tally pool get feature@all`"),
];

/// That of datasets, if there is one of this name.
pub(crate) fn of_datasets(name: &str) -> Option<&'static Foreign> {
    // `userquota@ann` is a property of its own for each user.
    let name = name.split_once('@').map_or(name, |(of, _)| &name[..=of.len()]);
    OF_DATASETS.iter().find(|it| it.name == name)
}

/// That of pools.
pub(super) fn of_pools(name: &str) -> Option<&'static Foreign> {
    OF_POOLS.iter().find(|it| it.name == name)
}

impl Foreign {
    /// Whether that is so anyway.
    pub(super) fn check(&self, Assignment { property, value }: &Assignment) -> Result<(), PoolsError> {
        if self.so.contains(&value.as_str()) {
            return Ok(());
        }
        let (property, value) = (property.clone(), value.clone());
        let so = self.so.first().map_or_else(String::new, |so| format!("{property}={so} is what is so; "));
        Err(PoolsError::Foreign { property, value, instead: format!("{so}{}", self.instead) })
    }

    /// As `get` shows it, by the name by which it was asked for.
    pub(super) fn line(&self, whose: &str, property: &str) -> PropertyLine {
        let value = self.so.first().copied().unwrap_or("-").to_owned();
        let exact = exact(&value).to_owned();
        let (name, property, source) = (whose.into(), property.into(), "-".into());
        PropertyLine { name, property, value, exact, source }
    }
}

/// `-p` shows a ratio without its letter.
fn exact(value: &str) -> &str {
    value.strip_suffix('x').filter(|ratio| ratio.parse::<f64>().is_ok()).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use tally_store::properties::Property;

    use super::*;

    #[test]
    fn none_of_them_is_ours_and_each_stands_once() {
        let names = |table: &[Foreign]| table.iter().map(|it| it.name).collect::<Vec<_>>();
        for names in [names(&OF_DATASETS), names(&OF_POOLS)] {
            assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        }
        assert!(Property::ALL.iter().all(|property| of_datasets(property.name()).is_none()));
    }

    /// Whoever comes from there looks it up once, and believes the page.
    #[test]
    fn each_stands_in_the_page_with_what_is_so() {
        let page = include_str!("../../../../packaging/man/tally-from-zfs.7");
        let words: Vec<&str> = page.split_whitespace().collect();
        for Foreign { name, so, .. } in OF_DATASETS.iter().chain(&OF_POOLS) {
            let stands = match so.first() {
                // A person's name stands between them.
                Some(so) if name.ends_with('@') => {
                    let whose = words.iter().position(|word| word == name);
                    whose.is_some_and(|at| words[at..].iter().take(7).any(|word| *word == format!("={so}")))
                }
                Some(so) => words.contains(&format!("{name}={so}").as_str()),
                None => words.contains(name),
            };
            assert!(stands, "tally-from-zfs(7) does not say {name}={}", so.first().unwrap_or(&"nothing"));
        }
    }

    #[test]
    fn what_is_so_is_taken_and_the_rest_is_answered() {
        let ask = |property: &str, value: &str| {
            let set = Assignment { property: property.into(), value: value.into() };
            of_datasets(property).expect("ZFS has it").check(&set).map_err(|error| error.to_string())
        };
        assert_eq!(ask("xattr", "sa"), Ok(()));
        assert_eq!(
            ask("dedup", "on"),
            Err("dedup=on cannot be had: dedup=off is what is so; equal blocks are not looked for".into())
        );
        assert_eq!(ask("volsize", "1G").unwrap_err(), format!("volsize=1G cannot be had: {ONLY_FILES}"));
    }
}
