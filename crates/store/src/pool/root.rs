//! The pool root: one block, named by the uberblock, from which everything hangs.
//!
//! ```text
//!  0  version u32 = 2      4  next dataset id u64     12  log txg u64     20  life (24, super::life)
//! 44  root of the catalog (80, crate::tree)
//! 124 reply cache: 64 block pointers (64 bytes each, empty: zeroes)
//!      tombstone count u32, each: dataset u64, txg u64
//!      allocator root (crate::alloc)
//! ```
//!
//! Each group writes it whole, so nothing is in it whose length goes by the number of datasets: those stand in the catalog
//! ([`super::catalog`]).

use std::collections::BTreeMap;

use bytes::Bytes;
use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{DatasetId, Txg};

use super::life::Life;
use crate::alloc::AllocRoot;
use crate::bp::BlockPtr;
use crate::dataset::DRAWN_END;
use crate::replies::BUCKETS;
use crate::tree::Tree;

const VERSION: u32 = 2;

/// The content of the pool root block.
#[derive(Clone, Debug)]
pub(crate) struct PoolRoot {
    pub(crate) next_dataset: u64,
    /// Log records of groups up to this one are in the trees of all datasets (rules F1): the root's own group, or, while
    /// records are unreplayed, the last one before the import.
    pub(crate) log_txg: Txg,
    pub(crate) life: Life,
    pub(crate) catalog: Tree,
    pub(crate) reply_blocks: [Option<BlockPtr>; BUCKETS],
    pub(crate) tombstones: BTreeMap<DatasetId, Txg>,
}

impl PoolRoot {
    /// That of a new pool.
    pub(crate) fn new(life: Life) -> Self {
        Self {
            next_dataset: 1,
            log_txg: Txg(0),
            life,
            catalog: Tree::empty(),
            reply_blocks: [None; BUCKETS],
            tombstones: BTreeMap::new(),
        }
    }

    /// The encoding without the allocator's part, which follows.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8192);
        out.put_u32(VERSION);
        out.put_u64(self.next_dataset);
        out.put_u64(self.log_txg.0);
        self.life.encode(&mut out);
        out.put(&self.catalog.encode());
        for block in &self.reply_blocks {
            out.put(&BlockPtr::encode_option(block.as_ref()));
        }
        out.put_u32(self.tombstones.len() as u32);
        for (dataset, txg) in &self.tombstones {
            out.put_u64(dataset.0);
            out.put_u64(txg.0);
        }
        out
    }

    pub(crate) fn decode(bytes: &Bytes) -> Result<(Self, AllocRoot), Malformed> {
        let mut reader = Reader::new(bytes, "pool root");
        if reader.u32()? != VERSION {
            return Err(reader.malformed());
        }
        let (next_dataset, log_txg) = (reader.u64()?, Txg(reader.u64()?));
        let life = Life::decode(&mut reader)?;
        let catalog = Tree::decode(&reader.array()?)?;
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
        let root = Self { next_dataset, log_txg, life, catalog, reply_blocks, tombstones };
        if root.is_possible() { Ok((root, alloc)) } else { Err(malformed) }
    }

    /// Whether its numbers can have been drawn: a sound checksum does not say so.
    fn is_possible(&self) -> bool {
        self.next_dataset < DRAWN_END
            && self.log_txg.0 < DRAWN_END
            && self.tombstones.values().all(|txg| txg.0 < DRAWN_END)
    }
}

#[cfg(test)]
mod tests;
