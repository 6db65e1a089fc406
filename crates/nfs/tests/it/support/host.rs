//! Hosts that lock by NLM, call by call and without a socket.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Instant;

use bytes::Bytes;
use tally_base::Kept;
use tally_nfs::handle::Handle;
use tally_nfs::link::Link;
use tally_nfs::service::{DrawsStart, Job, Service, Step};
use tally_nfs::v4::{Heard, HostCall};
use tally_nfs::xdr::{Decoder, Encoder};
use tally_vfs::{Cred, Identity, Names, ObjectRef};

use super::client::record;
use super::desk::bytes_of;
use super::scene::Scene;
use super::{KEY, POOL, TestExports};

pub const NLM: (u32, u32) = (100_021, 4);
pub const NSM: (u32, u32) = (100_024, 1);
pub const TEST: u32 = 1;
pub const LOCK: u32 = 2;
pub const CANCEL: u32 = 3;
pub const UNLOCK: u32 = 4;
pub const GRANTED: u32 = 0;
pub const DENIED: u32 = 1;
pub const NOLOCKS: u32 = 2;
pub const BLOCKED: u32 = 3;
pub const GRACE: u32 = 4;
pub const READ_ONLY: u32 = 6;
pub const STALE: u32 = 7;
pub const TOO_BIG: u32 = 8;
pub const FAILED: u32 = 9;

pub fn scene() -> Scene {
    let scene = Scene { minor: 1, ..Scene::new() };
    scene.exports.keep_clients();
    locking(scene)
}

/// The names that it says it has.
pub const NAMES: [&str; 2] = ["server.example", "server"];

/// Its starts have the numbers 5, 7, 9, …
pub fn numbers() -> DrawsStart {
    let next = AtomicU32::new(5);
    Box::new(move || Ok(next.fetch_add(2, SeqCst)))
}

pub fn locking(scene: Scene) -> Scene {
    let service = Service::new(scene.exports.clone()).speaking_4().locking_for_3(numbers(), &NAMES);
    Scene { service, ..scene }
}

/// Nothing is left but what is in the pool.
pub fn restart(scene: Scene) -> Scene {
    locking(scene.restart())
}

/// What was open or locked is over, as behind a restart.
pub fn restart_of(exports: &TestExports) {
    [&exports.tank, &exports.child].into_iter().for_each(|vfs| vfs.model.forget_opens());
}

/// A host at this address.
#[derive(Clone)]
pub struct Host {
    pub link: Arc<Link>,
    pub uid: u32,
    pub state: u32,
}

pub fn host(number: u8) -> Host {
    host_at(number, 700)
}

/// The same, that asks from this port.
pub fn host_at(number: u8, port: u16) -> Host {
    let link = Arc::new(Link::new(100 + u64::from(number), format!("10.0.0.{number}:{port}").parse().unwrap()));
    Host { link, uid: 0, state: 0 }
}

/// What is asked for.
#[derive(Clone)]
pub struct Ask {
    pub procedure: u32,
    pub file: Vec<u8>,
    pub process: u32,
    pub range: (u64, u64),
    pub is_exclusive: bool,
    pub blocks: bool,
    pub is_reclaim: bool,
}

pub fn ask(scene: &Scene, procedure: u32, object: ObjectRef) -> Ask {
    ask_of(&scene.exports, procedure, object)
}

/// The same of a file of the tank that these export.
pub fn ask_of(exports: &TestExports, procedure: u32, object: ObjectRef) -> Ask {
    let file = Handle { pool: POOL, dataset: exports.tank.dataset(), object }.seal(&KEY).as_slice().to_vec();
    Ask { procedure, file, process: 7, range: (0, 10), is_exclusive: true, blocks: false, is_reclaim: false }
}

impl Ask {
    pub fn words(&self, state: u32) -> Encoder {
        let mut words = Encoder::new();
        words.opaque(b"cookie");
        match self.procedure {
            TEST => drop(words.bool(self.is_exclusive)),
            LOCK | CANCEL => drop(words.bool(self.blocks).bool(self.is_exclusive)),
            _ => {}
        }
        words
            .opaque(b"host")
            .opaque(&self.file)
            .opaque(b"process")
            .u32(self.process)
            .u64(self.range.0)
            .u64(self.range.1);
        if self.procedure == LOCK {
            words.bool(self.is_reclaim).u32(state);
        }
        words
    }
}

impl Host {
    pub fn begin(&self, scene: &Scene, ask: &Ask) -> (Job, Step) {
        let mut job = self.comes(scene, ask);
        let step = scene.service.run(&mut job);
        (job, step)
    }

    /// It asks, and nobody has looked at that yet.
    pub fn comes(&self, scene: &Scene, ask: &Ask) -> Job {
        let record = record(1, (self.uid, &[self.uid]), NLM, ask.procedure, ask.words(self.state));
        scene.service.open(record.into(), &self.link, Instant::now()).expect("a call")
    }

    /// What it is told that waits for nothing, behind the cookie.
    pub fn told(&self, scene: &Scene, ask: &Ask) -> Vec<u32> {
        Self::goes_on(scene, self.comes(scene, ask))
    }

    /// The same of what has come before.
    pub fn goes_on(scene: &Scene, mut job: Job) -> Vec<u32> {
        let mut step = scene.service.run(&mut job);
        let reply = loop {
            match step {
                Step::Reply(reply) => break reply,
                Step::Wait(promise) => {
                    let outcome = promise.drive().unwrap_or_else(|| Ok(Kept::default()));
                    break scene.service.reply_after_wait(&mut job, outcome);
                }
                Step::Again(_) => step = scene.service.run(&mut job),
                Step::Attached => panic!("nothing was here before"),
            }
        };
        words_of(&bytes_of(&reply).into())
    }

    pub fn says(&self, scene: &Scene, ask: &Ask) -> u32 {
        self.told(scene, ask)[0]
    }

    /// It says that it has nothing any more.
    pub fn frees_all(&self, scene: &Scene) {
        let mut words = Encoder::new();
        words.opaque(b"host").u32(0);
        let record = record(1, (self.uid, &[self.uid]), NLM, 23, words);
        let mut job = scene.service.open(record.into(), &self.link, Instant::now()).expect("a call");
        assert!(matches!(scene.service.run(&mut job), Step::Reply(_)));
    }

    /// It says by a datagram that it has started anew.
    pub fn notifies(&self, scene: &Scene, state: u32) {
        let mut words = Encoder::new();
        words.opaque(b"whatever it calls itself").u32(state);
        let record = record(1, (0, &[0]), NSM, 6, words);
        assert!(scene.service.answer_datagram(record.into(), self.link.peer().ip()).is_some());
    }
}

/// What follows the cookie.
pub fn words_of(reply: &Bytes) -> Vec<u32> {
    let mut words = Decoder::new(reply, 0);
    assert_eq!([(); 6].map(|()| words.u32().unwrap())[1..], [1, 0, 0, 0, 0]);
    assert_eq!(words.opaque(32).unwrap(), b"cookie");
    std::iter::from_fn(|| words.u32().ok()).collect()
}

/// What a host says to GRANTED.
pub fn answers(stat: u32) -> Heard {
    let mut words = Encoder::new();
    words.opaque(b"cookie").u32(stat);
    Heard::Results(words.into_vec().into())
}

pub fn next_call(scene: &Scene) -> Option<HostCall> {
    scene.service.look_after_hosts();
    scene.service.next_host_call()
}

/// The next call, which is GRANTED to that one.
pub fn calls(scene: &Scene, host: &Host) -> HostCall {
    let call = next_call(scene).expect("GRANTED");
    assert_eq!((call.to, call.program, call.procedure), (host.link.peer().ip(), 100_021, 5));
    call
}

/// A notice: to whom, by which of our names, and by which number.
pub fn notice(call: &HostCall) -> (IpAddr, String, u32) {
    assert_eq!((call.program, call.procedure, call.is_datagram), (100_024, 6, true));
    let mut words = Decoder::new(&call.arguments, 0);
    let name = String::from_utf8(words.opaque(64).unwrap().to_vec()).unwrap();
    (call.to, name, words.u32().unwrap())
}

/// All that is to be told now, each of which is heard.
pub fn notices(scene: &Scene) -> Vec<(IpAddr, String, u32)> {
    let calls = std::iter::from_fn(|| {
        let call = next_call(scene)?;
        scene.service.host_call_done(&call, &Heard::Results(Bytes::new()));
        Some(notice(&call))
    });
    calls.collect()
}

/// The hosts in the pool's list.
pub fn listed(scene: &Scene) -> Vec<String> {
    let clients = scene.exports.keep_clients();
    let page = clients.readdir(&Cred::root(), clients.root(), 0, 100, false).unwrap();
    let names = page.entries.iter().map(|entry| String::from_utf8(entry.name.to_vec()).unwrap());
    names.filter(|name| name.starts_with("n-")).collect()
}
