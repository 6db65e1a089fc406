//! What happens at the borders: read-only imports, exports under load, commands that are cut short, full pools.

mod world;

use std::sync::{Arc, Mutex};

use tally_base::Txg;
use tally_fs::filer::{CreateOptions, ImportOptions};
use tally_store::block::BlockError;
use tally_store::dataset::{Dataset, DatasetClient, DatasetRoot, DatasetWriter};
use tally_store::properties::{Property, PropertySet, parse};
use tally_vfs::{Attributes, Content, CreateHow, Cred, FsError, Identity, Names, Replies, Stability};
use world::{World, content, ctx, done, mode, noise, patient, vfs};

const MIB: u64 = 1 << 20;

#[test]
fn a_pool_that_is_only_read_refuses_every_change_and_survives_it() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let cred = Cred::root();
    let file = {
        let fs = vfs(&filer);
        done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap()
    };
    let options = ImportOptions { read_only: true, ..ImportOptions::default() };
    let (looked_at, _) = world.cut().try_import(&options).unwrap();
    let fs = vfs(&looked_at);
    for stability in [Stability::Unstable, Stability::DataSync, Stability::FileSync] {
        let written = fs.write(ctx(&cred), file.object, 0, noise(300_000, 1), stability);
        assert_eq!(done(written).unwrap_err(), FsError::ReadOnly);
    }
    assert_eq!(done(fs.commit(ctx(&cred), file.object, 0, 0)).unwrap_err(), FsError::ReadOnly);
    assert_eq!(done(fs.remove(ctx(&cred), fs.root(), b"file")).unwrap_err(), FsError::ReadOnly);
    assert!(looked_at.set_property("tank", parse(Property::Sync, "disabled").unwrap()).is_err());
    assert!(looked_at.datasets()[0].local.is_empty(), "a command that failed changed nothing");
    assert_eq!(fs.getattr(file.object).unwrap().size, 0);
}

#[test]
fn nothing_is_synced_after_an_export() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let cred = Cred::root();
    let fs = vfs(&filer);
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap();
    let written = done(fs.write(ctx(&cred), file.object, 0, noise(9000, 1), Stability::Unstable)).unwrap();
    filer.export().unwrap();
    // The txg thread may have been on its way to a sync while the export had the lock; and a command may come late.
    assert!(filer.sync().is_err(), "the pool may be somebody else's by now");
    assert!(filer.create_dataset("tank/late", PropertySet::new(), (0, 0)).is_err());
    assert!(filer.set_property("tank", parse(Property::Sync, "always").unwrap()).is_err());
    let (again, report) = world.cut().import();
    assert!(report.was_clean, "{report:?}");
    let verifier = done(vfs(&again).commit(ctx(&cred), file.object, 0, 0)).unwrap();
    assert_eq!(verifier, written.verifier, "nothing was lost, so the verifier stays");
}

#[test]
fn who_waits_while_the_pool_is_exported_is_answered() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let next = filer.pool().txgs.next_sync();
    filer.export().unwrap();
    let after = filer.pool().txgs.promise(filer.pool().txgs.open());
    // Whatever the answers are, they must come.
    let _ = next.block();
    assert!(after.block().is_err());
}

#[test]
fn a_dataset_that_says_standard_logs_even_if_its_root_says_otherwise() {
    let world = World::new(64 * MIB, 16 * MIB);
    let mut properties = PropertySet::new();
    properties.set(parse(Property::Sync, "disabled").unwrap());
    let filer = world.create_with(&CreateOptions { properties, ..CreateOptions::default() });
    // A rename below another parent changes what is inherited, and the pool may stop before that is put in force.
    let dataset = filer.pool().dataset(vfs(&filer).dataset()).unwrap();
    dataset.change_line(|line| {
        line.local.set(parse(Property::Sync, "standard").unwrap());
    });
    filer.sync().unwrap();
    let (standard, _) = world.cut().import();
    drop(standard);
    let cut = world.cut();
    let (standard, _) = cut.import();
    let cred = Cred::root();
    let fs = vfs(&standard);
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap();
    done(fs.write(ctx(&cred), file.object, 0, noise(5000, 1), Stability::FileSync)).unwrap();
    let (after, _) = cut.cut().import();
    assert_eq!(content(&*vfs(&after), file.object), &noise(5000, 1)[..], "it was acknowledged as stable");
}

#[test]
fn a_destroyed_dataset_leaves_no_block_behind() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let allocated = |filer: &tally_fs::Filer| {
        for _ in 0..4 {
            filer.sync().unwrap();
        }
        filer.pool().io.allocator().space().allocated
    };
    let before = allocated(&filer);
    let doomed = filer.create_dataset("tank/doomed", PropertySet::new(), (0, 0)).unwrap();
    let cred = Cred::root();
    let file = done(doomed.create(ctx(&cred), doomed.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap();
    done(doomed.write(ctx(&cred), file.object, 0, noise(4 * MIB as usize, 1), Stability::Unstable)).unwrap();
    filer.destroy_dataset("tank/doomed", false).unwrap();
    // Somebody was on the way in all the time.
    let _ = doomed.write(ctx(&cred), file.object, 0, noise(4 * MIB as usize, 2), Stability::Unstable);
    let _ = done(doomed.setattr(ctx(&cred), file.object, &mode(0o644), None));
    let after = allocated(&filer);
    assert!(after < before + MIB, "{} bytes are leaked", after - before);
    assert_eq!(filer.pool().io.allocator().bad_free_count(), 0);
    let _ = done(doomed.setattr(ctx(&cred), file.object, &mode(0o600), None));
    let (_, report) = world.cut().import();
    assert_eq!(report.losses, Vec::<String>::new(), "nobody misses records of a dataset that was destroyed");
}

#[test]
fn destroying_a_dataset_does_not_read_its_files() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let doomed = filer.create_dataset("tank/doomed", PropertySet::new(), (0, 0)).unwrap();
    let cred = Cred::root();
    for number in 0..2000u32 {
        let name = format!("file {number}");
        let how = CreateHow::Guarded(mode(0o600));
        let file = patient(|| doomed.create(ctx(&cred), doomed.root(), name.as_bytes(), &how)).unwrap();
        let data = noise(4096, u64::from(number));
        patient(|| doomed.write(ctx(&cred), file.object, 0, data.clone(), Stability::FileSync)).unwrap();
    }
    let large =
        patient(|| doomed.create(ctx(&cred), doomed.root(), b"large", &CreateHow::Guarded(mode(0o600)))).unwrap();
    patient(|| doomed.write(ctx(&cred), large.object, 0, noise(MIB as usize, 7), Stability::Unstable)).unwrap();
    let allocated = || {
        for _ in 0..4 {
            filer.sync().unwrap();
        }
        filer.pool().io.allocator().space().allocated
    };
    let before = allocated();
    let io = &filer.pool().io;
    io.drop_cache();
    let read = io.stats().read_bytes;
    filer.destroy_dataset("tank/doomed", false).unwrap();
    let read = io.stats().read_bytes - read;
    assert!(read < MIB / 2, "{read} bytes were read to give 9 MiB up");
    assert!(allocated() < before - 9 * MIB);
    assert_eq!(io.allocator().bad_free_count(), 0);
}

#[test]
fn ids_that_were_lost_in_a_crash_are_not_drawn_again() {
    let world = World::new(64 * MIB, 16 * MIB);
    let mut properties = PropertySet::new();
    properties.set(parse(Property::Sync, "disabled").unwrap());
    let filer = world.create_with(&CreateOptions { properties, ..CreateOptions::default() });
    let cut = world.cut();
    let cred = Cred::root();
    let fs = vfs(&filer);
    let lost = done(fs.create(ctx(&cred), fs.root(), b"lost", &CreateHow::Guarded(mode(0o600)))).unwrap();
    let (after, _) = cut.import();
    let fs = vfs(&after);
    let made = done(fs.create(ctx(&cred), fs.root(), b"made", &CreateHow::Guarded(mode(0o600)))).unwrap();
    assert!(made.object.id > lost.object.id, "{made:?} after {lost:?}");
}

#[test]
fn a_failure_on_an_object_that_has_just_gone_waits_for_its_removal() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let dir = done(fs.mkdir(ctx(&cred), fs.root(), b"dir", &mode(0o755))).unwrap().object;
    let going = fs.rmdir(ctx(&cred), fs.root(), b"dir");
    let create = fs.create(ctx(&cred), dir, b"file", &CreateHow::Guarded(mode(0o600)));
    let remove = fs.remove(ctx(&cred), dir, b"file");
    let rename = fs.rename(ctx(&cred), fs.root(), b"x", dir, b"y");
    assert_eq!((create.result.unwrap_err(), remove.result), (FsError::Stale, Err(FsError::Stale)));
    assert!(rename.result.is_err());
    for wait in [create.wait, remove.wait, rename.wait] {
        assert!(!world::is_ready(&wait), "STALE must not be told before the RMDIR is durable");
    }
    done(going).unwrap();
}

#[test]
fn what_is_stable_only_under_disabled_counts_as_exposed() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap();
    filer.set_property("tank", parse(Property::Sync, "disabled").unwrap()).unwrap();
    assert_eq!(filer.exposure().0, 0);
    done(fs.write(ctx(&cred), file.object, 0, noise(5000, 1), Stability::FileSync)).unwrap();
    assert!(filer.exposure().0 >= 5000, "the client was told FILE_SYNC");
    filer.sync().unwrap();
    assert_eq!(filer.exposure().0, 0);
    done(fs.write(ctx(&cred), file.object, 0, noise(5000, 2), Stability::Unstable)).unwrap();
    assert_eq!(filer.exposure().0, 0, "nothing was promised");
    done(fs.commit(ctx(&cred), file.object, 0, 0)).unwrap();
    assert!(filer.exposure().0 >= 5000, "now it was");
}

/// A clock that stands still until it is told the time.
struct ToldTime(std::sync::atomic::AtomicU64);

impl tally_base::Clock for ToldTime {
    fn now(&self) -> tally_base::Time {
        tally_base::Time(self.0.load(std::sync::atomic::Ordering::SeqCst) * 1_000_000_000)
    }

    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }
}

#[test]
fn the_age_of_the_exposure_is_that_of_the_oldest_change_that_is_not_synced() {
    let clock = Arc::new(ToldTime(1000.into()));
    let tell = |seconds| clock.0.store(seconds, std::sync::atomic::Ordering::SeqCst);
    let world = World::new(64 * MIB, 16 * MIB).with_clock(Arc::clone(&clock) as _);
    let mut properties = PropertySet::new();
    properties.set(parse(Property::Sync, "disabled").unwrap());
    let filer = world.create_without_threads(&CreateOptions { properties, ..CreateOptions::default() });
    let fs = vfs(&filer);
    let cred = Cred::root();
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap();
    let seconds = || filer.exposure().1.as_secs();
    let writes = |seed| done(fs.write(ctx(&cred), file.object, 0, noise(5000, seed), Stability::FileSync)).unwrap();
    tell(1007);
    assert_eq!(seconds(), 7, "since the CREATE");
    // Somebody always writes: while a group is being synced the next one is dirty already.
    for round in 0..5u64 {
        let pool = filer.pool();
        let synced = pool.administer(|_, txg| txg).unwrap();
        tell(1010 + 10 * round);
        assert_eq!(seconds(), 0, "round {round}: all up to group {synced} is durable");
        writes(round);
        tell(1013 + 10 * round);
        assert_eq!(seconds(), 3, "round {round}");
        let hook = Arc::clone(&fs);
        let between = Arc::new(Between(Mutex::new(Some(Box::new(move || {
            let cred = Cred::root();
            done(hook.setattr(ctx(&cred), file.object, &mode(0o640), None)).unwrap();
        })))));
        let id = add_client(&filer, &(Arc::clone(&between) as Arc<dyn DatasetClient>), round);
        // The sync that makes the new dataset durable runs the hook, and with it a change of the next group, before it ends.
        tell(1015 + 10 * round);
        assert_eq!(seconds(), 2, "round {round}: the change that came in while {id} was synced");
    }
}

/// Somebody who does something in the middle of a sync, once.
struct Between(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl DatasetClient for Between {
    fn fold(&self, _: Txg, root: &DatasetRoot, _: DatasetWriter<'_>) -> Result<DatasetRoot, BlockError> {
        if let Some(act) = self.0.lock().unwrap().take() {
            act();
        }
        Ok(root.clone())
    }

    fn synced(&self, _: Txg) {}
}

/// Adds a dataset that `client` fills; it is durable when this returns.
fn add_client(filer: &tally_fs::Filer, client: &Arc<dyn DatasetClient>, number: u64) -> tally_base::DatasetId {
    let pool = filer.pool();
    let tank = pool.dataset(vfs(filer).dataset()).unwrap();
    let birth = tally_store::dataset::DatasetBirth { id: pool.draw_dataset_id(), ..tank.birth };
    let mut root = (*tank.root()).clone();
    root.tree = tally_store::tree::Tree::empty();
    let name = format!("other{number}");
    let line = tally_store::dataset::DatasetLine { parent: tank.birth.id, name, ..tank.line() };
    let name = format!("tank/{}", line.name);
    let dataset = Arc::new(Dataset::new(birth, line, &name, (*tank.effective()).clone(), root));
    dataset.attach(Arc::downgrade(client));
    pool.administer(|pool, _| pool.add_dataset(dataset)).unwrap();
    birth.id
}

#[test]
fn small_changes_all_over_a_nearly_full_pool_never_suspend_it() {
    let world = World::new(128 * MIB, 64 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let record = 128 << 10;
    let file = done(fs.create(ctx(&cred), fs.root(), b"image", &CreateHow::Guarded(mode(0o600)))).unwrap().object;
    let mut records = 0u64;
    while patient(|| fs.write(ctx(&cred), file, records * record, noise(record as usize, records), Stability::FileSync))
        .is_ok()
    {
        records += 1;
    }
    assert!(records > 500, "{records}");
    // Make a little room, so that there is something to be let in.
    let size = tally_vfs::SetAttr { size: Some((records - 150) * record), ..Default::default() };
    done(fs.setattr(ctx(&cred), file, &size, None)).unwrap();
    for _ in 0..4 {
        filer.sync().unwrap();
    }
    let mut written = 0;
    for at in 0..records - 150 {
        let result = patient(|| fs.write(ctx(&cred), file, at * record + 5000, noise(100, at), Stability::FileSync));
        match result {
            Ok(_) => written += 1,
            Err(error) => assert_eq!(error, FsError::NoSpace),
        }
    }
    filer.sync().expect("what was acknowledged can be folded");
    assert!(written > 0);
    let (after, _) = world.cut().import();
    assert_eq!(vfs(&after).getattr(file).unwrap().size, (records - 150) * record);
}

#[test]
fn a_commit_on_a_nearly_full_pool_is_kept() {
    let world = World::new(64 * MIB, 32 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    for number in 0..200u32 {
        let name = format!("f{number}");
        let made = patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &CreateHow::Guarded(mode(0o600))));
        let Ok(file) = made else { break };
        // No whole record: it stays in memory until it is committed.
        let data = noise(600_000, u64::from(number));
        let mut at = 0;
        while at < data.len() {
            let part = data.slice(at..data.len().min(at + 100_000));
            if patient(|| fs.write(ctx(&cred), file.object, at as u64, part.clone(), Stability::Unstable)).is_err() {
                break;
            }
            at += part.len();
        }
        let _ = patient(|| fs.commit(ctx(&cred), file.object, 0, 0));
    }
    filer.sync().expect("what was acknowledged can be folded");
}

#[test]
fn a_record_of_a_destroyed_dataset_that_was_written_late_is_no_loss() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let doomed = filer.create_dataset("tank/doomed", PropertySet::new(), (0, 0)).unwrap();
    // Nobody waits for it, so the lane gathers it until somebody waits for a later one.
    let _nobody_waits = doomed.mkdir(ctx(&cred), doomed.root(), b"dir", &mode(0o755));
    filer.destroy_dataset("tank/doomed", false).unwrap();
    for _ in 0..4 {
        filer.sync().unwrap();
    }
    done(fs.mkdir(ctx(&cred), fs.root(), b"kept", &mode(0o755))).unwrap();
    let (after, report) = world.cut().import();
    assert_eq!(report.losses, Vec::<String>::new());
    assert!(vfs(&after).lookup(&cred, fs.root(), b"kept").is_ok());
}

/// A dataset's client with a bug.
struct Panics(std::sync::atomic::AtomicBool);

impl DatasetClient for Panics {
    fn fold(&self, _: Txg, root: &DatasetRoot, _: DatasetWriter<'_>) -> Result<DatasetRoot, BlockError> {
        assert!(!self.0.load(std::sync::atomic::Ordering::SeqCst), "a bug, for this test");
        Ok(root.clone())
    }

    fn synced(&self, _: Txg) {}
}

/// A clock that panics when it is asked for the `n`-th time from now on.
struct PanicsAt(std::sync::atomic::AtomicU64);

impl PanicsAt {
    fn tick(&self) {
        let before = self.0.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        assert!(before != 1, "asked once too often");
    }
}

impl tally_base::Clock for PanicsAt {
    fn now(&self) -> tally_base::Time {
        self.tick();
        tally_base::Time::new(1_000_000, 0)
    }

    fn monotonic(&self) -> std::time::Duration {
        self.tick();
        std::time::Duration::from_secs(1)
    }
}

/// A bug in the middle of a change costs its request alone, or so it was said: the log had its record, and memory half of
/// it. The next group took the half for the whole, and what the log knew was trimmed.
#[test]
fn a_change_that_panicked_half_way_is_all_there_or_not_at_all() {
    let mut suspended = 0;
    for number in 1..12 {
        let clock = Arc::new(PanicsAt(u64::MAX.into()));
        let world = World::new(64 * MIB, 16 * MIB).with_clock(Arc::clone(&clock) as _);
        let filer = world.create_without_threads(&CreateOptions::default());
        filer.sync().unwrap();
        let (fs, cred) = (vfs(&filer), Cred::root());
        let context = tally_vfs::OpCtx { reply: Some(tally_vfs::ReplyKey([7; 40])), ..tally_vfs::OpCtx::of(&cred) };
        clock.0.store(number, std::sync::atomic::Ordering::SeqCst);
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drop(fs.mkdir(context, fs.root(), b"dir", &mode(0o755)));
        }));
        clock.0.store(u64::MAX, std::sync::atomic::Ordering::SeqCst);
        if filer.pool().fault().is_some() {
            assert!(made.is_err());
            assert!(filer.sync().is_err(), "nothing is built upon it");
            suspended += 1;
            continue;
        }
        let in_memory = fs.lookup(&cred, fs.root(), b"dir").is_ok();
        filer.sync().unwrap();
        let (after, _) = world.cut().import();
        let on_disk = vfs(&after).lookup(&cred, fs.root(), b"dir").is_ok();
        let remembered =
            |filer: &tally_fs::Filer| filer.by_name("tank").unwrap().remembered(&context.reply.unwrap()).is_some();
        assert_eq!((in_memory, remembered(&filer)), (on_disk, remembered(&after)), "the {number}th look at the clock");
        assert_eq!(in_memory, remembered(&filer), "the {number}th look at the clock: the change and its answer");
    }
    assert!(suspended > 0, "no panic came between append and apply");
}

#[test]
fn nothing_becomes_durable_above_a_group_whose_sync_panicked() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let pool = filer.pool();
    let tank = pool.dataset(fs.dataset()).unwrap();
    let birth = tally_store::dataset::DatasetBirth { id: pool.draw_dataset_id(), ..tank.birth };
    let mut root = (*tank.root()).clone();
    root.tree = tally_store::tree::Tree::empty();
    let line = tally_store::dataset::DatasetLine { parent: tank.birth.id, name: "buggy".into(), ..tank.line() };
    let buggy = Arc::new(Dataset::new(birth, line, "tank/buggy", (*tank.effective()).clone(), root));
    let client = Arc::new(Panics(false.into()));
    let weak: std::sync::Weak<Panics> = Arc::downgrade(&client);
    buggy.attach(weak);
    pool.administer(|pool, _| pool.add_dataset(buggy)).unwrap();
    done(fs.mkdir(ctx(&cred), fs.root(), b"acknowledged", &mode(0o755))).unwrap();
    client.0.store(true, std::sync::atomic::Ordering::SeqCst);
    let sync = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| filer.sync().map(drop)));
    assert!(!matches!(sync, Ok(Ok(()))), "it panicked, or the timer's sync did before");
    client.0.store(false, std::sync::atomic::Ordering::SeqCst);
    assert!(filer.sync().is_err(), "the group that was lost from memory is still in the log, and must stay there");
    let (after, _) = world.cut().import();
    assert!(vfs(&after).lookup(&cred, fs.root(), b"acknowledged").is_ok());
}
