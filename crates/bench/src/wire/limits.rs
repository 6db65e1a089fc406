//! FSINFO: how much one request may carry.

use anyhow::{Result, ensure};

use super::{Connection, Handle, Procedure};

/// Bytes that this client puts into one WRITE or asks of one READ at most: what Linux does.
const PIECE_BYTES_MAX: u32 = 1 << 20;

/// What a server asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one READ.
    pub read_bytes: u32,
    /// Bytes of one WRITE.
    pub write_bytes: u32,
}

impl Connection {
    /// FSINFO of an export's root, as far as it says how long READs and WRITEs may be.
    pub fn limits(&mut self, root: &Handle) -> Result<Limits> {
        self.call(Procedure::FsInfo);
        self.opaque(&root.0);
        let mut results = self.round_trip("FSINFO", "")?;
        results.skip_attributes()?;
        let (rtmax, _rtpref, _rtmult) = (results.number()?, results.number()?, results.number()?);
        let wtmax = results.number()?;
        ensure!(rtmax >= 4096 && wtmax >= 4096, "FSINFO allows READs of {rtmax} bytes and WRITEs of {wtmax}");
        Ok(Limits { read_bytes: rtmax.min(PIECE_BYTES_MAX), write_bytes: wtmax.min(PIECE_BYTES_MAX) })
    }
}
