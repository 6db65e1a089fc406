//! The lock manager that says no, over a socket. A v3 mount without `nolock` hung for ever at its first lock: the
//! client looked for a lock manager every three seconds, and there was none.

use crate::support::House;
use crate::support::client::{Client, words};
use tally_nfs::xdr::Encoder;

const NLM: (u32, u32) = (100_021, 4);
const COOKIE: &[u8] = b"cookie";
const GRANTED: u32 = 0;
const DENIED: u32 = 1;
const DENIED_NOLOCKS: u32 = 2;

/// What follows the cookie in the answer.
fn ask(client: &mut Client, procedure: u32, arguments: Encoder) -> (Vec<u8>, Vec<u32>) {
    let xid = client.xid();
    client.send(xid, NLM, procedure, arguments);
    let record = client.receive().expect("an answer");
    let mut reply = tally_nfs::xdr::Decoder::new(&record, 0);
    let header: Vec<u32> = (0..6).map(|_| reply.u32().unwrap()).collect();
    assert_eq!(header, [xid, 1, 0, 0, 0, 0]);
    let cookie = reply.opaque(1024).map(<[u8]>::to_vec).unwrap_or_default();
    (cookie, std::iter::from_fn(|| reply.u32().ok()).collect())
}

/// `nlm4_lock`: who, what, from where to where.
fn lock(words: &mut Encoder) {
    words.opaque(b"host").opaque(&[1; 32]).opaque(b"7@host").u32(7).u64(0).u64(u64::MAX);
}

#[test]
fn a_lock_is_refused_at_once_and_what_gives_up_a_lock_is_not() {
    let house = House::new();
    let mut client = house.client();
    let cases: [(u32, &str, &[u32]); 9] = [
        (1, "TEST", &[DENIED_NOLOCKS]),
        (2, "LOCK", &[DENIED_NOLOCKS]),
        (3, "CANCEL", &[DENIED]),
        (4, "UNLOCK", &[GRANTED]),
        (5, "GRANTED", &[DENIED]),
        (20, "SHARE", &[DENIED_NOLOCKS, 0]),
        (21, "UNSHARE", &[GRANTED, 0]),
        (22, "NM_LOCK", &[DENIED_NOLOCKS]),
        (2, "LOCK again", &[DENIED_NOLOCKS]),
    ];
    for (procedure, name, expected) in cases {
        let arguments = words(|words| {
            words.opaque(COOKIE).bool(true).bool(true);
            lock(words);
            words.bool(false).u32(3);
        });
        let (cookie, rest) = ask(&mut client, procedure, arguments);
        assert_eq!((&cookie[..], &rest[..]), (COOKIE, expected), "{name}");
    }
    assert_eq!(ask(&mut client, 0, Encoder::new()), (vec![], vec![]), "NULL");
    let free_all = words(|words| {
        words.opaque(b"host").u32(5);
    });
    assert_eq!(ask(&mut client, 23, free_all), (vec![], vec![]), "FREE_ALL");
    assert_eq!(house.server.stop(), 0);
}
