//! LOCK, LOCKT, LOCKU and the stateids of locks, in sessions: over a socket, by clients of their own.

use std::sync::atomic::Ordering::SeqCst;

use crate::support::House;
use crate::support::client::Client;
use crate::support::compound::{Op, get_attr, lookup, make, op, put_root, set, stateid};
use crate::support::session::{Newcomer, channel, complete};
use tally_vfs::{Cred, Identity, Names, OpCtx, SetAttr};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    ChannelAttrs4, Close4Args, Compound4Res, DestroyClientid4Args, ExistLockOwner4, Fattr4, Fattr4Value,
    FreeStateid4Args, Lock4Args, Lock4Denied, Lock4Res, Locker4, Lockt4Args, Lockt4Res, Locku4Args, Locku4Res,
    NfsArgop4, NfsLockType4, NfsResop4, Nfsstat4, Open4Args, Open4Res, OpenClaim4, OpenDowngrade4Args, OpenOwner4,
    OpenToLockOwner4, Openflag4, Opentype4, Read4Args, Sessionid4, StableHow4, StateOwner4, Stateid4, TestStateid4Args,
    TestStateid4Res, Write4Args,
};

const OK: Nfsstat4 = Nfs4Ok;
const READ: u32 = 1;
const WRITE: u32 = 2;
const BOTH: u32 = 3;
/// To the end of the file, wherever that is.
const ALL: u64 = u64::MAX;
use NfsLockType4::{ReadLt, ReadwLt, WriteLt, WritewLt};

/// A client with a session and a connection of its own, and the sequence of its one slot.
struct Peer {
    wire: Client,
    id: u64,
    session: Sessionid4,
    next: u32,
}

impl Peer {
    /// One that has reclaimed all that it wants to.
    fn new(house: &House, name: &[u8]) -> Self {
        let mut peer = Self::fresh(house, (name, 1), 2048);
        assert_eq!(peer.run(&[complete()]).status, OK);
        peer
    }

    /// One by that name, started for the `verifier`th time.
    fn fresh(house: &House, (name, verifier): (&[u8], u8), cached_bytes: u32) -> Self {
        let mut wire = house.client();
        let fore = ChannelAttrs4 { ca_maxresponsesize_cached: cached_bytes, ..channel() };
        let newcomer = Newcomer { verifier, fore, ..Newcomer::named(name) };
        let entered = newcomer.enter(|ops| wire.compound(1, ops)).expect("it is let in");
        Self { wire, id: entered.client, session: entered.session, next: 1 }
    }

    /// A compound behind SEQUENCE, in the next place of the slot or in that one again.
    fn run_at(&mut self, sequence: u32, is_kept: bool, ops: &[Op]) -> Compound4Res {
        let head = crate::support::session::sequence(self.session, 0, sequence, is_kept);
        self.wire.compound(1, &[&[head], ops].concat())
    }

    fn run(&mut self, ops: &[Op]) -> Compound4Res {
        self.next += 1;
        self.run_at(self.next - 1, false, ops)
    }

    /// What is told of an operation on a file in the tank.
    fn on(&mut self, name: &[u8], asked: Op) -> NfsResop4 {
        last(self.run(&[put_root(), lookup(b"tank"), lookup(name), asked])).unwrap()
    }

    fn status(&mut self, name: &[u8], asked: Op) -> Nfsstat4 {
        crate::support::compound::status_of(&self.on(name, asked))
    }

    fn opened(&mut self, name: &[u8], access: u32) -> Stateid4 {
        self.opened_by(b"opener", name, access)
    }

    fn opened_by(&mut self, owner: &[u8], name: &[u8], access: u32) -> Stateid4 {
        let open = op(&NfsArgop4::OpOpen(Open4Args {
            seqid: 0,
            share_access: access,
            share_deny: 0,
            owner: OpenOwner4 { clientid: 0, owner: owner.into() },
            openhow: Openflag4::Default(Opentype4::Open4Nocreate),
            claim: OpenClaim4::ClaimNull(name.into()),
        }));
        match last(self.run(&[put_root(), lookup(b"tank"), open])) {
            Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(opened))) => opened.stateid,
            other => panic!("{other:?}"),
        }
    }

    /// The stateid of a LOCK of "f" that is given.
    fn locked(&mut self, lock: Op) -> Stateid4 {
        match self.on(b"f", lock) {
            NfsResop4::OpLock(Lock4Res::Nfs4Ok(told)) => told.lock_stateid,
            other => panic!("{other:?}"),
        }
    }

    /// What is in the way of a LOCK or LOCKT of "f".
    fn denied(&mut self, asked: Op) -> Lock4Denied {
        match self.on(b"f", asked) {
            NfsResop4::OpLock(Lock4Res::Nfs4ErrDenied(denied)) => denied,
            NfsResop4::OpLockt(Lockt4Res::Nfs4ErrDenied(denied)) => denied,
            other => panic!("{other:?}"),
        }
    }

    fn unlocked(&mut self, of: Stateid4, offset: u64, length: u64) -> Stateid4 {
        match self.on(b"f", unlock(of, offset, length)) {
            NfsResop4::OpLocku(Locku4Res::Nfs4Ok(told)) => told,
            other => panic!("{other:?}"),
        }
    }

    fn free(&mut self, of: &Stateid4) -> Nfsstat4 {
        self.run(&[op(&NfsArgop4::OpFreeStateid(FreeStateid4Args { fsa_stateid: of.clone() }))]).status
    }

    fn test(&mut self, of: &[Stateid4]) -> Vec<Nfsstat4> {
        match last(self.run(&[op(&NfsArgop4::OpTestStateid(TestStateid4Args { ts_stateids: of.to_vec().into() }))])) {
            Some(NfsResop4::OpTestStateid(TestStateid4Res::Nfs4Ok(told))) => told.tsr_status_codes.0,
            other => panic!("{other:?}"),
        }
    }
}

fn last(mut reply: Compound4Res) -> Option<NfsResop4> {
    reply.resarray.0.pop()
}

/// A house with a file "f" in its tank, and two clients.
fn house() -> (House, Peer, Peer) {
    let house = House::speaking_4();
    file(&house, b"f");
    let [a, b] = [b"client a", b"client b"].map(|name| Peer::new(&house, name));
    (house, a, b)
}

fn file(house: &House, name: &[u8]) {
    let (tank, cred) = (&house.exports.tank.model, Cred::root());
    let how = tally_vfs::CreateHow::Guarded(SetAttr { mode: Some(0o644), ..SetAttr::default() });
    tank.create(OpCtx::of(&cred), tank.root(), name, &how).result.unwrap();
}

fn lock_as(kind: NfsLockType4, reclaim: bool, (offset, length): (u64, u64), locker: Locker4) -> Op {
    op(&NfsArgop4::OpLock(Lock4Args { locktype: kind, reclaim, offset, length, locker }))
}

fn below(open: &Stateid4, owner: &[u8]) -> Locker4 {
    let lock_owner = StateOwner4 { clientid: 0, owner: owner.into() };
    Locker4::True(OpenToLockOwner4 { open_seqid: 0, open_stateid: open.clone(), lock_seqid: 0, lock_owner })
}

fn lock(open: &Stateid4, owner: &[u8], kind: NfsLockType4, offset: u64, length: u64) -> Op {
    lock_as(kind, false, (offset, length), below(open, owner))
}

fn lock_again(of: &Stateid4, kind: NfsLockType4, offset: u64, length: u64) -> Op {
    let locker = Locker4::False(ExistLockOwner4 { lock_stateid: of.clone(), lock_seqid: 0 });
    lock_as(kind, false, (offset, length), locker)
}

fn test(owner: &[u8], kind: NfsLockType4, offset: u64, length: u64) -> Op {
    let owner = StateOwner4 { clientid: 0, owner: owner.into() };
    op(&NfsArgop4::OpLockt(Lockt4Args { locktype: kind, offset, length, owner }))
}

fn unlock(of: Stateid4, offset: u64, length: u64) -> Op {
    op(&NfsArgop4::OpLocku(Locku4Args { locktype: WriteLt, seqid: 0, lock_stateid: of, offset, length }))
}

fn close(of: &Stateid4) -> Op {
    op(&NfsArgop4::OpClose(Close4Args { seqid: 0, open_stateid: of.clone() }))
}

fn downgrade(of: &Stateid4, access: u32) -> Op {
    let open_stateid = of.clone();
    op(&NfsArgop4::OpOpenDowngrade(OpenDowngrade4Args { open_stateid, seqid: 0, share_access: access, share_deny: 0 }))
}

fn read_by(of: &Stateid4) -> Op {
    op(&NfsArgop4::OpRead(Read4Args { stateid: of.clone(), offset: 0, count: 100 }))
}

fn write_by(of: &Stateid4) -> Op {
    let (stateid, stable) = (of.clone(), StableHow4::FileSync4);
    op(&NfsArgop4::OpWrite(Write4Args { stateid, offset: 0, stable, data: b"content".into() }))
}

/// The one that the operation before it has given.
fn present() -> Stateid4 {
    Stateid4 { seqid: 1, other: [0; 12] }
}

/// From which byte, how long, what for, and whose: client and owner.
type Told = (u64, u64, NfsLockType4, u64, Vec<u8>);

fn told(Lock4Denied { offset, length, locktype, owner: StateOwner4 { clientid, owner } }: Lock4Denied) -> Told {
    (offset, length, locktype, clientid, owner.to_vec())
}

#[test]
fn who_comes_second_is_told_of_the_first() {
    let (_house, mut a, mut b) = house();
    let (open_a, open_b) = (a.opened(b"f", BOTH), b.opened(b"f", BOTH));
    let mine = a.locked(lock(&open_a, b"owner a", WriteLt, 10, 10));
    assert_eq!(mine.seqid, 1);
    let id_of_a = a.id;
    let of_a = |offset, length, kind| (offset, length, kind, id_of_a, b"owner a".to_vec());
    let held = of_a(10, 10, WriteLt);
    for kind in [ReadLt, WriteLt, ReadwLt, WritewLt] {
        assert_eq!(told(b.denied(lock(&open_b, b"owner b", kind, 19, 1))), held);
        assert_eq!(told(b.denied(test(b"owner b", kind, 0, ALL))), held);
    }
    let free = b.locked(lock(&open_b, b"owner b", ReadwLt, 20, 1));
    assert_eq!(free.seqid, 1, "those that were denied have left nothing");
    // From one kind to the other, and a part of it.
    let mine = a.locked(lock_again(&mine, ReadLt, 10, 5));
    assert_eq!(mine.seqid, 2);
    let free = b.locked(lock_again(&free, ReadLt, 10, 5));
    assert_eq!(told(b.denied(lock_again(&free, WriteLt, 10, 5))), of_a(10, 5, ReadLt));
    assert_eq!(told(b.denied(lock_again(&free, ReadLt, 14, 2))), of_a(15, 5, WriteLt));
    // Back again: now it is b's that is in the way.
    assert_eq!(told(a.denied(lock_again(&mine, WriteLt, 10, 10))), (10, 5, ReadLt, b.id, b"owner b".to_vec()));
    b.unlocked(free, 0, ALL);
    a.locked(lock_again(&mine, WriteLt, 10, 10));
    // An unlock in the middle leaves two.
    let mine = a.unlocked(Stateid4 { seqid: 0, ..mine }, 12, 2);
    assert_eq!(told(b.denied(test(b"owner b", WriteLt, 0, 13))), of_a(10, 2, WriteLt));
    assert_eq!(told(b.denied(test(b"owner b", WriteLt, 13, 2))), of_a(14, 6, WriteLt));
    assert_eq!(b.status(b"f", test(b"owner b", WriteLt, 12, 2)), OK);
    assert_eq!(a.status(b"f", test(b"owner a", WriteLt, 0, ALL)), OK, "his own");
    // Another owner of the same client is another one.
    assert_eq!(told(a.denied(test(b"owner b", WriteLt, 10, 1))), of_a(10, 2, WriteLt));
    assert_eq!(a.unlocked(mine.clone(), 0, ALL), Stateid4 { seqid: mine.seqid + 1, ..mine });
    assert_eq!(b.status(b"f", test(b"owner b", WriteLt, 0, ALL)), OK);
}

/// Rules V31.
#[test]
fn a_range_has_a_last_byte() {
    let (_house, mut a, mut b) = house();
    let (open_a, open_b) = (a.opened(b"f", BOTH), b.opened(b"f", BOTH));
    for (offset, length) in [(0, 0), (2, ALL - 1), (ALL, 1), (ALL - 1, 3)] {
        assert_eq!(a.status(b"f", lock(&open_a, b"a", WriteLt, offset, length)), Nfs4ErrInval, "{offset} {length}");
        assert_eq!(a.status(b"f", test(b"a", WriteLt, offset, length)), Nfs4ErrInval);
    }
    let mine = a.locked(lock(&open_a, b"a", WriteLt, 100, ALL));
    assert_eq!(a.status(b"f", unlock(mine.clone(), 0, 0)), Nfs4ErrInval);
    assert_eq!(a.status(b"f", unlock(mine.clone(), 2, ALL - 1)), Nfs4ErrInval);
    let denied = b.denied(lock(&open_b, b"b", ReadLt, ALL, ALL));
    assert_eq!((denied.offset, denied.length), (100, ALL));
    b.locked(lock(&open_b, b"b", WriteLt, 0, 100));
    a.unlocked(mine, 200, ALL);
    b.locked(lock(&open_b, b"b", WriteLt, 200, ALL));
    assert_eq!(told(b.denied(test(b"b", WriteLt, 150, 1))).1, 100);
}

#[test]
fn what_cannot_be_locked_says_why() {
    let (house, mut a, _) = house();
    let (tank, ctx) = (&house.exports.tank.model, Cred::root());
    tank.symlink(OpCtx::of(&ctx), tank.root(), b"l", b"f", &SetAttr::default()).result.unwrap();
    tank.mknod(OpCtx::of(&ctx), tank.root(), b"p", tally_vfs::NodeKind::Fifo, &SetAttr::default()).result.unwrap();
    assert_eq!(a.run(&[put_root(), lookup(b"tank"), make(b"d")]).status, OK);
    file(&house, b"g");
    let open = a.opened(b"f", BOTH);
    for (name, told) in
        [(b"d", Nfs4ErrIsdir), (b"l", Nfs4ErrSymlink), (b"p", Nfs4ErrWrongType), (b"g", Nfs4ErrBadStateid)]
    {
        assert_eq!(a.status(name, lock(&open, b"o", ReadLt, 0, 1)), told);
        let told = if name == b"g" { OK } else { told };
        assert_eq!(a.status(name, test(b"o", ReadLt, 0, 1)), told);
    }
    assert_eq!(a.run(&[put_root(), test(b"o", ReadLt, 0, 1)]).status, Nfs4ErrIsdir);
    assert_eq!(a.run(&[test(b"o", ReadLt, 0, 1)]).status, Nfs4ErrNofilehandle);
    // Garbage in a well-formed whole.
    let mut unknown = lock(&open, b"o", ReadLt, 0, 1);
    unknown[7] = 5;
    assert_eq!(a.run(&[put_root(), unknown]).status, Nfs4ErrBadxdr);
    // Another kind of stateid than the operation's.
    let locked = a.locked(lock(&open, b"o", ReadLt, 0, 1));
    assert_eq!(a.status(b"f", close(&locked)), Nfs4ErrBadStateid);
    assert_eq!(a.status(b"f", downgrade(&locked, READ)), Nfs4ErrBadStateid);
    assert_eq!(a.status(b"f", lock(&locked, b"o", ReadLt, 0, 1)), Nfs4ErrBadStateid);
    assert_eq!(a.status(b"f", lock_again(&open, ReadLt, 0, 1)), Nfs4ErrBadStateid);
    assert_eq!(a.status(b"f", unlock(open.clone(), 0, 1)), Nfs4ErrBadStateid);
    assert_eq!(a.status(b"g", unlock(locked.clone(), 0, 1)), Nfs4ErrBadStateid);
    for byte in [0, 7, 255] {
        assert_eq!(a.status(b"f", lock_again(&stateid(byte), ReadLt, 0, 1)), Nfs4ErrBadStateid);
        assert_eq!(a.status(b"f", lock(&stateid(byte), b"o", ReadLt, 0, 1)), Nfs4ErrBadStateid);
    }
    // In minor version 0 who asks is the client that is named.
    assert_eq!(a.wire.compound(0, &[put_root(), test(b"o", ReadLt, 0, 1)]).status, Nfs4ErrStaleClientid);
}

/// A WRITE lock wants an open for writing, and a lock's stateid reads and writes as its open does.
#[test]
fn a_lock_goes_by_its_open() {
    let (_house, mut a, _) = house();
    let (reads, writes) = (a.opened_by(b"r", b"f", READ), a.opened_by(b"w", b"f", WRITE));
    assert_eq!(a.status(b"f", lock(&reads, b"o", WriteLt, 0, 1)), Nfs4ErrOpenmode);
    assert_eq!(a.status(b"f", lock(&writes, b"o", ReadLt, 0, 1)), Nfs4ErrOpenmode);
    // One owner below two opens: it is in nobody's way there, and has a stateid for each.
    let (by_reads, by_writes) =
        (a.locked(lock(&reads, b"o", ReadLt, 0, 9)), a.locked(lock(&writes, b"o", WriteLt, 0, 5)));
    assert!(by_reads.other != by_writes.other);
    assert_eq!(a.status(b"f", write_by(&by_writes)), OK);
    assert_eq!(a.status(b"f", write_by(&by_reads)), Nfs4ErrOpenmode);
    assert_eq!(a.status(b"f", lock_again(&by_reads, WriteLt, 7, 1)), Nfs4ErrOpenmode);
    assert_eq!(a.status(b"f", read_by(&by_reads)), OK);
    let cut = |of: &Stateid4| {
        let mut cut = set(Fattr4::of(&[Fattr4Value::Fattr4Size(3)]));
        cut[4..20].copy_from_slice(&[&of.seqid.to_be_bytes()[..], &of.other].concat());
        cut
    };
    assert_eq!(a.status(b"f", cut(&by_writes)), OK);
    assert_eq!(a.status(b"f", cut(&by_reads)), Nfs4ErrOpenmode);
}

#[test]
fn a_stateid_of_a_lock_is_of_one_client_and_counts_its_changes() {
    let (_house, mut a, mut b) = house();
    let open = a.opened(b"f", BOTH);
    let first = a.locked(lock(&open, b"o", ReadLt, 0, 1));
    // The reply was lost, and the client asks anew: the same stateid.
    let second = a.locked(lock(&open, b"o", ReadLt, 0, 1));
    assert_eq!(second, Stateid4 { seqid: 2, ..first.clone() });
    let at = |seqid| Stateid4 { seqid, ..first.clone() };
    for (asked, told) in [(at(1), Nfs4ErrOldStateid), (at(2), OK), (at(0), OK), (at(3), Nfs4ErrBadStateid)] {
        assert_eq!(a.status(b"f", read_by(&asked)), told);
        assert_eq!(a.test(std::slice::from_ref(&asked)), [told]);
    }
    assert_eq!(a.status(b"f", lock_again(&at(1), ReadLt, 5, 1)), Nfs4ErrOldStateid);
    assert_eq!(a.status(b"f", unlock(at(1), 0, 1)), Nfs4ErrOldStateid);
    assert_eq!(b.test(&[at(2)]), [Nfs4ErrBadStateid]);
    assert_eq!((b.status(b"f", read_by(&at(0))), b.free(&at(0))), (Nfs4ErrBadStateid, Nfs4ErrBadStateid));
    assert_eq!(b.status(b"f", unlock(at(0), 0, ALL)), Nfs4ErrBadStateid);
    // The one that the operation before gave, in one compound.
    let ops = [put_root(), lookup(b"tank"), lookup(b"f"), lock_again(&at(2), ReadLt, 7, 1), unlock(present(), 0, ALL)];
    assert_eq!(a.run(&[&ops[..], &[read_by(&present()), get_attr(&[1])]].concat()).status, OK);
    assert_eq!(a.test(&[at(4)]), [OK]);
    // Freed when nothing is locked by it.
    let held = a.locked(lock_again(&at(0), WriteLt, 3, 1));
    assert_eq!(a.free(&held), Nfs4ErrLocksHeld);
    let left = a.unlocked(held, 0, ALL);
    assert_eq!(
        (a.free(&left), a.test(std::slice::from_ref(&left)), a.free(&left)),
        (OK, vec![Nfs4ErrBadStateid], Nfs4ErrBadStateid)
    );
    assert_eq!(a.status(b"f", unlock(left, 0, ALL)), Nfs4ErrBadStateid);
    // The owner begins anew.
    assert_eq!(a.locked(lock(&open, b"o", WriteLt, 0, ALL)).seqid, 1);
}

#[test]
fn closed_is_unlocked() {
    let (_house, mut a, mut b) = house();
    let (one, two) = (a.opened_by(b"1", b"f", BOTH), a.opened_by(b"2", b"f", BOTH));
    let [first, second] = [(&one, b"x"), (&two, b"y")].map(|(open, owner)| {
        let offset = if owner == b"x" { 0 } else { 10 };
        a.locked(lock(open, owner, WriteLt, offset, 5))
    });
    assert_eq!(a.status(b"f", close(&one)), OK);
    assert_eq!(a.test(&[first.clone(), second]), [Nfs4ErrBadStateid, OK]);
    assert_eq!(a.status(b"f", read_by(&first)), Nfs4ErrBadStateid);
    assert_eq!(b.status(b"f", test(b"b", WriteLt, 0, 10)), OK);
    assert_eq!(told(b.denied(test(b"b", WriteLt, 0, 11))).4, b"y");
    assert_eq!(a.status(b"f", lock(&one, b"x", ReadLt, 0, 1)), Nfs4ErrBadStateid);
}

/// What was opened for reading once may stay so, and what is locked stays locked.
#[test]
fn a_downgrade_unlocks_nothing() {
    let (_house, mut a, mut b) = house();
    a.opened(b"f", READ);
    let both = a.opened(b"f", BOTH);
    let locked = a.locked(lock(&both, b"o", WriteLt, 0, 5));
    assert_eq!(a.status(b"f", downgrade(&both, READ)), OK);
    assert_eq!(a.status(b"f", write_by(&locked)), Nfs4ErrOpenmode);
    assert_eq!(a.status(b"f", lock_again(&locked, WriteLt, 7, 1)), Nfs4ErrOpenmode);
    assert_eq!(told(b.denied(test(b"b", ReadLt, 0, 9))).2, WriteLt);
    a.unlocked(locked, 0, 5);
    assert_eq!(b.status(b"f", test(b"b", ReadLt, 0, 9)), OK);
}

#[test]
fn who_may_still_reclaim_locks_nothing_new() {
    let (house, mut a, _) = house();
    let open = a.opened(b"f", BOTH);
    let reclaim = lock_as(WriteLt, true, (0, 1), below(&open, b"o"));
    assert_eq!(a.status(b"f", reclaim), Nfs4ErrNoGrace);
    let mut fresh = Peer::fresh(&house, (b"client c", 1), 2048);
    assert_eq!(fresh.status(b"f", lock(&open, b"o", ReadLt, 0, 1)), Nfs4ErrGrace);
    let reclaim = lock_as(WriteLt, true, (0, 1), below(&open, b"o"));
    assert_eq!(fresh.status(b"f", reclaim), Nfs4ErrNoGrace);
}

/// Rules V16 and V17: what is told of the longest owner is kept as it was told, and where it cannot be kept nothing is done.
#[test]
fn a_denied_reply_is_told_again() {
    let (house, mut a, mut b) = house();
    let long = [b'o'; 1024];
    let (open_a, open_b) = (a.opened(b"f", BOTH), b.opened(b"f", BOTH));
    let given = [put_root(), lookup(b"tank"), lookup(b"f"), lock(&open_a, &long, WriteLt, 0, ALL)];
    let (at, first) = (a.next, a.run_at(a.next, true, &given));
    let Some(NfsResop4::OpLock(Lock4Res::Nfs4Ok(locked))) = last(first.clone()) else { panic!("{first:?}") };
    assert_eq!(a.run_at(at, true, &given), first);
    a.next += 1;
    assert_eq!(
        a.test(std::slice::from_ref(&locked.lock_stateid)),
        [OK],
        "it was carried out once: the seqid is still 1"
    );
    let asked = [put_root(), lookup(b"tank"), lookup(b"f"), lock(&open_b, b"b", WriteLt, 5, 1)];
    let (at, first) = (b.next, b.run_at(b.next, true, &asked));
    let Some(NfsResop4::OpLock(Lock4Res::Nfs4ErrDenied(denied))) = last(first.clone()) else { panic!("{first:?}") };
    assert_eq!(told(denied), (0, ALL, WriteLt, a.id, long.to_vec()));
    b.next += 1;
    a.unlocked(locked.lock_stateid, 0, ALL);
    assert_eq!(b.run_at(at, true, &asked), first, "although it would be given by now");
    assert_eq!(b.run(&asked).status, OK);
    // Too long for what a slot keeps.
    let open_a = a.opened(b"f", BOTH);
    a.locked(lock(&open_a, &long, WriteLt, 100, ALL));
    let mut c = Peer::fresh(&house, (b"client c", 1), 1024);
    assert_eq!(c.run(&[complete()]).status, OK);
    let open_c = c.opened(b"f", BOTH);
    let ask = |offset| [put_root(), lookup(b"tank"), lookup(b"f"), lock(&open_c, b"c", WriteLt, offset, 1)];
    assert_eq!(c.run_at(c.next, true, &ask(200)).status, Nfs4ErrRepTooBigToCache);
    c.next += 1;
    assert_eq!(c.run_at(c.next, true, &ask(0)).status, OK, "what is given is short");
}

/// A client that holds something is not destroyed, and what one that is gone had locked is nobody's.
#[test]
fn what_a_client_had_locked_goes_with_it() {
    let (house, mut a, mut b) = house();
    let open = a.opened(b"f", BOTH);
    let locked = a.locked(lock(&open, b"o", WriteLt, 0, ALL));
    let destroy = op(&NfsArgop4::OpDestroyClientid(DestroyClientid4Args { dca_clientid: a.id }));
    assert_eq!(a.wire.compound(1, &[destroy]).status, Nfs4ErrClientidBusy);
    assert_eq!(told(b.denied(test(b"b", ReadLt, 0, 1))).3, a.id);
    // It starts anew, under the same name.
    let mut a = Peer::fresh(&house, (b"client a", 2), 2048);
    assert_eq!(b.status(b"f", test(b"b", WriteLt, 0, ALL)), OK);
    assert_eq!(a.test(&[locked]), [Nfs4ErrBadStateid]);
    let open_b = b.opened(b"f", BOTH);
    b.locked(lock(&open_b, b"o", WriteLt, 0, ALL));
}

/// It was locked below when the operation panicked: no client has a stateid for it.
#[test]
fn a_panic_leaves_nothing_locked() {
    let (house, mut a, mut b) = house();
    let (open_a, open_b) = (a.opened(b"f", BOTH), b.opened(b"f", BOTH));
    house.exports.tank.panic_behind_lock.store(true, SeqCst);
    assert_eq!(a.status(b"f", lock(&open_a, b"o", WriteLt, 0, ALL)), Nfs4ErrServerfault);
    house.exports.tank.panic_behind_lock.store(false, SeqCst);
    b.locked(lock(&open_b, b"o", WriteLt, 0, 10));
    // Of one that has a stateid what was locked is its own, and it can unlock it.
    let locked = a.locked(lock(&open_a, b"o", WriteLt, 100, 1));
    house.exports.tank.panic_behind_lock.store(true, SeqCst);
    assert_eq!(a.status(b"f", lock_again(&locked, WriteLt, 200, 1)), Nfs4ErrServerfault);
    house.exports.tank.panic_behind_lock.store(false, SeqCst);
    assert_eq!(told(b.denied(test(b"b", ReadLt, 200, 1))).0, 200);
    a.unlocked(locked, 0, ALL);
    assert_eq!(b.status(b"f", test(b"b", ReadLt, 100, ALL)), OK);
}
