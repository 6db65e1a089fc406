use proptest::prelude::*;
use rustix::io::Errno;
use tally_base::{FileTime, Generation, ObjectId, Time};
use tally_vfs::{Attr, DirEntry, FileKind, ObjectRef};
use zerocopy::{FromBytes, IntoBytes};

use super::raw::{AttrOut, EntryOut, InHeader, OutHeader, WriteIn};
use super::*;

/// A message as the kernel puts it together.
fn message(opcode: u32, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let head = InHeader {
        len: (size_of::<InHeader>() + body.len()) as u32,
        opcode,
        unique: 42,
        node: 7,
        uid: 1000,
        gid: 100,
        pid: 77,
        ..InHeader::default()
    };
    [head.as_bytes(), &body].concat()
}

fn op(bytes: &[u8]) -> Result<Op<'_>, Errno> {
    decode(bytes).map(|request| request.op)
}

#[test]
fn what_the_kernel_asks_is_read() {
    let lookup = message(1, &[b"name\0"]);
    let header = Header { unique: 42, node: 7, uid: 1000, gid: 100, pid: 77 };
    assert_eq!(decode(&lookup), Ok(Request { header, op: Op::Lookup { name: b"name" } }));
    let rename = message(45, &[&9_u64.to_ne_bytes(), &1_u32.to_ne_bytes(), &[0; 4], b"from\0to\0"]);
    assert_eq!(op(&rename), Ok(Op::Rename { name: b"from", new_dir: 9, new_name: b"to", flags: 1 }));
    let head = WriteIn { fh: 2, offset: 5, size: 3, flags: 0o10_000, write_flags: 4, ..WriteIn::default() };
    let write = message(16, &[head.as_bytes(), b"abc"]);
    assert_eq!(op(&write), Ok(Op::Write { fh: 2, offset: 5, write_flags: 4, flags: 0o10_000, data: b"abc" }));
    let xattr = message(21, &[&2_u32.to_ne_bytes(), &1_u32.to_ne_bytes(), b"user.a\0", b"vw"]);
    assert_eq!(op(&xattr), Ok(Op::SetXattr { name: b"user.a", value: b"vw", flags: 1 }));
    let lock = LkIn { fh: 3, owner: 5, first: 10, last: 19, kind: 1, pid: 77, ..LkIn::default() };
    assert_eq!(op(&message(31, &[lock.as_bytes()])), Ok(Op::GetLk(lock)));
    for (opcode, waits) in [(32, false), (33, true)] {
        assert_eq!(op(&message(opcode, &[lock.as_bytes()])), Ok(Op::SetLk { asked: lock, waits }));
    }
    let flush = message(25, &[&2_u64.to_ne_bytes(), &[0; 8], &5_u64.to_ne_bytes()]);
    assert_eq!(op(&flush), Ok(Op::Flush { fh: 2, lock_owner: 5 }));
    assert_eq!(op(&message(4711, &[b"whatever"])), Ok(Op::Unknown { opcode: 4711 }));
}

#[test]
fn what_is_cut_or_lies_about_its_length_is_an_error() {
    let head = WriteIn { size: 3, ..WriteIn::default() };
    for bytes in [
        &[][..],
        &message(1, &[b"name\0"])[..39],
        &message(1, &[b"name"]),
        &message(6, &[b"name\0target"]),
        &message(16, &[head.as_bytes(), b"ab"]),
        &message(16, &[&head.as_bytes()[..39]]),
        &[&message(1, &[b"name\0"])[..], b"more"].concat(),
    ] {
        assert_eq!(decode(bytes).map(|_| ()), Err(Errno::INVAL), "{bytes:?}");
    }
    // Extensions stand at the end, and are no part of what is asked.
    let mut extended = message(16, &[WriteIn { size: 8, ..WriteIn::default() }.as_bytes(), b"12345678"]);
    assert!(decode(&extended).is_ok());
    extended[36] = 1;
    assert_eq!(decode(&extended).map(|_| ()), Err(Errno::INVAL), "eight bytes of the data are an extension");
    extended[36] = 255;
    assert_eq!(decode(&extended).map(|_| ()), Err(Errno::INVAL), "more than there is");
}

proptest! {
    /// With any opcode and any body: there is a request or an error, and what it borrows is in the message.
    #[test]
    fn no_message_is_too_much(opcode in 0_u32..64, body in prop::collection::vec(any::<u8>(), 0..200), words in 0_u8..4) {
        let mut bytes = message(opcode, &[&body]);
        bytes[36] = words;
        let _ = decode(&bytes);
        let _ = decode(&body);
    }
}

fn file(used: u64) -> Attr {
    let object = ObjectRef { id: ObjectId(77), generation: Generation(1) };
    Attr {
        object,
        kind: FileKind::File,
        mode: 0o4644,
        nlink: 2,
        uid: 5,
        gid: 6,
        size: 10,
        used,
        rdev: (0x123, 0x4_5678),
        atime: FileTime::new(-2, 500_000_000),
        mtime: FileTime::new(3, 4),
        ctime: Time(5_000_000_006),
        change: Time(5_000_000_006),
    }
}

#[test]
fn attributes_are_told_in_full() {
    let reply = attr(&file(4097));
    let (head, body) = reply.framed(42);
    let head = OutHeader::read_from_bytes(&head).unwrap();
    assert_eq!((head.len, head.error, head.unique), (16 + 104, 0, 42));
    let out = AttrOut::read_from_bytes(&body[0]).unwrap();
    assert_eq!((out.attr_valid, out.attr_valid_ns), (0, 0), "it is asked for again");
    let told = out.attr;
    assert_eq!((told.ino, told.size, told.blocks, told.mode, told.nlink), (77, 10, 9, 0o104_644, 2));
    assert_eq!((told.atime, told.atime_ns), (-2, 500_000_000), "before 1970");
    assert_eq!((told.mtime, told.mtime_ns, told.ctime, told.ctime_ns), (3, 4, 5, 6));
    assert_eq!(told.rdev, 0x4561_2378, "as new_encode_dev of the kernel has it");
    let error = Reply::from(Errno::NOENT);
    assert_eq!(OutHeader::read_from_bytes(&error.framed(1).0).unwrap().error, -2);
}

#[test]
fn a_listing_ends_where_the_room_does() {
    let entry = |cookie, name: &'static str, attr| DirEntry {
        cookie,
        name: name.as_bytes().into(),
        object: ObjectId(cookie),
        attr,
    };
    let mut listing = Listing::new(24 + 8 + 24 + 8 + 31, Plus::No);
    assert!(listing.add(&entry(1, ".", None), ROOT) && listing.add(&entry(5, "12345678", None), 5));
    assert!(!listing.add(&entry(6, "a", None), 6));
    let reply = listing.into_reply();
    let bytes = reply.framed(1).1[0].clone();
    assert_eq!((bytes.len(), bytes[20], bytes[52]), (64, 4, 0), "a directory, and what nobody has looked at");

    let mut listing = Listing::new(4096, Plus::Yes);
    let dots = entry(2, "..", Some(file(0)));
    assert!(
        listing.add(&dots, 9) && listing.add(&entry(7, "f", Some(file(0))), 77) && listing.add(&entry(8, "g", None), 8)
    );
    let bytes = listing.into_reply().framed(1).1[0].clone();
    let node = |nth: usize| EntryOut::read_from_prefix(&bytes[nth * 160..]).unwrap().0.node;
    assert_eq!([node(0), node(1), node(2)], [0, 77, 0], "the kernel makes no node of dots, nor of what has gone");
    assert_eq!(bytes[160 + 128 + 20], 8);
}
