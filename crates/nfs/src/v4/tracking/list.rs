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
use std::fmt;
use std::time::Duration;

use tally_base::DatasetId;

use super::super::state::{ClientId, ClientKey, LEASE};
use super::writes::{Flag, Writes};

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
    /// And where they may have something for writing.
    writes: Writes,
    /// What has to go out of it.
    doomed: Vec<Entry>,
    /// Whether all that was changed is durable.
    is_settled: bool,
    /// How many were to go out of it, ever.
    dooms: u64,
}

/// What stands in the folder, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Client(ClientKey),
    Writes(Flag),
}

impl Entry {
    /// Anything else in there is nobody's.
    pub(super) fn parse(name: &[u8]) -> Option<Self> {
        ClientKey::parse(name).map(Self::Client).or_else(|| Flag::parse(name).map(Self::Writes))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(key) => key.fmt(f),
            Self::Writes(flag) => flag.fmt(f),
        }
    }
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
    /// As it was read then. Flags whose client is not there have to go.
    pub(super) fn new(entries: &[Entry], since: Duration) -> Self {
        let keys = entries.iter().filter_map(|entry| if let Entry::Client(key) = entry { Some(*key) } else { None });
        let listed: BTreeMap<_, _> = keys.map(|key| (key, false)).collect();
        let flags = entries.iter().filter_map(|entry| if let Entry::Writes(flag) = entry { Some(*flag) } else { None });
        let (flags, left): (Vec<_>, Vec<_>) = flags.partition(|flag| listed.contains_key(&flag.key));
        let writes = Writes::new(flags.into_iter(), since);
        let doomed: Vec<_> = left.into_iter().map(Entry::Writes).collect();
        Self {
            is_in_grace: !listed.is_empty(),
            listed,
            until: since + LEASE,
            latest: since + CLAIMS_END,
            noted: HashSet::new(),
            writes,
            is_settled: doomed.is_empty(),
            doomed,
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
                self.let_go(key);
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

    /// The same of something for writing there, which nobody but who is in the list for it can have had. It may have it from here on.
    pub(super) fn reclaim_write(&mut self, whose: (ClientKey, ClientId), dataset: DatasetId, now: Duration) -> bool {
        self.is_in_grace && self.listed.contains_key(&whose.0) && self.writes.use_of(whose, dataset, now)
    }

    /// Whether somebody but this client, who has not completed, may have something for writing there, or anywhere: what he has written and not sent yet nobody may have read or changed when it comes
    /// (rules V27).
    pub(super) fn keeps_out(
        &self,
        dataset: Option<DatasetId>,
        who: Option<ClientKey>,
        has_completed: &dyn Fn(&ClientKey) -> bool,
    ) -> bool {
        let mut others = self.listed.keys().filter(|key| Some(**key) != who);
        let may_have = |key| dataset.map_or_else(|| self.writes.has_any(key), |dataset| self.writes.has(key, dataset));
        self.is_in_grace && others.any(|key| may_have(*key) && !has_completed(key))
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
        self.doomed.retain(|doomed| *doomed != Entry::Client(key));
        self.noted.insert(key);
        self.is_settled = false;
    }

    /// Whether it is written down, or will be, that a client may have something for writing there: it is about to.
    pub(super) fn may_write(&mut self, whose: (ClientKey, ClientId), dataset: DatasetId, now: Duration) -> bool {
        self.writes.use_of(whose, dataset, now)
    }

    /// What is to be written down for that.
    pub(super) fn note_write(&mut self, whose: (ClientKey, ClientId), dataset: DatasetId, now: Duration) -> Flag {
        let flag = self.writes.add(whose, dataset, now);
        self.doomed.retain(|doomed| *doomed != Entry::Writes(flag));
        self.is_settled = false;
        flag
    }

    /// It could not be.
    pub(super) fn is_not_noted_to_write(&mut self, flag: Flag) {
        self.writes.remove(flag);
    }

    /// Where clients have asked for nothing for writing for a while, and by which numbers they may have some.
    pub(super) fn idle(&self, now: Duration) -> Vec<(Flag, Option<ClientId>)> {
        if self.is_in_grace { Vec::new() } else { self.writes.idle(now).collect() }
    }

    /// There is one that somebody has.
    pub(super) fn is_held(&mut self, flag: Flag, now: Duration) {
        self.writes.is_held(flag, now);
    }

    /// There is none that anybody has, and if nobody has asked for one since nobody may claim any. Who is about to be given one is asked for anew.
    pub(super) fn forget_idle(&mut self, idle: impl Iterator<Item = Flag>, now: Duration) {
        for flag in idle {
            if self.writes.remove_idle(flag, now) {
                self.doomed.push(Entry::Writes(flag));
                self.is_settled = false;
                self.dooms += 1;
            }
        }
    }

    /// Nobody may claim anything for writing.
    pub(super) fn forget_writes(&mut self) {
        let flags = std::mem::take(&mut self.writes).into_flags();
        self.doomed.extend(flags.map(Entry::Writes));
        self.is_settled &= self.doomed.is_empty();
    }

    /// It could not be written down.
    pub(super) fn is_not_noted(&mut self, key: ClientKey) {
        self.noted.remove(&key);
    }

    /// A client is gone. Nobody is given anything from here on before it is out of the list.
    pub(super) fn forget(&mut self, key: ClientKey) {
        if self.noted.remove(&key) | self.listed.remove(&key).is_some() {
            self.let_go(key);
            self.dooms += 1;
        }
    }

    /// A client goes out of it, before what it may have had for writing.
    fn let_go(&mut self, key: ClientKey) {
        self.doomed.push(Entry::Client(key));
        self.doomed.extend(self.writes.forget(key).into_iter().map(Entry::Writes));
        self.is_settled = false;
    }

    /// It has risen where somebody was to go out of it since it was asked for.
    pub(super) fn dooms(&self) -> u64 {
        self.dooms
    }

    pub(super) fn has_doomed(&self) -> bool {
        !self.doomed.is_empty()
    }

    pub(super) fn take_doomed(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.doomed)
    }

    pub(super) fn doom(&mut self, entries: impl Iterator<Item = Entry>) {
        self.doomed.extend(entries);
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
