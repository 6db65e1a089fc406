//! Bad input of version 4: each operation without a handle, with a handle of another type, in a minor version that has it not, outside of a session, where it must
//! not stand, twice, and cut off; compounds that are too long; handles and names that are none. Each row is told the error that its RFC names (RFC 7530 §13.2,
//! RFC 8881 §15.2, RFC 7862 §11.2, RFC 8276 §8.4). Stateids, slots and sequences have `bad_state`.

use crate::support::compound::{Op, arguments, bare, get_attr, make, op, put, put_root, remove, save, stateid, up};
use crate::support::opener::{BOTH, Opener, close, free, open, open_as};
use crate::support::scene::Scene;
use crate::support::session::complete;
use std::sync::Arc;
use tally_nfs::handle::Handle;
use tally_vfs::{Cred, FileKind, Identity, Names, NodeKind, OpCtx, SetAttr};
use tally_wire::Dice;
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    Allocate4Args, Compound4Res, Copy4Args, Createhow4, DataContent4, Deallocate4Args, Fattr4, Fattr4Value, Lock4Args,
    Locker4, Lockt4Args, NfsArgop4, NfsLockType4, NfsOpnum4, Nfsstat4, OpenDowngrade4Args, OpenOwner4,
    OpenToLockOwner4, Openflag4, Seek4Args, Setattr4Args, StableHow4, Stateid4, Write4Args,
};

const OK: Nfsstat4 = Nfs4Ok;
/// Operations end here in each minor version.
const LAST: [u32; 3] = [39, 58, 75];
/// What later versions have instead (RFC 8881 §18 and its §8.8).
const OF_0_ALONE: [NfsOpnum4; 5] = [
    NfsOpnum4::OpOpenConfirm,
    NfsOpnum4::OpRenew,
    NfsOpnum4::OpSetclientid,
    NfsOpnum4::OpSetclientidConfirm,
    NfsOpnum4::OpReleaseLockowner,
];
const STANDS_ALONE: [NfsOpnum4; 5] = [
    NfsOpnum4::OpBindConnToSession,
    NfsOpnum4::OpExchangeId,
    NfsOpnum4::OpCreateSession,
    NfsOpnum4::OpDestroySession,
    NfsOpnum4::OpDestroyClientid,
];

/// All operations of a minor version, each with arguments that its RFC's XDR allows.
fn all_of(minor: u32, dice: &mut Dice) -> Vec<(NfsOpnum4, Op)> {
    let is_there = |number: &&NfsOpnum4| **number as u32 <= LAST[minor as usize];
    NfsOpnum4::ALL.iter().filter(is_there).map(|number| (*number, drawn(*number, dice))).collect()
}

/// What is decoded as well as it is allowed: of what XDR leaves open, what there is.
fn drawn(number: NfsOpnum4, dice: &mut Dice) -> Op {
    let mut drawn = NfsArgop4::random_arm(number, dice);
    let mode = Fattr4::of(&[Fattr4Value::Fattr4Mode(0o600)]);
    match &mut drawn {
        NfsArgop4::OpCreate(create) => create.createattrs = mode,
        NfsArgop4::OpSetattr(set) => set.obj_attributes = mode,
        NfsArgop4::OpVerify(verify) => verify.obj_attributes = mode,
        NfsArgop4::OpNverify(verify) => verify.obj_attributes = mode,
        NfsArgop4::OpOpen(open) => {
            open.openhow = Openflag4::Open4Create(Createhow4::Unchecked4(mode));
            open.claim = tally_wire::nfs4::OpenClaim4::ClaimNull(b"name".into());
            (open.share_access, open.share_deny) = (BOTH, 0);
        }
        NfsArgop4::OpOpenDowngrade(downgrade) => (downgrade.share_access, downgrade.share_deny) = (BOTH, 0),
        // That of one file system goes by its handle.
        NfsArgop4::OpReclaimComplete(complete) => complete.rca_one_fs = false,
        NfsArgop4::OpLock(lock) => (lock.offset, lock.length) = (0, 1),
        NfsArgop4::OpLockt(lock) => (lock.offset, lock.length) = (0, 1),
        NfsArgop4::OpLocku(lock) => (lock.offset, lock.length) = (0, 1),
        _ => {}
    }
    op(&drawn)
}

/// Clients of each minor version that has sessions, alone on a server.
fn opener(minor: u32) -> Opener {
    Opener::beside(&Arc::new(Scene { minor, ..Scene::new() }), "a client", 1)
}

/// Behind SEQUENCE, if there is a session.
fn told(minor: u32, ops: &[Op]) -> Compound4Res {
    if minor == 0 {
        return Scene::new().run(1, ops);
    }
    let mut client = opener(minor);
    let head = client.sequence();
    let mut reply = client.send(&[&[head], ops].concat());
    reply.resarray.0.remove(0);
    reply
}

#[test]
fn without_a_handle() {
    use NfsOpnum4 as N;
    // These ask for none, and are told other things.
    let needless = [
        N::OpPutfh,
        N::OpPutpubfh,
        N::OpPutrootfh,
        N::OpDelegpurge,
        N::OpBackchannelCtl,
        N::OpBindConnToSession,
        N::OpExchangeId,
        N::OpCreateSession,
        N::OpDestroySession,
        N::OpFreeStateid,
        N::OpTestStateid,
        N::OpSequence,
        N::OpDestroyClientid,
        N::OpReclaimComplete,
        N::OpRenew,
        N::OpSetclientid,
        N::OpSetclientidConfirm,
        N::OpReleaseLockowner,
    ];
    let mut dice = Dice::new(1);
    for minor in 0..3 {
        for (number, ask) in all_of(minor, &mut dice) {
            let status = told(minor, &[ask]).status;
            let expected = match number {
                _ if minor > 0 && OF_0_ALONE.contains(&number) => Some(Nfs4ErrNotsupp),
                _ if needless.contains(&number) => None,
                N::OpRestorefh if minor == 0 => Some(Nfs4ErrRestorefh),
                _ => Some(Nfs4ErrNofilehandle),
            };
            // Of two that are true either is right: drawn stateids and clients of minor version 0 are of no life.
            let of_nobody = [Nfs4ErrStaleStateid, Nfs4ErrStaleClientid];
            let is_not_there = status == Nfs4ErrNotsupp || minor == 0 && of_nobody.contains(&status);
            assert!(
                is_not_there || expected.is_none_or(|expected| status == expected),
                "{number:?} of {minor}: {status:?}"
            );
            assert!(expected.is_some() || status != Nfs4ErrNofilehandle, "{number:?} of {minor} asks for a handle");
        }
    }
}

fn attributes(values: &[Fattr4Value]) -> Fattr4 {
    Fattr4::of(values)
}

fn lock_of(stateid: Stateid4) -> Op {
    let lock_owner = OpenOwner4 { clientid: 0, owner: b"l".into() };
    let locker = Locker4::True(OpenToLockOwner4 { open_seqid: 0, open_stateid: stateid, lock_seqid: 0, lock_owner });
    let (locktype, reclaim) = (NfsLockType4::WriteLt, false);
    op(&NfsArgop4::OpLock(Lock4Args { locktype, reclaim, offset: 0, length: 1, locker }))
}

/// An operation, and what it is told of a file, a directory, a symbolic link, a pipe.
type OfTypes = (&'static str, Op, [Nfsstat4; 4]);

fn of_types(minor: u32) -> Vec<OfTypes> {
    let (link, pipe) = match minor {
        0 => (Nfs4ErrInval, Nfs4ErrInval),
        _ => (Nfs4ErrSymlink, Nfs4ErrWrongType),
    };
    let content = [OK, Nfs4ErrIsdir, link, pipe];
    let sized = [OK, Nfs4ErrIsdir, pipe, pipe];
    let names = [Nfs4ErrNotdir, Nfs4ErrNoent, Nfs4ErrNotdir, Nfs4ErrNotdir];
    let looks = [Nfs4ErrNotdir, Nfs4ErrNoent, Nfs4ErrSymlink, Nfs4ErrNotdir];
    let data = |stateid| {
        NfsArgop4::OpWrite(Write4Args { stateid, offset: 0, stable: StableHow4::FileSync4, data: b"x".into() })
    };
    let size = NfsArgop4::OpSetattr(Setattr4Args {
        stateid: stateid(0),
        obj_attributes: attributes(&[Fattr4Value::Fattr4Size(3)]),
    });
    let test = Lockt4Args {
        locktype: NfsLockType4::ReadLt,
        offset: 0,
        length: 1,
        owner: OpenOwner4 { clientid: 0, owner: b"l".into() },
    };
    let mut rows = vec![
        ("READ", crate::support::compound::read(0, 0, 9), content),
        ("WRITE", op(&data(stateid(0))), content),
        ("COMMIT", crate::support::compound::commit(), content),
        ("SETATTR of a size", op(&size), sized),
        (
            "READDIR",
            crate::support::compound::read_dir(0, 4096, &[]),
            [Nfs4ErrNotdir, OK, Nfs4ErrNotdir, Nfs4ErrNotdir],
        ),
        ("READLINK", bare(NfsOpnum4::OpReadlink as u32), [Nfs4ErrInval, Nfs4ErrInval, OK, Nfs4ErrInval]),
        ("LOOKUP", crate::support::compound::lookup(b"none"), looks),
        ("LOOKUPP", up(), [Nfs4ErrNotdir, OK, Nfs4ErrSymlink, Nfs4ErrNotdir]),
        ("CREATE", make(b"made"), [Nfs4ErrNotdir, OK, Nfs4ErrNotdir, Nfs4ErrNotdir]),
        ("REMOVE", remove(b"none"), names),
        ("SECINFO", op(&NfsArgop4::OpSecinfo(tally_wire::nfs4::Secinfo4Args { name: b"none".into() })), names),
        (
            "LINK of a directory, or into what is none",
            [save(), crate::support::compound::link(b"l")].concat(),
            [Nfs4ErrNotdir, Nfs4ErrIsdir, Nfs4ErrNotdir, Nfs4ErrNotdir],
        ),
        ("RENAME", [save(), crate::support::compound::rename(b"none", b"to")].concat(), names),
    ];
    if minor > 0 {
        rows.extend([
            ("OPEN", open(b"none", BOTH, 0), names),
            ("LOCKT", op(&NfsArgop4::OpLockt(test)), [OK, Nfs4ErrIsdir, Nfs4ErrSymlink, Nfs4ErrWrongType]),
            ("LOCK", lock_of(stateid(7)), [Nfs4ErrBadStateid, Nfs4ErrIsdir, Nfs4ErrSymlink, Nfs4ErrWrongType]),
        ]);
    }
    if minor == 2 {
        let (sa_offset, sa_what) = (0, DataContent4::Nfs4ContentData);
        let seek = Seek4Args { sa_stateid: stateid(0), sa_offset, sa_what };
        let reserve = Allocate4Args { aa_stateid: stateid(0), aa_offset: 0, aa_length: 1 };
        let punch = Deallocate4Args { da_stateid: stateid(0), da_offset: 0, da_length: 1 };
        let copy = Copy4Args {
            ca_src_stateid: stateid(0),
            ca_dst_stateid: stateid(0),
            ca_src_offset: 0,
            ca_dst_offset: 1,
            ca_count: 1,
            ca_consecutive: true,
            ca_synchronous: true,
            ca_source_server: Vec::new().into(),
        };
        rows.extend([
            ("SEEK", op(&NfsArgop4::OpSeek(seek)), [OK, Nfs4ErrIsdir, Nfs4ErrSymlink, Nfs4ErrWrongType]),
            ("ALLOCATE", op(&NfsArgop4::OpAllocate(reserve)), [OK, Nfs4ErrIsdir, Nfs4ErrSymlink, Nfs4ErrWrongType]),
            ("DEALLOCATE", op(&NfsArgop4::OpDeallocate(punch)), [OK, Nfs4ErrIsdir, Nfs4ErrSymlink, Nfs4ErrWrongType]),
            (
                "COPY",
                [save(), op(&NfsArgop4::OpCopy(copy))].concat(),
                [OK, Nfs4ErrWrongType, Nfs4ErrWrongType, Nfs4ErrWrongType],
            ),
        ]);
    }
    rows
}

/// A scene with an object of each type, and the handles of those.
fn furnished(minor: u32) -> (Scene, [Op; 4]) {
    let scene = Scene { minor, ..Scene::new() };
    let (tank, cred) = (scene.exports.tank.clone(), Cred::root());
    let (ctx, root, set) = (OpCtx::of(&cred), tank.root(), SetAttr { mode: Some(0o755), ..SetAttr::default() });
    let file = scene.file(b"file");
    let dir = tank.mkdir(ctx, root, b"dir", &set).result.unwrap().object;
    let link = tank.symlink(ctx, root, b"link", b"file", &set).result.unwrap().object;
    let pipe = tank.mknod(ctx, root, b"pipe", NodeKind::Fifo, &set).result.unwrap().object;
    use tally_vfs::Content;
    tank.write(ctx, file, 0, b"content".as_slice().into(), tally_vfs::Stability::FileSync).result.unwrap();
    let handles = [file, dir, link, pipe].map(|object| scene.put(object));
    (scene, handles)
}

#[test]
fn with_a_handle_of_another_type() {
    let mut wrong = Vec::new();
    for minor in 0..3 {
        for (name, ask, expected) in of_types(minor) {
            for (nth, expected) in expected.into_iter().enumerate() {
                let (scene, handles) = furnished(minor);
                // What stands together is cut where the second begins.
                let asks: Vec<Op> = match ask.starts_with(&save()) {
                    true => vec![save(), ask[4..].to_vec()],
                    false => vec![ask.clone()],
                };
                let ops = [&[handles[nth].clone()], &asks[..]].concat();
                let status = match minor {
                    0 => scene.run(1, &ops).status,
                    _ => {
                        let mut client = Opener::beside(&Arc::new(scene), "a client", 1);
                        let head = client.sequence();
                        client.send(&[&[head], &ops[..]].concat()).status
                    }
                };
                if status != expected {
                    wrong.push(format!(
                        "{name} of {:?}, minor version {minor}: {status:?}, not {expected:?}",
                        [FileKind::File, FileKind::Directory, FileKind::Symlink, FileKind::Fifo][nth]
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn in_the_wrong_minor_version() {
    let mut dice = Dice::new(2);
    for (number, ask) in all_of(2, &mut dice) {
        let (scene, handles) = furnished(0);
        for minor in 0..2 {
            let scene = Scene { minor, exports: scene.exports.clone(), ..Scene::new() };
            let status = scene.run(1, &[handles[0].clone(), ask.clone()]).status;
            let is_later = number as u32 > LAST[minor as usize];
            assert!(minor > 0 || is_later == (status == Nfs4ErrOpIllegal), "{number:?} of {minor}: {status:?}");
        }
        let mut client = opener(1);
        let head = client.sequence();
        let status = client.send(&[head, put_root(), ask.clone()]).status;
        assert_eq!(number as u32 > LAST[1], status == Nfs4ErrOpIllegal, "{number:?} in a session of 1: {status:?}");
        let scene = Scene { minor: 3, ..Scene::new() };
        let reply = scene.run(1, &[ask]);
        assert_eq!((reply.status, reply.resarray.len()), (Nfs4ErrMinorVersMismatch, 0), "{number:?} of 3");
    }
}

#[test]
fn outside_of_a_session_and_where_it_must_not_stand() {
    let mut dice = Dice::new(3);
    for minor in 1..3 {
        let mut client = opener(minor);
        for (number, ask) in all_of(minor, &mut dice) {
            let alone = client.send(std::slice::from_ref(&ask)).status;
            let beside = client.send(&[ask.clone(), put_root()]).status;
            let behind = client.compound(std::slice::from_ref(&ask));
            match number {
                NfsOpnum4::OpSequence => {
                    assert_eq!(alone, Nfs4ErrBadsession);
                    assert_eq!(behind.status, Nfs4ErrSequencePos);
                }
                number if STANDS_ALONE.contains(&number) => {
                    assert_ne!(alone, Nfs4ErrOpNotInSession, "{number:?}");
                    assert_eq!(beside, Nfs4ErrNotOnlyOp, "{number:?}");
                }
                _ => {
                    assert_eq!((alone, beside), (Nfs4ErrOpNotInSession, Nfs4ErrOpNotInSession), "{number:?}");
                    assert_ne!(behind.status, Nfs4ErrOpNotInSession, "{number:?}");
                }
            }
        }
    }
}

/// What is done is done: the second is told what there is behind the first.
#[test]
fn twice_in_a_compound() {
    let mut client = opener(2);
    let of =
        client.opened(open_as(b"o", b"n", (BOTH, 0), Openflag4::Open4Create(Createhow4::Unchecked4(attributes(&[])))));
    let file = client.scene.put(client.scene.file_named(b"n"));
    let other = client.opened(open_as(b"p", b"n", (BOTH, 0), crate::support::opener::find()));
    let downgrade = |open_stateid: &Stateid4| {
        let open_stateid = Stateid4 { seqid: 0, ..open_stateid.clone() };
        op(&NfsArgop4::OpOpenDowngrade(OpenDowngrade4Args {
            open_stateid,
            seqid: 0,
            share_access: BOTH,
            share_deny: 0,
        }))
    };
    let rows: Vec<(&str, Vec<Op>, Nfsstat4)> = vec![
        ("CREATE", vec![make(b"d"), client.scene.put_tank(), make(b"d")], Nfs4ErrExist),
        ("REMOVE", vec![remove(b"d"), remove(b"d")], Nfs4ErrNoent),
        ("SAVEFH and RESTOREFH", vec![save(), save(), bare(31), bare(31)], OK),
        ("OPEN_DOWNGRADE", vec![file.clone(), downgrade(&other.stateid), downgrade(&other.stateid)], OK),
        (
            "CLOSE",
            vec![
                file.clone(),
                close(Stateid4 { seqid: 0, ..of.stateid.clone() }),
                close(Stateid4 { seqid: 0, ..of.stateid.clone() }),
            ],
            Nfs4ErrBadStateid,
        ),
        (
            "FREE_STATEID of what is open",
            vec![free(Stateid4 { seqid: 0, ..other.stateid.clone() }), complete()],
            Nfs4ErrLocksHeld,
        ),
        ("RECLAIM_COMPLETE", vec![complete(), complete()], Nfs4ErrCompleteAlready),
    ];
    for (name, ops, expected) in rows {
        assert_eq!(client.status(&ops), expected, "{name}");
    }
    let [session, id] = client.leave();
    assert_eq!((session, id), (OK, Nfs4ErrClientidBusy), "it has something open");
    let [again, _] = client.leave();
    assert_eq!(again, Nfs4ErrBadsession);
}

/// Cut behind each of its words: BADXDR, or what is said before its arguments are read.
#[test]
fn cut_off() {
    let mut dice = Dice::new(4);
    for minor in 0..3 {
        for (number, ask) in all_of(minor, &mut dice) {
            for length in (4..ask.len().min(400)).step_by(4) {
                let (scene, handles) = furnished(minor);
                let cut = ask[..length].to_vec();
                let reply = match minor {
                    0 => scene.run(1, &[handles[0].clone(), save(), cut]),
                    _ => {
                        let mut client = Opener::beside(&Arc::new(scene), "a client", 1);
                        let head = client.sequence();
                        client.send(&[head, handles[0].clone(), save(), cut])
                    }
                };
                let said_before = [Nfs4ErrNotsupp, Nfs4ErrSequencePos, Nfs4ErrNotOnlyOp];
                let is_told = reply.status == Nfs4ErrBadxdr || said_before.contains(&reply.status);
                assert!(is_told, "{number:?} of {minor} cut at {length} of {}: {:?}", ask.len(), reply.status);
                assert_eq!(reply.resarray.len(), 3 + usize::from(minor > 0), "{number:?}");
            }
        }
    }
}

/// Counts that are not there, tags and requests beyond their bounds.
#[test]
fn too_many_and_too_long() {
    let scene = Scene::new();
    let many = |count: usize| vec![put_root(); count];
    assert_eq!(scene.run(1, &many(128)).status, OK);
    let refused = scene.run(2, &many(129));
    assert_eq!((refused.status, refused.resarray.len()), (Nfs4ErrResource, 0));
    assert_eq!(scene.run(3, &many(10_000)).status, Nfs4ErrResource);
    for minor in 1..3 {
        let mut client = opener(minor);
        // Eight were asked for.
        let head = client.sequence();
        assert_eq!(client.send(&[&[head], &many(7)[..]].concat()).status, OK);
        for count in [8, 2000] {
            let head = client.sequence();
            let reply = client.send(&[&[head], &many(count)[..]].concat());
            assert_eq!((reply.status, reply.resarray.len()), (Nfs4ErrTooManyOps, 1), "{count}");
            client.next -= 1;
        }
        let long = op(&NfsArgop4::OpWrite(Write4Args {
            stateid: stateid(0),
            offset: 0,
            stable: StableHow4::FileSync4,
            data: vec![0; 9000].into(),
        }));
        let head = client.sequence();
        assert_eq!(client.send(&[head, put_root(), long]).status, Nfs4ErrReqTooBig);
    }
}

/// Handles that are none of ours, and names that are none.
#[test]
fn handles_and_names_that_are_none() {
    let (scene, _) = furnished(2);
    let sealed =
        Handle { pool: crate::support::POOL, dataset: scene.exports.tank.dataset(), object: scene.file_named(b"file") }
            .seal(&crate::support::KEY);
    let mut damaged = sealed;
    damaged[30] ^= 1;
    let rows: [(&str, Vec<u8>, &[Nfsstat4]); 5] = [
        ("empty", Vec::new(), &[Nfs4ErrBadhandle]),
        ("short", sealed[..20].to_vec(), &[Nfs4ErrBadhandle]),
        ("long", [&sealed[..], &[0; 8]].concat(), &[Nfs4ErrBadhandle]),
        ("damaged", damaged.to_vec(), &[Nfs4ErrBadhandle, Nfs4ErrStale]),
        ("beyond all bounds", vec![1; 132], &[Nfs4ErrBadxdr]),
    ];
    let mut client = Opener::beside(&Arc::new(scene), "a client", 1);
    for (name, handle, expected) in rows {
        let head = client.sequence();
        let status = client.send(&[head, put(&handle), get_attr(&[1])]).status;
        assert!(expected.contains(&status), "{name}: {status:?}");
    }
    let names: [(&[u8], Nfsstat4); 5] = [
        (b"", Nfs4ErrInval),
        (b".", Nfs4ErrBadname),
        (b"..", Nfs4ErrBadname),
        (b"a/b", Nfs4ErrBadname),
        (&[b'x'; 256], Nfs4ErrNametoolong),
    ];
    for (name, expected) in names {
        for ask in [crate::support::compound::lookup(name), make(name), remove(name), open(name, BOTH, 0)] {
            assert_eq!(client.status(std::slice::from_ref(&ask)), expected, "{name:?} in {ask:x?}");
        }
    }
}

/// What stands before the operations is cut off, or longer than may be: no compound at all.
#[test]
fn what_is_no_compound() {
    let scene = Scene::new();
    let whole = arguments(0, &[put_root()]).into_vec();
    for length in (0..16).step_by(4) {
        assert!(garbage(&scene, &whole[..length]), "cut at {length}");
    }
    let long_tag = [&1025_u32.to_be_bytes()[..], &[b'x'; 1028], &[0; 8]].concat();
    assert!(garbage(&scene, &long_tag));
}

fn garbage(scene: &Scene, arguments: &[u8]) -> bool {
    let mut words = tally_nfs::xdr::Encoder::new();
    words.raw(arguments);
    let record = crate::support::client::record(1, (0, &[0]), (100_003, 4), 1, words);
    let mut job = scene.service.open(record.into(), &scene.link, std::time::Instant::now()).expect("a call");
    let tally_nfs::service::Step::Reply(reply) = scene.service.run(&mut job) else { panic!("it waits") };
    let bytes = crate::support::desk::bytes_of(&reply);
    // GARBAGE_ARGS.
    bytes[20..24] == [0, 0, 0, 4]
}
