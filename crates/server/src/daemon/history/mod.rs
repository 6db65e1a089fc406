//! The last half hour, for whoever draws it: a ring of [`Sample`]s, and the thread that fills it.
//!
//! Counters alone cannot show what was a minute ago to somebody who comes now, and a dashboard that starts empty is
//! looked at in vain: trouble is looked for after it has begun. So the daemon keeps a little itself. It keeps
//! differences in coarse steps, not observations: those have a histogram for each client and dataset, these are of a
//! fixed size. What is wanted for longer belongs in Prometheus.
//!
//! Cost: one observation every [`INTERVAL`], read from atomics that are there anyway, and at most [`SAMPLES_MAX`]
//! samples of about a kilobyte. All of it is behind one lock that no request of a client takes.

mod sample;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde::Serialize;

pub(super) use sample::Busy;
use sample::{Sample, busy, unix_ms};

use super::ticker::Ticker;
use crate::control::observation::Observation;
use crate::control::spread::doubling_bounds;

/// Between two samples.
pub(super) const INTERVAL: Duration = Duration::from_secs(2);
/// Samples that are kept: half an hour.
pub(super) const SAMPLES_MAX: usize = 900;
/// Over how many samples clients are compared: ten seconds, so that a table does not flicker.
const BUSY_SAMPLES: usize = 5;

/// The ring. It may be read while it is filled.
pub(super) struct History {
    start_unix_ms: u64,
    samples: Mutex<VecDeque<Sample>>,
}

/// What is told of it. Fields are never renamed.
#[derive(Serialize)]
pub(super) struct HistoryReport {
    /// When the daemon was started, milliseconds since 1970-01-01 UTC: numbers of samples begin anew with it.
    start_unix_ms: u64,
    /// Seconds between samples.
    interval_seconds: f64,
    /// Samples that are kept.
    samples_max: usize,
    /// Upper ends of the steps of distributions, nanoseconds. There is one step more, which has none.
    bucket_ns: Vec<u64>,
    /// The number of the next sample: what to ask for next time.
    next: u64,
    /// Oldest first.
    samples: Vec<Sample>,
    /// Seconds that `busiest` is about.
    busiest_seconds: f64,
    /// Clients and datasets that waited longest for stable storage in the newest samples.
    busiest: Vec<Busy>,
}

impl Default for History {
    fn default() -> Self {
        Self { start_unix_ms: unix_ms(SystemTime::now()), samples: Mutex::default() }
    }
}

impl History {
    /// One sample more; the oldest goes where there are too many.
    fn push(&self, mut sample: Sample) {
        let mut samples = self.samples.lock();
        sample.number = samples.back().map_or(0, |last| last.number + 1);
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        if let Some(old) = samples.len().checked_sub(BUSY_SAMPLES).and_then(|at| samples.get_mut(at)) {
            old.busy = Vec::new();
        }
        samples.push_back(sample);
        debug_assert!(samples.len() <= SAMPLES_MAX);
    }

    /// Samples from number `since` on, and who was busiest.
    pub(super) fn report(&self, since: u64) -> HistoryReport {
        let samples = self.samples.lock();
        let newest = samples.len().saturating_sub(BUSY_SAMPLES);
        let recent = || samples.iter().skip(newest);
        HistoryReport {
            start_unix_ms: self.start_unix_ms,
            interval_seconds: INTERVAL.as_secs_f64(),
            samples_max: SAMPLES_MAX,
            bucket_ns: doubling_bounds().collect(),
            next: samples.back().map_or(0, |last| last.number + 1),
            samples: samples.iter().filter(|sample| sample.number >= since).cloned().collect(),
            busiest_seconds: recent().map(|sample| sample.seconds).sum(),
            busiest: busy(recent().flat_map(|sample| sample.busy.iter().cloned()).collect()),
        }
    }

    /// When the daemon was started, seconds since 1970-01-01 UTC.
    pub(super) fn start_unix_seconds(&self) -> f64 {
        Duration::from_millis(self.start_unix_ms).as_secs_f64()
    }
}

/// Starts the thread that takes samples; `look` observes the daemon.
pub(super) fn sample<L>(look: L, history: Arc<History>, interval: Duration) -> io::Result<Ticker>
where
    L: Fn() -> Arc<Observation> + Send + 'static,
{
    let mut before = look();
    Ticker::start("history", interval, move || {
        let now = look();
        history.push(Sample::between(&before, &now));
        before = now;
    })
}

#[cfg(test)]
mod tests;
