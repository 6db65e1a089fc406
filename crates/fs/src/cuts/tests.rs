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
    assert_eq!(
        cuts,
        Cuts { at: 10, end: 100, stairs: smallvec::smallvec![Cut { from: 10, before: Txg(9) }], ..Cuts::default() }
    );
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

fn punched(cuts: Option<&Cuts>, range: std::ops::Range<u64>, before: u64) -> Cuts {
    Cuts::punched(cuts, range, Txg(before), PUNCHES_MAX).expect("there is room")
}

#[test]
fn in_a_punch_nothing_older_exists_and_beside_it_everything() {
    let cuts = punched(Some(&punched(None, 10..20, 5)), 15..40, 7);
    for (start, birth) in [(10, 4), (14, 4), (15, 6), (39, 6)] {
        assert!(cuts.has(start, Txg(birth)), "{start} of {birth}");
    }
    for (start, birth) in [(9, 1), (10, 5), (14, 6), (15, 7), (40, 1)] {
        assert!(!cuts.has(start, Txg(birth)), "{start} of {birth}");
    }
    assert_eq!(punched(Some(&cuts), 10..40, 8).punch_count(), 1, "it covers both");
    assert_eq!(punched(Some(&cuts), 11..40, 8).punch_count(), 2);
}

#[test]
fn punches_are_reaped_one_behind_the_other_and_beside_cuts() {
    let cuts = with(&punched(Some(&punched(None, 10..20, 5)), 30..60, 5), 50, 6);
    assert_eq!((cuts.punch_ahead(), cuts.ahead(), cuts.punch_count()), (Some(10..20), 50..100, 2));
    let cuts = cuts.punch_reaped(15).expect("more is left");
    assert!(!cuts.has(14, Txg(1)) && cuts.has(15, Txg(1)) && cuts.is_waiting());
    let cuts = cuts.punch_reaped(20).expect("more is left");
    // What the cut behind it covers is the cut's.
    assert_eq!(cuts.punch_ahead(), Some(30..50));
    let cuts = cuts.reaped(100, 100).expect("the punch is left");
    assert!(cuts.is_waiting() && cuts.end() == 0 && cuts.has(30, Txg(4)) && !cuts.has(60, Txg(4)));
    assert_eq!(cuts.punch_reaped(50), None);
}

#[test]
fn a_cut_that_is_carried_out_takes_punches_along() {
    let cuts = punched(Some(&punched(None, 10..20, 5)), 30..60, 5);
    let left = Cuts::up_to(Some(&cuts), 40).expect("more is left");
    assert!(left.has(39, Txg(4)) && !left.has(40, Txg(4)) && left.punch_count() == 2);
    assert_eq!(Cuts::up_to(Some(&cuts), 10), None);
}

#[test]
fn there_is_room_for_so_many_punches_and_no_more() {
    let full = (0..PUNCHES_MAX as u64).fold(Cuts::default(), |cuts, at| punched(Some(&cuts), at * 10..at * 10 + 5, 5));
    assert_eq!(Cuts::punched(Some(&full), 1000..1005, Txg(6), PUNCHES_MAX), None);
    assert_eq!(Cuts::punched(Some(&full), 1000..1005, Txg(6), usize::MAX), None);
    assert!(Cuts::punched(Some(&full), 10..25, Txg(6), PUNCHES_MAX).is_some(), "it covers two");
    let mut bytes = Vec::new();
    with(&full, 1 << 20, 9).encode(&mut bytes);
    assert!(bytes.len() <= CUTS_BYTES_MAX);
}

#[test]
fn an_encoding_of_punches_comes_back_and_a_lie_does_not() {
    let alone = punched(None, 10..20, 5);
    let both = with(&alone, 50, 7);
    for cuts in [&alone, &both] {
        let mut bytes = Vec::new();
        cuts.encode(&mut bytes);
        assert_eq!(Cuts::decode(&bytes).as_ref(), Ok(cuts));
        // Cut off behind the punches it is that of the punches.
        for length in (0..bytes.len()).filter(|length| *length != 40) {
            assert!(Cuts::decode(&bytes[..length]).is_err(), "{length}");
        }
        for (place, lie) in [(8, 0), (8, 65), (15, 1), (16, 20)] {
            let mut bytes = bytes.clone();
            bytes[place] = lie;
            assert!(Cuts::decode(&bytes).is_err(), "{place}");
        }
    }
}
