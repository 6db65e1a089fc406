//! What clients of version 4 hold, over all lives of a server: `cargo xtask holding` builds and runs it.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use parking_lot::Mutex;
use tally_sim::holding::{FLOORS, Totals, sweep};

/// Seeds that a thread takes at once.
const PORTION: u64 = 10;

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
    let (started, next, failed) = (Instant::now(), AtomicU64::new(seeds.start), AtomicBool::new(false));
    let all = Mutex::new(Totals::default());
    let one_after_the_other = || {
        while !failed.load(Ordering::Relaxed) {
            let from = next.fetch_add(PORTION, Ordering::Relaxed);
            if from >= seeds.end {
                return;
            }
            match sweep(from..seeds.end.min(from + PORTION), arguments.steps) {
                Ok(totals) => *all.lock() += totals,
                Err(report) => {
                    failed.store(true, Ordering::Relaxed);
                    println!("{report}");
                }
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(one_after_the_other)));
    if failed.into_inner() {
        return ExitCode::FAILURE;
    }
    let (totals, count) = (all.into_inner(), seeds.end - seeds.start);
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
