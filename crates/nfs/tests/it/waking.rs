//! Who waits for a lock is called when it is free (RFC 8881 §20.11; rules V33): over sockets, by clients that answer, or answer late, or nonsense, or not at all.

use std::time::{Duration, Instant};

use crate::support::House;
use crate::support::called::{CALLS_BACK, CallBack, Called, PROGRAM, accepted, auth_sys};
use crate::support::compound::{Op, bare, lookup, op, put_root, status_of};
use crate::support::session::channel;
use NfsLockType4::{ReadLt, ReadwLt, WriteLt, WritewLt};
use tally_nfs::rpc::Identity as Caller;
use tally_vfs::locks::{Kind, Lock, NotLocked, Range};
use tally_vfs::{ClientNumber, CreateHow, Cred, Holder, Identity, Locks, Names, OpCtx, OwnerNumber, Series, SetAttr};
use tally_wire::encode;
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    BackchannelCtl4Args, CallbackSecParms4, CbCompound4Res, CbNotifyLock4Res, CbSequence4Res, ChannelAttrs4,
    Close4Args, ExistLockOwner4, GssCbHandles4, Lock4Args, Lock4Res, Locker4, Locku4Args, Locku4Res, NfsArgop4,
    NfsCbResop4, NfsLockType4, NfsResop4, Nfsstat4, OPEN4_RESULT_MAY_NOTIFY_LOCK, Open4Args, Open4Res, OpenClaim4,
    OpenOwner4, OpenToLockOwner4, Openflag4, Opentype4, RpcGssSvcT, SEQ4_STATUS_BACKCHANNEL_FAULT,
    SEQ4_STATUS_CB_PATH_DOWN, SEQ4_STATUS_CB_PATH_DOWN_SESSION, StateOwner4, Stateid4,
};

const OK: Nfsstat4 = Nfs4Ok;
const ALL: (u64, u64) = (0, u64::MAX);

/// Somebody of a client's, with the file "f" open.
struct Locking {
    owner: Vec<u8>,
    open: Stateid4,
    held: Option<Stateid4>,
}

impl Locking {
    fn new(client: &mut Called, owner: &str) -> Self {
        let (open, _) = opened(client, owner);
        Self { owner: owner.into(), open, held: None }
    }

    fn locker(&self) -> Locker4 {
        let lock_owner = StateOwner4 { clientid: 0, owner: self.owner[..].into() };
        match self.held.clone() {
            Some(lock_stateid) => Locker4::False(ExistLockOwner4 { lock_stateid, lock_seqid: 0 }),
            None => Locker4::True(OpenToLockOwner4 {
                open_seqid: 0,
                open_stateid: self.open.clone(),
                lock_seqid: 0,
                lock_owner,
            }),
        }
    }

    fn lock(&mut self, client: &mut Called, locktype: NfsLockType4, (offset, length): (u64, u64)) -> Nfsstat4 {
        let asked = Lock4Args { locktype, reclaim: false, offset, length, locker: self.locker() };
        let told = on_file(client, op(&NfsArgop4::OpLock(asked)));
        if let NfsResop4::OpLock(Lock4Res::Nfs4Ok(given)) = &told {
            self.held = Some(given.lock_stateid.clone());
        }
        status_of(&told)
    }

    fn unlock(&mut self, client: &mut Called, (offset, length): (u64, u64)) {
        let lock_stateid = self.held.clone().unwrap();
        let asked = Locku4Args { locktype: WriteLt, seqid: 0, lock_stateid, offset, length };
        match on_file(client, op(&NfsArgop4::OpLocku(asked))) {
            NfsResop4::OpLocku(Locku4Res::Nfs4Ok(given)) => self.held = Some(given),
            other => panic!("{other:?}"),
        }
    }

    fn close(&mut self, client: &mut Called) {
        let asked = Close4Args { seqid: 0, open_stateid: self.open.clone() };
        assert_eq!(status_of(&on_file(client, op(&NfsArgop4::OpClose(asked)))), OK);
    }
}

/// The stateid, and the flags of the result.
fn opened(client: &mut Called, owner: &str) -> (Stateid4, u32) {
    let open = op(&NfsArgop4::OpOpen(Open4Args {
        seqid: 0,
        share_access: 3,
        share_deny: 0,
        owner: OpenOwner4 { clientid: 0, owner: owner.as_bytes().into() },
        openhow: Openflag4::Default(Opentype4::Open4Nocreate),
        claim: OpenClaim4::ClaimNull(b"f"[..].into()),
    }));
    match client.run(&[put_root(), lookup(b"tank"), open]).resarray.0.pop() {
        Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(opened))) => (opened.stateid, opened.rflags),
        other => panic!("{other:?}"),
    }
}

fn on_file(client: &mut Called, asked: Op) -> NfsResop4 {
    client.run(&[put_root(), lookup(b"tank"), lookup(b"f"), asked]).resarray.0.pop().unwrap()
}

/// A house with a file "f" in its tank.
fn house() -> House {
    let house = House::speaking_4();
    let (tank, cred) = (&house.exports.tank.model, Cred::root());
    let how = CreateHow::Guarded(SetAttr { mode: Some(0o644), ..SetAttr::default() });
    tank.create(OpCtx::of(&cred), tank.root(), b"f", &how).result.unwrap();
    house
}

/// A house, a client that has locked all of "f", and others that wait for it, in this order.
fn queue<const N: usize>() -> (House, (Called, Locking), [(Called, Locking); N]) {
    let house = house();
    let mut holder = Called::new(&house, b"holder");
    let mut held = Locking::new(&mut holder, "holds");
    assert_eq!(held.lock(&mut holder, WriteLt, ALL), OK);
    let waiting = std::array::from_fn(|nth| {
        let mut client = Called::new(&house, format!("client {nth}").as_bytes());
        let mut waits = Locking::new(&mut client, &format!("waits {nth}"));
        assert_eq!(waits.lock(&mut client, WritewLt, ALL), Nfs4ErrDenied);
        (client, waits)
    });
    (house, (holder, held), waiting)
}

#[test]
fn a_waiter_is_called_and_takes_what_is_free() {
    let (house, (mut a, mut held), [(mut b, mut waits)]) = queue();
    assert_eq!((b.granted.0, b.granted.1.ca_maxrequests), (CALLS_BACK, 4));
    assert!(b.is_not_called());
    held.unlock(&mut a, ALL);
    let call = b.call();
    assert_eq!((call.program, call.identity.clone(), call.minor), ((PROGRAM, 1), Caller::Nobody, 1));
    let sequence = &call.sequence;
    assert_eq!((sequence.csa_sessionid, call.place(), sequence.csa_cachethis), (b.session, (0, 1), false));
    let StateOwner4 { clientid, owner } = &call.notify().cnla_lock_owner;
    assert_eq!((*clientid, &owner[..]), (b.id, &b"waits 0"[..]));
    match on_file(&mut b, bare(10)) {
        NfsResop4::OpGetfh(tally_wire::nfs4::Getfh4Res::Nfs4Ok(handle)) => {
            assert_eq!(handle.object, call.notify().cnla_fh)
        }
        other => panic!("{other:?}"),
    }
    b.answer(&call);
    assert_eq!(waits.lock(&mut b, WritewLt, ALL), OK);
    // He waits no more, and the slot goes on.
    waits.unlock(&mut b, ALL);
    assert!(b.is_not_called());
    assert_eq!(held.lock(&mut a, WriteLt, ALL), OK);
    assert_eq!(waits.lock(&mut b, ReadwLt, ALL), Nfs4ErrDenied);
    held.close(&mut a);
    assert_eq!(b.call().place(), (0, 2));
    assert_eq!(house.server.stop(), 0);
}

/// Whom the client is called as, and whether it is told that it may be.
#[test]
fn a_client_is_called_as_it_says() {
    let house = house();
    let gss = || {
        let (gcbp_handle_from_server, gcbp_handle_from_client) = (b"h"[..].into(), b"h"[..].into());
        let gcbp_service = RpcGssSvcT::RpcGssSvcNone;
        CallbackSecParms4::RpcsecGss(GssCbHandles4 { gcbp_service, gcbp_handle_from_server, gcbp_handle_from_client })
    };
    let none = ChannelAttrs4 { ca_maxrequests: 0, ..channel() };
    let cases = [
        (CALLS_BACK, vec![CallbackSecParms4::AuthNone, auth_sys(5)], channel(), Some(None)),
        (CALLS_BACK, vec![gss(), auth_sys(5)], channel(), Some(Some(5))),
        (CALLS_BACK, vec![gss()], channel(), None),
        (CALLS_BACK, vec![], channel(), None),
        (CALLS_BACK, vec![auth_sys(5)], none, None),
        (0, vec![auth_sys(5)], channel(), None),
    ];
    let mut holder = Called::new(&house, b"holder");
    let mut held = Locking::new(&mut holder, "holds");
    for (nth, (flags, parms, back, as_whom)) in cases.into_iter().enumerate() {
        let mut client = Called::with(&house, format!("client {nth}").as_bytes(), 1, flags, &parms, back);
        assert_eq!(client.granted.0 == CALLS_BACK, as_whom.is_some(), "{nth}");
        let is_told = opened(&mut client, "o").1 & OPEN4_RESULT_MAY_NOTIFY_LOCK != 0;
        assert_eq!(is_told, as_whom.is_some(), "{nth}");
        let mut waits = Locking::new(&mut client, "waits");
        assert_eq!(held.lock(&mut holder, WriteLt, ALL), OK);
        assert_eq!(waits.lock(&mut client, WritewLt, ALL), Nfs4ErrDenied);
        held.unlock(&mut holder, ALL);
        let Some(uid) = as_whom else {
            assert!(client.is_not_called(), "{nth}");
            continue;
        };
        match (client.call().identity, uid) {
            (Caller::Nobody, None) => {}
            (Caller::Unix(cred), Some(uid)) => assert_eq!((cred.uid, cred.gid, &cred.groups[..]), (uid, 12, &[13][..])),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn backchannel_ctl_changes_program_and_caller() {
    let (_house, (mut a, mut held), [(mut b, mut waits)]) = queue();
    let control = |parms: &[CallbackSecParms4]| {
        let (bca_cb_program, bca_sec_parms) = (77, parms.to_vec().into());
        op(&NfsArgop4::OpBackchannelCtl(BackchannelCtl4Args { bca_cb_program, bca_sec_parms }))
    };
    assert_eq!(b.run(&[control(&[auth_sys(6)])]).status, OK);
    held.unlock(&mut a, ALL);
    let call = b.call();
    assert_eq!(call.program, (77, 1));
    assert!(matches!(&call.identity, Caller::Unix(cred) if cred.uid == 6));
    assert_eq!(b.wire.compound(1, &[control(&[])]).status, Nfs4ErrOpNotInSession);
    assert_eq!(waits.lock(&mut b, WriteLt, ALL), OK);
}

/// Whatever frees what somebody waits for.
#[test]
fn each_way_in_which_a_lock_ends() {
    type Ends = fn(&House, &mut Called, &mut Locking);
    let cases: [(&str, Ends); 5] = [
        ("LOCKU", |_, a, held| held.unlock(a, ALL)),
        ("LOCKU of a part, which is not all that is waited for", |_, a, held| {
            held.unlock(a, (10, 10));
            held.unlock(a, (20, u64::MAX));
            held.unlock(a, (0, 10));
        }),
        ("CLOSE", |_, a, held| held.close(a)),
        ("LOCK for reading, and CLOSE", |_, a, held| {
            assert_eq!(held.lock(a, ReadLt, ALL), OK);
            held.close(a);
        }),
        ("its client starts anew", |house, _, _| {
            drop(Called::with(house, b"holder", 2, 0, &[], channel()));
        }),
    ];
    for (what, ends) in cases {
        let (house, (mut a, mut held), [(mut b, mut waits)]) = queue();
        assert!(b.is_not_called(), "{what}");
        ends(&house, &mut a, &mut held);
        let call = b.call();
        b.answer(&call);
        assert_eq!(waits.lock(&mut b, WritewLt, ALL), OK, "{what}");
    }
}

/// Of what is freed without a word to version 4, as another protocol would, it takes notice by itself.
#[test]
fn what_somebody_else_frees_is_noticed() {
    let (house, _held, [(mut b, mut waits)]) = queue();
    let tank = &house.exports.tank;
    let object = tank.lookup(&Cred::root(), tank.root(), b"f").unwrap().0.object;
    let nobody = Holder { client: ClientNumber(0), owner: OwnerNumber(0) };
    let all = Range::new(0, u64::MAX).unwrap();
    let Err(NotLocked::Held(held)) = tank.test_range(object, Lock { holder: nobody, range: all, kind: Kind::Read })
    else {
        panic!("somebody has it")
    };
    tank.unlock_range(object, held.holder, all).unwrap();
    assert!(b.call_within(Duration::from_secs(2)).is_some());
    assert_eq!(waits.lock(&mut b, WritewLt, ALL), OK);
}

/// What this machine has mounted has no lease that could be over: a client that meets its locks is told of them, and called when they are gone.
#[test]
fn programs_of_the_server_are_met() {
    let house = house();
    let tank = &house.exports.tank;
    let object = tank.lookup(&Cred::root(), tank.root(), b"f").unwrap().0.object;
    let program = Holder { client: ClientNumber::of(Series::HERE, 3), owner: OwnerNumber(77) };
    let range = Range::new(10, 5).unwrap();
    tank.lock_unopened(object, Lock { holder: program, range, kind: Kind::Write }).unwrap();
    let mut client = Called::new(&house, b"client");
    let mut waits = Locking::new(&mut client, "waits");
    let asked = Lock4Args { locktype: WritewLt, reclaim: false, offset: 0, length: 100, locker: waits.locker() };
    match on_file(&mut client, op(&NfsArgop4::OpLock(asked))) {
        NfsResop4::OpLock(Lock4Res::Nfs4ErrDenied(denied)) => {
            assert_eq!((denied.offset, denied.length, denied.locktype), (10, 5, WriteLt));
            assert_eq!((denied.owner.clientid, &denied.owner.owner[..]), (0, &b"the server itself"[..]));
        }
        other => panic!("{other:?}"),
    }
    assert!(client.is_not_called());
    assert_eq!(waits.lock(&mut client, WriteLt, (50, 10)), OK, "it is there, and beside it there is room");
    assert_eq!(waits.lock(&mut client, WritewLt, ALL), Nfs4ErrDenied);
    tank.unlock_range(object, program, Range::ALL).unwrap();
    assert!(client.call_within(Duration::from_secs(2)).is_some());
    assert_eq!(waits.lock(&mut client, WritewLt, ALL), OK);
    // And the other way round.
    let told = tank.lock_unopened(object, Lock { holder: program, range, kind: Kind::Read });
    assert!(matches!(told, Err(NotLocked::Held(_))), "{told:?}");
}

/// What ends a wait: then the next is called, and not the first.
#[test]
fn each_way_in_which_a_wait_ends() {
    type Ends = fn(&House, Called, &mut Locking) -> Option<Called>;
    let cases: [(&str, Ends); 4] = [
        ("he asks for it, and would not wait", |_, mut b, waits| {
            assert_eq!(waits.lock(&mut b, WriteLt, ALL), Nfs4ErrDenied);
            Some(b)
        }),
        ("CLOSE", |_, mut b, waits| {
            waits.close(&mut b);
            Some(b)
        }),
        ("his client starts anew", |house, b, _| {
            drop(Called::with(house, b"client 0", 2, 0, &[], channel()));
            Some(b)
        }),
        ("his connection is closed", |_, b, _| {
            drop(b);
            None
        }),
    ];
    for (what, ends) in cases {
        let (house, (mut a, mut held), [(b, mut waits), (mut c, _)]) = queue();
        let b = ends(&house, b, &mut waits);
        held.unlock(&mut a, ALL);
        assert!(c.call_within(Duration::from_secs(2)).is_some(), "{what}");
        assert!(b.is_none_or(|mut b| b.is_not_called()), "{what}");
    }
}

#[test]
fn readers_are_called_together_and_a_writer_behind_them() {
    let house = house();
    let mut a = Called::new(&house, b"holder");
    let mut held = Locking::new(&mut a, "holds");
    assert_eq!(held.lock(&mut a, WriteLt, ALL), OK);
    let mut peers: Vec<_> = [ReadwLt, ReadwLt, WritewLt, ReadwLt]
        .into_iter()
        .enumerate()
        .map(|(nth, kind)| {
            let mut client = Called::new(&house, format!("client {nth}").as_bytes());
            let mut waits = Locking::new(&mut client, &format!("waits {nth}"));
            assert_eq!(waits.lock(&mut client, kind, ALL), Nfs4ErrDenied);
            (client, waits, kind)
        })
        .collect();
    // For reading that is all that the holder needs.
    assert_eq!(held.lock(&mut a, ReadLt, ALL), OK);
    for nth in [0, 1, 3] {
        let call = peers[nth].0.call();
        peers[nth].0.answer(&call);
    }
    assert!(peers[2].0.is_not_called());
    for nth in [0, 1, 3] {
        let (client, waits, kind) = &mut peers[nth];
        assert_eq!(waits.lock(client, *kind, ALL), OK);
    }
    held.unlock(&mut a, ALL);
    for nth in [0, 1, 3] {
        let (client, waits, _) = &mut peers[nth];
        assert!(client.is_not_called());
        waits.unlock(client, ALL);
    }
    let (client, waits, kind) = &mut peers[2];
    client.call();
    assert_eq!(waits.lock(client, *kind, ALL), OK);
}

/// The first never answers, and does not come. Whoever asks may have what is free, and the second is called when the first has had his time.
#[test]
fn who_does_not_come_is_passed_over() {
    let (_house, (mut a, mut held), [(mut b, mut first), (mut c, mut second)]) = queue();
    held.unlock(&mut a, ALL);
    let (began, _never_answered) = (Instant::now(), b.call());
    assert!(c.is_not_called());
    assert_eq!(held.lock(&mut a, WriteLt, ALL), OK, "nothing is kept for who was called");
    held.unlock(&mut a, ALL);
    let call = c.call();
    // Three seconds, and not the ten in which the call might be answered.
    let came = began.elapsed().as_secs();
    assert!((2..7).contains(&came), "the first had time to come: {came} s");
    c.answer(&call);
    assert_eq!(second.lock(&mut c, WritewLt, ALL), OK);
    assert_eq!(first.lock(&mut b, WritewLt, ALL), Nfs4ErrDenied, "he waits anew, and the slot of the call is in use");
    second.unlock(&mut c, ALL);
    assert_eq!(b.call().place(), (1, 1));
}

/// A client of which an answer is of the wrong form does not know that it may come: the next is called at once, and of the slot it is known whether it may be used.
#[test]
fn answers_of_the_wrong_form() {
    type Answer = fn(&CallBack) -> Vec<u8>;
    let next_slot = (1, 1);
    let cases: [(&str, Answer, (u32, u32)); 9] = [
        ("no words", |_| Vec::new(), next_slot),
        ("no results", |_| accepted(&[]), next_slot),
        ("results cut off", |call| accepted(&encode(&call.results())[..30]), next_slot),
        (
            "another slot's",
            |call| {
                let mut other = call.clone();
                other.sequence.csa_slotid += 1;
                accepted(&encode(&other.results()))
            },
            next_slot,
        ),
        ("out of its order", |_| refused_sequence(Nfs4ErrSeqMisordered), next_slot),
        ("come again", |_| refused_sequence(Nfs4ErrDelay), (0, 1)),
        ("no such program", |_| [0_u32, 0, 0, 1].iter().flat_map(|word| word.to_be_bytes()).collect(), (0, 1)),
        ("nobody that it knows", |_| [1_u32, 1, 5].iter().flat_map(|word| word.to_be_bytes()).collect(), (0, 1)),
        (
            "the operation failed",
            |call| {
                let mut results = call.results();
                results.status = Nfs4ErrBadhandle;
                results.resarray.0[1] = NfsCbResop4::OpCbNotifyLock(CbNotifyLock4Res { cnlr_status: Nfs4ErrBadhandle });
                accepted(&encode(&results))
            },
            (0, 2),
        ),
    ];
    for (what, answer, next) in cases {
        let (_house, (mut a, mut held), [(mut b, mut first), (mut c, mut second)]) = queue();
        held.unlock(&mut a, ALL);
        let call = b.call();
        b.reply(call.xid, &answer(&call));
        let told = c.call_within(Duration::from_secs(2)).unwrap_or_else(|| panic!("{what}: the next is called"));
        c.answer(&told);
        assert_eq!(second.lock(&mut c, WritewLt, ALL), OK, "{what}");
        assert_eq!(first.lock(&mut b, WritewLt, ALL), Nfs4ErrDenied, "{what}");
        second.unlock(&mut c, ALL);
        assert_eq!(b.call().place(), next, "{what}");
    }
}

fn refused_sequence(status: Nfsstat4) -> Vec<u8> {
    let sequence = NfsCbResop4::OpCbSequence(CbSequence4Res::Default(status));
    accepted(&encode(&CbCompound4Res { status, tag: b"".into(), resarray: vec![sequence].into() }))
}

/// Replies to nothing: ten of them close the connection, and those to calls do not count.
#[test]
fn the_tenth_reply_to_nothing_closes_the_connection() {
    let (house, (mut a, mut held), [(mut b, mut waits)]) = queue();
    held.unlock(&mut a, ALL);
    let call = b.call();
    for nth in 1..=9 {
        b.reply(call.xid.wrapping_add(nth), &accepted(&encode(&call.results())));
    }
    b.answer(&call);
    assert_eq!(waits.lock(&mut b, WritewLt, ALL), OK, "nine are passed over");
    // The reply was taken: that it comes again is the tenth.
    b.answer(&call);
    assert!(b.is_closed());
    let stats = house.server.stats();
    assert_eq!(stats.replies_unmatched.load(std::sync::atomic::Ordering::SeqCst), 10);
    // A call of one connection is not answered over another one.
    waits.held = None;
    assert_eq!(held.lock(&mut a, WriteLt, ALL), Nfs4ErrDenied);
}

/// A call is answered by who was called, whoever else knows its xid.
#[test]
fn nobody_answers_for_another() {
    let (_house, (mut a, mut held), [(mut b, _), (mut c, _)]) = queue();
    held.unlock(&mut a, ALL);
    let call = b.call();
    let began = Instant::now();
    // It would have the next called at once.
    a.reply(call.xid, &[]);
    c.reply(call.xid, &[]);
    c.call();
    assert!(began.elapsed() > Duration::from_secs(2), "the first had his time");
}

#[test]
fn a_lost_connection_and_another_one() {
    let (house, (mut a, mut held), [(mut b, mut waits)]) = queue();
    let mut beside = b.beside(&house);
    held.unlock(&mut a, ALL);
    let call = b.call();
    // It goes with its connection, and comes over the other one, in the same place.
    let next = b.next;
    drop(b);
    let again = beside.call();
    assert_eq!((again.place(), again.notify()), (call.place(), call.notify()));
    beside.answer(&again);
    beside.next = next;
    assert_eq!(waits.lock(&mut beside, WritewLt, ALL), OK);
    waits.unlock(&mut beside, ALL);
    assert_eq!(held.lock(&mut a, WriteLt, ALL), OK);
    assert_eq!(waits.lock(&mut beside, WritewLt, ALL), Nfs4ErrDenied);
    held.unlock(&mut a, ALL);
    assert_eq!(beside.call().place(), (0, 2), "that it was carried out is known");
}

#[test]
fn a_lost_connection_and_no_other_one() {
    let (house, (mut a, mut held), [(mut b, mut waits), (mut c, mut second)]) = queue();
    // Requests go over another connection, callbacks do not.
    let mut fore = b.over(&house);
    held.unlock(&mut a, ALL);
    b.call();
    drop(b);
    let told = c.call_within(Duration::from_secs(2)).expect("the next is called");
    c.answer(&told);
    assert_eq!(second.lock(&mut c, WritewLt, ALL), OK);
    assert_eq!(fore.flags(), SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_CB_PATH_DOWN_SESSION);
    assert_eq!(waits.lock(&mut fore, WritewLt, ALL), Nfs4ErrDenied);
    second.unlock(&mut c, ALL);
    assert!(fore.is_not_called());
    // Bound again it is called again, and the slot of which nothing is known is left alone.
    let next = fore.next;
    let mut bound = fore.beside(&house);
    bound.next = next;
    assert_eq!(bound.flags(), 0);
    assert_eq!(second.lock(&mut c, WriteLt, ALL), OK);
    assert_eq!(waits.lock(&mut bound, WritewLt, ALL), Nfs4ErrDenied);
    second.unlock(&mut c, ALL);
    assert_eq!(bound.call().place(), (1, 1));
}

/// A client that reads nothing is not called once its socket is full: others go on, and no worker waits for it.
#[test]
fn a_client_that_does_not_read_holds_nobody() {
    let (house, (mut a, mut held), [(mut b, _), (mut c, mut second)]) = queue();
    // Its answers lie in the socket, and then in the server.
    let root = lookup_of_root();
    b.wire.stream.set_nonblocking(true).unwrap();
    let record = crate::support::client::record(
        1,
        (0, &[0]),
        (tally_nfs::v3::PROGRAM, 4),
        1,
        crate::support::compound::arguments(0, &root),
    );
    let record = [&(record.len() as u32 | 1 << 31).to_be_bytes()[..], &record].concat();
    let (mut sent, mut went_on) = (0, Instant::now());
    while went_on.elapsed() < Duration::from_millis(500) {
        match std::io::Write::write(&mut b.wire.stream, &record[sent..]) {
            Ok(count) => (sent, went_on) = ((sent + count) % record.len(), Instant::now()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    let made = || house.server.stats().calls_made.load(std::sync::atomic::Ordering::SeqCst);
    let (began, before) = (Instant::now(), made());
    held.unlock(&mut a, ALL);
    let told = c.call_within(Duration::from_secs(2)).expect("the next is called at once");
    assert_eq!(made() - before, 1, "he who reads nothing is not called at all");
    c.answer(&told);
    assert_eq!(second.lock(&mut c, WritewLt, ALL), OK);
    assert!(began.elapsed() < Duration::from_secs(2));
}

/// Operations whose answer is much longer than they are.
fn lookup_of_root() -> Vec<Op> {
    let all: Vec<u32> = (0..56).filter(|number| ![12, 14, 24, 25, 32, 46, 49, 50].contains(number)).collect();
    let mut ops = vec![put_root()];
    ops.extend((0..100).map(|_| crate::support::compound::get_attr(&all)));
    ops
}

#[test]
fn who_would_wait_for_himself_is_told_so() {
    let house = house();
    let mut clients: Vec<_> = (0..3).map(|nth| Called::new(&house, format!("client {nth}").as_bytes())).collect();
    let mut owners: Vec<_> =
        clients.iter_mut().enumerate().map(|(nth, client)| Locking::new(client, &format!("owner {nth}"))).collect();
    let byte = |nth: usize| (nth as u64, 1);
    for nth in 0..3 {
        assert_eq!(owners[nth].lock(&mut clients[nth], WriteLt, byte(nth)), OK);
    }
    // 0 waits for 1, and 1 for 2. That 2 asks for what 0 has, and would not wait, is no deadlock.
    assert_eq!(owners[0].lock(&mut clients[0], WritewLt, byte(1)), Nfs4ErrDenied);
    assert_eq!(owners[1].lock(&mut clients[1], WritewLt, byte(2)), Nfs4ErrDenied);
    assert_eq!(owners[2].lock(&mut clients[2], WriteLt, byte(0)), Nfs4ErrDenied);
    assert_eq!(owners[2].lock(&mut clients[2], WritewLt, byte(0)), Nfs4ErrDeadlock);
    // He has no place by that, and others keep theirs.
    owners[2].unlock(&mut clients[2], byte(2));
    clients[1].call();
    // 1 asks for something else, and waits for 2 no more.
    assert_eq!(owners[1].lock(&mut clients[1], WriteLt, byte(9)), OK);
    assert_eq!(owners[2].lock(&mut clients[2], WriteLt, byte(2)), OK);
    assert_eq!(owners[2].lock(&mut clients[2], WritewLt, byte(0)), Nfs4ErrDenied);
    assert_eq!(owners[1].lock(&mut clients[1], WritewLt, byte(2)), Nfs4ErrDeadlock, "the same ring from another end");
}

/// Of four slots nothing is known: the client is told to make another session.
#[test]
fn four_calls_without_an_answer_are_a_fault_of_the_channel() {
    let house = house();
    let mut a = Called::new(&house, b"holder");
    let mut held = Locking::new(&mut a, "holds");
    let mut b = Called::new(&house, b"client");
    assert_eq!(held.lock(&mut a, WriteLt, ALL), OK);
    let mut owners: Vec<_> = (0..5).map(|nth| Locking::new(&mut b, &format!("waits {nth}"))).collect();
    for owner in &mut owners {
        assert_eq!(owner.lock(&mut b, ReadwLt, ALL), Nfs4ErrDenied);
    }
    held.unlock(&mut a, ALL);
    let calls: Vec<_> = (0..4).map(|_| b.call()).collect();
    assert_eq!(calls.iter().map(CallBack::place).collect::<Vec<_>>(), [(0, 1), (1, 1), (2, 1), (3, 1)]);
    assert!(b.is_not_called(), "four are under way");
    let began = Instant::now();
    while b.flags() != SEQ4_STATUS_BACKCHANNEL_FAULT {
        assert!(began.elapsed() < Duration::from_secs(14));
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(began.elapsed() > Duration::from_secs(8), "each had ten seconds");
    // An answer that comes after all: then its slot is known again.
    assert_eq!(owners[4].lock(&mut b, ReadLt, ALL), OK);
    owners[4].unlock(&mut b, ALL);
    b.answer(&calls[2]);
    assert_eq!(b.flags(), 0);
    assert_eq!(held.lock(&mut a, WriteLt, ALL), OK);
    assert_eq!(owners[0].lock(&mut b, ReadwLt, ALL), Nfs4ErrDenied);
    held.unlock(&mut a, ALL);
    assert_eq!(b.call().place(), (2, 2));
}
