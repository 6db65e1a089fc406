//! The list of one pool in memory, and whether the time of claims is over (rules V26; tables D5 and D12).
//!
//! ```text
//!                              │ in the grace                       │ over
//!  ────────────────────────────┼────────────────────────────────────┼──────────
//!  something new               │ GRACE                              │ granted
//!  claimed again, by a client  │                                    │
//!    in the list               │ granted, until RECLAIM_COMPLETE    │ NO_GRACE
//!    that is not               │ NO_GRACE                           │ NO_GRACE
//! ```

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::super::state::{ClientKey, LEASE};

/// A claim keeps the grace open for so long, for the next one of that client.
const BETWEEN_CLAIMS: Duration = Duration::from_secs(15);

/// No grace is longer: two leases.
const CLAIMS_END: Duration = Duration::from_secs(2 * LEASE.as_secs());

#[derive(Debug)]
pub(super) struct List {
    /// Who was in it when it was read, and whether he has claimed something since. Empty once the grace is over.
    listed: BTreeMap<ClientKey, bool>,
    is_in_grace: bool,
    /// When it is over, and when at the latest.
    until: Duration,
    latest: Duration,
    /// Who is in the folder, or will be by what was changed.
    noted: HashSet<ClientKey>,
    /// Who has to go out of it.
    doomed: Vec<ClientKey>,
    /// Whether all that was changed is durable.
    is_settled: bool,
    /// How many were to go out of it, ever.
    dooms: u64,
}

/// Who came before a grace was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Came {
    /// Who has claimed something, and said that he claims nothing more if he has a word for that.
    pub(super) claimed: usize,
    /// Who has said that he claims nothing more, and had claimed nothing.
    pub(super) idle: usize,
    /// Who is out of the list.
    pub(super) lost: usize,
}

impl List {
    /// As it was read then.
    pub(super) fn new(keys: Vec<ClientKey>, since: Duration) -> Self {
        let listed: BTreeMap<_, _> = keys.into_iter().map(|key| (key, false)).collect();
        Self {
            is_in_grace: !listed.is_empty(),
            listed,
            until: since + LEASE,
            latest: since + CLAIMS_END,
            noted: HashSet::new(),
            doomed: Vec::new(),
            is_settled: true,
            dooms: 0,
        }
    }

    /// The grace ends with its time, or with the last who has completed. Those of minor version 0 never say so. Who says so and has not may have claimed a part: the rest is others' from
    /// here on, and behind the next restart it would claim that as well (rules V25). So it is out of the list until it is given something new. Gives how it ended, once.
    pub(super) fn advance(&mut self, now: Duration, has_completed: &dyn Fn(&ClientKey) -> bool) -> Option<Came> {
        let is_done = |key: &ClientKey| key.is_of_sessions() && has_completed(key);
        if !self.is_in_grace || now < self.until && !self.listed.keys().all(is_done) {
            return None;
        }
        self.is_in_grace = false;
        let mut came = Came::default();
        for (key, has_claimed) in std::mem::take(&mut self.listed) {
            if has_claimed && !key.is_of_sessions() || has_completed(&key) {
                *(if has_claimed { &mut came.claimed } else { &mut came.idle }) += 1;
                self.noted.insert(key);
            } else {
                came.lost += 1;
                self.doomed.push(key);
                self.is_settled = false;
            }
        }
        Some(came)
    }

    /// Whether this client, that has not completed, may claim something again.
    pub(super) fn reclaim(&mut self, key: ClientKey, now: Duration) -> bool {
        let Some(has_claimed) = self.listed.get_mut(&key).filter(|_| self.is_in_grace) else { return false };
        *has_claimed = true;
        self.until = self.until.max(now + BETWEEN_CLAIMS).min(self.latest);
        true
    }

    pub(super) fn is_in_grace(&self) -> bool {
        self.is_in_grace
    }

    pub(super) fn is_over(&self) -> bool {
        !self.is_in_grace
    }

    /// Whether this client, which may have lost something without knowing it, may be given something new, and nothing has to be done before.
    pub(super) fn is_at_rest(&self, key: ClientKey, has_lost: bool) -> bool {
        self.is_over() && self.is_settled && self.doomed.is_empty() && (has_lost || self.has(key))
    }

    pub(super) fn has(&self, key: ClientKey) -> bool {
        self.noted.contains(&key)
    }

    pub(super) fn note(&mut self, key: ClientKey) {
        // Whoever was to go out is in again.
        self.doomed.retain(|doomed| *doomed != key);
        self.noted.insert(key);
        self.is_settled = false;
    }

    /// It could not be written down.
    pub(super) fn is_not_noted(&mut self, key: ClientKey) {
        self.noted.remove(&key);
    }

    /// A client is gone. Nobody is given anything from here on before it is out of the list.
    pub(super) fn forget(&mut self, key: ClientKey) {
        if self.noted.remove(&key) | self.listed.remove(&key).is_some() {
            self.doomed.push(key);
            self.is_settled = false;
            self.dooms += 1;
        }
    }

    /// It has risen where somebody was to go out of it since it was asked for.
    pub(super) fn dooms(&self) -> u64 {
        self.dooms
    }

    pub(super) fn has_doomed(&self) -> bool {
        !self.doomed.is_empty()
    }

    pub(super) fn take_doomed(&mut self) -> Vec<ClientKey> {
        std::mem::take(&mut self.doomed)
    }

    pub(super) fn doom(&mut self, keys: impl Iterator<Item = ClientKey>) {
        self.doomed.extend(keys);
    }

    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    pub(super) fn settle(&mut self) {
        self.is_settled = true;
    }

    pub(super) fn unsettle(&mut self) {
        self.is_settled = false;
    }
}

#[cfg(test)]
mod tests;
