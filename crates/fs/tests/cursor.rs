//! A scrub whose dataset goes: it goes on behind it (rules S12). And one whose disk fails before it has kept what it was given (rules S7).

mod world;

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Barrier};

use bytes::Bytes;
use tally_base::DatasetId;
use tally_fs::filer::{CreateOptions, Filer, ImportOptions};
use tally_members::label::LABEL_BYTES;
use tally_members::vdev::LegState;
use tally_store::bp::BlockPtr;
use tally_store::key::Class;
use tally_store::pool::{Cursor, JobState, SecureError, SpaceFound};
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tree::Visit;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, Identity, Stability, Vfs};
use world::{Event, Patient, World, content, ctx, member, mode, patient};

const DISK: u64 = 32 << 20;
const A: &str = "/disks/a";
const B: &str = "/disks/b";
/// In blocks of 4 KiB: several leaves of pointers, between which a cursor can stand.
const LENGTH: usize = 3 << 20;
/// Small, so that it does.
const STRETCH_BYTES: u64 = 512 << 10;
/// In the order of their ids, which is the one in which a scrub goes.
const DATASETS: [&str; 3] = ["tank", "tank/doomed", "tank/behind"];

/// Bytes that cannot be compressed, others for each seed.
fn noise(seed: u8) -> Bytes {
    let mut state = u64::from(seed) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as u8
    };
    (0..LENGTH).map(|_| next()).collect()
}

fn import(world: &World) -> Arc<Filer> {
    let tuning = Tuning { scrub_stretch_bytes: STRETCH_BYTES, ..Tuning::default() };
    world.try_import_with(&tuning, &ImportOptions::default()).unwrap().0
}

/// A mirror with a long file in each of three datasets, of which one disk has rotted in every block of theirs.
fn rotten() -> (World, Arc<Filer>) {
    let world = rotten_disks(true);
    let filer = import(&world);
    (world, filer)
}

/// The same, put away; or only the content has rotted.
fn rotten_disks(with_trees: bool) -> World {
    let world = World::of(&[(A, DISK), (B, DISK)], "mirror /disks/a /disks/b");
    let properties = PropertySet::from_iter([parse(Property::RecordSize, "4K").unwrap()]);
    let filer = world.create_with(&CreateOptions { properties, ..CreateOptions::default() });
    let cred = Cred::root();
    for (seed, name) in DATASETS.into_iter().enumerate() {
        if name.contains('/') {
            filer.create_dataset(name, PropertySet::new(), (0, 0)).unwrap();
        }
        let fs: Arc<dyn Vfs> = filer.by_name(name).unwrap();
        let how = CreateHow::Guarded(mode(0o600));
        let file = patient(|| fs.create(ctx(&cred), fs.root(), b"file", &how)).unwrap().object;
        let data = noise(seed as u8);
        patient(|| fs.write(ctx(&cred), file, 0, data.clone(), Stability::FileSync)).unwrap();
    }
    filer.sync().unwrap();
    let places: Vec<_> = DATASETS.iter().flat_map(|name| places(&filer, name, with_trees)).collect();
    filer.export().unwrap();
    for place in places {
        world.poke(A, place, &[0x5a; 16]);
    }
    world
}

/// Where on a disk the blocks of a dataset lie.
fn places(filer: &Filer, name: &str, with_trees: bool) -> Vec<u64> {
    let pool = filer.pool();
    let dataset = pool.dataset(id(filer, name)).unwrap();
    let mut places = Vec::new();
    dataset.root().tree.check(&pool.io, &mut |visit| match visit {
        Visit::Block { bp, .. } if with_trees => places.push(LABEL_BYTES + bp.dva.offset),
        Visit::Entry { key, value } if key.class == Class::Extent => {
            places.push(LABEL_BYTES + BlockPtr::decode(value.try_into().unwrap()).unwrap().dva.offset);
        }
        Visit::Block { .. } | Visit::Entry { .. } => {}
        Visit::Damage { error, .. } => panic!("{error}"),
    });
    places
}

fn id(filer: &Filer, name: &str) -> DatasetId {
    filer.by_name(name).unwrap().dataset()
}

/// In the middle of a dataset's content.
fn is_within(cursor: Option<Cursor>, dataset: DatasetId) -> bool {
    cursor.is_some_and(|cursor| cursor.dataset == dataset && cursor.key.class == Class::Extent)
}

/// The disk that had rotted has everything of these datasets by itself.
fn check_alone(mut world: World, filer: Arc<Filer>, names: &[&str]) {
    filer.export().unwrap();
    drop(filer);
    world.take(&[B]);
    let filer = import(&world);
    for (seed, name) in DATASETS.into_iter().enumerate().filter(|(_, name)| names.contains(name)) {
        let fs: Arc<dyn Vfs> = filer.by_name(name).unwrap();
        let (attr, _) = fs.lookup(&Cred::root(), fs.root(), b"file").unwrap();
        assert!(content(&*fs, attr.object) == noise(seed as u8), "{name}");
    }
}

/// A dataset is destroyed when the scrub is in the middle of it. What is left of it is not missed, and all behind it is looked at.
#[test]
fn a_dataset_that_is_destroyed_under_a_scrub_is_left_behind() {
    let (world, filer) = rotten();
    let doomed = id(&filer, "tank/doomed");
    let mut is_gone = false;
    let report = filer.scrub(&mut |_| {
        let cursor = filer.pool().scrub_job().unwrap().cursor;
        if is_within(cursor, doomed) && !std::mem::replace(&mut is_gone, true) {
            filer.destroy_dataset("tank/doomed", false).unwrap();
            filer.sync().unwrap();
        }
        true
    });
    let report = report.unwrap();
    assert!(is_gone, "the scrub was never in the middle of it");
    assert_eq!((report.lost_count, report.unread_count), (0, 0), "{report:?}");
    assert_eq!(report.space, Some(SpaceFound::default()), "what the dataset gave back is no leak, and nobody's twice");
    check_alone(world, filer, &[DATASETS[0], DATASETS[2]]);
}

/// The same while the scrub is paused, over a power cut. The next part finds that dataset gone and begins with the one behind it: not
/// anew, and not at the end.
#[test]
fn a_dataset_that_is_destroyed_while_its_scrub_is_paused_is_left_behind() {
    let (world, filer) = rotten();
    let doomed = id(&filer, "tank/doomed");
    let stopped = filer.scrub(&mut |_| !is_within(filer.pool().scrub_job().unwrap().cursor, doomed));
    assert!(matches!(stopped, Err(SecureError::Stopped)), "{stopped:?}");
    assert!(filer.pool().pause_scrub());
    filer.sync().unwrap();
    filer.destroy_dataset("tank/doomed", false).unwrap();
    filer.sync().unwrap();
    let world = world.cut();
    let filer = import(&world);
    let job = filer.pool().scrub_job().unwrap();
    assert!(job.state == JobState::Paused && is_within(job.cursor, doomed), "{job:?}");
    let (mut least, mut first) = (u64::MAX, None);
    let report = filer.scrub(&mut |done| {
        least = least.min(done);
        let cursor = filer.pool().scrub_job().unwrap().cursor;
        if !is_within(cursor, doomed) {
            first.get_or_insert(cursor.unwrap());
        }
        true
    });
    let report = report.unwrap();
    assert_eq!((report.lost_count, report.unread_count), (0, 0), "{report:?}");
    assert!(least >= job.report.checked_bytes, "it begins at its cursor: {least}, {job:?}");
    assert_eq!(first.map(|cursor| cursor.dataset), Some(id(&filer, "tank/behind")), "it goes on with the next one");
    assert_eq!(filer.pool().scrub_job().map(|job| job.state), Some(JobState::Finished));
    check_alone(world, filer, &[DATASETS[0], DATASETS[2]]);
}

/// A scrub has given a disk what had rotted there, and the disk fails with all of that in its cache: in the flush of the group that takes along how
/// far the scrub is, or before. Pulled, it comes back without that, behind the cursor; and nobody looked there again.
#[test]
fn what_a_scrub_has_given_a_disk_that_fails_it_is_given_when_it_comes_back() {
    for (goes_on, is_put_away) in [(false, false), (true, false), (true, true)] {
        let about = format!("goes on {goes_on}, put away {is_put_away}");
        let (world, filer) = rotten();
        let (before, faults) = (world.content_of(A), world.faults(A));
        world.start_journal();
        let (middle, mut is_gone) = (id(&filer, "tank/doomed"), false);
        let scrubbed = filer.scrub(&mut |_| {
            if is_within(filer.pool().scrub_job().unwrap().cursor, middle) && !std::mem::replace(&mut is_gone, true) {
                if is_put_away {
                    filer.pool().take_offline(&member(&filer, A), true, &mut Patient).unwrap();
                }
                faults.flushes.store(true, SeqCst);
                filer.sync().unwrap();
            }
            goes_on || !is_gone
        });
        assert_eq!(scrubbed.is_ok(), goes_on, "{about}: {scrubbed:?}");
        assert_ne!(filer.pool().state_of(member(&filer, A).leg), Some(LegState::Online), "{about}");
        let lost = world.pull(A, before, &world.end_journal());
        assert!(lost as u64 >= STRETCH_BYTES, "{about}: {lost} bytes of repairs were in the cache");
        faults.all(false);
        let copied = filer.pool().take_back(&member(&filer, A), &mut Patient).unwrap();
        assert!(copied.is_partial && copied.is_whole(), "{about}: {copied:?}");
        if !goes_on {
            filer.scrub(&mut |_| true).unwrap();
        }
        // Where it went on nobody has looked at the disk behind the place where that failed.
        check_alone(world, filer, if goes_on { &DATASETS[..1] } else { &DATASETS });
    }
}

/// A disk refused what a scrub wanted to give it, and nothing else was in its cache: the block was as rotten as before when it came back.
#[test]
fn what_a_disk_refuses_of_a_scrub_it_is_given_when_it_comes_back() {
    let (world, filer) = rotten();
    let (faults, leg) = (world.faults(A), member(&filer, A).leg);
    let middle = id(&filer, "tank/doomed");
    let mut refuses = None;
    filer
        .scrub(&mut |_| {
            if is_within(filer.pool().scrub_job().unwrap().cursor, middle) && refuses.is_none() {
                // What it was given before is durable.
                (0..2).for_each(|_| _ = filer.sync().unwrap());
                refuses = Some(filer.pool().txgs.last_synced());
                faults.writes.store(true, SeqCst);
            }
            true
        })
        .unwrap();
    assert_ne!(filer.pool().state_of(leg), Some(LegState::Online));
    let missed = filer.pool().roster.missed(leg);
    assert!(missed.ranges()[0].from < refuses.unwrap(), "{missed:?} begins behind {refuses:?}");
    faults.all(false);
    let copied = filer.pool().take_back(&member(&filer, A), &mut Patient).unwrap();
    assert!(copied.is_partial && copied.is_whole(), "{copied:?}");
    filer.scrub(&mut |_| true).unwrap();
    check_alone(world, filer, &DATASETS);
}

/// A scrub was at a disk's block when that disk was put away, and gave it the block all the same. Pulled, it came back without that, and neither the
/// scrub nor the labels knew of it.
#[test]
fn what_a_scrub_gives_a_disk_that_is_put_away_meanwhile_it_is_given_when_it_comes_back() {
    // Of trees the walk's own reads repair what is wrong.
    let world = rotten_disks(false);
    let tuning = Tuning { scrub_stretch_bytes: STRETCH_BYTES, ..Tuning::default() };
    let (filer, _) = world.try_import_without_threads(&tuning, &ImportOptions::default()).unwrap();
    let (faults, place, mut has_waited) = (world.faults(A), member(&filer, A), false);
    // The group that a scrub begins with is written by then, and nothing of the content was looked at.
    let meet = Barrier::new(2);
    let mut wait = || {
        if !std::mem::replace(&mut has_waited, true) {
            meet.wait();
            meet.wait();
        }
        true
    };
    let before = std::thread::scope(|scope| {
        let scrub = scope.spawn(|| filer.scrub(&mut |_| wait()));
        meet.wait();
        let (before, held) = (world.content_of(A), faults.writes_held.write().unwrap());
        world.start_journal();
        meet.wait();
        while faults.writes_waited.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        filer.pool().take_offline(&place, true, &mut Patient).unwrap();
        drop(held);
        scrub.join().unwrap().unwrap();
        before
    });
    let events = world.end_journal();
    let given = events.iter().find_map(|event| match event {
        Event::Write { disk, offset, bytes, .. } if disk == A => Some((*offset as usize, bytes.clone())),
        _ => None,
    });
    let (offset, given) = given.expect("the disk was given a block");
    world.pull(A, before, &events);
    let copied = filer.pool().take_back(&place, &mut Patient).unwrap();
    assert!(copied.is_partial && copied.is_whole(), "{copied:?}");
    assert!(world.content_of(A)[offset..][..given.len()] == given, "it lacks what the scrub gave it at {offset}");
}
