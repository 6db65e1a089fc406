//! A vdev's data area in memory.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use tally_base::SECTOR;
use tally_disk::AlignedBuf;
use tally_members::blockdev::{BlockDev, BlockDevError};

/// A device in memory, which counts what is done to it and fails on request.
pub struct MemBlockDev {
    bytes: RwLock<Vec<u8>>,
    writes_fail: AtomicBool,
    reads_refused: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
}

impl MemBlockDev {
    /// A device of `data_bytes` zeroes, rounded down to whole sectors.
    #[must_use]
    pub fn new(data_bytes: u64) -> Self {
        let size = usize::try_from(data_bytes).expect("a device in memory fits into memory") / SECTOR * SECTOR;
        Self {
            bytes: RwLock::new(vec![0; size]),
            writes_fail: AtomicBool::new(false),
            reads_refused: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        }
    }

    /// Inverts `length` bytes at `offset`: rot.
    pub fn rot(&self, offset: u64, length: usize) {
        let start = usize::try_from(offset).expect("an offset in memory");
        for byte in &mut self.bytes.write()[start..start + length] {
            *byte = !*byte;
        }
    }

    /// Makes the device larger; what is new is zero.
    pub fn grow(&self, data_bytes: u64) {
        let size = usize::try_from(data_bytes).expect("a device in memory fits into memory") / SECTOR * SECTOR;
        let mut bytes = self.bytes.write();
        assert!(size >= bytes.len(), "a device does not shrink");
        bytes.resize(size, 0);
    }

    /// From now on writes fail, or work again.
    pub fn fail_writes(&self, fail: bool) {
        self.writes_fail.store(fail, Ordering::Relaxed);
    }

    /// So many reads are refused from now on, and then no more.
    pub fn refuse_reads(&self, count: u64) {
        self.reads_refused.store(count, Ordering::Relaxed);
    }

    /// Number of reads so far.
    pub fn read_count(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Number of writes so far.
    pub fn write_count(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Bytes written so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    fn range(&self, offset: u64, length: usize) -> Result<std::ops::Range<usize>, BlockDevError> {
        assert!(offset.is_multiple_of(SECTOR as u64), "offset {offset} is not a whole sector");
        assert!(length.is_multiple_of(SECTOR), "length {length} is not a whole sector");
        let data_bytes = self.data_bytes();
        let out_of_range = || BlockDevError::OutOfRange { data_bytes };
        let start = usize::try_from(offset).map_err(|_| out_of_range())?;
        let end = start.checked_add(length).ok_or_else(out_of_range)?;
        if end as u64 > data_bytes { Err(out_of_range()) } else { Ok(start..end) }
    }
}

impl BlockDev for MemBlockDev {
    fn data_bytes(&self) -> u64 {
        self.bytes.read().len() as u64
    }

    fn read(&self, offset: u64, length: usize, verify: &dyn Fn(&[u8]) -> bool) -> Result<AlignedBuf, BlockDevError> {
        let range = self.range(offset, length)?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        let one_less = |left: u64| left.checked_sub(1);
        if self.reads_refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            return Err(io::Error::other("reads were told to fail").into());
        }
        let mut buf = AlignedBuf::with_capacity(length);
        buf.extend_from_slice(&self.bytes.read()[range]);
        if verify(&buf) { Ok(buf) } else { Err(BlockDevError::NoGoodCopy) }
    }

    fn write(&self, offset: u64, buf: &[u8]) -> Result<(), BlockDevError> {
        let range = self.range(offset, buf.len())?;
        if self.writes_fail.load(Ordering::Relaxed) {
            return Err(io::Error::other("writes were told to fail").into());
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.bytes.write()[range].copy_from_slice(buf);
        Ok(())
    }

    fn flush(&self) -> Result<(), BlockDevError> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        let length =
            usize::try_from(length).map_err(|_| BlockDevError::OutOfRange { data_bytes: self.data_bytes() })?;
        self.range(offset, length).map(|_| ())
    }
}
