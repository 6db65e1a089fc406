//! Requests that go without an answer of their own: their connection ends while they wait, or whoever was to keep their
//! promise is gone. The reply cache knew of them as running for ever, so that each repetition was attached to an answer
//! that never came, and from the fifth on told to come back later: a hard mount hung until the server was started anew.

use std::sync::atomic::Ordering::SeqCst;

use crate::support::House;
use crate::support::client::{Client, NFS, dir_name, mode, words};
use crate::support::gated::Promises;
use socket2::SockRef;
use tally_nfs::serve::ServeOptions;
use tally_nfs::v3::Procedure;
use tally_nfs::xdr::Encoder;

const IO: u32 = 5;
const JUKEBOX: u32 = 10008;
/// More than sockets hold on both sides.
const UNREAD_READS: usize = 120;
const READ_BYTES: usize = 256 << 10;

fn mkdir(root: &[u8]) -> Encoder {
    let mut arguments = dir_name(root, b"d");
    arguments.raw(&mode(0o755).into_vec());
    arguments
}

/// A client that has sent a MKDIR whose admission was refused, and so many READs since that its socket takes no more
/// replies. The MKDIR may go on now, and waits for the socket instead.
fn a_mkdir_that_waits_for_its_socket(house: &House) -> (Client, Vec<u8>, u32) {
    let mut client = house.client();
    SockRef::from(&client.stream).set_recv_buffer_size(64 << 10).unwrap();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    assert_eq!(client.write(&file, 0, &vec![7; READ_BYTES], 2).0, 0);
    let tank = &house.exports.tank;
    *tank.promises.lock() = Promises::ByHand;
    tank.throttle.store(1, SeqCst);
    let xid = client.xid();
    client.send(xid, NFS, Procedure::MkDir.number(), mkdir(&root));
    tank.until_held(1);
    *tank.promises.lock() = Promises::Ready;
    for _ in 0..UNREAD_READS {
        let read = words(|words| {
            words.opaque(&file).u64(0).u32(u32::try_from(READ_BYTES).unwrap());
        });
        let read_xid = client.xid();
        client.send(read_xid, NFS, Procedure::Read.number(), read);
    }
    // Long enough for the server to have come as far as it can; were it not, the MKDIR would be carried out.
    let mut other = house.client();
    (0..200).for_each(|_| assert_eq!(other.getattr(&root).0, 0));
    let before = tank.changes.load(SeqCst);
    tank.keep_one();
    (0..200).for_each(|_| assert_eq!(other.getattr(&root).0, 0));
    assert_eq!(tank.changes.load(SeqCst), before, "the MKDIR waits");
    (client, root, xid)
}

fn little_output() -> House {
    House::with(&ServeOptions { output_bytes_max: 64 << 10, workers_max: 4, ..ServeOptions::default() })
}

/// A network that is cut under mixed load while the log is full: the connection ends, the client comes back and
/// repeats.
#[test]
fn a_request_dropped_with_its_connection_does_not_swallow_its_repetition() {
    let house = little_output();
    let (client, root, xid) = a_mkdir_that_waits_for_its_socket(&house);
    drop(client);
    while house.server.stats().connections.load(SeqCst) > 0 {
        std::thread::yield_now();
    }
    let mut again = house.client();
    again.send(xid, NFS, Procedure::MkDir.number(), mkdir(&root));
    let (answered, answer) = again.receive_answer();
    assert_eq!((answered, answer.status), (xid, 0));
}

/// Whoever was to say when there is room, or that a change is durable, is gone without a word, as a pool's log is that
/// was closed. Who was refused may come again; of what was carried out nobody knows, and the client is told so instead
/// of nothing. So is the repetition that was attached to it.
#[test]
fn a_request_that_nobody_wakes_is_answered() {
    for (refusals, status) in [(1, JUKEBOX), (0, IO)] {
        let house = House::new();
        let mut client = house.client();
        let root = client.mount("/tank");
        let tank = &house.exports.tank;
        *tank.promises.lock() = Promises::ByHand;
        tank.throttle.store(refusals, SeqCst);
        let xid = client.xid();
        client.send(xid, NFS, Procedure::MkDir.number(), mkdir(&root));
        tank.until_held(1);
        client.send(xid, NFS, Procedure::MkDir.number(), mkdir(&root));
        while house.server.stats().retransmissions.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        *tank.promises.lock() = Promises::Ready;
        tank.held.lock().clear();
        for _ in 0..2 {
            let (answered, answer) = client.receive_answer();
            assert_eq!((answered, answer.status), (xid, status));
        }
        // It is carried out now; where it was already, the file system knows what it did for this very request: else
        // EXIST.
        client.send(xid, NFS, Procedure::MkDir.number(), mkdir(&root));
        assert_eq!(client.receive_answer().1.status, 0);
        assert_eq!(house.server.stop(), 0);
    }
}

/// A bug in the log, met by the worker that writes it: that costs the request, not the worker. With every worker gone
/// so, the server would have gone silent.
#[test]
fn a_panic_behind_an_operation_costs_no_worker() {
    let house = House::with(&ServeOptions { workers_max: 2, ..ServeOptions::default() });
    let mut client = house.client();
    let root = client.mount("/tank");
    *house.exports.tank.promises.lock() = Promises::Panics;
    for name in [&b"a"[..], b"b", b"c", b"d"] {
        assert_eq!(client.mkdir(&root, name).0, IO);
    }
    *house.exports.tank.promises.lock() = Promises::Ready;
    assert_eq!(client.mkdir(&root, b"e").0, 0);
    // Counted behind the reply.
    while house.server.stats().panics.load(SeqCst) < 4 {
        std::thread::yield_now();
    }
    assert_eq!(house.server.stop(), 0);
}
