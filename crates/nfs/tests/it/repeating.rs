//! Repetitions of a request of which nobody knows yet whether it was done: whoever is told to come again (JUKEBOX) is told that
//! nothing was, and comes with another xid, by which nobody knows him. A MKDIR of his own then exists.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::support::House;
use crate::support::client::{Client, NFS, dir_name, mode};
use crate::support::gated::Promises;
use tally_nfs::v3::Procedure;
use tally_nfs::xdr::Encoder;

fn mkdir(root: &[u8]) -> Encoder {
    let mut arguments = dir_name(root, b"d");
    arguments.raw(&mode(0o755).into_vec());
    arguments
}

/// A client with a MKDIR that was carried out when its pool was suspended; its root, and the xid.
fn in_doubt(house: &House) -> (Client, Vec<u8>, u32) {
    let mut client = house.client();
    let root = client.mount("/tank");
    let tank = &house.exports.tank;
    *tank.promises.lock() = Promises::ByHand;
    let xid = client.xid();
    client.send(xid, NFS, Procedure::MkDir.number(), mkdir(&root));
    tank.until_held(1);
    *tank.promises.lock() = Promises::Ready;
    tank.suspended.store(true, SeqCst);
    tank.break_one();
    assert_eq!(client.getattr(&root).0, 0);
    (client, root, xid)
}

/// Until so many connections are there, and whoever looks at what is kept has looked.
fn until_connections(house: &House, count: usize) {
    let began = Instant::now();
    while house.server.stats().connections.load(SeqCst) != u64::try_from(count).unwrap() {
        assert!(began.elapsed() < Duration::from_secs(10), "the server does not see that a client is gone");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(400));
}

/// The pool's disk is away for an hour, and the client's network for a minute of it. Its MKDIR is in the log: it came again on
/// another connection and was told that nothing was done.
#[test]
fn who_has_lost_his_connection_meanwhile_is_not_told_that_nothing_was_done() {
    let house = House::new();
    let (client, root, xid) = in_doubt(&house);
    let tank = &house.exports.tank;
    let before = tank.changes.load(SeqCst);
    drop(client);
    until_connections(&house, 0);
    let mut client = house.client();
    client.send(xid, NFS, Procedure::MkDir.number(), mkdir(&root));
    assert_eq!(client.getattr(&root).0, 0, "the next answer is another request's");
    tank.suspended.store(false, SeqCst);
    let (answered, answer) = client.receive_answer();
    assert_eq!((answered, answer.status), (xid, 0));
    assert_eq!(tank.changes.load(SeqCst), before, "its record was there: it is not carried out again");
}

/// The same at once, as clients do: the repetition was attached to the first transmission, which was then let go of, as its own
/// connection was gone. Nobody answered it.
#[test]
fn who_comes_again_at_once_on_another_connection_is_answered_when_the_pool_serves() {
    let house = House::new();
    let (client, root, xid) = in_doubt(&house);
    drop(client);
    let mut client = house.client();
    client.send(xid, NFS, Procedure::MkDir.number(), mkdir(&root));
    until_connections(&house, 1);
    assert_eq!(client.getattr(&root).0, 0, "the next answer is another request's");
    house.exports.tank.suspended.store(false, SeqCst);
    let (answered, answer) = client.receive_answer();
    assert_eq!((answered, answer.status), (xid, 0));
}

/// Who is gone for good is not acted for: others may have built on what came since. But what the pool remembers it tells.
#[test]
fn what_nobody_repeats_is_not_run_again() {
    let house = House::new();
    let (client, root, _) = in_doubt(&house);
    let tank = &house.exports.tank;
    let before = tank.changes.load(SeqCst);
    drop(client);
    until_connections(&house, 0);
    tank.suspended.store(false, SeqCst);
    while house.server.stats().held().work_bytes > 0 {
        std::thread::yield_now();
    }
    assert_eq!(tank.changes.load(SeqCst), before);
    assert_eq!(house.client().getattr(&root).0, 0);
}

/// A disk does not answer for a quarter of an hour, and the client sends its MKDIR again every few minutes: the sixth was told
/// that nothing was done.
#[test]
fn who_asks_again_very_often_is_not_told_that_nothing_was_done() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let tank = &house.exports.tank;
    *tank.promises.lock() = Promises::ByHand;
    let xid = client.xid();
    for _ in 0..8 {
        client.send(xid, NFS, Procedure::MkDir.number(), mkdir(&root));
    }
    tank.until_held(1);
    assert_eq!(client.getattr(&root).0, 0, "the next answer is another request's");
    tank.keep_one();
    let (answered, answer) = client.receive_answer();
    assert_eq!((answered, answer.status), (xid, 0), "and so say the others");
}

/// Two programs of one host began their transaction ids at the same number, and each made the directory `d`, the second one when the
/// first had removed it. The second's MKDIR was in doubt as the pool was suspended, had reached the log, and was carried out again
/// when the pool served: told that `d` exists, which it had made.
#[test]
fn what_ran_beside_another_connection_is_known_by_its_own_record_when_the_pool_serves() {
    let (mut first, house, xid) = with_a_twin_to_come();
    let tank = &house.exports.tank;
    let root = first.mount("/tank");
    first.send(xid, NFS, Procedure::RmDir.number(), dir_name(&root, b"d"));
    assert_eq!(first.receive_answer().1.status, 0);
    let (mut second, before) = in_doubt_beside(&house, &root, xid);
    tank.suspended.store(false, SeqCst);
    assert_eq!(second.receive_answer().1.status, 0, "it made the directory itself");
    assert_eq!(tank.changes.load(SeqCst), before, "it is carried out twice");
    drop(first);
}

/// The same, and the first one's directory is there: what the pool remembers by the number they share is not the second's answer.
#[test]
fn what_ran_beside_another_connection_in_vain_does_not_get_that_ones_answer() {
    let (mut first, house, xid) = with_a_twin_to_come();
    let root = first.mount("/tank");
    let (mut second, _) = in_doubt_beside(&house, &root, xid);
    house.exports.tank.suspended.store(false, SeqCst);
    assert_eq!(second.receive_answer().1.status, 17, "the first one has made it");
    drop(first);
}

/// A client that has made `d` under that transaction id, and lives.
fn with_a_twin_to_come() -> (Client, House, u32) {
    let house = House::new();
    let mut first = house.client();
    let root = first.mount("/tank");
    let xid = first.xid();
    first.send(xid, NFS, Procedure::MkDir.number(), mkdir(&root));
    assert_eq!(first.receive_answer().1.status, 0);
    (first, house, xid)
}

/// Another one that asks for the same under the same id, and whose pool is suspended before it is answered. Gives how many changes
/// were carried out.
fn in_doubt_beside(house: &House, root: &[u8], xid: u32) -> (Client, usize) {
    let tank = &house.exports.tank;
    let mut second = house.client();
    *tank.promises.lock() = Promises::ByHand;
    second.send(xid, NFS, Procedure::MkDir.number(), mkdir(root));
    tank.until_held(1);
    *tank.promises.lock() = Promises::Ready;
    tank.suspended.store(true, SeqCst);
    tank.break_one();
    assert_eq!(second.getattr(root).0, 0);
    (second, tank.changes.load(SeqCst))
}
