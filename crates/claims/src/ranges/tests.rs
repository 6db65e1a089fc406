use super::*;
use crate::holder::{ClientNumber, OwnerNumber};

const MAX: u64 = u64::MAX;

fn holder(owner: u64) -> Holder {
    Holder { client: ClientNumber(7), owner: OwnerNumber(owner) }
}

fn range(first: u64, last: u64) -> Range {
    Range::between(first, last).unwrap()
}

/// What one owner holds after these were locked and unlocked, and how many more ranges the last step said that there would be.
fn after(steps: &[(u64, u64, Option<Kind>)]) -> (Vec<(u64, u64, Kind)>, isize) {
    let (mut ranges, mut growth) = (Ranges::default(), (0, 0));
    for &(first, last, kind) in steps {
        let change = ranges.plan(holder(1), range(first, last), kind);
        growth = change.growth();
        let before = ranges.len();
        ranges.apply(change, None);
        assert_eq!(ranges.len() + growth.1, before + growth.0);
    }
    let mut held: Vec<_> = ranges.of(holder(1)).map(|held| (held.range.first, held.range.last, held.kind)).collect();
    held.reverse();
    assert_eq!(ranges.has_any_of(holder(1)), !held.is_empty());
    (held, growth.0 as isize - growth.1 as isize)
}

const R: Option<Kind> = Some(Kind::Read);
const W: Option<Kind> = Some(Kind::Write);

#[test]
fn what_is_no_range_is_told_from_what_is_one() {
    let cases = [
        (0, 0, None),
        (MAX, 0, None),
        (0, 1, Some((0, 0))),
        (5, 10, Some((5, 14))),
        (1, MAX - 1, Some((1, MAX - 1))),
        (2, MAX - 1, None),
        (MAX, 1, None),
        (MAX - 1, 1, Some((MAX - 1, MAX - 1))),
        (MAX - 1, 2, None),
        (0, MAX - 1, Some((0, MAX - 2))),
        (0, MAX, Some((0, MAX))),
        (77, MAX, Some((77, MAX))),
        (MAX, MAX, Some((MAX, MAX))),
    ];
    for (offset, length, expected) in cases {
        let made = Range::new(offset, length);
        assert_eq!(made.map(|range| (range.first(), range.last())), expected, "{offset} {length}");
        assert!(made.is_none_or(|range| range.length() == length), "{offset} {length}");
    }
    assert_eq!(Range::between(3, 2), None);
    assert_eq!(range(0, MAX - 1).length(), MAX);
}

#[test]
fn row_a_what_lies_apart_stays() {
    for kind in [R, W] {
        assert_eq!(after(&[(0, 9, R), (11, 19, kind)]).0, [(0, 9, Kind::Read), (11, 19, kind.unwrap())]);
        assert_eq!(after(&[(11, 19, R), (0, 9, kind)]).1, 1);
    }
    assert_eq!(after(&[(0, 9, R), (11, 19, None)]), (vec![(0, 9, Kind::Read)], 0));
}

#[test]
fn row_b_what_touches_is_joined_if_it_is_of_one_kind() {
    for (one, other) in [((0, 9), (10, 19)), ((10, 19), (0, 9))] {
        assert_eq!(after(&[(one.0, one.1, W), (other.0, other.1, W)]), (vec![(0, 19, Kind::Write)], 0));
        assert_eq!(after(&[(one.0, one.1, W), (other.0, other.1, None)]), (vec![(one.0, one.1, Kind::Write)], 0));
        assert_eq!(after(&[(one.0, one.1, W), (other.0, other.1, R)]).1, 1);
    }
    // On both sides at once.
    assert_eq!(after(&[(0, 9, R), (20, 29, R), (10, 19, R)]), (vec![(0, 29, Kind::Read)], -1));
    assert_eq!(after(&[(0, 9, R), (20, 29, W), (10, 19, R)]).0, [(0, 19, Kind::Read), (20, 29, Kind::Write)]);
    // At either end of all bytes there is nothing beside a range.
    assert_eq!(after(&[(MAX, MAX, R), (0, 0, R)]).0, [(0, 0, Kind::Read), (MAX, MAX, Kind::Read)]);
    assert_eq!(after(&[(MAX, MAX, R), (0, MAX - 1, R)]), (vec![(0, MAX, Kind::Read)], 0));
}

#[test]
fn row_c_what_begins_before_keeps_what_lies_before() {
    assert_eq!(after(&[(0, 10, R), (5, 20, R)]), (vec![(0, 20, Kind::Read)], 0));
    assert_eq!(after(&[(0, 10, R), (5, 10, R)]), (vec![(0, 10, Kind::Read)], 0));
    assert_eq!(after(&[(0, 10, R), (5, 20, W)]), (vec![(0, 4, Kind::Read), (5, 20, Kind::Write)], 1));
    assert_eq!(after(&[(0, 10, R), (10, 20, W)]).0, [(0, 9, Kind::Read), (10, 20, Kind::Write)]);
    assert_eq!(after(&[(0, 10, R), (5, 20, None)]), (vec![(0, 4, Kind::Read)], 0));
    assert_eq!(after(&[(0, MAX, R), (5, MAX, None)]), (vec![(0, 4, Kind::Read)], 0));
}

#[test]
fn row_d_what_ends_behind_keeps_what_lies_behind() {
    assert_eq!(after(&[(10, 20, R), (5, 15, R)]), (vec![(5, 20, Kind::Read)], 0));
    assert_eq!(after(&[(10, 20, R), (5, 15, W)]), (vec![(5, 15, Kind::Write), (16, 20, Kind::Read)], 1));
    assert_eq!(after(&[(10, 20, R), (5, 10, None)]), (vec![(11, 20, Kind::Read)], 0));
    assert_eq!(after(&[(0, MAX, W), (0, 0, None)]), (vec![(1, MAX, Kind::Write)], 0));
}

#[test]
fn row_e_what_lies_within_goes() {
    assert_eq!(after(&[(10, 20, R), (5, 25, R)]), (vec![(5, 25, Kind::Read)], 0));
    assert_eq!(after(&[(10, 20, R), (10, 20, W)]), (vec![(10, 20, Kind::Write)], 0));
    assert_eq!(after(&[(10, 20, R), (10, 20, None)]), (vec![], -1));
    assert_eq!(after(&[(10, 20, R), (22, 30, W), (32, 40, R), (0, MAX, W)]), (vec![(0, MAX, Kind::Write)], -2));
    assert_eq!(after(&[(10, 20, R), (22, 30, W), (32, 40, R), (0, MAX, None)]), (vec![], -3));
}

#[test]
fn row_f_what_reaches_beyond_on_both_sides_is_split_or_stays() {
    assert_eq!(after(&[(0, 30, W), (10, 20, W)]), (vec![(0, 30, Kind::Write)], 0));
    let split = vec![(0, 9, Kind::Write), (10, 20, Kind::Read), (21, 30, Kind::Write)];
    assert_eq!(after(&[(0, 30, W), (10, 20, R)]), (split, 2));
    assert_eq!(after(&[(0, 30, W), (10, 20, None)]), (vec![(0, 9, Kind::Write), (21, 30, Kind::Write)], 1));
    let around = vec![(0, MAX - 2, Kind::Write), (MAX, MAX, Kind::Write)];
    assert_eq!(after(&[(0, MAX, W), (MAX - 1, MAX - 1, None)]), (around, 1));
}

#[test]
fn one_of_each_row_at_once() {
    let steps = [(0, 12, R), (15, 17, W), (20, 30, R), (40, 50, W), (10, 24, W)];
    let held = vec![(0, 9, Kind::Read), (10, 24, Kind::Write), (25, 30, Kind::Read), (40, 50, Kind::Write)];
    assert_eq!(after(&steps), (held, 0));
}

fn told(held: &[(u64, u64, u64, Kind)], wanted: (u64, u64, u64, Kind)) -> Option<(u64, u64)> {
    let mut ranges = Ranges::default();
    for &(owner, first, last, kind) in held {
        let change = ranges.plan(holder(owner), range(first, last), Some(kind));
        ranges.apply(change, None);
    }
    let (owner, first, last, kind) = wanted;
    let told = ranges.conflict(Lock { holder: holder(owner), range: range(first, last), kind })?;
    assert!(held.iter().any(|&(owner, _, _, kind)| told.holder == holder(owner) && told.kind == kind));
    Some((told.range.first, told.range.last))
}

#[test]
fn row_g_another_owners_that_shares_no_byte_is_not_in_the_way() {
    for (first, last) in [(0, 9), (21, 30), (21, MAX)] {
        assert_eq!(told(&[(2, 10, 20, Kind::Write)], (1, first, last, Kind::Write)), None);
    }
}

#[test]
fn row_h_two_may_read() {
    assert_eq!(told(&[(2, 10, 20, Kind::Read)], (1, 0, MAX, Kind::Read)), None);
}

#[test]
fn row_i_else_it_is_told_who_has_what() {
    for (held, wanted) in [(Kind::Read, Kind::Write), (Kind::Write, Kind::Read), (Kind::Write, Kind::Write)] {
        for (first, last) in [(0, 10), (20, 20), (15, 16), (20, MAX), (0, MAX)] {
            assert_eq!(told(&[(2, 10, 20, held)], (1, first, last, wanted)), Some((10, 20)));
            assert_eq!(told(&[(2, 10, 20, held)], (2, first, last, wanted)), None, "his own");
        }
    }
    // Behind such as are not in the way, of the same owner and of others before and behind.
    let held = [(0, 0, MAX, Kind::Read), (2, 0, 3, Kind::Write), (2, 5, 5, Kind::Read), (3, 8, 9, Kind::Write)];
    assert_eq!(told(&held[..3], (1, 2, 9, Kind::Read)), Some((0, 3)));
    assert_eq!(told(&held, (1, 5, 9, Kind::Read)), Some((8, 9)));
    assert_eq!(told(&held, (1, 4, 7, Kind::Read)), None);
}

#[test]
fn who_holds_nothing_any_more_is_forgotten_with_his_open() {
    let mut ranges = Ranges::default();
    let mut set = |first, last, kind, below: Option<u64>| {
        let change = ranges.plan(holder(1), range(first, last), kind);
        ranges.apply(change, below.map(holder));
        ranges.owners.to_vec()
    };
    assert_eq!(set(0, 9, W, Some(5)), [(holder(1), Some(holder(5)))]);
    assert_eq!(set(20, 29, R, Some(6)), [(holder(1), Some(holder(5)))], "he began below the first");
    assert_eq!(set(0, 29, None, None), []);
    assert_eq!(set(0, 9, W, Some(6)), [(holder(1), Some(holder(6)))]);
    assert!(ranges.free(|owner, below| (owner, below) == (holder(1), None)).is_empty());
    assert_eq!(ranges.free(|owner, below| (owner, below) == (holder(1), Some(holder(6))))[..], [(holder(1), 1)]);
    assert_eq!((ranges.len(), ranges.owners.len()), (0, 0));
}
