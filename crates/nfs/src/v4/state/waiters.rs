//! Who waits for a range of a file that another one has locked (RFC 8881 §18.10.4 and §20.11): queues of those who asked by READW or WRITEW and were refused.
//!
//! *What a place is.* No lock, and no right to one: a waiter is told that what he waits for is free, and asks again as everybody does. Kept for him would be a lock of one who
//! may be gone, which nobody could name to who is refused for it; a client that never answers would keep all others from the range. So somebody else may be faster, and
//! the waiter keeps his place then. Without a place he polls, as all clients did before there were queues.
//!
//! ```text
//!  LOCK refused ─▶ join ─▶ waits ── the range is free ──▶ told ── LOCK given, or another one asked for ──▶ gone
//!                    ▲        ▲                            │ └─── LOCK refused again ──▶ waits, where he was
//!                    │        └────────────────────────────│────────────────────────────────┘
//!                    └── asks again ── gone ◀── 3 s (COME); his client does not take the call; nothing heard for a lease
//! ```
//!
//! *In turn.* First come first served, as far as ranges allow it: who can have his range is told, unless it conflicts with that of one who was told before him and may still come. So
//! readers are told together, and a writer behind them when they have come or not.
//!
//! *One wait for an owner.* An owner that asks for another range, whatever comes of that, has left his place: he is one who does one thing at a time, as the walk for deadlocks
//! takes him for ([`Waiters::wait_of`]). Two threads of one owner that wait for two ranges have one place, and the other one polls.
//!
//! *Locks.* One, of all queues: it is taken by who is refused, and by others only where somebody waits at all. Held over a call to nothing.
//!
//! *Invariants.* Q1: an owner has at most one place, and it is in the queue of the file that is noted with his name. Q2: no queue is empty. Q3: bounds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use foldhash::HashMap;
use parking_lot::Mutex;
use tally_vfs::Holder;
use tally_vfs::locks::{Kind, Range};

use super::bounds::{WAITERS_MAX, WAITERS_OF_CLIENT_MAX, WAITERS_OF_FILE_MAX};
use super::{ClientId, FileId, SessionId, Which};

/// How long one who was told may take to come before the next is told.
pub const COME: Duration = Duration::from_secs(3);
/// For so long after he asked, a waiter counts as one who waits where somebody looks for a deadlock: Linux asks again within 30 s, and one that was interrupted says nothing.
pub const FRESH: Duration = Duration::from_secs(35);

/// A lock-owner, by its name: one that was refused has no stateid, and so no number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub struct LockOwner {
    pub client: ClientId,
    pub name: Arc<[u8]>,
}

/// What somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LockWait {
    pub owner: LockOwner,
    /// The open that he would lock below.
    pub below: Holder,
    /// In which he asked.
    pub session: SessionId,
    pub file: FileId,
    /// By which he knows the file.
    pub handle: Bytes,
    pub range: Range,
    pub kind: Kind,
}

impl LockWait {
    /// Whether both can not be locked by two.
    #[must_use]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.range.overlaps(other.range) && self.kind.conflicts_with(other.kind)
    }

    fn is_like(&self, other: &Self) -> bool {
        (&self.owner, self.file, self.range, self.kind) == (&other.owner, other.file, other.range, other.kind)
    }
}

/// A place in a queue.
#[derive(Debug)]
struct Place {
    wait: LockWait,
    /// When he asked first, and last.
    since: Duration,
    asked: Duration,
    /// Until when he may come who was told.
    told: Option<Duration>,
}

/// Those of a file who may come, and those who wait, each in their order.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Queued {
    pub told: Vec<LockWait>,
    pub waiting: Vec<LockWait>,
}

/// All queues.
#[derive(Debug)]
pub struct Waiters {
    lease: Duration,
    queues: Mutex<Queues>,
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Queues {
    files: HashMap<FileId, VecDeque<Place>>,
    owners: BTreeMap<LockOwner, FileId>,
}

impl Waiters {
    /// None, of clients with leases of this length.
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        let (queues, count) = Default::default();
        Self { lease, queues, count }
    }

    /// Whether nobody waits for anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count.load(SeqCst) == 0
    }

    /// How many wait.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// Somebody was refused who would wait. Who waits for just that keeps his place. False: there is no room, and he has none.
    pub fn join(&self, wait: LockWait, now: Duration) -> bool {
        self.change(|queues| {
            if let Some(place) = queues.place(&wait.owner).filter(|place| place.wait.is_like(&wait)) {
                *place = Place { wait, since: place.since, asked: now, told: None };
                return true;
            }
            queues.remove(&wait.owner);
            let of_file = queues.files.get(&wait.file).map_or(0, VecDeque::len);
            let is_full = queues.owners.len() >= WAITERS_MAX || of_file >= WAITERS_OF_FILE_MAX;
            if is_full || queues.of_client(wait.owner.client).count() >= WAITERS_OF_CLIENT_MAX {
                return false;
            }
            queues.owners.insert(wait.owner.clone(), wait.file);
            queues.files.entry(wait.file).or_default().push_back(Place { wait, since: now, asked: now, told: None });
            true
        })
    }

    /// Somebody waits no more: he has his range, asks for another one, or does not come.
    pub fn leave(&self, owner: &LockOwner) {
        if !self.is_empty() {
            self.change(|queues| queues.remove(owner));
        }
    }

    /// An open is closed: who would lock below it waits no more.
    pub fn close(&self, file: &FileId, below: Holder) {
        self.retain(file, |place| place.wait.below != below);
    }

    /// A client is gone.
    pub fn forget_client(&self, client: ClientId) {
        if self.is_empty() {
            return;
        }
        self.change(|queues| {
            let owners: Vec<_> = queues.of_client(client).cloned().collect();
            owners.iter().for_each(|owner| queues.remove(owner));
        });
    }

    /// A file is served no more, as it was.
    pub fn forget_file(&self, file: &FileId) {
        self.retain(file, |_| false);
    }

    /// Those who wait for something of a file, or for what overlaps this range of it; who was not heard for a lease is none of them any more.
    #[must_use]
    pub fn queue(&self, file: &FileId, freed: Option<Range>, now: Duration) -> Queued {
        self.retain(file, |place| place.asked + self.lease >= now);
        let mut queued = Queued::default();
        if self.is_empty() {
            return queued;
        }
        let queues = self.queues.lock();
        for place in queues.files.get(file).into_iter().flatten() {
            match place.told {
                Some(_) => queued.told.push(place.wait.clone()),
                None if freed.is_none_or(|freed| freed.overlaps(place.wait.range)) => {
                    queued.waiting.push(place.wait.clone());
                }
                None => {}
            }
        }
        queued
    }

    /// Somebody is told that what he waits for is free, and may come until [`COME`] from now. False: he waits for that no more, or was told.
    #[must_use]
    pub fn tell(&self, wait: &LockWait, now: Duration) -> bool {
        self.change(|queues| {
            let place = queues.place(&wait.owner).filter(|place| place.wait.is_like(wait) && place.told.is_none());
            place.is_some_and(|place| place.told.replace(now + COME).is_none())
        })
    }

    /// He was not told after all, as nothing could be sent: he waits where he was.
    pub fn has_not_told(&self, wait: &LockWait) {
        self.change(|queues| {
            if let Some(place) = queues.place(&wait.owner).filter(|place| place.wait.is_like(wait)) {
                place.told = None;
            }
        });
    }

    /// An owner who waits for something of a file was not told after all, or not for certain: others come before him, and he is told again behind them.
    pub fn go_behind(&self, owner: &LockOwner, file: &FileId) {
        if self.is_empty() {
            return;
        }
        self.change(|queues| {
            let Some(queue) = queues.files.get_mut(file) else { return };
            let Some(at) = queue.iter().position(|place| place.wait.owner == *owner) else { return };
            let place = queue.remove(at).expect("it is there");
            queue.push_back(Place { told: None, ..place });
        });
    }

    /// An owner has said that he does not come for what he was told of in a file.
    pub fn leave_if_told(&self, owner: &LockOwner, file: &FileId) {
        self.retain(file, |place| place.wait.owner != *owner || place.told.is_none());
    }

    /// Who was told, and did not come, is gone.
    pub fn forget_late(&self, now: Duration) {
        if self.is_empty() {
            return;
        }
        self.change(|queues| {
            let places = queues.files.values().flatten();
            let late =
                places.filter(|place| place.told.is_some_and(|until| until < now) || place.asked + self.lease < now);
            let owners: Vec<_> = late.map(|place| place.wait.owner.clone()).collect();
            owners.iter().for_each(|owner| queues.remove(owner));
        });
    }

    /// Those who wait, of all or of one client, and since when: as many as `which` says, and how many there are besides.
    #[must_use]
    pub fn seen(&self, which: Which) -> (Vec<(LockWait, Duration)>, usize) {
        if self.is_empty() {
            return (Vec::new(), 0);
        }
        let queues = self.queues.lock();
        let asked = |place: &&Place| which.client.is_none_or(|client| place.wait.owner.client == client);
        let mut places = queues.files.values().flatten().filter(asked);
        let shown = places.by_ref().take(which.most).map(|place| (place.wait.clone(), place.since)).collect();
        (shown, places.count())
    }

    /// In which files somebody waits for something.
    #[must_use]
    pub fn files(&self) -> Vec<FileId> {
        if self.is_empty() { Vec::new() } else { self.queues.lock().files.keys().copied().collect() }
    }

    /// What an owner waits for, if he has asked for it lately.
    #[must_use]
    pub fn wait_of(&self, owner: &LockOwner, now: Duration) -> Option<LockWait> {
        let mut queues = self.queues.lock();
        queues.place(owner).filter(|place| place.asked + FRESH >= now).map(|place| place.wait.clone())
    }

    fn retain(&self, file: &FileId, stays: impl Fn(&Place) -> bool) {
        if self.is_empty() {
            return;
        }
        self.change(|queues| {
            let places = queues.files.get(file).into_iter().flatten();
            let gone: Vec<_> = places.filter(|place| !stays(place)).map(|place| place.wait.owner.clone()).collect();
            gone.iter().for_each(|owner| queues.remove(owner));
        });
    }

    fn change<T>(&self, step: impl FnOnce(&mut Queues) -> T) -> T {
        let mut queues = self.queues.lock();
        let done = step(&mut queues);
        self.count.store(queues.owners.len(), SeqCst);
        debug_assert!(queues.is_sound());
        done
    }
}

impl Queues {
    fn place(&mut self, owner: &LockOwner) -> Option<&mut Place> {
        let file = self.owners.get(owner)?;
        self.files.get_mut(file)?.iter_mut().find(|place| place.wait.owner == *owner)
    }

    fn of_client(&self, client: ClientId) -> impl Iterator<Item = &LockOwner> {
        let first = LockOwner { client, name: Arc::default() };
        self.owners.range(first..).map(|(owner, _)| owner).take_while(move |owner| owner.client == client)
    }

    fn remove(&mut self, owner: &LockOwner) {
        let Some(file) = self.owners.remove(owner) else { return };
        let Some(queue) = self.files.get_mut(&file) else { return };
        queue.retain(|place| place.wait.owner != *owner);
        if queue.is_empty() {
            self.files.remove(&file);
        }
    }

    /// Q1 to Q3, as far as they can be told at once.
    fn is_sound(&self) -> bool {
        let places: usize = self.files.values().map(VecDeque::len).sum();
        places == self.owners.len()
            && places <= WAITERS_MAX
            && self.files.values().all(|queue| !queue.is_empty() && queue.len() <= WAITERS_OF_FILE_MAX)
    }
}

#[cfg(test)]
mod tests;
