//! The pool root: one block, named by the uberblock, from which everything hangs.
//!
//! ```text
//!  0  version u32 = 1      4  next dataset id u64     12  dataset count u32, each an entry (crate::dataset)
//!     reply cache: 64 block pointers (64 bytes each, empty: zeroes)
//!     tombstone count u32, each: dataset u64, txg u64
//!     allocator root (crate::alloc)
//! ```

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{DatasetId, Txg};

use crate::alloc::AllocRoot;
use crate::bp::BlockPtr;
use crate::dataset::{DRAWN_END, DatasetEntry};
use crate::replies::BUCKETS;

const VERSION: u32 = 1;

/// Commands that would make the root longer are refused. Each group writes it anew and as it is, and a block pointer claims
/// at most 16 MiB: a longer root is written, and no import can read it. The rest of those 16 MiB is for what grows
/// without a command: tombstones, and the lists of what was freed.
pub const ROOT_BYTES_MAX: u64 = 8 << 20;

/// The content of the pool root block.
#[derive(Debug)]
pub(crate) struct PoolRoot {
    pub(crate) next_dataset: u64,
    pub(crate) datasets: Vec<DatasetEntry>,
    pub(crate) reply_blocks: [Option<BlockPtr>; BUCKETS],
    pub(crate) tombstones: BTreeMap<DatasetId, Txg>,
}

impl PoolRoot {
    /// The encoding without the allocator's part, which follows.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let entries = |out: &mut Vec<u8>| self.datasets.iter().for_each(|entry| entry.encode(out));
        encode(self.next_dataset, self.datasets.len(), entries, &self.reply_blocks, &self.tombstones)
    }

    pub(crate) fn decode(bytes: &Bytes) -> Result<(Self, AllocRoot), Malformed> {
        let mut reader = Reader::new(bytes, "pool root");
        if reader.u32()? != VERSION {
            return Err(reader.malformed());
        }
        let next_dataset = reader.u64()?;
        let mut datasets = Vec::new();
        for _ in 0..reader.u32()? {
            datasets.push(DatasetEntry::decode(&mut reader)?);
        }
        let mut reply_blocks = [None; BUCKETS];
        for block in &mut reply_blocks {
            *block = BlockPtr::decode_option(&reader.array()?)?;
        }
        let mut tombstones = BTreeMap::new();
        for _ in 0..reader.u32()? {
            tombstones.insert(DatasetId(reader.u64()?), Txg(reader.u64()?));
        }
        let alloc = AllocRoot::decode(&mut reader)?;
        let malformed = reader.malformed();
        reader.end()?;
        let root = Self { next_dataset, datasets, reply_blocks, tombstones };
        if root.is_possible() { Ok((root, alloc)) } else { Err(malformed) }
    }

    /// Whether its numbers can have been drawn: a sound checksum does not say so.
    fn is_possible(&self) -> bool {
        let ids: BTreeSet<DatasetId> = self.datasets.iter().map(|entry| entry.birth.id).collect();
        let objects = |entry: &DatasetEntry| entry.birth.root_object < entry.root.next_object;
        ids.len() == self.datasets.len()
            && ids.last().is_none_or(|last| last.0 < self.next_dataset)
            && self.next_dataset < DRAWN_END
            && self.tombstones.values().all(|txg| txg.0 < DRAWN_END)
            && self.datasets.iter().all(objects)
    }
}

/// See [`PoolRoot::encode`]; `entries` appends those of the datasets.
pub(super) fn encode(
    next_dataset: u64,
    dataset_count: usize,
    entries: impl FnOnce(&mut Vec<u8>),
    reply_blocks: &[Option<BlockPtr>; BUCKETS],
    tombstones: &BTreeMap<DatasetId, Txg>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(8192);
    out.put_u32(VERSION);
    out.put_u64(next_dataset);
    out.put_u32(dataset_count as u32);
    entries(&mut out);
    for block in reply_blocks {
        out.put(&BlockPtr::encode_option(block.as_ref()));
    }
    out.put_u32(tombstones.len() as u32);
    for (dataset, txg) in tombstones {
        out.put_u64(dataset.0);
        out.put_u64(txg.0);
    }
    out
}

#[cfg(test)]
mod tests;
