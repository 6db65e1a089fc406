//! What the engine is given, because it may not fetch it for itself: time, randomness and disks.

use std::sync::Arc;

use tally_base::{Clock, Rng};

use crate::{Fanout, Helpers, Opener};

/// The world around a pool.
#[derive(Clone)]
pub struct Platform {
    /// The wall's time, and one that never runs back.
    pub clock: Arc<dyn Clock>,
    /// Where guids, keys and epochs come from; in a simulation, the seed.
    pub rng: Arc<dyn Rng>,
    /// Opens, locks, makes and lists disks by their paths.
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
    /// Its host name, for people: that a pool was last in use there.
    pub name: String,
}
