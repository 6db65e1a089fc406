//! What is mounted on this machine: what `tally mount` prints, and its `--json`, so a field is never renamed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A dataset that this machine has mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountReport {
    /// Its name.
    pub dataset: String,
    /// Its pool's.
    pub pool: String,
    /// Where it is.
    pub dir: PathBuf,
    /// For how long.
    pub since_seconds: u64,
    /// How many requests of programs wait for something that is not a disk: for room, for clients that have to give something back, for a pool that is suspended.
    pub waiting: u64,
}
