//! Disks that join a mirror, disks that leave it, and scrubs, while disks have rotted, each in its own places.

mod world;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use bytes::Bytes;
use tally_base::{SECTOR, VdevGuid, VdevIndex};
use tally_disk::{Disk, Durability, Fanout, Platform, SerialFanout, Work};
use tally_fs::damage::Part;
use tally_fs::filer::{CreateOptions, Filer, ImportOptions};
use tally_intent::Lane;
use tally_members::grammar::parse_vdev_args;
use tally_members::label::LABEL_BYTES;
use tally_members::vdev::{LegState, Vdev, VdevLeg};
use tally_store::bp::BlockPtr;
use tally_store::key::Class;
use tally_store::pool::membership::{Member, MembershipError, Onlooker, Stage};
use tally_store::pool::{JobState, Pool, SecureError, SecureReport, SyncError};
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tree::Visit;
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, ObjectRef, Stability, Vfs};
use world::{Patient, Watch, Watching, World, content, ctx, done, member, mode, patient, vfs};

const MIB: u64 = 1 << 20;
const DISK: u64 = 24 * MIB;
const A: &str = "/disks/a";
const B: &str = "/disks/b";
const C: &str = "/disks/c";

/// Bytes that cannot be compressed, so that files lie on both sides of the stripes by which legs take turns.
fn pattern(length: usize, seed: u8) -> Bytes {
    let mut state = u64::from(seed) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn make(fs: &dyn Vfs, name: &str, length: usize, seed: u8) -> ObjectRef {
    let cred = Cred::root();
    let how = CreateHow::Guarded(mode(0o600));
    let file = patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).unwrap().object;
    let data = pattern(length, seed);
    patient(|| fs.write(ctx(&cred), file, 0, data.clone(), Stability::FileSync)).unwrap();
    file
}

/// A mirror of two with files in it, small and large, all of them in blocks; a third disk lies beside it.
fn mirror() -> (World, Arc<Filer>) {
    let world = World::of(&[(A, DISK), (B, DISK), (C, DISK)], "mirror /disks/a /disks/b");
    let filer = world.create();
    for (number, length) in LENGTHS.into_iter().enumerate() {
        make(&*vfs(&filer), &format!("file {number}"), length, number as u8);
    }
    filer.pool().sync().unwrap();
    (world, filer)
}

const LENGTHS: [usize; 12] = [1, 300, 5000, 20_000, 65_000, 130_000, 300_000, 700_000, 17, 4096, 131_072, 262_145];

fn check(filer: &Filer) {
    let fs = vfs(filer);
    for (number, length) in LENGTHS.into_iter().enumerate() {
        let (attr, _) = fs.lookup(&Cred::root(), fs.root(), format!("file {number}").as_bytes()).unwrap();
        assert!(content(&*fs, attr.object) == pattern(length, number as u8), "file {number}");
    }
}

/// Sectors of the data area that hold something, outside the ring.
fn used(world: &World, filer: &Filer, path: &str) -> Vec<u64> {
    let ring = filer.pool().roster.config().vdevs[0].ring.unwrap();
    let bytes = world.content_of(path);
    let used = bytes.chunks(SECTOR).enumerate().filter(|(_, sector)| sector.iter().any(|byte| *byte != 0));
    let offsets = used.map(|(at, _)| (at * SECTOR) as u64);
    let area = offsets.filter(|at| (LABEL_BYTES..DISK - LABEL_BYTES).contains(at));
    area.filter(|at| !(ring.start..ring.start + ring.length).contains(&(at - LABEL_BYTES))).collect()
}

fn rot(world: &World, path: &str, sectors: impl Iterator<Item = u64>) {
    let bytes = world.content_of(path);
    for at in sectors {
        let sector = &bytes[at as usize..][..SECTOR];
        world.poke(path, at, &sector.iter().map(|byte| !byte).collect::<Vec<_>>());
    }
}

fn vdev(filer: &Filer) -> Arc<Vdev> {
    Arc::clone(&filer.pool().roster.vdevs()[0])
}

fn leg(filer: &Filer, path: &str) -> VdevGuid {
    vdev(filer).legs().iter().find(|leg| leg.path() == Path::new(path)).unwrap().guid()
}

/// A new disk joins beside A: `meanwhile` runs with each step.
fn attach(filer: &Filer, path: &str, meanwhile: &mut dyn FnMut(u64)) -> SecureReport {
    let mut steps = 0;
    let mut step = |_, _| {
        steps += 1;
        meanwhile(steps);
    };
    let mut watching = Watching(&mut AtEachStep(&mut step));
    filer.pool().join(&member(filer, A), Path::new(path), false, &mut watching).unwrap().secured
}

/// The copy took what the leg gave whose turn it was: with the disk that left, the last good copies were gone.
#[test]
fn a_copy_has_every_block_right_that_any_disk_has_right() {
    for rotten in [A, B] {
        let (mut world, filer) = mirror();
        let sectors = used(&world, &filer, rotten);
        rot(&world, rotten, sectors.into_iter());
        let report = attach(&filer, C, &mut |_| {});
        assert!(report.repaired_count > 0 && report.lost_count == 0, "{report:?}");
        filer.export().unwrap();
        world.take(&[A, B]);
        check(&world.import().0);
    }
}

/// A disk that counts was to give a block and had it wrong. The new one got it from the other, that was told as a repair, and on the disk itself it
/// stayed wrong.
#[test]
fn who_was_to_give_a_block_and_has_it_wrong_is_given_it_as_well() {
    for (rotten, sound) in [(A, B), (B, A)] {
        let (world, filer) = mirror();
        let places = blocks(&filer, |class, _| class == Class::Extent);
        rot(&world, rotten, places.iter().copied());
        let wrong = |world: &World| {
            let (rotten, sound) = (world.content_of(rotten), world.content_of(sound));
            let is_wrong = |at: &&u64| rotten[**at as usize..][..SECTOR] != sound[**at as usize..][..SECTOR];
            places.iter().filter(is_wrong).count() as u64
        };
        let before = wrong(&world);
        let report = attach(&filer, C, &mut |_| {});
        // It was asked for what it is first to give.
        assert!((1..before).contains(&report.repaired_count), "{before}: {report:?}");
        assert_eq!(wrong(&world), before - report.repaired_count, "{rotten}: {report:?}");
        check(&filer);
    }
}

/// The only disk has one place of a node wrong. A new one got it right from the other place, that was told as a repair, and the old one kept what it
/// had.
#[test]
fn what_the_other_place_of_a_block_says_is_given_to_those_that_count_too() {
    let world = World::of(&[(A, DISK), (C, DISK)], A);
    let filer = world.create();
    make(&*vfs(&filer), "file", 300_000, 1);
    filer.pool().sync().unwrap();
    let nodes = blocks(&filer, |class, _| class == Class::Inode);
    let before = world.content_of(A);
    rot(&world, A, nodes.iter().copied());
    filer.pool().io.drop_cache();
    let report = attach(&filer, C, &mut |_| {});
    assert!(report.repaired_count >= nodes.len() as u64 && report.lost_count == 0, "{report:?}");
    let after = world.content_of(A);
    for at in nodes.iter().map(|at| *at as usize) {
        assert!(after[at..][..SECTOR] == before[at..][..SECTOR], "{at}");
    }
}

/// Rot at other places of each disk: between them they have everything, and so has the copy, while files come and go.
#[test]
fn rot_of_two_disks_apart_from_each_other_costs_nothing_while_the_pool_changes() {
    let (mut world, filer) = mirror();
    let blocks = blocks(&filer, |_, _| true);
    rot(&world, A, blocks.iter().copied().step_by(2));
    rot(&world, B, blocks.iter().copied().skip(1).step_by(2));
    let fs = vfs(&filer);
    let report = attach(&filer, C, &mut |step| {
        if step % 3 == 0 {
            make(&*fs, &format!("new {step}"), 200_000, step as u8);
        }
        if step % 7 == 0 {
            done(fs.remove(ctx(&Cred::root()), fs.root(), format!("new {}", step / 7 * 3).as_bytes())).ok();
        }
        if step % 4 == 0 {
            filer.pool().sync().unwrap();
        }
    });
    assert!(report.repaired_count > 0 && report.lost_count == 0, "{report:?}");
    drop(fs);
    filer.export().unwrap();
    world.take(&[A, B]);
    check(&world.import().0);
}

/// What no disk has right is named, once, and everything else is copied.
#[test]
fn what_no_disk_has_right_is_named_and_costs_nothing_else() {
    let (world, filer) = mirror();
    let (attr, _) = vfs(&filer).lookup(&Cred::root(), vfs(&filer).root(), b"file 7").unwrap();
    let first = blocks(&filer, |class, object| class == Class::Extent && object == attr.object.id.0)[0];
    for path in [A, B] {
        rot(&world, path, [first].into_iter());
    }
    let report = attach(&filer, C, &mut |_| {});
    assert_eq!((report.lost_count, report.unread_count, report.lost.len()), (1, 0, 1), "{report:?}");
    assert_eq!(report.lost[0].content, Some((attr.object.id.0, 0)));
    assert!(report.lost[0].to_string().contains("Data"), "{}", report.lost[0]);
}

/// Before a disk leaves, those that stay are given what it alone has.
#[test]
fn those_that_stay_are_given_what_the_leaving_one_alone_has() {
    let (mut world, filer) = mirror();
    let sectors = used(&world, &filer, A);
    rot(&world, A, sectors.into_iter());
    let report = filer.pool().secure(&vdev(&filer), &[leg(&filer, A)], &mut |_| true).unwrap();
    assert!(report.repaired_count > 0 && report.lost_count == 0, "{report:?}");
    filer.pool().roster.detach(&vdev(&filer), leg(&filer, B)).unwrap();
    world.take(&[B]);
    check(&world.cut().import().0);
}

/// A scrub gives each disk what it lacks, node over node of the tree and the pool's own blocks among it, so that each is
/// enough by itself; and the pool goes on meanwhile.
#[test]
fn a_scrub_leaves_every_disk_with_every_block() {
    let (world, filer) = mirror();
    let everything = blocks(&filer, |_, _| true);
    let own: Vec<_> = used(&world, &filer, A).into_iter().filter(|at| !everything.contains(at)).collect();
    filer.export().unwrap();
    drop(filer);
    rot(&world, A, everything.iter().copied().step_by(2));
    rot(&world, B, everything.iter().copied().skip(1).step_by(2));
    let (filer, _) = world.import();
    let fs = vfs(&filer);
    let mut steps = 0;
    let report = filer.scrub(&mut |_| {
        steps += 1;
        if steps % 5 == 0 {
            make(&*fs, &format!("new {steps}"), 100_000, steps as u8);
        }
        if steps % 11 == 0 {
            filer.pool().sync().unwrap();
        }
        true
    });
    let report = report.unwrap();
    assert!(report.repaired_count as usize >= LENGTHS.len() && report.lost_count == 0, "{report:?}");
    let again = filer.scrub(&mut |_| true).unwrap();
    assert!(again.repaired_count == 0 && again.checked_bytes > report.checked_bytes, "{again:?}");
    assert!(filer.pool().io.unrepaired_count() == 0 && !own.is_empty());
    drop(fs);
    filer.export().unwrap();
    drop(filer);
    for path in [A, B] {
        let mut alone = world.cut();
        alone.take(&[path]);
        check(&alone.import().0);
    }
}

/// What no disk has right is told by the file. Behind the next scrub it is told no more if it is right again.
#[test]
fn a_scrub_names_the_files_that_are_damaged_and_forgets_those_that_are_not() {
    let (world, filer) = mirror();
    let (attr, _) = vfs(&filer).lookup(&Cred::root(), vfs(&filer).root(), b"file 7").unwrap();
    let of_file = blocks(&filer, |class, object| class == Class::Extent && object == attr.object.id.0);
    let damage = |filer: &Filer| filer.names().iter().next().unwrap().filesystem.damage_report().places;
    for path in [A, B] {
        rot(&world, path, [of_file[1]].into_iter());
    }
    let report = filer.scrub(&mut |_| true).unwrap();
    assert_eq!((report.lost_count, report.repaired_count), (1, 0), "{report:?}");
    let places = damage(&filer);
    assert_eq!(places.len(), 1, "{places:?}");
    assert_eq!((places[0].path.as_deref(), places[0].part), (Some("/file 7"), Part::Content(131_072)));
    assert_eq!(filer.pool().io.unrepaired_count(), 1);
    // A disk gives it again.
    rot(&world, B, [of_file[1]].into_iter());
    let report = filer.scrub(&mut |_| true).unwrap();
    assert_eq!((report.lost_count, report.repaired_count), (0, 1), "{report:?}");
    assert_eq!((damage(&filer), filer.pool().io.unrepaired_count()), (Vec::new(), 0));
    check(&filer);
}

/// What is the matter with files, by path.
fn damage(filer: &Filer) -> Vec<(Option<String>, Part)> {
    let report = filer.names().iter().next().unwrap().filesystem.damage_report();
    assert_eq!(report.beyond, 0);
    report.places.into_iter().map(|place| (place.path, place.part)).collect()
}

/// A block that was found rotten had been replaced since its pointer was read: the file was called damaged, though all of
/// it was right, and the freed blocks were counted as unrepaired for ever.
#[test]
fn a_scrub_does_not_tell_of_blocks_that_are_gone_meanwhile() {
    let (world, filer) = mirror();
    let fs = vfs(&filer);
    let (attr, _) = fs.lookup(&Cred::root(), fs.root(), b"file 7").unwrap();
    let of_file = blocks(&filer, |class, object| class == Class::Extent && object == attr.object.id.0);
    [A, B].into_iter().for_each(|path| rot(&world, path, of_file.iter().copied()));
    let (cred, mut is_written) = (Cred::root(), false);
    let report = filer.scrub(&mut |_| {
        if filer.pool().io.unrepaired_count() > 0 && !std::mem::replace(&mut is_written, true) {
            patient(|| fs.write(ctx(&cred), attr.object, 0, pattern(LENGTHS[7], 7), Stability::FileSync)).unwrap();
            filer.pool().sync().unwrap();
        }
        true
    });
    assert!(is_written && of_file.len() > 3);
    assert_eq!(report.unwrap().lost_count, 1);
    assert_eq!((damage(&filer), filer.pool().io.unrepaired_count()), (Vec::new(), 0));
    check(&filer);
}

/// Leaves hold the content of small files. One was given up, for what was written beside the rot in it, and a scrub said
/// that all was well and forgot the files that it had held.
#[test]
fn a_scrub_tells_of_nodes_that_were_given_up() {
    let (world, filer) = mirror();
    let (fs, cred) = (vfs(&filer), Cred::root());
    let small: Vec<_> = (0..100).map(|number| make(&*fs, &format!("small {number}"), 1500, number)).collect();
    filer.pool().sync().unwrap();
    let (mut leaf, mut found) = (None, None);
    filer.pool().datasets()[0].root().tree.check(&filer.pool().io, &mut |visit| match visit {
        Visit::Block { bp, .. } => leaf = Some(*bp),
        Visit::Entry { key, .. } if key.class == Class::Small && key.object == small[50].id.0 => found = leaf,
        _ => {}
    });
    drop(fs);
    filer.export().unwrap();
    drop(filer);
    let at = LABEL_BYTES + found.unwrap().dva.offset;
    [A, B].into_iter().for_each(|path| rot(&world, path, [at].into_iter()));
    let (filer, _) = world.import();
    let fs = vfs(&filer);
    // What is beside it in the leaf cannot be read from here on, whatever disks give.
    patient(|| fs.write(ctx(&cred), small[50], 0, pattern(1500, 1), Stability::FileSync)).unwrap();
    filer.pool().sync().unwrap();
    let unreadable = |file: &&ObjectRef| fs.read(&cred, **file, 0, 1500).is_err();
    let lost = small.iter().filter(unreadable).count();
    assert!(lost > 0, "the leaf held others, too");
    let before = damage(&filer);
    let report = filer.scrub(&mut |_| true).unwrap();
    assert!(report.given_up_count + report.lost_count > 0, "{report:?}");
    assert_eq!(damage(&filer), before);
    assert_eq!(small.iter().filter(unreadable).count(), lost);
}

/// The list of damaged places was full of what was right again, so that what the next scrub found was counted only, and
/// when it had forgotten them nothing was left.
#[test]
fn a_scrub_finds_room_in_a_list_that_is_full_of_what_is_right_again() {
    let (world, filer) = mirror();
    let fs = vfs(&filer);
    let file = make(&*fs, "many", 1, 1);
    let cred = Cred::root();
    let files: Vec<_> = (0..1100).map(|number| make(&*fs, &format!("many {number}"), 5000, number as u8)).collect();
    patient(|| fs.write(ctx(&cred), file, 0, pattern(10, 1), Stability::FileSync)).unwrap();
    filer.pool().sync().unwrap();
    let (first, last) = (files[0].id.0, files[files.len() - 1].id.0);
    let of_files = blocks(&filer, |class, object| class == Class::Extent && (first..=last).contains(&object));
    assert_eq!(of_files.len(), files.len());
    [A, B].into_iter().for_each(|path| rot(&world, path, of_files.iter().copied()));
    assert_eq!(filer.scrub(&mut |_| true).unwrap().lost_count as usize, of_files.len());
    // A disk gives them again, but for the last.
    rot(&world, B, of_files[..of_files.len() - 1].iter().copied());
    assert_eq!(filer.scrub(&mut |_| true).unwrap().lost_count, 1);
    assert_eq!(damage(&filer), [(Some("/many 1099".to_owned()), Part::Content(0))]);
}

/// A disk fails in the middle of a scrub: the others are gone over all the same.
#[test]
fn a_scrub_goes_on_without_a_disk_that_fails() {
    let (world, filer) = mirror();
    let everything = blocks(&filer, |_, _| true);
    rot(&world, A, everything.iter().copied().step_by(2));
    let mut steps = 0;
    let report = filer.scrub(&mut |_| {
        steps += 1;
        if steps == 3 {
            let failed = std::io::Error::other("its cable is out");
            filer.pool().roster.drop_leg(leg(&filer, B), &failed).unwrap();
            world.faults(B).writes.store(true, SeqCst);
        }
        true
    });
    let report = report.unwrap();
    assert!(report.repaired_count > 3 && report.lost_count == 0, "{report:?}");
    check(&filer);
}

/// A disk refused the flush at the end of a scrub, and was struck off. The scrub failed with "the device failed", which named no disk,
/// and the disks behind that one were not flushed, though all that was repaired was on them.
#[test]
fn a_scrub_comes_to_its_end_without_a_disk_that_fails_its_last_flush() {
    let (world, filer) = mirror();
    let everything = blocks(&filer, |_, _| true);
    rot(&world, B, everything.iter().copied().step_by(2));
    let report = filer.scrub(&mut |_| {
        world.faults(A).flushes.store(true, SeqCst);
        true
    });
    let report = report.unwrap();
    assert!(report.repaired_count > 3 && report.lost_count == 0, "{report:?}");
    let states: Vec<_> = vdev(&filer).legs().iter().map(|leg| leg.state()).collect();
    assert_eq!(states, [LegState::Faulted, LegState::Online]);
    let mut alone = world.cut();
    alone.take(&[A]);
    check(&alone.import().0);
}

/// Whoever hears of the progress can end it.
#[test]
fn it_ends_when_nobody_wants_it() {
    let (_world, filer) = mirror();
    let outcome = filer.scrub(&mut |_| false);
    assert!(matches!(outcome, Err(SecureError::Stopped)), "{outcome:?}");
    let outcome = filer.pool().secure(&vdev(&filer), &[leg(&filer, A)], &mut |_| false);
    assert!(matches!(outcome, Err(SecureError::Stopped)), "{outcome:?}");
}

/// Where on a disk the blocks of files lie that are wanted by class and object; nodes of the tree are of class `Inode`.
fn blocks(filer: &Filer, is_wanted: impl Fn(Class, u64) -> bool) -> Vec<u64> {
    let pool = filer.pool();
    let mut places = Vec::new();
    pool.datasets()[0].root().tree.check(&pool.io, &mut |visit| match visit {
        Visit::Entry { key, value } if key.class == Class::Extent && is_wanted(key.class, key.object) => {
            places.push(LABEL_BYTES + BlockPtr::decode(value.try_into().unwrap()).unwrap().dva.offset);
        }
        Visit::Block { bp, .. } if is_wanted(Class::Inode, 0) => places.push(LABEL_BYTES + bp.dva.offset),
        _ => {}
    });
    places
}

/// A disk was struck off for one refused write, and is as good as it was otherwise. The other one has rotted where that
/// one is right. A new disk got the rot, and the only good copy left the pool and was erased.
#[test]
fn a_disk_that_was_struck_off_is_asked_before_it_leaves() {
    let (world, filer) = mirror();
    filer.pool().roster.drop_leg(leg(&filer, B), &std::io::Error::other("it refused one write")).unwrap();
    let (attr, _) = vfs(&filer).lookup(&Cred::root(), vfs(&filer).root(), b"file 7").unwrap();
    let first = blocks(&filer, |class, object| class == Class::Extent && object == attr.object.id.0)[0];
    rot(&world, A, [first].into_iter());
    let report = attach(&filer, C, &mut |_| {});
    // What `replace` does: nothing was unreadable, so the old disk leaves.
    assert_eq!(report.unread_count, 0);
    filer.pool().roster.detach(&vdev(&filer), leg(&filer, B)).unwrap().erase_label().unwrap();
    filer.export().unwrap();
    check(&world.import().0);
}

/// The same where the tree has rotted, node over node. Each node was found on the disk that was struck off and given to
/// the new one, but what hangs from it had been passed over by then: it was never copied, and left the pool with the
/// old disk.
#[test]
fn below_a_node_that_was_repaired_everything_is_looked_at() {
    let (mut world, filer) = mirror();
    filer.pool().roster.drop_leg(leg(&filer, B), &std::io::Error::other("it refused one write")).unwrap();
    let everything = blocks(&filer, |_, _| true);
    filer.export().unwrap();
    drop(filer);
    rot(&world, A, everything.into_iter());
    let (filer, _) = world.import();
    let report = attach(&filer, C, &mut |_| {});
    assert!(report.repaired_count > 12 && report.lost_count == 0, "{report:?}");
    filer.pool().roster.detach(&vdev(&filer), leg(&filer, B)).unwrap().erase_label().unwrap();
    filer.export().unwrap();
    world.take(&[A, B]);
    check(&world.import().0);
}

/// A disk refused a durable write, was struck off, and `replace` was to take it up again. It left the pool, its label
/// could not be erased, as nothing that it says is believed any more, and then it was refused: it "belongs to pool
/// tank".
#[test]
fn a_disk_that_refused_a_write_can_replace_itself() {
    let (world, filer) = mirror();
    let faults = world.faults(B);
    faults.durable_writes.store(true, SeqCst);
    filer.pool().sync().unwrap();
    faults.all(false);
    let place = member(&filer, B);
    assert_eq!(place.vdev.leg(place.leg).unwrap().state(), LegState::Faulted);
    let (_, copied) = filer.pool().replace(&place, Path::new(B), false, &mut Patient).unwrap();
    assert!(copied.is_whole());
    assert_eq!(vdev(&filer).legs().iter().map(|leg| leg.state()).collect::<Vec<_>>(), [LegState::Online; 2]);
    filer.export().unwrap();
    let mut world = world;
    world.take(&[A]);
    check(&world.import().0);
}

/// Does something once, between the moment at which a sync begins to flush its disks and the first flush.
struct BeforeFlush(std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Fanout for BeforeFlush {
    fn each(&self, work: Vec<Work>) -> Vec<std::io::Result<()>> {
        let before = self.0.lock().unwrap().take();
        before.into_iter().for_each(|before| before());
        SerialFanout.each(work)
    }

    fn write(&self, targets: &[(Arc<dyn Disk>, u64)], buf: &[u8], durability: Durability) -> Vec<std::io::Result<()>> {
        SerialFanout.write(targets, buf, durability)
    }

    fn begin(&self, work: Work) -> Result<(), Work> {
        SerialFanout.begin(work)
    }
}

/// Somebody took a disk out while a group was on its way to its flushes. Nobody flushed that disk any more, and the
/// group wanted to know its blocks safe there, too: the pool was suspended "because of a bug".
#[test]
fn a_disk_that_leaves_in_the_middle_of_a_sync_is_not_waited_for() {
    let world = World::of(&[(A, DISK), (B, DISK)], "mirror /disks/a /disks/b");
    let before = Arc::new(BeforeFlush(std::sync::Mutex::new(None)));
    let platform = Platform { fanout: Arc::clone(&before) as _, ..world.platform() };
    let specs = parse_vdev_args(&["mirror", A, B].map(str::to_owned)).unwrap();
    let filer = Filer::create(&platform, &Tuning::default(), "tank", &specs, &CreateOptions::default()).unwrap();
    for (_, body) in filer.background() {
        std::thread::spawn(body);
    }
    make(&*vfs(&filer), "file", 300_000, 7);
    filer.pool().sync().unwrap();
    make(&*vfs(&filer), "another", 3000, 8);
    let (seen, place) = (Arc::clone(&filer), leg(&filer, B));
    let leave = move || drop(seen.pool().roster.detach(&vdev(&seen), place).unwrap());
    *before.0.lock().unwrap() = Some(Box::new(leave));
    filer.pool().sync().unwrap();
    assert_eq!(vdev(&filer).legs().len(), 1);
    filer.export().unwrap();
    let mut world = world;
    world.take(&[A]);
    let fs = vfs(&world.import().0);
    let (attr, _) = fs.lookup(&Cred::root(), fs.root(), b"file").unwrap();
    assert!(content(&*fs, attr.object) == pattern(300_000, 7));
}

/// A disk was to leave its mirror, and where the blocks of files lie is written on a disk of another vdev, which could
/// not be read at that moment. Nothing that hung from there was looked at, nothing was said of it, and the only good
/// copies left.
#[test]
fn a_disk_stays_while_nobody_can_read_which_blocks_it_has() {
    let words = "/disks/c mirror /disks/a /disks/b";
    let mut world = World::of(&[(A, DISK), (B, DISK), (C, DISK / 2 * 3)], words);
    let filer = world.create();
    for (number, length) in LENGTHS.into_iter().enumerate() {
        make(&*vfs(&filer), &format!("file {number}"), length, number as u8);
    }
    // Until the way to them leads over the other vdev.
    for number in 0.. {
        filer.pool().sync().unwrap();
        if filer.pool().datasets()[0].root().tree.root().unwrap().dva.vdev == VdevIndex(0) {
            break;
        }
        assert!(number < 100);
        make(&*vfs(&filer), &format!("more {number}"), 5000, 1);
    }
    let bytes = world.content_of(B);
    let used = bytes.chunks(SECTOR).enumerate().filter(|(_, sector)| sector.iter().any(|byte| *byte != 0));
    let offsets = used.map(|(at, _)| (at * SECTOR) as u64);
    rot(&world, B, offsets.filter(|at| (LABEL_BYTES..DISK - LABEL_BYTES).contains(at)));
    // What leads on from the other vdev is on the mirror as well, and there rotten on both disks.
    let mut copies = Vec::new();
    filer.pool().datasets()[0].root().tree.check(&filer.pool().io, &mut |visit| match visit {
        Visit::Block { bp, .. } if bp.dva.vdev == VdevIndex(0) => copies.extend(bp.copy),
        _ => {}
    });
    assert!(!copies.is_empty() && copies.iter().all(|copy| copy.vdev == VdevIndex(1)), "{copies:?}");
    rot(&world, A, copies.iter().map(|copy| LABEL_BYTES + copy.offset));
    filer.pool().io.drop_cache();
    let mirror = Arc::clone(&filer.pool().roster.vdevs()[1]);
    let old = mirror.legs()[0].guid();
    let place = Member { vdev: mirror, config: filer.pool().roster.config().vdevs[1].clone(), leg: old };
    let faults = world.faults(C);
    faults.reads.store(true, std::sync::atomic::Ordering::SeqCst);
    let made_sure = filer.pool().make_sure(&place, &mut Patient);
    faults.reads.store(false, std::sync::atomic::Ordering::SeqCst);
    let is_sure = made_sure.is_ok();
    if is_sure {
        filer.pool().leave(&place, &mut Patient).unwrap();
    }
    filer.export().unwrap();
    drop((filer, place));
    let left = world.take(&[A]);
    world.put(if is_sure { Vec::new() } else { left });
    check(&world.import().0);
    assert!(matches!(made_sure, Err(MembershipError::MayHaveMore { .. })), "{made_sure:?}");
}

/// The only disk that counts refused what a struck-off one still has. It was to be struck off as well, and the pool was
/// suspended, which had all but that block.
#[test]
fn the_last_disk_that_refuses_a_repair_stays() {
    let (world, filer) = mirror();
    filer.pool().roster.drop_leg(leg(&filer, B), &std::io::Error::other("it refused one write")).unwrap();
    let first = blocks(&filer, |class, _| class == Class::Extent)[0];
    rot(&world, A, [first].into_iter());
    let scrub = |refuses: bool| {
        world.faults(A).writes.store(refuses, SeqCst);
        let report = filer.pool().scrub(&mut |_| true, &mut |_| {});
        world.faults(A).writes.store(false, SeqCst);
        report.map(|report| (report.repaired_count, report.lost_count))
    };
    assert_eq!(scrub(true).unwrap(), (0, 1));
    filer.pool().sync().unwrap();
    assert_eq!(scrub(false).unwrap(), (1, 0));
    check(&filer);
}

/// The same disk reads what it has refused, until the power goes. The next scrub called that sound, the other disk was taken back and left by command, and with
/// the power the block was gone. Or the one that had refused failed itself and came back before: its list did not know of that block any more.
#[test]
fn what_the_last_disk_refused_it_is_given_before_another_one_leaves() {
    for fails_meanwhile in [false, true] {
        let (mut world, filer) = mirror();
        let failed = || std::io::Error::other("it refused one write");
        filer.pool().roster.drop_leg(leg(&filer, B), &failed()).unwrap();
        let first = blocks(&filer, |class, _| class == Class::Extent)[0];
        rot(&world, A, [first].into_iter());
        let faults = world.faults(A);
        faults.refused_is_read.store(true, SeqCst);
        faults.writes.store(true, SeqCst);
        let scrub = || {
            let report = filer.pool().scrub(&mut |_| true, &mut |_| {}).unwrap();
            (report.repaired_count, report.lost_count)
        };
        assert_eq!((scrub(), scrub()), ((0, 1), (0, 1)));
        faults.writes.store(false, SeqCst);
        (0..3).for_each(|_| _ = filer.pool().sync().unwrap());
        if fails_meanwhile {
            filer.pool().take_back(&member(&filer, B), &mut Patient).unwrap();
            filer.pool().roster.drop_leg(leg(&filer, A), &failed()).unwrap();
            filer.pool().take_back(&member(&filer, A), &mut Patient).unwrap();
        }
        filer.pool().make_sure(&member(&filer, B), &mut Patient).unwrap();
        filer.pool().leave(&member(&filer, B), &mut Patient).unwrap();
        filer.export().unwrap();
        drop(filer);
        world.lose_refused(A);
        world.take(&[B]);
        check(&world.import().0);
    }
}

/// A disk refused what a client's read, or the look before another one was to leave, would have repaired, and was struck off for it; the group of that block
/// was not on its list of what it has missed. Taken back it read it as if it had it, and the other disk left.
#[test]
fn what_a_disk_refused_of_any_repair_it_is_given_when_it_comes_back() {
    for by_read in [true, false] {
        let (mut world, filer) = mirror();
        let first = blocks(&filer, |class, _| class == Class::Extent)[0];
        // A disk that is struck off lacks the newest groups in any case.
        for name in ["later", "latest"] {
            make(&*vfs(&filer), name, 10_000, 1);
            filer.pool().sync().unwrap();
        }
        rot(&world, A, [first].into_iter());
        let faults = world.faults(A);
        faults.refused_is_read.store(true, SeqCst);
        faults.writes.store(true, SeqCst);
        if by_read {
            filer.pool().io.drop_cache();
            check(&filer);
        } else {
            filer.pool().make_sure(&member(&filer, B), &mut Patient).unwrap_err();
        }
        assert_ne!(filer.pool().state_of(leg(&filer, A)), Some(LegState::Online));
        faults.writes.store(false, SeqCst);
        filer.pool().take_back(&member(&filer, A), &mut Patient).unwrap();
        filer.pool().make_sure(&member(&filer, B), &mut Patient).unwrap();
        filer.pool().leave(&member(&filer, B), &mut Patient).unwrap();
        filer.export().unwrap();
        drop(filer);
        world.lose_refused(A);
        world.take(&[B]);
        check(&world.import().0);
    }
}

/// A mirror of which one disk has failed, or another has only begun to join, has no second leg that has a leaf right: what was
/// written meanwhile had one place, and one sector took a directory along.
#[test]
fn leaves_have_two_places_while_one_disk_counts() {
    let (_world, filer) = mirror();
    let changed = |name: &str| {
        make(&*vfs(&filer), name, 300, 1);
        filer.pool().sync().unwrap();
        let (mut leaf, mut leaves) = (None, 0);
        let mut twice = 0;
        filer.pool().datasets()[0].root().tree.check(&filer.pool().io, &mut |visit| match visit {
            Visit::Block { bp, height: 0, .. } => leaf = Some(*bp),
            Visit::Entry { key, .. } if key.class == Class::DirEntry => {
                if let Some(leaf) = leaf.take() {
                    (leaves, twice) = (leaves + 1, twice + usize::from(leaf.copy.is_some()));
                }
            }
            _ => {}
        });
        (leaves, twice)
    };
    assert_eq!(changed("on two disks"), (1, 0));
    filer.pool().roster.drop_leg(leg(&filer, B), &std::io::Error::other("it refused one write")).unwrap();
    assert_eq!(changed("on one disk"), (1, 1));
    filer.pool().roster.detach(&vdev(&filer), leg(&filer, B)).unwrap();
    let mut joining = None;
    attach(&filer, C, &mut |step| {
        if step == 1 {
            joining = Some(changed("while another joins"));
        }
    });
    assert_eq!(joining, Some((1, 1)));
    assert_eq!(changed("on two disks again"), (1, 0));
}

/// Some disks claim to be larger than they are, and write over what they were given. The look before the old disk leaves gave such a one what it
/// had lost, which cost it something else, and the old one left.
#[test]
fn a_disk_that_does_not_keep_what_it_is_given_replaces_none() {
    for times in [1, 2] {
        let (mut world, filer) = mirror();
        let lost = blocks(&filer, |class, _| class == Class::Extent);
        let (mut times_left, mut before) = (times, u64::MAX);
        let mut forget = |stage, done| {
            // At the beginning of each look.
            if stage == Stage::CheckingCopy && done < before && times_left > 0 {
                times_left -= 1;
                rot(&world, C, lost.iter().copied());
            }
            before = if stage == Stage::CheckingCopy { done } else { u64::MAX };
        };
        let mut watching = Watching(&mut AtEachStep(&mut forget));
        let replaced = filer.pool().replace(&member(&filer, B), Path::new(C), false, &mut watching);
        let there = |path: &str| vdev(&filer).legs().iter().any(|leg| leg.path() == Path::new(path));
        if times == 1 {
            let (_, copied) = replaced.unwrap();
            assert_eq!(copied.secured.repaired_count as usize, lost.len(), "{copied:?}");
            assert!(there(C) && !there(B));
            filer.export().unwrap();
            world.take(&[A, B]);
            check(&world.import().0);
        } else {
            let told = replaced.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(told.contains("does not keep what it is given"), "{told}");
            assert!(there(B) && !there(C));
        }
    }
}

struct AtEachStep<'a>(&'a mut dyn FnMut(Stage, u64));

impl Watch for AtEachStep<'_> {
    fn on_progress(&mut self, stage: Stage, done: u64) -> bool {
        (self.0)(stage, done);
        true
    }
}

/// What is lost for good, and names nothing, hides nothing: no copy goes over all of the disk for it.
#[test]
fn content_that_is_lost_makes_no_copy_longer() {
    let (world, filer) = mirror();
    let place = blocks(&filer, |class, _| class == Class::Extent)[3];
    [A, B].iter().for_each(|path| rot(&world, path, std::iter::once(place)));
    let copied = filer.pool().join(&member(&filer, A), Path::new(C), false, &mut Patient).unwrap();
    let allocated = filer.pool().io.allocator().space().allocated;
    assert_eq!((copied.secured.lost_count, copied.is_whole()), (1, true), "{copied:?}");
    assert!(copied.report.copied_bytes < allocated + allocated / 2, "{copied:?} of {allocated}");
}

/// One sector of a disk could not be read, and the disk was replaced. If the copy is taken for whole then the old disk
/// leaves with what it alone has, and may give again a moment later.
#[test]
fn a_disk_stays_that_has_what_its_copy_lacks() {
    let mut world = World::of(&[(A, DISK), (B, DISK)], A);
    let filer = world.create();
    let file = make(&*vfs(&filer), "file", 700_000, 7);
    filer.pool().sync().unwrap();
    filer.pool().io.drop_cache();
    let sector = blocks(&filer, |class, object| class == Class::Extent && object == file.id.0)[2];
    let faults = world.faults(A);
    faults.unreadable.lock().unwrap().push(sector..sector + SECTOR as u64);
    let (_, copied) = filer.pool().replace(&member(&filer, A), Path::new(B), false, &mut Patient).unwrap();
    assert_eq!((copied.report.unreadable_bytes, copied.secured.unread_count), (SECTOR as u64, 1), "{copied:?}");
    assert!(!copied.is_whole());
    assert_eq!(vdev(&filer).legs().iter().map(|leg| leg.state()).collect::<Vec<_>>(), [LegState::Online; 2]);
    let kept = filer.pool().make_sure(&member(&filer, A), &mut Patient);
    assert!(matches!(kept, Err(MembershipError::MayHaveMore { count: 1, .. })), "{kept:?}");
    // It comes to itself, and gives the other one what that lacks.
    faults.unreadable.lock().unwrap().clear();
    assert!(content(&*vfs(&filer), file) == pattern(700_000, 7));
    filer.pool().make_sure(&member(&filer, A), &mut Patient).unwrap();
    filer.pool().leave(&member(&filer, A), &mut Patient).unwrap();
    filer.export().unwrap();
    world.take(&[A]);
    assert!(content(&*vfs(&world.import().0), file) == pattern(700_000, 7));
}

/// Somebody under whom no group gets on once the new disk counts, so that the log never takes it in; and who tries to
/// take out the old one meanwhile.
struct Hasty<'a> {
    filer: &'a Filer,
    old: &'a str,
    new: &'a str,
    made_count: u8,
}

impl Onlooker for Hasty<'_> {
    fn on_progress(&mut self, _: Stage, _: u64) -> bool {
        true
    }

    fn sync(&mut self, pool: &Pool) -> Result<(), SyncError> {
        let left = pool.leave(&member(self.filer, self.old), &mut Patient);
        assert!(left.is_err(), "{} has frames that are nowhere else", self.old);
        make(&*vfs(self.filer), &format!("meanwhile {}", self.made_count), 300, self.made_count);
        self.made_count += 1;
        // That it is to join is written down before it does.
        let is_there =
            pool.roster.vdevs().iter().flat_map(|vdev| vdev.legs()).any(|leg| leg.path() == Path::new(self.new));
        let counts = |new: Member| new.vdev.leg(new.leg).unwrap().state() == LegState::Online;
        if is_there && counts(member(self.filer, self.new)) { Ok(()) } else { pool.sync().map(|_| ()) }
    }

    fn keep_paths(&mut self, _: &Pool) -> std::io::Result<()> {
        Ok(())
    }

    fn run_lane(&mut self, _: Arc<Lane>) -> std::io::Result<()> {
        panic!("the lane has not ended");
    }

    fn let_go(&mut self, leg: Arc<VdevLeg>) {
        // A disk that refused a write refuses this too.
        let _ = leg.erase_label();
    }
}

/// A disk that was to join the log was not taken in, and stayed in its mirror as one that counts. Then the disk could
/// leave that had the frames, and what was acknowledged went with it.
#[test]
fn the_only_disk_with_the_frames_of_a_log_stays() {
    const LOG: u64 = 4 * MIB;
    const L: &str = "/disks/l";
    const M: &str = "/disks/m";
    for (vdevs, old, new) in [(A, A, B), ("/disks/a log /disks/l", L, M)] {
        let world = World::of(&[(A, DISK), (B, DISK), (L, LOG), (M, LOG)], vdevs);
        let filer = world.create();
        make(&*vfs(&filer), "before", 300, 77);
        let mut hasty = Hasty { filer: &filer, old, new, made_count: 0 };
        let joined = filer.pool().join(&member(&filer, old), Path::new(new), false, &mut hasty);
        assert!(matches!(joined, Err(MembershipError::Join { .. })), "{vdevs}: {joined:?}");
        let made_count = hasty.made_count;
        let place = member(&filer, new);
        assert_eq!(place.vdev.leg(place.leg).unwrap().state(), LegState::Faulted, "{vdevs}: nobody may rely on it");
        make(&*vfs(&filer), "behind it", 300, 78);
        filer.pool().leave(&member(&filer, old), &mut Patient).unwrap_err();
        let (filer, report) = world.cut().import();
        assert_eq!(report.losses, [""; 0], "{vdevs}");
        let made = (0..made_count).map(|number| (format!("meanwhile {number}"), number));
        for (name, seed) in made.chain([("before".to_owned(), 77), ("behind it".to_owned(), 78)]) {
            let (attr, _) = vfs(&filer).lookup(&Cred::root(), vfs(&filer).root(), name.as_bytes()).unwrap();
            assert!(content(&*vfs(&filer), attr.object) == pattern(300, seed), "{vdevs}: {name}");
        }
    }
}

/// Each block was read by itself, in the order of files: a disk that turns had a turn for each.
#[test]
fn a_scrub_reads_content_in_long_stretches() {
    const FILES: u8 = 4;
    const LENGTH: usize = 4 << 20;
    let world = World::of(&[(A, 128 << 20), (B, 128 << 20), (C, 16 << 20)], "mirror /disks/a /disks/b log /disks/c");
    let filer = world.create();
    for number in 0..FILES {
        make(&*vfs(&filer), &format!("file {number}"), LENGTH, number);
    }
    filer.pool().sync().unwrap();
    let reads = || vdev(&filer).legs().iter().map(|leg| leg.counts().reads).collect::<Vec<_>>();
    let before = reads();
    let report = filer.scrub(&mut |_| true).unwrap();
    assert!(report.checked_bytes >= u64::from(FILES) * LENGTH as u64 && report.repaired_count == 0, "{report:?}");
    for (before, after) in before.into_iter().zip(reads()) {
        // Of 128 blocks of content, and the labels, the root and the trees.
        assert!(after - before < 100, "{} reads of a leg", after - before);
    }
}

/// Blocks of 4 KiB, so that they have several leaves, between which a cursor can stand.
fn mirror_of_small_blocks() -> (World, Arc<Filer>) {
    let world = World::of(&[(A, DISK), (B, DISK)], "mirror /disks/a /disks/b");
    let properties = PropertySet::from_iter([parse(Property::RecordSize, "4K").unwrap()]);
    let filer = world.create_with(&CreateOptions { properties, ..CreateOptions::default() });
    for (number, length) in LENGTHS.into_iter().enumerate() {
        make(&*vfs(&filer), &format!("file {number}"), length, number as u8);
    }
    make(&*vfs(&filer), "long", LONG, 99);
    filer.sync().unwrap();
    (world, filer)
}

/// More than a thousand blocks.
const LONG: usize = 5 << 20;

/// A small stretch, so that the cursor of a scrub moves within this pool.
fn import_with_short_stretches(world: &World) -> Arc<Filer> {
    let tuning = Tuning { scrub_stretch_bytes: 800 << 10, ..Tuning::default() };
    world.try_import_with(&tuning, &ImportOptions::default()).unwrap().0
}

/// What was damaged was forgotten with the import that had met it, and whoever looked after a restart found a pool without
/// errors. It is told until it is gone: over power cuts and exports, and by an import that only reads.
#[test]
fn damage_is_known_after_a_restart_until_it_is_gone() {
    for by_scrub in [true, false] {
        let (world, filer) = mirror();
        let fs = vfs(&filer);
        let (attr, _) = fs.lookup(&Cred::root(), fs.root(), b"file 7").unwrap();
        let of_file = blocks(&filer, |class, object| class == Class::Extent && object == attr.object.id.0);
        drop(fs);
        filer.export().unwrap();
        drop(filer);
        [A, B].into_iter().for_each(|path| rot(&world, path, [of_file[1]].into_iter()));
        let (filer, _) = world.import();
        if by_scrub {
            assert_eq!(filer.scrub(&mut |_| true).unwrap().lost_count, 1);
        } else {
            assert!(vfs(&filer).read(&Cred::root(), attr.object, 131_072, 1).is_err());
        }
        let expected = [(Some("/file 7".to_owned()), Part::Content(131_072))];
        assert_eq!(damage(&filer), expected);
        filer.sync().unwrap();
        let world = world.cut();
        let (filer, _) = world.import();
        assert_eq!(damage(&filer), expected, "behind a power cut");
        filer.export().unwrap();
        drop(filer);
        let only_reads = ImportOptions { read_only: true, ..ImportOptions::default() };
        let (filer, _) = world.try_import(&only_reads).unwrap();
        assert_eq!(damage(&filer), expected, "of an import that only reads");
        filer.export().unwrap();
        drop(filer);
        let (filer, _) = world.import();
        let fs = vfs(&filer);
        if by_scrub {
            // It is written anew.
            let cred = Cred::root();
            let data = pattern(LENGTHS[7], 7);
            patient(|| fs.write(ctx(&cred), attr.object, 0, data.clone(), Stability::FileSync)).unwrap();
            filer.sync().unwrap();
        } else {
            // A disk gives it again, to whoever reads.
            rot(&world, B, [of_file[1]].into_iter());
            assert!(fs.read(&Cred::root(), attr.object, 131_072, 1).is_ok());
        }
        assert_eq!(damage(&filer), []);
        drop(fs);
        filer.export().unwrap();
        drop(filer);
        let (filer, _) = world.import();
        let dataset = filer.pool().datasets()[0].birth.id;
        assert_eq!(filer.pool().damage_of(dataset).places, [], "it is not remembered either");
        check(&filer);
    }
}

/// A scrub that is interrupted at any place, by a power cut, goes on where it was: nothing before its cursor was left out, and
/// little of it is read again.
#[test]
fn a_scrub_that_is_cut_off_goes_on_and_leaves_nothing_out() {
    let (world, filer) = mirror_of_small_blocks();
    let everything = blocks(&filer, |_, _| true);
    filer.export().unwrap();
    drop(filer);
    rot(&world, A, everything.iter().copied());
    let mut cursors = 0;
    for stops_after in (1..).step_by(97) {
        let world = world.cut();
        let filer = import_with_short_stretches(&world);
        let mut steps = 0;
        let outcome = filer.scrub(&mut |_| {
            steps += 1;
            steps < stops_after
        });
        if outcome.is_ok() {
            break;
        }
        filer.sync().unwrap();
        let first = filer.pool().scrub_job().unwrap();
        let world = world.cut();
        let filer = import_with_short_stretches(&world);
        let job = filer.pool().scrub_job().unwrap();
        assert_eq!((job.state, job.cursor), (JobState::Running, first.cursor));
        let (mut again, mut least) = (0, u64::MAX);
        let report = filer.scrub(&mut |done| {
            (again, least) = (again + 1, least.min(done));
            true
        });
        assert_eq!(report.unwrap().lost_count, 0);
        if job.cursor.is_some() {
            cursors += 1;
            assert!(least >= job.report.checked_bytes, "it begins at its cursor");
        }
        assert_eq!(filer.pool().scrub_job().map(|job| job.state), Some(JobState::Finished));
        filer.export().unwrap();
        drop(filer);
        let mut alone = world.cut();
        alone.take(&[B]);
        let (filer, _) = alone.import();
        check(&filer);
        let fs = vfs(&filer);
        let (attr, _) = fs.lookup(&Cred::root(), fs.root(), b"long").unwrap();
        assert!(content(&*fs, attr.object) == pattern(LONG, 99));
    }
    assert!(cursors > 2, "{cursors}");
}

/// One that is paused stays so over an import, and one that is stopped begins anew.
#[test]
fn a_scrub_that_is_paused_waits_until_it_is_asked_for() {
    let (world, filer) = mirror_of_small_blocks();
    filer.export().unwrap();
    drop(filer);
    let filer = import_with_short_stretches(&world);
    let pool = filer.pool();
    assert!(!pool.pause_scrub() && !pool.stop_scrub());
    let stops_near_the_end = &mut |done| done < 5_000_000;
    assert!(matches!(filer.scrub(stops_near_the_end), Err(SecureError::Stopped)));
    assert!(pool.pause_scrub() && !pool.pause_scrub());
    filer.sync().unwrap();
    let job = pool.scrub_job().unwrap();
    assert!(job.state == JobState::Paused && job.cursor.is_some(), "{job:?}");
    let world = world.cut();
    let filer = import_with_short_stretches(&world);
    assert_eq!(filer.pool().scrub_job(), Some(job.clone()));
    filer.export().unwrap();
    drop(filer);
    let filer = import_with_short_stretches(&world);
    assert_eq!(filer.pool().scrub_job(), Some(job.clone()));
    assert!(matches!(filer.scrub(&mut |_| false), Err(SecureError::Stopped)));
    let resumed = filer.pool().scrub_job().unwrap();
    assert!(resumed.state == JobState::Running && resumed.in_parts && resumed.cursor == job.cursor, "{resumed:?}");
    assert!(filer.pool().stop_scrub());
    let report = filer.scrub(&mut |_| true).unwrap();
    let job = filer.pool().scrub_job().unwrap();
    assert!(job.state == JobState::Finished && !job.in_parts && job.report.checked_bytes == report.checked_bytes);
}
