//! The slope: where more data comes than the disks take, each who brings it waits a little, and nobody for long.
//!
//! Limits alone are a wall. Data is taken at the log's pace until memory or ring is full; meanwhile the open group grows
//! to many times of what the disks write in the time that it is open, and then everybody stands still until that is
//! written. So the pool counts what is **ahead** of its disks: data that is in memory or about to be, and that a fold will
//! have to write. Below a bound nobody waits. Above it who brings data passes as the fold *writes*, in the order of
//! arrival: the pool takes what its disks take, in steps of one device write.
//!
//! ```text
//!                 passes                    settled                      the fold writes
//!   asked ──────────────────▶ reserved ─────────────────▶ unwritten ─────────────────────▶ written
//!     │                          ▲  ▲
//!     │ no room, or others wait  │  └── comes again: the same destination
//!     └───────▶ queue ──────▶ granted ── its group after the next is synced, and nobody came ──▶ given up
//!                (in order, as there is room)
//! ```
//!
//! **The bound** is what one group may have: a ring holds three groups (rules F28) and memory two, and a group should
//! not take longer than two seconds to write ([`super::pace`]). What a COMMIT will log counts from the time that it is
//! in memory, in a ring of four groups, since it may be logged a group later: a COMMIT that finds the ring full waits
//! for two groups. What will have no place in a ring counts for memory and time alone: a small promise waits for none
//! of it. What is ahead includes the open group, so no group is larger than its bounds, and neither ring nor memory
//! fills up with data, but for a ring with what is written over in its group: that counts once, and is logged anew each
//! time. Bulk has seven eighths of it. A little more is open to small requests, which are let in beside bulk that
//! waits; the rest, and names and attributes, is for nobody to wait for.
//!
//! **Nobody starves.** Small data is ahead of the disks like any other, and keeps bulk waiting; but a quarter of its bound
//! bulk has for itself. What is larger than every bound passes when no other bulk is ahead, which comes, since others
//! queue behind it.
//!
//! **No timer.** Whoever is refused has a ticket, and what is ahead shrinks when the fold has written a run, when a
//! group is synced, and when an operation ends. A ticket asks for a group besides, so that one of these comes, and for
//! another one after that as long as anybody waits behind data or kept room. A request that is woken runs from its
//! beginning: it is known by its *destination* (which file, which place), and finds its room kept. Whoever would not
//! come back, since his client has gone, loses that a group later.

mod grants;

use std::collections::{BTreeMap, VecDeque};

use grants::Grants;
use tally_base::{Fate, Txg};

/// A request with more data than this is bulk: as much as one small file.
pub(super) const SMALL_BYTES_MAX: u64 = 64 << 10;
/// Groups that have records in a ring: one is open, one is being synced, and the one before keeps its place until that is
/// over (rules F8, F28).
const GROUPS_IN_RING: u64 = 3;
/// Groups of UNSTABLE data that have their place in it: the COMMIT of what one has may come in the next.
const UNSTABLE_GROUPS_IN_RING: u64 = GROUPS_IN_RING + 1;
/// Groups whose data is in memory.
const GROUPS_IN_MEMORY: u64 = 2;

/// What tells a request that comes again from others. Two with one destination are as good as one: it does not matter
/// which of them passes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination(
    /// Numbers that mean nothing here.
    pub [u64; 3],
);

/// What data takes of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingUse {
    /// Nothing: only its group will make it durable.
    None,
    /// Its place, at once, in a ring of so many bytes.
    Logged(u64),
    /// Its place, when its COMMIT comes, in a ring of so many bytes.
    Unstable(u64),
}

impl RingUse {
    /// What one group may have in its ring, for a request of so many bytes. Small ones go beside bulk of every kind, and so
    /// they all have the same bound.
    pub(super) fn group_bytes_max(self, bytes: u64) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Unstable(ring_bytes) if bytes > SMALL_BYTES_MAX => Some(ring_bytes / UNSTABLE_GROUPS_IN_RING),
            Self::Logged(ring_bytes) | Self::Unstable(ring_bytes) => Some(ring_bytes / GROUPS_IN_RING),
        }
    }
}

/// Data of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Bytes of all the data.
    pub bytes: u64,
    /// By how much it lets what is in memory grow: what it takes the place of is written by nobody.
    pub more_bytes: u64,
    /// Whether it takes of a ring, now or when its COMMIT comes.
    pub takes_ring: bool,
}

/// Who waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Small,
    Bulk,
}

/// What somebody wants to bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) destination: Destination,
    pub(super) bytes: u64,
    /// The largest group of which there is room in memory, and that the disks write in time.
    pub(super) group_bytes_max: u64,
    /// The largest of which there is room in its ring, if it takes of one.
    pub(super) ring_group_bytes_max: Option<u64>,
}

impl Load {
    fn class(&self) -> Class {
        if self.bytes > SMALL_BYTES_MAX { Class::Bulk } else { Class::Small }
    }

    /// Whether it needs nobody's leave with so much ahead.
    pub(super) fn is_light(&self, ahead_bytes: u64, ring_bytes: u64) -> bool {
        let fits = |ahead: u64, most| ahead.saturating_add(self.bytes) <= small_max(most);
        let is_below = || {
            fits(ahead_bytes, self.group_bytes_max)
                && self.ring_group_bytes_max.is_none_or(|most| fits(ring_bytes, most))
        };
        self.bytes == 0 || self.class() == Class::Small && is_below()
    }
}

/// What one group may have of data where there is so much memory.
pub(super) fn group_bytes_max(dirty_bytes_max: u64) -> u64 {
    dirty_bytes_max / GROUPS_IN_MEMORY
}

fn bulk_max(group_bytes_max: u64) -> u64 {
    group_bytes_max / 8 * 7
}

fn small_max(group_bytes_max: u64) -> u64 {
    group_bytes_max / 16 * 15
}

/// Called when a wait is over.
pub(super) type Then = Box<dyn FnOnce(Fate) + Send>;

/// Somebody who waits.
struct Ticket {
    number: u64,
    load: Load,
    then: Option<Then>,
}

/// What is ahead of the disks; and how much of that has its place in a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    memory: Part,
    ring: Part,
}

/// Bytes, and how many of them are bulk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    all: u64,
    bulk: u64,
}

/// See the module's head.
#[derive(Default)]
pub(super) struct Slope {
    /// Data that is in memory and in no older group, by group.
    unwritten: BTreeMap<Txg, Amount>,
    /// What the oldest of these has written.
    written_bytes: u64,
    /// Passed, and not settled.
    reserved: Amount,
    /// Those who wait, in the order of their tickets.
    small: VecDeque<Ticket>,
    bulk: VecDeque<Ticket>,
    grants: Grants,
    tickets: u64,
}

impl Amount {
    fn of(load: &Load) -> Self {
        let bulk = if load.class() == Class::Bulk { load.bytes } else { 0 };
        Self::in_memory(Part { all: load.bytes, bulk }, load.ring_group_bytes_max.is_some())
    }

    fn in_memory(memory: Part, takes_ring: bool) -> Self {
        Self { memory, ring: if takes_ring { memory } else { Part::default() } }
    }

    fn plus(self, other: Self) -> Self {
        Self { memory: self.memory.plus(other.memory), ring: self.ring.plus(other.ring) }
    }

    fn without(self, other: Self) -> Self {
        Self { memory: self.memory.without(other.memory), ring: self.ring.without(other.ring) }
    }

    fn less(self, bytes: u64) -> Self {
        Self { memory: self.memory.less(bytes), ring: self.ring.less(bytes) }
    }
}

impl Part {
    fn plus(self, other: Self) -> Self {
        Self { all: self.all.saturating_add(other.all), bulk: self.bulk.saturating_add(other.bulk) }
    }

    /// What is counted once is taken off once.
    fn without(self, other: Self) -> Self {
        let less = |all: u64, part: u64| all.checked_sub(part).expect("no more is taken off than was counted");
        Self { all: less(self.all, other.all), bulk: less(self.bulk, other.bulk) }
    }

    fn less(self, bytes: u64) -> Self {
        Self { all: self.all.saturating_sub(bytes), bulk: self.bulk.saturating_sub(bytes) }
    }
}

impl Slope {
    /// Lets it pass, and reserves its room; or gives it a ticket.
    pub(super) fn ask(&mut self, load: Load) -> Result<(), u64> {
        let is_kept = self.grants.take(&load);
        if !is_kept && (!self.queue(load.class()).is_empty() || !self.has_room(&load)) {
            self.tickets += 1;
            let ticket = Ticket { number: self.tickets, load, then: None };
            self.queue(load.class()).push_back(ticket);
            return Err(self.tickets);
        }
        self.reserved = self.reserved.plus(Amount::of(&load));
        Ok(())
    }

    /// What passed is over, and so is what was kept for it: what it has left in memory was counted by [`Self::add`].
    pub(super) fn give_back(&mut self, load: &Load) {
        self.reserved = self.reserved.without(Amount::of(load));
    }

    /// A group has more to write, by one record. It is bulk by what it has, as it was when it asked: of what is written
    /// over in part, little may be more.
    pub(super) fn add(&mut self, txg: Txg, brought: Brought) {
        let Brought { bytes, more_bytes, takes_ring } = brought;
        let bulk = if bytes > SMALL_BYTES_MAX { more_bytes } else { 0 };
        let of_group = self.unwritten.entry(txg).or_default();
        *of_group = of_group.plus(Amount::in_memory(Part { all: more_bytes, bulk }, takes_ring));
    }

    /// So much of what a group has brought is on disk already, and in memory no more. Its place in a ring stays counted: what
    /// is written over it may want that again.
    pub(super) fn placed(&mut self, txg: Txg, bytes: u64) {
        if let Some(of_group) = self.unwritten.get_mut(&txg) {
            of_group.memory = of_group.memory.less(bytes);
        }
    }

    /// The fold of `txg` has written so much, whatever it was.
    pub(super) fn wrote(&mut self, txg: Txg, bytes: u64) {
        // Nobody else writes for a group before it is the oldest.
        if self.unwritten.first_key_value().is_some_and(|(oldest, _)| *oldest == txg) {
            self.written_bytes = self.written_bytes.saturating_add(bytes);
        }
    }

    /// What `txg` brought is on disk, and with it whatever its fold had no need to write. Grants that were given before it
    /// began to be synced have had their time.
    pub(super) fn synced(&mut self, txg: Txg) {
        self.unwritten.retain(|group, _| *group > txg);
        self.written_bytes = 0;
        self.grants.synced(txg);
    }

    /// Data of one group.
    pub(super) fn bytes_of(&self, txg: Txg) -> u64 {
        self.unwritten.get(&txg).map_or(0, |ahead| ahead.memory.all)
    }

    /// Bytes that are ahead of the disks.
    pub(super) fn ahead_bytes(&self) -> u64 {
        self.ahead().memory.all
    }

    /// Those of them that have their place in a ring, or will ask for one.
    pub(super) fn ring_bytes(&self) -> u64 {
        self.ahead().ring.all
    }

    pub(super) fn waiting(&self) -> usize {
        self.small.len() + self.bulk.len()
    }

    /// Whether anybody waits for what the next groups bring: data that is written, or room that is given up.
    pub(super) fn waits_for_a_group(&self) -> bool {
        self.waiting() > 0 && !(self.unwritten.is_empty() && self.grants.bytes() == Amount::default())
    }

    /// Whether a small request has room that it has not come for.
    pub(super) fn keeps_room_for_small(&self) -> bool {
        let kept = self.grants.bytes();
        kept.memory.all > kept.memory.bulk
    }

    /// Whether this ticket still waits.
    pub(super) fn is_waiting(&self, number: u64) -> bool {
        self.place(number).is_some()
    }

    /// Whom to tell when its wait is over; given back if it is over.
    pub(super) fn tell(&mut self, number: u64, then: Then) -> Option<Then> {
        let Some((class, at)) = self.place(number) else { return Some(then) };
        self.queue(class)[at].then = Some(then);
        None
    }

    /// Nobody waits with this ticket any more, nor comes back with it.
    pub(super) fn forget(&mut self, number: u64) {
        match self.place(number) {
            Some((class, at)) => drop(self.queue(class).remove(at)),
            None => self.grants.forget(number),
        }
    }

    /// Keeps room for those who are next, and gives whom to tell.
    pub(super) fn advance(&mut self, synced: Txg) -> Vec<Then> {
        let mut woken = Vec::new();
        for class in [Class::Small, Class::Bulk] {
            while let Some(load) = self.queue(class).front().map(|ticket| ticket.load) {
                if !self.has_room(&load) {
                    break;
                }
                let ticket = self.queue(class).pop_front().expect("it was just looked at");
                self.grants.give(ticket.number, load, synced);
                woken.extend(ticket.then);
            }
        }
        woken
    }

    /// Nobody waits any more.
    pub(super) fn end(&mut self) -> Vec<Then> {
        self.grants.clear();
        self.small.drain(..).chain(self.bulk.drain(..)).filter_map(|ticket| ticket.then).collect()
    }

    /// Where this ticket waits, if it does.
    fn place(&self, number: u64) -> Option<(Class, usize)> {
        let find = |queue: &VecDeque<Ticket>| queue.binary_search_by_key(&number, |ticket| ticket.number).ok();
        find(&self.small).map(|at| (Class::Small, at)).or_else(|| Some((Class::Bulk, find(&self.bulk)?)))
    }

    fn queue(&mut self, class: Class) -> &mut VecDeque<Ticket> {
        match class {
            Class::Small => &mut self.small,
            Class::Bulk => &mut self.bulk,
        }
    }

    fn has_room(&self, load: &Load) -> bool {
        let Amount { memory, ring } = self.ahead();
        has_room_in(memory, load, load.group_bytes_max)
            && load.ring_group_bytes_max.is_none_or(|most| has_room_in(ring, load, most))
    }

    fn ahead(&self) -> Amount {
        let mut groups = self.unwritten.values().copied();
        let oldest = groups.next().unwrap_or_default().less(self.written_bytes);
        groups.chain([self.grants.bytes(), self.reserved]).fold(oldest, Amount::plus)
    }
}

fn has_room_in(part: Part, load: &Load, group_bytes_max: u64) -> bool {
    match load.class() {
        Class::Small => part.all == 0 || part.all + load.bytes <= small_max(group_bytes_max),
        Class::Bulk => {
            let most = bulk_max(group_bytes_max);
            part.bulk == 0 || part.all + load.bytes <= most || part.bulk + load.bytes <= most / 4
        }
    }
}

/// Whether room that is kept for one is that of the other: who has waited for memory alone has none in a ring.
fn is_same(kept: &Load, asked: &Load) -> bool {
    (kept.destination, kept.bytes) == (asked.destination, asked.bytes)
        && (kept.ring_group_bytes_max.is_some() || asked.ring_group_bytes_max.is_none())
}

#[cfg(test)]
mod tests;
