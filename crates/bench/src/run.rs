//! A benchmark from beginning to end: the probe and the case, as often as was asked for, each time in a fresh folder
//! that goes away afterwards, also after an error or an interruption.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::case::Plan;
use crate::client::{Client, Interrupted, Site};
use crate::meter::Meter;
use crate::referee::{Findings, Verdict, disks_are_theirs, probe};
use crate::report::{Report, Run};
use crate::stage::{Phase, Stage, Told};
use crate::wire::random_u32;
use crate::work::Watch;

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
            let findings = findings(plan, site, folder, watch.as_mut(), stop, told)?;
            let verdict = judge(site, &findings);
            let unknown = match &verdict {
                Verdict::NotDurable { .. } if !watch.is_the_servers() => {
                    disks_are_theirs(site, folder, watch.as_mut(), &plan.pace, stop, told)?
                }
                _ => None,
            };
            match unknown {
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
    let verdict = match (verdict, findings.as_ref().and_then(|findings| unjudged(findings, &phases))) {
        (Verdict::Honest, Some(reason)) => Verdict::Unverified { reason },
        (verdict, _) => verdict,
    };
    Ok(Run { phases, findings, verdict })
}

/// What the case promised, and the probe says nothing of.
fn unjudged(findings: &Findings, phases: &[Phase]) -> Option<String> {
    for phase in phases {
        if let Some(kind) = phase.kinds.iter().find(|kind| !findings.has_judged(**kind)) {
            let probed = findings.kinds.iter().any(|count| count.kind == *kind && count.refused.is_some());
            let how =
                if probed { "which the server refused when it was probed" } else { "of which the probe saw none" };
            return Some(format!("{} used {}, {how}", phase.name, kind.word()));
        }
        // Several clients share what makes their promises durable; one alone has an event for each, but where a request
        // changed nothing.
        let needed = if phase.connections == 1 { phase.promises.div_ceil(2) } else { 1 };
        let events = phase.work.map(|work| work.durable_events + work.unknown_events);
        if phase.promises > 0 && events.is_some_and(|events| events < needed) {
            let (name, promises) = (&phase.name, phase.promises);
            let events = events.unwrap_or(0);
            return Some(format!(
                "the lone requests were kept, but {name} had {events} events for {promises} promises"
            ));
        }
    }
    None
}

fn findings<S: Site>(
    plan: &Plan,
    site: &S,
    folder: &<S::Client as Client>::Node,
    watch: &mut dyn Watch,
    stop: &AtomicBool,
    told: &mut dyn FnMut(Told<'_>),
) -> Result<Findings> {
    let mut client = site.client(&Arc::new(Meter::default()))?;
    let probes = plan.pace.probes;
    let total = site.kinds().len() as u64 * probes;
    probe(&mut client, folder, site.kinds(), watch, &plan.pace, &mut |done| {
        if done.is_multiple_of(probes.div_ceil(10)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::Kind;
    use crate::referee::KindCount;
    use crate::work::Work;

    #[test]
    fn what_the_case_promised_and_nobody_judged_is_not_honest() {
        let judged = KindCount { replies: 200, durable: 200, ..KindCount::new(Kind::Create) };
        let refused = KindCount { refused: Some("NOTSUPP".into()), ..KindCount::new(Kind::CreateExclusive) };
        let told = KindCount { replies: 200, durable: 200, ..KindCount::new(Kind::WriteToldStable) };
        let findings = Findings { kinds: vec![judged, refused, told], ..Findings::default() };
        let phase = |kind, connections, promises, durable_events| Phase {
            name: "create".into(),
            kinds: vec![kind],
            connections,
            promises,
            work: Some(Work { durable_events, ..Work::default() }),
            ..Phase::default()
        };
        let none = "the lone requests were kept, but create had 0 events for 400 promises";
        let few = "the lone requests were kept, but create had 100 events for 400 promises";
        let refused = "create used CREATE EXCLUSIVE, which the server refused when it was probed";
        let cases = [
            ("each has its event", phase(Kind::Create, 1, 400, 400), None),
            ("some changed nothing", phase(Kind::Create, 1, 400, 250), None),
            ("one alone shares with nobody", phase(Kind::Create, 1, 400, 100), Some(few)),
            ("many share", phase(Kind::Create, 16, 400, 100), None),
            ("nothing at all", phase(Kind::Create, 16, 400, 0), Some(none)),
            ("never judged", phase(Kind::CreateExclusive, 1, 400, 400), Some(refused)),
            ("every WRITE was stable", phase(Kind::WriteToldStable, 1, 1, 1), None),
            (
                "only the lone ones were",
                phase(Kind::Commit, 1, 1, 1),
                Some("create used COMMIT, of which the probe saw none"),
            ),
        ];
        for (name, phase, expected) in cases {
            assert_eq!(unjudged(&findings, &[phase]).as_deref(), expected, "{name}");
        }
    }
}
