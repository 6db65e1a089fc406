//! Waiting, repeating, crowding: what happens between a request and its reply.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::support::House;
use crate::support::client::{NFS, dir_name, mode, size, words, write_arguments};
use crate::support::gated::Promises;
use tally_nfs::serve::ServeOptions;
use tally_nfs::v3::Procedure;

#[test]
fn a_slow_read_does_not_hold_up_its_connection() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    house.exports.tank.reads.shut();
    let (slow, fast) = (client.xid(), client.xid());
    let read = words(|words| {
        words.opaque(&file).u64(0).u32(10);
    });
    client.send(slow, NFS, Procedure::Read.number(), read);
    let getattr = || {
        words(|words| {
            words.opaque(&file);
        })
    };
    client.send(fast, NFS, Procedure::GetAttr.number(), getattr());
    assert_eq!(client.receive_answer().0, fast);
    // The same in one segment: the READ first in the buffer, and first at a worker.
    let (slower, faster) = (client.xid(), client.xid());
    let read = words(|words| {
        words.opaque(&file).u64(0).u32(10);
    });
    let records = [
        client.record(slower, NFS, Procedure::Read.number(), read),
        client.record(faster, NFS, Procedure::GetAttr.number(), getattr()),
    ];
    let stream: Vec<u8> = records
        .iter()
        .flat_map(|record| [&(u32::try_from(record.len()).unwrap() | 1 << 31).to_be_bytes(), &record[..]].concat())
        .collect();
    client.stream.write_all(&stream).unwrap();
    assert_eq!(client.receive_answer().0, faster);
    house.exports.tank.reads.open();
    let mut last = [client.receive_answer().0, client.receive_answer().0];
    last.sort_unstable();
    assert_eq!(last, [slow, slower]);
    assert_eq!(house.server.stop(), 0);
}

/// Few workers run at once; those that wait for a device are not among them.
#[test]
fn as_many_slow_reads_as_there_are_workers_hold_up_nobody() {
    const SLOW: usize = 6;
    let options = ServeOptions { workers_running_max: 1, workers_max: SLOW + 2, ..ServeOptions::default() };
    let house = House::with(&options);
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    house.exports.tank.reads.shut();
    let mut slow: Vec<u32> = (0..SLOW).map(|_| client.xid()).collect();
    for xid in &slow {
        let read = words(|words| {
            words.opaque(&file).u64(0).u32(10);
        });
        client.send(*xid, NFS, Procedure::Read.number(), read);
    }
    let mut other = house.client();
    while house.exports.tank.reads.waiting.load(SeqCst) < SLOW {
        assert_eq!(other.getattr(&root).0, 0);
    }
    assert_eq!(other.getattr(&root).0, 0);
    house.exports.tank.reads.open();
    let mut answered: Vec<u32> = slow.iter().map(|_| client.receive_answer().0).collect();
    answered.sort_unstable();
    slow.sort_unstable();
    assert_eq!(answered, slow);
    // All have been at work, and go to the bench one after the other; nobody is forgotten there.
    for _ in 0..200 {
        assert_eq!(other.getattr(&root).0, 0);
    }
    assert_eq!(house.server.stop(), 0);
}

/// Workers that had always more to do kept their processors for whole turns of the scheduler, and who came back from a
/// device waited for several of them: a good client's WRITE took up to 30 ms, and its device 0.1 (docs/design/0022).
#[test]
fn work_that_does_not_end_offers_its_processor_to_who_is_in_a_device() {
    const BURSTS_MAX: usize = 200;
    const REQUESTS: usize = 128;
    let options = ServeOptions { workers_running_max: 1, ..ServeOptions::default() };
    let house = House::with(&options);
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    house.exports.tank.reads.shut();
    let slow = client.xid();
    let read = words(|words| {
        words.opaque(&file).u64(0).u32(10);
    });
    client.send(slow, NFS, Procedure::Read.number(), read);
    let mut busy = house.client();
    let offered = || house.server.stats().processors_offered.load(SeqCst);
    for _ in 0..BURSTS_MAX {
        if offered() > 0 {
            break;
        }
        let mut stream = Vec::new();
        for _ in 0..REQUESTS {
            let arguments = words(|words| {
                words.opaque(&root);
            });
            let xid = busy.xid();
            let record = busy.record(xid, NFS, Procedure::GetAttr.number(), arguments);
            stream.extend((u32::try_from(record.len()).unwrap() | 1 << 31).to_be_bytes());
            stream.extend(&record[..]);
        }
        busy.stream.write_all(&stream).unwrap();
        (0..REQUESTS).for_each(|_| assert_eq!(busy.receive_answer().1.status, 0));
    }
    assert!(offered() > 0, "a READ waits in a device, and nobody gives it a processor");
    house.exports.tank.reads.open();
    assert_eq!(client.receive_answer().0, slow);
    assert_eq!(house.server.stop(), 0);
}

#[test]
fn a_reply_waits_for_its_promise_and_others_pass() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let tank = &house.exports.tank;
    *tank.promises.lock() = Promises::ByHand;
    let xids: Vec<u32> = (0..5).map(|_| client.xid()).collect();
    for xid in &xids {
        let mut arguments = dir_name(&root, xid.to_string().as_bytes());
        arguments.raw(&mode(0o755).into_vec());
        client.send(*xid, NFS, Procedure::MkDir.number(), arguments);
    }
    tank.until_held(5);
    assert_eq!(client.getattr(&root).0, 0, "reads pass");
    let mut answered: Vec<u32> = (0..5)
        .map(|_| {
            tank.keep_one();
            let (xid, answer) = client.receive_answer();
            assert_eq!(answer.status, 0);
            xid
        })
        .collect();
    answered.sort_unstable();
    let mut expected = xids;
    expected.sort_unstable();
    assert_eq!(answered, expected);
    *tank.promises.lock() = Promises::Driven;
    assert_eq!(client.mkdir(&root, b"driven").0, 0);
    assert!(house.server.stats().driven.load(SeqCst) >= 1, "the lone client's request was driven in place");
    // Counted when the socket has the reply: the client may be quicker.
    let stats = Arc::clone(house.server.stats());
    assert_eq!(house.server.stop(), 0);
    assert!(stats.own.count() >= 6);
}

#[test]
fn a_broken_promise_is_never_a_success() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    *house.exports.tank.promises.lock() = Promises::Broken;
    assert_eq!(client.mkdir(&root, b"d").0, 5);
    assert_eq!(client.write(&file, 0, b"x", 2), (5, None));
    let mut answer = client.call(
        Procedure::Rename,
        words(|words| {
            words.opaque(&root).opaque(b"f").opaque(&root).opaque(b"g");
        }),
    );
    assert_eq!((answer.status, answer.wcc(), answer.wcc()), (5, (false, None), (false, None)));
    answer.end();
}

/// A MKDIR that was carried out when its pool was suspended, and its repetition.
fn a_mkdir_in_doubt(house: &House, client: &mut crate::support::client::Client, root: &[u8]) -> u32 {
    let tank = &house.exports.tank;
    let arguments = || {
        let mut arguments = dir_name(root, b"d");
        arguments.raw(&mode(0o755).into_vec());
        arguments
    };
    *tank.promises.lock() = Promises::ByHand;
    let xid = client.xid();
    client.send(xid, NFS, Procedure::MkDir.number(), arguments());
    tank.until_held(1);
    *tank.promises.lock() = Promises::Ready;
    tank.suspended.store(true, SeqCst);
    tank.break_one();
    client.send(xid, NFS, Procedure::MkDir.number(), arguments());
    while house.server.stats().retransmissions.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    xid
}

/// It was answered with an I/O error, which programs take for the end of it: all that was missing was the disk.
#[test]
fn what_is_under_way_when_its_pool_is_suspended_is_answered_when_that_serves_again() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let (tank, before) = (&house.exports.tank, house.exports.tank.changes.load(SeqCst));
    let xid = a_mkdir_in_doubt(&house, &mut client, &root);
    // Others are told to come again, and reads are answered, on this connection as well: nothing overtakes an answer.
    assert_eq!(client.mkdir(&root, b"later").0, 10008, "JUKEBOX");
    assert_eq!(client.getattr(&root).0, 0);
    *house.exports.away.lock() = true;
    tank.suspended.store(false, SeqCst);
    assert_eq!(client.getattr(&root).0, 10008, "JUKEBOX");
    // Nor is a repetition told that nothing was done, be the pool away or the request repeated very often.
    for round in 0..8 {
        *house.exports.away.lock() = round < 2;
        let mut arguments = dir_name(&root, b"d");
        arguments.raw(&mode(0o755).into_vec());
        tank.suspended.store(round >= 2, SeqCst);
        client.send(xid, NFS, Procedure::MkDir.number(), arguments);
        assert_eq!(client.getattr(&root).0 == 0, round >= 2, "the next answer is another request's");
    }
    *house.exports.away.lock() = false;
    tank.suspended.store(false, SeqCst);
    // As often as it could be attached to its first transmission.
    for _ in 0..5 {
        let (answered, answer) = client.receive_answer();
        assert_eq!((answered, answer.status), (xid, 0));
    }
    assert_eq!(tank.changes.load(SeqCst) - before, 1, "its record was there: it is not carried out again");
    assert_eq!(client.mkdir(&root, b"later").0, 0);
}

/// A client mounts the files of all pools over one connection. As many of its requests as it may have under way were kept for
/// one pool that was suspended: the connection was not read any more, and the files of the other pools hung with those.
/// With its places taken, the server must not take it for idle either.
#[test]
fn what_is_kept_for_a_suspended_pool_holds_up_nothing_else() {
    let options = ServeOptions { requests_per_connection_max: 2, connections_max: 2, ..ServeOptions::default() };
    let house = House::with(&options);
    let mut client = house.client();
    let root = client.mount("/tank");
    let tank = &house.exports.tank;
    *tank.promises.lock() = Promises::ByHand;
    let mut xids: Vec<_> = [b"a", b"b"]
        .into_iter()
        .map(|name| {
            let xid = client.xid();
            let mut arguments = dir_name(&root, name);
            arguments.raw(&mode(0o755).into_vec());
            client.send(xid, NFS, Procedure::MkDir.number(), arguments);
            xid
        })
        .collect();
    tank.until_held(2);
    *tank.promises.lock() = Promises::Ready;
    tank.suspended.store(true, SeqCst);
    tank.break_one();
    tank.break_one();
    assert_eq!(client.getattr(&root).0, 0);
    assert_eq!(client.getattr(&root).0, 0);
    // Who comes when all places are taken gets the place of an idle one.
    let mut others: Vec<_> = (0..4).map(|_| house.client()).collect();
    assert_eq!(others.pop().unwrap().getattr(&root).0, 0);
    assert_eq!(client.getattr(&root).0, 0, "it waits for something");
    let held = house.server.stats().held();
    assert!(held.work_bytes > 0, "the house knows what is kept");
    tank.suspended.store(false, SeqCst);
    for _ in 0..2 {
        let (xid, answer) = client.receive_answer();
        assert_eq!(answer.status, 0);
        xids.retain(|waiting| *waiting != xid);
    }
    assert_eq!(xids, [0; 0]);
    while house.server.stats().held().work_bytes > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_server_ends_while_a_pool_is_suspended_and_the_next_one_knows_what_was_done() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let xid = a_mkdir_in_doubt(&house, &mut client, &root);
    assert_eq!(house.server.stop(), 0);
    assert!(client.receive().is_none(), "no answer would be true");
    house.exports.tank.suspended.store(false, SeqCst);
    let server = house.exports.start();
    let mut next = crate::support::client::Client::connect(server.addresses()[0]);
    let mut arguments = dir_name(&root, b"d");
    arguments.raw(&mode(0o755).into_vec());
    next.send(xid, NFS, Procedure::MkDir.number(), arguments);
    assert_eq!(next.receive_answer().1.status, 0, "not EXIST");
}

#[test]
fn a_refused_admission_is_asked_again() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    house.exports.tank.throttle.store(3, SeqCst);
    assert_eq!(client.mkdir(&root, b"d").0, 0);
    assert_eq!(house.server.stats().throttled.load(SeqCst), 3);
}

#[test]
fn a_panic_costs_one_request() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    house.exports.tank.panic_at_getattr.store(true, SeqCst);
    assert_eq!(client.getattr(&root).0, 10006, "SERVERFAULT");
    house.exports.tank.panic_at_getattr.store(false, SeqCst);
    assert_eq!(client.getattr(&root).0, 0);
    assert_eq!(house.server.stats().panics.load(SeqCst), 1);
}

#[test]
fn a_retransmission_is_not_carried_out_twice() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    client.file(&root, b"f");
    let tank = &house.exports.tank;
    let before = tank.changes.load(SeqCst);
    let xid = client.xid();
    let mut statuses = Vec::new();
    for _ in 0..3 {
        client.send(xid, NFS, Procedure::Remove.number(), dir_name(&root, b"f"));
        let (answered, answer) = client.receive_answer();
        statuses.push((answered == xid, answer.status));
    }
    assert_eq!(statuses, [(true, 0); 3]);
    assert_eq!(tank.changes.load(SeqCst) - before, 1);
    client.send(xid, NFS, Procedure::Remove.number(), dir_name(&root, b"other"));
    assert_eq!(client.receive_answer().1.status, 2, "other arguments under the same xid are another request");
    client.uid = 7;
    client.send(xid, NFS, Procedure::Remove.number(), dir_name(&root, b"f"));
    assert_eq!(client.receive_answer().1.status, 2, "and so is another user");
}

#[test]
fn a_retransmission_in_progress_is_attached() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let tank = &house.exports.tank;
    *tank.promises.lock() = Promises::ByHand;
    let (xid, before) = (client.xid(), tank.changes.load(SeqCst));
    let arguments = || {
        let mut arguments = dir_name(&root, b"d");
        arguments.raw(&mode(0o755).into_vec());
        arguments
    };
    client.send(xid, NFS, Procedure::MkDir.number(), arguments());
    tank.until_held(1);
    client.send(xid, NFS, Procedure::MkDir.number(), arguments());
    while house.server.stats().retransmissions.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    tank.keep_one();
    for _ in 0..2 {
        let (answered, answer) = client.receive_answer();
        assert_eq!((answered, answer.status), (xid, 0));
    }
    assert_eq!(tank.changes.load(SeqCst) - before, 1);
}

/// The first connection breaks, the client comes back on another one, with the same xid. Even a server that
/// was started anew in between gives the first answer, because the file system remembers it.
#[test]
fn a_retransmission_over_another_connection_and_another_server() {
    let house = House::new();
    let mut first = house.client();
    let root = first.mount("/tank");
    let xid = first.xid();
    let arguments = || {
        let mut arguments = dir_name(&root, b"d");
        arguments.raw(&mode(0o755).into_vec());
        arguments
    };
    first.send(xid, NFS, Procedure::MkDir.number(), arguments());
    let made = first.receive_answer().1.post_handle().unwrap();
    let mut second = house.client();
    second.send(xid, NFS, Procedure::MkDir.number(), arguments());
    assert_eq!(second.receive_answer().1.status, 17, "the first connection is open: this is somebody else");
    let old_server = house.server;
    drop(first);
    drop(second);
    assert_eq!(old_server.stop(), 0);
    let server = house.exports.start();
    let mut third = crate::support::client::Client::connect(server.addresses()[0]);
    third.send(xid, NFS, Procedure::MkDir.number(), arguments());
    let (answered, mut answer) = third.receive_answer();
    assert_eq!((answered, answer.status, answer.post_handle()), (xid, 0, Some(made)));
    assert_eq!(answer.post_attr().map(|attr| attr.kind), Some(2));
    assert!(!answer.wcc().0, "nothing from before is known");
    answer.end();
}

/// The client hangs up and repeats, and the server has not come to the hang-up yet: here because it does not read on
/// while a READ is worked on. Found by the crash ledger: a LINK that had been carried out was answered EXIST.
#[test]
fn a_repetition_is_known_before_the_hang_up_is() {
    let house = House::with(&ServeOptions { requests_per_connection_max: 1, ..ServeOptions::default() });
    let mut first = house.client();
    let root = first.mount("/tank");
    let file = first.file(&root, b"f");
    let xid = first.xid();
    let arguments = || {
        let mut arguments = dir_name(&root, b"d");
        arguments.raw(&mode(0o755).into_vec());
        arguments
    };
    first.send(xid, NFS, Procedure::MkDir.number(), arguments());
    assert_eq!(first.receive_answer().1.status, 0);
    house.exports.tank.reads.shut();
    let read = words(|words| {
        words.opaque(&file).u64(0).u32(10);
    });
    let read_xid = first.xid();
    first.send(read_xid, NFS, Procedure::Read.number(), read);
    // Time for the server to begin the READ, and for the end of the connection to arrive.
    std::thread::sleep(Duration::from_millis(20));
    drop(first);
    std::thread::sleep(Duration::from_millis(20));
    let mut second = house.client();
    second.send(xid, NFS, Procedure::MkDir.number(), arguments());
    assert_eq!(second.receive_answer().1.status, 0);
    house.exports.tank.reads.open();
}

/// A late copy of a truncation may not kill newer data.
#[test]
fn setattr_is_remembered_too() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    let truncate = || {
        words(|words| {
            words.opaque(&file).raw(&size(0).into_vec()).bool(false);
        })
    };
    let xid = client.xid();
    client.send(xid, NFS, Procedure::SetAttr.number(), truncate());
    assert_eq!(client.receive_answer().1.status, 0);
    assert_eq!(client.write(&file, 0, b"newer", 2).0, 0);
    client.send(xid, NFS, Procedure::SetAttr.number(), truncate());
    assert_eq!(client.receive_answer().1.status, 0);
    assert_eq!(client.read(&file, 0, 99).1, Some((b"newer".to_vec(), true)));
}

#[test]
fn more_requests_than_the_bound_are_all_answered() {
    let options =
        ServeOptions { requests_per_connection_max: 4, record_bytes_max: 64 << 10, ..ServeOptions::default() };
    let house = House::with(&options);
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    *house.exports.tank.promises.lock() = Promises::Driven;
    let xids: Vec<u32> = (0..300).map(|_| client.xid()).collect();
    let mut sender = client.twin();
    let sent = xids.clone();
    let sending = std::thread::spawn(move || {
        for (number, xid) in (0_u64..).zip(sent) {
            sender.send(xid, NFS, Procedure::Write.number(), write_arguments(&file, number * 9000, &[1; 9000], 2));
        }
    });
    let mut answered: Vec<u32> = xids.iter().map(|_| client.receive_answer().0).collect();
    sending.join().unwrap();
    answered.sort_unstable();
    assert_eq!(answered, xids);
}

#[test]
fn stopping_finishes_what_is_in_the_house() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let exports = house.exports.clone();
    *exports.tank.promises.lock() = Promises::ByHand;
    let xid = client.xid();
    let mut arguments = dir_name(&root, b"d");
    arguments.raw(&mode(0o755).into_vec());
    client.send(xid, NFS, Procedure::MkDir.number(), arguments);
    exports.tank.until_held(1);
    let stopping = std::thread::spawn(move || house.server.stop());
    exports.tank.keep_one();
    assert_eq!(client.receive_answer().1.status, 0);
    assert_eq!(stopping.join().unwrap(), 0);
    assert!(client.receive().is_none(), "and then it is closed");
}
