//! Extended attributes, from the log and the tree: across cuts, with their objects, in a full quota, above what cannot be read. What replay makes of their records
//! is a row of `cells`.

mod world;

#[path = "../../sim/src/same.rs"]
#[allow(dead_code, unreachable_pub)]
mod same;
#[path = "../../sim/src/sound.rs"]
#[allow(dead_code, unreachable_pub)]
mod sound;

use std::sync::Arc;

use tally_base::SlotMark;
use tally_fs::damage::Part;
use tally_fs::filer::{CreateOptions, Filer, ImportOptions};
use tally_store::bp::BlockPtr;
use tally_store::key::{Class, Key};
use tally_store::properties::{Property, parse};
use tally_store::tree::Visit;
use tally_store::tuning::Tuning;
use tally_vfs::model::{Model, ModelOptions};
use tally_vfs::{
    CreateHow, Cred, FsError, ObjectRef, OpCtx, RememberedReply, ReplyKey, SetXattr, Stability, Vfs, XATTR_VALUE_MAX,
};
use world::{Dice, World, ctx, done, mode, noise, patient, patient_by_hand, vfs};

const MIB: u64 = 1 << 20;
const LABEL: u64 = tally_members::label::LABEL_BYTES;
const DATA: &str = "/disks/data";

fn file(fs: &dyn Vfs, name: &str) -> ObjectRef {
    let how = CreateHow::Guarded(mode(0o644));
    done(fs.create(ctx(&Cred::root()), fs.root(), name.as_bytes(), &how)).unwrap().object
}

fn dir(fs: &dyn Vfs, name: &str) -> ObjectRef {
    done(fs.mkdir(ctx(&Cred::root()), fs.root(), name.as_bytes(), &mode(0o755))).unwrap().object
}

fn set(fs: &dyn Vfs, object: ObjectRef, name: &str, value: &[u8]) -> Result<(), FsError> {
    patient(|| fs.set_xattr(ctx(&Cred::root()), object, name.as_bytes(), value, SetXattr::Either))
}

fn take(fs: &dyn Vfs, object: ObjectRef, name: &str) -> Result<(), FsError> {
    patient(|| fs.remove_xattr(ctx(&Cred::root()), object, name.as_bytes()))
}

fn get(fs: &dyn Vfs, object: ObjectRef, name: &str) -> Result<Vec<u8>, FsError> {
    fs.xattr(&Cred::root(), object, name.as_bytes()).map(|value| value.to_vec())
}

fn count(fs: &dyn Vfs, object: ObjectRef) -> usize {
    fs.list_xattrs(&Cred::root(), object, 0).unwrap().len()
}

fn used(filer: &Filer) -> u64 {
    filer.by_name("tank").unwrap().info().used_bytes
}

fn keys_left(filer: &Filer) -> usize {
    let dataset = filer.pool().datasets().into_iter().next().unwrap();
    let (from, to) = (Key::new(Class::Xattr, 0, 0, 0), Key::new(Class::Xattr, u64::MAX, u64::MAX, u64::MAX));
    dataset.root().tree.range(&filer.pool().io, &from, &to).count()
}

fn synced(filer: &Filer) {
    (0..3).for_each(|_| _ = filer.sync().unwrap());
}

/// In the log alone, in the tree, and half and half.
#[test]
fn what_is_answered_is_there_behind_a_cut() {
    for syncs in 0..3 {
        let world = World::new(64 * MIB, 16 * MIB);
        let filer = world.create();
        let fs = vfs(&filer);
        let objects = [file(&*fs, "file"), dir(&*fs, "dir")];
        let long = noise(XATTR_VALUE_MAX, 7);
        let sync = |at: u64| (at < syncs).then(|| filer.sync().unwrap());
        for object in objects {
            set(&*fs, object, "user.long", &long).unwrap();
            set(&*fs, object, "user.shorter", &long).unwrap();
            set(&*fs, object, "user.gone", b"v").unwrap();
        }
        sync(0);
        for object in objects {
            set(&*fs, object, "user.shorter", b"short").unwrap();
            take(&*fs, object, "user.gone").unwrap();
            set(&*fs, object, "user.new", b"").unwrap();
        }
        sync(1);
        let attrs = objects.map(|object| fs.getattr(object).unwrap());
        let (cut, report) = world.cut().import();
        assert_eq!(report.losses, Vec::<String>::new());
        for _ in 0..2 {
            let fs = vfs(&cut);
            for (object, attr) in objects.into_iter().zip(&attrs) {
                assert!(get(&*fs, object, "user.long") == Ok(long.to_vec()));
                assert_eq!(get(&*fs, object, "user.shorter"), Ok(b"short".to_vec()));
                assert_eq!(get(&*fs, object, "user.gone"), Err(FsError::NoXattr));
                assert_eq!(get(&*fs, object, "user.new"), Ok(Vec::new()));
                assert_eq!(count(&*fs, object), 3);
                let found = fs.getattr(object).unwrap();
                assert_eq!((found.ctime, found.mtime), (attr.ctime, attr.mtime));
            }
            synced(&cut);
            sound::sound(&cut).unwrap();
            // A long one has three parts.
            assert_eq!(keys_left(&cut), 2 * 5);
        }
    }
}

/// In the group that sets them, in the one behind it, and when they have been in the tree for long. Of a file with content, of a directory, and of one that somebody
/// renames something over.
#[test]
fn they_go_with_their_object_and_are_charged_until_then() {
    for syncs in 0..3 {
        let world = World::new(64 * MIB, 16 * MIB);
        let filer = world.create_without_threads(&CreateOptions::default());
        let (fs, cred) = (vfs(&filer), Cred::root());
        synced(&filer);
        let empty = used(&filer);
        let objects = [file(&*fs, "file"), dir(&*fs, "dir"), file(&*fs, "over")];
        done(fs.write(ctx(&cred), objects[0], 0, noise(300_000, 1), Stability::FileSync)).unwrap();
        for object in objects {
            set(&*fs, object, "user.long", &noise(XATTR_VALUE_MAX, 7)).unwrap();
            set(&*fs, object, "user.short", b"v").unwrap();
        }
        (0..syncs).for_each(|_| _ = filer.sync().unwrap());
        // What is set in this very group, and what it replaces.
        for object in objects {
            set(&*fs, object, "user.long", &noise(40_000, 8)).unwrap();
            set(&*fs, object, "user.new", b"v").unwrap();
        }
        if syncs == 2 {
            synced(&filer);
            sound::sound(&filer).unwrap();
            assert_eq!(keys_left(&filer), 3 * 4);
            assert!(used(&filer) - empty > 300_000 + 3 * 40_000);
            set(&*fs, objects[0], "user.last", b"v").unwrap();
        }
        done(fs.remove(ctx(&cred), fs.root(), b"file")).unwrap();
        done(fs.rmdir(ctx(&cred), fs.root(), b"dir")).unwrap();
        let other = file(&*fs, "other");
        done(fs.rename(ctx(&cred), fs.root(), b"other", fs.root(), b"over")).unwrap();
        assert_eq!(count(&*fs, other), 0);
        let (cut, _) = world.cut().import();
        for filer in [filer, cut] {
            synced(&filer);
            sound::sound(&filer).unwrap();
            assert_eq!((keys_left(&filer), count(&*vfs(&filer), other)), (0, 0), "behind {syncs} groups");
            done(vfs(&filer).remove(ctx(&cred), fs.root(), b"over")).unwrap();
            synced(&filer);
            assert_eq!(used(&filer), empty);
        }
    }
}

/// What is removed at once may have more than a group is to look at.
#[test]
fn many_are_freed_in_several_groups() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create_without_threads(&CreateOptions::default());
    let (fs, cred) = (vfs(&filer), Cred::root());
    synced(&filer);
    let empty = used(&filer);
    let objects = [file(&*fs, "a"), dir(&*fs, "b"), file(&*fs, "c")];
    for object in objects {
        (0..128).for_each(|number| set(&*fs, object, &format!("user.{number}"), &noise(1000, 7)).unwrap());
    }
    filer.export().unwrap();
    let tuning = Tuning { reap_extents_max: 100, ..Tuning::default() };
    let (filer, _) = world.try_import_without_threads(&tuning, &ImportOptions::default()).unwrap();
    let fs = vfs(&filer);
    done(fs.remove(ctx(&cred), fs.root(), b"a")).unwrap();
    done(fs.rmdir(ctx(&cred), fs.root(), b"b")).unwrap();
    let (mut left, mut groups) = (keys_left(&filer), 0);
    assert_eq!(left, 3 * 128);
    while left > 128 {
        filer.sync().unwrap();
        let now = keys_left(&filer);
        // A key with a kilobyte counts for eight extents.
        assert!(left - now <= 100 / 8 + 2, "{} in one group", left - now);
        (left, groups) = (now, groups + 1);
        assert!(groups < 100, "{left} are left");
        if groups == 5 {
            let (cut, _) = world.cut().import();
            assert_eq!(count(&*vfs(&cut), objects[2]), 128);
        }
    }
    synced(&filer);
    sound::sound(&filer).unwrap();
    assert_eq!((count(&*fs, objects[2]), filer.by_name("tank").unwrap().has_orphans()), (128, false));
    done(fs.remove(ctx(&cred), fs.root(), b"c")).unwrap();
    (0..40).for_each(|_| _ = filer.sync().unwrap());
    assert_eq!((keys_left(&filer), used(&filer)), (0, empty));
}

#[test]
fn they_count_against_a_quota() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let objects: Vec<_> = (0..20).map(|number| file(&*fs, &format!("f{number}"))).collect();
    filer.sync().unwrap();
    let quota = used(&filer) + 10 * XATTR_VALUE_MAX as u64 + 30_000;
    filer.set_property("tank", parse(Property::RefQuota, &quota.to_string()).unwrap()).unwrap();
    let value = noise(XATTR_VALUE_MAX, 7);
    let refused = objects.iter().position(|object| set(&*fs, *object, "user.a", &value) == Err(FsError::Quota));
    assert_eq!(refused, Some(10));
    filer.sync().unwrap();
    assert!(used(&filer) <= quota);
    // In the place of one that is as long.
    set(&*fs, objects[0], "user.a", &noise(XATTR_VALUE_MAX, 8)).unwrap();
    assert_eq!(set(&*fs, objects[0], "user.b", &value), Err(FsError::Quota));
    take(&*fs, objects[1], "user.a").unwrap();
    set(&*fs, objects[0], "user.b", &value).unwrap();
    filer.sync().unwrap();
    sound::sound(&filer).unwrap();
}

/// The smallest log that there may be.
#[test]
fn the_longest_fits_into_a_frame_of_the_smallest_log() {
    let world = World::new(64 * MIB, 2 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let object = file(&*fs, "file");
    let value = noise(XATTR_VALUE_MAX, 7);
    let before = filer.pool().txgs.last_synced();
    set(&*fs, object, &format!("user.{}", "n".repeat(250)), &value).unwrap();
    assert_eq!(filer.pool().txgs.last_synced(), before, "it is a record, and waits for no group");
    let (cut, report) = world.cut().import();
    assert_eq!(report.losses, Vec::<String>::new());
    assert!(get(&*vfs(&cut), object, &format!("user.{}", "n".repeat(250))) == Ok(value.to_vec()));
}

/// A replay took each for a record without content, and had a whole ring of them in memory before it synced a group.
#[test]
fn a_replay_has_no_more_of_them_in_memory_than_of_content() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create_without_threads(&CreateOptions::default());
    let fs = vfs(&filer);
    for number in 0..60 {
        let object = file(&*fs, &format!("file{number}"));
        set(&*fs, object, "user.long", &noise(60 << 10, number)).unwrap();
    }
    let before = filer.pool().txgs.last_synced();
    let tuning = Tuning { dirty_bytes_max: 1 << 20, ..Tuning::default() };
    let options = ImportOptions::default();
    let (filer, _) = world.cut().try_import_without_threads(&tuning, &options).expect("it was a pool");
    let groups = filer.pool().txgs.last_synced().0 - before.0;
    assert!(groups >= 6, "3.6 MB in {groups} groups of a quarter of a mebibyte");
}

/// In one record with what remembers it (rules V5).
#[test]
fn a_change_is_remembered_as_what_it_is() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let object = file(&*fs, "file");
    let mark = |operation| SlotMark { session: [7; 16], slot: 3, operation, sequence: 1, fingerprint: 77 };
    let cred = Cred::root();
    let asked = |at: u32| OpCtx { reply: Some(ReplyKey([at as u8; 40])), mark: Some(mark(at)), ..OpCtx::of(&cred) };
    done(fs.set_xattr(asked(1), object, b"user.a", b"v", SetXattr::Create)).unwrap();
    done(fs.remove_xattr(asked(2), object, b"user.a")).unwrap();
    assert_eq!(done(fs.remove_xattr(asked(3), object, b"user.a")), Err(FsError::NoXattr));
    let from_log = world.cut();
    filer.sync().unwrap();
    for disks in [from_log, world.cut()] {
        let fs = vfs(&disks.import().0);
        let told = Some(RememberedReply { object: Some(object) });
        for (at, told) in [(1, told), (2, told), (3, None)] {
            assert_eq!((fs.performed(&mark(at)), fs.remembered(&ReplyKey([at as u8; 40]))), (told, told), "{at}");
        }
    }
}

/// What is seen is what a model says, while groups come and go, the power too, and files with them. Lengths are drawn around the borders of parts.
#[test]
fn they_are_as_the_model_says_whatever_is_dirty() {
    for seed in 1..=6 {
        let world = World::new(64 * MIB, 16 * MIB);
        let mut filer = world.create_without_threads(&CreateOptions::default());
        let mut world = world;
        let model = Model::new(&ModelOptions::default());
        let mut dice = Dice(seed);
        let names = ["a", "b", "c"];
        for step in 0..150 {
            let fs = vfs(&filer);
            let name = names[dice.below(3) as usize];
            let both: [&dyn Vfs; 2] = [&*fs, &model];
            let lengths = [0, 1, 500, 30 * 1024, 30 * 1024 + 1, 60 * 1024, XATTR_VALUE_MAX as u64];
            let length = lengths[dice.below(7) as usize] as usize;
            let (xattr, value) = (format!("user.{}", dice.below(4)), noise(length, step));
            let how = [SetXattr::Either, SetXattr::Either, SetXattr::Create, SetXattr::Replace][dice.below(4) as usize];
            let what = dice.below(20);
            let told = both.map(|fs| {
                let cred = Cred::root();
                let found = fs.lookup(&cred, fs.root(), name.as_bytes()).map(|(attr, _)| attr.object);
                let Ok(object) = found else {
                    let how = CreateHow::Guarded(mode(0o644));
                    return patient_by_hand(&filer, || fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how))
                        .map(drop);
                };
                match what {
                    0..12 => {
                        patient_by_hand(&filer, || fs.set_xattr(ctx(&cred), object, xattr.as_bytes(), &value, how))
                    }
                    12..16 => patient_by_hand(&filer, || fs.remove_xattr(ctx(&cred), object, xattr.as_bytes())),
                    16 => patient_by_hand(&filer, || fs.remove(ctx(&cred), fs.root(), name.as_bytes())),
                    _ => Ok(()),
                }
            });
            assert_eq!(told[0], told[1], "seed {seed}, step {step}: {what} of {name} {xattr}");
            match what {
                17 => _ = filer.sync().unwrap(),
                18 => {
                    drop(fs);
                    world = world.cut();
                    let imported = world.try_import_without_threads(&Tuning::default(), &ImportOptions::default());
                    filer = imported.unwrap().0;
                }
                _ => {}
            }
            same::same(&*vfs(&filer), &model).unwrap_or_else(|what| panic!("seed {seed}, step {step}: {what}"));
        }
        synced(&filer);
        sound::sound(&filer).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

/// The leaves of extended attributes, as they lie on the data disk.
fn leaves(filer: &Filer) -> Vec<BlockPtr> {
    let (mut leaf, mut found) = (None, Vec::new());
    let dataset = filer.pool().datasets().into_iter().next().unwrap();
    dataset.root().tree.check(&filer.pool().io, &mut |visit| match visit {
        Visit::Block { bp, .. } => leaf = Some(*bp),
        Visit::Entry { key, .. } if key.class == Class::Xattr => {
            found.extend(leaf.filter(|leaf| !found.contains(leaf)))
        }
        _ => {}
    });
    found
}

/// Whoever wants one that cannot be read is told so. Others are not, what is asked for beside it is done, and the file can be removed.
#[test]
fn what_cannot_be_read_is_said_and_ends_nothing() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let [bad, other] = ["bad", "other"].map(|name| file(&*fs, name));
    set(&*fs, bad, "user.a", b"value").unwrap();
    synced(&filer);
    let found = leaves(&filer);
    assert_eq!(found.len(), 1);
    filer.export().unwrap();
    let world = world.cut();
    for place in found[0].dvas() {
        world.poke(DATA, LABEL + place.offset, &[0x55; 64]);
    }
    let (filer, _) = world.import();
    let (fs, cred) = (vfs(&filer), Cred::root());
    assert_eq!(get(&*fs, bad, "user.a"), Err(FsError::Io));
    assert_eq!(fs.list_xattrs(&cred, bad, 0), Err(FsError::Io));
    assert_eq!(set(&*fs, bad, "user.a", b"another"), Err(FsError::Io));
    assert_eq!(take(&*fs, bad, "user.a"), Err(FsError::Io));
    let places = filer.by_name("tank").unwrap().damage_report().places;
    let told: Vec<_> = places.into_iter().map(|place| (place.object, place.part, place.path)).collect();
    assert_eq!(told, [(bad.id, Part::Xattrs, Some("/bad".to_owned()))]);
    // Its inode says that there are none, so that nobody has to read that leaf.
    assert_eq!(get(&*fs, other, "user.a"), Err(FsError::NoXattr));
    set(&*fs, other, "user.a", b"of another").unwrap();
    done(fs.write(ctx(&cred), bad, 0, noise(10, 1), Stability::FileSync)).unwrap();
    for filer in [world.cut().import().0, filer] {
        let fs = vfs(&filer);
        synced(&filer);
        assert_eq!(get(&*fs, other, "user.a"), Ok(b"of another".to_vec()));
        assert_eq!(get(&*fs, bad, "user.a"), Err(FsError::Io));
        done(fs.remove(ctx(&cred), fs.root(), b"bad")).unwrap();
        synced(&filer);
        assert_eq!(get(&*fs, other, "user.a"), Ok(b"of another".to_vec()));
        assert!(filer.pool().fault().is_none());
        assert_eq!(filer.by_name("tank").unwrap().damage_report().places, []);
    }
}

/// A pool that is only read, or a dataset: whoever changes something is told so, and what is there is read.
#[test]
fn a_read_only_pool_shows_them() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let object = file(&*fs, "file");
    set(&*fs, object, "user.a", b"v").unwrap();
    filer.sync().unwrap();
    set(&*fs, object, "user.b", b"in the log").unwrap();
    let cut = world.cut();
    filer.set_property("tank", parse(Property::ReadOnly, "on").unwrap()).unwrap();
    let read_only = ImportOptions { read_only: true, ..ImportOptions::default() };
    let (looked, _) = cut.try_import(&read_only).unwrap();
    let looks: [(Arc<Filer>, _); 2] = [(filer, Ok(b"in the log".to_vec())), (looked, Err(FsError::NoXattr))];
    for (filer, in_log) in looks {
        let fs = vfs(&filer);
        assert_eq!(get(&*fs, object, "user.a"), Ok(b"v".to_vec()));
        let found = get(&*fs, object, "user.b");
        assert!(found == in_log || found == Ok(b"in the log".to_vec()), "{found:?}");
        assert_eq!(set(&*fs, object, "user.a", b"w"), Err(FsError::ReadOnly));
        assert_eq!(take(&*fs, object, "user.a"), Err(FsError::ReadOnly));
    }
}
