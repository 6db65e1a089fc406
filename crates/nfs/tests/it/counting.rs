//! Version 4 as the statistics have it: compounds beside the procedures of version 3, and each of their operations by name.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::support::compound::{bare, get_attr, lookup, make, put_root, read, write};
use crate::support::scene::{Scene, fate, read_reply};
use crate::support::session::Session;
use tally_nfs::service::{Job, Step};
use tally_nfs::stats::{Kind, Operation};
use tally_wire::nfs4::{FATTR4_SIZE, NfsOpnum4, Nfsstat4};

/// Calls, errors, waits and bytes of an operation.
fn operation(scene: &Scene, wanted: &str) -> (u64, u64, u64, u64) {
    let one = Operation::all().find(|operation| operation.name() == wanted).expect("it has a name");
    let counted = scene.service.stats().operation(one);
    let [calls, errors, bytes] = [&counted.calls, &counted.errors, &counted.data_bytes].map(|sum| sum.load(Relaxed));
    assert_eq!(counted.execute.count(), calls);
    (calls, errors, counted.wait.count(), bytes)
}

/// Calls, errors and bytes of compounds, as the server and as all accounts have them.
fn compounds(scene: &Scene, changes: bool) -> (u64, u64, u64) {
    let (stats, kind) = (scene.service.stats(), Kind::compound(changes));
    let counted = stats.kind(kind);
    let of_server = [&counted.calls, &counted.errors, &counted.data_bytes].map(|sum| sum.load(Relaxed));
    let mut of_accounts = [0; 3];
    for (_, account) in stats.accounts.all() {
        let sums = account.kind(kind);
        let sums = [&sums.calls, &sums.errors, &sums.data_bytes].map(|sum| sum.load(Relaxed));
        of_accounts.iter_mut().zip(sums).for_each(|(all, one)| *all += one);
    }
    assert_eq!(of_server, of_accounts);
    of_server.into()
}

fn sent(scene: &Scene, job: &Job) {
    scene.service.sent(job, Instant::now());
}

/// One that waits for nothing, and whose reply is sent.
fn carry_out(scene: &Scene, xid: u32, ops: &[crate::support::compound::Op]) -> Nfsstat4 {
    let (mut job, step) = scene.begin(xid, ops);
    let reply = scene.end(&mut job, step, ops);
    sent(scene, &job);
    reply.status
}

#[test]
fn every_operation_has_the_rfcs_name() {
    let of_rfc = NfsOpnum4::ALL.iter().map(|op| (*op as u32, format!("{op:?}").to_lowercase()));
    for (number, name) in of_rfc {
        let counted = Operation::of(number).name().replace('_', "");
        assert_eq!(Some(counted.as_str()), name.strip_prefix("op"), "{number}");
    }
    assert_eq!(Operation::all().count(), NfsOpnum4::ALL.len());
    for none in [0, 1, 2, 76, u32::MAX] {
        assert_eq!(Operation::of(none).name(), "illegal", "{none}");
    }
}

#[test]
fn compounds_count_beside_procedures_and_operations_by_name() {
    let scene = Scene::new();
    let file = scene.file(b"file");
    assert_eq!(
        carry_out(&scene, 1, &[scene.put(file), write(0, &[7; 5000]), get_attr(&[FATTR4_SIZE])]),
        Nfsstat4::Nfs4Ok
    );
    assert_eq!(carry_out(&scene, 2, &[scene.put(file), read(0, 1000, 3000)]), Nfsstat4::Nfs4Ok);
    assert_eq!(carry_out(&scene, 3, &[put_root(), lookup(b"nobody"), read(0, 0, 1)]), Nfsstat4::Nfs4ErrNoent);
    assert_eq!(carry_out(&scene, 4, &[bare(12345)]), Nfsstat4::Nfs4ErrOpIllegal);
    assert_eq!((compounds(&scene, true), compounds(&scene, false)), ((1, 0, 5000), (3, 2, 3000)));
    assert_eq!(operation(&scene, "putfh"), (2, 0, 0, 0));
    assert_eq!(operation(&scene, "write"), (1, 0, 0, 5000));
    assert_eq!(operation(&scene, "read"), (1, 0, 0, 3000));
    assert_eq!((operation(&scene, "lookup"), operation(&scene, "illegal")), ((1, 1, 0, 0), (1, 1, 0, 0)));
    // Of minor version 0 there is none of this number; of version 2 it is known, and not there yet, or it is there.
    let clone = NfsOpnum4::OpClone as u32;
    carry_out(&scene, 5, &[bare(clone)]);
    assert_eq!((operation(&scene, "illegal").0, operation(&scene, "clone").0), (2, 0));
    carry_out(&Scene { minor: 2, ..scene }, 6, &[bare(clone)]);
}

#[test]
fn what_was_here_before_counts_no_compound_and_no_operation() {
    let session = Session::new();
    let ops = [session.sequence(1, true), session.tank(), make(b"a")];
    for (xid, calls) in [(500, 1), (501, 1)] {
        assert_eq!(carry_out(&session.scene, xid, &ops), Nfsstat4::Nfs4Ok);
        assert_eq!(compounds(&session.scene, true).0, calls, "the slot tells the second what the first was told");
        assert_eq!((operation(&session.scene, "create").0, operation(&session.scene, "sequence").0), (1, 1));
    }
    assert_eq!(session.scene.service.stats().retransmissions.load(Relaxed), 1);
}

#[test]
fn an_operation_that_found_no_room_counts_once_it_is_carried_out() {
    let scene = Scene::new();
    scene.exports.tank.throttle_behind(1);
    let ops = [scene.put_tank(), make(b"a"), scene.put_tank(), make(b"b")];
    let (mut job, step) = scene.begin(1, &ops);
    assert!(matches!(step, Step::Again(_)));
    assert_eq!((operation(&scene, "create").0, compounds(&scene, true).0), (1, 0));
    let step = scene.service.run(&mut job);
    assert_eq!(scene.end(&mut job, step, &ops).status, Nfsstat4::Nfs4Ok);
    sent(&scene, &job);
    assert_eq!((operation(&scene, "create"), compounds(&scene, true).0), ((2, 0, 0, 0), 1));
}

#[test]
fn what_waits_counts_and_what_breaks_is_an_error_of_its_operation() {
    let scene = Scene::new();
    scene.hold();
    let ops = [scene.put_tank(), make(b"a"), scene.put_tank(), make(b"b")];
    let (mut job, step) = scene.begin(1, &ops);
    let told = fate(step);
    scene.exports.tank.keep_one();
    scene.exports.tank.break_one();
    let reply = scene.service.reply_after_wait(&mut job, told.try_recv().unwrap());
    assert_eq!(read_reply(&reply, &ops).status, Nfsstat4::Nfs4ErrIo);
    sent(&scene, &job);
    assert_eq!((operation(&scene, "create"), operation(&scene, "putfh")), ((2, 1, 2, 0), (2, 0, 0, 0)));
    assert_eq!(compounds(&scene, true), (1, 1, 0));
    // EXIST rests on what is not durable; it has failed already.
    let ops = [scene.put_tank(), make(b"a")];
    let (mut job, step) = scene.begin(2, &ops);
    drop(fate(step));
    scene.service.reply_after_wait(&mut job, Err(tally_base::Broken("the disk is gone".into())));
    assert_eq!(operation(&scene, "create"), (3, 2, 3, 0));
}
