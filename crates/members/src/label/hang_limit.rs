//! For how long a leg that others can stand in for may owe an answer: a setting of the pool, in a section of its own.

use std::fmt;
use std::time::Duration;

/// The longest limit that can be set, in seconds: a day.
pub const HANG_LIMIT_SECONDS_MAX: u32 = 86_400;

/// Flash answers within milliseconds; what takes so long is its controller's reset.
const AUTO_FLASH: Duration = Duration::from_secs(10);
/// A disk may try a bad sector again for many seconds, and a bus that is reset takes others along.
const AUTO_ROTATIONAL: Duration = Duration::from_secs(30);

/// After how long a leg that hangs is struck off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HangLimit {
    /// As long as its kind of disk can take and be well.
    #[default]
    Auto,
    /// Never: it is waited for.
    Off,
    /// After so many seconds, 1 to [`HANG_LIMIT_SECONDS_MAX`].
    Seconds(u32),
}

impl HangLimit {
    /// The limit of that name: `auto`, `off`, or seconds.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            "off" => Some(Self::Off),
            seconds => seconds.parse().ok().and_then(Self::of_seconds),
        }
    }

    pub(super) fn of_seconds(seconds: u32) -> Option<Self> {
        (1..=HANG_LIMIT_SECONDS_MAX).contains(&seconds).then_some(Self::Seconds(seconds))
    }

    /// For a disk of this kind.
    #[must_use]
    pub const fn of_disk(self, rotational: bool) -> Option<Duration> {
        match self {
            Self::Off => None,
            Self::Auto if rotational => Some(AUTO_ROTATIONAL),
            Self::Auto => Some(AUTO_FLASH),
            Self::Seconds(seconds) => Some(Duration::from_secs(seconds as u64)),
        }
    }
}

/// The value of the property.
impl fmt::Display for HangLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::Seconds(seconds) => write!(f, "{seconds}"),
        }
    }
}
