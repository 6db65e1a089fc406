//! Tries inputs of one target without libFuzzer: kept ones and seeds, a few bytes of which are changed, cut out, put in or taken from another one. Without the
//! feedback of what is reached it finds less in as many executions, and has several times as many of them, with the stable compiler.
//!
//! `cargo run --release -p tally-fuzz --bin fuzz-plainly -- state 10000000 [SEED]`. An input that fails lies in `target/fuzz/plainly`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use tally_fuzz::{Target, seeds};
use tally_wire::Dice;

/// Most changes of one input.
const CHANGES_MAX: u64 = 6;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (name, count) = (arguments.next(), arguments.next().and_then(|count| count.parse().ok()));
    let seed = arguments.next().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (Some(target), Some(count)) = (name.as_deref().and_then(Target::named), count) else {
        eprintln!("usage: fuzz-plainly TARGET COUNT [SEED]");
        return ExitCode::FAILURE;
    };
    run(target, count, seed);
    ExitCode::SUCCESS
}

fn run(target: &Target, count: u64, seed: u64) {
    let all = first_inputs(target);
    let (mut dice, began, mut believed) = (Dice::new(seed), Instant::now(), 0_u64);
    let failed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz/plainly");
    for number in 0..count {
        let input = changed(&all, target.input_bytes_max, &mut dice);
        let outcome = std::panic::catch_unwind(|| (target.run)(&input));
        match outcome {
            Ok(is_believed) => believed += u64::from(is_believed),
            Err(panic) => {
                let path = failed.join(format!("{}-{seed}-{number}", target.name));
                let kept = std::fs::create_dir_all(&failed).and_then(|()| std::fs::write(&path, &input));
                eprintln!("it failed with {} ({kept:?})", path.display());
                std::panic::resume_unwind(panic);
            }
        }
        if (number + 1).is_power_of_two() || number + 1 == count {
            println!(
                "{}: {} of {} were believed, {:.0} s",
                target.name,
                believed,
                number + 1,
                began.elapsed().as_secs_f64()
            );
        }
    }
}

/// What is kept, and the seeds.
fn first_inputs(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target.name);
    let kept =
        std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| std::fs::read(entry.ok()?.path()).ok());
    let seeds = seeds::all().into_iter().filter(|seed| seed.target == target.name).map(|seed| seed.bytes);
    kept.chain(seeds).collect()
}

/// One of them, with some changes.
fn changed(all: &[Vec<u8>], bytes_max: usize, dice: &mut Dice) -> Vec<u8> {
    let mut input = all[below(dice, all.len())].clone();
    for _ in 0..=dice.throw() % CHANGES_MAX {
        let at = below(dice, input.len() + 1);
        match dice.throw() % 6 {
            0 => input.insert(at, dice.throw() as u8),
            1 if at < input.len() => _ = input.remove(at),
            2 if at < input.len() => input[at] ^= 1 << (dice.throw() % 8),
            3 if at < input.len() => input[at] = dice.throw() as u8,
            4 => input.truncate(at.max(1)),
            _ => {
                let other = &all[below(dice, all.len())];
                let from = below(dice, other.len() + 1);
                let count = below(dice, 16).min(other.len() - from);
                input.splice(at..at, other[from..from + count].iter().copied());
            }
        }
    }
    input.truncate(bytes_max);
    input
}

fn below(dice: &mut Dice, end: usize) -> usize {
    dice.below(end as u64) as usize
}
