//! A log device that is gone at the import, in every shape a pool can have, and the ways out.

mod world;

use std::sync::Arc;

use tally_fs::filer::{Filer, FilerError, ImportOptions};
use tally_fs::inspect::FsWords;
use tally_members::discover::ImportSource;
use tally_store::inspect::{Plan, inspect};
use tally_store::properties::PropertySet;
use tally_vfs::{CreateHow, Cred, FsError, SetAttr, Stability, Vfs};
use world::{World, content, ctx, done, mode, vfs};

const MIB: u64 = 1 << 20;
const ACCEPT: ImportOptions = ImportOptions { force: false, read_only: false, accept_loss: true, destroyed: false };
const READ_ONLY: ImportOptions = ImportOptions { force: false, read_only: true, accept_loss: false, destroyed: false };

/// A pool, and the log disks of which it has lost every leg of one lane.
struct Case {
    disks: &'static [(&'static str, u64)],
    vdevs: &'static str,
    gone: &'static [&'static str],
    /// Lanes that are left.
    lanes_left: usize,
}

const CASES: [Case; 3] = [
    Case {
        disks: &[("/disks/data", 16 * MIB), ("/disks/slog", 2 * MIB)],
        vdevs: "/disks/data log /disks/slog",
        gone: &["/disks/slog"],
        lanes_left: 0,
    },
    Case {
        disks: &[("/disks/data", 16 * MIB), ("/disks/l1", 2 * MIB), ("/disks/l2", 2 * MIB)],
        vdevs: "/disks/data log mirror /disks/l1 /disks/l2",
        gone: &["/disks/l1", "/disks/l2"],
        lanes_left: 0,
    },
    Case {
        disks: &[("/disks/data", 16 * MIB), ("/disks/l1", 2 * MIB), ("/disks/l2", 2 * MIB)],
        vdevs: "/disks/data log /disks/l1 log /disks/l2",
        gone: &["/disks/l1"],
        lanes_left: 1,
    },
];

impl Case {
    /// A pool with datasets on every lane, each with one file in the pool and one in the log only, cut.
    fn crashed(&self) -> World {
        let world = World::of(self.disks, self.vdevs);
        let filer = world.create();
        for number in 0..8 {
            filer.create_dataset(&dataset(number), PropertySet::new(), (0, 0)).unwrap();
        }
        for filesystem in all(&filer) {
            make(&*filesystem, b"old");
        }
        filer.sync().unwrap();
        for filesystem in all(&filer) {
            make(&*filesystem, b"new");
        }
        world.cut()
    }
}

fn dataset(number: u32) -> String {
    format!("tank/d{number}")
}

fn all(filer: &Filer) -> Vec<Arc<dyn Vfs>> {
    let names = std::iter::once("tank".to_owned()).chain((0..8).map(dataset));
    names.map(|name| filer.by_name(&name).expect("it was made") as Arc<dyn Vfs>).collect()
}

fn make(fs: &dyn Vfs, name: &[u8]) {
    let cred = Cred::root();
    let how = CreateHow::Guarded(mode(0o600));
    let file = done(fs.create(ctx(&cred), fs.root(), name, &how)).unwrap().object;
    done(fs.write(ctx(&cred), file, 0, name.to_vec().into(), Stability::FileSync)).unwrap();
}

fn has(fs: &dyn Vfs, name: &[u8]) -> bool {
    match fs.lookup(&Cred::root(), fs.root(), name) {
        Ok((attr, _)) => {
            assert_eq!(content(fs, attr.object), name, "a file that is there is whole");
            true
        }
        Err(FsError::NotFound) => false,
        Err(other) => panic!("{other:?}"),
    }
}

fn verifier(fs: &dyn Vfs) -> u64 {
    done(fs.commit(ctx(&Cred::root()), fs.lookup(&Cred::root(), fs.root(), b"old").unwrap().0.object, 0, 0)).unwrap()
}

#[test]
fn without_a_log_device_the_import_is_refused_and_names_it_and_the_ways_out() {
    for case in &CASES {
        let mut world = case.crashed();
        world.take(case.gone);
        let before = world.cut();
        let refusal = world.try_import(&ImportOptions::default()).err().expect("it is refused").to_string();
        for words in case.gone.iter().chain(&["tank/d", "bring", "--accept-loss", "--readonly"]) {
            assert!(refusal.contains(words), "{words:?} is not said: {refusal}");
        }
        assert!(world.is_same(&before), "a refused import changes nothing");
    }
}

#[test]
fn without_a_log_device_it_can_be_looked_at() {
    for case in &CASES {
        let mut world = case.crashed();
        world.take(case.gone);
        let before = world.cut();
        let (filer, report) = world.try_import(&READ_ONLY).unwrap();
        assert_eq!(report.losses.len(), 1, "{:?}", report.losses);
        assert!(all(&filer).iter().all(|fs| has(&**fs, b"old")));
        let cred = Cred::root();
        let fs = vfs(&filer);
        assert_eq!(done(fs.mkdir(ctx(&cred), fs.root(), b"x", &mode(0o700))).unwrap_err(), FsError::ReadOnly);
        assert!(world.is_same(&before), "looking changes nothing");
    }
}

#[test]
fn with_the_loss_accepted_the_pool_serves_and_no_longer_needs_the_device() {
    for case in &CASES {
        let mut world = case.crashed();
        world.take(case.gone);
        let (filer, report) = world.try_import(&ACCEPT).unwrap();
        assert_eq!(report.losses.len(), 1, "{:?}", report.losses);
        assert_eq!(filer.pool().lanes().len(), case.lanes_left);
        let kept = all(&filer).iter().filter(|fs| has(&***fs, b"new")).count();
        assert_eq!(kept > 0, case.lanes_left > 0, "datasets on other lanes lose nothing; {kept} kept");
        assert!(kept < 9, "what was only on the device is gone");
        for fs in all(&filer) {
            assert!(has(&*fs, b"old"));
            make(&*fs, b"later");
        }
        // A crash, and no word about the loss: nothing more is missing.
        let world = world.cut();
        let (filer, report) = world.import();
        assert!(report.losses.is_empty(), "{:?}", report.losses);
        assert!(all(&filer).iter().all(|fs| has(&**fs, b"later")), "it was acknowledged");
        for fs in all(&filer) {
            make(&*fs, b"last");
        }
        filer.export().unwrap();
        let (filer, report) = world.import();
        assert!(report.was_clean && report.losses.is_empty());
        assert!(all(&filer).iter().all(|fs| has(&**fs, b"last")));
    }
}

#[test]
fn a_device_that_comes_back_in_time_has_everything() {
    for case in &CASES {
        let mut world = case.crashed();
        let gone = world.take(case.gone);
        world.try_import(&ImportOptions::default()).err().expect("it is refused");
        drop(world.try_import(&READ_ONLY).unwrap());
        world.put(gone);
        let (filer, report) = world.import();
        assert!(report.losses.is_empty());
        assert!(all(&filer).iter().all(|fs| has(&**fs, b"new")));
    }
}

/// The device still has frames that say of themselves that they are the newest. The loss was accepted: what followed was
/// built on a pool without them.
#[test]
fn a_device_that_comes_back_too_late_is_not_replayed() {
    for case in &CASES {
        let mut world = case.crashed();
        let gone = world.take(case.gone);
        let (filer, _) = world.try_import(&ACCEPT).unwrap();
        let lost: Vec<bool> = all(&filer).iter().map(|fs| !has(&**fs, b"new")).collect();
        for fs in all(&filer) {
            make(&*fs, b"later");
        }
        let mut world = world.cut();
        world.put(gone);
        let (filer, report) = world.import();
        assert!(report.losses.is_empty(), "{:?}", report.losses);
        for (fs, lost) in all(&filer).iter().zip(&lost) {
            assert!(has(&**fs, b"later"));
            assert_eq!(!has(&**fs, b"new"), *lost);
        }
        let lanes = filer.pool().lanes().len();
        assert_eq!(lanes, filer.pool().roster.config().lanes.len(), "and it takes part in the log again");
        for fs in all(&filer) {
            make(&*fs, b"last");
        }
        let (filer, _) = world.cut().import();
        assert!(all(&filer).iter().all(|fs| has(&**fs, b"last")));
    }
}

#[test]
fn after_an_accepted_loss_clients_send_their_unstable_data_again() {
    let mut world = CASES[0].crashed();
    let (filer, _) = world.cut().import();
    let before = verifier(&*vfs(&filer));
    world.take(CASES[0].gone);
    let (filer, _) = world.try_import(&ACCEPT).unwrap();
    let after = verifier(&*vfs(&filer));
    assert_ne!(before, after);
    assert_ne!(after, {
        filer.sync().unwrap();
        verifier(&*vfs(&world.cut().import().0))
    });
}

/// Each point of the import at which the power can go: the loss is accepted as a whole with one uberblock, or not at all, and
/// until then the device would still bring everything back.
#[test]
fn a_crash_while_a_loss_is_accepted_is_decided_again() {
    for case in &CASES {
        let mut crashed = case.crashed();
        let gone = crashed.take(case.gone);
        let mut seen = [false; 2];
        for writes in 0.. {
            let world = crashed.cut();
            world.lose_power_after(writes);
            let outcome = world.try_import(&ACCEPT);
            let mut world = world.cut();
            match world.try_import(&ImportOptions::default()) {
                Ok((filer, report)) => {
                    assert!(report.losses.is_empty());
                    assert!(all(&filer).iter().all(|fs| has(&**fs, b"old")));
                    seen[1] = true;
                }
                Err(refusal) => {
                    assert!(refusal.to_string().contains("--accept-loss"), "after {writes} writes: {refusal}");
                    let copies = gone.iter().map(|(path, disk)| (path.clone(), World::copy(disk)));
                    world.put(copies.collect());
                    let (filer, report) = world.import();
                    assert!(report.losses.is_empty(), "after {writes} writes: {:?}", report.losses);
                    assert!(all(&filer).iter().all(|fs| has(&**fs, b"new")), "after {writes} writes");
                    seen[0] = true;
                }
            }
            if outcome.is_ok() {
                break;
            }
        }
        assert_eq!(seen, [true; 2], "the power goes both before and after the decision");
    }
}

#[test]
fn after_a_clean_export_a_missing_log_device_costs_nothing() {
    for case in &CASES {
        let mut world = case.crashed();
        let (filer, _) = world.import();
        let before = verifier(&*vfs(&filer));
        filer.export().unwrap();
        world.take(case.gone);
        let (filer, report) = world.import();
        assert!(report.was_clean && report.losses.is_empty(), "{:?}", report.losses);
        let said =
            report.remarks.iter().any(|remark| remark.contains(case.gone[0]) && remark.contains("nothing is lost"));
        assert!(said, "{:?}", report.remarks);
        assert!(all(&filer).iter().all(|fs| has(&**fs, b"new")));
        assert_eq!(before, verifier(&*vfs(&filer)), "a clean export keeps the verifier");
        make(&*vfs(&filer), b"later");
        let (filer, _) = world.cut().import();
        assert!(has(&*vfs(&filer), b"later"));
    }
}

#[test]
fn an_accepted_loss_is_on_record() {
    let mut world = CASES[0].crashed();
    world.take(CASES[0].gone);
    let (filer, _) = world.try_import(&ACCEPT).unwrap();
    filer.export().unwrap();
    let (filer, report) = world.import();
    assert!(report.losses.is_empty());
    let on_record = filer.pool().roster.config().supplement.losses;
    assert_eq!(on_record.len(), 1);
    assert!(on_record[0].lines[0].contains("/disks/slog"), "{on_record:?}");
    filer.export().unwrap();
    let mut facts = Vec::new();
    let source = ImportSource { paths: vec!["/disks/data".into()], dirs: vec![] };
    let opener = world.platform().opener;
    inspect(&*opener, &source, &Plan::default(), &FsWords, &mut |fact| facts.push(fact.to_string())).unwrap();
    let says = |words: &str| assert!(facts.iter().any(|fact| fact.contains(words)), "{words}: {facts:#?}");
    says("accepted loss time=");
    says("the log device /disks/slog is missing");
    says("the uberblock does not name it");
}

#[test]
fn a_new_log_device_takes_the_place_of_the_missing_one() {
    for case in &CASES {
        let mut world = case.crashed();
        world.take(case.gone);
        let (filer, _) = world.try_import(&ACCEPT).unwrap();
        let cred = Cred::root();
        for fs in all(&filer) {
            make(&*fs, b"without");
        }
        let missing = filer.pool().roster.config().lanes[0].lane;
        world.replace_log(&filer, missing, "/disks/fresh");
        for fs in all(&filer) {
            make(&*fs, b"with");
        }
        let frames = filer.pool().lanes().iter().map(|lane| lane.stats().frame_count).sum::<u64>();
        assert!(frames > 0, "the log takes records again");
        let (filer, report) = world.cut().import();
        assert!(report.losses.is_empty() && report.records_replayed > 0, "{report:?}");
        for fs in all(&filer) {
            assert!(has(&*fs, b"without") && has(&*fs, b"with"));
            let file = fs.lookup(&cred, fs.root(), b"with").unwrap().0.object;
            done(fs.setattr(ctx(&cred), file, &SetAttr { mode: Some(0o640), ..SetAttr::default() }, None)).unwrap();
        }
        // And without the new one it is as it was with the old one.
        let mut world = world.cut();
        world.take(&["/disks/fresh"]);
        assert!(matches!(world.try_import(&ImportOptions::default()), Err(FilerError::Open(_))));
    }
}
