//! Whether a server keeps its word, judged from outside.
//!
//! A reply promises durability when it answers a procedure that modifies, a COMMIT, or a WRITE that says FILE_SYNC or
//! DATA_SYNC. With one request outstanding, each such reply needs at least one *durable device event* between the
//! request and itself: a completed flush, or a completed write known to be durable by itself ([`crate::work`]). How
//! many bytes are written does not matter, the order does: a server may write less than others and be right, and may
//! write everything, soon, and be wrong.
//!
//! So a lone client sends 200 requests of each kind, one at a time ([`probe`]), and looks at the counters right before
//! and right after. What the disks did in between can only be too much: somebody else's flush counts as well. The
//! count is thus an upper bound, and the verdict follows from it in this order:
//!
//! | what was seen | verdict |
//! |---|---|
//! | nobody counts, or the place promises nothing | UNVERIFIED |
//! | a kind with events, known or unknown, for less than 98 % of its replies | NOT DURABLE, by name |
//! | an idle disk has so many events that more than 2 % of replies would meet one by chance | UNVERIFIED |
//! | a kind with known events for less than 98 % (the rest are writes to a disk with FUA) | UNVERIFIED |
//! | otherwise | HONEST |
//!
//! Whoever is accused gets the benefit of one more doubt: 8 MiB are written, and if they never arrive at the disks that
//! are watched, those are not the server's, and the verdict is UNVERIFIED.
//!
//! A server that replies first and flushes right behind it would be helped by the next request's window. So the
//! probe waits before each request until the disks are at rest.
//!
//! **What it cannot see:** disks that forget what they have confirmed; a flush that leaves out the very block that
//! mattered; promises broken under load only.

mod probe;

use serde::{Deserialize, Serialize};

use crate::work::Work;

pub(crate) use probe::ask;
pub use probe::probe;

/// Requests of each kind that are sent. With 200, a server that is right half of the time is found out for certain.
pub const PROBES: u64 = 200;
/// The part of the replies that must have an event. Not all: counters of the kernel may be a tick late.
const PART_MIN: f64 = 0.98;
/// The part of the replies that may meet somebody else's event by chance.
const NOISE_MAX: f64 = 0.02;

/// Kinds of requests whose reply promises durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// CREATE, EXCLUSIVE and UNCHECKED in turns.
    Create,
    /// SETATTR of mode, times and size in turns.
    SetAttr,
    /// WRITE that asks for FILE_SYNC.
    WriteFileSync,
    /// WRITE that asks for DATA_SYNC.
    WriteDataSync,
    /// WRITE that asks for UNSTABLE and is told that it is stable.
    WriteToldStable,
    /// COMMIT behind an UNSTABLE WRITE.
    Commit,
    /// `write` and `close` on a mounted directory: a WRITE, or a COMMIT.
    WriteAndClose,
    /// `write` and `fsync` on a mounted directory.
    WriteAndFsync,
    /// MKDIR.
    MkDir,
    /// SYMLINK.
    SymLink,
    /// MKNOD of a named pipe.
    MkNod,
    /// LINK.
    Link,
    /// RENAME.
    Rename,
    /// REMOVE.
    Remove,
    /// RMDIR.
    RmDir,
}

impl Kind {
    /// As RFC 1813 calls it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::SetAttr => "SETATTR",
            Self::WriteFileSync => "WRITE FILE_SYNC",
            Self::WriteDataSync => "WRITE DATA_SYNC",
            Self::WriteToldStable => "WRITE UNSTABLE told stable",
            Self::Commit => "COMMIT",
            Self::WriteAndClose => "write+close",
            Self::WriteAndFsync => "write+fsync",
            Self::MkDir => "MKDIR",
            Self::SymLink => "SYMLINK",
            Self::MkNod => "MKNOD",
            Self::Link => "LINK",
            Self::Rename => "RENAME",
            Self::Remove => "REMOVE",
            Self::RmDir => "RMDIR",
        }
    }
}

/// What came of one lone request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    /// It was answered, and this happened meanwhile. The kind is that of the answer.
    Answered {
        /// What the reply promises by.
        kind: Kind,
        /// What the disks did between request and reply.
        work: Work,
        /// How long that took.
        took: std::time::Duration,
    },
    /// The server does not do this, so it promises nothing.
    Refused(String),
}

/// How one kind fared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindCount {
    /// The kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Replies.
    pub replies: u64,
    /// Replies with at least one durable event.
    pub durable: u64,
    /// Replies without one, but with a write of which nobody can tell.
    pub unknown: u64,
    /// Why there are no replies.
    pub refused: Option<String>,
}

impl KindCount {
    /// No replies yet.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self { kind, name: kind.word().to_owned(), replies: 0, durable: 0, unknown: 0, refused: None }
    }

    fn add(&mut self, work: &Work) {
        self.replies += 1;
        self.durable += u64::from(work.durable_events > 0);
        self.unknown += u64::from(work.durable_events == 0 && work.unknown_events > 0);
    }

    fn enough(&self, events: u64) -> bool {
        #[allow(clippy::cast_precision_loss)] // Some hundreds.
        let part = events as f64 / self.replies.max(1) as f64;
        self.replies == 0 || part >= PART_MIN
    }
}

/// What a probe has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Whose counters were looked at.
    pub source: String,
    /// Each kind.
    pub kinds: Vec<KindCount>,
    /// Durable events in a second in which nothing was asked.
    pub idle_events_per_second: f64,
    /// Mean time between the looks before and behind a request, seconds.
    pub window_seconds: f64,
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Verdict {
    /// Every kind keeps what its replies promise, as far as can be seen.
    Honest,
    /// Some kinds do not.
    NotDurable {
        /// `CREATE: 0 of 200`.
        kinds: Vec<String>,
    },
    /// It could not be seen.
    Unverified {
        /// Why.
        reason: String,
    },
}

impl Findings {
    /// The verdict on what was seen.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let broken = self.kinds.iter().filter(|count| !count.enough(count.durable + count.unknown));
        let kinds: Vec<String> =
            broken.map(|count| format!("{}: {} of {}", count.name, count.durable, count.replies)).collect();
        if !kinds.is_empty() {
            return Verdict::NotDurable { kinds };
        }
        if self.kinds.iter().all(|count| count.replies == 0) {
            return Verdict::Unverified { reason: "no request of any kind was answered".into() };
        }
        let noise = self.idle_events_per_second * self.window_seconds;
        if noise > NOISE_MAX {
            let percent = noise * 100.0;
            let reason =
                format!("somebody else uses the disks: {percent:.0} % of the replies meet a foreign flush by chance");
            return Verdict::Unverified { reason };
        }
        let unknown: Vec<&str> =
            self.kinds.iter().filter(|count| !count.enough(count.durable)).map(|count| count.name.as_str()).collect();
        if !unknown.is_empty() {
            let reason =
                format!("the disk has FUA, and whether the writes for {} used it cannot be seen", unknown.join(", "));
            return Verdict::Unverified { reason };
        }
        Verdict::Honest
    }
}

impl Verdict {
    /// The word for tables.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Honest => "HONEST",
            Self::NotDurable { .. } => "NOT DURABLE",
            Self::Unverified { .. } => "UNVERIFIED",
        }
    }

    /// The verdict on several runs: as bad as the worst, with all that was found.
    #[must_use]
    pub fn worst(verdicts: impl IntoIterator<Item = Self>) -> Self {
        verdicts.into_iter().reduce(Self::worse).unwrap_or(Self::Unverified { reason: "nothing was run".into() })
    }

    fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::NotDurable { mut kinds }, Self::NotDurable { kinds: more }) => {
                let known: Vec<String> = kinds.iter().map(|line| kind_of(line).to_owned()).collect();
                kinds.extend(more.into_iter().filter(|line| !known.iter().any(|known| known == kind_of(line))));
                Self::NotDurable { kinds }
            }
            (broken @ Self::NotDurable { .. }, _) | (_, broken @ Self::NotDurable { .. }) => broken,
            (unseen @ Self::Unverified { .. }, _) | (_, unseen @ Self::Unverified { .. }) => unseen,
            (Self::Honest, Self::Honest) => Self::Honest,
        }
    }
}

fn kind_of(line: &str) -> &str {
    line.split(':').next().unwrap_or(line)
}

#[cfg(test)]
mod tests;
