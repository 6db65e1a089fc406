//! Replies: the few steps of XDR that they need, and why one may say no.

use anyhow::{Context, Result, bail, ensure};

use super::{Handle, REPLY_BYTES_MAX, Stable};

/// A request that was answered with a status other than OK.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{procedure} {name}{}is answered with {}", if name.is_empty() { "" } else { " " }, word(*status))]
pub struct Refused {
    /// The procedure.
    pub procedure: &'static str,
    /// Of what, where there is a name.
    pub name: String,
    /// The number that came instead of 0.
    pub status: u32,
}

/// Statuses that somebody here looks at.
#[allow(missing_docs)] // The names are those of RFC 1813.
pub mod status {
    pub const PERM: u32 = 1;
    pub const NOENT: u32 = 2;
    pub const ACCES: u32 = 13;
    pub const NOTSUPP: u32 = 10_004;
    pub const JUKEBOX: u32 = 10_008;
}

/// A status in words, with what may be done about it.
fn word(status: u32) -> String {
    let known = match status {
        status::PERM => "NFS3ERR_PERM: it takes another user",
        status::NOENT => "NFS3ERR_NOENT: there is no such name",
        5 => "NFS3ERR_IO: the server's disk failed",
        status::ACCES => "NFS3ERR_ACCES: not for this client or this user",
        17 => "NFS3ERR_EXIST: the name is taken",
        22 => "NFS3ERR_INVAL: the server does not understand the request",
        27 => "NFS3ERR_FBIG: the file would be too large",
        28 => "NFS3ERR_NOSPC: no space is left on the server",
        30 => "NFS3ERR_ROFS: the export is read-only",
        69 => "NFS3ERR_DQUOT: the quota is used up",
        70 => "NFS3ERR_STALE: what the handle named is gone",
        10_001 => "NFS3ERR_BADHANDLE: the server does not know its own handle",
        status::NOTSUPP => "NFS3ERR_NOTSUPP: the server does not have this procedure",
        10_006 => "NFS3ERR_SERVERFAULT: the server does not say why",
        status::JUKEBOX => "NFS3ERR_JUKEBOX: the server asks to try again later",
        other => return format!("status {other}"),
    };
    known.to_owned()
}

impl Stable {
    pub(super) fn parse(number: u32) -> Result<Self> {
        match number {
            0 => Ok(Self::Unstable),
            1 => Ok(Self::DataSync),
            2 => Ok(Self::FileSync),
            other => bail!("a stability of {other} in a reply to WRITE"),
        }
    }
}

/// What is left of a reply.
pub(super) struct Results<'a> {
    rest: &'a [u8],
}

impl<'a> Results<'a> {
    /// The results of a message that has to be a reply to an accepted call.
    pub(super) fn accepted(message: &'a [u8]) -> Result<Self> {
        let mut results = Self { rest: message };
        let (_xid, kind, denied) = (results.number()?, results.number()?, results.number()?);
        ensure!(kind == 1, "what came is no reply");
        ensure!(denied == 0, "the server does not take these credentials (AUTH_SYS)");
        let _flavor = results.number()?;
        results.opaque()?;
        match results.number()? {
            0 => Ok(results),
            1 => bail!("the service is not offered on this port"),
            2 => bail!("the service is offered in another version only"),
            other => bail!("the call is not understood (accept status {other})"),
        }
    }

    /// What nobody has looked at.
    pub(super) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).context("reply too short")?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn number(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.take(4)?.try_into()?))
    }

    pub(super) fn long(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.take(8)?.try_into()?))
    }

    pub(super) fn opaque(&mut self) -> Result<&'a [u8]> {
        let length = self.number()? as usize;
        ensure!(length <= REPLY_BYTES_MAX, "opaque of {length} bytes");
        let bytes = self.take(length)?;
        self.take(length.next_multiple_of(4) - length)?;
        Ok(bytes)
    }

    pub(super) fn status(&mut self, procedure: &'static str, name: &str) -> Result<()> {
        match self.number()? {
            0 => Ok(()),
            status => Err(Refused { procedure, name: name.to_owned(), status }.into()),
        }
    }

    pub(super) fn handle(&mut self) -> Result<Handle> {
        ensure!(self.number()? == 1, "the server gives no handle in its reply");
        Ok(Handle(self.opaque()?.to_vec()))
    }

    pub(super) fn skip_attributes(&mut self) -> Result<()> {
        if self.number()? == 1 {
            self.take(84)?;
        }
        Ok(())
    }

    pub(super) fn skip_wcc(&mut self) -> Result<()> {
        if self.number()? == 1 {
            self.take(24)?;
        }
        self.skip_attributes()
    }
}
