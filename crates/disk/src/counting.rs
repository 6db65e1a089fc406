//! A disk that counts what passes through it, and how long that takes: the source of `iostat`, and of every claim about
//! device work. Times are read from the system's clock, whatever clock the pool has: they decide nothing.
//!
//! It also knows how long the disk has owed an answer. A disk that hangs fails nothing: whoever waits for it waits,
//! with locks held perhaps, and nothing is counted. So each request writes down when it began, in a place that can be
//! looked at without any lock.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tally_base::Histogram;

use crate::device::Device;
use crate::turns::Asked;
use crate::{AlignedBuf, Disk, Durability, Geometry, Turns};

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

/// What a request does, as far as its latency goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// A read.
    Read,
    /// A write that may stay in the disk's cache.
    Write,
    /// A write that is on stable storage when it returns.
    DurableWrite,
    /// A flush of the cache.
    Flush,
}

impl IoKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::DurableWrite, Self::Flush];
}

/// Requests of one kind: how long they took, and how many the disk has now.
#[derive(Debug, Default)]
pub struct IoTimes {
    /// How long those took that have returned.
    pub latency: Histogram,
    /// How many there were of each doubling of bytes; a flush has none.
    by_size: [AtomicU64; SIZE_STEPS],
    active: AtomicU64,
    slow: AtomicU64,
}

/// Doublings of a request's bytes that are told apart: those up to below 16 MiB, and all above.
const SIZE_STEPS: usize = 25;

/// A request that takes so long is slow, and is counted as such: ten times what a hard disk takes that seeks for many, and a small part of
/// what it is waited for before it is left.
const SLOW_MIN: Duration = Duration::from_secs(1);

impl IoTimes {
    /// Requests that have not returned yet.
    #[must_use]
    pub fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    /// Counts by the most bytes of a doubling, those that there were; in ascending order.
    #[must_use]
    pub fn sizes(&self) -> Vec<(u64, u64)> {
        let counts =
            self.by_size.iter().enumerate().map(|(step, count)| ((2 << step) - 1, count.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    fn of(&self, bytes: u64) -> &Self {
        add(&self.by_size[(bytes.max(1).ilog2() as usize).min(SIZE_STEPS - 1)], 1);
        self
    }

    fn run<T>(&self, followed: &Followed, request: impl FnOnce() -> T) -> T {
        self.active.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let place = followed.follow(began);
        let done = request();
        drop(place);
        let took = began.elapsed();
        self.latency.record(took);
        add(&self.slow, u64::from(took >= SLOW_MIN));
        self.active.fetch_sub(1, Ordering::Relaxed);
        done
    }
}

/// So many requests at once are followed; those on top are not. A disk that hangs has all of its oldest ones here.
const FOLLOWED_MAX: usize = 64;

/// When the requests began that have not returned yet.
struct Followed {
    opened: Instant,
    /// Nanoseconds since then, at least 1; 0 is a free place.
    began_ns: [AtomicU64; FOLLOWED_MAX],
}

/// A request's place. It is free again when the request has returned, or panicked.
struct Place<'a>(Option<&'a AtomicU64>);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(0, Ordering::Release);
        }
    }
}

impl Followed {
    fn new() -> Self {
        Self { opened: Instant::now(), began_ns: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    fn follow(&self, began: Instant) -> Place<'_> {
        let ns = self.ns_at(began).max(1);
        let take = |place: &&AtomicU64| place.compare_exchange(0, ns, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        Place(self.began_ns.iter().find(take))
    }

    fn oldest(&self) -> Option<Duration> {
        let began = self.began_ns.iter().map(|place| place.load(Ordering::Acquire)).filter(|ns| *ns > 0).min()?;
        Some(Duration::from_nanos(self.ns_at(Instant::now()).saturating_sub(began)))
    }

    fn ns_at(&self, moment: Instant) -> u64 {
        u64::try_from(moment.saturating_duration_since(self.opened).as_nanos()).unwrap_or(u64::MAX)
    }
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
    times: [IoTimes; 4],
    followed: Followed,
    pub(crate) devices: Vec<Arc<Device>>,
    turns: Turns,
}

impl CountingDisk {
    /// Counts from zero.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        let devices = Device::below(disk.as_ref());
        let (counters, followed, turns) = (Counters::default(), Followed::new(), Turns::on(&devices));
        Self { disk, counters, times: Default::default(), followed, devices, turns }
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

    /// How long requests of one kind take.
    #[must_use]
    pub fn times(&self, kind: IoKind) -> &IoTimes {
        &self.times[kind as usize]
    }

    /// Requests so far that took a second or longer. One that has not returned is none yet.
    #[must_use]
    pub fn slow_count(&self) -> u64 {
        self.times.iter().map(|times| times.slow.load(Ordering::Relaxed)).sum()
    }

    /// For how long the disk has owed the answer that is due longest; `None` if it owes none. Takes no lock.
    #[must_use]
    pub fn silent_for(&self) -> Option<Duration> {
        self.followed.oldest()
    }

    /// When a walk over the whole disk may ask for something.
    #[must_use]
    pub fn turns(&self) -> &Turns {
        &self.turns
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
        let _asked = Asked::now(&self.devices);
        self.note(self.times(IoKind::Read).of(buf.len() as u64).run(&self.followed, || self.disk.read(offset, buf)))
    }

    fn read_parts(&self, offset: u64, parts: &mut [AlignedBuf]) -> io::Result<()> {
        add(&self.counters.reads, 1);
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        add(&self.counters.read_bytes, bytes);
        let _asked = Asked::now(&self.devices);
        self.note(self.times(IoKind::Read).of(bytes).run(&self.followed, || self.disk.read_parts(offset, parts)))
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        add(&self.counters.writes, 1);
        add(&self.counters.write_bytes, buf.len() as u64);
        let kind = if durability == Durability::Durable { IoKind::DurableWrite } else { IoKind::Write };
        let _asked = Asked::now(&self.devices);
        let times = self.times(kind).of(buf.len() as u64);
        let outcome = self.note(times.run(&self.followed, || self.disk.write(offset, buf, durability)));
        add(&self.counters.durable_writes, u64::from(durability == Durability::Durable));
        outcome
    }

    fn flush(&self) -> io::Result<()> {
        let _asked = Asked::now(&self.devices);
        let outcome = self.note(self.times(IoKind::Flush).run(&self.followed, || self.disk.flush()));
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
