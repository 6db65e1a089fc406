use proptest::prelude::*;

use super::*;

fn header() -> FrameHeader {
    FrameHeader {
        pool: PoolGuid(0x1111),
        lane: LaneId(2),
        epoch: 0x3333_4444,
        legset_gen: 5,
        pos: 0x6000,
        seq: 7,
        prev: 8,
        first_lsn: Lsn(90),
        record_count: 2,
        durable_lsn: Lsn(89),
        synced_txg: Txg(10),
        txg_max: Txg(12),
        payload_bytes: 96,
        payload_checksum: 13,
    }
}

#[test]
fn a_header_is_read_back() {
    let mut sector = [0; SECTOR];
    let checksum = header().encode(&mut sector);
    assert_eq!(FrameHeader::decode(&sector), Some((header(), checksum)));
}

#[test]
fn a_header_with_any_bit_flipped_is_none() {
    let mut sector = [0; SECTOR];
    header().encode(&mut sector);
    for bit in 0..HEADER_BYTES * 8 {
        let mut damaged = sector;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(FrameHeader::decode(&damaged), None, "bit {bit}");
    }
}

#[test]
fn headers_whose_numbers_cannot_be_are_none() {
    let cases: [fn(&mut FrameHeader); 5] = [
        |header| header.first_lsn = Lsn(u64::MAX),
        |header| header.seq = u64::MAX,
        |header| header.pos = u64::MAX - 100,
        |header| header.record_count = 4,
        |header| header.durable_lsn = Lsn(90),
    ];
    for (index, spoil) in cases.iter().enumerate() {
        let mut spoilt = header();
        spoil(&mut spoilt);
        let mut sector = [0; SECTOR];
        spoilt.encode(&mut sector);
        assert_eq!(FrameHeader::decode(&sector), None, "case {index}");
    }
}

/// One of format 1, and one of a program to come: who writes those sets a feature bit first.
#[test]
fn a_header_of_another_version_is_none() {
    for version in [1u32, 3] {
        let mut sector = [0; SECTOR];
        header().encode(&mut sector);
        sector[8..12].copy_from_slice(&version.to_le_bytes());
        let checksum = log_checksum(&sector[..HEADER_CHECKSUM_AT]);
        sector[HEADER_CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(FrameHeader::decode(&sector), None, "version {version}");
    }
}

/// What only a newer program understands is still a record of its dataset, with a place in its history.
#[test]
fn a_record_of_any_shape_is_found() {
    let (dataset, dseq, txg) = (DatasetId(3), Dseq(4), Txg(5));
    for shape in [RecordShape::PLAIN, RecordShape { form: 1, flags: 0 }, RecordShape { form: 7, flags: 0x81 }] {
        let head = RecordHead { dataset, dseq, txg, kind: 900, shape };
        let payload = [&encode_record_head(&head, 3)[..], &[1, 2, 3, 0, 0, 0, 0, 0]].concat();
        let mut found = Vec::new();
        let header = FrameHeader { record_count: 1, ..header() };
        decode_records(&header, &payload, |_, head, body| found.push((head, body))).unwrap();
        assert_eq!(found, [(head, 32..35)]);
        assert_eq!(payload[6..8], [shape.form, shape.flags]);
    }
}

#[test]
fn a_header_cut_short_is_none() {
    let mut sector = [0; SECTOR];
    header().encode(&mut sector);
    for length in 0..HEADER_BYTES {
        assert_eq!(FrameHeader::decode(&sector[..length]), None, "{length} bytes");
    }
}

#[test]
fn one_record_of_a_kibibyte_is_one_sector() {
    assert_eq!(frame_bytes(record_bytes(1024)), SECTOR as u64);
    assert_eq!(frame_bytes(record_bytes(SECTOR - HEADER_BYTES - RECORD_HEAD_BYTES)), SECTOR as u64);
    assert_eq!(frame_bytes(record_bytes(SECTOR - HEADER_BYTES - RECORD_HEAD_BYTES + 1)), 2 * SECTOR as u64);
}

proptest! {
    #[test]
    fn any_payload_parses_or_is_malformed(payload in proptest::collection::vec(any::<u8>(), 0..400), count in 0..10_u32) {
        let header = FrameHeader { record_count: count, ..header() };
        let _ = decode_records(&header, &payload, |_, _, body| assert!(body.end <= payload.len()));
    }

    #[test]
    fn any_sector_is_a_header_or_none(mut sector in proptest::collection::vec(any::<u8>(), 0..300), sound in any::<bool>()) {
        if sound && sector.len() >= HEADER_BYTES {
            sector[..8].copy_from_slice(&MAGIC.to_le_bytes());
            let checksum = log_checksum(&sector[..HEADER_CHECKSUM_AT]);
            sector[HEADER_CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        }
        if let Some((header, _)) = FrameHeader::decode(&sector) {
            let _ = (header.lsn_end(), header.frame_bytes());
        }
    }
}
