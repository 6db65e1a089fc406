//! What is told of a pool's disks and mirrors: their states, what they did, and for how long they have owed an answer.

use std::sync::Arc;
use std::time::Duration;

use tally_disk::{IoCounts, IoKind};
use tally_intent::Lane;
use tally_members::label::{PoolConfig, VdevClass, VdevConfig, VdevKind};
use tally_members::vdev::{Late, LegState, Vdev, VdevLeg};
use tally_store::pool::Pool;

use super::{DATA, JOINING, LOG, NO_LOG, ONLINE};
use crate::control::report::{
    ErrorCounters, IoActive, IoCounters, IoSizes, IoTimes, LateReport, VdevReport, VdevSpace,
};
use crate::control::spread::Spread;
use crate::daemon::served::ServedPool;

pub(super) fn vdev_reports(served: &ServedPool, config: &PoolConfig) -> Vec<VdevReport> {
    let pool = served.filer.pool();
    let report = |vdev: &VdevConfig| {
        let found = pool.roster.vdevs().iter().find(|found| found.guid() == vdev.guid)?;
        let report = vdev_report(found, vdev, &Ring::on(served, config, vdev));
        Some(VdevReport { space: space_of(pool, vdev), ..report })
    };
    config.vdevs_present().filter_map(report).collect()
}

/// What of a data vdev is in use, its ring aside, and what is free; none for a log device.
pub(in crate::daemon) fn space_of(pool: &Pool, vdev: &VdevConfig) -> Option<VdevSpace> {
    let free = pool.io.allocator().vdev_free(vdev.index)?;
    let ring = vdev.ring.map_or(0, |ring| ring.length);
    Some(VdevSpace { allocated: vdev.data_bytes.saturating_sub(ring).saturating_sub(free), free })
}

/// The name under which a vdev stands in `status`, and by which commands find it.
pub(in crate::daemon) fn vdev_name(vdev: &VdevConfig) -> String {
    match vdev.legs.as_slice() {
        [leg] if vdev.kind == VdevKind::Disk => leg.path.display().to_string(),
        _ => format!("mirror-{}", vdev.index),
    }
}

/// The log whose ring lies on a vdev.
enum Ring {
    /// There is none, or the pool is only read.
    Absent,
    /// It takes records.
    Open(Arc<Lane>),
    /// Changes wait for transaction groups.
    Ended,
}

impl Ring {
    fn on(served: &ServedPool, config: &PoolConfig, vdev: &VdevConfig) -> Self {
        let pool = served.filer.pool();
        let line = config.lanes.iter().find(|line| line.vdev == vdev.index).filter(|_| !pool.read_only());
        match line.map(|line| pool.lane(line.lane).filter(|lane| !lane.has_ended())) {
            None => Self::Absent,
            Some(None) => Self::Ended,
            Some(Some(lane)) => Self::Open(lane),
        }
    }

    /// What to call a leg that has everything, but does not take part in the log.
    fn word_for(&self, leg: &VdevLeg) -> Option<&'static str> {
        match self {
            Self::Absent => None,
            Self::Ended => Some(NO_LOG),
            Self::Open(lane) => (!lane.writes_to(leg.guid())).then_some(JOINING),
        }
    }
}

fn vdev_report(vdev: &Vdev, config: &VdevConfig, ring: &Ring) -> VdevReport {
    let class = if config.class == VdevClass::Log { LOG } else { DATA };
    let report = |leg: &Arc<VdevLeg>| {
        let mut report = leg_report(leg, class);
        report.late = vdev.lateness(leg.guid()).map(late_report);
        if leg.state() == LegState::Online
            && let Some(word) = ring.word_for(leg)
        {
            report.state = word.into();
        }
        report
    };
    let legs: Vec<VdevReport> = vdev.legs().iter().map(report).collect();
    match <[VdevReport; 1]>::try_from(legs) {
        Ok([leg]) => leg,
        Err(legs) => {
            let online = legs.iter().filter(|leg| leg.state == ONLINE).count();
            let state = if online == legs.len() {
                ONLINE
            } else if online > 0 {
                "DEGRADED"
            } else {
                "FAULTED"
            };
            VdevReport {
                name: vdev_name(config),
                class: class.into(),
                state: state.into(),
                // A mirror reads from one leg and writes to all: what was asked of it, not of its disks together.
                io: legs.iter().map(|leg| leg.io).fold(IoCounters::default(), widest),
                times: legs.iter().map(|leg| &leg.times).fold(IoTimes::default(), |sum, leg| sum.with(leg)),
                sizes: legs.iter().map(|leg| &leg.sizes).fold(IoSizes::default(), |sum, leg| sum.with(leg)),
                active: legs.iter().map(|leg| leg.active).fold(IoActive::default(), IoActive::with),
                slow: legs.iter().map(|leg| leg.slow).sum(),
                silent_seconds: legs.iter().map(|leg| leg.silent_seconds).fold(0.0, f64::max),
                children: legs,
                ..VdevReport::default()
            }
        }
    }
}

fn late_report(late: Late) -> LateReport {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    LateReport { read_ns: ns(late.takes), quickest_read_ns: ns(late.quickest) }
}

fn leg_report(leg: &VdevLeg, class: &str) -> VdevReport {
    let (errors, counts) = (leg.errors(), leg.counts());
    VdevReport {
        name: leg.path().display().to_string(),
        class: class.into(),
        state: leg.state().word().into(),
        errors: ErrorCounters {
            read: errors.read,
            write: errors.write,
            checksum: errors.checksum,
            repaired: errors.repaired,
        },
        io: io(&counts),
        times: IoTimes {
            read: spread(leg, IoKind::Read),
            write: spread(leg, IoKind::Write),
            durable_write: spread(leg, IoKind::DurableWrite),
            flush: spread(leg, IoKind::Flush),
        },
        sizes: IoSizes {
            read: sizes(leg, IoKind::Read),
            write: sizes(leg, IoKind::Write),
            durable_write: sizes(leg, IoKind::DurableWrite),
        },
        active: IoActive {
            read: active(leg, IoKind::Read),
            write: active(leg, IoKind::Write),
            durable_write: active(leg, IoKind::DurableWrite),
            flush: active(leg, IoKind::Flush),
        },
        silent_seconds: leg.disk().and_then(|disk| disk.silent_for()).unwrap_or_default().as_secs_f64(),
        slow: leg.slow_count(),
        left_after_seconds: leg.left_after().unwrap_or_default().as_secs(),
        ..VdevReport::default()
    }
}

fn spread(leg: &VdevLeg, kind: IoKind) -> Spread {
    leg.disk().map_or_else(Spread::default, |disk| (&disk.times(kind).latency).into())
}

fn sizes(leg: &VdevLeg, kind: IoKind) -> Spread {
    leg.disk().map_or_else(Spread::default, |disk| Spread(disk.times(kind).sizes()))
}

fn active(leg: &VdevLeg, kind: IoKind) -> u64 {
    leg.disk().map_or(0, |disk| disk.times(kind).active())
}

const fn io(counts: &IoCounts) -> IoCounters {
    IoCounters {
        read_ops: counts.reads,
        write_ops: counts.writes,
        read_bytes: counts.read_bytes,
        write_bytes: counts.write_bytes,
        durable_writes: counts.durable_writes,
        flushes: counts.flushes,
    }
}

/// Reads of all legs together, and the writes of the leg that took most.
fn widest(a: IoCounters, b: IoCounters) -> IoCounters {
    IoCounters {
        read_ops: a.read_ops + b.read_ops,
        write_ops: a.write_ops.max(b.write_ops),
        read_bytes: a.read_bytes + b.read_bytes,
        write_bytes: a.write_bytes.max(b.write_bytes),
        durable_writes: a.durable_writes.max(b.durable_writes),
        flushes: a.flushes.max(b.flushes),
    }
}
