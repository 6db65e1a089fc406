use super::*;
use crate::v4::state::LEASE_DEFAULT as LEASE;

const STEP: Duration = Duration::from_secs(1);

/// Looks every second from one time to another.
fn look(clock: &LeaseClock, seconds: std::ops::RangeInclusive<u32>) -> Duration {
    seconds.for_each(|second| clock.look(STEP * second));
    clock.now()
}

#[test]
fn it_counts_while_somebody_looks() {
    let clock = LeaseClock::new(LEASE);
    assert_eq!(look(&clock, 1000..=1000), Duration::ZERO, "it begins with the first look");
    assert_eq!(look(&clock, 1001..=1200), STEP * 200);
    assert_eq!(clock.heard(), STEP * 200 + LOOK_MAX);
    clock.look(STEP * 1202);
    assert_eq!(clock.now(), STEP * 202, "that is no gap yet");
}

/// A server that hung for 100 s, or for 3: every lease would have been over at once, or some of them.
#[test]
fn behind_a_gap_nothing_is_over_for_one_lease() {
    let lease = LEASE.as_secs() as u32;
    for gap in [100, 3] {
        let clock = LeaseClock::new(LEASE);
        let before = look(&clock, 0..=lease - 1);
        let woken = lease - 1 + gap;
        assert_eq!(look(&clock, woken..=woken + lease), before, "{gap}: one lease stands still");
        assert_eq!(look(&clock, woken + lease + 1..=woken + lease + 5), before + STEP * 5);
    }
}

/// Another gap within that lease begins it anew; and time that goes back, which a clock of this kind does not, counts for nothing.
#[test]
fn a_gap_in_a_gap_is_one_more() {
    let clock = LeaseClock::new(LEASE);
    look(&clock, 0..=10);
    look(&clock, 20..=30);
    let lease = LEASE.as_secs() as u32;
    assert_eq!(look(&clock, 40..=40 + lease), STEP * 10);
    assert_eq!(look(&clock, 41 + lease..=42 + lease), STEP * 12);
    clock.look(STEP);
    assert_eq!(clock.now(), STEP * 12);
}

/// However long a lease is, those who have one have time to come back behind a gap, and no more: it would stand still for ever where there is one in each lease.
#[test]
fn behind_a_gap_a_long_lease_does_not_stand_still_for_longer_than_a_usual_one() {
    let clock = LeaseClock::new(Duration::from_secs(3600));
    look(&clock, 0..=10);
    let usual = LEASE.as_secs() as u32;
    assert_eq!(look(&clock, 20..=20 + usual), STEP * 10);
    assert_eq!(look(&clock, 21 + usual..=30 + usual), STEP * 20);
}
