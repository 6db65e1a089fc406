use tally_base::SECTOR;

use super::*;
use crate::blockdev::MemBlockDev;
use crate::bp::Compression;

fn pool(sizes: &[u64], cache_bytes: u64) -> (Vec<Arc<MemBlockDev>>, Arc<BlockIo>) {
    let mem: Vec<_> = sizes.iter().map(|size| Arc::new(MemBlockDev::new(*size))).collect();
    let devs: Vec<Arc<dyn BlockDev>> = mem.iter().map(|dev| dev.clone() as Arc<dyn BlockDev>).collect();
    let alloc = Arc::new(Allocator::create(&devs, &[]));
    (mem, BlockIo::new(devs, alloc, cache_bytes))
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
    io.prefetch(&blocks[..100]);
    let stretches = 100_u64.div_ceil(STRETCH_BLOCKS_MAX as u64);
    assert_eq!(mem[0].read_count(), stretches, "neighbours are read together");
    for (bp, at) in blocks[..100].iter().zip(0..) {
        assert_eq!(io.read(bp).expect("prefetched"), noise(16 << 10, at));
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
    io.prefetch(&blocks);
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

/// What was written ahead is read by the pointer that the group gave it, and still from the cache.
#[test]
fn a_settled_block_is_found_by_its_final_pointer() {
    let (mem, io) = pool(&[16 << 20], 4 << 20);
    let mut out = io.writer(crate::alloc::UNBORN);
    let ahead = out.put(BlockKind::Data, &noise(128 << 10, 1), Compression::Off).expect("there is space");
    out.finish().expect("memory takes it");
    let cached = io.stats().cache_blocks;
    let born = io.settle(&ahead, Txg(5)).expect("it was written ahead");
    assert_eq!(born, BlockPtr { birth: Txg(5), ..ahead });
    assert_eq!(io.read(&born).expect("it is there"), noise(128 << 10, 1));
    assert_eq!((mem[0].read_count(), io.stats().cache_blocks), (0, cached), "from the cache, which has it once");
    let nowhere = BlockPtr { dva: Dva { offset: 8 << 20, ..ahead.dva }, ..ahead };
    assert_eq!(io.settle(&nowhere, Txg(6)), None, "nobody has written there");
}
