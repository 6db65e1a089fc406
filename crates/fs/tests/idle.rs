//! A dataset that nobody changes, beside one that is changed: its entry in the catalog is not written for many lives, and what
//! the log has of it must be replayed once, or not at all.
//!
//! Up to which group the log is in the trees stands in the pool's root, for all datasets (docs/design/0040). Were it too high, a
//! write that was acknowledged would be gone; were it too low, one that a later one without a record has replaced would
//! come back. So lives are strung together in every way that leaves records of an idle dataset in the ring: cut, exported, cut
//! in the middle of the replay, cut in an uberblock, so that the one before has to do.

mod world;

use tally_fs::filer::{CreateOptions, Filer, ImportOptions};
use tally_store::properties::PropertySet;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, ObjectRef, Stability, Vfs};
use world::{World, content, ctx, done, mode, noise, vfs};

const MIB: u64 = 1 << 20;

#[derive(Clone, Copy, Debug)]
enum Deed {
    Nothing,
    /// A write to the idle dataset that its record alone tells.
    Logged,
    /// The same, and records of the busy dataset, more than a replay of little memory takes in one group.
    LoggedAmongMany,
    /// One with a record, and behind it one that a group has and no record.
    Replaced,
    /// The same, and then a group of the busy dataset.
    ReplacedBefore,
    /// A group of the busy dataset.
    BusyGroup,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Cut,
    Export,
    CutInReplay,
    CutInUberblock,
}

const DEEDS: [Deed; 6] =
    [Deed::Nothing, Deed::Logged, Deed::LoggedAmongMany, Deed::Replaced, Deed::ReplacedBefore, Deed::BusyGroup];
const ENDS: [End; 4] = [End::Cut, End::Export, End::CutInReplay, End::CutInUberblock];

/// How often a cut fell where it was meant to.
#[derive(Debug, Default)]
struct Met {
    torn: u32,
    replays_cut: u32,
    replayed: u64,
}

fn write(fs: &dyn Vfs, file: ObjectRef, byte: u8, stability: Stability) {
    done(fs.write(ctx(&Cred::root()), file, 0, vec![byte; 4096].into(), stability)).unwrap();
}

fn import(world: &World) -> (std::sync::Arc<Filer>, u64) {
    let (filer, report) = world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
    assert_eq!(report.losses, Vec::<String>::new());
    (filer, report.records_replayed)
}

/// One life after the other; each begins with a look at what the idle dataset has.
fn live(world: &World, [busy, idle]: [ObjectRef; 2], lives: &[(Deed, End)], seed: u64, met: &mut Met) {
    let (mut world, mut expected) = (world.cut(), 1u8);
    for (at, (deed, end)) in lives.iter().enumerate() {
        let what = || format!("life {at} of {lives:?}, seed {seed}");
        let (filer, replayed) = import(&world);
        met.replayed += replayed;
        let (fs, idle_fs) = (vfs(&filer), filer.by_name("tank/idle").unwrap());
        assert!(content(&*idle_fs, idle) == vec![expected; 4096], "{}", what());
        if !matches!(deed, Deed::Nothing | Deed::BusyGroup) {
            expected += 1;
            write(&*idle_fs, idle, expected, Stability::FileSync);
        }
        if matches!(deed, Deed::LoggedAmongMany) {
            for _ in 0..40 {
                done(fs.write(ctx(&Cred::root()), busy, 0, noise(16 << 10, seed), Stability::FileSync)).unwrap();
            }
        }
        if matches!(deed, Deed::Replaced | Deed::ReplacedBefore) {
            expected += 1;
            write(&*idle_fs, idle, expected, Stability::Unstable);
            filer.sync().unwrap();
        }
        if matches!(deed, Deed::BusyGroup | Deed::ReplacedBefore) {
            write(&*fs, busy, expected, Stability::Unstable);
            filer.sync().unwrap();
        }
        world = match end {
            End::Cut => world.cut(),
            End::Export => {
                filer.export().unwrap();
                world.cut()
            }
            End::CutInReplay => {
                let cut = world.cut();
                let tuning = Tuning { dirty_bytes_max: 96 << 10, ..Tuning::default() };
                cut.lose_power_after((seed + at as u64) % 24);
                met.replays_cut +=
                    u32::from(cut.try_import_without_threads(&tuning, &ImportOptions::default()).is_err());
                cut.cut()
            }
            End::CutInUberblock => {
                write(&*fs, busy, expected, Stability::Unstable);
                world.lose_power_after(3 + (seed + at as u64) % 6);
                drop(filer.sync());
                let cut = world.cut();
                met.torn += u32::from(cut.tear_uberblock());
                cut
            }
        };
    }
    let (filer, _) = import(&world);
    let idle_fs = filer.by_name("tank/idle").unwrap();
    assert!(content(&*idle_fs, idle) == vec![expected; 4096], "end of {lives:?}, seed {seed}");
    filer.pool().check_catalog().unwrap();
}

#[test]
fn what_is_in_the_log_of_an_idle_dataset_is_replayed_once_or_not_at_all() {
    let world = World::new(16 * MIB, 4 * MIB);
    let filer = world.create_without_threads(&CreateOptions::default());
    filer.create_dataset("tank/idle", PropertySet::new(), (0, 0)).unwrap();
    let (fs, idle_fs) = (vfs(&filer), filer.by_name("tank/idle").unwrap());
    let how = CreateHow::Guarded(mode(0o600));
    let make = |fs: &dyn Vfs| done(fs.create(ctx(&Cred::root()), fs.root(), b"file", &how)).unwrap().object;
    let files = [make(&*fs), make(&*idle_fs)];
    write(&*idle_fs, files[1], 1, Stability::FileSync);
    let mut met = Met::default();
    let lives: Vec<_> = DEEDS.into_iter().flat_map(|deed| ENDS.map(|end| (deed, end))).collect();
    for (at, first) in lives.iter().enumerate() {
        for (and, second) in lives.iter().enumerate() {
            live(&world, files, &[*first, *second], (at * 7 + and) as u64, &mut met);
        }
    }
    for seed in 0..60u64 {
        let draw =
            |at: u64| lives[(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at * 7) & 0x7f) as usize % lives.len()];
        live(&world, files, &(0..6).map(draw).collect::<Vec<_>>(), seed, &mut met);
    }
    assert!(met.torn > 20 && met.replays_cut > 100 && met.replayed > 1000, "{met:?}");
}
