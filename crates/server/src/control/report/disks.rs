//! What is told of disks and mirrors.

use serde::{Deserialize, Serialize};

use crate::control::spread::Spread;

/// A vdev or one of its legs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VdevReport {
    /// `mirror-0`, or a path.
    pub name: String,
    /// `data` or `log`.
    pub class: String,
    /// `ONLINE`, `DEGRADED`, `RESILVERING`, `STALE`, `OFFLINE`, `MISSING`, `FAULTED`; `JOINING` or `NOLOG` where it has everything
    /// but takes no part in the log whose ring lies on it.
    pub state: String,
    /// Bytes taken and free; only of top-level data vdevs.
    pub space: Option<VdevSpace>,
    /// Errors seen since import.
    pub errors: ErrorCounters,
    /// Reads and writes since import.
    pub io: IoCounters,
    /// How long they took.
    #[serde(default)]
    pub times: IoTimes,
    /// How long they were.
    #[serde(default)]
    pub sizes: IoSizes,
    /// Those that have not returned yet.
    #[serde(default)]
    pub active: IoActive,
    /// For how long the oldest of those has been waited for; 0 if there is none.
    #[serde(default)]
    pub silent_seconds: f64,
    /// For how long it was waited for before it was struck off as it hung; 0 for any other.
    #[serde(default)]
    pub left_after_seconds: u64,
    /// Requests that took a second or longer, since import.
    #[serde(default)]
    pub slow: u64,
    /// It is read behind the other disks of its mirror, as it takes much longer.
    #[serde(default)]
    pub late: Option<LateReport>,
    /// The legs of a mirror.
    pub children: Vec<VdevReport>,
}

/// How much later a disk is than the quickest of its mirror.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateReport {
    /// What a read of it takes, nanoseconds.
    pub read_ns: u64,
    /// And of the quickest one.
    pub quickest_read_ns: u64,
}

/// Space of one top-level vdev.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VdevSpace {
    /// Bytes taken.
    pub allocated: u64,
    /// Bytes free.
    pub free: u64,
}

/// Errors of a vdev since import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCounters {
    /// Reads that failed.
    pub read: u64,
    /// Writes that failed.
    pub write: u64,
    /// Reads that gave wrong bytes.
    pub checksum: u64,
    /// What was wrong there or could not be read, and was written again from another disk.
    #[serde(default)]
    pub repaired: u64,
}

/// Reads and writes since import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoCounters {
    /// Reads.
    pub read_ops: u64,
    /// Writes.
    pub write_ops: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Those of the writes that were durable by themselves.
    #[serde(default)]
    pub durable_writes: u64,
    /// Flushes.
    #[serde(default)]
    pub flushes: u64,
}

/// How long requests took since import, by what they were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoTimes {
    /// Reads.
    pub read: Spread,
    /// Writes that may stay in the disk's cache.
    pub write: Spread,
    /// Durable writes: the log's and the labels'.
    pub durable_write: Spread,
    /// Flushes.
    pub flush: Spread,
}

/// How many bytes requests had since import, by what they were: counts by the upper end of a doubling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // As in [`IoTimes`].
pub struct IoSizes {
    pub read: Spread,
    pub write: Spread,
    pub durable_write: Spread,
}

/// Requests that a disk has now, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // As in [`IoTimes`].
pub struct IoActive {
    pub read: u64,
    pub write: u64,
    pub durable_write: u64,
    pub flush: u64,
}

impl IoTimes {
    /// Both together.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        self.combine(other, Spread::with)
    }

    /// What has come since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.combine(before, Spread::since)
    }

    fn combine(&self, other: &Self, how: fn(&Spread, &Spread) -> Spread) -> Self {
        Self {
            read: how(&self.read, &other.read),
            write: how(&self.write, &other.write),
            durable_write: how(&self.durable_write, &other.durable_write),
            flush: how(&self.flush, &other.flush),
        }
    }
}

impl IoSizes {
    /// Both together.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        self.combine(other, Spread::with)
    }

    /// What has come since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.combine(before, Spread::since)
    }

    fn combine(&self, other: &Self, how: fn(&Spread, &Spread) -> Spread) -> Self {
        Self {
            read: how(&self.read, &other.read),
            write: how(&self.write, &other.write),
            durable_write: how(&self.durable_write, &other.durable_write),
        }
    }
}

impl IoActive {
    /// Both together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            read: self.read + other.read,
            write: self.write + other.write,
            durable_write: self.durable_write + other.durable_write,
            flush: self.flush + other.flush,
        }
    }
}
