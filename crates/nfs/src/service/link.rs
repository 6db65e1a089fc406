//! What a request knows of the connection it came on.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// A connection, without its socket.
#[derive(Debug)]
pub struct Link {
    id: u64,
    peer: SocketAddr,
    open: AtomicBool,
}

impl Link {
    /// An open connection. Ids are never used twice.
    #[must_use]
    pub fn new(id: u64, peer: SocketAddr) -> Self {
        Self { id, peer: SocketAddr::new(peer.ip().to_canonical(), peer.port()), open: AtomicBool::new(true) }
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

    /// Whether it is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// It is closed, for good.
    pub fn close(&self) {
        self.open.store(false, Ordering::Release);
    }
}
