//! What one client holds while another one is ended, or claims, or begins to: scenarios in which two were given the same, or one lost what it was told that it had.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::support::Child;
use crate::support::compound::{Op, lookup, op};
use crate::support::gated::Promises;
use crate::support::opener::{BOTH, Opener, READ, close, find, free, open, open_as};
use tally_nfs::service::Step;
use tally_vfs::{CreateHow, Cred, Identity, Names, OpCtx, SetAttr};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{Lock4Args, Locker4, NfsArgop4, NfsLockType4, Nfsstat4, OpenOwner4, OpenToLockOwner4, Stateid4};

const OK: Nfsstat4 = Nfs4Ok;
const LEASE: Duration = Duration::from_secs(90);
const MOMENT: Duration = Duration::from_secs(5);

pub(crate) fn lock(open: &Stateid4, owner: &[u8]) -> Op {
    let lock_owner = OpenOwner4 { clientid: 0, owner: owner.into() };
    let below = OpenToLockOwner4 { open_seqid: 0, open_stateid: open.clone(), lock_seqid: 0, lock_owner };
    let (locktype, offset, length) = (NfsLockType4::WriteLt, 5, 10);
    op(&NfsArgop4::OpLock(Lock4Args { locktype, reclaim: false, offset, length, locker: Locker4::True(below) }))
}

/// More than 4096 of one client are revoked at once: all it has is, and what is of another, living mount stays claimed below for ever.
#[test]
fn what_is_revoked_as_it_is_too_much_is_closed_below() {
    let mut client = Opener::new();
    let child = client.scene.exports.child.clone();
    for name in [b"a", b"b"] {
        child
            .create(OpCtx::of(&Cred::root()), child.root(), name, &CreateHow::Guarded(SetAttr::default()))
            .result
            .unwrap();
    }
    client.scene.file(b"f");
    client.scene.file(b"g");
    let _f = client.opened(open(b"f", BOTH, BOTH)).stateid;
    let g = client.opened(open(b"g", BOTH, 0)).stateid;
    assert_eq!(client.status(&[lookup(b"g"), lock(&g, b"l")]), OK);
    for number in 0..4097_u32 {
        let name: &[u8] = if number % 2 == 0 { b"a" } else { b"b" };
        let ask = [lookup(b"child"), open_as(&number.to_be_bytes(), name, (READ, 0), find())];
        assert_eq!(client.status(&ask), OK, "{number}");
    }
    *client.scene.exports.child_is.lock() = Child::Coming;
    client.scene.exports.changed.lock().0 += 1;
    client.flags();
    let mut other = Opener::beside(&client.scene, "another", 2);
    _ = other.status(&[open(b"f", READ, 0)]);
    let its = other.opened(open(b"g", BOTH, 0)).stateid;
    _ = other.status(&[lookup(b"g"), lock(&its, b"l")]);
    let scene = client.scene.clone();
    _ = client.leave();
    _ = client.status(&[free(_f.clone())]);
    let mut clock = Duration::ZERO;
    scene.pass(&mut clock, LEASE * 3);
    let mut again = Opener::beside(&scene, "a client", 3);
    _ = again.status(&[open(b"f", READ, 0)]);
    let its = again.opened(open(b"g", BOTH, 0)).stateid;
    _ = again.status(&[lookup(b"g"), lock(&its, b"l")]);
    let mut third = Opener::beside(&scene, "third", 4);
    assert_eq!(third.status(&[open(b"f", READ, 0)]), OK);
}

/// Rules V24.
#[test]
fn nobody_is_given_what_was_anothers_before_that_one_is_out_of_the_list() {
    let (mut late, mut clock) = (Opener::new(), Duration::ZERO);
    let scene = late.scene.clone();
    let clients = scene.exports.keep_clients();
    scene.file(b"f");
    scene.file(b"g");
    late.opened(open(b"f", BOTH, BOTH));
    scene.pass(&mut clock, LEASE + MOMENT);
    let [mut other, mut third] = [("another", 2), ("third", 3)].map(|(name, at)| Opener::beside(&scene, name, at));
    for client in [&mut other, &mut third] {
        (0..3).for_each(|_| _ = client.opened(open(b"g", READ, 0)));
    }
    let given = Arc::new(AtomicBool::new(false));
    let (told, folder) = (given.clone(), clients.clone());
    let (sender, asking) = std::sync::mpsc::channel();
    *clients.before_remove.lock() = Some(Box::new(move || {
        let thread = std::thread::spawn(move || {
            let status = third.status(&[open_as(b"x", b"f", (READ, 0), find())]);
            let page = folder.readdir(&Cred::root(), folder.root(), 0, 100, false).unwrap();
            let listed = page.entries.iter().filter(|entry| entry.name.starts_with(b"1-")).count();
            told.store(status == OK && listed == 3, SeqCst);
        });
        // Time enough for who does not wait.
        std::thread::sleep(Duration::from_millis(200));
        sender.send(thread).unwrap();
    }));
    let _ = other.status(&[open(b"f", READ, 0)]);
    asking.recv().unwrap().join().unwrap();
    assert!(!given.load(SeqCst), "it was answered while the one whose file it was could claim it again");
}

#[test]
fn a_list_that_cannot_be_read_for_a_moment_is_not_empty() {
    let mut client = Opener::new();
    client.scene.exports.keep_clients();
    client.scene.file(b"f");
    client.opened(open(b"f", BOTH, BOTH));
    let Opener { scene, .. } = client;
    let scene = Arc::new(Arc::into_inner(scene).unwrap().restart());
    let clients = scene.exports.keep_clients();
    clients.unlistable.store(true, SeqCst);
    let mut other = Opener::beside(&scene, "another", 2);
    _ = other.status(&[open(b"f", READ, 0)]);
    clients.unlistable.store(false, SeqCst);
    let told = other.status(&[open(b"f", READ, 0)]);
    println!("{told:?}");
    assert_eq!(told, Nfs4ErrGrace, "the first client may claim it");
}

/// A client that has met its own bound takes everything from who is in nobody's way.
#[test]
fn who_meets_his_own_bound_ends_nobody_else() {
    let (mut late, mut clock) = (Opener::new(), Duration::ZERO);
    let scene = late.scene.clone();
    scene.file(b"f");
    scene.file(b"g");
    late.opened(open(b"f", BOTH, 0));
    scene.pass(&mut clock, LEASE + MOMENT);
    let mut greedy = Opener::beside(&scene, "greedy", 2);
    // As `tally_claims` says it of the 4097th open of one client of one object.
    scene.exports.tank.too_many_claims.store(true, SeqCst);
    assert_eq!(greedy.status(&[open(b"g", READ, 0)]), Nfs4ErrDelay);
    scene.exports.tank.too_many_claims.store(false, SeqCst);
    assert_eq!(late.status(&[]), OK, "nobody wanted what it has");
}

/// Rules V24: it had asked the list before the other one was ended, and opens behind that.
#[test]
fn who_was_granted_before_somebody_was_ended_waits_for_the_list_too() {
    let (mut late, mut clock) = (Opener::new(), Duration::ZERO);
    let scene = late.scene.clone();
    let clients = scene.exports.keep_clients();
    scene.file(b"f");
    scene.file(b"g");
    late.opened(open(b"f", BOTH, BOTH));
    scene.pass(&mut clock, LEASE + MOMENT);
    let [mut other, mut third] = [("another", 2), ("third", 3)].map(|(name, at)| Opener::beside(&scene, name, at));
    for client in [&mut other, &mut third] {
        (0..3).for_each(|_| _ = client.opened(open(b"g", READ, 0)));
    }
    let (folder, beside) = (clients.clone(), scene.clone());
    *scene.exports.tank.behind_a_look.lock() = Some(Box::new(move |_| {
        *folder.promises.lock() = Promises::ByHand;
        let ask = [other.sequence(), beside.put_tank(), open(b"f", READ, 0)];
        let (job, step) = beside.begin_on(&other.link, 7000, &ask);
        assert!(matches!(step, Step::Wait(_)), "it waits until the late one is out of the list");
        std::mem::forget((job, step));
    }));
    let ask = [third.sequence(), scene.put_tank(), open_as(b"x", b"f", (READ, 0), find())];
    let (mut job, step) = scene.begin_on(&third.link, 8000, &ask);
    assert!(clients.held.lock().is_empty() && *clients.promises.lock() == Promises::ByHand);
    if let Step::Reply(_) = step {
        panic!("it is answered at once: {:?}", scene.end(&mut job, step, &ask).status);
    }
}

/// An owner loses by a LOCK that is told to come again what it was told before that it has.
#[test]
fn a_lock_that_is_not_given_takes_none_away() {
    let mut client = Opener::new();
    let scene = client.scene.clone();
    let clients = scene.exports.keep_clients();
    scene.file(b"f");
    scene.file(b"g");
    let one = client.opened(open_as(b"1", b"f", (BOTH, 0), find())).stateid;
    let two = client.opened(open_as(b"2", b"f", (BOTH, 0), find())).stateid;
    let mut other = Opener::beside(&scene, "another", 2);
    let others = other.opened(open(b"f", BOTH, 0)).stateid;
    let mut gone = Opener::beside(&scene, "gone", 3);
    let its = gone.opened(open(b"g", READ, 0)).stateid;
    assert_eq!(gone.status(&[lookup(b"g"), close(its)]), OK);
    (0..2).for_each(|_| _ = client.opened(open_as(b"1", b"f", (BOTH, 0), find())));
    assert_eq!(client.status(&[lookup(b"f"), lock(&Stateid4 { seqid: 0, ..one.clone() }, b"l")]), OK);
    let folder = clients.clone();
    *scene.exports.tank.behind_a_lock.lock() = Some(Box::new(move || {
        folder.suspended.store(true, SeqCst);
        _ = gone.leave();
    }));
    _ = client.status(&[lookup(b"f"), lock(&two, b"l")]);
    clients.suspended.store(false, SeqCst);
    let told = other.status(&[lookup(b"f"), lock(&others, b"l")]);
    assert_eq!(told, Nfs4ErrDenied, "the client was told that it holds that");
}
