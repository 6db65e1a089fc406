//! Large pools on paper: a device that keeps the sectors that were written, and makes up the space maps of the others. What
//! must not grow with the pool is counted: reads of an import, regions that an allocation looks at, sectors and reads of a group.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tally_base::{SECTOR, Txg, VdevIndex, block_checksum};
use tally_disk::{AlignedBuf, Helpers};
use tally_members::blockdev::{BlockDev, BlockDevError, BlockDevs, numbered};

use super::aged::{Dice, aged_region};
use super::bitmap::REGION_SECTORS;
use super::commit::Twofold;
use super::ripe::RANGES_MAX;
use super::space_index::sector_pointer;
use super::space_line::SpaceLine;
use super::{AllocRoot, Allocator, Committed};
use crate::bp::{BlockKind, Dva};

const TIB: u64 = 1 << 40;
const REGION_BYTES: u64 = REGION_SECTORS as u64 * SECTOR as u64;
/// Different space maps; region after region has the next one.
const PATTERNS: usize = 16;

/// The first sector of each region is its map, as long as nothing else was written there.
struct Paper {
    data_bytes: u64,
    maps: Vec<Vec<u8>>,
    sectors: Mutex<HashMap<u64, Box<[u8]>>>,
    reads: AtomicU64,
}

impl Paper {
    fn map_of(&self, region: u64) -> &[u8] {
        &self.maps[(region % PATTERNS as u64) as usize]
    }
}

impl BlockDev for Paper {
    fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    fn read(&self, offset: u64, length: usize, verify: &dyn Fn(&[u8]) -> bool) -> Result<AlignedBuf, BlockDevError> {
        assert_eq!(length, SECTOR, "the allocator reads sectors");
        self.reads.fetch_add(1, Ordering::Relaxed);
        let mut buf = AlignedBuf::zeroed(SECTOR);
        match self.sectors.lock().get(&offset) {
            Some(written) => buf.copy_from_slice(written),
            None if offset.is_multiple_of(REGION_BYTES) => buf.copy_from_slice(self.map_of(offset / REGION_BYTES)),
            None => {}
        }
        if verify(&buf) { Ok(buf) } else { Err(BlockDevError::NoGoodCopy) }
    }

    fn write(&self, offset: u64, buf: &[u8]) -> Result<(), BlockDevError> {
        let mut sectors = self.sectors.lock();
        for (sector, at) in buf.chunks(SECTOR).zip((offset..).step_by(SECTOR)) {
            sectors.insert(at, sector.into());
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), BlockDevError> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> Result<(), BlockDevError> {
        Ok(())
    }
}

/// A pool of one vdev, nine tenths full and aged, as group 1 has left it.
struct Pool {
    dev: Arc<Paper>,
    devs: BlockDevs,
    root: AllocRoot,
}

impl Pool {
    fn aged(data_bytes: u64) -> Self {
        let mut dice = Dice(7);
        let mut maps = Vec::new();
        let mut lines = Vec::new();
        for _ in 0..PATTERNS {
            let bitmap = aged_region(&mut dice, 1);
            let mut bytes = vec![0; SECTOR];
            bitmap.encode(&mut bytes);
            lines.push((block_checksum(&bytes), bitmap.figures(REGION_SECTORS)));
            maps.push(bytes);
        }
        let dev = Arc::new(Paper { data_bytes, maps, sectors: Mutex::default(), reads: AtomicU64::new(0) });
        let devs = numbered([Arc::clone(&dev) as _]);
        let mut alloc = Allocator::create(&devs, &[]);
        let vdev = &mut alloc.vdevs[0];
        for (region, at) in vdev.regions.iter_mut().zip(0..) {
            let (checksum, figures) = lines[(at % PATTERNS as u64) as usize];
            let dva = Dva { vdev: VdevIndex(0), offset: at * REGION_BYTES, sectors: 1 };
            let pointer = sector_pointer(Twofold { dva, copy: None }, BlockKind::SpaceMap, Txg(1), dev.map_of(at));
            assert_eq!(pointer.checksum, checksum);
            let line = SpaceLine::of(&pointer, Txg(0), figures);
            assert!(region.get_mut().restore_line(&line.encode(), &line));
        }
        vdev.recount();
        {
            let mut persisted = alloc.persisted.lock();
            let count = persisted.indexes[0].levels[0].len();
            persisted.indexes[0].stale = (0..count).collect();
        }
        let root = commit(&alloc, Txg(1)).root;
        Self { dev, devs, root }
    }

    /// The same on a larger device.
    fn grown(self, data_bytes: u64) -> Self {
        let (maps, sectors) = (self.dev.maps.clone(), self.dev.sectors.lock().clone());
        let dev = Arc::new(Paper { data_bytes, maps, sectors: Mutex::new(sectors), reads: AtomicU64::new(0) });
        Self { devs: numbered([Arc::clone(&dev) as _]), dev, root: self.root }
    }

    fn import(&self) -> Allocator {
        self.import_as_of(Txg(1))
    }

    fn import_as_of(&self, txg: Txg) -> Allocator {
        let mut remarks = Vec::new();
        let alloc = Allocator::load(&self.devs, &self.root, txg, Helpers::Threads, &mut remarks).expect("it is sound");
        assert_eq!(remarks, Vec::<String>::new());
        alloc.keep_maps(32 << 20);
        alloc
    }

    fn reads(&self) -> u64 {
        self.dev.reads.load(Ordering::Relaxed)
    }
}

fn commit(alloc: &Allocator, txg: Txg) -> Committed {
    let committed = alloc.commit(txg, 1000, false).expect("a tenth is free");
    committed.write(&alloc.devs).expect("paper takes everything");
    committed
}

#[test]
fn what_a_pool_costs_does_not_grow_with_it() {
    let pool = Pool::aged(2 * TIB);
    let regions = 2 * TIB / REGION_BYTES;
    let before = pool.reads();
    let alloc = pool.import();
    let index_sectors = regions / 64 + regions / 4096 + 2;
    let reads = pool.reads() - before;
    assert!(reads <= index_sectors + 2, "an import read {reads} sectors for {regions} regions");
    let space = alloc.space();
    assert!(space.free > space.total / 11 && space.free < space.total / 9, "{space:?}");
    // A group with one write: the map, the index above it, and what they replace.
    let (before, looked_at) = (pool.reads(), alloc.vdevs[0].examined());
    let run = alloc.alloc_run(Txg(2), 1 << 20, SECTOR as u64).expect("a tenth is free");
    let committed = commit(&alloc, Txg(2));
    let (reads, looked_at) = (pool.reads() - before, alloc.vdevs[0].examined() - looked_at);
    assert!(reads <= 8 && looked_at <= 24, "a group read {reads} maps, and looked at {looked_at} regions");
    assert!(committed.sectors.len() <= 24, "a group wrote {} sectors", committed.sectors.len());
    // A thousand frees all over the pool read nothing, and count as free as soon as they may be used.
    let before = (pool.reads(), alloc.space().free);
    let mut freed = 0;
    for region in (0..regions).step_by((regions / 1000) as usize) {
        // The first sectors of a region are its map and content.
        let dva = Dva { vdev: VdevIndex(0), offset: region * REGION_BYTES + SECTOR as u64, sectors: 1 };
        freed += u64::from(dva.offset / REGION_BYTES != run.offset / REGION_BYTES);
        alloc.free(dva, Txg(3));
    }
    for txg in [3, 4, 5].map(Txg) {
        commit(&alloc, txg);
        alloc.released(txg);
    }
    let read = pool.reads() - before.0;
    assert!(read < 100, "{read} maps were read for frees all over the pool");
    let more = alloc.space().free - before.1;
    assert!(more > (freed - 100) * SECTOR as u64, "{more} bytes came for {freed} sectors that were freed");
    assert_eq!(alloc.bad_free_count(), 0);
}

/// A vdev grows, and its index gets another shape: all of it has to be written, also where nothing was touched. What it did not
/// name any more would be free.
#[test]
fn all_lines_stay_where_the_index_gets_another_shape() {
    let gib = 1 << 30;
    let mut pool = Pool::aged(16 * gib).grown(40 * gib);
    let alloc = pool.import();
    pool.root = commit(&alloc, Txg(2)).root;
    assert_eq!(pool.import_as_of(Txg(2)).space(), alloc.space());
}

/// More becomes ripe than may wait: the maps of some regions are read, and the rest still counts.
#[test]
fn what_waits_for_maps_is_bounded() {
    let pool = Pool::aged(2 * TIB);
    let alloc = pool.import();
    let free = alloc.space().free;
    let mut freed = 0;
    for region in 0..2 * TIB / REGION_BYTES {
        // Every other one of the sectors behind the map, which no list can join.
        for sector in (1..39).step_by(2) {
            let offset = region * REGION_BYTES + sector * SECTOR as u64;
            alloc.free(Dva { vdev: VdevIndex(0), offset, sectors: 1 }, Txg(2));
            freed += 1;
        }
    }
    assert!(freed > RANGES_MAX as u64);
    for txg in [2, 3].map(Txg) {
        commit(&alloc, txg);
        alloc.released(txg);
    }
    let waiting = alloc.maps.ripe.lock().len();
    assert!(waiting <= RANGES_MAX && waiting > RANGES_MAX / 2, "{waiting} ranges wait for maps");
    let space = alloc.space();
    // The chain of the list that is ripe, and the maps that were read.
    assert!(space.free > free + (freed - 4000) * SECTOR as u64, "{space:?}");
    assert_eq!(alloc.bad_free_count(), 0);
}

/// The bars of 100 TiB: reads and time of an import, memory, processor time of a run, and of a group with one write. The command
/// stands in docs/benchmarks.md.
#[test]
#[ignore = "a measurement, in 1 GiB of memory"]
fn a_hundred_tib() {
    let pool = Pool::aged(100 * TIB);
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * SECTOR as u64 / (1 << 20)
    };
    let (reads, memory, start) = (pool.reads(), resident(), Instant::now());
    let alloc = pool.import();
    println!(
        "import: {} reads, {:.2} s, {} MiB of memory",
        pool.reads() - reads,
        start.elapsed().as_secs_f64(),
        resident() - memory
    );
    let mut dice = Dice(9);
    let mut held: Vec<Dva> = Vec::new();
    let (mut runs, mut groups) = (Vec::new(), Vec::new());
    for txg in (2..202).map(Txg) {
        for _ in 0..500 {
            let start = Instant::now();
            let run = alloc.alloc_run(txg, 1 << 20, SECTOR as u64).expect("a tenth is free");
            runs.push(start.elapsed().as_nanos() as u64);
            held.push(run);
        }
        // As much as comes goes, wherever it is.
        for _ in 0..500 {
            let run = held.swap_remove(dice.below(held.len() as u64) as usize);
            alloc.free(run, txg);
        }
        // And what has lain there before, of other regions.
        for _ in 0..500 {
            let region = dice.below(100 * TIB / REGION_BYTES);
            alloc.free(Dva { vdev: VdevIndex(0), offset: region * REGION_BYTES + SECTOR as u64, sectors: 1 }, txg);
        }
        commit(&alloc, txg);
        alloc.released(txg);
    }
    for txg in (202..302).map(Txg) {
        alloc.alloc_run(txg, 1 << 20, SECTOR as u64).expect("a tenth is free");
        let start = Instant::now();
        alloc.commit(txg, 1000, false).and_then(|committed| committed.write(&pool.devs)).expect("a tenth is free");
        alloc.released(txg);
        groups.push(start.elapsed().as_nanos() as u64);
    }
    for (what, times) in [("a run", &mut runs), ("a group with one write", &mut groups)] {
        times.sort_unstable();
        let at = |permille: usize| times[(times.len() - 1) * permille / 1000] as f64 / 1000.0;
        println!(
            "{what}, us: median {:.1}, 90 % {:.1}, 99.9 % {:.1}, longest {:.1}",
            at(500),
            at(900),
            at(999),
            at(1000)
        );
    }
    println!("{} MiB of memory, {} bad frees of what was drawn twice", resident() - memory, alloc.bad_free_count());
}
