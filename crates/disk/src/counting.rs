//! A disk that counts what passes through it: the source of `iostat`, and of every claim about device work.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Disk, Durability, Geometry};

/// What a disk was asked to do since it was opened. Requests that failed are counted too, and again in `errors`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Reads.
    pub reads: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Writes, cached and durable.
    pub writes: u64,
    /// Bytes of the writes.
    pub write_bytes: u64,
    /// Those of the writes that were durable, counted when they are done: a count that is seen is a disk's answer.
    pub durable_writes: u64,
    /// Flushes, counted when they are done.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Requests of any kind that failed.
    pub errors: u64,
}

#[derive(Default)]
struct Counters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    write_bytes: AtomicU64,
    durable_writes: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
    errors: AtomicU64,
}

/// Counts the requests to another disk.
pub struct CountingDisk {
    disk: Arc<dyn Disk>,
    counters: Counters,
}

impl CountingDisk {
    /// Counts from zero.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, counters: Counters::default() }
    }

    /// The counts now. Each is exact; together they are not one moment's picture.
    #[must_use]
    pub fn counts(&self) -> IoCounts {
        let counters = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        IoCounts {
            reads: read(&counters.reads),
            read_bytes: read(&counters.read_bytes),
            writes: read(&counters.writes),
            write_bytes: read(&counters.write_bytes),
            durable_writes: read(&counters.durable_writes),
            flushes: read(&counters.flushes),
            discards: read(&counters.discards),
            errors: read(&counters.errors),
        }
    }

    fn note<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        if outcome.is_err() {
            add(&self.counters.errors, 1);
        }
        outcome
    }
}

impl Disk for CountingDisk {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        add(&self.counters.reads, 1);
        add(&self.counters.read_bytes, buf.len() as u64);
        self.note(self.disk.read(offset, buf))
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        add(&self.counters.writes, 1);
        add(&self.counters.write_bytes, buf.len() as u64);
        let outcome = self.note(self.disk.write(offset, buf, durability));
        add(&self.counters.durable_writes, u64::from(durability == Durability::Durable));
        outcome
    }

    fn flush(&self) -> io::Result<()> {
        let outcome = self.note(self.disk.flush());
        add(&self.counters.flushes, 1);
        outcome
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        add(&self.counters.discards, 1);
        self.note(self.disk.discard(offset, length))
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
