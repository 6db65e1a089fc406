//! Runs: thousands of small blocks reach the disk as a few long writes.
//!
//! A writer reserves a contiguous run of one or a few MiB, places each block behind the one before, and writes the run
//! when it is full. A block's pointer is known at once, since its place and checksum are; so a parent can be built
//! while its children are still in memory. All kinds of blocks share a run: what is written together in a txg lies
//! together. What a run did not need goes back to the allocator, whose cursor goes back with it.
//!
//! Second copies of what the pool cannot do without ([`RedundantMetadata`]) are a run of their own, far from the first
//! (rules S4).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tally_base::codec::Put;
use tally_base::{BlockChecksum, LongWork, SECTOR, Txg, block_checksum};
use tally_disk::AlignedBuf;

use crate::alloc::{AllocRoot, Allocator, Space, UNBORN};
use crate::block::scatter::Place;
use crate::block::{BlockError, NoSpace, seal};
use crate::bp::{BLOCK_BYTES_MAX, BlockKind, BlockPtr, Coding, Compression, Dva};
use crate::io::BlockIo;

/// Length of a run of second copies. They are few, and each run takes room far from the others.
const COPIES_BYTES: u64 = 1 << 20;

/// What a writer has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteStats {
    /// Blocks that it was given.
    pub block_count: u64,
    /// Their bytes before compression.
    pub logical_bytes: u64,
    /// Bytes that they take on disk.
    pub allocated_bytes: u64,
    /// Device writes that it took; one to all legs of a mirror counts once.
    pub write_count: u64,
}

/// Which blocks are written twice, to places far from each other. After the property of ZFS of that name; data never is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RedundantMetadata {
    /// None.
    None,
    /// What much hangs from: the pool's root, the allocator's sectors, the inner nodes of trees, the catalog of datasets.
    Most,
    /// Also the leaves of trees, but for those whose entries are the content of small files.
    All,
}

/// Writes blocks of one txg. Not shared between threads: each makes its own. Blocks reach their device when a run
/// is full, and at the latest in [`Self::finish`]; a writer that is dropped has written only part of them.
pub struct RunWriter {
    io: Arc<BlockIo>,
    txg: Txg,
    run: Option<Run>,
    run_bytes: u64,
    copies: Copies,
    scratch: Vec<u8>,
    stats: WriteStats,
    work: LongWork,
    told: Option<Told>,
}

/// Told of the bytes of blocks, before compression, that have reached their device.
type Told = Box<dyn Fn(u64) + Send + Sync>;

/// Where the cache keeps a block that was just written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InCache {
    /// With what was read.
    Main,
    /// With what long WRITEs have brought.
    Brought,
}

/// In how many places a block is to lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Places {
    One,
    Two,
}

/// The run of second copies.
struct Copies {
    of: RedundantMetadata,
    can_spare: CanSpare,
    run: Option<Run>,
}

/// Whether so many bytes of this space may go to copies. Room for them is nobody's due.
type CanSpare = Box<dyn Fn(&Space, u64) -> bool + Send + Sync>;

struct Run {
    place: Dva,
    buf: AlignedBuf,
    blocks: Vec<BlockPtr>,
}

impl Run {
    fn at(place: Dva) -> Self {
        Self { place, buf: AlignedBuf::with_capacity(place.bytes() as usize), blocks: Vec::new() }
    }

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
        let copies = Copies { of: RedundantMetadata::None, can_spare: Box::new(|_, _| false), run: None };
        Self {
            run_bytes: io.write_bytes_max() as u64,
            io,
            txg,
            run: None,
            copies,
            scratch: Vec::new(),
            stats,
            work,
            told: None,
        }
    }

    /// With second copies of these blocks, as long as `can_spare` says of the pool's space that so many bytes of it may
    /// go to them.
    #[must_use]
    pub(crate) fn with_copies(
        mut self,
        of: RedundantMetadata,
        can_spare: impl Fn(&Space, u64) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.copies = Copies { of, can_spare: Box::new(can_spare), run: None };
        self
    }

    /// For no more than so many bytes: what others reserve meanwhile lies directly behind.
    #[must_use]
    pub fn expecting(mut self, bytes: u64) -> Self {
        self.run_bytes = self.run_bytes.min(bytes);
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
        let in_cache = if self.txg == UNBORN { InCache::Brought } else { InCache::Main };
        self.put_for_readers(kind, data, compression, in_cache, Places::One)
    }

    /// [`Self::put_bytes`] of what belongs to the pool itself and not to a file: in two places, where `least` or more is written
    /// twice.
    pub(crate) fn put_metadata(
        &mut self,
        kind: BlockKind,
        data: Bytes,
        compression: Compression,
        least: RedundantMetadata,
    ) -> Result<BlockPtr, BlockError> {
        let places = if self.copies.of >= least { Places::Two } else { Places::One };
        self.put_for_readers(kind, data, compression, InCache::Main, places)
    }

    /// [`Self::put_bytes`] of a part of a long WRITE, which has a buffer with its neighbours: in the cache it stands beside
    /// them, as what is written ahead of any group does.
    pub fn put_shared(
        &mut self,
        kind: BlockKind,
        data: Bytes,
        compression: Compression,
    ) -> Result<BlockPtr, BlockError> {
        self.put_for_readers(kind, data, compression, InCache::Brought, Places::One)
    }

    fn put_for_readers(
        &mut self,
        kind: BlockKind,
        data: Bytes,
        compression: Compression,
        in_cache: InCache,
        places: Places,
    ) -> Result<BlockPtr, BlockError> {
        let pointer = self.lay_out(kind, &data, compression, places)?;
        self.io.accept(&pointer, data, in_cache == InCache::Brought);
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
        Ok(self.lay_out(kind, data, compression, Places::One)?.given_up())
    }

    /// Finds a place for a block, and puts its bytes there; and a second one, if that is wanted and there is room to spare.
    fn lay_out(
        &mut self,
        kind: BlockKind,
        data: &[u8],
        compression: Compression,
        places: Places,
    ) -> Result<BlockPtr, BlockError> {
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
        // Where not even the first copy has room in one piece there is none to spare.
        let copy = if places == Places::Two && pieces.is_empty() { self.copy(&dva, sealed.bytes())? } else { None };
        let pointer = BlockPtr {
            dva,
            copy,
            in_pieces: !pieces.is_empty(),
            lsize: data.len() as u32,
            psize: sealed.bytes().len() as u32,
            coding: sealed.coding(),
            kind,
            birth: self.txg,
            written: self.txg,
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

    /// Puts the bytes of the block at `first` into the run of second copies, if there is room for them.
    fn copy(&mut self, first: &Dva, bytes: &[u8]) -> Result<Option<Dva>, BlockError> {
        let fits = |run: &Run| run.has_room(first.bytes()) && self.io.alloc.are_apart(&run.place, first);
        if !self.copies.run.as_ref().is_some_and(fits) {
            self.close_copies()?;
            self.copies.run = self.run_for_copies(first);
        }
        Ok(self.copies.run.as_mut().map(|run| run.append(bytes, first.sectors)))
    }

    fn run_for_copies(&self, first: &Dva) -> Option<Run> {
        let bytes = COPIES_BYTES.max(first.bytes());
        let is_spare = (self.copies.can_spare)(&self.io.alloc.space(), bytes);
        let place = is_spare.then(|| self.io.alloc.alloc_apart(self.txg, first, bytes, first.bytes())).flatten()?;
        Some(Run::at(place))
    }

    /// The run that has room for a block; none is open after an error.
    fn make_room(&mut self, bytes: u64) -> Result<&mut Run, BlockError> {
        let run = match self.run.take() {
            Some(run) if run.has_room(bytes) => run,
            full => {
                self.run = full;
                self.close_run()?;
                let place = self.io.alloc.alloc_run_or_else(self.txg, self.run_bytes.max(bytes), bytes)?;
                Run::at(place)
            }
        };
        Ok(self.run.insert(run))
    }

    /// Writes what there is of the run, and gives the rest back.
    fn close_run(&mut self) -> Result<(), BlockError> {
        let Some(run) = self.run.take().inspect(|run| self.shrink(run)) else { return Ok(()) };
        let written = if run.buf.is_empty() { Ok(()) } else { self.io.write_sectors(run.place, &run.buf) };
        self.run_ended(&run, written.is_ok());
        written
    }

    /// The same for the second copies.
    fn close_copies(&mut self) -> Result<(), BlockError> {
        let Some(run) = self.copies.run.take().inspect(|run| self.shrink(run)) else { return Ok(()) };
        self.stats.write_count += 1;
        self.io.write_sectors(run.place, &run.buf)
    }

    /// Gives back what a run did not need.
    fn shrink(&self, run: &Run) {
        self.io.alloc.shrink(run.place, run.used_bytes());
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
        self.close_copies()?;
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
        let run = self.run.take().inspect(|run| self.shrink(run));
        let copies = self.copies.run.take().inspect(|run| self.shrink(run));
        let runs = [&run, &copies].map(Option::as_ref);
        let committed = self.commit_behind(runs, root_bytes_max, encode);
        if let Some(run) = &run {
            self.run_ended(run, committed.is_ok());
        }
        Ok((committed?, self.stats))
    }

    fn commit_behind(
        &mut self,
        runs: [Option<&Run>; 2],
        root_bytes_max: usize,
        encode: impl FnOnce(&AllocRoot) -> Vec<u8>,
    ) -> Result<BlockPtr, BlockError> {
        let alloc: &Allocator = &self.io.alloc;
        let root_bytes_max = root_bytes_max + alloc.root_bytes_max() + size_of::<u32>();
        let twice = self.copies.of > RedundantMetadata::None
            && (self.copies.can_spare)(&alloc.space(), COPIES_BYTES.max(root_bytes_max as u64));
        let committed = alloc.commit(self.txg, root_bytes_max, twice)?;
        let root = encode(&committed.root);
        let (place, copy) = (&committed.place, committed.copy);
        let mut bytes = Vec::with_capacity(place.bytes() as usize);
        bytes.put_blob(&root);
        if bytes.len() as u64 > place.bytes() {
            return Err(NoSpace { bytes: bytes.len() as u64, free: place.bytes(), fenced: 0, refused: 0 }.into());
        }
        bytes.resize(place.bytes() as usize, 0);
        let size = u32::try_from(bytes.len()).expect("a root is far below 16 MiB");
        let checksum = block_checksum(&bytes);
        let mut parts: Vec<(Dva, &[u8])> = committed.parts().collect();
        let sector_count = 1 + parts.len() as u64;
        let runs = runs.into_iter().flatten().filter(|run| !run.buf.is_empty());
        parts.extend(runs.map(|run| (run.place, &run.buf[..])));
        let dva = match place {
            Place::Whole(dva) => {
                parts.extend(std::iter::once(*dva).chain(copy).map(|dva| (dva, &bytes[..])));
                *dva
            }
            pieces @ Place::Pieces(..) => pieces.write(&self.io.devs, &bytes, checksum)?,
        };
        self.io.write_together(parts)?;
        let pointer = BlockPtr {
            dva,
            copy,
            in_pieces: matches!(place, Place::Pieces(..)),
            lsize: size,
            psize: size,
            coding: Coding::Raw,
            kind: BlockKind::Root,
            birth: self.txg,
            written: self.txg,
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
            self.shrink(&run);
            self.io.forget_unwritten(&run.blocks);
        }
        if let Some(copies) = self.copies.run.take() {
            self.shrink(&copies);
        }
    }
}
