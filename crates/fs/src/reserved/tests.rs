#![allow(clippy::single_range_in_vec_init)] // Lists of ranges, some of one.

use super::*;

const RECORD: u64 = 1 << 17;

fn of(ranges: &[Range<u64>]) -> Reserved {
    let add = |reserved: Option<Reserved>, range: &Range<u64>| Reserved::with(reserved.as_ref(), range.clone(), RECORD);
    ranges.iter().fold(None, add).unwrap()
}

#[test]
fn ranges_are_of_whole_blocks_and_join() {
    let reserved = of(&[5..10, RECORD * 4..RECORD * 5, RECORD * 2 + 1..RECORD * 3]);
    assert_eq!(reserved.ranges(), [0..RECORD, RECORD * 2..RECORD * 3, RECORD * 4..RECORD * 5]);
    assert_eq!(of(&[0..1, RECORD..RECORD + 1]).ranges(), std::slice::from_ref(&(0..RECORD * 2)));
    let all = Reserved::with(Some(&reserved), RECORD..RECORD * 4, RECORD).unwrap();
    assert_eq!(all.ranges(), std::slice::from_ref(&(0..RECORD * 5)));
    assert!(all.covers(&(7..RECORD * 5)) && !all.covers(&(7..RECORD * 5 + 1)) && !reserved.covers(&(0..RECORD * 3)));
}

#[test]
fn only_whole_blocks_go_and_what_cannot_become_two_stays() {
    let reserved = of(&[0..RECORD * 10]);
    assert_eq!(reserved.without(&(5..RECORD + 5), RECORD).unwrap().ranges(), [0..RECORD * 10]);
    let left = reserved.without(&(RECORD * 2..RECORD * 3), RECORD).unwrap();
    assert_eq!(left.ranges(), [0..RECORD * 2, RECORD * 3..RECORD * 10]);
    assert_eq!(reserved.without(&(0..u64::MAX / 2), RECORD), None);
    let many: Vec<_> = (0..RANGES_MAX as u64).map(|at| RECORD * at * 4..RECORD * (at * 4 + 3)).collect();
    let full = of(&many);
    assert_eq!(full.without(&(RECORD..RECORD * 2), RECORD).unwrap(), full, "it promises more than it has to");
    assert_eq!(full.without(&(0..RECORD * 2), RECORD).unwrap().ranges()[0], RECORD * 2..RECORD * 3);
    assert_eq!(Reserved::with(Some(&full), RECORD * 1000..RECORD * 1001, RECORD), None);
}

#[test]
fn what_is_beside_is_what_the_other_has_not() {
    let reserved = of(&[0..RECORD * 10, RECORD * 20..RECORD * 30]);
    assert_eq!(reserved.beside(None)[..], *reserved.ranges());
    assert!(reserved.beside(Some(&reserved)).is_empty());
    let other = of(&[RECORD * 2..RECORD * 3, RECORD * 9..RECORD * 21, RECORD * 40..RECORD * 41]);
    assert_eq!(reserved.beside(Some(&other))[..], [0..RECORD * 2, RECORD * 3..RECORD * 9, RECORD * 21..RECORD * 30]);
    assert_eq!(other.beside(Some(&reserved))[..], [RECORD * 10..RECORD * 20, RECORD * 40..RECORD * 41]);
}

#[test]
fn the_last_block_takes_what_the_file_has_of_it() {
    let reserved = of(&[0..RECORD * 2]);
    let around = EXTENT_BYTES + SECTOR as u64;
    assert_eq!(reserved.room_bytes(RECORD * 9, RECORD), RECORD * 2 + 2 * around);
    assert_eq!(reserved.room_bytes(RECORD + 5, RECORD), RECORD + SECTOR as u64 + 2 * around);
    assert_eq!(reserved.room_bytes(5, RECORD), SECTOR as u64 + around);
    let huge = of(&[0..FILE_SIZE_MAX]);
    assert!(huge.room_bytes(FILE_SIZE_MAX, RECORD) > FILE_SIZE_MAX);
}

#[test]
fn what_is_no_list_of_ranges_is_refused() {
    let reserved = Reserved { bytes: 9, ..of(&[0..RECORD, RECORD * 2..RECORD * 3]) };
    let mut bytes = Vec::new();
    reserved.encode(&mut bytes);
    assert_eq!(Reserved::decode(&bytes, 9, RECORD).unwrap(), reserved);
    assert!(Reserved::decode(&bytes, 0, RECORD).is_err(), "who has a range has something left");
    assert!(Reserved::decode(&[], 9, RECORD).is_err());
    assert!(Reserved::decode(&bytes, 9, RECORD * 2).is_err(), "of whole blocks");
    assert!(Reserved::decode(&bytes[..31], 9, RECORD).is_err());
    let list = |ranges: &[(u64, u64)]| {
        let mut bytes = Vec::new();
        ranges.iter().for_each(|(from, to)| {
            bytes.put_u64(*from);
            bytes.put_u64(*to);
        });
        Reserved::decode(&bytes, 9, RECORD)
    };
    assert!(list(&[(0, 1 << 63)]).is_ok());
    for wrong in [&[(0, u64::MAX)][..], &[(RECORD, RECORD)], &[(RECORD, 0)], &[(0, RECORD), (RECORD, RECORD * 2)]] {
        assert!(list(wrong).is_err(), "{wrong:?}");
    }
    assert!(list(&(0..33).map(|at| (RECORD * at * 2, RECORD * (at * 2 + 1))).collect::<Vec<_>>()).is_err());
}

/// A replay may meet other ranges than there were when its record was made, and none of what was promised is to be lost. What lies between two is promised besides: as little
/// as may be, as whatever that is nobody was asked for.
#[test]
fn where_there_are_too_many_the_nearest_two_become_one() {
    let many: Vec<_> = (1..=RANGES_MAX as u64).map(|at| RECORD * at * 4..RECORD * (at * 4 + 2)).collect();
    let mut near = many.clone();
    near[7].end += RECORD;
    let full = of(&near);
    assert_eq!(Reserved::with(Some(&full), 0..10, RECORD), None);
    let closed = Reserved::closed(Some(&full), 0..10, RECORD);
    assert_eq!((closed.ranges().len(), closed.bytes), (RANGES_MAX, full.bytes));
    assert!(closed.covers(&(0..RECORD)) && near.iter().all(|range| closed.covers(range)));
    assert!(closed.covers(&(near[7].start..near[8].end)));
    assert_eq!(Reserved::closed(None, 0..10, RECORD).ranges(), std::slice::from_ref(&(0..RECORD)));
}
