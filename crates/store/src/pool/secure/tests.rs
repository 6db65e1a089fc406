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
