//! What the pools tell about themselves, as the control socket passes it on.

mod disks;

use std::sync::Arc;
use std::time::Duration;

use tally_base::Size;
use tally_members::label::{FailMode, HangLimit, KNOWN_FEATURES, LaneConfigLine, LossReport, PoolConfig};
use tally_members::vdev::{LegState, Vdev, VdevLeg};
use tally_store::bp::BlockKind;
use tally_store::io::{CacheStats, PrefetchStats};
use tally_store::pool::{ClockFault, PROBATION, ScrubEvery};
use tally_store::properties::SyncMode;
use tally_store::txg::TxgRecord;

use self::disks::vdev_reports;
pub(super) use self::disks::{space_of, vdev_name};
use super::features;
use super::served::ServedPool;
use super::silence::SILENT_MIN;
use crate::control::report::{
    CacheReport, Exposure, IoCounters, LaneReport, PoolReport, PrefetchReport, PropertyLine, TxgReport, VdevReport,
};
use crate::dates::utc;

/// Everything about one pool.
pub(super) fn report(served: &ServedPool) -> PoolReport {
    let pool = served.filer.pool();
    let config = pool.roster.config();
    let space = pool.io.allocator().space();
    let free = space.free + space.deferred;
    let vdevs = vdev_reports(served, &config);
    let io = vdevs.iter().filter(|vdev| vdev.class == DATA).map(|vdev| vdev.io).fold(IoCounters::default(), sum);
    let scrub = super::scrub::standing(pool, &served.copies);
    let mut outcomes = served.copies.outcomes();
    outcomes.extend(scrub.iter().map(|scrub| scrub.words.clone()).filter(|words| !words.is_empty()));
    let degraded = vdevs.iter().any(|vdev| vdev.state != ONLINE) || !lanes_without_disk(served).is_empty();
    PoolReport {
        name: config.name.clone(),
        guid: config.pool.to_string(),
        state: if pool.fault().is_some() {
            "SUSPENDED"
        } else if degraded {
            "DEGRADED"
        } else {
            ONLINE
        }
        .into(),
        read_only: pool.read_only(),
        size: space.total,
        allocated: space.total.saturating_sub(free),
        free,
        txg: pool.txgs.last_synced().0,
        imported_seconds: served.since.elapsed().as_secs_f64(),
        io,
        spares: served.spare_reports(&config),
        lanes: lane_reports(served, &config),
        exposure: exposure(served),
        messages: messages(served, &vdevs),
        losses: losses(&config),
        damage: Vec::new(),
        damage_beyond: 0,
        leaks: pool.io.leak_count(),
        space_alarms: served.filer.space_alarms(),
        failmode: config.supplement.failmode.word().into(),
        scrub_every: pool.scrub_every().word().into(),
        scrub_due: pool.scrub_due().filter(|_| !pool.read_only()).map(|due| due.0 / 1_000_000_000),
        hang_limit: config.hang_limit.to_string(),
        mountpoints: if served.is_accepted() { "accept" } else { PoolReport::MOUNTPOINTS_IGNORED }.into(),
        txg_open: pool.txgs.open().0,
        txgs: txg_reports(served),
        txg_causes: pool.txgs.causes().iter().map(|(cause, groups)| (cause.name().into(), groups)).collect(),
        dirty_bytes: pool.txgs.dirty_bytes(),
        dirty_bytes_max: pool.txgs.dirty_bytes_max(),
        unrepaired: pool.io.unrepaired_count(),
        freeing: served.filer.has_orphans(),
        copies: served.copies.running(),
        copies_ended: outcomes,
        scrub,
        ahead_bytes: pool.txgs.ahead_bytes(),
        ahead_bytes_max: pool.ahead_bytes_max(),
        ahead_waiting: pool.txgs.ahead_waiting() as u64,
        patch_bytes: pool.txgs.patch_bytes(),
        patch_bytes_max: pool.txgs.patch_bytes_max(),
        cache_bytes_max: pool.io.cache_bytes_max(),
        cache: pool.io.cache_stats().into_iter().map(cache_report).collect(),
        prefetch: prefetch_report(pool.io.prefetch_stats()),
        compatibility: features::compatibility(&config),
        features: features::reports(&config, KNOWN_FEATURES),
        vdevs,
    }
}

const ONLINE: &str = LegState::Online.word();
/// A leg that gets every frame of the log, and is not believed alone yet.
const JOINING: &str = "JOINING";
/// A leg whose lane has ended: changes wait for transaction groups.
const NO_LOG: &str = "NOLOG";
const DATA: &str = "data";
const LOG: &str = "log";

fn cache_report(stats: CacheStats) -> CacheReport {
    let kind = match stats.kind {
        BlockKind::Data => "data",
        BlockKind::Leaf => "leaves",
        BlockKind::TreeNode => "nodes",
        BlockKind::Replies => "replies",
        BlockKind::Root => "root",
        BlockKind::SpaceMap => "maps",
        BlockKind::SpaceIndex => "index",
        BlockKind::Deferred => "deferred",
    };
    CacheReport { kind: kind.into(), bytes: stats.bytes, hits: stats.hits, misses: stats.misses }
}

fn prefetch_report(stats: PrefetchStats) -> PrefetchReport {
    let PrefetchStats { hits, misses, bytes, unread_bytes } = stats;
    PrefetchReport { hits, misses, bytes, unread_bytes }
}

fn txg_reports(served: &ServedPool) -> Vec<TxgReport> {
    let pool = served.filer.pool();
    let now = pool.platform.clock.monotonic();
    let report = |record: TxgRecord| TxgReport {
        txg: record.txg.0,
        age_seconds: now.saturating_sub(record.opened).as_secs_f64(),
        open_seconds: record.open.as_secs_f64(),
        quiescing_seconds: record.quiescing.as_secs_f64(),
        syncing_seconds: record.syncing.as_secs_f64(),
        dirty_bytes: record.dirty_bytes,
    };
    pool.history.records().into_iter().map(report).collect()
}

fn exposure(served: &ServedPool) -> Exposure {
    let (bytes, age) = served.filer.exposure();
    let names = served.filer.names();
    let possible = names.iter().any(|named| named.filesystem.in_force().sync == SyncMode::Disabled);
    Exposure { possible, bytes, seconds: age.as_secs_f64() }
}

fn messages(served: &ServedPool, vdevs: &[VdevReport]) -> Vec<String> {
    let mut messages = Vec::new();
    if let Some(fault) = served.filer.pool().fault() {
        let clients = match served.filer.pool().roster.failmode() {
            FailMode::Wait => "Clients that change something wait.",
            FailMode::Continue => "Clients that change something get an I/O error.",
        };
        let kept = match exposure(served).bytes {
            0 => "Nothing was acknowledged that is not on disk.".to_owned(),
            bytes => format!(
                "{} that clients of datasets with sync=disabled were told is safe is in memory alone, and will be lost.\n\
                 Nothing else was acknowledged that is not on disk.",
                Size(bytes)
            ),
        };
        messages.push(format!(
            "the pool is suspended: {}.\n{clients} {kept}\n\
             Once its disks are well, `tally pool clear {}` goes on where it stopped.",
            fault.0,
            served.filer.name()
        ));
    }
    messages.extend(served.list_trouble.lock().clone());
    let legs: Vec<&VdevReport> = vdevs
        .iter()
        .flat_map(|vdev| if vdev.children.is_empty() { std::slice::from_ref(vdev) } else { &vdev.children })
        .collect();
    let pool = served.filer.pool();
    let on_their_way: Vec<_> =
        // One that has counted and is missing is for somebody to take back.
        pool.joins().iter().filter(|job| pool.state_of(job.leg) != Some(LegState::Missing) || pool.goes_on_by_itself(job.leg)).filter_map(|job| Some((pool.member(job.leg)?.path(), job.returns))).collect();
    for leg in legs.iter().filter(|leg| leg.state != ONLINE) {
        let is_on_its_way = |returns: bool| on_their_way.iter().any(|job| *job == (leg.name.as_str().into(), returns));
        let (is_joining, returns) = (is_on_its_way(false), is_on_its_way(true));
        let hung = format!("has not answered for {} s, and was struck off", leg.left_after_seconds);
        let what = match leg.state.as_str() {
            "FAULTED" if leg.left_after_seconds > 0 => hung.as_str(),
            "FAULTED" if is_joining => "has failed before its copy was over",
            "MISSING" => "is missing or has lost its label",
            "STALE" if is_joining => "is joining, and was cut off in its copy",
            "STALE" if returns => "has missed changes, and was cut off while it was given them",
            "STALE" => "has missed changes",
            "OFFLINE" => "was taken out of use",
            "RESILVERING" if is_joining || returns => {
                "is being copied. An export, or the end of the daemon, interrupts that, and the next import goes on with it"
            }
            "RESILVERING" => "is being copied",
            JOINING => "is joining the intent log, and does not count there yet",
            NO_LOG => "takes no part in the intent log",
            _ => "has failed",
        };
        // What is to be done about a log that takes nothing any more is said once, below.
        let needs_nothing = ["RESILVERING", JOINING, NO_LOG].contains(&leg.state.as_str());
        let action = match leg.state.as_str() {
            _ if needs_nothing => "",
            // Whoever may not write goes on with nothing, and neither gives it up.
            "MISSING" | "STALE" | "FAULTED" | "OFFLINE" if served.filer.pool().read_only() => {
                "\nThe pool is imported read-only: nothing is given to it before an import without --readonly."
            }
            "MISSING" | "STALE" if is_joining => {
                "\nIts copy goes on by itself when it is there and well; `tally pool detach` gives it up."
            }
            "FAULTED" | "OFFLINE" if is_joining => {
                "\n`tally pool online` goes on with its copy when it is there and well; `tally pool detach` gives it up."
            }
            "STALE" if returns => "\nThat goes on by itself; `tally pool offline` gives it up.",
            "OFFLINE" => "\n`tally pool online` takes it back, and gives it what it has missed.",
            _ => {
                "\nWhen it is there and well, `tally pool online` gives it what it has missed.\n\
                 Or give the pool another disk with `tally pool replace`."
            }
        };
        messages.push(format!("{} {what}.{action}", leg.name));
    }
    let silent = |leg: &&&VdevReport| leg.silent_seconds >= SILENT_MIN.as_secs_f64();
    messages.extend(legs.iter().filter(silent).map(|leg| silent_message(leg)));
    messages.extend(legs.iter().filter_map(|leg| late_message(leg)));
    messages.extend(space_message(served));
    messages.extend(fenced_message(served));
    messages.extend(refused_message(served));
    messages.extend(served.copies.notices());
    messages.extend(unread_messages(served));
    messages.extend(lanes_without_disk(served));
    messages.extend(clock_message(served));
    // What the import said of a disk may be out of date; how each stands now was said above.
    messages.extend(served.remarks.iter().filter(|remark| !remark.starts_with('/')).cloned());
    messages
}

/// Disks whose copy lacked something, for as long as nobody has found it: what came of the copy itself is forgotten with an import.
fn unread_messages(served: &ServedPool) -> Vec<String> {
    let pool = served.filer.pool();
    let lacks = |vdev: &Vdev, leg: &VdevLeg| {
        let is_told = served.copies.has_notice(vdev.guid(), leg.path());
        leg.state() == LegState::Online && !is_told && !pool.roster.missed(leg.guid()).is_empty()
    };
    let message = |leg: Arc<VdevLeg>| {
        format!(
            "{} counts, and lacks what could not be read when it was copied. So no other disk of its mirror leaves by itself.\n\
             `tally pool scrub` looks for it again; `tally pool detach` takes a disk out once every block is found on another one.",
            leg.path().display()
        )
    };
    let legs = pool.roster.data_vdevs().flat_map(|vdev| vdev.legs().into_iter().map(move |leg| (vdev, leg)));
    legs.filter(|(vdev, leg)| lacks(vdev, leg)).map(|(_, leg)| message(leg)).collect()
}

/// Places of which the trees say something else than the space maps, or two trees.
fn space_message(served: &ServedPool) -> Option<String> {
    let pool = served.filer.pool();
    let alarms = served.filer.space_alarms();
    let of_job = pool.scrub_job().and_then(|job| job.report.space).map_or(0, |space| space.alarm_count);
    let count = of_job.max(alarms.len() as u64);
    (count > 0).then(|| {
        let places = if count == 1 { "1 place is".into() } else { format!("{count} places are") };
        let told = if alarms.is_empty() { "Another scrub names them.".into() } else { alarms.join("; ") + "." };
        format!(
            "{places} in use twice, or in use and free: what is there may have been written over, and this must not be. {told}\n\
             Nothing is written there any more while the pool is imported. Look at these files, and copy what matters to another pool:\n\
             the machine's memory, or the program, has made a mistake. Please report it with the log."
        )
    })
}

/// A disk that seeks for many takes so long for a read, and is well: beside a quicker one it is read last, and nobody need look.
const WELL_READ_MAX: Duration = Duration::from_millis(50);

/// A disk that is read last.
fn late_message(leg: &VdevReport) -> Option<String> {
    let late = leg.late.filter(|late| Duration::from_nanos(late.read_ns) > WELL_READ_MAX)?;
    let [takes, quickest] = [late.read_ns, late.quickest_read_ns].map(|ns| format!("{:.1?}", Duration::from_nanos(ns)));
    Some(format!(
        "{} is slow: it answers a read in {takes}, and another disk of its mirror in {quickest}. It is read last, and asked\n\
         now and then whether it is better. Writes still wait for it: if it stays so, `tally pool replace` gives the pool another disk.",
        leg.name
    ))
}

/// A disk that owes an answer.
fn silent_message(leg: &VdevReport) -> String {
    let (name, seconds) = (&leg.name, leg.silent_seconds);
    if leg.left_after_seconds > 0 {
        return format!(
            "{name} has owed an answer for {seconds:.0} s. Nobody waits for it, and it is not taken back before it has answered:\n\
             it may write what it was given until then."
        );
    }
    format!(
        "{name} has owed an answer for {seconds:.0} s: it hangs, and whatever needs it waits for it.\n\
         It has refused nothing so far. If it does not come back, take it out of the machine."
    )
}

/// Space that cannot be had since it is not known what of it is in use.
fn fenced_message(served: &ServedPool) -> Option<String> {
    let (count, told) = served.filer.pool().io.allocator().fenced();
    (count > 0).then(|| {
        format!(
            "{count} regions of 128 MiB cannot be written to, as their space maps cannot be used. Nothing in them is lost:\n\
             files there can be read and removed. {}\n\
             Bring back the disks that have the maps, or let `tally pool scrub` restore them, and import the pool again.",
            told.join("; ")
        )
    })
}

/// Space that cannot be had for now.
fn refused_message(served: &ServedPool) -> Option<String> {
    let (count, told) = served.filer.pool().io.allocator().refused();
    (count > 0).then(|| {
        format!(
            "{count} regions of 128 MiB cannot be written to for now, as a disk refuses to give their space maps. Nothing in them is\n\
             lost. It is asked again every now and then, and before anybody is told that there is no room. {}",
            told.join("; ")
        )
    })
}

/// The machine's clock cannot be right, or could not when the pool was last in use.
fn clock_message(served: &ServedPool) -> Option<String> {
    let name = served.filer.name();
    let span = |by: Duration| match by.as_secs() / 86_400 {
        days @ 0..730 => format!("{days} days"),
        days => format!("{} years", days / 365),
    };
    Some(match served.filer.pool().clock_fault()? {
        ClockFault::Ahead { by, on_probation } => {
            let way_out = if on_probation {
                format!("It is followed if it goes on evenly for {} minutes, or", PROBATION.as_secs() / 60)
            } else {
                "It is followed when it is set right, or".into()
            };
            format!(
                "the clock is {} ahead of the time when the pool was last in use, and is not followed: changes get times from there on.\n\
                 {way_out} at once with `tally pool set clock=accept {name}`.",
                span(by)
            )
        }
        ClockFault::Behind { by } => format!(
            "the clock is {} behind the newest time in the pool: changes get times just above that, until it has caught up.\n\
             Set the clock right. If it is, and the pool's times are wrong, go back with `tally pool set clock=accept {name}`.",
            span(by)
        ),
    })
}

/// Lanes that take no records: their log device was missing at the import, or has failed since.
fn lanes_without_disk(served: &ServedPool) -> Vec<String> {
    let pool = served.filer.pool();
    if pool.read_only() || pool.fault().is_some() {
        return Vec::new();
    }
    let config = pool.roster.config();
    let down = config.lanes.iter().filter(|line| pool.lane(line.lane).is_none_or(|lane| lane.has_ended()));
    let name = |line: &LaneConfigLine| config.vdev(line.vdev).map(vdev_name);
    let message = |name: String| {
        format!(
            "the intent log cannot write to {name}: changes wait for transaction groups where no other log device is left.\n\
             Nothing is at risk. Give the log another disk with `tally pool replace`."
        )
    };
    down.filter_map(name).map(message).collect()
}

/// Losses that were accepted since the pool was made, oldest first.
fn losses(config: &PoolConfig) -> Vec<String> {
    let report = |report: &LossReport| {
        let when = utc(report.time.0 / 1_000_000_000);
        format!("{when} UTC, after transaction group {}: {}", report.txg, report.lines.join("; "))
    };
    config.supplement.losses.iter().map(report).collect()
}

const fn sum(a: IoCounters, b: IoCounters) -> IoCounters {
    IoCounters {
        read_ops: a.read_ops + b.read_ops,
        write_ops: a.write_ops + b.write_ops,
        read_bytes: a.read_bytes + b.read_bytes,
        write_bytes: a.write_bytes + b.write_bytes,
        durable_writes: a.durable_writes + b.durable_writes,
        flushes: a.flushes + b.flushes,
    }
}

fn lane_reports(served: &ServedPool, config: &PoolConfig) -> Vec<LaneReport> {
    let report = |line: &LaneConfigLine| {
        let lane = served.filer.pool().lane(line.lane)?;
        let (fill, stats) = (lane.fill(), lane.stats());
        let vdev = config.vdev(line.vdev);
        Some(LaneReport {
            lane: line.lane.0,
            vdev: vdev.map(vdev_name).unwrap_or_default(),
            size: fill.size,
            used: fill.used,
            pending: stats.pending_count,
            frames: stats.frame_count,
            records: stats.record_count,
            bytes: stats.frame_bytes,
            record_bytes: stats.body_bytes,
            frames_by_size: [stats.frames_by_size.small, stats.frames_by_size.medium, stats.frames_by_size.large],
            commit_bytes: served.filer.pool().break_even_bytes(&lane),
            write: lane.write_times().into(),
            write_ns_p50: stats.write_ns_p50,
            write_ns_p99: stats.write_ns_p99,
        })
    };
    config.lanes.iter().filter_map(report).collect()
}

/// Names of what `tally pool get` shows.
pub(super) const PROPERTIES: [&str; 12] = [
    "size",
    "allocated",
    "free",
    "capacity",
    "health",
    "guid",
    "readonly",
    "failmode",
    "scrub",
    "compatibility",
    "hang_limit",
    "mountpoints",
];

/// The properties of one pool, in the order of [`PROPERTIES`], then its features.
pub(super) fn properties(pool: &PoolReport) -> Vec<PropertyLine> {
    let size = |bytes: u64| (Size(bytes).to_string(), bytes.to_string());
    let same = |text: &str| (text.to_owned(), text.to_owned());
    let percent = u128::from(pool.allocated) * 100 / u128::from(pool.size.max(1));
    let values = [
        (size(pool.size), "-"),
        (size(pool.allocated), "-"),
        (size(pool.free), "-"),
        ((format!("{percent}%"), percent.to_string()), "-"),
        (same(&pool.state), "-"),
        (same(&pool.guid), "-"),
        (same(if pool.read_only { "on" } else { "off" }), "-"),
        (same(&pool.failmode), if pool.failmode == FailMode::default().word() { "default" } else { "local" }),
        (same(&pool.scrub_every), if pool.scrub_every == ScrubEvery::default().word() { "default" } else { "local" }),
        (same(&pool.compatibility), if pool.compatibility == "off" { "default" } else { "local" }),
        (same(&pool.hang_limit), if pool.hang_limit == HangLimit::default().to_string() { "default" } else { "local" }),
        (same(&pool.mountpoints), "-"),
    ];
    let line = |(property, value): (&str, ((String, String), &str))| {
        // Of a pool that is not imported nothing else is known.
        let is_known = pool.is_imported() || ["health", "guid"].contains(&property);
        let ((value, exact), source) = if is_known { value } else { (same("-"), "-") };
        PropertyLine { name: pool.name.clone(), property: property.into(), value, exact, source: source.into() }
    };
    let features = pool.features.iter().map(|feature| (feature.property.as_str(), (same(&feature.state), "local")));
    PROPERTIES.into_iter().zip(values).chain(features).map(line).collect()
}
