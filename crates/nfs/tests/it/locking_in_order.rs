//! Minor version 0: what owners of locks lock, in their order and in that of the owners of opens below which they begin. Step by step, without a socket.

use std::cell::Cell;
use std::sync::atomic::Ordering::SeqCst;

use crate::support::compound::{Op, get_attr};
use crate::support::owner::{Owner, confirmed, find, introduce, introduced, locked, opened, read_by, write_by};
use crate::support::scene::Scene;
use tally_vfs::locks::{Kind, Lock, Range};
use tally_vfs::{ClientNumber, Cred, Holder, Identity, Locks, Names, ObjectRef, OpCtx, OwnerNumber};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Compound4Res, Lock4Denied, Lock4Res, Locker4, Lockt4Res, NfsLockType4, NfsResop4, Nfsstat4, OpenClaim4,
    OpenDelegationType4, Stateid4,
};

use NfsLockType4::{ReadLt, ReadwLt, WriteLt};

const OK: Nfsstat4 = Nfs4Ok;
const READ: u32 = 1;
const BOTH: u32 = 3;
const ALL: u64 = u64::MAX;

/// A server with a file "f", and a client's owner that has it open.
struct Bank {
    scene: Scene,
    file: ObjectRef,
    opener: Owner,
    open: Stateid4,
    xid: Cell<u32>,
}

impl Bank {
    fn new() -> Self {
        let scene = Scene::new();
        let file = scene.file(b"f");
        Self::of(scene, file)
    }

    /// Its client comes.
    fn of(scene: Scene, file: ObjectRef) -> Self {
        let (opener, open) = (Owner::new(0, b"opener"), Stateid4 { seqid: 0, other: [0; 12] });
        let mut bank = Self { scene, file, opener, open, xid: Cell::new(0) };
        bank.opener.client = bank.come(b"a client");
        (bank.opener, bank.open) = bank.opened(&bank.owner(b"opener"), BOTH);
        bank
    }

    fn come(&self, name: &[u8]) -> u64 {
        let (id, confirm) = introduced(&self.run(&[introduce(name, 1)]));
        assert_eq!(self.run(&[confirm]).status, OK);
        id
    }

    fn owner(&self, name: &[u8]) -> Owner {
        Owner::new(self.opener.client, name)
    }

    /// What an owner that nobody knows has open then, and its next seqid.
    fn opened(&self, owner: &Owner, access: u32) -> (Owner, Stateid4) {
        let told = opened(&self.run(&[self.scene.put_tank(), owner.open(b"f", access, 0)]));
        let stateid = confirmed(&self.at(owner.at(owner.next + 1).confirm(told.stateid)));
        (owner.at(owner.next + 2), stateid)
    }

    fn run(&self, ops: &[Op]) -> Compound4Res {
        self.xid.set(self.xid.get() + 1);
        self.scene.run(self.xid.get(), ops)
    }

    /// What is told of an operation on the file.
    fn at(&self, asked: Op) -> Compound4Res {
        self.run(&[self.scene.put(self.file), asked])
    }

    fn status(&self, asked: Op) -> Nfsstat4 {
        self.at(asked).status
    }

    /// The same twice: what is told is the same, byte for byte.
    fn twice(&self, asked: &Op) -> Compound4Res {
        let ops = [self.scene.put(self.file), asked.clone(), get_attr(&[20])];
        let first = self.run(&ops);
        assert_eq!(self.run(&ops), first);
        first
    }

    /// A LOCK that is given by which an owner begins: both go on.
    fn begun(&mut self, owner: &mut Owner, kind: NfsLockType4, range: (u64, u64)) -> Stateid4 {
        let stateid = locked(&self.at(owner.lock_below(&self.opener, &self.open, kind, range)));
        self.opener.next += 1;
        owner.next += 1;
        stateid
    }

    /// How many of the first hundred bytes somebody has locked.
    fn held(&self) -> usize {
        let nobody = Holder { client: ClientNumber(0), owner: OwnerNumber(0) };
        let is_free = |byte| {
            let range = Range::new(byte, 1).expect("one byte");
            let wanted = Lock { holder: nobody, range, kind: Kind::Write };
            self.scene.exports.tank.test_range(self.file, wanted).is_ok()
        };
        (0..100).filter(|byte| !is_free(*byte)).count()
    }
}

fn denied(reply: &Compound4Res) -> Lock4Denied {
    match reply.resarray.last() {
        Some(
            NfsResop4::OpLock(Lock4Res::Nfs4ErrDenied(denied)) | NfsResop4::OpLockt(Lockt4Res::Nfs4ErrDenied(denied)),
        ) => denied.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_locked_is_locked_until_it_is_not() {
    let mut bank = Bank::new();
    let (mut a, b) = (bank.owner(b"a"), bank.owner(b"b"));
    let first = bank.begun(&mut a, ReadwLt, (10, 10));
    assert_eq!(first.seqid, 1);
    let told = denied(&bank.at(b.test(WriteLt, (0, ALL))));
    assert_eq!((told.offset, told.length, told.locktype, &*told.owner.owner), (10, 10, ReadLt, &b"a"[..]));
    assert_eq!(told.owner.clientid, bank.opener.client);
    assert_eq!(bank.status(a.test(WriteLt, (0, ALL))), OK, "his own");
    assert_eq!(bank.status(b.test(WriteLt, (0, 0))), Nfs4ErrInval);
    assert_eq!(bank.status(write_by(&first, b"x")), OK, "as its open does");
    let second = locked(&bank.at(a.lock_again(&first, WriteLt, (10, 20))));
    assert_eq!((second.seqid, second.other), (2, first.other));
    a.next += 1;
    assert_eq!(bank.status(read_by(&first)), Nfs4ErrOldStateid);
    let third = locked(&bank.at(a.unlock(&second, (10, 5))));
    a.next += 1;
    assert_eq!(denied(&bank.at(b.test(ReadLt, (0, ALL)))).offset, 15);
    assert_eq!(bank.status(a.unlock(&third, (0, ALL))), OK);
    assert_eq!(bank.status(b.test(WriteLt, (0, ALL))), OK);
    let mut stranger = b;
    stranger.client ^= 1 << 40;
    assert_eq!(bank.status(stranger.test(WriteLt, (0, 1))), Nfs4ErrStaleClientid);
    assert_eq!(bank.run(&[stranger.release()]).status, Nfs4ErrStaleClientid);
}

/// Rules V18: what goes wrong behind the seqids moves both orders on, and what goes wrong before moves none.
#[test]
fn both_orders_go_on_or_none() {
    let mut bank = Bank::new();
    let (mut a, mut b, mut c) = (bank.owner(b"a"), bank.owner(b"b"), bank.owner(b"c"));
    bank.begun(&mut a, WriteLt, (0, 10));
    let begin = |bank: &Bank, owner: &Owner| owner.lock_below(&bank.opener, &bank.open, WriteLt, (5, 1));
    let (next, of_b) = (bank.opener.next, b.next);
    let mut other = bank.opener.clone();
    let at = |bank: &Bank, next| bank.opener.at(next);
    for seqid in [next - 2, next + 1, 0] {
        assert_eq!(bank.status(b.lock_below(&at(&bank, seqid), &bank.open, WriteLt, (5, 1))), Nfs4ErrBadSeqid);
    }
    // Whom nobody knows begins with any; who is known does not.
    assert_eq!(bank.status(begin(&bank, &a.at(a.next + 1))), Nfs4ErrBadSeqid);
    let bad = Stateid4 { seqid: 9, ..bank.open.clone() };
    assert_eq!(bank.status(b.lock_below(&bank.opener, &bad, WriteLt, (5, 1))), Nfs4ErrBadStateid);
    b.client = bank.come(b"another");
    assert_eq!(bank.status(begin(&bank, &b)), Nfs4ErrBadStateid, "the open is another client's");
    b.client = bank.opener.client;
    assert_eq!(bank.run(&[begin(&bank, &b)]).status, Nfs4ErrNofilehandle);
    assert_eq!((bank.opener.next, b.next), (next, of_b));
    // From here on each moves both.
    assert_eq!(bank.status(begin(&bank, &b)), Nfs4ErrDenied);
    bank.opener.next += 1;
    assert_eq!(bank.status(b.lock_below(&bank.opener, &bank.open, WriteLt, (5, 0))), Nfs4ErrInval);
    bank.opener.next += 1;
    let old = Stateid4 { seqid: 1, ..bank.open.clone() };
    assert_eq!(bank.status(a.lock_below(&bank.opener, &old, WriteLt, (50, 1))), Nfs4ErrOldStateid);
    bank.opener.next += 1;
    a.next += 1;
    // Who has nothing locked is nobody, whatever he brought last: his names are used again.
    c.next = 7;
    bank.begun(&mut b.at(3), WriteLt, (60, 1));
    let first = bank.begun(&mut c, WriteLt, (70, 1));
    // He is in his order from now on.
    assert_eq!(bank.status(c.at(7).lock_again(&first, WriteLt, (80, 1))), Nfs4ErrBadSeqid);
    assert_eq!(bank.status(c.at(9).lock_again(&first, WriteLt, (80, 1))), Nfs4ErrBadSeqid);
    assert_eq!(bank.status(c.lock_again(&first, WriteLt, (5, 1))), Nfs4ErrDenied);
    c.next += 1;
    assert_eq!(bank.status(c.at(12).unlock(&first, (70, 1))), Nfs4ErrBadSeqid);
    // An open that is not confirmed locks nothing.
    other.name = b"other".to_vec();
    let told = opened(&bank.run(&[bank.scene.put_tank(), other.open(b"f", BOTH, 0)]));
    let begin = c.lock_below(&other.at(other.next + 1), &told.stateid, WriteLt, (90, 1));
    assert_eq!(bank.status(begin), Nfs4ErrBadStateid);
    assert_eq!(bank.status(c.unlock(&first, (70, 1))), OK);
    assert_eq!(bank.held(), 11, "a's ten bytes and b's one");
}

/// Rules V17: what is told of an owner of 1,024 bytes is told again from where it is kept.
#[test]
fn the_last_is_told_again_byte_for_byte() {
    let mut bank = Bank::new();
    let (mut a, mut b) = (Owner::new(bank.opener.client, &[7; 1024]), bank.owner(b"b"));
    let begin = a.lock_below(&bank.opener, &bank.open, WriteLt, (0, 10));
    let first = bank.twice(&begin);
    let stateid = locked_of(&first);
    assert_eq!((first.status, stateid.seqid, bank.held()), (OK, 1, 10));
    bank.opener.next += 1;
    a.next += 1;
    let refused = bank.twice(&b.lock_below(&bank.opener, &bank.open, WriteLt, (5, 1)));
    assert_eq!((refused.status, &*denied(&refused).owner.owner), (Nfs4ErrDenied, &[7; 1024][..]));
    bank.opener.next += 1;
    let mut of_b = bank.begun(&mut b, WriteLt, (20, 1));
    let ask = b.lock_again(&of_b, WriteLt, (5, 1));
    let refused = bank.twice(&ask);
    assert_eq!(&*denied(&refused).owner.owner, &[7; 1024][..]);
    let unlocked = bank.twice(&a.unlock(&stateid, (0, ALL)));
    assert_eq!(locked_of(&unlocked).seqid, 2);
    assert_eq!(denied(&bank.at(ask)), denied(&refused), "although it would be given by now");
    b.next += 1;
    of_b = locked_of(&bank.twice(&b.lock_again(&of_b, WriteLt, (5, 1))));
    assert_eq!((of_b.seqid, bank.held()), (2, 2));
    // Another owner's open has moved on meanwhile; this one's LOCK is not told again behind that.
    assert_eq!(bank.status(begin), Nfs4ErrBadSeqid);
}

fn locked_of(reply: &Compound4Res) -> Stateid4 {
    locked(&Compound4Res { resarray: reply.resarray.0[..2].to_vec().into(), ..reply.clone() })
}

#[test]
fn an_owner_is_released_once_it_has_locked_nothing() {
    let mut bank = Bank::new();
    let mut a = bank.owner(b"a");
    let release = [a.release()];
    assert_eq!(bank.run(&release).status, OK, "whom nobody knows");
    let first = bank.begun(&mut a, WriteLt, (0, 10));
    assert_eq!(bank.run(&release).status, Nfs4ErrLocksHeld);
    assert_eq!(bank.held(), 10);
    assert_eq!(bank.run(&[bank.owner(b"b").release()]).status, OK, "another one");
    // Below another open of the same file as well, whose ranges are his.
    let (other, open) = bank.opened(&bank.owner(b"other"), BOTH);
    let below = locked(&bank.at(a.lock_below(&other, &open, WriteLt, (50, 1))));
    a.next += 1;
    let first = locked(&bank.at(a.unlock(&first, (0, 10))));
    a.next += 1;
    assert_eq!(bank.run(&release).status, Nfs4ErrLocksHeld);
    let below = locked(&bank.at(a.unlock(&below, (0, ALL))));
    assert_eq!(bank.run(&release).status, OK);
    for stateid in [&first, &below] {
        assert_eq!(bank.status(read_by(stateid)), Nfs4ErrBadStateid);
        assert_eq!(bank.status(a.unlock(stateid, (0, 1))), Nfs4ErrBadStateid);
    }
    // He is nobody.
    bank.begun(&mut a.at(1), WriteLt, (0, 10));
}

/// RFC 7530 §16.2.5 lets a server free what is locked below, and the owners of that are nobody then.
#[test]
fn what_is_closed_is_unlocked() {
    let mut bank = Bank::new();
    let mut a = bank.owner(b"a");
    let stateid = bank.begun(&mut a, WriteLt, (0, 10));
    assert_eq!(bank.status(bank.opener.close(bank.open.clone())), OK);
    bank.opener.next += 1;
    assert_eq!(bank.held(), 0);
    assert_eq!(bank.status(a.unlock(&stateid, (0, 10))), Nfs4ErrBadStateid);
    assert_eq!(bank.status(a.lock_below(&bank.opener, &bank.open, WriteLt, (0, 1))), Nfs4ErrBadStateid);
    let told = opened(&bank.run(&[bank.scene.put_tank(), bank.opener.open(b"f", READ, 0)]));
    bank.opener.next += 1;
    let mut a = a.at(0);
    assert_eq!(bank.status(a.lock_below(&bank.opener, &told.stateid, WriteLt, (0, 1))), Nfs4ErrOpenmode);
    bank.opener.next += 1;
    bank.open = told.stateid;
    let of_a = bank.begun(&mut a, ReadLt, (0, 1));
    // Nothing is closed by the stateid of a lock.
    let of_a = locked(&bank.at(a.lock_again(&of_a, ReadLt, (5, 1))));
    assert_eq!(bank.status(bank.opener.close(of_a)), Nfs4ErrBadStateid);
    assert_eq!(bank.held(), 2);
}

/// A panic costs its operation, moves both orders on, and is not repeated.
#[test]
fn what_panicked_is_told_so_again_and_has_locked_nothing() {
    let scene = Scene::new();
    scene.exports.keep_clients();
    let file = scene.file(b"f");
    let bank = Bank::of(scene, file);
    let a = bank.owner(b"a");
    bank.scene.exports.tank.panic_behind_lock.store(true, SeqCst);
    let begin = [bank.scene.put(file), a.lock_below(&bank.opener, &bank.open, WriteLt, (0, 10))];
    assert_eq!(bank.run(&begin).status, Nfs4ErrServerfault);
    bank.scene.exports.tank.panic_behind_lock.store(false, SeqCst);
    assert_eq!((bank.run(&begin).status, bank.held()), (Nfs4ErrServerfault, 0), "it is told again");
    let (opener, a) = (bank.opener.at(bank.opener.next + 1), a.at(a.next + 1));
    let begin = a.lock_below(&opener, &bank.open, WriteLt, (0, 10));
    assert_eq!(bank.status(begin), OK);
}

/// Behind a restart: opened again, locked again, by owners that nobody knows.
#[test]
fn what_was_locked_is_claimed_again() {
    let scene = Scene::new();
    scene.exports.keep_clients();
    let file = scene.file(b"f");
    let mut bank = Bank::of(scene, file);
    let mut a = bank.owner(b"a");
    let stale = bank.begun(&mut a, WriteLt, (0, 10));
    let bank = Bank { scene: bank.scene.restart(), ..bank };
    assert_eq!(bank.status(a.lock_again(&stale, WriteLt, (0, 10))), Nfs4ErrStaleStateid);
    assert_eq!(bank.status(a.lock_below(&bank.opener, &bank.open, WriteLt, (0, 1))), Nfs4ErrStaleClientid);
    let id = bank.come(b"a client");
    let (opener, mut a) = (Owner::new(id, b"opener"), Owner::new(id, b"a"));
    let previous = OpenClaim4::ClaimPrevious(OpenDelegationType4::OpenDelegateNone);
    let open = opened(&bank.at(opener.open_as((BOTH, 0), find(), previous))).stateid;
    let mut opener = opener.at(opener.next + 1);
    let claim = |a: &Owner, opener: &Owner, is_reclaim| {
        let locker: Locker4 = a.below(opener, &open);
        a.lock_as((WriteLt, is_reclaim), (0, 10), locker)
    };
    assert_eq!(bank.status(claim(&a, &opener, false)), Nfs4ErrGrace);
    assert_eq!(bank.status(a.test(ReadLt, (0, 1))), Nfs4ErrGrace);
    opener.next += 1;
    let claimed = locked(&bank.at(claim(&a, &opener, true)));
    opener.next += 1;
    a.next += 1;
    assert_eq!((claimed.seqid, bank.held()), (1, 10));
    assert_eq!(bank.status(claim(&Owner::new(id, b"b"), &opener, true)), Nfs4ErrReclaimConflict);
    assert_eq!(bank.status(a.unlock(&claimed, (0, 10))), OK);
    assert_eq!(bank.held(), 0);
}

/// RFC 7530 §16.10.4 and §16.11.4 have words of their own for what is no file.
#[test]
fn what_is_no_file_is_not_locked() {
    let bank = Bank::new();
    let a = bank.owner(b"a");
    let (tank, cred) = (&bank.scene.exports.tank.model, Cred::root());
    let link = tank.symlink(OpCtx::of(&cred), tank.root(), b"l", b"f", &Default::default()).result.unwrap().object;
    for (object, told) in [(tank.root(), Nfs4ErrIsdir), (link, Nfs4ErrInval)] {
        assert_eq!(bank.run(&[bank.scene.put(object), a.test(ReadLt, (0, 1))]).status, told);
    }
}
