//! Freed blocks that may not be used again yet.
//!
//! Uberblock N no longer names what txg N freed, but uberblock N - 1 does, and it is what an import falls back
//! to if N's own write was torn. So a block freed in txg N is reusable only once uberblock N + 1 is durable:
//! then N and N + 1 are the two that can be chosen, and neither names it. (rules F8; R = 2) The pool mostly keeps its lists for
//! longer, so that an import may go back further ([`crate::pool`]).
//!
//! The lists of the txgs that are still waiting are persisted with the root, each as a chain of sectors that is
//! written once, by the commit of its txg; without them an import would reuse what the rewind window names, or
//! leak it. A list that waits no more is **ripe** as long as some of its ranges are in no space map ([`super::ripe`]), and
//! stays where it is. The chain's own sectors are freed by the first commit that no longer needs the list.
//!
//! ```text
//!   0              64        80                     4096
//!   +--------------+---------+---------+--- ... ----+
//!   | next pointer | range 0 | range 1 |  range 251 |      a range: vdev u16, zero u16, sectors u32, first sector u64;
//!   +--------------+---------+---------+--- ... ----+      zero sectors ends the list
//! ```

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use tally_base::codec::{Malformed, Put, Reader};
use tally_base::{SECTOR, Txg, VdevIndex};

use super::ripe::{self, Ripe};
use crate::bp::{BLOCK_PTR_BYTES, BlockPtr, Dva};

/// Ranges in one sector of a chain.
pub(super) const RANGES_PER_SECTOR: usize = (SECTOR - BLOCK_PTR_BYTES) / 16;

const WHAT: &str = "deferred-free list";

/// What one txg freed.
#[derive(Default)]
pub(super) struct FreeList {
    pub(super) ranges: Vec<Dva>,
    /// Where the list is persisted, first sector first; empty before its txg's commit.
    pub(super) chain: Vec<BlockPtr>,
}

/// A list whose ranges may be used, and are not all in the space maps.
#[derive(Default)]
pub(super) struct RipeList {
    pub(super) chain: Vec<BlockPtr>,
    pub(super) range_count: u64,
    /// Joined from others, and to be written by the next commit.
    pub(super) unwritten: Vec<Dva>,
}

/// The lists of all txgs that wait, or are ripe.
#[derive(Default)]
pub(super) struct Deferred {
    lists: BTreeMap<Txg, FreeList>,
    ripe: BTreeMap<Txg, RipeList>,
    /// Of those that wait.
    sectors: u64,
    /// Chains of lists that were released since the last commit: to be freed by the next.
    retired: Vec<Dva>,
}

impl Deferred {
    pub(super) fn add(&mut self, txg: Txg, dva: Dva) {
        self.sectors += u64::from(dva.sectors);
        self.lists.entry(txg).or_default().ranges.push(dva);
    }

    pub(super) fn restore(&mut self, txg: Txg, list: FreeList) {
        self.sectors += list.ranges.iter().map(|dva| u64::from(dva.sectors)).sum::<u64>();
        self.lists.insert(txg, list);
    }

    pub(super) fn restore_ripe(&mut self, txg: Txg, list: RipeList) {
        self.ripe.insert(txg, list);
    }

    pub(super) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Sectors of the chains themselves.
    pub(super) fn chain_sectors(&self) -> u64 {
        self.own_sectors().map(|range| u64::from(range.sectors)).sum()
    }

    /// Where the chains themselves lie, and those that the next commit frees.
    pub(super) fn own_sectors(&self) -> impl Iterator<Item = Dva> {
        self.chains().flat_map(BlockPtr::dvas).chain(self.retired.iter().copied())
    }

    /// The sectors of all chains.
    pub(super) fn chains(&self) -> impl Iterator<Item = &BlockPtr> {
        let chains = self.lists.values().map(|list| &list.chain).chain(self.ripe.values().map(|list| &list.chain));
        chains.flatten()
    }

    /// Lists that wait, or are ripe.
    pub(super) fn list_count(&self) -> usize {
        self.lists.len() + self.ripe.len()
    }

    /// A sector of the allocator's own that the next commit has to free.
    pub(super) fn retire(&mut self, sector: &BlockPtr) {
        self.retired.extend(sector.dvas());
    }

    /// Sectors that these groups have freed, and that wait.
    pub(super) fn sectors_of(&self, groups: impl RangeBounds<Txg>) -> u64 {
        self.lists.range(groups).flat_map(|(_, list)| &list.ranges).map(|dva| u64::from(dva.sectors)).sum()
    }

    /// What these groups have freed, and the sectors of lists that the next commit frees.
    pub(super) fn waiting(&self, groups: impl RangeBounds<Txg>) -> impl Iterator<Item = Dva> {
        let lists = self.lists.range(groups).flat_map(|(_, list)| &list.ranges);
        lists.chain(&self.retired).copied()
    }

    /// Takes out everything freed before `reusable`, by group. The lists are ripe from here on.
    pub(super) fn release(&mut self, durable: Txg, reusable: Txg) -> Vec<(Txg, Vec<Dva>)> {
        let waiting = self.lists.split_off(&reusable);
        let released = std::mem::replace(&mut self.lists, waiting);
        // R = 2: the uberblock before the newest may be chosen, and names what the newest group has freed.
        let is_old = |txg: &Txg| txg.next() <= durable;
        assert!(released.keys().all(is_old), "group {durable} is durable, and a later one's blocks are reused (F8)");
        let mut ranges = Vec::new();
        for (txg, list) in released {
            self.sectors -= list.ranges.iter().map(|dva| u64::from(dva.sectors)).sum::<u64>();
            let range_count = list.ranges.len() as u64;
            self.ripe.insert(txg, RipeList { chain: list.chain, range_count, unwritten: Vec::new() });
            ranges.push((txg, list.ranges));
        }
        ranges
    }

    /// Ripe lists that are in the maps are not needed any more, and where there are too many they become one.
    pub(super) fn tidy(&mut self, ranges: &mut Ripe) {
        self.ripe.retain(|txg, list| {
            let is_needed = ranges.has_list(*txg);
            if !is_needed {
                ranges.forget_list(*txg);
                self.retired.extend(list.chain.iter().flat_map(BlockPtr::dvas));
            }
            is_needed
        });
        if let Some((&newest, _)) = self.ripe.last_key_value().filter(|_| self.ripe.len() > ripe::LISTS_MAX) {
            let unwritten = ranges.join(newest);
            for list in std::mem::take(&mut self.ripe).into_values() {
                self.retired.extend(list.chain.iter().flat_map(BlockPtr::dvas));
            }
            let joined = RipeList { chain: Vec::new(), range_count: unwritten.len() as u64, unwritten };
            self.ripe.insert(newest, joined);
        }
    }

    /// Sectors of the chain of a joined list that is to be written.
    pub(super) fn unwritten_sectors(&self) -> usize {
        self.ripe.values().map(|list| list.unwritten.len().div_ceil(RANGES_PER_SECTOR)).sum()
    }

    /// The ripe list that is to be written, if there is one.
    pub(super) fn unwritten(&mut self) -> Option<&mut RipeList> {
        self.ripe.values_mut().find(|list| !list.unwritten.is_empty())
    }

    /// Readies the list of `txg` for its commit: joins neighbours, adds the retired chains, and drops what was
    /// freed twice. Returns the number of ranges, and of those that were dropped.
    pub(super) fn prepare(&mut self, txg: Txg) -> (usize, usize) {
        for dva in std::mem::take(&mut self.retired) {
            self.add(txg, dva);
        }
        let list = self.lists.entry(txg).or_default();
        let count_sectors = |ranges: &[Dva]| ranges.iter().map(|dva| u64::from(dva.sectors)).sum::<u64>();
        let before = count_sectors(&list.ranges);
        let dropped = coalesce(&mut list.ranges);
        self.sectors -= before - count_sectors(&list.ranges);
        (list.ranges.len(), dropped)
    }

    pub(super) fn list_mut(&mut self, txg: Txg) -> &mut FreeList {
        self.lists.entry(txg).or_default()
    }

    /// What the root of `txg` must name: each list that is not empty, by the head of its chain. Ripe ones are older.
    pub(super) fn heads(&self, txg: Txg) -> Vec<DeferredHead> {
        let head = |is_ripe, txg: &Txg, ranges: u64, chain: &[BlockPtr]| {
            Some(DeferredHead { is_ripe, txg: *txg, ranges, head: *chain.first()? })
        };
        let ripe = self.ripe.iter().filter_map(|(txg, list)| head(true, txg, list.range_count, &list.chain));
        let waiting = self.lists.range(..=txg);
        ripe.chain(waiting.filter_map(|(txg, list)| head(false, txg, list.ranges.len() as u64, &list.chain))).collect()
    }
}

/// Names one persisted list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeferredHead {
    /// Whether what it names may be used, and may be free in the maps already.
    pub(super) is_ripe: bool,
    pub(super) txg: Txg,
    pub(super) ranges: u64,
    pub(super) head: BlockPtr,
}

/// Joins neighbours, so that a list is as long as the free space is fragmented and no longer. A range that
/// overlaps the one before was freed twice; it is dropped, and the number of those is returned. (What it has
/// beyond the overlap is leaked, which is better than to free what may be somebody else's.)
fn coalesce(ranges: &mut Vec<Dva>) -> usize {
    let mut dropped = 0;
    ranges.sort_unstable();
    ranges.dedup_by(|next, range| {
        if range.vdev != next.vdev || range.end() < next.offset {
            return false;
        }
        if range.end() > next.offset {
            dropped += 1;
            return true;
        }
        let joined = range.sectors.checked_add(next.sectors);
        range.sectors = joined.unwrap_or(range.sectors);
        joined.is_some()
    });
    dropped
}

/// One sector of a chain.
pub(super) fn encode_sector(next: Option<&BlockPtr>, ranges: &[Dva]) -> Vec<u8> {
    assert!(ranges.len() <= RANGES_PER_SECTOR, "the caller cuts the list into sectors");
    let mut bytes = Vec::with_capacity(SECTOR);
    bytes.put(&BlockPtr::encode_option(next));
    for range in ranges {
        bytes.put_u16(range.vdev.0);
        bytes.put_u16(0);
        bytes.put_u32(range.sectors);
        bytes.put_u64(range.offset / SECTOR as u64);
    }
    bytes.resize(SECTOR, 0);
    bytes
}

/// The mirror image of [`encode_sector`]: appends the ranges to `out`.
pub(super) fn decode_sector(bytes: &[u8], out: &mut Vec<Dva>) -> Result<Option<BlockPtr>, Malformed> {
    let mut reader = Reader::new(bytes, WHAT);
    let next = BlockPtr::decode_option(&reader.array()?)?;
    for _ in 0..RANGES_PER_SECTOR {
        let (vdev, zero) = (VdevIndex(reader.u16()?), reader.u16()?);
        let (sectors, start) = (reader.u32()?, reader.u64()?);
        if sectors == 0 {
            break;
        }
        let offset = start.checked_mul(SECTOR as u64).filter(|_| zero == 0).ok_or(Malformed(WHAT))?;
        out.push(Dva { vdev, offset, sectors });
    }
    Ok(next)
}
