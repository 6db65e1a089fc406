use super::*;
use crate::properties::{Property, parse};

fn entry() -> DatasetEntry {
    let birth = DatasetBirth {
        id: DatasetId(2),
        guid: 11,
        created: Time(12),
        created_txg: Txg(13),
        lane: LaneId(14),
        name_key: 15,
        root_object: ObjectId(3),
        root_generation: Generation(16),
    };
    let root = DatasetRoot {
        tree: Tree::empty(),
        replay_dseq: Dseq(6),
        logged: true,
        log_from: Txg(5),
        next_object: ObjectId(7),
        life: 2,
        verifier: 8,
        change_floor: Time(10),
        used_bytes: 9,
        object_count: 0,
        orphan_count: 0,
        reserved_bytes: 17,
    };
    let local = PropertySet::from_iter([parse(Property::Sync, "always").unwrap()]);
    DatasetEntry {
        birth,
        line: DatasetLine { parent: DatasetId(1), name: "home".into(), local, carried: Bytes::new() },
        root,
    }
}

fn read(bytes: &[u8]) -> Result<DatasetEntry, EntryError> {
    let entry = DatasetEntry::decode(DatasetId(2), bytes)?;
    if entry.is_possible(3, 2) { Ok(entry) } else { Err(Malformed("dataset").into()) }
}

fn section(number: u16, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u16(number);
    out.put_u16(0);
    out.put_u32(bytes.len() as u32);
    out.put(bytes);
    out
}

#[test]
fn an_entry_is_read_as_it_was_written() {
    let (entry, bytes) = (entry(), entry().encode());
    let read = read(&bytes).unwrap();
    assert_eq!((read.birth, &read.line), (entry.birth, &entry.line));
    assert_eq!(read.encode(), bytes);
    let mut rolled_back = entry;
    rolled_back.root.logged = false;
    assert!(!super::tests::read(&rolled_back.encode()).unwrap().root.logged);
}

/// Where the fields stand is part of the format.
#[test]
fn the_head_is_as_it_is_drawn() {
    let bytes = entry().encode();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let drawn =
        [(8, 11), (16, 12), (24, 13), (32, 14), (40, 15), (48, 3), (56, 16), (64, 1), (72, 2), (80, 8), (88, 10)];
    let drawn =
        drawn.into_iter().chain([(96, 7), (104, 5), (112, 0), (120, 6), (128, 9), (136, 0), (144, 0), (152, 17)]);
    drawn.for_each(|(at, value)| assert_eq!(word(at), value, "at {at}"));
    assert_eq!(bytes[..8], [1, 0, 1, 0, 0, 0, 0, 0]);
    assert!(bytes[240..384].iter().all(|byte| *byte == 0));
    assert_eq!(bytes[384..390], [4, 0, b'h', b'o', b'm', b'e']);
    assert_eq!(bytes[390..], section(1, &[1, 0, 0, 1, 0, 1]));
}

#[test]
fn what_a_newer_program_may_have_written_is_refused_by_its_name() {
    let newer = [
        (0, "another form"),
        (1, "no file system"),
        (2, "a flag"),
        (3, "a flag"),
        (7, "a flag"),
        (112, "log cursor"),
        (240, "snapshots"),
        (271, "snapshots"),
        (272, "a key"),
        (295, "a key"),
        (296, "parked"),
        (383, "parked"),
        (403, "a property"),
    ];
    for (at, words) in newer {
        let mut bytes = entry().encode().to_vec();
        bytes[at] |= 6;
        let Err(EntryError::Newer(what)) = read(&bytes) else { panic!("byte {at}: {:?}", read(&bytes)) };
        assert!(what.contains(words), "byte {at}: {what}");
    }
}

#[test]
fn sections_that_are_not_known_are_carried_along() {
    let ours = entry().encode();
    let theirs = [section(2, &[7; 100]), section(9, &[]), section(700, b"later")].concat();
    let bytes = [&ours[..], &theirs].concat();
    let mut read = read(&bytes).unwrap();
    assert_eq!(read.encode(), bytes);
    assert_eq!(read.sections().collect::<Vec<_>>(), [(2, 100), (9, 0), (700, 5)]);
    read.line.name = "elsewhere".into();
    read.line.local = PropertySet::new();
    read.root.next_object = ObjectId(99);
    let again = super::tests::read(&read.encode()).unwrap();
    assert_eq!(
        (&again.line.carried[..], &*again.line.name),
        (&theirs[..], "elsewhere"),
        "whatever changes beside them"
    );
    let wrong: [(&str, Vec<u8>); 6] = [
        ("out of order", [section(9, &[]), section(2, &[])].concat()),
        ("twice", section(2, &[]).repeat(2)),
        ("the properties twice", section(1, &[])),
        ("cut short", section(2, &[1, 2, 3])[..10].to_vec()),
        ("without a length", vec![2, 0, 0, 0, 1]),
        ("more than there is room for", section(2, &[0; CARRIED_BYTES_MAX])),
    ];
    for (what, theirs) in wrong {
        let bytes = [&ours[..], &theirs].concat();
        assert!(matches!(super::tests::read(&bytes), Err(EntryError::Malformed(_))), "{what}");
    }
    let full = section(2, &[0; CARRIED_BYTES_MAX - SECTION_HEAD_BYTES]);
    assert!(super::tests::read(&[&ours[..], &full].concat()).is_ok());
}

type Lie = (&'static str, fn(&mut DatasetEntry));

#[test]
fn what_cannot_have_been_drawn_is_malformed() {
    let lies: [Lie; 19] = [
        ("a name that is longer than names are", |entry| entry.line.name = "x".repeat(256)),
        ("no name", |entry| entry.line.name.clear()),
        ("a name of two", |entry| entry.line.name = "a/b".into()),
        ("a name that leads out", |entry| entry.line.name = "..".into()),
        ("a name of two lines", |entry| entry.line.name = "a\n[b]".into()),
        ("an id that will be drawn again", |entry| entry.line.parent = DatasetId(3)),
        ("below itself", |entry| entry.line.parent = DatasetId(2)),
        ("a root directory that was never drawn", |entry| entry.birth.root_object = ObjectId(7)),
        ("made in the last group", |entry| entry.birth.created_txg = Txg(u64::MAX)),
        ("written in a life that has not begun", |entry| entry.root.life = 3),
        ("no object id is left", |entry| entry.root.next_object = ObjectId(u64::MAX)),
        ("the last record", |entry| entry.root.replay_dseq = Dseq(u64::MAX)),
        ("logged from the last group on", |entry| entry.root.log_from = Txg(u64::MAX)),
        ("an object id at the end", |entry| entry.root.next_object = ObjectId(1 << 62)),
        ("records at the end", |entry| entry.root.replay_dseq = Dseq(1 << 62)),
        ("a record size of nothing", |entry| entry.line.local = impossible(crate::properties::Value::RecordSize(0))),
        ("one that is no power of two", |entry| {
            entry.line.local = impossible(crate::properties::Value::RecordSize(5000))
        }),
        ("blocks that nobody writes", |entry| {
            entry.line.local = impossible(crate::properties::Value::RecordSize(1 << 30))
        }),
        ("rules without end", |entry| {
            entry.line.local = impossible(crate::properties::Value::ShareNfs("x".repeat(5000)));
        }),
    ];
    for (what, lie) in lies {
        let mut entry = entry();
        lie(&mut entry);
        assert!(matches!(read(&entry.encode()), Err(EntryError::Malformed(_))), "{what}");
    }
    let bytes = entry().encode();
    for cut in 0..bytes.len() {
        // Behind the name the sections may end, and then there are none.
        assert_eq!(read(&bytes[..cut]).is_err(), cut != 390, "cut at {cut}");
    }
}

fn impossible(value: crate::properties::Value) -> PropertySet {
    PropertySet::from_iter([value])
}

#[test]
fn accounts_are_bounded_instead() {
    let mut lying = entry();
    lying.root.used_bytes = u64::MAX;
    lying.root.object_count = u64::MAX;
    lying.root.orphan_count = u64::MAX;
    let read = read(&lying.encode()).unwrap().root;
    assert_eq!((read.used_bytes, read.object_count, read.orphan_count), (1 << 62, 0, 0));
}

/// Whatever a disk says, it is refused or read; what is read is written back as it was, but for accounts.
#[test]
fn no_byte_of_an_entry_ends_the_program() {
    let bytes = [&entry().encode()[..], &section(5, b"newer")].concat();
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut other = bytes.clone();
            other[at] ^= flip;
            let Ok(read) = read(&other) else { continue };
            let is_account = (128..160).contains(&at);
            assert!(is_account || read.encode() == other, "byte {at}");
        }
    }
}
