//! Random histories with power cuts, on the real file system and on the model.
//!
//! A seed alone repeats a history. `TALLY_RANDOM_SEEDS=FROM..TO` runs these seeds instead of the fixed ones.

mod chance;

use chance::disks::Disks;
use chance::history::{Failure, Plan, Syncs, Totals, run, shrink};

/// Runs that looking for a shorter history may take.
const SHRINK_RUNS: usize = 300;

fn report(plan: &Plan, failure: Failure) -> String {
    let shrink_runs = std::env::var("TALLY_RANDOM_SHRINK").ok().and_then(|runs| runs.parse().ok());
    let (plan, failure) = shrink(plan, failure, shrink_runs.unwrap_or(SHRINK_RUNS));
    format!("{plan:?}\n{}\n{}", failure.trace.join("\n"), failure.message)
}

fn sweep(seeds: std::ops::Range<u64>, steps: usize, syncs: Syncs) {
    let mut totals = Totals::default();
    let mut failed = Vec::new();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for seed in seeds {
        let plan = Plan { seed, steps, syncs, skipped: Vec::new() };
        match run(&plan) {
            Ok(of_seed) => totals += of_seed,
            Err(failure) => {
                println!("seed {seed}: {}", failure.message.lines().next().unwrap_or_default());
                failed.push((plan, failure));
            }
        }
    }
    std::panic::set_hook(hook);
    println!("{totals:?}");
    if !failed.is_empty() {
        let count = failed.len();
        let (plan, failure) = failed.swap_remove(0);
        panic!("{count} seeds failed; the first one:\n{}", report(&plan, failure));
    }
}

fn seeds(fixed: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(asked) = std::env::var("TALLY_RANDOM_SEEDS") else { return fixed };
    let (from, to) = asked.split_once("..").expect("TALLY_RANDOM_SEEDS is FROM..TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn one_after_the_other() {
    sweep(seeds(0..80), 150, Syncs::Between);
}

#[test]
fn with_operations_inside_of_syncs() {
    sweep(seeds(0..80), 150, Syncs::Around);
}

#[test]
fn with_syncs_from_another_thread() {
    sweep(seeds(0..8), 150, Syncs::Beside);
}

/// Seed 39 of the first version. An import raises the labels' sequence number on one disk after the other. Cut there, the
/// log disk was one behind, which the next import accepts; cut there again it was two behind, was taken for an older
/// copy, and the pool with everything acknowledged in its log could not be imported any more.
#[test]
fn imports_that_are_cut_short_one_after_the_other_cost_no_disk() {
    for first in 1..10 {
        for second in 1..10 {
            let mut machine = Disks::new(&["/d/data", "log", "/d/slog"]);
            machine.create();
            for cut in [first, second, first] {
                machine.power_fails(Some(cut));
                let _cut_short = machine.import();
            }
            machine.power_fails(None);
            if let Err(error) = machine.import() {
                panic!("cut after {first}, {second} and {first} writes: {error}");
            }
        }
    }
}
