//! Clients: who introduced themselves, and confirmed it.
//!
//! A client names itself by a string that stays the same, and by a verifier that is another one each time it starts. Of each string there are at
//! most two records: a confirmed one, and one that waits to be. Those of minor version 0 and those of sessions have names of their own, and one
//! register, whose bounds count both.
//!
//! Minor version 0: SETCLIENTID and its confirmation (RFC 7530 §16.33 and §16.34; table D4). Of the others see [`exchange`] (D3) and [`creation`] (D14).
//!
//! ```text
//!  SETCLIENTID: what there is of the string     │ what comes of it
//!  ─────────────────────────────────────────────┼─────────────────────────────────────────────────────────────────────
//!  a  confirmed, of another one ([`Sender`]),   │ CLID_INUSE; nothing changes
//!     whom this one does not outrank, and that  │
//!     holds something, or outranks this one and │
//!     is elsewhere; or waits, and outranks it   │
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
//!  g  either, of another one                    │ CLID_INUSE; nothing changes
//!  h  either, with another confirmation; none   │ STALE_CLIENTID; nothing changes
//! ```
//!
//! *Invariants.* C1: an id has at most one confirmed and one waiting record, and both are of one string; of a client with sessions it has one or the
//! other. C2: there are at most [`CLIENTS_MAX`] confirmed ones and [`WAITING_MAX`] that wait, of one address half of either. Who is too
//! much takes the place of another one, of his own address where that has so many: of one that holds nothing, or else of one whose lease is over, each time of the one that
//! was silent for longest; where there is none, he comes again (rules V20 and V35; [`courtesy`]). Of those that wait one always goes. C3: the sessions that clients list are those that can be found.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tally_base::Rng;

use super::ClientKey;
use super::bounds::{CLIENTS_MAX, OF_ADDRESS_MAX, SESSIONS_MAX, WAITING_MAX, WAITING_OF_ADDRESS_MAX};
use super::presence::Presence;
use super::sessions::{SessionId, Sessions};

mod courtesy;
mod creation;
mod exchange;
mod known;
mod sender;

pub use creation::{Created, Wanted};
pub use exchange::{Exchanged, Protection};
pub use known::{Known, Which, printable};
pub use sender::{Proof, Sender};

/// How long a client keeps what it holds without a word, and may take to confirm who it is, unless the server is told another time.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(90);

/// Less is no lease: a clock of leases may be [`LOOK_MAX`](super::lease) behind, and a client says a word at every second third of one.
pub const LEASE_MIN: Duration = Duration::from_secs(5);

/// With more a client that is gone would be waited for, behind a restart, for longer than anybody waits.
pub const LEASE_MAX: Duration = Duration::from_secs(3600);

/// How long one whose lease is over keeps it if it is in nobody's way.
pub const COURTESY: Duration = Duration::from_secs(24 * 3600);

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
    /// Who says so, and from where.
    pub sender: Sender,
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
    /// Its name, or its id, is another one's: CLID_INUSE.
    InUse,
    /// No such id, or of another start: STALE_CLIENTID.
    Stale,
    /// It was somebody's in this start of the server, who is gone with all that he had: EXPIRED. Behind STALE_CLIENTID a client would claim what it had,
    /// as if the server had started anew.
    Gone,
    /// It is, and there are as many as there may be: DELAY.
    TooMany,
}

#[derive(Debug)]
struct Record {
    id: ClientId,
    introduction: Introduction,
    presence: Arc<Presence>,
    of: Of,
}

/// What a client is besides, by its minor version.
#[derive(Debug)]
enum Of {
    Minor0 { confirmation: [u8; 8] },
    Minor1(creation::Slot),
}

impl Record {
    fn minor(&self) -> Minor {
        match self.of {
            Of::Minor0 { .. } => Minor::Zero,
            Of::Minor1(_) => Minor::One,
        }
    }

    fn name(&self) -> Name {
        (self.minor(), self.introduction.name.clone())
    }

    /// Whether this is what a client of minor version 0 was answered.
    fn is_of(&self, said: Introduced) -> bool {
        matches!(self.of, Of::Minor0 { confirmation } if Introduced { id: self.id, confirmation } == said)
    }

    /// Its sessions.
    fn sessions(&self) -> &[SessionId] {
        match &self.of {
            Of::Minor0 { .. } => &[],
            Of::Minor1(slot) => slot.sessions(),
        }
    }

    /// Who has introduced it: one who was let into a dataset since is named.
    fn sender(&self) -> Sender {
        let sender = self.introduction.sender;
        Sender { is_named: sender.is_named || self.presence.owns_key(), ..sender }
    }

    fn address(&self) -> IpAddr {
        self.introduction.sender.address
    }

    /// Whether this one, who is another one, may not come in its place: it holds something. A session counts, as long as it is used. Whom it outranks it keeps out by its
    /// lease alone, as behind a restart it holds nothing before it has claimed it; but not on its own host, which may show less the next time.
    fn is_held_from(&self, other: &Sender, holds: &dyn Fn(ClientId) -> bool, now: Duration) -> bool {
        let own = self.sender();
        let is_late = self.presence.is_late(now);
        let outranks = own.outranks(other) && own.address != other.address && !is_late;
        let is_used = (self.minor() == Minor::Zero || !is_late) && (holds(self.id) || !self.sessions().is_empty());
        !other.outranks(&own) && (is_used || outranks)
    }
}

/// Whose names: those of SETCLIENTID, or those of EXCHANGE_ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Minor {
    Zero,
    One,
}

type Name = (Minor, Vec<u8>);

/// All clients.
#[derive(Debug)]
pub struct Clients {
    boot: BootId,
    lease: Duration,
    next: u32,
    confirmed: HashMap<ClientId, Record>,
    waiting: HashMap<ClientId, Record>,
    /// Confirmed ones and waiting ones by name; either may be missing.
    by_name: HashMap<Name, [Option<ClientId>; 2]>,
    sessions: Arc<Sessions>,
    /// Confirmed ones that are none any more: what they hold has to go.
    gone: Vec<Gone>,
}

/// A client that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its id, which nobody has any more.
    pub client: ClientId,
    /// Who it was, unless it went by itself and has come again under another id, or that is not sure ([`Presence::owns_key`]).
    pub key: Option<ClientKey>,
    /// What it called itself.
    pub name: Vec<u8>,
    /// From where.
    pub address: IpAddr,
    /// What made it go.
    pub why: Why,
}

/// What makes a client go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It said so itself, or has started anew.
    Itself,
    /// Its lease was over, and it was in somebody's way or there was no room for others.
    Late,
    /// Nobody has heard of it for [`COURTESY`].
    Forgotten,
    /// An administrator.
    Evicted,
}

const CONFIRMED: usize = 0;
const WAITING: usize = 1;

impl Clients {
    /// Nobody, since this start. Whoever comes has so long a lease.
    #[must_use]
    pub fn new(boot: BootId, lease: Duration) -> Self {
        let (confirmed, waiting, by_name, sessions, gone) = Default::default();
        Self { boot, lease, next: 1, confirmed, waiting, by_name, sessions, gone }
    }

    /// The sessions, which are asked without the register's lock.
    #[must_use]
    pub fn sessions(&self) -> Arc<Sessions> {
        self.sessions.clone()
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
        let name = (Minor::Zero, introduction.name.clone());
        let confirmed = self.ids(&name)[CONFIRMED].and_then(|id| self.confirmed.get(&id));
        let is_other = |known: &&Record| !introduction.sender.is(&known.sender());
        // Row a.
        let is_held = |known: &Record| known.is_held_from(&introduction.sender, holds, now);
        if confirmed.filter(is_other).is_some_and(is_held) || self.is_awaited(&name, &introduction.sender) {
            return Err(Unknown::InUse);
        }
        // Rows b, c and d.
        let same = confirmed.filter(|known| !is_other(known) && known.introduction.verifier == introduction.verifier);
        let kept = same.map(|known| known.id);
        let id = kept.unwrap_or_else(|| self.draw_id());
        let introduced = Introduced { id, confirmation: rng.next_u64().to_be_bytes() };
        self.let_wait(id, introduction, Of::Minor0 { confirmation: introduced.confirmation }, now);
        Ok(introduced)
    }

    /// SETCLIENTID_CONFIRM at `now`. Gives the client whose place it takes: it has started anew, and holds nothing any more.
    pub fn confirm(
        &mut self,
        said: Introduced,
        sender: &Sender,
        holds: &dyn Fn(ClientId) -> bool,
        now: Duration,
    ) -> Result<Option<ClientId>, Unknown> {
        self.forget_late(now);
        let of_0 = |record: &&Record| record.minor() == Minor::Zero;
        let [known, waiting] = [&self.confirmed, &self.waiting].map(|records| records.get(&said.id).filter(of_0));
        // Row g.
        if [known, waiting].into_iter().flatten().any(|record| !sender.is(&record.sender())) {
            return Err(Unknown::InUse);
        }
        if waiting.is_some_and(|record| record.is_of(said)) {
            if !self.may_take_in(said.id, holds, now) {
                return Err(Unknown::InUse);
            }
            let way = self.way_for(said.id, holds, now).map_err(|Full| Unknown::TooMany)?;
            return Ok(self.take_in(said.id, way, now));
        }
        let known = known.filter(|record| record.is_of(said)).ok_or(Unknown::Stale)?;
        known.presence.hear(now);
        Ok(None)
    }

    /// A client of minor version 0 is there still whose word was heard before.
    pub fn renew(&mut self, id: ClientId, now: Duration) -> Result<(), Unknown> {
        self.of_minor_0(id)?.presence.hear(now);
        Ok(())
    }

    /// RENEW at `now`, or any other word of a client of minor version 0, and who it is: those with sessions renew by SEQUENCE alone.
    pub fn hear(&self, id: ClientId, sender: &Sender, now: Duration) -> Result<Arc<Presence>, Unknown> {
        let record = self.of_minor_0(id)?;
        if !sender.goes_on_for(&record.sender()) {
            return Err(Unknown::InUse);
        }
        record.presence.hear(now);
        Ok(record.presence.clone())
    }

    fn of_minor_0(&self, id: ClientId) -> Result<&Record, Unknown> {
        let known = self.confirmed.get(&id);
        known.filter(|record| record.minor() == Minor::Zero).ok_or_else(|| self.unknown(id))
    }

    /// Why an id is nobody's who may say something.
    fn unknown(&self, id: ClientId) -> Unknown {
        let (boot, number) = ((id.0 >> 32) as u32, id.0 as u32);
        let was_drawn = boot == self.boot.0 && (1..self.next).contains(&number);
        let is_there = self.confirmed.contains_key(&id) || self.waiting.contains_key(&id);
        if was_drawn && !is_there { Unknown::Gone } else { Unknown::Stale }
    }

    /// Who has gone since this was asked last: what such a client had is nobody's any more.
    #[must_use]
    pub fn take_gone(&mut self) -> Vec<Gone> {
        let mut gone = std::mem::take(&mut self.gone);
        // A record that another one of the same id has replaced: it has only said something new of itself.
        gone.retain(|gone| !self.confirmed.contains_key(&gone.client));
        let is_there = |key: &ClientKey| self.confirmed.values().any(|record| record.presence.key() == *key);
        // Who was ended and is fast to come again may not claim what is another one's meanwhile (rules V24): it is in the lists by what it is given from here on.
        let is_kept = |gone: &Gone| gone.why == Why::Itself && gone.key.as_ref().is_some_and(is_there);
        gone.iter_mut().filter(|gone| is_kept(gone)).for_each(|gone| gone.key = None);
        gone
    }

    /// An administrator ends a client, whatever its lease. Whether there is one.
    pub fn evict(&mut self, id: ClientId) -> bool {
        let is_there = self.confirmed.contains_key(&id);
        self.end(id, Why::Evicted);
        is_there
    }

    /// Up to so many confirmed ones, in the order of their ids, and how many there are besides.
    #[must_use]
    pub fn known(&self, which: Which) -> (Vec<Known>, usize) {
        let mut ids: Vec<_> = self.confirmed.keys().filter(|id| which.is_of(**id)).copied().collect();
        ids.sort_unstable();
        let more = ids.len().saturating_sub(which.most);
        ids.truncate(which.most);
        (ids.iter().map(|id| Known::new(&self.confirmed[id])).collect(), more)
    }

    /// How many leases of confirmed ones are over.
    #[must_use]
    pub fn late_count(&self, now: Duration) -> usize {
        self.confirmed.values().filter(|record| record.presence.is_late(now)).count()
    }

    /// How many are confirmed, and how many wait to be.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.confirmed.len(), self.waiting.len())
    }

    /// Row e: whether the waiting one with this id may take the place of the one that has its name confirmed.
    fn may_take_in(&self, id: ClientId, holds: &dyn Fn(ClientId) -> bool, now: Duration) -> bool {
        let waiting = &self.waiting[&id];
        let [before, _] = self.ids(&waiting.name());
        let known = before.and_then(|before| self.confirmed.get(&before));
        let sender = waiting.sender();
        known.is_none_or(|known| sender.is(&known.sender()) || !known.is_held_from(&sender, holds, now))
    }

    /// Whether one waits by a name who outranks this one: else nobody could confirm his where somebody says it all the time.
    fn is_awaited(&self, name: &Name, sender: &Sender) -> bool {
        let waiting = self.ids(name)[WAITING].and_then(|id| self.waiting.get(&id));
        waiting.is_some_and(|waiting| waiting.sender().outranks(sender) && !sender.is(&waiting.sender()))
    }

    /// Row e: confirms the waiting one with this id, for which that one gives way. Gives whose place it took by its name.
    fn take_in(&mut self, id: ClientId, way: Option<ClientId>, now: Duration) -> Option<ClientId> {
        let name = self.waiting.get(&id).expect("it was looked at").name();
        let [before, _] = self.ids(&name);
        if let Some(before) = before {
            self.forget(before, CONFIRMED);
        }
        if let Some(gone) = way {
            self.end(gone, Why::Late);
        }
        let record = self.waiting.remove(&id).expect("it was looked at");
        record.presence.hear(now);
        self.by_name.insert(name, [Some(id), None]);
        self.confirmed.insert(id, record);
        self.check();
        before.filter(|before| *before != id)
    }

    /// Lets a record wait to be confirmed, in the place of the one that waits by that name.
    fn let_wait(&mut self, id: ClientId, introduction: Introduction, of: Of, now: Duration) {
        let is_of_sessions = matches!(of, Of::Minor1(_));
        let key = ClientKey::new(is_of_sessions, &introduction.name, &introduction.sender);
        let owns_key = introduction.sender.has_own_key();
        // As it was of one that has only said something new of itself.
        let owned_key = || self.confirmed.get(&id).is_some_and(|known| known.presence.owns_key());
        let presence = Arc::new(Presence::new((id, key, owns_key || owned_key()), self.lease, now));
        let record = Record { id, introduction, presence, of };
        let [_, before] = self.ids(&record.name());
        // None of them holds anything.
        let bounds = (WAITING_MAX, WAITING_OF_ADDRESS_MAX);
        let in_the_way = || to_give_way(&self.waiting, record.address(), bounds, &|_| Some(false));
        if let Some(gone) = before.or_else(|| in_the_way().unwrap_or(None)) {
            self.forget(gone, WAITING);
        }
        self.by_name.entry(record.name()).or_default()[WAITING] = Some(id);
        self.waiting.insert(id, record);
    }

    /// The confirmed one of a name, and the one that waits.
    fn ids(&self, name: &Name) -> [Option<ClientId>; 2] {
        self.by_name.get(name).copied().unwrap_or_default()
    }

    /// A record goes, with its sessions, as its client says so, or has started anew.
    fn forget(&mut self, id: ClientId, which: usize) {
        self.forget_as(id, which, Why::Itself);
    }

    fn forget_as(&mut self, id: ClientId, which: usize, why: Why) {
        let records = if which == WAITING { &mut self.waiting } else { &mut self.confirmed };
        let Some(record) = records.remove(&id) else { return };
        if which == CONFIRMED {
            let (name, address) = (record.introduction.name.clone(), record.address());
            // One that is there with this id has only said something new of itself.
            if why != Why::Itself || !self.waiting.contains_key(&id) {
                record.presence.end();
            }
            let key = record.presence.owns_key().then(|| record.presence.key());
            self.gone.push(Gone { client: id, key, name, address, why });
        }
        record.sessions().iter().for_each(|session| self.sessions.close(*session));
        let name = record.name();
        let Some(ids) = self.by_name.get_mut(&name) else { return };
        ids[which] = None;
        if ids.iter().all(Option::is_none) {
            self.by_name.remove(&name);
        }
    }

    /// Those who did not confirm in time, and those that were kept for as long as they may be.
    pub fn forget_late(&mut self, now: Duration) {
        let is_late = |record: &&Record| record.presence.is_late(now);
        let late: Vec<ClientId> = self.waiting.values().filter(is_late).map(|record| record.id).collect();
        late.into_iter().for_each(|id| self.forget(id, WAITING));
        let is_past = |record: &&Record| record.presence.heard() + COURTESY < now;
        let past: Vec<ClientId> = self.confirmed.values().filter(is_past).map(|record| record.id).collect();
        past.into_iter().for_each(|id| self.end(id, Why::Forgotten));
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

    /// C1 to C3.
    fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        assert!(self.confirmed.len() <= CLIENTS_MAX && self.waiting.len() <= WAITING_MAX, "C2");
        let of_name = |(minor, name): &Name, id: Option<ClientId>, records: &HashMap<ClientId, Record>| {
            let is_its = |record: &Record| record.minor() == *minor && record.introduction.name == *name;
            id.is_none_or(|id| records.get(&id).is_some_and(|record| record.id == id && is_its(record)))
        };
        for (name, [confirmed, waiting]) in &self.by_name {
            assert!(of_name(name, *confirmed, &self.confirmed) && of_name(name, *waiting, &self.waiting), "C1");
            assert!(name.0 == Minor::Zero || confirmed.is_none() || confirmed != waiting, "C1");
        }
        let mut count = 0;
        for record in self.confirmed.values() {
            count += record.sessions().len();
            assert!(record.sessions().len() <= SESSIONS_MAX, "C2");
            let is_its = |id: &SessionId| self.sessions.find(*id).is_some_and(|it| it.presence().client() == record.id);
            assert!(record.sessions().iter().all(is_its), "C3");
        }
        assert!(self.waiting.values().all(|record| record.sessions().is_empty()), "C3");
        assert_eq!(self.sessions.counts().0, count, "C3");
    }
}

/// There are as many as there may be.
struct Full;

/// Who has to go before another one of this address can come, if anybody has to. `costs` says of whom it may be, and whether it would lose something: rather not.
fn to_give_way(
    records: &HashMap<ClientId, Record>,
    address: IpAddr,
    (most, most_of_address): (usize, usize),
    costs: &dyn Fn(&Record) -> Option<bool>,
) -> Result<Option<ClientId>, Full> {
    let is_of_address = |record: &&Record| record.address() == address;
    let is_enough = records.values().filter(is_of_address).count() >= most_of_address;
    if !is_enough && records.len() < most {
        return Ok(None);
    }
    let others = records.values().filter(|record| !is_enough || is_of_address(record));
    let may_go = others.filter_map(|record| Some((costs(record)?, record.presence.heard(), record.id)));
    may_go.min().map(|(.., id)| Some(id)).ok_or(Full)
}

#[cfg(test)]
pub(super) mod desk;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
