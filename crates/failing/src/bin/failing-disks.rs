//! Runs cases over failing disks and counts them; or mounts a folder with rules, to try things by hand.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use tally_failing::cases::{CASES, Case, Given};
use tally_failing::folder::Folder;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs cases: those named, else all.
    Run {
        /// The binary.
        #[arg(long)]
        server: PathBuf,
        /// Where randomness starts; drawn and printed if not given.
        #[arg(long)]
        seed: Option<u64>,
        /// How many sectors rot, one after the other.
        #[arg(long, default_value_t = 30)]
        draws: u32,
        /// Names.
        cases: Vec<String>,
    },
    /// Passes a folder through until Ctrl-C.
    Mount {
        /// What is passed through.
        below: PathBuf,
        /// Where.
        at: PathBuf,
        /// The file of rules.
        rules: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("failing-disks: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<bool> {
    match task {
        Task::Run { server, seed, draws, cases } => {
            let known = |name: &String| CASES.iter().any(|case| case.name == *name);
            let unknown = cases.iter().find(|name| !known(name));
            let names = || CASES.map(|case| case.name).join(", ");
            ensure!(unknown.is_none(), "there is no case '{}', only {}", unknown.unwrap_or(&String::new()), names());
            let wanted = |case: &&Case| cases.is_empty() || cases.iter().any(|name| name == case.name);
            let seed = seed.unwrap_or_else(drawn);
            let binary = server.canonicalize().with_context(|| format!("there is no {}", server.display()))?;
            let given = Given { binary: &binary, seed, draws };
            let (mut passed, mut failed) = (0, 0);
            for case in CASES.iter().filter(wanted) {
                let started = std::time::Instant::now();
                match (case.run)(given) {
                    Ok(()) => passed += 1,
                    Err(error) => {
                        failed += 1;
                        eprintln!("{}, seed {seed}: {error:#}", case.name);
                    }
                }
                eprintln!("{}: {:.1} s", case.name, started.elapsed().as_secs_f64());
            }
            println!("{passed} passed, {failed} failed, 0 skipped");
            Ok(failed == 0)
        }
        Task::Mount { below, at, rules } => {
            let _mounted = Folder::mount(&below, &rules, &at)?;
            loop {
                std::thread::park();
            }
        }
    }
}

fn drawn() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ now.as_secs()
}
