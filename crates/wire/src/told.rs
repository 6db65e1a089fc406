//! What a compound was told, as far as those who sent it by [`ask`](crate::ask) look.

use crate::nfs4::{
    Compound4Res, Entry4, Getfh4Res, Lock4Res, Locku4Res, NfsResop4, Nfsstat4, Open4Res, Read4Res, Readdir4Res,
    Stateid4,
};
use crate::{Undecodable, decode};

/// What it was told.
#[derive(Clone, Debug)]
pub struct Told {
    /// Of the last operation that was begun.
    pub status: Nfsstat4,
    /// One of each, up to the first that is not OK.
    pub results: Vec<NfsResop4>,
}

impl Told {
    /// `COMPOUND4res`, to its last byte.
    pub fn of(results: &[u8]) -> Result<Self, Undecodable> {
        let reply: Compound4Res = decode(results)?;
        Ok(Self { status: reply.status, results: reply.resarray.0 })
    }

    /// Whether all of it was carried out.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.status == Nfsstat4::Nfs4Ok
    }

    /// Whether its first operation was refused, which in a session is SEQUENCE.
    #[must_use]
    pub fn is_refused_at_first(&self) -> bool {
        self.results.len() == 1 && !self.is_ok()
    }

    /// The first stateid that OPEN, LOCK or LOCKU gave.
    #[must_use]
    pub fn stateid(&self) -> Option<&Stateid4> {
        self.results.iter().find_map(|result| match result {
            NfsResop4::OpOpen(Open4Res::Nfs4Ok(ok)) => Some(&ok.stateid),
            NfsResop4::OpLock(Lock4Res::Nfs4Ok(ok)) => Some(&ok.lock_stateid),
            NfsResop4::OpLocku(Locku4Res::Nfs4Ok(stateid)) => Some(stateid),
            _ => None,
        })
    }

    /// What GETFH gave.
    #[must_use]
    pub fn handle(&self) -> Option<&[u8]> {
        self.results.iter().find_map(|result| match result {
            NfsResop4::OpGetfh(Getfh4Res::Nfs4Ok(ok)) => Some(&*ok.object),
            _ => None,
        })
    }

    /// What READ gave.
    #[must_use]
    pub fn data(&self) -> Option<&[u8]> {
        self.results.iter().find_map(|result| match result {
            NfsResop4::OpRead(Read4Res::Nfs4Ok(ok)) => Some(&*ok.data),
            _ => None,
        })
    }

    /// What READDIR gave: the names, and behind which cookie it goes on.
    #[must_use]
    pub fn names(&self) -> Option<(Vec<Vec<u8>>, Option<(u64, [u8; 8])>)> {
        self.results.iter().find_map(|result| match result {
            NfsResop4::OpReaddir(Readdir4Res::Nfs4Ok(ok)) => {
                let first = ok.reply.entries.as_deref();
                let entries: Vec<&Entry4> = std::iter::successors(first, |entry| entry.nextentry.as_deref()).collect();
                let more = entries.last().filter(|_| !ok.reply.eof).map(|last| (last.cookie, ok.cookieverf));
                Some((entries.iter().map(|entry| entry.name.to_vec()).collect(), more))
            }
            _ => None,
        })
    }
}
