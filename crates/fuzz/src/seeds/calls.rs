//! Calls of every procedure, with handles of what is there.

use tally_nfs::v3::Procedure;
use tally_nfs::xdr::Encoder;
use tally_nfs::{mount, v3};

use super::{Seed, put_blob};
use crate::house::{CHILD, CHILD_DIR, DIR, FILE, LINK, TANK, TANK_ROOT, handle};

/// What the input makes itself.
const NEXT: u64 = 18;

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (procedure, arguments) in nfs_calls() {
        let number = procedure.number() as u8;
        seeds.push(Seed::new("nfs", format!("{}-{}", procedure.name(), seeds.len()), calls(0, &[(number, arguments)])));
    }
    let next = (Procedure::GetAttr, words(|words| words.opaque(&handle(TANK, NEXT))));
    let story =
        nfs_calls().into_iter().chain([next]).map(|(procedure, arguments)| (procedure.number() as u8, arguments));
    seeds.push(Seed::new("nfs", "one-after-the-other", calls(1, &story.collect::<Vec<_>>())));
    for (number, path) in [
        (0, ""),
        (1, "/tank/dir"),
        (1, "/tank/child"),
        (1, "/tank/./dir/../x"),
        (2, ""),
        (3, "/tank"),
        (4, ""),
        (5, ""),
    ] {
        let name = format!("procedure-{number}-{}", seeds.len());
        seeds.push(Seed::new("mount", name, calls(0, &[(number, path_arguments(path))])));
    }
    let visit = [
        (1, path_arguments("/tank")),
        (2, words(|words| words)),
        (3, path_arguments("/tank")),
        (2, words(|words| words)),
    ];
    seeds.push(Seed::new("mount", "a-visit", calls(2, &visit)));
    seeds.extend(streams());
    seeds.extend(compounds());
    seeds
}

/// Compounds of version 4: of every operation one, from the root of all and from handles.
fn compounds() -> Vec<Seed> {
    type Ops = Vec<Vec<u8>>;
    let op = |number: u32, fill: &dyn Fn(&mut Encoder)| {
        words(|words| {
            words.u32(number);
            fill(words);
            words
        })
    };
    let plain = |number| op(number, &|_| {});
    let root = || plain(24);
    let put = |handle: &[u8]| op(22, &|words| _ = words.opaque(handle));
    let lookup = |name: &[u8]| op(15, &|words| _ = words.opaque(name));
    let map = |words: &mut Encoder, low: u32, high: u32| _ = words.u32(2).u32(low).u32(high);
    let get_attr = |low, high| op(9, &|words| map(words, low, high));
    let read_dir = |cookie| {
        op(26, &|words| {
            words.u64(cookie).u64(0).u32(1024).u32(4096);
            map(words, 0x0018_091a, 0x0030_a23a);
        })
    };
    let compare = |number, kind| {
        op(number, &|words| {
            map(words, 1 << 1, 0);
            words.opaque(&[0, 0, 0, kind]);
        })
    };
    let (dir, file, link) = (handle(TANK, DIR), handle(TANK, FILE), handle(TANK, LINK));
    let stories: Vec<(&str, Vec<Ops>)> = vec![
        (
            "from-the-root",
            vec![vec![
                root(),
                plain(10),
                read_dir(0),
                lookup(b"tank"),
                lookup(b"dir"),
                read_dir(0),
                plain(16),
                plain(16),
            ]],
        ),
        (
            "into-a-child",
            vec![vec![
                root(),
                lookup(b"tank"),
                lookup(b"child"),
                get_attr(u32::MAX, 0x00b8_ffff),
                plain(16),
                plain(10),
            ]],
        ),
        ("attributes", vec![vec![put(&file), get_attr(0xffff_ffff, 0x00b8_bffe), compare(17, 2), compare(37, 1)]]),
        ("a-listing", vec![vec![put(&dir), read_dir(0)], vec![put(&dir), read_dir(9)]]),
        (
            "data",
            vec![vec![
                put(&file),
                op(25, &|words| _ = words.u64(0).u64(0).u64(0).u32(9)),
                plain(32),
                put(&link),
                plain(27),
                plain(31),
            ]],
        ),
        (
            "rights",
            vec![vec![
                put(&dir),
                op(3, &|words| _ = words.u32(0x3f)),
                put(&handle(TANK, TANK_ROOT)),
                op(33, &|words| _ = words.opaque(b"dir")),
            ]],
        ),
        (
            "a-client",
            vec![
                vec![op(35, &|words| {
                    _ = words.u64(1).opaque(b"here").u32(1).opaque(b"tcp").opaque(b"10.0.0.1.3.4").u32(1)
                })],
                vec![op(36, &|words| _ = words.u64(1).u64(1)), op(30, &|words| _ = words.u64(1))],
            ],
        ),
    ];
    let story = |(name, compounds): (&str, Vec<Ops>)| {
        let mut bytes = vec![1];
        for ops in compounds {
            let head = words(|words| words.opaque(b"seed").u32(0).u32(ops.len() as u32));
            put_blob(&mut bytes, &[head, ops.concat()].concat());
        }
        Seed::new("compound", name, bytes)
    };
    stories.into_iter().map(story).collect()
}

fn calls(who: u8, calls: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![who];
    for (procedure, arguments) in calls {
        bytes.push(*procedure);
        put_blob(&mut bytes, arguments);
    }
    bytes
}

fn words(fill: impl FnOnce(&mut Encoder) -> &mut Encoder) -> Vec<u8> {
    let mut words = Encoder::new();
    fill(&mut words);
    words.into_vec()
}

fn path_arguments(path: &str) -> Vec<u8> {
    words(|words| if path.is_empty() { words } else { words.opaque(path.as_bytes()) })
}

/// `sattr3` with everything set.
fn all_set(words: &mut Encoder) {
    words.bool(true).u32(0o640).bool(true).u32(0).bool(true).u32(0).bool(true).u64(7).u32(2).u32(5).u32(6).u32(1);
}

/// `sattr3` with nothing set.
fn none_set(words: &mut Encoder) {
    for _ in 0..6 {
        words.u32(0);
    }
}

fn nfs_calls() -> Vec<(Procedure, Vec<u8>)> {
    use Procedure as P;
    let root = &handle(TANK, TANK_ROOT);
    let (dir, file, link) = (&handle(TANK, DIR), &handle(TANK, FILE), &handle(TANK, LINK));
    let child = &handle(CHILD, TANK_ROOT);
    let of = |object: &[u8]| words(|words| words.opaque(object));
    let named = |dir: &[u8], name: &[u8]| words(|words| words.opaque(dir).opaque(name));
    let with_set = |dir: &[u8], name: &[u8], head: &[u32], set: fn(&mut Encoder), tail: &dyn Fn(&mut Encoder)| {
        words(|words| {
            words.opaque(dir).opaque(name);
            for word in head {
                words.u32(*word);
            }
            set(words);
            tail(words);
            words
        })
    };
    let nothing: &dyn Fn(&mut Encoder) = &|_| {};
    vec![
        (P::Null, Vec::new()),
        (P::GetAttr, of(root)),
        (P::GetAttr, of(child)),
        (
            P::SetAttr,
            words(|words| {
                words.opaque(file);
                all_set(words);
                words.bool(false)
            }),
        ),
        (
            P::SetAttr,
            words(|words| {
                words.opaque(dir);
                none_set(words);
                words.bool(false)
            }),
        ),
        (P::Lookup, named(root, b"dir")),
        (P::Lookup, named(root, b"child")),
        (P::Lookup, named(child, b"..")),
        (P::Access, words(|words| words.opaque(file).u32(0x3f))),
        (P::ReadLink, of(link)),
        (P::Read, words(|words| words.opaque(file).u64(2).u32(4096))),
        (P::Write, words(|words| words.opaque(file).u64(9).u32(5).u32(2).opaque(b"bytes"))),
        (P::Write, words(|words| words.opaque(file).u64(1 << 20).u32(1).u32(0).opaque(b"x"))),
        (P::Create, with_set(root, b"new", &[0], all_set, nothing)),
        (P::Create, with_set(dir, b"fresh", &[1], none_set, nothing)),
        (P::Create, words(|words| words.opaque(root).opaque(b"once").u32(2).u64(5))),
        (P::MkDir, with_set(root, b"made", &[], none_set, nothing)),
        (P::SymLink, with_set(dir, b"soft", &[], none_set, &|words| _ = words.opaque(b"../dir"))),
        (P::MkNod, with_set(dir, b"node", &[3], none_set, &|words| _ = words.u32(8).u32(1))),
        (P::MkNod, with_set(dir, b"socket", &[6], none_set, nothing)),
        (P::Remove, named(dir, b"pipe")),
        (P::RmDir, named(root, b"empty")),
        (P::Rename, words(|words| words.opaque(dir).opaque(b"file").opaque(root).opaque(b"moved"))),
        (P::Link, words(|words| words.opaque(file).opaque(root).opaque(b"hard"))),
        (P::ReadDir, words(|words| words.opaque(root).u64(0).u64(0).u32(4096))),
        (P::ReadDirPlus, words(|words| words.opaque(root).u64(5).u64(0).u32(512).u32(4096))),
        (P::FsStat, of(root)),
        (P::FsInfo, of(child)),
        (P::PathConf, of(root)),
        (P::Commit, words(|words| words.opaque(file).u64(0).u32(0))),
        (P::GetAttr, of(&handle(TANK, CHILD_DIR))),
    ]
}

/// Streams: whole records, records in fragments, and a large WRITE that is received in place.
fn streams() -> Vec<Seed> {
    let get = |xid| record(xid, (v3::PROGRAM, v3::VERSION), 1, &words(|words| words.opaque(&handle(TANK, DIR))));
    let mount = record(3, (mount::PROGRAM, mount::VERSION), 1, &path_arguments("/tank"));
    let large = vec![7; 33 << 10];
    let write = words(|words| words.opaque(&handle(TANK, FILE)).u64(0).u32(33 << 10).u32(2).opaque(&large));
    let write = record(4, (v3::PROGRAM, v3::VERSION), Procedure::Write.number(), &write);
    let pieces: Vec<(&str, u8, Vec<Vec<u8>>)> = vec![
        ("one-record", 0xff, vec![marked(&[&get(1)])]),
        ("two-records", 8, vec![marked(&[&get(1)]), marked(&[&mount])]),
        ("fragments", 6, vec![marked(&[&get(1)[..10], &[], &get(1)[10..]]), marked(&[&get(2)])]),
        ("received-in-place", 0xff, vec![marked(&[&write]), marked(&[&get(5)])]),
    ];
    let mut seeds: Vec<_> = pieces
        .into_iter()
        .map(|(name, pace, records)| Seed::new("rpc", name, [vec![pace], records.concat()].concat()))
        .collect();
    for (name, program, version) in [("other-program", 100_000, 2), ("other-version", v3::PROGRAM, 5)] {
        let bytes = [vec![3], marked(&[&record(6, (program, version), 0, &[])])].concat();
        seeds.push(Seed::new("rpc", name, bytes).refused());
    }
    seeds.push(Seed::new("rpc", "too-long", vec![0, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3]).refused());
    seeds
}

fn record(xid: u32, (program, version): (u32, u32), procedure: u32, arguments: &[u8]) -> Vec<u8> {
    let cred = words(|words| words.u32(0).opaque(b"seed").u32(0).u32(0).u32(1).u32(5));
    words(|words| {
        words.u32(xid).u32(0).u32(2).u32(program).u32(version).u32(procedure);
        words.u32(1).opaque(&cred).u64(0).raw(arguments)
    })
}

/// A record in fragments, each behind its mark.
fn marked(fragments: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (fragment, left) in fragments.iter().zip((0..fragments.len()).rev()) {
        let last = u32::from(left == 0) << 31;
        bytes.extend((fragment.len() as u32 | last).to_be_bytes());
        bytes.extend_from_slice(fragment);
    }
    bytes
}
