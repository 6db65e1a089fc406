use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tally_base::{DatasetId, Generation, ObjectId, PoolGuid};
use tally_vfs::{Access, Deny, MountNumber, ObjectRef};

use super::*;
use crate::v4::state::bounds::{
    OPENS_MAX, OPENS_OF_CLIENT_MAX, OWNERS_MAX, OWNERS_OF_CLIENT_MAX, REVOKED_OF_CLIENT_MAX,
};
use crate::v4::state::clients::desk::Draws;
use crate::v4::state::places::SHARD_COUNT;

pub(super) const READ: u32 = 1;
pub(super) const WRITE: u32 = 2;
pub(super) const BOTH: u32 = 3;
const A: ClientId = ClientId(7 << 32 | 1);
const B: ClientId = ClientId(7 << 32 | 2);

/// In the numbers that protocols have.
pub(super) fn share(access: u32, deny: u32) -> Share {
    Share { access: Access::from_bits(access).unwrap(), deny: Deny::from_bits(deny).unwrap() }
}

pub(super) fn opens(seed: u64) -> Opens {
    Opens::new(BootId(7), &Draws(AtomicU64::new(seed)))
}

pub(super) fn client(id: u64) -> ClientId {
    ClientId(7 << 32 | id)
}

pub(super) fn file(id: u64) -> FileId {
    let object = ObjectRef { id: ObjectId(id), generation: Generation(1) };
    FileId { of: MOUNTED, object }
}

const MOUNTED: Mounted = Mounted { pool: PoolGuid(1), dataset: DatasetId(2), mount: MountNumber(1) };

impl Opens {
    fn open(&self, minor: u32, client: ClientId, owner: &[u8], id: u64) -> Stateid {
        self.reserve(minor, client, owner, file(id)).unwrap().granted(share(READ, 0)).unwrap()
    }

    /// All that a client has open, and what was revoked.
    pub(super) fn of_client(&self, client: ClientId) -> Vec<Found> {
        let shard = self.shards.of(client).read();
        let numbers = shard.numbers(client);
        let granted = numbers.filter(|number| shard.at(*number).is_some_and(Open::is_granted));
        granted.map(|number| self.found(&shard, number)).collect()
    }

    /// O1 to O3, and what is counted.
    pub(super) fn check(&self) {
        let of_shards = self.shards.of_each(None).iter().map(|shard| shard.read().check());
        let sum = of_shards.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        assert_eq!(self.counts(), sum, "O2");
        assert!(sum.0 <= OWNERS_MAX && sum.1 <= OPENS_MAX, "O2");
    }
}

#[test]
fn row_a_what_names_nothing_is_not_found() {
    let opens = opens(1);
    opens.open(1, A, b"a", 3);
    for (seqid, other) in [(0, [0; 12]), (1, [0; 12]), (u32::MAX, [0; 12]), (0, [0xff; 12]), (u32::MAX, [0xff; 12])] {
        let asked = Stateid { seqid, other };
        for (minor, client) in [(0, None), (1, Some(A))] {
            assert_eq!(opens.find(&asked, minor, client, None), Err(Status::BadStateid), "of no start either");
            assert_eq!(opens.change(&asked, minor, client, None).unwrap_err(), Status::BadStateid);
        }
        assert_eq!((opens.test(&asked, A), opens.free(&asked, A)), (Status::BadStateid, Err(Status::BadStateid)));
    }
}

#[test]
fn row_b_of_another_start() {
    let before = Opens::new(BootId(6), &Draws(AtomicU64::new(1))).open(1, A, b"a", 3);
    let opens = opens(1);
    // The same key, place and turn: only the start tells them apart.
    let now = opens.open(1, A, b"a", 3);
    assert_eq!(now.other[4..], before.other[4..]);
    assert_eq!(opens.find(&before, 0, None, None), Err(Status::StaleStateid));
    assert_eq!(opens.find(&before, 1, Some(A), None), Err(Status::BadStateid));
    assert_eq!(opens.test(&before, A), Status::BadStateid);
}

#[test]
fn row_c_what_has_its_place_now_is_not_found_by_the_stateid_of_who_had_it() {
    let opens = opens(1);
    let before = opens.open(1, A, b"a", 3);
    assert_eq!(opens.change(&before, 1, Some(A), Some(&file(3))).unwrap().closed(), Stateid::INVALID);
    assert_eq!(opens.find(&before, 1, Some(A), None), Err(Status::BadStateid), "nothing at that place");
    let now = opens.open(1, A, b"a", 3);
    assert_eq!((now.other[..8].to_vec(), now.seqid), (before.other[..8].to_vec(), 1), "the same place");
    assert_eq!(opens.find(&before, 1, Some(A), Some(&file(3))), Err(Status::BadStateid));
    assert_eq!(opens.find(&now, 1, Some(A), Some(&file(3))).unwrap().stateid, now);
    for at in 4..12 {
        let mut guess = now;
        guess.other[at] ^= 1;
        assert_eq!(opens.find(&guess, 1, Some(A), None), Err(Status::BadStateid));
    }
    for index in [[0; 4], [0xff; 4], [0, 0, 0, 1]] {
        let mut guess = now;
        guess.other[4..8].copy_from_slice(&index);
        assert_eq!(opens.find(&guess, 1, Some(A), None), Err(Status::BadStateid));
    }
}

#[test]
fn rows_d_to_f_of_other_versions_clients_and_files() {
    let opens = opens(1);
    let in_0 = opens.open(0, A, b"a", 3);
    let in_session = opens.open(1, B, b"a", 3);
    let bad = Err(Status::BadStateid);
    assert_eq!(opens.find(&in_session, 0, None, None), bad, "d");
    assert_eq!(opens.find(&in_0, 1, Some(A), None), bad, "d");
    assert_eq!(opens.find(&in_session, 1, Some(A), Some(&file(3))), bad, "e");
    assert_eq!(opens.find(&in_session, 1, Some(B), Some(&file(4))), bad, "f");
    let found = opens.find(&in_session, 2, Some(B), Some(&file(3))).unwrap();
    assert_eq!((found.client, found.file, found.share), (B, file(3), Some(share(READ, 0))));
    assert_eq!(opens.find(&in_0, 0, None, Some(&file(3))).unwrap().client, A, "the stateid tells the client");
    // The same of what changes one.
    for (asked, minor, client, at) in
        [(&in_session, 0, None, 3), (&in_0, 1, Some(A), 3), (&in_session, 1, Some(A), 3), (&in_session, 1, Some(B), 4)]
    {
        assert_eq!(opens.change(asked, minor, client, Some(&file(at))).unwrap_err(), Status::BadStateid);
    }
    assert_eq!((opens.test(&in_session, A), opens.free(&in_session, A)), (Status::BadStateid, bad.map(|_| ())));
}

#[test]
fn row_h_what_is_revoked_is_told_why_until_it_is_freed() {
    for (why, status) in [(Revoked::Expired, Status::Expired), (Revoked::Admin, Status::AdminRevoked)] {
        let opens = opens(1);
        let (stateid, other) = (opens.open(1, A, b"a", 3), opens.open(1, A, b"a", 4));
        assert_eq!(opens.free(&stateid, A), Err(Status::LocksHeld), "it is open");
        let number = opens.find(&stateid, 1, Some(A), None).unwrap();
        let closing = opens.revoke(Some(A), &|found| found.file == file(3), why);
        assert_eq!(closing, [Closing { file: file(3), client: number.client, open: number.open }]);
        assert_eq!(opens.revoke(None, &|found| found.file == file(3), why), [], "once");
        opens.check();
        let later = Stateid { seqid: 9, ..stateid };
        for asked in [stateid, later] {
            assert_eq!(opens.find(&asked, 1, Some(A), Some(&file(3))), Err(status), "before its seqid");
            assert_eq!(opens.change(&asked, 1, Some(A), Some(&file(3))).unwrap_err(), status);
            assert_eq!(opens.test(&asked, A), status);
        }
        assert_eq!(opens.by_number(number.open).unwrap().revoked, Some(why));
        // Its owner may open the file again, and that is another one.
        let again = opens.reserve(1, A, b"a", file(3)).unwrap();
        assert!(!again.is_upgrade() && again.number() != number.open);
        let again = again.granted(share(WRITE, 0)).unwrap();
        assert_eq!(opens.free(&stateid, B), Err(Status::BadStateid), "of another client");
        assert_eq!(opens.free(&stateid, A), Ok(()));
        assert_eq!((opens.free(&stateid, A), opens.test(&stateid, A)), (Err(Status::BadStateid), Status::BadStateid));
        assert_eq!([other, again].map(|asked| opens.test(&asked, A)), [Status::Ok; 2]);
        opens.check();
    }
}

/// What SEQUENCE says, up to the last FREE_STATEID (RFC 8881 §18.46.3).
#[test]
fn what_was_revoked_is_told_until_all_of_it_is_freed() {
    let opens = opens(1);
    let stateids = [3, 4, 5, 6].map(|id| opens.open(1, A, b"a", id));
    assert_eq!((opens.flags(A), opens.flags(B)), (0, 0));
    for (id, why, flags) in [
        (3, Revoked::Expired, 0x10),
        (4, Revoked::Admin, 0x30),
        (5, Revoked::Recalled, 0x70),
        (6, Revoked::Admin, 0x68),
    ] {
        opens.revoke(Some(A), &|found| found.file == file(id), why);
        assert_eq!(opens.flags(A), flags);
    }
    assert_eq!(opens.flags(B), 0);
    let told = stateids.map(|stateid| {
        opens.free(&stateid, A).unwrap();
        opens.check();
        opens.flags(A)
    });
    assert_eq!(told, [0x60, 0x60, 0x20, 0]);
}

#[test]
fn rows_i_to_l_by_seqid() {
    let opens = opens(1);
    for (minor, client) in [(0, A), (1, B)] {
        let first = opens.open(minor, client, b"a", 3);
        let second = opens.open(minor, client, b"a", 3);
        assert_eq!((first.seqid, second), (1, Stateid { seqid: 2, ..first }));
        let told = [0, 1, 2, 3].map(|seqid| {
            let asked = Stateid { seqid, ..first };
            opens.find(&asked, minor, (minor > 0).then_some(client), None).map(|found| found.stateid)
        });
        let zero = if minor == 0 { Err(Status::OldStateid) } else { Ok(second) };
        assert_eq!(told, [zero, Err(Status::OldStateid), Ok(second), Err(Status::BadStateid)]);
    }
}

/// The reply of the first OPEN was lost; the client sends it anew (rules V29).
#[test]
fn an_open_whose_reply_was_lost_is_found_again() {
    let opens = opens(1);
    let first = opens.reserve(1, A, b"a", file(3)).unwrap();
    assert!(!first.is_upgrade());
    let number = first.number();
    let first = first.granted(share(READ, 0)).unwrap();
    let again = opens.reserve(1, A, b"a", file(3)).unwrap();
    assert!(again.is_upgrade() && again.number() == number);
    assert_eq!(again.granted(share(WRITE, WRITE)).unwrap(), Stateid { seqid: 2, ..first });
    let found = opens.find(&Stateid { seqid: 0, ..first }, 1, Some(A), None).unwrap();
    assert_eq!(found.share, Some(share(BOTH, WRITE)));
    // Another owner's, another client's, and another file's are others.
    let others = [(A, b"b", 3), (B, b"a", 3), (A, b"a", 4)].map(|(client, owner, id)| {
        let reserved = opens.reserve(1, client, owner, file(id)).unwrap();
        assert!(!reserved.is_upgrade());
        reserved
    });
    let numbers: HashSet<_> = others.iter().map(Reserved::number).chain([number]).collect();
    assert_eq!((numbers.len(), opens.counts()), (4, (3, 4)), "what A's a has twice is of one owner");
}

/// What fails registers nothing (rules V29).
#[test]
fn what_is_reserved_and_not_granted_leaves_nothing() {
    let opens = opens(1);
    let reserved = opens.reserve(1, A, b"a", file(3)).unwrap();
    assert!(opens.holds(A) && opens.of_client(A).is_empty());
    assert_eq!(opens.by_number(reserved.number()), None);
    drop(reserved);
    assert!(!opens.holds(A) && opens.counts() == (0, 0));
    let stateid = opens.open(1, A, b"a", 3);
    drop(opens.reserve(1, A, b"a", file(3)).unwrap());
    drop(opens.change(&stateid, 1, Some(A), None).unwrap());
    assert_eq!(opens.find(&stateid, 1, Some(A), None).unwrap().stateid, stateid);
    opens.check();
    assert_eq!(opens.change(&stateid, 1, Some(A), None).unwrap().closed(), Stateid::INVALID);
    assert!(!opens.holds(A) && opens.counts() == (0, 0));
    opens.check();
}

#[test]
fn a_change_and_an_open_of_one_owner_and_file_are_one_behind_the_other() {
    let opens = opens(1);
    let first = [(); 2].map(|()| opens.reserve(1, A, b"a", file(3)).unwrap());
    assert_eq!(first[0].number(), first[1].number(), "OPENs go on beside each other");
    let [one, two] = first;
    let stateid = two.granted(share(READ, 0)).unwrap();
    assert_eq!(opens.change(&stateid, 1, Some(A), None).unwrap_err(), Status::Delay);
    let stateid = one.granted(share(WRITE, 0)).unwrap();
    assert_eq!(stateid.seqid, 2);
    let changing = opens.change(&stateid, 1, Some(A), None).unwrap();
    assert_eq!(opens.reserve(1, A, b"a", file(3)).unwrap_err(), Status::Delay);
    assert_eq!(opens.change(&stateid, 1, Some(A), None).unwrap_err(), Status::Delay);
    assert!(opens.find(&stateid, 1, Some(A), None).is_ok(), "what reads and writes goes on");
    assert!(opens.reserve(1, A, b"b", file(3)).is_ok() && opens.reserve(1, A, b"a", file(4)).is_ok());
    assert_eq!(changing.downgraded(share(READ, 0)), Stateid { seqid: 3, ..stateid });
    let now = Stateid { seqid: 3, ..stateid };
    assert_eq!(opens.find(&now, 1, Some(A), None).unwrap().share, Some(share(READ, 0)));
    drop(opens.reserve(1, A, b"a", file(3)).unwrap());
    let closing = opens.change(&now, 1, Some(A), None).unwrap();
    assert_eq!(closing.found().stateid, now);
    let _ = closing.closed();
    opens.check();
}

#[test]
fn no_number_comes_twice() {
    let opens = opens(1);
    let close = |stateid| opens.change(&stateid, 1, Some(A), None).unwrap().closed();
    let _ = close(opens.open(1, A, b"a", 3));
    opens.shards.of(A).write().wear();
    let places = [(); 3].map(|()| {
        let reserved = opens.reserve(1, A, b"a", file(3)).unwrap();
        let number = reserved.number();
        let _ = close(reserved.granted(share(READ, 0)).unwrap());
        opens.check();
        (number.0 as u32, number.0 >> 32)
    });
    let [(first, last_turn), (second, 1), (third, 2)] = places else { panic!("{places:?}") };
    assert!(last_turn == u64::from(u32::MAX) && second == third && first != second);
}

#[test]
fn close_gives_the_next_stateid_in_minor_version_0_and_none_in_sessions() {
    let opens = opens(1);
    let in_0 = opens.open(0, A, b"a", 3);
    assert_eq!(opens.change(&in_0, 0, None, None).unwrap().closed(), Stateid { seqid: 2, ..in_0 });
    let in_session = opens.open(1, B, b"a", 3);
    assert_eq!(opens.change(&in_session, 1, Some(B), None).unwrap().closed(), Stateid::INVALID);
}

/// What is carried out below while its client goes has to be closed there, by its own number.
#[test]
fn who_is_gone_has_nothing_and_gets_nothing() {
    let opens = opens(1);
    let stateid = opens.open(1, A, b"a", 3);
    let revoked = opens.open(1, A, b"a", 4);
    let _ = opens.revoke(Some(A), &|found| found.file == file(4), Revoked::Admin);
    let (fresh, upgrade) = (opens.reserve(1, A, b"b", file(5)).unwrap(), opens.reserve(1, A, b"a", file(3)).unwrap());
    let stays = opens.open(1, B, b"a", 3);
    let number = opens.by_number(upgrade.number()).unwrap();
    assert_eq!(
        opens.forget_client(A),
        [Closing { file: file(3), client: number.client, open: number.open }],
        "what was revoked is closed already, what was not granted says so itself"
    );
    opens.check();
    assert_eq!((opens.counts(), opens.holds(A)), ((1, 1), false));
    assert_eq!(opens.forget_client(A), []);
    // Somebody has those places by now.
    let other = ClientId(A.0 + SHARD_COUNT as u64);
    let others: Vec<_> = (0..4).map(|id| opens.open(1, other, b"o", id)).collect();
    assert_eq!(fresh.granted(share(READ, 0)), Err(Status::Expired));
    assert_eq!(upgrade.granted(share(READ, 0)), Err(Status::Expired));
    assert!([stateid, revoked].iter().all(|asked| opens.test(asked, A) == Status::BadStateid));
    assert!(others.iter().all(|asked| opens.test(asked, other) == Status::Ok && asked.seqid == 1));
    assert_eq!(opens.test(&stays, B), Status::Ok);
    opens.check();
}

#[test]
fn what_is_revoked_while_it_is_opened_or_changed_is_told_so() {
    let opens = opens(1);
    let stateid = opens.open(1, A, b"a", 3);
    let (upgrade, fresh) = (opens.reserve(1, A, b"a", file(3)).unwrap(), opens.reserve(1, A, b"a", file(4)).unwrap());
    assert_eq!(opens.revoke(None, &|_| true, Revoked::Admin).len(), 1);
    assert_eq!(upgrade.granted(share(WRITE, 0)), Err(Status::AdminRevoked));
    assert_eq!(fresh.granted(share(WRITE, 0)), Err(Status::Expired));
    assert_eq!(opens.test(&stateid, A), Status::AdminRevoked);
    opens.check();
    let stateid = opens.open(1, A, b"a", 5);
    let changing = opens.change(&stateid, 1, Some(A), None).unwrap();
    assert_eq!(opens.revoke(Some(A), &|_| true, Revoked::Expired).len(), 1);
    let _ = changing.closed();
    assert_eq!(opens.test(&stateid, A), Status::BadStateid);
    opens.check();
    assert!(!opens.holds(A), "what was revoked cannot be lost any more");
}

#[test]
fn who_has_too_much_revoked_has_nothing_else() {
    let opens = opens(1);
    for id in 0..REVOKED_OF_CLIENT_MAX as u64 + 2 {
        opens.open(1, A, b"a", id);
    }
    let most = REVOKED_OF_CLIENT_MAX as u64;
    assert_eq!(opens.revoke(None, &|found| found.file.object.id.0 < most, Revoked::Expired).len(), most as usize);
    assert!(opens.holds(A));
    assert_eq!(opens.revoke(None, &|found| found.file.object.id.0 == u64::MAX, Revoked::Expired), []);
    assert!(opens.holds(A), "nothing was picked");
    assert_eq!(opens.revoke(None, &|found| found.file == file(most), Revoked::Expired).len(), 2, "all of it");
    assert!(!opens.holds(A) && opens.of_client(A).len() == most as usize + 2);
    opens.check();
}

/// A client's own bounds come first, and others do not feel them (rules V35).
#[test]
fn a_client_meets_its_own_bounds() {
    let opens = opens(1);
    let long = [b'o'; OWNER_BYTES_MAX + 1];
    assert_eq!(opens.reserve(1, A, &long, file(3)).unwrap_err(), Status::BadXdr);
    for owner in 0..OWNERS_OF_CLIENT_MAX as u32 {
        opens.open(1, A, &owner.to_be_bytes(), 3);
    }
    assert_eq!(opens.reserve(1, A, &long[1..], file(3)).unwrap_err(), Status::Delay);
    assert_eq!(opens.reserve(0, A, &long[1..], file(3)).unwrap_err(), Status::Resource);
    assert!(opens.reserve(1, A, &0_u32.to_be_bytes(), file(3)).unwrap().is_upgrade());
    for id in 0..(OPENS_OF_CLIENT_MAX - OWNERS_OF_CLIENT_MAX) as u64 {
        opens.open(1, A, &0_u32.to_be_bytes(), 4 + id);
    }
    assert_eq!(opens.reserve(1, A, &0_u32.to_be_bytes(), file(u64::MAX)).unwrap_err(), Status::Delay);
    assert!(opens.reserve(1, A, &1_u32.to_be_bytes(), file(3)).unwrap().is_upgrade(), "that needs no room");
    assert!(opens.reserve(1, B, &long[1..], file(3)).is_ok());
    opens.check();
    assert_eq!(opens.forget_client(A).len(), OPENS_OF_CLIENT_MAX);
    assert_eq!(opens.counts(), (0, 0));
    opens.check();
}

#[test]
fn a_million_opens_without_a_close_meet_the_bounds() {
    let opens = opens(1);
    let (mut granted, mut refused) = (0, 0);
    for round in 0..1_000_000_u64 {
        let (client, owner) = (client(round % 64), round / 128 % 4096);
        match opens.reserve(1, client, &[owner.to_be_bytes(); 128].concat(), file(round / 64)) {
            Ok(reserved) => {
                reserved.granted(share(READ, 0)).unwrap();
                granted += 1;
            }
            Err(status) => {
                assert_eq!(status, Status::Delay);
                refused += 1;
            }
        }
    }
    assert_eq!((granted, refused, opens.counts().1), (OPENS_MAX, 1_000_000 - OPENS_MAX, OPENS_MAX));
    opens.check();
    let bytes: usize = opens.shards.of_each(None).iter().map(|shard| shard.read().bytes()).sum();
    assert!(bytes < 96 << 20, "{bytes}");
    for id in 0..64 {
        let _ = opens.forget_client(client(id));
    }
    assert_eq!(opens.counts(), (0, 0));
    // As many owners as there may be, and a client that comes then.
    let all = (OWNERS_MAX / OWNERS_OF_CLIENT_MAX) as u64;
    for id in 0..all {
        for owner in 0..OWNERS_OF_CLIENT_MAX as u32 {
            opens.open(1, client(id), &owner.to_be_bytes(), 3);
        }
    }
    assert_eq!(opens.reserve(1, client(all), b"o", file(3)).unwrap_err(), Status::Delay);
    assert_eq!(opens.counts(), (OWNERS_MAX, OWNERS_MAX), "what was refused is not counted");
    opens.check();
}

/// Clients read and write while others open and close in the same places: nobody's stateid names another's open, and those that stay are always found.
#[test]
fn who_looks_finds_its_own_while_others_come_and_go() {
    let (opens, is_over) = (opens(1), AtomicBool::new(false));
    let clients: Vec<_> = (0..4).map(|n| client(n % 2 * 16 + n / 2)).collect();
    std::thread::scope(|scope| {
        let (opens, is_over) = (&opens, &is_over);
        for client in clients.clone() {
            let lasting = opens.open(1, client, b"lasting", client.0);
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    let found = opens.find(&lasting, 1, Some(client), Some(&file(client.0))).unwrap();
                    assert_eq!((found.client, found.stateid), (client, lasting));
                }
            });
        }
        let workers = clients.iter().map(|client| {
            scope.spawn(move || {
                for round in 0..5_000 {
                    let id = round % 7;
                    let stateid = opens.open(1, *client, b"passing", id);
                    let found = opens.find(&stateid, 1, Some(*client), Some(&file(id))).unwrap();
                    assert_eq!(found.stateid, stateid);
                    let _ = opens.change(&stateid, 1, Some(*client), None).unwrap().closed();
                    assert_eq!(opens.find(&stateid, 1, Some(*client), None), Err(Status::BadStateid));
                }
            })
        });
        let workers: Vec<_> = workers.collect();
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        is_over.store(true, Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    assert_eq!(opens.counts(), (4, 4));
    opens.check();
}
