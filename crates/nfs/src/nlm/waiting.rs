//! Who waits for a range that another one has, in the order in which they came.
//!
//! Unlike a client of version 4, which is told that what it waits for is free and asks again, a host of version 3 sleeps until it is called with the lock in its hands (GRANTED). So the range is locked for it first,
//! and then it is called.
//!
//! ```text
//!  LOCK refused ─▶ join ─▶ waits ── the range was free, and is locked for him ──▶ promote ─▶ called ── he takes it ─▶ has
//!                    ▲        │                                                      │ ├── he says no, to his first call ─▶ gone, and given up
//!                    └────────┘ asks again: keeps his place                          │ └── he cannot be called, three times within 30 s ─▶ gone, and given up
//!                             CANCEL, UNLOCK, the end of his host ─▶ gone            ▼
//!                                                                  in doubt: a call reached him, and its answer did not reach us
//!                                                                    ├── he takes it, asks again, or unlocks some of it ─▶ has
//!                                                                    └── CANCEL, UNLOCK, the end of his host ─▶ gone, and given up
//! ```
//!
//! *In doubt* (N3). Behind a call that may have reached him the host may have the lock: Linux takes the first call, and says no to each later one, as nobody waits any more. To give the range up then
//! would be to give it to two. So neither silence nor a refusal gives it up; and nobody keeps it for ever by that, as whoever it is says something: a process that has it unlocks it, or its host does when it ends; one that waits still
//! asks again (Linux each 30 seconds), or takes the next call, which comes as long as nothing was said; one that was killed before the call came sends CANCEL, and UNLOCK; and a host that went down says so when it is back.
//!
//! *Bounds.* Each look is at one file, at one host, or at what is due, and none of these has more than [`WAITERS_OF_FILE_MAX`] or [`WAITERS_OF_HOST_MAX`].

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use tally_vfs::locks::{Kind, Lock, Range};
use tally_vfs::{ClientNumber, Holder};

/// Most who wait, in all, of one host, and for one file.
pub const WAITERS_MAX: usize = 16_384;
/// Of one host.
pub const WAITERS_OF_HOST_MAX: usize = 1024;
/// For one file.
pub const WAITERS_OF_FILE_MAX: usize = 1024;

/// How often a host that cannot be called is called for one lock.
pub const CALLS: u32 = 3;
/// From one call to the next.
pub const BETWEEN_CALLS: Duration = Duration::from_secs(10);
/// The same behind those: of one that was called and has said nothing.
pub const BETWEEN_LATER_CALLS: Duration = Duration::from_secs(60);
/// Most calls of one host that are under way: one that hangs keeps no more threads than that.
pub const CALLS_OF_HOST_MAX: usize = 2;
/// One of a host with so many is looked at again so long behind.
const BESIDE: Duration = Duration::from_millis(250);
/// For as long as a host that does not ask again is believed to wait: Linux asks each 30 s.
pub const FRESH: Duration = Duration::from_secs(90);

/// What somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct HostWait<F> {
    pub holder: Holder,
    pub file: F,
    pub range: Range,
    pub kind: Kind,
    /// As the host knows the file.
    pub handle: Bytes,
    /// And us: of a call from elsewhere Linux knows nothing.
    pub by: Option<IpAddr>,
}

impl<F: Copy + Eq> HostWait<F> {
    /// What he would have.
    #[must_use]
    pub fn lock(&self) -> Lock {
        Lock { holder: self.holder, range: self.range, kind: self.kind }
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.holder, self.range, self.kind) == (other.holder, other.range, other.kind)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waits,
    /// It is locked for him.
    Called {
        calls: u32,
        /// From when on he is to be called again; nothing, where he has said no and may have it.
        due: Option<Duration>,
        is_under_way: bool,
        is_in_doubt: bool,
    },
}

impl Stage {
    fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Called { is_in_doubt: true, .. })
    }
}

#[derive(Debug)]
struct Place<F> {
    wait: HostWait<F>,
    since: Duration,
    asked: Duration,
    stage: Stage,
    /// What he had of it before it was locked for him.
    had: Vec<Lock>,
}

/// What is locked for who is called for it, and what he had of it before: that is his whatever he says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Called<F> {
    pub wait: HostWait<F>,
    pub had: Vec<Lock>,
}

/// A host is to be called, by this number: its answer comes by the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Calling<F> {
    pub number: u64,
    pub wait: HostWait<F>,
}

/// What a host has said to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It takes the lock.
    Takes,
    /// It does not wait for it.
    Refuses,
    /// Nothing, and the call may have reached it.
    Nothing,
    /// Nothing, and none has reached it.
    NotCalled,
}

/// How many places a host has, and how many of its calls are under way.
#[derive(Debug, Default)]
struct OfHost {
    places: usize,
    calls: usize,
}

/// All of them.
#[derive(Debug)]
pub struct Waiting<F> {
    /// Of each file by their numbers, and so in the order in which they came.
    queues: HashMap<F, BTreeMap<u64, Place<F>>>,
    next: u64,
    of_hosts: HashMap<ClientNumber, OfHost>,
    of_owners: HashMap<Holder, usize>,
    /// Who is to be called, by when.
    due: BTreeMap<(Duration, u64), F>,
    /// Owners of whom a place has gone, until somebody asks for them.
    left: Vec<Holder>,
    count: Arc<AtomicUsize>,
}

impl<F> Default for Waiting<F> {
    fn default() -> Self {
        let (queues, of_hosts, of_owners, due, left, count) = Default::default();
        Self { queues, next: 0, of_hosts, of_owners, due, left, count }
    }
}

impl<F: Copy + Eq + Hash> Waiting<F> {
    /// How many there are, for who looks without a lock.
    #[must_use]
    pub fn counter(&self) -> Arc<AtomicUsize> {
        self.count.clone()
    }

    fn len(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// Somebody was refused who would wait. Who waits for just that keeps his place. False: there is no room, and he asks again by himself.
    pub fn join(&mut self, wait: HostWait<F>, now: Duration) -> bool {
        let is_full = self.len() >= WAITERS_MAX || self.count_of(wait.holder.client) >= WAITERS_OF_HOST_MAX;
        let queue = self.queues.entry(wait.file).or_default();
        if let Some(place) = queue.values_mut().find(|place| place.wait.is_like(&wait)) {
            (place.asked, place.wait.by) = (now, wait.by);
            return true;
        }
        if is_full || queue.len() >= WAITERS_OF_FILE_MAX {
            if queue.is_empty() {
                self.queues.remove(&wait.file);
            }
            return false;
        }
        self.of_hosts.entry(wait.holder.client).or_default().places += 1;
        *self.of_owners.entry(wait.holder).or_default() += 1;
        queue.insert(self.next, Place { wait, since: now, asked: now, stage: Stage::Waits, had: Vec::new() });
        self.next += 1;
        self.count.fetch_add(1, SeqCst);
        true
    }

    /// Those who wait for something of a file and were not called, the first first: so many at most.
    #[must_use]
    pub fn queue(&self, file: &F, most: usize) -> Vec<Calling<F>> {
        let places = self.queues.get(file).into_iter().flatten();
        let waits = places.filter(|(_, place)| place.stage == Stage::Waits).take(most);
        waits.map(|(number, place)| Calling { number: *number, wait: place.wait.clone() }).collect()
    }

    /// Whether somebody has a place for something of a file.
    #[must_use]
    pub fn is_waited_for(&self, file: &F) -> bool {
        self.queues.contains_key(file)
    }

    /// Whether somebody waits still, and was not called.
    #[must_use]
    pub fn waits(&self, number: u64, file: &F) -> bool {
        self.place(number, file).is_some_and(|place| place.stage == Stage::Waits)
    }

    /// What he waits for is locked for him by now, of which he had this: he is to be called. False: he waits no more.
    pub fn promote(&mut self, number: u64, file: &F, had: Vec<Lock>, now: Duration) -> bool {
        let Some(place) = self.place_mut(number, file).filter(|place| place.stage == Stage::Waits) else {
            return false;
        };
        place.stage = Stage::Called { calls: 0, due: Some(now), is_under_way: false, is_in_doubt: false };
        place.had = had;
        self.due.insert((now, number), *file);
        true
    }

    /// Somebody has got what he asked for: what he waited for of just that, and what he may have got before of any of it, is his.
    pub fn has(&mut self, lock: &Lock, file: &F) {
        self.remove_of(lock.holder, file, |place| {
            (place.wait.range, place.wait.kind) == (lock.range, lock.kind)
                || place.stage.is_in_doubt() && place.wait.range.overlaps(lock.range)
        });
    }

    /// Somebody has unlocked this, so that he had it: what he may have got of it he had.
    pub fn had(&mut self, holder: Holder, file: &F, range: Range) {
        self.remove_of(holder, file, |place| place.stage.is_in_doubt() && place.wait.range.overlaps(range));
    }

    /// An owner has nothing of a file: nor what he may have got.
    pub fn has_nothing(&mut self, holder: Holder, file: &F) {
        self.remove_of(holder, file, |place| place.stage.is_in_doubt());
    }

    /// Somebody waits no more for such ranges: what of them is locked for him is to be given up.
    pub fn leave(&mut self, holder: Holder, file: &F, which: impl Fn(&HostWait<F>) -> bool) -> Vec<Called<F>> {
        self.remove_of(holder, file, |place| which(&place.wait))
    }

    /// A host is gone.
    pub fn forget_host(&mut self, client: ClientNumber) {
        if self.count_of(client) > 0 {
            let files: Vec<_> = self.queues.keys().copied().collect();
            for file in files {
                self.remove_where(&file, |place| place.wait.holder.client == client);
            }
        }
        self.of_hosts.remove(&client);
    }

    /// An owner of one that stays is.
    pub fn forget_owner(&mut self, holder: Holder) {
        if self.has_any_of(holder) {
            for file in self.files() {
                self.remove_where(&file, |place| place.wait.holder == holder);
            }
        }
    }

    /// A file is served no more, as it was.
    pub fn forget_file(&mut self, file: &F) {
        self.remove_where(file, |_| true);
    }

    /// The next who is to be called.
    pub fn next_call(&mut self, now: Duration) -> Option<Calling<F>> {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, number), file) = entry.remove_entry();
            let Some(client) = self.place(number, &file).map(|place| place.wait.holder.client) else { continue };
            let of_host = self.of_hosts.entry(client).or_default();
            let is_one_too_many = of_host.calls >= CALLS_OF_HOST_MAX;
            if !is_one_too_many {
                of_host.calls += 1;
            }
            let place = self.queues.get_mut(&file).and_then(|queue| queue.get_mut(&number))?;
            let Stage::Called { due, is_under_way, .. } = &mut place.stage else { continue };
            if is_one_too_many {
                let later = now + BESIDE;
                *due = Some(later);
                self.due.insert((later, number), file);
                continue;
            }
            (*due, *is_under_way) = (None, true);
            return Some(Calling { number, wait: place.wait.clone() });
        }
        None
    }

    /// A call is over, and has come to this. Gives what is to be given up.
    pub fn said(&mut self, number: u64, wait: &HostWait<F>, said: Said, now: Duration) -> Option<Called<F>> {
        self.call_is_over(wait.holder.client);
        let place = self.place_mut(number, &wait.file)?;
        let Stage::Called { calls, due, is_under_way, is_in_doubt } = &mut place.stage else { return None };
        (*calls, *is_under_way) = (*calls + 1, false);
        let gap = if *calls < CALLS { BETWEEN_CALLS } else { BETWEEN_LATER_CALLS };
        let (is_over, is_given_up) = match said {
            Said::Takes => (true, false),
            Said::Refuses => (!*is_in_doubt, true),
            Said::NotCalled => (!*is_in_doubt && *calls >= CALLS, true),
            Said::Nothing => (false, true),
        };
        if is_over {
            let gone = self.remove(number, &wait.file)?;
            return is_given_up.then_some(Called { wait: gone.wait, had: gone.had });
        }
        *is_in_doubt |= said == Said::Nothing;
        if said != Said::Refuses {
            *due = Some(now + gap);
            self.due.insert((now + gap, number), wait.file);
        }
        None
    }

    /// The same of one whose file can be asked nothing for now: what was said to it is heard later.
    pub fn said_too_early(&mut self, number: u64, wait: &HostWait<F>, now: Duration) {
        self.call_is_over(wait.holder.client);
        let again = now + BETWEEN_CALLS;
        let Some(place) = self.place_mut(number, &wait.file) else { return };
        if let Stage::Called { due, is_under_way, .. } = &mut place.stage {
            (*due, *is_under_way) = (Some(again), false);
            self.due.insert((again, number), wait.file);
        }
    }

    fn call_is_over(&mut self, client: ClientNumber) {
        if let Some(of_host) = self.of_hosts.get_mut(&client) {
            of_host.calls = of_host.calls.saturating_sub(1);
            self.forget_if_nothing(client);
        }
    }

    /// Those who have not asked again for so long that nobody waits there any more.
    pub fn forget_silent(&mut self, now: Duration) {
        for file in self.files() {
            self.remove_where(&file, |place| place.stage == Stage::Waits && place.asked + FRESH < now);
        }
    }

    /// In which files somebody waits for something.
    #[must_use]
    pub fn files(&self) -> Vec<F> {
        self.queues.keys().copied().collect()
    }

    /// Whether an owner waits.
    #[must_use]
    pub fn has_any_of(&self, holder: Holder) -> bool {
        self.of_owners.contains_key(&holder)
    }

    /// How many of a host do.
    #[must_use]
    pub fn count_of(&self, client: ClientNumber) -> usize {
        self.of_hosts.get(&client).map_or(0, |of_host| of_host.places)
    }

    /// Owners of whom a place has gone since this was last asked for.
    pub fn take_left(&mut self) -> Vec<Holder> {
        std::mem::take(&mut self.left)
    }

    /// Those who wait and were not called, and since when.
    pub fn seen(&self) -> impl Iterator<Item = (&HostWait<F>, Duration)> {
        let places = self.queues.values().flat_map(BTreeMap::values);
        places.filter(|place| place.stage == Stage::Waits).map(|place| (&place.wait, place.since))
    }

    fn place(&self, number: u64, file: &F) -> Option<&Place<F>> {
        self.queues.get(file)?.get(&number)
    }

    fn place_mut(&mut self, number: u64, file: &F) -> Option<&mut Place<F>> {
        self.queues.get_mut(file)?.get_mut(&number)
    }

    fn remove_of(&mut self, holder: Holder, file: &F, goes: impl Fn(&Place<F>) -> bool) -> Vec<Called<F>> {
        if !self.has_any_of(holder) {
            return Vec::new();
        }
        self.remove_where(file, |place| place.wait.holder == holder && goes(place))
    }

    /// Gives those of them that were called.
    fn remove_where(&mut self, file: &F, goes: impl Fn(&Place<F>) -> bool) -> Vec<Called<F>> {
        let places = self.queues.get(file).into_iter().flatten();
        let gone: Vec<_> = places.filter(|(_, place)| goes(place)).map(|(number, _)| *number).collect();
        let gone = gone.into_iter().filter_map(|number| self.remove(number, file));
        let called = gone.filter(|place| place.stage != Stage::Waits);
        called.map(|place| Called { wait: place.wait, had: place.had }).collect()
    }

    fn remove(&mut self, number: u64, file: &F) -> Option<Place<F>> {
        let queue = self.queues.get_mut(file)?;
        let place = queue.remove(&number)?;
        if queue.is_empty() {
            self.queues.remove(file);
        }
        if let Stage::Called { due: Some(due), .. } = place.stage {
            self.due.remove(&(due, number));
        }
        let holder = place.wait.holder;
        if let Some(of_host) = self.of_hosts.get_mut(&holder.client) {
            of_host.places -= 1;
        }
        self.forget_if_nothing(holder.client);
        if let Some(count) = self.of_owners.get_mut(&holder) {
            *count -= 1;
            if *count == 0 {
                self.of_owners.remove(&holder);
                self.left.push(holder);
            }
        }
        self.count.fetch_sub(1, SeqCst);
        Some(place)
    }

    fn forget_if_nothing(&mut self, client: ClientNumber) {
        if self.of_hosts.get(&client).is_some_and(|of_host| of_host.places == 0 && of_host.calls == 0) {
            self.of_hosts.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests;
