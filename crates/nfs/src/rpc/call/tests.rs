use super::*;
use crate::rpc::reply::Reply;

const fn word(value: u32) -> [u8; 4] {
    value.to_be_bytes()
}

/// xid, CALL, RPC 2, NFS 3, GETATTR, then AUTH_SYS {stamp 5, "ab", 1000, 100, [4, 24]}, no verifier, one word.
fn sample() -> Vec<u8> {
    let head = [0x1122_3344, 0, 2, 100_003, 3, 1, 1, 32, 5, 2].map(word).concat();
    let tail = [1000, 100, 2, 4, 24, 0, 0, 99].map(word).concat();
    [head, b"ab\0\0".to_vec(), tail].concat()
}

#[test]
fn a_call_is_read_byte_by_byte() {
    let call = Call::parse(sample().into()).unwrap();
    assert_eq!((call.xid, call.program, call.version, call.procedure), (0x1122_3344, 100_003, 3, 1));
    assert_eq!(
        call.identity,
        Identity::Unix(Cred { uid: 1000, gid: 100, groups: SmallVec::from_slice(&[4, 24]), checked: false })
    );
    assert_eq!(call.arguments().u32(), Ok(99));
}

#[test]
fn every_truncation_is_refused_and_none_panics() {
    let whole = sample();
    for length in 0..whole.len() - 4 {
        let refused = Call::parse(whole[..length].to_vec().into());
        assert!(refused.is_err(), "{length} bytes were taken for a call");
        assert_eq!(matches!(refused, Err(Refusal::NotACall)), length < 24, "{length} bytes");
    }
}

#[test]
fn wrong_headers_get_their_answers() {
    let change = |at: usize, value: u32| {
        let mut bytes = sample();
        bytes[at..at + 4].copy_from_slice(&word(value));
        match Call::parse(bytes.into()) {
            Err(Refusal::Answer(reply)) => Some(*reply),
            Err(Refusal::NotACall) => None,
            Ok(_) => panic!("accepted with {value} at {at}"),
        }
    };
    let xid = 0x1122_3344;
    assert_eq!(change(4, 1), None, "a reply is no call");
    assert_eq!(change(8, 3), Some(Reply::rpc_mismatch(xid)));
    assert_eq!(change(24, 6), Some(Reply::auth_error(xid, AuthProblem::RejectedCredential)), "RPCSEC_GSS");
    assert_eq!(change(28, 401), Some(Reply::auth_error(xid, AuthProblem::BadCredential)));
    assert_eq!(change(36, 256), Some(Reply::auth_error(xid, AuthProblem::BadCredential)), "machine name");
    assert_eq!(change(52, 17), Some(Reply::auth_error(xid, AuthProblem::BadCredential)), "groups");
    assert_eq!(change(68, 4096), Some(Reply::auth_error(xid, AuthProblem::BadVerifier)));
}

#[test]
fn the_fingerprint_is_of_ids_and_arguments() {
    let print = |bytes: Vec<u8>| Call::parse(bytes.into()).unwrap().fingerprint(None);
    let changed = |at: usize| {
        let mut bytes = sample();
        bytes[at + 3] ^= 1;
        print(bytes)
    };
    assert_eq!(changed(0), print(sample()), "the xid is a part of the key of its own");
    assert_eq!(changed(32), print(sample()), "the time stamp does not count");
    for at in [44, 48, 56, 60, 72] {
        assert_ne!(changed(at), print(sample()), "byte {at}");
    }
}

/// Of requests in persistent sessions it stands in pools, over restarts and builds (rules V5): a build that gives another value knows none of those before it.
#[test]
fn the_fingerprint_is_what_it_was() {
    let call = Call::parse(sample().into()).unwrap();
    assert_eq!(call.fingerprint(None), 0xa755_1a7c_6623_0580);
    assert_eq!(call.fingerprint(Some(7)), 0x9d69_6f7e_ff56_9e1f);
    // What follows SEQUENCE, of root: PUTROOTFH, LOOKUP of "tank", CREATE of a directory "d" with mode 755.
    let head = [1, 0, 2, 100_003, 4, 1, 1, 24, 0, 4].map(word).concat();
    let ids = [0, 0, 0, 0, 0].map(word).concat();
    let ops = [24, 15, 4].map(word).concat();
    let create = [6, 2, 1].map(word).concat();
    let attributes = [2, 0, 2, 4, 0o755].map(word).concat();
    let arguments = [&ops[..], b"tank", &create, b"d\0\0\0", &attributes].concat();
    let call = Call::parse([&head[..], b"test", &ids, &arguments].concat().into()).unwrap();
    assert_eq!(call.fingerprint(None), 0xc830_41fb_8e3b_52ba);
}
