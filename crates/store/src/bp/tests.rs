use super::*;

fn sample() -> BlockPtr {
    BlockPtr {
        dva: Dva { vdev: 3, offset: 0x1_2345_6000, sectors: 2 },
        copy: Some(Dva { vdev: 4, offset: 0x7000, sectors: 2 }),
        lsize: 16384,
        psize: 5000,
        coding: Coding::Lz4,
        kind: BlockKind::Leaf,
        birth: Txg(77),
        checksum: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
    }
}

#[test]
fn what_is_encoded_is_decoded() {
    for copy in [None, sample().copy] {
        let pointer = BlockPtr { copy, ..sample() };
        assert_eq!(BlockPtr::decode(&pointer.encode()), Ok(pointer));
        assert_eq!(BlockPtr::decode_option(&pointer.encode()), Ok(Some(pointer)));
    }
    assert_eq!(BlockPtr::decode_option(&BlockPtr::encode_option(None)), Ok(None));
}

#[test]
fn fields_stand_where_the_drawing_has_them() {
    let bytes = sample().encode();
    assert_eq!(bytes[0..8], 0x1_2345_6000_u64.to_le_bytes());
    assert_eq!(bytes[16], 3);
    assert_eq!(bytes[20], 4);
    assert_eq!(bytes[24..28], 2_u32.to_le_bytes());
    assert_eq!(bytes[28..32], 16384_u32.to_le_bytes());
    assert_eq!(bytes[36..38], [1, 2]);
    assert_eq!(bytes[40], 77);
    assert_eq!(bytes[48], 0x77);
}

#[test]
fn damaged_fields_are_refused() {
    let raw = BlockPtr { coding: Coding::Raw, lsize: 8192, psize: 8192, ..sample() };
    assert!(BlockPtr::decode(&raw.encode()).is_ok());
    let cases: [(&str, BlockPtr); 10] = [
        ("asize 0", BlockPtr { dva: Dva { sectors: 0, ..sample().dva }, copy: None, ..sample() }),
        ("asize beyond psize", BlockPtr { dva: Dva { sectors: 3, ..sample().dva }, copy: None, ..sample() }),
        ("asize huge", BlockPtr { dva: Dva { sectors: u32::MAX, ..sample().dva }, copy: None, ..sample() }),
        ("lsize 0", BlockPtr { lsize: 0, ..sample() }),
        ("lsize beyond 16 MiB", BlockPtr { lsize: BLOCK_BYTES_MAX + 1, ..sample() }),
        ("psize 0", BlockPtr { psize: 0, ..sample() }),
        ("psize beyond lsize", BlockPtr { lsize: 4999, ..sample() }),
        ("raw, and yet smaller", BlockPtr { coding: Coding::Raw, ..sample() }),
        ("offset between sectors", BlockPtr { dva: Dva { offset: 1, ..sample().dva }, ..sample() }),
        ("offset overflows", BlockPtr { dva: Dva { offset: u64::MAX - 4095, ..sample().dva }, ..sample() }),
    ];
    for (what, pointer) in cases {
        assert_eq!(BlockPtr::decode(&pointer.encode()), Err(Malformed(WHAT)), "{what}");
    }
    for (at, value) in [(36, 3), (37, 0), (37, 10), (38, 1), (39, 1)] {
        let mut bytes = sample().encode();
        bytes[at] = value;
        assert_eq!(BlockPtr::decode(&bytes), Err(Malformed(WHAT)), "byte {at} = {value}");
    }
}
