//! Blocks that name each other by number: an input cannot know checksums, so its pointers hold the number of a block of
//! the same input, and this makes real pointers of them, the deepest block first.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tally_base::{SECTOR, block_checksum};
use tally_disk::AlignedBuf;
use tally_members::blockdev::{BlockDev, BlockDevError};
use tally_store::bp::{BLOCK_PTR_BYTES, BlockKind};

use crate::input::Input;

/// Most blocks of an input.
const BLOCKS_MAX: usize = 24;

/// Fields of a block pointer, by the drawing in `tally_store::bp`.
pub(crate) mod at {
    pub(crate) const VDEV: usize = 0;
    pub(crate) const SECTORS: usize = 2;
    pub(crate) const START: usize = 4;
    pub(crate) const VDEV_2: usize = 10;
    pub(crate) const LSIZE: usize = 20;
    pub(crate) const PSIZE: usize = 24;
    pub(crate) const CODING: usize = 28;
    pub(crate) const KIND: usize = 29;
    pub(crate) const SUM: usize = 30;
    pub(crate) const BIRTH: usize = 32;
    pub(crate) const WRITTEN: usize = 40;
    pub(crate) const CHECKSUM: usize = 48;
    /// Of a line of the space index, which begins as a pointer does.
    pub(crate) const LINE_CHECKSUM: usize = 28;
}

/// Bytes of a place's first sector.
pub(crate) const START_BYTES: usize = 6;

/// Blocks of an input, by vdev and number.
pub(crate) struct Blocks {
    blocks: BTreeMap<(u16, u64), Block>,
    /// How far apart they lie on their device.
    slot_bytes: u64,
}

#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    /// Whether its own pointers have been, or are being, made real: a block cannot name one that names it.
    is_resolved: bool,
}

impl Blocks {
    /// All blobs that are left in the input, numbered from 0.
    pub(crate) fn in_a_row(input: &mut Input<'_>, slot_bytes: u64) -> Self {
        let mut all = Self { blocks: BTreeMap::new(), slot_bytes };
        while !input.is_empty() && all.blocks.len() < BLOCKS_MAX {
            let block = Block { bytes: input.blob().to_vec(), is_resolved: false };
            all.blocks.insert((0, all.blocks.len() as u64), block);
        }
        all
    }

    /// Sectors, each behind its place: a number, and in the highest bit the vdev. What is missing of a sector is zero.
    pub(crate) fn placed(input: &mut Input<'_>) -> Self {
        let mut all = Self { blocks: BTreeMap::new(), slot_bytes: SECTOR as u64 };
        while !input.is_empty() && all.blocks.len() < BLOCKS_MAX {
            let place = input.u16();
            let mut bytes = input.blob().to_vec();
            bytes.resize(SECTOR, 0);
            let place = (place >> 15, u64::from(place & 0x7fff));
            all.blocks.insert(place, Block { bytes, is_resolved: false });
        }
        all
    }

    /// Makes a real pointer of one that holds a block's number.
    pub(crate) fn resolve(&mut self, pointer: &mut [u8]) {
        let mut number = [0; 8];
        number[..START_BYTES].copy_from_slice(&pointer[at::START..at::START + START_BYTES]);
        let number = u64::from_le_bytes(number);
        let vdev = u16::from_le_bytes(pointer[at::VDEV..at::VDEV + 2].try_into().expect("two bytes"));
        let kind = pointer[at::KIND];
        let Some(block) = self.blocks.get_mut(&(vdev, number)) else { return };
        if !std::mem::replace(&mut block.is_resolved, true) {
            let mut bytes = std::mem::take(&mut block.bytes);
            for place in pointers_in(&bytes, kind) {
                if let Some(pointer) = bytes.get_mut(place..place + BLOCK_PTR_BYTES) {
                    self.resolve(pointer);
                }
            }
            for line in lines_in(&mut bytes, kind) {
                self.resolve_line(line);
            }
            self.blocks.insert((vdev, number), Block { bytes, is_resolved: true });
        }
        let block = &self.blocks[&(vdev, number)].bytes;
        let mut put = |at: usize, bytes: &[u8]| pointer[at..at + bytes.len()].copy_from_slice(bytes);
        put(at::START, &(number * self.slot_bytes / SECTOR as u64).to_le_bytes()[..START_BYTES]);
        put(at::SECTORS, &(block.len().div_ceil(SECTOR) as u16).to_le_bytes());
        put(at::PSIZE, &(block.len() as u32).to_le_bytes());
        put(at::CHECKSUM, &block_checksum(block).to_le_bytes());
        if pointer[at::CODING] == 0 {
            pointer[at::LSIZE..at::PSIZE].copy_from_slice(&(block.len() as u32).to_le_bytes());
        }
    }

    /// The same of a line of the space index, whose map names nothing.
    fn resolve_line(&self, line: &mut [u8]) {
        let mut number = [0; 8];
        number[..START_BYTES].copy_from_slice(&line[at::START..at::START + START_BYTES]);
        let vdev = u16::from_le_bytes(line[at::VDEV..at::VDEV + 2].try_into().expect("two bytes"));
        let Some(block) = self.blocks.get(&(vdev, u64::from_le_bytes(number))) else { return };
        line[at::LINE_CHECKSUM..at::LINE_CHECKSUM + 16].copy_from_slice(&block_checksum(&block.bytes).to_le_bytes());
    }

    /// The device on which those of a vdev lie.
    pub(crate) fn device(&self, vdev: u16, data_bytes: u64) -> SparseDev {
        let device = SparseDev::new(data_bytes);
        for ((_, number), block) in self.blocks.range((vdev, 0)..=(vdev, u64::MAX)) {
            let mut bytes = block.bytes.clone();
            bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
            device.put(number * self.slot_bytes, &bytes);
        }
        device
    }
}

/// Where pointers stand in a block of this kind.
pub(crate) fn pointers_in(block: &[u8], kind: u8) -> Vec<usize> {
    const TREE_NODE: u8 = BlockKind::TreeNode as u8;
    const DEFERRED: u8 = BlockKind::Deferred as u8;
    match kind {
        TREE_NODE => {
            let count = block.get(6..8).map_or(0, |count| u16::from_le_bytes(count.try_into().expect("two bytes")));
            let count = usize::from(count);
            (0..count.min(block.len() / BLOCK_PTR_BYTES)).map(|at| 16 + 25 * count + at * BLOCK_PTR_BYTES).collect()
        }
        DEFERRED => vec![0],
        _ => Vec::new(),
    }
}

/// The lines of space maps in a block of this kind: these pools are so small that no index stands above another.
pub(crate) fn lines_in(block: &mut [u8], kind: u8) -> impl Iterator<Item = &mut [u8]> {
    let lines = if kind == BlockKind::SpaceIndex as u8 { block } else { &mut [] };
    lines.chunks_exact_mut(BLOCK_PTR_BYTES).filter(|line| line.iter().any(|byte| *byte != 0))
}

/// A device of any size that keeps the sectors that were written.
pub(crate) struct SparseDev {
    data_bytes: u64,
    sectors: Mutex<BTreeMap<u64, Box<[u8]>>>,
}

impl SparseDev {
    pub(crate) fn new(data_bytes: u64) -> Self {
        Self { data_bytes, sectors: Mutex::default() }
    }

    fn put(&self, offset: u64, bytes: &[u8]) {
        let mut sectors = self.sectors.lock();
        for (at, sector) in (offset / SECTOR as u64..).zip(bytes.chunks(SECTOR)) {
            sectors.insert(at, sector.into());
        }
    }

    fn check(&self, offset: u64, length: usize) -> Result<(), BlockDevError> {
        let sector = SECTOR as u64;
        assert!(offset.is_multiple_of(sector) && length.is_multiple_of(SECTOR), "{length} bytes at {offset}");
        let is_inside = offset.checked_add(length as u64).is_some_and(|end| end <= self.data_bytes);
        if is_inside { Ok(()) } else { Err(BlockDevError::OutOfRange { data_bytes: self.data_bytes }) }
    }
}

impl BlockDev for SparseDev {
    fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    fn read(&self, offset: u64, length: usize, verify: &dyn Fn(&[u8]) -> bool) -> Result<AlignedBuf, BlockDevError> {
        self.check(offset, length)?;
        let mut buf = AlignedBuf::zeroed(length);
        let sectors = self.sectors.lock();
        let first = offset / SECTOR as u64;
        for (at, sector) in sectors.range(first..first + (length / SECTOR) as u64) {
            let start = (at - first) as usize * SECTOR;
            buf[start..start + SECTOR].copy_from_slice(sector);
        }
        if verify(&buf) { Ok(buf) } else { Err(BlockDevError::NoGoodCopy) }
    }

    fn write(&self, offset: u64, buf: &[u8]) -> Result<(), BlockDevError> {
        self.check(offset, buf.len())?;
        self.put(offset, buf);
        Ok(())
    }

    fn flush(&self) -> Result<(), BlockDevError> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        self.check(offset, usize::try_from(length).expect("64 bits"))
    }
}
