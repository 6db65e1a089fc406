//! A disk of a mirror is away for a while, and gets what was written meanwhile, and nothing more.

mod world;

use std::sync::Arc;

use bytes::Bytes;
use tally_base::{Txg, VdevGuid};
use tally_fs::filer::{Filer, ImportOptions};
use tally_members::label::{LABEL_BYTES, LegConfig, MissedGroups};
use tally_members::roster::{ReturnError, Roster};
use tally_members::vdev::LegState;
use tally_store::alloc::UNBORN;
use tally_store::bp::{BlockKind, BlockPtr, Compression};
use tally_store::pool::membership::{Copied, MembershipError, Stage};
use tally_store::pool::{JobState, Pool, RewindOrder, RewindTo, SyncError};
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, ObjectRef, Stability};
use world::{Event, Patient, Watch, Watching, World, content, ctx, member, mode, patient, vfs};

const MIB: u64 = 1 << 20;
const DISK: u64 = 48 * MIB;
const A: &str = "/disks/a";
const B: &str = "/disks/b";

/// Bytes that cannot be compressed.
fn noise(length: usize, seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn put(filer: &Filer, name: &str, length: usize, seed: u64, stability: Stability) -> ObjectRef {
    let (fs, cred) = (vfs(filer), Cred::root());
    let how = CreateHow::Unchecked(mode(0o600));
    let file = patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).unwrap().object;
    let data = noise(length, seed);
    patient(|| fs.write(ctx(&cred), file, 0, data.clone(), stability)).unwrap();
    file
}

fn check(filer: &Filer, name: &str, length: usize, seed: u64) {
    let fs = vfs(filer);
    let (attr, _) = fs.lookup(&Cred::root(), fs.root(), name.as_bytes()).unwrap();
    assert!(content(&*fs, attr.object) == noise(length, seed), "{name}");
}

/// Six files of a mebibyte on a mirror of two.
fn mirror() -> (World, Arc<Filer>) {
    let world = World::of(&[(A, DISK), (B, DISK)], "mirror /disks/a /disks/b");
    let filer = world.create();
    for seed in 0..6 {
        put(&filer, &format!("old {seed}"), 1 << 20, seed, Stability::FileSync);
    }
    filer.pool().sync().unwrap();
    (world, filer)
}

/// What happens while the disk is away: a file is new, one is written over, one goes.
fn meanwhile(filer: &Filer) {
    put(filer, "new", 700_000, 77, Stability::FileSync);
    put(filer, "old 1", 1 << 20, 78, Stability::FileSync);
    let (fs, cred) = (vfs(filer), Cred::root());
    patient(|| fs.remove(ctx(&cred), fs.root(), b"old 2")).unwrap();
    filer.pool().sync().unwrap();
    filer.pool().sync().unwrap();
}

fn check_all(filer: &Filer) {
    [0, 3, 4, 5].into_iter().for_each(|seed| check(filer, &format!("old {seed}"), 1 << 20, seed));
    check(filer, "new", 700_000, 77);
    check(filer, "old 1", 1 << 20, 78);
}

fn state(filer: &Filer, path: &str) -> LegState {
    let place = member(filer, path);
    place.vdev.leg(place.leg).unwrap().state()
}

fn take_back(filer: &Filer) -> Copied {
    let copied = filer.pool().take_back(&member(filer, B), &mut Patient).unwrap();
    assert_eq!(state(filer, B), LegState::Online);
    copied
}

/// Nothing is wrong on the disk that came back, and it has everything alone.
fn check_alone(mut world: World, filer: Arc<Filer>) {
    let place = member(&filer, B);
    let report = filer.pool().secure(&place.vdev, &[place.leg], &mut |_| true).unwrap();
    assert_eq!((report.repaired_count, report.lost_count), (0, 0), "it lacked something: {report:?}");
    assert!(place.config.legs.iter().all(|leg| leg.missed.is_empty() && !leg.is_offline), "{:?}", place.config.legs);
    filer.export().unwrap();
    drop(filer);
    world.take(&[A]);
    check_all(&world.import().0);
}

/// Bytes of blocks that a disk was given: labels and rings are none.
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

fn strike(world: &World, filer: &Filer) {
    world.faults(B).all(true);
    put(filer, "struck", 300, 1, Stability::FileSync);
    filer.pool().sync().unwrap();
    world.faults(B).all(false);
    assert_eq!(state(filer, B), LegState::Faulted);
}

/// The whole disk was copied, however short it had been away. What it gets now is what its sibling got meanwhile.
#[test]
fn a_disk_that_was_away_gets_what_was_written_meanwhile() {
    for for_good in [None, Some(false), Some(true)] {
        let (world, filer) = mirror();
        world.start_journal();
        match for_good {
            None => strike(&world, &filer),
            Some(for_good) => {
                filer.pool().take_offline(&member(&filer, B), for_good, &mut Patient).unwrap();
                assert_eq!(state(&filer, B), LegState::Offline);
            }
        }
        meanwhile(&filer);
        let sibling = block_bytes(&filer, &world.end_journal(), A);
        world.start_journal();
        let copied = take_back(&filer);
        let returned = block_bytes(&filer, &world.end_journal(), B);
        assert!(copied.is_partial && copied.secured.checked_bytes > 1 << 20, "{copied:?}");
        assert!(10 * returned <= 11 * sibling, "{returned} bytes for {sibling} that were written meanwhile");
        check_alone(world, filer);
    }
}

/// Bytes of all that a disk was given: labels, uberblocks and rings, too.
fn all_bytes(events: &[Event], path: &str) -> u64 {
    let bytes = events.iter().filter_map(|event| match event {
        Event::Write { disk, bytes, .. } if disk == path => Some(bytes.len() as u64),
        _ => None,
    });
    bytes.sum()
}

/// All of its ring was filled with zeroes, 1/64 of the disk: a gigabyte of 64, for a disk that had been away for a second.
#[test]
fn a_disk_that_was_away_for_a_moment_gets_no_more_than_its_sibling_ring_and_labels_included() {
    const LARGE: u64 = 1 << 30;
    let world = World::of(&[(A, LARGE), (B, LARGE)], "mirror /disks/a /disks/b");
    let filer = world.create();
    (0..6).for_each(|seed| _ = put(&filer, &format!("old {seed}"), 1 << 20, seed, Stability::FileSync));
    filer.pool().sync().unwrap();
    let ring = filer.pool().roster.config().vdevs[0].ring.unwrap().length;
    world.start_journal();
    filer.pool().take_offline(&member(&filer, B), true, &mut Patient).unwrap();
    for number in 0..16 {
        put(&filer, &format!("load {number}"), 1 << 20, 100 + number, Stability::FileSync);
    }
    (0..2).for_each(|_| _ = filer.pool().sync().unwrap());
    let sibling = all_bytes(&world.end_journal(), A);
    assert!(sibling < 4 * ring, "{sibling} bytes, and a ring of {ring}");
    world.start_journal();
    assert!(take_back(&filer).is_partial);
    let returned = all_bytes(&world.end_journal(), B);
    assert!(returned > 16 * MIB && 10 * returned <= 11 * sibling, "{returned} bytes for {sibling}");
    (0..16).for_each(|number| check(&filer, &format!("load {number}"), 1 << 20, 100 + number));
}

/// Somebody who looks what a power cut would leave, with the first step.
struct Cutting<'a>(&'a World, Option<World>);

impl Watch for Cutting<'_> {
    fn on_progress(&mut self, _: Stage, _: u64) -> bool {
        self.1.get_or_insert_with(|| self.0.cut());
        true
    }
}

/// Its ring keeps what stood there when it left, of this life of the log and of those before, many laps of it. None of that
/// is taken for a frame of today, neither while it joins nor when it is all that is left.
#[test]
fn frames_of_before_in_the_ring_of_a_disk_that_came_back_are_no_frames() {
    for seed in 1..=4_u64 {
        let (mut world, mut filer) = mirror();
        let ring = filer.pool().roster.config().vdevs[0].ring.unwrap().length;
        // By name, what was acknowledged last.
        let mut files = std::collections::BTreeMap::new();
        let (mut dice, mut written) = (world::Dice(seed), 0);
        let mut acknowledge = |filer: &Filer, bytes_at_least: u64| {
            let mut bytes = 0;
            while bytes < bytes_at_least {
                let (number, seed) = (dice.below(40), written);
                let (name, length) = (format!("file {number}"), 20_000 + 500 * number as usize);
                put(filer, &name, length, seed, Stability::FileSync);
                files.insert(name, (length, seed));
                bytes += length as u64;
                written += 1;
            }
            files.clone()
        };
        for round in 0..8 {
            acknowledge(&filer, ring / 4);
            if round % 2 == 0 {
                strike(&world, &filer);
            } else {
                filer.pool().take_offline(&member(&filer, B), true, &mut Patient).unwrap();
            }
            // In some rounds less than a lap, in some more.
            for _ in 0..round / 2 {
                acknowledge(&filer, ring / 2);
                filer.pool().sync().unwrap();
            }
            let in_the_log = acknowledge(&filer, ring / 8);
            let mut cutting = Cutting(&world, None);
            // A request to the disk of before may be under way still.
            let copied = loop {
                match filer.pool().take_back(&member(&filer, B), &mut Watching(&mut cutting)) {
                    Err(MembershipError::Return(ReturnError::Held { .. })) => std::thread::yield_now(),
                    outcome => break outcome.unwrap(),
                }
            };
            let mut joining = cutting.1.expect("there was something to bring");
            assert!(copied.is_partial && state(&filer, B) == LegState::Online);
            let acknowledged = acknowledge(&filer, ring / 8);
            let mut alone = world.cut();
            alone.take(&[A]);
            if round % 3 == 0 {
                joining.take(&[B]);
            }
            for (cut, files) in [(joining, &in_the_log), (alone, &acknowledged)] {
                let found = cut.import().0;
                files.iter().for_each(|(name, (length, seed))| check(&found, name, *length, *seed));
            }
            // Another life of the log, whose frames of before have another epoch.
            if round == 4 {
                world = world.cut();
                filer = world.import().0;
            }
        }
    }
}

/// It is away over imports, some of which do not find it.
#[test]
fn what_was_missed_is_known_after_imports() {
    for away in ["offline", "struck off", "missing"] {
        let (world, mut filer) = mirror();
        match away {
            "offline" => filer.pool().take_offline(&member(&filer, B), true, &mut Patient).unwrap(),
            "struck off" => strike(&world, &filer),
            _ => {}
        }
        for is_there in [false, true, false] {
            filer.export().unwrap();
            drop(filer);
            world.faults(B).all(!is_there && away != "offline");
            filer = world.import().0;
            let expected = match (away, is_there) {
                ("offline", _) => LegState::Offline,
                (_, true) => LegState::Stale,
                (_, false) => LegState::Missing,
            };
            assert_eq!(state(&filer, B), expected, "{away}");
            put(&filer, &format!("during {is_there}"), 100_000, 5, Stability::FileSync);
        }
        meanwhile(&filer);
        world.faults(B).all(false);
        let copied = take_back(&filer);
        assert!(copied.is_partial && copied.secured.repaired_bytes < 4 << 20, "{away}: {copied:?}");
        check_alone(world, filer);
    }
}

/// Somebody under whom a block that was placed before the disk came back gets its group only with the third sync.
struct Settling {
    block: Option<BlockPtr>,
    syncs: u32,
    settled: Txg,
    missed_to: Option<Txg>,
    leg: VdevGuid,
    roster: Arc<Roster>,
}

impl Watch for Settling {
    fn on_progress(&mut self, _: Stage, _: u64) -> bool {
        self.missed_to.get_or_insert(self.roster.missed(self.leg).ranges().last().unwrap().to);
        true
    }

    fn sync(&mut self, pool: &Pool) -> Result<(), SyncError> {
        self.syncs += 1;
        if self.syncs == 3 {
            let (hold, block) = (pool.txgs.hold(None), self.block.take().unwrap());
            pool.io.settle(&block, hold.txg()).unwrap();
            self.settled = hold.txg();
        }
        pool.sync().map(|_| ())
    }
}

/// What an operation placed before the disk came back, and a later group names, is in a group that the disk is thought to
/// have, if what it has missed ends with the group that was open then. So is what the open group has placed.
#[test]
fn what_was_placed_before_it_came_back_is_missed_too() {
    let world = World::of(&[(A, DISK), (B, DISK)], "mirror /disks/a /disks/b");
    let filer = world.create_without_threads(&Default::default());
    let pool = filer.pool();
    for (seed, name) in [(0, "old 0"), (3, "old 3"), (4, "old 4"), (5, "old 5")] {
        put(&filer, name, 1 << 20, seed, Stability::Unstable);
    }
    pool.sync().unwrap();
    pool.take_offline(&member(&filer, B), true, &mut Patient).unwrap();
    put(&filer, "old 1", 1 << 20, 78, Stability::Unstable);
    put(&filer, "new", 700_000, 77, Stability::Unstable);
    let mut out = pool.io.writer(UNBORN);
    let block = out.put_bytes(BlockKind::Data, noise(100_000, 3), Compression::Off).unwrap();
    out.finish().unwrap();
    let (leg, roster) = (member(&filer, B).leg, Arc::clone(&pool.roster));
    let mut settling = Settling { block: Some(block), syncs: 0, settled: Txg(0), missed_to: None, leg, roster };
    let copied = pool.take_back(&member(&filer, B), &mut Watching(&mut settling)).unwrap();
    assert!(copied.is_partial && settling.settled > Txg(0));
    assert!(settling.missed_to.unwrap() >= settling.settled, "{:?}: {}", settling.missed_to, settling.settled);
    check_alone(world, filer);
}

/// The same of what the open group has named already.
#[test]
fn what_the_open_group_has_placed_is_missed_too() {
    let world = World::of(&[(A, DISK), (B, DISK)], "mirror /disks/a /disks/b");
    let filer = world.create_without_threads(&Default::default());
    filer.pool().take_offline(&member(&filer, B), true, &mut Patient).unwrap();
    world.start_journal();
    put(&filer, "placed", 8 << 20, 7, Stability::Unstable);
    let placed = block_bytes(&filer, &world.end_journal(), A);
    assert!(placed > 4 << 20, "{placed} bytes are placed");
    take_back(&filer);
    let place = member(&filer, B);
    let report = filer.pool().secure(&place.vdev, &[place.leg], &mut |_| true).unwrap();
    assert_eq!((report.repaired_count, report.lost_count), (0, 0), "{report:?}");
    check(&filer, "placed", 8 << 20, 7);
}

/// A file came and went while the disk was away, and the group that had it is gone back to when the disk counts: it was given what the newest one
/// names alone. So an import that goes back begins a scrub, and that gives it the rest.
#[test]
fn what_only_older_groups_name_is_given_to_it_where_one_of_them_is_gone_back_to() {
    let world = World::of(&[(A, DISK), (B, DISK)], "mirror /disks/a /disks/b");
    let filer = world.create_without_threads(&Default::default());
    filer.pool().take_offline(&member(&filer, B), true, &mut Patient).unwrap();
    put(&filer, "gone", 3 << 20, 5, Stability::Unstable);
    let made = filer.pool().sync().unwrap();
    let (fs, cred) = (vfs(&filer), Cred::root());
    patient(|| fs.remove(ctx(&cred), fs.root(), b"gone")).unwrap();
    filer.pool().sync().unwrap();
    take_back(&filer);
    let mut world = world.cut();
    let order = RewindOrder { to: RewindTo::Group(made), from: None };
    let (filer, _) = world.try_to_go_back(&ImportOptions::default(), order).unwrap();
    filer.export().unwrap();
    drop(filer);
    // Whoever runs the pool goes on with it, in this import or a later one.
    let (filer, _) = world.import();
    let job = filer.pool().scrub_job().expect("somebody knows what is to be done");
    assert_eq!((job.state, job.cursor), (JobState::Running, None));
    let report = filer.pool().scrub(&mut |_| true, &mut |_| {}).unwrap();
    assert!(report.repaired_bytes >= 3 * MIB && report.lost_count == 0, "{report:?}");
    assert!(report.space.is_some(), "it is a scrub in one piece");
    assert_eq!(filer.pool().scrub_job().map(|job| job.state), Some(JobState::Finished));
    filer.export().unwrap();
    drop(filer);
    world.take(&[A]);
    check(&world.import().0, "gone", 3 << 20, 5);
}

/// The same, and the disk is not there when the pool goes back. The scrub that the import begins looks at those that are; it counted later without what it
/// had never been given, and the other one might leave.
#[test]
fn a_disk_that_is_not_there_when_a_pool_goes_back_is_copied_whole() {
    let world = World::of(&[(A, DISK), (B, DISK)], "mirror /disks/a /disks/b");
    let filer = world.create_without_threads(&Default::default());
    filer.pool().take_offline(&member(&filer, B), true, &mut Patient).unwrap();
    put(&filer, "gone", 3 << 20, 5, Stability::Unstable);
    let made = filer.pool().sync().unwrap();
    let (fs, cred) = (vfs(&filer), Cred::root());
    patient(|| fs.remove(ctx(&cred), fs.root(), b"gone")).unwrap();
    filer.pool().sync().unwrap();
    take_back(&filer);
    let mut world = world.cut();
    let away = world.take(&[B]);
    let order = RewindOrder { to: RewindTo::Group(made), from: None };
    let (filer, _) = world.try_to_go_back(&ImportOptions::default(), order).unwrap();
    filer.pool().scrub(&mut |_| true, &mut |_| {}).unwrap();
    filer.export().unwrap();
    drop(filer);
    world.put(away);
    let (filer, _) = world.import();
    let copied = filer.pool().take_back(&member(&filer, B), &mut Patient).unwrap();
    assert!(!copied.is_partial && copied.is_whole(), "{copied:?}");
    filer.export().unwrap();
    drop(filer);
    world.take(&[A]);
    check(&world.import().0, "gone", 3 << 20, 5);
}

/// Somebody under whom the disk fails when it has got this far.
struct Failing<'a> {
    world: &'a World,
    filer: &'a Filer,
    at: u64,
}

impl Watch for Failing<'_> {
    fn on_progress(&mut self, _: Stage, done: u64) -> bool {
        if done >= self.at {
            self.world.faults(B).all(true);
        }
        true
    }

    fn sync(&mut self, pool: &Pool) -> Result<(), SyncError> {
        if self.at == 0 {
            put(self.filer, "beside it", 50_000, 9, Stability::FileSync);
        }
        pool.sync().map(|_| ())
    }
}

/// Struck off again while it is brought up to date, or cut off by the power: what was not finished is missed still.
#[test]
fn what_was_not_finished_is_missed_still() {
    for (at, is_cut) in [(0, false), (1, false), (600_000, false), (1 << 20, false), (600_000, true)] {
        let (world, filer) = mirror();
        strike(&world, &filer);
        meanwhile(&filer);
        let mut failing = Failing { world: &world, filer: &filer, at };
        let back = filer.pool().take_back(&member(&filer, B), &mut Watching(&mut failing));
        assert!(matches!(back, Err(MembershipError::StaysAway { .. })), "{at}: {back:?}");
        put(&filer, "old 5", 1 << 20, 5, Stability::FileSync);
        filer.pool().sync().unwrap();
        world.faults(B).all(false);
        let (world, filer) = if is_cut {
            let world = world.cut();
            let filer = world.import().0;
            (world, filer)
        } else {
            (world, filer)
        };
        assert!(take_back(&filer).is_partial, "{at}");
        check_alone(world, filer);
    }
}

/// Somebody under whom the power goes when so much was brought, and before that some groups are synced: keeps what the
/// other disk was like before those, and the world of the cut.
struct CutBehindGroups<'a> {
    world: &'a World,
    filer: &'a Filer,
    older: Option<Vec<u8>>,
    cut: Option<World>,
}

impl Watch for CutBehindGroups<'_> {
    fn on_progress(&mut self, _: Stage, done: u64) -> bool {
        if done < 600_000 || self.cut.is_some() {
            return self.cut.is_none();
        }
        self.older = Some(self.world.content_of(A));
        for seed in 0..6 {
            put(self.filer, &format!("given up {seed}"), 10_000, seed, Stability::FileSync);
            self.filer.pool().sync().unwrap();
        }
        self.cut = Some(self.world.cut());
        false
    }
}

/// The power goes while a disk is brought up to date, and the one that has everything is put back to an older copy of itself,
/// of some groups before, when the other was coming back already. It goes on alone, and its groups get numbers that have
/// been there: by its uberblocks the other disk has them, and by its list it was away before. What an import finds
/// unfinished goes on being missed from the group that it has chosen (rules S9).
#[test]
fn groups_that_are_drawn_again_without_it_are_missed() {
    let (world, filer) = mirror();
    strike(&world, &filer);
    meanwhile(&filer);
    let mut asker = CutBehindGroups { world: &world, filer: &filer, older: None, cut: None };
    let back = filer.pool().take_back(&member(&filer, B), &mut Watching(&mut asker));
    assert!(matches!(back, Err(MembershipError::StaysAway { .. })), "{back:?}");
    let (older, world) = (asker.older.unwrap(), asker.cut.unwrap());
    let seen = filer.pool().txgs.last_synced();
    world.poke(A, 0, &older);
    world.faults(B).all(true);
    let filer = world.import().0;
    put(&filer, "old 5", 1 << 20, 5, Stability::FileSync);
    filer.pool().sync().unwrap();
    assert!(filer.pool().txgs.last_synced() <= seen, "its numbers have not been there");
    world.faults(B).all(false);
    assert!(take_back(&filer).is_partial);
    check_alone(world, filer);
}

/// A log disk failed, and its lane ended: its ring may be the only place of frames that were acknowledged.
#[test]
fn the_frames_of_a_log_disk_stay_where_they_are() {
    let world = World::of(&[(A, DISK), ("/disks/l", 4 * MIB)], "/disks/a log /disks/l");
    let filer = world.create();
    put(&filer, "old 0", 300, 1, Stability::FileSync);
    world.faults("/disks/l").all(true);
    put(&filer, "old 1", 300, 2, Stability::FileSync);
    world.faults("/disks/l").all(false);
    assert_eq!(state(&filer, "/disks/l"), LegState::Faulted);
    let ring = world.content_of("/disks/l");
    let refused = filer.pool().take_back(&member(&filer, "/disks/l"), &mut Patient).unwrap_err().to_string();
    assert!(refused.contains("intent log") && refused.contains("import it again"), "{refused}");
    assert!(world.content_of("/disks/l") == ring, "it was written to");
    filer.export().unwrap();
    drop(filer);
    let (filer, _) = world.import();
    assert_eq!(state(&filer, "/disks/l"), LegState::Online);
    (0..2).for_each(|seed| check(&filer, &format!("old {seed}"), 300, seed + 1));
}

/// An older copy of the disk lacks what was written since, and says so itself.
#[test]
fn an_older_copy_of_the_disk_lacks_what_it_does_not_know() {
    let (world, filer) = mirror();
    let older = world.content_of(B);
    put(&filer, "old 3", 1 << 20, 3, Stability::FileSync);
    put(&filer, "old 4", 1 << 20, 4, Stability::FileSync);
    filer.pool().sync().unwrap();
    filer.pool().take_offline(&member(&filer, B), true, &mut Patient).unwrap();
    world.poke(B, 0, &older);
    meanwhile(&filer);
    take_back(&filer);
    check_alone(world, filer);
}

/// Nothing is known of a disk without a word of its own, or of one that was left behind when nobody noted what it missed: it
/// gets everything.
#[test]
fn without_a_history_everything_is_copied() {
    let (world, filer) = mirror();
    filer.pool().take_offline(&member(&filer, B), true, &mut Patient).unwrap();
    // Its uberblocks are gone.
    for label in [0, DISK - LABEL_BYTES] {
        world.poke(B, label + (128 << 10), &[0; 64 << 10]);
    }
    meanwhile(&filer);
    assert!(!take_back(&filer).is_partial);
    check_alone(world, filer);
}

/// A request of before is under way still: when it comes home it may write over a block of today.
#[test]
fn a_disk_that_still_owes_an_answer_is_not_taken_back() {
    let (world, filer) = mirror();
    let place = member(&filer, B);
    let hangs = Arc::clone(place.vdev.leg(place.leg).unwrap().disk().unwrap());
    strike(&world, &filer);
    meanwhile(&filer);
    let refused = filer.pool().take_back(&member(&filer, B), &mut Patient).unwrap_err().to_string();
    assert!(refused.contains("a request of before"), "{refused}");
    drop(hangs);
    assert!(take_back(&filer).is_partial);
    check_alone(world, filer);
}

/// Another disk at its path, or none, is not taken for it; and it is not taken back twice.
#[test]
fn only_the_disk_that_left_is_taken_back() {
    let (world, filer) = mirror();
    let refused = |filer: &Filer| filer.pool().take_back(&member(filer, B), &mut Patient).unwrap_err().to_string();
    assert!(refused(&filer).contains("in use already"));
    filer.pool().take_offline(&member(&filer, B), true, &mut Patient).unwrap();
    meanwhile(&filer);
    let (own, others) = (world.content_of(B), world.content_of(A));
    world.poke(B, 0, &others);
    assert!(refused(&filer).contains("another disk"));
    world.poke(B, 0, &vec![0; DISK as usize]);
    assert!(refused(&filer).contains("cannot be taken back"));
    world.faults(B).all(true);
    assert!(refused(&filer).contains("cannot be"));
    world.faults(B).all(false);
    assert_eq!(state(&filer, B), LegState::Offline);
    world.poke(B, 0, &own);
    assert!(take_back(&filer).is_partial);
    check_alone(world, filer);
}

/// Somebody under whom the labels are full, and forget what the disk lacks for whatever else must stand there.
struct Forgetting(Arc<Roster>);

impl Watch for Forgetting {
    fn sync(&mut self, pool: &Pool) -> Result<(), SyncError> {
        let forget = |leg: &mut LegConfig| leg.missed = MissedGroups::default();
        self.0.update(|config| config.vdevs[0].legs.iter_mut().for_each(forget)).unwrap();
        pool.sync().map(|_| ())
    }
}

/// Its list was forgotten between the look at it and the end of what it missed: an empty list was taken for nothing that is
/// missed, and the disk counted with nothing of it.
#[test]
fn a_disk_whose_list_is_forgotten_while_it_comes_back_gets_everything() {
    let (world, filer) = mirror();
    filer.pool().take_offline(&member(&filer, B), true, &mut Patient).unwrap();
    meanwhile(&filer);
    let mut asker = Forgetting(Arc::clone(&filer.pool().roster));
    let copied = filer.pool().take_back(&member(&filer, B), &mut Watching(&mut asker)).unwrap();
    assert!(!copied.is_partial, "{copied:?}");
    check_alone(world, filer);
}

/// It went on without the others, and is not taken back: it stays what it is called, and what it has can still be asked for.
#[test]
fn a_disk_that_is_refused_stays_where_it_was() {
    let (world, filer) = mirror();
    let alone = world.cut();
    alone.faults(A).all(true);
    let went_on = alone.import().0;
    put(&went_on, "of its own", 300, 1, Stability::FileSync);
    went_on.export().unwrap();
    drop(went_on);
    strike(&world, &filer);
    meanwhile(&filer);
    world.poke(B, 0, &alone.content_of(B));
    let refused = filer.pool().take_back(&member(&filer, B), &mut Patient).unwrap_err().to_string();
    assert!(refused.contains("went on without"), "{refused}");
    let place = member(&filer, B);
    assert!(state(&filer, B) == LegState::Stale && place.vdev.leg(place.leg).unwrap().disk().is_some());
}

/// Whoever has the last of anything stays: that is asked of what the others have missed, and not of what they are called.
#[test]
fn the_last_one_that_has_everything_stays() {
    let (world, filer) = mirror();
    let offline = |path: &str| filer.pool().take_offline(&member(&filer, path), true, &mut Patient);
    // B was away, and something of what it missed can be read nowhere when it comes back.
    offline(B).unwrap();
    put(&filer, "new", 700_000, 77, Stability::FileSync);
    filer.pool().sync().unwrap();
    assert!(offline(A).unwrap_err().to_string().contains("everything"));
    let blocks = world.content_of(A);
    let needle = noise(700_000, 77);
    let at = blocks.windows(64).position(|bytes| *bytes == needle[..64]).expect("it is not compressed") as u64;
    world.faults(A).unreadable.lock().unwrap().push(at..at + 4096);
    filer.pool().io.drop_cache();
    let copied = filer.pool().take_back(&member(&filer, B), &mut Patient).unwrap();
    assert!(copied.secured.unread_count > 0 && state(&filer, B) == LegState::Online, "{copied:?}");
    assert!(offline(A).unwrap_err().to_string().contains("everything"), "a block of {copied:?} is on A alone");
    offline(B).unwrap();
    filer.pool().take_back(&member(&filer, B), &mut Patient).unwrap();
    world.faults(A).unreadable.lock().unwrap().clear();
    // It can be read again, and a scrub gives it to whoever lacks it.
    filer.pool().scrub(&mut |_| true, &mut |_| {}).unwrap();
    offline(A).unwrap();
    check(&filer, "new", 700_000, 77);
    assert!(offline(B).unwrap_err().to_string().contains("everything"));
}

/// A disk was away during a scrub, and came back without a block that could be read nowhere at that moment, in a file that the
/// scrub had been to: the scrub said that it lacks nothing any more, and the only disk with that block could be taken away.
#[test]
fn a_scrub_does_not_speak_for_a_disk_that_was_away_meanwhile() {
    let (world, filer) = mirror();
    let pool = filer.pool();
    let mut has_been_away = false;
    let mut progress = |done: u64| {
        if done < 2 << 20 || std::mem::replace(&mut has_been_away, true) {
            return true;
        }
        pool.take_offline(&member(&filer, B), true, &mut Patient).unwrap();
        put(&filer, "old 0", 1 << 20, 99, Stability::FileSync);
        pool.sync().unwrap();
        let (blocks, needle) = (world.content_of(A), noise(1 << 20, 99));
        let at = blocks.windows(64).position(|bytes| *bytes == needle[..64]).expect("it is not compressed") as u64;
        world.faults(A).unreadable.lock().unwrap().push(at..at + 4096);
        pool.io.drop_cache();
        assert!(take_back(&filer).secured.unread_count > 0);
        world.faults(A).unreadable.lock().unwrap().clear();
        true
    };
    let report = pool.scrub(&mut progress, &mut |_| {}).unwrap();
    assert!(has_been_away && report.unread_count == 0, "{report:?}");
    let refused = pool.take_offline(&member(&filer, A), true, &mut Patient);
    assert!(refused.is_err_and(|error| error.to_string().contains("everything")), "a block is on it alone");
    pool.scrub(&mut |_| true, &mut |_| {}).unwrap();
    pool.take_offline(&member(&filer, A), true, &mut Patient).unwrap();
    check(&filer, "old 0", 1 << 20, 99);
}

/// Nobody is taken out of a pool that may not be written.
#[test]
fn a_pool_for_reading_only_keeps_its_disks() {
    let (world, filer) = mirror();
    filer.export().unwrap();
    drop(filer);
    let options = ImportOptions { read_only: true, ..ImportOptions::default() };
    let filer = world.try_import_without_threads(&Tuning::default(), &options).unwrap().0;
    filer.pool().take_offline(&member(&filer, B), true, &mut Patient).unwrap_err();
    filer.pool().take_back(&member(&filer, B), &mut Patient).unwrap_err();
    assert_eq!(state(&filer, B), LegState::Online);
}
