//! What clients had open before the server started anew: who may claim it again, and what others are told meanwhile.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::support::POOL;
use crate::support::compound::{Op, op, put, stateid};
use crate::support::gated::Promises;
use crate::support::opener::{BOTH, READ, find, read_by};
use crate::support::scene::{Scene, fate, read_reply};
use crate::support::session::{Entered, Newcomer, complete, create_session, exchange_id, sequence};
use tally_base::Wait;
use tally_nfs::link::Link;
use tally_nfs::service::Step;
use tally_nfs::v4::holdings::GraceSeen;
use tally_nfs::v4::state::ClientId;
use tally_vfs::{Attributes, Cred, Identity, Names, OpCtx, SetAttr};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Close4Args, Compound4Res, CreateSession4Res, Createhow4, DestroyClientid4Args, DestroySession4Args, ExchangeId4Res,
    Fattr4, Lock4Args, Locker4, Lockt4Args, NfsArgop4, NfsLockType4, NfsResop4, Nfsstat4, Open4Args, Open4Res,
    OpenClaim4, OpenDelegationType4, OpenOwner4, OpenToLockOwner4, Openflag4, Sessionid4, Stateid4,
};

const OK: Nfsstat4 = Nfs4Ok;

/// A client with a session of one slot.
struct Client {
    client: u64,
    session: Sessionid4,
    next: Cell<u32>,
}

impl Client {
    fn new(scene: &Scene, name: &[u8]) -> Self {
        let mut xid = 0;
        let entered = Newcomer::named(name).enter(|ops| {
            xid += 1;
            scene.run(xid, ops)
        });
        let Entered { client, session, .. } = entered.expect("it is let in");
        Self { client, session, next: Cell::new(1) }
    }

    /// One that has nothing to claim.
    fn complete(scene: &Scene, name: &[u8]) -> Self {
        let client = Self::new(scene, name);
        assert_eq!(client.status(scene, &[done()]), OK);
        client
    }

    fn behind_sequence(&self, ops: &[Op]) -> Vec<Op> {
        let number = self.next.replace(self.next.get() + 1);
        let sequence = sequence(self.session, 0, number, false);
        [&[sequence], ops].concat()
    }

    fn run(&self, scene: &Scene, ops: &[Op]) -> (Nfsstat4, Option<NfsResop4>) {
        let mut reply = scene.run(100 + self.next.get(), &self.behind_sequence(ops));
        (reply.status, reply.resarray.0.pop())
    }

    fn status(&self, scene: &Scene, ops: &[Op]) -> Nfsstat4 {
        self.run(scene, ops).0
    }

    /// Opens a file of the tank, which has to work.
    fn opens(&self, scene: &Scene, name: &[u8]) -> Stateid4 {
        match self.run(scene, &[scene.put_tank(), open(name, (BOTH, 0))]) {
            (_, Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(opened)))) => opened.stateid,
            other => panic!("{other:?}"),
        }
    }

    fn closes(&self, scene: &Scene, name: &[u8], open_stateid: Stateid4) {
        let close = op(&NfsArgop4::OpClose(Close4Args { seqid: 0, open_stateid }));
        assert_eq!(self.status(scene, &[scene.put(scene.file_named(name)), close]), OK);
    }

    /// It says that it has gone.
    fn goes(&self, scene: &Scene) {
        let session = DestroySession4Args { dsa_sessionid: self.session };
        assert_eq!(scene.run(400, &[op(&NfsArgop4::OpDestroySession(session))]).status, OK);
        let client = DestroyClientid4Args { dca_clientid: self.client };
        assert_eq!(scene.run(401, &[op(&NfsArgop4::OpDestroyClientid(client))]).status, OK);
    }

    /// Claims a file again.
    fn claims(&self, scene: &Scene, file: &Op, share: (u32, u32)) -> Result<Stateid4, Nfsstat4> {
        match self.run(scene, &[file.clone(), again(share)]) {
            (_, Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(opened)))) => Ok(opened.stateid),
            (status, _) => Err(status),
        }
    }
}

fn done() -> Op {
    complete()
}

fn opening((access, deny): (u32, u32), how: Openflag4, claim: OpenClaim4) -> Op {
    let owner = OpenOwner4 { clientid: 0, owner: b"o"[..].into() };
    op(&NfsArgop4::OpOpen(Open4Args { seqid: 0, share_access: access, share_deny: deny, owner, openhow: how, claim }))
}

fn open(name: &[u8], share: (u32, u32)) -> Op {
    opening(share, find(), OpenClaim4::ClaimNull(name.into()))
}

fn made(name: &[u8]) -> Op {
    let how = Openflag4::Open4Create(Createhow4::Unchecked4(Fattr4::of(&[])));
    opening((BOTH, 0), how, OpenClaim4::ClaimNull(name.into()))
}

fn again(share: (u32, u32)) -> Op {
    opening(share, find(), OpenClaim4::ClaimPrevious(OpenDelegationType4::OpenDelegateNone))
}

/// What stands in the pool's list.
fn entries(scene: &Scene) -> Vec<String> {
    let clients = scene.exports.keep_clients();
    let page = clients.readdir(&Cred::root(), clients.root(), 0, 100, false).unwrap();
    let names = page.entries.iter().map(|entry| String::from_utf8(entry.name.to_vec()).unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}

fn is_lease(entry: &str) -> bool {
    entry.starts_with("lease-")
}

/// Who is in it.
fn listed(scene: &Scene) -> usize {
    entries(scene).iter().filter(|entry| !is_lease(entry)).count()
}

/// How long it says that leases were.
fn leases(scene: &Scene) -> Vec<String> {
    entries(scene).into_iter().filter(|entry| is_lease(entry)).collect()
}

/// Time passes, as the server looks at it.
fn pass(scene: &Scene, clock: &mut Duration, seconds: u64) {
    (0..seconds).for_each(|_| {
        *clock += Duration::from_secs(1);
        scene.service.look_at_clock(*clock);
    });
}

fn scene() -> Scene {
    let scene = Scene { minor: 1, ..Scene::new() };
    scene.exports.keep_clients();
    scene
}

/// Behind a restart who had it open has it again, whatever its mode says by then; and everybody else waits for him, and no longer (rules V25 and V26).
#[test]
fn what_was_open_is_claimed_again_before_others_open_anything() {
    let scene = scene();
    let (file, cred) = (scene.file(b"f"), Cred::root());
    let put_file = scene.put(file);
    let client = Client::complete(&scene, b"a client");
    assert_eq!(listed(&scene), 0, "who has nothing open is in no list");
    client.opens(&scene, b"f");
    client.opens(&scene, b"f");
    assert_eq!(listed(&scene), 1);
    let nobody = SetAttr { mode: Some(0), ..SetAttr::default() };
    scene.exports.tank.model.setattr(OpCtx::of(&cred), file, &nobody, None).result.unwrap();

    let scene = scene.restart();
    let other = Client::complete(&scene, b"another client");
    let in_tank = |op: Op| [scene.put_tank(), op];
    assert_eq!(other.status(&scene, &in_tank(open(b"f", (READ, 0)))), Nfs4ErrGrace);
    assert_eq!(other.status(&scene, &in_tank(made(b"new"))), Nfs4ErrGrace);
    assert!(!scene.has(b"new"), "and nothing is made");
    assert_eq!(other.status(&scene, &[put_file.clone(), read_by(stateid(0))]), Nfs4ErrGrace);
    assert_eq!(other.claims(&scene, &put_file, (READ, 0)), Err(Nfs4ErrNoGrace), "it is in no list");

    let client = Client::new(&scene, b"a client");
    assert_eq!(client.status(&scene, &in_tank(open(b"f", (READ, 0)))), Nfs4ErrGrace, "before it has completed");
    let claimed = client.claims(&scene, &put_file, (READ, 2)).unwrap();
    assert_eq!(client.status(&scene, &[put_file.clone(), read_by(claimed)]), OK);
    assert_eq!(other.status(&scene, &in_tank(open(b"f", (READ, 0)))), Nfs4ErrGrace, "there may be more");
    assert_eq!(client.status(&scene, &[done()]), OK);
    assert_eq!(client.claims(&scene, &put_file, (READ, 0)), Err(Nfs4ErrNoGrace), "it has completed");
    assert_eq!(other.status(&scene, &in_tank(made(b"new"))), OK);
    assert_eq!(other.status(&scene, &in_tank(open(b"f", (BOTH, 0)))), Nfs4ErrShareDenied, "what was claimed counts");
    assert_eq!(listed(&scene), 2);
}

#[test]
fn claims_that_are_in_each_others_way_are_told_so() {
    let scene = scene();
    let put_file = scene.put(scene.file(b"f"));
    let names: [&[u8]; 2] = [b"one", b"two"];
    for name in names {
        Client::complete(&scene, name).opens(&scene, b"f");
    }
    let scene = scene.restart();
    let [one, two] = names.map(|name| Client::new(&scene, name));
    assert!(one.claims(&scene, &put_file, (BOTH, 3)).is_ok());
    assert_eq!(two.claims(&scene, &put_file, (READ, 0)), Err(Nfs4ErrReclaimConflict));
    // A directory, and nothing at all, are no files that were open.
    assert_eq!(two.claims(&scene, &scene.put_tank(), (READ, 0)), Err(Nfs4ErrIsdir));
    assert_eq!(two.claims(&scene, &put(b"no handle"), (READ, 0)), Err(Nfs4ErrBadhandle));
}

/// Whoever was told that a file is open can claim it: his answer waits for the list, also where another one of his has put him in (rules V23).
#[test]
fn nobody_is_answered_before_he_is_in_the_list() {
    let scene = scene();
    scene.file(b"f");
    let client = Client::complete(&scene, b"a client");
    let clients = scene.exports.keep_clients();
    *clients.promises.lock() = Promises::ByHand;
    let in_tank = [scene.put_tank(), open(b"f", (READ, 0))];
    let both = [client.behind_sequence(&in_tank), client_on(&client, 1, &in_tank)];
    let waiting = both.map(|ops| {
        let (job, step) = scene.begin(200, &ops);
        (ops, job, fate(step))
    });
    for (_, _, told) in &waiting {
        assert!(told.try_recv().is_err());
    }
    let held: Vec<_> = clients.held.lock().drain(..).collect();
    held.into_iter().for_each(|then| then(Ok(tally_base::Kept::default())));
    for (ops, mut job, told) in waiting {
        let outcome = told.try_recv().expect("it is answered once that is durable");
        let reply = scene.service.reply_after_wait(&mut job, outcome);
        assert_eq!(read_reply(&reply, &ops).status, OK);
        scene.service.finish(&mut job, &reply);
    }

    *clients.promises.lock() = Promises::Ready;
    assert_eq!(client.status(&scene, &[scene.put_tank(), open(b"f", (READ, 0))]), OK);
    let before = clients.changes.load(SeqCst);
    assert_eq!(client.status(&scene, &[scene.put_tank(), open(b"f", (READ, 0))]), OK);
    assert_eq!(clients.changes.load(SeqCst), before, "once that is durable the list is not asked any more");
}

fn client_on(client: &Client, slot: u32, ops: &[Op]) -> Vec<Op> {
    let sequence = sequence(client.session, slot, 1, false);
    [&[sequence], ops].concat()
}

/// And where that cannot be written nobody is told that he has it open; where there is no room for it he is.
#[test]
fn an_open_whose_client_cannot_be_listed_is_told_by_why_it_cannot() {
    let scene = scene();
    scene.file(b"f");
    let client = Client::complete(&scene, b"a client");
    let ops = [scene.put_tank(), open(b"f", (READ, 0))];
    let clients = scene.exports.keep_clients();
    clients.suspended.store(true, SeqCst);
    assert_eq!(client.status(&scene, &ops), Nfs4ErrDelay);
    clients.suspended.store(false, SeqCst);
    *clients.promises.lock() = Promises::Broken;
    let sent = client.behind_sequence(&ops);
    let (mut job, step) = scene.begin(300, &sent);
    let outcome = fate(step).recv().unwrap();
    let reply = scene.service.reply_after_wait(&mut job, outcome);
    assert_eq!(read_reply(&reply, &sent).status, Nfs4ErrIo);
    scene.service.finish(&mut job, &reply);
    *clients.promises.lock() = Promises::Ready;
    assert_eq!(client.status(&scene, &ops), OK);
}

/// Rules V2: its file was there, and the list could not be asked for a moment. The OPEN was carried out anew, and told EXIST of its own file.
#[test]
fn what_was_made_is_not_made_again_for_the_list() {
    let scene = scene();
    let client = Client::complete(&scene, b"a client");
    let how = Openflag4::Open4Create(Createhow4::Guarded4(Fattr4::of(&[])));
    let guarded = opening((BOTH, 0), how, OpenClaim4::ClaimNull(b"n".into()));
    let clients = scene.exports.keep_clients();
    *clients.promises.lock() = Promises::Driven;
    // How long its lease is, its link, and the question behind these; what comes then is refused admission.
    clients.throttle_behind(3);
    let ops = client.behind_sequence(&[scene.put_tank(), guarded]);
    let (mut job, step) = scene.begin(600, &ops);
    let outcome = fate(step).recv().unwrap();
    assert_eq!(read_reply(&scene.service.reply_after_wait(&mut job, outcome), &ops).status, OK);
}

/// Who has gone goes out of the list, and nobody waits for him behind a restart.
#[test]
fn who_is_gone_keeps_nobody_waiting() {
    let scene = scene();
    scene.file(b"f");
    let client = Client::complete(&scene, b"a client");
    let opened = client.opens(&scene, b"f");
    assert_eq!(listed(&scene), 1);
    client.closes(&scene, b"f", opened);
    assert_eq!(listed(&scene), 1, "who has nothing open any more may have soon");
    client.goes(&scene);
    assert_eq!(listed(&scene), 0);
    let scene = scene.restart();
    Client::complete(&scene, b"another client").opens(&scene, b"f");
}

/// What somebody had who is gone is another one's by then (rules V24).
#[test]
fn a_grant_waits_until_who_is_gone_is_out_of_the_list() {
    let scene = scene();
    scene.file(b"f");
    let [gone, other] = [&b"a client"[..], b"another client"].map(|name| Client::complete(&scene, name));
    let opened = gone.opens(&scene, b"f");
    (0..2).for_each(|_| _ = other.opens(&scene, b"f"));
    let clients = scene.exports.keep_clients();
    *clients.promises.lock() = Promises::ByHand;
    gone.closes(&scene, b"f", opened);
    gone.goes(&scene);
    assert_eq!(listed(&scene), 1);
    let ops = other.behind_sequence(&[scene.put_tank(), open(b"f", (READ, 0))]);
    let (_job, step) = scene.begin(500, &ops);
    let told = fate(step);
    assert!(told.try_recv().is_err());
    // The one that left the list, and the one that was waited for: nobody drives the first.
    let held: Vec<_> = clients.held.lock().drain(..).collect();
    held.into_iter().for_each(|then| then(Ok(tally_base::Kept::default())));
    told.try_recv().unwrap().unwrap();
}

fn evict(scene: &Scene, client: u64) {
    let holdings = scene.service.holdings().expect("it speaks version 4");
    assert!(holdings.evict(ClientId(client)).is_some());
}

/// Behind a restart: who was evicted claims nothing, which is another one's by then.
fn is_out_of_the_list(scene: Scene) {
    let other = Client::complete(&scene, b"another client");
    let shuts = open(b"f", (BOTH, BOTH));
    assert_eq!(other.status(&scene, &[scene.put_tank(), shuts]), OK);
    assert_eq!(listed(&scene), 1);
    let scene = scene.restart();
    let client = Client::new(&scene, b"a client");
    assert_eq!(client.claims(&scene, &scene.put(scene.file_named(b"f")), (READ, 0)), Err(Nfs4ErrNoGrace));
}

/// Whoever evicts is told whether that is durable.
#[test]
fn who_is_evicted_is_out_of_the_list_once_that_is_durable() {
    let scene = scene();
    scene.file(b"f");
    let client = Client::complete(&scene, b"a client");
    client.opens(&scene, b"f");
    let clients = scene.exports.keep_clients();
    *clients.promises.lock() = Promises::ByHand;
    evict(&scene, client.client);
    let is_out = |time| scene.service.holdings().is_some_and(|held| held.are_out_of_the_lists(time));
    assert!(!is_out(Duration::from_millis(10)));
    *clients.promises.lock() = Promises::Driven;
    assert!(is_out(Duration::from_secs(60)));
    *clients.promises.lock() = Promises::Broken;
    assert!(!is_out(Duration::from_secs(60)));
    clients.suspended.store(true, SeqCst);
    assert!(!is_out(Duration::from_secs(60)));
}

/// Its OPEN found no room in the list, and went on behind its end (rules V24).
#[test]
fn who_is_evicted_while_an_open_waits_does_not_come_into_the_list() {
    let scene = scene();
    scene.file(b"f");
    let client = Client::complete(&scene, b"a client");
    scene.exports.keep_clients().throttle.store(1, SeqCst);
    let ops = client.behind_sequence(&[scene.put_tank(), open(b"f", (READ, 0))]);
    let (mut job, step) = scene.begin(700, &ops);
    assert!(matches!(step, Step::Again(_)));
    evict(&scene, client.client);
    let step = scene.service.run(&mut job);
    assert_eq!(scene.end(&mut job, step, &ops).status, Nfs4ErrBadsession);
    is_out_of_the_list(scene);
}

/// The same, while it is at the folder.
#[test]
fn who_is_evicted_while_the_list_is_changed_does_not_come_into_it() {
    let scene = Arc::new(scene());
    scene.file(b"f");
    let [gone, client] = [&b"gone"[..], b"a client"].map(|name| Client::complete(&scene, name));
    let opened = gone.opens(&scene, b"f");
    gone.closes(&scene, b"f", opened);
    let clients = scene.exports.keep_clients();
    // It stays in the folder until somebody opens something.
    clients.suspended.store(true, SeqCst);
    gone.goes(&scene);
    clients.suspended.store(false, SeqCst);
    let (of_scene, id) = (scene.clone(), client.client);
    *clients.before_remove.lock() = Some(Box::new(move || evict(&of_scene, id)));
    let told = client.status(&scene, &[scene.put_tank(), open(b"f", (READ, 0))]);
    assert_eq!((told, listed(&scene)), (Nfs4ErrBadsession, 0));
    is_out_of_the_list(Arc::into_inner(scene).expect("nobody else has it"));
}

/// A client claims what it had of the server that it knows, and of no other one (rules V40): a moved pool is another server's.
#[test]
fn a_server_is_known_again_by_its_machine_and_its_place() {
    let owner = |host, place: &[u8]| {
        let scene = scene();
        let scene = Scene { service: scene.service.known_as(host, place), ..scene };
        let mut reply = scene.run(1, &[exchange_id(b"a client")]);
        let Some(NfsResop4::OpExchangeId(ExchangeId4Res::Nfs4Ok(known))) = reply.resarray.0.pop() else { panic!() };
        (known.eir_server_owner, known.eir_server_scope)
    };
    assert_eq!(owner(1, b"/var/lib/tally"), owner(1, b"/var/lib/tally"));
    assert_ne!(owner(1, b"/var/lib/tally"), owner(2, b"/var/lib/tally"));
    assert_ne!(owner(1, b"/var/lib/tally"), owner(1, b"/home/me/tally-data"));
}

/// Who comes back and claims nothing goes out of it as well, with the end of the grace; and is in again once he opens something.
#[test]
fn a_client_that_starts_anew_has_nothing_to_claim() {
    let scene = scene();
    scene.file(b"f");
    Client::complete(&scene, b"a client").opens(&scene, b"f");
    let scene = scene.restart();
    let client = Client::complete(&scene, b"a client");
    client.opens(&scene, b"f");
    assert_eq!(listed(&scene), 1);
}

fn lock(open: &Stateid4, owner: &[u8], reclaim: bool) -> Op {
    let lock_owner = OpenOwner4 { clientid: 0, owner: owner.into() };
    let below = OpenToLockOwner4 { open_seqid: 0, open_stateid: open.clone(), lock_seqid: 0, lock_owner };
    let (locktype, offset, length) = (NfsLockType4::WriteLt, 5, 10);
    op(&NfsArgop4::OpLock(Lock4Args { locktype, reclaim, offset, length, locker: Locker4::True(below) }))
}

/// Below an open that was claimed; and nobody is told meanwhile that what is not locked yet is free.
#[test]
fn what_was_locked_is_claimed_again() {
    let scene = scene();
    let put_file = scene.put(scene.file(b"f"));
    let names: [&[u8]; 2] = [b"one", b"two"];
    for name in names {
        Client::complete(&scene, name).opens(&scene, b"f");
    }
    let scene = scene.restart();
    let [one, two] = names.map(|name| Client::new(&scene, name));
    let [open_one, open_two] = [&one, &two].map(|client| client.claims(&scene, &put_file, (BOTH, 0)).unwrap());
    let status = |client: &Client, ask: Op| client.status(&scene, &[put_file.clone(), ask]);
    let owner = OpenOwner4 { clientid: 0, owner: b"o".into() };
    let test = Lockt4Args { locktype: NfsLockType4::WriteLt, offset: 0, length: 1, owner };
    let test = op(&NfsArgop4::OpLockt(test));
    assert_eq!(status(&one, lock(&open_one, b"o", false)), Nfs4ErrGrace, "before it has completed");
    assert_eq!(status(&two, test.clone()), Nfs4ErrGrace);
    assert_eq!(status(&one, lock(&open_one, b"o", true)), OK);
    assert_eq!(status(&two, lock(&open_two, b"o", true)), Nfs4ErrReclaimConflict);
    assert_eq!(one.status(&scene, &[done()]), OK);
    assert_eq!(status(&one, lock(&open_one, b"o", true)), Nfs4ErrNoGrace, "it has completed");
    assert_eq!(status(&one, lock(&open_one, b"o", false)), Nfs4ErrGrace, "another one may claim it");
    assert_eq!(two.status(&scene, &[done()]), OK);
    assert_eq!(status(&two, lock(&open_two, b"o", false)), Nfs4ErrDenied, "what was claimed counts");
    assert_eq!((status(&two, test), status(&one, lock(&open_one, b"p", false))), (OK, Nfs4ErrDenied));
}

/// Rules V25: programs of the server's machine stand in no list, and what one is given behind a grace nobody claims in the next one.
#[test]
fn who_did_not_come_claims_nothing_behind_a_program_of_the_server() {
    for is_asked in [false, true] {
        let (scene, mut clock) = (scene(), Duration::ZERO);
        let put_file = scene.put(scene.file(b"f"));
        Client::complete(&scene, b"a client").opens(&scene, b"f");
        let scene = scene.restart();
        let is_grace = || scene.service.is_in_grace(POOL);
        assert!(is_grace() && matches!(scene.service.given_here(POOL), Err(Wait::Ready)));
        pass(&scene, &mut clock, 91);
        assert!(!is_grace());
        // A program locks here.
        if is_asked {
            let clients = scene.exports.keep_clients();
            *clients.promises.lock() = Promises::ByHand;
            assert!(matches!(scene.service.given_here(POOL), Ok(Wait::On(_))), "it is not durable yet");
            *clients.promises.lock() = Promises::Ready;
            assert!(matches!(scene.service.given_here(POOL), Ok(Wait::Ready)));
        }
        let scene = scene.restart();
        let claimed = Client::new(&scene, b"a client").claims(&scene, &put_file, (READ, 0));
        assert_eq!(claimed.is_err(), is_asked, "{claimed:?}");
    }
}

/// Whoever administers the server sees who is waited for, and for how long.
#[test]
fn a_grace_is_told_as_long_as_it_lasts() {
    let told = |scene: &Scene| scene.service.holdings().expect("it speaks version 4").graces();
    let (scene, mut clock) = (scene(), Duration::ZERO);
    let put_file = scene.put(scene.file(b"f"));
    for name in [&b"a client"[..], b"a late one"] {
        Client::complete(&scene, name).opens(&scene, b"f");
    }
    assert_eq!(told(&scene), [], "nobody had anything before this start");

    let scene = scene.restart();
    let other = Client::complete(&scene, b"another client");
    let shuts = [scene.put_tank(), open(b"f", (BOTH, BOTH))];
    assert_eq!(other.status(&scene, &shuts), Nfs4ErrGrace);
    let grace = |came, seconds| ("tank".to_owned(), GraceSeen { listed: 2, came, left: Duration::from_secs(seconds) });
    assert_eq!(told(&scene), [grace(0, 90)]);
    pass(&scene, &mut clock, 30);
    let client = Client::new(&scene, b"a client");
    client.claims(&scene, &put_file, (READ, 0)).unwrap();
    // The clock of leases begins with the first look at the clock.
    assert_eq!(told(&scene), [grace(0, 61)], "it has come, and there may be more of it");
    assert_eq!(client.status(&scene, &[done()]), OK);
    assert_eq!(told(&scene), [grace(1, 61)]);
    assert_eq!(Client::new(&scene, b"a late one").status(&scene, &[done()]), OK);
    assert_eq!(other.status(&scene, &shuts), Nfs4ErrShareDenied);
    assert_eq!(told(&scene), []);
}

/// RFC 8881 §8.4.2.1: a client finds out within the lease that it was told that the server was away. By the lease of the next start alone what it had was another one's before it came.
#[test]
fn the_grace_is_as_long_as_the_longer_lease_of_both_lives() {
    for (before, after, grace) in [(90, 5, 90), (5, 90, 90), (5, 5, 5), (5, 30, 30), (600, 30, 600)] {
        let [before, after] = [before, after].map(Duration::from_secs);
        let (scene, mut clock) = (scene().leasing_for(before), Duration::ZERO);
        let put_file = scene.put(scene.file(b"f"));
        let client = Client::complete(&scene, b"a client");
        client.opens(&scene, b"f");
        assert_eq!(leases(&scene), [format!("lease-{}", before.as_secs())]);

        let scene = scene.restart().leasing_for(after);
        let other = Client::complete(&scene, b"another client");
        let shuts = [scene.put_tank(), open(b"f", (BOTH, BOTH))];
        assert_eq!(other.status(&scene, &shuts), Nfs4ErrGrace);
        pass(&scene, &mut clock, grace - 1);
        assert_eq!(other.status(&scene, &shuts), Nfs4ErrGrace, "{before:?} and {after:?}");
        pass(&scene, &mut clock, 3);
        assert_eq!(other.status(&scene, &shuts), OK, "{before:?} and {after:?}");
        let client = Client::new(&scene, b"a client");
        assert_eq!(client.claims(&scene, &put_file, (READ, 0)), Err(Nfs4ErrNoGrace));
        assert_eq!(leases(&scene), [format!("lease-{}", after.as_secs())], "nobody has any of before");
    }
}

/// The second end of a server comes in the grace behind the first one: what was claimed by then is of a lease of the second life, what was not of one of the first.
#[test]
fn a_grace_that_was_cut_short_is_as_long_as_the_longest_lease() {
    for leases_of in [[600, 5, 30], [5, 600, 30]] {
        let [first, second, third] = leases_of.map(Duration::from_secs);
        let (scene, mut clock) = (scene().leasing_for(first), Duration::ZERO);
        let put_file = scene.put(scene.file(b"f"));
        ["one", "two"].iter().for_each(|name| _ = Client::complete(&scene, name.as_bytes()).opens(&scene, b"f"));
        let scene = scene.restart().leasing_for(second);
        assert!(Client::new(&scene, b"one").claims(&scene, &put_file, (READ, 0)).is_ok());
        let scene = scene.restart().leasing_for(third);
        let other = Client::complete(&scene, b"another client");
        let opens = [scene.put_tank(), open(b"f", (READ, 0))];
        assert_eq!(other.status(&scene, &opens), Nfs4ErrGrace);
        pass(&scene, &mut clock, 599);
        assert_eq!(other.status(&scene, &opens), Nfs4ErrGrace);
        pass(&scene, &mut clock, 3);
        assert_eq!(other.status(&scene, &opens), OK);
        assert_eq!(leases(&scene), ["lease-30"]);
    }
}

/// A list that was written before leases stood in it is of leases of 90 seconds; one in which something else stands is read as if that were not there.
#[test]
fn a_list_without_a_lease_is_of_ninety_seconds() {
    let (scene, mut clock) = (scene().leasing_for(Duration::from_secs(5)), Duration::ZERO);
    scene.file(b"f");
    Client::complete(&scene, b"a client").opens(&scene, b"f");
    let (clients, cred) = (scene.exports.keep_clients(), Cred::root());
    clients.remove(OpCtx::of(&cred), clients.root(), b"lease-5").result.unwrap();
    for none in ["lease-", "lease-4", "lease-3601", "lease-0600", "lease-+600", "lease-x"] {
        let set = SetAttr { mode: Some(0o777), ..SetAttr::default() };
        clients.symlink(OpCtx::of(&cred), clients.root(), none.as_bytes(), b"x", &set).result.unwrap();
    }
    let scene = scene.restart().leasing_for(Duration::from_secs(5));
    let other = Client::complete(&scene, b"another client");
    let opens = [scene.put_tank(), open(b"f", (READ, 0))];
    assert_eq!(other.status(&scene, &opens), Nfs4ErrGrace);
    pass(&scene, &mut clock, 89);
    assert_eq!(other.status(&scene, &opens), Nfs4ErrGrace);
    pass(&scene, &mut clock, 3);
    assert_eq!(other.status(&scene, &opens), OK);
}

/// Where a claim keeps the grace open, a short lease keeps it short.
#[test]
fn a_claim_keeps_a_short_grace_open_for_a_lease() {
    let (scene, mut clock) = (scene().leasing_for(Duration::from_secs(5)), Duration::ZERO);
    let put_file = scene.put(scene.file(b"f"));
    ["one", "two"].iter().for_each(|name| _ = Client::complete(&scene, name.as_bytes()).opens(&scene, b"f"));
    let scene = scene.restart().leasing_for(Duration::from_secs(5));
    pass(&scene, &mut clock, 1);
    let client = Client::new(&scene, b"one");
    pass(&scene, &mut clock, 1);
    assert!(client.claims(&scene, &put_file, (READ, 0)).is_ok());
    assert_eq!(client.status(&scene, &[done()]), OK);
    let opens = [scene.put_tank(), open(b"f", (READ, 0))];
    pass(&scene, &mut clock, 4);
    assert_eq!(client.status(&scene, &opens), Nfs4ErrGrace);
    pass(&scene, &mut clock, 2);
    assert_eq!(client.status(&scene, &opens), OK);
}

/// Ids of clients are those of a start of the server and a number, so who has one knows those of others. A session for such a one was given to whoever asked, from wherever: there he said for it that it claims nothing more.
#[test]
fn nobody_else_says_for_a_client_that_it_claims_nothing_more() {
    let scene = scene();
    let f = scene.put(scene.file(b"f"));
    let a = Client::complete(&scene, b"a");
    a.opens(&scene, b"f");
    let scene = scene.restart();
    for rule in [&scene.exports.tank_rule, &scene.exports.child_rule] {
        *rule.lock() = "127.0.0.0/8(rw,no_root_squash)".into();
    }
    let a = Client::new(&scene, b"a");
    let stranger = Arc::new(Link::new(9, "192.0.2.7:40000".parse().unwrap()));
    let send = |xid: u32, ops: &[Op]| {
        let (mut job, step) = scene.begin_on(&stranger, xid, ops);
        scene.end(&mut job, step, ops)
    };
    let mut told = send(9001, &[create_session(a.client, 2)]);
    if let Some(NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(created))) = told.resarray.0.pop() {
        send(9002, &[sequence(created.csr_sessionid, 0, 1, false), done()]);
    }
    assert!(a.claims(&scene, &f, (BOTH, 0)).is_ok(), "it had that open");
}

/// A compound over another connection.
fn over(scene: &Scene, link: &Arc<Link>, xid: u32, ops: &[Op]) -> Compound4Res {
    let (mut job, step) = scene.begin_on(link, xid, ops);
    scene.end(&mut job, step, ops)
}

/// The same before the client has come back: its name is that of its machine. Whoever had it first said that it claims nothing more, or went again, and with him went what it had.
#[test]
fn who_has_taken_the_name_of_a_client_before_it_comes_back_says_nothing_for_it() {
    for peer in ["192.0.2.7:700", "192.0.2.7:40000", "127.0.0.1:40000"] {
        for goes in [false, true] {
            let scene = scene();
            let f = scene.put(scene.file(b"f"));
            Client::complete(&scene, b"a").opens(&scene, b"f");
            let scene = scene.restart();
            for rule in [&scene.exports.tank_rule, &scene.exports.child_rule] {
                *rule.lock() = "127.0.0.0/8(rw,no_root_squash)".into();
            }
            let link = Arc::new(Link::new(9, peer.parse().unwrap()));
            let mut xid = 9000;
            let mut send = |ops: &[Op]| {
                xid += 1;
                over(&scene, &link, xid, ops)
            };
            let taken = Newcomer::named(b"a").enter(&mut send).expect("nobody has that name");
            assert_eq!(send(&[sequence(taken.session, 0, 1, false), done()]).status, OK);
            if goes {
                let session = DestroySession4Args { dsa_sessionid: taken.session };
                assert_eq!(send(&[op(&NfsArgop4::OpDestroySession(session))]).status, OK);
                let client = DestroyClientid4Args { dca_clientid: taken.client };
                assert_eq!(send(&[op(&NfsArgop4::OpDestroyClientid(client))]).status, OK);
            }
            let a = Client::new(&scene, b"a");
            assert!(a.claims(&scene, &f, (BOTH, 0)).is_ok(), "from {peer}, who goes: {goes}");
            assert_eq!(a.status(&scene, &[done()]), OK);
        }
    }
}

/// Rules come and go with their pools: a client that comes back before its pool does is nobody's yet, and claims what it had all the same; and goes on while the pool is away once more.
#[test]
fn a_client_that_is_there_before_its_pool_claims_what_it_had() {
    let scene = scene();
    let f = scene.put(scene.file(b"f"));
    Client::complete(&scene, b"a").opens(&scene, b"f");
    let scene = scene.restart();
    *scene.exports.away.lock() = true;
    let a = Client::new(&scene, b"a");
    assert_eq!(a.status(&scene, &[f.clone(), again((BOTH, 0))]), Nfs4ErrDelay);
    *scene.exports.away.lock() = false;
    assert!(a.claims(&scene, &f, (BOTH, 0)).is_ok());
    assert_eq!(a.status(&scene, &[done()]), OK);
    *scene.exports.away.lock() = true;
    let again = scene.run(9001, &[exchange_id(b"a")]);
    assert_eq!((again.status, scene.run(9002, &[create_session(a.client, 2)]).status), (OK, OK));
}

/// Who has no port of the superuser's is the client of his address, behind a restart as well.
#[test]
fn a_client_from_any_port_claims_what_it_had() {
    let at = |port: u16, address: u8| Arc::new(Link::new(u64::from(port), ([192, 0, 2, address], port).into()));
    let enter = |scene: &Scene, link: &Arc<Link>| {
        let mut xid = 9000;
        let entered = Newcomer::named(b"a").enter(|ops| {
            xid += 1;
            over(scene, link, xid, ops)
        });
        entered.expect("it is let in").session
    };
    for (address, told) in [(1, OK), (2, Nfs4ErrNoGrace)] {
        let scene = scene();
        let f = scene.put(scene.file(b"f"));
        let session = enter(&scene, &at(40001, 1));
        let opens = [sequence(session, 0, 2, false), scene.put_tank(), open(b"f", (BOTH, 0))];
        assert_eq!(over(&scene, &at(40001, 1), 1, &[sequence(session, 0, 1, false), done()]).status, OK);
        assert_eq!(over(&scene, &at(40002, 1), 2, &opens).status, OK);
        let (scene, link) = (scene.restart(), at(40003, address));
        let session = enter(&scene, &link);
        let claims = [sequence(session, 0, 1, false), f.clone(), again((BOTH, 0))];
        assert_eq!(over(&scene, &link, 3, &claims).status, told, "from {address}");
    }
}
