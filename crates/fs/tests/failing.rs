//! Disks that fail while the pool serves, and disks that come back older than they left.

mod world;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use bytes::Bytes;
use tally_fs::filer::{CreateOptions, Filer, FilerError, ImportOptions};
use tally_members::assemble::ImportError;
use tally_members::label::FailMode;
use tally_members::vdev::LegState;
use tally_store::properties::{Property, PropertySet, parse};
use tally_store::tuning::Tuning;
use tally_vfs::{CreateHow, Cred, FsError, ObjectRef, SetAttr, Stability, Vfs};
use world::{Faults, World, content, ctx, done, mode, patient, vfs};

const MIB: u64 = 1 << 20;
const DATA: u64 = 16 * MIB;
const LOG: u64 = 2 * MIB;

fn pattern(length: usize, seed: u8) -> Bytes {
    (0..length).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect()
}

fn make(fs: &dyn Vfs, name: &str) -> Result<ObjectRef, FsError> {
    let cred = Cred::root();
    let how = CreateHow::Guarded(mode(0o600));
    let file = patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how))?.object;
    patient(|| fs.write(ctx(&cred), file, 0, name.as_bytes().to_vec().into(), Stability::FileSync))?;
    Ok(file)
}

fn has(fs: &dyn Vfs, name: &str) -> bool {
    let Ok((attr, _)) = fs.lookup(&Cred::root(), fs.root(), name.as_bytes()) else { return false };
    assert_eq!(content(fs, attr.object), name.as_bytes());
    true
}

fn state(filer: &Filer, path: &str) -> LegState {
    let legs = filer.pool().roster.vdevs().iter().flat_map(|vdev| vdev.legs());
    legs.into_iter().find(|leg| leg.path().to_str() == Some(path)).expect("it is a disk of the pool").state()
}

type Switch = fn(&Faults);

/// All the ways in which a device says no.
const WAYS: [(&str, Switch); 4] = [
    ("writes", |faults| faults.writes.store(true, SeqCst)),
    ("durable writes", |faults| faults.durable_writes.store(true, SeqCst)),
    ("flushes", |faults| faults.flushes.store(true, SeqCst)),
    ("everything", |faults| faults.all(true)),
];

#[test]
fn a_mirror_goes_on_without_the_leg_that_fails_and_so_does_the_next_import() {
    for (what, switch) in WAYS {
        let disks = [("/disks/a", DATA), ("/disks/b", DATA), ("/disks/l", LOG), ("/disks/m", LOG)];
        let world = World::of(&disks, "mirror /disks/a /disks/b log mirror /disks/l /disks/m");
        let filer = world.create();
        make(&*vfs(&filer), "before").unwrap();
        filer.sync().unwrap();
        switch(&world.faults("/disks/b"));
        switch(&world.faults("/disks/m"));
        make(&*vfs(&filer), "acknowledged").unwrap();
        filer.sync().unwrap();
        make(&*vfs(&filer), "in the log").unwrap();
        assert_eq!(state(&filer, "/disks/a"), LegState::Online, "{what}");
        assert_eq!(state(&filer, "/disks/b"), LegState::Faulted, "{what}");
        // The log and the uberblock are written durably and never flushed.
        let log_failed = !["writes", "flushes"].contains(&what);
        assert_eq!(state(&filer, "/disks/m") == LegState::Faulted, log_failed, "{what}");
        let mut world = world.cut();
        world.take(&["/disks/b", "/disks/m"]);
        let (filer, report) = world.import();
        assert!(report.losses.is_empty(), "{what}: {:?}", report.losses);
        for name in ["before", "acknowledged", "in the log"] {
            assert!(has(&*vfs(&filer), name), "{what}: {name}");
        }
    }
}

/// The log device fails while the pool serves: nobody notices but in time, and from the next group on the device is not
/// needed any more, whether it is there or not.
#[test]
fn a_log_device_that_fails_costs_time_and_no_promise() {
    for vdevs in ["/disks/a log /disks/l", "/disks/a log /disks/l log /disks/m"] {
        let world = World::of(&[("/disks/a", DATA), ("/disks/l", LOG), ("/disks/m", LOG)], vdevs);
        let filer = world.create();
        for number in 0..4 {
            filer.create_dataset(&format!("tank/d{number}"), PropertySet::new(), (0, 0)).unwrap();
        }
        let all = || filer.datasets().into_iter().map(|info| filer.by_name(&info.name).unwrap());
        for fs in all() {
            make(&*fs, "in the log").unwrap();
        }
        world.faults("/disks/l").all(true);
        for fs in all() {
            make(&*fs, "without it").unwrap();
        }
        filer.sync().unwrap();
        assert_eq!(state(&filer, "/disks/l"), LegState::Faulted);
        for fs in all() {
            make(&*fs, "later").unwrap();
        }
        for is_back in [true, false] {
            let mut world = world.cut();
            if !is_back {
                world.take(&["/disks/l"]);
            }
            let (after, report) = world.import();
            assert!(report.losses.is_empty(), "{vdevs}: {:?}", report.losses);
            for info in after.datasets() {
                let fs = after.by_name(&info.name).unwrap();
                for name in ["in the log", "without it", "later"] {
                    assert!(has(&*fs, name), "{vdevs}, {}: {name}, device back: {is_back}", info.name);
                }
                make(&*fs, "at last").unwrap();
            }
            let (after, _) = world.cut().import();
            assert!(after.datasets().iter().all(|info| has(&*after.by_name(&info.name).unwrap(), "at last")));
        }
    }
}

/// Clients are at work while the log loses its device and gets another. What they remember of the old ring's records must
/// not be waited for in the new one.
#[test]
fn a_log_device_that_failed_is_replaced_while_clients_work() {
    let mut world = World::of(&[("/disks/a", 4 * DATA), ("/disks/l", LOG)], "/disks/a log /disks/l");
    let filer = world.create();
    let fs = vfs(&filer);
    let names = |from: usize| (from..from + 20).map(|number| format!("f{number}"));
    for name in names(0) {
        make(&*fs, &name).unwrap();
    }
    let cred = Cred::root();
    let dir = done(fs.mkdir(ctx(&cred), fs.root(), b"dir", &mode(0o700))).unwrap().object;
    done(fs.mkdir(ctx(&cred), dir, b"x", &mode(0o700))).unwrap();
    world.faults("/disks/l").all(true);
    for name in names(20) {
        make(&*fs, &name).unwrap();
    }
    filer.sync().unwrap();
    let working = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut count = 40;
            // Bounded, so that the pool does not fill up.
            while working.load(SeqCst) && count < 2000 {
                make(&*fs, &format!("f{count}")).unwrap();
                count += 1;
            }
            count
        });
        world.replace_log(&filer, tally_base::LaneId(0), "/disks/fresh");
        let is_ready = std::cell::Cell::new(false);
        let again = patient(|| {
            let outcome = fs.mkdir(ctx(&cred), dir, b"x", &mode(0o700));
            is_ready.set(world::is_ready(&outcome.wait));
            outcome
        });
        assert_eq!(again.unwrap_err(), FsError::Exists);
        assert!(is_ready.get(), "it rests on a record of the old ring, which is in the pool by now");
        working.store(false, SeqCst);
        let count = worker.join().unwrap();
        make(&*fs, "last").unwrap();
        assert!(filer.pool().lanes()[0].stats().record_count > 0, "the log takes records again");
        let (after, report) = world.cut().import();
        assert!(report.losses.is_empty() && has(&*vfs(&after), "last"), "{report:?}");
        assert!(names(0).chain(names(20)).all(|name| has(&*vfs(&after), &name)));
        assert!((40..count).all(|number| has(&*vfs(&after), &format!("f{number}"))), "of {count}");
    });
}

#[test]
fn a_pool_whose_only_disk_refuses_writes_is_suspended_and_promises_nothing() {
    for (what, switch) in WAYS {
        let world = World::of(&[("/disks/a", DATA)], "/disks/a");
        let filer = world.create();
        let fs = vfs(&filer);
        make(&*fs, "before").unwrap();
        filer.sync().unwrap();
        switch(&world.faults("/disks/a"));
        let cred = Cred::root();
        let outcome = fs.create(ctx(&cred), fs.root(), b"after", &CreateHow::Guarded(mode(0o600)));
        // A flush that fails is met by the next group; the log itself is written durably and goes on until then.
        let is_promised = outcome.wait.block().is_ok();
        assert_eq!(is_promised, ["writes", "flushes"].contains(&what), "{what}");
        filer.sync().unwrap_err();
        let fault = filer.pool().fault().expect("it is suspended").0.clone();
        assert!(fault.contains("vdev") || fault.contains("on request"), "{what}: {fault}");
        let refused = done(fs.create(ctx(&cred), fs.root(), b"x", &CreateHow::Guarded(mode(0o600)))).unwrap_err();
        assert_eq!(refused, FsError::Unavailable, "{what}");
        let (after, _) = world.cut().import();
        assert!(has(&*vfs(&after), "before"), "{what}");
        assert_eq!(vfs(&after).lookup(&cred, fs.root(), b"after").is_ok(), is_promised, "{what}");
    }
}

/// A disk without which nothing goes was away for a moment. Whatever was tried meanwhile, the pool is whole when it is back.
#[test]
fn a_pool_that_was_suspended_comes_back_with_its_disk() {
    for (what, switch) in WAYS {
        for vdevs in ["/disks/a /disks/b", "/disks/a log /disks/l", "/disks/a /disks/b log mirror /disks/l /disks/m"] {
            let disks = [("/disks/a", DATA), ("/disks/b", DATA), ("/disks/l", LOG), ("/disks/m", LOG)];
            let world = World::of(&disks, vdevs);
            let filer = world.create();
            let fs = vfs(&filer);
            make(&*fs, "before").unwrap();
            filer.sync().unwrap();
            switch(&world.faults("/disks/a"));
            let cred = Cred::root();
            let promised = fs.mkdir(ctx(&cred), fs.root(), b"meanwhile", &mode(0o700)).wait.block().is_ok();
            filer.sync().unwrap_err();
            filer.pool().roster.set_failmode(FailMode::Continue).ok();
            assert!(filer.create_dataset("tank/x", PropertySet::new(), (0, 0)).is_err());
            filer.export().unwrap_err();
            let (filer, report) =
                world.cut().try_import(&ImportOptions::default()).unwrap_or_else(|e| panic!("{what}, {vdevs}: {e}"));
            assert!(report.losses.is_empty(), "{what}, {vdevs}: {:?}", report.losses);
            assert!(has(&*vfs(&filer), "before"), "{what}, {vdevs}");
            let is_there = vfs(&filer).lookup(&cred, fs.root(), b"meanwhile").is_ok();
            assert!(is_there || !promised, "{what}, {vdevs}");
            make(&*vfs(&filer), "after").unwrap();
        }
    }
}

/// A disk of data could be read and refused every write, and the pool was imported again and again, as a server does that is
/// started again. Each try raised the labels of the log device and not those of that disk: with the third it was two behind,
/// was taken for an older copy of itself, and no import took the pool any more when all was well again.
#[test]
fn a_disk_that_refuses_one_import_after_the_other_is_the_same_disk_still() {
    for (what, switch) in WAYS.into_iter().filter(|(what, _)| *what != "everything") {
        for vdevs in ["/disks/a log /disks/l", "/disks/a /disks/b", "mirror /disks/a /disks/c log /disks/l"] {
            let disks = [("/disks/a", DATA), ("/disks/b", DATA), ("/disks/c", DATA), ("/disks/l", LOG)];
            let world = World::of(&disks, vdevs);
            let filer = world.create();
            make(&*vfs(&filer), "acknowledged").unwrap();
            let world = world.cut();
            for path in ["/disks/a", "/disks/c"] {
                switch(&world.faults(path));
            }
            for _ in 0..4 {
                let refused = world.try_import(&ImportOptions::default()).err();
                assert!(refused.is_some(), "{what}, {vdevs}");
            }
            let taken = world.cut().try_import(&ImportOptions::default());
            let (filer, report) = taken.unwrap_or_else(|error| panic!("{what}, {vdevs}: {error}"));
            assert!(report.losses.is_empty() && has(&*vfs(&filer), "acknowledged"), "{what}, {vdevs}: {report:?}");
        }
    }
}

/// One leg of a mirror was struck off, the other acknowledged what it lacks, and failed in its turn. The first one alone has the
/// claim that was in service and every durable group: it was taken for the pool, and what was acknowledged was gone.
#[test]
fn a_leg_that_was_struck_off_is_not_what_a_suspended_pool_was() {
    let mut world = World::of(&[("/disks/a", DATA), ("/disks/b", DATA)], "mirror /disks/a /disks/b");
    let filer = world.create();
    make(&*vfs(&filer), "before").unwrap();
    filer.sync().unwrap();
    world.faults("/disks/b").all(true);
    make(&*vfs(&filer), "acknowledged").unwrap();
    assert_ne!(state(&filer, "/disks/b"), LegState::Online);
    world.faults("/disks/a").all(true);
    filer.sync().unwrap_err();
    let suspended = filer.as_suspended();
    filer.export().unwrap_err();
    drop(filer);
    world = world.cut();
    let first = world.take(&["/disks/a"]);
    let refused = world.try_to_resume(&suspended).err();
    assert!(matches!(refused, Some(FilerError::StruckOff)), "{refused:?}");
    world.put(first);
    let (filer, _) = world.try_to_resume(&suspended).unwrap();
    assert!(has(&*vfs(&filer), "before") && has(&*vfs(&filer), "acknowledged"));
}

/// What a cut would cost was asked of the tree before whether the pool takes changes. It was suspended, its disk gave nothing, and
/// who cut a file got an I/O error, where clients are to wait.
#[test]
fn whoever_cuts_a_file_of_a_suspended_pool_waits() {
    let world = World::of(&[("/disks/a", DATA)], "/disks/a");
    let filer = world.create();
    let (cred, fs) = (Cred::root(), vfs(&filer));
    let file = make(&*fs, "before").unwrap();
    filer.sync().unwrap();
    world.faults("/disks/a").all(true);
    filer.sync().unwrap_err();
    for size in [0, 3, 200_000] {
        filer.pool().io.drop_cache();
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        assert_eq!(done(fs.setattr(ctx(&cred), file, &set, None)), Err(FsError::Unavailable), "to {size}");
        let over = CreateHow::Unchecked(set);
        assert_eq!(done(fs.create(ctx(&cred), fs.root(), b"before", &over)).map(drop), Err(FsError::Unavailable));
    }
    for stability in [Stability::Unstable, Stability::FileSync] {
        filer.pool().io.drop_cache();
        let written = done(fs.write(ctx(&cred), file, 1, pattern(10, 1), stability));
        assert_eq!(written.map(drop), Err(FsError::Unavailable), "{stability:?}");
    }
}

/// A read that needs a disk which is awaited was an I/O error when the pool had long been suspended for that disk: programs that
/// read ended, and those that wrote waited. It is one still where clients are to be told.
#[test]
fn whoever_reads_what_a_suspended_pool_does_not_give_waits_as_who_changes_something() {
    for (failmode, expected) in [(FailMode::Wait, FsError::Unavailable), (FailMode::Continue, FsError::Io)] {
        let world = World::of(&[("/disks/a", DATA)], "/disks/a");
        let filer = world.create();
        filer.pool().roster.set_failmode(failmode).unwrap();
        let (cred, fs) = (Cred::root(), vfs(&filer));
        let (root, file) = (fs.root(), make(&*fs, "file").unwrap());
        done(fs.write(ctx(&cred), file, 0, pattern(1 << 20, 1), Stability::FileSync)).unwrap();
        let link = done(fs.symlink(ctx(&cred), root, b"link", b"there", &mode(0o777))).unwrap().object;
        filer.sync().unwrap();
        world.faults("/disks/a").all(true);
        filer.sync().unwrap_err();
        let cold = || filer.pool().io.drop_cache();
        let reads: [&dyn Fn() -> Result<(), FsError>; 5] = [
            &|| fs.getattr(file).map(drop),
            &|| fs.read(&cred, file, 0, 4096).map(drop),
            &|| fs.lookup(&cred, root, b"file").map(drop),
            &|| fs.readdir(&cred, root, 0, 10, true).map(drop),
            &|| fs.readlink(link).map(drop),
        ];
        for (number, read) in reads.iter().enumerate() {
            cold();
            assert_eq!(read(), Err(expected), "read {number} under {failmode:?}");
        }
        let changes: [&dyn Fn() -> Result<(), FsError>; 9] = [
            &|| done(fs.setattr(ctx(&cred), file, &mode(0o600), None)),
            &|| done(fs.create(ctx(&cred), root, b"x", &CreateHow::Guarded(mode(0o600)))).map(drop),
            &|| done(fs.mkdir(ctx(&cred), root, b"x", &mode(0o700))).map(drop),
            &|| done(fs.remove(ctx(&cred), root, b"file")),
            &|| done(fs.rmdir(ctx(&cred), root, b"x")),
            &|| done(fs.rename(ctx(&cred), root, b"file", root, b"x")),
            &|| done(fs.link(ctx(&cred), file, root, b"x")).map(drop),
            &|| done(fs.write(ctx(&cred), file, 1, pattern(10, 1), Stability::FileSync)).map(drop),
            &|| done(fs.commit(ctx(&cred), file, 0, 0)).map(drop),
        ];
        for (number, change) in changes.iter().enumerate() {
            cold();
            assert_eq!(change(), Err(expected), "change {number} under {failmode:?}");
        }
    }
}

#[test]
fn failmode_continue_answers_changes_with_an_error_and_still_reads() {
    let world = World::of(&[("/disks/a", DATA)], "/disks/a");
    let filer = world.create();
    filer.pool().roster.set_failmode(FailMode::Continue).unwrap();
    let world = world.cut();
    let (filer, _) = world.import();
    assert_eq!(filer.pool().roster.failmode(), FailMode::Continue, "it is kept");
    let fs = vfs(&filer);
    let file = make(&*fs, "before").unwrap();
    filer.sync().unwrap();
    let faults = world.faults("/disks/a");
    faults.durable_writes.store(true, SeqCst);
    faults.writes.store(true, SeqCst);
    filer.sync().unwrap_err();
    let cred = Cred::root();
    let refusals = [
        done(fs.create(ctx(&cred), fs.root(), b"x", &CreateHow::Guarded(mode(0o600)))).map(|_| ()),
        done(fs.write(ctx(&cred), file, 0, pattern(10, 1), Stability::Unstable)).map(|_| ()),
        done(fs.write(ctx(&cred), file, 0, pattern(10, 1), Stability::FileSync)).map(|_| ()),
        done(fs.commit(ctx(&cred), file, 0, 0)).map(|_| ()),
        done(fs.setattr(ctx(&cred), file, &mode(0o640), None)).map(|_| ()),
        done(fs.remove(ctx(&cred), fs.root(), b"before")).map(|_| ()),
        done(fs.rename(ctx(&cred), fs.root(), b"before", fs.root(), b"y")).map(|_| ()),
        done(fs.link(ctx(&cred), file, fs.root(), b"y")).map(|_| ()),
        done(fs.mkdir(ctx(&cred), fs.root(), b"y", &mode(0o700))).map(|_| ()),
    ];
    assert!(refusals.iter().all(|refusal| *refusal == Err(FsError::Io)), "{refusals:?}");
    assert!(has(&*fs, "before"), "what can be read is read");
    filer.pool().roster.set_failmode(FailMode::Wait).unwrap_err();
    let (after, _) = world.cut().import();
    make(&*vfs(&after), "x").unwrap();
}

#[test]
fn a_suspended_pool_can_be_let_go_and_leaves_no_thread_behind() {
    let world = World::of(&[("/disks/a", DATA), ("/disks/l", LOG)], "/disks/a log /disks/l");
    let (filer, threads) = world.create_by_hand();
    make(&*vfs(&filer), "before").unwrap();
    world.faults("/disks/a").all(true);
    filer.sync().unwrap_err();
    let lanes = filer.pool().lanes();
    assert!(!lanes.is_empty() && lanes.iter().all(|lane| !lane.has_ended()), "the log itself works");
    filer.export().unwrap_err();
    assert!(lanes.iter().all(|lane| lane.has_ended()));
    for thread in threads {
        thread.join().unwrap();
    }
    let (after, report) = world.cut().import();
    assert!(!report.was_clean && has(&*vfs(&after), "before"));
}

/// Where a quota is set a name is looked for before anything else. The pool was suspended, its disk gave nothing, and who made
/// or renamed something got an I/O error for that look, where clients are to wait.
#[test]
fn a_quota_does_not_turn_the_wait_for_a_suspended_pool_into_an_error() {
    let world = World::of(&[("/disks/a", DATA)], "/disks/a");
    let properties = PropertySet::from_iter([parse(Property::RefQuota, "1M").unwrap()]);
    let filer = world.create_with(&CreateOptions { properties, ..CreateOptions::default() });
    let (cred, fs) = (Cred::root(), vfs(&filer));
    make(&*fs, "before").unwrap();
    filer.sync().unwrap();
    world.faults("/disks/a").all(true);
    filer.sync().unwrap_err();
    filer.pool().io.drop_cache();
    let made = done(fs.create(ctx(&cred), fs.root(), b"x", &CreateHow::Guarded(mode(0o600))));
    assert_eq!(made.map(drop), Err(FsError::Unavailable));
    let renamed = done(fs.rename(ctx(&cred), fs.root(), b"before", fs.root(), b"a longer name"));
    assert_eq!(renamed, Err(FsError::Unavailable));
}

#[test]
fn a_read_error_is_made_good_by_the_mirror_and_told_without_one() {
    for (vdevs, mirrored) in [("mirror /disks/a /disks/b", true), ("/disks/a", false)] {
        let world = World::of(&[("/disks/a", DATA), ("/disks/b", DATA)], vdevs);
        let filer = world.create();
        let cred = Cred::root();
        let fs = vfs(&filer);
        let file = make(&*fs, "file").unwrap();
        done(fs.write(ctx(&cred), file, 0, pattern(3 << 20, 7), Stability::FileSync)).unwrap();
        filer.export().unwrap();
        // A group that may read nothing of its own is suspended, and rightly: there is none meanwhile, though damage asks for one.
        let (filer, _) = world.try_import_without_threads(&Tuning::default(), &ImportOptions::default()).unwrap();
        let fs = vfs(&filer);
        fs.getattr(file).unwrap();
        filer.sync().unwrap();
        world.faults("/disks/a").reads.store(true, SeqCst);
        if mirrored {
            assert_eq!(content(&*fs, file), pattern(3 << 20, 7));
            let leg = filer.pool().roster.vdevs()[0].legs()[0].clone();
            assert!(leg.errors().read > 0, "status shows it");
        } else {
            assert_eq!(fs.read(&cred, file, 1 << 20, 4096).unwrap_err(), FsError::Io);
            assert!(filer.pool().fault().is_none(), "a block that cannot be read suspends nothing");
            world.faults("/disks/a").reads.store(false, SeqCst);
            assert_eq!(content(&*fs, file), pattern(3 << 20, 7), "and nothing wrong is remembered");
        }
    }
}

/// A leg comes back as the copy that somebody made of it last week.
#[test]
fn an_older_copy_of_a_leg_is_never_believed() {
    let disks = [("/disks/a", DATA), ("/disks/b", DATA), ("/disks/l", LOG), ("/disks/m", LOG)];
    let mut world = World::of(&disks, "mirror /disks/a /disks/b log mirror /disks/l /disks/m");
    let filer = world.create();
    make(&*vfs(&filer), "last week").unwrap();
    filer.export().unwrap();
    let mut copies = world.cut();
    for name in ["synced", "in the log"] {
        let (filer, _) = world.import();
        make(&*vfs(&filer), name).unwrap();
        if name == "synced" {
            filer.export().unwrap();
        } else {
            // As much as a server that runs for a while leaves in labels and uberblocks.
            for _ in 0..3 {
                filer.sync().unwrap();
            }
            make(&*vfs(&filer), "unsynced").unwrap();
            world = world.cut();
        }
    }
    let all = ["last week", "synced", "in the log", "unsynced"];
    let (old_b, old_m) = (copies.take(&["/disks/b"]), copies.take(&["/disks/m"]));

    // Beside the good legs: they are stale, everything is there, and what is stale stays out.
    let mut both = world.cut();
    both.take(&["/disks/b", "/disks/m"]);
    both.put(copy_of(&old_b));
    both.put(copy_of(&old_m));
    let (filer, report) = both.import();
    let vfs_ = vfs(&filer);
    assert!(all.iter().all(|name| has(&*vfs_, name)), "{report:?}");
    assert_eq!(state(&filer, "/disks/b"), LegState::Stale);
    assert!(report.remarks.iter().any(|remark| remark.contains("/disks/b is STALE")), "{:?}", report.remarks);

    // Instead of the good leg of the data: refused, with the names of what is missing and of what is old.
    let mut alone = world.cut();
    alone.take(&["/disks/a", "/disks/b"]);
    alone.put(copy_of(&old_b));
    let error = alone.try_import(&ImportOptions::default()).err().expect("it is refused");
    assert!(matches!(&error, FilerError::Import(ImportError::VdevUnavailable { .. })), "{error}");
    let error = error.to_string();
    assert!(error.contains("/disks/a is MISSING") && error.contains("/disks/b is STALE"), "{error}");

    // Instead of the good leg of the log: what was acknowledged last is missing, and that is said.
    let mut alone = world.cut();
    alone.take(&["/disks/l", "/disks/m"]);
    alone.put(copy_of(&old_m));
    let error = alone.try_import(&ImportOptions::default()).err().expect("it is refused").to_string();
    assert!(error.contains("/disks/l") && error.contains("--accept-loss"), "{error}");
}

fn copy_of(disks: &[(String, Arc<tally_fakes::MemDisk>)]) -> Vec<(String, Arc<tally_fakes::MemDisk>)> {
    disks.iter().map(|(path, disk)| (path.clone(), World::copy(disk))).collect()
}
