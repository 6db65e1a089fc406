//! The domain of names of owners, as NFSv4 has them.

use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest domain, characters: as of DNS (RFC 1035 §2.3.4).
const LENGTH_MAX: usize = 253;

/// A domain: words of letters, digits and hyphens with dots between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain(String);

impl Domain {
    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Domain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_letter = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(is_letter) && !word.starts_with('-');
        if text.len() <= LENGTH_MAX && text.split('.').all(is_word) {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "a domain of NFSv4 is letters, digits and hyphens with dots between, as example.org, and not '{text}'"
            ))
        }
    }
}

impl Serialize for Domain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Domain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
