use super::*;
use tally_vfs::OwnerNumber;

const AT: fn(u64) -> Duration = Duration::from_secs;

fn wait(host: u64, owner: u64, (first, last): (u64, u64)) -> Wait<u8> {
    let holder = Holder { client: ClientNumber(host), owner: OwnerNumber(owner) };
    Wait { holder, file: 1, range: Range::between(first, last).unwrap(), kind: Kind::Write, handle: Bytes::new() }
}

/// Those of the file that wait, by their owners.
fn owners(waiting: &Waiting<u8>) -> Vec<u64> {
    waiting.queue(&1).iter().map(|calling| calling.wait.holder.owner.0).collect()
}

fn number(waiting: &Waiting<u8>, owner: u64) -> u64 {
    waiting.queue(&1).iter().find(|calling| calling.wait.holder.owner.0 == owner).unwrap().number
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
}

/// What comes of a lock that was locked for who waits, by what he says.
#[test]
fn a_lock_is_had_when_its_host_says_so_and_given_up_when_it_does_not() {
    for (said, is_given_up) in [(Said::Takes, false), (Said::Refuses, true)] {
        let mut waiting = Waiting::default();
        waiting.join(wait(1, 1, (0, 9)), AT(0));
        let number = number(&waiting, 1);
        assert!(waiting.next_call(AT(0)).is_none());
        assert!(waiting.promote(number, vec![], AT(5)) && !waiting.promote(number, vec![], AT(5)));
        assert_eq!(waiting.next_call(AT(5)).unwrap().number, number);
        assert!(waiting.next_call(AT(50)).is_none(), "it is under way");
        let called = waiting.said(number, said, AT(6));
        assert_eq!(called, is_given_up.then(|| Called { wait: wait(1, 1, (0, 9)), had: vec![] }));
        assert!(waiting.is_empty() && waiting.said(number, Said::Nothing, AT(7)).is_none());
    }
}

#[test]
fn a_host_that_says_nothing_is_called_three_times_in_half_a_minute() {
    let mut waiting = Waiting::default();
    waiting.join(wait(1, 1, (0, 9)), AT(0));
    let number = number(&waiting, 1);
    let had = vec![Lock { kind: Kind::Read, ..wait(1, 1, (0, 3)).lock() }];
    waiting.promote(number, had.clone(), AT(0));
    let mut called = Vec::new();
    for second in 0..60 {
        if waiting.next_call(AT(second)).is_some() {
            called.push(second);
            if let Some(gone) = waiting.said(number, Said::Nothing, AT(second)) {
                assert_eq!(gone, Called { wait: wait(1, 1, (0, 9)), had: had.clone() });
            }
        }
    }
    assert_eq!((called, waiting.is_empty()), (vec![0, 10, 20], true));
}

#[test]
fn a_call_that_crosses_a_cancellation_or_the_next_lock() {
    let begin = || {
        let mut waiting = Waiting::default();
        waiting.join(wait(1, 1, (0, 9)), AT(0));
        let number = number(&waiting, 1);
        waiting.promote(number, vec![], AT(0));
        waiting.next_call(AT(0)).unwrap();
        (waiting, number)
    };
    let (mut waiting, number) = begin();
    let called = waiting.leave(wait(1, 1, (0, 9)).holder, &1, |_| true);
    assert_eq!(called, [Called { wait: wait(1, 1, (0, 9)), had: vec![] }], "it was locked for him");
    assert_eq!(waiting.said(number, Said::Takes, AT(1)), None);
    let (mut waiting, number) = begin();
    waiting.has(wait(1, 1, (0, 9)).holder, &1, Range::between(0, 9).unwrap(), Kind::Write);
    assert_eq!(
        (waiting.said(number, Said::Refuses, AT(1)), waiting.is_empty()),
        (None, true),
        "he found it by himself"
    );
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
    assert!(waiting.is_empty() && waiting.of_hosts.is_empty() && waiting.of_files.is_empty());
}

#[test]
fn there_are_no_more_than_may_be() {
    let mut waiting = Waiting::default();
    let taken = (0..2 * WAITERS_OF_HOST_MAX as u64).filter(|owner| waiting.join(wait(1, *owner, (0, 9)), AT(0)));
    assert_eq!(taken.count(), WAITERS_OF_FILE_MAX.min(WAITERS_OF_HOST_MAX));
    assert!(!waiting.join(wait(2, 1, (0, 9)), AT(0)), "that file has enough");
    assert!(waiting.join(Wait { file: 2, ..wait(2, 1, (0, 9)) }, AT(0)));
}
