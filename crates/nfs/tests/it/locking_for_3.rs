//! Locks of NFSv3, call by call and without a socket: hosts at several addresses, clients of version 4 beside them, what is durable before who is answered, and what of it is left behind a restart.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tally_base::Kept;
use tally_nfs::service::{Service, Step};
use tally_nfs::v4::Heard;
use tally_nfs::xdr::{Decoder, Encoder};
use tally_vfs::locks::{Kind, Lock, Range};
use tally_vfs::{
    Access, Attributes, ClientNumber, Cred, Deny, Holder, Identity, Locks, Names, OpCtx, Opening, Opens, OwnerNumber,
    Series, SetAttr, Share, ToOpen,
};
use tally_wire::nfs4::Nfsstat4;

use crate::support::client::record;
use crate::support::compound::lookup;
use crate::support::delegates::{delegated, delegated_to_write, give_back};
use crate::support::desk::bytes_of;
use crate::support::gated::Promises;
use crate::support::host::{
    Ask, BLOCKED, CANCEL, DENIED, FAILED, GRACE, GRANTED, Host, LOCK, NAMES, NOLOCKS, NSM, READ_ONLY, STALE, TEST,
    TOO_BIG, UNLOCK, answers, ask, calls, host, listed, locking, next_call, notices, numbers, restart, scene, words_of,
};
use crate::support::keeper::{self, opens, written_scene};
use crate::support::opener::{READ, WRITE};
use crate::support::scene::{Scene, fate};

/// A client of version 4, as the table of claims knows one.
fn of_4(number: u64) -> Holder {
    Holder { client: ClientNumber(number), owner: OwnerNumber(1) }
}

#[test]
fn a_range_is_one_hosts_until_it_gives_it_up() {
    let scene = scene();
    let file = scene.file(b"f");
    let (one, two) = (host(1), host(2));
    let [lock, test, unlock] = [LOCK, TEST, UNLOCK].map(|procedure| ask(&scene, procedure, file));
    assert_eq!(one.told(&scene, &test), [GRANTED]);
    assert_eq!(one.told(&scene, &lock), [GRANTED]);
    assert_eq!(one.told(&scene, &lock), [GRANTED], "again, as its answer was lost");
    assert_eq!(two.told(&scene, &lock), [DENIED]);
    assert_eq!(one.told(&scene, &Ask { process: 8, ..lock.clone() }), [DENIED], "nor another process of the same host");
    // exclusive, svid, the owner's bytes, from 0, ten of them
    let held = [DENIED, 1, 7, 7, u32::from_be_bytes(*b"proc"), u32::from_be_bytes(*b"ess\0"), 0, 0, 0, 10];
    assert_eq!(two.told(&scene, &Ask { is_exclusive: false, ..test.clone() }), held);
    assert_eq!(
        two.told(&scene, &Ask { range: (10, 0), ..lock.clone() }),
        [GRANTED],
        "what lies behind it is free, to the end"
    );
    assert_eq!(two.told(&scene, &unlock), [GRANTED], "what is another's stays");
    assert_eq!(two.told(&scene, &lock), [DENIED]);
    assert_eq!(one.told(&scene, &unlock), [GRANTED]);
    assert_eq!(two.told(&scene, &lock), [GRANTED]);
    let shared = Ask { is_exclusive: false, range: (100, 1), ..lock };
    assert_eq!([&one, &one].map(|host| host.says(&scene, &Ask { range: (5, 0), ..shared.clone() })), [DENIED; 2]);
}

#[test]
fn what_cannot_be_locked() {
    let scene = scene();
    let file = scene.file(b"f");
    let (root, user) = (host(1), Host { uid: 1000, ..host(2) });
    let lock = ask(&scene, LOCK, file);
    assert_eq!(root.says(&scene, &Ask { range: (u64::MAX, 2), ..lock.clone() }), TOO_BIG);
    assert_eq!(root.says(&scene, &ask(&scene, LOCK, scene.exports.tank.root())), FAILED, "a directory");
    assert_eq!(root.says(&scene, &Ask { file: b"no handle".to_vec(), ..lock.clone() }), FAILED);
    let shared = Ask { is_exclusive: false, ..lock.clone() };
    assert_eq!(user.says(&scene, &shared), GRANTED, "who may read it");
    assert_eq!(user.says(&scene, &lock), FAILED, "who may only read it keeps nobody out");
    assert_eq!(user.says(&scene, &Ask { procedure: TEST, ..lock.clone() }), FAILED);
    let (cred, nobody) = (Cred::root(), SetAttr { mode: Some(0o600), ..SetAttr::default() });
    scene.exports.tank.model.setattr(OpCtx::of(&cred), file, &nobody, None).result.unwrap();
    assert_eq!(user.says(&scene, &Ask { range: (20, 1), ..shared.clone() }), FAILED);
    assert_eq!(user.says(&scene, &ask(&scene, UNLOCK, file)), GRANTED, "and gives up what he has");
    assert_eq!(root.says(&scene, &lock), GRANTED);
    let unlock = ask(&scene, UNLOCK, file);
    assert_eq!(root.says(&scene, &unlock), GRANTED);
    for (mode, uid, says) in [(0o602, None, GRANTED), (0o444, Some(1000), GRANTED), (0o666, None, GRANTED)] {
        let set = SetAttr { mode: Some(mode), uid, ..SetAttr::default() };
        scene.exports.tank.model.setattr(OpCtx::of(&cred), file, &set, None).result.unwrap();
        assert_eq!(
            [&lock, &unlock].map(|ask| user.says(&scene, ask)),
            [says, GRANTED],
            "{mode:o}: who may write, or owns it"
        );
    }
    *scene.exports.tank_rule.lock() = "10.0.0.0/8(ro,no_root_squash,insecure)".into();
    for host in [&root, &user] {
        assert_eq!([&lock, &shared, &unlock].map(|ask| host.says(&scene, ask)), [READ_ONLY, GRANTED, GRANTED]);
    }
    *scene.exports.tank_rule.lock() = "10.0.0.1(rw,no_root_squash,insecure)".into();
    assert_eq!(root.says(&scene, &lock), GRANTED);
    assert_eq!(user.says(&scene, &shared), FAILED, "whom no rule lets in");
    scene.exports.tank.remove(OpCtx::of(&cred), scene.exports.tank.root(), b"f").result.unwrap();
    assert_eq!([&lock, &ask(&scene, UNLOCK, file)].map(|ask| root.says(&scene, ask)), [STALE, GRANTED]);
}

/// Ranges of version 4 and of version 3 are in one table.
#[test]
fn clients_of_version_4_are_met() {
    let scene = scene();
    let file = scene.file(b"f");
    let tank = &scene.exports.tank.model;
    let share = Share { access: Access::BOTH, deny: Deny::NONE };
    let opening = Opening { share, by: &|_| Ok(of_4(1)), wants: None };
    tank.open(OpCtx::of(&Cred::root()), ToOpen::Itself(file), opening).result.unwrap();
    let his = Lock { holder: of_4(1), range: Range::between(5, 6).unwrap(), kind: Kind::Read };
    tank.lock_range(file, of_4(1), his).unwrap();
    let one = host(1);
    let lock = ask(&scene, LOCK, file);
    // Nobody is there by that number any more, who would be ended for it.
    assert_eq!(one.says(&scene, &lock), DENIED);
    assert_eq!(one.says(&scene, &Ask { is_exclusive: false, ..lock.clone() }), GRANTED);
    assert!(tank.lock_range(file, of_4(1), Lock { kind: Kind::Write, ..his }).is_err());
    tank.close(file, of_4(1));
    assert_eq!(one.says(&scene, &lock), GRANTED);
}

/// So are those of programs of the server itself, which has the dataset mounted: a host that waits for them is called.
#[test]
fn programs_of_the_server_are_met() {
    let scene = scene();
    let file = scene.file(b"f");
    let tank = &scene.exports.tank.model;
    let program = Holder { client: ClientNumber::of(Series::HERE, 3), owner: OwnerNumber(u64::MAX) };
    let range = Range::between(5, 6).unwrap();
    tank.lock_unopened(file, Lock { holder: program, range, kind: Kind::Write }).unwrap();
    let one = host(1);
    let lock = ask(&scene, LOCK, file);
    assert_eq!(one.says(&scene, &lock), DENIED);
    // exclusive, of no process that the host could know, from 5, two of them
    assert_eq!(one.told(&scene, &ask(&scene, TEST, file)), [DENIED, 1, 0, 0, 0, 5, 0, 2]);
    assert_eq!(one.says(&scene, &Ask { blocks: true, ..lock.clone() }), BLOCKED);
    assert!(next_call(&scene).is_none());
    tank.unlock_range(file, program, Range::ALL).unwrap();
    scene.service.freed_here(&**tank, file);
    // Without a look of those who come twice a second.
    let call = scene.service.next_host_call().expect("GRANTED");
    assert_eq!((call.to, call.procedure), ([10, 0, 0, 1].into(), 5));
    assert!(tank.lock_unopened(file, Lock { holder: program, range, kind: Kind::Read }).is_err(), "it is the host's");
}

/// N1: its first lock in a pool waits for its record there, and no later one does.
#[test]
fn who_has_a_lock_is_in_the_list_of_its_pool() {
    let scene = scene();
    let file = scene.file(b"f");
    let clients = scene.exports.keep_clients();
    *clients.promises.lock() = Promises::ByHand;
    let (mut job, step) = host(1).begin(&scene, &ask(&scene, LOCK, file));
    let told = fate(step);
    assert!(told.try_recv().is_err(), "it is not answered before that is durable");
    let held: Vec<_> = clients.held.lock().drain(..).collect();
    held.into_iter().for_each(|then| then(Ok(Kept::default())));
    let reply = scene.service.reply_after_wait(&mut job, told.try_recv().expect("it is now"));
    assert_eq!(words_of(&bytes_of(&reply).into()), [GRANTED]);
    assert_eq!(listed(&scene), ["n-00000000000000000000ffff0a000001"]);
    *clients.promises.lock() = Promises::Ready;
    assert_eq!(host(1).says(&scene, &Ask { range: (50, 1), ..ask(&scene, LOCK, file) }), GRANTED);
    let before = clients.changes.load(SeqCst);
    assert_eq!(host(1).says(&scene, &Ask { range: (70, 1), ..ask(&scene, LOCK, file) }), GRANTED);
    assert_eq!(clients.changes.load(SeqCst), before);
}

/// N1: nothing is asked of who is called, so his record is durable before the range is locked for him.
#[test]
fn who_waits_gets_a_range_when_his_record_is_durable() {
    let scene = scene();
    let file = scene.file(b"f");
    let (clients, lock) = (scene.exports.keep_clients(), Ask { blocks: true, ..ask(&scene, LOCK, file) });
    assert_eq!(host(1).says(&scene, &lock), GRANTED);
    *clients.promises.lock() = Promises::ByHand;
    let (mut job, step) = host(2).begin(&scene, &lock);
    let told = fate(step);
    assert_eq!(host(1).says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    assert!(next_call(&scene).is_none());
    assert!(clients.held.lock().len() > 1, "somebody wants it to be durable");
    let held: Vec<_> = clients.held.lock().drain(..).collect();
    held.into_iter().for_each(|then| then(Ok(Kept::default())));
    *clients.promises.lock() = Promises::Ready;
    let reply = scene.service.reply_after_wait(&mut job, told.try_recv().expect("it is durable"));
    assert_eq!(words_of(&bytes_of(&reply).into()), [BLOCKED]);
    calls(&scene, &host(2));
}

/// N7: what a client has to write it, it locks by itself.
#[test]
fn what_a_client_of_version_4_keeps_it_is_asked_for_first() {
    let scene = Arc::new(locking(Arc::try_unwrap(written_scene()).ok().expect("nobody else has it")));
    let file = scene.file_named(b"f");
    let mut client = keeper::client(&scene, "a", 2);
    let (kept, ..) = delegated_to_write(&opens(&mut client, b"f", WRITE)).expect("it has it alone");
    let (one, lock) = (host(1), ask(&scene, LOCK, file));
    let (mut job, step) = one.begin(&scene, &lock);
    assert!(matches!(step, Step::Again(_)), "a moment");
    let Step::Reply(reply) = scene.service.run(&mut job) else { panic!("it is told something") };
    assert_eq!(words_of(&bytes_of(&reply).into()), [GRACE], "it asks again");
    let asked = keeper::call(&scene).expect("a recall");
    assert_eq!(asked.2.stateid, kept);
    keeper::answer(&scene, &asked, Nfsstat4::Nfs4Ok);
    assert_eq!(keeper::status(&mut client, &[lookup(b"f"), give_back(kept)]), Nfsstat4::Nfs4Ok);
    assert_eq!(one.says(&scene, &lock), GRANTED);
    assert!(keeper::call(&scene).is_none());
    let mut other = keeper::client(&scene, "b", 3);
    let told = opens(&mut other, b"f", WRITE);
    assert_eq!(delegated_to_write(&told), None, "none is given while another one has a range");
}

/// N7: what a client has to read it, it locks for reading by itself, so nobody else locks it for writing without asking for that first, or beside it.
#[test]
fn what_a_client_of_version_4_reads_is_locked_for_writing_by_nobody_else() {
    let scene = Arc::new(locking(Arc::try_unwrap(written_scene()).ok().expect("nobody else has it")));
    let file = scene.file_named(b"f");
    let mut client = keeper::client(&scene, "a", 2);
    let (kept, _) = delegated(&opens(&mut client, b"f", READ)).expect("nobody writes it");
    let (one, lock) = (host(1), ask(&scene, LOCK, file));
    let shared = Ask { is_exclusive: false, range: (20, 5), ..lock.clone() };
    assert_eq!(one.says(&scene, &shared), GRANTED, "beside who reads");
    assert!(keeper::call(&scene).is_none());
    assert_eq!([TEST, LOCK].map(|procedure| one.says(&scene, &Ask { procedure, ..lock.clone() })), [GRACE; 2]);
    let asked = keeper::call(&scene).expect("a recall");
    assert_eq!(asked.2.stateid, kept);
    keeper::answer(&scene, &asked, Nfsstat4::Nfs4Ok);
    assert_eq!(keeper::status(&mut client, &[lookup(b"f"), give_back(kept)]), Nfsstat4::Nfs4Ok);
    assert_eq!(one.says(&scene, &lock), GRANTED);
    // The other way round: who opens it behind that asks for each lock.
    let mut other = keeper::client(&scene, "b", 3);
    assert_eq!(delegated(&opens(&mut other, b"f", READ)), None);
    assert_eq!(one.says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    let mut third = keeper::client(&scene, "c", 4);
    let (kept, _) = delegated(&opens(&mut third, b"g", READ)).expect("nobody has locked that one");
    assert_eq!(one.says(&scene, &ask(&scene, LOCK, scene.file_named(b"g"))), GRACE);
    assert_eq!(keeper::call(&scene).expect("a recall").2.stateid, kept);
}

/// A host that has nothing any more is out of the list a while later: nobody waits for it behind a restart.
#[test]
fn who_has_nothing_any_more_goes_out_of_the_list() {
    let scene = scene();
    let (file, mut clock) = (scene.file(b"f"), Duration::ZERO);
    let [lock, unlock] = [LOCK, UNLOCK].map(|procedure| ask(&scene, procedure, file));
    for host in [host(1), host(2)] {
        assert_eq!(host.says(&scene, &Ask { is_exclusive: false, ..lock.clone() }), GRANTED);
    }
    assert_eq!(host(1).says(&scene, &unlock), GRANTED);
    scene.pass(&mut clock, Duration::from_secs(50));
    assert!(next_call(&scene).is_none());
    assert_eq!(listed(&scene).len(), 2, "it may lock again soon");
    scene.pass(&mut clock, Duration::from_secs(30));
    assert!(next_call(&scene).is_none());
    assert_eq!(listed(&scene), ["n-00000000000000000000ffff0a000002"]);
    // And comes in again with its next lock.
    assert_eq!(host(1).says(&scene, &Ask { is_exclusive: false, ..lock }), GRANTED);
    assert_eq!(listed(&scene).len(), 2);
}

/// N2: those that had locks are told of the restart, and claim them; others wait meanwhile, and for the whole time.
#[test]
fn what_was_locked_is_claimed_again_behind_a_restart() {
    let scene = scene();
    let file = scene.file(b"f");
    let (one, two, mut clock) = (host(1), host(2), Duration::ZERO);
    let lock = ask(&scene, LOCK, file);
    let again = Ask { is_reclaim: true, ..lock.clone() };
    assert_eq!(one.says(&scene, &lock), GRANTED);
    assert_eq!(one.says(&scene, &again), GRANTED, "which it has, as the notice was of another pool");
    assert_eq!(two.says(&scene, &again), GRACE, "outside of a grace nothing is claimed");

    let scene = restart(scene);
    assert_eq!(notices(&scene), NAMES.map(|name| ([10, 0, 0, 1].into(), name.into(), 5)), "and nobody else");

    let unlock = ask(&scene, UNLOCK, file);
    assert_eq!([&lock, &ask(&scene, TEST, file), &again].map(|ask| two.says(&scene, ask)), [GRACE; 3]);
    assert_eq!(one.says(&scene, &lock), GRACE, "it is nothing new");
    assert_eq!(one.says(&scene, &again), GRANTED);
    assert_eq!(one.says(&scene, &lock), GRANTED, "which it has by now");
    scene.pass(&mut clock, Duration::from_secs(85));
    assert_eq!(two.says(&scene, &lock), GRACE, "it may have had more");
    scene.pass(&mut clock, Duration::from_secs(10));
    assert_eq!(two.says(&scene, &lock), DENIED);
    assert_eq!(one.says(&scene, &Ask { range: (50, 1), ..again.clone() }), GRACE, "it is over");
    assert_eq!(one.says(&scene, &unlock), GRANTED);
    assert_eq!(two.says(&scene, &lock), GRANTED);
}

/// Whoever does not come is out of the list at the end of the grace; and where nobody was in it there is none.
#[test]
fn a_host_that_claims_nothing_has_nothing() {
    let scene = scene();
    let (file, mut clock) = (scene.file(b"f"), Duration::ZERO);
    let lock = ask(&scene, LOCK, file);
    assert_eq!(host(1).says(&scene, &lock), GRANTED);
    let scene = restart(scene);
    assert_eq!(host(2).says(&scene, &lock), GRACE);
    scene.pass(&mut clock, Duration::from_secs(95));
    assert_eq!(host(2).says(&scene, &lock), GRANTED);
    assert_eq!(listed(&scene), ["n-00000000000000000000ffff0a000002"]);
    assert_eq!(host(2).says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    scene.pass(&mut clock, Duration::from_secs(95));
    notices(&scene);
    let scene = restart(scene);
    assert_eq!(host(3).says(&scene, &lock), GRANTED);
}

/// N4: by the address of who says it, and by nothing else.
#[test]
fn a_host_that_has_started_anew_has_lost_its_locks() {
    let scene = scene();
    let file = scene.file(b"f");
    let lock = ask(&scene, LOCK, file);
    let one = Host { state: 3, ..host(1) };
    assert_eq!(one.says(&scene, &lock), GRANTED);
    host(2).notifies(&scene, 5);
    assert_eq!(host(2).says(&scene, &lock), DENIED, "another's word is nothing");
    host(1).notifies(&scene, 3);
    assert_eq!(host(2).says(&scene, &lock), DENIED, "nor that it is what it was");
    host(1).notifies(&scene, 5);
    // Who was refused has nothing, and goes out of it like others that have nothing.
    assert_eq!(listed(&scene), ["n-00000000000000000000ffff0a000002"]);
    assert_eq!(host(2).says(&scene, &lock), GRANTED);
    let there = Ask { range: (20, 5), ..lock.clone() };
    assert_eq!(Host { state: 5, ..host(1) }.says(&scene, &there), GRANTED);
    host(1).notifies(&scene, 5);
    assert_eq!(host(2).says(&scene, &there), DENIED, "a notice that comes twice");
}

/// N4: two machines behind one address, whose numbers know nothing of each other. What either has locked was the other one's end once.
#[test]
fn a_number_in_a_lock_frees_nothing() {
    let scene = scene();
    let file = scene.file(b"f");
    let lock = ask(&scene, LOCK, file);
    let there = |first| Ask { range: (first, 5), process: first as u32, ..lock.clone() };
    let [one, two] = [5, 101].map(|state| Host { state, ..host(1) });
    assert_eq!([(&one, 0), (&two, 10), (&one, 20)].map(|(it, first)| it.says(&scene, &there(first))), [GRANTED; 3]);
    assert_eq!([0, 10, 20].map(|first| host(2).says(&scene, &there(first))), [DENIED; 3]);
    assert_eq!(listed(&scene).len(), 2);
}

/// N4: its notice comes behind its first locks, as it found no server before. They stay, and what it had before goes.
#[test]
fn a_notice_that_comes_late_frees_what_was_before_it() {
    let scene = scene();
    let (file, other) = (scene.file(b"f"), scene.file(b"g"));
    let [lock, beside] = [file, other].map(|file| ask(&scene, LOCK, file));
    let before = Host { state: 3, ..host(1) };
    let behind = Host { state: 5, ..host(1) };
    assert_eq!(before.says(&scene, &lock), GRANTED);
    let waits = Ask { blocks: true, process: 9, ..beside.clone() };
    assert_eq!([host(2).says(&scene, &beside), before.says(&scene, &waits)], [GRANTED, BLOCKED]);
    let there = Ask { range: (20, 5), process: 8, ..lock.clone() };
    assert_eq!(behind.says(&scene, &there), GRANTED);
    host(1).notifies(&scene, 5);
    assert_eq!([&lock, &there].map(|ask| host(2).says(&scene, ask)), [GRANTED, DENIED]);
    assert_eq!(listed(&scene).len(), 2, "it may claim what it has");
    assert_eq!(host(2).says(&scene, &ask(&scene, UNLOCK, other)), GRANTED);
    assert!(next_call(&scene).is_none(), "who waited is gone with its start");
    host(1).notifies(&scene, 7);
    assert_eq!(host(2).says(&scene, &there), GRANTED);
}

/// N5: `mount.nfs` of the server's own machine asks whether there is a status monitor, for its kernel, which ours is none for. What others say is heard.
#[test]
fn to_programs_of_this_machine_there_is_no_status_monitor() {
    let scene = scene();
    let told = |peer: &str, procedure| {
        let call = record(1, (0, &[0]), NSM, procedure, Encoder::new());
        let reply = scene.service.answer_datagram(call.into(), peer.parse().unwrap()).expect("an answer");
        u32::from_be_bytes(bytes_of(&reply)[20..24].try_into().unwrap())
    };
    const DONE: u32 = 0;
    const NO_PROGRAM: u32 = 1;
    const NO_PROCEDURE: u32 = 3;
    for near in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        assert_eq!([0, 2].map(|procedure| told(near, procedure)), [NO_PROGRAM; 2], "{near}");
    }
    assert_eq!([0, 2].map(|procedure| told("10.0.0.1", procedure)), [DONE, NO_PROCEDURE]);
}

/// A host that goes down with the server, and comes back first: it claims nothing, and nobody waits for it.
#[test]
fn a_host_that_starts_anew_in_the_grace_ends_it() {
    let scene = scene();
    let file = scene.file(b"f");
    let lock = ask(&scene, LOCK, file);
    assert_eq!(host(1).says(&scene, &lock), GRANTED);
    let scene = restart(scene);
    assert_eq!(host(2).says(&scene, &lock), GRACE);
    host(1).notifies(&scene, 5);
    assert_eq!(host(2).says(&scene, &lock), GRANTED);
}

/// N3: in turn, each called with the lock in its hands.
#[test]
fn who_waits_is_called_in_turn() {
    let scene = scene();
    let file = scene.file(b"f");
    let lock = Ask { blocks: true, ..ask(&scene, LOCK, file) };
    let [one, two, three] = [1, 2, 3].map(host);
    assert_eq!(one.says(&scene, &lock), GRANTED);
    assert_eq!([&two, &three, &two].map(|host| host.says(&scene, &lock)), [BLOCKED; 3]);
    assert!(next_call(&scene).is_none());
    assert_eq!(one.says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    let call = calls(&scene, &two);
    assert!(!call.is_datagram);
    let mut words = Decoder::new(&call.arguments, 0);
    assert_eq!(words.opaque(32).unwrap().len(), 8);
    assert!(words.bool().unwrap() && words.opaque(64).unwrap() == b"host" && words.opaque(64).unwrap() == lock.file);
    assert_eq!((words.opaque(64).unwrap(), words.u32().unwrap()), (&b"process"[..], 7));
    assert_eq!((words.u64().unwrap(), words.u64().unwrap(), words.is_at_end()), (0, 10, true));
    assert!(next_call(&scene).is_none(), "one at a time");
    assert_eq!(one.says(&scene, &ask(&scene, LOCK, file)), DENIED, "it is locked for the other one");
    scene.service.host_call_done(&call, &answers(GRANTED));
    assert!(next_call(&scene).is_none());
    assert_eq!(two.says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    let call = calls(&scene, &three);
    // Its process was killed meanwhile.
    scene.service.host_call_done(&call, &answers(DENIED));
    assert_eq!(one.says(&scene, &ask(&scene, LOCK, file)), GRANTED);
}

#[test]
fn a_waiter_that_cannot_be_called_keeps_nobody_waiting_for_long() {
    let scene = scene();
    let (file, mut clock) = (scene.file(b"f"), Duration::ZERO);
    let lock = Ask { blocks: true, ..ask(&scene, LOCK, file) };
    assert_eq!(host(1).says(&scene, &lock), GRANTED);
    // It has a part of it for reading, and would write all of it.
    let shared = Ask { is_exclusive: false, range: (20, 2), ..lock.clone() };
    assert_eq!(host(2).says(&scene, &shared), GRANTED);
    let all = Ask { range: (0, 40), ..lock.clone() };
    assert_eq!(host(2).says(&scene, &all), BLOCKED);
    assert_eq!(host(1).says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    let mut calls = 0;
    for _ in 0..30 {
        while let Some(call) = next_call(&scene) {
            calls += 1;
            scene.service.host_call_done(&call, &Heard::NotCalled);
        }
        scene.pass(&mut clock, Duration::from_secs(1));
    }
    assert_eq!(calls, 3);
    assert_eq!(host(3).says(&scene, &lock), GRANTED);
    assert_eq!(host(3).says(&scene, &Ask { range: (20, 1), ..lock }), BLOCKED, "what it had before is its own");
}

/// A call that crosses a cancellation: what was locked for him is free; or another LOCK, which finds it.
#[test]
fn a_waiter_that_goes_or_comes_again_while_it_is_called() {
    let scene = scene();
    let file = scene.file(b"f");
    let lock = Ask { blocks: true, ..ask(&scene, LOCK, file) };
    let (one, two) = (host(1), host(2));
    assert_eq!(one.says(&scene, &lock), GRANTED);
    assert_eq!(two.says(&scene, &lock), BLOCKED);
    assert_eq!(two.says(&scene, &Ask { procedure: CANCEL, ..lock.clone() }), GRANTED);
    assert_eq!(one.says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    assert!(next_call(&scene).is_none(), "nobody waits");

    assert_eq!(one.says(&scene, &lock), GRANTED);
    assert_eq!(two.says(&scene, &lock), BLOCKED);
    assert_eq!(one.says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    let call = calls(&scene, &two);
    assert_eq!(two.says(&scene, &Ask { procedure: CANCEL, ..lock.clone() }), GRANTED);
    assert_eq!(one.says(&scene, &lock), GRANTED);
    scene.service.host_call_done(&call, &answers(GRANTED));
    assert_eq!(two.says(&scene, &ask(&scene, LOCK, file)), DENIED, "a word that comes too late is nothing");

    assert_eq!(two.says(&scene, &lock), BLOCKED);
    assert_eq!(one.says(&scene, &ask(&scene, UNLOCK, file)), GRANTED);
    let call = calls(&scene, &two);
    assert_eq!(two.says(&scene, &lock), GRANTED, "it found it by itself");
    scene.service.host_call_done(&call, &Heard::Nothing);
    assert_eq!(one.says(&scene, &ask(&scene, LOCK, file)), DENIED);
    two.notifies(&scene, 9);
    assert_eq!(one.says(&scene, &ask(&scene, LOCK, file)), GRANTED);
}

/// While the pool is away a host asks again, and nothing is lost.
#[test]
fn a_pool_that_is_away() {
    let scene = scene();
    let file = scene.file(b"f");
    let [lock, unlock] = [LOCK, UNLOCK].map(|procedure| ask(&scene, procedure, file));
    assert_eq!(host(1).says(&scene, &lock), GRANTED);
    scene.exports.export(true);
    assert_eq!([&lock, &unlock].map(|ask| host(1).says(&scene, ask)), [GRACE; 2]);
    scene.exports.import();
    assert_eq!(host(2).says(&scene, &lock), DENIED);
    scene.exports.export(true);
    host(1).notifies(&scene, 5);
    scene.exports.import();
    assert_eq!(host(2).says(&scene, &lock), GRANTED, "it started anew meanwhile");
}

#[test]
fn a_server_that_is_not_told_to_has_no_locks() {
    let scene = Scene::new();
    let file = scene.file(b"f");
    assert_eq!(host(1).says(&scene, &ask(&scene, LOCK, file)), NOLOCKS);
    let alone = Scene { service: Service::new(scene.exports.clone()).locking_for_3(numbers(), &NAMES), ..scene };
    assert_eq!(host(1).says(&alone, &ask(&alone, LOCK, file)), NOLOCKS, "nor one that does not speak version 4");
}
