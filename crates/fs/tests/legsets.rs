//! A mirrored log, its lane and the labels: what is acknowledged rests on the legs that the labels name.

mod world;

use std::sync::atomic::Ordering::SeqCst;

use tally_fs::filer::Filer;
use tally_fs::vfs::{CreateHow, Cred, Vfs};
use tally_store::vdev::LegState;
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
