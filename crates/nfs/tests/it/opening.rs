//! OPEN, CLOSE, OPEN_DOWNGRADE and stateids, in sessions.

use crate::support::compound::{Op, get_attr, op, read, set, stateid};
use crate::support::opener::{BOTH, READ, WRITE, close, find, open, open_as, read_by};
use crate::support::session::{Newcomer, Session, complete};
use tally_vfs::{Attributes, Cred, Names, OpCtx, SetAttr};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Close4Res, Createhow4, Creatverfattr, DestroyClientid4Args, FATTR4_SIZE, Fattr4, Fattr4Value, FreeStateid4Args,
    NfsArgop4, NfsResop4, Nfsstat4, Open4Args, Open4Res, Open4Resok, OpenClaim4, OpenDelegation4, OpenDowngrade4Args,
    OpenDowngrade4Res, OpenOwner4, Openflag4, StableHow4, Stateid4, TestStateid4Args, TestStateid4Res, Write4Args,
};
use tally_wire::numbers;

const OK: Nfsstat4 = Nfs4Ok;

/// A client that has reclaimed all that it wants to, and the sequence of its one slot.
struct Client {
    session: Session,
    next: u32,
}

impl Client {
    fn new() -> Self {
        let mut client = Self { session: Session::new(), next: 1 };
        assert_eq!(client.status(&[complete()]), OK);
        client
    }

    /// A compound in the tank, behind SEQUENCE and PUTFH.
    fn run(&mut self, ops: &[Op]) -> Vec<NfsResop4> {
        let head = [self.session.sequence(self.next, false), self.session.tank()];
        self.next += 1;
        let reply = self.session.run(&[&head[..], ops].concat());
        reply.resarray.0.into_iter().skip(2).collect()
    }

    fn status(&mut self, ops: &[Op]) -> Nfsstat4 {
        let head = [self.session.sequence(self.next, false), self.session.tank()];
        self.next += 1;
        self.session.status(&[&head[..], ops].concat())
    }

    fn opened(&mut self, open: Op) -> Open4Resok {
        match self.run(&[open]).pop() {
            Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(opened))) => opened,
            other => panic!("{other:?}"),
        }
    }
}

fn made(name: &[u8], how: Createhow4) -> Op {
    open_as(b"o", name, (BOTH, 0), Openflag4::Open4Create(how))
}

fn unchecked(attributes: &[Fattr4Value]) -> Createhow4 {
    Createhow4::Unchecked4(Fattr4::of(attributes))
}

fn downgrade(of: Stateid4, access: u32, deny: u32) -> Op {
    let (open_stateid, seqid, share_access, share_deny) = (of, 0, access, deny);
    op(&NfsArgop4::OpOpenDowngrade(OpenDowngrade4Args { open_stateid, seqid, share_access, share_deny }))
}

fn write_by(of: Stateid4, data: &[u8]) -> Op {
    op(&NfsArgop4::OpWrite(Write4Args { stateid: of, offset: 0, stable: StableHow4::FileSync4, data: data.into() }))
}

/// The one that the operation before it has given.
fn present() -> Stateid4 {
    Stateid4 { seqid: 1, other: [0; 12] }
}

fn look(name: &[u8]) -> Op {
    crate::support::compound::lookup(name)
}

#[test]
fn a_file_is_made_written_read_and_closed_in_one_compound() {
    let mut client = Client::new();
    let mode = Fattr4Value::Fattr4Mode(0o600);
    let results = client.run(&[
        made(b"f", unchecked(&[mode])),
        write_by(present(), b"content"),
        read_by(present()),
        close(present()),
    ]);
    let [NfsResop4::OpOpen(Open4Res::Nfs4Ok(opened)), .., NfsResop4::OpClose(Close4Res::Nfs4Ok(closed))] = &results[..]
    else {
        panic!("{results:?}")
    };
    assert!(opened.cinfo.atomic && opened.cinfo.before < opened.cinfo.after);
    assert_eq!(
        (opened.stateid.seqid, opened.rflags, opened.delegation.clone()),
        (1, 4 | 8, OpenDelegation4::OpenDelegateNone)
    );
    assert_eq!(numbers(&opened.attrset), [33]);
    assert_eq!((closed.seqid, closed.other), (u32::MAX, [0; 12]));
    assert_eq!(client.status(&[look(b"f"), read_by(opened.stateid.clone())]), Nfs4ErrBadStateid);
    assert_eq!(client.status(&[look(b"f"), close(opened.stateid.clone())]), Nfs4ErrBadStateid);
}

#[test]
fn how_a_file_is_made_that_is_there() {
    let mut client = Client::new();
    client.session.scene.file(b"there");
    let guarded = Createhow4::Guarded4(Fattr4::of(&[]));
    let verifier = |byte| Createhow4::Exclusive4([byte; 8]);
    let both = |byte| {
        let cva_attrs = Fattr4::of(&[Fattr4Value::Fattr4Mode(0o600)]);
        Createhow4::Exclusive41(Creatverfattr { cva_verf: [byte; 8], cva_attrs })
    };
    assert_eq!(client.status(&[made(b"there", guarded.clone())]), Nfs4ErrExist);
    assert_eq!(client.status(&[made(b"there", verifier(1))]), Nfs4ErrExist);
    let found = client.opened(made(b"there", unchecked(&[Fattr4Value::Fattr4Mode(0o600)])));
    assert_eq!((found.cinfo.before == found.cinfo.after, numbers(&found.attrset)), (true, vec![]));
    for (name, how) in [(&b"x"[..], verifier as fn(u8) -> Createhow4), (b"y", both)] {
        let first = client.opened(made(name, how(1)));
        // Its answer was lost: the same open, once more.
        let again = client.opened(made(name, how(1)));
        assert_eq!((again.stateid.other, again.stateid.seqid), (first.stateid.other, first.stateid.seqid + 1));
        assert_eq!(client.status(&[made(name, how(2))]), Nfs4ErrExist);
    }
    // It is cut, if that is what is wanted, and to nothing alone.
    client.run(&[look(b"there"), op_write(b"content")]);
    let size = |size| unchecked(&[Fattr4Value::Fattr4Size(size)]);
    assert_eq!(numbers(&client.opened(made(b"there", size(3))).attrset), []);
    assert_eq!(client.status(&[look(b"there"), read(0, 0, 100)]), OK);
    assert_eq!(numbers(&client.opened(made(b"there", size(0))).attrset), [FATTR4_SIZE]);
}

fn op_write(data: &[u8]) -> Op {
    crate::support::compound::write(0, data)
}

#[test]
fn what_cannot_be_opened_says_why() {
    let mut client = Client::new();
    client.session.scene.file(b"f");
    assert_eq!(client.status(&[crate::support::compound::make(b"d")]), OK);
    let tank = client.session.scene.exports.tank.clone();
    let link = tank.symlink(OpCtx::of(&Cred::root()), tank_root(&client), b"l", b"f", &SetAttr::default());
    link.result.unwrap();
    let fifo =
        tank.mknod(OpCtx::of(&Cred::root()), tank_root(&client), b"p", tally_vfs::NodeKind::Fifo, &SetAttr::default());
    fifo.result.unwrap();
    for (ask, told) in [
        (open(b"none", READ, 0), Nfs4ErrNoent),
        (open(b"d", READ, 0), Nfs4ErrIsdir),
        (made(b"d", unchecked(&[])), Nfs4ErrIsdir),
        (open(b"child", READ, 0), Nfs4ErrIsdir),
        (open(b"l", READ, 0), Nfs4ErrSymlink),
        (made(b"l", unchecked(&[])), Nfs4ErrSymlink),
        (open(b"p", READ, 0), Nfs4ErrWrongType),
        (open(b"f", 0, 0), Nfs4ErrInval),
        (open(b"f", 7, 0), Nfs4ErrInval),
        (open(b"f", READ, 4), Nfs4ErrInval),
        (open(b"", READ, 0), Nfs4ErrInval),
        (open(b".", READ, 0), Nfs4ErrBadname),
    ] {
        assert_eq!(client.status(std::slice::from_ref(&ask)), told, "{ask:x?}");
    }
    *client.session.scene.exports.tank_rule.lock() = "ro,no_root_squash".into();
    assert_eq!(client.status(&[open(b"f", WRITE, 0)]), Nfs4ErrRofs);
    assert_eq!(client.status(&[made(b"n", unchecked(&[]))]), Nfs4ErrRofs);
    assert_eq!(client.status(&[open(b"f", READ, 0)]), OK);
}

fn tank_root(client: &Client) -> tally_vfs::ObjectRef {
    tally_vfs::Identity::root(&*client.session.scene.exports.tank)
}

/// Before it has said that it reclaims nothing more.
#[test]
fn who_may_still_reclaim_opens_nothing_new() {
    let mut client = Client { session: Session::new(), next: 1 };
    client.session.scene.file(b"f");
    assert_eq!(client.status(&[open(b"f", READ, 0)]), Nfs4ErrGrace);
    let reclaim = op(&NfsArgop4::OpOpen(Open4Args {
        seqid: 0,
        share_access: READ,
        share_deny: 0,
        owner: OpenOwner4 { clientid: 0, owner: b"o".into() },
        openhow: find(),
        claim: OpenClaim4::ClaimPrevious(tally_wire::nfs4::OpenDelegationType4::OpenDelegateNone),
    }));
    assert_eq!(client.status(&[look(b"f"), reclaim]), Nfs4ErrNoGrace);
}

#[test]
fn shares_keep_others_out_and_nobody_who_opens_nothing_gets_in() {
    let mut client = Client::new();
    client.session.scene.file(b"f");
    let mine = client.opened(open_as(b"a", b"f", (BOTH, WRITE), find()));
    let as_b = |access, deny| open_as(b"b", b"f", (access, deny), find());
    assert_eq!(client.status(&[as_b(WRITE, 0)]), Nfs4ErrShareDenied);
    assert_eq!(client.status(&[as_b(READ, READ)]), Nfs4ErrShareDenied);
    let his = client.opened(as_b(READ, 0));
    assert_eq!(client.status(&[look(b"f"), op_write(b"x")]), Nfs4ErrLocked);
    let cut = Fattr4::of(&[Fattr4Value::Fattr4Size(0)]);
    assert_eq!(client.status(&[look(b"f"), set(cut)]), Nfs4ErrLocked);
    assert_eq!(client.status(&[look(b"f"), read(0, 0, 9)]), OK);
    assert_eq!(client.status(&[look(b"f"), write_by(his.stateid.clone(), b"x")]), Nfs4ErrOpenmode);
    assert_eq!(client.status(&[look(b"f"), write_by(mine.stateid.clone(), b"x")]), OK);
    // What is given up is free for others at once.
    assert_eq!(client.status(&[look(b"f"), downgrade(mine.stateid.clone(), READ, WRITE)]), Nfs4ErrInval);
    assert_eq!(client.status(&[look(b"f"), close(mine.stateid)]), OK);
    assert_eq!(client.status(&[as_b(WRITE, 0)]), OK);
}

#[test]
fn a_downgrade_goes_to_what_was_opened() {
    let mut client = Client::new();
    client.session.scene.file(b"f");
    client.opened(open(b"f", READ, 0));
    let both = client.opened(open(b"f", BOTH, WRITE));
    assert_eq!(both.stateid.seqid, 2);
    let results = client.run(&[look(b"f"), downgrade(both.stateid.clone(), READ, 0)]);
    let Some(NfsResop4::OpOpenDowngrade(OpenDowngrade4Res::Nfs4Ok(left))) = results.last() else {
        panic!("{results:?}")
    };
    assert_eq!(left.open_stateid.seqid, 3);
    assert_eq!(client.status(&[look(b"f"), read_by(both.stateid)]), Nfs4ErrOldStateid);
    assert_eq!(client.status(&[look(b"f"), write_by(left.open_stateid.clone(), b"x")]), Nfs4ErrOpenmode);
    assert_eq!(client.status(&[look(b"f"), read_by(left.open_stateid.clone())]), OK);
}

/// Rules V30: access is checked when it is opened.
#[test]
fn who_has_a_file_open_goes_on_when_its_mode_says_otherwise() {
    let mut client = Client::new();
    let file = client.session.scene.file(b"f");
    *client.session.scene.exports.tank_rule.lock() = "rw,all_squash,anonuid=77,anongid=77".into();
    let tank = client.session.scene.exports.tank.clone();
    let to = |mode| {
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        tank.setattr(OpCtx::of(&Cred::root()), file, &set, None).result.unwrap();
    };
    assert_eq!(client.status(&[open(b"f", BOTH, 0)]), Nfs4ErrAccess);
    to(0o666);
    let opened = client.opened(open(b"f", BOTH, 0)).stateid;
    to(0o600);
    assert_eq!(client.status(&[open_as(b"p", b"f", (READ, 0), find())]), Nfs4ErrAccess);
    assert_eq!(client.status(&[look(b"f"), read(0, 0, 9)]), Nfs4ErrAccess);
    assert_eq!(client.status(&[look(b"f"), write_by(opened.clone(), b"x"), crate::support::compound::commit()]), OK);
    assert_eq!(client.status(&[look(b"f"), read_by(opened)]), OK);
}

#[test]
fn a_stateid_is_of_one_client_and_one_file() {
    let mut client = Client::new();
    client.session.scene.file(b"f");
    client.session.scene.file(b"g");
    let opened = client.opened(open(b"f", READ, 0)).stateid;
    let newest = Stateid4 { seqid: 0, ..opened.clone() };
    let newer = Stateid4 { seqid: 2, ..opened.clone() };
    let mut guessed = opened.clone();
    guessed.other[11] ^= 1;
    for (name, asked, told) in [
        (b"f", opened.clone(), OK),
        (b"f", newest, OK),
        (b"g", opened.clone(), Nfs4ErrBadStateid),
        (b"f", newer, Nfs4ErrBadStateid),
        (b"f", guessed.clone(), Nfs4ErrBadStateid),
        (b"f", stateid(7), Nfs4ErrBadStateid),
        // Nothing in this compound has given one: it is the anonymous one.
        (b"f", present(), OK),
    ] {
        assert_eq!(client.status(&[look(name), read_by(asked.clone())]), told, "{name:?} {asked:?}");
    }
    let test = op(&NfsArgop4::OpTestStateid(TestStateid4Args { ts_stateids: vec![opened.clone(), guessed].into() }));
    let results = client.run(&[test]);
    let Some(NfsResop4::OpTestStateid(TestStateid4Res::Nfs4Ok(told))) = results.last() else { panic!("{results:?}") };
    assert_eq!(told.tsr_status_codes.0, [OK, Nfs4ErrBadStateid]);
    let free = |fsa_stateid| op(&NfsArgop4::OpFreeStateid(FreeStateid4Args { fsa_stateid }));
    assert_eq!(client.status(&[free(opened)]), Nfs4ErrLocksHeld);
}

/// A handle that leads elsewhere takes the present stateid away, and RESTOREFH gives it back.
#[test]
fn the_present_stateid_belongs_to_the_current_handle() {
    let mut client = Client::new();
    client.session.scene.file(b"g");
    let tank = client.session.tank();
    let save = crate::support::compound::save();
    let restore = op(&NfsArgop4::OpRestorefh);
    let f = made(b"f", unchecked(&[]));
    assert_eq!(client.status(&[f.clone(), tank.clone(), look(b"f"), close(present())]), Nfs4ErrBadStateid);
    assert_eq!(client.status(&[f.clone(), save, tank, look(b"g"), restore, close(present())]), OK);
    assert_eq!(client.status(&[f, get_attr(&[1]), close(present())]), OK);
}

/// A client that holds something is not destroyed, and what one that is gone had open is nobody's.
#[test]
fn what_a_client_had_open_goes_with_it() {
    let mut client = Client::new();
    client.session.scene.file(b"f");
    client.opened(open_as(b"a", b"f", (BOTH, BOTH), find()));
    let destroy = op(&NfsArgop4::OpDestroyClientid(DestroyClientid4Args { dca_clientid: client.session.client }));
    assert_eq!(client.session.status(&[destroy]), Nfs4ErrClientidBusy);
    // It starts anew, under the same name.
    let scene = &client.session.scene;
    let mut xid = 899;
    let entered = Newcomer { verifier: 2, ..Newcomer::named(b"a client") }.enter(|ops| {
        xid += 1;
        scene.run(xid, ops)
    });
    client.session.session = entered.expect("it is let in").session;
    client.next = 1;
    assert_eq!(client.status(&[complete()]), OK);
    assert_eq!(client.status(&[open_as(b"b", b"f", (BOTH, BOTH), find())]), OK);
}
