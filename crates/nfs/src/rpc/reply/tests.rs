use super::*;

fn bytes(reply: &Reply, skip: usize) -> Vec<u8> {
    let mut slices = Vec::new();
    reply.slices(skip, &mut slices);
    slices.iter().flat_map(|slice| slice.to_vec()).collect()
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

#[test]
fn headers_byte_by_byte() {
    let mark = |bytes: u32| bytes | 0x8000_0000;
    let mut results = Encoder::new();
    results.u32(7);
    let cases = [
        (Reply::success(5, results), words(&[mark(28), 5, 1, 0, 0, 0, 0, 7])),
        (Reply::accept_error(5, AcceptError::ProgramUnavailable), words(&[mark(24), 5, 1, 0, 0, 0, 1])),
        (
            Reply::accept_error(5, AcceptError::ProgramMismatch { low: 3, high: 3 }),
            words(&[mark(32), 5, 1, 0, 0, 0, 2, 3, 3]),
        ),
        (Reply::accept_error(5, AcceptError::ProcedureUnavailable), words(&[mark(24), 5, 1, 0, 0, 0, 3])),
        (Reply::accept_error(5, AcceptError::GarbageArguments), words(&[mark(24), 5, 1, 0, 0, 0, 4])),
        (Reply::accept_error(5, AcceptError::SystemError), words(&[mark(24), 5, 1, 0, 0, 0, 5])),
        (Reply::rpc_mismatch(5), words(&[mark(24), 5, 1, 1, 0, 2, 2])),
        (Reply::auth_error(5, AuthProblem::BadCredential), words(&[mark(20), 5, 1, 1, 1, 1])),
    ];
    for (reply, expected) in cases {
        assert_eq!(bytes(&reply, 0), expected);
        assert_eq!(reply.wire_bytes(), expected.len());
    }
}

#[test]
fn shared_bytes_stand_between_words_padded_and_can_be_resumed_anywhere() {
    let mut results = Encoder::new();
    results.u32(5).opaque_shared(["abc", "de"].map(|piece| Bytes::from_static(piece.as_bytes())));
    results.opaque_shared([]).u32(6).opaque_shared([Bytes::from_static(b"four")]);
    let reply = Reply::success(9, results);
    let results = [words(&[5, 5]), b"abcde\0\0\0".to_vec(), words(&[0, 6, 4]), b"four".to_vec()].concat();
    let whole = [words(&[0x8000_0000 | 56, 9, 1, 0, 0, 0, 0]), results].concat();
    assert_eq!(reply.wire_bytes(), whole.len());
    for skip in 0..=whole.len() {
        assert_eq!(bytes(&reply, skip), whole[skip..], "from {skip}");
    }
}
