//! A disk joins a mirror, and the copy is cut off: it goes on where it was, and the disk has everything in the end.

mod world;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tally_fs::filer::{CreateOptions, Filer, ImportOptions};
use tally_members::create::add_spares;
use tally_members::label::LABEL_BYTES;
use tally_members::vdev::LegState;
use tally_store::pool::membership::{Copied, MembershipError, Onlooker, Stage};
use tally_store::pool::spares::{SpareErrand, SpareWatch};
use tally_store::pool::{JoinJob, Pool, RewindOrder, RewindTo, SyncError};
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tree::Visit;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, Stability};
use world::{Event, Patient, Watch, World, content, ctx, member, mode, noise, patient, vfs};

const MIB: u64 = 1 << 20;
const DISK: u64 = 48 * MIB;
const A: &str = "/disks/a";
const C: &str = "/disks/c";
const FILES: u64 = 12;

fn put(filer: &Filer, name: &str, length: usize, seed: u64) {
    let (fs, cred) = (vfs(filer), Cred::root());
    let how = CreateHow::Unchecked(mode(0o600));
    let file = patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).unwrap().object;
    let data = noise(length, seed);
    patient(|| fs.write(ctx(&cred), file, 0, data.clone(), Stability::FileSync)).unwrap();
}

fn check(filer: &Filer, name: &str, length: usize, seed: u64) {
    let fs = vfs(filer);
    let (attr, _) = fs.lookup(&Cred::root(), fs.root(), name.as_bytes()).unwrap();
    assert!(content(&*fs, attr.object) == noise(length, seed), "{name}");
}

/// Twelve files of a mebibyte on one disk, and another one beside it, which is none of the pool's.
fn one_disk() -> (World, Arc<Filer>) {
    of_files(World::of(&[(A, DISK), (C, DISK)], A))
}

/// The files are in blocks of 4 KiB, so that they have several leaves, between which a cursor can stand.
fn of_files(world: World) -> (World, Arc<Filer>) {
    let properties = PropertySet::from_iter([parse(Property::RecordSize, "4K").unwrap()]);
    let filer = world.create_with(&CreateOptions { properties, ..CreateOptions::default() });
    (0..FILES).for_each(|seed| put(&filer, &format!("file {seed}"), 1 << 20, seed));
    filer.export().unwrap();
    drop(filer);
    let filer = import(&world);
    (world, filer)
}

/// Walks go by short stretches, so that the cursor moves.
fn import(world: &World) -> Arc<Filer> {
    let tuning = Tuning { scrub_stretch_bytes: MIB / 2, ..Tuning::default() };
    world.try_import_with(&tuning, &ImportOptions::default()).unwrap().0
}

/// Clients go on while nobody copies: a file is new, one is written over, one goes.
fn meanwhile(filer: &Filer) {
    put(filer, "new", 1 << 20, 77);
    put(filer, "file 1", 1 << 20, 78);
    let (fs, cred) = (vfs(filer), Cred::root());
    let _gone = patient(|| fs.remove(ctx(&cred), fs.root(), b"file 2"));
    (0..3).for_each(|_| _ = filer.pool().sync().unwrap());
}

fn check_all(filer: &Filer) {
    (3..FILES).chain([0]).for_each(|seed| check(filer, &format!("file {seed}"), 1 << 20, seed));
    check(filer, "new", 1 << 20, 77);
    check(filer, "file 1", 1 << 20, 78);
}

/// An onlooker who hears what was done before, and does something with each step.
struct Watching<'a> {
    step: &'a mut dyn FnMut(Stage, u64) -> bool,
    is_interrupted: bool,
    before: Option<(u64, u64)>,
}

impl<'a> Watching<'a> {
    fn new(step: &'a mut dyn FnMut(Stage, u64) -> bool) -> Self {
        Self { step, is_interrupted: false, before: None }
    }
}

impl Onlooker for Watching<'_> {
    fn on_progress(&mut self, stage: Stage, done: u64) -> bool {
        (self.step)(stage, done)
    }

    fn goes_on(&mut self, copied: u64, checked: u64, _: Duration) {
        self.before = Some((copied, checked));
    }

    fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    fn sync(&mut self, pool: &Pool) -> Result<(), SyncError> {
        pool.sync().map(|_| ())
    }

    fn keep_paths(&mut self, pool: &Pool) -> std::io::Result<()> {
        Patient.keep_paths(pool)
    }

    fn run_lane(&mut self, lane: Arc<tally_intent::Lane>) -> std::io::Result<()> {
        Patient.run_lane(lane)
    }

    fn let_go(&mut self, leg: Arc<tally_members::vdev::VdevLeg>) {
        Patient.let_go(leg);
    }
}

fn state(filer: &Filer, path: &str) -> Option<LegState> {
    let config = filer.pool().roster.config();
    config.vdevs[0].legs.iter().find(|leg| leg.path == Path::new(path))?;
    let place = member(filer, path);
    place.vdev.leg(place.leg).map(|leg| leg.state())
}

fn job(filer: &Filer) -> JoinJob {
    filer.pool().joins().pop().expect("somebody knows of the copy")
}

/// A look as the daemon takes it.
fn look(filer: &Filer) -> Vec<SpareErrand> {
    SpareWatch::default().look(filer.pool(), Duration::ZERO)
}

/// Whoever runs the pool goes on. Gives what had been done before.
fn go_on(filer: &Filer) -> (Copied, Option<(u64, u64)>) {
    let place = member(filer, C);
    assert_eq!(look(filer), [SpareErrand::GoOn { leg: place.leg }]);
    let mut step = |_, _| true;
    let mut watching = Watching::new(&mut step);
    let copied = filer.pool().go_on_joining(&place, &mut watching).unwrap().expect("there was a copy left to do");
    (copied, watching.before)
}

/// Lets the disk join, and cuts the power at the first step of this kind that has come so far: what the job said is durable.
fn cut_off(at: (Stage, u64), replaces: bool) -> World {
    let (world, filer) = one_disk();
    let mut cut = None;
    let mut step = |stage, done| {
        if cut.is_none() && stage == at.0 && done >= at.1 {
            filer.pool().sync().unwrap();
            cut = Some(world.cut());
        }
        true
    };
    let (place, mut watching) = (member(&filer, A), Watching::new(&mut step));
    match replaces {
        true => drop(filer.pool().replace(&place, Path::new(C), false, &mut watching).unwrap()),
        false => drop(filer.pool().join(&place, Path::new(C), false, &mut watching).unwrap()),
    }
    assert!(filer.pool().joins().is_empty(), "it is over");
    cut.expect("it came so far")
}

/// Nothing is wrong on the disk that has joined, and it has everything alone.
fn check_alone(mut world: World, filer: Arc<Filer>, check: impl Fn(&Filer)) {
    assert_eq!(state(&filer, C), Some(LegState::Online));
    let place = member(&filer, C);
    let report = filer.pool().secure(&place.vdev, &[place.leg], &mut |_| true).unwrap();
    assert_eq!((report.repaired_count, report.lost_count), (0, 0), "it lacked something: {report:?}");
    assert!(place.config.legs.iter().all(|leg| leg.missed.is_empty()), "{:?}", place.config.legs);
    assert!(filer.pool().joins().is_empty() && look(&filer).is_empty());
    filer.export().unwrap();
    drop(filer);
    world.take(&[A]);
    check(&world.import().0);
}

/// Bytes that a disk was given, its labels and its ring aside.
fn block_bytes(filer: &Filer, events: &[Event], path: &str) -> u64 {
    let ring = filer.pool().roster.config().vdevs[0].ring.unwrap();
    let is_block = |at: u64| {
        let area = LABEL_BYTES..DISK - LABEL_BYTES;
        area.contains(&at) && !(ring.start..ring.start + ring.length).contains(&(at - LABEL_BYTES))
    };
    let bytes = events.iter().filter_map(|event| match event {
        Event::Write { disk, offset, bytes, .. } if disk == path && is_block(*offset) => Some(bytes.len() as u64),
        _ => None,
    });
    bytes.sum()
}

/// An attach, or a replace, began anew behind each restart: hours for a disk of many terabytes, and somebody had to give the
/// command again. Now it goes on where it was. What was written meanwhile lies before that place as well as behind it.
#[test]
fn a_copy_goes_on_where_it_was_cut_off() {
    for (replaces, is_exported) in [(false, false), (true, false), (false, true), (true, true)] {
        let world = cut_off((Stage::Copying, 8 * MIB), replaces);
        let (mut filer, _) = world.import();
        assert_eq!(state(&filer, C), Some(LegState::Stale));
        let copied = job(&filer).copied_bytes();
        assert!(copied >= 7 * MIB && job(&filer).cursor.is_some(), "{:?}", job(&filer));
        meanwhile(&filer);
        if is_exported {
            filer.export().unwrap();
            drop(filer);
            filer = world.import().0;
        }
        world.start_journal();
        let (done, before) = go_on(&filer);
        let given = block_bytes(&filer, &world.end_journal(), C);
        assert_eq!(before, Some((copied, 0)));
        assert!(done.report.copied_bytes > 12 * MIB, "{done:?}");
        assert!(given < 9 * MIB, "{given} bytes were written, and {copied} had been copied before");
        assert_eq!((done.secured.repaired_count, done.secured.lost_count), (0, 0), "{done:?}");
        assert_eq!(state(&filer, A), (!replaces).then_some(LegState::Online));
        check_alone(world, filer, check_all);
    }
}

/// The look at each block goes on as well, and so does one that is cut off a second time.
#[test]
fn a_look_at_each_block_goes_on_where_it_was_cut_off() {
    let mut world = cut_off((Stage::CheckingCopy, 9 * MIB), true);
    for _ in 0..2 {
        let filer = import(&world);
        assert!(job(&filer).is_brought, "{:?}", job(&filer));
        let mut cut = None;
        let mut step = |stage, done| {
            assert_eq!(stage, Stage::CheckingCopy, "everything was copied");
            if cut.is_none() && done >= 6 * MIB {
                filer.pool().sync().unwrap();
                cut = Some(world.cut());
            }
            true
        };
        let place = member(&filer, C);
        filer.pool().go_on_joining(&place, &mut Watching::new(&mut step)).unwrap();
        world = cut.unwrap();
    }
    let (filer, _) = world.import();
    let checked = job(&filer).secured.checked_bytes;
    assert!(checked >= 4 * MIB && job(&filer).cursor.is_some(), "{:?}", job(&filer));
    meanwhile(&filer);
    world.start_journal();
    let (done, before) = go_on(&filer);
    let given = block_bytes(&filer, &world.end_journal(), C);
    assert_eq!(before.map(|(_, checked)| checked), Some(checked));
    assert!(given < 4 * MIB, "{given} bytes, of which clients have written two mebibytes meanwhile");
    assert_eq!((done.secured.lost_count, state(&filer, A)), (0, None), "{done:?}");
    check_alone(world, filer, check_all);
}

/// The disk that joins is not there at the next imports: it waits, clients notice nothing, and it goes on when it is back.
#[test]
fn a_disk_that_joins_and_is_absent_waits() {
    let mut world = cut_off((Stage::Copying, 8 * MIB), true);
    let away = world.take(&[C]);
    for _ in 0..2 {
        let (filer, _) = world.import();
        assert_eq!(state(&filer, C), Some(LegState::Missing));
        let errands = look(&filer);
        assert_eq!(errands, [SpareErrand::GoOn { leg: member(&filer, C).leg }]);
        let mut step = |_, _| true;
        let refused = filer.pool().go_on_joining(&member(&filer, C), &mut Watching::new(&mut step));
        assert!(matches!(refused, Err(MembershipError::Return(_))), "{refused:?}");
        assert!(job(&filer).copied_bytes() >= 7 * MIB);
        meanwhile(&filer);
        filer.export().unwrap();
    }
    world.put(away);
    let (filer, _) = world.import();
    assert!(go_on(&filer).1.is_some_and(|(copied, _)| copied >= 7 * MIB));
    assert_eq!(state(&filer, A), None, "it is replaced");
    check_alone(world, filer, check_all);
}

/// No spare is taken for a disk that never counted: its mirror has as many as before it came.
#[test]
fn no_spare_stands_in_for_a_disk_that_joins() {
    const S: &str = "/disks/s";
    let mut world = cut_off((Stage::Copying, 8 * MIB), false);
    let away = world.take(&[C]);
    world.put(vec![(S.to_owned(), World::disk(DISK))]);
    let (filer, _) = world.import();
    add_spares(&filer.pool().roster, &world.platform(), &[S.into()], false).unwrap();
    let mut watch = SpareWatch::default();
    let go_on = [SpareErrand::GoOn { leg: member(&filer, C).leg }];
    for time in [0, 400] {
        assert_eq!(watch.look(filer.pool(), Duration::from_secs(time)), go_on, "after {time} s");
    }
    drop(away);
}

/// An older copy of the disk that joins says of itself that it does not know what the job takes for done. The copy begins anew.
#[test]
fn an_older_copy_of_a_disk_that_joins_begins_anew() {
    let (world, filer) = one_disk();
    let (mut older, mut cut) = (None, None);
    let mut step = |stage, done| {
        if stage == Stage::Copying && older.is_none() {
            older = Some(world.content_of(C));
        }
        if stage == Stage::Copying && done >= 8 * MIB && cut.is_none() {
            filer.pool().sync().unwrap();
            filer.pool().sync().unwrap();
            cut = Some(world.cut());
        }
        true
    };
    filer.pool().join(&member(&filer, A), Path::new(C), false, &mut Watching::new(&mut step)).unwrap();
    let world = cut.unwrap();
    world.poke(C, 0, &older.unwrap());
    let (filer, _) = world.import();
    meanwhile(&filer);
    let (done, before) = go_on(&filer);
    assert_eq!(before, None, "nothing of it is believed");
    assert_eq!((done.secured.repaired_count, done.secured.lost_count), (0, 0), "all of it is copied: {done:?}");
    check_alone(world, filer, check_all);
}

/// The power goes at any moment of that, too. Once the labels said what the older copy lacks, and the uberblocks on it were new ones, it looked
/// like the disk that the job is of, and it counted without what had been copied in between.
#[test]
fn an_older_copy_of_a_disk_that_joins_is_found_out_for_good() {
    /// Cuts the power before each group that the command asks for.
    struct Cutting<'a> {
        world: &'a World,
        cuts: Vec<World>,
    }
    impl Watch for Cutting<'_> {
        fn sync(&mut self, pool: &Pool) -> Result<(), SyncError> {
            self.cuts.push(self.world.cut());
            pool.sync().map(|_| ())
        }
    }
    let (world, filer) = one_disk();
    let (mut older, mut cut) = (None, None);
    let mut step = |stage, done| {
        if stage == Stage::Copying && older.is_none() {
            older = Some(world.content_of(C));
        }
        if stage == Stage::Copying && done >= 9 * MIB && cut.is_none() {
            filer.pool().sync().unwrap();
            cut = Some(world.cut());
        }
        true
    };
    filer.pool().join(&member(&filer, A), Path::new(C), false, &mut Watching::new(&mut step)).unwrap();
    let world = cut.unwrap();
    world.poke(C, 0, &older.unwrap());
    let (filer, _) = world.import();
    assert!(job(&filer).copied_bytes() >= 8 * MIB && job(&filer).cursor.is_some(), "{:?}", job(&filer));
    let mut cutting = Cutting { world: &world, cuts: Vec::new() };
    filer.pool().go_on_joining(&member(&filer, C), &mut world::Watching(&mut cutting)).unwrap();
    let cuts = cutting.cuts;
    assert!(cuts.len() >= 3, "{}", cuts.len());
    for cut in cuts {
        let (filer, _) = cut.import();
        if !look(&filer).is_empty() {
            filer.pool().go_on_joining(&member(&filer, C), &mut Watching::new(&mut |_, _| true)).unwrap();
        }
        check_alone(cut, filer, |filer| {
            (0..FILES).for_each(|seed| check(filer, &format!("file {seed}"), 1 << 20, seed))
        });
    }
}

/// The end of the daemon interrupts a copy and takes nothing out; somebody who stops it does. A copy that goes on can be
/// interrupted as well, and given up by taking the disk out, at once.
#[test]
fn an_interrupted_copy_stays_and_a_stopped_one_is_taken_out() {
    let (world, filer) = one_disk();
    for is_interrupted in [false, true, true] {
        let mut step = |stage, done| stage != Stage::Copying || done < 8 * MIB;
        let mut watching = Watching { is_interrupted, ..Watching::new(&mut step) };
        let ended = match filer.pool().joins().is_empty() {
            true => filer.pool().join(&member(&filer, A), Path::new(C), true, &mut watching).map(drop),
            false => {
                filer.pool().roster.drop_leg(member(&filer, C).leg, &std::io::Error::other("its cable")).unwrap();
                filer.pool().go_on_joining(&member(&filer, C), &mut watching).map(drop)
            }
        };
        match (is_interrupted, ended) {
            (false, Err(MembershipError::Stopped { .. })) => {
                assert_eq!((state(&filer, C), look(&filer)), (None, vec![]))
            }
            (true, Err(MembershipError::Interrupted { .. })) => {
                assert_eq!(state(&filer, C), Some(LegState::Resilvering))
            }
            (_, ended) => panic!("{ended:?}"),
        }
    }
    filer.export().unwrap();
    drop(filer);
    let (filer, _) = world.import();
    let place = member(&filer, C);
    let mut step = |_, _| panic!("what it has it was given by the others, and nobody has to look");
    let mut watching = Watching::new(&mut step);
    filer.pool().make_sure(&place, &mut watching).unwrap();
    filer.pool().leave(&place, &mut watching).unwrap();
    assert_eq!((state(&filer, C), filer.pool().joins()), (None, vec![]));
}

/// One after the other, with hours between them: so it was for two disks that were to join one mirror. Each has a copy of its own now, the second one
/// begins in the middle of the first, and the disks that they replace leave as soon as their own is there.
#[test]
fn two_disks_join_one_mirror_side_by_side() {
    const B: &str = "/disks/b";
    const D: &str = "/disks/d";
    for replaces in [false, true] {
        let world = World::of(&[(A, DISK), (B, DISK), (C, DISK), (D, DISK)], "mirror /disks/a /disks/b");
        let (world, filer) = of_files(world);
        let join = |old: &str, new: &str, step: &mut dyn FnMut(Stage, u64) -> bool| {
            let (place, mut watching) = (member(&filer, old), Watching::new(step));
            match replaces {
                true => filer.pool().replace(&place, Path::new(new), false, &mut watching).map(|(_, copied)| copied),
                false => filer.pool().join(&place, Path::new(new), false, &mut watching),
            }
            .unwrap()
        };
        let mut second = None;
        let first = join(A, C, &mut |stage, done| {
            if second.is_none() && stage == Stage::Copying && done >= 4 * MIB {
                let mut is_told = false;
                second = Some(join(B, D, &mut |stage, done| {
                    if stage == Stage::Copying && done >= 6 * MIB && !std::mem::replace(&mut is_told, true) {
                        assert_eq!(filer.pool().joins().len(), 2, "both are known");
                        put(&filer, "both", 300_000, done);
                        filer.pool().sync().unwrap();
                    }
                    true
                }));
                meanwhile(&filer);
            }
            true
        });
        for copied in [first, second.unwrap()] {
            assert!(copied.is_whole() && copied.report.copied_bytes > 12 * MIB, "{copied:?}");
            assert_eq!((copied.secured.repaired_count, copied.secured.lost_count), (0, 0), "{copied:?}");
        }
        let expected = [(A, !replaces), (B, !replaces), (C, true), (D, true)];
        for (path, is_there) in expected {
            assert_eq!(state(&filer, path), is_there.then_some(LegState::Online), "{path}");
        }
        for alone in [C, D] {
            let place = member(&filer, alone);
            let report = filer.pool().secure(&place.vdev, &[place.leg], &mut |_| true).unwrap();
            assert_eq!((report.repaired_count, report.lost_count), (0, 0), "{alone} lacked something: {report:?}");
            let mut cut = world.cut();
            let others: Vec<_> = [A, B, C, D].into_iter().filter(|path| *path != alone).collect();
            cut.take(&others);
            check_all(&cut.import().0);
        }
    }
}

/// The power goes while two disks join: both go on, each where it was.
#[test]
fn two_disks_that_join_go_on_side_by_side() {
    const D: &str = "/disks/d";
    let world = World::of(&[(A, DISK), (C, DISK), (D, DISK)], A);
    let (world, filer) = of_files(world);
    let (mut cut, mut is_second) = (None, false);
    let mut second = |stage, done| {
        if cut.is_none() && stage == Stage::Copying && done >= 8 * MIB {
            filer.pool().sync().unwrap();
            cut = Some(world.cut());
        }
        true
    };
    let mut first = |stage, done| {
        if stage == Stage::Copying && done >= 4 * MIB && !std::mem::replace(&mut is_second, true) {
            filer.pool().join(&member(&filer, A), Path::new(D), false, &mut Watching::new(&mut second)).unwrap();
        }
        true
    };
    filer.pool().join(&member(&filer, A), Path::new(C), false, &mut Watching::new(&mut first)).unwrap();
    let world = cut.unwrap();
    let (filer, _) = world.import();
    meanwhile(&filer);
    let mut errands: Vec<_> = look(&filer);
    errands.sort_by_key(|errand| format!("{errand:?}"));
    assert_eq!(errands.len(), 2, "{errands:?}");
    for (path, copied) in [(C, 3 * MIB), (D, 7 * MIB)] {
        let (place, mut step) = (member(&filer, path), |_, _| true);
        let mut watching = Watching::new(&mut step);
        filer.pool().go_on_joining(&place, &mut watching).unwrap();
        assert!(watching.before.is_some_and(|(before, _)| before >= copied), "{path}: {:?}", watching.before);
    }
    check_alone(world, filer, check_all);
}

/// What a cut at any write of an attach, or a replace, leaves: no trace of the disk, or one that goes on by itself, or one
/// that is there; and nothing is lost in any of them. In a small pool, so that most writes are labels, uberblocks and the job.
#[test]
fn a_cut_at_any_write_of_it_leaves_the_disk_or_a_copy_that_goes_on_or_no_trace() {
    for replaces in [false, true] {
        let mut seen = BTreeSet::new();
        for writes in 0.. {
            let world = World::of(&[(A, 16 * MIB), (C, 16 * MIB)], A);
            let filer = world.create_without_threads(&Default::default());
            let (fs, cred) = (vfs(&filer), Cred::root());
            let how = CreateHow::Unchecked(mode(0o600));
            let file = fs.create(ctx(&cred), fs.root(), b"file", &how).result.unwrap().object;
            fs.write(ctx(&cred), file, 0, noise(200_000, 5), Stability::Unstable).result.unwrap();
            filer.pool().sync().unwrap();
            world.lose_power_after(writes);
            let mut step = |_, _| true;
            let (place, mut watching) = (member(&filer, A), Watching::new(&mut step));
            let done = match replaces {
                true => filer.pool().replace(&place, Path::new(C), false, &mut watching).map(drop),
                false => filer.pool().join(&place, Path::new(C), false, &mut watching).map(drop),
            };
            let is_over = done.is_ok();
            let world = world.cut();
            drop(filer);
            let filer = world.import().0;
            let about = format!("behind {writes} writes, replaces: {replaces}");
            check(&filer, "file", 200_000, 5);
            let place = state(&filer, C).map(|_| member(&filer, C));
            let outcome = match (&place, state(&filer, C), look(&filer)) {
                (None, ..) => "no trace",
                (Some(place), Some(LegState::Stale), errands) => {
                    assert_eq!(errands, [SpareErrand::GoOn { leg: place.leg }], "{about}");
                    "goes on"
                }
                (Some(_), Some(LegState::Online), errands) if replaces && state(&filer, A).is_some() => {
                    assert!(!errands.is_empty(), "{about}: somebody lets the old one leave");
                    "its old one leaves"
                }
                (Some(_), Some(LegState::Online), _) => "is there",
                (_, state, _) => panic!("{about}: {state:?}"),
            };
            seen.insert(outcome);
            let Some(place) = place else {
                assert!(!is_over, "{about}");
                assert!(filer.pool().joins().is_empty() && state(&filer, A) == Some(LegState::Online), "{about}");
                continue;
            };
            if !look(&filer).is_empty() {
                filer
                    .pool()
                    .go_on_joining(&place, &mut Watching::new(&mut step))
                    .unwrap_or_else(|why| panic!("{about}: {why}"));
            }
            assert_eq!(state(&filer, A).is_none(), replaces, "{about}");
            check_alone(world, filer, |filer| check(filer, "file", 200_000, 5));
            if is_over {
                break;
            }
        }
        let mut expected = BTreeSet::from(["no trace", "goes on", "is there"]);
        if replaces {
            expected.insert("its old one leaves");
        }
        assert_eq!(seen, expected, "replaces: {replaces}");
    }
}

/// How a disk that joins goes in the middle of a copy that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    /// Somebody puts it away.
    Offline,
    /// It refuses a write.
    Write,
    /// It refuses the flush of the group that takes along how far the copy is.
    Flush,
}

/// Where the first record of these files lies on a disk.
fn places_of(world: &World, files: std::ops::Range<u64>) -> Vec<u64> {
    let disk = world.content_of(A);
    let is_it = |seed| {
        let record = noise(1 << 20, seed).slice(..4096);
        disk.chunks_exact(4096).position(|sector| *sector == record[..]).map(|at| at as u64 * 4096)
    };
    files.map(|seed| is_it(seed).expect("it was written in this place")).collect()
}

/// A copy went on, and its disk failed or was put away. How far the copy was by then stood in the catalog all the same, and what the disk had
/// been given since its last flush was in its cache: pulled, it came back without that, and nobody looked there again. And where it had
/// failed, the list of what it lacks had come to an end, so that the copy began anew each time.
#[test]
fn a_copy_goes_on_with_a_disk_that_failed_and_lost_what_was_in_its_cache() {
    for (first, gone) in [Stage::Copying, Stage::CheckingCopy]
        .into_iter()
        .flat_map(|stage| [Gone::Write, Gone::Flush, Gone::Offline].map(|gone| (stage, gone)))
    {
        let about = format!("{first:?}, {gone:?}");
        let world = cut_off((first, 4 * MIB), true);
        // In short stretches, so that the cursor moves.
        let tuning = Tuning { scrub_stretch_bytes: MIB, ..Tuning::default() };
        let (filer, _) = world.try_import_with(&tuning, &ImportOptions::default()).unwrap();
        if first == Stage::CheckingCopy {
            // Something to be written in the look as well.
            places_of(&world, 5..FILES).into_iter().for_each(|at| world.poke(C, at, &[0x5a; 4096]));
        }
        let (before, faults) = (world.content_of(C), world.faults(C));
        world.start_journal();
        let (mut is_flushed, mut is_gone) = (false, false);
        let mut step = |stage, done| {
            if stage == first && done >= 6 * MIB && !std::mem::replace(&mut is_flushed, true) {
                filer.pool().sync().unwrap();
            }
            if stage == first && done >= 9 * MIB && !std::mem::replace(&mut is_gone, true) {
                match gone {
                    Gone::Offline => return false,
                    Gone::Write => faults.all(true),
                    Gone::Flush => {
                        faults.flushes.store(true, std::sync::atomic::Ordering::SeqCst);
                        filer.pool().sync().unwrap();
                    }
                }
            }
            true
        };
        let place = member(&filer, C);
        let ended = filer.pool().go_on_joining(&place, &mut Watching::new(&mut step));
        assert!(matches!(ended, Err(MembershipError::StaysAway { .. })), "{about}: {ended:?}");
        if gone == Gone::Offline {
            filer.pool().take_offline(&place, true, &mut Patient).unwrap();
        }
        (0..2).for_each(|_| _ = filer.pool().sync().unwrap());
        let lost = world.pull(C, before, &world.end_journal());
        assert!(lost > MIB as usize || gone == Gone::Offline || first == Stage::CheckingCopy, "{about}: {lost}");
        faults.all(false);
        meanwhile(&filer);
        let mut step = |_, _| true;
        let mut watching = Watching::new(&mut step);
        let done = filer.pool().take_back(&member(&filer, C), &mut watching).unwrap();
        let (copied, checked) = watching.before.unwrap_or_else(|| panic!("{about}: it began anew"));
        match first {
            Stage::Copying => {
                assert!((5 * MIB..12 * MIB).contains(&copied) && checked == 0, "{about}: {copied}, {checked}");
                assert_eq!(done.secured.repaired_count, 0, "{about}: {done:?}");
            }
            _ => assert!(checked >= 4 * MIB, "{about}: {checked}"),
        }
        assert!(done.is_whole() && state(&filer, A).is_none(), "{about}: {done:?}");
        check_alone(world, filer, check_all);
    }
}

/// Does something at the first group that is asked for when the new disk counts: nothing is left to do but the log, and the old disk.
struct Counting<'a> {
    filer: &'a Filer,
    then: Option<&'a mut dyn FnMut()>,
    /// When something is copied, before anything else happens.
    first: Option<&'a mut dyn FnMut()>,
}

impl Watch for Counting<'_> {
    fn on_progress(&mut self, _: Stage, _: u64) -> bool {
        if let Some(first) = self.first.take() {
            first();
        }
        true
    }

    fn sync(&mut self, pool: &Pool) -> Result<(), SyncError> {
        if state(self.filer, C) == Some(LegState::Online)
            && let Some(then) = self.then.take()
        {
            then();
        }
        pool.sync().map(|_| ())
    }
}

/// The power went between the label that says that the new disk counts and the end of the replace, and its copy lacked something. The old disk
/// stayed, as it should, and whoever went on was told that all is well.
#[test]
fn who_goes_on_with_a_disk_that_lacks_something_is_told_that_the_old_one_stays() {
    let (world, filer) = one_disk();
    let bad = places_of(&world, 5..6)[0];
    world.faults(A).unreadable.lock().unwrap().push(bad..bad + 4096);
    let mut cut = None;
    let mut then = || cut = Some(world.cut());
    let mut counting = Counting { filer: &filer, then: Some(&mut then), first: None };
    let replaced =
        filer.pool().replace(&member(&filer, A), Path::new(C), false, &mut world::Watching(&mut counting)).unwrap();
    assert!(!replaced.1.is_whole());
    drop(filer);
    let (filer, _) = cut.expect("it counted").import();
    let place = member(&filer, C);
    assert_eq!((state(&filer, C), look(&filer)), (Some(LegState::Online), vec![SpareErrand::GoOn { leg: place.leg }]));
    let told = filer.pool().go_on_joining(&place, &mut Watching::new(&mut |_, _| true)).unwrap_err().to_string();
    for part in ["/disks/a stays beside it: something could not be read", "`tally pool detach tank /disks/a`"] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!((state(&filer, A), look(&filer)), (Some(LegState::Online), vec![]), "nobody tries that again");
    assert!(!filer.pool().roster.missed(place.leg).is_empty(), "as long as it is so the labels say it");
}

/// A disk refuses its labels, uberblocks and frames from some moment of its replace on. Where it had counted, and the old disk could not leave any more,
/// the replace was forgotten: the new disk came back, and both stayed. Where it was to count it stayed as one that nobody copies to.
#[test]
fn a_disk_that_fails_at_the_end_of_its_copy_is_none_of_the_pool_or_goes_on() {
    const B: &str = "/disks/b";
    const S: &str = "/disks/s";
    let mut seen = BTreeSet::new();
    for writes in 0.. {
        let about = format!("behind {writes} writes");
        let disks = [A, B, C, S].map(|path| (path, 16 * MIB));
        let world = World::of(&disks, "mirror /disks/a /disks/b");
        let filer = world.create_without_threads(&Default::default());
        let (fs, cred) = (vfs(&filer), Cred::root());
        let how = CreateHow::Unchecked(mode(0o600));
        let file = fs.create(ctx(&cred), fs.root(), b"file", &how).result.unwrap().object;
        fs.write(ctx(&cred), file, 0, noise(200_000, 5), Stability::Unstable).result.unwrap();
        filer.pool().sync().unwrap();
        // One stands in for the old disk, and is handed on between the labels that the new one counts and that the old one is gone.
        add_spares(&filer.pool().roster, &filer.pool().platform, &[S.into()], false).unwrap();
        let (old, spare) = (member(&filer, A), filer.pool().roster.config().spares[0].guid);
        filer.pool().roster.drop_leg(old.leg, &std::io::Error::other("its cable")).unwrap();
        filer.pool().take_spare(&old, spare, &mut Patient).unwrap();
        let faults = world.faults(C);
        *faults.durable_writes_left.lock().unwrap() = Some(writes);
        let done = filer.pool().replace(&old, Path::new(C), false, &mut Patient).map(drop);
        *faults.durable_writes_left.lock().unwrap() = None;
        let place = state(&filer, C).map(|_| member(&filer, C));
        seen.insert(match (&done, &place) {
            (Ok(()), _) => "over",
            (_, None) => "none of the pool",
            _ => "goes on",
        });
        let Some(place) = place else {
            assert_eq!(
                (filer.pool().joins(), state(&filer, A)),
                (vec![], Some(LegState::Faulted)),
                "{about}: {done:?}"
            );
            continue;
        };
        let is_over = done.is_ok() && state(&filer, C) == Some(LegState::Online);
        if done.is_err() {
            let job = filer.pool().join_job(place.leg).unwrap_or_else(|| panic!("{about}: nobody ends it: {done:?}"));
            assert_eq!(job.replaces, Some(old.leg));
        }
        // Of one that refuses the very label that says that the old one is gone, too.
        if !is_over {
            filer.pool().take_back(&place, &mut Patient).unwrap_or_else(|why| panic!("{about}: {why}, {done:?}"));
        }
        assert_eq!((state(&filer, A), state(&filer, C)), (None, Some(LegState::Online)), "{about}: {done:?}");
        assert_eq!(filer.pool().roster.config().spares[0].stands_for, Some(place.leg), "{about}");
        assert!(look(&filer).contains(&SpareErrand::GiveBack { spare }), "{about}");
        filer.export().unwrap();
        drop(filer);
        let mut world = world;
        world.take(&[A, B, S]);
        check(&world.import().0, "file", 200_000, 5);
        if is_over {
            break;
        }
    }
    assert_eq!(seen, BTreeSet::from(["goes on", "none of the pool", "over"]));
}

/// The pool is suspended at any write behind the label that says that the new disk counts, and taken up again: the replace comes to its end.
#[test]
fn a_replace_that_ends_in_a_suspended_pool_is_ended_when_that_goes_on() {
    for writes in 0.. {
        let about = format!("behind {writes} writes");
        let world = World::of(&[(A, 16 * MIB), (C, 16 * MIB)], A);
        let filer = world.create_without_threads(&Default::default());
        let (fs, cred) = (vfs(&filer), Cred::root());
        let how = CreateHow::Unchecked(mode(0o600));
        let file = fs.create(ctx(&cred), fs.root(), b"file", &how).result.unwrap().object;
        fs.write(ctx(&cred), file, 0, noise(200_000, 5), Stability::Unstable).result.unwrap();
        filer.pool().sync().unwrap();
        let mut then = || world.lose_power_after(writes);
        let mut counting = Counting { filer: &filer, then: Some(&mut then), first: None };
        let place = member(&filer, A);
        let done = filer.pool().replace(&place, Path::new(C), false, &mut world::Watching(&mut counting)).map(drop);
        let suspended = filer.as_suspended();
        if done.is_err() {
            filer.export().unwrap_err();
        }
        drop((filer, fs));
        let world = world.cut();
        let filer = match done {
            Ok(()) => world.import().0,
            Err(_) => world.try_to_resume(&suspended).unwrap_or_else(|why| panic!("{about}: {why}, {done:?}")).0,
        };
        check(&filer, "file", 200_000, 5);
        if !look(&filer).is_empty() {
            let gone_on = filer.pool().go_on_joining(&member(&filer, C), &mut Watching::new(&mut |_, _| true));
            gone_on.unwrap_or_else(|why| panic!("{about}: {why}"));
        }
        assert_eq!(state(&filer, A), None, "{about}: {done:?}");
        check_alone(world, filer, |filer| check(filer, "file", 200_000, 5));
        if done.is_ok() {
            assert!(writes > 3, "{writes}");
            break;
        }
    }
}

/// An export that interrupts a copy may be refused in the end, as a disk hangs. The disk stood there then, with every write and
/// without what was before, until the next import.
#[test]
fn a_copy_that_was_interrupted_goes_on_where_the_pool_has_not_gone() {
    let (world, filer) = one_disk();
    let mut step = |stage, done| stage != Stage::Copying || done < 8 * MIB;
    let mut watching = Watching { is_interrupted: true, ..Watching::new(&mut step) };
    let ended = filer.pool().replace(&member(&filer, A), Path::new(C), true, &mut watching).map(drop);
    assert!(matches!(ended, Err(MembershipError::Interrupted { .. })), "{ended:?}");
    assert_eq!(state(&filer, C), Some(LegState::Resilvering));
    meanwhile(&filer);
    let (done, before) = go_on(&filer);
    assert!(before.is_some_and(|(copied, _)| copied >= 7 * MIB), "{before:?}");
    assert_eq!((done.secured.repaired_count, state(&filer, A)), (0, None), "{done:?}");
    check_alone(world, filer, check_all);
}

/// Somebody puts the disk away when its copy is about to go on: it was taken back at once.
#[test]
fn a_disk_that_was_put_away_is_not_gone_on_with() {
    let world = cut_off((Stage::Copying, 8 * MIB), true);
    let (filer, _) = world.import();
    let place = member(&filer, C);
    assert_eq!(look(&filer), [SpareErrand::GoOn { leg: place.leg }]);
    filer.pool().take_offline(&place, true, &mut Patient).unwrap();
    let refused = filer.pool().go_on_joining(&place, &mut Watching::new(&mut |_, _| true));
    assert!(refused.is_err_and(|why| why.to_string().contains("`tally pool online` goes on with its copy")));
    assert_eq!((state(&filer, C), look(&filer)), (Some(LegState::Offline), vec![]));
    meanwhile(&filer);
    filer.pool().take_back(&place, &mut Watching::new(&mut |_, _| true)).unwrap();
    assert_eq!(state(&filer, A), None, "who takes it back goes on with its replace");
    check_alone(world, filer, check_all);
}

/// The disks that are copied from fail at the moment at which a copy that goes on is interrupted: one of two, or both, which suspends the pool.
#[test]
fn a_source_fails_when_a_copy_that_goes_on_is_interrupted() {
    const B: &str = "/disks/b";
    for fail in [&[A][..], &[B], &[A, B]] {
        let world = World::of(&[(A, DISK), (B, DISK), (C, DISK)], "mirror /disks/a /disks/b");
        let (world, filer) = of_files(world);
        let mut cut = None;
        let mut step = |stage, done| {
            if cut.is_none() && stage == Stage::Copying && done >= 6 * MIB {
                filer.pool().sync().unwrap();
                cut = Some(world.cut());
            }
            true
        };
        filer.pool().replace(&member(&filer, A), Path::new(C), false, &mut Watching::new(&mut step)).unwrap();
        let mut world = cut.unwrap();
        let filer = import(&world);
        meanwhile(&filer);
        let mut step = |stage, done| {
            if stage != Stage::Copying || done < 9 * MIB {
                return true;
            }
            fail.iter().for_each(|path| world.faults(path).all(true));
            assert_eq!(filer.pool().sync().is_ok(), fail.len() == 1);
            false
        };
        let mut watching = Watching { is_interrupted: true, ..Watching::new(&mut step) };
        let ended = filer.pool().go_on_joining(&member(&filer, C), &mut watching);
        assert!(matches!(ended, Err(MembershipError::Interrupted { .. })), "{fail:?}: {ended:?}");
        assert_eq!(filer.export().is_ok(), fail.len() == 1);
        drop(filer);
        world = world.cut();
        let filer = world.import().0;
        let (done, before) = go_on(&filer);
        assert!(before.is_some_and(|(copied, _)| copied >= 5 * MIB), "{fail:?}: {before:?}");
        assert!(done.is_whole() && done.secured.repaired_count == 0, "{fail:?}: {done:?}");
        assert_eq!(state(&filer, A), None, "{fail:?}: it is replaced");
        filer.export().unwrap();
        drop(filer);
        world.take(&[A, B]);
        check_all(&world.import().0);
    }
}

/// The new disk counted, and the log did not have it yet, when the old one failed; then the power went. What had been answered by then was in the ring of
/// the old disk alone. That was back, and the import was refused, as "the log device is missing".
#[test]
fn what_the_log_had_on_the_old_disk_alone_is_replayed_from_there() {
    let world = World::of(&[(A, 16 * MIB), (C, 16 * MIB)], A);
    let filer = world.create_without_threads(&Default::default());
    for lane in filer.pool().lanes().iter().map(Arc::clone) {
        std::thread::spawn(move || lane.run());
    }
    let (place, before, mut cut) = (member(&filer, A), world.content_of(A), None);
    // Its label does not change any more until the new one counts.
    let mut while_it_copies = None;
    let mut first = || {
        while_it_copies = Some(world.content_of(A));
        filer.pool().sync().unwrap();
    };
    let mut then = || {
        put(&filer, "new", 5000, 77);
        filer.pool().roster.drop_leg(place.leg, &std::io::Error::other("its cable")).unwrap();
        cut = Some(world.cut());
    };
    let mut counting = Counting { filer: &filer, then: Some(&mut then), first: Some(&mut first) };
    let _goes_on = filer.pool().join(&place, Path::new(C), false, &mut world::Watching(&mut counting));
    let world = cut.expect("it counted");
    // One that was somewhere else meanwhile knows nothing of it.
    for image in [before, while_it_copies.expect("it was copied")] {
        let older = world.cut();
        older.poke(A, 0, &image);
        let refused = older.try_import(&ImportOptions::default()).map(drop).unwrap_err().to_string();
        assert!(refused.contains("the log device /disks/a is missing"), "{refused}");
    }

    let (filer, report) = world.import();
    assert_eq!((report.losses, report.records_replayed > 0), (vec![], true));
    check(&filer, "new", 5000, 77);
    assert_eq!((state(&filer, A), state(&filer, C)), (Some(LegState::Stale), Some(LegState::Online)));
    put(&filer, "newer", 5000, 78);
    // Its ring is none of the log's any more.
    let cut = world.cut();
    let (filer, _) = cut.import();
    check(&filer, "newer", 5000, 78);
    filer.pool().take_back(&member(&filer, A), &mut Patient).unwrap();
    filer.export().unwrap();
    drop(filer);
    let mut world = cut;
    world.take(&[C]);
    let (filer, _) = world.import();
    check(&filer, "new", 5000, 77);
    check(&filer, "newer", 5000, 78);
}

/// A pool of one disk with a log beside it, whose copy was cut off in its second part. Nothing happens by itself from here on.
fn cut_off_in_the_look() -> (World, Arc<Filer>) {
    const L: &str = "/disks/l";
    let world = World::of(&[(A, DISK), (C, DISK), (L, 4 * MIB)], "/disks/a log /disks/l");
    let (world, filer) = of_files(world);
    let mut cut = None;
    let mut step = |stage, done| {
        if cut.is_none() && stage == Stage::CheckingCopy && done >= 6 * MIB {
            filer.pool().sync().unwrap();
            cut = Some(world.cut());
        }
        true
    };
    filer.pool().replace(&member(&filer, A), Path::new(C), false, &mut Watching::new(&mut step)).unwrap();
    let world = cut.expect("it came so far");
    let filer = world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap().0;
    (world, filer)
}

/// While the disk that joins is away a file comes and goes. The group that had it may still be gone back to when the disk counts; only what the
/// newest group names was given to it.
#[test]
fn what_only_older_groups_name_is_brought_behind_a_cut_in_the_look() {
    let (world, filer) = cut_off_in_the_look();
    assert!(job(&filer).is_brought && state(&filer, C) == Some(LegState::Stale), "{:?}", job(&filer));
    let (fs, cred) = (vfs(&filer), Cred::root());
    let how = CreateHow::Unchecked(mode(0o600));
    let file = patient(|| fs.create(ctx(&cred), fs.root(), b"gone", &how)).unwrap().object;
    patient(|| fs.write(ctx(&cred), file, 0, noise(3 << 20, 55), Stability::Unstable)).unwrap();
    let made = filer.pool().sync().unwrap();
    patient(|| fs.remove(ctx(&cred), fs.root(), b"gone")).unwrap();
    filer.pool().sync().unwrap();
    let (done, before) = go_on(&filer);
    assert!(done.is_whole() && before.is_some() && state(&filer, A).is_none(), "{done:?}");
    let mut alone = world.cut();
    alone.take(&[A]);
    let order = RewindOrder { to: RewindTo::Group(made), from: None };
    let (filer, _) = alone.try_to_go_back(&ImportOptions::default(), order).unwrap();
    check(&filer, "gone", 3 << 20, 55);
}

/// Makes a leaf with what files hold rot in both of its places, on each disk.
fn lose_a_leaf(world: &World, filer: &Filer, paths: &[&str]) {
    let mut leaves = Vec::new();
    filer.pool().datasets()[0].root().tree.check(&filer.pool().io, &mut |visit| {
        if let Visit::Block { bp, height: 0, .. } = visit {
            leaves.push(*bp);
        }
    });
    assert!(leaves.len() > 4, "{}", leaves.len());
    let lost = leaves[leaves.len() / 2];
    let places: Vec<_> = lost.dvas().collect();
    for (path, place) in paths.iter().flat_map(|path| places.iter().map(move |place| (path, place))) {
        world.poke(path, LABEL_BYTES + place.offset, &[0x5a; 64]);
    }
    filer.pool().io.drop_cache();
}

/// A node that has rotted stays lost, and hides what it names: all that is in use was copied as it is for it, and again behind each restart. A
/// copy that takes longer than its machine runs came to no end.
#[test]
fn all_is_copied_once_for_a_node_that_stays_lost() {
    let (world, filer) = one_disk();
    lose_a_leaf(&world, &filer, &[A]);
    let (mut cut, mut last, mut is_copied) = (None, 0, false);
    let mut step = |stage, done| {
        // The count begins anew with what is copied as it is, and the walk behind that goes on with it.
        is_copied |= done < last;
        last = done;
        if cut.is_none() && is_copied && stage == Stage::Copying && done >= 22 * MIB {
            filer.pool().sync().unwrap();
            cut = Some(world.cut());
        }
        true
    };
    let place = member(&filer, A);
    let done = filer.pool().join(&place, Path::new(C), false, &mut Watching::new(&mut step)).unwrap();
    assert!(done.secured.lost_count > 0 && done.is_whole(), "{done:?}");
    let world = cut.expect("it came so far");
    let filer = import(&world);
    assert!(job(&filer).is_copied && job(&filer).secured.hides, "{:?}", job(&filer));
    world.start_journal();
    let (done, before) = go_on(&filer);
    let given = block_bytes(&filer, &world.end_journal(), C);
    assert!(before.is_some_and(|(copied, _)| copied >= 21 * MIB), "{before:?}");
    assert!(given < 5 * MIB, "{given} bytes were written, of thirteen mebibytes");
    assert!(done.secured.lost_count > 0 && done.is_whole(), "{done:?}");
    assert_eq!(state(&filer, C), Some(LegState::Online));
}

/// A disk counted, though something could not be read for it, and failed before its replace was over. It was taken for one that never counted: no
/// spare was taken for it, and nobody looked what it alone has before it left.
#[test]
fn a_disk_that_lacked_something_and_counted_is_missed_when_it_fails() {
    const S: &str = "/disks/s";
    let (mut world, filer) = one_disk();
    world.put(vec![(S.to_owned(), World::disk(DISK))]);
    let bad = places_of(&world, 5..6)[0];
    world.faults(A).unreadable.lock().unwrap().push(bad..bad + 4096);
    let mut then = || {
        let leg = member(&filer, C).leg;
        filer.pool().roster.drop_leg(leg, &std::io::Error::other("its cable")).unwrap();
    };
    let mut counting = Counting { filer: &filer, then: Some(&mut then), first: None };
    let replaced = filer.pool().replace(&member(&filer, A), Path::new(C), false, &mut world::Watching(&mut counting));
    assert!(replaced.is_err() && state(&filer, C) == Some(LegState::Faulted), "{:?}", replaced.map(drop));
    let place = member(&filer, C);
    assert_eq!(job(&filer).leg, place.leg, "nobody has seen its end");
    add_spares(&filer.pool().roster, &world.platform(), &[S.into()], false).unwrap();
    let spare = filer.pool().roster.config().spares[0].guid;
    let mut watch = SpareWatch::default();
    assert_eq!(watch.look(filer.pool(), Duration::ZERO), []);
    let errands = watch.look(filer.pool(), Duration::from_secs(400));
    assert_eq!(errands, [SpareErrand::Take { spare, away: place.leg }]);
    let mut is_looked_at = false;
    let mut step = |stage, _| {
        is_looked_at |= stage == Stage::CheckingRest;
        true
    };
    let made_sure = filer.pool().make_sure(&place, &mut Watching::new(&mut step)).unwrap();
    // That block is right on neither.
    assert_eq!((made_sure.lost_count, made_sure.unread_count), (1, 0), "{made_sure:?}");
    assert!(is_looked_at, "what it alone has would have gone with it");
    // It has everything when all can be read, and then the old one leaves.
    world.faults(A).unreadable.lock().unwrap().clear();
    let done = filer.pool().take_back(&place, &mut Watching::new(&mut |_, _| true)).unwrap();
    assert!(done.is_whole() && !done.is_partial, "{done:?}");
    assert_eq!((state(&filer, A), state(&filer, C)), (None, Some(LegState::Online)));
}

const LATER: u64 = 8;

/// A mirror, one disk of which is out of use while eight files are written.
fn away_for_long() -> (World, Arc<Filer>) {
    let (world, filer) = of_files(World::of(&[(A, DISK), (C, DISK)], "mirror /disks/a /disks/c"));
    filer.pool().take_offline(&member(&filer, C), true, &mut Patient).unwrap();
    (0..LATER).for_each(|seed| put(&filer, &format!("later {seed}"), 1 << 20, 100 + seed));
    (0..2).for_each(|_| _ = filer.pool().sync().unwrap());
    (world, filer)
}

/// What stops the daemon while a disk is given what it has missed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Cut,
    Export,
    /// The pool stays imported.
    Refused,
}

/// Takes the disk back until so much was brought, and how far it is was written down.
fn come_back_until(world: World, filer: Arc<Filer>, end: End, at: u64) -> (World, Arc<Filer>) {
    let mut cut = None;
    let mut step = |stage, done| {
        assert_eq!(stage, Stage::Bringing);
        if done < at || cut.is_some() {
            return cut.is_none();
        }
        filer.pool().sync().unwrap();
        cut = Some(world.cut());
        false
    };
    let mut watching = Watching { is_interrupted: true, ..Watching::new(&mut step) };
    let back = filer.pool().take_back(&member(&filer, C), &mut watching);
    assert!(matches!(back, Err(MembershipError::Interrupted { .. })), "{back:?}");
    assert_eq!(state(&filer, C), Some(LegState::Resilvering));
    match end {
        End::Cut => {
            let world = cut.expect("it came so far");
            let filer = import(&world);
            (world, filer)
        }
        End::Export => {
            filer.export().unwrap();
            drop(filer);
            let filer = import(&world);
            (world, filer)
        }
        End::Refused => (world, filer),
    }
}

/// A disk that had been away was given what it missed, and the daemon ended meanwhile: it was away as before, somebody had to say `online` again, and
/// that began anew. Now it goes on by itself, with what was written since and the rest of what it had missed.
#[test]
fn a_disk_that_comes_back_goes_on_where_it_was_cut_off() {
    for end in [End::Cut, End::Export, End::Refused] {
        let (world, filer) = away_for_long();
        let (world, filer) = come_back_until(world, filer, end, 5 * MIB);
        let is_imported = end != End::Refused;
        assert_eq!(state(&filer, C), Some(if is_imported { LegState::Stale } else { LegState::Resilvering }));
        assert!(job(&filer).returns && job(&filer).copied_bytes() >= 4 * MIB, "{end:?}: {:?}", job(&filer));
        // What is written while it is not there it gets, too; and what comes when it is there it has already.
        meanwhile(&filer);
        world.start_journal();
        let (done, before) = go_on(&filer);
        let given = block_bytes(&filer, &world.end_journal(), C);
        assert!(before.is_some_and(|(copied, _)| copied >= 4 * MIB), "{end:?}: {before:?}");
        let later = if is_imported { 5 * MIB / 2 } else { 0 };
        assert!(given < 4 * MIB + later, "{end:?}: {given} bytes were written, and {before:?} had been before");
        assert!(done.is_partial && done.is_whole(), "{end:?}: {done:?}");
        check_alone(world, filer, |filer| {
            check_all(filer);
            (0..LATER).for_each(|seed| check(filer, &format!("later {seed}"), 1 << 20, 100 + seed));
        });
    }
}

/// An export interrupted it and was refused, and somebody said `online` once more before it went on: it was forgotten, and "being copied" for good.
#[test]
fn who_takes_back_a_disk_that_is_on_its_way_back_changes_nothing() {
    let (world, filer) = away_for_long();
    let (_world, filer) = come_back_until(world, filer, End::Refused, 5 * MIB);
    let again = filer.pool().take_back(&member(&filer, C), &mut Watching::new(&mut |_, _| true));
    assert!(again.is_err(), "{again:?}");
    let (done, _) = go_on(&filer);
    assert!(done.is_whole() && state(&filer, C) == Some(LegState::Online), "{done:?}");
}

/// The new disk has counted, its job is there still, and it is not found at the import. Nobody took a spare for it, as it was to go on by itself.
#[test]
fn a_spare_is_taken_for_a_new_disk_that_has_counted_and_is_missing() {
    const S: &str = "/disks/s";
    let (world, filer) = one_disk();
    let mut cut = None;
    let mut then = || cut = Some(world.cut());
    let mut counting = Counting { filer: &filer, then: Some(&mut then), first: None };
    let _goes_on = filer.pool().join(&member(&filer, A), Path::new(C), false, &mut world::Watching(&mut counting));
    let mut world = cut.expect("it counted");
    world.take(&[C]);
    let (filer, _) = world.import();
    assert_eq!((state(&filer, C), job(&filer).leg), (Some(LegState::Missing), member(&filer, C).leg));
    world.put(vec![(S.to_owned(), World::disk(DISK))]);
    add_spares(&filer.pool().roster, &world.platform(), &[S.into()], false).unwrap();
    let mut watch = SpareWatch::default();
    watch.look(filer.pool(), Duration::ZERO);
    let errands = watch.look(filer.pool(), Duration::from_secs(400));
    assert!(matches!(errands[..], [SpareErrand::Take { away, .. }] if away == member(&filer, C).leg), "{errands:?}");
}

/// Only what somebody wants goes on: not a disk that was put away since, nor one that was stopped, nor one that has failed meanwhile.
#[test]
fn a_disk_that_nobody_wants_back_any_more_stays_away() {
    for how in ["put away", "stopped", "failed"] {
        let (mut world, mut filer) = away_for_long();
        if how == "put away" {
            (world, filer) = come_back_until(world, filer, End::Cut, 5 * MIB);
            assert_eq!(look(&filer), [SpareErrand::GoOn { leg: member(&filer, C).leg }]);
            // As an import finds it: one that has missed changes.
            filer.pool().take_offline(&member(&filer, C), false, &mut Patient).unwrap();
            // Whoever was told so is told the same behind a cut.
            let cut = world.cut();
            let again = import(&cut);
            assert_eq!((state(&again, C), look(&again)), (Some(LegState::Stale), vec![]));
        } else {
            let mut step = |_, done| {
                world.faults(C).all(how == "failed" && done >= 5 * MIB);
                how == "failed" || done < 5 * MIB
            };
            let back = filer.pool().take_back(&member(&filer, C), &mut Watching::new(&mut step));
            assert!(matches!(back, Err(MembershipError::StaysAway { .. })), "{how}: {back:?}");
            world.faults(C).all(false);
        }
        assert_eq!((look(&filer), filer.pool().joins()), (vec![], vec![]), "{how}");
        filer.export().unwrap();
        drop(filer);
        filer = import(&world);
        assert_eq!((state(&filer, C), look(&filer)), (Some(LegState::Stale), vec![]), "{how}");
        meanwhile(&filer);
        let copied = filer.pool().take_back(&member(&filer, C), &mut Watching::new(&mut |_, _| true)).unwrap();
        assert!(copied.is_partial, "{how}: {copied:?}");
        check_alone(world, filer, check_all);
    }
}

/// An older copy of the disk has not what the job says was brought. It is found out also where the power goes before it has counted: all that it missed
/// is given to it.
#[test]
fn an_older_copy_of_a_disk_that_comes_back_begins_anew() {
    let (world, filer) = away_for_long();
    let mut older = None;
    let mut step = |_, done| {
        older.get_or_insert_with(|| world.content_of(C));
        done < 5 * MIB
    };
    let mut watching = Watching { is_interrupted: true, ..Watching::new(&mut step) };
    filer.pool().take_back(&member(&filer, C), &mut watching).unwrap_err();
    filer.export().unwrap();
    drop(filer);
    world.poke(C, 0, &older.unwrap());
    let mut world = world;
    for _ in 0..2 {
        let filer = import(&world);
        let mut cut = None;
        let mut step = |_, done| {
            assert!(cut.is_some() || done < 2 * MIB, "it goes on where another disk was");
            cut.get_or_insert_with(|| world.cut());
            false
        };
        let mut watching = Watching { is_interrupted: true, ..Watching::new(&mut step) };
        filer.pool().go_on_joining(&member(&filer, C), &mut watching).unwrap_err();
        assert_eq!(watching.before, None, "nothing of it is believed");
        world = cut.expect("it was given something");
    }
    let filer = import(&world);
    go_on(&filer);
    check_alone(world, filer, |filer| {
        (0..LATER).for_each(|seed| check(filer, &format!("later {seed}"), 1 << 20, 100 + seed));
    });
}

/// One that is missing when the pool comes back is a disk that is away like any other, and a spare may be taken for it. It goes on with the next import that finds it.
#[test]
fn a_spare_is_taken_for_a_disk_that_was_coming_back_and_is_missing() {
    const S: &str = "/disks/s";
    let (world, filer) = away_for_long();
    let (mut world, filer) = come_back_until(world, filer, End::Cut, 5 * MIB);
    filer.export().unwrap();
    drop(filer);
    let away = world.take(&[C]);
    world.put(vec![(S.to_owned(), World::disk(DISK))]);
    let filer = import(&world);
    add_spares(&filer.pool().roster, &world.platform(), &[S.into()], false).unwrap();
    let (mut watch, leg) = (SpareWatch::default(), member(&filer, C).leg);
    assert_eq!((state(&filer, C), watch.look(filer.pool(), Duration::ZERO)), (Some(LegState::Missing), vec![]));
    let spare = filer.pool().roster.config().spares[0].guid;
    assert_eq!(watch.look(filer.pool(), Duration::from_secs(400)), [SpareErrand::Take { spare, away: leg }]);
    filer.export().unwrap();
    drop(filer);
    world.put(away);
    let filer = import(&world);
    let (copied, before) = go_on(&filer);
    assert!(copied.is_partial && before.is_some(), "what was brought counts: {copied:?}");
    assert_eq!(state(&filer, C), Some(LegState::Online));
}
