//! The log, its lane and the labels: what is acknowledged rests on the legs that the labels name, and on disks that have not
//! failed.

mod world;

use std::sync::atomic::Ordering::SeqCst;

use tally_base::Wait;
use tally_fs::filer::{CreateOptions, Filer, ImportOptions};
use tally_members::uberblock::slot_offsets;
use tally_members::vdev::LegState;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, Vfs};
use world::{World, ctx, done, mode, vfs};

const DATA: u64 = 16 << 20;
const LOG: u64 = 2 << 20;

fn mirrored_log() -> World {
    let disks = [("/disks/a", DATA), ("/disks/l", LOG), ("/disks/m", LOG)];
    World::of(&disks, "/disks/a log mirror /disks/l /disks/m")
}

fn make(fs: &dyn Vfs, name: &str) {
    let how = CreateHow::Guarded(mode(0o600));
    done(fs.create(ctx(&Cred::root()), fs.root(), name.as_bytes(), &how)).unwrap();
}

fn has(fs: &dyn Vfs, name: &str) -> bool {
    fs.lookup(&Cred::root(), fs.root(), name.as_bytes()).is_ok()
}

fn state(filer: &Filer, path: &str) -> LegState {
    let legs = filer.pool().roster.vdevs().iter().flat_map(|vdev| vdev.legs());
    legs.into_iter().find(|leg| leg.path().to_str() == Some(path)).expect("it is a disk of the pool").state()
}

/// Disk m refused one uberblock, and was struck off in the labels; nobody told the lane, which wrote to l and m as before.
/// Hours later l refused one frame. The labels named l alone, as the last leg of its lane it stayed there, and the lane
/// went on on m alone, with a generation that had risen by the first strike. After a power cut the import took l for the
/// leg that has everything, and m for stale: what had been acknowledged since was gone without a word.
#[test]
fn a_lane_does_not_go_on_on_a_leg_that_the_labels_have_struck_off() {
    for spare in [false, true] {
        let world = mirrored_log();
        let filer = world.create();
        let fs = vfs(&filer);
        make(&*fs, "before");
        world.faults("/disks/m").durable_writes.store(true, SeqCst);
        filer.sync().unwrap();
        world.faults("/disks/m").durable_writes.store(false, SeqCst);
        assert_eq!(state(&filer, "/disks/m"), LegState::Faulted);
        make(&*fs, "on what is left");
        world.faults("/disks/l").durable_writes.store(true, SeqCst);
        make(&*fs, "when l refused");
        world.faults("/disks/l").durable_writes.store(spare, SeqCst);
        let names: Vec<_> = (0..10).map(|number| format!("acknowledged {number}")).collect();
        names.iter().for_each(|name| make(&*fs, name));
        let (after, report) = world.cut().import();
        assert!(report.losses.is_empty(), "{:?}", report.losses);
        for name in ["before", "on what is left", "when l refused"].into_iter().chain(names.iter().map(String::as_str))
        {
            assert!(has(&*vfs(&after), name), "{name}");
        }
    }
}

/// The ring lay in the pool. A frame's durable write failed and took the disk's cache along, the lane ended and asked for a
/// group, whose flush found nothing to do: what had been placed ahead was named by an uberblock, and gone.
#[test]
fn a_group_does_not_rest_on_a_disk_that_has_failed_a_frame() {
    let world = World::without_log(DATA);
    let filer = world.create_without_threads(&CreateOptions::default());
    filer.sync().unwrap();
    let fs = vfs(&filer);
    world.faults("/disks/data").durable_writes.store(true, SeqCst);
    let how = CreateHow::Guarded(mode(0o600));
    let outcome = fs.create(ctx(&Cred::root()), fs.root(), b"x", &how);
    let Wait::On(promise) = &outcome.wait else { panic!("nothing was written yet") };
    let _fate = promise.drive();
    world.faults("/disks/data").durable_writes.store(false, SeqCst);
    assert!(filer.pool().lanes().iter().all(|lane| lane.has_ended()));
    filer.sync().unwrap_err();
    assert!(outcome.wait.block().is_err(), "and nobody is told that it is durable");
    assert!(filer.pool().fault().is_some());
}

/// The first uberblock after an import began a new life of the ring; frames followed and were acknowledged. Both copies of
/// that uberblock were lost: rot, or a disk that lied. The next import took the one before, looked for the life that it
/// names, found nothing, and served without a word.
#[test]
fn the_frames_of_a_newer_life_refuse_a_rolled_back_uberblock() {
    for exported in [false, true] {
        let disks = [("/disks/data", DATA), ("/disks/slog", LOG)];
        let world = World::of(&disks, "/disks/data log /disks/slog");
        let filer = world.create_without_threads(&CreateOptions::default());
        filer.sync().unwrap();
        filer.sync().unwrap();
        if exported {
            filer.export().unwrap();
        }
        let world = world.cut();
        let (filer, _) = world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
        make(&*vfs(&filer), "acknowledged");
        let world = world.cut();
        let newest = filer.pool().txgs.last_synced();
        for (path, size) in disks {
            for offset in slot_offsets(size, newest).into_iter().flatten() {
                world.poke(path, offset, &[0; 4096]);
            }
        }
        let refused = world.try_import(&ImportOptions::default()).err().expect("what it began was acknowledged");
        assert!(refused.to_string().contains(&format!("tells of txg {newest}")), "{refused}");
    }
}

/// A log record that nobody waits for was never written, kept its room, and in the end every operation was refused for
/// ever, however many groups were synced.
#[test]
fn records_that_nobody_waits_for_do_not_fill_the_ring() {
    let disks = [("/disks/data", 4 * DATA), ("/disks/slog", LOG)];
    let world = World::of(&disks, "/disks/data log /disks/slog");
    let filer = world.create_without_threads(&CreateOptions::default());
    let fs = vfs(&filer);
    let how = CreateHow::Guarded(mode(0o600));
    for number in 0..20_000 {
        let name = format!("f{number}");
        let mut refusals = 0;
        while let Err(error) = fs.create(ctx(&Cred::root()), fs.root(), name.as_bytes(), &how).result {
            assert_eq!(error, FsError::Throttled, "{name}");
            refusals += 1;
            assert!(refusals <= 4, "{name} is refused for ever: {:?}", filer.pool().lanes()[0].stats());
            filer.sync().unwrap();
        }
    }
    let pending = || filer.pool().lanes().iter().map(|lane| lane.stats().pending_count).sum::<u64>();
    filer.sync().unwrap();
    assert_eq!(pending(), 0, "they are written with their group");
}
