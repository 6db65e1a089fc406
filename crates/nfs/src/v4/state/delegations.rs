//! Delegations, as the protocol names them: which client has which file to keep, by which stateid, and how far it is with giving it back. Whether one is given, and who is in whose
//! way, is decided below the file system; here stands what it came to.
//!
//! ```text
//!  OPEN ─▶ reserve ─▶ Reserving ─▶ the file system ─▶ granted
//!             │            └─ dropped: as it was before
//!  READ … ─▶ find: table D6 of [`super::stateid`]
//!  somebody is kept out by it ─▶ recall ─▶ to_call, next_call ([`recall`]) ─▶ call ─▶ answered
//!  DELEGRETURN ─▶ give_back ─▶ Ending ─▶ the file system ─▶ returned
//!  not returned in time ─▶ overdue ─▶ take ─▶ Ending ─▶ the file system ─▶ revoked: it is still told why, up to `free`
//!  the client is gone ─▶ forget_client;   its mount is over ─▶ revoke_of
//!
//!  none ─reserve▶ giving ─granted▶ given ─recall▶ recalled ─┬─give_back▶ ending ─returned▶ none
//!                   └──dropped──▶ none                      └─take────▶ ending ─revoked▶ revoked ─free▶ none
//! ```
//!
//! *Before the file system.* A place is reserved before the file system is asked, and given up behind it. So what is below and has no place here is nobody's: its OPEN was never
//! answered with it. Whoever finds such a one in his way gives it back ([`Delegations::orphan`]).
//!
//! *A recall and a grant beside each other.* Who is kept out by one that is being given has nobody to call yet. It is noted, and `granted` says no: then it is given back, and the OPEN
//! is answered without it.
//!
//! *Once, and not for each that asks.* A recall that is under way is not begun again, whoever else is kept out (RFC 8881 §10.4.5).
//!
//! *Locks.* As of [`Opens`](super::Opens): a client's state is in one shard, which its stateids tell, and no lock is held over a call to anything else.
//!
//! *Invariants.* G1: of a client and file there is at most one that is not revoked. G2: what is counted is what there is, within bounds. G3: `recalled` are those that are.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use foldhash::HashSet;
use parking_lot::{Mutex, RwLock};
use tally_base::{FileTime, Rng};
use tally_vfs::{Act, Conflict, Delegation, Share, conflict};

use super::bounds::{DELEGATIONS_MANY, DELEGATIONS_OF_CLIENT_MANY};
use super::shards::Shards;
use super::stateid::{Asker, FileId, Mounted, Revoked, Seal, Stateid};
use super::{BootId, ClientId, OwnerKey, OwnerName, SessionId};
use crate::v4::status::Status;

mod giving;
mod grant;
mod lately;
mod look;
mod recall;
mod shard;

pub use giving::{Ending, Reserving};
pub use grant::{Asking, Why as WhyNone, Wish, space_limit, to_ask_for};
use lately::Lately;
pub use look::{Attributes, Noted};
use recall::Recall;
pub use recall::{Answer, Next};
use shard::{Asked, Shard, State, Totals};

/// By which a delegation is known here: never that of another one, in one start of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DelegationNumber(pub(in crate::v4) u64);

/// The request that was answered with something: its client may not have read that yet (RFC 8881 §2.10.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Referred {
    pub session: SessionId,
    pub slot: u32,
    pub sequence: u32,
}

/// What a client is given of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeps {
    /// What others may not do meanwhile.
    pub kind: Delegation,
    /// Whether it sets the file's times without a word as well, and says what they are: of one for writing (RFC 9754 §5).
    pub times: bool,
}

/// What a stateid names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegated {
    /// By which it is known.
    pub number: DelegationNumber,
    /// Whose it is.
    pub client: ClientId,
    /// What was given.
    pub file: FileId,
    /// And how.
    pub keeps: Keeps,
    /// The present one.
    pub stateid: Stateid,
    /// By which the client knows the file.
    pub handle: Bytes,
    /// With which it was given.
    pub by: Option<Referred>,
}

/// What somebody finds who is kept out by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recalled {
    /// It is asked for from now on.
    Begun,
    /// It is being given, asked for, or given back.
    Known,
    /// Nobody was answered with it.
    Nobodys,
}

/// With which somebody comes again who looks at what another one has for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookTicket {
    number: DelegationNumber,
    place: u64,
}

/// What somebody finds who looks.
#[derive(Debug)]
pub enum Looked {
    /// Its client is asked, and called for that if nobody has called it.
    Asks(LookTicket, Option<Delegated>),
    /// It was not given yet, or is given back: its client has nothing that it has not sent.
    NothingNewer,
    /// Nobody was answered with it.
    Nobodys,
}

/// All delegations.
pub struct Delegations {
    seal: Seal,
    shards: Shards<Shard>,
    totals: Arc<Totals>,
    lately: Mutex<Lately>,
    /// How many are in there: before the first recall none, and no OPEN takes a lock of all for that. Those that are over go when somebody looks.
    lately_count: AtomicUsize,
}

impl Delegations {
    /// None, since this start, to clients with leases of this length.
    #[must_use]
    pub fn new(boot: BootId, rng: &dyn Rng, lease: Duration) -> Self {
        let totals = Arc::new(Totals::default());
        let shards = Shards::new(|number| Shard::new(number, totals.clone(), lease));
        let (lately, lately_count) = Default::default();
        Self { seal: Seal::new(boot, rng), shards, totals, lately, lately_count }
    }

    fn was_recalled_lately(&self, file: &FileId, now: Duration) -> bool {
        let mut lately = self.lately.lock();
        let (was_recalled, count) = lately.look(file, now);
        self.lately_count.store(count, Relaxed);
        was_recalled
    }

    /// OPEN, before it is carried out: there will be room for one of this kind. Rows i to k of table D9.
    pub fn reserve(
        &self,
        keeps: Keeps,
        (OwnerKey { client, name: owner }, file): (OwnerKey, FileId),
        by: Option<Referred>,
        now: Duration,
    ) -> Result<Reserving<'_>, WhyNone> {
        if self.lately_count.load(Relaxed) > 0 && self.was_recalled_lately(&file, now) {
            return Err(WhyNone::Contention);
        }
        let mut shard = self.shards.of(client).write();
        if let Some(held) = shard.of_file(client, &file).and_then(|number| shard.get(number)) {
            let would_have_more = (keeps.kind, held.keeps.kind) == (Delegation::Write, Delegation::Read);
            return Err(if would_have_more { WhyNone::NotUpgraded } else { WhyNone::NotWanted });
        }
        let number = shard.begin(&self.seal, Asked { client, file, owner, by }, keeps).ok_or(WhyNone::Resource)?;
        Ok(Reserving::new(self, (client, file), number))
    }

    /// Whom to ask for what it does not use, and how many it may keep: this client, where it has nearly as many as one may have, or where all together have nearly as
    /// many as there may be, who has most, of those that have more than their share, one a second. A client is left alone for ten seconds behind that.
    #[must_use]
    pub fn too_many(&self, client: ClientId, now: Duration) -> Option<(ClientId, u32)> {
        let (whom, most) = if self.totals.all.now() > DELEGATIONS_MANY {
            if !self.totals.may_ask_one(now) {
                return None;
            }
            let shards = || self.shards.of_each(None).iter().map(|shard| shard.read());
            // Who has less than his share gives nothing back for others.
            let share = DELEGATIONS_MANY / shards().map(|shard| shard.count_clients()).sum::<usize>().max(1);
            (shards().filter_map(|shard| shard.who_has_most(now)).max()?.1, share)
        } else if self.shards.of(client).read().count(client) > DELEGATIONS_OF_CLIENT_MANY {
            (client, DELEGATIONS_OF_CLIENT_MANY)
        } else {
            return None;
        };
        self.shards.of(whom).write().ask_for_fewer(whom, most, now).map(|keeps| (whom, keeps))
    }

    /// Whether what a client has of a file, or is about to have, is in the way of another owner of its own that opens it so: two mounts of one machine may be one
    /// client, and what one of them has not sent the other does not see.
    #[must_use]
    pub fn is_in_the_way_of(&self, OwnerKey { client, name: owner }: OwnerKey, file: &FileId, share: Share) -> bool {
        if self.totals.all.now() == 0 {
            return false;
        }
        let shard = self.shards.of(client).read();
        let held = shard.of_file(client, file).and_then(|number| shard.get(number)).filter(|held| !held.is_ending());
        let recalls = |kind| conflict(Act::opening(share), false, kind) == Conflict::Recall;
        held.is_some_and(|held| held.asked.owner != owner && recalls(held.keeps.kind))
    }

    /// What a stateid names, for an operation of `client`'s session on `file`: table D6.
    pub fn find(&self, asked: &Stateid, client: ClientId, file: Option<&FileId>) -> Result<Delegated, Status> {
        let shard = self.shards.at(asked.index()).read();
        let number = shard.look(&self.seal, *asked, &Asker { minor: 1, client: Some(client), file })?;
        Ok(self.delegated(shard.get(number).expect("it was looked at"), number))
    }

    /// DELEGRETURN, before it is carried out.
    pub fn give_back(&self, asked: &Stateid, client: ClientId, file: &FileId) -> Result<Ending<'_>, Status> {
        let mut shard = self.shards.at(asked.index()).write();
        let number = shard.look(&self.seal, *asked, &Asker { minor: 1, client: Some(client), file: Some(file) })?;
        shard.end(number);
        Ok(Ending::new(self, (client, *file), number))
    }

    /// Somebody is kept out by what this client has of a file.
    pub fn recall(&self, client: ClientId, file: &FileId, now: Duration) -> Recalled {
        let mut lately = self.lately.lock();
        self.lately_count.store(lately.note(*file, now), Relaxed);
        drop(lately);
        let mut shard = self.shards.of(client).write();
        match shard.of_file(client, file) {
            None => Recalled::Nobodys,
            Some(number) if shard.recall(number, now) => Recalled::Begun,
            Some(_) => Recalled::Known,
        }
    }

    /// Somebody looks at the attributes of what this client may have for writing.
    pub fn look(&self, client: ClientId, file: &FileId) -> Looked {
        let mut shard = self.shards.of(client).write();
        let Some(number) = shard.of_file(client, file) else { return Looked::Nobodys };
        let Some(look) = shard.look_of(number) else { return Looked::NothingNewer };
        let (place, is_to_call) = look.begin();
        let call = is_to_call.then(|| self.delegated(shard.get(number).expect("it was looked at"), number));
        Looked::Asks(LookTicket { number: DelegationNumber(number), place }, call)
    }

    /// Its client could not be called.
    pub fn not_asked(&self, number: DelegationNumber) {
        if let Some(look) = self.shards.at(number.0 as u32).write().look_of(number.0) {
            look.not_begun();
        }
    }

    /// It was, and has said this, or nobody knows what. Gives the file, if its client still has it.
    pub fn looked(&self, number: DelegationNumber, said: Option<Attributes>) -> Option<FileId> {
        let mut shard = self.shards.at(number.0 as u32).write();
        shard.look_of(number.0)?.answered(said);
        shard.get(number.0).map(|state| state.asked.file)
    }

    /// What it has said to who has this ticket, and what is noted of the file. None: nothing, or its client has it no more.
    #[must_use]
    pub fn said(&self, ticket: &LookTicket) -> Option<(Attributes, Noted)> {
        let LookTicket { number, place } = *ticket;
        let mut shard = self.shards.at(number.0 as u32).write();
        let said = shard.look_of(number.0)?.said(place)?;
        shard.get(number.0).map(|state| (said, Noted { change: state.change, modified: state.noted_modified() }))
    }

    /// It is the file's time now, or as near to it as may be.
    pub fn note_modified(&self, ticket: &LookTicket, modified: Option<FileTime>) {
        if let Some(look) = self.shards.at(ticket.number.0 as u32).write().look_of(ticket.number.0) {
            look.note_modified(modified);
        }
    }

    /// What is delegated below and was answered to nobody is about to be given back there: as long as this is held nobody is given it anew. None: it is known by now, and on its way.
    pub fn orphan(&self, client: ClientId, file: FileId) -> Option<Reserving<'_>> {
        let mut shard = self.shards.of(client).write();
        let is_unknown = shard.of_file(client, &file).is_none();
        let number = is_unknown
            .then(|| shard.begin_orphan(&self.seal, Asked { client, file, owner: OwnerName::default(), by: None }))?;
        Some(Reserving::new(self, (client, file), number))
    }

    /// Whether any is asked for, so that somebody has to look.
    #[must_use]
    pub fn has_recalled(&self) -> bool {
        self.totals.recalled.now() > 0
    }

    /// Who is to be called by now.
    #[must_use]
    pub fn to_call(&self, now: Duration) -> Vec<ClientId> {
        let mut clients: Vec<_> = Vec::new();
        for shard in self.recalling() {
            clients.extend(shard.read().due(None, Next::Call, now).map(|(client, _)| client));
            clients.dedup();
        }
        clients
    }

    /// Where those are that are asked for.
    fn recalling(&self) -> &[RwLock<Shard>] {
        if self.has_recalled() { self.shards.of_each(None) } else { &[] }
    }

    /// What a client is to be called for next.
    #[must_use]
    pub fn next_call(&self, client: ClientId, now: Duration) -> Option<Delegated> {
        let shard = self.shards.of(client).read();
        let (_, number) = shard.due(Some(client), Next::Call, now).next()?;
        Some(self.delegated(shard.get(number).expect("G3"), number))
    }

    /// Those whose recall is over.
    #[must_use]
    pub fn overdue(&self, now: Duration) -> Vec<DelegationNumber> {
        let over = |shard: &RwLock<Shard>| -> Vec<_> {
            shard.read().due(None, Next::Revoke, now).map(|(_, number)| DelegationNumber(number)).collect()
        };
        self.recalling().iter().flat_map(over).collect()
    }

    /// Of those that are asked for, the time to give them back begins when this says so of their mount, if it does.
    pub fn begin_at(&self, when: &dyn Fn(&Mounted) -> Option<Duration>) {
        self.recalling().iter().for_each(|shard| shard.write().begin_at(when));
    }

    /// Whose this is that is asked for, if that client was not called for it, and not for its own fault.
    #[must_use]
    pub fn uncalled(&self, number: DelegationNumber) -> Option<ClientId> {
        let shard = self.shards.at(number.0 as u32).read();
        let state = shard.get(number.0)?;
        state.recall().is_some_and(Recall::is_uncalled).then_some(state.asked.client)
    }

    /// The recall of such a one is over, and its client can be called. Whether that is waited for still.
    pub fn put_off(&self, number: DelegationNumber, now: Duration) -> bool {
        let mut shard = self.shards.at(number.0 as u32).write();
        shard.recall_of(number.0).is_some_and(|recall| recall.put_off(now))
    }

    /// A client is about to be called for one. False: it was given back meanwhile, or another one calls.
    pub fn call(&self, number: DelegationNumber, now: Duration) -> bool {
        let mut shard = self.shards.at(number.0 as u32).write();
        let recall = shard.recall_of(number.0).filter(|recall| recall.next(now) == Next::Call);
        recall.is_some_and(|recall| {
            recall.call(now);
            true
        })
    }

    /// What came of the call.
    pub fn answered(&self, number: DelegationNumber, answer: Answer, now: Duration) {
        if let Some(recall) = self.shards.at(number.0 as u32).write().recall_of(number.0) {
            recall.answered(answer, now);
        }
    }

    /// One whose recall is over is about to be taken. None: it was given back meanwhile.
    /// With it the request by which it was given, if the client says that it has none.
    pub fn take(&self, number: DelegationNumber, now: Duration) -> Option<(Ending<'_>, Option<Referred>)> {
        let mut shard = self.shards.at(number.0 as u32).write();
        let recall = shard.recall_of(number.0).filter(|recall| recall.next(now) == Next::Revoke)?;
        let is_denied = recall.is_denied();
        let Asked { client, file, by, .. } = shard.get(number.0)?.asked;
        shard.end(number.0);
        Some((Ending::new(self, (client, file), number.0), by.filter(|_| is_denied)))
    }

    /// FREE_STATEID: the client knows that it was revoked. One that it has is LOCKS_HELD.
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

    /// A client is gone. Gives the files of which it had one, to be given back below.
    pub fn forget_client(&self, client: ClientId) -> Vec<FileId> {
        self.shards.of(client).write().forget(client)
    }

    /// Those of mounts that are over are their clients' no more. Gives whose each was: a client as often as it had one.
    pub fn revoke_of(&self, is_over: &dyn Fn(&Mounted) -> bool) -> Vec<ClientId> {
        self.shards.of_each(None).iter().flat_map(|shard| shard.write().revoke_of(is_over)).collect()
    }

    /// Of which mounts there are any.
    #[must_use]
    pub fn mounts(&self) -> HashSet<Mounted> {
        self.shards.of_each(None).iter().fold(HashSet::default(), |mut mounts, shard| {
            mounts.extend(shard.read().mounts());
            mounts
        })
    }

    /// What SEQUENCE says of what was revoked of a client's (`SEQ4_STATUS_*`), as [`Opens::flags`](super::Opens::flags).
    #[must_use]
    pub fn flags(&self, client: ClientId) -> u32 {
        if self.totals.revoked.now() == 0 {
            return 0;
        }
        let revoked = self.shards.of(client).read().revoked(client);
        let flags = revoked.iter().zip(Revoked::FLAGS).filter(|(count, _)| **count > 0);
        flags.fold(0, |flags, (_, [of_some, _])| flags | of_some)
    }

    /// Whether one was taken from a client that it did not give back in time, and has not freed.
    #[must_use]
    pub fn has_lost(&self, client: ClientId) -> bool {
        self.shards.of(client).read().revoked(client)[Revoked::Recalled as usize] > 0
    }

    /// Whether a client has one that it would lose.
    #[must_use]
    pub fn holds(&self, client: ClientId) -> bool {
        self.shards.of(client).read().holds(client)
    }

    /// Whether a client has one for writing there, or may be about to be given one.
    #[must_use]
    pub fn may_write(&self, client: ClientId, is_there: &dyn Fn(&Mounted) -> bool) -> bool {
        self.shards.of(client).read().may_write(client, is_there)
    }

    /// How many there are, and how many of these are asked for, and were taken and not freed yet.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.totals.all.now(), self.totals.recalled.now(), self.totals.revoked.now())
    }

    /// How many a client has, those that were taken from it too.
    #[must_use]
    pub fn count_of(&self, client: ClientId) -> usize {
        self.shards.of(client).read().count(client)
    }

    fn delegated(&self, state: &State, number: u64) -> Delegated {
        let Asked { client, file, by, .. } = state.asked;
        let stateid = self.seal.stateid(number as u32, state.tag, 1);
        let (number, handle) = (DelegationNumber(number), state.handle.clone());
        Delegated { number, client, file, keeps: state.keeps, stateid, handle, by }
    }
}

impl fmt::Debug for Delegations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the key.
        f.debug_struct("Delegations").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Stateid {
    /// Whether it is one of a delegation, if it is one of anything.
    #[must_use]
    pub fn is_of_delegation(&self) -> bool {
        self.index() & super::places::OF_DELEGATIONS != 0
    }
}

#[cfg(test)]
mod tests;
