//! Clients of minor version 0: who introduced themselves by SETCLIENTID, and confirmed it (RFC 7530 §16.33 and §16.34; table D4).
//!
//! A client names itself by a string that stays the same, and by a verifier that is another one each time it starts. Of each string there are at
//! most two records: a confirmed one, and one that waits to be.
//!
//! ```text
//!  SETCLIENTID: what there is of the string     │ what comes of it
//!  ─────────────────────────────────────────────┼─────────────────────────────────────────────────────────────────────
//!  a  confirmed, of another principal that      │ CLID_INUSE; nothing changes
//!     holds something                           │
//!  b  confirmed, with this verifier             │ a record that waits, with the same id: its callback is to change
//!  c  confirmed, with another verifier          │ a record that waits, with a new id: the client has started anew
//!  d  none confirmed                            │ a record that waits, with a new id
//!     Any that waited before for this string goes, in b, c and d.
//!
//!  SETCLIENTID_CONFIRM: the record with this id │
//!  ─────────────────────────────────────────────┼─────────────────────────────────────────────────────────────────────
//!  e  waits, with this confirmation             │ confirmed; a confirmed one of the string with another id goes, and all it holds; but
//!                                               │ where that is as in row a, CLID_INUSE
//!  f  confirmed, with this confirmation         │ OK: the first answer was lost
//!  g  either, of another principal              │ CLID_INUSE; nothing changes
//!  h  either, with another confirmation; none   │ STALE_CLIENTID; nothing changes
//! ```
//!
//! *Invariants.* C1: an id has at most one confirmed and one waiting record, and both are of one string. C2: there are at most [`CLIENTS_MAX`] confirmed
//! ones and [`WAITING_MAX`] that wait, of one address [`OF_ADDRESS_MAX`] of either. Who is too much takes the place of the one that was silent for
//! longest, from his own address first: it holds nothing, so all that it loses is its id, and it introduces itself again (rules V35).

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use tally_base::Rng;

use super::bounds::{CLIENTS_MAX, OF_ADDRESS_MAX, WAITING_MAX};

/// How long a client keeps what it holds without a word, and may take to confirm who it is.
pub const LEASE: Duration = Duration::from_secs(90);

/// Which start of the server an id is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootId(pub u32);

/// `clientid4`: the start of the server above, a number below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// Who stands for a client: whom its credential names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Principal {
    /// AUTH_NONE.
    Nobody,
    /// AUTH_SYS, by uid.
    User(u32),
}

/// What a client says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// `nfs_client_id4.id`: its name for ever, up to 1,024 bytes.
    pub name: Vec<u8>,
    /// Another one each time it starts.
    pub verifier: [u8; 8],
    /// Who says so.
    pub principal: Principal,
    /// From where.
    pub address: IpAddr,
}

/// What a client is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduced {
    /// Its id.
    pub id: ClientId,
    /// What it has to say to confirm it.
    pub confirmation: [u8; 8],
}

/// Why a client is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Its name, or its id, is another principal's: CLID_INUSE.
    InUse,
    /// No such id, or of another start: STALE_CLIENTID.
    Stale,
}

#[derive(Clone, Debug)]
struct Record {
    introduction: Introduction,
    introduced: Introduced,
    /// When it last said a word.
    heard: Duration,
}

/// All clients.
#[derive(Debug)]
pub struct Clients {
    boot: BootId,
    next: u32,
    confirmed: HashMap<ClientId, Record>,
    waiting: HashMap<ClientId, Record>,
    /// Confirmed ones and waiting ones by name; either may be missing.
    by_name: HashMap<Vec<u8>, [Option<ClientId>; 2]>,
}

const CONFIRMED: usize = 0;
const WAITING: usize = 1;

impl Clients {
    /// Nobody, since this start.
    #[must_use]
    pub fn new(boot: BootId) -> Self {
        let (confirmed, waiting, by_name) = Default::default();
        Self { boot, next: 1, confirmed, waiting, by_name }
    }

    /// SETCLIENTID at `now`. `holds` tells which clients hold something under a lease.
    pub fn introduce(
        &mut self,
        introduction: Introduction,
        holds: &dyn Fn(ClientId) -> bool,
        rng: &dyn Rng,
        now: Duration,
    ) -> Result<Introduced, Unknown> {
        self.forget_late(now);
        let [confirmed, before] = self.by_name.get(&introduction.name).copied().unwrap_or_default();
        let confirmed = confirmed.and_then(|id| self.confirmed.get(&id));
        let is_other = |known: &&Record| known.introduction.principal != introduction.principal;
        // Row a.
        if confirmed.filter(is_other).is_some_and(|known| holds(known.introduced.id)) {
            return Err(Unknown::InUse);
        }
        // Rows b, c and d.
        let same = confirmed.filter(|known| !is_other(known) && known.introduction.verifier == introduction.verifier);
        let kept = same.map(|known| known.introduced.id);
        let in_the_way = || to_give_way(&self.waiting, introduction.address, WAITING_MAX, &|_| false);
        if let Some(gone) = before.or_else(in_the_way) {
            self.forget(gone, WAITING);
        }
        let id = kept.unwrap_or_else(|| self.draw_id());
        let introduced = Introduced { id, confirmation: rng.next_u64().to_be_bytes() };
        self.by_name.entry(introduction.name.clone()).or_default()[WAITING] = Some(id);
        self.waiting.insert(id, Record { introduction, introduced, heard: now });
        Ok(introduced)
    }

    /// SETCLIENTID_CONFIRM at `now`. Gives the client whose place it takes: it has started anew, and holds nothing any more.
    pub fn confirm(
        &mut self,
        said: Introduced,
        principal: Principal,
        holds: &dyn Fn(ClientId) -> bool,
        now: Duration,
    ) -> Result<Option<ClientId>, Unknown> {
        self.forget_late(now);
        let [known, waiting] = [&self.confirmed, &self.waiting].map(|records| records.get(&said.id));
        // Row g.
        if [known, waiting].into_iter().flatten().any(|record| record.introduction.principal != principal) {
            return Err(Unknown::InUse);
        }
        if waiting.is_some_and(|record| record.introduced == said) {
            return self.take_in(said.id, holds, now);
        }
        match self.confirmed.get_mut(&said.id).filter(|record| record.introduced == said) {
            Some(record) => {
                record.heard = now;
                Ok(None)
            }
            None => Err(Unknown::Stale),
        }
    }

    /// RENEW at `now`, or any other word of a client.
    pub fn renew(&mut self, id: ClientId, now: Duration) -> Result<(), Unknown> {
        let record = self.confirmed.get_mut(&id).ok_or(Unknown::Stale)?;
        record.heard = now;
        Ok(())
    }

    /// How many are confirmed, and how many wait to be.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.confirmed.len(), self.waiting.len())
    }

    /// Row e.
    fn take_in(
        &mut self,
        id: ClientId,
        holds: &dyn Fn(ClientId) -> bool,
        now: Duration,
    ) -> Result<Option<ClientId>, Unknown> {
        let Some(waiting) = self.waiting.get(&id) else { return Err(Unknown::Stale) };
        let name = waiting.introduction.name.clone();
        let before = self.by_name.get(&name).and_then(|ids| ids[CONFIRMED]);
        let principal = waiting.introduction.principal;
        let known = before.and_then(|before| self.confirmed.get(&before));
        if known.is_some_and(|known| known.introduction.principal != principal && holds(known.introduced.id)) {
            return Err(Unknown::InUse);
        }
        match before {
            Some(before) => self.forget(before, CONFIRMED),
            None => {
                if let Some(gone) = to_give_way(&self.confirmed, waiting.introduction.address, CLIENTS_MAX, holds) {
                    self.forget(gone, CONFIRMED);
                    // With what it was about to change.
                    self.forget(gone, WAITING);
                }
            }
        }
        let record = self.waiting.remove(&id).expect("it was looked at");
        self.by_name.insert(name, [Some(id), None]);
        self.confirmed.insert(id, Record { heard: now, ..record });
        self.check();
        Ok(before.filter(|before| *before != id))
    }

    fn forget(&mut self, id: ClientId, which: usize) {
        let records = if which == WAITING { &mut self.waiting } else { &mut self.confirmed };
        let Some(record) = records.remove(&id) else { return };
        let name = record.introduction.name;
        let Some(ids) = self.by_name.get_mut(&name) else { return };
        ids[which] = None;
        if ids.iter().all(Option::is_none) {
            self.by_name.remove(&name);
        }
    }

    /// Those who did not confirm in time.
    fn forget_late(&mut self, now: Duration) {
        let is_late = |record: &&Record| record.heard + LEASE < now;
        let late: Vec<ClientId> = self.waiting.values().filter(is_late).map(|record| record.introduced.id).collect();
        late.into_iter().for_each(|id| self.forget(id, WAITING));
    }

    /// One that nobody has: the numbers begin again behind the last.
    fn draw_id(&mut self) -> ClientId {
        loop {
            let id = ClientId(u64::from(self.boot.0) << 32 | u64::from(self.next));
            self.next = self.next.wrapping_add(1);
            if !self.confirmed.contains_key(&id) && !self.waiting.contains_key(&id) {
                return id;
            }
        }
    }

    /// C1 and C2.
    fn check(&self) {
        debug_assert!(self.confirmed.len() <= CLIENTS_MAX && self.waiting.len() <= WAITING_MAX, "C2");
        debug_assert!(
            self.by_name.iter().all(|(name, ids)| {
                let records = [&self.confirmed, &self.waiting];
                ids.iter().zip(records).all(|(id, records)| {
                    id.is_none_or(|id| records.get(&id).is_some_and(|record| record.introduction.name == *name))
                })
            }),
            "C1"
        );
    }
}

/// Who has to go before another one of this address can come: nobody who holds something, as long as there are others.
fn to_give_way(
    records: &HashMap<ClientId, Record>,
    address: IpAddr,
    most: usize,
    holds: &dyn Fn(ClientId) -> bool,
) -> Option<ClientId> {
    let is_of_address = |record: &&Record| record.introduction.address == address;
    let is_enough = records.values().filter(is_of_address).count() >= OF_ADDRESS_MAX;
    if !is_enough && records.len() < most {
        return None;
    }
    let silent = records.values().filter(|record| !is_enough || is_of_address(record));
    let rank = |record: &&Record| (holds(record.introduced.id), record.heard, record.introduced.id);
    silent.min_by_key(rank).map(|record| record.introduced.id)
}

#[cfg(test)]
mod tests;
