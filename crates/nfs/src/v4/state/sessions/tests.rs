use super::*;
use crate::v4::state::bounds::SESSIONS_BYTES_MAX;
use crate::v4::state::clients::desk::{CHANNEL, Desk, ROOT, by, sequence_on, wants};
use crate::v4::state::{Created, Sender, Wanted};

fn of_client(desk: &mut Desk, name: &str, wanted: impl Fn(Wanted) -> Wanted) -> Created {
    let exchanged = desk.exchange(name, 1, ROOT).unwrap();
    desk.create(&wanted(wants(exchanged.id, exchanged.sequence))).unwrap().0
}

#[test]
fn each_cell_of_what_a_connection_is_bound_to() {
    use Direction::{Back, BackOrBoth, Fore, ForeOrBoth};
    for (before, asked, after) in [
        (0, Fore, Ok(FORE)),
        (0, Back, Ok(BACK)),
        (0, ForeOrBoth, Ok(BOTH)),
        (0, BackOrBoth, Ok(BOTH)),
        (FORE, Fore, Ok(FORE)),
        (FORE, Back, Err(Status::Inval)),
        (FORE, ForeOrBoth, Ok(BOTH)),
        (FORE, BackOrBoth, Err(Status::Inval)),
        (BACK, Fore, Err(Status::Inval)),
        (BACK, Back, Ok(BACK)),
        (BACK, ForeOrBoth, Err(Status::Inval)),
        (BACK, BackOrBoth, Ok(BOTH)),
        (BOTH, Fore, Err(Status::Inval)),
        (BOTH, Back, Err(Status::Inval)),
        (BOTH, ForeOrBoth, Ok(BOTH)),
        (BOTH, BackOrBoth, Ok(BOTH)),
    ] {
        let mut desk = Desk::new(1);
        let created = desk.known("a", 1);
        match before {
            0 => {}
            FORE => drop(desk.begin(&Sequence { connection: 2, ..sequence_on(&created, 0, 1) }).unwrap()),
            BACK => drop(desk.sessions.bind(created.session, 2, Back).unwrap()),
            _ => drop(desk.sessions.bind(created.session, 2, BackOrBoth).unwrap()),
        }
        assert_eq!(desk.sessions.bind(created.session, 2, asked), after, "{before} {asked:?}");
        assert_eq!(desk.sessions.bound.lock()[&1].len(), 1);
    }
}

#[test]
fn a_client_is_told_where_it_cannot_be_called_back() {
    let mut desk = Desk::new(1);
    let quiet = of_client(&mut desk, "quiet", |wanted| wanted);
    assert_eq!(desk.flags(&quiet, 0, 1), 0, "it never wanted to be");
    let first = of_client(&mut desk, "a", |wanted| Wanted { calls_back: true, ..wanted });
    let second = of_client(&mut desk, "a", |wanted| Wanted { calls_back: true, connection: 3, ..wanted });
    assert_eq!((desk.flags(&first, 0, 1), desk.flags(&second, 0, 1)), (0, 0));
    desk.sessions.disconnect(3);
    assert_eq!((desk.flags(&first, 0, 2), desk.flags(&second, 0, 2)), (0, CB_PATH_DOWN_SESSION));
    desk.sessions.disconnect(1);
    let down = CB_PATH_DOWN | CB_PATH_DOWN_SESSION;
    assert_eq!((desk.flags(&first, 0, 3), desk.flags(&second, 0, 3)), (down, down));
    desk.sessions.bind(first.session, 4, Direction::ForeOrBoth).unwrap();
    assert_eq!((desk.flags(&first, 0, 4), desk.flags(&second, 0, 4)), (0, CB_PATH_DOWN_SESSION));
    desk.clients.destroy_session(first.session, 4).unwrap();
    assert_eq!(desk.flags(&second, 0, 5), down);
    assert_eq!(desk.sessions.bind(first.session, 4, Direction::Back), Err(Status::BadSession));
}

#[test]
fn a_session_is_bound_to_sixty_four_connections_and_works_over_others() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    for connection in 1..=70 {
        let asked = Sequence { connection, ..sequence_on(&created, 0, connection as u32) };
        let Ok(Begun::New(guard, _)) = desk.begin(&asked) else { panic!() };
        guard.finish(b"");
    }
    let session = desk.sessions.find(created.session).unwrap();
    assert!(session.is_bound(64) && !session.is_bound(65));
    assert_eq!(desk.sessions.bind(created.session, 65, Direction::Back), Err(Status::Delay));
    assert_eq!(desk.clients.destroy_session(created.session, 65), Err(Status::ConnNotBoundToSession));
    desk.sessions.disconnect(64);
    desk.sessions.disconnect(65);
    assert_eq!(desk.sessions.bind(created.session, 65, Direction::Back), Ok(BACK));
    desk.clients.destroy_session(created.session, 1).unwrap();
    assert!(desk.sessions.bound.lock().is_empty());
}

/// All that is granted is charged, and comes back with the last request.
#[test]
fn sessions_become_smaller_as_memory_does_and_are_refused_at_its_end() {
    let mut desk = Desk::new(1);
    let mut created = Vec::new();
    for client in 0.. {
        let address = std::net::IpAddr::from([10, 1, (client / 60) as u8, 1]);
        let introduction = crate::v4::state::Introduction {
            name: format!("{client}").into(),
            verifier: [1; 8],
            sender: Sender { address, ..by(ROOT) },
        };
        let id = desk.clients.exchange_id(introduction, false, &|_| false, desk.now).unwrap().id;
        let last = (1..=16).find_map(|sequence| match desk.create(&wants(id, sequence)) {
            Ok((session, _)) => {
                created.push(session);
                None
            }
            Err(refused) => Some(refused),
        });
        let (count, bytes) = desk.sessions.counts();
        assert!(count == created.len() && bytes <= SESSIONS_BYTES_MAX, "S3");
        if let Some(refused) = last {
            assert_eq!(refused, Status::Delay, "row h");
            break;
        }
    }
    let sizes: Vec<_> = created.iter().map(|created| (created.fore.slots, created.fore.cached_bytes)).collect();
    assert!(sizes[..240].iter().all(|size| *size == (64, 2048)), "as asked for, as long as there is much");
    assert!(sizes[260..1024].iter().all(|size| size.0 >= 10 && size.1 == 1024), "one host of 64 clients leaves some");
    assert_eq!(sizes.last(), Some(&(1, 1024)));
    assert!(sizes.len() > 4096, "there was one for each client that there may be: {}", sizes.len());
    // Who was told to wait comes again with the same, and has its turn.
    let last = created.pop().unwrap();
    let client = desk.sessions.find(last.session).unwrap().presence().client();
    let again = wants(client, last.sequence + 1);
    assert_eq!(desk.create(&again), Err(Status::Delay));
    desk.clients.destroy_session(last.session, 1).unwrap();
    created.push(desk.create(&again).unwrap().0);
    let guards: Vec<_> = created.iter().map(|created| desk.new_on(created, 0, 1)).collect();
    for session in &created {
        desk.clients.destroy_session(session.session, 1).unwrap();
    }
    assert_ne!(desk.sessions.counts().1, 0);
    drop(guards);
    assert_eq!(desk.sessions.counts(), (0, 0));
}

#[test]
fn a_session_that_was_not_used_costs_little() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let session = desk.sessions.find(created.session).unwrap();
    assert_eq!(session.inner.lock().slots.capacity(), 0);
    desk.new_on(&created, 0, 1).finish(&[0; 100]);
    assert_eq!(session.inner.lock().slots.capacity(), 1, "the slots that were used, and no more");
    assert_eq!(created.fore.slots, CHANNEL.slots);
    // Where all 64 are, without what they keep.
    assert!(64 * size_of::<Slot>() <= 4096);
}

/// A request found its session, and the session went before the request had its lock.
#[test]
fn of_a_closed_session_no_request_begins() {
    let mut desk = Desk::new(1);
    let created = desk.known("a", 1);
    let session = desk.sessions.find(created.session).unwrap();
    desk.clients.destroy_session(created.session, 1).unwrap();
    assert_eq!(
        session.begin(&sequence_on(&created, 0, 1), &desk.sessions.bound, desk.now).unwrap_err(),
        Status::BadSession
    );
    assert_eq!(session.bind(2, Direction::Back, &desk.sessions.bound), Err(Status::BadSession));
    assert_eq!(session.in_use(), 0);
    assert!(desk.sessions.bound.lock().is_empty());
}
