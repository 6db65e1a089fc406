//! A blocking NFSv3 client that is small enough to cost nothing: one thread and one connection each, requests
//! encoded into a kept buffer, replies read into another and looked at only as far as a load needs.
//!
//! The usual client crates are asynchronous and decode every attribute, which is a good part of the time of a
//! loopback round trip; a benchmark would measure them. Transaction ids start at a random number, because a
//! server with a reply cache may take a repeated id with equal arguments for a retransmission.
//!
//! ```text
//! record   | 1 bit last, 31 bits length | message |
//! call     | xid | 0 | 2 | program | version | procedure | credential | verifier (0, 0) | arguments |
//! reply    | xid | 1 | 0 accepted | verifier flavor, length, bytes | 0 success | results |
//! ```

mod change;
mod compound;
mod connect;
mod limits;
mod look;
mod probe;
mod results;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Result, bail, ensure};

pub use change::Special;
pub use connect::{Caller, NFS_PORT, RPCBIND_PORT};
pub use limits::Limits;
pub use look::{Entry, Status};
use results::Results;
pub use results::{Refused, status};

/// Procedures of NFSv3 that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Procedure {
    Null = 0,
    GetAttr = 1,
    SetAttr = 2,
    Lookup = 3,
    Read = 6,
    Write = 7,
    Create = 8,
    MkDir = 9,
    SymLink = 10,
    MkNod = 11,
    Remove = 12,
    RmDir = 13,
    Rename = 14,
    Link = 15,
    ReadDirPlus = 17,
    FsInfo = 19,
    Commit = 21,
}

/// The number of NFS among RPC programs.
pub const NFS_PROGRAM: u32 = 100_003;
/// The number of MOUNT among RPC programs.
pub const MOUNT_PROGRAM: u32 = 100_005;
const MOUNT_MNT: u32 = 1;
/// Version of both that is spoken.
pub const VERSION: u32 = 3;

/// How long a server may take for one reply before the benchmark gives up.
const REPLY_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest reply that is believed, bytes.
const REPLY_BYTES_MAX: usize = 4 << 20;

/// Most pieces of one reply.
const FRAGMENTS_MAX: usize = 1024;

/// A file handle as the server gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle(
    /// Its bytes, which mean something to the server alone.
    pub Vec<u8>,
);

/// What a SETATTR sets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Length in bytes: the file is cut, or gets a hole.
    pub size: Option<u64>,
    /// User and group.
    pub owner: Option<(u32, u32)>,
    /// Access and modification: seconds and nanoseconds.
    pub times: Option<(u32, u32)>,
}

/// How stable a WRITE is asked to be, or says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stable {
    /// Not before a COMMIT.
    Unstable = 0,
    /// The data, and what is needed to read it.
    DataSync = 1,
    /// With every attribute.
    FileSync = 2,
}

/// What a reply to a WRITE says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes that were taken.
    pub count: usize,
    /// How stable the data is.
    pub committed: Stable,
    /// Changes when the server may have lost what was not committed.
    pub verifier: u64,
}

/// Where a server listens and what is mounted from it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The NFS service.
    pub nfs: SocketAddr,
    /// The MOUNT service.
    pub mount: SocketAddr,
    /// The path that is mounted.
    pub export: String,
}

/// One connection with one request under way at a time, or several where `send` and `receive` are used apart.
pub struct Connection {
    stream: TcpStream,
    caller: Caller,
    xid: u32,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Connection {
    /// Asks the MOUNT service for the root of the export.
    pub fn mount(target: &Target) -> Result<Handle> {
        Self::open(target.mount)?.mnt(&target.export)
    }

    /// MNT, on a connection to the MOUNT service.
    pub fn mnt(&mut self, export: &str) -> Result<Handle> {
        self.begin(MOUNT_PROGRAM, VERSION, MOUNT_MNT);
        self.opaque(export.as_bytes());
        Ok(Handle(self.round_trip("MNT", export)?.opaque()?.to_vec()))
    }

    /// CREATE EXCLUSIVE, as `O_CREAT | O_EXCL` sends it.
    pub fn create_exclusive(&mut self, folder: &Handle, name: &str, verifier: u64) -> Result<Handle> {
        self.call(Procedure::Create);
        self.opaque(&folder.0);
        self.opaque(name.as_bytes());
        self.number(2);
        self.long(verifier);
        self.round_trip("CREATE", name)?.handle()
    }

    /// CREATE UNCHECKED with mode 0644.
    pub fn create(&mut self, folder: &Handle, name: &str) -> Result<Handle> {
        self.call(Procedure::Create);
        self.opaque(&folder.0);
        self.opaque(name.as_bytes());
        self.number(0);
        self.attributes(Attributes { mode: Some(0o644), ..Attributes::default() });
        self.round_trip("CREATE", name)?.handle()
    }

    /// MKDIR with mode 0755.
    pub fn mkdir(&mut self, folder: &Handle, name: &str) -> Result<Handle> {
        self.call(Procedure::MkDir);
        self.opaque(&folder.0);
        self.opaque(name.as_bytes());
        self.attributes(Attributes { mode: Some(0o755), ..Attributes::default() });
        self.round_trip("MKDIR", name)?.handle()
    }

    /// SETATTR without a guard.
    pub fn set_attributes(&mut self, file: &Handle, attributes: Attributes) -> Result<()> {
        self.call(Procedure::SetAttr);
        self.opaque(&file.0);
        self.attributes(attributes);
        self.number(0);
        self.round_trip("SETATTR", "")?;
        Ok(())
    }

    /// WRITE; the reply must promise at least what was asked for.
    pub fn write(&mut self, file: &Handle, offset: u64, data: &[u8], stable: Stable) -> Result<Written> {
        self.send_write(file, offset, data, stable)?;
        self.receive_write(data.len(), stable)
    }

    /// Sends a WRITE without waiting for its reply.
    pub fn send_write(&mut self, file: &Handle, offset: u64, data: &[u8], stable: Stable) -> Result<()> {
        self.call(Procedure::Write);
        self.opaque(&file.0);
        self.long(offset);
        self.number(u32::try_from(data.len())?);
        self.number(stable as u32);
        self.opaque(data);
        self.send()
    }

    /// Takes one reply to a WRITE of `length` bytes, whichever comes first.
    pub fn receive_write(&mut self, length: usize, stable: Stable) -> Result<Written> {
        let written = self.receive_any_write(stable)?;
        ensure!(written.count == length, "WRITE of {length} bytes took {}", written.count);
        Ok(written)
    }

    /// Takes one reply to a WRITE of any length, where several are under way: replies may overtake each other.
    pub fn receive_any_write(&mut self, stable: Stable) -> Result<Written> {
        let mut results = self.receive()?;
        results.status("WRITE", "")?;
        results.skip_wcc()?;
        let (count, committed) = (results.number()? as usize, Stable::parse(results.number()?)?);
        ensure!(committed >= stable, "WRITE asked for {stable:?} and got {committed:?}");
        Ok(Written { count, committed, verifier: results.long()? })
    }

    /// COMMIT of the whole file; gives the verifier.
    pub fn commit(&mut self, file: &Handle) -> Result<u64> {
        self.call(Procedure::Commit);
        self.opaque(&file.0);
        self.long(0);
        self.number(0);
        let mut results = self.round_trip("COMMIT", "")?;
        results.skip_wcc()?;
        results.long()
    }

    /// Sends a READ without waiting for its reply.
    pub fn send_read(&mut self, file: &Handle, offset: u64, count: u32) -> Result<()> {
        self.call(Procedure::Read);
        self.opaque(&file.0);
        self.long(offset);
        self.number(count);
        self.send()
    }

    /// Takes one reply to a READ; gives the number of bytes that came.
    pub fn receive_read(&mut self) -> Result<usize> {
        Ok(self.receive_data()?.len())
    }

    fn round_trip(&mut self, procedure: &'static str, name: &str) -> Result<Results<'_>> {
        self.send()?;
        let mut results = self.receive()?;
        results.status(procedure, name)?;
        Ok(results)
    }

    fn call(&mut self, procedure: Procedure) {
        self.begin(NFS_PROGRAM, VERSION, procedure as u32);
    }

    fn begin(&mut self, program: u32, version: u32, procedure: u32) {
        self.xid = self.xid.wrapping_add(1);
        self.request.clear();
        self.number(0); // The record mark, known when the request is complete.
        for number in [self.xid, 0, 2, program, version, procedure] {
            self.number(number);
        }
        // AUTH_SYS: stamp, machine name, uid, gid, no further groups; then an empty verifier.
        let Caller { uid, gid, .. } = self.caller;
        for number in [1, 20 + 4, 0, 4, u32::from_be_bytes(*b"lab."), uid, gid, 0, 0, 0] {
            self.number(number);
        }
    }

    fn send(&mut self) -> Result<()> {
        let length = u32::try_from(self.request.len() - 4)?;
        self.request[..4].copy_from_slice(&(length | 1 << 31).to_be_bytes());
        self.stream.write_all(&self.request).map_err(|error| broken(error, "while a request was sent"))
    }

    fn receive(&mut self) -> Result<Results<'_>> {
        self.reply.clear();
        for _ in 0..FRAGMENTS_MAX {
            if self.receive_fragment()? {
                return Results::accepted(&self.reply);
            }
        }
        bail!("a reply in more than {FRAGMENTS_MAX} fragments")
    }

    /// Puts a fragment behind those that came before; whether it is the last.
    fn receive_fragment(&mut self) -> Result<bool> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).map_err(|error| broken(error, "before a reply"))?;
        let mark = u32::from_be_bytes(mark);
        let (before, length) = (self.reply.len(), (mark & 0x7fff_ffff) as usize);
        ensure!(before + length <= REPLY_BYTES_MAX, "reply of {} bytes or more", before + length);
        self.reply.resize(before + length, 0);
        let rest = self.stream.read_exact(&mut self.reply[before..]);
        rest.map_err(|error| broken(error, "inside a reply"))?;
        Ok(mark >> 31 == 1)
    }

    fn number(&mut self, number: u32) {
        self.request.extend_from_slice(&number.to_be_bytes());
    }

    fn long(&mut self, number: u64) {
        self.request.extend_from_slice(&number.to_be_bytes());
    }

    fn opaque(&mut self, bytes: &[u8]) {
        self.number(u32::try_from(bytes.len()).expect("loads send at most a megabyte"));
        self.request.extend_from_slice(bytes);
        self.request.resize(self.request.len().next_multiple_of(4), 0);
    }

    fn attributes(&mut self, attributes: Attributes) {
        self.option(attributes.mode);
        self.option(attributes.owner.map(|owner| owner.0));
        self.option(attributes.owner.map(|owner| owner.1));
        self.number(u32::from(attributes.size.is_some()));
        attributes.size.into_iter().for_each(|size| self.long(size));
        for _access_then_modification in 0..2 {
            match attributes.times {
                Some((seconds, nanoseconds)) => [2, seconds, nanoseconds].into_iter().for_each(|n| self.number(n)),
                None => self.number(0),
            }
        }
    }

    fn option(&mut self, value: Option<u32>) {
        self.number(u32::from(value.is_some()));
        if let Some(value) = value {
            self.number(value);
        }
    }
}

/// A server that says nothing for long is not the same as one that has gone.
fn broken(error: io::Error, when: &str) -> anyhow::Error {
    let what = match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("the server does not answer: nothing came for {} s", REPLY_TIMEOUT.as_secs())
        }
        _ => format!("the connection broke {when}; has the server gone away?"),
    };
    anyhow::Error::new(error).context(what)
}

/// Four random bytes as a number.
pub fn random_u32() -> Result<u32> {
    let mut bytes = [0; 4];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(u32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests;
