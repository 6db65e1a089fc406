//! Whether a server keeps its word, judged from outside.
//!
//! A reply promises durability when it answers a procedure that modifies, a COMMIT, or a WRITE that says FILE_SYNC or
//! DATA_SYNC. With one request outstanding, each such reply needs at least one *durable device event* between the
//! request and itself: a completed flush, or a completed write known to be durable by itself ([`crate::work`]). How
//! many bytes are written does not matter, the order does: a server may write less than others and be right, and may
//! write everything, soon, and be wrong.
//!
//! So a lone client sends 200 requests of each kind, one at a time ([`probe`]), and looks at the counters right before
//! and right after ([`lookout`]). A flush says nothing of whose bytes it made durable, so a reply counts only where the
//! disks were written to as well. What they did can only be too much: somebody else's flush counts too. How often one
//! would meet a reply by chance is seen by *blind looks*, of the same length, with nothing asked between. The verdict
//! follows in this order:
//!
//! | what was seen | verdict |
//! |---|---|
//! | nobody counts, or the place promises nothing | UNVERIFIED |
//! | a kind with events, known or unknown, for less than 98 % of its replies | NOT DURABLE, by name |
//! | the same, but before those replies a disk that is not watched was written to and flushed | UNVERIFIED |
//! | more than 20 % of the blind looks saw a flush, or a write: that many replies tell nothing | UNVERIFIED |
//! | a kind with known events for less than 98 % (the rest are writes to a disk with FUA) | UNVERIFIED |
//! | a kind that the case used, and that was refused to the probe | UNVERIFIED |
//! | a measured part with promises and without any event | NOT DURABLE |
//! | otherwise | HONEST |
//!
//! Nobody is accused by disks that are not his: either another kind has its events there, or what is written must
//! arrive there thrice, over what arrives when nothing is written ([`crate::run`]). Else the verdict is UNVERIFIED.
//!
//! A server that replies first and flushes right behind it would be helped by the next request's window. So the
//! probe waits before each request until the disks are at rest, and before every tenth for longer.
//!
//! **What it cannot see:** disks that forget what they have confirmed; a flush that leaves out the very block that
//! mattered; memory that keeps what it holds and is no block device; promises broken under load only. The statistics
//! are in docs/design/0034.

mod lookout;
mod pace;
mod probe;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stage::Phase;
use crate::work::Work;

pub use lookout::Lookout;
pub use pace::Pace;
pub use probe::probe;

/// The part of the replies that must have an event. Not all: counters of the kernel may be a tick late.
const PART_MIN: f64 = 0.98;
/// The part of the replies that may meet somebody else's event by chance. Four of five then tell something, and who
/// keeps his word once in a while still misses far more than [`PART_MIN`] allows.
const NOISE_MAX: f64 = 0.2;

/// Kinds of requests whose reply promises durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// CREATE EXCLUSIVE, as `O_CREAT | O_EXCL` sends it.
    CreateExclusive,
    /// CREATE UNCHECKED. On a mounted directory: `open` with O_EXCL, of which the kernel makes what it likes.
    Create,
    /// SETATTR of mode, times and size in turns.
    SetAttr,
    /// WRITE that asks for FILE_SYNC.
    WriteFileSync,
    /// WRITE that asks for DATA_SYNC.
    WriteDataSync,
    /// WRITE that asks for UNSTABLE and is told that it is stable.
    WriteToldStable,
    /// UNSTABLE WRITE and the COMMIT right behind it, together: what was flushed with the first need not be again.
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
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::CreateExclusive,
        Self::Create,
        Self::SetAttr,
        Self::WriteFileSync,
        Self::WriteDataSync,
        Self::WriteToldStable,
        Self::Commit,
        Self::WriteAndClose,
        Self::WriteAndFsync,
        Self::MkDir,
        Self::SymLink,
        Self::MkNod,
        Self::Link,
        Self::Rename,
        Self::Remove,
        Self::RmDir,
    ];

    /// As RFC 1813 calls it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::CreateExclusive => "CREATE EXCLUSIVE",
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
        /// Other disks that were written to and flushed between them.
        elsewhere: Vec<String>,
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
    /// Requests that were refused.
    #[serde(default)]
    pub refusals: u64,
    /// Why, the last time.
    pub refused: Option<String>,
    /// Replies before which a disk was written to and flushed that is not watched, by its name.
    #[serde(default)]
    pub elsewhere: BTreeMap<String, u64>,
}

impl KindCount {
    /// No replies yet.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        let (name, elsewhere) = (kind.word().to_owned(), BTreeMap::new());
        Self { kind, name, replies: 0, durable: 0, unknown: 0, refusals: 0, refused: None, elsewhere }
    }

    /// A flush of nothing proves nothing.
    fn add(&mut self, work: &Work, elsewhere: Vec<String>) {
        let wrote = work.write_bytes > 0;
        self.replies += 1;
        self.durable += u64::from(wrote && work.durable_events > 0);
        self.unknown += u64::from(wrote && work.durable_events == 0 && work.unknown_events > 0);
        elsewhere.into_iter().for_each(|disk| *self.elsewhere.entry(disk).or_default() += 1);
    }

    /// Whether enough was answered for a verdict on it.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.replies > self.refusals
    }

    fn enough(&self, events: u64) -> bool {
        share(events, self.replies) >= PART_MIN
    }

    fn is_broken(&self) -> bool {
        self.replies > 0 && !self.enough(self.durable + self.unknown)
    }

    /// The disk that had what this kind promises, though nobody watches it.
    fn excuse(&self) -> Option<&str> {
        self.elsewhere.iter().find(|(_, events)| self.enough(**events)).map(|(disk, _)| disk.as_str())
    }
}

#[allow(clippy::cast_precision_loss)] // Some hundreds.
fn share(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
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
    /// What was seen with nothing asked.
    #[serde(default)]
    pub blind: Blind,
}

/// Looks as long as those around a request, with nothing asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blind {
    /// How many.
    pub looks: u64,
    /// Those that saw a durable event, or one that may be.
    pub events: u64,
    /// Those that saw bytes written.
    pub writes: u64,
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
        let broken = self.kinds.iter().filter(|count| count.is_broken() && count.excuse().is_none());
        let kinds: Vec<String> =
            broken.map(|count| format!("{}: {} of {}", count.name, count.durable, count.replies)).collect();
        if !kinds.is_empty() {
            return Verdict::NotDurable { kinds };
        }
        let unseen = self.other_disks().or_else(|| self.nothing()).or_else(|| self.noise()).or_else(|| self.fua());
        unseen.map_or(Verdict::Honest, |reason| Verdict::Unverified { reason })
    }

    /// Whether some kind has its events on the disks that are watched, and not by chance.
    #[must_use]
    pub fn disks_are_theirs(&self) -> bool {
        let seen = |count: &KindCount| count.is_judged() && count.enough(count.durable);
        self.noise().is_none() && self.kinds.iter().any(seen)
    }

    /// Why the disks that are watched are not those that matter, or not all of them.
    #[must_use]
    pub fn other_disks(&self) -> Option<String> {
        let excused = |count: &&KindCount| count.is_broken() && count.excuse().is_some();
        let kinds: Vec<&KindCount> = self.kinds.iter().filter(excused).collect();
        let disk = kinds.first()?.excuse()?;
        let names: Vec<&str> = kinds.iter().map(|count| count.name.as_str()).collect();
        Some(format!(
            "{disk}, which is not watched, was written to and flushed before the replies to {}: name it with --device \
             as well if it is the server's",
            names.join(", ")
        ))
    }

    fn nothing(&self) -> Option<String> {
        let nothing = self.kinds.iter().all(|count| !count.is_judged());
        nothing.then(|| "no request of any kind was answered".into())
    }

    fn noise(&self) -> Option<String> {
        let Blind { looks, events, writes } = self.blind;
        let (event, write) = (share(events, looks), share(writes, looks));
        let what = if event > NOISE_MAX { "flush" } else { "write" };
        let percent = event.max(write) * 100.0;
        (event.max(write) > NOISE_MAX).then(|| {
            format!("somebody else uses the disks: {percent:.0} % of the replies meet a foreign {what} by chance")
        })
    }

    fn fua(&self) -> Option<String> {
        let unknown = self.kinds.iter().filter(|count| count.replies > 0 && !count.enough(count.durable));
        let unknown: Vec<&str> = unknown.map(|count| count.name.as_str()).collect();
        (!unknown.is_empty()).then(|| {
            format!("the disk has FUA, and whether the writes for {} used it cannot be seen", unknown.join(", "))
        })
    }

    /// The verdict where a case was run as well: one that was HONEST by the lone requests holds only for the kinds that
    /// were judged, and where the disks did something at all.
    #[must_use]
    pub fn with_case(&self, verdict: Verdict, phases: &[Phase]) -> Verdict {
        if verdict != Verdict::Honest {
            return verdict;
        }
        let idle = |phase: &&Phase| {
            phase.promises > 0 && phase.work.is_some_and(|work| work.durable_events + work.unknown_events == 0)
        };
        let empty: Vec<String> =
            phases.iter().filter(idle).map(|phase| format!("{}: 0 of {}", phase.name, phase.promises)).collect();
        if !empty.is_empty() {
            return Verdict::NotDurable { kinds: empty };
        }
        let used = phases.iter().flat_map(|phase| &phase.kinds);
        let mut unjudged: Vec<&str> = used.filter(|kind| !self.has_judged(**kind)).map(|kind| kind.word()).collect();
        unjudged.sort_unstable();
        unjudged.dedup();
        if unjudged.is_empty() {
            return verdict;
        }
        Verdict::Unverified { reason: format!("used, but refused to the lone probe: {}", unjudged.join(", ")) }
    }

    /// A COMMIT has nothing to promise where every WRITE is said to be stable, and those are judged.
    fn has_judged(&self, kind: Kind) -> bool {
        let is_it =
            |count: &KindCount| count.kind == kind || (kind == Kind::Commit && count.kind == Kind::WriteToldStable);
        self.kinds.iter().any(|count| is_it(count) && count.is_judged())
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
