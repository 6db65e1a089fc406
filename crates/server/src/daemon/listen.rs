//! Sockets for NFS: on which addresses, and on which port when none was asked for.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

/// NFS's own port.
pub const PORT_NFS: u16 = 2049;
/// The port when [`PORT_NFS`] is taken, most likely by the kernel's own server.
pub const PORT_FALLBACK: u16 = 12049;

/// Connections that the kernel may have accepted before we did.
const BACKLOG: i32 = 1024;

/// Why nobody can connect.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody else has the port.
    #[error(
        "port {port} of {address} is taken by another program; choose another one with --port (`ss -ltnp` tells \
         who has it)"
    )]
    Taken {
        /// On which address.
        address: IpAddr,
        /// Which port.
        port: u16,
    },
    /// The address is none of this machine's, or the port needs rights.
    #[error("cannot listen on {address} port {port}: {source}")]
    Refused {
        /// On which address.
        address: IpAddr,
        /// Which port.
        port: u16,
        /// What the kernel says.
        source: io::Error,
    },
    /// No address at all.
    #[error("there is no address to listen on: name one with --listen, or `listen` in the configuration")]
    Nowhere,
}

/// How long to wait for the port that was asked for: one who restarts a server does not wait until the kernel has
/// buried the old one.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_STEP: Duration = Duration::from_millis(50);

/// Listens on all `addresses`, on the same port: the one that was `asked` for; else the `last` one, which clients have
/// in their mounts; else the first of [`PORT_NFS`] and [`PORT_FALLBACK`] that is free on all of them.
pub fn listen(addresses: &[IpAddr], asked: Option<u16>, last: Option<u16>) -> Result<Vec<TcpListener>, ListenError> {
    if let Some(port) = asked {
        return listen_patiently(addresses, port);
    }
    if let Some(port) = last {
        match listen_patiently(addresses, port) {
            Err(error @ ListenError::Taken { .. }) => {
                tracing::warn!(%error, "clients of the last run will not find the server at its new port");
            }
            other => return other,
        }
    }
    listen_on_one_of(addresses, &[PORT_NFS, PORT_FALLBACK])
}

fn listen_patiently(addresses: &[IpAddr], port: u16) -> Result<Vec<TcpListener>, ListenError> {
    let started = Instant::now();
    loop {
        match listen_all(addresses, port) {
            Err(ListenError::Taken { .. }) if started.elapsed() < PATIENCE => std::thread::sleep(PATIENCE_STEP),
            other => return other,
        }
    }
}

fn listen_on_one_of(addresses: &[IpAddr], ports: &[u16]) -> Result<Vec<TcpListener>, ListenError> {
    let mut last = ListenError::Nowhere;
    for &port in ports {
        match listen_all(addresses, port) {
            Err(error @ ListenError::Taken { .. }) => last = error,
            other => return other,
        }
    }
    Err(last)
}

fn listen_all(addresses: &[IpAddr], mut port: u16) -> Result<Vec<TcpListener>, ListenError> {
    let mut listeners = Vec::new();
    for &address in addresses {
        match bind(SocketAddr::new(address, port)) {
            Ok(listener) => {
                // Port 0 lets the kernel choose, once for all addresses.
                port = listener.local_addr().map_or(port, |bound| bound.port());
                listeners.push(listener);
            }
            // A machine without IPv6 is no reason not to serve by IPv4: neither its loopback nor all of it.
            Err(error)
                if (address.is_loopback() || address.is_unspecified()) && addresses.len() > 1 && !available(&error) =>
            {
                tracing::info!(%address, %error, "this machine has no such address");
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(ListenError::Taken { address, port });
            }
            Err(source) => return Err(ListenError::Refused { address, port, source }),
        }
    }
    if listeners.is_empty() { Err(ListenError::Nowhere) } else { Ok(listeners) }
}

/// Whether the address exists here, going by why it could not be used.
fn available(error: &io::Error) -> bool {
    let missing = [rustix::io::Errno::ADDRNOTAVAIL, rustix::io::Errno::AFNOSUPPORT];
    !missing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// A listening socket.
pub(super) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // Connections of the last run that linger in TIME_WAIT must not keep a restart from its port.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `::` beside `0.0.0.0` is what people write; each gets its own half.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests;
