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
