//! Repetitions of a request of which nobody knows yet whether it was done: whoever is told to come again (JUKEBOX) is told that
//! nothing was, and comes with another xid, by which nobody knows him. A MKDIR of his own then exists.

mod support;

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use support::House;
use support::client::{Client, NFS, dir_name, mode};
use support::gated::Promises;
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
