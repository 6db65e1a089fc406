//! What clients have of a pool that is exported and comes back in the same life of the server (rules V37): they wait, and go on; or it is over, and they are told.

use std::sync::Arc;
use std::time::Duration;

use crate::support::compound::{Op, lookup, make, op, remove};
use crate::support::delegates::{self, delegated, give_back, open_by};
use crate::support::gated::Gated;
use crate::support::keeper::{answer, call, client, handle, introduced, keeps, opens, pass, plain, run, written_scene};
use crate::support::opener::{BOTH, Opener, READ, close, find, free, open, open_as, read_by};
use crate::support::owner::{
    Owner, at, confirmed, in_tank, introduce, introduced as introduced_as, locked, opened, read_by as read,
};
use crate::support::scene::Scene;
use crate::support::session::{complete, sequence};
use tally_nfs::v3::Procedure;
use tally_nfs::v4::state::{ClientId, LEASE_DEFAULT as LEASE};
use tally_nfs::xdr::Encoder;
use tally_vfs::{Cred, Identity, Names};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Compound4Res, Lock4Args, Locker4, Lockt4Args, Locku4Args, NfsArgop4, NfsLockType4, NfsResop4, Nfsstat4, OpenClaim4,
    OpenDelegationType4, OpenToLockOwner4, StateOwner4, Stateid4, TestStateid4Args, TestStateid4Res,
};

const OK: Nfsstat4 = Nfs4Ok;
/// `SEQ4_STATUS_ADMIN_STATE_REVOKED`, and RECALLABLE_STATE_REVOKED.
const ADMIN_REVOKED: u32 = 0x20;
const RECALLABLE_REVOKED: u32 = 0x40;
const MOMENT: Duration = Duration::from_secs(5);

fn lock(below: &Stateid4, owner: &[u8]) -> Op {
    let lock_owner = StateOwner4 { clientid: 0, owner: owner.into() };
    let below = OpenToLockOwner4 { open_seqid: 0, open_stateid: below.clone(), lock_seqid: 0, lock_owner };
    let locktype = NfsLockType4::WriteLt;
    op(&NfsArgop4::OpLock(Lock4Args { locktype, reclaim: false, offset: 10, length: 10, locker: Locker4::True(below) }))
}

fn test_lock(owner: &[u8]) -> Op {
    let owner = StateOwner4 { clientid: 0, owner: owner.into() };
    op(&NfsArgop4::OpLockt(Lockt4Args { locktype: NfsLockType4::WriteLt, offset: 0, length: 100, owner }))
}

fn unlock(lock_stateid: Stateid4) -> Op {
    let locktype = NfsLockType4::WriteLt;
    op(&NfsArgop4::OpLocku(Locku4Args { locktype, seqid: 0, lock_stateid, offset: 0, length: u64::MAX }))
}

/// TEST_STATEID and FREE_STATEID need no file, and so no pool.
fn alone(client: &mut Opener, asked: Op) -> NfsResop4 {
    let sequence = client.sequence();
    client.send(&[sequence, asked]).resarray.0.pop().expect("it is answered")
}

fn tested(client: &mut Opener, of: &Stateid4) -> Nfsstat4 {
    match alone(client, op(&NfsArgop4::OpTestStateid(TestStateid4Args { ts_stateids: vec![of.clone()].into() }))) {
        NfsResop4::OpTestStateid(TestStateid4Res::Nfs4Ok(told)) => told.tsr_status_codes.0[0],
        other => panic!("{other:?}"),
    }
}

fn freed(client: &mut Opener, of: &Stateid4) -> Nfsstat4 {
    let sequence = client.sequence();
    client.send(&[sequence, free(of.clone())]).status
}

/// JUKEBOX of version 3.
const JUKEBOX: u32 = 10_008;

fn read_plainly(scene: &Scene, xid: u32, name: &[u8]) -> u32 {
    let mut arguments = Encoder::new();
    arguments.opaque(&handle(scene, scene.file_named(name)));
    plain(scene, xid, Procedure::GetAttr, arguments)
}

#[test]
fn what_is_open_and_locked_is_what_it_was_behind_an_import() {
    let mut one = Opener::new();
    let scene = one.scene.clone();
    ["f", "g"].iter().for_each(|name| _ = scene.file(name.as_bytes()));
    let mut other = Opener::beside(&scene, "another", 2);
    let mine = one.opened(open_as(b"a", b"f", (BOTH, BOTH), find())).stateid;
    let shared = one.opened(open(b"g", BOTH, 0)).stateid;
    let theirs = other.opened(open(b"g", BOTH, 0)).stateid;
    let range = locked(&one.compound(&[lookup(b"g"), lock(&shared, b"l")]));
    scene.exports.export(true);
    // They wait, and nothing is taken.
    assert_eq!((one.flags(), other.flags()), (0, 0));
    assert_eq!(one.status(&[lookup(b"f"), read_by(mine.clone())]), Nfs4ErrDelay);
    assert_eq!(one.status(&[lookup(b"f"), close(mine.clone())]), Nfs4ErrDelay);
    assert_eq!(other.status(&[open(b"f", READ, 0)]), Nfs4ErrDelay);
    assert_eq!(read_plainly(&scene, 1, b"f"), JUKEBOX);
    assert_eq!([&mine, &shared, &range].map(|of| tested(&mut one, of)), [OK; 3]);
    assert_eq!(freed(&mut one, &range), Nfs4ErrLocksHeld, "what is locked stays so");
    scene.exports.import();
    // Before anybody has said a word others are kept out as they were.
    assert_eq!(other.status(&[open(b"f", READ, 0)]), Nfs4ErrShareDenied);
    assert_eq!(other.status(&[lookup(b"g"), test_lock(b"x")]), Nfs4ErrDenied);
    assert_eq!(other.status(&[lookup(b"g"), lock(&theirs, b"x")]), Nfs4ErrDenied);
    assert_eq!((one.flags(), other.flags()), (0, 0));
    assert_eq!(one.status(&[lookup(b"f"), read_by(mine.clone())]), OK);
    assert_eq!(one.status(&[lookup(b"g"), unlock(range)]), OK);
    assert_eq!(other.status(&[lookup(b"g"), lock(&theirs, b"x")]), OK);
    assert_eq!(one.status(&[lookup(b"f"), close(mine)]), OK);
    other.opened(open_as(b"b", b"f", (BOTH, BOTH), find()));
    assert_eq!((one.flags(), other.flags()), (0, 0));
}

/// It was kept for as long as it may be, or what came back is not what went.
#[test]
fn what_is_kept_no_more_is_revoked() {
    for ending in ["in time", "another one", "not kept"] {
        let mut client = Opener::new();
        let scene = client.scene.clone();
        scene.file(b"f");
        let mine = client.opened(open_as(b"a", b"f", (BOTH, BOTH), find())).stateid;
        scene.exports.export(ending != "not kept");
        match ending {
            "in time" => {
                assert_eq!(client.flags(), 0);
                scene.exports.export(false);
                assert_eq!(client.flags(), ADMIN_REVOKED, "it is told while the pool is away");
            }
            "another one" => {
                assert_eq!(client.flags(), 0);
                scene.exports.mount_anew();
                // As long as the pool is away nobody knows.
                scene.exports.import();
            }
            _ => {}
        }
        assert_eq!(client.flags(), ADMIN_REVOKED, "{ending}");
        assert_eq!(tested(&mut client, &mine), Nfs4ErrAdminRevoked, "{ending}");
        assert_eq!(freed(&mut client, &mine), OK);
        assert_eq!(client.flags(), 0);
    }
}

/// Nobody could close it behind the import, and it would keep others out until the end of the server.
#[test]
fn who_is_ended_while_the_pool_is_away_keeps_nobody_out() {
    let mut one = Opener::new();
    let scene = one.scene.clone();
    ["f", "g"].iter().for_each(|name| _ = scene.file(name.as_bytes()));
    let mut other = Opener::beside(&scene, "another", 2);
    one.opened(open_as(b"a", b"f", (BOTH, BOTH), find()));
    let shared = one.opened(open(b"g", BOTH, 0)).stateid;
    locked(&one.compound(&[lookup(b"g"), lock(&shared, b"l")]));
    scene.exports.export(true);
    let holdings = scene.service.holdings().expect("it speaks version 4");
    assert!(holdings.evict(ClientId(one.client)).is_some());
    scene.exports.import();
    let theirs = other.opened(open(b"g", BOTH, 0)).stateid;
    assert_eq!(other.status(&[lookup(b"g"), lock(&theirs, b"x")]), OK);
    other.opened(open_as(b"b", b"f", (BOTH, BOTH), find()));
}

#[test]
fn what_a_client_keeps_it_keeps() {
    let (scene, mut clock) = (written_scene(), Duration::ZERO);
    let (mut one, mut other, mut gone) = (client(&scene, "one", 2), client(&scene, "other", 3), client(&scene, "x", 4));
    let written = keeps(&mut one, b"f");
    let read = delegated(&opens(&mut gone, b"g", READ)).expect("it is given").0;
    scene.exports.export(true);
    pass(&scene, &mut clock, MOMENT, &mut []);
    assert_eq!((tested(&mut one, &written), tested(&mut gone, &read)), (OK, OK));
    // One of them is ended meanwhile.
    assert!(scene.service.holdings().expect("it speaks version 4").evict(ClientId(gone.client)).is_some());
    scene.exports.import();
    assert_eq!(run(&mut other, &[remove(b"g")]).status, OK, "it is nobody's");
    assert_eq!(run(&mut other, &[lookup(b"f"), crate::support::compound::read(0, 0, 9)]).status, Nfs4ErrDelay);
    let told = call(&scene).expect("it is called for it");
    assert_eq!(told.2.stateid, written);
    answer(&scene, &told, OK);
    assert_eq!(one.status(&[lookup(b"f"), delegates::write_by(written.clone(), b"late")]), OK);
    assert_eq!(one.status(&[lookup(b"f"), give_back(written)]), OK);
    assert_eq!(run(&mut other, &[lookup(b"f"), crate::support::compound::read(0, 0, 9)]).status, OK);
}

/// Nobody can give anything back to a pool that is away.
#[test]
fn the_time_for_a_recall_does_not_run_while_the_pool_is_away() {
    let (scene, mut clock) = (written_scene(), Duration::ZERO);
    let (mut one, mut other) = (client(&scene, "one", 2), client(&scene, "other", 3));
    let written = keeps(&mut one, b"f");
    assert_eq!(run(&mut other, &[remove(b"f")]).status, Nfs4ErrDelay);
    let told = call(&scene).expect("it is called for it");
    answer(&scene, &told, OK);
    pass(&scene, &mut clock, LEASE - MOMENT, &mut [&mut one, &mut other]);
    scene.exports.export(true);
    pass(&scene, &mut clock, LEASE - MOMENT, &mut [&mut one, &mut other]);
    assert_eq!(one.status(&[lookup(b"f"), give_back(written.clone())]), Nfs4ErrDelay);
    scene.exports.import();
    pass(&scene, &mut clock, MOMENT, &mut [&mut one, &mut other]);
    assert_eq!(one.flags() & RECALLABLE_REVOKED, 0);
    assert_eq!(one.status(&[lookup(b"f"), give_back(written)]), OK);
    assert_eq!(run(&mut other, &[remove(b"f")]).status, OK);
}

/// The folder of the list is the same one by another object, as behind an import.
fn list_is_mounted_again(scene: &Scene) {
    let mut clients = scene.exports.clients.lock();
    let before = clients.take().expect("it has a list");
    *clients = Some(Arc::new(Gated::new(before.model.clone())));
}

/// Who is in the list stays in it, and nobody waits for claims that nobody has to make.
#[test]
fn an_import_with_what_clients_have_has_no_grace() {
    let scene = written_scene();
    let (mut one, mut other) = (client(&scene, "one", 2), client(&scene, "other", 3));
    let mine = opens(&mut one, b"f", READ).stateid;
    scene.exports.export(true);
    list_is_mounted_again(&scene);
    scene.exports.import();
    let holdings = scene.service.holdings().expect("it speaks version 4");
    opens(&mut other, b"g", READ);
    assert_eq!(holdings.graces(), []);
    assert_eq!(one.status(&[lookup(b"f"), read_by(mine)]), OK);
    // Who is ended while the folder cannot be changed is out of it before another one is given anything behind that.
    let entries =
        || scene.exports.keep_clients().readdir(&Cred::root(), scene.exports.keep_clients().root(), 0, 99, false);
    let before = entries().expect("the list").entries.len();
    scene.exports.export(true);
    // The folder goes with its pool, so that it cannot be changed.
    let model = scene.exports.clients.lock().take().expect("it has a list").model.clone();
    assert!(holdings.evict(ClientId(one.client)).is_some());
    *scene.exports.clients.lock() = Some(Arc::new(Gated::new(model)));
    scene.exports.import();
    opens(&mut other, b"f", READ);
    assert_eq!(entries().expect("the list").entries.len(), before - 1);
}

/// Whoever could not claim anything meanwhile has the time that he had.
#[test]
fn a_grace_goes_on_behind_an_import() {
    let (scene, mut clock) = (written_scene(), Duration::ZERO);
    drop(opens(&mut client(&scene, "one", 2), b"f", READ));
    let file = scene.put(scene.file_named(b"f"));
    let scene = Arc::try_unwrap(scene).ok().expect("nobody else has it").restart();
    let session = introduced(&scene, b"one");
    let mut next = 0;
    let mut run = |ops: &[Op]| {
        next += 1;
        scene.run(100 + next, &[&[sequence(session, 0, next, false)], ops].concat()).status
    };
    assert_eq!(run(&[scene.put_tank(), make(b"n")]), OK, "nobody waits for that");
    // Somebody else, who has nothing to claim, waits for him.
    let beside = introduced(&scene, b"two");
    let beside_him = |turn, ops: &[Op]| scene.run(turn, &[&[sequence(beside, 0, turn, false)], ops].concat()).status;
    assert_eq!(beside_him(1, &[complete()]), OK);
    assert_eq!(beside_him(2, &[scene.put_tank(), open(b"g", READ, 0)]), Nfs4ErrGrace);
    pass(&scene, &mut clock, LEASE - MOMENT, &mut []);
    assert_eq!(run(&[]), OK);
    scene.exports.export(true);
    list_is_mounted_again(&scene);
    pass(&scene, &mut clock, LEASE + MOMENT, &mut []);
    assert_eq!(run(&[file.clone(), claim()]), Nfs4ErrDelay);
    scene.exports.import();
    assert_eq!(beside_him(3, &[scene.put_tank(), open(b"g", READ, 0)]), Nfs4ErrGrace);
    assert_eq!(run(&[file, claim()]), OK);
    assert_eq!(run(&[complete()]), OK);
    assert_eq!(beside_him(4, &[scene.put_tank(), open(b"g", READ, 0)]), OK);
}

fn claim() -> Op {
    open_by(OpenClaim4::ClaimPrevious(OpenDelegationType4::OpenDelegateNone), READ, 0)
}

/// Clients of minor version 0 are told DELAY as well, and their owners go on where they were.
#[test]
fn an_owner_of_minor_version_0_goes_on() {
    let scene = Scene::new();
    ["f", "g"].iter().for_each(|name| _ = scene.file(name.as_bytes()));
    let mut xid = 0;
    let mut run = |ops: &[Op]| {
        xid += 1;
        scene.run(xid, ops)
    };
    let come = |name: &[u8], run: &mut dyn FnMut(&[Op]) -> Compound4Res| {
        let (id, confirm) = introduced_as(&run(&[introduce(name, 1)]));
        assert_eq!(run(&[confirm]).status, OK);
        Owner::new(id, b"o")
    };
    let (mut one, mut other) = (come(b"one", &mut run), come(b"other", &mut run));
    let opens = |owner: &mut Owner, run: &mut dyn FnMut(&[Op]) -> Compound4Res| {
        let told = opened(&run(&in_tank(owner.open(b"f", BOTH, 0))));
        owner.next += 1;
        let stateid = confirmed(&run(&at(b"f", owner.confirm(told.stateid))));
        owner.next += 1;
        stateid
    };
    let (mine, theirs) = (opens(&mut one, &mut run), opens(&mut other, &mut run));
    let (mut locks, range) = (Owner::new(one.client, b"l"), (0, 10));
    let held = locked(&run(&at(b"f", locks.lock_below(&one, &mine, NfsLockType4::WriteLt, range))));
    (one.next, locks.next) = (one.next + 1, locks.next + 1);
    scene.exports.export(true);
    assert_eq!(run(&at(b"f", read(&mine))).status, Nfs4ErrDelay);
    assert_eq!(run(&[locks.release()]).status, Nfs4ErrLocksHeld);
    scene.exports.import();
    assert_eq!(run(&at(b"f", read(&mine))).status, OK);
    let others = Owner::new(other.client, b"x");
    assert_eq!(run(&at(b"f", others.lock_below(&other, &theirs, NfsLockType4::WriteLt, range))).status, Nfs4ErrDenied);
    other.next += 1;
    assert_eq!(run(&at(b"f", locks.unlock(&held, range))).status, OK);
    assert_eq!(run(&at(b"f", one.close(mine))).status, OK);
}

/// As long as it was away for most of a lease, and came back just before the time was over: its client was told DELAY for all of it, and has a moment.
#[test]
fn a_recall_that_ran_while_the_pool_was_away_has_its_time_behind_the_import() {
    let (scene, mut clock) = (written_scene(), Duration::ZERO);
    let (mut one, mut other) = (client(&scene, "one", 2), client(&scene, "other", 3));
    let written = keeps(&mut one, b"f");
    assert_eq!(run(&mut other, &[remove(b"f")]).status, Nfs4ErrDelay);
    let told = call(&scene).expect("it is called for it");
    answer(&scene, &told, OK);
    pass(&scene, &mut clock, Duration::from_secs(1), &mut [&mut one, &mut other]);
    scene.exports.export(true);
    pass(&scene, &mut clock, LEASE - MOMENT, &mut [&mut one, &mut other]);
    assert_eq!(one.status(&[lookup(b"f"), give_back(written.clone())]), Nfs4ErrDelay);
    scene.exports.import();
    // It asks again when Linux does behind DELAY: 15 seconds later at most.
    pass(&scene, &mut clock, Duration::from_secs(15), &mut [&mut one, &mut other]);
    assert_eq!(one.flags() & RECALLABLE_REVOKED, 0, "it had 16 seconds of its lease");
    assert_eq!(one.status(&[lookup(b"f"), give_back(written)]), OK);
}

/// The same where the recall was begun anew while it was away: the rest of the time away counts.
#[test]
fn a_recall_that_was_begun_anew_while_the_pool_was_away_has_its_time_behind_the_import() {
    let (scene, mut clock) = (written_scene(), Duration::ZERO);
    let (mut one, mut other) = (client(&scene, "one", 2), client(&scene, "other", 3));
    let written = keeps(&mut one, b"f");
    assert_eq!(run(&mut other, &[remove(b"f")]).status, Nfs4ErrDelay);
    let told = call(&scene).expect("it is called for it");
    answer(&scene, &told, OK);
    pass(&scene, &mut clock, LEASE - MOMENT, &mut [&mut one, &mut other]);
    scene.exports.export(true);
    pass(&scene, &mut clock, MOMENT, &mut [&mut one, &mut other]);
    pass(&scene, &mut clock, LEASE - MOMENT * 2, &mut [&mut one, &mut other]);
    // It is called anew, and says so.
    while let Some(told) = call(&scene) {
        answer(&scene, &told, OK);
    }
    scene.exports.import();
    pass(&scene, &mut clock, Duration::from_secs(15), &mut [&mut one, &mut other]);
    assert_eq!(one.flags() & RECALLABLE_REVOKED, 0, "it had 15 seconds behind the import");
    assert_eq!(one.status(&[lookup(b"f"), give_back(written)]), OK);
}

/// A pool goes for good, and what was idle in its list cannot be written down any more: whoever evicts anybody is told for ever that that may not be on the disks.
#[test]
fn a_pool_that_does_not_come_back_keeps_no_eviction_from_being_durable() {
    let (scene, mut clock) = (written_scene(), Duration::ZERO);
    let (mut one, mut other) = (client(&scene, "one", 2), client(&scene, "other", 3));
    let written = keeps(&mut one, b"f");
    assert_eq!(one.status(&[lookup(b"f"), give_back(written)]), OK);
    scene.exports.export(true);
    drop(scene.exports.clients.lock().take());
    pass(&scene, &mut clock, LEASE * 2, &mut [&mut one, &mut other]);
    scene.service.look_after_clients();
    // Nobody keeps it any more, and it is imported elsewhere.
    scene.exports.export(false);
    assert_eq!((other.flags(), one.flags()), (0, ADMIN_REVOKED));
    let holdings = scene.service.holdings().expect("it speaks version 4");
    assert!(holdings.evict(ClientId(other.client)).is_some());
    assert!(holdings.are_out_of_the_lists(Duration::from_millis(10)), "it had nothing in any pool");
}

/// Who administers the server is told that nothing is locked, and it is.
#[test]
fn what_is_locked_is_shown_while_the_pool_is_away() {
    let mut one = Opener::new();
    let scene = one.scene.clone();
    scene.file(b"g");
    let shared = one.opened(open(b"g", BOTH, 0)).stateid;
    locked(&one.compound(&[lookup(b"g"), lock(&shared, b"l")]));
    let holdings = scene.service.holdings().expect("it speaks version 4");
    let ranges = || {
        let seen = holdings.locks(tally_nfs::v4::state::Which { client: None, most: 9 }).shown;
        seen.iter().map(|seen| seen.range.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(ranges(), [true]);
    scene.exports.export(true);
    assert_eq!(ranges(), [true]);
}

/// What is claimed again is given back behind the grace; that began anew, and the time to give it back did not.
#[test]
fn what_was_claimed_is_not_taken_before_the_grace_is_over() {
    let (scene, mut clock) = (written_scene(), Duration::ZERO);
    {
        let mut one = client(&scene, "one", 2);
        let _kept = keeps(&mut one, b"f");
        drop(opens(&mut client(&scene, "two", 3), b"g", READ));
    }
    let file = scene.put(scene.file_named(b"f"));
    let scene = Arc::try_unwrap(scene).ok().expect("nobody else has it").restart();
    let session = introduced(&scene, b"one");
    let mut next = 0;
    let mut run = |scene: &Scene, ops: &[Op]| {
        next += 1;
        scene.run(100 + next, &[&[sequence(session, 0, next, false)], ops].concat())
    };
    let claim = open_by(OpenClaim4::ClaimPrevious(OpenDelegationType4::OpenDelegateWrite), BOTH, 0);
    let told = run(&scene, &[file.clone(), claim]);
    assert_eq!(told.status, OK, "{told:?}");
    // The other one does not come. Somebody puts the pool away and takes it back as often as he likes.
    for _ in 0..3 {
        pass(&scene, &mut clock, MOMENT, &mut []);
        assert_eq!(run(&scene, &[]).status, OK);
        scene.exports.export(true);
        list_is_mounted_again(&scene);
        for _ in 0..3 {
            pass(&scene, &mut clock, LEASE / 4, &mut []);
            assert_eq!(run(&scene, &[]).status, OK);
        }
        scene.exports.import();
        assert_eq!(run(&scene, &[scene.put_tank(), open(b"g", READ, 0)]).status, Nfs4ErrGrace);
    }
    for _ in 0..4 {
        pass(&scene, &mut clock, MOMENT * 3, &mut []);
        assert_eq!(run(&scene, &[]).status, OK);
    }
    let graces = scene.service.holdings().expect("it speaks version 4").graces();
    assert_eq!(graces.len(), 1, "it lasts");
    let told = run(&scene, &[]);
    let flags = match &told.resarray.0[0] {
        NfsResop4::OpSequence(tally_wire::nfs4::Sequence4Res::Nfs4Ok(told)) => told.sr_status_flags,
        other => panic!("{other:?}"),
    };
    assert_eq!(flags & RECALLABLE_REVOKED, 0, "it was taken in the middle of the grace");
}

/// What it had for writing others read and change from the import on (here NFSv3), while it stands in the list until somebody opens something, or for a minute: behind a crash it claims that, and
/// sends what it has written over what they have.
#[test]
fn who_was_evicted_while_the_pool_was_away_claims_nothing_that_others_have_had_since() {
    let scene = written_scene();
    {
        let mut one = client(&scene, "one", 2);
        let _kept = keeps(&mut one, b"f");
        scene.exports.export(true);
        // The folder goes with its pool, so that it cannot be changed (in `an_import_with_what_clients_have_has_no_grace` it is there until behind the eviction).
        let model = scene.exports.clients.lock().take().expect("it has a list").model.clone();
        assert!(scene.service.holdings().expect("it speaks version 4").evict(ClientId(one.client)).is_some());
        *scene.exports.clients.lock() = Some(Arc::new(Gated::new(model)));
        scene.exports.import();
    }
    let f = scene.file_named(b"f");
    let mut told = JUKEBOX;
    for xid in 900..920 {
        let arguments = {
            let mut again = Encoder::new();
            again.opaque(&handle(&scene, f)).u64(0).u32(9);
            again
        };
        told = plain(&scene, xid, Procedure::Read, arguments);
        if told != JUKEBOX {
            break;
        }
    }
    assert_eq!(told, 0, "it is nobody's");
    let file = scene.put(f);
    let scene = Arc::try_unwrap(scene).ok().expect("nobody else has it").restart();
    let session = introduced(&scene, b"one");
    let claim = open_by(OpenClaim4::ClaimPrevious(OpenDelegationType4::OpenDelegateWrite), BOTH, 0);
    let told = scene.run(950, &[sequence(session, 0, 1, false), file, claim]).status;
    assert_eq!(told, Nfs4ErrNoGrace, "another one has read it, as it was before");
}
