use super::*;

#[test]
fn a_line_is_read_as_it_was_written_and_nothing_else_is_one() {
    let dva = Dva { vdev: tally_base::VdevIndex(3), offset: 4096 * 77, sectors: 9 };
    let block = MetBlock { dva, written: Txg(5), checksum: 1 << 100, places: 3 };
    for block in [None, Some(block)] {
        let met = MetDamage { first: Txg(7), last: Txg(9), by_read: true, by_scrub: false, block };
        let value = met.encode();
        assert_eq!((value.len(), MetDamage::decode(&value)), (64, Ok(met)));
        for at in [0, 3, 60] {
            let mut other = value.to_vec();
            other[at] = 9;
            assert!(MetDamage::decode(&other).is_err(), "byte {at}");
        }
        assert!(MetDamage::decode(&value[1..]).is_err() && MetDamage::decode(&[&value[..], &[0]].concat()).is_err());
    }
    for spot in [Spot::Content(0), Spot::Content(ATTRIBUTES - 1), Spot::Attributes, Spot::Names] {
        assert_eq!(Spot::of(spot.number()), Some(spot));
    }
    assert_eq!(Spot::of(NAMES + 1), None);
}

/// A group that no uberblock has seen gives its number once more: what was written in it is another block.
#[test]
fn a_block_of_the_same_group_and_place_is_not_the_one_that_was_met() {
    let dva = Dva { vdev: tally_base::VdevIndex(0), offset: 4096, sectors: 1 };
    let bp = BlockPtr {
        dva,
        copy: None,
        in_pieces: false,
        lsize: 4096,
        psize: 4096,
        coding: crate::bp::Coding::Raw,
        kind: crate::bp::BlockKind::Data,
        birth: Txg(4),
        written: Txg(4),
        checksum: 17,
    };
    let met = MetBlock::new(&bp);
    assert!(met.is(&bp) && met.is(&bp.given_up()));
    assert!(!met.is(&BlockPtr { checksum: 18, ..bp }) && !met.is(&BlockPtr { written: Txg(5), ..bp }));
}
