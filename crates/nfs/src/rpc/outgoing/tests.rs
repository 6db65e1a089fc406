use super::*;
use crate::rpc::{Call, Identity};

fn outgoing() -> Outgoing {
    let arguments = Bytes::from_static(&[0, 0, 0, 9]);
    Outgoing { program: 0x4000_0000, version: 1, procedure: 1, caller: Caller::Nobody, arguments }
}

fn bytes_of(reply: &Reply) -> Bytes {
    let mut slices = Vec::new();
    reply.slices(4, &mut slices);
    slices.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<_>>().into()
}

fn record(words: &[u32]) -> Bytes {
    words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>().into()
}

#[test]
fn a_call_of_ours_is_one_that_we_would_understand() {
    let calls = Calls::numbered_from(7);
    let mut cred = Encoder::new();
    cred.u32(1).opaque(b"client").u32(3).u32(4).u32(0);
    for (caller, is_unix) in [(Caller::Nobody, false), (Caller::Unix(cred.into_vec().into()), true)] {
        let sent = bytes_of(&calls.begin(&Outgoing { caller, ..outgoing() }, ()).unwrap());
        assert!(!is_reply(&sent));
        let call = Call::parse(sent).unwrap();
        assert_eq!((call.program, call.version, call.procedure), (0x4000_0000, 1, 1));
        assert_eq!(matches!(&call.identity, Identity::Unix(cred) if (cred.uid, cred.gid) == (3, 4)), is_unix);
        assert_eq!(call.arguments().u32(), Ok(9));
    }
}

#[test]
fn a_reply_is_told_by_what_it_says() {
    for (said, returned) in [
        (&[0, 0, 0, 0, 77][..], Returned::Results(record(&[77]))),
        (&[0, 0, 0, 0], Returned::Results(Bytes::new())),
        (&[0, 0, 0, 1], Returned::Refused),
        (&[0, 0, 0, 2, 1, 1], Returned::Refused),
        (&[0, 0, 0, 6], Returned::Garbage),
        (&[1, 1, 5], Returned::Refused),
        (&[2], Returned::Garbage),
        (&[0, 0, 500], Returned::Garbage),
        (&[], Returned::Garbage),
    ] {
        let calls = Calls::numbered_from(u32::MAX);
        calls.begin(&outgoing(), "a call").unwrap();
        let reply = record(&[&[u32::MAX, 1], said].concat());
        assert!(is_reply(&reply));
        assert_eq!(calls.returned(&reply), Matched::With("a call", returned), "{said:?}");
    }
}

#[test]
fn the_tenth_reply_to_nothing_is_enough_and_those_to_calls_do_not_count() {
    let calls = Calls::numbered_from(1);
    let reply = |xid| record(&[xid, 1, 0, 0, 0, 0]);
    for nth in 1..=9 {
        calls.begin(&outgoing(), nth).unwrap();
        assert!(matches!(calls.returned(&reply(nth)), Matched::With(known, _) if known == nth));
        assert_eq!(calls.returned(&reply(nth)), Matched::Nothing { is_enough: false }, "it comes twice");
    }
    assert_eq!(calls.returned(&Bytes::new()), Matched::Nothing { is_enough: true });
}

#[test]
fn so_many_wait_and_none_behind_the_end() {
    let calls = Calls::numbered_from(1);
    (0..WAITING_MAX).for_each(|nth| drop(calls.begin(&outgoing(), nth).unwrap()));
    assert_eq!(calls.begin(&outgoing(), WAITING_MAX), Err(WAITING_MAX));
    assert_eq!(calls.close().len(), WAITING_MAX);
    assert_eq!(calls.begin(&outgoing(), 0), Err(0));
}
