//! A pool with so many datasets and properties that its root, which lists them all, was longer than what a block pointer may
//! claim: it was written, everything was answered OK, and no import could read it any more.

mod world;

use std::sync::Arc;

use tally_fs::filer::{DatasetError, Filer};
use tally_store::dataset::{Dataset, DatasetBirth, DatasetLine};
use tally_store::pool::{ROOT_BYTES_MAX, SyncError};
use tally_store::properties::{Property, PropertySet, Value, effective, parse};
use tally_store::tree::Tree;
use world::World;

const MIB: u64 = 1 << 20;

/// The longest property that there is.
fn long() -> Value {
    parse(Property::ShareNfs, &format!("rw={}", "client.example,".repeat(270).trim_end_matches(','))).unwrap()
}

fn line(name: String) -> DatasetLine {
    DatasetLine { name, local: PropertySet::from_iter([long()]) }
}

/// Adds so many empty datasets at once, as many commands would.
fn add_many(filer: &Filer, count: u64) -> Result<(), SyncError> {
    let pool = filer.pool();
    let tank = filer.pool().datasets().remove(0);
    let bytes = count * line("tank/many-1000".into()).root_bytes();
    pool.administer_more(bytes, |pool, _| {
        for number in 0..count {
            let birth = DatasetBirth { id: pool.draw_dataset_id(), ..tank.birth };
            let mut root = (*tank.root()).clone();
            root.tree = Tree::empty();
            let line = line(format!("tank/many-{number}"));
            let in_force = effective(&[&line.local]);
            pool.add_dataset(Arc::new(Dataset::new(birth, line, in_force, root)));
        }
    })
}

#[test]
fn a_root_that_could_not_be_read_is_not_written() {
    let world = World::new(256 * MIB, 16 * MIB);
    let filer = world.create();
    // More than 16 MiB, which no import can read.
    let refused = add_many(&filer, 5000).unwrap_err();
    assert!(matches!(refused, SyncError::RootFull { bytes } if bytes > 16 * MIB), "{refused}");
    assert!(refused.to_string().contains("destroy datasets"), "{refused}");
    assert_eq!(filer.pool().datasets().len(), 1, "nothing was done");
    let nearly = ROOT_BYTES_MAX / line("tank/many-1000".into()).root_bytes() - 8;
    add_many(&filer, nearly).unwrap();
    let is_full = |result: Result<(), DatasetError>| {
        let full = matches!(result, Err(DatasetError::Sync(SyncError::RootFull { .. })));
        assert!(full || result.is_ok(), "{result:?}");
        full
    };
    let create = |name: &str| filer.create_dataset(name, line(name.into()).local, (0, 0)).map(drop);
    let made = (0..100).take_while(|number| !is_full(create(&format!("tank/{number}")))).count();
    assert!((1..20).contains(&made), "{made}");
    let long_name = format!("tank/{}", "x".repeat(250));
    assert!(is_full(filer.set_property("tank", long())));
    filer.sync().unwrap();
    let (again, _) = world.cut().import();
    assert_eq!(again.datasets().len() as u64, 1 + nearly + made as u64, "all of it is read");
    // The way out is open.
    again.destroy_dataset("tank/0", false).unwrap();
    again.rename_dataset("tank/1", &long_name).unwrap();
    again.inherit_property(&long_name, Property::ShareNfs).unwrap();
}
