//! A benchmark from beginning to end: the probe and the case, as often as was asked for, each time in a fresh folder
//! that goes away afterwards, also after an error or an interruption.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::case::Case;
use crate::client::{As, Client, Interrupted, Pieces, Site};
use crate::meter::Meter;
use crate::referee::{Findings, PROBES, Verdict, probe};
use crate::report::{Report, Run};
use crate::stage::{SETTLE_MAX, Stage, TOLD_EVERY, Told};
use crate::wire::random_u32;
use crate::work::Watch;

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
            let findings = findings(site, folder, watch.as_mut(), stop, told)?;
            let verdict = judge(site, &findings);
            let accused = matches!(verdict, Verdict::NotDurable { .. });
            if !accused || disks_are_theirs(site, folder, watch.as_mut(), stop, told)? {
                (Some(findings), verdict)
            } else {
                // What they did says nothing of the case either, nor of the runs to come.
                *referee = Err(FOREIGN_DISKS.into());
                (Some(findings), Verdict::Unverified { reason: FOREIGN_DISKS.into() })
            }
        }
        Err(reason) => (None, Verdict::Unverified { reason: reason.clone() }),
    };
    let watch = referee.as_mut().ok();
    let (whose, quiet) = (plan.whose, plan.quiet);
    let mut stage = Stage { site, folder: folder.clone(), watch, told, stop, quiet, whose };
    Ok(Run { phases: plan.case.run(&mut stage)?, findings, verdict })
}

fn findings<S: Site>(
    site: &S,
    folder: &<S::Client as Client>::Node,
    watch: &mut dyn Watch,
    stop: &AtomicBool,
    told: &mut dyn FnMut(Told<'_>),
) -> Result<Findings> {
    let mut client = site.client(&Arc::new(Meter::default()))?;
    let total = site.kinds().len() as u64 * PROBES;
    probe(&mut client, folder, site.kinds(), watch, &mut |done| {
        if done.is_multiple_of(PROBES / 10) {
            told(Told::Progress { what: "probing", done, total });
        }
        ensure!(!stop.load(Relaxed), Interrupted);
        Ok(())
    })
}

/// Where a place promises nothing, its disks can only make matters worse.
fn judge<S: Site>(site: &S, findings: &Findings) -> Verdict {
    match (findings.verdict(), site.beyond_judgement()) {
        (broken @ Verdict::NotDurable { .. }, _) => broken,
        (_, Some(reason)) => Verdict::Unverified { reason },
        (verdict, None) => verdict,
    }
}

/// Bytes that are written to see whether they arrive.
const MARK_BYTES: u64 = 8 << 20;
const FOREIGN_DISKS: &str = "8M were written, and the disks that are watched never got them: are they those below the \
                             server, and is that on this machine?";

/// Nobody is accused because somebody has named the wrong disks: whatever is written must arrive there some time.
fn disks_are_theirs<S: Site>(
    site: &S,
    folder: &<S::Client as Client>::Node,
    watch: &mut dyn Watch,
    stop: &AtomicBool,
    told: &mut dyn FnMut(Told<'_>),
) -> Result<bool> {
    let mut client = site.client(&Arc::new(Meter::default()))?;
    let file = client.create(folder, "mark")?;
    let (before, length) = (watch.work()?, site.piece_bytes(1 << 20));
    let count = MARK_BYTES / length as u64;
    client.write_long(&file, &mut Pieces::new(count, length, random_u32()?.into(), &mut || Ok(())))?;
    let started = Instant::now();
    while watch.work()?.since(&before).write_bytes < MARK_BYTES {
        if started.elapsed() >= SETTLE_MAX {
            return Ok(false);
        }
        ensure!(!stop.load(Relaxed), Interrupted);
        told(Told::Progress { what: "looking for what was written on the disks", done: 0, total: 0 });
        std::thread::sleep(TOLD_EVERY);
    }
    Ok(true)
}
