//! Names that move while somebody looks: a name that exists at every moment is found at every moment.
//!
//! A LOOKUP is two looks, one at the directory and one at the object, and no lock spans both. An editor that saves by
//! renaming over `f` gets in between: the directory said which object, and a moment later that one was gone. The
//! answer used to be NOENT, one time in fifty under a loop of renames, for a file that was there all the time.
//!
//! A listing is many looks. A rename used to give each name a new place behind the end, so that a listing beside renames
//! had no end, and a file that was saved while somebody listed its directory stood in the listing twice.
//!
//! The tests of one look need no luck. Whoever serves many is told when one of its threads waits for a device
//! ([`tally_base::Seat`]), and right then the other client's request is carried out.

mod world;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tally_base::{ObjectId, Seat, seat_this_thread};
use tally_fs::Filer;
use tally_vfs::{CreateHow, Cred, FsError, ObjectRef, Vfs};
use world::{World, ctx, done, mode, vfs};

const MIB: u64 = 1 << 20;

/// Enough entries that names and inodes do not share a leaf: then each look reads the device.
const FILES: usize = 1000;

/// What another client does.
type Act = Box<dyn FnOnce()>;

/// Lets another client act when this thread waits for the device for the n-th time.
struct Meanwhile {
    waits_left: Cell<u32>,
    act: RefCell<Option<Act>>,
}

impl Seat for Meanwhile {
    fn sits_down(&self) {
        let left = self.waits_left.get();
        self.waits_left.set(left.saturating_sub(1));
        if left == 0
            && let Some(act) = self.act.borrow_mut().take()
        {
            act();
        }
    }

    fn stands_up(&self) {}
}

/// Runs `look` over cold caches, once for each time that it waits for the device: there `act` comes in between.
fn look_while(world: &World, act: fn(&dyn Vfs), look: impl Fn(&dyn Vfs, u32)) {
    for waits in 0.. {
        let (filer, report) = world.cut().import();
        assert_eq!(report.records_replayed, 0, "the caches are cold and no object is being changed");
        let fs = vfs(&filer);
        let other = Arc::clone(&fs);
        let meanwhile = Rc::new(Meanwhile {
            waits_left: Cell::new(waits),
            act: RefCell::new(Some(Box::new(move || act(&*other)))),
        });
        seat_this_thread(Rc::clone(&meanwhile) as Rc<dyn Seat>);
        look(&*fs, waits);
        if meanwhile.act.borrow().is_some() {
            assert!(waits >= 1, "the caches are cold");
            return;
        }
    }
}

/// A pool with this in its root directory, put away cleanly.
fn put_away(fill: impl FnOnce(&dyn Vfs)) -> World {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer: Arc<Filer> = world.create();
    let fs = vfs(&filer);
    fill(&*fs);
    for number in 0..FILES {
        make(&*fs, fs.root(), &format!("file {number} with a name that fills the leaves of its directory"));
    }
    filer.export().unwrap();
    world
}

fn make(fs: &dyn Vfs, dir: ObjectRef, name: &str) -> ObjectRef {
    let how = CreateHow::Guarded(mode(0o644));
    loop {
        match done(fs.create(ctx(&Cred::root()), dir, name.as_bytes(), &how)) {
            Err(FsError::Throttled) => {}
            made => return made.unwrap().object,
        }
    }
}

fn make_dir(fs: &dyn Vfs, name: &str) -> ObjectRef {
    done(fs.mkdir(ctx(&Cred::root()), fs.root(), name.as_bytes(), &mode(0o755))).unwrap().object
}

#[test]
fn a_name_that_is_replaced_is_found() {
    let world = put_away(|fs| {
        make(fs, fs.root(), "saved");
    });
    let world = {
        // The new content's file is made late: its inode is in another leaf than the old one's.
        let (filer, _) = world.import();
        make(&*vfs(&filer), vfs(&filer).root(), "saved.new");
        filer.export().unwrap();
        world
    };
    let save =
        |fs: &dyn Vfs| done(fs.rename(ctx(&Cred::root()), fs.root(), b"saved.new", fs.root(), b"saved")).unwrap();
    look_while(&world, save, |fs, waits| {
        let found = fs.lookup(&Cred::root(), fs.root(), b"saved");
        assert!(found.is_ok(), "replaced at wait {waits}: {found:?}");
    });
}

#[test]
fn the_parent_of_a_directory_that_moves_is_found() {
    let world = put_away(|fs| {
        let old = make_dir(fs, "old");
        make_dir(fs, "new");
        done(fs.mkdir(ctx(&Cred::root()), old, b"moves", &mode(0o755))).unwrap();
    });
    fn dir(fs: &dyn Vfs, parent: ObjectRef, name: &[u8]) -> ObjectRef {
        fs.lookup(&Cred::root(), parent, name).unwrap().0.object
    }
    // The old parent goes once it is empty: what `..` said a moment ago is gone then.
    let moves = |fs: &dyn Vfs| {
        let (old, new) = (dir(fs, fs.root(), b"old"), dir(fs, fs.root(), b"new"));
        done(fs.rename(ctx(&Cred::root()), old, b"moves", new, b"moves")).unwrap();
        done(fs.rmdir(ctx(&Cred::root()), fs.root(), b"old")).unwrap();
    };
    let moving = {
        let (filer, _) = world.cut().import();
        let fs = vfs(&filer);
        dir(&*fs, dir(&*fs, fs.root(), b"old"), b"moves")
    };
    look_while(&world, moves, |fs, waits| {
        let parent = fs.lookup(&Cred::root(), moving, b"..");
        assert!(parent.is_ok(), "moved at wait {waits}: {parent:?}");
    });
}

#[test]
fn a_name_that_was_removed_is_not_there() {
    let world = put_away(|fs| {
        make(fs, fs.root(), "goes");
    });
    let remove = |fs: &dyn Vfs| done(fs.remove(ctx(&Cred::root()), fs.root(), b"goes")).unwrap();
    look_while(&world, remove, |fs, _| match fs.lookup(&Cred::root(), fs.root(), b"goes") {
        Ok(_) | Err(FsError::NotFound) => {}
        Err(error) => panic!("{error}"),
    });
}

fn rename(fs: &dyn Vfs, from: &str, to: &str) {
    loop {
        match done(fs.rename(ctx(&Cred::root()), fs.root(), from.as_bytes(), fs.root(), to.as_bytes())) {
            Err(FsError::Throttled) => {}
            renamed => return renamed.unwrap(),
        }
    }
}

/// A listing of the root directory in pages of `page_size`, from behind `cookie` on, at most `pages_max` of them.
fn list(fs: &dyn Vfs, mut cookie: u64, page_size: usize, pages_max: usize) -> Vec<(String, ObjectId, u64)> {
    let mut entries = Vec::new();
    for _ in 0..pages_max {
        let page = fs.readdir(&Cred::root(), fs.root(), cookie, page_size, false).unwrap();
        for entry in page.entries {
            assert!(entry.cookie > cookie, "cookies rise");
            cookie = entry.cookie;
            entries.push((String::from_utf8_lossy(&entry.name).into_owned(), entry.object, cookie));
        }
        if page.eof {
            return entries;
        }
    }
    entries
}

#[test]
fn a_listing_goes_on_behind_a_cut_where_it_was() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let names: Vec<String> = (0..20).map(|number| format!("file {number}")).collect();
    for name in &names {
        make(&*fs, fs.root(), name);
    }
    filer.sync().unwrap();
    let mut seen = list(&*fs, 2, 10, 1);
    // Behind the reader and before it: saved, and moved to another name.
    for place in [3, 15] {
        make(&*fs, fs.root(), "new");
        rename(&*fs, "new", &names[place]);
        rename(&*fs, &names[place + 1], &format!("file {}, moved", place + 1));
    }
    let (after, report) = world.cut().import();
    assert_eq!((report.losses, report.records_replayed), (vec![], 6));
    let cookie = seen[9].2;
    seen.extend(list(&*vfs(&after), cookie, 10, 10));
    let seen: Vec<&str> = seen.iter().map(|(name, ..)| &name[..]).collect();
    let mut expected = names;
    expected[16].push_str(", moved");
    assert_eq!(seen, expected);
}

/// Renames of each of two clients, beside the looks of others.
const RENAMES: usize = 400;

#[test]
fn while_clients_rename_each_name_is_found_and_each_listing_is_whole() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let root = fs.root();
    let objects: Vec<ObjectRef> = (0..40).map(|number| make(&*fs, root, &format!("file {number}"))).collect();
    make(&*fs, root, "saved");
    let at_work = AtomicUsize::new(2);
    std::thread::scope(|scope| {
        let (fs, at_work, objects) = (&fs, &at_work, &objects);
        scope.spawn(move || {
            for _ in 0..RENAMES {
                make(&**fs, root, "saved.new");
                rename(&**fs, "saved.new", "saved");
            }
            at_work.fetch_sub(1, Ordering::SeqCst);
        });
        scope.spawn(move || {
            // Every other file only: the rest keeps its name all the time.
            for number in (0..40).step_by(2).cycle().take(RENAMES) {
                let name = format!("file {number}");
                rename(&**fs, &name, "away");
                rename(&**fs, "away", &name);
            }
            at_work.fetch_sub(1, Ordering::SeqCst);
        });
        scope.spawn(move || {
            while at_work.load(Ordering::SeqCst) > 0 {
                let found = fs.lookup(&Cred::root(), root, b"saved");
                assert!(found.is_ok(), "it is there at every moment: {found:?}");
            }
        });
        scope.spawn(move || {
            while at_work.load(Ordering::SeqCst) > 0 {
                let entries = list(&**fs, 2, 5, 20);
                let mut times = BTreeMap::new();
                for (name, object, _) in &entries {
                    *times.entry(*object).or_insert(0) += 1;
                    *times.entry(if name == "saved" { ObjectId(0) } else { ObjectId(1) }).or_insert(0) += 1;
                }
                let wrong = objects.iter().find(|object| times.get(&object.id) != Some(&1));
                assert_eq!(wrong, None, "each file once, under whichever name: {entries:?}");
                assert_eq!(times.get(&ObjectId(0)), Some(&1), "the saved file once: {entries:?}");
            }
        });
    });
}

/// Whoever is told of damage knows the number of an object. A pool with millions of names must not be gone through for one of
/// them.
#[test]
fn an_object_knows_its_newest_name() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let (fs, cred) = (vfs(&filer), Cred::root());
    let of_dir = |dir: ObjectRef, name: &str| {
        let made = done(fs.mkdir(ctx(&cred), dir, name.as_bytes(), &mode(0o755)));
        made.unwrap().object
    };
    let path = |filer: &Filer, object: ObjectRef| filer.by_name("tank").unwrap().path_of(object.id);
    let path_here = |object| path(&filer, object).unwrap_or_default();
    let outer = of_dir(fs.root(), "outer");
    let inner = of_dir(outer, "inner");
    let file = make(&*fs, inner, "file");
    assert_eq!([fs.root(), outer, inner, file].map(path_here), ["/", "/outer", "/outer/inner", "/outer/inner/file"]);
    done(fs.rename(ctx(&cred), outer, b"inner", fs.root(), b"moved")).unwrap();
    done(fs.rename(ctx(&cred), inner, b"file", inner, b"renamed")).unwrap();
    assert_eq!(path_here(file), "/moved/renamed");
    filer.sync().unwrap();
    assert_eq!(path_here(file), "/moved/renamed");
    // What many programs do to save a file: another name, and the first one goes.
    done(fs.link(ctx(&cred), file, outer, b"linked")).unwrap();
    done(fs.remove(ctx(&cred), inner, b"renamed")).unwrap();
    assert_eq!(path_here(file), "/outer/linked");
    let over = make(&*fs, outer, "over");
    done(fs.rename(ctx(&cred), outer, b"linked", outer, b"over")).unwrap();
    assert_eq!((path(&filer, over), path_here(file)), (None, "/outer/over".to_owned()));
    let twice = make(&*fs, outer, "old");
    done(fs.link(ctx(&cred), twice, outer, b"new")).unwrap();
    done(fs.remove(ctx(&cred), outer, b"new")).unwrap();
    assert_eq!(path(&filer, twice), None, "it has another, and does not know it");
    done(fs.rename(ctx(&cred), outer, b"old", inner, b"known again")).unwrap();
    let (again, report) = world.cut().import();
    assert!(report.records_replayed > 0, "some of it is in the log alone");
    assert_eq!(path(&again, file).as_deref(), Some("/outer/over"));
    assert_eq!(path(&again, twice).as_deref(), Some("/moved/known again"));
}
