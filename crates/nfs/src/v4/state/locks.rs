//! Locks, as the protocol names them: one stateid for all ranges that an owner has locked in a file below one open of it (RFC 8881 §8.2.1). Which ranges these are
//! is decided below the file system; here stands whose they are.
//!
//! ```text
//!  LOCK ─▶ begin, with an open and an owner's name ─┐
//!  LOCK, LOCKU ─▶ again, with the stateid ──────────┴▶ Locking ─▶ the file system ─▶ granted: seqid 1, or one more
//!                                                         └─ dropped: as it was before
//!  READ … ─▶ find: table D6 of [`super::stateid`], and the open that it goes by
//!  FREE_STATEID ─▶ free ─▶ Freeing ─▶ does the file system know of ranges? ─▶ freed, or dropped
//!  RELEASE_LOCKOWNER ─▶ release ─▶ Freeing of each that the owner has
//!  CLOSE ─▶ closed;   an open is revoked ─▶ revoke_below;   the client is gone ─▶ forget_client
//! ```
//!
//! *Below an open.* An owner that locks below two opens of one file has two stateids, and is one holder of ranges below all of it: they do not conflict.
//! Ranges are freed with the open below which the owner began to lock in that file, by [`Opens::close`](tally_vfs::Opens::close), and that open's stateid of the
//! owner is there as long. So whoever has ranges has a stateid for them.
//!
//! *A CLOSE and a LOCK beside each other.* CLOSE closes below, which frees, and then takes the stateids away. A LOCK that comes below behind that finds no open; one that came before
//! finds in `granted` that there is no such stateid any more. Either way nothing stays locked. A FREE_STATEID and a LOCK keep each other out, as one that was freed between
//! would leave ranges to nobody.
//!
//! *Names.* Owners are found by a keyed hash of the name, as those of opens are. But who finds a range in his way is told the name of its owner, so it is kept, and the bytes of names are counted. It may be gone when it is asked for: then so are the ranges.
//! An owner's number is of it for as long as it has a stateid, and no open has that number: both are holders of claims.
//!
//! *Locks.* As of [`Opens`](super::Opens): a client's state is in one shard, whose lock is held over a call to nothing.
//!
//! *Invariants.* L1: of an open and owner there is at most one stateid that is not revoked. L2: what is counted is what there is, within bounds. L3: an owner is known
//! as long as it has a stateid that is not revoked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tally_base::Rng;
use tally_vfs::{ClientNumber, Holder, OwnerNumber};

use super::bounds::OWNER_BYTES_MAX;
use super::names::Namer;
use super::opens::{Found as FoundOpen, no_room};
use super::places::OF_LOCKS;
use super::shards::Shards;
use super::stateid::{Asker, FileId, Revoked, Seal, Stateid, next_seqid};
use super::{BootId, ClientId, OwnerKey, OwnerName, Which};
use crate::v4::status::Status;

mod shard;

use shard::{LockKey, Shard, State, Totals};

/// What a lock's stateid names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locked {
    /// Who holds the ranges below.
    pub holder: Holder,
    /// By which open it reads and writes.
    pub below: Holder,
    /// Whose it is.
    pub client: ClientId,
    /// What is locked.
    pub file: FileId,
    /// The present one.
    pub stateid: Stateid,
}

/// What an owner has locked below an open, as an administrator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenLock {
    /// What it is.
    pub locked: Locked,
    /// What the owner calls itself; nothing where it was revoked.
    pub owner: Option<Arc<[u8]>>,
    /// If it was taken from its client.
    pub revoked: Option<Revoked>,
    /// As of when something is locked, by the clock of leases.
    pub since: Duration,
}

/// All stateids of locks.
pub struct Locks {
    seal: Seal,
    namer: Namer,
    shards: Shards<Shard>,
    totals: Arc<Totals>,
}

impl Locks {
    /// None, since this start.
    #[must_use]
    pub fn new(boot: BootId, rng: &dyn Rng) -> Self {
        let totals = Arc::new(Totals::default());
        let namer = Namer::new(rng);
        let shards = Shards::new(|number| Shard::new(number, totals.clone()));
        Self { seal: Seal::new(boot, rng), namer, shards, totals }
    }

    /// LOCK of an owner below an open, before it is carried out: there will be room for it. It may have a stateid there already, whose reply was lost.
    pub fn begin(&self, open: &FoundOpen, minor: u32, owner: &[u8]) -> Result<Locking<'_>, Status> {
        if owner.len() > OWNER_BYTES_MAX {
            return Err(Status::BadXdr);
        }
        let (client, file, name) = (open.client, open.file, self.name(owner));
        let asked = LockKey { is_of_minor_0: minor == 0, client, name, file, below: open.holder().owner.0 };
        let mut shard = self.shards.of(open.client).write();
        let known = shard.below(&asked);
        let number = known.or_else(|| shard.begin(&self.seal, asked, owner)).ok_or(no_room(minor))?;
        self.locking(&mut shard, number)
    }

    /// LOCK or LOCKU of an owner that has a stateid for it, before it is carried out.
    pub fn again(
        &self,
        asked: &Stateid,
        minor: u32,
        client: Option<ClientId>,
        file: Option<&FileId>,
    ) -> Result<Locking<'_>, Status> {
        let mut shard = self.shards.at(asked.index()).write();
        let number = shard.look(&self.seal, *asked, &Asker { minor, client, file })?;
        self.locking(&mut shard, number)
    }

    fn locking(&self, shard: &mut Shard, number: u64) -> Result<Locking<'_>, Status> {
        let state = shard.get_mut(number).expect("it was found, or made");
        if state.is_freeing {
            return Err(Status::Delay);
        }
        state.locking += 1;
        Ok(Locking { locks: self, number, locked: self.locked(state, number), is_done: false })
    }

    /// What a stateid names, for an operation of `client`'s session, or of minor version 0, on `file`: table D6.
    pub fn find(
        &self,
        asked: &Stateid,
        minor: u32,
        client: Option<ClientId>,
        file: Option<&FileId>,
    ) -> Result<Locked, Status> {
        let shard = self.shards.at(asked.index()).read();
        let number = shard.look(&self.seal, *asked, &Asker { minor, client, file })?;
        Ok(self.locked(shard.get(number).expect("it was looked at"), number))
    }

    /// Who holds what an owner has locked; if it has locked nothing, somebody who holds nothing.
    #[must_use]
    pub fn holder(&self, client: ClientId, owner: &[u8]) -> Holder {
        let owner = OwnerKey { client, name: self.name(owner) };
        holder(client, self.shards.of(client).read().owner(&owner).unwrap_or(0))
    }

    /// What its order is known by.
    #[must_use]
    pub fn name(&self, owner: &[u8]) -> OwnerName {
        self.namer.name(owner)
    }

    /// Whether an owner has a stateid, or is about to.
    #[must_use]
    pub fn has_owner(&self, owner: &OwnerKey) -> bool {
        self.shards.of(owner.client).read().owner(owner).is_some()
    }

    /// Whose a stateid of minor version 0 is, whatever its seqid, and be it revoked: rows a to d of D6.
    pub fn owner_of(&self, asked: &Stateid) -> Result<OwnerKey, Status> {
        let shard = self.shards.at(asked.index()).read();
        Ok(shard.look_past_revoked(&self.seal, *asked)?.asked.owner())
    }

    /// RELEASE_LOCKOWNER: all stateids of an owner, to be freed if the file system knows of no ranges of his. While one of them is used there are such.
    pub fn release(&self, owner: &OwnerKey) -> Result<Vec<Freeing<'_>>, Status> {
        let mut shard = self.shards.of(owner.client).write();
        let numbers = shard.all_of(owner);
        let is_used = |number: &u64| shard.get(*number).is_some_and(|it| it.locking > 0 || it.is_freeing);
        if numbers.iter().any(is_used) {
            return Err(Status::LocksHeld);
        }
        let free = |number: u64| {
            let state = shard.get_mut(number).expect("it is its owner's");
            state.is_freeing = true;
            Freeing { locks: self, number, locked: self.locked(state, number) }
        };
        Ok(numbers.into_iter().map(free).collect())
    }

    /// Which client and owner a holder of ranges is, if it still is one.
    #[must_use]
    pub fn named(&self, holder: Holder) -> Option<(ClientId, Arc<[u8]>)> {
        let client = ClientId(holder.client.0);
        let name = self.shards.of(client).read().name(holder.owner.0)?;
        Some((client, name))
    }

    /// FREE_STATEID of what holds nothing any more, which the file system is to be asked; none where it was revoked, and is gone now.
    pub fn free(&self, asked: &Stateid, client: ClientId) -> Result<Option<Freeing<'_>>, Status> {
        let mut shard = self.shards.at(asked.index()).write();
        match shard.look(&self.seal, *asked, &Asker { minor: 1, client: Some(client), file: None }) {
            Ok(number) => {
                let state = shard.get_mut(number).expect("it was looked at");
                if state.locking > 0 || state.is_freeing {
                    return Err(Status::LocksHeld);
                }
                state.is_freeing = true;
                Ok(Some(Freeing { locks: self, number, locked: self.locked(state, number) }))
            }
            Err(Status::Expired | Status::AdminRevoked | Status::DelegRevoked) => {
                shard.remove_at(asked.index());
                Ok(None)
            }
            Err(refused) => Err(refused),
        }
    }

    /// An open was closed, and what was locked below it is free: so are its stateids.
    pub fn closed(&self, open: Holder) {
        self.shards.of(ClientId(open.client.0)).write().close(open.owner.0);
    }

    /// An open was taken from its client, which stays to be told of its stateids below it, too.
    pub fn revoke_below(&self, open: Holder, why: Revoked) {
        self.shards.of(ClientId(open.client.0)).write().revoke(open.owner.0, why);
    }

    /// A client is gone, and what it had open is closed.
    pub fn forget_client(&self, client: ClientId) {
        self.shards.of(client).write().forget(client);
    }

    /// It is `now` by the clock of leases: as of then is locked what is locked first from here on.
    pub fn look_at_clock(&self, now: Duration) {
        self.totals.second.look_at_clock(now);
    }

    /// Up to so many of those that there are, and how many there are besides. A shard is looked at after the other, and copied under its lock.
    #[must_use]
    pub fn seen(&self, which: Which) -> (Vec<SeenLock>, usize) {
        let (mut seen, mut more) = (Vec::new(), 0);
        for shard in self.shards.of_each(which.client) {
            let shard = shard.read();
            let room = which.most - seen.len();
            let all = shard.granted().filter(|(_, state)| which.is_of(state.asked.client));
            more += all.clone().count().saturating_sub(room);
            seen.extend(all.take(room).map(|(number, state)| SeenLock {
                locked: self.locked(state, number),
                owner: shard.name(state.owner),
                revoked: state.revoked,
                since: Duration::from_secs(state.since_s.into()),
            }));
        }
        (seen, more)
    }

    /// How many stateids a client has.
    #[must_use]
    pub fn count_of(&self, client: ClientId) -> usize {
        self.shards.of(client).read().count(client)
    }

    /// How many owners there are, how many bytes their names have, and how many stateids.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.totals.owners.now(), self.totals.names_bytes.now(), self.totals.locks.now())
    }

    fn locked(&self, state: &State, number: u64) -> Locked {
        let LockKey { client, file, below, .. } = state.asked;
        let stateid = self.seal.stateid(number as u32, state.tag, state.seqid);
        Locked { holder: holder(client, state.owner), below: holder(client, below), client, file, stateid }
    }
}

impl Stateid {
    /// Whether it is one of a lock, if it is one of anything.
    #[must_use]
    pub fn is_of_lock(&self) -> bool {
        self.index() & OF_LOCKS != 0
    }
}

fn holder(client: ClientId, number: u64) -> Holder {
    Holder { client: ClientNumber(client.0), owner: OwnerNumber(number) }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the key.
        f.debug_struct("Locks").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// A LOCK or LOCKU that is being carried out. Dropped, it was none.
#[derive(Debug)]
#[must_use = "what is begun and dropped was not locked"]
pub struct Locking<'a> {
    locks: &'a Locks,
    number: u64,
    locked: Locked,
    is_done: bool,
}

impl Locking<'_> {
    /// Who will hold it, and below which open.
    #[must_use]
    pub fn locked(&self) -> &Locked {
        &self.locked
    }

    /// Whether its client has a stateid for it.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.locked.stateid.seqid > 0
    }

    /// It was carried out. Where it is an error, the open was closed or revoked meanwhile, or the client has gone: what was locked is free.
    pub fn granted(mut self) -> Result<Stateid, Status> {
        self.is_done = true;
        let mut shard = self.locks.shards.at(self.number as u32).write();
        let state = shard.get_mut(self.number).ok_or(Status::BadStateid)?;
        state.locking -= 1;
        if let Some(revoked) = state.revoked {
            return Err(revoked.status());
        }
        state.seqid = next_seqid(state.seqid);
        Ok(self.locks.locked(state, self.number).stateid)
    }
}

impl Drop for Locking<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.locks.shards.at(self.number as u32).write().withdraw(self.number);
        }
    }
}

/// A stateid that is to be freed, if nothing is locked by it. Dropped, it stays.
#[derive(Debug)]
#[must_use = "what is not freed stays"]
pub struct Freeing<'a> {
    locks: &'a Locks,
    number: u64,
    locked: Locked,
}

impl Freeing<'_> {
    /// What it names.
    #[must_use]
    pub fn locked(&self) -> &Locked {
        &self.locked
    }

    /// Nothing is locked by it.
    pub fn freed(self) {
        self.locks.shards.at(self.number as u32).write().remove(self.number);
    }
}

impl Drop for Freeing<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.locks.shards.at(self.number as u32).write().get_mut(self.number) {
            state.is_freeing = false;
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
