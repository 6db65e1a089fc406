//! Files that somebody has open and that have no name any more, across cuts.

mod world;

use std::sync::Arc;

use bytes::Bytes;
use tally_claims::{RANGES_OF_CLIENT_MAX, RANGES_OF_OBJECT_MAX};
use tally_fs::filer::Filer;
use tally_vfs::locks::{Kind, Lock, NotLocked, Range};
use tally_vfs::{
    Access, ClientNumber, CreateHow, Cred, Deny, FsError, Holder, ObjectRef, OpCtx, Opening, OwnerNumber, Right,
    SetAttr, Share, Stability, ToOpen, Vfs,
};
use world::{World, content, ctx, done, mode, noise, patient, vfs};

const MIB: u64 = 1 << 20;

fn holder(number: u64) -> Holder {
    Holder { client: ClientNumber(1), owner: OwnerNumber(number) }
}

fn open(fs: &dyn Vfs, what: ToOpen<'_>, number: u64) -> Result<ObjectRef, FsError> {
    let share = Share { access: Access::from_bits(3).unwrap(), deny: Deny::from_bits(0).unwrap() };
    let (cred, by) = (Cred::root(), |_| Ok(holder(number)));
    patient(|| fs.open(OpCtx::of(&cred), what, Opening { share, by: &by, wants: None }))
        .map(|opened| opened.attr.object)
}

/// A file of a mebibyte that is open.
fn file(fs: &dyn Vfs, name: &str, seed: u64) -> ObjectRef {
    let cred = Cred::root();
    let made = done(fs.create(ctx(&cred), fs.root(), name.as_bytes(), &CreateHow::Guarded(mode(0o600)))).unwrap();
    done(fs.write(ctx(&cred), made.object, 0, noise(1 << 20, seed), Stability::FileSync)).unwrap();
    open(fs, ToOpen::Itself(made.object), 1).unwrap()
}

fn used(filer: &Filer) -> u64 {
    (0..3).for_each(|_| _ = filer.sync().unwrap());
    filer.by_name("tank").unwrap().info().used_bytes
}

/// Each dataset had an account of its own: a client that was refused in one had as much again in the next.
#[test]
fn a_client_has_its_bounds_once_for_all_datasets() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    let child: Arc<dyn Vfs> = filer.create_dataset("tank/child", Default::default(), (0, 0)).unwrap();
    let of = |fs: &dyn Vfs, name: &str| {
        let (cred, how) = (Cred::root(), CreateHow::Guarded(mode(0o600)));
        let made = patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).unwrap();
        open(fs, ToOpen::Itself(made.object), 1).unwrap()
    };
    let lock = |fs: &dyn Vfs, file, number: u64| {
        let owner = Holder { owner: OwnerNumber(2), ..holder(1) };
        let range = Range::new(2 * number, 1).unwrap();
        fs.lock_range(file, holder(1), Lock { holder: owner, range, kind: Kind::Write })
    };
    let fs = vfs(&filer);
    let files = [(&fs, "a"), (&fs, "b"), (&fs, "c"), (&child, "d")].map(|(fs, name)| (fs, of(&**fs, name)));
    for (fs, file) in files {
        (0..RANGES_OF_OBJECT_MAX as u64).for_each(|number| lock(&**fs, file, number).unwrap());
    }
    const _: () = assert!(4 * RANGES_OF_OBJECT_MAX == RANGES_OF_CLIENT_MAX);
    let one_more = of(&*child, "e");
    assert_eq!(lock(&*child, one_more, 0), Err(NotLocked::Failed(FsError::TooManyClaims)));
    // What it gives back in one it may have in the other.
    fs.unlock_range(files[0].1, Holder { owner: OwnerNumber(2), ..holder(1) }, Range::new(0, 1).unwrap()).unwrap();
    assert_eq!(lock(&*child, one_more, 0), Ok(()));
}

/// In the log alone, in the tree, and half and half.
#[test]
fn what_is_open_without_a_name_is_there_behind_a_cut_until_nobody_claims_it() {
    for syncs in 0..3 {
        let world = World::new(64 * MIB, 16 * MIB);
        let filer = world.create();
        let (fs, cred) = (vfs(&filer), Cred::root());
        let empty = used(&filer);
        let [kept, left] = ["kept", "left"].map(|name| file(&*fs, name, 7));
        let sync = |at: u64| (at < syncs).then(|| filer.sync().unwrap());
        sync(0);
        ["kept", "left"].into_iter().for_each(|name| done(fs.remove(ctx(&cred), fs.root(), name.as_bytes())).unwrap());
        sync(1);
        let by = OpCtx { right: Right::Open(holder(1)), ..OpCtx::of(&cred) };
        let more = Bytes::from_static(b"written since");
        done(fs.write(by, kept, 1 << 20, more.clone(), Stability::FileSync)).unwrap();

        let (cut, report) = world.cut().import();
        assert_eq!(report.losses, Vec::<String>::new());
        let fs = vfs(&cut);
        let tank = cut.by_name("tank").unwrap();
        let again = open(&*fs, ToOpen::Again(kept), 5).unwrap();
        assert_eq!((tank.held().unwrap().len(), tank.held_count()), (2, 2));
        assert_eq!(again, kept);
        let expected = [noise(1 << 20, 7), more].concat();
        assert!(content(&*fs, kept) == expected, "{syncs} groups");
        assert_eq!(fs.getattr(kept).unwrap().nlink, 0);
        // Nobody claims the other one.
        assert_eq!(tank.let_go_of_held(), 1);
        assert_eq!(fs.getattr(left), Err(FsError::Stale));
        assert!(content(&*fs, kept) == expected);
        fs.close(kept, holder(5));
        assert_eq!(fs.getattr(kept), Err(FsError::Stale));
        assert_eq!((tank.held().unwrap().len(), tank.held_count()), (0, 0));
        // What is left is the directory in which they were.
        assert!(used(&cut) - empty < 4096, "{} bytes, and {empty} before", used(&cut));
        cut.export().unwrap();
        drop((fs, tank));
        let (again, report) = world.cut().import();
        assert_eq!(report.losses, Vec::<String>::new());
        drop(again);
    }
}

/// A client goes into the pool's list, as the server writes it down.
fn list(filer: &Filer) {
    let (clients, cred): (Arc<dyn Vfs>, _) = (filer.make_clients().unwrap(), Cred::root());
    let set = SetAttr::default();
    done(clients.symlink(OpCtx::of(&cred), clients.root(), b"a client", b"had something open", &set)).unwrap();
}

/// Each removed file was held behind each restart, for a minute, for clients that there were none of.
#[test]
fn where_no_client_is_in_the_list_what_is_removed_behind_a_cut_is_gone_at_once() {
    for lists in [false, true] {
        let world = World::new(64 * MIB, 16 * MIB);
        let filer = world.create();
        filer.make_clients().unwrap();
        let (fs, cred) = (vfs(&filer), Cred::root());
        let empty = used(&filer);
        let [removed, replaced] = ["removed", "replaced"].map(|name| {
            let made = done(fs.create(ctx(&cred), fs.root(), name.as_bytes(), &CreateHow::Guarded(mode(0o600))));
            let object = made.unwrap().object;
            done(fs.write(ctx(&cred), object, 0, noise(1 << 20, 7), Stability::FileSync)).unwrap();
            object
        });
        // One that was in it once, and is gone.
        list(&filer);
        if !lists {
            let clients: Arc<dyn Vfs> = filer.clients().unwrap();
            done(clients.remove(OpCtx::of(&cred), clients.root(), b"a client")).unwrap();
            // How long a lease was stays there, and is nobody.
            let link = clients.symlink(OpCtx::of(&cred), clients.root(), b"lease-90", b"-", &mode(0o600));
            done(link).unwrap();
        }
        let (cut, _) = world.cut().import();
        let fs = vfs(&cut);
        assert_eq!(cut.holds_for_clients(), lists);
        done(fs.create(ctx(&cred), fs.root(), b"new", &CreateHow::Guarded(mode(0o600)))).unwrap();
        done(fs.remove(ctx(&cred), fs.root(), b"removed")).unwrap();
        done(fs.rename(ctx(&cred), fs.root(), b"new", fs.root(), b"replaced")).unwrap();
        if lists {
            // Version 3 sees them as a program on this machine sees what another one has open.
            assert_eq!([removed, replaced].map(|it| fs.getattr(it).map(|attr| attr.nlink)), [Ok(0), Ok(0)]);
            assert_eq!(cut.let_go_of_held(), 0);
        }
        assert_eq!([removed, replaced].map(|it| fs.getattr(it).map(|attr| attr.nlink)), [Err(FsError::Stale); 2]);
        assert_eq!(cut.by_name("tank").unwrap().held_count(), 0);
        assert!(used(&cut) - empty < 4096, "{} bytes, and {empty} before", used(&cut));
        cut.export().unwrap();
    }
}

/// A server that speaks version 3 alone keeps nobody from what they had.
#[test]
fn who_was_not_waited_for_is_in_the_list_no_more() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    filer.forget_clients().unwrap();
    list(&filer);
    let (clients, cred): (Arc<dyn Vfs>, _) = (filer.clients().unwrap(), Cred::root());
    for name in (0..3000).map(|number| format!("1-{number:032x}")).chain(["lease-90".into()]) {
        patient(|| clients.symlink(OpCtx::of(&cred), clients.root(), name.as_bytes(), b"-", &mode(0o600))).unwrap();
    }
    filer.forget_clients().unwrap();
    let (cut, _) = world.cut().import();
    let clients: Arc<dyn Vfs> = cut.clients().unwrap();
    let left = clients.readdir(&cred, clients.root(), 0, 100, false).unwrap().entries;
    assert_eq!(left.iter().map(|entry| &entry.name[..]).collect::<Vec<_>>(), [&b"."[..], b"..", b"lease-90"]);
    assert!(!cut.holds_for_clients());
}

/// Whoever had it open before may claim it again: a removal by somebody else that came first took it away.
#[test]
fn what_loses_its_name_before_it_is_claimed_is_held() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    list(&filer);
    let (fs, cred) = (vfs(&filer), Cred::root());
    let [kept, replaced, link] = ["kept", "replaced", "new"].map(|name| file(&*fs, name, 7));
    let (cut, _) = world.cut().import();
    let (fs, tank) = (vfs(&cut), cut.by_name("tank").unwrap());
    done(fs.remove(ctx(&cred), fs.root(), b"kept")).unwrap();
    done(fs.rename(ctx(&cred), fs.root(), b"new", fs.root(), b"replaced")).unwrap();
    assert_eq!((tank.held().unwrap().len(), tank.held_count()), (2, 2));
    assert_eq!(open(&*fs, ToOpen::Again(kept), 5), Ok(kept));
    assert!(content(&*fs, kept) == noise(1 << 20, 7));
    // The time for that is over.
    assert_eq!(cut.let_go_of_held(), 1);
    assert_eq!(fs.getattr(replaced), Err(FsError::Stale));
    done(fs.remove(ctx(&cred), fs.root(), b"replaced")).unwrap();
    assert_eq!(fs.getattr(link), Err(FsError::Stale), "from now on what nobody has open goes");
    fs.close(kept, holder(5));
    assert_eq!(fs.getattr(kept), Err(FsError::Stale));
    cut.export().unwrap();
}

/// Seed 270 of the histories of what clients hold, as it was drawn on 2026-11-29. Two had it open; behind a restart one claimed it and closed it, which freed it, and the other
/// one was told that it is gone.
#[test]
fn the_last_close_takes_nothing_that_another_one_may_claim() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    list(&filer);
    let (fs, cred) = (vfs(&filer), Cred::root());
    let kept = file(&*fs, "kept", 7);
    open(&*fs, ToOpen::Itself(kept), 2).unwrap();
    done(fs.remove(ctx(&cred), fs.root(), b"kept")).unwrap();
    let (cut, _) = world.cut().import();
    let fs = vfs(&cut);
    open(&*fs, ToOpen::Again(kept), 5).unwrap();
    fs.close(kept, holder(5));
    assert_eq!(open(&*fs, ToOpen::Again(kept), 6), Ok(kept));
    assert!(content(&*fs, kept) == noise(1 << 20, 7));
    fs.close(kept, holder(6));
    // The time for that is over.
    assert_eq!(cut.let_go_of_held(), 0);
    assert_eq!(fs.getattr(kept), Err(FsError::Stale));
    cut.export().unwrap();
}

/// Threads open, remove, replace and close the same few names: nothing that is open goes, and nothing stays that nobody has.
#[test]
fn in_a_crowd_nothing_goes_that_is_open_and_nothing_stays_that_is_not() {
    let world = World::new(64 * MIB, 16 * MIB);
    let filer = world.create();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let filer: &Arc<Filer> = &filer;
            scope.spawn(move || {
                let (fs, cred, mut dice) = (vfs(filer), Cred::root(), world::Dice(thread + 1));
                for round in 0..300_u64 {
                    let name = format!("{}", dice.below(3));
                    let how = CreateHow::Unchecked(mode(0o600));
                    let number = 1 + thread * 1000 + round;
                    let Ok(object) = open(&*fs, ToOpen::Made(fs.root(), name.as_bytes(), &how), number) else {
                        continue;
                    };
                    let by = OpCtx { right: Right::Open(holder(number)), ..OpCtx::of(&cred) };
                    let data = Bytes::from(format!("{number:08}"));
                    let at = 8 * number;
                    patient(|| fs.write(by, object, at, data.clone(), Stability::Unstable)).unwrap();
                    match dice.below(3) {
                        0 => _ = patient(|| fs.remove(ctx(&cred), fs.root(), name.as_bytes())),
                        1 => {
                            let other = format!("{}", dice.below(3));
                            _ = patient(|| {
                                fs.rename(ctx(&cred), fs.root(), other.as_bytes(), fs.root(), name.as_bytes())
                            });
                        }
                        _ => {}
                    }
                    let read = fs.read_by(by, object, at, 8).expect("it is open");
                    assert!(read.data.concat() == data[..], "what was written is there");
                    fs.close(object, holder(number));
                }
            });
        }
    });
    let (fs, cred) = (vfs(&filer), Cred::root());
    // Where a close met a group that took no more, a file may have been left to the look.
    while filer.let_go_of_held() > 0 {
        filer.sync().unwrap();
    }
    (0..3).for_each(|name| _ = done(fs.remove(ctx(&cred), fs.root(), format!("{name}").as_bytes())));
    (0..3).for_each(|_| _ = filer.sync().unwrap());
    // The root, and where they were held.
    assert_eq!(filer.by_name("tank").unwrap().info().object_count, 2);
    filer.export().unwrap();
}
