//! What a request knows of the connection it came on.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tally_base::blocking;

use crate::local::{self, Owner};
use crate::stats::accounts::Newest;

/// A connection, without what it sends and receives.
#[derive(Debug)]
pub struct Link {
    id: u64,
    peer: SocketAddr,
    open: AtomicBool,
    /// The round in which its line was seen among the senders; 0 for never.
    entered: AtomicU64,
    /// Asked whether the peer has hung up. Nothing where there is no socket; weak, as memories outlive connections.
    socket: Option<Weak<TcpStream>>,
    newest: Newest,
    /// Whether its port speaks for its machine's superuser.
    privileged: bool,
    /// Whose it is, once a rule wanted to know and the kernel could say.
    owner: OnceLock<Owner>,
}

impl Link {
    /// An open connection that has no socket. Ids are never used twice.
    #[must_use]
    pub fn new(id: u64, peer: SocketAddr) -> Self {
        Self {
            id,
            peer: if peer.ip().to_canonical() == peer.ip() {
                peer // With its interface, where the address means something on one only.
            } else {
                SocketAddr::new(peer.ip().to_canonical(), peer.port())
            },
            open: AtomicBool::new(true),
            entered: AtomicU64::new(0),
            socket: None,
            newest: Newest::default(),
            privileged: local::is_privileged(peer.port(), false),
            owner: OnceLock::new(),
        }
    }

    /// An open connection over `socket`.
    #[must_use]
    pub fn over(id: u64, peer: SocketAddr, socket: &Arc<TcpStream>) -> Self {
        let is_local = socket.local_addr().is_ok_and(|local| local::is_local(local, peer));
        Self {
            socket: Some(Arc::downgrade(socket)),
            privileged: local::is_privileged(peer.port(), is_local),
            // Of another machine's connections the kernel knows nothing.
            owner: if is_local { OnceLock::new() } else { Owner::Unknown.into() },
            ..Self::new(id, peer)
        }
    }

    /// An open connection that has no socket, and whose owner is known.
    #[must_use]
    pub fn owned(id: u64, peer: SocketAddr, owner: Owner) -> Self {
        Self { owner: owner.into(), ..Self::new(id, peer) }
    }

    /// Never used again while the server runs.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Address and port of the other side.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Our side's address, if it has a socket: the one that its peer knows us by.
    #[must_use]
    pub fn local_ip(&self) -> Option<IpAddr> {
        Some(self.socket.as_ref()?.upgrade()?.local_addr().ok()?.ip().to_canonical())
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

    /// Whether its line was there in this round ([`crate::senders`]).
    pub(crate) fn is_entered(&self, round: u64) -> bool {
        self.entered.load(Ordering::Relaxed) == round
    }

    pub(crate) fn note_entered(&self, round: u64) {
        self.entered.store(round, Ordering::Relaxed);
    }

    /// Whether only a superuser can have taken its port.
    #[must_use]
    pub fn is_privileged(&self) -> bool {
        self.privileged
    }

    /// Whose it is. The kernel is asked once; what it could not say is asked again.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.owner.get().unwrap_or_else(|| match self.ask_owner() {
            Ok(owner) => self.owner.get_or_init(|| owner),
            Err(error) => {
                // The refusal that follows is told to the log, within bounds.
                tracing::debug!(%error, peer = %self.peer, "the kernel does not tell whose a connection is");
                &Owner::Unknown
            }
        })
    }

    /// Names may come from far away, so others take this thread's place meanwhile.
    fn ask_owner(&self) -> io::Result<Owner> {
        let Some(socket) = self.socket.as_ref().and_then(Weak::upgrade) else { return Ok(Owner::Unknown) };
        let owner = blocking(|| local::owner(self.peer, socket.local_addr()?))?;
        // Of a connection that is broken off the kernel may have spoken of the next one (see `local`).
        Ok(if self.is_alive() { owner } else { Owner::Unknown })
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
