//! Every type that the RFCs define: what is drawn from a seed comes back from its bytes, and bytes that are taken for a value are that
//! value's.

use tally_wire::nfs4::{Fattr4Value, KINDS, NfsArgop4, NfsCbArgop4, NfsResop4};
use tally_wire::{Dice, Kind, Xdr};

const DRAWS: u64 = 300;

fn dice(kind: &Kind, draw: u64) -> Dice {
    Dice::new(kind.name.bytes().fold(draw, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into())))
}

#[test]
fn every_type_comes_back_from_its_bytes() {
    assert!(KINDS.len() > 300, "{}", KINDS.len());
    for kind in KINDS {
        for draw in 0..DRAWS {
            (kind.round_trip)(&mut dice(kind, draw));
        }
    }
}

/// Bytes of a value, in half of the cases with one that is another one, or that end; and noise behind them.
#[test]
fn bytes_that_are_taken_for_a_value_are_its_own() {
    for kind in KINDS {
        let mut taken = 0;
        for draw in 0..DRAWS {
            let mut dice = dice(kind, draw);
            let mut bytes = (kind.round_trip)(&mut dice);
            if dice.below(2) == 0 && !bytes.is_empty() {
                let at = dice.below(bytes.len() as u64) as usize;
                bytes[at] = dice.throw() as u8;
                bytes.truncate(bytes.len() - dice.below(2) as usize);
            }
            bytes.extend((0..dice.below(8)).map(|_| dice.throw() as u8));
            taken += usize::from((kind.again)(&bytes).is_some());
        }
        assert!(taken > 0, "{} is never decoded", kind.name);
    }
}

/// A random union says each of its labels, so each operation and attribute went there and back.
#[test]
fn every_operation_and_attribute_is_drawn() {
    let mut dice = Dice::new(1);
    let mut draw = |count: usize, on: &dyn Fn(&mut Dice) -> u32| {
        let drawn: std::collections::BTreeSet<_> = (0..5000).map(|_| on(&mut dice)).collect();
        assert_eq!(drawn.len(), count);
    };
    // 3 to 75, and ILLEGAL.
    draw(74, &|dice| NfsArgop4::random(dice).on() as u32);
    draw(74, &|dice| NfsResop4::random(dice).on() as u32);
    // 3 to 15, and ILLEGAL.
    draw(14, &|dice| NfsCbArgop4::random(dice).on() as u32);
    draw(87, &|dice| Fattr4Value::random(dice).on());
}
