use super::*;

fn lock_words(cookie: &[u8], (offset, length): (u64, u64)) -> Encoder {
    let mut out = Encoder::new();
    out.opaque(cookie).bool(true).bool(true);
    out.opaque(b"host").opaque(&[7; 40]).opaque(b"5@host").u32(5).u64(offset).u64(length).bool(false).u32(3);
    out
}

#[test]
fn a_lock_is_read_as_it_was_written() {
    let record: Bytes = lock_words(b"abcd", (10, 5)).into_vec().into();
    let read = Request::decode(procedure::LOCK, &mut Decoder::new(&record, 0)).unwrap();
    let Request::Lock(asked, how) = read else { panic!("{read:?}") };
    assert_eq!((asked.cookie, asked.host, asked.file), (&b"abcd"[..], &b"host"[..], &[7; 40][..]));
    assert_eq!(asked.process, Process { handle: b"5@host", number: 5 });
    assert_eq!((asked.range, asked.kind), (Range::between(10, 14), Kind::Write));
    assert_eq!(how, How { blocks: true, is_reclaim: false, state: 3 });
    let again = granted(asked.cookie, asked.host, asked.file, asked.process, (asked.range.unwrap(), asked.kind));
    let read = Request::decode(procedure::TEST, &mut Decoder::new(&again, 0)).unwrap();
    assert_eq!(read, Request::Test(asked));
}

#[test]
fn ranges_end_where_they_say() {
    for (said, then) in [
        ((0, 0), Range::between(0, u64::MAX)),
        ((7, 0), Range::between(7, u64::MAX)),
        ((7, 1), Range::between(7, 7)),
        ((u64::MAX, 1), Range::between(u64::MAX, u64::MAX)),
        ((u64::MAX, 2), None),
        ((2, u64::MAX), None),
    ] {
        assert_eq!(range(said.0, said.1), then, "{said:?}");
    }
    assert_eq!(length(Range::between(7, u64::MAX).unwrap()), 0);
    assert_eq!(length(Range::between(7, 7).unwrap()), 1);
}

/// Cut off anywhere, or with a cookie or a name that is too long, it is no call.
#[test]
fn what_is_cut_off_or_too_long_is_no_call() {
    let whole = lock_words(b"abcd", (0, 0)).into_vec();
    for length in 0..whole.len() {
        let record = Bytes::copy_from_slice(&whole[..length]);
        let read = Request::decode(procedure::LOCK, &mut Decoder::new(&record, 0));
        assert_eq!(read, Err(AcceptError::GarbageArguments), "{length}");
    }
    let record: Bytes = lock_words(&[1; COOKIE_BYTES_MAX + 1], (0, 0)).into_vec().into();
    let read = Request::decode(procedure::LOCK, &mut Decoder::new(&record, 0));
    assert_eq!(read, Err(AcceptError::GarbageArguments));
    let record: Bytes = whole.into();
    let read = Request::decode(99, &mut Decoder::new(&record, 0));
    assert_eq!(read, Err(AcceptError::ProcedureUnavailable));
}

#[test]
fn what_a_client_says_to_granted() {
    for (stat, then) in [(0, Some(true)), (1, Some(false)), (4, Some(false))] {
        let mut out = Encoder::new();
        out.opaque(b"abcd").u32(stat);
        assert_eq!(is_taken(&out.into_vec().into()), then);
    }
    assert_eq!(is_taken(&Bytes::from_static(b"\0\0")), None);
}
