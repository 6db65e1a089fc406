//! What the clients of one measured part did together. Atomics, because 64 threads count here while one looks.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tally_base::Histogram;

use crate::promise::Kind;

/// Counters of one measured part.
#[derive(Debug, Default)]
pub struct Meter {
    /// How long each request took, from sent to answered. Over a mounted directory: each system call.
    pub requests: Histogram,
    promises: AtomicU64,
    /// By what: a bit for each kind.
    kinds: AtomicU32,
    bytes: AtomicU64,
    items: AtomicU64,
}

/// What the reply to a request promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nothing: it changed nothing, or said that the change is not stable yet.
    Nothing,
    /// That the change, with so many bytes of content, is on stable storage.
    Durable(Kind, u64),
}

impl Meter {
    /// Runs a request and counts its time, and what its reply promises.
    pub fn time<T>(&self, promise: Promise, request: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let started = Instant::now();
        let answer = request()?;
        self.answered(promise, started.elapsed());
        Ok(answer)
    }

    /// Counts one request that was measured elsewhere.
    pub fn answered(&self, promise: Promise, took: Duration) {
        self.requests.record(took);
        if let Promise::Durable(kind, bytes) = promise {
            self.kinds.fetch_or(1 << kind as u32, Relaxed);
            self.promises.fetch_add(1, Relaxed);
            self.bytes.fetch_add(bytes, Relaxed);
        }
    }

    /// Counts items done: files, or pieces of a large one.
    pub fn done(&self, items: u64) {
        self.items.fetch_add(items, Relaxed);
    }

    /// Items done.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items.load(Relaxed)
    }

    /// Replies that promised durability.
    #[must_use]
    pub fn promises(&self) -> u64 {
        self.promises.load(Relaxed)
    }

    /// Kinds of requests that promised it.
    #[must_use]
    pub fn kinds(&self) -> Vec<Kind> {
        let kinds = self.kinds.load(Relaxed);
        Kind::ALL.into_iter().filter(|kind| kinds & 1 << *kind as u32 != 0).collect()
    }

    /// Bytes of content that were promised to be durable.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}
