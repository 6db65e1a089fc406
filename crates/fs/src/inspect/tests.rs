use bytes::Bytes;
use tally_base::codec::Malformed;
use tally_base::{DatasetId, Dseq, Generation, Time, Txg};
use tally_intent::{RecordHead, RecordShape};
use tally_store::inspect::{Value, Words};
use tally_store::key::{Class, Key};
use tally_vfs::FileKind;

use super::FsWords;
use crate::entry::encode_entry;
use crate::inode::Inode;
use crate::xattr::{self, XattrAccount};

#[test]
fn an_entry_is_told_by_its_name_even_if_that_is_not_text() {
    let key = Key::new(Class::DirEntry, 3, 17, 0);
    let value = encode_entry(tally_base::ObjectId(9), FileKind::Fifo, b"pipe \xff\\");
    let fields = FsWords.entry(&key, &value).unwrap();
    assert_eq!(fields[2], ("name", Value::Text("pipe \\xff\\\\".into())));
    assert_eq!(fields[4], ("kind", Value::Text("fifo".into())));
}

#[test]
fn sections_of_an_inode_are_told_by_id_and_length() {
    let mut inode = Inode::root_directory(Generation(1), (0, 0), Time(2));
    inode.sections = Bytes::from_static(&[77, 0, 3, 0, 1, 2, 3, 0, 1, 0, 0]);
    let mut value = Vec::new();
    inode.encode(&mut value);
    let fields = FsWords.entry(&Key::new(Class::Inode, 3, 0, 0), &value.into()).unwrap();
    assert_eq!(fields.last().unwrap(), &("sections", Value::Text("77+3,256+0".into())));
}

#[test]
fn an_extended_attribute_is_told_by_its_name_and_its_object_by_their_number() {
    let parts = xattr::parts(b"user.a", &[7; 40_000]);
    let words = |at: u64| FsWords.entry(&Key::new(Class::Xattr, 3, 5, at), &parts[at as usize]).unwrap();
    assert_eq!(words(0)[3..5], [("name", Value::Text("user.a".into())), ("value_bytes", 40_000_u64.into())]);
    assert_eq!(words(1)[2..], [("part", 1_u64.into()), ("bytes", (40_000 - (30 << 10) as u64).into())]);
    let mut inode = Inode::root_directory(Generation(1), (0, 0), Time(2));
    inode.xattrs = XattrAccount { count: 2, bytes: 99 };
    let mut value = Vec::new();
    inode.encode(&mut value);
    let fields = FsWords.entry(&Key::new(Class::Inode, 3, 0, 0), &value.into()).unwrap();
    assert_eq!(fields[fields.len() - 2..], [("xattrs", 2_u64.into()), ("xattr_bytes", 99_u64.into())]);
}

#[test]
fn what_no_program_of_ours_wrote_is_malformed() {
    let cases = [
        (Class::Inode, &b""[..], "inode"),
        (Class::DirEntry, b"short", "directory entry"),
        (Class::DirEntry, b"12345678\x09name", "directory entry"),
        (Class::DirHash, b"123456789", "hash of a directory entry"),
        (Class::Xattr, b"a fourth part", "extended attribute"),
        (Class::Extent, b"pointer", "extent"),
        (Class::Extent, &[255; 64], "block pointer"),
    ];
    for (class, value, what) in cases {
        let told = FsWords.entry(&Key::new(class, 1, 2, 3), &Bytes::from_static(value));
        assert_eq!(told, Err(Malformed(what).into()), "{class:?}");
    }
    let record = |kind, form, body| {
        let shape = RecordShape { form, flags: 0 };
        FsWords.record(
            &RecordHead { dataset: DatasetId(1), dseq: Dseq(1), txg: Txg(1), kind, shape },
            &Bytes::from_static(body),
        )
    };
    assert!(record(99, 0, &[0, 0, 0]).is_err(), "a kind that does not exist");
    assert!(record(1, 0, &[8]).is_err(), "flags that do not exist");
    assert!(record(1, 99, &[0, 0, 0]).is_err(), "a form that does not exist");
}
