//! What the NFS server counts, as a report.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tally_base::Histogram;
use tally_nfs::stats::{Kind, KindStats, Operation, Stats};

use crate::control::report::{OpReport, OpsReport};
use crate::control::spread::Quantiles;

/// The report of now.
pub(super) fn report(stats: &Stats) -> OpsReport {
    let held = stats.held();
    OpsReport {
        procedures: Kind::all().filter_map(|kind| procedure(stats, kind)).collect(),
        operations: Operation::all().filter_map(|one| op(one.name(), stats.operation(one))).collect(),
        whole: quantiles(&stats.whole),
        whole_times: (&stats.whole).into(),
        own: quantiles(&stats.own),
        connections: stats.connections.load(Relaxed),
        connections_dismissed: stats.connections_dismissed.load(Relaxed),
        connections_refused: stats.connections_refused.load(Relaxed),
        panics: stats.panics.load(Relaxed),
        work_bytes: held.work_bytes as u64,
        debt_bytes: held.debt_bytes as u64,
        refused: stats.refused.load(Relaxed),
        retransmissions: stats.retransmissions.load(Relaxed),
        throttled: stats.throttled.load(Relaxed),
        calls_made: stats.calls_made.load(Relaxed),
        replies_unmatched: stats.replies_unmatched.load(Relaxed),
    }
}

fn procedure(stats: &Stats, kind: Kind) -> Option<OpReport> {
    let report = op(kind.name(), stats.kind(kind))?;
    Some(OpReport { stable_how: kind.stable_how().map(str::to_owned), ..report })
}

fn op(name: &str, counted: &KindStats) -> Option<OpReport> {
    let calls = counted.calls.load(Relaxed);
    (calls > 0).then(|| OpReport {
        procedure: name.to_owned(),
        stable_how: None,
        calls,
        errors: counted.errors.load(Relaxed),
        data_bytes: counted.data_bytes.load(Relaxed),
        execute: quantiles(&counted.execute),
        wait: quantiles(&counted.wait),
    })
}

fn quantiles(histogram: &Histogram) -> Quantiles {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Quantiles {
        count: histogram.count(),
        p50_ns: ns(histogram.quantile(0.5)),
        p99_ns: ns(histogram.quantile(0.99)),
        max_ns: ns(histogram.quantile(1.0)),
    }
}
