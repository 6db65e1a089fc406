use super::*;

fn count(opens: usize, ranges: usize, delegations: usize) -> Count {
    Count { opens, ranges, delegations }
}

fn too_many(what: Counted, within: Within) -> Result<(), Refused> {
    Err(Refused::TooMany { what, within })
}

#[test]
fn a_client_meets_its_own_bound_before_that_of_all() {
    let bounds = [
        (Counted::Opens, OPENS_MAX, OPENS_OF_CLIENT_MAX),
        (Counted::Ranges, RANGES_MAX, RANGES_OF_CLIENT_MAX),
        (Counted::Delegations, DELEGATIONS_MAX, DELEGATIONS_OF_CLIENT_MAX),
    ];
    for (what, max, of_client_max) in bounds {
        let account = Account::default();
        for client in 0..(max / of_client_max) as u64 {
            assert_eq!(account.take(ClientNumber(client), what, of_client_max), Ok(()));
            assert_eq!(account.take(ClientNumber(client), what, 1), too_many(what, Within::Client));
        }
        // Both are reached.
        assert_eq!(account.take(ClientNumber(0), what, 1), too_many(what, Within::Client));
        assert_eq!(account.take(ClientNumber(99), what, 1), too_many(what, Within::All));
        assert_eq!(account.take(ClientNumber(99), what, usize::MAX / 2), too_many(what, Within::Client));
        assert_eq!(account.of_client(ClientNumber(99)), Count::default());
        account.give(ClientNumber(0), what, 2);
        assert_eq!(account.take(ClientNumber(99), what, 3), too_many(what, Within::All));
        assert_eq!(account.take(ClientNumber(99), what, 2), Ok(()));
    }
}

#[test]
fn each_is_counted_apart_and_nothing_is_kept_of_who_has_none() {
    let account = Account::default();
    let client = ClientNumber(5);
    account.take(client, Counted::Ranges, 0).unwrap();
    account.give(client, Counted::Ranges, 0);
    account.take(client, Counted::Opens, 3).unwrap();
    account.take(client, Counted::Ranges, 4).unwrap();
    assert_eq!((account.of_client(client), account.totals()), (count(3, 4, 0), count(3, 4, 0)));
    account.give(client, Counted::Opens, 3);
    assert_eq!((account.of_client(client), account.totals()), (count(0, 4, 0), count(0, 4, 0)));
    account.take(client, Counted::Delegations, 2).unwrap();
    account.give(client, Counted::Ranges, 4);
    assert_eq!((account.of_client(client), account.totals()), (count(0, 0, 2), count(0, 0, 2)));
    account.give(client, Counted::Delegations, 2);
    assert!(account.clients.iter().all(|clients| clients.lock().is_empty()));
}
