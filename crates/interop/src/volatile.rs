//! Disks that lose at a kill what was not flushed.
//!
//! SIGKILL ends the server and spares the kernel's page cache, so that a server which never flushes anything
//! looks as good as one that does. Here the cache is the server's own memory: a cached write stays there until
//! the disk is flushed, and goes with the process; a durable write goes to the file at once. As a real disk
//! writes its cache out when it likes, a part of the cached sectors, chosen by the seed, reaches the file early,
//! in an order of its own, so that a crash finds any mixture of old and new.
//!
//! With durable writes treated as cached ones ([`Honesty::ForgetsDurable`]) the disk lies as some do, and the
//! ledger must notice: this is how the ledger itself is tested.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tally_disk::{Access, AlignedBuf, Disk, Durability, Geometry, Opener};

use crate::random::Random;

const SECTOR: usize = 4096;
/// Sectors that wait at most: beyond, a flush happens early, which a disk may do too.
const CACHED_SECTORS_MAX: usize = 64 << 20 >> 12;
/// Share of the cached sectors that is written out at once.
const EARLY_PERCENT: u64 = 30;

/// What a durable write is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Honesty {
    /// It is durable.
    Honest,
    /// It is lost like any other that was not flushed.
    ForgetsDurable,
}

/// A disk over another, with a cache that dies with the process.
pub struct VolatileDisk {
    below: Arc<dyn Disk>,
    honesty: Honesty,
    /// Guards the order of everything: a write and a flush never cross.
    state: Mutex<State>,
}

struct State {
    cached: BTreeMap<u64, Box<[u8; SECTOR]>>,
    random: Random,
}

impl VolatileDisk {
    /// Puts a cache above `below`.
    #[must_use]
    pub fn new(below: Arc<dyn Disk>, honesty: Honesty, random: Random) -> Self {
        Self { below, honesty, state: Mutex::new(State { cached: BTreeMap::new(), random }) }
    }

    /// Sectors that a kill would lose now.
    #[must_use]
    pub fn cached_sectors(&self) -> usize {
        self.lock().cached.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_out(&self, state: &mut State) -> io::Result<()> {
        // One write for each run of neighbours.
        let mut run = AlignedBuf::with_capacity(SECTOR);
        let mut start = 0;
        for (sector, bytes) in &state.cached {
            if !run.is_empty() && start + (run.len() / SECTOR) as u64 != *sector {
                self.below.write(start * SECTOR as u64, &run, Durability::Cached)?;
                run.clear();
            }
            if run.is_empty() {
                start = *sector;
            }
            run.extend_from_slice(&bytes[..]);
        }
        if !run.is_empty() {
            self.below.write(start * SECTOR as u64, &run, Durability::Cached)?;
        }
        state.cached.clear();
        Ok(())
    }
}

impl Disk for VolatileDisk {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let state = self.lock();
        self.below.read(offset, buf)?;
        let first = offset / SECTOR as u64;
        let count = (buf.len() / SECTOR) as u64;
        for (sector, bytes) in state.cached.range(first..first + count) {
            let at = (sector - first) as usize * SECTOR;
            buf[at..at + SECTOR].copy_from_slice(&bytes[..]);
        }
        Ok(())
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        let mut state = self.lock();
        let first = offset / SECTOR as u64;
        if durability == Durability::Durable && self.honesty == Honesty::Honest {
            self.below.write(offset, buf, Durability::Cached)?;
            // Older cached bytes must not cover the new ones at the next flush.
            for index in 0..(buf.len() / SECTOR) as u64 {
                state.cached.remove(&(first + index));
            }
            return Ok(());
        }
        // Never trust a caller's range: the disk below judges it, also for what only goes to the cache.
        if offset + buf.len() as u64 > self.below.geometry().size {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a write beyond the end of the disk"));
        }
        for (sector, bytes) in (first..).zip(buf.chunks_exact(SECTOR)) {
            if state.random.chance(EARLY_PERCENT) {
                self.below.write(sector * SECTOR as u64, bytes, Durability::Cached)?;
                state.cached.remove(&sector);
            } else {
                let mut kept = Box::new([0; SECTOR]);
                kept.copy_from_slice(bytes);
                state.cached.insert(sector, kept);
            }
        }
        if state.cached.len() > CACHED_SECTORS_MAX {
            self.write_out(&mut state)?;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.write_out(&mut self.lock())
    }

    fn discard(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Ok(())
    }

    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn devices(&self) -> Vec<u64> {
        self.below.devices()
    }
}

/// Opens volatile disks over those of another opener.
pub struct VolatileOpener {
    below: Arc<dyn Opener>,
    honesty: Honesty,
    seed: u64,
}

impl VolatileOpener {
    /// Over `below`.
    #[must_use]
    pub fn new(below: Arc<dyn Opener>, honesty: Honesty, seed: u64) -> Self {
        Self { below, honesty, seed }
    }
}

impl Opener for VolatileOpener {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Disk>> {
        let below = self.below.open(path, access)?;
        let stream = path.as_os_str().len() as u64;
        Ok(Arc::new(VolatileDisk::new(below, self.honesty, Random::new(self.seed, stream))))
    }

    fn create(&self, path: &Path, size: u64, prewrite: bool, progress: &mut dyn FnMut(u64) -> bool) -> io::Result<()> {
        self.below.create(path, size, prewrite, progress)
    }
}
