//! Who waits for a range that another one has, in the order in which they came.
//!
//! Unlike a client of version 4, which is told that what it waits for is free and asks again, a host of version 3 sleeps until it is called with the lock in its hands (GRANTED). So the range is locked for it first,
//! and then it is called; where the call is lost it would be nobody's. It is had when the host has said that it takes it, or has asked for it again and found it.
//!
//! ```text
//!  LOCK refused ─▶ join ─▶ waits ── the range was free, and is locked for him ──▶ promote ─▶ called
//!                    ▲        │                                                      │ he takes it, or asks again: has
//!                    └────────┘ asks again: keeps his place                          │ he says no: gone, and given up
//!                             CANCEL, UNLOCK, the end of his host ─▶ gone            └ nobody answers, three times within 30 s: gone, and given up
//! ```

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
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

/// How often a host is called for one lock.
pub const CALLS: u32 = 3;
/// From one call to the next.
pub const BETWEEN_CALLS: Duration = Duration::from_secs(10);
/// For as long as a host that does not ask again is believed to wait: Linux asks each 30 s.
pub const FRESH: Duration = Duration::from_secs(90);

/// What somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Wait<F> {
    pub holder: Holder,
    pub file: F,
    pub range: Range,
    pub kind: Kind,
    /// As the host knows the file.
    pub handle: Bytes,
}

impl<F: Copy + Eq> Wait<F> {
    /// What he would have.
    #[must_use]
    pub fn lock(&self) -> Lock {
        Lock { holder: self.holder, range: self.range, kind: self.kind }
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.holder, self.file, self.range, self.kind) == (other.holder, other.file, other.range, other.kind)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waits,
    /// It is locked for him, and he is to be called from then on; he was so often.
    Called {
        due: Duration,
        calls: u32,
        is_under_way: bool,
    },
}

#[derive(Debug)]
struct Place<F> {
    wait: Wait<F>,
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
    pub wait: Wait<F>,
    pub had: Vec<Lock>,
}

/// A host is to be called, by this number: its answer comes by the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Calling<F> {
    pub number: u64,
    pub wait: Wait<F>,
}

/// What a host has said to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It takes the lock.
    Takes,
    /// It does not wait for it.
    Refuses,
    /// Nothing.
    Nothing,
}

/// All of them.
#[derive(Debug)]
pub struct Waiting<F> {
    /// By their numbers, and so in the order in which they came.
    places: BTreeMap<u64, Place<F>>,
    next: u64,
    of_hosts: HashMap<ClientNumber, usize>,
    of_files: HashMap<F, usize>,
}

impl<F> Default for Waiting<F> {
    fn default() -> Self {
        let (of_hosts, of_files) = Default::default();
        Self { places: BTreeMap::new(), next: 0, of_hosts, of_files }
    }
}

impl<F: Copy + Eq + Hash> Waiting<F> {
    /// Whether nobody does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Somebody was refused who would wait. Who waits for just that keeps his place. False: there is no room, and he asks again by himself.
    pub fn join(&mut self, wait: Wait<F>, now: Duration) -> bool {
        if let Some(place) = self.places.values_mut().find(|place| place.wait.is_like(&wait)) {
            place.asked = now;
            return true;
        }
        let (of_host, of_file) =
            (self.count_of(wait.holder.client), self.of_files.get(&wait.file).copied().unwrap_or(0));
        if self.places.len() >= WAITERS_MAX || of_host >= WAITERS_OF_HOST_MAX || of_file >= WAITERS_OF_FILE_MAX {
            return false;
        }
        *self.of_hosts.entry(wait.holder.client).or_default() += 1;
        *self.of_files.entry(wait.file).or_default() += 1;
        self.places.insert(self.next, Place { wait, since: now, asked: now, stage: Stage::Waits, had: Vec::new() });
        self.next += 1;
        true
    }

    /// Those who wait for something of a file, the first first.
    #[must_use]
    pub fn queue(&self, file: &F) -> Vec<Calling<F>> {
        let waits = self.places.iter().filter(|(_, place)| place.wait.file == *file && place.stage == Stage::Waits);
        waits.map(|(number, place)| Calling { number: *number, wait: place.wait.clone() }).collect()
    }

    /// What he waits for is locked for him by now, of which he had this: he is to be called. False: he waits no more.
    pub fn promote(&mut self, number: u64, had: Vec<Lock>, now: Duration) -> bool {
        let place = self.places.get_mut(&number).filter(|place| place.stage == Stage::Waits);
        place.is_some_and(|place| {
            place.stage = Stage::Called { due: now, calls: 0, is_under_way: false };
            place.had = had;
            true
        })
    }

    /// Somebody asks for what he waits for, and it is locked for him already: he has it from here on. Or he asked, and has got it.
    pub fn has(&mut self, holder: Holder, file: &F, range: Range, kind: Kind) {
        let is_his = |place: &Place<F>| {
            (place.wait.holder, place.wait.file, place.wait.range, place.wait.kind) == (holder, *file, range, kind)
        };
        self.remove_where(is_his);
    }

    /// Somebody waits no more for such ranges: what of them is locked for him is to be given up.
    pub fn leave(&mut self, holder: Holder, file: &F, which: impl Fn(&Wait<F>) -> bool) -> Vec<Called<F>> {
        if self.count_of(holder.client) == 0 {
            return Vec::new();
        }
        self.remove_where(|place| (place.wait.holder, place.wait.file) == (holder, *file) && which(&place.wait))
    }

    /// A host is gone.
    pub fn forget_host(&mut self, client: ClientNumber) {
        if self.of_hosts.contains_key(&client) {
            self.remove_where(|place| place.wait.holder.client == client);
        }
    }

    /// A file is served no more, as it was.
    pub fn forget_file(&mut self, file: &F) {
        if self.of_files.contains_key(file) {
            self.remove_where(|place| place.wait.file == *file);
        }
    }

    /// The next who is to be called.
    pub fn next_call(&mut self, now: Duration) -> Option<Calling<F>> {
        let is_due =
            |place: &Place<F>| matches!(place.stage, Stage::Called { due, is_under_way: false, .. } if due <= now);
        let (number, place) = self.places.iter_mut().find(|(_, place)| is_due(place))?;
        if let Stage::Called { due, calls, .. } = place.stage {
            place.stage = Stage::Called { due, calls, is_under_way: true };
        }
        Some(Calling { number: *number, wait: place.wait.clone() })
    }

    /// A call has come to this. Gives what is to be given up.
    pub fn said(&mut self, number: u64, said: Said, now: Duration) -> Option<Called<F>> {
        let place = self.places.get_mut(&number)?;
        let Stage::Called { calls, .. } = place.stage else { return None };
        let (calls, takes) = (calls + 1, said == Said::Takes);
        if said == Said::Nothing && calls < CALLS {
            place.stage = Stage::Called { due: now + BETWEEN_CALLS, calls, is_under_way: false };
            return None;
        }
        let gone = self.remove(number)?;
        (!takes).then_some(Called { wait: gone.wait, had: gone.had })
    }

    /// Those who have not asked again for so long that nobody waits there any more.
    pub fn forget_silent(&mut self, now: Duration) {
        self.remove_where(|place| place.stage == Stage::Waits && place.asked + FRESH < now);
    }

    /// In which files somebody waits for something.
    #[must_use]
    pub fn files(&self) -> Vec<F> {
        self.of_files.keys().copied().collect()
    }

    /// Whether an owner waits.
    #[must_use]
    pub fn has_any_of(&self, holder: Holder) -> bool {
        self.of_hosts.contains_key(&holder.client) && self.places.values().any(|place| place.wait.holder == holder)
    }

    /// How many of a host do.
    #[must_use]
    pub fn count_of(&self, client: ClientNumber) -> usize {
        self.of_hosts.get(&client).copied().unwrap_or(0)
    }

    /// Those who wait and were not called, and since when.
    pub fn seen(&self) -> impl Iterator<Item = (&Wait<F>, Duration)> {
        self.places.values().filter(|place| place.stage == Stage::Waits).map(|place| (&place.wait, place.since))
    }

    /// Gives those of them that were called.
    fn remove_where(&mut self, goes: impl Fn(&Place<F>) -> bool) -> Vec<Called<F>> {
        let gone: Vec<_> = self.places.iter().filter(|(_, place)| goes(place)).map(|(number, _)| *number).collect();
        let gone = gone.into_iter().filter_map(|number| self.remove(number));
        let called = gone.filter(|place| place.stage != Stage::Waits);
        called.map(|place| Called { wait: place.wait, had: place.had }).collect()
    }

    fn remove(&mut self, number: u64) -> Option<Place<F>> {
        let place = self.places.remove(&number)?;
        less(&mut self.of_hosts, &place.wait.holder.client);
        less(&mut self.of_files, &place.wait.file);
        Some(place)
    }
}

fn less<K: Eq + Hash>(counts: &mut HashMap<K, usize>, of: &K) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

#[cfg(test)]
mod tests;
