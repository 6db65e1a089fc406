//! Who is at the other end of a control socket, by what the kernel says (unix(7), SO_PEERCRED).

use std::io;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt};
use rustix::process::{Pid, Uid};

/// A process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) uid: Uid,
    /// None: it is in a namespace of processes that is none of ours, as in a container.
    pub(crate) pid: Option<Pid>,
}

impl Peer {
    /// Of this connection; of a listening end, who has made it listen.
    pub(crate) fn of(stream: &UnixStream) -> io::Result<Self> {
        let told = getsockopt(stream, sockopt::PeerCredentials)?;
        Ok(Self { uid: Uid::from_raw(told.uid()), pid: Pid::from_raw(told.pid()) })
    }
}
