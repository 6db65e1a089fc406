//! What an import that was not clean changes for every dataset, also for one that nobody touches: its entry is not written
//! again, and all the same nothing may be told of it that belongs to a life whose data was lost.
//!
//! It was drawn in memory for each, and written into all entries by the first group of an import and the last of an export.
//! In a pool of ten thousand datasets these were four megabytes each, to say one thing.

mod world;

use std::sync::Arc;

use tally_base::{ObjectId, Time};
use tally_fs::filer::{Filer, ImportOptions};
use tally_store::properties::PropertySet;
use tally_store::tuning::Tuning;
use tally_vfs::{Attributes, Content, CreateHow, Cred, Identity, Names, ObjectRef, Stability, Vfs};
use world::{World, ctx, done, mode};

const MIB: u64 = 1 << 20;

fn import(world: &World) -> Arc<Filer> {
    world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap().0
}

fn create(fs: &dyn Vfs, name: &str) -> ObjectRef {
    done(fs.create(ctx(&Cred::root()), fs.root(), name.as_bytes(), &CreateHow::Guarded(mode(0o600)))).unwrap().object
}

fn write(fs: &dyn Vfs, file: ObjectRef) -> u64 {
    done(fs.write(ctx(&Cred::root()), file, 0, vec![1; 9000].into(), Stability::Unstable)).unwrap().verifier
}

fn commit(fs: &dyn Vfs, file: ObjectRef) -> u64 {
    done(fs.commit(ctx(&Cred::root()), file, 0, 0)).unwrap()
}

/// A client writes without stability, the power goes, and the client sleeps over a whole life that ends in good order: its
/// COMMIT must not be answered with the verifier of its WRITE.
#[test]
fn a_commit_after_a_life_in_which_its_dataset_was_idle_tells_of_the_loss() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create_without_threads(&Default::default());
    let fs = filer.create_dataset("tank/idle", PropertySet::new(), (0, 0)).unwrap();
    let file = create(&*fs, "file");
    filer.sync().unwrap();
    let written = write(&*fs, file);
    let world = world.cut();
    import(&world).export().unwrap();
    let filer = import(&world);
    let fs = filer.by_name("tank/idle").unwrap();
    assert_eq!(fs.getattr(file).unwrap().size, 0);
    assert_ne!(commit(&*fs, file), written, "what it wrote is gone");
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Export,
    Cut,
    /// Without a group behind the import's own.
    CutAtOnce,
}

/// What a client was told of a dataset in one life.
struct Told {
    life: usize,
    file: ObjectRef,
    verifier: u64,
    change: Time,
    /// Ids that were drawn, and lost if the power went.
    newest: ObjectId,
}

/// A look at a dataset: it changes, and parts of that are in no log and no group.
fn use_dataset(filer: &Filer, number: usize, life: usize) -> Told {
    let fs = filer.by_name(&name(number)).unwrap();
    let file = match fs.lookup(&Cred::root(), fs.root(), b"file") {
        Ok((attr, _)) => attr.object,
        Err(_) => create(&*fs, "file"),
    };
    let verifier = write(&*fs, file);
    let how = CreateHow::Guarded(mode(0o600));
    // Nobody waits for it, so no frame has it.
    let lost = fs.create(ctx(&Cred::root()), fs.root(), format!("lost {life}").as_bytes(), &how).result.unwrap();
    Told { life, file, verifier, change: fs.getattr(file).unwrap().change, newest: lost.object.id }
}

fn name(number: usize) -> String {
    format!("tank/d{number}")
}

/// Each dataset is used in one life and then again in the last: nothing is told of it that contradicts what was lost since.
#[test]
fn lives_of_every_kind_pass_over_datasets_that_are_idle() {
    use End::{Cut, CutAtOnce, Export};
    let ends = [
        vec![Cut, Export, Cut],
        vec![Export, Cut, Export],
        vec![CutAtOnce, CutAtOnce, Export],
        vec![Export, Export],
        vec![Cut, CutAtOnce, Cut, Export, Export, CutAtOnce],
    ];
    for ends in ends {
        let mut world = World::new(64 * MIB, 16 * MIB);
        let mut filer = world.create_without_threads(&Default::default());
        for number in 0..=ends.len() {
            filer.create_dataset(&name(number), PropertySet::new(), (0, 0)).unwrap();
        }
        let mut told = Vec::new();
        for (life, end) in ends.iter().enumerate() {
            let cut = match end {
                End::Export => {
                    told.push(use_dataset(&filer, life, life));
                    filer.export().unwrap();
                    world.cut()
                }
                End::Cut => {
                    filer.sync().unwrap();
                    told.push(use_dataset(&filer, life, life));
                    world.cut()
                }
                End::CutAtOnce => {
                    told.push(use_dataset(&filer, life, life));
                    world.cut()
                }
            };
            drop(filer);
            world = cut;
            filer = import(&world);
            assert_eq!(filer.pool().check_catalog(), Ok(()), "{ends:?}, life {life}");
        }
        for before in told {
            let what = format!("{ends:?}, of life {}", before.life);
            let fs = filer.by_name(&name(before.life)).unwrap();
            let shown = fs.getattr(before.file).unwrap().change;
            let now = use_dataset(&filer, before.life, ends.len());
            let is_whole = ends[before.life..].iter().all(|end| *end == End::Export);
            assert_eq!(
                now.verifier == before.verifier,
                is_whole,
                "{what}: the verifier tells whether anything was lost"
            );
            assert!(now.newest > before.newest, "{what}: {:?} comes again", before.newest);
            assert!(shown >= before.change && now.change > before.change, "{what}: a change that goes back");
        }
    }
}

/// The life is in each root of a replay, and an import that was cut short is none that anybody was served in.
#[test]
fn a_replay_that_is_cut_short_changes_nothing_that_was_told() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create_without_threads(&Default::default());
    let fs = filer.create_dataset("tank/idle", PropertySet::new(), (0, 0)).unwrap();
    let (idle, busy) = (create(&*fs, "file"), filer.by_name("tank").unwrap());
    filer.sync().unwrap();
    let written = write(&*fs, idle);
    for number in 0..100 {
        let file = create(&*busy, &format!("file {number}"));
        done(busy.write(ctx(&Cred::root()), file, 0, vec![2; 9000].into(), Stability::FileSync)).unwrap();
    }
    let crashed = world.cut();
    let tuning = Tuning { dirty_bytes_max: 512 << 10, ..Tuning::default() };
    for writes in (1..60).step_by(7) {
        let world = crashed.cut();
        world.lose_power_after(writes);
        drop(world.try_import_without_threads(&tuning, &ImportOptions::default()));
        let world = world.cut();
        let filer = import(&world);
        assert_eq!(filer.pool().check_catalog(), Ok(()), "after {writes} writes");
        filer.export().unwrap();
        let filer = import(&world);
        let fs = filer.by_name("tank/idle").unwrap();
        assert_ne!(commit(&*fs, idle), written, "after {writes} writes");
        assert!(create(&*fs, "another").id > idle.id);
        assert_eq!(filer.by_name("tank").unwrap().info().object_count, 102, "after {writes} writes");
    }
}
