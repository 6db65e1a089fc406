//! Where the dashboard is: a default that gives way, or what somebody asked for.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::config::{HttpListen, PORT_HTTP};
use crate::daemon::listen::bind;

/// Why nobody can look, though somebody asked for it.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot serve the dashboard on {address}: {source}\nChoose another address with --http ADDRESS:PORT or `listen` in \
     the section [http] of the configuration, or do without it: --http off."
)]
pub struct HttpError {
    /// Where.
    pub address: SocketAddr,
    /// What the kernel says.
    pub source: io::Error,
}

/// The socket; `None` if it is off, or if nobody asked for it and the default's port is taken.
pub(in crate::daemon) fn listen(asked: Option<HttpListen>) -> Result<Option<TcpListener>, HttpError> {
    match asked {
        Some(HttpListen::Off) => Ok(None),
        Some(HttpListen::At(address)) => match bind(address) {
            Ok(listener) => Ok(Some(listener)),
            Err(source) => Err(HttpError { address, source }),
        },
        None => {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT_HTTP));
            let bound = bind(address);
            if let Err(error) = &bound {
                tracing::warn!(%address, %error, "there is no dashboard in this run; choose its address with --http");
            }
            Ok(bound.ok())
        }
    }
}
