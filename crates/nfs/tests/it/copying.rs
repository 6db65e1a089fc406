//! COPY within the server (RFC 7862 §15.2), over a service.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use crate::support::compound::{Op, commit, lookup, make, op, put, save, stateid};
use crate::support::gated::{Gated, Promises};
use crate::support::opener::{BOTH, Opener, READ, WRITE, open};
use crate::support::scene::{Scene, fate, read_reply};
use crate::support::{KEY, POOL};
use tally_nfs::handle::Handle;
use tally_nfs::stats::Operation;
use tally_vfs::{Content, CreateHow, Cred, Identity, Names, ObjectRef, OpCtx, SetAttr, Stability};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Commit4Res, Copy4Args, Copy4Res, Copy4Resok, Netloc4, NfsArgop4, NfsResop4, Nfsstat4, StableHow4, Stateid4,
};

const OK: Nfsstat4 = Nfs4Ok;
const MIB: usize = 1 << 20;

fn client() -> Opener {
    Opener::beside(&Arc::new(Scene { minor: 2, ..Scene::new() }), "a client", 1)
}

/// From a file of so many bytes that are told apart to an empty one.
fn two(client: &Opener, length: usize) -> Vec<u8> {
    let (from, _) = (client.scene.file(b"from"), client.scene.file(b"to"));
    let content: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
    put_in(&client.scene.exports.tank, from, &content);
    content
}

fn put_in(dataset: &Gated, file: ObjectRef, content: &[u8]) {
    let data = content.to_vec().into();
    dataset.model.write(OpCtx::of(&Cred::root()), file, 0, data, Stability::FileSync).result.unwrap();
}

fn content_of(dataset: &Gated, file: ObjectRef) -> Vec<u8> {
    dataset.model.read(&Cred::root(), file, 0, u32::MAX).unwrap().data.concat()
}

struct Copy {
    by: [Stateid4; 2],
    at: (u64, u64),
    count: u64,
    names: [&'static [u8]; 2],
}

fn copy(from_offset: u64, to_offset: u64, count: u64) -> Copy {
    Copy { by: [stateid(0), stateid(0)], at: (from_offset, to_offset), count, names: [b"from", b"to"] }
}

impl Copy {
    fn op(&self) -> Op {
        op(&NfsArgop4::OpCopy(Copy4Args {
            ca_src_stateid: self.by[0].clone(),
            ca_dst_stateid: self.by[1].clone(),
            ca_src_offset: self.at.0,
            ca_dst_offset: self.at.1,
            ca_count: self.count,
            ca_consecutive: true,
            ca_synchronous: true,
            ca_source_server: Vec::new().into(),
        }))
    }

    fn ops(&self, client: &Opener) -> Vec<Op> {
        let [from, to] = self.names.map(lookup);
        vec![from, save(), client.scene.put_tank(), to, self.op()]
    }

    fn status(&self, client: &mut Opener) -> Nfsstat4 {
        let ops = self.ops(client);
        client.status(&ops)
    }

    fn done(&self, client: &mut Opener) -> Copy4Resok {
        let ops = self.ops(client);
        done(client.run(&ops).pop())
    }
}

fn done(result: Option<NfsResop4>) -> Copy4Resok {
    match result {
        Some(NfsResop4::OpCopy(Copy4Res::Nfs4Ok(done))) => done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_copied_and_committed_in_one_compound() {
    let mut client = client();
    let content = two(&client, 300_000);
    let by = [client.opened(open(b"from", READ, 0)).stateid, client.opened(open(b"to", WRITE, 0)).stateid];
    // To the end of the file.
    let mut ops = Copy { by, ..copy(0, 0, 0) }.ops(&client);
    ops.push(commit());
    let mut results = client.run(&ops);
    let Some(NfsResop4::OpCommit(Commit4Res::Nfs4Ok(committed))) = results.pop() else { panic!("{results:?}") };
    let done = done(results.pop());
    let told = &done.cr_response;
    assert_eq!((told.wr_count, told.wr_callback_id.len()), (300_000, 0));
    assert_eq!((told.wr_committed, told.wr_writeverf), (StableHow4::Unstable4, committed.writeverf));
    assert!(done.cr_requirements.cr_consecutive && done.cr_requirements.cr_synchronous);
    assert_eq!(content_of(&client.scene.exports.tank, client.scene.file_named(b"to")), content);
    let counted = Operation::all().find(|operation| operation.name() == "copy").expect("it has a name");
    assert_eq!(client.scene.service.stats().operation(counted).data_bytes.load(SeqCst), 300_000);
}

#[test]
fn a_part_is_copied_to_a_part() {
    let mut client = client();
    let content = two(&client, 5000);
    assert_eq!(copy(1000, 7000, 500).done(&mut client).cr_response.wr_count, 500);
    let expected = [&[0; 7000][..], &content[1000..1500]].concat();
    assert_eq!(content_of(&client.scene.exports.tank, client.scene.file_named(b"to")), expected);
    // Nothing of it, at its end.
    assert_eq!(copy(5000, 0, 0).done(&mut client).cr_response.wr_count, 0);
    let within = Copy { names: [b"from", b"from"], ..copy(0, 2500, 2500) };
    assert_eq!(within.done(&mut client).cr_response.wr_count, 2500);
    let doubled = [&content[..2500], &content[..2500]].concat();
    assert_eq!(content_of(&client.scene.exports.tank, client.scene.file_named(b"from")), doubled);
}

#[test]
fn what_cannot_be_copied_says_why() {
    let mut client = client();
    two(&client, 5000);
    assert_eq!(client.status(&[make(b"d")]), OK);
    for (from, count) in [(5001, 0), (5001, 1), (4999, 2), (0, 5001), (1, u64::MAX), (u64::MAX, 1), (u64::MAX, 0)] {
        assert_eq!(copy(from, 0, count).status(&mut client), Nfs4ErrInval, "{count} from {from}");
    }
    for (from, to, count) in [(0, 0, 0), (0, 4999, 5000), (4000, 3001, 1000), (0, 10, 11)] {
        let within = Copy { names: [b"from", b"from"], ..copy(from, to, count) };
        assert_eq!(within.status(&mut client), Nfs4ErrInval, "{count} from {from} to {to}");
    }
    assert_eq!(copy(0, u64::MAX - 3, 4).status(&mut client), Nfs4ErrFbig);
    for names in [[&b"d"[..], b"to"], [b"from", b"d"]] {
        assert_eq!(Copy { names, ..copy(0, 0, 0) }.status(&mut client), Nfs4ErrWrongType);
    }
    assert_eq!(client.status(&[lookup(b"to"), copy(0, 0, 0).op()]), Nfs4ErrNofilehandle, "nothing is saved");
    let (reader, writer) =
        (client.opened(open(b"to", READ, 0)).stateid, client.opened(open(b"from", WRITE, 0)).stateid);
    assert_eq!(Copy { by: [stateid(0), reader], ..copy(0, 0, 0) }.status(&mut client), Nfs4ErrOpenmode);
    assert_eq!(Copy { by: [writer, stateid(0)], ..copy(0, 0, 0) }.status(&mut client), Nfs4ErrOpenmode);
    let foreign = client.opened(open(b"from", BOTH, 0)).stateid;
    assert_eq!(Copy { by: [stateid(0), foreign], ..copy(0, 0, 0) }.status(&mut client), Nfs4ErrBadStateid);
    let elsewhere = vec![Netloc4::Nl4Name(b"there".into())];
    let mut ops = copy(0, 0, 0).ops(&client);
    *ops.last_mut().unwrap() = op(&NfsArgop4::OpCopy(Copy4Args {
        ca_src_stateid: stateid(0),
        ca_dst_stateid: stateid(0),
        ca_src_offset: 0,
        ca_dst_offset: 0,
        ca_count: 0,
        ca_consecutive: true,
        ca_synchronous: true,
        ca_source_server: elsewhere.into(),
    }));
    assert_eq!(client.status(&ops), Nfs4ErrNotsupp);
    assert!(content_of(&client.scene.exports.tank, client.scene.file_named(b"to")).is_empty(), "nothing was copied");
}

#[test]
fn both_rules_and_all_opens_are_asked() {
    let mut client = client();
    let content = two(&client, 100);
    let (child, root) = (client.scene.exports.child.clone(), Cred::root());
    let set = SetAttr { mode: Some(0o644), ..SetAttr::default() };
    let there = child.model.create(OpCtx::of(&root), child.root(), b"there", &CreateHow::Guarded(set)).result.unwrap();
    let handle = put(&Handle { pool: POOL, dataset: child.dataset(), object: there.object }.seal(&KEY));
    let across = [lookup(b"from"), save(), handle.clone(), copy(0, 0, 0).op()];
    // The first dataset is only read.
    *client.scene.exports.tank_rule.lock() = "ro,no_root_squash,insecure".into();
    assert_eq!(client.status(&across), OK);
    assert_eq!(content_of(&child, there.object), content);
    let back = [handle.clone(), save(), client.scene.put_tank(), lookup(b"to"), copy(0, 0, 0).op()];
    assert_eq!(client.status(&back), Nfs4ErrRofs);
    *client.scene.exports.tank_rule.lock() = "rw,no_root_squash,insecure".into();
    *client.scene.exports.child_rule.lock() = "off".into();
    assert_ne!(client.status(&across), OK, "a dataset that it may not see");
    assert_ne!(client.status(&back), OK, "a dataset that it may not see");
    let mut other = Opener::beside(&client.scene, "another one", 2);
    other.opened(open(b"from", WRITE, READ));
    assert_eq!(copy(0, 0, 0).status(&mut client), Nfs4ErrLocked);
}

#[test]
fn a_long_copy_ends_short_and_is_gone_on_with() {
    let mut client = client();
    let content = two(&client, 9 * MIB + 5);
    let mut at = 0;
    let mut counts = Vec::new();
    while at < content.len() as u64 {
        let count = copy(at, at, content.len() as u64 - at).done(&mut client).cr_response.wr_count;
        counts.push(count as usize);
        at += count;
    }
    assert_eq!(counts, [4 * MIB, 4 * MIB, MIB + 5]);
    let to = client.scene.file_named(b"to");
    assert!(content_of(&client.scene.exports.tank, to) == content);
    // Two in one compound have no more than one.
    let mut ops = copy(0, 0, 4 * MIB as u64).ops(&client);
    ops.push(copy(0, 0, 1).op());
    assert_eq!(client.status(&ops), Nfs4ErrDelay);
}

/// Where there is no room for the first step the compound waits, and goes on with it; for a later one it does not.
#[test]
fn where_there_is_no_room_it_waits_once_and_ends_short_later() {
    let mut client = client();
    let content = two(&client, 3 * MIB);
    let tank = client.scene.exports.tank.clone();
    tank.throttle.store(1, SeqCst);
    let head = [client.sequence(), client.scene.put_tank()];
    let ops = [&head[..], &copy(0, 0, 0).ops(&client)].concat();
    let (mut job, step) = client.scene.begin_on(&client.link, 9000, &ops);
    assert!(matches!(step, tally_nfs::service::Step::Again(_)), "it goes on when there is room");
    let step = client.scene.service.run(&mut job);
    let reply = client.scene.end(&mut job, step, &ops);
    assert_eq!(done(reply.resarray.0.into_iter().last()).cr_response.wr_count, 3 * MIB as u64);
    assert!(content_of(&tank, client.scene.file_named(b"to")) == content);
    tank.throttle_behind(2);
    assert_eq!(copy(0, 0, 0).done(&mut client).cr_response.wr_count, 2 * MIB as u64);
}

/// Nothing of it is told before all that was written is as stable as is said.
#[test]
fn its_answer_waits_for_each_step() {
    let mut client = client();
    two(&client, 2 * MIB);
    client.scene.hold();
    let tank = client.scene.exports.tank.clone();
    for is_kept in [true, false] {
        let head = [client.sequence(), client.scene.put_tank()];
        let ops = [&head[..], &copy(0, 0, 0).ops(&client)].concat();
        let (mut job, step) = client.scene.begin_on(&client.link, 9000 + u32::from(is_kept), &ops);
        let fate = fate(step);
        assert_eq!(tank.held.lock().len(), 1, "the promises are asked one after the other");
        tank.keep_one();
        assert!(fate.try_recv().is_err(), "the second one is open");
        if is_kept {
            tank.keep_one();
        } else {
            tank.break_one();
        }
        let reply = client.scene.service.reply_after_wait(&mut job, fate.recv().unwrap());
        assert_eq!(read_reply(&reply, &ops).status, if is_kept { OK } else { Nfs4ErrIo });
    }
    *tank.promises.lock() = Promises::Ready;
}
