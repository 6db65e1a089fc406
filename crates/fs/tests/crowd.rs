//! Many threads at once in a few directories, with groups closing and properties switching all the time: nothing may
//! hang, panic or contradict itself, and a power cut in the middle must be importable without a loss.

mod world;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tally_store::properties::{Property, parse};
use tally_vfs::{CreateHow, Cred, FileKind, FsError, ObjectRef, SetAttr, Stability, Vfs};
use world::{Dice, World, ctx, mode, patient, vfs};

const MIB: u64 = 1 << 20;

fn one_operation(fs: &dyn Vfs, dirs: &[ObjectRef], dice: &mut Dice) {
    let cred = Cred::root();
    let (from, to) = (dirs[dice.below(dirs.len() as u64) as usize], dirs[dice.below(dirs.len() as u64) as usize]);
    let name = format!("n{}", dice.below(8));
    let other = format!("n{}", dice.below(8));
    let file = fs.lookup(&cred, from, name.as_bytes()).ok().map(|(attr, _)| attr.object);
    let result = match (dice.below(10), file) {
        (0 | 1, _) => {
            let how = CreateHow::Unchecked(SetAttr { size: Some(dice.below(2) * 3000), ..mode(0o644) });
            patient(|| fs.create(ctx(&cred), from, name.as_bytes(), &how)).map(drop)
        }
        (2, _) => patient(|| fs.mkdir(ctx(&cred), from, name.as_bytes(), &mode(0o755))).map(drop),
        (3, _) => patient(|| fs.remove(ctx(&cred), from, name.as_bytes())),
        (4, _) => patient(|| fs.rmdir(ctx(&cred), from, name.as_bytes())),
        (5, _) => patient(|| fs.rename(ctx(&cred), from, name.as_bytes(), to, other.as_bytes())),
        (6, Some(file)) => patient(|| fs.link(ctx(&cred), file, to, other.as_bytes())).map(drop),
        (7, Some(file)) => {
            let set = SetAttr { size: Some(dice.below(200_000)), ..SetAttr::default() };
            patient(|| fs.setattr(ctx(&cred), file, &set, None))
        }
        (8, Some(file)) => patient(|| fs.commit(ctx(&cred), file, 0, 0)).map(drop),
        (_, Some(file)) => {
            let data = Bytes::from(vec![dice.below(256) as u8; 1 + dice.below(150_000) as usize]);
            let stability = if dice.below(2) == 0 { Stability::FileSync } else { Stability::Unstable };
            patient(|| fs.write(ctx(&cred), file, dice.below(3) * 50_000, data.clone(), stability)).map(drop)
        }
        (_, None) => Ok(()),
    };
    let worrying = [FsError::Io, FsError::NoSpace, FsError::Unavailable, FsError::ReadOnly];
    assert!(result.is_ok() || !worrying.contains(&result.unwrap_err()), "{result:?}");
}

/// Every name leads somewhere, and every object is named as often as it says.
fn check(fs: &dyn Vfs, dirs: &[ObjectRef]) {
    let cred = Cred::root();
    let mut links = std::collections::BTreeMap::new();
    let mut todo: Vec<ObjectRef> = dirs.to_vec();
    let mut seen = BTreeSet::new();
    while let Some(dir) = todo.pop() {
        if !seen.insert(dir.id) {
            continue;
        }
        let page = fs.readdir(&cred, dir, 2, 10_000, true).unwrap();
        let mut subdirectories = 0;
        for entry in &page.entries {
            let attr = entry.attr.as_ref().expect("an entry has its object");
            assert_eq!(fs.lookup(&cred, dir, &entry.name).unwrap().0.object, attr.object);
            if attr.kind == FileKind::Directory {
                subdirectories += 1;
                todo.push(attr.object);
            } else {
                let (count, _) = links.entry(attr.object.id).or_insert((0, attr.nlink));
                *count += 1;
                let read = fs.read(&cred, attr.object, 0, 1 << 20).unwrap();
                let bytes: usize = read.data.iter().map(|piece| piece.len()).sum();
                assert_eq!(bytes as u64, attr.size);
            }
        }
        let attr = fs.getattr(dir).unwrap();
        assert_eq!((attr.size, attr.nlink), (2 + page.entries.len() as u64, 2 + subdirectories));
    }
    for (object, (count, nlink)) in links {
        assert_eq!(count, nlink, "names of object {object}");
    }
}

#[test]
fn a_crowd_leaves_a_pool_that_holds_together() {
    let world = World::new(64 * MIB, 4 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let make = |name: &str| patient(|| fs.mkdir(ctx(&cred), fs.root(), name.as_bytes(), &mode(0o755))).unwrap().object;
    let dirs = [make("a"), make("b"), make("c")];
    let over = AtomicBool::new(false);
    let cuts = std::thread::scope(|scope| {
        let (fs, over, filer, dirs, world) = (&fs, &over, &filer, &dirs, &world);
        let crowd: Vec<_> = (1..=6u64)
            .map(|seed| {
                scope.spawn(move || {
                    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                    for _ in 0..1500 {
                        one_operation(&**fs, dirs, &mut dice);
                    }
                })
            })
            .collect();
        let syncs = scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                filer.sync().unwrap();
            }
        });
        let switches = scope.spawn(move || {
            let mut modes = ["always", "disabled", "standard"].iter().cycle();
            while !over.load(Ordering::Relaxed) {
                let mode = modes.next().expect("it goes round");
                filer.set_property("tank", parse(Property::Sync, mode).unwrap()).unwrap();
            }
        });
        let mut cuts = Vec::new();
        while crowd.iter().any(|thread| !thread.is_finished()) {
            if cuts.len() < 12 {
                cuts.push(world.cut());
            }
            std::thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
        crowd.into_iter().for_each(|thread| thread.join().unwrap());
        syncs.join().unwrap();
        switches.join().unwrap();
        cuts
    });
    for cut in cuts {
        let (after, report) = cut.import();
        assert_eq!(report.losses, Vec::<String>::new());
        check(&*vfs(&after), &dirs);
        after.sync().unwrap();
        check(&*vfs(&after), &dirs);
    }
    check(&*fs, &dirs);
    filer.sync().unwrap();
    check(&*fs, &dirs);
    assert_eq!(filer.pool().io.allocator().bad_free_count(), 0);
    let (after, report) = world.cut().import();
    assert_eq!(report.losses, Vec::<String>::new());
    check(&*vfs(&after), &dirs);
}
