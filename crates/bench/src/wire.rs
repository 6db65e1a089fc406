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

mod look;
mod probe;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

pub use look::Status;

/// Procedures of NFSv3 that the loads use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Procedure {
    GetAttr = 1,
    SetAttr = 2,
    Lookup = 3,
    Read = 6,
    Write = 7,
    Create = 8,
    MkDir = 9,
    ReadDirPlus = 17,
    Commit = 21,
}

/// The number of NFS among RPC programs.
pub const NFS_PROGRAM: u32 = 100_003;
const MOUNT_PROGRAM: u32 = 100_005;
const MOUNT_MNT: u32 = 1;

/// How long a server may take for one reply before the benchmark gives up.
const REPLY_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest reply that is believed, bytes.
const REPLY_BYTES_MAX: usize = 4 << 20;

/// A file handle as the server gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle(
    /// Its bytes, which mean something to the server alone.
    pub Vec<u8>,
);

/// What a SETATTR of the loads sets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes {
    /// Permissions.
    pub mode: Option<u32>,
    /// User and group.
    pub owner: Option<(u32, u32)>,
    /// Access and modification: seconds and nanoseconds.
    pub times: Option<(u32, u32)>,
}

/// How stable a WRITE is asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stable {
    /// Not before a COMMIT.
    Unstable = 0,
    /// With all that is needed to find it again.
    FileSync = 2,
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
    xid: u32,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Connection {
    /// Connects to the NFS service.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("no connection to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        Ok(Self { stream, xid: random_u32()?, request: Vec::with_capacity(8192), reply: Vec::with_capacity(8192) })
    }

    /// Asks the MOUNT service for the root of the export.
    pub fn mount(target: &Target) -> Result<Handle> {
        let mut connection = Self::open(target.mount)?;
        connection.begin(MOUNT_PROGRAM, MOUNT_MNT);
        connection.opaque(target.export.as_bytes());
        connection.send()?;
        let mut results = connection.receive()?;
        match results.number()? {
            0 => Ok(Handle(results.opaque()?.to_vec())),
            status => bail!("{} answers MNT {} with status {status}", target.mount, target.export),
        }
    }

    /// CREATE EXCLUSIVE, as `O_CREAT | O_EXCL` sends it.
    pub fn create_exclusive(&mut self, folder: &Handle, name: &str, verifier: u64) -> Result<Handle> {
        self.begin(NFS_PROGRAM, Procedure::Create as u32);
        self.opaque(&folder.0);
        self.opaque(name.as_bytes());
        self.number(2);
        self.long(verifier);
        self.round_trip("CREATE", name)?.handle()
    }

    /// CREATE UNCHECKED with mode 0644.
    pub fn create(&mut self, folder: &Handle, name: &str) -> Result<Handle> {
        self.begin(NFS_PROGRAM, Procedure::Create as u32);
        self.opaque(&folder.0);
        self.opaque(name.as_bytes());
        self.number(0);
        self.attributes(Attributes { mode: Some(0o644), ..Attributes::default() });
        self.round_trip("CREATE", name)?.handle()
    }

    /// MKDIR with mode 0755.
    pub fn mkdir(&mut self, folder: &Handle, name: &str) -> Result<Handle> {
        self.begin(NFS_PROGRAM, Procedure::MkDir as u32);
        self.opaque(&folder.0);
        self.opaque(name.as_bytes());
        self.attributes(Attributes { mode: Some(0o755), ..Attributes::default() });
        self.round_trip("MKDIR", name)?.handle()
    }

    /// SETATTR without a guard.
    pub fn set_attributes(&mut self, file: &Handle, attributes: Attributes) -> Result<()> {
        self.begin(NFS_PROGRAM, Procedure::SetAttr as u32);
        self.opaque(&file.0);
        self.attributes(attributes);
        self.number(0);
        self.round_trip("SETATTR", "")?;
        Ok(())
    }

    /// WRITE; the reply must promise at least what was asked for.
    pub fn write(&mut self, file: &Handle, offset: u64, data: &[u8], stable: Stable) -> Result<()> {
        self.send_write(file, offset, data, stable)?;
        self.receive_write(data.len(), stable)
    }

    /// Sends a WRITE without waiting for its reply.
    pub fn send_write(&mut self, file: &Handle, offset: u64, data: &[u8], stable: Stable) -> Result<()> {
        self.begin(NFS_PROGRAM, Procedure::Write as u32);
        self.opaque(&file.0);
        self.long(offset);
        self.number(u32::try_from(data.len())?);
        self.number(stable as u32);
        self.opaque(data);
        self.send()
    }

    /// Takes one reply to a WRITE of `length` bytes, whichever comes first.
    pub fn receive_write(&mut self, length: usize, stable: Stable) -> Result<()> {
        let mut results = self.receive()?;
        results.status("WRITE", "")?;
        results.skip_wcc()?;
        let (count, committed) = (results.number()?, results.number()?);
        ensure!(count as usize == length, "WRITE of {length} bytes took {count}");
        ensure!(committed >= stable as u32, "WRITE asked for stability {} and got {committed}", stable as u32);
        Ok(())
    }

    /// COMMIT of the whole file.
    pub fn commit(&mut self, file: &Handle) -> Result<()> {
        self.begin(NFS_PROGRAM, Procedure::Commit as u32);
        self.opaque(&file.0);
        self.long(0);
        self.number(0);
        self.round_trip("COMMIT", "")?;
        Ok(())
    }

    /// Sends a READ without waiting for its reply.
    pub fn send_read(&mut self, file: &Handle, offset: u64, count: u32) -> Result<()> {
        self.begin(NFS_PROGRAM, Procedure::Read as u32);
        self.opaque(&file.0);
        self.long(offset);
        self.number(count);
        self.send()
    }

    /// Takes one reply to a READ; gives the number of bytes that came.
    pub fn receive_read(&mut self) -> Result<usize> {
        let mut results = self.receive()?;
        results.status("READ", "")?;
        results.skip_attributes()?;
        let count = results.number()? as usize;
        results.number()?;
        ensure!(results.opaque()?.len() == count, "READ says {count} bytes and brings another number");
        Ok(count)
    }

    fn round_trip(&mut self, procedure: &str, name: &str) -> Result<Results<'_>> {
        self.send()?;
        let mut results = self.receive()?;
        results.status(procedure, name)?;
        Ok(results)
    }

    fn begin(&mut self, program: u32, procedure: u32) {
        self.xid = self.xid.wrapping_add(1);
        self.request.clear();
        self.number(0); // The record mark, known when the request is complete.
        for number in [self.xid, 0, 2, program, 3, procedure] {
            self.number(number);
        }
        // AUTH_SYS: stamp, machine name, uid, gid, no further groups; then an empty verifier.
        for number in [1, 20 + 4, 0, 4, u32::from_be_bytes(*b"lab."), 0, 0, 0, 0, 0] {
            self.number(number);
        }
    }

    fn send(&mut self) -> Result<()> {
        let length = u32::try_from(self.request.len() - 4)?;
        self.request[..4].copy_from_slice(&(length | 1 << 31).to_be_bytes());
        self.stream.write_all(&self.request).context("the connection broke while a request was sent")
    }

    fn receive(&mut self) -> Result<Results<'_>> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).context("the connection broke before a reply")?;
        let mark = u32::from_be_bytes(mark);
        let length = (mark & 0x7fff_ffff) as usize;
        ensure!(mark >> 31 == 1 && length <= REPLY_BYTES_MAX, "reply in fragments or of {length} bytes");
        self.reply.resize(length, 0);
        self.stream.read_exact(&mut self.reply).context("the connection broke inside a reply")?;
        let mut results = Results { rest: &self.reply };
        let (_xid, kind, accepted) = (results.number()?, results.number()?, results.number()?);
        let _flavor = results.number()?;
        results.opaque()?;
        let success = results.number()?;
        ensure!((kind, accepted, success) == (1, 0, 0), "call refused: {kind}, {accepted}, {success}");
        Ok(results)
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
        self.number(0); // No size.
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

/// What is left of a reply.
struct Results<'a> {
    rest: &'a [u8],
}

impl<'a> Results<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).context("reply too short")?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.take(4)?.try_into()?))
    }

    fn long(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.take(8)?.try_into()?))
    }

    fn opaque(&mut self) -> Result<&'a [u8]> {
        let length = self.number()? as usize;
        ensure!(length <= REPLY_BYTES_MAX, "opaque of {length} bytes");
        let bytes = self.take(length)?;
        self.take(length.next_multiple_of(4) - length)?;
        Ok(bytes)
    }

    fn status(&mut self, procedure: &str, name: &str) -> Result<()> {
        match self.number()? {
            0 => Ok(()),
            status => bail!("{procedure} {name} is answered with status {status}"),
        }
    }

    fn handle(&mut self) -> Result<Handle> {
        ensure!(self.number()? == 1, "the server gives no handle in its reply");
        Ok(Handle(self.opaque()?.to_vec()))
    }

    fn skip_attributes(&mut self) -> Result<()> {
        if self.number()? == 1 {
            self.take(84)?;
        }
        Ok(())
    }

    fn skip_wcc(&mut self) -> Result<()> {
        if self.number()? == 1 {
            self.take(24)?;
        }
        self.skip_attributes()
    }
}

/// Four random bytes as a number.
pub fn random_u32() -> Result<u32> {
    let mut bytes = [0; 4];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(u32::from_ne_bytes(bytes))
}
