//! A client that opens a file to write it, and has it alone, may keep it: whom that keeps out, what has to be durable before, and who waits for it behind a restart (RFC 8881 §10.4;
//! rules V12, V15, V23 and V27).

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::support::client::{dir_name, mode, words, write_arguments};
use crate::support::compound::{Op, get_attr, link, lookup, of_mode, op, put_root, remove, rename, save, set, stateid};
use crate::support::delegates::{
    delegated, delegated_to_write, give_back, open_by, open_of, opened, test, tested, why_none, write_by,
};
use crate::support::gated::Promises;
use crate::support::keeper::{
    answer, call, client, handle, introduced, keeps, opens, pass, plain, run, status, written_scene as scene,
};
use crate::support::opener::{Opener, READ, WRITE, close, free, open, read_by};
use crate::support::scene::{Scene, fate, read_reply};
use crate::support::session::{complete, sequence};
use crate::support::{KEY, POOL};
use tally_nfs::handle::Handle;
use tally_nfs::service::Step;
use tally_nfs::v3::Procedure;
use tally_nfs::xdr::Encoder;
use tally_vfs::{Content, Cred, Gives, Identity, Names, OpCtx, Stability};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Copy4Args, DataContent4, LockOwner4, Lockt4Args, NfsArgop4, NfsLockType4, NfsResop4, Nfsstat4,
    OPEN4_RESULT_MAY_NOTIFY_LOCK, Open4Args, Open4Resok, OpenClaim4, OpenDelegationType4, OpenOwner4, Openflag4,
    Read4Res, Seek4Args, Setxattr4Args, SetxattrOption4,
};

const OK: Nfsstat4 = Nfs4Ok;
const BOTH: u32 = READ | WRITE;
const JUKEBOX: u32 = 10008;
const MIB: u64 = 1 << 20;
/// `why_no_delegation4`.
const NOT_WANTED: u32 = 0;
const CONTENTION: u32 = 1;
const RESOURCE: u32 = 2;
const NOT_UPGRADED: u32 = 5;

/// What stands in the pool's list, without its clients.
fn flags(scene: &Scene) -> Vec<String> {
    let clients = scene.exports.keep_clients();
    let page = clients.readdir(&Cred::root(), clients.root(), 0, 100, false).unwrap();
    let names = page.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned());
    names.filter(|name| name.contains('+')).collect()
}

fn read_arguments(file: &[u8]) -> Encoder {
    words(|words| {
        words.opaque(file).u64(0).u32(10);
    })
}

fn seek() -> Op {
    let args = Seek4Args { sa_stateid: stateid(0), sa_offset: 0, sa_what: DataContent4::Nfs4ContentData };
    op(&NfsArgop4::OpSeek(args))
}

fn copy() -> Op {
    op(&NfsArgop4::OpCopy(Copy4Args {
        ca_src_stateid: stateid(0),
        ca_dst_stateid: stateid(0),
        ca_src_offset: 0,
        ca_dst_offset: 0,
        ca_count: 0,
        ca_consecutive: true,
        ca_synchronous: true,
        ca_source_server: Vec::new().into(),
    }))
}

fn test_lock() -> Op {
    let owner = LockOwner4 { clientid: 0, owner: b"l"[..].into() };
    op(&NfsArgop4::OpLockt(Lockt4Args { locktype: NfsLockType4::ReadLt, offset: 0, length: 1, owner }))
}

fn set_xattr() -> Op {
    let sxa_option = SetxattrOption4::Setxattr4Either;
    let args = Setxattr4Args { sxa_option, sxa_key: b"a"[..].into(), sxa_value: b"b"[..].into() };
    op(&NfsArgop4::OpSetxattr(args))
}

fn claim(of: OpenDelegationType4, access: u32) -> Op {
    open_by(OpenClaim4::ClaimPrevious(of), access, 0)
}

#[test]
fn who_has_a_file_alone_may_keep_it_to_write() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    let (kept, is_recalled, space) = delegated_to_write(&opens(&mut a, b"f", WRITE)).unwrap();
    assert_eq!((is_recalled, space), (false, 1024 * MIB));
    assert_eq!(tested(a.run(&[test(kept.clone())]).pop()), OK);
    // What it may do by that alone.
    assert_eq!(a.status(&[lookup(b"f"), write_by(kept.clone(), b"mine")]), OK);
    match a.run(&[lookup(b"f"), read_by(kept.clone())]).pop() {
        Some(NfsResop4::OpRead(Read4Res::Nfs4Ok(read))) => assert_eq!(&read.data.0[..], b"mine"),
        other => panic!("{other:?}"),
    }
    assert_eq!(status(&mut a, &[lookup(b"f"), give_back(kept.clone())]), OK);
    // One that it makes it has alone as well.
    let how = Openflag4::Open4Create(tally_wire::nfs4::Createhow4::Guarded4(of_mode(0o644)));
    let made = op(&NfsArgop4::OpOpen(Open4Args {
        seqid: 0,
        share_access: BOTH,
        share_deny: 0,
        owner: OpenOwner4 { clientid: 0, owner: b"o"[..].into() },
        openhow: how,
        claim: OpenClaim4::ClaimNull(b"new"[..].into()),
    }));
    assert!(delegated_to_write(&opened(run(&mut a, &[made]).resarray.0.pop()).unwrap()).is_some());
}

/// Three threads of one client passed a lock on, of a file that it had for writing. It asked nobody here for that, and yet Linux waited
/// for half a minute to be told that it is free, as OPEN had said that it may be.
#[test]
fn who_keeps_the_locks_himself_is_told_of_none() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    let is_told = |opened: &Open4Resok| opened.rflags & OPEN4_RESULT_MAY_NOTIFY_LOCK != 0;
    let to_write = opens(&mut a, b"f", BOTH);
    assert_eq!((delegated_to_write(&to_write).is_some(), is_told(&to_write)), (true, false));
    // Beside one for reading there may be locks of others, and so where there is none.
    let to_read = opens(&mut a, b"g", READ);
    assert_eq!((delegated(&to_read).is_some(), is_told(&to_read)), (true, true));
    let kept = delegated_to_write(&to_write).unwrap().0;
    assert_eq!(status(&mut a, &[lookup(b"f"), give_back(kept)]), OK);
    assert!(is_told(&opens(&mut a, b"f", BOTH | 0x400)));
}

/// Whatever another one would see, or change: each begins a recall, waits for a moment, and goes on.
#[test]
fn what_recalls_one_for_writing() {
    let at_f = |ops: &[Op]| [&[lookup(b"f")], ops].concat();
    let from_f = [lookup(b"f"), save(), put_root(), lookup(b"tank"), lookup(b"g"), copy()];
    let to_f = [lookup(b"g"), save(), put_root(), lookup(b"tank"), lookup(b"f"), copy()];
    let cases = [
        ("read", at_f(&[read_by(stateid(0))])),
        ("read past denies", at_f(&[read_by(stateid(0xff))])),
        ("seek", at_f(&[seek()])),
        ("copy from it", from_f.to_vec()),
        ("copy to it", to_f.to_vec()),
        ("ask for a lock", at_f(&[test_lock()])),
        ("open to read", vec![open(b"f", READ, 0)]),
        ("open to write", vec![open(b"f", WRITE, 0)]),
        ("write", at_f(&[write_by(stateid(0), b"x")])),
        ("mode", at_f(&[set(of_mode(0o600))])),
        ("xattr", at_f(&[set_xattr()])),
        ("another name", at_f(&[save(), put_root(), lookup(b"tank"), link(b"h")])),
        ("rename", vec![save(), rename(b"f", b"i")]),
        ("rename over", vec![save(), rename(b"g", b"f")]),
        ("remove", vec![remove(b"f")]),
    ];
    for (what, ops) in cases {
        let scene = scene();
        let content = b"content"[..].into();
        let (cred, g) = (Cred::root(), scene.file_named(b"g"));
        let f = scene.file_named(b"f");
        for file in [f, g] {
            scene
                .exports
                .tank
                .write(OpCtx::of(&cred), file, 0, Clone::clone(&content), Stability::FileSync)
                .result
                .unwrap();
        }
        let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
        let kept = keeps(&mut a, b"f");
        let opened = opens(&mut a, b"f", READ);
        assert_eq!(a.status(&[lookup(b"f"), close(opened.stateid)]), OK);
        let all = [&[b.sequence(), scene.put_tank()], &ops[..]].concat();
        let (mut job, step) = scene.begin_on(&b.link, 900, &all);
        assert!(matches!(step, Step::Again(_)), "{what}");
        let over = fate(step);
        let told = call(&scene).unwrap_or_else(|| panic!("{what}"));
        assert_eq!(told.2.stateid, kept, "{what}");
        assert!(over.try_recv().is_err() && call(&scene).is_none(), "{what}");
        answer(&scene, &told, OK);
        assert_eq!(status(&mut a, &[lookup(b"f"), give_back(kept)]), OK, "{what}");
        assert!(over.try_recv().is_ok(), "{what}: it goes on");
        let step = scene.service.run(&mut job);
        assert_eq!(scene.end(&mut job, step, &all).status, OK, "{what}");
    }
}

/// Who does not give it back in a moment keeps no worker: it goes on without the client.
#[test]
fn who_reads_is_told_to_come_again() {
    let scene = scene();
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    let kept = keeps(&mut a, b"f");
    assert_eq!(status(&mut b, &[lookup(b"f"), read_by(stateid(0))]), Nfs4ErrDelay);
    assert_eq!(call(&scene).expect("it is called").2.stateid, kept);
    let file = handle(&scene, scene.file_named(b"f"));
    assert_eq!(plain(&scene, 1, Procedure::Read, read_arguments(&file)), JUKEBOX);
    assert_eq!(plain(&scene, 2, Procedure::Write, write_arguments(&file, 0, b"x", 2)), JUKEBOX);
    assert!(call(&scene).is_none(), "once");
    assert_eq!(status(&mut a, &[lookup(b"f"), give_back(kept)]), OK);
    assert_eq!(plain(&scene, 3, Procedure::Read, read_arguments(&file)), 0);
}

/// Nothing that its holder does is in its own way.
#[test]
fn who_keeps_a_file_to_write_is_not_in_its_own_way() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    let kept = keeps(&mut a, b"f");
    for ops in [
        vec![lookup(b"f"), write_by(stateid(0), b"x")],
        vec![open(b"f", READ, 0)],
        vec![open(b"f", BOTH, 0)],
        vec![lookup(b"f"), read_by(stateid(0))],
        vec![lookup(b"f"), seek()],
        vec![lookup(b"f"), test_lock()],
        vec![lookup(b"f"), set(of_mode(0o640)), get_attr(&[3, 4])],
        vec![lookup(b"f"), save(), scene.put_tank(), lookup(b"g"), copy()],
        vec![save(), rename(b"f", b"f2")],
    ] {
        assert_eq!(status(&mut a, &ops), OK);
        assert!(call(&scene).is_none());
    }
    assert_eq!(tested(a.run(&[test(kept)]).pop()), OK);
}

/// Two mounts of one machine that keep apart are one client with two caches, and owners of their own.
#[test]
fn what_an_owner_was_given_is_in_the_way_of_another_one_of_its_client() {
    let by = |access| open_of(b"another", OpenClaim4::ClaimNull(b"f"[..].into()), access, 0);
    let cut = Openflag4::Open4Create(tally_wire::nfs4::Createhow4::Unchecked4(of_mode(0o644)));
    let made = op(&NfsArgop4::OpOpen(Open4Args {
        seqid: 0,
        share_access: BOTH,
        share_deny: 0,
        owner: OpenOwner4 { clientid: 0, owner: b"another"[..].into() },
        openhow: cut,
        claim: OpenClaim4::ClaimNull(b"f"[..].into()),
    }));
    for (access, other) in [(BOTH, by(READ)), (BOTH, by(WRITE)), (BOTH, made), (READ, by(BOTH))] {
        let scene = scene();
        let mut a = client(&scene, "a", 2);
        let given = opens(&mut a, b"f", access);
        assert_eq!(status(&mut a, &[lookup(b"f"), close(given.stateid.clone())]), OK);
        let kept = delegated_to_write(&given).map(|given| given.0).or_else(|| Some(delegated(&given)?.0)).unwrap();
        let all = [a.sequence(), scene.put_tank(), other];
        let (mut job, step) = scene.begin_on(&a.link, 900, &all);
        assert!(matches!(step, Step::Again(_)), "{access}");
        let over = fate(step);
        let told = call(&scene).expect("it is asked for");
        assert_eq!(told.2.stateid, kept);
        answer(&scene, &told, OK);
        // What the first has opened without a word it opens here before it gives it back, in a slot of its own.
        let cur = OpenClaim4::ClaimDelegCurFh(kept.clone());
        let claims = [lookup(b"f"), open_of(b"a third", cur, READ, 0), give_back(kept)];
        let all_of_it = [&[sequence(a.session, 1, 1, false), scene.put_tank()], &claims[..]].concat();
        assert_eq!(scene.run(901, &all_of_it).status, OK, "{access}");
        assert!(over.try_recv().is_ok());
        let step = scene.service.run(&mut job);
        let reply = scene.end(&mut job, step, &all);
        assert_eq!(reply.status, OK);
        let none = opened(reply.resarray.0.last().cloned()).unwrap();
        assert_eq!((delegated_to_write(&none), call(&scene).is_none()), (None, true), "a moment ago it was recalled");
    }
}

/// It reads beside who reads, and is itself in the way of being alone.
#[test]
fn who_reads_by_another_owner_of_the_same_client() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    let by = |owner: &[u8], access| open_of(owner, OpenClaim4::ClaimNull(b"f"[..].into()), access, 0);
    let reads = a.opened(by(b"o", READ));
    let (kept, _) = delegated(&reads).unwrap();
    let beside = a.opened(by(b"another", READ));
    assert!(delegated(&beside).is_none() && call(&scene).is_none());
    assert_eq!(status(&mut a, &[lookup(b"f"), close(reads.stateid)]), OK);
    assert_eq!(status(&mut a, &[lookup(b"f"), give_back(kept)]), OK);
    assert_eq!(why_none(&a.opened(by(b"o", BOTH | 0x200))), CONTENTION);
    assert_eq!(why_none(&a.opened(by(b"another", READ | 0x200))), CONTENTION, "the first one writes");
}

/// What both of its owners had open they claim, whatever was given to the first.
#[test]
fn behind_a_restart_another_owner_claims_beside_what_was_given() {
    let (scene, put_f) = restarted();
    let a = introduced(&scene, b"a");
    let again = |owner: &[u8], of| open_of(owner, OpenClaim4::ClaimPrevious(of), BOTH, 0);
    let told = asks(&scene, a, 1, &[put_f.clone(), again(b"o", OpenDelegationType4::OpenDelegateWrite)]);
    assert!(delegated_to_write(&opened(told.resarray.0.last().cloned()).unwrap()).is_some());
    let claims = [put_f, again(b"another", OpenDelegationType4::OpenDelegateNone)];
    assert_eq!(asks(&scene, a, 2, &claims).status, OK);
}

#[test]
fn who_is_given_none_to_write() {
    let scene = scene();
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    // Another one has it open.
    let read = opens(&mut b, b"f", READ | 0x400);
    assert_eq!(why_none(&opens(&mut a, b"f", BOTH | 0x200)), CONTENTION);
    assert_eq!(status(&mut b, &[lookup(b"f"), close(read.stateid)]), OK);
    // It wants none, or one for reading.
    assert_eq!(why_none(&opens(&mut a, b"f", BOTH | 0x400)), NOT_WANTED);
    let (read, _) = delegated(&opens(&mut a, b"f", BOTH | 0x100)).expect("others may read beside it");
    // It has that one, which becomes none for writing.
    assert_eq!(why_none(&opens(&mut a, b"f", BOTH | 0x200)), NOT_UPGRADED);
    assert_eq!(why_none(&opens(&mut a, b"f", READ | 0x100)), NOT_WANTED);
    assert_eq!(status(&mut a, &[lookup(b"f"), give_back(read)]), OK);
    let mut none_is_given = || why_none(&opens(&mut a, b"g", BOTH | 0x200)) == RESOURCE;
    scene.exports.tank.model.set_giving(false);
    assert!(none_is_given());
    // The dataset gives some among clients, and one that is none was here.
    scene.exports.tank.model.set_gives(Gives::AmongClients);
    let file = handle(&scene, scene.file_named(b"g"));
    assert_eq!(plain(&scene, 1, Procedure::Read, read_arguments(&file)), 0);
    assert!(none_is_given());
    scene.exports.tank.model.set_gives(Gives::Yes);
    // No place for clients that may be claimed from behind a restart.
    let clients = scene.exports.clients.lock().take();
    assert!(none_is_given());
    *scene.exports.clients.lock() = clients;
    assert!(!none_is_given_to(&mut a));
}

fn none_is_given_to(client: &mut Opener) -> bool {
    delegated_to_write(&opens(client, b"g", BOTH)).is_none()
}

#[test]
fn among_clients_alone_one_is_given() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    scene.exports.tank.model.set_gives(Gives::AmongClients);
    keeps(&mut a, b"f");
}

/// Rules V23: behind a crash nobody is let in before it, once it was told that it has it.
#[test]
fn nobody_is_told_of_one_before_the_flag_is_durable() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    // It is in the list, and nothing is to be waited for any more.
    (0..2).for_each(|_| _ = opens(&mut a, b"g", READ | 0x400));
    assert!(flags(&scene).is_empty());
    let clients = scene.exports.keep_clients();
    *clients.promises.lock() = Promises::ByHand;
    let ops = [a.sequence(), scene.put_tank(), open(b"f", WRITE, 0)];
    let (mut job, step) = scene.begin_on(&a.link, 900, &ops);
    let told = fate(step);
    assert!(told.try_recv().is_err());
    let [flag] = &flags(&scene)[..] else { panic!() };
    assert!(flag.ends_with("+0000000000000001"), "{flag}");
    let held: Vec<_> = clients.held.lock().drain(..).collect();
    held.into_iter().for_each(|then| then(Ok(tally_base::Kept::default())));
    let reply = scene.service.reply_after_wait(&mut job, told.try_recv().unwrap());
    let opened = opened(read_reply(&reply, &ops).resarray.0.pop()).unwrap();
    assert!(delegated_to_write(&opened).is_some());
    *clients.promises.lock() = Promises::Ready;
    // From then on none waits, of any file of the dataset.
    assert!(delegated_to_write(&opens(&mut a, b"g", BOTH)).is_some());
    let before = clients.changes.load(SeqCst);
    scene.file(b"h");
    keeps(&mut a, b"h");
    assert_eq!(clients.changes.load(SeqCst), before);
}

/// It goes when there was none for a minute, and whoever is given one behind that waits for it anew; it is there as long as one is.
#[test]
fn the_flag_goes_a_minute_after_the_last_one() {
    let (scene, mut clock) = (scene(), Duration::ZERO);
    let mut a = client(&scene, "a", 2);
    let kept = keeps(&mut a, b"f");
    let count = |scene: &Scene| {
        scene.service.look_after_clients();
        flags(scene).len()
    };
    pass(&scene, &mut clock, Duration::from_secs(70), &mut [&mut a]);
    assert_eq!(count(&scene), 1);
    assert_eq!(status(&mut a, &[lookup(b"f"), give_back(kept)]), OK);
    pass(&scene, &mut clock, Duration::from_secs(50), &mut [&mut a]);
    assert_eq!(count(&scene), 1);
    pass(&scene, &mut clock, Duration::from_secs(20), &mut [&mut a]);
    assert_eq!(count(&scene), 0);
    keeps(&mut a, b"f");
    assert_eq!(count(&scene), 1);
    // With its client it goes as well.
    let id = tally_nfs::v4::state::ClientId(a.client);
    assert!(scene.service.holdings().is_some_and(|holdings| holdings.evict(id).is_some()));
    assert_eq!(count(&scene), 0);
}

/// Two files of one dataset are kept to write, one of them is lost, and something new is opened once that is known: the client was in the list then without its flag, and behind a crash
/// version 3 read the other file before it was claimed. The simulator found it (seed 252 as drawn then).
#[test]
fn who_has_lost_one_is_waited_for_with_the_other() {
    let (scene, mut clock) = (scene(), Duration::ZERO);
    let [f, g] = [b"f", b"g"].map(|name| handle(&scene, scene.file_named(name)));
    let mut a = client(&scene, "a", 2);
    let lost = keeps(&mut a, b"g");
    let kept = keeps(&mut a, b"f");
    assert_eq!(flags(&scene).len(), 1);
    assert_eq!(plain(&scene, 40, Procedure::Read, read_arguments(&g)), JUKEBOX);
    let (id, ..) = call(&scene).expect("it is recalled");
    scene.service.call_lost(&id, true);
    pass(&scene, &mut clock, Duration::from_secs(100), &mut [&mut a]);
    assert_eq!(plain(&scene, 41, Procedure::Read, read_arguments(&g)), 0, "it is taken");
    assert_eq!(flags(&scene), Vec::<String>::new(), "who has lost something is in no list");
    assert_eq!(a.status(&[free(lost)]), OK);
    assert_eq!(tested(a.run(&[test(kept)]).pop()), OK);
    opens(&mut a, b"g", READ | 0x400);
    assert_eq!(flags(&scene).len(), 1, "what it has for writing is waited for");
    drop(a);
    let scene = Arc::into_inner(scene).unwrap().restart();
    assert_eq!(plain(&scene, 42, Procedure::Read, read_arguments(&f)), JUKEBOX);
}

/// A client "a" had "f" to write, and "b" had "g" open; then the server started anew.
fn restarted() -> (Arc<Scene>, Op) {
    let scene = scene();
    let f = scene.file_named(b"f");
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    keeps(&mut a, b"f");
    opens(&mut b, b"g", BOTH | 0x400);
    drop((a, b));
    let scene = Arc::into_inner(scene).unwrap().restart();
    let put_f = scene.put(f);
    (Arc::new(scene), put_f)
}

/// In the session of one that has not completed yet.
fn asks(scene: &Scene, session: [u8; 16], number: u32, ops: &[Op]) -> tally_wire::nfs4::Compound4Res {
    scene.run(100 * u32::from(session[15]) + number, &[&[sequence(session, 0, number, false)], ops].concat())
}

/// Rules V27: what it has written and not sent nobody has read or changed when it comes.
#[test]
fn behind_a_restart_nobody_reads_or_changes_before_it_was_claimed() {
    let (scene, put_f) = restarted();
    let put_g = scene.put(scene.file_named(b"g"));
    let (tank, dir) = (scene.put_tank(), handle(&scene, scene.exports.tank.root()));
    let file = handle(&scene, scene.file_named(b"f"));
    let file_and_name = words(|words| {
        words.opaque(&file).opaque(&dir).opaque(b"h");
    });
    let names = words(|words| {
        words.opaque(&dir).opaque(b"f").opaque(&dir).opaque(b"i");
    });
    let create = words(|words| {
        words.opaque(&dir).opaque(b"f").u32(0).raw(&mode(0o600).into_vec());
    });
    let set_mode = words(|words| {
        words.opaque(&file).raw(&mode(0o600).into_vec()).bool(false);
    });
    let changes = [
        (Procedure::Read, read_arguments(&file)),
        (Procedure::Write, write_arguments(&file, 0, b"x", 2)),
        (Procedure::SetAttr, set_mode),
        (Procedure::Create, create),
        (Procedure::Link, file_and_name),
        (Procedure::Rename, names),
        (Procedure::Remove, dir_name(&dir, b"f")),
    ];
    let began = Instant::now();
    for (nth, (procedure, arguments)) in changes.into_iter().enumerate() {
        assert_eq!(plain(&scene, nth as u32, procedure, arguments), JUKEBOX, "{}", procedure.name());
    }
    assert!(began.elapsed() >= Duration::from_millis(7 * 50), "each has waited for a moment");
    assert_eq!(plain(&scene, 20, Procedure::GetAttr, words(|words| _ = words.opaque(&file))), 0);
    // By version 4, of whoever has not claimed it, and has no open by which he would be sure.
    let b = introduced(&scene, b"b");
    let of_version_4 = [
        vec![put_f.clone(), read_by(stateid(0xff))],
        vec![put_f.clone(), set(of_mode(0o600))],
        vec![put_f.clone(), set_xattr()],
        vec![put_f.clone(), save(), tank.clone(), link(b"h")],
        vec![tank.clone(), save(), rename(b"f", b"i")],
        vec![tank.clone(), remove(b"f")],
    ];
    let mut number = 0;
    for ops in of_version_4 {
        number += 1;
        assert_eq!(asks(&scene, b, number, &ops).status, Nfs4ErrGrace, "{number}");
    }
    let told = asks(&scene, b, number + 1, &[put_g.clone(), claim(OpenDelegationType4::OpenDelegateNone, BOTH)]);
    let claimed = opened(told.resarray.0.last().cloned()).unwrap().stateid;
    assert_eq!(asks(&scene, b, number + 2, &[put_g, write_by(claimed.clone(), b"x"), read_by(claimed)]).status, OK);
    assert_eq!(asks(&scene, b, number + 3, &[complete()]).status, OK);
    assert_eq!(asks(&scene, b, number + 4, &[put_f.clone(), set(of_mode(0o600))]).status, Nfs4ErrGrace);
    // Another dataset is another thing.
    let root = Handle { pool: POOL, dataset: scene.exports.child.dataset(), object: scene.exports.child.root() };
    let in_child = dir_name(root.seal(&KEY).as_slice(), b"none");
    assert_eq!(plain(&scene, 30, Procedure::Remove, in_child), 2);

    // It comes: it is told to give it back, sends what it has, and does.
    let a = introduced(&scene, b"a");
    let told = asks(&scene, a, 1, &[put_f.clone(), claim(OpenDelegationType4::OpenDelegateWrite, BOTH)]);
    let (kept, is_recalled, _) = delegated_to_write(&opened(told.resarray.0.last().cloned()).unwrap()).unwrap();
    assert!(is_recalled && call(&scene).is_none());
    let set_mode = set(of_mode(0o640));
    assert_eq!(asks(&scene, a, 2, &[put_f.clone(), write_by(kept.clone(), b"late"), set_mode]).status, OK);
    assert_eq!(plain(&scene, 40, Procedure::Read, read_arguments(&file)), JUKEBOX);
    assert_eq!(asks(&scene, a, 3, &[complete()]).status, OK);
    // The grace is over, and it has the file.
    assert_eq!(plain(&scene, 41, Procedure::Read, read_arguments(&file)), JUKEBOX);
    assert_eq!(asks(&scene, a, 4, &[put_f.clone(), give_back(kept)]).status, OK);
    assert_eq!(plain(&scene, 42, Procedure::Read, read_arguments(&file)), 0);
    let read = scene.exports.tank.model.read(&Cred::root(), scene.file_named(b"f"), 0, 10).unwrap();
    assert_eq!(read.data.concat(), b"late");
    assert_eq!(asks(&scene, b, number + 5, &[put_f, set(of_mode(0o600))]).status, OK);
}

/// Its answer was lost with the server. Sent away, its client would ask anew, and be told that there is no such file.
#[test]
fn what_was_carried_out_before_the_restart_is_told_so_in_the_grace() {
    let scene = scene();
    let dir = handle(&scene, scene.exports.tank.root());
    let mut a = client(&scene, "a", 2);
    keeps(&mut a, b"f");
    assert_eq!(plain(&scene, 77, Procedure::Remove, dir_name(&dir, b"g")), 0);
    drop(a);
    let scene = Arc::into_inner(scene).unwrap().restart();
    assert_eq!(plain(&scene, 77, Procedure::Remove, dir_name(&dir, b"g")), 0);
    assert_eq!(plain(&scene, 78, Procedure::Remove, dir_name(&dir, b"f")), JUKEBOX);
}

/// Who does not come keeps nobody out for longer than the grace, and the flag is gone with him.
#[test]
fn who_does_not_come_is_not_waited_for_behind_the_grace() {
    let (scene, _) = restarted();
    let (file, mut clock) = (handle(&scene, scene.file_named(b"f")), Duration::ZERO);
    assert_eq!(plain(&scene, 1, Procedure::Read, read_arguments(&file)), JUKEBOX);
    pass(&scene, &mut clock, Duration::from_secs(100), &mut []);
    assert_eq!(plain(&scene, 2, Procedure::Read, read_arguments(&file)), 0);
    // It is written down by who comes first: behind another crash it would be claimed over what he has done.
    assert!(flags(&scene).is_empty());
    let mut c = client(&scene, "c", 4);
    opens(&mut c, b"g", READ);
}

/// Only who was written down for it can have had one: nobody was kept out for another.
#[test]
fn who_was_not_written_down_claims_none_to_write() {
    let (scene, put_f) = restarted();
    let b = introduced(&scene, b"b");
    let told = asks(&scene, b, 1, &[put_f, claim(OpenDelegationType4::OpenDelegateWrite, BOTH)]);
    assert_eq!(delegated_to_write(&opened(told.resarray.0.last().cloned()).expect("the open it has")), None);
}

/// Of a client that came back and had nothing, nobody is kept out any more once it has said so.
#[test]
fn who_claims_nothing_keeps_nobody_out() {
    let (scene, _) = restarted();
    let file = handle(&scene, scene.file_named(b"f"));
    let a = introduced(&scene, b"a");
    assert_eq!(plain(&scene, 1, Procedure::Read, read_arguments(&file)), JUKEBOX);
    assert_eq!(asks(&scene, a, 1, &[complete()]).status, OK);
    assert_eq!(plain(&scene, 2, Procedure::Read, read_arguments(&file)), 0);
}

/// There is no room for what a client would be told that it may write.
#[test]
fn of_a_full_dataset_none_is_given() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    scene.exports.tank.model.set_quota(Some(128 * MIB - 1));
    let of = |a: &mut Opener| delegated_to_write(&opens(a, b"f", BOTH)).map(|(_, _, space)| space);
    assert_eq!(of(&mut a), None);
    scene.exports.tank.model.set_quota(Some(300 * MIB));
    assert_eq!(of(&mut a), Some(64 * MIB));
}

/// As long as nobody knows who may claim what; and not for ever, as version 3 has nothing to do with it. Who comes behind that claims none.
#[test]
fn a_list_that_cannot_be_read_keeps_files_shut_for_as_long_as_a_grace_may_last() {
    let (scene, put_f) = restarted();
    let (file, mut clock) = (handle(&scene, scene.file_named(b"f")), Duration::ZERO);
    let unlistable = &scene.exports.keep_clients().unlistable;
    unlistable.store(true, SeqCst);
    scene.service.look_at_clock(clock);
    assert_eq!(plain(&scene, 1, Procedure::Read, read_arguments(&file)), JUKEBOX);
    pass(&scene, &mut clock, Duration::from_secs(175), &mut []);
    assert_eq!(plain(&scene, 2, Procedure::Read, read_arguments(&file)), JUKEBOX);
    pass(&scene, &mut clock, Duration::from_secs(10), &mut []);
    assert_eq!(plain(&scene, 3, Procedure::Read, read_arguments(&file)), 0);
    unlistable.store(false, SeqCst);
    let a = introduced(&scene, b"a");
    let told = asks(&scene, a, 1, &[put_f, claim(OpenDelegationType4::OpenDelegateWrite, BOTH)]);
    assert_eq!(delegated_to_write(&opened(told.resarray.0.last().cloned()).expect("the open it has")), None);
    pass(&scene, &mut clock, Duration::from_secs(100), &mut []);
    let mut c = client(&scene, "c", 4);
    opens(&mut c, b"g", READ);
    assert!(flags(&scene).is_empty());
}

/// The daemon asks it of all pools, one after the other, at its start and for its housekeeping: where the disk of one hung, as somebody read its list, it waited for that.
#[test]
fn who_only_asks_whether_a_grace_is_over_does_not_wait_until_another_one_has_read_the_list() {
    let (scene, _) = restarted();
    let asks = || {
        let (scene, (told, tells)) = (scene.clone(), std::sync::mpsc::channel());
        std::thread::spawn(move || told.send(scene.service.is_in_grace(POOL)));
        tells
    };
    let folder = scene.exports.keep_clients();
    let (hangs, before) = (folder.listing.lock(), folder.listings.load(SeqCst));
    let reads = asks();
    while folder.listings.load(SeqCst) == before {
        std::thread::yield_now();
    }
    let told = asks().recv_timeout(Duration::from_secs(5));
    drop(hangs);
    assert_eq!(told, Ok(true), "somebody may claim something there");
    assert_eq!(reads.recv(), Ok(true));
}

/// Who reads or writes by no open was let in as soon as the grace was over, and not when that was written down: behind another crash it was claimed again, and what its client had written went over what
/// had been answered (rules V25 and V27).
#[test]
fn who_has_no_open_waits_until_the_end_of_a_grace_is_written_down() {
    let (scene, put_f) = restarted();
    let mut clock = Duration::ZERO;
    scene.service.look_at_clock(clock);
    let b = introduced(&scene, b"b");
    let (look, write) = ([put_f.clone(), read_by(stateid(0))], [put_f.clone(), write_by(stateid(0), b"b's")]);
    assert_eq!(asks(&scene, b, 1, &[complete()]).status, OK);
    assert_eq!(asks(&scene, b, 2, &write).status, Nfs4ErrGrace);
    scene.exports.keep_clients().suspended.store(true, SeqCst);
    pass(&scene, &mut clock, Duration::from_secs(100), &mut []);
    assert_eq!(
        asks(&scene, b, 3, &[put_f.clone(), set(of_mode(0o600))]).status,
        Nfs4ErrGrace,
        "it is to be written down"
    );
    let told = [4, 5].map(|number| asks(&scene, b, number, if number == 4 { &look } else { &write }).status);
    // The list is as it was.
    scene.exports.keep_clients().suspended.store(false, SeqCst);
    let scene = Arc::into_inner(scene).unwrap().restart();
    let a = introduced(&scene, b"a");
    let claimed = asks(&scene, a, 1, &[put_f, claim(OpenDelegationType4::OpenDelegateWrite, BOTH)]);
    assert!(delegated_to_write(&opened(claimed.resarray.0.last().cloned()).unwrap()).is_some(), "it claims it again");
    assert_eq!(told, [Nfs4ErrGrace; 2]);
}

/// Nor does it wait for ever for what cannot be written down.
#[test]
fn a_grace_whose_end_cannot_be_written_down_keeps_files_shut_for_as_long_as_one_may_last() {
    let (scene, _) = restarted();
    let (file, mut clock) = (handle(&scene, scene.file_named(b"f")), Duration::ZERO);
    scene.service.look_at_clock(clock);
    assert_eq!(plain(&scene, 1, Procedure::Read, read_arguments(&file)), JUKEBOX);
    scene.exports.keep_clients().suspended.store(true, SeqCst);
    pass(&scene, &mut clock, Duration::from_secs(100), &mut []);
    assert_eq!(plain(&scene, 2, Procedure::Read, read_arguments(&file)), JUKEBOX, "it is to be written down");
    pass(&scene, &mut clock, Duration::from_secs(175), &mut []);
    assert_eq!(plain(&scene, 3, Procedure::Read, read_arguments(&file)), JUKEBOX);
    pass(&scene, &mut clock, Duration::from_secs(10), &mut []);
    assert_eq!(plain(&scene, 4, Procedure::Read, read_arguments(&file)), 0);
}

/// A pool that comes while a request of version 3 looks for its file comes with those who claim what they have written there.
#[test]
fn who_finds_a_file_as_its_pool_comes_comes_again() {
    let scene = scene();
    let file = handle(&scene, scene.file_named(b"f"));
    scene.exports.is_restless.store(true, SeqCst);
    assert_eq!(plain(&scene, 1, Procedure::Read, read_arguments(&file)), JUKEBOX);
    scene.exports.is_restless.store(false, SeqCst);
    assert_eq!(plain(&scene, 2, Procedure::Read, read_arguments(&file)), 0);
}
