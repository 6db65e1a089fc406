//! Whether a server keeps its word, judged from outside.
//!
//! A reply promises durability when it answers a procedure that modifies, a COMMIT, or a WRITE that says FILE_SYNC or
//! DATA_SYNC. With one request outstanding, each such reply needs a *durable device event* between the request and
//! itself: a completed flush, or a completed write known to be durable by itself ([`crate::work`]). And it needs bytes:
//! what was asked for was nowhere before, so the disks must have got it in that time, content that is noise in full. A
//! server may write less than others and be right, and may write everything, soon, and be wrong.
//!
//! So a lone client sends 200 requests of each kind, one at a time ([`probe`]), and looks at the counters right before
//! and right after. What the disks did in between can only be too much: what somebody else writes counts as well. How
//! often that helps is measured in as many blank windows, in which nothing is asked. The verdict follows in this order
//! (docs/design/0034):
//!
//! | what was seen | verdict |
//! |---|---|
//! | nobody counts, or the place promises nothing | UNVERIFIED |
//! | a kind whose replies have what they need in less than 98 % | NOT DURABLE, by name |
//! | – but other disks of the machine had an event for 98 % of them | UNVERIFIED |
//! | – but what is written never arrives at the disks that are watched ([`mark`]) | UNVERIFIED |
//! | more than 20 % of the blank windows had an event, or bytes enough for a change | UNVERIFIED |
//! | a kind with known events for less than 98 % (the rest are writes to a disk with FUA) | UNVERIFIED |
//! | what the case used is a kind that the probe saw none of, or its promises have no events | UNVERIFIED |
//! | otherwise | HONEST |
//!
//! A server that replies first and flushes right behind it would be helped by the next request's window. So the probe
//! waits before each until the disks have been at rest for a while, and for another while each time: what comes at a
//! fixed time behind a reply, or by a clock, rarely falls into the short window of the next.
//!
//! **What it cannot see:** disks that forget what they have confirmed; a flush that wrote something, but leaves out the
//! very block that mattered; a log on another machine; promises broken under load only.

mod mark;
mod probe;

use serde::{Deserialize, Serialize};

use crate::promise::Kind;
use crate::witness::{CHANGE_BYTES, Seen};
use crate::work::Work;

pub(crate) use mark::disks_are_theirs;
pub use probe::probe;

/// The part of the replies that must have an event. Not all: counters of the kernel may be a tick late.
const PART_MIN: f64 = 0.98;
/// The part of the replies that may meet somebody else's event by chance. A server that always lies has then 20 % where
/// 98 % are needed, and one that lies every tenth time 92 %.
const NOISE_MAX: f64 = 0.2;

/// How one kind fared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindCount {
    /// What the replies promised by.
    pub kind: Kind,
    /// [`Kind::word`], so that a saved report can be read without the program.
    pub name: String,
    /// Requests that were answered and looked at; those that were refused are not among them.
    pub replies: u64,
    /// Replies with at least one durable event, and bytes enough.
    pub durable: u64,
    /// Replies without an event, but with a write of which nobody can tell.
    pub unknown: u64,
    /// Replies with neither, but with an event on a disk that is not watched.
    #[serde(default)]
    pub elsewhere: u64,
    /// Requests that were refused.
    #[serde(default)]
    pub refusals: u64,
    /// Why, the last time.
    pub refused: Option<String>,
}

impl KindCount {
    /// No replies yet.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        let name = kind.word().to_owned();
        Self { kind, name, replies: 0, durable: 0, unknown: 0, elsewhere: 0, refusals: 0, refused: None }
    }

    fn add(&mut self, seen: &Seen) {
        self.replies += 1;
        if seen.work.may_hold(seen.bytes) {
            self.durable += u64::from(seen.work.durable_events > 0);
            self.unknown += u64::from(seen.work.durable_events == 0);
        } else {
            self.elsewhere += u64::from(seen.elsewhere.may_hold(0));
        }
    }

    /// Whether so much of it was answered that it can be judged.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.replies > self.refusals
    }

    fn enough(&self, events: u64) -> bool {
        self.replies == 0 || part(events, self.replies) >= PART_MIN
    }

    fn is_kept(&self) -> bool {
        self.enough(self.durable + self.unknown)
    }

    fn is_kept_elsewhere(&self) -> bool {
        self.enough(self.durable + self.unknown + self.elsewhere)
    }

    fn words(&self) -> String {
        format!("{}: {} of {}", self.name, self.durable, self.replies)
    }
}

#[allow(clippy::cast_precision_loss)] // Some hundreds.
fn part(of: u64, all: u64) -> f64 {
    of as f64 / all.max(1) as f64
}

/// Windows of the length of a request in which nothing was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blanks {
    /// All such windows.
    pub windows: u64,
    /// Those with an event, known or unknown.
    pub with_events: u64,
    /// Those with bytes enough for a change.
    pub with_bytes: u64,
}

impl Blanks {
    fn add(&mut self, work: &Work) {
        self.windows += 1;
        self.with_events += u64::from(work.may_hold(0));
        self.with_bytes += u64::from(work.write_bytes >= CHANGE_BYTES);
    }

    /// Why no reply can be told from somebody else's doings.
    fn noise(&self) -> Option<String> {
        let reason = |what: &str, of: u64| {
            let percent = part(of, self.windows) * 100.0;
            format!("somebody else uses the disks: {percent:.0} % of the times in which nothing was asked had {what}")
        };
        let is_noise = |of: u64| part(of, self.windows) > NOISE_MAX;
        if is_noise(self.with_events) {
            return Some(reason("a flush or a durable write", self.with_events));
        }
        is_noise(self.with_bytes)
            .then(|| reason("a write, and so nobody sees what a flush before a reply made durable", self.with_bytes))
    }
}

/// What a probe has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Whose counters were looked at.
    pub source: String,
    /// Of each kind of request, what its replies were worth.
    pub kinds: Vec<KindCount>,
    /// When nothing was asked.
    #[serde(default)]
    pub blanks: Blanks,
    /// Mean time between the looks before and behind a request, seconds.
    pub window_seconds: f64,
}

/// Whether replies are true, as far as the disks tell.
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
        /// Why not, for people.
        reason: String,
    },
}

impl Findings {
    /// The verdict on what was seen.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let unverified = |reason: String| Verdict::Unverified { reason };
        let broken: Vec<&KindCount> = self.kinds.iter().filter(|count| !count.is_kept()).collect();
        let gone: Vec<String> =
            broken.iter().filter(|count| !count.is_kept_elsewhere()).map(|count| count.words()).collect();
        if !gone.is_empty() {
            return Verdict::NotDurable { kinds: gone };
        }
        if !broken.is_empty() {
            let names = names(broken.into_iter());
            return unverified(format!(
                "for {names} the disks that are watched did not do enough, and others of this machine flushed: name all \
                 disks of the server with --device, that of its log too"
            ));
        }
        if !self.kinds.iter().any(KindCount::is_judged) {
            return unverified("no request of any kind was answered".into());
        }
        if let Some(reason) = self.blanks.noise() {
            return unverified(reason);
        }
        let mut unknown = self.kinds.iter().filter(|count| !count.enough(count.durable)).peekable();
        if unknown.peek().is_some() {
            let names = names(unknown);
            return unverified(format!("the disk has FUA, and whether the writes for {names} used it cannot be seen"));
        }
        Verdict::Honest
    }

    /// Whether replies of this kind were judged.
    pub(crate) fn has_judged(&self, kind: Kind) -> bool {
        self.kinds.iter().any(|count| count.kind == kind && count.is_judged())
    }
}

fn names<'a>(kinds: impl Iterator<Item = &'a KindCount>) -> String {
    kinds.map(|count| count.name.as_str()).collect::<Vec<_>>().join(", ")
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
