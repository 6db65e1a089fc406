//! A client is given a file to keep, and called back when another one would change it (RFC 8881 §10.4; rules V13 to V15, V36 and V41): over sockets, beside clients of both versions.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use crate::support::House;
use crate::support::called::{CALLS_BACK, CallBack, Called};
use crate::support::client::{Client, dir_name, record};
use crate::support::compound::{
    Op, arguments, bare, get_attr, link, lookup, of_mode, op, put_root, read, remove, rename, results, save, set,
    stateid,
};
use crate::support::delegates::{delegated, give_back, open_by, opened, test, tested, write_by};
use crate::support::opener::{READ, WRITE, free, open, read_by};
use crate::support::session::channel;
use bytes::Bytes;
use tally_nfs::v3::Procedure;
use tally_vfs::{Content, CreateHow, Cred, Identity, Names, OpCtx, SetAttr, Stability};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    CallbackSecParms4, Close4Args, Fattr4, Fattr4Value, Getfh4Res, NfsArgop4, NfsResop4, Nfsstat4, Open4Resok,
    OpenClaim4, OpenClaimDelegateCur4, OpenDelegation4, OpenNoneDelegation4, Putfh4Args, Read4Res,
};

const OK: Nfsstat4 = Nfs4Ok;
const JUKEBOX: u32 = 10008;

/// A house that gives delegations, with files "f" and "g" in its tank.
fn house() -> House {
    let house = House::speaking_4();
    let (tank, cred) = (&house.exports.tank.model, Cred::root());
    for name in [b"f", b"g"] {
        let how = CreateHow::Guarded(SetAttr { mode: Some(0o644), ..SetAttr::default() });
        tank.create(OpCtx::of(&cred), tank.root(), name, &how).result.unwrap();
    }
    house
}

fn handle(client: &mut Called, name: &[u8]) -> Vec<u8> {
    match client.on(name, bare(10)).1 {
        Some(NfsResop4::OpGetfh(Getfh4Res::Nfs4Ok(found))) => found.object.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Gives back what it was called for.
fn returns(client: &mut Called, call: &CallBack) {
    let recall = call.recall();
    let put = op(&NfsArgop4::OpPutfh(Putfh4Args { object: recall.fh.clone() }));
    assert_eq!(client.run(&[put, give_back(recall.stateid.clone())]).status, OK);
}

/// The results of what was asked by [`Called::ask`].
fn answer(client: &mut Called, (xid, ops): &(u32, Vec<Op>)) -> Nfsstat4 {
    let (answered, answer) = client.wire.receive_answer();
    assert_eq!(answered, *xid);
    results(&answer, ops).status
}

/// What is told of what was asked by [`Called::ask`], which may have come back too late for who is parked: then it is asked for once more.
fn goes_on(client: &mut Called, asked: &(u32, Vec<Op>)) -> Nfsstat4 {
    match answer(client, asked) {
        Nfs4ErrDelay => client.run(&asked.1[1..]).status,
        told => told,
    }
}

/// Whether this happens at least once of a few times: on a machine that is busy with something else nobody comes back in time.
fn at_times(happens: impl Fn() -> bool) -> bool {
    (0..10).any(|_| happens())
}

#[test]
fn who_opens_a_file_to_read_it_may_keep_it_until_another_one_writes() {
    assert!(at_times(|| keeps_it_until_another_one_writes() == OK), "who is parked goes on");
}

fn keeps_it_until_another_one_writes() -> Nfsstat4 {
    let house = house();
    let (mut a, mut b) = (Called::new(&house, b"a"), Called::new(&house, b"b"));
    let given_by = a.next;
    let kept = a.delegated(b"f").expect("nobody else has it");
    let asked = b.ask(&[put_root(), lookup(b"tank"), open(b"f", WRITE, 0)]);
    let call = a.call();
    let recall = call.recall();
    assert_eq!((&recall.stateid, recall.truncate, recall.fh.to_vec()), (&kept, false, handle(&mut a, b"f")));
    // The answer that gave it may still be on its way: which that is.
    let [list] = &call.sequence.csa_referring_call_lists[..] else { panic!() };
    let [referred] = &list.rcl_referring_calls[..] else { panic!() };
    assert_eq!((list.rcl_sessionid, referred.rc_slotid, referred.rc_sequenceid), (a.session, 0, given_by));
    a.answer(&call);
    returns(&mut a, &call);
    let told = answer(&mut b, &asked);
    assert!([OK, Nfs4ErrDelay].contains(&told), "{told:?}");
    assert_eq!(tested(a.run(&[test(kept)]).resarray.0.pop()), Nfs4ErrBadStateid);
    assert!(a.is_not_called());
    assert_eq!(house.server.stop(), 0);
    told
}

/// Version 3 knows of none of it, and is kept out all the same: it waits for a moment, and then is told to come again.
#[test]
fn a_write_of_version_3_waits_for_the_return() {
    let house = house();
    let mut a = Called::new(&house, b"a");
    let mut plain = house.client();
    let tank = plain.mount("/tank");
    let file = plain.lookup(&tank, b"f").1.unwrap().0;
    let kept = a.delegated(b"f").unwrap();
    let began = Instant::now();
    assert_eq!(plain.write(&file, 0, b"new", 2).0, JUKEBOX);
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert_eq!(plain.write(&file, 0, b"new", 2).0, JUKEBOX);
    assert_eq!(plain.read(&file, 0, 10).1.unwrap().0, b"", "who reads is in nobody's way");
    let call = a.call();
    assert_eq!(call.recall().stateid, kept);
    a.answer(&call);
    assert!(a.is_not_called(), "it is asked for once, and not for each that is kept out");
    returns(&mut a, &call);
    assert_eq!(plain.write(&file, 0, b"new", 2).0, 0);
    assert!(at_times(|| {
        let house = self::house();
        let mut a = Called::new(&house, b"a");
        a.delegated(b"f").unwrap();
        let mut plain = house.client();
        let tank = plain.mount("/tank");
        let file = plain.lookup(&tank, b"f").1.unwrap().0;
        let writer = std::thread::spawn(move || plain.write(&file, 0, b"new", 2).0);
        let call = a.call();
        returns(&mut a, &call);
        writer.join().unwrap() == 0
    }));
}

/// Whatever changes a file, its attributes or its names recalls what others have of it, and nothing that only looks does.
#[test]
fn what_recalls() {
    let tank = || [put_root(), lookup(b"tank")];
    let at_f = |ops: &[Op]| [&[lookup(b"f")], ops].concat();
    let cases = [
        ("open to write", vec![open(b"f", WRITE, 0)], true),
        ("open and deny", vec![open(b"f", READ, WRITE)], true),
        ("write", at_f(&[write_by(stateid(0), b"x")]), true),
        ("size", at_f(&[set(Fattr4::of(&[Fattr4Value::Fattr4Size(0)]))]), true),
        ("mode", at_f(&[set(of_mode(0o600))]), true),
        ("another name", at_f(&[&[save()], &tank()[..], &[link(b"h")]].concat()), true),
        ("rename", vec![save(), rename(b"f", b"i")], true),
        ("rename over", vec![save(), rename(b"g", b"f")], true),
        ("remove", vec![remove(b"f")], true),
        ("open to read", vec![open(b"f", READ, 0)], false),
        ("read", at_f(&[read_by(stateid(0))]), false),
        ("attributes", at_f(&[get_attr(&[3, 4])]), false),
    ];
    for (what, ops, recalls) in cases {
        let house = house();
        let (mut a, mut b) = (Called::new(&house, b"a"), Called::new(&house, b"b"));
        a.delegated(b"f").expect(what);
        let asked = b.ask(&[&tank()[..], &ops].concat());
        if recalls {
            let call = a.call_within(Duration::from_secs(5)).unwrap_or_else(|| panic!("{what}"));
            a.answer(&call);
            returns(&mut a, &call);
        }
        assert_eq!(goes_on(&mut b, &asked), OK, "{what}");
        assert!(a.is_not_called(), "{what}");
    }
}

#[test]
fn several_may_keep_a_file_and_all_are_asked_for_it() {
    let house = house();
    let mut keepers: Vec<_> = (0..3).map(|nth| Called::new(&house, format!("keeper {nth}").as_bytes())).collect();
    assert!(
        keepers.iter_mut().all(|keeper| keeper.delegated(b"f").is_some()),
        "those for reading stand beside each other"
    );
    let mut b = Called::new(&house, b"b");
    let asked = b.ask(&[put_root(), lookup(b"tank"), remove(b"f")]);
    for keeper in &mut keepers {
        let call = keeper.call();
        keeper.answer(&call);
        returns(keeper, &call);
    }
    // It may have been woken by the first, and kept out by the others still.
    assert_eq!(goes_on(&mut b, &asked), OK);
}

/// What its keeper does himself is in nobody's way, and least of all in his own.
#[test]
fn who_keeps_a_file_may_change_it() {
    let house = house();
    let mut a = Called::new(&house, b"a");
    let kept = a.delegated(b"f").unwrap();
    for ops in [
        &[open(b"f", WRITE, 0)][..],
        &[lookup(b"f"), set(of_mode(0o640))],
        &[lookup(b"f"), write_by(stateid(0), b"mine")],
        &[save(), rename(b"f", b"h")],
    ] {
        assert_eq!(a.in_tank(ops).0, OK);
    }
    assert!(a.is_not_called());
    assert_eq!(tested(a.run(&[test(kept)]).resarray.0.pop()), OK);
}

#[test]
fn what_a_delegation_is_good_for() {
    let house = house();
    let mut a = Called::new(&house, b"a");
    let open_stateid = opened(a.in_tank(&[open(b"f", READ, 0)]).1).unwrap();
    let (kept, is_recalled) = delegated(&open_stateid).unwrap();
    assert!(!is_recalled);
    let close = op(&NfsArgop4::OpClose(Close4Args { seqid: 0, open_stateid: open_stateid.stateid }));
    assert_eq!(a.on(b"f", close).0, OK);
    // It is its client's though nothing is open, and stands for an open to read.
    match a.on(b"f", read_by(kept.clone())) {
        (_, Some(NfsResop4::OpRead(Read4Res::Nfs4Ok(read)))) => assert!(read.eof),
        other => panic!("{other:?}"),
    }
    assert_eq!(a.on(b"f", write_by(kept.clone(), b"x")).0, Nfs4ErrOpenmode);
    assert_eq!(a.on(b"g", read_by(kept.clone())).0, Nfs4ErrBadStateid);
    assert_eq!(a.run(&[free(kept.clone())]).status, Nfs4ErrLocksHeld);
    let cur = |name: &[u8]| {
        let claim = OpenClaimDelegateCur4 { delegate_stateid: kept.clone(), file: name.into() };
        OpenClaim4::ClaimDelegateCur(claim)
    };
    // What it has opened without a word it opens by that, and is given no second one.
    let by_name = opened(a.in_tank(&[open_by(cur(b"f"), READ, 0)]).1).unwrap();
    assert_eq!(delegated(&by_name), None);
    assert!(opened(a.on(b"f", open_by(OpenClaim4::ClaimDelegCurFh(kept.clone()), READ, 0)).1).is_some());
    for (of, claim, access, status) in [
        (&b"g"[..], OpenClaim4::ClaimDelegCurFh(kept.clone()), READ, Nfs4ErrBadStateid),
        (b"f", OpenClaim4::ClaimDelegCurFh(kept.clone()), WRITE, Nfs4ErrOpenmode),
        (b"f", OpenClaim4::ClaimDelegCurFh(by_name.stateid.clone()), READ, Nfs4ErrBadStateid),
        (b"f", OpenClaim4::ClaimDelegPrevFh, READ, Nfs4ErrNotsupp),
    ] {
        assert_eq!(a.on(of, open_by(claim, access, 0)).0, status);
    }
    assert_eq!(a.in_tank(&[open_by(cur(b"g"), READ, 0)]).0, Nfs4ErrBadStateid);
    assert_eq!(a.in_tank(&[open_by(cur(b"none"), READ, 0)]).0, Nfs4ErrNoent);
    assert_eq!(a.on(b"f", give_back(by_name.stateid)).0, Nfs4ErrBadStateid, "that is an open");
    assert_eq!(a.on(b"g", give_back(kept.clone())).0, Nfs4ErrBadStateid);
    assert_eq!(a.on(b"f", give_back(kept.clone())).0, OK);
    assert_eq!(a.on(b"f", give_back(kept)).0, Nfs4ErrBadStateid);
}

/// Also while it is asked for it, with others waiting: before it gives the file back it opens there what it has opened without a word.
#[test]
fn what_was_opened_without_a_word_is_opened_before_the_return() {
    let house = house();
    let (mut a, mut b) = (Called::new(&house, b"a"), Called::new(&house, b"b"));
    a.delegated(b"f").unwrap();
    assert_eq!(b.in_tank(&[open(b"f", WRITE, 0)]).0, Nfs4ErrDelay);
    let call = a.call();
    a.answer(&call);
    let kept = call.recall().stateid.clone();
    assert!(opened(a.on(b"f", open_by(OpenClaim4::ClaimDelegCurFh(kept), READ, 0)).1).is_some());
    returns(&mut a, &call);
    assert_eq!(b.in_tank(&[open(b"f", WRITE, 0)]).0, OK);
}

/// What a client says it wants, and what it is told where it gets none.
#[test]
fn wishes() {
    let house = house();
    let mut a = Called::new(&house, b"a");
    let mut told = |wish: u32| opened(a.in_tank(&[open(b"f", READ | wish, 0)]).1).unwrap();
    let none = |told: Open4Resok| match told.delegation {
        OpenDelegation4::OpenDelegateNoneExt(why) => why.on() as u32,
        other => panic!("{other:?}"),
    };
    // NO_DELEG: not wanted. CANCEL: cancelled.
    assert_eq!((none(told(0x400)), none(told(0x500))), (0, 7));
    assert!(delegated(&told(0x100)).is_some());
    // It has it.
    assert_eq!(none(told(0x100)), 0);
    assert_eq!(delegated(&told(0)), None);
    // One for writing is not given.
    let mut b = Called::new(&house, b"b");
    match opened(b.in_tank(&[open(b"g", WRITE | 0x200, 0)]).1).unwrap().delegation {
        OpenDelegation4::OpenDelegateNoneExt(OpenNoneDelegation4::Wnd4Resource(will_signal)) => assert!(!will_signal),
        other => panic!("{other:?}"),
    }
    // Of what others have open to write there is none.
    match opened(a.in_tank(&[open(b"g", READ | 0x100, 0)]).1).unwrap().delegation {
        OpenDelegation4::OpenDelegateNoneExt(OpenNoneDelegation4::Wnd4Contention(will_push)) => assert!(!will_push),
        other => panic!("{other:?}"),
    }
}

/// Who cannot be called is given nothing.
#[test]
fn who_cannot_be_called_is_given_none() {
    let house = house();
    let mut a = Called::with(&house, b"a", 1, 0, &[], channel());
    assert_eq!(a.delegated(b"f"), None);
}

/// Where the dataset gives none nobody is given one, and who has asked for one is told that there are none. What was given before stays with who has it, until another one would change the file.
#[test]
fn where_the_dataset_gives_none_what_was_given_stays_until_it_is_in_the_way() {
    let house = house();
    let (mut a, mut b) = (Called::new(&house, b"a"), Called::new(&house, b"b"));
    let kept = a.delegated(b"f").expect("the dataset gives some");
    house.exports.tank.model.set_giving(false);
    assert_eq!((a.delegated(b"g"), b.delegated(b"f"), b.delegated(b"g")), (None, None, None));
    match opened(b.in_tank(&[open(b"g", READ | 0x100, 0)]).1).unwrap().delegation {
        OpenDelegation4::OpenDelegateNoneExt(OpenNoneDelegation4::Wnd4Resource(will_signal)) => assert!(!will_signal),
        other => panic!("{other:?}"),
    }
    assert_eq!(tested(a.run(&[test(kept.clone())]).resarray.0.pop()), OK);
    assert!(a.is_not_called(), "nobody needs it");
    let asked = b.ask(&[put_root(), lookup(b"tank"), remove(b"f")]);
    let call = a.call();
    assert_eq!(call.recall().stateid, kept);
    a.answer(&call);
    returns(&mut a, &call);
    assert_eq!(answer(&mut b, &asked), OK);
    house.exports.tank.model.set_giving(true);
    assert!(b.delegated(b"g").is_some(), "and given again");
}

/// A file that was asked for a moment ago is one that several use.
#[test]
fn none_is_given_anew_behind_a_recall() {
    let house = house();
    let (mut a, mut b) = (Called::new(&house, b"a"), Called::new(&house, b"b"));
    a.delegated(b"f").unwrap();
    let asked = b.ask(&[put_root(), lookup(b"tank"), lookup(b"f"), set(of_mode(0o640))]);
    let call = a.call();
    a.answer(&call);
    returns(&mut a, &call);
    assert_eq!(goes_on(&mut b, &asked), OK);
    assert_eq!((a.delegated(b"f"), b.delegated(b"f")), (None, None));
    assert!(a.delegated(b"g").is_some());
}

/// One that answers nothing, with more to be called for than it has slots, keeps nobody else from being called and from going on.
#[test]
fn who_answers_nothing_keeps_no_others_waiting() {
    let house = house();
    let (tank, cred) = (&house.exports.tank.model, Cred::root());
    let names: Vec<_> = (0..8).map(|nth| format!("file {nth}").into_bytes()).collect();
    for name in &names {
        let how = CreateHow::Guarded(SetAttr { mode: Some(0o644), ..SetAttr::default() });
        tank.create(OpCtx::of(&cred), tank.root(), name, &how).result.unwrap();
    }
    let (mut silent, mut a, mut b) = (Called::new(&house, b"s"), Called::new(&house, b"a"), Called::new(&house, b"b"));
    for name in &names {
        silent.delegated(name).unwrap();
    }
    a.delegated(b"f").unwrap();
    for name in &names {
        assert_eq!(b.in_tank(&[remove(name)]).0, Nfs4ErrDelay);
    }
    let asked = b.ask(&[put_root(), lookup(b"tank"), remove(b"f")]);
    let call = a.call();
    a.answer(&call);
    returns(&mut a, &call);
    assert_eq!(goes_on(&mut b, &asked), OK);
    // With each answer the next is called: all eight come over four slots.
    let mut called = 0;
    while let Some(call) = silent.call_within(Duration::from_secs(2)) {
        silent.answer(&call);
        returns(&mut silent, &call);
        called += 1;
        if called == names.len() {
            break;
        }
    }
    assert_eq!(called, names.len());
    for name in &names {
        assert_eq!(b.in_tank(&[remove(name)]).0, OK);
    }
}

/// The rule is withdrawn: what a client has it may still give back (rules V36).
#[test]
fn what_a_client_may_not_see_any_more_it_gives_back() {
    let house = house();
    let (mut a, mut plain) = (Called::new(&house, b"a"), house.client());
    let tank = plain.mount("/tank");
    let kept = a.delegated(b"f").unwrap();
    let put = op(&NfsArgop4::OpPutfh(Putfh4Args { object: handle(&mut a, b"f").into() }));
    *house.exports.tank_rule.lock() = "10.0.0.1(rw)".into();
    assert_eq!(a.run(&[put.clone(), read_by(kept.clone())]).status, Nfs4ErrAccess);
    assert_eq!(a.run(&[put, give_back(kept)]).status, OK);
    *house.exports.tank_rule.lock() = "*(rw,no_root_squash,insecure)".into();
    assert_eq!(v3_remove(&mut plain, &tank, b"f"), 0);
    assert!(a.is_not_called());
}

fn v3_remove(client: &mut Client, dir: &[u8], name: &[u8]) -> u32 {
    client.call(Procedure::Remove, dir_name(dir, name)).status
}

/// A client that ends, however it does, has nothing to give back.
#[test]
fn it_ends_with_its_client() {
    let house = house();
    let (mut a, mut plain) = (Called::new(&house, b"a"), house.client());
    let tank = plain.mount("/tank");
    a.delegated(b"f").unwrap();
    assert_eq!(v3_remove(&mut plain, &tank, b"f"), JUKEBOX);
    // It starts anew.
    let mut again = Called::with(&house, b"a", 2, CALLS_BACK, &[CallbackSecParms4::AuthNone], channel());
    assert_eq!(v3_remove(&mut plain, &tank, b"f"), 0);
    assert!(again.delegated(b"g").is_some());
}

/// Who is parked as the server stops is told to come again, and nobody waits for longer than he would have.
#[test]
fn a_server_stops_with_somebody_parked() {
    let house = house();
    let (mut a, mut b) = (Called::new(&house, b"a"), Called::new(&house, b"b"));
    a.delegated(b"f").unwrap();
    let asked = b.ask(&[put_root(), lookup(b"tank"), remove(b"f")]);
    a.call();
    let began = Instant::now();
    assert_eq!(house.server.stop(), 0);
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(answer(&mut b, &asked), Nfs4ErrDelay);
}

/// A client that says that it has no such delegation is believed when it has said so for five seconds: the answer that gave it may have been under way.
#[test]
fn bad_stateid_is_not_believed_at_once() {
    let house = house();
    let (mut a, mut b) = (Called::new(&house, b"a"), Called::new(&house, b"b"));
    let kept = a.delegated(b"f").unwrap();
    assert_eq!(b.in_tank(&[remove(b"f")]).0, Nfs4ErrDelay);
    let call = a.call();
    a.answer_with(&call, Nfs4ErrBadStateid);
    let again = a.call_within(Duration::from_secs(3)).expect("once more");
    assert_eq!(again.recall(), call.recall());
    assert_eq!(tested(a.run(&[test(kept)]).resarray.0.pop()), OK);
    a.answer_with(&again, Nfs4ErrDelay);
    let last = a.call_within(Duration::from_secs(3)).expect("and once more");
    a.answer(&last);
    returns(&mut a, &last);
    assert_eq!(b.in_tank(&[remove(b"f")]).0, OK);
}

/// A client that reads as fast as its line allows has more replies under way than its socket takes, all the time. It was not called, as one is not that reads nothing; and a lease later what nobody had
/// asked it for was taken.
#[test]
fn who_takes_replies_as_fast_as_his_line_allows_is_called() {
    const MIB: usize = 1 << 20;
    let house = house();
    let (tank, cred) = (&house.exports.tank.model, Cred::root());
    let how = CreateHow::Guarded(SetAttr { mode: Some(0o644), ..SetAttr::default() });
    let big = tank.create(OpCtx::of(&cred), tank.root(), b"big", &how).result.unwrap().object;
    tank.write(OpCtx::of(&cred), big, 0, Bytes::from(vec![7; MIB]), Stability::FileSync).result.unwrap();
    let (mut a, mut b) = (Called::new(&house, b"a"), Called::new(&house, b"b"));
    a.delegated(b"f").unwrap();
    // Sixteen READs are under way, and it takes some 20 MB/s.
    let ops = [put_root(), lookup(b"tank"), lookup(b"big"), read(0, 0, MIB as u32)];
    let asks = record(1, (0, &[0]), (tally_nfs::v3::PROGRAM, tally_nfs::v4::VERSION), 1, arguments(0, &ops));
    let asks = [&(asks.len() as u32 | 1 << 31).to_be_bytes()[..], &asks].concat();
    let mut wire = a.wire.stream.try_clone().unwrap();
    (0..16).for_each(|_| wire.write_all(&asks).unwrap());
    let (mut came, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    let mut takes_until = |until: Duration, began: Instant| {
        while began.elapsed() < until {
            let count = wire.read(&mut piece).unwrap();
            came.extend_from_slice(&piece[..count]);
            while came.len() >= 12 {
                let length = (u32::from_be_bytes(came[..4].try_into().unwrap()) & !(1 << 31)) as usize;
                // A call, before all of it is there.
                if came[8..12] == [0; 4] {
                    return true;
                }
                if came.len() < 4 + length {
                    break;
                }
                came.drain(..4 + length);
                wire.write_all(&asks).unwrap();
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        false
    };
    assert!(!takes_until(Duration::from_secs(1), Instant::now()));
    b.ask(&[put_root(), lookup(b"tank"), remove(b"f")]);
    assert!(
        takes_until(Duration::from_secs(8), Instant::now()),
        "nobody has asked it for what is in another one's way"
    );
}
