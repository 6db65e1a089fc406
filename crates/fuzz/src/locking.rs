//! What hosts say that lock for version 3: calls of the lock manager and answers to ours, and what status monitors say by datagrams.
//!
//! Two hosts are there, each of which asks from a port of its superuser's and from another one. The input's letters say who asks for what, what is heard of the calls that come of that, and how time passes. At the end both say that they have
//! nothing any more: then a third one gets what they had, and nobody is to be called.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tally_base::Promise;
use tally_nfs::link::Link;
use tally_nfs::nlm::{self, procedure};
use tally_nfs::rpc::Refusal;
use tally_nfs::service::{Service, Step};
use tally_nfs::v4::Heard;
use tally_nfs::xdr::{Decoder, Encoder};

use crate::heap;
use crate::house::{FILE, House, TANK, check, handle, sign_handles};
use crate::input::Input;
use crate::rpc::record;

/// What two hosts have, and wait for.
const HEAP_BYTES: usize = 8 << 20;
const HEAP_FACTOR: usize = 64;
const STEPS_MAX: usize = 48;
/// How often a call goes on that somebody was in the way of, or that is held.
const ATTEMPTS_MAX: usize = 4;
/// In front of what it is told: the mark, and the header of a reply that was carried out.
const HEAD_BYTES: usize = 28;
const GRANTED: u32 = 0;

/// Whether a host has got a lock.
pub(crate) fn hosts(data: &[u8]) -> bool {
    let house = House::open();
    heap::at_most(HEAP_BYTES + HEAP_FACTOR * data.len(), || {
        let mut stage = Stage { service: house.locking_for_3(), now: Duration::ZERO, has_locked: false };
        let mut input = Input::new(data);
        for _ in 0..STEPS_MAX {
            if input.is_empty() {
                break;
            }
            stage.step(&mut input);
        }
        stage.end()
    })
}

/// Datagrams: whether one of them was a call that was carried out.
pub(crate) fn monitors(data: &[u8]) -> bool {
    let house = House::open();
    heap::at_most(HEAP_BYTES + HEAP_FACTOR * data.len(), || {
        let (service, mut input, mut is_carried_out) = (house.locking_for_3(), Input::new(data), false);
        while !input.is_empty() {
            let who = address(input.u8());
            let datagram = Bytes::copy_from_slice(input.blob());
            is_carried_out |= service.answer_datagram(datagram, who).is_some_and(|reply| check(&reply, false));
        }
        is_carried_out
    })
}

struct Stage {
    service: Service,
    now: Duration,
    has_locked: bool,
}

fn address(host: u8) -> IpAddr {
    Ipv6Addr::from_bits(0xfd01 << 112 | u128::from(host)).into()
}

fn link(host: u8, is_privileged: bool) -> Arc<Link> {
    let port = if is_privileged { 700 } else { 2049 };
    Arc::new(Link::new(u64::from(host) * 2 + u64::from(is_privileged), SocketAddr::new(address(host), port)))
}

impl Stage {
    fn step(&mut self, input: &mut Input<'_>) {
        let letter = input.u8();
        match letter & 7 {
            0..=3 => {
                let (link, number) = (link(letter >> 3 & 1, letter & 16 == 0), u32::from(input.u8()));
                let told = self.ask(&link, number, input.blob());
                self.has_locked |= number == procedure::LOCK && told == Some(GRANTED);
            }
            4 => self.hear(&Heard::Results(Bytes::copy_from_slice(input.blob()))),
            5 => self.hear(&Heard::Nothing),
            6 => self.hear(&Heard::NotCalled),
            _ => {
                self.now += Duration::from_secs(u64::from(input.u8()));
                self.service.look_at_clock(self.now);
            }
        }
    }

    /// This is heard of the next call to a host.
    fn hear(&self, heard: &Heard) {
        self.service.look_after_hosts();
        if let Some(call) = self.service.next_host_call() {
            self.service.host_call_done(&call, heard);
        }
    }

    /// Makes a call, as root. What is told, if it is told anything.
    fn ask(&self, link: &Arc<Link>, number: u32, arguments: &[u8]) -> Option<u32> {
        let mut arguments = arguments.to_vec();
        sign_handles(&mut arguments);
        let record = record(0, (1, nlm::PROGRAM, nlm::VERSION, number), &arguments);
        let mut job = match self.service.open(record, link, Instant::now()) {
            Ok(job) => job,
            Err(Refusal::Answer(_) | Refusal::NotACall) => return None,
        };
        for _ in 0..ATTEMPTS_MAX {
            let step = self.service.run(&mut job);
            assert_eq!(self.service.stats().panics.load(Ordering::Relaxed), 0, "a call panicked");
            let reply = match step {
                Step::Reply(reply) => reply,
                Step::Wait(promise) => {
                    let fate = Promise::drive(&*promise).expect("a model keeps its promises at once");
                    self.service.reply_after_wait(&mut job, fate)
                }
                Step::Again(_) => continue,
                Step::Attached => return None,
            };
            self.service.finish(&mut job, &reply);
            let is_carried_out = check(&reply, false);
            let mut pieces = Vec::new();
            reply.slices(0, &mut pieces);
            let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
            return is_carried_out.then(|| told(&bytes)).flatten();
        }
        // It is held, as its pool is away.
        None
    }

    /// Both go. Whether one had got something.
    fn end(self) -> bool {
        for host in 0..2 {
            let mut words = Encoder::new();
            words.opaque(b"host").u32(0);
            self.ask(&link(host, true), procedure::FREE_ALL, &words.into_vec());
        }
        assert_eq!(self.ask(&link(2, true), procedure::LOCK, &lock_of_all()), Some(GRANTED), "it is free");
        self.service.look_after_hosts();
        assert!(self.service.next_host_call().is_none(), "nobody is to be called");
        self.has_locked
    }
}

/// What follows the cookie in an answer.
fn told(reply: &[u8]) -> Option<u32> {
    let results = Bytes::copy_from_slice(reply.get(HEAD_BYTES..)?);
    let mut words = Decoder::new(&results, 0);
    words.opaque(1024).ok()?;
    words.u32().ok()
}

/// The arguments of a LOCK of a whole file.
fn lock_of_all() -> Vec<u8> {
    let mut words = Encoder::new();
    words.opaque(b"c").bool(false).bool(true);
    words.opaque(b"host").opaque(&handle(TANK, FILE)).opaque(b"process").u32(1).u64(0).u64(0);
    words.bool(false).u32(3);
    words.into_vec()
}
