//! What `tally top` has seen so far: two observations that make an interval, and a line of figures from those before.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Instant;

use super::Seen;
use crate::control::observation::{AccountReport, KindReport, Observation};
use crate::control::report::{LaneReport, PoolReport};
use crate::control::spread::{Quantiles, Spread};

/// Intervals whose figures are kept: as many as the widest terminal has columns.
const POINTS_MAX: usize = 400;

/// Figures of one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) calls_per_s: f64,
    /// Requests that waited for the log.
    pub(super) commits_per_s: f64,
    /// Modifying requests as a whole.
    pub(super) request: Quantiles,
    /// Waits for the log's device.
    pub(super) device: Quantiles,
}

/// What one client has asked of one dataset in the interval.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) client: String,
    pub(super) dataset: String,
    pub(super) calls_per_s: f64,
    pub(super) commits_per_s: f64,
    pub(super) data_per_s: f64,
    /// Its part of all waiting for stable storage, 0..=1.
    pub(super) wait_share: f64,
    /// Mean time of a call, nanoseconds.
    pub(super) mean_ns: u64,
}

/// A lane in the interval.
pub(super) struct LaneRow<'a> {
    pub(super) lane: &'a LaneReport,
    pub(super) frames_per_s: f64,
    pub(super) records_per_frame: Option<f64>,
    pub(super) device: Quantiles,
}

/// By what clients are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Wait,
    Calls,
    Data,
    Name,
}

impl Sort {
    /// Its name on the screen.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Calls => "calls",
            Self::Data => "data",
            Self::Name => "name",
        }
    }
}

/// Everything that is shown.
pub(super) struct Watch {
    pub(super) host: String,
    pub(super) sort: Sort,
    pub(super) paused: bool,
    pub(super) points: VecDeque<Point>,
    /// Since when there is no answer, and why.
    pub(super) lost: Option<(Instant, String)>,
    before: Option<Box<Observation>>,
    now: Option<Box<Observation>>,
    pool: usize,
}

impl Watch {
    /// Nothing yet.
    pub(super) fn new(host: String) -> Self {
        Self {
            host,
            sort: Sort::default(),
            paused: false,
            points: VecDeque::new(),
            lost: None,
            before: None,
            now: None,
            pool: 0,
        }
    }

    /// One look more. Tells whether there is something else to show.
    pub(super) fn take(&mut self, seen: Seen) -> bool {
        if self.paused {
            return false;
        }
        let now = match seen {
            Ok(now) => now,
            Err(error) => {
                let since = self.lost.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                self.lost = Some((since, error));
                return true;
            }
        };
        self.lost = None;
        self.before = self.now.take();
        // Another start of the daemon counts from zero again.
        if self.before.as_ref().is_some_and(|before| before.uptime_seconds > now.uptime_seconds) {
            self.before = None;
            self.points.clear();
        }
        self.now = Some(now);
        if let Some(point) = self.point() {
            if self.points.len() == POINTS_MAX {
                self.points.pop_front();
            }
            self.points.push_back(point);
        }
        true
    }

    /// The newest observation.
    pub(super) fn now(&self) -> Option<&Observation> {
        self.now.as_deref()
    }

    /// The pool whose groups and lanes are shown.
    pub(super) fn pool(&self) -> Option<&PoolReport> {
        let pools = &self.now()?.pools;
        pools.get(self.pool % pools.len().max(1))
    }

    pub(super) fn toggle_pause(&mut self) {
        self.paused = !self.paused;
    }

    pub(super) fn next_pool(&mut self) {
        self.pool = self.pool.wrapping_add(1);
    }

    pub(super) fn sort_otherwise(&mut self) {
        self.sort = match self.sort {
            Sort::Wait => Sort::Calls,
            Sort::Calls => Sort::Data,
            Sort::Data => Sort::Name,
            Sort::Name => Sort::Wait,
        };
    }

    /// Length of the interval.
    fn seconds(&self) -> Option<f64> {
        let (now, before) = (self.now()?, self.before.as_ref()?);
        Some((now.uptime_seconds - before.uptime_seconds).max(0.001))
    }

    fn grown(&self) -> Vec<AccountReport> {
        match (self.now(), &self.before) {
            (Some(now), Some(before)) => now.accounts_since(Some(before)),
            _ => Vec::new(),
        }
    }

    #[allow(clippy::cast_precision_loss)] // Rates are rounded for people anyway.
    fn point(&self) -> Option<Point> {
        let (now, before, seconds) = (self.now()?, self.before.as_ref()?, self.seconds()?);
        let grown = self.grown();
        let calls = |seen: &Observation| seen.ops.procedures.iter().map(|op| op.calls).sum::<u64>();
        let device = grown.iter().fold(Spread::default(), |sum, account| sum.with(&account.device));
        Some(Point {
            calls_per_s: calls(now).saturating_sub(calls(before)) as f64 / seconds,
            commits_per_s: grown.iter().map(|account| account.commits).sum::<u64>() as f64 / seconds,
            request: now.ops.whole_times.since(&before.ops.whole_times).quantiles(),
            device: device.quantiles(),
        })
    }

    /// Clients of the interval in the order that was asked for.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn rows(&self) -> Vec<Row> {
        let seconds = self.seconds().unwrap_or(1.0);
        let mut all: Vec<(AccountReport, KindReport)> = Vec::new();
        for account in self.grown() {
            let sum = account.kinds.iter().fold(KindReport::default(), |mut sum, kind| {
                sum.add(kind);
                sum
            });
            all.push((account, sum));
        }
        let waits: u64 = all.iter().map(|(_, sum)| sum.wait_ns()).sum();
        match self.sort {
            Sort::Wait => all.sort_by_key(|(_, sum)| Reverse((sum.wait_ns(), sum.calls))),
            Sort::Calls => all.sort_by_key(|(_, sum)| Reverse(sum.calls)),
            Sort::Data => all.sort_by_key(|(_, sum)| Reverse(sum.data_bytes)),
            Sort::Name => all.sort_by(|(a, _), (b, _)| (&a.client, &a.dataset).cmp(&(&b.client, &b.dataset))),
        }
        let row = |(account, sum): (AccountReport, KindReport)| Row {
            calls_per_s: sum.calls as f64 / seconds,
            commits_per_s: account.commits as f64 / seconds,
            data_per_s: sum.data_bytes as f64 / seconds,
            wait_share: sum.wait_ns() as f64 / waits.max(1) as f64,
            mean_ns: sum.time_ns() / sum.calls.max(1),
            client: account.client,
            dataset: account.dataset,
        };
        all.into_iter().map(row).collect()
    }

    /// Lanes of the pool that is shown.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn lanes(&self) -> Vec<LaneRow<'_>> {
        let Some(pool) = self.pool() else { return Vec::new() };
        let old_pool = self.before.as_ref().and_then(|before| before.pools.iter().find(|old| old.guid == pool.guid));
        let seconds = self.seconds().unwrap_or(1.0);
        let row = |lane| {
            let &LaneReport { lane: number, frames, records, ref write, .. } = lane;
            let old = old_pool.and_then(|pool| pool.lanes.iter().find(|old| old.lane == number));
            let new_frames = old.map_or(0, |old| frames.saturating_sub(old.frames));
            let new_records = old.map_or(0, |old| records.saturating_sub(old.records));
            LaneRow {
                lane,
                frames_per_s: new_frames as f64 / seconds,
                records_per_frame: (new_frames > 0).then(|| new_records as f64 / new_frames as f64),
                device: old.map_or_else(Quantiles::default, |old| write.since(&old.write).quantiles()),
            }
        };
        pool.lanes.iter().map(row).collect()
    }
}
