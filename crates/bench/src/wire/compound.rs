//! COMPOUND of NFSv4, whose operations somebody else encodes and decodes.

use anyhow::Result;

use super::{Connection, NFS_PROGRAM};

const VERSION_4: u32 = 4;
const COMPOUND: u32 = 1;

impl Connection {
    /// Sends `COMPOUND4args` as they are encoded, and gives what is encoded of `COMPOUND4res`.
    pub fn compound(&mut self, arguments: &[u8]) -> Result<&[u8]> {
        self.begin(NFS_PROGRAM, VERSION_4, COMPOUND);
        self.request.extend_from_slice(arguments);
        self.send()?;
        Ok(self.receive()?.rest())
    }
}
