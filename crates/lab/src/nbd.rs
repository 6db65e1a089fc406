//! The network block device's protocol, as far as a disk needs it: the fixed newstyle greeting with the option
//! that every client knows (EXPORT_NAME; any other is refused and the client goes on to that one), then requests
//! with simple replies. All numbers are big-endian.
//!
//! ```text
//! request  0 magic 25609513 | 4 flags u16 (1 FUA) | 6 type u16 | 8 handle u64 | 16 offset u64 | 24 length u32 | data
//! reply    0 magic 67446698 | 4 error u32         | 8 handle u64                               | data
//! ```

use std::io::{Read, Write};

use anyhow::{Result, ensure};

const GREETING: &[u8; 16] = b"NBDMAGICIHAVEOPT";
const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

/// Both sides' flags: fixed newstyle, and no 124 zeros after the answer to EXPORT_NAME.
const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;
const ZEROES: usize = 124;

const OPTION_EXPORT_NAME: u32 = 1;
const OPTION_ABORT: u32 = 2;
const OPTION_DONE: u32 = 1;
const OPTION_UNSUPPORTED: u32 = 0x8000_0001;

const HAS_FLAGS: u16 = 1;
const SENDS_FLUSH: u16 = 1 << 2;
const SENDS_FUA: u16 = 1 << 3;

const COMMAND_READ: u16 = 0;
const COMMAND_WRITE: u16 = 1;
const COMMAND_DISCONNECT: u16 = 2;
const COMMAND_FLUSH: u16 = 3;
const COMMAND_FUA: u16 = 1;

/// The protocol's own limit for servers that state none; Linux stays far below it.
const LENGTH_MAX: u32 = 32 << 20;

/// What a client asks of the disk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read {
        offset: u64,
        length: u32,
    },
    Write {
        offset: u64,
        data: Vec<u8>,
        through: bool,
    },
    Flush,
    /// A command that was not offered.
    Other,
}

impl Action {
    /// Whether the disk's counts may differ afterwards.
    pub(crate) fn changes(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Flush)
    }
}

/// An action and the name under which its answer is awaited.
pub(crate) struct Request {
    pub action: Action,
    handle: [u8; 8],
}

/// The outcome, with the protocol's number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Status {
    Done = 0,
    Broken = 5,
    Invalid = 22,
}

/// Agrees with a client on the disk's size and what it can. False if the client wanted nothing more.
pub(crate) fn greet(client: &mut (impl Read + Write), size: u64, fua: bool) -> Result<bool> {
    client.write_all(GREETING)?;
    client.write_all(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes())?;
    let client_flags = u32::from_be_bytes(array(client)?);
    loop {
        ensure!(&array::<8>(client)? == OPTION_MAGIC, "an option without its magic number");
        let option = u32::from_be_bytes(array(client)?);
        let length = u32::from_be_bytes(array(client)?);
        bytes(client, length)?;
        if option == OPTION_EXPORT_NAME {
            let transmission = HAS_FLAGS | SENDS_FLUSH | if fua { SENDS_FUA } else { 0 };
            client.write_all(&size.to_be_bytes())?;
            client.write_all(&transmission.to_be_bytes())?;
            if client_flags & u32::from(NO_ZEROES) == 0 {
                client.write_all(&[0; ZEROES])?;
            }
            return Ok(true);
        }
        let answer = if option == OPTION_ABORT { OPTION_DONE } else { OPTION_UNSUPPORTED };
        client.write_all(&OPTION_REPLY_MAGIC.to_be_bytes())?;
        for word in [option, answer, 0] {
            client.write_all(&word.to_be_bytes())?;
        }
        if option == OPTION_ABORT {
            return Ok(false);
        }
    }
}

impl Request {
    /// The next request; none if the client disconnects.
    pub(crate) fn read(client: &mut impl Read) -> Result<Option<Self>> {
        ensure!(u32::from_be_bytes(array(client)?) == REQUEST_MAGIC, "a request without its magic number");
        let flags = u16::from_be_bytes(array(client)?);
        let command = u16::from_be_bytes(array(client)?);
        let handle = array(client)?;
        let offset = u64::from_be_bytes(array(client)?);
        let length = u32::from_be_bytes(array(client)?);
        ensure!(length <= LENGTH_MAX, "a request of {length} bytes; {LENGTH_MAX} are the most");
        let action = match command {
            COMMAND_READ => Action::Read { offset, length },
            COMMAND_WRITE => Action::Write { offset, data: bytes(client, length)?, through: flags & COMMAND_FUA != 0 },
            COMMAND_DISCONNECT => return Ok(None),
            COMMAND_FLUSH => Action::Flush,
            _ => Action::Other,
        };
        Ok(Some(Self { action, handle }))
    }

    pub(crate) fn answer(&self, client: &mut impl Write, status: Status, data: &[u8]) -> Result<()> {
        // In one piece: every system call counts where a round trip is to cost nothing.
        let mut reply = Vec::with_capacity(16 + data.len());
        reply.extend(REPLY_MAGIC.to_be_bytes());
        reply.extend((status as u32).to_be_bytes());
        reply.extend(self.handle);
        reply.extend(data);
        Ok(client.write_all(&reply)?)
    }
}

fn array<const N: usize>(client: &mut impl Read) -> Result<[u8; N]> {
    let mut result = [0; N];
    client.read_exact(&mut result)?;
    Ok(result)
}

fn bytes(client: &mut impl Read, length: u32) -> Result<Vec<u8>> {
    ensure!(length <= LENGTH_MAX, "{length} bytes announced; {LENGTH_MAX} are the most");
    let mut result = vec![0; length as usize];
    client.read_exact(&mut result)?;
    Ok(result)
}
