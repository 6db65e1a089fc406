//! The locks of some of the clients: places, found by number, and what leads to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;

use crate::v4::state::bounds::{
    LOCK_NAMES_BYTES_MAX, LOCK_NAMES_BYTES_OF_CLIENT_MAX, LOCKS_MAX, LOCKS_OF_CLIENT_MAX, OWNERS_MAX,
    OWNERS_OF_CLIENT_MAX,
};
use crate::v4::state::places::{OF_LOCKS, PLACES_MAX, Places};
use crate::v4::state::shards::{Count, Second};
use crate::v4::state::stateid::{Asker, FileId, Named, Place, Revoked, Seal, Stateid};
use crate::v4::state::{ClientId, OwnerKey, OwnerName};
use crate::v4::status::Status;

const _: () = assert!(LOCKS_MAX < PLACES_MAX);

/// What all shards have together.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) owners: Count,
    pub(super) names_bytes: Count,
    pub(super) locks: Count,
    /// Of owners, since the start.
    numbers: Count,
    pub(super) second: Second,
}

impl Totals {
    /// One that no owner had before, and no open has: theirs are indices of opens.
    fn next_number(&self) -> u64 {
        self.numbers.next() as u64 * u64::from(OF_LOCKS * 2) + u64::from(OF_LOCKS)
    }
}

/// What is locked, below which open.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockKey {
    pub(super) is_of_minor_0: bool,
    pub(super) client: ClientId,
    /// Its owner's.
    pub(super) name: OwnerName,
    pub(super) file: FileId,
    /// An open's number.
    pub(super) below: u64,
}

impl LockKey {
    pub(super) fn owner(&self) -> OwnerKey {
        OwnerKey { client: self.client, name: self.name }
    }
}

/// What a stateid names, or will.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tag: u32,
    pub(super) asked: LockKey,
    /// An owner's number.
    pub(super) owner: u64,
    /// When it was begun, by the clock of leases.
    pub(super) since_s: u32,
    /// 0 before something was locked.
    pub(super) seqid: u32,
    pub(super) revoked: Option<Revoked>,
    /// LOCKs and LOCKUs that are being carried out.
    pub(super) locking: u32,
    pub(super) is_freeing: bool,
}

impl Named for State {
    fn place(&self) -> Place<'_> {
        let LockKey { is_of_minor_0, client, file, .. } = &self.asked;
        Place {
            tag: self.tag,
            client: *client,
            is_of_minor_0: *is_of_minor_0,
            file,
            revoked: self.revoked,
            seqid: self.seqid,
        }
    }
}

#[derive(Debug)]
struct Owner {
    key: OwnerKey,
    name: Arc<[u8]>,
    /// How many stateids it has.
    locks: usize,
}

/// What a client has.
#[derive(Debug, Default)]
struct Client {
    owners: HashMap<OwnerName, u64>,
    names_bytes: usize,
    locks: usize,
}

#[derive(Debug)]
pub(super) struct Shard {
    places: Places<State>,
    clients: HashMap<ClientId, Client>,
    /// By number.
    owners: HashMap<u64, Owner>,
    /// By open and owner, what is not revoked.
    below: BTreeMap<(u64, u64), u64>,
    /// All of each client.
    of_client: BTreeSet<(ClientId, u64)>,
    /// All of each owner of minor version 0, who may be released, that is not revoked.
    of_owner: BTreeSet<(u64, u64)>,
    totals: Arc<Totals>,
}

impl Shard {
    pub(super) fn new(number: u32, totals: Arc<Totals>) -> Self {
        let (clients, owners, below, of_client, of_owner) = Default::default();
        Self { places: Places::new(number | OF_LOCKS), clients, owners, below, of_client, of_owner, totals }
    }

    pub(super) fn get(&self, number: u64) -> Option<&State> {
        self.places.get(number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut State> {
        self.places.get_mut(number)
    }

    /// Table D6.
    pub(super) fn look(&self, seal: &Seal, asked: Stateid, asker: &Asker<'_>) -> Result<u64, Status> {
        self.places.look(seal, asked, asker)
    }

    /// The same of minor version 0, whatever the seqid, and be it revoked.
    pub(super) fn look_past_revoked(&self, seal: &Seal, asked: Stateid) -> Result<&State, Status> {
        self.places.look_past_revoked(seal, asked)
    }

    /// All that its client was told of, revoked or not, client by client.
    pub(super) fn granted(&self) -> impl Iterator<Item = (u64, &State)> + Clone {
        let all = self.of_client.iter().filter_map(|(_, number)| Some((*number, self.get(*number)?)));
        all.filter(|(_, state)| state.seqid > 0)
    }

    /// How many a client has, or is about to have.
    pub(super) fn count(&self, client: ClientId) -> usize {
        self.clients.get(&client).map_or(0, |known| known.locks)
    }

    /// An owner's number, while it has a stateid.
    pub(super) fn owner(&self, owner: &OwnerKey) -> Option<u64> {
        self.clients.get(&owner.client)?.owners.get(&owner.name).copied()
    }

    /// All that an owner of minor version 0 has.
    pub(super) fn all_of(&self, owner: &OwnerKey) -> Vec<u64> {
        let Some(owner) = self.owner(owner) else { return Vec::new() };
        self.of_owner.range((owner, 0)..=(owner, u64::MAX)).map(|(_, number)| *number).collect()
    }

    pub(super) fn name(&self, owner: u64) -> Option<Arc<[u8]>> {
        Some(self.owners.get(&owner)?.name.clone())
    }

    /// What an owner has below an open, or is about to have.
    pub(super) fn below(&self, asked: &LockKey) -> Option<u64> {
        let owner = self.owner(&asked.owner())?;
        self.below.get(&(asked.below, owner)).copied()
    }

    /// A place for what an owner will have; none where there is no room, and then nothing has changed.
    pub(super) fn begin(&mut self, seal: &Seal, asked: LockKey, name: &[u8]) -> Option<u64> {
        let owner = self.enter(asked.owner(), name)?;
        let (revoked, locking, is_freeing) = Default::default();
        let since_s = self.totals.second.now();
        let number = self.places.add(|number| State {
            tag: seal.tag(number),
            asked,
            owner,
            since_s,
            seqid: 0,
            revoked,
            locking,
            is_freeing,
        });
        self.below.insert((asked.below, owner), number);
        self.of_client.insert((asked.client, number));
        if asked.is_of_minor_0 {
            self.of_owner.insert((owner, number));
        }
        Some(number)
    }

    /// Counts one more stateid of an owner, who may be new: the client's bounds before those of all.
    fn enter(&mut self, key: OwnerKey, name: &[u8]) -> Option<u64> {
        let nothing = Client::default();
        let known = self.clients.get(&key.client).unwrap_or(&nothing);
        let owner = known.owners.get(&key.name).copied();
        let is_full = known.owners.len() >= OWNERS_OF_CLIENT_MAX
            || known.names_bytes + name.len() > LOCK_NAMES_BYTES_OF_CLIENT_MAX;
        if known.locks >= LOCKS_OF_CLIENT_MAX || owner.is_none() && is_full {
            return None;
        }
        if !self.totals.locks.take(1, LOCKS_MAX) {
            return None;
        }
        let Some(owner) = owner.or_else(|| self.enter_owner(key, name)) else {
            self.totals.locks.give(1);
            return None;
        };
        self.clients.entry(key.client).or_default().locks += 1;
        self.owners.get_mut(&owner).expect("L3").locks += 1;
        Some(owner)
    }

    fn enter_owner(&mut self, key: OwnerKey, name: &[u8]) -> Option<u64> {
        if !self.totals.owners.take(1, OWNERS_MAX) {
            return None;
        }
        if !self.totals.names_bytes.take(name.len(), LOCK_NAMES_BYTES_MAX) {
            self.totals.owners.give(1);
            return None;
        }
        let (name, number): (Arc<[u8]>, _) = (name.into(), self.totals.next_number());
        let known = self.clients.entry(key.client).or_default();
        known.names_bytes += name.len();
        known.owners.insert(key.name, number);
        self.owners.insert(number, Owner { key, name, locks: 0 });
        Some(number)
    }

    /// A LOCK was not carried out.
    pub(super) fn withdraw(&mut self, number: u64) {
        let Some(state) = self.get_mut(number) else { return };
        state.locking -= 1;
        if state.locking == 0 && state.seqid == 0 {
            self.remove(number);
        }
    }

    /// What is at the place of a stateid goes.
    pub(super) fn remove_at(&mut self, index: u32) {
        let (number, _) = self.places.at(index).expect("it was looked at");
        self.remove(number);
    }

    /// One goes, if it still is that one.
    pub(super) fn remove(&mut self, number: u64) {
        self.leave(number);
        let Some(state) = self.places.remove(number) else { return };
        let client = state.asked.client;
        self.of_client.remove(&(client, number));
        self.totals.locks.give(1);
        let known = self.clients.get_mut(&client).expect("it has this");
        known.locks -= 1;
        if known.locks == 0 {
            self.clients.remove(&client);
        }
    }

    /// It is its owner's no more.
    fn leave(&mut self, number: u64) {
        let Some(state) = self.places.get(number).filter(|state| state.revoked.is_none()) else { return };
        self.below.remove(&(state.asked.below, state.owner));
        self.of_owner.remove(&(state.owner, number));
        let owner = self.owners.get_mut(&state.owner).expect("L3");
        owner.locks -= 1;
        if owner.locks > 0 {
            return;
        }
        let owner = self.owners.remove(&state.owner).expect("it was there");
        let known = self.clients.get_mut(&owner.key.client).expect("it has this");
        known.owners.remove(&owner.key.name);
        known.names_bytes -= owner.name.len();
        self.totals.owners.give(1);
        self.totals.names_bytes.give(owner.name.len());
    }

    fn all_below(&self, open: u64) -> Vec<u64> {
        self.below.range((open, 0)..=(open, u64::MAX)).map(|(_, number)| *number).collect()
    }

    /// All below an open go.
    pub(super) fn close(&mut self, open: u64) {
        self.all_below(open).into_iter().for_each(|number| self.remove(number));
    }

    /// All below an open are told why. What was not granted yet goes, and its LOCK will be told.
    pub(super) fn revoke(&mut self, open: u64, why: Revoked) {
        for number in self.all_below(open) {
            if self.get(number).is_some_and(|state| state.seqid == 0) {
                self.remove(number);
                continue;
            }
            self.leave(number);
            self.get_mut(number).expect("it is below").revoked = Some(why);
        }
    }

    /// All that a client has goes.
    pub(super) fn forget(&mut self, client: ClientId) {
        let all: Vec<_> = self.of_client.range((client, 0)..=(client, u64::MAX)).map(|(_, number)| *number).collect();
        for number in all {
            if self.get(number).is_some_and(|state| state.seqid > 0) {
                self.places.note_gone(number);
            }
            self.remove(number);
        }
    }
}

#[cfg(test)]
mod check;
