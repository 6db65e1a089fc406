//! A benchmark from beginning to end: the probe and the case, as often as was asked for, each time in a fresh folder
//! that goes away afterwards, also after an error or an interruption.

mod mark;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::case::Case;
use crate::client::{As, Client, Interrupted, Site};
use crate::meter::Meter;
use crate::referee::{Findings, Pace, Verdict, probe};
use crate::report::{Report, Run};
use crate::stage::{Stage, Told};
use crate::wire::random_u32;
use crate::work::Watch;

use mark::Mark;

/// What is done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The case.
    pub case: Case,
    /// How often.
    pub runs: usize,
    /// In whose name.
    pub whose: As,
    /// How long the disks must have written nothing until a part counts as ended; zero does not wait.
    pub quiet: Duration,
    /// Whether the folders stay.
    pub keep: bool,
    /// What is measured, in words.
    pub target: String,
    /// How thorough the referee is.
    pub pace: Pace,
}

/// Somebody who watches, or why nobody does.
pub type Referee = Result<Box<dyn Watch>, String>;

/// Carries a plan out.
pub fn run<S: Site>(
    plan: &Plan,
    site: &S,
    mut referee: Referee,
    stop: &AtomicBool,
    told: &mut dyn FnMut(Told<'_>),
) -> Result<Report> {
    ensure!(plan.runs > 0, "at least one run");
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let watched = referee.as_ref().ok().map(|watch| watch.source());
    let mut runs = Vec::with_capacity(plan.runs);
    for number in 1..=plan.runs {
        ensure!(!stop.load(Relaxed), Interrupted);
        told(Told::Line(&format!("run {number} of {}", plan.runs)));
        runs.push(one(plan, site, &mut referee, stop, told)?);
    }
    Ok(Report::new(plan, started, watched, runs))
}

fn one<S: Site>(
    plan: &Plan,
    site: &S,
    referee: &mut Referee,
    stop: &AtomicBool,
    told: &mut dyn FnMut(Told<'_>),
) -> Result<Run> {
    let name = format!("tally-bench-{:08x}", random_u32()?);
    let folder = site.make_run(&name)?;
    let done = probe_and_case(plan, site, &folder, referee, stop, told);
    if plan.keep {
        told(Told::Line(&format!("kept: {name}")));
        return done;
    }
    if done.is_err() {
        told(Told::Line(&format!("removing {name}; interrupt again to leave it behind")));
    }
    let removed = site.remove_run(&name, &mut |done| told(Told::Progress { what: "removing", done, total: 0 }));
    let removed =
        removed.with_context(|| format!("the folder {name} could not be removed and is left in {}", plan.target));
    match (done, removed) {
        (Ok(run), removed) => removed.map(|()| run),
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(left)) => Err(error.context(format!("{left:#}; before that"))),
    }
}

fn probe_and_case<S: Site>(
    plan: &Plan,
    site: &S,
    folder: &<S::Client as Client>::Node,
    referee: &mut Referee,
    stop: &AtomicBool,
    told: &mut dyn FnMut(Told<'_>),
) -> Result<Run> {
    let (findings, verdict) = match referee {
        Ok(watch) => {
            let findings = findings(plan.pace, site, folder, watch.as_mut(), stop, told)?;
            let verdict = judge(site, &findings);
            let accused = matches!(verdict, Verdict::NotDurable { .. });
            let known = !accused || watch.are_the_servers() || findings.disks_are_theirs();
            let mark = Mark { pace: plan.pace, stop };
            let foreign = if known || mark.arrives(site, folder, watch.as_mut(), told)? {
                findings.other_disks().filter(|_| !accused)
            } else {
                Some(FOREIGN_DISKS.to_owned())
            };
            match foreign {
                None => (Some(findings), verdict),
                Some(reason) => {
                    // What they did says nothing of the case either, nor of the runs to come.
                    *referee = Err(reason.clone());
                    (Some(findings), Verdict::Unverified { reason })
                }
            }
        }
        Err(reason) => (None, Verdict::Unverified { reason: reason.clone() }),
    };
    let watch = referee.as_mut().ok();
    let (whose, quiet) = (plan.whose, plan.quiet);
    let mut stage = Stage { site, folder: folder.clone(), watch, told, stop, quiet, whose };
    let phases = plan.case.run(&mut stage)?;
    let verdict = match &findings {
        Some(findings) => findings.with_case(verdict, &phases),
        None => verdict,
    };
    Ok(Run { phases, findings, verdict })
}

fn findings<S: Site>(
    pace: Pace,
    site: &S,
    folder: &<S::Client as Client>::Node,
    watch: &mut dyn Watch,
    stop: &AtomicBool,
    told: &mut dyn FnMut(Told<'_>),
) -> Result<Findings> {
    let mut client = site.client(&Arc::new(Meter::default()))?;
    let total = site.kinds().len() as u64 * pace.probes;
    probe(&mut client, folder, site.kinds(), watch, pace, &mut |done| {
        if done.is_multiple_of((pace.probes / 10).max(1)) {
            told(Told::Progress { what: "probing", done, total });
        }
        ensure!(!stop.load(Relaxed), Interrupted);
        Ok(())
    })
}

const FOREIGN_DISKS: &str = "what was written did not arrive at the disks that are watched, or no more than arrives \
                             there anyway: are they those below the server, and is that on this machine?";

/// Where a place promises nothing, its disks can only make matters worse.
fn judge<S: Site>(site: &S, findings: &Findings) -> Verdict {
    match (findings.verdict(), site.beyond_judgement()) {
        (broken @ Verdict::NotDurable { .. }, _) => broken,
        (_, Some(reason)) => Verdict::Unverified { reason },
        (verdict, None) => verdict,
    }
}
