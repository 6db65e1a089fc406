//! Bad input of version 4: stateids, slots and sequences that are another life's, client's, file's or request's, and what a client says of others. What operations are
//! told where they must not stand has `bad_input`.

use crate::support::compound::{Op, lookup, make, op, stateid, status_of};
use crate::support::opener::{BOTH, Opener, close, open, read_by};
use crate::support::owner::{Owner, confirmed, introduce, introduced, locked, opened};
use crate::support::scene::Scene;
use crate::support::session::{Newcomer, sequence};
use std::sync::Arc;
use tally_nfs::link::Link;
use tally_nfs::local::Owner as Whose;
use tally_vfs::{Attributes, Cred, OpCtx, SetAttr};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Allocate4Args, Compound4Res, CreateSession4Res, Deallocate4Args, ExchangeId4Res, Fattr4, Fattr4Value, Lock4Args,
    Lock4Res, Locker4, Lockt4Res, Locku4Args, NfsArgop4, NfsLockType4, NfsResop4, Nfsstat4, OpenDowngrade4Args,
    OpenOwner4, OpenToLockOwner4, Renew4Args, Setattr4Args, StableHow4, Stateid4, TestStateid4Args, TestStateid4Res,
    Write4Args,
};

const OK: Nfsstat4 = Nfs4Ok;

/// A client of a minor version that has sessions, alone on a server.
fn opener(minor: u32) -> Opener {
    Opener::beside(&Arc::new(Scene { minor, ..Scene::new() }), "a client", 1)
}

fn attributes(values: &[Fattr4Value]) -> Fattr4 {
    Fattr4::of(values)
}

fn lock_of(stateid: Stateid4) -> Op {
    let lock_owner = OpenOwner4 { clientid: 0, owner: b"l".into() };
    let locker = Locker4::True(OpenToLockOwner4 { open_seqid: 0, open_stateid: stateid, lock_seqid: 0, lock_owner });
    let (locktype, reclaim) = (NfsLockType4::WriteLt, false);
    op(&NfsArgop4::OpLock(Lock4Args { locktype, reclaim, offset: 0, length: 1, locker }))
}

/// Stateids that are not what they should be: of another life, client, file and version, by each operation that goes by one.
#[test]
fn stateids_of_others() {
    let scene = Arc::new(Scene { minor: 2, ..Scene::new() });
    ["f", "g"].iter().for_each(|name| _ = scene.file(name.as_bytes()));
    let (mut own, mut others) = (Opener::beside(&scene, "own", 1), Opener::beside(&scene, "others", 2));
    let mine = own.opened(open(b"f", BOTH, 0)).stateid;
    let of_other_file = own.opened(open(b"g", BOTH, 0)).stateid;
    let theirs = others.opened(open(b"f", BOTH, 0)).stateid;
    let again = own.opened(open(b"f", BOTH, 0)).stateid;
    assert_eq!((again.other, again.seqid), (mine.other, mine.seqid + 1));
    let mut of_other_life = mine.clone();
    of_other_life.other[0] ^= 1;
    let mut guessed = mine.clone();
    guessed.other[11] ^= 1;
    let cases = [
        ("another life's", of_other_life, Nfs4ErrBadStateid),
        ("guessed", guessed, Nfs4ErrBadStateid),
        ("another client's", theirs, Nfs4ErrBadStateid),
        ("another file's", of_other_file, Nfs4ErrBadStateid),
        ("ahead", Stateid4 { seqid: again.seqid + 1, ..again.clone() }, Nfs4ErrBadStateid),
        ("behind", mine.clone(), Nfs4ErrOldStateid),
    ];
    for (name, stateid, expected) in cases {
        let of = || stateid.clone();
        let (offset, stable) = (0, StableHow4::FileSync4);
        let sized = Setattr4Args { stateid: of(), obj_attributes: attributes(&[Fattr4Value::Fattr4Size(1)]) };
        let unlock = Locku4Args { locktype: NfsLockType4::WriteLt, seqid: 0, lock_stateid: of(), offset: 0, length: 1 };
        let reserve = Allocate4Args { aa_stateid: of(), aa_offset: 0, aa_length: 1 };
        let punch = Deallocate4Args { da_stateid: of(), da_offset: 0, da_length: 1 };
        let downgrade = OpenDowngrade4Args { open_stateid: of(), seqid: 0, share_access: 1, share_deny: 0 };
        let asks = [
            ("READ", read_by(of()), expected),
            (
                "WRITE",
                op(&NfsArgop4::OpWrite(Write4Args { stateid: of(), offset, stable, data: b"x".into() })),
                expected,
            ),
            ("SETATTR", op(&NfsArgop4::OpSetattr(sized)), expected),
            ("CLOSE", close(of()), expected),
            ("OPEN_DOWNGRADE", op(&NfsArgop4::OpOpenDowngrade(downgrade)), expected),
            ("LOCK", lock_of(of()), expected),
            // Of an open there is nothing to unlock, whosever it is.
            ("LOCKU", op(&NfsArgop4::OpLocku(unlock)), Nfs4ErrBadStateid),
            ("ALLOCATE", op(&NfsArgop4::OpAllocate(reserve)), expected),
            ("DEALLOCATE", op(&NfsArgop4::OpDeallocate(punch)), expected),
            ("DELEGRETURN", crate::support::delegates::give_back(of()), Nfs4ErrBadStateid),
        ];
        for (operation, ask, expected) in asks {
            let file = own.scene.put(own.scene.file_named(b"f"));
            assert_eq!(own.status(&[file, ask]), expected, "{operation} with a stateid that is {name}");
        }
        if name != "another file's" {
            let ts_stateids = vec![of()].into();
            let asked = op(&NfsArgop4::OpTestStateid(TestStateid4Args { ts_stateids }));
            let Some(NfsResop4::OpTestStateid(TestStateid4Res::Nfs4Ok(told))) = own.run(&[asked]).pop() else {
                panic!()
            };
            assert_eq!(told.tsr_status_codes[..], [expected], "TEST_STATEID of one that is {name}");
        }
    }
    assert_eq!(own.status(&[own.scene.put(own.scene.file_named(b"f")), read_by(again)]), OK);
}

/// Slots and sequences that are ahead, behind, another session's, or another request's.
#[test]
fn slots_of_others() {
    let mut client = opener(1);
    let (session, scene) = (client.session, client.scene.clone());
    let ops = |first: Op| vec![first, scene.put_tank(), make(b"a")];
    let next = client.next;
    assert_eq!(client.send(&ops(sequence(session, 0, next, true))).status, OK);
    let rows = [
        ("ahead", sequence(session, 0, next + 2, true), Nfs4ErrSeqMisordered),
        ("behind", sequence(session, 0, next - 1, true), Nfs4ErrSeqMisordered),
        ("far behind", sequence(session, 0, next.wrapping_sub(1 << 31), true), Nfs4ErrSeqMisordered),
        ("a slot that there is not", sequence(session, 4, 1, true), Nfs4ErrBadslot),
        ("the last slot of all", sequence(session, u32::MAX, 1, true), Nfs4ErrBadslot),
        ("another session", sequence([7; 16], 0, 1, true), Nfs4ErrBadsession),
    ];
    for (name, first, expected) in rows {
        let reply = client.send(&ops(first));
        assert_eq!((reply.status, reply.resarray.len()), (expected, 1), "{name}");
    }
    let another = [sequence(session, 0, next, true), scene.put_tank(), make(b"b")];
    assert_eq!(client.send(&another).status, Nfs4ErrSeqFalseRetry);
    assert!(!scene.has(b"b"));
    // Another owner's, from another connection, is a false retry as well, or none at all.
    let of_minor_0 = Scene { minor: 0, exports: scene.exports.clone(), ..Scene::new() };
    assert_eq!(of_minor_0.run(9, &ops(sequence(session, 0, next, true))).status, Nfs4ErrOpIllegal);
}

/// An owner of minor version 0, ahead and behind.
struct Plain {
    scene: Scene,
    xid: u32,
}

impl Plain {
    fn run(&mut self, ops: &[Op]) -> Compound4Res {
        self.xid += 1;
        self.scene.run(self.xid, ops)
    }

    fn client(&mut self, name: &[u8]) -> u64 {
        let (id, confirm) = introduced(&self.run(&[introduce(name, 1)]));
        assert_eq!(self.run(&[confirm]).status, OK);
        id
    }

    fn opened(&mut self, owner: &mut Owner, name: &[u8]) -> Stateid4 {
        let told = opened(&self.run(&[self.scene.put_tank(), owner.open(name, BOTH, 0)])).stateid;
        owner.next += 1;
        let file = self.scene.put(self.scene.file_named(name));
        let told = confirmed(&self.run(&[file, owner.confirm(told)]));
        owner.next += 1;
        told
    }
}

#[test]
fn seqids_ahead_and_behind() {
    let mut plain = Plain { scene: Scene::new(), xid: 0 };
    plain.scene.file(b"f");
    let client = plain.client(b"c");
    let mut owner = Owner::new(client, b"o");
    let open = plain.opened(&mut owner, b"f");
    let file = plain.scene.put(plain.scene.file_named(b"f"));
    for (name, next) in
        [("ahead", owner.next + 1), ("behind", owner.next - 2), ("far", owner.next.wrapping_add(1 << 31))]
    {
        let reply = plain.run(&[file.clone(), owner.at(next).close(open.clone())]);
        assert_eq!(reply.status, Nfs4ErrBadSeqid, "{name}");
    }
    assert_eq!(plain.run(&[file, owner.close(open)]).status, OK);
}

/// A client of minor version 0 may name any address for calls, a victim's as well. None goes there.
#[test]
fn nobody_is_called_at_an_address_that_a_client_names() {
    let mut plain = Plain { scene: Scene::new(), xid: 0 };
    plain.scene.file(b"f");
    let (first, second) = (plain.client(b"first"), plain.client(b"second"));
    let mut owner = Owner::new(first, b"o");
    let told = opened(&plain.run(&[plain.scene.put_tank(), owner.open(b"f", BOTH, 0)]));
    assert_eq!(crate::support::delegates::delegated_to_write(&told), None);
    let file = plain.scene.put(plain.scene.file_named(b"f"));
    owner.next += 1;
    let open = confirmed(&plain.run(&[file.clone(), owner.confirm(told.stateid)]));
    owner.next += 1;
    let mut lock_owner = Owner::new(first, b"l");
    let lock = lock_owner.lock_below(&owner, &open, NfsLockType4::WritewLt, (0, 9));
    let lock = locked(&plain.run(&[file.clone(), lock]));
    lock_owner.next += 1;
    let mut other = Owner::new(second, b"o");
    let waiting = plain.opened(&mut other, b"f");
    let ask = Owner::new(second, b"l").lock_below(&other, &waiting, NfsLockType4::WritewLt, (0, 9));
    assert_eq!(plain.run(&[file.clone(), ask]).status, Nfs4ErrDenied);
    assert_eq!(plain.run(&[file, lock_owner.unlock(&lock, (0, 9))]).status, OK);
    assert!(plain.scene.service.next_call().is_none());
}

/// Rules V17: a LOCK that is denied by an owner of 1,024 bytes, and what is told again of it, by slots and by seqids.
#[test]
fn denied_by_an_owner_of_a_kibibyte() {
    let long = vec![b'x'; 1024];
    let owner_of = |result: &NfsResop4| match result {
        NfsResop4::OpLock(Lock4Res::Nfs4ErrDenied(denied)) => denied.owner.owner.to_vec(),
        NfsResop4::OpLockt(Lockt4Res::Nfs4ErrDenied(denied)) => denied.owner.owner.to_vec(),
        other => panic!("{other:?}"),
    };
    // Of minor version 0, told again in the owner's order.
    let mut plain = Plain { scene: Scene::new(), xid: 0 };
    plain.scene.file(b"f");
    let (first, second) = (plain.client(b"first"), plain.client(b"second"));
    let (mut holder, mut asker) = (Owner::new(first, &long), Owner::new(second, &long));
    let (held, wanted) = (plain.opened(&mut holder, b"f"), plain.opened(&mut asker, b"f"));
    let file = plain.scene.put(plain.scene.file_named(b"f"));
    let locker = Owner::new(first, &long);
    locked(&plain.run(&[file.clone(), locker.lock_below(&holder, &held, NfsLockType4::WriteLt, (0, 9))]));
    let denied = [file.clone(), Owner::new(second, &long).lock_below(&asker, &wanted, NfsLockType4::WriteLt, (0, 9))];
    let told = plain.run(&denied);
    assert_eq!(owner_of(&told.resarray[1]), long);
    assert_eq!(plain.run(&denied), told, "it is told again");
    let tested = plain.run(&[file, Owner::new(second, b"t").test(NfsLockType4::ReadLt, (0, 9))]);
    assert_eq!(owner_of(&tested.resarray[1]), long);
    // In sessions, told again by the slot.
    for minor in 1..3 {
        let scene = Arc::new(Scene { minor, ..Scene::new() });
        scene.file(b"f");
        let (mut holder, mut asker) = (Opener::beside(&scene, "holder", 1), Opener::beside(&scene, "asker", 2));
        let [held, wanted] = [&mut holder, &mut asker].map(|client| client.opened(open(b"f", BOTH, 0)).stateid);
        let lock = |open_stateid: Stateid4| {
            let lock_owner = OpenOwner4 { clientid: 0, owner: long.clone().into() };
            let locker = Locker4::True(OpenToLockOwner4 { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner });
            let (locktype, reclaim) = (NfsLockType4::WriteLt, false);
            op(&NfsArgop4::OpLock(Lock4Args { locktype, reclaim, offset: 0, length: 9, locker }))
        };
        let file = scene.put(scene.file_named(b"f"));
        assert_eq!(holder.status(&[file.clone(), lock(held)]), OK);
        let denied = asker.compound(&[file.clone(), lock(wanted.clone())]);
        assert_eq!(owner_of(denied.resarray.last().unwrap()), long);
        let kept = [sequence(asker.session, 1, 1, true), file, lock(wanted)];
        let told = asker.send(&kept);
        assert_eq!(asker.send(&kept), told, "it is told again");
        // A slot that keeps a KiB has no room for it, and says so before anything is done.
        assert!(matches!(status_of(told.resarray.last().unwrap()), Nfs4ErrDenied | Nfs4ErrRepTooBigToCache));
    }
}

/// Who has made no session yet is told so, and who introduces himself is let in once.
#[test]
fn sessions_of_nobody() {
    let scene = Scene { minor: 1, ..Scene::new() };
    let newcomer = Newcomer::named(b"a client");
    assert_eq!(scene.run(1, &[newcomer.session(7, 1)]).status, Nfs4ErrStaleClientid);
    let reply = scene.run(2, &[newcomer.introduction()]);
    let Some(NfsResop4::OpExchangeId(ExchangeId4Res::Nfs4Ok(known))) = reply.resarray.last() else {
        panic!("{reply:?}")
    };
    let (id, first) = (known.eir_clientid, known.eir_sequenceid);
    for (name, number) in [("ahead", first + 1), ("behind", first.wrapping_sub(2))] {
        assert_eq!(scene.run(number ^ 0x5000, &[newcomer.session(id, number)]).status, Nfs4ErrSeqMisordered, "{name}");
    }
    assert_eq!(scene.run(90, &[newcomer.session(id, first)]).status, OK);
}

/// Under `secure` only ports below 1024 are believed, and whom no rule names is told nothing (docs/security.md). But whoever could connect was believed that he was a client's superuser: by the name of
/// a client, which is that of its machine, he said that it had started anew, and all that it had open, locked and kept was gone.
#[test]
fn who_cannot_show_who_he_is_ends_no_client() {
    for peer in ["192.0.2.7:700", "127.0.1.1:40000"] {
        let scene = Arc::new(Scene { minor: 1, ..Scene::new() });
        scene.file(b"f");
        for rule in [&scene.exports.tank_rule, &scene.exports.child_rule] {
            *rule.lock() = "127.0.0.0/8(rw,no_root_squash)".into();
        }
        let mut a = Opener::beside(&scene, "Linux NFSv4.1 a", 1);
        let of = a.opened(open(b"f", BOTH, BOTH)).stateid;
        let (link, mut xid) = (Arc::new(Link::new(9, peer.parse().unwrap())), 9000);
        let mut send = |ops: &[Op]| {
            xid += 1;
            let (mut job, step) = scene.begin_on(&link, xid, ops);
            scene.end(&mut job, step, ops)
        };
        let _told = Newcomer { verifier: 2, ..Newcomer::named(b"Linux NFSv4.1 a") }.enter(&mut send);
        assert_eq!(a.status(&[lookup(b"f"), read_by(of)]), OK, "from {peer}");
    }
}

/// What is open is read and written by whose session brings its stateid, whoever that is (rules V30). A session for a client that is confirmed was given to whoever said its id, which is a number behind his own:
/// a user of the server's machine, who is himself to every other request, had one of root's client there. A stateid is 32 bits that he has to guess, and TEST_STATEID says of 65,536 in one request whether they are right.
#[test]
fn nobody_goes_by_what_the_client_of_another_has_open() {
    let scene = Arc::new(Scene { minor: 1, ..Scene::new() });
    let (secret, cred) = (scene.file(b"secret"), Cred::root());
    let nobody = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    scene.exports.tank.model.setattr(OpCtx::of(&cred), secret, &nobody, None).result.unwrap();
    for rule in [&scene.exports.tank_rule, &scene.exports.child_rule] {
        *rule.lock() = "127.0.0.0/8(rw,no_root_squash)".into();
    }
    let mut root = Opener::beside(&scene, "a", 1);
    let of = root.opened(open(b"secret", BOTH, 0)).stateid;
    let whose = Whose::User(Cred { uid: 1000, gid: 1000, groups: Default::default(), checked: false });
    let (link, mut xid) = (Arc::new(Link::owned(9, "127.0.0.1:40000".parse().unwrap(), whose)), 9000);
    let mut send = |ops: &[Op]| {
        xid += 1;
        let (mut job, step) = scene.begin_on(&link, xid, ops);
        scene.end(&mut job, step, ops)
    };
    let own = Newcomer::named(b"his own").enter(&mut send).expect("it is let in").session;
    let by_himself = [sequence(own, 0, 1, false), scene.put_tank(), lookup(b"secret"), read_by(stateid(0))];
    assert_eq!(send(&by_himself).status, Nfs4ErrAccess);
    let made = send(&[Newcomer::named(b"").session(root.client, 2)]).resarray.0.pop();
    let Some(NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(created))) = made else { return };
    let guessed = Stateid4 { seqid: 0, ..of };
    let ops = [sequence(created.csr_sessionid, 0, 1, false), scene.put_tank(), lookup(b"secret"), read_by(guessed)];
    assert_ne!(send(&ops).status, OK, "he has read what root alone may");
}

/// In minor version 0 a client is named by its number in all that it asks for, and its opens by 32 bits that anybody may guess. A user of the server's machine read what root's client had open there, and a host that no rule
/// names kept a client alive that was gone.
#[test]
fn nobody_speaks_for_a_client_by_its_number() {
    let mut plain = Plain { scene: Scene::new(), xid: 0 };
    let secret = plain.scene.file(b"secret");
    let (cred, private) = (Cred::root(), SetAttr { mode: Some(0o600), ..SetAttr::default() });
    plain.scene.exports.tank.model.setattr(OpCtx::of(&cred), secret, &private, None).result.unwrap();
    for rule in [&plain.scene.exports.tank_rule, &plain.scene.exports.child_rule] {
        *rule.lock() = "127.0.0.0/8(rw,no_root_squash)".into();
    }
    let clientid = plain.client(b"root");
    let mut owner = Owner::new(clientid, b"o");
    let open = plain.opened(&mut owner, b"secret");
    let whose = Whose::User(Cred { uid: 1000, gid: 1000, groups: Default::default(), checked: false });
    let peer = |peer: &str| peer.parse().unwrap();
    let links = [
        (Link::owned(9, peer("127.0.0.1:40000"), whose), Nfs4ErrBadStateid, Nfs4ErrStaleClientid),
        (Link::new(10, peer("192.0.2.7:700")), Nfs4ErrNoent, Nfs4ErrStaleClientid),
        // Its own, by another address.
        (Link::new(11, peer("127.0.1.1:700")), OK, OK),
    ];
    for (link, reads, renews) in links {
        let mut xid = 9000 * link.id() as u32;
        let link = Arc::new(link);
        let mut status = |ops: &[Op]| {
            xid += 1;
            let (mut job, step) = plain.scene.begin_on(&link, xid, ops);
            plain.scene.end(&mut job, step, ops).status
        };
        let read = crate::support::owner::at(b"secret", crate::support::owner::read_by(&open));
        assert_eq!(status(&read), reads, "{link:?}");
        assert_eq!(status(&[op(&NfsArgop4::OpRenew(Renew4Args { clientid }))]), renews, "{link:?}");
        assert_eq!(status(&[introduce(b"root", 2)]), if renews == OK { OK } else { Nfs4ErrClidInuse }, "{link:?}");
    }
    let file = plain.scene.put(secret);
    assert_eq!(plain.run(&[file, owner.close(open)]).status, OK);
}
