use super::*;
use crate::v4::state::clients::LEASE_DEFAULT as LEASE;
use crate::v4::state::clients::Proof;
use crate::v4::state::clients::desk::{CHANNEL, Desk, OTHER, ROOT, by, wants};

#[test]
fn row_a_of_an_unknown_id_or_one_of_another_start_there_is_no_session() {
    let mut desk = Desk::new(1);
    let exchanged = desk.exchange("a", 1, ROOT).unwrap();
    for id in [ClientId(exchanged.id.0 ^ 1 << 40), ClientId(exchanged.id.0 + 1)] {
        assert_eq!(desk.create(&wants(id, 1)), Err(Status::StaleClientId));
    }
}

#[test]
fn row_b_a_retry_gets_the_last_answer() {
    let mut desk = Desk::new(1);
    let exchanged = desk.exchange("a", 1, ROOT).unwrap();
    assert_eq!(desk.create(&wants(exchanged.id, 0)), Err(Status::SeqMisordered), "before the first");
    let (created, _) = desk.create(&wants(exchanged.id, 1)).unwrap();
    let other =
        Wanted { sender: by(OTHER), connection: 2, fore: Channel { slots: 1, ..CHANNEL }, ..wants(exchanged.id, 1) };
    for again in [wants(exchanged.id, 1), other] {
        assert_eq!(desk.create(&again), Ok((created, None)));
    }
    assert_eq!(desk.sessions.counts().0, 1);
}

#[test]
fn row_c_a_sequence_that_is_neither_the_last_nor_the_next_is_misordered() {
    let mut desk = Desk::new(1);
    let exchanged = desk.exchange("a", 1, ROOT).unwrap();
    assert_eq!(desk.create(&wants(exchanged.id, 2)), Err(Status::SeqMisordered));
    desk.create(&wants(exchanged.id, 1)).unwrap();
    for sequence in [0, 3, u32::MAX] {
        assert_eq!(desk.create(&wants(exchanged.id, sequence)), Err(Status::SeqMisordered));
    }
    assert_eq!(desk.sessions.counts().0, 1);
}

/// He would have a session of the client's, and by a retry the one that it has.
#[test]
fn for_who_does_not_speak_for_a_client_there_is_neither_a_session_nor_an_end() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let client = desk.sessions.find(created.session).unwrap().presence().client();
    let (root, address) = (by(ROOT), [10, 0, 0, 2].into());
    let strangers = [
        Sender { address, is_named: false, ..root },
        Sender { proof: Proof::Nothing, ..root },
        Sender { proof: Proof::User(0), ..root },
    ];
    for sender in strangers {
        for sequence in 0..=2 {
            let asked = Wanted { sender, ..wants(client, sequence) };
            assert_eq!(desk.create(&asked), Err(Status::ClidInUse), "{sender:?} {sequence}");
        }
        let ended = desk.clients.destroy_client(client, &sender, &|_| false);
        assert_eq!(ended, Err(Status::StaleClientId), "{sender:?}");
    }
    // Its own: by another address, and where no rule names its host any more.
    let honest = [Sender { address, ..root }, Sender { is_named: false, ..root }];
    for (sequence, sender) in (2..).zip(honest) {
        assert!(desk.create(&Wanted { sender, ..wants(client, sequence) }).is_ok(), "{sender:?}");
    }
    assert_eq!(desk.clients.destroy_client(client, &honest[1], &|_| false), Err(Status::ClientIdBusy));
}

/// The one who introduced himself does not miss his turn by it.
#[test]
fn row_d_another_principal_confirms_nothing() {
    let mut desk = Desk::new(1);
    let exchanged = desk.exchange("a", 1, ROOT).unwrap();
    let other = Wanted { sender: by(OTHER), ..wants(exchanged.id, 1) };
    for _ in 0..2 {
        assert_eq!(desk.create(&other), Err(Status::ClidInUse));
    }
    assert!(desk.create(&wants(exchanged.id, 1)).is_ok());
}

#[test]
fn row_e_a_name_that_somebody_holds_something_by_is_not_taken() {
    let mut desk = Desk::new(1);
    let first = desk.known("a", 1);
    desk.now += LEASE + LEASE;
    let other = desk.exchange("a", 1, OTHER).unwrap();
    drop(desk.new_on(&first, 0, 1));
    let confirms = Wanted { sender: by(OTHER), ..wants(other.id, 1) };
    assert_eq!(desk.create(&confirms), Err(Status::ClidInUse));
    assert!(desk.lives(&first));
    desk.clients.destroy_session(first.session, 1).unwrap();
    assert!(desk.create(&confirms).is_ok(), "nothing is held any more, and the sequence is the same");
}

#[test]
fn row_f_channels_too_small_for_anything_are_refused_and_the_sequence_stays() {
    let mut desk = Desk::new(1);
    let exchanged = desk.exchange("a", 1, ROOT).unwrap();
    let small = Channel { reply_bytes: 0, ..CHANNEL };
    assert_eq!(desk.create(&Wanted { fore: small, ..wants(exchanged.id, 1) }), Err(Status::TooSmall));
    assert_eq!(desk.create(&Wanted { back: small, ..wants(exchanged.id, 1) }), Err(Status::TooSmall));
    assert_eq!(desk.clients.counts(), (0, 1), "that confirmed nothing");
    assert!(desk.create(&wants(exchanged.id, 1)).is_ok());
}

#[test]
fn row_g_a_client_has_sixteen_sessions() {
    let mut desk = Desk::new(1);
    let exchanged = desk.exchange("a", 1, ROOT).unwrap();
    let created: Vec<_> = (1..=16).map(|sequence| desk.create(&wants(exchanged.id, sequence)).unwrap().0).collect();
    assert_eq!(desk.create(&wants(exchanged.id, 17)), Err(Status::NoSpc));
    desk.clients.destroy_session(created[3].session, 1).unwrap();
    assert_eq!(desk.create(&wants(exchanged.id, 17)), Err(Status::NoSpc), "the last answer");
    assert!(desk.create(&wants(exchanged.id, 18)).is_ok());
}

#[test]
fn rows_i_and_j_the_first_session_confirms_and_any_principal_makes_others() {
    let mut desk = Desk::new(1);
    let exchanged = desk.exchange("a", 1, ROOT).unwrap();
    let (first, gone) = desk.create(&wants(exchanged.id, 1)).unwrap();
    assert_eq!((gone, desk.clients.counts(), first.sequence), (None, (1, 0), 1));
    let (second, _) = desk.create(&Wanted { sender: by(OTHER), ..wants(exchanged.id, 2) }).unwrap();
    assert_eq!(first.session.0[..8], second.session.0[..8]);
    assert_ne!(first.session, second.session);
    let cut = Channel { cached_bytes: 2048, ..CHANNEL };
    let four = Channel { slots: 4, ..CHANNEL };
    assert_eq!((first.fore, first.back, first.calls_back), (cut, four, false));
    let huge = Channel {
        request_bytes: u32::MAX,
        reply_bytes: u32::MAX,
        cached_bytes: u32::MAX,
        operations: u32::MAX,
        slots: u32::MAX,
    };
    let (third, _) = desk.create(&Wanted { fore: huge, ..wants(exchanged.id, 3) }).unwrap();
    let most = Channel {
        request_bytes: REQUEST_BYTES_MAX,
        reply_bytes: REPLY_BYTES_MAX,
        cached_bytes: 2048,
        operations: 64,
        slots: 64,
    };
    assert_eq!(third.fore, most);
    let (least, _) = desk.create(&Wanted { fore: Channel { slots: 0, ..CHANNEL }, ..wants(exchanged.id, 4) }).unwrap();
    assert_eq!(least.fore.slots, 1);
}

#[test]
fn a_session_is_destroyed_from_a_connection_of_its_own() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    assert_eq!(desk.clients.destroy_session(created.session, 2), Err(Status::ConnNotBoundToSession));
    let guard = desk.new_on(&created, 0, 1);
    assert_eq!(desk.clients.destroy_session(created.session, 1), Ok(()));
    assert_eq!(desk.clients.destroy_session(created.session, 1), Err(Status::BadSession));
    let asked = crate::v4::state::clients::desk::sequence_on(&created, 1, 1);
    assert_eq!(desk.begin(&asked).unwrap_err(), Status::BadSession);
    guard.finish(b"it had begun");
    assert_eq!(desk.sessions.counts(), (0, 0));
}

#[test]
fn a_client_goes_that_has_no_session_and_holds_nothing() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let id = desk.exchange("a", 1, ROOT).unwrap().id;
    assert_eq!(desk.destroy_client(id), Err(Status::ClientIdBusy));
    desk.clients.destroy_session(created.session, 1).unwrap();
    desk.held.insert(id);
    assert_eq!(desk.destroy_client(id), Err(Status::ClientIdBusy));
    desk.held.clear();
    assert_eq!(desk.destroy_client(id), Ok(()));
    assert_eq!(desk.destroy_client(id), Err(Status::StaleClientId));
    let waiting = desk.exchange("a", 1, ROOT).unwrap();
    assert_eq!(desk.destroy_client(waiting.id), Ok(()));
    assert!(desk.clients.by_name.is_empty());
}

#[test]
fn reclaims_are_complete_once_in_a_life() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let id = desk.exchange("a", 1, ROOT).unwrap().id;
    let (second, _) = desk.create(&wants(id, 2)).unwrap();
    let presence = |created: &Created| desk.sessions.find(created.session).unwrap();
    assert!(!presence(&created).presence().has_reclaimed());
    assert_eq!(presence(&created).presence().reclaim_complete(), Ok(()));
    assert_eq!(presence(&second).presence().reclaim_complete(), Err(Status::CompleteAlready));
    let anew = desk.known("a", 2);
    assert!(!desk.sessions.find(anew.session).unwrap().presence().has_reclaimed());
}
