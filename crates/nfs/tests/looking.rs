//! Version 4, as far as it goes: what a client sees that looks, over a socket.

mod support;

use std::collections::BTreeMap;

use support::client::{Answer, Client, words};
use support::{House, KEY, POOL};
use tally_base::DatasetId;
use tally_nfs::handle::{Above, Handle};
use tally_nfs::v3;
use tally_nfs::xdr::Encoder;
use tally_vfs::{Attributes, Content, Cred, Identity, Names, ObjectRef, OpCtx, SetAttr, Stability};

const OK: u32 = 0;
const NOENT: u32 = 2;
const ACCESS: u32 = 13;
const NOTDIR: u32 = 20;
const ISDIR: u32 = 21;
const INVAL: u32 = 22;
const NAMETOOLONG: u32 = 63;
const STALE: u32 = 70;
const BADHANDLE: u32 = 10001;
const BAD_COOKIE: u32 = 10003;
const NOTSUPP: u32 = 10004;
const TOOSMALL: u32 = 10005;
const DELAY: u32 = 10008;
const SAME: u32 = 10009;
const RESOURCE: u32 = 10018;
const NOFILEHANDLE: u32 = 10020;
const MINOR_VERS_MISMATCH: u32 = 10021;
const STALE_CLIENTID: u32 = 10022;
const BAD_STATEID: u32 = 10025;
const NOT_SAME: u32 = 10027;
const SYMLINK: u32 = 10029;
const RESTOREFH: u32 = 10030;
const ATTRNOTSUPP: u32 = 10032;
const BADXDR: u32 = 10036;
const BADNAME: u32 = 10041;
const OP_ILLEGAL: u32 = 10044;

const TYPE: u32 = 1;
const SIZE: u32 = 4;
const FSID: u32 = 8;
const RDATTR_ERROR: u32 = 11;
const FILEHANDLE: u32 = 19;
const FILEID: u32 = 20;
const MOUNTED_ON: u32 = 55;

/// An operation with its arguments.
type Op = Encoder;
/// Names from the root of all.
type Path<'a> = &'a [&'a [u8]];

fn op(number: u32) -> Op {
    words(|words| {
        words.u32(number);
    })
}

fn with(number: u32, fill: impl FnOnce(&mut Encoder)) -> Op {
    let mut op = op(number);
    fill(&mut op);
    op
}

fn put_root() -> Op {
    op(24)
}

fn put(handle: &[u8]) -> Op {
    with(22, |words| {
        words.opaque(handle);
    })
}

fn get_fh() -> Op {
    op(10)
}

fn lookup(name: &[u8]) -> Op {
    with(15, |words| {
        words.opaque(name);
    })
}

fn bitmap(words: &mut Encoder, numbers: &[u32]) {
    let mut map = [0_u32; 2];
    numbers.iter().for_each(|number| map[(number / 32) as usize] |= 1 << (number % 32));
    words.u32(2).u32(map[0]).u32(map[1]);
}

fn get_attr(numbers: &[u32]) -> Op {
    with(9, |words| bitmap(words, numbers))
}

fn read_dir(cookie: u64, count: u32, numbers: &[u32]) -> Op {
    with(26, |words| {
        words.u64(cookie).u64(0).u32(count).u32(count);
        bitmap(words, numbers);
    })
}

fn read(stateid: [u8; 16], offset: u64, count: u32) -> Op {
    with(25, |words| {
        words.raw(&stateid).u64(offset).u32(count);
    })
}

/// Sends a compound of these, and gives its status, how many results there are, and them.
fn compound(client: &mut Client, minor: u32, ops: Vec<Op>) -> (u32, u32, Answer) {
    let arguments = words(|words| {
        words.opaque(b"tag").u32(minor).u32(ops.len() as u32);
        ops.into_iter().for_each(|op| _ = words.append(op));
    });
    let xid = client.xid();
    client.send(xid, (v3::PROGRAM, tally_nfs::v4::VERSION), 1, arguments);
    let (_, mut answer) = client.receive_answer();
    assert_eq!(answer.opaque(), b"tag");
    let count = answer.u32();
    (answer.status, count, answer)
}

/// The status of the last of these, each before which is OK.
fn status(client: &mut Client, ops: Vec<Op>) -> u32 {
    let sent = ops.len() as u32;
    let (status, count, _) = compound(client, 0, ops);
    assert!(count == sent || status != OK);
    status
}

/// What the last of these gave; the others give nothing but their status.
fn last(client: &mut Client, ops: Vec<Op>) -> Answer {
    let sent = ops.len() as u32;
    let (status, count, mut answer) = compound(client, 0, ops);
    assert_eq!((status, count), (OK, sent));
    for _ in 0..count {
        assert!((3..40).contains(&answer.u32()));
        assert_eq!(answer.u32(), OK);
    }
    answer
}

/// Attributes of a fattr4 that are one or two words, or opaque.
fn attributes(answer: &mut Answer) -> BTreeMap<u32, Vec<u8>> {
    let words: Vec<u32> = (0..answer.u32()).map(|_| answer.u32()).collect();
    let has = |number: &u32| words.get((number / 32) as usize).is_some_and(|word| word & 1 << (number % 32) != 0);
    let values = answer.opaque();
    let mut rest = values.as_slice();
    let mut take = |bytes: usize| {
        let (taken, left) = rest.split_at(bytes);
        rest = left;
        taken.to_vec()
    };
    let found = (0..64).filter(has).map(|number| {
        let value = match number {
            0 => {
                let count = u32::from_be_bytes(take(4).try_into().unwrap());
                take(4 * count as usize)
            }
            3 | 4 | 20..=23 | 27 | 30 | 31 | 38..=45 | 55 => take(8),
            8 => take(16),
            47 | 51..=53 => take(12),
            19 | 36 | 37 => {
                let length = u32::from_be_bytes(take(4).try_into().unwrap()) as usize;
                let mut value = take(length.next_multiple_of(4));
                value.truncate(length);
                value
            }
            _ => take(4),
        };
        (number, value)
    });
    let found = found.collect();
    assert!(rest.is_empty(), "values that nobody told of: {rest:?}");
    found
}

fn number(value: &[u8]) -> u64 {
    value.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// `/tank` with a file, a link and a directory of three files, and `/tank/child` with a file; a house that speaks version 4.
fn house() -> House {
    let house = House::speaking_4();
    let (root, set) = (Cred::root(), SetAttr { mode: Some(0o644), ..SetAttr::default() });
    let ctx = OpCtx { cred: &root, reply: None };
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
    let mut answer =
        last(&mut client, vec![put_root(), lookup(b"tank"), lookup(b"file"), get_attr(&[TYPE, SIZE, FSID, FILEID])]);
    let file = attributes(&mut answer);
    assert_eq!((number(&file[&TYPE]), number(&file[&SIZE])), (1, 10));
    assert_eq!(file[&FSID], [POOL.0.to_be_bytes(), 1_u64.to_be_bytes()].concat());
    let mut answer = last(&mut client, vec![put_root(), lookup(b"tank"), lookup(b"file"), read([0; 16], 5, 100)]);
    assert_eq!((answer.bool(), answer.opaque()), (true, b"bytes".to_vec()));
    let mut answer = last(&mut client, vec![put_root(), lookup(b"tank"), lookup(b"link"), op(27)]);
    assert_eq!(answer.opaque(), b"file");
    // A child dataset is crossed into, and left again.
    let crossed = |mut ops: Vec<Op>| {
        ops.splice(0..0, [put_root(), lookup(b"tank"), lookup(b"child")]);
        ops
    };
    let child = attributes(&mut last(&mut client, crossed(vec![get_attr(&[FSID, FILEID, MOUNTED_ON])])));
    assert_eq!(child[&FSID], [POOL.0.to_be_bytes(), 2_u64.to_be_bytes()].concat());
    let covered = house.exports.tank.lookup(&Cred::root(), house.exports.tank.root(), b"child").unwrap().0.object.id.0;
    assert_eq!(number(&child[&MOUNTED_ON]), covered);
    assert_ne!(child[&FILEID], child[&MOUNTED_ON]);
    let above = attributes(&mut last(&mut client, crossed(vec![op(16), get_attr(&[FSID])])));
    assert_eq!(above[&FSID], file[&FSID]);
    let top = attributes(&mut last(&mut client, crossed(vec![op(16), op(16), get_attr(&[FSID, TYPE])])));
    assert_eq!((number(&top[&FSID][..8]), number(&top[&FSID][8..]), number(&top[&TYPE])), (0, 1, 2));
    assert_eq!(status(&mut client, vec![put_root(), op(16)]), NOENT, "nothing is above the root of all");
}

#[test]
fn every_attribute_that_is_said_to_be_there_has_a_value() {
    let house = house();
    let mut client = house.client();
    for path in [vec![], vec![lookup(b"tank")], vec![lookup(b"tank"), lookup(b"file")]] {
        let ops = |last: Op| [vec![put_root()], path.clone(), vec![last]].concat();
        let supported = attributes(&mut last(&mut client, ops(get_attr(&[0]))))[&0].clone();
        let has = |number: &u32| {
            supported[3 - (number / 8 % 4) as usize + (number / 32 * 4) as usize] & 1 << (number % 8) != 0
        };
        let all: Vec<u32> = (0..64).filter(has).collect();
        assert_eq!(all.len(), 48);
        // Those that are only set.
        let all: Vec<u32> = all.into_iter().filter(|number| ![48, 54].contains(number)).collect();
        let told = attributes(&mut last(&mut client, ops(get_attr(&all))));
        assert_eq!(told.keys().copied().collect::<Vec<_>>(), all);
        // What is told is what VERIFY compares with.
        let one = told[&FILEID].clone();
        let verify = |number: u32, value: &[u8]| {
            with(number, |words| {
                bitmap(words, &[FILEID]);
                words.opaque(value);
            })
        };
        assert_eq!(status(&mut client, ops(verify(37, &one))), OK);
        assert_eq!(status(&mut client, ops(verify(17, &one))), SAME);
        assert_eq!(status(&mut client, ops(verify(37, &[0; 8]))), NOT_SAME);
        assert_eq!(status(&mut client, ops(verify(17, &[0; 8]))), OK);
    }
}

/// What a rule closes is a way where something below it is open, and not there where nothing is.
#[test]
fn above_the_exports_a_client_sees_what_leads_to_them() {
    let house = house();
    let mut client = house.client();
    let above = [0_u64.to_be_bytes(), 1_u64.to_be_bytes()].concat();
    let names = |client: &mut Client, path: &[&[u8]]| {
        let mut ops = vec![put_root()];
        ops.extend(path.iter().map(|name| lookup(name)));
        ops.push(read_dir(0, 4096, &[TYPE, FSID]));
        let mut answer = last(client, ops);
        answer.u64();
        let mut names = Vec::new();
        while answer.bool() {
            answer.u64();
            let name = String::from_utf8(answer.opaque()).unwrap();
            names.push((name, attributes(&mut answer)[&FSID] == above));
        }
        assert!(answer.bool(), "all are there");
        names
    };
    let named = |name: &str, is_above: bool| (name.to_owned(), is_above);
    assert_eq!(names(&mut client, &[]), [named("tank", false)]);
    *house.exports.tank_rule.lock() = "10.0.0.0/8(rw)".into();
    assert_eq!(names(&mut client, &[]), [named("tank", true)]);
    assert_eq!(names(&mut client, &[b"tank"]), [named("child", false)]);
    assert_eq!(
        status(&mut client, vec![put_root(), lookup(b"tank"), lookup(b"file")]),
        NOENT,
        "of what is closed only the way is seen"
    );
    let mut answer = last(&mut client, vec![put_root(), lookup(b"tank"), get_attr(&[FILEHANDLE])]);
    let way = attributes(&mut answer)[&FILEHANDLE].clone();
    assert_eq!(way, Above::Dataset(POOL, DatasetId(1)).encode());
    *house.exports.child_rule.lock() = "10.0.0.0/8(rw)".into();
    assert_eq!(names(&mut client, &[]), []);
    assert_eq!(status(&mut client, vec![put_root(), lookup(b"tank")]), NOENT);
    assert_eq!(status(&mut client, vec![put(&way), get_attr(&[TYPE])]), STALE, "a way that leads nowhere");
    *house.exports.tank_rule.lock() = "*(rw,no_root_squash,insecure)".into();
    *house.exports.child_rule.lock() = "*(rw)".into();
    assert_eq!(status(&mut client, vec![put(&way), get_attr(&[TYPE])]), STALE, "it is open by now, and looked up anew");
    *house.exports.child_rule.lock() = "10.0.0.0/8(rw)".into();
    let into_child = vec![put_root(), lookup(b"tank"), lookup(b"child")];
    assert_eq!(status(&mut client, into_child), ACCESS, "its directory is seen, and it is closed");
    *house.exports.away.lock() = true;
    assert_eq!(status(&mut client, vec![put_root(), lookup(b"tank")]), DELAY);
}

#[test]
fn a_listing_goes_on_where_it_ended_and_leaves_dots_out() {
    let house = house();
    let mut client = house.client();
    let (mut cookie, mut seen) = (0, Vec::new());
    loop {
        let mut answer = last(&mut client, vec![put_root(), lookup(b"tank"), read_dir(cookie, 90, &[FILEID])]);
        answer.u64();
        let mut count = 0;
        while answer.bool() {
            cookie = answer.u64();
            let name = answer.opaque();
            seen.push((String::from_utf8(name).unwrap(), number(&attributes(&mut answer)[&FILEID])));
            count += 1;
        }
        if answer.bool() {
            break;
        }
        assert!((1..3).contains(&count), "{count} in 90 bytes");
    }
    seen.sort();
    let names: Vec<_> = seen.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["child", "dir", "file", "link"]);
    for (name, id) in &seen {
        let ops = vec![put_root(), lookup(b"tank"), lookup(name.as_bytes()), get_attr(&[FILEID])];
        assert_eq!(number(&attributes(&mut last(&mut client, ops))[&FILEID]), *id, "{name}");
    }
    // A child that is closed is told as such to who asks for that, and left out for others.
    *house.exports.child_rule.lock() = "10.0.0.0/8(rw)".into();
    let listed = |client: &mut Client, numbers: &[u32]| {
        let mut answer = last(client, vec![put_root(), lookup(b"tank"), read_dir(0, 4096, numbers)]);
        answer.u64();
        let mut names = BTreeMap::new();
        while answer.bool() {
            answer.u64();
            let name = String::from_utf8(answer.opaque()).unwrap();
            names.insert(name, attributes(&mut answer).get(&RDATTR_ERROR).map(|status| number(status) as u32));
        }
        names
    };
    assert_eq!(listed(&mut client, &[TYPE]).into_keys().collect::<Vec<_>>(), ["dir", "file", "link"]);
    let told = listed(&mut client, &[TYPE, RDATTR_ERROR]);
    assert_eq!((told["child"], told["file"]), (Some(ACCESS), Some(OK)));
    // Who may list a directory and not search it sees names and ids, and not more.
    let tank = &house.exports.tank;
    let dir = tank.lookup(&Cred::root(), tank.root(), b"dir").unwrap().0.object;
    let closed = SetAttr { mode: Some(0o444), ..SetAttr::default() };
    tank.setattr(OpCtx { cred: &Cred::root(), reply: None }, dir, &closed, None).result.unwrap();
    let mut user = house.client().acting_as(1000, &[1000]);
    let path = |last: Op| vec![put_root(), lookup(b"tank"), lookup(b"dir"), last];
    let mut answer = last(&mut user, path(read_dir(0, 4096, &[FILEID])));
    answer.u64();
    assert!(answer.bool());
    assert_eq!(status(&mut user, path(read_dir(0, 4096, &[TYPE]))), ACCESS);
    assert_eq!(status(&mut user, path(read_dir(0, 4096, &[TYPE, RDATTR_ERROR]))), OK);
    // What nothing has to be known for is told as well.
    let mut answer = last(&mut client, vec![put_root(), lookup(b"tank"), read_dir(0, 4096, &[RDATTR_ERROR])]);
    answer.u64();
    assert!(answer.bool());
}

/// Each wrong use, and what it is told (RFC 7530 §13.4).
#[test]
fn wrong_uses_are_told_apart() {
    let house = house();
    let mut client = house.client();
    let object = ObjectRef { id: tally_base::ObjectId(99), generation: tally_base::Generation(4) };
    let gone = Handle { pool: POOL, dataset: DatasetId(1), object }.seal(&KEY);
    let forged = Handle { pool: POOL, dataset: DatasetId(1), object }.seal(&[1; 32]);
    let at = |names: &[&[u8]], last: Op| {
        let mut ops = vec![put_root()];
        ops.extend(names.iter().map(|name| lookup(name)));
        ops.push(last);
        ops
    };
    let (tank, file, link): (Path<'_>, Path<'_>, Path<'_>) = (&[b"tank"], &[b"tank", b"file"], &[b"tank", b"link"]);
    let long = vec![b'x'; 256];
    let cases: Vec<(&str, Vec<Op>, u32)> = vec![
        ("no handle", vec![get_attr(&[TYPE])], NOFILEHANDLE),
        ("no handle to save", vec![op(32)], NOFILEHANDLE),
        ("nothing saved", vec![op(31)], RESTOREFH),
        ("a handle that is none", vec![put(&[7; 9])], BADHANDLE),
        ("a forged handle", vec![put(&forged)], BADHANDLE),
        ("an object that is gone", vec![put(&gone), get_attr(&[TYPE])], STALE),
        ("no name", at(tank, lookup(b"")), INVAL),
        ("a name that leads up", at(tank, lookup(b"..")), BADNAME),
        ("a path", at(tank, lookup(b"dir/a")), BADNAME),
        ("a long name", at(tank, lookup(&long)), NAMETOOLONG),
        ("a name that is not there", at(tank, lookup(b"none")), NOENT),
        ("a name below a file", at(file, lookup(b"x")), NOTDIR),
        ("a name below a link", at(link, lookup(b"x")), SYMLINK),
        ("above a file", at(file, op(16)), NOTDIR),
        ("a listing of a file", at(file, read_dir(0, 4096, &[])), NOTDIR),
        ("a cookie that is none", at(tank, read_dir(2, 4096, &[])), BAD_COOKIE),
        ("no room for an entry", at(tank, read_dir(0, 20, &[])), TOOSMALL),
        ("a directory is read", at(tank, read([0; 16], 0, 1)), ISDIR),
        ("the root of all is read", at(&[], read([0; 16], 0, 1)), ISDIR),
        ("a link is read", at(link, read([0; 16], 0, 1)), INVAL),
        ("a file is no link", at(file, op(27)), INVAL),
        ("somebody's state", at(file, read([3; 16], 0, 1)), BAD_STATEID),
        ("what is only set", at(file, get_attr(&[48])), INVAL),
        (
            "a comparison with what there is not",
            at(
                file,
                with(37, |words| {
                    bitmap(words, &[12]);
                    words.opaque(&[0; 4]);
                }),
            ),
            ATTRNOTSUPP,
        ),
        (
            "a comparison with an error",
            at(
                file,
                with(37, |words| {
                    bitmap(words, &[RDATTR_ERROR]);
                    words.opaque(&[0; 4]);
                }),
            ),
            INVAL,
        ),
        (
            "a comparison with what is of another version",
            at(
                file,
                with(17, |words| {
                    words.u32(3).u32(0).u32(0).u32(1 << 11).opaque(&[]);
                }),
            ),
            ATTRNOTSUPP,
        ),
        ("no room for a listing", at(&[b"tank", b"dir"], read_dir(3 << 40, 15, &[])), TOOSMALL),
        ("an operation to come", at(file, op(18)), NOTSUPP),
        ("an operation of a later version", at(file, op(53)), OP_ILLEGAL),
        ("no operation", at(file, op(2)), OP_ILLEGAL),
        ("arguments that end", at(file, op(9)), BADXDR),
        ("a bitmap of 2^30 words", at(file, with(9, |words| _ = words.u32(1 << 30))), BADXDR),
    ];
    for (what, ops, expected) in cases {
        assert_eq!(status(&mut client, ops), expected, "{what}");
    }
    assert_eq!(compound(&mut client, 1, vec![put_root()]).0, MINOR_VERS_MISMATCH);
    assert_eq!(status(&mut client, vec![op(24); 129]), RESOURCE);
    let (status, count, _) = compound(&mut client, 0, vec![put_root(), lookup(b"none"), get_fh()]);
    assert_eq!((status, count), (NOENT, 2), "behind what failed nothing is done");
}

/// What may be done, and what of it the kind of object has a meaning for.
#[test]
fn access_is_told_for_what_means_something() {
    let house = house();
    let mut client = house.client();
    let mut user = house.client().acting_as(1000, &[1000]);
    let access = |client: &mut Client, path: Path<'_>| {
        let mut ops = vec![put_root()];
        ops.extend(path.iter().map(|name| lookup(name)));
        ops.push(with(3, |words| _ = words.u32(u32::MAX)));
        let mut answer = last(client, ops);
        (answer.u32(), answer.u32())
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
        with(35, |words| {
            words.raw(&[start; 8]).opaque(name).u32(0x4000_0000).opaque(b"tcp").opaque(b"10.0.0.1.3.4").u32(1);
        })
    };
    let word = |number: u32, id: u64| with(number, |words| _ = words.u64(id));
    let mut answer = last(&mut client, vec![introduce(b"here", 1)]);
    let (id, confirmation) = (answer.u64(), answer.u64());
    assert_eq!(status(&mut client, vec![word(30, id)]), STALE_CLIENTID, "nobody has confirmed it");
    let confirm = |confirmation: u64| with(36, |words| _ = words.u64(id).u64(confirmation));
    assert_eq!(status(&mut client, vec![confirm(confirmation ^ 1)]), STALE_CLIENTID);
    assert_eq!(status(&mut client, vec![confirm(confirmation), word(30, id)]), OK);
    let mut other = house.client().acting_as(1000, &[100]);
    assert_eq!(status(&mut other, vec![introduce(b"here", 1)]), OK, "the first one holds nothing");
    assert_eq!(status(&mut client, vec![introduce(&[7; 1025], 1)]), BADXDR);
}

/// A hundred READs of a megabyte in one compound would have held a hundred megabytes.
#[test]
fn what_one_compound_is_answered_with_is_bounded() {
    let house = house();
    let (root, tank) = (Cred::root(), house.exports.tank.clone());
    let file = tank.lookup(&root, tank.root(), b"file").unwrap().0.object;
    let ctx = OpCtx { cred: &root, reply: None };
    tank.write(ctx, file, 0, vec![7; 1 << 20].into(), Stability::FileSync).result.unwrap();
    let mut client = house.client();
    let mut ops = vec![put_root(), lookup(b"tank"), lookup(b"file")];
    ops.extend((0..100).map(|_| read([0xff; 16], 0, 1 << 20)));
    let (status, count, _) = compound(&mut client, 0, ops);
    assert_eq!(status, RESOURCE);
    assert!((5..8).contains(&count), "{count}");
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
