//! A pool with so many datasets and properties that its root, which listed them all, was longer than what a block pointer may
//! claim: it was written, everything was answered OK, and no import could read it any more. Then commands were refused from
//! 8 MiB on. Now the root names a catalog, and lists none of them.

mod world;

use std::sync::Arc;

use tally_fs::filer::{DatasetError, Filer};
use tally_store::dataset::{Dataset, DatasetBirth, DatasetLine};
use tally_store::properties::{Property, PropertySet, UserProperty, Value, effective, parse};
use tally_store::tree::Tree;
use tally_vfs::{CreateHow, Cred, Stability};
use world::{World, ctx, mode, noise, patient, vfs};

const MIB: u64 = 1 << 20;
const MANY: u64 = 5000;

/// The longest property that there is.
fn long() -> Value {
    parse(Property::ShareNfs, &format!("rw={}", "client.example,".repeat(270).trim_end_matches(','))).unwrap()
}

fn local() -> PropertySet {
    PropertySet::from_iter([long()])
}

/// Adds so many empty datasets at once, as many commands would.
fn add_many(filer: &Filer, count: u64, local: &PropertySet) {
    let pool = filer.pool();
    let tank = filer.pool().datasets().remove(0);
    let added = pool.administer(|pool, _| {
        for number in 0..count {
            let birth = DatasetBirth { id: pool.draw_dataset_id(), ..tank.birth };
            let mut root = (*tank.root()).clone();
            (root.tree, root.object_count) = (Tree::empty(), 0);
            let line = DatasetLine {
                parent: tank.birth.id,
                name: format!("many-{number}"),
                local: local.clone(),
                carried: Default::default(),
            };
            let (name, in_force) = (format!("tank/{}", line.name), effective(&[&line.local]));
            pool.add_dataset(Arc::new(Dataset::new(birth, line, &name, in_force, root)));
        }
    });
    added.unwrap();
}

#[test]
fn more_than_a_block_holds_is_read_again() {
    let world = World::new(256 * MIB, 16 * MIB);
    let filer = world.create();
    // 20 MiB; a pointer claims 16 at most.
    add_many(&filer, MANY, &local());
    filer.create_dataset("tank/0", local(), (0, 0)).unwrap();
    filer.create_dataset("tank/1", PropertySet::new(), (0, 0)).unwrap();
    filer.set_property("tank", long()).unwrap();
    let (again, _) = world.cut().import();
    assert_eq!(again.datasets().len() as u64, MANY + 3, "all of it is read");
    let long_name = format!("tank/{}", "x".repeat(250));
    again.destroy_dataset("tank/0", false).unwrap();
    again.rename_dataset("tank/1", &long_name).unwrap();
    again.inherit_property("tank/many-7", Property::ShareNfs).unwrap();
}

/// Every command is durable when it has answered, whatever is cut behind it; and of the datasets around nothing changes.
#[test]
fn each_command_is_there_after_a_cut() {
    let mut world = World::new(256 * MIB, 16 * MIB);
    let filer = world.create();
    add_many(&filer, 200, &local());
    let is_long =
        |filer: &Filer, name: &str| filer.by_name(name).unwrap().info().local.value(Property::ShareNfs).is_some();
    drop(filer);
    type Step = (&'static str, fn(&Filer), fn(&Filer) -> bool);
    let steps: [Step; 5] = [
        (
            "create",
            |filer| drop(filer.create_dataset("tank/new", PropertySet::new(), (0, 0)).unwrap()),
            |filer| filer.by_name("tank/new").is_some(),
        ),
        (
            "set",
            |filer| filer.set_property("tank/new", long()).unwrap(),
            |filer| filer.by_name("tank/new").unwrap().info().local.value(Property::ShareNfs).is_some(),
        ),
        (
            "rename",
            |filer| filer.rename_dataset("tank/new", "tank/other").unwrap(),
            |filer| filer.by_name("tank/new").is_none() && filer.by_name("tank/other").is_some(),
        ),
        (
            "inherit",
            |filer| filer.inherit_property("tank/many-7", Property::ShareNfs).unwrap(),
            |filer| filer.by_name("tank/many-7").unwrap().info().local.value(Property::ShareNfs).is_none(),
        ),
        (
            "destroy",
            |filer| filer.destroy_dataset("tank/many-9", false).unwrap(),
            |filer| filer.by_name("tank/many-9").is_none(),
        ),
    ];
    for (what, command, is_done) in steps {
        let (filer, _) = world.import();
        assert!(!is_done(&filer), "{what}: not yet");
        command(&filer);
        let cut = world.cut();
        drop(filer);
        world = cut;
        let (filer, _) = world.import();
        assert!(is_done(&filer), "{what}");
        assert_eq!(filer.pool().check_catalog(), Ok(()), "{what}");
        assert!(is_long(&filer, "tank/many-100"), "{what}");
        world = world.cut();
    }
    let (filer, _) = world.import();
    assert_eq!(filer.datasets().len(), 1 + 200 + 1 - 1);
}

/// Hundreds of datasets of a small pool that was full were given long properties, which nobody admitted: they took what is kept to
/// remove things, and then a group had no room and the pool was suspended for good. Now that is refused in time. What is removed,
/// files or properties, brings room.
#[test]
fn long_properties_of_many_datasets_leave_room_to_remove_things() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    add_many(&filer, 800, &PropertySet::new());
    let (filer, _) = world.cut().import();
    let (fs, cred) = (vfs(&filer), Cred::root());
    let made = patient(|| fs.create(ctx(&cred), fs.root(), b"large", &CreateHow::Guarded(mode(0o644))));
    let (file, mut at) = (made.unwrap().object, 0);
    while patient(|| fs.write(ctx(&cred), file, at, noise(256 << 10, at), Stability::Unstable)).is_ok() {
        at += 256 << 10;
    }
    filer.sync().unwrap();
    let set = |number: u64| {
        let value: String = noise(3500, number).iter().map(|byte| format!("{byte:02x}")).collect();
        filer.set_user_property(&format!("tank/many-{number}"), UserProperty::new("user:notes", &value).unwrap())
    };
    let (refused, error) = (0..800).find_map(|number| Some((number, set(number).err()?))).expect("there is an end");
    assert!(refused > 0, "it needs no room that files have");
    let words = error.to_string();
    assert!(words.contains("many-") && words.contains("Remove files") && words.contains("inherit"), "{words}");
    filer.set_property("tank/many-0", long()).map_err(|error| error.to_string()).expect_err("it is as long");
    // Removing needs no more room than there is, of either kind.
    filer.inherit_user_property("tank/many-0", "user:notes").unwrap();
    patient(|| fs.remove(ctx(&cred), fs.root(), b"large")).unwrap();
    set(refused).unwrap();
    assert!(filer.pool().fault().is_none());
}

/// Clients brought as much as memory takes, group after group, and whoever gave a dataset long properties meanwhile was told that
/// the pool is full, and to remove files.
#[test]
fn where_memory_is_short_nobody_is_told_that_the_pool_is_full() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    filer.sync().unwrap();
    // What is alone is let in, and then nothing else is.
    let clients = filer.pool().txgs.admit(1 << 40, 0).unwrap();
    let refused = filer.set_property("tank", long()).unwrap_err();
    let words = refused.to_string();
    assert!(matches!(refused, DatasetError::Busy { .. }) && !words.contains("Remove files"), "{words}");
    assert!(words.contains("as they were") && words.contains("Set them again"), "{words}");
    assert!(filer.by_name("tank").unwrap().info().local.value(Property::ShareNfs).is_none());
    drop(clients);
    filer.set_property("tank", long()).unwrap();
}
