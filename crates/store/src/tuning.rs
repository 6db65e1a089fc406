//! How much a pool may use.

use std::time::Duration;

/// How much memory and time a pool may use.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Bytes of the block cache.
    pub cache_bytes: u64,
    /// Bytes of space maps that stay in memory although nobody needs them for now.
    pub space_map_bytes: u64,
    /// Bytes of dirty data at which operations must wait.
    pub dirty_bytes_max: u64,
    /// How old the oldest change in the open transaction group may become; with zero a group is closed as soon as there is
    /// something in it.
    pub txg_interval: Duration,
    /// Extents of what was removed or cut that one transaction group looks at, 1 at least: what is more is left to the groups
    /// behind (rules F11).
    pub reap_extents_max: usize,
    /// Bytes of content that a walk over all blocks gathers before it reads them in the order in which they lie. What has been
    /// freed of it meanwhile stays until then, and the cursor of a scrub stands before it.
    pub scrub_stretch_bytes: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            space_map_bytes: 32 << 20,
            dirty_bytes_max: 256 << 20,
            txg_interval: Duration::from_secs(5),
            reap_extents_max: 32 << 10,
            scrub_stretch_bytes: 64 << 20,
        }
    }
}
