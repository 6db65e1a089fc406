//! A machine with faulty disks, and fixed numbers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tally_base::{Clock, Rng, Time};
use tally_disk::{Disk, Helpers, Host, Platform, SerialFanout};

use crate::{FaultyDisk, Journal, MemOpener};

/// Time that stands still.
struct StillClock;

impl Clock for StillClock {
    fn now(&self) -> Time {
        Time::new(1_700_000_000, 0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// Numbers that count up: guids are all different and every run is the same.
#[derive(Default)]
struct CountingRng(AtomicU64);

impl Rng for CountingRng {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.0.fetch_add(1, Ordering::SeqCst) + 0x1000;
            chunk.copy_from_slice(&number.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Some faulty disks under paths `/d/NAME`, and a machine to use them on.
pub struct World {
    /// Opens them.
    pub opener: Arc<MemOpener>,
    /// What all of them did.
    pub journal: Journal,
    /// The disks, by name.
    pub disks: Vec<(&'static str, Arc<FaultyDisk>)>,
    rng: Arc<CountingRng>,
}

impl World {
    /// Disks of these names and sizes.
    #[must_use]
    pub fn new(disks: &[(&'static str, u64)]) -> Self {
        let (opener, journal) = (Arc::new(MemOpener::default()), Journal::default());
        let disks: Vec<_> = disks.iter().map(|(name, size)| (*name, FaultyDisk::new(name, *size, &journal))).collect();
        for (name, disk) in &disks {
            opener.put(Path::new("/d").join(name), Arc::clone(disk) as Arc<dyn Disk>);
        }
        Self { opener, journal, disks, rng: Arc::default() }
    }

    /// The disk of that name.
    #[must_use]
    pub fn disk(&self, name: &str) -> &FaultyDisk {
        &self.disks.iter().find(|(known, _)| *known == name).expect("a disk of this world").1
    }

    /// Replaces the disk at a path.
    pub fn swap(&mut self, name: &str, disk: &Arc<FaultyDisk>) {
        self.opener.put(Path::new("/d").join(name), Arc::clone(disk) as Arc<dyn Disk>);
        for (known, place) in &mut self.disks {
            if *known == name {
                *place = Arc::clone(disk);
            }
        }
    }

    /// Only these disks can be opened from now on; their state otherwise stays.
    pub fn present(&self, names: &[&str]) {
        for (name, disk) in &self.disks {
            let path = Path::new("/d").join(name);
            if names.contains(name) {
                self.opener.put(path, Arc::clone(disk) as Arc<dyn Disk>);
            } else {
                self.opener.remove(&path);
            }
        }
    }

    /// What an engine is given in this world.
    #[must_use]
    pub fn platform(&self) -> Platform {
        Platform {
            clock: Arc::new(StillClock),
            rng: Arc::clone(&self.rng) as Arc<dyn Rng>,
            opener: Arc::clone(&self.opener) as Arc<dyn tally_disk::Opener>,
            fanout: Arc::new(SerialFanout),
            helpers: Helpers::Threads,
            host: Host { id: 7, name: "here".into() },
        }
    }
}
