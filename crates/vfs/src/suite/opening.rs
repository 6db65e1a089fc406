//! Who has what open, and what that allows and denies.

use std::cell::Cell;

use bytes::Bytes;

use super::Case;
use super::world::{ALICE, BOB, World, guarded, mode, user};
use crate::{
    Access, ClientNumber, CreateHow, Cred, Deny, FsError, Holder, ObjectRef, OpCtx, Opened, Opening, OwnerNumber,
    Right, SetAttr, Share, Stability, ToOpen,
};

pub(super) const CASES: &[Case] = &[
    ("open: what is made", makes),
    ("open: what is there", finds),
    ("open: who may not have it changes nothing", refused),
    ("open: modes", modes),
    ("open: shares", shares),
    ("open: downgrades", downgrades),
    ("open: who has it open goes by that", rights),
    ("open: what has no name any more", removed),
    ("open: random shares", random),
];

fn holder(owner: u64) -> Holder {
    Holder { client: ClientNumber(1), owner: OwnerNumber(owner) }
}

/// Whose, for what, and what others may not.
#[derive(Clone, Copy)]
struct Asked {
    owner: u64,
    share: Share,
}

fn opening(owner: u64, access: u32, deny: u32) -> Asked {
    Asked { owner, share: share(access, deny) }
}

fn share(access: u32, deny: u32) -> Share {
    Share { access: Access::from_bits(access).unwrap(), deny: Deny::from_bits(deny).unwrap() }
}

impl World {
    fn open_itself(&self, cred: &Cred, file: ObjectRef, asked: Asked) -> Result<Opened, FsError> {
        self.open_as(cred, ToOpen::Itself(file), asked)
    }

    fn open_named(&self, cred: &Cred, name: &str, how: &CreateHow, asked: Asked) -> Result<Opened, FsError> {
        self.open_as(cred, ToOpen::Made(self.root, name.as_bytes(), how), asked)
    }

    fn open_as(&self, cred: &Cred, what: ToOpen<'_>, Asked { owner, share }: Asked) -> Result<Opened, FsError> {
        let named = Cell::new(None);
        let by = |object| {
            named.set(Some(object));
            Ok(holder(owner))
        };
        let opened = self.run(cred, |ctx| self.vfs.open(ctx, what, Opening { share, by: &by, wants: None })).0;
        assert!(opened.as_ref().is_ok_and(|opened| named.get() == Some(opened.attr.object)) || opened.is_err());
        opened
    }

    fn write_by(&self, right: Right, cred: &Cred, file: ObjectRef) -> Result<(), FsError> {
        let write = |ctx: OpCtx<'_>| {
            let ctx = OpCtx { right, cred, ..ctx };
            self.vfs.write(ctx, file, 0, Bytes::from_static(b"content"), Stability::FileSync)
        };
        self.run(cred, write).0.map(drop)
    }

    fn read_by(&self, right: Right, cred: &Cred, file: ObjectRef) -> Result<(), FsError> {
        self.vfs.read_by(OpCtx { right, ..OpCtx::of(cred) }, file, 0, 100).map(drop)
    }

    fn cut_by(&self, right: Right, cred: &Cred, file: ObjectRef) -> Result<(), FsError> {
        let set = SetAttr { size: Some(1), ..SetAttr::default() };
        self.run(cred, |ctx| self.vfs.setattr(OpCtx { right, ..ctx }, file, &set, None)).0
    }
}

fn makes(world: &World) {
    let root = Cred::root();
    let made = world.open_named(&root, "f", &guarded(0o000), opening(1, 3, 3)).unwrap();
    assert!(made.is_new && made.attr.mode == 0);
    assert_eq!(world.open_named(&root, "f", &guarded(0), opening(1, 1, 0)), Err(FsError::Exists));
    assert_eq!(world.open_itself(&root, made.attr.object, opening(2, 1, 0)).unwrap_err(), FsError::ShareDenied);
    world.vfs.close(made.attr.object, holder(1));
    assert!(world.open_itself(&root, made.attr.object, opening(2, 1, 0)).is_ok());
    // It is opened whatever its mode says, and once more by who made it.
    let tmp = mode(0o777);
    world.setattr_as(&root, world.root, &tmp).unwrap();
    let exclusive = CreateHow::ExclusiveWith(7, mode(0o444));
    let first = world.open_named(&user(ALICE, &[]), "x", &exclusive, opening(3, 3, 0)).unwrap();
    assert_eq!((first.is_new, first.attr.mode), (true, 0o444));
    let again = world.open_named(&user(ALICE, &[]), "x", &exclusive, opening(3, 3, 0)).unwrap();
    assert_eq!((again.is_new, again.attr.object), (false, first.attr.object));
    // Somebody else knows the number.
    let bob = world.open_named(&user(BOB, &[]), "x", &exclusive, opening(4, 2, 0));
    assert_eq!(bob, Err(FsError::Access));
    let other = CreateHow::ExclusiveWith(8, SetAttr::default());
    assert_eq!(world.open_named(&user(ALICE, &[]), "x", &other, opening(3, 3, 0)), Err(FsError::Exists));
}

fn finds(world: &World) {
    let root = Cred::root();
    let file = world.create_as(&root, world.root, "f", &guarded(0o644)).unwrap().object;
    world.write_as(&root, file, 0, b"content").unwrap();
    let sized = |size| CreateHow::Unchecked(SetAttr { size: Some(size), mode: Some(0), ..SetAttr::default() });
    let size = |how: &CreateHow| world.open_named(&root, "f", how, opening(1, 1, 0)).map(|opened| opened.attr.size);
    assert_eq!(size(&CreateHow::Unchecked(SetAttr::default())), Ok(7));
    assert_eq!(size(&sized(3)), Ok(7), "only nothing is a size to cut it to");
    assert_eq!(world.vfs.getattr(file).unwrap().mode, 0o644);
    // Who denies writing denies that, too.
    world.open_itself(&root, file, opening(2, 1, 2)).unwrap();
    assert_eq!(size(&sized(0)), Err(FsError::ShareDenied));
    assert_eq!(world.vfs.getattr(file).unwrap().size, 7);
    world.vfs.close(file, holder(2));
    assert_eq!(size(&sized(0)), Ok(0));
    let dir = world.mkdir_as(&root, world.root, "d", 0o755).unwrap().object;
    assert_eq!(world.open_itself(&root, dir, opening(1, 1, 0)), Err(FsError::IsDirectory));
    assert_eq!(world.open_named(&root, "d", &sized(0), opening(1, 1, 0)), Err(FsError::IsDirectory));
    let link = world.run(&root, |ctx| world.vfs.symlink(ctx, world.root, b"l", b"f", &SetAttr::default())).0.unwrap();
    assert_eq!(world.open_itself(&root, link.object, opening(1, 1, 0)), Err(FsError::IsSymlink));
}

/// Who would have it may be refused where it is seen whose it becomes: then nothing is done.
fn refused(world: &World) {
    let root = Cred::root();
    let file = world.create_as(&root, world.root, "f", &guarded(0o644)).unwrap().object;
    world.write_as(&root, file, 0, b"content").unwrap();
    let how = CreateHow::Unchecked(SetAttr { size: Some(0), ..SetAttr::default() });
    let open = |what| {
        let opening = Opening { share: share(3, 3), by: &|_| Err(FsError::Unavailable), wants: None };
        world.run(&root, |ctx| world.vfs.open(ctx, what, opening)).0
    };
    assert_eq!(open(ToOpen::Made(world.root, b"f", &how)), Err(FsError::Unavailable));
    assert_eq!(open(ToOpen::Made(world.root, b"g", &how)), Err(FsError::Unavailable));
    assert_eq!(open(ToOpen::Itself(file)), Err(FsError::Unavailable));
    assert_eq!(world.vfs.getattr(file).unwrap().size, 7);
    assert!(world.vfs.lookup(&root, world.root, b"g").is_err());
    assert!(world.open_itself(&root, file, opening(2, 3, 3)).is_ok(), "and nothing is open");
    assert_eq!(world.open_named(&root, "f", &how, opening(1, 3, 3)), Err(FsError::ShareDenied));
    // What is gone is opened by nobody.
    world.vfs.close(file, holder(2));
    world.run(&root, |ctx| world.vfs.remove(ctx, world.root, b"f")).0.unwrap();
    assert_eq!(world.open_itself(&root, file, opening(1, 1, 0)), Err(FsError::Stale));
}

/// Rules V28.
fn removed(world: &World) {
    let root = Cred::root();
    let file = world.create_as(&root, world.root, "f", &guarded(0o644)).unwrap().object;
    world.open_itself(&root, file, opening(1, 3, 0)).unwrap();
    world.open_itself(&root, file, opening(2, 1, 0)).unwrap();
    world.link_as(&root, file, world.root, "g").unwrap();
    world.remove_as(&root, world.root, "f").unwrap();
    assert_eq!(world.attr(file).nlink, 1);
    world.remove_as(&root, world.root, "g").unwrap();
    assert_eq!(world.attr(file).nlink, 0);
    assert!(world.names(world.root).is_empty());
    let by = Right::Open(holder(1));
    assert_eq!((world.write_by(by, &root, file), world.cut_by(by, &root, file)), (Ok(()), Ok(())));
    assert_eq!(world.attr(file).size, 1);
    assert_eq!(world.link_as(&root, file, world.root, "h"), Err(FsError::NotFound), "it gets no name any more");
    world.vfs.close(file, holder(1));
    assert_eq!(world.read_by(Right::Open(holder(2)), &root, file), Ok(()));
    // By its handle it can be opened for as long.
    world.open_itself(&root, file, opening(3, 1, 0)).unwrap();
    world.vfs.close(file, holder(2));
    assert_eq!(world.read_by(Right::Open(holder(3)), &root, file), Ok(()));
    world.vfs.close(file, holder(3));
    assert_eq!(world.vfs.getattr(file), Err(FsError::Stale));
    // The same where another file takes its name, in this directory or from another one; and what nobody has open goes.
    let dir = world.dir(world.root, "d");
    for (number, from) in [world.root, dir].into_iter().enumerate() {
        let [kept, new] = [(world.root, "kept"), (from, "new")].map(|(dir, name)| world.file(dir, name));
        world.open_itself(&root, kept, opening(1, 3, 0)).unwrap();
        world.rename_as(&root, (from, "new"), (world.root, "kept")).unwrap();
        assert_eq!((world.find(world.root, "kept"), world.attr(kept).nlink), (Ok(new), 0), "{number}");
        world.remove_as(&root, world.root, "kept").unwrap();
        assert_eq!(world.vfs.getattr(new), Err(FsError::Stale));
        assert_eq!(world.write_by(by, &root, kept), Ok(()));
        world.vfs.close(kept, holder(1));
        assert_eq!(world.vfs.getattr(kept), Err(FsError::Stale));
    }
}

fn modes(world: &World) {
    let (root, alice, bob) = (Cred::root(), user(ALICE, &[]), user(BOB, &[]));
    let tmp = mode(0o777);
    world.setattr_as(&root, world.root, &tmp).unwrap();
    let file = world.create_as(&alice, world.root, "f", &guarded(0o640)).unwrap().object;
    assert!(world.open_itself(&alice, file, opening(1, 3, 0)).is_ok());
    assert_eq!(world.open_itself(&bob, file, opening(2, 1, 0)), Err(FsError::Access));
    world.setattr_as(&alice, file, &mode(0o001)).unwrap();
    assert!(world.open_itself(&bob, file, opening(2, 1, 0)).is_ok(), "what may be executed may be read for that");
    assert_eq!(world.open_itself(&bob, file, opening(2, 2, 0)), Err(FsError::Access));
    assert_eq!(world.open_itself(&alice, file, opening(1, 1, 0)), Err(FsError::Access), "the owner, too");
    assert!(world.open_itself(&root, file, opening(3, 3, 0)).is_ok());
    let cut = CreateHow::Unchecked(SetAttr { size: Some(0), ..SetAttr::default() });
    world.write_as(&root, file, 0, b"content").unwrap();
    assert_eq!(world.open_named(&bob, "f", &cut, opening(2, 1, 0)), Err(FsError::Access), "it would be written");
}

fn shares(world: &World) {
    let root = Cred::root();
    let file = world.create_as(&root, world.root, "f", &guarded(0o644)).unwrap().object;
    let other = world.create_as(&root, world.root, "g", &guarded(0o644)).unwrap().object;
    world.open_itself(&root, file, opening(1, 1, 2)).unwrap();
    assert_eq!(world.open_itself(&root, file, opening(2, 2, 0)), Err(FsError::ShareDenied));
    assert_eq!(world.open_itself(&root, file, opening(2, 1, 1)), Err(FsError::ShareDenied));
    assert!(world.open_itself(&root, other, opening(2, 3, 3)).is_ok());
    assert!(world.open_itself(&root, file, opening(2, 1, 0)).is_ok());
    assert!(world.open_itself(&root, file, opening(1, 2, 0)).is_ok(), "his own is not in his way");
    // Those who open nothing.
    assert_eq!(world.read_by(Right::Unopened, &root, file), Ok(()));
    assert_eq!(world.write_by(Right::Unopened, &root, file), Err(FsError::Locked));
    assert_eq!(world.cut_by(Right::Unopened, &root, file), Err(FsError::Locked));
    assert_eq!(world.write_by(Right::Mode, &root, file), Ok(()), "who knows of no opens is bound by none");
    let other = Holder { client: ClientNumber(9), owner: OwnerNumber(1) };
    let in_the_way = |who, access, deny| world.vfs.in_the_way(file, who, share(access, deny));
    assert_eq!(in_the_way(Some(other), 3, 0), [ClientNumber(1)], "once, however many owners");
    assert_eq!((in_the_way(None, 2, 0), in_the_way(None, 1, 0)), (vec![ClientNumber(1)], vec![]));
    assert_eq!(in_the_way(Some(holder(1)), 2, 0), [], "his own is not in his way");
    world.vfs.close(file, holder(1));
    assert_eq!(world.write_by(Right::Unopened, &root, file), Ok(()));
}

fn downgrades(world: &World) {
    let root = Cred::root();
    let file = world.create_as(&root, world.root, "f", &guarded(0o644)).unwrap().object;
    assert_eq!(world.vfs.downgrade(file, holder(1), share(1, 0)), Err(FsError::NotOpened));
    world.open_itself(&root, file, opening(1, 1, 0)).unwrap();
    world.open_itself(&root, file, opening(1, 3, 2)).unwrap();
    assert_eq!(world.vfs.downgrade(file, holder(1), share(2, 0)), Err(FsError::Invalid));
    assert_eq!(world.open_itself(&root, file, opening(2, 2, 0)), Err(FsError::ShareDenied));
    assert_eq!(world.vfs.downgrade(file, holder(1), share(1, 0)), Ok(()));
    assert!(world.open_itself(&root, file, opening(2, 2, 0)).is_ok());
    assert_eq!(world.write_by(Right::Open(holder(1)), &root, file), Err(FsError::OpenMode));
}

/// Rules V30.
fn rights(world: &World) {
    let (root, alice, bob) = (Cred::root(), user(ALICE, &[]), user(BOB, &[]));
    let tmp = mode(0o777);
    world.setattr_as(&root, world.root, &tmp).unwrap();
    let file = world.create_as(&alice, world.root, "f", &guarded(0o666)).unwrap().object;
    world.open_itself(&bob, file, opening(1, 3, 0)).unwrap();
    world.open_itself(&bob, file, opening(2, 1, 0)).unwrap();
    world.setattr_as(&alice, file, &mode(0o600)).unwrap();
    let [both, reads, none] = [1, 2, 3].map(|owner| Right::Open(holder(owner)));
    assert_eq!(world.write_by(Right::Mode, &bob, file), Err(FsError::Access));
    assert_eq!(world.write_by(both, &bob, file), Ok(()));
    assert_eq!(world.cut_by(both, &bob, file), Ok(()));
    assert_eq!((world.read_by(both, &bob, file), world.read_by(reads, &bob, file)), (Ok(()), Ok(())));
    assert_eq!(world.write_by(reads, &bob, file), Err(FsError::OpenMode));
    assert_eq!(world.read_by(none, &root, file), Err(FsError::NotOpened));
    assert_eq!(world.write_by(none, &root, file), Err(FsError::NotOpened));
    let commit = |right| world.run(&bob, |ctx| world.vfs.commit(OpCtx { right, ..ctx }, file, 0, 0)).0.map(drop);
    assert_eq!((commit(Right::Mode), commit(Right::Unopened)), (Err(FsError::Access), Ok(())));
}

/// Every step is one that the shares of all others allow, as they are written down here.
fn random(world: &World) {
    let root = Cred::root();
    let file = world.create_as(&root, world.root, "f", &guarded(0o644)).unwrap().object;
    let mut held = [(0, 0); 4];
    let mut draw = 0x9e37_79b9_u64;
    for step in 0..500 {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [owner, access, deny, what] = [33, 40, 48, 56].map(|shift| draw >> shift);
        let (owner, access, deny) = ((owner % 4) as usize, 1 + (access % 3) as u32, (deny % 4) as u32);
        if what % 8 == 1 && held[owner] != (0, 0) {
            // To all that he has: a union of what was opened in any case.
            let (has, denies) = held[owner];
            assert_eq!(world.vfs.downgrade(file, holder(owner as u64), share(has, denies)), Ok(()), "step {step}");
        }
        if what.is_multiple_of(4) {
            world.vfs.close(file, holder(owner as u64));
            held[owner] = (0, 0);
            continue;
        }
        let others = held.iter().enumerate().filter(|(other, _)| *other != owner);
        let is_in_the_way = |(_, (has, denies)): (usize, &(u32, u32))| has & deny != 0 || denies & access != 0;
        let expected = if others.into_iter().any(is_in_the_way) { Err(FsError::ShareDenied) } else { Ok(()) };
        let told = world.open_itself(&root, file, opening(owner as u64, access, deny)).map(drop);
        assert_eq!(told, expected, "step {step}: {owner} opens {access} {deny} beside {held:?}");
        if told.is_ok() {
            held[owner] = (held[owner].0 | access, held[owner].1 | deny);
        }
    }
}
