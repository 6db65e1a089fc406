//! The list of one pool in memory, and whether the time of claims is over (rules V26; tables D5 and D12).
//!
//! ```text
//!                                   │ in the grace                       │ over
//!  ─────────────────────────────────┼────────────────────────────────────┼──────────
//!  D5   something new               │ GRACE                              │ granted
//!  D12  claimed again, by a client  │                                    │
//!         in the list               │ granted, until RECLAIM_COMPLETE    │ NO_GRACE
//!         that is not               │ NO_GRACE                           │ NO_GRACE
//! ```
//!
//! The grace is one lease, of this life or of those in which clients got what they may claim, whichever is longest: a client finds out within its lease that the server was away, and that is
//! the one that it was told (RFC 8881 §8.4.2.1). So the list says how long leases were, as `lease-90`, from before the first client until a grace is over under another one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use tally_base::DatasetId;

use super::super::state::{ClientId, ClientKey, LEASE_DEFAULT, LEASE_MAX, LEASE_MIN};
use super::writes::{Flag, Writes};

/// A claim keeps the grace open for so long, or for a lease where that is shorter, for the next one of that client.
const BETWEEN_CLAIMS: Duration = Duration::from_secs(15);

/// No grace is longer, in leases, but by an export and an import, behind which it begins anew.
const CLAIMS_END: u32 = 2;

/// In front of how many seconds a lease has. A file system that is imported knows by it that this is no client (`fs/src/filer/clients.rs`).
const LEASE_PREFIX: &str = "lease-";

#[derive(Debug)]
pub(super) struct List {
    /// Who was in it when it was read, and whether he has claimed something since. Empty once the grace is over.
    listed: BTreeMap<ClientKey, bool>,
    is_in_grace: bool,
    /// How long a lease of this life is, whether that stands in the folder, and what stands there besides.
    lease: Duration,
    is_lease_noted: bool,
    former_leases: BTreeSet<Duration>,
    /// How long the grace is, when it is over, and when at the latest.
    grace: Duration,
    until: Duration,
    latest: Duration,
    /// It is over, and of somebody who did not come it is still written down that he may claim something for writing: behind another crash he would, over what others have
    /// done since. Since when that is so.
    ending_since: Option<Duration>,
    /// Who is in the folder, or will be by what was changed.
    noted: HashSet<ClientKey>,
    /// And where they may have something for writing.
    writes: Writes,
    /// Where those may have it who lost something, and are out of the list until they know: it is written down again with them.
    again: BTreeMap<ClientKey, Vec<Flag>>,
    /// Of those who were in it, hosts that lock by NLM: they learn of our restart by a notice, and not by what they ask.
    to_notify: Vec<IpAddr>,
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
    /// How long a lease is, in whole seconds.
    Lease(Duration),
}

impl Entry {
    /// Anything else in there is nobody's.
    pub(super) fn parse(name: &[u8]) -> Option<Self> {
        let flag = || Flag::parse(name).map(Self::Writes);
        ClientKey::parse(name).map(Self::Client).or_else(flag).or_else(|| Self::parse_lease(name))
    }

    fn parse_lease(name: &[u8]) -> Option<Self> {
        let digits = std::str::from_utf8(name).ok()?.strip_prefix(LEASE_PREFIX)?;
        let lease = Duration::from_secs(digits.parse().ok()?);
        // As it is written, so that to remove it removes it.
        let entry = Some(Self::Lease(lease)).filter(|entry| entry.to_string().as_bytes() == name);
        entry.filter(|_| (LEASE_MIN..=LEASE_MAX).contains(&lease))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(key) => key.fmt(f),
            Self::Writes(flag) => flag.fmt(f),
            Self::Lease(lease) => write!(f, "{LEASE_PREFIX}{}", lease.as_secs()),
        }
    }
}

/// A grace: who may claim something, how many of those have said that they claim nothing more, and how long others wait for the rest if nobody claims anything meanwhile. Those of minor version 0
/// have no word for it, and are waited for until the time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraceSeen {
    /// Clients that had something open before this start.
    pub listed: usize,
    /// Those that claim nothing more.
    pub came: usize,
    /// By the clock of leases.
    pub left: Duration,
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
    /// As it was read then, in a life of such leases. Flags whose client is not there have to go.
    pub(super) fn new(entries: &[Entry], since: Duration, lease: Duration) -> Self {
        let leases =
            entries.iter().filter_map(|entry| if let Entry::Lease(lease) = entry { Some(*lease) } else { None });
        let mut former_leases: BTreeSet<_> = leases.collect();
        // Lists of before have none: then they were all as long.
        let longest = former_leases.last().copied().unwrap_or(LEASE_DEFAULT);
        let is_lease_noted = former_leases.remove(&lease);
        let grace = lease.max(longest);
        let keys = entries.iter().filter_map(|entry| if let Entry::Client(key) = entry { Some(*key) } else { None });
        let listed: BTreeMap<_, _> = keys.map(|key| (key, false)).collect();
        let flags = entries.iter().filter_map(|entry| if let Entry::Writes(flag) = entry { Some(*flag) } else { None });
        let (flags, left): (Vec<_>, Vec<_>) = flags.partition(|flag| listed.contains_key(&flag.key));
        let writes = Writes::new(flags.into_iter(), since);
        let doomed: Vec<_> = left.into_iter().map(Entry::Writes).collect();
        let mut list = Self {
            is_in_grace: !listed.is_empty(),
            to_notify: listed.keys().filter_map(ClientKey::host).collect(),
            listed,
            lease,
            is_lease_noted,
            former_leases,
            grace,
            until: since + grace,
            latest: since + grace * CLAIMS_END,
            ending_since: None,
            noted: HashSet::new(),
            writes,
            again: BTreeMap::new(),
            is_settled: doomed.is_empty(),
            doomed,
            dooms: 0,
        };
        list.forget_former_leases();
        list
    }

    /// As long as it lasts, who is waited for.
    pub(super) fn seen(&self, now: Duration, has_completed: &dyn Fn(&ClientKey) -> bool) -> Option<GraceSeen> {
        let came = self.listed.keys().filter(|key| key.is_of_sessions() && has_completed(key)).count();
        self.is_in_grace.then(|| GraceSeen { listed: self.listed.len(), came, left: self.until.saturating_sub(now) })
    }

    /// Whether there are hosts that are to be told of our start.
    pub(super) fn has_hosts_to_notify(&self) -> bool {
        !self.to_notify.is_empty()
    }

    /// Those.
    pub(super) fn to_notify(&self) -> &[IpAddr] {
        &self.to_notify
    }

    /// Those, once.
    pub(super) fn take_hosts_to_notify(&mut self) -> Vec<IpAddr> {
        std::mem::take(&mut self.to_notify)
    }

    /// How long others wait for who may claim something.
    pub(super) fn grace(&self) -> Duration {
        self.grace
    }

    /// When the grace is over at the latest, if it is not.
    pub(super) fn latest_end(&self) -> Option<Duration> {
        self.is_in_grace.then_some(self.latest)
    }

    /// What is to be written down before anybody who has a lease.
    pub(super) fn lease_to_note(&self) -> Option<Entry> {
        (!self.is_lease_noted).then_some(Entry::Lease(self.lease))
    }

    /// It was.
    pub(super) fn lease_is_noted(&mut self) {
        (self.is_lease_noted, self.is_settled) = (true, false);
        self.forget_former_leases();
    }

    /// Once the grace is over nobody has anything under another lease than today's.
    fn forget_former_leases(&mut self) {
        if self.is_over() && self.is_lease_noted && !self.former_leases.is_empty() {
            self.doomed.extend(std::mem::take(&mut self.former_leases).into_iter().map(Entry::Lease));
            self.is_settled = false;
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
                if !self.let_go(key).is_empty() {
                    self.ending_since = Some(now);
                }
            }
        }
        self.forget_former_leases();
        Some(came)
    }

    /// Its pool was away. A grace that was not over begins anew, with all its time.
    pub(super) fn goes_on(&mut self, now: Duration) {
        if self.is_in_grace {
            (self.until, self.latest) = (now + self.grace, now + self.grace * CLAIMS_END);
        }
        if self.has_doomed() {
            // Who was ended meanwhile may have had something for writing: that is others' once it is written down that he has not.
            self.ending_since.get_or_insert(now);
        }
    }

    /// Whether this client, that has not completed, may claim something again.
    pub(super) fn reclaim(&mut self, key: ClientKey, now: Duration) -> bool {
        let Some(has_claimed) = self.listed.get_mut(&key).filter(|_| self.is_in_grace) else { return false };
        *has_claimed = true;
        self.until = self.until.max(now + BETWEEN_CLAIMS.min(self.grace)).min(self.latest);
        true
    }

    /// This host, that may claim something again, cannot now (N8): it is waited for as if it did. Whether that is over soon, so that it has to claim now.
    pub(super) fn is_held_up(&mut self, key: ClientKey, now: Duration) -> bool {
        if !self.is_in_grace || !self.listed.contains_key(&key) {
            return false;
        }
        let between = BETWEEN_CLAIMS.min(self.grace);
        self.until = self.until.max(now + between).min(self.latest);
        now + between >= self.latest
    }

    /// The same as [`Self::reclaim`] of something for writing there, which nobody but who is in the list for it can have had. It may have it from here on.
    pub(super) fn reclaim_write(&mut self, whose: (ClientKey, ClientId), dataset: DatasetId, now: Duration) -> bool {
        self.is_in_grace && self.listed.contains_key(&whose.0) && self.writes.use_of(whose, dataset, now)
    }

    /// Whether somebody but this client, who has not completed, may have something for writing there, or anywhere: what he has written and not sent yet nobody may have read or changed when it comes
    /// (rules V27).
    pub(super) fn awaits_claims(
        &self,
        dataset: Option<DatasetId>,
        who: Option<ClientKey>,
        has_completed: &dyn Fn(&ClientKey) -> bool,
    ) -> bool {
        let mut others = self.listed.keys().filter(|key| Some(**key) != who);
        let may_have = |key| dataset.map_or_else(|| self.writes.has_any(key), |dataset| self.writes.has(key, dataset));
        self.ending_since.is_some() || self.is_in_grace && others.any(|key| may_have(*key) && !has_completed(key))
    }

    /// Since when the end of the grace, or of a client that was ended while the pool was away, is to be written down before files of the pool are everybody's.
    pub(super) fn ending_since(&self) -> Option<Duration> {
        self.ending_since
    }

    /// It cannot be, and nobody is kept out for that any more.
    pub(super) fn give_up_ending(&mut self) {
        self.ending_since = None;
    }

    pub(super) fn is_in_grace(&self) -> bool {
        self.is_in_grace
    }

    pub(super) fn is_over(&self) -> bool {
        !self.is_in_grace
    }

    /// Whether it is durable that nobody may claim again what is others' by now.
    pub(super) fn is_sure(&self) -> bool {
        self.is_over() && self.is_settled && self.doomed.is_empty()
    }

    /// Whether this client, which may have lost something without knowing it, may be given something new, and nothing has to be done before.
    pub(super) fn is_at_rest(&self, key: ClientKey, has_lost: bool) -> bool {
        self.is_sure() && self.is_lease_noted && (has_lost || self.has(key))
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

    /// A client is gone, or has lost something. Nobody is given anything from here on before it is out of the list.
    pub(super) fn forget(&mut self, key: ClientKey, is_gone: bool) {
        let flags = if self.noted.remove(&key) | self.listed.remove(&key).is_some() {
            self.dooms += 1;
            self.let_go(key)
        } else {
            Vec::new()
        };
        if is_gone {
            self.again.remove(&key);
        } else if !flags.is_empty() {
            self.again.entry(key).or_default().extend(flags);
        }
    }

    /// A client goes out of it, before what it may have had for writing: where that was.
    fn let_go(&mut self, key: ClientKey) -> Vec<Flag> {
        let flags = self.writes.forget(key);
        self.doomed.push(Entry::Client(key));
        self.doomed.extend(flags.iter().copied().map(Entry::Writes));
        self.is_settled = false;
        flags
    }

    /// Where a client that comes into it may have something for writing since before it went out.
    pub(super) fn to_note_again(&self, key: ClientKey) -> Vec<Flag> {
        self.again.get(&key).cloned().unwrap_or_default()
    }

    /// All that was written down again.
    pub(super) fn are_noted_again(&mut self, flags: &[Flag], (key, client): (ClientKey, ClientId), now: Duration) {
        self.doomed.retain(|doomed| !matches!(doomed, Entry::Writes(flag) if flags.contains(flag)));
        self.writes.add_again(flags, client, now);
        self.again.remove(&key);
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
        self.ending_since = self.ending_since.filter(|_| self.has_doomed());
    }

    pub(super) fn unsettle(&mut self) {
        self.is_settled = false;
    }
}

#[cfg(test)]
mod tests;
