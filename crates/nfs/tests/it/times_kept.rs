//! A client of minor version 2 that has a file for writing sets its times there as well, and its delegation stands for its open (RFC 9754; rules V11).

use std::time::Duration;

use crate::support::compound::{Op, get_attr, lookup, of_mode, op, remove, set, stateid};
use crate::support::delegates::{delegated, give_back, open_of, opened, test, tested, write_by};
use crate::support::keeper::{
    answer, answer_with, call, client, introduced, next_call, opens, pass, run, status, written_scene as scene,
};
use crate::support::opener::{READ, WRITE, close, open, read_by};
use crate::support::scene::{Scene, fate};

use crate::support::session::sequence;
use tally_base::FileTime;
use tally_nfs::service::Step;
use tally_vfs::{Attr, Attributes, Gives, Opens};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    CbGetattr4Res, CbGetattr4Resok, Createhow4, Fattr4, Fattr4Value, NfsArgop4, NfsCbArgop4, NfsCbResop4,
    NfsSpaceLimit4, Nfsstat4, Nfstime4, Open4Args, Open4Resok, OpenClaim4, OpenDelegation4, OpenDelegationType4,
    OpenOwner4, Openflag4, Setattr4Args, Stateid4,
};

const OK: Nfsstat4 = Nfs4Ok;
const BOTH: u32 = READ | WRITE;
/// What a client says that it knows, and that it is given a delegation alone.
const TIMES: u32 = 0x10_0000;
const EITHER: u32 = 0x20_0000;
const ALONE: u32 = 0x10;

fn attr(scene: &Scene, name: &[u8]) -> Attr {
    scene.exports.tank.getattr(scene.file_named(name)).unwrap()
}

/// One for writing, whose client keeps the times.
fn kept(opened: &Open4Resok) -> Stateid4 {
    match &opened.delegation {
        OpenDelegation4::OpenDelegateWriteAttrsDeleg(write) => {
            assert!(matches!(write.space_limit, NfsSpaceLimit4::NfsLimitSize(_)));
            write.stateid.clone()
        }
        other => panic!("{other:?}"),
    }
}

fn time(seconds: i64) -> Nfstime4 {
    Nfstime4 { seconds, nseconds: 5 }
}

fn set_by(stateid: &Stateid4, values: &[Fattr4Value]) -> Op {
    let (stateid, obj_attributes) = (stateid.clone(), Fattr4::of(values));
    op(&NfsArgop4::OpSetattr(Setattr4Args { stateid, obj_attributes }))
}

fn modified(seconds: i64) -> Fattr4Value {
    Fattr4Value::Fattr4TimeDelegModify(time(seconds))
}

fn made(name: &[u8], how: Createhow4, access: u32) -> Op {
    op(&NfsArgop4::OpOpen(Open4Args {
        seqid: 0,
        share_access: access,
        share_deny: 0,
        owner: OpenOwner4 { clientid: 0, owner: b"o"[..].into() },
        openhow: Openflag4::Open4Create(how),
        claim: OpenClaim4::ClaimNull(name.into()),
    }))
}

#[test]
fn a_delegation_stands_for_an_open() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    let both = [made(b"new", Createhow4::Guarded4(of_mode(0o600)), BOTH | TIMES | EITHER), op(&NfsArgop4::OpGetfh)];
    let reply = run(&mut a, &both[..1]);
    let told = opened(reply.resarray.0.last().cloned()).unwrap();
    assert_eq!((told.rflags & ALONE, told.stateid.clone()), (ALONE, stateid(0)));
    let kept = kept(&told);
    assert!(scene.exports.tank.in_the_way(scene.file_named(b"new"), None, deny_all()).is_empty(), "nobody has it open");
    assert_eq!(status(&mut a, &[lookup(b"new"), write_by(kept.clone(), b"content"), read_by(kept.clone())]), OK);
    assert_eq!(tested(a.run(&[test(kept.clone())]).pop()), OK);
    assert_eq!(status(&mut a, &[lookup(b"new"), close(stateid(0))]), Nfs4ErrBadStateid);
    // One to read as well, of which nobody says times.
    let told = opens(&mut a, b"g", READ | TIMES | EITHER);
    assert_eq!((told.rflags & ALONE, told.delegation.on()), (ALONE, OpenDelegationType4::OpenDelegateRead));
    // Another one that comes has it called back; what was opened without a word is opened here before that.
    let mut b = client(&scene, "b", 3);
    let all = [b.sequence(), scene.put_tank(), remove(b"new")];
    let (mut job, step) = scene.begin_on(&b.link, 900, &all);
    assert!(matches!(step, Step::Again(_)));
    let (over, told) = (fate(step), call(&scene).unwrap());
    answer(&scene, &told, OK);
    let cur = open_of(b"o", OpenClaim4::ClaimDelegCurFh(kept.clone()), BOTH | EITHER, 0);
    let reply = run(&mut a, &[lookup(b"new"), cur]);
    let again = opened(reply.resarray.0.last().cloned()).unwrap();
    assert_eq!((again.rflags & ALONE, again.delegation.on()), (0, OpenDelegationType4::OpenDelegateNone));
    let put = scene.put(scene.file_named(b"new"));
    assert_eq!(a.status(&[put.clone(), give_back(kept)]), OK);
    assert!(over.try_recv().is_ok());
    let step = scene.service.run(&mut job);
    assert_eq!(scene.end(&mut job, step, &all).status, OK);
    assert_eq!(a.status(&[put, read_by(again.stateid)]), OK, "it is open still");
}

fn deny_all() -> tally_vfs::Share {
    tally_vfs::Share { access: tally_vfs::Access::BOTH, deny: tally_vfs::Deny::BOTH }
}

/// Where the open says more than that, or was there before, it stays.
#[test]
fn what_else_an_open_says_is_kept() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    let denies = a.opened(open(b"f", BOTH | TIMES | EITHER, 2));
    assert_eq!(denies.rflags & ALONE, 0);
    kept(&denies);
    let before = opens(&mut a, b"g", READ | 0x400);
    let after = opens(&mut a, b"g", BOTH | TIMES | EITHER);
    assert_eq!((after.rflags & ALONE, after.stateid.other), (0, before.stateid.other));
    kept(&after);
    // Who says neither is told nothing of either, nor is who is given nothing.
    scene.file(b"h");
    let plain = opens(&mut a, b"h", BOTH);
    assert_eq!((plain.rflags & ALONE, plain.delegation.on()), (0, OpenDelegationType4::OpenDelegateWrite));
    scene.file(b"i");
    let none = opens(&mut a, b"i", BOTH | 0x400 | TIMES | EITHER);
    assert_eq!((none.rflags & ALONE, none.delegation.on()), (0, OpenDelegationType4::OpenDelegateNoneExt));
    assert_eq!(status(&mut a, &[lookup(b"i"), close(none.stateid)]), OK);
}

/// Rules V11: as it has set them, but not in the future; and what others go by never falls.
#[test]
fn who_keeps_a_file_for_writing_sets_its_times() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    let kept = kept(&opens(&mut a, b"f", BOTH | TIMES));
    let before = attr(&scene, b"f");
    let accessed = Fattr4Value::Fattr4TimeDelegAccess(time(2_000));
    assert_eq!(status(&mut a, &[lookup(b"f"), set_by(&kept, &[accessed, modified(1_000)])]), OK);
    let long_ago = attr(&scene, b"f");
    assert_eq!((long_ago.atime, long_ago.mtime), (FileTime::new(2_000, 5), FileTime::new(1_000, 5)));
    assert!(long_ago.change > before.change && long_ago.ctime >= before.ctime);
    assert_eq!(status(&mut a, &[lookup(b"f"), set_by(&kept, &[modified(9_000_000_000)])]), OK);
    let now = attr(&scene, b"f");
    assert!(now.mtime >= before.mtime && now.mtime <= now.ctime.into() && now.change > long_ago.change, "{now:?}");
    // Whoever set it was told that it is set: the nearest that there is.
    for (seconds, nearest) in [(i64::MIN, FileTime(i64::MIN)), (-1, FileTime::new(-1, 5)), (1, FileTime::new(1, 5))] {
        assert_eq!(status(&mut a, &[lookup(b"f"), set_by(&kept, &[modified(seconds)])]), OK);
        assert_eq!(attr(&scene, b"f").mtime, nearest);
    }
}

#[test]
fn nobody_else_sets_times_so() {
    let scene = scene();
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    let kept_times = kept(&opens(&mut a, b"f", BOTH | TIMES));
    let without = opens(&mut a, b"g", BOTH);
    let OpenDelegation4::OpenDelegateWrite(plain) = &without.delegation else { panic!("{without:?}") };
    scene.file(b"h");
    let to_read = opens(&mut a, b"h", READ | TIMES);
    let OpenDelegation4::OpenDelegateRead(read) = &to_read.delegation else { panic!("{to_read:?}") };
    let before = [b"f", b"g", b"h"].map(|name| attr(&scene, name));
    let set = |name: &[u8], stateid: &Stateid4| [lookup(name), set_by(stateid, &[modified(7)])];
    assert_eq!(status(&mut a, &set(b"f", &stateid(0))), Nfs4ErrInval);
    assert_eq!(status(&mut a, &set(b"g", &without.stateid)), Nfs4ErrInval);
    assert_eq!(status(&mut a, &set(b"g", &plain.stateid)), Nfs4ErrInval);
    assert_eq!(status(&mut a, &set(b"h", &read.stateid)), Nfs4ErrInval);
    assert_eq!(status(&mut a, &set(b"g", &kept_times)), Nfs4ErrBadStateid, "of another file");
    assert_eq!(status(&mut b, &set(b"f", &kept_times)), Nfs4ErrBadStateid, "of another client");
    // Beside a time that is set as ever.
    let twice = [Fattr4Value::Fattr4TimeModifySet(tally_wire::nfs4::Settime4::SetToClientTime4(time(5))), modified(7)];
    assert_eq!(status(&mut a, &[lookup(b"f"), set_by(&kept_times, &twice)]), Nfs4ErrInval);
    // What is made has none.
    let with = Createhow4::Guarded4(Fattr4::of(&[modified(7)]));
    assert_eq!(status(&mut a, &[made(b"new", with, BOTH)]), Nfs4ErrInval);
    assert_eq!([b"f", b"g", b"h"].map(|name| attr(&scene, name)), before);
}

#[test]
fn it_is_claimed_again_as_it_was() {
    let scene = scene();
    let f = scene.file_named(b"f");
    let mut a = client(&scene, "a", 2);
    kept(&opens(&mut a, b"f", BOTH | TIMES | EITHER));
    drop(a);
    let scene = std::sync::Arc::into_inner(scene).unwrap().restart();
    let session = introduced(&scene, b"a");
    let claim = OpenClaim4::ClaimPrevious(OpenDelegationType4::OpenDelegateWriteAttrsDeleg);
    let ops = [sequence(session, 0, 1, false), scene.put(f), open_of(b"o", claim, BOTH | TIMES | EITHER, 0)];
    let told = opened(scene.run(901, &ops).resarray.0.last().cloned()).unwrap();
    let kept = kept(&told);
    assert_eq!(told.rflags & ALONE, 0, "what was claimed is open");
    let ops = [sequence(session, 0, 2, false), scene.put(f), set_by(&kept, &[modified(7)]), give_back(kept)];
    assert_eq!(scene.run(902, &ops).status, OK);
    assert_eq!(attr(&scene, b"f").mtime, FileTime::new(7, 5));
}

#[test]
fn one_to_read_stands_for_no_open_to_write() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    let told = opens(&mut a, b"f", BOTH | 0x100 | EITHER);
    assert!(delegated(&told).is_some());
    assert_eq!(told.rflags & ALONE, 0, "{told:?}");
    assert_eq!(status(&mut a, &[lookup(b"f"), write_by(told.stateid, b"x")]), OK);
}

#[test]
fn what_another_mount_of_the_same_client_removes_stays_as_long_as_it_is_open() {
    for (access, either) in [(BOTH, 0), (READ, 0), (READ, EITHER), (BOTH, EITHER)] {
        let scene = scene();
        let mut a = client(&scene, "a", 2);
        let told = opens(&mut a, b"f", access | TIMES | either);
        let kept = if access == BOTH { kept(&told) } else { delegated(&told).unwrap().0 };
        let put = scene.put(scene.file_named(b"f"));
        let removed = status(&mut a, &[remove(b"f")]);
        assert_eq!(a.status(&[put, read_by(kept)]), OK, "{access} {either:#x}: {removed:?}");
    }
}

#[test]
fn who_is_in_nobodys_way_is_not_recalled_as_another_one_was_late() {
    let (scene, mut clock) = (scene(), Duration::ZERO);
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    for one in [&mut a, &mut b] {
        assert!(delegated(&opens(one, b"f", READ)).is_some());
    }
    pass(&scene, &mut clock, Duration::from_secs(120), &mut [&mut a]);
    assert_eq!(status(&mut a, &[lookup(b"f"), set(of_mode(0o600))]), OK);
    assert!(call(&scene).is_none(), "its own is asked for");
}

#[test]
fn a_clock_that_is_ahead_changes_a_file_once() {
    let scene = scene();
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    kept(&opens(&mut a, b"f", BOTH | TIMES));
    let given = attr(&scene, b"f");
    let mut seen = Vec::new();
    for _ in 0..3 {
        let all = [b.sequence(), scene.put_tank(), lookup(b"f"), get_attr(&[3, 4, 53])];
        let (mut job, step) = scene.begin_on(&b.link, 5000 + b.next, &all);
        assert!(matches!(step, Step::Again(_)));
        let over = fate(step);
        let (id, sequence, asked) = next_call(&scene).unwrap();
        assert!(matches!(asked, NfsCbArgop4::OpCbGetattr(_)));
        let values = [
            Fattr4Value::Fattr4Change(given.change.0),
            Fattr4Value::Fattr4Size(0),
            Fattr4Value::Fattr4TimeDelegModify(Nfstime4 { seconds: 9_000_000_000, nseconds: 0 }),
        ];
        let told = CbGetattr4Res::Nfs4Ok(CbGetattr4Resok { obj_attributes: Fattr4::of(&values) });
        answer_with(&scene, (&id, &sequence), OK, NfsCbResop4::OpCbGetattr(told));
        assert!(over.try_recv().is_ok());
        let step = scene.service.run(&mut job);
        assert_eq!(scene.end(&mut job, step, &all).status, OK);
        let now = attr(&scene, b"f");
        seen.push((now.change, now.mtime));
    }
    assert_eq!(seen[1], seen[0]);
    assert_eq!(seen[2], seen[0]);
}

#[test]
fn times_that_are_there_already_change_nothing() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    let kept = kept(&opens(&mut a, b"f", BOTH | TIMES));
    let before = attr(&scene, b"f");
    let time = |time: tally_base::FileTime| Nfstime4 { seconds: time.seconds(), nseconds: time.subsec_nanos() };
    let values = [
        Fattr4Value::Fattr4TimeDelegAccess(time(before.atime)),
        Fattr4Value::Fattr4TimeDelegModify(time(before.mtime)),
    ];
    let set = op(&NfsArgop4::OpSetattr(Setattr4Args { stateid: kept, obj_attributes: Fattr4::of(&values) }));
    assert_eq!(status(&mut a, &[lookup(b"f"), set]), OK);
    assert_eq!(attr(&scene, b"f"), before);
}

#[test]
fn who_cuts_by_an_open_to_read_finds_another_owners_in_his_way() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    assert_eq!(status(&mut a, &[lookup(b"f"), write_by(stateid(0), b"content")]), OK);
    assert!(delegated(&opens(&mut a, b"f", READ)).is_some());
    let cut = Openflag4::Open4Create(Createhow4::Unchecked4(Fattr4::of(&[Fattr4Value::Fattr4Size(0)])));
    let made = op(&NfsArgop4::OpOpen(Open4Args {
        seqid: 0,
        share_access: READ,
        share_deny: 0,
        owner: OpenOwner4 { clientid: 0, owner: b"another"[..].into() },
        openhow: cut,
        claim: OpenClaim4::ClaimNull(b"f"[..].into()),
    }));
    let reply = run(&mut a, &[made]);
    assert_eq!((reply.status, attr(&scene, b"f").size), (Nfs4ErrDelay, 7));
    assert!(call(&scene).is_some());
}

/// Two OPENs of one owner beside each other: whoever was told a stateid has it.
#[test]
fn an_open_that_another_one_was_told_of_is_not_closed() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    let (told, second) = std::sync::mpsc::channel();
    let (beside, session) = (scene.clone(), a.session);
    *scene.exports.tank.behind_an_open.lock() = Some(Box::new(move || {
        let open = open_of(b"o", OpenClaim4::ClaimNull(b"f"[..].into()), READ, 0);
        let ops = [sequence(session, 1, 1, false), beside.put_tank(), open];
        told.send(opened(beside.run(800, &ops).resarray.0.pop()).expect("it is opened")).unwrap();
    }));
    let first = opens(&mut a, b"f", BOTH | TIMES | EITHER);
    let second = second.try_recv().unwrap();
    assert_eq!(second.rflags & ALONE, 0);
    assert_eq!(
        status(&mut a, &[lookup(b"f"), read_by(Stateid4 { seqid: 0, ..second.stateid })]),
        OK,
        "{:#x}",
        first.rflags
    );
}

/// What its owner had open without a word it claims whatever its mode says by now.
#[test]
fn who_made_a_file_that_nobody_may_write_goes_on_writing_it_when_it_is_called_back() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    let owned = Fattr4::of(&[Fattr4Value::Fattr4Mode(0o644), Fattr4Value::Fattr4Owner(b"1000"[..].into())]);
    assert_eq!(status(&mut a, &[lookup(b"f"), set(owned)]), OK);
    let mut as_user = |ops: &[Op]| {
        let all = [&[a.sequence(), scene.put_tank()], ops].concat();
        let record = crate::support::client::record(
            7000 + a.next,
            (1000, &[1000]),
            (tally_nfs::v3::PROGRAM, 4),
            1,
            crate::support::compound::arguments(2, &all),
        );
        let mut job = scene.service.open(record.into(), &a.link, std::time::Instant::now()).expect("a call");
        let step = scene.service.run(&mut job);
        let Step::Reply(reply) = step else { panic!("it waits") };
        scene.service.finish(&mut job, &reply);
        crate::support::scene::read_reply(&reply, &all)
    };
    let null = |access| open_of(b"o", OpenClaim4::ClaimNull(b"f"[..].into()), access, 0);
    let told = as_user(&[null(BOTH | TIMES | EITHER)]);
    let told = opened(told.resarray.0.last().cloned()).expect("it is opened");
    let kept = kept(&told);
    assert_eq!(told.rflags & ALONE, ALONE);
    assert_eq!(as_user(&[lookup(b"f"), set(of_mode(0o444)), write_by(kept.clone(), b"one")]).status, OK);
    let cur = open_of(b"o", OpenClaim4::ClaimDelegCurFh(kept), BOTH | EITHER, 0);
    assert_eq!(as_user(&[lookup(b"f"), cur]).status, OK);
}

/// Behind a crash of the server a client may forget what it has not given back, so that is for who has asked for all there is.
#[test]
fn where_nobody_has_asked_for_it_no_times_are_kept() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    scene.exports.tank.model.set_gives(Gives::AmongClients);
    let told = opens(&mut a, b"f", BOTH | TIMES | EITHER);
    assert_eq!((told.rflags & ALONE, told.delegation.on()), (ALONE, OpenDelegationType4::OpenDelegateWrite));
}
