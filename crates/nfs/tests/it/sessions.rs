//! Version 4.1 and 4.2: what a session is asked in, and what it keeps.

use std::sync::atomic::Ordering::SeqCst;

use crate::support::House;
use crate::support::called::Called;
use crate::support::compound::{Op, get_attr, lookup, make, op, put_root, read, remove, status_of, write};
use crate::support::desk::bytes_of;
use crate::support::gated::Promises;
use crate::support::scene::{fate, read_reply};
use crate::support::session::{Session, create_session, exchange_id};
use tally_base::Broken;
use tally_nfs::service::Step;
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    DestroyClientid4Args, DestroySession4Args, FATTR4_TYPE, NfsArgop4, NfsResop4, Nfsstat4, ReclaimComplete4Args,
    SecinfoStyle4, Sequence4Res,
};

const OK: Nfsstat4 = Nfs4Ok;

#[test]
fn a_request_of_a_session_is_carried_out_once_whatever_its_xid() {
    let mut desk = Session::new();
    let ops = [desk.sequence(1, true), desk.tank(), make(b"a"), remove(b"none")];
    let first = desk.run(&ops);
    assert_eq!(first.status, Nfs4ErrNoent);
    let NfsResop4::OpSequence(Sequence4Res::Nfs4Ok(told)) = &first.resarray[0] else { panic!("{:?}", first.resarray) };
    assert_eq!((told.sr_sessionid, told.sr_sequenceid, told.sr_slotid), (desk.session, 1, 0));
    assert_eq!((told.sr_highest_slotid, told.sr_target_highest_slotid, told.sr_status_flags), (3, 3, 0));
    let changes = desk.scene.changes();
    assert_eq!(desk.run(&ops), first);
    assert_eq!(desk.scene.changes(), changes);
    let other = [desk.sequence(1, true), desk.tank(), make(b"b")];
    assert_eq!(desk.status(&other), Nfs4ErrSeqFalseRetry);
    let skips = [desk.sequence(3, true), desk.tank()];
    assert_eq!(desk.status(&skips), Nfs4ErrSeqMisordered);
    assert!(!desk.scene.has(b"b"));
    let next = [desk.sequence(2, false), desk.tank(), make(b"b")];
    assert_eq!(desk.status(&next), OK);
}

/// Rules V3 and V8: what was told is told again, cut where a promise broke.
#[test]
fn a_slot_keeps_what_was_told_and_is_held_until_then() {
    let mut desk = Session::new();
    desk.scene.hold();
    let ops = [desk.sequence(1, true), desk.tank(), make(b"a"), desk.tank(), make(b"b")];
    let (mut job, step) = desk.scene.begin(10, &ops);
    let told = fate(step);
    assert_eq!(desk.status(&ops), Nfs4ErrDelay, "its answer is on its way");
    let next = [desk.sequence(2, true), desk.tank()];
    assert_eq!(desk.status(&next), Nfs4ErrSeqMisordered, "it is not answered");
    desk.scene.exports.tank.keep_one();
    desk.scene.exports.tank.break_one();
    let reply = desk.scene.service.reply_after_wait(&mut job, told.try_recv().unwrap());
    let first = read_reply(&reply, &ops);
    assert_eq!((first.status, first.resarray.len()), (Nfs4ErrIo, 5));
    assert_eq!(desk.run(&ops), first);
    assert_eq!(desk.status(&next), OK);
}

/// Rules V4: a slot stayed in use for ever.
#[test]
fn a_slot_is_free_again_whatever_becomes_of_its_request() {
    let mut desk = Session::new();
    let file = desk.scene.file(b"file");
    let panics = [desk.sequence(1, true), desk.scene.put(file), write(0, b"x")];
    desk.scene.exports.tank.panic_at_getattr.store(true, SeqCst);
    assert_eq!(desk.status(&panics), Nfs4ErrServerfault);
    desk.scene.exports.tank.panic_at_getattr.store(false, SeqCst);
    assert_eq!(desk.status(&panics), Nfs4ErrServerfault, "it is not carried out again");
    // One that nobody will answer: its connection is gone, and so is the job.
    desk.scene.hold();
    let dropped = [desk.sequence(2, true), desk.tank(), make(b"a")];
    let (job, step) = desk.scene.begin(10, &dropped);
    drop((job, step));
    let reply = desk.run(&dropped);
    assert_eq!((reply.status, reply.resarray.len()), (Nfs4ErrServerfault, 2));
    let next = [desk.sequence(3, true), desk.tank()];
    assert_eq!(desk.status(&next), OK);
}

/// Its pool was suspended, and serves again: nobody knows what of the compound was carried out, and it is not carried out again.
#[test]
fn a_compound_in_doubt_is_not_carried_out_again() {
    let desk = Session::new();
    desk.scene.hold();
    let ops = [desk.sequence(1, true), desk.tank(), make(b"a")];
    let (mut job, step) = desk.scene.begin(10, &ops);
    drop(fate(step));
    desk.scene.exports.tank.suspended.store(true, SeqCst);
    assert!(desk.scene.service.stays_in_doubt(&mut job, Some(&Err(Broken("the pool is suspended".into())))));
    desk.scene.exports.tank.suspended.store(false, SeqCst);
    let changes = desk.scene.changes();
    let step = desk.scene.service.run(&mut job);
    let reply = desk.scene.end(&mut job, step, &ops);
    assert_eq!((reply.status, reply.resarray.len(), desk.scene.changes()), (Nfs4ErrServerfault, 2, changes));
}

/// Rules V2 in a session: the slot is held over the wait.
#[test]
fn a_compound_goes_on_in_its_slot() {
    let mut desk = Session::new();
    desk.scene.exports.tank.throttle_behind(1);
    let ops = [desk.sequence(1, true), desk.tank(), make(b"a"), desk.tank(), make(b"b")];
    let (mut job, step) = desk.scene.begin(10, &ops);
    assert!(matches!(step, Step::Again(_)));
    assert_eq!(desk.status(&ops), Nfs4ErrDelay);
    let Step::Reply(reply) = desk.scene.service.run(&mut job) else { panic!("it waits for nothing") };
    let first = read_reply(&reply, &ops);
    assert_eq!(first.status, OK);
    assert_eq!(desk.run(&ops), first);
    assert!(!bytes_of(&reply).is_empty());
}

/// Rules V2: whatever becomes of the connection. Of a request that had waited for room, and whose connection broke meanwhile, nothing was done, and its client was told SERVERFAULT in its slot:
/// Linux drops what it was to write, and its program is told of an error.
#[test]
fn who_waits_for_room_may_lose_his_connection() {
    let mut desk = Session::new();
    let file = desk.scene.file(b"file");
    desk.scene.exports.tank.throttle.store(1, SeqCst);
    let ops = [desk.sequence(1, true), desk.scene.put(file), write(0, b"some bytes")];
    let (mut job, step) = desk.scene.begin(10, &ops);
    assert!(matches!(step, Step::Again(_)));
    // As a worker does that finds its connection closed.
    let _nobody_is_there = desk.scene.service.abandon(&mut job);
    drop((job, step));
    let told = desk.run(&ops);
    assert!(matches!(told.status, OK | Nfs4ErrDelay), "nothing was done: {told:?}");
    // What was done before the wait is durable, and is told.
    desk.scene.exports.tank.throttle_behind(1);
    let ops = [desk.sequence(2, true), desk.tank(), make(b"a"), desk.tank(), make(b"b")];
    let (mut job, step) = desk.scene.begin(11, &ops);
    assert!(matches!(step, Step::Again(_)));
    let _nobody_is_there = desk.scene.service.abandon(&mut job);
    drop((job, step));
    assert!(desk.scene.has(b"a"));
    let told = desk.run(&ops);
    assert!(told.resarray.len() == 5 && matches!(told.status, OK | Nfs4ErrDelay), "it has made a directory: {told:?}");
}

/// The same over sockets.
#[test]
fn a_connection_that_breaks_while_its_request_waits_for_room_costs_nothing() {
    let house = House::speaking_4();
    let (tank, mut a) = (&house.exports.tank, Called::new(&house, b"a"));
    // There is room when the test says so.
    *tank.promises.lock() = Promises::ByHand;
    tank.throttle.store(1, SeqCst);
    let ops = [put_root(), lookup(b"tank"), make(b"a")];
    let before = a.next;
    a.ask(&ops);
    tank.until_held(1);
    let mut again = a.over(&house);
    drop(a);
    while house.server.stats().connections.load(SeqCst) > 1 {
        std::thread::yield_now();
    }
    *tank.promises.lock() = Promises::Ready;
    tank.keep_one();
    let told = loop {
        again.next = before;
        let told = again.run(&ops);
        // Its first transmission is under way.
        if told.status != Nfs4ErrDelay || told.resarray.len() > 1 {
            break told;
        }
    };
    assert!(matches!(told.status, OK | Nfs4ErrDelay), "nothing was done: {told:?}");
}

/// Rules V16: the directory was made, and its answer could not be kept.
#[test]
fn what_cannot_be_kept_is_not_done() {
    let mut desk = Session::new();
    let file = desk.scene.file(b"file");
    let fill = [desk.scene.put(file), write(0, &[7; 4096])];
    assert_eq!(desk.status(&[vec![desk.sequence(1, false)], fill.to_vec()].concat()), OK);
    let all = || get_attr(&(0..48).collect::<Vec<_>>());
    let ops = [desk.sequence(2, true), desk.tank(), all(), all(), make(b"a")];
    let reply = desk.run(&ops);
    assert_eq!((reply.status, reply.resarray.len()), (Nfs4ErrRepTooBigToCache, 5));
    assert!(!desk.scene.has(b"a"));
    // Who does not want it kept gets it, and is told so if it comes again.
    let ops = [desk.sequence(3, false), desk.scene.put(file), read(0, 0, 4096), desk.tank(), make(b"a")];
    assert_eq!(desk.status(&ops), OK);
    let again = desk.run(&ops);
    assert_eq!((again.status, again.resarray.len()), (Nfs4ErrRetryUncachedRep, 2));
    assert_eq!(status_of(&again.resarray[0]), OK);
}

#[test]
fn wrong_places_are_told_apart() {
    let mut desk = Session::new();
    let (client, session) = (desk.client, desk.session);
    let destroy = || op(&NfsArgop4::OpDestroySession(DestroySession4Args { dsa_sessionid: session }));
    let destroy_client = || op(&NfsArgop4::OpDestroyClientid(DestroyClientid4Args { dca_clientid: client }));
    let complete = || op(&NfsArgop4::OpReclaimComplete(ReclaimComplete4Args { rca_one_fs: false }));
    let unnamed = |style| op(&NfsArgop4::OpSecinfoNoName(style));
    let renew = op(&NfsArgop4::random_arm(tally_wire::nfs4::NfsOpnum4::OpRenew, &mut tally_wire::Dice::new(1)));
    let of_type = || get_attr(&[FATTR4_TYPE]);
    let on = |sequence, ops: &[Op]| [&[desk.sequence(sequence, false)], ops].concat();
    let taken = [put_root(), unnamed(SecinfoStyle4::SecinfoStyle4CurrentFh), of_type()];
    let cases: Vec<(&str, Vec<Op>, Nfsstat4)> = vec![
        ("no session", vec![put_root()], Nfs4ErrOpNotInSession),
        ("two that stand alone", vec![exchange_id(b"b"), put_root()], Nfs4ErrNotOnlyOp),
        ("a session twice", on(1, &[put_root(), desk.sequence(9, false)]), Nfs4ErrSequencePos),
        ("a slot that is not", vec![desk.sequence_on(4, 1, false)], Nfs4ErrBadslot),
        ("nine operations", on(2, &vec![put_root(); 8]), Nfs4ErrTooManyOps),
        ("a long request", on(2, &[write(0, &[0; 8192])]), Nfs4ErrReqTooBig),
        ("eight, as that took no slot", on(2, &vec![put_root(); 7]), OK),
        ("what sessions replace", on(3, &[renew]), Nfs4ErrNotsupp),
        ("itself, and more", on(4, &[destroy(), put_root()]), Nfs4ErrNotOnlyOp),
        ("a client with a session", vec![destroy_client()], Nfs4ErrClientidBusy),
        ("all is reclaimed", on(5, &[complete()]), OK),
        ("twice", on(6, &[complete()]), Nfs4ErrCompleteAlready),
        ("a handle that was taken", on(7, &taken), Nfs4ErrNofilehandle),
        ("itself", on(8, &[destroy()]), OK),
        ("a session that is gone", on(9, &[]), Nfs4ErrBadsession),
        ("a client without one", vec![destroy_client()], OK),
        ("a client that is gone", vec![create_session(client, 2)], Nfs4ErrStaleClientid),
    ];
    for (what, ops, expected) in cases {
        assert_eq!(desk.status(&ops), expected, "{what}");
    }
}

/// A promise that breaks in a compound of one operation.
#[test]
fn a_lone_operation_that_is_not_durable_is_an_error() {
    let desk = Session::new();
    desk.scene.hold();
    let ops = [desk.sequence(1, true), desk.tank(), make(b"a")];
    let (mut job, step) = desk.scene.begin(10, &ops);
    drop(fate(step));
    let reply = desk.scene.service.reply_after_wait(&mut job, Err(Broken("the disk is gone".into())));
    assert_eq!(read_reply(&reply, &ops).status, Nfs4ErrIo);
}
