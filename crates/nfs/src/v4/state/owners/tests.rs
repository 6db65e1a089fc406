use super::*;

/// What an operation is told that ends so.
fn told(status: Status, results: &[u8]) -> Told {
    Told { status, results: results.into(), file: None }
}

/// What [`owner`] was told last.
fn first() -> Told {
    told(Status::Ok, b"first")
}

impl OwnerOrder {
    /// Of a compound that has nothing else of this owner.
    fn come(&mut self, brought: Brought, seqid: u32, fingerprint: u64) -> Result<Turn<'_>, Status> {
        self.begin(brought, seqid, fingerprint, false)
    }
}

const ALL: [Brought; 3] = [Brought::Open, Brought::Confirm, Brought::Other];
const BAD: Result<Turn<'_>, Status> = Err(Status::BadSeqid);

/// An owner whose last one was `seqid`, with fingerprint 7.
fn owner(seqid: u32, is_confirmed: bool) -> OwnerOrder {
    let mut owner = OwnerOrder::default();
    assert_eq!(owner.come(Brought::Open, seqid, 7), Ok(Turn::New));
    owner.end(first());
    owner.is_confirmed = is_confirmed;
    owner
}

/// The cells of a row: the next, the last and the same, the last and another, any other.
fn row(owner: impl Fn() -> OwnerOrder, brought: Brought, last: u32, told: [Result<Turn<'_>, Status>; 4]) {
    let next = last.wrapping_add(1);
    for (told, asked) in told.iter().zip([vec![(next, 7), (next, 8)], vec![(last, 7)], vec![(last, 8)]]) {
        asked.iter().for_each(|(seqid, print)| assert_eq!(owner().come(brought, *seqid, *print), *told, "{brought:?}"));
    }
    for other in [last.wrapping_add(2), last.wrapping_sub(1), 50] {
        assert_eq!(owner().come(brought, other, 7), told[3], "{brought:?}");
    }
}

#[test]
fn row_a_one_at_a_time() {
    for is_confirmed in [false, true] {
        let under_way = || {
            let mut owner = owner(4, is_confirmed);
            let first = if is_confirmed { Brought::Other } else { Brought::Confirm };
            assert_eq!(owner.come(first, 5, 7), Ok(Turn::New));
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
        assert_eq!(OwnerOrder::default().come(Brought::Open, seqid, 7), Ok(Turn::New));
        for brought in [Brought::Confirm, Brought::Other] {
            assert_eq!(OwnerOrder::default().come(brought, seqid, 7), BAD);
        }
    }
}

#[test]
fn rows_d_to_f_before_it_is_confirmed() {
    for last in [4, u32::MAX] {
        let first = first();
        let (replay, anew) = (Ok(Turn::Replay(&first)), Ok(Turn::Anew));
        row(|| owner(last, false), Brought::Open, last, [anew, replay, anew, anew]);
        row(|| owner(last, false), Brought::Confirm, last, [Ok(Turn::New), replay, BAD, BAD]);
        row(|| owner(last, false), Brought::Other, last, [Err(Status::BadStateid); 4]);
    }
}

#[test]
fn row_g_confirmed() {
    for (last, brought) in [4, u32::MAX].into_iter().flat_map(|last| ALL.map(|brought| (last, brought))) {
        let first = first();
        row(|| owner(last, true), brought, last, [Ok(Turn::New), Ok(Turn::Replay(&first)), BAD, BAD]);
    }
}

#[test]
fn row_h_of_locks_begins_with_any_and_is_confirmed() {
    for seqid in [0, 1, 7, u32::MAX] {
        let mut owner = OwnerOrder::default();
        assert_eq!(owner.come(Brought::Lock, seqid, 7), Ok(Turn::New));
        owner.end(first());
        assert!(owner.is_confirmed());
        let first = first();
        let replay = Ok(Turn::Replay(&first));
        for brought in [Brought::Lock, Brought::Other] {
            let owner = || OwnerOrder { last: owner.last.clone(), under_way: Vec::new(), is_confirmed: true };
            row(owner, brought, seqid, [Ok(Turn::New), replay, BAD, BAD]);
        }
    }
}

#[test]
fn an_owner_is_confirmed_once_and_goes_on() {
    let mut owner = owner(4, false);
    assert!(!owner.is_confirmed());
    assert_eq!(owner.come(Brought::Confirm, 5, 1), Ok(Turn::New));
    owner.confirm();
    owner.end(told(Status::Ok, b"second"));
    assert!(owner.is_confirmed());
    assert_eq!(owner.come(Brought::Confirm, 5, 1), Ok(Turn::Replay(&told(Status::Ok, b"second"))));
    assert_eq!(owner.come(Brought::Other, 6, 2), Ok(Turn::New));
    owner.end(told(Status::OldStateid, b"third"));
    assert_eq!(
        owner.come(Brought::Other, 6, 2),
        Ok(Turn::Replay(&told(Status::OldStateid, b"third"))),
        "an error is replayed as well"
    );
    assert_eq!(owner.come(Brought::Open, 7, 3), Ok(Turn::New));
    owner.withdraw();
    assert_eq!(owner.come(Brought::Open, 7, 3), Ok(Turn::New), "it may have been carried out, and comes again");
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
        // Its client is gone, with all that it had: nobody is left who could count on.
        Status::Expired,
    ];
    for status in still {
        let mut owner = owner(4, true);
        assert_eq!(owner.come(Brought::Other, 5, 1), Ok(Turn::New));
        owner.end(told(status, b"second"));
        assert_eq!(owner.come(Brought::Open, 4, 7), Ok(Turn::Replay(&first())), "{status:?}");
        assert_eq!(owner.come(Brought::Other, 5, 2), Ok(Turn::New));
        let mut fresh = OwnerOrder::default();
        assert_eq!(fresh.come(Brought::Open, 5, 1), Ok(Turn::New));
        assert!(!fresh.is_unknown());
        fresh.end(told(status, b"first"));
        assert!(fresh.is_unknown());
    }
    // Others do, DELAY among them.
    for status in [Status::Ok, Status::Delay, Status::Access, Status::NoEnt, Status::OldStateid] {
        let mut owner = owner(4, true);
        assert_eq!(owner.come(Brought::Other, 5, 1), Ok(Turn::New));
        owner.end(told(status, b"second"));
        assert_eq!(owner.come(Brought::Other, 5, 1), Ok(Turn::Replay(&told(status, b"second"))), "{status:?}");
    }
}

/// A LOCK is denied by an owner of 1,024 bytes, whose name is in the answer; another server kept 112 of them (rules V17).
#[test]
fn results_are_kept_as_long_as_any_is() {
    let denied = [7; 1024 + 48];
    for (results, kept) in [(&denied[..], true), (&[7; KEPT_BYTES_MAX], true), (&[7; KEPT_BYTES_MAX + 1], false)] {
        let mut owner = owner(4, true);
        assert_eq!(owner.come(Brought::Other, 5, 1), Ok(Turn::New));
        owner.end(told(Status::Ok, results));
        let whole = told(Status::Ok, results);
        let expected = if kept { Turn::Replay(&whole) } else { Turn::Faulted };
        assert_eq!(owner.come(Brought::Other, 5, 1), Ok(expected));
        assert_eq!(owner.kept_bytes(), if kept { results.len() } else { 0 });
    }
}

/// One compound closes two files of one owner: both are under way until its reply is.
#[test]
fn what_a_compound_does_behind_each_other_is_under_way_together() {
    let mut owner = owner(4, true);
    assert_eq!(owner.come(Brought::Other, 5, 1), Ok(Turn::New));
    for (seqid, told) in [(5, BAD), (7, BAD), (6, Ok(Turn::New))] {
        assert_eq!(owner.begin(Brought::Other, seqid, 1, true), told);
    }
    for (seqid, told) in [(4, BAD), (5, Err(Status::Delay)), (6, Err(Status::Delay)), (7, BAD)] {
        assert_eq!(owner.come(Brought::Other, seqid, 1), told);
    }
    owner.end(told(Status::Ok, b"second"));
    owner.end(told(Status::Ok, b"third"));
    assert_eq!(owner.come(Brought::Other, 6, 1), Ok(Turn::Replay(&told(Status::Ok, b"third"))));
    // The second rests on a promise that nobody knows of: it comes again.
    assert_eq!(owner.come(Brought::Other, 7, 1), Ok(Turn::New));
    assert_eq!(owner.begin(Brought::Open, 8, 1, true), Ok(Turn::New));
    owner.end(told(Status::Ok, b"fourth"));
    owner.withdraw();
    assert_eq!(owner.come(Brought::Open, 8, 1), Ok(Turn::New));
}

#[test]
fn who_opens_twice_in_a_compound_without_confirming_begins_anew() {
    let mut owner = OwnerOrder::default();
    assert_eq!(owner.come(Brought::Open, 5, 1), Ok(Turn::New));
    assert_eq!(owner.begin(Brought::Other, 6, 1, true), Err(Status::BadStateid));
    assert_eq!(owner.begin(Brought::Open, 6, 1, true), Ok(Turn::Anew));
}
