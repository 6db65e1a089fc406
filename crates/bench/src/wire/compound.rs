//! COMPOUND of NFSv4, whose operations somebody else encodes and decodes.

use anyhow::Result;

use super::{Connection, NFS_PROGRAM};

const VERSION_4: u32 = 4;
const COMPOUND: u32 = 1;

impl Connection {
    /// By which the server knows the last request.
    #[must_use]
    pub fn xid(&self) -> u32 {
        self.xid
    }

    /// The next request is one that was sent before with this xid, over another connection.
    pub fn ask_as(&mut self, xid: u32) {
        self.xid = xid.wrapping_sub(1);
    }

    /// Sends `COMPOUND4args` as they are encoded, and gives what is encoded of `COMPOUND4res`.
    pub fn compound(&mut self, arguments: &[u8]) -> Result<&[u8]> {
        self.begin(NFS_PROGRAM, VERSION_4, COMPOUND);
        self.request.extend_from_slice(arguments);
        self.send()?;
        Ok(self.receive()?.rest())
    }
}
