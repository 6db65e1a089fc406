//! A pool from its creation over work, power cuts and imports, through the door that the protocol server uses.

mod world;

use bytes::Bytes;
use tally_base::Time;
use tally_base::codec::Reader;
use tally_disk::Durability;
use tally_fs::Filer;
use tally_fs::filer::{CreateOptions, ImportOptions};
use tally_fs::inode::Inode;
use tally_store::key::{Class, Key};
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tuning::Tuning;
use tally_vfs::{
    Content, CreateHow, Cred, FsError, Identity, Names, ObjectRef, OpCtx, ReplyKey, SetAttr, Stability, Vfs,
};
use world::{Event, World, content, ctx, done, mode, noise, vfs};

const MIB: u64 = 1 << 20;

fn pattern(length: usize, seed: u8) -> Bytes {
    (0..length)
        .map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed).wrapping_add((i >> 8) as u8))
        .collect::<Vec<u8>>()
        .into()
}

/// To a disk that turns each write is a turn; where the log lies on it as well, a frame gets its turn between two of them
/// (rules P3).
#[test]
fn writes_are_longer_where_no_frame_waits_for_them() {
    for (world, files, longest) in [
        (World::new(64 * MIB, 64 * MIB), 40, 4 * MIB),
        // As many as so small a ring lets come before their group is written.
        (World::without_log(512 * MIB), 12, MIB),
    ] {
        let filer = world.create_without_threads(&CreateOptions::default());
        let (fs, cred) = (vfs(&filer), Cred::root());
        // Files that are not placed before their group is written.
        for number in 0..files {
            let how = CreateHow::Guarded(mode(0o644));
            let file = fs.create(ctx(&cred), fs.root(), format!("{number}").as_bytes(), &how).result.unwrap();
            fs.write(ctx(&cred), file.object, 0, noise(128 << 10, number), Stability::Unstable).result.unwrap();
        }
        world.start_journal();
        filer.sync().unwrap();
        let bytes_written = |event| match event {
            Event::Write { disk, bytes, durability: Durability::Cached, .. } if disk == "/disks/data" => bytes.len(),
            _ => 0,
        };
        assert_eq!(world.end_journal().into_iter().map(bytes_written).max(), Some(longest as usize));
    }
}

#[test]
fn what_was_acknowledged_survives_a_power_cut_without_any_sync() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let dir = done(fs.mkdir(ctx(&cred), fs.root(), b"dir", &mode(0o755))).unwrap();
    let mut files = Vec::new();
    for number in 0..50u8 {
        let name = format!("file{number}");
        let file =
            done(fs.create(ctx(&cred), dir.object, name.as_bytes(), &CreateHow::Exclusive(u64::from(number)))).unwrap();
        done(fs.setattr(ctx(&cred), file.object, &mode(0o640), None)).unwrap();
        let data = pattern(4096, number);
        done(fs.write(ctx(&cred), file.object, 0, data.clone(), Stability::FileSync)).unwrap();
        files.push((name, file.object, data));
    }
    done(fs.symlink(ctx(&cred), dir.object, b"link", b"file1", &SetAttr::default())).unwrap();
    done(fs.link(ctx(&cred), files[2].1, fs.root(), b"second")).unwrap();
    done(fs.rename(ctx(&cred), dir.object, b"file3", fs.root(), b"moved")).unwrap();
    done(fs.remove(ctx(&cred), dir.object, b"file4")).unwrap();
    // Until here only the uberblock of the creation is on disk: all of this must come out of the log.
    let (after, report) = world.cut().import();
    assert_eq!(report.losses, Vec::<String>::new());
    assert!(report.records_replayed >= 154, "{report:?}");
    let again = vfs(&after);
    for (number, (name, object, data)) in files.iter().enumerate() {
        match number {
            4 => {
                assert_eq!(again.lookup(&cred, dir.object, name.as_bytes()).unwrap_err(), FsError::NotFound);
                assert_eq!(again.getattr(*object).unwrap_err(), FsError::Stale);
            }
            _ => {
                let (attr, _) = match number {
                    3 => again.lookup(&cred, again.root(), b"moved").unwrap(),
                    _ => again.lookup(&cred, dir.object, name.as_bytes()).unwrap(),
                };
                assert_eq!(attr.object, *object, "handles survive");
                assert_eq!((attr.mode, attr.nlink), (0o640, if number == 2 { 2 } else { 1 }));
                assert_eq!(content(&*again, *object), &data[..]);
            }
        }
    }
    let (link, _) = again.lookup(&cred, dir.object, b"link").unwrap();
    assert_eq!(&again.readlink(link.object).unwrap().0[..], b"file1");
    assert_eq!(again.getattr(dir.object).unwrap().size, 2 + 50 + 1 - 2);
}

#[test]
fn a_replay_that_is_itself_cut_short_is_done_again() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap();
    done(fs.write(ctx(&cred), file.object, 0, pattern(100_000, 1), Stability::FileSync)).unwrap();
    let cut = world.cut();
    for _ in 0..3 {
        let (after, _) = cut.import();
        assert_eq!(content(&*vfs(&after), file.object), &pattern(100_000, 1)[..]);
        drop(after);
    }
}

/// So many records that a thread decodes them ahead of the one that applies them.
#[test]
fn a_long_replay_keeps_its_order() {
    let world = World::new(768 * MIB, 64 * MIB);
    let filer = world.create_without_threads(&CreateOptions::default());
    let fs = vfs(&filer);
    let cred = Cred::root();
    let file = done(fs.create(ctx(&cred), fs.root(), b"f", &CreateHow::Guarded(mode(0o600)))).unwrap();
    // Each name is the source of the next rename: none can be replayed out of its turn.
    let names: Vec<String> =
        std::iter::once("f".to_owned()).chain((0..4200).map(|number| number.to_string())).collect();
    for pair in names.windows(2) {
        done(fs.rename(ctx(&cred), fs.root(), pair[0].as_bytes(), fs.root(), pair[1].as_bytes())).unwrap();
    }
    let (again, report) = world.cut().import();
    assert!(report.records_replayed > 4200, "{report:?}");
    let (found, _) = vfs(&again).lookup(&cred, vfs(&again).root(), b"4199").unwrap();
    assert_eq!(found.object, file.object);
}

/// Groups are synced beside a long replay, while records go on into the next one. The root of a group must not speak of
/// records that came after it: a power cut behind its uberblock would skip them.
#[test]
fn a_long_replay_may_be_cut_between_any_two_groups() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create_without_threads(&CreateOptions::default());
    let fs = vfs(&filer);
    let cred = Cred::root();
    let data = |number: usize| pattern(4096, number as u8);
    let files: Vec<_> = (0..400)
        .map(|number| {
            let name = format!("file{number}");
            let how = CreateHow::Guarded(mode(0o600));
            let file = done(fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).unwrap();
            done(fs.write(ctx(&cred), file.object, 0, data(number), Stability::FileSync)).unwrap();
            file.object
        })
        .collect();
    let mut groups = std::collections::BTreeSet::new();
    for writes in (0..200).step_by(7) {
        let replaying = world.cut();
        replaying.lose_power_after(writes);
        let tuning = Tuning { dirty_bytes_max: 1 << 20, ..Tuning::default() };
        let cut_short = replaying.try_import_with(&tuning, &ImportOptions::default());
        let (again, report) = replaying.cut().import();
        groups.insert(report.records_replayed);
        for (number, object) in files.iter().enumerate() {
            assert_eq!(content(&*vfs(&again), *object), &data(number)[..], "file {number}, cut after {writes} writes");
        }
        drop(cut_short);
    }
    assert!(groups.len() > 3, "the cuts fell between several groups: {groups:?}");
}

/// Two datasets have records, and the power goes twice in the replay of the second one's. The first import has taken in all
/// records of the first dataset; the second finds none left to replay, and its groups said of it that nothing was replayed.
/// So the third began again: a WRITE to a file that a later record had removed, and the import was refused.
#[test]
fn a_replay_that_is_cut_twice_never_goes_back() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create_without_threads(&CreateOptions::default());
    filer.create_dataset("tank/long", PropertySet::new(), (0, 0)).unwrap();
    let (first, long) = (vfs(&filer), filer.by_name("tank/long").unwrap());
    let cred = Cred::root();
    let make = |fs: &dyn Vfs, name: &str| {
        let how = CreateHow::Guarded(mode(0o600));
        done(fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).unwrap().object
    };
    let write = |fs: &dyn Vfs, file| {
        done(fs.write(ctx(&cred), file, 0, pattern(4096, 1), Stability::FileSync)).unwrap();
    };
    let old = make(&*first, "old");
    filer.sync().unwrap();
    write(&*first, old);
    done(first.remove(ctx(&cred), first.root(), b"old")).unwrap();
    (0..400).for_each(|number| write(&*long, make(&*long, &format!("file{number}"))));
    let tuning = Tuning { dirty_bytes_max: 1 << 20, ..Tuning::default() };
    let mut replayed = std::collections::BTreeSet::new();
    for writes in (0..60).step_by(12).flat_map(|once| (0..60).step_by(12).map(move |again| [once, again])) {
        let mut world = world.cut();
        for writes in writes {
            world.lose_power_after(writes);
            drop(world.try_import_with(&tuning, &ImportOptions::default()));
            world = world.cut();
        }
        let (filer, report) = world.import();
        replayed.insert(report.records_replayed);
        assert_eq!(vfs(&filer).lookup(&cred, vfs(&filer).root(), b"old").unwrap_err(), FsError::NotFound);
    }
    assert!(replayed.len() > 3, "the cuts fell between several groups: {replayed:?}");
}

/// Both copies of an uberblock are written at once, so a power cut may tear it in every place that it has. The one before has
/// to do, and its log must still be there; and if that goes on, cut after cut.
#[test]
fn an_uberblock_that_is_torn_in_every_copy_costs_nothing() {
    let disks = [("/disks/a", 32 * MIB), ("/disks/b", 32 * MIB), ("/disks/slog", 16 * MIB)];
    let world = World::of(&disks, "mirror /disks/a /disks/b log /disks/slog");
    let filer = world.create_without_threads(&CreateOptions::default());
    let (fs, cred) = (vfs(&filer), Cred::root());
    let data = |number: usize| pattern(4096, number as u8);
    let files: Vec<_> = (0..60)
        .map(|number| {
            let name = format!("file{number}");
            let made = fs.create(ctx(&cred), fs.root(), name.as_bytes(), &CreateHow::Guarded(mode(0o600)));
            let file = done(made).unwrap().object;
            done(fs.write(ctx(&cred), file, 0, data(number), Stability::FileSync)).unwrap();
            file
        })
        .collect();
    let tuning = Tuning { dirty_bytes_max: 96 << 10, ..Tuning::default() };
    let mut torn = [0; 3];
    for writes in (1..60).step_by(2) {
        let mut world = world.cut();
        for torn in &mut torn {
            world.lose_power_after(writes);
            drop(world.try_import_with(&tuning, &ImportOptions::default()));
            world = world.cut();
            *torn += u32::from(world.tear_uberblock());
        }
        let (again, report) = world.import();
        assert_eq!(report.losses, Vec::<String>::new(), "cut after {writes} writes");
        for (number, object) in files.iter().enumerate() {
            assert_eq!(content(&*vfs(&again), *object), &data(number)[..], "file {number}, cut after {writes} writes");
        }
    }
    assert!(torn.iter().all(|count| *count > 0), "the cuts fell into uberblocks: {torn:?}");
}

#[test]
fn everything_is_there_after_a_clean_export_and_nothing_is_replayed() {
    let world = World::without_log(64 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let file = done(fs.create(ctx(&cred), fs.root(), b"big", &CreateHow::Guarded(mode(0o600)))).unwrap();
    let data = pattern(5 * MIB as usize + 12345, 7);
    let first = done(fs.write(ctx(&cred), file.object, 0, data.clone(), Stability::Unstable)).unwrap();
    let verifier = done(fs.commit(ctx(&cred), file.object, 0, 0)).unwrap();
    assert_eq!(first.verifier, verifier);
    filer.export().unwrap();
    let (again, report) = world.import();
    assert!(report.was_clean);
    assert_eq!(report.records_replayed, 0);
    let fs = vfs(&again);
    assert_eq!(content(&*fs, file.object), &data[..]);
    assert_eq!(
        done(fs.commit(ctx(&cred), file.object, 0, 0)).unwrap(),
        verifier,
        "nothing was lost, so the verifier stays"
    );
}

#[test]
fn unstable_data_is_lost_or_kept_and_the_verifier_tells() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap();
    let written = done(fs.write(ctx(&cred), file.object, 0, pattern(9000, 1), Stability::Unstable)).unwrap();
    assert_eq!(written.stability, Stability::Unstable);
    let (after, _) = world.cut().import();
    let again = vfs(&after);
    assert_eq!(again.getattr(file.object).unwrap().size, 0, "its size was no more promised than its data");
    let now = done(again.write(ctx(&cred), file.object, 0, pattern(10, 2), Stability::Unstable)).unwrap();
    assert_ne!(now.verifier, written.verifier);
}

#[test]
fn a_commit_makes_just_what_was_unstable_durable() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap();
    let mut expected = vec![0; 50_000];
    for (offset, length, seed) in [(0u64, 10_000usize, 1u8), (30_000, 20_000, 2), (5_000, 3_000, 3)] {
        done(fs.write(ctx(&cred), file.object, offset, pattern(length, seed), Stability::Unstable)).unwrap();
        expected[offset as usize..offset as usize + length].copy_from_slice(&pattern(length, seed));
    }
    done(fs.commit(ctx(&cred), file.object, 0, 0)).unwrap();
    done(fs.write(ctx(&cred), file.object, 0, pattern(1000, 9), Stability::Unstable)).unwrap();
    let (after, _) = world.cut().import();
    assert_eq!(content(&*vfs(&after), file.object), expected, "committed content, without the write that came later");
}

#[test]
fn a_truncation_and_a_late_commit_do_not_bring_old_bytes_back() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let file = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap();
    done(fs.write(ctx(&cred), file.object, 0, pattern(200_000, 1), Stability::Unstable)).unwrap();
    filer.sync().unwrap();
    let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
    done(fs.setattr(ctx(&cred), file.object, &size(1000), None)).unwrap();
    done(fs.setattr(ctx(&cred), file.object, &size(300_000), None)).unwrap();
    done(fs.write(ctx(&cred), file.object, 250_000, pattern(100, 2), Stability::Unstable)).unwrap();
    done(fs.commit(ctx(&cred), file.object, 0, 0)).unwrap();
    let mut expected = vec![0; 300_000];
    expected[..1000].copy_from_slice(&pattern(200_000, 1)[..1000]);
    expected[250_000..250_100].copy_from_slice(&pattern(100, 2));
    assert_eq!(content(&*fs, file.object), expected);
    let (after, _) = world.cut().import();
    assert_eq!(content(&*vfs(&after), file.object), expected, "from the log");
    filer.sync().unwrap();
    assert_eq!(content(&*fs, file.object), expected, "from the pool");
    let (after, _) = world.cut().import();
    assert_eq!(content(&*vfs(&after), file.object), expected, "from the pool, after a cut");
}

#[test]
fn a_retransmission_gets_its_first_answer_after_a_crash_also_when_the_log_was_trimmed() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let asked = OpCtx { reply: Some(ReplyKey([7; 40])), ..OpCtx::of(&cred) };
    let made = done(fs.create(asked, fs.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap();
    let from_log = world.cut();
    for _ in 0..3 {
        filer.sync().unwrap();
    }
    for disks in [from_log, world.cut()] {
        let (after, _) = disks.import();
        let remembered = vfs(&after).remembered(&ReplyKey([7; 40])).expect("it is remembered");
        assert_eq!(remembered.object, Some(made.object));
        assert_eq!(vfs(&after).remembered(&ReplyKey([8; 40])), None);
    }
}

#[test]
fn a_failure_waits_for_what_it_saw() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let first = fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)));
    let second = fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o600)));
    assert_eq!(second.result.as_ref().unwrap_err(), &FsError::Exists);
    assert!(!world::is_ready(&second.wait), "EXIST must not be told before the CREATE is durable");
    second.wait.block().unwrap();
    let (after, _) = world.cut().import();
    assert!(vfs(&after).lookup(&cred, fs.root(), b"file").is_ok());
    done(first).unwrap();
}

#[test]
fn under_sync_disabled_nothing_is_logged_and_the_switch_back_keeps_everything() {
    let world = World::new(64 * MIB, 16 * MIB);
    let mut properties = PropertySet::new();
    properties.set(parse(Property::Sync, "disabled").unwrap());
    let filer = world.create_with(&CreateOptions { properties, ..CreateOptions::default() });
    let fs = vfs(&filer);
    let cred = Cred::root();
    let lost = fs.mkdir(ctx(&cred), fs.root(), b"dir", &mode(0o755));
    assert!(world::is_ready(&lost.wait), "nobody waits here");
    let dir = done(lost).unwrap();
    assert!(filer.exposure().0 > 0);
    let (after, report) = world.cut().import();
    assert_eq!(report.records_replayed, 0);
    assert_eq!(vfs(&after).getattr(dir.object).unwrap_err(), FsError::Stale);
    filer.set_property("tank", parse(Property::Sync, "standard").unwrap()).unwrap();
    done(fs.create(ctx(&cred), dir.object, b"file", &CreateHow::Guarded(mode(0o600)))).unwrap();
    let (after, _) = world.cut().import();
    assert!(vfs(&after).lookup(&cred, dir.object, b"file").is_ok(), "the directory came with the switch");
    filer.set_property("tank", parse(Property::Sync, "disabled").unwrap()).unwrap();
    let (after, _) = world.cut().import();
    assert!(vfs(&after).lookup(&cred, dir.object, b"file").is_ok());
}

#[test]
fn datasets_come_and_go_with_their_mount_points_and_properties() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let home = filer.create_dataset("tank/home", PropertySet::new(), (0, 0)).unwrap();
    filer.set_property("tank", parse(Property::RecordSize, "16K").unwrap()).unwrap();
    assert_eq!(filer.datasets()[1].effective.recordsize, 16 << 10);
    let cred = Cred::root();
    let root = vfs(&filer);
    let (point, _) = root.lookup(&cred, root.root(), b"home").unwrap();
    assert!(filer.child(root.dataset(), root.root(), b"home").is_some());
    assert_eq!(done(root.rmdir(ctx(&cred), root.root(), b"home")).unwrap_err(), FsError::Access, "it is mounted on");
    let file = done(home.create(ctx(&cred), home.root(), b"file", &CreateHow::Guarded(mode(0o600)))).unwrap();
    done(home.write(ctx(&cred), file.object, 0, pattern(3 * MIB as usize, 5), Stability::FileSync)).unwrap();
    filer.rename_dataset("tank/home", "tank/away").unwrap();
    let (after, _) = world.cut().import();
    let away = after.by_name("tank/away").expect("renamed");
    assert_eq!(content(&*away, file.object), &pattern(3 * MIB as usize, 5)[..]);
    assert_eq!(vfs(&after).getattr(point.object).unwrap_err(), FsError::Stale);
    let before = after.pool().io.allocator().space();
    drop(away);
    after.destroy_dataset("tank/away", false).unwrap();
    for _ in 0..3 {
        after.sync().unwrap();
    }
    let space = after.pool().io.allocator().space();
    assert!(space.allocated < before.allocated / 2, "its blocks are free again: {before:?} {space:?}");
    assert!(vfs(&after).lookup(&cred, root.root(), b"away").is_err());
}

#[test]
fn a_full_pool_refuses_to_write_and_still_lets_remove() {
    let world = World::new(16 * MIB, 4 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let mut files = Vec::new();
    let refused = 'full: loop {
        let name = format!("f{}", files.len());
        let file = loop {
            let outcome = fs.create(ctx(&cred), fs.root(), name.as_bytes(), &CreateHow::Guarded(mode(0o600)));
            match done(outcome) {
                Err(FsError::Throttled) => {}
                Err(error) => break 'full error,
                Ok(attr) => break attr,
            }
        };
        files.push(name);
        let data: Vec<u8> = (0..256 * 1024).map(|i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect();
        loop {
            match done(fs.write(ctx(&cred), file.object, 0, data.clone().into(), Stability::FileSync)) {
                Err(FsError::Throttled) => {}
                Err(error) => break 'full error,
                Ok(_) => break,
            }
        }
        assert!(files.len() < 1000, "a pool of 16 MiB is full some day");
    };
    assert_eq!(refused, FsError::NoSpace);
    filer.sync().unwrap();
    for name in &files {
        while done(fs.remove(ctx(&cred), fs.root(), name.as_bytes())) == Err(FsError::Throttled) {}
    }
    for _ in 0..4 {
        filer.sync().unwrap();
    }
    done(fs.create(ctx(&cred), fs.root(), b"room", &CreateHow::Guarded(mode(0o600)))).unwrap();
    let (after, _) = world.cut().import();
    assert!(vfs(&after).lookup(&cred, fs.root(), b"room").is_ok());
}

#[test]
fn times_never_go_back_and_never_repeat() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let mut last = Time(0);
    for number in 0..100 {
        let made = done(fs.mkdir(ctx(&cred), fs.root(), format!("d{number}").as_bytes(), &mode(0o755))).unwrap();
        assert!(made.change > last);
        last = made.change;
    }
    let (after, _) = world.cut().import();
    let later = vfs(&after);
    let made = done(later.mkdir(ctx(&cred), later.root(), b"later", &mode(0o755))).unwrap();
    assert!(made.change > last);
}

/// The answer STALE rests on the removal of the directory as much as NOENT in it would, and so does the refusal to move a
/// directory below itself on how it came to stand there (rules F9).
#[test]
fn a_failure_before_any_lock_waits_for_what_it_saw_too() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let make = |name: &[u8]| done(fs.mkdir(ctx(&cred), fs.root(), name, &mode(0o755))).unwrap().object;
    let (gone, above, below) = (make(b"gone"), make(b"above"), make(b"below"));
    let removal = fs.rmdir(ctx(&cred), fs.root(), b"gone");
    let refused = [
        fs.remove(ctx(&cred), gone, b"x"),
        fs.rmdir(ctx(&cred), gone, b"x"),
        fs.rename(ctx(&cred), gone, b"x", fs.root(), b"x"),
        fs.rename(ctx(&cred), fs.root(), b"above", gone, b"x"),
    ];
    for outcome in &refused {
        assert_eq!(outcome.result, Err(FsError::Stale));
        assert!(!world::is_ready(&outcome.wait), "STALE must not be told before the RMDIR is durable");
    }
    let made = fs.create(ctx(&cred), gone, b"x", &CreateHow::Guarded(mode(0o600)));
    assert_eq!(made.result.as_ref().unwrap_err(), &FsError::Stale);
    assert!(!world::is_ready(&made.wait), "STALE must not be told before the RMDIR is durable");
    done(removal).unwrap();
    let moved = fs.rename(ctx(&cred), fs.root(), b"below", above, b"below");
    let cycle = fs.rename(ctx(&cred), fs.root(), b"above", below, b"x");
    assert_eq!(cycle.result, Err(FsError::Invalid));
    assert!(!world::is_ready(&cycle.wait), "INVAL must not be told before the RENAME is durable");
    done(moved).unwrap();
}

/// The same where the directory that moved is neither of the two that the request names, but stands above one of them.
#[test]
fn a_cycle_waits_for_every_parent_that_it_rests_on() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let fs = vfs(&filer);
    let cred = Cred::root();
    let make = |dir, name: &[u8]| done(fs.mkdir(ctx(&cred), dir, name, &mode(0o755))).unwrap().object;
    let (above, aside) = (make(fs.root(), b"above"), make(fs.root(), b"aside"));
    let middle = make(aside, b"middle");
    let below = make(make(middle, b"lower"), b"below");
    let moved = fs.rename(ctx(&cred), aside, b"middle", above, b"middle");
    let cycle = fs.rename(ctx(&cred), fs.root(), b"above", below, b"x");
    assert_eq!(cycle.result, Err(FsError::Invalid));
    assert!(!world::is_ready(&cycle.wait), "INVAL must not be told before the RENAME is durable");
    done(moved).unwrap();
    let cycle = fs.rename(ctx(&cred), fs.root(), b"above", below, b"x");
    assert_eq!(cycle.result, Err(FsError::Invalid));
    assert!(world::is_ready(&cycle.wait), "now there is nothing to wait for");
}

/// No client is told yet when an object was made; once one asks, it is too late to have kept it.
#[test]
fn when_an_object_was_made_stays_what_it_is() {
    let birth_of = |filer: &Filer, object: ObjectRef| {
        filer.sync().unwrap();
        let root = filer.pool().dataset(vfs(filer).dataset()).unwrap().root();
        let value = root.tree.get(&filer.pool().io, &Key::new(Class::Inode, object.id.0, 0, 0)).unwrap().unwrap();
        Inode::decode(&mut Reader::new(&value, "inode")).unwrap().birth
    };
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let (fs, cred) = (vfs(&filer), Cred::root());
    let made = done(fs.create(ctx(&cred), fs.root(), b"file", &CreateHow::Guarded(mode(0o644)))).unwrap();
    let is_born_then = |filer: &Filer| assert_eq!(birth_of(filer, made.object), made.ctime);
    is_born_then(&filer);
    done(fs.setattr(ctx(&cred), made.object, &mode(0o600), None)).unwrap();
    done(fs.rename(ctx(&cred), fs.root(), b"file", fs.root(), b"renamed")).unwrap();
    let (replayed, report) = world.cut().import();
    assert_eq!(report.records_replayed, 2);
    is_born_then(&replayed);
    is_born_then(&filer);
    assert!(made.ctime > Time(0) && fs.getattr(made.object).unwrap().ctime > made.ctime);
}
