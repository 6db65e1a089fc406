//! How long a client of NFSv4 may say nothing, in words.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tally_nfs::v4::state::{LEASE_DEFAULT, LEASE_MAX, LEASE_MIN};

/// A lease, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTime(Duration);

impl LeaseTime {
    /// How long it is.
    #[must_use]
    pub fn time(self) -> Duration {
        self.0
    }

    fn of_seconds(seconds: u64) -> Option<Self> {
        Some(Duration::from_secs(seconds)).filter(|time| (LEASE_MIN..=LEASE_MAX).contains(time)).map(Self)
    }
}

impl Default for LeaseTime {
    fn default() -> Self {
        Self(LEASE_DEFAULT)
    }
}

impl FromStr for LeaseTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = (LEASE_MIN.as_secs(), LEASE_MAX.as_secs());
        let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let lease = text.parse().ok().filter(|_| is_digits).and_then(Self::of_seconds);
        lease.ok_or_else(|| format!("a lease of NFSv4 is whole seconds, from {least} to {most}, and not '{text}'"))
    }
}

impl fmt::Display for LeaseTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_secs().fmt(f)
    }
}

impl Serialize for LeaseTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0.as_secs())
    }
}

impl<'de> Deserialize<'de> for LeaseTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Of any kind, so that one sentence says what is wrong with it.
        let value = toml::Value::deserialize(deserializer)?;
        let text = value.as_integer().map_or_else(|| value.to_string(), |seconds| seconds.to_string());
        text.parse().map_err(D::Error::custom)
    }
}
