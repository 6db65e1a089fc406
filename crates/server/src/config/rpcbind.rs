//! How clients find us that ask a portmapper.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where clients of NFSv3 look for a port that their mount does not name: at port 111, which is rpcbind's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rpcbind {
    /// Registers with an rpcbind, if one answers; else answers in its place.
    #[default]
    Auto,
    /// Registers.
    Register,
    /// Answers itself.
    Serve,
    /// Clients name the port.
    Off,
}

const WORDS: [(&str, Rpcbind); 4] =
    [("auto", Rpcbind::Auto), ("register", Rpcbind::Register), ("serve", Rpcbind::Serve), ("off", Rpcbind::Off)];

impl FromStr for Rpcbind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let word = WORDS.iter().find(|(word, _)| *word == text).map(|(_, how)| *how);
        word.ok_or_else(|| format!("'{text}' is not one of auto, register, serve and off"))
    }
}

impl fmt::Display for Rpcbind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WORDS.iter().find(|(_, how)| how == self).map_or("", |(word, _)| word))
    }
}

impl Serialize for Rpcbind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rpcbind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words)
    }
}

struct Words;

impl Visitor<'_> for Words {
    type Value = Rpcbind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"auto\", \"register\", \"serve\" or \"off\"")
    }

    /// As it was said at first.
    fn visit_bool<E: Error>(self, registers: bool) -> Result<Rpcbind, E> {
        Ok(if registers { Rpcbind::Register } else { Rpcbind::Off })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Rpcbind, E> {
        text.parse().map_err(E::custom)
    }
}
