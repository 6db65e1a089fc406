//! What minor version 2 has besides (RFC 7862, RFC 8275), over a service: attributes.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use support::compound::{Op, by_number, create, get_attr, lookup, op, set, stateid};
use support::opener::{BOTH, Opener, close, open_as};
use support::scene::Scene;
use tally_vfs::Attributes;
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    ChangeAttrType4, Createhow4, Createtype4, Creatverfattr, FATTR4_CHANGE_ATTR_TYPE, FATTR4_MODE, FATTR4_MODE_UMASK,
    FATTR4_SIZE, FATTR4_SUPPATTR_EXCLCREAT, FATTR4_SUPPORTED_ATTRS, FATTR4_TYPE, Fattr4, Fattr4Value, Getattr4Res,
    ModeUmask4, NfsArgop4, NfsResop4, Nfsstat4, Openflag4, Verify4Args,
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
    for (minor, besides) in [(1, &[FATTR4_SUPPATTR_EXCLCREAT][..]), (2, &[75, FATTR4_CHANGE_ATTR_TYPE, 81])] {
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
        assert_eq!((client.status(&[verify(79)]), client.status(&[verify(82)])), (of_2, never));
    }
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
