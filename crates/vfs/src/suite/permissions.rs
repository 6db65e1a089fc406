//! Who may do what.

use super::Case;
use super::world::{ALICE, BOB, World, guarded, mode, user};
use crate::{CreateHow, Cred, FsError, SetAttr, SetTime};
use tally_base::FileTime;

pub(super) const CASES: &[Case] = &[
    ("mode bits by class", classes),
    ("directories: search and write", directories),
    ("the sticky bit", sticky),
    ("setattr: owner, group, mode", ownership),
    ("setattr: times", times),
    ("set-id bits fall", set_ids),
    ("the owner goes on reading and writing", owner_override),
    ("commit: who may write", commit_as_write),
];

#[allow(clippy::needless_pass_by_value)] // It reads better where it is called.
fn denied<T: std::fmt::Debug>(result: Result<T, FsError>, what: &str) {
    assert!(matches!(result, Err(FsError::Access | FsError::NotOwner)), "{what}: {result:?}");
}

fn classes(world: &World) {
    let tmp = world.open_dir("tmp", 0o777);
    let file = world.create_as(&user(ALICE, &[]), tmp, "f", &guarded(0o640)).unwrap().object;
    let set = SetAttr { gid: Some(50), ..SetAttr::default() };
    world.setattr_as(&Cred::root(), file, &set).unwrap();
    world.setattr_as(&Cred::root(), file, &mode(0o640)).unwrap();
    let (member, stranger) = (user(BOB, &[50]), user(BOB, &[51]));
    assert!(world.vfs.read(&member, file, 0, 1).is_ok());
    denied(world.write_as(&member, file, 0, b"x"), "group without w");
    denied(world.vfs.read(&stranger, file, 0, 1), "others");
    world.setattr_as(&Cred::root(), file, &mode(0o602)).unwrap();
    denied(world.vfs.read(&member, file, 0, 1), "the group class counts, not the others'");
    denied(world.write_as(&member, file, 0, b"x"), "the group class counts for writing");
    assert_eq!(world.write_as(&stranger, file, 0, b"x"), Ok(()));
    world.setattr_as(&Cred::root(), file, &mode(0o001)).unwrap();
    assert!(world.vfs.read(&stranger, file, 0, 1).is_ok(), "what may be executed may be read for that");
    assert!(world.vfs.read(&Cred::root(), file, 0, 1).is_ok(), "the superuser reads everything");
}

fn directories(world: &World) {
    let alice = user(ALICE, &[]);
    let open = world.open_dir("open", 0o777);
    let file = world.file(open, "f");
    let check = |bits: u32, list: bool, search: bool, change: bool| {
        world.setattr_as(&Cred::root(), open, &mode(bits)).unwrap();
        assert_eq!(world.vfs.readdir(&alice, open, 0, 9, false).is_ok(), list, "{bits:o}: list");
        assert_eq!(world.vfs.lookup(&alice, open, b"f").is_ok(), search, "{bits:o}: search");
        let made = world.create_as(&alice, open, "new", &guarded(0o644));
        assert_eq!(made.is_ok(), change, "{bits:o}: create: {made:?}");
        let results = [
            world.mkdir_as(&alice, open, "dir", 0o755).map(|_| ()),
            world.link_as(&alice, file, open, "link").map(|_| ()),
            world.rename_as(&alice, (open, "f"), (open, "g")),
            world.rename_as(&alice, (open, "g"), (open, "f")),
        ];
        for (at, result) in results.into_iter().enumerate() {
            // The last one is refused with NotFound where the one before it was refused.
            assert_eq!(result.is_ok(), change, "{bits:o}: change {at}: {result:?}");
        }
        for name in ["new", "link"] {
            assert_eq!(world.remove_as(&alice, open, name).is_ok(), change, "{bits:o}: remove {name}");
        }
        assert_eq!(world.rmdir_as(&alice, open, "dir").is_ok(), change, "{bits:o}: rmdir");
    };
    check(0o777, true, true, true);
    check(0o775, true, true, false);
    check(0o774, true, false, false);
    check(0o771, false, true, false);
    check(0o773, false, true, true);
    check(0o776, true, false, false);
    denied(world.vfs.lookup(&alice, open, b"none"), "without search nobody learns what is not there");
}

fn sticky(world: &World) {
    let tmp = world.open_dir("tmp", 0o1777);
    let (alice, bob) = (user(ALICE, &[]), user(BOB, &[]));
    for name in ["a", "b", "c"] {
        world.create_as(&alice, tmp, name, &guarded(0o666)).unwrap();
    }
    world.mkdir_as(&alice, tmp, "d", 0o777).unwrap();
    let own = world.create_as(&bob, tmp, "own", &guarded(0o666)).unwrap();
    denied(world.remove_as(&bob, tmp, "a"), "remove");
    denied(world.rmdir_as(&bob, tmp, "d"), "rmdir");
    denied(world.rename_as(&bob, (tmp, "a"), (tmp, "x")), "rename away");
    denied(world.rename_as(&bob, (tmp, "own"), (tmp, "a")), "rename over");
    // As rename(2) has it: two names of one object, and nothing is done. The model forbade it, and the file system did
    // not.
    assert_eq!(world.rename_as(&bob, (tmp, "a"), (tmp, "a")), Ok(()), "rename to itself");
    assert_eq!(world.find(tmp, "own"), Ok(own.object));
    assert_eq!(world.rename_as(&bob, (tmp, "own"), (tmp, "mine")), Ok(()));
    assert_eq!(world.remove_as(&alice, tmp, "a"), Ok(()));
    assert_eq!(world.remove_as(&Cred::root(), tmp, "b"), Ok(()));
    let set = SetAttr { uid: Some(BOB), ..SetAttr::default() };
    world.setattr_as(&Cred::root(), tmp, &set).unwrap();
    assert_eq!(world.remove_as(&bob, tmp, "c"), Ok(()), "the directory's owner may");
}

fn ownership(world: &World) {
    let tmp = world.open_dir("tmp", 0o777);
    let (alice, bob) = (user(ALICE, &[50]), user(BOB, &[50]));
    let file = world.create_as(&alice, tmp, "f", &guarded(0o666)).unwrap().object;
    let set = |cred: &Cred, set: SetAttr| world.setattr_as(cred, file, &set);
    let uid = |uid| SetAttr { uid: Some(uid), ..SetAttr::default() };
    let gid = |gid| SetAttr { gid: Some(gid), ..SetAttr::default() };
    denied(set(&bob, mode(0o600)), "chmod by another");
    denied(set(&alice, uid(BOB)), "giving away");
    denied(set(&bob, uid(BOB)), "taking");
    denied(set(&alice, gid(51)), "a group she is not in");
    denied(set(&bob, gid(50)), "chgrp by another");
    assert_eq!(set(&alice, uid(ALICE)), Ok(()));
    assert_eq!(set(&alice, gid(50)), Ok(()));
    assert_eq!(world.attr(file).gid, 50);
    assert_eq!(set(&alice, mode(0o2640)), Ok(()));
    assert_eq!(world.attr(file).mode, 0o2640);
    assert_eq!(set(&Cred::root(), gid(51)), Ok(()));
    assert_eq!(set(&alice, mode(0o2750)), Ok(()));
    assert_eq!(world.attr(file).mode, 0o750, "set-group-id for a group she is not in");
    // A directory of hers with it made files of that group, as many as she liked.
    let dir = world.open_dir("hers", 0o755);
    let (owner, group) = (SetAttr { uid: Some(ALICE), gid: Some(51), ..SetAttr::default() }, gid(50));
    assert_eq!(world.setattr_as(&Cred::root(), dir, &owner), Ok(()));
    assert_eq!(world.setattr_as(&alice, dir, &mode(0o2755)), Ok(()));
    assert_eq!(world.attr(dir).mode, 0o755, "set-group-id on a directory of a group she is not in");
    assert_eq!(world.setattr_as(&alice, dir, &SetAttr { mode: Some(0o2755), ..group }), Ok(()));
    assert_eq!((world.attr(dir).gid, world.attr(dir).mode), (50, 0o2755));
    assert_eq!(world.setattr_as(&Cred::root(), dir, &gid(51)), Ok(()));
    assert_eq!(world.attr(dir).mode, 0o2755, "directories keep theirs when they are given away");
    assert_eq!(set(&Cred::root(), uid(BOB)), Ok(()));
    assert_eq!(world.attr(file).uid, BOB);
    let both = SetAttr { uid: Some(ALICE), mode: Some(0o644), ..SetAttr::default() };
    let before = world.attr(file);
    denied(set(&bob, both), "all or nothing");
    assert_eq!(world.attr(file), before, "a refused SETATTR changes nothing");
}

fn times(world: &World) {
    let tmp = world.open_dir("tmp", 0o777);
    let (alice, bob) = (user(ALICE, &[]), user(BOB, &[]));
    let file = world.create_as(&alice, tmp, "f", &guarded(0o644)).unwrap().object;
    let now = SetAttr { mtime: Some(SetTime::Server), ..SetAttr::default() };
    let then = SetAttr { mtime: Some(SetTime::Client(FileTime::new(5, 0))), ..SetAttr::default() };
    denied(world.setattr_as(&bob, file, &now), "now, without w");
    world.setattr_as(&alice, file, &mode(0o666)).unwrap();
    assert_eq!(world.setattr_as(&bob, file, &now), Ok(()), "now, with w");
    denied(world.setattr_as(&bob, file, &then), "another time, with w");
    assert_eq!(world.setattr_as(&alice, file, &then), Ok(()));
    assert_eq!(world.attr(file).mtime, FileTime::new(5, 0));
}

fn set_ids(world: &World) {
    let tmp = world.open_dir("tmp", 0o777);
    let (alice, bob) = (user(ALICE, &[]), user(BOB, &[]));
    let file = world.create_as(&alice, tmp, "f", &guarded(0o777)).unwrap().object;
    let arm = |bits| world.setattr_as(&Cred::root(), file, &mode(bits)).unwrap();
    let bits = || world.attr(file).mode;
    arm(0o6777);
    world.write_as(&bob, file, 0, b"x").unwrap();
    assert_eq!(bits(), 0o777, "a write by another");
    arm(0o6777);
    world.write_as(&Cred::root(), file, 0, b"x").unwrap();
    assert_eq!(bits(), 0o6777, "a write by the superuser");
    world.setattr_as(&bob, file, &SetAttr { size: Some(0), ..SetAttr::default() }).unwrap();
    assert_eq!(bits(), 0o777, "a truncation");
    // CREATE over a file cuts it, too, and left the bits: a program emptied by another user ran under its owner still.
    world.write_as(&Cred::root(), file, 0, &[7; 9000]).unwrap();
    arm(0o6777);
    let cut = CreateHow::Unchecked(SetAttr { size: Some(10), ..SetAttr::default() });
    let after = world.create_as(&bob, tmp, "f", &cut).unwrap();
    assert_eq!((bits(), after.mode, after.size), (0o777, 0o777, 10), "a truncation by CREATE");
    assert!(after.used <= 4096, "what was cut takes no space: {}", after.used);
    arm(0o6777);
    world.setattr_as(&Cred::root(), file, &SetAttr { uid: Some(BOB), ..SetAttr::default() }).unwrap();
    assert_eq!(bits(), 0o777, "a new owner");
    arm(0o2767);
    world.setattr_as(&Cred::root(), file, &SetAttr { gid: Some(9), ..SetAttr::default() }).unwrap();
    assert_eq!(bits(), 0o2767, "set-group-id without group execute means locking, and stays");
    let dir = world.open_dir("dir", 0o2755);
    world.setattr_as(&Cred::root(), dir, &SetAttr { uid: Some(ALICE), ..SetAttr::default() }).unwrap();
    assert_eq!(world.attr(dir).mode, 0o2755, "directories keep theirs");
}

fn owner_override(world: &World) {
    let tmp = world.open_dir("tmp", 0o777);
    let alice = user(ALICE, &[]);
    let file = world.create_as(&alice, tmp, "f", &guarded(0o000)).unwrap().object;
    assert_eq!(world.write_as(&alice, file, 0, b"open before chmod"), Ok(()));
    assert!(world.vfs.read(&alice, file, 0, 4).is_ok());
    assert_eq!(world.setattr_as(&alice, file, &SetAttr { size: Some(1), ..SetAttr::default() }), Ok(()));
    denied(world.vfs.read(&user(BOB, &[]), file, 0, 4), "nobody else");
}

/// COMMIT has the content of others made stable, at the server's cost, and gives the verifier: as much as WRITE asks for.
fn commit_as_write(world: &World) {
    let tmp = world.open_dir("tmp", 0o777);
    let (root, alice, bob) = (Cred::root(), user(ALICE, &[]), user(BOB, &[]));
    for (bits, others) in [(0o600, false), (0o644, false), (0o606, true), (0o000, false)] {
        let file = world.create_as(&alice, tmp, &format!("{bits:o}"), &guarded(bits)).unwrap().object;
        let commit = |cred: &Cred| world.run(cred, |ctx| world.vfs.commit(ctx, file, 0, 0)).0.map(drop);
        assert_eq!(commit(&alice), Ok(()), "{bits:o}: what its owner wrote before a chmod");
        assert_eq!(commit(&root), Ok(()), "{bits:o}");
        assert_eq!(commit(&bob), if others { Ok(()) } else { Err(FsError::Access) }, "{bits:o}");
    }
}
