//! Many seeds, on as many processors as there are; a seed that fails is run again, shorter.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::history::{Failure, Plan, Totals, run, shrink};

/// Runs that looking for a shorter history may take.
const SHRINK_RUNS: usize = 300;
/// Failures after which a sweep ends.
const FAILURES_MAX: usize = 10;

/// What is swept.
pub struct Sweep<'a> {
    seeds: Range<u64>,
    plan: &'a (dyn Fn(u64) -> Plan + Sync),
    until: Option<Instant>,
    threads: usize,
    progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

/// What has come of it.
pub struct Outcome {
    /// Of the seeds that held.
    pub totals: Totals,
    /// Seeds that were run.
    pub seeds: u64,
    /// Those that failed, by seed.
    pub failed: Vec<(Plan, Failure)>,
}

impl<'a> Sweep<'a> {
    /// These seeds, each with the plan that belongs to it.
    #[must_use]
    pub fn over(seeds: Range<u64>, plan: &'a (dyn Fn(u64) -> Plan + Sync)) -> Self {
        Self { seeds, plan, until: None, threads: 1, progress: None }
    }

    /// Begins no seed after this time.
    #[must_use]
    pub fn at_most(self, time: Duration) -> Self {
        Self { until: Some(Instant::now() + time), ..self }
    }

    /// So many seeds at once. What each of them does is its own.
    #[must_use]
    pub fn on(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Calls this with the number of seeds that are done.
    #[must_use]
    pub fn telling(self, progress: &'a (dyn Fn(u64) + Sync)) -> Self {
        Self { progress: Some(progress), ..self }
    }
}

/// Runs a sweep to its end.
#[must_use]
pub fn sweep(sweep: &Sweep<'_>) -> Outcome {
    let next = AtomicU64::new(sweep.seeds.start);
    let outcome = Mutex::new(Outcome { totals: Totals::default(), seeds: 0, failed: Vec::new() });
    // A panic of the tree is a finding with a trace of its own; the standard message would come before its story.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..sweep.threads {
            scope.spawn(|| one_after_the_other(sweep, &next, &outcome));
        }
    });
    std::panic::set_hook(hook);
    let mut outcome = outcome.into_inner();
    outcome.failed.sort_by_key(|(plan, _)| plan.seed);
    outcome
}

fn one_after_the_other(sweep: &Sweep<'_>, next: &AtomicU64, outcome: &Mutex<Outcome>) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let is_late = sweep.until.is_some_and(|until| Instant::now() >= until);
        if seed >= sweep.seeds.end || is_late || outcome.lock().failed.len() >= FAILURES_MAX {
            return;
        }
        let plan = (sweep.plan)(seed);
        let result = run(&plan);
        let mut outcome = outcome.lock();
        outcome.seeds += 1;
        match result {
            Ok(totals) => outcome.totals += totals,
            Err(failure) => outcome.failed.push((plan, failure)),
        }
        if let Some(progress) = sweep.progress {
            progress(outcome.seeds);
        }
    }
}

impl Outcome {
    /// The first failure, as short as it could be made in a while.
    #[must_use]
    pub fn first_failure(mut self) -> Option<String> {
        let count = self.failed.len();
        if count == 0 {
            return None;
        }
        let (plan, failure) = self.failed.swap_remove(0);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let (plan, failure) = shrink(&plan, failure, SHRINK_RUNS);
        std::panic::set_hook(hook);
        let trace = failure.trace.join("\n");
        Some(format!("{count} seeds failed; the first one:\n{plan:?}\n{trace}\n{}", failure.message))
    }
}
