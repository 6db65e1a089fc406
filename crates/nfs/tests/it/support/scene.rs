//! A service without a socket, and compounds of version 4 that a test carries out step by step.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tally_base::Fate;
use tally_nfs::handle::Handle;
use tally_nfs::link::Link;
use tally_nfs::rpc::Reply;
use tally_nfs::service::{Job, Service, Step};
use tally_nfs::{v3, v4};
use tally_vfs::{CreateHow, Cred, Identity, Names, ObjectRef, OpCtx, SetAttr};
use tally_wire::nfs4::Compound4Res;

use super::client::{Answer, record};
use super::compound::{Op, arguments, put, results};
use super::desk::bytes_of;
use super::gated::Promises;
use super::{KEY, POOL, TestExports};

/// A service, and a connection to it, without a socket.
pub struct Scene {
    /// The minor version of its compounds.
    pub minor: u32,
    pub exports: Arc<TestExports>,
    pub service: Service,
    pub link: Arc<Link>,
}

impl Scene {
    pub fn new() -> Self {
        let exports = TestExports::new();
        let link = Arc::new(Link::new(1, "127.0.0.1:700".parse().unwrap()));
        Self { minor: 0, service: Service::new(exports.clone()).speaking_4(), exports, link }
    }

    /// The same, before anybody has come, whose clients may say nothing for so long.
    pub fn leasing_for(self, lease: Duration) -> Self {
        Self { service: Service::new(self.exports.clone()).speaking_4_for(lease), ..self }
    }

    /// The server starts anew: nothing is left but what is in the pool.
    pub fn restart(self) -> Self {
        [&self.exports.tank, &self.exports.child].into_iter().for_each(|vfs| vfs.model.forget_opens());
        let link = Arc::new(Link::new(1, "127.0.0.1:700".parse().unwrap()));
        Self { service: Service::new(self.exports.clone()).speaking_4(), link, ..self }
    }

    pub fn put(&self, object: ObjectRef) -> Op {
        put(&Handle { pool: POOL, dataset: self.exports.tank.dataset(), object }.seal(&KEY))
    }

    pub fn put_tank(&self) -> Op {
        self.put(self.exports.tank.root())
    }

    pub fn begin(&self, xid: u32, ops: &[Op]) -> (Job, Step) {
        self.begin_on(&self.link, xid, ops)
    }

    pub fn begin_on(&self, link: &Arc<Link>, xid: u32, ops: &[Op]) -> (Job, Step) {
        self.begin_of(link, 0, xid, ops)
    }

    /// One of this user's, and of the group with its number.
    pub fn begin_as(&self, uid: u32, xid: u32, ops: &[Op]) -> (Job, Step) {
        self.begin_of(&self.link, uid, xid, ops)
    }

    fn begin_of(&self, link: &Arc<Link>, uid: u32, xid: u32, ops: &[Op]) -> (Job, Step) {
        let record = record(xid, (uid, &[uid]), (v3::PROGRAM, v4::VERSION), 1, arguments(self.minor, ops));
        let mut job = self.service.open(record.into(), link, Instant::now()).expect("a call");
        let step = self.service.run(&mut job);
        (job, step)
    }

    /// The reply of one that waits for nothing.
    pub fn run(&self, xid: u32, ops: &[Op]) -> Compound4Res {
        let (mut job, step) = self.begin(xid, ops);
        self.end(&mut job, step, ops)
    }

    pub fn end(&self, job: &mut Job, step: Step, ops: &[Op]) -> Compound4Res {
        let Step::Reply(reply) = step else { panic!("it waits, or is none") };
        self.service.finish(job, &reply);
        read_reply(&reply, ops)
    }

    pub fn changes(&self) -> usize {
        self.exports.tank.changes.load(SeqCst)
    }

    pub fn file(&self, name: &[u8]) -> ObjectRef {
        let (tank, cred) = (&self.exports.tank.model, Cred::root());
        let how = CreateHow::Guarded(SetAttr { mode: Some(0o644), ..SetAttr::default() });
        tank.create(OpCtx::of(&cred), tank.root(), name, &how).result.unwrap().object
    }

    pub fn file_named(&self, name: &[u8]) -> ObjectRef {
        self.exports.tank.lookup(&Cred::root(), self.exports.tank.root(), name).unwrap().0.object
    }

    pub fn has(&self, name: &[u8]) -> bool {
        self.exports.tank.lookup(&Cred::root(), self.exports.tank.root(), name).is_ok()
    }

    /// Time passes by a clock that the test moves: half a second at a time, as the server looks at it.
    pub fn pass(&self, clock: &mut Duration, time: Duration) {
        let end = *clock + time;
        while *clock < end {
            *clock += Duration::from_millis(500);
            self.service.look_at_clock(*clock);
        }
    }

    pub fn hold(&self) {
        *self.exports.tank.promises.lock() = Promises::ByHand;
    }
}

pub fn read_reply(reply: &Reply, ops: &[Op]) -> Compound4Res {
    results(&Answer::parse(bytes_of(reply).into()).1, ops)
}

/// Waits for what a step waits for, and gives what became of it.
pub fn fate(step: Step) -> mpsc::Receiver<Fate> {
    let (Step::Wait(promise) | Step::Again(promise)) = step else { panic!("it waits for nothing") };
    let (told, fate) = mpsc::channel();
    promise.then(Box::new(move |outcome| _ = told.send(outcome)));
    fate
}
