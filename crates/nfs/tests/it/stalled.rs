//! The pool stands still for a while: a disk spins up, a controller resets, a group takes long. Clients wait for it, as
//! they do for any server, and the server waits too: whom it does not read itself it does not call late.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::House;
use crate::support::client::{NFS, words, write_arguments};
use crate::support::gated::Promises;
use tally_nfs::serve::ServeOptions;
use tally_nfs::v3::Procedure;

/// A client writes on while the pool stands still. Once so much of it is in the house that the server reads no more, a
/// record is mostly half read, and the rest waits in the socket: by the server's choice, for longer than a record may
/// pause.
#[test]
fn who_is_not_read_is_not_late() {
    const COUNT: usize = 12;
    let late = Duration::from_millis(400);
    let house = House::with(&ServeOptions {
        requests_per_connection_max: 4,
        record_silence_max: late,
        record_time_max: late,
        ..ServeOptions::default()
    });
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    let tank = &house.exports.tank;
    *tank.promises.lock() = Promises::ByHand;
    let records: Vec<Vec<u8>> = (0..COUNT)
        .map(|_| {
            let xid = client.xid();
            let record =
                client.record(xid, NFS, Procedure::Write.number(), write_arguments(&file, 0, &vec![7; 300_000], 2));
            [&(u32::try_from(record.len()).unwrap() | 1 << 31).to_be_bytes(), &record[..]].concat()
        })
        .collect();
    let mut sender = client.stream.try_clone().unwrap();
    let sending = thread::spawn(move || sender.write_all(&records.concat()));
    tank.until_held(4);
    // The disk is back after five times what a record may pause.
    thread::sleep(late * 5);
    *tank.promises.lock() = Promises::Ready;
    while !tank.held.lock().is_empty() {
        tank.keep_one();
    }
    for _ in 0..COUNT {
        assert_eq!(client.receive_answer().1.status, 0);
    }
    sending.join().unwrap().unwrap();
    assert_eq!(house.server.stop(), 0);
}

/// A client whose link brings its WRITE slowly and without a pause. Hung up on, it would begin the same record anew, and for
/// ever.
#[test]
fn who_goes_on_slowly_comes_to_an_end() {
    let house = House::with(&ServeOptions { record_time_max: Duration::from_millis(400), ..ServeOptions::default() });
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    let xid = client.xid();
    let record = client.record(xid, NFS, Procedure::Write.number(), write_arguments(&file, 0, &vec![7; 300_000], 2));
    let bytes = [&(u32::try_from(record.len()).unwrap() | 1 << 31).to_be_bytes(), &record[..]].concat();
    for piece in bytes.chunks(10_000) {
        client.stream.write_all(piece).expect("it is hung up on");
        thread::sleep(Duration::from_millis(50));
    }
    let (answered, answer) = client.receive_answer();
    assert_eq!((answered, answer.status), (xid, 0));
    assert_eq!(house.server.stop(), 0);
}

/// The server ends while somebody takes no replies, and requests of his wait for that. Nothing will come of them, and whoever
/// waits for the pools to be put away does not wait for him.
#[test]
fn who_does_not_read_holds_up_no_end() {
    let patience = Duration::from_secs(5);
    let house =
        House::with(&ServeOptions { output_bytes_max: 64 << 10, stop_patience: patience, ..ServeOptions::default() });
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    assert_eq!(client.write(&file, 0, &vec![7; 256 << 10], 2).0, 0);
    for _ in 0..100 {
        let xid = client.xid();
        let read = words(|words| {
            words.opaque(&file).u64(0).u32(256 << 10);
        });
        client.send(xid, NFS, Procedure::Read.number(), read);
    }
    while house.server.held().debt_bytes == 0 {
        thread::yield_now();
    }
    thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    assert_eq!(house.server.stop(), 0, "of all that were begun");
    assert!(began.elapsed() < patience, "{:?}", began.elapsed());
}
