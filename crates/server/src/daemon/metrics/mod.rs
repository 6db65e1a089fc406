//! An observation as Prometheus' metrics. docs/monitoring.md has them all; a test keeps the two equal.
//!
//! Cardinality has bounds. Clients and datasets come in pairs, of which the server counts 2,048 apart and all others of a
//! pool together as `*`; a pair gives way to another one after five minutes without a call, so that also in an hour no more
//! than thirteen times as many are met. Lanes and vdevs are as many as there are disks. Distributions are not told for each client, as each
//! of them is two dozen series.

mod own_process;
mod text;

use crate::control::holdings::HoldingCounts;
use crate::control::observation::{AccountReport, KindReport, Observation, ObservedDataset};
use crate::control::report::{CacheReport, LaneReport, OpReport, PoolReport, PrefetchReport, VdevReport};
use crate::control::spread::Spread;
use own_process::Usage;
pub(super) use text::CONTENT_TYPE;
use text::{Exposition, Family};

const POOL_STATES: [&str; 4] = ["ONLINE", "DEGRADED", "SUSPENDED", PoolReport::UNAVAILABLE];
const VDEV_STATES: [&str; 8] = ["ONLINE", "RESILVERING", "JOINING", "NOLOG", "STALE", "OFFLINE", "MISSING", "FAULTED"];
const SYNC_MODES: [&str; 3] = ["standard", "always", "disabled"];

/// The whole text. The process was started at `start`, seconds since 1970-01-01 UTC.
pub(super) fn render(seen: &Observation, datasets: &[ObservedDataset], start: f64) -> String {
    let mut text = Exposition::default();
    let version = env!("CARGO_PKG_VERSION");
    text.gauge("tally_build_info", "Always 1; the version is in the label.").sample(&[("version", version)], 1);
    calls(&mut text, seen);
    held(&mut text, seen.holdings.as_ref());
    in_grace(&mut text, seen.holdings.as_ref());
    clients(&mut text, &seen.accounts);
    phases(&mut text, seen);
    pools(&mut text, &seen.pools);
    caches(&mut text, &seen.pools);
    prefetch(&mut text, &seen.pools);
    groups(&mut text, &seen.pools);
    log(&mut text, &seen.pools);
    vdevs(&mut text, &seen.pools);
    of_datasets(&mut text, datasets);
    process(&mut text, &Usage::now(), start);
    text.into_text()
}

fn calls(text: &mut Exposition, seen: &Observation) {
    let ops = &seen.ops;
    let mut family =
        text.counter("tally_nfs_requests_total", "Calls of NFSv3, and compounds of version 4, that were carried out.");
    for op in &ops.procedures {
        let how = op.stable_how.as_deref().unwrap_or_default();
        family.sample(&[("procedure", &op.procedure), ("stable_how", how)], op.calls);
    }
    let mut family = text.counter("tally_nfs_request_errors_total", "Those that did not answer NFS3_OK or NFS4_OK.");
    for op in &ops.procedures {
        let how = op.stable_how.as_deref().unwrap_or_default();
        family.sample(&[("procedure", &op.procedure), ("stable_how", how)], op.errors);
    }
    operations(text, &ops.operations);
    text.histogram(
        "tally_nfs_request_duration_seconds",
        "Modifying requests, from their last byte read to their reply handed to the socket.",
    )
    .spread(&[], &ops.whole_times);
    text.gauge("tally_nfs_connections", "Connections of clients that are open.").sample(&[], ops.connections);
    let why = "Connections closed: they held too much, for too long, or a place that others needed.";
    text.counter("tally_nfs_connections_dismissed_total", why).sample(&[], ops.connections_dismissed);
    text.counter("tally_nfs_connections_refused_total", "Connections refused: there were too many, and none could go.")
        .sample(&[], ops.connections_refused);
    text.counter("tally_nfs_panics_total", "Operations that ended in a bug of the server, answered with an error.")
        .sample(&[], ops.panics);
    let mut held = text.gauge("tally_nfs_held_bytes", "Memory of requests, and of what waits for clients.");
    held.sample(&[("what", "work")], ops.work_bytes);
    held.sample(&[("what", "debt")], ops.debt_bytes);
    text.counter("tally_nfs_refused_total", "Calls of unknown programs or procedures, garbage, and bad credentials.")
        .sample(&[], ops.refused);
    text.counter("tally_nfs_retransmissions_total", "Retransmitted requests that were answered from memory.")
        .sample(&[], ops.retransmissions);
    text.counter("tally_nfs4_calls_made_total", "Calls that were made to clients of NFSv4.")
        .sample(&[], ops.calls_made);
    text.counter("tally_nfs4_replies_unmatched_total", "Replies to no call that was made on their connection.")
        .sample(&[], ops.replies_unmatched);
    text.counter("tally_nfs_throttled_total", "Requests that were run again because too much was not in the pool yet.")
        .sample(&[], ops.throttled);
}

/// A metric of an operation: its name, what it means, and how it is read.
type OperationMetric = (&'static str, &'static str, fn(&OpReport) -> u64);

const OF_OPERATIONS: [OperationMetric; 4] = [
    ("tally_nfs4_operations_total", "Operations of compounds that were carried out.", |op| op.calls),
    ("tally_nfs4_operation_errors_total", "Those that did not answer NFS4_OK.", |op| op.errors),
    ("tally_nfs4_operation_waits_total", "Those whose compound waited for them to be durable.", |op| op.wait.count),
    ("tally_nfs4_operation_data_bytes_total", "Bytes of file content that they read and wrote.", |op| op.data_bytes),
];

fn operations(text: &mut Exposition, operations: &[OpReport]) {
    for (name, help, of) in OF_OPERATIONS {
        let mut family = text.counter(name, help);
        operations.iter().for_each(|op| family.sample(&[("operation", &op.procedure)], of(op)));
    }
}

/// What clients hold by NFSv4; nothing where that is not spoken.
fn held(text: &mut Exposition, holdings: Option<&HoldingCounts>) {
    let mut clients = text.gauge(
        "tally_nfs4_clients",
        "Clients of NFSv4, by whether their lease runs or they keep what they have by courtesy.",
    );
    if let Some(held) = holdings {
        clients.sample(&[("state", "active")], held.clients.saturating_sub(held.courtesy));
        clients.sample(&[("state", "courtesy")], held.courtesy);
    }
    for (name, help, of) in OF_HOLDINGS {
        let mut family = text.gauge(name, help);
        holdings.into_iter().for_each(|held| family.sample(&[], of(held)));
    }
    for (name, help, of) in OF_DELEGATIONS {
        let mut family = text.counter(name, help);
        holdings.into_iter().for_each(|held| family.sample(&[], of(held)));
    }
}

/// Pools whose clients may claim again what they had, with how many have not come.
fn in_grace(text: &mut Exposition, holdings: Option<&HoldingCounts>) {
    let graces = holdings.map_or(&[][..], |held| &held.graces);
    let mut waited_for = text.gauge(
        "tally_nfs4_grace_clients",
        "Clients that are waited for, as they had something open before this start: no pool but those in their grace.",
    );
    graces.iter().for_each(|it| waited_for.sample(&[("pool", &it.pool)], it.clients.saturating_sub(it.came)));
    let mut left = text.gauge("tally_nfs4_grace_seconds", "How long they are waited for, if nobody claims anything.");
    graces.iter().for_each(|it| left.sample(&[("pool", &it.pool)], it.seconds_left));
}

/// A metric of what is held: its name, what it means, and how it is read.
type HoldingMetric = (&'static str, &'static str, fn(&HoldingCounts) -> u64);

const OF_HOLDINGS: [HoldingMetric; 4] = [
    ("tally_nfs4_sessions", "Sessions of clients of NFSv4.", |held| held.sessions),
    ("tally_nfs4_opens", "Files that clients of NFSv4 have open, by owner.", |held| held.opens),
    ("tally_nfs4_locks", "Files that clients of NFSv4 have locked ranges of, by owner.", |held| held.locks),
    ("tally_nfs4_delegations", "Files that clients of NFSv4 were given to keep.", |held| held.delegations),
];

const OF_DELEGATIONS: [HoldingMetric; 4] = [
    ("tally_nfs4_delegations_granted_total", "Files that were given to a client of NFSv4 to keep.", |held| {
        held.delegations_since.granted
    }),
    (
        "tally_nfs4_delegations_recalled_total",
        "Of these, those that were asked for as somebody was kept out.",
        |held| held.delegations_since.recalled,
    ),
    ("tally_nfs4_delegations_returned_total", "Those that were given back.", |held| held.delegations_since.returned),
    ("tally_nfs4_delegations_revoked_total", "Those that were taken, as they were not given back.", |held| {
        held.delegations_since.revoked
    }),
];

/// A metric of an account: its name, what it means, and how it is read.
type AccountMetric = (&'static str, &'static str, fn(&AccountReport) -> u64);

const OF_ACCOUNTS: [AccountMetric; 5] = [
    ("tally_client_requests_total", "Calls of NFSv3, and compounds, by client and dataset.", |account| {
        account.kinds.iter().map(|kind| kind.calls).sum()
    }),
    ("tally_client_errors_total", "Those that did not answer NFS3_OK or NFS4_OK, by client and dataset.", |account| {
        account.kinds.iter().map(|kind| kind.errors).sum()
    }),
    ("tally_client_data_bytes_total", "Bytes of file content read and written, by client and dataset.", |account| {
        account.kinds.iter().map(|kind| kind.data_bytes).sum()
    }),
    ("tally_client_commits_total", "Requests that waited for the intent log, by client and dataset.", |account| {
        account.commits
    }),
    (
        "tally_client_log_bytes_total",
        "Part of the bytes written to the intent log, by client and dataset.",
        |account| account.frame_bytes,
    ),
];

fn clients(text: &mut Exposition, accounts: &[AccountReport]) {
    // Whoever is gone was told of while he was there: told again under another name it would be load of now.
    let accounts: Vec<&AccountReport> =
        accounts.iter().filter(|account| account.client != AccountReport::GONE).collect();
    let accounts = accounts.as_slice();
    for (name, help, of) in OF_ACCOUNTS {
        let mut family = text.counter(name, help);
        for account in accounts {
            family.sample(&[("client", &account.client), ("dataset", &account.dataset)], of(account));
        }
    }
    times(
        text.counter(
            "tally_client_wait_seconds_total",
            "Time that requests waited for stable storage: for a frame (slot), the log's device, or a transaction group.",
        ),
        accounts,
        [("slot", |kind| kind.slot_ns), ("device", |kind| kind.device_ns), ("group", |kind| kind.group_ns)],
    );
    times(
        text.counter(
            "tally_client_work_seconds_total",
            "Time of requests that was not waiting for stable storage: for a worker (queue), working, or replying.",
        ),
        accounts,
        [("queue", |kind| kind.queue_ns), ("work", |kind| kind.work_ns), ("reply", |kind| kind.reply_ns)],
    );
}

/// A part of a request's time: its name, and how it is read.
type Phase = (&'static str, fn(&KindReport) -> u64);

fn times(mut family: Family<'_>, accounts: &[&AccountReport], phases: [Phase; 3]) {
    for account in accounts {
        for (phase, of) in phases {
            let ns = account.kinds.iter().map(of).sum();
            family.seconds(&[("client", &account.client), ("dataset", &account.dataset), ("phase", phase)], ns);
        }
    }
}

/// Where a durable request waits, for all clients of a pool together.
fn phases(text: &mut Exposition, seen: &Observation) {
    let mut family = text.histogram(
        "tally_commit_wait_duration_seconds",
        "Durable requests: their wait for a frame (slot), for the log's device, and until the socket had the reply.",
    );
    for pool in seen.pools.iter().filter(|pool| pool.is_imported()) {
        let of_pool = || seen.accounts.iter().filter(|account| account.pool == pool.name);
        let sum = |of: fn(&AccountReport) -> &Spread| of_pool().fold(Spread::default(), |sum, one| sum.with(of(one)));
        let phases: [(&str, Spread); 3] =
            [("slot", sum(|one| &one.slot)), ("device", sum(|one| &one.device)), ("reply", sum(|one| &one.reply))];
        for (phase, spread) in &phases {
            family.spread(&[("pool", &pool.name), ("phase", phase)], spread);
        }
    }
}

/// A gauge of a pool.
type PoolMetric = (&'static str, &'static str, fn(&PoolReport) -> f64);

#[allow(clippy::cast_precision_loss)] // Prometheus' values are floats.
const OF_POOLS: [PoolMetric; 14] = [
    ("tally_pool_size_bytes", "Bytes that the pool has in all.", |pool| pool.size as f64),
    ("tally_pool_allocated_bytes", "Bytes of the pool that are taken.", |pool| pool.allocated as f64),
    ("tally_pool_free_bytes", "Bytes of the pool that are free.", |pool| pool.free as f64),
    ("tally_pool_dirty_bytes", "Bytes changed in memory and not in the pool yet.", |pool| pool.dirty_bytes as f64),
    ("tally_pool_dirty_limit_bytes", "Dirty bytes at which clients wait.", |pool| pool.dirty_bytes_max as f64),
    ("tally_pool_ahead_bytes", "Bytes of data that no transaction group has written yet.", |pool| {
        pool.ahead_bytes as f64
    }),
    ("tally_pool_ahead_limit_bytes", "Such bytes near which WRITEs wait until some are written, for now.", |pool| {
        pool.ahead_bytes_max as f64
    }),
    ("tally_pool_ahead_waiting", "WRITEs that wait for that.", |pool| pool.ahead_waiting as f64),
    ("tally_pool_patch_bytes", "Bytes of blocks written in part, which the open group has to write whole.", |pool| {
        pool.patch_bytes as f64
    }),
    ("tally_pool_patch_limit_bytes", "Such bytes at which clients that bring them wait, for now.", |pool| {
        pool.patch_bytes_max as f64
    }),
    ("tally_cache_limit_bytes", "The most that the block cache may hold.", |pool| pool.cache_bytes_max as f64),
    ("tally_pool_exposed_bytes", "Bytes acknowledged and not durable: a power cut would take them.", |pool| {
        pool.exposure.bytes as f64
    }),
    ("tally_pool_exposed_seconds", "Age of the oldest byte that is acknowledged and not durable.", |pool| {
        pool.exposure.seconds
    }),
    ("tally_pool_messages", "Sentences that `tally pool status` has for a person: 0 in a healthy pool.", |pool| {
        pool.messages.len() as f64
    }),
];

fn pools(text: &mut Exposition, pools: &[PoolReport]) {
    let mut family = text.gauge("tally_pool_state", "1 for the state that the pool is in, 0 for the others.");
    for pool in pools {
        // One that is missed and one that is there may have the same name.
        family.one_of(&[("pool", &pool.name), ("guid", &pool.guid)], "state", &POOL_STATES, &pool.state);
    }
    for (name, help, of) in OF_POOLS {
        let mut family = text.gauge(name, help);
        // Of a pool that is not imported nothing is known.
        for pool in pools.iter().filter(|pool| pool.is_imported()) {
            family.sample(&[("pool", &pool.name)], of(pool));
        }
    }
}

/// A metric of a kind of block in the cache: whether it only rises, its name, what it means, and how it is read.
type CacheMetric = (bool, &'static str, &'static str, fn(&CacheReport) -> u64);

const OF_CACHES: [CacheMetric; 3] = [
    (false, "tally_cache_bytes", "Bytes in the block cache, by kind of block.", |cache| cache.bytes),
    (true, "tally_cache_hits_total", "Blocks that were read and found in the cache.", |cache| cache.hits),
    (true, "tally_cache_misses_total", "Blocks that were read from a disk.", |cache| cache.misses),
];

fn caches(text: &mut Exposition, pools: &[PoolReport]) {
    for (rises, name, help, of) in OF_CACHES {
        let mut family = if rises { text.counter(name, help) } else { text.gauge(name, help) };
        for pool in pools {
            for cache in &pool.cache {
                family.sample(&[("pool", &pool.name), ("kind", &cache.kind)], of(cache));
            }
        }
    }
}

/// A metric of what was fetched ahead: its name, what it means, and how it is read.
type PrefetchMetric = (&'static str, &'static str, fn(&PrefetchReport) -> u64);

const OF_PREFETCH: [PrefetchMetric; 4] = [
    ("tally_prefetch_hits_total", "Blocks of files that were fetched ahead, and that a reader found.", |of| of.hits),
    ("tally_prefetch_misses_total", "Blocks of files that a reader had to read from a disk.", |of| of.misses),
    ("tally_prefetch_bytes_total", "Bytes of content fetched ahead of readers.", |of| of.bytes),
    ("tally_prefetch_unread_bytes_total", "Of these, bytes that left the cache before a reader came.", |of| {
        of.unread_bytes
    }),
];

fn prefetch(text: &mut Exposition, pools: &[PoolReport]) {
    for (name, help, of) in OF_PREFETCH {
        let mut family = text.counter(name, help);
        for pool in pools.iter().filter(|pool| pool.is_imported()) {
            family.sample(&[("pool", &pool.name)], of(&pool.prefetch));
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn groups(text: &mut Exposition, pools: &[PoolReport]) {
    let mut family = text.gauge("tally_txg_synced", "Number of the newest transaction group on disk.");
    for pool in pools.iter().filter(|pool| pool.is_imported()) {
        family.sample(&[("pool", &pool.name)], pool.txg);
    }
    let mut family = text.counter("tally_txg_total", "Transaction groups that were closed, by who asked first.");
    for pool in pools {
        for (cause, count) in &pool.txg_causes {
            family.sample(&[("pool", &pool.name), ("cause", cause)], *count);
        }
    }
    let newest = || pools.iter().filter_map(|pool| Some((&pool.name, pool.txgs.last()?)));
    let mut family =
        text.gauge("tally_txg_phase_seconds", "How long the newest synced transaction group was in each phase.");
    for (pool, group) in newest() {
        let phases =
            [("open", group.open_seconds), ("quiescing", group.quiescing_seconds), ("syncing", group.syncing_seconds)];
        for (phase, seconds) in phases {
            family.sample(&[("pool", pool), ("phase", phase)], seconds);
        }
    }
    let mut family =
        text.gauge("tally_txg_dirty_bytes", "Bytes that were dirty in the newest synced transaction group.");
    for (pool, group) in newest() {
        family.sample(&[("pool", pool)], group.dirty_bytes);
    }
}

/// A metric of a lane: whether it only rises, its name, what it means, and how it is read.
type LaneMetric = (bool, &'static str, &'static str, fn(&LaneReport) -> u64);

const OF_LANES: [LaneMetric; 7] = [
    (false, "tally_log_size_bytes", "Bytes of the lane's ring.", |lane| lane.size),
    (false, "tally_log_used_bytes", "Bytes of the ring that may not be overwritten yet.", |lane| lane.used),
    (false, "tally_log_pending_records", "Records that wait for a frame now.", |lane| lane.pending),
    (true, "tally_log_frames_total", "Frames written since import.", |lane| lane.frames),
    (true, "tally_log_records_total", "Records in them.", |lane| lane.records),
    (true, "tally_log_record_bytes_total", "Bytes of the records' bodies.", |lane| lane.record_bytes),
    (true, "tally_log_written_bytes_total", "Bytes written to the log, padding included.", |lane| lane.bytes),
];

fn log(text: &mut Exposition, pools: &[PoolReport]) {
    let lanes =
        || pools.iter().flat_map(|pool| pool.lanes.iter().map(|lane| (&pool.name, lane.lane.to_string(), lane)));
    for (rises, name, help, of) in OF_LANES {
        let mut family = if rises { text.counter(name, help) } else { text.gauge(name, help) };
        for (pool, number, lane) in lanes() {
            family.sample(&[("pool", pool), ("lane", &number)], of(lane));
        }
    }
    let mut family = text.histogram("tally_log_device_seconds", "Durable writes of frames to the log's device.");
    for (pool, number, lane) in lanes() {
        family.spread(&[("pool", pool), ("lane", &number)], &lane.write);
    }
}

/// A top-level vdev or a leg with the name of its pool; a mirror's own counters are its legs' together.
fn legs<'a>(pools: &'a [PoolReport]) -> Vec<(&'a str, &'a VdevReport)> {
    let of_pool = |pool: &'a PoolReport| {
        let legs = pool.vdevs.iter().flat_map(|vdev| {
            if vdev.children.is_empty() { std::slice::from_ref(vdev) } else { vdev.children.as_slice() }
        });
        legs.map(|leg| (pool.name.as_str(), leg))
    };
    pools.iter().flat_map(of_pool).collect()
}

fn vdevs(text: &mut Exposition, pools: &[PoolReport]) {
    let legs = legs(pools);
    let mut family = text.gauge("tally_vdev_state", "1 for the state that the disk is in, 0 for the others.");
    for (pool, leg) in &legs {
        let labels = [("pool", *pool), ("vdev", &leg.name), ("class", &leg.class)];
        family.one_of(&labels, "state", &VDEV_STATES, &leg.state);
    }
    let mut family =
        text.gauge("tally_vdev_silent_seconds", "For how long the disk has owed an answer; 0 if it owes none.");
    for (pool, leg) in &legs {
        family.sample(&[("pool", pool), ("vdev", &leg.name)], leg.silent_seconds);
    }
    let mut family =
        text.counter("tally_vdev_errors_total", "Failed reads and writes, and wrong checksums, since import.");
    for (pool, leg) in &legs {
        let errors = [("read", leg.errors.read), ("write", leg.errors.write), ("checksum", leg.errors.checksum)];
        for (kind, count) in errors {
            family.sample(&[("pool", pool), ("vdev", &leg.name), ("kind", kind)], count);
        }
    }
    let mut family = text.counter("tally_vdev_bytes_total", "Bytes read from and written to the disk since import.");
    for (pool, leg) in &legs {
        family.sample(&[("pool", pool), ("vdev", &leg.name), ("operation", "read")], leg.io.read_bytes);
        family.sample(&[("pool", pool), ("vdev", &leg.name), ("operation", "write")], leg.io.write_bytes);
    }
    let mut family = text.histogram("tally_vdev_request_duration_seconds", "Requests to the disk since import.");
    for (pool, leg) in &legs {
        let times = &leg.times;
        let kinds = [
            ("read", &times.read),
            ("write", &times.write),
            ("durable_write", &times.durable_write),
            ("flush", &times.flush),
        ];
        for (operation, spread) in kinds {
            family.spread(&[("pool", pool), ("vdev", &leg.name), ("operation", operation)], spread);
        }
    }
}

fn of_datasets(text: &mut Exposition, all: &[ObservedDataset]) {
    let mut family = text.gauge("tally_dataset_sync", "1 for the value of the dataset's sync, 0 for the others.");
    for found in all {
        family.one_of(&[("dataset", &found.dataset.name)], "sync", &SYNC_MODES, &found.sync);
    }
    let mut family = text.gauge("tally_dataset_exposed_bytes", "Bytes acknowledged and not durable, by dataset.");
    for found in all {
        family.sample(&[("dataset", &found.dataset.name)], found.exposed_bytes);
    }
    let mut family = text.gauge("tally_dataset_exposed_seconds", "Age of the oldest of them.");
    for found in all {
        family.sample(&[("dataset", &found.dataset.name)], found.exposed_seconds);
    }
    let mut family = text.gauge("tally_dataset_referenced_bytes", "Bytes that the dataset takes itself.");
    for found in all {
        family.sample(&[("dataset", &found.dataset.name)], found.dataset.referenced);
    }
    let mut family = text.gauge("tally_dataset_available_bytes", "Bytes that could still be written to the dataset.");
    for found in all {
        family.sample(&[("dataset", &found.dataset.name)], found.dataset.available);
    }
}

fn process(text: &mut Exposition, usage: &Usage, start: f64) {
    text.counter("tally_log_lines_dropped_total", "Lines of the log that nobody read, or that could not be written.")
        .sample(&[], super::logging::lines_dropped());
    text.gauge("process_start_time_seconds", "Start of the process, seconds since 1970-01-01 UTC.").sample(&[], start);
    text.counter("process_cpu_seconds_total", "Processor time of the process.").sample(&[], usage.cpu_seconds);
    text.gauge("process_resident_memory_bytes", "Memory that the process has.").sample(&[], usage.resident_bytes);
    text.gauge("process_virtual_memory_bytes", "Address space of the process.").sample(&[], usage.virtual_bytes);
    text.gauge("process_threads", "Threads of the process.").sample(&[], usage.threads);
    text.gauge("process_open_fds", "Open files and sockets of the process.").sample(&[], usage.open_fds);
    text.gauge("process_max_fds", "Files and sockets that it may have open.").sample(&[], usage.max_fds);
}

#[cfg(test)]
mod tests;
