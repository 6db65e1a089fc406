//! Disks that are slower than the machine's own, under the real server: for benchmarks of what a server does
//! with a slow device, on a machine that has none.
//!
//! A paced disk takes a fixed time for a durable write and for a flush, and does one at a time, as a disk
//! without a queue does; cached writes and reads pass by at the speed of what is below. A turning disk takes that time
//! for everything, reads and cached writes too: it has to seek, and its bandwidth is what is written at once. A queued disk
//! does that as well, and several at once, as a disk at the far end of a network does, or one with a queue: who waits for
//! one after the other gets little out of it, who asks ahead gets a lot. A held disk answers no flush and no durable write
//! while a file exists: a pool on one takes writes, and finishes no transaction group, so that the log grows as long as the
//! limit on dirty memory allows.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tally_disk::{Access, AlignedBuf, Disk, Durability, Geometry, Opener};

/// How often a held disk looks whether it may go on.
const GATE_INTERVAL: Duration = Duration::from_millis(50);
/// Requests that a queued disk does at once.
const QUEUE_DEPTH: usize = 10;
/// Bytes of a request that a queued disk does in one time: a longer one takes several, as the kernel would cut it up.
const QUEUED_BYTES_MAX: usize = 1 << 20;

/// What is done to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slowness {
    /// A durable write and a flush take at least so long, one after the other.
    Paced(Duration),
    /// Whatever it is takes at least so long, one after the other.
    Turning(Duration),
    /// Whatever it is takes at least so long for each mebibyte that it begins, ten at once.
    Queued(Duration),
    /// No durable write and no flush begins while there is a file at this path.
    HeldWhile(PathBuf),
}

/// A disk over another, slower by rule.
pub struct SlowDisk {
    below: Arc<dyn Disk>,
    slowness: Slowness,
    /// Requests that the device is busy with.
    under_way: Mutex<usize>,
    /// One of them has ended.
    ended: Condvar,
}

impl SlowDisk {
    /// Slows `below` down.
    #[must_use]
    pub fn new(below: Arc<dyn Disk>, slowness: Slowness) -> Self {
        Self { below, slowness, under_way: Mutex::new(0), ended: Condvar::new() }
    }

    /// What makes writes durable.
    fn durably(&self, length: usize, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match &self.slowness {
            Slowness::Paced(least) => self.served(1, *least, act),
            Slowness::Turning(_) | Slowness::Queued(_) => self.passing(length, act),
            Slowness::HeldWhile(gate) => {
                while gate.exists() {
                    std::thread::sleep(GATE_INTERVAL);
                }
                act()
            }
        }
    }

    /// What only a turning disk and a queued one take their time for.
    fn passing(&self, length: usize, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match self.slowness {
            Slowness::Turning(least) => self.served(1, least, act),
            Slowness::Queued(each) => {
                let times = u32::try_from(length.div_ceil(QUEUED_BYTES_MAX)).unwrap_or(u32::MAX);
                self.served(QUEUE_DEPTH, each.saturating_mul(times.max(1)), act)
            }
            Slowness::Paced(_) | Slowness::HeldWhile(_) => act(),
        }
    }

    fn served(&self, depth: usize, least: Duration, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        *self.ended.wait_while(under_way, |count| *count >= depth).unwrap_or_else(PoisonError::into_inner) += 1;
        let started = Instant::now();
        let outcome = act();
        std::thread::sleep(least.saturating_sub(started.elapsed()));
        *self.under_way.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.ended.notify_one();
        outcome
    }
}

impl Disk for SlowDisk {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let length = buf.len();
        self.passing(length, || self.below.read(offset, buf))
    }

    fn read_parts(&self, offset: u64, parts: &mut [AlignedBuf]) -> io::Result<()> {
        let length = parts.iter().map(|part| part.len()).sum();
        self.passing(length, || self.below.read_parts(offset, parts))
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        let write = || self.below.write(offset, buf, durability);
        match durability {
            Durability::Cached => self.passing(buf.len(), write),
            Durability::Durable => self.durably(buf.len(), write),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.durably(0, || self.below.flush())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.below.discard(offset, length)
    }

    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn devices(&self) -> Vec<u64> {
        self.below.devices()
    }
}

/// Opens disks of another opener, and slows down those whose file name has a rule.
pub struct SlowOpener {
    below: Arc<dyn Opener>,
    rules: Vec<(String, Slowness)>,
}

impl SlowOpener {
    /// Over `below`; rules by file name.
    #[must_use]
    pub fn new(below: Arc<dyn Opener>, rules: Vec<(String, Slowness)>) -> Self {
        Self { below, rules }
    }
}

impl Opener for SlowOpener {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Disk>> {
        let below = self.below.open(path, access)?;
        let rule = self.rules.iter().find(|(name, _)| path.file_name().is_some_and(|file| file == name.as_str()));
        Ok(match rule {
            Some((_, slowness)) => Arc::new(SlowDisk::new(below, slowness.clone())),
            None => below,
        })
    }

    fn create(&self, path: &Path, size: u64, prewrite: bool, progress: &mut dyn FnMut(u64) -> bool) -> io::Result<()> {
        self.below.create(path, size, prewrite, progress)
    }
}
