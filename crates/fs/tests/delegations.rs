//! What a client is given of a file to keep: that it is settled, and that nobody gets past it (rules V12, V13, V14).

mod world;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use tally_fs::filer::Filer;
use tally_store::properties::{Property, parse};
use tally_vfs::{
    Access, Attr, ClientNumber, CreateHow, Cred, Delegation, FsError, Gives, Holder, ObjectRef, OpCtx, Opened, Opening,
    Outcome, OwnerNumber, SetAttr, Share, Stability, ToOpen, Vfs,
};
use world::{Dice, World, content, ctx, done, is_ready, mode, noise, patient, vfs};

const MIB: u64 = 1 << 20;
const READ: Option<Delegation> = Some(Delegation::Read);
const WRITE: Option<Delegation> = Some(Delegation::Write);

fn open(fs: &dyn Vfs, what: ToOpen<'_>, client: u64, wants: Option<Delegation>) -> Outcome<Opened> {
    let (cred, client) = (Cred::root(), ClientNumber(client));
    let by = |_| Ok(Holder { client, owner: OwnerNumber(1) });
    let access = if wants == WRITE { Access::BOTH } else { Access::READ };
    let opening = Opening { share: Share::only(access), by: &by, wants };
    fs.open(OpCtx { client: Some(client), ..OpCtx::of(&cred) }, what, opening)
}

/// A client opens a file and closes it again, and says what it was given: that it has no more.
fn would_be_given(fs: &dyn Vfs, file: ObjectRef, client: u64, wants: Option<Delegation>) -> Option<Delegation> {
    let outcome = open(fs, ToOpen::Itself(file), client, wants);
    let given = outcome.result.unwrap().delegated;
    assert!(given.is_some() || is_ready(&outcome.wait), "who is given nothing waits for nothing");
    end(fs, file, client);
    given
}

fn end(fs: &dyn Vfs, file: ObjectRef, client: u64) {
    fs.close(file, Holder { client: ClientNumber(client), owner: OwnerNumber(1) });
    fs.give_back(file, ClientNumber(client));
}

fn file(fs: &dyn Vfs, name: &str, data: &'static [u8]) -> ObjectRef {
    let cred = Cred::root();
    let how = CreateHow::Guarded(mode(0o600));
    let made = patient(|| fs.create(ctx(&cred), fs.root(), name.as_bytes(), &how)).unwrap().object;
    patient(|| write(fs, made, data, Stability::FileSync)).unwrap();
    made
}

fn write(fs: &dyn Vfs, file: ObjectRef, data: &'static [u8], how: Stability) -> Outcome<()> {
    fs.write(ctx(&Cred::root()), file, 0, Bytes::from_static(data), how).map(drop)
}

fn world() -> World {
    World::new(64 * MIB, 16 * MIB)
}

#[test]
fn v12_nothing_is_given_of_what_is_not_in_the_log() {
    let world = world();
    let filer = world.create();
    let (fs, cred) = (vfs(&filer), Cred::root());
    let file = file(&*fs, "f", b"before");
    assert_eq!(would_be_given(&*fs, file, 1, READ), READ);
    done(write(&*fs, file, b"behind", Stability::Unstable)).unwrap();
    for wants in [READ, WRITE] {
        assert_eq!(would_be_given(&*fs, file, 1, wants), None, "what it would see may be lost");
    }
    // A COMMIT of a part leaves the rest.
    done(fs.commit(ctx(&cred), file, 0, 3)).unwrap();
    assert_eq!(would_be_given(&*fs, file, 1, READ), None);
    done(fs.commit(ctx(&cred), file, 0, 0)).unwrap();
    assert_eq!(would_be_given(&*fs, file, 1, READ), READ);
    // What a group makes stable, one that is written over, and one that is cut off.
    done(write(&*fs, file, b"unstable", Stability::Unstable)).unwrap();
    assert_eq!(would_be_given(&*fs, file, 1, WRITE), None);
    filer.sync().unwrap();
    assert_eq!(would_be_given(&*fs, file, 1, WRITE), WRITE);
    done(write(&*fs, file, b"unstable", Stability::Unstable)).unwrap();
    done(write(&*fs, file, b"once more", Stability::FileSync)).unwrap();
    assert_eq!(would_be_given(&*fs, file, 1, WRITE), WRITE);
    done(write(&*fs, file, b"unstable", Stability::Unstable)).unwrap();
    let cut = SetAttr { size: Some(0), ..SetAttr::default() };
    done(fs.setattr(ctx(&cred), file, &cut, None)).unwrap();
    assert_eq!(would_be_given(&*fs, file, 1, READ), READ);
}

#[test]
fn v12_nothing_is_given_of_what_is_placed_ahead_of_its_group() {
    let world = world();
    let filer = world.create();
    let fs = vfs(&filer);
    let file = file(&*fs, "f", b"");
    let all = noise(12 << 20, 7);
    for at in (0..all.len()).step_by(1 << 20) {
        let part = all.slice(at..at + (1 << 20));
        patient(|| fs.write(ctx(&Cred::root()), file, at as u64, part.clone(), Stability::Unstable)).unwrap();
    }
    assert_eq!(would_be_given(&*fs, file, 1, READ), None);
    (0..2).for_each(|_| _ = filer.sync().unwrap());
    assert_eq!(would_be_given(&*fs, file, 1, READ), READ);
}

#[test]
fn v12_without_a_log_a_group_has_to_be_synced() {
    let world = world();
    let filer = world.create();
    filer.set_property("tank", parse(Property::Sync, "disabled").unwrap()).unwrap();
    (0..2).for_each(|_| _ = filer.sync().unwrap());
    let (fs, cred) = (vfs(&filer), Cred::root());
    let how = CreateHow::Guarded(mode(0o600));
    let made = open(&*fs, ToOpen::Made(fs.root(), b"f", &how), 1, WRITE).result.unwrap();
    assert_eq!((made.is_new, made.delegated), (true, None));
    let file = made.attr.object;
    end(&*fs, file, 1);
    assert_eq!(would_be_given(&*fs, file, 1, READ), None);
    filer.sync().unwrap();
    assert_eq!(would_be_given(&*fs, file, 1, READ), READ);
    done(fs.setattr(ctx(&cred), file, &mode(0o640), None)).unwrap();
    assert_eq!(would_be_given(&*fs, file, 1, READ), None);
    filer.sync().unwrap();
    assert_eq!(would_be_given(&*fs, file, 1, READ), READ);
}

/// Of one for reading nobody has to be told more than that he waits for a moment; one for writing costs whoever looks at the file.
#[test]
fn what_a_dataset_gives_says_its_property() {
    let world = world();
    let filer = world.create();
    let fs = vfs(&filer);
    let gives = || (fs.gives(Delegation::Read), fs.gives(Delegation::Write));
    let auto = (Gives::Yes, Gives::AmongClients);
    assert_eq!(gives(), auto, "where nobody has set it");
    for (value, expected) in [("on", (Gives::Yes, Gives::Yes)), ("off", (Gives::No, Gives::No)), ("auto", auto)] {
        filer.set_property("tank", parse(Property::Delegations, value).unwrap()).unwrap();
        assert_eq!(gives(), expected, "{value}");
    }
}

/// It is as long as that here, and its holder may have written more that it has not sent.
#[test]
fn who_would_cut_a_file_to_what_it_has_asks_who_writes_it() {
    let world = world();
    let filer = world.create();
    let fs = vfs(&filer);
    let file = file(&*fs, "f", b"");
    let cut = CreateHow::Unchecked(SetAttr { size: Some(0), ..SetAttr::default() });
    let cred = Cred::root();
    let made = || done(fs.create(ctx(&cred), fs.root(), b"f", &cut)).map(|made| made.object);
    assert_eq!(would_be_given(&*fs, file, 1, READ), READ);
    assert_eq!(made(), Ok(file));
    let opened = open(&*fs, ToOpen::Itself(file), 1, WRITE).result.unwrap();
    assert_eq!(opened.delegated, WRITE);
    assert_eq!(made(), Err(FsError::Delegated(file)));
    end(&*fs, file, 1);
    assert_eq!(made(), Ok(file));
}

/// Somebody has changed a file and was not answered yet. Whoever is given a delegation of it waits for that change; when he is told, it is there behind any cut.
#[test]
fn v12_what_is_given_waits_for_the_newest_record() {
    let world = world();
    let filer = world.create();
    let fs = vfs(&filer);
    let file = file(&*fs, "f", b"before");
    let unanswered = write(&*fs, file, b"behind", Stability::FileSync);
    assert!(unanswered.result.is_ok() && !is_ready(&unanswered.wait));
    let looked = open(&*fs, ToOpen::Itself(file), 2, None);
    assert!(is_ready(&looked.wait), "who is given nothing waits for nothing");
    let given = open(&*fs, ToOpen::Itself(file), 1, READ);
    assert_eq!(given.result.as_ref().unwrap().delegated, READ);
    assert!(!is_ready(&given.wait));
    given.wait.block().unwrap();
    // A file that the OPEN itself has made: it waits for that.
    let how = CreateHow::Guarded(mode(0o600));
    let made = open(&*fs, ToOpen::Made(fs.root(), b"g", &how), 1, WRITE);
    let opened = made.result.unwrap();
    assert_eq!(opened.delegated, WRITE);
    assert!(!is_ready(&made.wait));
    made.wait.block().unwrap();
    drop(unanswered.wait);

    let (cut, report) = world.cut().import();
    assert_eq!(report.losses, Vec::<String>::new());
    let fs = vfs(&cut);
    assert_eq!(content(&*fs, file), b"behind");
    assert_eq!(fs.getattr(opened.attr.object).map(|attr| attr.object), Ok(opened.attr.object));
    // Nothing of it is left, and it may be claimed again: what is there is settled.
    assert!(fs.delegated(file).is_empty());
    let again = open(&*fs, ToOpen::Again(file), 1, WRITE).result.unwrap();
    assert_eq!((again.delegated, fs.delegated(file).len()), (WRITE, 1));
}

/// Whoever holds a delegation answers from what it was told with it, and is right: whatever others do meanwhile, by whichever protocol, gets past its end or not at all.
#[test]
fn v13_v14_nobody_gets_past_a_delegation() {
    let world = world();
    let filer = world.create();
    let fs = vfs(&filer);
    for name in NAMES {
        file(&*fs, name, b"first");
    }
    let (is_over, refused, given) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (fs, is_over, refused) = (&*fs, &is_over, &refused);
            scope.spawn(move || {
                let mut dice = Dice(seed + 1);
                while !is_over.load(Ordering::Relaxed) {
                    // The third one is a client, which has nothing delegated.
                    let client = (seed == 2).then_some(ClientNumber(9));
                    let told = disturb(fs, client, &mut dice);
                    refused.fetch_add(u64::from(matches!(told, Err(FsError::Delegated(_)))), Ordering::Relaxed);
                }
            });
        }
        let holders: Vec<_> = [1, 2]
            .map(|client| {
                scope.spawn({
                    let (fs, given) = (&*fs, &given);
                    move || (0..3_000).for_each(|round| _ = given.fetch_add(hold(fs, client, round), Ordering::Relaxed))
                })
            })
            .into();
        let ends: Vec<_> = holders.into_iter().map(|holder| holder.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    let (refused, given) = (refused.into_inner(), given.into_inner());
    assert!(refused > 50 && given > 500, "{refused} were refused, {given} given: hardly anybody was in anybody's way");
    settle(&filer);
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Something that changes a file, or what has its name.
fn disturb(fs: &dyn Vfs, client: Option<ClientNumber>, dice: &mut Dice) -> Result<(), FsError> {
    let (cred, root) = (Cred::root(), fs.root());
    let ctx = OpCtx { client, ..OpCtx::of(&cred) };
    let [name, other] = [0; 2].map(|_| NAMES[dice.below(3) as usize].as_bytes());
    let found = || fs.lookup(&cred, root, name).map(|(attr, _)| attr.object);
    let how = dice.below(3);
    let change = |file| match how {
        0 => patient(|| fs.write(ctx, file, 0, Bytes::from_static(b"other"), Stability::FileSync)).map(drop),
        1 => patient(|| fs.setattr(ctx, file, &mode(0o640), None)),
        _ => patient(|| fs.write(ctx, file, 0, Bytes::from_static(b"loose"), Stability::Unstable))
            .and_then(|_| patient(|| fs.commit(ctx, file, 0, 0)).map(drop)),
    };
    let cut = CreateHow::Unchecked(SetAttr { size: Some(0), ..mode(0o600) });
    match dice.below(6) {
        0 => patient(|| fs.rename(ctx, root, name, root, other)),
        1 => patient(|| fs.remove(ctx, root, name)),
        2 => patient(|| fs.create(ctx, root, name, &cut)).map(drop),
        3 => found().and_then(|file| patient(|| fs.link(ctx, file, root, other))).map(drop),
        _ => found().and_then(change),
    }
}

/// A client opens one of the files. If it is given it to keep, the file is for a while what it was told that it is.
fn hold(fs: &dyn Vfs, client: u64, round: u64) -> u64 {
    let (cred, name) = (Cred::root(), NAMES[round as usize % 3]);
    let wants = if round.is_multiple_of(2) { READ } else { WRITE };
    let how = CreateHow::Unchecked(mode(0o600));
    let outcome = open(fs, ToOpen::Made(fs.root(), name.as_bytes(), &how), client, wants);
    let (is_durable, Ok(opened)) = (outcome.wait.block(), outcome.result) else { return 0 };
    is_durable.unwrap();
    let file = opened.attr.object;
    if opened.delegated.is_some() {
        let own = OpCtx { client: Some(ClientNumber(client)), ..OpCtx::of(&cred) };
        let seen = || {
            // What it takes on disk a fold knows better.
            let now = fs.getattr(file).map(|attr| Attr { used: opened.attr.used, ..attr });
            assert_eq!(now.as_ref(), Ok(&opened.attr), "{name}, {wants:?}, round {round}");
            fs.read_by(own, file, 0, 100).unwrap().data.concat()
        };
        let first = seen();
        for _ in 0..20 {
            std::thread::yield_now();
            assert_eq!(seen(), first);
        }
        assert!(fs.delegated(file).contains(&(ClientNumber(client), wants.unwrap())));
    }
    end(fs, file, client);
    u64::from(opened.delegated.is_some())
}

/// Nothing is left behind, and the pool is whole.
fn settle(filer: &Filer) {
    let fs = vfs(filer);
    for name in NAMES {
        if let Ok((attr, _)) = fs.lookup(&Cred::root(), fs.root(), name.as_bytes()) {
            assert!(fs.delegated(attr.object).is_empty());
        }
    }
    filer.export().unwrap();
}
