use super::*;

fn key(offset: u64) -> CacheKey {
    CacheKey { vdev: VdevIndex(0), written: 1, offset, checksum: offset }
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
        let row =
            |at: u64| CacheKey { vdev: VdevIndex(0), written: 2, offset: at * 4096, checksum: 0x859f_34be_aa4c_c0ed };
        let content = Cached { bytes: vec![7; 128 << 10].into(), checked: true, kind: BlockKind::Data };
        (0..64).for_each(|at| cache.insert_brought(row(at), content.clone()));
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

/// Blocks of one content, at these places, as a long WRITE brings them.
fn bring(cache: &BlockCache, content: &Cached, offsets: std::ops::Range<u64>) {
    offsets.for_each(|at| cache.insert_brought(key(at << 20), content.clone()));
}

fn held(cache: &BlockCache, offsets: std::ops::Range<u64>) -> usize {
    offsets.filter(|at| cache.holds(&key(at << 20))).count()
}

/// What was brought first stayed for ever, also of files that were removed long ago, and what came behind it went at once: the
/// main part's order keeps what it has against what is new.
#[test]
fn of_what_was_brought_the_newest_stays() {
    let cache = BlockCache::new(1 << 30);
    let content = Cached { bytes: vec![7; 128 << 10].into(), checked: true, kind: BlockKind::Data };
    (0..8192).for_each(|at| cache.insert(key(1 << 50 | at << 20), content.clone()));
    bring(&cache, &content, 0..4000);
    assert_eq!(held(&cache, 3000..4000), 1000, "of an eighth of 1 GiB");
    assert_eq!(held(&cache, 0..2000), 0);
    assert!(cache.bytes() <= 1 << 30, "{} bytes", cache.bytes());
}

/// What was just written by long WRITEs is in the cache as what was written by short ones is: where there is room, all of it.
#[test]
fn what_is_brought_has_the_room_that_nobody_uses() {
    let cache = BlockCache::new(1 << 30);
    let content = Cached { bytes: vec![7; 128 << 10].into(), checked: true, kind: BlockKind::Data };
    bring(&cache, &content, 0..3200);
    assert_eq!(held(&cache, 0..3200), 3200, "400 MiB");
    (0..8192).for_each(|at| cache.insert(key(1 << 50 | at << 20), content.clone()));
    assert!(cache.bytes() <= 1 << 30, "{} bytes", cache.bytes());
    assert_eq!(held(&cache, 2200..3200), 1000, "an eighth is its own");
    assert_eq!(held(&cache, 0..2000), 0);
    assert!(cache.reserve_fetched(200 << 20));
    (0..1500).for_each(|at| assert!(cache.insert_fetched(key(1 << 51 | at << 20), content.clone()) > 0));
    assert!(cache.bytes() <= 1 << 30, "{} bytes", cache.bytes());
    assert_eq!(held(&cache, 2200..3200), 1000, "also beside what is fetched ahead");
    cache.limit(64 << 20);
    assert!(cache.bytes() <= 64 << 20, "{} bytes", cache.bytes());
}
