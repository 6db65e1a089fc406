//! The directory on which a dataset is mounted, while there are others who may write around it.
//!
//! It was made, a transaction group was waited for, and then it was protected. In between whoever may write to the parent's root
//! put a link of theirs in its place: it was that which was protected then, and nobody, root included, could take it away.

mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tally_base::DatasetId;
use tally_fs::Filesystem;
use tally_fs::filer::{DatasetError, Filer};
use tally_store::properties::PropertySet;
use tally_vfs::{Attributes, Cred, FileKind, FsError, Identity, Names, SetAttr};
use world::{World, ctx, done, mode};

/// Long enough that only who waits for ever is caught.
const PATIENCE: Duration = Duration::from_secs(60);
const OWNER: (u32, u32) = (0, 0);

fn open_tank(world: &World) -> (Arc<Filer>, Arc<Filesystem>) {
    let filer = world.create();
    let tank = filer.by_name("tank").unwrap();
    done(tank.setattr(ctx(&Cred::root()), tank.root(), &mode(0o777), None)).unwrap();
    (filer, tank)
}

fn user() -> Cred {
    Cred { uid: 1000, gid: 1000, groups: SmallVec::new(), checked: false }
}

/// While the command waits for its group, somebody who may write to the root tries to take the new directory away.
fn beside_a_replacer(
    world: &World,
    (filer, tank): (&Filer, &Arc<Filesystem>),
    name: &str,
    command: impl FnOnce() + Send,
) {
    let faults = world.faults("/disks/data");
    let held = faults.writes_held.write().unwrap();
    std::thread::scope(|scope| {
        let command = scope.spawn(command);
        let started = Instant::now();
        while tank.lookup(&user(), tank.root(), name.as_bytes()).is_err() {
            assert!(started.elapsed() < PATIENCE, "the directory is made before anything waits");
            std::thread::yield_now();
        }
        let moved = done(tank.rename(ctx(&user()), tank.root(), name.as_bytes(), tank.root(), b"aside"));
        let removed = done(tank.rmdir(ctx(&user()), tank.root(), name.as_bytes()));
        let linked = done(tank.symlink(ctx(&user()), tank.root(), name.as_bytes(), b"/tmp", &SetAttr::default()));
        let shown = is_covered_by(filer, tank, name);
        drop(held);
        command.join().unwrap();
        assert_eq!((moved, removed), (Err(FsError::Access), Err(FsError::Access)));
        assert_eq!(linked.map(drop), Err(FsError::Exists));
        assert_eq!(shown, Some(None), "what is covered is not shown, and there is no dataset yet");
    });
    let (attr, _) = tank.lookup(&Cred::root(), tank.root(), name.as_bytes()).unwrap();
    assert_eq!((attr.kind, attr.uid, attr.mode), (FileKind::Directory, 0, 0o755));
}

#[test]
fn nobody_takes_a_mount_point_while_its_dataset_is_made_or_renamed() {
    let world = World::new(64 << 20, 16 << 20);
    let (filer, tank) = open_tank(&world);
    let create = || drop(filer.create_dataset("tank/a", PropertySet::default(), OWNER).unwrap());
    beside_a_replacer(&world, (&filer, &tank), "a", create);
    let a = is_covered_by(&filer, &tank, "a").flatten().expect("it is there");
    beside_a_replacer(&world, (&filer, &tank), "b", || filer.rename_dataset("tank/a", "tank/b").unwrap());
    assert_eq!([is_covered_by(&filer, &tank, "a"), is_covered_by(&filer, &tank, "b")], [None, Some(Some(a))]);
}

/// What a name in the root stands for instead of what is covered there, if that is so; a dataset that is there or, while it comes or goes,
/// none.
fn is_covered_by(filer: &Filer, tank: &Filesystem, name: &str) -> Option<Option<DatasetId>> {
    let child = filer.child(tank.dataset(), tank.root(), name.as_bytes())?;
    Some(filer.filesystem(child).map(|child| child.dataset()))
}

/// The directory could be looked up, mounted and written to from the moment when nobody found the dataset any more, for as long as a group
/// takes; then it was not empty, and stayed.
#[test]
fn nobody_is_shown_the_directory_of_a_dataset_that_goes() {
    let world = World::new(64 << 20, 16 << 20);
    let (filer, tank) = open_tank(&world);
    let a = filer.create_dataset("tank/a", PropertySet::default(), OWNER).unwrap().dataset();
    let faults = world.faults("/disks/data");
    let held = faults.writes_held.write().unwrap();
    std::thread::scope(|scope| {
        let destroy = scope.spawn(|| filer.destroy_dataset("tank/a", false));
        let started = Instant::now();
        while filer.by_name("tank/a").is_some() {
            assert!(started.elapsed() < PATIENCE, "it is not found any more before anything waits");
            std::thread::yield_now();
        }
        let (shown, is_going) = (is_covered_by(&filer, &tank, "a"), filer.is_going(a));
        drop(held);
        assert_eq!((shown, is_going), (Some(None), true));
        destroy.join().unwrap().unwrap();
    });
    assert_eq!(is_covered_by(&filer, &tank, "a"), None);
    assert_eq!(tank.lookup(&user(), tank.root(), b"a").map(drop), Err(FsError::NotFound));
}

/// Its pool failed before it was made, behind any write: its name is not waited for without end.
#[test]
fn what_a_dataset_was_to_cover_is_not_covered_when_it_could_not_be_made() {
    let mut failed = 0;
    for writes in 0.. {
        let world = World::new(64 << 20, 16 << 20);
        let (filer, tank) = open_tank(&world);
        world.lose_power_after(writes);
        let made = filer.create_dataset("tank/a", PropertySet::default(), OWNER);
        let covered = is_covered_by(&filer, &tank, "a");
        assert_eq!(covered, made.as_ref().ok().map(|made| Some(made.dataset())), "{writes}");
        if made.is_ok() {
            break;
        }
        failed += 1;
    }
    assert!(failed > 4, "{failed}");
}

/// Its pool failed before it was destroyed, behind any write: it was there again when the pool was, and nobody may have been told that it is gone.
#[test]
fn a_dataset_that_could_not_be_destroyed_is_there() {
    let mut failed = 0;
    for writes in 0.. {
        let world = World::new(64 << 20, 16 << 20);
        let (filer, _tank) = open_tank(&world);
        let a = filer.create_dataset("tank/a", PropertySet::default(), (1000, 1000)).unwrap();
        let made = done(a.mkdir(ctx(&user()), a.root(), b"kept", &SetAttr::default())).unwrap();
        world.lose_power_after(writes);
        let destroyed = filer.destroy_dataset("tank/a", false);
        let there = filer.by_name("tank/a");
        assert_eq!(
            (there.is_some(), filer.filesystem(a.dataset()).is_some()),
            (destroyed.is_err(), destroyed.is_err())
        );
        assert!(destroyed.is_err() || !filer.is_going(a.dataset()));
        let Some(there) = there else { break };
        failed += 1;
        assert_eq!(
            there.lookup(&user(), there.root(), b"kept").map(|found| found.0.object),
            Ok(made.object),
            "{writes}"
        );
        let more = done(there.mkdir(ctx(&user()), there.root(), b"more", &SetAttr::default()));
        assert_eq!(more.map(drop), Err(FsError::Unavailable), "{writes}");
    }
    assert!(failed > 4, "{failed}");
}

/// A directory that is there already is taken if it is empty and root's alone: whoever may write to it has its handle, and
/// would go on writing below the dataset, where nobody sees it.
#[test]
fn only_a_directory_of_root_alone_is_covered() {
    let world = World::new(64 << 20, 16 << 20);
    let (filer, tank) = open_tank(&world);
    let make = |name: &str, set: SetAttr| {
        let made = done(tank.mkdir(ctx(&Cred::root()), tank.root(), name.as_bytes(), &SetAttr::default())).unwrap();
        done(tank.setattr(ctx(&Cred::root()), made.object, &set, None)).unwrap();
    };
    make("mine", SetAttr { uid: Some(1000), ..mode(0o755) });
    make("everybody", mode(0o777));
    make("groups", mode(0o775));
    make("roots", mode(0o755));
    done(tank.symlink(ctx(&user()), tank.root(), b"link", b"/tmp", &SetAttr::default())).unwrap();
    let create = |name: &str| filer.create_dataset(&format!("tank/{name}"), PropertySet::default(), OWNER).map(drop);
    for (name, why) in [("mine", "user 1000"), ("everybody", "777"), ("groups", "775"), ("link", "no directory")] {
        match create(name) {
            Err(DatasetError::MountPoint { why: said, .. }) => assert!(said.contains(why), "{name}: {said}"),
            other => panic!("{name}: {other:?}"),
        }
        assert!(filer.by_name(&format!("tank/{name}")).is_none());
        assert_eq!(is_covered_by(&filer, &tank, name), None, "{name} is what it was");
    }
    create("roots").unwrap();
    let rmdir = |name: &str| done(tank.rmdir(ctx(&user()), tank.root(), name.as_bytes()));
    assert_eq!(rmdir("roots"), Err(FsError::Access), "a dataset is mounted there");
    assert_eq!((rmdir("mine"), rmdir("everybody")), (Ok(()), Ok(())), "what was refused is protected no longer");
    assert_eq!(done(tank.remove(ctx(&user()), tank.root(), b"link")), Ok(()));
}

/// A dataset's name is at most 255 bytes, however it came by it: of a longer one no command finds the parent, and its mount
/// point stays when it is gone.
#[test]
fn a_rename_gives_nobody_a_name_that_is_too_long() {
    let world = World::new(64 << 20, 16 << 20);
    let filer = world.create();
    let create = |name: &str| drop(filer.create_dataset(name, PropertySet::default(), OWNER).unwrap());
    let child = "c".repeat(200);
    create("tank/a");
    create(&format!("tank/a/{child}"));
    let longer = format!("tank/{}", "b".repeat(200));
    let renamed = filer.rename_dataset("tank/a", &longer);
    assert!(matches!(renamed, Err(DatasetError::Name { .. })), "{renamed:?}");
    let longest = format!("tank/{}", "b".repeat(255 - "tank//".len() - child.len()));
    filer.rename_dataset("tank/a", &longest).unwrap();
    filer.destroy_dataset(&format!("{longest}/{child}"), false).unwrap();
    let above = filer.by_name(&longest).unwrap();
    assert_eq!(above.lookup(&Cred::root(), above.root(), child.as_bytes()).map(drop), Err(FsError::NotFound));
}
