//! What a label says beyond the configuration: settings of the pool, and losses that were accepted.
//!
//! It is a section of its own, and stands there only where it says something. Without it a pool is what it was: a program
//! that does not know this section may write.

use tally_base::{Time, Txg};

/// Reports that are kept; an older one goes for a newer.
const LOSSES_MAX: usize = 8;
/// Lines of one report, and bytes of one line: a label has room for 64 KiB of everything.
const LOSS_LINES_MAX: usize = 8;
/// See [`LOSS_LINES_MAX`].
const LOSS_LINE_BYTES_MAX: usize = 400;

const _: () = assert!(LOSSES_MAX * LOSS_LINES_MAX * (LOSS_LINE_BYTES_MAX + 8) < 32 << 10);

/// What a suspended pool answers to changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// Clients wait until the pool is imported again.
    #[default]
    Wait,
    /// An I/O error. What can be read is read.
    Continue,
}

impl FailMode {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Wait, Self::Continue];

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
        Self::ALL.into_iter().find(|mode| mode.word() == word)
    }
}

/// Acknowledged changes that were given up (rules F26).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossReport {
    /// When they were given up.
    pub time: Time,
    /// The newest group of the pool then.
    pub txg: Txg,
    /// What was missing, for people; long lines are shortened.
    pub lines: Vec<String>,
}

/// See the head of this module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supplement {
    /// What a suspended pool answers.
    pub failmode: FailMode,
    /// Losses that were accepted, oldest first.
    pub losses: Vec<LossReport>,
}

impl Supplement {
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
