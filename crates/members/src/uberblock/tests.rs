use tally_base::Lsn;
use tally_fakes::MemDisk;

use super::*;
use crate::label::LABEL_BYTES;

/// An uberblock in which every field is something else than zero.
pub(crate) fn sample(open_gen: u64, txg: u64) -> Uberblock {
    let checkpoint = Checkpoint {
        epoch: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        tail_pos: 8192,
        tail_seq: 3,
        tail_prev: 0xabcd,
        next_lsn: Lsn(17),
        durable_lsn: Lsn(21),
        clean: true,
    };
    Uberblock {
        pool: PoolGuid(0x0123_4567_89ab_cdef),
        open_gen,
        txg: Txg(txg),
        previous: 0x7777,
        time: Time(1_700_000_000_000_000_000),
        time_lease: Time(1_700_000_010_000_000_000),
        root: (0..64).collect(),
        lanes: vec![(LaneId(0), checkpoint), (LaneId(4), checkpoint)],
        clean: true,
        config_sequence: 12,
    }
}

#[test]
fn an_uberblock_comes_back() {
    let full =
        Uberblock { root: vec![9; ROOT_BYTES_MAX], lanes: vec![sample(1, 1).lanes[0]; LANES_MAX], ..sample(1, 2) };
    let empty = Uberblock { root: Vec::new(), lanes: Vec::new(), clean: false, ..sample(1, 3) };
    for uberblock in [sample(2, 99), full, empty] {
        let sector = uberblock.encode();
        assert_eq!(sector.len(), SECTOR);
        assert_eq!(Uberblock::decode(&sector), Ok(uberblock));
    }
}

#[test]
fn every_damaged_byte_is_noticed() {
    let sector = sample(2, 99).encode();
    for at in 0..SECTOR {
        let mut damaged = sector.to_vec();
        damaged[at] ^= 0x40;
        assert!(Uberblock::decode(&damaged).is_err(), "byte {at}");
    }
    for length in [0, 8, SECTOR - 1] {
        assert!(Uberblock::decode(&sector[..length]).is_err(), "cut to {length} bytes");
    }
}

/// Nonsense under a right checksum: an error or an uberblock, never a panic or a large allocation.
#[test]
fn nonsense_with_a_right_checksum_does_not_panic() {
    let sector = sample(2, 99).encode();
    for at in 0..CHECKED_BYTES {
        for value in [0, 0x7f, 0xff] {
            let mut forged = sector.to_vec();
            forged[at] = value;
            let checksum = log_checksum(&forged[..CHECKED_BYTES]);
            forged[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
            if let Ok(uberblock) = Uberblock::decode(&forged) {
                let _ = uberblock.encode();
            }
        }
    }
}

#[test]
fn sixteen_are_kept_twice() {
    let disk = MemDisk::new(1 << 20);
    for txg in 1..=20 {
        for offset in slot_offsets(1 << 20, Txg(txg)).unwrap() {
            disk.write(offset, &sample(1, txg).encode(), tally_disk::Durability::Durable).unwrap();
        }
    }
    let slots = read_all(&disk);
    let mut txgs: Vec<_> = slots.iter().map(|slot| slot.content.clone().unwrap().unwrap().txg.0).collect();
    txgs.sort_unstable();
    assert_eq!(txgs, (5..=20).flat_map(|txg| [txg, txg]).collect::<Vec<_>>());
    let in_labels = |offset: u64| !(LABEL_BYTES..(1 << 20) - LABEL_BYTES).contains(&offset);
    assert!(slots.iter().all(|slot| in_labels(slot.offset)));
}

/// Whatever a device of sectors of 16 KiB loses with a torn write, it is none of the three before it.
#[test]
fn four_groups_in_a_row_share_no_sector_of_16_kib() {
    let place = |txg: u64| slot_offsets(1 << 20, Txg(txg)).unwrap().map(|offset| offset - UBERBLOCK_RING_OFFSET);
    let first = |txg: u64| place(txg)[0];
    assert_eq!([0, 1, 2, 3, 4, 5, 15, 16].map(first), [0, 0x4000, 0x8000, 0xc000, 0x1000, 0x5000, 0xf000, 0]);
    for txg in (0..100).chain((1 << 62) - 100..1 << 62) {
        let copies = place(txg);
        assert_eq!(copies[1] - copies[0], (1 << 20) - LABEL_BYTES, "the same place in both labels");
        for other in txg + 1..txg + 4 {
            assert_ne!(first(txg) / 0x4000, first(other) / 0x4000, "{txg} and {other}");
        }
        let all: std::collections::BTreeSet<_> = (txg..txg + 16).map(first).collect();
        assert_eq!(all.len(), 16, "sixteen are kept");
        assert!(all.iter().all(|at| at + SECTOR as u64 <= UBERBLOCK_SLOTS * SECTOR as u64));
    }
}

#[test]
fn hashes_differ() {
    assert_ne!(sample(1, 1).hash(), sample(1, 2).hash());
    assert_eq!(sample(1, 1).hash(), sample(1, 1).hash());
}

/// Format version 2, byte for byte; see the label's test of the same name.
#[test]
fn the_format_has_not_drifted() {
    let golden = include_bytes!("../../tests/golden/uberblock-v2.bin");
    assert_eq!(Uberblock::decode(golden), Ok(sample(2, 99)), "what version 2 wrote is still read");
    assert_eq!(*sample(2, 99).encode(), golden[..], "and still written");
}

#[test]
fn one_of_version_1_is_refused() {
    let golden = include_bytes!("../../tests/golden/uberblock-v1.bin");
    let refused = Uberblock::decode(golden).unwrap_err();
    assert_eq!(refused.to_string(), "malformed uberblock: of another format version");
}

/// Makes the golden file of a new version: `cargo test -p tally-members golden -- --ignored`.
#[test]
#[ignore = "writes the fixture"]
fn write_the_golden_uberblock() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/uberblock-v2.bin");
    std::fs::write(path, &*sample(2, 99).encode()).unwrap();
}
