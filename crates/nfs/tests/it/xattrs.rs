//! Extended attributes over minor version 2 (RFC 8276), over a service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use crate::support::compound::{Op, bare, by_number, get_attr, lookup, make, op, put_root, set, status_of};
use crate::support::gated::Promises;
use crate::support::opener::Opener;
use crate::support::scene::{Scene, fate, read_reply};
use crate::support::session::channel;
use tally_nfs::service::Step;
use tally_vfs::{Attributes, Cred, Identity, Names, NodeKind, OpCtx, SetAttr, SetXattr, XATTR_VALUE_MAX, Xattrs};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Access4Args, Access4Res, ChannelAttrs4, CreateSession4Args, CreateSession4Res, FATTR4_XATTR_SUPPORT, Fattr4,
    Fattr4Value, Getattr4Res, Getxattr4Args, Getxattr4Res, Listxattrs4Args, Listxattrs4Res, NfsArgop4, NfsResop4,
    Nfsstat4, Removexattr4Args, Removexattr4Res, Setxattr4Args, Setxattr4Res, SetxattrOption4,
};

const OK: Nfsstat4 = Nfs4Ok;
/// RFC 8276 §8.5: to read, to write, to list.
const XAREAD: u32 = 0x40;
const XAWRITE: u32 = 0x80;
const XALIST: u32 = 0x100;
const PERSIST: u32 = 1;

fn client() -> Opener {
    Opener::beside(&Arc::new(Scene { minor: 2, ..Scene::new() }), "a client", 1)
}

/// In a session with longer requests and replies than others have.
fn client_of_long_values(csa_flags: u32) -> Opener {
    let scene = Scene { minor: 2, ..Scene::new() };
    scene.exports.keep_clients();
    let mut client = Opener::beside(&Arc::new(scene), "a client", 1);
    let bytes = 1 << 20;
    let channel = ChannelAttrs4 { ca_maxrequestsize: bytes, ca_maxresponsesize: bytes, ..channel() };
    let asked = op(&NfsArgop4::OpCreateSession(CreateSession4Args {
        csa_clientid: client.client,
        csa_sequence: 2,
        csa_flags,
        csa_fore_chan_attrs: channel.clone(),
        csa_back_chan_attrs: channel,
        csa_cb_program: 0x4000_0000,
        csa_sec_parms: Vec::new().into(),
    }));
    match client.send(&[asked]).resarray.0.pop() {
        Some(NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(made))) => {
            assert_eq!(made.csr_flags, csa_flags);
            (client.session, client.next) = (made.csr_sessionid, 1);
        }
        other => panic!("{other:?}"),
    }
    client
}

fn get_xattr(name: &[u8]) -> Op {
    op(&NfsArgop4::OpGetxattr(Getxattr4Args { gxa_name: name.into() }))
}

fn set_xattr_as(sxa_option: SetxattrOption4, name: &[u8], value: &[u8]) -> Op {
    op(&NfsArgop4::OpSetxattr(Setxattr4Args { sxa_option, sxa_key: name.into(), sxa_value: value.into() }))
}

fn set_xattr(name: &[u8], value: &[u8]) -> Op {
    set_xattr_as(SetxattrOption4::Setxattr4Either, name, value)
}

fn list_xattrs(lxa_cookie: u64, lxa_maxcount: u32) -> Op {
    op(&NfsArgop4::OpListxattrs(Listxattrs4Args { lxa_cookie, lxa_maxcount }))
}

fn remove_xattr(name: &[u8]) -> Op {
    op(&NfsArgop4::OpRemovexattr(Removexattr4Args { rxa_name: name.into() }))
}

fn access(access: u32) -> Op {
    op(&NfsArgop4::OpAccess(Access4Args { access }))
}

fn value(client: &mut Opener, file: &[u8], name: &[u8]) -> Result<Vec<u8>, Nfsstat4> {
    match client.run(&[lookup(file), get_xattr(name)]).pop() {
        Some(NfsResop4::OpGetxattr(Getxattr4Res::Nfs4Ok(value))) => Ok(value.0.to_vec()),
        Some(other) => Err(status_of(&other)),
        None => panic!("no result"),
    }
}

/// Names, the next cookie, and whether they are the last ones.
fn names(client: &mut Opener, file: &[u8], cookie: u64, most: u32) -> Result<(Vec<String>, u64, bool), Nfsstat4> {
    match client.run(&[lookup(file), list_xattrs(cookie, most)]).pop() {
        Some(NfsResop4::OpListxattrs(Listxattrs4Res::Nfs4Ok(told))) => {
            let name = |name: &tally_wire::nfs4::Xattrkey4| String::from_utf8_lossy(&name.0).into_owned();
            Ok((told.lxr_names.iter().map(name).collect(), told.lxr_cookie, told.lxr_eof))
        }
        Some(other) => Err(status_of(&other)),
        None => panic!("no result"),
    }
}

fn all_names(client: &mut Opener, file: &[u8]) -> Vec<String> {
    let (mut names, _, is_end) = names(client, file, 0, 4096).unwrap();
    assert!(is_end);
    names.sort();
    names
}

/// The change that the last operation tells: before and after, of which nobody came between.
fn change(client: &mut Opener, ops: &[Op]) -> (u64, u64) {
    let info = match client.run(ops).pop() {
        Some(NfsResop4::OpSetxattr(Setxattr4Res::Nfs4Ok(info))) => info,
        Some(NfsResop4::OpRemovexattr(Removexattr4Res::Nfs4Ok(info))) => info,
        other => panic!("{other:?}"),
    };
    assert!(info.atomic);
    (info.before, info.after)
}

fn attributes(client: &mut Opener, ops: &[Op]) -> BTreeMap<u32, Fattr4Value> {
    match client.run(ops).pop() {
        Some(NfsResop4::OpGetattr(Getattr4Res::Nfs4Ok(found))) => by_number(&found.obj_attributes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_attribute_is_set_read_listed_and_removed() {
    let mut client = client();
    client.scene.file(b"f");
    assert_eq!(client.status(&[make(b"d")]), OK);
    for object in [&b"f"[..], b"d"] {
        assert_eq!(value(&mut client, object, b"a"), Err(Nfs4ErrNoxattr));
        assert_eq!(all_names(&mut client, object), Vec::<String>::new());
        assert_eq!(client.status(&[lookup(object), set_xattr(b"a", b"a value")]), OK);
        assert_eq!(client.status(&[lookup(object), set_xattr(b"empty", b"")]), OK);
        assert_eq!(value(&mut client, object, b"a"), Ok(b"a value".to_vec()));
        assert_eq!(value(&mut client, object, b"empty"), Ok(Vec::new()));
        assert_eq!(all_names(&mut client, object), ["a", "empty"]);
        assert_eq!(client.status(&[lookup(object), remove_xattr(b"a")]), OK);
        assert_eq!(client.status(&[lookup(object), remove_xattr(b"a")]), Nfs4ErrNoxattr);
        assert_eq!(value(&mut client, object, b"a"), Err(Nfs4ErrNoxattr));
        assert_eq!(all_names(&mut client, object), ["empty"]);
    }
}

/// What a client sends is of the users' name space, whatever it looks like; what others have put into another one it does not see.
#[test]
fn a_name_is_kept_with_its_prefix_and_told_without_it() {
    let mut client = client();
    let file = client.scene.file(b"f");
    assert_eq!(client.status(&[lookup(b"f"), set_xattr(b"security.capability", b"\x01")]), OK);
    let (tank, root) = (client.scene.exports.tank.clone(), Cred::root());
    let kept = tank.list_xattrs(&root, file, 0).unwrap();
    assert_eq!(&kept[0].name[..], b"user.security.capability");
    assert_eq!(tank.xattr(&root, file, b"security.capability"), Err(tally_vfs::FsError::Invalid));
    assert_eq!(all_names(&mut client, b"f"), ["security.capability"]);
    let longest = [b'n'; 250];
    assert_eq!(client.status(&[lookup(b"f"), set_xattr(&longest, b"v")]), OK);
    assert_eq!(value(&mut client, b"f", &longest), Ok(b"v".to_vec()));
    for (name, told) in [(&[b'n'; 251][..], Nfs4ErrNametoolong), (b"", Nfs4ErrInval), (b"a\0b", Nfs4ErrInval)] {
        for asked in [get_xattr(name), set_xattr(name, b"v"), remove_xattr(name)] {
            assert_eq!(client.status(&[lookup(b"f"), asked]), told, "{name:?}");
        }
    }
}

#[test]
fn what_may_be_there_is_said_by_the_option() {
    use SetxattrOption4::{Setxattr4Create as Create, Setxattr4Replace as Replace};
    let mut client = client();
    client.scene.file(b"f");
    let mut told = |how, value: &[u8]| client.status(&[lookup(b"f"), set_xattr_as(how, b"a", value)]);
    assert_eq!(told(Replace, b"1"), Nfs4ErrNoxattr);
    assert_eq!(told(Create, b"2"), OK);
    assert_eq!(told(Create, b"3"), Nfs4ErrExist);
    assert_eq!(value(&mut client, b"f", b"a"), Ok(b"2".to_vec()));
    assert_eq!(client.status(&[lookup(b"f"), set_xattr_as(Replace, b"a", b"4")]), OK);
    assert_eq!(value(&mut client, b"f", b"a"), Ok(b"4".to_vec()));
    let mut unknown = set_xattr(b"a", b"5");
    unknown[7] = 3;
    assert_eq!(client.status(&[lookup(b"f"), unknown]), Nfs4ErrBadxdr);
}

#[test]
fn a_listing_goes_on_by_its_cookie() {
    let mut client = client();
    client.scene.file(b"f");
    let all: Vec<String> = (0..40).map(|number| format!("a name of twenty {number:03}")).collect();
    for name in &all {
        assert_eq!(client.status(&[lookup(b"f"), set_xattr(name.as_bytes(), b"v")]), OK);
    }
    // Cookie, count, end, and for each name its length and twenty bytes.
    for (most, expected) in [(16 + 24, 1), (16 + 24 * 2 - 1, 1), (16 + 24 * 7, 7), (4096, 40)] {
        let (mut found, mut cookie, mut pages) = (Vec::new(), 0, 0);
        loop {
            let (names, next, is_end) = names(&mut client, b"f", cookie, most).unwrap();
            assert!(names.len() == expected || is_end, "{} names of {most} bytes", names.len());
            (found, cookie, pages) = ([found, names].concat(), next, pages + 1);
            assert!(pages <= 40, "it goes round");
            if is_end {
                break;
            }
        }
        found.sort();
        assert_eq!(found, all);
        assert_eq!(pages, 40_usize.div_ceil(expected));
    }
    for most in [0, 2, 15, 16 + 23] {
        assert_eq!(names(&mut client, b"f", 0, most), Err(Nfs4ErrToosmall), "{most}");
    }
    client.scene.file(b"none");
    assert_eq!(names(&mut client, b"none", 0, 16).map(|told| (told.0, told.2)), Ok((Vec::new(), true)));
    assert_eq!(names(&mut client, b"f", u64::MAX, 4096).map(|told| (told.0, told.2)), Ok((Vec::new(), true)));
}

#[test]
fn a_change_is_told_from_under_the_lock() {
    let mut client = client();
    let file = client.scene.file(b"f");
    let tank = client.scene.exports.tank.clone();
    let attr = || tank.getattr(file).unwrap();
    let before = attr();
    let set = change(&mut client, &[lookup(b"f"), set_xattr(b"a", b"v")]);
    assert_eq!(set, (before.change.0, attr().change.0));
    let again = change(&mut client, &[lookup(b"f"), set_xattr(b"a", b"v")]);
    assert_eq!(again.0, set.1);
    let removed = change(&mut client, &[lookup(b"f"), remove_xattr(b"a")]);
    assert_eq!((removed.0, removed.1), (again.1, attr().change.0));
    assert!(set.0 < set.1 && again.0 < again.1 && removed.0 < removed.1);
    assert!(attr().mtime == before.mtime && attr().ctime > before.ctime);
}

/// The bits of ACCESS are of this minor version alone, and say what the operations do.
#[test]
fn access_and_the_operations_agree() {
    let mut client = client();
    let (tank, root) = (client.scene.exports.tank.clone(), Cred::root());
    let file = client.scene.file(b"f");
    let all = XAREAD | XAWRITE | XALIST;
    let told = |client: &mut Opener, name: &[u8]| match client.run(&[lookup(name), access(all | 1)]).pop() {
        Some(NfsResop4::OpAccess(Access4Res::Nfs4Ok(told))) => (told.supported & all, told.access & all),
        other => panic!("{other:?}"),
    };
    tank.mknod(OpCtx::of(&root), tank.root(), b"pipe", NodeKind::Fifo, &SetAttr::default()).result.unwrap();
    assert_eq!(told(&mut client, b"pipe"), (0, 0));
    assert_eq!(client.status(&[lookup(b"pipe"), set_xattr(b"a", b"v")]), Nfs4ErrPerm);
    assert_eq!(value(&mut client, b"pipe", b"a"), Err(Nfs4ErrNoxattr));
    assert_eq!(all_names(&mut client, b"pipe"), Vec::<String>::new());
    tank.set_xattr(OpCtx::of(&root), file, b"user.a", b"v", SetXattr::Either).result.unwrap();
    for mode in [0o777, 0o744, 0o733, 0o700] {
        let owner = SetAttr { mode: Some(mode), uid: Some(4711), gid: Some(4711), ..SetAttr::default() };
        tank.setattr(OpCtx::of(&root), file, &owner, None).result.unwrap();
        let (supported, granted) = told(&mut client, b"f");
        assert_eq!(supported, all);
        let expected = |bits| if granted & bits != 0 { OK } else { Nfs4ErrAccess };
        assert_eq!(granted & XAREAD != 0, granted & XALIST != 0);
        assert_eq!(client.status(&[lookup(b"f"), get_xattr(b"a")]), expected(XAREAD), "{mode:o}");
        assert_eq!(client.status(&[lookup(b"f"), list_xattrs(0, 4096)]), expected(XALIST), "{mode:o}");
        assert_eq!(client.status(&[lookup(b"f"), set_xattr(b"a", b"v")]), expected(XAWRITE), "{mode:o}");
    }
    tank.model.set_read_only(true);
    assert_eq!(told(&mut client, b"f").1 & XAWRITE, 0);
    assert_eq!(client.status(&[lookup(b"f"), set_xattr(b"b", b"v")]), Nfs4ErrRofs);
    // A client of minor version 1 knows no such bits.
    let mut before = Opener::beside(&Arc::new(Scene { minor: 1, ..Scene::new() }), "a client", 1);
    before.scene.file(b"f");
    assert_eq!(told(&mut before, b"f"), (0, 0));
    for asked in [get_xattr(b"a"), set_xattr(b"a", b"v"), list_xattrs(0, 100), remove_xattr(b"a")] {
        assert_eq!(before.status(&[asked]), Nfs4ErrOpIllegal);
    }
}

#[test]
fn a_file_system_says_that_it_has_them_and_what_stands_above_has_none() {
    let mut client = client();
    let told = attributes(&mut client, &[get_attr(&[FATTR4_XATTR_SUPPORT])]);
    assert_eq!(told[&FATTR4_XATTR_SUPPORT], Fattr4Value::Fattr4XattrSupport(true));
    let told = attributes(&mut client, &[put_root(), get_attr(&[FATTR4_XATTR_SUPPORT])]);
    assert_eq!(told[&FATTR4_XATTR_SUPPORT], Fattr4Value::Fattr4XattrSupport(false));
    assert_eq!(client.status(&[put_root(), get_xattr(b"a")]), Nfs4ErrNoxattr);
    assert_eq!(client.status(&[put_root(), set_xattr(b"a", b"v")]), Nfs4ErrRofs);
    assert_eq!(client.status(&[put_root(), remove_xattr(b"a")]), Nfs4ErrRofs);
    assert_eq!(client.status(&[put_root(), list_xattrs(0, 100)]), OK);
    let set_support = Fattr4::of(&[Fattr4Value::Fattr4XattrSupport(true)]);
    assert_eq!(client.status(&[set(set_support)]), Nfs4ErrInval, "it is read alone");
    for number in 72..=75 {
        assert_eq!(client.status(&[bare(number)]), Nfs4ErrBadxdr, "arguments of {number} that end");
    }
}

#[test]
fn values_have_a_longest_one() {
    let mut client = client_of_long_values(0);
    let file = client.scene.file(b"f");
    let longest: Vec<u8> = (0..XATTR_VALUE_MAX).map(|at| (at % 253) as u8).collect();
    assert_eq!(client.status(&[lookup(b"f"), set_xattr(b"a", &longest)]), OK);
    assert!(value(&mut client, b"f", b"a") == Ok(longest.clone()));
    let longer = [&longest[..], b"x"].concat();
    assert_eq!(client.status(&[lookup(b"f"), set_xattr(b"a", &longer)]), Nfs4ErrXattr2Big);
    assert!(value(&mut client, b"f", b"a") == Ok(longest.clone()));
    assert_eq!(client.status(&[lookup(b"f"), set_xattr(b"b", &longest)]), OK);
    assert_eq!(client.status(&[lookup(b"f"), set_xattr(b"c", &longest)]), OK);
    assert_eq!(client.status(&[lookup(b"f"), set_xattr(b"d", &longest)]), Nfs4ErrNospc);
    // A session with short replies.
    let mut short = Opener::beside(&client.scene, "another client", 2);
    assert_eq!(client.scene.exports.tank.list_xattrs(&Cred::root(), file, 0).unwrap().len(), 3);
    assert_eq!(value(&mut short, b"f", b"a"), Err(Nfs4ErrRepTooBig));
}

/// It waits as SETATTR does, and where its promise breaks it is told so.
#[test]
fn a_change_waits_for_its_record() {
    let mut client = client();
    client.scene.file(b"f");
    client.scene.hold();
    for asked in [set_xattr(b"a", b"v"), remove_xattr(b"a")] {
        let ops = [client.sequence(), client.scene.put_tank(), lookup(b"f"), asked];
        let (mut job, step) = client.scene.begin_on(&client.link, 77 + client.next, &ops);
        assert!(matches!(step, Step::Wait(_)));
        let kept = fate(step);
        client.scene.exports.tank.keep_one();
        let reply = client.scene.service.reply_after_wait(&mut job, kept.recv().unwrap());
        assert_eq!(read_reply(&reply, &ops).status, OK);
    }
    let ops = [client.sequence(), client.scene.put_tank(), lookup(b"f"), set_xattr(b"a", b"v")];
    let (mut job, step) = client.scene.begin_on(&client.link, 99, &ops);
    let broken = fate(step);
    client.scene.exports.tank.break_one();
    let reply = client.scene.service.reply_after_wait(&mut job, broken.recv().unwrap());
    assert_eq!(read_reply(&reply, &ops).status, Nfs4ErrIo);
    *client.scene.exports.tank.promises.lock() = Promises::Ready;
}

/// In a persistent session: behind a restart who asks again is told what he has done, and nothing is done again.
#[test]
fn a_change_is_carried_out_once() {
    let create = set_xattr_as(SetxattrOption4::Setxattr4Create, b"a", b"v");
    let removal = remove_xattr(b"a");
    for asked in [vec![create.clone()], vec![create, removal]] {
        let mut client = client_of_long_values(PERSIST);
        client.scene.file(b"f");
        let ops = [&[client.scene.put_tank(), lookup(b"f")][..], &asked].concat();
        let request = [&[client.sequence()][..], &ops].concat();
        assert_eq!(client.send(&request).status, OK);
        let scene = Arc::into_inner(client.scene).expect("nobody else has it").restart();
        let changes = scene.exports.tank.changes.load(SeqCst);
        let again = scene.run(500, &request);
        assert_eq!(again.status, OK, "{:?}", again.resarray);
        assert_eq!(scene.exports.tank.changes.load(SeqCst), changes);
        // Nobody knows what the attribute was before: it is not told as unchanged (rules V6).
        let Some(NfsResop4::OpSetxattr(Setxattr4Res::Nfs4Ok(told))) = again.resarray.0.get(3) else { panic!() };
        assert!(!told.atomic && told.before < told.after);
    }
}
