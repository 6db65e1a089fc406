use super::*;
use crate::holder::Series;

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

/// Clients of a second door have no leases, and from as many addresses as there are bounds nobody else could lock anything.
#[test]
fn ranges_of_a_second_door_leave_half_of_all_to_others() {
    let account = Account::default();
    let there = |number| ClientNumber::of(Series::drawn(7).beside(), number);
    let (what, all) = (Counted::Ranges, too_many(Counted::Ranges, Within::All));
    for client in 0..(RANGES_BESIDE_MAX / RANGES_OF_CLIENT_BESIDE_MAX) as u32 {
        assert_eq!(account.take(there(client), what, RANGES_OF_CLIENT_BESIDE_MAX), Ok(()));
        assert_eq!(account.take(there(client), what, 1), too_many(what, Within::Client));
    }
    assert_eq!((account.take(there(99), what, 1), account.totals().ranges), (all, RANGES_BESIDE_MAX));
    assert_eq!(account.take(there(99), Counted::Opens, 1), Ok(()), "nothing else is counted so");
    for client in [ClientNumber::of(Series::drawn(7), 0), ClientNumber::of(Series::HERE, 0)] {
        assert_eq!(account.take(client, what, RANGES_OF_CLIENT_MAX), Ok(()));
    }
    assert_eq!(account.take(ClientNumber(1), what, 1), all);
    account.give(ClientNumber::of(Series::HERE, 0), what, 5);
    assert_eq!(account.take(there(99), what, 1), all, "that is room for others");
    account.give(there(0), what, 3);
    assert_eq!([4, 3].map(|more| account.take(there(99), what, more)), [all, Ok(())]);
    assert_eq!(account.totals().ranges, RANGES_MAX - 5);
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
