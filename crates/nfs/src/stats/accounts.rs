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
//! instructions for each request. There are at most [`ACCOUNTS_MAX`]; whoever comes later shares one that has no name.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tally_base::{DatasetId, Histogram, Keeper, Kept, LaneId, PoolGuid};

use super::kind::{KIND_COUNT, Kind};

/// Accounts that are kept, of about 14 KiB each.
pub const ACCOUNTS_MAX: usize = 2_048;

/// Steps of an account's histograms in each doubling: what is read is at most an eighth too large.
const STEPS: u64 = 8;

/// Whose account it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Payer {
    /// Where the requests come from; `None`: from all who came when there were [`ACCOUNTS_MAX`] accounts already.
    pub client: Option<IpAddr>,
    /// What they are about; `None`: nothing, or nothing that the client may see.
    pub dataset: Option<(PoolGuid, DatasetId)>,
}

/// One answered request.
#[derive(Clone, Copy, Debug)]
pub struct Paid {
    /// What was called.
    pub kind: Kind,
    /// Whether it answered `NFS3_OK`.
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

    /// One more.
    fn enter(&self, paid: &Paid) {
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
pub struct Newest(Mutex<Option<(Payer, Arc<Account>)>>);

/// All accounts.
#[derive(Debug, Default)]
pub struct Accounts {
    map: RwLock<HashMap<Payer, Arc<Account>>>,
}

impl Accounts {
    /// Enters an answered request. `newest` is the account that its connection has used last, and mostly the right one.
    pub fn enter(&self, newest: &Newest, payer: Payer, paid: &Paid) {
        let mut newest = newest.0.lock();
        match &mut *newest {
            Some((whose, account)) if *whose == payer => account.enter(paid),
            other => {
                let found = self.map.read().get(&payer).cloned();
                let (_, account) = other.insert((payer, found.unwrap_or_else(|| self.open(payer))));
                account.enter(paid);
            }
        }
    }

    /// Every account, in the order of payers.
    #[must_use]
    pub fn all(&self) -> Vec<(Payer, Arc<Account>)> {
        let map = self.map.read();
        let mut all: Vec<_> = map.iter().map(|(payer, account)| (*payer, Arc::clone(account))).collect();
        drop(map);
        all.sort_by_key(|(payer, _)| *payer);
        all
    }

    fn open(&self, payer: Payer) -> Arc<Account> {
        let mut map = self.map.write();
        let is_full = map.len() >= ACCOUNTS_MAX && !map.contains_key(&payer);
        let payer = if is_full { Payer::default() } else { payer };
        Arc::clone(map.entry(payer).or_default())
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
