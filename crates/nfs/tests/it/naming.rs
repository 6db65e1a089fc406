//! Owners by names of a domain (RFC 7530 §5.9), as a directory of users has them that answers, or does not.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::support::compound::{Op, by_number, create, get_attr, of_mode, op, put, put_root, read_dir, set};
use crate::support::directory::{Directory, How};
use crate::support::scene::{Scene, read_reply};
use crate::support::session::{Newcomer, channel, complete, sequence};
use crate::support::{POOL, TestExports};
use tally_nfs::handle::Handle;
use tally_nfs::serve::{ServeOptions, Server};
use tally_nfs::service::{Job, Service, Step};
use tally_nfs::v4::PARKED;
use tally_nfs::v4::naming::Kind::User;
use tally_nfs::v4::naming::NameService;
use tally_vfs::{Attributes, Cred, Identity, Names, ObjectRef, OpCtx, SetAttr};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    ChannelAttrs4, Compound4Res, Createhow4, Createtype4, Entry4, FATTR4_OWNER, FATTR4_OWNER_GROUP, Fattr4,
    Fattr4Value, Getattr4Res, NfsArgop4, NfsResop4, Nfsstat4, Nverify4Args, Open4Args, OpenClaim4, OpenOwner4,
    Openflag4, Readdir4Res, Sessionid4, Verify4Args,
};

const OK: Nfsstat4 = Nfs4Ok;
const OWNERS: [u32; 2] = [FATTR4_OWNER, FATTR4_OWNER_GROUP];
/// Only against hanging.
const PATIENCE: Duration = Duration::from_secs(30);

fn service(exports: &Arc<TestExports>, directory: &Arc<Directory>) -> Service {
    let names: Arc<dyn NameService> = directory.clone();
    Service::new(exports.clone()).speaking_4().naming_owners("example.org", &names).unwrap()
}

/// A scene whose owners have names in that directory, and a file of alice's and of group bob.
fn scene(how: How) -> (Scene, Arc<Directory>, ObjectRef) {
    let (scene, directory) = (Scene::new(), Directory::new(how));
    let service = service(&scene.exports, &directory);
    let file = scene.file(b"f");
    owned(&scene, file, 1000, 1001);
    (Scene { service, ..scene }, directory, file)
}

fn owned(scene: &Scene, file: ObjectRef, uid: u32, gid: u32) {
    let set = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
    scene.exports.tank.model.setattr(OpCtx::of(&Cred::root()), file, &set, None).result.unwrap();
}

fn owners(scene: &Scene, file: ObjectRef) -> (u32, u32) {
    let attr = scene.exports.tank.getattr(file).unwrap();
    (attr.uid, attr.gid)
}

/// Carries a request on, as a server does, until it is answered.
fn end(scene: &Scene, job: &mut Job, mut step: Step, ops: &[Op]) -> Compound4Res {
    loop {
        let promise = match step {
            Step::Reply(reply) => {
                scene.service.finish(job, &reply);
                return read_reply(&reply, ops);
            }
            Step::Again(promise) => promise,
            Step::Wait(_) | Step::Attached => panic!("it waits for something else"),
        };
        let (tell, told) = mpsc::channel();
        promise.then(Box::new(move |_| _ = tell.send(())));
        let began = Instant::now();
        while told.recv_timeout(Duration::from_millis(5)).is_err() {
            scene.service.end_parking();
            assert!(began.elapsed() < PATIENCE, "it waits for ever");
        }
        step = scene.service.run(job);
    }
}

fn run(scene: &Scene, xid: u32, ops: &[Op]) -> Compound4Res {
    let (mut job, step) = scene.begin(xid, ops);
    end(scene, &mut job, step, ops)
}

fn owners_in(reply: &Compound4Res) -> [String; 2] {
    let Some(NfsResop4::OpGetattr(Getattr4Res::Nfs4Ok(ok))) = reply.resarray.0.last() else {
        panic!("no attributes: {reply:?}")
    };
    let found = by_number(&ok.obj_attributes);
    let (Some(Fattr4Value::Fattr4Owner(owner)), Some(Fattr4Value::Fattr4OwnerGroup(group))) =
        (found.get(&FATTR4_OWNER), found.get(&FATTR4_OWNER_GROUP))
    else {
        panic!("{found:?}")
    };
    [owner, group].map(|name| String::from_utf8(name.to_vec()).unwrap())
}

/// As it is told.
fn told(scene: &Scene, file: ObjectRef) -> [String; 2] {
    owners_in(&run(scene, 1, &[scene.put(file), get_attr(&OWNERS)]))
}

fn owner(name: &str) -> Fattr4Value {
    Fattr4Value::Fattr4Owner(name.as_bytes().into())
}

fn group(name: &str) -> Fattr4Value {
    Fattr4Value::Fattr4OwnerGroup(name.as_bytes().into())
}

/// What comes to this by and by: the machine may be busy, and an answer later than anybody waits.
fn comes_to<T: PartialEq + std::fmt::Debug>(expected: &T, mut what: impl FnMut() -> T) {
    let began = Instant::now();
    loop {
        let found = what();
        if found == *expected {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{found:?}, and not {expected:?}");
    }
}

/// What is told once nobody says that it is to come again.
fn at_last(mut ask: impl FnMut() -> Nfsstat4) -> Nfsstat4 {
    let began = Instant::now();
    loop {
        match ask() {
            Nfs4ErrDelay if began.elapsed() < PATIENCE => {}
            status => return status,
        }
    }
}

fn sets(scene: &Scene, file: ObjectRef, values: &[Fattr4Value]) -> Nfsstat4 {
    run(scene, 2, &[scene.put(file), set(Fattr4::of(values))]).status
}

#[test]
fn who_has_a_name_is_told_by_it_and_others_are_numbers() {
    let (scene, directory, file) = scene(How::Answers);
    for (uid, gid, expected) in [
        (1000, 1001, ["alice@example.org", "bob@example.org"]),
        (0, 5, ["root@example.org", "5"]),
        (4_000_000_000, 12_345, ["4000000000", "u12345@example.org"]),
    ] {
        owned(&scene, file, uid, gid);
        comes_to(&expected.map(str::to_owned), || told(&scene, file));
    }
    assert_eq!(directory.asked().len(), 6);
    owned(&scene, file, 1000, 5);
    assert_eq!(told(&scene, file), ["alice@example.org", "5"]);
    assert_eq!(directory.asked(), vec![], "it has said that");
}

#[test]
fn without_a_domain_owners_are_numbers_alone() {
    let scene = Scene::new();
    let file = scene.file(b"f");
    assert_eq!(told(&scene, file), ["0", "0"]);
    assert_eq!(sets(&scene, file, &[owner("root@example.org")]), Nfs4ErrBadowner);
    let same = |said: &str| run(&scene, 3, &[scene.put(file), verify(&[owner(said)])]).status;
    assert_eq!([same("0"), same("00"), same("root@example.org")], [OK, Nfs4ErrNotSame, Nfs4ErrNotSame]);
}

/// Rules V38: a name that nobody has is not taken for nobody.
#[test]
fn a_name_of_the_domain_or_a_number_is_taken_and_nothing_else() {
    let (scene, directory, file) = scene(How::Answers);
    let long = format!("{}@example.org", "a".repeat(128));
    for (value, expected, asks) in [
        (owner("root@example.org"), OK, 1),
        (group("alice@EXAMPLE.org"), OK, 1),
        (owner("12"), OK, 0),
        (group("13"), OK, 0),
        (owner("nobody-is-called-so@example.org"), Nfs4ErrBadowner, 1),
        (owner(&long), Nfs4ErrBadowner, 1),
        (owner(&format!("a{long}")), Nfs4ErrBadowner, 0),
        (owner("root@example.com"), Nfs4ErrBadowner, 0),
        (owner("root@"), Nfs4ErrBadowner, 0),
        (owner("root"), Nfs4ErrBadowner, 0),
        (owner("@example.org"), Nfs4ErrBadowner, 0),
        (owner("ro\0ot@example.org"), Nfs4ErrBadowner, 0),
        (owner("1000@example.org"), Nfs4ErrBadowner, 0),
        (owner("4294967295"), Nfs4ErrBadowner, 0),
        (group("root@example.org@example.org"), Nfs4ErrBadowner, 0),
        (group(&"g".repeat(10_000)), Nfs4ErrBadowner, 0),
        (owner(""), Nfs4ErrInval, 0),
    ] {
        let before = owners(&scene, file);
        assert_eq!(at_last(|| sets(&scene, file, std::slice::from_ref(&value))), expected, "{value:?}");
        assert_eq!(directory.asked().len(), asks, "{value:?}");
        assert_eq!(owners(&scene, file) == before, expected != OK, "{value:?}");
    }
    assert_eq!(owners(&scene, file), (12, 13));
    assert_eq!(at_last(|| sets(&scene, file, &[owner("bob@example.org"), group("alice@example.org")])), OK);
    assert_eq!(owners(&scene, file), (1001, 1000));
}

/// What is made has the owner that it is given by name, whichever operation makes it; who is not the superuser chooses among his groups, as by number.
#[test]
fn what_is_made_is_theirs_who_are_named() {
    let (scene, _, _) = scene(How::Answers);
    let given = Fattr4::of(&[Fattr4Value::Fattr4Mode(0o755), owner("alice@example.org"), group("bob@example.org")]);
    let make = |name: &[u8], given: &Fattr4| {
        let ops = [scene.put_tank(), create(Createtype4::Nf4Dir, name, given.clone())];
        at_last(|| run(&scene, 1, &ops).status)
    };
    assert_eq!((make(b"d", &given), owners(&scene, scene.file_named(b"d"))), (OK, (1000, 1001)));
    let unknown = Fattr4::of(&[owner("nobody-is-called-so@example.org")]);
    assert_eq!((make(b"e", &unknown), scene.has(b"e")), (Nfs4ErrBadowner, false));
}

fn verify(values: &[Fattr4Value]) -> Op {
    op(&NfsArgop4::OpVerify(Verify4Args { obj_attributes: Fattr4::of(values) }))
}

#[test]
fn owners_are_compared_by_whom_they_name() {
    let (scene, _, file) = scene(How::Answers);
    let nverify =
        |values: &[Fattr4Value]| op(&NfsArgop4::OpNverify(Nverify4Args { obj_attributes: Fattr4::of(values) }));
    let mode = |mode| Fattr4Value::Fattr4Mode(mode);
    for (values, are_same) in [
        (vec![owner("alice@example.org")], true),
        (vec![owner("alice@Example.ORG")], true),
        (vec![owner("1000")], true),
        (vec![mode(0o644), owner("alice@example.org"), group("1001"), Fattr4Value::Fattr4SpaceUsed(0)], true),
        (vec![mode(0o640), owner("alice@example.org")], false),
        (vec![owner("alice@example.org"), group("1002")], false),
        (vec![owner("bob@example.org")], false),
        (vec![owner("alice@example.com")], false),
        (vec![owner("nobody-is-called-so@example.org")], false),
        (vec![owner("")], false),
    ] {
        let status = |asked: Op| at_last(|| run(&scene, 1, &[scene.put(file), asked.clone()]).status);
        let expected = if are_same { (OK, Nfs4ErrSame) } else { (Nfs4ErrNotSame, OK) };
        assert_eq!((status(verify(&values)), status(nverify(&values))), expected, "{values:?}");
    }
}

/// Who compares by a name, or gives something to it, comes again as long as nobody can say whose it is. Nothing is done meanwhile.
#[test]
fn who_needs_a_name_that_nobody_tells_comes_again() {
    for how in [How::Hangs, How::Fails] {
        let (scene, directory, file) = scene(how);
        let same = || run(&scene, 1, &[scene.put(file), verify(&[owner("alice@example.org")])]).status;
        assert_eq!(same(), Nfs4ErrDelay, "{how:?}");
        assert_eq!(sets(&scene, file, &[group("alice@example.org")]), Nfs4ErrDelay);
        let given = Fattr4::of(&[owner("bob@example.org")]);
        let make = || run(&scene, 3, &[scene.put_tank(), create(Createtype4::Nf4Dir, b"d", given.clone())]).status;
        assert_eq!(make(), Nfs4ErrDelay);
        assert_eq!((owners(&scene, file), scene.has(b"d")), ((1000, 1001), false));
        // A mode that is another one says enough.
        let other = [Fattr4Value::Fattr4Mode(0o600), owner("alice@example.org")];
        assert_eq!(run(&scene, 4, &[scene.put(file), verify(&other)]).status, Nfs4ErrNotSame);
        if how == How::Hangs {
            directory.become_one_that(How::Answers);
            assert_eq!(at_last(|| sets(&scene, file, &[group("alice@example.org")])), OK);
            assert_eq!((owners(&scene, file), at_last(same), at_last(make)), ((1000, 1000), OK, OK));
            assert_eq!(owners(&scene, scene.file_named(b"d")).0, 1001);
        }
    }
}

/// As it was built first, each request that found no name asked for it: a hundred at once held all workers.
#[test]
fn what_many_need_is_asked_once_and_all_are_told() {
    let (scene, directory, file) = scene(How::Hangs);
    let ops = [scene.put(file), get_attr(&[FATTR4_OWNER])];
    let mut begun: Vec<_> = (1..=100).map(|xid| scene.begin(xid, &ops)).collect();
    assert!(matches!(begun[0].1, Step::Again(_)), "the first one waits for it");
    directory.become_one_that(How::Answers);
    for (mut job, step) in begun.drain(..) {
        assert_eq!(end(&scene, &mut job, step, &ops).status, OK);
    }
    comes_to(&"alice@example.org".to_owned(), || told(&scene, file)[0].clone());
    assert_eq!(directory.asked().iter().filter(|asked| **asked == (User, "1000".into())).count(), 1);
}

#[test]
fn who_waits_goes_on_as_soon_as_it_is_answered() {
    let (scene, directory, file) = scene(How::Hangs);
    let ops = [scene.put(file), get_attr(&OWNERS)];
    let (mut job, step) = scene.begin(1, &ops);
    let Step::Again(promise) = step else { panic!("it does not wait") };
    let (tell, told) = mpsc::channel();
    promise.then(Box::new(move |_| _ = tell.send(())));
    assert!(told.try_recv().is_err());
    directory.become_one_that(How::Answers);
    // Nobody looks at a clock here.
    told.recv_timeout(PATIENCE).expect("it goes on");
    let step = scene.service.run(&mut job);
    assert_eq!(end(&scene, &mut job, step, &ops).status, OK);
}

/// Two moments are what a compound has, whatever it asks for.
#[test]
fn a_compound_waits_twice_at_most() {
    let (scene, _, _) = scene(How::Answers);
    let files = [b"1", b"2", b"3", b"4"].map(|name| scene.file(name));
    (15_000..).zip(files).for_each(|(uid, file)| owned(&scene, file, uid, uid));
    let ops: Vec<_> = files.into_iter().flat_map(|file| [scene.put(file), get_attr(&OWNERS)]).collect();
    let (mut job, mut step) = scene.begin(1, &ops);
    let mut waits = 0;
    while let Step::Again(promise) = step {
        waits += 1;
        let (tell, told) = mpsc::channel();
        promise.then(Box::new(move |_| _ = tell.send(())));
        told.recv_timeout(PATIENCE).expect("it goes on");
        step = scene.service.run(&mut job);
    }
    assert!(waits <= 2, "{waits}");
    assert_eq!(owners_in(&end(&scene, &mut job, step, &ops)), ["15003"; 2]);
}

/// Somebody whom nobody has asked for yet is told by his name at the first look.
fn is_waited_for(scene: &Scene, file: ObjectRef) {
    let mut uid = 15_000;
    comes_to(&true, || {
        uid += 1;
        owned(scene, file, uid, uid);
        told(scene, file).iter().all(|name| *name == format!("u{uid}@example.org"))
    });
}

/// A directory of users that hangs costs the server one wait, and nobody a worker; once it answers, owners have names.
#[test]
fn what_hangs_is_waited_for_once() {
    let (scene, directory, file) = scene(How::Hangs);
    let began = Instant::now();
    assert_eq!(told(&scene, file), ["1000", "1001"]);
    let waited = began.elapsed();
    assert!((PARKED..PARKED * 20).contains(&waited), "{waited:?}");
    for uid in 0..300 {
        owned(&scene, file, 10_000 + uid, 10_000 + uid);
        let (_, step) = scene.begin(100 + uid, &[scene.put(file), get_attr(&OWNERS)]);
        assert!(matches!(step, Step::Reply(_)), "nobody waits any more");
    }
    directory.become_one_that(How::Answers);
    comes_to(&["u10299@example.org"; 2].map(str::to_owned), || told(&scene, file));
    is_waited_for(&scene, file);
}

/// One that hangs for good keeps one thread and no more: by the other one names are told.
#[test]
fn one_name_that_is_never_told_keeps_no_other_from_being() {
    let (scene, directory, file) = scene(How::Hangs);
    let ops = [scene.put(file), get_attr(&[FATTR4_OWNER])];
    let (mut job, step) = scene.begin(1, &ops);
    let began = Instant::now();
    while directory.asked().is_empty() {
        assert!(began.elapsed() < PATIENCE);
    }
    directory.leave_who_waits();
    assert_eq!(end(&scene, &mut job, step, &ops).status, OK);
    owned(&scene, file, 0, 0);
    comes_to(&["root@example.org"; 2].map(str::to_owned), || told(&scene, file));
    is_waited_for(&scene, file);
}

/// Whom no rule lets in, who looks at what anybody may look at, and who may not set an owner make nobody ask.
#[test]
fn strangers_and_those_who_may_not_ask_nothing() {
    let (scene, directory, file) = scene(How::Answers);
    let dir = run(&scene, 1, &[scene.put_tank(), create(Createtype4::Nf4Dir, b"d", of_mode(0o755))]);
    assert_eq!(dir.status, OK);
    let dir = scene.file_named(b"d");
    assert_eq!(run(&scene, 2, &[put_root(), get_attr(&OWNERS)]).status, OK);
    assert_eq!(directory.asked(), vec![], "above the exports");
    let (mine, named) = (set(Fattr4::of(&[owner("bob@example.org")])), Fattr4::of(&[owner("bob@example.org")]));
    let make = create(Createtype4::Nf4Dir, b"mine", named.clone());
    let as_carol = |ops: &[Op]| {
        let (mut job, step) = scene.begin_as(1002, 9, ops);
        end(&scene, &mut job, step, ops).status
    };
    assert_eq!(as_carol(&[scene.put(file), mine.clone()]), Nfs4ErrPerm);
    assert_eq!(as_carol(&[scene.put(file), set(Fattr4::of(&[group("bob@example.org")]))]), Nfs4ErrPerm);
    let of_bob = create(Createtype4::Nf4Dir, b"mine", Fattr4::of(&[group("bob@example.org")]));
    assert_eq!(as_carol(&[scene.put(dir), of_bob]), Nfs4ErrAccess);
    // Only root gives away what he makes, and the name is passed over as a number is.
    assert_eq!(as_carol(&[scene.put_tank(), make.clone()]), OK);
    assert_eq!(owners(&scene, scene.file_named(b"mine")).0, 1002);
    assert_eq!(directory.asked(), vec![]);
    *scene.exports.tank_rule.lock() = "10.9.9.9(rw,no_root_squash,insecure)".into();
    let asked = [get_attr(&OWNERS), verify(&[owner("alice@example.org")]), mine, make, read_dir(0, 4096, &OWNERS)];
    for ask in asked {
        assert_eq!(run(&scene, 3, &[scene.put(file), ask]).status, Nfs4ErrAccess);
    }
    *scene.exports.tank_rule.lock() = "*(ro,no_root_squash,insecure)".into();
    assert_eq!(sets(&scene, file, &[owner("bob@example.org")]), Nfs4ErrRofs);
    assert_eq!(directory.asked(), vec![]);
}

/// The owner of a file leaves it what it is by name, as by number, and learns nothing of others; what he makes for a group that he is not in is his own group's.
#[test]
fn who_is_not_root_means_himself_and_his_groups() {
    let (scene, directory, file) = scene(How::Answers);
    owned(&scene, file, 1000, 1001);
    let as_alice = |ops: &[Op]| {
        at_last(|| {
            let (mut job, step) = scene.begin_as(1000, 9, ops);
            end(&scene, &mut job, step, ops).status
        })
    };
    for (said, told) in [
        (vec![owner("alice@example.org"), group("bob@example.org")], OK),
        (vec![group("root@example.org")], Nfs4ErrPerm),
        (vec![owner("bob@example.org")], Nfs4ErrPerm),
        (vec![owner("nobody@example.org")], Nfs4ErrPerm),
    ] {
        assert_eq!(as_alice(&[scene.put(file), set(Fattr4::of(&said))]), told, "{said:?}");
        assert_eq!(owners(&scene, file), (1000, 1001));
    }
    let make = create(Createtype4::Nf4Dir, b"hers", Fattr4::of(&[group("root@example.org")]));
    assert_eq!(as_alice(&[scene.put_tank(), make]), OK);
    assert_ne!(owners(&scene, scene.file_named(b"hers")).1, 0);
    let asked = directory.asked();
    assert!(!asked.is_empty() && asked.iter().all(|(_, what)| what.parse::<u32>().is_ok()), "{asked:?}");
}

/// A persistent session of minor version 1, in which an OPEN may follow.
fn session(scene: &Scene) -> Sessionid4 {
    let fore = ChannelAttrs4 { ca_maxoperations: 16, ca_maxresponsesize_cached: 4096, ..channel() };
    let newcomer = Newcomer { flags: 1, fore, ..Newcomer::named(b"a client") };
    let mut xid = 0;
    let entered = newcomer.enter(|ops| {
        xid += 1;
        scene.run(xid, ops)
    });
    let session = entered.expect("it is let in").session;
    assert_eq!(scene.run(9, &[sequence(session, 3, 1, true), complete()]).status, OK);
    session
}

fn open(name: &[u8], given: Fattr4) -> Op {
    op(&NfsArgop4::OpOpen(Open4Args {
        seqid: 0,
        share_access: 2,
        share_deny: 0,
        owner: OpenOwner4 { clientid: 0, owner: b"o"[..].into() },
        openhow: Openflag4::Open4Create(Createhow4::Guarded4(given)),
        claim: OpenClaim4::ClaimNull(name.into()),
    }))
}

fn named() -> Fattr4 {
    Fattr4::of(&[owner("alice@example.org"), group("bob@example.org")])
}

/// OPEN makes nothing as long as nobody can say whose it is to be, and its client asks again in the next sequence.
#[test]
fn an_open_comes_again_until_its_owners_are_known() {
    let (scene, directory, _) = scene(How::Hangs);
    scene.exports.keep_clients();
    let scene = Scene { minor: 1, ..scene };
    let session = session(&scene);
    let mut number = 0;
    let mut ask = || {
        number += 1;
        run(&scene, 100 + number, &[sequence(session, 0, number, true), scene.put_tank(), open(b"new", named())]).status
    };
    assert_eq!((ask(), ask(), scene.has(b"new")), (Nfs4ErrDelay, Nfs4ErrDelay, false));
    directory.become_one_that(How::Answers);
    assert_eq!(at_last(ask), OK);
    assert_eq!(owners(&scene, scene.file_named(b"new")), (1000, 1001));
}

/// A repetition is told what the first one did, also behind a crash, and nobody is asked for names before.
#[test]
fn what_is_remembered_asks_nothing() {
    let (scene, directory, file) = scene(How::Answers);
    let exports = scene.exports.clone();
    exports.keep_clients();
    assert_eq!(at_last(|| sets(&scene, file, &[owner("alice@example.org"), group("bob@example.org")])), OK);
    assert_eq!(directory.asked().len(), 2, "each once");
    owned(&scene, file, 0, 0);

    let make = |name| create(Createtype4::Nf4Dir, name, named());
    let of_0 = [[scene.put_tank(), make(b"d")], [scene.put(file), set(named())]];
    let life = Scene { minor: 1, ..scene };
    let session = session(&life);
    let tank = life.put_tank();
    let in_slot = |slot, op| vec![sequence(session, slot, 1, true), tank.clone(), op];
    let in_session = [in_slot(0, make(b"e")), in_slot(1, open(b"g", named()))];
    let ask_all = |scene: Scene, name: &str| {
        for (xid, request) in (20..).zip(&in_session) {
            assert_eq!(scene.run(xid, request).status, OK, "{name}");
        }
        let scene = Scene { minor: 0, ..scene };
        for (xid, request) in (30..).zip(&of_0) {
            assert_eq!(scene.run(xid, request).status, OK, "{name}");
        }
        Scene { minor: 1, ..scene }
    };
    let life = ask_all(life, "at first");
    for name in [b"d", b"e", b"g"] {
        assert_eq!(owners(&life, life.file_named(name)), (1000, 1001));
    }
    assert_eq!(owners(&life, file), (1000, 1001));
    directory.become_one_that(How::Hangs);
    drop(ask_all(life, "once more"));
    exports.tank.model.forget_opens();
    // This one knows no name yet.
    let hanging = Directory::new(How::Hangs);
    let service = service(&exports, &hanging);
    drop(ask_all(Scene { minor: 1, service, exports, ..Scene::new() }, "behind a crash"));
    assert_eq!((directory.asked(), hanging.asked()), (vec![], vec![]));
}

fn entries(mut reply: Compound4Res) -> (Vec<Entry4>, bool) {
    let Some(NfsResop4::OpReaddir(Readdir4Res::Nfs4Ok(found))) = reply.resarray.0.pop() else {
        panic!("no listing: {reply:?}")
    };
    let (mut entries, mut next) = (Vec::new(), found.reply.entries);
    while let Some(mut entry) = next {
        next = entry.nextentry.take();
        entries.push(*entry);
    }
    (entries, found.reply.eof)
}

fn many(exports: &Arc<TestExports>, count: u32) {
    let (tank, root) = (&exports.tank, Cred::root());
    for nth in 0..count {
        let made = tank.model.mkdir(OpCtx::of(&root), tank.root(), format!("f{nth}").as_bytes(), &SetAttr::default());
        let set = SetAttr { uid: Some(10_000 + nth), gid: Some(10_000 + nth), ..SetAttr::default() };
        tank.model.setattr(OpCtx::of(&root), made.result.unwrap().object, &set, None).result.unwrap();
    }
}

/// As it was built first, 32 GETATTRs stopped the server where the directory of users hung, for version 3 as well.
#[test]
fn a_directory_of_users_that_hangs_stops_nobody() {
    let (exports, directory) = (TestExports::new(), Directory::new(How::Hangs));
    many(&exports, 1000);
    let options = ServeOptions { workers_max: 2, workers_running_max: 1, ..ServeOptions::default() };
    let server =
        Server::start(Arc::new(service(&exports, &directory)), &["127.0.0.1:0".parse().unwrap()], &options).unwrap();
    let address = server.addresses()[0];
    let root =
        Handle { pool: POOL, dataset: exports.tank.dataset(), object: exports.tank.root() }.seal(&crate::support::KEY);
    let began = Instant::now();
    let ask_all = || {
        let mut client = crate::support::client::Client::connect(address);
        let (mut cookie, mut names) = (0, 0);
        loop {
            let reply = client.compound(0, &[put(&root), read_dir(cookie, 32 << 10, &OWNERS)]);
            let (listed, is_end) = entries(reply);
            names += listed.len();
            cookie = listed.last().map_or(cookie, |last| last.cookie);
            if is_end {
                break names;
            }
        }
    };
    std::thread::scope(|scope| {
        let lists: Vec<_> = (0..4).map(|_| scope.spawn(ask_all)).collect();
        for _ in 0..64 {
            scope.spawn(|| {
                let reply =
                    crate::support::client::Client::connect(address).compound(0, &[put(&root), get_attr(&OWNERS)]);
                assert_eq!(owners_in(&reply), ["0", "0"]);
            });
        }
        let mut plain = crate::support::client::Client::connect(address);
        for _ in 0..100 {
            assert_eq!(plain.getattr(&root).0, 0);
        }
        let names: Vec<_> = lists.into_iter().map(|list| list.join().unwrap()).collect();
        assert_eq!(names, [1001; 4]);
    });
    let took = began.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    // All of it is told by name once there is somebody who says it.
    directory.become_one_that(How::Answers);
    let mut client = crate::support::client::Client::connect(address);
    let ask = || owners_in(&client.compound(0, &[put(&root), get_attr(&OWNERS)]));
    comes_to(&["root@example.org"; 2].map(str::to_owned), ask);
}

/// A listing waits once for all its owners, and not for each.
#[test]
fn a_listing_waits_once_for_all_its_owners() {
    let (scene, directory, _) = scene(How::Answers);
    many(&scene.exports, 100);
    let ops = [scene.put_tank(), read_dir(0, 32 << 10, &OWNERS)];
    let (mut job, step) = scene.begin(1, &ops);
    assert!(matches!(step, Step::Again(_)), "it waits");
    let (listed, _) = entries(end(&scene, &mut job, step, &ops));
    assert!(listed.len() > 100);
    let asked = directory.asked();
    assert!(asked.len() > 200, "{} for {} entries", asked.len(), listed.len());
    let names = |reply| -> Vec<_> {
        let (listed, _) = entries(reply);
        let owner = |entry: &Entry4| match by_number(&entry.attrs).remove(&FATTR4_OWNER) {
            Some(Fattr4Value::Fattr4Owner(name)) => String::from_utf8(name.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        };
        listed.iter().map(owner).collect()
    };
    comes_to(&true, || names(run(&scene, 2, &ops)).iter().all(|name| name.ends_with("@example.org")));
    assert_eq!(directory.asked(), vec![], "nobody is asked for twice");
}
