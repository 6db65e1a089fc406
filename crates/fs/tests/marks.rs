//! What requests of sessions have changed, behind power cuts: a mark is there exactly where its change is (rules V5 to V7).

mod world;

use tally_base::{Known, SlotMark};
use tally_fs::filer::Filer;
use tally_store::pool::{RewindOrder, RewindTo};
use tally_vfs::{CreateHow, Cred, FsError, Identity, Names, ObjectRef, OpCtx, Replies};
use world::{World, done, mode, vfs};

const MIB: u64 = 1 << 20;

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
