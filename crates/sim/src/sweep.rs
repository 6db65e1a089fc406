//! Many seeds, on as many processors as there are; a seed that fails is run again, shorter.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::history::{Failure, Plan, Totals, run, shrink};
use crate::panics::quietly;

/// Runs that looking for a shorter history may take.
const SHRINK_RUNS: usize = 300;
/// Failures after which a sweep ends.
const FAILURES_MAX: usize = 10;

/// A history takes a second, and less than a minute in an unoptimized build on a busy machine: one that takes so long hangs.
const HANG: Duration = Duration::from_secs(600);
/// How often that is looked at.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

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
    let running = Running::default();
    quietly(|| {
        std::thread::scope(|scope| {
            let one = || one_after_the_other(sweep, &next, &outcome, &running);
            let workers: Vec<_> = (0..sweep.threads).map(|_| scope.spawn(one)).collect();
            let watch = scope.spawn(|| running.watch());
            let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            running.is_over.store(true, Ordering::Release);
            watch.thread().unpark();
            if let Some(panic) = ends.into_iter().find_map(Result::err) {
                std::panic::resume_unwind(panic);
            }
        });
    });
    let mut outcome = outcome.into_inner();
    outcome.failed.sort_by_key(|(plan, _)| plan.seed);
    outcome
}

/// Seeds that are run. In a history nobody but itself gets it on, so one that waits does so for ever.
#[derive(Default)]
struct Running {
    since: Mutex<BTreeMap<u64, Instant>>,
    is_over: AtomicBool,
}

impl Running {
    /// Ends the process where a seed hangs: its thread cannot be ended, and its name has to be told.
    fn watch(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            std::thread::park_timeout(WATCH_INTERVAL);
            let hangs = |since: &Instant| since.elapsed() > HANG;
            let hanging = self.since.lock().iter().find(|(_, since)| hangs(since)).map(|(seed, _)| *seed);
            if let Some(seed) = hanging {
                let told =
                    format!("sim: seed {seed} hangs; repeat it with: cargo xtask sim -- --seed {seed} --no-shrink\n");
                // Not by a macro: what those print tests keep to themselves, and this one does not end.
                let _ = std::io::stderr().write_all(told.as_bytes());
                std::process::exit(1);
            }
        }
    }
}

fn one_after_the_other(sweep: &Sweep<'_>, next: &AtomicU64, outcome: &Mutex<Outcome>, running: &Running) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let is_late = sweep.until.is_some_and(|until| Instant::now() >= until);
        if seed >= sweep.seeds.end || is_late || outcome.lock().failed.len() >= sweep.failures_max {
            return;
        }
        let plan = (sweep.plan)(seed);
        running.since.lock().insert(seed, Instant::now());
        let result = run(&plan);
        running.since.lock().remove(&seed);
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
        let Plan { seed, steps, syncs, trouble, reserves, .. } = plan;
        Some(format!(
            "{}\nseed {seed} fails: {}\nrepeat it with: cargo xtask sim -- --seed {seed} --steps {steps} --syncs {} --trouble \
             {} --reserves {reserves}{skip} --no-shrink",
            failure.trace.join("\n"),
            failure.message,
            format!("{syncs:?}").to_lowercase(),
            format!("{trouble:?}").to_lowercase(),
        ))
    }
}
