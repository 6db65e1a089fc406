//! Version 4: compounds that change something. What they wait for, where they go on, and what their repetitions are told.

use std::sync::atomic::Ordering::SeqCst;

use crate::support::compound::{
    Op, changes, commit, create, link, lookup, make, op, put, put_root, read, remove, rename, save, set, write,
};
use crate::support::gated::Promises;
use crate::support::scene::{Scene, fate, read_reply};
use crate::support::{KEY, POOL};
use tally_base::{Broken, Fate, FileTime};
use tally_nfs::handle::Handle;
use tally_nfs::service::Step;
use tally_vfs::{Attributes, Content, Cred, Identity, OpCtx, Stability};
use tally_wire::bitmap;
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Commit4Res, Create4Res, Createtype4, FATTR4_MODE, Fattr4, Fattr4Value, Getfh4Res, NfsArgop4, NfsFtype4, NfsResop4,
    Nfsstat4, Nfstime4, Settime4, StableHow4, Write4Res,
};

const OK: Nfsstat4 = Nfsstat4::Nfs4Ok;

#[test]
fn names_are_made_moved_and_removed_and_their_directory_changes_with_each() {
    let scene = Scene::new();
    let file = scene.file(b"file");
    let tank = || scene.put_tank();
    let ops = [
        [tank(), make(b"a"), tank(), make(b"b"), tank(), save(), rename(b"b", b"c"), remove(b"c")].to_vec(),
        [scene.put(file), save(), tank(), link(b"other")].to_vec(),
    ]
    .concat();
    let reply = scene.run(1, &ops);
    assert_eq!(reply.status, OK);
    let NfsResop4::OpCreate(Create4Res::Nfs4Ok(made)) = &reply.resarray[1] else { panic!("{:?}", reply.resarray) };
    assert_eq!(made.attrset, bitmap(&[FATTR4_MODE]));
    let mut changes = changes(&reply);
    assert_eq!(changes.len(), 6);
    let root = scene.exports.tank.getattr(scene.exports.tank.root()).unwrap();
    assert_eq!(changes[5].1, root.change.0);
    // A RENAME in one directory tells of it twice.
    assert_eq!(changes[2], changes[3]);
    changes.remove(3);
    assert!(changes.windows(2).all(|pair| pair[0].0 < pair[0].1 && pair[0].1 == pair[1].0), "{changes:?}");
    assert!(scene.has(b"a") && scene.has(b"other") && !scene.has(b"b") && !scene.has(b"c"));
}

#[test]
fn content_and_attributes_are_set() {
    let scene = Scene::new();
    let file = scene.file(b"file");
    let attributes = Fattr4::of(&[
        Fattr4Value::Fattr4Size(3),
        Fattr4Value::Fattr4Mode(0o600),
        Fattr4Value::Fattr4Owner(b"1000".as_slice().into()),
        Fattr4Value::Fattr4OwnerGroup(b"100".as_slice().into()),
        Fattr4Value::Fattr4TimeModifySet(Settime4::SetToClientTime4(Nfstime4 { seconds: 5, nseconds: 6 })),
    ]);
    let ops = [scene.put(file), write(0, b"some bytes"), commit(), set(attributes.clone())];
    let reply = scene.run(1, &ops);
    assert_eq!(reply.status, OK);
    let NfsResop4::OpWrite(Write4Res::Nfs4Ok(written)) = &reply.resarray[1] else { panic!("{:?}", reply.resarray) };
    assert_eq!((written.count, written.committed), (10, StableHow4::FileSync4));
    let NfsResop4::OpCommit(Commit4Res::Nfs4Ok(stable)) = &reply.resarray[2] else { panic!("{:?}", reply.resarray) };
    assert_eq!(stable.writeverf, written.writeverf);
    let NfsResop4::OpSetattr(done) = &reply.resarray[3] else { panic!("{:?}", reply.resarray) };
    assert_eq!(done.attrsset, attributes.attrmask);
    let attr = scene.exports.tank.getattr(file).unwrap();
    assert_eq!((attr.size, attr.mode, attr.uid, attr.gid), (3, 0o600, 1000, 100));
    assert_eq!(attr.mtime, FileTime::new(5, 6));
    let read = scene.exports.tank.read(&Cred::root(), file, 0, 100).unwrap();
    assert_eq!(read.data.concat(), b"som");
}

/// What is outside of what there is is the nearest that there is (RFC 8881 §3.3.1), as where Linux sets times of its own file systems.
#[test]
fn times_from_before_1970_are_times() {
    let scene = Scene::new();
    let file = scene.file(b"old");
    for (seconds, is) in
        [(-315_593_940, FileTime::new(-315_593_940, 6)), (i64::MIN, FileTime(i64::MIN)), (i64::MAX, FileTime(i64::MAX))]
    {
        let time = Nfstime4 { seconds, nseconds: 6 };
        let set_it = set(Fattr4::of(&[Fattr4Value::Fattr4TimeModifySet(Settime4::SetToClientTime4(time))]));
        assert_eq!(scene.run(1, &[scene.put(file), set_it]).status, OK);
        assert_eq!(scene.exports.tank.getattr(file).unwrap().mtime, is);
    }
}

/// Rules V2. It was run again from its start, and told EXIST of what it had made itself.
#[test]
fn a_compound_goes_on_with_the_operation_that_found_no_room() {
    let scene = Scene::new();
    let (restore, get) = (op(&NfsArgop4::OpRestorefh), op(&NfsArgop4::OpGetfh));
    let ops = [scene.put_tank(), make(b"a"), scene.put_tank(), save(), make(b"b"), restore, get, make(b"c")];
    scene.exports.tank.throttle_behind(1);
    let before = scene.changes();
    let (mut job, step) = scene.begin(1, &ops);
    assert!(matches!(step, Step::Again(_)), "the second found no room");
    assert_eq!(scene.changes(), before + 1);
    let step = scene.service.run(&mut job);
    let reply = scene.end(&mut job, step, &ops);
    assert_eq!(reply.status, OK);
    assert_eq!(scene.changes(), before + 3);
    let handle = Handle { pool: POOL, dataset: scene.exports.tank.dataset(), object: scene.exports.tank.root() };
    let NfsResop4::OpGetfh(Getfh4Res::Nfs4Ok(got)) = &reply.resarray[6] else { panic!("{:?}", reply.resarray) };
    assert_eq!(*got.object, handle.seal(&KEY), "both handles are where they were");
}

/// The attempt behind the wait had no key, so the pool did not learn of its answer; and each attempt counted as a change.
#[test]
fn what_waited_for_room_is_remembered_and_is_one_change() {
    let scene = Scene::new();
    scene.exports.tank.throttle.store(9, SeqCst);
    let ops = [scene.put_tank(), make(b"a")];
    let (mut job, mut step) = scene.begin(1, &ops);
    for _ in 0..8 {
        assert!(matches!(step, Step::Again(_)));
        step = scene.service.run(&mut job);
    }
    assert!(matches!(step, Step::Again(_)));
    scene.hold();
    drop(fate(scene.service.run(&mut job)));
    scene.exports.tank.suspended.store(true, SeqCst);
    assert!(scene.service.stays_in_doubt(&mut job, Some(&Err(Broken("the pool is suspended".into())))));
    scene.exports.tank.suspended.store(false, SeqCst);
    *scene.exports.tank.promises.lock() = Promises::Ready;
    let changes = scene.changes();
    let step = scene.service.run(&mut job);
    assert_eq!(scene.end(&mut job, step, &ops).status, OK, "it has made the directory itself");
    assert_eq!(scene.changes(), changes);
}

/// Rules V36: what a rule allowed before the wait it need not allow behind it. What was done stays done, and is told.
#[test]
fn behind_a_wait_the_rules_of_then_count() {
    let scene = Scene::new();
    scene.exports.tank.throttle_behind(1);
    let ops = [scene.put_tank(), make(b"a"), scene.put_tank(), make(b"b")];
    let (mut job, step) = scene.begin(1, &ops);
    assert!(matches!(step, Step::Again(_)));
    *scene.exports.tank_rule.lock() = "10.0.0.0/8(rw)".into();
    let step = scene.service.run(&mut job);
    let reply = scene.end(&mut job, step, &ops);
    assert_eq!((reply.status, reply.resarray.len()), (Nfs4ErrAccess, 4));
    assert!(scene.has(b"a") && !scene.has(b"b"));
}

/// Rules V1: one reply, behind all that it rests on.
#[test]
fn a_reply_waits_for_all_of_its_operations() {
    let scene = Scene::new();
    scene.hold();
    let ops = [scene.put_tank(), make(b"a"), scene.put_tank(), make(b"b"), op(&NfsArgop4::OpGetfh)];
    let (mut job, step) = scene.begin(1, &ops);
    let fate = fate(step);
    scene.exports.tank.keep_one();
    assert!(fate.try_recv().is_err(), "the second is not durable");
    scene.exports.tank.keep_one();
    let reply = scene.service.reply_after_wait(&mut job, fate.try_recv().unwrap());
    assert_eq!(read_reply(&reply, &ops).status, OK);
}

/// Rules V3. The whole reply was an error, and a client did not know of the directory that it had made.
#[test]
fn what_stands_before_a_broken_promise_is_told() {
    let scene = Scene::new();
    scene.hold();
    let ops = [scene.put_tank(), make(b"a"), scene.put_tank(), make(b"b"), scene.put_tank(), make(b"c")];
    let (mut job, step) = scene.begin(1, &ops);
    let told = fate(step);
    scene.exports.tank.keep_one();
    scene.exports.tank.break_one();
    let reply = read_reply(&scene.service.reply_after_wait(&mut job, told.try_recv().unwrap()), &ops);
    assert_eq!((reply.status, reply.resarray.len()), (Nfs4ErrIo, 4));
    assert_eq!(changes(&reply).len(), 1);
    // Of a SETATTR it is said that nothing was set.
    let ops = [scene.put_tank(), set(Fattr4::of(&[Fattr4Value::Fattr4Mode(0o700)]))];
    let (mut job, step) = scene.begin(2, &ops);
    drop(fate(step));
    let broken = scene.service.reply_after_wait(&mut job, Err(Broken("the disk is gone".into())));
    let reply = read_reply(&broken, &ops);
    let NfsResop4::OpSetattr(failed) = &reply.resarray[1] else { panic!("{:?}", reply.resarray) };
    assert_eq!((failed.status, &failed.attrsset), (Nfs4ErrIo, &bitmap(&[])));
    // The error of one that failed waits as well (rules F9).
    let (_, step) = scene.begin(3, &[scene.put_tank(), make(b"a")]);
    assert!(matches!(step, Step::Wait(_)), "EXIST rests on what is not durable");
}

/// A REMOVE that was answered and came again said NOENT, as in version 3 before replies were kept.
#[test]
fn a_repetition_is_told_what_its_first_transmission_was() {
    let scene = Scene::new();
    scene.file(b"file");
    let ops = [scene.put_tank(), remove(b"file"), make(b"file")];
    let (mut job, step) = scene.begin(7, &ops);
    let Step::Reply(first) = step else { panic!("it waits for nothing") };
    scene.service.finish(&mut job, &first);
    let changes = scene.changes();
    let Step::Reply(again) = scene.begin(7, &ops).1 else { panic!("it is answered at once") };
    assert_eq!(again, first);
    assert_eq!(scene.changes(), changes);
    // One that is under way is attached to.
    scene.hold();
    let ops = [scene.put_tank(), make(b"a")];
    let (mut job, step) = scene.begin(8, &ops);
    assert!(matches!(scene.begin(8, &ops).1, Step::Attached));
    let told = fate(step);
    scene.exports.tank.keep_one();
    let reply = scene.service.reply_after_wait(&mut job, told.try_recv().unwrap());
    assert_eq!(scene.service.finish(&mut job, &reply).len(), 1);
    // What only looked is looked at again.
    let look = [scene.put_tank(), op(&NfsArgop4::OpGetfh)];
    assert_eq!(scene.run(9, &look).status, OK);
    assert_eq!(scene.run(9, &look).status, OK);
}

/// A look in front of a change was carried out anew, on what the change had left: a repetition was told NOENT.
#[test]
fn a_repetition_is_known_before_it_looks() {
    let scene = Scene::new();
    scene.file(b"file");
    let ops = [scene.put_tank(), lookup(b"file"), scene.put_tank(), remove(b"file")];
    let first = scene.run(7, &ops);
    assert_eq!(first.status, OK);
    assert_eq!(scene.run(7, &ops), first);
    scene.file(b"file");
    scene.hold();
    let (mut job, step) = scene.begin(8, &ops);
    let told = fate(step);
    assert!(matches!(scene.begin(8, &ops).1, Step::Attached), "it is not durable");
    scene.exports.tank.keep_one();
    let reply = scene.service.reply_after_wait(&mut job, told.try_recv().unwrap());
    assert_eq!(read_reply(&reply, &ops).status, OK);
}

/// Bytes of files are in no reply that is remembered, so one with some was forgotten, and its WRITE came twice.
#[test]
fn a_reply_with_bytes_of_a_file_is_remembered_as_well() {
    let scene = Scene::new();
    let file = scene.file(b"file");
    let ops = [scene.put(file), write(0, b"some bytes"), read(0, 0, 100)];
    let first = scene.run(7, &ops);
    let changes = scene.changes();
    assert_eq!(scene.run(7, &ops), first);
    assert_eq!(scene.changes(), changes);
    let many = [vec![scene.put(file)], vec![write(0, b"x"); 9]].concat();
    let reply = scene.run(8, &many);
    assert_eq!((reply.status, reply.resarray.len()), (Nfs4ErrResource, 10), "the pool remembers eight of one compound");
}

/// The connection of a compound went that had done a part of it: who repeated it was told that nothing was done, and came again.
#[test]
fn of_a_compound_that_nobody_carries_to_its_end_it_is_told_what_was_done() {
    let scene = Scene::new();
    scene.exports.tank.throttle_behind(1);
    let ops = [scene.put_tank(), make(b"a"), scene.put_tank(), make(b"b")];
    let (mut job, step) = scene.begin(1, &ops);
    assert!(matches!(step, Step::Again(_)));
    let (reply, _) = scene.service.abandon(&mut job).expect("it is owed");
    let reply = read_reply(&reply, &ops);
    assert_eq!((reply.status, reply.resarray.len(), changes(&reply).len()), (Nfs4ErrDelay, 4, 1));
    // What was done and is not durable is not told.
    scene.hold();
    scene.exports.tank.throttle_behind(1);
    let ops = [scene.put_tank(), make(b"c"), scene.put_tank(), make(b"d")];
    let (mut job, _) = scene.begin(2, &ops);
    let (reply, _) = scene.service.abandon(&mut job).expect("it is owed");
    let reply = read_reply(&reply, &ops);
    assert_eq!((reply.status, reply.resarray.len()), (Nfs4ErrIo, 2));
}

/// A compound in doubt had written and cut a file. The WRITE is remembered by nobody and came again; the SETATTR was remembered, and what it had cut
/// was there again.
#[test]
fn what_stands_on_a_write_that_comes_again_comes_again() {
    let scene = Scene::new();
    let file = scene.file(b"file");
    scene.hold();
    let size = Fattr4::of(&[Fattr4Value::Fattr4Size(1)]);
    let ops = [scene.put(file), write(0, &[7; 8192]), set(size)];
    let (mut job, step) = scene.begin(1, &ops);
    drop(fate(step));
    scene.exports.tank.suspended.store(true, SeqCst);
    assert!(scene.service.stays_in_doubt(&mut job, Some(&Err(Broken("the pool is suspended".into())))));
    scene.exports.tank.suspended.store(false, SeqCst);
    *scene.exports.tank.promises.lock() = Promises::Ready;
    let step = scene.service.run(&mut job);
    assert_eq!(scene.end(&mut job, step, &ops).status, OK);
    assert_eq!(scene.exports.tank.getattr(file).unwrap().size, 1);
}

/// The pool was suspended as a compound waited, and is taken up again: each of its operations is asked for by its own number, as two of
/// them may be equal in all the rest.
#[test]
fn a_compound_in_doubt_is_told_of_each_operation_whether_it_was_carried_out() {
    let scene = Scene::new();
    scene.hold();
    let tank = || scene.put_tank();
    let ops = [tank(), make(b"a"), tank(), make(b"b"), tank(), remove(b"b"), remove(b"none")];
    let (mut job, step) = scene.begin(1, &ops);
    drop(fate(step));
    let broken: Fate = Err(Broken("the pool is suspended".into()));
    scene.exports.tank.suspended.store(true, SeqCst);
    assert!(scene.service.stays_in_doubt(&mut job, Some(&broken)));
    scene.service.forget_unwaited_replies(POOL);
    scene.exports.tank.suspended.store(false, SeqCst);
    assert!(scene.service.may_go_on(&job));
    *scene.exports.tank.promises.lock() = Promises::Ready;
    let before = scene.changes();
    let step = scene.service.run(&mut job);
    let reply = scene.end(&mut job, step, &ops);
    // What failed left nothing behind, and is tried again.
    assert_eq!(scene.changes(), before + 1);
    assert_eq!((reply.status, reply.resarray.len()), (Nfs4ErrNoent, 7));
    assert!(scene.has(b"a") && !scene.has(b"b"));
    assert_eq!(changes(&reply), [], "of what was before nobody knows any more");
}

#[test]
fn an_operation_that_panics_costs_itself_and_what_was_done_is_told() {
    let scene = Scene::new();
    scene.hold();
    let file = scene.file(b"file");
    let ops = [scene.put_tank(), make(b"a"), scene.put(file), write(0, b"x")];
    scene.exports.tank.panic_at_getattr.store(true, SeqCst);
    let (mut job, step) = scene.begin(1, &ops);
    let told = fate(step);
    scene.exports.tank.keep_one();
    let reply = read_reply(&scene.service.reply_after_wait(&mut job, told.try_recv().unwrap()), &ops);
    assert_eq!((reply.status, reply.resarray.len()), (Nfs4ErrServerfault, 4));
    assert_eq!(changes(&reply).len(), 1);
}

#[test]
fn wrong_uses_change_nothing_and_are_told_apart() {
    let scene = Scene::new();
    let file = scene.file(b"file");
    let child = {
        let child = &scene.exports.child;
        put(&Handle { pool: POOL, dataset: child.dataset(), object: child.root() }.seal(&KEY))
    };
    let none = || Fattr4::of(&[]);
    let on_file = |op: Op| vec![scene.put(file), op];
    let on_tank = |op: Op| vec![scene.put_tank(), op];
    let owner = |name: &[u8]| set(Fattr4::of(&[Fattr4Value::Fattr4Owner(name.into())]));
    let time = |seconds, nseconds| {
        let time = Settime4::SetToClientTime4(Nfstime4 { seconds, nseconds });
        set(Fattr4::of(&[Fattr4Value::Fattr4TimeModifySet(time)]))
    };
    let of_mode = |bytes: &[u8]| set(Fattr4 { attrmask: bitmap(&[FATTR4_MODE]), attr_vals: bytes.into() });
    let size = || Fattr4::of(&[Fattr4Value::Fattr4Size(0)]);
    let unstable = |mut write: Op| {
        // Behind number, stateid and offset.
        write[28 + 3] = 3;
        write
    };
    let cases: Vec<(&str, Vec<Op>, Nfsstat4)> = vec![
        ("a file is made", on_tank(create(Createtype4::Default(NfsFtype4::Nf4Reg), b"new", none())), Nfs4ErrBadtype),
        (
            "an attribute is made",
            on_tank(create(Createtype4::Default(NfsFtype4::Nf4Namedattr), b"new", none())),
            Nfs4ErrBadtype,
        ),
        ("a directory with a size", on_tank(create(Createtype4::Nf4Dir, b"new", size())), Nfs4ErrInval),
        ("a name that is there", on_tank(make(b"child")), Nfs4ErrExist),
        ("no name", on_tank(make(b"")), Nfs4ErrInval),
        ("a name that leads up", on_tank(remove(b"..")), Nfs4ErrBadname),
        ("above the exports", vec![put_root(), make(b"new")], Nfs4ErrRofs),
        ("nowhere", vec![make(b"new")], Nfs4ErrNofilehandle),
        ("a link of nothing", on_tank(link(b"l")), Nfs4ErrNofilehandle),
        ("from one dataset to another", vec![child.clone(), save(), scene.put_tank(), rename(b"a", b"b")], Nfs4ErrXdev),
        ("a link to another dataset", vec![scene.put(file), save(), child, link(b"l")], Nfs4ErrXdev),
        ("what a dataset is mounted on goes", on_tank(remove(b"child")), Nfs4ErrAccess),
        ("what a dataset is mounted on moves", vec![scene.put_tank(), save(), rename(b"child", b"b")], Nfs4ErrAccess),
        ("an owner by name", on_file(owner(b"root@localdomain")), Nfs4ErrBadowner),
        ("an owner by no name", on_file(owner(b"")), Nfs4ErrInval),
        ("an owner of 33 bits", on_file(owner(b"4294967296")), Nfs4ErrBadowner),
        ("what is only read", on_file(set(Fattr4::of(&[Fattr4Value::Fattr4Type(NfsFtype4::Nf4Dir)]))), Nfs4ErrInval),
        ("what there is not", on_file(set(Fattr4::of(&[Fattr4Value::Fattr4Hidden(true)]))), Nfs4ErrAttrnotsupp),
        ("more than a second of nanoseconds", on_file(time(1, 1_000_000_000)), Nfs4ErrInval),
        ("values that end", on_file(of_mode(&[0; 3])), Nfs4ErrBadxdr),
        ("values that nobody told of", on_file(of_mode(&[0; 8])), Nfs4ErrBadxdr),
        ("the size of a directory", on_tank(set(size())), Nfs4ErrIsdir),
        ("state of another start", on_file(write(7, b"x")), Nfs4ErrStaleStateid),
        ("a directory is written", on_tank(write(0, b"x")), Nfs4ErrIsdir),
        ("a directory is committed", on_tank(commit()), Nfs4ErrIsdir),
        ("no stability", on_file(unstable(write(0, b""))), Nfs4ErrBadxdr),
    ];
    for (at, (what, ops, expected)) in cases.into_iter().enumerate() {
        let before = scene.changes();
        let reply = scene.run(100 + at as u32, &ops);
        assert_eq!(reply.status, expected, "{what}");
        assert!(expected == Nfs4ErrExist || scene.changes() == before, "{what}");
    }
    *scene.exports.tank_rule.lock() = "*(ro,no_root_squash,insecure)".into();
    assert_eq!(scene.run(1, &on_tank(make(b"new"))).status, Nfs4ErrRofs);
    assert!(!scene.has(b"new"));
}

/// Rules V16: what is answered with a megabyte leaves no room for the answer of a change, which then is not done.
#[test]
fn what_cannot_be_answered_is_not_done() {
    let scene = Scene::new();
    let file = scene.file(b"file");
    let tank = &scene.exports.tank.model;
    let cred = Cred::root();
    let ctx = OpCtx::of(&cred);
    tank.write(ctx, file, 0, vec![7; 1 << 20].into(), Stability::FileSync).result.unwrap();
    let reads = [scene.put(file), read(0, 0, 1 << 20), read(0, 0, 1 << 20)];
    let ops = [reads.to_vec(), vec![op(&NfsArgop4::OpGetfh); 12], vec![scene.put_tank(), make(b"a")]].concat();
    let reply = scene.run(1, &ops);
    assert_eq!((reply.status, reply.resarray.len()), (Nfs4ErrResource, ops.len()));
    assert!(!scene.has(b"a"));
    // Where nobody will serve for now nothing was done either, and all of it may come again.
    scene.exports.tank.suspended.store(true, SeqCst);
    let ops = [scene.put_tank(), make(b"a")];
    assert_eq!(scene.run(2, &ops).status, Nfs4ErrDelay);
    scene.exports.tank.suspended.store(false, SeqCst);
    assert_eq!(scene.run(2, &ops).status, OK);
}
