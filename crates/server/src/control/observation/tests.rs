use super::*;

fn account(calls: u64, client: &str) -> AccountReport {
    let kind = |procedure: &str, calls| KindReport {
        procedure: procedure.into(),
        calls,
        slot_ns: 5 * calls,
        device_ns: 90 * calls,
        ..KindReport::default()
    };
    AccountReport {
        client: client.into(),
        dataset: "tank".into(),
        kinds: vec![kind("GETATTR", 3), kind("SETATTR", calls)],
        commits: calls,
        commits_by_size: [calls, 0, 0],
        device: Spread(vec![(90, calls)]),
        ..AccountReport::default()
    }
}

#[test]
fn only_what_has_grown_is_in_an_interval() {
    let before = Observation { accounts: vec![account(10, "a"), account(10, "b")], ..Observation::default() };
    let now =
        Observation { accounts: vec![account(17, "a"), account(10, "b"), account(2, "c")], ..Observation::default() };
    let grown = now.accounts_since(Some(&before));
    assert_eq!(grown.iter().map(|account| account.client.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    let first = &grown[0];
    assert_eq!((first.kinds.len(), first.kinds[0].calls, first.kinds[0].wait_ns()), (1, 7, 7 * 95));
    assert_eq!((first.commits, first.commits_by_size, &first.device), (7, [7, 0, 0], &Spread(vec![(90, 7)])));
    assert_eq!(now.accounts_since(None).len(), 3);
}

/// An account that gave way moves what it had counted to its pool's: graphs must not take that for load of now, nor miss
/// what its client did before it went and after it came back.
#[test]
fn what_moves_from_one_account_to_another_has_not_grown() {
    let numbered = |number, calls, client: &str| AccountReport { number, ..account(calls, client) };
    let gone = AccountReport::GONE;
    let before = Observation {
        accounts: vec![numbered(1, 10, "a"), numbered(2, 20, "b"), numbered(3, 5, gone)],
        ..Observation::default()
    };
    // `a` made two more calls and gave way, and came again with four; then nobody gave way.
    let now = Observation {
        accounts: vec![numbered(7, 4, "a"), numbered(2, 21, "b"), numbered(3, 17, gone)],
        ..Observation::default()
    };
    let grown = |now: &Observation, before| {
        let accounts = now.accounts_since(Some(before));
        let one = |of: AccountReport| (of.client, of.commits, of.device.count());
        accounts.into_iter().map(one).collect::<Vec<_>>()
    };
    let expected =
        [("a", 4, 4), ("b", 1, 1), (gone, 2, 2)].map(|(client, commits, waits)| (client.to_owned(), commits, waits));
    assert_eq!(grown(&now, &before), expected);
    assert!(now.accounts_since(Some(&now)).is_empty());
}
