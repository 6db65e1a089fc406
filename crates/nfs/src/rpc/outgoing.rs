//! Calls that we make, over connections that others have opened: what a session's backchannel goes over (RFC 8881 §2.10.3.1).
//!
//! ```text
//!  byte 0      4     8      12       16        20        24          28
//!  ┌──────┬─────┬──────┬────────┬─────────┬─────────┬───────────┬────────────┬────────────────┬──────────
//!  │ mark │ xid │ CALL │ rpc: 2 │ program │ version │ procedure │ credential │ verifier: 0, 0 │ arguments
//!  └──────┴─────┴──────┴────────┴─────────┴─────────┴───────────┴────────────┴────────────────┴──────────
//! ```
//!
//! A connection carries both directions, and what arrives is told apart by the word behind the xid. A reply counts for a call that was made on that very connection, by its
//! xid (rules V33); all others are passed over, and so many of them are no mistake any more ([`UNMATCHED_MAX`]).

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::Mutex;

use super::reply::Reply;
use crate::xdr::{Decoder, Encoder, Garbage};

const CALL: u32 = 0;
const REPLY: u32 = 1;
const RPC_VERSION: u32 = 2;
const AUTH_NONE: u32 = 0;
const AUTH_SYS: u32 = 1;
/// Longest verifier of a reply (RFC 5531 §8.2).
const VERIFIER_BYTES_MAX: usize = 400;

/// Replies to nothing after which a connection is closed.
pub const UNMATCHED_MAX: u32 = 10;
/// Most calls of a connection that wait for their replies, with those whose time is over: such a one may still be answered.
const WAITING_MAX: usize = 1024;

/// As whom we call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// AUTH_NONE.
    Nobody,
    /// AUTH_SYS, with this body.
    Unix(Bytes),
}

impl Caller {
    fn encode(&self, words: &mut Encoder) {
        match self {
            Self::Nobody => words.u32(AUTH_NONE).u32(0),
            Self::Unix(body) => words.u32(AUTH_SYS).opaque(body),
        };
    }
}

/// A call that is to be made, without its xid: that is the connection's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Outgoing {
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    pub caller: Caller,
    pub arguments: Bytes,
}

impl Outgoing {
    fn encode(&self, xid: u32) -> Reply {
        let mut words = Encoder::with_capacity(64 + self.arguments.len());
        words.u32(xid).u32(CALL).u32(RPC_VERSION).u32(self.program).u32(self.version).u32(self.procedure);
        self.caller.encode(&mut words);
        words.u32(AUTH_NONE).u32(0).raw(&self.arguments);
        Reply::of_call(words)
    }
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returned {
    /// It was carried out, with these results.
    Results(Bytes),
    /// It was refused before anything was carried out.
    Refused,
    /// What came is no reply by any rule.
    Garbage,
}

/// Whether a record is a reply, and not a call.
#[must_use]
pub fn is_reply(record: &Bytes) -> bool {
    let mut words = Decoder::new(record, 4);
    words.u32() == Ok(REPLY)
}

/// A record that is a reply: its xid, and what it says.
fn parse(record: &Bytes) -> Result<(u32, Returned), Garbage> {
    let mut words = Decoder::new(record, 0);
    let (xid, _) = (words.u32()?, words.u32()?);
    Ok((xid, returned(&mut words, record).unwrap_or(Returned::Garbage)))
}

fn returned(words: &mut Decoder<'_>, record: &Bytes) -> Result<Returned, Garbage> {
    match words.u32()? {
        0 => {
            let (_flavor, _verifier) = (words.u32()?, words.opaque(VERIFIER_BYTES_MAX)?);
            match words.u32()? {
                0 => Ok(Returned::Results(record.slice(words.position()..))),
                1..=5 => Ok(Returned::Refused),
                _ => Err(Garbage),
            }
        }
        1 => Ok(Returned::Refused),
        _ => Err(Garbage),
    }
}

/// What a reply is to the calls of its connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Matched<T> {
    /// That of this call.
    With(T, Returned),
    /// Of none.
    Nothing {
        /// There were too many of those.
        is_enough: bool,
    },
}

/// The calls of one connection that wait for their replies, each with what its maker knows it by.
#[derive(Debug)]
pub struct Calls<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    next_xid: u32,
    waiting: HashMap<u32, T>,
    unmatched: u32,
    is_closed: bool,
}

impl<T> Calls<T> {
    /// None yet. The first gets this xid.
    #[must_use]
    pub fn numbered_from(next_xid: u32) -> Self {
        Self { state: Mutex::new(State { next_xid, waiting: HashMap::new(), unmatched: 0, is_closed: false }) }
    }

    /// A call begins to wait: what is to be sent. There is no room for more, or the connection is closed: gives back by what it is known.
    pub fn begin(&self, outgoing: &Outgoing, known_by: T) -> Result<Reply, T> {
        let mut state = self.state.lock();
        if state.is_closed || state.waiting.len() >= WAITING_MAX {
            return Err(known_by);
        }
        while state.waiting.contains_key(&state.next_xid) {
            state.next_xid = state.next_xid.wrapping_add(1);
        }
        let xid = state.next_xid;
        state.next_xid = xid.wrapping_add(1);
        state.waiting.insert(xid, known_by);
        Ok(outgoing.encode(xid))
    }

    /// A reply came.
    pub fn returned(&self, record: &Bytes) -> Matched<T> {
        let mut state = self.state.lock();
        if let Ok((xid, returned)) = parse(record)
            && let Some(known_by) = state.waiting.remove(&xid)
        {
            return Matched::With(known_by, returned);
        }
        state.unmatched += 1;
        Matched::Nothing { is_enough: state.unmatched >= UNMATCHED_MAX }
    }

    /// The connection is closed: what waited, and nothing begins to any more.
    pub fn close(&self) -> Vec<T> {
        let mut state = self.state.lock();
        state.is_closed = true;
        std::mem::take(&mut state.waiting).into_values().collect()
    }
}

#[cfg(test)]
mod tests;
