//! A pool that was suspended is taken up again in the same process, and requests run on over that.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use crate::support::client::{Answer, NFS, dir_name, mode, record, write_arguments};
use crate::support::desk::bytes_of;
use crate::support::gated::Promises;
use crate::support::{KEY, POOL, TestExports};
use tally_base::{Broken, Fate, PoolGuid};
use tally_nfs::handle::Handle;
use tally_nfs::link::Link;
use tally_nfs::rpc::Reply;
use tally_nfs::service::{Job, Service, Step};
use tally_nfs::v3::Procedure;
use tally_nfs::xdr::Encoder;
use tally_vfs::{CreateHow, Cred, Identity, Names, ObjectRef, OpCtx, SetAttr};

const OTHER: PoolGuid = PoolGuid(7);

/// A service, a connection, and how often something was done.
struct Scene {
    exports: Arc<TestExports>,
    service: Service,
    link: Arc<Link>,
}

impl Scene {
    fn new() -> Self {
        let exports = TestExports::new();
        let link = Arc::new(Link::new(1, "127.0.0.1:700".parse().unwrap()));
        Self { service: Service::new(exports.clone()), exports, link }
    }

    fn handle(&self, object: ObjectRef) -> Vec<u8> {
        let tank = &self.exports.tank;
        Handle { pool: POOL, dataset: tank.dataset(), object }.seal(&KEY).to_vec()
    }

    /// A request that begins to run.
    fn begin(&self, xid: u32, procedure: Procedure, arguments: Encoder) -> (Job, Step) {
        self.begin_on(&self.link, xid, procedure, arguments)
    }

    fn begin_on(&self, link: &Arc<Link>, xid: u32, procedure: Procedure, arguments: Encoder) -> (Job, Step) {
        let record = record(xid, (0, &[0]), NFS, procedure.number(), arguments);
        let mut job = self.service.open(record.into(), link, Instant::now()).expect("a call");
        let step = self.service.run(&mut job);
        (job, step)
    }

    fn mkdir(&self, xid: u32) -> (Job, Step) {
        self.mkdir_on(&self.link, xid)
    }

    fn mkdir_on(&self, link: &Arc<Link>, xid: u32) -> (Job, Step) {
        let mut arguments = dir_name(&self.handle(self.exports.tank.root()), b"d");
        arguments.raw(&mode(0o755).into_vec());
        self.begin_on(link, xid, Procedure::MkDir, arguments)
    }

    fn changes(&self) -> usize {
        self.exports.tank.changes.load(SeqCst)
    }
}

fn answer(step: Step) -> (Reply, u32) {
    let Step::Reply(reply) = step else { panic!("it waits, or is none") };
    let status = Answer::parse(bytes_of(&reply).into()).1.status;
    (reply, status)
}

/// A MKDIR found no room and was to run again behind the next group. Meanwhile another program on its client sent the equal one, which was let
/// in and made the directory. The first one took that for its own answer, and both had made a lock that only one can have.
#[test]
fn who_runs_again_is_not_told_of_what_another_connection_did_meanwhile() {
    const EXIST: u32 = 17;
    let scene = Scene::new();
    scene.exports.tank.throttle.store(1, SeqCst);
    let (mut first, step) = scene.mkdir(1);
    assert!(matches!(step, Step::Again(_)), "it found no room");
    let other = Arc::new(Link::new(2, "127.0.0.1:701".parse().unwrap()));
    assert_eq!(answer(scene.mkdir_on(&other, 1).1).1, 0, "another one is no repetition of it");
    assert_eq!(answer(scene.service.run(&mut first)).1, EXIST);
}

/// A MKDIR waited for its disk, the pool was suspended, and `tally pool clear` had it serving again before the one that broke the
/// promise came to say so: as the pool served, the client was told of an I/O error, and the directory was there. It is asked of the
/// pool that serves. What becomes of other pools meanwhile is nothing to it.
#[test]
fn a_promise_that_breaks_when_its_pool_serves_again_is_not_an_error() {
    let scene = Scene::new();
    let broken: Fate = Err(Broken("the pool is suspended".into()));
    *scene.exports.tank.promises.lock() = Promises::ByHand;
    let (mut job, step) = scene.mkdir(1);
    assert!(matches!(step, Step::Wait(_)));
    scene.service.forget_unwaited_replies(OTHER);
    assert!(!scene.service.stays_in_doubt(&mut job, Some(&broken)), "its own pool has served all the time");
    scene.service.forget_unwaited_replies(POOL);
    assert!(scene.service.stays_in_doubt(&mut job, Some(&broken)));
    assert!(scene.service.may_go_on(&job) && !scene.service.is_left(&job));
    let before = scene.changes();
    assert_eq!(answer(scene.service.run(&mut job)).1, 0, "it has made the directory");
    assert_eq!(scene.changes(), before, "and is not carried out twice");
    // If it breaks once more, that is of the new life.
    assert!(!scene.service.stays_in_doubt(&mut job, Some(&broken)));
}

/// The same, and the pool was taken up by an import that need not bring back what the MKDIR was sent to: nobody is answered.
#[test]
fn a_promise_that_breaks_when_another_state_serves_is_left() {
    let scene = Scene::new();
    *scene.exports.tank.promises.lock() = Promises::ByHand;
    let (mut job, _) = scene.mkdir(1);
    scene.service.leave_doubts(POOL);
    assert!(scene.service.stays_in_doubt(&mut job, Some(&Err(Broken("the pool is suspended".into())))));
    assert!(scene.service.is_left(&job));
    let (mut later, _) = scene.mkdir(2);
    assert!(!scene.service.is_left(&later));
    scene.service.leave(&mut later);
}

/// WRITEs that waited for nothing were under way as a pool was taken up, and their answers went into the memory of replies behind the
/// look that forgets such ones: a repetition was told that it is done. When that was mended, answers about all other pools were
/// forgotten as well, and their clients' data was written twice.
#[test]
fn what_was_under_way_and_waited_for_nothing_is_forgotten_of_that_pool_alone() {
    for (taken_up, is_done_again) in [(POOL, true), (OTHER, false)] {
        let scene = Scene::new();
        let (tank, cred) = (&scene.exports.tank, Cred::root());
        let how = CreateHow::Guarded(SetAttr::default());
        let made = tank.create(OpCtx::of(&cred), tank.root(), b"f", &how);
        let file = made.result.unwrap().object;
        let write = || scene.begin(9, Procedure::Write, write_arguments(&scene.handle(file), 0, b"x", 0));
        let (mut job, step) = write();
        let (reply, status) = answer(step);
        assert_eq!(status, 0);
        scene.service.forget_unwaited_replies(taken_up);
        scene.service.finish(&mut job, &reply);
        let before = scene.changes();
        assert_eq!(answer(write().1).1, 0);
        assert_eq!(scene.changes() > before, is_done_again, "{taken_up:?}");
    }
}
