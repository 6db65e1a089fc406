//! Telling a local rpcbind where we listen, for clients that ask it (`showmount`, mounts without `port=`).
//!
//! Optional: every mount line that we print names the port. A failure is a note in the log, nothing more.
//! The protocol is PMAP version 2 over UDP (RFC 1833, section 3): SET and UNSET, one datagram each.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use bytes::Bytes;

use crate::xdr::{Decoder, Encoder, Garbage};
use crate::{mount, v3};

const PROGRAM: u32 = 100_000;
const VERSION: u32 = 2;
const PORT: u16 = 111;
const SET: u32 = 1;
const UNSET: u32 = 2;
const TCP: u32 = 6;
/// rpcbind is on this machine or it is not there.
const PATIENCE: Duration = Duration::from_millis(500);
/// rpcbind takes SET from privileged ports only; without privilege we try an ordinary one.
const PRIVILEGED_PORTS: std::ops::Range<u16> = 600..1023;

/// Why registration failed.
#[derive(Debug, thiserror::Error)]
pub enum RpcbindError {
    /// Nobody answers there.
    #[error("rpcbind at 127.0.0.1:111 does not answer ({0}); clients must name the port when they mount")]
    Silent(#[from] std::io::Error),
    /// It answers no.
    #[error(
        "rpcbind refused program {0}; another NFS server may be registered, or rpcbind takes registrations from root only"
    )]
    Refused(u32),
    /// It answers nonsense.
    #[error("rpcbind sent something that is no answer")]
    Malformed,
}

impl From<Garbage> for RpcbindError {
    fn from(Garbage: Garbage) -> Self {
        Self::Malformed
    }
}

/// Registers NFSv3 and MOUNT v3 over TCP at `port`.
pub fn register(port: u16) -> Result<(), RpcbindError> {
    let socket = socket()?;
    for (program, version) in [(v3::PROGRAM, v3::VERSION), (mount::PROGRAM, mount::VERSION)] {
        if !call(&socket, SET, program, version, port)? {
            return Err(RpcbindError::Refused(program));
        }
    }
    Ok(())
}

/// Takes the registration back.
pub fn unregister() -> Result<(), RpcbindError> {
    let socket = socket()?;
    for (program, version) in [(v3::PROGRAM, v3::VERSION), (mount::PROGRAM, mount::VERSION)] {
        call(&socket, UNSET, program, version, 0)?;
    }
    Ok(())
}

fn socket() -> Result<UdpSocket, RpcbindError> {
    let bound = PRIVILEGED_PORTS.rev().take(16).find_map(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok());
    let socket = match bound {
        Some(socket) => socket,
        None => UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?,
    };
    socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

fn call(socket: &UdpSocket, procedure: u32, program: u32, version: u32, port: u16) -> Result<bool, RpcbindError> {
    socket.send(&request(procedure, program, version, port))?;
    let mut answer = [0; 64];
    let count = socket.recv(&mut answer)?;
    parse(&Bytes::copy_from_slice(answer.get(..count).unwrap_or_default()), procedure)
}

/// The call: header with AUTH_NONE, then the mapping. The xid is the procedure: one call is open at a time.
fn request(procedure: u32, program: u32, version: u32, port: u16) -> Vec<u8> {
    let mut words = Encoder::new();
    words.u32(procedure).u32(0).u32(2).u32(PROGRAM).u32(VERSION).u32(procedure).u64(0).u64(0);
    words.u32(program).u32(version).u32(TCP).u32(u32::from(port));
    words.into_vec()
}

fn parse(answer: &Bytes, xid: u32) -> Result<bool, RpcbindError> {
    let mut words = Decoder::new(answer, 0);
    let head = [words.u32()?, words.u32()?, words.u32()?, words.u32()?, words.u32()?, words.u32()?];
    if head != [xid, 1, 0, 0, 0, 0] {
        return Err(RpcbindError::Malformed);
    }
    Ok(words.bool()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_byte_by_byte() {
        let words: Vec<u32> =
            request(SET, 100_003, 3, 2049).chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words, [1, 0, 2, 100_000, 2, 1, 0, 0, 0, 0, 100_003, 3, 6, 2049]);
    }

    #[test]
    fn answers() {
        let answer = |words: &[u32]| Bytes::from(words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>());
        assert!(matches!(parse(&answer(&[1, 1, 0, 0, 0, 0, 1]), 1), Ok(true)));
        assert!(matches!(parse(&answer(&[1, 1, 0, 0, 0, 0, 0]), 1), Ok(false)));
        for bad in [&[2, 1, 0, 0, 0, 0, 1][..], &[1, 1, 1, 0, 0, 0, 1], &[1, 1, 0], &[]] {
            assert!(matches!(parse(&answer(bad), 1), Err(RpcbindError::Malformed)), "{bad:?}");
        }
    }
}
