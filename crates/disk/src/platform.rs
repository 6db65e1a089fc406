//! What the engine is given, because it may not fetch it for itself: time, randomness and disks.

use std::sync::Arc;

use tally_base::{Clock, Rng};

use crate::{Fanout, Helpers, Opener};

/// The world around a pool.
#[derive(Clone)]
pub struct Platform {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub rng: Arc<dyn Rng>,
    /// Disks by path.
    pub opener: Arc<dyn Opener>,
    /// How work goes to several disks at once.
    pub fanout: Arc<dyn Fanout>,
    /// Whether long work (blocks that are read together, a long replay) may have threads beside its caller's. Without them what
    /// happens depends on the input alone.
    pub helpers: Helpers,
    /// This machine, as pools record it.
    pub host: Host,
}

/// A machine, as a pool's labels name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Stable across reboots (from `/etc/machine-id` where there is one).
    pub id: u64,
    /// For people.
    pub name: String,
}
