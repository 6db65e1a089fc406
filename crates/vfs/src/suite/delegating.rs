//! What a client is given of a file to keep, whom that keeps out, and when it ends.

use bytes::Bytes;
use tally_base::FileTime;

use super::Case;
use super::world::{ALICE, BOB, World, guarded, mode, user};
use crate::locks::{Kind, Lock, NotLocked, Range};
use crate::{
    Access, ClientNumber, CreateHow, Cred, Delegation, Deny, FsError, Holder, ObjectRef, OpCtx, Opened, Opening,
    OwnerNumber, Right, SetAttr, SetTime, SetXattr, Share, Sought, Stability, ToOpen,
};

pub(super) const CASES: &[Case] = &[
    ("delegation: what is given", given),
    ("delegation: of what is made", given_of_what_is_made),
    ("delegation: of what is only written", given_of_what_may_be_read),
    ("delegation: whom it keeps out", keeps_out),
    ("delegation: an open that it keeps out", keeps_out_opens),
    ("delegation: a lock that it keeps out", keeps_out_locks),
    ("delegation: who has no right is told so", rights_first),
    ("delegation: what it gives the right to", rights),
    ("delegation: times that its holder keeps", kept_times),
    ("delegation: what has no name any more", removed),
];

const READ: Option<Delegation> = Some(Delegation::Read);
const WRITE: Option<Delegation> = Some(Delegation::Write);
const CONTENT: &[u8] = b"content";

fn holder(client: u64, owner: u64) -> Holder {
    Holder { client: ClientNumber(client), owner: OwnerNumber(owner) }
}

fn only(access: u32) -> Share {
    Share::only(Access::from_bits(access).unwrap())
}

impl World {
    fn open_by(
        &self,
        what: ToOpen<'_>,
        holder: Holder,
        share: Share,
        wants: Option<Delegation>,
    ) -> Result<Opened, FsError> {
        let by = |_| Ok(holder);
        let root = Cred::root();
        let ctx = OpCtx { client: Some(holder.client), ..OpCtx::of(&root) };
        self.run_in(ctx, |ctx| self.vfs.open(ctx, what, Opening { share, by: &by, wants }))
    }

    /// Opens a file for reading, or writing too, and says what the client was given.
    fn given_to(&self, file: ObjectRef, client: u64, access: u32, wants: Option<Delegation>) -> Option<Delegation> {
        self.open_by(ToOpen::Itself(file), holder(client, 1), only(access), wants).unwrap().delegated
    }

    fn held(&self, file: ObjectRef) -> Vec<(u64, Delegation)> {
        self.vfs.delegated(file).into_iter().map(|(client, kind)| (client.0, kind)).collect()
    }

    /// A file with content that nobody has open, in a directory of its own.
    fn filled(&self, name: &str) -> (ObjectRef, ObjectRef) {
        let dir = self.dir(self.root, name);
        let file = self.file(dir, "f");
        self.write_as(&Cred::root(), file, 0, CONTENT).unwrap();
        (dir, file)
    }

    fn end(&self, file: ObjectRef, client: u64) {
        self.vfs.close(file, holder(client, 1));
        self.vfs.give_back(file, ClientNumber(client));
    }
}

/// Table D9.
fn given(world: &World) {
    let (_, file) = world.filled("d");
    assert_eq!(world.given_to(file, 1, 1, None), None, "who wants none");
    assert_eq!(world.given_to(file, 1, 1, READ), READ);
    assert_eq!(world.given_to(file, 2, 1, READ), READ, "beside who reads");
    assert_eq!(world.held(file), [(1, Delegation::Read), (2, Delegation::Read)]);
    assert_eq!(world.given_to(file, 1, 1, READ), None, "who holds one");
    assert_eq!(world.given_to(file, 3, 1, WRITE), None, "others hold one");
    (1..=3).for_each(|client| world.end(file, client));
    assert!(world.held(file).is_empty());
    // Beside somebody who may write nobody is given anything, another owner of the same client neither; what an owner has open himself is nobody else's.
    assert_eq!(world.given_to(file, 1, 2, None), None);
    assert_eq!((world.given_to(file, 2, 1, READ), world.given_to(file, 2, 1, WRITE)), (None, None));
    world.end(file, 2);
    let by = |owner| world.open_by(ToOpen::Itself(file), holder(1, owner), only(3), WRITE).unwrap();
    assert_eq!(by(2).delegated, None);
    world.vfs.close(file, holder(1, 1));
    let again = by(2);
    assert_eq!((again.delegated, again.attr), (WRITE, world.attr(file)));
    assert_eq!(world.held(file), [(1, Delegation::Write)]);
    // It is the client's, and stays when all its opens are closed, until it is given back.
    world.vfs.close(file, holder(1, 2));
    assert_eq!(world.held(file), [(1, Delegation::Write)]);
    world.vfs.give_back(file, ClientNumber(2));
    assert_eq!(world.held(file), [(1, Delegation::Write)], "it was not the other one's");
    world.end(file, 1);
    assert_eq!(world.given_to(file, 2, 3, WRITE), WRITE);
    world.end(file, 2);
    // Where somebody has it open to read, nobody has it alone.
    assert_eq!(world.given_to(file, 1, 1, None), None);
    assert_eq!((world.given_to(file, 2, 3, WRITE), world.given_to(file, 3, 1, READ)), (None, None));
    world.end(file, 2);
    assert_eq!(world.given_to(file, 3, 1, READ), READ);
}

fn given_of_what_is_made(world: &World) {
    let made = |name: &str, how: &CreateHow, client| {
        let what = ToOpen::Made(world.root, name.as_bytes(), how);
        world.open_by(what, holder(client, 1), only(3), WRITE)
    };
    let first = made("f", &guarded(0o644), 1).unwrap();
    assert_eq!((first.is_new, first.delegated), (true, WRITE));
    assert_eq!(first.attr, world.attr(first.attr.object));
    let exclusive = CreateHow::ExclusiveWith(7, mode(0o644));
    let first = made("x", &exclusive, 1).unwrap();
    assert_eq!((first.is_new, first.delegated), (true, WRITE));
    let again = made("x", &exclusive, 1).unwrap();
    assert_eq!((again.is_new, again.delegated), (false, None), "it holds it");
    // One that is there, and is cut.
    let (_, file) = world.filled("d");
    let cut = CreateHow::Unchecked(SetAttr { size: Some(0), ..SetAttr::default() });
    world.rename_as(&Cred::root(), (world.find(world.root, "d").unwrap(), "f"), (world.root, "g")).unwrap();
    let there = made("g", &cut, 2).unwrap();
    assert_eq!((there.is_new, there.attr.object, there.attr.size, there.delegated), (false, file, 0, WRITE));
    assert_eq!(there.attr, world.attr(file));
    assert_eq!(made("g", &cut, 1).unwrap_err(), FsError::Delegated(file));
}

/// Who has the Write reads by it: nobody is given it who may not, but for the owner, who may always.
fn given_of_what_may_be_read(world: &World) {
    let (_, file) = world.filled("d");
    for (set, uid, expected) in [
        (SetAttr { uid: Some(ALICE), ..mode(0o622) }, BOB, None),
        (mode(0o222), ALICE, WRITE),
        (mode(0o626), BOB, WRITE),
        (mode(0o222), 0, WRITE),
    ] {
        world.setattr_as(&Cred::root(), file, &set).unwrap();
        let (cred, by) = (user(uid, &[]), |_| Ok(holder(1, 1)));
        let opening = Opening { share: only(2), by: &by, wants: WRITE };
        let opened = world.run_in(OpCtx::of(&cred), |ctx| world.vfs.open(ctx, ToOpen::Itself(file), opening)).unwrap();
        assert_eq!(opened.delegated, expected, "{set:?} {uid}");
        world.end(file, 1);
    }
}

/// What each operation is to somebody else's delegation: table D10 at the door.
fn keeps_out(world: &World) {
    type Act = fn(&World, OpCtx<'_>, ObjectRef, ObjectRef) -> Result<(), FsError>;
    let acts: [(&str, Act, bool, bool); 18] = [
        ("getattr", |world, _, _, file| world.vfs.getattr(file).map(drop), false, false),
        ("lookup", |world, ctx, dir, _| world.vfs.lookup(ctx.cred, dir, b"f").map(drop), false, false),
        ("readdir", |world, ctx, dir, _| world.vfs.readdir(ctx.cred, dir, 0, 10, true).map(drop), false, false),
        (
            "commit",
            |world, ctx, _, file| world.run_in(ctx, |ctx| world.vfs.commit(ctx, file, 0, 0)).map(drop),
            false,
            false,
        ),
        (
            "setattr of nothing",
            |world, ctx, _, file| world.run_in(ctx, |ctx| world.vfs.setattr(ctx, file, &SetAttr::default(), None)),
            false,
            false,
        ),
        ("read", |world, ctx, _, file| world.vfs.read_by(ctx, file, 0, 10).map(drop), false, true),
        ("seek", |world, ctx, _, file| world.vfs.seek(ctx, file, 0, Sought::Data).map(drop), false, true),
        // Whoever has a file to keep sends its extended attributes all the same.
        (
            "list of extended attributes",
            |world, ctx, _, file| world.vfs.list_xattrs(ctx.cred, file, 0).map(drop),
            false,
            false,
        ),
        (
            "extended attribute",
            |world, ctx, _, file| {
                world.run_in(ctx, |ctx| world.vfs.set_xattr(ctx, file, b"user.a", b"v", SetXattr::Either))
            },
            true,
            true,
        ),
        ("write", |world, ctx, _, file| world.write_in(ctx, file, CONTENT), true, true),
        ("write of nothing", |world, ctx, _, file| world.write_in(ctx, file, b""), true, true),
        ("punch", |world, ctx, _, file| world.run_in(ctx, |ctx| world.vfs.deallocate(ctx, file, 0, 3)), true, true),
        ("reserve", |world, ctx, _, file| world.run_in(ctx, |ctx| world.vfs.allocate(ctx, file, 0, 3)), true, true),
        (
            "chmod",
            |world, ctx, _, file| world.run_in(ctx, |ctx| world.vfs.setattr(ctx, file, &mode(0o600), None)),
            true,
            true,
        ),
        (
            "cut",
            |world, ctx, _, file| {
                let cut = SetAttr { size: Some(3), ..SetAttr::default() };
                world.run_in(ctx, |ctx| world.vfs.setattr(ctx, file, &cut, None))
            },
            true,
            true,
        ),
        (
            "link",
            |world, ctx, dir, file| world.run_in(ctx, |ctx| world.vfs.link(ctx, file, dir, b"g")).map(drop),
            true,
            true,
        ),
        (
            "rename",
            |world, ctx, dir, _| world.run_in(ctx, |ctx| world.vfs.rename(ctx, dir, b"f", dir, b"h")),
            true,
            true,
        ),
        ("remove", |world, ctx, dir, _| world.run_in(ctx, |ctx| world.vfs.remove(ctx, dir, b"f")), true, true),
    ];
    let root = Cred::root();
    for (number, (name, act, by_read, by_write)) in acts.into_iter().enumerate() {
        for (kind, is_kept_out) in [(Delegation::Read, by_read), (Delegation::Write, by_write)] {
            let (dir, file) = world.filled(&format!("{number} {kind:?}"));
            assert_eq!(world.given_to(file, 1, if kind == Delegation::Read { 1 } else { 3 }, Some(kind)), Some(kind));
            world.vfs.close(file, holder(1, 1));
            let (attr, dir_attr) = (world.attr(file), world.attr(dir));
            // Another client, and one whose protocol has none.
            for client in [Some(ClientNumber(2)), None] {
                let told = act(world, OpCtx { client, ..OpCtx::of(&root) }, dir, file);
                let expected = if is_kept_out { Err(FsError::Delegated(file)) } else { Ok(()) };
                assert_eq!(told, expected, "{name}, {kind:?}, by {client:?}");
                assert_eq!(
                    (world.attr(file), world.attr(dir)),
                    (attr.clone(), dir_attr.clone()),
                    "{name}: nothing is changed"
                );
                assert_eq!(world.held(file), [(1, kind)]);
            }
            let own = OpCtx { client: Some(ClientNumber(1)), ..OpCtx::of(&root) };
            let last_goes = name == "remove";
            let expected = if last_goes { Err(FsError::Delegated(file)) } else { Ok(()) };
            assert_eq!(act(world, own, dir, file), expected, "{name}, by its holder");
        }
    }
    // What is in the way of a RENAME, and what a guard is to be compared with.
    let (dir, file) = world.filled("replaced");
    let moved = world.file(dir, "moved");
    assert_eq!(world.given_to(file, 1, 1, READ), READ);
    let rename = || world.rename_as(&root, (dir, "moved"), (dir, "f"));
    assert_eq!(rename(), Err(FsError::Delegated(file)));
    assert_eq!((world.find(dir, "moved"), world.find(dir, "f")), (Ok(moved), Ok(file)));
    let other_time = tally_base::Time(world.attr(file).ctime.0 + 1);
    let guarded = || world.run(&root, |ctx| world.vfs.setattr(ctx, file, &mode(0o600), Some(other_time))).0;
    assert_eq!(guarded(), Err(FsError::Delegated(file)));
    world.end(file, 1);
    assert_eq!((guarded(), rename()), (Err(FsError::NotSync), Ok(())));
    assert_eq!(world.find(dir, "f"), Ok(moved));
}

fn keeps_out_opens(world: &World) {
    let denying = |deny| Share { access: Access::READ, deny: Deny::from_bits(deny).unwrap() };
    let opens = [
        (only(1), false, true),
        (only(2), true, true),
        (only(3), true, true),
        (denying(1), true, true),
        (denying(2), true, true),
    ];
    for (kind, access) in [(Delegation::Read, 1), (Delegation::Write, 3)] {
        for (number, (share, by_read, by_write)) in opens.into_iter().enumerate() {
            let (_, file) = world.filled(&format!("{kind:?} {number}"));
            assert_eq!(world.given_to(file, 1, access, Some(kind)), Some(kind));
            world.vfs.close(file, holder(1, 1));
            let open = |client| world.open_by(ToOpen::Itself(file), holder(client, 1), share, None);
            let is_kept_out = if kind == Delegation::Read { by_read } else { by_write };
            let expected = if is_kept_out { Some(FsError::Delegated(file)) } else { None };
            assert_eq!(open(2).err(), expected, "{kind:?} {share:?}");
            world.vfs.close(file, holder(2, 1));
            assert_eq!(open(1).err(), None, "its holder");
            world.vfs.close(file, holder(1, 1));
            world.vfs.give_back(file, ClientNumber(1));
            assert_eq!(open(2).err(), None, "it was given back");
        }
    }
    // By its name, and cut by that: nothing is cut. Whose share is in the way is told first.
    let (dir, file) = world.filled("d");
    let cut = CreateHow::Unchecked(SetAttr { size: Some(0), ..SetAttr::default() });
    let by_name =
        |client, how: &CreateHow| world.open_by(ToOpen::Made(dir, b"f", how), holder(client, 1), only(1), None);
    assert_eq!(world.given_to(file, 1, 1, READ), READ);
    let attr = world.attr(file);
    assert_eq!(by_name(2, &cut).unwrap_err(), FsError::Delegated(file));
    assert_eq!(world.create_as(&Cred::root(), dir, "f", &cut), Err(FsError::Delegated(file)));
    assert_eq!((world.attr(file), world.read(file, 0, 100).0), (attr, CONTENT.to_vec()));
    assert!(by_name(2, &CreateHow::Unchecked(SetAttr::default())).is_ok(), "it is there, and is read");
    assert_eq!(by_name(2, &guarded(0)).unwrap_err(), FsError::Exists);
    world.vfs.close(file, holder(2, 1));
    world.vfs.close(file, holder(1, 1));
    let alone = Share { access: Access::READ, deny: Deny::WRITE };
    assert!(world.open_by(ToOpen::Itself(file), holder(1, 1), alone, None).is_ok());
    assert_eq!(world.open_by(ToOpen::Itself(file), holder(2, 1), only(2), None), Err(FsError::ShareDenied));
    assert!(by_name(1, &cut).is_ok_and(|opened| opened.attr.size == 0), "its holder cuts it");
}

fn keeps_out_locks(world: &World) {
    let (_, file) = world.filled("d");
    let lock = |client| Lock { holder: holder(client, 9), range: Range::new(0, 10).unwrap(), kind: Kind::Read };
    let kept_out = Err(NotLocked::Failed(FsError::Delegated(file)));
    assert_eq!(world.given_to(file, 1, 1, READ), READ);
    assert_eq!(world.vfs.test_range(file, lock(2)), Ok(()), "whoever opens it to read may lock");
    // Who locks without an open has called nothing back by one.
    let to_write = Lock { kind: Kind::Write, ..lock(2) };
    assert_eq!(world.vfs.test_range(file, to_write), kept_out, "its holder may have locked it to read");
    assert_eq!(world.vfs.lock_unopened(file, to_write), kept_out);
    assert_eq!(world.vfs.lock_unopened(file, lock(2)), Ok(()));
    world.end(file, 1);
    assert_eq!(world.vfs.lock_unopened(file, to_write), Ok(()));
    for wanted in [READ, WRITE] {
        assert_eq!(world.given_to(file, 1, 1, wanted), None, "another client has it locked to write");
    }
    world.end(file, 1);
    assert_eq!(world.vfs.lock_unopened(file, lock(2)), Ok(()));
    assert_eq!(world.given_to(file, 1, 1, WRITE), None);
    assert_eq!(world.given_to(file, 1, 1, READ), READ);
    world.end(file, 1);
    world.vfs.unlock_range(file, holder(2, 9), Range::ALL).unwrap();
    assert_eq!(world.given_to(file, 1, 3, WRITE), WRITE);
    assert_eq!(world.vfs.test_range(file, lock(2)), kept_out, "its holder locks without a word");
    assert_eq!(world.vfs.test_range(file, lock(1)), Ok(()));
    assert_eq!(world.vfs.lock_range(file, holder(1, 1), lock(1)), Ok(()));
}

fn rights_first(world: &World) {
    let (_, file) = world.filled("d");
    let set = SetAttr { uid: Some(ALICE), ..mode(0o600) };
    world.setattr_as(&Cred::root(), file, &set).unwrap();
    assert_eq!(world.given_to(file, 1, 3, WRITE), WRITE);
    let bob = user(BOB, &[]);
    assert_eq!(world.write_as(&bob, file, 0, b"x"), Err(FsError::Access));
    assert_eq!(world.vfs.read(&bob, file, 0, 10), Err(FsError::Access));
    assert_eq!(world.setattr_as(&bob, file, &mode(0o666)), Err(FsError::NotOwner));
    let dir = world.find(world.root, "d").unwrap();
    assert_eq!(world.remove_as(&bob, dir, "f"), Err(FsError::Access));
    assert_eq!(world.write_as(&user(ALICE, &[]), file, 0, b"x"), Err(FsError::Delegated(file)));
}

fn rights(world: &World) {
    let (_, file) = world.filled("d");
    world.setattr_as(&Cred::root(), file, &mode(0)).unwrap();
    let bob = user(BOB, &[]);
    let by = |client| OpCtx { right: Right::Delegated(ClientNumber(client)), ..OpCtx::of(&bob) };
    let read = |client| world.vfs.read_by(by(client), file, 0, 10).map(drop);
    let write = |client| world.write_in(by(client), file, b"x");
    let cut = |client| {
        let set = SetAttr { size: Some(4), ..SetAttr::default() };
        world.run_in(by(client), |ctx| world.vfs.setattr(ctx, file, &set, None))
    };
    assert_eq!((read(1), write(1)), (Err(FsError::NotOpened), Err(FsError::NotOpened)));
    assert_eq!(world.given_to(file, 1, 1, READ), READ);
    world.vfs.close(file, holder(1, 1));
    assert_eq!((read(1), write(1), cut(1)), (Ok(()), Err(FsError::OpenMode), Err(FsError::OpenMode)));
    world.end(file, 1);
    assert_eq!(world.given_to(file, 1, 3, WRITE), WRITE);
    world.vfs.close(file, holder(1, 1));
    assert_eq!((read(1), write(1), cut(1)), (Ok(()), Ok(()), Ok(())));
    assert_eq!((read(2), write(2)), (Err(FsError::NotOpened), Err(FsError::NotOpened)));
    assert_eq!(world.attr(file).size, 4);
}

/// Bob, who has no right by the mode, may have it by what his client was given; and sets what it has set there, but nothing that is to come.
fn kept_times(world: &World) {
    let (_, file) = world.filled("d");
    let bob = user(BOB, &[]);
    let set_by = |right, time| {
        let set = SetAttr { mtime: Some(SetTime::Kept(time)), ..SetAttr::default() };
        world.run_in(OpCtx { right, ..OpCtx::of(&bob) }, |ctx| world.vfs.setattr(ctx, file, &set, None))
    };
    let (mine, then) = (Right::Delegated(ClientNumber(1)), FileTime::new(5, 7));
    assert_eq!(set_by(Right::Unopened, then), Err(FsError::Access));
    assert_eq!(set_by(mine, then), Err(FsError::NotOpened));
    assert_eq!(world.given_to(file, 1, 1, READ), READ);
    assert_eq!(set_by(mine, then), Err(FsError::OpenMode));
    world.end(file, 1);
    assert_eq!(world.given_to(file, 1, 3, WRITE), WRITE);
    let before = world.attr(file);
    assert_eq!(set_by(mine, then), Ok(()));
    let after = world.attr(file);
    assert_eq!((after.mtime, after.atime), (then, before.atime));
    assert!(after.change > before.change && after.ctime >= before.ctime);
    assert_eq!(set_by(mine, FileTime(i64::MAX)), Ok(()));
    let now = world.attr(file);
    assert!(now.mtime >= before.mtime && now.mtime <= now.ctime.into(), "{now:?}");
    assert_eq!(set_by(Right::Delegated(ClientNumber(2)), then), Err(FsError::NotOpened));
}

fn removed(world: &World) {
    let root = Cred::root();
    let remove = |dir, client| {
        let ctx = OpCtx { client: Some(ClientNumber(client)), ..OpCtx::of(&root) };
        world.run_in(ctx, |ctx| world.vfs.remove(ctx, dir, b"f"))
    };
    // Nobody has it open: its own client is asked as well, which may have it open without a word.
    let (dir, file) = world.filled("d");
    assert_eq!(world.given_to(file, 1, 3, WRITE), WRITE);
    world.vfs.close(file, holder(1, 1));
    assert_eq!(remove(dir, 2), Err(FsError::Delegated(file)));
    assert_eq!(remove(dir, 1), Err(FsError::Delegated(file)));
    let other = world.file(dir, "other");
    let rename = |client| {
        let ctx = OpCtx { client: Some(ClientNumber(client)), ..OpCtx::of(&root) };
        world.run_in(ctx, |ctx| world.vfs.rename(ctx, dir, b"other", dir, b"f"))
    };
    assert_eq!((rename(1), world.find(dir, "other")), (Err(FsError::Delegated(file)), Ok(other)));
    world.vfs.give_back(file, ClientNumber(1));
    assert_eq!(remove(dir, 1), Ok(()));
    assert_eq!((world.held(file), world.vfs.getattr(file)), (vec![], Err(FsError::Stale)));
    // It has it open still.
    let (dir, file) = world.filled("e");
    assert_eq!(world.given_to(file, 1, 1, READ), READ);
    assert_eq!(remove(dir, 1), Ok(()));
    assert_eq!(world.held(file), [(1, Delegation::Read)]);
    assert_eq!(world.given_to(file, 2, 1, READ), None, "it has no name");
    world.vfs.close(file, holder(2, 1));
    world.vfs.close(file, holder(1, 1));
    assert_eq!((world.held(file), world.vfs.getattr(file)), (vec![], Err(FsError::Stale)));
    // One of two names.
    let (dir, file) = world.filled("g");
    world.link_as(&root, file, dir, "other").unwrap();
    assert_eq!(world.given_to(file, 1, 1, READ), READ);
    assert_eq!(remove(dir, 2), Err(FsError::Delegated(file)));
    assert_eq!((remove(dir, 1), world.held(file)), (Ok(()), vec![(1, Delegation::Read)]));
}

impl World {
    fn write_in(&self, ctx: OpCtx<'_>, file: ObjectRef, data: &'static [u8]) -> Result<(), FsError> {
        let data = Bytes::from_static(data);
        self.run_in(ctx, |ctx| self.vfs.write(ctx, file, 0, data.clone(), Stability::FileSync)).map(drop)
    }
}
