//! Persistent sessions: a request that comes again behind a restart of the server is told what it has done, and nothing is done twice (rules V5 to V7).

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::support::compound::{
    Op, create, get_attr, link, lookup, make, of_mode, op, read_dir, remove, rename, save, set, write,
};
use crate::support::gated::Promises;
use crate::support::scene::{Scene, fate};
use crate::support::session::{Entered, Newcomer, channel, complete};
use tally_base::{Broken, Fate, Known, SlotMark};
use tally_nfs::service::Step;
use tally_vfs::{Attributes, Content, Replies};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Allocate4Args, ChannelAttrs4, Compound4Res, Createhow4, Createtype4, Deallocate4Args, DestroyClientid4Args,
    DestroySession4Args, Fattr4, Fattr4Value, NfsArgop4, NfsResop4, Nfsstat4, Open4Args, Open4Res, OpenClaim4,
    OpenOwner4, Openflag4, Opentype4, Sequence4Res, Sessionid4,
};

const OK: Nfsstat4 = Nfs4Ok;
/// CREATE_SESSION4_FLAG_PERSIST.
const PERSIST: u32 = 1;
/// SEQ4_STATUS_RESTART_RECLAIM_NEEDED.
const RECLAIM_NEEDED: u32 = 0x100;

struct Client {
    id: u64,
    session: Sessionid4,
    flags: u32,
}

impl Client {
    fn new(scene: &Scene, name: &[u8], flags: u32) -> Self {
        let fore = ChannelAttrs4 { ca_maxoperations: 16, ca_maxresponsesize_cached: 4096, ..channel() };
        let newcomer = Newcomer { flags, fore, ..Newcomer::named(name) };
        let mut xid = 0;
        let entered = newcomer.enter(|ops| {
            xid += 1;
            scene.run(xid, ops)
        });
        let Entered { client: id, session, created } = entered.expect("it is let in");
        let client = Self { id, session, flags: created.csr_flags };
        assert_eq!(client.run(scene, 3, 1, &[complete()]).status, OK);
        client
    }

    fn persistent(scene: &Scene) -> Self {
        let client = Self::new(scene, b"a client", PERSIST);
        assert_eq!(client.flags, PERSIST);
        client
    }

    fn request(&self, slot: u32, sequence: u32, ops: &[Op]) -> Vec<Op> {
        let sequence = crate::support::session::sequence(self.session, slot, sequence, true);
        [&[sequence], ops].concat()
    }

    fn run(&self, scene: &Scene, slot: u32, sequence: u32, ops: &[Op]) -> Compound4Res {
        // Another connection has other xids.
        scene.run(1000 + 10 * sequence + slot, &self.request(slot, sequence, ops))
    }
}

fn scene() -> Scene {
    let scene = Scene { minor: 1, ..Scene::new() };
    scene.exports.keep_clients();
    scene
}

fn open(name: &[u8], how: Createhow4) -> Op {
    let owner = OpenOwner4 { clientid: 0, owner: b"o"[..].into() };
    op(&NfsArgop4::OpOpen(Open4Args {
        seqid: 0,
        share_access: 2,
        share_deny: 0,
        owner,
        openhow: Openflag4::Open4Create(how),
        claim: OpenClaim4::ClaimNull(name.into()),
    }))
}

fn guarded(name: &[u8]) -> Op {
    open(name, Createhow4::Guarded4(of_mode(0o640)))
}

fn get_handle() -> Op {
    op(&NfsArgop4::OpGetfh)
}

fn flags(reply: &Compound4Res) -> u32 {
    match reply.resarray.0.first() {
        Some(NfsResop4::OpSequence(Sequence4Res::Nfs4Ok(told))) => told.sr_status_flags,
        other => panic!("{other:?}"),
    }
}

/// What Linux asks for with O_EXCL in such a session. Its reply is lost with the server.
#[test]
fn a_file_is_made_once_and_its_maker_is_told_so() {
    let scene = scene();
    let client = Client::persistent(&scene);
    let ops = [scene.put_tank(), guarded(b"mine"), get_handle(), get_attr(&[1, 33])];
    let first = client.run(&scene, 0, 1, &ops);
    assert_eq!(first.status, OK);
    let changes = scene.changes();

    let scene = scene.restart();
    let again = client.run(&scene, 0, 1, &ops);
    assert_eq!(again.status, OK, "{again:?}");
    assert_eq!(scene.changes(), changes, "nothing is carried out");
    assert_eq!(flags(&again), RECLAIM_NEEDED, "and it is told that there is something to claim");
    // The handle, and the attributes.
    assert_eq!(again.resarray.0[3..], first.resarray.0[3..]);
    let (NfsResop4::OpOpen(Open4Res::Nfs4Ok(was)), NfsResop4::OpOpen(Open4Res::Nfs4Ok(is))) =
        (&first.resarray.0[2], &again.resarray.0[2])
    else {
        panic!("{again:?}")
    };
    assert_eq!((&was.attrset, was.rflags), (&is.attrset, is.rflags));
    assert_ne!(was.stateid, is.stateid, "what was open is claimed");
    assert!(!is.cinfo.atomic && is.cinfo.before < is.cinfo.after, "it was made: {:?}", is.cinfo);
    // As often as it likes, and nothing else.
    assert_eq!(client.run(&scene, 0, 1, &ops), again);
    assert_eq!(client.run(&scene, 0, 2, &ops).status, Nfs4ErrDeadsession, "nothing new is done");
    assert_eq!(client.run(&scene, 1, 1, &ops).status, Nfs4ErrDeadsession);
    let other = [scene.put_tank(), guarded(b"other")];
    assert_eq!(client.run(&scene, 0, 1, &other).status, Nfs4ErrDeadsession, "another request is not that one");
    assert_eq!((scene.changes(), scene.has(b"other")), (changes, false));
}

#[test]
fn each_operation_that_changes_something_is_told_what_it_did() {
    let scene = scene();
    let client = Client::persistent(&scene);
    let file = scene.file(b"f");
    scene.file(b"gone");
    let (tank, put_file) = (scene.put_tank(), scene.put(file));
    let cut = set(Fattr4::of(&[Fattr4Value::Fattr4Size(0), Fattr4Value::Fattr4Mode(0o600)]));
    let unchecked = open(b"u", Createhow4::Unchecked4(of_mode(0o600)));
    let with_verifier = open(
        b"e",
        Createhow4::Exclusive41(tally_wire::nfs4::Creatverfattr { cva_verf: [7; 8], cva_attrs: of_mode(0o600) }),
    );
    let cases: &[(&str, Vec<Op>)] = &[
        ("mkdir", vec![tank.clone(), make(b"d"), get_handle()]),
        ("symlink", vec![tank.clone(), create(Createtype4::Nf4Lnk(b"to"[..].into()), b"l", Fattr4::of(&[]))]),
        ("remove", vec![tank.clone(), remove(b"gone")]),
        ("rename", vec![tank.clone(), save(), tank.clone(), rename(b"d", b"e1"), get_attr(&[1])]),
        ("link", vec![put_file.clone(), save(), tank.clone(), link(b"second")]),
        ("setattr", vec![put_file, cut]),
        ("unchecked", vec![tank.clone(), unchecked]),
        ("with a verifier", vec![tank, with_verifier]),
    ];
    for (slot, (name, ops)) in (0..).zip(&cases[..4]) {
        assert_eq!(client.run(&scene, slot, if slot == 3 { 2 } else { 1 }, ops).status, OK, "{name}");
    }
    // Of four slots: a client with more of them would do all at once.
    let second = Client::new(&scene, b"a second client", PERSIST);
    for (slot, (name, ops)) in (0..).zip(&cases[4..]) {
        assert_eq!(second.run(&scene, slot, if slot == 3 { 2 } else { 1 }, ops).status, OK, "{name}");
    }
    let changes = scene.changes();
    let scene = scene.restart();
    for (at, (name, ops)) in cases.iter().enumerate() {
        let (who, slot) = (if at < 4 { &client } else { &second }, at as u32 % 4);
        let again = who.run(&scene, slot, if slot == 3 { 2 } else { 1 }, ops);
        assert_eq!(again.status, OK, "{name}: {again:?}");
    }
    assert_eq!(scene.changes(), changes);
}

/// The first operation that did nothing is where a client learns that it has to ask anew.
#[test]
fn what_was_not_done_is_not_done() {
    let scene = scene();
    let client = Client::persistent(&scene);
    scene.file(b"there");
    let failing = [scene.put_tank(), make(b"a"), scene.put_tank(), make(b"there")];
    assert_eq!(client.run(&scene, 0, 1, &failing).status, Nfs4ErrExist);
    let nothing = [scene.put_tank(), remove(b"not there")];
    assert_eq!(client.run(&scene, 1, 1, &nothing).status, Nfs4ErrNoent);
    let writing = [scene.put_tank(), make(b"b"), scene.put(scene.file(b"w")), write(0, b"text")];
    assert_eq!(client.run(&scene, 2, 1, &writing).status, OK);
    let changes = scene.changes();
    let scene = scene.restart();
    let again = client.run(&scene, 0, 1, &failing);
    assert_eq!((again.status, again.resarray.0.len()), (Nfs4ErrDeadsession, 5), "{again:?}");
    assert_eq!(client.run(&scene, 1, 1, &nothing).status, Nfs4ErrDeadsession);
    let again = client.run(&scene, 2, 1, &writing);
    assert_eq!((again.status, again.resarray.0.len()), (Nfs4ErrDeadsession, 5), "{again:?}");
    assert_eq!(scene.changes(), changes);
}

/// A session that has changed nothing is known to nobody, as one is that does not last, or that is over.
#[test]
fn of_a_session_that_left_no_mark_nobody_knows() {
    let scene = scene();
    let fleeting = Client::new(&scene, b"one", 0);
    assert_eq!(fleeting.flags, 0);
    let idle = Client::new(&scene, b"two", PERSIST);
    let over = Client::new(&scene, b"three", PERSIST);
    let looks = [scene.put_tank(), get_attr(&[1])];
    assert_eq!(idle.run(&scene, 0, 1, &looks).status, OK);
    let [first, third] = [b"one-made", b"tri-made"].map(|name| [scene.put_tank(), guarded(name)]);
    assert_eq!(fleeting.run(&scene, 0, 1, &first).status, OK);
    assert_eq!(over.run(&scene, 0, 1, &third).status, OK);
    let destroy = op(&NfsArgop4::OpDestroySession(DestroySession4Args { dsa_sessionid: over.session }));
    assert_eq!(scene.run(50, &[destroy]).status, OK);
    assert_eq!(over.run(&scene, 0, 1, &third).status, Nfs4ErrBadsession, "in this life as well");
    let scene = scene.restart();
    assert_eq!(fleeting.run(&scene, 0, 1, &first).status, Nfs4ErrBadsession);
    assert_eq!(idle.run(&scene, 0, 1, &looks).status, Nfs4ErrBadsession);
    assert_eq!(over.run(&scene, 0, 1, &third).status, Nfs4ErrBadsession);
}

/// A client keeps slot and sequence where SEQUENCE is told DELAY, so that nothing is lost while its pool is not there.
#[test]
fn a_pool_that_may_know_is_waited_for() {
    let scene = scene();
    let client = Client::persistent(&scene);
    let ops = [scene.put_tank(), guarded(b"mine")];
    assert_eq!(client.run(&scene, 0, 1, &ops).status, OK);
    let scene = scene.restart();
    scene.exports.tank.suspended.store(true, SeqCst);
    let told = client.run(&scene, 0, 1, &ops);
    assert_eq!((told.status, told.resarray.0.len()), (Nfs4ErrDelay, 1));
    scene.exports.tank.suspended.store(false, SeqCst);
    *scene.exports.away.lock() = true;
    assert_eq!(client.run(&scene, 0, 1, &ops).status, Nfs4ErrDelay);
    // Not for ever: its claims elsewhere have their time.
    for second in 0..40 {
        scene.service.look_at_clock(Duration::from_secs(second));
    }
    assert_eq!(client.run(&scene, 0, 1, &ops).status, Nfs4ErrBadsession);
    *scene.exports.away.lock() = false;
    scene.exports.tank.suspended.store(true, SeqCst);
    assert_eq!(client.run(&scene, 0, 1, &ops).status, Nfs4ErrBadsession, "nor for one that is suspended");
    scene.exports.tank.suspended.store(false, SeqCst);
    assert_eq!(client.run(&scene, 0, 1, &ops).status, OK, "it is still known");
}

#[test]
fn a_request_leaves_only_so_many_marks_and_a_file_is_not_made_by_a_verifier_alone() {
    let scene = scene();
    let client = Client::persistent(&scene);
    let tank = scene.put_tank();
    let many: Vec<Op> = [tank.clone()].into_iter().chain((b'a'..=b'e').map(|name| make(&[name]))).collect();
    // Each of them is made in the one before.
    let told = client.run(&scene, 0, 1, &many);
    assert_eq!((told.status, told.resarray.0.len()), (Nfs4ErrRepTooBigToCache, 7));
    let verifier = open(b"v", Createhow4::Exclusive4([3; 8]));
    assert_eq!(client.run(&scene, 1, 1, &[tank.clone(), verifier.clone()]).status, Nfs4ErrInval);
    let fleeting = Client::new(&scene, b"one", 0);
    assert_eq!(fleeting.run(&scene, 1, 1, &[tank.clone(), verifier]).status, OK);
    let told = fleeting.run(&scene, 0, 1, &many);
    assert_eq!(told.status, Nfs4ErrExist, "as it is there: this one has no bound");
}

/// Its file was there, and somebody had to go out of the list of clients before it could be told: the OPEN was carried out anew, and told EXIST of its own file.
#[test]
fn what_an_open_has_made_is_not_made_again_behind_a_wait() {
    let scene = Arc::new(scene());
    let client = Client::persistent(&scene);
    let other = Client::new(&scene, b"other", 0);
    // By that it is in the list.
    scene.file(b"there");
    assert_eq!(other.run(&scene, 0, 1, &[scene.put_tank(), guarded(b"there")]).status, Nfs4ErrExist);
    let destroy = op(&NfsArgop4::OpDestroySession(DestroySession4Args { dsa_sessionid: other.session }));
    assert_eq!(scene.run(50, &[destroy]).status, OK);
    let (at, clients) = (scene.clone(), scene.exports.keep_clients());
    *scene.exports.tank.behind_an_open.lock() = Some(Box::new(move || {
        // Neither it nor who asks behind it finds room.
        clients.throttle.store(2, SeqCst);
        let destroy = op(&NfsArgop4::OpDestroyClientid(DestroyClientid4Args { dca_clientid: other.id }));
        assert_eq!(at.run(51, &[destroy]).status, OK);
    }));
    let ops = client.request(0, 1, &[scene.put_tank(), guarded(b"mine")]);
    let (mut job, step) = scene.begin(600, &ops);
    assert!(matches!(step, Step::Again(_)), "it waits for the list");
    fate(step).recv().unwrap().unwrap();
    let step = scene.service.run(&mut job);
    assert_eq!(scene.end(&mut job, step, &ops).status, OK);
}

/// A client that is told DELAY by anything but SEQUENCE takes its slot for used, and comes again as another request.
#[test]
fn what_is_not_there_for_a_moment_leaves_the_slot_as_it_is() {
    let scene = scene();
    let client = Client::persistent(&scene);
    scene.file(b"there");
    let ops = [
        scene.put_tank(),
        lookup(b"there"),
        scene.put_tank(),
        guarded(b"mine"),
        scene.put_tank(),
        read_dir(0, 4096, &[1]),
    ];
    assert_eq!(client.run(&scene, 0, 1, &ops).status, OK);
    let scene = scene.restart();
    let tank = &scene.exports.tank;
    tank.unlistable.store(true, SeqCst);
    let told = client.run(&scene, 0, 1, &ops);
    assert_eq!((told.status, told.resarray.0.len()), (Nfs4ErrDelay, 1), "{told:?}");
    tank.unlistable.store(false, SeqCst);
    // Suspended since it was asked whether it knows the request.
    let exports = scene.exports.clone();
    *tank.behind_a_look.lock() = Some(Box::new(move |_| exports.tank.suspended.store(true, SeqCst)));
    let told = client.run(&scene, 0, 1, &ops);
    assert_eq!((told.status, told.resarray.0.len()), (Nfs4ErrDelay, 1), "{told:?}");
    tank.suspended.store(false, SeqCst);
    assert_eq!(client.run(&scene, 0, 1, &ops).status, OK);
}

#[test]
fn what_changes_nothing_counts_for_no_mark() {
    let scene = scene();
    let client = Client::persistent(&scene);
    scene.file(b"there");
    let owner = OpenOwner4 { clientid: 0, owner: b"o"[..].into() };
    let find = op(&NfsArgop4::OpOpen(Open4Args {
        seqid: 0,
        share_access: 1,
        share_deny: 0,
        owner,
        openhow: Openflag4::Default(Opentype4::Open4Nocreate),
        claim: OpenClaim4::ClaimNull(b"there"[..].into()),
    }));
    let looks: Vec<Op> = (0..5).flat_map(|_| [scene.put_tank(), find.clone()]).collect();
    let made: Vec<Op> = [scene.put_tank()].into_iter().chain((b'a'..=b'd').map(|name| make(&[name]))).collect();
    assert_eq!(client.run(&scene, 0, 1, &[&looks[..], &made[..4]].concat()).status, OK);
    // As many marks as there may be, each in the one before: behind that nothing is made, and something is opened.
    let below = |name: &[u8]| [&[scene.put_tank(), make(name)], &made[1..4], &[scene.put_tank()]].concat();
    assert_eq!(client.run(&scene, 1, 1, &[below(b"one"), vec![find]].concat()).status, OK);
    let too_many = [below(b"two"), vec![guarded(b"e")]].concat();
    assert_eq!(client.run(&scene, 2, 1, &too_many).status, Nfs4ErrRepTooBigToCache);
}

/// A session that is over has no marks, also where a request of it was under way by then.
#[test]
fn what_was_under_way_in_a_session_that_is_over_is_forgotten() {
    let scene = scene();
    let client = Client::persistent(&scene);
    let tank = &scene.exports.tank;
    *tank.promises.lock() = Promises::Driven;
    tank.throttle.store(1, SeqCst);
    let ops = client.request(0, 1, &[scene.put_tank(), make(b"mine")]);
    let (mut job, step) = scene.begin(600, &ops);
    fate(step).recv().unwrap().unwrap();
    *tank.promises.lock() = Promises::Ready;
    let destroy = op(&NfsArgop4::OpDestroySession(DestroySession4Args { dsa_sessionid: client.session }));
    assert_eq!(scene.run(50, &[destroy]).status, OK);
    let step = scene.service.run(&mut job);
    scene.end(&mut job, step, &ops);
    drop(job);
    let mark = SlotMark { session: client.session, slot: 0, operation: 0, sequence: 1, fingerprint: 0 };
    assert_eq!(tank.known(&mark), Known::Session);
    scene.service.look_after_clients();
    assert_eq!(tank.known(&mark), Known::Nothing);
}

/// A punch that were carried out again behind a restart would take away what somebody has written there since.
#[test]
fn what_was_punched_is_not_punched_again() {
    let scene = Scene { minor: 2, ..scene() };
    let client = Client::persistent(&scene);
    let file = scene.file(b"f");
    let root = tally_vfs::Cred::root();
    let write_by_another = |scene: &Scene| {
        let ctx = tally_vfs::OpCtx::of(&root);
        let written = scene.exports.tank.write(ctx, file, 0, b"text"[..].into(), tally_vfs::Stability::FileSync);
        written.result.unwrap();
    };
    write_by_another(&scene);
    let punch = op(&NfsArgop4::OpDeallocate(Deallocate4Args {
        da_stateid: crate::support::compound::stateid(0),
        da_offset: 0,
        da_length: 4,
    }));
    let ops = [scene.put(file), punch];
    assert_eq!(client.run(&scene, 0, 1, &ops).status, OK);
    let shown = |scene: &Scene| scene.exports.tank.model.read(&root, file, 0, 9).unwrap().data.concat();
    assert_eq!(shown(&scene), [0; 4]);
    write_by_another(&scene);
    let scene = scene.restart();
    assert_eq!(client.run(&scene, 0, 1, &ops).status, OK);
    assert_eq!(shown(&scene), b"text");
    assert_eq!(client.run(&scene, 0, 2, &ops).status, Nfs4ErrDeadsession);
}

/// One that were carried out again behind a restart would make a file longer that somebody has cut since.
#[test]
fn what_was_allocated_is_not_allocated_again() {
    let scene = Scene { minor: 2, ..scene() };
    let client = Client::persistent(&scene);
    let file = scene.file(b"f");
    let allocate = op(&NfsArgop4::OpAllocate(Allocate4Args {
        aa_stateid: crate::support::compound::stateid(0),
        aa_offset: 0,
        aa_length: 5000,
    }));
    let ops = [scene.put(file), allocate];
    assert_eq!(client.run(&scene, 0, 1, &ops).status, OK);
    let size = |scene: &Scene| scene.exports.tank.getattr(file).unwrap().size;
    assert_eq!(size(&scene), 5000);
    let (root, set) = (tally_vfs::Cred::root(), tally_vfs::SetAttr { size: Some(7), ..Default::default() });
    scene.exports.tank.setattr(tally_vfs::OpCtx::of(&root), file, &set, None).result.unwrap();
    let scene = scene.restart();
    assert_eq!(client.run(&scene, 0, 1, &ops).status, OK);
    assert_eq!(size(&scene), 7);
    assert_eq!(client.run(&scene, 0, 2, &ops).status, Nfs4ErrDeadsession);
}

/// The client's request was in the pool when that was suspended, and was told SERVERFAULT as it served again: its `open` with O_EXCL failed, and the file was there.
#[test]
fn what_a_suspended_pool_broke_off_is_told_once_it_serves_again() {
    let scene = scene();
    let client = Client::persistent(&scene);
    let ops = [scene.put_tank(), guarded(b"mine"), get_handle()];
    let asked = client.request(0, 1, &ops);
    scene.hold();
    let (mut job, step) = scene.begin(600, &asked);
    assert!(matches!(step, Step::Wait(_)));
    scene.exports.tank.suspended.store(true, SeqCst);
    let broken: Fate = Err(Broken("the pool is suspended".into()));
    assert!(scene.service.stays_in_doubt(&mut job, Some(&broken)));
    drop(step);
    // Slot and sequence stay.
    let told = client.run(&scene, 0, 1, &ops);
    assert_eq!((told.status, told.resarray.0.len()), (Nfs4ErrDelay, 1), "{told:?}");
    *scene.exports.away.lock() = true;
    assert_eq!(client.run(&scene, 0, 1, &ops).status, Nfs4ErrDelay);
    *scene.exports.away.lock() = false;

    scene.exports.mount_anew();
    let anew = scene.exports.anew.lock().clone().unwrap();
    anew.unlistable.store(true, SeqCst);
    let step = scene.service.run(&mut job);
    let told = scene.end(&mut job, step, &asked);
    assert_eq!(told.status, OK, "{told:?}");
    assert_eq!(anew.changes.load(SeqCst), 0, "nothing is carried out");
    assert_eq!(client.run(&scene, 0, 1, &ops), told, "from here on its slot has that");
    let other = [scene.put_tank(), guarded(b"other")];
    assert_eq!(client.run(&scene, 0, 1, &other).status, Nfs4ErrSeqFalseRetry);
    assert_eq!(client.run(&scene, 0, 2, &other).status, OK, "and the session goes on");
}

/// What of it was not done nobody does, and nobody tells a client that its session is dead, which lives.
#[test]
fn what_was_not_done_of_what_was_broken_off_is_a_fault() {
    let scene = scene();
    let client = Client::persistent(&scene);
    let tank = scene.exports.tank.clone();
    let ops = [scene.put_tank(), make(b"a"), scene.put_tank(), make(b"b")];
    let broken: Fate = Err(Broken("the pool is suspended".into()));
    for slot in [0, 1] {
        // Of the second nothing is done.
        let ops = if slot == 0 { &ops[..] } else { &ops[2..] };
        if slot == 0 {
            tank.throttle_behind(1);
        } else {
            tank.throttle.store(1, SeqCst);
        }
        let (mut job, step) = scene.begin(600 + slot, &client.request(slot, 1, ops));
        assert!(matches!(step, Step::Again(_)));
        tank.suspended.store(true, SeqCst);
        assert!(scene.service.stays_in_doubt(&mut job, Some(&broken)));
        drop((job, step));
        tank.suspended.store(false, SeqCst);
        let told = client.run(&scene, slot, 1, ops);
        assert_eq!(
            (told.status, told.resarray.0.len()),
            (Nfs4ErrServerfault, 2),
            "on this mount nobody knows what is durable"
        );
    }
    scene.exports.mount_anew();
    let told = client.run(&scene, 0, 1, &ops);
    assert_eq!((told.status, told.resarray.0.len()), (Nfs4ErrServerfault, 5), "{told:?}");
    assert_eq!(client.run(&scene, 0, 1, &ops), told);
    let told = client.run(&scene, 1, 1, &ops[2..]);
    assert_eq!((told.status, told.resarray.0.len()), (Nfs4ErrServerfault, 2), "{told:?}");
    assert!(scene.has(b"a") && !scene.has(b"b"));
    // One that is not persistent has left no mark, whatever its pool says.
    let fleeting = Client::new(&scene, b"one", 0);
    let anew = scene.exports.anew.lock().clone().unwrap();
    anew.throttle.store(1, SeqCst);
    let (mut job, step) = scene.begin(700, &fleeting.request(0, 1, &ops));
    anew.suspended.store(true, SeqCst);
    assert!(scene.service.stays_in_doubt(&mut job, Some(&broken)));
    drop((job, step));
    let told = fleeting.run(&scene, 0, 1, &ops);
    assert_eq!((told.status, told.resarray.0.len()), (Nfs4ErrServerfault, 2), "{told:?}");
}

/// What goes through once more and finds that it has to come again leaves its slot as it was.
#[test]
fn what_was_broken_off_and_is_told_to_come_again_comes_again() {
    let scene = scene();
    let client = Client::persistent(&scene);
    let ops = [scene.put_tank(), guarded(b"mine"), scene.put_tank(), read_dir(0, 4096, &[1])];
    scene.hold();
    let (mut job, step) = scene.begin(600, &client.request(0, 1, &ops));
    scene.exports.tank.suspended.store(true, SeqCst);
    assert!(scene.service.stays_in_doubt(&mut job, Some(&Err(Broken("the pool is suspended".into())))));
    drop((job, step));
    scene.exports.mount_anew();
    let anew = scene.exports.anew.lock().clone().unwrap();
    anew.unlistable.store(true, SeqCst);
    for _ in 0..2 {
        let told = client.run(&scene, 0, 1, &ops);
        assert_eq!((told.status, told.resarray.0.len()), (Nfs4ErrDelay, 1), "{told:?}");
    }
    anew.unlistable.store(false, SeqCst);
    assert_eq!(client.run(&scene, 0, 1, &ops).status, OK);
}

/// A pool that was exported and imported took the sessions of this very start for those of a life before: their marks aged, and were the first to give way to others.
#[test]
fn a_pool_that_comes_is_told_which_sessions_live() {
    let scene = scene();
    let client = Client::persistent(&scene);
    let fleeting = Client::new(&scene, b"one", 0);
    scene.exports.mount_anew();
    assert_eq!(fleeting.run(&scene, 0, 1, &[scene.put_tank()]).status, OK);
    let anew = scene.exports.anew.lock().clone().unwrap();
    assert_eq!(*anew.kept_sessions.lock(), [client.session]);
    // Also where nobody says a word.
    scene.exports.mount_anew();
    scene.service.look_after_clients();
    let anew = scene.exports.anew.lock().clone().unwrap();
    assert_eq!(*anew.kept_sessions.lock(), [client.session]);
}

/// Pools keep it over restarts, and other builds read it: a request that a build from before has carried out is known by the same value.
#[test]
fn a_request_is_known_by_the_same_value_for_ever() {
    let scene = scene();
    let client = Client::persistent(&scene);
    let ops = [op(&NfsArgop4::OpPutrootfh), lookup(b"tank"), make(b"d")];
    assert_eq!(client.run(&scene, 0, 1, &ops).status, OK);
    let fingerprint = 0xc830_41fb_8e3b_52ba;
    let mark = SlotMark { session: client.session, slot: 0, operation: 3, sequence: 1, fingerprint };
    assert_eq!(scene.exports.tank.known(&mark), Known::Request);
    assert!(scene.exports.tank.performed(&mark).is_some());
}
