use super::*;

fn sample() -> BlockPtr {
    BlockPtr {
        dva: Dva { vdev: VdevIndex(3), offset: 0x1_2345_6000, sectors: 2 },
        copy: Some(Dva { vdev: VdevIndex(4), offset: 0x7000, sectors: 2 }),
        in_pieces: false,
        lsize: 16384,
        psize: 5000,
        coding: Coding::Lz4,
        kind: BlockKind::Leaf,
        birth: Txg(77),
        written: Txg(76),
        checksum: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
    }
}

#[test]
fn what_is_encoded_is_decoded() {
    let in_pieces = BlockPtr { dva: Dva { sectors: 1, ..sample().dva }, copy: None, in_pieces: true, ..sample() };
    for pointer in [BlockPtr { copy: None, ..sample() }, sample(), in_pieces] {
        assert_eq!(BlockPtr::decode(&pointer.encode()), Ok(pointer));
        assert_eq!(BlockPtr::decode_option(&pointer.encode()), Ok(Some(pointer)));
    }
    assert_eq!(BlockPtr::decode_option(&BlockPtr::encode_option(None)), Ok(None));
}

#[test]
fn fields_stand_where_the_drawing_has_them() {
    let bytes = sample().encode();
    assert_eq!(bytes[0..10], [3, 0, 2, 0, 0x56, 0x34, 0x12, 0, 0, 0]);
    assert_eq!(bytes[10..20], [4, 0, 2, 0, 7, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[20..24], 16384_u32.to_le_bytes());
    assert_eq!(bytes[24..28], 5000_u32.to_le_bytes());
    assert_eq!(bytes[28..32], [1, 2, 1, 0]);
    assert_eq!((bytes[32], bytes[40]), (77, 76));
    assert_eq!(bytes[48], 0x77);
}

#[test]
fn damaged_fields_are_refused() {
    let raw = BlockPtr { coding: Coding::Raw, lsize: 8192, psize: 8192, ..sample() };
    assert!(BlockPtr::decode(&raw.encode()).is_ok());
    let cases: [(&str, BlockPtr); 14] = [
        ("on no vdev", BlockPtr { dva: Dva { vdev: VdevIndex::NONE, ..sample().dva }, ..sample() }),
        ("a copy on no vdev", BlockPtr { copy: Some(Dva { vdev: VdevIndex::NONE, ..sample().dva }), ..sample() }),
        ("asize 0", BlockPtr { dva: Dva { sectors: 0, ..sample().dva }, copy: None, ..sample() }),
        ("asize beyond psize", BlockPtr { dva: Dva { sectors: 3, ..sample().dva }, copy: None, ..sample() }),
        ("asize huge", BlockPtr { dva: Dva { sectors: 0xffff, ..sample().dva }, copy: None, ..sample() }),
        ("a shorter copy", BlockPtr { copy: Some(Dva { sectors: 1, ..sample().dva }), ..sample() }),
        ("a map as long as its block", BlockPtr { in_pieces: true, copy: None, ..sample() }),
        (
            "a map that is there twice",
            BlockPtr { dva: Dva { sectors: 1, ..sample().dva }, in_pieces: true, ..sample() },
        ),
        ("had before it was written", BlockPtr { birth: Txg(75), ..sample() }),
        ("lsize 0", BlockPtr { lsize: 0, ..sample() }),
        ("lsize beyond 16 MiB", BlockPtr { lsize: BLOCK_BYTES_MAX + 1, ..sample() }),
        ("psize 0", BlockPtr { psize: 0, ..sample() }),
        ("psize beyond lsize", BlockPtr { lsize: 4999, ..sample() }),
        ("raw, and yet smaller", BlockPtr { coding: Coding::Raw, ..sample() }),
    ];
    for (what, pointer) in cases {
        assert_eq!(BlockPtr::decode(&pointer.encode()), Err(Malformed(WHAT)), "{what}");
    }
    for (at, value, what) in
        [(28, 3, WHAT), (29, 0, WHAT), (29, 9, WHAT), (30, 0, NEWER), (30, 2, NEWER), (31, 2, NEWER), (31, 0x81, NEWER)]
    {
        let mut bytes = sample().encode();
        bytes[at] = value;
        assert_eq!(BlockPtr::decode(&bytes), Err(Malformed(what)), "byte {at} = {value}");
    }
}
