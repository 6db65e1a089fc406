use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use tally_base::block_checksum;
use tally_base::codec::Reader;
use tally_disk::Helpers;
use tally_fakes::MemBlockDev;
use tally_members::blockdev::{BlockDev, numbered};

use super::commit::Twofold;
use super::deferred::encode_sector;
use super::space_index::sector_pointer;
use super::*;
use crate::bp::BlockKind;

const SECTOR_BYTES: u64 = SECTOR as u64;
const MIB: u64 = 1 << 20;

fn devices(sizes: &[u64]) -> (Vec<Arc<MemBlockDev>>, BlockDevs) {
    let mem: Vec<_> = sizes.iter().map(|size| Arc::new(MemBlockDev::new(*size))).collect();
    let devs = numbered(mem.iter().map(|dev| dev.clone() as _));
    (mem, devs)
}

/// A commit that is written.
fn commit(alloc: &Allocator, txg: Txg, root_bytes: usize) -> Committed {
    commit_as(alloc, txg, root_bytes, false)
}

fn commit_as(alloc: &Allocator, txg: Txg, root_bytes: usize, twice: bool) -> Committed {
    let committed = alloc.commit(txg, root_bytes, twice).expect("there is space");
    committed.write(&alloc.devs).expect("a disk in memory");
    committed
}

fn overlap(a: &Dva, b: &Dva) -> bool {
    a.vdev == b.vdev && a.offset < b.end() && b.offset < a.end()
}

/// What one uberblock names: the roots, and every block that is in use.
#[derive(Clone)]
struct Durable {
    txg: Txg,
    root: AllocRoot,
    /// Of the root, and of its second copy.
    places: Vec<Dva>,
    live: Vec<Dva>,
}

/// An allocator under random use, and what it must remember.
struct World {
    devs: BlockDevs,
    alloc: Allocator,
    /// Newest last; the two that an import can choose.
    window: Vec<Durable>,
    live: Vec<(Dva, Txg)>,
    /// Never goes back, not even when an import falls back.
    syncing: Txg,
    /// No map stays in memory that need not, and nobody reads one to look at it.
    forgets: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Alloc {
        early: bool,
        want: u64,
        at_least: u64,
        used: u64,
    },
    Free {
        which: usize,
    },
    Abandon {
        which: usize,
    },
    Commit {
        twice: bool,
    },
    Crash,
    /// The newest uberblock turned out to be torn.
    FallBack,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (any::<bool>(), 1_u64..300, 1_u64..40, 0_u64..300)
            .prop_map(|(early, want, at_least, used)| Step::Alloc { early, want: want.max(at_least), at_least, used }),
        8 => any::<usize>().prop_map(|which| Step::Free { which }),
        2 => any::<usize>().prop_map(|which| Step::Abandon { which }),
        5 => any::<bool>().prop_map(|twice| Step::Commit { twice }),
        1 => Just(Step::Crash),
        1 => Just(Step::FallBack),
    ];
    prop::collection::vec(step, 1..250)
}

impl World {
    fn new(sizes: &[u64]) -> Self {
        let (_, devs) = devices(sizes);
        let alloc = Allocator::create(&devs, &[(VdevIndex(0), 2 * MIB, MIB)]);
        Self { devs, alloc, window: Vec::new(), live: Vec::new(), syncing: Txg(1), forgets: false }
    }

    fn that_forgets(sizes: &[u64], forgets: bool) -> Self {
        let world = Self { forgets, ..Self::new(sizes) };
        world.alloc.keep_maps(if forgets { 0 } else { u64::MAX });
        world
    }

    /// What nobody may be given: everything in use, and everything that the two newest uberblocks name.
    fn assert_unused(&self, dva: &Dva) {
        for (live, birth) in &self.live {
            assert!(!overlap(dva, live), "{dva} was handed out while {live} of txg {birth} is in use");
        }
        for durable in &self.window {
            let named = durable.live.iter().chain(&durable.places);
            for live in named {
                assert!(!overlap(dva, live), "{dva} was handed out, and uberblock {} names {live}", durable.txg);
            }
        }
        assert!(
            dva.vdev != VdevIndex(0) || dva.offset >= 3 * MIB || dva.end() <= 2 * MIB,
            "{dva} is in the excluded range"
        );
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Alloc { early, want, at_least, used } => {
                let txg = if *early { self.syncing.next() } else { self.syncing };
                let Ok(run) = self.alloc.alloc_run(txg, want * SECTOR_BYTES, at_least * SECTOR_BYTES) else { return };
                assert!(run.sectors as u64 >= *at_least && run.sectors as u64 <= *want);
                self.assert_unused(&run);
                let used = (*used).min(u64::from(run.sectors));
                self.alloc.shrink(run, used * SECTOR_BYTES);
                if used > 0 {
                    self.live.push((Dva { sectors: used as u32, ..run }, txg));
                }
            }
            Step::Free { which } if !self.live.is_empty() => {
                let (dva, birth) = self.live.swap_remove(which % self.live.len());
                self.alloc.free(dva, birth.max(self.syncing));
            }
            Step::Abandon { which } if !self.live.is_empty() => {
                let which = which % self.live.len();
                if self.live[which].1 >= self.syncing {
                    self.alloc.abandon(self.live.swap_remove(which).0);
                }
            }
            Step::Free { .. } | Step::Abandon { .. } => {}
            Step::Commit { twice } => self.commit_as(*twice),
            Step::Crash => self.load(),
            Step::FallBack if self.window.len() == 2 => {
                self.window.pop();
                self.load();
            }
            Step::FallBack => {}
        }
        self.check_space();
    }

    fn commit(&mut self) {
        self.commit_as(false);
    }

    fn commit_as(&mut self, twice: bool) {
        let txg = self.syncing;
        if let Some(durable) = self.window.last() {
            durable.places.iter().for_each(|place| self.alloc.free(*place, txg));
        }
        let committed = commit_as(&self.alloc, txg, 100, twice);
        let crate::block::scatter::Place::Whole(place) = committed.place else { panic!("there was room in one piece") };
        assert!(committed.copy.is_none_or(|copy| twice && self.alloc.are_apart(&place, &copy)));
        for (bp, _) in &committed.sectors {
            assert!(bp.copy.is_none_or(|copy| twice && self.alloc.are_apart(&bp.dva, &copy)), "{bp} and {:?}", bp.copy);
        }
        let places: Vec<_> = std::iter::once(place).chain(committed.copy).collect();
        places.iter().for_each(|place| self.assert_unused(place));
        let live = self.live.iter().filter(|(_, birth)| *birth <= txg).map(|(dva, _)| *dva).collect();
        let mut bytes = Vec::new();
        committed.root.encode(&mut bytes);
        assert!(bytes.len() <= self.alloc.root_bytes_max());
        let root = AllocRoot::decode(&mut Reader::new(&bytes, "test")).expect("just encoded");
        assert_eq!(root, committed.root);
        self.window.push(Durable { txg, root, places, live });
        if self.window.len() > 2 {
            self.window.remove(0);
        }
        self.alloc.released(txg);
        self.syncing = txg.next();
    }

    fn load(&mut self) {
        let Some(durable) = self.window.last() else { return };
        self.alloc = Allocator::load(&self.devs, &durable.root, durable.txg, Helpers::Threads, &mut Vec::new())
            .expect("sound space maps");
        self.alloc.keep_maps(if self.forgets { 0 } else { u64::MAX });
        self.live = durable.live.iter().map(|dva| (*dva, durable.txg)).collect();
        // The open txg may have written too; its number is not used again.
        self.syncing = Txg(self.syncing.0 + 2);
    }

    /// Every sector is accounted for: in use, deferred, the allocator's own, or free. So nothing leaks.
    fn check_space(&self) {
        let space = self.alloc.space();
        let live: u64 = self.live.iter().map(|(dva, _)| dva.bytes()).sum();
        let place: u64 = self.window.last().iter().flat_map(|durable| &durable.places).map(Dva::bytes).sum();
        assert_eq!(space.allocated, live + place + self.alloc.own_bytes(), "{space:?}");
        assert_eq!(space.total, space.allocated + space.deferred + space.free);
        assert!(self.forgets || self.live.iter().all(|(dva, _)| self.alloc.is_busy(dva)));
        assert_eq!(self.alloc.bad_free_count(), 0);
        self.check_occupied();
    }

    /// A copy by the space maps brings everything: what is in use, and what an import could choose instead.
    fn check_occupied(&self) {
        let mut bytes = 0;
        let mut occupied: Vec<Dva> = Vec::new();
        for index in self.devs.keys() {
            for range in self.alloc.occupied(*index).expect("a data vdev") {
                bytes += range.end - range.start;
                let sectors = u32::try_from((range.end - range.start) / SECTOR_BYTES).unwrap();
                // Neighbours in two regions are one here.
                match occupied.last_mut().filter(|last| last.vdev == *index && last.end() == range.start) {
                    Some(last) => last.sectors += sectors,
                    None => occupied.push(Dva { vdev: *index, offset: range.start, sectors }),
                }
            }
        }
        let is_covered = |dva: &Dva| {
            let behind = occupied.partition_point(|range| (range.vdev, range.offset) <= (dva.vdev, dva.offset));
            let range = occupied[..behind].last();
            range.is_some_and(|range| range.vdev == dva.vdev && dva.end() <= range.end())
        };
        let named = self.window.iter().flat_map(|durable| durable.live.iter().chain(&durable.places));
        let missing = self.live.iter().map(|(dva, _)| dva).chain(named).find(|dva| !is_covered(dva));
        assert_eq!(missing, None, "of {occupied:?}");
        // What is ripe and in no map yet counts as free, and is copied.
        let ripe: u64 = self.alloc.maps.ripe.lock().all().iter().map(Dva::bytes).sum();
        let total = self.devs.values().map(|dev| dev.data_bytes()).sum::<u64>();
        assert_eq!(bytes, total - self.alloc.space().free + ripe);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 500, ..ProptestConfig::default() })]

    /// Nothing that can still be read is handed out, nothing leaks, across crashes and torn uberblocks.
    #[test]
    fn nothing_is_lost_and_nothing_leaks(steps in steps(), two_devs: bool, forgets: bool) {
        let sizes: &[u64] = if two_devs { &[20 * MIB, 300 * MIB] } else { &[64 * MIB] };
        let mut world = World::that_forgets(sizes, forgets);
        for step in &steps {
            world.step(step);
        }
        // When everything has been freed, only the root and the allocator's own sectors remain.
        for (dva, birth) in std::mem::take(&mut world.live) {
            world.alloc.free(dva, birth.max(world.syncing));
        }
        for _ in 0..4 {
            world.commit();
        }
        world.load();
        world.forgets = false;
        world.check_space();
        let space = world.alloc.space();
        prop_assert!(space.allocated + space.deferred < 40 * SECTOR_BYTES, "{:?}", space);
    }

    #[test]
    fn any_bytes_are_a_root_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400), flip in 0_usize..400, bit in 0_u8..8) {
        let _ = AllocRoot::decode(&mut Reader::new(&bytes, "test"));
        let mut world = World::new(&[64 * MIB]);
        world.commit();
        let mut bytes = Vec::new();
        world.window[0].root.encode(&mut bytes);
        if let Some(byte) = bytes.get_mut(flip) {
            *byte ^= 1 << bit;
        }
        if let Ok(root) = AllocRoot::decode(&mut Reader::new(&bytes, "test")) {
            let _ = Allocator::load(&world.devs, &root, Txg(1), Helpers::Threads, &mut Vec::new());
        }
    }
}

#[test]
fn a_freed_block_waits_for_the_next_uberblock_also_after_an_import() {
    let mut world = World::new(&[16 * MIB]);
    let block = world.alloc.alloc(Txg(1), SECTOR_BYTES).expect("an empty pool");
    world.live.push((block, Txg(1)));
    world.commit();
    world.step(&Step::Free { which: 0 });
    world.commit();
    assert!(world.alloc.is_busy(&block), "uberblock 2 is durable, but 1 names it");
    world.load();
    assert!(world.alloc.is_busy(&block), "the list was persisted");
    world.commit();
    assert!(!world.alloc.is_busy(&block), "a second uberblock without it is durable");
}

#[test]
fn bad_frees_are_counted_and_change_nothing() {
    let mut world = World::new(&[16 * MIB]);
    let block = world.alloc.alloc(Txg(1), 4 * SECTOR_BYTES).expect("an empty pool");
    world.live.push((block, Txg(1)));
    world.commit();
    let space = world.alloc.space();
    let bad = [
        Dva { offset: 12 * MIB, ..block },
        Dva { offset: block.offset + SECTOR_BYTES, sectors: 1 << 20, ..block },
        Dva { vdev: VdevIndex(7), ..block },
        Dva { offset: u64::MAX, ..block },
    ];
    for dva in bad {
        world.alloc.free(dva, Txg(2));
        world.alloc.abandon(dva);
    }
    assert_eq!(world.alloc.space(), space);
    assert_eq!(world.alloc.bad_free_count(), 8);
    world.alloc.free(block, Txg(2));
    world.alloc.free(Dva { sectors: 1, ..block }, Txg(2));
    world.live.clear();
    let place = world.window[0].places[0];
    world.alloc.free(place, Txg(2));
    commit(&world.alloc, Txg(2), 100);
    assert_eq!(world.alloc.bad_free_count(), 9, "the second free of the first sector");
    commit(&world.alloc, Txg(3), 100);
    world.alloc.released(Txg(3));
    assert_eq!(world.alloc.bad_free_count(), 9);
    assert!(!world.alloc.is_busy(&block));
}

/// Inspection names every sector of the allocator, and goes on behind damage.
#[test]
fn inspection_goes_on_after_damage() {
    let (mem, devs) = devices(&[300 * MIB, 16 * MIB]);
    let alloc = Allocator::create(&devs, &[]);
    let blocks: Vec<_> = (0..8).map(|_| alloc.alloc(Txg(1), MIB).expect("an empty pool")).collect();
    commit(&alloc, Txg(1), 1);
    blocks.iter().step_by(2).for_each(|block| alloc.free(*block, Txg(2)));
    let root = commit(&alloc, Txg(2), 1).root;
    let look = || {
        let (mut sound, mut damaged, mut used, mut deferred) = (Vec::new(), Vec::new(), 0, 0);
        root.inspect(&devs, &mut |visit| match visit {
            SpaceVisit::Map { bp, used_sectors, .. } => {
                sound.push(*bp);
                used += u64::from(used_sectors);
            }
            SpaceVisit::Index { bp, .. } => sound.push(*bp),
            SpaceVisit::Deferred { bp, ranges, .. } => {
                sound.push(*bp);
                deferred += ranges.iter().map(Dva::bytes).sum::<u64>();
            }
            SpaceVisit::Damage { bp, .. } => damaged.push(*bp),
            SpaceVisit::Vdev { .. } => {}
        });
        (sound, damaged, used, deferred)
    };
    let (sound, damaged, used, deferred) = look();
    let space = alloc.space();
    assert_eq!((sound.len() as u64 * SECTOR_BYTES, damaged.len()), (alloc.own_bytes(), 0));
    assert_eq!((used * SECTOR_BYTES, deferred), (space.allocated + space.deferred, space.deferred));
    for bp in &sound {
        mem[bp.dva.vdev.place()].rot(bp.dva.offset, 1);
        assert_eq!(look().1, [*bp]);
        mem[bp.dva.vdev.place()].rot(bp.dva.offset, 1);
    }
}

#[test]
fn vdevs_fill_up_together() {
    let (_, devs) = devices(&[64 * MIB, 192 * MIB]);
    let alloc = Allocator::create(&devs, &[]);
    for _ in 0..128 {
        alloc.alloc_run(Txg(1), MIB, SECTOR_BYTES).expect("half of the pool");
    }
    assert_eq!([0, 1, 2].map(|vdev| alloc.vdev_free(VdevIndex(vdev))), [Some(32 * MIB), Some(96 * MIB), None]);
    for _ in 0..128 {
        alloc.alloc_run(Txg(1), MIB, MIB).expect("the other half, to the last byte");
    }
    assert_eq!(alloc.space().free, 0);
    assert_eq!(alloc.alloc(Txg(1), 1), Err(NoSpace { bytes: SECTOR_BYTES, free: 0, fenced: 0, refused: 0 }));
}

#[test]
fn a_fragmented_pool_gives_shorter_runs() {
    let (_, devs) = devices(&[16 * MIB]);
    let alloc = Allocator::create(&devs, &[]);
    let blocks: Vec<_> = (0..4096).map(|_| alloc.alloc(Txg(1), SECTOR_BYTES).expect("4096 sectors")).collect();
    // Holes of 3 sectors everywhere, and one of 9.
    for (at, block) in blocks.iter().enumerate() {
        if at % 4 != 0 || (1000..1008).contains(&at) {
            alloc.abandon(*block);
        }
    }
    assert_eq!(alloc.alloc_run(Txg(1), MIB, SECTOR_BYTES).expect("the longest first").sectors, 11);
    assert_eq!(alloc.alloc_run(Txg(1), MIB, SECTOR_BYTES).expect("the others").sectors, 3);
    assert!(alloc.alloc_run(Txg(1), MIB, 4 * SECTOR_BYTES).is_err());
}

#[test]
fn threads_are_given_different_sectors() {
    let (_, devs) = devices(&[150 * MIB, 150 * MIB]);
    let alloc = Allocator::create(&devs, &[]);
    let work = |thread: u64| {
        let txg = Txg(1 + thread % 2);
        let mut mine = Vec::new();
        for round in 0..300_u64 {
            let Ok(run) = alloc.alloc_run(txg, (1 + round * 7 % 64) * SECTOR_BYTES, SECTOR_BYTES) else { break };
            let used = 1 + round % u64::from(run.sectors);
            alloc.shrink(run, used * SECTOR_BYTES);
            mine.push(Dva { sectors: used as u32, ..run });
            if round % 3 == 0 {
                alloc.abandon(mine.swap_remove((round as usize * 31) % mine.len()));
            }
        }
        mine
    };
    let mut all: Vec<Dva> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| !overlap(&pair[0], &pair[1])));
    assert_eq!(alloc.space().allocated, all.iter().map(Dva::bytes).sum::<u64>());
}

#[test]
fn a_vdev_that_has_grown_brings_its_space_along() {
    let (mem, devs) = devices(&[100 * MIB]);
    let alloc = Allocator::create(&devs, &[(VdevIndex(0), 0, MIB)]);
    let block = alloc.alloc(Txg(1), MIB).expect("an empty pool");
    let first = commit(&alloc, Txg(1), 1);
    // From one region, without an index above it, to three.
    mem[0].grow(300 * MIB);
    let alloc =
        Allocator::load(&devs, &first.root, Txg(1), Helpers::Threads, &mut Vec::new()).expect("sound space maps");
    assert_eq!(alloc.space().total, 299 * MIB);
    assert_eq!(alloc.space().allocated, block.bytes() + first.place.bytes() + alloc.own_bytes());
    let second = commit(&alloc, Txg(2), 1);
    let allocated = alloc.space().allocated;
    let alloc =
        Allocator::load(&devs, &second.root, Txg(2), Helpers::Threads, &mut Vec::new()).expect("sound space maps");
    assert_eq!(alloc.space().allocated, allocated);
    assert!(alloc.is_busy(&block) && alloc.is_busy(&Dva { vdev: VdevIndex(0), offset: 0, sectors: 256 }));
    let (_, smaller) = devices(&[50 * MIB]);
    assert!(matches!(
        Allocator::load(&smaller, &first.root, Txg(1), Helpers::Threads, &mut Vec::new()),
        Err(LoadError::VdevShrunk { .. })
    ));
    let none = Allocator::load(&BlockDevs::new(), &first.root, Txg(1), Helpers::Threads, &mut Vec::new());
    assert!(matches!(none, Err(LoadError::VdevMissing { vdev: VdevIndex(0) })));
}

#[test]
fn rot_in_the_space_maps_is_an_error_and_in_a_list_of_frees_costs_what_it_names() {
    let (mem, devs) = devices(&[300 * MIB]);
    let alloc = Allocator::create(&devs, &[]);
    let blocks: Vec<_> = (0..3).map(|_| alloc.alloc(Txg(1), MIB).expect("an empty pool")).collect();
    commit(&alloc, Txg(1), 1);
    blocks.iter().for_each(|block| alloc.free(*block, Txg(2)));
    let root = commit(&alloc, Txg(2), 1).root;
    let top = root.vdevs[0].top.expect("an index");
    let chain = root.deferred.last().expect("a list").head;
    let mut remarks = Vec::new();
    mem[0].rot(top.dva.offset, 1);
    assert!(matches!(
        Allocator::load(&devs, &root, Txg(2), Helpers::Threads, &mut remarks),
        Err(LoadError::Sector(SectorError::Block(_)))
    ));
    mem[0].rot(top.dva.offset, 1);
    let whole = Allocator::load(&devs, &root, Txg(2), Helpers::Threads, &mut remarks).expect("sound again").space();
    assert!(remarks.is_empty(), "{remarks:?}");
    mem[0].rot(chain.dva.offset, 1);
    let alloc = Allocator::load(&devs, &root, Txg(2), Helpers::Threads, &mut remarks).expect("the maps are sound");
    assert!(remarks[0].contains("transaction group 2"), "{remarks:?}");
    let leaked = Space { allocated: whole.allocated + whole.deferred, deferred: 0, ..whole };
    assert_eq!(alloc.space(), leaked, "what was freed stays in use");
    let next = commit(&alloc, Txg(3), 1).root;
    remarks.clear();
    Allocator::load(&devs, &next, Txg(3), Helpers::Threads, &mut remarks).expect("what was committed can be loaded");
    assert!(remarks.is_empty(), "the next root does not name it: {remarks:?}");
}

/// A list that names a range again and again, with a right checksum: the first group after the import met more free space than
/// there is, and panicked.
#[test]
fn a_list_that_names_more_than_there_is_is_refused() {
    let (mem, devs) = devices(&[300 * MIB]);
    let alloc = Allocator::create(&devs, &[]);
    let block = alloc.alloc(Txg(1), 100 * MIB).expect("an empty pool");
    commit(&alloc, Txg(1), 1);
    alloc.free(block, Txg(2));
    let mut root = commit(&alloc, Txg(2), 1).root;
    let list = root.deferred.last_mut().expect("what was freed waits");
    let sector = encode_sector(None, &[block; 4]);
    mem[0].write(list.head.dva.offset, &sector).expect("a disk in memory");
    (list.ranges, list.head.checksum) = (4, block_checksum(&sector));
    let loaded = Allocator::load(&devs, &root, Txg(2), Helpers::Threads, &mut Vec::new());
    assert!(
        matches!(loaded, Err(LoadError::Sector(SectorError::Malformed(_)))),
        "{:?}",
        loaded.map(|alloc| alloc.space())
    );
}

/// Pointers named a data vdev by its place among those that were there. With the first one gone they would all have led to the
/// neighbour's blocks.
#[test]
fn a_vdev_is_named_by_its_index_whatever_else_is_there() {
    let (_, mut devs) = devices(&[16 * MIB, 8 * MIB, 16 * MIB]);
    let between = devs.remove(&VdevIndex(1)).expect("there are three");
    let alloc = Allocator::create(&devs, &[]);
    let taken: Vec<_> = (0..40).map(|_| alloc.alloc(Txg(1), MIB / 4).expect("there is room")).collect();
    let named: BTreeSet<_> = taken.iter().map(|dva| dva.vdev).collect();
    assert_eq!(named, [VdevIndex(0), VdevIndex(2)].into());
    let committed = commit_as(&alloc, Txg(1), 1, true);
    devs.insert(VdevIndex(1), between);
    let alloc =
        Allocator::load(&devs, &committed.root, Txg(1), Helpers::Threads, &mut Vec::new()).expect("one more is there");
    assert!(taken.iter().all(|dva| alloc.is_busy(dva)));
    assert_eq!(alloc.vdev_free(VdevIndex(1)), Some(8 * MIB));
    devs.remove(&VdevIndex(0));
    let gone = Allocator::load(&devs, &committed.root, Txg(1), Helpers::Threads, &mut Vec::new());
    assert!(matches!(gone, Err(LoadError::VdevMissing { vdev: VdevIndex(0) })));
}

/// Sound checksums, and ranges that are none of the pool's: nobody can say what else is wrong there.
#[test]
fn a_list_of_frees_that_names_no_place_of_the_pool_is_refused() {
    let (mem, devs) = devices(&[16 * MIB]);
    let alloc = Allocator::create(&devs, &[]);
    let block = alloc.alloc(Txg(1), MIB).expect("an empty pool");
    commit(&alloc, Txg(1), 1);
    alloc.free(block, Txg(2));
    let root = commit(&alloc, Txg(2), 1).root;
    for lie in [Dva { offset: 16 * MIB, ..block }, Dva { vdev: VdevIndex(1), ..block }] {
        let mut root = root.clone();
        let list = root.deferred.last_mut().expect("there is one");
        let bytes = encode_sector(None, &[lie]);
        mem[0].write(list.head.dva.offset, &bytes).expect("in memory");
        (list.ranges, list.head.checksum) = (1, block_checksum(&bytes));
        let loaded = Allocator::load(&devs, &root, Txg(2), Helpers::Threads, &mut Vec::new());
        assert!(matches!(loaded, Err(LoadError::Sector(SectorError::Malformed(_)))), "{lie}");
    }
}

#[test]
fn a_line_of_the_index_comes_back_and_a_lie_does_not() {
    let figures = Figures { free: 100, longest: 60, runs: 3 };
    let place = Twofold { dva: Dva { vdev: VdevIndex(0), offset: MIB, sectors: 1 }, copy: None };
    let pointer = sector_pointer(place, BlockKind::SpaceMap, Txg(7), &[0; SECTOR]);
    let line = SpaceLine::of(&pointer, Txg(7), figures);
    assert_eq!((SpaceLine::decode(&line.encode()), line.pointer()), (Ok(Some(line)), pointer));
    // Two sectors, applied behind its birth, more free than a region has, and what does not add up; a flag, a reserved byte.
    for (at, lie) in [(2, 2), (44, 8), (53, 0x81), (54, 101), (54, 33), (56, 1), (56, 101), (58, 1), (63, 1)] {
        let mut bytes = line.encode();
        bytes[at] = lie;
        assert!(SpaceLine::decode(&bytes).is_err(), "byte {at}: {lie}");
    }
}

/// A faulty map with a good checksum handed the log's sectors out as blocks.
#[test]
fn a_ring_that_is_free_in_the_maps_is_found() {
    let (_, devs) = devices(&[16 * MIB]);
    let ring = (VdevIndex(0), 2 * MIB, 2 * MIB);
    let committed = commit(&Allocator::create(&devs, &[ring]), Txg(1), 1);
    let alloc = Allocator::load(&devs, &committed.root, Txg(1), Helpers::Threads, &mut Vec::new()).expect("sound maps");
    assert!(alloc.check_rings(&[ring]).is_ok());
    for (vdev, start, bytes) in
        [(0, 2 * MIB, 2 * MIB + SECTOR_BYTES), (0, 8 * MIB, MIB), (0, 15 * MIB, 2 * MIB), (1, 0, MIB)]
    {
        let ring = (VdevIndex(vdev), start, bytes);
        assert!(matches!(alloc.check_rings(&[ring]), Err(LoadError::RingFree { .. })), "{ring:?}");
    }
}

/// Each touched region costs a sector, the index above it its sectors, and nothing else is written.
#[test]
fn a_commit_writes_what_was_touched() {
    let (mem, devs) = devices(&[3 << 30]);
    let alloc = Allocator::create(&devs, &[]);
    alloc.alloc(Txg(1), MIB).expect("an empty pool");
    commit(&alloc, Txg(1), 1);
    let before = mem[0].written_bytes();
    alloc.alloc(Txg(2), MIB).expect("a free pool");
    let committed = commit(&alloc, Txg(2), 1);
    // One region, one index sector, and a list of the two that they replace.
    assert_eq!(committed.sectors.len(), 3);
    assert_eq!(mem[0].written_bytes() - before, 3 * SECTOR_BYTES);
}

/// Space maps that did not contain themselves were loaded. The next commit put their sectors on its list of frees, of
/// which a later import said that they were not in use, and nobody could import the pool any more.
#[test]
fn a_map_in_which_its_own_sector_is_free_is_not_believed() {
    let (_, devs) = devices(&[200 * MIB]);
    let alloc = Allocator::create(&devs, &[]);
    let committed = commit(&alloc, Txg(1), 100);
    Allocator::load(&devs, &committed.root, Txg(1), Helpers::Threads, &mut Vec::new())
        .expect("what was committed can be loaded");
    // The same map in a place that it says is free.
    let mut root = committed.root;
    let dev = &devs[&VdevIndex(0)];
    let read = |offset| dev.read(offset, SECTOR, &|_| true).expect("it was written");
    let top = root.vdevs[0].top.expect("something was allocated");
    let mut lines = read(top.dva.offset).to_vec();
    let line = SpaceLine::decode(lines.first_chunk().expect("64 lines")).expect("sound").expect("of the first region");
    let elsewhere = Dva { offset: 8 * MIB, ..line.pointer().dva };
    dev.write(elsewhere.offset, &read(line.pointer().dva.offset)).expect("there is a device");
    let moved = crate::bp::BlockPtr { dva: elsewhere, ..line.pointer() };
    lines[..64].copy_from_slice(&SpaceLine::of(&moved, line.applied, line.figures).encode());
    dev.write(top.dva.offset, &lines).expect("there is a device");
    root.vdevs[0].top = Some(crate::bp::BlockPtr { checksum: block_checksum(&lines), ..top });
    let alloc = Allocator::load(&devs, &root, Txg(1), Helpers::Threads, &mut Vec::new()).expect("the index is sound");
    let taken = alloc.alloc(Txg(2), MIB).expect("the other region is sound");
    assert!(taken.offset >= 128 * MIB, "{taken}");
    let (count, told) = alloc.fenced();
    assert!(count == 1 && told[0].contains("its own sector is free"), "{told:?}");
}

/// Second copies lie on another vdev, or an eighth of their own away from what they are copies of, on both sides of it; and
/// where there is no such place there is none.
#[test]
fn copies_lie_far_apart() {
    let eighth = 8 * MIB;
    for near in [0, 3 * MIB, 20 * MIB, 32 * MIB, 63 * MIB] {
        let (_, devs) = devices(&[64 * MIB]);
        let alloc = Allocator::create(&devs, &[]);
        let first = Dva { vdev: VdevIndex(0), offset: near, sectors: 4 };
        let mut room = 0;
        while let Some(copy) = alloc.alloc_apart(Txg(1), &first, MIB, SECTOR_BYTES) {
            assert!(alloc.are_apart(&first, &copy) && alloc.are_apart(&copy, &first), "{first} and {copy}");
            assert!(copy.end() + eighth <= near || first.end() + eighth <= copy.offset, "{first} and {copy}");
            room += copy.bytes();
        }
        let allowed = near.saturating_sub(eighth) + (64 * MIB).saturating_sub(first.end() + eighth);
        assert_eq!(room, allowed, "beside {first}");
    }
    let (_, devs) = devices(&[64 * MIB, 16 * MIB, 32 * MIB]);
    let alloc = Allocator::create(&devs, &[]);
    let first = alloc.alloc(Txg(1), MIB).expect("an empty pool");
    let copy = alloc.alloc_apart(Txg(1), &first, MIB, MIB).expect("an empty pool");
    assert!(copy.vdev != first.vdev && copy.bytes() == MIB, "{copy}");
}

/// In an empty pool nothing of the allocator's is there only once, and an import does with either copy.
#[test]
fn each_sector_can_be_lost_once() {
    let (mem, devs) = devices(&[300 * MIB, 40 * MIB]);
    let alloc = Allocator::create(&devs, &[]);
    for _ in 0..20 {
        alloc.alloc(Txg(1), MIB).expect("an empty pool");
    }
    commit_as(&alloc, Txg(1), 100, true);
    let freed = alloc.alloc(Txg(1), MIB);
    freed.into_iter().for_each(|dva| alloc.shrink(dva, 0));
    alloc.free(Dva { vdev: VdevIndex(0), offset: 0, sectors: 1 }, Txg(2));
    let committed = commit_as(&alloc, Txg(2), 100, true);
    assert!(committed.copy.is_some() && committed.sectors.iter().all(|(bp, _)| bp.copy.is_some()));
    let sectors: Vec<_> =
        committed.sectors.iter().flat_map(|(bp, bytes)| bp.dvas().map(move |dva| (dva, bytes))).collect();
    for (dva, bytes) in &sectors {
        let dev = &mem[dva.vdev.place()];
        dev.write(dva.offset, &[0x5a; SECTOR]).expect("in memory");
        let (mut remarks, root) = (Vec::new(), &committed.root);
        let loaded =
            Allocator::load(&devs, root, Txg(2), Helpers::Threads, &mut remarks).expect("its other copy is right");
        assert_eq!((loaded.space(), remarks), (alloc.space(), Vec::new()), "{dva}");
        dev.write(dva.offset, bytes).expect("in memory");
    }
}

/// The index of a vdev that has grown gets another shape, and its old sectors are freed, in both of their places.
#[test]
fn a_vdev_that_has_grown_leaks_nothing_of_its_old_index() {
    let (_, small) = devices(&[200 * MIB]);
    let committed = commit_as(&Allocator::create(&small, &[]), Txg(1), 100, true);
    assert!(committed.sectors.iter().any(|(bp, _)| bp.kind == BlockKind::SpaceIndex && bp.copy.is_some()));
    let (mem, large) = devices(&[9 << 30]);
    for (dva, bytes) in committed.parts() {
        mem[0].write(dva.offset, bytes).expect("in memory");
    }
    let alloc =
        Allocator::load(&large, &committed.root, Txg(1), Helpers::Threads, &mut Vec::new()).expect("sound space maps");
    let mut roots: u64 = committed.place.bytes() + committed.copy.map_or(0, |copy| copy.bytes());
    for txg in (2..5).map(Txg) {
        assert_eq!(alloc.space().allocated, alloc.own_bytes() + roots, "before group {txg}");
        let next = commit_as(&alloc, txg, 100, true);
        roots += next.place.bytes() + next.copy.map_or(0, |copy| copy.bytes());
        alloc.released(txg);
    }
    assert_eq!(alloc.space().allocated, alloc.own_bytes() + roots);
}
