use tally_base::{LaneId, Time, Txg, VdevIndex};
use tally_disk::{Host, MemDisk};

use super::*;

/// A configuration in which every field is something else than zero.
pub(crate) fn sample() -> PoolConfig {
    let leg = |guid: u64, path: &str, stale_since| LegConfig { guid: VdevGuid(guid), path: path.into(), stale_since };
    PoolConfig {
        pool: PoolGuid(0x0123_4567_89ab_cdef),
        name: "tank".into(),
        version: FORMAT_VERSION,
        features: Features::default(),
        vdevs: vec![
            VdevConfig {
                guid: VdevGuid(0x11),
                index: VdevIndex(0),
                class: VdevClass::Data,
                kind: VdevKind::Mirror,
                legs: vec![leg(0x21, "/dev/a", None), leg(0x22, "/dev/b", Some(4))],
                data_bytes: 15 << 20,
                ring: None,
                removed: false,
            },
            VdevConfig {
                guid: VdevGuid(0x12),
                index: VdevIndex(1),
                class: VdevClass::Log,
                kind: VdevKind::Disk,
                legs: vec![leg(0x23, "/dev/log", None)],
                data_bytes: 2 << 20,
                ring: Some(RingArea { start: 0, length: 2 << 20 }),
                removed: false,
            },
        ],
        lanes: vec![LaneConfigLine {
            lane: LaneId(3),
            vdev: VdevIndex(1),
            size: 2 << 20,
            frame_bytes_max: 256 << 10,
            frames_in_flight_max: 4,
            legset: vec![VdevGuid(0x23)],
            legset_gen: 2,
            left: vec![(VdevGuid(0x24), 1)],
        }],
        sequence: 5,
        open_gen: 2,
        open_id: 0xfeed,
        synced_txg: Txg(99),
        host: Host { id: 7, name: "here".into() },
        state: PoolState::Active,
        handle_key: [0x5a; 32],
        created: Time(1_700_000_000_000_000_000),
        supplement: Supplement::default(),
    }
}

fn with_sequence(sequence: u64) -> PoolConfig {
    PoolConfig { sequence, ..sample() }
}

const LEG: VdevGuid = VdevGuid(0x21);
const SIZE: u64 = 1 << 20;

#[test]
fn a_label_comes_back() {
    let disk = MemDisk::new(SIZE);
    assert_eq!(read(&disk), Err(Unreadable::NoLabel));
    write(&disk, LEG, &sample()).unwrap();
    assert_eq!(read(&disk), Ok(Label { leg: LEG, config: sample() }));
    wipe(&disk).unwrap();
    assert_eq!(read(&disk), Err(Unreadable::NoLabel));
}

/// Whatever a power cut leaves of the newest write, the one before is still there.
#[test]
fn a_torn_write_leaves_the_label_before_it() {
    let whole = MemDisk::new(SIZE);
    write(&whole, LEG, &with_sequence(8)).unwrap();
    let before = whole.content();
    write(&whole, LEG, &with_sequence(9)).unwrap();
    let after = whole.content();
    let changed: Vec<_> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
    // The write to the second label has not begun; the one to the first is cut after every changed byte.
    let second = usize::try_from(SIZE - LABEL_BYTES).unwrap();
    for cut in changed.iter().filter(|at| **at < second) {
        let mut torn = before.clone();
        torn[..*cut].copy_from_slice(&after[..*cut]);
        let label = read(&MemDisk::from_bytes(&torn)).unwrap();
        assert_eq!(label.config, with_sequence(8), "cut before byte {cut}");
    }
    let mut first_only = before;
    first_only[..second].copy_from_slice(&after[..second]);
    assert_eq!(read(&MemDisk::from_bytes(&first_only)).unwrap().config, with_sequence(9));
}

#[test]
fn every_damaged_byte_is_noticed() {
    let slot = encode(LEG, &sample()).unwrap();
    let payload_bytes = u32::from_le_bytes(slot[12..16].try_into().unwrap()) as usize;
    for at in 0..HEADER_BYTES + payload_bytes {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = slot.to_vec();
            damaged[at] ^= flip;
            assert!(decode(&damaged).is_err(), "byte {at} with {flip:#x}");
        }
    }
    for length in 0..HEADER_BYTES + payload_bytes {
        assert!(decode(&slot[..length]).is_err(), "cut to {length} bytes");
    }
}

/// Damage that comes with a right checksum, as a hostile or mad writer would make it: errors, and no panic.
#[test]
fn a_payload_of_nonsense_with_right_checksums_is_refused() {
    let slot = encode(LEG, &sample()).unwrap();
    let payload_bytes = u32::from_le_bytes(slot[12..16].try_into().unwrap()) as usize;
    for at in HEADER_BYTES..HEADER_BYTES + payload_bytes {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut forged = slot.to_vec();
            forged[at] = value;
            let payload = block_checksum(&forged[HEADER_BYTES..HEADER_BYTES + payload_bytes]);
            forged[72..88].copy_from_slice(&payload.to_le_bytes());
            let header = log_checksum(&forged[..HEADER_CHECKED_BYTES]);
            forged[88..96].copy_from_slice(&header.to_le_bytes());
            if let Ok(label) = decode(&forged) {
                assert_eq!(label.config.check(), Ok(()), "byte {at} as {value:#x}");
            }
        }
    }
}

type Spoil = fn(&mut PoolConfig);

/// What the checks of a configuration refuse, each by one change of a good one.
#[test]
fn parts_that_do_not_fit_are_refused() {
    let cases: [(&str, Spoil); 14] = [
        ("index", |config| config.vdevs[1].index = VdevIndex(5)),
        ("data size odd", |config| config.vdevs[0].data_bytes += 1),
        ("data size huge", |config| config.vdevs[0].data_bytes = 1 << 62),
        ("ring outside", |config| config.vdevs[1].ring = Some(RingArea { start: 4096, length: 2 << 20 })),
        ("ring wraps", |config| config.vdevs[1].ring = Some(RingArea { start: 4096, length: u64::MAX - 4095 })),
        ("no legs", |config| config.vdevs[0].legs.clear()),
        ("lane elsewhere", |config| config.lanes[0].vdev = VdevIndex(9)),
        ("lane too long", |config| config.lanes[0].size = 1 << 30),
        ("sequence", |config| config.sequence = u64::MAX),
        ("a lane twice", |config| config.lanes.push(config.lanes[0].clone())),
        // The first uberblock after the import could not name them all, and panicked.
        ("too many lanes", |config| {
            let (vdev, line) = (config.vdevs[1].clone(), config.lanes[0].clone());
            config.vdevs.extend((2..34).map(|index| VdevConfig { index: VdevIndex(index), ..vdev.clone() }));
            let line =
                |index: u16| LaneConfigLine { lane: LaneId(u64::from(index)), vdev: VdevIndex(index), ..line.clone() };
            config.lanes.extend((4..34).map(line).chain([line(2), line(0)]));
            config.vdevs[0].ring = config.vdevs[1].ring;
            config.lanes.iter_mut().for_each(|line| line.legset.clear());
        }),
        ("a leg set's generation", |config| config.lanes[0].legset_gen = u64::MAX),
        ("a generation that a leg left with", |config| config.lanes[0].left[0].1 = u64::MAX),
        ("a lane on another vdev's leg", |config| config.lanes[0].legset = vec![VdevGuid(0x21)]),
    ];
    for (name, spoil) in cases {
        let mut config = sample();
        spoil(&mut config);
        assert!(decode(&encode(LEG, &config).unwrap()).is_err(), "{name}");
    }
}

#[test]
fn a_newer_program_left_this_pool() {
    let disk = MemDisk::new(SIZE);
    write(&disk, LEG, &sample()).unwrap();
    write(&disk, LEG, &PoolConfig { version: FORMAT_VERSION + 1, ..with_sequence(6) }).unwrap();
    assert_eq!(read(&disk), Err(Unreadable::Version { version: FORMAT_VERSION + 1 }));

    let unknown = Features { compat: 1, ro_compat: 2, incompat: 4 };
    write(&disk, LEG, &PoolConfig { features: unknown, ..with_sequence(6) }).unwrap();
    assert_eq!(read(&disk), Err(Unreadable::Features { bits: 4 }));
}

#[test]
fn features_allow_what_ignorance_permits() {
    let known = Features { compat: 1, ro_compat: 1, incompat: 1 };
    for (compat, ro_compat, incompat, usable) in [
        (1, 1, 1, Usable::ReadWrite),
        (0xff, 0, 0, Usable::ReadWrite),
        (0, 3, 0, Usable::ReadOnly(2)),
        (0, 3, 6, Usable::No(6)),
    ] {
        assert_eq!(Features { compat, ro_compat, incompat }.usable_by(&known), usable);
    }
}

#[test]
fn disks_too_small_for_labels_are_no_legs() {
    for (size, data_bytes) in [
        (0, None),
        (2 * LABEL_BYTES, None),
        (2 * LABEL_BYTES + 4095, None),
        (2 * LABEL_BYTES + 4096, Some(4096)),
        (16 << 20, Some(15 << 20 | 512 << 10)),
    ] {
        assert_eq!(data_bytes_of(size), data_bytes, "{size}");
        let disk = MemDisk::new(size);
        assert_eq!(write(&disk, LEG, &sample()).is_ok(), data_bytes.is_some(), "{size}");
        assert_eq!(read(&disk).is_ok(), data_bytes.is_some(), "{size}");
    }
}

#[test]
fn a_configuration_that_does_not_fit_is_refused_before_anything_is_written() {
    let mut config = sample();
    config.vdevs[0].legs = (0..4000)
        .map(|guid| LegConfig { guid: VdevGuid(guid), path: "/a/path/of/some/length".into(), stale_since: None })
        .collect();
    assert!(matches!(encode(LEG, &config), Err(LabelError::TooLarge { .. })));
}

/// Format version 1, byte for byte. If this fails, pools in the field can no longer be read: raise the version
/// (or add a feature) and keep reading the old one.
#[test]
fn the_format_has_not_drifted() {
    let golden = include_bytes!("../../tests/golden/label-v1.bin");
    assert_eq!(decode(golden), Ok(Label { leg: LEG, config: sample() }), "what version 1 wrote is still read");
    assert_eq!(*encode(LEG, &sample()).unwrap(), golden[..], "and still written");
}

/// Makes the golden file of a new version: `cargo test -p tally-members golden -- --ignored`.
#[test]
#[ignore = "writes the fixture"]
fn write_the_golden_label() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/label-v1.bin");
    std::fs::write(path, &*encode(LEG, &sample()).unwrap()).unwrap();
}

/// The first pools had no supplement; a program that knows none must find its part of the payload as it was.
#[test]
fn a_supplement_follows_the_configuration_and_is_left_out_where_it_says_nothing() {
    let plain = sample();
    let mut config = sample();
    config.supplement_mut(|supplement| {
        supplement.failmode = FailMode::Continue;
        supplement.note_loss(Time(5), Txg(6), &["gone".into()]);
    });
    assert_eq!(config.features.compat, 1);
    let payload = |config: &PoolConfig| {
        let slot = encode(LEG, config).unwrap();
        let length = u32::from_le_bytes(slot[12..16].try_into().unwrap()) as usize;
        slot[HEADER_BYTES..HEADER_BYTES + length].to_vec()
    };
    let (without, with) = (payload(&plain), payload(&config));
    assert_eq!(without, postcard::to_stdvec(&plain).unwrap());
    let first_format: PoolConfig = postcard::from_bytes(&with).unwrap();
    assert_eq!(PoolConfig { supplement: config.supplement.clone(), ..first_format }, config);
    assert_eq!(decode(&encode(LEG, &config).unwrap()).unwrap().config, config);
    config.supplement_mut(|supplement| *supplement = Supplement::default());
    assert_eq!(payload(&config), without);
    assert_eq!(Supplement::decode(&[7; 9]), Supplement::default(), "what a newer program wrote does no harm");
}

#[test]
fn reports_of_losses_stay_within_their_room() {
    let mut config = sample();
    for number in 0..20 {
        let lines: Vec<String> = (0..50).map(|line| format!("{number}.{line} ") + &"ä".repeat(3000)).collect();
        config.supplement_mut(|supplement| supplement.note_loss(Time(number), Txg(number), &lines));
        config.supplement_mut(|supplement| supplement.note_loss(Time(number), Txg(number), &lines));
    }
    let losses = &config.supplement.losses;
    assert_eq!(losses.iter().map(|report| report.txg.0).collect::<Vec<_>>(), (12..20).collect::<Vec<_>>());
    assert_eq!(losses[7].lines.len(), 8);
    assert_eq!(losses[7].lines[7], "and 43 more");
    assert!(losses[7].lines[0].starts_with("19.0 ää"));
    assert_eq!(decode(&encode(LEG, &config).unwrap()).unwrap().config, config);
}
