//! What is punched into files, and reserved of them.

use bytes::Bytes;

use super::Case;
use super::world::{ALICE, BOB, World, guarded, mode, user};
use crate::{Cred, FsError, NodeKind, ObjectRef, SetAttr, Sought, Stability};

pub(super) const CASES: &[Case] = &[
    ("what is punched reads as zeroes, and moves the times", punched),
    ("punches that are none", nothing_to_punch),
    ("who may punch", who_may),
    ("random writes, punches, reservations and truncations against a byte string", random),
    ("what is reserved reads as before, and the file grows to its end", reserved),
    ("reservations that are none", nothing_to_reserve),
    ("who may reserve", who_may_reserve),
];

impl World {
    fn punch_as(&self, cred: &Cred, file: ObjectRef, offset: u64, length: u64) -> Result<(), FsError> {
        self.run(cred, |ctx| self.vfs.deallocate(ctx, file, offset, length)).0
    }

    fn reserve_as(&self, cred: &Cred, file: ObjectRef, offset: u64, length: u64) -> Result<(), FsError> {
        self.run(cred, |ctx| self.vfs.allocate(ctx, file, offset, length)).0
    }
}

fn size(size: u64) -> SetAttr {
    SetAttr { size: Some(size), ..SetAttr::default() }
}

fn punched(world: &World) {
    let (file, root) = (world.file(world.root, "f"), Cred::root());
    world.write_as(&root, file, 0, &[7; 300_000]).unwrap();
    let before = world.attr(file);
    world.punch_as(&root, file, 1000, 200_000).unwrap();
    let after = world.attr(file);
    assert_eq!(after.size, 300_000);
    assert!(after.mtime > before.mtime && after.ctime > before.ctime && after.change > before.change);
    assert_eq!(world.read(file, 999, 3).0, [7, 0, 0]);
    assert_eq!(world.read(file, 200_999, 3).0, [0, 7, 7]);
    // What is written there afterwards stands.
    world.write_as(&root, file, 100_000, b"new").unwrap();
    assert_eq!(world.read(file, 99_999, 5).0, b"\0new\0");
    // To the end, and far behind it.
    world.punch_as(&root, file, 250_000, 1 << 62).unwrap();
    assert_eq!(world.attr(file).size, 300_000);
    // Where a block of any size that a store might have holds nothing else.
    assert_eq!(world.seek(file, 256 << 10, Sought::Data).unwrap().offset, 300_000);
    // A file that grows has nothing of it.
    world.setattr_as(&root, file, &size(400_000)).unwrap();
    assert!(world.read(file, 250_000, 150_000).0.iter().all(|byte| *byte == 0));
}

fn nothing_to_punch(world: &World) {
    let (file, root) = (world.file(world.root, "f"), Cred::root());
    world.write_as(&root, file, 0, b"some bytes").unwrap();
    let before = world.attr(file);
    world.punch_as(&root, file, 10, 100).unwrap();
    world.punch_as(&root, file, 1 << 40, 1).unwrap();
    assert_eq!(world.attr(file), before, "behind the end nothing is changed");
    for (offset, length) in [(0, 0), (5, 0), (1, u64::MAX), (u64::MAX, 1)] {
        assert_eq!(world.punch_as(&root, file, offset, length), Err(FsError::Invalid), "{length} from {offset}");
    }
    assert_eq!(world.attr(file), before);
    world.punch_as(&root, file, 4, u64::MAX - 4).unwrap();
    assert_eq!(world.read(file, 0, 100).0, b"some\0\0\0\0\0\0");
}

fn who_may(world: &World) {
    let (root, alice, bob) = (Cred::root(), user(ALICE, &[]), user(BOB, &[]));
    let dir = world.open_dir("d", 0o777);
    let file = world.create_as(&alice, dir, "f", &guarded(0o600)).unwrap().object;
    world.write_as(&alice, file, 0, b"some bytes").unwrap();
    assert_eq!(world.punch_as(&bob, file, 0, 4), Err(FsError::Access));
    world.setattr_as(&root, file, &mode(0o4777)).unwrap();
    world.punch_as(&bob, file, 0, 4).unwrap();
    assert_eq!(world.attr(file).mode, 0o777, "as a WRITE it takes set-id bits away");
    world.setattr_as(&root, file, &mode(0)).unwrap();
    world.punch_as(&alice, file, 4, 2).unwrap();
    assert_eq!(world.read(file, 0, 100).0, b"\0\0\0\0\0\0ytes");
    let fifo = world.mknod_as(&root, "p", NodeKind::Fifo).unwrap().object;
    assert_eq!(world.punch_as(&root, dir, 0, 4), Err(FsError::IsDirectory));
    assert_eq!(world.punch_as(&root, fifo, 0, 4), Err(FsError::BadType));
}

fn reserved(world: &World) {
    let (file, root) = (world.file(world.root, "f"), Cred::root());
    world.write_as(&root, file, 0, b"some bytes").unwrap();
    let before = world.attr(file);
    world.reserve_as(&root, file, 5, 300_000).unwrap();
    let after = world.attr(file);
    assert_eq!(after.size, 300_005);
    assert!(after.mtime > before.mtime && after.ctime > before.ctime && after.change > before.change);
    assert_eq!(world.read(file, 0, 14).0, b"some bytes\0\0\0\0");
    assert!(world.read(file, 10, 400_000).0.iter().all(|byte| *byte == 0));
    // Nobody has put anything there.
    assert_eq!(world.seek(file, 256 << 10, Sought::Data).unwrap().offset, 300_005);
    // What is within the file leaves its size, and once more is as good as once.
    world.reserve_as(&root, file, 0, 10).unwrap();
    world.reserve_as(&root, file, 5, 300_000).unwrap();
    assert_eq!(world.attr(file).size, 300_005);
    world.write_as(&root, file, 299_000, b"there").unwrap();
    world.punch_as(&root, file, 0, 4).unwrap();
    world.setattr_as(&root, file, &size(299_003)).unwrap();
    world.reserve_as(&root, file, 0, 299_009).unwrap();
    assert_eq!(world.read(file, 298_999, 100).0, b"\0the\0\0\0\0\0\0");
    assert_eq!(world.read(file, 0, 10).0, b"\0\0\0\0 bytes");
}

fn nothing_to_reserve(world: &World) {
    let (file, root) = (world.file(world.root, "f"), Cred::root());
    world.write_as(&root, file, 0, b"some bytes").unwrap();
    let before = world.attr(file);
    for (offset, length) in [(0, 0), (5, 0), (1, u64::MAX), (u64::MAX, 1)] {
        assert_eq!(world.reserve_as(&root, file, offset, length), Err(FsError::Invalid), "{length} from {offset}");
    }
    for (offset, length) in [(0, 1 << 63), (u64::MAX - 1, 1), (5, u64::MAX - 5)] {
        assert_eq!(world.reserve_as(&root, file, offset, length), Err(FsError::TooBig), "{length} from {offset}");
    }
    for (offset, length) in [(0, (1 << 63) - 1), (10, 1 << 50), (7, 1 << 62)] {
        assert_eq!(world.reserve_as(&root, file, offset, length), Err(FsError::NoSpace), "{length} from {offset}");
    }
    assert_eq!(world.attr(file), before, "nothing is changed");
}

fn who_may_reserve(world: &World) {
    let (root, alice, bob) = (Cred::root(), user(ALICE, &[]), user(BOB, &[]));
    let dir = world.open_dir("d", 0o777);
    let file = world.create_as(&alice, dir, "f", &guarded(0o600)).unwrap().object;
    assert_eq!(world.reserve_as(&bob, file, 0, 4), Err(FsError::Access));
    assert_eq!(world.reserve_as(&bob, file, 0, 1 << 62), Err(FsError::Access), "before there is no room");
    world.setattr_as(&root, file, &mode(0o4777)).unwrap();
    world.reserve_as(&bob, file, 0, 4).unwrap();
    assert_eq!(world.attr(file).mode, 0o777, "as a WRITE it takes set-id bits away");
    world.setattr_as(&root, file, &mode(0)).unwrap();
    world.reserve_as(&alice, file, 4, 2).unwrap();
    assert_eq!(world.read(file, 0, 100).0, b"\0\0\0\0\0\0");
    let fifo = world.mknod_as(&root, "p", NodeKind::Fifo).unwrap().object;
    assert_eq!(world.reserve_as(&root, dir, 0, 4), Err(FsError::IsDirectory));
    assert_eq!(world.reserve_as(&root, fifo, 0, 4), Err(FsError::BadType));
}

/// As fsx does, over block borders of every size that a store might have. The seed is fixed: the sequence is data.
fn random(world: &World) {
    const LENGTH: u64 = 1 << 20;
    let (file, root) = (world.file(world.root, "f"), Cred::root());
    let mut expected: Vec<u8> = Vec::new();
    let mut state = 0x6a09_e667_f3bc_c908_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for round in 0..300 {
        let (start, count) = (next(LENGTH), 1 + if next(3) == 0 { next(400_000) } else { next(9000) });
        let (from, to) = (start as usize, (start + count) as usize);
        match next(9) {
            0 => {
                world.setattr_as(&root, file, &size(start)).unwrap();
                expected.resize(from, 0);
            }
            1..=3 => {
                world.punch_as(&root, file, start, count).unwrap();
                let end = expected.len();
                expected[from.min(end)..to.min(end)].fill(0);
            }
            4..=6 => {
                let data = vec![1 + next(255) as u8; count as usize];
                if next(2) == 0 {
                    world.write_as(&root, file, start, &data).unwrap();
                } else {
                    let data = Bytes::from(data.clone());
                    let write =
                        |ctx: crate::OpCtx<'_>| world.vfs.write(ctx, file, start, data.clone(), Stability::Unstable);
                    world.run(&root, write).0.unwrap();
                }
                expected.resize(expected.len().max(to), 0);
                expected[from..to].copy_from_slice(&data);
            }
            7 => {
                world.reserve_as(&root, file, start, count).unwrap();
                expected.resize(expected.len().max(to), 0);
            }
            _ => {
                world.run(&root, |ctx| world.vfs.commit(ctx, file, 0, 0)).0.unwrap();
            }
        }
        assert_eq!(world.attr(file).size, expected.len() as u64, "round {round}");
        let shown = world.read(file, start, 100_000).0;
        let end = expected.len().min(from + 100_000);
        assert!(shown == expected.get(from..end).unwrap_or_default(), "round {round}: from {start}");
        passed_over(world, file, &expected, round);
    }
    assert!(world.read(file, 0, 2 << 20).0 == expected, "the whole at the end");
}

/// What is passed over from content to hole to content is zeroes.
fn passed_over(world: &World, file: ObjectRef, expected: &[u8], round: usize) {
    let (mut at, mut was_hole) = (0, None);
    while at < expected.len() as u64 {
        let content = world.seek(file, at, Sought::Data).unwrap().offset;
        assert!(expected[at as usize..content as usize].iter().all(|byte| *byte == 0), "round {round}: from {at}");
        if content == expected.len() as u64 {
            return;
        }
        at = world.seek(file, content, Sought::Hole).unwrap().offset;
        if at == content {
            // Zeroes in memory are content, and may have been folded into a hole since; then they are passed over the next time.
            let is_so = expected[at as usize] == 0 && was_hole.replace(at) != Some(at);
            assert!(is_so, "round {round}: content at {content} has no end");
        }
        assert!(at >= content, "round {round}: content at {content} ends before it");
    }
}
