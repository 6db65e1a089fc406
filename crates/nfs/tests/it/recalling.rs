//! What does not come back is taken a lease later, and its client is told; what ends with clients, mounts and restarts (rules V20, V24, V27 and V37): with a clock that the test moves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::client::record;
use crate::support::compound::{Op, arguments, get_attr, lookup, op, remove};
use crate::support::delegates::{delegated, give_back, open_by, opened};
use crate::support::keeper::{answer, answer_with, call, called, client, introduced, next_call, pass, run, status};
use crate::support::opener::{Opener, READ, WRITE, close, free, open, read_by};
use crate::support::scene::Scene;
use crate::support::session::{Newcomer, channel, complete, sequence};
use tally_nfs::link::Link;
use tally_nfs::service::Step;
use tally_nfs::v4::state::bounds::DELEGATIONS_OF_CLIENT_MANY;
use tally_nfs::{v3, v4};
use tally_vfs::{Access, ClientNumber, Cred, Delegation, Holder, OpCtx, Opening, Opens, OwnerNumber, Share, ToOpen};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    CbRecallAny4Res, ChannelAttrs4, CreateSession4Res, DestroyClientid4Args, NfsArgop4, NfsCbArgop4, NfsCbResop4,
    NfsResop4, Nfsstat4, OpenClaim4, OpenDelegationType4, Stateid4,
};

const OK: Nfsstat4 = Nfs4Ok;
const LEASE: Duration = Duration::from_secs(90);
const MOMENT: Duration = Duration::from_secs(5);
/// `SEQ4_STATUS_RECALLABLE_STATE_REVOKED`, and of what an administrator took.
const RECALLABLE_REVOKED: u32 = 0x40;
const ADMIN_REVOKED: u32 = 0x20;

fn scene() -> Scene {
    Scene { minor: 1, ..Scene::new() }
}

fn keeps(client: &mut Opener, name: &[u8]) -> Stateid4 {
    let opened = opened(run(client, &[open(name, READ, 0)]).resarray.0.pop()).expect("it is opened");
    delegated(&opened).expect("it is given").0
}

#[test]
fn what_is_not_given_back_within_a_lease_is_taken() {
    let (scene, mut clock) = (Arc::new(scene()), Duration::ZERO);
    ["f", "g"].iter().for_each(|name| _ = scene.file(name.as_bytes()));
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    let (kept, other) = (keeps(&mut a, b"f"), keeps(&mut a, b"g"));
    assert_eq!(status(&mut b, &[remove(b"f")]), Nfs4ErrDelay);
    let told = call(&scene).expect("it is called");
    assert_eq!(told.2.stateid, kept);
    answer(&scene, &told, OK);
    pass(&scene, &mut clock, LEASE - MOMENT, &mut [&mut a, &mut b]);
    assert_eq!((status(&mut b, &[remove(b"f")]), a.flags()), (Nfs4ErrDelay, 0));
    pass(&scene, &mut clock, MOMENT * 2, &mut [&mut a, &mut b]);
    assert!(call(&scene).is_none(), "who has said that he comes is not asked again");
    assert_eq!(status(&mut b, &[remove(b"f")]), OK);
    assert_eq!((a.flags(), b.flags()), (RECALLABLE_REVOKED, 0));
    assert_eq!(a.tested(&[&kept, &other]), [Nfs4ErrDelegRevoked, OK]);
    assert_eq!(a.status(&[lookup(b"g"), read_by(other.clone())]), OK);
    assert_eq!(a.status(&[free(kept.clone())]), OK);
    assert_eq!((a.flags(), a.tested(&[&kept])), (0, vec![Nfs4ErrBadStateid]));
    assert_eq!(a.status(&[lookup(b"g"), give_back(other)]), OK);
}

/// A client with one slot, that takes its time with each answer: what nobody had called it for was taken a lease later, as what was called for a moment ago.
#[test]
fn who_was_called_late_for_want_of_a_slot_has_his_lease() {
    let (scene, mut clock) = (Arc::new(scene()), Duration::ZERO);
    let name = |number: usize| format!("f{number}").into_bytes();
    (0..12).for_each(|number| _ = scene.file(&name(number)));
    let (mut a, mut b) = (Opener::beside(&scene, "a", 2), client(&scene, "b", 3));
    let one_slot = Newcomer { back: ChannelAttrs4 { ca_maxrequests: 1, ..channel() }, ..called(b"a") };
    let made = a.send(&[one_slot.session(a.client, 2)]);
    let Some(NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(created))) = made.resarray.0.last() else {
        panic!("{made:?}")
    };
    (a.session, a.next) = (created.csr_sessionid, 1);
    let kept: Vec<_> = (0..12).map(|number| keeps(&mut a, &name(number))).collect();
    for number in 0..12 {
        assert_eq!(status(&mut b, &[remove(&name(number))]), Nfs4ErrDelay);
    }
    for nth in 0..12 {
        // Who found no slot is called a second later.
        let told = (0..4).find_map(|_| {
            let told = call(&scene);
            pass(&scene, &mut clock, Duration::from_millis(500), &mut []);
            told
        });
        let told = told.unwrap_or_else(|| panic!("call {nth}"));
        assert!(call(&scene).is_none(), "there is one slot");
        pass(&scene, &mut clock, Duration::from_secs(9), &mut [&mut a, &mut b]);
        answer(&scene, &told, OK);
        let number = kept.iter().position(|kept| *kept == told.2.stateid).expect("it has that");
        assert_eq!(a.status(&[lookup(&name(number)), give_back(told.2.stateid)]), OK, "{nth}");
        assert_eq!(status(&mut b, &[remove(&name(number))]), OK);
    }
    assert_eq!(a.flags(), 0);
}

/// Who changed that file would wait as long again.
#[test]
fn from_whom_one_was_taken_is_given_no_other_before_it_knows() {
    let (scene, mut clock) = (Arc::new(scene()), Duration::ZERO);
    ["f", "g"].iter().for_each(|name| _ = scene.file(name.as_bytes()));
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    let kept = keeps(&mut a, b"f");
    assert_eq!(status(&mut b, &[remove(b"f")]), Nfs4ErrDelay);
    answer(&scene, &call(&scene).expect("it is called"), OK);
    pass(&scene, &mut clock, LEASE + MOMENT, &mut [&mut a, &mut b]);
    assert_eq!(status(&mut b, &[remove(b"f")]), OK);
    let asks = |a: &mut Opener| delegated(&opened(run(a, &[open(b"g", READ, 0)]).resarray.0.pop()).unwrap());
    assert_eq!(asks(&mut a), None);
    assert_eq!(a.status(&[free(kept)]), OK);
    assert!(asks(&mut a).is_some());
}

/// A client that says it has none, and has read the answer by which it was given, has given it back, or has passed over it: there is nothing that it would have to
/// be told of, or could free. Who may have that answer before him still is told that it is his no more.
#[test]
fn who_has_none_for_five_seconds_has_none() {
    who_has_none(true);
    who_has_none(false);
}

fn who_has_none(has_read: bool) {
    let (scene, mut clock) = (Arc::new(scene()), Duration::ZERO);
    scene.file(b"f");
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    let kept = keeps(&mut a, b"f");
    if has_read {
        assert_eq!(a.flags(), 0);
    }
    // The clock of leases runs from the second look on.
    scene.service.look_at_clock(clock);
    assert_eq!(status(&mut b, &[remove(b"f")]), Nfs4ErrDelay);
    let mut calls = 0;
    while let Some(told) = call(&scene) {
        calls += 1;
        answer(&scene, &told, Nfs4ErrBadStateid);
        pass(&scene, &mut clock, Duration::from_millis(500), &mut []);
    }
    assert!((10..=12).contains(&calls), "{calls}");
    let told = if has_read { (0, vec![Nfs4ErrBadStateid]) } else { (RECALLABLE_REVOKED, vec![Nfs4ErrDelegRevoked]) };
    assert_eq!((a.flags(), a.tested(&[&kept])), told);
    assert_eq!(status(&mut b, &[remove(b"f")]), OK);
}

/// Rules V24: what was taken is others' from then on, and behind a crash its client does not claim it, nor anything else before it knows.
#[test]
fn from_whom_something_was_taken_claims_nothing_behind_a_crash() {
    for has_freed in [false, true] {
        let (scene, mut clock) = (scene(), Duration::ZERO);
        scene.exports.keep_clients();
        let scene = Arc::new(scene);
        ["f", "g"].iter().for_each(|name| _ = scene.file(name.as_bytes()));
        let put_g = scene.put(scene.file_named(b"g"));
        let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
        let kept = keeps(&mut a, b"f");
        assert_eq!(status(&mut b, &[open(b"f", WRITE, 0)]), Nfs4ErrDelay);
        pass(&scene, &mut clock, LEASE + MOMENT, &mut [&mut a, &mut b]);
        assert_eq!(status(&mut b, &[open(b"f", WRITE, 0)]), OK);
        if has_freed {
            assert_eq!(a.status(&[free(kept)]), OK);
        }
        assert_eq!(status(&mut a, &[open(b"g", READ, 0)]), OK);
        drop((a, b));
        let scene = Arc::into_inner(scene).unwrap().restart();
        let claims = |name: &[u8]| {
            let session = introduced(&scene, name);
            let claim = open_by(OpenClaim4::ClaimPrevious(OpenDelegationType4::OpenDelegateNone), READ, 0);
            scene.run(7, &[sequence(session, 0, 1, false), put_g.clone(), claim]).status
        };
        assert_eq!(claims(b"a"), if has_freed { OK } else { Nfs4ErrNoGrace });
        assert_eq!(claims(b"b"), OK);
    }
}

/// Where the dataset gives none any more a client that claims again what it had is told so, and opens the file without it.
#[test]
fn where_the_dataset_gives_none_nothing_is_claimed_again() {
    let scene = scene();
    scene.exports.keep_clients();
    let scene = Arc::new(scene);
    let file = scene.file(b"f");
    let mut a = client(&scene, "a", 2);
    keeps(&mut a, b"f");
    drop(a);
    let scene = Arc::into_inner(scene).unwrap().restart();
    scene.exports.tank.model.set_giving(false);
    let session = introduced(&scene, b"a");
    let claim = open_by(OpenClaim4::ClaimPrevious(OpenDelegationType4::OpenDelegateRead), READ, 0);
    let told = scene.run(11, &[sequence(session, 0, 1, false), scene.put(file), claim]).resarray.0.pop();
    assert_eq!(delegated(&opened(told).expect("it has it open")), None);
}

/// What a client had it claims again, and is asked for it with the same word: what it has kept of the file is to be looked at.
#[test]
fn what_is_claimed_again_is_asked_for_at_once() {
    let scene = scene();
    scene.exports.keep_clients();
    let scene = Arc::new(scene);
    let file = scene.file(b"f");
    let mut a = client(&scene, "a", 2);
    keeps(&mut a, b"f");
    drop(a);
    let scene = Arc::into_inner(scene).unwrap().restart();
    let session = introduced(&scene, b"a");
    let (put_f, put_tank) = (scene.put(file), scene.put_tank());
    let claim = |of| open_by(OpenClaim4::ClaimPrevious(of), READ, 0);
    let ask = |number, ops: &[Op]| scene.run(10 + number, &[&[sequence(session, 0, number, false)], ops].concat());
    // One for writing was never given.
    let told = ask(1, &[put_f.clone(), claim(OpenDelegationType4::OpenDelegateWrite)]).resarray.0.pop();
    assert_eq!(delegated(&opened(told).unwrap()), None);
    let told = ask(2, &[put_f.clone(), claim(OpenDelegationType4::OpenDelegateRead)]).resarray.0.pop();
    let (kept, is_recalled) = delegated(&opened(told).unwrap()).expect("it had it");
    assert!(is_recalled && call(&scene).is_none(), "it knows, and is not called");
    let other = introduced(&scene, b"b");
    let ops = [sequence(other, 0, 1, false), complete(), put_tank.clone(), remove(b"f")];
    let (mut job, step) = scene.begin(99, &ops);
    assert!(matches!(step, Step::Again(_)), "it is kept out");
    std::thread::sleep(Duration::from_millis(60));
    scene.service.end_parking();
    let step = scene.service.run(&mut job);
    assert_eq!(scene.end(&mut job, step, &ops).status, Nfs4ErrDelay);
    assert!(call(&scene).is_none(), "nor as somebody is kept out");
    assert_eq!(ask(3, &[complete(), put_f, give_back(kept)]).status, OK);
    assert_eq!(ask(4, &[put_tank, lookup(b"f"), get_attr(&[1])]).status, OK);
}

/// To give it back it may have to open and lock, which it is not let in the grace: so the time for that begins behind it.
#[test]
fn what_is_claimed_again_is_not_taken_before_it_can_be_given_back() {
    let (scene, mut clock) = (scene(), Duration::ZERO);
    scene.exports.keep_clients();
    let scene = Arc::new(scene);
    let file = scene.file(b"f");
    let mut a = client(&scene, "a", 2);
    keeps(&mut a, b"f");
    drop(a);
    let scene = Arc::into_inner(scene).unwrap().restart();
    scene.service.look_at_clock(clock);
    let session = introduced(&scene, b"a");
    let put_f = scene.put(file);
    let ask = |number, ops: &[Op]| scene.run(10 + number, &[&[sequence(session, 0, number, false)], ops].concat());
    let claim = open_by(OpenClaim4::ClaimPrevious(OpenDelegationType4::OpenDelegateRead), READ, 0);
    let told = ask(1, &[put_f.clone(), claim]).resarray.0.pop();
    let (kept, _) = delegated(&opened(told).unwrap()).expect("it had it");
    assert_eq!(ask(2, &[complete()]).status, OK);
    for number in 3..7 {
        pass(&scene, &mut clock, LEASE / 3, &mut []);
        assert_eq!(ask(number, &[]).status, OK);
    }
    assert_eq!(ask(7, &[put_f, give_back(kept)]).status, OK);
}

/// Rules V20: one whose lease is over is not asked, and in nobody's way.
#[test]
fn who_is_late_is_not_waited_for() {
    let (scene, mut clock) = (Arc::new(scene()), Duration::ZERO);
    ["f", "g"].iter().for_each(|name| _ = scene.file(name.as_bytes()));
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    let kept = keeps(&mut a, b"f");
    pass(&scene, &mut clock, LEASE * 2, &mut [&mut b]);
    // It is kept as long as it is in nobody's way.
    assert_eq!(a.status(&[lookup(b"f"), read_by(kept)]), OK);
    pass(&scene, &mut clock, LEASE * 2, &mut [&mut b]);
    assert_eq!(status(&mut b, &[remove(b"f")]), OK);
    assert!(call(&scene).is_none());
    let sequence = a.sequence();
    assert_eq!(a.send(&[sequence]).status, Nfs4ErrBadsession);
}

/// As where an OPEN panicked behind the file system, or its client went meanwhile.
#[test]
fn what_nobody_was_told_of_is_in_nobodys_way_also_where_its_client_is_gone() {
    let scene = Arc::new(scene());
    let (file, tank, cred) = (scene.file(b"f"), &scene.exports.tank, Cred::root());
    let gone = Holder { client: ClientNumber(77), owner: OwnerNumber(1) };
    let opening = Opening { share: Share::only(Access::READ), by: &|_| Ok(gone), wants: Some(Delegation::Read) };
    let opened = tank.open(OpCtx::of(&cred), ToOpen::Itself(file), opening).result.unwrap();
    assert_eq!(opened.delegated, Some(Delegation::Read));
    tank.close(file, gone);
    let mut b = client(&scene, "b", 3);
    assert_eq!(status(&mut b, &[remove(b"f")]), OK);
    assert!(call(&scene).is_none());
}

/// Rules V37.
#[test]
fn it_ends_with_its_mount() {
    let scene = Arc::new(scene());
    scene.file(b"f");
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    let opened = opened(run(&mut a, &[open(b"f", READ, 0)]).resarray.0.pop()).unwrap();
    let (kept, _) = delegated(&opened).unwrap();
    assert_eq!(a.status(&[lookup(b"f"), close(opened.stateid)]), OK);
    scene.exports.mount_anew();
    assert_eq!(a.flags(), ADMIN_REVOKED);
    assert_eq!(a.tested(&[&kept]), [Nfs4ErrAdminRevoked]);
    assert_eq!(a.status(&[lookup(b"f"), give_back(kept.clone())]), Nfs4ErrAdminRevoked);
    assert_eq!(status(&mut b, &[remove(b"f")]), OK);
    assert!(call(&scene).is_none());
    assert_eq!((a.status(&[free(kept)]), a.flags()), (OK, 0));
}

/// A client with nothing but a delegation holds something: another principal may not take its name, nor is it gone by a word of its own.
#[test]
fn a_client_that_keeps_a_file_is_busy() {
    let scene = Arc::new(scene());
    scene.file(b"f");
    let mut a = client(&scene, "a", 2);
    let opened = opened(run(&mut a, &[open(b"f", READ, 0)]).resarray.0.pop()).unwrap();
    let (kept, _) = delegated(&opened).unwrap();
    assert_eq!(a.status(&[lookup(b"f"), close(opened.stateid)]), OK);
    // Another principal.
    let ask = |scene: &Scene| {
        let record = record(77, (5, &[5]), (v3::PROGRAM, v4::VERSION), 1, arguments(1, &[called(b"a").introduction()]));
        let link = Arc::new(Link::new(9, "127.0.1.1:700".parse().unwrap()));
        let mut job = scene.service.open(record.into(), &link, Instant::now()).unwrap();
        let step = scene.service.run(&mut job);
        scene.end(&mut job, step, &[called(b"a").introduction()]).status
    };
    assert_eq!(ask(&scene), Nfs4ErrClidInuse);
    assert_eq!(a.tested(&[&kept]), [OK]);
    let destroy = op(&NfsArgop4::OpDestroyClientid(DestroyClientid4Args { dca_clientid: a.client }));
    assert_eq!(a.send(&[destroy]).status, Nfs4ErrClientidBusy);
}

/// Who holds nearly as many as one may is asked for what he does not use, and loses nothing if he does not answer.
#[test]
fn who_has_nearly_all_that_one_may_have_is_asked_for_what_he_does_not_use() {
    let (scene, mut clock) = (Arc::new(scene()), Duration::ZERO);
    scene.service.look_at_clock(clock);
    let mut a = client(&scene, "a", 2);
    let name = |number: usize| format!("f{number}").into_bytes();
    (0..=DELEGATIONS_OF_CLIENT_MANY).for_each(|number| _ = scene.file(&name(number)));
    let kept: Vec<_> = (0..DELEGATIONS_OF_CLIENT_MANY).map(|number| keeps(&mut a, &name(number))).collect();
    assert!(next_call(&scene).is_none());
    keeps(&mut a, &name(DELEGATIONS_OF_CLIENT_MANY));
    let (id, asked, what) = next_call(&scene).expect("there are too many");
    let NfsCbArgop4::OpCbRecallAny(any) = what else { panic!("{what:?}") };
    assert_eq!((any.craa_objects_to_keep as usize, &any.craa_type_mask.0[..]), (kept.len() / 2, &[3][..]));
    answer_with(&scene, (&id, &asked), OK, NfsCbResop4::OpCbRecallAny(CbRecallAny4Res { crar_status: OK }));
    pass(&scene, &mut clock, LEASE + MOMENT, &mut [&mut a]);
    assert!(next_call(&scene).is_none() && a.flags() == 0);
    assert_eq!(a.tested(&[&kept[0], &kept[kept.len() - 1]]), [OK; 2]);
}
