//! What requests of sessions have changed, behind power cuts: a mark is there exactly where its change is (rules V5 to V7).

mod world;

use std::collections::BTreeSet;

use tally_base::{Known, SECTOR, SlotMark};
use tally_fs::filer::Filer;
use tally_fs::inspect::FsWords;
use tally_members::discover::ImportSource;
use tally_store::inspect::{Plan, inspect};
use tally_store::pool::{RewindOrder, RewindTo};
use tally_vfs::{CreateHow, Cred, FsError, Identity, Names, ObjectRef, OpCtx, Replies};
use world::{World, done, mode, vfs};

const MIB: u64 = 1 << 20;
const DISK: &str = "/disks/data";
const LOG: &str = "/disks/slog";

fn mark(slot: u32, sequence: u32) -> SlotMark {
    SlotMark { session: *b"a session of one", slot, operation: 2, sequence, fingerprint: 77 }
}

fn name(number: u32) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn make(filer: &Filer, name: &[u8], mark: SlotMark) -> Result<ObjectRef, FsError> {
    let (fs, cred) = (vfs(filer), Cred::root());
    let asked = OpCtx { mark: Some(mark), ..OpCtx::of(&cred) };
    done(fs.create(asked, fs.root(), name, &CreateHow::Guarded(mode(0o600)))).map(|made| made.object)
}

fn performed(filer: &Filer, mark: &SlotMark) -> Option<ObjectRef> {
    vfs(filer).performed(mark).and_then(|told| told.object)
}

#[test]
fn a_mark_is_in_the_log_and_then_in_the_catalog() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let made = make(&filer, b"file", mark(3, 1)).unwrap();
    let from_log = world.cut();
    for _ in 0..3 {
        filer.sync().unwrap();
    }
    filer.pool().check_catalog().unwrap();
    let failed = make(&filer, b"file", mark(4, 1));
    assert_eq!(failed, Err(FsError::Exists));
    for disks in [from_log, world.cut()] {
        let (after, _) = disks.import();
        assert_eq!(performed(&after, &mark(3, 1)), Some(made));
        let known = |mark: &SlotMark| vfs(&after).known(mark);
        assert_eq!(known(&SlotMark { operation: 0, ..mark(3, 1) }), Known::Request);
        assert_eq!(known(&mark(4, 1)), Known::Session, "what failed leaves none");
        for other in [mark(3, 2), mark(2, 1), SlotMark { fingerprint: 78, ..mark(3, 1) }] {
            assert_eq!((performed(&after, &other), known(&other)), (None, Known::Session), "{other:?}");
        }
        assert_eq!(known(&SlotMark { session: [9; 16], ..mark(3, 1) }), Known::Nothing);
        after.sync().unwrap();
        after.pool().check_catalog().unwrap();
        // And in the life behind that.
        let (after, _) = disks.cut().import();
        assert_eq!(performed(&after, &mark(3, 1)), Some(made));
    }
}

/// A program from before marks is to say that the record is newer, and not that it is damaged: its head says so. What has no mark it reads.
#[test]
fn a_record_says_in_its_head_that_it_has_a_mark() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let (fs, cred) = (vfs(&filer), Cred::root());
    done(fs.create(OpCtx::of(&cred), fs.root(), b"plain", &CreateHow::Guarded(mode(0o600)))).unwrap();
    make(&filer, b"marked", mark(3, 1)).unwrap();
    let disks = world.cut();
    let (source, mut forms) = (ImportSource { paths: vec![DISK.into(), LOG.into()], dirs: vec![] }, Vec::new());
    inspect(&*disks.platform().opener, &source, &Plan { verbose: true, ..Plan::default() }, &FsWords, &mut |fact| {
        if fact.what == "record" {
            let form = fact.fields.iter().find(|(name, _)| *name == "form");
            forms.push(form.map(|(_, form)| form.to_string()));
        }
    })
    .unwrap();
    assert_eq!(forms, [None, Some("1".to_owned())]);
}

/// The next request of a slot takes the place of the last one, of which nobody asks any more.
#[test]
fn a_slot_has_the_marks_of_its_last_request_alone() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    for number in 1..=200_u32 {
        make(&filer, &name(number), mark(number % 5, number)).unwrap();
        if number % 50 == 0 {
            filer.sync().unwrap();
        }
    }
    assert_eq!(filer.pool().marks.count(), 5);
    let (after, _) = world.cut().import();
    assert_eq!(after.pool().marks.count(), 5);
    for number in 1..=200 {
        assert_eq!(performed(&after, &mark(number % 5, number)).is_some(), number > 195, "{number}");
    }
    vfs(&after).forget_session(&mark(0, 0).session);
    assert_eq!(vfs(&after).known(&mark(0, 200)), Known::Nothing);
    after.sync().unwrap();
    after.pool().check_catalog().unwrap();
    let (after, _) = world.cut().import();
    assert_eq!(after.pool().marks.count(), 5, "that was of the other copy");
}

/// A replay goes dataset by dataset, and not in the order in which they were changed.
#[test]
fn a_replay_remembers_the_last_request_of_a_slot_whichever_dataset_it_changed() {
    let world = World::new(128 * MIB, 4 * MIB);
    let filer = world.create();
    let child = filer.create_dataset("tank/child", Default::default(), (0, 0)).unwrap();
    filer.sync().unwrap();
    let cred = Cred::root();
    // Their sequences go round.
    let (older, newer) = (mark(1, u32::MAX), mark(1, 0));
    let asked = OpCtx { mark: Some(older), ..OpCtx::of(&cred) };
    done(child.create(asked, child.root(), b"older", &CreateHow::Guarded(mode(0o600)))).unwrap();
    let made = make(&filer, b"newer", newer).unwrap();
    assert!(vfs(&filer).dataset() < child.dataset());
    let (after, _) = world.cut().import();
    assert_eq!((performed(&after, &newer), vfs(&after).known(&older)), (Some(made), Known::Session));
    after.sync().unwrap();
    after.pool().check_catalog().unwrap();
}

/// Cut behind each write that a burst of them takes: a file and its mark are there together, or neither is.
#[test]
fn a_change_and_its_mark_are_one() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create_without_threads(&Default::default());
    let mut cuts = Vec::new();
    for number in 1..=40_u32 {
        make(&filer, &name(number), mark(number % 3, number)).unwrap();
        if number % 4 == 0 {
            cuts.push(world.cut());
        }
        if number % 7 == 0 {
            // In the middle of a group.
            let before = world.cut();
            before.lose_power_after(u64::from(number));
            if let Ok((after, _)) = before.try_import(&Default::default()) {
                drop(after.sync());
            }
            before.lose_power_after(u64::MAX);
            cuts.push(before.cut());
            filer.sync().unwrap();
        }
    }
    let cred = Cred::root();
    for disks in cuts {
        let (after, _) = disks.import();
        let fs = vfs(&after);
        let there: Vec<u32> =
            (1..=40).filter(|number: &u32| fs.lookup(&cred, fs.root(), &name(*number)).is_ok()).collect();
        let last = there.iter().copied().max().unwrap_or_default();
        for number in 1..=40 {
            let is_last_of_slot = number <= last && number + 3 > last;
            assert_eq!(performed(&after, &mark(number % 3, number)).is_some(), is_last_of_slot, "{number} of {last}");
        }
    }
}

/// A rotten node of the catalog with marks costs those sessions of which it may have had some, and keeps nobody from his files. Of them nothing is known at all, also from the log,
/// and also in the lives behind: that a session is known says that what has no mark was not done.
#[test]
fn a_rotten_node_of_marks_costs_its_sessions_alone() {
    const SESSIONS: u32 = 24;
    let of = |session: u32, slot| SlotMark { session: [session as u8 * 10; 16], ..mark(slot, 1) };
    let world = World::without_log(64 * MIB);
    let filer = world.create_without_threads(&Default::default());
    for (session, slot) in (0..SESSIONS).flat_map(|session| (0..24).map(move |slot| (session, slot))) {
        if slot == 0 {
            filer.sync().unwrap();
        }
        let (fs, cred) = (vfs(&filer), Cred::root());
        let asked = OpCtx { mark: Some(of(session, slot)), ..OpCtx::of(&cred) };
        fs.create(asked, fs.root(), &name(session * 24 + slot), &CreateHow::Guarded(mode(0o600))).result.unwrap();
    }
    filer.sync().unwrap();
    let leaves = leaves_of_marks(&world);
    assert!(leaves.len() >= 3, "{leaves:?}");
    // What is in the log alone: of a new session, and one of each old one.
    for session in 0..=SESSIONS {
        let (fs, cred) = (vfs(&filer), Cred::root());
        let asked = OpCtx { mark: Some(SlotMark { slot: 30, ..of(session, 0) }), ..OpCtx::of(&cred) };
        done(fs.create(asked, fs.root(), &name(10_000 + session), &CreateHow::Guarded(mode(0o600)))).unwrap();
    }
    let mut lost_at_all = 0;
    for leaf in leaves {
        let rotten = world.cut();
        let content = rotten.content_of(DISK);
        let sector = &content[leaf as usize..][..SECTOR];
        let places = content.chunks(SECTOR).zip(0_u64..).filter(|(other, _)| *other == sector);
        let places: Vec<_> = places.map(|(_, number)| number * SECTOR as u64).collect();
        assert_eq!(places.len(), 2, "each node of the catalog has two");
        let turned: Vec<_> = sector.iter().map(|byte| !byte).collect();
        places.iter().for_each(|place| rotten.poke(DISK, *place, &turned));
        let (after, report) = rotten.try_import_without_threads(&Default::default(), &Default::default()).unwrap();
        assert!(
            report.remarks.iter().any(|remark| remark.contains("those sessions are forgotten")),
            "{:?}",
            report.remarks
        );
        let fs = vfs(&after);
        for number in (0..SESSIONS * 24).chain(10_000..=10_000 + SESSIONS) {
            assert!(fs.lookup(&Cred::root(), fs.root(), &name(number)).is_ok(), "{number}");
        }
        let known = |filer: &Filer| -> Vec<_> {
            let of_session = |session| (0..24).chain([30]).map(move |slot| SlotMark { slot, ..of(session, 0) });
            let known = |mark: SlotMark| vfs(filer).known(&mark);
            (0..SESSIONS).map(|session| of_session(session).map(known).collect::<Vec<_>>()).collect()
        };
        let told = known(&after);
        let is_lost = |told: &&Vec<Known>| told.iter().all(|known| *known == Known::Nothing);
        let is_whole = |told: &&Vec<Known>| told.iter().all(|known| *known == Known::Request);
        let (lost, whole) = (told.iter().filter(is_lost).count(), told.iter().filter(is_whole).count());
        assert_eq!(lost + whole, SESSIONS as usize, "all of a session, or nothing: {told:?}");
        assert!(lost > 0 && whole > 0, "{lost} of {SESSIONS}");
        lost_at_all += lost;
        after.pool().check_catalog().unwrap();
        after.sync().unwrap();
        // Whole again, and as honest.
        let (again, report) =
            rotten.cut().try_import_without_threads(&Default::default(), &Default::default()).unwrap();
        assert_eq!((known(&again), report.remarks), (told, Vec::<String>::new()));
    }
    assert!(lost_at_all >= SESSIONS as usize, "{lost_at_all}");
}

/// Where the leaves of the catalog with marks are.
fn leaves_of_marks(world: &World) -> BTreeSet<u64> {
    let (source, mut leaves) = (ImportSource { paths: vec![DISK.into()], dirs: vec![] }, BTreeSet::new());
    inspect(&*world.platform().opener, &source, &Plan { verbose: true, ..Plan::default() }, &FsWords, &mut |fact| {
        if fact.what == "mark" {
            leaves.insert(fact.source.as_ref().unwrap().offset);
        }
    })
    .unwrap();
    leaves
}

/// What a client sends again that was carried out in what was given up, and what was done to a dataset that is gone.
#[test]
fn nothing_is_told_of_what_is_gone() {
    let world = World::new(128 * MIB, 4 * MIB);
    let filer = world.create_without_threads(&Default::default());
    filer.sync().unwrap();
    let group = filer.pool().txgs.last_synced();
    make(&filer, b"before", mark(1, 0)).unwrap();
    filer.sync().unwrap();
    make(&filer, b"file", mark(1, 1)).unwrap();
    for is_synced in [false, true] {
        if is_synced {
            filer.sync().unwrap();
        }
        let (back, _) = world
            .cut()
            .try_to_go_back(&Default::default(), RewindOrder { to: RewindTo::Group(group), from: None })
            .unwrap();
        assert_eq!(vfs(&back).known(&mark(1, 1)), Known::Nothing);
        back.sync().unwrap();
        back.pool().check_catalog().unwrap();
    }
    let child = filer.create_dataset("tank/child", Default::default(), (0, 0)).unwrap();
    let cred = Cred::root();
    let asked = OpCtx { mark: Some(mark(2, 1)), ..OpCtx::of(&cred) };
    done(child.create(asked, child.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap();
    assert_eq!((child.performed(&mark(2, 1)).is_some(), performed(&filer, &mark(2, 1))), (true, None));
    filer.sync().unwrap();
    filer.destroy_dataset("tank/child", false).unwrap();
    assert_eq!(vfs(&filer).known(&mark(2, 1)), Known::Session);
    filer.sync().unwrap();
    filer.pool().check_catalog().unwrap();
    let (after, _) = world.cut().import();
    assert_eq!((vfs(&after).known(&mark(1, 1)), after.pool().marks.count()), (Known::Request, 1));
}
