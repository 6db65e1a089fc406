//! Making objects: names, kinds, the three ways of CREATE, attributes of what is made, changes reported.

use super::Case;
use super::world::{ALICE, BOB, World, guarded, mode, user};
use crate::{
    CreateHow, Cred, FILE_SIZE_MAX, FileKind, FsError, NodeKind, OpCtx, RememberedReply, ReplyKey, SYMLINK_MAX,
    SetAttr, SetTime,
};
use tally_base::FileTime;

pub(super) const CASES: &[Case] = &[
    ("names that cannot be made", bad_names),
    ("each kind of object", kinds),
    ("create: unchecked, guarded, exclusive", three_creates),
    ("create: over what one may not write", nobody_cuts_by_create_what_they_may_not_write),
    ("create: an exclusive verifier ends with the first setattr", exclusive_ends),
    ("attributes given at creation", attributes_at_creation),
    ("hard links", links),
    ("a set-group-id directory gives its group on", set_group_id),
    ("the changes that a reply reports", changes),
    ("times of a directory move with its names", directory_times),
    ("ids and generations are never used again", fresh_ids),
    ("names and the targets of links take space", names_take_space),
    ("a success is remembered under its key", remembered),
];

fn bad_names(world: &World) {
    let root = Cred::root();
    let long = "n".repeat(256);
    let cases: [(&str, &[FsError]); 6] = [
        ("", &[FsError::Access]),
        ("a/b", &[FsError::Access]),
        ("a\0b", &[FsError::Access]),
        (&long, &[FsError::NameTooLong]),
        (".", &[FsError::Exists, FsError::Invalid]),
        ("..", &[FsError::Exists, FsError::Invalid]),
    ];
    let file = world.file(world.root, "file");
    for (name, errors) in cases {
        let results = [
            world.create_as(&root, world.root, name, &guarded(0o644)).map(|_| ()),
            world.mkdir_as(&root, world.root, name, 0o755).map(|_| ()),
            world.symlink(world.root, name, b"x").map(|_| ()),
            world.mknod_as(&root, name, NodeKind::Fifo).map(|_| ()),
            world.link_as(&root, file, world.root, name).map(|_| ()),
        ];
        for (at, result) in results.into_iter().enumerate() {
            assert!(result.is_err_and(|error| errors.contains(&error)), "operation {at} with {name:?}: {result:?}");
        }
    }
    world.file(world.root, &"n".repeat(255));
    assert_eq!(world.names(world.root), ["file".to_owned(), "n".repeat(255)]);
}

fn kinds(world: &World) {
    let root = Cred::root();
    let made = [
        (world.create_as(&root, world.root, "file", &guarded(0o640)), FileKind::File, 0o640, (0, 0)),
        (world.mkdir_as(&root, world.root, "dir", 0o750), FileKind::Directory, 0o750, (0, 0)),
        (world.symlink(world.root, "link", b"a/target"), FileKind::Symlink, 0o777, (0, 0)),
        (world.mknod_as(&root, "fifo", NodeKind::Fifo), FileKind::Fifo, 0o644, (0, 0)),
        (world.mknod_as(&root, "socket", NodeKind::Socket), FileKind::Socket, 0o644, (0, 0)),
        (world.mknod_as(&root, "block", NodeKind::BlockDevice(8, 1)), FileKind::BlockDevice, 0o644, (8, 1)),
        (world.mknod_as(&root, "char", NodeKind::CharDevice(1, 3)), FileKind::CharDevice, 0o644, (1, 3)),
    ];
    for (attr, kind, bits, rdev) in made {
        let attr = attr.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert_eq!((attr.kind, attr.mode, attr.rdev), (kind, bits, rdev));
        assert_eq!(world.attr(attr.object), attr, "{kind:?}: what was returned is what is there");
        assert_eq!(attr.nlink, if kind == FileKind::Directory { 2 } else { 1 }, "{kind:?}");
        assert!(attr.object.id.0 >= 3 && attr.object.id.0 < 1 << 63, "{kind:?}: {:?}", attr.object.id);
    }
    let link = world.find(world.root, "link").unwrap();
    let (target, attr) = world.vfs.readlink(link).unwrap();
    assert_eq!((&target[..], attr.size), (&b"a/target"[..], 8));
    assert_eq!(world.vfs.readlink(world.find(world.root, "file").unwrap()).map(|_| ()), Err(FsError::BadType));
    assert_eq!(world.symlink(world.root, "empty", b"").map(|_| ()), Err(FsError::Invalid));
    assert_eq!(world.symlink(world.root, "long", &vec![b'x'; SYMLINK_MAX + 1]).map(|_| ()), Err(FsError::NameTooLong));
    assert!(world.symlink(world.root, "longest", &vec![b'x'; SYMLINK_MAX]).is_ok());
    assert_eq!(world.attr(world.root).nlink, 3, "the root and one directory in it");
    let device = world.mknod_as(&user(ALICE, &[]), "device", NodeKind::CharDevice(1, 3));
    assert!(matches!(device, Err(FsError::NotOwner | FsError::Access)), "{device:?}");
}

fn three_creates(world: &World) {
    let root = Cred::root();
    let create = |name, how| world.create_as(&root, world.root, name, &how);
    let first = create("f", guarded(0o600)).unwrap();
    world.write_as(&root, first.object, 0, b"content").unwrap();
    assert_eq!(create("f", guarded(0o600)).map(|_| ()), Err(FsError::Exists));
    let again = create("f", CreateHow::Unchecked(mode(0o777))).unwrap();
    assert_eq!((again.object, again.mode, again.size), (first.object, 0o600, 7), "only the size would be set");
    let shorter = SetAttr { size: Some(0), mode: Some(0o777), ..SetAttr::default() };
    let emptied = create("f", CreateHow::Unchecked(shorter)).unwrap();
    assert_eq!((emptied.object, emptied.mode, emptied.size), (first.object, 0o600, 0));
    let exclusive = create("x", CreateHow::Exclusive(77)).unwrap();
    assert_eq!(create("x", CreateHow::Exclusive(77)).unwrap().object, exclusive.object);
    assert_eq!(create("x", CreateHow::Exclusive(78)).map(|_| ()), Err(FsError::Exists));
    assert_eq!(create("f", CreateHow::Exclusive(77)).map(|_| ()), Err(FsError::Exists));
    world.dir(world.root, "d");
    for how in [guarded(0o600), CreateHow::Exclusive(0), CreateHow::Unchecked(mode(0o600))] {
        let result = create("d", how.clone());
        assert!(matches!(result, Err(FsError::Exists | FsError::IsDirectory)), "{how:?} on a directory: {result:?}");
    }
    assert_eq!(world.create_as(&root, first.object, "y", &guarded(0o600)).map(|_| ()), Err(FsError::NotDirectory));
}

/// An owner may cut a file that nobody may write by SETATTR, having opened it before perhaps; CREATE is the opening itself.
fn nobody_cuts_by_create_what_they_may_not_write(world: &World) {
    let root = Cred::root();
    world.setattr_as(&root, world.root, &mode(0o777)).unwrap();
    let alice = user(ALICE, &[]);
    let file = world.create_as(&alice, world.root, "f", &guarded(0o444)).unwrap();
    world.write_as(&root, file.object, 0, b"content").unwrap();
    let cut = CreateHow::Unchecked(SetAttr { size: Some(0), ..SetAttr::default() });
    assert_eq!(world.create_as(&alice, world.root, "f", &cut).map(|_| ()), Err(FsError::Access));
    let same = CreateHow::Unchecked(SetAttr { size: Some(7), ..SetAttr::default() });
    assert_eq!(world.create_as(&alice, world.root, "f", &same).unwrap().size, 7, "nothing is cut");
    world.setattr_as(&alice, file.object, &SetAttr { size: Some(0), ..SetAttr::default() }).unwrap();
}

fn exclusive_ends(world: &World) {
    let root = Cred::root();
    let file = world.create_as(&root, world.root, "x", &CreateHow::Exclusive(5)).unwrap().object;
    world.setattr_as(&root, file, &mode(0o644)).unwrap();
    let repeated = world.create_as(&root, world.root, "x", &CreateHow::Exclusive(5));
    assert_eq!(repeated.map(|_| ()), Err(FsError::Exists));
}

fn attributes_at_creation(world: &World) {
    let set = SetAttr {
        mode: Some(0o7604),
        uid: Some(ALICE),
        gid: Some(BOB),
        size: None,
        atime: Some(SetTime::Client(FileTime::new(1, 2))),
        mtime: Some(SetTime::Client(FileTime::new(3, 4))),
    };
    let made = world.create_as(&Cred::root(), world.root, "f", &CreateHow::Guarded(set)).unwrap();
    assert_eq!((made.mode, made.uid, made.gid), (0o7604, ALICE, BOB));
    assert_eq!((made.atime, made.mtime), (FileTime::new(1, 2), FileTime::new(3, 4)));
    let sized = CreateHow::Guarded(SetAttr { size: Some(5), ..mode(0o600) });
    let sized = world.create_as(&Cred::root(), world.root, "sized", &sized).unwrap();
    assert_eq!((sized.size, world.read(sized.object, 0, 9)), (5, (vec![0; 5], true)));
    let huge = CreateHow::Guarded(SetAttr { size: Some(FILE_SIZE_MAX + 1), ..mode(0o600) });
    let huge = world.create_as(&Cred::root(), world.root, "huge", &huge);
    assert!(matches!(huge, Err(FsError::TooBig | FsError::Invalid)), "{huge:?}");
    let tmp = world.open_dir("tmp", 0o777);
    let own = world.create_as(&user(ALICE, &[7]), tmp, "own", &guarded(0o600)).unwrap();
    assert_eq!((own.uid, own.gid), (ALICE, ALICE));
    let theirs = CreateHow::Guarded(SetAttr { uid: Some(BOB), ..SetAttr::default() });
    // An owner or a group that may not be given is passed over, as the field's servers do: clients send their group along,
    // and a file that is not made at all is the worse answer.
    let theirs = world.create_as(&user(ALICE, &[]), tmp, "theirs", &theirs).unwrap();
    assert_eq!((theirs.uid, theirs.gid), (ALICE, ALICE));
    let foreign = SetAttr { uid: Some(BOB), gid: Some(BOB), ..mode(0o2755) };
    let alice = user(ALICE, &[7]);
    let made = [
        world.run(&alice, |ctx| world.vfs.mkdir(ctx, tmp, b"dir", &foreign)).0.unwrap(),
        world.run(&alice, |ctx| world.vfs.symlink(ctx, tmp, b"link", b"to", &foreign)).0.unwrap(),
        world.run(&alice, |ctx| world.vfs.mknod(ctx, tmp, b"fifo", NodeKind::Fifo, &foreign)).0.unwrap(),
    ];
    for attr in made {
        assert_eq!((attr.uid, attr.gid), (ALICE, ALICE), "{attr:?}");
    }
    let group = CreateHow::Guarded(SetAttr { gid: Some(7), ..SetAttr::default() });
    assert_eq!(world.create_as(&user(ALICE, &[7]), tmp, "group", &group).unwrap().gid, 7);
}

fn links(world: &World) {
    let root = Cred::root();
    let file = world.file(world.root, "f");
    let before = world.attr(file);
    let linked = world.link_as(&root, file, world.root, "g").unwrap();
    assert_eq!((linked.object, linked.nlink), (file, 2));
    assert!(linked.ctime > before.ctime && linked.mtime == before.mtime);
    assert_eq!(world.link_as(&root, file, world.root, "g").map(|_| ()), Err(FsError::Exists));
    let dir = world.dir(world.root, "d");
    let on_dir = world.link_as(&root, dir, world.root, "e");
    assert!(matches!(on_dir, Err(FsError::IsDirectory | FsError::NotOwner | FsError::Invalid)), "{on_dir:?}");
    assert_eq!(world.link_as(&root, file, file, "e").map(|_| ()), Err(FsError::NotDirectory));
    world.write_as(&root, file, 0, b"shared").unwrap();
    assert_eq!(world.read(world.find(world.root, "g").unwrap(), 0, 99).0, b"shared");
    world.remove_as(&root, world.root, "f").unwrap();
    assert_eq!(world.attr(file).nlink, 1);
    world.remove_as(&root, world.root, "g").unwrap();
    assert_eq!(world.vfs.getattr(file), Err(FsError::Stale));
}

fn set_group_id(world: &World) {
    let shared = world.open_dir("shared", 0o777);
    let set = SetAttr { gid: Some(50), mode: Some(0o2777), ..SetAttr::default() };
    world.setattr_as(&Cred::root(), shared, &set).unwrap();
    let alice = user(ALICE, &[]);
    let file = world.create_as(&alice, shared, "f", &guarded(0o644)).unwrap();
    assert_eq!((file.gid, file.mode), (50, 0o644));
    let dir = world.mkdir_as(&alice, shared, "d", 0o755).unwrap();
    assert_eq!((dir.gid, dir.mode), (50, 0o2755));
    let program = world.create_as(&alice, shared, "p", &guarded(0o2755)).unwrap();
    assert_eq!(program.mode, 0o755, "she is not in that group, so nothing of hers runs under it");
}

fn changes(world: &World) {
    let root = Cred::root();
    let before = world.attr(world.root);
    let (made, changes) = world.run(&root, |ctx| world.vfs.create(ctx, world.root, b"f", &guarded(0o644)));
    assert_eq!(changes.len(), 1, "CREATE reports the directory");
    assert_eq!(changes[0].before, Some((&before).into()));
    assert_eq!(changes[0].after, Some(world.attr(world.root)));
    let file = made.unwrap().object;
    let before = world.attr(file);
    let (_, changes) = world.run(&root, |ctx| world.vfs.setattr(ctx, file, &mode(0o600), None));
    assert_eq!((changes[0].before, &changes[0].after), (Some((&before).into()), &Some(world.attr(file))));
    let (failed, changes) = world.run(&root, |ctx| world.vfs.create(ctx, world.root, b"f", &guarded(0o644)));
    assert_eq!(failed.map(|_| ()), Err(FsError::Exists));
    assert_eq!(changes[0].after, Some(world.attr(world.root)), "also on failure");
    let dir = world.dir(world.root, "d");
    let (moved, changes) = world.run(&root, |ctx| world.vfs.rename(ctx, world.root, b"f", dir, b"f"));
    assert_eq!((moved, changes.len()), (Ok(()), 2), "RENAME reports both directories");
    assert_eq!(changes[0].after, Some(world.attr(world.root)));
    assert_eq!(changes[1].after, Some(world.attr(dir)));
}

fn directory_times(world: &World) {
    let root = Cred::root();
    let mut last = world.attr(world.root);
    let mut step = |what: &str| {
        let now = world.attr(world.root);
        assert!(now.mtime > last.mtime && now.ctime > last.ctime && now.change > last.change, "{what}");
        last = now;
    };
    let file = world.file(world.root, "f");
    step("create");
    world.dir(world.root, "d");
    step("mkdir");
    world.link_as(&root, file, world.root, "g").unwrap();
    step("link");
    world.rename_as(&root, (world.root, "g"), (world.root, "h")).unwrap();
    step("rename");
    world.remove_as(&root, world.root, "h").unwrap();
    step("remove");
    world.rmdir_as(&root, world.root, "d").unwrap();
    step("rmdir");
}

fn names_take_space(world: &World) {
    let root = Cred::root();
    let dir = world.dir(world.root, "d");
    let used = |object| world.attr(object).used;
    let target = [b't'; 3000];
    assert_eq!(used(world.symlink(dir, "s", &target).unwrap().object), 3000);
    let one = used(dir);
    assert!(one > 0, "a name");
    let file = world.file(dir, "short");
    assert_eq!(used(dir), 2 * one, "short names count alike");
    let long = "n".repeat(255);
    world.link_as(&root, file, dir, &long).unwrap();
    let of_long = used(dir) - 2 * one;
    assert!(of_long > 255);
    world.rename_as(&root, (dir, "s"), (dir, "renamed")).unwrap();
    assert_eq!(used(dir), 2 * one + of_long);
    world.rename_as(&root, (dir, "renamed"), (dir, &long)).unwrap();
    assert_eq!(used(dir), one + of_long, "over another name");
    world.rename_as(&root, (dir, &long), (world.root, "away")).unwrap();
    assert_eq!(used(dir), one);
    world.remove_as(&root, dir, "short").unwrap();
    assert_eq!(used(dir), 0, "nothing is left of what has gone");
    assert_eq!(used(world.root), 2 * one);
}

fn fresh_ids(world: &World) {
    let root = Cred::root();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let file = world.file(world.root, "f");
        assert!(seen.insert(file.id), "{file:?} was there before");
        world.remove_as(&root, world.root, "f").unwrap();
        assert_eq!(world.vfs.getattr(file), Err(FsError::Stale));
    }
    let file = world.file(world.root, "f");
    let other = crate::ObjectRef { generation: tally_base::Generation(!file.generation.0), ..file };
    assert_eq!(world.vfs.getattr(other), Err(FsError::Stale), "another generation is stale");
    assert_eq!(world.write_as(&root, other, 0, b"x"), Err(FsError::Stale));
}

fn remembered(world: &World) {
    let root = Cred::root();
    let key = |number: u8| ReplyKey([number; 40]);
    let ctx = |number| OpCtx { reply: Some(key(number)), ..OpCtx::of(&root) };
    assert_eq!(world.vfs.remembered(&key(1)), None);
    let made = world.vfs.mkdir(ctx(1), world.root, b"d", &mode(0o755));
    made.wait.block().unwrap();
    let made = made.result.unwrap();
    let first = world.vfs.remembered(&key(1)).expect("the success is remembered");
    assert_eq!(first.object, Some(made.object));
    let failed = world.vfs.mkdir(ctx(2), world.root, b"d", &mode(0o755));
    failed.wait.block().unwrap();
    assert!(failed.result.is_err());
    assert_eq!(world.vfs.remembered(&key(2)), None, "a failure changes nothing and is run again");
    let removed = world.vfs.rmdir(ctx(3), world.root, b"d");
    removed.wait.block().unwrap();
    assert!(world.vfs.remembered(&key(3)).is_some());

    // An equal one of another sender is another one, and has an answer of its own beside the first.
    let twin = key(1).numbered(7);
    let anyones = || world.vfs.remembered_of(&twin, &|_| true);
    assert_eq!(world.vfs.remembered(&twin), None, "the first one's answer is not the second's");
    assert_eq!(anyones(), Some(first));
    let asked = OpCtx { reply: Some(twin), ..OpCtx::of(&root) };
    let made = world.vfs.mkdir(asked, world.root, b"d", &mode(0o755));
    made.wait.block().unwrap();
    let second = Some(RememberedReply { object: Some(made.result.unwrap().object) });
    assert_eq!((world.vfs.remembered(&twin), anyones()), (second, second), "the last one counts");
    assert_eq!(world.vfs.remembered(&key(1)), Some(first), "and who asks for his own gets that");
    assert_eq!(world.vfs.remembered_of(&twin, &|number| number != 7), Some(first));
}
