//! What a client of version 4 holds ends when it should, and it is told.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::seams::lock;
use crate::support::compound::{Op, bare, by_number, get_attr, lookup, read, save, set, write};
use crate::support::gated::Promises;
use crate::support::opener::{BOTH, Opener, READ, WRITE, close, find, free, open, open_as, read_by};
use crate::support::scene::{Scene, fate, read_reply};
use crate::support::{Child, POOL};
use tally_base::Wait;
use tally_nfs::v4::state::bounds::OF_ADDRESS_MAX;
use tally_vfs::locks::{Kind, Lock, NotLocked, Range};
use tally_vfs::{
    Access, ClientNumber, CreateHow, Cred, Holder, Identity, Locks, Names, OpCtx, Opens, OwnerNumber, Series, SetAttr,
    Share,
};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Createhow4, FATTR4_LEASE_TIME, Fattr4, Fattr4Value, Getattr4Res, NfsResop4, Nfsstat4, Open4Res, Openflag4,
};

const OK: Nfsstat4 = Nfs4Ok;
/// `SEQ4_STATUS_ADMIN_STATE_REVOKED`.
const ADMIN_REVOKED: u32 = 0x20;

/// Rules V37: behind an import the file system knows nothing of what was open, and READ said so (BAD_STATEID), while TEST_STATEID found nothing wrong.
#[test]
fn what_was_open_of_a_mount_that_is_over_is_revoked_and_told() {
    let mut client = Opener::new();
    client.scene.file(b"f");
    client.scene.file(b"g");
    let [mine, other] = [b"f", b"g"].map(|name| client.opened(open_as(b"a", name, (BOTH, BOTH), find())).stateid);
    assert_eq!(client.flags(), 0);
    client.scene.exports.mount_anew();
    assert_eq!(client.flags(), ADMIN_REVOKED);
    assert_eq!(client.status(&[lookup(b"f"), read_by(mine.clone())]), Nfs4ErrAdminRevoked);
    assert_eq!(client.status(&[lookup(b"f"), close(mine.clone())]), Nfs4ErrAdminRevoked);
    assert_eq!(client.tested(&[&mine, &other]), [Nfs4ErrAdminRevoked; 2]);
    // What it denied is free, for others and for itself.
    let again = client.opened(open_as(b"a", b"f", (BOTH, WRITE), find())).stateid;
    assert_eq!(client.status(&[lookup(b"f"), read_by(again.clone())]), OK);
    assert_eq!(client.flags(), ADMIN_REVOKED);
    assert_eq!(client.status(&[free(mine)]), OK);
    assert_eq!(client.flags(), ADMIN_REVOKED, "one is left");
    assert_eq!(client.status(&[free(other)]), OK);
    assert_eq!(client.flags(), 0);
    assert_eq!(client.status(&[lookup(b"f"), close(again)]), OK);
}

/// What is exported is as it was, as far as anybody can see: only who uses it finds another mount.
#[test]
fn who_uses_what_is_of_another_mount_is_told_so_before_anybody_has_looked() {
    let mut client = Opener::new();
    client.scene.file(b"f");
    for by_use in [true, false] {
        let mine = client.opened(open_as(b"a", b"f", (BOTH, BOTH), find())).stateid;
        let seen = *client.scene.exports.changed.lock();
        client.scene.exports.mount_anew();
        *client.scene.exports.changed.lock() = seen;
        if by_use {
            assert_eq!(client.status(&[lookup(b"f"), read_by(mine.clone())]), Nfs4ErrAdminRevoked);
            assert_eq!(client.tested(&[&mine]), [Nfs4ErrAdminRevoked]);
            assert_eq!(client.flags(), ADMIN_REVOKED);
        }
        assert_eq!(client.status(&[free(mine)]), OK);
        assert_eq!(client.flags(), 0);
    }
}

/// Nobody looks for it any more, and the file system that has it is gone.
#[test]
fn nothing_is_opened_of_a_mount_that_is_over() {
    let mut client = Opener::new();
    client.scene.file(b"f");
    let exports = client.scene.exports.clone();
    *client.scene.exports.tank.behind_a_look.lock() = Some(Box::new(move |_| exports.mount_anew()));
    let ask = open_as(b"a", b"f", (BOTH, BOTH), find());
    assert_eq!(client.status(std::slice::from_ref(&ask)), Nfs4ErrDelay);
    assert_eq!(client.flags(), 0);
    let mine = client.opened(ask).stateid;
    assert_eq!(client.status(&[lookup(b"f"), read_by(mine)]), OK);
}

/// It is told as long as its pool is away, and where its dataset does not come back. One that is being destroyed may.
#[test]
fn what_was_open_goes_with_its_pool_or_dataset() {
    let mut client = Opener::new();
    let child = client.scene.exports.child.clone();
    let made = child.create(OpCtx::of(&Cred::root()), child.root(), b"f", &CreateHow::Guarded(SetAttr::default()));
    made.result.unwrap();
    client.scene.file(b"f");
    let mine = client.opened(open(b"f", BOTH, 0)).stateid;
    let childs = client.run(&[lookup(b"child"), open(b"f", BOTH, 0)]);
    let Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(childs))) = childs.last() else { panic!("{childs:?}") };
    let changes = |client: &Opener, child_is| {
        *client.scene.exports.child_is.lock() = child_is;
        client.scene.exports.changed.lock().0 += 1;
    };
    changes(&client, Child::Going);
    assert_eq!((client.flags(), client.tested(&[&mine, &childs.stateid])), (0, vec![OK; 2]));
    changes(&client, Child::Coming);
    assert_eq!(client.flags(), ADMIN_REVOKED);
    assert_eq!(client.tested(&[&mine, &childs.stateid]), [OK, Nfs4ErrAdminRevoked]);
    assert_eq!(client.status(&[free(childs.stateid.clone())]), OK);
    *client.scene.exports.away.lock() = true;
    changes(&client, Child::There);
    assert_eq!(client.flags(), ADMIN_REVOKED);
    assert_eq!(client.leave(), [OK; 2], "it has nothing more that it could lose");
}

/// Rules V36: what a client has it may give up, also where it may do nothing else any more.
#[test]
fn who_may_not_see_a_file_any_more_closes_it_all_the_same() {
    for rule in ["off", "ro,no_root_squash", "203.0.113.7(rw)"] {
        let mut client = Opener::new();
        let file = client.scene.file(b"f");
        let put = client.scene.put(file);
        let mine = client.opened(open(b"f", BOTH, BOTH)).stateid;
        let tail = |client: &mut Opener, ops: &[Op]| {
            let head = [client.sequence(), put.clone()];
            client.send(&[&head[..], ops].concat()).status
        };
        *client.scene.exports.tank_rule.lock() = rule.into();
        let is_in = rule.starts_with("ro");
        let told = if is_in { OK } else { Nfs4ErrAccess };
        assert_eq!(tail(&mut client, &[read_by(mine.clone())]), told, "{rule}");
        assert_eq!(tail(&mut client, &[get_attr(&[1])]), told);
        assert_eq!(tail(&mut client, &[bare(10)]), told, "GETFH");
        assert_eq!(tail(&mut client, &[save()]), told);
        assert_eq!(tail(&mut client, &[close(mine.clone())]), OK);
        assert_eq!(tail(&mut client, &[close(mine.clone())]), Nfs4ErrBadStateid);
        assert_eq!(client.leave(), [OK; 2]);
        // And it is closed below.
        *client.scene.exports.tank_rule.lock() = "*(rw,no_root_squash,insecure)".into();
        Opener::beside(&client.scene, "another", 2).opened(open(b"f", BOTH, BOTH));
    }
}

/// A panic behind the file system's answer left a deny that nobody had a stateid of, until the end of the server.
#[test]
fn what_broke_before_it_was_told_is_open_nowhere() {
    let mut client = Opener::new();
    client.scene.file(b"f");
    client.scene.exports.tank.panic_behind_open.store(true, SeqCst);
    assert_eq!(client.status(&[open_as(b"a", b"f", (BOTH, BOTH), find())]), Nfs4ErrServerfault);
    client.scene.exports.tank.panic_behind_open.store(false, SeqCst);
    let mine = client.opened(open_as(b"b", b"f", (BOTH, BOTH), find())).stateid;
    // One that is there stays as it is.
    client.scene.exports.tank.panic_behind_open.store(true, SeqCst);
    assert_eq!(client.status(&[open_as(b"b", b"f", (BOTH, BOTH), find())]), Nfs4ErrServerfault);
    client.scene.exports.tank.panic_behind_open.store(false, SeqCst);
    assert_eq!(client.status(&[lookup(b"f"), read_by(mine)]), OK);
    let mut other = Opener::beside(&client.scene, "another", 2);
    assert_eq!(other.status(&[open(b"f", READ, 0)]), Nfs4ErrShareDenied);
    assert_eq!(client.leave(), [OK, Nfs4ErrClientidBusy]);
}

const LEASE: Duration = Duration::from_secs(90);
const MOMENT: Duration = Duration::from_secs(5);

/// Rules V20: nothing ends by the end of a lease alone, and what is in somebody's way does.
#[test]
fn who_comes_back_late_has_what_nobody_asked_for() {
    let (mut late, mut clock) = (Opener::new(), Duration::ZERO);
    let scene = late.scene.clone();
    ["f", "g"].iter().for_each(|name| _ = scene.file(name.as_bytes()));
    let mine = late.opened(open(b"f", BOTH, BOTH)).stateid;
    scene.pass(&mut clock, LEASE * 3);
    let mut other = Opener::beside(&scene, "another", 2);
    other.opened(open(b"g", BOTH, BOTH));
    assert_eq!(late.status(&[lookup(b"f"), read_by(mine)]), OK, "nobody wanted it");
    // It has said a word: it is there.
    assert_eq!(other.status(&[open(b"f", READ, 0)]), Nfs4ErrShareDenied);
    assert_eq!(other.status(&[lookup(b"f"), read(0, 0, 9)]), Nfs4ErrLocked);
}

#[test]
fn who_is_late_gives_way_to_opens_reads_writes_and_cuts() {
    type Ask = fn() -> Vec<Op>;
    let ways: [(&str, Ask); 5] = [
        ("open", || vec![open(b"f", READ, 0)]),
        ("make", || {
            vec![open_as(
                b"o",
                b"f",
                (WRITE, 0),
                Openflag4::Open4Create(Createhow4::Unchecked4(Fattr4::of(&[Fattr4Value::Fattr4Size(0)]))),
            )]
        }),
        ("read", || vec![lookup(b"f"), read(0, 0, 9)]),
        ("write", || vec![lookup(b"f"), write(0, b"x")]),
        ("cut", || vec![lookup(b"f"), set(Fattr4::of(&[Fattr4Value::Fattr4Size(0)]))]),
    ];
    for (way, ask) in ways {
        let (mut late, mut clock) = (Opener::new(), Duration::ZERO);
        let scene = late.scene.clone();
        scene.file(b"f");
        scene.file(b"g");
        let mine = late.opened(open(b"f", BOTH, BOTH)).stateid;
        scene.pass(&mut clock, LEASE - MOMENT);
        let mut other = Opener::beside(&scene, "another", 2);
        let denied = if matches!(way, "open" | "make") { Nfs4ErrShareDenied } else { Nfs4ErrLocked };
        assert_eq!(other.status(&ask()), denied, "{way}: its lease is not over");
        scene.pass(&mut clock, MOMENT * 2);
        assert_eq!(other.status(&ask()), OK, "{way}");
        // It is gone as a whole, and is told so.
        assert_eq!(late.status(&[lookup(b"f"), read_by(mine)]), Nfs4ErrBadsession);
        let mut again = Opener::beside(&scene, "a client", 3);
        assert_ne!(again.client, late.client);
        again.opened(open(b"g", BOTH, BOTH));
    }
}

/// Programs of the server's machine have no lease themselves, and waited for as long as a client is kept by courtesy.
#[test]
fn who_is_late_gives_way_to_programs_of_the_server() {
    let (mut late, mut clock) = (Opener::new(), Duration::ZERO);
    let scene = late.scene.clone();
    let file = scene.file(b"f");
    let mine = late.opened(open(b"f", BOTH, WRITE)).stateid;
    assert_eq!(late.status(&[lookup(b"f"), lock(&mine, b"l")]), OK);
    let tank = &scene.exports.tank.model;
    let program = Holder { client: ClientNumber::of(Series::HERE, 3), owner: OwnerNumber(77) };
    let wanted = Lock { holder: program, range: Range::ALL, kind: Kind::Write };
    let in_the_way = || match tank.lock_unopened(file, wanted) {
        Err(NotLocked::Held(held)) => Some(held.holder.client),
        told => {
            told.unwrap();
            None
        }
    };
    let its = in_the_way().unwrap();
    assert_eq!(tank.in_the_way(file, None, Share::only(Access::WRITE)), [its]);
    scene.pass(&mut clock, LEASE - MOMENT);
    assert!(!scene.service.make_way_here(&[its]), "its lease is not over");
    scene.pass(&mut clock, MOMENT * 2);
    // Another program has no lease that could be over.
    assert!(!scene.service.make_way_here(&[its, program.client]) && in_the_way().is_some());
    assert!(scene.service.make_way_here(&[its]));
    assert_eq!((in_the_way(), tank.in_the_way(file, None, Share::only(Access::WRITE))), (None, vec![]));
    assert_eq!(late.status(&[]), Nfs4ErrBadsession);
}

/// Rules V24: a program locks what was another one's, and hears of it when that one claims it no more.
#[test]
fn who_gave_way_is_out_of_the_list_before_a_program_of_the_server_is_answered() {
    let (mut late, mut clock) = (Opener::new(), Duration::ZERO);
    let scene = late.scene.clone();
    let clients = scene.exports.keep_clients();
    scene.file(b"f");
    let given = || scene.service.given_here(POOL);
    assert!(matches!(given(), Ok(Wait::Ready)) && clients.changes.load(SeqCst) == 0, "nobody can claim anything");
    late.opened(open(b"f", BOTH, WRITE));
    let its = scene.exports.tank.in_the_way(scene.file_named(b"f"), None, Share::only(Access::WRITE));
    assert!(matches!(given(), Ok(Wait::Ready)));
    scene.pass(&mut clock, LEASE + MOMENT);
    *clients.promises.lock() = Promises::ByHand;
    assert!(scene.service.make_way_here(&its));
    assert!(matches!(given(), Ok(Wait::On(_))), "it may be in the list still");
    *clients.promises.lock() = Promises::Ready;
    assert!(matches!(given(), Ok(Wait::Ready)));
    assert!(matches!(given(), Ok(Wait::Ready)), "from then on nothing is waited for");
}

/// Where the list cannot be changed for now the program has its answer when it can.
#[test]
fn a_program_of_the_server_waits_for_a_list_that_cannot_be_changed() {
    let (mut late, mut clock) = (Opener::new(), Duration::ZERO);
    let scene = late.scene.clone();
    let clients = scene.exports.keep_clients();
    scene.file(b"f");
    late.opened(open(b"f", BOTH, WRITE));
    let its = scene.exports.tank.in_the_way(scene.file_named(b"f"), None, Share::only(Access::WRITE));
    scene.pass(&mut clock, LEASE + MOMENT);
    clients.suspended.store(true, SeqCst);
    assert!(scene.service.make_way_here(&its));
    assert!(matches!(scene.service.given_here(POOL), Err(Wait::Ready)));
    clients.suspended.store(false, SeqCst);
    clients.throttle.store(1, SeqCst);
    let told = scene.service.given_here(POOL);
    assert!(matches!(told, Err(Wait::On(_))), "{told:?}");
    assert!(matches!(scene.service.given_here(POOL), Ok(Wait::Ready)));
    let listed = clients.readdir(&Cred::root(), clients.root(), 0, 100, false).unwrap();
    assert!(listed.entries.iter().all(|entry| !entry.name.starts_with(b"1-")), "it is out of it");
}

/// The server says how long a lease is, and goes by that.
#[test]
fn a_lease_is_as_long_as_the_server_was_told() {
    let scene = Arc::new(Scene { minor: 1, ..Scene::new().leasing_for(Duration::from_secs(20)) });
    let (mut late, mut clock) = (Opener::beside(&scene, "a client", 1), Duration::ZERO);
    scene.file(b"f");
    let told = late.run(&[get_attr(&[FATTR4_LEASE_TIME])]);
    let [NfsResop4::OpGetattr(Getattr4Res::Nfs4Ok(told))] = &told[..] else { panic!("{told:?}") };
    assert_eq!(by_number(&told.obj_attributes)[&FATTR4_LEASE_TIME], Fattr4Value::Fattr4LeaseTime(20));
    late.opened(open(b"f", BOTH, BOTH));
    scene.pass(&mut clock, Duration::from_secs(17));
    let mut other = Opener::beside(&scene, "another", 2);
    assert_eq!(other.status(&[open(b"f", READ, 0)]), Nfs4ErrShareDenied);
    scene.pass(&mut clock, Duration::from_secs(8));
    assert_eq!(other.status(&[open(b"f", READ, 0)]), OK);
}

/// One in the way is there: those beside it whose leases are over would be ended for nothing.
#[test]
fn who_is_late_stays_where_another_one_is_in_the_way_too() {
    let (mut late, mut clock) = (Opener::new(), Duration::ZERO);
    let scene = late.scene.clone();
    scene.file(b"f");
    let mine = late.opened(open(b"f", READ, WRITE)).stateid;
    scene.pass(&mut clock, LEASE + MOMENT);
    let [mut live, mut third] = [("live", 2), ("third", 3)].map(|(name, number)| Opener::beside(&scene, name, number));
    live.opened(open(b"f", READ, WRITE));
    assert_eq!(third.status(&[open(b"f", WRITE, 0)]), Nfs4ErrShareDenied);
    assert_eq!(late.status(&[lookup(b"f"), read_by(mine)]), OK);
}

/// Rules V21: the server hung for longer than a lease.
#[test]
fn who_could_not_be_answered_is_not_late() {
    let (mut silent, mut clock) = (Opener::new(), Duration::ZERO);
    let scene = silent.scene.clone();
    scene.file(b"f");
    silent.opened(open(b"f", BOTH, BOTH));
    scene.pass(&mut clock, MOMENT);
    clock += LEASE * 2;
    scene.pass(&mut clock, LEASE);
    let mut other = Opener::beside(&scene, "another", 2);
    assert_eq!(other.status(&[open(b"f", READ, 0)]), Nfs4ErrShareDenied, "for one lease nothing is over");
    scene.pass(&mut clock, LEASE + MOMENT);
    assert_eq!(other.status(&[open(b"f", READ, 0)]), OK);
}

/// A live client lost what it had open to one too many of its address.
#[test]
fn who_comes_too_many_from_one_address_takes_no_place_of_who_is_there() {
    let (mut first, mut clock) = (Opener::new(), Duration::ZERO);
    let scene = first.scene.clone();
    scene.file(b"f");
    let beside = |number: usize| Opener::try_beside(&scene, &format!("{number}"), (number as u64 + 2, 9));
    let mut all: Vec<_> = (0..OF_ADDRESS_MAX).map(|number| beside(number).unwrap()).collect();
    assert_eq!(beside(OF_ADDRESS_MAX).err(), Some(Nfs4ErrDelay));
    assert_eq!(all[0].opened(open(b"f", READ, WRITE)).rflags, 4 | 8);
    first.opened(open(b"f", READ, 0));
    scene.pass(&mut clock, LEASE - MOMENT);
    all[1..].iter_mut().for_each(|live| assert_eq!(live.flags(), 0));
    scene.pass(&mut clock, MOMENT * 2);
    let mut newcomer = Opener::try_beside(&scene, "newcomer", (9999, 9)).expect("one is late");
    assert_eq!(all[0].status(&[]), Nfs4ErrBadsession, "it had something, and its lease was over");
    assert_eq!(newcomer.status(&[open(b"f", WRITE, 0)]), OK, "what it had is closed");
}

/// Rules V24: what was taken from a client that did not answer it may not claim again behind a crash, before it is given to another one.
#[test]
fn who_gave_way_is_out_of_the_list_before_another_one_is_answered() {
    let (mut late, mut clock) = (Opener::new(), Duration::ZERO);
    let scene = late.scene.clone();
    let clients = scene.exports.keep_clients();
    scene.file(b"f");
    scene.file(b"g");
    late.opened(open(b"f", BOTH, BOTH));
    scene.pass(&mut clock, LEASE + MOMENT);
    let mut other = Opener::beside(&scene, "another", 2);
    (0..2).for_each(|_| _ = other.opened(open(b"g", READ, 0)));
    *clients.promises.lock() = Promises::ByHand;
    let ask = [other.sequence(), scene.put_tank(), open(b"f", READ, 0)];
    let (mut job, step) = scene.begin_on(&other.link, 5000, &ask);
    let told = fate(step);
    assert!(told.try_recv().is_err());
    let held: Vec<_> = clients.held.lock().drain(..).collect();
    held.into_iter().for_each(|then| then(Ok(tally_base::Kept::default())));
    let reply = scene.service.reply_after_wait(&mut job, told.try_recv().unwrap());
    assert_eq!(read_reply(&reply, &ask).status, OK);
}
