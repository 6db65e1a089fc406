//! What a client of version 4 holds ends when it should, and it is told.

mod support;

use support::Child;
use support::compound::lookup;
use support::opener::{BOTH, Opener, WRITE, close, find, free, open, open_as, read_by};
use tally_vfs::{CreateHow, Cred, Identity, Names, OpCtx, SetAttr};
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{NfsResop4, Nfsstat4, Open4Res};

const OK: Nfsstat4 = Nfs4Ok;
/// `SEQ4_STATUS_ADMIN_STATE_REVOKED`.
const ADMIN_REVOKED: u32 = 0x20;

/// Rules V37: behind an import the file system knows nothing of what was open, and READ said so (BAD_STATEID), while TEST_STATEID found nothing wrong.
#[test]
fn what_was_open_of_a_mount_that_is_over_is_revoked_and_told() {
    let mut client = Opener::new();
    client.scene.file(b"f");
    client.scene.file(b"g");
    let [mine, other] = [b"f", b"g"].map(|name| client.opened(open_as(b"a", name, (BOTH, BOTH), find())).stateid);
    assert_eq!(client.flags(), 0);
    client.scene.exports.mount_anew();
    assert_eq!(client.flags(), ADMIN_REVOKED);
    assert_eq!(client.status(&[lookup(b"f"), read_by(mine.clone())]), Nfs4ErrAdminRevoked);
    assert_eq!(client.status(&[lookup(b"f"), close(mine.clone())]), Nfs4ErrAdminRevoked);
    assert_eq!(client.tested(&[&mine, &other]), [Nfs4ErrAdminRevoked; 2]);
    // What it denied is free, for others and for itself.
    let again = client.opened(open_as(b"a", b"f", (BOTH, WRITE), find())).stateid;
    assert_eq!(client.status(&[lookup(b"f"), read_by(again.clone())]), OK);
    assert_eq!(client.flags(), ADMIN_REVOKED);
    assert_eq!(client.status(&[free(mine)]), OK);
    assert_eq!(client.flags(), ADMIN_REVOKED, "one is left");
    assert_eq!(client.status(&[free(other)]), OK);
    assert_eq!(client.flags(), 0);
    assert_eq!(client.status(&[lookup(b"f"), close(again)]), OK);
}

/// What is exported is as it was, as far as anybody can see: only who uses it finds another mount.
#[test]
fn who_uses_what_is_of_another_mount_is_told_so_before_anybody_has_looked() {
    let mut client = Opener::new();
    client.scene.file(b"f");
    for by_use in [true, false] {
        let mine = client.opened(open_as(b"a", b"f", (BOTH, BOTH), find())).stateid;
        let seen = *client.scene.exports.changed.lock();
        client.scene.exports.mount_anew();
        *client.scene.exports.changed.lock() = seen;
        if by_use {
            assert_eq!(client.status(&[lookup(b"f"), read_by(mine.clone())]), Nfs4ErrAdminRevoked);
            assert_eq!(client.tested(&[&mine]), [Nfs4ErrAdminRevoked]);
            assert_eq!(client.flags(), ADMIN_REVOKED);
        }
        assert_eq!(client.status(&[free(mine)]), OK);
        assert_eq!(client.flags(), 0);
    }
}

/// Nobody looks for it any more, and the file system that has it is gone.
#[test]
fn nothing_is_opened_of_a_mount_that_is_over() {
    let mut client = Opener::new();
    client.scene.file(b"f");
    let exports = client.scene.exports.clone();
    *client.scene.exports.tank.behind_a_look.lock() = Some(Box::new(move |_| exports.mount_anew()));
    let ask = open_as(b"a", b"f", (BOTH, BOTH), find());
    assert_eq!(client.status(std::slice::from_ref(&ask)), Nfs4ErrDelay);
    assert_eq!(client.flags(), 0);
    let mine = client.opened(ask).stateid;
    assert_eq!(client.status(&[lookup(b"f"), read_by(mine)]), OK);
}

/// It is told as long as its pool is away, and where its dataset does not come back. One that is being destroyed may.
#[test]
fn what_was_open_goes_with_its_pool_or_dataset() {
    let mut client = Opener::new();
    let child = client.scene.exports.child.clone();
    let made = child.create(OpCtx::of(&Cred::root()), child.root(), b"f", &CreateHow::Guarded(SetAttr::default()));
    made.result.unwrap();
    client.scene.file(b"f");
    let mine = client.opened(open(b"f", BOTH, 0)).stateid;
    let childs = client.run(&[lookup(b"child"), open(b"f", BOTH, 0)]);
    let Some(NfsResop4::OpOpen(Open4Res::Nfs4Ok(childs))) = childs.last() else { panic!("{childs:?}") };
    let changes = |client: &Opener, child_is| {
        *client.scene.exports.child_is.lock() = child_is;
        client.scene.exports.changed.lock().0 += 1;
    };
    changes(&client, Child::Going);
    assert_eq!((client.flags(), client.tested(&[&mine, &childs.stateid])), (0, vec![OK; 2]));
    changes(&client, Child::Coming);
    assert_eq!(client.flags(), ADMIN_REVOKED);
    assert_eq!(client.tested(&[&mine, &childs.stateid]), [OK, Nfs4ErrAdminRevoked]);
    assert_eq!(client.status(&[free(childs.stateid.clone())]), OK);
    *client.scene.exports.away.lock() = true;
    changes(&client, Child::There);
    assert_eq!(client.flags(), ADMIN_REVOKED);
    assert_eq!(client.leave(), [OK; 2], "it has nothing more that it could lose");
}
