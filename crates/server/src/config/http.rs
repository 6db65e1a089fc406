//! Where the dashboard is to be, in words.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The port when none was asked for: beside NFS's second one. Prometheus' own list of ports, 9100 to 9999, is full.
pub const PORT_HTTP: u16 = 12050;

/// Where browsers and Prometheus are answered, which is for reading alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpListen {
    /// Nowhere.
    Off,
    /// There.
    At(SocketAddr),
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
