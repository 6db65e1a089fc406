use tally_base::{DatasetId, Generation, ObjectId, PoolGuid};
use tally_vfs::{ClientNumber, MountNumber, ObjectRef, OwnerNumber};

use super::*;
use crate::v4::state::{LEASE_DEFAULT as LEASE, Mounted};

const NOW: Duration = Duration::from_secs(1000);

fn file(id: u64) -> FileId {
    let of = Mounted { pool: PoolGuid(1), dataset: DatasetId(1), mount: MountNumber(1) };
    FileId { of, object: ObjectRef { id: ObjectId(id), generation: Generation(1) } }
}

/// Of one client's owner, for writing, of file 1.
fn wait(client: u64, name: &str, (first, last): (u64, u64)) -> LockWait {
    LockWait {
        owner: LockOwner { client: ClientId(client), name: name.as_bytes().into() },
        below: Holder { client: ClientNumber(client), owner: OwnerNumber(1) },
        session: SessionId([client as u8; 16]),
        file: file(1),
        handle: Bytes::new(),
        range: Range::between(first, last).unwrap(),
        kind: Kind::Write,
    }
}

fn waiting(waiters: &Waiters, now: Duration) -> Vec<LockWait> {
    waiters.queue(&file(1), None, now).waiting
}

#[test]
fn who_asks_again_keeps_his_place_and_who_asks_for_something_else_does_not() {
    let waiters = Waiters::new(LEASE);
    let (first, second) = (wait(1, "a", (0, 9)), wait(2, "b", (0, 9)));
    assert!(waiters.is_empty() && waiters.join(first.clone(), NOW) && waiters.join(second.clone(), NOW));
    assert!(waiters.join(first.clone(), NOW));
    assert_eq!(waiting(&waiters, NOW), [first.clone(), second.clone()]);
    let other = wait(1, "a", (5, 9));
    assert!(waiters.join(other.clone(), NOW));
    assert_eq!(waiting(&waiters, NOW), [second.clone(), other.clone()]);
    let elsewhere = LockWait { file: file(2), ..other };
    assert!(waiters.join(elsewhere.clone(), NOW));
    assert_eq!((waiting(&waiters, NOW), waiters.count()), (vec![second], 2));
    assert_eq!(waiters.wait_of(&elsewhere.owner, NOW), Some(elsewhere));
}

#[test]
fn who_is_told_may_come_for_three_seconds() {
    let waiters = Waiters::new(LEASE);
    let one = wait(1, "a", (0, 9));
    assert!(waiters.join(one.clone(), NOW) && waiters.tell(&one, NOW) && !waiters.tell(&one, NOW));
    let queued = waiters.queue(&file(1), None, NOW);
    assert_eq!((queued.told.len(), queued.waiting.len()), (1, 0));
    waiters.has_not_told(&one);
    assert!(waiters.tell(&one, NOW));
    waiters.forget_late(NOW + COME);
    assert_eq!(waiters.count(), 1);
    // Somebody was faster: he waits where he was.
    assert!(waiters.join(one.clone(), NOW + COME));
    assert_eq!(waiting(&waiters, NOW + COME), std::slice::from_ref(&one));
    assert!(waiters.tell(&one, NOW + COME));
    waiters.forget_late(NOW + 2 * COME + Duration::from_nanos(1));
    assert!(waiters.is_empty() && waiters.files().is_empty());
    assert!(!waiters.tell(&one, NOW));
}

#[test]
fn who_is_not_heard_for_a_lease_is_gone_and_counts_for_deadlocks_as_long_as_he_is_fresh() {
    let waiters = Waiters::new(LEASE);
    let one = wait(1, "a", (0, 9));
    assert!(waiters.join(one.clone(), NOW));
    assert!(waiters.wait_of(&one.owner, NOW + FRESH).is_some());
    assert!(waiters.wait_of(&one.owner, NOW + FRESH + Duration::from_nanos(1)).is_none());
    assert_eq!(waiting(&waiters, NOW + LEASE).len(), 1);
    assert!(waiting(&waiters, NOW + LEASE + Duration::from_nanos(1)).is_empty() && waiters.is_empty());
}

#[test]
fn only_those_are_looked_at_whose_range_something_of_was_freed() {
    let waiters = Waiters::new(LEASE);
    let all = [wait(1, "a", (0, 4)), wait(1, "b", (5, 9)), wait(1, "c", (9, 20))];
    all.iter().for_each(|wait| assert!(waiters.join(wait.clone(), NOW)));
    let freed = |first, last| waiters.queue(&file(1), Range::between(first, last), NOW).waiting;
    assert_eq!((freed(4, 4), freed(21, 30)), (vec![all[0].clone()], vec![]));
    assert_eq!(freed(9, u64::MAX), all[1..]);
    let reader = LockWait { kind: Kind::Read, ..all[0].clone() };
    assert!(all[0].conflicts_with(&all[0]) && !all[0].conflicts_with(&all[1]));
    assert!(reader.conflicts_with(&all[0]) && !reader.conflicts_with(&reader));
}

#[test]
fn waits_end_with_the_open_the_client_the_file() {
    let waiters = Waiters::new(LEASE);
    let other_open =
        LockWait { below: Holder { owner: OwnerNumber(2), ..wait(1, "b", (0, 9)).below }, ..wait(1, "b", (0, 9)) };
    let all = [wait(1, "a", (0, 9)), other_open, wait(2, "a", (0, 9)), wait(3, "a", (0, 9))];
    all.iter().for_each(|wait| assert!(waiters.join(wait.clone(), NOW)));
    waiters.close(&file(1), all[0].below);
    assert_eq!(waiting(&waiters, NOW), all[1..]);
    waiters.forget_client(ClientId(2));
    assert_eq!(waiting(&waiters, NOW), [all[1].clone(), all[3].clone()]);
    waiters.leave(&all[3].owner);
    assert_eq!(waiters.count(), 1);
    waiters.forget_file(&file(1));
    assert!(waiters.is_empty());
}

#[test]
fn a_file_has_as_many_as_it_may_and_so_has_a_client() {
    let waiters = Waiters::new(LEASE);
    let of = |client: u64, nth: usize, id| LockWait { file: file(id), ..wait(client, &nth.to_string(), (0, 9)) };
    (0..WAITERS_OF_FILE_MAX).for_each(|nth| assert!(waiters.join(of(nth as u64, nth, 1), NOW)));
    assert!(!waiters.join(of(5000, 0, 1), NOW) && waiters.join(of(5000, 0, 2), NOW));
    (1..WAITERS_OF_CLIENT_MAX).for_each(|nth| assert!(waiters.join(of(5000, nth, 2 + nth as u64), NOW)));
    assert!(!waiters.join(of(5000, 5000, 5000), NOW) && waiters.join(of(5001, 0, 5000), NOW));
    assert_eq!(waiters.count(), WAITERS_OF_FILE_MAX + WAITERS_OF_CLIENT_MAX + 1);
    waiters.leave(&of(3, 3, 1).owner);
    assert!(waiters.join(of(5002, 1, 1), NOW), "there is room again");
}

/// A client streamed over its one connection, so that nothing could be sent: its owner lost his place, and slept beside a range that was free for as long as he
/// believed that he would be told.
#[test]
fn who_could_not_be_told_waits_behind_the_others() {
    let waiters = Waiters::new(LEASE);
    let (first, second) = (wait(1, "a", (0, 9)), wait(2, "b", (0, 9)));
    assert!(waiters.join(first.clone(), NOW) && waiters.join(second.clone(), NOW) && waiters.tell(&first, NOW));
    waiters.go_behind(&first.owner, &first.file);
    assert_eq!(waiting(&waiters, NOW), [second.clone(), first.clone()]);
    waiters.go_behind(&first.owner, &file(2));
    waiters.go_behind(&wait(3, "c", (0, 9)).owner, &first.file);
    assert_eq!(waiting(&waiters, NOW), [second.clone(), first.clone()]);
}

/// What a client says of a call that is long over took the place in which its owner waited for another range.
#[test]
fn a_late_answer_takes_nobodys_next_place() {
    let waiters = Waiters::new(LEASE);
    let (first, next) = (wait(1, "a", (0, 9)), wait(1, "a", (50, 59)));
    assert!(waiters.join(first.clone(), NOW) && waiters.tell(&first, NOW) && waiters.join(next.clone(), NOW));
    waiters.leave_if_told(&first.owner, &first.file);
    assert_eq!(waiting(&waiters, NOW), std::slice::from_ref(&next));
    assert!(waiters.tell(&next, NOW));
    waiters.leave_if_told(&next.owner, &next.file);
    assert!(waiters.is_empty());
}

/// What nobody was shown: who waits, and since when he does, however often he asks.
#[test]
fn who_waits_is_shown_with_the_time_he_began() {
    let waiters = Waiters::new(LEASE);
    let all = Which { client: None, most: usize::MAX };
    assert_eq!(waiters.seen(all), (Vec::new(), 0));
    let later = NOW + Duration::from_secs(20);
    let (first, second) = (wait(1, "a", (0, 9)), wait(2, "b", (0, 9)));
    assert!(
        waiters.join(first.clone(), NOW) && waiters.join(second.clone(), later) && waiters.join(first.clone(), later)
    );
    assert_eq!(waiters.seen(all), (vec![(first.clone(), NOW), (second.clone(), later)], 0));
    assert_eq!(waiters.seen(Which { most: 1, ..all }), (vec![(first, NOW)], 1));
    let of_second = Which { client: Some(ClientId(2)), ..all };
    assert_eq!(waiters.seen(of_second), (vec![(second, later)], 0));
    // He wants something else, which he has not waited for.
    let other = wait(2, "b", (5, 9));
    assert!(waiters.join(other.clone(), later + COME));
    assert_eq!(waiters.seen(of_second), (vec![(other, later + COME)], 0));
}
