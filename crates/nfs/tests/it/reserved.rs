//! ALLOCATE (RFC 7862 §15.1), over a service.

use std::sync::Arc;

use crate::support::compound::{Op, lookup, make, op, stateid};
use crate::support::opener::{BOTH, Opener, READ, WRITE, close, open};
use crate::support::scene::Scene;
use tally_vfs::{Attr, Attributes, Content, Cred, Identity, Names, NodeKind, OpCtx, SetAttr, Stability};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{Allocate4Args, Deallocate4Args, NfsArgop4, Nfsstat4, StableHow4, Stateid4, Write4Args};

const OK: Nfsstat4 = Nfs4Ok;
/// What the model has room for.
const SPACE_BYTES: u64 = 1 << 40;

fn client() -> Opener {
    Opener::beside(&Arc::new(Scene { minor: 2, ..Scene::new() }), "a client", 1)
}

/// A file of twelve bytes.
fn file(client: &Opener, name: &[u8]) {
    let file = client.scene.file(name);
    let data = b"twelve bytes".as_slice().into();
    client.scene.exports.tank.write(OpCtx::of(&Cred::root()), file, 0, data, Stability::FileSync).result.unwrap();
}

fn attr(client: &Opener, name: &[u8]) -> Attr {
    client.scene.exports.tank.getattr(client.scene.file_named(name)).unwrap()
}

fn content(client: &Opener) -> Vec<u8> {
    let file = client.scene.file_named(b"f");
    client.scene.exports.tank.model.read(&Cred::root(), file, 0, 1000).unwrap().data.concat()
}

fn reserve_by(aa_stateid: Stateid4, aa_offset: u64, aa_length: u64) -> Op {
    op(&NfsArgop4::OpAllocate(Allocate4Args { aa_stateid, aa_offset, aa_length }))
}

fn reserve(offset: u64, length: u64) -> Op {
    reserve_by(stateid(0), offset, length)
}

fn write(offset: u64, data: &[u8]) -> Op {
    let (stateid, stable) = (stateid(0), StableHow4::FileSync4);
    op(&NfsArgop4::OpWrite(Write4Args { stateid, offset, stable, data: data.into() }))
}

fn punch(da_offset: u64, da_length: u64) -> Op {
    op(&NfsArgop4::OpDeallocate(Deallocate4Args { da_stateid: stateid(0), da_offset, da_length }))
}

#[test]
fn what_is_allocated_keeps_what_is_there_and_makes_a_file_as_long() {
    let mut client = client();
    file(&client, b"f");
    let opened = client.opened(open(b"f", BOTH, 0)).stateid;
    let before = attr(&client, b"f");
    assert_eq!(client.status(&[lookup(b"f"), reserve_by(opened.clone(), 2, 4)]), OK);
    let after = attr(&client, b"f");
    assert!(after.change > before.change && after.mtime > before.mtime);
    assert_eq!((after.size, content(&client)), (12, b"twelve bytes".to_vec()));
    assert_eq!(client.status(&[lookup(b"f"), reserve_by(opened, 10, 6)]), OK);
    assert_eq!(content(&client), b"twelve bytes\0\0\0\0");
    let before = attr(&client, b"f");
    for (offset, length) in [(0, 0), (u64::MAX, 0), (1, u64::MAX), (u64::MAX, u64::MAX)] {
        assert_eq!(client.status(&[lookup(b"f"), reserve(offset, length)]), Nfs4ErrInval, "{length} from {offset}");
    }
    for (offset, length) in [(0, 1 << 63), (u64::MAX - 1, 1)] {
        assert_eq!(client.status(&[lookup(b"f"), reserve(offset, length)]), Nfs4ErrFbig, "{length} from {offset}");
    }
    assert_eq!(attr(&client, b"f"), before, "nothing is changed");
}

#[test]
fn allocate_needs_what_write_needs() {
    let mut client = client();
    file(&client, b"f");
    let reader = client.opened(open(b"f", READ, 0)).stateid;
    assert_eq!(client.status(&[lookup(b"f"), reserve_by(reader.clone(), 0, 100)]), Nfs4ErrOpenmode);
    assert_eq!(client.status(&[lookup(b"f"), close(reader.clone())]), OK);
    assert_eq!(client.status(&[lookup(b"f"), reserve_by(reader, 0, 100)]), Nfs4ErrBadStateid);
    let (tank, root) = (client.scene.exports.tank.clone(), Cred::root());
    tank.symlink(OpCtx::of(&root), tank.root(), b"l", b"f", &SetAttr::default()).result.unwrap();
    tank.mknod(OpCtx::of(&root), tank.root(), b"p", NodeKind::Fifo, &SetAttr::default()).result.unwrap();
    assert_eq!(client.status(&[make(b"d")]), OK);
    for (name, status) in [(&b"d"[..], Nfs4ErrIsdir), (b"l", Nfs4ErrSymlink), (b"p", Nfs4ErrWrongType)] {
        assert_eq!(client.status(&[lookup(name), reserve(0, 100)]), status);
    }
    let mut other = Opener::beside(&client.scene, "another one", 2);
    let denier = other.opened(open(b"f", WRITE, WRITE)).stateid;
    assert_eq!(client.status(&[lookup(b"f"), reserve(0, 100)]), Nfs4ErrLocked);
    assert_eq!(attr(&client, b"f").size, 12);
    assert_eq!(other.status(&[lookup(b"f"), reserve_by(denier, 0, 100)]), OK);
    assert_eq!(attr(&client, b"f").size, 100);
    client.scene.exports.tank.model.set_read_only(true);
    assert_eq!(other.status(&[lookup(b"f"), reserve(0, 200)]), Nfs4ErrRofs);
}

/// What there is no room for is refused as a whole, and what was promised is written.
#[test]
fn there_is_room_for_what_was_allocated() {
    for quota in [None, Some(1 << 20)] {
        let mut client = client();
        let (room, full) = quota.map_or((SPACE_BYTES, Nfs4ErrNospc), |quota| (quota, Nfs4ErrDquot));
        for name in [b"f", b"g"] {
            file(&client, name);
        }
        client.scene.exports.tank.model.set_quota(quota);
        assert_eq!(client.status(&[lookup(b"f"), reserve(0, room + 1)]), full);
        assert_eq!(attr(&client, b"f").size, 12);
        let length = room - (8 << 10);
        assert_eq!(client.status(&[lookup(b"f"), reserve(0, length)]), OK);
        let before = attr(&client, b"g");
        assert_eq!(client.status(&[lookup(b"g"), reserve(0, 64 << 10)]), full, "nothing is promised twice");
        assert_eq!(attr(&client, b"g"), before);
        if quota.is_some() {
            let told = [1, 2, 3].map(|block| client.status(&[lookup(b"g"), write(block << 12, b"others")]));
            assert_eq!(told[2], full, "others have taken what there is");
        }
        for at in [0, length / 2, length - 5] {
            assert_eq!(client.status(&[lookup(b"f"), write(at, b"there")]), OK, "{at}");
        }
        assert_eq!(client.status(&[lookup(b"f"), reserve(0, length)]), OK, "there is nothing to ask for");
        assert_eq!(client.status(&[lookup(b"f"), punch(64 << 10, 128 << 10)]), OK);
        assert_eq!(client.status(&[lookup(b"g"), reserve(0, 64 << 10)]), OK, "it was given back");
    }
}

#[test]
fn in_minor_version_1_there_is_none() {
    let mut client = Opener::beside(&Arc::new(Scene { minor: 1, ..Scene::new() }), "a client", 1);
    file(&client, b"f");
    assert_eq!(client.status(&[lookup(b"f"), reserve(0, 1)]), Nfs4ErrOpIllegal);
}
