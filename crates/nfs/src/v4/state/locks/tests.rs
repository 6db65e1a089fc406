use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tally_base::{DatasetId, Generation, ObjectId, PoolGuid};
use tally_vfs::{Access, MountNumber, ObjectRef, Share};

use super::*;
use crate::v4::state::bounds::{
    LOCK_NAMES_BYTES_MAX, LOCK_NAMES_BYTES_OF_CLIENT_MAX, LOCKS_MAX, LOCKS_OF_CLIENT_MAX, OWNERS_MAX,
    OWNERS_OF_CLIENT_MAX,
};
use crate::v4::state::clients::desk::Draws;
use crate::v4::state::opens::{OpenNumber, Opens};
use crate::v4::state::places::SHARD_COUNT;
use crate::v4::state::stateid::Mounted;
use crate::v4::state::{Asking, Brought, Came, Orders, Turns};

const A: ClientId = ClientId(7 << 32 | 1);
const B: ClientId = ClientId(7 << 32 | 2);

pub(super) fn locks(seed: u64) -> Locks {
    Locks::new(BootId(7), &Draws(AtomicU64::new(seed)))
}

pub(super) fn file(id: u64) -> FileId {
    let object = ObjectRef { id: ObjectId(id), generation: Generation(1) };
    FileId { of: Mounted { pool: PoolGuid(1), dataset: DatasetId(2), mount: MountNumber(1) }, object }
}

/// An open of a client's, of file 3. No two clients' have one number.
pub(super) fn open(client: ClientId, number: u64) -> FoundOpen {
    let stateid = Stateid { seqid: 1, other: [1; 12] };
    let open = OpenNumber(client.0 << 32 | number);
    FoundOpen { open, client, file: file(3), share: Some(Share::only(Access::BOTH)), stateid, revoked: None }
}

impl Locks {
    pub(super) fn lock(&self, minor: u32, open: &FoundOpen, owner: &[u8]) -> Stateid {
        self.begin(open, minor, owner).unwrap().granted().unwrap()
    }

    pub(super) fn told(&self, asked: &Stateid, client: ClientId) -> Status {
        self.find(asked, 1, Some(client), None).map_or_else(|status| status, |_| Status::Ok)
    }

    /// L1 to L3, and what is counted.
    pub(super) fn check(&self) {
        let of_shards = self.shards.of_each(None).iter().map(|shard| shard.read().check());
        let sum = of_shards.fold((0, 0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1, sum.2 + of.2));
        assert_eq!(self.counts(), sum, "L2");
        assert!(sum.0 <= OWNERS_MAX && sum.1 <= LOCK_NAMES_BYTES_MAX && sum.2 <= LOCKS_MAX, "L2");
    }
}

/// Table D6, of locks as it is of opens.
#[test]
fn rows_a_to_l_by_what_is_asked() {
    let before = Locks::new(BootId(6), &Draws(AtomicU64::new(1))).lock(1, &open(A, 16), b"a");
    let locks = locks(1);
    let first = locks.lock(1, &open(A, 16), b"a");
    assert_eq!(first.other[4..], before.other[4..], "only the start tells them apart");
    let second = locks.lock(1, &open(A, 16), b"a");
    assert_eq!((first.seqid, second), (1, Stateid { seqid: 2, ..first }));
    let in_0 = locks.lock(0, &open(B, 16), b"a");
    let mut guessed = second;
    guessed.other[11] ^= 1;
    let at = |seqid| Stateid { seqid, ..first };
    let find = |asked: Stateid, minor, client, id| locks.find(&asked, minor, client, Some(&file(id))).err();
    let (bad, old) = (Some(Status::BadStateid), Some(Status::OldStateid));
    for (asked, minor, client, id, told) in [
        (Stateid { seqid: 1, other: [0; 12] }, 1, Some(A), 3, bad),
        (before, 1, Some(A), 3, bad),
        (before, 0, None, 3, Some(Status::StaleStateid)),
        (guessed, 1, Some(A), 3, bad),
        (second, 0, None, 3, bad),
        (second, 1, Some(B), 3, bad),
        (second, 1, Some(A), 4, bad),
        (at(0), 1, Some(A), 3, None),
        (at(1), 1, Some(A), 3, old),
        (at(2), 1, Some(A), 3, None),
        (at(3), 1, Some(A), 3, bad),
        (in_0, 0, None, 3, None),
        (Stateid { seqid: 0, ..in_0 }, 0, None, 3, old),
    ] {
        assert_eq!(find(asked, minor, client, id), told, "{asked:?} of {minor} by {client:?}");
        assert_eq!(locks.again(&asked, minor, client, Some(&file(id))).err(), told);
    }
    // Row g: an open's is not found here, nor a lock's there, were the place and the tag the same.
    let opens = Opens::new(BootId(7), &Draws(AtomicU64::new(1)));
    let opened = opens.reserve(1, A, b"a", file(3)).unwrap().granted(Share::only(Access::BOTH)).unwrap();
    assert!(second.is_of_lock() && !opened.is_of_lock());
    assert_eq!((find(opened, 1, Some(A), 3), opens.find(&second, 1, Some(A), None).err()), (bad, bad));
    // Row h, before the seqid.
    for (why, told) in [(Revoked::Expired, Status::Expired), (Revoked::Admin, Status::AdminRevoked)] {
        let stateid = locks.lock(1, &open(A, 32), b"a");
        locks.revoke_below(open(A, 32).holder(), why);
        assert_eq!([0, 1, 9].map(|seqid| locks.told(&Stateid { seqid, ..stateid }, A)), [told; 3]);
        assert_eq!(locks.told(&stateid, B), Status::BadStateid);
        assert_ne!(locks.lock(1, &open(A, 32), b"a").other, stateid.other, "what is locked anew is another one");
        assert!(locks.free(&stateid, A).unwrap().is_none());
        assert_eq!(locks.told(&stateid, A), Status::BadStateid);
        locks.closed(open(A, 32).holder());
        locks.check();
    }
}

/// An owner is one holder of ranges below all of its opens, another one for each client, and never one that an open is.
#[test]
fn an_owner_is_one_holder_wherever_it_locks() {
    let locks = locks(1);
    let holder = |open: &FoundOpen, owner: &[u8]| {
        let stateid = locks.lock(1, open, owner);
        locks.find(&stateid, 1, Some(open.client), None).unwrap()
    };
    let (one, two) = (holder(&open(A, 32), b"a"), holder(&open(A, 64), b"a"));
    assert_eq!(one.holder, two.holder);
    assert!(one.below != two.below && one.stateid.other != two.stateid.other);
    let others = [holder(&open(A, 32), b"b").holder, holder(&open(B, 32), b"a").holder];
    assert_eq!(HashSet::from([one.holder, others[0], others[1]]).len(), 3);
    let opens = Opens::new(BootId(7), &Draws(AtomicU64::new(1)));
    let of_open = opens.reserve(1, A, b"a", file(3)).unwrap().holder().owner.0;
    let bits = [one.holder.owner.0, others[0].owner.0, of_open].map(|number| number as u32 & OF_LOCKS);
    assert_eq!(bits, [OF_LOCKS, OF_LOCKS, 0]);
    // By name and by number, as long as it has something.
    assert_eq!((locks.holder(A, b"a"), locks.named(one.holder)), (one.holder, Some((A, b"a"[..].into()))));
    assert_eq!((locks.holder(A, b"none").owner.0, locks.named(locks.holder(A, b"none"))), (0, None));
    locks.closed(one.below);
    assert_eq!(locks.holder(A, b"a"), one.holder);
    locks.closed(two.below);
    assert_eq!((locks.holder(A, b"a").owner.0, locks.named(one.holder)), (0, None));
    assert_ne!(holder(&open(A, 32), b"a").holder, one.holder, "no number comes twice");
    locks.check();
}

#[test]
fn what_is_begun_and_not_granted_leaves_nothing() {
    let locks = locks(1);
    let first = [(); 2].map(|()| locks.begin(&open(A, 32), 1, b"a").unwrap());
    assert!(first.iter().all(|locking| !locking.is_known()));
    let [one, two] = first;
    assert_eq!(one.locked().holder, two.locked().holder, "LOCKs go on beside each other");
    drop(one);
    let stateid = two.granted().unwrap();
    drop(locks.again(&stateid, 1, Some(A), None).unwrap());
    assert!(locks.begin(&open(A, 32), 1, b"a").unwrap().is_known());
    assert_eq!(locks.told(&stateid, A), Status::Ok);
    drop(locks.begin(&open(A, 64), 1, b"b").unwrap());
    assert_eq!(locks.counts(), (1, 1, 1));
    locks.check();
    locks.forget_client(A);
    assert_eq!((locks.counts(), locks.told(&stateid, A)), ((0, 0, 0), Status::BadStateid));
    locks.check();
}

/// Whoever ended while it was locked is told so, and what has the place by then is not touched.
#[test]
fn what_ends_while_it_is_locked_is_told_so() {
    for end in [
        |locks: &Locks| locks.closed(open(A, 32).holder()),
        |locks: &Locks| locks.forget_client(A),
        |locks: &Locks| locks.revoke_below(open(A, 32).holder(), Revoked::Expired),
    ] {
        let locks = locks(1);
        let known = locks.lock(1, &open(A, 32), b"known");
        let [again, dropped] = [(); 2].map(|()| locks.again(&known, 1, Some(A), None).unwrap());
        let fresh = locks.begin(&open(A, 32), 1, b"fresh").unwrap();
        end(&locks);
        locks.check();
        let other = ClientId(A.0 + SHARD_COUNT as u64);
        let others: Vec<_> = (0..4).map(|id: u64| locks.lock(1, &open(other, 32), &id.to_be_bytes())).collect();
        assert!(matches!(again.granted(), Err(Status::BadStateid | Status::Expired)));
        assert_eq!(fresh.granted(), Err(Status::BadStateid));
        drop(dropped);
        assert!(others.iter().all(|stateid| locks.told(stateid, other) == Status::Ok && stateid.seqid == 1));
        locks.check();
    }
}

#[test]
fn who_frees_and_who_locks_keep_each_other_out() {
    let locks = locks(1);
    let stateid = locks.lock(1, &open(A, 32), b"a");
    let locking = locks.again(&stateid, 1, Some(A), None).unwrap();
    assert_eq!(locks.free(&stateid, A).unwrap_err(), Status::LocksHeld);
    drop(locking);
    assert_eq!(locks.free(&stateid, B).unwrap_err(), Status::BadStateid);
    let freeing = locks.free(&stateid, A).unwrap().unwrap();
    assert_eq!(locks.again(&stateid, 1, Some(A), None).unwrap_err(), Status::Delay);
    assert_eq!(locks.begin(&open(A, 32), 1, b"a").unwrap_err(), Status::Delay);
    assert_eq!(locks.free(&stateid, A).unwrap_err(), Status::LocksHeld);
    drop(freeing);
    assert!(locks.again(&stateid, 1, Some(A), None).is_ok(), "it held something");
    locks.free(&stateid, A).unwrap().unwrap().freed();
    assert_eq!((locks.told(&stateid, A), locks.counts()), (Status::BadStateid, (0, 0, 0)));
    locks.check();
}

/// Of minor version 0: what went with its client is told so, also when its place is another one's by now.
#[test]
fn row_c_what_a_client_had_that_is_gone() {
    let locks = locks(1);
    let of_client = locks.lock(0, &open(A, 16), b"a");
    let unlocked = locks.lock(0, &open(A, 32), b"a");
    locks.closed(open(A, 32).holder());
    let told = |asked: &Stateid, minor| locks.find(asked, minor, None, None).map(|_| ());
    assert_eq!([&of_client, &unlocked].map(|asked| told(asked, 0)), [Ok(()), Err(Status::BadStateid)]);
    locks.forget_client(A);
    let all = [&of_client, &unlocked].map(|asked| [0, 1].map(|minor| told(asked, minor)));
    let bad = Err(Status::BadStateid);
    assert_eq!(all, [[Err(Status::Expired), bad], [bad, bad]]);
    let next = [16, 32].map(|number| locks.lock(0, &open(A, number), b"a"));
    assert_eq!(next.map(|next| next.index()).iter().filter(|index| **index == of_client.index()).count(), 1);
    assert_eq!(told(&of_client, 0), Err(Status::Expired));
}

/// Of minor version 0: an owner is found by its name and by its stateids, and goes with all of them or none.
#[test]
fn an_owner_is_released_as_a_whole() {
    let locks = locks(1);
    let owner = OwnerKey { client: A, name: locks.name(b"a") };
    assert!(locks.release(&owner).unwrap().is_empty() && !locks.has_owner(&owner));
    let [first, second] = [32, 64].map(|number| locks.lock(0, &open(A, number), b"a"));
    let other = locks.lock(0, &open(A, 32), b"b");
    assert_eq!((locks.owner_of(&first), locks.has_owner(&owner)), (Ok(owner), true));
    assert_eq!(locks.owner_of(&Stateid { seqid: 77, ..second }), Ok(owner), "whatever its seqid");
    let locking = locks.again(&second, 0, None, None).unwrap();
    assert_eq!(locks.release(&owner).unwrap_err(), Status::LocksHeld);
    drop(locking);
    let freeing = locks.release(&owner).unwrap();
    assert_eq!((freeing.len(), locks.release(&owner).unwrap_err()), (2, Status::LocksHeld));
    assert_eq!(locks.again(&first, 0, None, None).unwrap_err(), Status::Delay);
    drop(freeing);
    assert!(locks.again(&first, 0, None, None).is_ok(), "it held something");
    locks.revoke_below(open(A, 64).holder(), Revoked::Admin);
    assert_eq!(locks.owner_of(&second), Ok(owner), "it is told why");
    locks.release(&owner).unwrap().into_iter().for_each(Freeing::freed);
    assert_eq!((locks.owner_of(&first), locks.has_owner(&owner)), (Err(Status::BadStateid), false));
    assert!(locks.again(&other, 0, None, None).is_ok());
    locks.check();
}

/// Between the two halves of RELEASE_LOCKOWNER a LOCK of the owner comes below another open: what it was told can be unlocked by.
#[test]
fn who_locks_as_he_is_released_is_in_his_order() {
    let (locks, orders) = (locks(1), Arc::new(Orders::default()));
    let owner = OwnerKey { client: A, name: locks.name(b"a") };
    let has_any = |owner: &OwnerKey| locks.has_owner(owner);
    let come = |brought, seqid| {
        let mut turns = Turns::default();
        let came = turns.begin(&orders, Asking { owner, brought, seqid, fingerprint: 7, nth: 2 }, &has_any);
        turns.end(2, Status::Ok, b"told", None);
        came
    };
    let now = Ok(Came::Now { is_confirmed: true, is_anew: false });
    assert_eq!(come(Brought::Lock, 5), now);
    locks.lock(0, &open(A, 32), b"a");
    let freeing = locks.release(&owner).unwrap();
    assert_eq!(come(Brought::Lock, 6), now);
    locks.lock(0, &open(A, 64), b"a");
    freeing.into_iter().for_each(Freeing::freed);
    orders.release(&owner, &has_any);
    assert_eq!(come(Brought::Other, 7), now, "LOCKU");
    locks.release(&owner).unwrap().into_iter().for_each(Freeing::freed);
    orders.release(&owner, &has_any);
    assert_eq!((come(Brought::Other, 8), orders.counts()), (Err(Status::BadSeqid), (0, 0)));
}

/// A client's own bounds come first, and others do not feel them (rules V35).
#[test]
fn a_client_meets_its_own_bounds() {
    let locks = locks(1);
    let name = |owner: u32, bytes: usize| {
        let mut name = vec![0; bytes];
        name[..4].copy_from_slice(&owner.to_be_bytes());
        name
    };
    assert_eq!(locks.begin(&open(A, 32), 1, &[0; OWNER_BYTES_MAX + 1]).unwrap_err(), Status::BadXdr);
    let longest = (LOCK_NAMES_BYTES_OF_CLIENT_MAX / OWNER_BYTES_MAX) as u32;
    for owner in 0..longest {
        locks.lock(1, &open(A, 32), &name(owner, OWNER_BYTES_MAX));
    }
    assert_eq!(locks.begin(&open(A, 32), 1, b"o").unwrap_err(), Status::Delay, "the names' bytes");
    assert_eq!(locks.begin(&open(A, 32), 0, b"o").unwrap_err(), Status::Resource);
    locks.lock(1, &open(A, 64), &name(0, OWNER_BYTES_MAX));
    locks.forget_client(A);
    for owner in 0..OWNERS_OF_CLIENT_MAX as u32 {
        locks.lock(1, &open(A, 32), &name(owner, 8));
    }
    assert_eq!(locks.begin(&open(A, 32), 1, b"o").unwrap_err(), Status::Delay, "owners");
    for number in 0..(LOCKS_OF_CLIENT_MAX - OWNERS_OF_CLIENT_MAX) as u64 {
        locks.lock(1, &open(A, 64 + number * 32), &name(0, 8));
    }
    assert_eq!(locks.begin(&open(A, 0), 1, &name(0, 8)).unwrap_err(), Status::Delay, "stateids");
    assert!(locks.begin(&open(A, 64), 1, &name(0, 8)).unwrap().is_known(), "that needs no room");
    locks.lock(1, &open(B, 32), &name(0, OWNER_BYTES_MAX));
    assert_eq!(locks.counts().2, LOCKS_OF_CLIENT_MAX + 1);
    locks.forget_client(A);
    assert_eq!(locks.counts(), (1, OWNER_BYTES_MAX, 1));
    locks.check();
}

#[test]
fn all_clients_together_meet_the_bounds_of_all() {
    let locks = locks(1);
    let client = |id: u64| ClientId(7 << 32 | id);
    let (mut granted, mut refused) = (0, 0);
    for round in 0..LOCKS_MAX as u64 + 1000 {
        let owner = round / 64 % 1024;
        let asked = locks.begin(&open(client(round % 64), round / 64 * 32), 1, &[owner.to_be_bytes(); 32].concat());
        match asked {
            Ok(locking) => {
                locking.granted().unwrap();
                granted += 1;
            }
            Err(status) => {
                assert_eq!(status, Status::Delay);
                refused += 1;
            }
        }
    }
    assert_eq!((granted, refused, locks.counts().2), (LOCKS_MAX, 1000, LOCKS_MAX));
    assert_eq!(locks.counts().1, 64 * 1024 * 256);
    let bytes: usize = locks.shards.of_each(None).iter().map(|shard| shard.read().bytes()).sum();
    assert!(bytes < 96 << 20, "{bytes}");
    (0..64).for_each(|id| locks.forget_client(client(id)));
    assert_eq!(locks.counts(), (0, 0, 0));
    // As many bytes of names as there may be, and a client that comes then.
    let of_client = (LOCK_NAMES_BYTES_OF_CLIENT_MAX / OWNER_BYTES_MAX) as u64;
    let all = (LOCK_NAMES_BYTES_MAX / LOCK_NAMES_BYTES_OF_CLIENT_MAX) as u64;
    for id in 0..all {
        (0..of_client).for_each(|owner| _ = locks.lock(1, &open(client(id), 32), &[owner.to_be_bytes(); 128].concat()));
    }
    assert_eq!(locks.begin(&open(client(all), 32), 1, b"o").unwrap_err(), Status::Delay);
    assert_eq!(locks.counts().1, LOCK_NAMES_BYTES_MAX, "what was refused is not counted");
    assert_eq!(locks.counts().2, (all * of_client) as usize);
    locks.check();
}
