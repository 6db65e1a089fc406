//! Runs: thousands of small blocks reach the disk as a few long writes.
//!
//! A writer reserves a contiguous run of up to 1 MiB, places each block behind the one before, and writes the run
//! when it is full. A block's pointer is known at once, since its place and checksum are; so a parent can be built
//! while its children are still in memory. All kinds of blocks share a run: what is written together in a txg lies
//! together. What a run did not need goes back to the allocator, whose cursor goes back with it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tally_base::codec::Put;
use tally_base::{BlockChecksum, LongWork, SECTOR, Txg, block_checksum};
use tally_disk::AlignedBuf;

use crate::alloc::{AllocRoot, Allocator, UNBORN};
use crate::block::scatter::Place;
use crate::block::{BlockError, NoSpace, seal};
use crate::bp::{BLOCK_BYTES_MAX, BlockKind, BlockPtr, Coding, Compression, Dva};
use crate::io::BlockIo;

/// Length of a run: long enough that a disk spends its time writing and not seeking, short enough that a log on
/// the same disk does not wait long (rules P3).
const RUN_BYTES: u64 = 1 << 20;

/// What a writer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteStats {
    /// Blocks put.
    pub block_count: u64,
    /// Their bytes before compression.
    pub logical_bytes: u64,
    /// Bytes that they take on disk.
    pub allocated_bytes: u64,
    /// Device writes.
    pub write_count: u64,
}

/// Writes blocks of one txg. Not shared between threads: each makes its own. Blocks reach their device when a run
/// is full, and at the latest in [`Self::finish`]; a writer that is dropped has written only part of them.
pub struct RunWriter {
    io: Arc<BlockIo>,
    txg: Txg,
    run: Option<Run>,
    run_bytes: u64,
    scratch: Vec<u8>,
    stats: WriteStats,
    work: LongWork,
    told: Option<Told>,
}

/// Told of the bytes of blocks, before compression, that have reached their device.
type Told = Box<dyn Fn(u64) + Send + Sync>;

struct Run {
    place: Dva,
    buf: AlignedBuf,
    blocks: Vec<BlockPtr>,
}

impl Run {
    fn used_bytes(&self) -> u64 {
        self.buf.len() as u64
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.place.bytes() - self.used_bytes() >= bytes
    }

    /// Appends whole sectors and returns their place.
    fn append(&mut self, bytes: &[u8], sectors: u32) -> Dva {
        let offset = self.place.offset + self.used_bytes();
        let end = self.buf.len() + sectors as usize * SECTOR;
        self.buf.extend_from_slice(bytes);
        self.buf.resize(end);
        Dva { offset, sectors, ..self.place }
    }
}

impl RunWriter {
    pub(crate) fn new(io: Arc<BlockIo>, txg: Txg) -> Self {
        let (stats, work) = (WriteStats::default(), LongWork::default());
        Self { io, txg, run: None, run_bytes: RUN_BYTES, scratch: Vec::new(), stats, work, told: None }
    }

    /// For no more than so many bytes: what others reserve meanwhile lies directly behind.
    #[must_use]
    pub fn expecting(mut self, bytes: u64) -> Self {
        self.run_bytes = bytes.min(RUN_BYTES);
        self
    }

    /// With somebody who is told how far it has come, run by run.
    #[must_use]
    pub fn telling(mut self, told: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.told = Some(Box::new(told));
        self
    }

    /// The txg whose blocks these are.
    #[must_use]
    pub fn txg(&self) -> Txg {
        self.txg
    }

    /// The pool that is written to.
    #[must_use]
    pub fn io(&self) -> &Arc<BlockIo> {
        &self.io
    }

    /// What was put so far.
    #[must_use]
    pub fn stats(&self) -> WriteStats {
        self.stats
    }

    /// A step of what is done for this group: lets others have the processor now and then.
    pub fn step(&mut self) {
        self.work.step();
    }

    /// Adds a block of 1 byte to 16 MiB. It can be read at once.
    pub fn put(&mut self, kind: BlockKind, data: &[u8], compression: Compression) -> Result<BlockPtr, BlockError> {
        self.put_bytes(kind, Bytes::copy_from_slice(data), compression)
    }

    /// [`Self::put`] without a copy: `data` itself goes into the cache.
    pub fn put_bytes(
        &mut self,
        kind: BlockKind,
        data: Bytes,
        compression: Compression,
    ) -> Result<BlockPtr, BlockError> {
        // What is written ahead of any group, a WRITE has brought.
        let is_brought = self.txg == UNBORN;
        self.put_for_readers(kind, data, compression, is_brought)
    }

    /// [`Self::put_bytes`] of a part of a long WRITE, which has a buffer with its neighbours: in the cache it stands beside
    /// them, as what is written ahead of any group does.
    pub fn put_shared(
        &mut self,
        kind: BlockKind,
        data: Bytes,
        compression: Compression,
    ) -> Result<BlockPtr, BlockError> {
        self.put_for_readers(kind, data, compression, true)
    }

    fn put_for_readers(
        &mut self,
        kind: BlockKind,
        data: Bytes,
        compression: Compression,
        is_brought: bool,
    ) -> Result<BlockPtr, BlockError> {
        let pointer = self.lay_out(kind, &data, compression)?;
        self.io.accept(&pointer, data, is_brought);
        match &mut self.run {
            Some(run) => run.blocks.push(pointer),
            None => self.io.forget_unwritten(&[pointer]),
        }
        Ok(pointer)
    }

    /// Adds a block that nobody can read, see [`BlockPtr::given_up`]: it stands for content of which only part is known.
    /// That part is on disk, for whoever wants to save it.
    pub fn put_given_up(
        &mut self,
        kind: BlockKind,
        data: &[u8],
        compression: Compression,
    ) -> Result<BlockPtr, BlockError> {
        Ok(self.lay_out(kind, data, compression)?.given_up())
    }

    /// Finds a place for a block, and puts its bytes there.
    fn lay_out(&mut self, kind: BlockKind, data: &[u8], compression: Compression) -> Result<BlockPtr, BlockError> {
        assert!(!data.is_empty() && data.len() <= BLOCK_BYTES_MAX as usize, "a block of {} bytes", data.len());
        self.work.step();
        let mut scratch = std::mem::take(&mut self.scratch);
        let sealed = seal(data, compression, &mut scratch);
        let sectors = sealed.sectors();
        let checksum = block_checksum(sealed.bytes());
        let (dva, pieces) = match self.make_room(u64::from(sectors) * SECTOR as u64) {
            Ok(run) => (run.append(sealed.bytes(), sectors), Vec::new()),
            // Free space in crumbs is free space.
            Err(BlockError::NoSpace(_)) => self.scatter(sectors, sealed.bytes(), checksum)?,
            Err(error) => return Err(error),
        };
        let pointer = BlockPtr {
            dva,
            copy: None,
            lsize: data.len() as u32,
            psize: sealed.bytes().len() as u32,
            coding: sealed.coding(),
            kind,
            birth: self.txg,
            checksum,
        };
        self.scratch = scratch;
        self.stats.block_count += 1;
        self.stats.logical_bytes += data.len() as u64;
        self.stats.allocated_bytes += pointer.asize();
        if self.txg == UNBORN && !pieces.is_empty() {
            self.io.remember_pieces(&pointer, pieces);
        }
        Ok(pointer)
    }

    /// Writes a block in pieces, and gives what its pointer names and the pieces. Where that fails its room goes back:
    /// nothing names it.
    fn scatter(&self, sectors: u32, bytes: &[u8], checksum: BlockChecksum) -> Result<(Dva, Vec<Dva>), BlockError> {
        let place = self.io.alloc.place(self.txg, sectors)?;
        let written = place.write(&self.io.devs, bytes, checksum);
        let dva = written.inspect_err(|_| place.ranges().for_each(|range| self.io.alloc.abandon(range)))?;
        let pieces = match place {
            Place::Whole(_) => Vec::new(),
            Place::Pieces(_, pieces) => pieces,
        };
        Ok((dva, pieces))
    }

    /// The run that has room for a block; none is open after an error.
    fn make_room(&mut self, bytes: u64) -> Result<&mut Run, BlockError> {
        let run = match self.run.take() {
            Some(run) if run.has_room(bytes) => run,
            full => {
                self.run = full;
                self.close_run()?;
                let place = self.io.alloc.alloc_run(self.txg, self.run_bytes.max(bytes), bytes)?;
                Run { place, buf: AlignedBuf::with_capacity(place.bytes() as usize), blocks: Vec::new() }
            }
        };
        Ok(self.run.insert(run))
    }

    /// Writes what there is of the run, and gives the rest back.
    fn close_run(&mut self) -> Result<(), BlockError> {
        let Some(run) = self.take_run() else { return Ok(()) };
        let written = if run.buf.is_empty() { Ok(()) } else { self.io.write_sectors(run.place, &run.buf) };
        self.run_ended(&run, written.is_ok());
        written
    }

    /// What there is of the run, which is to be written; the rest goes back.
    fn take_run(&mut self) -> Option<Run> {
        self.run.take().inspect(|run| self.io.alloc.shrink(run.place, run.used_bytes()))
    }

    /// A run is on its device, or never will be.
    fn run_ended(&mut self, run: &Run, is_written: bool) {
        self.io.counters.blocks_written.fetch_add(run.blocks.len() as u64, Ordering::Relaxed);
        self.stats.write_count += 1;
        self.io.forget_unwritten(&run.blocks);
        if let Some(told) = self.told.as_ref().filter(|_| is_written) {
            told(run.blocks.iter().map(|block| u64::from(block.lsize)).sum());
        }
    }

    /// Writes what is not written yet. Durable after [`BlockIo::flush`].
    pub fn finish(mut self) -> Result<WriteStats, BlockError> {
        self.close_run()?;
        Ok(self.stats)
    }

    /// Ends the txg's fold: persists the allocator, and writes the pool's root, which `encode` makes from the
    /// allocator's, and what is left, together where they are neighbours. `root_bytes_max` bounds its size without the
    /// allocator's part. The pointer goes into the uberblock, after a [`BlockIo::flush`]; the previous root must have been
    /// freed before.
    pub fn commit(
        mut self,
        root_bytes_max: usize,
        encode: impl FnOnce(&AllocRoot) -> Vec<u8>,
    ) -> Result<(BlockPtr, WriteStats), BlockError> {
        let run = self.take_run();
        let committed = self.commit_behind(run.as_ref(), root_bytes_max, encode);
        if let Some(run) = &run {
            self.run_ended(run, committed.is_ok());
        }
        Ok((committed?, self.stats))
    }

    fn commit_behind(
        &mut self,
        run: Option<&Run>,
        root_bytes_max: usize,
        encode: impl FnOnce(&AllocRoot) -> Vec<u8>,
    ) -> Result<BlockPtr, BlockError> {
        let alloc: &Allocator = &self.io.alloc;
        let committed = alloc.commit(self.txg, root_bytes_max + alloc.root_bytes_max() + size_of::<u32>())?;
        let root = encode(&committed.root);
        let place = committed.place;
        let mut bytes = Vec::with_capacity(place.bytes() as usize);
        bytes.put_blob(&root);
        if bytes.len() as u64 > place.bytes() {
            return Err(NoSpace { bytes: bytes.len() as u64, free: place.bytes() }.into());
        }
        bytes.resize(place.bytes() as usize, 0);
        let size = u32::try_from(bytes.len()).expect("a root is far below 16 MiB");
        let checksum = block_checksum(&bytes);
        let mut parts: Vec<(Dva, &[u8])> = committed.sectors.iter().map(|(dva, bytes)| (*dva, &bytes[..])).collect();
        let sector_count = 1 + parts.len() as u64;
        parts.extend(run.filter(|run| !run.buf.is_empty()).map(|run| (run.place, &run.buf[..])));
        let dva = match place {
            Place::Whole(dva) => {
                parts.push((dva, &bytes));
                dva
            }
            pieces @ Place::Pieces(..) => pieces.write(&self.io.devs, &bytes, checksum)?,
        };
        self.io.write_together(parts)?;
        let pointer = BlockPtr {
            dva,
            copy: None,
            lsize: size,
            psize: size,
            coding: Coding::Raw,
            kind: BlockKind::Root,
            birth: self.txg,
            checksum,
        };
        self.stats.block_count += sector_count;
        self.stats.allocated_bytes += sector_count * SECTOR as u64;
        Ok(pointer)
    }
}

impl Drop for RunWriter {
    /// A writer that is dropped with an open run has failed: its blocks will not be read.
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            self.io.alloc.shrink(run.place, run.used_bytes());
            self.io.forget_unwritten(&run.blocks);
        }
    }
}
