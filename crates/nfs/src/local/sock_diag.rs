//! One question to the kernel: which user has the socket with these two addresses?
//!
//! Asked over netlink (sock_diag(7)), which finds the one socket; `/proc/net/tcp` says the same, in a list of all.
//!
//! ```text
//!  byte 0        4      6       8     12       16
//!  ┌───────────┬──────┬───────┬─────┬────────┬───────────────────────────────────────────────────────
//!  │ length    │ type │ flags │ seq │ port 0 │ inet_diag_req_v2, inet_diag_msg, or an error number
//!  └───────────┴──────┴───────┴─────┴────────┴───────────────────────────────────────────────────────
//!
//!  request     16     17    18     19   20       24   56
//!              ┌──────┬─────┬─────┬────┬────────┬────┐
//!              │family│ TCP │ ext │  0 │ states │ id │           id: source and destination port,
//!              └──────┴─────┴─────┴────┴────────┴────┘           then source and destination address
//!  answer      16     17      18         20   68       80    84      88                (16 bytes each), all of
//!              ┌──────┬───────┬──────────┬────┬────────┬─────┬───────┐                 them in network order;
//!              │family│ state │ ...      │ id │ ...    │ uid │ inode │                 interface 4, cookie 8
//!              └──────┴───────┴──────────┴────┴────────┴─────┴───────┘
//! ```

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto, socket_with};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const TCP: u8 = 6;
const ESTABLISHED: u8 = 1;
const REQUEST_BYTES: u32 = 72;
const ANSWER_BYTES_MAX: usize = 1024;
/// One question goes over a netlink socket.
const SEQUENCE: u32 = 1;
/// Any socket of these addresses: there is one.
const NO_COOKIE: [u8; 8] = [0xff; 8];

/// Which user has the socket at `near`, connected to `far`. `None` if there is none that is established and that some
/// process has.
pub(super) fn user(near: SocketAddr, far: SocketAddr) -> io::Result<Option<u32>> {
    let kernel = SocketAddrNetlink::new(0, 0);
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    sendto(&socket, &request(near, far), SendFlags::empty(), &kernel)?;
    let mut bytes = [0; ANSWER_BYTES_MAX];
    // The kernel answers before `sendto` returns: there is nothing to wait for.
    let (answer, _, from) = recvfrom(&socket, &mut bytes[..], RecvFlags::DONTWAIT)?;
    if from.and_then(|from| SocketAddrNetlink::try_from(from).ok()).is_none_or(|from| from.pid() != 0) {
        return Err(io::Error::other("somebody else than the kernel answered"));
    }
    read_answer(bytes.get(..answer).unwrap_or_default())
}

fn request(near: SocketAddr, far: SocketAddr) -> Vec<u8> {
    let (near_ip, far_ip) = (near.ip().to_canonical(), far.ip().to_canonical());
    let family = if near_ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut words = Vec::with_capacity(REQUEST_BYTES as usize);
    words.extend(REQUEST_BYTES.to_ne_bytes());
    words.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    words.extend(NLM_F_REQUEST.to_ne_bytes());
    words.extend(SEQUENCE.to_ne_bytes());
    words.extend(0_u32.to_ne_bytes());
    words.extend([u8::try_from(family.as_raw()).unwrap_or_default(), TCP, 0, 0]);
    words.extend(u32::MAX.to_ne_bytes());
    words.extend(near.port().to_be_bytes());
    words.extend(far.port().to_be_bytes());
    words.extend(address(near_ip));
    words.extend(address(far_ip));
    words.extend(interface(near).to_ne_bytes());
    words.extend(NO_COOKIE);
    words
}

fn address(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// A link-local address means something on one interface only.
fn interface(near: SocketAddr) -> u32 {
    match near {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(near) => near.scope_id(),
    }
}

/// The user in an answer. A socket that no process has any more has no inode, and its uid says nothing; one that is
/// not established may be a listener, or not be connected to us yet or any more.
fn read_answer(answer: &[u8]) -> io::Result<Option<u32>> {
    let garbled = || io::Error::other("the kernel's answer is cut short");
    let word = |at: usize| {
        let bytes = answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_ne_bytes).ok_or_else(garbled)
    };
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    match kind {
        Some(SOCK_DIAG_BY_FAMILY) => {
            let state = *answer.get(17).ok_or_else(garbled)?;
            let (uid, inode) = (word(80)?, word(84)?);
            Ok((state == ESTABLISHED && inode != 0).then_some(uid))
        }
        Some(NLMSG_ERROR) => match io::Error::from_raw_os_error(word(16)?.cast_signed().saturating_neg()) {
            error if error.kind() == io::ErrorKind::NotFound => Ok(None),
            error => Err(error),
        },
        _ => Err(garbled()),
    }
}

#[cfg(test)]
mod tests;
