use std::net::TcpListener;
use std::thread;

use super::*;

/// What a client makes of a server that answers every call with these bytes, the transaction id aside.
fn answered(reply: Vec<u8>) -> Result<Written> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut mark = [0; 4];
        stream.read_exact(&mut mark).unwrap();
        let mut request = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        stream.read_exact(&mut request).unwrap();
        // The client may have heard enough before the end.
        let _ = stream.write_all(&reply);
    });
    let outcome = Connection::open(address)?.write(&Handle(vec![1; 8]), 0, b"data", Stable::FileSync);
    server.join().unwrap();
    outcome
}

/// A record of these numbers, in fragments of so many.
fn record(numbers: &[u32], each: usize) -> Vec<u8> {
    let fragments = numbers.chunks(each);
    let count = fragments.len();
    let fragment = |(index, numbers): (usize, &[u32])| {
        let mark = (numbers.len() * 4) as u32 | if index + 1 == count { 1 << 31 } else { 0 };
        [&[mark], numbers].concat()
    };
    fragments.enumerate().flat_map(fragment).flat_map(u32::to_be_bytes).collect()
}

/// xid, reply, accepted, no verifier, success; WRITE: OK, no attributes twice, count, FILE_SYNC, verifier.
const GOOD: [u32; 12] = [7, 1, 0, 0, 0, 0, 0, 0, 4, 2, 0, 9];

fn good(change: impl FnOnce(&mut Vec<u32>)) -> Vec<u32> {
    let mut numbers = GOOD.to_vec();
    // No attributes before, none after.
    numbers.insert(7, 0);
    change(&mut numbers);
    numbers
}

#[test]
fn replies_come_whole_or_in_fragments() {
    for each in [1, 5, 100] {
        let written = answered(record(&good(|_| {}), each)).unwrap();
        assert_eq!(written, Written { count: 4, committed: Stable::FileSync, verifier: 9 });
    }
}

#[test]
fn replies_that_make_no_sense_are_errors() {
    let endless: Vec<u8> = [0; 4].repeat(FRAGMENTS_MAX + 1);
    let changed = |at: usize, value: u32| record(&good(|numbers| numbers[at] = value), 100);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("nothing", vec![], "connection broke"),
        ("a record cut short", record(&GOOD, 100)[..20].to_vec(), "connection broke"),
        ("a long record", (u32::MAX >> 1).to_be_bytes().to_vec(), "bytes or more"),
        ("fragments without end", endless, "fragments"),
        ("an empty record", record(&[], 1), "connection broke"),
        ("too few numbers", record(&[7, 1, 0], 100), "too short"),
        ("a call", changed(1, 0), "no reply"),
        ("denied", changed(2, 1), "credentials"),
        ("a verifier of 3 GiB", changed(4, 3 << 30), "opaque"),
        ("no such program", changed(5, 1), "not offered"),
        ("refused", changed(6, 28), "NFS3ERR_NOSPC"),
        ("another count", changed(9, 3), "took 3"),
        ("less stable than asked", changed(10, 0), "asked for FileSync"),
        ("a stability that does not exist", changed(10, 7), "stability of 7"),
    ];
    for (name, reply, expected) in cases {
        let error = format!("{:#}", answered(reply).unwrap_err());
        assert!(error.contains(expected), "{name}: {error}");
    }
}
