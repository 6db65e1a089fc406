use super::*;
use tally_vfs::OwnerNumber;

const AT: fn(u64) -> Duration = Duration::from_secs;

fn wait(host: u64, owner: u64, (first, last): (u64, u64)) -> HostWait<u8> {
    let holder = Holder { client: ClientNumber(host), owner: OwnerNumber(owner) };
    let range = Range::between(first, last).unwrap();
    HostWait { holder, file: 1, range, kind: Kind::Write, handle: Bytes::new(), by: None }
}

/// Those of the file that wait, by their owners.
fn owners(waiting: &Waiting<u8>) -> Vec<u64> {
    waiting.queue(&1, usize::MAX).iter().map(|calling| calling.wait.holder.owner.0).collect()
}

fn number(waiting: &Waiting<u8>, owner: u64) -> u64 {
    let queue = waiting.queue(&1, usize::MAX);
    queue.iter().find(|calling| calling.wait.holder.owner.0 == owner).unwrap().number
}

/// Nothing is left of anybody.
fn is_over(waiting: &Waiting<u8>) -> bool {
    let Waiting { queues, of_hosts, of_owners, due, count, .. } = waiting;
    let is_empty = queues.is_empty() && of_hosts.is_empty() && of_owners.is_empty() && due.is_empty();
    is_empty && count.load(SeqCst) == 0
}

/// One who waits for ten bytes, which are locked for him: he is to be called, and what he had of them.
fn called(had: &[Lock]) -> (Waiting<u8>, u64, HostWait<u8>) {
    let (mut waiting, wait) = (Waiting::default(), wait(1, 1, (0, 9)));
    assert!(waiting.join(wait.clone(), AT(0)));
    let number = number(&waiting, 1);
    assert!(waiting.next_call(AT(0)).is_none());
    assert!(waiting.promote(number, &1, had.to_vec(), AT(0)) && !waiting.promote(number, &1, vec![], AT(0)));
    (waiting, number, wait)
}

#[test]
fn who_asks_again_keeps_his_place() {
    let mut waiting = Waiting::default();
    for owner in [1, 2, 1, 3, 2] {
        assert!(waiting.join(wait(1, owner, (0, 9)), AT(owner)));
    }
    assert_eq!((owners(&waiting), waiting.count_of(ClientNumber(1))), (vec![1, 2, 3], 3));
    // Another range is another place.
    assert!(waiting.join(wait(1, 1, (5, 6)), AT(0)));
    assert_eq!(owners(&waiting), [1, 2, 3, 1]);
    let gone = waiting.leave(wait(1, 1, (0, 9)).holder, &1, |wait| wait.range == Range::between(5, 6).unwrap());
    assert_eq!((gone, owners(&waiting)), (vec![], vec![1, 2, 3]));
    assert_eq!(waiting.take_left(), [], "he has another place");
}

/// What comes of a lock that was locked for who waits, by what he says to the first call.
#[test]
fn a_lock_is_had_when_its_host_says_so_and_given_up_when_it_does_not() {
    for (said, is_given_up) in [(Said::Takes, false), (Said::Refuses, true)] {
        let (mut waiting, number, wait) = called(&[]);
        assert_eq!(waiting.next_call(AT(5)).unwrap(), Calling { number, wait: wait.clone() });
        assert!(waiting.next_call(AT(50)).is_none(), "it is under way");
        let gone = waiting.said(number, &wait, said, AT(6));
        assert_eq!(gone, is_given_up.then(|| Called { wait: wait.clone(), had: vec![] }));
        assert!(is_over(&waiting) && waiting.said(number, &wait, Said::Nothing, AT(7)).is_none());
        assert_eq!(waiting.take_left(), [wait.holder]);
    }
}

#[test]
fn a_host_that_cannot_be_called_is_tried_three_times_in_half_a_minute() {
    let had = vec![Lock { kind: Kind::Read, ..wait(1, 1, (0, 3)).lock() }];
    let (mut waiting, number, wait) = called(&had);
    let mut tried = Vec::new();
    for second in 0..600 {
        if waiting.next_call(AT(second)).is_some() {
            tried.push(second);
            if let Some(gone) = waiting.said(number, &wait, Said::NotCalled, AT(second)) {
                assert_eq!(gone, Called { wait: wait.clone(), had: had.clone() });
            }
        }
    }
    assert_eq!((tried, is_over(&waiting)), (vec![0, 10, 20], true));
}

/// Behind a call that may have reached the host, neither silence nor a refusal gives a lock up: Linux takes the first call, and says no to the second.
#[test]
fn a_lock_that_its_host_may_have_is_left_to_it() {
    for later in [&[Said::Refuses][..], &[Said::Nothing, Said::Refuses], &[Said::NotCalled; 9], &[Said::Nothing; 9]] {
        let (mut waiting, number, wait) = called(&[]);
        let mut now = 0;
        for said in [Said::Nothing].iter().chain(later) {
            while waiting.next_call(AT(now)).is_none() {
                now += 1;
            }
            assert_eq!(waiting.said(number, &wait, *said, AT(now)), None, "{later:?}");
        }
        assert!(waiting.has_any_of(wait.holder) && owners(&waiting).is_empty());
        let is_asked_again = (0..2000).any(|more| waiting.next_call(AT(now + more)).is_some());
        assert_eq!(is_asked_again, *later.last().unwrap() != Said::Refuses, "{later:?}");
        // He asks again and has it, or unlocks some of it; or he waits no more.
        waiting.has(&wait.lock(), &1);
        waiting.call_is_over(ClientNumber(1));
        assert!(is_over(&waiting));
    }
}

#[test]
fn a_doubt_ends_with_what_its_owner_says_next() {
    let in_doubt = || {
        let (mut waiting, number, wait) = called(&[]);
        waiting.next_call(AT(0)).unwrap();
        assert_eq!(waiting.said(number, &wait, Said::Nothing, AT(1)), None);
        (waiting, wait)
    };
    let (mut waiting, wait) = in_doubt();
    waiting.had(wait.holder, &1, Range::between(5, 5).unwrap());
    assert!(is_over(&waiting), "who unlocks some of it has it");
    let (mut waiting, wait) = in_doubt();
    waiting.had(wait.holder, &1, Range::between(10, 10).unwrap());
    assert!(!is_over(&waiting), "what lies beside says nothing");
    assert_eq!(waiting.leave(wait.holder, &1, |_| true), [Called { wait: wait.clone(), had: vec![] }]);
    assert!(is_over(&waiting), "who cancels it gives it up");
    let (mut waiting, wait) = in_doubt();
    waiting.has_nothing(wait.holder, &1);
    assert!(is_over(&waiting));
    let (mut waiting, wait) = in_doubt();
    waiting.forget_host(wait.holder.client);
    assert!(is_over(&waiting));
}

/// A host that hangs in each call keeps two of those that make them.
#[test]
fn no_more_calls_of_a_host_are_under_way_than_may_be() {
    let mut waiting = Waiting::default();
    let waits = [(1, 1), (1, 2), (1, 3), (2, 4)].map(|(host, owner)| wait(host, owner, (owner, owner)));
    for wait in &waits {
        waiting.join(wait.clone(), AT(0));
        let number = number(&waiting, wait.holder.owner.0);
        waiting.promote(number, &1, vec![], AT(0));
    }
    let called: Vec<_> = std::iter::from_fn(|| waiting.next_call(AT(0))).collect();
    let owners: Vec<_> = called.iter().map(|calling| calling.wait.holder.owner.0).collect();
    assert_eq!(owners, [1, 2, 4]);
    assert!(waiting.next_call(AT(9)).is_none());
    assert_eq!(waiting.said(called[0].number, &called[0].wait, Said::Takes, AT(10)), None);
    assert_eq!(waiting.next_call(AT(10)).unwrap().wait.holder.owner.0, 3);
}

#[test]
fn a_call_that_crosses_a_cancellation_or_the_next_lock() {
    let begin = || {
        let (mut waiting, number, wait) = called(&[]);
        waiting.next_call(AT(0)).unwrap();
        (waiting, number, wait)
    };
    let (mut waiting, number, wait) = begin();
    let gone = waiting.leave(wait.holder, &1, |_| true);
    assert_eq!(gone, [Called { wait: wait.clone(), had: vec![] }], "it was locked for him");
    assert_eq!((waiting.said(number, &wait, Said::Takes, AT(1)), is_over(&waiting)), (None, true));
    let (mut waiting, number, wait) = begin();
    waiting.has(&wait.lock(), &1);
    let gone = waiting.said(number, &wait, Said::Refuses, AT(1));
    assert_eq!((gone, is_over(&waiting)), (None, true), "he found it by himself");
}

#[test]
fn those_who_are_gone_wait_no_more() {
    let mut waiting = Waiting::default();
    for (host, owner) in [(1, 1), (2, 2), (1, 3), (3, 4)] {
        waiting.join(wait(host, owner, (0, 9)), AT(host * 100));
    }
    waiting.forget_host(ClientNumber(1));
    assert_eq!(owners(&waiting), [2, 4]);
    waiting.forget_silent(AT(200) + FRESH + AT(1));
    assert_eq!(owners(&waiting), [4]);
    waiting.forget_file(&1);
    assert!(is_over(&waiting));
}

#[test]
fn there_are_no_more_than_may_be() {
    let mut waiting = Waiting::default();
    let taken = (0..2 * WAITERS_OF_HOST_MAX as u64).filter(|owner| waiting.join(wait(1, *owner, (0, 9)), AT(0)));
    assert_eq!(taken.count(), WAITERS_OF_FILE_MAX.min(WAITERS_OF_HOST_MAX));
    assert!(!waiting.join(wait(2, 1, (0, 9)), AT(0)), "that file has enough");
    assert!(waiting.join(HostWait { file: 2, ..wait(2, 1, (0, 9)) }, AT(0)));
}
