//! What clients have of a pool that is exported and imported in one process (rules V37).

mod world;

use std::sync::Arc;

use bytes::Bytes;
use tally_fs::filer::{Filer, Handover, ImportOptions};
use tally_store::properties::PropertySet;
use tally_vfs::locks::{Kind, Lock, NotLocked, Range};
use tally_vfs::{
    Access, ClientNumber, CreateHow, Cred, Deny, FsError, Holder, Identity, ObjectRef, OpCtx, Opening, OwnerNumber,
    Right, Share, Stability, ToOpen, Vfs,
};
use world::{World, content, ctx, done, mode, noise, patient, vfs};

const MIB: u64 = 1 << 20;

fn holder(number: u64) -> Holder {
    Holder { client: ClientNumber(number), owner: OwnerNumber(1) }
}

fn open(fs: &dyn Vfs, object: ObjectRef, number: u64, deny: u32) -> Result<ObjectRef, FsError> {
    let share = Share { access: Access::from_bits(3).unwrap(), deny: Deny::from_bits(deny).unwrap() };
    let (cred, by) = (Cred::root(), |_| Ok(holder(number)));
    let opening = || Opening { share, by: &by, wants: None };
    patient(|| fs.open(OpCtx::of(&cred), ToOpen::Itself(object), opening())).map(|opened| opened.attr.object)
}

fn file(fs: &dyn Vfs, name: &str) -> ObjectRef {
    let cred = Cred::root();
    let made = done(fs.create(ctx(&cred), fs.root(), name.as_bytes(), &CreateHow::Guarded(mode(0o600)))).unwrap();
    done(fs.write(ctx(&cred), made.object, 0, noise(4096, 7), Stability::FileSync)).unwrap();
    made.object
}

fn lock(fs: &dyn Vfs, object: ObjectRef, number: u64) -> Result<(), NotLocked> {
    let range = Range::new(10, 10).unwrap();
    fs.lock_range(object, holder(number), Lock { holder: holder(number), range, kind: Kind::Write })
}

/// Puts a pool away as a server does that may import it again.
fn export(filer: &Arc<Filer>) -> Arc<Handover> {
    let handover = filer.hand_over().expect("it is not only read");
    filer.export().unwrap();
    handover.left_by(filer);
    handover
}

#[test]
fn what_is_open_and_locked_keeps_others_out_behind_an_import() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let child = filer.create_dataset("tank/child", PropertySet::new(), (0, 0)).unwrap();
    let (fs, cred) = (vfs(&filer), Cred::root());
    let [denied, shared, removed, given_up] = ["a", "b", "c", "d"].map(|name| file(&*fs, name));
    let in_child = file(&*child, "e");
    open(&*fs, denied, 1, 3).unwrap();
    [shared, removed, given_up].iter().for_each(|object| _ = open(&*fs, *object, 1, 0).unwrap());
    open(&*child, in_child, 1, 3).unwrap();
    lock(&*fs, shared, 1).unwrap();
    ["c", "d"].into_iter().for_each(|name| done(fs.remove(ctx(&cred), fs.root(), name.as_bytes())).unwrap());
    let (mounts, tank) = ([fs.mount(), Identity::mount(&*child)], fs.dataset());
    let handover = export(&filer);
    drop((fs, child, filer));
    // Meanwhile one is given up.
    let left = handover.retained(tank).expect("it is a dataset of the pool");
    assert_eq!((left.mount(), left.has_ranges(shared, holder(1))), (mounts[0], true));
    left.close(given_up, holder(1));

    let (again, _) = world.try_to_take_over(&ImportOptions::default(), &handover).unwrap();
    let (fs, child) = (vfs(&again), again.by_name("tank/child").unwrap());
    assert_eq!([fs.mount(), Identity::mount(&*child)], mounts);
    assert_eq!(open(&*fs, denied, 2, 0), Err(FsError::ShareDenied));
    assert_eq!(open(&*child, in_child, 2, 0), Err(FsError::ShareDenied));
    open(&*fs, shared, 2, 0).unwrap();
    assert!(matches!(lock(&*fs, shared, 2), Err(NotLocked::Held(held)) if held.holder == holder(1)));
    let by = OpCtx { right: Right::Open(holder(1)), ..OpCtx::of(&cred) };
    done(fs.write(by, denied, 0, Bytes::from_static(b"on"), Stability::FileSync)).unwrap();
    // Of those without a name one is open still, and the other is found by who looks.
    assert_eq!(fs.getattr(removed).unwrap().nlink, 0);
    assert_eq!(again.let_go_of_held(), 1);
    assert_eq!(fs.getattr(given_up), Err(FsError::Stale));
    assert!(content(&*fs, removed) == noise(4096, 7));
    fs.close(removed, holder(1));
    assert_eq!(fs.getattr(removed), Err(FsError::Stale));
    // All that a client has is counted as it was.
    fs.close(denied, holder(1));
    open(&*fs, denied, 2, 3).unwrap();
    // And once more.
    let handover = export(&again);
    drop((fs, child, again));
    let (again, _) = world.try_to_take_over(&ImportOptions::default(), &handover).unwrap();
    assert_eq!(open(&*vfs(&again), denied, 1, 0), Err(FsError::ShareDenied));
    again.export().unwrap();
}

/// Somebody else may have had it, and let others have what was claimed here; or it is not what clients know.
#[test]
fn nothing_is_taken_over_by_a_pool_that_is_not_as_it_was_left() {
    for what in ["elsewhere", "not clean", "never left", "only read"] {
        let world = World::new(64 * MIB, 16 * MIB);
        let filer = world.create();
        let fs = vfs(&filer);
        let denied = file(&*fs, "a");
        open(&*fs, denied, 1, 3).unwrap();
        let mount = fs.mount();
        filer.sync().unwrap();
        let before = world.cut();
        let handover = filer.hand_over().expect("it is not only read");
        filer.export().unwrap();
        if what != "never left" {
            handover.left_by(&filer);
        }
        drop((fs, filer));
        let mut options = ImportOptions::default();
        let found = match what {
            "elsewhere" => {
                let (elsewhere, _) = world.import();
                elsewhere.export().unwrap();
                world
            }
            // As it was when it was in service.
            "not clean" => before,
            "only read" => {
                options.read_only = true;
                world
            }
            _ => world,
        };
        let (again, report) = found.try_to_take_over(&options, &handover).unwrap();
        assert_eq!(report.losses, Vec::<String>::new());
        let fs = vfs(&again);
        assert_ne!(fs.mount(), mount, "{what}");
        match what {
            "only read" => assert!(again.hand_over().is_none(), "what is opened there stands in no list"),
            _ => _ = open(&*fs, denied, 2, 3).unwrap(),
        }
    }
}
