//! The owners of minor version 0, each in its order ([`super::owners`]), and what compounds carry out for them (rules V17 and V18).
//!
//! Here are those of opens and those of locks, whose names are hashed by two keys. One of locks is known as long as it has a stateid. One of opens outlives what it has open: its CLOSE may come again. It is known until its client is gone, or until there are too many: then one that has nothing
//! open goes, the longest unused first, of that client before all others. Of whom nobody knows any more nothing is lost but its order, and it
//! confirms once more (RFC 7530 §9.1.10).
//!
//! What owners were told is kept for all of them up to a bound. Past it those that came longest ago lose theirs, whatever they have, and are told SERVERFAULT if they ask once more: nobody
//! is refused for what others keep, least of all who gives something up.
//!
//! ```text
//!  an operation comes ─begin▶ under way ─┬─ the reply leaves, all of it durable ──▶ ended, with what it was told
//!                                        ├─ its promise breaks ────────────────────▶ ended with IO; what its owner did behind it did not come
//!                                        └─ dropped: nobody is told, it comes again ▶ withdrawn, from the first on that waited; those before have ended
//! ```
//!
//! So a retransmission that comes while the first waits for its frame in the log is neither carried out nor told what may not be so: it is DELAY, and the
//! owner's order is as it was.
//!
//! *Locks.* One, over the table. Under it the shards of [`Opens`](super::Opens) and [`Locks`](super::Locks) are asked whether an owner has something. It is held over no call to anything else.
//!
//! *Invariants.* W1: places by age are those of the owners. W2: what is charged is what owners have kept, and who has is found by age.
//! W3: nobody is here of whom nothing was ever carried out, but for what is under way.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use parking_lot::Mutex;

use super::bounds::{OWNERS_KEPT_BYTES_MAX, OWNERS_LOOKED_AT, OWNERS_MAX, OWNERS_OF_CLIENT_MAX};
use super::{Brought, ClientId, OwnerKey, OwnerName, OwnerOrder, Told, Turn};
use crate::v4::status::Status;

mod turns;

pub use turns::{Asking, Turns};

/// What becomes of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// It is carried out now.
    Now {
        /// If not, what it opens is provisional.
        is_confirmed: bool,
        /// What the owner had open goes before.
        is_anew: bool,
    },
    /// It was, and this was told.
    Before(Told),
}

/// Bytes 4..16 of a stateid.
type Other = [u8; 12];

#[derive(Debug, Default)]
struct Owner {
    order: OwnerOrder,
    /// When it came last, on a clock that counts what comes.
    age: u64,
    /// What its last CLOSE has closed, and that one's seqid: no open tells any more whose it was.
    closed: Option<(u32, Other)>,
}

#[derive(Debug, Default)]
struct Table {
    owners: HashMap<OwnerKey, Owner>,
    by_age: BTreeMap<u64, OwnerKey>,
    /// Those of whom bytes are kept.
    keeping: BTreeMap<u64, OwnerKey>,
    of_clients: HashMap<ClientId, BTreeMap<u64, OwnerName>>,
    closed: HashMap<Other, OwnerKey>,
    charged_bytes: usize,
    now: u64,
}

/// All owners.
#[derive(Default)]
pub struct Orders {
    table: Mutex<Table>,
}

/// An operation, and whose it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coming {
    pub(super) owner: OwnerKey,
    pub(super) brought: Brought,
    pub(super) seqid: u32,
    pub(super) fingerprint: u64,
    /// The same compound has one of that owner under way.
    pub(super) is_behind: bool,
}

impl Orders {
    /// An operation comes: table D1. `has_any` tells which owners have something open, or stateids of locks. What is new has to be ended or withdrawn.
    fn begin(&self, coming: Coming, has_any: &dyn Fn(&OwnerKey) -> bool) -> Result<Came, Status> {
        let mut table = self.table.lock();
        let owner = coming.owner;
        // Row h.
        if coming.brought == Brought::Lock && table.is_idle(&owner, has_any) {
            table.forget(&owner);
        }
        if !table.owners.contains_key(&owner) {
            // Row c.
            if !coming.brought.begins() {
                return Err(Status::BadSeqid);
            }
            table.make_place(&owner, has_any)?;
        }
        table.touch(owner);
        let begun = table.change(&owner, |it| {
            let Coming { brought, seqid, fingerprint, is_behind, .. } = coming;
            let is_anew = match it.order.begin(brought, seqid, fingerprint, is_behind)? {
                Turn::New => false,
                Turn::Anew => true,
                Turn::Replay(told) => return Ok(Came::Before(told.clone())),
                Turn::Faulted => return Ok(Came::Before(Status::ServerFault.into())),
            };
            Ok(Came::Now { is_confirmed: it.order.is_confirmed(), is_anew })
        });
        table.forget_unknown(&owner);
        table.check();
        begun
    }

    /// The first of what an owner has under way has ended: this is told.
    fn end(&self, owner: &OwnerKey, seqid: u32, told: Told) {
        let mut table = self.table.lock();
        // It went with its client, and at most something of it came behind that.
        if table.owners.get(owner).is_none_or(|it| it.order.under_way() == 0) {
            return;
        }
        if super::moves(told.status)
            && let Some((of, other)) = table.owners[owner].closed
            && of != seqid
        {
            table.closed.remove(&other);
            table.change(owner, |it| it.closed = None);
        }
        table.touch(*owner);
        table.change(owner, |it| it.order.end(told));
        table.keep_less();
        table.forget_unknown(owner);
        table.check();
    }

    /// What an owner has under way comes again.
    fn withdraw(&self, owner: &OwnerKey) {
        let mut table = self.table.lock();
        if table.owners.contains_key(owner) {
            table.change(owner, |it| it.order.withdraw());
            table.forget_unknown(owner);
        }
        table.check();
    }

    /// OPEN_CONFIRM was carried out.
    pub fn confirm(&self, owner: &OwnerKey) {
        if let Some(it) = self.table.lock().owners.get_mut(owner) {
            it.order.confirm();
        }
    }

    /// CLOSE was carried out: by what it closed its owner is still found, until another one of its operations has ended.
    pub fn note_closed(&self, owner: &OwnerKey, seqid: u32, other: Other) {
        let mut table = self.table.lock();
        let Some(it) = table.owners.get_mut(owner) else { return };
        let before = it.closed.replace((seqid, other));
        if let Some((_, before)) = before {
            table.closed.remove(&before);
        }
        table.closed.insert(other, *owner);
        table.check();
    }

    /// Whose last CLOSE has closed that.
    #[must_use]
    pub fn who_closed(&self, other: &Other) -> Option<OwnerKey> {
        self.table.lock().closed.get(other).copied()
    }

    /// An owner of locks is given up by its client, and had none. If a LOCK came beside that and has made a stateid, its order goes on.
    pub fn release(&self, owner: &OwnerKey, has_any: &dyn Fn(&OwnerKey) -> bool) {
        let mut table = self.table.lock();
        if table.is_idle(owner, has_any) {
            table.forget(owner);
        }
        table.check();
    }

    /// A client is gone.
    pub fn forget_client(&self, client: ClientId) {
        let mut table = self.table.lock();
        let owners = table.of_clients.get(&client).cloned().unwrap_or_default();
        owners.into_values().for_each(|name| table.forget(&OwnerKey { client, name }));
        table.check();
    }

    /// How many there are, and what is charged for them, bytes.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let table = self.table.lock();
        (table.owners.len(), table.charged_bytes)
    }
}

impl Table {
    /// Enters one more owner, in the place of one that has nothing open if there are too many: the client's bound before that of all.
    fn make_place(&mut self, owner: &OwnerKey, has_any: &dyn Fn(&OwnerKey) -> bool) -> Result<(), Status> {
        let of_client = self.of_clients.get(&owner.client).map_or(0, BTreeMap::len);
        if of_client >= OWNERS_OF_CLIENT_MAX && !self.forget_idle(Some(owner.client), owner, has_any) {
            return Err(Status::Resource);
        }
        if self.owners.len() >= OWNERS_MAX && !self.forget_idle(None, owner, has_any) {
            return Err(Status::Resource);
        }
        self.owners.insert(*owner, Owner::default());
        Ok(())
    }

    /// Past the bound, nothing is kept any more of what those were told that came longest ago.
    fn keep_less(&mut self) {
        while self.charged_bytes > OWNERS_KEPT_BYTES_MAX
            && let Some(oldest) = self.keeping.first_key_value().map(|(_, owner)| *owner)
        {
            self.change(&oldest, |it| it.order.keep_nothing());
        }
    }

    /// Whether it is known, and needs not be.
    fn is_idle(&self, owner: &OwnerKey, has_any: &dyn Fn(&OwnerKey) -> bool) -> bool {
        self.owners.get(owner).is_some_and(|it| it.order.under_way() == 0) && !has_any(owner)
    }

    /// Forgets an owner, of that client or of all, that has nothing and nothing under way. Of those that came longest ago a few are looked at; who
    /// turns out to be needed is as if it had come now, so that the next look is at others.
    fn forget_idle(&mut self, of: Option<ClientId>, but: &OwnerKey, has_any: &dyn Fn(&OwnerKey) -> bool) -> bool {
        for _ in 0..OWNERS_LOOKED_AT {
            let oldest = match of {
                Some(client) => {
                    let names = self.of_clients.get(&client);
                    names.and_then(BTreeMap::first_key_value).map(|(_, name)| OwnerKey { client, name: *name })
                }
                None => self.by_age.first_key_value().map(|(_, owner)| *owner),
            };
            let Some(oldest) = oldest else { return false };
            if oldest != *but && self.is_idle(&oldest, has_any) {
                self.forget(&oldest);
                return true;
            }
            self.touch(oldest);
        }
        false
    }

    /// It comes now.
    fn touch(&mut self, owner: OwnerKey) {
        self.now += 1;
        let now = self.now;
        let it = self.owners.get_mut(&owner).expect("it is there");
        let before = std::mem::replace(&mut it.age, now);
        self.by_age.remove(&before);
        self.by_age.insert(now, owner);
        if self.keeping.remove(&before).is_some() {
            self.keeping.insert(now, owner);
        }
        let of_client = self.of_clients.entry(owner.client).or_default();
        of_client.remove(&before);
        of_client.insert(now, owner.name);
    }

    /// Changes an owner that is there, and what is charged for it.
    fn change<T>(&mut self, owner: &OwnerKey, change: impl FnOnce(&mut Owner) -> T) -> T {
        let it = self.owners.get_mut(owner).expect("it is there");
        self.charged_bytes -= it.order.kept_bytes();
        let value = change(it);
        self.charged_bytes += it.order.kept_bytes();
        match it.order.kept_bytes() {
            0 => self.keeping.remove(&it.age),
            _ => self.keeping.insert(it.age, *owner),
        };
        value
    }

    /// Of whom nothing was ever carried out nothing is kept.
    fn forget_unknown(&mut self, owner: &OwnerKey) {
        if self.owners.get(owner).is_some_and(|it| it.order.is_unknown()) {
            self.forget(owner);
        }
    }

    fn forget(&mut self, owner: &OwnerKey) {
        let Some(it) = self.owners.remove(owner) else { return };
        self.charged_bytes -= it.order.kept_bytes();
        self.by_age.remove(&it.age);
        self.keeping.remove(&it.age);
        if let Some((_, other)) = it.closed {
            self.closed.remove(&other);
        }
        let Some(of_client) = self.of_clients.get_mut(&owner.client) else { return };
        of_client.remove(&it.age);
        if of_client.is_empty() {
            self.of_clients.remove(&owner.client);
        }
    }

    /// W1 to W3, of tables that are short enough to walk.
    fn check(&self) {
        if cfg!(debug_assertions) && self.owners.len() <= 64 {
            self.check_all();
        }
    }

    fn check_all(&self) {
        let is_listed = |(owner, it): (&OwnerKey, &Owner)| {
            self.by_age.get(&it.age) == Some(owner)
                && self.of_clients.get(&owner.client).and_then(|names| names.get(&it.age)) == Some(&owner.name)
        };
        assert!(self.owners.iter().all(is_listed), "W1");
        let listed: usize = self.of_clients.values().map(BTreeMap::len).sum();
        assert_eq!((self.by_age.len(), listed), (self.owners.len(), self.owners.len()), "W1");
        assert_eq!(self.charged_bytes, self.owners.values().map(|it| it.order.kept_bytes()).sum::<usize>(), "W2");
        let is_keeping = |it: &Owner| (it.order.kept_bytes() > 0) == self.keeping.contains_key(&it.age);
        assert!(self.owners.values().all(is_keeping) && self.keeping.len() <= self.owners.len(), "W2");
        assert!(self.charged_bytes <= OWNERS_KEPT_BYTES_MAX, "W2");
        assert!(self.owners.values().all(|it| !it.order.is_unknown()), "W3");
    }
}

impl fmt::Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orders").field("counts", &self.counts()).finish()
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
