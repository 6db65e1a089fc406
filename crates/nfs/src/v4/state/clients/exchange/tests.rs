use super::*;
use crate::v4::state::clients::LEASE_DEFAULT as LEASE;
use crate::v4::state::clients::desk::{Desk, OTHER, ROOT, by, wants};
use crate::v4::state::{Exchanged, Introduction, Proof, Sender, Wanted};

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
        let confirmed = desk.create(&Wanted { sender: by(OTHER), ..wants(other.id, 1) });
        if comes_back {
            assert_eq!(confirmed, Err(Status::ClidInUse));
        } else {
            assert_eq!(confirmed.unwrap().1, Some(before.id));
        }
        assert_eq!(desk.lives(&created), comes_back);
    }
}

fn says(start: u8, sender: Sender) -> Introduction {
    Introduction { name: b"a".into(), verifier: [start; 8], sender }
}

fn nothing(address: u8) -> Sender {
    Sender { proof: Proof::Nothing, address: [10, 0, 0, address].into(), ..by(ROOT) }
}

/// Names are no secret: who is not believed does not come in the place of who is, and does not keep him out.
#[test]
fn rows_3_and_4_go_by_what_is_shown() {
    let mut desk = Desk::new(1);
    // Somebody has taken the name, and has a session.
    let squatter = desk.clients.exchange_id(says(1, nothing(2)), false, &|_| false, desk.now).unwrap().id;
    let (taken, _) = desk.create(&Wanted { sender: nothing(2), ..wants(squatter, 1) }).unwrap();
    let honest = desk.exchange("a", 2, ROOT).unwrap();
    for (start, sender) in [(2, nothing(2)), (3, nothing(2)), (1, nothing(3)), (2, nothing(1))] {
        let told = desk.clients.exchange_id(says(start, sender), false, &|_| false, desk.now);
        assert_eq!(told, Err(Status::ClidInUse), "it waits, {start} {sender:?}");
    }
    let (created, gone) = desk.create(&wants(honest.id, honest.sequence)).unwrap();
    assert_eq!((gone, desk.lives(&taken)), (Some(squatter), false));
    // It has ended its session for now, and holds nothing.
    desk.clients.destroy_session(created.session, 1).unwrap();
    let stranger = Sender { is_named: false, address: [10, 0, 0, 9].into(), ..by(ROOT) };
    for sender in [nothing(2), stranger] {
        for start in [2, 3] {
            let told = desk.clients.exchange_id(says(start, sender), false, &|_| false, desk.now);
            assert_eq!(told, Err(Status::ClidInUse), "{start} {sender:?}");
        }
    }
    // Itself, and started anew, where no rule names its host any more; and at another address.
    for sender in [Sender { is_named: false, ..by(ROOT) }, Sender { address: [10, 0, 0, 2].into(), ..by(ROOT) }] {
        let same = desk.clients.exchange_id(says(2, sender), false, &|_| false, desk.now).unwrap();
        assert_eq!((same.id, same.is_confirmed), (honest.id, true), "{sender:?}");
        assert!(desk.clients.exchange_id(says(3, sender), false, &|_| false, desk.now).is_ok(), "{sender:?}");
    }
}

/// As programs without privilege mount, and macOS.
#[test]
fn clients_without_a_port_of_the_superusers_are_those_of_their_address() {
    let mut desk = Desk::new(1);
    let first = desk.clients.exchange_id(says(1, nothing(1)), false, &|_| false, desk.now).unwrap();
    desk.create(&Wanted { sender: nothing(1), ..wants(first.id, 1) }).unwrap();
    let again = desk.clients.exchange_id(says(1, nothing(1)), false, &|_| false, desk.now).unwrap();
    assert_eq!((again.id, again.is_confirmed), (first.id, true));
    let anew = desk.clients.exchange_id(says(2, nothing(1)), false, &|_| false, desk.now).unwrap();
    let (_, gone) = desk.create(&Wanted { sender: nothing(1), ..wants(anew.id, 1) }).unwrap();
    assert_eq!(gone, Some(first.id));
    let elsewhere = desk.clients.exchange_id(says(2, nothing(2)), false, &|_| false, desk.now);
    assert_eq!(elsewhere, Err(Status::ClidInUse));
    desk.now += LEASE + LEASE;
    assert!(desk.clients.exchange_id(says(2, nothing(2)), false, &|_| false, desk.now).is_ok());
}

/// Of a superuser whose host no rule names yet it is not sure that it is the client of that name.
#[test]
fn who_is_not_named_yet_is_nobody_in_the_lists() {
    let unnamed = Sender { is_named: false, ..by(ROOT) };
    for sender in [unnamed, by(ROOT)] {
        let mut desk = Desk::new(1);
        let id = desk.clients.exchange_id(says(1, sender), false, &|_| false, desk.now).unwrap().id;
        let (created, _) = desk.create(&Wanted { sender, ..wants(id, 1) }).unwrap();
        let presence = desk.clients.presence_of(id).unwrap();
        assert_eq!(presence.owns_key(), sender.is_named);
        desk.clients.destroy_session(created.session, 1).unwrap();
        desk.clients.destroy_client(id, &sender, &|_| false).unwrap();
        let keys: Vec<_> = desk.clients.take_gone().into_iter().map(|gone| gone.key).collect();
        assert_eq!(keys, [sender.is_named.then(|| presence.key())]);
    }
    let mut desk = Desk::new(1);
    let id = desk.clients.exchange_id(says(1, unnamed), false, &|_| false, desk.now).unwrap().id;
    desk.create(&Wanted { sender: unnamed, ..wants(id, 1) }).unwrap();
    desk.clients.presence_of(id).unwrap().note_owns_key();
    // It was let in, so it is its own at another address as well.
    let moved = Sender { address: [10, 0, 0, 2].into(), ..by(ROOT) };
    assert_eq!(desk.clients.exchange_id(says(1, moved), false, &|_| false, desk.now).unwrap().id, id);
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
    let says = |name: &str| Introduction { name: name.into(), verifier: [1; 8], sender: by(OTHER) };
    let said = desk.clients.introduce(says("a"), &|_| true, &desk.rng, desk.now).unwrap();
    assert_ne!(said.id, client);
    desk.clients.confirm(said, &by(OTHER), &|_| true, desk.now).unwrap();
    assert!(desk.lives(&created));
    assert_eq!(desk.create(&wants(said.id, 1)), Err(Status::StaleClientId));
    assert_eq!(desk.destroy_client(said.id), Err(Status::StaleClientId));
    assert_eq!(desk.clients.renew(client, desk.now), Err(Unknown::Stale));
    let forged = Introduced { id: client, confirmation: [0; 8] };
    for principal in [ROOT, OTHER] {
        assert_eq!(desk.clients.confirm(forged, &by(principal), &|_| true, desk.now), Err(Unknown::Stale));
    }
    for number in 0..WAITING_OF_ADDRESS_MAX {
        desk.exchange(&format!("b {number}"), 1, ROOT).unwrap();
        desk.clients.introduce(says(&format!("c {number}")), &|_| true, &desk.rng, desk.now).unwrap();
    }
    assert_eq!(desk.clients.counts(), (2, WAITING_OF_ADDRESS_MAX));
}
