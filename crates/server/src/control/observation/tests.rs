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
