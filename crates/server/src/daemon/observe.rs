//! Everything that somebody who watches is told, at one moment.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tally_base::{DatasetId, Keeper, PoolGuid};
use tally_nfs::stats::accounts::{Account, Payer, Sums};
use tally_nfs::stats::recorder::{EVENTS_MAX, Event};
use tally_nfs::stats::{Kind, Stats};

use super::pools::{Pools, PoolsError, ServedPool};
use super::{ops_report, pool_report};
use crate::control::load::{KeptBy, LoadEvent, RecordedLoad};
use crate::control::observation::{AccountReport, KindReport, Observation, ObservedDataset};

/// All pools, datasets and clients.
pub(super) fn observe(pools: &Pools, stats: &Stats) -> Result<Observation, PoolsError> {
    let served = pools.all();
    let named = |found: &Arc<ServedPool>| pool_report::report(found);
    let absent = pools.absent.reports(None);
    let datasets = pools.list_datasets(&[], false)?;
    let syncs = pools.dataset_properties(&[], false, &["sync".to_owned()])?;
    let observed = datasets.into_iter().map(|dataset| {
        let sync = syncs.iter().find(|line| line.name == dataset.name).map(|line| line.value.clone());
        let (exposed_bytes, age) = exposure(&served, &dataset.name, DatasetId(dataset.id));
        ObservedDataset { dataset, sync: sync.unwrap_or_default(), exposed_bytes, exposed_seconds: age.as_secs_f64() }
    });
    Ok(Observation {
        uptime_seconds: stats.since().as_secs_f64(),
        datasets: observed.collect(),
        ops: ops_report::report(stats),
        accounts: stats.accounts.all().iter().map(|(payer, account)| report(&served, *payer, account)).collect(),
        pools: served.iter().map(named).chain(absent).collect(),
    })
}

/// How often a recording is looked at while it runs.
const RECORD_LOOK: Duration = Duration::from_millis(50);
/// Longest recording.
const RECORD_SECONDS_MAX: f64 = 3600.0;

/// Records the load, in the thread of whoever asked for it.
pub(super) fn record(stats: &Stats, seconds: f64) -> Result<RecordedLoad, PoolsError> {
    let began = Instant::now();
    if !stats.recorder.begin() {
        return Err(PoolsError::Recording);
    }
    let length =
        Duration::from_secs_f64(if seconds.is_finite() { seconds.clamp(0.0, RECORD_SECONDS_MAX) } else { 0.0 });
    while began.elapsed() < length && stats.recorder.has_room() {
        std::thread::sleep(RECORD_LOOK.min(length.saturating_sub(began.elapsed())));
    }
    let events = stats.recorder.end();
    let kinds: Vec<Kind> = Kind::all().collect();
    let event = |event: &Event| load_event(event, began, &kinds);
    Ok(RecordedLoad {
        seconds: began.elapsed().as_secs_f64(),
        is_full: events.len() >= EVENTS_MAX,
        // What was read before the beginning has a cause that nobody saw.
        events: events.iter().filter(|event| event.read_at >= began).map(event).collect(),
        kinds: kinds.iter().map(|kind| kind.procedure().name().to_owned()).collect(),
    })
}

fn load_event(Event { connection, read_at, paid }: &Event, began: Instant, kinds: &[Kind]) -> LoadEvent {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    LoadEvent {
        connection: *connection,
        read_ns: ns(read_at.saturating_duration_since(began)),
        queue_ns: ns(paid.queue),
        work_ns: ns(paid.work),
        wait_ns: ns(paid.wait),
        device_ns: ns(paid.kept.device.min(paid.wait)),
        reply_ns: ns(paid.reply),
        record_bytes: paid.kept.record_bytes,
        frame_bytes: paid.kept.frame_bytes,
        by: match paid.kept.by {
            Keeper::Nobody => KeptBy::Nobody,
            Keeper::Log(_) => KeptBy::Log,
            Keeper::Group => KeptBy::Group,
        },
        kind: kinds.iter().position(|kind| *kind == paid.kind).unwrap_or(0) as u64,
    }
}

fn exposure(served: &[Arc<ServedPool>], name: &str, id: DatasetId) -> (u64, Duration) {
    let pool = served.iter().find(|pool| name.split('/').next() == Some(pool.filer.name().as_str()));
    let Some((pool, filesystem)) = pool.and_then(|pool| Some((pool, pool.filer.filesystem(id)?))) else {
        return (0, Duration::ZERO);
    };
    let (bytes, since) = filesystem.exposure();
    let now = pool.filer.pool().platform.clock.now();
    (bytes, Duration::from_nanos(since.map_or(0, |since| now.0.saturating_sub(since.0))))
}

fn report(served: &[Arc<ServedPool>], payer: Payer, account: &Account) -> AccountReport {
    let (pool, dataset) = payer.dataset.map_or_else(|| (String::new(), "-".to_owned()), |found| names(served, found));
    AccountReport {
        client: payer.client.map_or_else(|| "*".to_owned(), |address: IpAddr| address.to_string()),
        pool,
        dataset,
        lane: account.lane().map(|lane| lane.0),
        kinds: Kind::all().filter_map(|kind| sums(kind, account.kind(kind))).collect(),
        commits: account.commits.load(Relaxed),
        commits_by_size: account.commits_by_size.each_ref().map(|count| count.load(Relaxed)),
        group_waits: account.group_waits.load(Relaxed),
        record_bytes: account.record_bytes.load(Relaxed),
        frame_bytes: account.frame_bytes.load(Relaxed),
        slot: (&account.slot).into(),
        device: (&account.device).into(),
        reply: (&account.reply).into(),
    }
}

/// Of a pool and a dataset, which may both be gone.
fn names(served: &[Arc<ServedPool>], (guid, id): (PoolGuid, DatasetId)) -> (String, String) {
    let Some(pool) = served.iter().find(|pool| pool.guid() == guid) else {
        return (guid.to_string(), format!("{guid}, dataset {id}"));
    };
    let name = pool.filer.name();
    let dataset = pool.filer.datasets().into_iter().find(|dataset| dataset.id == id);
    let dataset = dataset.map_or_else(|| format!("{name}, destroyed dataset {id}"), |dataset| dataset.name);
    (name, dataset)
}

fn sums(kind: Kind, sums: &Sums) -> Option<KindReport> {
    let calls = sums.calls.load(Relaxed);
    (calls > 0).then(|| KindReport {
        procedure: kind.procedure().name().to_owned(),
        stable_how: kind.stable_how().map(str::to_owned),
        calls,
        errors: sums.errors.load(Relaxed),
        data_bytes: sums.data_bytes.load(Relaxed),
        queue_ns: sums.queue_ns.load(Relaxed),
        work_ns: sums.work_ns.load(Relaxed),
        slot_ns: sums.slot_ns.load(Relaxed),
        device_ns: sums.device_ns.load(Relaxed),
        group_ns: sums.group_ns.load(Relaxed),
        reply_ns: sums.reply_ns.load(Relaxed),
    })
}
