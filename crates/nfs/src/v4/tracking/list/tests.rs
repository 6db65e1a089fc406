use super::*;

const A: ClientKey = ClientKey::of_sessions_for_tests(1);
const B: ClientKey = ClientKey::of_sessions_for_tests(2);
const OLD: ClientKey = ClientKey::of_minor_0_for_tests(3);

fn second(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn without_anybody_in_it_there_is_no_grace() {
    let mut list = List::new(Vec::new(), second(5));
    list.advance(second(5), &|_| false);
    assert!(list.is_over() && !list.reclaim(A, second(6)));
}

/// The rows of D5 and D12.
#[test]
fn who_is_in_it_may_claim_until_the_grace_is_over() {
    let mut list = List::new(vec![A, B], second(5));
    assert!(list.is_in_grace() && list.reclaim(A, second(6)) && !list.reclaim(OLD, second(6)));
    let has_completed = |key: &ClientKey| *key == A;
    list.advance(second(94), &has_completed);
    assert!(list.is_in_grace());
    assert_eq!(list.advance(second(95), &has_completed), Some(Came { claimed: 1, idle: 0, lost: 1 }));
    assert_eq!(list.advance(second(95), &has_completed), None, "it is told once");
    assert!(list.is_over() && !list.reclaim(A, second(95)) && !list.reclaim(B, second(95)));
    assert_eq!(list.take_doomed(), [B], "who has claimed nothing has nothing");
    assert!(list.has(A) && !list.is_at_rest(A, false), "B may not be out of it yet");
    list.settle();
    assert!(list.is_at_rest(A, false));
}

/// Seed 1150 of the histories of what clients hold, as it was drawn on 2026-11-29. A client claimed one of two opens and was silent until the grace was over. The other one was given to
/// somebody else; and behind a kill the client claimed it, and got it.
#[test]
fn who_has_claimed_a_part_and_not_completed_is_out_of_it() {
    let mut list = List::new(vec![A, OLD], second(0));
    assert!(list.reclaim(A, second(1)) && list.reclaim(OLD, second(1)));
    list.advance(LEASE, &|_| false);
    assert_eq!((list.take_doomed(), list.has(A)), (vec![A], false));
    assert!(list.has(OLD), "it has no word for having completed");
    list.note(A);
    assert!(list.has(A) && list.take_doomed().is_empty(), "it is given something new");
}

#[test]
fn it_is_over_once_all_have_completed_who_say_so() {
    let mut list = List::new(vec![A, B], second(0));
    list.advance(second(1), &|key| *key == A);
    assert!(list.is_in_grace());
    assert_eq!(list.advance(second(1), &|_| true), Some(Came { claimed: 0, idle: 2, lost: 0 }));
    assert!(list.is_over() && list.take_doomed().is_empty());
    let mut list = List::new(vec![A, OLD], second(0));
    list.advance(second(1), &|_| true);
    assert!(list.is_in_grace(), "those of minor version 0 have no word for it");
    list.advance(LEASE, &|key| *key == A);
    assert_eq!((list.is_over(), list.take_doomed()), (true, vec![OLD]));
}

#[test]
fn claims_keep_it_open_for_those_that_follow_and_not_for_ever() {
    let mut list = List::new(vec![A], second(0));
    for at in (0..400).step_by(10) {
        list.advance(second(at), &|_| false);
        assert_eq!(list.reclaim(A, second(at)), second(at) < 2 * LEASE, "at {at} s");
    }
}

/// Whoever is gone takes part in nothing, and who comes again is not taken out by what was left to do.
#[test]
fn who_is_gone_goes_out() {
    let mut list = List::new(vec![A, B], second(0));
    list.forget(OLD);
    assert!(!list.has_doomed());
    list.forget(B);
    assert!(list.has_doomed() && !list.is_settled());
    assert_eq!(list.advance(second(1), &|key| *key == A), Some(Came { claimed: 0, idle: 1, lost: 0 }));
    assert!(list.is_over(), "nobody waits for who is gone");
    list.note(B);
    assert!(list.take_doomed().is_empty() && list.has(B));
}
