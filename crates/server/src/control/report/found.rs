//! What is told of pools that could be imported, and of disks that could not.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::control::shell::quoted;

/// What a look at some places has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Pools that could be imported.
    pub pools: Vec<FoundPool>,
    /// Disks that say that they are a pool's, and of which none is made.
    #[serde(default)]
    pub refused: Vec<RefusedDisk>,
}

/// A disk whose labels are of no use, or tell of a pool of which nothing else is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedDisk {
    /// Where it is.
    pub path: String,
    /// What is wrong, and what to do next.
    pub reason: String,
}

/// A pool that could be imported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundPool {
    /// Its name.
    pub name: String,
    /// Its guid, 16 hexadecimal digits.
    pub guid: String,
    /// `ONLINE`, `DEGRADED`, or [`Self::DESTROYED`].
    pub state: String,
    /// Whether it was put away by an export, or by the end of the daemon that had it.
    #[serde(default)]
    pub exported: bool,
    /// Where its vdevs were found.
    pub paths: Vec<String>,
    /// What a person should know.
    pub messages: Vec<String>,
}

impl FoundPool {
    /// The state of one that was destroyed: `import -D` brings it back.
    pub const DESTROYED: &'static str = "DESTROYED";

    /// Whether somebody has exported or destroyed it.
    #[must_use]
    pub fn is_put_away(&self) -> bool {
        self.exported || self.state == Self::DESTROYED
    }

    /// The command that imports it, by its name or guid.
    #[must_use]
    pub fn import_command(&self, pool: &str) -> String {
        let dirs: BTreeSet<&Path> = self.paths.iter().filter_map(|path| Path::new(path).parent()).collect();
        let places: String = dirs.iter().map(|dir| format!("-d {} ", quoted(&dir.to_string_lossy()))).collect();
        let destroyed = if self.state == Self::DESTROYED { "-D " } else { "" };
        format!("tally pool import {destroyed}{places}{}", quoted(pool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command for a pool on a disk called "My Passport" had two words for its place.
    #[test]
    fn the_command_of_an_import_can_be_given_to_a_shell() {
        let found = |paths: &[&str]| {
            let paths = paths.iter().map(|&path| path.into()).collect();
            FoundPool { name: "tank".into(), paths, ..FoundPool::default() }.import_command("tank")
        };
        assert_eq!(found(&["/dev/sda", "/dev/sdb"]), "tally pool import -d /dev tank");
        assert_eq!(
            found(&["/media/ann/My Passport/a", "/o'neill/b"]),
            r"tally pool import -d '/media/ann/My Passport' -d '/o'\''neill' tank"
        );
    }
}
