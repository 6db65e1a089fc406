use tally_base::SECTOR;
use tally_disk::Helpers;
use tally_fakes::MemBlockDev;
use tally_members::blockdev::{BlockDev, numbered};

use super::*;
use crate::alloc::{AllocRoot, UNBORN};
use crate::bp::Compression;
use crate::run::RedundantMetadata;

fn pool(sizes: &[u64], cache_bytes: u64) -> (Vec<Arc<MemBlockDev>>, Arc<BlockIo>) {
    let mem: Vec<_> = sizes.iter().map(|size| Arc::new(MemBlockDev::new(*size))).collect();
    let devs = numbered(mem.iter().map(|dev| dev.clone() as _));
    let alloc = Arc::new(Allocator::create(&devs, &[]));
    (mem, BlockIo::new(devs, alloc, cache_bytes, Helpers::Threads))
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let word =
        |at: u64| (seed.wrapping_add(at)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(seed | 1);
    (0..length as u64).map(|at| word(at) as u8).collect()
}

#[test]
fn thousands_of_blocks_are_few_writes() {
    let (mem, io) = pool(&[64 << 20], 1 << 20);
    let mut out = io.writer(Txg(1));
    let kinds = [BlockKind::Data, BlockKind::Leaf, BlockKind::TreeNode, BlockKind::Replies];
    let blocks: Vec<_> = (0..4000_u64)
        .map(|at| {
            let data = noise(1 + (at as usize * 37) % 12_000, at);
            let bp = out.put(kinds[at as usize % 4], &data, Compression::Lz4).expect("there is space");
            (bp, data)
        })
        .collect();
    // Some are still in memory only, and all can be read.
    for (bp, data) in &blocks {
        assert_eq!(io.read(bp).expect("put before"), data);
    }
    let stats = out.finish().expect("memory takes it");
    assert_eq!(stats.block_count, 4000);
    assert_eq!(stats.allocated_bytes, io.allocator().space().allocated);
    assert_eq!(stats.write_count, mem[0].write_count());
    assert!(mem[0].write_count() <= stats.allocated_bytes.div_ceil(1 << 20) + 2, "{} writes", mem[0].write_count());
    io.drop_cache();
    for (bp, data) in &blocks {
        assert_eq!(io.read(bp).expect("written"), data);
    }
}

/// What ends a group lies together, and is one write: for a disk that turns each is a turn.
#[test]
fn a_group_that_changes_little_is_one_write() {
    let (mem, io) = pool(&[64 << 20], 1 << 20);
    let mut old: Option<BlockPtr> = None;
    for txg in 1..5 {
        let before = mem[0].write_count();
        let mut out = io.writer(Txg(txg));
        old.iter().for_each(|root| io.free(root, Txg(txg)));
        let bp = out.put(BlockKind::Leaf, &noise(9000, txg), Compression::Off).expect("there is space");
        let mut alloc = None;
        let (root, stats) = out
            .commit(200, |root| {
                alloc = Some(root.clone());
                let mut bytes = Vec::new();
                root.encode(&mut bytes);
                bytes
            })
            .expect("there is space");
        assert_eq!((mem[0].write_count() - before, stats.write_count), (1, 1), "group {txg}");
        let devs = numbered(mem.iter().map(|dev| dev.clone() as _));
        let loaded =
            Allocator::load(&devs, &alloc.expect("it was asked for"), Txg(txg), Helpers::Threads, &mut Vec::new());
        assert!(loaded.is_ok_and(|alloc| alloc.is_busy(&bp.dva) && alloc.is_busy(&root.dva)), "group {txg}");
        io.drop_cache();
        assert_eq!(io.read(&bp).expect("written"), noise(9000, txg));
        old = Some(root);
    }
}

/// A run of second copies is far from its blocks when it begins; by its end the blocks may have come near.
#[test]
fn a_copy_is_far_from_its_block_wherever_that_is() {
    let (_, io) = pool(&[64 << 20], 0);
    let mut out = io.writer(Txg(1)).with_copies(RedundantMetadata::All, |_, _| true);
    for turn in 0..2 {
        let bp = out
            .put_metadata(BlockKind::Leaf, noise(9000, turn).into(), Compression::Off, RedundantMetadata::All)
            .expect("there is space");
        let copy = bp.copy.expect("there is space");
        assert!(io.alloc.are_apart(&bp.dva, &copy), "{bp} and {copy}");
        for at in 0..240 {
            out.put(BlockKind::Data, &noise(128 << 10, at), Compression::Off).expect("there is space");
        }
    }
    out.finish().expect("memory takes it");
}

/// With a cache that keeps nothing, what is not written yet must come from the writer.
#[test]
fn an_unwritten_block_needs_no_cache() {
    let (mem, io) = pool(&[16 << 20], 0);
    let mut out = io.writer(Txg(1));
    let bp = out.put(BlockKind::Data, &[7; 5000], Compression::Off).expect("there is space");
    assert_eq!(mem[0].write_count(), 0);
    assert_eq!(io.read(&bp).expect("unwritten"), vec![7; 5000]);
    let many = io.read_many(&[bp, bp], BlockKind::Data, |_| Ok(()));
    assert!(many.iter().all(Result::is_ok));
    out.finish().expect("memory takes it");
    assert_eq!(io.read(&bp).expect("written"), vec![7; 5000]);
    assert_eq!(mem[0].read_count(), 1);
}

#[test]
fn the_cache_saves_reads_and_stays_in_its_bound() {
    let (mem, io) = pool(&[64 << 20], 4 << 20);
    let mut out = io.writer(Txg(1));
    let blocks: Vec<_> = (0..1000_u64)
        .map(|at| out.put(BlockKind::Data, &noise(16 << 10, at), Compression::Off).expect("there is space"))
        .collect();
    out.finish().expect("memory takes it");
    assert!(io.stats().cache_bytes <= 4 << 20, "{:?}", io.stats());
    io.drop_cache();
    io.read_together(&blocks[..100]);
    let stretches = 100_u64.div_ceil(STRETCH_BLOCKS_MAX as u64);
    assert_eq!(mem[0].read_count(), stretches, "neighbours are read together");
    for (bp, at) in blocks[..100].iter().zip(0..) {
        assert_eq!(io.read(bp).expect("read together"), noise(16 << 10, at));
    }
    assert_eq!(mem[0].read_count(), stretches, "all of them from the cache");
}

/// One bad block among neighbours must cost only itself.
#[test]
fn a_stretch_with_a_bad_block_still_gives_the_good_ones() {
    let (mem, io) = pool(&[16 << 20], 4 << 20);
    let mut out = io.writer(Txg(1));
    let blocks: Vec<_> = (0..8_u64)
        .map(|at| out.put(BlockKind::Data, &noise(16 << 10, at), Compression::Off).expect("there is space"))
        .collect();
    out.finish().expect("memory takes it");
    io.drop_cache();
    mem[0].rot(blocks[3].dva.offset, 100);
    io.read_together(&blocks);
    for (bp, at) in blocks.iter().zip(0..) {
        match io.read(bp) {
            Ok(bytes) => assert_eq!(bytes, noise(16 << 10, at)),
            Err(error) => assert_eq!(at, 3, "{error}"),
        }
    }
    assert!(io.read(&blocks[3]).is_err());
}

/// A block that was read without a check is checked when somebody relies on it.
#[test]
fn what_was_read_without_a_check_is_checked_later() {
    let (_, io) = pool(&[16 << 20], 1 << 20);
    let mut out = io.writer(Txg(1));
    let bp = out.put(BlockKind::Leaf, &[1; 100], Compression::Off).expect("there is space");
    out.finish().expect("memory takes it");
    io.drop_cache();
    io.read(&bp).expect("readable");
    let check: Check = |_| Err(Malformed("leaf"));
    assert!(matches!(io.read_checked(&bp, BlockKind::Leaf, check), Err(BlockError::Malformed { .. })));
    assert!(matches!(io.read_checked(&bp, BlockKind::TreeNode, |_| Ok(())), Err(BlockError::Pointer { .. })));
}

#[test]
fn a_failed_write_is_an_error_and_an_abandoned_block_is_free() {
    let (mem, io) = pool(&[16 << 20], 1 << 20);
    let mut out = io.writer(Txg(1));
    let bp = out.put(BlockKind::Data, &[1; 100], Compression::Off).expect("there is space");
    io.abandon(&bp);
    let again = out.put(BlockKind::Data, &[2; 100], Compression::Off).expect("there is space");
    mem[0].fail_writes(true);
    assert!(matches!(out.finish(), Err(BlockError::Write { .. })));
    mem[0].fail_writes(false);
    io.drop_cache();
    assert!(matches!(io.read(&again), Err(BlockError::Unreadable { .. })), "it is not on the device");
    assert_eq!(io.allocator().space().allocated, SECTOR as u64);
}

#[test]
fn a_writer_that_is_dropped_keeps_no_rest() {
    let (_, io) = pool(&[16 << 20], 1 << 20);
    let mut out = io.writer(Txg(1));
    out.put(BlockKind::Data, &[1; 100], Compression::Off).expect("there is space");
    drop(out);
    assert_eq!(io.allocator().space().allocated, SECTOR as u64);
    assert!(io.unwritten.read().is_empty());
}

#[test]
fn a_root_is_read_back_as_it_was_written() {
    let (mem, io) = pool(&[16 << 20], 1 << 20);
    let out = io.writer(Txg(1));
    let (bp, _) = out.commit(5000, |_| vec![9; 4321]).expect("there is space");
    assert_eq!(BlockIo::read_root(&io.devs, &bp).expect("just written"), vec![9; 4321]);
    mem[0].rot(bp.dva.offset + 8000, 1);
    assert!(BlockIo::read_root(&io.devs, &bp).is_err(), "its padding is checked too");
}

/// Each WRITE reserved a mebibyte: several at once put their blocks a mebibyte apart.
#[test]
fn who_says_how_much_there_is_leaves_the_rest_to_others() {
    let (_, io) = pool(&[64 << 20], 16 << 20);
    let length = 128 << 10;
    let mut writers: Vec<_> = (0..4).map(|_| io.writer(crate::alloc::UNBORN).expecting(length as u64)).collect();
    let mut put = |at: usize, seed| {
        writers[at].put(BlockKind::Data, &noise(length, seed), Compression::Off).expect("there is space")
    };
    let blocks: Vec<BlockPtr> = (0..4).map(|at| put(at, at as u64)).collect();
    assert!(blocks.windows(2).all(|pair| pair[0].dva.end() == pair[1].dva.offset), "{blocks:?}");
    // It is no promise.
    put(0, 9);
    for writer in writers {
        writer.finish().expect("memory takes it");
    }
    assert_eq!(io.allocator().space().allocated, 5 * length as u64);
}

/// What was written ahead is read by the pointer that the group gave it, and still from the cache.
#[test]
fn a_settled_block_is_found_by_its_final_pointer() {
    let (mem, io) = pool(&[16 << 20], 4 << 20);
    let mut out = io.writer(crate::alloc::UNBORN);
    let ahead = out.put(BlockKind::Data, &noise(128 << 10, 1), Compression::Off).expect("there is space");
    out.finish().expect("memory takes it");
    let cached = io.stats().cache_blocks;
    let born = io.settle(&ahead, Txg(5)).expect("it was written ahead");
    assert_eq!(born, BlockPtr { birth: Txg(5), written: Txg(5), ..ahead });
    assert_eq!(io.read(&born).expect("it is there"), noise(128 << 10, 1));
    assert_eq!((mem[0].read_count(), io.stats().cache_blocks), (0, cached), "from the cache, which has it once");
    let nowhere = BlockPtr { dva: Dva { offset: 8 << 20, ..ahead.dva }, ..ahead };
    assert_eq!(io.settle(&nowhere, Txg(6)), None, "nobody has written there");
}

/// A pool whose free space is single sectors, with the txg that comes next.
fn crumbled(sectors: u64) -> (Vec<Arc<MemBlockDev>>, Arc<BlockIo>, Txg) {
    let (mem, io) = pool(&[sectors * SECTOR as u64], 1 << 20);
    let taken: Vec<Dva> = std::iter::from_fn(|| io.alloc.alloc(Txg(1), SECTOR as u64).ok()).collect();
    // Every other sector; where the pool itself has to be written, a few more.
    taken.iter().step_by(2).for_each(|dva| io.alloc.abandon(*dva));
    (mem, io, Txg(1))
}

#[test]
fn a_block_for_which_there_is_no_run_is_written_in_pieces() {
    let (_, io, txg) = crumbled(1024);
    let free = || io.allocator().space().free;
    let before = free();
    let mut out = io.writer(txg);
    let small = out.put(BlockKind::Data, &noise(3000, 1), Compression::Off).expect("one sector");
    let data = noise(128 << 10, 2);
    let large = out.put(BlockKind::Data, &data, Compression::Off).expect("in pieces");
    let packed = out.put(BlockKind::Leaf, &[7; 300_000], Compression::Lz4).expect("compressed");
    out.finish().expect("memory takes it");
    assert!(large.in_pieces && !small.in_pieces);
    assert_eq!(before - free(), small.asize() + large.asize() + packed.asize(), "asize counts the map");
    assert_eq!(BlockPtr::decode(&large.encode()), Ok(large));
    for _ in 0..2 {
        assert_eq!(io.read(&large).expect("in pieces"), data);
        assert_eq!(io.read(&packed).expect("compressed"), vec![7; 300_000]);
        io.drop_cache();
    }
    io.read_together(&[small, large, packed]);
    assert_eq!(io.read(&large).expect("read together"), data);
    io.abandon(&packed);
    io.abandon(&large);
    io.abandon(&small);
    assert_eq!((free(), io.allocator().bad_free_count()), (before, 0), "every piece comes back");
}

#[test]
fn the_last_sectors_can_be_used_and_a_block_that_does_not_fit_leaves_nothing() {
    let (_, io, txg) = crumbled(256);
    let free = || io.allocator().space().free;
    let before = free();
    let mut out = io.writer(txg);
    let too_large = out.put(BlockKind::Data, &noise(128 * SECTOR, 3), Compression::Off);
    assert!(matches!(too_large, Err(BlockError::NoSpace(_))), "128 sectors and a map do not fit in 128: {too_large:?}");
    assert_eq!(free(), before);
    let all_but_the_map = noise(127 * SECTOR, 4);
    let block = out.put(BlockKind::Data, &all_but_the_map, Compression::Off).expect("to the last sector");
    assert_eq!(free(), 0);
    io.drop_cache();
    assert_eq!(io.read(&block).expect("written"), all_but_the_map);
}

/// A block written ahead belongs to its group with all its pieces.
#[test]
fn pieces_settle_with_their_block() {
    let (_, io, _) = crumbled(1024);
    let mut out = io.writer(crate::alloc::UNBORN);
    let ahead = out.put(BlockKind::Data, &noise(64 << 10, 5), Compression::Off).expect("in pieces");
    out.finish().expect("memory takes it");
    let born = io.settle(&ahead, Txg(1)).expect("it was written ahead");
    io.free(&born, Txg(1));
    assert_eq!(io.allocator().space().deferred, born.asize());
    assert_eq!(io.allocator().bad_free_count(), 0);
}

/// The map was read from the device to settle a block, under the hold that keeps the group open; and where that failed the
/// answer was yes, while the pieces belonged to no group: the next import took them for free, and the tree named them.
#[test]
fn pieces_settle_although_their_map_has_rotted_since_and_without_a_read() {
    let (mem, io, _) = crumbled(1024);
    let mut out = io.writer(UNBORN);
    let ahead = out.put(BlockKind::Data, &noise(64 << 10, 5), Compression::Off).expect("in pieces");
    out.finish().expect("memory takes it");
    let pieces = crate::block::scatter::pieces_of(&io.devs, &ahead).expect("the map is sound");
    mem[0].rot(ahead.dva.offset, 16);
    let reads = mem[0].read_count();
    let born = io.settle(&ahead, Txg(1)).expect("it was written ahead");
    assert_eq!(mem[0].read_count(), reads, "a hold waits for no device");
    assert_eq!(born.birth, Txg(1));
    let encode = |alloc: &AllocRoot| {
        let mut bytes = Vec::new();
        alloc.encode(&mut bytes);
        bytes
    };
    let (root, _) = io.writer(Txg(1)).commit(0, encode).expect("there is space");
    let bytes = BlockIo::read_root(&io.devs, &root).expect("it was just written");
    let maps = AllocRoot::decode(&mut Reader::new(&bytes, "test root")).expect("an allocator");
    let imported =
        Allocator::load(&io.devs, &maps, Txg(1), Helpers::Threads, &mut Vec::new()).expect("sound space maps");
    assert!(pieces.iter().all(|piece| imported.is_busy(piece)), "the next import knows them, too");
    // The same for one that nobody wants.
    let ahead = io.writer(UNBORN).put(BlockKind::Data, &noise(64 << 10, 6), Compression::Off).expect("in pieces");
    let free = io.allocator().space().free;
    mem[0].rot(ahead.dva.offset, 16);
    io.abandon(&ahead);
    assert_eq!(io.allocator().space().free, free + ahead.asize(), "every piece is free again");
}

/// A write that failed kept the room of a block in pieces until the pool was imported again.
#[test]
fn a_block_in_pieces_whose_write_fails_leaves_nothing() {
    let (mem, io, txg) = crumbled(1024);
    let free = io.allocator().space().free;
    mem[0].fail_writes(true);
    let failed = io.writer(txg).put(BlockKind::Data, &noise(64 << 10, 5), Compression::Off);
    assert!(matches!(failed, Err(BlockError::Write { .. })), "{failed:?}");
    assert_eq!(io.allocator().space().free, free);
}

/// Whatever byte of a map or a piece is wrong: an error, and nobody else's sectors are freed.
#[test]
fn a_damaged_map_is_found() {
    let (mem, io, txg) = crumbled(1024);
    let mut out = io.writer(txg);
    let block = out.put(BlockKind::Data, &noise(32 << 10, 6), Compression::Off).expect("in pieces");
    let other = out.put(BlockKind::Data, &noise(32 << 10, 7), Compression::Off).expect("in pieces");
    out.finish().expect("memory takes it");
    io.drop_cache();
    let sound = mem[0].read(block.dva.offset, SECTOR, &|_| true).unwrap();
    for at in (0..300).chain([SECTOR - 8, SECTOR - 1]) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x10;
        mem[0].write(block.dva.offset, &bytes).unwrap();
        assert!(io.read(&block).is_err(), "byte {at}");
    }
    // Another block's map in its place: a write that was lost, or went astray.
    let strange = mem[0].read(other.dva.offset, SECTOR, &|_| true).unwrap();
    mem[0].write(block.dva.offset, &strange).unwrap();
    assert!(io.read(&block).is_err());
    io.free(&block, txg);
    assert_eq!(io.allocator().space().deferred, SECTOR as u64, "the map alone; its pieces are leaked");
    assert_eq!(io.leak_count(), 1, "which is not kept a secret");
    assert_eq!(io.read(&other).expect("the other is whole"), noise(32 << 10, 7));
}

#[test]
fn a_root_in_pieces_is_read_back() {
    let (mem, io, txg) = crumbled(1024);
    let root = noise(20_000, 8);
    let (bp, _) = io.writer(txg).commit(root.len(), |_| root.clone()).expect("in pieces");
    assert!(bp.in_pieces);
    let devs = numbered(mem.iter().map(|dev| dev.clone() as _));
    assert_eq!(BlockIo::read_root(&devs, &bp).expect("written"), root);
}

/// "Repaired from other disks" was what `status` made of every error, also of a block that no disk had right. Such blocks
/// are counted: each once, and until it can be read again or is gone.
#[test]
fn a_block_that_nobody_has_right_is_counted_until_it_is_good_or_gone() {
    let (mem, io) = pool(&[16 << 20], 0);
    let mut out = io.writer(Txg(1));
    let blocks: Vec<_> = (0..3_u64)
        .map(|at| out.put(BlockKind::Data, &noise(16 << 10, at), Compression::Off).expect("there is space"))
        .collect();
    out.finish().expect("memory takes it");
    let rot = |at: usize| mem[0].rot(blocks[at].dva.offset, 100);
    assert_eq!(io.unrepaired_count(), 0);
    (0..2).for_each(rot);
    for _ in 0..3 {
        io.read_together(&blocks);
        assert!(blocks[..2].iter().all(|bp| io.read(bp).is_err()));
        assert!(io.read(&blocks[2]).is_ok());
        assert_eq!(io.unrepaired_count(), 2);
    }
    rot(0);
    assert!(io.read(&blocks[0]).is_ok());
    assert_eq!(io.unrepaired_count(), 1);
    io.free(&blocks[1], Txg(2));
    assert_eq!(io.unrepaired_count(), 0);
}

/// A transfer that was wrong once made the fold give up a node that was sound, with everything below it, for ever.
#[test]
fn one_misread_is_no_damage() {
    let (mem, io) = pool(&[16 << 20], 0);
    let mut out = io.writer(Txg(1));
    let block = out.put(BlockKind::Data, &noise(16 << 10, 1), Compression::Off).expect("there is space");
    out.finish().expect("memory takes it");
    io.drop_cache();
    mem[0].rot(block.dva.offset, 100);
    let error = io.read(&block).unwrap_err();
    mem[0].rot(block.dva.offset, 100);
    assert!(io.read(&block).is_ok(), "it is sound: the transfer was wrong once");
    assert!(io.check_damage(error).is_err(), "so it must not be given up");
}

/// Readers and those who go ahead of them meet at the same blocks, some of which are rotten, while the cache is limited,
/// emptied and told of what was freed. Everybody has what was written or an error, and nothing is left on its way.
#[test]
fn whoever_meets_at_a_block_has_it_right_and_nothing_stays_on_its_way() {
    const BLOCKS: u64 = 300;
    const CACHE: u64 = 1 << 20;
    let (mem, io) = pool(&[64 << 20], CACHE);
    let mut out = io.writer(Txg(1));
    let blocks: Vec<_> = (0..BLOCKS)
        .map(|at| out.put(BlockKind::Data, &noise(8 << 10, at), Compression::Off).expect("there is space"))
        .collect();
    out.finish().expect("memory takes it");
    let is_rotten = |at: usize| at % 50 == 7;
    for at in (0..blocks.len()).filter(|at| is_rotten(*at)) {
        mem[0].write(blocks[at].dva.offset, &[0x55; SECTOR]).expect("memory takes it");
    }
    io.drop_cache();
    std::thread::scope(|scope| {
        for thread in 1..=6_u64 {
            let (io, blocks) = (&io, &blocks);
            scope.spawn(move || {
                let mut state = thread.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mut draw = |most: u64| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 33) % most
                };
                for _ in 0..3000 {
                    // All of them are about the same place at the same time.
                    let at = (draw(40) + io.stats().read_bytes / (256 << 10) * 8) % BLOCKS;
                    match draw(20) {
                        0..10 => match io.read(&blocks[at as usize]) {
                            Ok(bytes) => assert!(bytes == noise(8 << 10, at), "block {at}"),
                            Err(error) => assert!(is_rotten(at as usize), "block {at}: {error}"),
                        },
                        10..14 => {
                            let end = (at + 1 + draw(40)).min(BLOCKS);
                            let own = draw(2) * (at + draw(8));
                            let wanted: Vec<_> = (at..end)
                                .map(|at| ToFetch { bp: blocks[at as usize], is_asked_for: at < own })
                                .collect();
                            for flight in io.plan_ahead(&wanted) {
                                if draw(4) == 0 { io.give_up(&flight) } else { io.fetch(&flight) }
                            }
                        }
                        14..16 => io.read_together(&blocks[at as usize..(at + 8).min(BLOCKS) as usize]),
                        16 => io.limit_cache([0, 40 << 10, CACHE / 4, CACHE][draw(4) as usize]),
                        17 if draw(20) == 0 => io.drop_cache(),
                        _ => {
                            io.cache.remove_read(&CacheKey::of(&blocks[at as usize]));
                        }
                    }
                }
            });
        }
    });
    assert!(blocks.iter().all(|bp| io.standing(bp) != Standing::UnderWay));
    io.limit_cache(CACHE);
    io.drop_cache();
    assert_eq!((io.stats().cache_bytes, io.stats().cache_blocks), (0, 0));
    assert!(io.cache.reserve_fetched(io.fetched_bytes_max()), "all room was given back");
}
