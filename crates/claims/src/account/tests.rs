use super::*;

fn too_many(what: Counted, within: Within) -> Result<(), Refused> {
    Err(Refused::TooMany { what, within })
}

#[test]
fn a_client_meets_its_own_bound_before_that_of_all() {
    for what in [Counted::Opens, Counted::Ranges] {
        let account = Account::default();
        let fill = OPENS_MAX / OPENS_OF_CLIENT_MAX;
        for client in 0..fill as u64 {
            assert_eq!(account.take(ClientNumber(client), what, OPENS_OF_CLIENT_MAX), Ok(()));
            assert_eq!(account.take(ClientNumber(client), what, 1), too_many(what, Within::Client));
        }
        // Both are reached.
        assert_eq!(account.take(ClientNumber(0), what, 1), too_many(what, Within::Client));
        assert_eq!(account.take(ClientNumber(99), what, 1), too_many(what, Within::All));
        assert_eq!(account.take(ClientNumber(99), what, usize::MAX / 2), too_many(what, Within::Client));
        assert_eq!(account.of_client(ClientNumber(99)), (0, 0));
        account.give(ClientNumber(0), what, 2);
        assert_eq!(account.take(ClientNumber(99), what, 3), too_many(what, Within::All));
        assert_eq!(account.take(ClientNumber(99), what, 2), Ok(()));
    }
}

#[test]
fn opens_and_ranges_are_counted_apart_and_nothing_is_kept_of_who_has_none() {
    let account = Account::default();
    let client = ClientNumber(5);
    account.take(client, Counted::Ranges, 0).unwrap();
    account.give(client, Counted::Ranges, 0);
    account.take(client, Counted::Opens, 3).unwrap();
    account.take(client, Counted::Ranges, 4).unwrap();
    assert_eq!((account.of_client(client), account.totals()), ((3, 4), (3, 4)));
    account.give(client, Counted::Opens, 3);
    assert_eq!((account.of_client(client), account.totals()), ((0, 4), (0, 4)));
    account.give(client, Counted::Ranges, 4);
    assert!(account.clients.iter().all(|clients| clients.lock().is_empty()));
}
