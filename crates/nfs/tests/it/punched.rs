//! DEALLOCATE (RFC 7862 §15.4), over a service.

use std::sync::Arc;

use crate::support::compound::{Op, lookup, make, op, stateid};
use crate::support::opener::{BOTH, Opener, READ, WRITE, close, open};
use crate::support::scene::Scene;
use tally_vfs::{Attributes, Content, Cred, Identity, Names, NodeKind, OpCtx, SetAttr, Stability};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{Deallocate4Args, NfsArgop4, Nfsstat4, Stateid4};

const OK: Nfsstat4 = Nfs4Ok;

fn client() -> Opener {
    Opener::beside(&Arc::new(Scene { minor: 2, ..Scene::new() }), "a client", 1)
}

/// A file of twelve bytes.
fn file(client: &Opener) {
    let file = client.scene.file(b"f");
    let data = b"twelve bytes".as_slice().into();
    client.scene.exports.tank.write(OpCtx::of(&Cred::root()), file, 0, data, Stability::FileSync).result.unwrap();
}

fn content(client: &Opener) -> Vec<u8> {
    let file = client.scene.file_named(b"f");
    client.scene.exports.tank.model.read(&Cred::root(), file, 0, 1000).unwrap().data.concat()
}

fn punch_by(da_stateid: Stateid4, da_offset: u64, da_length: u64) -> Op {
    op(&NfsArgop4::OpDeallocate(Deallocate4Args { da_stateid, da_offset, da_length }))
}

fn punch(offset: u64, length: u64) -> Op {
    punch_by(stateid(0), offset, length)
}

#[test]
fn what_is_deallocated_reads_as_zeroes() {
    let mut client = client();
    file(&client);
    let opened = client.opened(open(b"f", BOTH, 0)).stateid;
    let before = client.scene.exports.tank.getattr(client.scene.file_named(b"f")).unwrap();
    assert_eq!(client.status(&[lookup(b"f"), punch_by(opened.clone(), 2, 4)]), OK);
    assert_eq!(content(&client), b"tw\0\0\0\0 bytes");
    let after = client.scene.exports.tank.getattr(client.scene.file_named(b"f")).unwrap();
    assert!(after.change > before.change && after.mtime > before.mtime);
    // To the end and behind it the size stays.
    assert_eq!(client.status(&[lookup(b"f"), punch_by(opened, 10, 1 << 40)]), OK);
    assert_eq!(content(&client), b"tw\0\0\0\0 byt\0\0");
    assert_eq!(client.status(&[lookup(b"f"), punch(u64::MAX - 1, 1)]), OK);
    for (offset, length) in [(0, 0), (u64::MAX, 0), (1, u64::MAX), (u64::MAX, u64::MAX)] {
        assert_eq!(client.status(&[lookup(b"f"), punch(offset, length)]), Nfs4ErrInval, "{length} from {offset}");
    }
    assert_eq!(content(&client), b"tw\0\0\0\0 byt\0\0");
}

#[test]
fn deallocate_needs_what_write_needs() {
    let mut client = client();
    file(&client);
    let reader = client.opened(open(b"f", READ, 0)).stateid;
    assert_eq!(client.status(&[lookup(b"f"), punch_by(reader.clone(), 0, 1)]), Nfs4ErrOpenmode);
    assert_eq!(client.status(&[lookup(b"f"), close(reader.clone())]), OK);
    assert_eq!(client.status(&[lookup(b"f"), punch_by(reader, 0, 1)]), Nfs4ErrBadStateid);
    let (tank, root) = (client.scene.exports.tank.clone(), Cred::root());
    tank.symlink(OpCtx::of(&root), tank.root(), b"l", b"f", &SetAttr::default()).result.unwrap();
    tank.mknod(OpCtx::of(&root), tank.root(), b"p", NodeKind::Fifo, &SetAttr::default()).result.unwrap();
    assert_eq!(client.status(&[make(b"d")]), OK);
    for (name, status) in [(&b"d"[..], Nfs4ErrIsdir), (b"l", Nfs4ErrSymlink), (b"p", Nfs4ErrWrongType)] {
        assert_eq!(client.status(&[lookup(name), punch(0, 1)]), status);
    }
    let mut other = Opener::beside(&client.scene, "another one", 2);
    let denier = other.opened(open(b"f", WRITE, WRITE)).stateid;
    assert_eq!(client.status(&[lookup(b"f"), punch(0, 1)]), Nfs4ErrLocked);
    assert_eq!(content(&client), b"twelve bytes");
    assert_eq!(other.status(&[lookup(b"f"), punch_by(denier, 0, 1)]), OK);
    assert_eq!(content(&client), b"\0welve bytes");
}

#[test]
fn in_minor_version_1_there_is_none() {
    let mut client = Opener::beside(&Arc::new(Scene { minor: 1, ..Scene::new() }), "a client", 1);
    file(&client);
    assert_eq!(client.status(&[lookup(b"f"), punch(0, 1)]), Nfs4ErrOpIllegal);
}
