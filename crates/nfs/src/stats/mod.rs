//! What the server counts: calls, errors and where the time of each procedure goes, and of each operation of version 4. Plain atomics, written
//! without locks and read at any time.

pub mod accounts;
mod kind;
mod operation;
pub mod recorder;
mod times;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tally_base::Histogram;

pub use kind::{KIND_COUNT, Kind};
pub use operation::Operation;
pub use times::Times;

use accounts::{Accounts, Newest, Paid, Payer};
use operation::OPERATION_COUNT;
use recorder::{Event, Recorder};

/// One kind of call, or operation of compounds.
#[derive(Debug, Default)]
pub struct KindStats {
    /// Calls that were carried out.
    pub calls: AtomicU64,
    /// Those that did not answer OK.
    pub errors: AtomicU64,
    /// Bytes of file content that they brought or took.
    pub data_bytes: AtomicU64,
    /// From the start of the work to its outcome, without waiting.
    pub execute: Histogram,
    /// Until what the reply rests on was durable. Of operations those alone that had their compound wait.
    pub wait: Histogram,
}

/// What an operation of a compound took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// Whether it was told `NFS4_OK`.
    pub(crate) ok: bool,
    /// Bytes of file content that it brought or took.
    pub(crate) data_bytes: u64,
    /// From the end of the one before it to its outcome, in the (last) attempt.
    pub(crate) work: Duration,
}

/// The whole server.
#[derive(Debug)]
pub struct Stats {
    start: Instant,
    kinds: Box<[KindStats]>,
    operations: Box<[KindStats]>,
    /// Who called, and about what.
    pub accounts: Accounts,
    /// Everything they did, while somebody asks for it.
    pub recorder: Recorder,
    /// MOUNT, all procedures together.
    pub mount: KindStats,
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
    /// Connections closed because they held too much, for too long, or a place that others needed.
    pub connections_dismissed: AtomicU64,
    /// Calls that were made to clients.
    pub calls_made: AtomicU64,
    /// Replies to no call of ours.
    pub replies_unmatched: AtomicU64,
    /// Replies that waited in the thread that did the work.
    pub driven: AtomicU64,
    /// Replies that were sent by a callback.
    pub handed_over: AtomicU64,
    /// Turns of workers that had more to do and offered their processor to those who wait in a device.
    pub processors_offered: AtomicU64,
    /// Who is asked what all connections hold, once there is a server.
    pub(crate) holder: Mutex<Option<Arc<dyn Holder>>>,
}

/// Memory that requests and replies hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Requests that can be carried out.
    pub work_bytes: usize,
    /// What waits for peers.
    pub debt_bytes: usize,
}

/// Who knows what is held: the server's account.
pub(crate) trait Holder: std::fmt::Debug + Send + Sync {
    /// What it holds now.
    fn held(&self) -> Held;
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            kinds: (0..KIND_COUNT).map(|_| KindStats::default()).collect(),
            operations: (0..OPERATION_COUNT).map(|_| KindStats::default()).collect(),
            accounts: Accounts::default(),
            recorder: Recorder::default(),
            mount: KindStats::default(),
            own: Histogram::default(),
            whole: Histogram::default(),
            refused: AtomicU64::default(),
            retransmissions: AtomicU64::default(),
            throttled: AtomicU64::default(),
            panics: AtomicU64::default(),
            connections: AtomicU64::default(),
            connections_refused: AtomicU64::default(),
            connections_dismissed: AtomicU64::default(),
            holder: Mutex::default(),
            calls_made: AtomicU64::default(),
            replies_unmatched: AtomicU64::default(),
            driven: AtomicU64::default(),
            handed_over: AtomicU64::default(),
            processors_offered: AtomicU64::default(),
        }
    }
}

impl Stats {
    /// What requests and replies hold now.
    #[must_use]
    pub fn held(&self) -> Held {
        self.holder.lock().as_ref().map_or(Held::default(), |holder| holder.held())
    }

    /// Enters an answered request, wherever it counts. `connection` is the one on which it came, and its newest account.
    pub(crate) fn enter(&self, connection: (u64, &Newest), payer: Payer, paid: &Paid, times: Times) {
        let counted = self.kind(paid.kind);
        count(&counted.calls);
        if !paid.ok {
            count(&counted.errors);
        }
        counted.execute.record(paid.work);
        add(&counted.data_bytes, paid.data_bytes);
        counted.wait.record(paid.wait);
        if paid.kind.modifies() {
            let whole = paid.queue + paid.work + paid.wait + paid.reply;
            self.whole.record(whole);
            self.own.record(whole.saturating_sub(times.in_device));
        }
        let second = times.wait_ended.saturating_duration_since(self.start).as_secs();
        self.accounts.enter(connection.1, payer, paid, second);
        self.recorder.note(|| Event { connection: connection.0, read_at: times.read_at, paid: *paid });
    }

    /// For how long it has counted.
    #[must_use]
    pub fn since(&self) -> Duration {
        self.start.elapsed()
    }

    /// One kind of call.
    #[must_use]
    pub fn kind(&self, kind: Kind) -> &KindStats {
        &self.kinds[kind.index()]
    }

    /// One operation of compounds.
    #[must_use]
    pub fn operation(&self, operation: Operation) -> &KindStats {
        &self.operations[operation.index()]
    }

    /// An operation of a compound was carried out, whose results may be cut yet.
    pub(crate) fn enter_operation(&self, operation: Operation, done: Done) {
        let counted = self.operation(operation);
        count(&counted.calls);
        if !done.ok {
            count(&counted.errors);
        }
        add(&counted.data_bytes, done.data_bytes);
        counted.execute.record(done.work);
    }
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}
