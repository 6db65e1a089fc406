//! All short sequences of requests, and every cut of the power in them: `cargo xtask cuts` builds and runs it.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use tally_sim::sequences::{Case, LAYOUTS, explore};

/// How often progress is told.
const TELLING_EVERY: Duration = Duration::from_secs(15);

/// Every power cut in every short sequence of requests.
#[derive(Parser)]
#[command(name = "cuts")]
struct Arguments {
    /// Requests and syncs of a sequence, at most
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=4))]
    letters: u8,
    /// End when so many states were compared; sequences are then taken from everywhere
    #[arg(long)]
    states: Option<u64>,
    /// One sequence alone, as a finding names it
    #[arg(long)]
    sequence: Option<String>,
    /// The disks that it is run on
    #[arg(long, requires = "sequence", default_value = LAYOUTS[0].0, value_parser = LAYOUTS.map(|(name, _)| name))]
    layout: String,
    /// Sequences at once [default: one for each processor]
    #[arg(long)]
    threads: Option<usize>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let layout = LAYOUTS.iter().position(|(name, _)| *name == arguments.layout).unwrap_or_default();
    let mut cases = match &arguments.sequence {
        None => Case::all(arguments.letters.into()),
        Some(names) => match Case::named(layout, names) {
            Some(case) => vec![case],
            None => {
                eprintln!("cuts: {names:?} names something that sequences do not have");
                return ExitCode::FAILURE;
            }
        },
    };
    if arguments.states.is_some() {
        cases = Case::mixed(&cases);
    }
    let threads = arguments.threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let (started, told, count) = (Instant::now(), AtomicU64::new(0), cases.len());
    let tell = |number: usize, states: u64| {
        let elapsed = started.elapsed().as_secs();
        let turn = elapsed / TELLING_EVERY.as_secs();
        if told.swap(turn, Ordering::Relaxed) < turn {
            eprintln!("cuts: {number} of {count} sequences, {states} states in {elapsed} s");
        }
    };
    match explore(&cases, arguments.states.unwrap_or(u64::MAX), threads, &tell) {
        Ok(totals) => {
            println!(
                "cuts: {} states of {} sequences in {} s ({} sequences speak of what is not there): {} records replayed, {} \
                 requests sent again and answered from memory",
                totals.states,
                totals.sequences,
                started.elapsed().as_secs(),
                totals.impossible,
                totals.replayed,
                totals.remembered
            );
            ExitCode::SUCCESS
        }
        Err(finding) => {
            let (name, layout) = (finding.case.name(), LAYOUTS[finding.case.layout].0);
            println!("{name} on {layout} fails: {}", finding.message);
            println!("repeat it with: cargo xtask cuts -- --sequence {name} --layout {layout}");
            ExitCode::FAILURE
        }
    }
}
