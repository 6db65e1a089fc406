//! Listening, and letting clients in: a thread for each listener, which does nothing else.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::complaints::Complaint;
use super::hub::Hub;
use super::warden;
use crate::stats::count;

/// Connections that may wait to be let in: a thousand clients come back at once after a restart.
const BACKLOG: i32 = 1024;
/// A peer that is gone without a word is noticed after this and some probes.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// A peer that acknowledges nothing of what was sent is gone after this: keepalive does not run meanwhile.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(60);
/// Without file descriptors there is nothing to do but wait until one is free.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be had.
    #[error("cannot listen on {address}: {source}; is another NFS server running? Choose another port with --port")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system refuses something every server needs.
    #[error("cannot set up the server: {0}; check the limits on open files and threads")]
    System(#[from] io::Error),
}

/// A listening socket. IPv6 addresses serve IPv6 only, so that `0.0.0.0` and `::` can both be had.
pub(super) fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let open = || -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    open().map_err(|source| ServeError::Listen { address, source })
}

/// The life of the thread that lets clients in at `listener`.
pub(super) fn keep(hub: &Arc<Hub>, listener: &TcpListener) {
    loop {
        let accepted = listener.accept();
        if hub.stopping.load(SeqCst) {
            return;
        }
        match accepted {
            Ok((stream, peer)) => take_in(hub, stream, peer),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
            Err(error) => {
                hub.complaints.add(Complaint::NoSocket, listener_address(listener));
                tracing::debug!(%error, "cannot accept a connection");
                // Descriptors, most likely: an idle connection has one.
                if !warden::free_places(hub) {
                    hub.sleep(EXHAUSTED_PAUSE);
                }
            }
        }
    }
}

fn listener_address(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().unwrap_or_else(|_| SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, 0)))
}

fn take_in(hub: &Arc<Hub>, stream: TcpStream, peer: SocketAddr) {
    if hub.connection_count() >= hub.options.connections_max && !warden::free_places(hub) {
        count(&hub.service.stats().connections_refused);
        return hub.complaints.add(Complaint::Crowded, peer);
    }
    if let Err(error) = prepare(&stream).and_then(|()| hub.open(stream, peer)) {
        tracing::debug!(%error, %peer, "a connection could not be set up");
        hub.complaints.add(Complaint::NoSocket, peer);
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))
}
