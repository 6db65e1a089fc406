//! Extended attributes.

use bytes::Bytes;

use super::Case;
use super::world::{ALICE, BOB, World, guarded, mode, user};
use crate::xattrs::{XATTR_NAME_MAX, XATTR_VALUE_MAX, XATTRS_MAX};
use crate::{Cred, FsError, NodeKind, ObjectRef, SetXattr, XattrName};

pub(super) const CASES: &[Case] = &[
    ("extended attributes: set, read, replace, remove", set_and_remove),
    ("extended attributes: what may be there", how),
    ("extended attributes: names", names),
    ("extended attributes: long values", long),
    ("extended attributes: how many", many),
    ("extended attributes: the listing goes on", listing),
    ("extended attributes: times and change", times),
    ("extended attributes: who may", who),
    ("extended attributes: of what is not a file or a directory", others),
    ("extended attributes: they go with their object", gone),
];

impl World {
    fn set_xattr_as(&self, cred: &Cred, object: ObjectRef, name: &str, value: &[u8]) -> Result<(), FsError> {
        self.set_xattr_how(cred, object, name.as_bytes(), value, SetXattr::Either)
    }

    fn set_xattr_how(
        &self,
        cred: &Cred,
        object: ObjectRef,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FsError> {
        self.run(cred, |ctx| self.vfs.set_xattr(ctx, object, name, value, how)).0
    }

    fn set_xattr(&self, object: ObjectRef, name: &str, value: &[u8]) {
        self.set_xattr_as(&Cred::root(), object, name, value).unwrap();
    }

    fn remove_xattr_as(&self, cred: &Cred, object: ObjectRef, name: &str) -> Result<(), FsError> {
        self.run(cred, |ctx| self.vfs.remove_xattr(ctx, object, name.as_bytes())).0
    }

    fn xattr(&self, object: ObjectRef, name: &str) -> Result<Bytes, FsError> {
        self.vfs.xattr(&Cred::root(), object, name.as_bytes())
    }

    fn list_xattrs(&self, object: ObjectRef, cookie: u64) -> Vec<XattrName> {
        self.vfs.list_xattrs(&Cred::root(), object, cookie).expect("names")
    }

    /// The names, sorted: each file system has an order of its own.
    fn xattr_names(&self, object: ObjectRef) -> Vec<String> {
        let names = self.list_xattrs(object, 0);
        let mut names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(&name.name).into_owned()).collect();
        names.sort();
        names
    }
}

fn set_and_remove(world: &World) {
    for object in [world.file(world.root, "f"), world.dir(world.root, "d")] {
        assert_eq!(world.xattr(object, "user.a"), Err(FsError::NoXattr));
        assert_eq!(world.xattr_names(object), Vec::<String>::new());
        world.set_xattr(object, "user.a", b"first");
        world.set_xattr(object, "user.b", b"");
        assert_eq!(world.xattr(object, "user.a"), Ok(Bytes::from_static(b"first")));
        assert_eq!(world.xattr(object, "user.b"), Ok(Bytes::new()), "an empty value is one");
        world.set_xattr(object, "user.a", b"another");
        assert_eq!(world.xattr(object, "user.a"), Ok(Bytes::from_static(b"another")));
        assert_eq!(world.xattr_names(object), ["user.a", "user.b"]);
        assert_eq!(world.remove_xattr_as(&Cred::root(), object, "user.a"), Ok(()));
        assert_eq!(world.remove_xattr_as(&Cred::root(), object, "user.a"), Err(FsError::NoXattr));
        assert_eq!(world.xattr(object, "user.a"), Err(FsError::NoXattr));
        assert_eq!(world.xattr_names(object), ["user.b"]);
    }
}

fn how(world: &World) {
    let (file, root) = (world.file(world.root, "f"), Cred::root());
    let set = |value: &[u8], how| world.set_xattr_how(&root, file, b"user.a", value, how);
    assert_eq!(set(b"1", SetXattr::Replace), Err(FsError::NoXattr));
    assert_eq!(world.xattr_names(file), Vec::<String>::new());
    assert_eq!(set(b"2", SetXattr::Create), Ok(()));
    assert_eq!(set(b"3", SetXattr::Create), Err(FsError::Exists));
    assert_eq!(world.xattr(file, "user.a"), Ok(Bytes::from_static(b"2")));
    assert_eq!(set(b"4", SetXattr::Replace), Ok(()));
    assert_eq!(set(b"5", SetXattr::Either), Ok(()));
    assert_eq!(world.xattr(file, "user.a"), Ok(Bytes::from_static(b"5")));
}

fn names(world: &World) {
    let (file, root) = (world.file(world.root, "f"), Cred::root());
    let longest = [&b"user."[..], &[b'n'; XATTR_NAME_MAX - 5]].concat();
    let longer = [&longest[..], b"n"].concat();
    let cases: [(&[u8], Result<(), FsError>); 9] = [
        (b"", Err(FsError::Invalid)),
        (b"user.", Err(FsError::Invalid)),
        (b"bare", Err(FsError::Invalid)),
        (b"security.capability", Err(FsError::Invalid)),
        (b"trusted.a", Err(FsError::Invalid)),
        (b"user.a\0b", Err(FsError::Invalid)),
        (&longer, Err(FsError::NameTooLong)),
        (&longest, Ok(())),
        // Any other byte is as good as another.
        (b"user.\xff/\x01", Ok(())),
    ];
    for (name, expected) in cases {
        assert_eq!(world.set_xattr_how(&root, file, name, b"v", SetXattr::Either), expected, "{name:?}");
        let read = world.vfs.xattr(&root, file, name);
        assert_eq!(read, expected.map(|()| Bytes::from_static(b"v")), "{name:?}");
        let removed = world.run(&root, |ctx| world.vfs.remove_xattr(ctx, file, name)).0;
        assert_eq!(removed, expected, "{name:?}");
    }
    assert_eq!(world.xattr_names(file), Vec::<String>::new());
}

/// Longer and shorter ones one after the other, so that one has fewer parts than the one before.
fn long(world: &World) {
    let (file, root) = (world.file(world.root, "f"), Cred::root());
    let value = |length: usize, seed: u8| -> Vec<u8> { (0..length).map(|at| (at % 251) as u8 ^ seed).collect() };
    for (length, seed) in [(XATTR_VALUE_MAX, 1), (10, 2), (40_000, 3), (XATTR_VALUE_MAX, 4), (0, 5), (30_000, 6)] {
        world.set_xattr(file, "user.long", &value(length, seed));
        assert!(world.xattr(file, "user.long").unwrap() == value(length, seed), "{length} bytes");
        assert_eq!(world.xattr_names(file), ["user.long"]);
    }
    let longer = value(XATTR_VALUE_MAX + 1, 7);
    assert_eq!(world.set_xattr_as(&root, file, "user.long", &longer), Err(FsError::XattrTooBig));
    assert!(world.xattr(file, "user.long").unwrap() == value(30_000, 6));
}

fn many(world: &World) {
    let (file, root) = (world.file(world.root, "f"), Cred::root());
    // As many as xfstests sets of one file (generic/020), and Linux' own server takes.
    for number in 0..1_000 {
        world.set_xattr(file, &format!("user.{number}"), b"v");
    }
    for number in 1_000..XATTRS_MAX {
        world.set_xattr(file, &format!("user.{number}"), b"v");
    }
    assert_eq!(world.set_xattr_as(&root, file, "user.more", b"v"), Err(FsError::NoSpace));
    world.set_xattr(file, "user.7", b"another value of one that is there");
    assert_eq!(world.remove_xattr_as(&root, file, "user.8"), Ok(()));
    world.set_xattr(file, "user.more", b"v");
    assert_eq!(world.xattr_names(file).len(), XATTRS_MAX as usize);

    let other = world.file(world.root, "g");
    let longest = vec![b'v'; XATTR_VALUE_MAX];
    for name in ["user.a", "user.b", "user.c"] {
        world.set_xattr(other, name, &longest);
    }
    assert_eq!(world.set_xattr_as(&root, other, "user.d", &longest), Err(FsError::NoSpace));
    // In the place of one that is there it fits.
    world.set_xattr(other, "user.c", &longest);
    world.set_xattr(other, "user.a", b"short");
    world.set_xattr(other, "user.d", &longest);
    assert_eq!(world.xattr_names(other), ["user.a", "user.b", "user.c", "user.d"]);
}

fn listing(world: &World) {
    let file = world.file(world.root, "f");
    for number in 0..20 {
        world.set_xattr(file, &format!("user.{number}"), b"v");
    }
    let all = world.list_xattrs(file, 0);
    assert!(all.windows(2).all(|two| two[0].cookie < two[1].cookie), "in the order of their cookies");
    for (at, name) in all.iter().enumerate() {
        assert_eq!(world.list_xattrs(file, name.cookie), all[at..], "from {at} on");
    }
    // What was listed goes, and what is to be listed next.
    for gone in [3, 10] {
        let name = str::from_utf8(&all[gone].name).unwrap();
        assert_eq!(world.remove_xattr_as(&Cred::root(), file, name), Ok(()));
    }
    world.set_xattr(file, str::from_utf8(&all[12].name).unwrap(), b"another");
    assert_eq!(world.list_xattrs(file, all[10].cookie), all[11..]);
}

fn times(world: &World) {
    for object in [world.file(world.root, "f"), world.dir(world.root, "d")] {
        let mut before = world.attr(object);
        type Change<'a> = &'a dyn Fn() -> Result<(), FsError>;
        let changes: [Change<'_>; 3] = [
            &|| world.set_xattr_as(&Cred::root(), object, "user.a", b"1"),
            &|| world.set_xattr_as(&Cred::root(), object, "user.a", b"1"),
            &|| world.remove_xattr_as(&Cred::root(), object, "user.a"),
        ];
        for change in changes {
            assert_eq!(change(), Ok(()));
            let after = world.attr(object);
            assert!(after.ctime > before.ctime && after.change > before.change);
            assert_eq!((after.mtime, after.atime, after.size), (before.mtime, before.atime, before.size));
            before = after;
        }
        let _ = world.xattr(object, "user.a");
        assert_eq!(world.remove_xattr_as(&Cred::root(), object, "user.a"), Err(FsError::NoXattr));
        assert_eq!(world.attr(object), before, "what fails, or reads, changes nothing");
    }
    let file = world.file(world.root, "around");
    let root = Cred::root();
    let before = world.attr(file);
    let (_, changes) = world.run(&root, |ctx| world.vfs.set_xattr(ctx, file, b"user.a", b"", SetXattr::Either));
    let change = changes.first().expect("the change of the object itself");
    assert_eq!(change.before.map(|before| before.change), Some(before.change));
    assert_eq!(change.after, Some(world.attr(file)));
}

fn who(world: &World) {
    let tmp = world.open_dir("tmp", 0o777);
    let (alice, bob, root) = (user(ALICE, &[]), user(BOB, &[]), Cred::root());
    let file = world.create_as(&alice, tmp, "f", &guarded(0o640)).unwrap().object;
    assert_eq!(world.set_xattr_as(&alice, file, "user.a", b"v"), Ok(()));
    let list = |cred: &Cred, object| world.vfs.list_xattrs(cred, object, 0).map(|names| names.len());
    let may = |cred: &Cred, object: ObjectRef, reads, writes| {
        let (of_reading, of_writing) = (reads, writes);
        assert_eq!(world.vfs.xattr(cred, object, b"user.a").map(|_| ()), of_reading);
        assert_eq!(list(cred, object).map(|_| ()), of_reading);
        assert_eq!(world.set_xattr_as(cred, object, "user.a", b"v"), of_writing);
        assert_eq!(world.remove_xattr_as(cred, object, "user.a"), of_writing);
        world.set_xattr(object, "user.a", b"v");
    };
    let (ok, access) = (Ok(()), Err(FsError::Access));
    for (bits, of_owner, of_other) in [
        (0o640, (ok, ok), (access, access)),
        (0o644, (ok, ok), (ok, access)),
        (0o642, (ok, ok), (access, ok)),
        // Its owner may change the mode, but goes by it, as on a local disk.
        (0o444, (ok, access), (ok, access)),
        (0o200, (access, ok), (access, access)),
    ] {
        world.setattr_as(&root, file, &mode(bits)).unwrap();
        may(&alice, file, of_owner.0, of_owner.1);
        may(&bob, file, of_other.0, of_other.1);
        may(&root, file, ok, ok);
    }
    // A directory that everybody writes to.
    let dir = world.mkdir_as(&alice, tmp, "d", 0o777).unwrap().object;
    world.set_xattr(dir, "user.a", b"v");
    may(&bob, dir, ok, ok);
    world.setattr_as(&root, dir, &mode(0o1777)).unwrap();
    may(&bob, dir, ok, Err(FsError::NotOwner));
    may(&alice, dir, ok, ok);
    may(&root, dir, ok, ok);
}

fn others(world: &World) {
    let root = Cred::root();
    let link = world.symlink(world.root, "link", b"target").unwrap().object;
    let pipe = world.mknod_as(&root, "pipe", NodeKind::Fifo).unwrap().object;
    for object in [link, pipe] {
        assert_eq!(world.set_xattr_as(&root, object, "user.a", b"v"), Err(FsError::NotOwner));
        assert_eq!(world.remove_xattr_as(&root, object, "user.a"), Err(FsError::NotOwner));
        assert_eq!(world.xattr(object, "user.a"), Err(FsError::NoXattr));
        assert_eq!(world.list_xattrs(object, 0), []);
    }
}

fn gone(world: &World) {
    let (file, dir) = (world.file(world.root, "f"), world.dir(world.root, "d"));
    for object in [file, dir] {
        world.set_xattr(object, "user.a", b"v");
    }
    assert_eq!(world.remove_as(&Cred::root(), world.root, "f"), Ok(()));
    assert_eq!(world.rmdir_as(&Cred::root(), world.root, "d"), Ok(()));
    for object in [file, dir] {
        assert_eq!(world.xattr(object, "user.a"), Err(FsError::Stale));
        assert_eq!(world.vfs.list_xattrs(&Cred::root(), object, 0), Err(FsError::Stale));
        assert_eq!(world.set_xattr_as(&Cred::root(), object, "user.a", b"v"), Err(FsError::Stale));
    }
    let file = world.file(world.root, "f");
    assert_eq!(world.list_xattrs(file, 0), [], "another object of the name has none");
}
