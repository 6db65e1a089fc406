//! What somebody who watches the server is told at one moment. Counters only ever rise, so that two of these make an
//! interval. Like the other reports this is also what `--json` prints: a field is never renamed.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::holdings::HoldingCounts;
use super::report::{DatasetReport, OpsReport, PoolReport};
use super::spread::Spread;

/// Everything at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Seconds since the server started: what counters of calls are averaged over.
    pub uptime_seconds: f64,
    /// The pools.
    pub pools: Vec<PoolReport>,
    /// Their datasets; where not all are told, those that matter most.
    pub datasets: Vec<ObservedDataset>,
    /// How many there are.
    #[serde(default)]
    pub dataset_count: u64,
    /// What clients call.
    pub ops: OpsReport,
    /// How much they hold by NFSv4, where that is spoken.
    #[serde(default)]
    pub holdings: Option<HoldingCounts>,
    /// Who pays for it.
    pub accounts: Vec<AccountReport>,
}

/// A dataset, and how much of it a power cut would take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObservedDataset {
    /// As `tally dataset list` has it.
    #[serde(flatten)]
    pub dataset: DatasetReport,
    /// `standard`, `always` or `disabled`.
    pub sync: String,
    /// Acknowledged and not yet durable, bytes: only under `sync=disabled`.
    pub exposed_bytes: u64,
    /// Age of the oldest of them.
    pub exposed_seconds: f64,
}

/// What one client has asked of one dataset since the server started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountReport {
    /// No other account since the server's start had it; 0: it is not known.
    #[serde(default)]
    pub number: u64,
    /// The client's address; [`Self::OTHERS`] or [`Self::GONE`].
    pub client: String,
    /// The pool's name; empty where there is no dataset.
    pub pool: String,
    /// The dataset's name; `POOL/*` for any of a pool, `-` for calls about nothing, or about nothing that the client may
    /// see.
    pub dataset: String,
    /// The lane in which its newest commit was.
    pub lane: Option<u64>,
    /// By kind of call, those that there were.
    pub kinds: Vec<KindReport>,
    /// Requests that waited for the log.
    pub commits: u64,
    /// Those of them that appended up to 4 KiB, less than 32 KiB, and more.
    pub commits_by_size: [u64; 3],
    /// Requests that waited for a transaction group.
    pub group_waits: u64,
    /// Bytes of the records that they appended.
    pub record_bytes: u64,
    /// Their part of what was written to the log.
    pub frame_bytes: u64,
    /// Waits for a frame, of requests that waited for the log.
    pub slot: Spread,
    /// Their waits for the device.
    pub device: Spread,
    /// From there until the socket had the reply.
    pub reply: Spread,
}

/// Sums over one kind of call. The times of a request are parts that do not overlap: waiting for a worker, working,
/// waiting for a frame, for the device, or for a transaction group, and replying.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct KindReport {
    /// As RFC 1813 calls it, or `compound_modify` and `compound`.
    pub procedure: String,
    /// Of a WRITE: `UNSTABLE`, `DATA_SYNC` or `FILE_SYNC`.
    pub stable_how: Option<String>,
    pub calls: u64,
    /// Those that did not answer `NFS3_OK`.
    pub errors: u64,
    /// Bytes of file content.
    pub data_bytes: u64,
    pub queue_ns: u64,
    pub work_ns: u64,
    pub slot_ns: u64,
    pub device_ns: u64,
    pub group_ns: u64,
    pub reply_ns: u64,
}

impl KindReport {
    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> String {
        self.stable_how.as_ref().map_or_else(|| self.procedure.clone(), |how| format!("{} {how}", self.procedure))
    }

    /// All its time, nanoseconds.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.queue_ns + self.work_ns + self.reply_ns + self.wait_ns()
    }

    /// What it waited for stable storage, nanoseconds.
    #[must_use]
    pub fn wait_ns(&self) -> u64 {
        self.slot_ns + self.device_ns + self.group_ns
    }

    /// More of the same kind.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, u64::saturating_add);
    }

    /// Without what there was before.
    pub fn subtract(&mut self, before: &Self) {
        self.combine(before, u64::saturating_sub);
    }

    fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        let fields = [
            (&mut self.calls, other.calls),
            (&mut self.errors, other.errors),
            (&mut self.data_bytes, other.data_bytes),
            (&mut self.queue_ns, other.queue_ns),
            (&mut self.work_ns, other.work_ns),
            (&mut self.slot_ns, other.slot_ns),
            (&mut self.device_ns, other.device_ns),
            (&mut self.group_ns, other.group_ns),
            (&mut self.reply_ns, other.reply_ns),
        ];
        for (mine, other) in fields {
            *mine = with(*mine, other);
        }
    }

    /// Whether both are of one kind.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.procedure == other.procedure && self.stable_how == other.stable_how
    }
}

impl AccountReport {
    /// The client of those for whom there was no place, and of calls about nothing that their client may see.
    pub const OTHERS: &'static str = "*";
    /// The client of what accounts have counted that gave way to others.
    pub const GONE: &'static str = "(gone)";

    /// What both reports of one account have in common, and no other account.
    fn identity(&self) -> (u64, &str, &str) {
        if self.number > 0 { (self.number, "", "") } else { (0, &self.client, &self.dataset) }
    }

    /// Adds what another one has counted.
    fn absorb(&mut self, other: &Self) {
        for kind in &other.kinds {
            match self.kinds.iter_mut().find(|mine| mine.is_like(kind)) {
                Some(mine) => mine.add(kind),
                None => self.kinds.push(kind.clone()),
            }
        }
        self.commits += other.commits;
        self.commits_by_size.iter_mut().zip(other.commits_by_size).for_each(|(mine, other)| *mine += other);
        self.group_waits += other.group_waits;
        self.record_bytes += other.record_bytes;
        self.frame_bytes += other.frame_bytes;
        self.slot = self.slot.with(&other.slot);
        self.device = self.device.with(&other.device);
        self.reply = self.reply.with(&other.reply);
    }

    /// What has come since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let kinds = self.kinds.iter().map(|kind| {
            let mut kind = kind.clone();
            if let Some(old) = before.kinds.iter().find(|old| old.is_like(&kind)) {
                kind.subtract(old);
            }
            kind
        });
        let sizes = self.commits_by_size.iter().zip(before.commits_by_size);
        let mut commits_by_size = [0; 3];
        commits_by_size.iter_mut().zip(sizes).for_each(|(left, (now, old))| *left = now.saturating_sub(old));
        Self {
            client: self.client.clone(),
            pool: self.pool.clone(),
            dataset: self.dataset.clone(),
            number: self.number,
            lane: self.lane,
            kinds: kinds.filter(|kind| kind.calls > 0).collect(),
            commits: self.commits.saturating_sub(before.commits),
            commits_by_size,
            group_waits: self.group_waits.saturating_sub(before.group_waits),
            record_bytes: self.record_bytes.saturating_sub(before.record_bytes),
            frame_bytes: self.frame_bytes.saturating_sub(before.frame_bytes),
            slot: self.slot.since(&before.slot),
            device: self.device.since(&before.device),
            reply: self.reply.since(&before.reply),
        }
    }
}

impl Observation {
    /// The accounts as they have grown since `before`, those that have not left out. What an account had counted that gave
    /// way since has moved to its pool's [`AccountReport::GONE`]; it was there before, and is no growth.
    #[must_use]
    pub fn accounts_since(&self, before: Option<&Self>) -> Vec<AccountReport> {
        let Some(before) = before else { return self.accounts.clone() };
        let still: HashSet<_> = self.accounts.iter().map(AccountReport::identity).collect();
        let mut moved: HashMap<&str, AccountReport> = HashMap::new();
        for account in before.accounts.iter().filter(|account| !still.contains(&account.identity())) {
            moved.entry(&account.pool).or_default().absorb(account);
        }
        let old: HashMap<_, _> = before.accounts.iter().map(|account| (account.identity(), account)).collect();
        let grown = self.accounts.iter().map(|account| {
            let old = old.get(&account.identity()).copied();
            match moved.get_mut(account.pool.as_str()).filter(|_| account.client == AccountReport::GONE) {
                Some(moved) => {
                    old.into_iter().for_each(|old| moved.absorb(old));
                    account.since(moved)
                }
                None => old.map_or_else(|| account.clone(), |old| account.since(old)),
            }
        });
        grown.filter(|account| !account.kinds.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests;
