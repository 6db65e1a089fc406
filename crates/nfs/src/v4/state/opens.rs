//! Opens, as the protocol names them: which owner of which client has which file open, and by which stateid. What an open allows and denies to others
//! is decided below the file system; here stands what it came to.
//!
//! ```text
//!  OPEN ─▶ reserve ─▶ Reserved ─▶ the file system ─▶ granted: seqid 1, or one more of the open that there was (rules V29)
//!             │           └─ dropped: as it was before
//!  READ … ─▶ find: table D6 of [`super::stateid`]
//!  CLOSE, ─▶ change ─▶ Changing ─▶ the file system ─▶ closed, downgraded
//!  OPEN_DOWNGRADE         └─ dropped: as it was before
//!  conflict, forced ─▶ revoke ─▶ what has to be closed below; the stateid is still told why, up to `free`
//!  the client is gone ─▶ forget_client ─▶ what has to be closed below
//!
//!  none ─reserve▶ opening ─granted▶ open ⇄ changing ─closed▶ none
//!                   └──dropped──▶ none └─revoke▶ revoked ─free▶ none
//! ```
//!
//! OPENs of one owner and file go on beside each other, as they commute: each adds to what is open. A change waits for none of them and none for it:
//! who comes second is told DELAY, since whichever of the two ended last below would be wrong here, or the other way round.
//!
//! *Numbers.* An [`OpenNumber`] is of one open alone, and never of another one, not even of the same owner and file: what is below goes by it, so that a
//! close that comes late closes nothing that was opened since.
//!
//! *Who is gone.* Nothing here knows which clients there are. Whoever reserves asks afterwards whether there still is the client (RENEW's answer, or that the
//! session can be found): if it went before, `forget_client` may have been here already; if it goes later, `granted` will say so.
//!
//! *Locks.* A client's state is in one shard, which its stateids tell. `find` takes that shard's lock to read. None is held over a call to anything else,
//! but [`Clients`](super::Clients) may ask `holds` under the register's.
//!
//! *Invariants.* O1: of an owner and file there is at most one open that is not revoked. O2: places in use, free ones and all that is counted agree, and
//! are within bounds. O3: what has an open is listed with its client; who has neither open nor owner is not known.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashSet;
use tally_base::Rng;
use tally_vfs::{ClientNumber, Holder, OwnerNumber, Share};

use super::bounds::{OPENS_MAX, OPENS_OF_ADDRESS_MAX, OWNER_BYTES_MAX, OWNERS_MAX, OWNERS_OF_ADDRESS_MAX};
use super::names::Namer;
use super::shards::Shards;
use super::stateid::{Asker, FileId, Mounted, Revoked, Seal, Stateid, next_seqid};
use super::{BootId, ClientId, OwnerName, Which};
use crate::v4::status::Status;

mod confirming;
mod shard;

use shard::{Open, OpenKey, Shard, Totals};

/// An open: the place below, how often that was used above. Never that of another one, in one start of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpenNumber(pub u64);

/// By whom an open is known below.
fn holder(client: ClientId, open: OpenNumber) -> Holder {
    Holder { client: ClientNumber(client.0), owner: OwnerNumber(open.0) }
}

/// What a stateid names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// By which it is known below.
    pub open: OpenNumber,
    /// Whose it is.
    pub client: ClientId,
    /// What is open.
    pub file: FileId,
    /// All that its owner has opened it with; none before the first OPEN is granted.
    pub share: Option<Share>,
    /// The present one.
    pub stateid: Stateid,
    /// If it was taken from its client.
    pub revoked: Option<Revoked>,
}

/// An open as an administrator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenOpen {
    /// What it is.
    pub open: Found,
    /// As of when it is open, by the clock of leases.
    pub since: Duration,
}

impl Found {
    /// By whom it is known below.
    #[must_use]
    pub fn holder(&self) -> Holder {
        holder(self.client, self.open)
    }
}

/// What has to be closed below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Closing {
    pub file: FileId,
    pub client: ClientId,
    pub open: OpenNumber,
}

impl Closing {
    /// By whom it is known there.
    #[must_use]
    pub fn holder(&self) -> Holder {
        holder(self.client, self.open)
    }
}

/// All opens.
pub struct Opens {
    seal: Seal,
    namer: Namer,
    shards: Shards<Shard>,
    totals: Arc<Totals>,
}

impl Opens {
    /// None, since this start.
    #[must_use]
    pub fn new(boot: BootId, rng: &dyn Rng) -> Self {
        let totals = Arc::new(Totals::default());
        let namer = Namer::new(rng);
        let shards = Shards::new(|number| Shard::new(number, totals.clone()));
        Self { seal: Seal::new(boot, rng), namer, shards, totals }
    }

    /// What is kept of an owner's name.
    #[must_use]
    pub fn name(&self, owner: &[u8]) -> OwnerName {
        self.namer.name(owner)
    }

    /// OPEN, before it is carried out: there will be room for it.
    pub fn reserve(&self, minor: u32, client: ClientId, owner: &[u8], file: FileId) -> Result<Reserved<'_>, Status> {
        if owner.len() > OWNER_BYTES_MAX {
            return Err(Status::BadXdr);
        }
        let name = self.name(owner);
        let asked = OpenKey { is_of_minor_0: minor == 0, client, name, file };
        let mut shard = self.shards.of(client).write();
        let known = shard.of_file(&asked);
        let number = known.or_else(|| shard.begin(&self.seal, asked)).ok_or(no_room(minor))?;
        let open = shard.at_mut(number).expect("it was found, or made");
        if open.is_changing {
            return Err(Status::Delay);
        }
        open.opening += 1;
        let is_upgrade = open.is_granted();
        Ok(Reserved { opens: self, client, number, is_upgrade, is_provisional: false, is_done: false })
    }

    /// What a stateid names, for an operation of `client`'s session, or of minor version 0, on `file`: table D6.
    pub fn find(
        &self,
        asked: &Stateid,
        minor: u32,
        client: Option<ClientId>,
        file: Option<&FileId>,
    ) -> Result<Found, Status> {
        let shard = self.shards.at(asked.index()).read();
        let number = shard.look(&self.seal, *asked, &Asker { minor, client, file })?;
        shard.at(number).filter(|open| !open.is_provisional).ok_or(Status::BadStateid)?;
        Ok(self.found(&shard, number))
    }

    /// The same for an operation that changes it: CLOSE, OPEN_DOWNGRADE.
    pub fn change(
        &self,
        asked: &Stateid,
        minor: u32,
        client: Option<ClientId>,
        file: Option<&FileId>,
    ) -> Result<Changing<'_>, Status> {
        let mut shard = self.shards.at(asked.index()).write();
        let number = shard.look(&self.seal, *asked, &Asker { minor, client, file })?;
        let found = self.found(&shard, number);
        let open = shard.at_mut(number).expect("it was looked at");
        if open.is_provisional {
            return Err(Status::BadStateid);
        }
        if open.is_changing || open.opening > 0 {
            return Err(Status::Delay);
        }
        open.is_changing = true;
        Ok(Changing { opens: self, found, minor })
    }

    /// An open by its number, revoked or not.
    #[must_use]
    pub fn by_number(&self, number: OpenNumber) -> Option<Found> {
        let shard = self.shards.at(number.0 as u32).read();
        shard.at(number).filter(|open| open.is_granted())?;
        Some(self.found(&shard, number))
    }

    /// Takes what `which` says from a client, or from all: it stays to be told of. Gives what has to be closed below.
    pub fn revoke(&self, of: Option<ClientId>, which: &dyn Fn(&Found) -> bool, why: Revoked) -> Vec<Closing> {
        let mut closing = Vec::new();
        for shard in self.shards.of_each(of) {
            let mut shard = shard.write();
            let clients = of.map_or_else(|| shard.clients(), |client| vec![client]);
            for client in clients {
                let which = |shard: &Shard, number| which(&self.found(shard, number));
                closing.extend(shard.revoke(client, &which, why));
            }
        }
        closing
    }

    /// What SEQUENCE says of what was revoked of a client's (`SEQ4_STATUS_*`): EXPIRED_SOME_STATE_REVOKED or EXPIRED_ALL_STATE_REVOKED,
    /// ADMIN_STATE_REVOKED, RECALLABLE_STATE_REVOKED. FREE_STATEID of all that was clears it (RFC 8881 §18.46.3).
    #[must_use]
    pub fn flags(&self, client: ClientId) -> u32 {
        // At nearly all times nothing is.
        if self.totals.revoked.now() == 0 {
            return 0;
        }
        let (revoked, has_more) = self.shards.of(client).read().revoked(client);
        let flags = revoked.iter().zip(Revoked::FLAGS).filter(|(is_revoked, _)| **is_revoked);
        flags.fold(0, |flags, (_, [of_some, of_all])| flags | if has_more { of_some } else { of_all })
    }

    /// Of which mounts anything is open, or about to be.
    #[must_use]
    pub fn mounts(&self) -> HashSet<Mounted> {
        self.shards.of_each(None).iter().fold(HashSet::default(), |mut mounts, shard| {
            mounts.extend(shard.read().mounts());
            mounts
        })
    }

    /// TEST_STATEID.
    #[must_use]
    pub fn test(&self, asked: &Stateid, client: ClientId) -> Status {
        self.find(asked, 1, Some(client), None).map_or_else(|status| status, |_| Status::Ok)
    }

    /// FREE_STATEID: the client knows that it was revoked. What is open is LOCKS_HELD.
    pub fn free(&self, asked: &Stateid, client: ClientId) -> Result<(), Status> {
        let mut shard = self.shards.at(asked.index()).write();
        match shard.look(&self.seal, *asked, &Asker { minor: 1, client: Some(client), file: None }) {
            Ok(_) => Err(Status::LocksHeld),
            Err(Status::Expired | Status::AdminRevoked | Status::DelegRevoked) => {
                shard.remove_at(asked.index());
                Ok(())
            }
            Err(refused) => Err(refused),
        }
    }

    /// A client is gone: it has nothing any more. Gives what has to be closed below.
    pub fn forget_client(&self, client: ClientId) -> Vec<Closing> {
        self.shards.of(client).write().forget(client)
    }

    /// Whether a client has something that it would lose.
    #[must_use]
    pub fn holds(&self, client: ClientId) -> bool {
        self.shards.of(client).read().holds(client)
    }

    /// Whether there is no room for another open or owner, whoever asks.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let (owners, opens) = self.counts();
        owners >= OWNERS_MAX || opens >= OPENS_MAX
    }

    /// Whether these have less than one address may have. Where all clients together have less, nobody is looked for.
    #[must_use]
    pub fn has_room_of_address(&self, clients: impl FnOnce() -> Vec<ClientId>) -> bool {
        let is_little =
            |(owners, opens): (usize, usize)| owners < OWNERS_OF_ADDRESS_MAX && opens < OPENS_OF_ADDRESS_MAX;
        is_little(self.counts()) || {
            let of_clients = clients().into_iter().map(|client| self.shards.of(client).read().counts(client));
            is_little(of_clients.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1)))
        }
    }

    /// It is `now` by the clock of leases: as of then is open what is opened from here on.
    pub fn look_at_clock(&self, now: Duration) {
        self.totals.second.look_at_clock(now);
    }

    /// Up to so many of those that there are, and how many there are besides. A shard is looked at after the other, and copied under its lock.
    #[must_use]
    pub fn seen(&self, which: Which) -> (Vec<SeenOpen>, usize) {
        let (mut seen, mut more) = (Vec::new(), 0);
        for shard in self.shards.of_each(which.client) {
            let shard = shard.read();
            for client in which.client.map_or_else(|| shard.clients(), |client| vec![client]) {
                let room = which.most - seen.len();
                let granted = |number: &OpenNumber| shard.at(*number).is_some_and(Open::is_granted);
                seen.extend(
                    shard.numbers(client).take(room).filter(granted).map(|number| self.seen_at(&shard, number)),
                );
                more += shard.counts(client).1.saturating_sub(room);
            }
        }
        (seen, more)
    }

    fn seen_at(&self, shard: &Shard, number: OpenNumber) -> SeenOpen {
        let since_s = shard.at(number).expect("it was looked at under this lock").since_s;
        SeenOpen { open: self.found(shard, number), since: Duration::from_secs(since_s.into()) }
    }

    /// How many owners a client has, and how many opens, revoked ones too.
    #[must_use]
    pub fn counts_of(&self, client: ClientId) -> (usize, usize) {
        self.shards.of(client).read().counts(client)
    }

    /// How many owners there are, and how many opens.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.totals.owners.now(), self.totals.opens.now())
    }

    fn found(&self, shard: &Shard, number: OpenNumber) -> Found {
        let open = shard.at(number).expect("it was looked at under this lock");
        let Open { asked: OpenKey { client, file, .. }, share, revoked, .. } = *open;
        let stateid = self.seal.stateid(number.0 as u32, open.tag, open.seqid);
        Found { open: number, client, file, share, stateid, revoked }
    }
}

impl fmt::Debug for Opens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the keys.
        f.debug_struct("Opens").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// What a client is told who meets a bound.
pub(super) fn no_room(minor: u32) -> Status {
    if minor == 0 { Status::Resource } else { Status::Delay }
}

/// An OPEN that is being carried out. Dropped, it was none.
#[derive(Debug)]
#[must_use = "what is reserved and dropped was not opened"]
pub struct Reserved<'a> {
    opens: &'a Opens,
    client: ClientId,
    number: OpenNumber,
    is_upgrade: bool,
    is_provisional: bool,
    is_done: bool,
}

impl Reserved<'_> {
    /// By which it will be known below.
    #[must_use]
    pub fn number(&self) -> OpenNumber {
        self.number
    }

    /// And by whom.
    #[must_use]
    pub fn holder(&self) -> Holder {
        holder(self.client, self.number)
    }

    /// Whether its owner had the file open.
    #[must_use]
    pub fn is_upgrade(&self) -> bool {
        self.is_upgrade
    }

    /// It was carried out: this is open now, besides what was. Where it is an error, the client has gone or the open was revoked meanwhile: it has to be
    /// closed below.
    pub fn granted(mut self, share: Share) -> Result<Stateid, Status> {
        self.is_done = true;
        let mut shard = self.opens.shards.at(self.number.0 as u32).write();
        let open = shard.at_mut(self.number).ok_or(Status::Expired)?;
        open.opening -= 1;
        if let Some(revoked) = open.revoked {
            return Err(revoked.status());
        }
        open.seqid = next_seqid(open.seqid);
        open.is_provisional |= self.is_provisional;
        open.share = Some(open.share.map_or(share, |before| before.and(share)));
        Ok(self.opens.found(&shard, self.number).stateid)
    }
}

impl Reserved<'_> {
    /// It is dropped, and nobody knows whether it was carried out: if nothing is left of it, this has to be closed below. What is left tells of others', which ends
    /// with those.
    #[must_use]
    pub fn withdrawn(mut self) -> Option<Holder> {
        self.is_done = true;
        let is_gone = self.opens.shards.at(self.number.0 as u32).write().withdraw(self.number);
        is_gone.then(|| self.holder())
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.opens.shards.at(self.number.0 as u32).write().withdraw(self.number);
        }
    }
}

/// An open that is being changed. Dropped, it stays as it was.
#[derive(Debug)]
#[must_use = "what is not changed stays as it was"]
pub struct Changing<'a> {
    opens: &'a Opens,
    found: Found,
    minor: u32,
}

impl Changing<'_> {
    /// What it was.
    #[must_use]
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// OPEN_DOWNGRADE was carried out: this is open now.
    #[must_use]
    pub fn downgraded(self, share: Share) -> Stateid {
        let mut shard = self.opens.shards.at(self.found.open.0 as u32).write();
        if let Some(open) = shard.at_mut(self.found.open) {
            (open.share, open.seqid) = (Some(share), next_seqid(open.seqid));
        }
        self.next()
    }

    /// CLOSE was carried out. Gives what it answers.
    #[must_use]
    pub fn closed(self) -> Stateid {
        self.opens.shards.at(self.found.open.0 as u32).write().remove(self.found.open);
        if self.minor == 0 { self.next() } else { Stateid::INVALID }
    }

    fn next(&self) -> Stateid {
        Stateid { seqid: next_seqid(self.found.stateid.seqid), ..self.found.stateid }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.opens.shards.at(self.found.open.0 as u32).write().at_mut(self.found.open) {
            open.is_changing = false;
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
