use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn late(slow: &Pace, quick: &Pace) -> bool {
    is_late(slow.expected(4096, 0), quick.expected(4096, 0))
}

#[test]
fn one_long_answer_makes_no_leg_late_and_a_few_do() {
    let (one, other) = (Pace::default(), Pace::default());
    for ms in 0..20 {
        one.note(4096, MS(1), 1, MS(ms));
        other.note(4096, MS(1), 1, MS(ms));
    }
    one.note(4096, MS(400), 1, MS(20));
    assert!(!late(&one, &other), "{:?}", one.expected(4096, 0));
    (21..26).for_each(|ms| one.note(4096, MS(400), 1, MS(ms)));
    assert!(late(&one, &other), "{:?}", one.expected(4096, 0));
}

#[test]
fn what_is_not_known_is_not_late_and_what_is_quick_is_read_all_the_same() {
    let (none, quick, less) = (Pace::default(), Pace::default(), Pace::default());
    quick.note(4096, Duration::from_micros(80), 1, MS(0));
    less.note(4096, Duration::from_micros(600), 1, MS(0));
    assert!(!late(&none, &quick) && !late(&quick, &none));
    assert!(!late(&less, &quick), "two disks bring more than one");
    less.note(1 << 20, MS(300), 1, MS(0));
    assert!(!late(&less, &quick), "large reads say nothing of small ones");
}

#[test]
fn who_has_many_requests_is_expected_to_take_longer() {
    let (one, other) = (Pace::default(), Pace::default());
    one.note(4096, MS(32), 16, MS(0));
    other.note(4096, MS(2), 1, MS(0));
    assert_eq!(one.expected(4096, 0), other.expected(4096, 0));
    assert!(is_late(one.expected(4096, 15), other.expected(4096, 0)));
}

/// It is well again: a probe a second says so, and each counts for much, since what was known is old.
#[test]
fn a_leg_that_is_well_again_is_read_again_behind_a_few_probes() {
    let (slow, quick) = (Pace::default(), Pace::default());
    slow.note(4096, MS(200), 1, MS(0));
    quick.note(4096, MS(1), 1, MS(0));
    assert!(late(&slow, &quick));
    let mut probes = 0;
    for ms in (0..60_000).step_by(10) {
        if late(&slow, &quick) && slow.is_due(4096, MS(ms)) {
            assert!(!slow.is_due(4096, MS(ms)), "one at a time");
            probes += 1;
            slow.note(4096, MS(1), 1, MS(ms + 1000));
        }
    }
    assert!((3..12).contains(&probes), "{probes}");
}
