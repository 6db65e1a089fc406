//! Everything that a developer runs: `cargo xtask ci`, `test`, `lab`, `crash`, `sim`, `fuzz`, `dashboard`, `bench`, `package`, `versions`, `smb`, `xdr`.

mod ci;
mod dashboard;
mod failing_disks;
mod fuzz;
mod needing;
mod package;
mod sim;
mod test;
mod versions;
mod xdr;

use std::process::ExitCode;

use std::time::Instant;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tally_lab::{crash_images, guests, recording, slow_disk, smb};

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
    Lab(guests::Options),
    /// The kill ledger: clients, a server that is killed at random, and what they were promised.
    Crash(test::Crash),
    /// The binary over disks that fail, hang and lose: a folder passed through FUSE, with rules.
    FailingDisks(failing_disks::FailingDisks),
    /// The simulated world: random histories with power cuts, each owned by its seed; and bugs planted in it.
    Sim(sim::Sim),
    /// The simulated world: all short sequences of requests, and every cut of the power in them.
    Cuts(sim::Cuts),
    /// What clients of version 4 hold over all lives of a server: random histories, each owned by its seed.
    Holding(sim::Holding),
    /// The fuzz targets, with libFuzzer and a nightly compiler.
    Fuzz(fuzz::Fuzz),
    /// Hostile hosts against the release binary: what a good client notices of them, and what they cost.
    Attacks(tally_yardsticks::attacks::Options),
    /// Clients of NFSv4 that take as much state as they are given, against the release binary: what they are told, and what it costs others.
    Hoards(tally_yardsticks::hoards::Options),
    /// The dashboard of a live server under load, in a headless Chromium; pictures go to target/dashboard.
    Dashboard(dashboard::Options),
    /// The Debian package, in target/package.
    Package(package::Package),
    /// An older version and this one over the same pools, up, down and up.
    Versions(versions::Versions),
    /// Samba's own suites over a dataset, and what differs from a directory of this machine.
    Smb(smb::Options),
    /// NFSv4's test codec, from the RFCs' XDR.
    Xdr(xdr::Xdr),
    /// Benchmarks.
    #[command(subcommand)]
    Bench(tally_yardsticks::Bench),
    /// Turns a recording of disks into what power cuts would have left of them, and has the server import each.
    CrashImages(crash_images::Options),
    /// Block devices that write down what they are told; the lab's guest runs them.
    RecordDisks(recording::disks::Options),
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
        Task::Test => test::run(Instant::now()),
        Task::Lab(options) => guests::run(&options)?.into_result(),
        Task::Crash(crash) => crash.run()?.into_result(),
        Task::FailingDisks(disks) => disks.run()?.into_result(),
        Task::Sim(sim) => sim.run(),
        Task::Cuts(cuts) => cuts.run(),
        Task::Holding(holding) => holding.run(),
        Task::Fuzz(fuzz) => fuzz.run(),
        Task::Attacks(options) => options.run(),
        Task::Hoards(options) => options.run(),
        Task::Dashboard(options) => options.run()?.into_result(),
        Task::Package(package) => package.run()?.into_result(),
        Task::Versions(versions) => versions.run()?.into_result(),
        Task::Smb(options) => smb::run(&options)?.into_result(),
        Task::Xdr(xdr) => xdr.run(),
        Task::Bench(bench) => bench.run(),
        Task::CrashImages(options) => crash_images::run(&options)?.into_result(),
        Task::RecordDisks(options) => recording::disks::run(&options),
        Task::SlowDisk(options) => slow_disk::run(&options),
    }
}
