use tally_base::VdevIndex;

use super::*;
use crate::bp::{BlockKind, Coding, Dva};

fn window(groups: &[u64]) -> Window {
    Window { kept: groups.iter().copied().map(Txg).collect() }
}

/// What is kept, how deep the next group may be, and what may be used again then.
#[test]
fn a_window_goes_along_with_the_groups() {
    let mut kept = Window::found(Txg(7), 1, [Txg(3), Txg(2)]);
    assert_eq!((kept.clone(), kept.depth(), kept.reusable_before()), (window(&[3, 7]), 1, Txg(4)));
    for (txg, depth, expected, reusable) in [
        (8, 4, vec![3, 7, 8], 4),
        (9, 4, vec![3, 7, 8, 9], 4),
        (10, 4, vec![3, 7, 8, 9, 10], 4),
        (11, 4, vec![7, 8, 9, 10, 11], 8),
        (12, 1, vec![11, 12], 12),
        (13, 4, vec![11, 12, 13], 12),
    ] {
        kept = kept.with(Txg(txg), depth);
        assert_eq!((&kept, kept.reusable_before()), (&window(&expected), Txg(reusable)), "{txg}");
    }
}

/// A pool's first group has none before it, and its frees wait for the second one (rules F8).
#[test]
fn the_newest_root_alone_keeps_what_it_has_freed() {
    assert_eq!(window(&[5]).reusable_before(), Txg(5));
    assert_eq!(window(&[]).with(Txg(1), 4), window(&[1]));
}

#[test]
fn as_many_roots_are_kept_as_there_is_room_for() {
    let kept = window(&[3, 4, 5, 6]);
    // Each group has freed as many sectors as its number says.
    let waiting = |from: Txg, to: Txg| (from.0 + 1..=to.0).sum::<u64>();
    for (free, is_short, depth) in [
        (1000, false, 4),
        (120, false, 4),
        (119, false, 3),
        (88, false, 3),
        (87, false, 2),
        (47, false, 1),
        (1000, true, 1),
    ] {
        assert_eq!(kept.depth_for(free, is_short, waiting), depth, "{free} free");
    }
}

#[test]
fn a_root_area_is_read_as_it_was_written() {
    let dva = Dva { vdev: VdevIndex(3), offset: 0x7000, sectors: 2 };
    let root = BlockPtr {
        dva,
        copy: None,
        in_pieces: false,
        lsize: 8192,
        psize: 8192,
        coding: Coding::Raw,
        kind: BlockKind::Root,
        birth: Txg(7),
        written: Txg(7),
        checksum: 5,
    };
    let area = RootArea { root, depth: 3 };
    let bytes = area.encode();
    assert_eq!((bytes.len(), RootArea::decode(&bytes)), (72, Ok(area)));
    for at in 66..72 {
        let mut newer = bytes.clone();
        newer[at] = 1;
        assert!(RootArea::decode(&newer).is_err(), "a byte that only a newer program knows");
    }
}
