//! The 22 procedures of NFSv3 and the six of MOUNT, over a socket, as a client sees them.

use crate::support::client::{Answer, Client, dir_name, mode, size, words};
use crate::support::{AWAY_POOL, Child, House, KEY, POOL};
use tally_base::{DatasetId, Generation, ObjectId, PoolGuid};
use tally_nfs::handle::Handle;
use tally_nfs::v3::Procedure;
use tally_nfs::xdr::Encoder;
use tally_vfs::{Cred, Identity, Names, ObjectRef, OpCtx, SetAttr};

const OK: u32 = 0;
const NOENT: u32 = 2;
const ACCES: u32 = 13;
const EXIST: u32 = 17;
const XDEV: u32 = 18;
const NOTDIR: u32 = 20;
const INVAL: u32 = 22;
const FBIG: u32 = 27;
const ROFS: u32 = 30;
const NAMETOOLONG: u32 = 63;
const NOTEMPTY: u32 = 66;
const STALE: u32 = 70;
const BADHANDLE: u32 = 10001;
const NOT_SYNC: u32 = 10002;
const TOOSMALL: u32 = 10005;
const BADTYPE: u32 = 10007;
const JUKEBOX: u32 = 10008;

fn of(handle: &[u8]) -> Encoder {
    words(|words| {
        words.opaque(handle);
    })
}

#[test]
fn null_getattr_setattr_access() {
    let house = House::new();
    let mut client = house.client();
    client.call(Procedure::Null, Encoder::new()).end();
    let root = client.mount("/tank");
    let (_, attr) = client.getattr(&root);
    let attr = attr.unwrap();
    assert_eq!((attr.kind, attr.mode, attr.nlink), (2, 0o777, 3));
    let file = client.file(&root, b"f");
    let set = |client: &mut Client, set: Encoder, guard: Option<(u32, u32)>| {
        let mut arguments = of(&file);
        arguments.raw(&set.into_vec()).bool(guard.is_some());
        if let Some((seconds, nanoseconds)) = guard {
            arguments.u32(seconds).u32(nanoseconds);
        }
        let mut answer = client.call(Procedure::SetAttr, arguments);
        let (_, after) = answer.wcc();
        answer.end();
        (answer.status, after)
    };
    let (status, after) = set(&mut client, mode(0o600), None);
    assert_eq!((status, after.as_ref().map(|attr| attr.mode)), (0, Some(0o600)));
    let ctime = after.unwrap().ctime;
    assert_eq!(set(&mut client, mode(0o644), Some((1, 2))).0, NOT_SYNC);
    assert_eq!(set(&mut client, mode(0o644), Some(ctime)).0, 0);
    assert_eq!(set(&mut client, size(1 << 63), None).0, FBIG);
    assert_eq!(set(&mut client, size(u64::MAX), None).0, FBIG);
    let times = words(|words| {
        words.bool(false).bool(false).bool(false).bool(false).u32(2).u32(5).u32(6).u32(2).u32(7).u32(999_999_999);
    });
    let after = set(&mut client, times, None).1.unwrap();
    assert_eq!((after.atime, after.mtime), ((5, 6), (7, 999_999_999)));
    let access = |client: &mut Client, handle: &[u8]| {
        let mut arguments = of(handle);
        arguments.u32(0x3f);
        let mut answer = client.call(Procedure::Access, arguments);
        answer.post_attr().unwrap();
        let granted = answer.u32();
        answer.end();
        granted
    };
    assert_eq!(access(&mut client, &file), 0x0d, "root: read, modify, extend; nobody executes it");
    assert_eq!(access(&mut client, &root), 0x1f);
    let mut other = house.client().acting_as(1000, &[1000, 5]);
    assert_eq!(access(&mut other, &file), 0x01);
    house.exports.tank.model.set_read_only(true);
    assert_eq!(access(&mut client, &root), 0x03, "nor does a dataset that takes none");
    house.exports.tank.model.set_read_only(false);
    *house.exports.tank_rule.lock() = "*(ro,insecure)".into();
    assert_eq!(access(&mut client, &root), 0x03, "a read-only rule grants no change");
}

/// No user and no group has the number 2^32 - 1: who sends it means none, and it used to be stored.
#[test]
fn the_id_that_is_none_changes_no_owner() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    let owner = |client: &mut Client, uid: u32, gid: u32| {
        let mut arguments = of(&file);
        arguments.bool(false).bool(true).u32(uid).bool(true).u32(gid).bool(false).u32(0).u32(0).bool(false);
        let answer = client.call(Procedure::SetAttr, arguments);
        let (_, attr) = client.getattr(&file);
        let attr = attr.unwrap();
        (answer.status, attr.uid, attr.gid)
    };
    assert_eq!(owner(&mut client, 7, 8), (0, 7, 8));
    assert_eq!(owner(&mut client, u32::MAX, 9), (0, 7, 9));
    assert_eq!(owner(&mut client, 10, u32::MAX), (0, 10, 9));
    assert_eq!(owner(&mut client, u32::MAX, u32::MAX), (0, 10, 9));
}

#[test]
fn names_are_judged() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let long = [b'n'; 256];
    let cases: [(&[u8], u32, u32); 6] = [
        (b"", ACCES, ACCES),
        (b"a/b", ACCES, ACCES),
        (b"a\0b", ACCES, ACCES),
        (&long, NAMETOOLONG, NAMETOOLONG),
        (b".", 0, EXIST),
        (b"..", 0, EXIST),
    ];
    for (name, found, made) in cases {
        assert_eq!(client.lookup(&root, name).0, found, "LOOKUP {name:?}");
        assert_eq!(client.create(&root, name).0, made, "CREATE {name:?}");
        assert_eq!(client.mkdir(&root, name).0, made, "MKDIR {name:?}");
        let mut removed = client.call(Procedure::Remove, dir_name(&root, name));
        let expected = if made == EXIST { INVAL } else { made };
        assert_eq!(removed.status, expected, "REMOVE {name:?}");
        removed.wcc();
        removed.end();
    }
    assert_eq!(client.create(&root, &long[..255]).0, 0);
    assert_eq!(client.lookup(&root, b"none").0, NOENT);
}

#[test]
fn making_and_removing() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let exclusive = |client: &mut Client, verifier: u64| {
        let mut arguments = dir_name(&root, b"x");
        arguments.u32(2).u64(verifier);
        let mut answer = client.call(Procedure::Create, arguments);
        (answer.status, (answer.status == 0).then(|| answer.post_handle().unwrap()))
    };
    let first = exclusive(&mut client, 1);
    assert_eq!(first.0, 0);
    assert_eq!(exclusive(&mut client, 1), first);
    assert_eq!(exclusive(&mut client, 2).0, EXIST);
    let file = first.1.unwrap();

    let mut arguments = dir_name(&root, b"link");
    arguments.raw(&mode(0o777).into_vec()).opaque(b"target/of/link");
    assert_eq!(client.call(Procedure::SymLink, arguments).status, 0);
    let (_, link) = client.lookup(&root, b"link");
    let mut answer = client.call(Procedure::ReadLink, of(&link.unwrap().0));
    assert_eq!(answer.post_attr().unwrap().kind, 5);
    assert_eq!(answer.opaque(), b"target/of/link");
    answer.end();
    let mut answer = client.call(Procedure::ReadLink, of(&file));
    assert_eq!(answer.status, INVAL);
    answer.post_attr().unwrap();
    answer.end();

    let mut mknod = |name: &[u8], kind: u32, rest: Encoder| {
        let mut arguments = dir_name(&root, name);
        arguments.u32(kind).raw(&rest.into_vec());
        client.call(Procedure::MkNod, arguments).status
    };
    let mut device = mode(0o600);
    device.u32(8).u32(1);
    assert_eq!(mknod(b"block", 3, device.clone()), 0);
    assert_eq!(mknod(b"char", 4, device), 0);
    assert_eq!(mknod(b"socket", 6, mode(0o600)), 0);
    assert_eq!(mknod(b"fifo", 7, mode(0o600)), 0);
    assert_eq!(mknod(b"file", 1, mode(0o600)), BADTYPE);
    let kinds = [(&b"block"[..], 3), (b"char", 4), (b"socket", 6), (b"fifo", 7)];
    for (name, kind) in kinds {
        assert_eq!(client.lookup(&root, name).1.unwrap().1.kind, kind);
    }

    let (_, dir) = client.mkdir(&root, b"d");
    let dir = dir.unwrap();
    let mut link = of(&file);
    link.opaque(&dir).opaque(b"hard");
    let mut answer = client.call(Procedure::Link, link);
    assert_eq!((answer.status, answer.post_attr().unwrap().nlink, answer.wcc().0), (0, 2, true));
    answer.end();
    assert_eq!(client.call(Procedure::RmDir, dir_name(&root, b"d")).status, NOTEMPTY);
    let mut rename = dir_name(&dir, b"hard");
    rename.opaque(&root).opaque(b"renamed");
    let mut answer = client.call(Procedure::Rename, rename);
    assert_eq!((answer.status, answer.wcc().0, answer.wcc().0), (0, true, true));
    answer.end();
    assert_eq!(client.call(Procedure::RmDir, dir_name(&root, b"d")).status, 0);
    assert_eq!(client.call(Procedure::Remove, dir_name(&root, b"x")).status, 0);
    assert_eq!(client.call(Procedure::Remove, dir_name(&root, b"renamed")).status, 0);
    assert_eq!(client.getattr(&file).0, STALE);
    assert_eq!(client.lookup(&dir, b"x").0, STALE);
}

#[test]
fn data_and_its_limits() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    let big: Vec<u8> = (0..1_048_576_u32).map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect();
    let (status, unstable) = client.write(&file, 0, &big, 0);
    let (count, _, verifier) = unstable.unwrap();
    assert_eq!((status, count), (0, 1 << 20));
    for stable in [1, 2] {
        let (count, reached, same) = client.write(&file, 1 << 20, b"end", stable).1.unwrap();
        assert_eq!((count, same), (3, verifier));
        assert!(reached >= stable, "never less stable than asked");
    }
    assert_eq!(client.read(&file, 0, 1 << 20).1, Some((big, false)));
    assert_eq!(client.read(&file, 1 << 20, 99).1, Some((b"end".to_vec(), true)));
    for (offset, count) in [(0, 0), (1 << 31, 5), (1 << 32, 5), (1 << 63, 5), (u64::MAX, u32::MAX)] {
        let mut arguments = of(&file);
        arguments.u64(offset).u32(count);
        let mut answer = client.call(Procedure::Commit, arguments);
        answer.wcc();
        assert_eq!((answer.status, answer.u64()), (0, verifier), "COMMIT {offset} {count}");
        answer.end();
        let (status, read) = client.read(&file, offset, count);
        assert_eq!(status, 0);
        let (data, eof) = read.unwrap();
        assert_eq!((data.is_empty(), eof), (true, offset > 0), "READ {offset} {count}");
    }
    for (offset, expected) in [(1 << 31, 0), (1 << 32, 0), ((1 << 63) - 1, FBIG), (1 << 63, FBIG), (u64::MAX, FBIG)] {
        assert_eq!(client.write(&file, offset, b"x", 2).0, expected, "WRITE at {offset}");
    }
    let mut lying = of(&file);
    lying.u64(0).u32(5).u32(2).opaque(b"four");
    assert_eq!(client.call(Procedure::Write, lying).status, INVAL);
    assert_eq!(client.write(&root, 0, b"x", 2).0, 21, "ISDIR");
}

struct Listed {
    names: Vec<(Vec<u8>, u64)>,
    with_handle: Vec<Vec<u8>>,
    eof: bool,
}

fn list(client: &mut Client, dir: &[u8], cookie: u64, plus: Option<u32>, most: u32) -> Result<Listed, u32> {
    let mut arguments = of(dir);
    arguments.u64(cookie).u64(0);
    let procedure = match plus {
        Some(dir_count) => {
            arguments.u32(dir_count);
            Procedure::ReadDirPlus
        }
        None => Procedure::ReadDir,
    };
    arguments.u32(most);
    let mut answer = client.call(procedure, arguments);
    answer.post_attr();
    if answer.status != 0 {
        answer.end();
        return Err(answer.status);
    }
    assert_eq!(answer.u64(), 0, "the cookie verifier is constant");
    let (mut names, mut with_handle) = (Vec::new(), Vec::new());
    while answer.bool() {
        answer.u64();
        let (name, cookie) = (answer.opaque(), answer.u64());
        names.push((name.clone(), cookie));
        if plus.is_some() {
            let (attr, handle) = (answer.post_attr(), answer.post_handle());
            assert_eq!(attr.is_some(), handle.is_some());
            if handle.is_some() {
                with_handle.push(name);
            }
        }
    }
    let eof = answer.bool();
    answer.end();
    Ok(Listed { names, with_handle, eof })
}

#[test]
fn listings() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let dir = client.mkdir(&root, b"d").1.unwrap();
    for number in 0..40 {
        client.file(&dir, format!("name {number}").as_bytes());
    }
    let whole = list(&mut client, &dir, 0, None, 1 << 20).unwrap();
    assert_eq!((whole.names.len(), whole.eof), (42, true));
    assert_eq!(whole.names[..2], [(b".".to_vec(), 1), (b"..".to_vec(), 2)]);
    for (plus, most) in [(None, 200), (None, 1000), (Some(u32::MAX), 400), (Some(60), 100_000), (Some(0), 100_000)] {
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let page = list(&mut client, &dir, cookie, plus, most).unwrap();
            assert!(!page.names.is_empty() || page.eof);
            assert_eq!(page.with_handle.len(), if plus.is_some() { page.names.len() } else { 0 });
            names.extend(page.names);
            if page.eof {
                break;
            }
            cookie = names.last().unwrap().1;
        }
        assert_eq!(names, whole.names, "{plus:?} {most}");
    }
    for (plus, most) in [(None, 0), (None, 127), (Some(100), 0), (Some(100), 250)] {
        assert_eq!(list(&mut client, &dir, 0, plus, most).err(), Some(TOOSMALL), "{plus:?} {most}");
    }
    for cookie in [1 << 31, 1 << 32, 1 << 63, u64::MAX] {
        let page = list(&mut client, &dir, cookie, Some(1000), 10_000).unwrap();
        assert!(page.names.is_empty() && page.eof, "behind {cookie}");
    }
    let file = client.lookup(&dir, b"name 0").1.unwrap().0;
    assert_eq!(list(&mut client, &file, 0, None, 1000).err(), Some(NOTDIR));
}

#[test]
fn about_the_file_system() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let mut answer = client.call(Procedure::FsStat, of(&root));
    answer.post_attr().unwrap();
    let space = [answer.u64(), answer.u64(), answer.u64(), answer.u64(), answer.u64(), answer.u64()];
    assert!(space[0] >= space[1] && space[1] >= space[2] && space[3] >= space[4], "{space:?}");
    assert_eq!(answer.u32(), 0);
    answer.end();
    let mut answer = client.call(Procedure::FsInfo, of(&root));
    answer.post_attr().unwrap();
    let transfer: Vec<u32> = (0..7).map(|_| answer.u32()).collect();
    assert_eq!(transfer, [1 << 20, 1 << 20, 4096, 1 << 20, 1 << 20, 4096, 64 << 10]);
    assert_eq!((answer.u64(), answer.u32(), answer.u32(), answer.u32()), ((1 << 63) - 1, 0, 1, 0x1b));
    answer.end();
    let mut answer = client.call(Procedure::PathConf, of(&root));
    answer.post_attr().unwrap();
    let words: Vec<u32> = (0..6).map(|_| answer.u32()).collect();
    assert_eq!(words, [65_000, 255, 1, 1, 0, 1]);
    answer.end();
}

#[test]
fn a_child_dataset_is_crossed_and_kept() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let fsid = client.getattr(&root).1.unwrap().fsid;
    let (child, attr) = client.lookup(&root, b"child").1.unwrap();
    assert_ne!(attr.fsid, fsid);
    assert_eq!(client.mount("/tank/child"), child);
    assert_eq!(client.getattr(&child).1, Some(attr));
    let page = list(&mut client, &root, 0, Some(1000), 10_000).unwrap();
    assert!(page.names.iter().any(|(name, _)| name == b"child"));
    assert!(!page.with_handle.contains(&b"child".to_vec()), "its handle is had by LOOKUP");
    let file = client.file(&root, b"f");
    client.file(&child, b"g");
    let rename = |from: &[u8], from_name: &[u8], to: &[u8], to_name: &[u8]| {
        let mut arguments = dir_name(from, from_name);
        arguments.opaque(to).opaque(to_name);
        arguments
    };
    assert_eq!(client.call(Procedure::Rename, rename(&root, b"f", &child, b"f")).status, XDEV);
    let mut link = of(&file);
    link.opaque(&child).opaque(b"f");
    let mut answer = client.call(Procedure::Link, link);
    assert_eq!(answer.status, XDEV);
    answer.post_attr();
    answer.wcc();
    answer.end();
    assert_eq!(client.call(Procedure::RmDir, dir_name(&root, b"child")).status, ACCES);
    assert_eq!(client.call(Procedure::Rename, rename(&root, b"child", &root, b"other")).status, ACCES);
    *house.exports.child_rule.lock() = "10.0.0.0/8(rw)".into();
    assert_eq!(client.lookup(&root, b"child").0, ACCES);
    assert_eq!(client.getattr(&child).0, ACCES, "rules are looked at on each request");
    assert_eq!(client.getattr(&root).0, 0);
}

#[test]
fn rules_and_handles() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let file = client.file(&root, b"f");
    let rule = |text: &str| text.clone_into(&mut house.exports.tank_rule.lock());
    rule("*(ro,no_root_squash,insecure)");
    assert_eq!(client.create(&root, b"g").0, ROFS);
    assert_eq!(client.write(&file, 0, b"x", 2).0, ROFS);
    assert_eq!(client.read(&file, 0, 1).0, 0);
    rule("*(rw,no_root_squash,secure)");
    assert_eq!(client.getattr(&root).0, 0, "a port above 1023 of this machine: the kernel says whose it is");
    rule("*(rw,insecure)");
    let squashed = client.file(&root, b"squashed");
    let attr = client.getattr(&squashed).1.unwrap();
    assert_eq!((attr.uid, attr.gid), (65_534, 65_534));
    rule("*(rw,insecure,all_squash,anonuid=7,anongid=8)");
    let mut user = house.client().acting_as(1000, &[100]);
    let made = user.file(&root, b"all");
    let attr = user.getattr(&made).1.unwrap();
    assert_eq!((attr.uid, attr.gid), (7, 8));
    rule("off");
    assert_eq!(client.getattr(&root).0, ACCES);
    rule("*(rw,no_root_squash,insecure)");
    let object = ObjectRef { id: ObjectId(3), generation: Generation(4) };
    let sealed = |pool, dataset, key| Handle { pool, dataset: DatasetId(dataset), object }.seal(key);
    let cases = [
        (sealed(POOL, 1, &KEY).to_vec(), STALE),
        (sealed(POOL, 9, &KEY).to_vec(), STALE),
        (sealed(PoolGuid(1), 1, &KEY).to_vec(), STALE),
        (sealed(POOL, 1, &[1; 32]).to_vec(), BADHANDLE),
        (sealed(AWAY_POOL, 1, &KEY).to_vec(), JUKEBOX),
        (sealed(AWAY_POOL, 1, &[1; 32]).to_vec(), BADHANDLE),
        (vec![], BADHANDLE),
        (vec![1; 64], BADHANDLE),
        (root[..55].to_vec(), BADHANDLE),
    ];
    for (handle, expected) in cases {
        assert_eq!(client.getattr(&handle).0, expected, "{handle:?}");
    }
    *house.exports.away.lock() = true;
    assert_eq!(client.getattr(&root).0, JUKEBOX, "never STALE while the pool is away");
    assert_eq!(client.create(&root, b"away").0, JUKEBOX);
}

#[test]
fn the_mount_protocol() {
    let house = House::new();
    let mut client = house.client();
    let path = |path: &str| {
        words(|words| {
            words.opaque(path.as_bytes());
        })
    };
    client.mount_call(0, Encoder::new()).end();
    let mut answer = client.mount_call(1, path("/tank"));
    let (status, root) = (answer.status, answer.opaque());
    assert_eq!((status, answer.u32(), answer.u32(), answer.u32()), (0, 2, 1, 0), "AUTH_SYS and AUTH_NONE");
    answer.end();
    let dir = client.mkdir(&root, b"d").1.unwrap();
    assert_eq!(client.mount("/tank/d/"), dir);
    client.file(&root, b"f");
    for (wrong, status) in [("/nothing", 13), ("/tank/none", 2), ("/tank/f", 20), ("/tankard", 13), ("/tank/../x", 13)]
    {
        assert_eq!(client.mount_call(1, path(wrong)).status, status, "{wrong}");
    }
    let dump = |client: &mut Client| {
        let mut answer = client.mount_call(2, Encoder::new());
        // The first word was taken for a status: whether a line follows.
        let mut lines = Vec::new();
        let mut more = answer.status == 1;
        while more {
            assert_eq!(answer.opaque(), b"127.0.0.1");
            lines.push(String::from_utf8(answer.opaque()).unwrap());
            more = answer.bool();
        }
        answer.end();
        lines
    };
    assert_eq!(dump(&mut client), ["/tank", "/tank/d/"]);
    client.mount_call(3, path("/tank")).end();
    assert_eq!(dump(&mut client), ["/tank/d/"]);
    client.mount_call(4, Encoder::new()).end();
    assert_eq!(dump(&mut client), Vec::<String>::new());
    let mut answer = client.mount_call(5, Encoder::new());
    assert_eq!((answer.status, answer.opaque()), (1, b"/tank".to_vec()));
    assert_eq!((answer.bool(), answer.opaque(), answer.bool()), (true, b"*".to_vec(), false));
    *house.exports.tank_rule.lock() = "10.0.0.0/8(rw)".into();
    assert_eq!(client.mount_call(1, path("/tank")).status, 13);
}

/// A client looks for a name, and another one makes it before the answer is written: NOENT went out with the
/// directory's attributes of the state in which the name exists, and the client kept "not there" for as long as those
/// held.
#[test]
fn a_name_that_is_not_there_is_told_with_the_directory_that_was_looked_at() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let before = client.getattr(&root).1.unwrap();
    *house.exports.tank.behind_a_look.lock() = Some(Box::new(|model| {
        let cred = Cred::root();
        let ctx = OpCtx::of(&cred);
        model.mkdir(ctx, model.root(), b"n", &SetAttr::default()).result.unwrap();
    }));
    let mut answer = client.call(Procedure::Lookup, dir_name(&root, b"n"));
    let told = answer.post_attr().unwrap();
    answer.end();
    assert_eq!(answer.status, NOENT);
    assert_eq!((told.mtime, told.nlink), (before.mtime, before.nlink));
    assert!(client.lookup(&root, b"n").1.is_some(), "it is there by now");
}

/// It was found, its pool was exported, and there was no rule for it any more: ACCES, to a client that had only to wait.
#[test]
fn a_pool_that_goes_away_beside_a_request_is_waited_for() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let seen = (0..8).map(|looks| {
        *house.exports.away.lock() = false;
        *house.exports.looks.lock() = looks;
        [client.lookup(&root, b"child").0, client.create(&root, format!("made {looks}").as_bytes()).0]
    });
    let seen: Vec<_> = seen.collect();
    assert_eq!((seen.first(), seen.last()), (Some(&[JUKEBOX; 2]), Some(&[OK; 2])));
    assert!(seen.iter().flatten().all(|status| [OK, JUKEBOX].contains(status)), "{seen:?}");
}

/// The directory below a dataset was given out while the dataset was made, and who had mounted it wrote below the dataset from then on.
#[test]
fn nobody_is_shown_what_a_dataset_covers_that_comes_or_goes() {
    let house = House::new();
    let mut client = house.client();
    let root = client.mount("/tank");
    let handle = client.lookup(&root, b"child").1.unwrap().0;
    // LOOKUP, RMDIR and MKDIR of the name, whether a listing has its handle, MOUNT of its path, and GETATTR of its handle.
    let told = |client: &mut Client, child| {
        *house.exports.child_is.lock() = child;
        let listed = client.call(
            Procedure::ReadDirPlus,
            words(|words| {
                words.opaque(&root).u64(0).u64(0).u32(4096).u32(4096);
            }),
        );
        let (remove, make) = (dir_name(&root, b"child"), {
            let mut words = dir_name(&root, b"child");
            words.append(mode(0o755));
            words
        });
        let statuses = [
            client.lookup(&root, b"child").0,
            client.call(Procedure::RmDir, remove).status,
            client.call(Procedure::MkDir, make).status,
            client.getattr(&handle).0,
        ];
        (statuses, handles(listed))
    };
    assert_eq!(told(&mut client, Child::There), ([OK, ACCES, EXIST, OK], vec![true, true, false]));
    assert_eq!(told(&mut client, Child::New), ([JUKEBOX, ACCES, JUKEBOX, JUKEBOX], vec![true, true, false]));
    assert_eq!(told(&mut client, Child::Coming), ([JUKEBOX, ACCES, JUKEBOX, STALE], vec![true, true, false]));
    // To destroy may take minutes: its name is closed, and what a client has of it waits until it is durably gone.
    assert_eq!(told(&mut client, Child::Going), ([ACCES, ACCES, JUKEBOX, JUKEBOX], vec![true, true, false]));
}

/// Which entries of a listing have a handle: `.`, `..`, and the child.
fn handles(mut listed: Answer) -> Vec<bool> {
    assert_eq!(listed.status, OK);
    listed.post_attr();
    listed.u64();
    let mut handles = Vec::new();
    while listed.bool() {
        listed.u64();
        listed.opaque();
        listed.u64();
        listed.post_attr();
        handles.push(listed.post_handle().is_some());
    }
    handles
}
