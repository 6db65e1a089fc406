use std::fmt;
use std::io;
use std::sync::Arc;

use tally_base::{LaneId, PoolGuid, VdevGuid};
use tally_disk::{Disk, Fanout, Helpers};

use crate::failure::LaneFailed;
use crate::ring::LaneGeometry;

/// One disk of a lane, with a whole copy of the ring.
#[derive(Clone)]
pub struct Leg {
    /// Which disk, for reports and for the pool's configuration.
    pub guid: VdevGuid,
    /// Every write to it is durable by itself; it is never flushed.
    pub disk: Arc<dyn Disk>,
    /// Where the ring begins on it.
    pub start: u64,
}

/// A leg that is no longer in the set: good for repairs of what was written while it was (rules F6).
#[derive(Clone)]
pub struct StaleLeg {
    /// The disk, and where the ring begins on it.
    pub leg: Leg,
    /// The last generation of the leg set that it belonged to; later frames on it are not believed.
    pub legset_gen_last: u64,
}

/// The legs that the labels name for a lane: an import believes that each of them has every frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegSet {
    /// Raised with every change of the set; stands in each frame.
    pub generation: u64,
    /// Guids of the legs, in no order.
    pub legs: Vec<VdevGuid>,
}

/// Makes the smaller leg set durable in the labels of the survivors and of the pool's disks, and returns it. Called
/// from the driving thread, before anything is acknowledged on the smaller set; an error where the leg stays in the
/// set.
pub type LegFailed = dyn Fn(VdevGuid, &io::Error) -> Result<LegSet, LaneFailed> + Send + Sync;

/// What a lane is made of.
#[derive(Clone)]
pub struct LaneConfig {
    /// The pool it belongs to, as in each frame's header.
    pub pool: PoolGuid,
    /// Its number in the pool, as in each frame's header.
    pub lane: LaneId,
    /// Shape of the ring.
    pub geometry: LaneGeometry,
    /// Generation of the leg set.
    pub legset_gen: u64,
    /// The present legs of the committed set. Empty: the lane is missing.
    pub legs: Vec<Leg>,
    /// Legs outside the set, for recovery only.
    pub stale_legs: Vec<StaleLeg>,
    /// How a frame gets onto several legs.
    pub fanout: Arc<dyn Fanout>,
    /// Who reads a ring ahead.
    pub helpers: Helpers,
    /// How a leg leaves the set.
    pub leg_failed: Arc<LegFailed>,
}

impl fmt::Debug for LaneConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let guids: Vec<_> = self.legs.iter().map(|leg| leg.guid).collect();
        f.debug_struct("LaneConfig")
            .field("pool", &self.pool)
            .field("lane", &self.lane)
            .field("geometry", &self.geometry)
            .field("legset_gen", &self.legset_gen)
            .field("legs", &guids)
            .finish_non_exhaustive()
    }
}
