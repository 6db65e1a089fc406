//! What the NFS server counts, as a report.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tally_base::Histogram;
use tally_nfs::stats::{Kind, Stats};

use crate::control::report::{OpReport, OpsReport};
use crate::control::spread::Quantiles;

/// The report of now.
pub(super) fn report(stats: &Stats) -> OpsReport {
    let held = stats.held();
    OpsReport {
        procedures: Kind::all().filter_map(|kind| op(stats, kind)).collect(),
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
    }
}

fn op(stats: &Stats, kind: Kind) -> Option<OpReport> {
    let counted = stats.kind(kind);
    let calls = counted.calls.load(Relaxed);
    (calls > 0).then(|| OpReport {
        procedure: kind.procedure().name().to_owned(),
        stable_how: kind.stable_how().map(str::to_owned),
        calls,
        errors: counted.errors.load(Relaxed),
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
