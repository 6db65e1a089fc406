//! How often a pool is to be scrubbed, in the catalog beside the last scrub ([`super::job`]): kind 2, target 0.
//!
//! ```text
//!   0  form u8 = 1    1  every u8: 0 off, 1 weekly, 2 monthly    2
//! ```
//!
//! Without one it is monthly, as who comes from ZFS on Debian expects: its package has a job of cron's that scrubs all pools once a
//! month. Disks rot where nobody reads, and what a second disk could have repaired today it may not tomorrow.

use std::time::Duration;

use bytes::Bytes;
use tally_base::Time;

use super::{Pool, ScrubJob};
use crate::key::{Class, Key};

const KEY: Key = Key::new(Class::Job, 2, 0, 0);
const FORM: u8 = 1;
const DAY: Duration = Duration::from_secs(86_400);

/// See the module's head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ScrubEvery {
    /// Only when somebody asks.
    Off = 0,
    /// Seven days after the last one.
    Weekly = 1,
    /// Thirty days after the last one.
    #[default]
    Monthly = 2,
}

impl ScrubEvery {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Off, Self::Weekly, Self::Monthly];

    /// As it is set.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
        }
    }

    /// The one of a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|every| every.word() == word)
    }

    fn period(self) -> Option<Duration> {
        match self {
            Self::Off => None,
            Self::Weekly => Some(7 * DAY),
            Self::Monthly => Some(30 * DAY),
        }
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let [FORM, every] = value else { return None };
        Self::ALL.into_iter().find(|known| *known as u8 == *every)
    }
}

/// The schedule of an entry of the catalog, if it is one.
pub(crate) fn schedule_of(key: &Key, value: &[u8]) -> Option<ScrubEvery> {
    if *key == KEY { ScrubEvery::decode(value) } else { None }
}

impl Pool {
    /// How often it is to be scrubbed. What a newer program has set counts as the default.
    #[must_use]
    pub fn scrub_every(&self) -> ScrubEvery {
        self.kept.value(&KEY).and_then(|value| ScrubEvery::decode(&value)).unwrap_or_default()
    }

    /// Sets that, with the next group, which the caller asks for.
    pub fn set_scrub_every(&self, every: ScrubEvery) {
        self.kept.note(KEY, Some(Bytes::copy_from_slice(&[FORM, every as u8])));
    }

    /// When the next scrub is due: so long after the last one ended, or the pool was made. None if none is wanted, or if there is one
    /// that has not come to its end: it goes on by itself, or when whoever has paused it wants it to.
    #[must_use]
    pub fn scrub_due(&self) -> Option<Time> {
        let period = self.scrub_every().period()?;
        let job = self.scrub_job();
        if job.as_ref().is_some_and(ScrubJob::is_open) {
            return None;
        }
        let made = || self.datasets.read().values().next().map(|root| root.birth.created);
        let last = job.map(|job| job.changed).or_else(made)?;
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        Some(Time(last.0.saturating_add(period_ns)))
    }
}
