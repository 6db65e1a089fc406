//! Minor version 0: what owners open and close, in their order. Most of it over a socket; what waits, step by step.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::support::House;
use crate::support::client::Client;
use crate::support::compound::{Op, arguments, get_attr, op, read, results, set, write};
use crate::support::gated::Promises;
use crate::support::owner::{Owner, at, confirmed, find, in_tank, introduce, introduced, opened, read_by, write_by};
use crate::support::scene::{Scene, fate, read_reply};
use tally_base::Broken;
use tally_nfs::service::Step;
use tally_nfs::v4::state::bounds::OF_ADDRESS_MAX;
use tally_nfs::{v3, v4};
use tally_vfs::{CreateHow, Cred, Identity, Names, OpCtx, SetAttr};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Close4Res, Compound4Res, Createhow4, Creatverfattr, Fattr4, Fattr4Value, NfsArgop4, NfsResop4, Nfsstat4,
    OpenClaim4, OpenClaimDelegateCur4, OpenDelegationType4, OpenDowngrade4Res, Openflag4, Renew4Args, Setattr4Args,
    Stateid4,
};

const OK: Nfsstat4 = Nfs4Ok;
const READ: u32 = 1;
const WRITE: u32 = 2;
const BOTH: u32 = 3;
/// `OPEN4_RESULT_CONFIRM`.
const CONFIRM: u32 = 2;

/// A server with a file in the tank, and a client with a connection.
struct Town {
    house: House,
    client: Client,
    id: u64,
}

impl Town {
    fn new() -> Self {
        let house = House::speaking_4();
        let mut client = house.client();
        let id = come(&mut client, b"a client", 1);
        let town = Self { house, client, id };
        town.file(b"f");
        town
    }

    fn file(&self, name: &[u8]) {
        let (tank, how) =
            (&self.house.exports.tank, CreateHow::Guarded(SetAttr { mode: Some(0o644), ..SetAttr::default() }));
        tank.create(OpCtx::of(&Cred::root()), tank.root(), name, &how).result.unwrap();
    }

    fn owner(&self, name: &[u8]) -> Owner {
        Owner::new(self.id, name)
    }

    /// One that has opened a file to read it, and confirmed that.
    fn known(&mut self, name: &[u8]) -> Owner {
        let mut owner = self.owner(name);
        let opened = opened(&self.client.compound(0, &in_tank(owner.open(b"f", READ, 0))));
        owner.next += 1;
        let stateid = confirmed(&self.client.compound(0, &at(b"f", owner.confirm(opened.stateid))));
        owner.next += 1;
        assert_eq!(self.client.status(&at(b"f", owner.close(stateid))), OK);
        owner.next += 1;
        owner
    }

    /// What a confirmed one opens.
    fn opened(&mut self, owner: &mut Owner, name: &[u8], access: u32, deny: u32) -> Stateid4 {
        let told = opened(&self.client.compound(0, &in_tank(owner.open(name, access, deny))));
        assert_eq!(told.rflags & CONFIRM, 0);
        owner.next += 1;
        told.stateid
    }

    fn status(&mut self, ops: &[Op]) -> Nfsstat4 {
        self.client.status(ops)
    }

    /// The bytes of a reply.
    fn bytes(&mut self, ops: &[Op]) -> Vec<u8> {
        let xid = self.client.xid();
        self.client.send(xid, (v3::PROGRAM, v4::VERSION), 1, arguments(0, ops));
        let (_, answer) = self.client.receive_answer();
        results(&answer, ops);
        answer.body().to_vec()
    }
}

/// A client introduces itself, and confirms it.
fn come(client: &mut Client, name: &[u8], start: u8) -> u64 {
    let (id, confirm) = introduced(&client.compound(0, &[introduce(name, start)]));
    assert_eq!(client.status(&[confirm]), OK);
    id
}

fn closed(reply: &Compound4Res) -> Stateid4 {
    match reply.resarray.last() {
        Some(NfsResop4::OpClose(Close4Res::Nfs4Ok(closed))) => closed.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_made_confirmed_written_and_closed() {
    let mut town = Town::new();
    let mut owner = town.owner(b"o");
    let told = opened(&town.client.compound(0, &in_tank(owner.make(b"n"))));
    assert_eq!((told.stateid.seqid, told.rflags, told.cinfo.atomic), (1, 4 | CONFIRM, true));
    // What is provisional cannot be used.
    let provisional = told.stateid;
    assert_eq!(town.status(&at(b"n", read_by(&provisional))), Nfs4ErrBadStateid);
    assert_eq!(town.status(&at(b"n", owner.at(42).close(provisional.clone()))), Nfs4ErrBadStateid);
    owner.next += 1;
    let stateid = confirmed(&town.client.compound(0, &at(b"n", owner.confirm(provisional.clone()))));
    assert_eq!((stateid.seqid, stateid.other), (2, provisional.other));
    owner.next += 1;
    assert_eq!(town.status(&at(b"n", owner.confirm(stateid.clone()))), Nfs4ErrBadStateid, "once is enough");
    assert_eq!(town.status(&at(b"n", write_by(&stateid, b"content"))), OK);
    assert_eq!(town.status(&at(b"n", write_by(&provisional, b"content"))), Nfs4ErrOldStateid);
    let size = Setattr4Args { stateid: stateid.clone(), obj_attributes: Fattr4::of(&[Fattr4Value::Fattr4Size(3)]) };
    assert_eq!(town.status(&at(b"n", op(&NfsArgop4::OpSetattr(size)))), OK);
    assert_eq!(town.status(&at(b"f", read_by(&stateid))), Nfs4ErrBadStateid, "another file");
    let reply = town.client.compound(0, &at(b"n", owner.close(stateid.clone())));
    assert_eq!(closed(&reply).seqid, 3);
    owner.next += 1;
    assert_eq!(town.status(&at(b"n", read_by(&stateid))), Nfs4ErrBadStateid);
    // Who is known needs not confirm again, and what he opens anew is what he had, with one more seqid.
    let first = town.opened(&mut owner, b"n", READ, 0);
    let second = town.opened(&mut owner, b"n", BOTH, 0);
    assert_eq!((first.seqid, second.seqid, first.other == second.other), (1, 2, true));
    let reply = town.client.compound(0, &at(b"n", owner.downgrade(second.clone(), READ, 0)));
    let Some(NfsResop4::OpOpenDowngrade(OpenDowngrade4Res::Nfs4Ok(left))) = reply.resarray.last() else {
        panic!("{reply:?}")
    };
    owner.next += 1;
    assert_eq!(town.status(&at(b"n", write_by(&left.open_stateid, b"x"))), Nfs4ErrOpenmode);
    assert_eq!(town.status(&at(b"n", owner.close(second))), Nfs4ErrOldStateid);
    // That moved the seqid.
    owner.next += 1;
    assert_eq!(town.status(&at(b"n", owner.close(left.open_stateid.clone()))), OK);
}

/// What is read behind an owner's operation stands among the results as it lies in memory.
#[test]
fn what_is_read_behind_an_open_is_none_of_what_is_told_again() {
    let mut town = Town::new();
    let owner = town.owner(b"o");
    assert_eq!(town.status(&at(b"f", write(0, &[7; 5000]))), OK);
    let ops = [in_tank(owner.open(b"f", READ, 0)), vec![read(0, 0, 5000)], in_tank(owner.at(42).open(b"f", BOTH, 0))];
    let first = town.bytes(&ops.concat());
    assert!(first.len() > 5000);
    assert_eq!(town.bytes(&in_tank(owner.at(42).open(b"f", BOTH, 0)))[..4], [0; 4]);
}

/// Rules V17 and V18. A retransmission under another xid was carried out again, or refused.
#[test]
fn the_last_is_told_again_byte_for_byte_and_leads_where_it_led() {
    let mut town = Town::new();
    let handle = || op(&NfsArgop4::OpGetfh);
    let twice = |town: &mut Town, ops: Vec<Op>| {
        let first = town.bytes(&ops);
        let changes = town.house.exports.tank.changes.load(SeqCst);
        assert_eq!(town.bytes(&ops), first);
        assert_eq!(town.bytes(&ops), first);
        assert_eq!(town.house.exports.tank.changes.load(SeqCst), changes);
        tally_wire::decode::<Compound4Res>(&first).unwrap()
    };
    let mut owner = Owner::new(town.id, &[7; 1024]);
    let made = [in_tank(owner.make(b"n")), vec![handle(), get_attr(&[20])]].concat();
    let told = opened(&twice(&mut town, made));
    owner.next += 1;
    let reply = twice(&mut town, [at(b"n", owner.confirm(told.stateid)), vec![handle()]].concat());
    assert_eq!(reply.status, OK);
    let Some(NfsResop4::OpOpenConfirm(_)) = reply.resarray.get(3) else { panic!() };
    let stateid = Stateid4 { seqid: 2, ..opened_stateid(&reply) };
    owner.next += 1;
    assert_eq!(twice(&mut town, in_tank(owner.make(b"n"))).status, Nfs4ErrExist, "what failed as well");
    owner.next += 1;
    let both = opened(&twice(&mut town, [in_tank(owner.open(b"n", READ, 0)), vec![handle()]].concat()));
    assert_eq!((both.stateid.other, both.stateid.seqid), (stateid.other, 3));
    owner.next += 1;
    let reply = twice(&mut town, at(b"n", owner.downgrade(both.stateid.clone(), READ, 0)));
    assert_eq!(reply.status, OK);
    owner.next += 1;
    let last = Stateid4 { seqid: 4, ..both.stateid };
    assert_eq!(twice(&mut town, at(b"n", owner.close(last))).status, OK);
    // It is told nobody else.
    let mut other = town.house.client().acting_as(1000, &[100]);
    assert_eq!(other.status(&at(b"n", owner.close(Stateid4 { seqid: 4, other: stateid.other }))), Nfs4ErrBadSeqid);
}

fn opened_stateid(reply: &Compound4Res) -> Stateid4 {
    let of = |result: &NfsResop4| match result {
        NfsResop4::OpOpenConfirm(tally_wire::nfs4::OpenConfirm4Res::Nfs4Ok(it)) => Some(it.open_stateid.clone()),
        _ => None,
    };
    reply.resarray.iter().find_map(of).expect("it was confirmed")
}

/// A CLOSE came again once its owner had closed another file: nobody knew any more whose it was, or it was told what the other one was.
#[test]
fn a_close_is_told_again_until_the_next_one() {
    let mut town = Town::new();
    town.file(b"g");
    let mut owner = town.known(b"o");
    let f = town.opened(&mut owner, b"f", READ, 0);
    let g = town.opened(&mut owner, b"g", READ, 0);
    let close_f = at(b"f", owner.close(f));
    let first = town.bytes(&close_f);
    assert_eq!(town.bytes(&close_f), first);
    owner.next += 1;
    let close_g = at(b"g", owner.close(g));
    assert_eq!(town.status(&close_g), OK);
    assert_eq!(town.status(&close_f), Nfs4ErrBadStateid);
    assert_eq!(town.status(&close_g), OK);
}

/// Rules V18: these errors leave the order as it was, and others do not.
#[test]
fn a_seqid_that_is_not_the_next_is_refused_and_moves_nothing() {
    let mut town = Town::new();
    let mut owner = town.known(b"o");
    let next = owner.next;
    let stateid = town.opened(&mut owner, b"f", READ, 0);
    for seqid in [next - 1, next + 2, 0, u32::MAX] {
        assert_eq!(town.status(&in_tank(owner.at(seqid).open(b"f", READ, 0))), Nfs4ErrBadSeqid);
        assert_eq!(town.status(&at(b"f", owner.at(seqid).close(stateid.clone()))), Nfs4ErrBadSeqid);
    }
    // The last one's, of another operation.
    assert_eq!(town.status(&in_tank(owner.at(next).open(b"f", BOTH, 0))), Nfs4ErrBadSeqid);
    let of_boot = |word: usize| {
        let mut asked = stateid.clone();
        asked.other[word] ^= 1;
        asked
    };
    let mut stranger = owner.clone();
    stranger.client ^= 1 << 40;
    for (asked, told) in [
        (at(b"f", owner.close(of_boot(0))), Nfs4ErrStaleStateid),
        (at(b"f", owner.close(of_boot(11))), Nfs4ErrBadStateid),
        (at(b"f", owner.close(Stateid4 { seqid: 2, ..stateid.clone() })), Nfs4ErrBadStateid),
        (at(b"f", owner.close(Stateid4 { seqid: 0, other: [0; 12] })), Nfs4ErrBadStateid),
        (vec![owner.close(stateid.clone())], Nfs4ErrNofilehandle),
        (vec![owner.open(b"f", READ, 0)], Nfs4ErrNofilehandle),
        (in_tank(stranger.open(b"f", READ, 0)), Nfs4ErrStaleClientid),
        (in_tank(owner.open(b"f", READ, 0)[..40].to_vec()), Nfs4ErrBadxdr),
    ] {
        assert_eq!(town.status(&asked), told, "{asked:x?}");
    }
    for (asked, told) in [
        (owner.open(b"none", READ, 0), Nfs4ErrNoent),
        (owner.open(b"f", 0, 0), Nfs4ErrInval),
        (owner.open(b"f", 1 << 10 | READ, 0), Nfs4ErrInval),
        (owner.open(b".", READ, 0), Nfs4ErrBadname),
        (owner.open(b"child", READ, 0), Nfs4ErrIsdir),
    ] {
        // Each with the same seqid as long as it was not moved: the second one's is the last, and it is another.
        assert_eq!(town.status(&in_tank(with_seqid(&asked, owner.next))), told);
        owner.next += 1;
    }
    assert_eq!(town.status(&at(b"f", owner.close(stateid))), OK);
}

/// An OPEN's seqid is its first word.
fn with_seqid(open: &Op, seqid: u32) -> Op {
    let mut open = open.clone();
    open[4..8].copy_from_slice(&seqid.to_be_bytes());
    open
}

#[test]
fn what_cannot_be_claimed_is_told_in_its_order() {
    let mut town = Town::new();
    let mut owner = town.known(b"o");
    let claim = |owner: &Owner, claim| owner.open_as((READ, 0), find(), claim);
    let previous = OpenClaim4::ClaimPrevious(OpenDelegationType4::OpenDelegateNone);
    assert_eq!(town.status(&at(b"f", claim(&owner, previous))), Nfs4ErrNoGrace);
    owner.next += 1;
    let current = OpenClaimDelegateCur4 { delegate_stateid: Stateid4 { seqid: 1, other: [3; 12] }, file: b"f".into() };
    assert_eq!(town.status(&in_tank(claim(&owner, OpenClaim4::ClaimDelegateCur(current)))), Nfs4ErrBadStateid);
    assert_eq!(town.status(&in_tank(claim(&owner, OpenClaim4::ClaimDelegatePrev(b"f".into())))), Nfs4ErrNotsupp);
    owner.next += 1;
    // Of later versions.
    assert_eq!(town.status(&at(b"f", claim(&owner, OpenClaim4::ClaimFh))), Nfs4ErrBadxdr);
    let both = Creatverfattr { cva_verf: [1; 8], cva_attrs: Fattr4::of(&[]) };
    let how = Openflag4::Open4Create(Createhow4::Exclusive41(both));
    let made = owner.open_as((BOTH, 0), how, OpenClaim4::ClaimNull(b"n".into()));
    assert_eq!(town.status(&in_tank(made)), Nfs4ErrBadxdr);
    town.opened(&mut owner, b"f", READ, 0);
}

/// A client that has forgotten its owner opens with any seqid, and what it had opened and not confirmed would have stayed open for ever.
#[test]
fn who_opens_anew_without_confirming_gives_up_what_he_opened() {
    let mut town = Town::new();
    town.file(b"g");
    let (owner, mut other) = (town.owner(b"o"), town.known(b"p"));
    let told = opened(&town.client.compound(0, &in_tank(owner.open(b"f", BOTH, BOTH))));
    assert_eq!(town.status(&in_tank(other.open(b"f", READ, 0))), Nfs4ErrShareDenied);
    other.next += 1;
    let owner = owner.at(7);
    let anew = opened(&town.client.compound(0, &in_tank(owner.open(b"g", READ, 0))));
    assert_eq!(anew.rflags & CONFIRM, CONFIRM);
    town.opened(&mut other, b"f", BOTH, BOTH);
    assert_eq!(town.status(&at(b"f", owner.at(8).confirm(told.stateid))), Nfs4ErrBadStateid);
    assert_eq!(town.status(&at(b"g", owner.at(9).confirm(anew.stateid.clone()))), Nfs4ErrBadSeqid);
    assert_eq!(town.status(&at(b"g", owner.at(8).confirm(anew.stateid))), OK);
}

#[test]
fn two_owners_are_each_in_their_own_order_and_in_each_others_way() {
    let mut town = Town::new();
    let (mut a, mut b) = (town.known(b"a"), town.known(b"b"));
    a.next += 100;
    assert_eq!(town.status(&in_tank(a.open(b"f", READ, 0))), Nfs4ErrBadSeqid);
    a.next -= 100;
    assert_eq!(town.status(&in_tank(b.open(b"none", READ, 0))), Nfs4ErrNoent);
    b.next += 1;
    let mine = town.opened(&mut a, b"f", READ, WRITE);
    let his = town.opened(&mut b, b"f", READ, 0);
    assert_eq!(town.status(&at(b"f", b.close(mine.clone()))), Nfs4ErrBadSeqid, "by the stateid it is of the other one");
    assert_eq!(town.status(&in_tank(b.open(b"f", WRITE, 0))), Nfs4ErrShareDenied);
    b.next += 1;
    // What he denies is denied to himself (RFC 7530 §9.9), but not what he does not ask for.
    assert_eq!(town.status(&in_tank(a.open(b"f", WRITE, 0))), Nfs4ErrShareDenied);
    a.next += 1;
    assert_eq!(town.status(&at(b"f", set(Fattr4::of(&[Fattr4Value::Fattr4Size(0)])))), Nfs4ErrLocked);
    assert_eq!(town.status(&at(b"f", a.close(mine))), OK);
    a.next += 1;
    town.opened(&mut a, b"f", WRITE, 0);
    assert_eq!(town.status(&at(b"f", b.close(his))), OK);
}

/// Two files of one owner are closed in one compound, and the whole compound comes again.
#[test]
fn a_compound_carries_out_several_operations_of_one_owner() {
    let mut town = Town::new();
    town.file(b"g");
    let mut owner = town.known(b"o");
    let next = owner.next;
    let both = |owner: &Owner| {
        [in_tank(owner.at(next).open(b"f", READ, 0)), in_tank(owner.at(next + 1).open(b"g", READ, 0))].concat()
    };
    assert_eq!(town.status(&both(&owner)), OK);
    assert_eq!(town.status(&in_tank(owner.at(next + 1).open(b"g", READ, 0))), OK, "the last one is told again");
    assert_eq!(town.status(&both(&owner)), Nfs4ErrBadSeqid, "the one before is not");
    owner.next = next + 2;
    town.opened(&mut owner, b"f", READ, 0);
    let of_gap = [in_tank(owner.open(b"f", READ, 0)), in_tank(owner.at(owner.next + 2).open(b"g", READ, 0))].concat();
    assert_eq!(town.status(&of_gap), Nfs4ErrBadSeqid);
    owner.next += 1;
    town.opened(&mut owner, b"f", READ, 0);
}

/// Rules V22: what the start before had open is closed before the new one is confirmed, and its owners are nobody's.
#[test]
fn a_client_that_starts_anew_holds_nothing() {
    let mut town = Town::new();
    let mut owner = town.known(b"o");
    let stateid = town.opened(&mut owner, b"f", BOTH, BOTH);
    let mut other_client = town.house.client();
    let mut other = Owner::new(come(&mut other_client, b"another", 1), b"o");
    assert_eq!(other_client.status(&in_tank(other.open(b"f", READ, 0))), Nfs4ErrShareDenied);
    other.next += 1;
    let (id, confirm) = introduced(&town.client.compound(0, &[introduce(b"a client", 2)]));
    assert_ne!(id, town.id);
    assert_eq!(town.status(&at(b"f", read_by(&stateid))), OK, "it was announced, no more");
    assert_eq!(town.status(&[confirm]), OK);
    assert_eq!(other_client.status(&in_tank(other.open(b"f", READ, 0))), OK);
    let gone = [at(b"f", read_by(&stateid)), at(b"f", owner.close(stateid)), in_tank(owner.open(b"f", READ, 0))];
    for asked in gone {
        assert_eq!(town.status(&asked), Nfs4ErrExpired, "it had all that, before it started anew: {asked:x?}");
    }
    let told = opened(&town.client.compound(0, &in_tank(Owner::new(id, b"o").open(b"f", READ, 0))));
    assert_eq!(told.rflags & CONFIRM, CONFIRM, "the owner is a new one");
}

/// As many of one address as there may be, that hold nothing: one more takes the place of the one that was silent for longest.
#[test]
fn whatever_names_a_client_renews_its_lease() {
    for closes in [false, true] {
        let (scene, owner) = scene();
        let file = scene.put(scene.file(b"f"));
        let come = |name: &[u8]| {
            let (id, confirm) = introduced(&scene.run(1, &[introduce(name, 1)]));
            assert_eq!(scene.run(2, &[confirm]).status, OK);
            id
        };
        let stateid = opened(&scene.run(3, &[scene.put_tank(), owner.open(b"f", READ, 0)])).stateid;
        let stateid = confirmed(&scene.run(4, &[file.clone(), owner.at(42).confirm(stateid)]));
        let others: Vec<u64> = (1..OF_ADDRESS_MAX).map(|nth| come(&nth.to_be_bytes())).collect();
        (0..4).for_each(|half| scene.service.look_at_clock(Duration::from_millis(500 * half)));
        let close = [file.clone(), owner.at(43).close(stateid.clone())];
        let ops = if closes { close.to_vec() } else { vec![file.clone(), read_by(&stateid)] };
        assert_eq!(scene.run(5, &ops).status, OK);
        let renew = |clientid| scene.run(6, &[op(&NfsArgop4::OpRenew(Renew4Args { clientid }))]).status;
        come(b"one more");
        assert_eq!(renew(others[0]), Nfs4ErrExpired);
        assert_eq!(renew(owner.client), OK);
    }
}

/// A scene whose client has introduced itself.
fn scene() -> (Scene, Owner) {
    let scene = Scene::new();
    let (id, confirm) = introduced(&scene.run(1, &[introduce(b"a client", 1)]));
    assert_eq!(scene.run(2, &[confirm]).status, OK);
    (scene, Owner::new(id, b"o"))
}

/// The first waits for its frame in the log. A retransmission was carried out beside it, and told EXIST of what the first had made.
#[test]
fn while_the_first_waits_its_retransmission_is_not_carried_out() {
    let (scene, owner) = scene();
    scene.hold();
    let ops = [scene.put_tank(), owner.make(b"n")];
    let (mut job, step) = scene.begin(10, &ops);
    let told = fate(step);
    assert_eq!(scene.run(11, &ops).status, Nfs4ErrDelay);
    assert_eq!(scene.run(12, &[scene.put_tank(), owner.at(42).make(b"m")]).status, Nfs4ErrBadSeqid);
    assert!(matches!(scene.begin(10, &ops).1, Step::Attached), "the same request gets the same answer");
    scene.exports.tank.keep_one();
    let first = scene.service.reply_after_wait(&mut job, told.try_recv().unwrap());
    scene.service.finish(&mut job, &first);
    let first = read_reply(&first, &ops);
    assert_eq!(first.status, OK);
    assert_eq!(scene.run(13, &ops), first, "neither DELAY nor BAD_SEQID has moved anything");
    let stateid = opened(&first).stateid;
    let file = scene.file_named(b"n");
    assert_eq!(scene.run(14, &[scene.put(file), owner.at(42).confirm(stateid)]).status, OK);
}

/// It waits for room. It goes on in its turn, and is one.
#[test]
fn who_waits_for_room_keeps_his_turn() {
    let (scene, owner) = scene();
    scene.exports.tank.throttle.store(1, SeqCst);
    let ops = [scene.put_tank(), owner.make(b"n")];
    let (mut job, step) = scene.begin(10, &ops);
    assert!(matches!(step, Step::Again(_)));
    assert_eq!(scene.run(11, &ops).status, Nfs4ErrDelay);
    let step = scene.service.run(&mut job);
    let first = scene.end(&mut job, step, &ops);
    assert_eq!(first.status, OK);
    assert_eq!(scene.run(12, &ops), first);
    // So does who is confirmed: his seqid is not the one behind itself.
    let confirm = [scene.put(scene.file_named(b"n")), owner.at(42).confirm(opened(&first).stateid)];
    assert_eq!(scene.run(20, &confirm).status, OK);
    scene.exports.tank.throttle.store(1, SeqCst);
    let ops = [scene.put_tank(), owner.at(43).make(b"l")];
    let (mut job, _) = scene.begin(21, &ops);
    let step = scene.service.run(&mut job);
    assert_eq!(scene.end(&mut job, step, &ops).status, OK);
    // Nobody carries the next one on: it is told DELAY, and so is whoever comes again.
    scene.exports.tank.throttle.store(1, SeqCst);
    let ops = [scene.put_tank(), owner.at(44).make(b"m")];
    let (mut job, _) = scene.begin(13, &ops);
    let (reply, _) = scene.service.abandon(&mut job).expect("it is owed");
    assert_eq!(read_reply(&reply, &ops).status, Nfs4ErrDelay);
    assert_eq!(scene.run(14, &ops).status, Nfs4ErrDelay);
    assert_eq!(scene.run(15, &[scene.put_tank(), owner.at(45).make(b"m")]).status, OK);
}

/// Rules V3, of owners: what broke is told so again, and its seqid is used. What its owner did behind it has not come.
#[test]
fn what_broke_is_told_as_it_was() {
    let (scene, owner) = scene();
    scene.hold();
    let ops = [scene.put_tank(), owner.make(b"n"), scene.put_tank(), owner.at(42).make(b"m")];
    let (mut job, step) = scene.begin(10, &ops);
    let told = fate(step);
    scene.exports.tank.break_one();
    let broken = scene.service.reply_after_wait(&mut job, told.try_recv().unwrap());
    scene.service.finish(&mut job, &broken);
    assert_eq!((read_reply(&broken, &ops).status, read_reply(&broken, &ops).resarray.len()), (Nfs4ErrIo, 2));
    *scene.exports.tank.promises.lock() = Promises::Ready;
    assert_eq!(scene.run(11, &ops[..2]).status, Nfs4ErrIo);
    assert_eq!(scene.run(12, &[scene.put_tank(), owner.at(42).make(b"k")]).status, OK);
}

/// The pool was suspended as an OPEN waited. It is run again when that serves, in its own turn, and is told of the file that it has made itself.
#[test]
fn an_open_in_doubt_keeps_its_place_in_the_order() {
    let (scene, owner) = scene();
    scene.hold();
    let ops = [scene.put_tank(), owner.make(b"n")];
    let (mut job, step) = scene.begin(10, &ops);
    drop(fate(step));
    scene.exports.tank.suspended.store(true, SeqCst);
    assert!(scene.service.stays_in_doubt(&mut job, Some(&Err(Broken("the pool is suspended".into())))));
    // It is run again too early, and refused for now: nobody is told, so its turn is as it was.
    assert!(matches!(scene.service.run(&mut job), Step::Reply(_)));
    assert!(scene.service.stays_in_doubt(&mut job, None));
    scene.exports.tank.suspended.store(false, SeqCst);
    *scene.exports.tank.promises.lock() = Promises::Ready;
    let changes = scene.exports.tank.changes.load(SeqCst);
    let step = scene.service.run(&mut job);
    let first = scene.end(&mut job, step, &ops);
    assert_eq!(first.status, OK, "not EXIST");
    assert!(scene.exports.tank.changes.load(SeqCst) <= changes + 1);
    assert_eq!(scene.run(11, &ops), first);
    let file = scene.file_named(b"n");
    let confirm = [scene.put(file), owner.at(42).confirm(opened(&first).stateid)];
    let stateid = confirmed(&scene.run(12, &confirm));
    assert_eq!(scene.run(13, &[scene.put(file), write_by(&stateid, b"x")]).status, OK);
    assert_eq!(scene.run(14, &[scene.put(file), owner.at(43).close(stateid)]).status, OK);
}

/// A panic costs its operation, and is not repeated.
#[test]
fn what_panicked_is_told_so_again() {
    let (scene, owner) = scene();
    let ops = [scene.put_tank(), owner.make(b"n")];
    assert_eq!(scene.run(10, &ops).status, OK);
    let file = scene.file_named(b"n");
    let confirm = [scene.put(file), owner.at(42).confirm(opened(&scene.run(11, &ops)).stateid)];
    assert_eq!(scene.run(12, &confirm).status, OK);
    scene.exports.tank.panic_at_open.store(true, SeqCst);
    let open = [scene.put_tank(), owner.at(43).open(b"n", READ, 0)];
    assert_eq!(scene.run(13, &open).status, Nfs4ErrServerfault);
    assert_eq!(scene.run(14, &open).status, Nfs4ErrServerfault);
    assert_eq!(scene.run(15, &[scene.put_tank(), owner.at(44).open(b"n", READ, 0)]).status, OK);
}

/// Behind a restart an owner that nobody knows claims again what it had open, and need not confirm that (RFC 7530 §9.1.11).
#[test]
fn what_is_claimed_again_is_confirmed() {
    let (scene, owner) = scene();
    scene.exports.keep_clients();
    let file = scene.file(b"f");
    assert_eq!(scene.run(10, &[scene.put_tank(), owner.open(b"f", BOTH, 0)]).status, OK);
    let scene = scene.restart();
    let stale = scene.run(11, &[scene.put_tank(), owner.open(b"f", BOTH, 0)]);
    assert_eq!(stale.status, Nfs4ErrStaleClientid, "it is of another start, as all that it had");
    let (id, confirm) = introduced(&scene.run(12, &[introduce(b"a client", 1)]));
    assert_eq!(scene.run(13, &[confirm]).status, OK);
    let owner = Owner::new(id, b"o");
    assert_eq!(scene.run(14, &[scene.put_tank(), owner.open(b"f", BOTH, 0)]).status, Nfs4ErrGrace);
    let previous = OpenClaim4::ClaimPrevious(OpenDelegationType4::OpenDelegateNone);
    let claimed = scene.run(15, &[scene.put(file), owner.at(42).open_as((BOTH, 0), find(), previous)]);
    assert_eq!((claimed.status, opened(&claimed).rflags & CONFIRM), (OK, 0));
    assert_eq!(scene.run(16, &[scene.put(file), write_by(&opened(&claimed).stateid, b"x")]).status, OK);
    assert_eq!(scene.run(17, &[scene.put(file), owner.at(43).close(opened(&claimed).stateid)]).status, OK);
}
