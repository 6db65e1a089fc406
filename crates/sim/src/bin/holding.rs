//! What clients of version 4 hold, over all lives of a server: `cargo xtask holding` builds and runs it.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use tally_sim::holding::{FLOORS, sweep};

/// Opens, locks, silences, kills and power cuts, and what is claimed again behind them.
#[derive(Parser)]
#[command(name = "holding")]
struct Arguments {
    /// How many seeds
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// One seed alone
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Steps of a history, over all its lives
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Seeds at once [default: one for each processor]
    #[arg(long)]
    threads: Option<usize>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seeds = match arguments.seed {
        Some(seed) => seed..seed + 1,
        None => arguments.from..arguments.from.saturating_add(arguments.seeds),
    };
    let threads = arguments.threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let (started, count) = (Instant::now(), seeds.end - seeds.start);
    let totals = match sweep(seeds, arguments.steps, threads) {
        Ok(totals) => totals,
        Err(report) => {
            println!("{report}");
            return ExitCode::FAILURE;
        }
    };
    println!("holding: {count} seeds in {} s", started.elapsed().as_secs());
    let mut is_short = false;
    for ((what, times), (floor_of, floor)) in totals.each().into_iter().zip(FLOORS) {
        assert_eq!(what, floor_of, "floors are in the order of the totals");
        let wanted = floor * count / 1000;
        let misses = count >= 1000 && times < wanted;
        is_short |= misses;
        println!("holding: {times} {what}; {wanted} are wanted{}", if misses { ": TOO FEW" } else { "" });
    }
    if is_short { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
