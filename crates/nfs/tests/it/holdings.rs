//! Who holds what by version 4, as an administrator is told, and the end of a client that he wants gone.

use std::time::Duration;

use crate::support::compound::{Op, lookup, op};
use crate::support::opener::{BOTH, Opener, READ, WRITE, find, open, open_as};
use tally_nfs::v4::holdings::{Counts, Holdings};
use tally_nfs::v4::state::{ClientId, Which};
use tally_vfs::locks::{Kind, Range};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Lock4Args, Lock4Res, Locker4, NfsArgop4, NfsLockType4, NfsResop4, Nfsstat4, OpenToLockOwner4, StateOwner4, Stateid4,
};

const OK: Nfsstat4 = Nfs4Ok;
const ALL: Which = Which { client: None, most: usize::MAX };

fn first(most: usize) -> Which {
    Which { most, ..ALL }
}

fn of(client: &Opener) -> Which {
    Which { client: Some(ClientId(client.client)), ..ALL }
}

fn lock(below: &Stateid4, locktype: NfsLockType4, (offset, length): (u64, u64)) -> Op {
    let lock_owner = StateOwner4 { clientid: 0, owner: b"process 7".into() };
    let below = OpenToLockOwner4 { open_seqid: 0, open_stateid: below.clone(), lock_seqid: 0, lock_owner };
    op(&NfsArgop4::OpLock(Lock4Args { locktype, reclaim: false, offset, length, locker: Locker4::True(below) }))
}

fn holdings(client: &Opener) -> Holdings<'_> {
    client.scene.service.holdings().expect("it speaks version 4")
}

/// Lets so many seconds pass by the clock of leases.
fn pass(client: &Opener, clock: &mut Duration, seconds: u64) {
    for _ in 0..=seconds {
        client.scene.service.look_at_clock(*clock);
        *clock += Duration::from_secs(1);
    }
}

#[test]
fn what_each_holds_is_told_and_no_more_of_it_than_was_asked_for() {
    let (mut one, mut clock) = (Opener::new(), Duration::ZERO);
    let mut other = Opener::beside(&one.scene.clone(), "another client", 2);
    [b"f", b"g", b"h"].into_iter().for_each(|name| _ = one.scene.file(name));
    pass(&one, &mut clock, 10);
    let mine = one.opened(open_as(b"o", b"f", (BOTH, WRITE), find())).stateid;
    pass(&one, &mut clock, 5);
    one.opened(open(b"g", READ, 0));
    other.opened(open(b"h", READ, 0));

    let clients = holdings(&one).clients(ALL);
    let told = |seen: &tally_nfs::v4::holdings::ClientSeen| {
        (seen.known.name.clone(), seen.known.minor, seen.opens, seen.locks, seen.known.sessions.len(), seen.is_late)
    };
    let told: Vec<_> = clients.shown.iter().map(told).collect();
    let expected =
        [(b"a client".to_vec(), Some(1), 2, 0, 1, false), (b"another client".to_vec(), Some(1), 1, 0, 1, false)];
    assert_eq!((told, clients.more), (expected.to_vec(), 0));
    assert_eq!((holdings(&one).clients(first(1)).shown.len(), holdings(&one).clients(first(1)).more), (1, 1));

    let opens = holdings(&one).opens(of(&one));
    let told: Vec<_> =
        opens.shown.iter().map(|seen| seen.open.share.map(|share| (share.access.bits(), share.deny.bits()))).collect();
    assert_eq!((told, opens.more), (vec![Some((BOTH, WRITE)), Some((READ, 0))], 0));
    let age = |nth: usize| (opens.now - opens.shown[nth].since).as_secs();
    assert!((4..=6).contains(&(age(0) - age(1))), "{} and {} seconds", age(0), age(1));
    for (most, shown, more) in [(0, 0, 3), (1, 1, 2), (3, 3, 0), (9, 3, 0)] {
        let page = holdings(&one).opens(first(most));
        assert_eq!((page.shown.len(), page.more), (shown, more));
    }

    let read_and_written = [(NfsLockType4::ReadLt, (0, 10)), (NfsLockType4::WriteLt, (20, u64::MAX))];
    for (kind, range) in read_and_written {
        let told = one.run(&[lookup(b"f"), lock(&mine, kind, range)]).pop();
        assert!(matches!(told, Some(NfsResop4::OpLock(Lock4Res::Nfs4Ok(_)))), "{told:?}");
    }
    let locks = holdings(&one).locks(ALL);
    let mut told: Vec<_> = locks.shown.iter().map(|seen| seen.range.expect("something is locked")).collect();
    told.sort_by_key(|(range, _)| range.first());
    let [read, written] = [Range::new(0, 10), Range::new(20, u64::MAX)].map(|range| range.expect("it is one"));
    assert_eq!((told, locks.more), (vec![(read, Kind::Read), (written, Kind::Write)], 0));
    assert!(locks.shown.iter().all(|seen| seen.owner.as_deref() == Some(b"process 7")));
    let page = holdings(&one).locks(first(1));
    assert_eq!((page.shown.len(), page.more), (1, 1), "of one stateid");
    assert!(holdings(&one).locks(of(&other)).shown.is_empty());

    let sessions = holdings(&one).sessions(ALL);
    assert_eq!((sessions.shown.len(), sessions.shown[0].connections, sessions.shown[0].in_use), (2, 1, 0));
    assert_eq!((holdings(&one).sessions(first(1)).shown.len(), holdings(&one).sessions(first(1)).more), (1, 1));
    let there_are = Counts { clients: 2, sessions: 2, opens: 3, locks: 1, ..Counts::default() };
    assert_eq!(holdings(&one).counts(), there_are);
    pass(&one, &mut clock, 100);
    assert_eq!(holdings(&one).counts(), Counts { late: 2, ..there_are });
    assert!(holdings(&one).clients(ALL).shown.iter().all(|seen| seen.is_late), "nobody is in their way");
}

#[test]
fn who_is_evicted_is_told_and_keeps_nobody_out() {
    let mut one = Opener::new();
    let mut other = Opener::beside(&one.scene.clone(), "another client", 2);
    one.scene.file(b"f");
    let mine = one.opened(open_as(b"o", b"f", (BOTH, BOTH), find())).stateid;
    assert_eq!(one.status(&[lookup(b"f"), lock(&mine, NfsLockType4::WriteLt, (0, 1))]), OK);
    assert_eq!(other.status(&[open(b"f", READ, 0)]), Nfs4ErrShareDenied);
    let gone = holdings(&one).evict(ClientId(one.client)).expect("it was there");
    assert_eq!((gone.known.name.as_slice(), gone.opens, gone.locks), (&b"a client"[..], 1, 1));
    assert!(holdings(&one).evict(ClientId(one.client)).is_none(), "once");
    assert_eq!(one.status(&[]), Nfs4ErrBadsession);
    assert_eq!(other.status(&[open(b"f", READ, 0)]), OK);
    let left = holdings(&other);
    assert_eq!((left.clients(ALL).shown.len(), left.opens(ALL).shown.len(), left.locks(ALL).shown.len()), (1, 1, 0));
}

/// What was taken from a client stays to be seen until it knows.
#[test]
fn what_was_revoked_is_told() {
    let mut one = Opener::new();
    one.scene.file(b"f");
    let mine = one.opened(open_as(b"o", b"f", (BOTH, 0), find())).stateid;
    assert_eq!(one.status(&[lookup(b"f"), lock(&mine, NfsLockType4::WriteLt, (0, 1))]), OK);
    one.scene.exports.mount_anew();
    one.flags();
    let (opens, locks) = (holdings(&one).opens(ALL).shown, holdings(&one).locks(ALL).shown);
    assert!(opens.len() == 1 && opens[0].open.revoked.is_some(), "{opens:?}");
    assert!(locks.len() == 1 && locks[0].revoked.is_some() && locks[0].range.is_none(), "{locks:?}");
}
