//! What a request knows of the connection it came on.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::stats::accounts::Newest;

/// A connection, without what it sends and receives.
#[derive(Debug)]
pub struct Link {
    id: u64,
    peer: SocketAddr,
    open: AtomicBool,
    /// Asked whether the peer has hung up. Nothing where there is no socket; weak, as memories outlive connections.
    socket: Option<Weak<TcpStream>>,
    newest: Newest,
}

impl Link {
    /// An open connection that has no socket. Ids are never used twice.
    #[must_use]
    pub fn new(id: u64, peer: SocketAddr) -> Self {
        Self {
            id,
            peer: SocketAddr::new(peer.ip().to_canonical(), peer.port()),
            open: AtomicBool::new(true),
            socket: None,
            newest: Newest::default(),
        }
    }

    /// An open connection over `socket`.
    #[must_use]
    pub fn over(id: u64, peer: SocketAddr, socket: &Arc<TcpStream>) -> Self {
        Self { socket: Some(Arc::downgrade(socket)), ..Self::new(id, peer) }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The other side.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The account that it has used last.
    #[must_use]
    pub fn newest(&self) -> &Newest {
        &self.newest
    }

    /// Whether it is open, as far as the server has noticed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Whether it is open and its peer may still send: asks the kernel, which may know of a hang-up that waits behind
    /// other events.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.is_open()
            && match &self.socket {
                None => true,
                Some(socket) => socket.upgrade().is_some_and(|socket| !has_hung_up(&socket)),
            }
    }

    /// It is closed, for good.
    pub fn close(&self) {
        self.open.store(false, Ordering::Release);
    }
}

fn has_hung_up(socket: &TcpStream) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::RDHUP)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // If the kernel cannot say, the connection counts as alive: its requests are then its own.
    poll(&mut asked, Some(&at_once)).is_ok_and(|count| count > 0)
}
