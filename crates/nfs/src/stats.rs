//! What the server counts: calls, errors and where the time of each procedure goes. Plain atomics, written
//! without locks and read at any time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tally_base::Histogram;

use crate::v3::{PROCEDURE_COUNT, Procedure};

/// One procedure.
#[derive(Debug, Default)]
pub struct ProcedureStats {
    /// Calls that were carried out.
    pub calls: AtomicU64,
    /// Those that did not answer OK.
    pub errors: AtomicU64,
    /// From the start of the work to its outcome, without waiting.
    pub execute: Histogram,
    /// Until what the reply rests on was durable.
    pub wait: Histogram,
    /// From there until the socket had the reply.
    pub send: Histogram,
}

/// The whole server.
#[derive(Debug)]
pub struct Stats {
    procedures: Box<[ProcedureStats]>,
    /// MOUNT, all procedures together.
    pub mount: ProcedureStats,
    /// Modifying requests, from their last byte read to the reply handed to the socket, less the time that the
    /// working thread itself spent in the device.
    pub own: Histogram,
    /// The same with the device.
    pub whole: Histogram,
    /// Calls of programs, versions and procedures that we lack, garbage, and bad credentials.
    pub refused: AtomicU64,
    /// Retransmissions that were answered from memory or attached.
    pub retransmissions: AtomicU64,
    /// Requests run again after the file system refused admission.
    pub throttled: AtomicU64,
    /// Operations that panicked.
    pub panics: AtomicU64,
    /// Connections that are open.
    pub connections: AtomicU64,
    /// Connections refused because there were too many.
    pub connections_refused: AtomicU64,
    /// Replies that waited in the thread that did the work.
    pub driven: AtomicU64,
    /// Replies that were sent by a callback.
    pub handed_over: AtomicU64,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            procedures: (0..PROCEDURE_COUNT).map(|_| ProcedureStats::default()).collect(),
            mount: ProcedureStats::default(),
            own: Histogram::default(),
            whole: Histogram::default(),
            refused: AtomicU64::default(),
            retransmissions: AtomicU64::default(),
            throttled: AtomicU64::default(),
            panics: AtomicU64::default(),
            connections: AtomicU64::default(),
            connections_refused: AtomicU64::default(),
            driven: AtomicU64::default(),
            handed_over: AtomicU64::default(),
        }
    }
}

impl Stats {
    /// One procedure of NFSv3.
    #[must_use]
    pub fn procedure(&self, procedure: Procedure) -> &ProcedureStats {
        &self.procedures[procedure.number() as usize]
    }
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
