use super::*;
use crate::v4::state::clients::LEASE_DEFAULT as LEASE;
use crate::v4::state::clients::desk::{Desk, OTHER, ROOT, wants};
use crate::v4::state::{Exchanged, Introduction};

#[test]
fn row_1_a_new_name_waits() {
    let mut desk = Desk::new(1);
    let exchanged = desk.exchange("a", 1, ROOT).unwrap();
    assert_eq!((exchanged.sequence, exchanged.is_confirmed), (1, false));
    assert_eq!((exchanged.id.0 >> 32, desk.clients.counts()), (7, (0, 1)));
}

#[test]
fn row_2_who_says_the_same_again_gets_the_same_id() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let again = desk.exchange("a", 1, ROOT).unwrap();
    let client = desk.sessions.find(created.session).unwrap().presence().client();
    assert_eq!(again, Exchanged { id: client, sequence: 2, is_confirmed: true });
    assert!(desk.lives(&created));
    // While it starts anew, a late copy of what it said before changes nothing of that.
    let anew = desk.exchange("a", 2, ROOT).unwrap();
    assert_eq!(desk.exchange("a", 1, ROOT), Ok(again));
    assert!(desk.create(&wants(anew.id, anew.sequence)).is_ok());
}

#[test]
fn row_3_a_name_of_another_principal_who_holds_something_is_in_use() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    for start in [1, 2] {
        assert_eq!(desk.exchange("a", start, OTHER), Err(Status::ClidInUse));
    }
    assert!(desk.lives(&created));
    assert_eq!(desk.clients.counts(), (1, 0));
}

#[test]
fn row_3_a_name_of_another_principal_who_holds_nothing_is_anybodys() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let before = desk.exchange("a", 1, ROOT).unwrap();
    desk.clients.destroy_session(created.session, 1).unwrap();
    desk.held.insert(before.id);
    assert_eq!(desk.exchange("a", 1, OTHER), Err(Status::ClidInUse), "it has something open");
    desk.held.clear();
    let exchanged = desk.exchange("a", 1, OTHER).unwrap();
    assert_ne!(exchanged.id, before.id);
    assert_eq!(desk.create(&wants(before.id, 2)), Err(Status::StaleClientId));
}

/// An expired client keeps what it holds until somebody confirms that he has its name, and all of it if it is faster.
#[test]
fn row_3_what_an_expired_client_holds_goes_when_another_is_confirmed() {
    for comes_back in [false, true] {
        let mut desk = Desk::new(1);
        let created = desk.known("a", 1);
        let before = desk.exchange("a", 1, ROOT).unwrap();
        desk.now += LEASE + LEASE;
        let other = desk.exchange("a", 1, OTHER).unwrap();
        assert!(desk.lives(&created));
        if comes_back {
            drop(desk.new_on(&created, 0, 1));
        }
        let confirmed = desk.create(&super::super::Wanted { principal: OTHER, ..wants(other.id, 1) });
        if comes_back {
            assert_eq!(confirmed, Err(Status::ClidInUse));
        } else {
            assert_eq!(confirmed.unwrap().1, Some(before.id));
        }
        assert_eq!(desk.lives(&created), comes_back);
    }
}

#[test]
fn row_4_what_waits_by_the_name_goes() {
    let mut desk = Desk::new(1);
    let mut before = desk.exchange("a", 1, ROOT).unwrap();
    for (start, principal) in [(1, ROOT), (1, OTHER), (2, ROOT), (2, OTHER)] {
        let exchanged = desk.exchange("a", start, principal).unwrap();
        assert_ne!(exchanged.id, before.id);
        assert_eq!(desk.create(&wants(before.id, 1)), Err(Status::StaleClientId));
        before = exchanged;
    }
    assert_eq!(desk.clients.counts(), (0, 1));
}

#[test]
fn row_5_what_the_old_start_holds_stays_until_the_new_one_is_confirmed() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let before = desk.exchange("a", 1, ROOT).unwrap();
    desk.held.insert(before.id);
    let anew = desk.exchange("a", 2, ROOT).unwrap();
    assert_ne!(anew.id, before.id);
    desk.new_on(&created, 0, 1).finish(b"still here");
    let (_, gone) = desk.create(&wants(anew.id, anew.sequence)).unwrap();
    assert_eq!(gone, Some(before.id));
    assert!(!desk.lives(&created));
    assert_eq!(desk.create(&wants(before.id, 2)), Err(Status::StaleClientId));
    assert_eq!(desk.clients.counts(), (1, 0));
}

#[test]
fn rows_6_to_9_an_update_is_of_what_is_confirmed() {
    let mut desk = Desk::new(1);
    let waiting = desk.exchange("a", 1, ROOT).unwrap();
    for (start, principal) in [(1, ROOT), (1, OTHER), (2, ROOT), (2, OTHER)] {
        assert_eq!(desk.exchange_for("a", start, principal, true), Err(Status::NoEnt), "row 7");
    }
    let (created, _) = desk.create(&wants(waiting.id, 1)).unwrap();
    let known = Exchanged { sequence: 2, is_confirmed: true, ..waiting };
    assert_eq!(desk.exchange_for("a", 1, ROOT, true), Ok(known), "row 6");
    for principal in [ROOT, OTHER] {
        assert_eq!(desk.exchange_for("a", 2, principal, true), Err(Status::NotSame), "row 8");
    }
    assert_eq!(desk.exchange_for("a", 1, OTHER, true), Err(Status::Perm), "row 9");
    assert!(desk.lives(&created));
    assert_eq!(desk.clients.counts(), (1, 0));
}

#[test]
fn who_does_not_confirm_within_a_lease_is_forgotten() {
    let mut desk = Desk::new(1);
    let late = desk.exchange("a", 1, ROOT).unwrap();
    desk.now += LEASE + LEASE;
    assert_eq!(desk.create(&wants(late.id, 1)), Err(Status::StaleClientId));
}

#[test]
fn only_what_needs_no_kerberos_is_granted() {
    assert_eq!(Protection::Nothing.grant(), Ok(()));
    assert_eq!(Protection::Machine.grant(), Err(Status::Inval));
    assert_eq!(Protection::Secret.grant(), Err(Status::EncrAlgUnsupp));
}

/// One host speaks 4.0 and 4.1, with one name: neither knows of the other, and both count.
#[test]
fn each_minor_version_has_names_of_its_own_and_one_bound() {
    use crate::v4::state::bounds::WAITING_OF_ADDRESS_MAX;
    use crate::v4::state::{Introduced, Unknown};
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let client = desk.exchange("a", 1, ROOT).unwrap().id;
    let says = |name: &str| Introduction {
        name: name.into(),
        verifier: [1; 8],
        principal: OTHER,
        address: [10, 0, 0, 1].into(),
    };
    let said = desk.clients.introduce(says("a"), &|_| true, &desk.rng, desk.now).unwrap();
    assert_ne!(said.id, client);
    desk.clients.confirm(said, OTHER, &|_| true, desk.now).unwrap();
    assert!(desk.lives(&created));
    assert_eq!(desk.create(&wants(said.id, 1)), Err(Status::StaleClientId));
    assert_eq!(desk.destroy_client(said.id), Err(Status::StaleClientId));
    assert_eq!(desk.clients.renew(client, desk.now), Err(Unknown::Stale));
    let forged = Introduced { id: client, confirmation: [0; 8] };
    for principal in [ROOT, OTHER] {
        assert_eq!(desk.clients.confirm(forged, principal, &|_| true, desk.now), Err(Unknown::Stale));
    }
    for number in 0..WAITING_OF_ADDRESS_MAX {
        desk.exchange(&format!("b {number}"), 1, ROOT).unwrap();
        desk.clients.introduce(says(&format!("c {number}")), &|_| true, &desk.rng, desk.now).unwrap();
    }
    assert_eq!(desk.clients.counts(), (2, WAITING_OF_ADDRESS_MAX));
}
