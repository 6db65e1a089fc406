//! `tally bench`: a thin front of the crate `tally-bench`. Here are its words, the counters of our own daemon for the
//! referee, the bar, and the tables.

mod args;
mod daemon;
mod print;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tally_bench::case::Plan;
use tally_bench::client::{Export, Mounted, Site};
use tally_bench::report::{self, Report};
use tally_bench::run::{self, Referee};
use tally_bench::stage::Told;
use tally_bench::witness::Pace;
use tally_bench::work::devices::Devices;

use super::console::{Console, Failure};
use super::interrupts::{exit_status, is_ignored};
use super::progress::Bar;
use super::table::TableArgs;
use crate::control::message::Progress;

pub(super) use args::BenchCommand;
use args::{BenchArgs, Place};

/// Carries a benchmark out, or compares saved ones.
pub(super) fn run(
    command: &BenchCommand,
    socket: Option<&Path>,
    json: bool,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    if let BenchCommand::Compare { reports, table } = command {
        return compare(reports, *table, json, console);
    }
    let Some((case, args)) = command.case() else { return Ok(()) };
    let place = args.place().map_err(Failure::Usage)?;
    let plan = Plan {
        case,
        runs: args.runs,
        whose: args.whose,
        quiet: Duration::from_secs(args.quiet),
        keep: args.keep,
        target: place.to_string(),
        pace: Pace::default(),
    };
    let report = match &place {
        Place::Target(url) => Export::mount(url, args.whose)
            .and_then(|export| measure(&plan, &export, Some(&url.export), args, socket, console)),
        Place::Dir(path) => Mounted::open(path).and_then(|dir| measure(&plan, &dir, None, args, socket, console)),
    };
    let report = report.map_err(Failure::Bench)?;
    if let Some(path) = &args.output {
        save(&report, path).map_err(Failure::Bench)?;
    }
    let text = if json { serde_json::to_string_pretty(&report)? + "\n" } else { print::report(&report, args.table) };
    Ok(console.out.write_all(text.as_bytes())?)
}

fn measure<S: Site>(
    plan: &Plan,
    site: &S,
    export: Option<&str>,
    args: &BenchArgs,
    socket: Option<&Path>,
    console: &mut Console<'_>,
) -> Result<Report> {
    let stop = stop_at_signals()?;
    let referee: Referee = if args.device.is_empty() {
        daemon::watch(site, export, socket)
    } else {
        Ok(Box::new(Devices::find(&args.device)?))
    };
    let mut bar = Bar::default();
    run::run(plan, site, referee, &stop, &mut |told| match told {
        Told::Progress { what, done, total } => {
            let what = if total == 0 && done > 0 { format!("{what} {done}") } else { what.to_owned() };
            bar.show(&Progress { what, done, total });
        }
        Told::Line(line) => {
            bar.clear();
            // Nobody may be reading, and that is no reason not to measure.
            let _ = writeln!(console.err, "{line}");
        }
    })
}

/// The first signal asks for an end with a clean-up, the second is the end. One of them is that the terminal is gone. But
/// whoever said `nohup`, or anything like it, goes on.
fn stop_at_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)) {
        signal_hook::flag::register_conditional_shutdown(signal, exit_status(signal), Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn save(report: &Report, path: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(report)? + "\n";
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn compare(
    paths: &[std::path::PathBuf],
    table: TableArgs,
    json: bool,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let read = |path: &std::path::PathBuf| {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let report = serde_json::from_slice(&text).with_context(|| format!("{} is no report", path.display()))?;
        Ok((path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), report))
    };
    let reports: Vec<(String, Report)> = paths.iter().map(read).collect::<Result<_>>().map_err(Failure::Bench)?;
    let groups = report::compare(&reports);
    let text = if json {
        serde_json::to_string_pretty(&print::comparison_json(&groups))? + "\n"
    } else {
        print::comparison(&groups, table)
    };
    Ok(console.out.write_all(text.as_bytes())?)
}
