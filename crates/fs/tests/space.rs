//! What a scrub finds out of space: what is allocated and named by nothing is given back, what is named and free, or named
//! twice, is fenced off and told; and nothing that somebody has is ever taken for a leak, whatever happens beside it.

mod world;

#[path = "../../sim/src/sound.rs"]
#[allow(dead_code, unreachable_pub)]
mod sound;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tally_base::{Clock, SystemClock, Time};
use tally_fs::Filer;
use tally_fs::filer::CreateOptions;
use tally_store::bp::{BLOCK_PTR_BYTES, BlockPtr};
use tally_store::key::Class;
use tally_store::pool::{JobState, ScrubEvery, SecureError, SpaceFound};
use tally_store::properties::PropertySet;
use tally_store::tree::Visit;
use tally_vfs::{CreateHow, Cred, FsError, Identity, ObjectRef, SetAttr, Stability, Vfs};
use world::{Dice, World, content, ctx, mode, noise, patient, vfs};

const MIB: u64 = 1 << 20;
const LABEL: u64 = tally_members::label::LABEL_BYTES;
const DATA: &str = "/disks/data";

fn make(fs: &dyn Vfs, name: &str, length: usize, seed: u64) -> ObjectRef {
    let (cred, how) = (Cred::root(), CreateHow::Guarded(mode(0o600)));
    let file = patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).unwrap().object;
    let data = noise(length, seed);
    patient(|| fs.write(ctx(&cred), file, 0, data.clone(), Stability::FileSync)).unwrap();
    file
}

/// The blocks of a dataset's content, by object and offset; and the nodes of its tree of a class, leaves first.
fn blocks(filer: &Filer, dataset: &str) -> (BTreeMap<(u64, u64), BlockPtr>, Vec<BlockPtr>) {
    let (mut content, mut leaves, mut last) = (BTreeMap::new(), Vec::new(), None);
    let id = filer.by_name(dataset).unwrap().dataset();
    let root = filer.pool().dataset(id).unwrap().root();
    root.tree.check(&filer.pool().io, &mut |visit| match visit {
        Visit::Block { bp, height: 0, .. } => last = Some(*bp),
        Visit::Entry { key, value } if key.class == Class::Extent => {
            let bytes: &[u8; BLOCK_PTR_BYTES] = value.try_into().unwrap();
            content.insert((key.object, key.a), BlockPtr::decode(bytes).unwrap());
            leaves.extend(last.take());
        }
        _ => {}
    });
    (content, leaves)
}

fn spoil(world: &World, bp: &BlockPtr) {
    for dva in bp.dvas() {
        let at = LABEL + dva.offset;
        let sector = world.content_of(DATA)[at as usize..][..64].iter().map(|byte| !byte).collect::<Vec<_>>();
        world.poke(DATA, at, &sector);
    }
}

fn syncs(filer: &Filer, count: usize) {
    for _ in 0..count {
        filer.sync().unwrap();
    }
}

fn scrub(filer: &Filer) -> SpaceFound {
    let report = filer.scrub(&mut |_| true).unwrap();
    report.space.expect("it ran in one piece")
}

/// A pool of which a dataset was destroyed whose extents could not be read: gives what they have left behind.
fn with_a_leak() -> (World, Arc<Filer>, u64) {
    let world = World::new(32 * MIB, 4 * MIB);
    let filer = world.create();
    make(&*vfs(&filer), "bystander", 300_000, 1);
    let child = filer.create_dataset("tank/child", PropertySet::new(), (0, 0)).unwrap();
    make(&*child, "file", 1 << 20, 2);
    syncs(&filer, 1);
    let (content, leaves) = blocks(&filer, "tank/child");
    let left: u64 = content.values().map(BlockPtr::asize).sum();
    assert!(left >= MIB && leaves.len() == 1);
    let cut = world.cut();
    spoil(&cut, &leaves[0]);
    let (filer, _) = cut.import();
    (cut, filer, left)
}

/// What a destroyed dataset had lost sight of stayed allocated for ever, and was counted until the next import.
#[test]
fn what_nothing_names_is_given_back_by_a_scrub() {
    let (_world, filer, left) = with_a_leak();
    filer.destroy_dataset("tank/child", false).unwrap();
    syncs(&filer, 3);
    assert_eq!(filer.pool().io.leak_count(), 1);
    // The node that could not be read is gone, and `status` named a damaged block until the next import.
    assert_eq!(filer.pool().io.unrepaired_count(), 0);
    let free = |filer: &Filer| {
        let space = filer.pool().io.allocator().space();
        space.free + space.deferred
    };
    let before = free(&filer);
    let found = scrub(&filer);
    assert_eq!(found, SpaceFound { leaked_bytes: left, given_bytes: left, ..SpaceFound::default() });
    syncs(&filer, 1);
    assert!(free(&filer) >= before + left - MIB / 4, "{} is free, and was {before}", free(&filer));
    assert_eq!(filer.pool().io.leak_count(), 0, "nothing of it is left");
    assert_eq!(filer.pool().scrub_job().unwrap().report.space, Some(found), "`status` remembers it");
    assert_eq!(scrub(&filer), SpaceFound::default(), "there was no more");
    syncs(&filer, 3);
    sound::sound(&filer).unwrap();
}

/// While the node is there that cannot be read, what it names is somebody's: the disk may be read again.
#[test]
fn nothing_is_given_back_while_a_node_cannot_be_read() {
    let (_world, filer, left) = with_a_leak();
    let found = scrub(&filer);
    assert_eq!(found, SpaceFound { leaked_bytes: left, hidden: true, ..SpaceFound::default() });
}

/// A scrub that was interrupted does not know what was met before, and judges nothing.
#[test]
fn a_scrub_in_parts_does_not_judge_space() {
    let (_world, filer, _) = with_a_leak();
    filer.destroy_dataset("tank/child", false).unwrap();
    let other = filer.create_dataset("tank/other", PropertySet::new(), (0, 0)).unwrap();
    make(&*other, "file", 300_000, 3);
    syncs(&filer, 3);
    let before = filer.pool().io.allocator().space();
    // Where nothing has been passed yet the next one begins with everything.
    let stopped = filer.scrub(&mut |_| filer.pool().scrub_job().is_none_or(|job| job.cursor.is_none()));
    assert!(matches!(stopped, Err(SecureError::Stopped)));
    let report = filer.scrub(&mut |_| true).unwrap();
    assert_eq!((report.space, filer.pool().scrub_job().unwrap().state), (None, JobState::Finished));
    syncs(&filer, 3);
    let after = filer.pool().io.allocator().space();
    assert!(after.allocated + MIB > before.allocated && filer.pool().io.leak_count() == 1);
    assert!(scrub(&filer).given_bytes >= MIB, "the next one, in one piece, does");
}

/// Fills the pool with files until it is full; gives how many.
fn fill(fs: &dyn Vfs) -> usize {
    let (cred, how) = (Cred::root(), CreateHow::Guarded(mode(0o600)));
    for number in 0.. {
        let name = format!("filler {number}");
        let Ok(made) = patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)) else { return number };
        let data = noise(200_000, number as u64);
        let written = patient(|| fs.write(ctx(&cred), made.object, 0, data.clone(), Stability::FileSync));
        if matches!(written, Err(FsError::NoSpace)) {
            return number;
        }
    }
    unreachable!()
}

/// A file's block was given back while the file named it, as faulty software would: the next file would be written over it.
#[test]
fn what_is_named_and_free_is_never_written_over() {
    // The list with the block on it waits, or the block is free in the map.
    for groups in [0, 1, 5, 140] {
        let world = World::new(32 * MIB, 4 * MIB);
        let filer = world.create();
        let fs = vfs(&filer);
        let file = make(&*fs, "file", 131_072, 7);
        make(&*fs, "beside", 131_072, 8);
        syncs(&filer, 1);
        let (content_blocks, _) = blocks(&filer, "tank");
        let block = content_blocks[&(file.id.0, 0)];
        filer.pool().io.allocator().free(block.dva, filer.pool().txgs.open());
        syncs(&filer, groups);
        let found = scrub(&filer);
        assert_eq!(found.alarm_count, 1, "behind {groups} groups");
        let alarms = filer.pool().space_alarms();
        assert_eq!(alarms.len(), 1);
        assert_eq!(alarms[0].owners[0].content, Some((file.id.0, 0)));
        assert!(alarms[0].to_string().ends_with("and was free"), "{}", alarms[0]);
        fill(&*fs);
        syncs(&filer, 140);
        fill(&*fs);
        syncs(&filer, 3);
        filer.pool().io.drop_cache();
        assert!(content(&*fs, file) == noise(131_072, 7), "written over behind {groups} groups");
        let is_in_use = filer.pool().io.allocator().is_busy(&block.dva);
        assert!(is_in_use, "the next import must not give it away either");
    }
}

/// The same, and another file had got the place already.
#[test]
fn a_place_of_two_files_is_told_by_both() {
    let world = World::new(32 * MIB, 4 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let file = make(&*fs, "file", 131_072, 7);
    syncs(&filer, 1);
    let (content_blocks, _) = blocks(&filer, "tank");
    let block = content_blocks[&(file.id.0, 0)];
    filer.pool().io.allocator().free(block.dva, filer.pool().txgs.open());
    syncs(&filer, 140);
    drop(fs);
    // An import takes from the front again, where the place is.
    filer.export().unwrap();
    drop(filer);
    let (filer, _) = world.import();
    fill(&*vfs(&filer));
    syncs(&filer, 2);
    let found = scrub(&filer);
    assert!(found.alarm_count >= 1);
    let alarms = filer.pool().space_alarms();
    let words = filer.space_alarms();
    assert!(words.iter().any(|words| words.contains("tank:/file at 0") && words.contains("tank:/filler")), "{words:?}");
    assert!(
        alarms
            .iter()
            .any(|alarm| alarm.owners.len() == 2
                && alarm.owners.iter().any(|owner| owner.content == Some((file.id.0, 0)))),
        "{alarms:?}"
    );
    assert_eq!(found.given_bytes, 0, "nothing is given back while it is not known what can be believed");
}

fn one_operation(fs: &dyn Vfs, dice: &mut Dice) {
    let cred = Cred::root();
    let name = format!("n{}", dice.below(12));
    let file = fs.lookup(&cred, fs.root(), name.as_bytes()).ok().map(|(attr, _)| attr.object);
    let result = match (dice.below(8), file) {
        (0, _) => patient(|| fs.remove(ctx(&cred), fs.root(), name.as_bytes())),
        (1, Some(file)) => {
            let set = SetAttr { size: Some(dice.below(400_000)), ..SetAttr::default() };
            patient(|| fs.setattr(ctx(&cred), file, &set, None))
        }
        (2, Some(file)) => patient(|| fs.commit(ctx(&cred), file, 0, 0)).map(drop),
        (_, Some(file)) => {
            let data = noise(1 + dice.below(250_000) as usize, dice.below(1000));
            let stability = if dice.below(2) == 0 { Stability::FileSync } else { Stability::Unstable };
            patient(|| fs.write(ctx(&cred), file, dice.below(3) * 90_000, data.clone(), stability)).map(drop)
        }
        (_, None) => {
            let how = CreateHow::Unchecked(mode(0o644));
            patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).map(drop)
        }
    };
    let expected = [FsError::NotFound, FsError::Stale, FsError::NoSpace, FsError::Exists];
    assert!(result.is_ok() || expected.contains(result.as_ref().unwrap_err()), "{result:?}");
}

/// The machine's clock, on which nobody sleeps: walks wait for no turn.
#[derive(Default)]
struct Sleepless(SystemClock);

impl Clock for Sleepless {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
}

/// Clients write, cut, remove and COMMIT, datasets come and go, and scrub follows scrub. None of them finds anything.
#[test]
fn scrubs_beside_clients_find_no_leak_and_no_alarm() {
    scrubs_beside_clients(&World::new(96 * MIB, 8 * MIB).with_clock(Arc::<Sleepless>::default()));
}

/// Nor where they take four times as long, as they wait their turn beside the clients.
#[test]
fn scrubs_that_wait_their_turn_find_no_leak_and_no_alarm() {
    scrubs_beside_clients(&World::new(384 * MIB, 8 * MIB));
}

/// The same in a pool that is full at times. One run in four ended with "no 24576 bytes in one piece are free": a walk that was slow
/// held what groups had freed, those who waited for room asked for one group after the other, and each took 32 KiB more of the
/// reserve, two hundred times (rules F19).
#[test]
fn scrubs_beside_clients_do_not_end_a_full_pool() {
    scrubs_beside_clients(&World::new(96 * MIB, 8 * MIB));
}

type Walk = fn(&Filer, &mut dyn FnMut(u64) -> bool);

/// Groups that nobody brings anything for: more of them than a reserve has room for while nothing comes back.
const IDLE_GROUPS: u64 = 300;

/// Holds a walk up at its first block, and syncs groups beside it until one of them waits for it. Then does `beside` while both
/// stand still, lets the walk go on, and gives how many groups there were before that.
fn groups_beside_a_walk_that_stands_still(filer: &Filer, walk: Walk, beside: impl FnOnce() + Send) -> u64 {
    let (synced, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (tell_met, met) = mpsc::channel();
    let (tell_go_on, go_on) = mpsc::channel();
    std::thread::scope(|scope| {
        let (synced, is_over) = (&synced, &is_over);
        let scrubbing = scope.spawn(move || {
            let mut is_first = true;
            walk(filer, &mut |_| {
                if std::mem::take(&mut is_first) {
                    tell_met.send(()).unwrap();
                    go_on.recv().unwrap();
                }
                true
            });
        });
        met.recv().unwrap();
        let syncing = scope.spawn(move || {
            for _ in 0..IDLE_GROUPS {
                filer.sync().unwrap();
                synced.fetch_add(1, Ordering::Relaxed);
            }
        });
        let before = loop {
            let before = synced.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(300));
            if synced.load(Ordering::Relaxed) == before {
                break before;
            }
        };
        let doing = scope.spawn(|| {
            beside();
            is_over.store(true, Ordering::Relaxed);
        });
        std::thread::sleep(Duration::from_millis(50));
        let was_over = is_over.load(Ordering::Relaxed);
        tell_go_on.send(()).unwrap();
        syncing.join().unwrap();
        doing.join().unwrap();
        scrubbing.join().unwrap();
        assert!(!was_over, "there was no room for it");
        before
    })
}

/// The same without chance, of a scrub and of the look at every block behind a copy. A group waits where the reserve is nearly
/// used up, and takes what comes back before it begins. And whoever destroys a dataset then, to make room, has it made.
#[test]
fn a_walk_that_stands_still_does_not_end_a_full_pool() {
    let walks: [Walk; 2] = [
        |filer, progress| drop(filer.scrub(progress).unwrap()),
        |filer, progress| {
            let place = world::member(filer, DATA);
            drop(filer.pool().secure(&place.vdev, &[place.leg], progress).unwrap());
        },
    ];
    for walk in walks {
        let world = World::new(32 * MIB, 4 * MIB);
        let filer = world.create();
        let child = filer.create_dataset("tank/child", PropertySet::new(), (0, 0)).unwrap();
        make(&*child, "file", 2 << 20, 2);
        drop(child);
        fill(&*vfs(&filer));
        syncs(&filer, 5);
        let space = || filer.pool().io.allocator().space();
        let full = space();
        let destroy = || filer.destroy_dataset("tank/child", false).unwrap();
        let groups = groups_beside_a_walk_that_stands_still(&filer, walk, destroy);
        assert!((1..IDLE_GROUPS).contains(&groups), "{groups} groups before one waited");
        assert!(filer.pool().fault().is_none());
        syncs(&filer, 3);
        let after = space();
        // Some of it goes to second copies, for which there is room again.
        assert!(after.free + after.deferred > full.free + full.deferred + MIB, "{after:?}, and {full:?} before");
        make(&*vfs(&filer), "again", 1 << 20, 3);
        syncs(&filer, 3);
        sound::sound(&filer).unwrap();
    }
}

fn scrubs_beside_clients(world: &World) {
    let filer = world.create();
    make(&*vfs(&filer), "old", 2 << 20, 3);
    let (over, scrubs) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (filer, over, scrubs) = (&filer, &over, &scrubs);
        let clients: Vec<_> = (1..=3u64)
            .map(|seed| {
                scope.spawn(move || {
                    let (fs, mut dice) = (vfs(filer), Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
                    while scrubs.load(Ordering::Relaxed) < 60 {
                        one_operation(&*fs, &mut dice);
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            let mut dice = Dice(77);
            while !over.load(Ordering::Relaxed) {
                let fs = filer.create_dataset("tank/brief", PropertySet::new(), (0, 0)).unwrap();
                (0..20).for_each(|_| one_operation(&*fs, &mut dice));
                drop(fs);
                filer.destroy_dataset("tank/brief", false).unwrap();
            }
        });
        let scrubbing = scope.spawn(move || {
            let mut found = Vec::new();
            while found.len() < 60 {
                found.push(scrub(filer));
                scrubs.fetch_add(1, Ordering::Relaxed);
            }
            found
        });
        clients.into_iter().for_each(|client| client.join().unwrap());
        let found = scrubbing.join().unwrap();
        over.store(true, Ordering::Relaxed);
        for (number, found) in found.into_iter().enumerate() {
            assert_eq!(found, SpaceFound::default(), "scrub {number}");
        }
    });
    assert_eq!(filer.pool().io.allocator().bad_free_count(), 0);
    while filer.pool().datasets().iter().any(|dataset| dataset.root().orphan_count > 0) {
        filer.sync().unwrap();
    }
    syncs(&filer, 3);
    sound::sound(&filer).unwrap();
}

/// What a WRITE has placed belongs to no group that is synced, and no tree names it yet.
#[test]
fn what_was_placed_ahead_is_no_leak() {
    let world = World::new(32 * MIB, 4 * MIB);
    let filer = world.create_without_threads(&CreateOptions::default());
    // The log's threads; groups are synced by the test alone.
    for (_, body) in filer.background().into_iter().filter(|(name, _)| name.starts_with("lane")) {
        std::thread::spawn(body);
    }
    let fs = vfs(&filer);
    let (cred, how) = (Cred::root(), CreateHow::Guarded(mode(0o600)));
    let file = world::patient_by_hand(&filer, || fs.create(ctx(&cred), fs.root(), b"file", &how)).unwrap().object;
    filer.sync().unwrap();
    let before = filer.pool().io.allocator().space();
    let data = noise(1 << 20, 5);
    world::patient_by_hand(&filer, || fs.write(ctx(&cred), file, 0, data.clone(), Stability::Unstable)).unwrap();
    let placed = filer.pool().io.allocator().space().allocated - before.allocated;
    assert!(placed >= MIB, "{placed} bytes are placed");
    let report = filer.pool().scrub(&mut |_| true, &mut |_| {}).unwrap();
    assert_eq!(report.space, Some(SpaceFound::default()));
    syncs(&filer, 3);
    assert!(content(&*fs, file) == data);
    sound::sound(&filer).unwrap();
}

/// A pool is due a month after its last scrub, or after it was made, also over an import; or a week, or never.
#[test]
fn when_a_scrub_is_due_the_pool_knows_over_imports() {
    let world = World::new(32 * MIB, 4 * MIB);
    let filer = world.create();
    let day = 86_400_000_000_000;
    let made = filer.pool().datasets()[0].birth.created.0;
    let due = |filer: &Filer| filer.pool().scrub_due().map(|due| due.0);
    assert_eq!((filer.pool().scrub_every(), due(&filer)), (ScrubEvery::Monthly, Some(made + 30 * day)));
    filer.pool().set_scrub_every(ScrubEvery::Weekly);
    scrub(&filer);
    syncs(&filer, 1);
    let ended = filer.pool().scrub_job().unwrap().changed.0;
    assert_eq!(due(&filer), Some(ended + 7 * day));
    let (filer, _) = world.cut().import();
    assert_eq!((filer.pool().scrub_every(), due(&filer)), (ScrubEvery::Weekly, Some(ended + 7 * day)));
    assert!(matches!(filer.scrub(&mut |_| false), Err(SecureError::Stopped)));
    assert_eq!(due(&filer), None, "one that was interrupted goes on by itself");
    filer.pool().stop_scrub();
    filer.pool().set_scrub_every(ScrubEvery::Off);
    assert_eq!(due(&filer), None);
}

/// One leg of the log had lost a frame that the next import would have needed, and a scrub looked at everything but the ring: the power
/// went, and the other leg with it.
#[test]
fn a_scrub_leaves_no_frame_that_one_leg_lacks() {
    let paths = ["/disks/a", "/disks/b"];
    let world = World::of(&paths.map(|path| (path, 32 * MIB)), "mirror /disks/a /disks/b");
    let filer = world.create_without_threads(&CreateOptions::default());
    for (_, body) in filer.background().into_iter().filter(|(name, _)| name.starts_with("lane")) {
        std::thread::spawn(body);
    }
    let (fs, cred) = (vfs(&filer), Cred::root());
    filer.sync().unwrap();
    let how = CreateHow::Guarded(mode(0o600));
    world::patient_by_hand(&filer, || fs.create(ctx(&cred), fs.root(), b"file", &how)).unwrap();
    let ring = filer.pool().roster.config().vdevs[0].ring.unwrap();
    let at = (LABEL + ring.start) as usize;
    let frames = world.content_of(paths[1])[at..at + ring.length as usize].to_vec();
    let name = frames.windows(4).position(|bytes| bytes == b"file").expect("the record is in the ring");
    world.poke(paths[1], (at + name) as u64, b"FILE");
    let report = filer.pool().scrub(&mut |_| true, &mut |_| {}).unwrap();
    assert_eq!(report.repaired_count, 1, "it is told");
    let mut cut = world.cut();
    cut.take(&paths[..1]);
    let (filer, _) = cut.import();
    assert!(vfs(&filer).lookup(&Cred::root(), vfs(&filer).root(), b"file").is_ok());
    let again = filer.pool().scrub(&mut |_| true, &mut |_| {}).unwrap();
    assert_eq!(again.repaired_count, 0);
}
