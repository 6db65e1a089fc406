//! What the block cache takes, by the account of the allocator: its own was right about slices, and blind to the buffers
//! behind them. A cache of 8 MiB with the last blocks of 45,000 files, a byte each, held 348 MiB.
//!
//! The account is the whole process's, so there is one test here, and its cases run one after the other.

use std::sync::Arc;

use bytes::Bytes;
use peak_alloc::PeakAlloc;
use tally_base::Txg;
use tally_disk::Helpers;
use tally_fakes::MemBlockDev;
use tally_members::blockdev::numbered;
use tally_store::alloc::{Allocator, UNBORN};
use tally_store::bp::{BlockKind, BlockPtr, Compression};
use tally_store::io::BlockIo;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const CACHE_BYTES: u64 = 8 << 20;
/// Tables that are there however little they hold.
const TABLES_BYTES: usize = 1 << 20;

fn noise(length: usize, seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect::<Vec<u8>>().into()
}

fn write(io: &Arc<BlockIo>, txg: Txg, blocks: impl Iterator<Item = Bytes>) -> Vec<BlockPtr> {
    let mut out = io.writer(txg);
    let put = |data| out.put_bytes(BlockKind::Data, data, Compression::Lz4).expect("there is space");
    let pointers = blocks.map(put).collect();
    out.finish().expect("memory takes it");
    pointers
}

fn read(io: &BlockIo, blocks: &[BlockPtr]) {
    blocks.iter().for_each(|block| drop(io.read(block).expect("it was written")));
}

/// Requests of `count` blocks of `length` bytes that share a buffer.
fn streams(requests: u64, count: usize, length: usize) -> impl Iterator<Item = Bytes> {
    (0..requests).flat_map(move |seed| {
        let request = noise(count * length, seed);
        (0..count).map(move |at| request.slice(at * length..(at + 1) * length))
    })
}

#[test]
fn the_cache_takes_what_it_says() {
    let devs = numbered([Arc::new(MemBlockDev::new(512 << 20)) as _]);
    let io = BlockIo::new(devs.clone(), Arc::new(Allocator::create(&devs, &[])), CACHE_BYTES, Helpers::Threads);
    let tails = write(&io, Txg(1), (0..45_000).map(|at| noise(1, at)));
    let small = write(&io, Txg(1), (0..8000).map(|at| noise(3000, at)));
    let text = write(&io, Txg(1), (0..800_u64).map(|at| at.to_le_bytes().repeat(8 << 10).into()));
    let large = write(&io, Txg(1), (0..800).map(|at| noise(64 << 10, at)));
    let odd = write(&io, Txg(1), (0..3000).map(|at| noise(13_000, at)));
    io.drop_cache();
    let empty = HEAP.current_usage();
    let check = |what: &str, fill: &dyn Fn()| {
        fill();
        let taken = HEAP.current_usage().saturating_sub(empty);
        let said = io.stats().cache_bytes;
        assert!(said <= CACHE_BYTES && said > CACHE_BYTES / 2, "{what}: {said} bytes in the cache");
        let most = said as usize * 5 / 4 + TABLES_BYTES;
        assert!(taken <= most, "{what}: the cache says {said} bytes and took {taken}");
        let by_kind: u64 = io.cache_stats().iter().map(|stats| stats.bytes).sum();
        assert_eq!(by_kind, said, "{what}: the sum of the kinds");
    };
    check("a byte each", &|| read(&io, &tails));
    check("less than a sector", &|| read(&io, &small));
    check("compressed", &|| read(&io, &text));
    check("whole sectors", &|| read(&io, &large));
    check("somewhat more than whole sectors", &|| read(&io, &odd));
    for (what, blocks) in [("tails", &tails), ("small", &small), ("large", &large)] {
        check(&format!("{what}, neighbours read together"), &|| {
            io.drop_cache();
            io.read_together(blocks);
        });
    }
    // One block of each stretch is asked for once more, and stays when its neighbours go.
    check("one of eight is kept", &|| {
        io.drop_cache();
        for stretch in large.chunks(8) {
            io.read_together(stretch);
            read(&io, &stretch[..1]);
            read(&io, &stretch[..1]);
        }
    });
    // Written ahead, 256 blocks of a request in one buffer, and all but one of them read: seven eighths of the cache are
    // full of whole blocks beside.
    check("written ahead, and most of it read", &|| {
        for request in streams(64, 256, 4096).collect::<Vec<_>>().chunks(256) {
            let ahead = write(&io, UNBORN, request.iter().cloned());
            read(&io, &ahead[1..]);
            assert!(ahead.iter().all(|block| io.settle(block, Txg(2)).is_some()), "nobody has them");
        }
    });
    what_is_freed_leaves_and_a_limit_holds();
    io.drop_cache();
    assert!(io.cache_stats().iter().all(|stats| stats.bytes == 0), "{:?}", io.cache_stats());
}

/// What is freed leaves with its group, and a limit holds at once.
fn what_is_freed_leaves_and_a_limit_holds() {
    let devs = numbered([Arc::new(MemBlockDev::new(64 << 20)) as _]);
    // Where a block stands in the cache is drawn, and one time in 25 more of them met than had room in 8 MiB.
    let io = BlockIo::new(devs.clone(), Arc::new(Allocator::create(&devs, &[])), 8 * CACHE_BYTES, Helpers::Threads);
    let blocks = write(&io, Txg(1), (0..50).map(|at| noise(64 << 10, at)));
    let bytes = io.stats().cache_bytes;
    assert!(bytes > 50 << 16);
    blocks[..40].iter().for_each(|block| io.free(block, Txg(2)));
    read(&io, &blocks);
    assert_eq!(io.cache_stats()[0].misses, 0, "readers of the tree before still find them");
    io.forget_freed();
    assert!(io.stats().cache_bytes < 11 << 16, "{:?}", io.stats());
    io.limit_cache(128 << 10);
    assert!(io.stats().cache_bytes <= 128 << 10, "{:?}", io.stats());
    read(&io, &blocks[40..]);
    assert!(io.stats().cache_bytes <= 128 << 10, "{:?}", io.stats());
    io.limit_cache(u64::MAX);
    read(&io, &blocks[40..]);
    assert_eq!(io.stats().cache_bytes, 10 * ((64 << 10) + 160));
}
