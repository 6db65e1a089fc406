//! The opens of some of the clients: places, found by number, and what leads to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use super::{Closing, OpenNumber, OwnerName, OwnerNumber};
use crate::v4::state::ClientId;
use crate::v4::state::bounds::{
    OPENS_MAX, OPENS_OF_CLIENT_MAX, OWNERS_MAX, OWNERS_OF_CLIENT_MAX, REVOKED_OF_CLIENT_MAX,
};
use crate::v4::state::places::{LOW_BITS, OF_DELEGATIONS, OF_LOCKS, PLACES_MAX};
use crate::v4::state::stateid::{Asker, FileId, Mounted, Place, Revoked, Seal, Stateid};
use crate::v4::status::Status;

/// What all shards have together.
#[derive(Debug, Default)]
pub(super) struct Totals {
    owners: AtomicUsize,
    opens: AtomicUsize,
    /// Of opens.
    revoked: AtomicUsize,
    /// Of owners, since the start.
    numbers: AtomicUsize,
    /// What time it is, by the clock of leases.
    second: AtomicU32,
}

impl Totals {
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.owners.load(Relaxed), self.opens.load(Relaxed))
    }

    pub(super) fn revoked(&self) -> usize {
        self.revoked.load(Relaxed)
    }

    pub(super) fn look_at_clock(&self, now: Duration) {
        self.second.store(now.as_secs() as u32, Relaxed);
    }
}

/// One more, if that is within bounds.
fn take(count: &AtomicUsize, most: usize) -> bool {
    count.fetch_update(Relaxed, Relaxed, |count| (count < most).then_some(count + 1)).is_ok()
}

fn give(count: &AtomicUsize) {
    count.fetch_sub(1, Relaxed);
}

/// Who opens what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) is_of_minor_0: bool,
    pub(super) client: ClientId,
    pub(super) name: OwnerName,
    pub(super) file: FileId,
}

/// An open, or what will be one.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) tag: u32,
    pub(super) asked: Asked,
    pub(super) owner: OwnerNumber,
    /// When it was begun, by the clock of leases.
    pub(super) since_s: u32,
    /// 0 before it was granted.
    pub(super) seqid: u32,
    pub(super) access: u32,
    pub(super) deny: u32,
    pub(super) revoked: Option<Revoked>,
    /// OPENs that are being carried out.
    pub(super) opening: u32,
    pub(super) is_changing: bool,
    /// Its owner has to confirm it before it can be used.
    pub(super) is_provisional: bool,
    /// Where it is in its client's list.
    listed: usize,
}

impl Open {
    fn new(tag: u32, asked: Asked, owner: OwnerNumber, listed: usize, since_s: u32) -> Self {
        let (seqid, access, deny, revoked, opening, is_changing, is_provisional) = Default::default();
        Self { tag, asked, owner, since_s, seqid, access, deny, revoked, opening, is_changing, is_provisional, listed }
    }

    pub(super) fn is_granted(&self) -> bool {
        self.seqid > 0
    }
}

/// A place, and how often it was used.
#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    open: Option<Open>,
}

#[derive(Debug)]
struct Owner {
    number: OwnerNumber,
    opens: usize,
}

#[derive(Debug, Default)]
struct Client {
    owners: HashMap<OwnerName, Owner>,
    /// Positions of all that it has open, and of what was revoked.
    opens: Vec<u32>,
    /// How many of these were revoked, by why.
    revoked: [usize; Revoked::COUNT],
}

impl Client {
    fn revoked_count(&self) -> usize {
        self.revoked.iter().sum()
    }
}

#[derive(Debug)]
pub(super) struct Shard {
    number: u32,
    slots: Vec<Slot>,
    free: Vec<u32>,
    clients: HashMap<ClientId, Client>,
    /// What is not revoked.
    by_file: HashMap<(OwnerNumber, FileId), u32>,
    totals: Arc<Totals>,
}

impl Shard {
    pub(super) fn new(number: u32, totals: Arc<Totals>) -> Self {
        let (slots, free) = Default::default();
        Self { number, slots, free, clients: HashMap::new(), by_file: HashMap::new(), totals }
    }

    /// The open at that place, if it still is that one.
    pub(super) fn at(&self, number: OpenNumber) -> Option<&Open> {
        let slot = self.slots.get(self.position(number.0 as u32)?)?;
        slot.open.as_ref().filter(|_| u64::from(slot.generation) == number.0 >> 32)
    }

    pub(super) fn at_mut(&mut self, number: OpenNumber) -> Option<&mut Open> {
        let position = self.position(number.0 as u32)?;
        let slot = self.slots.get_mut(position)?;
        slot.open.as_mut().filter(|_| u64::from(slot.generation) == number.0 >> 32)
    }

    /// What is at the place of a stateid.
    pub(super) fn at_place(&self, index: u32) -> Option<&Open> {
        self.slots.get(self.position(index)?)?.open.as_ref()
    }

    /// Table D6.
    pub(super) fn look(&self, seal: &Seal, asked: Stateid, asker: &Asker<'_>) -> Result<OpenNumber, Status> {
        let position = self.position(asked.index()).filter(|position| *position < self.slots.len());
        let open = position.and_then(|position| self.slots[position].open.as_ref()).filter(|open| open.is_granted());
        let place = open.map(|open| Place {
            tag: open.tag,
            client: open.asked.client,
            is_of_minor_0: open.asked.is_of_minor_0,
            file: &open.asked.file,
            revoked: open.revoked,
            seqid: open.seqid,
        });
        seal.look(asked, asker, place.as_ref())?;
        Ok(self.number_of(position.expect("there is an open") as u32))
    }

    /// Where an owner has a file open, or is about to.
    pub(super) fn of_file(&self, asked: &Asked) -> Option<u32> {
        let owner = self.clients.get(&asked.client)?.owners.get(&asked.name)?.number;
        self.by_file.get(&(owner, asked.file)).copied()
    }

    /// A place for what an owner will have open; none where there is no room, and then nothing has changed.
    pub(super) fn begin(&mut self, seal: &Seal, asked: Asked) -> Option<u32> {
        let owner = self.enter(asked.client, asked.name)?;
        let known = self.clients.get_mut(&asked.client).expect("it was entered");
        let listed = known.opens.len();
        let position = self.free.pop().unwrap_or(self.slots.len() as u32);
        known.opens.push(position);
        if position as usize == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let index = self.index(position);
        let slot = &mut self.slots[position as usize];
        slot.generation += 1;
        let (tag, second) = (seal.tag(index, slot.generation), self.totals.second.load(Relaxed));
        slot.open = Some(Open::new(tag, asked, owner, listed, second));
        self.by_file.insert((owner, asked.file), position);
        Some(position)
    }

    /// Counts one more open of an owner, who may be new: the client's bounds before those of all.
    fn enter(&mut self, client: ClientId, name: OwnerName) -> Option<OwnerNumber> {
        let known = self.clients.get(&client);
        let is_new = known.is_none_or(|known| !known.owners.contains_key(&name));
        let (owners, opens) = known.map_or((0, 0), |known| (known.owners.len(), known.opens.len()));
        if opens >= OPENS_OF_CLIENT_MAX || is_new && owners >= OWNERS_OF_CLIENT_MAX {
            return None;
        }
        if !take(&self.totals.opens, OPENS_MAX) {
            return None;
        }
        if is_new && !take(&self.totals.owners, OWNERS_MAX) {
            give(&self.totals.opens);
            return None;
        }
        let numbers = &self.totals.numbers;
        let number = || OwnerNumber(numbers.fetch_add(1, Relaxed) as u64 + 1);
        let owners = &mut self.clients.entry(client).or_default().owners;
        let owner = owners.entry(name).or_insert_with(|| Owner { number: number(), opens: 0 });
        owner.opens += 1;
        Some(owner.number)
    }

    /// An OPEN was not carried out. Whether nothing is left of it.
    pub(super) fn withdraw(&mut self, number: OpenNumber) -> bool {
        let Some(open) = self.at_mut(number) else { return true };
        open.opening -= 1;
        let is_nothing = open.opening == 0 && !open.is_granted();
        if is_nothing {
            self.remove(number);
        }
        is_nothing
    }

    /// What is at the place of a stateid goes.
    pub(super) fn remove_at(&mut self, index: u32) {
        let position = self.position(index).expect("it was looked at");
        self.remove(self.number_of(position as u32));
    }

    /// An open goes, if it still is that one.
    pub(super) fn remove(&mut self, number: OpenNumber) {
        if self.at(number).is_none_or(|open| open.revoked.is_some()) {
            return self.clear(number);
        }
        self.leave(number);
        self.clear(number);
    }

    /// It is its owner's no more: a later OPEN makes another one.
    fn leave(&mut self, number: OpenNumber) {
        let Some(open) = self.at(number) else { return };
        let (owner, Asked { client, name, file, .. }) = (open.owner, open.asked);
        self.by_file.remove(&(owner, file));
        let owners = &mut self.clients.get_mut(&client).expect("O3").owners;
        let owner = owners.get_mut(&name).expect("O3");
        owner.opens -= 1;
        if owner.opens == 0 {
            owners.remove(&name);
            give(&self.totals.owners);
        }
    }

    /// Its place becomes free.
    fn clear(&mut self, number: OpenNumber) {
        if self.at(number).is_none() {
            return;
        }
        let position = self.position(number.0 as u32).expect("it is there");
        let slot = &mut self.slots[position];
        let open = slot.open.take().expect("it is there");
        // A place whose numbers are all used stays empty, so that none of them comes twice.
        if slot.generation < u32::MAX {
            self.free.push(position as u32);
        }
        give(&self.totals.opens);
        let known = self.clients.get_mut(&open.asked.client).expect("O3");
        if let Some(why) = open.revoked {
            known.revoked[why as usize] -= 1;
            give(&self.totals.revoked);
        }
        known.opens.swap_remove(open.listed);
        if let Some(moved) = known.opens.get(open.listed) {
            self.slots[*moved as usize].open.as_mut().expect("O3").listed = open.listed;
        }
        if known.opens.is_empty() {
            self.clients.remove(&open.asked.client);
        }
    }

    /// Revokes what `which` says of a client's, and all of it where that would be too much. Gives what has to be closed below.
    pub(super) fn revoke(
        &mut self,
        client: ClientId,
        which: &dyn Fn(&Self, OpenNumber) -> bool,
        why: Revoked,
    ) -> Vec<Closing> {
        let Some(known) = self.clients.get(&client) else { return Vec::new() };
        let lives = |number: &OpenNumber| self.at(*number).is_some_and(|open| open.revoked.is_none());
        let living: Vec<_> = self.numbers(client).filter(lives).collect();
        let mut picked: Vec<_> = living.iter().copied().filter(|number| which(self, *number)).collect();
        if !picked.is_empty() && known.revoked_count() + picked.len() > REVOKED_OF_CLIENT_MAX {
            picked = living;
        }
        picked.into_iter().filter_map(|number| self.revoke_one(number, why)).collect()
    }

    /// What was not granted yet goes, and its OPEN will be told.
    fn revoke_one(&mut self, number: OpenNumber, why: Revoked) -> Option<Closing> {
        let open = self.at(number)?;
        let closing = Closing { file: open.asked.file, client: open.asked.client, open: number, owner: open.owner };
        if !open.is_granted() {
            self.remove(number);
            return None;
        }
        let client = open.asked.client;
        self.leave(number);
        self.at_mut(number)?.revoked = Some(why);
        self.clients.get_mut(&client).expect("O3").revoked[why as usize] += 1;
        self.totals.revoked.fetch_add(1, Relaxed);
        Some(closing)
    }

    /// All that a client has goes. Gives what has to be closed below.
    pub(super) fn forget(&mut self, client: ClientId) -> Vec<Closing> {
        let numbers = self.numbers(client).collect();
        self.forget_all(numbers)
    }

    fn forget_all(&mut self, numbers: Vec<OpenNumber>) -> Vec<Closing> {
        let open = |number: &OpenNumber| {
            let open = self.at(*number).filter(|open| open.is_granted() && open.revoked.is_none())?;
            Some(Closing { file: open.asked.file, client: open.asked.client, open: *number, owner: open.owner })
        };
        let closing = numbers.iter().filter_map(open).collect();
        numbers.into_iter().for_each(|number| self.remove(number));
        closing
    }

    /// Whether an owner has anything that is not revoked, or will have.
    pub(super) fn has_owner(&self, client: ClientId, name: &OwnerName) -> bool {
        self.clients.get(&client).is_some_and(|known| known.owners.contains_key(name))
    }

    /// All that an owner has goes. Gives what has to be closed below.
    pub(super) fn forget_owner(&mut self, client: ClientId, name: &OwnerName) -> Vec<Closing> {
        if !self.has_owner(client, name) {
            return Vec::new();
        }
        let is_his = |number: &OpenNumber| {
            self.at(*number).is_some_and(|open| open.asked.name == *name && open.revoked.is_none())
        };
        let numbers = self.numbers(client).filter(is_his).collect();
        self.forget_all(numbers)
    }

    /// Whether a client has anything that is not revoked, or will have.
    pub(super) fn holds(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|known| known.opens.len() > known.revoked_count())
    }

    /// What was revoked of a client's and not freed yet, by why; and whether it has anything else.
    pub(super) fn revoked(&self, client: ClientId) -> ([bool; Revoked::COUNT], bool) {
        let Some(known) = self.clients.get(&client) else { return Default::default() };
        (known.revoked.map(|count| count > 0), known.opens.len() > known.revoked_count())
    }

    /// How many owners a client has, and how many opens, revoked ones too.
    pub(super) fn counts(&self, client: ClientId) -> (usize, usize) {
        self.clients.get(&client).map_or((0, 0), |known| (known.owners.len(), known.opens.len()))
    }

    /// Of which mounts there is something that is not revoked, or will be.
    pub(super) fn mounts(&self) -> impl Iterator<Item = Mounted> {
        self.by_file.keys().map(|(_, file)| file.of)
    }

    pub(super) fn clients(&self) -> Vec<ClientId> {
        self.clients.keys().copied().collect()
    }

    /// All of a client's.
    pub(super) fn numbers(&self, client: ClientId) -> impl Iterator<Item = OpenNumber> {
        let opens = self.clients.get(&client).map_or(&[][..], |known| &known.opens);
        opens.iter().map(|position| self.number_of(*position))
    }

    pub(super) fn number_of(&self, position: u32) -> OpenNumber {
        let generation = self.slots[position as usize].generation;
        OpenNumber(u64::from(generation) << 32 | u64::from(self.index(position)))
    }

    /// As stateids tell it, in the form of [`super::super::places`].
    fn index(&self, position: u32) -> u32 {
        (position + 1) << LOW_BITS | self.number
    }

    fn position(&self, index: u32) -> Option<usize> {
        let is_of_opens = index & (OF_LOCKS | OF_DELEGATIONS) == 0;
        (index >> LOW_BITS).checked_sub(1).filter(|_| is_of_opens).map(|position| position as usize)
    }
}

const _: () = assert!(OPENS_MAX < PLACES_MAX);

#[cfg(test)]
mod check;
