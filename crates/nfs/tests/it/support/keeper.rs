//! Clients that can be called, over a scene: what they are called for is taken from the service, and answered as the test says, by a clock that it moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tally_nfs::handle::Handle;
use tally_nfs::rpc::Returned;
use tally_nfs::service::Step;
use tally_nfs::v3::{self, Procedure};
use tally_nfs::v4::state::CallId;
use tally_nfs::xdr::Encoder;
use tally_vfs::{Identity, ObjectRef};
use tally_wire::nfs4::{
    CallbackSecParms4, CbCompound4Args, CbCompound4Res, CbRecall4Args, CbRecall4Res, CbSequence4Args, CbSequence4Res,
    CbSequence4Resok, Compound4Res, CreateSession4Res, NfsCbArgop4, NfsCbResop4, NfsResop4, Nfsstat4, Open4Resok,
    Sessionid4, Stateid4,
};
use tally_wire::{decode, encode};

use super::called::CALLS_BACK;
use super::client::{Answer, record};
use super::compound::Op;
use super::delegates::{delegated_to_write, opened};
use super::desk::bytes_of;
use super::opener::{Opener, READ, WRITE, open};
use super::scene::{Scene, fate, read_reply};
use super::session::Newcomer;
use super::{KEY, POOL};

/// Who can be called.
pub fn called(name: &[u8]) -> Newcomer<'_> {
    Newcomer { flags: CALLS_BACK, parms: &[CallbackSecParms4::AuthNone], ..Newcomer::named(name) }
}

/// A client that can be called.
pub fn client(scene: &Arc<Scene>, name: &str, number: u64) -> Opener {
    let mut client = Opener::beside(scene, name, number);
    let id = client.client;
    let made = client.send(&[called(name.as_bytes()).session(id, 2)]);
    let Some(NfsResop4::OpCreateSession(CreateSession4Res::Nfs4Ok(created))) = made.resarray.0.last() else {
        panic!("{made:?}")
    };
    client.session = created.csr_sessionid;
    client.next = 1;
    client
}

/// Carries a compound in the tank to its end, however often it waits.
pub fn run(client: &mut Opener, ops: &[Op]) -> Compound4Res {
    static XID: AtomicU32 = AtomicU32::new(1 << 20);
    let scene = client.scene.clone();
    let ops = [&[client.sequence(), scene.put_tank()], ops].concat();
    let (mut job, mut step) = scene.begin_on(&client.link, XID.fetch_add(1, SeqCst), &ops);
    loop {
        let reply = match step {
            Step::Reply(reply) => reply,
            Step::Again(promise) => {
                let over = fate(Step::Again(promise));
                while over.try_recv().is_err() {
                    std::thread::sleep(Duration::from_millis(10));
                    scene.service.end_parking();
                }
                step = scene.service.run(&mut job);
                continue;
            }
            step @ Step::Wait(_) => {
                let outcome = fate(step).recv_timeout(Duration::from_secs(5)).expect("it is kept");
                scene.service.reply_after_wait(&mut job, outcome)
            }
            Step::Attached => panic!("it is the first of its kind"),
        };
        scene.service.finish(&mut job, &reply);
        return read_reply(&reply, &ops);
    }
}

pub fn status(client: &mut Opener, ops: &[Op]) -> Nfsstat4 {
    run(client, ops).status
}

/// The next call: of which session, and what for.
pub fn next_call(scene: &Scene) -> Option<(CallId, CbSequence4Args, NfsCbArgop4)> {
    let (_, id, outgoing) = scene.service.next_call()?;
    let CbCompound4Args { argarray, .. } = decode(&outgoing.arguments).expect("as RFC 8881 has it");
    let [NfsCbArgop4::OpCbSequence(sequence), asked] = &argarray[..] else { panic!() };
    Some((id, sequence.clone(), asked.clone()))
}

/// The next one, which is a recall.
pub fn call(scene: &Scene) -> Option<(CallId, CbSequence4Args, CbRecall4Args)> {
    let (id, sequence, asked) = next_call(scene)?;
    let NfsCbArgop4::OpCbRecall(recall) = asked else { panic!("{asked:?}") };
    Some((id, sequence, recall))
}

pub fn answer(scene: &Scene, (id, asked, _): &(CallId, CbSequence4Args, CbRecall4Args), status: Nfsstat4) {
    answer_with(scene, (id, asked), status, NfsCbResop4::OpCbRecall(CbRecall4Res { status }));
}

/// Answers a call with this result behind CB_SEQUENCE's.
pub fn answer_with(scene: &Scene, (id, asked): (&CallId, &CbSequence4Args), status: Nfsstat4, told: NfsCbResop4) {
    let sequence = CbSequence4Res::Nfs4Ok(CbSequence4Resok {
        csr_sessionid: asked.csa_sessionid,
        csr_sequenceid: asked.csa_sequenceid,
        csr_slotid: asked.csa_slotid,
        csr_highest_slotid: 3,
        csr_target_highest_slotid: 3,
    });
    let all = vec![NfsCbResop4::OpCbSequence(sequence), told];
    let results = encode(&CbCompound4Res { status, tag: b"".into(), resarray: all.into() });
    scene.service.call_returned(id, &Returned::Results(Bytes::from(results)));
}

/// Time passes, half a second at a time, as the server looks at it; these clients go on saying a word.
pub fn pass(scene: &Scene, clock: &mut Duration, time: Duration, alive: &mut [&mut Opener]) {
    let end = *clock + time;
    while *clock < end {
        *clock += Duration::from_millis(500);
        scene.service.look_at_clock(*clock);
        scene.service.look_after_waiters();
        if clock.as_millis().is_multiple_of(30_000) {
            alive.iter_mut().for_each(|client| _ = client.flags());
        }
    }
}

/// A session of a client that has not completed yet.
pub fn introduced(scene: &Scene, name: &[u8]) -> Sessionid4 {
    let mut xid = 0;
    let entered = called(name).enter(|ops| {
        xid += 1;
        scene.run(xid, ops)
    });
    entered.expect("it is let in").session
}

/// A pool that remembers its clients, with files "f" and "g".
pub fn written_scene() -> Arc<Scene> {
    let scene = Scene { minor: 2, ..Scene::new() };
    scene.exports.keep_clients();
    ["f", "g"].iter().for_each(|name| _ = scene.file(name.as_bytes()));
    Arc::new(scene)
}

/// Opens a file of the tank.
pub fn opens(client: &mut Opener, name: &[u8], access: u32) -> Open4Resok {
    opened(run(client, &[open(name, access, 0)]).resarray.0.pop()).expect("it is opened")
}

/// What an OPEN to write gives to keep.
pub fn keeps(client: &mut Opener, name: &[u8]) -> Stateid4 {
    delegated_to_write(&opens(client, name, READ | WRITE)).expect("nobody else has it").0
}

/// The status of a request of version 3, which waits as it has to.
pub fn plain(scene: &Scene, xid: u32, procedure: Procedure, arguments: Encoder) -> u32 {
    plainly(scene, xid, procedure, arguments).status
}

/// Its reply.
pub fn plainly(scene: &Scene, xid: u32, procedure: Procedure, arguments: Encoder) -> Answer {
    plainly_while(scene, xid, procedure, arguments, &mut || {})
}

/// Its reply, where this happens while it is parked.
pub fn plainly_while(
    scene: &Scene,
    xid: u32,
    procedure: Procedure,
    arguments: Encoder,
    happens: &mut dyn FnMut(),
) -> Answer {
    let record = record(xid, (0, &[0]), (v3::PROGRAM, v3::VERSION), procedure as u32, arguments);
    let mut job = scene.service.open(record.into(), &scene.link, Instant::now()).expect("a call");
    loop {
        match scene.service.run(&mut job) {
            Step::Reply(reply) => {
                scene.service.finish(&mut job, &reply);
                return Answer::parse(bytes_of(&reply).into()).1;
            }
            step @ Step::Again(_) => {
                let over = fate(step);
                happens();
                while over.try_recv().is_err() {
                    std::thread::sleep(Duration::from_millis(10));
                    scene.service.end_parking();
                }
            }
            Step::Wait(_) | Step::Attached => panic!("nothing waits for a disk here"),
        }
    }
}

/// By which version 3 knows an object of the tank.
pub fn handle(scene: &Scene, object: ObjectRef) -> Vec<u8> {
    Handle { pool: POOL, dataset: scene.exports.tank.dataset(), object }.seal(&KEY).as_slice().to_vec()
}
