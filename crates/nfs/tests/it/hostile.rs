//! Bad input: what must be answered, what ends the connection, and what it may cost.

use std::io::{Read, Write};
use std::net::Shutdown;

use crate::support::House;
use crate::support::client::{Client, NFS, words};
use tally_base::{Rng, SystemRng};
use tally_nfs::v3::{PROCEDURE_COUNT, Procedure};
use tally_nfs::xdr::Encoder;

/// Header words of the reply behind the xid, for a call with nothing in it.
fn header(client: &mut Client, program: (u32, u32), procedure: u32) -> Vec<u32> {
    let xid = client.xid();
    client.send(xid, program, procedure, Encoder::new());
    let (answered, words) = client.receive_header().expect("never silence");
    assert_eq!(answered, xid);
    words
}

#[test]
fn what_we_do_not_have_is_said() {
    let house = House::new();
    let mut client = house.client();
    let cases: [((u32, u32), u32, &[u32]); 14] = [
        ((100_003, 2), 1, &[2, 3, 3]),
        ((100_003, 4), 1, &[2, 3, 3]),
        ((100_003, u32::MAX), 0, &[2, 3, 3]),
        ((100_003, 3), 22, &[3]),
        ((100_003, 3), u32::MAX, &[3]),
        ((100_005, 1), 1, &[2, 3, 3]),
        ((100_005, 3), 6, &[3]),
        ((100_024, 1), 0, &[1]),
        ((100_021, 3), 0, &[2, 4, 4]),
        ((100_021, 4), 7, &[3]),
        ((100_021, 4), 2, &[4]),
        ((100_227, 3), 0, &[1]),
        ((0, 0), 0, &[1]),
        ((100_003, 3), 1, &[4]),
    ];
    for (program, procedure, expected) in cases {
        let found = header(&mut client, program, procedure);
        assert_eq!(found[..4], [1, 0, 0, 0], "{program:?} {procedure}");
        assert_eq!(found[4..], *expected, "{program:?} {procedure}");
    }
}

#[test]
fn credentials_and_rpc_versions() {
    let house = House::new();
    let mut client = house.client();
    let mut answer = |change: fn(&mut Vec<u8>)| {
        let xid = client.xid();
        let mut record = client.record(xid, NFS, 0, Encoder::new());
        change(&mut record);
        client.send_record(&record);
        let (answered, words) = client.receive_header().expect("never silence");
        assert_eq!(answered, xid);
        words
    };
    assert_eq!(answer(|_| {}), [1, 0, 0, 0, 0]);
    assert_eq!(answer(|record| record[11] = 3), [1, 1, 0, 2, 2], "RPC version 3");
    assert_eq!(answer(|record| record[27] = 6), [1, 1, 1, 2], "RPCSEC_GSS");
    assert_eq!(answer(|record| record[31] = 200), [1, 1, 1, 1], "a credential beyond the record");
    assert_eq!(answer(|record| record.truncate(30)), [1, 1, 1, 1], "a credential cut off");
    let none = |record: &mut Vec<u8>| {
        record.truncate(24);
        record.extend([0; 16]);
    };
    assert_eq!(answer(none), [1, 0, 0, 0, 0], "AUTH_NONE");
}

/// Every procedure with its arguments cut off after each word: an error or garbage, and the connection lives.
#[test]
fn truncated_arguments() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    for procedure in Procedure::ALL {
        let full = words(|words| {
            words.opaque(&root).opaque(b"name").u32(1).u64(1).u32(8).opaque(&root).opaque(b"other");
        });
        let full = full.into_vec();
        for length in (0..full.len()).step_by(4) {
            let mut arguments = Encoder::new();
            arguments.raw(&full[..length]);
            let xid = client.xid();
            client.send(xid, NFS, procedure.number(), arguments);
            let (answered, found) = client.receive_header().expect("never silence");
            assert_eq!((answered, &found[..4]), (xid, &[1, 0, 0, 0][..]), "{procedure:?} cut at {length}");
            assert!(matches!(found[4], 0 | 4), "{procedure:?} cut at {length}: {found:?}");
        }
    }
}

#[test]
fn fragments_in_any_cut() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    for piece in [1, 3, 4, 7, 50, 1000] {
        let xid = client.xid();
        let arguments = words(|words| {
            words.opaque(&root);
        });
        let record = client.record(xid, NFS, Procedure::GetAttr.number(), arguments);
        let mut stream = Vec::new();
        for (at, fragment) in record.chunks(piece).enumerate() {
            let last = (at + 1) * piece >= record.len();
            let mark = u32::try_from(fragment.len()).unwrap() | u32::from(last) << 31;
            stream.extend(mark.to_be_bytes());
            stream.extend(fragment);
            // An empty fragment between them changes nothing.
            if !last {
                stream.extend([0; 4]);
            }
        }
        for segment in stream.chunks(piece + 1) {
            client.stream.write_all(segment).unwrap();
        }
        let (answered, answer) = client.receive_answer();
        assert_eq!((answered, answer.status), (xid, 0), "fragments of {piece}");
    }
}

#[test]
fn what_cannot_be_followed_ends_the_connection() {
    let house = House::new();
    let cases: [&[u8]; 5] = [
        &[0xff, 0xff, 0xff, 0xff],
        &[0x7f, 0xff, 0xff, 0xff],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x80, 0, 0, 0],
        &[0x80, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 1],
    ];
    for bytes in cases {
        let mut client = house.client();
        client.stream.write_all(bytes).unwrap();
        assert!(client.receive().is_none(), "{bytes:?}");
    }
    let mut client = house.client();
    assert_eq!(header(&mut client, NFS, 0)[4], 0, "the server lives");
}

/// 100,000 records of random bytes, most behind an honest header so that they get far.
#[test]
fn random_records() {
    let seed = SystemRng.next_u64();
    println!("seed {seed}");
    let mut state = seed | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let mut sent = 0;
    while sent < 100_000 {
        let mut client = house.client();
        let mut reader = client.stream.try_clone().unwrap();
        let drain = std::thread::spawn(move || {
            let mut sink = vec![0; 1 << 16];
            while reader.read(&mut sink).is_ok_and(|count| count > 0) {}
        });
        for _ in 0..5000 {
            sent += 1;
            let xid = client.xid();
            let length = usize::try_from(next() % 30).unwrap() * 4;
            let mut arguments = Encoder::new();
            if !next().is_multiple_of(4) {
                arguments.opaque(&root);
            }
            for _ in 0..length / 4 {
                // Small numbers pass for lengths, kinds and booleans.
                let word = if next() % 2 == 0 { next() % 4 } else { next() };
                arguments.u32(u32::try_from(word & 0xffff_ffff).unwrap());
            }
            let procedure = u32::try_from(next() % (PROCEDURE_COUNT as u64 + 1)).unwrap();
            let mut record = client.record(xid, NFS, procedure, arguments);
            if next() % 16 == 0 {
                let at = usize::try_from(next()).unwrap_or(0) % record.len();
                record[at] ^= 1 << (next() % 8);
            }
            let mark = u32::try_from(record.len()).unwrap() | 1 << 31;
            if client.stream.write_all(&[&mark.to_be_bytes(), &record[..]].concat()).is_err() {
                // It was closed for a record that is no call; the rest goes over another one.
                break;
            }
        }
        let _ = client.stream.shutdown(Shutdown::Write);
        drain.join().unwrap();
    }
    let stats = house.server.stats();
    assert_eq!(stats.panics.load(std::sync::atomic::Ordering::SeqCst), 0, "seed {seed}");
    assert_eq!(client.getattr(&root).0, 0, "the server lives; seed {seed}");
}
