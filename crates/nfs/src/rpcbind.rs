//! Telling a local rpcbind where we listen, for clients that ask it (`showmount`, mounts without `port=`), and where a machine
//! has none, answering such clients ourselves ([`portmapper`]).
//!
//! Optional: every mount line that we print names the port. A failure is a warning in the log, nothing more.
//! The protocol is PMAP version 2 over UDP (RFC 1833, section 3): GETPORT, SET and UNSET, one datagram each.
//!
//! rpcbind has place for one server of each program, and believes every process of root's that takes another's away. So
//! it is asked first, and what it says decides, at the start, at the end, and after a crash:
//!
//! | it has | that is | at the start | at the end |
//! |---|---|---|---|
//! | nobody | | SET | nothing |
//! | our port | ours, or that of a daemon that was killed and had it: we listen there | nothing | UNSET |
//! | another port | another server's, alive or not: rpcbind cannot tell, and neither can we | nothing: the error says what to do | nothing |
//!
//! The lock manager goes by the same table, but that one of another is no error: a machine that mounts NFS itself has
//! its kernel's registered under this number, and clients' locks then go to it (N5). So does the status monitor, which is registered where there are locks, over what it is heard by. To programs of this machine we have none (`service/locking.rs`):
//! `mount.nfs` starts no `rpc.statd` where it finds one, and the kernel, which would have it watch hosts, would have no locks of other servers then.

mod asking;
mod portmapper;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use bytes::Bytes;

use crate::nlm::{self, nsm};
use crate::xdr::{Decoder, Encoder, Garbage};
use crate::{mount, v3};
pub use asking::{Transport, port_at};
pub use portmapper::{Portmapper, PortmapperError};

const PROGRAM: u32 = 100_000;
const VERSION: u32 = 2;
const SET: u32 = 1;
const UNSET: u32 = 2;
const GETPORT: u32 = 3;
const DUMP: u32 = 4;
const TCP: u32 = 6;
const UDP: u32 = 17;
/// rpcbind is on this machine or it is not there.
const PATIENCE: Duration = Duration::from_millis(500);
/// rpcbind takes SET from privileged ports only; without privilege we try an ordinary one.
const PRIVILEGED_PORTS: std::ops::Range<u16> = 600..1023;

/// The port of every portmapper.
pub const PORT: u16 = 111;
/// Where rpcbind listens.
pub const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT);

/// What is registered and taken back, all of it over TCP.
const PROGRAMS: [(u32, u32); 2] = [(v3::PROGRAM, v3::VERSION), (mount::PROGRAM, mount::VERSION)];

/// Why registration failed.
#[derive(Debug, thiserror::Error)]
pub enum RpcbindError {
    /// Nobody answers there.
    #[error("rpcbind at {rpcbind} does not answer ({source}); clients must name the port when they mount")]
    Silent {
        /// Where it was looked for.
        rpcbind: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// It answers no.
    #[error(
        "rpcbind refused program {0}; another NFS server may be registered, or rpcbind takes registrations from root only"
    )]
    Refused(u32),
    /// Another server has the place.
    #[error(
        "rpcbind has program {program} at port {port}: another NFS server, this machine's own for example, or a daemon that was killed \
         and had that port. It is left alone; clients must name our port when they mount. If nothing is there any more, take it away with \
         `rpcinfo -d {program} 3`"
    )]
    Taken {
        /// The RPC program number that was to be registered.
        program: u32,
        /// The TCP port that it is served on.
        port: u16,
    },
    /// It answers nonsense.
    #[error("rpcbind sent something that is no answer")]
    Malformed,
}

/// What else is registered where it is not another's: each over its protocol.
const LOCKS: (u32, u32, u32) = (nlm::PROGRAM, nlm::VERSION, TCP);
/// The same of a server that locks for version 3, and is told by these that hosts have started anew.
fn monitor(heard_by: &[Transport]) -> impl Iterator<Item = (u32, u32, u32)> {
    heard_by.iter().map(|transport| (nsm::PROGRAM, nsm::VERSION, transport.protocol()))
}

/// A program of another that has the place of one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its number.
    pub program: u32,
    /// Where it is.
    pub port: u16,
}

impl Other {
    /// What it is.
    #[must_use]
    pub fn what(&self) -> &'static str {
        if self.program == nsm::PROGRAM { "status monitor" } else { "lock manager" }
    }

    /// What its being there does to our clients.
    #[must_use]
    pub fn what_comes_of_it(&self) -> &'static str {
        if self.program == nsm::PROGRAM {
            "What a client of NFSv3 had locked before it crashed stays locked, as it does not find us to say so, until `tally client evict` ends it"
        } else {
            "Clients that mount without nolock may hang at their first lock"
        }
    }
}

/// Registers NFSv3, MOUNT v3 and the lock manager over TCP at `port` with the rpcbind at this address, and the status monitor of one that is `heard_by` these. Gives those of others that are registered in
/// place of ours.
pub fn register(rpcbind: SocketAddr, port: u16, heard_by: &[Transport]) -> Result<Vec<Other>, RpcbindError> {
    let look = || {
        let socket = socket(rpcbind)?;
        PROGRAMS.iter().map(|(program, version)| port_of(&socket, *program, *version, TCP)).collect::<Result<_, _>>()
    };
    let there: Vec<u16> = named(rpcbind, look())?;
    // Nothing is changed before all is looked at: half of us beside half of another server is of use to nobody.
    for ((program, _), at) in PROGRAMS.iter().zip(there) {
        if at != 0 && at != port {
            return Err(RpcbindError::Taken { program: *program, port: at });
        }
    }
    let set = |(program, version, protocol)| {
        let set = || {
            let socket = socket(rpcbind)?;
            match port_of(&socket, program, version, protocol)? {
                0 => Ok(call(&socket, SET, (program, version, protocol), port)?.then_some(port)),
                at => Ok(Some(at)),
            }
        };
        let at = named(rpcbind, set())?.ok_or(RpcbindError::Refused(program))?;
        Ok((at != port).then_some(Other { program, port: at }))
    };
    let registered = PROGRAMS.iter().try_for_each(|(program, version)| set((*program, *version, TCP)).map(drop));
    let beside = [LOCKS].into_iter().chain(monitor(heard_by));
    let others = registered.and_then(|()| beside.map(set).collect::<Result<Vec<_>, _>>());
    // What was registered before the refusal would lead clients to a half.
    others
        .map(|others| others.into_iter().flatten().collect())
        .inspect_err(|_| drop(unregister(rpcbind, port, heard_by)))
}

/// Takes the registration of a server at `port` back, and nobody else's.
pub fn unregister(rpcbind: SocketAddr, port: u16, heard_by: &[Transport]) -> Result<(), RpcbindError> {
    let calls = || {
        let socket = socket(rpcbind)?;
        let ours = PROGRAMS.into_iter().map(|(program, version)| (program, version, TCP));
        for (program, version, protocol) in ours.chain([LOCKS]).chain(monitor(heard_by)) {
            if port_of(&socket, program, version, protocol)? == port {
                call(&socket, UNSET, (program, version, protocol), 0)?;
            }
        }
        Ok(())
    };
    named(rpcbind, calls())
}

/// What can go wrong in an exchange.
enum CallError {
    Io(io::Error),
    Malformed,
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Garbage> for CallError {
    fn from(Garbage: Garbage) -> Self {
        Self::Malformed
    }
}

fn named<T>(rpcbind: SocketAddr, result: Result<T, CallError>) -> Result<T, RpcbindError> {
    result.map_err(|error| match error {
        CallError::Io(source) => RpcbindError::Silent { rpcbind, source },
        CallError::Malformed => RpcbindError::Malformed,
    })
}

fn socket(rpcbind: SocketAddr) -> Result<UdpSocket, CallError> {
    let bound = PRIVILEGED_PORTS.rev().take(16).find_map(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok());
    let socket = match bound {
        Some(socket) => socket,
        None => UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?,
    };
    socket.connect(rpcbind)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Where a program is, or 0.
fn port_of(socket: &UdpSocket, program: u32, version: u32, protocol: u32) -> Result<u16, CallError> {
    let answer = exchange(socket, GETPORT, (program, version, protocol), 0)?;
    u16::try_from(result(&answer, GETPORT)?.u32()?).map_err(|_| CallError::Malformed)
}

/// SET or UNSET.
fn call(socket: &UdpSocket, procedure: u32, of: (u32, u32, u32), port: u16) -> Result<bool, CallError> {
    let answer = exchange(socket, procedure, of, port)?;
    Ok(result(&answer, procedure)?.bool()?)
}

fn exchange(socket: &UdpSocket, procedure: u32, of: (u32, u32, u32), port: u16) -> Result<Bytes, CallError> {
    socket.send(&request(procedure, of, port))?;
    let mut answer = [0; 64];
    let count = socket.recv(&mut answer)?;
    Ok(Bytes::copy_from_slice(answer.get(..count).unwrap_or_default()))
}

/// The call: header with AUTH_NONE, then the mapping. The xid is the procedure: one call is open at a time.
fn request(procedure: u32, (program, version, protocol): (u32, u32, u32), port: u16) -> Vec<u8> {
    let mut words = Encoder::new();
    words.u32(procedure).u32(0).u32(2).u32(PROGRAM).u32(VERSION).u32(procedure).u64(0).u64(0);
    words.u32(program).u32(version).u32(protocol).u32(u32::from(port));
    words.into_vec()
}

/// What follows the head of an answer.
fn result(answer: &Bytes, xid: u32) -> Result<Decoder<'_>, CallError> {
    let mut words = Decoder::new(answer, 0);
    let head = [words.u32()?, words.u32()?, words.u32()?, words.u32()?, words.u32()?, words.u32()?];
    if head != [xid, 1, 0, 0, 0, 0] {
        return Err(CallError::Malformed);
    }
    Ok(words)
}

#[cfg(test)]
mod tests;
