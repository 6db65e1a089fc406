//! Owners of minor version 0: what each of them asks for is carried out once, and in its order (RFC 7530 §9.1.7 to §9.1.11; table D1, rules V18).
//!
//! OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE, and those that lock, bring a seqid: that of the owner's last one, plus one. An owner whom nobody knows begins
//! with any, and confirms then that it meant it: what it opens before cannot be used. An owner of locks is another one than that of opens, whatever its name,
//! and need not confirm anything: the LOCK by which it begins is of an open's owner as well, brings that one's seqid beside its own, and both go on.
//!
//! ```text
//!  D1: the owner; the operation       │ the next  │ the last, the same │ the last, another │ any other
//!  ───────────────────────────────────┼───────────┼────────────────────┼───────────────────┼───────────
//!  a  some of its are under way; any  │ BAD_SEQID │ DELAY (*)          │ BAD_SEQID         │ BAD_SEQID
//!  b  not known; OPEN                 │ New       │ New                │ New               │ New
//!  c  not known; another              │ BAD_SEQID │ BAD_SEQID          │ BAD_SEQID         │ BAD_SEQID
//!  d  not confirmed; OPEN             │ Anew      │ Replay             │ Anew              │ Anew
//!  e  not confirmed; OPEN_CONFIRM     │ New       │ Replay             │ BAD_SEQID         │ BAD_SEQID
//!  f  not confirmed; another          │ BAD_STATEID, whatever the seqid
//!  g  confirmed; any                  │ New       │ Replay             │ BAD_SEQID         │ BAD_SEQID
//!  h  not known, of locks; LOCK below an open       │ New, and it is confirmed
//!
//!  (*) of what is under way: for this row each of those is the last.
//! ```
//!
//! An owner of locks that has no stateid of any is not known (RFC 7530 §9.1.10): clients use the names of those anew that have given up all, and begin with any seqid.
//!
//! *Replay* gives the bytes of the first results, which are kept up to [`KEPT_BYTES_MAX`] (rules V17); if they were longer, or had to
//! make room, it is SERVERFAULT. *Anew*: a client that does not confirm has forgotten what it opened, and that goes. The same and another are told apart by a
//! fingerprint of what was asked.
//!
//! Under way is what one compound carries out, up to its reply: operations of one owner behind each other, which wait together. To that compound the rows from d
//! on apply, the one before being the last, and nothing is replayed.
//!
//! An error that says that the operation was not looked at moves nothing on ([`moves`]): its seqid is the next one's, and the last results stay.

use super::bounds::KEPT_BYTES_MAX;
use super::stateid::FileId;
use crate::v4::status::Status;

/// Which operation brings a seqid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought {
    /// OPEN.
    Open,
    /// OPEN_CONFIRM.
    Confirm,
    /// LOCK below an open, to the owner of locks. To the open's it is any other.
    Lock,
    /// Any other.
    Other,
}

impl Brought {
    /// Whether an owner may begin with it.
    pub(super) fn begins(self) -> bool {
        matches!(self, Self::Open | Self::Lock)
    }
}

/// What becomes of an operation: a cell of D1 that is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<'a> {
    /// It is to be carried out, and ended then.
    New,
    /// The same, and what the owner has open goes before.
    Anew,
    /// It was carried out, and told this.
    Replay(&'a Told),
    /// It was told more than is kept: SERVERFAULT.
    Faulted,
}

/// What an operation was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// How it ended.
    pub status: Status,
    /// What followed that, as it was sent.
    pub results: Box<[u8]>,
    /// The file that it left the compound at, if it was an OPEN: a replay leads there as well.
    pub file: Option<FileId>,
}

impl From<Status> for Told {
    /// Of what failed nothing follows.
    fn from(status: Status) -> Self {
        Self { status, results: Box::default(), file: None }
    }
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
    last: Option<(Asked, Option<Told>)>,
    /// What one compound carries out, in its order.
    under_way: Vec<Asked>,
    is_confirmed: bool,
}

impl OwnerOrder {
    /// An operation comes. What is new has to be ended, or withdrawn. `is_behind` the last one that is under way, if it is of the same compound.
    pub fn begin(
        &mut self,
        brought: Brought,
        seqid: u32,
        fingerprint: u64,
        is_behind: bool,
    ) -> Result<Turn<'_>, Status> {
        let asked = Asked { seqid, fingerprint };
        self.is_confirmed |= brought == Brought::Lock;
        let turn = match self.look(brought, asked, is_behind)? {
            Row::New => Turn::New,
            Row::Anew => Turn::Anew,
            Row::Replay => {
                let told = self.last.as_ref().and_then(|(_, told)| told.as_ref());
                return Ok(told.map_or(Turn::Faulted, Turn::Replay));
            }
        };
        self.under_way.push(asked);
        Ok(turn)
    }

    /// Table D1.
    fn look(&self, brought: Brought, asked: Asked, is_behind: bool) -> Result<Row, Status> {
        let (last, is_told) = match (self.under_way.last(), &self.last) {
            (Some(_), _) if !is_behind => {
                let is_same = self.under_way.contains(&asked);
                return Err(if is_same { Status::Delay } else { Status::BadSeqid });
            }
            (Some(newest), _) => (newest, false),
            (None, Some((last, _))) => (last, true),
            (None, None) => return if brought.begins() { Ok(Row::New) } else { Err(Status::BadSeqid) },
        };
        match (self.is_confirmed, brought) {
            (false, Brought::Other) => Err(Status::BadStateid),
            _ if is_told && asked == *last => Ok(Row::Replay),
            (false, Brought::Open) => Ok(Row::Anew),
            _ if asked.seqid == last.seqid.wrapping_add(1) => Ok(Row::New),
            _ => Err(Status::BadSeqid),
        }
    }

    /// The first of what is under way has ended, and was told this.
    pub fn end(&mut self, told: Told) {
        assert!(!self.under_way.is_empty(), "what is ended was begun");
        let asked = self.under_way.remove(0);
        if moves(told.status) {
            self.last = Some((asked, (told.results.len() <= KEPT_BYTES_MAX).then_some(told)));
        }
    }

    /// Nobody knows whether what is under way was carried out, and it comes again: it is as if it had not come.
    pub fn withdraw(&mut self) {
        self.under_way.clear();
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
        self.last.is_none() && self.under_way.is_empty()
    }

    /// There is no room for what it was told last: that is as if it had been too long.
    pub fn keep_nothing(&mut self) {
        if let Some((_, told)) = &mut self.last {
            *told = None;
        }
    }

    /// What is kept of it, bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.last.as_ref().and_then(|(_, told)| told.as_ref()).map_or(0, |told| told.results.len())
    }

    /// How many are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }
}

/// Whether an operation that ended so was one of its owner's (RFC 7530 §9.1.7; MOVED is never said here). EXPIRED is said where a client is gone, with its
/// owners.
#[must_use]
pub fn moves(status: Status) -> bool {
    !matches!(
        status,
        Status::Expired
            | Status::StaleClientId
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
