//! Persisting the allocator: once for each txg, at the end of its fold, in one pass.
//!
//! The knot: writing the space maps takes space, and putting their predecessors on the deferred list lengthens
//! it, which changes the space maps. It is untied by counting before writing (rules F20):
//!
//! 1. the pool root's place is taken;
//! 2. the sectors that the touched regions, the index above them and the deferred list need are counted, and
//!    taken one missing run at a time; taking may touch one more region, so it is counted again until the number
//!    holds. Each round only adds regions, and a new run comes from a touched one if that has space, so the
//!    second round is nearly always the last;
//! 3. what is replaced goes on the deferred list, which is final now, as are the bitmaps;
//! 4. everything is encoded bottom-up, since a pointer needs the checksum of what it points to. Whoever commits writes it,
//!    with the root that names it.

use tally_base::{SECTOR, Txg};
use tally_members::blockdev::BlockDevs;

use super::deferred::{RANGES_PER_SECTOR, encode_sector};
use super::root::VdevRoot;
use super::space_index::{SpaceIndex, sector_pointer};
use super::{AllocRoot, Allocator, Persisted};
use crate::block::scatter::Place;
use crate::block::{BlockError, NoSpace, sectors_of, write_together};
use crate::bp::{BlockKind, BlockPtr, Dva};

/// What a commit leaves to its caller: what is to be written, the root to store, and the place to store it in.
#[derive(Clone, Debug)]
pub struct Committed {
    /// To be encoded into the pool's root.
    pub root: AllocRoot,
    /// As many sectors as were asked for, for the pool's root. Allocated in the space maps that are to be written.
    pub(crate) place: Place,
    /// As many for a second copy of it, if there is one.
    pub(crate) copy: Option<Dva>,
    /// The allocator's own sectors: on no disk yet.
    pub(crate) sectors: Vec<(BlockPtr, Vec<u8>)>,
}

impl Committed {
    /// Writes the allocator's own sectors, for whoever has no root to write with them.
    pub fn write(&self, devs: &BlockDevs) -> Result<(), BlockError> {
        write_together(devs, self.parts().collect(), usize::MAX)
    }

    /// What is to be written where, without the root: each sector once, or in two places.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Dva, &[u8])> {
        self.sectors.iter().flat_map(|(bp, bytes)| bp.dvas().map(|dva| (dva, &bytes[..])))
    }
}

/// What a commit is going to write.
struct Plan {
    /// For each vdev and level, the sectors to write.
    index: Vec<Vec<Vec<usize>>>,
    chain_sectors: usize,
    sectors: usize,
}

/// The places of a sector.
#[derive(Clone, Copy)]
pub(super) struct Twofold {
    pub(super) dva: Dva,
    pub(super) copy: Option<Dva>,
}

/// Single sectors, handed out in order.
struct Places(Vec<Twofold>);

impl Places {
    fn next(&mut self) -> Twofold {
        self.0.pop().expect("the plan has counted every sector")
    }
}

impl Allocator {
    /// Gives what persists the allocator as of `txg` once it is written, and reserves a place of `root_bytes` for the
    /// pool's root. Called once for each txg, when nobody allocates or frees for it any more. `twice`: all of it in two
    /// places, where there are such. After an error, also of those writes, the state in memory is ahead of the disk, and
    /// the pool must be imported anew.
    pub fn commit(&self, txg: Txg, root_bytes: usize, twice: bool) -> Result<Committed, BlockError> {
        let mut persisted = self.persisted.lock();
        assert!(txg > persisted.txg, "txg {txg} is committed after {}", persisted.txg);
        let place = self.place(txg, sectors_of(root_bytes))?;
        let copy = match &place {
            Place::Whole(dva) if twice => self.alloc_apart(txg, dva, dva.bytes(), dva.bytes()),
            _ => None,
        };
        let (range_count, freed_twice) = self.deferred.lock().prepare(txg);
        self.count_freed_twice(freed_twice);
        let mut places = Vec::new();
        let plan = loop {
            let plan = self.plan(&persisted, txg, range_count);
            let Some(missing) = plan.sectors.checked_sub(places.len()).filter(|missing| *missing > 0) else {
                break plan;
            };
            let run = self.alloc_sectors(txg, u32::try_from(missing).unwrap_or(u32::MAX), 1)?;
            let mut copies = if twice { self.sectors_apart(txg, &run) } else { Vec::new() }.into_iter();
            places.extend(single_sectors(run).map(|dva| Twofold { dva, copy: copies.next() }));
        };
        places.reverse();
        let mut places = Places(places);
        self.defer_replaced(&persisted, &plan, txg);
        let mut sectors = Vec::with_capacity(plan.sectors);
        for (vdev, plan) in plan.index.iter().enumerate() {
            self.encode_index(vdev, &mut persisted.indexes[vdev], plan, txg, &mut places, &mut sectors);
        }
        self.encode_chain(plan.chain_sectors, txg, &mut places, &mut sectors);
        assert!(places.0.is_empty(), "{} sectors were taken for nothing", places.0.len());
        persisted.txg = txg;
        let space = self.space();
        assert!(space.free + space.deferred <= space.total, "sectors are counted twice: {space:?}");
        Ok(Committed { root: self.root(&persisted, txg), place, copy, sectors })
    }

    fn plan(&self, persisted: &Persisted, txg: Txg, range_count: usize) -> Plan {
        let index: Vec<_> =
            self.vdevs.iter().zip(&persisted.indexes).map(|(vdev, index)| index.plan(vdev.touched(txg))).collect();
        let replaced: usize =
            index.iter().zip(&persisted.indexes).map(|(plan, index)| index.replaced(plan).count()).sum();
        let chain_sectors = (range_count + replaced).div_ceil(RANGES_PER_SECTOR);
        let index_sectors: usize = index.iter().flatten().map(Vec::len).sum();
        Plan { index, chain_sectors, sectors: index_sectors + chain_sectors }
    }

    fn defer_replaced(&self, persisted: &Persisted, plan: &Plan, txg: Txg) {
        let mut deferred = self.deferred.lock();
        for (plan, index) in plan.index.iter().zip(&persisted.indexes) {
            for dva in index.replaced(plan) {
                deferred.add(txg, dva);
            }
        }
    }

    fn encode_index(
        &self,
        vdev: usize,
        index: &mut SpaceIndex,
        plan: &[Vec<usize>],
        txg: Txg,
        places: &mut Places,
        sectors: &mut Vec<(BlockPtr, Vec<u8>)>,
    ) {
        for (level, touched) in plan.iter().enumerate() {
            for at in touched {
                let (kind, bytes) = if level == 0 {
                    let mut bytes = vec![0; SECTOR];
                    self.vdevs[vdev].regions[*at].lock().commit(txg, &mut bytes);
                    (BlockKind::SpaceMap, bytes)
                } else {
                    (BlockKind::SpaceIndex, index.encode(level, *at))
                };
                let pointer = sector_pointer(places.next(), kind, txg, &bytes);
                index.levels[level][*at] = Some(pointer);
                sectors.push((pointer, bytes));
            }
        }
    }

    /// The last sector first, since each names the next.
    fn encode_chain(&self, sector_count: usize, txg: Txg, places: &mut Places, sectors: &mut Vec<(BlockPtr, Vec<u8>)>) {
        let mut deferred = self.deferred.lock();
        let list = deferred.list_mut(txg);
        debug_assert_eq!(list.ranges.len().div_ceil(RANGES_PER_SECTOR), sector_count, "the list is as planned");
        let mut next: Option<BlockPtr> = None;
        for ranges in list.ranges.chunks(RANGES_PER_SECTOR).rev() {
            let bytes = encode_sector(next.as_ref(), ranges);
            let pointer = sector_pointer(places.next(), BlockKind::Deferred, txg, &bytes);
            sectors.push((pointer, bytes));
            list.chain.push(pointer);
            next = Some(pointer);
        }
        list.chain.reverse();
    }

    fn root(&self, persisted: &Persisted, txg: Txg) -> AllocRoot {
        let line = |(vdev, index): (&super::VdevSpace, &SpaceIndex)| VdevRoot {
            index: vdev.index(),
            sectors: vdev.sectors(),
            excluded: vdev.excluded(),
            top: index.top(),
        };
        AllocRoot {
            vdevs: self.vdevs.iter().zip(&persisted.indexes).map(line).collect(),
            deferred: self.deferred.lock().heads(txg),
        }
    }

    /// An upper bound for the encoded size of the root that the next commit returns.
    pub fn root_bytes_max(&self) -> usize {
        AllocRoot::bytes(self.vdevs.len(), self.deferred.lock().list_count() + 1)
    }

    /// Second places for the sectors of a run, as far as there are any.
    fn sectors_apart(&self, txg: Txg, run: &Dva) -> Vec<Dva> {
        let mut copies: Vec<Dva> = Vec::new();
        let mut missing = run.bytes();
        while missing > 0 {
            let Some(found) = self.alloc_apart(txg, run, missing, SECTOR as u64) else { break };
            missing -= found.bytes();
            copies.extend(single_sectors(found));
        }
        copies
    }

    pub(super) fn alloc_sectors(&self, txg: Txg, want: u32, at_least: u32) -> Result<Dva, NoSpace> {
        let bytes = |sectors: u32| u64::from(sectors) * SECTOR as u64;
        self.alloc_run(txg, bytes(want), bytes(at_least))
    }
}

fn single_sectors(run: Dva) -> impl Iterator<Item = Dva> {
    (0..u64::from(run.sectors)).map(move |at| Dva { sectors: 1, offset: run.offset + at * SECTOR as u64, ..run })
}
