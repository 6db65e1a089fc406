//! What the time of a request went by.

use std::time::{Duration, Instant};

/// When what happened to a request.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Its last byte was read.
    pub read_at: Instant,
    /// Its (last) execution began.
    pub started: Instant,
    /// Its (last) execution ended, and its wait began.
    pub executed: Instant,
    /// When its wait ended, kept or broken.
    pub wait_ended: Instant,
    /// Time that the working thread itself spent in the device.
    pub in_device: Duration,
}
