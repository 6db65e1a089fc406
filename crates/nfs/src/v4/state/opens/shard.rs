//! The opens of some of the clients: places, found by number, and what leads to them.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use tally_vfs::Share;

use super::{Closing, OpenNumber};
use crate::v4::state::bounds::{
    OPENS_MAX, OPENS_OF_CLIENT_MAX, OWNERS_MAX, OWNERS_OF_CLIENT_MAX, REVOKED_OF_CLIENT_MAX,
};
use crate::v4::state::places::{PLACES_MAX, Places};
use crate::v4::state::shards::{Count, Second};
use crate::v4::state::stateid::{Asker, FileId, Mounted, Named, Place, Revoked, Seal, Stateid};
use crate::v4::state::{ClientId, OwnerName};
use crate::v4::status::Status;

const _: () = assert!(OPENS_MAX < PLACES_MAX);

/// What all shards have together.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) owners: Count,
    pub(super) opens: Count,
    /// Of opens.
    pub(super) revoked: Count,
    /// Of owners, since the start.
    numbers: Count,
    pub(super) second: Second,
}

/// An owner with something open. Never that of another one, in one start of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Opener(u64);

/// Who opens what.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenKey {
    pub(super) is_of_minor_0: bool,
    pub(super) client: ClientId,
    pub(super) name: OwnerName,
    pub(super) file: FileId,
}

/// An open, or what will be one.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) tag: u32,
    pub(super) asked: OpenKey,
    owner: Opener,
    /// When it was begun, by the clock of leases.
    pub(super) since_s: u32,
    /// 0 before it was granted.
    pub(super) seqid: u32,
    /// None before that, either.
    pub(super) share: Option<Share>,
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
    fn new(tag: u32, asked: OpenKey, owner: Opener, listed: usize, since_s: u32) -> Self {
        let (seqid, share, revoked, opening, is_changing, is_provisional) = Default::default();
        Self { tag, asked, owner, since_s, seqid, share, revoked, opening, is_changing, is_provisional, listed }
    }

    pub(super) fn is_granted(&self) -> bool {
        self.seqid > 0
    }
}

impl Named for Open {
    fn place(&self) -> Place<'_> {
        let OpenKey { is_of_minor_0, client, file, .. } = &self.asked;
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
    number: Opener,
    opens: usize,
}

#[derive(Debug, Default)]
struct Client {
    owners: HashMap<OwnerName, Owner>,
    /// Places of all that it has open, and of what was revoked.
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
    places: Places<Open>,
    clients: HashMap<ClientId, Client>,
    /// Places of what is not revoked.
    by_file: HashMap<(Opener, FileId), u32>,
    totals: Arc<Totals>,
}

impl Shard {
    pub(super) fn new(number: u32, totals: Arc<Totals>) -> Self {
        Self { places: Places::new(number), clients: HashMap::new(), by_file: HashMap::new(), totals }
    }

    /// The open at that place, if it still is that one.
    pub(super) fn at(&self, number: OpenNumber) -> Option<&Open> {
        self.places.get(number.0)
    }

    pub(super) fn at_mut(&mut self, number: OpenNumber) -> Option<&mut Open> {
        self.places.get_mut(number.0)
    }

    /// Table D6.
    pub(super) fn look(&self, seal: &Seal, asked: Stateid, asker: &Asker<'_>) -> Result<OpenNumber, Status> {
        self.places.look(seal, asked, asker).map(OpenNumber)
    }

    /// The same of minor version 0, whatever the seqid, and be it revoked.
    pub(super) fn look_past_revoked(&self, seal: &Seal, asked: Stateid) -> Result<&Open, Status> {
        self.places.look_past_revoked(seal, asked)
    }

    /// Where an owner has a file open, or is about to.
    pub(super) fn of_file(&self, asked: &OpenKey) -> Option<OpenNumber> {
        let owner = self.clients.get(&asked.client)?.owners.get(&asked.name)?.number;
        self.by_file.get(&(owner, asked.file)).map(|index| self.number_of(*index))
    }

    /// A place for what an owner will have open; none where there is no room, and then nothing has changed.
    pub(super) fn begin(&mut self, seal: &Seal, asked: OpenKey) -> Option<OpenNumber> {
        let owner = self.enter(asked.client, asked.name)?;
        let known = self.clients.get_mut(&asked.client).expect("it was entered");
        let (listed, since_s) = (known.opens.len(), self.totals.second.now());
        let number = self.places.add(|number| Open::new(seal.tag(number), asked, owner, listed, since_s));
        known.opens.push(number as u32);
        self.by_file.insert((owner, asked.file), number as u32);
        Some(OpenNumber(number))
    }

    /// Counts one more open of an owner, who may be new: the client's bounds before those of all.
    fn enter(&mut self, client: ClientId, name: OwnerName) -> Option<Opener> {
        let known = self.clients.get(&client);
        let is_new = known.is_none_or(|known| !known.owners.contains_key(&name));
        let (owners, opens) = known.map_or((0, 0), |known| (known.owners.len(), known.opens.len()));
        if opens >= OPENS_OF_CLIENT_MAX || is_new && owners >= OWNERS_OF_CLIENT_MAX {
            return None;
        }
        if !self.totals.opens.take(1, OPENS_MAX) {
            return None;
        }
        if is_new && !self.totals.owners.take(1, OWNERS_MAX) {
            self.totals.opens.give(1);
            return None;
        }
        let number = || Opener(self.totals.numbers.next() as u64);
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
        self.remove(self.number_of(index));
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
        let (owner, OpenKey { client, name, file, .. }) = (open.owner, open.asked);
        self.by_file.remove(&(owner, file));
        let owners = &mut self.clients.get_mut(&client).expect("O3").owners;
        let owner = owners.get_mut(&name).expect("O3");
        owner.opens -= 1;
        if owner.opens == 0 {
            owners.remove(&name);
            self.totals.owners.give(1);
        }
    }

    /// Its place becomes free.
    fn clear(&mut self, number: OpenNumber) {
        let Some(open) = self.places.remove(number.0) else { return };
        self.totals.opens.give(1);
        let known = self.clients.get_mut(&open.asked.client).expect("O3");
        if let Some(why) = open.revoked {
            known.revoked[why as usize] -= 1;
            self.totals.revoked.give(1);
        }
        known.opens.swap_remove(open.listed);
        if let Some((moved, _)) = known.opens.get(open.listed).map(|index| self.places.at(*index).expect("O3")) {
            self.places.get_mut(moved).expect("O3").listed = open.listed;
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
        let closing = Closing { file: open.asked.file, client: open.asked.client, open: number };
        if !open.is_granted() {
            self.remove(number);
            return None;
        }
        let client = open.asked.client;
        self.leave(number);
        self.at_mut(number)?.revoked = Some(why);
        self.clients.get_mut(&client).expect("O3").revoked[why as usize] += 1;
        self.totals.revoked.next();
        Some(closing)
    }

    /// All that a client has goes. Gives what has to be closed below.
    pub(super) fn forget(&mut self, client: ClientId) -> Vec<Closing> {
        let numbers: Vec<_> = self.numbers(client).collect();
        for number in &numbers {
            if self.at(*number).is_some_and(Open::is_granted) {
                self.places.note_gone(number.0);
            }
        }
        self.forget_all(numbers)
    }

    fn forget_all(&mut self, numbers: Vec<OpenNumber>) -> Vec<Closing> {
        let open = |number: &OpenNumber| {
            let open = self.at(*number).filter(|open| open.is_granted() && open.revoked.is_none())?;
            Some(Closing { file: open.asked.file, client: open.asked.client, open: *number })
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
        opens.iter().map(|index| self.number_of(*index))
    }

    /// Of what is at that place.
    fn number_of(&self, index: u32) -> OpenNumber {
        OpenNumber(self.places.at(index).expect("it was looked at under this lock").0)
    }
}

#[cfg(test)]
mod check;
