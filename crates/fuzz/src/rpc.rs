//! What a client may send: a stream of records, the arguments of NFSv3's procedures, of NFSv4's compounds, those of MOUNT's.

use bytes::Bytes;
use tally_nfs::rpc::{Assembler, RecordError};
use tally_nfs::xdr::Encoder;
use tally_nfs::{mount as mount_protocol, v3, v4};
use tally_wire::nfs4::Nfsstat4;

use crate::heap;
use crate::house::{House, Visit, sign_handles};
use crate::input::Input;
use crate::told::Told;

/// A record is copied once out of the stream, decoded in place and answered. A READ or a listing may ask for a large
/// answer with few bytes.
const HEAP_BYTES: usize = 4 << 20;
/// What each byte of the input may cost: it is fed twice, and a buffer may be eight times as large as what it holds.
const HEAP_FACTOR: usize = 64;
/// Most of a partial record that is received in advance ([`Assembler::direct`]).
const DIRECT_BYTES: usize = 32 << 10;

fn heap_bytes_max(data: &[u8]) -> usize {
    HEAP_BYTES + HEAP_FACTOR * data.len()
}

/// The stream of a connection. Its first byte tells in which pieces it arrives, and how it is received.
pub(crate) fn stream(data: &[u8]) -> bool {
    let house = House::open();
    heap::at_most(heap_bytes_max(data), || {
        let mut input = Input::new(data);
        let pace = input.u8();
        let mut stream = input.rest().to_vec();
        sign_handles(&mut stream);
        let whole = records(&stream, stream.len().max(1), false);
        let paced = records(&stream, usize::from(pace >> 1) + 1, pace & 1 == 1);
        assert_eq!(whole, paced, "the pieces in which a stream arrives make no difference");
        let visit = house.visit(2049);
        let mut is_served = false;
        for record in whole.0 {
            is_served |= visit.serve(record, false);
        }
        visit.leave();
        is_served
    })
}

/// The records of a stream that arrives in pieces of `step` bytes.
fn records(stream: &[u8], step: usize, is_direct: bool) -> (Vec<Bytes>, Result<(), RecordError>) {
    let mut assembler = Assembler::default();
    let mut found = Vec::new();
    let mut rest = stream;
    let mut partial_bytes = 0;
    while !rest.is_empty() {
        let mut count = step.min(rest.len());
        let found_before = found.len();
        let outcome = match assembler.direct().filter(|_| is_direct) {
            Some(buffer) => {
                count = count.min(buffer.capacity() - buffer.len());
                buffer.extend_from_slice(&rest[..count]);
                assembler.received(count, &mut found)
            }
            None => assembler.feed(&rest[..count], &mut found),
        };
        if outcome.is_err() {
            return (found, outcome);
        }
        rest = &rest[count..];
        partial_bytes = if found.len() > found_before { count } else { partial_bytes + count };
        let held = assembler.held_bytes();
        assert!(held <= 8 * partial_bytes + DIRECT_BYTES, "{held} bytes are held for {partial_bytes}");
    }
    (found, Ok(()))
}

/// Calls of NFSv3, one after the other on one connection: each is a procedure's number and its arguments.
pub(crate) fn nfs(data: &[u8]) -> bool {
    calls(data, v3::PROGRAM, v3::VERSION)
}

/// Compounds of NFSv4, one after the other on one connection: each is its arguments, in which words stand for what was told before ([`Told`]).
pub(crate) fn compound(data: &[u8]) -> bool {
    let house = House::open();
    heap::at_most(heap_bytes_max(data), || {
        let mut input = Input::new(data);
        let who = input.u8();
        let visit = house.visit(if who & 0x80 == 0 { 700 } else { 2049 });
        let (mut told, mut is_served) = (Told::default(), false);
        for xid in 0.. {
            if input.is_empty() {
                break;
            }
            let mut arguments = input.blob().to_vec();
            told.fill_in(&mut arguments);
            sign_handles(&mut arguments);
            let record = record(who, (xid, v3::PROGRAM, v4::VERSION, 1), &arguments);
            let results = visit.compound(record);
            is_served |= results.is_some_and(|results| told.learn(&results).status == Nfsstat4::Nfs4Ok);
        }
        visit.leave();
        is_served
    })
}

/// Calls of MOUNT.
pub(crate) fn mount(data: &[u8]) -> bool {
    calls(data, mount_protocol::PROGRAM, mount_protocol::VERSION)
}

fn calls(data: &[u8], program: u32, version: u32) -> bool {
    let house = House::open();
    heap::at_most(heap_bytes_max(data), || {
        let mut input = Input::new(data);
        let who = input.u8();
        let visit = house.visit(if who & 0x80 == 0 { 700 } else { 2049 });
        let mut is_served = false;
        for xid in 0.. {
            if input.is_empty() {
                break;
            }
            let procedure = u32::from(input.u8());
            is_served |= call(&visit, who, (xid, program, version, procedure), input.blob());
        }
        visit.leave();
        is_served
    })
}

fn call(visit: &Visit, who: u8, call: (u32, u32, u32, u32), arguments: &[u8]) -> bool {
    let mut arguments = arguments.to_vec();
    sign_handles(&mut arguments);
    visit.serve(record(who, call, &arguments), call.1 == v3::PROGRAM)
}

/// A call: xid, program, version and procedure, and its arguments.
pub(crate) fn record(who: u8, (xid, program, version, procedure): (u32, u32, u32, u32), arguments: &[u8]) -> Bytes {
    let mut words = Encoder::new();
    words.u32(xid).u32(0).u32(2).u32(program).u32(version).u32(procedure);
    credential(&mut words, who);
    words.u64(0).raw(arguments);
    words.into_vec().into()
}

/// The superuser, a user with groups, or nobody.
fn credential(words: &mut Encoder, who: u8) {
    let mut cred = Encoder::new();
    match who & 3 {
        0 => cred.u32(0).opaque(b"fuzz").u32(0).u32(0).u32(0),
        1 => cred.u32(0).opaque(b"fuzz").u32(1000).u32(1000).u32(2).u32(0).u32(1001),
        _ => {
            words.u32(0).u32(0);
            return;
        }
    };
    words.u32(1).opaque(&cred.into_vec());
}
