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
use super::space_line::SpaceLine;
use super::vdev_space::VdevSpace;
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
    vdevs: Vec<VdevPlan>,
    /// Of the group's own list.
    chain_sectors: usize,
    sectors: usize,
}

/// Of one vdev.
struct VdevPlan {
    /// The regions whose maps are written.
    maps: Vec<usize>,
    /// For each level of the index, the sectors to write.
    index: Vec<Vec<usize>>,
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
        let (range_count, freed_twice) = {
            let mut deferred = self.deferred.lock();
            deferred.tidy(&mut self.maps.ripe.lock());
            deferred.prepare(txg)
        };
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
        for ((vdev, index), plan) in self.vdevs.iter().zip(&mut persisted.indexes).zip(&plan.vdevs) {
            self.encode_maps(vdev, plan, txg, &mut places, &mut sectors);
            encode_index(vdev, index, plan, txg, &mut places, &mut sectors);
            vdev.forget_clean();
        }
        self.encode_chains(plan.chain_sectors, txg, &mut places, &mut sectors);
        assert!(places.0.is_empty(), "{} sectors were taken for nothing", places.0.len());
        persisted.txg = txg;
        let space = self.space();
        assert!(space.free + space.deferred <= space.total, "sectors are counted twice: {space:?}");
        Ok(Committed { root: self.root(&persisted, txg), place, copy, sectors })
    }

    fn plan(&self, persisted: &Persisted, txg: Txg, range_count: usize) -> Plan {
        let plan_of = |(vdev, index): (&VdevSpace, &SpaceIndex)| {
            let maps = vdev.touched(txg);
            VdevPlan { index: index.plan(&maps), maps }
        };
        let vdevs: Vec<_> = self.vdevs.iter().zip(&persisted.indexes).map(plan_of).collect();
        let replaced = self.replaced(persisted, &vdevs).count();
        let chain_sectors = (range_count + replaced).div_ceil(RANGES_PER_SECTOR);
        let written: usize =
            vdevs.iter().map(|plan| plan.maps.len() + plan.index.iter().map(Vec::len).sum::<usize>()).sum();
        let sectors = written + chain_sectors + self.deferred.lock().unwritten_sectors();
        Plan { vdevs, chain_sectors, sectors }
    }

    /// The sectors that a plan replaces.
    fn replaced<'a>(&'a self, persisted: &'a Persisted, plans: &'a [VdevPlan]) -> impl Iterator<Item = Dva> + 'a {
        self.vdevs.iter().zip(&persisted.indexes).zip(plans).flat_map(|((vdev, index), plan)| {
            let line_of = |region: &usize| vdev.regions[*region].lock().line();
            let maps = plan.maps.iter().filter_map(line_of).flat_map(|line| line.places());
            maps.chain(index.replaced(&plan.index))
        })
    }

    fn defer_replaced(&self, persisted: &Persisted, plan: &Plan, txg: Txg) {
        let mut deferred = self.deferred.lock();
        for dva in self.replaced(persisted, &plan.vdevs) {
            deferred.add(txg, dva);
        }
    }

    /// The maps, each of which leaves its line with its region.
    fn encode_maps(
        &self,
        vdev: &VdevSpace,
        plan: &VdevPlan,
        txg: Txg,
        places: &mut Places,
        sectors: &mut Vec<(BlockPtr, Vec<u8>)>,
    ) {
        // All that is ripe for a region is in its map as soon as that is in memory.
        let applied = self.maps.ripe_through();
        for at in &plan.maps {
            let mut bytes = vec![0; SECTOR];
            let mut region = vdev.regions[*at].lock();
            let figures = region.commit(txg, &mut bytes);
            let pointer = sector_pointer(places.next(), BlockKind::SpaceMap, txg, &bytes);
            region.set_line(&SpaceLine::of(&pointer, applied, figures));
            sectors.push((pointer, bytes));
        }
    }

    fn encode_chains(
        &self,
        sector_count: usize,
        txg: Txg,
        places: &mut Places,
        sectors: &mut Vec<(BlockPtr, Vec<u8>)>,
    ) {
        let mut deferred = self.deferred.lock();
        if let Some(ripe) = deferred.unwritten() {
            let ranges = std::mem::take(&mut ripe.unwritten);
            ripe.chain = encode_chain(&ranges, txg, places, sectors);
        }
        let list = deferred.list_mut(txg);
        debug_assert_eq!(list.ranges.len().div_ceil(RANGES_PER_SECTOR), sector_count, "the list is as planned");
        list.chain = encode_chain(&list.ranges, txg, places, sectors);
    }

    fn root(&self, persisted: &Persisted, txg: Txg) -> AllocRoot {
        let line = |(vdev, index): (&VdevSpace, &SpaceIndex)| VdevRoot {
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

/// The index above the maps, from the lines up.
fn encode_index(
    vdev: &VdevSpace,
    index: &mut SpaceIndex,
    plan: &VdevPlan,
    txg: Txg,
    places: &mut Places,
    sectors: &mut Vec<(BlockPtr, Vec<u8>)>,
) {
    for (level, touched) in plan.index.iter().enumerate() {
        for at in touched {
            let bytes = if level == 0 { vdev.encode_lines(*at) } else { index.encode(level, *at) };
            let pointer = sector_pointer(places.next(), BlockKind::SpaceIndex, txg, &bytes);
            index.levels[level][*at] = Some(pointer);
            sectors.push((pointer, bytes));
        }
    }
    index.stale.clear();
}

/// Writes ranges as a chain: the last sector first, since each names the next.
fn encode_chain(
    ranges: &[Dva],
    txg: Txg,
    places: &mut Places,
    sectors: &mut Vec<(BlockPtr, Vec<u8>)>,
) -> Vec<BlockPtr> {
    let mut chain: Vec<BlockPtr> = Vec::new();
    for ranges in ranges.chunks(RANGES_PER_SECTOR).rev() {
        let bytes = encode_sector(chain.last(), ranges);
        let pointer = sector_pointer(places.next(), BlockKind::Deferred, txg, &bytes);
        sectors.push((pointer, bytes));
        chain.push(pointer);
    }
    chain.reverse();
    chain
}

fn single_sectors(run: Dva) -> impl Iterator<Item = Dva> {
    (0..u64::from(run.sectors)).map(move |at| Dva { sectors: 1, offset: run.offset + at * SECTOR as u64, ..run })
}
