//! Requests whose answer is only a status: what a benchmark sends that a server should refuse, or a scan.

use anyhow::Result;

use super::{Attributes, Connection, Handle, Procedure};

impl Connection {
    /// Sends a GETATTR of any bytes that stand where a handle should, without waiting for the reply.
    pub fn send_getattr(&mut self, handle: &[u8]) -> Result<()> {
        self.call(Procedure::GetAttr);
        self.opaque(handle);
        self.send()
    }

    /// Sends a SETATTR of the mode without waiting for its reply.
    pub fn send_mode(&mut self, handle: &[u8], mode: u32) -> Result<()> {
        self.call(Procedure::SetAttr);
        self.opaque(handle);
        self.attributes(Attributes { mode: Some(mode), ..Attributes::default() });
        self.number(0);
        self.send()
    }

    /// The status of the reply that comes next.
    pub fn receive_status(&mut self) -> Result<u32> {
        self.receive()?.number()
    }

    /// NULL: what a request costs that does nothing.
    pub fn null(&mut self) -> Result<()> {
        self.call(Procedure::Null);
        self.send()?;
        self.receive().map(drop)
    }

    /// LOOKUP of a name that exists.
    pub fn lookup(&mut self, folder: &Handle, name: &str) -> Result<Handle> {
        self.call(Procedure::Lookup);
        self.opaque(&folder.0);
        self.opaque(name.as_bytes());
        let mut results = self.round_trip("LOOKUP", name)?;
        Ok(Handle(results.opaque()?.to_vec()))
    }
}
