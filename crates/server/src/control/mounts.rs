//! What is mounted on this machine: what `tally mount` prints, and its `--json`, so a field is never renamed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How a line of `-n` begins that tells of a mount.
pub(crate) const WOULD_UNMOUNT: &str = "would unmount ";

/// A dataset that this machine has mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountReport {
    /// Which it is, of all since the daemon's start.
    #[serde(default)]
    pub number: u64,
    /// Its name.
    pub dataset: String,
    /// Its pool's.
    pub pool: String,
    /// Where it is.
    pub dir: PathBuf,
    /// The number by which the kernel knows it, major and minor; nothing where the command that mounted it did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<(u32, u32)>,
    /// For how long.
    pub since_seconds: u64,
    /// How many requests of programs wait for something that is not a disk: for room, for clients that have to give something back, for a pool that is suspended.
    pub waiting: u64,
}

impl MountReport {
    /// Whether it is of the pool or dataset of this name, or of a dataset below it.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.dataset.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}
