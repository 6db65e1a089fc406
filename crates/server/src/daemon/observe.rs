//! Everything that somebody who watches is told, at one moment.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tally_base::{DatasetId, Keeper, PoolGuid};
use tally_nfs::service::Service;
use tally_nfs::stats::accounts::{Account, Payer, Sums};
use tally_nfs::stats::recorder::{EVENTS_MAX, Event};
use tally_nfs::stats::{Kind, Stats};
use tally_store::properties::Value;

use super::datasets::Catalogue;
use super::error::PoolsError;
use super::pools::Pools;
use super::served::ServedPool;
use super::{holdings, ops_report, pool_report};
use crate::control::listener::Asker;
use crate::control::load::{KeptBy, LoadEvent, RecordedLoad};
use crate::control::observation::{AccountReport, KindReport, Observation, ObservedDataset};

/// All pools, datasets and clients.
pub(super) fn observe(pools: &Pools, nfs: &Service) -> Observation {
    Observation { datasets: datasets(pools, None), ..overview(pools, nfs) }
}

/// The same without the datasets, which may be ten thousand and are nobody's counters: what samples are made of.
pub(super) fn overview(pools: &Pools, nfs: &Service) -> Observation {
    let stats = nfs.stats();
    let served = pools.all();
    let named = |found: &Arc<ServedPool>| pool_report::report(found);
    let absent = pools.absent.reports(None);
    Observation {
        uptime_seconds: stats.since().as_secs_f64(),
        datasets: Vec::new(),
        dataset_count: served.iter().map(|pool| pool.filer.names().count() as u64).sum(),
        ops: ops_report::report(stats),
        holdings: nfs.holdings().as_ref().map(holdings::counts),
        accounts: stats.accounts.all().iter().map(|(payer, account)| report(&served, *payer, account)).collect(),
        pools: served.iter().map(named).chain(absent).collect(),
    }
}

/// The datasets, each behind those above it; of more than `most` those that a power cut would take most of, and then those
/// that use most.
pub(super) fn datasets(pools: &Pools, most: Option<usize>) -> Vec<ObservedDataset> {
    let served = pools.all();
    let catalogues: Vec<Catalogue> = served.iter().map(|pool| Catalogue::of(&pool.filer)).collect();
    let mut chosen: Vec<(u64, u64, usize, usize)> = Vec::new();
    for (number, all) in catalogues.iter().enumerate() {
        let places = all.names.iter().zip(&all.used_bytes).enumerate();
        chosen.extend(places.map(|(place, (named, used))| (named.filesystem.exposure().0, *used, number, place)));
    }
    if let Some(most) = most.filter(|most| *most < chosen.len()) {
        chosen.select_nth_unstable_by_key(most, |(exposed, used, ..)| Reverse((*exposed, *used)));
        chosen.truncate(most);
        chosen.sort_unstable_by_key(|(.., number, place)| (*number, *place));
    }
    chosen.into_iter().filter_map(|(.., number, place)| observed(&served[number], &catalogues[number], place)).collect()
}

fn observed(served: &ServedPool, all: &Catalogue, place: usize) -> Option<ObservedDataset> {
    let filesystem = &all.names.at(place)?.filesystem;
    let (exposed_bytes, since) = filesystem.exposure();
    let now = served.filer.pool().platform.clock.now();
    let age = Duration::from_nanos(since.map_or(0, |since| now.0.saturating_sub(since.0)));
    Some(ObservedDataset {
        dataset: all.report(place)?,
        sync: Value::Sync(filesystem.in_force().sync).to_string(),
        exposed_bytes,
        exposed_seconds: age.as_secs_f64(),
    })
}

/// How often a recording is looked at while it runs.
const RECORD_LOOK: Duration = Duration::from_millis(50);
/// Longest recording.
const RECORD_SECONDS_MAX: f64 = 3600.0;

/// Records the load, in the thread of whoever asked for it, and for as long as he waits for it.
pub(super) fn record(stats: &Stats, seconds: f64, asker: &Asker) -> Result<RecordedLoad, PoolsError> {
    let began = Instant::now();
    if !stats.recorder.begin() {
        return Err(PoolsError::Recording);
    }
    let length =
        Duration::from_secs_f64(if seconds.is_finite() { seconds.clamp(0.0, RECORD_SECONDS_MAX) } else { 0.0 });
    while began.elapsed() < length && stats.recorder.has_room() && !asker.is_gone() {
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
        kinds: kinds.iter().map(|kind| kind.name().to_owned()).collect(),
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

fn report(served: &[Arc<ServedPool>], payer: Payer, account: &Account) -> AccountReport {
    let (client, pool, dataset) = match payer {
        Payer::Client { address, pool, dataset } => (address.to_string(), pool_name(served, pool), Some(dataset)),
        Payer::Others(pool) => (AccountReport::OTHERS.to_owned(), pool_name(served, pool), None),
        Payer::Gone(pool) => (AccountReport::GONE.to_owned(), pool_name(served, pool), None),
        Payer::Nobody => (AccountReport::OTHERS.to_owned(), String::new(), None),
    };
    let dataset = match dataset {
        Some(dataset) => dataset_name(served, &pool, dataset),
        None if pool.is_empty() => "-".to_owned(),
        None => format!("{pool}/*"),
    };
    AccountReport {
        number: account.number(),
        client,
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

/// Of a pool, which may be gone.
fn pool_name(served: &[Arc<ServedPool>], guid: PoolGuid) -> String {
    let pool = served.iter().find(|pool| pool.guid() == guid);
    pool.map_or_else(|| guid.to_string(), |pool| pool.filer.name())
}

/// Of a dataset, which may be gone, too.
fn dataset_name(served: &[Arc<ServedPool>], pool_name: &str, id: DatasetId) -> String {
    let Some(pool) = served.iter().find(|pool| pool.filer.name() == pool_name) else {
        return format!("{pool_name}, dataset {id}");
    };
    let filesystem = pool.filer.filesystem(id);
    filesystem.map_or_else(|| format!("{pool_name}, destroyed dataset {id}"), |filesystem| filesystem.name())
}

fn sums(kind: Kind, sums: &Sums) -> Option<KindReport> {
    let calls = sums.calls.load(Relaxed);
    (calls > 0).then(|| KindReport {
        procedure: kind.name().to_owned(),
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
