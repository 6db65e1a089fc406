//! A disk that fails, rots and keeps a journal.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tally_disk::{Disk, Durability, Geometry};

use crate::MemDisk;

/// What a disk was asked to do, in order over all disks that share the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub disk: &'static str,
    /// Where, bytes.
    pub offset: u64,
    /// How it was to be kept.
    pub durability: Durability,
}

/// What disks did, the oldest first.
pub type Journal = Arc<Mutex<Vec<Entry>>>;

/// A disk with bad habits, all off at first.
pub struct FaultyDisk {
    name: &'static str,
    inner: MemDisk,
    journal: Journal,
    /// All reads fail.
    pub reads_fail: AtomicBool,
    /// All writes fail.
    pub writes_fail: AtomicBool,
    /// What a write that fails was to write is read all the same, until [`Self::lose_refused`].
    pub refused_is_read: AtomicBool,
    /// What stood where such writes were to go, the oldest first.
    refused: Mutex<Vec<(u64, Vec<u8>)>>,
    /// All flushes fail.
    pub flushes_fail: AtomicBool,
    /// After this many further writes all of them fail; `u64::MAX` is never.
    pub writes_left: AtomicU64,
    /// Offsets of sectors that cannot be read until they are written: a drive maps them elsewhere then.
    bad_sectors: Mutex<BTreeSet<u64>>,
    /// How often it was flushed.
    pub flush_count: AtomicU64,
}

impl FaultyDisk {
    /// One full of zeroes.
    #[must_use]
    pub fn new(name: &'static str, size: u64, journal: &Journal) -> Arc<Self> {
        Self::over(name, MemDisk::new(size), journal)
    }

    /// The same content in another disk: what a copy made at this moment would be.
    pub fn copy(&self) -> Arc<Self> {
        Self::over(self.name, MemDisk::from_bytes(&self.inner.content()), &self.journal)
    }

    fn over(name: &'static str, inner: MemDisk, journal: &Journal) -> Arc<Self> {
        Arc::new(Self {
            name,
            inner,
            journal: Arc::clone(journal),
            reads_fail: AtomicBool::new(false),
            writes_fail: AtomicBool::new(false),
            refused_is_read: AtomicBool::new(false),
            refused: Mutex::default(),
            flushes_fail: AtomicBool::new(false),
            writes_left: AtomicU64::new(u64::MAX),
            bad_sectors: Mutex::default(),
            flush_count: AtomicU64::new(0),
        })
    }

    /// Turns one of its habits on or off.
    pub fn set(switch: &AtomicBool, on: bool) {
        switch.store(on, Ordering::SeqCst);
    }

    /// Inverts every byte of a sector.
    pub fn rot(&self, offset: u64) {
        let mut sector = [0; 4096];
        self.inner.read(offset, &mut sector).unwrap();
        self.inner.write(offset, &sector.map(|byte| !byte), Durability::Cached).unwrap();
    }

    /// A sector that cannot be read from now on, until it is written.
    pub fn make_bad(&self, offset: u64) {
        self.bad_sectors.lock().insert(offset);
    }

    /// The power goes: what was refused is not there.
    pub fn lose_refused(&self) {
        for (offset, before) in self.refused.lock().drain(..).rev() {
            self.inner.write(offset, &before, Durability::Cached).unwrap();
        }
    }

    /// What it has there, whatever its habits.
    #[must_use]
    pub fn bytes(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.inner.read(offset, &mut bytes).unwrap();
        bytes
    }
}

impl Disk for FaultyDisk {
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if self.reads_fail.load(Ordering::SeqCst) {
            return Err(io::Error::other("a read that fails on request"));
        }
        if self.bad_sectors.lock().range(offset..offset + buf.len() as u64).next().is_some() {
            return Err(io::Error::other("a sector that cannot be read"));
        }
        self.inner.read(offset, buf)
    }

    fn write(&self, offset: u64, buf: &[u8], durability: Durability) -> io::Result<()> {
        let left = self.writes_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
            u64::MAX => Some(left),
            _ => left.checked_sub(1),
        });
        if self.writes_fail.load(Ordering::SeqCst) || left.is_err() {
            if self.refused_is_read.load(Ordering::SeqCst) {
                self.refused.lock().push((offset, self.bytes(offset, buf.len())));
                self.inner.write(offset, buf, durability)?;
            }
            return Err(io::Error::other("a write that fails on request"));
        }
        // What is taken is no longer what was refused.
        let end = offset + buf.len() as u64;
        self.refused.lock().retain(|(at, before)| *at < offset || at + before.len() as u64 > end);
        self.journal.lock().push(Entry { disk: self.name, offset, durability });
        self.bad_sectors.lock().retain(|bad| !(offset..offset + buf.len() as u64).contains(bad));
        self.inner.write(offset, buf, durability)
    }

    fn flush(&self) -> io::Result<()> {
        if self.flushes_fail.load(Ordering::SeqCst) {
            return Err(io::Error::other("a flush that fails on request"));
        }
        self.flush_count.fetch_add(1, Ordering::SeqCst);
        self.inner.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.inner.discard(offset, length)
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
}
