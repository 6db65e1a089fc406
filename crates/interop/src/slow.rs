//! Disks that are slower than the machine's own, under the real server: for benchmarks of what a server does
//! with a slow device, on a machine that has none.
//!
//! A paced disk takes a fixed time for a durable write and for a flush, and does one at a time, as a disk
//! without a queue does; cached writes and reads pass by at the speed of what is below. A turning disk takes that time
//! for everything, cached writes and reads as well: a disk that has to seek, and whose bandwidth is what is written at
//! once. A held disk answers no
//! flush and no durable write while a file exists: a pool on one takes writes, and finishes no transaction
//! group, so that the log grows as long as the limit on dirty memory allows.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tally_disk::{Access, Disk, Durability, Geometry, Opener};

/// How often a held disk looks whether it may go on.
const GATE_INTERVAL: Duration = Duration::from_millis(50);

/// What is done to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slowness {
    /// A durable write and a flush take at least so long, one after the other.
    Paced(Duration),
    /// Every read, write and flush takes at least so long, one after the other.
    Turning(Duration),
    /// No durable write and no flush begins while there is a file at this path.
    HeldWhile(PathBuf),
}

/// A disk over another, slower by rule.
pub struct SlowDisk {
    below: Arc<dyn Disk>,
    slowness: Slowness,
    /// The device: who holds it is being served.
    device: Mutex<()>,
}

impl SlowDisk {
    /// Slows `below` down.
    #[must_use]
    pub fn new(below: Arc<dyn Disk>, slowness: Slowness) -> Self {
        Self { below, slowness, device: Mutex::new(()) }
    }

    /// What passes by at the speed of what is below, unless the disk turns.
    fn quickly<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if matches!(self.slowness, Slowness::Turning(_)) { self.slowly(act) } else { act() }
    }

    fn slowly<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match &self.slowness {
            Slowness::Paced(least) | Slowness::Turning(least) => {
                let _served = self.device.lock().unwrap_or_else(PoisonError::into_inner);
                let started = Instant::now();
                let outcome = act();
                std::thread::sleep(least.saturating_sub(started.elapsed()));
                outcome
            }
            Slowness::HeldWhile(gate) => {
                while gate.exists() {
                    std::thread::sleep(GATE_INTERVAL);
                }
                act()
            }
        }
    }
}

impl Disk for SlowDisk {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.quickly(|| self.below.read(offset, buf))
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        match durability {
            Durability::Cached => self.quickly(|| self.below.write(offset, buf, durability)),
            Durability::Durable => self.slowly(|| self.below.write(offset, buf, durability)),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.slowly(|| self.below.flush())
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
