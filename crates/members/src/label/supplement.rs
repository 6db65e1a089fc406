//! What a label says beyond the configuration: settings of the pool, and losses that were accepted.
//!
//! It stands behind the configuration in the payload, and only where it says something. So a label of the first
//! format is one with nothing behind it, and a program that does not know this part reads the configuration and stops
//! there: the feature is a compatible one. Such a program drops it with the next label it writes, which costs a setting,
//! not data.

use tally_base::{Time, Txg};

use super::PoolConfig;

/// Reports that are kept; an older one goes for a newer.
const LOSSES_MAX: usize = 8;
/// Lines of one report, and bytes of one line: a label has room for 64 KiB of everything.
const LOSS_LINES_MAX: usize = 8;
/// See [`LOSS_LINES_MAX`].
const LOSS_LINE_BYTES_MAX: usize = 400;

const _: () = assert!(LOSSES_MAX * LOSS_LINES_MAX * (LOSS_LINE_BYTES_MAX + 8) < 32 << 10);

/// What a suspended pool answers to changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum FailMode {
    /// Clients wait until the pool is imported again.
    #[default]
    Wait,
    /// An I/O error. What can be read is read.
    Continue,
}

impl FailMode {
    /// The value of the property.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Continue => "continue",
        }
    }

    /// The mode of that name.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Wait, Self::Continue].into_iter().find(|mode| mode.word() == word)
    }
}

/// Acknowledged changes that were given up (rules F26).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LossReport {
    /// When.
    pub time: Time,
    /// The newest group of the pool then.
    pub txg: Txg,
    /// What was missing.
    pub lines: Vec<String>,
}

/// See the head of this module.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Supplement {
    /// What a suspended pool answers.
    pub failmode: FailMode,
    /// Losses that were accepted, oldest first.
    pub losses: Vec<LossReport>,
}

impl Supplement {
    /// The bytes behind the configuration.
    pub(super) fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        if *self == Self::default() { Ok(Vec::new()) } else { postcard::to_stdvec(self) }
    }

    /// Reads what [`Supplement::encode`] wrote. What cannot be understood was written by a program with more modes; it is
    /// as if it were not there.
    pub(super) fn decode(bytes: &[u8]) -> Self {
        postcard::from_bytes(bytes).unwrap_or_default()
    }

    /// Notes an accepted loss, within bounds. The same one again, after a crash in the import, is the same report.
    pub(crate) fn note_loss(&mut self, time: Time, txg: Txg, losses: &[String]) {
        let mut lines: Vec<String> = losses.iter().take(LOSS_LINES_MAX).map(|line| shortened(line)).collect();
        if losses.len() > LOSS_LINES_MAX {
            lines.truncate(LOSS_LINES_MAX - 1);
            lines.push(format!("and {} more", losses.len() - lines.len()));
        }
        self.losses.retain(|report| report.lines != lines);
        self.losses.push(LossReport { time, txg, lines });
        let surplus = self.losses.len().saturating_sub(LOSSES_MAX);
        self.losses.drain(..surplus);
    }
}

fn shortened(line: &str) -> String {
    match line.char_indices().find(|(at, c)| at + c.len_utf8() > LOSS_LINE_BYTES_MAX) {
        Some((end, _)) => line.get(..end).unwrap_or_default().to_owned() + "…",
        None => line.to_owned(),
    }
}

impl PoolConfig {
    /// Changes the supplement, and says in the features whether there is one.
    pub(crate) fn supplement_mut(&mut self, change: impl FnOnce(&mut Supplement)) {
        change(&mut self.supplement);
        let bit = super::features::SUPPLEMENT;
        let is_used = self.supplement != Supplement::default();
        self.features.compat = if is_used { self.features.compat | bit } else { self.features.compat & !bit };
    }
}
