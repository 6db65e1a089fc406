//! The lock manager's protocol, version 4 (X/Open XNFS; offsets of 64 bits, as NFSv3 has them), and the status monitor's (NSM), by which hosts tell each other that they have started anew.
//!
//! ```text
//!  wire        calls and answers                   hosts     who has anything, by which number     (all of it a state machine:
//!  waiting     who waits for a range               notices   who is to be told of our start         no socket, thread or clock)
//!  overtaking  what was given up a moment ago
//! ```
//!
//! What each procedure does to files stands above, where the file systems and the clients of version 4 are (`v4/hosts.rs`): a range that a host locks here is one of the same table.
//!
//! A server that is not told to lock for NFSv3 says no to all of it. A client that mounts without `nolock` asks for a lock manager when a program takes its first lock. Where none
//! answers, Linux asks again every three seconds and for ever, and the program hangs in `fcntl`. So there is one in any case, on
//! the port of NFS, which has no locks to give then: the program gets ENOLCK at once, and can say so ([`refuse`]).
//!
//! | procedure | answer of one that has none | because |
//! |---|---|---|
//! | TEST, LOCK, NM_LOCK, SHARE | NLM4_DENIED_NOLOCKS | the client makes it ENOLCK |
//! | CANCEL | NLM4_DENIED | nothing waits here. On DENIED_NOLOCKS Linux would ask for the cancellation again and again |
//! | UNLOCK, UNSHARE | NLM4_GRANTED | what was never locked is not locked now; anything else is a fault in a client's log |
//! | GRANTED | NLM4_DENIED | it is what servers tell clients, and nobody here waits for a lock |
//! | FREE_ALL | nothing | it has no result, and there is nothing to free |
//! | the `_MSG` forms and their `_RES` | PROC_UNAVAIL | the answer to a `_MSG` is a call back to the client's own lock manager, from a connection that we would have to open. Linux and FreeBSD ask with the plain forms over TCP |
//!
//! Every answer of these repeats the call's cookie and needs nothing else of it, so nothing else is read.

pub mod hosts;
pub mod notices;
pub mod nsm;
pub mod overtaking;
pub mod waiting;
pub mod wire;

use crate::rpc::AcceptError;
use crate::xdr::{Decoder, Encoder, Garbage};

/// RPC program number.
pub const PROGRAM: u32 = 100_021;
/// The only version we have: 1 to 3 belong to NFSv2.
pub const VERSION: u32 = 4;

/// `nlm4_stats`, as far as we say them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Verdict {
    Granted = 0,
    Denied = 1,
    NoLocks = 2,
    Blocked = 3,
    /// Others may claim what is asked for, or it is to be asked for again for another reason.
    Grace = 4,
    Deadlock = 5,
    ReadOnly = 6,
    Stale = 7,
    TooBig = 8,
    Failed = 9,
}

/// The procedures that are answered, by their numbers.
pub mod procedure {
    #![allow(missing_docs)]
    pub const NULL: u32 = 0;
    pub const TEST: u32 = 1;
    pub const LOCK: u32 = 2;
    pub const CANCEL: u32 = 3;
    pub const UNLOCK: u32 = 4;
    pub const GRANTED: u32 = 5;
    pub const SHARE: u32 = 20;
    pub const UNSHARE: u32 = 21;
    pub const NM_LOCK: u32 = 22;
    pub const FREE_ALL: u32 = 23;
}

/// Says no to a procedure: the answer behind the RPC header, or why there is none.
pub fn refuse(number: u32, words: &mut Decoder<'_>) -> Result<Encoder, AcceptError> {
    if matches!(number, procedure::NULL | procedure::FREE_ALL) {
        return Ok(Encoder::new());
    }
    let (verdict, is_share) = wire::refusal(number).ok_or(AcceptError::ProcedureUnavailable)?;
    let cookie = wire::cookie(words).map_err(|Garbage| AcceptError::GarbageArguments)?;
    Ok(wire::answer(cookie, verdict, is_share))
}
