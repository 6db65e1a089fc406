//! Listening, and letting clients in.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::ServeError;
use super::hub::Hub;
use crate::stats::count;

/// Connections that may wait to be let in: a thousand clients come back at once after a restart.
const BACKLOG: i32 = 1024;
/// Connections let in at a time, so that one worker does not do only that.
const TURN_MAX: usize = 64;
/// A peer that is gone without a word is noticed after this and some probes.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// Without file descriptors there is nothing to do but wait until one is free.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

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
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    open().map_err(|source| ServeError::Listen { address, source })
}

/// Lets in who waits at the listener of `token`, and arms it again.
pub(super) fn accept(hub: &Arc<Hub>, token: u64) {
    let Some(listener) = usize::try_from(token - 1).ok().and_then(|at| hub.listeners.get(at)) else { return };
    for _ in 0..TURN_MAX {
        match listener.accept() {
            Ok((stream, peer)) => admit(hub, stream, peer),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; raise the limit on open files if this repeats");
                std::thread::sleep(EXHAUSTED_PAUSE);
                break;
            }
        }
    }
    if !hub.stopping.load(std::sync::atomic::Ordering::SeqCst)
        && let Err(error) = hub.poller.arm(listener, token, true, false)
    {
        tracing::error!(%error, "cannot watch a listening socket; restart the server");
    }
}

fn admit(hub: &Arc<Hub>, stream: TcpStream, peer: SocketAddr) {
    let limit = hub.options.connections_max;
    if hub.connection_count() >= limit {
        count(&hub.service.stats().connections_refused);
        tracing::warn!(%peer, limit, "connection refused: the limit on connections is reached; raise it if these are clients");
        return;
    }
    let prepared = stream
        .set_nonblocking(true)
        .and_then(|()| stream.set_nodelay(true))
        .and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE)));
    if let Err(error) = prepared.and_then(|()| hub.admit(stream, peer)) {
        tracing::warn!(%error, %peer, "a connection could not be set up");
    }
}
