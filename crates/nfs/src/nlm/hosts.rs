//! Hosts that lock by this protocol, what each has, and who of them waits.
//!
//! A host is an address: what it calls itself anybody may say, and where it asks from he cannot. It has a number among the clients of the server, one that no client of version 4
//! has, and its processes are owners of ranges, as the table of claims has them. Which ranges these are is decided there; here stands whose they are and in which files, so that they can be
//! given up with their host, and told by name to who is refused for them.
//!
//! ```text
//!  TEST ─▶ find
//!  LOCK ─▶ begin ─▶ the file system ─▶ settle, with whether it has anything there
//!  UNLOCK, CANCEL ─▶ the same
//!  SM_NOTIFY, FREE_ALL ─▶ free ─▶ what it had is to be given up; its number is nobody's any more
//!  nothing for a minute ─▶ end_idle: it goes out of the lists of the pools
//! ```
//!
//! *A port that is the superuser's* (N4). A kernel asks from one, and any user of its host from another. So who asks from one sort of port is another owner than who calls itself the same and asks from the other: nobody
//! gives up, or takes over, what the kernel of his host has locked.
//!
//! *By which number a start is known* (N4). A host says it in each LOCK and, behind a start, in a notice. Two machines behind one address have numbers that know nothing of each other, so one that is higher than another says nothing: a notice
//! alone frees. It may come late, when its host has locked again; so each owner keeps the number of his first LOCK, and a notice frees none of those who are of the start that it tells of.
//!
//! *A LOCK and the end of its host beside each other.* Whoever frees a host takes its number away first. A LOCK that is under way finds in `settle` that its owner is nobody's, and gives back what it has
//! got. One that comes behind has another number. Either way nothing stays locked that nobody can unlock.
//!
//! *Locks.* None here: all of it is under one, which is held over a look into the table of claims and over nothing else.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tally_vfs::{ClientNumber, Holder, OwnerNumber};

use super::waiting::Waiting;
use super::wire::Process;

/// Most hosts that have anything.
pub const HOSTS_MAX: usize = 4096;
/// Most processes of a host that have anything, and of all.
pub const OWNERS_OF_HOST_MAX: usize = 16_384;
/// Of all hosts.
pub const OWNERS_MAX: usize = 131_072;
/// Most bytes of their names, which are kept, as others are told them.
pub const NAMES_BYTES_MAX: usize = 32 << 20;

/// Most hosts that are not known, whose last word of a new start is remembered.
pub const TOLD_MAX: usize = HOSTS_MAX;

/// So long a host that has nothing stays in the lists of those who may claim something behind a restart: most lock again soon, and to go out and in again costs two writes.
pub const IDLE: Duration = Duration::from_secs(60);

/// Who asks.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct HostProcess<'a> {
    pub address: IpAddr,
    /// Whether its port is one of the superuser's of that host.
    pub is_privileged: bool,
    /// What it calls itself, which is shown and nothing more.
    pub name: &'a [u8],
    pub process: Process<'a>,
}

/// There is no room for another host or owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What a host had that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Freed<F> {
    pub address: IpAddr,
    pub held: Vec<(Holder, F)>,
    /// Whether it has nothing by now; else what it has locked since that start.
    pub is_all: bool,
}

/// Whose a range is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Named {
    pub address: IpAddr,
    pub host: Arc<[u8]>,
    pub handle: Arc<[u8]>,
    pub process: u32,
}

impl Named {
    /// As the protocol says it.
    #[must_use]
    pub fn process(&self) -> Process<'_> {
        Process { handle: &self.handle, number: self.process }
    }
}

/// A host, for who looks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Seen {
    pub address: IpAddr,
    pub name: Arc<[u8]>,
    pub client: ClientNumber,
    pub since: Duration,
    pub files: usize,
    pub waits: usize,
}

#[derive(Debug)]
struct Host<F> {
    number: ClientNumber,
    name: Arc<[u8]>,
    /// The number of its start, by its last notice, or else its first LOCK.
    state: Option<u32>,
    since: Duration,
    /// As of when it has nothing.
    idle_since: Duration,
    next_owner: u64,
    owners: BTreeMap<OwnerNumber, Owner<F>>,
    by_name: HashMap<KnownAs, OwnerNumber>,
    /// How many of them ask from a port of the superuser's.
    privileged: usize,
}

/// What an owner is called by its host, and whether it asks from a port of the superuser's there.
type KnownAs = (Arc<[u8]>, u32, bool);

#[derive(Debug)]
struct Owner<F> {
    handle: Arc<[u8]>,
    process: u32,
    is_privileged: bool,
    /// The number of its host's start, by its first LOCK that says one.
    state: Option<u32>,
    /// Requests of it that are under way.
    busy: usize,
    /// And as of when it has something there.
    files: HashMap<F, Duration>,
}

/// All of them.
#[derive(Debug)]
pub struct Hosts<F> {
    /// In front of each number: that of no client of version 4.
    series: u32,
    next: u32,
    hosts: HashMap<IpAddr, Host<F>>,
    by_number: HashMap<ClientNumber, IpAddr>,
    owner_count: usize,
    names_bytes: usize,
    /// Of hosts that are not known, by what number they have said that they have started anew; and who said so first.
    told: HashMap<IpAddr, u32>,
    told_in_order: VecDeque<IpAddr>,
    /// Who waits for what.
    pub waiting: Waiting<F>,
}

impl<F: Copy + Eq + Hash> Hosts<F> {
    /// None yet. Their numbers begin with this.
    #[must_use]
    pub fn new(series: u32) -> Self {
        let (hosts, by_number, told, told_in_order, waiting) = Default::default();
        Self { series, next: 1, hosts, by_number, owner_count: 0, names_bytes: 0, told, told_in_order, waiting }
    }

    /// A process is about to lock something, or to give it up: by which number its host and it are known until [`Self::settle`] at least.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub fn begin(&mut self, caller: &HostProcess<'_>, now: Duration) -> Result<Holder, Full> {
        let address = caller.address.to_canonical();
        if !self.hosts.contains_key(&address) {
            if self.hosts.len() >= HOSTS_MAX {
                return Err(Full);
            }
            let (number, state) = (self.draw(address), self.forget_told(address));
            self.hosts.insert(address, Host { state, ..Host::new(number, caller.name, now) });
        }
        let host = self.hosts.get_mut(&address).ok_or(Full)?;
        if *host.name != *caller.name {
            host.name = caller.name.into();
        }
        let Process { handle, number } = caller.process;
        let key = (Arc::from(handle), number, caller.is_privileged);
        let owner = match host.by_name.get(&key) {
            Some(owner) => *owner,
            None => {
                let bytes = self.names_bytes + handle.len();
                if host.owners.len() >= OWNERS_OF_HOST_MAX || self.owner_count >= OWNERS_MAX || bytes > NAMES_BYTES_MAX
                {
                    return Err(Full);
                }
                self.owner_count += 1;
                self.names_bytes = bytes;
                host.add(key)
            }
        };
        if let Some(owner) = host.owners.get_mut(&owner) {
            owner.busy += 1;
        }
        Ok(Holder { client: host.number, owner })
    }

    /// What was begun is over; whether its owner has anything in the file by now was asked under the same lock as this. False: its host has lost all that it had meanwhile, and what it has got of
    /// the file is to be given up.
    pub fn settle(&mut self, holder: Holder, file: F, has_any: bool, now: Duration) -> bool {
        let Some(owner) = self.owner_mut(holder) else { return false };
        owner.busy = owner.busy.saturating_sub(1);
        self.note(holder, file, has_any, now);
        true
    }

    /// Whether an owner has anything in a file, as it was looked up.
    pub fn note(&mut self, holder: Holder, file: F, has_any: bool, now: Duration) {
        let Some(owner) = self.owner_mut(holder) else { return };
        if has_any {
            owner.files.entry(file).or_insert(now);
        } else {
            owner.files.remove(&file);
            self.waiting.has_nothing(holder, &file);
        }
        self.forget_if_idle(holder, now);
    }

    /// Owners that waited, and wait no more, may have nothing.
    pub fn forget_left(&mut self, now: Duration) {
        for holder in self.waiting.take_left() {
            self.forget_if_idle(holder, now);
        }
    }

    fn forget_if_idle(&mut self, holder: Holder, now: Duration) {
        let waits = self.waiting.has_any_of(holder);
        let Some(host) = self.by_number.get(&holder.client).and_then(|address| self.hosts.get_mut(address)) else {
            return;
        };
        let is_idle = |owner: &Owner<F>| owner.busy == 0 && owner.files.is_empty() && !waits;
        if host.owners.get(&holder.owner).is_some_and(is_idle)
            && let Some(gone) = host.remove(holder.owner)
        {
            self.owner_count -= 1;
            self.names_bytes -= gone.handle.len();
        }
        if host.owners.is_empty() {
            host.idle_since = now;
        }
    }

    /// By which numbers a process is known: that of one who has nothing is nobody's.
    #[must_use]
    pub fn find(&self, caller: &HostProcess<'_>) -> Holder {
        let nobody = Holder { client: ClientNumber(u64::from(self.series) << 32), owner: OwnerNumber(0) };
        let Some(host) = self.hosts.get(&caller.address.to_canonical()) else { return nobody };
        let Process { handle, number } = caller.process;
        let owner = host.by_name.get(&(Arc::from(handle), number, caller.is_privileged)).copied();
        Holder { client: host.number, owner: owner.unwrap_or(nobody.owner) }
    }

    /// Whether a number is of a host, and not of a client of version 4.
    #[must_use]
    pub fn is_of_host(&self, client: ClientNumber) -> bool {
        client.0 >> 32 == u64::from(self.series)
    }

    /// Whose an owner is.
    #[must_use]
    pub fn named(&self, holder: Holder) -> Option<Named> {
        let address = *self.by_number.get(&holder.client)?;
        let host = self.hosts.get(&address)?;
        let owner = host.owners.get(&holder.owner)?;
        Some(Named { address, host: host.name.clone(), handle: owner.handle.clone(), process: owner.process })
    }

    /// The number that goes for an address.
    #[must_use]
    pub fn number_of(&self, address: IpAddr) -> Option<ClientNumber> {
        self.hosts.get(&address.to_canonical()).map(|host| host.number)
    }

    /// Whether somebody who asks from such a port may say of all that a host has that it has it no more.
    #[must_use]
    pub fn speaks_for(&self, address: IpAddr, is_privileged: bool) -> bool {
        is_privileged || self.hosts.get(&address.to_canonical()).is_none_or(|host| host.privileged == 0)
    }

    /// An owner says with what it asks by which number the start of its host is known: that is remembered where none is. Those without a status monitor say 0.
    pub fn note_state(&mut self, holder: Holder, state: u32) {
        let Some(host) = self.by_number.get(&holder.client).and_then(|address| self.hosts.get_mut(address)) else {
            return;
        };
        let kernels = host.privileged;
        let Some(owner) = host.owners.get_mut(&holder.owner).filter(|_| state != 0) else { return };
        owner.state.get_or_insert(state);
        if owner.is_privileged || kernels == 0 {
            host.state.get_or_insert(state);
        }
    }

    /// Whether a host that says by a notice that it has started anew has said just that before: a notice is sent more than once. Of one that is not known it is remembered from here on.
    pub fn said_before(&mut self, address: IpAddr, state: u32) -> bool {
        let address = address.to_canonical();
        match self.hosts.get(&address) {
            Some(host) => host.state == Some(state),
            None => self.remember_told(address, state) == Some(state),
        }
    }

    /// Gives what it had said before.
    fn remember_told(&mut self, address: IpAddr, state: u32) -> Option<u32> {
        let before = self.told.insert(address, state);
        if before.is_none() {
            self.told_in_order.push_back(address);
            if self.told_in_order.len() > TOLD_MAX
                && let Some(oldest) = self.told_in_order.pop_front()
            {
                self.told.remove(&oldest);
            }
        }
        before
    }

    fn forget_told(&mut self, address: IpAddr) -> Option<u32> {
        let state = self.told.remove(&address)?;
        self.told_in_order.retain(|told| *told != address);
        Some(state)
    }

    /// A host has started anew, with that number if it says one, or says that it has nothing any more: it waits for nothing, and what it had is to be given up, but for what it has locked since that start. Nothing, where it is not known or said so before.
    pub fn free(&mut self, address: IpAddr, state: Option<u32>, now: Duration) -> Option<Freed<F>> {
        let address = address.to_canonical();
        let known = self.hosts.get(&address)?;
        if state.is_some() && known.state == state {
            return None;
        }
        if state.is_some() && known.owners.values().any(|owner| owner.state == state) {
            return Some(self.free_before(address, state));
        }
        let (state, before) = (state.or(known.state), known.number);
        let number = self.draw(address);
        let host = self.hosts.get_mut(&address)?;
        let anew = Host { state, ..Host::new(number, &host.name, now) };
        let gone = std::mem::replace(host, anew);
        self.by_number.remove(&before);
        self.waiting.forget_host(before);
        self.owner_count -= gone.owners.len();
        self.names_bytes -= gone.owners.values().map(|owner| owner.handle.len()).sum::<usize>();
        let holder = |owner: &OwnerNumber| Holder { client: before, owner: *owner };
        let held =
            gone.owners.iter().flat_map(|(number, owner)| owner.files.keys().map(move |file| (holder(number), *file)));
        Some(Freed { address, held: held.collect(), is_all: true })
    }

    /// A host that has locked something since that start has of what was before it nothing any more.
    fn free_before(&mut self, address: IpAddr, state: Option<u32>) -> Freed<F> {
        let mut freed = Freed { address, held: Vec::new(), is_all: false };
        let Some(host) = self.hosts.get_mut(&address) else { return freed };
        host.state = state;
        let goes = |(number, owner): (&OwnerNumber, &Owner<F>)| (owner.state != state).then_some(*number);
        let gone: Vec<_> = host.owners.iter().filter_map(goes).collect();
        for owner in gone {
            let holder = Holder { client: host.number, owner };
            self.waiting.forget_owner(holder);
            let Some(gone) = host.remove(owner) else { continue };
            self.owner_count -= 1;
            self.names_bytes -= gone.handle.len();
            freed.held.extend(gone.files.into_keys().map(|file| (holder, file)));
        }
        freed
    }

    /// Hosts that have had nothing for a while go.
    pub fn end_idle(&mut self, now: Duration) -> Vec<IpAddr> {
        let is_idle = |host: &Host<F>| host.owners.is_empty() && host.idle_since + IDLE <= now;
        let idle: Vec<_> = self.hosts.iter().filter(|(_, host)| is_idle(host)).map(|(address, _)| *address).collect();
        for address in &idle {
            if let Some(host) = self.hosts.remove(address) {
                self.by_number.remove(&host.number);
                // It may say so again.
                host.state.map(|state| self.remember_told(*address, state));
            }
        }
        idle
    }

    /// Files in which somebody has something, each with its owner, and as of when.
    #[must_use]
    pub fn held(&self) -> Vec<(Holder, F, Duration)> {
        let of = |host: &Host<F>| -> Vec<_> {
            let holder = |owner: &OwnerNumber| Holder { client: host.number, owner: *owner };
            host.owners
                .iter()
                .flat_map(|(number, owner)| {
                    owner.files.iter().map(move |(file, since)| (holder(number), *file, *since))
                })
                .collect()
        };
        self.hosts.values().flat_map(of).collect()
    }

    /// Up to so many hosts that are known, in the order of their addresses, and how many there are besides.
    #[must_use]
    pub fn seen(&self, most: usize) -> (Vec<Seen>, usize) {
        let mut addresses: Vec<_> = self.hosts.keys().copied().collect();
        addresses.sort_unstable();
        let more = addresses.len().saturating_sub(most);
        addresses.truncate(most);
        let seen = |address: IpAddr| {
            let host = self.hosts.get(&address)?;
            let waits = self.waiting.count_of(host.number);
            let files = host.owners.values().map(|owner| owner.files.len()).sum();
            Some(Seen { address, name: host.name.clone(), client: host.number, since: host.since, files, waits })
        };
        (addresses.into_iter().filter_map(seen).collect(), more)
    }

    /// How many hosts are known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    fn owner_mut(&mut self, holder: Holder) -> Option<&mut Owner<F>> {
        let address = self.by_number.get(&holder.client)?;
        self.hosts.get_mut(address)?.owners.get_mut(&holder.owner)
    }

    /// A number that nobody has.
    fn draw(&mut self, address: IpAddr) -> ClientNumber {
        loop {
            let number = ClientNumber(u64::from(self.series) << 32 | u64::from(self.next));
            // 0 is nobody's.
            self.next = self.next.checked_add(1).unwrap_or(1);
            if let std::collections::hash_map::Entry::Vacant(place) = self.by_number.entry(number) {
                place.insert(address);
                return number;
            }
        }
    }
}

impl<F> Host<F> {
    fn new(number: ClientNumber, name: &[u8], now: Duration) -> Self {
        let (owners, by_name, privileged) = Default::default();
        let name = name.into();
        Self { number, name, state: None, since: now, idle_since: now, next_owner: 1, owners, by_name, privileged }
    }

    fn add(&mut self, key: KnownAs) -> OwnerNumber {
        let number = OwnerNumber(self.next_owner);
        self.next_owner += 1;
        self.privileged += usize::from(key.2);
        let (handle, process, is_privileged) = key.clone();
        let owner = Owner { handle, process, is_privileged, state: None, busy: 0, files: HashMap::new() };
        self.owners.insert(number, owner);
        self.by_name.insert(key, number);
        number
    }

    fn remove(&mut self, owner: OwnerNumber) -> Option<Owner<F>> {
        let gone = self.owners.remove(&owner)?;
        self.by_name.remove(&(gone.handle.clone(), gone.process, gone.is_privileged));
        self.privileged -= usize::from(gone.is_privileged);
        Some(gone)
    }
}

#[cfg(test)]
mod tests;
