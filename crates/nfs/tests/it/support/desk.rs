//! A service without sockets: whatever host there is may ask it, from whatever port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use tally_base::Promise;
use tally_nfs::link::Link;
use tally_nfs::rpc::Reply;
use tally_nfs::service::{Service, Step};
use tally_nfs::xdr::Encoder;

use super::TestExports;
use super::client::{Answer, record};

pub struct Desk {
    pub service: Service,
    next_link: AtomicU64,
}

/// A connection to a [`Desk`]. It is closed when it is dropped.
pub struct Line<'a> {
    desk: &'a Desk,
    link: Arc<Link>,
    pub uid: u32,
    pub gids: Vec<u32>,
}

impl Desk {
    pub fn new(exports: &Arc<TestExports>) -> Self {
        Self { service: Service::new(exports.clone()), next_link: AtomicU64::new(1) }
    }

    /// A connection from there, of the superuser.
    pub fn line(&self, peer: SocketAddr) -> Line<'_> {
        let link = Arc::new(Link::new(self.next_link.fetch_add(1, Relaxed), peer));
        Line { desk: self, link, uid: 0, gids: vec![0] }
    }
}

impl Line<'_> {
    pub fn acting_as(mut self, uid: u32, gids: &[u32]) -> Self {
        self.uid = uid;
        self.gids = gids.to_vec();
        self
    }

    /// One transmission, and the reply's bytes.
    pub fn transmit(&self, xid: u32, program: (u32, u32), procedure: u32, arguments: Encoder) -> Vec<u8> {
        let record = record(xid, (self.uid, &self.gids), program, procedure, arguments);
        serve(&self.desk.service, &self.link, record)
    }

    /// One transmission, and its answer.
    pub fn call(&self, xid: u32, program: (u32, u32), procedure: u32, arguments: Encoder) -> Answer {
        let (answered, answer) = Answer::parse(self.transmit(xid, program, procedure, arguments).into());
        assert_eq!(answered, xid);
        answer
    }
}

/// Carries one record out, and gives its reply without the mark.
pub fn serve(service: &Service, link: &Arc<Link>, record: Vec<u8>) -> Vec<u8> {
    let mut job = service.open(record.into(), link, Instant::now()).expect("a call");
    let reply = match service.run(&mut job) {
        Step::Reply(reply) => reply,
        Step::Wait(promise) => {
            let fate = Promise::drive(&*promise).expect("nobody holds promises here");
            service.reply_after_wait(&mut job, fate)
        }
        Step::Again(_) | Step::Attached => panic!("nothing else is under way"),
    };
    assert!(service.finish(&mut job, &reply).is_empty(), "nobody else waits for it");
    bytes_of(&reply)
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.link.close();
    }
}

/// A reply's bytes behind its mark.
pub fn bytes_of(reply: &Reply) -> Vec<u8> {
    let mut slices = Vec::new();
    reply.slices(4, &mut slices);
    slices.iter().flat_map(|slice| slice.iter().copied()).collect()
}
