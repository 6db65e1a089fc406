use tally_base::{SECTOR, VdevIndex};
use tally_members::label::TxgRange;

use super::*;
use crate::bp::{Coding, Dva};

/// Trees that share a block give it a birth of their own, long after it was written: it is on a leg that was away since, and
/// the other way round.
#[test]
fn what_was_missed_is_told_by_when_it_was_written() {
    let mut missed = MissedGroups::default();
    for (from, to) in [(5, 7), (20, 30)] {
        missed.note(TxgRange { from: Txg(from), to: Txg(to) });
    }
    let dva = Dva { vdev: VdevIndex(0), offset: 0, sectors: 1 };
    let of = |birth, written| BlockPtr {
        dva,
        copy: None,
        in_pieces: false,
        lsize: SECTOR as u32,
        psize: SECTOR as u32,
        coding: Coding::Raw,
        kind: BlockKind::Data,
        birth: Txg(birth),
        written: Txg(written),
        checksum: 1,
    };
    for (birth, written, expected) in [(25, 3, false), (40, 25, true), (40, 31, false), (7, 7, true), (8, 8, false)] {
        assert_eq!(is_wanted(Some(&missed), &of(birth, written)), expected, "born in {birth}, written in {written}");
        assert!(is_wanted(None, &of(birth, written)));
    }
    assert_eq!((since(Some(&missed)), since(None)), (Txg(5), Txg(0)));
}

/// Beside clients who never pause a walk looks at 17 MiB in a second, and it gathered 64 MiB all the same. It held them for longer than a
/// group, and so it waited for no turn any more: a commit in a hundred took four times as long.
#[test]
fn no_more_is_gathered_than_is_looked_at_before_the_next_group() {
    let mut gathered = Gathered::new(64 << 20);
    let ms = Duration::from_millis;
    let enough = |gathered: &Gathered| gathered.bytes_enough >> 20;
    gathered.note_look(64 << 20, ms(4000));
    assert_eq!(enough(&gathered), 16);
    gathered.note_look(16 << 20, ms(16_000));
    assert_eq!(enough(&gathered), 1, "a megabyte is looked at in any case");
    gathered.note_look(1 << 20, Duration::ZERO);
    assert_eq!(enough(&gathered), 2, "in a hurry it was quick");
    for _ in 0..10 {
        gathered.note_look(2 << 20, ms(10));
    }
    assert_eq!(enough(&gathered), 64);
    gathered.note_look(0, ms(10_000));
    assert_eq!(enough(&gathered), 64, "nothing tells nothing");
    assert!(!gathered.is_enough_at(ms(100)) && !gathered.is_enough_at(ms(1099)));
    assert!(gathered.is_enough_at(ms(1100)), "a second is over, though there was little");
}
