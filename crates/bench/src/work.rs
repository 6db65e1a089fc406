//! The physical work below a server, from whoever counts it.
//!
//! A server of ours tells its own counters; for any other there are those of the kernel for its disks
//! ([`devices`]). Both come down to the same few numbers, read before and after.

pub mod devices;

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// How long disks may take to become quiet; longer than Linux keeps dirty pages (30 s and 5).
pub(crate) const SETTLE_MAX: Duration = Duration::from_secs(45);

/// Counters of physical work: since some beginning, or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Writes that the devices have completed, of the log and of everything else.
    pub writes: u64,
    /// Bytes of those writes.
    pub write_bytes: u64,
    /// Flushes that they have completed.
    pub flushes: u64,
    /// Completed events after which something is durable: flushes, and writes known to be durable by themselves.
    pub durable_events: u64,
    /// Completed writes of which nobody can tell whether they were durable by themselves.
    pub unknown_events: u64,
    /// The part of an intent log, where the server tells.
    pub log: Option<LogWork>,
}

/// What an intent log wrote; contained in the figures of [`Work`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogWork {
    /// Bytes of all its frames.
    pub bytes: u64,
    /// Frames: what is written at once.
    pub frames: u64,
}

impl Work {
    /// What was done since `earlier`. A counter that went back, because a server or a disk came anew, counts as 0.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let log = self.log.map(|log| {
            let before = earlier.log.unwrap_or_default();
            LogWork { bytes: log.bytes.saturating_sub(before.bytes), frames: log.frames.saturating_sub(before.frames) }
        });
        Self {
            writes: self.writes.saturating_sub(earlier.writes),
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
            flushes: self.flushes.saturating_sub(earlier.flushes),
            durable_events: self.durable_events.saturating_sub(earlier.durable_events),
            unknown_events: self.unknown_events.saturating_sub(earlier.unknown_events),
            log,
        }
    }

    /// Whether something became durable, or nobody can tell, and so much was written.
    #[must_use]
    pub const fn may_hold(&self, bytes: u64) -> bool {
        self.durable_events + self.unknown_events > 0 && self.write_bytes >= bytes
    }

    /// Bytes written to anything but the log.
    #[must_use]
    pub fn pool_bytes(&self) -> u64 {
        self.write_bytes.saturating_sub(self.log.map_or(0, |log| log.bytes))
    }
}

/// Somebody who counts the work below a server.
pub trait Watch {
    /// The counters now. They may only grow, and may lag behind nothing: what was completed before the call is
    /// counted in its answer.
    fn work(&mut self) -> Result<Work>;

    /// The same of the disks of this machine that are not watched, where somebody counts those: a server may keep its
    /// log there.
    fn elsewhere(&mut self) -> Result<Work> {
        Ok(Work::default())
    }

    /// Whether nothing is under way on the devices, as far as anybody knows.
    fn is_at_rest(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Has written out what nobody has asked to be written yet, where that can be asked for.
    fn write_out(&mut self) {}

    /// Whether they are the server's beyond doubt.
    fn is_the_servers(&self) -> bool {
        false
    }

    /// Whose counters they are, in words.
    fn source(&self) -> String;
}
