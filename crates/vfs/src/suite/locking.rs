//! Who has locked which bytes: rules V31, and what an open has to do with it.

use std::sync::{Arc, Weak};

use tally_base::ObjectId;

use super::Case;
use super::world::{World, guarded};
use crate::locks::{Kind, Lock, NotLocked, Range, Watch};
use crate::{
    Access, ClientNumber, Cred, Deny, FsError, Holder, NodeKind, ObjectRef, Opening, OwnerNumber, SetAttr, Share,
    ToOpen,
};

pub(super) const CASES: &[Case] = &[
    ("lock: who comes second is told of the first", conflicts),
    ("lock: to the end, and what is no range", ends),
    ("lock: an open of its own goes by what it may", modes),
    ("lock: what is no file", no_files),
    ("lock: closed is unlocked", closes),
    ("lock: who has nothing open", unopened),
    ("lock: who watches is told what is free", watched),
    ("lock: random ranges", random),
];

/// Opens and owners of locks are numbered from one counter.
fn open_of(number: u64) -> Holder {
    Holder { client: ClientNumber(1), owner: OwnerNumber(number) }
}

fn owner(number: u64) -> Holder {
    open_of(100 + number)
}

fn lock(number: u64, offset: u64, length: u64, kind: Kind) -> Lock {
    Lock { holder: owner(number), range: Range::new(offset, length).unwrap(), kind }
}

impl World {
    fn open_for(&self, file: ObjectRef, number: u64, access: Access) {
        let share = Share { access, deny: Deny::NONE };
        let by = |_| Ok(open_of(number));
        let opening = Opening { share, by: &by, wants: None };
        self.run(&Cred::root(), |ctx| self.vfs.open(ctx, ToOpen::Itself(file), opening)).0.unwrap();
    }

    /// A file that opens 1 to 3 have open for both.
    fn opened(&self) -> ObjectRef {
        let file = self.create_as(&Cred::root(), self.root, "f", &guarded(0o644)).unwrap().object;
        (1..4).for_each(|number| self.open_for(file, number, Access::BOTH));
        file
    }

    fn unlock(&self, file: ObjectRef, number: u64, offset: u64, length: u64) {
        self.vfs.unlock_range(file, owner(number), Range::new(offset, length).unwrap()).unwrap();
    }
}

fn conflicts(world: &World) {
    let file = world.opened();
    let other = world.create_as(&Cred::root(), world.root, "g", &guarded(0o644)).unwrap().object;
    let held = lock(1, 10, 10, Kind::Write);
    assert_eq!(world.vfs.lock_range(file, open_of(1), held), Ok(()));
    for (offset, length, is_held) in [(0, 10, false), (0, 11, true), (19, 1, true), (20, 5, false), (0, u64::MAX, true)]
    {
        for kind in [Kind::Read, Kind::Write] {
            let told = if is_held { Err(NotLocked::Held(held)) } else { Ok(()) };
            assert_eq!(world.vfs.test_range(file, lock(2, offset, length, kind)), told, "{offset} {length}");
            assert_eq!(world.vfs.test_range(file, lock(1, offset, length, kind)), Ok(()), "his own");
            assert_eq!(world.vfs.test_range(other, lock(2, offset, length, kind)), Ok(()));
        }
    }
    assert_eq!(world.vfs.lock_range(file, open_of(2), lock(2, 15, 1, Kind::Read)), Err(NotLocked::Held(held)));
    // Changed into one that others may have as well.
    assert_eq!(world.vfs.lock_range(file, open_of(1), lock(1, 10, 10, Kind::Read)), Ok(()));
    assert_eq!(world.vfs.lock_range(file, open_of(2), lock(2, 15, 1, Kind::Read)), Ok(()));
    let told = world.vfs.lock_range(file, open_of(1), lock(1, 10, 10, Kind::Write));
    assert_eq!(told, Err(NotLocked::Held(lock(2, 15, 1, Kind::Read))));
    assert_eq!(
        world.vfs.test_range(file, lock(3, 12, 1, Kind::Write)),
        Err(NotLocked::Held(lock(1, 10, 10, Kind::Read)))
    );
    world.unlock(file, 2, 0, u64::MAX);
    // The middle goes.
    world.unlock(file, 1, 12, 2);
    assert_eq!(world.vfs.test_range(file, lock(3, 12, 2, Kind::Write)), Ok(()));
    assert_eq!(
        world.vfs.test_range(file, lock(3, 11, 2, Kind::Write)),
        Err(NotLocked::Held(lock(1, 10, 2, Kind::Read)))
    );
    assert_eq!(
        world.vfs.test_range(file, lock(3, 13, 9, Kind::Write)),
        Err(NotLocked::Held(lock(1, 14, 6, Kind::Read)))
    );
    assert_eq!([1, 2, 3].map(|number| world.vfs.has_ranges(file, owner(number))), [true, false, false]);
}

fn ends(world: &World) {
    let file = world.opened();
    assert_eq!([Range::new(5, 0), Range::new(2, u64::MAX - 1), Range::new(u64::MAX, 2)], [None; 3]);
    assert_eq!(world.vfs.lock_range(file, open_of(1), lock(1, 100, u64::MAX, Kind::Write)), Ok(()));
    let told = Err(NotLocked::Held(lock(1, 100, u64::MAX, Kind::Write)));
    assert_eq!(world.vfs.test_range(file, lock(2, u64::MAX, u64::MAX, Kind::Read)), told);
    assert_eq!(world.vfs.test_range(file, lock(2, 0, 100, Kind::Write)), Ok(()));
    world.unlock(file, 1, 200, u64::MAX);
    assert_eq!(world.vfs.test_range(file, lock(2, 200, u64::MAX, Kind::Write)), Ok(()));
    let told = Err(NotLocked::Held(lock(1, 100, 100, Kind::Write)));
    assert_eq!(world.vfs.test_range(file, lock(2, 0, u64::MAX, Kind::Write)), told);
}

fn modes(world: &World) {
    let file = world.create_as(&Cred::root(), world.root, "f", &guarded(0o644)).unwrap().object;
    world.open_for(file, 1, Access::READ);
    world.open_for(file, 2, Access::WRITE);
    let failed = |error: FsError| Err(NotLocked::Failed(error));
    let told = [1, 2, 3].map(|open| {
        [Kind::Read, Kind::Write].map(|kind| world.vfs.lock_range(file, open_of(open), lock(1, 0, 1, kind)))
    });
    let (mode, none) = (failed(FsError::OpenMode), failed(FsError::NotOpened));
    assert_eq!(told, [[Ok(()), mode], [mode, Ok(())], [none, none]]);
    // Who asks what is locked has to have nothing open.
    assert!(world.vfs.test_range(file, lock(9, 1, 1, Kind::Write)).is_ok());
}

fn no_files(world: &World) {
    let dir = world.mkdir_as(&Cred::root(), world.root, "d", 0o755).unwrap().object;
    let link = world.run(&Cred::root(), |ctx| world.vfs.symlink(ctx, world.root, b"l", b"f", &SetAttr::default()));
    let fifo = world.mknod_as(&Cred::root(), "p", NodeKind::Fifo).unwrap().object;
    let wanted = lock(1, 0, 1, Kind::Read);
    for (object, error) in
        [(dir, FsError::IsDirectory), (link.0.unwrap().object, FsError::IsSymlink), (fifo, FsError::BadType)]
    {
        assert_eq!(world.vfs.test_range(object, wanted), Err(NotLocked::Failed(error)));
        assert_eq!(world.vfs.lock_range(object, open_of(1), wanted), Err(NotLocked::Failed(error)));
    }
    // What nobody has open is gone with its name, and what somebody has stays what it is (rules V28).
    let [gone, file] = [world.file(world.root, "g"), world.opened()];
    ["g", "f"].into_iter().for_each(|name| world.remove_as(&Cred::root(), world.root, name).unwrap());
    assert_eq!(world.vfs.test_range(gone, wanted), Err(NotLocked::Failed(FsError::Stale)));
    assert_eq!(world.vfs.lock_range(gone, open_of(1), wanted), Err(NotLocked::Failed(FsError::Stale)));
    assert_eq!(world.vfs.lock_range(file, open_of(1), wanted), Ok(()));
}

/// Freed is what was begun below that open, and a downgrade frees nothing.
fn closes(world: &World) {
    let file = world.opened();
    let (mine, his) = (lock(1, 0, 5, Kind::Write), lock(2, 10, 5, Kind::Write));
    world.vfs.lock_range(file, open_of(1), mine).unwrap();
    world.vfs.lock_range(file, open_of(2), his).unwrap();
    // Once more, below another one: that is not where it began.
    world.vfs.lock_range(file, open_of(3), lock(1, 5, 1, Kind::Read)).unwrap();
    world.open_for(file, 1, Access::READ);
    world.vfs.downgrade(file, open_of(1), Share::only(Access::READ)).unwrap();
    world.vfs.close(file, open_of(3));
    assert_eq!(world.vfs.test_range(file, lock(3, 0, 5, Kind::Read)), Err(NotLocked::Held(mine)));
    world.vfs.close(file, open_of(1));
    assert_eq!(world.vfs.test_range(file, lock(3, 0, 10, Kind::Write)), Ok(()));
    assert_eq!(world.vfs.test_range(file, lock(3, 0, 11, Kind::Write)), Err(NotLocked::Held(his)));
    assert_eq!(world.vfs.lock_range(file, open_of(1), mine), Err(NotLocked::Failed(FsError::NotOpened)));
}

/// Who has nothing open, as a client of NFSv3, meets the others, and keeps what he has until he unlocks.
fn unopened(world: &World) {
    let file = world.opened();
    let mine = lock(7, 0, 10, Kind::Write);
    assert_eq!(world.vfs.lock_unopened(file, mine), Ok(()));
    let told = world.vfs.lock_range(file, open_of(1), lock(1, 5, 10, Kind::Read));
    assert_eq!(told, Err(NotLocked::Held(mine)));
    let his = lock(1, 20, 10, Kind::Read);
    assert_eq!(world.vfs.lock_range(file, open_of(1), his), Ok(()));
    assert_eq!(world.vfs.lock_unopened(file, lock(7, 25, 1, Kind::Write)), Err(NotLocked::Held(his)));
    assert_eq!(world.vfs.lock_unopened(file, lock(7, 25, 1, Kind::Read)), Ok(()));
    (1..4).for_each(|number| world.vfs.close(file, open_of(number)));
    assert!(world.vfs.has_ranges(file, owner(7)) && !world.vfs.has_ranges(file, owner(1)));
    world.unlock(file, 7, 0, u64::MAX);
    assert!(!world.vfs.has_ranges(file, owner(7)));
    let dir = world.vfs.lock_unopened(world.root, mine);
    assert_eq!(dir, Err(NotLocked::Failed(FsError::IsDirectory)));
    world.run(&Cred::root(), |ctx| world.vfs.remove(ctx, world.root, b"f")).0.unwrap();
    assert_eq!(world.vfs.lock_unopened(file, mine), Err(NotLocked::Failed(FsError::Stale)));
}

/// Where somebody was told that something may be free.
#[derive(Default)]
struct Told(parking_lot::Mutex<Vec<(ObjectId, Range)>>);

impl Watch for Told {
    fn freed(&self, object: ObjectId, range: Range) {
        self.0.lock().push((object, range));
    }
}

/// Who waits at one door for what is held by way of another.
fn watched(world: &World) {
    let file = world.opened();
    let other = world.create_as(&Cred::root(), world.root, "g", &guarded(0o644)).unwrap().object;
    let told = Arc::new(Told::default());
    let watch: Weak<dyn Watch> = Arc::downgrade(&(told.clone() as Arc<dyn Watch>));
    world.vfs.watch(&watch);
    let is_told = |range: Range| {
        let told = std::mem::take(&mut *told.0.lock());
        told.iter().any(|(object, freed)| *object == file.id && freed.overlaps(range))
    };
    let lock_all = || {
        assert_eq!(world.vfs.lock_range(file, open_of(1), lock(1, 0, 100, Kind::Write)), Ok(()));
        assert!(!is_told(Range::ALL), "it is locked");
    };
    lock_all();
    world.vfs.lock_unopened(other, lock(1, 0, 10, Kind::Write)).unwrap();
    world.vfs.unlock_range(other, owner(1), Range::ALL).unwrap();
    assert!(!is_told(Range::ALL), "that was another file");
    world.unlock(file, 1, 20, 10);
    assert!(is_told(Range::new(25, 1).unwrap()));
    assert_eq!(world.vfs.lock_range(file, open_of(1), lock(1, 0, 5, Kind::Read)), Ok(()));
    assert!(is_told(Range::new(4, 1).unwrap()), "others may read there now");
    world.vfs.close(file, open_of(1));
    assert!(is_told(Range::new(99, 1).unwrap()));
    world.vfs.lock_unopened(file, lock(1, 0, 10, Kind::Write)).unwrap();
    world.vfs.unlock_range(file, owner(1), Range::ALL).unwrap();
    assert!(is_told(Range::new(0, 1).unwrap()));
}

/// What each of three owners holds of the first bytes and of the last one, byte by byte: a lock is given just where that allows it, and what is told of who is in
/// the way is true.
fn random(world: &World) {
    const BYTES: usize = 12;
    let file = world.opened();
    let mut held = [[None::<Kind>; BYTES]; 3];
    let mut draw = 0x9e37_79b9_u64;
    for step in 0..3_000 {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [who, first, length, what] = [33, 40, 48, 56].map(|shift| (draw >> shift) as usize);
        let (who, first) = (who % 3, first % BYTES);
        let last = (first + length % 4).min(BYTES - 1);
        // The last byte stands for all that follow.
        let length = if last + 1 == BYTES { u64::MAX } else { (last - first + 1) as u64 };
        let kind = if what % 2 == 0 { Kind::Read } else { Kind::Write };
        if what % 8 < 3 {
            world.unlock(file, who as u64, first as u64, length);
            held[who][first..=last].fill(None);
            continue;
        }
        let wanted = lock(who as u64, first as u64, length, kind);
        let conflicts_with = |other: Kind| (other, kind) != (Kind::Read, Kind::Read);
        let is_in_the_way = |other: usize, at: usize| other != who && held[other][at].is_some_and(conflicts_with);
        let is_free = (0..3).all(|other| (first..=last).all(|at| !is_in_the_way(other, at)));
        let is_asked = what % 8 == 3;
        let told = match is_asked {
            true => world.vfs.test_range(file, wanted),
            false => world.vfs.lock_range(file, open_of(who as u64 + 1), wanted),
        };
        match told {
            Ok(()) => assert!(is_free, "step {step}: {wanted:?} beside {held:?}"),
            Err(NotLocked::Held(Lock { holder, range, kind })) => {
                assert!(!is_free, "step {step}: {wanted:?} beside {held:?}");
                let other = (holder.owner.0 - 100) as usize;
                let bytes = range.first() as usize..=range.last().min(BYTES as u64 - 1) as usize;
                assert!(bytes.clone().any(|at| (first..=last).contains(&at)) && other != who && conflicts_with(kind));
                assert!(bytes.clone().all(|at| held[other][at] == Some(kind)), "step {step}: {range:?} of {held:?}");
            }
            Err(error) => panic!("step {step}: {error:?}"),
        }
        if is_free && !is_asked {
            held[who][first..=last].fill(Some(kind));
        }
        let has_any = [0, 1, 2].map(|who| world.vfs.has_ranges(file, owner(who)));
        assert_eq!(has_any, held.map(|bytes| bytes.iter().any(Option::is_some)), "step {step}");
    }
}
