use tally_vfs::{FileKind, XATTR_VALUE_MAX};

use super::*;
use crate::inode::Layout;
use crate::xattr::{self, PARTS_MAX, XattrAccount};
use tally_base::{FileTime, SlotMark, Time};
use tally_store::key::Class;

type Lie = fn(&mut Record);

fn inode(size: u64) -> Inode {
    Inode {
        kind: FileKind::Symlink,
        mode: 0o755,
        nlink: 1,
        uid: 7,
        gid: 8,
        size,
        used: 9,
        rdev: (1, 2),
        atime: FileTime(-1),
        mtime: FileTime(2),
        ctime: Time(3),
        change: Time(4),
        generation: Generation(5),
        parent: ObjectId(6),
        entry: ObjectId(11),
        birth: Time(12),
        layout: Layout::Extents,
        record_shift: 17,
        create_verifier: Some(77),
        target: Bytes::from_static(b"target"),
        cuts: None,
        reserved: None,
        xattrs: XattrAccount::default(),
        sections: Bytes::from_static(&[1, 2, 3, 0, 7, 8, 9]),
    }
}

fn full() -> Record {
    let object = ObjectRef { id: ObjectId(9), generation: Generation(10) };
    Record {
        reply: Some((ReplyKey([3; 40]), RememberedReply { object: Some(object) })),
        mark: Some((
            SlotMark { session: [5; 16], slot: 6, operation: 7, sequence: 8, fingerprint: 9 },
            RememberedReply { object: None },
        )),
        inodes: SmallVec::from_vec(vec![
            InodeAfter { object: ObjectId(9), inode: Some(inode(4)), size: SizeRule::AtLeast(4) },
            InodeAfter { object: ObjectId(10), inode: None, size: SizeRule::Exact },
        ]),
        keys: SmallVec::from_vec(vec![
            (Key::new(Class::DirEntry, 1, 2, 0), Some(Bytes::from_static(b"name"))),
            (Key::new(Class::DirHash, 1, 2, 3), None),
            (Key::new(Class::Xattr, 1, 2, 0), Some(xattr::parts(b"user.a", b"value")[0].clone())),
            (Key::new(Class::Xattr, 1, 2, 1), None),
        ]),
        truncate: Some((ObjectId(9), 0)),
        punch: Some((ObjectId(9), 7..4096)),
        reserve: Some((ObjectId(9), 5..6)),
        data: Some(Data {
            object: ObjectId(9),
            pieces: SmallVec::from_vec(vec![(12, Bytes::from_static(b"content")), (99, Bytes::from_static(b"more"))]),
        }),
    }
}

fn encoded(record: &Record) -> Bytes {
    let mut bytes = record.encode_head();
    record.data_parts().for_each(|part| bytes.extend_from_slice(part));
    bytes.into()
}

/// As its head says that it is to be read.
fn read(record: &Record) -> Result<Record, DecodeError> {
    Record::decode(record.name(RecordKind::Create).shape.form, &encoded(record))
}

#[test]
fn a_record_is_read_back_as_it_was_written() {
    for record in [full(), Record::default(), Record { data: None, ..full() }, Record { reply: None, ..full() }] {
        assert_eq!(read(&record), Ok(record));
    }
}

#[test]
fn every_truncation_is_malformed_and_none_panics() {
    let bytes = encoded(&full());
    for length in 0..bytes.len() {
        assert!(Record::decode(1, &bytes.slice(..length)).is_err(), "cut to {length} bytes");
    }
}

#[test]
fn no_flipped_byte_panics() {
    let bytes = encoded(&full());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1 << bit;
            // Some flips only change a value; none may do worse.
            let _ = Record::decode(1, &damaged.into());
        }
    }
}

#[test]
fn the_kinds_have_stable_numbers() {
    for kind in RecordKind::ALL {
        assert_eq!(RecordKind::of(*kind as u16), Some(*kind));
    }
    assert_eq!(RecordKind::of(0), None);
    assert_eq!((RecordKind::Write as u16, RecordKind::SetXattr as u16, RecordKind::RemoveXattr as u16), (11, 16, 17));
}

#[test]
fn numbers_that_cannot_have_been_issued_are_malformed() {
    let lies: [(&str, Lie); 19] = [
        // What follows this id could not be read: a pool that had replayed it could not be imported any more.
        ("an object with none behind it", |record| record.inodes[0].object = ObjectId((1 << 62) - 1)),
        ("a change at the end of time", |record| record.inodes[0].inode.as_mut().unwrap().change = Time((1 << 63) - 1)),
        // The fold changed the same key, and a leaf with two of it was written, which nobody could read.
        ("a key that the fold writes", |record| record.keys[0].0.class = Class::Inode),
        ("a part of an extended attribute that no value has", |record| {
            record.keys[0] = (Key::new(Class::Xattr, 1, 2, PARTS_MAX), None);
        }),
        ("a symbolic link with extended attributes", |record| {
            record.inodes[0].inode.as_mut().unwrap().xattrs = XattrAccount { count: 1, bytes: 40 };
        }),
        ("an extended attribute that is none", |record| record.keys[0].0 = Key::new(Class::Xattr, 1, 2, 0)),
        ("content that the fold writes", |record| record.keys[0].0.class = Class::Extent),
        // The tree takes no longer one, and said so by a panic.
        ("a value that no leaf takes", |record| record.keys[0].1 = Some(vec![7; 33 << 10].into())),
        ("an object behind the last", |record| record.inodes[0].object = ObjectId(1 << 63)),
        ("an entry behind the last", |record| record.keys[0].0.a = u64::MAX),
        ("a key of no object", |record| record.keys[1].0.object = u64::MAX),
        ("no link", |record| record.inodes[0].inode.as_mut().unwrap().nlink = 0),
        // Four objects with one each were more than what is asked for before a rename.
        ("a target of what is no link", |record| record.inodes[0].inode.as_mut().unwrap().kind = FileKind::File),
        ("a cut behind the largest file", |record| record.truncate = Some((ObjectId(9), u64::MAX))),
        ("a punch behind the largest file", |record| record.punch = Some((ObjectId(9), 0..1 << 63))),
        ("a punch of nothing", |record| record.punch = Some((ObjectId(9), 7..7))),
        ("a reservation behind the largest file", |record| record.reserve = Some((ObjectId(9), 0..1 << 63))),
        ("a reservation of nothing", |record| record.reserve = Some((ObjectId(9), 7..7))),
        ("an end behind the largest file", |record| record.inodes[0].size = SizeRule::AtLeast(u64::MAX)),
    ];
    for (what, lie) in lies {
        let mut record = full();
        lie(&mut record);
        assert!(read(&record).is_err(), "{what}");
    }
}

/// What is asked for before an operation begins is for all of its record, whatever has hung itself behind the inodes.
#[test]
fn the_longest_records_fit_into_what_is_asked_for() {
    let sections = Bytes::from([&[77, 0, 252, 1][..], &[7; 508]].concat());
    let after = |target: usize| {
        let (kind, count) = if target > 0 { (FileKind::Symlink, 0) } else { (FileKind::File, 1) };
        let xattrs = XattrAccount { count, bytes: count };
        let target = vec![b'x'; target].into();
        let inode = Inode { kind, target, xattrs, sections: sections.clone(), ..inode(1) };
        InodeAfter { object: ObjectId(9), inode: Some(inode), size: SizeRule::AtLeast(4) }
    };
    let names = (0..8).map(|at| (Key::new(Class::DirEntry, 1, at, 0), Some(vec![b'n'; 9 + NAME_MAX].into())));
    let rename = Record {
        inodes: [SYMLINK_MAX, SYMLINK_MAX, 0, 0, 0].into_iter().map(after).collect(),
        keys: names.collect(),
        data: None,
        ..full()
    };
    let pieces = (0..RECORD_PIECES_MAX as u64).map(|at| (at << 12, Bytes::from_static(b"x")));
    let data = Some(Data { object: ObjectId(9), pieces: pieces.collect() });
    let commit = Record { inodes: SmallVec::from_vec(vec![after(0)]), keys: SmallVec::new(), data, ..full() };
    let parts = xattr::parts(&[b'n'; XATTR_NAME_MAX], &[7; XATTR_VALUE_MAX]);
    let keys = parts.into_iter().zip(0..).map(|(part, at)| (Key::new(Class::Xattr, 1, 2, at), Some(part)));
    let set_xattr = Record { inodes: SmallVec::from_vec(vec![after(0)]), keys: keys.collect(), data: None, ..full() };
    let cases = [(rename, NAMES_BYTES_MAX), (commit, PLACES_BYTES_MAX), (set_xattr, XATTR_BYTES_MAX + XATTR_VALUE_MAX)];
    for (record, bytes_max) in cases {
        assert_eq!(record.encode_head().len(), PARTS_BYTES_MAX + bytes_max);
        assert_eq!(read(&record), Ok(record));
    }
}

#[test]
fn what_only_a_newer_program_knows_has_a_name() {
    let head = |kind, form, flags| RecordHead {
        dataset: tally_base::DatasetId(1),
        dseq: tally_base::Dseq(2),
        txg: tally_base::Txg(3),
        kind,
        shape: RecordShape { form, flags },
    };
    for kind in RecordKind::ALL {
        assert_eq!(newer(&head(*kind as u16, 0, 0)), None);
        assert_eq!(newer(&head(*kind as u16, 1, 0)), None);
    }
    let cases = [
        (head(1, 4, 0), "form 4"),
        (head(1, 0xff, 0), "form 255"),
        (head(1, 0, 1), "flags 0x1"),
        (head(13, 0, 0), "kind 13"),
        (head(21, 0, 0), "kind 21"),
        (head(0, 0, 0), "kind 0"),
    ];
    for (head, words) in cases {
        let told = newer(&head).unwrap();
        assert!(told.contains(words), "{told}");
    }
}

/// A program that did not know marks took a record with one for damage, and went by it with `--accept-loss`: the head said nothing of it.
#[test]
fn a_record_with_a_mark_a_punch_or_a_reservation_says_so_in_its_head() {
    let with = Record { punch: None, reserve: None, ..full() };
    let (without, punched) =
        (Record { mark: None, ..with.clone() }, Record { punch: Some((ObjectId(9), 1..2)), ..with.clone() });
    let reserved = Record { reserve: Some((ObjectId(9), 1..2)), ..with.clone() };
    for (record, form) in [(&reserved, 3), (&punched, 2), (&with, 1), (&without, 0), (&Record::default(), 0)] {
        let name = record.name(RecordKind::Rename);
        assert_eq!(name, RecordName { kind: 7, shape: RecordShape { form, flags: 0 } });
    }
    assert_eq!(Record::decode(0, &encoded(&with)), Err(DecodeError::Malformed(Malformed("log record"))));
    assert_eq!(Record::decode(1, &encoded(&punched)), Err(DecodeError::Malformed(Malformed("log record"))));
    assert_eq!(Record::decode(2, &encoded(&without)), Ok(without), "each form has what those before it have");
    assert_eq!(Record::decode(4, &encoded(&with)), Err(DecodeError::Newer("form of a log record")));
}
