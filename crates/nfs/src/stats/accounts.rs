//! Who pays: an account for each client and dataset, of what was called and where its time went.
//!
//! A request's time, from its last byte read to its reply handed to the socket, falls into parts that do not overlap:
//!
//! ```text
//! | queue        | work     | slot              | device         | reply           |
//! | read         | begun    | done, its record  | its frame is   | durable         | sent
//! |              |          | waits for a frame | being written  |                 |
//! ```
//!
//! Where a transaction group keeps the promise, and not the log, *group* stands for slot and device. An account is
//! found where the connection has used it last, else in a map, and is written with plain atomics: some hundred
//! instructions for each request.
//!
//! **Addresses are a stranger's choice, so there are at most [`ACCOUNTS_MAX`] accounts of clients, and none is lost from
//! a sum.** Only who may see a dataset gets one; all calls about nothing share one. Who finds the house full is counted
//! with the others of the same pool. An account that nobody has used for [`IDLE_SECONDS`] gives way when its place is
//! wanted, and what it has counted moves to its pool's *gone* account: the sum over a pool's accounts is exact at any time
//! and never falls. Both kinds are apart, since graphs show the others by what is added, and what a client did hours
//! before must not look like load of now.
//!
//! Why not the newest for the longest unused at once: whoever comes from a hundred thousand addresses would throw out
//! everybody, and each of them would become a series of its own in whoever collects the metrics.
//!
//! A connection has its newest account by a weak reference, so that idle connections keep none. An account is closed by
//! taking the only strong reference apart, which fails while anybody counts in it or reads it: nothing is counted in
//! one that has been added up already.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tally_base::{DatasetId, Histogram, Keeper, Kept, LaneId, PoolGuid};

use super::kind::{KIND_COUNT, Kind};

/// Accounts of clients that are kept, of about 14 KiB each. There are two more for each pool, and one of nobody.
pub const ACCOUNTS_MAX: usize = 2_048;

/// For so long an account is unused before it gives way to another client. In an hour no more than thirteen times
/// [`ACCOUNTS_MAX`] are opened: so many series Prometheus may meet.
pub const IDLE_SECONDS: u64 = 300;

/// Most accounts that give way at once: looking for them takes the lock for as long as there are accounts, and shall not
/// be done again for each newcomer.
const GIVE_WAY_MAX: usize = ACCOUNTS_MAX / 8;

/// Steps of an account's histograms in each doubling: what is read is at most an eighth too large.
const STEPS: u64 = 8;

/// Whose account it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Payer {
    /// A client, about a dataset that it may see.
    Client {
        /// Where the requests come from.
        address: IpAddr,
        /// Dataset ids are unique within it alone.
        pool: PoolGuid,
        /// What they are about.
        dataset: DatasetId,
    },
    /// All clients for whom there was no place, about any dataset of this pool.
    Others(PoolGuid),
    /// What accounts have counted that gave way, about any dataset of this pool.
    Gone(PoolGuid),
    /// Everybody, about nothing, or about nothing that they may see.
    Nobody,
}

impl Payer {
    /// Where it counts that has no place of its own.
    const fn without_place(self) -> Self {
        match self {
            Self::Client { pool, .. } => Self::Others(pool),
            Self::Others(_) | Self::Gone(_) | Self::Nobody => self,
        }
    }

    const fn is_client(self) -> bool {
        matches!(self, Self::Client { .. })
    }
}

/// What one answered request took, for the account of who sent it.
#[derive(Clone, Copy, Debug)]
pub struct Paid {
    /// The procedure, WRITE by stability, compounds by whether they change something.
    pub kind: Kind,
    /// Whether it answered `NFS3_OK`, or `NFS4_OK`.
    pub ok: bool,
    /// Bytes of file content that it brought or took.
    pub data_bytes: u64,
    /// Until a worker began with it (for the last time).
    pub queue: Duration,
    /// Until its outcome was there.
    pub work: Duration,
    /// Until that could be relied on.
    pub wait: Duration,
    /// Why it then could.
    pub kept: Kept,
    /// Until the socket had the reply.
    pub reply: Duration,
}

/// Sums over the requests of one kind. Times are nanoseconds.
#[derive(Debug, Default)]
#[allow(missing_docs)] // As in [`Paid`], and in the picture above.
pub struct Sums {
    pub calls: AtomicU64,
    pub errors: AtomicU64,
    pub data_bytes: AtomicU64,
    pub queue_ns: AtomicU64,
    pub work_ns: AtomicU64,
    pub slot_ns: AtomicU64,
    pub device_ns: AtomicU64,
    pub group_ns: AtomicU64,
    pub reply_ns: AtomicU64,
}

impl Sums {
    fn absorb(&self, other: &Self) {
        let sums = [
            (&self.calls, &other.calls),
            (&self.errors, &other.errors),
            (&self.data_bytes, &other.data_bytes),
            (&self.queue_ns, &other.queue_ns),
            (&self.work_ns, &other.work_ns),
            (&self.slot_ns, &other.slot_ns),
            (&self.device_ns, &other.device_ns),
            (&self.group_ns, &other.group_ns),
            (&self.reply_ns, &other.reply_ns),
        ];
        sums.into_iter().for_each(|(mine, other)| add(mine, other.load(Relaxed)));
    }
}

/// What one payer has asked for.
#[derive(Debug, Default)]
pub struct Account {
    kinds: [Sums; KIND_COUNT],
    /// Requests that waited for the log.
    pub commits: AtomicU64,
    /// Those of them that appended up to 4 KiB, less than 32 KiB, and more.
    pub commits_by_size: [AtomicU64; 3],
    /// Requests that waited for a transaction group.
    pub group_waits: AtomicU64,
    /// Bytes of the records that they appended.
    pub record_bytes: AtomicU64,
    /// Their part of what was written to the log.
    pub frame_bytes: AtomicU64,
    /// Waits for a frame, of those that waited for the log.
    pub slot: Histogram<STEPS>,
    /// Waits for the device.
    pub device: Histogram<STEPS>,
    /// From there to the socket.
    pub reply: Histogram<STEPS>,
    /// The lane of the newest commit, plus one; 0: there was none.
    lane: AtomicU64,
    /// No other account of this process has it.
    number: u64,
    /// The second in which it was used last.
    used: AtomicU64,
}

impl Account {
    /// The sums of one kind.
    #[must_use]
    pub fn kind(&self, kind: Kind) -> &Sums {
        &self.kinds[kind.index()]
    }

    /// The lane in which its newest commit was.
    #[must_use]
    pub fn lane(&self) -> Option<LaneId> {
        self.lane.load(Relaxed).checked_sub(1).map(LaneId)
    }

    /// Its number, by which two reports tell whether an account is still the same.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    fn enter(&self, paid: &Paid, second: u64) {
        if self.used.load(Relaxed) != second {
            self.used.store(second, Relaxed);
        }
        let sums = self.kind(paid.kind);
        add(&sums.calls, 1);
        if !paid.ok {
            add(&sums.errors, 1);
        }
        add(&sums.data_bytes, paid.data_bytes);
        add_time(&sums.queue_ns, paid.queue);
        add_time(&sums.work_ns, paid.work);
        add_time(&sums.reply_ns, paid.reply);
        match paid.kept.by {
            Keeper::Nobody => {}
            Keeper::Group => {
                add(&self.group_waits, 1);
                add_time(&sums.group_ns, paid.wait);
            }
            Keeper::Log(lane) => self.enter_commit(sums, paid, lane),
        }
    }

    /// Adds what another one has counted, which counts nothing any more.
    fn absorb(&self, other: &Self) {
        for (mine, other) in self.kinds.iter().zip(&other.kinds) {
            mine.absorb(other);
        }
        let sizes = self.commits_by_size.iter().zip(&other.commits_by_size);
        let counts = [
            (&self.commits, &other.commits),
            (&self.group_waits, &other.group_waits),
            (&self.record_bytes, &other.record_bytes),
            (&self.frame_bytes, &other.frame_bytes),
        ];
        sizes.chain(counts).for_each(|(mine, other)| add(mine, other.load(Relaxed)));
        self.slot.absorb(&other.slot);
        self.device.absorb(&other.device);
        self.reply.absorb(&other.reply);
    }

    fn enter_commit(&self, sums: &Sums, paid: &Paid, lane: LaneId) {
        // The device may have begun before this request did: another's frame was under way.
        let device = paid.kept.device.min(paid.wait);
        let slot = paid.wait - device;
        add_time(&sums.slot_ns, slot);
        add_time(&sums.device_ns, device);
        self.slot.record(slot);
        self.device.record(device);
        self.reply.record(paid.reply);
        add(&self.commits, 1);
        let size = match paid.kept.record_bytes {
            0..=4_096 => 0,
            4_097..32_768 => 1,
            _ => 2,
        };
        add(&self.commits_by_size[size], 1);
        add(&self.record_bytes, paid.kept.record_bytes);
        add(&self.frame_bytes, paid.kept.frame_bytes);
        self.lane.store(lane.0 + 1, Relaxed);
    }
}

/// The account that a connection has used last: clients mostly work in one dataset for a while.
#[derive(Debug, Default)]
pub struct Newest(Mutex<Option<(Payer, Weak<Account>)>>);

/// All accounts.
#[derive(Debug, Default)]
pub struct Accounts {
    house: RwLock<House>,
    /// Until this second nobody gives way: so long newcomers need not look.
    full_until: AtomicU64,
}

#[derive(Debug, Default)]
struct House {
    by_payer: HashMap<Payer, Arc<Account>>,
    /// Those of clients.
    client_count: usize,
    /// Accounts that were opened.
    opened: u64,
}

impl Accounts {
    /// Enters a request that was answered in this second of the server's life. `newest` is the account that its
    /// connection has used last, and mostly the right one.
    pub fn enter(&self, newest: &Newest, payer: Payer, paid: &Paid, second: u64) {
        let mut newest = newest.0.lock();
        if let Some((whose, account)) = &*newest
            && *whose == payer
            && let Some(account) = account.upgrade()
        {
            return account.enter(paid, second);
        }
        let (whose, account) = self.account(payer, second);
        account.enter(paid, second);
        // Who has no place yet asks again, with every request.
        *newest = (whose == payer).then(|| (payer, Arc::downgrade(&account)));
    }

    /// Every account, in the order of payers. None of them is closed as long as this is kept.
    #[must_use]
    pub fn all(&self) -> Vec<(Payer, Arc<Account>)> {
        let house = self.house.read();
        let mut all: Vec<_> = house.by_payer.iter().map(|(payer, account)| (*payer, Arc::clone(account))).collect();
        drop(house);
        all.sort_by_key(|(payer, _)| *payer);
        all
    }

    /// The account of a payer, or the one in which it counts without a place.
    fn account(&self, payer: Payer, second: u64) -> (Payer, Arc<Account>) {
        let find = |house: &House, payer| house.by_payer.get(&payer).map(|found| (payer, Arc::clone(found)));
        let is_full = || second < self.full_until.load(Relaxed);
        let house = self.house.read();
        let found = find(&house, payer).or_else(|| is_full().then(|| find(&house, payer.without_place())).flatten());
        drop(house);
        found.unwrap_or_else(|| {
            let mut house = self.house.write();
            let has_place = house.by_payer.contains_key(&payer) || !payer.is_client() || {
                let free_from = house.make_room(second);
                self.full_until.store(free_from, Relaxed);
                free_from <= second
            };
            let payer = if has_place { payer } else { payer.without_place() };
            (payer, house.open(payer))
        })
    }
}

impl House {
    fn open(&mut self, payer: Payer) -> Arc<Account> {
        if let Some(found) = self.by_payer.get(&payer) {
            return Arc::clone(found);
        }
        self.opened += 1;
        self.client_count += usize::from(payer.is_client());
        let account = Arc::new(Account { number: self.opened, ..Account::default() });
        self.by_payer.insert(payer, Arc::clone(&account));
        account
    }

    /// Sees to it that there is room for one more client, if that is possible. Gives the second from which on there is.
    fn make_room(&mut self, second: u64) -> u64 {
        if self.client_count < ACCOUNTS_MAX {
            return second;
        }
        let clients = self.by_payer.iter().filter(|(payer, _)| payer.is_client());
        let mut idle: Vec<_> = clients.map(|(payer, account)| (account.used.load(Relaxed), *payer)).collect();
        idle.sort_unstable();
        let until = idle.first().map_or(0, |(used, _)| used + IDLE_SECONDS);
        idle.retain(|(used, _)| used + IDLE_SECONDS <= second);
        idle.iter().take(GIVE_WAY_MAX).for_each(|(_, payer)| self.close(*payer));
        if self.client_count < ACCOUNTS_MAX { second } else { until.max(second + 1) }
    }

    /// Moves what a client's account has counted, unless it is in use.
    fn close(&mut self, payer: Payer) {
        let Payer::Client { pool, .. } = payer else { return };
        let Some(account) = self.by_payer.remove(&payer) else { return };
        match Arc::try_unwrap(account) {
            Ok(account) => {
                self.client_count -= 1;
                self.open(Payer::Gone(pool)).absorb(&account);
            }
            Err(in_use) => drop(self.by_payer.insert(payer, in_use)),
        }
    }
}

fn add(sum: &AtomicU64, more: u64) {
    sum.fetch_add(more, Relaxed);
}

fn add_time(sum: &AtomicU64, more: Duration) {
    add(sum, u64::try_from(more.as_nanos()).unwrap_or(u64::MAX));
}

#[cfg(test)]
mod tests;
