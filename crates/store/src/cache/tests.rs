use super::*;

fn key(offset: u64) -> CacheKey {
    CacheKey { vdev: 0, birth: 1, offset, checksum: offset }
}

fn leaf(bytes: usize) -> Cached {
    Cached { bytes: vec![7; bytes].into(), checked: false, kind: BlockKind::Leaf }
}

/// A leaf is put in again once its structure was checked. Whoever replaces an entry hears of the old one as evicted: the
/// account of leaves went down by each of them, below zero, and the metrics told of 16 million tebibytes.
#[test]
fn an_entry_that_takes_the_place_of_itself_is_counted_once() {
    let cache = BlockCache::new(1 << 20);
    let weight = leaf(1000).weight();
    for round in 0..3 {
        for at in 0..5 {
            cache.insert(key(at), Cached { checked: round > 0, ..leaf(1000) });
        }
        assert_eq!((cache.bytes_of(BlockKind::Leaf), cache.bytes()), (5 * weight, 5 * weight), "round {round}");
    }
    // One that is too large for the cache is not in it.
    cache.insert(key(9), leaf(2 << 20));
    assert_eq!(cache.bytes_of(BlockKind::Leaf), cache.bytes());
    cache.remove(&key(0));
    assert_eq!((cache.bytes_of(BlockKind::Leaf), cache.bytes()), (4 * weight, 4 * weight));
    cache.clear();
    assert_eq!((cache.bytes_of(BlockKind::Leaf), cache.bytes()), (0, 0));
}

/// Equal blocks in a row, as of an empty disk image. With a quicker hash one process in a hundred put so many of them into one part
/// of the cache that half of them fell out, with most of the room free.
#[test]
fn equal_blocks_in_a_row_are_spread_over_all_parts() {
    for round in 0..200 {
        let cache = BlockCache::new(256 << 20);
        let row = |at: u64| CacheKey { vdev: 0, birth: 2, offset: at * 4096, checksum: 0x859f_34be_aa4c_c0ed };
        let content = Cached { bytes: vec![7; 128 << 10].into(), checked: true, kind: BlockKind::Data };
        (0..64).for_each(|at| cache.insert_placed(row(at), content.clone()));
        let found = (0..64).filter(|at| cache.holds(&row(*at))).count();
        assert_eq!(found, 64, "round {round}: a fourth of the room would do");
    }
}

/// A stream needs some mebibytes. It took an eighth of the share at once: of a cache of 32 GiB a gibibyte of what
/// others had asked for, thrown out while everybody who looks for a block waits.
#[test]
fn a_large_cache_lends_no_more_than_streams_need() {
    let cache = BlockCache::new(32 << 30);
    let before = cache.main.entries.capacity();
    assert!(cache.reserve_fetched(1 << 20));
    let lent = before - cache.main.entries.capacity();
    assert!((1 << 20..=64 << 20).contains(&lent), "{lent} bytes");
}
