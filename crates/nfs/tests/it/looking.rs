//! Version 4, as far as it goes: what a client sees that looks, over a socket.

use std::collections::BTreeMap;

use crate::support::client::Client;
use crate::support::compound::{
    Op, bare, by_number, get_attr, lookup, op, put, put_root, read, read_dir, readable, up,
};
use crate::support::{House, KEY, POOL};
use tally_base::DatasetId;
use tally_nfs::handle::{Above, Handle};
use tally_nfs::v3;
use tally_nfs::xdr::Encoder;
use tally_vfs::{Attributes, Content, Cred, Identity, Names, ObjectRef, OpCtx, SetAttr, Stability};
use tally_wire::nfs4::{
    Access4Args, Access4Res, CbClient4, FATTR4_ACL, FATTR4_FILEHANDLE, FATTR4_FILEID, FATTR4_FSID,
    FATTR4_MOUNTED_ON_FILEID, FATTR4_RDATTR_ERROR, FATTR4_SIZE, FATTR4_SUPPATTR_EXCLCREAT, FATTR4_SUPPORTED_ATTRS,
    FATTR4_TIME_ACCESS_SET, FATTR4_TYPE, Fattr4, Fattr4Value, Fsid4, Netaddr4, NfsArgop4, NfsClientId4, NfsFtype4,
    NfsResop4, Nfsstat4, Nverify4Args, Read4Res, Readlink4Res, Renew4Args, Setclientid4Args, Setclientid4Res,
    SetclientidConfirm4Args, Verify4Args,
};
use tally_wire::{bitmap, numbers};

const OK: Nfsstat4 = Nfsstat4::Nfs4Ok;

/// Names from the root of all.
type Path<'a> = &'a [&'a [u8]];

/// Down to an object, and there one more.
fn at(path: Path<'_>, last: Op) -> Vec<Op> {
    let mut ops = vec![put_root()];
    ops.extend(path.iter().map(|name| lookup(name)));
    ops.push(last);
    ops
}

fn verify(numbers: &[u32], values: &[u8]) -> Op {
    let obj_attributes = Fattr4 { attrmask: bitmap(numbers), attr_vals: values.into() };
    op(&NfsArgop4::OpVerify(Verify4Args { obj_attributes }))
}

fn nverify(numbers: &[u32], values: &[u8]) -> Op {
    let obj_attributes = Fattr4 { attrmask: bitmap(numbers), attr_vals: values.into() };
    op(&NfsArgop4::OpNverify(Nverify4Args { obj_attributes }))
}

/// The file system of a dataset, or of what stands above all of them.
fn fsid(major: u64, minor: u64) -> Fattr4Value {
    Fattr4Value::Fattr4Fsid(Fsid4 { major, minor })
}

/// `/tank` with a file, a link and a directory of three files, and `/tank/child` with a file; a house that speaks version 4.
fn house() -> House {
    let house = House::speaking_4();
    let (root, set) = (Cred::root(), SetAttr { mode: Some(0o644), ..SetAttr::default() });
    let ctx = OpCtx::of(&root);
    let tank = &house.exports.tank;
    let how = tally_vfs::CreateHow::Guarded(set.clone());
    let file = tank.create(ctx, tank.root(), b"file", &how).result.unwrap().object;
    let written = tank.write(ctx, file, 0, b"some bytes".as_slice().into(), Stability::FileSync);
    written.result.unwrap();
    tank.symlink(ctx, tank.root(), b"link", b"file", &set).result.unwrap();
    let dir = tank.mkdir(ctx, tank.root(), b"dir", &SetAttr { mode: Some(0o755), ..SetAttr::default() });
    let dir = dir.result.unwrap().object;
    for name in [b"a", b"b", b"c"] {
        tank.create(ctx, dir, name, &how).result.unwrap();
    }
    let child = &house.exports.child;
    child.create(ctx, child.root(), b"below", &how).result.unwrap();
    house
}

#[test]
fn a_client_looks_from_the_root_of_all_down_to_a_file() {
    let house = house();
    let mut client = house.client();
    let wanted = [FATTR4_TYPE, FATTR4_SIZE, FATTR4_FSID, FATTR4_FILEID];
    let file = client.attributes(&at(&[b"tank", b"file"], get_attr(&wanted)));
    assert_eq!(file[&FATTR4_TYPE], Fattr4Value::Fattr4Type(NfsFtype4::Nf4Reg));
    assert_eq!(file[&FATTR4_SIZE], Fattr4Value::Fattr4Size(10));
    assert_eq!(file[&FATTR4_FSID], fsid(POOL.0, 1));
    match client.last(&at(&[b"tank", b"file"], read(0, 5, 100))) {
        NfsResop4::OpRead(Read4Res::Nfs4Ok(read)) => assert_eq!((read.eof, &*read.data), (true, &b"bytes"[..])),
        other => panic!("{other:?}"),
    }
    match client.last(&at(&[b"tank", b"link"], op(&NfsArgop4::OpReadlink))) {
        NfsResop4::OpReadlink(Readlink4Res::Nfs4Ok(read)) => assert_eq!(*read.link, *b"file"),
        other => panic!("{other:?}"),
    }
    // A child dataset is crossed into, and left again.
    let crossed = |ops: Vec<Op>| [at(&[b"tank"], lookup(b"child")), ops].concat();
    let wanted = [FATTR4_FSID, FATTR4_FILEID, FATTR4_MOUNTED_ON_FILEID];
    let child = client.attributes(&crossed(vec![get_attr(&wanted)]));
    assert_eq!(child[&FATTR4_FSID], fsid(POOL.0, 2));
    let covered = house.exports.tank.lookup(&Cred::root(), house.exports.tank.root(), b"child").unwrap().0.object.id.0;
    assert_eq!(child[&FATTR4_MOUNTED_ON_FILEID], Fattr4Value::Fattr4MountedOnFileid(covered));
    assert_ne!(child[&FATTR4_FILEID], Fattr4Value::Fattr4Fileid(covered));
    let above = client.attributes(&crossed(vec![up(), get_attr(&[FATTR4_FSID])]));
    assert_eq!(above[&FATTR4_FSID], file[&FATTR4_FSID]);
    let top = client.attributes(&crossed(vec![up(), up(), get_attr(&[FATTR4_FSID, FATTR4_TYPE])]));
    assert_eq!(top[&FATTR4_FSID], fsid(0, 1));
    assert_eq!(top[&FATTR4_TYPE], Fattr4Value::Fattr4Type(NfsFtype4::Nf4Dir));
    assert_eq!(client.status(&[put_root(), up()]), Nfsstat4::Nfs4ErrNoent, "nothing is above the root of all");
}

#[test]
fn every_attribute_that_is_said_to_be_there_has_a_value() {
    let house = house();
    let mut client = house.client();
    let paths: [Path<'_>; 3] = [&[], &[b"tank"], &[b"tank", b"file"]];
    for path in paths {
        let supported = client.attributes(&at(path, get_attr(&[FATTR4_SUPPORTED_ATTRS])));
        let Fattr4Value::Fattr4SupportedAttrs(supported) = &supported[&FATTR4_SUPPORTED_ATTRS] else { panic!() };
        let all = readable(supported);
        assert_eq!((numbers(supported).len(), all.len()), (48, 46));
        let told = client.attributes(&at(path, get_attr(&all)));
        assert_eq!(told.keys().copied().collect::<Vec<_>>(), all);
        // What is told is what VERIFY compares with.
        let one = told[&FATTR4_FILEID].bytes();
        assert_eq!(client.status(&at(path, verify(&[FATTR4_FILEID], &one))), OK);
        assert_eq!(client.status(&at(path, nverify(&[FATTR4_FILEID], &one))), Nfsstat4::Nfs4ErrSame);
        assert_eq!(client.status(&at(path, verify(&[FATTR4_FILEID], &[0; 8]))), Nfsstat4::Nfs4ErrNotSame);
        assert_eq!(client.status(&at(path, nverify(&[FATTR4_FILEID], &[0; 8]))), OK);
    }
}

/// What a rule closes is a way where something below it is open, and not there where nothing is.
#[test]
fn above_the_exports_a_client_sees_what_leads_to_them() {
    let house = house();
    let mut client = house.client();
    let names = |client: &mut Client, path: Path<'_>| {
        let (entries, eof) = client.entries(&at(path, read_dir(0, 4096, &[FATTR4_TYPE, FATTR4_FSID])));
        assert!(eof, "all are there");
        let named = entries.iter().map(|entry| {
            let name = String::from_utf8(entry.name.to_vec()).unwrap();
            (name, by_number(&entry.attrs)[&FATTR4_FSID] == fsid(0, 1))
        });
        named.collect::<Vec<_>>()
    };
    let named = |name: &str, is_above: bool| (name.to_owned(), is_above);
    let (noent, stale) = (Nfsstat4::Nfs4ErrNoent, Nfsstat4::Nfs4ErrStale);
    assert_eq!(names(&mut client, &[]), [named("tank", false)]);
    *house.exports.tank_rule.lock() = "10.0.0.0/8(rw)".into();
    assert_eq!(names(&mut client, &[]), [named("tank", true)]);
    assert_eq!(names(&mut client, &[b"tank"]), [named("child", false)]);
    assert_eq!(client.status(&at(&[b"tank"], lookup(b"file"))), noent, "of what is closed only the way is seen");
    let way = client.attributes(&at(&[b"tank"], get_attr(&[FATTR4_FILEHANDLE])));
    let Fattr4Value::Fattr4Filehandle(way) = way[&FATTR4_FILEHANDLE].clone() else { panic!() };
    assert_eq!(*way, Above::Dataset(POOL, DatasetId(1)).encode()[..]);
    let look = [put(&way), get_attr(&[FATTR4_TYPE])];
    *house.exports.child_rule.lock() = "10.0.0.0/8(rw)".into();
    assert_eq!(names(&mut client, &[]), []);
    assert_eq!(client.status(&at(&[], lookup(b"tank"))), noent);
    assert_eq!(client.status(&look), stale, "a way that leads nowhere");
    *house.exports.tank_rule.lock() = "*(rw,no_root_squash,insecure)".into();
    *house.exports.child_rule.lock() = "*(rw)".into();
    assert_eq!(client.status(&look), stale, "it is open by now, and looked up anew");
    *house.exports.child_rule.lock() = "10.0.0.0/8(rw)".into();
    let into_child = at(&[b"tank"], lookup(b"child"));
    assert_eq!(client.status(&into_child), Nfsstat4::Nfs4ErrAccess, "its directory is seen, and it is closed");
    *house.exports.away.lock() = true;
    assert_eq!(client.status(&at(&[], lookup(b"tank"))), Nfsstat4::Nfs4ErrDelay);
}

#[test]
fn a_listing_goes_on_where_it_ended_and_leaves_dots_out() {
    let house = house();
    let mut client = house.client();
    let (mut cookie, mut seen) = (0, Vec::new());
    loop {
        let (entries, eof) = client.entries(&at(&[b"tank"], read_dir(cookie, 90, &[FATTR4_FILEID])));
        for entry in &entries {
            cookie = entry.cookie;
            let name = String::from_utf8(entry.name.to_vec()).unwrap();
            seen.push((name, by_number(&entry.attrs)[&FATTR4_FILEID].bytes()));
        }
        if eof {
            break;
        }
        assert!((1..3).contains(&entries.len()), "{} in 90 bytes", entries.len());
    }
    seen.sort();
    let names: Vec<_> = seen.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["child", "dir", "file", "link"]);
    for (name, id) in &seen {
        let told = client.attributes(&at(&[b"tank", name.as_bytes()], get_attr(&[FATTR4_FILEID])));
        assert_eq!(told[&FATTR4_FILEID].bytes(), *id, "{name}");
    }
    // A child that is closed is told as such to who asks for that, and left out for others.
    *house.exports.child_rule.lock() = "10.0.0.0/8(rw)".into();
    let listed = |client: &mut Client, numbers: &[u32]| {
        let (entries, _) = client.entries(&at(&[b"tank"], read_dir(0, 4096, numbers)));
        let told = entries.iter().map(|entry| {
            let name = String::from_utf8(entry.name.to_vec()).unwrap();
            (name, by_number(&entry.attrs).get(&FATTR4_RDATTR_ERROR).cloned())
        });
        told.collect::<BTreeMap<_, _>>()
    };
    assert_eq!(listed(&mut client, &[FATTR4_TYPE]).into_keys().collect::<Vec<_>>(), ["dir", "file", "link"]);
    let told = listed(&mut client, &[FATTR4_TYPE, FATTR4_RDATTR_ERROR]);
    let error = |status| Some(Fattr4Value::Fattr4RdattrError(status));
    assert_eq!((&told["child"], &told["file"]), (&error(Nfsstat4::Nfs4ErrAccess), &error(OK)));
    // Who may list a directory and not search it sees names and ids, and not more.
    let tank = &house.exports.tank;
    let dir = tank.lookup(&Cred::root(), tank.root(), b"dir").unwrap().0.object;
    let closed = SetAttr { mode: Some(0o444), ..SetAttr::default() };
    tank.setattr(OpCtx::of(&Cred::root()), dir, &closed, None).result.unwrap();
    let mut user = house.client().acting_as(1000, &[1000]);
    let path = |numbers: &[u32]| at(&[b"tank", b"dir"], read_dir(0, 4096, numbers));
    assert!(!user.entries(&path(&[FATTR4_FILEID])).0.is_empty());
    assert_eq!(user.status(&path(&[FATTR4_TYPE])), Nfsstat4::Nfs4ErrAccess);
    assert_eq!(user.status(&path(&[FATTR4_TYPE, FATTR4_RDATTR_ERROR])), OK);
    // What nothing has to be known for is told as well.
    assert!(!client.entries(&at(&[b"tank"], read_dir(0, 4096, &[FATTR4_RDATTR_ERROR]))).0.is_empty());
}

/// Each wrong use, and what it is told (RFC 7530 §13.4).
#[test]
fn wrong_uses_are_told_apart() {
    let house = house();
    let mut client = house.client();
    let object = ObjectRef { id: tally_base::ObjectId(99), generation: tally_base::Generation(4) };
    let gone = Handle { pool: POOL, dataset: DatasetId(1), object }.seal(&KEY);
    let forged = Handle { pool: POOL, dataset: DatasetId(1), object }.seal(&[1; 32]);
    let (tank, file, link): (Path<'_>, Path<'_>, Path<'_>) = (&[b"tank"], &[b"tank", b"file"], &[b"tank", b"link"]);
    let long = vec![b'x'; 256];
    let of_type = || get_attr(&[FATTR4_TYPE]);
    let of_4_1 = FATTR4_SUPPATTR_EXCLCREAT;
    let cases: Vec<(&str, Vec<Op>, Nfsstat4)> = vec![
        ("no handle", vec![of_type()], Nfsstat4::Nfs4ErrNofilehandle),
        ("no handle to save", vec![op(&NfsArgop4::OpSavefh)], Nfsstat4::Nfs4ErrNofilehandle),
        ("nothing saved", vec![op(&NfsArgop4::OpRestorefh)], Nfsstat4::Nfs4ErrRestorefh),
        ("a handle that is none", vec![put(&[7; 9])], Nfsstat4::Nfs4ErrBadhandle),
        ("a forged handle", vec![put(&forged)], Nfsstat4::Nfs4ErrBadhandle),
        ("an object that is gone", vec![put(&gone), of_type()], Nfsstat4::Nfs4ErrStale),
        ("no name", at(tank, lookup(b"")), Nfsstat4::Nfs4ErrInval),
        ("a name that leads up", at(tank, lookup(b"..")), Nfsstat4::Nfs4ErrBadname),
        ("a path", at(tank, lookup(b"dir/a")), Nfsstat4::Nfs4ErrBadname),
        ("a long name", at(tank, lookup(&long)), Nfsstat4::Nfs4ErrNametoolong),
        ("a name that is not there", at(tank, lookup(b"none")), Nfsstat4::Nfs4ErrNoent),
        ("a name below a file", at(file, lookup(b"x")), Nfsstat4::Nfs4ErrNotdir),
        ("a name below a link", at(link, lookup(b"x")), Nfsstat4::Nfs4ErrSymlink),
        ("above a file", at(file, up()), Nfsstat4::Nfs4ErrNotdir),
        ("a listing of a file", at(file, read_dir(0, 4096, &[])), Nfsstat4::Nfs4ErrNotdir),
        ("a cookie that is none", at(tank, read_dir(2, 4096, &[])), Nfsstat4::Nfs4ErrBadCookie),
        ("no room for an entry", at(tank, read_dir(0, 20, &[])), Nfsstat4::Nfs4ErrToosmall),
        ("a directory is read", at(tank, read(0, 0, 1)), Nfsstat4::Nfs4ErrIsdir),
        ("the root of all is read", at(&[], read(0, 0, 1)), Nfsstat4::Nfs4ErrIsdir),
        ("a link is read", at(link, read(0, 0, 1)), Nfsstat4::Nfs4ErrInval),
        ("a file is no link", at(file, op(&NfsArgop4::OpReadlink)), Nfsstat4::Nfs4ErrInval),
        ("state of another start", at(file, read(3, 0, 1)), Nfsstat4::Nfs4ErrStaleStateid),
        ("what is only set", at(file, get_attr(&[FATTR4_TIME_ACCESS_SET])), Nfsstat4::Nfs4ErrInval),
        ("a comparison with what there is not", at(file, verify(&[FATTR4_ACL], &[0; 4])), Nfsstat4::Nfs4ErrAttrnotsupp),
        ("a comparison with an error", at(file, verify(&[FATTR4_RDATTR_ERROR], &[0; 4])), Nfsstat4::Nfs4ErrInval),
        (
            "a comparison with what is of another version",
            at(file, nverify(&[of_4_1], &[])),
            Nfsstat4::Nfs4ErrAttrnotsupp,
        ),
        ("no room for a listing", at(&[b"tank", b"dir"], read_dir(3 << 40, 15, &[])), Nfsstat4::Nfs4ErrToosmall),
        ("an operation to come", at(file, bare(8)), Nfsstat4::Nfs4ErrNotsupp),
        ("an operation of a later version", at(file, bare(53)), Nfsstat4::Nfs4ErrOpIllegal),
        ("no operation", at(file, bare(2)), Nfsstat4::Nfs4ErrOpIllegal),
        ("arguments that end", at(file, bare(9)), Nfsstat4::Nfs4ErrBadxdr),
        ("a bitmap of 2^30 words", at(file, [bare(9), bare(1 << 30)].concat()), Nfsstat4::Nfs4ErrBadxdr),
    ];
    for (what, ops, expected) in cases {
        assert_eq!(client.status(&ops), expected, "{what}");
    }
    assert_eq!(client.compound(3, &[put_root()]).status, Nfsstat4::Nfs4ErrMinorVersMismatch);
    assert_eq!(client.status(&vec![put_root(); 129]), Nfsstat4::Nfs4ErrResource);
    let reply = client.compound(0, &[put_root(), lookup(b"none"), op(&NfsArgop4::OpGetfh)]);
    assert_eq!((reply.status, reply.resarray.len()), (Nfsstat4::Nfs4ErrNoent, 2), "behind what failed nothing is done");
}

/// What may be done, and what of it the kind of object has a meaning for.
#[test]
fn access_is_told_for_what_means_something() {
    let house = house();
    let mut client = house.client();
    let mut user = house.client().acting_as(1000, &[1000]);
    let access = |client: &mut Client, path: Path<'_>| {
        let all = op(&NfsArgop4::OpAccess(Access4Args { access: u32::MAX }));
        match client.last(&at(path, all)) {
            NfsResop4::OpAccess(Access4Res::Nfs4Ok(told)) => (told.supported, told.access),
            other => panic!("{other:?}"),
        }
    };
    let (directory, file) = (0x1f, 0x2d);
    assert_eq!(access(&mut client, &[b"tank", b"dir"]), (directory, 0x1f));
    assert_eq!(access(&mut client, &[b"tank", b"file"]), (file, 0x0d), "it is 0644, for root, too");
    assert_eq!(access(&mut user, &[b"tank", b"dir"]), (directory, 0x03));
    assert_eq!(access(&mut user, &[b"tank", b"file"]), (file, 0x01));
    assert_eq!(access(&mut client, &[]), (directory, 0x03), "above the exports");
}

/// A client of minor version 0 introduces itself before it does anything else.
#[test]
fn a_client_introduces_itself() {
    let house = house();
    let mut client = house.client();
    let introduce = |name: &[u8], start: u8| {
        let cb_location = Netaddr4 { na_r_netid: b"tcp".into(), na_r_addr: b"10.0.0.1.3.4".into() };
        op(&NfsArgop4::OpSetclientid(Setclientid4Args {
            client: NfsClientId4 { verifier: [start; 8], id: name.into() },
            callback: CbClient4 { cb_program: 0x4000_0000, cb_location },
            callback_ident: 1,
        }))
    };
    let told = match client.last(&[introduce(b"here", 1)]) {
        NfsResop4::OpSetclientid(Setclientid4Res::Nfs4Ok(told)) => told,
        other => panic!("{other:?}"),
    };
    let (clientid, confirmation) = (told.clientid, told.setclientid_confirm);
    let renew = || op(&NfsArgop4::OpRenew(Renew4Args { clientid }));
    let stale = Nfsstat4::Nfs4ErrStaleClientid;
    assert_eq!(client.status(&[renew()]), stale, "nobody has confirmed it");
    let confirm = |setclientid_confirm| {
        op(&NfsArgop4::OpSetclientidConfirm(SetclientidConfirm4Args { clientid, setclientid_confirm }))
    };
    let mut wrong = confirmation;
    wrong[7] ^= 1;
    assert_eq!(client.status(&[confirm(wrong)]), stale);
    assert_eq!(client.status(&[confirm(confirmation), renew()]), OK);
    let mut other = house.client().acting_as(1000, &[100]);
    assert_eq!(other.status(&[introduce(b"here", 1)]), OK, "the first one holds nothing");
    assert_eq!(client.status(&[introduce(&[7; 1025], 1)]), Nfsstat4::Nfs4ErrBadxdr);
}

/// A hundred READs of a megabyte in one compound would have held a hundred megabytes.
#[test]
fn what_one_compound_is_answered_with_is_bounded() {
    let house = house();
    let (root, tank) = (Cred::root(), house.exports.tank.clone());
    let file = tank.lookup(&root, tank.root(), b"file").unwrap().0.object;
    let ctx = OpCtx::of(&root);
    tank.write(ctx, file, 0, vec![7; 1 << 20].into(), Stability::FileSync).result.unwrap();
    let mut client = house.client();
    let mut ops = at(&[b"tank"], lookup(b"file"));
    ops.extend((0..100).map(|_| read(0xff, 0, 1 << 20)));
    let reply = client.compound(0, &ops);
    assert_eq!(reply.status, Nfsstat4::Nfs4ErrResource);
    assert!((5..8).contains(&reply.resarray.len()), "{}", reply.resarray.len());
}

#[test]
fn a_house_that_does_not_speak_it_says_which_versions_it_does() {
    let house = House::new();
    let mut client = house.client();
    let xid = client.xid();
    client.send(xid, (v3::PROGRAM, 4), 1, Encoder::new());
    let (_, header) = client.receive_header().unwrap();
    assert_eq!(header[4..], [2, 3, 3][..]);
}
