//! One interval of the server's life, small enough that half an hour of them is kept.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::control::observation::{AccountReport, KindReport, Observation};
use crate::control::report::PoolReport;
use crate::control::spread::Spread;

/// Lanes that a sample has room for; a machine with more log devices shows the first ones.
const LANES_MAX: usize = 16;
/// Clients and datasets that a sample has room for, those that waited longest.
const BUSY_MAX: usize = 32;

/// The difference of two observations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(in crate::daemon) struct Sample {
    /// Its number, from 0.
    pub(in crate::daemon) number: u64,
    /// When it ended, milliseconds since 1970-01-01 UTC.
    pub(in crate::daemon) unix_ms: u64,
    /// How long it was.
    pub(in crate::daemon) seconds: f64,
    pub(in crate::daemon) calls: u64,
    /// Requests that waited for the log.
    pub(in crate::daemon) commits: u64,
    pub(in crate::daemon) read_bytes: u64,
    pub(in crate::daemon) written_bytes: u64,
    pub(in crate::daemon) frames: u64,
    pub(in crate::daemon) log_bytes: u64,
    /// At the sample's end, as it rises and falls within it.
    pub(in crate::daemon) dirty_bytes: u64,
    /// At the sample's end; above zero under `sync=disabled` alone.
    pub(in crate::daemon) exposed_bytes: u64,
    /// Modifying requests, from their last byte read to their reply sent.
    pub(in crate::daemon) request: Times,
    /// Waits for a frame.
    pub(in crate::daemon) slot: Times,
    /// Waits for the log's device.
    pub(in crate::daemon) device: Times,
    pub(in crate::daemon) lanes: Vec<LaneSample>,
    /// Kept by the newest samples only.
    #[serde(skip)]
    pub(in crate::daemon) busy: Vec<Busy>,
}

/// A distribution in coarse steps, with two exact points of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::daemon) struct Times {
    /// Counts by the steps of `bucket_ns`.
    pub(in crate::daemon) counts: Vec<u32>,
    pub(in crate::daemon) p50_ns: u64,
    pub(in crate::daemon) p99_ns: u64,
}

/// A lane of the intent log in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::daemon) struct LaneSample {
    pub(in crate::daemon) pool: String,
    pub(in crate::daemon) lane: u64,
    /// Bytes that may not be overwritten, at the interval's end.
    pub(in crate::daemon) used: u64,
    pub(in crate::daemon) frames: u64,
    pub(in crate::daemon) bytes: u64,
    pub(in crate::daemon) p50_ns: u64,
    pub(in crate::daemon) p99_ns: u64,
}

/// What one client has asked of one dataset in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::daemon) struct Busy {
    pub(in crate::daemon) client: String,
    pub(in crate::daemon) dataset: String,
    pub(in crate::daemon) calls: u64,
    pub(in crate::daemon) errors: u64,
    pub(in crate::daemon) data_bytes: u64,
    pub(in crate::daemon) commits: u64,
    pub(in crate::daemon) frame_bytes: u64,
    /// All the time of its requests.
    pub(in crate::daemon) time_ns: u64,
    /// What they waited for stable storage.
    pub(in crate::daemon) wait_ns: u64,
}

impl Sample {
    /// What has come between two observations, the newer one being of now.
    pub(in crate::daemon) fn between(before: &Observation, now: &Observation) -> Self {
        let grown = now.accounts_since(Some(before));
        let spread = |of: fn(&AccountReport) -> &Spread| {
            Times::of(&grown.iter().fold(Spread::default(), |sum, account| sum.with(of(account))))
        };
        let lanes: Vec<_> = now.pools.iter().flat_map(|pool| lanes(pool, before)).take(LANES_MAX).collect();
        Self {
            number: 0,
            unix_ms: unix_ms(SystemTime::now()),
            seconds: (now.uptime_seconds - before.uptime_seconds).max(0.001),
            calls: calls(now).saturating_sub(calls(before)),
            commits: grown.iter().map(|account| account.commits).sum(),
            read_bytes: data_bytes(now, "read").saturating_sub(data_bytes(before, "read")),
            written_bytes: data_bytes(now, "write").saturating_sub(data_bytes(before, "write")),
            frames: lanes.iter().map(|lane| lane.frames).sum(),
            log_bytes: lanes.iter().map(|lane| lane.bytes).sum(),
            dirty_bytes: now.pools.iter().map(|pool| pool.dirty_bytes).sum(),
            exposed_bytes: now.pools.iter().map(|pool| pool.exposure.bytes).sum(),
            request: Times::of(&now.ops.whole_times.since(&before.ops.whole_times)),
            slot: spread(|account| &account.slot),
            device: spread(|account| &account.device),
            lanes,
            busy: busy(grown.iter().map(Busy::of).collect()),
        }
    }
}

/// Milliseconds since 1970-01-01 UTC.
pub(in crate::daemon) fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn calls(seen: &Observation) -> u64 {
    seen.ops.procedures.iter().map(|op| op.calls).sum()
}

/// Of the procedure and of the operation of this name.
fn data_bytes(seen: &Observation, name: &str) -> u64 {
    let all = seen.ops.procedures.iter().chain(&seen.ops.operations);
    all.filter(|op| op.procedure.eq_ignore_ascii_case(name)).map(|op| op.data_bytes).sum()
}

fn lanes<'a>(pool: &'a PoolReport, before: &'a Observation) -> impl Iterator<Item = LaneSample> + 'a {
    let old_pool = before.pools.iter().find(|old| old.guid == pool.guid);
    pool.lanes.iter().map(move |lane| {
        let old = old_pool.and_then(|pool| pool.lanes.iter().find(|old| old.lane == lane.lane));
        let times = old.map_or_else(|| lane.write.clone(), |old| lane.write.since(&old.write)).quantiles();
        LaneSample {
            pool: pool.name.clone(),
            lane: lane.lane,
            used: lane.used,
            frames: lane.frames.saturating_sub(old.map_or(0, |old| old.frames)),
            bytes: lane.bytes.saturating_sub(old.map_or(0, |old| old.bytes)),
            p50_ns: times.p50_ns,
            p99_ns: times.p99_ns,
        }
    })
}

impl Times {
    fn of(spread: &Spread) -> Self {
        let quantiles = spread.quantiles();
        let counts = spread.doublings().map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        Self { counts: counts.into(), p50_ns: quantiles.p50_ns, p99_ns: quantiles.p99_ns }
    }
}

impl Busy {
    fn of(account: &AccountReport) -> Self {
        let sum = account.kinds.iter().fold(KindReport::default(), |mut sum, kind| {
            sum.add(kind);
            sum
        });
        Self {
            client: account.client.clone(),
            dataset: account.dataset.clone(),
            calls: sum.calls,
            errors: sum.errors,
            data_bytes: sum.data_bytes,
            commits: account.commits,
            frame_bytes: account.frame_bytes,
            time_ns: sum.time_ns(),
            wait_ns: sum.wait_ns(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.data_bytes += other.data_bytes;
        self.commits += other.commits;
        self.frame_bytes += other.frame_bytes;
        self.time_ns += other.time_ns;
        self.wait_ns += other.wait_ns;
    }
}

/// Adds up those of the same client and dataset, and keeps those that waited longest, the first of them first.
pub(in crate::daemon) fn busy(all: Vec<Busy>) -> Vec<Busy> {
    let mut sums: Vec<Busy> = Vec::new();
    for one in all {
        match sums.iter_mut().find(|sum| sum.client == one.client && sum.dataset == one.dataset) {
            Some(sum) => sum.add(&one),
            None => sums.push(one),
        }
    }
    sums.sort_by(|a, b| (b.wait_ns, b.calls, &a.client).cmp(&(a.wait_ns, a.calls, &b.client)));
    sums.truncate(BUSY_MAX);
    sums
}
