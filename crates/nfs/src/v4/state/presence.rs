//! What is asked of a client at each of its requests, so that none of them takes the lock of the register.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::{ClientId, ClientKey};
use crate::v4::status::Status;

/// When a client was last heard, and where it is in its life.
#[derive(Debug)]
pub struct Presence {
    client: ClientId,
    key: ClientKey,
    lease: Duration,
    since: Duration,
    heard_ns: AtomicU64,
    /// The minor version of its newest request in a session, plus one; 0: there was none.
    minor: AtomicU32,
    has_reclaimed: AtomicBool,
    has_lost: AtomicBool,
    is_ended: AtomicBool,
    owns_key: AtomicBool,
    /// Of its sessions, those with a connection for callbacks.
    reachable: AtomicUsize,
}

impl Presence {
    pub(super) fn new((client, key, owns_key): (ClientId, ClientKey, bool), lease: Duration, now: Duration) -> Self {
        let (minor, has_reclaimed, has_lost, is_ended, reachable) = Default::default();
        let (heard_ns, owns_key) = (AtomicU64::new(now.as_nanos() as u64), owns_key.into());
        Self { client, key, lease, since: now, heard_ns, minor, has_reclaimed, has_lost, is_ended, owns_key, reachable }
    }

    /// That of a host that locks by NLM, for one request: what there is of it besides stands elsewhere.
    pub(in crate::v4) fn of_host(client: ClientId, key: ClientKey, lease: Duration, now: Duration) -> Self {
        Self::new((client, key, true), lease, now)
    }

    /// Whose it is.
    #[must_use]
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// Who it is, behind a restart of it or of the server.
    #[must_use]
    pub fn key(&self) -> ClientKey {
        self.key
    }

    /// Whether what the lists of pools have by its key is its own: of a host that no rule has named yet any superuser may say that he is this client, and what he says or becomes is nothing to
    /// whoever is.
    #[must_use]
    pub fn owns_key(&self) -> bool {
        self.owns_key.load(Relaxed)
    }

    /// It was let into a dataset.
    pub(in crate::v4) fn note_owns_key(&self) {
        if !self.owns_key() {
            self.owns_key.store(true, Relaxed);
        }
    }

    /// How long it may say nothing.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// When it introduced itself.
    #[must_use]
    pub fn since(&self) -> Duration {
        self.since
    }

    /// The minor version of its newest request in a session.
    #[must_use]
    pub fn minor(&self) -> Option<u32> {
        self.minor.load(Relaxed).checked_sub(1)
    }

    /// A request in a session is of this minor version.
    pub(in crate::v4) fn note_minor(&self, minor: u32) {
        if self.minor() != Some(minor) {
            self.minor.store(minor + 1, Relaxed);
        }
    }

    /// It said a word: its lease begins anew.
    pub(super) fn hear(&self, now: Duration) {
        self.heard_ns.store(now.as_nanos() as u64, Relaxed);
    }

    /// When it last said a word.
    #[must_use]
    pub fn heard(&self) -> Duration {
        Duration::from_nanos(self.heard_ns.load(Relaxed))
    }

    /// Whether its lease is over. Nothing goes by that alone: it is kept by courtesy until somebody is in its way (rules V20).
    #[must_use]
    pub fn is_late(&self, now: Duration) -> bool {
        self.heard() + self.lease < now
    }

    /// RECLAIM_COMPLETE of all file systems: once in the life of a client.
    pub fn reclaim_complete(&self) -> Result<(), Status> {
        match self.has_reclaimed.swap(true, Relaxed) {
            true => Err(Status::CompleteAlready),
            false => Ok(()),
        }
    }

    /// Whether it has said that it reclaims nothing more.
    #[must_use]
    pub fn has_reclaimed(&self) -> bool {
        self.has_reclaimed.load(Relaxed)
    }

    /// Something was taken from it that it does not know of yet, or knows of by now: meanwhile it is in no list of those who may claim again what they had (rules V24).
    pub(in crate::v4) fn note_lost(&self, has_lost: bool) {
        self.has_lost.store(has_lost, Relaxed);
    }

    /// Whether something was taken from it that it does not know of.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.has_lost.load(Relaxed)
    }

    /// It is no client any more. Under the register's lock, before what it had is anybody else's.
    pub(super) fn end(&self) {
        self.is_ended.store(true, Relaxed);
    }

    /// An error for who is none any more, of whom a request may still be under way.
    pub(in crate::v4) fn check_not_ended(&self) -> Result<(), Status> {
        match (self.is_ended.load(Relaxed), self.key.is_of_sessions()) {
            (false, _) => Ok(()),
            (true, true) => Err(Status::BadSession),
            (true, false) => Err(Status::Expired),
        }
    }

    /// Whether it can be called back over any session.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        self.reachable.load(Relaxed) > 0
    }

    /// One of its sessions can be called back, or cannot any more.
    pub(super) fn note_reachable(&self, before: bool, after: bool) {
        match (before, after) {
            (false, true) => drop(self.reachable.fetch_add(1, Relaxed)),
            (true, false) => drop(self.reachable.fetch_sub(1, Relaxed)),
            _ => {}
        }
    }
}
