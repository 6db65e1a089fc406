use super::*;

const ALL: [Brought; 3] = [Brought::Open, Brought::Confirm, Brought::Other];
const BAD: Result<Turn<'_>, Status> = Err(Status::BadSeqid);

/// An owner whose last one was `seqid`, with fingerprint 7.
fn owner(seqid: u32, is_confirmed: bool) -> OwnerOrder {
    let mut owner = OwnerOrder::default();
    assert_eq!(owner.begin(Brought::Open, seqid, 7), Ok(Turn::New));
    owner.end(Ended::Done(Status::Ok, b"first"));
    owner.is_confirmed = is_confirmed;
    owner
}

/// The cells of a row: the next, the last and the same, the last and another, any other.
fn row(owner: impl Fn() -> OwnerOrder, brought: Brought, last: u32, told: [Result<Turn<'_>, Status>; 4]) {
    let next = last.wrapping_add(1);
    for (told, asked) in told.iter().zip([vec![(next, 7), (next, 8)], vec![(last, 7)], vec![(last, 8)]]) {
        asked
            .iter()
            .for_each(|(seqid, print)| assert_eq!(owner().begin(brought, *seqid, *print), *told, "{brought:?}"));
    }
    for other in [last.wrapping_add(2), last.wrapping_sub(1), 50] {
        assert_eq!(owner().begin(brought, other, 7), told[3], "{brought:?}");
    }
}

#[test]
fn row_a_one_at_a_time() {
    for is_confirmed in [false, true] {
        let under_way = || {
            let mut owner = owner(4, is_confirmed);
            let first = if is_confirmed { Brought::Other } else { Brought::Confirm };
            assert_eq!(owner.begin(first, 5, 7), Ok(Turn::New));
            owner
        };
        for brought in ALL {
            row(under_way, brought, 5, [BAD, Err(Status::Delay), BAD, BAD]);
        }
    }
}

#[test]
fn rows_b_and_c_whom_nobody_knows_begins_with_an_open_and_any_seqid() {
    for seqid in [0, 1, 50, u32::MAX] {
        assert_eq!(OwnerOrder::default().begin(Brought::Open, seqid, 7), Ok(Turn::New));
        for brought in [Brought::Confirm, Brought::Other] {
            assert_eq!(OwnerOrder::default().begin(brought, seqid, 7), BAD);
        }
    }
}

#[test]
fn rows_d_to_f_before_it_is_confirmed() {
    for last in [4, u32::MAX] {
        let (replay, anew) = (Ok(Turn::Replay(b"first")), Ok(Turn::Anew));
        row(|| owner(last, false), Brought::Open, last, [anew, replay, anew, anew]);
        row(|| owner(last, false), Brought::Confirm, last, [Ok(Turn::New), replay, BAD, BAD]);
        row(|| owner(last, false), Brought::Other, last, [Err(Status::BadStateid); 4]);
    }
}

#[test]
fn row_g_confirmed() {
    for (last, brought) in [4, u32::MAX].into_iter().flat_map(|last| ALL.map(|brought| (last, brought))) {
        row(|| owner(last, true), brought, last, [Ok(Turn::New), Ok(Turn::Replay(b"first")), BAD, BAD]);
    }
}

#[test]
fn an_owner_is_confirmed_once_and_goes_on() {
    let mut owner = owner(4, false);
    assert!(!owner.is_confirmed());
    assert_eq!(owner.begin(Brought::Confirm, 5, 1), Ok(Turn::New));
    owner.confirm();
    owner.end(Ended::Done(Status::Ok, b"second"));
    assert!(owner.is_confirmed());
    assert_eq!(owner.begin(Brought::Confirm, 5, 1), Ok(Turn::Replay(b"second")));
    assert_eq!(owner.begin(Brought::Other, 6, 2), Ok(Turn::New));
    owner.end(Ended::Done(Status::OldStateid, b"third"));
    assert_eq!(owner.begin(Brought::Other, 6, 2), Ok(Turn::Replay(b"third")), "an error is replayed as well");
    assert_eq!(owner.begin(Brought::Open, 7, 3), Ok(Turn::New));
    owner.end(Ended::BrokenOff);
    assert_eq!(owner.begin(Brought::Open, 7, 3), Ok(Turn::Faulted), "it may have been carried out");
    assert_eq!(owner.begin(Brought::Open, 8, 3), Ok(Turn::New));
}

/// Rules V18: a client takes its seqid back at these, and at these alone.
#[test]
fn what_was_not_looked_at_moves_nothing_on() {
    let still = [
        Status::StaleClientId,
        Status::StaleStateid,
        Status::BadStateid,
        Status::BadSeqid,
        Status::BadXdr,
        Status::Resource,
        Status::NoFileHandle,
    ];
    for status in still {
        let mut owner = owner(4, true);
        assert_eq!(owner.begin(Brought::Other, 5, 1), Ok(Turn::New));
        owner.end(Ended::Done(status, b"second"));
        assert_eq!(owner.begin(Brought::Open, 4, 7), Ok(Turn::Replay(b"first")), "{status:?}");
        assert_eq!(owner.begin(Brought::Other, 5, 2), Ok(Turn::New));
        let mut fresh = OwnerOrder::default();
        assert_eq!(fresh.begin(Brought::Open, 5, 1), Ok(Turn::New));
        assert!(!fresh.is_unknown());
        fresh.end(Ended::Done(status, b"first"));
        assert!(fresh.is_unknown());
    }
    // Others do, DELAY among them.
    for status in [Status::Ok, Status::Delay, Status::Access, Status::NoEnt, Status::OldStateid, Status::Expired] {
        let mut owner = owner(4, true);
        assert_eq!(owner.begin(Brought::Other, 5, 1), Ok(Turn::New));
        owner.end(Ended::Done(status, b"second"));
        assert_eq!(owner.begin(Brought::Other, 5, 1), Ok(Turn::Replay(b"second")), "{status:?}");
    }
}

/// A LOCK is denied by an owner of 1,024 bytes, whose name is in the answer; another server kept 112 of them (rules V17).
#[test]
fn results_are_kept_as_long_as_any_is() {
    let denied = [7; 1024 + 48];
    for (results, kept) in [(&denied[..], true), (&[7; KEPT_BYTES_MAX], true), (&[7; KEPT_BYTES_MAX + 1], false)] {
        let mut owner = owner(4, true);
        assert_eq!(owner.begin(Brought::Other, 5, 1), Ok(Turn::New));
        owner.end(Ended::Done(Status::Ok, results));
        let expected = if kept { Turn::Replay(results) } else { Turn::Faulted };
        assert_eq!(owner.begin(Brought::Other, 5, 1), Ok(expected));
        assert_eq!(owner.kept_bytes(), if kept { results.len() } else { 0 });
    }
}
