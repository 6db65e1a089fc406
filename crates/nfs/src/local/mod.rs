//! Whose a connection from this very machine is.
//!
//! AUTH_SYS says what its sender likes. The custom of `secure`, only ports below 1024, has root vouch for its machine's
//! users; but an ordinary user's own client has no such port, and on the server's machine nobody needs to vouch: the
//! kernel knows which user made the socket at the other end. So over loopback, and where a peer has an address of this
//! machine, an ordinary port is not refused. The kernel is asked ([`sock_diag`]), and the connection is served as that user
//! with the groups that the machine gives him, whatever its requests say.
//!
//! ```text
//!  who made the client's socket │ its requests are served as
//!  ─────────────────────────────┼───────────────────────────────────────────────────────────────────
//!  root                         │ whom they name: root could have taken a port below 1024, and mounts
//!                               │ without one (noresvport) carry all users over one socket of root's
//!  another user                 │ that user
//!  nobody any more, or nobody   │ nobody: AUTH_TOOWEAK
//!  that the kernel names        │
//! ```
//!
//! The kernel is asked once for a connection, at the first request under a rule that wants to know, and the answer
//! holds as long as the connection. What may change meanwhile:
//!
//! - The client closes its socket, or ends. From then on the kernel says uid 0 of it, older kernels at least. So only a
//!   socket counts that is established and that some process still has, which its inode tells.
//! - The client's end is broken off (RST), and another user takes the same port and connects anew, while a request from
//!   before still waits here. Then the kernel's answer is about the new socket. But ours, the old one, has been broken
//!   off by then, and the kernel tells that too: it is asked *after* the question ([`Link::is_alive`]). As long as
//!   our end stands, the other end is the one that it was.
//! - The client hands its socket to another process: as with any open file, that is its right.
//! - The machine's list of users and groups changes: that holds from the next connection on.
//!
//! A program that passes other people's connections on (a proxy, `ssh -L`) speaks as the user it runs as.
//!
//! [`Link::is_alive`]: crate::link::Link::is_alive

mod sock_diag;

use std::ffi::CString;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use nix::unistd::{Gid, Uid, User, getgrouplist};
use tally_vfs::Cred;

/// Ports below this one need privilege, unless the machine's settings give them to everybody.
const PRIVILEGED_PORTS_END: u16 = 1024;
/// From which port on this machine asks no privilege of its own users.
const UNPRIVILEGED_PORTS: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
/// The group of a user that the machine has a number of and nothing else.
const NO_GROUP: u32 = 65_534;

/// Whose a connection from this machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The superuser's: it may say of itself what it likes.
    Root,
    /// A user's, with his groups.
    User(Cred),
    /// Nobody's that can be told.
    Unknown,
}

/// Whether the peer is on this machine: over loopback, with the address that it talks to, or with another one of ours.
pub(crate) fn is_local(local: SocketAddr, peer: SocketAddr) -> bool {
    let ip = peer.ip().to_canonical();
    ip.is_loopback() || ip == local.ip().to_canonical() || is_own(peer, ip)
}

/// Whether an address is one of this machine: only such a one can be bound. Where that cannot be found out, or the machine lets
/// any be bound, others count as its users, of whom the kernel then knows nothing.
fn is_own(peer: SocketAddr, ip: IpAddr) -> bool {
    let mut address = peer;
    address.set_ip(ip);
    address.set_port(0);
    let is_foreign = |error: io::Error| matches!(error.kind(), ErrorKind::AddrNotAvailable | ErrorKind::InvalidInput);
    UdpSocket::bind(address).map_or_else(|error| !is_foreign(error), |_| true)
}

/// Whether only the superuser can have taken a port, on this machine as it is set now, or on any.
pub(crate) fn is_privileged(port: u16, local: bool) -> bool {
    let own_end = || {
        let text = fs::read_to_string(UNPRIVILEGED_PORTS).unwrap_or_default();
        text.trim().parse().unwrap_or(PRIVILEGED_PORTS_END)
    };
    port < PRIVILEGED_PORTS_END && (!local || port < own_end())
}

/// Asks the kernel whose a connection is that comes from `peer` to `local`. The answer counts if that connection still
/// stands afterwards.
pub(crate) fn owner(peer: SocketAddr, local: SocketAddr) -> io::Result<Owner> {
    match sock_diag::user(peer, local)? {
        None => Ok(Owner::Unknown),
        Some(0) => Ok(Owner::Root),
        Some(uid) => cred(uid).map(Owner::User),
    }
}

/// What the machine knows of a user. Somebody without a name is in no group.
fn cred(uid: u32) -> io::Result<Cred> {
    let Some(user) = User::from_uid(Uid::from_raw(uid))? else {
        return Ok(Cred { uid, gid: NO_GROUP, groups: Default::default(), checked: false });
    };
    let name = CString::new(user.name).map_err(io::Error::other)?;
    let groups = getgrouplist(&name, user.gid)?.into_iter().map(Gid::as_raw).collect();
    Ok(Cred { uid, gid: user.gid.as_raw(), groups, checked: false })
}

#[cfg(test)]
mod tests;
