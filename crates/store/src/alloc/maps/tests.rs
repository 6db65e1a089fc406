use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tally_base::{SECTOR, Txg, VdevIndex, block_checksum};
use tally_disk::Helpers;
use tally_fakes::MemBlockDev;
use tally_members::blockdev::{BlockDev, BlockDevs, numbered};

use super::Maps;
use crate::alloc::bitmap::REGION_SECTORS;
use crate::alloc::region::Region;
use crate::alloc::ripe::LISTS_MAX;
use crate::alloc::{AllocRoot, Allocator, Committed, SpaceLine, SpaceVisit};
use crate::bp::{BlockPtr, Dva};

const SECTOR_BYTES: u64 = SECTOR as u64;
const MIB: u64 = 1 << 20;
const REGION_BYTES: u64 = 128 * MIB;

/// A pool of one disk, the blocks of a mebibyte that are in use, and the newest root.
struct World {
    dev: Arc<MemBlockDev>,
    devs: BlockDevs,
    alloc: Allocator,
    live: Vec<Dva>,
    newest: Option<Committed>,
    txg: Txg,
}

impl World {
    /// Maps stay in memory for as long as they must.
    fn of(regions: u64) -> Self {
        let dev = Arc::new(MemBlockDev::new(regions * REGION_BYTES));
        let devs = numbered([Arc::clone(&dev) as _]);
        let alloc = Allocator::create(&devs, &[]);
        alloc.keep_maps(0);
        Self { dev, devs, alloc, live: Vec::new(), newest: None, txg: Txg(0) }
    }

    /// Takes all there is, but for what commits need.
    fn fill(&mut self) {
        while let Ok(dva) = self.alloc.alloc(self.txg.next(), MIB) {
            self.live.push(dva);
        }
        for dva in self.live.split_off(self.live.len() - 4) {
            self.alloc.abandon(dva);
        }
    }

    fn commit(&mut self) {
        self.txg = self.txg.next();
        if let Some(before) = &self.newest {
            before.place.ranges().for_each(|dva| self.alloc.free(dva, self.txg));
        }
        let committed = self.alloc.commit(self.txg, 1000, false).expect("there is room");
        committed.write(&self.devs).expect("a disk in memory");
        self.alloc.released(self.txg);
        self.alloc.ask_behind(self.txg);
        self.newest = Some(committed);
    }

    fn root(&self) -> &AllocRoot {
        &self.newest.as_ref().expect("it was committed").root
    }

    fn import(&mut self) {
        self.alloc = Allocator::load(&self.devs, self.root(), self.txg, Helpers::Threads, &mut Vec::new())
            .expect("a sound index");
        self.alloc.keep_maps(0);
    }

    /// Takes a block of a region out of what is in use, and frees it.
    fn free_one_in(&mut self, region: u64) -> Dva {
        let at = self.live.iter().position(|dva| dva.offset / REGION_BYTES == region).expect("it is in use");
        let dva = self.live.swap_remove(at);
        self.alloc.free(dva, self.txg.next());
        dva
    }

    /// Each region's line.
    fn lines(&self) -> BTreeMap<usize, SpaceLine> {
        let mut lines = BTreeMap::new();
        self.root().inspect(&self.devs, &mut |visit| {
            if let SpaceVisit::Map { region, line, .. } = visit {
                lines.insert(region, *line);
            }
        });
        lines
    }

    /// What is wrong by an inspection.
    fn damage(&self) -> Vec<String> {
        let mut damage = Vec::new();
        self.root().inspect(&self.devs, &mut |visit| {
            if let SpaceVisit::Damage { error, .. } = visit {
                damage.push(error.to_string());
            }
        });
        damage
    }

    /// What counts as free can be taken, to the last sector, and nothing else. It is given back.
    fn check_free_is_had(&self) {
        let free = self.alloc.space().free;
        let mut taken = Vec::new();
        while let Ok(dva) = self.alloc.alloc(self.txg.next(), SECTOR_BYTES) {
            taken.push(dva);
        }
        assert_eq!(taken.len() as u64 * SECTOR_BYTES, free);
        taken.into_iter().for_each(|dva| self.alloc.abandon(dva));
    }

    /// All is accounted for, and what is in use is in the maps.
    fn check(&self) {
        let space = self.alloc.space();
        let live: u64 = self.live.iter().map(Dva::bytes).sum();
        let root: u64 = self.newest.iter().flat_map(|newest| newest.place.ranges()).map(|dva| dva.bytes()).sum();
        assert_eq!(space.allocated, live + root + self.alloc.own_bytes(), "{space:?}");
        assert!(self.live.iter().all(|dva| self.alloc.is_busy(dva)));
        assert_eq!(self.alloc.bad_free_count(), 0);
    }
}

/// One map that could not be read kept the whole pool from being written.
#[test]
fn a_region_whose_map_cannot_be_read_is_fenced_off_and_nothing_of_it_is_lost() {
    let mut world = World::of(3);
    world.fill();
    for region in [0, 0, 1, 2] {
        world.free_one_in(region);
    }
    for _ in 0..3 {
        world.commit();
    }
    let before = world.alloc.space();
    let usable = |world: &World| world.alloc.space().free + world.alloc.space().deferred;
    let usable_before = usable(&world);
    let map = world.lines()[&1].pointer().dva;
    world.dev.rot(map.offset, 1);
    world.import();
    assert_eq!((usable(&world), world.alloc.fenced().0), (usable_before, 0), "nobody has looked");
    // What is in use there can be freed, before it is known and afterwards.
    let early = world.free_one_in(1);
    world.commit();
    let mut taken = Vec::new();
    while let Ok(dva) = world.alloc.alloc(world.txg.next(), MIB / 2) {
        taken.push(dva);
    }
    assert!(taken.len() > 2 && taken.iter().all(|dva| dva.offset / REGION_BYTES != 1), "{taken:?}");
    let (count, told) = world.alloc.fenced();
    assert!(count == 1 && told[0].starts_with("region 1 of vdev 0: "), "{told:?}");
    assert!(!told[0].contains("--readonly"), "all else of the pool can be written: {told:?}");
    assert!(world.alloc.alloc(world.txg.next(), MIB).is_err_and(|error| error.fenced == 1));
    taken.into_iter().for_each(|dva| world.alloc.abandon(dva));
    let late = world.free_one_in(1);
    for _ in 0..12 {
        world.commit();
    }
    assert_eq!(world.damage().len(), 1);
    world.check_free_is_had();
    // The disk gives it after all.
    world.dev.rot(map.offset, 1);
    world.import();
    let (kept, total) = (world.alloc.space(), world.alloc.space().total);
    world.check();
    assert!([early, late].iter().all(|dva| !world.alloc.is_busy(dva)), "what was freed is free");
    assert_eq!((world.alloc.space(), world.alloc.fenced().0), (kept, 0));
    assert_eq!(total, before.total);
}

/// Whoever copies a disk goes by maps that nobody else needs now; of 100 TiB they would be 3 GiB. Of a region whose map is wrong, or
/// that a device refuses, he is told all, before anybody has found that out and afterwards.
#[test]
fn what_is_in_use_is_told_without_maps_being_kept_and_whole_regions_where_it_is_not_known() {
    let mut world = World::of(4);
    world.fill();
    let holes: Vec<_> = world.live.extract_if(.., |dva| dva.offset / MIB % 5 == 2).collect();
    holes.into_iter().for_each(|dva| world.alloc.abandon(dva));
    world.commit();
    let one = world.lines()[&1].pointer().dva;
    world.import();
    let occupied = |world: &World, region: u64| -> u64 {
        let ranges = world.alloc.occupied(VdevIndex(0)).expect("a data vdev");
        let within = |range: &std::ops::Range<u64>| range.start / REGION_BYTES == region;
        ranges.filter(within).map(|range| range.end - range.start).sum()
    };
    let in_use = |world: &World, region: u64| {
        let figures = world.lines()[&(region as usize)].figures;
        REGION_BYTES - u64::from(figures.free) * SECTOR_BYTES
    };
    let all = |world: &World| (0..4).map(|region| occupied(world, region)).collect::<Vec<_>>();
    let right: Vec<_> = (0..4).map(|region| in_use(&world, region)).collect();
    assert!(right.iter().all(|bytes| *bytes < REGION_BYTES), "{right:?}");
    assert_eq!((all(&world), world.alloc.maps.loaded.lock().len()), (right.clone(), 0));
    world.dev.rot(one.offset, 1);
    let told = [right[0], REGION_BYTES, right[2], right[3]];
    assert_eq!((all(&world), world.alloc.fenced().0), (told.to_vec(), 0), "nobody needs it");
    let first_of = |region: u64| Dva { vdev: VdevIndex(0), offset: region * REGION_BYTES, sectors: 1 };
    world.alloc.is_busy(&first_of(1));
    world.dev.refuse_reads(u64::MAX);
    assert_eq!(occupied(&world, 3), REGION_BYTES, "a device refuses it, and nobody needs it");
    world.alloc.is_busy(&first_of(2));
    world.dev.refuse_reads(0);
    assert_eq!((world.alloc.fenced().0, world.alloc.refused().0), (1, 1));
    assert_eq!(all(&world), [right[0], REGION_BYTES, REGION_BYTES, right[3]]);
    assert!(world.alloc.occupied(VdevIndex(1)).is_none());
}

/// A device that had refused one read of the only map made a pool with one region full until the next import.
#[test]
fn a_map_that_a_device_refuses_once_is_had_when_it_is_needed() {
    let mut world = World::of(1);
    world.fill();
    world.free_one_in(0);
    for _ in 0..3 {
        world.commit();
    }
    world.import();
    let space = world.alloc.space();
    world.dev.refuse_reads(1);
    let taken = world.alloc.alloc(world.txg.next(), MIB).expect("the device gives it when it is asked again");
    assert_eq!((world.alloc.fenced().0, world.alloc.refused().0), (0, 0));
    world.alloc.abandon(taken);
    assert_eq!(world.alloc.space(), space);
    world.commit();
    world.check();
}

/// A block that two groups have freed counted twice as free until its map was read.
#[test]
fn what_two_groups_have_freed_is_free_once() {
    let mut world = World::of(2);
    world.fill();
    world.commit();
    let usable = |world: &World| world.alloc.space().free + world.alloc.space().deferred + world.alloc.own_bytes();
    // Commits take from the other region.
    let freed = world.free_one_in(0);
    world.commit();
    let before = usable(&world);
    world.alloc.free(freed, world.txg.next());
    for _ in 0..3 {
        world.commit();
    }
    assert_eq!((usable(&world), world.alloc.bad_free_count()), (before, 1));
    assert!(!world.alloc.is_busy(&freed));
    assert_eq!((usable(&world), world.alloc.bad_free_count()), (before, 1));
}

/// A device that gives nothing: that is what is told, and no remark about files that should be removed.
#[test]
fn a_device_that_gives_no_map_is_told_of_and_not_a_full_pool() {
    let mut world = World::of(1);
    world.fill();
    world.free_one_in(0);
    for _ in 0..3 {
        world.commit();
    }
    world.import();
    let space = world.alloc.space();
    world.dev.refuse_reads(u64::MAX);
    let told = world.alloc.alloc(world.txg.next(), SECTOR_BYTES).expect_err("there is no map");
    assert_eq!((told.fenced, told.refused), (0, 1));
    assert!(told.to_string().contains("a device refuses") && !told.to_string().contains("remove"), "{told}");
    let (count, why) = world.alloc.refused();
    assert!(count == 1 && why[0].contains("region 0 of vdev 0"), "{why:?}");
    assert_eq!((world.alloc.space().free, world.alloc.ask_for_room()), (0, Some(false)), "nothing is promised there");
    let freed = world.free_one_in(0);
    world.dev.refuse_reads(0);
    assert_eq!(world.alloc.ask_for_room(), Some(true));
    assert_eq!((world.alloc.refused().0, world.alloc.ask_for_room()), (0, None));
    let now = world.alloc.space();
    assert_eq!((now.free, now.deferred), (space.free, space.deferred + freed.bytes()));
    for _ in 0..3 {
        world.commit();
    }
    world.check();
    assert!(!world.alloc.is_busy(&freed));
}

/// The rest of the pool goes on, and the device is asked again more and more seldom, until it gives what it has refused.
#[test]
fn refused_maps_are_asked_for_again_behind_groups() {
    let mut world = World::of(3);
    world.fill();
    for region in [0, 1, 1, 2] {
        world.free_one_in(region);
    }
    for _ in 0..3 {
        world.commit();
    }
    world.import();
    let usable = |world: &World| world.alloc.space().free + world.alloc.space().deferred + world.alloc.own_bytes();
    let (before, txg) = (usable(&world), world.txg.next());
    world.dev.refuse_reads(1);
    let taken = world.alloc.alloc(txg, MIB).expect("another region has it");
    let (count, why) = world.alloc.refused();
    let refused = (0..3).find(|region| why[0].starts_with(&format!("region {region} of vdev 0")));
    assert!(count == 1 && refused.is_some_and(|region| region != taken.offset / REGION_BYTES), "{taken}: {why:?}");
    let freed = world.free_one_in(refused.expect("one was refused"));
    // The other maps are in memory, and stay there: what is read from here on is the one that was refused.
    world.alloc.keep_maps(u64::MAX);
    let elsewhere = world.live.iter().filter(|dva| Some(dva.offset / REGION_BYTES) != refused);
    assert!(elsewhere.filter(|dva| !world.alloc.is_busy(dva)).count() == 0);
    world.live.push(taken);
    let mut asked = Vec::new();
    for turn in 1..40 {
        let reads = world.dev.read_count();
        world.dev.refuse_reads(1);
        world.commit();
        if world.dev.read_count() > reads {
            asked.push(turn);
        }
    }
    assert!((3..8).contains(&asked.len()) && asked[1] - asked[0] < asked[2] - asked[1], "asked behind {asked:?}");
    assert_eq!(world.alloc.refused().0, 1);
    world.dev.refuse_reads(0);
    for _ in 0..64 {
        world.commit();
    }
    assert_eq!((world.alloc.refused().0, world.alloc.fenced().0), (0, 0));
    assert_eq!(usable(&world), before - MIB + freed.bytes());
    world.check();
    assert!(!world.alloc.is_busy(&freed), "what was freed meanwhile is free");
    world.import();
    world.check();
}

/// A device that answers no read of a map is not asked for all of them: each takes it its time.
#[test]
fn a_device_that_refuses_many_maps_is_let_alone_until_the_next_group() {
    let mut world = World::of(40);
    world.fill();
    for region in 0..40 {
        world.free_one_in(region);
    }
    for _ in 0..3 {
        world.commit();
    }
    world.import();
    let reads = world.dev.read_count();
    world.dev.refuse_reads(u64::MAX);
    let told = world.alloc.alloc(world.txg.next(), SECTOR_BYTES).expect_err("there is no map");
    assert!(told.refused >= 8, "{told}");
    assert!(world.dev.read_count() - reads < 20, "{} reads", world.dev.read_count() - reads);
    world.dev.refuse_reads(0);
    world.alloc.alloc(world.txg.next(), MIB).expect("it gives some of them");
    for _ in 0..12 {
        world.commit();
    }
    assert_eq!(world.alloc.refused().0, 0);
}

/// A map with a right checksum that is not the one of which the index speaks.
#[test]
fn a_map_that_is_not_what_its_line_says_is_named() {
    let mut world = World::of(2);
    for _ in 0..4 {
        world.live.push(world.alloc.alloc(Txg(1), MIB).expect("an empty pool"));
    }
    world.commit();
    let mut root = world.root().clone();
    let (top, line) = (root.vdevs[0].top.expect("an index"), world.lines()[&0]);
    let mut figures = line.figures;
    figures.runs += 1;
    let mut lines = world.dev.read(top.dva.offset, SECTOR, &|_| true).expect("it was written").to_vec();
    lines[..64].copy_from_slice(&SpaceLine::of(&line.pointer(), line.applied, figures).encode());
    world.dev.write(top.dva.offset, &lines).expect("a disk in memory");
    root.vdevs[0].top = Some(BlockPtr { checksum: block_checksum(&lines), ..top });
    world.newest.as_mut().expect("it was committed").root = root;
    let told = world.damage();
    let said = format!("has {}, and the index says {figures}", line.figures);
    assert!(told.len() == 1 && told[0].contains(&said), "{told:?}");
    world.import();
    assert!(world.alloc.is_busy(&world.live[0]), "what is not known is in use");
    assert!(world.alloc.fenced().1[0].contains(&said), "{:?}", world.alloc.fenced());
    let taken = world.alloc.alloc(Txg(2), MIB).expect("the other region is sound");
    assert_eq!(taken.offset / REGION_BYTES, 1);
}

/// A full pool, and frees in regions whose maps are not in memory: they cost no read, count as free, and are had.
#[test]
fn what_is_ripe_counts_as_free_and_is_applied_before_an_allocation_fails() {
    let mut world = World::of(4);
    world.fill();
    world.commit();
    for region in [1, 1, 2, 2, 3] {
        world.free_one_in(region);
    }
    let before = (world.dev.read_count(), world.alloc.space().free);
    // The frees are ripe behind the third.
    for _ in 0..3 {
        world.commit();
    }
    assert!(world.dev.read_count() - before.0 <= 4, "a commit reads the map that it takes from");
    let ripe = world.root().deferred.iter().filter(|head| head.is_ripe).count();
    assert!(ripe > 0, "{:?}", world.root());
    let free = world.alloc.space().free;
    assert!(free > before.1 + 4 * MIB, "{free} bytes of {} are free", 5 * MIB);
    for imports in [false, true] {
        let usable = world.alloc.space().free + world.alloc.space().deferred;
        if imports {
            world.import();
        }
        assert_eq!(world.alloc.space().free + world.alloc.space().deferred, usable);
        world.check_free_is_had();
    }
    world.check();
    world.commit();
    world.import();
    world.check();
}

/// More maps are in memory than are to stay. Those go that came first, but for those in use; and where all are, those too.
#[test]
fn maps_that_are_used_go_last() {
    let maps = Maps::new(&BlockDevs::new());
    let mut used = BTreeSet::from([0, 1]);
    (0..5).for_each(|at| maps.note_loaded((VdevIndex(0), at)));
    let trim = |to: u64, used: &mut BTreeSet<usize>| {
        let mut gone = Vec::new();
        maps.keep(to * SECTOR_BYTES);
        maps.trim(|(_, at)| {
            !used.remove(&at) && {
                gone.push(at);
                true
            }
        });
        gone
    };
    assert_eq!(trim(3, &mut used), [2, 3]);
    used.extend([0, 1, 4]);
    assert_eq!(trim(1, &mut used), [4, 0]);
    // A region is used by whoever changes it, until it is asked whether its map may go.
    let mut region = Region::new(REGION_SECTORS);
    region.take(Txg(1), 0..8, 1, 1).expect("it is free");
    assert!(!region.unload() && !region.unload(), "its map is on no disk");
    region.commit(Txg(1), &mut [0; SECTOR]);
    assert!(!region.unload() && region.unload());
}

/// Each group frees something elsewhere, and nobody ever needs the maps.
#[test]
fn ripe_lists_are_few_and_say_all_that_is_ripe() {
    let mut world = World::of(24);
    world.fill();
    world.commit();
    let mut freed = Vec::new();
    for turn in 0..3 * LISTS_MAX as u64 {
        freed.push(world.free_one_in(1 + turn % 23));
        world.commit();
        let heads = &world.root().deferred;
        assert!(heads.len() <= LISTS_MAX + 3, "a root names {} lists", heads.len());
    }
    for _ in 0..2 {
        world.commit();
    }
    let usable = |world: &World| world.alloc.space().free + world.alloc.space().deferred;
    let usable_before = usable(&world);
    world.import();
    assert_eq!(usable(&world), usable_before);
    assert!(freed.iter().all(|dva| !world.alloc.is_busy(dva)), "what was freed is free");
    world.check();
    // All of it is in the maps now, and no list is needed for it but those that waited for an uberblock.
    let looked = world.txg;
    for _ in 0..3 {
        world.commit();
    }
    assert!(world.root().deferred.iter().all(|head| head.txg.next() >= looked), "{:?}", world.root().deferred);
    world.import();
    world.check();
}
