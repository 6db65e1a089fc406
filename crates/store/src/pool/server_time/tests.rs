use std::sync::atomic::Ordering::SeqCst;

use super::*;

const DAY: u64 = 24 * 60 * 60 * 1_000_000_000;
const MINUTE: u64 = 60 * 1_000_000_000;
const NOW: u64 = 1_790_000_000 * 1_000_000_000;

#[derive(Default)]
struct Told {
    day: AtomicU64,
    up: AtomicU64,
}

impl Clock for Told {
    fn now(&self) -> Time {
        Time(self.day.load(SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.up.load(SeqCst))
    }
}

impl Told {
    fn pass(&self, nanoseconds: u64) {
        self.day.fetch_add(nanoseconds, SeqCst);
        self.up.fetch_add(nanoseconds, SeqCst);
    }
}

/// A pool that was last in use at `NOW`, on a machine whose clock says `day`.
fn woken(day: u64) -> (Arc<Told>, ServerTime) {
    let clock = Arc::new(Told { day: day.into(), up: 7.into() });
    let time = ServerTime::new(Arc::clone(&clock) as _, Some(Time(NOW)), Time(NOW + 10));
    (clock, time)
}

#[test]
fn a_clock_within_a_day_is_followed_and_time_only_goes_up() {
    for day in [NOW + 11, NOW + DAY / 2, NOW + DAY] {
        let (clock, time) = woken(day);
        assert_eq!(time.issue(), Time(day));
        assert_eq!(time.issue(), Time(day + 1), "none twice");
        clock.pass(5 * DAY);
        assert_eq!((time.issue(), time.fault()), (clock.now(), None), "days may pass without a group");
    }
    for day in [0, NOW - DAY, NOW] {
        let (_, time) = woken(day);
        assert_eq!(time.issue(), Time(NOW + 11), "above the lease, whatever the clock says");
    }
}

#[test]
fn a_jump_is_held_until_the_clock_comes_back() {
    let (clock, time) = woken(NOW + 73 * 365 * DAY);
    for _ in 0..100 {
        clock.pass(DAY);
        time.set_lease(time.lease_from(time.issue()));
    }
    assert_eq!(time.issue().0, NOW + 100 * DAY + 1, "by the clock that nobody sets");
    assert!(matches!(time.fault(), Some(ClockFault::Ahead { on_probation: false, .. })));
    clock.day.store(NOW + 100 * DAY + MINUTE, SeqCst);
    assert_eq!((time.issue(), time.fault()), (clock.now(), None));
}

#[test]
fn a_pool_that_was_away_for_weeks_believes_a_clock_that_goes_on_evenly() {
    let (clock, time) = woken(NOW + 30 * DAY);
    assert_eq!(time.issue(), Time(NOW + 11));
    assert!(matches!(time.fault(), Some(ClockFault::Ahead { on_probation: true, .. })));
    clock.pass(10 * MINUTE);
    assert_eq!(time.issue(), Time(NOW + 10 * MINUTE));
    // Somebody corrects it: it begins anew.
    clock.day.fetch_add(DAY, SeqCst);
    clock.pass(6 * MINUTE);
    assert_eq!(time.issue(), Time(NOW + 16 * MINUTE));
    clock.pass(15 * MINUTE);
    assert_eq!((time.issue(), time.fault()), (clock.now(), None));
}

#[test]
fn a_clock_that_is_behind_is_told_and_catches_up() {
    let (clock, time) = woken(NOW - 3 * DAY);
    assert!(matches!(time.fault(), Some(ClockFault::Behind { by }) if by > 2 * JUMP_MAX));
    for step in 1..=3 {
        assert_eq!(time.issue().0, NOW + 10 + step);
        time.set_lease(time.lease_from(Time(NOW + 10 + step)));
    }
    clock.pass(4 * DAY);
    assert_eq!((time.issue(), time.fault()), (clock.now(), None));
}

#[test]
fn an_administrator_has_the_last_word() {
    for day in [NOW + 3000 * DAY, NOW - 3000 * DAY] {
        let (clock, time) = woken(day);
        let _ = time.issue();
        assert!(time.accept_clock());
        clock.pass(1);
        assert_eq!((time.issue(), time.fault()), (clock.now(), None));
    }
    let (_, time) = woken(u64::MAX);
    assert!(!time.accept_clock(), "nobody could read such a time");
    assert_eq!(time.issue(), Time(NOW + 11));
    let new = ServerTime::new(Arc::new(Told { day: u64::MAX.into(), ..Told::default() }), None, Time(0));
    assert!(new.issue() < TIME_ROOM_END && new.lease_from(new.issue()) < Time(1 << 63));
}

#[test]
fn what_is_not_logged_keeps_below_the_lease() {
    let (clock, time) = woken(NOW + MINUTE);
    time.set_lease(time.lease_from(time.issue()));
    let lease = clock.now().0 + 10 * 1_000_000_000;
    assert!(!time.is_lease_over());
    clock.pass(MINUTE);
    assert!(time.is_lease_over());
    assert_eq!(time.issue_leased(), Some(Time(lease - 1)));
    assert!(time.is_past_lease());
    assert_eq!(time.issue_leased(), None, "the next one would be told by nothing");
    // Nor is there one behind a logged change, whose record may be lost.
    time.set_lease(time.lease_from(time.issue()));
    assert!(!time.is_past_lease());
    clock.pass(MINUTE);
    let logged = time.issue();
    assert_eq!((logged, time.issue_leased()), (clock.now(), None));
    assert!(time.is_past_lease());
    time.set_lease(time.lease_from(logged));
    assert_eq!(time.issue_leased(), Some(Time(logged.0 + 1)));
}
