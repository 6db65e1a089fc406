//! Everything that a developer runs: `cargo xtask ci`, `test`, `lab`, `crash`, `fuzz`, `bench`.

mod bench;
mod cargo;
mod ci;
mod fuzz;
mod lab;
mod packages;
mod slow_disk;
mod tally;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Everything that a developer runs")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// What continuous integration runs: formatting, lints, dependencies, then `test`.
    Ci,
    /// All tests, the crash ledger's and the lab's share included.
    Test,
    /// The suites that need a Linux guest with the kernel's NFS client.
    Lab(lab::Options),
    /// The kill ledger: clients, a server that is killed at random, and what they were promised.
    Crash(test::Crash),
    /// The fuzz targets, with libFuzzer and a nightly compiler.
    Fuzz(fuzz::Fuzz),
    /// Benchmarks.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// A block device that is slow in the same way every time; the lab's guest runs it.
    SlowDisk(slow_disk::Options),
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Ci => ci::run(),
        Task::Test => test::run(),
        Task::Lab(options) => lab::run(&options)?.into_result(),
        Task::Crash(crash) => crash.run()?.into_result(),
        Task::Fuzz(fuzz) => fuzz.run(),
        Task::Bench(bench) => bench.run(),
        Task::SlowDisk(options) => slow_disk::run(&options),
    }
}
