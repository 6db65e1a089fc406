use tally_base::SystemRng;
use tally_base::{DatasetId, Generation, ObjectId, PoolGuid};
use tally_vfs::{Access, Deny, MountNumber, ObjectRef};

use super::*;
use crate::v4::state::LEASE_DEFAULT as LEASE;
use crate::v4::state::bounds::{
    DELEGATIONS_MANY, DELEGATIONS_MAX, DELEGATIONS_OF_CLIENT_MANY, DELEGATIONS_OF_CLIENT_MAX,
};

const A: ClientId = ClientId(1);
const B: ClientId = ClientId(2);
const READ: Keeps = Keeps { kind: Delegation::Read, times: false };
const NOW: Duration = Duration::from_secs(1000);

fn file(number: u64) -> FileId {
    file_on(1, number)
}

fn file_on(mount: u64, number: u64) -> FileId {
    let of = Mounted { pool: PoolGuid(1), dataset: DatasetId(1), mount: MountNumber(mount) };
    FileId { of, object: ObjectRef { id: ObjectId(number), generation: Generation(1) } }
}

fn delegations() -> Delegations {
    Delegations::new(BootId(7), &SystemRng, LEASE)
}

fn opener(client: ClientId) -> OwnerKey {
    OwnerKey { client, name: OwnerName::default() }
}

fn reserved(of: &Delegations, client: ClientId, number: u64) -> Result<Reserving<'_>, WhyNone> {
    of.reserve(READ, (opener(client), file(number)), None, NOW)
}

fn given(of: &Delegations, client: ClientId, number: u64) -> Delegated {
    let reserving = reserved(of, client, number).unwrap();
    reserving.granted((Bytes::from_static(b"handle"), 0), None).expect("nobody is kept out")
}

fn check(of: &Delegations) {
    of.shards.of_each(None).iter().for_each(|shard| shard.read().check());
    let count =
        |what: fn(&Shard) -> usize| of.shards.of_each(None).iter().map(|shard| what(&shard.read())).sum::<usize>();
    let all = count(Shard::count_all);
    let (recalled, revoked) = (count(Shard::count_recalled), count(Shard::count_revoked));
    assert_eq!(of.counts(), (all, recalled, revoked));
}

#[test]
fn it_is_known_by_its_stateid_and_given_back_once() {
    let of = delegations();
    let one = given(&of, A, 1);
    assert!(one.stateid.is_of_delegation() && !one.stateid.is_of_lock());
    assert_eq!(of.find(&one.stateid, A, Some(&file(1))).as_ref(), Ok(&one));
    // Seqid 0 is the present one.
    assert_eq!(of.find(&Stateid { seqid: 0, ..one.stateid }, A, None).as_ref(), Ok(&one));
    for (asked, client, of_file) in
        [(one.stateid, B, file(1)), (one.stateid, A, file(2)), (Stateid { seqid: 2, ..one.stateid }, A, file(1))]
    {
        assert_eq!(of.find(&asked, client, Some(&of_file)).err(), Some(Status::BadStateid));
        assert_eq!(of.give_back(&asked, client, &of_file).err(), Some(Status::BadStateid));
    }
    assert_eq!(of.free(&one.stateid, A), Err(Status::LocksHeld));
    let ending = of.give_back(&one.stateid, A, &file(1)).unwrap();
    // While it is given back it is nobody's, and nobody is given it anew.
    assert_eq!(of.find(&one.stateid, A, None).err(), Some(Status::BadStateid));
    assert_eq!(of.give_back(&one.stateid, A, &file(1)).err(), Some(Status::BadStateid));
    assert_eq!(reserved(&of, A, 1).err(), Some(WhyNone::NotWanted));
    assert_eq!(of.recall(A, &file(1), NOW), Recalled::Known);
    ending.returned();
    assert_eq!((of.counts(), of.holds(A)), ((0, 0, 0), false));
    check(&of);
}

/// Rows i to k of table D9.
#[test]
fn each_row_that_decides_under_the_files_lock() {
    let of = delegations();
    given(&of, A, 1);
    assert_eq!(reserved(&of, A, 1).err(), Some(WhyNone::NotWanted), "row j: it has it");
    assert!(reserved(&of, B, 1).is_ok(), "row l is the file system's");
    assert_eq!(of.recall(B, &file(2), NOW), Recalled::Nobodys);
    assert_eq!(reserved(&of, A, 2).err(), Some(WhyNone::Contention), "row i: somebody was in the way a moment ago");
    assert!(of.reserve(READ, (opener(A), file(2)), None, NOW + Duration::from_secs(30)).is_ok());
    let more: Vec<_> = (0..).map_while(|nth| reserved(&of, A, 10 + nth).ok()).collect();
    assert_eq!(more.len(), DELEGATIONS_OF_CLIENT_MAX - 1);
    assert_eq!(reserved(&of, A, 3).err(), Some(WhyNone::Resource), "row k: its own bound");
    let others: Vec<_> = (3..8)
        .flat_map(|client| (0..DELEGATIONS_OF_CLIENT_MAX as u64).map_while(move |nth| Some((client, nth))))
        .map_while(|(client, nth)| reserved(&of, ClientId(client), 10 + nth).ok())
        .collect();
    assert_eq!(others.len() + DELEGATIONS_OF_CLIENT_MAX, DELEGATIONS_MAX);
    assert_eq!(reserved(&of, B, 3).err(), Some(WhyNone::Resource), "row k: that of all");
    check(&of);
    drop((more, others));
    assert_eq!(of.counts(), (1, 0, 0));
    check(&of);
}

#[test]
fn a_recall_is_begun_once_and_ends_with_the_return() {
    let of = delegations();
    let one = given(&of, A, 1);
    assert!(!of.has_recalled() && of.to_call(NOW).is_empty());
    assert_eq!(of.recall(A, &file(1), NOW), Recalled::Begun);
    assert_eq!(of.recall(A, &file(1), NOW), Recalled::Known, "whoever else is kept out");
    assert_eq!((of.to_call(NOW), of.next_call(A, NOW), of.next_call(B, NOW)), (vec![A], Some(one.clone()), None));
    assert!(of.call(one.number, NOW) && !of.call(one.number, NOW), "one call at a time");
    assert!(of.to_call(NOW).is_empty());
    of.answered(one.number, Answer::Taken, NOW);
    assert!(of.find(&one.stateid, A, None).is_ok(), "it is its client's as long as it is not returned");
    assert!(of.take(one.number, NOW + LEASE).is_none());
    of.give_back(&one.stateid, A, &file(1)).unwrap().returned();
    assert!(!of.has_recalled() && of.overdue(NOW + 2 * LEASE).is_empty());
    check(&of);
}

#[test]
fn what_is_not_returned_is_taken_and_told_until_it_is_freed() {
    let of = delegations();
    let (one, other) = (given(&of, A, 1), given(&of, A, 2));
    of.recall(A, &file(1), NOW);
    let late = NOW + LEASE + Duration::from_millis(1);
    assert_eq!((of.overdue(NOW + LEASE), of.overdue(late)), (vec![], vec![one.number]));
    let (ending, denied) = of.take(one.number, late).unwrap();
    assert_eq!((ending.client(), ending.file()), (A, &file(1)));
    assert_eq!(denied, None, "its client has said nothing");
    assert!(of.take(one.number, late).is_none(), "once");
    ending.revoked(Revoked::Recalled);
    check(&of);
    // RECALLABLE_STATE_REVOKED.
    assert_eq!((of.flags(A), of.flags(B), of.has_lost(A)), (0x40, 0, true));
    assert_eq!(of.find(&one.stateid, A, None).err(), Some(Status::DelegRevoked));
    assert_eq!(of.give_back(&one.stateid, A, &file(1)).err(), Some(Status::DelegRevoked));
    // Another one of the file is another one.
    let anew = of.reserve(READ, (opener(A), file(1)), None, late).unwrap().granted((Bytes::new(), 0), None).unwrap();
    assert_ne!(anew.stateid, one.stateid);
    assert_eq!(of.free(&one.stateid, B), Err(Status::BadStateid));
    assert_eq!(of.free(&one.stateid, A), Ok(()));
    assert_eq!(
        (of.flags(A), of.has_lost(A), of.find(&one.stateid, A, None).err()),
        (0, false, Some(Status::BadStateid))
    );
    assert!(of.find(&other.stateid, A, None).is_ok() && of.find(&anew.stateid, A, None).is_ok());
    check(&of);
}

/// A conflict is met while the OPEN is under way that is being given the file: there is nobody to call yet.
#[test]
fn what_is_in_the_way_before_it_was_given_is_not_given() {
    let of = delegations();
    let reserving = reserved(&of, A, 1).unwrap();
    assert_eq!(of.recall(A, &file(1), NOW), Recalled::Known);
    assert!(!of.has_recalled());
    let ending = reserving.granted((Bytes::new(), 0), None).expect_err("it is in somebody's way");
    assert_eq!((of.recall(A, &file(1), NOW), of.orphan(A, file(1)).is_none()), (Recalled::Known, true));
    ending.returned();
    assert_eq!(of.recall(A, &file(1), NOW), Recalled::Nobodys);
    // Who finds one that nobody has been told of keeps others from it while he gives it back.
    let orphan = of.orphan(A, file(1)).unwrap().ending();
    assert_eq!(of.reserve(READ, (opener(A), file(1)), None, NOW + LEASE).err(), Some(WhyNone::NotWanted));
    orphan.returned();
    check(&of);
}

#[test]
fn one_that_was_claimed_again_is_asked_for_with_its_grant() {
    let of = delegations();
    let one = reserved(&of, A, 1).unwrap().granted((Bytes::new(), 0), Some(NOW)).unwrap();
    assert!(of.has_recalled() && of.to_call(NOW + LEASE).is_empty(), "its client was told");
    assert_eq!(of.overdue(NOW + LEASE + Duration::from_millis(1)), vec![one.number]);
    check(&of);
}

#[test]
fn it_ends_with_its_client_and_with_its_mount() {
    let of = delegations();
    let (one, other) = (given(&of, A, 1), given(&of, B, 1));
    let elsewhere = of.reserve(READ, (opener(A), file_on(2, 1)), None, NOW).unwrap();
    let elsewhere = elsewhere.granted((Bytes::new(), 0), None).unwrap();
    let pending = of.reserve(READ, (opener(B), file_on(2, 5)), None, NOW).unwrap();
    assert_eq!(of.mounts().len(), 2);
    assert_eq!(of.revoke_of(&|mounted| mounted.mount == MountNumber(2)), vec![A]);
    assert_eq!(of.find(&elsewhere.stateid, A, None).err(), Some(Status::AdminRevoked));
    assert_eq!((of.flags(A), of.has_lost(A)), (0x20, false));
    let ending = pending.granted((Bytes::new(), 0), None).expect_err("its mount is over");
    ending.returned();
    check(&of);
    // Of what was revoked nothing is below.
    of.recall(A, &file(1), NOW);
    assert_eq!(of.forget_client(A), vec![file(1)]);
    assert_eq!((of.counts(), of.find(&one.stateid, A, None).err()), ((1, 0, 0), Some(Status::BadStateid)));
    assert!(of.find(&other.stateid, B, None).is_ok() && !of.has_recalled());
    check(&of);
}

/// Somebody goes while his OPEN is under way.
#[test]
fn who_has_gone_is_given_nothing() {
    let of = delegations();
    let reserving = reserved(&of, A, 1).unwrap();
    assert_eq!(of.forget_client(A), vec![file(1)]);
    let ending = reserving.granted((Bytes::new(), 0), None).expect_err("nobody has it");
    assert_eq!((ending.client(), ending.file()), (A, &file(1)));
    ending.returned();
    assert_eq!(of.counts(), (0, 0, 0));
    check(&of);
}

#[test]
fn who_has_nearly_all_is_asked_for_what_it_does_not_use() {
    let of = delegations();
    let give = |client: ClientId, count: usize| (0..count as u64).for_each(|nth| _ = given(&of, client, nth));
    give(A, DELEGATIONS_OF_CLIENT_MANY);
    assert_eq!(of.too_many(A, NOW), None);
    given(&of, A, u64::MAX);
    assert_eq!([A, B].map(|client| of.too_many(client, NOW)), [Some((A, 7371)), None]);
    let later = NOW + Duration::from_secs(10);
    assert_eq!([NOW, later, later].map(|now| of.too_many(A, now)), [None, Some((A, 7371)), None]);
    // Where all together have as many it is whose they are, and not who comes; the next time it is the next one.
    let [c, d, e] = [17, 18, 19].map(ClientId);
    [(c, 14_000), (d, 15_000), (e, DELEGATIONS_MANY - 14_743 - 29_000)]
        .into_iter()
        .for_each(|(of, count)| give(of, count));
    assert_eq!(of.too_many(B, later), None);
    given(&of, B, 1);
    let seconds = [1, 1, 2, 3, 4].map(Duration::from_secs);
    let asked = seconds.map(|second| of.too_many(B, later + second));
    assert_eq!(asked, [Some((e, 7617)), None, Some((d, 7500)), Some((c, 7000)), None], "B has one");
    check(&of);
}

/// Another pool counts what is delegated in it by itself, and what was taken counts above alone: so the file system may give one of which there is no room here.
#[test]
fn what_nobody_was_told_of_is_given_back_also_where_there_is_no_room() {
    let of = delegations();
    for nth in 0..DELEGATIONS_OF_CLIENT_MAX as u64 {
        given(&of, A, nth);
    }
    let file = file(DELEGATIONS_OF_CLIENT_MAX as u64);
    assert_eq!(of.reserve(READ, (opener(A), file), None, NOW).err(), Some(WhyNone::Resource));
    assert_eq!(of.recall(A, &file, NOW), Recalled::Nobodys);
    let orphan = of.orphan(A, file).expect("or whoever it is in the way of is kept out for ever");
    assert!(of.orphan(A, file).is_none(), "one at a time");
    orphan.ending().returned();
    assert_eq!(of.count_of(A), DELEGATIONS_OF_CLIENT_MAX);
    check(&of);
}

#[test]
fn one_is_in_the_way_of_another_owner_from_its_reservation_on() {
    let of = delegations();
    let another = OwnerKey { name: [1; 16], ..opener(A) };
    let (reads, writes) = (Share::only(Access::READ), Share::only(Access::WRITE));
    let in_the_way = |who, share| of.is_in_the_way_of(who, &file(1), share);
    assert!(!in_the_way(another, writes), "there is none");
    let reserving = of.reserve(Keeps { kind: Delegation::Write, ..READ }, (opener(A), file(1)), None, NOW).unwrap();
    assert!(in_the_way(another, reads) && in_the_way(another, writes), "the client may be told in a moment");
    assert!(!in_the_way(opener(A), writes) && !in_the_way(opener(B), writes), "the file system knows of others");
    assert!(!of.is_in_the_way_of(another, &file(2), writes));
    drop(reserving);
    assert!(!in_the_way(another, writes));
    let _ = given(&of, A, 1);
    assert!(!in_the_way(another, reads) && in_the_way(another, writes));
    assert!(in_the_way(another, Share { access: Access::READ, deny: Deny::WRITE }));
}
