use super::*;

fn with(cuts: &Cuts, from: u64, before: u64) -> Cuts {
    Cuts::with(Some(cuts), from, 100, Txg(before)).expect("there is room")
}

fn first(from: u64, before: u64) -> Cuts {
    Cuts::with(None, from, 100, Txg(before)).expect("it is the first")
}

#[test]
fn what_was_born_since_a_cut_exists() {
    let cuts = with(&first(10, 5), 50, 7);
    for (start, birth) in [(10, 4), (49, 4), (50, 6), (99, 4)] {
        assert!(cuts.has(start, Txg(birth)), "{start} of {birth}");
    }
    for (start, birth) in [(9, 1), (10, 5), (49, 6), (50, 7)] {
        assert!(!cuts.has(start, Txg(birth)), "{start} of {birth}");
    }
}

#[test]
fn a_cut_further_to_the_front_covers_the_others() {
    let cuts = with(&with(&first(10, 5), 50, 7), 10, 9);
    assert_eq!(cuts, Cuts { at: 10, end: 100, stairs: smallvec::smallvec![Cut { from: 10, before: Txg(9) }] });
    let cuts = with(&first(50, 5), 20, 9);
    assert_eq!((cuts.ahead(), cuts.stairs.len()), (20..100, 1));
}

#[test]
fn there_is_room_for_four() {
    let four = (1..4).fold(first(10, 1), |cuts, step| with(&cuts, 10 + step, 1 + step));
    assert_eq!(Cuts::with(Some(&four), 20, 100, Txg(9)), None);
    assert!(Cuts::with(Some(&four), 13, 100, Txg(9)).is_some(), "it covers the last one");
}

#[test]
fn the_reaper_goes_up_the_stairs() {
    let cuts = with(&first(10, 5), 50, 7);
    let there = cuts.clone().reaped(40, 40).expect("more is left");
    assert!(there.is_waiting() && there.ahead() == (40..100));
    assert!(!there.has(39, Txg(1)) && there.has(40, Txg(4)) && there.has(50, Txg(6)));
    let on_the_second = there.reaped(60, 60).expect("more is left");
    assert_eq!(on_the_second.stairs[..], [Cut { from: 60, before: Txg(7) }]);
    assert_eq!(on_the_second.reaped(100, 100), None);
    assert_eq!(cuts.reaped(100, 100), None);
}

/// A leaf may come back that could not be read, and must not bring what was cut.
#[test]
fn what_the_reaper_could_not_read_stays_cut() {
    let cuts = first(10, 5).reaped(40, 20).expect("more is left");
    assert!(cuts.has(20, Txg(4)) && !cuts.has(19, Txg(4)) && cuts.is_waiting());
    let cuts = cuts.reaped(100, 100).expect("that leaf is left");
    assert!(cuts.has(20, Txg(4)) && !cuts.is_waiting());
    let again = with(&cuts, 60, 9);
    assert!(again.is_waiting() && again.ahead() == (60..100) && again.has(20, Txg(4)));
}

#[test]
fn nothing_is_left_behind_a_cut_that_was_carried_out() {
    let cuts = with(&first(10, 5), 50, 7);
    assert_eq!(Cuts::up_to(Some(&cuts), 10), None);
    let left = Cuts::up_to(Some(&cuts), 30).expect("from 10 to 30");
    assert!(left.end() == 30 && left.ahead() == (10..30) && left.has(20, Txg(4)));
}

#[test]
fn an_encoding_comes_back_and_a_lie_does_not() {
    let cuts = with(&first(10, 5), 50, 7);
    let mut bytes = Vec::new();
    cuts.encode(&mut bytes);
    assert_eq!(Cuts::decode(&bytes), Ok(cuts));
    for length in (0..bytes.len()).filter(|length| *length != 32) {
        assert!(Cuts::decode(&bytes[..length]).is_err(), "{length}");
    }
    for (place, lie) in [(0, 101), (8, 10), (16, 50), (24, 7)] {
        let mut bytes = bytes.clone();
        bytes[place] = lie;
        assert!(Cuts::decode(&bytes).is_err(), "{place}");
    }
    bytes.extend_from_within(16..48);
    assert!(Cuts::decode(&bytes).is_err());
}

/// Faulty software may have written of a group that has not been. What is noted above that can be read again.
#[test]
fn a_cut_above_one_of_what_is_to_come() {
    let cuts = with(&first(10, 1 << 40), 50, 7);
    let mut bytes = Vec::new();
    cuts.encode(&mut bytes);
    assert_eq!(Cuts::decode(&bytes), Ok(cuts));
}
