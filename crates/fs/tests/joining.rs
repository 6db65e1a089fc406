//! A disk joins a mirror: it is given what is in use, as the space maps have it, and nothing else, while the pool changes.

mod world;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tally_disk::Disk;
use tally_fs::filer::{Filer, ImportOptions};
use tally_members::label::LABEL_BYTES;
use tally_store::alloc::UNBORN;
use tally_store::bp::{BlockKind, Compression};
use tally_store::pool::membership::{Copied, Stage};
use tally_store::pool::{RewindOrder, RewindTo};
use tally_vfs::{CreateHow, Cred, Stability};
use world::{Dice, Event, Watch, Watching, World, content, ctx, member, mode, noise, patient, vfs};

const MIB: u64 = 1 << 20;
/// Three regions, and some of a fourth.
const DISK: u64 = 420 * MIB;
const A: &str = "/disks/a";
const C: &str = "/disks/c";

fn put(filer: &Filer, name: &str, length: usize, seed: u64) {
    put_as(filer, name, length, seed, Stability::FileSync);
}

fn put_as(filer: &Filer, name: &str, length: usize, seed: u64, stability: Stability) {
    let (fs, cred) = (vfs(filer), Cred::root());
    let how = CreateHow::Unchecked(mode(0o600));
    let file = patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).unwrap().object;
    let data = noise(length, seed);
    patient(|| fs.write(ctx(&cred), file, 0, data.clone(), stability)).unwrap();
}

fn remove(filer: &Filer, name: &str) {
    let (fs, cred) = (vfs(filer), Cred::root());
    patient(|| fs.remove(ctx(&cred), fs.root(), name.as_bytes())).unwrap();
}

fn check(filer: &Filer, name: &str, length: usize, seed: u64) {
    let fs = vfs(filer);
    let (attr, _) = fs.lookup(&Cred::root(), fs.root(), name.as_bytes()).unwrap();
    assert!(content(&*fs, attr.object) == noise(length, seed), "{name}");
}

/// A pool of one disk, and another one beside it, which is none of the pool's. Both are full of what somebody had there before.
fn one_disk() -> (World, Arc<Filer>) {
    let world = World::of(&[(A, DISK), (C, DISK)], A);
    let filer = world.create();
    (world, filer)
}

/// What an onlooker does with each step of a stage.
struct Meanwhile<'a>(&'a mut dyn FnMut(Stage, u64));

impl Watch for Meanwhile<'_> {
    fn on_progress(&mut self, stage: Stage, done: u64) -> bool {
        (self.0)(stage, done);
        true
    }
}

fn join(filer: &Filer, meanwhile: &mut dyn FnMut(Stage, u64)) -> Copied {
    filer.pool().join(&member(filer, A), Path::new(C), false, &mut Watching(&mut Meanwhile(meanwhile))).unwrap()
}

/// Places of a disk's data area, its ring aside, that were written.
fn places(filer: &Filer, events: &[Event], path: &str) -> Vec<Range<u64>> {
    let ring = filer.pool().roster.config().vdevs[0].ring.unwrap();
    let places = events.iter().filter_map(|event| match event {
        Event::Write { disk, offset, bytes, .. } if disk == path && *offset >= LABEL_BYTES => {
            Some(offset - LABEL_BYTES..offset - LABEL_BYTES + bytes.len() as u64)
        }
        _ => None,
    });
    let is_block = |place: &Range<u64>| {
        place.end <= DISK - 2 * LABEL_BYTES && !(ring.start..ring.start + ring.length).contains(&place.start)
    };
    places.filter(is_block).collect()
}

/// All of 252 MiB was copied to a disk of 256, whatever was in use. The rest of the new disk is as it was.
#[test]
fn a_new_disk_is_given_what_is_in_use_and_nothing_else() {
    let (world, filer) = one_disk();
    (0..40).for_each(|seed| put(&filer, &format!("file {seed}"), 300_000, seed));
    filer.pool().sync().unwrap();
    (0..40).step_by(3).for_each(|seed| remove(&filer, &format!("file {seed}")));
    (0..8).for_each(|_| _ = filer.pool().sync().unwrap());
    world.start_journal();
    let (mut told, mut in_use) = (Vec::new(), 0);
    let copied = join(&filer, &mut |stage, done| {
        if stage == Stage::Copying {
            // Groups tell of the disk before it is given something, and are in use themselves.
            let space = filer.pool().io.allocator().space();
            in_use = space.allocated + space.deferred;
            told.push(done);
        }
    });
    assert!((7 * MIB..9 * MIB).contains(&in_use), "{in_use}");
    let given: u64 = places(&filer, &world.end_journal(), C).iter().map(|place| place.end - place.start).sum();
    // What a group writes anew meanwhile may be brought twice, and what ripens is brought by nobody.
    assert!((in_use - MIB / 2..in_use + MIB / 2).contains(&copied.report.copied_bytes), "{in_use}: {copied:?}");
    assert!(told.is_sorted() && told.last() == Some(&copied.report.copied_bytes), "{told:?}");
    // The groups that are synced meanwhile come on top.
    assert!((in_use..in_use + MIB).contains(&given), "{given} bytes for {in_use} in use");
    assert_eq!((copied.secured.repaired_count, copied.secured.lost_count), (0, 0), "{copied:?}");
    check_alone(&world, &filer, |filer| {
        (1..40).filter(|seed| seed % 3 != 0).for_each(|seed| check(filer, &format!("file {seed}"), 300_000, seed))
    });
}

/// The new disk has everything by itself, whoever cuts the power.
fn check_alone(world: &World, filer: &Filer, check: impl Fn(&Filer)) {
    for is_exported in [false, true] {
        let mut alone = world.cut();
        if is_exported {
            filer.export().unwrap();
            alone = world.cut();
        }
        alone.take(&[A]);
        let filer = alone.import().0;
        let place = member(&filer, C);
        let report = filer.pool().secure(&place.vdev, &[place.leg], &mut |_| true).unwrap();
        assert_eq!((report.repaired_count, report.lost_count), (0, 0), "it lacked something: {report:?}");
        check(&filer);
    }
}

/// Files come and go with each step of the copy, in regions that it has passed and in others; groups are synced, so that what was
/// freed is used again. The look at all blocks behind the copy finds nothing that the copy has not brought.
#[test]
fn what_is_written_while_it_is_copied_is_there_wherever_it_lies() {
    for seed in 1..=6 {
        let (world, filer) = one_disk();
        let mut dice = Dice(seed);
        // So that the copy has all regions to do, and there is something to free in each.
        let mut files: Vec<(String, usize, u64)> = Vec::new();
        for number in 0..70 {
            let (name, length) = (format!("file {number}"), 1 + dice.below(4 * MIB) as usize);
            put(&filer, &name, length, number);
            files.push((name, length, number));
        }
        filer.pool().sync().unwrap();
        for _ in 0..10 {
            let (name, ..) = files.swap_remove(dice.below(files.len() as u64) as usize);
            remove(&filer, &name);
        }
        // Placed, and in no group yet.
        put_as(&filer, "placed", 8 << 20, seed, Stability::Unstable);
        files.push(("placed".to_owned(), 8 << 20, seed));
        let (mut steps, mut due) = (0, 0);
        let copied = join(&filer, &mut |stage, done| {
            if stage != Stage::Copying || done < due {
                return;
            }
            (steps, due) = (steps + 1, done + MIB);
            let (name, ..) = files.swap_remove(dice.below(files.len() as u64) as usize);
            remove(&filer, &name);
            let (name, length) = (format!("new {steps}"), 1 + dice.below(MIB) as usize);
            put(&filer, &name, length, steps);
            files.push((name, length, steps));
            if dice.below(3) == 0 {
                filer.pool().sync().unwrap();
            }
        });
        assert!(steps > 60, "{steps}");
        assert_eq!((copied.secured.repaired_count, copied.secured.lost_count), (0, 0), "seed {seed}: {copied:?}");
        check_alone(&world, &filer, |filer| {
            files.iter().for_each(|(name, length, seed)| check(filer, name, *length, *seed))
        });
    }
}

/// A WRITE has placed a block and waits for its group, before the disk joins or while it is copied, and no group names the block until
/// the copy is over: the walk over every block does not meet it, since nothing points there. It is copied as it is; a group may name it at
/// any moment then.
#[test]
fn what_was_placed_before_and_is_named_after_the_copy_is_on_the_new_disk() {
    let world = World::of(&[(A, DISK), (C, DISK)], A);
    let filer = world.create_without_threads(&Default::default());
    let pool = filer.pool();
    put_as(&filer, "old", 3 << 20, 5, Stability::Unstable);
    pool.sync().unwrap();
    let place_some = |seeds: Range<u64>| -> Vec<_> {
        let mut out = pool.io.writer(UNBORN);
        let mut put = |seed| (out.put_bytes(BlockKind::Data, noise(100_000, seed), Compression::Off).unwrap(), seed);
        let placed = seeds.map(&mut put).collect();
        out.finish().unwrap();
        placed
    };
    let before = place_some(0..4);
    let mut meanwhile = Vec::new();
    let copied = join(&filer, &mut |_, _| {
        let seed = 4 + meanwhile.len() as u64;
        if seed < 12 {
            meanwhile.extend(place_some(seed..seed + 1));
        }
    });
    assert!(copied.is_whole() && meanwhile.len() == 8, "{copied:?}");
    assert!(!pool.io.allocator().unborn(member(&filer, C).vdev.index()).is_over(), "no group has named them");
    let new = member(&filer, C);
    let disk = Arc::clone(new.vdev.leg(new.leg).unwrap().disk().unwrap());
    for (bp, seed) in before.iter().chain(&meanwhile) {
        let hold = pool.txgs.hold(None);
        pool.io.settle(bp, hold.txg()).unwrap();
        let dva = bp.dvas().next().unwrap();
        let mut there = vec![0; dva.bytes() as usize];
        disk.read(LABEL_BYTES + dva.offset, &mut there).unwrap();
        assert!(there[..100_000] == noise(100_000, *seed)[..], "block {seed}, at {dva}, is not on the new disk");
    }
    pool.sync().unwrap();
}

/// What only an older group names is in no tree any more, and an import can go back to it: on the new disk as on the old one.
#[test]
fn older_groups_are_whole_on_the_new_disk() {
    let world = World::of(&[(A, DISK), (C, DISK)], A);
    let filer = world.create_without_threads(&Default::default());
    // Nobody syncs a group for whoever waits for one.
    put_as(&filer, "gone", 3 << 20, 5, Stability::Unstable);
    filer.pool().sync().unwrap();
    // The pool's own blocks come first: neither file was brought by then.
    let mut made = None;
    join(&filer, &mut |_, _| {
        if made.is_none() {
            made = Some(filer.pool().txgs.last_synced());
            remove(&filer, "gone");
            filer.pool().sync().unwrap();
        }
    });
    let made = made.unwrap();
    let mut alone = world.cut();
    alone.take(&[A]);
    let order = RewindOrder { to: RewindTo::Group(made), from: None };
    let (filer, _) = alone.try_to_go_back(&ImportOptions::default(), order).unwrap();
    check(&filer, "gone", 3 << 20, 5);
}
