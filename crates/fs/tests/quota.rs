//! `quota`: what a dataset may take together with all below it.

mod world;

use std::sync::Arc;

use tally_fs::Filer;
use tally_fs::filer::{CreateOptions, DatasetError, ImportOptions};
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tuning::Tuning;
use tally_vfs::{Attributes, Content, CreateHow, Cred, FsError, Identity, Names, ObjectRef, Stability};
use world::{World, ctx, done, mode, noise, patient};

const MIB: u64 = 1 << 20;
const RECORD: usize = 128 << 10;

fn pool(world: &World, names: &[&str]) -> Arc<Filer> {
    let filer = world.create_with(&CreateOptions::default());
    for name in names {
        filer.create_dataset(name, PropertySet::new(), (0, 0)).unwrap();
    }
    filer
}

fn set(filer: &Filer, name: &str, property: Property, value: &str) {
    filer.set_property(name, parse(property, value).unwrap()).unwrap();
}

fn create(filer: &Filer, dataset: &str, name: &str) -> Result<ObjectRef, FsError> {
    let fs = filer.by_name(dataset).unwrap();
    let how = CreateHow::Guarded(mode(0o644));
    patient(|| fs.create(ctx(&Cred::root()), fs.root(), name.as_bytes(), &how)).map(|attr| attr.object)
}

/// Writes records until there is no room, and gives their number.
fn fill(filer: &Filer, dataset: &str, name: &str) -> u64 {
    let fs = filer.by_name(dataset).unwrap();
    let file = match create(filer, dataset, name) {
        Ok(file) => file,
        Err(FsError::Quota) => return 0,
        Err(error) => panic!("{error}"),
    };
    for number in 0..1000 {
        let (at, data) = (number * RECORD as u64, noise(RECORD, number));
        match patient(|| fs.write(ctx(&Cred::root()), file, at, data.clone(), Stability::FileSync)) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, FsError::Quota, "the pool has room");
                return number;
            }
        }
    }
    panic!("nobody has said no");
}

fn remove(filer: &Filer, dataset: &str, name: &str) {
    let fs = filer.by_name(dataset).unwrap();
    patient(|| fs.remove(ctx(&Cred::root()), fs.root(), name.as_bytes())).unwrap();
}

fn free_bytes(filer: &Filer, dataset: &str) -> u64 {
    filer.by_name(dataset).unwrap().statfs().unwrap().free_bytes
}

/// The sums of a subtree, as its datasets say it themselves.
fn used_below(filer: &Filer, top: &str) -> u64 {
    filer.sync().unwrap();
    filer.names().subtree(top).iter().map(|named| named.filesystem.used_bytes()).sum()
}

#[test]
fn a_quota_bounds_what_is_below_together() {
    let world = World::new(128 * MIB, 32 * MIB);
    let filer = pool(&world, &["tank/home", "tank/home/ann", "tank/home/bob", "tank/other"]);
    set(&filer, "tank/home", Property::Quota, "8M");
    let anns = fill(&filer, "tank/home/ann", "large");
    assert!(anns >= 60 && anns * RECORD as u64 <= 8 * MIB, "{anns} records");
    assert_eq!(fill(&filer, "tank/home/bob", "none"), 0, "ann has it all");
    assert_eq!(fill(&filer, "tank/home", "none"), 0);
    assert!(used_below(&filer, "tank/home") <= 8 * MIB);
    assert!(free_bytes(&filer, "tank/home/bob") < MIB && free_bytes(&filer, "tank/other") > 20 * MIB);
    // Who is not below it is not bound by it.
    let other = create(&filer, "tank/other", "file").unwrap();
    let fs = filer.by_name("tank/other").unwrap();
    let written = patient(|| fs.write(ctx(&Cred::root()), other, 0, noise(RECORD, 1), Stability::FileSync));
    assert!(written.is_ok(), "{written:?}");
    // What one gives back the other may take, at once.
    remove(&filer, "tank/home/ann", "large");
    assert!(fill(&filer, "tank/home/bob", "large") >= anns - 4);
    // The narrowest bound counts, and a wider one lets in what was refused.
    set(&filer, "tank/home", Property::Quota, "16M");
    set(&filer, "tank/home/ann", Property::RefQuota, "2M");
    assert!((10..16).contains(&fill(&filer, "tank/home/ann", "again")));
    // It may be set below what is used: then nothing grows, and everything can go.
    set(&filer, "tank/home", Property::Quota, "1M");
    assert_eq!(create(&filer, "tank/home/bob", "more"), Err(FsError::Quota));
    remove(&filer, "tank/home/bob", "large");
}

/// A power cut, a clean import, a rename and a destruction leave the sums of what is there.
#[test]
fn the_sums_are_those_of_the_datasets() {
    let world = World::new(128 * MIB, 32 * MIB);
    let filer = pool(&world, &["tank/home", "tank/home/ann", "tank/home/ann/deep", "tank/work"]);
    set(&filer, "tank/home", Property::Quota, "8M");
    set(&filer, "tank/work", Property::Quota, "4M");
    let first = fill(&filer, "tank/home/ann/deep", "large");
    // What the log brings back is counted, and asks nobody.
    let (cut, _) = world.cut().import();
    assert_eq!(used_below(&cut, "tank/home"), used_below(&filer, "tank/home"));
    assert_eq!(fill(&cut, "tank/home", "none"), 0);
    remove(&cut, "tank/home/ann/deep", "large");
    assert!(fill(&cut, "tank/home", "more") >= first - 4);
    // There is no room for all that in the other subtree, and the sentence says where.
    let refused = filer.rename_dataset("tank/home/ann", "tank/work/ann").unwrap_err();
    assert!(matches!(refused, DatasetError::OverQuota { .. }), "{refused}");
    assert!(refused.to_string().contains("'tank/work' may hold 4M"), "{refused}");
    // Within its own subtree it may move, as nothing grows there.
    filer.rename_dataset("tank/home/ann", "tank/home/eve").unwrap();
    assert_eq!(fill(&filer, "tank/home/eve", "none"), 0);
    set(&filer, "tank/work", Property::Quota, "12M");
    filer.rename_dataset("tank/home/eve", "tank/work/eve").unwrap();
    // Where it was there is room again, and where it is now it counts.
    assert!(fill(&filer, "tank/home", "large") >= first - 4);
    let rest = fill(&filer, "tank/work", "rest");
    assert!((24..=36).contains(&rest), "{rest} records beside those of eve");
    assert!(used_below(&filer, "tank/work") <= 12 * MIB);
    filer.destroy_dataset("tank/work/eve", true).unwrap();
    assert!(fill(&filer, "tank/work", "all") >= first - 4);
}

/// A dataset below a full one was refused for its directory in that one, with a sentence about mounting; where the directory
/// was there already, it was made, and as many of them as anybody liked passed the quota by their roots.
#[test]
fn a_dataset_is_not_made_where_a_quota_above_has_no_room_for_it() {
    let world = World::new(128 * MIB, 32 * MIB);
    let filer = pool(&world, &["tank/home", "tank/home/ann"]);
    let ann = filer.by_name("tank/home/ann").unwrap();
    for name in [&b"there"[..], b"later"] {
        patient(|| ann.mkdir(ctx(&Cred::root()), ann.root(), name, &mode(0o755))).unwrap();
    }
    set(&filer, "tank/home", Property::Quota, "4M");
    fill(&filer, "tank/home/ann", "large");
    set(&filer, "tank/home", Property::Quota, "2M");
    for name in ["tank/home/bob", "tank/home/ann/there", "tank/home/ann/new"] {
        for refused in [filer.check_new(name), filer.create_dataset(name, PropertySet::new(), (0, 0)).map(drop)] {
            let refused = refused.unwrap_err();
            assert!(matches!(refused, DatasetError::OverQuota { .. }), "{name}: {refused}");
            assert!(refused.to_string().contains("'tank/home' may hold 2M"), "{name}: {refused}");
        }
    }
    assert!(matches!(filer.check_new("tank/home/ann/there/deep"), Err(DatasetError::OverQuota { .. })));
    filer.create_dataset("tank/other", PropertySet::new(), (0, 0)).unwrap();
    // What is given back makes room at once, though its group is not synced.
    remove(&filer, "tank/home/ann", "large");
    filer.create_dataset("tank/home/ann/there", PropertySet::new(), (0, 0)).unwrap();
}

/// A pool that nobody used looked, behind each group and for each watcher, at all of its datasets for one in which something was still
/// being freed. The sum at the top says that, wherever it is, is moved to, and however it ends.
#[test]
fn whether_anything_is_still_being_freed_is_known_at_the_top() {
    let world = World::new(128 * MIB, 32 * MIB);
    drop(pool(&world, &["tank/a", "tank/a/b", "tank/c"]));
    let tuning = Tuning { reap_extents_max: 1, ..Tuning::default() };
    let (filer, _) = world.cut().try_import_without_threads(&tuning, &ImportOptions::default()).unwrap();
    let is_freeing = || {
        let any = filer.pool().datasets().iter().any(|dataset| dataset.root().orphan_count > 0);
        assert_eq!(filer.has_orphans(), any);
        any
    };
    let (fs, cred) = (filer.by_name("tank/a/b").unwrap(), Cred::root());
    let made = done(fs.create(ctx(&cred), fs.root(), b"large", &CreateHow::Guarded(mode(0o644)))).unwrap();
    for at in 0..40 {
        done(fs.write(ctx(&cred), made.object, at * RECORD as u64, noise(RECORD, at), Stability::Unstable)).unwrap();
    }
    filer.sync().unwrap();
    assert!(!is_freeing());
    done(fs.remove(ctx(&cred), fs.root(), b"large")).unwrap();
    filer.sync().unwrap();
    assert!(is_freeing());
    filer.rename_dataset("tank/a", "tank/c/a").unwrap();
    assert!(is_freeing(), "a group frees one record here");
    filer.destroy_dataset("tank/c/a", true).unwrap();
    assert!(!is_freeing());
}
