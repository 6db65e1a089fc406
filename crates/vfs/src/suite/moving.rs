//! Removing and renaming.

use super::Case;
use super::world::{World, user};
use crate::{Cred, FsError, ObjectRef, RENAME_PARENTS_MAX};

pub(super) const CASES: &[Case] = &[
    ("remove and rmdir", remove),
    ("rename: names", rename_names),
    ("rename: what stands in the way", rename_over),
    ("rename: to a name that nobody has", rename_to_new),
    ("rename: directories and their parents", rename_directories),
    ("rename: not into itself", rename_into_itself),
    ("rename: into the deep", rename_into_the_deep),
    ("rename: without permission", rename_without_permission),
    ("rename: two names of one file", rename_same),
    ("a removed directory takes no names", removed_directory),
];

fn remove(world: &World) {
    let root = Cred::root();
    let dir = world.dir(world.root, "d");
    let file = world.file(dir, "f");
    assert_eq!(world.remove_as(&root, world.root, "none"), Err(FsError::NotFound));
    let result = world.remove_as(&root, world.root, "d");
    assert!(matches!(result, Err(FsError::IsDirectory | FsError::NotOwner)), "{result:?}");
    assert_eq!(world.rmdir_as(&root, dir, "f"), Err(FsError::NotDirectory));
    assert_eq!(world.rmdir_as(&root, world.root, "d"), Err(FsError::NotEmpty));
    assert_eq!(world.rmdir_as(&root, world.root, "none"), Err(FsError::NotFound));
    assert_eq!(world.remove_as(&root, file, "x"), Err(FsError::NotDirectory));
    for (dots, to_rmdir) in [(".", FsError::Invalid), ("..", FsError::NotEmpty)] {
        assert_eq!(world.remove_as(&root, dir, dots), Err(FsError::Invalid), "REMOVE {dots}");
        assert_eq!(world.rmdir_as(&root, dir, dots), Err(to_rmdir), "RMDIR {dots}");
    }
    assert_eq!(world.vfs.numbered(file.id), Ok(file));
    assert_eq!(world.remove_as(&root, dir, "f"), Ok(()));
    assert_eq!(world.vfs.getattr(file), Err(FsError::Stale));
    assert_eq!(world.vfs.numbered(file.id), Err(FsError::Stale));
    assert_eq!(world.attr(world.root).nlink, 3);
    assert_eq!(world.rmdir_as(&root, world.root, "d"), Ok(()));
    assert_eq!(world.vfs.getattr(dir), Err(FsError::Stale));
    assert_eq!(world.attr(world.root).nlink, 2);
}

fn rename_names(world: &World) {
    let root = Cred::root();
    let file = world.file(world.root, "a");
    let before = world.attr(file);
    assert_eq!(world.rename_as(&root, (world.root, "a"), (world.root, "b")), Ok(()));
    assert_eq!(world.names(world.root), ["b"]);
    assert_eq!(world.find(world.root, "b"), Ok(file));
    assert!(world.attr(file).ctime > before.ctime && world.attr(file).mtime == before.mtime);
    assert_eq!(world.rename_as(&root, (world.root, "a"), (world.root, "c")), Err(FsError::NotFound));
    for (from, to) in [("b", ""), ("b", "x/y"), ("b", "."), ("b", ".."), ("", "c"), (".", "c"), ("..", "c")] {
        let result = world.rename_as(&root, (world.root, from), (world.root, to));
        assert!(
            matches!(result, Err(FsError::Invalid | FsError::Exists | FsError::Access)),
            "{from:?} to {to:?}: {result:?}"
        );
    }
    let long = "n".repeat(256);
    assert_eq!(world.rename_as(&root, (world.root, "b"), (world.root, &long)), Err(FsError::NameTooLong));
    assert_eq!(world.rename_as(&root, (world.root, "b"), (file, "c")), Err(FsError::NotDirectory));
    assert_eq!(world.names(world.root), ["b"]);
}

fn rename_over(world: &World) {
    let root = Cred::root();
    let file = world.file(world.root, "file");
    let victim = world.file(world.root, "victim");
    let linked = world.file(world.root, "linked");
    world.link_as(&root, linked, world.root, "other name").unwrap();
    let empty = world.dir(world.root, "empty");
    let full = world.dir(world.root, "full");
    world.file(full, "x");
    let rename = |from: &str, to: &str| world.rename_as(&root, (world.root, from), (world.root, to));
    assert_eq!(rename("file", "empty"), Err(FsError::IsDirectory));
    assert_eq!(rename("empty", "file"), Err(FsError::NotDirectory));
    assert_eq!(rename("empty", "full"), Err(FsError::NotEmpty));
    assert_eq!(rename("file", "victim"), Ok(()));
    assert_eq!(world.vfs.getattr(victim), Err(FsError::Stale));
    assert_eq!(world.find(world.root, "victim"), Ok(file));
    assert_eq!(rename("victim", "linked"), Ok(()));
    assert_eq!(world.attr(linked).nlink, 1, "its other name is left");
    assert_eq!(world.attr(world.root).nlink, 4);
    assert_eq!(rename("full", "empty"), Ok(()));
    assert_eq!(world.vfs.getattr(empty), Err(FsError::Stale));
    assert_eq!(world.find(world.root, "empty"), Ok(full));
    assert_eq!(world.attr(world.root).nlink, 3);
    assert_eq!(world.names(full), ["x"]);
}

/// Of a look before it and a rename behind that somebody would lose what came between.
fn rename_to_new(world: &World) {
    let root = Cred::root();
    let (file, other) = (world.file(world.root, "file"), world.file(world.root, "other"));
    world.link_as(&root, file, world.root, "same").unwrap();
    let dir = world.dir(world.root, "dir");
    let rename = |from: &str, to: (ObjectRef, &str)| {
        let (from, name) = (from.as_bytes(), to.1.as_bytes());
        world.run(&root, |ctx| world.vfs.rename_to_new(ctx, world.root, from, to.0, name)).0
    };
    assert_eq!(rename("file", (world.root, "other")), Err(FsError::Exists));
    assert_eq!(rename("file", (world.root, "same")), Err(FsError::Exists), "two names of one object are two names");
    assert_eq!(rename("file", (world.root, "file")), Err(FsError::Exists));
    assert_eq!(rename("dir", (world.root, "file")), Err(FsError::Exists));
    assert_eq!(rename("gone", (world.root, "other")), Err(FsError::NotFound));
    assert_eq!((world.find(world.root, "file"), world.find(world.root, "other")), (Ok(file), Ok(other)));
    assert_eq!(rename("file", (dir, "new")), Ok(()));
    assert_eq!((world.find(world.root, "file"), world.find(dir, "new")), (Err(FsError::NotFound), Ok(file)));
}

fn rename_directories(world: &World) {
    let root = Cred::root();
    let (a, b) = (world.dir(world.root, "a"), world.dir(world.root, "b"));
    let moved = world.dir(a, "moved");
    assert_eq!((world.attr(a).nlink, world.attr(b).nlink), (3, 2));
    assert_eq!(world.rename_as(&root, (a, "moved"), (b, "here")), Ok(()));
    assert_eq!((world.attr(a).nlink, world.attr(b).nlink), (2, 3));
    assert_eq!(world.find(moved, ".."), Ok(b));
    assert_eq!((world.names(a), world.names(b)), (vec![], vec!["here".to_owned()]));
    let target = world.dir(a, "target");
    assert_eq!(world.rename_as(&root, (b, "here"), (a, "target")), Ok(()));
    assert_eq!(world.vfs.getattr(target), Err(FsError::Stale));
    assert_eq!((world.attr(a).nlink, world.attr(b).nlink), (3, 2));
}

fn rename_into_itself(world: &World) {
    let root = Cred::root();
    let a = world.dir(world.root, "a");
    let b = world.dir(a, "b");
    let c = world.dir(b, "c");
    for to in [a, b, c] {
        assert_eq!(world.rename_as(&root, (world.root, "a"), (to, "x")), Err(FsError::Invalid), "{to:?}");
    }
    assert_eq!(world.rename_as(&root, (b, "c"), (world.root, "c")), Ok(()));
    assert_eq!(world.rename_as(&root, (world.root, "a"), (c, "a")), Ok(()));
    assert_eq!(world.find(a, ".."), Ok(c));
}

/// A tree may be as deep as somebody likes. To find out that a directory would not come to stand below itself takes a look at
/// each parent, so there is an end to how deep one with directories in it can be moved.
fn rename_into_the_deep(world: &World) {
    let root = Cred::root();
    let (full, empty) = (world.dir(world.root, "full"), world.dir(world.root, "empty"));
    world.dir(full, "in it");
    world.file(empty, "f");
    let mut at = world.root;
    // The root has no parent.
    for _ in 0..RENAME_PARENTS_MAX {
        at = world.dir(at, "d");
    }
    let below = world.dir(at, "d");
    assert_eq!(world.rename_as(&root, (world.root, "full"), (below, "x")), Err(FsError::NameTooLong));
    assert_eq!(world.rename_as(&root, (world.root, "empty"), (below, "x")), Ok(()), "it stands above nothing");
    assert_eq!(world.rename_as(&root, (world.root, "full"), (at, "x")), Ok(()));
    assert_eq!(world.find(full, ".."), Ok(at));
}

/// Who may not move a directory is told that, and not whether a name stands for one that is above another.
fn rename_without_permission(world: &World) {
    let stranger = user(1001, &[]);
    let closed = world.open_dir("closed", 0o700);
    let above = world.dir(closed, "above");
    let below = world.dir(above, "below");
    let open = world.open_dir("open", 0o777);
    let full = world.dir(open, "full");
    world.dir(full, "in it");
    for (from, to) in [((closed, "above"), below), ((closed, "above"), open), ((open, "full"), below)] {
        assert_eq!(world.rename_as(&stranger, from, (to, "x")), Err(FsError::Access), "{from:?} {to:?}");
    }
    assert_eq!(world.rename_as(&stranger, (open, "full"), (full, "x")), Err(FsError::Access), "its `..` would change");
}

fn rename_same(world: &World) {
    let root = Cred::root();
    let file = world.file(world.root, "a");
    world.link_as(&root, file, world.root, "b").unwrap();
    assert_eq!(world.rename_as(&root, (world.root, "a"), (world.root, "b")), Ok(()));
    assert_eq!(world.names(world.root), ["a", "b"], "rename(2) does nothing then");
    assert_eq!(world.rename_as(&root, (world.root, "a"), (world.root, "a")), Ok(()));
    assert_eq!((world.find(world.root, "a"), world.attr(file).nlink), (Ok(file), 2));
}

fn removed_directory(world: &World) {
    let root = Cred::root();
    let dir = world.dir(world.root, "d");
    let file = world.file(world.root, "f");
    world.rmdir_as(&root, world.root, "d").unwrap();
    assert_eq!(world.mkdir_as(&root, dir, "x", 0o755).map(|_| ()), Err(FsError::Stale));
    assert_eq!(world.link_as(&root, file, dir, "x").map(|_| ()), Err(FsError::Stale));
    assert_eq!(world.rename_as(&root, (world.root, "f"), (dir, "x")), Err(FsError::Stale));
    assert_eq!(world.find(dir, "."), Err(FsError::Stale));
    assert_eq!(world.vfs.readdir(&root, dir, 0, 9, false).map(|_| ()), Err(FsError::Stale));
}
