//! Slots: by them a request of a session is carried out once, however often it comes (RFC 8881 §2.10.6.1 and §18.46; table D2).
//!
//! A request names a slot of its session and the sequence of the slot's last request, plus one. What follows SEQUENCE, and the ids of who sends it, go
//! into a fingerprint, so that no one is given the results of another's request.
//!
//! ```text
//!  SEQUENCE on a slot whose last one was s      │ in use       │ results kept │ too long to keep │ broken off
//!  ─────────────────────────────────────────────┼──────────────┼──────────────┼──────────────────┼──────────────
//!  s + 1; on a slot that was never used, 1      │ a Misordered │ b New        │ b New            │ b New
//!  s, with this fingerprint                     │ c InProgress │ d Retry      │ e Uncached       │ f Faulted
//!  s, with another one                          │ g FalseRetry │ g FalseRetry │ g FalseRetry     │ g FalseRetry
//!  any other; on a slot never used also 0       │ h Misordered │ h Misordered │ h Misordered     │ h Misordered
//!
//!  never used ──b──▶ in use ──finish──▶ results kept, too long to keep ──b──▶ in use
//!                       └────dropped──▶ broken off ──b──▶ in use
//! ```
//!
//! A slot in use is held by a [`Guard`], and there is no way out without it: one that is dropped unfinished, since nobody will answer it or its pool
//! is suspended, leaves the slot broken off, and its retry is SERVERFAULT (rules V4), unless the session is persistent, and the pool that it was to change was taken up anew since and
//! knows what it did: then it is taken up, and told that ([`past`](crate::v4::past)). Results are kept as bytes and given back as they were, over
//! whatever connection (rules V8); kept are all that fit, whether the client asked for it or not, in a buffer that the slot keeps as well.

use std::sync::Arc;

use tally_base::SlotMark;

use super::delegations::Referred;
use super::sessions::{Sequence, Session};
use super::stateid::Mounted;

/// What there is of a slot's last request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Life {
    #[default]
    Fresh,
    InUse,
    Kept,
    TooLong,
    BrokenOff,
}

/// What a request is to a slot: a row of D2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    New,
    InProgress,
    Retry,
    Uncached,
    Faulted,
    FalseRetry,
    Misordered,
}

/// How a request ended: with results, if they can be kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended<'a> {
    Done(Option<&'a [u8]>),
    /// Of a persistent session: on which mount it was to change something.
    BrokenOff(Option<Mounted>),
}

/// One slot.
#[derive(Debug, Default)]
pub(super) struct Slot {
    sequence: u32,
    life: Life,
    fingerprint: u64,
    kept: Vec<u8>,
    /// Where its request was broken off that was to change something. Seldom there, and no slot has to have the room.
    broken_off: Option<Box<Mounted>>,
}

impl Slot {
    /// Table D2.
    pub(super) fn look(&self, sequence: u32, fingerprint: u64) -> Row {
        let is_next = sequence == self.sequence.wrapping_add(1);
        match self.life {
            Life::InUse if is_next => Row::Misordered,
            _ if is_next => Row::New,
            Life::Fresh => Row::Misordered,
            _ if sequence != self.sequence => Row::Misordered,
            _ if fingerprint != self.fingerprint => Row::FalseRetry,
            Life::InUse => Row::InProgress,
            Life::Kept => Row::Retry,
            Life::TooLong => Row::Uncached,
            Life::BrokenOff => Row::Faulted,
        }
    }

    /// Row b.
    pub(super) fn begin(&mut self, sequence: u32, fingerprint: u64) {
        debug_assert_eq!(self.look(sequence, fingerprint), Row::New);
        let kept = std::mem::take(&mut self.kept);
        *self = Self { sequence, fingerprint, life: Life::InUse, kept, broken_off: None };
    }

    /// Row f, where what it did is known: it is told that by whoever gets `true`.
    pub(super) fn take_up(&mut self, sequence: u32, fingerprint: u64) -> bool {
        let is_broken_off = self.look(sequence, fingerprint) == Row::Faulted;
        if is_broken_off {
            self.life = Life::InUse;
        }
        is_broken_off
    }

    /// Where its request was broken off.
    pub(super) fn broken_off(&self) -> Option<Mounted> {
        self.broken_off.as_deref().copied()
    }

    /// The request in the slot has ended.
    pub(super) fn end(&mut self, ended: Ended<'_>, kept_bytes_max: usize) {
        // Not in release: this is asked while a worker unwinds, too.
        debug_assert_eq!(self.life, Life::InUse, "a slot is finished by the one guard that holds it");
        self.kept.clear();
        self.life = match ended {
            Ended::Done(Some(results)) if results.len() <= kept_bytes_max => {
                // Not by doubling: all that a slot may keep was accounted for when it was granted.
                self.kept.reserve_exact(results.len());
                self.kept.extend_from_slice(results);
                Life::Kept
            }
            Ended::Done(_) => Life::TooLong,
            Ended::BrokenOff(on) => {
                self.broken_off = on.map(Box::new);
                Life::BrokenOff
            }
        };
    }

    /// The results of its last request.
    pub(super) fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Whether it has had a request of another sequence.
    pub(super) fn is_past(&self, sequence: u32) -> bool {
        self.sequence != sequence
    }

    /// Whether a guard holds it.
    pub(super) fn is_in_use(&self) -> bool {
        self.life == Life::InUse
    }
}

/// Holds a slot while its request is carried out.
#[derive(Debug)]
#[must_use = "a guard that is dropped breaks its request off"]
pub struct Guard {
    session: Arc<Session>,
    slot: u32,
    sequence: u32,
    must_keep: bool,
    mark: Option<SlotMark>,
    changing: Option<Mounted>,
    is_finished: bool,
}

impl Guard {
    pub(super) fn new(session: Arc<Session>, asked: &Sequence) -> Self {
        let (slot, sequence, must_keep) = (asked.slot, asked.sequence, asked.cache_this);
        let mark = session.is_persistent().then(|| asked.mark());
        Self { session, slot, sequence, must_keep, mark, changing: None, is_finished: false }
    }

    /// It is about to change something on this mount; of several it is the first.
    pub fn note_change(&mut self, on: Mounted) {
        self.changing.get_or_insert(on);
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// As which its client knows the request.
    #[must_use]
    pub fn referred(&self) -> Referred {
        Referred { session: self.session.id(), slot: self.slot, sequence: self.sequence }
    }

    /// How long the reply may become, with its RPC header: who has asked to have it kept is refused one that cannot be (REP_TOO_BIG_TO_CACHE).
    #[must_use]
    pub fn reply_bytes_max(&self) -> u32 {
        let fore = self.session.fore();
        if self.must_keep { fore.cached_bytes.min(fore.reply_bytes) } else { fore.reply_bytes }
    }

    /// Whether its client has asked to have the reply kept.
    #[must_use]
    pub fn must_keep(&self) -> bool {
        self.must_keep
    }

    /// As which its first operation would be remembered, if its session is persistent.
    #[must_use]
    pub fn mark(&self) -> Option<SlotMark> {
        self.mark
    }

    /// The request is done, and these are its results, which a retry will get.
    pub fn finish(self, results: &[u8]) {
        self.done(Some(results));
    }

    /// The request is done, with more results than any slot keeps.
    pub fn finish_long(self) {
        self.done(None);
    }

    fn done(mut self, results: Option<&[u8]>) {
        self.is_finished = true;
        self.session.end(self.slot, Ended::Done(results));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_finished {
            let on = self.changing.filter(|_| self.mark.is_some());
            self.session.end(self.slot, Ended::BrokenOff(on));
        }
    }
}

#[cfg(test)]
mod tests;
