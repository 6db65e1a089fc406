//! Many seeds, on as many processors as there are; a seed that fails is run again, shorter.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::history::{Failure, Plan, Totals, run, shrink};
use crate::panics::quietly;

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
    failures_max: usize,
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
        Self { seeds, plan, until: None, threads: 1, failures_max: FAILURES_MAX, progress: None }
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

    /// Ends with the first failure.
    #[must_use]
    pub fn until_failure(self) -> Self {
        Self { failures_max: 1, ..self }
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
    quietly(|| {
        std::thread::scope(|scope| {
            for _ in 0..sweep.threads {
                scope.spawn(|| one_after_the_other(sweep, &next, &outcome));
            }
        });
    });
    let mut outcome = outcome.into_inner();
    outcome.failed.sort_by_key(|(plan, _)| plan.seed);
    outcome
}

fn one_after_the_other(sweep: &Sweep<'_>, next: &AtomicU64, outcome: &Mutex<Outcome>) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let is_late = sweep.until.is_some_and(|until| Instant::now() >= until);
        if seed >= sweep.seeds.end || is_late || outcome.lock().failed.len() >= sweep.failures_max {
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
    /// The first failure: its trace, as short as it could be made in a while, what was wrong, and the command that
    /// repeats it.
    #[must_use]
    pub fn first_failure(mut self, shorter: bool) -> Option<String> {
        if self.failed.is_empty() {
            return None;
        }
        let (mut plan, mut failure) = self.failed.swap_remove(0);
        if shorter {
            (plan, failure) = quietly(|| shrink(&plan, failure, SHRINK_RUNS));
        }
        let skipped: Vec<String> = plan.skipped.iter().map(usize::to_string).collect();
        let skip = if skipped.is_empty() { String::new() } else { format!(" --skip {}", skipped.join(",")) };
        let Plan { seed, steps, syncs, trouble, .. } = plan;
        Some(format!(
            "{}\nseed {seed} fails: {}\nrepeat it with: cargo xtask sim -- --seed {seed} --steps {steps} --syncs {} --trouble \
             {}{skip} --no-shrink",
            failure.trace.join("\n"),
            failure.message,
            format!("{syncs:?}").to_lowercase(),
            format!("{trouble:?}").to_lowercase(),
        ))
    }
}
