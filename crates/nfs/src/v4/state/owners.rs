//! Owners of minor version 0: what each of them asks for is carried out once, and in its order (RFC 7530 §9.1.7 to §9.1.11; table D1, rules V18).
//!
//! OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE, and those that lock, bring a seqid: that of the owner's last one, plus one. An owner whom nobody knows begins
//! with any, and confirms then that it meant it: what it opens before cannot be used.
//!
//! ```text
//!  D1: the owner; the operation       │ the next  │ the last, the same │ the last, another │ any other
//!  ───────────────────────────────────┼───────────┼────────────────────┼───────────────────┼───────────
//!  a  one of its is under way; any    │ BAD_SEQID │ DELAY (*)          │ BAD_SEQID         │ BAD_SEQID
//!  b  not known; OPEN                 │ New       │ New                │ New               │ New
//!  c  not known; another              │ BAD_SEQID │ BAD_SEQID          │ BAD_SEQID         │ BAD_SEQID
//!  d  not confirmed; OPEN             │ Anew      │ Replay             │ Anew              │ Anew
//!  e  not confirmed; OPEN_CONFIRM     │ New       │ Replay             │ BAD_SEQID         │ BAD_SEQID
//!  f  not confirmed; another          │ BAD_STATEID, whatever the seqid
//!  g  confirmed; any                  │ New       │ Replay             │ BAD_SEQID         │ BAD_SEQID
//!
//!  (*) of what is under way: for this row that is the last.
//! ```
//!
//! *Replay* gives the bytes of the first results, which are kept up to [`KEPT_BYTES_MAX`] (rules V17); if there are none, as the request was broken off, it is
//! SERVERFAULT. *Anew*: a client that does not confirm has forgotten what it opened, and that goes. The same and another are told apart by a
//! fingerprint of what was asked.
//!
//! An error that says that the operation was not looked at moves nothing on ([`moves`]): its seqid is the next one's, and the last results stay.

use super::bounds::KEPT_BYTES_MAX;
use crate::v4::status::Status;

/// Which operation brings a seqid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought {
    /// OPEN.
    Open,
    /// OPEN_CONFIRM.
    Confirm,
    /// Any other.
    Other,
}

/// What becomes of an operation: a cell of D1 that is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<'a> {
    /// It is to be carried out, and ended then.
    New,
    /// The same, and what the owner has open goes before.
    Anew,
    /// It was carried out, with these results.
    Replay(&'a [u8]),
    /// It was broken off: SERVERFAULT.
    Faulted,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug)]
pub enum Ended<'a> {
    /// With a status, and with results as they were sent.
    Done(Status, &'a [u8]),
    /// Nobody knows.
    BrokenOff,
}

/// What of D1 is decided without the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    New,
    Anew,
    Replay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    seqid: u32,
    fingerprint: u64,
}

/// Where an owner is in its order.
#[derive(Debug, Default)]
pub struct OwnerOrder {
    last: Option<(Asked, Option<Box<[u8]>>)>,
    under_way: Option<Asked>,
    is_confirmed: bool,
}

impl OwnerOrder {
    /// An operation comes. What is new has to be ended.
    pub fn begin(&mut self, brought: Brought, seqid: u32, fingerprint: u64) -> Result<Turn<'_>, Status> {
        let asked = Asked { seqid, fingerprint };
        let turn = match self.look(brought, asked)? {
            Row::New => Turn::New,
            Row::Anew => Turn::Anew,
            Row::Replay => {
                let results = self.last.as_ref().and_then(|(_, results)| results.as_deref());
                return Ok(results.map_or(Turn::Faulted, Turn::Replay));
            }
        };
        self.under_way = Some(asked);
        Ok(turn)
    }

    /// Table D1.
    fn look(&self, brought: Brought, asked: Asked) -> Result<Row, Status> {
        if let Some(under_way) = self.under_way {
            return Err(if asked == under_way { Status::Delay } else { Status::BadSeqid });
        }
        let Some((last, _)) = &self.last else {
            return if brought == Brought::Open { Ok(Row::New) } else { Err(Status::BadSeqid) };
        };
        match (self.is_confirmed, brought) {
            (false, Brought::Other) => Err(Status::BadStateid),
            _ if asked == *last => Ok(Row::Replay),
            (false, Brought::Open) => Ok(Row::Anew),
            _ if asked.seqid == last.seqid.wrapping_add(1) => Ok(Row::New),
            _ => Err(Status::BadSeqid),
        }
    }

    /// What is under way has ended.
    pub fn end(&mut self, ended: Ended<'_>) {
        let asked = self.under_way.take().expect("what is ended was begun");
        let results = match ended {
            Ended::Done(status, _) if !moves(status) => return,
            Ended::Done(_, results) if results.len() <= KEPT_BYTES_MAX => Some(results.into()),
            Ended::Done(..) | Ended::BrokenOff => None,
        };
        self.last = Some((asked, results));
    }

    /// OPEN_CONFIRM was carried out.
    pub fn confirm(&mut self) {
        self.is_confirmed = true;
    }

    /// Whether it has confirmed that it meant its first OPEN; if not, what it has open cannot be used, and OPEN asks for it.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// Whether nothing of it was ever carried out: who keeps it needs not.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.last.is_none() && self.under_way.is_none()
    }

    /// What is kept of it, bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.last.as_ref().and_then(|(_, results)| results.as_deref()).map_or(0, <[u8]>::len)
    }
}

/// Whether an operation that ended so was one of its owner's (RFC 7530 §9.1.7; MOVED is never said here).
#[must_use]
pub fn moves(status: Status) -> bool {
    !matches!(
        status,
        Status::StaleClientId
            | Status::StaleStateid
            | Status::BadStateid
            | Status::BadSeqid
            | Status::BadXdr
            | Status::Resource
            | Status::NoFileHandle
    )
}

#[cfg(test)]
mod tests;
