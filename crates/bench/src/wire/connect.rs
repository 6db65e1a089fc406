//! How a connection comes about, and in whose name it speaks.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use socket2::{Domain, Socket, Type};

use super::{Connection, REPLY_TIMEOUT, random_u32};

/// Where NFS is looked for where nothing says otherwise.
pub const NFS_PORT: u16 = 2049;
/// The port of rpcbind on every host.
pub const RPCBIND_PORT: u16 = 111;

const RPCBIND_PROGRAM: u32 = 100_000;
const RPCBIND_VERSION: u32 = 2;
const RPCBIND_GETPORT: u32 = 3;
const TCP: u32 = 6;

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Ports that only root may have; below them are those of well-known services.
const RESERVED_PORTS: std::ops::Range<u16> = 665..1024;
/// Reserved ports that are tried; most are free.
const RESERVED_TRIES: u16 = 64;

/// In whose name requests are sent, by AUTH_SYS: the server believes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Whether to speak from a port below 1024, which some servers take for a proof that root asks.
    pub reserved_port: bool,
}

impl Connection {
    /// Connects to a service as root, from any port.
    pub fn open(address: SocketAddr) -> Result<Self> {
        Self::open_as(address, Caller::default())
    }

    /// The same from this address of the machine, from any port.
    pub fn open_from(address: SocketAddr, from: IpAddr) -> Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(from, 0).into())?;
        socket
            .connect_timeout(&address.into(), CONNECT_TIMEOUT)
            .with_context(|| format!("no connection to {address}"))?;
        Self::over(socket.into(), Caller::default())
    }

    /// Another connection to the same service, from this address.
    pub fn beside(&self, from: IpAddr) -> Result<Self> {
        Self::open_from(self.stream.peer_addr()?, from)
    }

    /// Connects to a service. Where no reserved port is to be had, any port will do.
    pub fn open_as(address: SocketAddr, caller: Caller) -> Result<Self> {
        let reserved = if caller.reserved_port { from_reserved_port(address)? } else { None };
        let stream = match reserved {
            Some(stream) => stream,
            None => TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
                .with_context(|| format!("no connection to {address}"))?,
        };
        Self::over(stream, caller)
    }

    fn over(stream: TcpStream, caller: Caller) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        let (request, reply) = (Vec::with_capacity(8192), Vec::with_capacity(8192));
        Ok(Self { stream, caller, xid: random_u32()?, request, reply })
    }

    /// Asks rpcbind, to which this is a connection, for the TCP port of a program; `None` if nobody offers it.
    pub fn port_of(&mut self, program: u32, version: u32) -> Result<Option<u16>> {
        self.begin(RPCBIND_PROGRAM, RPCBIND_VERSION, RPCBIND_GETPORT);
        for number in [program, version, TCP, 0] {
            self.number(number);
        }
        self.send()?;
        let port = self.receive()?.number()?;
        Ok(u16::try_from(port).context("rpcbind answers with a port beyond all ports")?)
            .map(|port| Some(port).filter(|port| *port != 0))
    }
}

/// Connects from a reserved port; `None` where this process may not, or all that were tried are taken.
fn from_reserved_port(address: SocketAddr) -> Result<Option<TcpStream>> {
    let count = RESERVED_PORTS.end - RESERVED_PORTS.start;
    let first = u16::try_from(random_u32()? % u32::from(count))?;
    for step in 0..RESERVED_TRIES {
        let port = RESERVED_PORTS.start + (first + step) % count;
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, port).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, port).into(),
        };
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        match socket.bind(&any.into()).and_then(|()| socket.connect_timeout(&address.into(), CONNECT_TIMEOUT)) {
            Ok(()) => return Ok(Some(socket.into())),
            Err(error) if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable) => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("no connection to {address}")),
        }
    }
    Ok(None)
}
