use super::super::writes::Where;
use super::*;

const A: ClientKey = ClientKey::of_sessions_for_tests(1);
const B: ClientKey = ClientKey::of_sessions_for_tests(2);
const OLD: ClientKey = ClientKey::of_minor_0_for_tests(3);
const IN_A: Entry = Entry::Client(A);
const IN_B: Entry = Entry::Client(B);
const LEASE: Duration = LEASE_DEFAULT;
const HERE: DatasetId = DatasetId(1);
const ELSEWHERE: DatasetId = DatasetId(2);

fn second(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn without_anybody_in_it_there_is_no_grace() {
    let mut list = List::new(&[], second(5), LEASE);
    list.advance(second(5), &|_| false);
    assert!(list.is_over() && !list.reclaim(A, second(6)));
}

/// The rows of D5 and D12.
#[test]
fn who_is_in_it_may_claim_until_the_grace_is_over() {
    let mut list = List::new(&[IN_A, IN_B], second(5), LEASE);
    assert!(list.is_in_grace() && list.reclaim(A, second(6)) && !list.reclaim(OLD, second(6)));
    let has_completed = |key: &ClientKey| *key == A;
    list.advance(second(94), &has_completed);
    assert!(list.is_in_grace());
    assert_eq!(list.advance(second(95), &has_completed), Some(Came { claimed: 1, idle: 0, lost: 1 }));
    assert_eq!(list.advance(second(95), &has_completed), None, "it is told once");
    assert!(list.is_over() && !list.reclaim(A, second(95)) && !list.reclaim(B, second(95)));
    assert_eq!(list.take_doomed(), [IN_B], "who has claimed nothing has nothing");
    assert!(list.has(A) && !list.is_at_rest(A, false), "B may not be out of it yet");
    list.settle();
    assert!(!list.is_at_rest(A, false), "A has a lease of which nothing is written down");
    list.lease_is_noted();
    assert!(!list.is_at_rest(A, false), "nor is that durable");
    list.settle();
    assert!(list.is_at_rest(A, false));
}

/// Seed 1150 of the histories of what clients hold, as it was drawn on 2026-11-29. A client claimed one of two opens and was silent until the grace was over. The other one was given to
/// somebody else; and behind a kill the client claimed it, and got it.
#[test]
fn who_has_claimed_a_part_and_not_completed_is_out_of_it() {
    let mut list = List::new(&[IN_A, Entry::Client(OLD)], second(0), LEASE);
    assert!(list.reclaim(A, second(1)) && list.reclaim(OLD, second(1)));
    list.advance(LEASE, &|_| false);
    assert_eq!((list.take_doomed(), list.has(A)), (vec![IN_A], false));
    assert!(list.has(OLD), "it has no word for having completed");
    list.note(A);
    assert!(list.has(A) && list.take_doomed().is_empty(), "it is given something new");
}

#[test]
fn it_is_over_once_all_have_completed_who_say_so() {
    let mut list = List::new(&[IN_A, IN_B], second(0), LEASE);
    list.advance(second(1), &|key| *key == A);
    assert!(list.is_in_grace());
    assert_eq!(list.advance(second(1), &|_| true), Some(Came { claimed: 0, idle: 2, lost: 0 }));
    assert!(list.is_over() && list.take_doomed().is_empty());
    let mut list = List::new(&[IN_A, Entry::Client(OLD)], second(0), LEASE);
    list.advance(second(1), &|_| true);
    assert!(list.is_in_grace(), "those of minor version 0 have no word for it");
    list.advance(LEASE, &|key| *key == A);
    assert_eq!((list.is_over(), list.take_doomed()), (true, vec![Entry::Client(OLD)]));
}

#[test]
fn claims_keep_it_open_for_those_that_follow_and_not_for_ever() {
    let mut list = List::new(&[IN_A], second(0), LEASE);
    for at in (0..400).step_by(10) {
        list.advance(second(at), &|_| false);
        assert_eq!(list.reclaim(A, second(at)), second(at) < 2 * LEASE, "at {at} s");
    }
}

/// Whoever is gone takes part in nothing, and who comes again is not taken out by what was left to do.
#[test]
fn who_is_gone_goes_out() {
    let mut list = List::new(&[IN_A, IN_B], second(0), LEASE);
    list.forget(OLD, true);
    assert!(!list.has_doomed());
    list.forget(B, true);
    assert!(list.has_doomed() && !list.is_settled());
    assert_eq!(list.advance(second(1), &|key| *key == A), Some(Came { claimed: 0, idle: 1, lost: 0 }));
    assert!(list.is_over(), "nobody waits for who is gone");
    list.note(B);
    assert!(list.take_doomed().is_empty() && list.has(B));
}

fn writes(key: ClientKey, dataset: DatasetId) -> Entry {
    Entry::Writes(Flag { key, place: Where::In(dataset) })
}

/// Rules V27: others wait as long as one who may have had something for writing has not said that he claims nothing more.
#[test]
fn who_may_have_written_keeps_others_out_until_he_has_completed() {
    let mut list = List::new(&[IN_A, IN_B, writes(A, HERE)], second(0), LEASE);
    let nobody = |_: &ClientKey| false;
    assert!(list.awaits_claims(Some(HERE), None, &nobody) && list.awaits_claims(Some(HERE), Some(B), &nobody));
    assert!(!list.awaits_claims(Some(HERE), Some(A), &nobody), "what is there is his");
    assert!(
        !list.awaits_claims(Some(ELSEWHERE), None, &nobody) && !list.awaits_claims(Some(HERE), None, &|key| *key == A)
    );
    let (a, b) = ((A, ClientId(1)), (B, ClientId(2)));
    assert!(!list.reclaim_write(b, HERE, second(1)) && !list.reclaim_write(a, ELSEWHERE, second(1)));
    assert!(list.reclaim(A, second(1)) && list.reclaim_write(a, HERE, second(1)));
    list.advance(LEASE + second(20), &|key| *key == A);
    assert!(!list.awaits_claims(Some(HERE), None, &nobody) && !list.reclaim_write(a, HERE, second(120)));
    assert_eq!(list.take_doomed(), [IN_B]);
    assert!(list.may_write(a, HERE, second(120)), "it is still written down");
}

/// Neither behind a crash nor in this life may a client go by a flag that is about to go.
#[test]
fn a_flag_goes_with_its_client_and_by_itself() {
    let (a, b) = ((A, ClientId(1)), (B, ClientId(2)));
    let mut list = List::new(&[IN_A, writes(A, HERE), writes(B, HERE)], second(0), LEASE);
    assert!(list.has_doomed() && !list.is_settled(), "B is not there");
    assert_eq!(list.take_doomed(), [writes(B, HERE)]);
    assert!(list.idle(second(61)).is_empty(), "in the grace nobody has anything yet");
    list.forget(A, true);
    assert_eq!(list.take_doomed(), [IN_A, writes(A, HERE)]);
    list.advance(second(61), &|_| true);
    [A, B].into_iter().for_each(|key| list.note(key));
    assert!(!list.may_write(b, HERE, second(61)));
    let flags = [a, b].map(|whose| Entry::Writes(list.note_write(whose, HERE, second(61))));
    list.settle();
    let dooms = list.dooms();
    let idle = list.idle(second(121));
    assert_eq!(idle.iter().map(|(_, client)| *client).collect::<Vec<_>>(), [Some(ClientId(1)), Some(ClientId(2))]);
    // A asks for one meanwhile.
    assert!(list.may_write(a, HERE, second(121)));
    list.forget_idle(idle.into_iter().map(|(flag, _)| flag), second(121));
    assert_eq!((list.dooms(), list.is_settled(), list.take_doomed()), (dooms + 1, false, vec![flags[1]]));
    assert!(list.may_write(a, HERE, second(121)) && !list.may_write(b, HERE, second(121)));
    list.forget_idle(list.idle(second(181)).into_iter().map(|(flag, _)| flag), second(181));
    assert_eq!(Entry::Writes(list.note_write(a, HERE, second(181))), flags[0]);
    assert!(!list.has_doomed(), "it is to stay");
}

/// The list could not be read until others had to go on.
#[test]
fn who_comes_too_late_claims_none_for_writing() {
    let mut list = List::new(&[IN_A, writes(A, HERE)], second(0), LEASE);
    list.settle();
    list.forget_writes();
    assert_eq!((list.is_settled(), list.awaits_claims(None, None, &|_| false)), (false, false));
    assert!(list.reclaim(A, second(1)) && !list.reclaim_write((A, ClientId(1)), HERE, second(1)));
    assert_eq!(list.take_doomed(), [writes(A, HERE)]);
}

/// One that is held up elsewhere is waited for, until shortly before nobody is any more; then it has to claim at once.
#[test]
fn a_host_that_is_held_up_is_waited_for_as_long_as_anybody_is() {
    let host = ClientKey::of_host([10, 0, 0, 1].into());
    let mut list = List::new(&[Entry::Client(host), IN_A], second(0), LEASE);
    assert!(!list.is_held_up(B, second(80)), "who is not in it");
    let is_over = |list: &mut List, at| list.advance(second(at), &|_| false).is_some();
    for at in (80..=160).step_by(10) {
        assert!(!is_over(&mut list, at) && !list.is_held_up(host, second(at)), "{at}");
    }
    assert!(!is_over(&mut list, 164) && !list.is_held_up(host, second(164)) && list.is_held_up(host, second(165)));
    assert_eq!(list.advance(second(179), &|_| false), None);
    assert_eq!(
        list.advance(second(180), &|_| false),
        Some(Came { claimed: 0, idle: 0, lost: 2 }),
        "it has claimed nothing"
    );
    assert!(!list.is_held_up(host, second(181)), "nobody waits for it here");
}
