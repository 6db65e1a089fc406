//! Where the dashboard is: a default that gives way, or what somebody asked for.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::daemon::listen::bind;

/// The port when none was asked for: beside NFS's second one. Prometheus' own list of ports, 9100 to 9999, is full.
pub const PORT_HTTP: u16 = 12050;

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpListen {
    /// Nowhere.
    Off,
    /// There.
    At(SocketAddr),
}

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

impl FromStr for HttpListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse()
            .map(Self::At)
            .map_err(|_| format!("'{text}' is not like 127.0.0.1:{PORT_HTTP} or [::1]:{PORT_HTTP}, and not 'off'"))
    }
}

impl fmt::Display for HttpListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl Serialize for HttpListen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HttpListen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
