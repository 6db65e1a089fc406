//! Finding and listing: dots, cookies, pages, what a listing shows while names come and go.

use super::Case;
use super::world::{World, mode, user};
use crate::{Cred, DirEntry, FsError, ObjectRef};

pub(super) const CASES: &[Case] = &[
    ("lookup: names, dots, errors", lookup),
    ("a listing in pages of every size", pages),
    ("cookies stay valid while names come and go", cookies),
    ("a name that moves keeps its place", places),
    ("a listing ends although each name is renamed away and back", renamed_under_a_listing),
    ("cookies far out", far_cookies),
    ("attributes in listings", plus),
    ("an empty directory", empty),
];

fn lookup(world: &World) {
    let dir = world.dir(world.root, "d");
    let file = world.file(dir, "f");
    let below = world.dir(dir, "below");
    let cases = [
        (world.root, ".", Ok(world.root)),
        (world.root, "..", Ok(world.root)),
        (dir, ".", Ok(dir)),
        (dir, "..", Ok(world.root)),
        (below, "..", Ok(dir)),
        (dir, "f", Ok(file)),
        (dir, "F", Err(FsError::NotFound)),
        (dir, "", Err(FsError::Access)),
        (file, "x", Err(FsError::NotDirectory)),
        (file, ".", Err(FsError::NotDirectory)),
    ];
    for (at, name, expected) in cases {
        assert_eq!(world.find(at, name), expected, "{name:?} in {at:?}");
    }
    assert_eq!(world.find(dir, &"n".repeat(256)), Err(FsError::NameTooLong));
    let (attr, parent) = world.vfs.lookup(&Cred::root(), dir, b"f").unwrap();
    assert_eq!((attr, parent), (world.attr(file), world.attr(dir)));
}

fn list(world: &World, page_size: usize) -> Vec<DirEntry> {
    let mut entries: Vec<DirEntry> = Vec::new();
    for _ in 0..1000 {
        let cookie = entries.last().map_or(0, |entry| entry.cookie);
        let page = world.vfs.readdir(&Cred::root(), world.root, cookie, page_size, false).unwrap();
        assert!(page.entries.len() <= page_size);
        assert!(page.eof || !page.entries.is_empty(), "a page without entries and without end");
        entries.extend(page.entries);
        if page.eof {
            return entries;
        }
    }
    panic!("the listing has no end");
}

fn pages(world: &World) {
    for number in 0..50 {
        world.file(world.root, &format!("file {number}"));
    }
    let whole = list(world, 1000);
    assert_eq!(whole.len(), 52);
    assert_eq!((whole[0].cookie, &whole[0].name[..], whole[0].object), (1, &b"."[..], world.root.id));
    assert_eq!((whole[1].cookie, &whole[1].name[..], whole[1].object), (2, &b".."[..], world.root.id));
    assert!(whole.windows(2).all(|pair| pair[0].cookie < pair[1].cookie), "cookies rise");
    assert!(whole[2..].iter().all(|entry| entry.cookie >= 3 && entry.cookie < 1 << 63));
    for (number, entry) in whole[2..].iter().enumerate() {
        assert_eq!(entry.name, format!("file {number}").as_bytes(), "creation order");
    }
    for page_size in [1, 2, 3, 7, 51, 52, 53] {
        assert_eq!(list(world, page_size), whole, "pages of {page_size}");
    }
}

fn cookies(world: &World) {
    let root = Cred::root();
    for name in ["a", "b", "c", "d"] {
        world.file(world.root, name);
    }
    let whole = list(world, 100);
    let behind_b = whole[3].cookie;
    world.remove_as(&root, world.root, "b").unwrap();
    world.remove_as(&root, world.root, "c").unwrap();
    world.file(world.root, "b");
    let page = world.vfs.readdir(&root, world.root, behind_b, 100, false).unwrap();
    let names: Vec<&[u8]> = page.entries.iter().map(|entry| &entry.name[..]).collect();
    assert_eq!(names, [&b"d"[..], b"b"], "behind a removed entry, the rest; new names come last");
    assert!(page.entries.iter().all(|entry| entry.cookie > behind_b));
    assert!(page.entries[1].cookie > whole[5].cookie, "a name made again has a new cookie");
}

/// The cookie of each name, in the order of the listing.
fn listed(world: &World, dir: ObjectRef) -> Vec<(String, u64)> {
    let page = world.vfs.readdir(&Cred::root(), dir, 2, 1000, false).unwrap();
    let name = |entry: &DirEntry| String::from_utf8_lossy(&entry.name).into_owned();
    page.entries.iter().map(|entry| (name(entry), entry.cookie)).collect()
}

/// A rename over a name leaves that name where it was, and one within a directory leaves the entry where it was: whoever
/// reads the directory meanwhile comes by once.
fn places(world: &World) {
    let (root, top) = (Cred::root(), world.root);
    let other = world.dir(top, "other");
    for name in ["a", "b", "c"] {
        world.file(top, name);
    }
    world.file(other, "x");
    let place = |dir: ObjectRef, name: &str| listed(world, dir).into_iter().find(|(other, _)| other == name).unwrap().1;
    let (a, b, x) = (place(top, "a"), place(top, "b"), place(other, "x"));
    world.rename_as(&root, (top, "a"), (top, "free")).unwrap();
    assert_eq!(place(top, "free"), a, "to a free name");
    world.rename_as(&root, (top, "c"), (top, "b")).unwrap();
    assert_eq!(place(top, "b"), b, "over another name");
    world.rename_as(&root, (top, "b"), (other, "x")).unwrap();
    assert_eq!(place(other, "x"), x, "over a name of another directory");
    let highest = listed(world, top).into_iter().chain(listed(world, other)).map(|(_, cookie)| cookie).max().unwrap();
    world.rename_as(&root, (other, "x"), (top, "x")).unwrap();
    assert!(place(top, "x") > highest, "a name that is new in its directory comes last, with a cookie of its own");
    let names: Vec<String> = listed(world, top).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["other", "free", "x"]);
    assert_eq!(listed(world, other), []);
}

/// Each name was given a place behind the end when it came back, and a listing beside such renames had no end.
fn renamed_under_a_listing(world: &World) {
    let root = Cred::root();
    let expected: Vec<String> = (0..30).map(|number| format!("file {number}")).collect();
    for name in &expected {
        world.file(world.root, name);
    }
    world.file(world.root, "saved");
    let mut seen: Vec<String> = Vec::new();
    let mut cookie = 2;
    loop {
        let page = world.vfs.readdir(&root, world.root, cookie, 7, false).unwrap();
        for entry in page.entries {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            world.rename_as(&root, (world.root, &name), (world.root, "away")).unwrap();
            world.rename_as(&root, (world.root, "away"), (world.root, &name)).unwrap();
            cookie = entry.cookie;
            seen.push(name);
        }
        assert!(seen.len() <= expected.len() + 1, "the listing goes on: {seen:?}");
        // Somebody saves another file meanwhile, the way that editors do.
        world.file(world.root, "saved.new");
        world.rename_as(&root, (world.root, "saved.new"), (world.root, "saved")).unwrap();
        if page.eof {
            break;
        }
    }
    assert_eq!(seen[..30], expected, "each once, and in the old order");
    assert_eq!(seen[30..], ["saved"]);
}

fn far_cookies(world: &World) {
    world.file(world.root, "f");
    for cookie in [1 << 31, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX] {
        let page = world.vfs.readdir(&Cred::root(), world.root, cookie, 100, true).unwrap();
        assert!(page.entries.is_empty() && page.eof, "behind {cookie}");
    }
}

fn plus(world: &World) {
    let file = world.file(world.root, "f");
    let dir = world.dir(world.root, "d");
    let page = world.vfs.readdir(&Cred::root(), world.root, 0, 100, true).unwrap();
    assert_eq!(page.attr, world.attr(world.root));
    for (name, object) in [(&b"f"[..], file), (b"d", dir)] {
        let entry = page.entries.iter().find(|entry| entry.name == name).unwrap();
        assert_eq!((entry.object, &entry.attr), (object.id, &Some(world.attr(object))));
    }
    // Who may list a directory and not search it sees names and ids.
    world.file(dir, "in d");
    world.setattr_as(&Cred::root(), dir, &mode(0o744)).unwrap();
    let page = world.vfs.readdir(&user(1000, &[]), dir, 0, 100, true).unwrap();
    assert_eq!(
        page.entries.iter().map(|entry| (&entry.name[..], &entry.attr)).collect::<Vec<_>>(),
        [(&b"."[..], &None), (b"..", &None), (b"in d", &None)]
    );
}

fn empty(world: &World) {
    let dir = world.dir(world.root, "d");
    let page = world.vfs.readdir(&Cred::root(), dir, 0, 100, false).unwrap();
    assert_eq!((page.entries.len(), page.eof), (2, true));
    assert_eq!(page.entries[1].object, world.root.id);
    let page = world.vfs.readdir(&Cred::root(), dir, 2, 100, false).unwrap();
    assert_eq!((page.entries.len(), page.eof), (0, true));
    let file = world.file(dir, "f");
    assert_eq!(world.vfs.readdir(&Cred::root(), file, 0, 9, false).map(|_| ()), Err(FsError::NotDirectory));
}
