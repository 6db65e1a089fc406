//! Two programs of one client that send equal requests: same address, same transaction id, same arguments. As long as both
//! connections live they are two requests. What memory knows of them goes soon, as other answers need its place, and what the
//! pool knows stays for two minutes.

use std::sync::atomic::Ordering::SeqCst;

use crate::support::client::{Handle, NFS, dir_name, mode, write_arguments};
use crate::support::desk::{Desk, Line};
use crate::support::{KEY, POOL, TestExports};
use tally_nfs::handle::Handle as Sealed;
use tally_nfs::replies::CLIENT_ENTRIES_MAX;
use tally_nfs::v3::Procedure;
use tally_vfs::{Identity, ObjectRef};

/// The transaction id by which both begin.
const XID: u32 = 1;

struct Scene {
    desk: Desk,
    exports: std::sync::Arc<TestExports>,
}

impl Scene {
    fn new() -> Self {
        let exports = TestExports::new();
        Self { desk: Desk::new(&exports), exports }
    }

    /// A connection of the one client.
    fn line(&self, port: u16) -> Line<'_> {
        self.desk.line(([127, 0, 0, 1], port).into())
    }

    fn handle(&self, object: ObjectRef) -> Handle {
        Sealed { pool: POOL, dataset: self.exports.tank.dataset(), object }.seal(&KEY).to_vec()
    }

    fn root(&self) -> Handle {
        self.handle(self.exports.tank.root())
    }

    /// MKDIR of `d` under the transaction id that both use.
    fn mkdir(&self, line: &Line<'_>) -> (u32, Option<Handle>) {
        let mut arguments = dir_name(&self.root(), b"d");
        arguments.raw(&mode(0o755).into_vec());
        let mut answer = line.call(XID, NFS, Procedure::MkDir.number(), arguments);
        let handle = if answer.status == 0 { answer.post_handle() } else { None };
        (answer.status, handle)
    }

    fn rmdir(&self, line: &Line<'_>, xid: u32) {
        let arguments = dir_name(&self.root(), b"d");
        assert_eq!(line.call(xid, NFS, Procedure::RmDir.number(), arguments).status, 0);
    }

    /// So many WRITEs that memory knows nothing of what was before.
    fn forget(&self, line: &Line<'_>) {
        let root = self.root();
        for xid in 0..2 * u32::try_from(CLIENT_ENTRIES_MAX).unwrap() {
            let answer = line.call(1000 + xid, NFS, Procedure::Write.number(), write_arguments(&root, 0, b"x", 2));
            assert_ne!(answer.status, 0, "a directory is not written to, and that is remembered, too");
        }
    }

    fn changes(&self) -> usize {
        self.exports.tank.changes.load(SeqCst)
    }
}

/// The first one made `d` and removed it, the second one made it; the first one's MKDIR was sent again, and it was told that it had
/// made what is the second one's.
#[test]
fn a_repetition_is_told_of_what_its_own_sender_has_made() {
    let scene = Scene::new();
    let (first, second) = (scene.line(700), scene.line(701));
    let made = scene.mkdir(&first);
    scene.rmdir(&first, 2);
    let made_by_second = scene.mkdir(&second);
    assert_eq!((made.0, made_by_second.0), (0, 0));
    assert_ne!(made, made_by_second);
    scene.forget(&first);
    let before = scene.changes();
    assert_eq!(scene.mkdir(&first), made);
    assert_eq!(scene.mkdir(&second), made_by_second);
    assert_eq!(scene.changes(), before, "nothing is carried out twice");
}

/// The second one came when memory had forgotten the first one's answer, whose connection lived: it was told that it had made a
/// directory which was gone by then.
#[test]
fn a_first_request_is_not_told_of_what_another_connection_has_made() {
    let scene = Scene::new();
    let (first, second) = (scene.line(700), scene.line(701));
    let made = scene.mkdir(&first);
    scene.rmdir(&first, 2);
    scene.forget(&first);
    let made_by_second = scene.mkdir(&second);
    assert_eq!((made.0, made_by_second.0), (0, 0));
    assert_ne!(made, made_by_second);
}

/// The first one's connection broke, and it asks again on another: it gets its own answer, though the second one's is younger, as
/// that one lives. When both are gone nothing tells them apart, and the last answer is given.
#[test]
fn who_comes_on_another_connection_is_told_of_what_was_done_on_one_that_is_gone() {
    let scene = Scene::new();
    let (first, second) = (scene.line(700), scene.line(701));
    let made = scene.mkdir(&first);
    scene.rmdir(&first, 2);
    let made_by_second = scene.mkdir(&second);
    scene.forget(&first);
    drop(first);
    let before = scene.changes();
    let again = scene.line(702);
    assert_eq!(scene.mkdir(&again), made);
    scene.forget(&again);
    drop((again, second));
    assert_eq!(scene.mkdir(&scene.line(703)), made_by_second);
    assert_eq!(scene.changes(), before + 2 * CLIENT_ENTRIES_MAX, "the WRITEs alone");
}

/// The second one's reply was lost, and it asks again on the same connection while the first one's answer is in memory.
#[test]
fn who_ran_beside_another_is_told_again_what_it_was_told() {
    let scene = Scene::new();
    let (first, second) = (scene.line(700), scene.line(701));
    scene.mkdir(&first);
    scene.rmdir(&first, 2);
    let made = scene.mkdir(&second);
    let before = scene.changes();
    assert_eq!(scene.mkdir(&second), made);
    assert_eq!(scene.changes(), before);
}
