//! Content of files: reads, writes, sizes, limits, stability.

use bytes::Bytes;

use super::Case;
use super::world::{ALICE, World, guarded, mode, user};
use crate::{Cred, FILE_SIZE_MAX, FsError, OpCtx, SetAttr, SetTime, Sought, Stability};
use tally_base::FileTime;

pub(super) const CASES: &[Case] = &[
    ("what is written is read", write_and_read),
    ("random writes, truncations and reads against a byte string", random_content),
    ("holes read as zeroes", holes),
    ("what is passed over in a look for content is zeroes", passed_over),
    ("what can be sought", sought),
    ("a truncated tail does not come back", truncate),
    ("limits of offsets and sizes", limits),
    ("stability and the verifier", stability),
    ("reading and writing what is no file", other_kinds),
    ("setattr: times, guard, nothing", setattr),
    ("times of a file move with its content", times),
];

fn size(size: u64) -> SetAttr {
    SetAttr { size: Some(size), ..SetAttr::default() }
}

fn write_and_read(world: &World) {
    let file = world.file(world.root, "f");
    world.write_as(&Cred::root(), file, 0, b"hello, world").unwrap();
    world.write_as(&Cred::root(), file, 7, b"WORLD").unwrap();
    assert_eq!(world.read(file, 0, 100), (b"hello, WORLD".to_vec(), true));
    assert_eq!(world.read(file, 0, 5), (b"hello".to_vec(), false));
    assert_eq!(world.read(file, 7, 5), (b"WORLD".to_vec(), true));
    assert_eq!(world.read(file, 12, 5), (vec![], true));
    assert_eq!(world.read(file, 1 << 40, 5), (vec![], true));
    assert_eq!(world.read(file, 3, 0), (vec![], false));
    assert_eq!(world.attr(file).size, 12);
    assert!(world.attr(file).used > 0, "dirty data counts in full");
}

/// Compares with a byte string, over block borders of every size that a store might have. The seed is fixed:
/// the sequence is data.
fn random_content(world: &World) {
    let file = world.file(world.root, "f");
    let root = Cred::root();
    let mut expected: Vec<u8> = Vec::new();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for round in 0..300 {
        let offset = next(300_000);
        let start = usize::try_from(offset).unwrap();
        match next(8) {
            0 => {
                world.setattr_as(&root, file, &size(offset)).unwrap();
                expected.resize(start, 0);
            }
            1..=4 => {
                let count = usize::try_from(if next(3) == 0 { next(140_000) } else { next(5000) }).unwrap();
                let data: Vec<u8> = (0..count).map(|_| u8::try_from(next(256)).unwrap()).collect();
                world.write_as(&root, file, offset, &data).unwrap();
                if count > 0 {
                    expected.resize(expected.len().max(start + count), 0);
                    expected[start..start + count].copy_from_slice(&data);
                }
            }
            _ => {
                let count = u32::try_from(next(200_000)).unwrap();
                let (data, eof) = world.read(file, offset, count);
                let end = expected.len().min(start + count as usize);
                assert!(
                    data == expected.get(start..end).unwrap_or_default(),
                    "round {round}: {count} bytes from {offset}"
                );
                assert_eq!(eof, start + count as usize >= expected.len(), "round {round}");
            }
        }
        assert_eq!(world.attr(file).size, expected.len() as u64, "round {round}");
    }
    assert!(world.read(file, 0, 1 << 20).0 == expected, "the whole at the end");
}

fn holes(world: &World) {
    let file = world.file(world.root, "f");
    world.write_as(&Cred::root(), file, 1 << 32, b"far").unwrap();
    assert_eq!(world.attr(file).size, (1 << 32) + 3);
    assert!(world.attr(file).used < 1 << 30, "a hole takes no space");
    assert_eq!(world.read(file, (1 << 32) - 4, 100), (b"\0\0\0\0far".to_vec(), true));
    assert_eq!(world.read(file, 0, 4096), (vec![0; 4096], false));
}

/// Walks over a file that is partly written, from content to hole to content, beside a byte string. The seed is fixed: the sequence is data.
fn passed_over(world: &World) {
    const LENGTH: u64 = 3 << 20;
    let (file, root) = (world.file(world.root, "f"), Cred::root());
    world.setattr_as(&root, file, &size(LENGTH)).unwrap();
    let mut expected = vec![0_u8; LENGTH as usize];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for round in 0..40 {
        let (start, count) = (next(LENGTH) as usize, 1 + next(40_000) as usize);
        if next(5) == 0 {
            world.setattr_as(&root, file, &size(start as u64)).unwrap();
            world.setattr_as(&root, file, &size(LENGTH)).unwrap();
            expected[start..].fill(0);
        } else {
            let end = (start + count).min(expected.len());
            world.write_as(&root, file, start as u64, &vec![7; end - start]).unwrap();
            expected[start..end].fill(7);
        }
        let (mut at, mut what, mut holes) = (0, Sought::Data, 0);
        while at < LENGTH {
            let place = world.seek(file, at, what).unwrap();
            assert_eq!(place.is_end, place.offset == LENGTH, "round {round}: {place:?}");
            let passed = &expected[at as usize..place.offset as usize];
            match what {
                Sought::Data => assert!(passed.iter().all(|byte| *byte == 0), "round {round}: from {at} to {place:?}"),
                Sought::Hole => assert!(at < place.offset, "round {round}: content has at least one byte"),
            }
            if what == Sought::Data {
                holes += place.offset - at;
            }
            (at, what) = (place.offset, if what == Sought::Data { Sought::Hole } else { Sought::Data });
        }
        assert!(round > 3 || holes > LENGTH / 2, "round {round}: {holes} bytes are in holes");
    }
}

fn sought(world: &World) {
    let (file, root) = (world.file(world.root, "f"), Cred::root());
    let seek = |offset, what| world.seek(file, offset, what).map(|place| (place.offset, place.is_end));
    for what in [Sought::Data, Sought::Hole] {
        assert_eq!(seek(0, what), Err(FsError::BehindEnd), "an empty file has no offset");
    }
    world.write_as(&root, file, 1 << 32, b"far").unwrap();
    let end = (1 << 32) + 3;
    let (first, is_end) = seek(0, Sought::Data).unwrap();
    assert!(!is_end && first > 1 << 31 && first <= 1 << 32, "{first}");
    assert_eq!(seek(0, Sought::Hole), Ok((0, false)));
    assert_eq!(seek(5, Sought::Hole), Ok((5, false)));
    for offset in [1 << 32, end - 1] {
        assert_eq!(seek(offset, Sought::Data), Ok((offset, false)));
        assert_eq!(seek(offset, Sought::Hole), Ok((end, true)), "there is one at the end");
    }
    for offset in [end, end + 1, FILE_SIZE_MAX, u64::MAX] {
        assert_eq!(seek(offset, Sought::Hole), Err(FsError::BehindEnd), "{offset}");
        assert_eq!(seek(offset, Sought::Data), Err(FsError::BehindEnd), "{offset}");
    }
    world.setattr_as(&root, file, &size(FILE_SIZE_MAX)).unwrap();
    let behind = seek(1 << 40, Sought::Data);
    assert_eq!(behind, Ok((FILE_SIZE_MAX, true)), "there is none");
    assert_eq!(seek(1 << 62, Sought::Hole), Ok((1 << 62, false)));
    // As who reads.
    world.setattr_as(&root, file, &mode(0o600)).unwrap();
    let seek_as = |cred: &Cred, object| world.vfs.seek(OpCtx::of(cred), object, 0, Sought::Data).map(|_| ());
    assert_eq!(seek_as(&user(ALICE, &[]), file), Err(FsError::Access));
    let dir = world.dir(world.root, "d");
    assert_eq!(seek_as(&root, dir), Err(FsError::IsDirectory));
    let link = world.symlink(world.root, "l", b"x").unwrap().object;
    assert_eq!(seek_as(&root, link), Err(FsError::BadType));
}

fn truncate(world: &World) {
    let root = Cred::root();
    let file = world.file(world.root, "f");
    world.write_as(&root, file, 0, &[7; 10_000]).unwrap();
    for shorter in [9_999, 5000, 4096, 1, 0] {
        world.setattr_as(&root, file, &size(shorter)).unwrap();
        world.setattr_as(&root, file, &size(10_000)).unwrap();
        let (data, _) = world.read(file, 0, 10_000);
        let kept = usize::try_from(shorter).unwrap();
        assert!(data[..kept].iter().all(|byte| *byte == 7), "before {shorter}");
        assert!(data[kept..].iter().all(|byte| *byte == 0), "behind {shorter}");
        world.setattr_as(&root, file, &size(shorter)).unwrap();
    }
}

fn limits(world: &World) {
    let root = Cred::root();
    let file = world.file(world.root, "f");
    for offset in [FILE_SIZE_MAX, 1 << 63, u64::MAX - 1, u64::MAX] {
        let result = world.write_as(&root, file, offset, b"xy");
        assert!(matches!(result, Err(FsError::TooBig)), "{offset}: {result:?}");
        let result = world.vfs.read(&root, file, offset, u32::MAX).unwrap();
        assert!(result.eof && result.data.concat().is_empty(), "{offset}");
    }
    assert_eq!(world.setattr_as(&root, file, &size(FILE_SIZE_MAX + 1)), Err(FsError::TooBig));
    assert_eq!(world.attr(file).size, 0);
    for offset in [1_u64 << 31, 1 << 32] {
        world.write_as(&root, file, offset - 1, b"ab").unwrap();
        assert_eq!(world.read(file, offset - 1, 2).0, b"ab", "{offset}");
    }
    world.setattr_as(&root, file, &size(FILE_SIZE_MAX)).unwrap();
    assert_eq!(world.attr(file).size, FILE_SIZE_MAX);
    world.setattr_as(&root, file, &size(0)).unwrap();
}

fn stability(world: &World) {
    let root = Cred::root();
    let file = world.file(world.root, "f");
    let mut verifiers = Vec::new();
    for (at, wanted) in [Stability::Unstable, Stability::DataSync, Stability::FileSync].into_iter().enumerate() {
        let data = Bytes::from_static(b"1234");
        let (written, _) = world.run(&root, |ctx| world.vfs.write(ctx, file, at as u64 * 4, data.clone(), wanted));
        let written = written.unwrap();
        assert_eq!(written.count, 4);
        assert!(written.stability >= wanted, "{wanted:?} was asked for, {:?} promised", written.stability);
        verifiers.push(written.verifier);
    }
    for (offset, count) in [(0, 0), (0, 4), (4, u32::MAX), (u64::MAX, 1), (1 << 63, 0)] {
        let (verifier, _) = world.run(&root, |ctx| world.vfs.commit(ctx, file, offset, count));
        verifiers.push(verifier.unwrap_or_else(|error| panic!("COMMIT {offset} {count}: {error}")));
    }
    assert!(verifiers.iter().all(|verifier| *verifier == verifiers[0]), "{verifiers:?}");
    assert_eq!(world.read(file, 0, 99).0, b"123412341234");
}

fn other_kinds(world: &World) {
    let root = Cred::root();
    let dir = world.dir(world.root, "d");
    let link = world.symlink(world.root, "l", b"x").unwrap().object;
    assert_eq!(world.vfs.read(&root, dir, 0, 1).map(|_| ()), Err(FsError::IsDirectory));
    assert_eq!(world.write_as(&root, dir, 0, b"x"), Err(FsError::IsDirectory));
    assert_eq!(world.setattr_as(&root, dir, &size(0)), Err(FsError::IsDirectory));
    let results = [
        world.vfs.read(&root, link, 0, 1).map(|_| ()),
        world.write_as(&root, link, 0, b"x"),
        world.setattr_as(&root, link, &size(0)),
    ];
    for result in results {
        assert!(matches!(result, Err(FsError::BadType | FsError::Invalid)), "{result:?}");
    }
}

fn setattr(world: &World) {
    let root = Cred::root();
    let file = world.file(world.root, "f");
    let before = world.attr(file);
    let set = SetAttr {
        atime: Some(SetTime::Client(FileTime::new(11, 999_999_999))),
        mtime: Some(SetTime::Client(FileTime::new(u32::MAX.into(), 1))),
        ..SetAttr::default()
    };
    world.setattr_as(&root, file, &set).unwrap();
    let attr = world.attr(file);
    assert_eq!((attr.atime, attr.mtime), (FileTime::new(11, 999_999_999), FileTime::new(u32::MAX.into(), 1)));
    assert!(attr.ctime > before.ctime && attr.change > before.change);
    // From before 1970, and as far as it goes.
    let then = [FileTime::new(-315_593_940, 250), FileTime(i64::MIN)];
    let [atime, mtime] = then.map(|time| Some(SetTime::Client(time)));
    world.setattr_as(&root, file, &SetAttr { atime, mtime, ..SetAttr::default() }).unwrap();
    let attr = world.attr(file);
    assert_eq!([attr.atime, attr.mtime], then);
    let guard = |time| world.run(&root, |ctx| world.vfs.setattr(ctx, file, &mode(0o600), Some(time))).0;
    assert_eq!(guard(before.ctime), Err(FsError::NotSync));
    assert_eq!(world.attr(file), attr, "a failed guard changes nothing");
    assert_eq!(guard(attr.ctime), Ok(()));
    let now = SetAttr { atime: Some(SetTime::Server), mtime: Some(SetTime::Server), ..SetAttr::default() };
    world.setattr_as(&root, file, &now).unwrap();
    let attr = world.attr(file);
    assert!(attr.mtime >= before.mtime && attr.mtime <= attr.ctime.into() && attr.atime == attr.mtime);
    world.setattr_as(&root, file, &mode(0o170_644)).unwrap();
    assert_eq!(world.attr(file).mode, 0o644, "higher bits are ignored");
    world.setattr_as(&root, file, &SetAttr::default()).unwrap();
}

fn times(world: &World) {
    let alice = user(ALICE, &[]);
    let tmp = world.open_dir("tmp", 0o777);
    let file = world.create_as(&alice, tmp, "f", &guarded(0o644)).unwrap().object;
    let mut last = world.attr(file);
    let mut step = |what: &str| {
        let now = world.attr(file);
        assert!(now.mtime > last.mtime && now.ctime > last.ctime && now.change > last.change, "{what}");
        last = now;
    };
    world.write_as(&alice, file, 0, b"x").unwrap();
    step("write");
    world.setattr_as(&alice, file, &size(0)).unwrap();
    step("truncate");
    world.read(file, 0, 10);
    world.write_as(&alice, file, 9, b"x").unwrap();
    step("extending write");
}
