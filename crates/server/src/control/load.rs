//! A recorded load, as it crosses the control socket: one row of numbers for each request, since there may be a hundred
//! thousand.

use serde::{Deserialize, Serialize};

/// What clients sent in some seconds, for `tally advise` to play again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedLoad {
    /// For how long it was recorded, which is less than was asked for where it ended early.
    pub seconds: f64,
    /// Whether it ended early because there was no room for more.
    pub is_full: bool,
    /// Kinds of call, by their place.
    pub kinds: Vec<String>,
    /// Requests in the order of their replies.
    pub events: Vec<LoadEvent>,
}

/// Who kept a request's promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u8", from = "u8")]
pub enum KeptBy {
    /// It needed no keeping.
    #[default]
    Nobody,
    /// The intent log.
    Log,
    /// A transaction group.
    Group,
}

impl From<KeptBy> for u8 {
    fn from(by: KeptBy) -> Self {
        by as Self
    }
}

impl From<u8> for KeptBy {
    fn from(number: u8) -> Self {
        match number {
            1 => Self::Log,
            2 => Self::Group,
            _ => Self::Nobody,
        }
    }
}

/// One request. Times are nanoseconds, and parts that do not overlap, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct LoadEvent {
    /// A number that no two connections have.
    pub connection: u64,
    /// When it was read, since the beginning.
    pub read_ns: u64,
    /// Until a worker began.
    pub queue_ns: u64,
    /// Until the outcome was there.
    pub work_ns: u64,
    /// Until that was durable.
    pub wait_ns: u64,
    /// Of that, in the device.
    pub device_ns: u64,
    /// Until the socket had the reply.
    pub reply_ns: u64,
    /// Bytes of log records.
    pub record_bytes: u64,
    /// Their part of the frame.
    pub frame_bytes: u64,
    /// Who kept the promise.
    pub by: KeptBy,
    /// Which call, a place in [`RecordedLoad::kinds`].
    pub kind: u64,
}

impl LoadEvent {
    /// When the socket had the reply.
    #[must_use]
    pub const fn sent_ns(&self) -> u64 {
        self.read_ns + self.queue_ns + self.work_ns + self.wait_ns + self.reply_ns
    }
}

type Row = (u64, u64, u64, u64, u64, u64, u64, u64, u64, KeptBy, u64);

impl From<Row> for LoadEvent {
    fn from(row: Row) -> Self {
        Self {
            connection: row.0,
            read_ns: row.1,
            queue_ns: row.2,
            work_ns: row.3,
            wait_ns: row.4,
            device_ns: row.5,
            reply_ns: row.6,
            record_bytes: row.7,
            frame_bytes: row.8,
            by: row.9,
            kind: row.10,
        }
    }
}

impl From<LoadEvent> for Row {
    fn from(event: LoadEvent) -> Self {
        (
            event.connection,
            event.read_ns,
            event.queue_ns,
            event.work_ns,
            event.wait_ns,
            event.device_ns,
            event.reply_ns,
            event.record_bytes,
            event.frame_bytes,
            event.by,
            event.kind,
        )
    }
}
