//! What minor version 2 has besides (RFC 7862, RFC 8275), over a service: attributes, SEEK, IO_ADVISE, and what is not there.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::compound::{Op, bare, by_number, create, get_attr, lookup, make, op, set, stateid, status_of};
use crate::support::opener::{BOTH, Opener, READ, WRITE, close, open, open_as};
use crate::support::scene::Scene;
use tally_vfs::{Attributes, Content, Cred, Identity, Names, NodeKind, OpCtx, SetAttr, Stability};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    ChangeAttrType4, Createhow4, Createtype4, Creatverfattr, DataContent4, FATTR4_CHANGE_ATTR_TYPE, FATTR4_MODE,
    FATTR4_MODE_UMASK, FATTR4_SIZE, FATTR4_SUPPATTR_EXCLCREAT, FATTR4_SUPPORTED_ATTRS, FATTR4_TYPE, Fattr4,
    Fattr4Value, Getattr4Res, IoAdvise4Args, IoAdvise4Res, ModeUmask4, NfsArgop4, NfsOpnum4, NfsResop4, Nfsstat4,
    Openflag4, Seek4Args, Seek4Res, Stateid4, Verify4Args,
};
use tally_wire::{bitmap, numbers};

const OK: Nfsstat4 = Nfs4Ok;

fn scene(minor: u32) -> Arc<Scene> {
    Arc::new(Scene { minor, ..Scene::new() })
}

fn client() -> Opener {
    Opener::beside(&scene(2), "a client", 1)
}

fn masked(mode: u32, umask: u32) -> Fattr4Value {
    Fattr4Value::Fattr4ModeUmask(ModeUmask4 { mu_mode: mode, mu_umask: umask })
}

fn made(name: &[u8], how: Createhow4) -> Op {
    open_as(b"o", name, (BOTH, 0), Openflag4::Open4Create(how))
}

fn exclusively(name: &[u8], attributes: Fattr4) -> Op {
    made(name, Createhow4::Exclusive41(Creatverfattr { cva_verf: [3; 8], cva_attrs: attributes }))
}

fn attributes(client: &mut Opener, numbers: &[u32]) -> BTreeMap<u32, Fattr4Value> {
    match client.run(&[get_attr(numbers)]).pop() {
        Some(NfsResop4::OpGetattr(Getattr4Res::Nfs4Ok(found))) => by_number(&found.obj_attributes),
        other => panic!("{other:?}"),
    }
}

fn mode_of(client: &Opener, name: &[u8]) -> u32 {
    client.scene.exports.tank.getattr(client.scene.file_named(name)).unwrap().mode
}

#[test]
fn each_minor_version_has_the_attributes_of_its_own_and_of_those_before() {
    let settable = [FATTR4_SIZE, FATTR4_MODE, 36, 37, 48, 54];
    for (minor, besides) in
        [(1, &[FATTR4_SUPPATTR_EXCLCREAT][..]), (2, &[75, FATTR4_CHANGE_ATTR_TYPE, 81, 82, 84, 85, 86])]
    {
        let mut client = Opener::beside(&scene(minor), "a client", 1);
        let told = attributes(&mut client, &[FATTR4_SUPPORTED_ATTRS, 75, 79]);
        let Fattr4Value::Fattr4SupportedAttrs(supported) = &told[&FATTR4_SUPPORTED_ATTRS] else { panic!() };
        assert_eq!(&numbers(supported)[48..], besides, "of minor version {minor}");
        let Fattr4Value::Fattr4SuppattrExclcreat(exclusive) = &told[&75] else { panic!() };
        let masked = (minor == 2).then_some(FATTR4_MODE_UMASK);
        assert_eq!(numbers(exclusive), settable.into_iter().chain(masked).collect::<Vec<_>>());
        let rises = Fattr4Value::Fattr4ChangeAttrType(ChangeAttrType4::Nfs4ChangeTypeIsMonotonicIncr);
        assert_eq!(told.get(&79), (minor == 2).then_some(&rises), "of minor version {minor}");
        let verify = |number| {
            let obj_attributes = Fattr4 { attrmask: bitmap(&[number]), attr_vals: vec![0; 4].into() };
            op(&NfsArgop4::OpVerify(Verify4Args { obj_attributes }))
        };
        let (of_2, never) = (if minor == 2 { OK } else { Nfs4ErrAttrnotsupp }, Nfs4ErrAttrnotsupp);
        assert_eq!((client.status(&[verify(79)]), client.status(&[verify(83)])), (of_2, never));
    }
}

/// RFC 9754 §3, with what it adds to OPEN itself.
#[test]
fn what_open_may_ask_for_is_told() {
    let mut client = client();
    let told = attributes(&mut client, &[86]);
    let Fattr4Value::Fattr4OpenArguments(told) = &told[&86] else { panic!() };
    assert_eq!((numbers(&told.oa_share_access), numbers(&told.oa_share_deny)), (vec![1, 2, 3], vec![0, 1, 2, 3]));
    assert_eq!(numbers(&told.oa_share_access_want), [3, 4, 5, 20, 21]);
    assert_eq!((numbers(&told.oa_open_claim), numbers(&told.oa_create_mode)), (vec![0, 1, 2, 4, 5], vec![0, 1, 2, 3]));
}

#[test]
fn a_mask_is_taken_from_the_mode_of_what_is_made_and_of_nothing_else() {
    let mut client = client();
    let fattr = |values: &[Fattr4Value]| Fattr4::of(values);
    let opened = client.opened(made(b"f", Createhow4::Unchecked4(fattr(&[masked(0o666, 0o027)]))));
    assert_eq!((mode_of(&client, b"f"), numbers(&opened.attrset)), (0o640, vec![FATTR4_MODE_UMASK]));
    assert_eq!(client.status(&[create(Createtype4::Nf4Dir, b"d", fattr(&[masked(0o1777, 0o022)]))]), OK);
    assert_eq!(mode_of(&client, b"d"), 0o1755);
    let opened = client.opened(exclusively(b"x", fattr(&[masked(0o777, 0o077)])));
    assert_eq!((mode_of(&client, b"x"), numbers(&opened.attrset)), (0o700, vec![FATTR4_MODE_UMASK]));
    // What is there has a mode, and no mask.
    let refused = [
        vec![lookup(b"f"), set(fattr(&[masked(0o666, 0)]))],
        vec![get_attr(&[FATTR4_MODE_UMASK])],
        vec![create(Createtype4::Nf4Dir, b"e", fattr(&[masked(0o777, 0o1000)]))],
        vec![create(Createtype4::Nf4Dir, b"e", fattr(&[Fattr4Value::Fattr4Mode(0o700), masked(0o777, 0)]))],
        vec![made(b"e", Createhow4::Guarded4(fattr(&[Fattr4Value::Fattr4Mode(0o700), masked(0o777, 0)])))],
    ];
    for ops in refused {
        assert_eq!(client.status(&ops), Nfs4ErrInval, "{ops:x?}");
    }
    assert_eq!(mode_of(&client, b"f"), 0o640);
    let mut before = Opener::beside(&scene(1), "a client", 1);
    let asked = create(Createtype4::Nf4Dir, b"d", fattr(&[masked(0o777, 0)]));
    assert_eq!(before.status(&[asked]), Nfs4ErrAttrnotsupp, "minor version 1 has none");
}

#[test]
fn what_cannot_be_set_with_exclusive4_1_is_invalid() {
    let mut client = client();
    let attributes = |number, bytes| Fattr4 { attrmask: bitmap(&[number]), attr_vals: vec![0; bytes].into() };
    for number in [FATTR4_TYPE, 46, 82, 95, 99] {
        assert_eq!(client.status(&[exclusively(b"x", attributes(number, 4))]), Nfs4ErrInval, "{number}");
        assert!(!client.scene.has(b"x"));
    }
    let opened = client.opened(exclusively(b"x", attributes(FATTR4_SIZE, 8)));
    assert_eq!(client.status(&[lookup(b"x"), close(opened.stateid)]), OK);
    assert_eq!(client.status(&[lookup(b"x"), close(stateid(0))]), Nfs4ErrBadStateid);
}

fn seek_by(sa_stateid: Stateid4, sa_offset: u64, sa_what: DataContent4) -> Op {
    op(&NfsArgop4::OpSeek(Seek4Args { sa_stateid, sa_offset, sa_what }))
}

fn seek(offset: u64, what: DataContent4) -> Op {
    seek_by(stateid(0), offset, what)
}

fn told(client: &mut Opener, name: &[u8], seek: Op) -> Result<(u64, bool), Nfsstat4> {
    match client.run(&[lookup(name), seek]).pop() {
        Some(NfsResop4::OpSeek(Seek4Res::Nfs4Ok(told))) => Ok((told.sr_offset, told.sr_eof)),
        Some(other) => Err(status_of(&other)),
        None => panic!("no result"),
    }
}

/// Twelve bytes in the second of three blocks.
fn sparse(client: &Opener) {
    let file = client.scene.file(b"f");
    let (tank, root) = (&client.scene.exports.tank, Cred::root());
    tank.write(OpCtx::of(&root), file, 5000, b"twelve bytes".as_slice().into(), Stability::FileSync).result.unwrap();
    let size = SetAttr { size: Some(12_000), ..SetAttr::default() };
    tank.setattr(OpCtx::of(&root), file, &size, None).result.unwrap();
}

#[test]
fn seek_finds_content_and_holes() {
    use DataContent4::{Nfs4ContentData as Data, Nfs4ContentHole as Hole};
    let mut client = client();
    sparse(&client);
    for (offset, what, expected) in [
        (0, Data, Ok((4096, false))),
        (4096, Data, Ok((4096, false))),
        (5000, Data, Ok((5000, false))),
        (0, Hole, Ok((0, false))),
        (4096, Hole, Ok((8192, false))),
        (8192, Data, Ok((12_000, true))),
        (11_999, Hole, Ok((11_999, false))),
        (12_000, Hole, Err(Nfs4ErrNxio)),
        (12_000, Data, Err(Nfs4ErrNxio)),
        (u64::MAX, Hole, Err(Nfs4ErrNxio)),
    ] {
        assert_eq!(told(&mut client, b"f", seek(offset, what)), expected, "{what:?} from {offset}");
    }
    // Every file has a hole at its end.
    let (tank, root) = (client.scene.exports.tank.clone(), Cred::root());
    let file = client.scene.file_named(b"f");
    tank.write(OpCtx::of(&root), file, 8192, vec![1; 3808].into(), Stability::FileSync).result.unwrap();
    assert_eq!(told(&mut client, b"f", seek(4096, Hole)), Ok((12_000, true)));
    let mut neither = seek(0, Data);
    neither.truncate(neither.len() - 4);
    neither.extend(2_u32.to_be_bytes());
    assert_eq!(told(&mut client, b"f", neither), Err(Nfs4ErrUnionNotsupp));
}

#[test]
fn seek_needs_what_read_needs() {
    use DataContent4::Nfs4ContentData as Data;
    let mut client = client();
    sparse(&client);
    let writer = client.opened(open(b"f", WRITE, 0)).stateid;
    assert_eq!(told(&mut client, b"f", seek_by(writer.clone(), 0, Data)), Err(Nfs4ErrOpenmode));
    assert_eq!(client.status(&[lookup(b"f"), close(writer.clone())]), OK);
    assert_eq!(told(&mut client, b"f", seek_by(writer, 0, Data)), Err(Nfs4ErrBadStateid));
    let (tank, root) = (client.scene.exports.tank.clone(), Cred::root());
    tank.symlink(OpCtx::of(&root), tank.root(), b"l", b"f", &SetAttr::default()).result.unwrap();
    tank.mknod(OpCtx::of(&root), tank.root(), b"p", NodeKind::Fifo, &SetAttr::default()).result.unwrap();
    assert_eq!(client.status(&[make(b"d")]), OK);
    for (name, status) in [(&b"d"[..], Nfs4ErrIsdir), (b"l", Nfs4ErrSymlink), (b"p", Nfs4ErrWrongType)] {
        assert_eq!(told(&mut client, name, seek(0, Data)), Err(status));
        assert_eq!(client.status(&[lookup(name), advise(stateid(0))]), status);
    }
    let mut other = Opener::beside(&client.scene, "another one", 2);
    let denier = other.opened(open(b"f", READ, READ)).stateid;
    assert_eq!(told(&mut client, b"f", seek(0, Data)), Err(Nfs4ErrLocked));
    assert_eq!(told(&mut other, b"f", seek_by(denier, 0, Data)), Ok((4096, false)));
    assert_eq!(told(&mut client, b"f", seek_by(stateid(255), 0, Data)), Ok((4096, false)), "whatever others deny");
}

fn advise(iaa_stateid: Stateid4) -> Op {
    let iaa_hints = bitmap(&[1, 4]);
    op(&NfsArgop4::OpIoAdvise(IoAdvise4Args { iaa_stateid, iaa_offset: 0, iaa_count: 0, iaa_hints }))
}

#[test]
fn of_hints_none_is_taken() {
    let mut client = client();
    sparse(&client);
    let opened = client.opened(open(b"f", READ, 0)).stateid;
    let Some(NfsResop4::OpIoAdvise(IoAdvise4Res::Nfs4Ok(told))) = client.run(&[lookup(b"f"), advise(opened)]).pop()
    else {
        panic!("it is refused")
    };
    assert_eq!(numbers(&told.ior_hints), []);
    assert_eq!(client.status(&[lookup(b"f"), advise(stateid(9))]), Nfs4ErrBadStateid);
}

/// A client that is told so once does it by itself from then on; one that is told OK by accident does not.
#[test]
fn what_is_not_there_is_not_supported() {
    use NfsOpnum4::*;
    let mut client = client();
    sparse(&client);
    for number in [
        OpClone,
        OpCopyNotify,
        OpLayouterror,
        OpLayoutget,
        OpLayoutstats,
        OpOffloadCancel,
        OpOffloadStatus,
        OpOpenattr,
        OpReadPlus,
        OpWriteSame,
    ] {
        assert_eq!(client.status(&[lookup(b"f"), bare(number as u32)]), Nfs4ErrNotsupp, "{number:?}");
    }
}
