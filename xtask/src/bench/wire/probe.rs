//! Requests whose answer is only a status: what a benchmark sends that a server should refuse, or a scan.

use anyhow::{Context, Result, ensure};

use super::{Attributes, Connection, Handle, NFS_PROGRAM, Procedure};

impl Connection {
    /// Sends a GETATTR of any bytes that stand where a handle should, without waiting for the reply.
    pub(crate) fn send_getattr(&mut self, handle: &[u8]) -> Result<()> {
        self.begin(NFS_PROGRAM, Procedure::GetAttr as u32);
        self.opaque(handle);
        self.send()
    }

    /// Sends a SETATTR of the mode without waiting for its reply.
    pub(crate) fn send_mode(&mut self, handle: &[u8], mode: u32) -> Result<()> {
        self.begin(NFS_PROGRAM, Procedure::SetAttr as u32);
        self.opaque(handle);
        self.attributes(Attributes { mode: Some(mode), ..Attributes::default() });
        self.number(0);
        self.send()
    }

    /// The status of the reply that comes next.
    pub(crate) fn receive_status(&mut self) -> Result<u32> {
        self.receive()?.number()
    }

    /// LOOKUP of a name that exists.
    pub(crate) fn lookup(&mut self, folder: &Handle, name: &str) -> Result<Handle> {
        self.begin(NFS_PROGRAM, Procedure::Lookup as u32);
        self.opaque(&folder.0);
        self.opaque(name.as_bytes());
        let mut results = self.round_trip("LOOKUP", name)?;
        Ok(Handle(results.opaque()?.to_vec()))
    }

    /// READDIRPLUS of a whole directory; gives the number of entries that came with attributes and handle, those
    /// for the directory itself and its parent included.
    pub(crate) fn list(&mut self, folder: &Handle) -> Result<u64> {
        let (mut cookie, mut verifier, mut entries) = (0, 0, 0);
        loop {
            self.begin(NFS_PROGRAM, Procedure::ReadDirPlus as u32);
            self.opaque(&folder.0);
            self.long(cookie);
            self.long(verifier);
            self.number(LISTING_BYTES);
            self.number(LISTING_BYTES);
            let mut results = self.round_trip("READDIRPLUS", "")?;
            results.skip_attributes()?;
            verifier = results.long()?;
            let before = entries;
            while results.number()? == 1 {
                let _object = results.long()?;
                let _name = results.opaque()?;
                cookie = results.long()?;
                ensure!(results.number()? == 1, "an entry without attributes");
                results.take(84)?;
                if results.number()? == 1 {
                    results.opaque()?;
                }
                entries += 1;
            }
            if results.number().context("READDIRPLUS ends without saying whether there is more")? == 1 {
                return Ok(entries);
            }
            ensure!(entries > before, "READDIRPLUS gives nothing and is not at the end");
        }
    }
}

/// Bytes that a reply to READDIRPLUS may take: what Linux asks for.
const LISTING_BYTES: u32 = 1 << 20;
