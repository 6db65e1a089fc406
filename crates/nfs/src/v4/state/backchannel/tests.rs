use std::sync::Arc;

use tally_base::{DatasetId, Generation, ObjectId, PoolGuid};
use tally_vfs::{MountNumber, ObjectRef};

use super::*;
use crate::v4::state::{ClientId, Mounted};

fn errand() -> Errand {
    let of = Mounted { pool: PoolGuid(1), dataset: DatasetId(1), mount: MountNumber(1) };
    let file = FileId { of, object: ObjectRef { id: ObjectId(2), generation: Generation(1) } };
    Errand::NotifyLock(LockOwner { client: ClientId(1), name: Arc::from(&b"owner"[..]) }, file)
}

fn no_operation() -> Callback {
    Callback::new(Bytes::new())
}

fn channel(slots: u32) -> Channel {
    Channel { request_bytes: 4096, reply_bytes: 4096, cached_bytes: 0, operations: 2, slots }
}

fn back(slots: u32) -> BackChannel {
    let terms = Terms { minor: 1, program: 7, caller: Some(Caller::Nobody) };
    BackChannel::new(SessionId([3; 16]), terms, granted(channel(slots)))
}

fn call(back: &mut BackChannel) -> CallId {
    back.call(errand(), Callback::new(Bytes::from_static(b"op")), &[10, 20]).expect("a slot is free").id
}

fn place(back: &mut BackChannel) -> (u32, u32) {
    let (_, slot, sequence) = call(back).place();
    (slot, sequence)
}

#[test]
fn each_way_out_of_a_call() {
    // What happens; whether the errand comes back; where the next call is.
    type Happens = fn(&mut BackChannel, &CallId) -> Option<Errand>;
    let cases: [(&str, Happens, (u32, u32)); 6] = [
        ("carried out", |back, id| back.returned(id, Verdict::Done), (0, 2)),
        ("refused", |back, id| back.returned(id, Verdict::NotBegun), (0, 1)),
        ("nonsense", |back, id| back.returned(id, Verdict::OutOfStep), (1, 1)),
        ("too late", |back, id| back.overdue(id), (1, 1)),
        ("its connection is closed", |back, id| gone_of(back.lost(id, true, &[])), (1, 1)),
        ("it was not sent", |back, id| gone_of(back.lost(id, false, &[])), (0, 1)),
    ];
    for (what, happens, next) in cases {
        let mut back = back(2);
        let id = call(&mut back);
        assert_eq!(happens(&mut back, &id), Some(errand()), "{what}");
        assert_eq!(place(&mut back), next, "{what}");
        assert_eq!(back.returned(&id, Verdict::Done).or(back.overdue(&id)), None, "{what}: told once");
    }
}

fn gone_of(lost: Lost) -> Option<Errand> {
    match lost {
        Lost::Gone(errand) | Lost::Unsent(errand) => Some(errand),
        Lost::Again(_) | Lost::Known => None,
    }
}

#[test]
fn the_fourth_slot_of_which_nothing_is_known_is_the_last() {
    let mut back = back(64);
    let ids: Vec<_> = (0..4).map(|_| call(&mut back)).collect();
    assert_eq!(back.call(errand(), no_operation(), &[10]), None, "four are under way");
    for (nth, id) in ids.iter().enumerate() {
        assert!(!back.is_out_of_step(), "{nth}");
        assert_eq!(back.overdue(id), Some(errand()));
    }
    assert!(back.is_out_of_step());
    assert_eq!(back.call(errand(), no_operation(), &[10]), None);
    assert_eq!(back.returned(&ids[2], Verdict::Done), None, "nothing comes of that any more");
    assert!(!back.is_out_of_step());
    assert_eq!(place(&mut back), (2, 2), "but the slot is known");
}

#[test]
fn a_call_goes_over_another_connection_and_not_in_circles() {
    let mut back = back(1);
    let mut id = call(&mut back);
    for attempt in 1..4 {
        let Lost::Again(calling) = back.lost(&id, false, &[10, 20]) else { panic!("{attempt}") };
        assert_eq!(calling.id.place(), id.place());
        assert_eq!(calling.connection, if attempt % 2 == 1 { 20 } else { 10 });
        assert_eq!(back.lost(&id, true, &[10, 20]), Lost::Known, "what is told of the attempt before");
        assert_eq!(back.returned(&id, Verdict::Done), None);
        assert_eq!(back.overdue(&id), None);
        id = calling.id;
    }
    assert_eq!(back.lost(&id, false, &[10, 20]), Lost::Unsent(errand()));
    assert_eq!(place(&mut back), (0, 1), "it was never sent");
}

#[test]
fn one_that_answers_late_is_called_over_another_connection() {
    let mut back = back(4);
    let first = back.call(errand(), no_operation(), &[10, 20]).unwrap();
    assert_eq!(first.connection, 10);
    back.overdue(&first.id);
    assert_eq!(back.call(errand(), no_operation(), &[10, 20]).unwrap().connection, 20);
    assert_eq!(back.call(errand(), no_operation(), &[]), None);
}

#[test]
fn what_a_client_does_not_take_is_not_called() {
    let terms = Terms { minor: 1, program: 7, caller: None };
    let is_called =
        |mut back: BackChannel, bytes: usize| back.call(errand(), Callback::new(vec![0; bytes].into()), &[1]).is_some();
    assert!(is_called(back(1), 1000) && !is_called(back(1), 4000) && !is_called(back(0), 10));
    assert!(!is_called(BackChannel::new(SessionId([3; 16]), terms.clone(), channel(1)), 10), "nobody that we can be");
    let one = Channel { operations: 1, ..channel(1) };
    assert!(!is_called(BackChannel::new(SessionId([3; 16]), Terms { caller: Some(Caller::Nobody), ..terms }, one), 10));
}

#[test]
fn another_program_and_another_caller() {
    let mut back = back(1);
    back.change(8, None);
    assert_eq!((back.terms.program, back.terms.caller.clone()), (8, Some(Caller::Nobody)));
    back.change(9, Some(Caller::Unix(Bytes::from_static(b"who"))));
    assert_eq!(call(&mut back).place().2, 1);
    assert_eq!(back.calling(0).unwrap().terms.caller, Some(Caller::Unix(Bytes::from_static(b"who"))));
}

/// A call was sent, its connection lost, and over another one its client, which was at it, said to wait. Its sequence was used for the next errand, which was told what
/// had come of the first one.
#[test]
fn what_may_have_been_begun_over_a_lost_connection_is_in_doubt() {
    let mut back = back(2);
    let id = call(&mut back);
    let Lost::Again(calling) = back.lost(&id, true, &[20]) else { panic!("there is another one") };
    assert_eq!(back.returned(&calling.id, Verdict::NotBegun), Some(errand()));
    assert_eq!(place(&mut back), (1, 1), "nobody knows of the first slot");
}
