//! A request while it is in the house.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tally_base::{Fate, Kept};
use tally_vfs::ReplyKey;

use crate::link::Link;
use crate::repeats::Told;
use crate::rpc::{Call, Reply};
use crate::stats::accounts::{Paid, Payer};
use crate::stats::{Kind, Times};
use crate::v3::{About, Procedure};
use crate::v4::state::LookTicket;
use crate::v4::{Ended, Progress};

/// A request that was read and not yet answered.
pub struct Job {
    /// When what happened.
    pub times: Times,
    pub(super) call: Call,
    pub(super) link: Arc<Link>,
    /// Its sender's number, by which the pool tells it from equal requests (see [`crate::senders`]).
    pub(super) number: u64,
    pub(super) procedure: Option<Procedure>,
    /// Of a compound: what it is to the statistics, unless it was here before.
    pub(super) counted: Option<Kind>,
    /// Noted while it is carried out, so that an operation's panic leaves nothing behind in the reply cache.
    pub(super) memory: Cell<Memory>,
    /// Whether its answer may be remembered: not one that rule, port or handle gave, nor one of a compound that was to change nothing.
    pub(super) keep: bool,
    /// Whether somebody still has to be answered for it.
    pub(super) owed: bool,
    pub(super) pending: Option<Pending>,
    /// Whether its answer waited, or waits, for something to be durable.
    pub(super) has_waited: bool,
    pub(super) told: Option<Told>,
    /// A compound that goes on where it came to.
    pub(super) compound: Option<Box<Progress>>,
    /// Which moment was the newest when it began to run, the last time (see [`super::lives`]).
    pub(super) began_in: u64,
    /// It was carried out, after that moment, and nobody knows whether it is on disk: it is carried out again when its pool serves.
    pub(super) in_doubt: Option<u64>,
    /// It found in its way what another client was given to keep.
    pub(super) was_kept_out: bool,
    /// How many calls of lock managers came before it, if it is one.
    pub(super) came: u64,
    /// With which it looks again at what another client has for writing.
    pub(super) look: Option<LookTicket>,
    pub(super) about: About,
    /// How its promise was kept.
    pub(super) kept: Kept,
}

/// What the reply cache knows of a job.
#[derive(Clone, Copy)]
pub(super) enum Memory {
    /// It is not in there, be it not yet.
    None,
    /// It is the first of its kind.
    Begun(ReplyKey),
    /// It is carried out beside another connection's, and only the pool remembers it.
    Apart(ReplyKey),
}

/// A reply that waits.
pub(super) enum Pending {
    /// All of it, or an error in its place.
    Whole(Reply),
    /// As much of it as turns out to be durable.
    Compound(Box<Ended>),
}

impl Job {
    /// Whether this is the other request, sent again, on whichever connection.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.link.peer().ip() == other.link.peer().ip() && self.call.is_like(&other.call)
    }

    /// Whether its answer is that nothing was done.
    pub(crate) fn is_told_to_come_again(&self) -> bool {
        self.told == Some(Told::ComeAgain)
    }

    pub(super) fn new(call: Call, link: Arc<Link>, read_at: Instant, number: u64) -> Self {
        Self {
            times: Times {
                read_at,
                started: read_at,
                executed: read_at,
                wait_ended: read_at,
                in_device: Duration::ZERO,
            },
            call,
            link,
            number,
            procedure: None,
            counted: None,
            memory: Cell::new(Memory::None),
            keep: false,
            owed: true,
            pending: None,
            has_waited: false,
            told: None,
            compound: None,
            began_in: 0,
            in_doubt: None,
            was_kept_out: false,
            came: 0,
            look: None,
            about: About::default(),
            kept: Kept::default(),
        }
    }

    /// The connection it came on.
    #[must_use]
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// The procedure of NFSv3, once it is known.
    #[must_use]
    pub fn procedure(&self) -> Option<Procedure> {
        self.procedure
    }

    /// What it is to the statistics.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        self.procedure.map(|procedure| Kind::new(procedure, self.about.stability)).or(self.counted)
    }

    /// Its wait is over.
    pub fn wait_ended(&mut self, fate: &Fate) {
        self.times.wait_ended = Instant::now();
        self.kept = fate.as_ref().copied().unwrap_or_default();
    }

    /// Who pays for it, and what, if its reply was sent at `sent`.
    pub(super) fn bill(&self, sent: Instant) -> Option<(Payer, Paid)> {
        let times = &self.times;
        let address = self.link.peer().ip();
        let payer =
            self.about.dataset.map_or(Payer::Nobody, |(pool, dataset)| Payer::Client { address, pool, dataset });
        let paid = Paid {
            kind: self.kind()?,
            ok: self.told == Some(Told::Ok),
            data_bytes: self.about.data_bytes,
            queue: times.started.saturating_duration_since(times.read_at),
            work: times.executed.saturating_duration_since(times.started),
            wait: times.wait_ended.saturating_duration_since(times.executed),
            kept: self.kept,
            reply: sent.saturating_duration_since(times.wait_ended),
        };
        Some((payer, paid))
    }

    /// Bytes of the record, which it keeps in memory.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.call.record_bytes()
    }

    /// Its answer is not to be remembered.
    pub(super) fn forget(&mut self) {
        self.keep = false;
        self.pending = None;
    }
}
