//! Asking the portmapper of another host where a program of his is: GETPORT of version 2 over IPv4, as every one has it, and GETADDR of version 3 over IPv6, which version 2 does not know.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use bytes::Bytes;

use super::{GETPORT, PROGRAM, TCP, UDP, result};
use crate::xdr::{Encoder, Garbage};

const VERSION_6: u32 = 3;
const ADDRESS_BYTES_MAX: usize = 128;
/// How long an answer may take, and how often is asked.
const PATIENCE: Duration = Duration::from_secs(1);
const ASKED: u32 = 3;

/// How a program is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    /// Its number.
    pub(super) const fn protocol(self) -> u32 {
        match self {
            Self::Tcp => TCP,
            Self::Udp => UDP,
        }
    }
}

/// The port of a program of the host whose portmapper is there.
///
/// # Errors
///
/// The host does not answer, or has no such program.
pub fn port_at(portmapper: SocketAddr, program: u32, version: u32, transport: Transport) -> io::Result<u16> {
    let (any, call): (IpAddr, _) = match portmapper.ip() {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), port_call(program, version, transport)),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), address_call(program, version, transport)),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(portmapper)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut failed = io::Error::from(io::ErrorKind::TimedOut);
    for _ in 0..ASKED {
        socket.send(&call)?;
        let mut answer = [0; 256];
        match socket.recv(&mut answer) {
            Ok(count) => {
                return port_in(&Bytes::copy_from_slice(answer.get(..count).unwrap_or_default()), portmapper.is_ipv6());
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn head(version: u32) -> Encoder {
    let mut words = Encoder::new();
    words.u32(GETPORT).u32(0).u32(2).u32(PROGRAM).u32(version).u32(GETPORT).u64(0).u64(0);
    words
}

fn port_call(program: u32, version: u32, transport: Transport) -> Vec<u8> {
    let mut words = head(super::VERSION);
    words.u32(program).u32(version).u32(transport.protocol()).u32(0);
    words.into_vec()
}

/// GETADDR has the number of GETPORT.
fn address_call(program: u32, version: u32, transport: Transport) -> Vec<u8> {
    let mut words = head(VERSION_6);
    let netid: &[u8] = if transport == Transport::Tcp { b"tcp6" } else { b"udp6" };
    words.u32(program).u32(version).opaque(netid).opaque(b"").opaque(b"");
    words.into_vec()
}

fn port_in(answer: &Bytes, is_address: bool) -> io::Result<u16> {
    let none = || io::Error::new(io::ErrorKind::NotFound, "its portmapper has no such program");
    let mut words = result(answer, GETPORT).map_err(|_| io::ErrorKind::InvalidData)?;
    let garbage = |Garbage| io::Error::from(io::ErrorKind::InvalidData);
    let port = if is_address {
        port_of_address(words.opaque(ADDRESS_BYTES_MAX).map_err(garbage)?)
    } else {
        u16::try_from(words.u32().map_err(garbage)?).ok()
    };
    port.filter(|port| *port != 0).ok_or_else(none)
}

/// The last two numbers of a universal address, `::1.8.1`.
fn port_of_address(address: &[u8]) -> Option<u16> {
    let mut parts = std::str::from_utf8(address).ok()?.rsplitn(3, '.');
    let [low, high]: [u8; 2] = [parts.next()?.parse().ok()?, parts.next()?.parse().ok()?];
    Some(u16::from_be_bytes([high, low]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_a_universal_address() {
        for (address, port) in [("::1.8.1", Some(2049)), ("fe80::1%2.0.111", Some(111)), ("", None), ("1.300.2", None)]
        {
            assert_eq!(port_of_address(address.as_bytes()), port, "{address}");
        }
    }

    #[test]
    fn an_answer_is_a_port_or_none() {
        let answer = |port: u32| {
            let mut words = Encoder::new();
            words.u32(GETPORT).u32(1).u32(0).u32(0).u32(0).u32(0).u32(port);
            Bytes::from(words.into_vec())
        };
        assert_eq!(port_in(&answer(2049), false).unwrap(), 2049);
        assert_eq!(port_in(&answer(0), false).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(port_in(&answer(70_000), false).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(port_in(&Bytes::new(), false).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
