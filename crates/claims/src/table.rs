//! The table of all objects: the one door through which claims are made, asked for and given up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use foldhash::HashMap;
use parking_lot::RwLock;
use smallvec::SmallVec;
use tally_base::ObjectId;

use crate::account::Account;
use crate::delegation::{Act, Delegation};
use crate::holder::{ClientNumber, Holder};
use crate::holdings::Holdings;
use crate::object::{AllFreed, Claimed};
use crate::ranges::{Change, Kind, Lock, Range};
use crate::refused::{Counted, Refused};
use crate::share::{Access, Share};
use crate::watchers::{Watch, Watchers};

/// Ids are numbers of a counter, so neighbours lie in different ones.
const SHARD_COUNT: usize = 64;

type Objects = HashMap<ObjectId, Claimed>;

/// What is claimed of one dataset's objects.
pub struct Claims {
    /// Objects of which something is claimed.
    shards: [RwLock<Objects>; SHARD_COUNT],
    /// How many these are.
    object_count: AtomicUsize,
    /// How many delegations there are: where there is none, whoever acts asks for no more than this.
    delegation_count: AtomicUsize,
    /// Which of them each holder has claims of. Changed under the lock of the object's shard.
    holdings: Holdings,
    account: Arc<Account>,
    watchers: Watchers,
}

/// What a close came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The holder did not have it open.
    NotOpen,
    /// Others have it open still.
    OthersHaveIt,
    /// Nobody has it open any more.
    Last,
    /// Nobody has it open any more and it has no name: whoever is told this frees it.
    LastOfRemoved,
}

impl Claims {
    /// Nothing is claimed yet. What will be is counted here.
    #[must_use]
    pub fn new(account: Arc<Account>) -> Self {
        let shards = std::array::from_fn(|_| RwLock::default());
        Self {
            shards,
            object_count: AtomicUsize::new(0),
            delegation_count: AtomicUsize::new(0),
            holdings: Holdings::default(),
            account,
            watchers: Watchers::default(),
        }
    }

    /// From here on this one is told of what is given up.
    pub fn watch(&self, watch: &Weak<dyn Watch>) {
        self.watchers.add(watch);
    }

    /// Whether nobody claims anything of any object. A claim of an object is seen here by whoever locks that object after the one that made it.
    #[must_use]
    pub fn is_unclaimed(&self) -> bool {
        self.object_count.load(Ordering::Acquire) == 0
    }

    /// Opens an object, or adds to the open that the holder has: then all that he has opened it for counts, until he downgrades or closes. Whose share
    /// is in the way is told before whose delegation, which would be called back for nothing.
    pub fn open(&self, object: ObjectId, holder: Holder, share: Share) -> Result<(), Refused> {
        let mut objects = self.shard(object).write();
        let nothing = Claimed::default();
        let known = objects.get(&object).unwrap_or(&nothing);
        known.admits(Some(holder), share)?;
        known.admits_act(Some(holder.client), Act::opening(share))?;
        let (is_open, is_known) = (known.has_open(holder), known.holds(holder));
        if !is_open {
            known.room_for_an_open(holder.client)?;
            self.account.take(holder.client, Counted::Opens, 1)?;
        }
        self.claimed(&mut objects, object).open(holder, share);
        if !is_known {
            self.holdings.add(holder, object);
        }
        Ok(())
    }

    /// Gives up a part of what the holder has opened an object for, all but this.
    pub fn downgrade(&self, object: ObjectId, holder: Holder, share: Share) -> Result<(), Refused> {
        let mut objects = self.shard(object).write();
        objects.get_mut(&object).ok_or(Refused::NotOpened)?.downgrade(holder, share)
    }

    /// Ends an open, and frees what was locked below it.
    pub fn close(&self, object: ObjectId, holder: Holder) -> Closed {
        self.give_up(object, |claimed| claimed.close(holder))
    }

    /// What a holder has an object open for, if he has.
    #[must_use]
    pub fn share_of(&self, object: ObjectId, holder: Holder) -> Option<Share> {
        self.look(object, |claimed| claimed.share_of(holder)).flatten()
    }

    /// Whether anybody has it open.
    #[must_use]
    pub fn is_open(&self, object: ObjectId) -> bool {
        self.look(object, Claimed::is_open).unwrap_or(false)
    }

    /// Whether no open but the holder's own denies to read. Nobody's open, as of a stateid that stands for no state, has no own: every deny counts.
    pub fn may_read(&self, object: ObjectId, who: Option<Holder>) -> Result<(), Refused> {
        self.look(object, |claimed| claimed.admits(who, Share::only(Access::READ))).unwrap_or(Ok(()))
    }

    /// The same for writing, and for setting the size.
    pub fn may_write(&self, object: ObjectId, who: Option<Holder>) -> Result<(), Refused> {
        self.look(object, |claimed| claimed.admits(who, Share::only(Access::WRITE))).unwrap_or(Ok(()))
    }

    /// Whose opens keep this holder, or nobody, from opening an object for that, or from doing it, each client once. All of its opens are looked at, so this is for who was refused.
    #[must_use]
    pub fn in_the_way(&self, object: ObjectId, who: Option<Holder>, share: Share) -> Vec<ClientNumber> {
        self.look(object, |claimed| claimed.in_the_way(who, share)).unwrap_or_default()
    }

    /// Whether no other client's delegation is in the way of what a client, or somebody who is none, is about to do with an object (table D10). Asked under the
    /// object's lock, before anything is changed; where nothing is delegated this is one atomic load.
    pub fn gate(&self, object: ObjectId, who: Option<ClientNumber>, act: Act) -> Result<(), Refused> {
        if self.delegation_count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        self.look(object, |claimed| claimed.admits_act(who, act)).unwrap_or(Ok(()))
    }

    /// Gives the client of an owner a delegation, if table D9 allows that. The owner has opened the object, under the same lock of it.
    pub fn delegate(&self, object: ObjectId, holder: Holder, wanted: Delegation) -> Result<bool, Refused> {
        let mut objects = self.shard(object).write();
        let nothing = Claimed::default();
        let known = objects.get(&object).unwrap_or(&nothing);
        if known.is_removed() || !known.admits_delegation(holder, wanted)? {
            return Ok(false);
        }
        let client = holder.client;
        self.account.take(client, Counted::Delegations, 1)?;
        self.claimed(&mut objects, object).delegated_mut().give(client, wanted);
        self.delegation_count.fetch_add(1, Ordering::Release);
        self.holdings.add_delegated(client, object);
        Ok(true)
    }

    /// Who holds which delegation of an object, in the order of the clients.
    #[must_use]
    pub fn delegated(&self, object: ObjectId) -> SmallVec<[(ClientNumber, Delegation); 1]> {
        if self.delegation_count.load(Ordering::Acquire) == 0 {
            return SmallVec::new();
        }
        self.look(object, |claimed| claimed.delegated().all().collect()).unwrap_or_default()
    }

    /// What a client holds of an object.
    #[must_use]
    pub fn delegated_to(&self, object: ObjectId, client: ClientNumber) -> Option<Delegation> {
        self.look(object, |claimed| claimed.delegated().of(client)).flatten()
    }

    /// A client gives back what it holds of an object. Whether it held anything.
    pub fn give_back(&self, object: ObjectId, client: ClientNumber) -> bool {
        let mut objects = self.shard(object).write();
        let Some(claimed) = objects.get_mut(&object) else { return false };
        let was_his = claimed.delegated_mut().take(client);
        if was_his {
            self.settle_delegation(object, client);
            if claimed.is_empty() {
                self.forget(&mut objects, object);
            }
            drop(objects);
            self.watchers.tell(object, Range::ALL);
        }
        was_his
    }

    fn settle_delegation(&self, object: ObjectId, client: ClientNumber) {
        self.account.give(client, Counted::Delegations, 1);
        self.holdings.remove_delegated(client, object);
        self.delegation_count.fetch_sub(1, Ordering::Release);
    }

    /// Its last name goes. Whether somebody has it open, so that it has to stay until a close or release says that this was the last; if nobody has, it is
    /// free now, and so is what was locked in it, or delegated of it.
    #[must_use]
    pub fn note_removed(&self, object: ObjectId) -> bool {
        let mut objects = self.shard(object).write();
        let Some(claimed) = objects.get_mut(&object) else { return false };
        claimed.note_removed();
        let is_open = claimed.is_open();
        if !is_open {
            self.forget(&mut objects, object);
            drop(objects);
            self.watchers.tell(object, Range::ALL);
        }
        is_open
    }

    /// Locks a range, or changes what for. The owner keeps it until it unlocks, or until the open is closed below which it began to lock.
    pub fn lock(&self, object: ObjectId, below: Option<Holder>, wanted: Lock) -> Result<(), Refused> {
        let mut objects = self.shard(object).write();
        let nothing = Claimed::default();
        let known = objects.get(&object).unwrap_or(&nothing);
        if below.is_some_and(|open| !known.has_open(open)) {
            return Err(Refused::NotOpened);
        }
        known.admits_lock(wanted)?;
        // Who holds a delegation locks without asking.
        known.admits_act(Some(wanted.holder.client), Act::locking(wanted.kind))?;
        let change = known.plan(wanted.holder, wanted.range, Some(wanted.kind))?;
        // Where he had it for writing others may read now.
        let may_give_way = wanted.kind == Kind::Read && known.has_ranges(wanted.holder);
        self.change(&mut objects, object, change, below)?;
        drop(objects);
        if may_give_way {
            self.watchers.tell(object, wanted.range);
        }
        Ok(())
    }

    /// Unlocks a range, what of it is locked. A range may become two by that, for which there has to be room.
    pub fn unlock(&self, object: ObjectId, holder: Holder, range: Range) -> Result<(), Refused> {
        let mut objects = self.shard(object).write();
        let Some(known) = objects.get(&object).filter(|known| known.has_ranges(holder)) else { return Ok(()) };
        let change = known.plan(holder, range, None)?;
        self.change(&mut objects, object, change, None)?;
        drop(objects);
        self.watchers.tell(object, range);
        Ok(())
    }

    /// Whether a range could be locked, as far as others' are concerned.
    pub fn test(&self, object: ObjectId, wanted: Lock) -> Result<(), Refused> {
        let test = |claimed: &Claimed| {
            claimed.admits_lock(wanted)?;
            claimed.admits_act(Some(wanted.holder.client), Act::locking(wanted.kind))
        };
        self.look(object, test).unwrap_or(Ok(()))
    }

    /// Whether an owner has locked anything of an object.
    #[must_use]
    pub fn has_ranges(&self, object: ObjectId, holder: Holder) -> bool {
        self.look(object, |claimed| claimed.has_ranges(holder)).unwrap_or(false)
    }

    /// Up to so many ranges that an owner has locked of an object.
    #[must_use]
    pub fn ranges(&self, object: ObjectId, holder: Holder, most: usize) -> Vec<Lock> {
        self.look(object, |claimed| claimed.seen_ranges(holder, most)).unwrap_or_default()
    }

    /// An owner gives up all that it has, as by closes and unlocks. The objects that are free by that, since they were removed before: whoever is told this frees them.
    #[must_use]
    pub fn release_owner(&self, holder: Holder) -> Vec<ObjectId> {
        self.release(self.holdings.of_owner(holder), |other| other == holder)
    }

    /// The same of all owners of a client, and of what is delegated to it, whose new claims nobody lets in any more.
    #[must_use]
    pub fn release_client(&self, client: ClientNumber) -> Vec<ObjectId> {
        for object in self.holdings.delegated_to(client) {
            self.give_back(object, client);
        }
        self.release(self.holdings.of_client(client), |other| other.client == client)
    }

    fn release(&self, mut objects: Vec<ObjectId>, goes: impl Fn(Holder) -> bool) -> Vec<ObjectId> {
        objects.retain(|&object| self.give_up(object, |claimed| claimed.release(&goes)) == Closed::LastOfRemoved);
        objects
    }

    /// Lets somebody give up something of an object, and forgets the object where nothing is left.
    fn give_up(&self, object: ObjectId, give_up: impl FnOnce(&mut Claimed) -> AllFreed) -> Closed {
        let mut objects = self.shard(object).write();
        let Some(claimed) = objects.get_mut(&object) else { return Closed::NotOpen };
        let freed = give_up(claimed);
        self.settle(object, claimed, &freed);
        let closed = match (claimed.is_open(), claimed.is_removed()) {
            _ if freed.iter().all(|freed| freed.opens == 0) => Closed::NotOpen,
            (true, _) => Closed::OthersHaveIt,
            (false, false) => Closed::Last,
            (false, true) => Closed::LastOfRemoved,
        };
        let may_make_way = closed == Closed::LastOfRemoved || freed.iter().any(|freed| freed.ranges > 0);
        if closed == Closed::LastOfRemoved || claimed.is_empty() {
            self.forget(&mut objects, object);
        }
        drop(objects);
        if may_make_way {
            self.watchers.tell(object, Range::ALL);
        }
        closed
    }

    /// Locks or unlocks as planned, if there is room.
    fn change(
        &self,
        objects: &mut Objects,
        object: ObjectId,
        change: Change,
        below: Option<Holder>,
    ) -> Result<(), Refused> {
        let (holder, (more, fewer)) = (change.holder, change.growth());
        self.account.take(holder.client, Counted::Ranges, more)?;
        self.account.give(holder.client, Counted::Ranges, fewer);
        let claimed = self.claimed(objects, object);
        let had_any = claimed.holds(holder);
        claimed.apply(change, below);
        match (had_any, claimed.holds(holder)) {
            (false, true) => self.holdings.add(holder, object),
            (true, false) => self.holdings.remove(holder, object),
            _ => {}
        }
        if claimed.is_empty() {
            self.forget(objects, object);
        }
        Ok(())
    }

    /// Takes out of the account and the holdings what is claimed no more.
    fn settle(&self, object: ObjectId, left: &Claimed, freed: &AllFreed) {
        for freed in freed {
            self.account.give(freed.holder.client, Counted::Opens, freed.opens);
            self.account.give(freed.holder.client, Counted::Ranges, freed.ranges);
            if !left.holds(freed.holder) {
                self.holdings.remove(freed.holder, object);
            }
        }
    }

    /// The object's claims, which there will be if there are none.
    fn claimed<'a>(&self, objects: &'a mut Objects, object: ObjectId) -> &'a mut Claimed {
        objects.entry(object).or_insert_with(|| {
            self.object_count.fetch_add(1, Ordering::Release);
            Claimed::default()
        })
    }

    /// An object goes out of the table, with what may still be claimed of it.
    fn forget(&self, objects: &mut Objects, object: ObjectId) {
        let Some(mut claimed) = objects.remove(&object) else { return };
        let freed = claimed.release(|_| true);
        self.settle(object, &claimed, &freed);
        claimed.delegated().all().for_each(|(client, _)| self.settle_delegation(object, client));
        self.object_count.fetch_sub(1, Ordering::Release);
    }

    fn look<T>(&self, object: ObjectId, look: impl FnOnce(&Claimed) -> T) -> Option<T> {
        if self.is_unclaimed() {
            return None;
        }
        self.shard(object).read().get(&object).map(look)
    }

    fn shard(&self, object: ObjectId) -> &RwLock<Objects> {
        &self.shards[object.0 as usize % SHARD_COUNT]
    }
}

impl Drop for Claims {
    /// What a dataset's clients had claimed is room for others again, and who waits for it looks where it is now.
    fn drop(&mut self) {
        for (object, mut claimed) in self.shards.iter_mut().flat_map(|shard| std::mem::take(shard.get_mut())) {
            for (client, _) in claimed.delegated().all() {
                self.account.give(client, Counted::Delegations, 1);
            }
            for freed in claimed.release(|_| true) {
                self.account.give(freed.holder.client, Counted::Opens, freed.opens);
                self.account.give(freed.holder.client, Counted::Ranges, freed.ranges);
            }
            self.watchers.tell(object, Range::ALL);
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
