//! How often and how long: what a verdict costs in time.

use std::time::Duration;

/// How many requests, and how long what is waited for may take. The default is what people get; tests over disks that
/// are only counters do with less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Requests of each kind that are sent. With 200, a server that is right half of the time is found out for certain.
    pub probes: u64,
    /// How long disks must have done nothing before a request is sent.
    pub rest: Duration,
    /// The same before every tenth, and before a blind look: longer than it takes a server to go on with what it put off.
    pub rest_long: Duration,
    /// How long that is waited for. Disks that somebody else uses never rest.
    pub rest_max: Duration,
    /// How long nothing is asked, to see what the disks do on their own.
    pub idle: Duration,
    /// Bytes that are written to see whether they arrive, more than a mebibyte.
    pub mark_bytes: u64,
    /// How long what was written may take to the disks; longer than Linux keeps dirty pages (30 s and 5).
    pub arrival_max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            probes: 200,
            rest: Duration::from_millis(1),
            rest_long: Duration::from_millis(10),
            rest_max: Duration::from_millis(25),
            idle: Duration::from_secs(1),
            mark_bytes: 8 << 20,
            arrival_max: Duration::from_secs(45),
        }
    }
}
