use tally_base::{LaneId, Time, Txg, VdevIndex};
use tally_disk::Host;
use tally_fakes::MemDisk;

use super::*;

/// A configuration in which every field is something else than zero.
pub(crate) fn sample() -> PoolConfig {
    let leg = |guid: u64, path: &str, stale_since, missed: &[(u64, u64)]| {
        let mut leg = LegConfig {
            guid: VdevGuid(guid),
            path: path.into(),
            stale_since,
            is_offline: false,
            slot: 0,
            size: (1 << 40) + (guid << 12),
            joined_txg: Txg(0x31 + guid),
            missed: MissedGroups::default(),
        };
        missed.iter().for_each(|(from, to)| leg.missed.note(TxgRange { from: Txg(*from), to: Txg(*to) }));
        leg
    };
    PoolConfig {
        pool: PoolGuid(0x0123_4567_89ab_cdef),
        name: "tank".into(),
        features: Features::default(),
        feature_notes: FeatureNotes::default(),
        vdevs: vec![
            VdevConfig {
                guid: VdevGuid(0x11),
                index: VdevIndex(0),
                class: VdevClass::Data,
                kind: VdevKind::Mirror,
                legs: vec![
                    leg(0x21, "/dev/a", None, &[]),
                    leg(0x22, "/dev/b", Some(4), &[(0x41, 0x42), (0x51, u64::MAX)]),
                ],
                data_bytes: 15 << 20,
                ring: None,
                removed: false,
            },
            VdevConfig {
                guid: VdevGuid(0x12),
                index: VdevIndex(1),
                class: VdevClass::Log,
                kind: VdevKind::Disk,
                legs: vec![leg(0x23, "/dev/log", None, &[])],
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
        rewinds: Vec::new(),
        hang_limit: HangLimit::Auto,
        spares: Vec::new(),
        supplement: Supplement {
            failmode: FailMode::Continue,
            losses: vec![LossReport { time: Time(5), txg: Txg(6), lines: vec!["gone".into(), "lost".into()] }],
        },
        carried: vec![Section { id: 900, must_be_known: false, bytes: vec![1, 2, 3] }],
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
            let expected = if at < MAGIC.len() { Bad::NoLabel } else { Bad::Damaged };
            assert_eq!(decode(&damaged), Err(expected), "byte {at} with {flip:#x}");
        }
    }
    for length in 0..HEADER_BYTES + payload_bytes {
        assert!(decode(&slot[..length]).is_err(), "cut to {length} bytes");
    }
}

/// Of slots that nobody wrote, that are damaged, and that say what cannot be, the last say most; and one that is whole speaks for all.
#[test]
fn what_is_damaged_is_told_from_what_was_never_written() {
    let cannot_be = forged_payload();
    let cases: [(&[Slot], Result<u64, &str>); 7] = [
        (&[], Err("no valid label")),
        (&[Slot::Foreign; 4], Err("no valid label")),
        (&[Slot::Damaged], Err("damaged")),
        (&[Slot::Foreign, Slot::Damaged, Slot::Damaged, Slot::Foreign], Err("damaged")),
        (&[Slot::CannotBe, Slot::Damaged], Err("a section that is longer")),
        (&[Slot::Damaged, Slot::CannotBe], Err("a section that is longer")),
        (&[Slot::Damaged, Slot::CannotBe, Slot::Whole], Ok(8)),
    ];
    for (written, expected) in cases {
        let disk = MemDisk::new(SIZE);
        for ((_, _, offset), slot) in slots(&disk).zip(written) {
            let mut bytes = encode(LEG, &with_sequence(8)).unwrap().to_vec();
            match slot {
                Slot::Whole => {}
                Slot::Foreign => bytes[..8].copy_from_slice(b"NOTTALLY"),
                Slot::Damaged => bytes[40] ^= 1,
                Slot::CannotBe => bytes.clone_from(&cannot_be),
            }
            bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
            disk.write(offset, &bytes, Durability::Durable).unwrap();
        }
        match (read(&disk), expected) {
            (Ok(label), Ok(sequence)) => assert_eq!(label.config.sequence, sequence),
            (Err(why), Err(words)) => assert!(why.to_string().contains(words), "{why}"),
            (found, _) => panic!("{found:?} where there should be {expected:?}"),
        }
    }
}

#[derive(Clone, Copy)]
enum Slot {
    Whole,
    Foreign,
    Damaged,
    CannotBe,
}

/// Right checksums above a section of two gibibytes.
fn forged_payload() -> Vec<u8> {
    let mut payload = sections_of(&sample()).concat();
    payload[4..8].copy_from_slice(&(1_u32 << 31).to_le_bytes());
    sealed(&payload)
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
            seal_header(&mut forged);
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
    let cases: [(&str, Spoil); 18] = [
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
        ("a slot", |config| config.vdevs[0].legs[1].slot = 1),
        ("a size that ends within a sector", |config| config.vdevs[0].legs[1].size += 1),
        ("a size beyond all", |config| config.vdevs[0].legs[1].size = 1 << 62),
        ("a group beyond all", |config| config.vdevs[0].legs[1].joined_txg = Txg(1 << 62)),
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
    let mut newer = encode(LEG, &with_sequence(6)).unwrap();
    newer[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
    seal_header(&mut newer);
    write_encoded(&disk, 6, &newer).unwrap();
    assert_eq!(read(&disk), Err(Unreadable::Version { version: FORMAT_VERSION + 1 }));

    let unknown = Features { compat: 1, ro_compat: 2, incompat: 4 };
    write(&disk, LEG, &PoolConfig { features: unknown, ..with_sequence(6) }).unwrap();
    assert!(matches!(read(&disk), Err(Unreadable::Features { unknown }) if unknown[0].bit == 2));
}

/// Whoever exchanges two sets, in what is written and in what is read, reads his own labels still.
#[test]
fn each_set_of_features_and_each_state_has_its_place() {
    let read_again = |config: &PoolConfig| decode(&encode(LEG, config).unwrap());
    for (features, bytes) in [
        (Features { compat: 1, ro_compat: 2, incompat: 0 }, [1, 2, 0]),
        (Features { compat: 1, ro_compat: 2, incompat: 4 }, [1, 2, 4]),
    ] {
        let config = PoolConfig { features, ..sample() };
        let slot = encode(LEG, &config).unwrap();
        assert_eq!(slot[32..56], bytes.map(u64::to_le_bytes).concat(), "{features}");
        let expected = match features.incompat {
            0 => Ok(Label { leg: LEG, config: config.clone() }),
            _ => {
                Err(Bad::Unknown(Unreadable::Features { unknown: config.feature_notes.tell(FeatureSet::Incompat, 4) }))
            }
        };
        assert_eq!(read_again(&config), expected);
    }
    // Behind the section's head, three numbers of the pool.
    const STATE: usize = HEADER_BYTES + 8 + 24;
    for (state, byte) in [(PoolState::Active, 0), (PoolState::Exported, 1), (PoolState::Destroyed, 2)] {
        let config = PoolConfig { state, ..sample() };
        assert_eq!(encode(LEG, &config).unwrap()[STATE], byte, "{state:?}");
        assert_eq!(read_again(&config).unwrap().config.state, state);
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
        .map(|guid| LegConfig {
            guid: VdevGuid(guid),
            path: "/a/path/of/some/length".into(),
            ..config.vdevs[0].legs[0].clone()
        })
        .collect();
    assert!(matches!(encode(LEG, &config), Err(LabelError::TooLarge { .. })));
}

/// Format version 2, byte for byte. If this fails, pools in the field can no longer be read: add a section (or a feature, or
/// raise the version) and keep reading the old ones.
#[test]
fn the_format_has_not_drifted() {
    let golden = include_bytes!("../../tests/golden/label-v2.bin");
    assert_eq!(decode(golden), Ok(Label { leg: LEG, config: sample() }), "what version 2 wrote is still read");
    assert_eq!(*encode(LEG, &sample()).unwrap(), golden[..], "and still written");
}

/// Makes the golden file of a new version: `cargo test -p tally-members golden -- --ignored`.
#[test]
#[ignore = "writes the fixture"]
fn write_the_golden_label() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/label-v2.bin");
    std::fs::write(path, &*encode(LEG, &sample()).unwrap()).unwrap();
}

/// A label as format 1 had it: one struct as postcard.
pub(crate) const LABEL_OF_VERSION_1: &[u8] = include_bytes!("../../tests/golden/label-v1.bin");

#[test]
fn version_1_is_refused_with_a_sentence_of_its_own() {
    let disk = MemDisk::new(SIZE);
    disk.write(0, LABEL_OF_VERSION_1, Durability::Durable).unwrap();
    let refused = read(&disk).unwrap_err();
    assert_eq!(refused, Unreadable::OldVersion { version: 1 });
    assert_eq!(
        refused.to_string(),
        "it was made by a version before 0.1.0, in format 1, and this program cannot read that; copy its content with the \
         program that made it"
    );
    // Beside a label of ours it is no history either: nobody knows which of the two programs was the last one.
    write(&disk, LEG, &with_sequence(9)).unwrap();
    disk.write(0, LABEL_OF_VERSION_1, Durability::Durable).unwrap();
    assert_eq!(read(&disk), Err(Unreadable::OldVersion { version: 1 }));
}

/// A slot with this payload and right checksums.
fn sealed(payload: &[u8]) -> Vec<u8> {
    let mut slot = encode(LEG, &sample()).unwrap()[..HEADER_BYTES].to_vec();
    slot[12..16].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
    slot[72..88].copy_from_slice(&block_checksum(payload).to_le_bytes());
    seal_header(&mut slot);
    [&slot, payload].concat()
}

/// Makes a header's checksum right.
fn seal_header(slot: &mut [u8]) {
    let header = log_checksum(&slot[..HEADER_CHECKED_BYTES]);
    slot[HEADER_CHECKED_BYTES..HEADER_BYTES].copy_from_slice(&header.to_le_bytes());
}

fn section(id: u16, flags: u16, bytes: &[u8]) -> Vec<u8> {
    let mut section = Vec::new();
    section.put_u16(id);
    section.put_u16(flags);
    section.put_blob(bytes);
    section
}

/// The sections of the sample's payload, each with its head.
fn sections_of(config: &PoolConfig) -> Vec<Vec<u8>> {
    let payload = encoding::encode(config).unwrap();
    let parts = sections::split(&payload).unwrap();
    parts.iter().map(|part| section(part.id, u16::from(part.must_be_known), &part.bytes)).collect()
}

fn refusal(payload: &[u8]) -> String {
    decode(&sealed(payload)).unwrap_err().to_string()
}

#[test]
fn sections_follow_each_other_in_order_and_the_bytes_of_each_are_told() {
    let of_sample = sections_of(&sample());
    let ids: Vec<_> = of_sample.iter().map(|section| section[0] as u16 | u16::from(section[1]) << 8).collect();
    assert_eq!(ids, [1, 2, 3, 4, 900]);
    assert_eq!(of_sample[4], [0x84, 3, 0, 0, 3, 0, 0, 0, 1, 2, 3]);
    let plain = PoolConfig { supplement: Supplement::default(), carried: Vec::new(), ..sample() };
    assert_eq!(sections_of(&plain), of_sample[..3], "a supplement that says nothing is not there");
    assert_eq!(decode(&sealed(&of_sample.concat())).unwrap().config, sample());
    assert_eq!(decode(&sealed(&of_sample[..3].concat())).unwrap().config, plain);
}

#[test]
fn sections_that_are_none_are_damage() {
    let good = sections_of(&sample());
    let with = |at: usize, section: Vec<u8>| {
        let mut sections = good.clone();
        sections[at] = section;
        sections.concat()
    };
    let behind = |bytes: &[u8]| [&good.concat(), bytes].concat();
    let without = |at: usize| {
        let mut sections = good.clone();
        sections.remove(at);
        sections.concat()
    };
    let longer =
        |at: usize| with(at, section(good[at][0].into(), good[at][2].into(), &[&good[at][8..], &[0]].concat()));
    let of_length = |at: usize, length: u32| {
        let mut section = good[at].clone();
        section[4..8].copy_from_slice(&length.to_le_bytes());
        with(at, section)
    };
    let too_long = "malformed label: a section that is longer than what is left of the label";
    let twice = "malformed label: a section that is there twice";
    let cases = [
        ("2 GiB", of_length(0, 1 << 31), too_long),
        ("4 GiB", of_length(4, u32::MAX), too_long),
        ("a byte too long", of_length(4, 4), too_long),
        ("a byte too short", of_length(4, 2), "malformed label: bytes behind its last section"),
        ("a byte behind the last one", behind(&[0]), "malformed label: bytes behind its last section"),
        ("the most bytes that are no section", behind(&[0; 7]), "malformed label: bytes behind its last section"),
        ("zeroes behind the last one", behind(&[0; 8]), "malformed label: a section without a number"),
        ("nothing", Vec::new(), "malformed label: it lacks a section"),
        ("no pool", without(0), "malformed label: it lacks a section"),
        ("no vdevs", without(1), "malformed label: it lacks a section"),
        ("no lanes", without(2), "malformed label: it lacks a section"),
        ("one of ours twice", with(3, good[2].clone()), twice),
        ("an unknown one twice", behind(&section(900, 0, &[])), twice),
        ("section 0", [section(0, 0, &[]), good.concat()].concat(), "malformed label: a section without a number"),
        (
            "the lanes first",
            [&good[2][..], &good[0], &good[1]].concat(),
            "malformed label: sections out of their order",
        ),
        ("a byte behind the pool", longer(0), "malformed label: the section of the pool"),
        ("a byte behind the vdevs", longer(1), "malformed label: the section of the vdevs"),
        ("a byte behind the lanes", longer(2), "malformed label: the section of the lanes"),
        ("a byte behind the supplement", longer(3), "malformed label: the supplement"),
        (
            "vdevs that need not be known",
            with(1, section(2, 0, &good[1][8..])),
            "malformed label: a flag on a section that never has it",
        ),
        (
            "settings that must be known",
            with(3, section(4, 1, &good[3][8..])),
            "malformed label: a flag on a section that never has it",
        ),
        (
            "an unknown flag",
            behind(&section(901, 2, &[])),
            "it has flags 0x0002 on section 901 of its label, which this program does not know; use a newer program",
        ),
    ];
    for (name, payload, expected) in cases {
        assert_eq!(refusal(&payload), expected, "{name}");
    }
    assert!(decode(&sealed(&good.concat())).is_ok());
}

/// Cut anywhere, a payload is damage, but where a section ends that a pool can be without.
#[test]
fn a_truncated_payload_is_damage() {
    let good = sections_of(&sample());
    let (payload, needed) = (good.concat(), good[..3].concat().len());
    let ends = [needed, needed + good[3].len()];
    for length in 0..payload.len() {
        assert_eq!(decode(&sealed(&payload[..length])).is_ok(), ends.contains(&length), "cut to {length} bytes");
    }
    // The same within each section, whose own length is right.
    for at in 0..4 {
        for length in 0..good[at].len() - 8 {
            let mut sections = good.clone();
            sections[at] = section(good[at][0].into(), good[at][2].into(), &good[at][8..8 + length]);
            assert!(decode(&sealed(&sections.concat())).is_err(), "section {} cut to {length} bytes", at + 1);
        }
    }
}

/// Numbers that are reserved, and numbers that are not: no damage, and said in words.
#[test]
fn what_later_programs_may_have_is_refused_by_its_name() {
    let good = sections_of(&sample());
    // Behind the head and the count of vdevs: guid 8, index 2, class, kind, removed, sector_shift, data_start 8, data_bytes 8,
    // no ring, two legs: guid 8, slot 2, state.
    const CLASS: usize = 8 + 2 + 10;
    const STATE: usize = CLASS + 20 + 2 + 2 + 10;
    for (section, at, value, expected) in [
        (1, CLASS, 2, "a vdev of class special"),
        (1, CLASS, 3, "a vdev of class bulk"),
        (1, CLASS, 4, "a vdev of class number 4"),
        (1, CLASS + 1, 2, "a vdev of kind raidz1"),
        (1, CLASS + 1, 7, "a vdev of kind number 7"),
        (1, CLASS + 3, 13, "sectors of 2^13 bytes"),
        (1, CLASS + 6, 8, "a data area that begins at byte 524288"),
        (1, STATE, 3, "a leg that is joining"),
        (1, STATE, 4, "a leg that is number 4"),
        (0, 8 + 24, 3, "a pool in state 3"),
    ] {
        let mut sections = good.clone();
        sections[section][at] = value;
        let expected = format!("it has {expected}, which this program does not know; use a newer program");
        assert_eq!(refusal(&sections.concat()), expected);
    }
    let mut two_rings = sample();
    two_rings.vdevs[1].ring = None;
    let bytes = &sections_of(&two_rings)[1];
    // The second vdev ends with its rings' count, and a list of one leg.
    let mut leg = Vec::new();
    let rings = bytes.len() - (2 + 8 + 2 + 1 + 1 + 8 + 8 + 8 + 2 + "/dev/log".len()) - 2;
    leg.extend_from_slice(&bytes[rings + 2..]);
    let vdevs = [&bytes[8..rings], &[2, 0], &[0; 32], &leg].concat();
    let payload = [&good[0][..], &section(2, 1, &vdevs), &good[2]].concat();
    assert_eq!(refusal(&payload), "it has a vdev with 2 rings, which this program does not know; use a newer program");
}

/// A section that nobody here knows: its bytes go where they came from.
#[test]
fn an_unknown_section_is_written_as_it_was_read() {
    for (id, must_be_known) in [(6, false), (6, true), (u16::MAX, false)] {
        for length in [0, 1, 4000] {
            let mut config = sample();
            config.carried = vec![Section { id, must_be_known, bytes: vec![0xee; length] }];
            let good = sections_of(&sample());
            let payload = [good[..4].concat(), section(id, u16::from(must_be_known), &vec![0xee; length])].concat();
            let label = decode(&sealed(&payload)).unwrap();
            assert_eq!(label.config, config);
            assert_eq!(label.config.sections_needed(), if must_be_known { vec![id] } else { Vec::new() });
            let again = PoolConfig { sequence: 6, ..label.config };
            assert_eq!(encoding::encode(&again).unwrap(), payload, "{id}, {length} bytes");
        }
    }
}

/// A path is bytes.
#[test]
fn a_path_that_is_no_text_comes_back() {
    use std::os::unix::ffi::OsStrExt;
    let mut config = sample();
    config.vdevs[0].legs[0].path = std::ffi::OsStr::from_bytes(b"/dev/\xff\n").into();
    assert_eq!(decode(&encode(LEG, &config).unwrap()).unwrap().config, config);
}

#[test]
fn reports_of_losses_stay_within_their_room() {
    let mut config = sample();
    for number in 0..20 {
        let lines: Vec<String> = (0..50).map(|line| format!("{number}.{line} ") + &"ä".repeat(3000)).collect();
        config.supplement.note_loss(Time(number), Txg(number), &lines);
        config.supplement.note_loss(Time(number), Txg(number), &lines);
    }
    let losses = &config.supplement.losses;
    assert_eq!(losses.iter().map(|report| report.txg.0).collect::<Vec<_>>(), (12..20).collect::<Vec<_>>());
    assert_eq!(losses[7].lines.len(), 8);
    assert_eq!(losses[7].lines[7], "and 43 more");
    assert!(losses[7].lines[0].starts_with("19.0 ää"));
    assert_eq!(decode(&encode(LEG, &config).unwrap()).unwrap().config, config);
}

/// A pool went back twice; and notes that no import can have made.
#[test]
fn what_was_given_up_is_read_as_it_was_written() {
    let note = |kept, dropped, kept_gen, open_gen| Rewind {
        kept: Txg(kept),
        kept_gen,
        dropped: Txg(dropped),
        open_gen,
        time: Time(7),
        depth: 3,
    };
    let with = |rewinds: Vec<Rewind>| PoolConfig { rewinds, ..sample() };
    let two = with(vec![note(40, 45, 2, 3), note(46, 47, 3, 4)]);
    let read = |config: &PoolConfig| decode(&encode(LEG, config).unwrap());
    assert_eq!(read(&two).unwrap().config, two);
    let flags = sections_of(&two).iter().find(|section| section[0] == 8).map(|section| section[2]);
    assert_eq!(flags, Some(1), "who does not know it may not write");
    for wrong in [note(46, 45, 2, 3), note(40, 45, 3, 3), note(40, 1 << 62, 2, 3), note(40, 45, 2, 1 << 62)] {
        assert!(read(&with(vec![wrong])).is_err(), "{wrong:?}");
    }
}

#[test]
fn the_limit_for_legs_that_hang_is_said_where_it_is_not_the_default() {
    let payload = |limit| encoding::encode(&PoolConfig { hang_limit: limit, ..sample() }).unwrap();
    for word in ["auto", "off", "1", "86400"] {
        let limit = HangLimit::of_word(word).unwrap();
        assert_eq!(limit.to_string(), word);
        let sections = sections::split(&payload(limit)).unwrap();
        assert_eq!(sections.iter().any(|section| section.id == 10 && !section.must_be_known), word != "auto");
        let read = encoding::decode(&payload(limit), PoolConfig::default()).unwrap();
        assert_eq!(read.hang_limit, limit);
    }
    for word in ["", "0", "-1", "86401", "1.5", "none", "Auto"] {
        assert_eq!(HangLimit::of_word(word), None, "{word}");
    }
    let mut sections = sections::split(&payload(HangLimit::Seconds(7))).unwrap();
    let limit = sections.iter_mut().find(|section| section.id == 10).unwrap();
    limit.bytes = 86_401_u32.to_le_bytes().to_vec();
    assert!(encoding::decode(&sections::join(sections), PoolConfig::default()).is_err());
}

/// A spare that waits, one that stands in, and lines that nobody can have written.
#[test]
fn spares_are_read_as_they_were_written_and_a_disk_that_waits_as_one_says_so() {
    let spare = |guid, stands_for: u64| Spare {
        guid: VdevGuid(guid),
        stands_for: (stands_for != 0).then_some(VdevGuid(stands_for)),
        size: 1 << 40,
        path: format!("/dev/spare{guid:x}").into(),
    };
    let with = |spares: Vec<Spare>| PoolConfig { spares, ..sample() };
    let config = with(vec![spare(0x31, 0), spare(0x32, 0x21), spare(0x22, 0x21)]);
    let read_back = |config: &PoolConfig, leg| decode(&encode(leg, config).unwrap());
    assert_eq!(read_back(&config, LEG).unwrap().config, config);
    let flags = sections_of(&config).iter().find(|section| section[0] == 11).map(|section| section[2]);
    assert_eq!(flags, Some(0), "who does not know it may write");
    assert!(sections_of(&with(Vec::new())).iter().all(|section| section[0] != 11), "no spares, no section");
    for wrong in [vec![spare(0x31, 0); 2], (1..=33).map(|guid| spare(guid, 0)).collect()] {
        assert!(read_back(&with(wrong), LEG).is_err());
    }
    let in_use: Vec<_> = config.spares_in_use().map(|(spare, vdev)| (spare.guid, vdev.guid)).collect();
    assert_eq!(in_use, [(VdevGuid(0x22), VdevGuid(0x11))]);
    assert_eq!(config.spares_available().count(), 2);
    let waits = |leg| read_back(&config, VdevGuid(leg)).unwrap().is_spare();
    assert_eq!([0x31, 0x32, 0x22, 0x21, 0x99].map(waits), [true, true, false, false, false]);
}

/// A disk stood in for another, and is a spare again: no slot of its labels calls it a leg any more.
#[test]
fn a_spare_that_was_given_back_says_so_in_every_slot() {
    let disk = MemDisk::new(SIZE);
    let line = Spare { guid: LEG, stands_for: None, size: SIZE, path: "/dev/a".into() };
    let as_leg = PoolConfig { spares: vec![line], ..sample() };
    for sequence in [4, 5] {
        write(&disk, LEG, &PoolConfig { sequence, ..as_leg.clone() }).unwrap();
    }
    let mut given_back = PoolConfig { sequence: 6, ..as_leg };
    given_back.vdevs[0].legs.retain(|leg| leg.guid != LEG);
    write_spare(&disk, LEG, &given_back).unwrap();
    let slots: Vec<_> = inspect(&disk).into_iter().map(|slot| slot.content.unwrap().unwrap().is_spare()).collect();
    assert_eq!(slots, [true; 4]);
}
